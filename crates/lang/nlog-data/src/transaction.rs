//! Transactions, deltas, errors, and the interface of evaluators.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::{Read, Take, Write};

use crate::quotation::quote_text;
use crate::{
    Bound, ColumnTransaction, Columns, CommittedColumns, Role, Schema, Stopped, TableId, TransactionError,
    Value,
};

/// One tuple: a value for each column.
pub type Row = Vec<Value>;

/// The number of a rule in its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleId(pub u32);

/// Rows to delete from and insert into input tables, atomically. Deletes come first.
///
/// Rows must conform to the columns of their table. The creator of a transaction, such as [`crate::json`], ensures
/// this.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Transaction {
    /// Rows to insert.
    pub insert: BTreeMap<TableId, Vec<Row>>,
    /// Rows to delete.
    pub delete: BTreeMap<TableId, Vec<Row>>,
}

impl Transaction {
    /// Whether it neither inserts nor deletes anything.
    pub fn is_empty(&self) -> bool {
        self.insert.values().chain(self.delete.values()).all(Vec::is_empty)
    }

    /// The transaction that undoes this one, if it inserts absent rows only and deletes present ones.
    #[must_use]
    pub fn inverse(self) -> Transaction {
        Transaction { insert: self.delete, delete: self.insert }
    }
}

/// The changes of tables; unchanged tables are absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Delta {
    /// Changes by table.
    pub tables: BTreeMap<TableId, TableDelta>,
}

impl Delta {
    /// Puts the rows of each table in ascending order, with their rules.
    pub fn sort(&mut self) {
        for table in self.tables.values_mut() {
            table.delete.sort_unstable();
            table.reattributed.sort_unstable();
            let insert = std::mem::take(&mut table.insert);
            if table.rules.is_empty() {
                table.insert = insert;
                table.insert.sort_unstable();
            } else {
                let mut attributed: Vec<(Row, RuleId)> =
                    insert.into_iter().zip(std::mem::take(&mut table.rules)).collect();
                attributed.sort_unstable();
                (table.insert, table.rules) = attributed.into_iter().unzip();
            }
        }
    }
}

/// The changes of one table. Rows are in ascending order, unless the evaluator was told that no order is needed, and each is in
/// only one of the lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableDelta {
    /// Inserted rows.
    pub insert: Vec<Row>,
    /// Deleted rows.
    pub delete: Vec<Row>,
    /// For each inserted row, the rule that it is attributed to; empty unless attribution was requested. If several
    /// rules derive a row, the one with the least fingerprint counts.
    pub rules: Vec<RuleId>,
    /// Rows that stay but are now attributed to another rule; empty unless attribution was requested.
    pub reattributed: Vec<(Row, RuleId)>,
}

/// The tables whose changes an evaluator reports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Tables {
    /// Output tables.
    #[default]
    Outputs,
    /// All tables except hidden ones, including inputs.
    All,
    /// These tables.
    These(BTreeSet<TableId>),
}

impl Tables {
    /// Whether the table is included.
    ///
    /// # Panics
    /// If the number belongs to another schema.
    pub fn include(&self, schema: &Schema, table: TableId) -> bool {
        match self {
            Tables::Outputs => schema.table(table).role == Role::Output,
            Tables::All => schema.table(table).role != Role::Hidden,
            Tables::These(tables) => tables.contains(&table),
        }
    }
}

/// The maximum number of derivations of one row: 2⁶².
///
/// A row has one derivation for each binding of a rule that derives it. If a row can have several, the dataflow
/// engines count them in 64 bits. A transaction that would exceed the maximum is refused with
/// [`ErrorCode::Overflow`].
///
/// The planner splits the bodies of rules so that the number of derivations of a row is at most the product of the
/// row counts of two tables. A table of 2³¹ rows does not fit into memory, so no real program should reach the limit.
/// The limit leaves room for the sum of a count and its change.
pub const MOST_WAYS: i64 = 1 << 62;

/// The reason why a transaction was refused, as a code for scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ErrorCode {
    /// The line is not a JSON object of the right form.
    BadJson,
    /// No table has this name.
    UnknownTable,
    /// The table is filled by rules.
    NotAnInput,
    /// A row has the wrong number of values.
    Arity,
    /// A value does not have its column's type.
    TypeMismatch,
    /// A second row under a key of an input table, or with the same unique columns.
    DuplicateKey,
    /// Two derived rows with one key, or the same unique columns.
    KeyConflict,
    /// Integer arithmetic exceeded 64 bits, or a row has more than [`MOST_WAYS`] derivations.
    Overflow,
    /// A value is out of range for its use.
    Range,
    /// A table that forbids its rows has one.
    Forbidden,
}

