//! What the first large transaction says about tables, so that the plan is made for the rows that come.

use std::collections::BTreeMap;

use nlog::Program;
use nlog_data::TableId;
use nlog_plan::{Counter, Statistics};

use super::delta::Delta;
use super::output::columns_of;
use crate::symbol::Symbols;

/// From so many rows on a first transaction is worth another look at the plan: below, any plan will do.
pub(crate) const WORTH_PLANNING: usize = 10_000;

/// Figures of the rows that come into input tables which are empty. Of tables that get none nothing is said: they may
/// get theirs later.
pub(crate) fn of_changes(
    changes: &BTreeMap<TableId, Delta>,
    program: &Program,
    symbols: &Symbols,
) -> Statistics {
    let counter = Counter::new(program);
    let mut statistics = Statistics::default();
    for (id, rows) in changes {
        let known = counter.count(*id, &columns_of(rows, symbols));
        statistics.tables.insert(program.schema.table(*id).name.clone(), known);
    }
    statistics
}
