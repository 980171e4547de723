//! Running a pipeline: changed rows of one atom, through probes of the others, to rows of the head.
//!
//! Bindings go in lots. Each lot is sorted by the key that it probes with, so that the index is passed once, in order;
//! what is found fills the next lot, which is worked off when it is full. So the memory that a pipeline needs does not
//! depend on how much it derives.

use nlog_plan::query::{End, IndexId, Pipeline as PipelinePlan, Probe as ProbePlan, Start, Step};
use serde::{Deserialize, Serialize};

use super::delta::{Delta, Diff};
use super::index::{AnyTrace, Fit, Index};
use super::placement::{Move, Moves, owner};
use super::trace::{Batches, View};
use crate::expression::{Binding, Expression};
use crate::row::{Narrow, Row, Wide};
use crate::steps::Steps;
use crate::symbol::{NO_FAILURE, NONE, Symbol, Symbols, is_failure};

/// How many bindings a lot has: enough to make sorted passes pay, few enough to stay in a processor's cache.
const LOT: usize = 1 << 14;

/// What a pipeline has done since the engine was started.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Work {
    /// How often it was run.
    pub(crate) runs: u64,
    /// Changed rows that it began with.
    pub(crate) rows: u64,
    /// Bindings that probes found.
    pub(crate) bindings: u64,
    /// Rows of the head that came out, or went.
    pub(crate) derived: u64,
    /// Time, in nanoseconds.
    pub(crate) nanos: u64,
}

/// A plan's pipeline, ready to run.
pub(crate) struct Pipeline {
    /// What rows of the atom it begins with have to fit; nothing of a pipeline that runs once.
    fit: Fit,
    columns: Vec<usize>,
    /// The atom that it begins with.
    pub(crate) atom: Option<usize>,
    steps: Steps,
    probes: Vec<Probe>,
    end: Ending,
    may_fail: bool,
    /// What happens to what comes out, by its columns.
    end_move: Move,
    /// Whether all workers have all bindings at the end.
    by_all: bool,
    pub(crate) work: Work,
}

/// Bindings on their way from one worker's probe to the same probe of another's: key, what is kept, one after the other.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Parcel {
    words: Vec<Symbol>,
    diffs: Vec<Diff>,
    failures: Vec<Symbol>,
}

impl Parcel {
    /// Every symbol in it.
    pub(crate) fn symbols_mut(&mut self) -> impl Iterator<Item = &mut Symbol> {
        self.words.iter_mut().chain(&mut self.failures)
    }
}

/// A probe and what follows it.
struct Probe {
    index: IndexId,
    movement: Move,
    /// By worker, what is sent to it next.
    parcels: Vec<Parcel>,
    view: View,
    key: Vec<usize>,
    keep: Vec<usize>,
    take: Vec<usize>,
    /// How many columns the index's values have.
    values: usize,
    steps: Steps,
    lot: Lot,
}

/// Bindings that wait for a probe.
enum Lot {
    Narrow(LotOf<Narrow>),
    Wide(LotOf<Wide>),
}

#[derive(Default)]
struct LotOf<P> {
    /// By what to find, and the place of the binding below.
    keys: Vec<(P, u32)>,
    /// What is kept of each binding, one after the other.
    kept: Vec<Symbol>,
    diffs: Vec<Diff>,
    /// Failures that no slot shows; empty in pipelines without failures.
    failures: Vec<Symbol>,
}

/// What becomes of bindings at the end.
enum Ending {
    Row(Vec<Expression>),
    Group { group: Vec<Expression>, tuple: Vec<usize>, check: Vec<Expression> },
    Failure,
}

/// What pipelines read and fill.
pub(crate) struct Context<'a> {
    pub(crate) symbols: &'a Symbols,
    pub(crate) indexes: &'a [Index],
    /// Rows of the head, or groups with tuples.
    pub(crate) out: &'a mut Delta,
    /// Failures, and how many more bindings fail so.
    pub(crate) failures: &'a mut Vec<(Symbol, Diff)>,
    /// Whether a count has left what it can hold.
    pub(crate) too_many: &'a mut bool,
    /// Which worker this is, of how many.
    pub(crate) me: usize,
    pub(crate) peers: usize,
}

