//! Reads values and transactions from JSON text.

use std::borrow::Cow;
use std::collections::btree_map::{BTreeMap, Entry};
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::quotation::{cut, names, quote_text};
use crate::types::Record;
use crate::{
    Column, ErrorCode, InterfaceAddressError, Role, Row, Schema, TableId, Transaction, TransactionError,
    Type, Value,
};

/// The contents of a line that is a transaction.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Line {
    /// Its number, if it has one.
    pub txn: Option<u64>,
    /// Its changes; empty if it has an `error` member.
    pub transaction: Transaction,
    /// Its other members, such as author, time and reason.
    pub origin: serde_json::Map<String, serde_json::Value>,
}

/// A line that is not a valid transaction for the schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct LineError {
    /// Its transaction number, if the line is a JSON object and has one.
    pub txn: Option<u64>,
    /// Why it is refused.
    pub error: TransactionError,
    /// The rows before the fault, by table name and position. If they contain a fault themselves (a second row under
    /// a key), that fault comes first: see [`crate::Evaluator::check`].
    pub before: Box<Transaction>,
}

/// A JSON value that does not have the expected type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a value of type {expected}, found {found}{}", why.as_deref().map(|why| format!(": \
{why}")).unwrap_or_default())]
pub struct Mismatch {
    /// The expected type.
    pub expected: Type,
    /// The value found, shortened.
    pub found: String,
    /// The reason, if the type alone does not explain it.
    pub why: Option<String>,
}

/// Reads one line (without its line feed) of a file of transactions; `number` is the line's number in it, from 1.
///
/// Of several faults, the first is reported: by table name, then deletes before inserts, then by position. Duplicate
/// members are `bad-json`.
pub fn parse_line(line: &[u8], number: u64, schema: &Schema) -> Result<Line, LineError> {
    let mut deserializer = serde_json::Deserializer::from_slice(line);
    let members = LineSeed { schema }
        .deserialize(&mut deserializer)
        .and_then(|members| deserializer.end().map(|()| members));
    let members = match members {
        Ok(members) => members,
        Err(error) => {
            let mut origin = members_of(line);
            let txn = origin.get("txn").and_then(serde_json::Value::as_u64);
            if origin.contains_key("error") {
                origin.retain(|member, _| !matches!(member.as_str(), "txn" | "insert" | "delete"));
                return Ok(Line { txn, origin, ..Line::default() });
            }
            let error = bad_json(&error, line, number);
            return Err(LineError { txn, error, before: Box::default() });
        }
    };
    let Members { txn, mut insert, mut delete, origin } = members;
    if origin.contains_key("error") {
        return Ok(Line { txn, transaction: Transaction::default(), origin });
    }
    // Both maps are in name order. If a table has a fault in both, the fault among its deletes counts.
    let first = |side: &Side| side.faults.keys().next().cloned();
    let (in_insert, in_delete) = (first(&insert), first(&delete));
    if let Some(faulty) = in_insert.iter().chain(&in_delete).min() {
        let in_delete = in_delete.as_ref() == Some(faulty);
        let error = if in_delete { delete.faults.remove(faulty) } else { insert.faults.remove(faulty) };
        // Inserts follow all deletes, so they count only if the deletes have no fault.
        insert.keep_before(faulty, !in_delete, schema);
        delete.keep_before(faulty, true, schema);
        if let Some(error) = error {
            let before = Box::new(Transaction { insert: insert.rows, delete: delete.rows });
            return Err(LineError { txn, error, before });
        }
    }
    let transaction = Transaction { insert: insert.rows, delete: delete.rows };
    Ok(Line { txn, transaction, origin })
}

/// Reads a JSON value as a value of this type.
pub fn from_json(json: &serde_json::Value, ty: &Type) -> Result<Value, Mismatch> {
    let read: Result<_, serde_json::Error> = ValueSeed::new(ty).deserialize(json);
    read.unwrap_or_else(|error| Err(mismatch(ty, "this", Some(error.to_string()))))
}

/// The members of a line that is not a transaction; none if it is not an object. Its transaction number still counts,
/// and a line with an `error` member need not be a transaction.
fn members_of(line: &[u8]) -> serde_json::Map<String, serde_json::Value> {
    serde_json::from_slice(line).unwrap_or_default()
}

