//! The values of a document, in few bytes each; their reading from JSON; and the count that bounds an object of either format.
//!
//! Invariant: a tree takes at most 64 bytes of memory for each byte of its text, while it is read and afterwards. `serde_json`'s own
//! values take 170: a mapping of one field, as `{a}` in YAML, is a node with room for eleven.

use std::cell::Cell;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};

use nlog_data::Cancel;
use nlog_data::quotation::cut;
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Number;

use crate::field::form;

/// The most values in one object, including names of fields.
pub(crate) const VALUES_MAX: usize = 100_000;
/// From so many fields on, a mapping that is read has a set of the names that it has.
const MANY: usize = 16;

/// A value of a document.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Tree {
    Null,
    Bool(bool),
    Number(Number),
    Text(Box<str>),
    List(Box<[Tree]>),
    Mapping(Mapping),
}

impl Tree {
    pub(crate) fn is_null(&self) -> bool {
        *self == Tree::Null
    }

    /// The number of values, including names of fields.
    fn count(&self) -> usize {
        1 + match self {
            Tree::List(items) => items.iter().map(Tree::count).sum(),
            Tree::Mapping(map) => map.count(),
            Tree::Null | Tree::Bool(_) | Tree::Number(_) | Tree::Text(_) => 0,
        }
    }

    pub(crate) fn as_str(&self) -> Option<&str> {
        if let Tree::Text(text) = self { Some(text) } else { None }
    }
}

/// A mapping of a document: its fields, in the order of their names.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Mapping(Box<[(Box<str>, Tree)]>);

impl Mapping {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The number of values in it, including names of fields.
    pub(crate) fn count(&self) -> usize {
        self.0.iter().map(|(_, value)| 1 + value.count()).sum()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Tree> {
        let at = self.0.binary_search_by(|(own, _)| (**own).cmp(name)).ok()?;
        Some(&self.0[at].1)
    }

    /// The same with another value of a field, or without the field.
    pub(crate) fn with(&self, name: &str, value: Option<Tree>) -> Mapping {
        let mut fields = self.0.to_vec();
        let found = fields.binary_search_by(|(own, _)| (**own).cmp(name));
        match (found, value) {
            (Ok(at), Some(value)) => fields[at].1 = value,
            (Ok(at), None) => drop(fields.remove(at)),
            (Err(at), Some(value)) => fields.insert(at, (name.into(), value)),
            (Err(_), None) => {}
        }
        Mapping(fields.into())
    }

    pub(crate) fn contains_key(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| &**name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Tree)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }
}

impl From<Mapping> for BTreeMap<Box<str>, Tree> {
    fn from(Mapping(fields): Mapping) -> Self {
        fields.into_iter().collect()
    }
}

impl From<BTreeMap<Box<str>, Tree>> for Mapping {
    fn from(fields: BTreeMap<Box<str>, Tree>) -> Self {
        Mapping(fields.into_iter().collect())
    }
}

/// A mapping that is read.
#[derive(Default)]
pub(crate) struct Fields {
    given: Vec<(Box<str>, Tree)>,
    /// The hashes of the names, once there are many. Of equal hashes the names are compared.
    hashes: HashSet<u64>,
    hasher: RandomState,
}

impl Fields {
    pub(crate) fn has(&self, name: &str) -> bool {
        let is_there = || self.given.iter().any(|(own, _)| **own == *name);
        if self.hashes.is_empty() {
            is_there()
        } else {
            self.hashes.contains(&self.hasher.hash_one(name)) && is_there()
        }
    }

    /// Adds a field that is not there.
    pub(crate) fn push(&mut self, name: Box<str>, value: Tree) {
        if self.given.len() >= MANY {
            if self.hashes.is_empty() {
                self.hashes.extend(self.given.iter().map(|(name, _)| self.hasher.hash_one(&**name)));
            }
            self.hashes.insert(self.hasher.hash_one(&*name));
        }
        self.given.push((name, value));
    }

    pub(crate) fn finish(mut self) -> Tree {
        self.given.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        Tree::Mapping(Mapping(self.given.into()))
    }
}

/// Counts the values of one object, while it is read.
pub(crate) struct Count<'a> {
    cancel: &'a Cancel,
    /// The number of further values allowed.
    left: Cell<usize>,
}

impl<'a> Count<'a> {
    pub(crate) fn new(cancel: &'a Cancel) -> Self {
        Count { cancel, left: Cell::new(VALUES_MAX) }
    }

    /// Counts a value. The error says why it is one too many.
    pub(crate) fn one(&self) -> Result<(), String> {
        if self.cancel.is_cancelled() {
            return Err("cancelled".to_owned());
        }
        let left = self.left.get().checked_sub(1);
        self.left
            .set(left.ok_or_else(|| format!("has more than {VALUES_MAX} values, the limit of one object"))?);
        Ok(())
    }
}

/// Reads one value. Keys of mappings must be texts and unique.
pub(crate) struct TreeSeed<'a>(Count<'a>);

impl<'a> TreeSeed<'a> {
    pub(crate) fn new(cancel: &'a Cancel) -> Self {
        TreeSeed(Count::new(cancel))
    }

    /// For what was accepted before: a document in canonical form can have more values than the one that was read.
    pub(crate) fn unbounded(cancel: &'a Cancel) -> Self {
        TreeSeed(Count { cancel, left: Cell::new(usize::MAX) })
    }
}

impl<'de> DeserializeSeed<'de> for TreeSeed<'_> {
    type Value = Tree;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        (&self).deserialize(deserializer)
    }
}

impl<'de> DeserializeSeed<'de> for &TreeSeed<'_> {
    type Value = Tree;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        self.0.one().map_err(de::Error::custom)?;
        deserializer.deserialize_any(self)
    }
}

/// Reads the items of a list one by one. If an item is the last one wanted, the rest is not read, which counts as a
/// fault.
pub(crate) struct Items<'a> {
    /// Whether the next item is wanted.
    each: &'a mut dyn FnMut(&Tree) -> bool,
    cancel: &'a Cancel,
}

impl<'a> Items<'a> {
    pub(crate) fn new(each: &'a mut dyn FnMut(&Tree) -> bool, cancel: &'a Cancel) -> Self {
        Items { each, cancel }
    }
}

impl<'de> DeserializeSeed<'de> for Items<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Items<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while let Some(item) = items.next_element_seed(TreeSeed::new(self.cancel))? {
            if !(self.each)(&item) {
                break;
            }
        }
        Ok(())
    }
}

impl<'de> Visitor<'de> for &TreeSeed<'_> {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a mapping, a list, text, a number, `true`, `false` or nothing")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Number(value.into()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Tree, E> {
        match Number::from_f64(value) {
            Some(number) => Ok(Tree::Number(number)),
            None => Err(E::custom(format_args!("{value} is not a number that an object can have"))),
        }
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Text(value.into()))
    }

    fn visit_string<E>(self, value: String) -> Result<Tree, E> {
        Ok(Tree::Text(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Tree, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(Tree::List(list.into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Tree, A::Error> {
        let mut fields = Fields::default();
        while let Some(key) = entries.next_key_seed(self)? {
            let Tree::Text(key) = key else {
                return Err(de::Error::custom(format_args!(
                    "a field's name must be text, not {}",
                    form(&key)
                )));
            };
            let value = entries.next_value_seed(self)?;
            if fields.has(&key) {
                return Err(de::Error::custom(format_args!("field `{}` is given twice", cut(&key))));
            }
            fields.push(key, value);
        }
        Ok(fields.finish())
    }
}
