//! Probes: lookups of ascending keys in several batches at once.
//!
//! A search through the keys of a batch of a million misses the CPU's caches at each step, which took half of a small
//! transaction's time. Each batch therefore has samples of its keys, like the levels of a B-tree: the coarsest are small
//! enough to stay cached, and a search ends among the few keys between two samples. Most keys of a small transaction are in
//! one batch of ten or in none. A filter (a Bloom filter with each key in one word of 64 bits) avoids the search in nearly
//! all other batches.
//!
//! The word of a filter is a cache miss too, which was half of the time of a look-up. So the filters are read for several
//! keys ahead ([`Probe::expect`]): the processor then waits for these misses together, not one after the other.

use std::rc::Rc;

use super::batch::{Batch, Stride, Values, append, same};
use super::trace::Ways;
use crate::row::mix;
use crate::symbol::Symbol;

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
pub(crate) struct Sampled {
    pub(crate) batch: Rc<Batch>,
    /// The words of samples, the finest first: of the keys, then each of the one before.
    samples: Vec<Vec<Symbol>>,
    filter: Filter,
}

/// Recognises most absent keys; about three in a hundred pass as present.
struct Filter {
    /// A power of two words, or none if there is no filter.
    words: Vec<u64>,
}

impl Filter {
    fn new(batch: &Batch) -> Self {
        let keys = batch.key_count();
        if keys < FILTERED {
            return Filter { words: Vec::new() };
        }
        // Eight to sixteen bits for each key.
        let mut words = vec![0; (keys / 8).next_power_of_two()];
        let last = words.len() - 1;
        for at in 0..keys {
            let (word, bits) = Self::place(mix(batch.key(at)));
            words[word & last] |= bits;
        }
        Filter { words }
    }

    /// The index of a word, before reduction, and the bits in it.
    #[inline]
    fn place(hash: u64) -> (usize, u64) {
        // Keys of one word are mixed too little: twice as many absent ones would pass.
        let hash = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let bit = |from: u32| 1 << (hash >> from & 63);
        ((hash >> 24) as usize, bit(0) | bit(6) | bit(12))
    }

    #[inline]
    fn may_have(&self, hash: u64) -> bool {
        let (word, bits) = Self::place(hash);
        self.words.is_empty() || self.words[word & (self.words.len() - 1)] & bits == bits
    }
}

impl Sampled {
    pub(crate) fn new(batch: Rc<Batch>) -> Self {
        let (filter, width) = (Filter::new(&batch), batch.stride().key);
        let mut samples: Vec<Vec<Symbol>> = Vec::new();
        loop {
            let sampled = samples.last().map_or(batch.keys(), |words| words);
            // Without words, there is one key at most.
            if width == 0 || sampled.len() < WORTH_SAMPLING * width {
                break;
            }
            samples.push(sampled.chunks(width).step_by(SAMPLED).flatten().copied().collect());
        }
        Sampled { batch, samples, filter }
    }

    /// The position of a key, if it is not before `from`; otherwise a position from which all greater keys can be
    /// found. `may_have` asks the filter.
    #[inline]
    fn seek(&self, from: usize, is_near: bool, key: &[Symbol], may_have: impl FnOnce() -> bool) -> usize {
        let pair = |one: Symbol, two: Symbol| u64::from(one) << 32 | u64::from(two);
        // Nearly all keys have at most four words.
        match *key {
            [word] => self.seek_by(from, is_near, |keys, at| keys[at] < word, may_have),
            [one, two] => {
                let key = pair(one, two);
                let is_less = |keys: &[Symbol], at: usize| pair(keys[2 * at], keys[2 * at + 1]) < key;
                self.seek_by(from, is_near, is_less, may_have)
            }
            [one, two, three] => {
                let key = (pair(one, two), three);
                let is_less = |keys: &[Symbol], at: usize| {
                    let other = &keys[3 * at..][..3];
                    (pair(other[0], other[1]), other[2]) < key
                };
                self.seek_by(from, is_near, is_less, may_have)
            }
            [one, two, three, four] => {
                let key = (pair(one, two), pair(three, four));
                let is_less = |keys: &[Symbol], at: usize| {
                    let other = &keys[4 * at..][..4];
                    (pair(other[0], other[1]), pair(other[2], other[3])) < key
                };
                self.seek_by(from, is_near, is_less, may_have)
            }
            _ => {
                let is_less = |keys: &[Symbol], at: usize| keys[at * key.len()..][..key.len()] < *key;
                self.seek_by(from, is_near, is_less, may_have)
            }
        }
    }

