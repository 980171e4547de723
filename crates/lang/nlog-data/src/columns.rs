//! Rows by columns: each column's distinct values once, and a number for each cell.
//!
//! Large transactions and deltas repeat few values many times. In this form, a reader handles each value once (to
//! parse it, intern it or print it) and each cell as a number, and a row costs no allocation.

use std::collections::BTreeMap;
use std::hash::BuildHasher as _;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::{Committed, Delta, Row, RuleId, TableDelta, TableId, Transaction, Value};

/// Rows of one width, dictionary-coded by column.
///
/// A dictionary may contain unused values and duplicates; [`Columns::into_ascending`] removes both.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Columns {
    /// The values of each column.
    pub(crate) dictionaries: Vec<Vec<Value>>,
    /// Row after row: for each column, the index of the cell's value in the column's dictionary.
    pub(crate) cells: Vec<u32>,
    /// The number of rows; a table without columns has rows too.
    pub(crate) rows: usize,
}

/// Why parts do not form [`Columns`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ColumnsError {
    /// Rows are of different widths.
    #[error("row {row} has {found} values, but earlier rows have {wanted}")]
    Uneven {
        /// The number of the first row that differs, from 1.
        row: usize,
        /// The number of values in the row.
        found: usize,
        /// The width of the rows before it.
        wanted: usize,
    },
    /// The number of cells is not the number of rows times the number of columns.
    #[error("{rows} rows of {width} columns cannot have {cells} cells")]
    Cells {
        /// The number of rows.
        rows: usize,
        /// The number of columns.
        width: usize,
        /// The number of cells.
        cells: usize,
    },
    /// There are more rows than cells of 32 bits can count.
    #[error("{rows} rows exceed the maximum for one table")]
    TooMany {
        /// The number of rows.
        rows: usize,
    },
    /// A cell is not an index of its column's dictionary.
    #[error("row {row}, column {column}: cell {cell} is out of range for a dictionary of {values} values")]
    Cell {
        /// The row, from 1.
        row: usize,
        /// The column, from 1.
        column: usize,
        /// The cell.
        cell: u32,
        /// The number of values in the dictionary.
        values: usize,
    },
}

impl Columns {
    /// Makes an empty table of this width.
    pub fn new(width: usize) -> Self {
        Columns { dictionaries: vec![Vec::new(); width], cells: Vec::new(), rows: 0 }
    }

    /// Builds rows from cells, row after row. Each cell is the index of its value in its column's dictionary.
    pub fn from_parts(
        dictionaries: Vec<Vec<Value>>,
        cells: Vec<u32>,
        rows: usize,
    ) -> Result<Self, ColumnsError> {
        let width = dictionaries.len();
        if rows.checked_mul(width) != Some(cells.len()) {
            return Err(ColumnsError::Cells { rows, width, cells: cells.len() });
        }
        if width > 0 {
            let sizes: Vec<usize> = dictionaries.iter().map(Vec::len).collect();
            for (row, cells) in cells.chunks_exact(width).enumerate() {
                let wrong = |(cell, values): &(&u32, &usize)| **cell as usize >= **values;
                if let Some(column) = cells.iter().zip(&sizes).position(|pair| wrong(&pair)) {
                    let (cell, values) = (cells[column], sizes[column]);
                    return Err(ColumnsError::Cell { row: row + 1, column: column + 1, cell, values });
                }
            }
        }
        Ok(Columns { dictionaries, cells, rows })
    }

    /// Converts rows, in the same order. Dictionaries contain each value once, in order of first occurrence.
    pub fn from_rows(rows: &[Row]) -> Result<Self, ColumnsError> {
        let width = rows.first().map_or(0, Vec::len);
        let uneven = rows.iter().position(|row| row.len() != width);
        if let Some(at) = uneven {
            return Err(ColumnsError::Uneven { row: at + 1, found: rows[at].len(), wanted: width });
        }
        if u32::try_from(rows.len()).is_err() {
            return Err(ColumnsError::TooMany { rows: rows.len() });
        }
        let hasher = DefaultHashBuilder::default();
        let mut columns = Columns::new(width);
        columns.cells = vec![0; rows.len() * width];
        columns.rows = rows.len();
        for (column, dictionary) in columns.dictionaries.iter_mut().enumerate() {
            let mut places: HashTable<u32> = HashTable::new();
            for (at, row) in rows.iter().enumerate() {
                let value = &row[column];
                let place = *places
                    .entry(
                        hasher.hash_one(value),
                        |place| dictionary[*place as usize] == *value,
                        |place| hasher.hash_one(&dictionary[*place as usize]),
                    )
                    .or_insert(dictionary.len() as u32)
                    .get();
                if place as usize == dictionary.len() {
                    dictionary.push(value.clone());
                }
                columns.cells[at * width + column] = place;
            }
        }
        Ok(columns)
    }

