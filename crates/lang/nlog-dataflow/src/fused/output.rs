//! Converts deltas of tables from symbols to values, by rows or by columns, and columns of transactions to symbols.
//!
//! Deltas for callers are ascending, unless they do not need it. Symbols have no meaningful order, so rows are sorted by their values: few rows
//! directly, and many rows by the ranks of each column's values, because values repeat.

use hashbrown::HashMap;
use nlog_data::{ColumnDelta, Columns, Row as ValueRow, RuleId, TableColumns, TableDelta, TableId, Value};

use super::delta::Delta;
use super::relation::Attributed;
use crate::symbol::{HashBuilder, Symbol, Symbols};

/// Rank each distinct value once, and sort by ranks, if there are at least this many rows.
const BY_COLUMNS_FROM: usize = 256;

/// The change of a table.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    pub(crate) table: TableId,
    /// Inserted and deleted rows.
    rows: Delta,
    rules: Rules,
}

/// The rules to which rows are attributed.
#[derive(Debug, Clone)]
enum Rules {
    /// Rows have no rules: they are inputs, or attribution is off.
    Untold,
    /// The table has only one rule.
    One(RuleId),
    /// Each inserted or reattributed row has a rule of its own.
    Each(Attributed),
}

impl Output {
    /// The change of an input table.
    pub(crate) fn of_input(table: TableId, rows: Delta) -> Self {
        Output { table, rows, rules: Rules::Untold }
    }

    /// The change of a derived table. `report` has the rules of rows if they are attributed to several rules. `only` is
    /// the table's rule if it has only one, and attribution is on.
    pub(crate) fn of_relation(
        table: TableId,
        rows: Delta,
        report: Option<Attributed>,
        only: Option<RuleId>,
    ) -> Self {
        let rules = match (report, only) {
            (Some(report), _) => Rules::Each(report),
            (None, Some(rule)) => Rules::One(rule),
            (None, None) => Rules::Untold,
        };
        Output { table, rows, rules }
    }

    /// Inserted and deleted rows.
    pub(crate) fn rows(&self) -> &Delta {
        &self.rows
    }

    /// The inserted rows with their rules, ascending.
    fn inserted(&self, report: &Attributed, symbols: &Symbols) -> Vec<(ValueRow, RuleId)> {
        let rows = unsorted(&self.rows, |diff| diff > 0, symbols);
        let mut found: Vec<(ValueRow, RuleId)> = rows.into_iter().zip(report.rules()).collect();
        found.sort_unstable();
        found
    }

    /// The change as rows, ascending if that is wanted; `None` if nothing changed.
    pub(crate) fn into_rows(self, symbols: &Symbols, ascending: bool) -> Option<TableDelta> {
        let rows = |keep: fn(i64) -> bool| {
            if ascending {
                to_rows_of(&self.rows, keep, symbols)
            } else {
                unsorted(&self.rows, keep, symbols)
            }
        };
        let mut delta = TableDelta { delete: rows(|diff| diff < 0), ..TableDelta::default() };
        match &self.rules {
            Rules::Untold => delta.insert = rows(|diff| diff > 0),
            Rules::One(rule) => {
                delta.insert = rows(|diff| diff > 0);
                delta.rules = vec![*rule; delta.insert.len()];
            }
            Rules::Each(report) if ascending => {
                (delta.insert, delta.rules) = self.inserted(report, symbols).into_iter().unzip();
                delta.reattributed = with_rules(&report.reattributed, symbols);
            }
            Rules::Each(report) => {
                (delta.insert, delta.rules) = (rows(|diff| diff > 0), report.rules());
                delta.reattributed = each_with_rule(&report.reattributed, symbols).collect();
            }
        }
        let nothing = delta.insert.is_empty() && delta.delete.is_empty() && delta.reattributed.is_empty();
        (!nothing).then_some(delta)
    }

    /// The change by columns; `None` if nothing changed.
    pub(crate) fn columns(&self, symbols: &Symbols) -> Option<TableColumns> {
        let columns = |keep: fn(i64) -> bool| columns_of_some(&self.rows, keep, symbols).into_ascending();
        let (mut insert, delete) = (columns(|diff| diff > 0), columns(|diff| diff < 0));
        let (mut rules, mut reattributed) = (Vec::new(), Vec::new());
        match &self.rules {
            Rules::Untold => {}
            Rules::One(rule) => rules = vec![*rule; insert.len()],
            Rules::Each(report) => {
                let (rows, of_rows): (Vec<ValueRow>, Vec<RuleId>) =
                    self.inserted(report, symbols).into_iter().unzip();
                rules = of_rows;
                // Cannot fail: all rows of a delta have their table's width.
                insert = Columns::from_rows(&rows).map_or(insert, Columns::into_ascending);
                reattributed = with_rules(&report.reattributed, symbols);
            }
        }
        let nothing = insert.is_empty() && delete.is_empty() && reattributed.is_empty();
        (!nothing).then_some(TableColumns { insert, delete, rules, reattributed })
    }
}

