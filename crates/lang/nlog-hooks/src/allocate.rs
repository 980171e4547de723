//! `allocate`: numbers that stay as long as they are wanted.

mod pool;
mod saved;

use std::borrow::Cow;

use hashbrown::{HashMap, HashSet};
use nlog_data::quotation::{quote, quote_row};
use nlog_data::{Row, Table, TableDelta, Value};
use serde_json::Value as Json;

use self::pool::{Aged, From, Pool};
use crate::hook::Hook;

/// The number of releases whose order is exact: no pool of at most so many numbers ever has a number given again before another one that was released
/// earlier, and in larger ones a number waits behind so many others.
const EXACT: usize = 1 << 16;

/// Gives each row of the source, an owner, a number of a pool. With a scope, a column of the source, each of its values
/// has a pool.
///
/// An owner keeps its number as long as it is in the source. The number is given again as late as possible: after all
/// that were never given, and after all that were released earlier, except that numbers that were released long ago are given in
/// ascending order. So whoever still uses a number meets no new owner.
/// Within a transaction, numbers are released first; then new owners get theirs, in the order of their values.
///
/// By identity, the last column of the source is not the owner's. An owner whose identity changes is released and gets another
/// number. The numbers alone are remembered, not the identities: they are those of the source.
#[derive(Debug)]
pub struct Allocate {
    first: u64,
    last: u64,
    scope: Option<usize>,
    by_identity: bool,
    exact: usize,
    numbers: Numbers,
    /// The numbers of the target's rows, if others were restored after the last update.
    replaced: Option<Numbers>,
    /// The updates that are not permanent, oldest first.
    pending: Vec<Pending>,
    work: u64,
}

/// All numbers.
#[derive(Debug, Default)]
struct Numbers {
    given: HashMap<Row, u64>,
    /// By the value of the scope; without a scope, there is one pool.
    pools: HashMap<Option<Value>, Pool>,
}

/// What an update has done, to undo it.
#[derive(Debug, Default)]
struct Pending {
    /// The numbers before, if others were restored.
    replaced: Option<Numbers>,
    /// The former owners, in the order of release, with what the release made of older numbers.
    released: Vec<(Row, u64, Option<Aged>)>,
    /// The new owners, in the order of allocation, and where their numbers came from.
    given: Vec<(Row, From)>,
}

impl Allocate {
    /// The numbers from the first to the last one, in a pool for each value of this column.
    pub fn new(first: u64, last: u64, scope: Option<usize>) -> Self {
        let (numbers, replaced, pending) = (Numbers::default(), None, Vec::new());
        Allocate { first, last, scope, by_identity: false, exact: EXACT, numbers, replaced, pending, work: 0 }
    }

    /// The last column of the source is the identity of the owner in the others.
    #[must_use]
    pub fn by_identity(self) -> Self {
        Allocate { by_identity: true, ..self }
    }

    /// The order of release is exact for so many numbers: fewer than in a program, for tests.
    #[must_use]
    pub fn exact_for(self, exact: usize) -> Self {
        Allocate { exact, ..self }
    }

