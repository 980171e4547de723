//! A trace: pairs of key and value with their counts, as batches in differential's spine.
//!
//! Changes of a transaction are *staged* next to the spine until the transaction is accepted. Then they are *recent*: the
//! spine and the recent batches hold the old state, and together with the staged batches the new state. Refusing a
//! transaction only drops the staged batches. Inserting a batch into a spine merges others, which would be a tenth of a
//! small transaction's time, so recent batches wait for idle time, or until there are several.
//!
//! Each trace has its own clock, which advances by one for each batch. Readers never look at times. The clock exists
//! because spines order batches by it and compact everything before it.

use std::io;
use std::rc::Rc;

use differential_dataflow::trace::implementations::spine_fueled::Spine;
use differential_dataflow::trace::{BatchReader as _, Trace as _, TraceReader as _};
use nlog_data::MOST_WAYS;
use timely::dataflow::operators::generic::OperatorInfo;
use timely::progress::Antichain;

use super::batch::{Batch, Stride, Values};
use super::delta::{Diff, TooMany};
use super::probe::{Probe, Sampled};
use super::sorted::{Entry, Packed as _, Sorted, Use};
use crate::checked_bytes::{Broken, In, Out};
use crate::symbol::{Marks, Symbol};

/// A trace's clock.
pub(super) type Time = u32;

/// The number of derivations of a row, or of rows that agree on the columns of an index.
pub(crate) type Ways = i64;

/// Converts a change of a count, if it is in range. Merging batches only sums changes between two valid counts, so it cannot
/// overflow.
pub(crate) fn ways(diff: Diff) -> Result<Ways, TooMany> {
    if (-MOST_WAYS..=MOST_WAYS).contains(&diff) { Ok(diff) } else { Err(TooMany) }
}

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
pub(crate) struct Trace {
    stride: Stride,
    spine: Spine<Rc<Batch>>,
    /// The non-empty batches of the spine.
    batches: Vec<Sampled>,
    /// Accepted batches that are not in the spine yet, in the order of their times.
    recent: Vec<Sampled>,
    staged: Vec<Sampled>,
    /// The time of the first recent batch.
    clock: Time,
}

impl Trace {
    /// A trace for keys and values with these numbers of words.
    pub(crate) fn new(key: usize, value: usize) -> Self {
        Trace {
            stride: Stride { key, value },
            spine: new_spine(),
            batches: Vec::new(),
            recent: Vec::new(),
            staged: Vec::new(),
            clock: 0,
        }
    }

    /// The time of the next batch that is staged.
    fn now(&self) -> Time {
        self.clock + (self.recent.len() + self.staged.len()) as Time
    }

    /// Stages changes of rows. The first words of a row are the key, the next are the value.
    pub(crate) fn stage<E: Entry>(&mut self, rows: &Sorted<E>) -> Result<(), TooMany> {
        let Stride { key, value } = self.stride;
        if rows.is_set() {
            let batch = Batch::of_set(self.stride, rows);
            self.staged.extend(batch.finish(self.now()).map(|batch| Sampled::new(Rc::new(batch))));
            return Ok(());
        }
        let (mut keys, mut pairs) = (0, 0);
        let mut last: Option<E::Row> = None;
        for sum in rows.sums() {
            let (row, _) = sum?;
            keys += usize::from(last.is_none_or(|last| !last.same_prefix(row, key)));
            pairs += 1;
            last = Some(row);
        }
        let mut batch = Batch::with_capacity(self.stride, keys, pairs);
        let mut words: Vec<Symbol> = vec![0; key + value];
        for sum in rows.sums() {
            let (row, sum) = sum?;
            if sum != 0 {
                words.iter_mut().enumerate().for_each(|(at, word)| *word = row.word(at));
                batch.push(&words[..key], &words[key..], ways(sum)?);
            }
        }
        self.staged.extend(batch.finish(self.now()).map(|batch| Sampled::new(Rc::new(batch))));
        Ok(())
    }

    /// Publishes the staged changes, if there are any.
    pub(crate) fn publish_if_touched(&mut self) {
        if self.staged.is_empty() {
            return;
        }
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
        let all = self.all(View::Before);
        self.spine = new_spine();
        self.batches.clear();
        self.recent.clear();
        self.clock = 0;
        let all = all.and_then(|all| Rc::unwrap_or_clone(all).finish(0));
        self.recent.extend(all.map(|batch| Sampled::new(Rc::new(batch))));
        self.insert_into_spine(self.recent.len());
    }

    /// The non-empty batches of a view.
    fn batches(&self, view: View) -> impl Iterator<Item = &Sampled> {
        let staged: &[Sampled] = if view == View::After { &self.staged } else { &[] };
        self.batches.iter().chain(&self.recent).chain(staged)
    }

    /// All pairs of a view as one batch, which may be empty; `None` if there are no batches.
    fn all(&self, view: View) -> Option<Rc<Batch>> {
        let mut batches: Vec<Rc<Batch>> = self.batches(view).map(|batch| Rc::clone(&batch.batch)).collect();
        // The last ones are the smallest.
        let mut all = batches.pop()?;
        while let Some(larger) = batches.pop() {
            all = Rc::new(larger.merged(&all));
        }
        Some(all)
    }

