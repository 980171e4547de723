//! The part of a database schema (RFC 7047, section 3.2) that a client needs: the type of every column.
//!
//! The values alone do not suffice. `initial` and `insert` omit columns that have their default value, which follows
//! from the type. A `modify` of `"x"` replaces the value of an optional column but toggles an element of a set column;
//! both look the same.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use uuid::Uuid;

use crate::known::Known;
use crate::text::{PartsError, member, members, tree};
use crate::value::{Atom, Datum, ValueError};

/// A database's tables and their columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    /// The name of the database.
    pub name: String,
    /// The version of the schema, such as `8.3.1`.
    pub version: String,
    /// Columns by table.
    pub tables: BTreeMap<Arc<str>, TableSchema>,
}

/// The type of each column of a table, by name, without `_uuid` and `_version`.
pub(crate) type TableSchema = BTreeMap<Arc<str>, ColumnType>;

/// A basic type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtomType {
    /// See [`Atom::Integer`].
    Integer,
    /// See [`Atom::Real`].
    Real,
    /// See [`Atom::Boolean`].
    Boolean,
    /// See [`Atom::String`].
    String,
    /// See [`Atom::Uuid`].
    Uuid,
}

/// A column's type. The server checks constraints on the atoms (ranges, enumerations, references).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnType {
    /// The type of the elements, or of a map's keys.
    pub key: AtomType,
    /// The type of a map's values; `None` for a set.
    pub value: Option<AtomType>,
    /// The least number of elements, 0 or 1.
    pub min: usize,
    /// The greatest number of elements; `usize::MAX` means unlimited.
    pub max: usize,
}

/// The reason why a schema cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("schema: {place}: {problem}")]
pub struct SchemaError {
    /// The database, table or column.
    pub place: String,
    /// The problem.
    pub problem: ValueError,
}

/// The schemas in use.
static KNOWN: Known<Schema> = Known::new();

impl Schema {
    /// The equal schema that another connection uses, or else this one.
    pub(crate) fn shared(self) -> Arc<Schema> {
        KNOWN.share(self)
    }

    /// Parses the contents of an `.ovsschema` file.
    pub fn from_json(value: &Value) -> Result<Self, SchemaError> {
        Schema::from_text(&value.to_string())
    }

    /// Parses the result of `get_schema`, one column at a time.
    pub fn from_text(text: &str) -> Result<Self, SchemaError> {
        let whole = object("the whole", "an object", text)?;
        let string = |name: &str| {
            let text = member(&whole, name);
            let value = tree(text).and_then(|value| value.as_str().map(str::to_owned));
            value.ok_or_else(|| fault(name, "a string", text))
        };
        let mut schema =
            Schema { name: string("name")?, version: string("version")?, tables: BTreeMap::new() };
        for (table, definition) in object("tables", "an object", member(&whole, "tables"))? {
            let wanted = "an object with columns";
            let parts = object(&table, wanted, definition)?;
            let mut types = TableSchema::new();
            for (column, definition) in object(&table, wanted, member(&parts, "columns"))? {
                let place = format!("{table}.{column}");
                let definition =
                    tree(definition).ok_or_else(|| fault(&place, "a short definition", definition))?;
                let column_type = ColumnType::from_json(json_member(&definition, "type"))
                    .map_err(|problem| SchemaError { place, problem })?;
                types.insert(Arc::from(column), column_type);
            }
            schema.tables.insert(Arc::from(table), types);
        }
        Ok(schema)
    }

    /// The type of a column, including `_uuid` and `_version`.
    pub fn column(&self, table: &str, column: &str) -> Option<ColumnType> {
        match column {
            "_uuid" | "_version" => self.tables.get(table).map(|_| ColumnType::one(AtomType::Uuid)),
            _ => self.tables.get(table)?.get(column).copied(),
        }
    }
}

/// The most tables of a database, and the most columns of a table.
const PARTS_MAX: usize = 1000;

