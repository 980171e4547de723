//! Symbols: values as 32-bit words. Small integers and truth values are encoded directly; all other values have a
//! number in a table that all workers of a process share.
//!
//! Equal values have one symbol, so joins and `==` compare words. Integers are exact: an integer that does not fit into
//! 31 bits is interned like a string. The numbers of symbols have no meaningful order, so ordering values requires
//! looking them up.
//!
//! Mark and sweep collects unused symbols: every holder of symbols marks them ([`Marks`]), and unmarked symbols are
//! removed ([`Symbols::sweep`]). This way, copying symbols, which happens everywhere, costs nothing extra. A collection
//! takes time proportional to the state, and runs only after the number of symbols has doubled, in idle time after half of
//! that growth.

mod hashes;
mod hashing;
mod interned;
mod saved;

use std::borrow::Cow;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use nlog_data::{Failure, Value};

use self::hashes::ValueHashes;
pub(crate) use self::hashing::HashBuilder;
use self::interned::{Bits, Interned};
pub(crate) use self::saved::SavedSymbols;
use self::saved::{Shard, Stored};

/// A value, a failure, or no value.
pub(crate) type Symbol = u32;

/// `false`.
pub(crate) const FALSE: Symbol = 0;
/// `true`.
pub(crate) const TRUE: Symbol = 1;
/// The result of a partial function without a value. Never occurs in a row.
pub(crate) const NONE: Symbol = FAILURE | (FAILURE - 2);
/// The absence of a failure.
pub(crate) const NO_FAILURE: Symbol = FAILURE | (FAILURE - 1);

/// Set in small integers, whose other bits are the number in two's complement.
const INTEGER: Symbol = 1 << 31;
/// Set, without [`INTEGER`], in failures.
const FAILURE: Symbol = 1 << 30;

/// The number of shards of the table, each with its own lock.
const SHARDS: u32 = 16;
/// The first entry of a shard, so that [`FALSE`] and [`TRUE`] stay free.
const FIRST: u32 = 1;
/// The most entries of a shard.
const SHARD_LIMIT: u32 = FAILURE / SHARDS;

/// The word of the first position in a dictionary, so that [`FALSE`] and [`TRUE`] stay free.
const FIRST_PLACE: Symbol = TRUE + 1;

/// What a word means to another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// The same everywhere.
    Same,
    /// A value of this process's table.
    Value,
    /// A failure of this process's table.
    Failure,
}

/// Returns what a word means to another process.
#[inline]
pub(crate) fn meaning(symbol: Symbol) -> Meaning {
    match symbol {
        NONE | NO_FAILURE | FALSE | TRUE => Meaning::Same,
        symbol if symbol & INTEGER != 0 => Meaning::Same,
        symbol if is_failure(symbol) => Meaning::Failure,
        _ => Meaning::Value,
    }
}

/// The word for the position of a value or failure in a dictionary; both kinds of positions start at 0. [`meaning`]
/// returns the same for this word as for the original symbol.
pub(crate) fn place_word(meaning: Meaning, place: usize) -> Option<Symbol> {
    let place = Symbol::try_from(place).ok().filter(|place| *place < FAILURE - FIRST_PLACE)?;
    match meaning {
        Meaning::Same => None,
        Meaning::Value => Some(place + FIRST_PLACE),
        Meaning::Failure => Some(FAILURE | place),
    }
}

/// The position encoded in such a word.
pub(crate) fn place_of(word: Symbol) -> usize {
    let place = if is_failure(word) { word & !FAILURE } else { word - FIRST_PLACE };
    place as usize
}

/// Whether the symbol represents a value with a number in the table.
#[inline]
fn is_interned(symbol: Symbol) -> bool {
    symbol & (INTEGER | FAILURE) == 0 && symbol >= FIRST * SHARDS
}

/// Whether the symbol represents a failure.
#[inline]
pub(crate) fn is_failure(symbol: Symbol) -> bool {
    symbol & (INTEGER | FAILURE) == FAILURE
}

