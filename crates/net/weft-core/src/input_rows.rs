//! The rows of the rules' input tables.

use std::collections::BTreeMap;
use std::sync::Arc;

use nlog_data::{Row, Value};
use objects::{ChangeSet, ObjectStore, Outcome, Rows};

use crate::reports::Reports;
use crate::rules::Rules;

/// The rows of all objects and reports.
pub(crate) fn all_rows(objects: &ObjectStore, reports: &Reports, rules: &Rules) -> Rows {
    let mut rows = objects_rows(objects, rules);
    rows.add(reports.rows());
    rows
}

fn objects_rows(objects: &ObjectStore, rules: &Rules) -> Rows {
    let mut insert: BTreeMap<Arc<str>, Vec<Row>> = BTreeMap::new();
    for (_, object) in objects.iter() {
        for (table, row) in object.rows() {
            insert.entry(table.clone()).or_default().push(row);
        }
    }
    let hosts = rules.host_kind().into_iter().flat_map(|kind| objects.list(kind));
    insert.insert(MANAGED.into(), hosts.map(|host| managed(host.id())).collect());
    Rows { insert, delete: BTreeMap::new() }
}

/// The table of the transport nodes that this controller programs: all of them.
pub(crate) const MANAGED: &str = "managed";

/// Its row for a transport node.
pub(crate) fn managed(host: &Arc<str>) -> Row {
    vec![Value::String(host.clone())]
}

/// The rows of [`MANAGED`] that an object change inserts and deletes.
pub(crate) fn managed_rows(objects: &ChangeSet, rules: &Rules) -> Rows {
    let mut rows = Rows::default();
    let Some(kind) = rules.host_kind() else { return rows };
    for change in objects.effective().filter(|change| *change.key.kind == *kind) {
        let side = match change.outcome() {
            Outcome::Created => &mut rows.insert,
            Outcome::Deleted => &mut rows.delete,
            Outcome::Updated | Outcome::Unchanged | Outcome::Absent => continue,
        };
        side.entry(MANAGED.into()).or_default().push(managed(&change.key.id));
    }
    rows
}
