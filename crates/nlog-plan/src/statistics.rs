//! What is known about tables: how many rows they have, and how many different values their columns.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Figures of tables, taken from a state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statistics {
    /// By the table's name. Of a table that is missing nothing is known.
    pub tables: BTreeMap<String, TableStatistics>,
}

/// Figures of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableStatistics {
    /// How many rows it has.
    pub rows: u64,
    /// How many different values each column has, in the order of the columns. Of a column that is missing nothing is
    /// known.
    #[serde(default)]
    pub distinct: Vec<u64>,
}
