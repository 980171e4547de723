//! Probe batches: bindings that wait for a probe.
//!
//! A batch is sorted by key, so that one ordered pass through the index serves all its bindings. If dropped variables
//! can make different bindings equal, the batch waits for more bindings and replaces equal ones by a single binding
//! with the sum of their counts (early projection). Otherwise the number of bindings would multiply from probe to
//! probe: a path of five steps through 100 fully connected nodes has 10¹² bindings, but never more than 10⁴ distinct
//! ones before a probe.

use super::delta::{Diff, TooMany};
use super::keys::{Keys, Place};
use crate::symbol::Symbol;

/// The size of a batch, in bindings: large enough for sorted passes to pay off, small enough for the CPU's cache.
const BATCH: usize = 1 << 14;

/// The maximum size of a batch that waits for equal bindings.
const MOST: usize = if cfg!(test) { 1 << 16 } else { 1 << 21 };

/// Bindings that wait for a probe.
pub(super) struct ProbeBatch {
    /// The key of each binding, and the binding's position.
    pub(super) keys: Keys,
    pub(super) bindings: Bindings,
    /// Whether equal bindings can arrive.
    repeats: bool,
    /// The number of bindings at which the batch is full.
    full: usize,
}

#[derive(Debug, Default)]
pub(super) struct Bindings {
    /// The kept slots of each binding, one binding after another.
    pub(super) kept: Vec<Symbol>,
    pub(super) diffs: Vec<Diff>,
    /// By binding, the least failure that no slot holds; empty in pipelines that cannot fail.
    pub(super) failures: Vec<Symbol>,
}

impl Default for ProbeBatch {
    fn default() -> Self {
        ProbeBatch::new(0, false)
    }
}

impl ProbeBatch {
    /// A batch for keys of this many words.
    pub(super) fn new(key: usize, repeats: bool) -> Self {
        ProbeBatch { keys: Keys::new(key), bindings: Bindings::default(), repeats, full: BATCH }
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.bindings.diffs.len() >= self.full
    }

    /// Whether a full batch must be processed. If equal bindings can arrive, merges them instead and lets the batch
    /// wait for more. If merging freed little room, the batch grows, and once it exceeds the maximum size it must be
    /// processed. `width` is the number of kept slots.
    pub(super) fn is_due(&mut self, width: usize) -> bool {
        if !self.repeats {
            return true;
        }
        // Ignore an overflow: it is detected again when the batch is processed.
        let merged = self.sort(width).is_ok();
        if merged && self.bindings.diffs.len() > self.full / 2 {
            self.full *= 2;
        }
        !merged || self.full > MOST
    }

    /// Sorts by key, and merges equal bindings.
    pub(super) fn sort(&mut self, width: usize) -> Result<(), TooMany> {
        let ProbeBatch { keys, bindings, repeats, .. } = self;
        match keys {
            Keys::One(keys) => sort(keys, bindings, *repeats, width),
            Keys::Three(keys) => sort(keys, bindings, *repeats, width),
            Keys::More(keys) => sort(keys, bindings, *repeats, width),
        }
    }

    pub(super) fn clear(&mut self) {
        self.keys.clear();
        self.bindings.kept.clear();
        self.bindings.diffs.clear();
        self.bindings.failures.clear();
    }

    /// Frees the memory of an empty batch that had grown large.
    pub(super) fn shrink(&mut self) {
        if self.full > BATCH {
            self.keys.shrink();
            self.bindings = Bindings::default();
            self.full = BATCH;
        }
    }
}

fn sort<K: Place>(
    keys: &mut Vec<K>,
    bindings: &mut Bindings,
    repeats: bool,
    width: usize,
) -> Result<(), TooMany> {
    if !keys.is_sorted() {
        keys.sort_unstable();
    }
    if !repeats {
        return Ok(());
    }
    let of = |at: u32| {
        let at = at as usize;
        (&bindings.kept[at * width..(at + 1) * width], bindings.failures.get(at))
    };
    let mut merged = Bindings::default();
    let mut merged_keys = Vec::with_capacity(keys.len());
    let mut places: Vec<u32> = Vec::new();
    for of_key in keys.chunk_by(K::has_same_key) {
        places.clear();
        places.extend(of_key.iter().map(|place| place.at() as u32));
        if !places.is_sorted_by(|a, b| of(*a) <= of(*b)) {
            places.sort_unstable_by(|a, b| of(*a).cmp(&of(*b)));
        }
        for equal in places.chunk_by(|a, b| of(*a) == of(*b)) {
            // Partial sums may exceed 64 bits.
            let sum: i128 = equal.iter().map(|at| i128::from(bindings.diffs[*at as usize])).sum();
            let sum = Diff::try_from(sum).map_err(|_| TooMany)?;
            if sum != 0 {
                let (kept, failure) = of(equal[0]);
                merged_keys.push(of_key[0].moved(merged.diffs.len()));
                merged.kept.extend_from_slice(kept);
                merged.failures.extend(failure);
                merged.diffs.push(sum);
            }
        }
    }
    (*keys, *bindings) = (merged_keys, merged);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fills a batch with bindings: key, kept slot and count.
    fn fill(batch: &mut ProbeBatch, key: usize, bindings: &[(Symbol, Symbol, Diff)]) {
        for (word, kept, diff) in bindings {
            batch.keys.push(std::iter::repeat_n(*word, key), batch.bindings.diffs.len());
            batch.bindings.kept.push(*kept);
            batch.bindings.diffs.push(*diff);
        }
    }

    #[test]
    fn equal_bindings_become_one_whatever_the_width_of_their_key() {
        for key in [0, 1, 2, 3, 5] {
            let mut batch = ProbeBatch::new(key, true);
            let bindings =
                [(2, 7, 1), (1, 7, Diff::MAX), (2, 6, 4), (1, 7, 1), (2, 7, 2), (1, 7, -1), (1, 6, 0)];
            fill(&mut batch, key, &bindings);
            if key == 0 {
                // All bindings have the one key without words.
                assert_eq!(batch.sort(1), Err(TooMany));
                continue;
            }
            assert_eq!(batch.sort(1), Ok(()));
            assert_eq!((batch.bindings.kept, batch.bindings.diffs), (vec![7, 6, 7], vec![Diff::MAX, 4, 3]));
        }
    }

    #[test]
    fn a_lot_waits_for_equal_bindings_but_not_for_ever() {
        let (mut equal, mut different) = (ProbeBatch::new(1, true), ProbeBatch::new(1, true));
        for at in 0..20 * BATCH as Symbol {
            fill(&mut equal, 1, &[(at % 100, at % 90, 1)]);
            assert!(!(equal.is_full() && equal.is_due(1)), "there are 900 different ones");
        }
        equal.sort(1).expect("small numbers");
        assert_eq!(equal.bindings.diffs.len(), 900);
        assert_eq!(equal.bindings.diffs.iter().sum::<Diff>(), 20 * BATCH as Diff);
        let due = (0..20 * BATCH as Symbol).find(|at| {
            fill(&mut different, 1, &[(*at, 0, 1)]);
            different.is_full() && different.is_due(1)
        });
        assert_eq!(due, Some(MOST as Symbol - 1));
    }
}
