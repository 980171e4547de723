//! Plans the changes that a request makes to the objects in force, or finds all its faults.

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use nlog_data::quotation::cut;

use super::expected::{Deletion, stale};
use super::{Change, ChangeSet, Digest, Name, ObjectStore, Scope, name_of};
use crate::document::Removal;
use crate::field::Path;
use crate::read::{Named, REVISION};
use crate::walk::{Reference, changed_references, claims, references, references_at};
use crate::{Batch, Cancel, Entry, FaultCode, Object, ObjectError, ObjectKey, Place};

/// The most referrers that a fault names.
const NAMED_MAX: usize = 5;
/// The most duplicates that are listed.
const DUPLICATES_MAX: usize = 100;

/// A request, and the store that it changes.
struct Request<'a> {
    store: &'a ObjectStore,
    batch: &'a Batch,
    /// The entry of each object that the request creates or replaces.
    given: HashMap<Name, &'a Entry>,
    /// The objects that it deletes.
    gone: HashSet<Name>,
    /// The number of duplicates found.
    duplicates: Cell<usize>,
}

/// A request with faults.
#[derive(Debug)]
pub struct Faulty {
    /// Each with the number of its object in the batch.
    faults: Vec<(usize, ObjectError)>,
    rest: Option<Rest>,
}

/// What remains of a request without the objects that have faults.
#[derive(Debug)]
struct Rest {
    changes: ChangeSet,
    /// The numbers of its objects in the batch.
    numbers: HashMap<ObjectKey, usize>,
}

impl Faulty {
    /// The changes that the rest of the request would make, for rules to say what they refuse of it. Objects with faults are
    /// deleted. Rules derive refusals from what is there, so those of the rest are refusals of the request. None if an object
    /// cannot be read at all: nobody knows which one it is, and what it changes.
    pub fn rest(&self) -> Option<&ChangeSet> {
        self.rest.as_ref().map(|rest| &rest.changes).filter(|changes| !changes.is_empty())
    }

    /// Adds what rules refuse of objects of the [rest](Faulty::rest). Refusals of other objects are left out, as they may follow from
    /// what is missing.
    pub fn refuse(&mut self, refusals: Vec<ObjectError>) {
        let Some(Rest { numbers, .. }) = &self.rest else { return };
        for refusal in refusals {
            let key = refusal.kind.as_deref().zip(refusal.id.as_deref());
            let number = key.and_then(|(kind, id)| numbers.get(&ObjectKey::new(kind, id)));
            self.faults.extend(number.map(|number| (*number, refusal)));
        }
    }

    /// All faults, in the batch's order.
    pub fn into_faults(mut self) -> Vec<ObjectError> {
        self.faults.sort_by_key(|(number, _)| *number);
        self.faults.into_iter().map(|(_, error)| error).collect()
    }
}

/// Code, path and message of a fault.
type Found = (FaultCode, String, String);

impl ObjectStore {
    /// Plans to apply the text of a file, read as by [`Batch::add_document`]. Returns the changes, or all faults. The store
    /// stays unchanged: see [`ObjectStore::commit`].
    pub fn plan_document(&self, name: &str, text: &str) -> Result<ChangeSet, Vec<ObjectError>> {
        let mut batch = Batch::new(&self.kinds, Cancel::default());
        batch.add_document(name, text);
        self.plan(batch)
    }

    /// The same; with faults, also says what remains of the file without them.
    pub fn plan_document_or_rest(&self, name: &str, text: &str) -> Result<ChangeSet, Faulty> {
        let mut batch = Batch::new(&self.kinds, Cancel::default());
        batch.add_document(name, text);
        self.plan_or_rest(batch)
    }

    /// Plans to create, replace and delete the objects of a batch. Returns the changes, or all faults in the batch's
    /// order. The store stays unchanged: see [`ObjectStore::commit`].
    pub fn plan(&self, batch: Batch) -> Result<ChangeSet, Vec<ObjectError>> {
        self.plan_or_rest(batch).map_err(Faulty::into_faults)
    }

    /// The same; with faults, also says what remains of the batch without them.
    pub fn plan_or_rest(&self, batch: Batch) -> Result<ChangeSet, Faulty> {
        self.plan_for(batch, None)
    }

