//! Batches: pairs of key and value in ascending order, each with its count.
//!
//! A batch is a few vectors. Keys and values have a fixed number of words, their [`Stride`], and are stored one after the other. What
//! is the same for all pairs takes no memory: counts if each is 1, and the ends of keys if each key has one value, as in an
//! index by a declared key.
//!
//! Batches are differential's [`Batch`](differential_dataflow::trace::Batch), so differential's spine decides when to merge which
//! of them. They store no times: a trace is read in its state before the running transaction or after it, and each of
//! its batches is either staged or from before.

use std::cmp::Ordering;
use std::io;
use std::ops::Range;

use differential_dataflow::trace::{BatchReader, Description, Merger};
use timely::progress::Antichain;
use timely::progress::frontier::AntichainRef;

use super::sorted::{Entry, Packed as _, Sorted};
use super::trace::{Time, Ways};
use crate::checked_bytes::{Broken, In, Out};
use crate::symbol::Symbol;

/// The numbers of words of a key and of a value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Stride {
    pub(crate) key: usize,
    pub(crate) value: usize,
}

/// Pairs of key and value with their counts.
#[derive(Debug, Clone)]
pub(crate) struct Batch {
    stride: Stride,
    /// The words of each key.
    keys: Vec<Symbol>,
    /// By key, the number of pairs up to its last value; empty if each key has one value.
    ends: Vec<u32>,
    /// The words of each value.
    values: Vec<Symbol>,
    /// The count of each pair; empty if each is 1.
    counts: Vec<Ways>,
    /// The number of pairs.
    len: usize,
    description: Description<Time>,
}

/// Values under one key, ascending, with their counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Values<'a> {
    words: &'a [Symbol],
    /// Empty if each count is 1.
    counts: &'a [Ways],
    width: usize,
    len: usize,
}

impl<'a> Values<'a> {
    /// Values of this width, with a count for each.
    pub(super) fn new(words: &'a [Symbol], counts: &'a [Ways], width: usize) -> Self {
        Values { words, counts, width, len: counts.len() }
    }

    /// No values.
    pub(super) fn none(width: usize) -> Self {
        Values { words: &[], counts: &[], width, len: 0 }
    }

    /// The value at a position, and its count.
    #[inline]
    fn at(&self, at: usize) -> (&'a [Symbol], Ways) {
        (&self.words[at * self.width..][..self.width], self.counts.get(at).copied().unwrap_or(1))
    }

    /// The sum of the counts; `None` if it is out of range.
    pub(crate) fn total(self) -> Option<Ways> {
        if self.counts.is_empty() {
            return Some(self.len as Ways);
        }
        self.counts.iter().try_fold(0, |sum: Ways, count| sum.checked_add(*count))
    }

    #[inline]
    pub(crate) fn iter(self) -> impl Iterator<Item = (&'a [Symbol], Ways)> {
        (0..self.len).map(move |at| self.at(at))
    }

    /// Passes on these values and others, with the sums of their counts. Zero sums disappear.
    pub(super) fn merge(self, other: Values<'_>, mut each: impl FnMut(&[Symbol], Ways)) {
        let (mut one, mut two) = (0, 0);
        while one < self.len && two < other.len {
            let ((value, count), (others, more)) = (self.at(one), other.at(two));
            match value.cmp(others) {
                Ordering::Less => each(value, count),
                Ordering::Greater => each(others, more),
                // The sum of all counts of a value is in range, but that of some of them may not be.
                Ordering::Equal => match count.wrapping_add(more) {
                    0 => {}
                    sum => each(value, sum),
                },
            }
            one += usize::from(value <= others);
            two += usize::from(others <= value);
        }
        (one..self.len).map(|at| self.at(at)).for_each(|(value, count)| each(value, count));
        (two..other.len).map(|at| other.at(at)).for_each(|(value, count)| each(value, count));
    }
}

impl Batch {
    /// An empty batch with room for this many keys and pairs.
    pub(super) fn with_capacity(stride: Stride, keys: usize, pairs: usize) -> Self {
        Batch {
            stride,
            keys: Vec::with_capacity(keys * stride.key),
            ends: Vec::with_capacity(if keys < pairs { keys } else { 0 }),
            values: Vec::with_capacity(pairs * stride.value),
            counts: Vec::new(),
            len: 0,
            description: description(0),
        }
    }