fn object<'a>(place: &str, wanted: &str, text: &'a str) -> Result<Vec<(String, &'a str)>, SchemaError> {
    members(text, PARTS_MAX).map_err(|problem| match problem {
        PartsError::TooMany(max) => fault(place, &format!("at most {max} members"), text),
        PartsError::Form => fault(place, wanted, text),
    })
}

fn fault(place: &str, wanted: &str, text: &str) -> SchemaError {
    SchemaError { place: place.to_owned(), problem: ValueError::of_text(wanted, text) }
}

/// A member of an object; `null` if it is missing.
fn json_member<'a>(value: &'a Value, name: &str) -> &'a Value {
    value.get(name).unwrap_or(&Value::Null)
}

impl AtomType {
    fn from_json(value: &Value) -> Result<Self, ValueError> {
        // A base type is a name, or an object with a name and constraints.
        let name = if value.is_object() { json_member(value, "type") } else { value };
        match name.as_str() {
            Some("integer") => Ok(AtomType::Integer),
            Some("real") => Ok(AtomType::Real),
            Some("boolean") => Ok(AtomType::Boolean),
            Some("string") => Ok(AtomType::String),
            Some("uuid") => Ok(AtomType::Uuid),
            _ => Err(ValueError::new("a basic type", value)),
        }
    }

    fn name(self) -> &'static str {
        match self {
            AtomType::Integer => "integer",
            AtomType::Real => "real",
            AtomType::Boolean => "boolean",
            AtomType::String => "string",
            AtomType::Uuid => "uuid",
        }
    }

    fn default_atom(self) -> Atom {
        match self {
            AtomType::Integer => Atom::Integer(0),
            AtomType::Real => Atom::Real(0.0),
            AtomType::Boolean => Atom::Boolean(false),
            AtomType::String => Atom::String(String::new()),
            AtomType::Uuid => Atom::Uuid(Uuid::nil()),
        }
    }

    /// Checks the type of an atom. Accepts an integer as a real, because the server prints 1.0 as `1`.
    fn coerce(self, atom: Atom) -> Result<Atom, ValueError> {
        match (self, atom) {
            (AtomType::Real, Atom::Integer(integer)) => Ok(Atom::Real(integer as f64)),
            (AtomType::Integer, atom @ Atom::Integer(_))
            | (AtomType::Real, atom @ Atom::Real(_))
            | (AtomType::Boolean, atom @ Atom::Boolean(_))
            | (AtomType::String, atom @ Atom::String(_))
            | (AtomType::Uuid, atom @ Atom::Uuid(_)) => Ok(atom),
            (_, atom) => Err(ValueError::new(self.name(), &atom.to_json())),
        }
    }
}

impl ColumnType {
    /// The type of a column with exactly one atom of this type.
    pub fn one(key: AtomType) -> Self {
        ColumnType { key, value: None, min: 1, max: 1 }
    }

    fn from_json(value: &Value) -> Result<Self, ValueError> {
        let Some(members) = value.as_object() else {
            return Ok(ColumnType::one(AtomType::from_json(value)?));
        };
        let count = |member: &str| match members.get(member) {
            None => Ok(1),
            Some(Value::String(text)) if text == "unlimited" => Ok(usize::MAX),
            Some(number) => number
                .as_u64()
                .and_then(|number| usize::try_from(number).ok())
                .ok_or_else(|| ValueError::new("a number of elements", number)),
        };
        Ok(ColumnType {
            key: AtomType::from_json(json_member(value, "key"))?,
            value: members.get("value").map(AtomType::from_json).transpose()?,
            min: count("min")?,
            max: count("max")?,
        })
    }

    /// Whether a `modify` carries a difference instead of the new value: it does if the column can have several
    /// elements.
    pub fn is_composite(self) -> bool {
        self.max > 1
    }

