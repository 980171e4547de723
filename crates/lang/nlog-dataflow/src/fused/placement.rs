//! Places rows on workers, and determines which rows and bindings workers must exchange.
//!
//! Every worker has all rows of input tables. A derived row belongs to the worker selected by the hash of its *home*
//! columns. The plan determines the home columns: from the outputs down, a relation is partitioned by the same column
//! as its readers. Rows of the physical layer are therefore partitioned by host, rows of the logical layer by datapath,
//! and most pipelines never leave their worker. The key of a probed index determines where a binding must be. If the
//! binding is already there, nothing moves. Otherwise it is sent.
//!
//! A pipeline that begins with an input divides its rows among the workers before it evaluates anything: by the columns that
//! select the worker of the first probe at one worker, or of the result, if the row has these columns. Then nothing
//! moves until there. Otherwise it divides them by the columns that it reads, and sends bindings or results.

use std::collections::{BTreeMap, BTreeSet};

use nlog_data::Role;
use nlog_plan::query::{
    End, Joins, Output, Pipeline as PipelinePlan, Plan, Probe, RelationId, RulePlan, Start, Step,
};
use nlog_plan::{GroupColumn, Keep, Scalar};

use crate::row::mix;
use crate::symbol::{Symbol, Symbols};

/// The workers that have the rows of a relation or index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// At every worker.
    Everywhere,
    /// The worker selected by these columns; for an index, by these parts of its key.
    At(Vec<usize>),
}

/// The move of a binding before a probe, or of a row before it becomes part of a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Move {
    /// No move: it is at the right worker.
    Stay,
    /// It is sent to the worker selected by these slots.
    Send(Vec<usize>),
}

/// The placement of a plan's relations and indexes.
#[derive(Debug, Clone)]
pub(crate) struct Placement {
    pub(crate) me: usize,
    pub(crate) peers: usize,
    /// By relation.
    pub(crate) relations: Vec<Place>,
    /// By index.
    pub(crate) indexes: Vec<Place>,
    /// By index, whether rows reach it without moving from their relation's place.
    pub(crate) at_home: Vec<bool>,
}

/// The moves in a pipeline.
#[derive(Debug, Clone)]
pub(crate) struct Moves {
    /// If every worker has all rows that the pipeline begins with: the slots of such a row that select the worker that runs it.
    pub(crate) divide: Option<Vec<usize>>,
    /// Before each probe.
    pub(crate) probes: Vec<Move>,
    /// The move at the end, by columns of the result.
    pub(crate) end: Move,
}

/// The worker that has the bindings of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Whereabouts {
    At(Vec<usize>),
    Unknown,
}

impl Placement {
    /// The placement for a single worker.
    pub(crate) fn alone(plan: &Plan) -> Self {
        Placement {
            me: 0,
            peers: 1,
            relations: vec![Place::Everywhere; plan.relations.len()],
            indexes: vec![Place::Everywhere; plan.indexes.len()],
            at_home: vec![true; plan.indexes.len()],
        }
    }

    /// The placement for worker `me` of `peers`.
    pub(crate) fn new(plan: &Plan, me: usize, peers: usize) -> Self {
        if peers == 1 {
            return Placement::alone(plan);
        }
        let relations = homes(plan);
        let (mut indexes, mut at_home) = (Vec::new(), Vec::new());
        for index in &plan.indexes {
            let (place, home) = match &relations[index.relation.0 as usize] {
                Place::Everywhere => (Place::Everywhere, true),
                Place::At(columns) => {
                    let parts: Option<Vec<usize>> = columns
                        .iter()
                        .map(|column| index.key.iter().position(|part| part == column))
                        .collect();
                    let whole = || (0..index.key.len()).collect();
                    let home = parts.is_some();
                    (Place::At(parts.unwrap_or_else(whole)), home)
                }
            };
            indexes.push(place);
            at_home.push(home);
        }
        Placement { me, peers, relations, indexes, at_home }
    }

    /// The moves in a pipeline of a rule.
    pub(crate) fn moves(&self, rule: &RulePlan, joins: &Joins, pipeline: &PipelinePlan) -> Moves {
        if self.peers == 1 {
            return Moves::none(pipeline);
        }
        let mut divide = None;
        let mut at = match &pipeline.start {
            // It runs at one worker.
            Start::Once => Whereabouts::At(divide.insert(Vec::new()).clone()),
            Start::Row { atom, columns, .. } => match &self.relations[joins.atoms[*atom].0 as usize] {
                Place::Everywhere => {
                    Whereabouts::At(divide.insert(self.division(rule, pipeline, columns.len())).clone())
                }
                Place::At(home) => {
                    Whereabouts::of(home.iter().map(|column| columns.iter().position(|c| c == column)))
                }
            },
        };
        let mut moves = Vec::new();
        for probe in probes(pipeline) {
            if let Some(slots) = self.slots_of(probe) {
                moves.push(at.go_to(&slots));
                at = Whereabouts::At(slots);
            } else {
                moves.push(Move::Stay);
            }
            if let Whereabouts::At(slots) = &at {
                at =
                    Whereabouts::of(slots.iter().map(|slot| probe.keep.iter().position(|kept| kept == slot)));
            }
        }
        let end = match self.home_of_result(rule, pipeline) {
            None => Move::Stay,
            Some((_, Some(slots))) if at == Whereabouts::At(slots.clone()) => Move::Stay,
            Some((columns, _)) => Move::Send(columns),
        };
        Moves { divide, probes: moves, end }
    }