    /// A batch of rows that occur once each: the words of a key, then those of a value.
    pub(super) fn of_set<E: Entry>(stride: Stride, rows: &Sorted<E>) -> Self {
        let Stride { key, value } = stride;
        let (keys, pairs) = (rows.prefixes(key), rows.len());
        let mut batch = Batch::with_capacity(stride, keys, pairs);
        let mut last: Option<E::Row> = None;
        for (at, row) in rows.rows().enumerate() {
            if last.is_none_or(|last| !last.same_prefix(row, key)) {
                (0..key).for_each(|word| batch.keys.push(row.word(word)));
                if at > 0 && keys < pairs {
                    batch.ends.push(at as u32);
                }
            }
            (key..key + value).for_each(|word| batch.values.push(row.word(word)));
            last = Some(row);
        }
        if keys < pairs {
            batch.ends.push(pairs as u32);
        }
        batch.len = pairs;
        batch
    }

    /// Adds a pair, which comes after all pairs before it.
    #[inline]
    pub(super) fn push(&mut self, key: &[Symbol], value: &[Symbol], count: Ways) {
        let Stride { key: words, .. } = self.stride;
        debug_assert_eq!((key.len(), value.len()), (words, self.stride.value));
        let is_new = self.len == 0 || !same(&self.keys[self.keys.len() - words..], key);
        debug_assert!(
            self.len == 0
                || if is_new {
                    self.keys[self.keys.len() - words..] < *key
                } else {
                    self.values[self.values.len() - value.len()..] < *value
                },
            "pairs come in ascending order"
        );
        if is_new {
            append(key, &mut self.keys);
        } else if self.ends.is_empty() {
            self.spell_ends_out();
        }
        append(value, &mut self.values);
        if count != 1 || !self.counts.is_empty() {
            self.counts.resize(self.len, 1);
            self.counts.push(count);
        }
        self.len += 1;
        match self.ends.last_mut() {
            Some(_) if is_new => self.ends.push(self.len as u32),
            Some(end) => *end = self.len as u32,
            None => {}
        }
    }

    /// Adds some keys of another batch with their values, all of which come after those before. Returns the number of pairs.
    fn extend(&mut self, source: &Batch, keys: Range<usize>) -> usize {
        let pairs = source.first_pair(keys.start)..source.first_pair(keys.end);
        let of = |range: &Range<usize>, stride: usize| range.start * stride..range.end * stride;
        self.keys.extend_from_slice(&source.keys[of(&keys, self.stride.key)]);
        self.values.extend_from_slice(&source.values[of(&pairs, self.stride.value)]);
        if !(self.counts.is_empty() && source.counts.is_empty()) {
            self.counts.resize(self.len, 1);
            match source.counts.get(pairs.clone()) {
                Some(counts) => self.counts.extend_from_slice(counts),
                None => self.counts.resize(self.len + pairs.len(), 1),
            }
        }
        if !self.ends.is_empty() || pairs.len() != keys.len() {
            if self.ends.is_empty() {
                self.spell_ends_out();
            }
            let len = self.len;
            self.ends.extend(keys.map(|at| (source.first_pair(at + 1) - pairs.start + len) as u32));
        }
        self.len += pairs.len();
        pairs.len()
    }

    /// Stores the end of each key, each of which has one value so far.
    fn spell_ends_out(&mut self) {
        self.ends.extend(1..=self.len as u32);
    }

    /// The batch of the time `now`; `None` if it has no pairs.
    pub(super) fn finish(mut self, now: Time) -> Option<Self> {
        if self.len == 0 {
            return None;
        }
        self.description = description(now);
        self.forget_ones();
        Some(self)
    }

    /// Stores no counts if each is 1.
    fn forget_ones(&mut self) {
        if self.counts.iter().all(|count| *count == 1) {
            self.counts = Vec::new();
        }
        self.counts.shrink_to_fit();
    }

    /// The pairs of two batches, with the sums of their counts.
    pub(super) fn merged(&self, other: &Batch) -> Batch {
        let mut merging = Merging::begin(self, other);
        merging.work(self, other, &mut isize::MAX.clone());
        merging.done()
    }

    /// Writes the pairs.
    pub(super) fn save(&self, out: &mut Out<'_>) -> io::Result<()> {
        out.number(self.len as u64)?;
        out.all(&self.keys)?;
        out.all(&self.ends)?;
        out.all(&self.values)?;
        out.all(&self.counts)
    }

    /// Reads the pairs of a batch of this stride.
    pub(super) fn read(stride: Stride, from: &mut In<'_, '_>) -> Result<Self, Broken> {
        let len = from.number()? as usize;
        let (keys, ends, values, counts) = (from.all()?, from.all()?, from.all()?, from.all()?);
        let batch = Batch { stride, keys, ends, values, counts, len, description: description(0) };
        let fits = |words: &[Symbol], rows: usize, width: usize| Some(words.len()) == rows.checked_mul(width);
        if fits(&batch.keys, batch.key_count(), stride.key)
            && fits(&batch.values, len, stride.value)
            && (batch.counts.is_empty() || batch.counts.len() == len)
            && batch.ends.is_sorted()
            && batch.ends.last().map_or(stride.key > 0 || len <= 1, |end| *end as usize == len)
        {
            Ok(batch)
        } else {
            Err(Broken::Damaged)
        }
    }

