//! One accepted transaction, as a line of the journal.
//!
//! A line has the form that `weft eval` reads: `txn`, `insert` and `delete`, and as the transaction's origin `at`, `by`,
//! `objects`, `labels` and `reports`. The rows replay the rules; the others are what rows do not hold, so that a
//! controller with other rules can start from the same journal.

use std::collections::BTreeMap;
use std::time::SystemTime;

use network::{ChangeSet, Object, Rows};
use nlog_data::json::to_json;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

/// An accepted transaction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Its number: one more than that of the record before it, from 1.
    pub txn: u64,
    /// When it was accepted: RFC 3339, UTC.
    pub at: String,
    /// Who asked: `api`, `switch hv1`, …
    pub by: String,
    /// Rows that come, by input table.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub insert: BTreeMap<String, Vec<Vec<Json>>>,
    /// Rows that go, by input table.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub delete: BTreeMap<String, Vec<Vec<Json>>>,
    /// Objects that come and go.
    #[serde(default, skip_serializing_if = "ObjectChanges::is_empty")]
    pub objects: ObjectChanges,
    /// Labels allocated, in the order of allocation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<LabelRecord>,
    /// What switches reported, whole, if `insert` and `delete` do not say all of it since the rules lack a table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reports: Option<ReportChanges>,
}

/// What is new and what is no more in the reports of switches, as rows of `vif` and `tunnel_port`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportChanges {
    /// New, by table.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub insert: BTreeMap<String, Vec<Vec<Json>>>,
    /// No more, by table.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub delete: BTreeMap<String, Vec<Vec<Json>>>,
}

impl ReportChanges {
    pub(crate) fn of(rows: &Rows) -> Self {
        let (insert, delete) = rows_to_json(rows);
        ReportChanges { insert, delete }
    }
}

/// Who asks for a record that brings the journal's rows up to date with other rules or another version.
pub(crate) const UPGRADE: &str = "upgrade";

impl Record {
    /// Whether it only brings rows up to date: anything that was asked for has objects or comes from a switch.
    pub(crate) fn is_correction(&self) -> bool {
        self.by == UPGRADE && self.objects.is_empty()
    }
}

/// Objects that come and go with a transaction.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectChanges {
    /// New or in place of their predecessors, in canonical form.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub put: Vec<Json>,
    /// Kind and id of those that go. Their labels go with them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delete: Vec<(String, String)>,
}

/// A label given to an object: its kind, its id, the label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabelRecord(pub String, pub String, pub u32);

impl ObjectChanges {
    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.put.is_empty() && self.delete.is_empty()
    }

    /// What the journal needs to know of a change of objects.
    pub(crate) fn of(changes: &ChangeSet) -> Self {
        let mut objects = ObjectChanges::default();
        for change in changes.effective() {
            match &change.after {
                Some(object) => objects.put.push(object_json(object)),
                None => objects.delete.push((change.key.kind.name().to_owned(), change.key.id.clone())),
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

/// The rows that come and those that go, in their JSON form.
pub(crate) fn rows_to_json(rows: &Rows) -> (JsonRows, JsonRows) {
    let side = |side: &BTreeMap<&'static str, Vec<nlog_data::Row>>| -> JsonRows {
        let json = |row: &nlog_data::Row| row.iter().map(to_json).collect();
        side.iter().map(|(table, rows)| ((*table).to_owned(), rows.iter().map(json).collect())).collect()
    };
    (side(&rows.insert), side(&rows.delete))
}

/// A point in time as the journal has it: RFC 3339, UTC, microseconds.
pub(crate) fn rfc3339(time: SystemTime) -> String {
    humantime::format_rfc3339_micros(time).to_string()
}
