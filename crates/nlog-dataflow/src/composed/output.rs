//! Combines the changes from all workers into deltas and table contents.

use hashbrown::HashMap;
use nlog_data::{RuleId, TableDelta, Value};

use super::graph::{ByWidth, Changes};
use super::{Diff, NO_RULE};
use crate::row::{Narrow, Row, Wide};
use crate::symbol::{HashBuilder, Symbol, Symbols};

/// Rank each distinct value once, and sort by ranks, if there are at least this many rows.
const RANKED_FROM: usize = 256;

/// A table's changes, each row once.
#[derive(Debug, Default)]
struct Net<R> {
    insert: Vec<(R, u32)>,
    delete: Vec<(R, u32)>,
    reattributed: Vec<(R, u32)>,
}

/// Sums the changes of each row.
fn net<R: Row>(mut changes: Vec<(R, u32, Diff)>) -> Net<R> {
    changes.sort_unstable();
    let mut net = Net { insert: Vec::new(), delete: Vec::new(), reattributed: Vec::new() };
    for of_row in changes.chunk_by(|a, b| a.0 == b.0) {
        let row = of_row[0].0;
        // At most one rule of the row appears and one disappears.
        let (mut came, mut went) = (None, None);
        for of_rule in of_row.chunk_by(|a, b| a.1 == b.1) {
            let sum: Diff = of_rule.iter().map(|(_, _, diff)| *diff).sum();
            debug_assert!((-1..=1).contains(&sum.0), "a row is there once");
            match sum.0 {
                0 => {}
                1.. => came = Some(of_rule[0].1),
                _ => went = Some(of_rule[0].1),
            }
        }
        match (came, went) {
            (Some(rule), None) => net.insert.push((row, rule)),
            (None, Some(rule)) => net.delete.push((row, rule)),
            (Some(rule), Some(_)) => net.reattributed.push((row, rule)),
            (None, None) => {}
        }
    }
    net
}

/// A wanted table and its current rows.
#[derive(Debug)]
pub(super) struct Reported {
    columns: usize,
    /// The rule of all rows, if the table has only one.
    rule: Option<RuleId>,
    contents: ByWidth<Contents<Narrow>, Contents<Wide>>,
}

/// A log of inserted and deleted rows.
#[derive(Debug)]
struct Contents<R> {
    log: Vec<(R, i8)>,
    /// The length of the log after it was last compacted.
    settled: usize,
}

impl<R: Row> Contents<R> {
    fn new() -> Self {
        Contents { log: Vec::new(), settled: 0 }
    }

    fn append(&mut self, net: &Net<R>) {
        self.log.extend(net.insert.iter().map(|(row, _)| (*row, 1)));
        self.log.extend(net.delete.iter().map(|(row, _)| (*row, -1)));
        // Compacting at twice the last length keeps the amortised cost per change constant.
        if self.log.len() > 2 * self.settled + 4096 {
            self.settle();
        }
    }

    fn settle(&mut self) {
        self.log.sort_unstable();
        let mut kept = 0;
        let mut at = 0;
        while at < self.log.len() {
            let row = self.log[at].0;
            let mut sum = 0i64;
            while at < self.log.len() && self.log[at].0 == row {
                sum += i64::from(self.log[at].1);
                at += 1;
            }
            debug_assert!((0..=1).contains(&sum), "a row is there or not");
            if sum > 0 {
                self.log[kept] = (row, 1);
                kept += 1;
            }
        }
        self.log.truncate(kept);
        self.log.shrink_to(2 * kept);
        self.settled = kept;
    }

    fn rows(&mut self) -> Vec<(R, u32)> {
        self.settle();
        self.log.iter().map(|(row, _)| (*row, NO_RULE)).collect()
    }
}

impl Reported {
    pub(super) fn new(columns: usize, wide: bool, rule: Option<RuleId>) -> Self {
        let contents = if wide { ByWidth::Wide(Contents::new()) } else { ByWidth::Narrow(Contents::new()) };
        Reported { columns, rule, contents }
    }

