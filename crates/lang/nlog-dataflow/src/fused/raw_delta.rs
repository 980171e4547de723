//! Deltas as symbols, for callers that process many rows: without sorting, conversion or copying.

use std::borrow::Cow;

use nlog_data::{ColumnDelta, TableId, Value};

use super::delta::Delta;
use super::output::{self, Output};
use crate::symbol::Symbols;

/// A transaction's delta as symbols. Equal words are equal values until the next transaction.
pub struct RawDelta<'a> {
    outputs: Cow<'a, [Output]>,
    symbols: &'a Symbols,
}

/// The part of a delta that belongs to one table.
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

    /// The delta as values by columns, ascending.
    pub fn to_columns(&self) -> ColumnDelta {
        output::columns(&self.outputs, self.symbols)
    }

    /// The value of a word.
    pub fn value(&self, word: u32) -> Value {
        self.symbols.value(word)
    }
}

impl<'a> RawTableDelta<'a> {
    /// The number of inserted and deleted rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether no row was inserted or deleted.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The rows in no particular order, each once, and whether the row was inserted.
    pub fn rows(&self) -> impl Iterator<Item = (&'a [u32], bool)> {
        self.rows.rows().map(|(row, diff)| (row, diff > 0))
    }
}
