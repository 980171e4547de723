//! A trace: pairs of key and value with their counts, as differential's batches in differential's spine.
//!
//! Changes of a transaction are *staged* next to the spine until the transaction is accepted. Then they are *recent*: the
//! spine and the recent batches hold the old state, and together with the staged batches the new state. Refusing a
//! transaction only drops the staged batches. Inserting a batch into a spine merges others, which would be a tenth of a
//! small transaction's time, so recent batches wait for idle time, or until there are several.
//!
//! Each trace has its own clock, which advances by one for each batch. Readers never look at times. The clock exists
//! because spines order batches by it and compact everything before it.

use std::rc::Rc;

use differential_dataflow::difference::Semigroup;
use differential_dataflow::trace::cursor::Cursor as _;
use differential_dataflow::trace::implementations::spine_fueled::Spine;
use differential_dataflow::trace::{BatchReader, Navigable as _, Trace as _, TraceReader};
use nlog_data::MOST_WAYS;
use timely::dataflow::operators::generic::OperatorInfo;
use timely::progress::Antichain;

use super::batch::{Batch, Filling};
use super::delta::{Diff, TooMany};
use super::probe::{Probe, Sampled};
use super::sorted::{Entry, Packed as _, Sorted};
use crate::row::Row;
use crate::symbol::{Marks, Symbols};

/// A trace's clock.
pub(super) type Time = u32;

/// A count as stored in a trace. Staging refuses counts out of range. Merging batches only sums changes between two
/// valid counts, so it cannot overflow.
pub(crate) trait Count: Semigroup + Copy + Ord + 'static {
    /// Converts a change of a count, if it is in range.
    fn of(diff: Diff) -> Result<Self, TooMany>;

    fn diff(self) -> Diff;
}

/// The number of derivations of a row.
pub(crate) type Ways = i64;

impl Count for Ways {
    #[inline]
    fn of(diff: Diff) -> Result<Self, TooMany> {
        if (-MOST_WAYS..=MOST_WAYS).contains(&diff) { Ok(diff) } else { Err(TooMany) }
    }

    #[inline]
    fn diff(self) -> Diff {
        self
    }
}

/// The number of rows of a relation that agree on the columns of an index. It is at most the number of all rows, which
/// is below 2³¹ in any memory. It takes half the bytes of [`Ways`], in the structure that takes the most memory.
pub(crate) type Rows = i32;

impl Count for Rows {
    #[inline]
    fn of(diff: Diff) -> Result<Self, TooMany> {
        Rows::try_from(diff).map_err(|_| TooMany)
    }

    #[inline]
    fn diff(self) -> Diff {
        Diff::from(self)
    }
}

/// A change of a pair's count.
pub(crate) type Update<K, V, C> = ((K, V), C);

/// Rewrite the trace once its clock passes this value, which leaves enough times for a transaction's batches.
const CLOCK_LIMIT: Time = if cfg!(test) { 1 << 8 } else { Time::MAX - (1 << 20) };

/// The most recent batches that wait. A probe looks into each of them.
const MOST_RECENT: usize = 4;

/// The state of a trace to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    /// The state before the running transaction.
    Before,
    /// The state after it.
    After,
}

/// Pairs with their counts.
pub(crate) struct Trace<K: Row, V: Row, C: Count> {
    spine: Spine<Rc<Batch<K, V, C>>>,
    /// The non-empty batches of the spine.
    batches: Vec<Sampled<K, V, C>>,
    /// Accepted batches that are not in the spine yet, in the order of their times.
    recent: Vec<Sampled<K, V, C>>,
    staged: Vec<Sampled<K, V, C>>,
    /// The time of the first recent batch.
    clock: Time,
}

impl<K: Row, V: Row, C: Count> Trace<K, V, C> {
    pub(crate) fn new() -> Self {
        Trace { spine: new_spine(), batches: Vec::new(), recent: Vec::new(), staged: Vec::new(), clock: 0 }
    }

