//! `pick`: numbers between bounds that no other key has.

mod numbers;

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;
use nlog_data::quotation::quote_row;
use nlog_data::{Row, Table, TableDelta};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use self::numbers::Numbers;
use crate::bounds::{Bounds, changed, difference, target_parts};
use crate::hook::Hook;
use crate::memory::{cells, row};

/// Gives each key of the source a number between the bounds of its row, `low` and `high`, that no other key has. With a
/// scope, a column of the source, keys with different values of it can have the same number.
///
/// A key keeps its number while it is between the bounds. A key without one gets the first free number from a place on that
/// its values decide, and after `high` from `low` on. So a key that comes back finds its former number, if it is still free, and
/// nobody else is likely to get it meanwhile. If all are in use, the key waits without a number.
///
/// A key whose bounds are equal has this number in any case: it reserves it. A key that has the number already keeps it.
/// Within a transaction, numbers are released first, then reserved; then keys get theirs in the order of their values.
#[derive(Debug)]
pub struct Pick {
    bounds: HashMap<Row, Bounds>,
    numbers: Numbers,
    /// Keys without a number.
    waiting: BTreeSet<Row>,
    /// The numbers of the target's rows, if others were restored after the last update.
    replaced: Option<Numbers>,
    /// The updates that are not permanent, oldest first.
    pending: Vec<Pending>,
    work: u64,
}

/// What an update has done, to undo it.
#[derive(Debug, Default)]
struct Pending {
    /// The numbers before, if others were restored.
    replaced: Option<Numbers>,
    /// The bounds and the number of each key before it changed, oldest first.
    before: Vec<(Row, Option<Bounds>, Option<i64>)>,
}

/// The memory of the hook: the rows of the target, in their order.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Memory {
    picked: Vec<Vec<Json>>,
}

impl Pick {
    /// Numbers that are distinct for each value of this column, or all of them.
    pub fn new(scope: Option<usize>) -> Self {
        Pick {
            bounds: HashMap::new(),
            numbers: Numbers::new(scope),
            waiting: BTreeSet::new(),
            replaced: None,
            pending: Vec::new(),
            work: 0,
        }
    }

    /// Sets the bounds and the number of a key.
    fn set(&mut self, key: &Row, bounds: Option<Bounds>, number: Option<i64>) {
        match bounds {
            Some(bounds) => self.bounds.insert(key.clone(), bounds),
            None => self.bounds.remove(key),
        };
        self.numbers.set(key, number);
        if bounds.is_some() && number.is_none() {
            self.waiting.insert(key.clone());
        } else {
            self.waiting.remove(key);
        }
        self.work += 1;
    }

    /// Sets the bounds of a key, and takes its number away if that is not the key's any more.
    fn bind(&mut self, key: &Row, bounds: Option<Bounds>, done: &mut Pending) {
        let before = self.bounds.get(key).copied();
        let had = self.numbers.of(key);
        done.before.push((key.clone(), before, had));
        let number = bounds.and_then(|bounds| {
            let kept = had.filter(|number| bounds.contains(*number));
            let was_reserved = before.is_some_and(Bounds::is_one);
            if bounds.is_one() {
                Some(bounds.low)
            } else {
                kept.filter(|_| !was_reserved || self.numbers.is_of_one(key))
            }
        });
        self.set(key, bounds, number);
    }

    /// Gives numbers to keys that wait, as far as there are free ones. Returns these keys.
    fn fill(&mut self, done: &mut Pending) -> Vec<Row> {
        let mut filled = Vec::new();
        for key in self.waiting.iter().cloned().collect::<Vec<Row>>() {
            let Some(bounds) = self.bounds.get(&key).copied() else { continue };
            let (free, looked) = self.numbers.free(&key, bounds);
            self.work += looked;
            if let Some(number) = free {
                done.before.push((key.clone(), Some(bounds), None));
                self.set(&key, Some(bounds), Some(number));
                filled.push(key);
            }
        }
        filled
    }