    /// Plans a batch that may concern objects of one owner alone.
    pub fn plan_within(&self, mut batch: Batch, scope: &Scope<'_>) -> Result<ChangeSet, Vec<ObjectError>> {
        let absent = self.take_absent(&mut batch, scope);
        let mut faults = self.outside(&batch, scope);
        for Removal { number, place, key, expected } in &absent {
            let message = stale(batch.expectation(*expected), None);
            faults.extend(message.map(|message| {
                let error = ObjectError::of_object(FaultCode::Stale, key, message);
                (*number, ObjectError { place: Some(place.clone()), path: REVISION.to_owned(), ..error })
            }));
        }
        if !faults.is_empty() {
            faults.append(&mut batch.faults);
            return Err(Faulty { faults, rest: None }.into_faults());
        }
        let planned = self.plan_for(batch, Some(scope));
        let mut changes = planned.map_err(|faulty| self.hidden(faulty.into_faults(), scope))?;
        let nothing = |Removal { place, key, .. }| Change {
            before: None,
            after: None,
            key,
            place: Some(place),
            named: Named::ALL,
        };
        changes.changes.extend(absent.into_iter().map(nothing));
        Ok(changes)
    }

    fn plan_for(&self, batch: Batch, scope: Option<&Scope<'_>>) -> Result<ChangeSet, Faulty> {
        if !self.kinds.is_same(&batch.kinds) {
            let message = "the rules have changed since these objects were read; apply them again";
            let fault = fault_of_all(FaultCode::UnknownKind, message.to_owned());
            return Err(Faulty { faults: vec![(0, fault)], rest: None });
        }
        let pruned = self.pruned(&batch, scope);
        let request = Request::new(self, &batch, &pruned);
        let mut faults = request.faults();
        if !batch.selection.is_all() || scope.is_some() {
            faults.extend(request.needed(&pruned));
        }
        if batch.prune && batch.count() == 0 {
            let message =
                "no object is given, so all objects would be deleted; to delete some, name them".to_owned();
            faults.push((0, fault_of_all(FaultCode::MissingField, message)));
        }
        let Batch { entries, removals, faults: of_objects, faulty, unnamed, .. } = batch;
        if !faults.is_empty() || !of_objects.is_empty() {
            let mut rest = None;
            if !unnamed {
                let bad: HashSet<usize> = faults.iter().map(|(number, _)| *number).collect();
                let (bad, good): (Vec<Entry>, Vec<Entry>) =
                    entries.into_iter().partition(|entry| bad.contains(&entry.number));
                let ids = bad.iter().map(|entry| entry.object.id().clone()).chain(faulty).collect();
                rest = Some(self.rest(good, &ids));
            }
            faults.extend(of_objects);
            return Err(Faulty { faults, rest });
        }
        let mut changes: Vec<(usize, Change)> =
            entries.into_iter().map(|entry| (entry.number, self.put(entry))).collect();
        changes.extend(removals.into_iter().map(|Removal { number, place, key, .. }| {
            (number, Change { place: Some(place), ..self.removal(key) })
        }));
        changes.sort_by_key(|(number, _)| *number);
        let named = changes.into_iter().map(|(_, change)| change);
        let pruned = pruned.iter().map(|name| self.removal(self.key(name)));
        Ok(ChangeSet { changes: named.chain(pruned).collect() })
    }

    /// The change of an object that is created or replaced.
    fn put(&self, Entry { object, place, named, .. }: Entry) -> Change {
        let key = object.key();
        let before = self.get(&key).cloned();
        // An equal object keeps its allocation, so that applying all objects again does not copy the store, and its revision.
        let after = before.clone().filter(|before| *before == object).unwrap_or(object);
        Change { key, before, after: Some(after), place: Some(place), named }
    }

    /// The changes by the objects without faults. Objects with these ids have faults, so nothing is known of them: neither what
    /// they are to be, nor that they stay as they are.
    fn rest(&self, good: Vec<Entry>, faulty: &HashSet<Arc<str>>) -> Rest {
        let numbers = good.iter().map(|entry| (entry.object.key(), entry.number)).collect();
        let mut changes: Vec<Change> = good.into_iter().map(|entry| self.put(entry)).collect();
        let unknown = self.iter().filter(|(key, _)| faulty.contains(&key.id));
        let known: HashSet<ObjectKey> = changes.iter().map(|change| change.key.clone()).collect();
        changes.extend(unknown.filter(|(key, _)| !known.contains(key)).map(|(key, _)| self.removal(key)));
        Rest { changes: ChangeSet { changes }, numbers }
    }

