//! A pipeline: takes changed rows of one atom through probes of the other atoms to rows of the head. [`flow`](super::flow) is one run
//! of it.

use std::time::Instant;

use nlog_plan::query::{Pipeline as PipelinePlan, Start, Step};

use super::bounded::Meter;
use super::delta::Delta;
use super::flow::{Begun, Context, Flow, Parcel, Probe};
use super::index::{Fit, Index};
use super::pipeline_end::PipelineEnd;
use super::placement::{Move, Moves, owner};
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
                (!parcel.is_empty()).then_some((at, parcel))
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
