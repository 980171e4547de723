//! Runs a pipeline: takes changed rows of one atom through probes of the other atoms to rows of the head.
//!
//! Bindings are processed in batches. Each batch is sorted by the key of its probe, so that the index is traversed
//! once, in order. The rows found fill the next batch ([`probe_batch`](super::probe_batch)), which is processed when it
//! is full. The memory of a pipeline therefore does not depend on the number of rows that it derives.

use std::collections::HashSet;
use std::time::Instant;

use nlog_data::RuleId;
use nlog_plan::query::{IndexId, Pipeline as PipelinePlan, Probe as ProbePlan, Start, Step};
use serde::{Deserialize, Serialize};

use super::bounded::{Meter, Running};
use super::delta::{Delta, Diff};
use super::index::{Fit, Index};
use super::keys::{Keys, Place};
use super::pipeline_end::PipelineEnd;
use super::placement::{Move, Moves, owner};
use super::probe::{AHEAD, Probe as Finder};
use super::probe_batch::{Bindings, ProbeBatch};
use super::replaced::Replaced;
use super::rounds::Filled;
use super::trace::View;
use crate::expression::{Binding, Expression};
use crate::steps::{Comparison, Steps};
use crate::symbol::{NO_FAILURE, Symbol, Symbols};

/// A run that touches more rows than this leaves no cached results behind.
const MANY: u64 = 1 << 13;

/// At least so many first rows are read as the keys of an index. Few in debug builds, so that tests have both ways.
const KEYS_FROM: usize = if cfg!(debug_assertions) { 4 } else { 1 << 12 };

/// The work of a pipeline since the engine was started.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Work {
    /// The number of runs.
    pub(crate) runs: u64,
    /// Changed rows that it started with.
    pub(crate) rows: u64,
    /// Bindings that probes found.
    pub(crate) bindings: u64,
    /// Rows of the head that it inserted or deleted.
    pub(crate) derived: u64,
    /// Time, in nanoseconds.
    pub(crate) nanos: u64,
}

impl Work {
    /// Adds a run that began at `start`.
    fn add_run(&mut self, start: Instant, rows: u64, bindings: u64, derived: u64) {
        self.runs += 1;
        self.rows += rows;
        self.bindings += bindings;
        self.derived += derived;
        self.nanos += start.elapsed().as_nanos() as u64;
    }
}

/// A plan's pipeline, ready to run.
pub(crate) struct Pipeline {
    /// The conditions on the starting atom's rows; empty for a pipeline that runs once.
    pub(crate) fit: Fit,
    columns: Vec<usize>,
    /// The starting atom.
    pub(crate) atom: Option<usize>,
    /// How to run a row together with the one that replaces it, if that is possible.
    replaced: Option<Replaced>,
    steps: Steps,
    /// The steps before the first probe, if they only compare slots.
    comparisons: Option<Vec<Comparison>>,
    probes: Vec<Probe>,
    end: PipelineEnd,
    /// The columns of a starting row that are the result, if the pipeline does nothing else.
    projected: Option<Vec<usize>>,
    may_fail: bool,
    /// The move of results to their worker, by columns of the result.
    end_move: Move,
    /// If every worker has all rows to begin with: the columns that select the worker that runs a row.
    divide: Option<Vec<usize>>,
    pub(crate) work: Work,
    /// The work at the time when the engine adopted the plan. Later work is compared with the plan's estimates.
    pub(crate) measured_from: Work,
}

/// Bindings sent from one worker's probe to the same probe at another worker: keys and kept slots.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Parcel {
    words: Vec<Symbol>,
    diffs: Vec<Diff>,
    failures: Vec<Symbol>,
}

impl Parcel {
    /// Visits every symbol in the parcel.
    pub(crate) fn symbols_mut(&mut self) -> impl Iterator<Item = &mut Symbol> {
        self.words.iter_mut().chain(&mut self.failures)
    }
}

/// A probe and the steps after it.
struct Probe {
    index: IndexId,
    movement: Move,
    /// By worker, the bindings to send in the next round.
    parcels: Vec<Parcel>,
    view: View,
    key: Vec<usize>,
    keep: Vec<usize>,
    take: Vec<usize>,
    steps: Steps,
    /// The steps after the probe, if they only compare slots.
    comparisons: Option<Vec<Comparison>>,
    batch: ProbeBatch,
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
    fn made(&self) -> (usize, usize) {
        (self.out.len(), self.out.width())
    }
}

