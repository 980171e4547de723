//! The interface of hooks.

use nlog_data::TableDelta;

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

    /// Makes the last update permanent, so that the data to undo it can be dropped. Each update is followed by this
    /// or by [`undo`](Hook::undo), and a failed one by `undo`.
    fn accept(&mut self);

    /// Undoes the last update, as if it had never happened. Without an update since the last call of `accept` or
    /// `undo`, there is nothing to do.
    fn undo(&mut self);

    /// The number of rows, edges and nodes that the hook has visited since its creation: a measure of cost that does
    /// not depend on the machine.
    fn work(&self) -> u64;
}
