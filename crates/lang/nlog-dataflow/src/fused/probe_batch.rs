//! Probe batches: bindings that wait for a probe.
//!
//! A batch is sorted by key, so that one ordered pass through the index serves all its bindings. If dropped variables
//! can make different bindings equal, the batch waits for more bindings and replaces equal ones by a single binding
//! with the sum of their counts (early projection). Otherwise the number of bindings would multiply from probe to
//! probe: a path of five steps through 100 fully connected nodes has 10¹² bindings, but never more than 10⁴ distinct
//! ones before a probe.
//!
//! Waiting costs a sort outside the processor's cache, so it has to pay. A full batch in which few bindings are equal is
//! processed at once, and most of the next ones are not merged at all. Equal bindings may still be far apart: a run with
//! as many bindings as the largest batch holds lets one batch grow to that size.

use super::delta::{Diff, TooMany};
use super::keys::{Keys, Place};
use crate::symbol::Symbol;

/// The size of a batch, in bindings: large enough for sorted passes to pay off, small enough for the CPU's cache.
const BATCH: usize = 1 << 14;

/// The size of a batch in which equal bindings cannot arrive. Smaller in debug builds, so that tests have several batches.
const PLAIN: usize = if cfg!(debug_assertions) { 1 << 6 } else { BATCH };

/// The maximum size of a batch that waits for equal bindings.
const MOST: usize = if cfg!(test) { 1 << 16 } else { 1 << 21 };

/// The size of a batch whose bindings are looked up in any order: they stay in the processor's first cache.
const DIRECT: usize = PLAIN >> 5;

/// Of this many batches after one that was merged in vain, only the last is merged.
const TRIED: u32 = 16;

/// Bindings that wait for a probe.
pub(super) struct ProbeBatch {
    /// The key of each binding, and the binding's position.
    pub(super) keys: Keys,
    pub(super) bindings: Bindings,
    /// Whether equal bindings can arrive.
    repeats: bool,
    /// The number of bindings at which the batch is full.
    full: usize,
    /// The number of bindings after the batch was last merged; they are sorted.
    merged: usize,
    vain: Vain,
    /// Whether bindings are looked up in any order.
    is_direct: bool,
}

/// The bindings of a run that were processed because merging them was in vain.
#[derive(Debug, Clone, Copy)]
struct Vain {
    bindings: usize,
    /// The number of bindings at which the batch may grow to its maximum size.
    limit: usize,
    /// The number of batches until one is merged again.
    skipped: u32,
}

impl Default for Vain {
    fn default() -> Self {
        Vain { bindings: 0, limit: MOST, skipped: 0 }
    }
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
        ProbeBatch {
            keys: Keys::new(key),
            bindings: Bindings::default(),
            repeats,
            full: size(repeats),
            merged: 0,
            vain: Vain::default(),
            is_direct: false,
        }
    }

    /// Whether bindings may be looked up as they come: the batch was full, and equal ones cannot arrive or seldom did.
    pub(super) fn may_be_direct(&self, processed: usize) -> bool {
        processed >= size(self.repeats) && !self.is_direct && (!self.repeats || self.vain.skipped > 0)
    }

    /// Lets bindings be looked up as they come, a few at a time, until the run ends.
    pub(super) fn begin_direct(&mut self) {
        (self.is_direct, self.full) = (true, DIRECT);
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.bindings.diffs.len() >= self.full
    }

    /// Whether a full batch must be processed. If equal bindings can arrive, merges them instead and lets the batch
    /// wait for more, unless merging freed little room. `width` is the number of kept slots.
    pub(super) fn is_due(&mut self, width: usize) -> bool {
        if !self.repeats || self.is_direct {
            return true;
        }
        let before = self.bindings.diffs.len();
        if self.full == BATCH && self.vain.skipped > 0 {
            self.vain.skipped -= 1;
            self.vain.bindings += before;
            return true;
        }
        // Ignore an overflow: it is detected again when the batch is processed.
        if self.merge(width).is_err() {
            return true;
        }
        let after = self.bindings.diffs.len();
        if after > before - before / 8 {
            return self.was_merged_in_vain(after);
        }
        self.vain = Vain::default();
        let is_due = self.full == MOST && after > MOST / 2;
        if after > self.full / 2 {
            self.full = (2 * self.full).min(MOST);
        }
        is_due
    }

    /// Lets a batch without equal bindings be processed, or grow to its maximum size if so many have been processed. Returns whether
    /// it must be processed.
    fn was_merged_in_vain(&mut self, bindings: usize) -> bool {
        let vain = &mut self.vain;
        vain.bindings += bindings;
        vain.skipped = TRIED - 1;
        if self.full == MOST {
            // The next attempt is worth it after four times as many.
            *vain = Vain { bindings: 0, limit: vain.limit.saturating_mul(4), ..*vain };
            self.full = BATCH;
            return true;
        }
        if vain.bindings >= vain.limit {
            vain.skipped = 0;
            self.full = MOST;
            return false;
        }
        self.full = BATCH;
        true
    }

    /// Sorts by key. Merges equal bindings, unless most bindings before were merged in vain.
    pub(super) fn sort(&mut self, width: usize) -> Result<(), TooMany> {
        if self.is_direct {
            return Ok(());
        }
        if self.repeats && self.vain.skipped == 0 {
            return self.merge(width);
        }
        match &mut self.keys {
            Keys::One(keys) => sort(keys),
            Keys::Three(keys) => sort(keys),
            Keys::More(keys) => sort(keys),
        }
        Ok(())
    }

    /// Sorts by key and merges equal bindings.
    fn merge(&mut self, width: usize) -> Result<(), TooMany> {
        let ProbeBatch { keys, bindings, .. } = self;
        if self.merged == bindings.diffs.len() {
            return Ok(());
        }
        match keys {
            Keys::One(keys) => merge(keys, bindings, width)?,
            Keys::Three(keys) => merge(keys, bindings, width)?,
            Keys::More(keys) => merge(keys, bindings, width)?,
        }
        self.merged = self.bindings.diffs.len();
        Ok(())
    }

    pub(super) fn clear(&mut self) {
        self.keys.clear();
        self.bindings.kept.clear();
        self.bindings.diffs.clear();
        self.bindings.failures.clear();
        self.merged = 0;
    }

    /// Frees the memory of an empty batch that had grown large, and forgets what the run has shown.
    pub(super) fn shrink(&mut self) {
        if self.bindings.diffs.capacity() > 2 * BATCH {
            self.keys.shrink();
            self.bindings = Bindings::default();
        }
        self.full = size(self.repeats);
        self.vain = Vain::default();
        self.is_direct = false;
    }
}