    /// The rows.
    pub fn to_rows(&self) -> Vec<Row> {
        self.iter().map(|row| self.values_of(row).cloned().collect()).collect()
    }

    /// The number of columns.
    pub fn width(&self) -> usize {
        self.dictionaries.len()
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The dictionary of each column.
    pub fn dictionaries(&self) -> &[Vec<Value>] {
        &self.dictionaries
    }

    /// All cells, row after row.
    pub fn cells(&self) -> &[u32] {
        &self.cells
    }

    /// The cells of each row.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u32]> {
        let width = self.width();
        (0..self.rows).map(move |row| &self.cells[row * width..(row + 1) * width])
    }

    /// The values of a row of these columns, given by its cells.
    ///
    /// # Panics
    /// If the cells belong to other columns.
    pub fn values_of<'a>(&'a self, row: &'a [u32]) -> impl ExactSizeIterator<Item = &'a Value> {
        self.dictionaries.iter().zip(row).map(|(dictionary, cell)| &dictionary[*cell as usize])
    }

    /// The same rows in ascending order, with ascending dictionaries that hold each used value once. Cells then have
    /// the order of their values, and equal sets of rows have equal forms.
    pub fn into_ascending(mut self) -> Self {
        let width = self.width();
        for column in 0..width {
            self.sort_dictionary(column);
        }
        let ascending = (1..self.rows).all(|row| {
            self.cells[(row - 1) * width..row * width] <= self.cells[row * width..(row + 1) * width]
        });
        if !ascending {
            self.cells = sorted(&self.cells, &self.dictionaries, self.rows);
        }
        self
    }

    /// Sorts one column's dictionary and removes unused and duplicate values.
    fn sort_dictionary(&mut self, column: usize) {
        let width = self.width();
        let dictionary = &mut self.dictionaries[column];
        let mut used = vec![false; dictionary.len()];
        for cell in self.cells.iter().skip(column).step_by(width) {
            used[*cell as usize] = true;
        }
        let is_text = matches!(dictionary.first(), Some(Value::Match(_) | Value::Actions(_)));
        if !is_text && used.iter().all(|used| *used) && dictionary.is_sorted_by(|a, b| a < b) {
            return;
        }
        let mut order: Vec<(Value, usize)> = std::mem::take(dictionary)
            .into_iter()
            .enumerate()
            .filter(|(place, _)| used[*place])
            .map(|(place, value)| (value, place))
            .collect();
        sort_values(&mut order);
        let mut places = vec![0; used.len()];
        for (value, old) in order {
            if dictionary.last() != Some(&value) {
                dictionary.push(value);
            }
            places[old] = dictionary.len() as u32 - 1;
        }
        for cell in self.cells.iter_mut().skip(column).step_by(width) {
            *cell = places[*cell as usize];
        }
    }
}

/// Sorts values of one type. Comparing matches and actions would cache their texts in the values. Here each text is
/// computed once and dropped.
fn sort_values(order: &mut Vec<(Value, usize)>) {
    let text = |value: &Value| match value {
        Value::Match(value) => Some(value.text().into_owned()),
        Value::Actions(value) => Some(value.text().into_owned()),
        _ => None,
    };
    if order.first().is_none_or(|(first, _)| text(first).is_none()) {
        order.sort_unstable();
        return;
    }
    let mut texts: Vec<(Option<String>, Value, usize)> =
        order.drain(..).map(|(value, place)| (text(&value), value, place)).collect();
    texts.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| a.2.cmp(&b.2)));
    order.extend(texts.into_iter().map(|(_, value, place)| (value, place)));
}

/// The cells of the rows in ascending order.
///
/// As many leading columns as fit are packed into one word, and words are compared first. If all columns fit, rows
/// are sorted as words.
fn sorted(cells: &[u32], dictionaries: &[Vec<Value>], rows: usize) -> Vec<u32> {
    let width = dictionaries.len();
    let bits: Vec<u32> = dictionaries
        .iter()
        .map(|dictionary| usize::BITS - dictionary.len().saturating_sub(1).leading_zeros())
        .collect();
    let mut free = u64::BITS;
    let fit = bits.iter().take_while(|bits| free.checked_sub(**bits).inspect(|left| free = *left).is_some());
    let packed = fit.count();
    let pack = |row: &[u32]| {
        let leading = row.iter().zip(&bits).take(packed);
        leading.fold(0, |word: u64, (cell, bits)| word << bits | u64::from(*cell))
    };
    let mut out = Vec::with_capacity(cells.len());
    if packed == width {
        let mut words: Vec<u64> = cells.chunks_exact(width).map(pack).collect();
        words.sort_unstable();
        for word in words {
            let mut below: u32 = bits.iter().sum();
            for bits in &bits {
                below -= bits;
                // The shift is by all 64 bits if the leading column has only one value.
                out.push((word.checked_shr(below).unwrap_or(0) & ((1 << bits) - 1)) as u32);
            }
        }
    } else {
        let row = |at: usize| &cells[at * width..(at + 1) * width];
        let mut order: Vec<(u64, usize)> = (0..rows).map(|at| (pack(row(at)), at)).collect();
        order.sort_unstable_by(|(a, a_at), (b, b_at)| {
            a.cmp(b).then_with(|| row(*a_at)[packed..].cmp(&row(*b_at)[packed..]))
        });
        for (_, at) in order {
            out.extend_from_slice(row(at));
        }
    }
    out
}

