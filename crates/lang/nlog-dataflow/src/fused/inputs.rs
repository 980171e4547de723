//! Input tables: stores their rows as symbols, and checks transactions against them.
//!
//! Accepts and refuses the same transactions as [`nlog_data::Inputs`], which stores rows as values. The engine applies
//! a transaction here before its rules run, and undoes it if they refuse it.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use hashbrown::HashSet;
use hashbrown::hash_table::{Entry, HashTable};
use nlog_data::{Role, Row as ValueRow, Schema, TableId, Transaction, TransactionError, inputs};

use super::delta::{Delta, Diff};
use crate::checked_bytes::{Broken, In, Out};
use crate::row::mix;
use crate::symbol::{HashBuilder, Symbol, Symbols};

/// The rows of every input table.
pub(crate) struct Inputs {
    schema: Arc<Schema>,
    /// By table number; tables that are not inputs stay empty.
    tables: Vec<Stored>,
}

/// The net changes of a transaction, and the numbers of inserts and deletes without effect.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// The net change of each input table that changed.
    pub(crate) tables: BTreeMap<TableId, Delta>,
    pub(crate) redundant_inserts: u64,
    pub(crate) redundant_deletes: u64,
}

/// The rows of one table, hashed by their key, or by the whole row if the table has no key.
struct Stored {
    width: usize,
    key: Vec<usize>,
    uniques: Vec<UniqueColumns>,
    /// The rows one after another, with free places among them.
    words: Vec<Symbol>,
    free: Vec<u32>,
    places: HashTable<u32>,
}

/// Columns in which no two rows agree.
#[derive(Clone)]
struct UniqueColumns {
    columns: Vec<usize>,
    /// The rows by these columns.
    places: HashTable<u32>,
}

/// Another row has the key already, or the unique columns.
struct Taken {
    /// The number of the `unique(…)`; `None` for the key.
    unique: Option<usize>,
    /// The place of the other row.
    place: u32,
}

impl Inputs {
    /// Empty tables.
    pub(crate) fn new(schema: Arc<Schema>) -> Self {
        let tables = schema.iter().map(|(_, table)| {
            let width = table.columns.len();
            let key = table.key.clone().unwrap_or_else(|| (0..width).collect());
            let unique =
                |columns: &Vec<usize>| UniqueColumns { columns: columns.clone(), places: HashTable::new() };
            let uniques = table.uniques.iter().map(unique).collect();
            Stored { width, key, uniques, words: Vec::new(), free: Vec::new(), places: HashTable::new() }
        });
        let tables = tables.collect();
        Inputs { schema, tables }
    }

    /// Empty tables of the same schema.
    pub(crate) fn like(&self) -> Self {
        Inputs::new(Arc::clone(&self.schema))
    }

    /// Applies all changes of a transaction, or none of them if a row is refused; see [`nlog_data::Inputs::apply`].
    pub(crate) fn apply(
        &mut self,
        transaction: &Transaction,
        symbols: &Symbols,
    ) -> Result<Changes, TransactionError> {
        let mut touched: Vec<TableId> =
            transaction.delete.keys().chain(transaction.insert.keys()).copied().collect();
        touched.sort_unstable();
        touched.dedup();
        let mut changes = Changes::default();
        for id in touched {
            let delete = transaction.delete.get(&id).map_or(&[][..], Vec::as_slice);
            let insert = transaction.insert.get(&id).map_or(&[][..], Vec::as_slice);
            let done =
                inputs::check_form(&self.schema, id, delete.iter().chain(insert)).map(drop).and_then(|()| {
                    let words = |rows: &[ValueRow]| {
                        let width = self.tables[id.0 as usize].width;
                        let mut delta = Delta::new(width);
                        for row in rows {
                            delta.push_words(row.iter().map(|value| symbols.intern(value)), 1);
                        }
                        delta
                    };
                    let (delete, insert) = (words(delete), words(insert));
                    self.apply_to_table(id, &delete, &insert, &mut changes, symbols)
                });
            if let Err(error) = done {
                self.undo(&changes);
                return Err(error);
            }
        }
        Ok(changes)
    }

