//! Relations: turns derived rows into sets, checks keys, and attributes rows to rules.
//!
//! Several rules, or several bindings of one rule, can derive the same row. A relation therefore counts the derivations
//! of each row in a trace, and a row is present while its count is positive. A relation needs no counts if the plan
//! proves that no row is derived twice, its key needs no check, and its rows are not attributed; or as long as no row has been
//! derived twice and no key has two rows ([`watch`](super::watch)).

mod first_rows;

use nlog_plan::Keep;
use nlog_plan::NARROW;
use nlog_plan::query::{Plan, RelationId};

use nlog_data::RuleId;
use serde::{Deserialize, Serialize};

use self::first_rows::First;
use super::delta::{Delta, Diff, TooMany};
use super::index::Fit;
use super::probe::AHEAD;
use super::rule::Numbers;
use super::sorted::{MOST_COLUMNS, sort};
use super::trace::{self, Count as _, Trace, Update, View, Ways};
use super::watch::{WATCH_FROM, Watch, hash_of};
use super::watched::WatchedRows;
use crate::row::{Empty, Narrow, Row, Wide};
use crate::symbol::{Marks, Symbol, Symbols};

/// The division of a relation's columns into the key and the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Split {
    pub(crate) key: Vec<usize>,
    pub(crate) rest: Vec<usize>,
    /// Whether the key must be unique.
    checked: bool,
    /// Whether derived rows carry the number of their rule as the last column.
    pub(crate) attributed: bool,
}

/// The counts of derivations, in the smallest form that fits the relation's rows.
pub(crate) enum Counts {
    /// None: derived rows are a set already.
    None,
    /// The hashes of keys: derived rows have been a set so far.
    Watched(Watch),
    /// Whole rows as keys, without values.
    NarrowRows(Trace<Narrow, Empty, Ways>),
    WideRows(Trace<Wide, Empty, Ways>),
    /// Keys and the rest of the rows.
    NarrowPairs(Trace<Narrow, Narrow, Ways>),
    WidePairs(Trace<Wide, Wide, Ways>),
}

/// Evaluates the same expression for counts of any form, one for watched rows, or another one if there are neither.
macro_rules! each_counts {
    ($counts:expr, $trace:ident => $what:expr, $watch:ident => $watched:expr, $nothing:expr) => {
        match $counts {
            Counts::None => $nothing,
            Counts::Watched($watch) => $watched,
            Counts::NarrowRows($trace) => $what,
            Counts::WideRows($trace) => $what,
            Counts::NarrowPairs($trace) => $what,
            Counts::WidePairs($trace) => $what,
        }
    };
}

/// A relation, and its changes in the running transaction.
pub(crate) struct Relation {
    pub(crate) id: RelationId,
    pub(crate) columns: usize,
    pub(crate) split: Split,
    pub(crate) counts: Counts,
    /// The change of its rows.
    pub(crate) delta: Delta,
    /// The number of rows inserted or deleted since the engine started.
    pub(crate) changes: u64,
    /// The reported changes, if rows are attributed.
    pub(crate) report: Attributed,
    /// Whether its rows may be watched instead of counted.
    may_be_watched: bool,
    /// The number of counted rows when it was last known that they need counts, or may.
    looked_at: usize,
}

/// Why derived rows could not be turned into a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unsettled {
    /// A count exceeds its range.
    TooMany,
    /// The rows were watched and may need counts now.
    Uncounted,
}

impl From<TooMany> for Unsettled {
    fn from(TooMany: TooMany) -> Self {
        Unsettled::TooMany
    }
}

/// Changes of attributed rows; the rule is the last column.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Attributed {
    pub(crate) inserted: Delta,
    pub(crate) reattributed: Delta,
}

/// Rows that share a key that must be unique.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Conflict {
    pub(crate) relation: RelationId,
    pub(crate) rows: Vec<Vec<Symbol>>,
}

impl Attributed {
    /// Visits every symbol in the changes.
    pub(crate) fn symbols_mut(&mut self) -> impl Iterator<Item = &mut Symbol> {
        self.inserted.symbols_mut(1).chain(self.reattributed.symbols_mut(1))
    }

    pub(crate) fn new(columns: usize) -> Self {
        Attributed { inserted: Delta::new(columns + 1), reattributed: Delta::new(columns + 1) }
    }
}

