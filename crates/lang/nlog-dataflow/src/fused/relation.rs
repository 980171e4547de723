//! Relations: turns derived rows into sets, checks keys, and attributes rows to rules.
//!
//! Several rules, or several bindings of one rule, can derive the same row. A relation therefore counts the derivations
//! of each row in a trace, and a row is present while its count is positive. A relation needs no counts if the plan
//! proves that no row is derived twice, its key needs no check, and its rows are not attributed; or as long as no row has been
//! derived twice and no key has two rows ([`watch`](super::watch)).

mod first_rows;
mod settling;

use std::io;

use nlog_data::RuleId;
use nlog_plan::Keep;
use nlog_plan::query::{Plan, RelationId};

use serde::{Deserialize, Serialize};

use self::settling::Settling;
use super::batch::Batch;
use super::delta::{Delta, TooMany};
use super::rule::Numbers;
use super::trace::{Trace, View};
use super::watch::{WATCH_FROM, Watch, hash_of};
use super::watched::WatchedRows;
use crate::checked_bytes::{Broken, In, Out};
use crate::symbol::{Marks, Symbol, Symbols};

/// A relation with at most so many columns is watched only from a great number of rows on, unless its rows have the number of their
/// rule: its rows take about as much memory as hashes of them. Most such relations say which hosts have a port of a switch, or the
/// like. Sooner or later a second port gives the same row, and if they were watched, the transaction that adds the port would wait
/// until all rows are derived again. Less in debug builds, so that tests have both kinds.
const NARROW: usize = if cfg!(debug_assertions) { 1 } else { 4 };

/// The rows from which on a narrow relation is watched: sorting and storing so many takes time.
const WATCH_NARROW_FROM: usize = 1 << 18;

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

/// The counts of derivations.
pub(crate) enum Counts {
    /// None: derived rows are a set already.
    None,
    /// The hashes of keys: derived rows have been a set so far.
    Watched(Watch),
    /// The rows, as keys and the rest of the columns.
    Counted(Box<Trace>),
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
    /// The number of rows from which on they are watched, if they may be.
    watch_from: usize,
    /// The number of counted rows when it was last known that they need counts, or may.
    looked_at: usize,
}

/// What was saved of a relation.
pub(crate) struct SavedRelation {
    looked_at: usize,
    counts: SavedCounts,
}

enum SavedCounts {
    None,
    Watched(Vec<u64>),
    Counted(Batch),
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

/// The rules of changed rows.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Attributed {
    /// The id of the rule of each inserted row, in the order of the relation's changes.
    pub(crate) inserted: Vec<u32>,
    /// Rows that stay, and that another rule derives now. The rule is the last column.
    pub(crate) reattributed: Delta,
}

/// Rows that share a key that must be unique.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Conflict {
    pub(crate) relation: RelationId,
    pub(crate) rows: Vec<Vec<Symbol>>,
}

impl Attributed {
    /// The rule of each inserted row.
    pub(crate) fn rules(&self) -> Vec<RuleId> {
        self.inserted.iter().copied().map(RuleId).collect()
    }

    /// Visits every symbol in the changes.
    pub(crate) fn symbols_mut(&mut self) -> impl Iterator<Item = &mut Symbol> {
        self.reattributed.symbols_mut(1)
    }

    pub(crate) fn new(columns: usize) -> Self {
        Attributed { inserted: Vec::new(), reattributed: Delta::new(columns + 1) }
    }
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

    /// An empty trace of derived rows.
    fn trace(&self) -> Trace {
        Trace::new(self.key.len(), self.values())
    }

    /// The columns of a derived row in the order of a trace: the key, the rest, and the rule if rows are attributed.
    pub(crate) fn places(&self) -> Vec<usize> {
        let columns = self.key.len() + self.rest.len();
        self.key.iter().chain(&self.rest).copied().chain(self.attributed.then_some(columns)).collect()
    }

    /// Assembles the row of a key and a value. Returns its rule if rows are attributed.
    fn row(&self, key: &[Symbol], value: &[Symbol], row: &mut Vec<Symbol>) -> Symbol {
        row.clear();
        row.resize(self.key.len() + self.rest.len(), 0);
        for (columns, words) in [(&self.key, key), (&self.rest, value)] {
            for (column, word) in columns.iter().zip(words) {
                row[*column] = *word;
            }
        }
        if self.attributed { value.last().copied().unwrap_or_default() } else { 0 }
    }
}

impl Counts {
    fn new(split: &Split) -> Self {
        Counts::Counted(Box::new(split.trace()))
    }

    fn counted(&self) -> Option<&Trace> {
        if let Counts::Counted(trace) = self { Some(trace) } else { None }
    }

    /// Whether rows are counted and there are none, before the transaction and after it.
    fn is_empty(&self) -> bool {
        self.counted().is_some_and(|trace| trace.is_empty(View::After))
    }

    pub(crate) fn publish(&mut self) {
        match self {
            Counts::None => {}
            Counts::Watched(watch) => watch.publish(),
            Counts::Counted(trace) => trace.publish_if_touched(),
        }
    }

    /// The number of published batches that are not merged yet.
    #[cfg(test)]
    pub(crate) fn recent(&self) -> usize {
        self.counted().map_or(0, Trace::recent)
    }

    /// Merges published changes with those before.
    pub(crate) fn merge(&mut self) {
        match self {
            Counts::None => {}
            Counts::Watched(watch) => watch.merge(),
            Counts::Counted(trace) => trace.merge(),
        }
    }

