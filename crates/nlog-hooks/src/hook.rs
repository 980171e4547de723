//! The interface of hooks.

use nlog_data::TableDelta;

/// What turns the rows of an output table, its *source*, into the rows of an input table, its *target*.
///
/// A hook is a function of the history of its source and of the ticks that it was given: it reads no clock, no file
/// and no random numbers, so that a replay is the same. A pure hook is a function of the source's contents alone.
pub trait Hook: Send {
    /// Takes in how the source changed and, with a tick, that time passes to so many milliseconds, after the rows.
    /// Ticks never go back. Says how the target changes: rows ascending, none in both lists, only rows that are not
    /// there or that are.
    fn update(&mut self, source: &TableDelta, tick: Option<u64>) -> TableDelta;

    /// The last update stands: what it takes to undo it is not needed any more. Each update is followed by this or by
    /// [`undo`](Hook::undo).
    fn accept(&mut self);

    /// The last update does not stand: from now on it is as if it had never come.
    fn undo(&mut self);

    /// How many rows, edges and nodes the hook has looked at in its life: what it costs, whatever the clock says.
    fn work(&self) -> u64;
}