    /// Applies one table's part of a transaction. If a row is refused, the table is unchanged.
    pub(crate) fn apply_to_table(
        &mut self,
        id: TableId,
        delete: &Delta,
        insert: &Delta,
        changes: &mut Changes,
        symbols: &Symbols,
    ) -> Result<(), TransactionError> {
        let table = &mut self.tables[id.0 as usize];
        let mut net = Delta::new(table.width);
        for (row, _) in delete.rows() {
            if table.remove(row) {
                net.push(row, -1);
            } else {
                changes.redundant_deletes += 1;
            }
        }
        let (deleted, mut refused) = (!net.is_empty(), false);
        table.reserve(insert.len());
        for (row, _) in insert.rows() {
            match table.insert(row) {
                Ok(true) => net.push(row, 1),
                Ok(false) => changes.redundant_inserts += 1,
                Err(_) => {
                    refused = true;
                    break;
                }
            }
        }
        if refused {
            table.undo(&net);
            return Err(self.duplicate_key(id, delete, insert, symbols));
        }
        if deleted {
            // A row that is deleted and inserted again stays. Each row is present at most once, so no count can
            // overflow.
            let counted = net.consolidate();
            debug_assert!(counted.is_ok());
        }
        if !net.is_empty() {
            changes.tables.insert(id, net);
        }
        Ok(())
    }

    /// The error for the first row, ordered by value, whose key or unique columns are taken.
    fn duplicate_key(
        &mut self,
        id: TableId,
        delete: &Delta,
        insert: &Delta,
        symbols: &Symbols,
    ) -> TransactionError {
        let values = |words: &[Symbol]| words.iter().map(|word| symbols.value(*word)).collect::<ValueRow>();
        let table = &mut self.tables[id.0 as usize];
        let mut done = Delta::new(table.width);
        for (row, _) in delete.rows() {
            if table.remove(row) {
                done.push(row, -1);
            }
        }
        let mut order: Vec<(ValueRow, usize)> =
            (0..insert.len()).map(|at| (values(insert.row(at)), at)).collect();
        order.sort_unstable();
        let mut error = None;
        for (row, at) in &order {
            let words = insert.row(*at);
            match table.insert(words) {
                Ok(true) => done.push(words, 1),
                Ok(false) => {}
                Err(Taken { unique, place }) => {
                    error = Some((row, unique, values(table.row(place))));
                    break;
                }
            }
        }
        table.undo(&done);
        let (row, unique, present) = error.unwrap_or((&order[0].0, None, ValueRow::new()));
        let table = self.schema.table(id);
        let unique = unique.and_then(|unique| table.uniques.get(unique)).map(Vec::as_slice);
        inputs::duplicate_key(table, unique, row, &present)
    }

    /// Undoes the most recent changes.
    pub(crate) fn undo(&mut self, changes: &Changes) {
        for (id, delta) in &changes.tables {
            self.tables[id.0 as usize].undo(delta);
        }
    }

    /// Reapplies changes that were just undone.
    pub(crate) fn redo(&mut self, changes: &Changes) {
        for (id, delta) in &changes.tables {
            self.tables[id.0 as usize].redo(delta);
        }
    }

    /// The rows of a table.
    pub(crate) fn rows(&self, table: TableId) -> Delta {
        let stored = &self.tables[table.0 as usize];
        let mut rows = Delta::new(stored.width);
        for place in &stored.places {
            rows.push(stored.row(*place), 1);
        }
        rows
    }

    /// The rows of a table that have one of these symbols in a column.
    pub(crate) fn rows_with(&self, table: TableId, wanted: &HashSet<Symbol, HashBuilder>) -> Delta {
        let stored = &self.tables[table.0 as usize];
        let mut rows = Delta::new(stored.width);
        if stored.width == 0 {
            return rows;
        }
        // In the order of memory: a table can have 100,000 rows.
        for (row, place) in stored.words.chunks_exact(stored.width).zip(0..) {
            let is_wanted = row.iter().any(|symbol| wanted.contains(symbol));
            // A free place keeps a row that is gone.
            if is_wanted && stored.find(row) == Some(place) {
                rows.push(row, 1);
            }
        }
        rows
    }