    /// The slots before a probe that select the worker of what it looks up; `None` if every worker has that.
    fn slots_of(&self, probe: &Probe) -> Option<Vec<usize>> {
        match &self.indexes[probe.index.0 as usize] {
            Place::Everywhere => None,
            Place::At(parts) => Some(parts.iter().map(|part| probe.key[*part]).collect()),
        }
    }

    /// The columns of a pipeline's results that select their worker, and the slots from which they are copied, if all of them are.
    /// `None` if the results can be anywhere.
    fn home_of_result(
        &self,
        rule: &RulePlan,
        pipeline: &PipelinePlan,
    ) -> Option<(Vec<usize>, Option<Vec<usize>>)> {
        let Place::At(home) = &self.relations[rule.head.0 as usize] else { return None };
        let (columns, scalars): (Vec<usize>, Vec<&Scalar>) = match (&pipeline.end, &rule.output) {
            (End::Row(scalars), _) => (home.clone(), home.iter().map(|column| &scalars[*column]).collect()),
            (End::Group { group, .. }, Output::Groups { columns, .. }) => {
                let parts: Vec<usize> = home.iter().filter_map(|column| group_of(columns[*column])).collect();
                let scalars = parts.iter().map(|part| &group[*part]).collect();
                (parts, scalars)
            }
            // Only the number of failures matters, not the worker that counts them.
            _ => return None,
        };
        let slot = |scalar: &&Scalar| if let Scalar::Slot(slot) = scalar { Some(*slot) } else { None };
        let slots = scalars.iter().map(slot).collect();
        Some((columns, slots))
    }

    /// The slots by which a pipeline divides the rows of an input, out of the first `begun`, which it takes from the row.
    fn division(&self, rule: &RulePlan, pipeline: &PipelinePlan, begun: usize) -> Vec<usize> {
        let all: Vec<&Probe> = probes(pipeline).collect();
        let first = all.iter().enumerate().find_map(|(at, probe)| Some((at, self.slots_of(probe)?)));
        let at_end = || Some((all.len(), self.home_of_result(rule, pipeline)?.1?));
        let known = first.or_else(at_end).and_then(|(at, slots)| {
            let before = |slots: Vec<usize>, probe: &&Probe| -> Option<Vec<usize>> {
                slots.iter().map(|slot| probe.keep.get(*slot).copied()).collect()
            };
            all[..at].iter().rev().try_fold(slots, before)
        });
        if let Some(slots) = known.filter(|slots| slots.iter().all(|slot| *slot < begun)) {
            return slots;
        }
        // A row and the one that replaces it differ only in columns that are read no more after the first probe, and so stay
        // together.
        let kept = all.first().into_iter().flat_map(|probe| probe.key.iter().chain(&probe.keep));
        let kept: BTreeSet<usize> = kept.copied().filter(|slot| *slot < begun).collect();
        if kept.is_empty() { (0..begun).collect() } else { kept.into_iter().collect() }
    }
}

impl Moves {
    /// No moves.
    pub(crate) fn none(pipeline: &PipelinePlan) -> Self {
        Moves { divide: None, probes: probes(pipeline).map(|_| Move::Stay).collect(), end: Move::Stay }
    }
}

impl Whereabouts {
    fn of(slots: impl Iterator<Item = Option<usize>>) -> Self {
        slots.collect::<Option<Vec<usize>>>().map_or(Whereabouts::Unknown, Whereabouts::At)
    }

    fn go_to(&self, slots: &[usize]) -> Move {
        match self {
            Whereabouts::At(at) if at == slots => Move::Stay,
            Whereabouts::At(_) | Whereabouts::Unknown => Move::Send(slots.to_vec()),
        }
    }
}

fn probes(pipeline: &PipelinePlan) -> impl Iterator<Item = &Probe> {
    pipeline.steps.iter().filter_map(|step| if let Step::Probe(probe) = step { Some(probe) } else { None })
}

/// The worker, out of `peers`, that the words select. All workers select the same one for the same values.
#[inline]
pub(crate) fn owner(words: impl Iterator<Item = Symbol>, peers: usize, symbols: &Symbols) -> usize {
    let words = words.map(|word| symbols.home(word));
    let hash = words.fold(0, |hash: u64, word| mix(&[word, hash as u32, (hash >> 32) as u32]));
    // Multiplies the high half by the number of workers: this avoids a division and uses all bits.
    (((hash >> 32) * peers as u64) >> 32) as usize
}