impl Pipeline {
    /// `is_before(atom)`: whether the atom's rows are read as they become, not as they were.
    pub(crate) fn new(
        plan: &PipelinePlan,
        is_before: impl Fn(usize) -> bool,
        moves: Moves,
        indexes: &[Index],
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
                Some(Probe::new(probe, view, movement, &plan.steps[at + 1..], indexes, symbols))
            }
            _ => None,
        });
        Pipeline {
            fit,
            columns,
            atom,
            steps: Steps::before_probe(&plan.steps, symbols),
            probes: probes.collect(),
            end: Ending::new(&plan.end, symbols),
            may_fail: plan.may_fail,
            end_move: moves.end,
            by_all: moves.by_all,
            work: Work::default(),
        }
    }

    /// Whether some index that it probes has nothing, so that nothing comes of any row. What another worker has is not
    /// known here.
    pub(crate) fn is_idle(&self, indexes: &[Index]) -> bool {
        let local = self.probes.iter().take_while(|probe| !matches!(probe.movement, Move::Send(_)));
        local.into_iter().any(|probe| indexes[probe.index.0 as usize].trace.is_empty(probe.view))
    }

    /// How often bindings can be sent on their way to the end.
    pub(crate) fn sends(&self) -> usize {
        self.probes.iter().filter(|probe| matches!(probe.movement, Move::Send(_))).count()
    }

    /// What happens to what comes out.
    pub(crate) fn end_move(&self) -> &Move {
        &self.end_move
    }

    /// What is to be sent to a worker: for each probe that has something its number and the bindings.
    pub(crate) fn parcels_for(&mut self, peer: usize) -> Vec<(usize, Parcel)> {
        let probes = self.probes.iter_mut().enumerate();
        probes
            .filter_map(|(at, probe)| {
                let parcel = std::mem::take(probe.parcels.get_mut(peer)?);
                (!parcel.diffs.is_empty()).then_some((at, parcel))
            })
            .collect()
    }

    /// Goes on with what other workers sent to one of its probes.
    pub(crate) fn receive(&mut self, probe: usize, parcel: &Parcel, context: &mut Context<'_>) {
        self.probes[probe].receive(parcel, context.symbols);
        let mut flow = Flow {
            end: &mut self.end,
            end_move: &self.end_move,
            by_all: self.by_all,
            may_fail: self.may_fail,
            bindings: 0,
        };
        for at in probe..self.probes.len() {
            flow.work_off(&mut self.probes[at..], context);
        }
        self.work.bindings += flow.bindings;
    }

    /// Drops what a refused transaction left on its way.
    pub(crate) fn drop_parcels(&mut self) {
        for probe in &mut self.probes {
            probe.parcels.clear();
        }
    }

    /// Runs changed rows through. A pipeline that begins with nothing takes one row without columns.
    pub(crate) fn run(&mut self, rows: &Delta, context: &mut Context<'_>) {
        let (start, derived) = (std::time::Instant::now(), context.out.len());
        let mut flow = Flow {
            end: &mut self.end,
            end_move: &self.end_move,
            by_all: self.by_all,
            may_fail: self.may_fail,
            bindings: 0,
        };
        let mut binding = Binding::default();
        for (row, diff) in rows.rows() {
            if !self.fit.fits(row) {
                continue;
            }
            binding.slots.clear();
            binding.slots.extend(self.columns.iter().map(|column| row[*column]));
            binding.failure = NO_FAILURE;
            let (probes, symbols) = (&mut self.probes[..], context.symbols);
            self.steps.run(&mut binding, symbols, &mut |binding| {
                flow.pass_on(binding, diff, probes, context);
            });
        }
        for at in 0..self.probes.len() {
            flow.work_off(&mut self.probes[at..], context);
        }
        let work = &mut self.work;
        work.runs += 1;
        work.rows += rows.len() as u64;
        work.bindings += flow.bindings;
        work.derived += (context.out.len() - derived) as u64;
        work.nanos += start.elapsed().as_nanos() as u64;
    }

    /// Forgets results that expressions remember.
    pub(crate) fn forget(&mut self) {
        self.steps.forget();
        for probe in &mut self.probes {
            probe.steps.forget();
        }
        self.end.expressions_mut(&mut Expression::forget);
    }

    /// Every symbol that it holds.
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
    fn new(
        plan: &ProbePlan,
        view: View,
        movement: Move,
        later: &[Step],
        indexes: &[Index],
        symbols: &Symbols,
    ) -> Self {
        let index = &indexes[plan.index.0 as usize];
        let lot = match index.trace {
            AnyTrace::Narrow(_) => Lot::Narrow(LotOf::default()),
            AnyTrace::Wide(_) => Lot::Wide(LotOf::default()),
        };
        Probe {
            index: plan.index,
            movement,
            parcels: Vec::new(),
            view,
            key: plan.key.clone(),
            keep: plan.keep.clone(),
            take: plan.take.clone(),
            values: index.values(),
            steps: Steps::before_probe(later, symbols),
            lot,
        }
    }

    /// Puts a binding into the parcel for another worker.
    fn send(&mut self, to: usize, binding: &Binding, diff: Diff, may_fail: bool, context: &Context<'_>) {
        self.parcels.resize_with(context.peers, Parcel::default);
        let parcel = &mut self.parcels[to];
        parcel.words.extend(self.key.iter().chain(&self.keep).map(|slot| binding.slots[*slot]));
        parcel.diffs.push(diff);
        if may_fail {
            parcel.failures.push(binding.least_failure(context.symbols));
        }
    }

    /// Puts bindings of another worker into the lot.
    fn receive(&mut self, parcel: &Parcel, symbols: &Symbols) {
        let (keys, width) = (self.key.len(), self.key.len() + self.keep.len());
        for at in 0..parcel.diffs.len() {
            let (key, kept) = parcel.words[at * width..(at + 1) * width].split_at(keys);
            let failure = parcel.failures.get(at).copied();
            match &mut self.lot {
                Lot::Narrow(lot) => lot.push_received(key, kept, parcel.diffs[at], failure, symbols),
                Lot::Wide(lot) => lot.push_received(key, kept, parcel.diffs[at], failure, symbols),
            }
        }
    }

    /// Puts a binding into the lot; whether the lot is full now.
    #[inline]
    fn wait(&mut self, binding: &Binding, diff: Diff, may_fail: bool, symbols: &Symbols) -> bool {
        match &mut self.lot {
            Lot::Narrow(lot) => lot.push(&self.key, &self.keep, binding, diff, may_fail, symbols),
            Lot::Wide(lot) => lot.push(&self.key, &self.keep, binding, diff, may_fail, symbols),
        }
    }
}