/// A row that is assembled from key and value. The memory serves for many rows.
#[derive(Debug, Default)]
struct RowParts {
    parts: Vec<Symbol>,
    row: Vec<Symbol>,
}

impl Split {
    pub(crate) fn new(plan: &Plan, id: RelationId, attributed: bool) -> Self {
        let relation = &plan.relations[id.0 as usize];
        let columns = 0..relation.columns.len();
        let (key, checked) = match &relation.keep {
            Keep::Key(key) => (key.clone(), true),
            Keep::AsIs | Keep::Distinct => (columns.clone().collect(), false),
        };
        let rest = columns.filter(|column| !key.contains(column)).collect();
        Split { key, rest, checked, attributed }
    }

    /// The number of columns of a pair's value.
    fn values(&self) -> usize {
        self.rest.len() + usize::from(self.attributed)
    }

    /// Key and value of a derived row.
    #[inline]
    fn pair<K: Row, V: Row>(&self, row: &[Symbol], symbols: &Symbols) -> (K, V) {
        let rule = if self.attributed { &row[row.len() - 1..] } else { &[] };
        let value = self.rest.iter().map(|column| row[*column]).chain(rule.iter().copied());
        let key = K::pack(self.key.iter().map(|column| row[*column]), symbols);
        if V::WIDTH == 0 {
            return (key, V::default());
        }
        // Packing needs an exact length, which chained iterators do not have.
        let mut words = [0; 16];
        let value = if self.values() <= words.len() {
            for (word, part) in words.iter_mut().zip(value) {
                *word = part;
            }
            V::pack(words[..self.values()].iter().copied(), symbols)
        } else {
            let words: Vec<Symbol> = value.collect();
            V::pack(words.iter().copied(), symbols)
        };
        (key, value)
    }

    /// The row of a pair, and its rule if rows are attributed.
    fn row<K: Row, V: Row>(&self, key: &K, value: &V, symbols: &Symbols, into: &mut RowParts) -> Symbol {
        let RowParts { parts, row } = into;
        parts.clear();
        key.unpack(self.key.len(), symbols, parts);
        if V::WIDTH > 0 {
            value.unpack(self.values(), symbols, parts);
        }
        row.clear();
        row.resize(self.key.len() + self.rest.len(), 0);
        for (column, word) in self.key.iter().chain(&self.rest).zip(&*parts) {
            row[*column] = *word;
        }
        if self.attributed { parts.pop().unwrap_or_default() } else { 0 }
    }
}

impl Counts {
    fn new(split: &Split) -> Self {
        let (key, values) = (split.key.len(), split.values());
        match (key.max(values) <= NARROW, values) {
            (true, 0) => Counts::NarrowRows(Trace::new()),
            (false, 0) => Counts::WideRows(Trace::new()),
            (true, _) => Counts::NarrowPairs(Trace::new()),
            (false, _) => Counts::WidePairs(Trace::new()),
        }
    }

    /// Whether rows are counted and there are none, before the transaction and after it.
    fn is_empty(&self) -> bool {
        each_counts!(self, trace => trace.is_empty(View::After), _watch => false, false)
    }

    pub(crate) fn publish(&mut self) {
        each_counts!(self, trace => if trace.is_touched() { trace.publish() }, watch => watch.publish(), ());
    }

    /// The number of published batches that are not merged yet.
    #[cfg(test)]
    pub(crate) fn recent(&self) -> usize {
        each_counts!(self, trace => trace.recent(), _watch => 0, 0)
    }

    /// Merges published changes with those before.
    pub(crate) fn merge(&mut self) {
        each_counts!(self, trace => trace.merge(), _watch => (), ());
    }

    pub(crate) fn discard(&mut self) {
        each_counts!(self, trace => trace.discard(), watch => watch.discard(), ());
    }

    pub(crate) fn updates(&self) -> usize {
        each_counts!(self, trace => trace.updates(), watch => watch.len(), 0)
    }

    pub(crate) fn bytes(&self) -> usize {
        each_counts!(self, trace => trace.bytes(), watch => watch.bytes(), 0)
    }
}

impl Relation {
    /// An empty relation. `may_be_watched` only if its rows can be derived again, which takes all rows that its rules read.
    pub(crate) fn new(plan: &Plan, id: RelationId, attributed: bool, may_be_watched: bool) -> Self {
        let columns = plan.relations[id.0 as usize].columns.len();
        let split = Split::new(plan, id, attributed);
        let keeps = attributed || plan.relations[id.0 as usize].keep != Keep::AsIs;
        let counts = if keeps { Counts::new(&split) } else { Counts::None };
        let delta = Delta::new(columns);
        let report = Attributed::new(columns);
        Relation { id, columns, split, counts, delta, changes: 0, report, may_be_watched, looked_at: 0 }
    }