/// The changes of several tables by columns.
pub(crate) fn columns(outputs: &[Output], symbols: &Symbols) -> ColumnDelta {
    let tables = outputs.iter().filter_map(|output| Some((output.table, output.columns(symbols)?)));
    ColumnDelta { tables: tables.collect() }
}

/// The rows as values with their rules, ascending.
fn with_rules(rows: &Delta, symbols: &Symbols) -> Vec<(ValueRow, RuleId)> {
    let mut found: Vec<(ValueRow, RuleId)> = each_with_rule(rows, symbols).collect();
    found.sort_unstable();
    found
}

/// The rows as values with their rules. The last word of each row is its rule.
fn each_with_rule(rows: &Delta, symbols: &Symbols) -> impl Iterator<Item = (ValueRow, RuleId)> {
    rows.rows().filter_map(|(words, _)| {
        let (rule, row) = words.split_last()?;
        Some((row.iter().map(|word| symbols.value(*word)).collect(), RuleId(*rule)))
    })
}

/// All rows as values, ascending.
pub(crate) fn to_rows(rows: &Delta, symbols: &Symbols) -> Vec<ValueRow> {
    to_rows_of(rows, |_| true, symbols)
}

fn to_rows_of(rows: &Delta, keep: fn(i64) -> bool, symbols: &Symbols) -> Vec<ValueRow> {
    if rows.len() >= BY_COLUMNS_FROM {
        return columns_of_some(rows, keep, symbols).into_ascending().to_rows();
    }
    let mut found = unsorted(rows, keep, symbols);
    found.sort_unstable();
    found
}

fn unsorted(rows: &Delta, keep: fn(i64) -> bool, symbols: &Symbols) -> Vec<ValueRow> {
    let kept = rows.rows().filter(|(_, diff)| keep(*diff));
    kept.map(|(words, _)| words.iter().map(|word| symbols.value(*word)).collect()).collect()
}

/// Changes as values: inserted and deleted rows, both ascending.
pub(crate) fn changes_of(rows: &Delta, symbols: &Symbols) -> TableDelta {
    TableDelta {
        insert: to_rows_of(rows, |diff| diff > 0, symbols),
        delete: to_rows_of(rows, |diff| diff < 0, symbols),
        ..TableDelta::default()
    }
}

/// All rows by columns.
pub(crate) fn columns_of(rows: &Delta, symbols: &Symbols) -> Columns {
    columns_of_some(rows, |_| true, symbols)
}

fn columns_of_some(rows: &Delta, keep: fn(i64) -> bool, symbols: &Symbols) -> Columns {
    let width = rows.width();
    let reader = symbols.reader();
    let kept = || rows.rows().filter(|(_, diff)| keep(*diff)).map(|(words, _)| words);
    let count = kept().count();
    let mut dictionaries: Vec<Vec<Value>> = vec![Vec::new(); width];
    let mut cells = vec![0; count * width];
    for (column, dictionary) in dictionaries.iter_mut().enumerate() {
        let mut places = Places::of(kept().map(|words| words[column]), count);
        for (words, cells) in kept().zip(cells.chunks_exact_mut(width)) {
            cells[column] = *places.of_word(words[column]).get_or_insert_with(|| {
                dictionary.push(reader.value(words[column]));
                dictionary.len() as u32 - 1
            });
        }
    }
    Columns::from_parts(dictionaries, cells, count).expect("each cell is the place of its value")
}

/// The positions of a column's values in its dictionary, by word.
enum Places {
    /// An array that starts at the least word. Most columns have words close to each other.
    Near(Symbol, Vec<Option<u32>>),
    Far(HashMap<Symbol, Option<u32>, HashBuilder>),
}

impl Places {
    /// Chooses the form for a column with these words and this many rows.
    fn of(words: impl Iterator<Item = Symbol>, rows: usize) -> Self {
        let (least, most) =
            words.fold((Symbol::MAX, 0), |(least, most), word| (least.min(word), most.max(word)));
        let range = (most as usize + 1).saturating_sub(least as usize);
        if range <= rows.saturating_mul(4) {
            Places::Near(least, vec![None; range])
        } else {
            Places::Far(HashMap::default())
        }
    }

    #[inline]
    fn of_word(&mut self, word: Symbol) -> &mut Option<u32> {
        match self {
            Places::Near(least, places) => &mut places[(word - *least) as usize],
            Places::Far(places) => places.entry(word).or_default(),
        }
    }
}

/// Converts columns to rows of symbols. Interns each value of a dictionary once.
pub(crate) fn words_of(columns: &Columns, width: usize, symbols: &Symbols) -> Delta {
    let mut rows = Delta::new(width);
    let of_values: Vec<Vec<Symbol>> = (columns.dictionaries().iter())
        .map(|dictionary| dictionary.iter().map(|value| symbols.intern(value)).collect())
        .collect();
    for cells in columns.iter() {
        rows.push_words(cells.iter().zip(&of_values).map(|(cell, words)| words[*cell as usize]), 1);
    }
    rows
}
