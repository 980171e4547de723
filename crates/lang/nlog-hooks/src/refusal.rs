//! What hooks refuse on behalf of every evaluator, in the same words.

use nlog::Program;
use nlog::hook::Wiring;
use nlog_data::{ErrorCode, Memories, TransactionError, no_memory};

/// A transaction changes the table that a hook fills.
pub fn changes_filled_table(program: &Program, wiring: &Wiring) -> TransactionError {
    let [to, from] = [wiring.to, wiring.from].map(|table| &program.schema.table(table).name);
    let message = format!(
        "table {to} is filled by hook {}; change the tables that {from} is derived from instead",
        wiring.hook.name()
    );
    TransactionError::new(ErrorCode::NotAnInput, message)
}

/// Checks that a tick is not earlier than the last one.
///
/// # Errors
/// It is, as [`ErrorCode::Range`].
pub fn check_tick(now_ms: u64, last_ms: Option<u64>) -> Result<(), TransactionError> {
    let Some(last) = last_ms.filter(|last| *last > now_ms) else { return Ok(()) };
    let message = format!("tick {now_ms} is earlier than the previous tick {last}; ticks must not decrease");
    Err(TransactionError::new(ErrorCode::Range, message))
}

/// Checks that each memory is of a table that a hook with a memory fills.
///
/// # Errors
/// The first memory that is not.
pub fn check_memories(program: &Program, memories: &Memories) -> Result<(), TransactionError> {
    let remembers = |table: &str| {
        let mut wirings = program.hooks.iter();
        wirings.any(|wiring| wiring.hook.has_memory() && program.schema.table(wiring.to).name == table)
    };
    memories.keys().find(|table| !remembers(table)).map_or(Ok(()), |table| Err(no_memory(table)))
}