    /// Plans to delete objects. Returns the changes, or the faults: [`FaultCode::NoSuchObject`], [`FaultCode::Stale`], and
    /// [`FaultCode::InUse`] with the referrers, unless they are deleted too. The store stays unchanged.
    pub fn plan_delete<D: Into<Deletion>>(
        &self,
        deletions: impl IntoIterator<Item = D>,
    ) -> Result<ChangeSet, Vec<ObjectError>> {
        self.plan_delete_within(deletions, None)
    }

    /// The same for somebody who may know objects of one owner alone.
    pub fn plan_delete_within<D: Into<Deletion>>(
        &self,
        deletions: impl IntoIterator<Item = D>,
        scope: Option<&Scope<'_>>,
    ) -> Result<ChangeSet, Vec<ObjectError>> {
        let deletions: Vec<Deletion> = deletions.into_iter().map(Into::into).collect();
        let distinct: BTreeSet<&ObjectKey> = deletions.iter().map(|deletion| &deletion.key).collect();
        let names: HashSet<Name> = distinct.iter().filter_map(|key| self.name(key)).collect();
        let stays = |name: &Name| !names.contains(name);
        let exists = |name: &Name| self.find(name).is_some() && stays(name);
        let mut errors = Vec::new();
        for key in &distinct {
            let name = self.name(key).filter(|name| self.has_within(name, scope));
            let fault = match name {
                Some(name) => self.in_use(&name, stays, exists).map(|message| (FaultCode::InUse, message)),
                None => Some((FaultCode::NoSuchObject, "does not exist".to_owned())),
            };
            errors.extend(fault.map(|(code, message)| ObjectError::of_object(code, key, message)));
        }
        for Deletion { key, expected } in &deletions {
            // Of an object that is not there, that is said already.
            let is_known = self.name(key).is_some_and(|name| self.has_within(&name, scope));
            let present = self.get(key).filter(|_| is_known).map(|object| object.revision());
            let message = present.and_then(|present| stale(*expected, Some(present)));
            let fault = message.map(|message| ObjectError::of_object(FaultCode::Stale, key, message));
            errors.extend(fault.map(|error| ObjectError {
                path: REVISION.to_owned(),
                expected: *expected,
                ..error
            }));
        }
        let changes = distinct.into_iter().map(|key| self.removal(key.clone())).collect();
        if errors.is_empty() {
            return Ok(ChangeSet { changes });
        }
        Err(match scope {
            Some(scope) => self.hidden(errors, scope),
            None => errors,
        })
    }

    fn removal(&self, key: ObjectKey) -> Change {
        Change { before: self.get(&key).cloned(), after: None, key, place: None, named: Named::ALL }
    }

    /// The objects that a request deletes because it does not name them.
    fn pruned(&self, batch: &Batch, scope: Option<&Scope<'_>>) -> Vec<Name> {
        if !batch.prune {
            return Vec::new();
        }
        let selected = self.selected(&batch.selection);
        let unnamed = self.iter().filter(|(key, object)| !batch.names(key) && selected.has(object));
        unnamed.map(|(_, object)| name_of(object)).filter(|name| self.has_within(name, scope)).collect()
    }

    /// The fault of an object that is deleted while others that stay need it.
    fn in_use(
        &self,
        name: &Name,
        stays: impl Fn(&Name) -> bool,
        exists: impl Fn(&Name) -> bool,
    ) -> Option<String> {
        let referrers = self.referrers.get(name).into_iter().flatten();
        let staying: Vec<String> = referrers
            .filter(|referrer| stays(referrer) && self.needs(referrer, name, &exists))
            .map(|referrer| self.key(referrer).to_string())
            .collect();
        if staying.is_empty() {
            return None;
        }
        let more = staying.len().saturating_sub(NAMED_MAX);
        let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
        let named = staying[..staying.len() - more].join(", ");
        Some(format!("is in use by {named}{tail}; delete the objects that refer to it first"))
    }

