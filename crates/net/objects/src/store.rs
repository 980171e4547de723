//! The objects in force, and the checks of changes to them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::ops::{Bound, Range};
use std::sync::Arc;

use nlog_data::{Row, Schema, TableId, Value};

use crate::walk::{Claim, changed_references, claims, references, references_at};
use crate::{Kind, Kinds, Labels, Object, ObjectKey};

mod change;
mod difference;
mod expected;
mod plan;
mod refused;
mod scope;
mod selection;

pub use change::{Change, ChangeSet, Outcome, Rows};
pub use difference::FieldChange;
pub use expected::Deletion;
pub use plan::Faulty;
pub use refused::{REFUSE, Refusal, named_in};
pub use scope::Scope;
pub use selection::Selection;

/// The objects in force. All references resolve, and unique values belong to at most one object.
#[derive(Debug)]
pub struct ObjectStore {
    kinds: Kinds,
    /// The objects of each kind, by id.
    objects: Vec<BTreeMap<Arc<str>, Arc<Object>>>,
    /// The objects that refer to each name.
    referrers: HashMap<Name, BTreeSet<Name>>,
    /// The holder of each unique value.
    claims: HashMap<Digest, Arc<Object>>,
    digests: Digests,
}

/// An object, by the index of its kind and its id.
type Name = (usize, Arc<str>);

/// Stands for values that only one object can have. Two random functions of 64 bits make it, so that different values
/// never have the same in practice.
type Digest = [u64; 2];

/// The functions that make digests.
#[derive(Debug, Clone, Default)]
struct Digests([RandomState; 2]);

impl Digests {
    fn of(&self, kind: &Kind, claim: &Claim) -> Digest {
        self.0.each_ref().map(|function| function.hash_one((kind.index(), claim.index, claim.values)))
    }
}

fn name_of(object: &Object) -> Name {
    (object.kind().index(), object.id().clone())
}

impl ObjectStore {
    /// A store without objects, for objects of these kinds.
    pub fn new(kinds: &Kinds) -> Self {
        ObjectStore {
            objects: vec![BTreeMap::new(); kinds.len()],
            kinds: kinds.clone(),
            referrers: HashMap::new(),
            claims: HashMap::new(),
            digests: Digests::default(),
        }
    }

    /// The objects that are rows of a program with these tables; `rows` gives the rows of a table. References need not
    /// resolve, nor need values be unique: rows are not checked as objects are. Labels of no object are left out.
    ///
    /// # Errors
    /// Those of `rows`.
    pub fn of_rows<E>(
        kinds: &Kinds,
        schema: &Schema,
        mut rows: impl FnMut(TableId) -> Result<Vec<Row>, E>,
    ) -> Result<Self, E> {
        let mut store = ObjectStore::new(kinds);
        let mut labels: HashMap<ObjectKey, Labels> = HashMap::new();
        if let Some(table) = change::label_table(schema) {
            for row in rows(table)? {
                if let [Value::String(kind), Value::String(id), Value::String(key), Value::String(value)] =
                    &row[..]
                {
                    let object = ObjectKey::new(kind.clone(), id.clone());
                    labels.entry(object).or_default().insert(key.to_string(), value.to_string());
                }
            }
        }
        for kind in kinds.iter() {
            let Some(table) = schema.find(kind.name()) else { continue };
            for row in rows(table)? {
                let [Value::String(id), values @ ..] = &row[..] else { continue };
                let key = ObjectKey { kind: kind.shared_name().clone(), id: id.clone() };
                let labels = labels.remove(&key).unwrap_or_default();
                let object = Arc::new(Object::new(kind.clone(), id.clone(), values.to_vec(), labels));
                store.link(&object);
                store.claim(&object);
            }
        }
        Ok(store)
    }

    /// The kinds of its objects.
    pub fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// The object, if it exists.
    pub fn get(&self, key: &ObjectKey) -> Option<&Arc<Object>> {
        self.objects.get(self.kinds.index(&key.kind)?)?.get(&key.id)
    }

    /// Whether an object of any kind has this id.
    pub fn has_id(&self, id: &str) -> bool {
        self.objects.iter().any(|objects| objects.contains_key(id))
    }

    fn find(&self, (kind, id): &Name) -> Option<&Arc<Object>> {
        self.objects.get(*kind)?.get(id)
    }

    fn key(&self, (kind, id): &Name) -> ObjectKey {
        ObjectKey { kind: self.kinds.at(*kind).shared_name().clone(), id: id.clone() }
    }

    fn name(&self, key: &ObjectKey) -> Option<Name> {
        Some((self.kinds.index(&key.kind)?, key.id.clone()))
    }

