//! From plan to dataflow. Every worker builds the same one.
//!
//! A rule is the operator chain that computes all its bindings at the least cost ([`Joins::full`]). It begins with the
//! rows of a relation. At each probe, the arriving bindings and the rows of the index are arranged by the probe's key and
//! joined. What the coordinator must know leaves the dataflow at a [`Sink`], errors included: they end the transaction, so
//! nothing in the dataflow needs them.

use std::cell::RefCell;
use std::num::Wrapping;
use std::rc::Rc;

use differential_dataflow::VecCollection;
use differential_dataflow::collection::{AsCollection, concatenate};
use differential_dataflow::consolidation::ConsolidatingContainerBuilder;
use differential_dataflow::input::{Input, InputSession};
use differential_dataflow::operators::arrange::{Arranged, TraceAgent};
use differential_dataflow::operators::join::join_traces;
use differential_dataflow::trace::implementations::ValSpine;
use nlog_data::{MOST_WAYS, TableId};
use nlog_plan::Keep;
use nlog_plan::query::{IndexId, Joins, Output, Plan, RelationId, RulePlan, Start, Step};
use timely::container::PushInto;
use timely::dataflow::{ProbeHandle, Scope};

use crate::chain::{self, Binding, Goal, Pair, Part, fits};
use crate::row::Row;

/// The number of a transaction, or of the inverse of one.
pub(crate) type Time = u64;

/// The count of a row. Projections create counts, and joins multiply them. Sums wrap, so that the inverse undoes a
/// transaction whatever its counts are. Counts above [`MOST_WAYS`] are reported where rows become a set, and products
/// near the limits of 128 bits where they are computed.
pub(crate) type Diff = Wrapping<i128>;

pub(crate) const NONE: Diff = Wrapping(0);
pub(crate) const ONCE: Diff = Wrapping(1);

/// The product of counts above which sums of products could wrap.
const MOST_PRODUCT: u128 = 1 << 96;

/// A place where rows leave the dataflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sink {
    /// A failure and its rule.
    Failure,
    /// The least two rows of the table with one key, one after the other.
    Conflict(TableId),
    /// A row of a table that forbids its rows.
    Forbidden(TableId),
    /// A row of the table has too many derivations.
    TooMany(TableId),
    /// A row of a table that was asked for, and a rule that derives it.
    Row(TableId),
}

/// The change of a count at a sink.
pub(crate) type Change = (Sink, Row, Diff);

/// The changes since they were last taken.
type Changes = Rc<RefCell<Vec<Change>>>;

/// A worker's handles to its dataflow.
pub(crate) struct Graph {
    /// By relation, the input of each needed input table; last that of the one row from which facts are derived.
    pub(crate) inputs: Vec<Option<InputSession<Time, Pair, Diff>>>,
    pub(crate) changes: Changes,
    /// The least time at which something can still change.
    pub(crate) probe: ProbeHandle<Time>,
}

/// The only type of collections, so that the operators of timely and differential are compiled once. A row of a relation
/// is paired with [`nothing`].
type Pairs<'s> = VecCollection<'s, Time, Pair, Diff>;
type Index<'s> = Arranged<'s, TraceAgent<ValSpine<Row, Row, Time, Diff>>>;

/// The logic of a reduction: what becomes of all that belongs to a key.
type Reduction = Box<dyn FnMut(&Row, &[(&Row, Diff)], &mut Vec<(Row, Diff)>)>;

struct Builder<'s, 'p> {
    scope: Scope<'s, Time>,
    plan: &'p Plan,
    relations: Vec<Option<Pairs<'s>>>,
    indexes: Vec<Option<Index<'s>>>,
    changes: Changes,
    probe: ProbeHandle<Time>,
}

/// The number of the relation whose one row facts are derived from.
pub(crate) fn unit(plan: &Plan) -> RelationId {
    RelationId(plan.relations.len() as u32)
}

/// Builds the dataflow of a plan.
pub(crate) fn build(scope: Scope<'_, Time>, plan: &Plan) -> Graph {
    let relations = plan.relations.len() + 1;
    let mut builder = Builder {
        scope,
        plan,
        relations: vec![None; relations],
        indexes: vec![None; plan.indexes.len()],
        changes: Changes::default(),
        probe: ProbeHandle::new(),
    };
    let mut inputs: Vec<Option<InputSession<Time, Pair, Diff>>> = (0..relations).map(|_| None).collect();
    let mut ids: Vec<RelationId> = (0..).map(RelationId).take(plan.relations.len()).collect();
    ids.sort_by_key(|id| plan.relations[id.0 as usize].level);
    ids.retain(|id| plan.relations[id.0 as usize].needed);
    for id in std::iter::once(unit(plan)).chain(ids) {
        let rows = if id == unit(plan) || plan.is_input(id) {
            let (input, rows) = builder.scope.new_collection();
            inputs[id.0 as usize] = Some(input);
            rows
        } else {
            builder.derived(id)
        };
        builder.relations[id.0 as usize] = Some(rows);
    }
    Graph { inputs, changes: builder.changes, probe: builder.probe }
}