impl ErrorCode {
    /// Every code.
    pub const ALL: [ErrorCode; 10] = [
        ErrorCode::BadJson,
        ErrorCode::UnknownTable,
        ErrorCode::NotAnInput,
        ErrorCode::Arity,
        ErrorCode::TypeMismatch,
        ErrorCode::DuplicateKey,
        ErrorCode::KeyConflict,
        ErrorCode::Overflow,
        ErrorCode::Range,
        ErrorCode::Forbidden,
    ];

    /// The code's name in output.
    pub fn name(self) -> &'static str {
        match self {
            ErrorCode::BadJson => "bad-json",
            ErrorCode::UnknownTable => "unknown-table",
            ErrorCode::NotAnInput => "not-an-input",
            ErrorCode::Arity => "arity",
            ErrorCode::TypeMismatch => "type-mismatch",
            ErrorCode::DuplicateKey => "duplicate-key",
            ErrorCode::KeyConflict => "key-conflict",
            ErrorCode::Overflow => "overflow",
            ErrorCode::Range => "range",
            ErrorCode::Forbidden => "forbidden",
        }
    }
}

/// An accepted transaction's result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Committed {
    /// Changes of the requested tables.
    pub delta: Delta,
    /// The number of inserts of rows that were already present.
    pub redundant_inserts: u64,
    /// The number of deletes of rows that were not present.
    pub redundant_deletes: u64,
}

/// Why a transaction failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// The transaction was refused. Nothing changed, and the evaluator can continue.
    #[error(transparent)]
    Refused(#[from] TransactionError),
    /// The transaction was stopped at its [bound](Evaluator::bound). Nothing changed, and the evaluator can continue.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// The evaluator failed and must not be used again.
    #[error("the engine failed: {0}")]
    Engine(String),
}

/// The memories of a program's hooks, by the name of the table that each fills. Hooks that compute from the present rows
/// alone have none.
pub type Memories = BTreeMap<String, serde_json::Value>;

/// An evaluator runs transactions through a program. The reference evaluator and the dataflow give the same results.
///
/// Derived tables are empty before the first accepted transaction, which may be an empty one; its delta includes the
/// rows that follow from the program's facts. A program whose facts cause an error refuses every transaction.
///
/// It is `Any`, so that whoever has made one can do with it what only one of its type can do, such as going on with other rules.
pub trait Evaluator: Any {
    /// The tables of the program.
    fn schema(&self) -> &Schema;

    /// Checks the transaction against the input tables as they are now. Changes nothing.
    fn check(&mut self, transaction: &Transaction) -> Result<(), TransactionError>;

    /// Runs one transaction atomically, after all earlier ones.
    fn commit(&mut self, transaction: &Transaction) -> Result<Committed, CommitError>;

    /// The current rows of a table, ascending. Tables that were not requested at construction may be absent.
    fn contents(&mut self, table: TableId) -> Result<Vec<Row>, CommitError>;

    /// Like [`Evaluator::commit`], for large transactions and deltas. An evaluator that does not work by columns
    /// converts them to rows.
    fn commit_columns(&mut self, transaction: &ColumnTransaction) -> Result<CommittedColumns, CommitError> {
        let committed = self.commit(&transaction.to_rows())?;
        CommittedColumns::from_rows(committed).map_err(|error| CommitError::Engine(error.to_string()))
    }

    /// Like [`Evaluator::contents`], by columns in the [ascending form](Columns::into_ascending).
    fn contents_columns(&mut self, table: TableId) -> Result<Columns, CommitError> {
        let rows = Columns::from_rows(&self.contents(table)?);
        rows.map(Columns::into_ascending).map_err(|error| CommitError::Engine(error.to_string()))
    }

    /// The current rows of input tables that have one of these values in a column: table by table, ascending in each. For a few
    /// rows of large tables: an evaluator may find them without reading the values of the others.
    fn rows_with(
        &mut self,
        tables: &[TableId],
        values: &HashSet<Value>,
    ) -> Result<Vec<(TableId, Row)>, CommitError> {
        let mut found = Vec::new();
        for table in tables {
            let mut rows = self.contents(*table)?;
            rows.retain(|row| row.iter().any(|value| values.contains(value)));
            found.extend(rows.into_iter().map(|row| (*table, row)));
        }
        Ok(found)
    }

