//! The objects in force, and the checks of changes to them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use nlog_data::Row;

use crate::object::Claim;
use crate::{Batch, FaultCode, Kind, Object, ObjectError, ObjectKey};

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
    /// One change for each object of the request, in its order, including unchanged objects.
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
            (None, _) => Outcome::Created,
            (Some(_), None) => Outcome::Deleted,
            (Some(before), Some(after)) if before == after => Outcome::Unchanged,
            (Some(_), Some(_)) => Outcome::Updated,
        }
    }
}

impl ChangeSet {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.changes.iter().all(|change| change.outcome() == Outcome::Unchanged)
    }

    /// The changes, without unchanged objects.
    pub fn effective(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(|change| change.outcome() != Outcome::Unchanged)
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

    /// Plans to create or replace the objects of a batch. Returns the changes, or all faults in the batch's order.
    /// The store stays unchanged: see [`ObjectStore::commit`].
    pub fn plan(&self, batch: Batch) -> Result<ChangeSet, Vec<ObjectError>> {
        let Batch { entries, mut faults, faulty, unnamed, .. } = batch;
        let keys: HashMap<ObjectKey, usize> =
            entries.iter().enumerate().map(|(index, entry)| (entry.object.key(), index)).collect();
        let mut claims: HashMap<Claim, usize> = HashMap::new();

        for (index, entry) in entries.iter().enumerate() {
            let mut fault = |code, path, message| {
                let (place, kind) = (Some(entry.place.clone()), Some(entry.object.kind().name().to_owned()));
                let id = Some(entry.object.id().to_owned());
                faults.push((entry.number, ObjectError { code, place, kind, id, path, message }));
            };
            for (path, target) in entry.object.references() {
                let known = keys.contains_key(&target) || self.objects.contains_key(&target);
                if !known && !unnamed && !faulty.contains(&target.id) {
                    fault(
                        FaultCode::NoSuchObject,
                        path,
                        format!("{target} does not exist; apply it first, or in the same request"),
                    );
                }
            }
            if let Some((path, message)) = self.nested(&entries, &keys, &faulty, &entry.object) {
                fault(FaultCode::BadValue, path, message);
            }
            for (path, claim) in entry.object.claims() {
                let holder = self.claims.get(&claim).filter(|holder| !keys.contains_key(holder));
                if let Some(holder) = holder {
                    fault(FaultCode::Duplicate, path, format!("{claim} already belongs to {holder}"));
                } else if let Some(first) = claims.get(&claim) {
                    let message = if *first == index {
                        format!("{claim} is given twice")
                    } else {
                        let first = &entries[*first];
                        format!("{claim} already belongs to {} ({})", first.object.key(), first.place)
                    };
                    fault(FaultCode::Duplicate, path, message);
                } else {
                    claims.insert(claim, index);
                }
            }
        }
        if !faults.is_empty() {
            faults.sort_by_key(|(number, _)| *number);
            return Err(faults.into_iter().map(|(_, error)| error).collect());
        }

        let change = |object: Object| {
            let key = object.key();
            let before = self.objects.get(&key).cloned();
            // An equal object keeps its allocation, so that applying all objects again does not copy the store.
            let after =
                before.clone().filter(|before| **before == object).unwrap_or_else(|| Arc::new(object));
            Change { key, before, after: Some(after) }
        };
        Ok(ChangeSet { changes: entries.into_iter().map(|entry| change(entry.object)).collect() })
    }

    /// The fault if an object cannot have its parent: the parent has a parent itself, or the object is a parent.
    fn nested(
        &self,
        entries: &[crate::Entry],
        keys: &HashMap<ObjectKey, usize>,
        faulty: &BTreeSet<String>,
        object: &Object,
    ) -> Option<(String, String)> {
        let (path, parent) = object.parent()?;
        if faulty.contains(&parent.id) {
            return None;
        }
        let given = keys.get(&parent).map(|index| &entries[*index].object);
        let there = given.or_else(|| self.objects.get(&parent).map(|object| &**object));
        if let Some((_, outer)) = there.and_then(Object::parent) {
            return Some((
                path.to_owned(),
                format!("{parent} is itself a member of trunk {outer}; use {outer} as the parent"),
            ));
        }
        let key = object.key();
        // Members in the batch are checked themselves, if they keep their parent.
        let referrers = self.referrers.get(&key).into_iter().flatten();
        let is_member = |referrer: &&ObjectKey| {
            let there = self.objects.get(*referrer).and_then(|object| object.parent());
            !keys.contains_key(referrer)
                && !faulty.contains(&referrer.id)
                && there.is_some_and(|(_, parent)| parent == key)
        };
        let member = referrers.into_iter().find(is_member)?;
        Some((
            path.to_owned(),
            format!("{member} has {key} as its parent, so {key} cannot have a parent itself"),
        ))
    }

    /// Plans to delete objects. Returns the changes, or the faults: [`FaultCode::NoSuchObject`], and
    /// [`FaultCode::InUse`] with the referrers, unless they are deleted too. The store stays unchanged.
    pub fn plan_delete(&self, keys: &[ObjectKey]) -> Result<ChangeSet, Vec<ObjectError>> {
        const NAMED_MAX: usize = 5;
        let distinct: BTreeSet<&ObjectKey> = keys.iter().collect();
        let mut errors = Vec::new();
        let mut changes = Vec::new();
        for key in &distinct {
            let Some(object) = self.objects.get(*key) else {
                errors.push(ObjectError::of_object(
                    FaultCode::NoSuchObject,
                    key,
                    "does not exist".to_owned(),
                ));
                continue;
            };
            let referrers = self.referrers.get(*key).into_iter().flatten();
            let staying: Vec<String> =
                referrers.filter(|referrer| !distinct.contains(referrer)).map(ToString::to_string).collect();
            if !staying.is_empty() {
                let more = staying.len().saturating_sub(NAMED_MAX);
                let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
                let named = staying[..staying.len() - more].join(", ");
                let message =
                    format!("is in use by {named}{tail}; delete the objects that refer to it first");
                errors.push(ObjectError::of_object(FaultCode::InUse, key, message));
            }
            changes.push(Change { key: (*key).clone(), before: Some(object.clone()), after: None });
        }
        if errors.is_empty() { Ok(ChangeSet { changes }) } else { Err(errors) }
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
