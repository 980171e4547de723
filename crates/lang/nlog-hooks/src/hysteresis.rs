//! `hysteresis`: dampens rows that flap.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;
use nlog_data::quotation::quote_row;
use nlog_data::{Row, Table, TableDelta};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::hook::Hook;
use crate::memory::{cells, row};

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
    state: State,
    /// The state that belongs to the rows of the tables, if another was restored after the last update.
    replaced: Option<State>,
    /// The updates that are not permanent, oldest first.
    undo: Vec<Pending>,
    work: u64,
}

#[derive(Debug, Default)]
struct State {
    /// Rows that are in the source or in the target.
    rows: HashMap<Row, Held>,
    /// Rows that changed after the last tick.
    fresh: BTreeSet<Row>,
    /// When rows are to change.
    deadlines: BTreeMap<u64, BTreeSet<Row>>,
}

/// What an update has done, to undo it.
#[derive(Debug, Default)]
struct Pending {
    /// The state before, if another was restored.
    replaced: Option<State>,
    /// The earlier state of each row that changed, oldest first.
    rows: Vec<(Row, Option<Held>)>,
}

/// The memory of the hook.
#[derive(Serialize, Deserialize)]
struct Memory {
    rows: Vec<(Vec<Json>, Held)>,
}

/// The state of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Held {
    /// Whether it is in the target.
    shown: bool,
    change: Change,
}

/// Whether the target is to follow the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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
            Some(held) => self.state.rows.insert(row.clone(), held),
            None => self.state.rows.remove(row),
        };
        match before.map(|held| held.change) {
            Some(Change::Fresh) => {
                self.state.fresh.remove(row);
            }
            Some(Change::Due(time)) => {
                if let Some(rows) = self.state.deadlines.get_mut(&time) {
                    rows.remove(row);
                    if rows.is_empty() {
                        self.state.deadlines.remove(&time);
                    }
                }
            }
            Some(Change::None) | None => {}
        }
        match held.map(|held| held.change) {
            Some(Change::Fresh) => {
                self.state.fresh.insert(row.clone());
            }
            Some(Change::Due(time)) => {
                self.state.deadlines.entry(time).or_default().insert(row.clone());
            }
            Some(Change::None) | None => {}
        }
        before
    }

    /// The same, so that it can be undone.
    fn change(&mut self, row: &Row, held: Option<Held>) {
        let before = self.set(row, held);
        if let Some(pending) = self.undo.last_mut() {
            pending.rows.push((row.clone(), before));
        }
    }

    /// A row came into the source.
    fn came(&mut self, row: &Row, target: &mut TableDelta) {
        let shown = self.state.rows.get(row).is_some_and(|held| held.shown);
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
        let shown = self.state.rows.get(row).is_some_and(|held| held.shown);
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
        for row in std::mem::take(&mut self.state.fresh) {
            let shown = self.state.rows.get(&row).is_some_and(|held| held.shown);
            let wait = if shown { self.fall } else { self.rise };
            self.change(&row, Some(Held { shown, change: Change::Due(now.saturating_add(wait)) }));
        }
        while let Some(due) = self.state.deadlines.first_entry().filter(|due| *due.key() <= now) {
            for row in due.get().clone() {
                if self.state.rows.get(&row).is_some_and(|held| held.shown) {
                    self.hide(&row, target);
                } else {
                    self.show(&row, target);
                }
            }
        }
    }
}

impl Hysteresis {
    fn follow_source(&mut self, source: &TableDelta, tick: Option<u64>) -> TableDelta {
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
        target
    }

    /// The same after another state was restored: what its source lacks and has in excess has just come and gone.
    fn adopt(&mut self, before: &State, source: &TableDelta, tick: Option<u64>) -> TableDelta {
        let gone: BTreeSet<&Row> = source.delete.iter().collect();
        let mut present: BTreeSet<&Row> = before.source().filter(|row| !gone.contains(row)).collect();
        present.extend(&source.insert);
        let known: BTreeSet<&Row> = self.state.source().collect();
        let insert = present.difference(&known).map(|row| (*row).clone()).collect();
        let delete = known.difference(&present).map(|row| (*row).clone()).collect();
        self.follow_source(&TableDelta { insert, delete, ..TableDelta::default() }, tick);
        let (was, is) = (before.target(), self.state.target());
        let beside = |some: &BTreeSet<&Row>, others: &BTreeSet<&Row>| {
            some.difference(others).map(|row| (*row).clone()).collect()
        };
        TableDelta { insert: beside(&is, &was), delete: beside(&was, &is), ..TableDelta::default() }
    }
}

impl State {
    /// The rows of the source: those shown that are not about to go, and those about to come.
    fn source(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|(_, held)| held.shown == (held.change == Change::None)).map(|(row, _)| row)
    }

    /// The rows of the target.
    fn target(&self) -> BTreeSet<&Row> {
        self.rows.iter().filter(|(_, held)| held.shown).map(|(row, _)| row).collect()
    }
}

impl Hook for Hysteresis {
    fn update(&mut self, source: &TableDelta, tick: Option<u64>) -> Result<TableDelta, String> {
        self.undo.push(Pending::default());
        let Some(before) = self.replaced.take() else { return Ok(self.follow_source(source, tick)) };
        let target = self.adopt(&before, source, tick);
        if let Some(pending) = self.undo.last_mut() {
            pending.replaced = Some(before);
        }
        Ok(target)
    }

    fn accept(&mut self) {
        self.undo = Vec::new();
        self.replaced = None;
    }

    fn undo(&mut self) {
        if let Some(state) = self.replaced.take() {
            self.state = state;
            return;
        }
        let Some(Pending { replaced, rows }) = self.undo.pop() else { return };
        match replaced {
            Some(state) => self.state = state,
            None => {
                for (row, before) in rows.into_iter().rev() {
                    self.set(&row, before);
                }
            }
        }
    }

    fn memory(&self) -> Option<Json> {
        let rows: BTreeMap<&Row, &Held> = self.state.rows.iter().collect();
        let entry = |(row, held): (&Row, &Held)| (cells(row), *held);
        let memory = Memory { rows: rows.into_iter().map(entry).collect() };
        Some(
            serde_json::to_value(memory)
                .unwrap_or_else(|error| unreachable!("lists of values are JSON: {error}")),
        )
    }

    fn restore(&mut self, memory: &Json, target: &Table) -> Result<(), String> {
        let Memory { rows } = Memory::deserialize(memory).map_err(|error| error.to_string())?;
        let mut state = State::default();
        for (cells, held) in rows {
            let row = row(&cells, &target.columns)?;
            match held.change {
                Change::Fresh => drop(state.fresh.insert(row.clone())),
                Change::Due(time) => drop(state.deadlines.entry(time).or_default().insert(row.clone())),
                Change::None if held.shown => {}
                Change::None => {
                    return Err(format!("{} is neither shown nor about to come", quote_row(&row)));
                }
            }
            if state.rows.insert(row.clone(), held).is_some() {
                return Err(format!("{} is there twice", quote_row(&row)));
            }
        }
        let before = std::mem::replace(&mut self.state, state);
        self.replaced.get_or_insert(before);
        Ok(())
    }

    fn work(&self) -> u64 {
        self.work
    }
}
