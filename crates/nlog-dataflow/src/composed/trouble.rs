//! Errors in derived rows, as recorded by workers.

use std::collections::BTreeSet;

use nlog_data::TableId;

use super::Diff;
use crate::symbol::Symbol;

/// What a worker met since it was last asked.
///
/// Between transactions no binding fails and no key is broken: a transaction that brings either about is undone. So
/// what is noted is new, and nothing has to be remembered in order to take it back.
#[derive(Debug, Default)]
pub(super) struct Troubles {
    /// Rule, failure, and how many more bindings fail so. Within an epoch a join can report a binding that another
    /// input's change takes back: only what is left of the sum counts.
    pub(super) failures: Vec<(u32, Symbol, Diff)>,
    /// Rows that share a key.
    pub(super) conflicts: Vec<Conflict>,
    /// Tables, as people know them, with a row that is derived in more ways than it may be.
    pub(super) too_many: BTreeSet<TableId>,
}

/// All rows of a table that share a key: two or more.
#[derive(Debug)]
pub(super) struct Conflict {
    pub(super) table: TableId,
    pub(super) rows: Vec<Vec<Symbol>>,
}

impl Troubles {
    pub(super) fn append(&mut self, mut other: Troubles) {
        self.failures.append(&mut other.failures);
        self.conflicts.append(&mut other.conflicts);
        self.too_many.append(&mut other.too_many);
    }
}

impl Conflict {
    /// The conflict of the rows under a key, if there is one.
    pub(super) fn of(rows: Vec<Vec<Symbol>>, table: TableId) -> Option<Self> {
        (rows.len() > 1).then_some(Conflict { table, rows })
    }
}
