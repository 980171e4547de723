//! Reads transactions by columns from JSON text.
//!
//! The text of a cell is looked up among the earlier texts of its column, and parsed only if it is new. Any
//! irregularity passes the line on to [`parse_line`], which reports the fault.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::hash::BuildHasher as _;

use hashbrown::{DefaultHashBuilder, HashTable, hash_table};
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::read::{Line, LineError, ValueSeed, parse_line};
use crate::{
    ColumnTransaction, Columns, ErrorCode, Role, Schema, Table, TableId, TransactionError, Type, Value,
};

/// A [`Line`] whose transaction is by columns.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ColumnLine {
    /// Its number, if it has one.
    pub txn: Option<u64>,
    /// Its changes; empty if it has an `error` member.
    pub transaction: ColumnTransaction,
    /// Its other members, such as author, time and reason.
    pub origin: serde_json::Map<String, serde_json::Value>,
}

/// [`parse_line`] for long lines: the same transactions and the same errors.
///
/// Needs memory for each column's distinct values and four bytes for each cell.
pub fn parse_line_columns(line: &[u8], number: u64, schema: &Schema) -> Result<ColumnLine, LineError> {
    if let Some(line) = ordinary(line, schema) {
        return Ok(line);
    }
    let Line { txn, transaction, origin } = parse_line(line, number, schema)?;
    match ColumnTransaction::from_rows(&transaction) {
        Ok(transaction) => Ok(ColumnLine { txn, transaction, origin }),
        // Rows conform to their table's columns, so this happens only with more rows than cells can count.
        Err(error) => {
            let error = TransactionError::new(ErrorCode::Range, format!("line {number}: {error}"));
            Err(LineError { txn, error, before: Box::new(transaction) })
        }
    }
}

/// Reads a line without faults and irregularities, quickly; `None` for any other line. [`parse_line_columns`] tries it first.
pub fn ordinary(line: &[u8], schema: &Schema) -> Option<ColumnLine> {
    let mut deserializer = serde_json::Deserializer::from_slice(line);
    let line = LineSeed { schema }.deserialize(&mut deserializer).ok()?;
    deserializer.end().ok()?;
    (!line.origin.contains_key("error")).then_some(line)
}

/// An internal error that marks an irregular line. It is never shown.
fn unusual<E: serde::de::Error>() -> E {
    E::custom("unusual")
}

struct LineSeed<'a> {
    schema: &'a Schema,
}

impl<'de> DeserializeSeed<'de> for LineSeed<'_> {
    type Value = ColumnLine;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<ColumnLine, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for LineSeed<'_> {
    type Value = ColumnLine;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a transaction")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ColumnLine, A::Error> {
        let mut txn = None;
        let (mut insert, mut delete) = (None, None);
        let mut origin = serde_json::Map::new();
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            let seen = match &*name {
                "txn" => txn.replace(map.next_value::<u64>()?).is_some(),
                "insert" => insert.replace(map.next_value_seed(SideSeed { schema: self.schema })?).is_some(),
                "delete" => delete.replace(map.next_value_seed(SideSeed { schema: self.schema })?).is_some(),
                _ => origin.insert(name.into_owned(), map.next_value()?).is_some(),
            };
            if seen {
                return Err(unusual());
            }
        }
        let transaction =
            ColumnTransaction { insert: insert.unwrap_or_default(), delete: delete.unwrap_or_default() };
        Ok(ColumnLine { txn, transaction, origin })
    }
}

/// Reads `insert` or `delete`.
struct SideSeed<'a> {
    schema: &'a Schema,
}

impl<'de> DeserializeSeed<'de> for SideSeed<'_> {
    type Value = BTreeMap<TableId, Columns>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for SideSeed<'_> {
    type Value = BTreeMap<TableId, Columns>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with an array of rows for each table")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut side = BTreeMap::new();
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            let id = self.schema.find(&name).ok_or_else(unusual)?;
            let table = self.schema.table(id);
            if table.role != Role::Input {
                return Err(unusual());
            }
            let rows = map.next_value_seed(RowsSeed { table })?;
            match side.entry(id) {
                Entry::Occupied(_) => return Err(unusual()),
                Entry::Vacant(entry) => entry.insert(rows),
            };
        }
        Ok(side)
    }
}

/// Reads an array of rows.
struct RowsSeed<'a> {
    table: &'a Table,
}

impl<'de> DeserializeSeed<'de> for RowsSeed<'_> {
    type Value = Columns;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Columns, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for RowsSeed<'_> {
    type Value = Columns;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of rows")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Columns, A::Error> {
        let columns = &self.table.columns;
        if columns.iter().any(|column| nesting(&column.ty) > DEEPEST) {
            return Err(unusual());
        }
        // In a column that is a key by itself, the values are distinct.
        let differ = |column| self.table.key.as_ref().is_some_and(|key| key[..] == [column]);
        let readers = columns.iter().enumerate().map(|(at, column)| CellReader::new(&column.ty, differ(at)));
        let mut readers: Vec<_> = readers.collect();
        let (mut cells, mut rows) = (Vec::new(), 0);
        while seq.next_element_seed(RowSeed { readers: &mut readers, cells: &mut cells })?.is_some() {
            rows += 1;
        }
        let dictionaries = readers.into_iter().map(|reader| reader.values).collect();
        Ok(Columns { dictionaries, cells, rows })
    }
}

