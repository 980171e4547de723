//! Transactions (RFC 7047, sections 4.1.3 and 5.2): operations and their checked results.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};
use uuid::Uuid;

use crate::row::{ColumnError, Row};
use crate::schema::Schema;
use crate::text::{PartsError, elements, member, members, tree};
use crate::value::{Datum, shorten};

/// One operation of a transaction. The operations of a transaction take effect together or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Inserts a row. Omitted columns get their default values.
    Insert {
        /// The table and the columns.
        row: Row,
        /// A name for the row in other operations of the same transaction ([`Datum::named_uuid`]).
        uuid_name: Option<String>,
    },
    /// Returns the rows that satisfy all conditions.
    Select {
        /// The table.
        table: String,
        /// A row must satisfy all of them. An empty list selects every row.
        conditions: Vec<Condition>,
        /// The columns to return. `None` returns all, including `_uuid` and `_version`.
        columns: Option<Vec<String>>,
    },
    /// Sets the columns of `row` in every row that satisfies all conditions.
    Update {
        /// A row must satisfy all of them.
        conditions: Vec<Condition>,
        /// The table and the new values.
        row: Row,
    },
    /// Changes columns relative to their current values.
    Mutate {
        /// The table.
        table: String,
        /// A row must satisfy all of them.
        conditions: Vec<Condition>,
        /// Applied in order.
        mutations: Vec<Mutation>,
    },
    /// Deletes the rows that satisfy all conditions.
    Delete {
        /// The table.
        table: String,
        /// A row must satisfy all of them.
        conditions: Vec<Condition>,
    },
    /// Delays the transaction until the rows that satisfy the conditions equal `rows`, or differ from them.
    Wait {
        /// The table.
        table: String,
        /// A row must satisfy all of them.
        conditions: Vec<Condition>,
        /// The columns to compare.
        columns: Vec<String>,
        /// Whether to wait until the rows are equal (true) or until they differ (false).
        until_equal: bool,
        /// The rows to compare with. Their table is ignored.
        rows: Vec<Row>,
        /// The longest wait, in whole milliseconds, after which the transaction fails with `timed out`. A timeout of
        /// zero turns the operation into a guard. `None` waits without a limit.
        timeout: Option<Duration>,
    },
    /// A comment for the database's log.
    Comment(String),
    /// Makes the transaction fail with `aborted`.
    Abort,
    /// Makes the transaction fail with `not owner` unless this connection holds the lock.
    Assert {
        /// The lock's name.
        lock: String,
    },
}

/// `column function value`, as in `["name", "==", "br-int"]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// The column; `_uuid` is allowed.
    pub column: String,
    /// The comparison.
    pub function: Function,
    /// The value to compare with.
    pub value: Datum,
}

/// The comparisons of a [`Condition`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as in RFC 7047, section 5.1, <function>")]
pub enum Function {
    Less,
    LessOrEqual,
    Equal,
    NotEqual,
    GreaterOrEqual,
    Greater,
    /// The column contains every element of the value.
    Includes,
    /// The column contains none of the elements of the value.
    Excludes,
}

/// `column mutator value`, as in `["ports", "insert", [...]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutation {
    /// The column.
    pub column: String,
    /// The operator.
    pub mutator: Mutator,
    /// The operand.
    pub value: Datum,
}

/// The operators of a [`Mutation`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as in RFC 7047, section 5.1, <mutator>")]
pub enum Mutator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    /// Adds elements. Existing keys of a map keep their values.
    Insert,
    /// Removes elements or pairs. With a set as operand, removes these keys of a map.
    Delete,
}

impl Condition {
    /// `column == value`.
    pub fn equal(column: impl Into<String>, value: impl Into<Datum>) -> Self {
        Condition { column: column.into(), function: Function::Equal, value: value.into() }
    }

    /// `column includes value`.
    pub fn includes(column: impl Into<String>, value: impl Into<Datum>) -> Self {
        Condition { column: column.into(), function: Function::Includes, value: value.into() }
    }

    /// Matches the row with this UUID.
    pub fn uuid(uuid: Uuid) -> Self {
        Condition::equal("_uuid", uuid)
    }

    fn to_json(&self) -> Value {
        let function = match self.function {
            Function::Less => "<",
            Function::LessOrEqual => "<=",
            Function::Equal => "==",
            Function::NotEqual => "!=",
            Function::GreaterOrEqual => ">=",
            Function::Greater => ">",
            Function::Includes => "includes",
            Function::Excludes => "excludes",
        };
        json!([self.column, function, self.value.to_json()])
    }
}

