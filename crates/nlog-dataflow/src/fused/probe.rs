//! Probes: lookups of ascending keys in several batches at once.
//!
//! The batches are differential's; only the search is ours. A cursor's `seek_key` searches a batch's keys from its
//! current position. In a batch of a million keys, each step misses the CPU's caches, which took half of a small
//! transaction's time. Each batch therefore has samples of its keys, like the levels of a B-tree: the coarsest are small
//! enough to stay cached, and a search ends among the few keys between two samples. Most keys of a small transaction are in
//! one batch of ten or in none. A filter (a Bloom filter with each key in one word of 64 bits) avoids the search in nearly
//! all other batches.
//!
//! The word of a filter is a cache miss too, which was half of the time of a look-up. So the filters are read for several
//! keys ahead ([`Probe::expect`]): the processor then waits for these misses together, not one after the other.

use std::rc::Rc;

use super::batch::Batch;
use super::delta::Diff;
use super::trace::{Count, sum_equal};
use crate::row::{Row, mix};

/// One key in this many is in the finest sample, and one of these in the next.
const SAMPLED: usize = 16;

/// Take a sample of as many keys as this, or more.
const WORTH_SAMPLING: usize = 64;

/// Examine this many keys in order before searching the sample.
const NEAR: usize = 8;

/// Give batches of at least this many keys a filter.
const FILTERED: usize = 32;

/// The number of keys whose filters are read together.
pub(super) const AHEAD: usize = 32;

/// Read filters ahead if the batches have at least this many keys for each key that is looked up. Otherwise most keys are
/// near the one before, and no filter is read.
const SPARSE: usize = 64;

/// A non-empty batch, with the data that makes searching it fast.
pub(crate) struct Sampled<K: Row, V: Row, C: Count> {
    pub(crate) batch: Rc<Batch<K, V, C>>,
    /// Samples, the finest first: of the keys, then each of the one before.
    samples: Vec<Vec<K>>,
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
        let filter = Filter::new(keys);
        let mut samples: Vec<Vec<K>> = Vec::new();
        loop {
            let sampled = samples.last().unwrap_or(keys);
            if sampled.len() < WORTH_SAMPLING {
                break;
            }
            samples.push(sampled.iter().step_by(SAMPLED).copied().collect());
        }
        Sampled { batch, samples, filter }
    }

    /// The position of a key, if it is not before `from`; otherwise a position from which all greater keys can be
    /// found. `may_have` asks the filter.
    #[inline]
    fn seek(&self, from: usize, is_near: bool, key: &K, may_have: impl FnOnce() -> bool) -> usize {
        let keys = &self.batch.storage.keys;
        if keys.get(from).is_none_or(|first| first >= key) {
            return from;
        }
        // If the last step was long, the next one usually is too.
        let near = if is_near { (from + NEAR).min(keys.len()) } else { from };
        if let Some(found) = keys[from..near].iter().position(|other| other >= key) {
            return from + found;
        }
        if !may_have() {
            return from;
        }
        // A sample holds the keys at multiples of `SAMPLED`. The first one that is not less than `key` ends the range to
        // search below it.
        let (mut begin, mut end) = (0, usize::MAX);
        for sample in self.samples.iter().rev() {
            let range = begin..end.min(sample.len());
            let passed = begin + sample[range].partition_point(|other| other < key);
            (begin, end) = ((passed * SAMPLED).saturating_sub(SAMPLED), passed * SAMPLED);
        }
        let begin = begin.max(near);
        let end = end.min(keys.len()).max(begin);
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
    /// The next keys, each with a bit for each of the first 64 batches whose filter lets it pass.
    ahead: Vec<(K, u64)>,
    /// The number of those that were looked up.
    passed: usize,
}

impl<'a, K: Row, V: Row, C: Count> Probe<'a, K, V, C> {
    pub(crate) fn new(batches: impl Iterator<Item = &'a Sampled<K, V, C>>) -> Self {
        let batches = batches.map(|batch| (batch, 0, true)).collect();
        Probe { batches, found: Vec::new(), key: None, ahead: Vec::new(), passed: 0 }
    }

    /// Whether so few keys are looked up that [`Probe::expect`] makes it faster.
    pub(super) fn is_sparse(&self, keys: usize) -> bool {
        let all: usize = self.batches.iter().map(|(batch, ..)| batch.batch.storage.keys.len()).sum();
        keys > 1 && all / SPARSE >= keys
    }

    /// Reads the filters for the keys that will be looked up next, at most [`AHEAD`].
    pub(super) fn expect(&mut self, keys: impl Iterator<Item = K>) {
        self.ahead.clear();
        self.passed = 0;
        self.ahead.extend(keys.map(|key| (key, 0)));
        self.ahead.dedup_by_key(|(key, _)| *key);
        for (at, (batch, ..)) in self.batches.iter().take(u64::BITS as usize).enumerate() {
            for (key, passes) in &mut self.ahead {
                *passes |= u64::from(batch.filter.may_have(mix(key.words()))) << at;
            }
        }
    }

    /// What [`Probe::expect`] found out about a key.
    fn expected(&mut self, key: &K) -> Option<u64> {
        let ahead = &self.ahead[self.passed..];
        self.passed += ahead.iter().take_while(|(next, _)| next < key).count();
        self.ahead.get(self.passed).filter(|(next, _)| next == key).map(|(_, passes)| *passes)
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
        let expected = self.expected(key);
        let (mut hits, hash) = (0, mix(key.words()));
        for (number, (batch, at, is_near)) in self.batches.iter_mut().enumerate() {
            let next = batch.seek(*at, *is_near, key, || match expected {
                Some(passes) if number < u64::BITS as usize => passes >> number & 1 == 1,
                _ => batch.filter.may_have(hash),
            });
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
    use crate::row::{Narrow, narrow as row};

    #[test]
    fn every_key_is_found_from_wherever_the_search_stands() {
        for keys in [1, 7, 8, 9, 63, 64, 65, 128, 1000, 1023, 1024, 1025, 20_000] {
            let mut trace: Trace<Narrow, Narrow, Rows> = Trace::new();
            // Even keys are present.
            let rows = (0..keys).map(|key| ((row(key * 2), row(key)), 1));
            trace.stage(rows.collect()).expect("small numbers");
            for step in [1, 2, 3, 17, 63, 64, 65, 129, 500] {
                let mut probe = trace.probe(View::After);
                let wanted: Vec<u32> = (0..keys * 2 + 200).step_by(step).collect();
                for (at, key) in wanted.iter().copied().enumerate() {
                    // Filters are read ahead for some keys, and others come between them.
                    if at % 50 == 7 {
                        probe
                            .expect(wanted[at..].iter().step_by(1 + at % 3).take(AHEAD).map(|key| row(*key)));
                    }
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
