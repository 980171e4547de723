//! Requests within the objects of one owner. To the owner, the objects of others are not there: a request that names one is refused in
//! the words of a request that names nothing.

use std::collections::HashSet;

use super::plan::missing;
use super::refused::named_in;
use super::{Name, ObjectStore, name_of};
use crate::document::Removal;
use crate::field::Path;
use crate::walk::{Reference, references};
use crate::{Batch, Entry, FaultCode, Object, ObjectError, ObjectKey};

/// The objects that a request may concern.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    /// Whose they are, as in `tenant acme`.
    pub owner: &'a str,
    /// Whether the owner can have objects of this kind.
    pub kinds: &'a dyn Fn(&str) -> bool,
    /// Whether the owner may know an object in force.
    pub sees: &'a dyn Fn(&Object) -> bool,
    /// Whether an object in force is the owner's, who may change it.
    pub has: &'a dyn Fn(&Object) -> bool,
    /// The beginning of the ids of new objects. Without it, the owner makes none.
    pub ids: Option<&'a str>,
}

impl ObjectStore {
    /// Whether there is an object of this name that is the owner's.
    pub(super) fn has_within(&self, name: &Name, scope: Option<&Scope<'_>>) -> bool {
        self.find(name).is_some_and(|object| scope.is_none_or(|scope| (scope.has)(object)))
    }

    /// The faults of a batch that concerns anything else than objects of its owner, each with the number of its object.
    pub(super) fn outside(&self, batch: &Batch, scope: &Scope<'_>) -> Vec<(usize, ObjectError)> {
        let given: HashSet<Name> = batch.entries.iter().map(|entry| name_of(&entry.object)).collect();
        let mut faults = Vec::new();
        for Entry { number, place, object, .. } in &batch.entries {
            let mut fault = |code, path: String, message| {
                let error = ObjectError::of_object(code, &object.key(), message);
                faults.push((*number, ObjectError { place: Some(place.clone()), path, ..error }));
            };
            if !(scope.kinds)(object.kind().name()) {
                let message = "objects of this kind are those of operators; ask one".to_owned();
                fault(FaultCode::Refused, String::new(), message);
                continue;
            }
            let before = self.find(&name_of(object)).filter(|before| (scope.has)(before));
            if before.is_none()
                && let Some((code, message)) = self.unfit(object, scope)
            {
                fault(code, "id".to_owned(), message);
            }
            // What somebody else has referred to, the owner may leave as it is.
            let kept: HashSet<Name> =
                before.map(|before| self.targets(before)).into_iter().flatten().collect();
            references(object, |Reference { path, kinds, id }| {
                let mut names =
                    kinds.iter().filter_map(|kind| self.kinds.index(kind)).map(|kind| (kind, id.clone()));
                let is_known = |name: &Name| {
                    given.contains(name) || kept.contains(name) || self.has_within(name, Some(scope))
                };
                if !names.any(|name| is_known(&name)) && !batch.unnamed && !batch.faulty.contains(id) {
                    fault(FaultCode::NoSuchObject, Path(path).to_string(), missing(kinds, id));
                }
            });
        }
        faults
    }

    /// Why the owner cannot make an object with this id. An id that is taken outside of the owner's is refused in the same words as a free one.
    fn unfit(&self, object: &Object, scope: &Scope<'_>) -> Option<(FaultCode, String)> {
        let (id, owner) = (object.id(), scope.owner);
        let Some(begin) = scope.ids else {
            let message = format!(
                "is a new one, and {owner} has no ids for new objects; ask an operator to set its `ids`"
            );
            return Some((FaultCode::Refused, message));
        };
        if !id.starts_with(begin) {
            let message = format!("must begin with `{begin}`, as the ids of all new objects of {owner}");
            return Some((FaultCode::Refused, message));
        }
        let names = std::iter::once(object.kind().index()).chain(object.kind().relatives.iter().copied());
        let mut taken = names.map(|kind| (kind, id.clone())).filter_map(|name| self.find(&name));
        let is_taken = taken.any(|other| !(scope.has)(other));
        is_taken.then(|| (FaultCode::Duplicate, "is taken; choose another one".to_owned()))
    }

    /// Takes from a batch what it deletes and its owner does not have.
    pub(super) fn take_absent(&self, batch: &mut Batch, scope: &Scope<'_>) -> Vec<Removal> {
        let is_absent = |removal: &Removal| {
            !self.name(&removal.key).is_some_and(|name| self.has_within(&name, Some(scope)))
        };
        batch.removals.extract_if(.., |removal| is_absent(removal)).collect()
    }

    /// The faults as the owner may read them: without objects of others.
    pub fn hidden(&self, faults: Vec<ObjectError>, scope: &Scope<'_>) -> Vec<ObjectError> {
        let is_others = |key: &ObjectKey| self.get(key).is_some_and(|object| !(scope.sees)(object));
        let mut hidden: Vec<ObjectError> = Vec::new();
        for mut fault in faults {
            // What is not there to the owner is said in words that name only what the request names.
            if !matches!(fault.code, FaultCode::InUse | FaultCode::Duplicate | FaultCode::Refused) {
                hidden.push(fault);
                continue;
            }
            let key =
                fault.kind.as_deref().zip(fault.id.as_deref()).map(|(kind, id)| ObjectKey::new(kind, id));
            let is_of_others = key.is_some_and(|key| is_others(&key));
            if is_of_others || named_in(&fault.message).iter().any(is_others) {
                let others = format!("objects that are not of {}; ask an operator", scope.owner);
                fault.message = match fault.code {
                    FaultCode::InUse => format!("is in use by {others}"),
                    FaultCode::Duplicate => format!("a value already belongs to one of the {others}"),
                    _ => format!("contradicts {others}"),
                };
            }
            if is_of_others {
                let (kind, id, path) = (None, None, String::new());
                fault = ObjectError { code: FaultCode::Refused, place: None, kind, id, path, ..fault };
            }
            if !hidden.contains(&fault) {
                hidden.push(fault);
            }
        }
        hidden
    }
}
