//! Deltas in the engine's own words: nothing is sorted, printed or copied that nobody asks for.

use nlog_data::{TableId, Value};

use super::delta::Delta;
use super::output::Output;
use crate::symbol::Symbols;

/// A transaction's delta. Cells are words: equal words are equal values, until the next transaction.
pub struct Words<'a> {
    outputs: Vec<Output>,
    symbols: &'a Symbols,
}

/// One table's part of it.
#[derive(Debug, Clone, Copy)]
pub struct TableWords<'a> {
    /// The table.
    pub table: TableId,
    rows: &'a Delta,
}

impl<'a> Words<'a> {
    pub(crate) fn new(outputs: Vec<Output>, symbols: &'a Symbols) -> Self {
        Words { outputs, symbols }
    }

    /// The tables that have changed.
    pub fn tables(&self) -> impl Iterator<Item = TableWords<'_>> {
        self.outputs.iter().map(|output| TableWords { table: output.table, rows: output.rows() })
    }

    /// The value of a word.
    pub fn value(&self, word: u32) -> Value {
        self.symbols.value(word)
    }
}

impl<'a> TableWords<'a> {
    /// How many rows have come or gone.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether none has.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Its rows in no order, each once, and whether it has come or gone.
    pub fn rows(&self) -> impl Iterator<Item = (&'a [u32], bool)> {
        self.rows.rows().map(|(row, diff)| (row, diff > 0))
    }
}