    /// A probe that finds values under ascending keys.
    pub(crate) fn probe(&self, view: View) -> Probe<'_> {
        Probe::new(self.stride, self.batches(view))
    }

    /// The only batch of a view, if there is one.
    pub(super) fn only(&self, view: View) -> Option<&Rc<Batch>> {
        let mut batches = self.batches(view);
        batches.next().filter(|_| batches.next().is_none()).map(|only| &only.batch)
    }

    /// Whether a view is empty.
    pub(crate) fn is_empty(&self, view: View) -> bool {
        self.batches(view).next().is_none()
    }

    /// The number of accepted changes: at least the number of pairs, and close to it after batches have merged.
    pub(crate) fn updates(&self) -> usize {
        self.batches(View::Before).map(|batch| batch.batch.pairs()).sum()
    }

    /// The approximate size of the accepted batches, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.batches(View::Before).map(|batch| batch.batch.bytes()).sum()
    }

    /// Marks every symbol in the batches of the spine, in the recent and in the staged batches.
    pub(crate) fn mark(&self, marks: &mut Marks) {
        for batch in self.batches(View::After) {
            batch.batch.keys().iter().chain(batch.batch.value_words()).for_each(|word| marks.symbol(*word));
        }
    }

    /// Writes the accepted pairs.
    pub(crate) fn save(&self, out: &mut Out<'_>) -> io::Result<()> {
        match self.all(View::Before) {
            Some(all) => all.save(out),
            None => Batch::with_capacity(self.stride, 0, 0).save(out),
        }
    }

    /// Reads pairs that another trace of this stride has written.
    pub(crate) fn read(&self, from: &mut In<'_, '_>) -> Result<Batch, Broken> {
        Batch::read(self.stride, from)
    }

    /// Takes over the pairs of a trace that was saved. This one is empty.
    pub(crate) fn restore(&mut self, batch: Batch) {
        self.recent.extend(batch.finish(self.clock).map(|batch| Sampled::new(Rc::new(batch))));
        self.merge();
    }

    /// Visits every key of a view with its values, in order.
    pub(crate) fn for_each_key(&self, view: View, mut each: impl FnMut(&[Symbol], Values<'_>)) {
        if let Some(all) = self.all(view) {
            (0..all.key_count()).for_each(|at| each(all.key(at), all.values(at)));
        }
    }

    /// Visits the accepted changes of pairs, in no particular order. A pair can have several, whose sum counts.
    pub(crate) fn for_each_change(&self, mut each: impl FnMut(&[Symbol], &[Symbol], Ways)) {
        for batch in self.batches(View::Before) {
            let batch = &batch.batch;
            for at in 0..batch.key_count() {
                batch.values(at).iter().for_each(|(value, count)| each(batch.key(at), value, count));
            }
        }
    }

    /// Visits every pair of a view, in order.
    pub(crate) fn for_each(&self, view: View, mut each: impl FnMut(&[Symbol], &[Symbol], Ways)) {
        self.for_each_key(view, |key, values| {
            values.iter().for_each(|(value, count)| each(key, value, count));
        });
    }
}

/// Sorted rows are staged.
impl Use for &mut Trace {
    type Done = Result<(), TooMany>;

    fn rows<E: Entry>(self, rows: &Sorted<E>) -> Self::Done {
        self.stage(rows)
    }
}

fn new_spine() -> Spine<Rc<Batch>> {
    Spine::new(OperatorInfo::new(0, 0, Rc::from(&[0_usize][..])), None, None)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::delta::Delta;
    use super::super::index::Fit;
    use super::super::sorted::sort;
    use super::*;

    type Pairs = BTreeMap<[Symbol; 2], Ways>;

    fn contents(trace: &Trace, view: View) -> Pairs {
        let mut found = Pairs::new();
        trace.for_each(view, |key, value, count| {
            assert!(found.insert([key[0], value[0]], count).is_none(), "each pair once");
        });
        found
    }

    #[test]
    fn what_is_staged_is_there_after_and_not_before() {
        let mut trace = Trace::new(1, 1);
        // More publications than the clock has room for, so that the trace is rewritten meanwhile.
        let mut expected = Pairs::new();
        for step in 0..1500_u32 {
            let pair = [step * 7 % 13, step * 5 % 11];
            let count = if step % 3 == 2 { -1 } else { 1 };
            let mut delta = Delta::new(2);
            delta.push(&pair, count);
            sort(&delta, &Fit::default(), &[0, 1], &mut trace).expect("small numbers");
            let before = contents(&trace, View::Before);
            assert_eq!(before, expected);
            let mut after = expected.clone();
            *after.entry(pair).or_default() += count;
            after.retain(|_, count| *count != 0);
            assert_eq!(contents(&trace, View::After), after);
            let mut probe = trace.probe(View::After);
            for key in 0..13 {
                let found: Pairs =
                    probe.find(&[key]).iter().map(|(value, count)| ([key, value[0]], count)).collect();
                let wanted: Pairs = (after.iter().filter(|([of, _], _)| *of == key))
                    .map(|(pair, count)| (*pair, *count))
                    .collect();
                assert_eq!(found, wanted);
            }
            drop(probe);
            if step % 5 == 4 {
                trace.discard();
            } else {
                trace.publish_if_touched();
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