impl Mutation {
    /// A mutation.
    pub fn new(column: impl Into<String>, mutator: Mutator, value: impl Into<Datum>) -> Self {
        Mutation { column: column.into(), mutator, value: value.into() }
    }

    fn to_json(&self) -> Value {
        let mutator = match self.mutator {
            Mutator::Add => "+=",
            Mutator::Subtract => "-=",
            Mutator::Multiply => "*=",
            Mutator::Divide => "/=",
            Mutator::Remainder => "%=",
            Mutator::Insert => "insert",
            Mutator::Delete => "delete",
        };
        json!([self.column, mutator, self.value.to_json()])
    }
}

impl Operation {
    /// An insert without a name.
    pub fn insert(row: Row) -> Self {
        Operation::Insert { row, uuid_name: None }
    }

    /// An insert with a name for use in other operations.
    pub fn insert_named(uuid_name: impl Into<String>, row: Row) -> Self {
        Operation::Insert { row, uuid_name: Some(uuid_name.into()) }
    }

    /// A select that returns these columns.
    pub fn select(table: impl Into<String>, conditions: Vec<Condition>, columns: &[&str]) -> Self {
        let columns = Some(columns.iter().map(|column| (*column).to_owned()).collect());
        Operation::Select { table: table.into(), conditions, columns }
    }

    /// An update of the rows that satisfy all conditions.
    pub fn update(row: Row, conditions: Vec<Condition>) -> Self {
        Operation::Update { conditions, row }
    }

    /// A mutate of the rows that satisfy all conditions.
    pub fn mutate(table: impl Into<String>, conditions: Vec<Condition>, mutations: Vec<Mutation>) -> Self {
        Operation::Mutate { table: table.into(), conditions, mutations }
    }

    /// A delete of the rows that satisfy all conditions.
    pub fn delete(table: impl Into<String>, conditions: Vec<Condition>) -> Self {
        Operation::Delete { table: table.into(), conditions }
    }

    /// A guard: the transaction fails with `timed out` at once unless the row `uuid` has these values.
    pub fn guard(uuid: Uuid, row: Row) -> Self {
        Operation::Wait {
            table: row.table().to_owned(),
            conditions: vec![Condition::uuid(uuid)],
            columns: row.columns().map(|(column, _)| column.to_owned()).collect(),
            until_equal: true,
            rows: vec![row],
            timeout: Some(Duration::ZERO),
        }
    }

    /// Whether it may change the database.
    pub(crate) fn writes(&self) -> bool {
        matches!(
            self,
            Operation::Insert { .. }
                | Operation::Update { .. }
                | Operation::Mutate { .. }
                | Operation::Delete { .. }
        )
    }

    /// Converts to the JSON notation.
    pub fn to_json(&self) -> Value {
        let conditions =
            |conditions: &[Condition]| conditions.iter().map(Condition::to_json).collect::<Value>();
        match self {
            Operation::Insert { row, uuid_name } => {
                let object = json!({"op": "insert", "table": row.table(), "row": row.to_json()});
                with_member(object, "uuid-name", uuid_name.as_ref().map(|name| json!(name)))
            }
            Operation::Select { table, conditions: all, columns } => {
                let object = json!({"op": "select", "table": table, "where": conditions(all)});
                with_member(object, "columns", columns.as_ref().map(|columns| json!(columns)))
            }
            Operation::Update { conditions: all, row } => {
                json!({"op": "update", "table": row.table(), "where": conditions(all), "row": row.to_json()})
            }
            Operation::Mutate { table, conditions: all, mutations } => {
                let mutations: Value = mutations.iter().map(Mutation::to_json).collect();
                json!({"op": "mutate", "table": table, "where": conditions(all), "mutations": mutations})
            }
            Operation::Delete { table, conditions: all } => {
                json!({"op": "delete", "table": table, "where": conditions(all)})
            }
            Operation::Wait { table, conditions: all, columns, until_equal, rows, timeout } => {
                let object = json!({
                    "op": "wait", "table": table, "where": conditions(all), "columns": columns,
                    "until": if *until_equal { "==" } else { "!=" },
                    "rows": rows.iter().map(Row::to_json).collect::<Vec<_>>(),
                });
                let milliseconds = |timeout: Duration| i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX);
                with_member(object, "timeout", timeout.map(|timeout| json!(milliseconds(timeout))))
            }
            Operation::Comment(text) => json!({"op": "comment", "comment": text}),
            Operation::Abort => json!({"op": "abort"}),
            Operation::Assert { lock } => json!({"op": "assert", "lock": lock}),
        }
    }
}

