//! Memories of hooks among the lines of transactions, as journals have them.

use nlog_data::json::ColumnLine;
use nlog_data::{ErrorCode, Memories, TransactionError};

/// The memories that a line restores before its rows: `{"memory": {"label": {…}}, "insert": …}`.
pub(super) fn memory(line: &ColumnLine, number: u64) -> Result<Memories, TransactionError> {
    // A line with an error is an empty transaction, no matter what else it contains.
    let Some(memory) = line.origin.get("memory").filter(|_| !line.origin.contains_key("error")) else {
        return Ok(Memories::new());
    };
    let Some(memories) = memory.as_object() else {
        let message = format!(
            "line {number}, column 1: memory must be an object with the memory of a hook for each table that it fills"
        );
        return Err(TransactionError::new(ErrorCode::BadJson, message));
    };
    Ok(memories.iter().map(|(table, memory)| (table.clone(), memory.clone())).collect())
}
