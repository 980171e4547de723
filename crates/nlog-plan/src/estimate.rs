//! How many rows there are thought to be.
//!
//! The estimates are those of System R (Selinger and others, SIGMOD 1979): values are spread evenly, columns do not
//! depend on each other, and of two columns that are joined the one with fewer values has all of them in the other.

use nlog_data::Table;

use crate::body::Atom;
use crate::dependency::Variables;
use crate::plan::Operand;
use crate::statistics::{Statistics, TableStatistics};

/// The rows of an input table of which nothing is known.
const ROWS: f64 = 1000.0;

/// The part of a table's rows that are different in a column of which nothing is known.
const DIFFERENT: f64 = 0.1;

/// What is thought of a relation.
#[derive(Debug, Clone)]
pub(crate) struct Estimate {
    pub(crate) rows: f64,
    /// By column, how many different values there are.
    pub(crate) distinct: Vec<f64>,
}

impl Estimate {
    /// Of a table, by what is known of it, and else by its declaration.
    pub(crate) fn of_table(table: &Table, known: Option<&Statistics>, derived: Option<f64>) -> Self {
        let known = known.and_then(|known| known.tables.get(&table.name));
        let rows = match (known, derived) {
            (Some(TableStatistics { rows, .. }), _) => *rows as f64,
            (None, derived) => derived.unwrap_or(ROWS),
        };
        let distinct = (0..table.columns.len())
            .map(|column| {
                let known = known.and_then(|known| known.distinct.get(column));
                let is_key = table.key.as_deref() == Some(&[column]) || table.columns.len() == 1;
                known.map_or(if is_key { rows } else { rows * DIFFERENT }, |known| *known as f64).max(1.0)
            })
            .collect();
        Estimate { rows, distinct }
    }

    /// How many rows fit an atom by themselves.
    pub(crate) fn selected(&self, atom: &Atom) -> f64 {
        let share = |selection: &crate::plan::Selection| match selection.equals {
            Operand::Constant(_) => 1.0 / self.distinct[selection.column],
            Operand::Column(other) => 1.0 / self.distinct[selection.column].max(self.distinct[other]),
        };
        self.rows * atom.select.iter().map(share).product::<f64>()
    }

    /// How many rows of an atom are found by the variables, if the values looked for are there.
    pub(crate) fn fan_out(&self, atom: &Atom, bound: &Variables) -> f64 {
        let selected = self.selected(atom);
        if atom.is_lookup(bound) {
            return selected.min(1.0);
        }
        let keys: f64 = (atom.columns.iter())
            .filter(|(_, variable)| bound.contains(variable))
            .map(|(column, _)| self.distinct[*column])
            .product();
        selected / keys.max(1.0)
    }
}
