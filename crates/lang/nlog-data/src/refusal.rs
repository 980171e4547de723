//! Why transactions are refused: errors of input rows, and of the rows that rules derive.

use crate::quotation::{grouped, quote, shortened};
use crate::{
    ErrorCode, Failure, FailureCode, MOST_WAYS, Row, RuleId, Schema, Table, TableId, Transaction, Value,
};

/// A refused transaction. The state is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", code.name())]
pub struct TransactionError {
    /// The code of the error.
    pub code: ErrorCode,
    /// The message: fault, place and remedy.
    pub message: String,
    /// The rule whose expression failed. Diagnostics show its place and text. Scripts see only code and message,
    /// which do not depend on the order of files, rules or atoms.
    pub rule: Option<RuleId>,
    /// What tables forbid of the rows, ascending by table, whether or not another error comes before it.
    pub forbidden: Vec<ForbiddenRows>,
    /// The derived rows that share a key or unique columns, if these are the error.
    pub conflict: Option<Box<KeyConflict>>,
}

/// Rows of a table that [forbids](crate::Role::Forbid) its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForbiddenRows {
    /// The table.
    pub table: String,
    /// The least rows, ascending, at least one and at most [`MOST_FORBIDDEN`].
    pub rows: Vec<Row>,
    /// The number of rows.
    pub count: usize,
    /// The message of a refusal by this table.
    pub message: String,
}

/// Two derived rows with one key, or the same unique columns, and what it takes to derive them again: the state before the transaction, the transaction,
/// and `filled`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyConflict {
    /// The table.
    pub table: TableId,
    /// The rows, ascending.
    pub rows: [Row; 2],
    /// The changes of the tables that hooks fill.
    pub filled: Transaction,
}

/// The most rows that a refusal by a table that forbids its rows lists.
pub const MOST_FORBIDDEN: usize = 100;

impl TransactionError {
    /// An error that concerns no rule.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        TransactionError { code, message: message.into(), rule: None, forbidden: Vec::new(), conflict: None }
    }

    /// The error to show of rows that come from objects: what a table forbids is in the words of its author, so it comes before
    /// what else is wrong with rows that follow from the same mistake.
    pub fn forbidden_first(mut self) -> Self {
        match self.forbidden.first() {
            Some(first) if self.code != ErrorCode::Forbidden => {
                (self.code, self.message) = (ErrorCode::Forbidden, first.message.clone());
                (self.rule, self.conflict) = (None, None);
                self
            }
            _ => self,
        }
    }

    /// Adds to a key conflict what hooks filled in the refused transaction.
    pub fn filled_by_hooks(&mut self, filled: &Transaction) {
        if let Some(conflict) = &mut self.conflict {
            conflict.filled = filled.clone();
        }
    }
}

/// An error among the tuples that rules derive.
///
/// A transaction can cause many. Evaluators continue past them: a binding that fails derives nothing, a group whose
/// sum fails has no row, and all rows that share a key count. The least of all these errors is reported, so every
/// evaluator reports the same one in whatever order it works. They are ordered by table name, then failures (code,
/// message, rule) before key conflicts (the key before what else is unique, then rows in value order) before forbidden
/// rows before rows with too many derivations.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DerivedError {
    /// The table of the head, or the [table shown in its place](Schema::shown). Tables are numbered in name order.
    pub table: TableId,
    /// The cause.
    pub cause: DerivedCause,
}

/// The kinds of errors in derived tables.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum DerivedCause {
    /// An expression of a rule has no value for bindings that satisfy the rule's body.
    Failure {
        /// The expression's failure.
        failure: Failure,
        /// The rule.
        rule: RuleId,
    },
    /// Rows agree on the table's key, or on columns that are unique.
    KeyConflict {
        /// The unique columns; `None` for the key.
        unique: Option<Vec<usize>>,
        /// The least row with this key.
        first: Row,
        /// The second least.
        second: Row,
    },
    /// A table that [forbids](crate::Role::Forbid) its rows has some.
    Forbidden {
        /// The least rows, ascending, at most [`MOST_FORBIDDEN`].
        rows: Vec<Row>,
        /// The number of rows.
        count: usize,
    },
    /// A row has more than [`MOST_WAYS`] derivations.
    TooManyWays,
}

/// The errors among derived rows that a refusal reports: the least, and all that tables forbid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DerivedErrors {
    least: DerivedError,
    /// Ascending.
    forbidden: Vec<DerivedError>,
}

impl DerivedErrors {
    /// The errors to report of these, if there are any.
    pub fn of(errors: impl IntoIterator<Item = DerivedError>) -> Option<Self> {
        let mut errors: Vec<DerivedError> = errors.into_iter().collect();
        let least = errors.iter().min()?.clone();
        errors.retain(|error| matches!(error.cause, DerivedCause::Forbidden { .. }));
        errors.sort_unstable();
        Some(DerivedErrors { least, forbidden: errors })
    }