impl Pipeline {
    /// Prepares a plan's pipeline. `is_before(atom)`: whether the atom's rows are read in their new state.
    pub(crate) fn new(
        plan: &PipelinePlan,
        is_before: impl Fn(usize) -> bool,
        moves: Moves,
        symbols: &Symbols,
    ) -> Self {
        let mut movements = moves.probes.into_iter();
        let (fit, columns, atom) = match &plan.start {
            Start::Once => (Fit::default(), Vec::new(), None),
            Start::Row { atom, select, columns, .. } => {
                (Fit::new(select, symbols), columns.clone(), Some(*atom))
            }
        };
        let probes = plan.steps.iter().enumerate().filter_map(|(at, step)| match step {
            Step::Probe(probe) => {
                let view = if is_before(probe.atom) { View::After } else { View::Before };
                let movement = movements.next().unwrap_or(Move::Stay);
                Some(Probe::new(probe, view, movement, &plan.steps[at + 1..], symbols))
            }
            _ => None,
        });
        let steps = Steps::before_probe(&plan.steps, symbols);
        let end = PipelineEnd::new(&plan.end, symbols);
        let projected = match &end {
            PipelineEnd::Slots(slots) if plan.steps.is_empty() && fit.is_empty() => {
                Some(slots.iter().filter_map(|slot| columns.get(*slot).copied()).collect())
            }
            _ => None,
        };
        Pipeline {
            fit,
            atom,
            replaced: Replaced::new(plan),
            comparisons: steps.comparisons(),
            steps,
            probes: probes.collect(),
            end,
            projected,
            may_fail: plan.may_fail,
            end_move: moves.end,
            divide: moves.divide.map(|slots| slots.iter().map(|slot| columns[*slot]).collect()),
            columns,
            work: Work::default(),
            measured_from: Work::default(),
        }
    }

    /// Whether some probed index is empty, so that no row yields anything. Of the indexes after a move to another worker, only those
    /// that have never had a row are known to be empty.
    pub(crate) fn is_idle(&self, indexes: &[Index], filled: &Filled) -> bool {
        let mut is_local = true;
        self.probes.iter().any(|probe| {
            is_local &= !matches!(probe.movement, Move::Send(_));
            let at = probe.index.0 as usize;
            if is_local { indexes[at].trace.is_empty(probe.view) } else { !filled.is_filled(at, probe.view) }
        })
    }

    /// Whether all probed indexes have had rows, at some worker.
    pub(crate) fn may_find(&self, filled: &Filled) -> bool {
        self.probes.iter().all(|probe| filled.is_filled(probe.index.0 as usize, probe.view))
    }

    /// The number of times that a binding can be sent to another worker on its way to the end.
    pub(crate) fn sends(&self) -> usize {
        self.probes.iter().filter(|probe| matches!(probe.movement, Move::Send(_))).count()
    }

    /// The move of results to another worker.
    pub(crate) fn end_move(&self) -> &Move {
        &self.end_move
    }

    /// Takes the bindings to send to a worker, by number of the probe.
    pub(crate) fn parcels_for(&mut self, peer: usize) -> Vec<(usize, Parcel)> {
        let probes = self.probes.iter_mut().enumerate();
        probes
            .filter_map(|(at, probe)| {
                let parcel = std::mem::take(probe.parcels.get_mut(peer)?);
                (!parcel.diffs.is_empty()).then_some((at, parcel))
            })
            .collect()
    }

    /// Continues with bindings that another worker sent to a probe. Returns the number of bindings found.
    pub(crate) fn receive(&mut self, probe: usize, parcel: &Parcel, context: &mut Context<'_>) -> u64 {
        let mut flow = Flow::new(&mut self.end, self.may_fail, context);
        flow.receive(parcel, &mut self.probes[probe..], context);
        flow.finish(&mut self.probes[probe..], context);
        let found = flow.bindings;
        self.work.bindings += found;
        self.forget_after(found);
        found
    }

    /// Drops unsent bindings that a refused transaction left behind.
    pub(crate) fn drop_parcels(&mut self) {
        self.probes.iter_mut().for_each(|probe| probe.parcels.clear());
    }

    /// Runs changed rows through the pipeline. A pipeline without a starting atom takes one row without columns.
    /// Returns the number of rows touched: starting rows, and bindings that probes found.
    pub(crate) fn run(&mut self, rows: &Delta, context: &mut Context<'_>) -> u64 {
        let (start, derived) = (Instant::now(), context.out.len());
        let mut flow = Flow::new(&mut self.end, self.may_fail, context);
        let (me, peers, symbols) = (context.me, context.peers, context.symbols);
        let divide = self.divide.as_deref();
        let is_own = |row: &[Symbol]| {
            divide
                .is_none_or(|columns| owner(columns.iter().map(|column| row[*column]), peers, symbols) == me)
        };
        let mut pairs =
            self.replaced.as_ref().map(|replaced| replaced.pairs(rows, &self.fit)).unwrap_or_default();
        pairs.retain(|pair| pair.iter().all(|at| is_own(rows.row(*at))));
        let (columns, steps, probes) = (&self.columns, &mut self.steps, &mut self.probes);
        let done = flow.run_pairs(pairs, rows, columns, steps, probes, context);
        let mut binding = Binding::default();
        let mut of_others = 0;
        for (at, (row, diff)) in rows.rows().enumerate() {
            if flow.stops(context) {
                break;
            }
            if !self.fit.fits(row) || (!done.is_empty() && done.contains(&at)) {
                continue;
            }
            if !is_own(row) {
                of_others += 1;
                continue;
            }
            if let Some(comparisons) = self.comparisons.as_deref().filter(|_| !flow.may_fail) {
                let begun = Begun { row, columns: &self.columns };
                if flow.take_direct(&begun, comparisons, diff, &mut self.probes, context) {
                    continue;
                }
            }
            binding.slots.clear();
            binding.slots.extend(self.columns.iter().map(|column| row[*column]));
            binding.failure = NO_FAILURE;
            let probes = &mut self.probes[..];
            self.steps.run(&mut binding, symbols, &mut |binding| {
                flow.pass_on(binding, diff, probes, context);
            });
        }
        flow.finish(&mut self.probes, context);
        let found = flow.bindings;
        let begun = (rows.len() - of_others) as u64;
        self.work.add_run(start, begun, found, (context.out.len() - derived) as u64);
        let touched = begun + found;
        self.forget_after(touched);
        touched
    }