    /// The words of all keys, one key after the other.
    #[inline]
    pub(super) fn keys(&self) -> &[Symbol] {
        &self.keys
    }

    /// The words of all values.
    pub(super) fn value_words(&self) -> &[Symbol] {
        &self.values
    }

    /// Whether each key has one value, with the count 1.
    pub(super) fn has_one_value_each(&self) -> bool {
        self.ends.is_empty() && self.counts.is_empty()
    }

    /// The number of keys.
    #[inline]
    pub(super) fn key_count(&self) -> usize {
        if self.ends.is_empty() { self.len } else { self.ends.len() }
    }

    /// The number of pairs.
    #[inline]
    pub(super) fn pairs(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn stride(&self) -> Stride {
        self.stride
    }

    /// The size in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.keys[..])
            + size_of_val(&self.ends[..])
            + size_of_val(&self.values[..])
            + size_of_val(&self.counts[..])
    }

    #[inline]
    pub(super) fn key(&self, at: usize) -> &[Symbol] {
        &self.keys[at * self.stride.key..][..self.stride.key]
    }

    /// The number of pairs before those of a key.
    #[inline]
    fn first_pair(&self, key: usize) -> usize {
        if self.ends.is_empty() || key == 0 { key } else { self.ends[key - 1] as usize }
    }

    /// The values of the key at a position.
    #[inline]
    pub(super) fn values(&self, at: usize) -> Values<'_> {
        let (first, end) = (self.first_pair(at), self.first_pair(at + 1));
        let width = self.stride.value;
        Values {
            words: &self.values[first * width..end * width],
            counts: self.counts.get(first..end).unwrap_or(&[]),
            width,
            len: end - first,
        }
    }

    /// The position of the first key from `from` on that is not less than `key`. Takes time for the logarithm of the distance.
    fn seek(&self, from: usize, key: &[Symbol]) -> usize {
        let is_less = |at: usize| at < self.key_count() && self.key(at) < key;
        let (mut begin, mut step) = (from, 1);
        while is_less(begin + step) {
            begin += step;
            step *= 2;
        }
        let mut end = begin + step;
        // The first key is less, or nobody would ask; the one at `end` is not.
        while begin < end {
            let middle = begin.midpoint(end);
            if is_less(middle) {
                begin = middle + 1;
            } else {
                end = middle;
            }
        }
        begin
    }
}

/// Whether two rows are equal. Most have few words, for which a call of `memcmp` takes longer than all else.
#[inline]
pub(super) fn same(one: &[Symbol], other: &[Symbol]) -> bool {
    match (one, other) {
        ([one], [other]) => one == other,
        ([one, two], [other, others]) => one == other && two == others,
        _ => one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one == other),
    }
}

/// Appends the words of a row, of which most have a word or two.
#[inline]
pub(super) fn append(words: &[Symbol], into: &mut Vec<Symbol>) {
    match *words {
        [] => {}
        [word] => into.push(word),
        [one, two] => into.extend([one, two]),
        _ => into.extend_from_slice(words),
    }
}

/// The description of a batch at one time.
fn description(now: Time) -> Description<Time> {
    let [lower, upper, since] = [now, now + 1, 0].map(Antichain::from_elem);
    Description::new(lower, upper, since)
}

impl BatchReader for Batch {
    type Time = Time;

    fn len(&self) -> usize {
        self.len
    }

    fn description(&self) -> &Description<Time> {
        &self.description
    }
}

impl differential_dataflow::trace::Batch for Batch {
    type Merger = Merging;

    fn empty(lower: Antichain<Time>, upper: Antichain<Time>) -> Self {
        let description = Description::new(lower, upper, Antichain::from_elem(0));
        Batch { description, ..Batch::with_capacity(Stride::default(), 0, 0) }
    }
}

/// A merge of two batches, while it lasts.
#[derive(Debug)]
pub(crate) struct Merging {
    merged: Batch,
    /// The number of keys that are done in each batch.
    done: [usize; 2],
}

impl Merging {
    fn begin(one: &Batch, other: &Batch) -> Self {
        let stride = if one.len == 0 { other.stride } else { one.stride };
        let (keys, pairs) = (one.key_count() + other.key_count(), one.len + other.len);
        let mut merged = Batch::with_capacity(stride, keys, pairs);
        if !(one.counts.is_empty() && other.counts.is_empty()) {
            merged.counts.reserve_exact(pairs);
        }
        Merging { merged, done: [0, 0] }
    }
}