    /// An error that comes before all others, and what tables forbid.
    pub fn before(least: DerivedError, forbidden: impl IntoIterator<Item = DerivedError>) -> Self {
        let forbidden = DerivedErrors::of(forbidden).map(|errors| errors.forbidden).unwrap_or_default();
        DerivedErrors { least, forbidden }
    }

    /// The refusal that they cause.
    pub fn to_transaction_error(&self, schema: &Schema) -> TransactionError {
        let forbidden = self.forbidden.iter().filter_map(|error| error.forbidden(schema)).collect();
        TransactionError { forbidden, ..self.least.to_transaction_error(schema) }
    }
}

impl DerivedError {
    /// Two rows with one key, the least of those that share it and the second least, in a table or in a hidden table that
    /// [checks](Schema::checks) what is unique in another one.
    pub fn key_conflict(schema: &Schema, table: TableId, first: Row, second: Row) -> Self {
        let unique = schema.checks(table).map(<[usize]>::to_vec);
        DerivedError {
            table: schema.shown(table),
            cause: DerivedCause::KeyConflict { unique, first, second },
        }
    }

    /// The refusal that this error causes.
    pub fn to_transaction_error(&self, schema: &Schema) -> TransactionError {
        let table = schema.table(self.table);
        match &self.cause {
            DerivedCause::Failure { failure, rule } => {
                let code = match failure.code {
                    FailureCode::Overflow => ErrorCode::Overflow,
                    FailureCode::Range => ErrorCode::Range,
                };
                let message = format!("table {}: {}", table.name, failure.message);
                TransactionError { rule: Some(*rule), ..TransactionError::new(code, message) }
            }
            DerivedCause::TooManyWays => TransactionError::new(
                ErrorCode::Overflow,
                format!(
                    "table {}: a row is derived in more than {MOST_WAYS} ways; let a table of its own derive the part \
                     of the rule's body that has so many bindings",
                    table.name
                ),
            ),
            DerivedCause::Forbidden { .. } => {
                let forbidden: Vec<ForbiddenRows> = self.forbidden(schema).into_iter().collect();
                let message = forbidden.first().map(|rows| rows.message.clone()).unwrap_or_default();
                TransactionError { forbidden, ..TransactionError::new(ErrorCode::Forbidden, message) }
            }
            DerivedCause::KeyConflict { unique, first, second } => {
                let rows = [first.clone(), second.clone()];
                let conflict = KeyConflict { table: self.table, rows, filled: Transaction::default() };
                let message = table.conflict(unique.as_deref(), first, second);
                let error = TransactionError::new(ErrorCode::KeyConflict, message);
                TransactionError { conflict: Some(Box::new(conflict)), ..error }
            }
        }
    }

    fn forbidden(&self, schema: &Schema) -> Option<ForbiddenRows> {
        let DerivedCause::Forbidden { rows, count } = &self.cause else { return None };
        let table = schema.table(self.table);
        let row = rows.first().map(|first| table.quote_named(first)).unwrap_or_default();
        let others = match count.saturating_sub(1) {
            0 => String::new(),
            1 => " and 1 more row".to_owned(),
            others => format!(" and {} more rows", grouped(others)),
        };
        let message = match table.first_sentence() {
            reason if reason.is_empty() => format!("table {} forbids {row}{others}", table.name),
            reason => format!("{reason}: {row}{others}"),
        };
        Some(ForbiddenRows { table: table.name.clone(), rows: rows.clone(), count: *count, message })
    }
}

/// The most differing columns that the message about a key conflict names.
const DIFFERENT_MAX: usize = 3;
/// The most bytes of a value there, and of a key.
const VALUE_MAX: usize = 100;
const KEY_MAX: usize = 200;

impl Table {
    /// The message about two derived rows with one key, or the same unique columns: these, and the columns that differ.
    fn conflict(&self, unique: Option<&[usize]>, first: &[Value], second: &[Value]) -> String {
        let differ = self.columns.iter().zip(first.iter().zip(second)).filter(|(_, (a, b))| a != b);
        let columns: Vec<String> = differ
            .map(|(column, (a, b))| {
                let (a, b) = (quote(a), quote(b));
                format!(
                    "{} is {} in one and {} in the other",
                    column.name,
                    shortened(&a, VALUE_MAX),
                    shortened(&b, VALUE_MAX)
                )
            })
            .collect();
        let more = match columns.len().saturating_sub(DIFFERENT_MAX) {
            0 => String::new(),
            1 => ", and 1 more column differs".to_owned(),
            more => format!(", and {more} more columns differ"),
        };
        let listed = columns.get(..DIFFERENT_MAX).unwrap_or(&columns).join(", ");
        let key = self.quote_shared(unique, first);
        format!(
            "table {}: the rules derive two rows with the same {}: {listed}{more}",
            self.name,
            shortened(&key, KEY_MAX)
        )
    }
}