fn group_of(column: GroupColumn) -> Option<usize> {
    match column {
        GroupColumn::Group(at) => Some(at),
        GroupColumn::Aggregate(_) => None,
    }
}

/// The place of each relation.
fn homes(plan: &Plan) -> Vec<Place> {
    let is_input = |at: usize| {
        plan.relations[at].table.is_some_and(|table| plan.program.schema.table(table).role == Role::Input)
    };
    let mut order: Vec<usize> = (0..plan.relations.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(plan.relations[*at].level));
    let mut votes: BTreeMap<(RelationId, usize), usize> = BTreeMap::new();
    let mut homes = vec![Place::Everywhere; plan.relations.len()];
    for at in order {
        if is_input(at) {
            continue;
        }
        let id = RelationId(at as u32);
        let candidates = home_columns(plan, id);
        let vote = |column: &usize| votes.get(&(id, *column)).copied().unwrap_or(0);
        // Among equally good columns, prefer those that pipelines bind at their start, so that the work is divided
        // there.
        let known_early = |column: &usize| {
            let rules = plan.rules.iter().filter(|rule| rule.head == id);
            rules.filter(|rule| begins_with(plan, rule, *column)).count()
        };
        let rank = |column: &usize| (vote(column), known_early(column), std::cmp::Reverse(*column));
        let best = candidates.iter().copied().max_by_key(rank);
        homes[at] = Place::At(best.into_iter().collect());
        let Some(home) = best else { continue };
        for rule in plan.rules.iter().filter(|rule| rule.head == id) {
            for (atom, column) in origins(plan, rule, home) {
                *votes.entry((rule.body.atoms[atom], column)).or_default() += 1;
            }
        }
    }
    homes
}

/// The columns by which a relation can be partitioned: rows that must be combined agree on them.
fn home_columns(plan: &Plan, id: RelationId) -> BTreeSet<usize> {
    let relation = &plan.relations[id.0 as usize];
    let mut columns: BTreeSet<usize> = match &relation.keep {
        Keep::Key(key) => key.iter().copied().collect(),
        Keep::AsIs | Keep::Distinct => (0..relation.columns.len()).collect(),
    };
    for rule in plan.rules.iter().filter(|rule| rule.head == id) {
        if let Output::Groups { columns: of_head, .. } = &rule.output {
            columns.retain(|column| group_of(of_head[*column]).is_some());
        }
    }
    columns
}

/// Whether the full pipeline knows a column of the head from its start.
fn begins_with(plan: &Plan, rule: &RulePlan, column: usize) -> bool {
    let Some(pipeline) = rule.body.pipelines.get(rule.body.full) else { return false };
    let Start::Row { atom: start, .. } = &pipeline.start else { return false };
    origins(plan, rule, column).iter().any(|(atom, _)| atom == start)
}

/// The columns of a rule's atoms from which a column of its head is copied.
fn origins(plan: &Plan, rule: &RulePlan, column: usize) -> BTreeSet<(usize, usize)> {
    let Some(pipeline) = rule.body.pipelines.get(rule.body.full) else { return BTreeSet::new() };
    let mut slots: Vec<BTreeSet<(usize, usize)>> = match &pipeline.start {
        Start::Once => Vec::new(),
        Start::Row { atom, columns, .. } => columns.iter().map(|column| [(*atom, *column)].into()).collect(),
    };
    for step in &pipeline.steps {
        match step {
            Step::Let { .. } | Step::Key { .. } => slots.push(BTreeSet::new()),
            Step::Generate { wanted, .. } => {
                slots.extend(wanted.iter().filter(|wanted| **wanted).map(|_| BTreeSet::new()));
            }
            Step::Filter(_) | Step::Must(_) | Step::Failed(_) => {}
            Step::Probe(probe) => {
                let index = &plan.indexes[probe.index.0 as usize];
                for (slot, column) in probe.key.iter().zip(&index.key) {
                    slots[*slot].insert((probe.atom, *column));
                }
                let mut next: Vec<BTreeSet<(usize, usize)>> =
                    probe.keep.iter().map(|slot| slots[*slot].clone()).collect();
                next.extend(probe.take.iter().map(|at| [(probe.atom, index.value[*at])].into()));
                slots = next;
            }
        }
    }
    let scalar = match (&pipeline.end, &rule.output) {
        (End::Row(scalars), _) => scalars.get(column),
        (End::Group { group, .. }, Output::Groups { columns, .. }) => {
            columns.get(column).and_then(|column| group_of(*column)).and_then(|part| group.get(part))
        }
        _ => None,
    };
    match scalar {
        Some(Scalar::Slot(slot)) => slots.get(*slot).cloned().unwrap_or_default(),
        _ => BTreeSet::new(),
    }
}