    /// Counts rows even if the plan does not require it.
    pub(crate) fn keep_counts(&mut self) {
        if !self.keeps_rows() {
            self.counts = Counts::new(&self.split);
        }
    }

    /// The number of columns of a derived row, including its rule if rows are attributed.
    pub(crate) fn derived_width(&self) -> usize {
        self.columns + usize::from(self.split.attributed)
    }

    /// Whether rows are counted or watched, so that readers see each row once, however many derivations it has.
    pub(crate) fn keeps_rows(&self) -> bool {
        !matches!(self.counts, Counts::None)
    }

    /// Whether rows are watched, and may come to need counts.
    pub(crate) fn is_watched(&self) -> bool {
        matches!(self.counts, Counts::Watched(_))
    }

    /// Counts the rows of a watched relation from now on. `derived` has its rows as they were derived.
    pub(crate) fn count_again(
        &mut self,
        derived: Delta,
        symbols: &Symbols,
        numbers: &Numbers,
    ) -> Result<(), Unsettled> {
        self.counts = Counts::new(&self.split);
        self.count_first(derived, symbols, numbers)
    }

    /// Counts the rows of a relation that has none, whether or not they could be watched.
    pub(crate) fn count_first(
        &mut self,
        derived: Delta,
        symbols: &Symbols,
        numbers: &Numbers,
    ) -> Result<(), Unsettled> {
        let may_be_watched = std::mem::take(&mut self.may_be_watched);
        // Accepted rows have no conflicts. If a key is newly checked, the edit's own pass finds its conflicts.
        self.settle(derived, symbols, numbers, &mut Vec::new())?;
        self.end(true);
        self.may_be_watched = may_be_watched;
        self.looked_at = self.counts.updates();
        Ok(())
    }

    /// Watches rows that were counted so far, if each was derived once and no two have one key. Takes time for all rows, so it
    /// looks only when there are twice as many as last time.
    pub(crate) fn watch_counted(&mut self, symbols: &Symbols) {
        let rows = self.counts.updates();
        if !self.may_be_watched || self.is_watched() || rows < WATCH_FROM.max(2 * self.looked_at) {
            return;
        }
        self.looked_at = rows;
        let (hashes, mut parts) = (symbols.hashes(), Vec::new());
        let (mut is_once, columns) = (true, self.split.key.len());
        let watch = each_counts!(&self.counts, trace => Watch::of(|each| {
            trace.for_each(View::Before, |key, _, count| {
                is_once &= count == 1;
                parts.clear();
                key.unpack(columns, symbols, &mut parts);
                each(hash_of(parts.iter().copied(), &hashes));
            });
        }), _watch => None, None);
        if let Some(mut watch) = watch.filter(|_| is_once) {
            watch.publish();
            self.counts = Counts::Watched(watch);
        }
    }

    /// Takes derived rows and stores the resulting change of the set in [`Relation::delta`]. Without counts, `derived`
    /// is that change.
    pub(crate) fn settle(
        &mut self,
        derived: Delta,
        symbols: &Symbols,
        numbers: &Numbers,
        conflicts: &mut Vec<Conflict>,
    ) -> Result<(), Unsettled> {
        if self.may_be_watched && derived.len() >= WATCH_FROM && self.counts.is_empty() {
            let mut rows = WatchedRows::new(&self.split, symbols, numbers, &mut self.delta, &mut self.report);
            if let Some(watch) = rows.watch(&derived) {
                rows.pass_on(derived);
                self.counts = Counts::Watched(watch);
                return Ok(());
            }
        }
        let mut settling = Settling {
            relation: self.id,
            split: &self.split,
            symbols,
            numbers,
            delta: &mut self.delta,
            report: &mut self.report,
            conflicts,
        };
        match &mut self.counts {
            Counts::None => {
                self.delta = derived;
            }
            Counts::Watched(watch) => {
                let mut rows =
                    WatchedRows::new(&self.split, symbols, numbers, &mut self.delta, &mut self.report);
                rows.settle(&derived, watch)?;
            }
            Counts::NarrowRows(trace) => settling.settle(derived, trace)?,
            Counts::WideRows(trace) => settling.settle(derived, trace)?,
            Counts::NarrowPairs(trace) => settling.settle(derived, trace)?,
            Counts::WidePairs(trace) => settling.settle(derived, trace)?,
        }
        Ok(())
    }

