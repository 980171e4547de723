//! What becomes of a rule's bindings: rows, or groups with aggregates.

use nlog::program::{Aggregate, Expr, HeadTerm, Rule, VariableId};

use crate::analysis::{may_be_none, may_fail, variables_of};
use crate::dependency::Variables;
use crate::plan::{AggregatePlan, GroupColumn, NARROW, Output, Scalar};
use crate::rule::Partial;

/// What becomes of the bindings.
pub(crate) fn output(rule: &Rule, partial: &Partial) -> Output {
    let aggregates = rule.terms.iter().any(|term| matches!(term, HeadTerm::Aggregate { .. }));
    if !aggregates {
        let values = rule.terms.iter().filter_map(|term| match term {
            HeadTerm::Value(expr) => Some(partial.scalar(expr)),
            HeadTerm::Aggregate { .. } => None,
        });
        return Output::Rows(values.collect());
    }
    let mut group: Vec<Scalar> = Vec::new();
    let mut columns = Vec::new();
    let mut arguments_of = Vec::new();
    // Where a variable is found among group and tuple: a group column that is just this variable, or a tuple column.
    let mut plain: Vec<(VariableId, usize)> = Vec::new();
    let mut used = Variables::new();
    for term in &rule.terms {
        match term {
            HeadTerm::Value(expr) => {
                if let Expr::Variable(variable) = expr {
                    plain.push((*variable, group.len()));
                }
                used.extend(variables_of(expr));
                columns.push(GroupColumn::Group(group.len()));
                group.push(partial.scalar(expr));
            }
            HeadTerm::Aggregate { aggregate, arguments } => {
                used.extend(arguments.iter().flat_map(variables_of));
                columns.push(GroupColumn::Aggregate(arguments_of.len()));
                arguments_of.push((*aggregate, arguments));
            }
        }
    }
    let tuple: Vec<VariableId> =
        used.into_iter().filter(|variable| !plain.iter().any(|(known, _)| known == variable)).collect();
    let mut over = Partial::unit();
    over.slots = vec![None; group.len()];
    for (variable, slot) in &plain {
        over.slots[*slot] = Some(*variable);
    }
    over.slots.extend(tuple.iter().copied().map(Some));
    let check = (arguments_of.iter().flat_map(|(_, arguments)| arguments.iter()))
        .filter(|expr| may_fail(expr) || may_be_none(expr))
        .map(|expr| partial.scalar(expr))
        .collect();
    let aggregates: Vec<AggregatePlan> = (arguments_of.iter())
        .map(|(aggregate, arguments)| AggregatePlan {
            aggregate: *aggregate,
            arguments: arguments.iter().take(counted(*aggregate)).map(|expr| over.scalar(expr)).collect(),
        })
        .collect();
    let wide = group.len().max(tuple.len()).max(aggregates.len()) > NARROW;
    let tuple = tuple.into_iter().map(|variable| partial.slot(variable)).collect();
    Output::Groups { group, tuple, check, aggregates, columns, wide }
}

/// How many of an aggregate's arguments are more than names of variables.
fn counted(aggregate: Aggregate) -> usize {
    use Aggregate::{ArgMax, ArgMin, Count, List, Max, Min, Set, Sum};
    match aggregate {
        Count => 0,
        Min | Max | Sum | Set | List => 1,
        ArgMin | ArgMax => 2,
    }
}
