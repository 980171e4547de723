//! Which objects a request may delete without naming them.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use nlog_data::Value;

use super::{Name, ObjectStore, name_of};
use crate::Object;

/// A choice of objects: those that meet all of these conditions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Their kind is one of these; of any kind, if empty.
    pub kinds: BTreeSet<Arc<str>>,
    /// They have all of these labels: key and value.
    pub labels: Vec<(String, String)>,
    /// A field of this name has one of these texts, or they refer to an object of which that holds; any, if empty. For a field that says
    /// to whom an object belongs, and is given once for all that hangs on it.
    pub owners: Vec<(String, String)>,
}

impl Selection {
    /// Whether it is all objects.
    pub fn is_all(&self) -> bool {
        self.kinds.is_empty() && self.labels.is_empty() && self.owners.is_empty()
    }
}

/// The objects of a selection in a store.
pub(super) struct Selected<'a> {
    selection: &'a Selection,
    /// What belongs to its owners.
    owned: HashSet<Name>,
}

impl Selected<'_> {
    /// Whether an object is one of them.
    pub(super) fn has(&self, object: &Object) -> bool {
        let Selection { kinds, labels, owners } = self.selection;
        (kinds.is_empty() || kinds.contains(object.kind().name()))
            && labels.iter().all(|(key, value)| object.labels().get(key) == Some(value))
            && (owners.is_empty() || self.owned.contains(&name_of(object)))
    }
}

impl ObjectStore {
    /// The objects of a selection.
    pub(super) fn selected<'a>(&self, selection: &'a Selection) -> Selected<'a> {
        let has_owner = |object: &Object| {
            selection.owners.iter().any(|(field, owner)| {
                matches!(object.value(field), Some(Value::String(text)) if **text == **owner)
            })
        };
        let mut owned: HashSet<Name> = HashSet::new();
        let mut added: Vec<Name> = Vec::new();
        if !selection.owners.is_empty() {
            added.extend(
                self.iter().filter(|(_, object)| has_owner(object)).map(|(_, object)| name_of(object)),
            );
        }
        while let Some(name) = added.pop() {
            if let Some(referrers) = self.referrers.get(&name).filter(|_| !owned.contains(&name)) {
                added.extend(referrers.iter().cloned());
            }
            owned.insert(name);
        }
        Selected { selection, owned }
    }
}