    /// Whether a reference of an object needs another object: no object of another kind that the reference allows has
    /// that id.
    fn needs(&self, referrer: &Name, name: &Name, exists: impl Fn(&Name) -> bool) -> bool {
        let Some(object) = self.find(referrer) else { return false };
        let mut needs = false;
        references(object, |reference| {
            if *reference.id == name.1 {
                let mut kinds = reference.kinds.iter().filter_map(|kind| self.kinds.index(kind));
                needs |= kinds.clone().any(|kind| kind == name.0)
                    && !kinds.any(|kind| kind != name.0 && exists(&(kind, name.1.clone())));
            }
        });
        needs
    }
}

/// Why an object cannot refer to one of these kinds with this id: there is none.
pub(super) fn missing(kinds: &[String], id: &str) -> String {
    format!("{} {id} does not exist; apply it first, or in the same request", kinds.join(" or "))
}

/// A fault of a whole request.
fn fault_of_all(code: FaultCode, message: String) -> ObjectError {
    ObjectError { code, place: None, kind: None, id: None, path: String::new(), message, expected: None }
}

impl<'a> Request<'a> {
    fn new(store: &'a ObjectStore, batch: &'a Batch, pruned: &[Name]) -> Self {
        let given = batch.entries.iter().map(|entry| (name_of(&entry.object), entry)).collect();
        let removed = batch.removals.iter().filter_map(|removal| store.name(&removal.key));
        let gone = removed.chain(pruned.iter().cloned()).collect();
        Request { store, batch, given, gone, duplicates: Cell::new(0) }
    }

    /// Whether there is an object of this name after the request.
    fn exists(&self, name: &Name) -> bool {
        self.given.contains_key(name) || (self.store.find(name).is_some() && !self.gone.contains(name))
    }

    /// Whether the request neither replaces nor deletes the object.
    fn keeps(&self, name: &Name) -> bool {
        !self.given.contains_key(name) && !self.gone.contains(name)
    }

    /// Whether the request leaves an object as it is. Objects of the request are checked themselves.
    fn leaves(&self, name: &Name) -> bool {
        self.keeps(name) && !self.batch.faulty.contains(&name.1)
    }

    /// The faults that objects have only beside others, each with the number of its object in the batch.
    fn faults(&self) -> Vec<(usize, ObjectError)> {
        let mut faults = Vec::new();
        let mut held: HashMap<Digest, &Entry> = HashMap::new();
        for entry in &self.batch.entries {
            let mut of_entry: Vec<Found> =
                self.stale(&entry.object.key(), entry.expected).into_iter().collect();
            self.dangling(&entry.object, &mut of_entry);
            self.same_id(entry, &mut of_entry);
            self.claimed(entry, &mut held, &mut of_entry);
            faults.extend(of_entry.into_iter().map(|(code, path, message)| {
                let error = ObjectError::of_object(code, &entry.object.key(), message);
                let path = cut(&path).into_owned();
                let expected = self.expected_by(code, entry.expected);
                (entry.number, ObjectError { place: Some(entry.place.clone()), path, expected, ..error })
            }));
        }
        for Removal { number, place, key, expected } in &self.batch.removals {
            let Some(name) = self.store.name(key) else { continue };
            let in_use = self.store.in_use(&name, |name| self.leaves(name), |name| self.exists(name));
            let in_use = in_use.map(|message| (FaultCode::InUse, String::new(), message));
            faults.extend(self.stale(key, *expected).into_iter().chain(in_use).map(
                |(code, path, message)| {
                    let error = ObjectError::of_object(code, key, message);
                    let expected = self.expected_by(code, *expected);
                    (*number, ObjectError { place: Some(place.clone()), path, expected, ..error })
                },
            ));
        }
        let more = self.duplicates.get().saturating_sub(DUPLICATES_MAX);
        if more > 0 {
            let message = format!("{more} more duplicates are not listed; correct those above first");
            faults.push((usize::MAX, fault_of_all(FaultCode::Duplicate, message)));
        }
        faults
    }

    /// An object of another revision than its document, or the batch, expects.
    fn stale(&self, key: &ObjectKey, expected: Option<u64>) -> Option<Found> {
        let present = self.store.get(key).map(|object| object.revision());
        let message = stale(self.batch.expectation(expected), present)?;
        Some((FaultCode::Stale, REVISION.to_owned(), message))
    }

