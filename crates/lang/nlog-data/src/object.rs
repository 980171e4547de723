//! Kinds of network objects, as programs declare them: `object router { tenant: opt<string>; … }`.
//!
//! An object is one row of the input table of its kind: its id, then its fields in declared order. The crate `objects`
//! reads objects from YAML and JSON, and keeps those in force.

use crate::{Row, TableId, Type, Value};

/// A kind of network object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectKind {
    /// Its name, which is also that of its table.
    pub name: String,
    /// The input table of its objects: column 0 is the id and the key, column `n` is field `n - 1`.
    pub table: TableId,
    /// The name space of its ids. Kinds that share one have no two objects with one id. Its own name, unless the
    /// program says otherwise.
    pub id_space: String,
    /// Its fields, in declared order.
    pub fields: Vec<ObjectField>,
    /// What no two of its objects can share.
    pub uniques: Vec<Unique>,
    /// The text of its `##` comment.
    pub doc: String,
}

/// A field of a kind of object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectField {
    /// Its name in documents.
    pub name: String,
    /// The type of its values. An optional one can be absent.
    pub ty: Type,
    /// The value of an absent field. `None` if the field is required. An optional field without a declared default has
    /// [`Value::None`].
    pub default: Option<Value>,
    /// Former names, under which documents can still give the field. Under these, a list of one value can be given as
    /// that value alone.
    pub formers: Vec<String>,
    /// The text of its `##` comment.
    pub doc: String,
}

/// Values that no two objects of a kind can share: `unique(switch, addresses.mac)`. The last path is the value in
/// question, and the others are its scope. A path through a list or a set stands for each of its elements, and an
/// absent value takes no part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unique {
    /// The paths, at least one.
    pub paths: Vec<FieldPath>,
}

/// The path of a value in an object: `addresses.mac`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldPath {
    /// The index of the object's field, then of a field of each record on the way. Lists, sets, mappings and optional
    /// values take no step.
    pub steps: Vec<usize>,
    /// Its text, the names of these fields joined by periods.
    pub text: String,
}

impl ObjectKind {
    /// The row of an object with these values of fields, and the defaults of the others. The error names a field that is
    /// unknown, or required and not given.
    pub fn row<'a>(
        &self,
        id: &str,
        given: impl IntoIterator<Item = (&'a str, Value)>,
    ) -> Result<Row, String> {
        let mut values: Vec<Option<Value>> = self.fields.iter().map(|field| field.default.clone()).collect();
        for (name, value) in given {
            let field = self.field(name).ok_or_else(|| format!("{} has no field {name}", self.name))?;
            values[field] = Some(value);
        }
        let mut row = vec![Value::from(id)];
        for (value, field) in values.into_iter().zip(&self.fields) {
            row.push(value.ok_or_else(|| format!("{} {id} lacks {}", self.name, field.name))?);
        }
        Ok(row)
    }

    /// The index of a field, by its present name.
    pub fn field(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|field| field.name == name)
    }
}