/// The symbols of a running engine.
#[derive(Debug)]
pub(crate) struct Symbols {
    hasher: HashBuilder,
    values: [RwLock<Shard>; SHARDS as usize],
    failures: RwLock<Interned<Failure>>,
    /// By shard, the hashes of the values.
    hashes: [ValueHashes; SHARDS as usize],
    /// The bytes of all values that were new, also of those that are gone.
    bytes_made: AtomicU64,
    pins: Pin,
}

/// Keeps symbols from being collected as long as it is there.
pub(crate) type Pin = Arc<()>;

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

impl Symbols {
    pub(crate) fn new() -> Self {
        Symbols {
            hasher: HashBuilder::default(),
            values: std::array::from_fn(|_| RwLock::default()),
            failures: RwLock::default(),
            hashes: Default::default(),
            bytes_made: AtomicU64::new(0),
            pins: Pin::default(),
        }
    }

    /// The symbols of one of several processes, each of which has its own, with the same hashes of values.
    pub(crate) fn of_several_processes() -> Self {
        Symbols { hasher: HashBuilder::of_seed(0), ..Symbols::new() }
    }

    /// The hash that determines the home of a row. Equal values have the same one, whatever their symbols were and are.
    #[inline]
    pub(crate) fn home(&self, symbol: Symbol) -> u32 {
        match meaning(symbol) {
            Meaning::Same => symbol,
            Meaning::Value => fold(hash_of_value(&self.hashes, symbol)),
            // Failures have other numbers in other processes. No row has one, so they need not be spread.
            Meaning::Failure => FAILURE,
        }
    }

    /// Keeps all symbols as long as the result is there.
    pub(crate) fn pin(&self) -> Pin {
        Arc::clone(&self.pins)
    }

    /// Whether symbols outside the engine are in use.
    pub(crate) fn is_pinned(&self) -> bool {
        Arc::strong_count(&self.pins) > 1
    }

    /// The symbol of a value.
    #[inline]
    pub(crate) fn intern(&self, value: &Value) -> Symbol {
        encoded(value).unwrap_or_else(|| self.intern_large(Cow::Borrowed(value)))
    }

    /// The symbol of a value that the caller no longer needs.
    #[inline]
    pub(crate) fn intern_owned(&self, value: Value) -> Symbol {
        encoded(&value).unwrap_or_else(|| self.intern_large(Cow::Owned(value)))
    }

    /// The symbol of a value that has one, which each value in a row has.
    pub(crate) fn find(&self, value: &Value) -> Option<Symbol> {
        encoded(value).or_else(|| self.find_large(value))
    }

    fn find_large(&self, value: &Value) -> Option<Symbol> {
        let (hash, shard) = self.shard_of(value);
        let table = read(&self.values[shard as usize]);
        let number = table.table.find(hash, |other| table.is(other, value))?;
        Some((number + FIRST) * SHARDS + shard)
    }

    /// The hash of a value, and the shard that has its symbol.
    fn shard_of(&self, value: &Value) -> (u64, u32) {
        let hash = self.hasher.hash_one(value);
        (hash, (hash >> 32) as u32 % SHARDS)
    }

    /// The symbol of a value, which is cloned only if it is new.
    fn intern_large(&self, value: Cow<'_, Value>) -> Symbol {
        let (hash, shard) = self.shard_of(&value);
        let lock = &self.values[shard as usize];
        let find = |table: &Shard| {
            let found = table.table.find(hash, |other| table.is(other, &value))?;
            (!table.is_saved(found)).then_some(found)
        };
        let found = find(&read(lock));
        let number = found.unwrap_or_else(|| {
            self.bytes_made.fetch_add(value.bytes(), Ordering::Relaxed);
            let mut table = lock.write().unwrap_or_else(PoisonError::into_inner);
            let number = table.intern(value, hash);
            // Before the lock is released, and with it the number.
            self.hashes[shard as usize].set(number, hash);
            number
        });
        (number + FIRST) * SHARDS + shard
    }

    /// The bytes of all values that were new so far.
    pub(crate) fn bytes_made(&self) -> u64 {
        self.bytes_made.load(Ordering::Relaxed)
    }

