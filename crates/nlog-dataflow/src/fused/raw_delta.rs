//! Deltas as symbols, without sorting, conversion or copying.

use std::borrow::Cow;

use nlog_data::{ColumnDelta, TableId, Value};

use super::delta::Delta;
use super::output::{self, Output};
use crate::symbol::Symbols;

/// A transaction's delta. Cells are words: equal words are equal values, until the next transaction.
pub struct RawDelta<'a> {
    outputs: Cow<'a, [Output]>,
    symbols: &'a Symbols,
}

/// One table's part of it.
#[derive(Debug, Clone, Copy)]
pub struct RawTableDelta<'a> {
    /// The table.
    pub table: TableId,
    rows: &'a Delta,
}

impl<'a> RawDelta<'a> {
    pub(crate) fn new(outputs: impl Into<Cow<'a, [Output]>>, symbols: &'a Symbols) -> Self {
        RawDelta { outputs: outputs.into(), symbols }
    }

    /// The tables that have changed.
    pub fn tables(&self) -> impl Iterator<Item = RawTableDelta<'_>> {
        self.outputs.iter().map(|output| RawTableDelta { table: output.table, rows: output.rows() })
    }

    /// The same as values by columns, ascending.
    pub fn to_columns(&self) -> ColumnDelta {
        output::columns(&self.outputs, self.symbols)
    }

    /// The value of a word.
    pub fn value(&self, word: u32) -> Value {
        self.symbols.value(word)
    }
}

impl<'a> RawTableDelta<'a> {
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