impl<'s> Builder<'s, '_> {
    /// The rows that the rules of a relation derive, as a set.
    fn derived(&mut self, id: RelationId) -> Pairs<'s> {
        let plan = self.plan;
        let relation = &plan.relations[id.0 as usize];
        let rules = plan.rules.iter().filter(|rule| rule.head == id);
        let results: Vec<Pairs<'s>> = rules.flat_map(|rule| self.rule(rule)).collect();
        let results = concatenate(self.scope, results);
        let has_failed = |pair: &Pair| pair.0.failure().is_some();
        self.sink(Sink::Failure, each(results.clone(), move |pair| has_failed(&pair).then_some(pair)));
        let found = each(results, move |pair| (!has_failed(&pair)).then_some(pair));
        let rows = each(found.clone(), |(row, _)| Some((row, nothing())));
        let rows = if relation.keep == Keep::AsIs { rows } else { self.distinct(rows, id) };
        rows.clone().probe_with(&self.probe);
        let Some(table) = relation.table else { return rows };
        if let Keep::Key(key) = relation.keep.clone() {
            let by_key = each(rows.clone(), move |(row, _)| {
                Some((key.iter().map(|at| row[*at].clone()).collect(), row))
            });
            let conflicts = reduce(by_key, |_, rows| match rows {
                [(first, _), (second, _), ..] => Some(first.and(second)),
                _ => None,
            });
            self.sink(Sink::Conflict(table), each(conflicts, |(_, rows)| Some((rows, nothing()))));
        }
        if plan.forbids(id) {
            self.sink(Sink::Forbidden(table), rows.clone());
        }
        if relation.wanted {
            self.sink(Sink::Row(table), found);
        }
        rows
    }

    /// The results of a rule: rows and failures, with the rule.
    fn rule(&mut self, rule: &RulePlan) -> Vec<Pairs<'s>> {
        let mut results: Vec<Pairs<'s>> = rule.failures.iter().map(|joins| self.chain(joins, rule)).collect();
        let found = self.chain(&rule.body, rule);
        results.push(match &rule.output {
            Output::Rows => found,
            Output::Groups { aggregates, columns, .. } => {
                let (aggregates, columns) = (aggregates.clone(), columns.clone());
                let too_many = self.too_many(rule.head);
                let of_rule = chain::of_rule(rule.rule);
                let groups = reduce(found, move |group, tuples| {
                    if tuples.iter().any(|(_, ways)| is_too_many(*ways)) {
                        too_many();
                    }
                    let tuples = tuples.iter().filter(|(_, ways)| *ways > NONE);
                    let tuples: Vec<&Row> = tuples.map(|(tuple, _)| *tuple).collect();
                    (!tuples.is_empty()).then(|| chain::of_group(group, &tuples, &aggregates, &columns))
                });
                each(groups, move |(_, row)| Some((row, of_rule.clone())))
            }
        });
        results
    }

    /// The results of all bindings of a conjunction.
    fn chain(&mut self, joins: &Joins, rule: &RulePlan) -> Pairs<'s> {
        let pipeline = &joins.pipelines[joins.full];
        let (mut parts, mut probes, mut steps) = (Vec::new(), Vec::new(), Vec::new());
        for step in &pipeline.steps {
            if let Step::Probe(probe) = step {
                let goal = Goal::Probe { key: probe.key.clone(), keep: probe.keep.clone() };
                parts.push(Part { steps: std::mem::take(&mut steps), goal });
                probes.push(probe);
            } else {
                steps.push(step.clone());
            }
        }
        parts.push(Part { steps, goal: Goal::End(pipeline.end.clone(), rule.rule) });
        let mut parts = parts.into_iter();
        let first = parts.next().expect("a chain has an end");
        let (relation, select, columns) = match &pipeline.start {
            Start::Once => (unit(self.plan), vec![], vec![]),
            Start::Row { atom, select, columns, .. } => (joins.atoms[*atom], select.clone(), columns.clone()),
        };
        let mut pairs = each(self.rows(relation), move |(row, _)| {
            let slots = || columns.iter().map(|column| row[*column].clone()).collect();
            let binding = fits(&row, &select).then(|| Binding { slots: slots(), failure: None });
            binding.map(|binding| first.run(binding)).unwrap_or_default()
        });
        for (probe, part) in probes.into_iter().zip(parts) {
            let (index, too_many) = (self.index(probe.index), self.too_many(rule.head));
            pairs = join(pairs, index, probe.take.clone(), part, too_many);
        }
        pairs
    }

    fn rows(&self, id: RelationId) -> Pairs<'s> {
        self.relations[id.0 as usize].clone().expect("a plan's levels have bodies before heads")
    }

    /// The rows of an index. Builds it at the first request.
    fn index(&mut self, id: IndexId) -> Index<'s> {
        if let Some(index) = &self.indexes[id.0 as usize] {
            return index.clone();
        }
        let index = self.plan.indexes[id.0 as usize].clone();
        let pairs = each(self.rows(index.relation), move |(row, _)| {
            let at = |columns: &[usize]| columns.iter().map(|column| row[*column].clone()).collect::<Row>();
            fits(&row, &index.select).then(|| (at(&index.key), at(&index.value)))
        });
        let arranged = pairs.arrange_by_key();
        self.indexes[id.0 as usize] = Some(arranged.clone());
        arranged
    }

    /// Each row once.
    fn distinct(&self, rows: Pairs<'s>, id: RelationId) -> Pairs<'s> {
        let too_many = self.too_many(id);
        reduce(rows, move |_, ways| {
            if ways.iter().any(|(_, ways)| is_too_many(*ways)) {
                too_many();
            }
            ways.iter().any(|(_, ways)| *ways > NONE).then(nothing)
        })
    }

    /// Reports that a row of a relation, or a binding on the way to it, has too many derivations.
    fn too_many(&self, id: RelationId) -> impl Fn() + 'static {
        let (sink, changes) = (Sink::TooMany(self.plan.table_of(id)), Rc::clone(&self.changes));
        move || changes.borrow_mut().push((sink, nothing(), ONCE))
    }

    /// Lets rows leave the dataflow.
    fn sink(&self, sink: Sink, rows: Pairs<'s>) {
        let changes = Rc::clone(&self.changes);
        let taken = rows.inspect(move |((row, more), _, diff)| {
            changes.borrow_mut().push((sink, row.and(more), *diff));
        });
        taken.probe_with(&self.probe);
    }
}