impl<P: Row> LotOf<P> {
    #[inline]
    fn push(
        &mut self,
        key: &[usize],
        keep: &[usize],
        binding: &Binding,
        diff: Diff,
        may_fail: bool,
        symbols: &Symbols,
    ) -> bool {
        let key = P::pack(key.iter().map(|slot| binding.slots[*slot]), symbols);
        self.keys.push((key, self.diffs.len() as u32));
        self.kept.extend(keep.iter().map(|slot| binding.slots[*slot]));
        self.diffs.push(diff);
        if may_fail {
            self.failures.push(binding.least_failure(symbols));
        }
        self.diffs.len() >= LOT
    }

    fn push_received(
        &mut self,
        key: &[Symbol],
        kept: &[Symbol],
        diff: Diff,
        failure: Option<Symbol>,
        symbols: &Symbols,
    ) {
        self.keys.push((P::pack(key.iter().copied(), symbols), self.diffs.len() as u32));
        self.kept.extend_from_slice(kept);
        self.diffs.push(diff);
        self.failures.extend(failure);
    }

    fn clear(&mut self) {
        self.keys.clear();
        self.kept.clear();
        self.diffs.clear();
        self.failures.clear();
    }
}

/// Bindings on their way through one run.
struct Flow<'a> {
    end: &'a mut Ending,
    end_move: &'a Move,
    by_all: bool,
    may_fail: bool,
    bindings: u64,
}

impl Flow<'_> {
    /// To the next probe's lot, or to the end.
    #[inline]
    fn pass_on(&mut self, binding: &Binding, diff: Diff, probes: &mut [Probe], context: &mut Context<'_>) {
        let Some(next) = probes.first_mut() else {
            let failure = self.end.take(binding, diff, self.may_fail, self.end_move, context);
            // Of workers that all meet it the first one counts it.
            if failure != NO_FAILURE && (!self.by_all || context.me == 0) {
                context.failures.push((failure, diff));
            }
            return;
        };
        let (peers, symbols) = (context.peers, context.symbols);
        let owner = |slots: &[usize]| owner(slots.iter().map(|slot| binding.slots[*slot]), peers, symbols);
        let to = match &next.movement {
            Move::Stay => context.me,
            Move::Own(slots) | Move::Send(slots) => owner(slots),
        };
        if to == context.me {
            if next.wait(binding, diff, self.may_fail, context.symbols) {
                self.work_off(probes, context);
            }
        } else if matches!(next.movement, Move::Send(_)) {
            next.send(to, binding, diff, self.may_fail, context);
        }
    }

    /// Takes the first probe's lot through it.
    fn work_off(&mut self, probes: &mut [Probe], context: &mut Context<'_>) {
        let Some((probe, later)) = probes.split_first_mut() else { return };
        let indexes = context.indexes;
        let trace = &indexes[probe.index.0 as usize].trace;
        // The lot is taken out and put back, so that its memory is used again.
        match (&mut probe.lot, trace) {
            (Lot::Narrow(lot), AnyTrace::Narrow(trace)) if !lot.keys.is_empty() => {
                let mut taken = std::mem::take(lot);
                self.probe(&mut taken, &trace.batches(probe.view), probe, later, context);
                probe.lot = Lot::Narrow(taken);
            }
            (Lot::Wide(lot), AnyTrace::Wide(trace)) if !lot.keys.is_empty() => {
                let mut taken = std::mem::take(lot);
                self.probe(&mut taken, &trace.batches(probe.view), probe, later, context);
                probe.lot = Lot::Wide(taken);
            }
            _ => {}
        }
    }

    fn probe<P: Row>(
        &mut self,
        lot: &mut LotOf<P>,
        batches: &Batches<P, P>,
        probe: &mut Probe,
        later: &mut [Probe],
        context: &mut Context<'_>,
    ) {
        if !lot.keys.is_sorted_by(|a, b| a.0 <= b.0) {
            lot.keys.sort_unstable_by_key(|(key, _)| *key);
        }
        let (symbols, width) = (context.symbols, probe.keep.len());
        let mut finder = batches.probe();
        let mut binding = Binding::default();
        let mut whole = Vec::new();
        for (key, at) in &lot.keys {
            let at = *at as usize;
            for (value, count) in finder.find(key) {
                let Some(diff) = lot.diffs[at].checked_mul(Diff::from(*count)) else {
                    *context.too_many = true;
                    continue;
                };
                self.bindings += 1;
                binding.slots.clear();
                binding.slots.extend_from_slice(&lot.kept[at * width..(at + 1) * width]);
                if probe.values <= P::WIDTH {
                    let words = value.words();
                    binding.slots.extend(probe.take.iter().map(|column| words[*column]));
                } else {
                    whole.clear();
                    value.unpack(probe.values, symbols, &mut whole);
                    binding.slots.extend(probe.take.iter().map(|column| whole[*column]));
                }
                binding.failure = lot.failures.get(at).copied().unwrap_or(NO_FAILURE);
                if probe.steps.is_empty() {
                    self.pass_on(&binding, diff, later, context);
                } else {
                    probe.steps.run(&mut binding, symbols, &mut |binding| {
                        self.pass_on(binding, diff, later, context);
                    });
                }
            }
        }
        lot.clear();
    }
}

