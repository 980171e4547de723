//! Plans the changes that a request makes to the objects in force, or finds all its faults.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::{Change, ChangeSet, ObjectStore};
use crate::document::Removal;
use crate::object::Claim;
use crate::{Batch, Entry, FaultCode, Object, ObjectError, ObjectKey};

/// The most referrers that a fault names.
const NAMED_MAX: usize = 5;

/// A request, and the store that it changes.
struct Request<'a> {
    store: &'a ObjectStore,
    batch: &'a Batch,
    /// The entry of each object that the request creates or replaces.
    given: HashMap<ObjectKey, &'a Entry>,
    /// The objects that it deletes.
    gone: HashSet<ObjectKey>,
}

impl ObjectStore {
    /// Plans to create, replace and delete the objects of a batch. Returns the changes, or all faults in the batch's
    /// order. The store stays unchanged: see [`ObjectStore::commit`].
    pub fn plan(&self, batch: Batch) -> Result<ChangeSet, Vec<ObjectError>> {
        let pruned = self.pruned(&batch);
        let request = Request::new(self, &batch, &pruned);
        let mut faults = request.faults();
        if batch.prune && batch.count() == 0 {
            let message =
                "no object is given, so all objects would be deleted; to delete some, name them".to_owned();
            let (code, path) = (FaultCode::MissingField, String::new());
            faults.push((0, ObjectError { code, place: None, kind: None, id: None, path, message }));
        }
        let Batch { entries, removals, faults: of_objects, .. } = batch;
        faults.extend(of_objects);
        if !faults.is_empty() {
            faults.sort_by_key(|(number, _)| *number);
            return Err(faults.into_iter().map(|(_, error)| error).collect());
        }
        let put = |object: Object| {
            let key = object.key();
            let before = self.objects.get(&key).cloned();
            // An equal object keeps its allocation, so that applying all objects again does not copy the store.
            let after =
                before.clone().filter(|before| **before == object).unwrap_or_else(|| Arc::new(object));
            Change { key, before, after: Some(after) }
        };
        let mut changes: Vec<(usize, Change)> =
            entries.into_iter().map(|entry| (entry.number, put(entry.object))).collect();
        changes.extend(removals.into_iter().map(|removal| (removal.number, self.removal(removal.key))));
        changes.sort_by_key(|(number, _)| *number);
        let named = changes.into_iter().map(|(_, change)| change);
        let pruned = pruned.into_iter().map(|key| self.removal(key));
        Ok(ChangeSet { changes: named.chain(pruned).collect() })
    }

    /// Plans to delete objects. Returns the changes, or the faults: [`FaultCode::NoSuchObject`], and
    /// [`FaultCode::InUse`] with the referrers, unless they are deleted too. The store stays unchanged.
    pub fn plan_delete(&self, keys: &[ObjectKey]) -> Result<ChangeSet, Vec<ObjectError>> {
        let distinct: BTreeSet<&ObjectKey> = keys.iter().collect();
        let mut errors = Vec::new();
        for key in &distinct {
            let fault = if self.objects.contains_key(*key) {
                let message = self.in_use(key, |referrer| !distinct.contains(referrer));
                message.map(|message| (FaultCode::InUse, message))
            } else {
                Some((FaultCode::NoSuchObject, "does not exist".to_owned()))
            };
            errors.extend(fault.map(|(code, message)| ObjectError::of_object(code, key, message)));
        }
        let changes = distinct.into_iter().map(|key| self.removal(key.clone())).collect();
        if errors.is_empty() { Ok(ChangeSet { changes }) } else { Err(errors) }
    }

    fn removal(&self, key: ObjectKey) -> Change {
        Change { before: self.objects.get(&key).cloned(), after: None, key }
    }

    /// The objects that a request deletes because it does not name them.
    fn pruned(&self, batch: &Batch) -> Vec<ObjectKey> {
        if !batch.prune {
            return Vec::new();
        }
        self.objects.keys().filter(|key| !batch.names(key)).cloned().collect()
    }

    /// The fault of an object that is deleted while others that stay refer to it.
    fn in_use(&self, key: &ObjectKey, stays: impl Fn(&ObjectKey) -> bool) -> Option<String> {
        let referrers = self.referrers.get(key).into_iter().flatten();
        let staying: Vec<String> =
            referrers.filter(|referrer| stays(referrer)).map(ToString::to_string).collect();
        if staying.is_empty() {
            return None;
        }
        let more = staying.len().saturating_sub(NAMED_MAX);
        let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
        let named = staying[..staying.len() - more].join(", ");
        Some(format!("is in use by {named}{tail}; delete the objects that refer to it first"))
    }
}

