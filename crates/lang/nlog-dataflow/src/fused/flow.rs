//! A run of a pipeline: bindings that go from probe to probe.
//!
//! Bindings are processed in batches. Each batch is sorted by the key of its probe, so that the index is traversed once, in order; or
//! looked up in any order, where the keys are close to each other ([`direct`](super::direct)). The rows found fill the next batch
//! ([`probe_batch`](super::probe_batch)), which is processed when it is full. The memory of a pipeline therefore does not depend on the
//! number of rows that it derives.

use std::collections::HashSet;

use nlog_data::RuleId;
use nlog_plan::query::{IndexId, Probe as ProbePlan, Step};
use serde::{Deserialize, Serialize};

use super::batch::Values;
use super::bounded::{Meter, Running};
use super::delta::{Delta, Diff};
use super::direct::Direct;
use super::index::Index;
use super::keys::{Keys, Place};
use super::pipeline_end::PipelineEnd;
use super::placement::{Move, owner};
use super::probe::{AHEAD, Probe as Finder};
use super::probe_batch::{Bindings, ProbeBatch};
use super::trace::View;
use crate::expression::Binding;
use crate::steps::{Comparison, Steps};
use crate::symbol::{NO_FAILURE, Symbol, Symbols};

/// Bindings sent from one worker's probe to the same probe at another worker: keys and kept slots.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Parcel {
    words: Vec<Symbol>,
    diffs: Vec<Diff>,
    failures: Vec<Symbol>,
}

impl Parcel {
    pub(super) fn is_empty(&self) -> bool {
        self.diffs.is_empty()
    }

    /// Visits every symbol in the parcel.
    pub(crate) fn symbols_mut(&mut self) -> impl Iterator<Item = &mut Symbol> {
        self.words.iter_mut().chain(&mut self.failures)
    }
}

/// A probe and the steps after it.
pub(super) struct Probe {
    pub(super) index: IndexId,
    pub(super) movement: Move,
    /// By worker, the bindings to send in the next round.
    pub(super) parcels: Vec<Parcel>,
    pub(super) view: View,
    key: Vec<usize>,
    keep: Vec<usize>,
    take: Vec<usize>,
    pub(super) steps: Steps,
    /// The steps after the probe, if they only compare slots.
    comparisons: Option<Vec<Comparison>>,
    pub(super) batch: ProbeBatch,
    /// The bindings that the running run has looked up in order, and the places of keys if it goes on in any order.
    looked_up: usize,
    direct: Option<Direct>,
}

/// The state that pipelines read, and the results that they fill in.
pub(crate) struct Context<'a> {
    pub(crate) symbols: &'a Symbols,
    pub(crate) indexes: &'a [Index],
    /// Rows of the head, or groups with tuples.
    pub(crate) out: &'a mut Delta,
    /// Failures, each with the change of the number of failing bindings.
    pub(crate) failures: &'a mut Vec<(Symbol, Diff)>,
    /// Whether a count exceeded its range.
    pub(crate) too_many: &'a mut bool,
    /// This worker's number, and the number of workers.
    pub(crate) me: usize,
    pub(crate) peers: usize,
    /// The rule, and the bound of the transaction, if it has one.
    pub(crate) rule: RuleId,
    pub(crate) running: Option<&'a Running>,
}

impl Context<'_> {
    /// The rows of the result so far, and their width.
    pub(super) fn made(&self) -> (usize, usize) {
        (self.out.len(), self.out.width())
    }
}

impl Probe {
    pub(super) fn new(
        plan: &ProbePlan,
        view: View,
        movement: Move,
        later: &[Step],
        symbols: &Symbols,
    ) -> Self {
        let steps = Steps::before_probe(later, symbols);
        Probe {
            index: plan.index,
            movement,
            parcels: Vec::new(),
            view,
            key: plan.key.clone(),
            keep: plan.keep.clone(),
            take: plan.take.clone(),
            comparisons: steps.comparisons(),
            steps,
            batch: ProbeBatch::new(plan.key.len(), plan.repeats),
            looked_up: 0,
            direct: None,
        }
    }

