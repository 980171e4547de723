//! Evaluates one rule over the current tables: its derived rows and its failures.

use std::collections::{BTreeMap, BTreeSet};

use nlog::program::{Expr, HeadTerm, Rule};
use nlog_data::{Failure, Row, Value};

use crate::aggregate::aggregate;
use crate::expression::{Outcome, Values, evaluate};
use crate::join::{Contents, Source};
use crate::plan::{Plan, head_variables};
use crate::project::for_each_combination;

/// The results of a rule.
#[derive(Default)]
pub struct Derived {
    /// Its rows.
    pub rows: BTreeSet<Row>,
    /// The least of its failures.
    pub failure: Option<Failure>,
}

impl Derived {
    fn fail(&mut self, failures: impl IntoIterator<Item = Failure>) {
        self.failure = self.failure.take().into_iter().chain(failures).min();
    }
}

/// The head of a rule under one binding: the group's columns, and each aggregate's arguments.
pub(crate) struct Head {
    pub(crate) group: Vec<Value>,
    arguments: Vec<Vec<Value>>,
}

/// Groups by the head's other columns: for each distinct tuple of the head's variables, the aggregates' arguments.
type Groups = BTreeMap<Vec<Value>, BTreeMap<Vec<Option<Value>>, Vec<Vec<Value>>>>;

/// Evaluates a rule.
pub fn derive(rule: &Rule, contents: &Contents) -> Derived {
    let source = Source::Contents(contents);
    let plan = Plan::new(rule, source, vec![false; rule.variables.len()]);
    derive_with(rule, &plan, source, vec![None; rule.variables.len()])
}

/// Evaluates a rule where some variables of the head's own columns have these values: of a group, all rows or none.
pub(crate) fn derive_with<'a>(rule: &'a Rule, plan: &'a Plan, source: Source<'a>, given: Values) -> Derived {
    let mut derived = Derived::default();
    let mut groups = Groups::new();
    let aggregates = rule.terms.iter().any(|term| matches!(term, HeadTerm::Aggregate { .. }));
    let of_head = head_variables(rule);
    for_each_combination(rule, plan, source, given, 0, &mut |values, failure, _| {
        let Some(head) = head(rule, values, failure) else { return };
        match head {
            Err(failures) => derived.fail(failures),
            Ok(head) if aggregates => {
                let tuple = of_head.iter().map(|variable| values[variable.0 as usize].clone()).collect();
                groups.entry(head.group).or_default().insert(tuple, head.arguments);
            }
            Ok(head) => {
                derived.rows.insert(head.group);
            }
        }
    });
    for (group, tuples) in groups {
        match group_row(rule, &group, &tuples.into_values().collect::<Vec<_>>()) {
            Ok(row) => {
                derived.rows.insert(row);
            }
            Err(failures) => derived.fail(failures),
        }
    }
    derived
}

/// The head under a binding with this failure, if it has one: none if a column has no value; an error with all failures
/// if something failed.
pub(crate) fn head(
    rule: &Rule,
    values: &Values,
    failure: Option<&Failure>,
) -> Option<Result<Head, Vec<Failure>>> {
    let mut failures: Vec<Failure> = failure.cloned().into_iter().collect();
    let mut all = |exprs: &[Expr]| -> Option<Vec<Value>> {
        let mut found = Vec::new();
        for expr in exprs {
            match evaluate(expr, values, &mut failures) {
                Outcome::Value(value) => found.push(value),
                Outcome::Nothing => return None,
                // Every undetermined item results from a failure in the list.
                Outcome::Undetermined => {}
            }
        }
        Some(found)
    };
    let mut head = Head { group: Vec::new(), arguments: Vec::new() };
    for term in &rule.terms {
        match term {
            HeadTerm::Value(expr) => head.group.extend(all(std::slice::from_ref(expr))?),
            HeadTerm::Aggregate { arguments, .. } => head.arguments.push(all(arguments)?),
        }
    }
    Some(if failures.is_empty() { Ok(head) } else { Err(failures) })
}

/// The row of a group; `tuples` has each aggregate's arguments for each of the group's distinct tuples.
fn group_row(rule: &Rule, group: &[Value], tuples: &[Vec<Vec<Value>>]) -> Result<Row, Vec<Failure>> {
    let mut row = Row::new();
    let mut failures = Vec::new();
    let mut group = group.iter();
    let mut number = 0;
    for term in &rule.terms {
        match term {
            HeadTerm::Value(_) => row.extend(group.next().cloned()),
            HeadTerm::Aggregate { aggregate: which, .. } => {
                let arguments: Vec<&[Value]> = tuples.iter().map(|tuple| tuple[number].as_slice()).collect();
                number += 1;
                match aggregate(*which, &arguments) {
                    Ok(value) => row.push(value),
                    Err(failure) => failures.push(failure),
                }
            }
        }
    }
    if failures.is_empty() { Ok(row) } else { Err(failures) }
}