    /// The owners of these rows of the source, which has each of them once, before and after.
    fn owners<'a>(&self, source: &'a TableDelta) -> Cow<'a, TableDelta> {
        if !self.by_identity {
            return Cow::Borrowed(source);
        }
        let owners = |rows: &[Row]| {
            let owner = |row: &Row| row.split_last().map_or_else(Vec::new, |(_, owner)| owner.to_vec());
            rows.iter().map(owner).collect()
        };
        Cow::Owned(TableDelta {
            insert: owners(&source.insert),
            delete: owners(&source.delete),
            ..TableDelta::default()
        })
    }

    /// The value of the owner's scope.
    fn scope_of(&self, owner: &[Value]) -> Option<Value> {
        self.scope.and_then(|column| owner.get(column)).cloned()
    }

    /// The pool of the owner's number.
    fn pool(&mut self, owner: &[Value]) -> &mut Pool {
        let (scope, first) = (self.scope_of(owner), self.first);
        self.numbers.pools.entry(scope).or_insert_with(|| Pool::new(first))
    }

    fn release(&mut self, owner: &Row, done: &mut Pending) -> Option<u64> {
        let number = self.numbers.given.remove(owner)?;
        self.work += 1;
        let exact = self.exact;
        let aged = self.pool(owner).release(number, exact);
        done.released.push((owner.clone(), number, aged));
        Some(number)
    }

    fn give(&mut self, owner: &Row, done: &mut Pending) -> Option<u64> {
        let last = self.last;
        let (number, from) = self.pool(owner).give(last)?;
        self.work += 1;
        self.numbers.given.insert(owner.clone(), number);
        done.given.push((owner.clone(), from));
        Some(number)
    }

    fn change(&mut self, source: &TableDelta, done: &mut Pending) -> Result<TableDelta, String> {
        let mut target = TableDelta::default();
        for owner in &source.delete {
            target.delete.extend(self.release(owner, done).map(|number| numbered(owner, number)));
        }
        for owner in &source.insert {
            let number = self.give(owner, done).ok_or_else(|| self.full(owner))?;
            target.insert.push(numbered(owner, number));
        }
        Ok(target)
    }

    /// The same after other numbers were restored: owners that they lack get numbers, and those that they have in excess lose
    /// theirs.
    fn adopt(
        &mut self,
        before: &Numbers,
        source: &TableDelta,
        done: &mut Pending,
    ) -> Result<TableDelta, String> {
        let gone: HashSet<&Row> = source.delete.iter().collect();
        let mut owners: HashSet<&Row> = before.given.keys().filter(|owner| !gone.contains(owner)).collect();
        owners.extend(&source.insert);
        let given = &self.numbers.given;
        let mut delete: Vec<Row> = given.keys().filter(|owner| !owners.contains(owner)).cloned().collect();
        let mut new: Vec<Row> =
            owners.into_iter().filter(|owner| !given.contains_key(*owner)).cloned().collect();
        // The order of the owners decides who gets which number.
        delete.sort_unstable();
        new.sort_unstable();
        self.work += (before.given.len() + given.len()) as u64;
        self.change(&TableDelta { insert: new, delete, ..TableDelta::default() }, done)?;
        Ok(TableDelta {
            insert: self.numbers.rows_beside(before),
            delete: before.rows_beside(&self.numbers),
            ..TableDelta::default()
        })
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

impl Numbers {
    /// The rows of the target, ascending, that it does not have with the other numbers.
    fn rows_beside(&self, other: &Numbers) -> Vec<Row> {
        let own = self.given.iter().filter(|(owner, number)| other.given.get(*owner) != Some(number));
        let mut rows: Vec<Row> = own.map(|(owner, number)| numbered(owner, *number)).collect();
        rows.sort_unstable();
        rows
    }
}

impl Hook for Allocate {
    fn update(&mut self, source: &TableDelta, _tick: Option<u64>) -> Result<TableDelta, String> {
        let mut done = Pending::default();
        let source = self.owners(source);
        let target = match self.replaced.take() {
            None => self.change(&source, &mut done),
            Some(before) => {
                let target = self.adopt(&before, &source, &mut done);
                done.replaced = Some(before);
                target
            }
        };
        self.pending.push(done);
        target
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
        let Some(Pending { replaced, released, given }) = self.pending.pop() else { return };
        if let Some(numbers) = replaced {
            self.numbers = numbers;
            return;
        }
        for (owner, from) in given.into_iter().rev() {
            let Some(number) = self.numbers.given.remove(&owner) else { continue };
            self.pool(&owner).take_back(number, from);
        }
        for (owner, number, aged) in released.into_iter().rev() {
            self.pool(&owner).unrelease(aged);
            self.numbers.given.insert(owner, number);
        }
    }

    fn memory(&self) -> Option<Json> {
        Some(self.save())
    }

    fn restore(&mut self, memory: &Json, target: &Table) -> Result<(), String> {
        let numbers = self.load(memory, target)?;
        let before = std::mem::replace(&mut self.numbers, numbers);
        // Several memories before one update: the target has the rows of the first.
        self.replaced.get_or_insert(before);
        Ok(())
    }

    fn follow(&mut self, target: &TableDelta) -> Result<(), String> {
        target.delete.iter().try_for_each(|row| self.follow_release(row))?;
        target.insert.iter().try_for_each(|row| self.follow_give(row))
    }

    fn work(&self) -> u64 {
        self.work
    }
}
