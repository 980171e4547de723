//! `allocate`: numbers that stay as long as they are wanted.

use std::collections::VecDeque;

use hashbrown::HashMap;
use nlog_data::quotation::{quote, quote_row};
use nlog_data::{Row, TableDelta, Value};

use crate::hook::Hook;

/// Gives each row of the source, an owner, a number of a pool. With a scope, a column of the source, each of its values
/// has a pool.
///
/// An owner keeps its number as long as it is in the source. The number is given again as late as possible: after all
/// that were never given, and after all that were released earlier. So whoever still uses a number meets no new owner.
/// Within a transaction, numbers are released first; then new owners get theirs, in the order of their values.
#[derive(Debug)]
pub struct Allocate {
    first: u64,
    last: u64,
    scope: Option<usize>,
    given: HashMap<Row, u64>,
    /// By the value of the scope; without a scope, there is one pool.
    pools: HashMap<Option<Value>, Pool>,
    pending: Pending,
    work: u64,
}

/// The numbers without owners.
#[derive(Debug)]
struct Pool {
    /// The least number that was never given; after the last one, none is left.
    never_given: u64,
    /// The least recently released first.
    released: VecDeque<u64>,
}

/// What the pending update has done, to undo it.
#[derive(Debug, Default)]
struct Pending {
    /// The former owners, in the order of release.
    released: Vec<(Row, u64)>,
    /// The new owners, in the order of allocation, and whether the number had been released before.
    given: Vec<(Row, bool)>,
}

impl Allocate {
    /// The numbers from the first to the last one, in a pool for each value of this column.
    pub fn new(first: u64, last: u64, scope: Option<usize>) -> Self {
        let (given, pools) = (HashMap::new(), HashMap::new());
        Allocate { first, last, scope, given, pools, pending: Pending::default(), work: 0 }
    }

    /// The pool of the owner's number.
    fn pool(&mut self, owner: &Row) -> &mut Pool {
        let scope = self.scope.and_then(|column| owner.get(column)).cloned();
        let first = self.first;
        self.pools.entry(scope).or_insert_with(|| Pool { never_given: first, released: VecDeque::new() })
    }

    fn release(&mut self, owner: &Row) -> Option<u64> {
        let number = self.given.remove(owner)?;
        self.work += 1;
        self.pool(owner).released.push_back(number);
        self.pending.released.push((owner.clone(), number));
        Some(number)
    }

    fn give(&mut self, owner: &Row) -> Option<u64> {
        let last = self.last;
        let pool = self.pool(owner);
        let fresh = pool.never_given <= last;
        let number = if fresh { pool.never_given } else { pool.released.pop_front()? };
        pool.never_given += u64::from(fresh);
        self.work += 1;
        self.given.insert(owner.clone(), number);
        self.pending.given.push((owner.clone(), !fresh));
        Some(number)
    }

    fn full(&self, owner: &Row) -> String {
        let Allocate { first, last, .. } = self;
        let scope = self.scope.and_then(|column| owner.get(column));
        let scope = scope.map(|value| format!(" for {}", quote(value))).unwrap_or_default();
        format!(
            "every number from {first} to {last} is in use{scope}, and none is left for {}; delete owners that are no \
             longer needed, or give the hook a wider range",
            quote_row(owner)
        )
    }
}

/// A row of the target.
fn numbered(owner: &Row, number: u64) -> Row {
    let number = Value::Int(number.cast_signed());
    owner.iter().cloned().chain([number]).collect()
}

impl Hook for Allocate {
    fn update(&mut self, source: &TableDelta, _tick: Option<u64>) -> Result<TableDelta, String> {
        let mut target = TableDelta::default();
        for owner in &source.delete {
            target.delete.extend(self.release(owner).map(|number| numbered(owner, number)));
        }
        for owner in &source.insert {
            let number = self.give(owner).ok_or_else(|| self.full(owner))?;
            target.insert.push(numbered(owner, number));
        }
        Ok(target)
    }

    fn accept(&mut self) {
        self.pending = Pending::default();
    }

    fn undo(&mut self) {
        let Pending { released, given } = std::mem::take(&mut self.pending);
        for (owner, again) in given.into_iter().rev() {
            let Some(number) = self.given.remove(&owner) else { continue };
            let pool = self.pool(&owner);
            if again {
                pool.released.push_front(number);
            } else {
                pool.never_given = number;
            }
        }
        for (owner, number) in released.into_iter().rev() {
            self.pool(&owner).released.pop_back();
            self.given.insert(owner, number);
        }
    }

    fn work(&self) -> u64 {
        self.work
    }
}
