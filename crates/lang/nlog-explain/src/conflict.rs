//! Why two rows of a refused transaction have one key: the rule of each, and the rows of input tables behind it.

use std::collections::BTreeSet;
use std::sync::Arc;

use nlog::Program;
use nlog_data::{Cancel, KeyConflict, Row, RuleId, TableId, Transaction};

use crate::OnDemand;

/// The combinations of values that may be tried to find the sources of both rows.
const COMBINATIONS: u64 = 2_000_000;
/// The most rows that are looked at on the way from a row down to inputs.
const ROWS_MAX: usize = 500;

/// Where a derived row comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The first rule that derives it.
    pub rule: RuleId,
    /// The rows of input tables that it follows from, in the order of the rules' bodies: the whole of one derivation, or its nearest part.
    pub inputs: Vec<(TableId, Row)>,
}

/// The sources of the two rows, in the state that the transaction would have led to. `before` has the rows of input tables
/// before it, or those that concern the transaction. None for a row that cannot be derived from them, or not soon.
pub fn sources(
    program: &Arc<Program>,
    before: impl IntoIterator<Item = (TableId, Row)>,
    transaction: &Transaction,
    conflict: &KeyConflict,
) -> [Option<Source>; 2] {
    let state = state_after(program, before, [transaction, &conflict.filled]);
    state.bound(COMBINATIONS, &Cancel::default());
    conflict.rows.each_ref().map(|row| source(&state, conflict.table, row))
}

/// The state after transactions that need not be accepted, which has these rows of input tables before them.
pub fn state_after<'t>(
    program: &Arc<Program>,
    before: impl IntoIterator<Item = (TableId, Row)>,
    transactions: impl IntoIterator<Item = &'t Transaction>,
) -> OnDemand {
    let mut rows: BTreeSet<(TableId, Row)> = before.into_iter().collect();
    for changes in transactions {
        for (table, deleted) in &changes.delete {
            for row in deleted {
                let _was_there = rows.remove(&(*table, row.clone()));
            }
        }
        for (table, inserted) in &changes.insert {
            rows.extend(inserted.iter().map(|row| (*table, row.clone())));
        }
    }
    OnDemand::new(Arc::clone(program), rows)
}

fn source(state: &OnDemand, table: TableId, row: &Row) -> Option<Source> {
    let way = state.derivations(table, row, 1).into_iter().next()?;
    let mut inputs = Vec::new();
    let mut seen = BTreeSet::new();
    let mut level = way.bodies.into_iter().next().unwrap_or_default();
    // Level by level, so that what is cut off is what lies furthest away.
    while !level.is_empty() && seen.len() < ROWS_MAX {
        let mut below = Vec::new();
        for (table, row) in level {
            if seen.len() >= ROWS_MAX || !seen.insert((table, row.clone())) {
                continue;
            }
            let ways = state.derivations(table, &row, 1);
            let body = ways.into_iter().next().and_then(|way| way.bodies.into_iter().next());
            match body {
                Some(body) => below.extend(body),
                None => inputs.push((table, row)),
            }
        }
        level = below;
    }
    Some(Source { rule: way.rule, inputs })
}

/// A line for each row of a conflict: the place of its rule, and what `named` says of the rows that it follows from, each once. What
/// one row alone follows from comes first.
pub fn lines(
    program: &Program,
    sources: &[Option<Source>; 2],
    named: impl Fn(TableId, &Row) -> Option<String>,
) -> Vec<String> {
    const NAMED_MAX: usize = 4;
    let names = sources.each_ref().map(|source| {
        let mut names: Vec<String> = Vec::new();
        for (table, row) in source.iter().flat_map(|source| &source.inputs) {
            if let Some(name) = named(*table, row).filter(|name| !names.contains(name)) {
                names.push(name);
            }
        }
        names
    });
    let line = |at: usize| {
        let (source, other) = (sources[at].as_ref()?, &names[1 - at]);
        let (shared, own): (Vec<&String>, Vec<&String>) =
            names[at].iter().partition(|name| other.contains(*name));
        let all: Vec<&str> = own.into_iter().chain(shared).map(String::as_str).collect();
        let listed = all.get(..NAMED_MAX).unwrap_or(&all).join(", ");
        let more = match all.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let from = if listed.is_empty() { String::new() } else { format!(", from {listed}{more}") };
        let which = ["one", "the other"][at];
        Some(format!("  {which} by the rule at {}{from}", program.rule(source.rule).place))
    };
    (0..2).filter_map(line).collect()
}
