//! A trace: pairs of key and value with their counts, as differential's batches in differential's spine.
//!
//! What a transaction adds is *staged* beside the spine until the transaction is accepted. So the spine is what was,
//! spine and staged batches together are what would be, and refusing a transaction only drops what is staged.
//!
//! Each trace has a clock of its own, which goes on by one for each batch. Readers never ask for times: the clock is
//! there because spines order batches by it, and everything before the clock is compacted.

use std::rc::Rc;

use differential_dataflow::consolidation::consolidate;
use differential_dataflow::trace::cursor::Cursor as _;
use differential_dataflow::trace::implementations::Vector;
use differential_dataflow::trace::implementations::ord_neu::{OrdValBatch, OrdValBuilder};
use differential_dataflow::trace::implementations::spine_fueled::Spine;
use differential_dataflow::trace::{BatchReader, Builder, Description, Navigable, Trace as _, TraceReader};
use timely::dataflow::operators::generic::OperatorInfo;
use timely::progress::Antichain;

use crate::row::Row;

/// A trace's clock.
type Time = u32;
/// How often a pair is there. Rows are derived fewer than 2³¹ times: what would exceed that is refused when it is
/// staged. A merge of batches only ever sums what lies between two such counts, so it cannot overflow.
pub(crate) type Count = i32;

type Layout<K, V> = Vector<((K, V), Time, Count)>;
type Batch<K, V> = OrdValBatch<Layout<K, V>>;
type Cursor<K, V> = <Batch<K, V> as Navigable>::Cursor;

/// A change of a pair's count, in the form that batches are built from; the time is filled in by the trace.
pub(crate) type Update<K, V> = ((K, V), Time, Count);

/// When the clock has come this far the trace is written anew. Far from the end, so that a transaction's batches fit.
const CLOCK_LIMIT: Time = if cfg!(test) { 1 << 8 } else { Time::MAX - (1 << 20) };

/// How many changes a batch is built from at once.
const BUILD_AT_ONCE: usize = 1 << 12;

/// Which of a trace's batches are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    /// What was before the running transaction.
    Before,
    /// What would be after it.
    After,
}

/// Pairs with their counts.
pub(crate) struct Trace<K: Row, V: Row> {
    spine: Spine<Rc<Batch<K, V>>>,
    staged: Vec<Rc<Batch<K, V>>>,
    clock: Time,
}

impl<K: Row, V: Row> Trace<K, V> {
    pub(crate) fn new() -> Self {
        Trace { spine: new_spine(), staged: Vec::new(), clock: 0 }
    }

    /// Adds changes to what the running transaction would do.
    pub(crate) fn stage(&mut self, mut updates: Vec<Update<K, V>>) {
        sum_up(&mut updates);
        if updates.is_empty() {
            return;
        }
        let now = self.clock + self.staged.len() as Time;
        self.staged.push(Rc::new(build(updates, now)));
    }

    /// Whether anything is staged.
    pub(crate) fn is_touched(&self) -> bool {
        !self.staged.is_empty()
    }

    /// Adds changes of rows whose first words are the key and the next ones the value. Sorting rows of so few words is
    /// twice as fast as sorting pairs, and takes half the memory.
    pub(crate) fn stage_rows<R: Row>(&mut self, mut rows: Vec<(R, Count)>, key: usize, value: usize) {
        if !rows.is_sorted_by(|a, b| a.0 <= b.0) {
            rows.sort_unstable_by_key(|(row, _)| *row);
        }
        rows.dedup_by(|next, first| {
            let same = next.0 == first.0;
            if same {
                first.1 += next.1;
            }
            same
        });
        rows.retain(|(_, count)| *count != 0);
        if rows.is_empty() {
            return;
        }
        let now = self.clock + self.staged.len() as Time;
        let new_key = |pair: &&[(R, Count)]| pair[0].0.words()[..key] != pair[1].0.words()[..key];
        let keys = 1 + rows.windows(2).filter(new_key).count();
        let mut builder =
            OrdValBuilder::<Layout<K, V>, Vec<Update<K, V>>>::with_capacity(keys, rows.len(), rows.len());
        let mut part = Vec::with_capacity(BUILD_AT_ONCE.min(rows.len()));
        for of_rows in rows.chunks(BUILD_AT_ONCE) {
            part.extend(of_rows.iter().map(|(row, count)| {
                let (words, mut pair) = (row.words(), (K::default(), V::default()));
                pair.0.words_mut()[..key].copy_from_slice(&words[..key]);
                pair.1.words_mut()[..value].copy_from_slice(&words[key..key + value]);
                (pair, now, *count)
            }));
            builder.push(&mut part);
        }
        self.staged.push(Rc::new(finish(builder, now)));
    }