    /// Applies changes and returns them as values; `None` if nothing changed.
    pub(super) fn report(
        &mut self,
        changes: Changes,
        attribute: bool,
        symbols: &Symbols,
    ) -> Option<TableDelta> {
        let as_delta = (self.columns, self.rule, attribute);
        match (&mut self.contents, changes) {
            (ByWidth::Narrow(contents), ByWidth::Narrow(changes)) => {
                report(contents, changes, as_delta, symbols)
            }
            (ByWidth::Wide(contents), ByWidth::Wide(changes)) => report(contents, changes, as_delta, symbols),
            _ => None,
        }
    }

    /// The rows, ascending.
    pub(super) fn rows(&mut self, symbols: &Symbols) -> Vec<nlog_data::Row> {
        let rows = match &mut self.contents {
            ByWidth::Narrow(contents) => values(contents.rows(), self.columns, symbols),
            ByWidth::Wide(contents) => values(contents.rows(), self.columns, symbols),
        };
        rows.into_iter().map(|(row, _)| row).collect()
    }
}

fn report<R: Row>(
    contents: &mut Contents<R>,
    changes: Vec<(R, u32, Diff)>,
    (columns, rule, attribute): (usize, Option<RuleId>, bool),
    symbols: &Symbols,
) -> Option<TableDelta> {
    if changes.is_empty() {
        return None;
    }
    let net = net(changes);
    contents.append(&net);
    let (insert, mut rules): (Vec<_>, Vec<_>) = values(net.insert, columns, symbols)
        .into_iter()
        .map(|(row, of_row)| (row, rule.unwrap_or(RuleId(of_row))))
        .unzip();
    if !attribute {
        rules.clear();
    }
    let delete: Vec<_> = values(net.delete, columns, symbols).into_iter().map(|(row, _)| row).collect();
    let reattributed = values(net.reattributed, columns, symbols);
    let reattributed: Vec<_> = reattributed.into_iter().map(|(row, rule)| (row, RuleId(rule))).collect();
    let nothing = insert.is_empty() && delete.is_empty() && reattributed.is_empty();
    (!nothing).then_some(TableDelta { insert, delete, rules, reattributed })
}

/// Converts rows to values, ascending.
fn values<R: Row>(rows: Vec<(R, u32)>, columns: usize, symbols: &Symbols) -> Vec<(nlog_data::Row, u32)> {
    if rows.len() >= RANKED_FROM && columns <= R::WIDTH {
        return ranked(rows, columns, symbols);
    }
    let mut words = Vec::new();
    let mut rows: Vec<(nlog_data::Row, u32)> = rows
        .into_iter()
        .map(|(row, rule)| {
            words.clear();
            row.unpack(columns, symbols, &mut words);
            (words.iter().map(|word| symbols.value(*word)).collect(), rule)
        })
        .collect();
    rows.sort_unstable();
    rows
}

/// Sorts rows by the ranks of each column's values, so that each value is looked up and compared only a few times, no
/// matter how many rows have it.
fn ranked<R: Row>(mut rows: Vec<(R, u32)>, columns: usize, symbols: &Symbols) -> Vec<(nlog_data::Row, u32)> {
    let reader = symbols.reader();
    let mut by_rank: Vec<Vec<Value>> = Vec::with_capacity(columns);
    for column in 0..columns {
        let mut rank_of: HashMap<Symbol, u32, HashBuilder> = HashMap::default();
        for (row, _) in &rows {
            rank_of.entry(row.words()[column]).or_insert(0);
        }
        let mut found: Vec<(Value, Symbol)> =
            rank_of.keys().map(|word| (reader.value(*word), *word)).collect();
        found.sort_unstable();
        for (rank, (_, word)) in (0..).zip(&found) {
            rank_of.insert(*word, rank);
        }
        for (row, _) in &mut rows {
            let word = &mut row.words_mut()[column];
            *word = rank_of[word];
        }
        by_rank.push(found.into_iter().map(|(value, _)| value).collect());
    }
    rows.sort_unstable();
    let value = |column: usize, rank: Symbol| by_rank[column][rank as usize].clone();
    rows.into_iter()
        .map(|(row, rule)| ((0..columns).map(|column| value(column, row.words()[column])).collect(), rule))
        .collect()
}
