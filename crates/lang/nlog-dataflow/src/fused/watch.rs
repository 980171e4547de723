//! Watched rows: a relation whose rows were each derived once so far keeps no rows and no counts, but a hash for each key.
//!
//! Most large relations are such: two rules, or two bindings of one rule, *could* derive a row of theirs, and never do. As long as
//! that holds, a derived row that comes is new and one that goes is gone, and a checked key has one row. A hash that comes a
//! second time is the sign that it may not hold any more: two derivations of a row, two rows with one key, or two
//! keys with one hash, which cannot be told apart here. The transaction is then dropped, the rows of the relation are
//! derived again and counted ([`State::count_again`](super::engine::State::count_again)), and the transaction runs once
//! more. No answer depends on a hash: a row that goes has been there, so its hash is there, and it is the hash of no
//! other key.
//!
//! A hash takes 9 to 18 bytes, where a counted row takes 4 for each column. Rows that are not stored hold no symbols, so their
//! values may be interned anew under other numbers; hashes are therefore those of values
//! ([`Hashes`](crate::symbol::Hashes)).

use hashbrown::HashTable;
use hashbrown::hash_table::{Entry, OccupiedEntry};

use crate::symbol::{Hashes, Symbol};

/// Relations with fewer rows are counted. Small in debug builds, so that tests have both kinds.
pub(crate) const WATCH_FROM: usize = if cfg!(debug_assertions) { 4 } else { 1 << 12 };

/// The number of parts of a set. Each grows by itself, so that no single transaction waits until millions of hashes have moved.
const PARTS: usize = 256;

/// The hashes that differ. Debug builds take fewer, so that tests meet equal ones.
const HASHES: u64 = if cfg!(debug_assertions) { (1 << 24) - 1 } else { u64::MAX };

/// A set of hashes, and its changes in the running transaction.
#[derive(Debug)]
pub(crate) struct Watch {
    parts: Vec<Part>,
    len: usize,
    /// Whether the running transaction has begun it.
    is_new: bool,
    /// The hashes that the running transaction has inserted and, marked with `false`, removed, in this order.
    staged: Vec<(u64, bool)>,
}

/// A part of a set. What was restored stays as it is until there is time to move it, since that takes as long as all the rest of a restart.
#[derive(Debug, Default)]
struct Part {
    table: HashTable<u64>,
    /// Ascending hashes that were restored and are not in the table.
    restored: Vec<u64>,
    /// Those of them that were removed since.
    removed: HashTable<u64>,
}

/// The most parts that move into tables in idle time at once.
const MOVED: usize = 16;

/// The hash of a key.
#[inline]
pub(crate) fn hash_of(key: impl Iterator<Item = Symbol>, hashes: &Hashes<'_>) -> u64 {
    hashes.of(key) & HASHES
}

impl Watch {
    /// A set of hashes, which `each` passes on; `None` if two are equal.
    pub(crate) fn of(each: impl FnOnce(&mut dyn FnMut(u64))) -> Option<Self> {
        // By part, so that the tables are filled one after the other: each fits into a cache.
        let mut by_part: Vec<Vec<u64>> = vec![Vec::new(); PARTS];
        each(&mut |hash| by_part[part(hash)].push(hash));
        let mut watch = Watch { parts: Vec::with_capacity(PARTS), len: 0, is_new: true, staged: Vec::new() };
        for hashes in by_part {
            let mut table = HashTable::with_capacity(hashes.len());
            for hash in &hashes {
                if !insert(&mut table, *hash) {
                    return None;
                }
            }
            watch.len += hashes.len();
            watch.parts.push(Part { table, ..Part::default() });
        }
        Some(watch)
    }

    /// A set of hashes that [`Watch::hashes`] returned; `None` if it cannot have returned them.
    pub(crate) fn restore(hashes: &[u64]) -> Option<Self> {
        let place = |hash: &u64| (part(*hash), *hash);
        if !hashes.is_sorted_by(|one, other| place(one) < place(other)) {
            return None;
        }
        let mut parts: Vec<Part> = (0..PARTS).map(|_| Part::default()).collect();
        for of_part in hashes.chunk_by(|one, other| part(*one) == part(*other)) {
            parts[part(of_part[0])].restored = of_part.to_vec();
        }
        Some(Watch { parts, len: hashes.len(), is_new: false, staged: Vec::new() })
    }

    /// Moves some of what was restored into tables, which are faster. Meant for idle time.
    pub(crate) fn merge(&mut self) {
        let restored = self.parts.iter_mut().filter(|part| !part.restored.is_empty());
        restored.take(MOVED).for_each(Part::settle);
    }

    /// Adds a hash that is absent.
    pub(crate) fn insert(&mut self, hash: u64) {
        let was_absent = self.parts[part(hash)].insert(hash);
        debug_assert!(was_absent);
        self.len += 1;
        self.staged.push((hash, true));
    }

    /// Removes a hash that is present.
    pub(crate) fn remove(&mut self, hash: u64) {
        let was_present = self.parts[part(hash)].remove(hash);
        debug_assert!(was_present);
        self.len -= 1;
        self.staged.push((hash, false));
    }

    pub(crate) fn has(&self, hash: u64) -> bool {
        self.parts[part(hash)].has(hash)
    }