    /// Makes what is staged part of what is.
    pub(crate) fn publish(&mut self) {
        self.insert_staged();
        if self.clock > CLOCK_LIMIT {
            self.rewrite();
        }
    }

    /// Puts what is staged into the spine, and lets everything before the clock be compacted.
    fn insert_staged(&mut self) {
        for batch in self.staged.drain(..) {
            self.clock += 1;
            self.spine.insert(batch);
        }
        let upper = Antichain::from_elem(self.clock);
        self.spine.set_logical_compaction(upper.borrow());
        self.spine.set_physical_compaction(upper.borrow());
    }

    /// Drops what is staged.
    pub(crate) fn discard(&mut self) {
        self.staged.clear();
    }

    /// Puts everything into one batch of a new spine, whose clock begins anew.
    fn rewrite(&mut self) {
        let mut updates = Vec::with_capacity(self.updates());
        self.for_each(View::Before, |key, value, count| updates.push(((*key, *value), 0, count)));
        self.spine = new_spine();
        self.clock = 0;
        self.stage(updates);
        self.insert_staged();
    }

    /// The batches of a view that are not empty.
    pub(crate) fn batches(&self, view: View) -> Batches<K, V> {
        let mut batches = Vec::new();
        self.spine.map_batches(|batch| {
            if !batch.is_empty() {
                batches.push(Rc::clone(batch));
            }
        });
        if view == View::After {
            batches.extend(self.staged.iter().cloned());
        }
        Batches(batches)
    }

    /// Whether a view has nothing at all.
    pub(crate) fn is_empty(&self, view: View) -> bool {
        let mut empty = view == View::Before || self.staged.is_empty();
        self.spine.map_batches(|batch| empty &= batch.is_empty());
        empty
    }

    /// How many changes the spine holds: at least the number of pairs, and after some merging about that.
    pub(crate) fn updates(&self) -> usize {
        let mut updates = 0;
        self.spine.map_batches(|batch| updates += batch.len());
        updates
    }

    /// Roughly the bytes of the spine's batches.
    pub(crate) fn bytes(&self) -> usize {
        let mut bytes = 0;
        self.spine.map_batches(|batch| {
            let storage = &batch.storage;
            bytes += storage.keys.len() * (size_of::<K>() + size_of::<u32>());
            bytes += storage.vals.vals.len() * (size_of::<V>() + size_of::<u32>());
            bytes += storage.upds.times.len() * (size_of::<Time>() + size_of::<Count>());
        });
        bytes
    }

    /// Every pair of the spine's batches, those among them that others cancel.
    pub(crate) fn for_each_update(&self, mut each: impl FnMut(&K, &V)) {
        for batch in &self.batches(View::After).0 {
            for_each_update(batch, |key, value, _| each(key, value));
        }
    }

    /// Every pair of a view that is there, in no order, each once.
    pub(crate) fn for_each(&self, view: View, mut each: impl FnMut(&K, &V, Count)) {
        let batches = self.batches(view);
        if let [only] = batches.0.as_slice() {
            for_each_update(only, |key, value, count| {
                if count != 0 {
                    each(key, value, count);
                }
            });
            return;
        }
        let mut all: Vec<((K, V), Count)> = Vec::new();
        for batch in &batches.0 {
            for_each_update(batch, |key, value, count| all.push(((*key, *value), count)));
        }
        consolidate(&mut all);
        for ((key, value), count) in &all {
            each(key, value, *count);
        }
    }
}

fn new_spine<K: Row, V: Row>() -> Spine<Rc<Batch<K, V>>> {
    Spine::new(OperatorInfo::new(0, 0, Rc::from(&[0_usize][..])), None, None)
}

/// Sorts changes by key and value.
pub(crate) fn sort<K: Row, V: Row>(updates: &mut [Update<K, V>]) {
    // The comparison of tuples asks twice for each part.
    let order = |a: &Update<K, V>, b: &Update<K, V>| a.0.0.cmp(&b.0.0).then_with(|| a.0.1.cmp(&b.0.1));
    if !updates.is_sorted_by(|a, b| order(a, b).is_le()) {
        updates.sort_unstable_by(order);
    }
}

/// Sorts changes and sums those of one pair up; what cancels goes.
fn sum_up<K: Row, V: Row>(updates: &mut Vec<Update<K, V>>) {
    sort(updates);
    updates.dedup_by(|next, first| {
        let same = next.0 == first.0;
        if same {
            first.2 += next.2;
        }
        same
    });
    updates.retain(|(_, _, count)| *count != 0);
}