fn with_member(mut object: Value, name: &str, value: Option<Value>) -> Value {
    if let (Some(members), Some(value)) = (object.as_object_mut(), value) {
        members.insert(name.to_owned(), value);
    }
    object
}

/// Shows the kind and the table of the operation.
impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operation::Insert { row, .. } => write!(f, "insert into {}", row.table()),
            Operation::Select { table, .. } => write!(f, "select from {table}"),
            Operation::Update { row, .. } => write!(f, "update of {}", row.table()),
            Operation::Mutate { table, .. } => write!(f, "mutate of {table}"),
            Operation::Delete { table, .. } => write!(f, "delete from {table}"),
            Operation::Wait { table, .. } => write!(f, "wait for {table}"),
            Operation::Comment(_) => f.write_str("comment"),
            Operation::Abort => f.write_str("abort"),
            Operation::Assert { lock } => write!(f, "assert of lock {lock}"),
        }
    }
}

/// The result of one operation of a committed transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The UUID of the inserted row.
    Inserted(Uuid),
    /// The selected rows.
    Rows(Vec<Row>),
    /// The number of rows that an update, mutate or delete matched.
    Count(u64),
    /// A wait, comment or assert succeeded.
    Done,
}

/// The results of a committed transaction, in the order of its operations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcomes(pub Vec<Outcome>);

impl Outcomes {
    /// The rows of the select at `index`; empty for any other operation.
    pub fn rows(&self, index: usize) -> &[Row] {
        match self.0.get(index) {
            Some(Outcome::Rows(rows)) => rows,
            _ => &[],
        }
    }

    /// The UUID of the row inserted by the operation at `index`; `None` for any other operation.
    pub fn inserted(&self, index: usize) -> Option<Uuid> {
        match self.0.get(index) {
            Some(Outcome::Inserted(uuid)) => Some(*uuid),
            _ => None,
        }
    }

    /// The number of rows that the update, mutate or delete at `index` matched; 0 for any other operation.
    pub fn count(&self, index: usize) -> u64 {
        match self.0.get(index) {
            Some(Outcome::Count(count)) => *count,
            _ => 0,
        }
    }
}

/// The reason why a transaction was not committed, or may not have been.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransactError {
    /// An operation failed. The database is unchanged.
    #[error("operation {index} ({operation}) failed: {error}: {details}")]
    Operation {
        /// The index of the operation in the transaction, from 0.
        index: usize,
        /// The kind and the table of the operation.
        operation: String,
        /// The error's name, such as `timed out` (RFC 7047, section 5.2).
        error: String,
        /// The server's explanation; may be empty.
        details: String,
    },
    /// Every operation succeeded, but together they violate a constraint. The database is unchanged.
    #[error("the transaction was refused at commit: {error}: {details}")]
    Commit {
        /// The error's name, such as `constraint violation`.
        error: String,
        /// The server's explanation; may be empty.
        details: String,
    },
    /// The request as a whole was refused. The database is unchanged.
    #[error("the transaction was not accepted: {error}: {details}")]
    Request {
        /// The error's name, such as `unknown database`.
        error: String,
        /// The server's explanation; may be empty.
        details: String,
    },
    /// Another client has the lock that this client asserts ([`Client::steal_lock`](crate::Client::steal_lock)). The database is
    /// unchanged.
    #[error("another client holds the lock that protects these changes: {details}")]
    NotOwner {
        /// The server's explanation.
        details: String,
    },
    /// There was no connection, and nothing was sent. Try again after the next connection.
    #[error("not connected: {why}")]
    NotConnected {
        /// The reason.
        why: String,
    },
    /// The connection was lost before the reply arrived, so the transaction may or may not have been committed. Read
    /// the database again before continuing.
    #[error(
        "the connection was lost before the reply, so whether the transaction was committed is unknown: {why}"
    )]
    FateUnknown {
        /// The reason.
        why: String,
    },
    /// The reply is malformed. The transaction was probably committed, and the connection ends.
    #[error("the reply to the transaction cannot be understood: {problem}")]
    Reply {
        /// The problem.
        problem: String,
    },
}