    /// Like [`Sampled::seek`]. `is_less` tells whether the key at a position of some keys is less than the one sought.
    #[inline]
    fn seek_by(
        &self,
        from: usize,
        is_near: bool,
        is_less: impl Fn(&[Symbol], usize) -> bool,
        may_have: impl FnOnce() -> bool,
    ) -> usize {
        let (keys, count, width) = (self.batch.keys(), self.batch.key_count(), self.batch.stride().key);
        if from >= count || !is_less(keys, from) {
            return from;
        }
        // If the last step was long, the next one usually is too.
        let near = if is_near { (from + NEAR).min(count) } else { from };
        if let Some(found) = (from..near).find(|at| !is_less(keys, *at)) {
            return found;
        }
        if !may_have() {
            return from;
        }
        // A sample holds the keys at multiples of `SAMPLED`. The first one that is not less than `key` ends the range to
        // search below it.
        let (mut begin, mut end) = (0, usize::MAX);
        for sample in self.samples.iter().rev() {
            let passed = first(begin, end.min(sample.len() / width), |at| !is_less(sample, at));
            (begin, end) = ((passed * SAMPLED).saturating_sub(SAMPLED), passed * SAMPLED);
        }
        let begin = begin.max(near);
        first(begin, end.min(count).max(begin), |at| !is_less(keys, at))
    }
}

/// The first position in a range for which a condition holds, or the range's end. It holds for all positions after the first.
#[inline]
fn first(mut begin: usize, mut end: usize, holds: impl Fn(usize) -> bool) -> usize {
    while begin < end {
        let middle = begin.midpoint(end);
        if holds(middle) {
            end = middle;
        } else {
            begin = middle + 1;
        }
    }
    begin
}

/// Finds the values under ascending keys.
pub(crate) struct Probe<'a> {
    stride: Stride,
    /// Each batch, the position up to which it was searched, and whether the last step was short.
    batches: Vec<(&'a Sampled, usize, bool)>,
    /// The key that was looked up last.
    key: Option<Vec<Symbol>>,
    /// Its values, if at most one batch has any.
    of_one: Option<Values<'a>>,
    /// Its values otherwise.
    of_several: Merged,
    /// The same, while the values of one more batch are added.
    next: Merged,
    /// The words of the next keys.
    ahead: Vec<Symbol>,
    /// For each of those keys, a bit for each of the first 64 batches whose filter lets it pass.
    passes: Vec<u64>,
    /// The number of those keys that were looked up.
    passed: usize,
}

/// The values of several batches.
#[derive(Debug, Default)]
struct Merged {
    words: Vec<Symbol>,
    counts: Vec<Ways>,
}

impl Merged {
    fn fill(&mut self, one: Values<'_>, other: Values<'_>) {
        self.words.clear();
        self.counts.clear();
        one.merge(other, |value, count| {
            append(value, &mut self.words);
            self.counts.push(count);
        });
    }

    fn values(&self, width: usize) -> Values<'_> {
        Values::new(&self.words, &self.counts, width)
    }
}

impl<'a> Probe<'a> {
    pub(crate) fn new(stride: Stride, batches: impl Iterator<Item = &'a Sampled>) -> Self {
        Probe {
            stride,
            batches: batches.map(|batch| (batch, 0, true)).collect(),
            key: None,
            of_one: None,
            of_several: Merged::default(),
            next: Merged::default(),
            ahead: Vec::new(),
            passes: Vec::new(),
            passed: 0,
        }
    }

    /// Whether so few keys are looked up that [`Probe::expect`] makes it faster.
    pub(super) fn is_sparse(&self, keys: usize) -> bool {
        let all: usize = self.batches.iter().map(|(batch, ..)| batch.batch.key_count()).sum();
        keys > 1 && all / SPARSE >= keys
    }

    /// Reads the filters for the keys that will be looked up next, about [`AHEAD`]. `fill` appends their words.
    pub(super) fn expect(&mut self, fill: impl FnOnce(&mut Vec<Symbol>)) {
        self.ahead.clear();
        fill(&mut self.ahead);
        let width = self.stride.key.max(1);
        self.passed = 0;
        self.passes.clear();
        self.passes.resize(self.ahead.len() / width, 0);
        for (at, (batch, ..)) in self.batches.iter().take(u64::BITS as usize).enumerate() {
            for (key, passes) in self.ahead.chunks_exact(width).zip(&mut self.passes) {
                *passes |= u64::from(batch.filter.may_have(mix(key))) << at;
            }
        }
    }