    /// The value of a symbol.
    #[inline]
    pub(crate) fn value(&self, symbol: Symbol) -> Value {
        if let Some(value) = inline(symbol) {
            return value;
        }
        let (lock, number) = (&self.values[(symbol % SHARDS) as usize], symbol / SHARDS - FIRST);
        let shard = read(lock);
        let value = shard.value(number);
        if shard.is_saved(number) {
            drop(shard);
            // Not if somebody reads the table, who may be this thread.
            if let Ok(mut shard) = lock.try_write() {
                shard.table.replace(number, Stored::Here(value.clone()));
            }
        }
        value
    }

    /// Locks all values, for reading many.
    pub(crate) fn reader(&self) -> Reader<'_> {
        Reader { values: std::array::from_fn(|shard| read(&self.values[shard])) }
    }

    /// The hashes of values, for hashing rows.
    pub(crate) fn hashes(&self) -> Hashes<'_> {
        Hashes { seed: self.hasher.hash_one(FIRST), values: &self.hashes }
    }

    /// The symbol of a failure.
    pub(crate) fn fail(&self, failure: Failure) -> Symbol {
        let hash = self.hasher.hash_one(&failure);
        let mut table = self.failures.write().unwrap_or_else(PoisonError::into_inner);
        let number = table.find(hash, |other| *other == failure);
        let number = number.unwrap_or_else(|| table.insert(failure, hash, FAILURE - 2));
        FAILURE | number
    }

    /// The failure that a symbol represents.
    pub(crate) fn failure(&self, symbol: Symbol) -> Failure {
        read(&self.failures).thing(symbol & !FAILURE).clone()
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
            let failure = |symbol: Symbol| failures.thing(symbol & !FAILURE);
            if failure(one) <= failure(other) { one } else { other }
        }
    }

    /// The number of interned values.
    pub(crate) fn len(&self) -> usize {
        self.values.iter().map(|shard| read(shard).table.len()).sum()
    }

    /// Forgets every unmarked value, and all failures. Only between transactions: no unmarked symbol may be in use.
    pub(crate) fn sweep(&self, marks: &Marks) {
        for (shard, marked) in self.values.iter().zip(&marks.values) {
            let mut shard = shard.write().unwrap_or_else(PoisonError::into_inner);
            shard.table.sweep(marked);
        }
        let mut failures = self.failures.write().unwrap_or_else(PoisonError::into_inner);
        failures.sweep(&Bits::default());
    }
}

/// The set of symbols in use.
#[derive(Debug, Default, Clone)]
pub(crate) struct Marks {
    values: [Bits; SHARDS as usize],
}

impl Marks {
    /// Adds the marks of another worker.
    pub(crate) fn append(&mut self, other: &Marks) {
        for (mine, theirs) in self.values.iter_mut().zip(&other.values) {
            mine.append(theirs);
        }
    }

    /// Marks a word that may be a symbol. Small integers need no mark.
    #[inline]
    pub(crate) fn symbol(&mut self, symbol: Symbol) {
        if is_interned(symbol) {
            self.values[(symbol % SHARDS) as usize].set(symbol / SHARDS - FIRST);
        }
    }
}

/// The table of values, locked for reading.
pub(crate) struct Reader<'a> {
    values: [RwLockReadGuard<'a, Shard>; SHARDS as usize],
}

impl Reader<'_> {
    /// The value of a symbol.
    #[inline]
    pub(crate) fn value(&self, symbol: Symbol) -> Value {
        match inline(symbol) {
            Some(value) => value,
            None => self.values[(symbol % SHARDS) as usize].value(symbol / SHARDS - FIRST),
        }
    }
}

/// Hashes rows by their values. The hash of a row stays the same when its values were forgotten
/// and have other symbols since. In release builds it differs from run to run, so that no row from outside can be made to
/// have the hash of another.
pub(crate) struct Hashes<'a> {
    seed: u64,
    values: &'a [ValueHashes; SHARDS as usize],
}

/// The hash of a value that has a number.
#[inline]
fn hash_of_value(hashes: &[ValueHashes; SHARDS as usize], symbol: Symbol) -> u64 {
    hashes[(symbol % SHARDS) as usize].get(symbol / SHARDS - FIRST)
}