impl TransactError {
    /// Whether a guard ([`Operation::guard`]) or an [`Operation::Wait`] timed out.
    pub fn is_timed_out(&self) -> bool {
        matches!(self, TransactError::Operation { error, .. } if error == "timed out")
    }

    /// Whether the transaction violated a constraint: an index, a reference, or the number of elements.
    pub fn is_constraint_violation(&self) -> bool {
        match self {
            TransactError::Operation { error, .. } | TransactError::Commit { error, .. } => {
                error == "constraint violation" || error == "referential integrity violation"
            }
            _ => false,
        }
    }
}

impl From<ColumnError> for TransactError {
    fn from(error: ColumnError) -> Self {
        TransactError::Reply { problem: error.to_string() }
    }
}

/// The parameters of the `transact` request.
pub(crate) fn request(database: &str, operations: &[Operation]) -> Value {
    std::iter::once(json!(database)).chain(operations.iter().map(Operation::to_json)).collect()
}

/// The name and details of an error, which is an object or a bare string.
pub(crate) fn error_parts(error: &str) -> (String, String) {
    let text = |text: &str| match tree(text) {
        Some(Value::String(text)) => text,
        _ => shorten(text),
    };
    match members(error, 10) {
        Ok(members) => {
            let part = |name| Some(member(&members, name)).filter(|text| *text != "null").map(text);
            (part("error").unwrap_or_default(), part("details").unwrap_or_default())
        }
        Err(_) => (text(error), String::new()),
    }
}

/// Reads the result of `transact`, an array with one element for each operation, and possibly one more with the error of the commit.
///
/// # Errors
/// The transaction failed, or the result has another form.
pub fn outcomes(operations: &[Operation], result: &str, schema: &Schema) -> Result<Outcomes, TransactError> {
    let reply_error = |problem: String| TransactError::Reply { problem };
    let count = |count: &dyn fmt::Display| {
        reply_error(format!("{count} results for {} operations", operations.len()))
    };
    let elements = elements(result, operations.len() + 1).map_err(|problem| match problem {
        PartsError::TooMany(max) => count(&format_args!("more than {max}")),
        PartsError::Form => reply_error(format!("no array: {}", shorten(result))),
    })?;
    let parts: Vec<Option<Vec<(String, &str)>>> =
        elements.iter().map(|element| members(element, RESULT_MEMBERS_MAX).ok()).collect();
    // Errors come first, because the elements after a failed operation are null.
    let is_error = |members: &Vec<(String, &str)>| members.iter().any(|(name, _)| name == "error");
    let failed = parts.iter().position(|parts| parts.as_ref().is_some_and(is_error));
    if let Some((index, element)) = failed.and_then(|index| Some((index, elements.get(index)?))) {
        let (error, details) = error_parts(element);
        return Err(match operations.get(index) {
            Some(operation) => {
                TransactError::Operation { index, operation: operation.to_string(), error, details }
            }
            None => TransactError::Commit { error, details },
        });
    }
    if elements.len() != operations.len() {
        return Err(count(&elements.len()));
    }
    let parsed = operations.iter().zip(parts).zip(elements).enumerate();
    let parsed = parsed.map(|(index, ((operation, parts), element))| {
        outcome(operation, parts.as_deref(), schema)?
            .ok_or_else(|| reply_error(format!("operation {index} ({operation}): {}", shorten(element))))
    });
    parsed.collect::<Result<_, _>>().map(Outcomes)
}

/// The most members of a result.
pub(crate) const RESULT_MEMBERS_MAX: usize = 10;

/// The most rows of a select.
const SELECTED_MAX: usize = 100_000;

/// The result of one operation, or `None` if the element does not have the form of such a result.
fn outcome(
    operation: &Operation,
    parts: Option<&[(String, &str)]>,
    schema: &Schema,
) -> Result<Option<Outcome>, ColumnError> {
    let Some(parts) = parts else { return Ok(None) };
    Ok(match operation {
        Operation::Insert { .. } => Datum::from_text(member(parts, "uuid"))
            .ok()
            .and_then(|datum| crate::value::FromDatum::from_datum(&datum))
            .map(Outcome::Inserted),
        Operation::Select { table, .. } => match elements(member(parts, "rows"), SELECTED_MAX) {
            Ok(rows) => {
                let rows = rows.iter().map(|row| Row::from_text(table, row, schema));
                Some(Outcome::Rows(rows.collect::<Result<Vec<_>, _>>()?))
            }
            Err(_) => None,
        },
        Operation::Update { .. } | Operation::Mutate { .. } | Operation::Delete { .. } => {
            member(parts, "count").parse().ok().map(Outcome::Count)
        }
        Operation::Wait { .. } | Operation::Comment(_) | Operation::Abort | Operation::Assert { .. } => {
            Some(Outcome::Done)
        }
    })
}