    /// Bounds the next commit or edit of rules, and only that one. An undo has no bound. The default ignores the bound, which suits an evaluator that only
    /// gets small transactions.
    fn bound(&mut self, _bound: Bound) {}

    /// Does maintenance that makes later transactions cheaper, to be called while no transaction waits. Does not
    /// affect results. The default does nothing.
    fn idle(&mut self) -> Result<(), CommitError> {
        Ok(())
    }

    /// Compares a further part of what is stored with the inputs, from which all of it follows. For idle time: a part takes
    /// milliseconds, or as long as it takes to copy the largest relation. Does not affect results. The default compares nothing.
    fn scrub(&mut self) -> Result<Scrubbed, CommitError> {
        Ok(Scrubbed::Whole)
    }

    /// Derives all rows again from the inputs, and goes on with these. Returns the rows of the requested tables, as a
    /// transaction that inserts all of them. To be called when [`Evaluator::scrub`] has found a difference.
    ///
    /// # Errors
    /// The rows cannot be derived. The evaluator must not be used again.
    fn derive_anew(&mut self) -> Result<Committed, CommitError> {
        Err(CommitError::Engine("only the fused engine derives its rows again".to_owned()))
    }

    /// The rows of the requested tables that are `wanted`, with their rules if rows are attributed, as a transaction that inserts all of
    /// them.
    ///
    /// # Errors
    /// The evaluator failed.
    fn present_rows(&mut self, _wanted: &dyn Fn(TableId) -> bool) -> Result<Committed, CommitError> {
        Err(CommitError::Engine("only the fused engine reads all its rows at once".to_owned()))
    }

    /// Advances time to `now_ms` (milliseconds since an arbitrary origin), as a separate transaction. Evaluators read
    /// no clock, so a replay with the same ticks has the same result. Evaluators that do not depend on time refuse.
    fn tick(&mut self, now_ms: u64) -> Result<Committed, CommitError> {
        Err(no_timed_hook(now_ms).into())
    }

    /// What the program's hooks remember, so that another evaluator can go on from here.
    fn memories(&self) -> Memories {
        Memories::new()
    }

    /// Replaces the memories of these hooks as a part of the next transaction, which is refused if a memory does not fit
    /// its hook. Other hooks keep theirs.
    ///
    /// # Errors
    /// A table is not filled by a hook that has a memory. Nothing changes.
    fn restore(&mut self, memories: &Memories) -> Result<(), TransactionError> {
        memories.keys().next().map_or(Ok(()), |table| Err(no_memory(table)))
    }

    /// Writes the rows of all tables, derived ones too, in a form that only the same program in the same release can restore.
    ///
    /// # Errors
    /// In plain words, why that is not possible.
    fn save_derived(&mut self, _to: &mut dyn Write) -> Result<(), String> {
        Err("only the fused engine saves derived rows".to_owned())
    }

    /// Goes on from rows that [`Evaluator::save_derived`] has written. This evaluator has run nothing yet, and got the
    /// memories that belong to the rows by [`Evaluator::restore`]. `from` knows how many bytes are left.
    ///
    /// # Errors
    /// In plain words, why the rows cannot be used. The evaluator is as if it had just been started, and has its memories.
    fn restore_derived(&mut self, _from: &mut Take<&mut dyn Read>) -> Result<(), String> {
        Err("only the fused engine restores derived rows".to_owned())
    }

    /// The rows that it has stored, with their size, and the work of its rules: with several workers, those of the first. The default measures
    /// nothing.
    ///
    /// # Errors
    /// The evaluator failed.
    fn stored(&mut self) -> Result<StoredRows, CommitError> {
        Ok(StoredRows::default())
    }

    /// Keeps what [`Evaluator::undo`] needs for the transactions from here on, and drops it for those before.
    fn checkpoint(&mut self) {}

    /// Undoes the last transaction that was accepted after the last [`Evaluator::checkpoint`] and is not undone yet, as if
    /// it had never happened: hooks return to their former memories. The transaction inserted absent rows only, and
    /// deleted present ones.
    fn undo(&mut self, transaction: &Transaction) -> Result<Committed, CommitError> {
        self.commit(&transaction.clone().inverse())
    }
}