/// The size at which a batch is full first.
fn size(repeats: bool) -> usize {
    if repeats { BATCH } else { PLAIN }
}

fn sort<K: Place>(keys: &mut [K]) {
    if !keys.is_sorted() {
        keys.sort_unstable();
    }
}

fn merge<K: Place>(keys: &mut Vec<K>, bindings: &mut Bindings, width: usize) -> Result<(), TooMany> {
    sort(keys);
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

    /// Adds a binding. Returns the number of bindings if the batch must be processed.
    fn add(batch: &mut ProbeBatch, binding: (Symbol, Symbol, Diff)) -> Option<usize> {
        fill(batch, 1, &[binding]);
        (batch.is_full() && batch.is_due(1)).then(|| {
            batch.sort(1).expect("small numbers");
            let bindings = batch.bindings.diffs.len();
            batch.clear();
            bindings
        })
    }

    #[test]
    fn a_batch_waits_for_equal_bindings() {
        let mut batch = ProbeBatch::new(1, true);
        for at in 0..20 * BATCH as Symbol {
            assert_eq!(add(&mut batch, (at % 100, at % 90, 1)), None, "there are 900 different ones");
        }
        batch.sort(1).expect("small numbers");
        assert_eq!(batch.bindings.diffs.len(), 900);
        assert_eq!(batch.bindings.diffs.iter().sum::<Diff>(), 20 * BATCH as Diff);
    }

    #[test]
    fn a_batch_of_different_bindings_is_processed_and_equal_ones_far_apart_are_found_all_the_same() {
        let all = 32 * MOST as Symbol;
        let mut batch = ProbeBatch::new(1, true);
        let mut processed = 0;
        for at in 0..all {
            // Each comes again after two batches.
            let found = add(&mut batch, (at % (2 * BATCH as Symbol), 0, 1));
            if at < MOST as Symbol {
                assert_eq!(found, (at + 1).is_multiple_of(BATCH as Symbol).then_some(BATCH));
            }
            processed += found.unwrap_or_default();
        }
        assert!(processed <= 5 * MOST, "{processed} of {all} bindings");
        let mut batch = ProbeBatch::new(1, true);
        let sizes: Vec<usize> = (0..all).filter_map(|at| add(&mut batch, (at, 0, 1))).collect();
        assert!(sizes.iter().all(|size| [BATCH, MOST].contains(size)), "{sizes:?}");
        assert_eq!(sizes.iter().filter(|size| **size == MOST).count(), 3, "fewer and fewer are as large");
        assert_eq!(sizes.iter().sum::<usize>() + batch.bindings.diffs.len(), all as usize, "none is lost");
    }

    #[test]
    fn a_sum_that_does_not_fit_is_noticed_after_batches_in_vain() {
        let mut batch = ProbeBatch::new(1, true);
        for at in 0..BATCH as Symbol {
            assert_eq!(add(&mut batch, (at, 0, 1)).is_some(), at + 1 == BATCH as Symbol);
        }
        fill(&mut batch, 1, &[(7, 7, Diff::MAX), (7, 7, 1)]);
        // Not merged, so that their counts are checked where rows end.
        assert_eq!(batch.sort(1), Ok(()));
        batch.clear();
        batch.shrink();
        fill(&mut batch, 1, &[(7, 7, Diff::MAX), (7, 7, 1)]);
        assert_eq!(batch.sort(1), Err(TooMany));
    }
}