    /// Writes the rows of all tables.
    pub(crate) fn save(&self, out: &mut Out<'_>) -> io::Result<()> {
        for table in &self.tables {
            out.number(table.places.len() as u64)?;
            let mut words = Vec::with_capacity(table.places.len() * table.width);
            // In the order of memory, which is that in which rows came.
            let mut places: Vec<u32> = table.places.iter().copied().collect();
            places.sort_unstable();
            for place in places {
                words.extend_from_slice(table.row(place));
            }
            out.all(&words)?;
        }
        Ok(())
    }

    /// Reads the rows of these tables, which are empty.
    pub(crate) fn read(&self, from: &mut In<'_, '_>) -> Result<Vec<Delta>, Broken> {
        let tables = self.tables.iter().map(|table| {
            let (count, words): (u64, Vec<Symbol>) = (from.number()?, from.all()?);
            let mut rows = Delta::new(table.width);
            if table.width == 0 {
                (0..count.min(1)).for_each(|_| rows.push(&[], 1));
            } else {
                words.chunks_exact(table.width).for_each(|row| rows.push(row, 1));
            }
            if rows.len() as u64 == count { Ok(rows) } else { Err(Broken::Damaged) }
        });
        tables.collect()
    }

    /// Takes over the rows of tables that were saved. These are empty.
    pub(crate) fn restore(&mut self, tables: &[Delta]) {
        for (table, rows) in self.tables.iter_mut().zip(tables) {
            table.reserve(rows.len());
            table.redo(rows);
        }
    }

    /// The number of rows of a table.
    pub(crate) fn len(&self, table: TableId) -> usize {
        self.tables[table.0 as usize].places.len()
    }

    /// The number of rows of all tables.
    pub(crate) fn total(&self) -> usize {
        self.tables.iter().map(|table| table.places.len()).sum()
    }

    /// Visits every symbol in a row.
    pub(crate) fn symbols(&self, each: &mut impl FnMut(Symbol)) {
        for table in &self.tables {
            for place in &table.places {
                table.row(*place).iter().copied().for_each(&mut *each);
            }
        }
    }

    /// Takes over the rows of the input tables that both schemas have, by name, and returns the others. A shared table
    /// must have the same columns in both schemas or no rows.
    pub(crate) fn take_over(&mut self, mut other: Inputs) -> Inputs {
        self.swap_tables(&mut other);
        other
    }

    /// The inverse of `take_over`: returns the rows of shared tables.
    pub(crate) fn take_back(&mut self, mut other: Inputs) {
        self.swap_tables(&mut other);
    }

    fn swap_tables(&mut self, other: &mut Inputs) {
        let schema = Arc::clone(&self.schema);
        for (id, _) in schema.iter().filter(|(_, table)| table.role == Role::Input) {
            let found = other.schema.find(&schema.table(id).name);
            let fits = |found: &TableId| {
                let (mine, theirs) = (&self.tables[id.0 as usize], &other.tables[found.0 as usize]);
                other.schema.table(*found).role == Role::Input
                    && (mine.width, &mine.key) == (theirs.width, &theirs.key)
                    && mine
                        .uniques
                        .iter()
                        .map(|unique| &unique.columns)
                        .eq(theirs.uniques.iter().map(|unique| &unique.columns))
            };
            if let Some(found) = found.filter(fits) {
                std::mem::swap(&mut self.tables[id.0 as usize], &mut other.tables[found.0 as usize]);
            }
        }
    }
}

impl Stored {
    #[inline]
    fn row(&self, place: u32) -> &[Symbol] {
        let begin = place as usize * self.width;
        &self.words[begin..begin + self.width]
    }

    fn hash(key: &[usize], row: &[Symbol]) -> u64 {
        // The hash table uses both the high and the low bits.
        mix_of(key.iter().map(|column| row[*column]))
    }

    fn same_key(&self, place: u32, row: &[Symbol]) -> bool {
        let present = self.row(place);
        self.key.iter().all(|column| present[*column] == row[*column])
    }