/// The row without cells.
pub(crate) fn nothing() -> Row {
    Row::from_iter([])
}

fn is_too_many(ways: Diff) -> bool {
    ways.0 > i128::from(MOST_WAYS)
}

/// What becomes of each pair: some pairs, or none.
fn each<M: IntoIterator<Item = Pair>>(
    pairs: Pairs<'_>,
    mut logic: impl FnMut(Pair) -> M + 'static,
) -> Pairs<'_> {
    let logic: Box<dyn FnMut(Pair) -> Vec<Pair>> = Box::new(move |pair| logic(pair).into_iter().collect());
    pairs.flat_map(logic)
}

/// For each key at most one row, from all that belongs to the key, ascending.
fn reduce(
    pairs: Pairs<'_>,
    mut logic: impl FnMut(&Row, &[(&Row, Diff)]) -> Option<Row> + 'static,
) -> Pairs<'_> {
    let logic: Reduction =
        Box::new(move |key, belonging, output| output.extend(logic(key, belonging).map(|row| (row, ONCE))));
    pairs.reduce(logic)
}

/// Looks arriving bindings up in an index, and runs the next part of the chain on what is found. Calls `too_many` for
/// counts whose product could overflow.
fn join<'s>(
    arriving: Pairs<'s>,
    index: Index<'s>,
    take: Vec<usize>,
    part: Part,
    too_many: impl Fn() + 'static,
) -> Pairs<'s> {
    join_traces::<_, _, _, _, ConsolidatingContainerBuilder<Vec<(Pair, Time, Diff)>>>(
        arriving.arrange_by_key(),
        index,
        move |_: &Row, kept: &Row, value: &Row, time, arrived, found, out| {
            let product = arrived.0.checked_mul(found.0);
            if product.is_none_or(|product| product.unsigned_abs() > MOST_PRODUCT) {
                too_many();
            }
            let (failure, kept) = kept.split_last().expect("the failure is last");
            let slots = kept.iter().chain(take.iter().map(|at| &value[*at])).cloned().collect();
            let failure = failure.as_ref().err().cloned();
            for pair in part.run(Binding { slots, failure }) {
                out.push_into((pair, time, *arrived * *found));
            }
        },
    )
    .as_collection()
}