    /// What [`Probe::expect`] found out about a key.
    fn expected(&mut self, key: &[Symbol]) -> Option<u64> {
        let next = |at: usize| &self.ahead[at * key.len()..][..key.len()];
        while self.passed < self.passes.len() && next(self.passed) < key {
            self.passed += 1;
        }
        let passes = self.passes.get(self.passed)?;
        same(next(self.passed), key).then_some(*passes)
    }

    /// The values under a key. Keys must be passed in ascending order.
    #[inline]
    pub(crate) fn find(&mut self, key: &[Symbol]) -> Values<'_> {
        debug_assert_eq!(key.len(), self.stride.key);
        if !self.key.as_deref().is_some_and(|last| same(last, key)) {
            let last = self.key.get_or_insert_default();
            last.clear();
            append(key, last);
            self.look_up(key);
        }
        self.of_one.unwrap_or_else(|| self.of_several.values(self.stride.value))
    }

    fn look_up(&mut self, key: &[Symbol]) {
        let expected = self.expected(key);
        let (mut hits, hash) = (0, mix(key));
        self.of_one = Some(Values::none(self.stride.value));
        for (number, (sampled, at, is_near)) in self.batches.iter_mut().enumerate() {
            let next = sampled.seek(*at, *is_near, key, || match expected {
                Some(passes) if number < u64::BITS as usize => passes >> number & 1 == 1,
                _ => sampled.filter.may_have(hash),
            });
            *is_near = next - *at <= NEAR;
            *at = next;
            let batch = &*sampled.batch;
            if next >= batch.key_count() || !same(batch.key(next), key) {
                continue;
            }
            hits += 1;
            let values = batch.values(next);
            if hits == 1 {
                self.of_one = Some(values);
                continue;
            }
            let before = self.of_one.take().unwrap_or_else(|| self.of_several.values(self.stride.value));
            self.next.fill(before, values);
            std::mem::swap(&mut self.of_several, &mut self.next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::delta::Delta;
    use super::super::index::Fit;
    use super::super::sorted::sort;
    use super::super::trace::{Trace, View};
    use super::*;

    #[test]
    fn every_key_is_found_from_wherever_the_search_stands() {
        for (keys, width) in [1, 7, 8, 9, 63, 64, 65, 128, 1000, 1023, 1024, 1025, 20_000]
            .into_iter()
            .flat_map(|keys| [1, 2, 3].map(|width| (keys, width)))
        {
            let mut trace = Trace::new(width, 1);
            // Of several words, the second one alone tells a present key from an absent one.
            let key = |number: u32| -> Vec<Symbol> {
                match width {
                    1 => vec![number],
                    _ => [number / 2, number % 2].into_iter().cycle().take(width).collect(),
                }
            };
            let mut rows = Delta::new(width + 1);
            // Even numbers are present.
            for number in 0..keys {
                rows.push_words(key(number * 2).into_iter().chain([number]), 1);
            }
            let columns: Vec<usize> = (0..=width).collect();
            sort(&rows, &Fit::default(), &columns, &mut trace).expect("small numbers");
            for step in [1, 2, 3, 17, 63, 64, 65, 129, 500] {
                let mut probe = trace.probe(View::After);
                let wanted: Vec<u32> = (0..keys * 2 + 200).step_by(step).collect();
                for (at, number) in wanted.iter().copied().enumerate() {
                    // Filters are read ahead for some keys, and others come between them.
                    if at % 50 == 7 {
                        let ahead = wanted[at..].iter().step_by(1 + at % 3).take(AHEAD);
                        probe.expect(|words| ahead.for_each(|number| words.extend(key(*number))));
                    }
                    let found: Vec<_> = probe.find(&key(number)).iter().collect();
                    if number % 2 == 0 && number < keys * 2 {
                        assert_eq!(found, [(&[number / 2][..], 1)], "{number} of {keys}, {step} on");
                    } else {
                        assert!(found.is_empty(), "{number} of {keys}, {step} on");
                    }
                }
            }
        }
    }
}