    /// Adds a binding to the parcel for another worker.
    fn send(
        &mut self,
        to: usize,
        binding: &impl Slots,
        diff: Diff,
        failure: Option<Symbol>,
        context: &Context<'_>,
    ) {
        self.parcels.resize_with(context.peers, Parcel::default);
        let parcel = &mut self.parcels[to];
        parcel.words.extend(self.key.iter().chain(&self.keep).map(|slot| binding.slot(*slot)));
        parcel.diffs.push(diff);
        parcel.failures.extend(failure);
    }

    /// Adds a binding to the batch. Returns whether the batch is full.
    #[inline]
    fn wait(&mut self, binding: &impl Slots, diff: Diff, failure: Option<Symbol>) -> bool {
        let ProbeBatch { keys, bindings, .. } = &mut self.batch;
        keys.push(self.key.iter().map(|slot| binding.slot(*slot)), bindings.diffs.len());
        bindings.kept.extend(self.keep.iter().map(|slot| binding.slot(*slot)));
        bindings.diffs.push(diff);
        bindings.failures.extend(failure);
        self.batch.is_full()
    }
}

/// Access to a binding's words, in any representation.
pub(crate) trait Slots {
    fn slot(&self, at: usize) -> Symbol;
}

impl Slots for Binding {
    #[inline]
    fn slot(&self, at: usize) -> Symbol {
        self.slots[at]
    }
}

/// A row that a pipeline starts with.
pub(super) struct Begun<'a> {
    pub(super) row: &'a [Symbol],
    pub(super) columns: &'a [usize],
}

impl Slots for Begun<'_> {
    #[inline]
    fn slot(&self, at: usize) -> Symbol {
        self.row[self.columns[at]]
    }
}

/// A binding and a row that a probe found for it, not yet assembled.
struct Found<'a> {
    kept: &'a [Symbol],
    row: &'a [Symbol],
    take: &'a [usize],
}

impl Slots for Found<'_> {
    #[inline]
    fn slot(&self, at: usize) -> Symbol {
        match self.kept.get(at) {
            Some(kept) => *kept,
            None => self.row[self.take[at - self.kept.len()]],
        }
    }
}

/// What finds the values under a key.
trait Find {
    /// Whether so few keys are looked up that [`Find::expect`] makes it faster.
    fn is_sparse(&self, keys: usize) -> bool;

    /// Prepares for the keys that will be looked up next. `fill` appends their words.
    fn expect(&mut self, fill: impl FnOnce(&mut Vec<Symbol>));

    /// The values under a key.
    fn find(&mut self, key: &[Symbol]) -> Values<'_>;
}

impl Find for Finder<'_> {
    fn is_sparse(&self, keys: usize) -> bool {
        Finder::is_sparse(self, keys)
    }

    fn expect(&mut self, fill: impl FnOnce(&mut Vec<Symbol>)) {
        Finder::expect(self, fill);
    }

    #[inline]
    fn find(&mut self, key: &[Symbol]) -> Values<'_> {
        Finder::find(self, key)
    }
}

impl Find for &Direct {
    fn is_sparse(&self, _: usize) -> bool {
        false
    }

    fn expect(&mut self, _: impl FnOnce(&mut Vec<Symbol>)) {}

    #[inline]
    fn find(&mut self, key: &[Symbol]) -> Values<'_> {
        Direct::find(self, key[0])
    }
}

/// The state of one run.
pub(super) struct Flow<'a> {
    end: &'a mut PipelineEnd,
    pub(super) may_fail: bool,
    pub(super) bindings: u64,
    meter: Meter<'a>,
}

impl<'a> Flow<'a> {
    pub(super) fn new(end: &'a mut PipelineEnd, may_fail: bool, context: &Context<'a>) -> Self {
        let meter = Meter::new(context.running, context.rule, context.out.len());
        Flow { end, may_fail, bindings: 0, meter }
    }

    /// Whether the transaction is stopped.
    #[inline]
    pub(super) fn stops(&mut self, context: &Context<'_>) -> bool {
        self.meter.stops(context.made(), self.bindings, context.symbols)
    }