/// The error of a line that is not JSON of the expected form, with its place.
fn bad_json(error: &serde_json::Error, line: &[u8], number: u64) -> TransactionError {
    let text = error.to_string();
    let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
    // The found value may be a long text; the expected type comes after it.
    let what = match what.rsplit_once(", expected ") {
        Some((found, expected)) => format!("{}, expected {}", cut(found), cut(expected)),
        None => what.to_owned(),
    };
    let before = line.get(..error.column().saturating_sub(1)).unwrap_or(line);
    let column = String::from_utf8_lossy(before).chars().count() + 1;
    TransactionError::new(ErrorCode::BadJson, format!("line {number}, column {column}: {what}"))
}

/// The members of a line.
#[derive(Default)]
struct Members {
    txn: Option<u64>,
    insert: Side,
    delete: Side,
    origin: serde_json::Map<String, serde_json::Value>,
}

/// The contents of `insert` or `delete`.
#[derive(Default)]
struct Side {
    rows: BTreeMap<TableId, Vec<Row>>,
    /// The first fault of each table that has one.
    faults: BTreeMap<String, TransactionError>,
}

impl Side {
    /// Drops the tables after the faulty one, and the faulty one too unless it is to be kept. A table that accepts no
    /// rows has no rows to keep.
    fn keep_before(&mut self, faulty: &str, keep_faulty: bool, schema: &Schema) {
        self.rows.retain(|&id, rows| {
            let name = schema.table(id).name.as_str();
            name < faulty || (name == faulty && keep_faulty && !rows.is_empty())
        });
    }
}

struct LineSeed<'a> {
    schema: &'a Schema,
}

impl<'de> DeserializeSeed<'de> for LineSeed<'_> {
    type Value = Members;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Members, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for LineSeed<'_> {
    type Value = Members;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a transaction: an object with the members insert and delete")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
        let mut members = Members::default();
        let (mut has_insert, mut has_delete) = (false, false);
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            let seen = match &*name {
                "txn" => {
                    let number: serde_json::Value = map.next_value()?;
                    let number = number
                        .as_u64()
                        .ok_or_else(|| A::Error::custom("txn must be a non-negative integer"))?;
                    members.txn.replace(number).is_some()
                }
                "insert" => {
                    members.insert = map.next_value_seed(SideSeed { schema: self.schema, side: "insert" })?;
                    std::mem::replace(&mut has_insert, true)
                }
                "delete" => {
                    members.delete = map.next_value_seed(SideSeed { schema: self.schema, side: "delete" })?;
                    std::mem::replace(&mut has_delete, true)
                }
                _ => members.origin.insert(name.clone().into_owned(), map.next_value()?).is_some(),
            };
            if seen {
                return Err(A::Error::custom(format!("duplicate member {}", quote_text(&name))));
            }
        }
        Ok(members)
    }
}

/// Reads `insert` or `delete`: an object with an array of rows for each table.
struct SideSeed<'a> {
    schema: &'a Schema,
    side: &'static str,
}

impl<'de> DeserializeSeed<'de> for SideSeed<'_> {
    type Value = Side;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Side, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for SideSeed<'_> {
    type Value = Side;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with an array of rows for each table")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Side, A::Error> {
        let mut side = Side::default();
        let mut unknown: BTreeMap<String, ()> = BTreeMap::new();
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            let twice =
                || A::Error::custom(format!("table {} occurs twice in {}", quote_text(&name), self.side));
            let Some(id) = self.schema.find(&name) else {
                map.next_value_seed(RowsSeed { columns: None })?;
                if unknown.insert(name.clone().into_owned(), ()).is_some() {
                    return Err(twice());
                }
                let message = format!("unknown table {}", quote_text(&name));
                side.faults
                    .insert(name.into_owned(), TransactionError::new(ErrorCode::UnknownTable, message));
                continue;
            };
            let table = self.schema.table(id);
            let is_input = table.role == Role::Input;
            let (rows, fault) =
                map.next_value_seed(RowsSeed { columns: is_input.then_some(&table.columns) })?;
            match side.rows.entry(id) {
                Entry::Occupied(_) => return Err(twice()),
                Entry::Vacant(entry) => entry.insert(rows),
            };
            if !is_input {
                let message = format!("table {name} is derived by rules; only input tables can be changed");
                side.faults.insert(name.into_owned(), TransactionError::new(ErrorCode::NotAnInput, message));
            } else if let Some((position, fault)) = fault {
                let error = fault.describe(&name, self.side, position, &table.columns);
                side.faults.insert(name.into_owned(), error);
            }
        }
        Ok(side)
    }
}

/// The fault of a row.
enum RowFault {
    /// It has this many values.
    Arity(usize),
    /// The value of the column with this index has the wrong type.
    Mismatch(usize, Mismatch),
}