/// The maximum nesting of a type here. The depth limit of 128 counts from the beginning of the line; a cell parsed
/// by itself would be allowed more.
const DEEPEST: usize = 64;

/// The nesting depth of arrays in JSON values of the type.
fn nesting(ty: &Type) -> usize {
    match ty {
        Type::Set(of) | Type::List(of) => 1 + nesting(of),
        Type::Opt(of) => nesting(of),
        Type::Constrained(of) => nesting(&of.base),
        Type::Record(of) => 1 + of.fields.iter().map(|(_, ty)| nesting(ty)).max().unwrap_or_default(),
        _ => 0,
    }
}

/// Reads one row and stores its cells.
struct RowSeed<'r, 'a, 'de> {
    readers: &'r mut [CellReader<'a, 'de>],
    cells: &'r mut Vec<u32>,
}

impl<'de> DeserializeSeed<'de> for RowSeed<'_, '_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for RowSeed<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a row")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        for reader in self.readers {
            let text = seq.next_element::<&'de RawValue>()?.ok_or_else(unusual)?;
            self.cells.push(reader.cell(text.get()).ok_or_else(unusual)?);
        }
        // The parser refuses a longer row when it expects the row's end.
        Ok(())
    }
}

/// The cells of one column: their distinct texts, and the texts' values.
struct CellReader<'a, 'de> {
    ty: &'a Type,
    values: Vec<Value>,
    /// The text of each value. Several texts can mean one value.
    texts: Vec<&'de str>,
    /// The key of each text and its index. A column whose values are known to be distinct needs no lookup.
    places: Option<HashTable<(TextKey, u32)>>,
    hasher: DefaultHashBuilder,
    /// The last cell; the next one often has the same text.
    last: Option<(TextKey, u32)>,
}

/// The text itself if it has up to 15 bytes, so that a lookup touches one place in memory; otherwise its hash.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct TextKey([u64; 2]);

impl TextKey {
    /// The last byte of the key of a long text; a short text has its length there.
    const LONG: u8 = u8::MAX;

    fn new(text: &str, hasher: &DefaultHashBuilder) -> Self {
        let mut bytes = [0; 16];
        match bytes.get_mut(..text.len()) {
            Some(start) if text.len() < 16 => {
                start.copy_from_slice(text.as_bytes());
                bytes[15] = text.len() as u8;
            }
            _ => {
                bytes[..8].copy_from_slice(&hasher.hash_one(text).to_ne_bytes());
                bytes[15] = Self::LONG;
            }
        }
        let word = u128::from_le_bytes(bytes);
        TextKey([word as u64, (word >> 64) as u64])
    }

    /// Whether different texts can have this key.
    fn is_long(self) -> bool {
        (self.0[1] >> 56) as u8 == Self::LONG
    }
}

impl<'a, 'de> CellReader<'a, 'de> {
    fn new(ty: &'a Type, differ: bool) -> Self {
        let places = (!differ).then(HashTable::new);
        let hasher = DefaultHashBuilder::default();
        CellReader { ty, values: Vec::new(), texts: Vec::new(), places, hasher, last: None }
    }

    /// The index of the text's value, if it is a value of the column's type.
    fn cell(&mut self, text: &'de str) -> Option<u32> {
        let Some(places) = &mut self.places else {
            self.values.push(read(self.ty, text)?);
            return u32::try_from(self.values.len() - 1).ok();
        };
        let key = TextKey::new(text, &self.hasher);
        let same = |(other, place): &(TextKey, u32)| {
            *other == key && (!key.is_long() || self.texts[*place as usize] == text)
        };
        if let Some(last) = self.last.filter(same) {
            return Some(last.1);
        }
        let hash = |(key, _): &(TextKey, u32)| self.hasher.hash_one(key);
        let found = match places.entry(self.hasher.hash_one(key), same, hash) {
            hash_table::Entry::Occupied(found) => *found.get(),
            hash_table::Entry::Vacant(free) => {
                self.values.push(read(self.ty, text)?);
                self.texts.push(text);
                let place = u32::try_from(self.values.len() - 1).ok()?;
                *free.insert((key, place)).get()
            }
        };
        self.last = Some(found);
        Some(found.1)
    }
}

/// The value of a cell's text, if it is a value of the type.
fn read(ty: &Type, text: &str) -> Option<Value> {
    ValueSeed::new(ty).deserialize(&mut serde_json::Deserializer::from_str(text)).ok()?.ok()
}
