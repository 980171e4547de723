//! The effects of requests: changes of objects, and of rows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nlog_data::{Role, Row, Schema, Table, TableId, Transaction, Type};
use serde::{Deserialize, Serialize};

use crate::object::LABEL_TABLE;
use crate::read::Named;
use crate::{Object, ObjectKey, Place, Revision};

/// The effect of a request on the store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangeSet {
    /// One change for each object of the request, in its order, including unchanged objects; then deleted objects that
    /// the request does not name.
    pub changes: Vec<Change>,
}

/// The change of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The object.
    pub key: ObjectKey,
    /// The object before; `None` if it does not exist.
    pub before: Option<Arc<Object>>,
    /// The object after; `None` if it is deleted.
    pub after: Option<Arc<Object>>,
    /// The place in the request that names the object; `None` if no document does.
    pub place: Option<Place>,
    /// The fields that the request names.
    pub(crate) named: Named,
}

/// The outcome for one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The object was created.
    Created,
    /// The object was replaced.
    Updated,
    /// The object was equal already.
    Unchanged,
    /// The object was deleted.
    Deleted,
    /// The object was to be deleted and did not exist.
    Absent,
}

/// Rows of input tables, by the table's name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rows {
    /// Rows to insert, ascending in each table.
    pub insert: BTreeMap<Arc<str>, Vec<Row>>,
    /// Rows to delete, ascending in each table.
    pub delete: BTreeMap<Arc<str>, Vec<Row>>,
}

impl Rows {
    /// The transaction of a program with these tables. Rows of tables that it lacks are left out: labels, unless it has
    /// an input table for them.
    pub fn transaction(self, schema: &Schema) -> Transaction {
        let side = |side: BTreeMap<Arc<str>, Vec<Row>>| -> BTreeMap<TableId, Vec<Row>> {
            let takes = |name: &str, table: &Table| name != LABEL_TABLE || takes_labels(table);
            side.into_iter()
                .filter_map(|(name, rows)| Some((schema.find(&name)?, name, rows)))
                .filter(|(id, name, _)| takes(name, schema.table(*id)))
                .map(|(id, _, rows)| (id, rows))
                .collect()
        };
        Transaction { insert: side(self.insert), delete: side(self.delete) }
    }

    /// Adds other rows after these.
    pub fn add(&mut self, more: Rows) {
        for (all, more) in [(&mut self.insert, more.insert), (&mut self.delete, more.delete)] {
            for (table, rows) in more {
                all.entry(table).or_default().extend(rows);
            }
        }
    }
}

/// The table of labels in a program with these tables.
pub(super) fn label_table(schema: &Schema) -> Option<TableId> {
    schema.find(LABEL_TABLE).filter(|table| takes_labels(schema.table(*table)))
}

/// Whether a table is an input table of four texts: kind, id, key and value of a label.
fn takes_labels(table: &Table) -> bool {
    let is_text = |ty: &Type| *ty.base() == Type::String;
    table.role == Role::Input
        && table.columns.len() == 4
        && table.columns.iter().all(|column| is_text(&column.ty))
}

impl Change {
    /// The outcome for the object.
    pub fn outcome(&self) -> Outcome {
        match (&self.before, &self.after) {
            (None, None) => Outcome::Absent,
            (None, Some(_)) => Outcome::Created,
            (Some(_), None) => Outcome::Deleted,
            (Some(before), Some(after)) if Arc::ptr_eq(before, after) || before == after => {
                Outcome::Unchanged
            }
            (Some(_), Some(_)) => Outcome::Updated,
        }
    }

    fn has_effect(&self) -> bool {
        !matches!(self.outcome(), Outcome::Unchanged | Outcome::Absent)
    }
}

impl ChangeSet {
    /// Says that the transaction of this number makes the changes. Each object that it creates or changes gets its revision.
    /// Call this before anything else shares the objects.
    pub fn stamp(&mut self, txn: u64) {
        self.set_revisions(|change| {
            let created = change.before.as_ref().map_or(txn, |before| before.revision().created);
            Revision { created, changed: txn }
        });
    }

    /// Gives the objects that these changes create or change the revisions that they had when they were stored.
    pub fn restore_revisions(&mut self, of: impl Fn(&ObjectKey) -> Revision) {
        self.set_revisions(|change| of(&change.key));
    }

    fn set_revisions(&mut self, of: impl Fn(&Change) -> Revision) {
        for change in self.changes.iter_mut().filter(|change| change.has_effect()) {
            let revision = of(change);
            if let Some(after) = &mut change.after {
                Arc::make_mut(after).set_revision(revision);
            }
        }
    }

    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.effective().next().is_none()
    }

    /// The changes that have an effect.
    pub fn effective(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(|change| change.has_effect())
    }

    /// The changes that undo these, once they are committed.
    pub fn inverse(&self) -> ChangeSet {
        let reverse = |change: &Change| Change {
            key: change.key.clone(),
            before: change.after.clone(),
            after: change.before.clone(),
            place: change.place.clone(),
            named: Named::ALL,
        };
        ChangeSet { changes: self.changes.iter().map(reverse).collect() }
    }

    /// The rows to insert and to delete. No row is in both.
    pub fn rows(&self) -> Rows {
        let mut rows = Rows::default();
        let add = |rows: &mut BTreeMap<Arc<str>, Vec<Row>>, table: &Arc<str>, row: Row| {
            if let Some(list) = rows.get_mut(table) {
                list.push(row);
            } else {
                rows.insert(table.clone(), vec![row]);
            }
        };
        for change in self.effective() {
            let rows_of = |object: &Option<Arc<Object>>| -> BTreeSet<(Arc<str>, Row)> {
                object
                    .iter()
                    .flat_map(|object| object.rows())
                    .map(|(table, row)| (table.clone(), row))
                    .collect()
            };
            match (&change.before, &change.after) {
                (Some(_), Some(_)) => {
                    let (before, after) = (rows_of(&change.before), rows_of(&change.after));
                    before
                        .difference(&after)
                        .for_each(|(table, row)| add(&mut rows.delete, table, row.clone()));
                    after
                        .difference(&before)
                        .for_each(|(table, row)| add(&mut rows.insert, table, row.clone()));
                }
                (Some(before), None) => {
                    before.rows().for_each(|(table, row)| add(&mut rows.delete, table, row));
                }
                (None, Some(after)) => {
                    after.rows().for_each(|(table, row)| add(&mut rows.insert, table, row));
                }
                (None, None) => {}
            }
        }
        for list in rows.insert.values_mut().chain(rows.delete.values_mut()) {
            list.sort_unstable();
        }
        rows
    }
}
