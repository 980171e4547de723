//! Expected rows beside the rows found.

use nlog::program::Pattern;
use nlog_data::{Row, Table, Value};

/// Rows of one table, shown below each other.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The table's name.
    pub table: String,
    /// The names of its columns.
    pub columns: Vec<String>,
    /// The rows.
    pub lines: Vec<Line>,
}

/// One row of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// The kind of row, such as `expected` or `there is`.
    pub label: &'static str,
    /// The values; `None` where a pattern accepts any value.
    pub cells: Vec<Option<Value>>,
    /// The cells to compare with, if the row resembles another one.
    against: Option<Vec<Option<Value>>>,
}

/// How many rows of each kind are shown.
pub(crate) const SHOWN: usize = 8;

impl Comparison {
    pub(crate) fn of(table: &Table) -> Self {
        let columns = table.columns.iter().map(|column| column.name.clone()).collect();
        Comparison { table: table.name.clone(), columns, lines: Vec::new() }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, label: &'static str, row: &Row) {
        self.lines.push(Line { label, cells: cells(row), against: None });
    }

    /// Adds an expected pattern and, below it, the rows that resemble it.
    pub(crate) fn pattern(&mut self, pattern: &Pattern, label: &'static str, like: &[Row]) {
        let expected = &pattern.columns;
        self.lines.push(Line { label: "expected", cells: expected.clone(), against: None });
        for row in like {
            self.lines.push(Line { label, cells: cells(row), against: Some(expected.clone()) });
        }
    }

    /// Adds missing and surplus rows, each missing row next to the surplus row that resembles it most.
    pub(crate) fn rows(
        &mut self,
        labels: [&'static str; 2],
        missing: &[Row],
        surplus: &[Row],
        table: &Table,
    ) {
        let mut surplus: Vec<&Row> = surplus.iter().collect();
        for row in missing.iter().take(SHOWN) {
            self.row(labels[0], row);
            let likeness = |other: &&Row| likeness(row, other, table);
            let like = (0..surplus.len()).filter_map(|at| Some((likeness(&surplus[at])?, at)));
            let best = like.max().map(|(_, at)| at);
            if let Some(best) = best {
                let (cells, against) = (cells(surplus.remove(best)), Some(cells(row)));
                self.lines.push(Line { label: labels[1], cells, against });
            }
        }
        surplus.iter().take(SHOWN).for_each(|row| self.row(labels[1], row));
    }

    /// A line of column names, a line for each row, and carets below the differences.
    pub fn text(&self) -> Vec<String> {
        let shown: Vec<Vec<String>> = self
            .lines
            .iter()
            .map(|line| line.cells.iter().map(|cell| text(cell.as_ref())).collect())
            .collect();
        let width = |column: usize| {
            let cells = shown.iter().map(|cells| cells[column].chars().count());
            cells.chain([self.columns[column].chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let label = self.lines.iter().map(|line| line.label.len()).max().unwrap_or(0);
        let line = |name: &str, cells: &[String]| {
            let mut text = format!("{name:label$}");
            for (cell, width) in cells.iter().zip(&widths) {
                text += &format!("  {cell:width$}");
            }
            text.trim_end().to_owned()
        };
        let mut lines = vec![line("", &self.columns)];
        for (row, cells) in self.lines.iter().zip(&shown) {
            lines.push(line(row.label, cells));
            if let Some(against) = &row.against {
                let marks: Vec<String> =
                    cells.iter().zip(against).map(|(cell, against)| marks(cell, against.as_ref())).collect();
                if marks.iter().any(|mark| !mark.is_empty()) {
                    lines.push(line("", &marks));
                }
            }
        }
        lines
    }
}

fn cells(row: &Row) -> Vec<Option<Value>> {
    row.iter().cloned().map(Some).collect()
}

fn text(cell: Option<&Value>) -> String {
    cell.map_or("_".to_owned(), ToString::to_string)
}

/// How much two rows resemble each other, if they share the table's key or half of the columns: rows that share more
/// columns resemble each other more; among equals, rows that share the first columns do.
fn likeness(a: &Row, b: &Row, table: &Table) -> Option<(bool, usize, Vec<bool>)> {
    let same: Vec<bool> = a.iter().zip(b).map(|(a, b)| a == b).collect();
    let count = same.iter().filter(|same| **same).count();
    let one_key = table.key_of(a).is_some_and(|key| Some(key) == table.key_of(b));
    (one_key || count * 2 >= a.len()).then_some((one_key, count, same))
}

/// Carets below the part of a cell that differs from the expected value.
fn marks(cell: &str, expected: Option<&Value>) -> String {
    let Some(expected) = expected.map(ToString::to_string).filter(|expected| expected != cell) else {
        return String::new();
    };
    let (cell, expected): (Vec<char>, Vec<char>) = (cell.chars().collect(), expected.chars().collect());
    let before = cell.iter().zip(&expected).take_while(|(a, b)| a == b).count();
    let rest = cell.len().min(expected.len()) - before;
    let after = cell.iter().rev().zip(expected.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    let differs = (cell.len() - before - after).max(1);
    format!("{}{}", " ".repeat(before), "^".repeat(differs))
}
