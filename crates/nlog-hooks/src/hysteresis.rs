//! `hysteresis`: dampens rows that flap.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;
use nlog_data::{Row, TableDelta};

use crate::hook::Hook;

/// Shows a row once it has been in the source for `rise` milliseconds, and until it has been out of it for `fall`.
///
/// Ticks define time. A row's time begins with the first tick after it changed: the moment of a change between two
/// ticks is unknown, so a row is never shown or hidden too early. The delay depends on the interval between ticks;
/// a tick after each transaction makes it exact. A row that changes back before its time is up starts again. With a
/// `rise` of 0, a row appears with the transaction that inserts it, and with a `fall` of 0, it disappears with the
/// one that deletes it: neither waits for a tick.
#[derive(Debug, Default)]
pub struct Hysteresis {
    rise: u64,
    fall: u64,
    /// Rows that are in the source or in the target.
    rows: HashMap<Row, Held>,
    /// Rows that changed after the last tick.
    fresh: BTreeSet<Row>,
    /// When rows are to change.
    deadlines: BTreeMap<u64, BTreeSet<Row>>,
    /// The earlier state of each row that the pending update changed, oldest first.
    undo: Vec<(Row, Option<Held>)>,
    work: u64,
}

/// The state of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held {
    /// Whether it is in the target.
    shown: bool,
    change: Change,
}

/// Whether the target is to follow the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    /// No: they agree.
    None,
    /// Yes, this long after the next tick.
    Fresh,
    /// Yes, at this time.
    Due(u64),
}

impl Hysteresis {
    /// Times in milliseconds.
    pub fn new(rise: u64, fall: u64) -> Self {
        Hysteresis { rise, fall, ..Hysteresis::default() }
    }

    /// Sets the state of a row.
    fn set(&mut self, row: &Row, held: Option<Held>) -> Option<Held> {
        self.work += 1;
        let before = match held {
            Some(held) => self.rows.insert(row.clone(), held),
            None => self.rows.remove(row),
        };
        match before.map(|held| held.change) {
            Some(Change::Fresh) => {
                self.fresh.remove(row);
            }
            Some(Change::Due(time)) => {
                if let Some(rows) = self.deadlines.get_mut(&time) {
                    rows.remove(row);
                    if rows.is_empty() {
                        self.deadlines.remove(&time);
                    }
                }
            }
            Some(Change::None) | None => {}
        }
        match held.map(|held| held.change) {
            Some(Change::Fresh) => {
                self.fresh.insert(row.clone());
            }
            Some(Change::Due(time)) => {
                self.deadlines.entry(time).or_default().insert(row.clone());
            }
            Some(Change::None) | None => {}
        }
        before
    }

    /// The same, so that it can be undone.
    fn change(&mut self, row: &Row, held: Option<Held>) {
        let before = self.set(row, held);
        self.undo.push((row.clone(), before));
    }

    /// A row came into the source.
    fn came(&mut self, row: &Row, target: &mut TableDelta) {
        let shown = self.rows.get(row).is_some_and(|held| held.shown);
        if shown {
            self.change(row, Some(Held { shown, change: Change::None }));
        } else if self.rise == 0 {
            self.show(row, target);
        } else {
            self.change(row, Some(Held { shown, change: Change::Fresh }));
        }
    }

    /// A row went from the source.
    fn went(&mut self, row: &Row, target: &mut TableDelta) {
        let shown = self.rows.get(row).is_some_and(|held| held.shown);
        if !shown {
            self.change(row, None);
        } else if self.fall == 0 {
            self.hide(row, target);
        } else {
            self.change(row, Some(Held { shown, change: Change::Fresh }));
        }
    }

    fn show(&mut self, row: &Row, target: &mut TableDelta) {
        self.change(row, Some(Held { shown: true, change: Change::None }));
        target.insert.push(row.clone());
    }

    fn hide(&mut self, row: &Row, target: &mut TableDelta) {
        self.change(row, None);
        target.delete.push(row.clone());
    }

    /// Time has come to `now`.
    fn pass(&mut self, now: u64, target: &mut TableDelta) {
        for row in std::mem::take(&mut self.fresh) {
            let shown = self.rows.get(&row).is_some_and(|held| held.shown);
            let wait = if shown { self.fall } else { self.rise };
            self.change(&row, Some(Held { shown, change: Change::Due(now.saturating_add(wait)) }));
        }
        while let Some(due) = self.deadlines.first_entry().filter(|due| *due.key() <= now) {
            for row in due.get().clone() {
                if self.rows.get(&row).is_some_and(|held| held.shown) {
                    self.hide(&row, target);
                } else {
                    self.show(&row, target);
                }
            }
        }
    }
}

impl Hook for Hysteresis {
    fn update(&mut self, source: &TableDelta, tick: Option<u64>) -> Result<TableDelta, String> {
        let mut target = TableDelta::default();
        for row in &source.delete {
            self.went(row, &mut target);
        }
        for row in &source.insert {
            self.came(row, &mut target);
        }
        if let Some(now) = tick {
            self.pass(now, &mut target);
        }
        target.insert.sort_unstable();
        target.delete.sort_unstable();
        Ok(target)
    }

    fn accept(&mut self) {
        self.undo = Vec::new();
    }

    fn undo(&mut self) {
        for (row, before) in std::mem::take(&mut self.undo).into_iter().rev() {
            self.set(&row, before);
        }
    }

    fn work(&self) -> u64 {
        self.work
    }
}