    /// Stages changes of the running transaction.
    pub(crate) fn stage(&mut self, mut updates: Vec<Update<K, V, C>>) -> Result<(), TooMany> {
        sum_up(&mut updates)?;
        let keys = updates.chunk_by(|one, other| one.0.0 == other.0.0).count();
        let mut filling = Filling::new(keys, updates.len(), self.now());
        for ((key, value), count) in updates {
            filling.push(key, value, count);
        }
        self.stage_batch(filling);
        Ok(())
    }

    /// The time of the next batch that is staged.
    fn now(&self) -> Time {
        self.clock + (self.recent.len() + self.staged.len()) as Time
    }

    fn stage_batch(&mut self, filling: Filling<K, V, C>) {
        self.staged.extend(filling.finish().map(|batch| Sampled::new(Rc::new(batch))));
    }

    /// Whether anything is staged.
    pub(crate) fn is_touched(&self) -> bool {
        !self.staged.is_empty()
    }

    /// Stages changes of rows whose first words are the key and whose next words are the value.
    pub(crate) fn stage_rows<E: Entry>(
        &mut self,
        rows: &Sorted<E>,
        key: usize,
        value: usize,
    ) -> Result<(), TooMany> {
        let (mut keys, mut values) = (0, 0);
        let mut last: Option<E::Row> = None;
        for sum in rows.sums() {
            let (row, _) = sum?;
            keys += usize::from(last.is_none_or(|last| (0..key).any(|at| last.word(at) != row.word(at))));
            values += 1;
            last = Some(row);
        }
        let mut filling = Filling::new(keys, values, self.now());
        for sum in rows.sums() {
            let (row, sum) = sum?;
            if sum == 0 {
                continue;
            }
            let mut pair = (K::default(), V::default());
            for (at, word) in pair.0.words_mut()[..key].iter_mut().enumerate() {
                *word = row.word(at);
            }
            for (at, word) in pair.1.words_mut()[..value].iter_mut().enumerate() {
                *word = row.word(key + at);
            }
            filling.push(pair.0, pair.1, C::of(sum)?);
        }
        self.stage_batch(filling);
        Ok(())
    }

    /// Publishes the staged changes.
    pub(crate) fn publish(&mut self) {
        self.recent.append(&mut self.staged);
        // One at a time: all of them at once would make one transaction in five slow.
        self.insert_recent(self.recent.len().saturating_sub(MOST_RECENT));
    }

    /// Inserts the recent batches into the spine, which merges batches of similar size.
    pub(crate) fn merge(&mut self) {
        self.insert_recent(self.recent.len());
    }

    /// The number of recent batches.
    #[cfg(test)]
    pub(crate) fn recent(&self) -> usize {
        self.recent.len()
    }

    /// Moves the oldest recent batches into the spine, so many of them.
    fn insert_recent(&mut self, count: usize) {
        if count == 0 {
            return;
        }
        self.insert_into_spine(count);
        if self.clock > CLOCK_LIMIT {
            self.rewrite();
        }
    }

    /// Moves batches into the spine, and allows everything before the clock to be compacted.
    fn insert_into_spine(&mut self, count: usize) {
        let mut known = std::mem::take(&mut self.batches);
        for batch in self.recent.drain(..count) {
            self.clock += 1;
            self.spine.insert(Rc::clone(&batch.batch));
            known.push(batch);
        }
        let upper = Antichain::from_elem(self.clock);
        self.spine.set_logical_compaction(upper.borrow());
        self.spine.set_physical_compaction(upper.borrow());
        let batches = &mut self.batches;
        self.spine.map_batches(|batch| {
            if batch.is_empty() {
                return;
            }
            let at = known.iter().position(|known| Rc::ptr_eq(&known.batch, batch));
            batches.push(at.map_or_else(|| Sampled::new(Rc::clone(batch)), |at| known.swap_remove(at)));
        });
    }

    /// Drops the staged changes.
    pub(crate) fn discard(&mut self) {
        self.staged.clear();
    }