impl RowFault {
    fn describe(self, table: &str, side: &str, position: usize, columns: &[Column]) -> TransactionError {
        let place = format!("table {table}: row {position} of {side}");
        match self {
            RowFault::Arity(count) => {
                let names = names(columns.iter().map(|column| &column.name));
                let columns = match columns.len() {
                    0 => "no columns".to_owned(),
                    1 => format!("1 column: {names}"),
                    count => format!("{count} columns: {names}"),
                };
                let values = if count == 1 { "value" } else { "values" };
                let message = format!("{place} has {count} {values}, but the table has {columns}");
                TransactionError::new(ErrorCode::Arity, message)
            }
            RowFault::Mismatch(column, mismatch) => {
                let column = columns.get(column).map_or("", |column| column.name.as_str());
                TransactionError::new(
                    ErrorCode::TypeMismatch,
                    format!("{place}, column {column}: {mismatch}"),
                )
            }
        }
    }
}

/// Reads an array of rows. Without columns, only checks that it is an array.
struct RowsSeed<'a> {
    columns: Option<&'a [Column]>,
}

/// The rows before the first faulty one, and the faulty one's position (from 1) and fault.
type Rows = (Vec<Row>, Option<(usize, RowFault)>);

impl<'de> DeserializeSeed<'de> for RowsSeed<'_> {
    type Value = Rows;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Rows, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for RowsSeed<'_> {
    type Value = Rows;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of rows")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Rows, A::Error> {
        let mut rows = Vec::new();
        let Some(columns) = self.columns else {
            while seq.next_element::<Vec<IgnoredAny>>()?.is_some() {}
            return Ok((rows, None));
        };
        while let Some(row) = seq.next_element_seed(RowSeed { columns })? {
            match row {
                Ok(row) => rows.push(row),
                Err(fault) => {
                    let position = rows.len() + 1;
                    while seq.next_element::<Vec<IgnoredAny>>()?.is_some() {}
                    return Ok((rows, Some((position, fault))));
                }
            }
        }
        Ok((rows, None))
    }
}

/// Reads one row.
struct RowSeed<'a> {
    columns: &'a [Column],
}

impl<'de> DeserializeSeed<'de> for RowSeed<'_> {
    type Value = Result<Row, RowFault>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for RowSeed<'_> {
    type Value = Result<Row, RowFault>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a row: an array of values")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut row = Vec::with_capacity(self.columns.len());
        let mut fault = None;
        for (index, column) in self.columns.iter().enumerate() {
            match seq.next_element_seed(ValueSeed::new(&column.ty))? {
                None => return Ok(Err(RowFault::Arity(index))),
                Some(Ok(value)) => row.push(value),
                Some(Err(mismatch)) => {
                    fault.get_or_insert(RowFault::Mismatch(index, mismatch));
                }
            }
        }
        let mut count = self.columns.len();
        while seq.next_element::<IgnoredAny>()?.is_some() {
            count += 1;
        }
        if count > self.columns.len() {
            return Ok(Err(RowFault::Arity(count)));
        }
        Ok(fault.map_or(Ok(row), Err))
    }
}

/// Reads a value of a type. A value of another type is consumed, so that the rest of the line can be read.
pub(super) struct ValueSeed<'a> {
    ty: &'a Type,
    /// Whether `null` is a value, too.
    optional: bool,
}

impl<'a> ValueSeed<'a> {
    pub(super) fn new(ty: &'a Type) -> Self {
        match ty.base() {
            Type::Opt(of) => ValueSeed { ty: of.base(), optional: true },
            ty => ValueSeed { ty, optional: false },
        }
    }
}

impl ValueSeed<'_> {
    /// The fault of an array that is not a record of this type.
    fn wrong_fields(&self, of: &Record) -> Mismatch {
        let names = names(of.fields.iter().map(|(name, _)| name));
        let why = format!("expected a value for each of its fields: {names}");
        mismatch(self.ty, "an array of a different length", Some(why))
    }
}

fn mismatch(ty: &Type, found: impl Into<String>, why: Option<String>) -> Mismatch {
    Mismatch { expected: ty.clone(), found: found.into(), why }
}