impl<'a> Request<'a> {
    fn new(store: &'a ObjectStore, batch: &'a Batch, pruned: &[ObjectKey]) -> Self {
        let given = batch.entries.iter().map(|entry| (entry.object.key(), entry)).collect();
        let removed = batch.removals.iter().map(|removal| &removal.key);
        Request { store, batch, given, gone: removed.chain(pruned).cloned().collect() }
    }

    /// The object of this key after the request, unless it has a fault of its own.
    fn afterwards(&self, key: &ObjectKey) -> Option<&Object> {
        let stays =
            || self.store.objects.get(key).filter(|_| !self.gone.contains(key)).map(|object| &**object);
        self.given.get(key).map(|entry| &entry.object).or_else(stays)
    }

    /// Whether the request leaves an object as it is. Objects of the request are checked themselves.
    fn leaves(&self, key: &ObjectKey) -> bool {
        !self.given.contains_key(key) && !self.gone.contains(key) && !self.batch.faulty.contains(&key.id)
    }

    /// The faults that objects have only beside others, each with the number of its object in the batch.
    fn faults(&self) -> Vec<(usize, ObjectError)> {
        let mut faults = Vec::new();
        let mut claims: HashMap<Claim, &Entry> = HashMap::new();
        for entry in &self.batch.entries {
            let mut of_entry = self.dangling(&entry.object);
            of_entry.extend(self.nested(&entry.object));
            of_entry.extend(self.claimed(entry, &mut claims));
            faults.extend(of_entry.into_iter().map(|(code, path, message)| {
                let (place, kind) = (Some(entry.place.clone()), Some(entry.object.kind().name().to_owned()));
                let id = Some(entry.object.id().to_owned());
                (entry.number, ObjectError { code, place, kind, id, path, message })
            }));
        }
        for Removal { number, place, key } in &self.batch.removals {
            if let Some(message) = self.store.in_use(key, |referrer| self.leaves(referrer)) {
                let error = ObjectError::of_object(FaultCode::InUse, key, message);
                faults.push((*number, ObjectError { place: Some(place.clone()), ..error }));
            }
        }
        faults
    }

    /// References to objects that do not exist.
    fn dangling(&self, object: &Object) -> Vec<(FaultCode, String, String)> {
        let Batch { faulty, unnamed, .. } = self.batch;
        let mut faults = Vec::new();
        for (path, target) in object.references() {
            if self.afterwards(&target).is_some() || *unnamed || faulty.contains(&target.id) {
                continue;
            }
            let message = if self.gone.contains(&target) {
                format!("{target} is deleted by the same request")
            } else {
                format!("{target} does not exist; apply it first, or in the same request")
            };
            faults.push((FaultCode::NoSuchObject, path, message));
        }
        faults
    }

    /// The fault if an object cannot have its parent: the parent has a parent itself, or the object is a parent.
    fn nested(&self, object: &Object) -> Option<(FaultCode, String, String)> {
        let (path, parent) = object.parent()?;
        if self.batch.faulty.contains(&parent.id) {
            return None;
        }
        let fault = |message| Some((FaultCode::BadValue, path.to_owned(), message));
        if let Some((_, outer)) = self.afterwards(&parent).and_then(Object::parent) {
            return fault(format!("{parent} is itself a member of trunk {outer}; use {outer} as the parent"));
        }
        let key = object.key();
        // Members in the batch are checked themselves, if they keep their parent.
        let referrers = self.store.referrers.get(&key).into_iter().flatten();
        let is_member = |referrer: &&ObjectKey| {
            let there = self.store.objects.get(*referrer).and_then(|object| object.parent());
            self.leaves(referrer) && there.is_some_and(|(_, parent)| parent == key)
        };
        let member = referrers.into_iter().find(is_member)?;
        fault(format!("{member} has {key} as its parent, so {key} cannot have a parent itself"))
    }

    /// Values of an object that belong to another one.
    fn claimed<'b>(
        &self,
        entry: &'b Entry,
        claims: &mut HashMap<Claim, &'b Entry>,
    ) -> Vec<(FaultCode, String, String)> {
        let mut faults = Vec::new();
        for (path, claim) in entry.object.claims() {
            let keeps =
                |holder: &&ObjectKey| !self.given.contains_key(*holder) && !self.gone.contains(*holder);
            let message = if let Some(holder) = self.store.claims.get(&claim).filter(keeps) {
                format!("{claim} already belongs to {holder}")
            } else if let Some(first) = claims.get(&claim) {
                if first.number == entry.number {
                    format!("{claim} is given twice")
                } else {
                    format!("{claim} already belongs to {} ({})", first.object.key(), first.place)
                }
            } else {
                claims.insert(claim, entry);
                continue;
            };
            faults.push((FaultCode::Duplicate, path, message));
        }
        faults
    }
}