    /// Rewrites the trace as one batch of a new spine, whose clock starts again.
    fn rewrite(&mut self) {
        let mut updates = Vec::with_capacity(self.updates());
        for batch in self.batches(View::Before) {
            for_each_update(&batch.batch, |key, value, count| updates.push(((*key, *value), count)));
        }
        self.spine = new_spine();
        self.batches.clear();
        self.recent.clear();
        self.clock = 0;
        // The changes are already accepted, so their sums are in range.
        let staged = self.stage(updates);
        debug_assert!(staged.is_ok());
        self.recent.append(&mut self.staged);
        self.insert_into_spine(self.recent.len());
    }

    /// The non-empty batches of a view.
    fn batches(&self, view: View) -> impl Iterator<Item = &Sampled<K, V, C>> {
        let staged: &[Sampled<K, V, C>] = if view == View::After { &self.staged } else { &[] };
        self.batches.iter().chain(&self.recent).chain(staged)
    }

    /// A probe that finds values under ascending keys.
    pub(crate) fn probe(&self, view: View) -> Probe<'_, K, V, C> {
        Probe::new(self.batches(view))
    }

    /// Whether a view is empty.
    pub(crate) fn is_empty(&self, view: View) -> bool {
        self.batches(view).next().is_none()
    }

    /// The number of accepted changes: at least the number of pairs, and close to it after batches have merged.
    pub(crate) fn updates(&self) -> usize {
        self.batches(View::Before).map(|batch| batch.batch.len()).sum()
    }

    /// The approximate size of the accepted batches, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let mut bytes = 0;
        for batch in self.batches(View::Before) {
            let storage = &batch.batch.storage;
            bytes += storage.keys.len() * (size_of::<K>() + size_of::<u32>());
            bytes += storage.vals.vals.len() * (size_of::<V>() + size_of::<u32>());
            bytes += storage.upds.times.len() * (size_of::<Time>() + size_of::<C>());
        }
        bytes
    }

    /// Marks every symbol in the batches of the spine, in the recent and in the staged batches. Keys and values have these numbers of
    /// columns.
    pub(crate) fn mark(&self, key: usize, value: usize, marks: &mut Marks, symbols: &Symbols) {
        for batch in self.batches(View::After) {
            // Each container is read in order, which is several times as fast as finding the pairs.
            let storage = &batch.batch.storage;
            storage.keys.iter().for_each(|row| marks.row(row, key, symbols));
            if value > 0 {
                storage.vals.vals.iter().for_each(|row| marks.row(row, value, symbols));
            }
        }
    }

    /// Visits every pair present in a view once, in no particular order.
    pub(crate) fn for_each(&self, view: View, mut each: impl FnMut(&K, &V, Diff)) {
        let mut batches = self.batches(view);
        if let (Some(only), None) = (batches.next(), batches.next()) {
            for_each_update(&only.batch, |key, value, count| {
                if !count.is_zero() {
                    each(key, value, count.diff());
                }
            });
            return;
        }
        let mut all: Vec<((K, V), Diff)> = Vec::new();
        for batch in self.batches(view) {
            for_each_update(&batch.batch, |key, value, count| all.push(((*key, *value), count.diff())));
        }
        sum_equal(&mut all);
        for ((key, value), count) in &all {
            each(key, value, *count);
        }
    }
}

/// Sorts items and sums the counts of equal ones from several batches. Items with a zero sum disappear. The sum of
/// all counts of an item fits; partial sums may not, so they wrap.
pub(crate) fn sum_equal<T: Ord>(counts: &mut Vec<(T, Diff)>) {
    counts.sort_unstable();
    counts.dedup_by(|next, first| {
        let same = next.0 == first.0;
        if same {
            first.1 = first.1.wrapping_add(next.1);
        }
        same
    });
    counts.retain(|(_, count)| *count != 0);
}

fn new_spine<K: Row, V: Row, C: Count>() -> Spine<Rc<Batch<K, V, C>>> {
    Spine::new(OperatorInfo::new(0, 0, Rc::from(&[0_usize][..])), None, None)
}

