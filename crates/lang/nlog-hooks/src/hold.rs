//! `hold`: numbers that move as little as their bounds allow.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;
use nlog_data::quotation::quote_row;
use nlog_data::{Row, Table, TableDelta};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::bounds::{Bounds, changed, difference, numbered, target_parts};
use crate::hook::Hook;
use crate::memory::{cells, row};

/// Gives each key of the source a number between the bounds of its row, `low` and `high`.
///
/// A new key gets `low`. Its number stays while it is between the bounds. If they leave it behind, it moves to the nearer of
/// them. So what grows with `low` grows at once, and what shrinks waits until `high` comes down to it.
#[derive(Debug, Default)]
pub struct Hold {
    bounds: HashMap<Row, Bounds>,
    numbers: HashMap<Row, i64>,
    /// The numbers of the target's rows, if others were restored after the last update.
    replaced: Option<HashMap<Row, i64>>,
    /// The updates that are not permanent, oldest first.
    pending: Vec<Pending>,
    work: u64,
}

/// What an update has done, to undo it.
#[derive(Debug, Default)]
struct Pending {
    /// The numbers before, if others were restored.
    replaced: Option<HashMap<Row, i64>>,
    /// The bounds and the number of each key before it changed, oldest first.
    before: Vec<(Row, Option<Bounds>, Option<i64>)>,
}

/// The memory of the hook: the rows of the target, in their order.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Memory {
    held: Vec<Vec<Json>>,
}

impl Hold {
    /// Sets the bounds of a key, and moves its number between them.
    fn bind(&mut self, key: &Row, bounds: Option<Bounds>, done: &mut Pending) {
        let before = match bounds {
            Some(bounds) => self.bounds.insert(key.clone(), bounds),
            None => self.bounds.remove(key),
        };
        let held = self.numbers.get(key).copied();
        if let Some(Bounds { low, high }) = bounds {
            self.numbers.insert(key.clone(), held.map_or(low, |number| number.clamp(low, high)));
        } else {
            self.numbers.remove(key);
        }
        self.work += 1;
        done.before.push((key.clone(), before, held));
    }

    /// Follows the source. Returns the number of each key that has a row in the change, as it was before.
    fn change(
        &mut self,
        source: &TableDelta,
        done: &mut Pending,
    ) -> Result<BTreeMap<Row, Option<i64>>, String> {
        let mut before = BTreeMap::new();
        for (key, bounds) in changed(source)? {
            before.insert(key.clone(), self.numbers.get(&key).copied());
            self.bind(&key, bounds, done);
        }
        Ok(before)
    }

    /// The same after other numbers were restored: all keys have these, as far as their bounds allow.
    fn adopt(
        &mut self,
        replaced: &HashMap<Row, i64>,
        source: &TableDelta,
        done: &mut Pending,
    ) -> Result<BTreeMap<Row, Option<i64>>, String> {
        self.change(source, done)?;
        let known: BTreeSet<Row> = self.bounds.keys().chain(self.numbers.keys()).cloned().collect();
        for key in &known {
            let bounds = self.bounds.get(key).copied();
            self.bind(key, bounds, done);
        }
        let keys = known.into_iter().chain(replaced.keys().cloned());
        Ok(keys.map(|key| (key.clone(), replaced.get(&key).copied())).collect())
    }
}

impl Hook for Hold {
    fn update(&mut self, source: &TableDelta, _tick: Option<u64>) -> Result<TableDelta, String> {
        let mut done = Pending::default();
        let before = match self.replaced.take() {
            None => self.change(source, &mut done),
            Some(replaced) => {
                let before = self.adopt(&replaced, source, &mut done);
                done.replaced = Some(replaced);
                before
            }
        };
        self.pending.push(done);
        before.map(|before| difference(before, |key| self.numbers.get(key).copied()))
    }

    fn accept(&mut self) {
        self.pending = Vec::new();
        self.replaced = None;
    }

    fn undo(&mut self) {
        if let Some(numbers) = self.replaced.take() {
            self.numbers = numbers;
            return;
        }
        let Some(Pending { replaced, before }) = self.pending.pop() else { return };
        for (key, bounds, number) in before.into_iter().rev() {
            match bounds {
                Some(bounds) => self.bounds.insert(key.clone(), bounds),
                None => self.bounds.remove(&key),
            };
            match number {
                Some(number) => self.numbers.insert(key, number),
                None => self.numbers.remove(&key),
            };
        }
        if let Some(numbers) = replaced {
            self.numbers = numbers;
        }
    }

    fn memory(&self) -> Option<Json> {
        let numbers: BTreeMap<&Row, &i64> = self.numbers.iter().collect();
        let held = numbers.into_iter().map(|(key, number)| cells(&numbered(key, *number))).collect();
        Some(
            serde_json::to_value(Memory { held })
                .unwrap_or_else(|error| unreachable!("lists of values are JSON: {error}")),
        )
    }

    fn restore(&mut self, memory: &Json, target: &Table) -> Result<(), String> {
        let Memory { held } = Memory::deserialize(memory).map_err(|error| error.to_string())?;
        let mut numbers = HashMap::new();
        for held in held {
            let (key, number) = target_parts(row(&held, &target.columns)?)?;
            if numbers.insert(key.clone(), number).is_some() {
                return Err(format!("{} has two numbers", quote_row(&key)));
            }
        }
        let before = std::mem::replace(&mut self.numbers, numbers);
        // Several memories before one update: the target has the rows of the first.
        self.replaced.get_or_insert(before);
        Ok(())
    }

    fn follow(&mut self, target: &TableDelta) -> Result<(), String> {
        for row in &target.delete {
            let (key, number) = target_parts(row.clone())?;
            if self.numbers.get(&key) != Some(&number) {
                return Err(format!("{} loses number {number}, which it does not have", quote_row(&key)));
            }
            self.numbers.remove(&key);
        }
        for row in &target.insert {
            let (key, number) = target_parts(row.clone())?;
            if self.numbers.contains_key(&key) {
                return Err(format!("{} gets number {number}, but has one", quote_row(&key)));
            }
            self.numbers.insert(key, number);
        }
        Ok(())
    }

    fn work(&self) -> u64 {
        self.work
    }
}