    /// All rows, if they are stored.
    pub(crate) fn rows(&self, view: View, symbols: &Symbols) -> Option<Delta> {
        let mut rows = Delta::new(self.columns);
        let mut parts = RowParts::default();
        each_counts!(&self.counts, trace => trace.for_each(view, |key, value, count| {
            if count > 0 {
                self.split.row(key, value, symbols, &mut parts);
                rows.push(&parts.row, 1);
            }
        }), _watch => return None, return None);
        if self.split.attributed {
            // Several rules can derive a row.
            rows.consolidate().ok()?;
            rows.make_set();
        }
        Some(rows)
    }

    /// Marks every symbol in the stored rows.
    pub(crate) fn mark(&self, marks: &mut Marks, symbols: &Symbols) {
        let (key, values) = (self.split.key.len(), self.split.values());
        each_counts!(&self.counts, trace => trace.mark(key, values, marks, symbols), _watch => (), ());
    }

    /// Ends a transaction: publishes or drops its staged changes.
    pub(crate) fn end(&mut self, accepted: bool) {
        if accepted {
            self.counts.publish();
        } else if matches!(&self.counts, Counts::Watched(watch) if watch.is_new()) {
            self.counts = Counts::new(&self.split);
        } else {
            self.counts.discard();
        }
        self.delta.clear();
        self.report.inserted.clear();
        self.report.reattributed.clear();
    }
}

/// The processing of one relation's derived rows.
struct Settling<'a> {
    relation: RelationId,
    split: &'a Split,
    symbols: &'a Symbols,
    numbers: &'a Numbers,
    delta: &'a mut Delta,
    report: &'a mut Attributed,
    conflicts: &'a mut Vec<Conflict>,
}

/// A row, a rule, and whether the rule derived the row before the transaction and derives it after.
type OfRule = (Vec<Symbol>, (u64, RuleId), bool, bool);

/// A value under a key, with its count before and after the transaction.
struct Presence<V> {
    value: V,
    before: Ways,
    after: Ways,
}