    /// The objects of a kind, ordered by id; none of an unknown kind.
    pub fn list<'a>(&'a self, kind: &str) -> impl Iterator<Item = &'a Arc<Object>> + use<'a> {
        self.list_after(kind, None)
    }

    /// The objects of a kind that follow this id, or all of them, ordered by id.
    pub fn list_after<'a>(
        &'a self,
        kind: &str,
        id: Option<&str>,
    ) -> impl Iterator<Item = &'a Arc<Object>> + use<'a> {
        let from: Bound<&str> = id.map_or(Bound::Unbounded, Bound::Excluded);
        let objects = self.kinds.index(kind).and_then(|kind| self.objects.get(kind));
        objects
            .map(|objects| objects.range::<str, _>((from, Bound::Unbounded)))
            .into_iter()
            .flatten()
            .map(|(_, object)| object)
    }

    /// The objects that refer to this one, by kind and id.
    pub fn referrers(&self, key: &ObjectKey) -> impl Iterator<Item = ObjectKey> {
        let names = self.name(key).and_then(|name| self.referrers.get(&name));
        names.into_iter().flatten().map(|name| self.key(name))
    }

    /// The objects that this one refers to, by kind and id, in declared order.
    pub fn references(&self, object: &Object) -> Vec<ObjectKey> {
        let names = self.targets(object).into_iter();
        names.filter(|name| self.find(name).is_some()).map(|name| self.key(&name)).collect()
    }

    /// The number of objects of a kind. Takes constant time.
    pub fn count(&self, kind: &str) -> usize {
        self.kinds.index(kind).and_then(|kind| self.objects.get(kind)).map_or(0, BTreeMap::len)
    }

    /// The number of all objects.
    pub fn len(&self) -> usize {
        self.objects.iter().map(BTreeMap::len).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.objects.iter().all(BTreeMap::is_empty)
    }

    /// All objects, by kind, in the order of the kinds, and id.
    pub fn iter(&self) -> impl Iterator<Item = (ObjectKey, &Arc<Object>)> {
        self.objects.iter().flat_map(BTreeMap::values).map(|object| (object.key(), object))
    }

    /// Applies a plan. Nothing else may have been committed since the plan was made.
    pub fn commit(&mut self, changes: &ChangeSet) {
        // An address may move from one object to another, so all that are given up come first.
        for before in changes.effective().filter_map(|change| change.before.as_ref()) {
            self.release(before);
        }
        for change in changes.effective() {
            match (&change.before, &change.after) {
                (Some(before), Some(after)) => self.replace(before, after),
                (Some(before), None) => self.unlink(before),
                (None, Some(after)) => self.link(after),
                (None, None) => {}
            }
        }
        for after in changes.effective().filter_map(|change| change.after.as_ref()) {
            self.claim(after);
        }
    }

    /// The names that an object's references can mean.
    fn targets(&self, object: &Object) -> Vec<Name> {
        self.targets_at(object, 0..usize::MAX)
    }

    /// The same for the references at these positions.
    fn targets_at(&self, object: &Object, at: Range<usize>) -> Vec<Name> {
        let mut targets = Vec::new();
        references_at(object, &at, |reference| {
            let kinds = reference.kinds.iter().filter_map(|kind| self.kinds.index(kind));
            targets.extend(kinds.map(|kind| (kind, reference.id.clone())));
        });
        targets
    }

    /// Replaces an object. What refers to what is changed only as far as it differs.
    fn replace(&mut self, before: &Object, after: &Arc<Object>) {
        let name = name_of(after);
        let [gone, come] = changed_references(before, after);
        let come = self.targets_at(after, come);
        let mut gone: HashSet<Name> = self.targets_at(before, gone).into_iter().collect();
        let ids: HashSet<Arc<str>> = gone.iter().map(|(_, id)| id.clone()).collect();
        if !ids.is_empty() {
            // Another reference may be to the same object.
            references(after, |reference| {
                if ids.contains(reference.id) {
                    let kinds = reference.kinds.iter().filter_map(|kind| self.kinds.index(kind));
                    kinds.for_each(|kind| {
                        gone.remove(&(kind, reference.id.clone()));
                    });
                }
            });
        }
        self.drop_referrer(&name, gone);
        for target in come {
            self.referrers.entry(target).or_default().insert(name.clone());
        }
        self.objects[name.0].insert(name.1, after.clone());
    }

    fn unlink(&mut self, object: &Object) {
        let name = name_of(object);
        self.objects[name.0].remove(&name.1);
        self.drop_referrer(&name, self.targets(object));
    }

    fn drop_referrer(&mut self, name: &Name, targets: impl IntoIterator<Item = Name>) {
        for target in targets {
            if let Some(referrers) = self.referrers.get_mut(&target) {
                referrers.remove(name);
                if referrers.is_empty() {
                    self.referrers.remove(&target);
                }
            }
        }
    }

    fn link(&mut self, object: &Arc<Object>) {
        let name = name_of(object);
        for target in self.targets(object) {
            self.referrers.entry(target).or_default().insert(name.clone());
        }
        self.objects[name.0].insert(name.1, object.clone());
    }

    fn release(&mut self, object: &Object) {
        let Self { claims: held, digests, .. } = self;
        claims(object, |claim| drop(held.remove(&digests.of(object.kind(), claim))));
    }

    fn claim(&mut self, object: &Arc<Object>) {
        let Self { claims: held, digests, .. } = self;
        claims(object, |claim| drop(held.insert(digests.of(object.kind(), claim), object.clone())));
    }
}