impl Ending {
    fn new(end: &End, symbols: &Symbols) -> Self {
        let expressions = |scalars: &[nlog_plan::Scalar]| {
            scalars.iter().map(|scalar| Expression::new(scalar, symbols)).collect::<Vec<_>>()
        };
        match end {
            End::Row(columns) => Ending::Row(expressions(columns)),
            End::Group { group, tuple, check } => {
                Ending::Group { group: expressions(group), tuple: tuple.clone(), check: expressions(check) }
            }
            End::Failure => Ending::Failure,
        }
    }

    /// Makes what it becomes of a binding, and says whether that failed.
    #[inline]
    fn take(
        &mut self,
        binding: &Binding,
        diff: Diff,
        may_fail: bool,
        end_move: &Move,
        context: &mut Context<'_>,
    ) -> Symbol {
        let symbols = context.symbols;
        let mut failure = if may_fail { binding.least_failure(symbols) } else { NO_FAILURE };
        let mut evaluate = |expressions: &mut Vec<Expression>, out: &mut Vec<Symbol>| {
            for expression in expressions {
                let word = expression.evaluate(&binding.slots, symbols);
                if word == NONE {
                    return false;
                }
                if is_failure(word) {
                    failure = symbols.least_failure(failure, word);
                }
                out.push(word);
            }
            true
        };
        let begun = context.out.begin();
        let has_values = match self {
            Ending::Row(columns) => evaluate(columns, context.out.words_mut()),
            Ending::Group { group, tuple, check } => {
                let mut checked = Vec::new();
                let has_values = evaluate(group, context.out.words_mut()) && evaluate(check, &mut checked);
                context.out.words_mut().extend(tuple.iter().map(|slot| binding.slots[*slot]));
                has_values
            }
            Ending::Failure => true,
        };
        let mut is_row = has_values && failure == NO_FAILURE && !matches!(self, Ending::Failure);
        if let (true, Move::Own(columns)) = (is_row, end_move) {
            let row = &context.out.words_mut()[begun..];
            let home = owner(columns.iter().map(|column| row[*column]), context.peers, symbols);
            is_row = home == context.me;
        }
        context.out.end(begun, is_row.then_some(diff));
        if has_values { failure } else { NO_FAILURE }
    }

    fn expressions_mut(&mut self, each: &mut impl FnMut(&mut Expression)) {
        match self {
            Ending::Row(columns) => columns.iter_mut().for_each(each),
            Ending::Group { group, check, .. } => group.iter_mut().chain(check).for_each(each),
            Ending::Failure => {}
        }
    }

    fn constants(&self, each: &mut impl FnMut(Symbol)) {
        match self {
            Ending::Row(columns) => columns.iter().for_each(|column| column.constants(each)),
            Ending::Group { group, check, .. } => {
                group.iter().chain(check).for_each(|column| column.constants(each));
            }
            Ending::Failure => {}
        }
    }
}
