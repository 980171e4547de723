//! Evaluates the body of a rule as far as its head needs it: every combination of values of the head's variables, once.
//!
//! Items of the body are evaluated one after the other. After each, variables that neither the rest of the body nor the
//! head uses are dropped, and equal combinations are merged. So the time for a rule depends on the combinations at its
//! widest step, not on the number of its bindings, which can be 10¹⁰ and more.

use std::borrow::Cow;

use hashbrown::HashMap;
use nlog::program::{Aggregate, BodyItem, Expr, HeadTerm, Rule};
use nlog_data::{Failure, Row, TableId, Value};

use crate::expression::Values;
use crate::join::{Binding, Source, check};
use crate::plan::{Plan, Step, used};

/// Values of the variables that are still needed, and the least failure on the way to them.
type Combination = (Values, Option<Failure>);

/// The rows of the atoms of a binding so far, each with the place of its atom in the body, in this order.
pub(crate) type Rows<'a> = Vec<(usize, TableId, &'a Row)>;

/// Combinations, each with the first bodies that lead to it, in order.
type Combinations<'a> = HashMap<Combination, Vec<Rows<'a>>>;

/// What is done with a combination: the values of the head's variables, the failure and the bodies.
type Each<'e, 'a> = dyn FnMut(&Values, Option<&Failure>, Vec<Rows<'a>>) + 'e;

/// Calls `each` for the values of the head's variables under every binding that the body does not reject, and with the
/// least failure of such a binding: each combination once, in no order.
///
/// With each come the first `most` bodies of its bindings, by the rows of the atoms in the order of the rule. It suffices to keep
/// so many of each combination on the way: what two bodies of a combination can be continued with is the same.
///
/// Variables that are given values have these: those that the plan is made for. Each of them is one that an atom binds.
pub(crate) fn for_each_combination<'a>(
    rule: &'a Rule,
    plan: &'a Plan,
    source: Source<'a>,
    given: Values,
    most: usize,
    each: &mut Each<'_, 'a>,
) {
    let nothing = if most > 0 { vec![Rows::new()] } else { Vec::new() };
    let mut combinations = Combinations::from_iter([((given, None), nothing)]);
    for step in &plan.steps {
        let item = &rule.body[step.at];
        let atom = match (item, &step.columns) {
            (BodyItem::Atom { table, terms, .. }, Some(columns)) => {
                Some(source.atom(*table, terms, Cow::Borrowed(columns)))
            }
            _ => None,
        };
        let mut extended = Extended { step, most, combinations: Combinations::new() };
        source.count(combinations.len());
        for ((values, failure), bodies) in combinations {
            let failures = failure.into_iter().collect();
            let mut binding = Binding { values, failures };
            let Some(atom) = &atom else {
                let before = binding.failures.len();
                check(item, &mut binding, &mut |binding| extended.keep(binding, bodies.iter().cloned()));
                binding.failures.truncate(before);
                continue;
            };
            for row in atom.matching(&binding.values).iter() {
                for (column, variable) in &atom.columns.binds {
                    binding.values[variable.0 as usize] = Some(row[*column].clone());
                }
                extended.keep(&binding, bodies.iter().map(|body| with_row(body, (step.at, atom.table, row))));
            }
        }
        combinations = extended.combinations;
    }
    for ((values, failure), bodies) in combinations {
        each(&values, failure.as_ref(), bodies);
    }
}

/// The combinations after an item.
struct Extended<'a> {
    step: &'a Step,
    /// How many bodies of each combination are kept.
    most: usize,
    combinations: Combinations<'a>,
}

impl<'a> Extended<'a> {
    /// Adds a combination with these bodies, which are in order.
    fn keep(&mut self, binding: &Binding, bodies: impl Iterator<Item = Rows<'a>>) {
        let mut values = binding.values.clone();
        for variable in &self.step.dead {
            values[variable.0 as usize] = None;
        }
        let kept = self.combinations.entry((values, binding.failures.iter().min().cloned())).or_default();
        let before = kept.len();
        for body in bodies {
            // Nor do those after it belong to the first ones.
            if before == self.most && kept[..before].last().is_none_or(|last| *last <= body) {
                break;
            }
            kept.push(body);
        }
        if kept.len() > before {
            // Two lists in order: this sort only merges them.
            kept.sort();
            kept.truncate(self.most);
        }
    }
}

fn with_row<'a>(body: &Rows<'a>, row: (usize, TableId, &'a Row)) -> Rows<'a> {
    let mut body = body.clone();
    let place = body.partition_point(|(at, ..)| *at < row.0);
    body.insert(place, row);
    body
}

/// The values of variables that stand in the head as they are, if an atom binds them: only these can derive a row with these
/// values, and with them, most rows of most atoms need not be looked at. None if the head is never such a row.
pub(crate) fn given(rule: &Rule, columns: &[Option<Value>]) -> Option<Values> {
    let mut given: Values = vec![None; rule.variables.len()];
    for (term, wanted) in rule.terms.iter().zip(columns) {
        let (HeadTerm::Value(expr), Some(wanted)) = (term, wanted) else { continue };
        match expr {
            Expr::Constant(value) if value != wanted => return None,
            Expr::Variable(variable) => match &mut given[variable.0 as usize] {
                Some(other) if other != wanted => return None,
                value => *value = Some(wanted.clone()),
            },
            _ => {}
        }
    }
    keep_bound(rule, &mut given);
    Some(given)
}

/// The values of variables whose least or greatest value in a group is to be this one: the group has a binding with it. None if
/// there are no such variables that an atom binds.
pub(crate) fn chosen(rule: &Rule, columns: &[Option<Value>]) -> Option<Values> {
    let mut chosen: Values = vec![None; rule.variables.len()];
    for (term, wanted) in rule.terms.iter().zip(columns) {
        let (HeadTerm::Aggregate { aggregate, arguments }, Some(wanted)) = (term, wanted) else { continue };
        let choice = match aggregate {
            Aggregate::Min | Aggregate::Max => arguments.first(),
            Aggregate::ArgMin | Aggregate::ArgMax => arguments.get(1),
            Aggregate::Count | Aggregate::Sum | Aggregate::Set | Aggregate::List => None,
        };
        // Two of them may be of different bindings.
        if let (Some(Expr::Variable(variable)), true) = (choice, chosen.iter().all(Option::is_none)) {
            chosen[variable.0 as usize] = Some(wanted.clone());
        }
    }
    keep_bound(rule, &mut chosen);
    chosen.iter().any(Option::is_some).then_some(chosen)
}

/// Forgets the values of variables that no atom binds.
fn keep_bound(rule: &Rule, given: &mut Values) {
    let mut is_bound = vec![false; given.len()];
    for item in &rule.body {
        if let BodyItem::Atom { .. } = item {
            used(item, &mut |variable| is_bound[variable.0 as usize] = true);
        }
    }
    for (value, is_bound) in given.iter_mut().zip(is_bound) {
        *value = value.take().filter(|_| is_bound);
    }
}
