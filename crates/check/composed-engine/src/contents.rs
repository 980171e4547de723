//! What the coordinator makes of the changes at the sinks: errors, deltas, and the contents of tables.

use std::collections::BTreeMap;
use std::ops::Bound;

use nlog_data::{
    Delta, DerivedCause, DerivedError, DerivedErrors, MOST_FORBIDDEN, Row as ValueRow, RuleId, TableDelta,
    TableId,
};
use nlog_plan::query::Plan;

use crate::chain::rule_of;
use crate::graph::{Change, Diff, NONE, Sink, nothing};
use crate::row::{Cell, Row, values};

/// The changes of an epoch, each row of a sink once.
pub(crate) type Net = BTreeMap<(Sink, Row), Diff>;

/// Sums up what the workers report: while it works, a join can report a binding that the change of another input retracts.
pub(crate) fn net(changes: Vec<Change>) -> Net {
    let mut net = Net::new();
    for (sink, row, diff) in changes {
        *net.entry((sink, row)).or_default() += diff;
    }
    net.retain(|_, diff| *diff != NONE);
    net
}

/// The errors to report, if there are any. An error is always new, because a transaction that causes one is undone.
pub(crate) fn errors(net: &Net, plan: &Plan) -> Option<DerivedErrors> {
    let program = &plan.program;
    let mut errors = Vec::new();
    let mut forbidden: BTreeMap<TableId, Vec<ValueRow>> = BTreeMap::new();
    for ((sink, row), _) in net.iter().filter(|(_, diff)| **diff > NONE) {
        let error = match sink {
            Sink::Failure => {
                let rule = rule_of(&row[1]);
                let Err(failure) = row[0].clone() else { unreachable!("{row:?} is no failure") };
                let table = program.schema.shown(program.rule(rule).head);
                DerivedError { table, cause: DerivedCause::Failure { failure, rule } }
            }
            Sink::Conflict(table) => {
                let (first, second) = row.split_at(row.len() / 2);
                DerivedError::key_conflict(&program.schema, *table, values(first), values(second))
            }
            Sink::TooMany(table) => DerivedError { table: *table, cause: DerivedCause::TooManyWays },
            Sink::Forbidden(table) => {
                forbidden.entry(*table).or_default().push(values(row));
                continue;
            }
            Sink::Row(_) => continue,
        };
        errors.push(error);
    }
    errors.extend(forbidden.into_iter().map(|(table, mut rows)| {
        let count = rows.len();
        rows.truncate(MOST_FORBIDDEN);
        DerivedError { table, cause: DerivedCause::Forbidden { rows, count } }
    }));
    DerivedErrors::of(errors)
}

/// The rows of a table, each followed by a rule that derives it, with the number of its derivations by the rule.
#[derive(Debug, Default)]
pub(crate) struct Contents(BTreeMap<Row, Diff>);

impl Contents {
    /// The first rule that derives the row, if any does.
    fn rule(&self, row: &[Cell]) -> Option<RuleId> {
        let mut from = self.0.range::<[Cell], _>((Bound::Included(row), Bound::Unbounded));
        let (with_rule, _) = from.next()?;
        let (rule, found) = with_rule.split_last()?;
        (found == row).then(|| rule_of(rule))
    }

    /// The rows, ascending.
    pub(crate) fn rows(&self) -> Vec<ValueRow> {
        let mut rows: Vec<ValueRow> = self.0.keys().map(|row| values(&row[..row.len() - 1])).collect();
        rows.dedup();
        rows
    }

    /// Applies changes of ascending rows, each followed by a rule.
    fn apply(&mut self, changes: &[(&Row, Diff)], attribute: bool) -> TableDelta {
        let mut delta = TableDelta::default();
        let of_row = |row: &Row| row.split_last().map(|(_, row)| row.to_vec()).unwrap_or_default();
        for changes in changes.chunk_by(|(one, _), (other, _)| of_row(one) == of_row(other)) {
            let row = of_row(changes[0].0);
            let before = self.rule(&row);
            for (row, diff) in changes {
                let ways = self.0.entry((*row).clone()).or_default();
                *ways += *diff;
                if *ways == NONE {
                    self.0.remove(*row);
                }
            }
            match (before, self.rule(&row)) {
                (None, Some(rule)) => {
                    delta.insert.push(values(&row));
                    delta.rules.extend(attribute.then_some(rule));
                }
                (Some(_), None) => delta.delete.push(values(&row)),
                (Some(before), Some(after)) if attribute && before != after => {
                    delta.reattributed.push((values(&row), after));
                }
                _ => {}
            }
        }
        delta
    }
}

/// Applies the changes of an accepted transaction to the tables that were asked for.
pub(crate) fn apply(net: &Net, contents: &mut BTreeMap<TableId, Contents>, attribute: bool) -> Delta {
    let mut delta = Delta::default();
    for (table, contents) in contents {
        let sink = Sink::Row(*table);
        let from = net.range((sink, nothing())..).take_while(|((other, _), _)| *other == sink);
        let changes: Vec<(&Row, Diff)> = from.map(|((_, row), diff)| (row, *diff)).collect();
        let changed = contents.apply(&changes, attribute);
        if changed != TableDelta::default() {
            delta.tables.insert(*table, changed);
        }
    }
    delta
}