/// Sorts changes by key and value.
pub(crate) fn sort<K: Row, V: Row, C: Count>(updates: &mut [Update<K, V, C>]) {
    // Comparing tuples would compare each part twice.
    let order = |a: &Update<K, V, C>, b: &Update<K, V, C>| a.0.0.cmp(&b.0.0).then_with(|| a.0.1.cmp(&b.0.1));
    if !updates.is_sorted_by(|a, b| order(a, b).is_le()) {
        updates.sort_unstable_by(order);
    }
}

/// Sorts changes and sums the changes of each pair. Zero sums disappear.
fn sum_up<K: Row, V: Row, C: Count>(updates: &mut Vec<Update<K, V, C>>) -> Result<(), TooMany> {
    sort(updates);
    if updates.windows(2).any(|two| two[0].0 == two[1].0) {
        let mut sums = Vec::with_capacity(updates.len());
        for equal in updates.chunk_by(|a, b| a.0 == b.0) {
            // Partial sums may exceed 64 bits.
            let sum: i128 = equal.iter().map(|(_, count)| i128::from(count.diff())).sum();
            sums.push((equal[0].0, C::of(Diff::try_from(sum).map_err(|_| TooMany)?)?));
        }
        *updates = sums;
    }
    updates.retain(|(_, count)| !count.is_zero());
    Ok(())
}

fn for_each_update<K: Row, V: Row, C: Count>(batch: &Rc<Batch<K, V, C>>, mut each: impl FnMut(&K, &V, C)) {
    let storage = &**batch;
    let mut cursor = storage.cursor();
    while let Some(key) = cursor.get_key(storage) {
        while let Some(value) = cursor.get_val(storage) {
            let mut sum: Option<C> = None;
            cursor.map_times(storage, |_, count| match &mut sum {
                None => sum = Some(*count),
                Some(sum) => sum.plus_equals(count),
            });
            if let Some(sum) = sum {
                each(key, value, sum);
            }
            cursor.step_val(storage);
        }
        cursor.step_key(storage);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::row::{Narrow, narrow as row};

    fn contents(trace: &Trace<Narrow, Narrow, Ways>, view: View) -> BTreeMap<(Narrow, Narrow), Diff> {
        let mut found = BTreeMap::new();
        trace.for_each(view, |key, value, count| {
            assert!(found.insert((*key, *value), count).is_none(), "each pair once");
        });
        found
    }

    #[test]
    fn what_is_staged_is_there_after_and_not_before() {
        let mut trace = Trace::new();
        // More publications than the clock has room for, so that the trace is rewritten meanwhile.
        let mut expected: BTreeMap<(Narrow, Narrow), Diff> = BTreeMap::new();
        for step in 0..1500_u32 {
            let (key, value) = (row(step * 7 % 13), row(step * 5 % 11));
            let count = if step % 3 == 2 { -1 } else { 1 };
            trace.stage(vec![((key, value), count)]).expect("small numbers");
            let before = contents(&trace, View::Before);
            assert_eq!(before, expected);
            let mut after = expected.clone();
            *after.entry((key, value)).or_default() += count;
            after.retain(|_, count| *count != 0);
            assert_eq!(contents(&trace, View::After), after);
            let mut probe = trace.probe(View::After);
            for key in (0..13).map(row) {
                let found: BTreeMap<_, _> =
                    probe.find(&key).iter().map(|(value, count)| ((key, *value), *count)).collect();
                let wanted: BTreeMap<_, _> = after
                    .iter()
                    .filter(|((k, _), _)| *k == key)
                    .map(|(pair, count)| (*pair, *count))
                    .collect();
                assert_eq!(found, wanted);
            }
            drop(probe);
            if step % 5 == 4 {
                trace.discard();
            } else {
                trace.publish();
                expected = after;
            }
            assert!(trace.recent() <= MOST_RECENT);
            if step % 7 == 0 {
                trace.merge();
                assert_eq!(trace.recent(), 0);
            }
        }
        assert!(trace.clock <= CLOCK_LIMIT);
        assert!(trace.updates() < 1000, "what cancels goes: {}", trace.updates());
    }
}