    /// What a request expects of an object, if that is its fault.
    fn expected_by(&self, code: FaultCode, expected: Option<u64>) -> Option<u64> {
        self.batch.expectation(expected).filter(|_| code == FaultCode::Stale)
    }

    /// Objects that are pruned while others that are not selected need them.
    fn needed(&self, pruned: &[Name]) -> Vec<(usize, ObjectError)> {
        let fault = |name: &Name| {
            let message = self.store.in_use(name, |name| self.leaves(name), |name| self.exists(name))?;
            Some((usize::MAX, ObjectError::of_object(FaultCode::InUse, &self.store.key(name), message)))
        };
        pruned.iter().filter_map(fault).collect()
    }

    /// References to objects that do not exist. Those that the object has in force resolve, and go on to if nothing is deleted.
    fn dangling(&self, object: &Object, faults: &mut Vec<Found>) {
        let before = self.store.find(&name_of(object)).filter(|_| self.gone.is_empty());
        let looked_at = before.map_or(0..usize::MAX, |before| {
            let [_, changed] = changed_references(before, object);
            changed
        });
        references_at(object, &looked_at, |Reference { path, kinds, id }| {
            let names = || {
                let kinds = kinds.iter().filter_map(|kind| self.store.kinds.index(kind));
                kinds.map(|kind| (kind, id.clone()))
            };
            let is_hidden = || self.batch.unnamed || self.batch.faulty.contains(id);
            if names().any(|name| self.exists(&name)) || is_hidden() {
                return;
            }
            let message = if let Some(name) = names().find(|name| self.gone.contains(name)) {
                format!("{} is deleted by the same request", self.store.key(&name))
            } else {
                missing(kinds, id)
            };
            faults.push((FaultCode::NoSuchObject, Path(path).to_string(), message));
        });
    }

    /// Ids that belong to objects of other kinds in the same name space.
    fn same_id(&self, entry: &Entry, faults: &mut Vec<Found>) {
        let (kind, id) = (entry.object.kind(), entry.object.id());
        for other in &kind.relatives {
            let name = (*other, id.clone());
            let first = self.given.get(&name).filter(|first| first.number < entry.number);
            let place = first.map(|first| &first.place);
            let is_held = place.is_some() || (self.store.find(&name).is_some() && self.keeps(&name));
            if is_held && self.is_listed() {
                let holder = Holder { key: self.store.key(&name), place };
                let message = format!("{} id {id} already belongs to {holder}", kind.declared().id_space);
                faults.push((FaultCode::Duplicate, "id".to_owned(), message));
            }
        }
    }

    /// Counts a duplicate. Whether it is listed.
    fn is_listed(&self) -> bool {
        self.duplicates.update(|count| count + 1);
        self.duplicates.get() <= DUPLICATES_MAX
    }

    /// Values of an object that belong to another one.
    fn claimed<'b>(&self, entry: &'b Entry, held: &mut HashMap<Digest, &'b Entry>, faults: &mut Vec<Found>) {
        claims(&entry.object, |claim| {
            let digest = self.store.digests.of(entry.object.kind(), claim);
            let holder = self.store.claims.get(&digest).filter(|holder| self.keeps(&name_of(holder)));
            let first = held.get(&digest).copied();
            if holder.is_none() && first.is_none() {
                held.insert(digest, entry);
                return;
            }
            if !self.is_listed() {
                return;
            }
            let values = cut(&claim.describe()).into_owned();
            let other = match (holder, first) {
                (Some(holder), _) => Some(Holder { key: holder.key(), place: None }),
                (None, first) => first
                    .filter(|first| first.number != entry.number)
                    .map(|first| Holder { key: first.object.key(), place: Some(&first.place) }),
            };
            let message = match other {
                Some(holder) => format!("{values} already belongs to {holder}"),
                None => format!("{values} is given twice"),
            };
            faults.push((FaultCode::Duplicate, Path(claim.path).to_string(), message));
        });
    }
}

/// The object that has a value already, and its place in the request if that gives it.
struct Holder<'a> {
    key: ObjectKey,
    place: Option<&'a Place>,
}

impl std::fmt::Display for Holder<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.place {
            Some(place) => write!(f, "{} ({place})", self.key),
            None => write!(f, "{}", self.key),
        }
    }
}