impl Hashes<'_> {
    /// The hash of some columns of a row.
    #[inline]
    pub(crate) fn of(&self, columns: impl Iterator<Item = Symbol>) -> u64 {
        columns.fold(self.seed, |hash, symbol| {
            let column = if symbol & INTEGER != 0 || symbol <= TRUE {
                u64::from(symbol)
            } else {
                hash_of_value(self.values, symbol)
            };
            // The folded product of 128 bits mixes all bits of both.
            let product = u128::from(hash ^ column) * u128::from(self.seed | 1);
            (product >> u64::BITS) as u64 ^ (product as u64).rotate_left(23)
        })
    }
}

/// A hash of bytes that is the same on every machine: 64-bit FNV-1a (Fowler, Noll, Vo; RFC 9923).
pub(crate) fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn fold(digest: u64) -> u32 {
    (digest >> 32) as u32 ^ digest as u32
}

/// The symbol of an integer that fits.
#[inline]
fn small(value: i64) -> Option<Symbol> {
    let word = i32::try_from(value).ok()?;
    let fits = (word << 1) >> 1 == word;
    fits.then_some(INTEGER | word as u32 & !INTEGER)
}

/// The symbol of a value that needs no table.
#[inline]
fn encoded(value: &Value) -> Option<Symbol> {
    match value {
        Value::Bool(value) => Some(Symbol::from(*value)),
        Value::Int(value) => small(*value),
        _ => None,
    }
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
    fn what_is_not_marked_is_forgotten_and_its_place_used_again() {
        let symbols = Symbols::new();
        let text = |number: u32| Value::String(format!("name {number}").into());
        let kept: Vec<Symbol> = (0..100).map(|number| symbols.intern(&text(number))).collect();
        for round in 1..50 {
            for number in 0..1000 {
                let fresh = round * 1000 + number;
                symbols.intern(&text(fresh));
            }
            let mut marks = Marks::default();
            for symbol in &kept {
                marks.symbol(*symbol);
            }
            symbols.sweep(&marks);
            assert_eq!(symbols.len(), 100);
        }
        let places: usize = symbols.values.iter().map(|shard| read(shard).table.places()).sum();
        // In debug builds, the numbers of the last round are not reusable yet.
        assert!(places <= 1100 * 3, "places are used again: {places}");
        for (number, symbol) in (0..).zip(&kept) {
            assert_eq!(symbols.value(*symbol), text(number));
            assert_eq!(symbols.intern(&text(number)), *symbol);
        }
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "a symbol that is held is marked")]
    fn a_symbol_that_was_forgotten_is_not_read_as_another() {
        let symbols = Symbols::new();
        let text = |number: u32| Value::String(format!("name {number}").into());
        let held = symbols.intern(&text(0));
        symbols.sweep(&Marks::default());
        for number in 1..1000 {
            symbols.intern(&text(number));
        }
        symbols.value(held);
    }

    #[test]
    #[cfg(debug_assertions)]
    fn symbols_are_the_same_on_every_run() {
        let (one, other) = (Symbols::new(), Symbols::new());
        for number in 0..1000 {
            let text = Value::String(format!("name {number}").into());
            assert_eq!(one.intern(&text), other.intern(&text));
        }
    }

    #[test]
    fn a_value_that_was_forgotten_has_the_same_home_when_it_comes_back() {
        let symbols = Symbols::new();
        let text = |number: u32| Value::String(format!("name {number}").into());
        let before: Vec<Symbol> = (0..100).map(|number| symbols.intern(&text(number))).collect();
        let homes: Vec<u32> = before.iter().map(|symbol| symbols.home(*symbol)).collect();
        symbols.sweep(&Marks::default());
        symbols.sweep(&Marks::default());
        let mut after: Vec<Symbol> = (0..100).rev().map(|number| symbols.intern(&text(number))).collect();
        after.reverse();
        assert_ne!(before, after);
        assert_eq!(homes, after.iter().map(|symbol| symbols.home(*symbol)).collect::<Vec<u32>>());
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