    /// Processes what still waits for these probes, and counts the rest of what was done. A run that is stopped leaves nothing
    /// behind.
    pub(super) fn finish(&mut self, probes: &mut [Probe], context: &mut Context<'_>) {
        for at in 0..probes.len() {
            self.work_off(&mut probes[at..], context);
            probes[at].batch.shrink();
            (probes[at].looked_up, probes[at].direct) = (0, None);
        }
        if self.meter.counts(context.made(), self.bindings, context.symbols) {
            for probe in probes {
                probe.batch.clear();
                probe.parcels.clear();
            }
        }
    }

    /// Runs deleted rows together with their replacements. Returns the positions of those for which that was possible.
    pub(super) fn run_pairs(
        &mut self,
        pairs: Vec<[usize; 2]>,
        rows: &Delta,
        columns: &[usize],
        steps: &mut Steps,
        probes: &mut [Probe],
        context: &mut Context<'_>,
    ) -> HashSet<usize> {
        let mut done = HashSet::new();
        for pair in pairs {
            let [mut gone, mut come] = pair.map(|at| Binding {
                slots: columns.iter().map(|column| rows.row(at)[*column]).collect(),
                failure: NO_FAILURE,
            });
            let diffs = pair.map(|at| rows.diff(at));
            let symbols = context.symbols;
            let ran = steps.run_difference([&mut gone, &mut come], symbols, &mut |binding, is_gone| {
                self.pass_on(binding, diffs[usize::from(!is_gone)], probes, context);
            });
            if ran {
                done.extend(pair);
            }
        }
        done
    }

    /// Passes a binding on to the next probe's batch, or to the end.
    #[inline]
    pub(super) fn pass_on(
        &mut self,
        binding: &Binding,
        diff: Diff,
        probes: &mut [Probe],
        context: &mut Context<'_>,
    ) {
        if probes.is_empty() {
            let failure = self.end.take(binding, diff, self.may_fail, context);
            if failure != NO_FAILURE {
                context.failures.push((failure, diff));
            }
        } else {
            let failure = self.may_fail.then(|| binding.least_failure(context.symbols));
            self.wait_for_probe(binding, diff, failure, probes, context);
        }
    }

    /// Passes a binding on without assembling it. Works only for bindings that need nothing but comparisons and cannot
    /// fail. Returns whether that was possible.
    #[inline]
    pub(super) fn take_direct(
        &mut self,
        binding: &impl Slots,
        comparisons: &[Comparison],
        diff: Diff,
        probes: &mut [Probe],
        context: &mut Context<'_>,
    ) -> bool {
        let holds = |one: &Comparison| (binding.slot(one.one) == binding.slot(one.other)) == one.equal;
        if !comparisons.iter().all(holds) {
            return true;
        }
        if probes.is_empty() {
            return self.end.take_slots(binding, diff, context);
        }
        self.wait_for_probe(binding, diff, None, probes, context);
        true
    }

    /// Adds a binding to the first probe's batch, here or at another worker.
    #[inline]
    fn wait_for_probe(
        &mut self,
        binding: &impl Slots,
        diff: Diff,
        failure: Option<Symbol>,
        probes: &mut [Probe],
        context: &mut Context<'_>,
    ) {
        let next = &mut probes[0];
        if let Move::Send(slots) = &next.movement {
            let to = owner(slots.iter().map(|slot| binding.slot(*slot)), context.peers, context.symbols);
            if to != context.me {
                return next.send(to, binding, diff, failure, context);
            }
        }
        if next.wait(binding, diff, failure) && next.batch.is_due(next.keep.len()) {
            self.work_off(probes, context);
        }
    }

    /// Adds the bindings that another worker sent to the first probe's batch.
    pub(super) fn receive(&mut self, parcel: &Parcel, probes: &mut [Probe], context: &mut Context<'_>) {
        let (keys, kept) = (probes[0].key.len(), probes[0].keep.len());
        for (at, diff) in parcel.diffs.iter().enumerate() {
            let (key, slots) = parcel.words[at * (keys + kept)..(at + 1) * (keys + kept)].split_at(keys);
            let ProbeBatch { keys: places, bindings, .. } = &mut probes[0].batch;
            places.push(key.iter().copied(), bindings.diffs.len());
            bindings.kept.extend_from_slice(slots);
            bindings.diffs.push(*diff);
            bindings.failures.extend(parcel.failures.get(at));
            if probes[0].batch.is_full() && probes[0].batch.is_due(kept) {
                self.work_off(probes, context);
            }
        }
    }

