//! The objects in force, and the checks of changes to them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use nlog_data::Row;

use crate::object::Claim;
use crate::{Kind, Object, ObjectKey};

mod plan;

/// The objects in force. All references resolve, and unique values belong to at most one object.
#[derive(Debug, Default)]
pub struct ObjectStore {
    objects: BTreeMap<ObjectKey, Arc<Object>>,
    /// The number of objects of each kind.
    counts: BTreeMap<Kind, usize>,
    /// The objects that refer to each object.
    referrers: HashMap<ObjectKey, BTreeSet<ObjectKey>>,
    /// The holder of each unique value.
    claims: HashMap<Claim, ObjectKey>,
}

/// The effect of a request on the store.
#[derive(Debug, Clone, Default)]
pub struct ChangeSet {
    /// One change for each object of the request, in its order, including unchanged objects; then deleted objects that
    /// the request does not name.
    pub changes: Vec<Change>,
}

/// The change of one object.
#[derive(Debug, Clone)]
pub struct Change {
    /// The object.
    pub key: ObjectKey,
    /// The object before; `None` if it does not exist.
    pub before: Option<Arc<Object>>,
    /// The object after; `None` if it is deleted.
    pub after: Option<Arc<Object>>,
}

/// The outcome for one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    pub insert: BTreeMap<&'static str, Vec<Row>>,
    /// Rows to delete, ascending in each table.
    pub delete: BTreeMap<&'static str, Vec<Row>>,
}

impl Change {
    /// The outcome for the object.
    pub fn outcome(&self) -> Outcome {
        match (&self.before, &self.after) {
            (None, None) => Outcome::Absent,
            (None, Some(_)) => Outcome::Created,
            (Some(_), None) => Outcome::Deleted,
            (Some(before), Some(after)) if before == after => Outcome::Unchanged,
            (Some(_), Some(_)) => Outcome::Updated,
        }
    }
}

impl ChangeSet {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.effective().next().is_none()
    }

    /// The changes that have an effect.
    pub fn effective(&self) -> impl Iterator<Item = &Change> {
        let has_effect = |change: &&Change| !matches!(change.outcome(), Outcome::Unchanged | Outcome::Absent);
        self.changes.iter().filter(has_effect)
    }

    /// The rows to insert and to delete. No row is in both.
    pub fn rows(&self) -> Rows {
        let mut rows = Rows::default();
        for change in self.effective() {
            let rows_of = |object: &Option<Arc<Object>>| -> BTreeSet<(&'static str, Row)> {
                object.iter().flat_map(|object| object.rows()).collect()
            };
            let (before, after) = (rows_of(&change.before), rows_of(&change.after));
            for (table, row) in before.difference(&after) {
                rows.delete.entry(table).or_default().push(row.clone());
            }
            for (table, row) in after.difference(&before) {
                rows.insert.entry(table).or_default().push(row.clone());
            }
        }
        for list in rows.insert.values_mut().chain(rows.delete.values_mut()) {
            list.sort();
        }
        rows
    }
}

impl ObjectStore {
    /// The object, if it exists.
    pub fn get(&self, key: &ObjectKey) -> Option<&Arc<Object>> {
        self.objects.get(key)
    }

    /// The objects of a kind, in order of their ids.
    pub fn list(&self, kind: Kind) -> impl Iterator<Item = &Arc<Object>> {
        let from = ObjectKey::new(kind, "");
        self.objects.range(from..).take_while(move |(key, _)| key.kind == kind).map(|(_, object)| object)
    }

    /// The objects of a kind that follow this id, or all of them, ordered by id.
    pub fn list_after(&self, kind: Kind, id: Option<String>) -> impl Iterator<Item = &Arc<Object>> {
        let from = match id {
            Some(id) => Bound::Excluded(ObjectKey::new(kind, id)),
            None => Bound::Included(ObjectKey::new(kind, "")),
        };
        let range = self.objects.range((from, Bound::Unbounded));
        range.take_while(move |(key, _)| key.kind == kind).map(|(_, object)| object)
    }

    /// The number of objects of a kind. Takes constant time.
    pub fn count(&self, kind: Kind) -> usize {
        self.counts.get(&kind).copied().unwrap_or(0)
    }

    /// All objects, by kind and id.
    pub fn iter(&self) -> impl Iterator<Item = (&ObjectKey, &Arc<Object>)> {
        self.objects.iter()
    }

    /// Applies a plan. Nothing else may have been committed since the plan was made.
    pub fn commit(&mut self, changes: &ChangeSet) {
        // Removals come first, because an address may move from one object to another.
        for change in changes.effective() {
            if let Some(before) = &change.before {
                self.unlink(&change.key, before);
            }
        }
        for change in changes.effective() {
            if let Some(after) = &change.after {
                self.link(&change.key, after);
            }
        }
    }

    fn unlink(&mut self, key: &ObjectKey, object: &Object) {
        if self.objects.remove(key).is_some()
            && let Some(count) = self.counts.get_mut(&key.kind)
        {
            *count -= 1;
        }
        for (_, target) in object.references() {
            if let Some(referrers) = self.referrers.get_mut(&target) {
                referrers.remove(key);
                if referrers.is_empty() {
                    self.referrers.remove(&target);
                }
            }
        }
        for (_, claim) in object.claims() {
            self.claims.remove(&claim);
        }
    }

    fn link(&mut self, key: &ObjectKey, object: &Arc<Object>) {
        for (_, target) in object.references() {
            self.referrers.entry(target).or_default().insert(key.clone());
        }
        for (_, claim) in object.claims() {
            self.claims.insert(claim, key.clone());
        }
        if self.objects.insert(key.clone(), object.clone()).is_none() {
            *self.counts.entry(key.kind).or_default() += 1;
        }
    }
}
