//! Saved symbols: numbers, hashes and values of all symbols in use.
//!
//! Most values are never read again: they are the matches and actions of flows that stay. So they are restored as bytes, and a value
//! is decoded when it is first needed. Hashes are saved too, and with them the seed of the hasher, since watched rows are known by
//! the hashes of their values.

use std::borrow::Cow;
use std::hash::BuildHasher as _;
use std::io;

use nlog_data::Value;
use nlog_data::state::{read_value, write_value};

use super::hashes::ValueHashes;
use super::interned::Interned;
use super::{FIRST, HashBuilder, SHARD_LIMIT, SHARDS, Symbols, read};
use crate::checked_bytes::{Broken, In, Out};

/// An interned value.
#[derive(Debug)]
pub(super) enum Stored {
    Here(Value),
    /// Its first byte among the saved values of its shard.
    Saved(u32),
}

/// A part of the table of values.
#[derive(Debug, Default)]
pub(super) struct Shard {
    pub(super) table: Interned<Stored>,
    /// The values that were saved and are not decoded.
    saved: Vec<u8>,
}

/// There is no value at this number.
const FREE: u32 = u32::MAX;

impl Shard {
    /// The value of a number in use.
    #[inline]
    pub(super) fn value(&self, number: u32) -> Value {
        match self.table.thing(number) {
            Stored::Here(value) => value.clone(),
            Stored::Saved(at) => self.decode(*at),
        }
    }

    /// Whether the value of a number is still in its saved form.
    #[inline]
    pub(super) fn is_saved(&self, number: u32) -> bool {
        matches!(self.table.thing(number), Stored::Saved(_))
    }

    #[inline]
    pub(super) fn is(&self, stored: &Stored, value: &Value) -> bool {
        match stored {
            Stored::Here(other) => other == value,
            Stored::Saved(at) => self.decode(*at) == *value,
        }
    }

    /// The number of a value, which is cloned only if it was absent.
    pub(super) fn intern(&mut self, value: Cow<'_, Value>, hash: u64) -> u32 {
        match self.table.find(hash, |other| self.is(other, &value)) {
            // It is in use again, so the next look takes less time.
            Some(number) if self.is_saved(number) => {
                self.table.replace(number, Stored::Here(value.into_owned()));
                number
            }
            Some(number) => number,
            None => self.table.insert(Stored::Here(value.into_owned()), hash, SHARD_LIMIT - FIRST),
        }
    }

    #[cold]
    fn decode(&self, at: u32) -> Value {
        // A checksum covers the bytes, so they are those that `save` wrote.
        read_value(&mut &self.saved[at as usize..]).expect("saved values can be read")
    }

    fn save(&self, hashes: &ValueHashes, out: &mut Out<'_>) -> io::Result<()> {
        let (mut places, mut values) = (Vec::new(), Vec::new());
        for stored in self.table.things() {
            places.push(match stored {
                None => FREE,
                Some(_) => u32::try_from(values.len()).ok().filter(|at| *at < FREE).ok_or_else(|| {
                    io::Error::other("the values are too large to be saved: more than 64 GiB in all")
                })?,
            });
            match stored {
                None => {}
                Some(Stored::Here(value)) => write_value(value, &mut values),
                Some(Stored::Saved(at)) => write_value(&self.decode(*at), &mut values),
            }
        }
        out.all(&places)?;
        out.all(&(0..places.len() as u32).map(|number| hashes.get(number)).collect::<Vec<u64>>())?;
        out.all(&values)
    }
}

/// Symbols as they were saved.
#[derive(Debug)]
pub(crate) struct SavedSymbols {
    seed: u64,
    /// The hash of a certain value.
    known_hash: u64,
    shards: Vec<SavedShard>,
}

#[derive(Debug)]
struct SavedShard {
    places: Vec<u32>,
    hashes: Vec<u64>,
    values: Vec<u8>,
}

impl SavedSymbols {
    pub(crate) fn read(from: &mut In<'_, '_>) -> Result<Self, Broken> {
        let (seed, known_hash) = (from.number()?, from.number()?);
        let shards = (0..SHARDS)
            .map(|_| Ok(SavedShard { places: from.all()?, hashes: from.all()?, values: from.all()? }));
        Ok(SavedSymbols { seed, known_hash, shards: shards.collect::<Result<_, Broken>>()? })
    }

    /// The symbols. Fails if this program hashes values in another way.
    pub(crate) fn restore(self) -> Result<Symbols, Broken> {
        let mut symbols = Symbols { hasher: HashBuilder::of_seed(self.seed), ..Symbols::new() };
        if symbols.hasher.hash_one(known_value()) != self.known_hash {
            return Err(Broken::Damaged);
        }
        for ((shard, known), saved) in symbols.values.iter_mut().zip(&symbols.hashes).zip(self.shards) {
            let SavedShard { places, hashes, values } = saved;
            let fits = |at: &u32| *at == FREE || (*at as usize) < values.len();
            if places.len() != hashes.len() || places.len() > SHARD_LIMIT as usize || !places.iter().all(fits)
            {
                return Err(Broken::Damaged);
            }
            let things = places.into_iter().map(|at| (at != FREE).then_some(Stored::Saved(at)));
            (0..).zip(&hashes).for_each(|(number, hash)| known.set(number, *hash));
            let table = Interned::restore(things.collect(), &hashes);
            *shard = Shard { table, saved: values }.into();
        }
        Ok(symbols)
    }
}

impl Symbols {
    /// Writes all values in use. There may be no failures in use.
    pub(crate) fn save(&self, out: &mut Out<'_>) -> io::Result<()> {
        out.number(self.hasher.seed())?;
        out.number(self.hasher.hash_one(known_value()))?;
        self.values.iter().zip(&self.hashes).try_for_each(|(shard, hashes)| read(shard).save(hashes, out))
    }
}

/// A value whose hash tells whether values are hashed as they were.
fn known_value() -> Value {
    Value::List([Value::Int(1 << 40), Value::String("known".into()), Value::None].into())
}