/// What an evaluator has stored, and what its rules have done since it got its plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoredRows {
    /// Its relations: tables, and stages of rules between them.
    pub relations: Vec<StoredRelation>,
    /// Its rules, those that have run.
    pub rules: Vec<WorkOfRule>,
    /// The number of distinct values.
    pub values: usize,
}

/// The rows of a relation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRelation {
    /// The table, or the stage.
    pub name: String,
    /// The number of rows.
    pub rows: usize,
    /// The size of the rows, in bytes.
    pub bytes: usize,
    /// The size of the indexes on them, in bytes.
    pub index_bytes: usize,
}

/// The work of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkOfRule {
    /// The rule.
    pub rule: RuleId,
    /// The rows that it has derived.
    pub derived: u64,
    /// The time that it took, in nanoseconds.
    pub nanos: u64,
}

/// The outcome of a part of a comparison of what is stored with the inputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scrubbed {
    /// All has been compared. The next part begins anew.
    Whole,
    /// There is more to compare.
    More,
    /// What is stored does not follow from the inputs. The text names the table.
    Differs(String),
}

/// The refusal of a tick by a program without timed hooks.
pub fn no_timed_hook(now_ms: u64) -> TransactionError {
    let message = format!(
        "tick {now_ms}: the program has no timed hook; declare a table `from` one, or remove the tick"
    );
    TransactionError::new(ErrorCode::BadJson, message)
}

/// The refusal of a memory for a table without a hook that remembers.
pub fn no_memory(table: &str) -> TransactionError {
    let table = quote_text(table);
    let message = format!("there is a memory for table {table}, but no hook with a memory fills this table");
    TransactionError::new(ErrorCode::UnknownTable, message)
}

impl<E: Evaluator + ?Sized> Evaluator for Box<E> {
    fn schema(&self) -> &Schema {
        (**self).schema()
    }

    fn check(&mut self, transaction: &Transaction) -> Result<(), TransactionError> {
        (**self).check(transaction)
    }

    fn commit(&mut self, transaction: &Transaction) -> Result<Committed, CommitError> {
        (**self).commit(transaction)
    }

    fn stored(&mut self) -> Result<StoredRows, CommitError> {
        (**self).stored()
    }

    fn contents(&mut self, table: TableId) -> Result<Vec<Row>, CommitError> {
        (**self).contents(table)
    }

    fn commit_columns(&mut self, transaction: &ColumnTransaction) -> Result<CommittedColumns, CommitError> {
        (**self).commit_columns(transaction)
    }

    fn contents_columns(&mut self, table: TableId) -> Result<Columns, CommitError> {
        (**self).contents_columns(table)
    }

    fn rows_with(
        &mut self,
        tables: &[TableId],
        values: &HashSet<Value>,
    ) -> Result<Vec<(TableId, Row)>, CommitError> {
        (**self).rows_with(tables, values)
    }

    fn bound(&mut self, bound: Bound) {
        (**self).bound(bound);
    }

    fn idle(&mut self) -> Result<(), CommitError> {
        (**self).idle()
    }

    fn scrub(&mut self) -> Result<Scrubbed, CommitError> {
        (**self).scrub()
    }

    fn derive_anew(&mut self) -> Result<Committed, CommitError> {
        (**self).derive_anew()
    }

    fn present_rows(&mut self, wanted: &dyn Fn(TableId) -> bool) -> Result<Committed, CommitError> {
        (**self).present_rows(wanted)
    }

    fn tick(&mut self, now_ms: u64) -> Result<Committed, CommitError> {
        (**self).tick(now_ms)
    }

    fn memories(&self) -> Memories {
        (**self).memories()
    }

    fn restore(&mut self, memories: &Memories) -> Result<(), TransactionError> {
        (**self).restore(memories)
    }

    fn save_derived(&mut self, to: &mut dyn Write) -> Result<(), String> {
        (**self).save_derived(to)
    }

    fn restore_derived(&mut self, from: &mut Take<&mut dyn Read>) -> Result<(), String> {
        (**self).restore_derived(from)
    }

    fn checkpoint(&mut self) {
        (**self).checkpoint();
    }

    fn undo(&mut self, transaction: &Transaction) -> Result<Committed, CommitError> {
        (**self).undo(transaction)
    }
}