impl<'de> DeserializeSeed<'de> for ValueSeed<'_> {
    type Value = Result<Value, Mismatch>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueSeed<'_> {
    type Value = Result<Value, Mismatch>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(match self.ty {
            Type::Bool => Ok(Value::Bool(value)),
            ty => Err(mismatch(ty, value.to_string(), None)),
        })
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(match self.ty {
            Type::Int => Ok(Value::Int(value)),
            ty => Err(mismatch(ty, value.to_string(), None)),
        })
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(match (self.ty, i64::try_from(value)) {
            (Type::Int, Ok(value)) => Ok(Value::Int(value)),
            (Type::Int, Err(_)) => {
                let why = format!("the largest int is {}", i64::MAX);
                Err(mismatch(&Type::Int, value.to_string(), Some(why)))
            }
            (ty, _) => Err(mismatch(ty, value.to_string(), None)),
        })
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        let why = (*self.ty == Type::Int)
            .then(|| "an int is a 64-bit integer without fraction or exponent".to_string());
        Ok(Err(mismatch(self.ty, format!("{value:?}"), why)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        Ok(self.ty.parse_text(value))
    }

    fn visit_string<E>(self, value: String) -> Result<Self::Value, E> {
        Ok(self.ty.parse_text(&value))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(if self.optional { Ok(Value::None) } else { Err(mismatch(self.ty, "null", None)) })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut values = Vec::new();
        let mut fault = None;
        if let Type::Set(of) | Type::List(of) = self.ty {
            while fault.is_none() {
                match seq.next_element_seed(ValueSeed::new(of))? {
                    Some(Ok(value)) => values.push(value),
                    Some(Err(mismatch)) => fault = Some(mismatch),
                    None => break,
                }
            }
        } else if let Type::Record(of) = self.ty {
            for (_, ty) in &of.fields {
                match seq.next_element_seed(ValueSeed::new(ty))? {
                    Some(Ok(value)) => values.push(value),
                    Some(Err(mismatch)) => {
                        fault.get_or_insert(mismatch);
                    }
                    None => {
                        fault.get_or_insert(self.wrong_fields(of));
                    }
                }
            }
            if seq.next_element::<IgnoredAny>()?.is_some() {
                fault.get_or_insert(self.wrong_fields(of));
            }
        } else {
            fault = Some(mismatch(self.ty, "an array", None));
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(match (fault, self.ty) {
            (Some(fault), _) => Err(fault),
            (None, Type::Set(_)) => Ok(Value::set(values)),
            (None, Type::Record(_)) => Ok(Value::record(values)),
            (None, _) => Ok(Value::list(values)),
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Err(mismatch(self.ty, "an object", None)))
    }
}

impl Type {
    /// Reads the text of a value: for a `string` the text itself; for other types that are strings in JSON, the
    /// canonical form or another form with the same single meaning.
    pub fn parse_text(&self, text: &str) -> Result<Value, Mismatch> {
        let wrong = |why: String| mismatch(self, quote_text(text), Some(why));
        match self {
            Type::String => Ok(text.into()),
            // Some tools print octets of one digit, but these could be typing errors.
            Type::Mac if text.len() != 17 => {
                Err(wrong("six pairs of hexadecimal digits, with colons".to_string()))
            }
            Type::Mac => text
                .parse()
                .map(Value::Mac)
                .map_err(|_| wrong("six pairs of hexadecimal digits, with colons".to_string())),
            Type::Ip => {
                text.parse().map(Value::Ip).map_err(|_| wrong("not an IPv4 or IPv6 address".to_string()))
            }
            Type::Net => parse_net(text).map_err(wrong),
            Type::InterfaceAddress => text
                .parse()
                .map(Value::InterfaceAddress)
                .map_err(|error: InterfaceAddressError| wrong(error.to_string())),
            Type::Match => text
                .parse::<openflow_rs::Match>()
                .map(Value::from)
                .map_err(|error| wrong(cut(&error.to_string()).into_owned())),
            Type::Actions => text
                .parse::<openflow_rs::Actions>()
                .map(Value::from)
                .map_err(|error| wrong(cut(&error.to_string()).into_owned())),
            Type::PacketFilter => text
                .parse::<packet_filter::PacketFilter>()
                .map(Value::from)
                .map_err(|faults| wrong(cut(&faults.to_string()).into_owned())),
            Type::Enum(of) if of.members.iter().any(|member| member == text) => Ok(text.into()),
            Type::Enum(of) => {
                let members = names(of.members.iter().map(|member| quote_text(member)));
                Err(wrong(format!("the members are {members}")))
            }
            Type::Opt(of) => of.parse_text(text),
            Type::Constrained(of) => of.base.parse_text(text),
            Type::Bool | Type::Int | Type::Set(_) | Type::List(_) | Type::Record(_) => {
                Err(mismatch(self, quote_text(text), None))
            }
        }
    }
}

fn parse_net(text: &str) -> Result<Value, String> {
    let net: ipnet::IpNet = text.parse().map_err(|_| "not a prefix in CIDR notation".to_string())?;
    if net.trunc() == net {
        Ok(Value::Net(net))
    } else {
        Err(format!("host bits are set; write {}", net.trunc()))
    }
}
