//! Values as 32 bits: small integers as they are, everything else by its number in a table that all workers share.
//!
//! Equal values have one symbol, so that joins and `==` compare words. Integers are exact: one that does not fit into
//! 31 bits is interned like a string. Symbols have no order of their own; whatever is ordered is looked up.
//!
//! Symbols are not given back yet: a long life with ever new names grows the table. Reclamation comes with the fused
//! engine, whose traces know which symbols are alive.

use std::hash::BuildHasher;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use hashbrown::{DefaultHashBuilder, HashTable};
use nlog_data::{Failure, Value};

/// A value, a failure, or none.
pub(crate) type Symbol = u32;

/// `false`.
pub(crate) const FALSE: Symbol = 0;
/// `true`.
pub(crate) const TRUE: Symbol = 1;
/// What a partial function gives where it has no value. Never in a row.
pub(crate) const NONE: Symbol = FAILURE | (FAILURE - 2);
/// Nothing failed.
pub(crate) const NO_FAILURE: Symbol = FAILURE | (FAILURE - 1);

/// Set in small integers, whose other bits are the number in two's complement.
const INTEGER: Symbol = 1 << 31;
/// Set, without [`INTEGER`], in failures.
const FAILURE: Symbol = 1 << 30;

/// How many parts the table has, each with its lock.
const SHARDS: u32 = 16;
/// A shard's first entry, so that [`FALSE`] and [`TRUE`] stay free.
const FIRST: u32 = 1;
/// A shard's entries.
const SHARD_LIMIT: u32 = FAILURE / SHARDS;

/// Whether the symbol stands for a failure.
#[inline]
pub(crate) fn is_failure(symbol: Symbol) -> bool {
    symbol & (INTEGER | FAILURE) == FAILURE
}

/// The symbols of a program's run.
#[derive(Debug)]
pub(crate) struct Symbols {
    hasher: DefaultHashBuilder,
    values: [RwLock<Interned<Value>>; SHARDS as usize],
    failures: RwLock<Interned<Failure>>,
    tuples: RwLock<Interned<Tuple>>,
}

/// The columns of a wide row that have no words of their own.
#[derive(Debug)]
struct Tuple(Box<[Symbol]>);

/// Things with numbers.
#[derive(Debug)]
struct Interned<T> {
    things: Vec<T>,
    numbers: HashTable<u32>,
}

impl<T> Default for Interned<T> {
    fn default() -> Self {
        Interned { things: Vec::new(), numbers: HashTable::new() }
    }
}

impl<T> Interned<T> {
    fn find(&self, hash: u64, is: impl Fn(&T) -> bool) -> Option<u32> {
        self.numbers.find(hash, |number| is(&self.things[*number as usize])).copied()
    }

    /// The number of a thing that is not there.
    ///
    /// # Panics
    /// If there are too many: memory ends long before.
    fn insert(&mut self, thing: T, hash: u64, limit: u32, hash_of: impl Fn(&T) -> u64) -> u32 {
        let number = self.things.len() as u32;
        assert!(number < limit, "the symbol table is full");
        self.things.push(thing);
        let things = &self.things;
        self.numbers.insert_unique(hash, number, |number| hash_of(&things[*number as usize]));
        number
    }
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

impl Symbols {
    pub(crate) fn new() -> Self {
        Symbols {
            hasher: DefaultHashBuilder::default(),
            values: std::array::from_fn(|_| RwLock::default()),
            failures: RwLock::default(),
            tuples: RwLock::default(),
        }
    }

    /// The symbol of a value.
    #[inline]
    pub(crate) fn intern(&self, value: &Value) -> Symbol {
        match value {
            Value::Bool(value) => Symbol::from(*value),
            Value::Int(value) => small(*value).unwrap_or_else(|| self.intern_large(&Value::Int(*value))),
            value => self.intern_large(value),
        }
    }

    fn intern_large(&self, value: &Value) -> Symbol {
        let hash = self.hasher.hash_one(value);
        let shard = (hash >> 32) as u32 % SHARDS;
        let lock = &self.values[shard as usize];
        let found = read(lock).find(hash, |other| other == value);
        let number = found.unwrap_or_else(|| {
            let mut table = lock.write().unwrap_or_else(PoisonError::into_inner);
            let found = table.find(hash, |other| other == value);
            found.unwrap_or_else(|| {
                table.insert(value.clone(), hash, SHARD_LIMIT - FIRST, |value| self.hasher.hash_one(value))
            })
        });
        (number + FIRST) * SHARDS + shard
    }

    /// The value of a symbol.
    #[inline]
    pub(crate) fn value(&self, symbol: Symbol) -> Value {
        match inline(symbol) {
            Some(value) => value,
            None => read(&self.values[(symbol % SHARDS) as usize]).things[(symbol / SHARDS - FIRST) as usize]
                .clone(),
        }
    }

    /// All values at once, for reading many.
    pub(crate) fn reader(&self) -> Reader<'_> {
        Reader { values: std::array::from_fn(|shard| read(&self.values[shard])) }
    }