impl Merger<Batch> for Merging {
    fn new(one: &Batch, other: &Batch, compacted: AntichainRef<'_, Time>) -> Self {
        let mut merging = Merging::begin(one, other);
        let [lower, upper] = [one.lower().clone(), other.upper().clone()];
        merging.merged.description = Description::new(lower, upper, compacted.to_owned());
        merging
    }

    fn work(&mut self, one: &Batch, other: &Batch, fuel: &mut isize) {
        let sources = [one, other];
        let counts = sources.map(Batch::key_count);
        while *fuel > 0 {
            let [at, of_other] = self.done;
            let (source, end) = match [at < counts[0], of_other < counts[1]] {
                [false, false] => return,
                [true, false] => (0, counts[0]),
                [false, true] => (1, counts[1]),
                [true, true] => {
                    let (key, others) = (one.key(at), other.key(of_other));
                    match key.cmp(others) {
                        Ordering::Less => (0, one.seek(at, others)),
                        Ordering::Greater => (1, other.seek(of_other, key)),
                        Ordering::Equal => {
                            let (values, more) = (one.values(at), other.values(of_other));
                            values.merge(more, |value, count| self.merged.push(key, value, count));
                            self.done = [at + 1, of_other + 1];
                            *fuel -= (values.len + more.len) as isize;
                            continue;
                        }
                    }
                }
            };
            let begin = self.done[source];
            let end = end.min(begin.saturating_add(*fuel as usize));
            *fuel -= self.merged.extend(sources[source], begin..end) as isize;
            self.done[source] = end;
        }
    }

    fn done(mut self) -> Batch {
        self.merged.forget_ones();
        self.merged
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use test_random::Random;

    use super::*;

    type Pairs = BTreeMap<(Vec<Symbol>, Vec<Symbol>), Ways>;

    /// Random pairs of a stride, whose counts are all 1 half of the time.
    fn pairs(stride: Stride, random: &mut Random) -> Pairs {
        let counts: &[Ways] = if random.chance(50) { &[1] } else { &[1, 1, -1, 2] };
        let mut row = |words: usize, most: u64| -> Vec<Symbol> {
            (0..words).map(|_| random.below(most) as Symbol).collect()
        };
        let rows: Vec<_> = (0..40).map(|_| (row(stride.key, 6), row(stride.value, 3))).collect();
        let count = random.below(40) as usize;
        rows.into_iter()
            .take(count)
            .map(|row| (row, counts[random.below(counts.len() as u64) as usize]))
            .collect()
    }

    fn batch(stride: Stride, pairs: &Pairs) -> Batch {
        let mut batch = Batch::with_capacity(stride, 0, 0);
        for ((key, value), count) in pairs {
            batch.push(key, value, *count);
        }
        batch.forget_ones();
        batch
    }

    fn contents(batch: &Batch) -> Pairs {
        let mut found = Pairs::new();
        for at in 0..batch.key_count() {
            for (value, count) in batch.values(at).iter() {
                assert!(found.insert((batch.key(at).to_vec(), value.to_vec()), count).is_none());
            }
        }
        assert_eq!(found.len(), batch.pairs());
        found
    }

    #[test]
    fn merged_batches_have_the_sums_however_little_work_is_done_at_once() {
        for seed in
            test_random::seeds!("merged_batches_have_the_sums_however_little_work_is_done_at_once", 400)
        {
            let mut random = Random::new(seed);
            let stride = Stride { key: random.below(4) as usize, value: random.below(3) as usize };
            let (one, other) = (pairs(stride, &mut random), pairs(stride, &mut random));
            let mut wanted = one.clone();
            for (pair, count) in &other {
                *wanted.entry(pair.clone()).or_default() += count;
            }
            wanted.retain(|_, count| *count != 0);
            let batches = [batch(stride, &one), batch(stride, &other)];
            assert_eq!([contents(&batches[0]), contents(&batches[1])], [one, other]);
            let mut merging = Merging::new(&batches[0], &batches[1], Antichain::from_elem(0).borrow());
            let step = 1 + random.below(20) as isize;
            loop {
                let mut fuel = step;
                merging.work(&batches[0], &batches[1], &mut fuel);
                if fuel > 0 {
                    break;
                }
            }
            let merged = merging.done();
            assert_eq!(contents(&merged), wanted);
            assert_eq!(merged.counts.is_empty(), wanted.values().all(|count| *count == 1));
        }
    }

    #[test]
    fn a_batch_without_pairs_is_none() {
        assert!(Batch::with_capacity(Stride { key: 1, value: 1 }, 0, 0).finish(3).is_none());
    }
}