    /// Whether the results for these rows are the keys of an index: the pipeline only drops columns, and the index has these rows
    /// and no others.
    pub(crate) fn reads_keys(&self, index: &Index, rows: &Delta) -> bool {
        let is_key = |columns: &[usize]| index.key_is(columns) && index.trace.is_empty(View::Before);
        rows.len() >= KEYS_FROM && rows.is_once() && self.projected.as_deref().is_some_and(is_key)
    }

    /// Like [`Pipeline::run`], for so many rows of an index that [`Pipeline::reads_keys`]: each result comes once, with the number of its
    /// rows as count. Sorting has made equal ones neighbours already.
    pub(crate) fn run_keys(&mut self, index: &Index, rows: usize, context: &mut Context<'_>) -> u64 {
        let (start, derived) = (Instant::now(), context.out.len());
        let mut meter = Meter::new(context.running, context.rule, derived);
        index.trace.for_each_key(View::After, |key, values| match values.total() {
            Some(total) => context.out.push(key, total),
            None => *context.too_many = true,
        });
        meter.counts(context.made(), 0, context.symbols);
        self.work.add_run(start, rows as u64, 0, (context.out.len() - derived) as u64);
        rows as u64
    }

    /// Clears the caches after a run that touched many rows: they are large, and later transactions touch few rows.
    fn forget_after(&mut self, touched: u64) {
        if touched > MANY {
            self.forget();
        }
    }

    /// Clears the caches of expressions.
    pub(crate) fn forget(&mut self) {
        self.steps.forget();
        for probe in &mut self.probes {
            probe.steps.forget();
        }
        self.end.expressions_mut(&mut Expression::forget);
    }

    /// Visits every constant.
    pub(crate) fn constants(&self, each: &mut impl FnMut(Symbol)) {
        self.fit.constants().for_each(&mut *each);
        self.steps.constants(each);
        for probe in &self.probes {
            probe.steps.constants(each);
        }
        self.end.constants(each);
    }
}

impl Probe {
    fn new(plan: &ProbePlan, view: View, movement: Move, later: &[Step], symbols: &Symbols) -> Self {
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
struct Begun<'a> {
    row: &'a [Symbol],
    columns: &'a [usize],
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

/// The state of one run.
struct Flow<'a> {
    end: &'a mut PipelineEnd,
    may_fail: bool,
    bindings: u64,
    meter: Meter<'a>,
}

impl<'a> Flow<'a> {
    fn new(end: &'a mut PipelineEnd, may_fail: bool, context: &Context<'a>) -> Self {
        let meter = Meter::new(context.running, context.rule, context.out.len());
        Flow { end, may_fail, bindings: 0, meter }
    }

    /// Whether the transaction is stopped.
    #[inline]
    fn stops(&mut self, context: &Context<'_>) -> bool {
        self.meter.stops(context.made(), self.bindings, context.symbols)
    }

    /// Processes what still waits for these probes, and counts the rest of what was done. A run that is stopped leaves nothing
    /// behind.
    fn finish(&mut self, probes: &mut [Probe], context: &mut Context<'_>) {
        for at in 0..probes.len() {
            self.work_off(&mut probes[at..], context);
            probes[at].batch.shrink();
        }
        if self.meter.counts(context.made(), self.bindings, context.symbols) {
            for probe in probes {
                probe.batch.clear();
                probe.parcels.clear();
            }
        }
    }

    /// Runs deleted rows together with their replacements. Returns the positions of those for which that was possible.
    fn run_pairs(
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
    fn pass_on(&mut self, binding: &Binding, diff: Diff, probes: &mut [Probe], context: &mut Context<'_>) {
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
    fn take_direct(
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
    fn receive(&mut self, parcel: &Parcel, probes: &mut [Probe], context: &mut Context<'_>) {
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
        let finder = indexes[probe.index.0 as usize].trace.probe(probe.view);
        // The batch is taken out and put back, so that its memory is reused.
        let mut batch = std::mem::take(&mut probe.batch);
        let ProbeBatch { keys, bindings, .. } = &batch;
        match keys {
            Keys::One(keys) => self.probe(keys, bindings, finder, probe, later, context),
            Keys::Three(keys) => self.probe(keys, bindings, finder, probe, later, context),
            Keys::More(keys) => self.probe(keys, bindings, finder, probe, later, context),
        }
        batch.clear();
        probe.batch = batch;
    }

    fn probe<K: Place>(
        &mut self,
        keys: &[K],
        batch: &Bindings,
        mut finder: Finder<'_>,
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
