//! The parts of an operator chain between two probes: what they do to one binding.

use std::collections::BTreeSet;

use nlog_data::{Failure, Results, RuleId, Value};
use nlog_plan::query::{End, Step};
use nlog_plan::{AggregatePlan, GroupColumn, Operand, Scalar, Selection, Slot};

use crate::row::{Cell, Row, values};
use crate::{expression, expression::evaluate};

/// A key and what belongs to it.
pub(crate) type Pair = (Row, Row);

/// A binding of the variables of a rule.
#[derive(Debug, Clone)]
pub(crate) struct Binding {
    pub(crate) slots: Vec<Cell>,
    /// The least failure that no slot holds.
    pub(crate) failure: Option<Failure>,
}

impl Binding {
    fn remember(&mut self, failure: Failure) {
        if self.failure.as_ref().is_none_or(|known| failure < *known) {
            self.failure = Some(failure);
        }
    }

    /// Drops all slots, and remembers their failures.
    fn without_slots(mut self) -> Option<Failure> {
        if let Some(failure) = expression::least_failure(&self.slots) {
            self.remember(failure);
        }
        self.failure
    }
}

/// The steps up to the next probe or the end, and what becomes of the bindings there.
pub(crate) struct Part {
    pub(crate) steps: Vec<Step>,
    pub(crate) goal: Goal,
}

/// The use of a binding.
pub(crate) enum Goal {
    /// To be looked up in an index: the pair is the key and the kept slots, with the failure so far as the last cell.
    Probe { key: Vec<Slot>, keep: Vec<Slot> },
    /// A result of this rule. The pair is a row and the rule, or a group and a tuple of it; a failure takes the place of
    /// the row or group.
    End(End, RuleId),
}

impl Part {
    /// The results of a binding.
    pub(crate) fn run(&self, binding: Binding) -> Vec<Pair> {
        let mut pairs = Vec::new();
        run(&self.steps, binding, &mut |binding| pairs.extend(self.goal.pair(binding)));
        pairs
    }
}

fn run(steps: &[Step], mut binding: Binding, done: &mut dyn FnMut(Binding)) {
    for (at, step) in steps.iter().enumerate() {
        match step {
            Step::Let { scalar, .. } => match evaluate(scalar, &binding.slots) {
                Some(cell) => binding.slots.push(cell),
                None => return,
            },
            Step::Key { scalar, .. } => match evaluate(scalar, &binding.slots) {
                Some(Ok(value)) => binding.slots.push(Ok(value)),
                _ => return,
            },
            Step::Filter(scalar) => match evaluate(scalar, &binding.slots) {
                Some(Ok(Value::Bool(true))) => {}
                Some(Err(failure)) => binding.remember(failure),
                _ => return,
            },
            Step::Must(scalar) => match evaluate(scalar, &binding.slots) {
                Some(Ok(Value::Bool(true))) => {}
                _ => return,
            },
            Step::Failed(scalar) => match evaluate(scalar, &binding.slots) {
                Some(Err(failure)) => binding.remember(failure),
                _ => return,
            },
            Step::Generate { function, arguments, wanted, .. } => {
                let Some(results) = expression::call(function, arguments, &binding.slots) else { return };
                if let Err(failure) = &results {
                    binding.remember(failure.clone());
                }
                for cells in generated(results, wanted) {
                    let mut binding = binding.clone();
                    binding.slots.extend(cells);
                    run(&steps[at + 1..], binding, done);
                }
                return;
            }
            Step::Probe(_) => unreachable!("parts are split at probes"),
        }
    }
    done(binding);
}