    /// Binds keys. Returns the number of each key that may have another one now, as it was before.
    fn rebind(
        &mut self,
        bounds: BTreeMap<Row, Option<Bounds>>,
        done: &mut Pending,
    ) -> BTreeMap<Row, Option<i64>> {
        let mut before: BTreeMap<Row, Option<i64>> = BTreeMap::new();
        for (key, bounds) in bounds {
            before.insert(key.clone(), self.numbers.of(&key));
            self.bind(&key, bounds, done);
        }
        for key in self.fill(done) {
            before.entry(key).or_default();
        }
        before
    }

    /// Follows the source after other numbers were restored: all keys have these, as far as their bounds allow.
    fn adopt(
        &mut self,
        replaced: &Numbers,
        source: &TableDelta,
        done: &mut Pending,
    ) -> Result<BTreeMap<Row, Option<i64>>, String> {
        let mut bounds: BTreeMap<Row, Option<Bounds>> =
            self.bounds.iter().map(|(key, bounds)| (key.clone(), Some(*bounds))).collect();
        bounds.extend(changed(source)?);
        for key in self.numbers.keys() {
            bounds.entry(key.clone()).or_default();
        }
        let touched = self.rebind(bounds, done);
        let keys = touched.into_keys().chain(replaced.keys().cloned());
        Ok(keys.map(|key| (key.clone(), replaced.of(&key))).collect())
    }

    /// Puts these numbers back, and has the keys without one wait.
    fn put_back(&mut self, numbers: Numbers) {
        self.numbers = numbers;
        let waiting = self.bounds.keys().filter(|key| self.numbers.of(key).is_none());
        self.waiting = waiting.cloned().collect();
    }
}

impl Hook for Pick {
    fn update(&mut self, source: &TableDelta, _tick: Option<u64>) -> Result<TableDelta, String> {
        let mut done = Pending::default();
        let before = match self.replaced.take() {
            None => changed(source).map(|bounds| self.rebind(bounds, &mut done)),
            Some(replaced) => {
                let before = self.adopt(&replaced, source, &mut done);
                done.replaced = Some(replaced);
                before
            }
        };
        self.pending.push(done);
        before.map(|before| difference(before, |key| self.numbers.of(key)))
    }

    fn accept(&mut self) {
        self.pending = Vec::new();
        self.replaced = None;
    }

    fn undo(&mut self) {
        if let Some(numbers) = self.replaced.take() {
            self.put_back(numbers);
            return;
        }
        let Some(Pending { replaced, before }) = self.pending.pop() else { return };
        for (key, bounds, number) in before.into_iter().rev() {
            self.set(&key, bounds, number);
        }
        if let Some(numbers) = replaced {
            self.put_back(numbers);
        }
    }

    fn memory(&self) -> Option<Json> {
        let picked = self.numbers.rows().iter().map(|row| cells(row)).collect();
        Some(
            serde_json::to_value(Memory { picked })
                .unwrap_or_else(|error| unreachable!("lists of values are JSON: {error}")),
        )
    }

    fn restore(&mut self, memory: &Json, target: &Table) -> Result<(), String> {
        let Memory { picked } = Memory::deserialize(memory).map_err(|error| error.to_string())?;
        let mut numbers = self.numbers.none();
        for picked in picked {
            let (key, number) = target_parts(row(&picked, &target.columns)?)?;
            if numbers.of(&key).is_some() {
                return Err(format!("{} has two numbers", quote_row(&key)));
            }
            numbers.set(&key, Some(number));
        }
        let before = std::mem::replace(&mut self.numbers, numbers);
        // Several memories before one update: the target has the rows of the first.
        self.replaced.get_or_insert(before);
        Ok(())
    }

    fn follow(&mut self, target: &TableDelta) -> Result<(), String> {
        for row in &target.delete {
            let (key, number) = target_parts(row.clone())?;
            if self.numbers.of(&key) != Some(number) {
                return Err(format!("{} loses number {number}, which it does not have", quote_row(&key)));
            }
            self.numbers.set(&key, None);
        }
        for row in &target.insert {
            let (key, number) = target_parts(row.clone())?;
            if self.numbers.of(&key).is_some() {
                return Err(format!("{} gets number {number}, but has one", quote_row(&key)));
            }
            self.numbers.set(&key, Some(number));
        }
        Ok(())
    }

    fn work(&self) -> u64 {
        self.work
    }
}