/// The longest that the server may wait before it answers; none if it may wait for ever.
pub(crate) fn waits(operations: &[Operation]) -> Option<Duration> {
    operations.iter().try_fold(Duration::ZERO, |sum, operation| match operation {
        Operation::Wait { timeout, .. } => timeout.map(|timeout| sum.saturating_add(timeout)),
        _ => Some(sum),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> Schema {
        let columns = json!({"name": {"type": "string"}, "load": {"type": {"key": "real", "min": 0}}});
        Schema::from_json(&json!({"name": "D", "version": "1.0.0", "tables": {"T": {"columns": columns}}}))
            .expect("a schema")
    }

    fn operations() -> Vec<Operation> {
        vec![
            Operation::insert_named("r", Row::new("T").with("name", "x")),
            Operation::select("T", vec![], &["name", "load"]),
            Operation::update(Row::new("T").with("name", "y"), vec![Condition::equal("name", "x")]),
            Operation::Comment("why".to_owned()),
        ]
    }

    #[test]
    fn notation() {
        let uuid = Uuid::nil();
        assert_eq!(
            request("D", &operations()),
            json!([
                "D",
                {"op": "insert", "table": "T", "row": {"name": "x"}, "uuid-name": "r"},
                {"op": "select", "table": "T", "where": [], "columns": ["name", "load"]},
                {"op": "update", "table": "T", "where": [["name", "==", "x"]], "row": {"name": "y"}},
                {"op": "comment", "comment": "why"},
            ])
        );
        assert_eq!(
            Operation::guard(uuid, Row::new("T").with("name", "x")).to_json(),
            json!({"op": "wait", "table": "T", "where": [["_uuid", "==", ["uuid", uuid.to_string()]]],
                   "columns": ["name"], "until": "==", "rows": [{"name": "x"}], "timeout": 0})
        );
    }

    #[test]
    fn results_are_read_by_their_operation() {
        let result = json!([{"uuid": ["uuid", Uuid::nil().to_string()]}, {"rows": [{"name": "x", "load": 1}]}, {"count": 2}, {}]);
        let outcomes =
            outcomes(&operations(), &result.to_string(), &schema()).expect("a committed transaction");
        assert_eq!(outcomes.inserted(0), Some(Uuid::nil()));
        assert_eq!(outcomes.rows(1)[0].get("load"), Ok(1.0));
        assert_eq!(outcomes.count(2), 2);
    }

    #[test]
    fn every_failure_is_told() {
        let fine = || {
            vec![
                json!({"uuid": ["uuid", Uuid::nil().to_string()]}),
                json!({"rows": []}),
                json!({"count": 0}),
                json!({}),
            ]
        };
        for (change, says) in [
            (
                vec![(3, json!({"error": "aborted", "details": "why"}))],
                "operation 3 (comment) failed: aborted: why",
            ),
            (
                vec![(1, json!({"error": "timed out"})), (2, json!(null)), (3, json!(null))],
                "operation 1 (select from T) failed: timed out",
            ),
            (
                vec![(4, json!({"error": "constraint violation", "details": "d"}))],
                "refused at commit: constraint violation: d",
            ),
            (vec![(4, json!({}))], "5 results for 4 operations"),
            (vec![(1, json!(null))], "operation 1 (select from T): null"),
            (vec![(0, json!({"uuid": "x"}))], "operation 0 (insert into T)"),
            (vec![(1, json!({"rows": [{"name": 1}]}))], "T.name: wanted string, got 1"),
            (vec![(1, json!({"rows": [{"size": 1}]}))], "T.size: wanted a column of the schema"),
        ] {
            let mut result = fine();
            for (index, element) in change {
                result.truncate(index.max(4));
                if index < 4 { result[index] = element } else { result.push(element) }
            }
            let error =
                outcomes(&operations(), &json!(result).to_string(), &schema()).expect_err(says).to_string();
            assert!(error.contains(says), "{error} / {says}");
        }
        assert!(outcomes(&operations(), "[{}]", &schema()).is_err());
        assert!(outcomes(&operations(), "null", &schema()).is_err());
    }
}
