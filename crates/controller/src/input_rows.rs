//! The rows of the rules' input tables that follow from objects.

use std::collections::BTreeMap;

use network::{ChangeSet, Kind, ObjectStore, Outcome, Rows, TransportZone};
use nlog_data::{Row, Value};

/// Adds rows to others.
pub(crate) fn merge(rows: &mut Rows, more: Rows) {
    for (table, list) in more.insert {
        rows.insert.entry(table).or_default().extend(list);
    }
    for (table, list) in more.delete {
        rows.delete.entry(table).or_default().extend(list);
    }
}

/// The rows of all objects.
pub(crate) fn objects_rows(objects: &ObjectStore) -> Rows {
    let mut rows = Rows::default();
    for (table, row) in objects.iter().flat_map(|(_, object)| object.rows()) {
        rows.insert.entry(table).or_default().push(row);
    }
    let nodes = objects.list(Kind::TransportNode).map(|node| managed(node.id()));
    rows.insert.insert(MANAGED, nodes.collect());
    rows
}

/// The rows that the first transaction inserts and that are never deleted.
pub(crate) fn rows_from_the_start() -> Rows {
    let (table, row) = TransportZone::default_zone().row();
    Rows { insert: BTreeMap::from([(table, vec![row])]), delete: BTreeMap::new() }
}

/// The table of the transport nodes that this controller programs: all of them.
const MANAGED: &str = "managed";

fn managed(node: &str) -> Row {
    vec![Value::String(node.into())]
}

/// The rows of [`MANAGED`] that an object change inserts and deletes.
pub(crate) fn managed_rows(objects: &ChangeSet) -> Rows {
    let mut rows = Rows::default();
    for change in objects.effective().filter(|change| change.key.kind == Kind::TransportNode) {
        let side = match change.outcome() {
            Outcome::Created => &mut rows.insert,
            Outcome::Deleted => &mut rows.delete,
            Outcome::Updated | Outcome::Unchanged | Outcome::Absent => continue,
        };
        side.entry(MANAGED).or_default().push(managed(&change.key.id));
    }
    rows
}
