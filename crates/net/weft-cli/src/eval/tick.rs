//! Ticks, the time of timed hooks, among the lines of transactions.

use nlog_data::json::ColumnLine;
use nlog_data::{ErrorCode, TransactionError};

/// The time of a line in milliseconds, if the line is a tick: `{"tick": 1500}`. A tick has no rows, but may have
/// members that describe its origin.
pub(super) fn tick(line: &ColumnLine, number: u64) -> Result<Option<u64>, TransactionError> {
    let refuse =
        |why: &str| TransactionError::new(ErrorCode::BadJson, format!("line {number}, column 1: {why}"));
    // A line with an error is an empty transaction, no matter what else it contains.
    let Some(tick) = line.origin.get("tick").filter(|_| !line.origin.contains_key("error")) else {
        return Ok(None);
    };
    if !line.transaction.insert.is_empty() || !line.transaction.delete.is_empty() {
        return Err(refuse("a tick cannot have rows; put them on another line"));
    }
    match tick.as_u64() {
        Some(now) => Ok(Some(now)),
        None => Err(refuse("tick must be a whole number of milliseconds, at least 0")),
    }
}