    /// Processes the first probe's batch.
    fn work_off(&mut self, probes: &mut [Probe], context: &mut Context<'_>) {
        let Some((probe, later)) = probes.split_first_mut() else { return };
        if self.stops(context) {
            return probe.batch.clear();
        }
        *context.too_many |= probe.batch.sort(probe.keep.len()).is_err();
        if probe.batch.bindings.diffs.is_empty() {
            return;
        }
        let indexes = context.indexes;
        let trace = &indexes[probe.index.0 as usize].trace;
        // The batch is taken out and put back, so that its memory is reused.
        let mut batch = std::mem::take(&mut probe.batch);
        let direct = probe.direct.take();
        let ProbeBatch { keys, bindings, .. } = &batch;
        match (keys, &direct) {
            (Keys::One(keys), Some(direct)) => self.probe(keys, bindings, direct, probe, later, context),
            (Keys::One(keys), None) => {
                self.probe(keys, bindings, trace.probe(probe.view), probe, later, context);
            }
            (Keys::Three(keys), _) => {
                self.probe(keys, bindings, trace.probe(probe.view), probe, later, context);
            }
            (Keys::More(keys), _) => {
                self.probe(keys, bindings, trace.probe(probe.view), probe, later, context);
            }
        }
        let processed = batch.bindings.diffs.len();
        batch.clear();
        (probe.batch, probe.direct) = (batch, direct);
        probe.looked_up += processed;
        if probe.key.len() == 1
            && probe.batch.may_be_direct(processed)
            && let Some(direct) = Direct::new(trace, probe.view, probe.looked_up)
        {
            probe.direct = Some(direct);
            probe.batch.begin_direct();
        }
    }

    fn probe<K: Place>(
        &mut self,
        keys: &[K],
        batch: &Bindings,
        mut finder: impl Find,
        probe: &mut Probe,
        later: &mut [Probe],
        context: &mut Context<'_>,
    ) {
        let (symbols, width) = (context.symbols, probe.keep.len());
        let mut binding = Binding::default();
        let (words, mut key) = (probe.key.len(), Vec::with_capacity(probe.key.len()));
        let is_sparse = finder.is_sparse(keys.len());
        for (number, place) in keys.iter().enumerate() {
            if self.stops(context) {
                return;
            }
            if is_sparse && number.is_multiple_of(AHEAD) {
                let ahead = keys[number..].iter().take(AHEAD);
                finder.expect(|into| ahead.for_each(|place| place.put_key(words, into)));
            }
            let at = place.at();
            key.clear();
            place.put_key(words, &mut key);
            for (row, count) in finder.find(&key).iter() {
                // Most rows have the count 1.
                let product =
                    if count == 1 { Some(batch.diffs[at]) } else { batch.diffs[at].checked_mul(count) };
                let Some(diff) = product else {
                    *context.too_many = true;
                    continue;
                };
                self.bindings += 1;
                let kept = &batch.kept[at * width..(at + 1) * width];
                let found = Found { kept, row, take: &probe.take };
                if let Some(comparisons) = probe.comparisons.as_deref().filter(|_| !self.may_fail)
                    && self.take_direct(&found, comparisons, diff, later, context)
                {
                    continue;
                }
                binding.slots.clear();
                binding.slots.extend_from_slice(kept);
                binding.slots.extend(probe.take.iter().map(|column| row[*column]));
                binding.failure = batch.failures.get(at).copied().unwrap_or(NO_FAILURE);
                if probe.steps.is_empty() {
                    self.pass_on(&binding, diff, later, context);
                } else {
                    probe.steps.run(&mut binding, symbols, &mut |binding| {
                        self.pass_on(binding, diff, later, context);
                    });
                }
            }
        }
    }
}