/// A [`Transaction`] by columns. Rows conform to their table's columns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ColumnTransaction {
    /// Rows to insert.
    pub insert: BTreeMap<TableId, Columns>,
    /// Rows to delete.
    pub delete: BTreeMap<TableId, Columns>,
}

impl ColumnTransaction {
    /// Converts a transaction, if all rows of each table have the same width.
    pub fn from_rows(transaction: &Transaction) -> Result<Self, ColumnsError> {
        let side = |side: &BTreeMap<TableId, Vec<Row>>| {
            let tables = side.iter().map(|(table, rows)| Ok((*table, Columns::from_rows(rows)?)));
            tables.collect::<Result<_, ColumnsError>>()
        };
        Ok(ColumnTransaction { insert: side(&transaction.insert)?, delete: side(&transaction.delete)? })
    }

    /// Converts the transaction to rows.
    pub fn to_rows(&self) -> Transaction {
        let side = |side: &BTreeMap<TableId, Columns>| {
            side.iter().map(|(table, columns)| (*table, columns.to_rows())).collect()
        };
        Transaction { insert: side(&self.insert), delete: side(&self.delete) }
    }

    /// Whether it neither inserts nor deletes anything.
    pub fn is_empty(&self) -> bool {
        self.insert.values().chain(self.delete.values()).all(Columns::is_empty)
    }
}

/// A [`Delta`] by columns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ColumnDelta {
    /// Changes by table; unchanged tables are absent.
    pub tables: BTreeMap<TableId, TableColumns>,
}

/// A [`TableDelta`] by columns: how one table changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableColumns {
    /// Rows added, in the [ascending form](Columns::into_ascending).
    pub insert: Columns,
    /// Rows removed, in the ascending form.
    pub delete: Columns,
    /// For each inserted row, the rule that it is attributed to; empty unless attribution was requested.
    pub rules: Vec<RuleId>,
    /// Rows that stay but are now attributed to another rule; empty unless attribution was requested.
    pub reattributed: Vec<(Row, RuleId)>,
}

impl ColumnDelta {
    /// Converts a delta, if all rows of each table have the same width.
    pub fn from_rows(delta: Delta) -> Result<Self, ColumnsError> {
        let table = |(id, table): (TableId, TableDelta)| {
            let columns = TableColumns {
                insert: Columns::from_rows(&table.insert)?.into_ascending(),
                delete: Columns::from_rows(&table.delete)?.into_ascending(),
                rules: table.rules,
                reattributed: table.reattributed,
            };
            Ok((id, columns))
        };
        let tables = delta.tables.into_iter().map(table);
        Ok(ColumnDelta { tables: tables.collect::<Result<_, ColumnsError>>()? })
    }

    /// Converts the delta to rows.
    pub fn to_rows(&self) -> Delta {
        let table = |(id, table): (&TableId, &TableColumns)| {
            let rows = TableDelta {
                insert: table.insert.to_rows(),
                delete: table.delete.to_rows(),
                rules: table.rules.clone(),
                reattributed: table.reattributed.clone(),
            };
            (*id, rows)
        };
        Delta { tables: self.tables.iter().map(table).collect() }
    }
}

/// An accepted transaction's result by columns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommittedColumns {
    /// Changes of the requested tables.
    pub delta: ColumnDelta,
    /// The number of inserts of rows that were already present.
    pub redundant_inserts: u64,
    /// The number of deletes of rows that were not present.
    pub redundant_deletes: u64,
}

impl CommittedColumns {
    /// Converts a result, if all rows of each table have the same width.
    pub fn from_rows(committed: Committed) -> Result<Self, ColumnsError> {
        let Committed { delta, redundant_inserts, redundant_deletes } = committed;
        let delta = ColumnDelta::from_rows(delta)?;
        Ok(CommittedColumns { delta, redundant_inserts, redundant_deletes })
    }

    /// Converts the result to rows.
    pub fn to_rows(&self) -> Committed {
        Committed {
            delta: self.delta.to_rows(),
            redundant_inserts: self.redundant_inserts,
            redundant_deletes: self.redundant_deletes,
        }
    }
}
