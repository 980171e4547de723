//! What a kind of thing in a switch must say of itself, and the changes of one kind.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::sync::Arc;

use nlog_data::{Packed, Row, Value};
use openflow_rs::{Actions, DecodeError, Match};

use crate::pool::Pool;
use crate::table::SwitchTable;

/// A kind of thing in a switch. Each row of its table is one of them, on one host.
pub trait Kind {
    /// The table of the rules.
    const TABLE: SwitchTable;
    /// Whether a thing names the rule that derives it, so that a change of the rule alone is a change of the thing.
    const ATTRIBUTED: bool = false;
    /// What to do with a key that is deleted and added in one transaction.
    const AGAIN: Again = Again::Replaces;
    /// What identifies a thing on its host.
    type Key: Ord + Clone + Debug;
    /// All else about it.
    type Value: Eq + Clone + Debug;

    /// Reads a row: the host, the key and the value.
    ///
    /// # Errors
    /// No switch can have this.
    fn read<'r>(
        row: &'r Row,
        reader: &mut Reader<'_, 'r>,
    ) -> Result<(&'r str, Self::Key, Self::Value), RowError>;

    /// Reads the host and the key of a row.
    ///
    /// # Errors
    /// No switch can have this.
    fn key<'r>(row: &'r Row, reader: &mut Reader<'_, 'r>) -> Result<(&'r str, Self::Key), RowError> {
        Self::read(row, reader).map(|(host, key, _)| (host, key))
    }
}

/// A kind whose things last until a transaction deletes them.
pub trait Lasting: Kind {
    /// The row of a thing: the inverse of [`Kind::read`].
    ///
    /// # Errors
    /// Its bytes cannot be decoded.
    fn row(host: &str, key: &Self::Key, value: &Self::Value) -> Result<Row, DecodeError>;
}

/// What it means that a key is deleted and added in one transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// Its value changes.
    Replaces,
    /// The thing is where it was, so nothing is added.
    IsNoNews,
}

/// The changes of one kind in a switch. An addition replaces a thing with the same key. A key should not be both deleted and added;
/// if it is, the addition wins.
pub struct Edits<K: Kind> {
    /// Keys to delete.
    pub delete: BTreeSet<K::Key>,
    /// Things to add or to replace.
    pub add: BTreeMap<K::Key, K::Value>,
}

impl<K: Kind> Edits<K> {
    /// Things to add.
    pub fn add(things: impl IntoIterator<Item = (K::Key, K::Value)>) -> Self {
        Edits { add: things.into_iter().collect(), ..Edits::default() }
    }

    /// Things to delete.
    pub fn delete(keys: impl IntoIterator<Item = K::Key>) -> Self {
        Edits { delete: keys.into_iter().collect(), ..Edits::default() }
    }

    /// What leads from one state to another.
    pub fn between(before: &BTreeMap<K::Key, K::Value>, after: &BTreeMap<K::Key, K::Value>) -> Self {
        let gone = before.keys().filter(|key| !after.contains_key(*key));
        let other = after.iter().filter(|(key, value)| before.get(*key) != Some(*value));
        Edits {
            delete: gone.cloned().collect(),
            add: other.map(|(key, value)| (key.clone(), value.clone())).collect(),
        }
    }

    /// Leaves out what changes nothing in this state.
    pub fn reduce(&mut self, before: &BTreeMap<K::Key, K::Value>) {
        let add = &self.add;
        self.delete.retain(|key| !add.contains_key(key) && before.contains_key(key));
        self.add.retain(|key, value| before.get(key) != Some(value));
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.delete.is_empty() && self.add.is_empty()
    }

    /// The keys that are deleted and not added again.
    pub fn gone(&self) -> impl Iterator<Item = &K::Key> {
        self.delete.iter().filter(|key| !self.add.contains_key(*key))
    }

    /// The keys that are added, replaced or deleted. One may come twice.
    pub fn keys(&self) -> impl Iterator<Item = &K::Key> {
        self.delete.iter().chain(self.add.keys())
    }

    /// Each key that changes, with its value afterwards.
    pub fn each(&self) -> impl Iterator<Item = (&K::Key, Option<&K::Value>)> {
        let gone = self.gone().map(|key| (key, None));
        gone.chain(self.add.iter().map(|(key, value)| (key, Some(value))))
    }

    /// Applies the changes to a state.
    pub fn apply(&self, state: &mut BTreeMap<K::Key, K::Value>) {
        for key in &self.delete {
            state.remove(key);
        }
        state.extend(self.add.iter().map(|(key, value)| (key.clone(), value.clone())));
    }

    /// Applies the changes to a state that others may share. Copies it only if there are changes.
    pub fn apply_shared(&self, state: &mut Arc<BTreeMap<K::Key, K::Value>>) {
        if !self.is_empty() {
            self.apply(Arc::make_mut(state));
        }
    }

    /// The value of a key of this state after the changes.
    pub fn after<'a>(&'a self, state: &'a BTreeMap<K::Key, K::Value>, key: &K::Key) -> Option<&'a K::Value> {
        let stays = state.get(key).filter(|_| !self.delete.contains(key));
        self.add.get(key).or(stays)
    }