fn build<K: Row, V: Row>(mut updates: Vec<Update<K, V>>, now: Time) -> Batch<K, V> {
    let (mut keys, mut values) = (1, 1);
    for pair in updates.windows(2) {
        let (new_key, new_value) = (pair[0].0.0 != pair[1].0.0, pair[0].0 != pair[1].0);
        keys += usize::from(new_key);
        values += usize::from(new_value);
    }
    for update in &mut updates {
        update.1 = now;
    }
    let mut builder =
        OrdValBuilder::<Layout<K, V>, Vec<Update<K, V>>>::with_capacity(keys, values, updates.len());
    builder.push(&mut updates);
    finish(builder, now)
}

fn finish<K: Row, V: Row>(builder: OrdValBuilder<Layout<K, V>, Vec<Update<K, V>>>, now: Time) -> Batch<K, V> {
    let [lower, upper, since] = [now, now + 1, 0].map(Antichain::from_elem);
    builder.done(Description::new(lower, upper, since))
}

fn for_each_update<K: Row, V: Row>(batch: &Rc<Batch<K, V>>, mut each: impl FnMut(&K, &V, Count)) {
    let storage = &**batch;
    let mut cursor = storage.cursor();
    while let Some(key) = cursor.get_key(storage) {
        while let Some(value) = cursor.get_val(storage) {
            let mut sum = 0;
            cursor.map_times(storage, |_, count| sum += *count);
            each(key, value, sum);
            cursor.step_val(storage);
        }
        cursor.step_key(storage);
    }
}

/// Batches to read.
pub(crate) struct Batches<K: Row, V: Row>(Vec<Rc<Batch<K, V>>>);

impl<K: Row, V: Row> Batches<K, V> {
    pub(crate) fn probe(&self) -> Probe<'_, K, V> {
        Probe {
            cursors: self.0.iter().map(|batch| (batch.as_ref().cursor(), batch.as_ref())).collect(),
            found: Vec::new(),
            key: None,
        }
    }
}

/// A batch and the place in it.
type Reading<'a, K, V> = (Cursor<K, V>, &'a Batch<K, V>);

/// Finds the values under ascending keys.
pub(crate) struct Probe<'a, K: Row, V: Row> {
    cursors: Vec<Reading<'a, K, V>>,
    found: Vec<(V, Count)>,
    key: Option<K>,
}

impl<K: Row, V: Row> Probe<'_, K, V> {
    /// The values under a key, ascending, and how often each is there. Keys come in ascending order.
    #[inline]
    pub(crate) fn find(&mut self, key: &K) -> &[(V, Count)] {
        if self.key.as_ref() != Some(key) {
            self.key = Some(*key);
            self.look_up(key);
        }
        &self.found
    }

    fn look_up(&mut self, key: &K) {
        self.found.clear();
        let mut hits = 0;
        for (cursor, batch) in &mut self.cursors {
            cursor.seek_key(batch, key);
            if cursor.get_key(batch) != Some(key) {
                continue;
            }
            hits += 1;
            while let Some(value) = cursor.get_val(batch) {
                let mut sum = 0;
                cursor.map_times(batch, |_, count| sum += *count);
                if sum != 0 {
                    self.found.push((*value, sum));
                }
                cursor.step_val(batch);
            }
        }
        if hits > 1 {
            consolidate(&mut self.found);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::row::Narrow;

    fn row(word: u32) -> Narrow {
        let mut row = Narrow::default();
        row.words_mut()[0] = word;
        row
    }

    fn contents(trace: &Trace<Narrow, Narrow>, view: View) -> BTreeMap<(Narrow, Narrow), Count> {
        let mut found = BTreeMap::new();
        trace.for_each(view, |key, value, count| {
            assert!(found.insert((*key, *value), count).is_none(), "each pair once");
        });
        found
    }

    #[test]
    fn what_is_staged_is_there_after_and_not_before() {
        let mut trace = Trace::new();
        // More publications than the clock has room for, so that the trace is written anew on the way.
        let mut expected: BTreeMap<(Narrow, Narrow), Count> = BTreeMap::new();
        for step in 0..1500_u32 {
            let (key, value) = (row(step * 7 % 13), row(step * 5 % 11));
            let count = if step % 3 == 2 { -1 } else { 1 };
            trace.stage(vec![((key, value), 0, count)]);
            let before = contents(&trace, View::Before);
            assert_eq!(before, expected);
            let mut after = expected.clone();
            *after.entry((key, value)).or_default() += count;
            after.retain(|_, count| *count != 0);
            assert_eq!(contents(&trace, View::After), after);
            let batches = trace.batches(View::After);
            let mut probe = batches.probe();
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
        }
        assert!(trace.clock <= CLOCK_LIMIT);
        assert!(trace.updates() < 1000, "what cancels goes: {}", trace.updates());
    }
}