    /// The symbol of a failure.
    pub(crate) fn fail(&self, failure: Failure) -> Symbol {
        let hash = self.hasher.hash_one(&failure);
        let mut table = self.failures.write().unwrap_or_else(PoisonError::into_inner);
        let number = table.find(hash, |other| *other == failure).unwrap_or_else(|| {
            table.insert(failure, hash, FAILURE - 2, |failure| self.hasher.hash_one(failure))
        });
        FAILURE | number
    }

    /// The failure of a symbol that stands for one.
    pub(crate) fn failure(&self, symbol: Symbol) -> Failure {
        read(&self.failures).things[(symbol & !FAILURE) as usize].clone()
    }

    /// The lesser of two failures, either of which can be [`NO_FAILURE`].
    #[inline]
    pub(crate) fn least_failure(&self, one: Symbol, other: Symbol) -> Symbol {
        if one == other || other == NO_FAILURE {
            one
        } else if one == NO_FAILURE {
            other
        } else {
            let failures = read(&self.failures);
            let failure = |symbol: Symbol| &failures.things[(symbol & !FAILURE) as usize];
            if failure(one) <= failure(other) { one } else { other }
        }
    }

    /// The symbol of a tuple of symbols.
    pub(crate) fn tuple(&self, columns: &[Symbol]) -> Symbol {
        let hash = self.hasher.hash_one(columns);
        let is = |other: &Tuple| *other.0 == *columns;
        if let Some(number) = read(&self.tuples).find(hash, is) {
            return number;
        }
        let mut table = self.tuples.write().unwrap_or_else(PoisonError::into_inner);
        table.find(hash, is).unwrap_or_else(|| {
            table.insert(Tuple(columns.into()), hash, Symbol::MAX, |tuple| self.hasher.hash_one(&*tuple.0))
        })
    }

    /// Looks at the columns of a tuple.
    pub(crate) fn with_tuple(&self, tuple: Symbol, look: impl FnOnce(&[Symbol])) {
        look(&read(&self.tuples).things[tuple as usize].0);
    }
}

/// The table of values, held for reading.
pub(crate) struct Reader<'a> {
    values: [RwLockReadGuard<'a, Interned<Value>>; SHARDS as usize],
}

impl Reader<'_> {
    /// The value of a symbol.
    #[inline]
    pub(crate) fn value(&self, symbol: Symbol) -> Value {
        match inline(symbol) {
            Some(value) => value,
            None => {
                self.values[(symbol % SHARDS) as usize].things[(symbol / SHARDS - FIRST) as usize].clone()
            }
        }
    }
}

/// The symbol of an integer that fits into it.
#[inline]
fn small(value: i64) -> Option<Symbol> {
    let word = i32::try_from(value).ok()?;
    let fits = (word << 1) >> 1 == word;
    fits.then_some(INTEGER | word as u32 & !INTEGER)
}

/// The value of a symbol that needs no table.
#[inline]
fn inline(symbol: Symbol) -> Option<Value> {
    if symbol & INTEGER != 0 {
        Some(Value::Int(i64::from(((symbol << 1) as i32) >> 1)))
    } else if symbol <= TRUE {
        Some(Value::Bool(symbol == TRUE))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_exact_and_unique() {
        let symbols = Symbols::new();
        let mut values: Vec<Value> = [0, 1, -1, i64::MIN, i64::MAX]
            .into_iter()
            .chain(
                [30, 31, 32]
                    .into_iter()
                    .flat_map(|bit| (-2..=2).flat_map(move |by| [(1i64 << bit) + by, by - (1 << bit)])),
            )
            .map(Value::Int)
            .collect();
        values.extend([
            Value::Bool(false),
            Value::Bool(true),
            Value::String("".into()),
            Value::String("a".into()),
        ]);
        values.extend([Value::List([].into()), Value::Set([].into()), Value::Ip([127, 0, 0, 1].into())]);
        values.sort();
        values.dedup();
        let words: Vec<Symbol> = values.iter().map(|value| symbols.intern(value)).collect();
        let reader = symbols.reader();
        for (value, word) in values.iter().zip(&words) {
            assert_eq!(*value, symbols.value(*word));
            assert_eq!(*value, reader.value(*word));
            assert!(!is_failure(*word), "{value:?}");
        }
        drop(reader);
        assert_eq!(
            words,
            values.iter().map(|value| symbols.intern(value)).collect::<Vec<_>>(),
            "one symbol each"
        );
        let mut unique = words.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), values.len());
    }

    #[test]
    fn failures_are_ordered_by_what_they_say() {
        let symbols = Symbols::new();
        let late = symbols.fail(Failure::range("a"));
        let early = symbols.fail(Failure::overflow("b"));
        assert!(is_failure(late) && is_failure(early) && is_failure(NONE) && is_failure(NO_FAILURE));
        assert_eq!(symbols.least_failure(late, early), early);
        assert_eq!(symbols.least_failure(NO_FAILURE, late), late);
        assert_eq!(symbols.least_failure(late, NO_FAILURE), late);
        assert_eq!(symbols.failure(late), Failure::range("a"));
    }
}