    /// The default value of a column (RFC 7047, section 5.2.1).
    pub fn default_datum(self) -> Datum {
        let atom = (self.min > 0).then(|| self.key.default_atom());
        match self.value {
            None => Datum::Set(atom.into_iter().collect()),
            Some(value) => Datum::Map(atom.into_iter().map(|key| (key, value.default_atom())).collect()),
        }
    }

    /// Parses a value that a server sent for this column.
    pub fn decode(self, notation: &Value) -> Result<Datum, ValueError> {
        self.check(Datum::from_json(notation)?, || notation.to_string())
    }

    /// The same of text.
    pub(crate) fn decode_text(self, notation: &str) -> Result<Datum, ValueError> {
        self.check(Datum::from_text(notation)?, || notation.to_owned())
    }

    fn check(self, datum: Datum, notation: impl Fn() -> String) -> Result<Datum, ValueError> {
        let fail = |wanted: &str| ValueError::of_text(wanted, &notation());
        if datum.len() > self.max {
            return Err(fail(&format!("at most {} elements", self.max)));
        }
        match (datum, self.value) {
            (Datum::Set(set), None) => {
                set.into_iter().map(|atom| self.key.coerce(atom)).collect::<Result<_, _>>().map(Datum::Set)
            }
            (Datum::Map(map), Some(value)) => map
                .into_iter()
                .map(|(k, v)| Ok((self.key.coerce(k)?, value.coerce(v)?)))
                .collect::<Result<_, _>>()
                .map(Datum::Map),
            (Datum::Set(_), Some(_)) => Err(fail("a map")),
            (Datum::Map(_), None) => Err(fail("a set")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema(column: &Value) -> Result<Schema, SchemaError> {
        Schema::from_json(
            &json!({"name": "D", "version": "1.0.0", "tables": {"T": {"columns": {"c": {"type": column}}}}}),
        )
    }

    #[test]
    fn column_types_and_their_defaults() {
        for (notation, default, composite) in [
            (json!("integer"), json!(0), false),
            (json!({"key": "string"}), json!(""), false),
            (json!({"key": {"type": "real", "minReal": 0.0}, "min": 0}), json!(["set", []]), false),
            (json!({"key": "string", "min": 0, "max": "unlimited"}), json!(["set", []]), true),
            (
                json!({"key": "string", "value": "integer", "min": 0, "max": "unlimited"}),
                json!(["map", []]),
                true,
            ),
            (
                json!({"key": "string", "value": "integer", "min": 1, "max": 4}),
                json!(["map", [["", 0]]]),
                true,
            ),
        ] {
            let column = schema(&notation).expect("a schema").column("T", "c").expect("the column");
            assert_eq!(column.default_datum().to_json(), default, "{notation}");
            assert_eq!(column.is_composite(), composite, "{notation}");
        }
    }

    #[test]
    fn a_strange_schema_is_refused_with_the_place() {
        let error = schema(&json!({"key": "quaternion"})).expect_err("no such type").to_string();
        assert_eq!(error, "schema: T.c: wanted a basic type, got \"quaternion\"");
        assert!(Schema::from_json(&json!({"name": "D"})).is_err());
        assert!(Schema::from_json(&json!(null)).is_err());
    }

    #[test]
    fn decoding_checks_shape_type_and_number() {
        let real =
            schema(&json!({"key": "real", "min": 0})).expect("a schema").column("T", "c").expect("there");
        assert_eq!(real.decode(&json!(1)), Ok(Datum::from(1.0)));
        assert!(real.decode(&json!("1")).is_err());
        assert!(real.decode(&json!(["set", [1, 2]])).is_err());
        assert!(real.decode(&json!(["map", []])).is_err());
        let map = schema(&json!({"key": "string", "value": "string", "min": 0, "max": 9})).expect("a schema");
        let map = map.column("T", "c").expect("there");
        assert!(map.decode(&json!(["set", []])).is_err());
        assert!(map.decode(&json!(["map", [["a", 1]]])).is_err());
        assert_eq!(map.decode(&json!(["map", [["a", "b"]]])), Ok(Datum::map([("a", "b")])));
    }
}
