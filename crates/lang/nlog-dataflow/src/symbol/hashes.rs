//! The hashes of values by number, which all workers read without a lock: they are asked for with every row that is watched, and
//! with every binding that may belong to another worker.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The numbers in the first part. Each further part has twice as many as the one before it, so that no hash ever moves.
const FIRST_PART: u32 = 1 << 10;

/// Enough for all numbers of 26 bits.
const PARTS: usize = 17;

/// The hashes of the values of a shard.
#[derive(Debug)]
pub(super) struct ValueHashes {
    parts: [OnceLock<Box<[AtomicU64]>>; PARTS],
}

impl Default for ValueHashes {
    fn default() -> Self {
        ValueHashes { parts: std::array::from_fn(|_| OnceLock::new()) }
    }
}

/// The part that has a number, and the place in it.
#[inline]
fn place(number: u32) -> (usize, usize) {
    let part = (number / FIRST_PART + 1).ilog2();
    (part as usize, (number + FIRST_PART - (FIRST_PART << part)) as usize)
}

impl ValueHashes {
    /// The hash of a value in use. Whoever has its symbol got it after the hash was stored, through a lock or a channel, so no
    /// stronger order is needed.
    #[inline]
    pub(super) fn get(&self, number: u32) -> u64 {
        let (part, at) = place(number);
        self.parts[part].get().map_or(0, |part| part[at].load(Ordering::Relaxed))
    }

    /// Stores the hash of a value, before anybody else learns its number.
    #[inline]
    pub(super) fn set(&self, number: u32, hash: u64) {
        let (part, at) = place(number);
        let hashes =
            self.parts[part].get_or_init(|| (0..FIRST_PART << part).map(|_| AtomicU64::new(0)).collect());
        hashes[at].store(hash, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_place_of_its_own() {
        let mut wanted = (0..PARTS).flat_map(|part| [(part, 0), (part, (FIRST_PART << part) as usize - 1)]);
        let mut next = 0;
        for part in 0..PARTS {
            let last = next + (FIRST_PART << part) - 1;
            assert_eq!([Some(place(next)), Some(place(last))], [wanted.next(), wanted.next()]);
            next = last + 1;
        }
        assert!(next > super::super::SHARD_LIMIT, "all symbols have places");
    }

    #[test]
    fn a_number_has_the_hash_that_was_stored_last() {
        let hashes = ValueHashes::default();
        let numbers = [0, 1, FIRST_PART - 1, FIRST_PART, 3 * FIRST_PART - 1, 3 * FIRST_PART];
        for number in numbers {
            hashes.set(number, u64::from(number) + 7);
        }
        hashes.set(1, 5);
        let found = numbers.map(|number| hashes.get(number));
        assert_eq!(found, numbers.map(|number| if number == 1 { 5 } else { u64::from(number) + 7 }));
    }
}