    /// The place of the row with the same key as this row.
    fn find(&self, row: &[Symbol]) -> Option<u32> {
        self.places.find(Self::hash(&self.key, row), |place| self.same_key(*place, row)).copied()
    }

    fn reserve(&mut self, rows: usize) {
        if rows > 1024 {
            let Stored { width, key, uniques, words, places, .. } = self;
            words.reserve(rows * *width);
            let row = |place: &u32| &words[*place as usize * *width..][..*width];
            places.reserve(rows, |place| Self::hash(key, row(place)));
            for UniqueColumns { columns, places } in uniques {
                places.reserve(rows, |place| Self::hash(columns, row(place)));
            }
        }
    }

    /// Deletes a row. Returns whether it was present.
    fn remove(&mut self, row: &[Symbol]) -> bool {
        let Stored { width, key, uniques, words, places, free } = self;
        let is = |place: &u32| {
            let begin = *place as usize * *width;
            words[begin..begin + *width] == *row
        };
        let Ok(found) = places.find_entry(Self::hash(key, row), is) else { return false };
        let place = found.remove().0;
        for UniqueColumns { columns, places } in uniques {
            let found = places.find_entry(Self::hash(columns, row), |other| *other == place);
            debug_assert!(found.is_ok(), "every row is there once for each of its keys");
            if let Ok(found) = found {
                found.remove();
            }
        }
        free.push(place);
        true
    }

    /// Inserts a row. Returns whether it is new.
    fn insert(&mut self, row: &[Symbol]) -> Result<bool, Taken> {
        let Stored { width, key, uniques, words, places, free } = self;
        let range = |place: u32| place as usize * *width..(place as usize + 1) * *width;
        let same = |columns: &[usize], place: u32| {
            let present = &words[range(place)];
            columns.iter().all(|column| present[*column] == row[*column])
        };
        let rehash = |columns: &[usize], place: &u32| Self::hash(columns, &words[range(*place)]);
        let hash = Self::hash(key, row);
        match places.entry(hash, |place| same(key, *place), |place| rehash(key, place)) {
            Entry::Occupied(present) => {
                let place = *present.get();
                if words[range(place)] == *row { Ok(false) } else { Err(Taken { unique: None, place }) }
            }
            Entry::Vacant(vacant) => {
                for (number, UniqueColumns { columns, places }) in uniques.iter().enumerate() {
                    if let Some(place) = places.find(Self::hash(columns, row), |place| same(columns, *place))
                    {
                        return Err(Taken { unique: Some(number), place: *place });
                    }
                }
                let new = words.len().checked_div(*width).unwrap_or(0) as u32;
                let place = free.pop().unwrap_or(new);
                vacant.insert(place);
                for UniqueColumns { columns, places } in uniques {
                    let hash = Self::hash(columns, row);
                    places.insert_unique(hash, place, |place| rehash(columns, place));
                }
                if place == new {
                    words.extend_from_slice(row);
                } else {
                    words[range(place)].copy_from_slice(row);
                }
                Ok(true)
            }
        }
    }

    fn undo(&mut self, net: &Delta) {
        self.change(net, -1);
    }

    fn redo(&mut self, net: &Delta) {
        self.change(net, 1);
    }

    /// Applies changes with the sign 1, and their inverse with −1. The changes must fit the rows present.
    fn change(&mut self, net: &Delta, sign: Diff) {
        // Removals come first, so that their keys are free for the other rows.
        for (row, _) in net.rows().filter(|(_, diff)| *diff * sign < 0) {
            self.remove(row);
        }
        for (row, _) in net.rows().filter(|(_, diff)| *diff * sign > 0) {
            let fits = self.insert(row).is_ok();
            debug_assert!(fits, "only the most recent changes can be undone or made again");
        }
    }
}

/// Hashes words so that all bits are well distributed.
fn mix_of(words: impl Iterator<Item = Symbol>) -> u64 {
    let mut hash = 0_u64;
    for word in words {
        hash = mix(&[word, hash as u32, (hash >> 32) as u32]);
    }
    hash
}
