//! The interface of hooks.

use nlog_data::{Table, TableDelta};
use serde_json::Value as Json;

/// A computation of the rows of an input table, its *target*, from the rows of another table, its *source*.
///
/// A hook is a function of the history of its source and of its ticks: it reads no clock, no file and no random
/// numbers, so that a replay has the same result. A pure hook is a function of the source's contents alone.
pub trait Hook: Send {
    /// Processes the changes of the source and, with a tick, the advance of time to this many milliseconds, after the
    /// changes. Time never goes back. Returns the changes of the target: ascending rows, none in both lists,
    /// inserting only absent rows and deleting only present ones.
    ///
    /// # Errors
    /// The hook cannot fill its target, and says in plain words why and what helps. The transaction is refused.
    fn update(&mut self, source: &TableDelta, tick: Option<u64>) -> Result<TableDelta, String>;

    /// Makes all updates so far permanent, so that the data to undo them can be dropped.
    fn accept(&mut self);

    /// Undoes the last update that is neither permanent nor undone, as if it had never happened, together with a
    /// [`restore`](Hook::restore) before it. Without such an update, there is nothing to do. A failed update must be
    /// undone.
    fn undo(&mut self);

    /// What the hook remembers besides the rows of its source. `None` if it remembers nothing.
    fn memory(&self) -> Option<Json> {
        None
    }

    /// Replaces the memory of the hook, which fills this table. The next update brings the target from its present rows to
    /// those of the memory, with the changes of the source since then.
    ///
    /// # Errors
    /// The memory is not one of such a hook. Nothing changes.
    fn restore(&mut self, _memory: &Json, _target: &Table) -> Result<(), String> {
        Err("the hook has no memory".to_owned())
    }

    /// Follows changes of the target that another instance of the hook made, without the changes of the source that caused
    /// them. They are permanent.
    ///
    /// # Errors
    /// No instance with the present memory makes such changes, or the target does not tell enough about the memory.
    fn follow(&mut self, _target: &TableDelta) -> Result<(), String> {
        Err("the changes of its table do not tell what the hook remembers".to_owned())
    }

    /// The number of rows, edges and nodes that the hook has visited since its creation: a measure of cost that does
    /// not depend on the machine.
    fn work(&self) -> u64;
}