    pub(crate) fn discard(&mut self) {
        match self {
            Counts::None => {}
            Counts::Watched(watch) => watch.discard(),
            Counts::Counted(trace) => trace.discard(),
        }
    }

    /// The number of rows that are counted or watched, or somewhat more.
    pub(crate) fn updates(&self) -> usize {
        match self {
            Counts::None => 0,
            Counts::Watched(watch) => watch.len(),
            Counts::Counted(trace) => trace.updates(),
        }
    }

    /// The approximate size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Counts::None => 0,
            Counts::Watched(watch) => watch.bytes(),
            Counts::Counted(trace) => trace.bytes(),
        }
    }
}

impl Relation {
    /// An empty relation. `may_be_watched` only if its rows can be derived again.
    pub(crate) fn new(plan: &Plan, id: RelationId, attributed: bool, may_be_watched: bool) -> Self {
        let columns = plan.relations[id.0 as usize].columns.len();
        let split = Split::new(plan, id, attributed);
        let keeps = attributed || plan.relations[id.0 as usize].keep != Keep::AsIs;
        let is_narrow = !attributed && columns <= NARROW;
        let watch_from = if is_narrow { WATCH_NARROW_FROM } else { WATCH_FROM };
        let counts = if keeps { Counts::new(&split) } else { Counts::None };
        let delta = Delta::new(columns);
        let report = Attributed::new(columns);
        let (changes, looked_at) = (0, 0);
        Relation { id, columns, split, counts, delta, changes, report, may_be_watched, watch_from, looked_at }
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
        if !self.may_be_watched || self.is_watched() || rows < self.watch_from.max(2 * self.looked_at) {
            return;
        }
        self.looked_at = rows;
        let Counts::Counted(trace) = &self.counts else { return };
        let (hashes, mut is_once) = (symbols.hashes(), true);
        let watch = Watch::of(|each| {
            trace.for_each(View::Before, |key, _, count| {
                is_once &= count == 1;
                each(hash_of(key.iter().copied(), &hashes));
            });
        });
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
        if self.may_be_watched && derived.len() >= self.watch_from && self.counts.is_empty() {
            let mut rows = WatchedRows::new(&self.split, symbols, numbers, &mut self.delta, &mut self.report);
            if let Some(watch) = rows.watch(&derived) {
                rows.pass_on(derived);
                self.counts = Counts::Watched(watch);
                return Ok(());
            }
        }
        let settling = Settling {
            relation: self.id,
            split: &self.split,
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
            Counts::Counted(trace) => settling.settle(derived, trace)?,
        }
        Ok(())
    }

    /// Writes what is kept of its rows.
    pub(crate) fn save(&self, out: &mut Out<'_>) -> io::Result<()> {
        out.number(self.looked_at as u64)?;
        match &self.counts {
            Counts::None => out.number(0),
            Counts::Watched(watch) => {
                out.number(1)?;
                out.all(&watch.hashes())
            }
            Counts::Counted(trace) => {
                out.number(2)?;
                trace.save(out)
            }
        }
    }

    /// Reads what another engine has kept of the rows of this relation.
    pub(crate) fn read(&self, from: &mut In<'_, '_>) -> Result<SavedRelation, Broken> {
        let looked_at = from.number()? as usize;
        let counts = match from.number()? {
            0 => SavedCounts::None,
            1 if self.may_be_watched => SavedCounts::Watched(from.all()?),
            2 => SavedCounts::Counted(self.split.trace().read(from)?),
            _ => return Err(Broken::Damaged),
        };
        Ok(SavedRelation { looked_at, counts })
    }

    /// Takes over what was kept of the rows. The relation is empty.
    pub(crate) fn restore(&mut self, saved: SavedRelation) -> Result<(), Broken> {
        self.looked_at = saved.looked_at;
        self.counts = match saved.counts {
            SavedCounts::None => Counts::None,
            SavedCounts::Watched(hashes) => Counts::Watched(Watch::restore(&hashes).ok_or(Broken::Damaged)?),
            SavedCounts::Counted(batch) => {
                let mut trace = self.split.trace();
                trace.restore(batch);
                Counts::Counted(Box::new(trace))
            }
        };
        Ok(())
    }

    /// All rows, if they are stored.
    pub(crate) fn rows(&self, view: View) -> Option<Delta> {
        let mut rows = Delta::new(self.columns);
        let mut words = Vec::new();
        self.counts.counted()?.for_each(view, |key, value, count| {
            if count > 0 {
                self.split.row(key, value, &mut words);
                rows.push(&words, 1);
            }
        });
        if self.split.attributed {
            // Several rules can derive a row.
            rows.consolidate().ok()?;
            rows.make_set();
        }
        Some(rows)
    }

    /// All rows as they were derived, each with its rule if rows are attributed, if they are stored.
    pub(crate) fn derived(&self, view: View) -> Option<Delta> {
        let mut derived = Delta::new(self.derived_width());
        let mut words = Vec::new();
        self.counts.counted()?.for_each(view, |key, value, count| {
            let rule = self.split.row(key, value, &mut words);
            derived.push_words(words.iter().copied().chain(self.split.attributed.then_some(rule)), count);
        });
        Some(derived)
    }

    /// Marks every symbol in the stored rows.
    pub(crate) fn mark(&self, marks: &mut Marks) {
        if let Some(trace) = self.counts.counted() {
            trace.mark(marks);
        }
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
        self.report = Attributed::new(self.columns);
    }
}
