//! Errors in derived rows, as recorded by workers.

use std::collections::BTreeSet;

use nlog_data::TableId;

use super::Diff;
use crate::symbol::Symbol;

/// The errors that a worker has met since they were last taken.
///
/// Between transactions no binding fails, no key is violated and no forbidden row is there, because a transaction that
/// causes any of these is undone. All recorded errors are therefore new, and none has to be remembered for later
/// retraction.
#[derive(Debug, Default)]
pub(super) struct Errors {
    /// Rule, failure, and the change of the number of failing bindings. Within an epoch, a join can report a binding
    /// that the change of another input retracts. Only the sum counts.
    pub(super) failures: Vec<(u32, Symbol, Diff)>,
    /// Rows that share a key.
    pub(super) conflicts: Vec<Conflict>,
    /// Rows of tables that forbid them, with the changes of their counts. Only the sum counts.
    pub(super) forbidden: Vec<(TableId, Vec<Symbol>, Diff)>,
    /// Tables, as shown to users, that have a row with too many derivations.
    pub(super) too_many: BTreeSet<TableId>,
}

/// All rows of a table that share a key: two or more of them.
#[derive(Debug)]
pub(super) struct Conflict {
    pub(super) table: TableId,
    pub(super) rows: Vec<Vec<Symbol>>,
}

impl Errors {
    pub(super) fn append(&mut self, mut other: Errors) {
        self.failures.append(&mut other.failures);
        self.conflicts.append(&mut other.conflicts);
        self.forbidden.append(&mut other.forbidden);
        self.too_many.append(&mut other.too_many);
    }
}

impl Conflict {
    /// The conflict of the rows under a key, if there are several.
    pub(super) fn of(rows: Vec<Vec<Symbol>>, table: TableId) -> Option<Self> {
        (rows.len() > 1).then_some(Conflict { table, rows })
    }
}