    /// Notes that a row comes. All that go are in `delete` already.
    pub(crate) fn note_come(&mut self, key: K::Key, value: K::Value) {
        match K::AGAIN {
            Again::Replaces => drop(self.delete.remove(&key)),
            Again::IsNoNews if self.delete.contains(&key) => return,
            Again::IsNoNews => {}
        }
        self.add.insert(key, value);
    }
}

impl<K: Kind> Default for Edits<K> {
    fn default() -> Self {
        Edits { delete: BTreeSet::new(), add: BTreeMap::new() }
    }
}

impl<K: Kind> Clone for Edits<K> {
    fn clone(&self) -> Self {
        Edits { delete: self.delete.clone(), add: self.add.clone() }
    }
}

impl<K: Kind> PartialEq for Edits<K> {
    fn eq(&self, other: &Self) -> bool {
        self.delete == other.delete && self.add == other.add
    }
}

impl<K: Kind> Eq for Edits<K> {}

impl<K: Kind> Debug for Edits<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Edits").field("delete", &self.delete).field("add", &self.add).finish()
    }
}

/// Why a row cannot become a thing in a switch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RowError {
    /// A value is one that no switch supports.
    #[error("{0}")]
    Range(String),
    /// The row is not one of the table.
    #[error("{0}")]
    Misfit(String),
}

impl RowError {
    /// A value of a row of this table that no switch supports.
    pub(crate) fn range(table: &SwitchTable, host: &str, why: impl Display) -> RowError {
        RowError::Range(format!("{}: {host}: {why}", table.name))
    }

    /// A row with other values than its table has. The program was checked, so this is a mistake of the evaluator.
    pub(crate) fn misfit(table: &SwitchTable, row: &Row) -> RowError {
        RowError::Misfit(format!("{} has no such row: {row:?}", table.name))
    }
}

/// Reads rows. Encodes each match and each action list once, and shares equal bytes with those in the pool.
pub struct Reader<'p, 'r> {
    pub(crate) pool: &'p mut Pool,
    /// The flow table that the driver keeps for itself, and what it is.
    pub(crate) reserved: Option<(u8, &'static str)>,
    /// The fingerprint of the rule of the row, if it has one, or 0.
    pub(crate) rule: u64,
    matches: Encoded<'r, Match>,
    instructions: Encoded<'r, Actions>,
    buckets: Encoded<'r, Actions>,
}

/// The bytes of the values that were encoded so far.
type Encoded<'r, V> = HashMap<&'r Packed<V>, Arc<[u8]>>;

impl<'p, 'r> Reader<'p, 'r> {
    /// A reader of rows.
    pub fn new(pool: &'p mut Pool) -> Self {
        let (matches, instructions, buckets) = Default::default();
        Reader { pool, reserved: None, rule: 0, matches, instructions, buckets }
    }

    /// The bytes of the match of a flow.
    pub(crate) fn matching<E>(
        &mut self,
        matching: &'r Packed<Match>,
        encode: impl FnOnce(&Match) -> Result<Arc<[u8]>, E>,
    ) -> Result<Arc<[u8]>, E> {
        once(&mut self.matches, self.pool, matching, || encode(&matching.get()))
    }

    /// The bytes of the instructions of a flow.
    pub(crate) fn instructions<E>(
        &mut self,
        actions: &'r Packed<Actions>,
        encode: impl FnOnce(&Packed<Actions>) -> Result<Arc<[u8]>, E>,
    ) -> Result<Arc<[u8]>, E> {
        once(&mut self.instructions, self.pool, actions, || encode(actions))
    }

    /// The bytes of a bucket that has actions alone.
    pub(crate) fn bucket<E>(
        &mut self,
        actions: &'r Packed<Actions>,
        encode: impl FnOnce(&Actions) -> Result<Arc<[u8]>, E>,
    ) -> Result<Arc<[u8]>, E> {
        once(&mut self.buckets, self.pool, actions, || encode(&actions.get()))
    }
}

/// The bytes of a value, encoded unless they are known.
fn once<'r, V, E>(
    known: &mut Encoded<'r, V>,
    pool: &mut Pool,
    value: &'r Packed<V>,
    encode: impl FnOnce() -> Result<Arc<[u8]>, E>,
) -> Result<Arc<[u8]>, E>
where
    Packed<V>: Eq + Hash,
{
    if let Some(bytes) = known.get(value) {
        return Ok(Arc::clone(bytes));
    }
    let mut bytes = encode()?;
    pool.share(&mut bytes);
    known.insert(value, Arc::clone(&bytes));
    Ok(bytes)
}

/// A number of a row, if it is from `first` to `last`.
pub(crate) fn number(
    table: &SwitchTable,
    host: &str,
    what: &str,
    number: i64,
    (first, last): (u32, u32),
) -> Result<u32, RowError> {
    let fault = || {
        let bounds = match first {
            0 => format!("the last is {last}"),
            _ => format!("it is from {first} to {last}"),
        };
        RowError::range(table, host, format!("{what} {number} is out of range; {bounds}"))
    };
    u32::try_from(number).ok().filter(|number| (first..=last).contains(number)).ok_or_else(fault)
}

/// A text as a value of a row.
pub(crate) fn text(text: impl AsRef<str>) -> Value {
    Value::String(text.as_ref().into())
}

/// A number as a value of a row.
pub(crate) fn int(number: impl Into<i64>) -> Value {
    Value::Int(number.into())
}