impl Settling<'_> {
    fn settle<K: Row, V: Row>(
        &mut self,
        derived: Delta,
        trace: &mut Trace<K, V, Ways>,
    ) -> Result<(), TooMany> {
        let width = self.split.key.len() + self.split.values();
        let is_plain = derived.is_once() && width <= MOST_COLUMNS;
        if is_plain && trace.is_empty(View::Before) {
            return self.settle_first(derived, trace);
        }
        let mut updates: Vec<Update<K, V, Ways>> = Vec::with_capacity(derived.len());
        for (row, diff) in derived.rows() {
            updates.push((self.split.pair(row, self.symbols), Ways::of(diff)?));
        }
        drop(derived);
        trace::sort(&mut updates);
        let mut probe = trace.probe(View::Before);
        let (mut presences, mut parts) = (Vec::new(), RowParts::default());
        let (is_sparse, mut done, mut expected) = (probe.is_sparse(updates.len()), 0, 0);
        for of_key in updates.chunk_by(|a, b| a.0.0 == b.0.0) {
            if is_sparse && done >= expected {
                probe.expect(updates[done..].iter().take(AHEAD).map(|((key, _), _)| *key));
                expected = done + AHEAD;
            }
            done += of_key.len();
            let key = of_key[0].0.0;
            presences.clear();
            merge(probe.find(&key), of_key, &mut presences)?;
            self.key(&key, &presences, &mut parts);
        }
        drop(probe);
        trace.stage(updates)
    }

    /// Settles the first rows of a relation. All distinct rows are new.
    fn settle_first<K: Row, V: Row>(
        &mut self,
        derived: Delta,
        trace: &mut Trace<K, V, Ways>,
    ) -> Result<(), TooMany> {
        // The rule is the last column.
        let rule = self.split.attributed.then(|| derived.width() - 1);
        let columns: Vec<usize> =
            self.split.key.iter().chain(&self.split.rest).copied().chain(rule).collect();
        sort(derived, &Fit::default(), &columns, First { settling: self, trace })
    }

    /// Computes the changes under one key.
    fn key<K: Row, V: Row>(&mut self, key: &K, presences: &[Presence<V>], parts: &mut RowParts) {
        match presences {
            [only] if self.split.attributed => self.attributed_row(key, only, parts),
            _ if self.split.attributed => self.attributed_key(key, presences, parts),
            _ => {
                for presence in presences {
                    let change = Diff::from(presence.after > 0) - Diff::from(presence.before > 0);
                    if change == 0 {
                        continue;
                    }
                    // If the key is the whole row, its words need no unpacking.
                    if V::WIDTH == 0 && self.split.key.len() <= K::WIDTH {
                        self.delta.push(&key.words()[..self.split.key.len()], change);
                    } else {
                        self.split.row(key, &presence.value, self.symbols, parts);
                        self.delta.push(&parts.row, change);
                    }
                }
            }
        }
        if self.split.checked && presences.iter().filter(|presence| presence.after > 0).count() > 1 {
            let mut rows = Vec::new();
            for presence in presences.iter().filter(|presence| presence.after > 0) {
                self.split.row(key, &presence.value, self.symbols, parts);
                rows.push(parts.row.clone());
            }
            rows.sort_unstable();
            rows.dedup();
            if rows.len() > 1 {
                self.conflicts.push(Conflict { relation: self.relation, rows });
            }
        }
    }

    /// A key with one row, which one rule derives, as nearly all keys have.
    fn attributed_row<K: Row, V: Row>(&mut self, key: &K, only: &Presence<V>, parts: &mut RowParts) {
        let change = Diff::from(only.after > 0) - Diff::from(only.before > 0);
        if change == 0 {
            return;
        }
        let rule = self.split.row(key, &only.value, self.symbols, parts);
        self.delta.push(&parts.row, change);
        if change > 0 {
            let (_, rule) = self.numbers.order(rule);
            self.report.inserted.push_words(parts.row.iter().copied().chain([rule.0]), 1);
        }
    }

    /// Treats rows that differ only in their rule as one row, attributed to the least rule.
    fn attributed_key<K: Row, V: Row>(&mut self, key: &K, presences: &[Presence<V>], parts: &mut RowParts) {
        let mut of_rules: Vec<OfRule> = presences
            .iter()
            .map(|presence| {
                let rule = self.split.row(key, &presence.value, self.symbols, parts);
                (parts.row.clone(), self.numbers.order(rule), presence.before > 0, presence.after > 0)
            })
            .collect();
        of_rules.sort_unstable();
        for of_row in of_rules.chunk_by(|a, b| a.0 == b.0) {
            let row = &of_row[0].0;
            let before = of_row.iter().find(|of_rule| of_rule.2).map(|of_rule| of_rule.1);
            let after = of_row.iter().find(|of_rule| of_rule.3).map(|of_rule| of_rule.1);
            let with = |rule: (u64, RuleId)| row.iter().copied().chain([rule.1.0]);
            match (before, after) {
                (None, Some(rule)) => {
                    self.delta.push(row, 1);
                    self.report.inserted.push_words(with(rule), 1);
                }
                (Some(_), None) => self.delta.push(row, -1),
                (Some(old), Some(new)) if old.0 != new.0 => self.report.reattributed.push_words(with(new), 1),
                _ => {}
            }
        }
    }
}

/// Merges the values under a key with their changes; both ascend by value.
fn merge<K: Row, V: Row>(
    old: &[(V, Ways)],
    changes: &[Update<K, V, Ways>],
    into: &mut Vec<Presence<V>>,
) -> Result<(), TooMany> {
    let (mut old, mut changes) = (old.iter().peekable(), changes.iter().peekable());
    loop {
        let value = match (old.peek(), changes.peek()) {
            (None, None) => return Ok(()),
            (Some((value, _)), None) => *value,
            (None, Some(((_, value), _))) => *value,
            (Some((a, _)), Some(((_, b), _))) => *a.min(b),
        };
        let before = old.next_if(|(found, _)| *found == value).map_or(0, |(_, count)| *count);
        // Partial sums may exceed 64 bits.
        let mut after = i128::from(before);
        while let Some((_, change)) = changes.next_if(|((_, changed), _)| *changed == value) {
            after += i128::from(*change);
        }
        let after = Ways::of(Diff::try_from(after).map_err(|_| TooMany)?)?;
        debug_assert!(after >= 0, "a row is derived less often than never");
        into.push(Presence { value, before, after });
    }
}
