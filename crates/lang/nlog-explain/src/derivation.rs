//! The bodies that derive a row, at most a given number of them: a row can have 10¹⁰ ways and more.

use nlog::program::{HeadTerm, Pattern};
use nlog_data::{Row, RuleId, TableId, Value};

use crate::OnDemand;
use crate::join::Source;
use crate::project::{for_each_combination, given};
use crate::rule;

/// The rows of the atoms of a binding, in the order of the body.
pub(crate) type Body = Vec<(TableId, Row)>;

/// The bodies of the bindings whose head is the row, or whose group's row it is: the first `most`, by the rows of the atoms in
/// the order of the rule, and whether there are more.
pub(crate) fn bodies(id: RuleId, state: &OnDemand, row: &Row, most: usize) -> (Vec<Body>, bool) {
    let rule = state.program().rule(id);
    let pattern = Pattern::of_row(rule.head, row);
    let has_aggregates = rule.terms.iter().any(|term| matches!(term, HeadTerm::Aggregate { .. }));
    if has_aggregates && !state.derived_by(id, &pattern).contains(row) {
        return (Vec::new(), false);
    }
    let Some(given) = given(rule, &pattern.columns) else { return (Vec::new(), false) };
    let group_columns: Vec<&Value> = (rule.terms.iter().zip(row))
        .filter(|(term, _)| matches!(term, HeadTerm::Value(_)))
        .map(|(_, value)| value)
        .collect();
    let enough = most.saturating_add(1);
    let mut found = Vec::new();
    let plan = state.plan(id, &given);
    for_each_combination(
        rule,
        plan,
        Source::OnDemand(state),
        given,
        enough,
        &mut |values, failure, bodies| {
            let head = rule::head(rule, values, failure);
            if matches!(head, Some(Ok(head)) if head.group.iter().eq(group_columns.iter().copied())) {
                found.extend(bodies);
            }
        },
    );
    found.sort();
    let more = found.len() > most;
    let of_body = |rows: Vec<(usize, TableId, &Row)>| {
        rows.into_iter().map(|(_, table, row)| (table, row.clone())).collect()
    };
    (found.into_iter().take(most).map(of_body).collect(), more)
}
