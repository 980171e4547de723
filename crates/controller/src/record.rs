//! One accepted transaction, as a line of the journal.
//!
//! A line has the form that `weft eval` reads: `txn`, `insert` and `delete`, and as the transaction's origin `at`,
//! `by`, `objects`, `labels`, `reports`, `filled` and `memory`. The rows replay the rules; the other members have the information that
//! rows lack, so that a controller with other rules can start from the same journal. Unknown members are refused,
//! because their effect is unknown. The journal appends the members of its [seal](crate::journal).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use network::{ChangeSet, Object, Rows};
use nlog_data::json::to_json;
use nlog_data::{Delta, Memories, Schema, TableDelta, TableId};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::peer::Peer;

/// An accepted transaction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The transaction number: 1 for the first record, then one more than the previous record's.
    pub txn: u64,
    /// The time of acceptance: RFC 3339, UTC.
    pub at: String,
    /// The requester: `api`, `switch hv1`, …
    pub by: String,
    /// The identity of the requester according to the system, if the request arrived over a connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<Peer>,
    /// Inserted rows, by input table.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub insert: BTreeMap<String, Vec<Vec<Json>>>,
    /// Deleted rows, by input table.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub delete: BTreeMap<String, Vec<Vec<Json>>>,
    /// Created, changed and deleted objects.
    #[serde(default, skip_serializing_if = "ObjectChanges::is_empty")]
    pub objects: ObjectChanges,
    /// Labels that an earlier version allocated outside the rules, in the order of allocation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<LabelRecord>,
    /// The complete report of a switch, if the rules lack a table for its rows in `insert` and `delete`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reports: Option<RowChanges>,
    /// The changes of tables that hooks with a memory fill. A restart follows them instead of the whole history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filled: Option<RowChanges>,
    /// What hooks remember before this transaction, by the table that each fills, if that does not follow from the records
    /// before.
    #[serde(default, skip_serializing_if = "Memories::is_empty")]
    pub memory: Memories,
}

/// Changes of tables.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowChanges {
    /// Inserted rows, by table.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub insert: BTreeMap<String, Vec<Vec<Json>>>,
    /// Deleted rows, by table.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub delete: BTreeMap<String, Vec<Vec<Json>>>,
}

impl RowChanges {
    pub(crate) fn of(rows: &Rows) -> Self {
        let (insert, delete) = rows_to_json(rows);
        RowChanges { insert, delete }
    }

    /// The changes of these tables in a delta; `None` if there are none.
    pub(crate) fn of_tables(delta: &Delta, tables: &[TableId], schema: &Schema) -> Option<Self> {
        let mut changes = RowChanges::default();
        for (table, TableDelta { insert, delete, .. }) in &delta.tables {
            if tables.contains(table) {
                let name = &schema.table(*table).name;
                let json = |rows: &[nlog_data::Row]| rows.iter().map(cells).collect();
                for (side, rows) in [(&mut changes.insert, insert), (&mut changes.delete, delete)] {
                    if !rows.is_empty() {
                        side.insert(name.clone(), json(rows));
                    }
                }
            }
        }
        (changes != RowChanges::default()).then_some(changes)
    }
}

fn cells(row: &nlog_data::Row) -> Vec<Json> {
    row.iter().map(to_json).collect()
}

/// The requester of a record that adapts the journal's rows to other rules or another version.
pub(crate) const UPGRADE: &str = "upgrade";

impl Record {
    /// Whether the record only corrects rows. Requests have objects, and reports come from a switch.
    pub(crate) fn is_correction(&self) -> bool {
        self.by == UPGRADE && self.objects.is_empty()
    }
}

/// The objects that a transaction creates, changes and deletes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectChanges {
    /// Created and changed objects, in canonical form.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub put: Vec<Json>,
    /// Kinds and ids of deleted objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delete: Vec<(String, String)>,
}

/// A label of an object: the object's kind and id, and the label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabelRecord(pub String, pub String, pub u32);

impl ObjectChanges {
    /// Whether no object changes.
    pub(crate) fn is_empty(&self) -> bool {
        self.put.is_empty() && self.delete.is_empty()
    }

    /// A change of objects in the journal's form.
    pub(crate) fn of(changes: &ChangeSet) -> Self {
        let mut objects = ObjectChanges::default();
        for change in changes.effective() {
            match &change.after {
                Some(object) => objects.put.push(object_json(object)),
                None => objects.delete.push((change.key.kind.to_string(), change.key.id.to_string())),
            }
        }
        objects
    }
}

fn object_json(object: &Object) -> Json {
    serde_json::to_value(object)
        .unwrap_or_else(|error| unreachable!("objects are maps of text keys: {error}"))
}

/// Rows in their JSON form.
pub(crate) type JsonRows = BTreeMap<String, Vec<Vec<Json>>>;

/// Inserted and deleted rows in their JSON form.
pub(crate) fn rows_to_json(rows: &Rows) -> (JsonRows, JsonRows) {
    let side = |side: &BTreeMap<Arc<str>, Vec<nlog_data::Row>>| -> JsonRows {
        side.iter().map(|(table, rows)| (table.to_string(), rows.iter().map(cells).collect())).collect()
    };
    (side(&rows.insert), side(&rows.delete))
}

/// A time in the journal's form: RFC 3339, UTC, microseconds.
pub(crate) fn rfc3339(time: SystemTime) -> String {
    humantime::format_rfc3339_micros(time).to_string()
}
