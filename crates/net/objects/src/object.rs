//! Objects, their keys and their canonical texts.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use nlog_data::{Row, Value};
use serde::ser::{SerializeMap as _, Serializer};
use serde::{Deserialize, Serialize};

use crate::Kind;
use crate::print::{Printed, is_left_out};

/// The labels of an object, by key.
pub type Labels = BTreeMap<String, String>;

/// The table of all labels.
pub(crate) const LABEL_TABLE: &str = "object_label";

/// The transactions that made an object what it is, by their numbers. Both are 0 if no transaction of a controller wrote it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "(u64, u64)", into = "(u64, u64)")]
pub struct Revision {
    /// The one that created it, the last time if it was deleted in between.
    pub created: u64,
    /// The one that changed it last.
    pub changed: u64,
}

impl From<(u64, u64)> for Revision {
    fn from((created, changed): (u64, u64)) -> Self {
        Revision { created, changed }
    }
}

impl From<Revision> for (u64, u64) {
    fn from(Revision { created, changed }: Revision) -> Self {
        (created, changed)
    }
}

/// An object without faults of its own. [`ObjectStore`](crate::ObjectStore) checks references and uniqueness.
#[derive(Clone)]
pub struct Object {
    kind: Arc<Kind>,
    /// The row of the object in the table of its kind: its id, then a value for each field.
    row: Box<[Value]>,
    id: Arc<str>,
    labels: Labels,
    revision: Revision,
}

impl Object {
    /// An object of these values, one for each field of the kind.
    pub(crate) fn new(kind: Arc<Kind>, id: Arc<str>, values: Vec<Value>, labels: Labels) -> Self {
        let mut row = Vec::with_capacity(values.len() + 1);
        row.push(Value::String(id.clone()));
        row.extend(values);
        Object { kind, row: row.into(), id, labels, revision: Revision::default() }
    }

    /// An object of the same kind with another id, labels and values, one for each field of the kind. Nothing is checked.
    #[must_use]
    pub fn with(&self, id: &str, labels: Labels, values: Vec<Value>) -> Object {
        Object::new(self.kind.clone(), id.into(), values, labels)
    }

    /// The same object with another revision.
    pub(crate) fn set_revision(&mut self, revision: Revision) {
        self.revision = revision;
    }

    /// The transactions that created it and changed it last. Neither its documents nor its rows have them.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Its kind.
    pub fn kind(&self) -> &Arc<Kind> {
        &self.kind
    }

    /// Its id, unique within its kind.
    pub fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// Its labels.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// Its row in the table of its kind: its id, then a value for each field.
    pub fn row(&self) -> &[Value] {
        &self.row
    }

    /// The values of its fields, in declared order.
    pub fn values(&self) -> &[Value] {
        &self.row[1..]
    }

    /// The value of a field.
    pub fn value(&self, field: &str) -> Option<&Value> {
        self.values().get(self.kind.declared().field(field)?)
    }

    /// What a field refers to, in the order of its elements: for each reference, an object of each kind that it can mean.
    pub fn references_in(&self, field: usize) -> Vec<ObjectKey> {
        let mut found = Vec::new();
        crate::walk::references_in(self, field, |reference| {
            found.extend(
                reference.kinds.iter().map(|kind| ObjectKey::new(kind.as_str(), reference.id.clone())),
            );
        });
        found
    }

    /// Its rows, each with its table.
    pub fn rows(&self) -> impl Iterator<Item = (&Arc<str>, Row)> {
        static LABELS: std::sync::LazyLock<Arc<str>> = std::sync::LazyLock::new(|| LABEL_TABLE.into());
        let of_labels = self.labels.iter().map(|(key, value)| {
            let (kind, id) = (self.kind.shared_name().clone(), self.id.clone());
            let row =
                vec![Value::String(kind), Value::String(id), key.as_str().into(), value.as_str().into()];
            (&*LABELS, row)
        });
        std::iter::once((self.kind.shared_name(), self.row.to_vec())).chain(of_labels)
    }

    /// Its key.
    pub fn key(&self) -> ObjectKey {
        ObjectKey { kind: self.kind.shared_name().clone(), id: self.id.clone() }
    }

    /// Its canonical JSON, on one line: fields in declared order, including defaults.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|error| unreachable!("maps have text keys alone: {error}"))
    }

    /// Its canonical YAML, one document.
    pub fn to_yaml(&self) -> String {
        serde_norway::to_string(self).unwrap_or_else(|error| unreachable!("objects have no tags: {error}"))
    }
}

/// Objects of one kind are equal if their values and labels are. Who changed them, and when, does not count: an object that is
/// applied again as it is has not changed.
impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        let is_same_kind = Arc::ptr_eq(&self.kind, &other.kind) || self.kind.name() == other.kind.name();
        is_same_kind && self.row == other.row && self.labels == other.labels
    }
}

impl Eq for Object {}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_json())
    }
}

/// The document of the object.
impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("kind", self.kind.name())?;
        map.serialize_entry("id", &*self.id)?;
        if !self.labels.is_empty() {
            map.serialize_entry("labels", &self.labels)?;
        }
        for (field, value) in self.kind.declared().fields.iter().zip(self.values()) {
            if !is_left_out(value, field.default.as_ref()) {
                map.serialize_entry(&field.name, &Printed { ty: &field.ty, value })?;
            }
        }
        map.end()
    }
}

/// Identifies an object. Ordered by kind, then id, both as texts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// The name of its kind.
    pub kind: Arc<str>,
    /// Its id.
    pub id: Arc<str>,
}

impl ObjectKey {
    /// The object of this kind with this id.
    pub fn new(kind: impl Into<Arc<str>>, id: impl Into<Arc<str>>) -> Self {
        ObjectKey { kind: kind.into(), id: id.into() }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.id)
    }
}