/// The wanted columns of results, each combination once. A failure takes the place of all.
fn generated(results: Result<Results, Failure>, wanted: &[bool]) -> BTreeSet<Vec<Cell>> {
    let of_tuple = |tuple: &[Value]| -> Vec<Cell> {
        tuple.iter().zip(wanted).filter(|(_, wanted)| **wanted).map(|(value, _)| Ok(value.clone())).collect()
    };
    match results {
        Ok(Results::None) => BTreeSet::new(),
        Ok(Results::One(value)) => BTreeSet::from([of_tuple(&[value])]),
        Ok(Results::Many(tuples)) => tuples.iter().map(of_tuple).collect(),
        Err(failure) => {
            let cells = wanted.iter().filter(|wanted| **wanted).map(|_| Err(failure.clone()));
            BTreeSet::from([cells.collect()])
        }
    }
}

impl Goal {
    /// The pair for a binding, unless it has no result.
    fn pair(&self, mut binding: Binding) -> Option<Pair> {
        let at = |slots: &[Slot]| slots.iter().map(|slot| binding.slots[*slot].clone()).collect::<Row>();
        let columns = |scalars: &[Scalar]| -> Option<Vec<Cell>> {
            scalars.iter().map(|scalar| evaluate(scalar, &binding.slots)).collect()
        };
        let (end, rule) = match self {
            Goal::Probe { key, keep } => {
                let (key, kept) = (at(key), at(keep));
                let failure = binding.without_slots().map_or(Ok(Value::None), Err);
                return Some((key, kept.and(&Row::from_iter([failure]))));
            }
            Goal::End(end, rule) => (end, of_rule(*rule)),
        };
        let (found, checked, other) = match end {
            End::Row(head) => (columns(head)?, Vec::new(), rule.clone()),
            End::Group { group, tuple, check } => (columns(group)?, columns(check)?, at(tuple)),
            End::Failure => (Vec::new(), Vec::new(), rule.clone()),
        };
        binding.slots.extend(found.iter().cloned().chain(checked));
        Some(match (binding.without_slots(), end) {
            (Some(failure), _) => (Row::from_iter([Err(failure)]), rule),
            (None, End::Failure) => unreachable!("only bindings that fail are followed to here"),
            (None, _) => (found.into_iter().collect(), other),
        })
    }
}

/// A rule as a row.
pub(crate) fn of_rule(rule: RuleId) -> Row {
    Row::from_iter([Ok(Value::Int(i64::from(rule.0)))])
}

/// The rule that a cell names.
pub(crate) fn rule_of(cell: &Cell) -> RuleId {
    match cell {
        Ok(Value::Int(rule)) => RuleId(*rule as u32),
        other => unreachable!("{other:?} is not a rule"),
    }
}

/// Whether a row satisfies conditions.
pub(crate) fn fits(row: &Row, select: &[Selection]) -> bool {
    select.iter().all(|Selection { column, equals }| match equals {
        Operand::Column(other) => row[*column] == row[*other],
        Operand::Constant(value) => row[*column].as_ref() == Ok(value),
    })
}

/// The row of a group with these tuples. A failure takes its place: that of the group, or the least of the aggregates.
pub(crate) fn of_group(
    group: &Row,
    tuples: &[&Row],
    aggregates: &[AggregatePlan],
    columns: &[GroupColumn],
) -> Row {
    if group.failure().is_some() {
        return group.clone();
    }
    let computed = aggregates.iter().map(|AggregatePlan { aggregate, arguments }| {
        let of_tuple = |tuple: &&Row| {
            let slots = group.and(tuple);
            let cells = arguments.iter().map(|argument| evaluate(argument, &slots));
            values(&cells.collect::<Option<Vec<Cell>>>().expect("arguments without a result are no tuples"))
        };
        expression::aggregate(*aggregate, &tuples.iter().map(of_tuple).collect::<Vec<_>>())
    });
    let computed: Vec<Cell> = computed.collect();
    if let Some(failure) = expression::least_failure(&computed) {
        return Row::from_iter([Err(failure)]);
    }
    let column = |column: &GroupColumn| match column {
        GroupColumn::Group(at) => group[*at].clone(),
        GroupColumn::Aggregate(at) => computed[*at].clone(),
    };
    columns.iter().map(column).collect()
}