    /// Whether the running transaction has begun it, so that it ends with the transaction if that is refused.
    pub(crate) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Keeps the changes of the running transaction.
    pub(crate) fn publish(&mut self) {
        self.is_new = false;
        self.staged.clear();
        // Gives the memory of a large transaction back.
        self.staged.shrink_to(1 << 12);
    }

    /// Takes the changes of the running transaction back.
    pub(crate) fn discard(&mut self) {
        for (hash, is_inserted) in std::mem::take(&mut self.staged).into_iter().rev() {
            let part = &mut self.parts[part(hash)];
            if is_inserted {
                part.remove(hash);
                self.len -= 1;
            } else {
                part.insert(hash);
                self.len += 1;
            }
        }
    }

    /// The hashes, those of a part ascending.
    pub(crate) fn hashes(&self) -> Vec<u64> {
        let mut hashes = Vec::with_capacity(self.len);
        for part in &self.parts {
            let begin = hashes.len();
            hashes.extend(part.table.iter().copied().chain(part.left()));
            hashes[begin..].sort_unstable();
        }
        hashes
    }

    /// Visits the hashes, in no particular order.
    pub(crate) fn for_each(&self, each: impl FnMut(u64)) {
        self.parts.iter().flat_map(|part| part.table.iter().copied().chain(part.left())).for_each(each);
    }

    /// The number of hashes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The size of the set in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.parts.iter().map(Part::bytes).sum()
    }
}

impl Part {
    fn has(&self, hash: u64) -> bool {
        is_in(&self.table, hash) || (self.is_restored(hash) && !is_in(&self.removed, hash))
    }

    #[inline]
    fn is_restored(&self, hash: u64) -> bool {
        !self.restored.is_empty() && self.restored.binary_search(&hash).is_ok()
    }

    /// Adds a hash. Returns whether it was absent.
    fn insert(&mut self, hash: u64) -> bool {
        if self.is_restored(hash) { remove(&mut self.removed, hash) } else { insert(&mut self.table, hash) }
    }

    /// Removes a hash. Returns whether it was present.
    fn remove(&mut self, hash: u64) -> bool {
        if self.is_restored(hash) { insert(&mut self.removed, hash) } else { remove(&mut self.table, hash) }
    }

    /// The restored hashes that were not removed.
    fn left(&self) -> impl Iterator<Item = u64> {
        self.restored.iter().copied().filter(|hash| !is_in(&self.removed, *hash))
    }

    /// Moves what was restored into the table.
    fn settle(&mut self) {
        let left: Vec<u64> = self.left().collect();
        (self.restored, self.removed) = (Vec::new(), HashTable::new());
        self.table.reserve(left.len(), |other| *other);
        for hash in left {
            insert(&mut self.table, hash);
        }
    }

    fn bytes(&self) -> usize {
        self.table.allocation_size() + self.removed.allocation_size() + size_of_val(&self.restored[..])
    }
}

/// The part of a hash. Tables use its lowest and its highest bits, so that a part must be chosen by others.
fn part(hash: u64) -> usize {
    (hash >> 32) as usize % PARTS
}

#[inline]
fn is_in(table: &HashTable<u64>, hash: u64) -> bool {
    table.find(hash, |other| *other == hash).is_some()
}

fn insert(table: &mut HashTable<u64>, hash: u64) -> bool {
    let entry = table.entry(hash, |other| *other == hash, |other| *other);
    match entry {
        Entry::Occupied(_) => false,
        Entry::Vacant(vacant) => {
            vacant.insert(hash);
            true
        }
    }
}

fn remove(table: &mut HashTable<u64>, hash: u64) -> bool {
    table.find_entry(hash, |other| *other == hash).map(OccupiedEntry::remove).is_ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use test_random::Random;

    use super::*;

    fn hash(random: &mut Random) -> u64 {
        random.below(400).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    #[test]
    fn a_watch_is_a_set_whose_changes_can_be_taken_back() {
        let mut random = Random::new(1);
        let mut known: BTreeSet<u64> = (0..200).map(|_| hash(&mut random)).collect();
        let mut watch = Watch::of(|each| known.iter().for_each(|hash| each(*hash))).expect("all differ");
        for _ in 0..600 {
            let mut after = known.clone();
            for _ in 0..random.below(40) {
                let hash = hash(&mut random);
                assert_eq!(watch.has(hash), after.contains(&hash));
                if after.remove(&hash) {
                    watch.remove(hash);
                } else {
                    after.insert(hash);
                    watch.insert(hash);
                }
            }
            if random.chance(50) {
                watch.publish();
                known = after;
            } else {
                watch.discard();
            }
            assert_eq!(watch.len(), known.len());
            match random.below(10) {
                0 => watch = Watch::restore(&watch.hashes()).expect("they are in order"),
                1 => watch.merge(),
                _ => {}
            }
        }
        assert!((0..400_u64).all(|number| {
            let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            watch.has(hash) == known.contains(&hash)
        }));
    }

    #[test]
    fn equal_hashes_are_not_watched() {
        assert!(Watch::of(|each| [1, 2 << 40, 3, 2 << 40].into_iter().for_each(each)).is_none());
    }
}
