//! Probes: lookups of ascending keys in several batches at once.
//!
//! The batches are differential's; only the search is ours. A cursor's `seek_key` searches a batch's keys from its
//! current position. In a batch of a million keys, each step misses the CPU's caches, which took half of a small
//! transaction's time. Each batch therefore has a sample of its keys, small enough to stay cached, and a search ends
//! among the few keys between two samples. Most keys of a small transaction are in one batch of ten or in none. A
//! filter (a Bloom filter with each key in one word of 64 bits) avoids the search in nearly all other batches.

use std::rc::Rc;

use super::batch::Batch;
use super::delta::Diff;
use super::trace::{Count, sum_equal};
use crate::row::{Row, mix};

/// One key in this many is in the sample.
const SAMPLED: usize = 16;

/// Examine this many keys in order before searching the sample.
const NEAR: usize = 8;

/// Give batches of at least this many keys a filter.
const FILTERED: usize = 32;

/// A non-empty batch, with the data that makes searching it fast.
pub(crate) struct Sampled<K: Row, V: Row, C: Count> {
    pub(crate) batch: Rc<Batch<K, V, C>>,
    sample: Vec<K>,
    filter: Filter,
}

/// Recognises most absent keys; about three in a hundred pass as present.
struct Filter {
    /// A power of two words, or none if there is no filter.
    words: Vec<u64>,
}

impl Filter {
    fn new<K: Row>(keys: &[K]) -> Self {
        if keys.len() < FILTERED {
            return Filter { words: Vec::new() };
        }
        // Eight to sixteen bits for each key.
        let mut words = vec![0; (keys.len() / 8).next_power_of_two()];
        let last = words.len() - 1;
        for key in keys {
            let (word, bits) = Self::place(mix(key.words()));
            words[word & last] |= bits;
        }
        Filter { words }
    }

    /// The index of a word, before reduction, and the bits in it.
    #[inline]
    fn place(hash: u64) -> (usize, u64) {
        let bit = |from: u32| 1 << (hash >> from & 63);
        ((hash >> 24) as usize, bit(0) | bit(6) | bit(12))
    }

    #[inline]
    fn may_have(&self, hash: u64) -> bool {
        let (word, bits) = Self::place(hash);
        self.words.is_empty() || self.words[word & (self.words.len() - 1)] & bits == bits
    }
}

impl<K: Row, V: Row, C: Count> Sampled<K, V, C> {
    pub(crate) fn new(batch: Rc<Batch<K, V, C>>) -> Self {
        let keys = &batch.storage.keys;
        let sample = keys.iter().step_by(SAMPLED).copied().collect();
        let filter = Filter::new(keys);
        Sampled { batch, sample, filter }
    }

    /// The position of a key, if it is not before `from`; otherwise a position from which all greater keys can be
    /// found.
    #[inline]
    fn seek(&self, from: usize, is_near: bool, key: &K, hash: u64) -> usize {
        let keys = &self.batch.storage.keys;
        if keys.get(from).is_none_or(|first| first >= key) || !self.filter.may_have(hash) {
            return from;
        }
        // If the last step was long, the next one usually is too.
        let near = if is_near { (from + NEAR).min(keys.len()) } else { from };
        if let Some(found) = keys[from..near].iter().position(|other| other >= key) {
            return from + found;
        }
        // The sample holds the keys at multiples of `SAMPLED`. The first one that is not less than `key` ends the
        // range to search.
        let first = near.div_ceil(SAMPLED).min(self.sample.len());
        let passed = first + self.sample[first..].partition_point(|other| other < key);
        let begin = near.max((passed * SAMPLED).saturating_sub(SAMPLED));
        let end = (passed * SAMPLED).min(keys.len()).max(begin);
        begin + keys[begin..end].partition_point(|other| other < key)
    }

    /// The values of the key at a position, with their counts.
    #[inline]
    fn values(&self, at: usize, found: &mut Vec<(V, Diff)>) {
        let storage = &self.batch.storage;
        let (first, end) = storage.vals.bounds(at);
        for value in first..end {
            let (from, to) = storage.upds.bounds(value);
            let count = storage.upds.diffs[from..to].iter().map(|count| count.diff()).sum();
            if count != 0 {
                found.push((storage.vals.vals[value], count));
            }
        }
    }
}

/// Finds the values under ascending keys.
pub(crate) struct Probe<'a, K: Row, V: Row, C: Count> {
    /// Each batch, the position up to which it was searched, and whether the last step was short.
    batches: Vec<(&'a Sampled<K, V, C>, usize, bool)>,
    found: Vec<(V, Diff)>,
    key: Option<K>,
}

impl<'a, K: Row, V: Row, C: Count> Probe<'a, K, V, C> {
    pub(crate) fn new(batches: impl Iterator<Item = &'a Sampled<K, V, C>>) -> Self {
        Probe { batches: batches.map(|batch| (batch, 0, true)).collect(), found: Vec::new(), key: None }
    }

    /// The values under a key, ascending, with their counts. Keys must be passed in ascending order.
    #[inline]
    pub(crate) fn find(&mut self, key: &K) -> &[(V, Diff)] {
        if self.key.as_ref() != Some(key) {
            self.key = Some(*key);
            self.look_up(key);
        }
        &self.found
    }

    fn look_up(&mut self, key: &K) {
        self.found.clear();
        let (mut hits, hash) = (0, mix(key.words()));
        for (batch, at, is_near) in &mut self.batches {
            let next = batch.seek(*at, *is_near, key, hash);
            *is_near = next - *at <= NEAR;
            *at = next;
            if batch.batch.storage.keys.get(*at) == Some(key) {
                hits += 1;
                batch.values(*at, &mut self.found);
            }
        }
        if hits > 1 {
            sum_equal(&mut self.found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::trace::{Rows, Trace, View};
    use super::*;
    use crate::row::Narrow;

    fn row(word: u32) -> Narrow {
        let mut row = Narrow::default();
        row.words_mut()[0] = word;
        row
    }

    #[test]
    fn every_key_is_found_from_wherever_the_search_stands() {
        for keys in [1, 7, 8, 9, 63, 64, 65, 128, 1000] {
            let mut trace: Trace<Narrow, Narrow, Rows> = Trace::new();
            // Even keys are present.
            let rows = (0..keys).map(|key| ((row(key * 2), row(key)), 1));
            trace.stage(rows.collect()).expect("small numbers");
            for step in [1, 2, 3, 17, 63, 64, 65, 129, 500] {
                let mut probe = trace.probe(View::After);
                for key in (0..keys * 2 + 200).step_by(step) {
                    let found = probe.find(&row(key));
                    if key % 2 == 0 && key < keys * 2 {
                        assert_eq!(found, [(row(key / 2), 1)], "{key} of {keys}, {step} on");
                    } else {
                        assert!(found.is_empty(), "{key} of {keys}, {step} on");
                    }
                }
            }
        }
    }
}
