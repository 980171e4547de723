//! Rows that were expected beside rows that are there.

use nlog::program::Pattern;
use nlog_data::{Row, Table, Value};

/// Rows of one table, to be shown below each other.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Comparison {
    /// The table's name.
    pub(super) table: String,
    /// Its columns' names.
    pub(super) columns: Vec<String>,
    pub(super) lines: Vec<Line>,
}

/// One of the rows.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Line {
    /// What it is: `expected`, `found`.
    pub(super) label: &'static str,
    /// Its values; `None` where any will do.
    pub(super) cells: Vec<Option<Value>>,
    /// What the line is held against, if it is like another one.
    against: Option<Vec<Option<Value>>>,
}

/// How many rows of a kind are shown.
pub(super) const SHOWN: usize = 8;

impl Comparison {
    pub(super) fn of(table: &Table) -> Self {
        let columns = table.columns.iter().map(|column| column.name.clone()).collect();
        Comparison { table: table.name.clone(), columns, lines: Vec::new() }
    }

    /// Adds a row.
    pub(super) fn row(&mut self, label: &'static str, row: &Row) {
        self.lines.push(Line { label, cells: cells(row), against: None });
    }

    /// Adds what was expected, and below it what is like it.
    pub(super) fn pattern(&mut self, pattern: &Pattern, label: &'static str, like: &[Row]) {
        let expected = &pattern.columns;
        self.lines.push(Line { label: "expected", cells: expected.clone(), against: None });
        for row in like {
            self.lines.push(Line { label, cells: cells(row), against: Some(expected.clone()) });
        }
    }

    /// Adds rows that were expected and rows that are there instead, those that are like each other together.
    pub(super) fn rows(
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

    /// A line of names, one for each row, and marks below what differs.
    pub(super) fn text(&self) -> Vec<String> {
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

/// How like rows are that are about the same thing, the table's key or half of the columns: what shares more columns is
/// more alike, and of equals what shares the first ones.
fn likeness(a: &Row, b: &Row, table: &Table) -> Option<(bool, usize, Vec<bool>)> {
    let same: Vec<bool> = a.iter().zip(b).map(|(a, b)| a == b).collect();
    let count = same.iter().filter(|same| **same).count();
    let one_key = table.key_of(a).is_some_and(|key| Some(key) == table.key_of(b));
    (one_key || count * 2 >= a.len()).then_some((one_key, count, same))
}

/// Carets below the part of a cell's text that differs from what was expected there.
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
