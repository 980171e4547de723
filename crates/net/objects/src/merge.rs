//! Changes of an object by a JSON merge patch (RFC 7396).

use std::collections::{BTreeMap, BTreeSet};

use nlog_data::{ObjectField, Record, Type};
use serde::de::DeserializeSeed as _;

use crate::amend::{Why, canonical, check_changes};
use crate::document::without_mark;
use crate::field::{Fault, form};
use crate::print::{as_mapping, pair};
use crate::read::{ID, KIND, LABELS, REVISION, STATE};
use crate::tree::{Mapping, Tree, TreeSeed};
use crate::value::canonical_key;
use crate::{Batch, Cancel, FaultCode, Kinds, Object, ObjectError};

/// The members of a mapping that changes.
type Members = BTreeMap<Box<str>, Tree>;

impl Batch {
    /// Adds an object as it is with a JSON merge patch: a JSON mapping whose members replace those of the object's document. `null`
    /// removes a member, so that it has its default; a mapping changes the members that it names; a list replaces the whole list.
    /// A `revision` in it is the one that is expected. Its faults name no place: no document has it.
    pub fn merge(&mut self, object: &Object, patch: &str) {
        let patch = match read(patch, &self.cancel()) {
            Ok(patch) => patch,
            Err((code, message)) => {
                let fault = ObjectError::of_object(code, &object.key(), message);
                return self.faults.push((0, fault));
            }
        };
        let (before, mut faults) = (canonical(object), Vec::new());
        let after = patched(&self.kinds, object, &before, &patch, &mut faults);
        self.add_changed(object, &before, after, faults);
    }
}

/// The mapping of a JSON text.
fn read(text: &str, cancel: &Cancel) -> Result<Mapping, Why> {
    let mut parser = serde_json::Deserializer::from_str(without_mark(text));
    let tree = TreeSeed::new(cancel).deserialize(&mut parser);
    let tree = tree.and_then(|tree| parser.end().map(|()| tree));
    match tree {
        Ok(Tree::Mapping(map)) => Ok(map),
        Ok(other) => {
            let message =
                format!("a merge patch must be a mapping of the fields to change, not {}", form(&other));
            Err((FaultCode::Syntax, message))
        }
        Err(error) => Err((FaultCode::Syntax, format!("the merge patch is not valid JSON: {error}"))),
    }
}

/// The mapping of an object with a patch.
fn patched(
    kinds: &Kinds,
    object: &Object,
    before: &Mapping,
    patch: &Mapping,
    faults: &mut Vec<Fault>,
) -> Mapping {
    let declared = &object.kind().declared().fields;
    let merge = Merge { kinds };
    let mut members: Members = before.clone().into();
    for (name, value) in patch.iter() {
        match name {
            // Whoever sends back the whole object means no change of these.
            KIND | ID if before.get(name) == Some(value) => {}
            STATE => {}
            LABELS => {
                let labels = members.remove(name);
                members.extend(merge.merged(labels, value, None).map(|labels| (name.into(), labels)));
            }
            REVISION => drop(members.insert(name.into(), value.clone())),
            _ if let Err((code, message)) = check_changes(name) => {
                faults.push(Fault { code, path: name.to_owned(), message });
            }
            _ => match declared.iter().find(|field| is_name(field, name)) {
                Some(field) => merge.field(&mut members, field, name, patch),
                // The reader refuses a name that means nothing, even if it is to go.
                None => drop(members.insert(name.into(), value.clone())),
            },
        }
    }
    members.into()
}

/// Whether this is the present name of a field, or a former one.
fn is_name(field: &ObjectField, name: &str) -> bool {
    field.name == name || field.formers.iter().any(|former| former == name)
}

/// The merging of values, whose types say which names are fields and which are keys.
struct Merge<'k> {
    kinds: &'k Kinds,
}

impl Merge<'_> {
    /// Changes a field that a patch has by this name. What a former name gives takes the place of what is there by the present one.
    fn field(&self, members: &mut Members, field: &ObjectField, name: &str, patch: &Mapping) {
        let Some(value) = patch.get(name) else { return };
        if patch.keys().filter(|name| is_name(field, name)).count() > 1 {
            // The reader says that these are one field.
            members.insert(name.into(), value.clone());
            return;
        }
        let present = members.remove(&*field.name);
        members.extend(self.merged(present, value, Some(&field.ty)).map(|merged| (name.into(), merged)));
    }

    /// A value of a type with a patch; `None` if it goes.
    fn merged(&self, present: Option<Tree>, patch: &Tree, ty: Option<&Type>) -> Option<Tree> {
        let patch = match patch {
            Tree::Null => return None,
            Tree::Mapping(patch) => patch,
            other => return Some(other.clone()),
        };
        let mut members = match present {
            Some(Tree::Mapping(present)) => Members::from(present),
            _ => Members::new(),
        };
        let shape = ty.map_or(Shape::Free, Shape::of);
        if let Shape::Choice(of) = shape
            && of.fields.iter().any(|(name, _)| patch.get(name).is_some_and(|value| !value.is_null()))
        {
            // What is given takes the place of another alternative.
            members.retain(|name, _| patch.contains_key(name));
        }
        let mut named = BTreeSet::new();
        for (name, value) in patch.iter() {
            // A key can be written in several ways. Those that mean the same stay apart, so that the reader refuses them.
            let own = match shape {
                Shape::Pairs(key, _) => canonical_key(self.kinds, key, name),
                Shape::Free | Shape::Record(_) | Shape::Choice(_) => None,
            };
            let own = own.filter(|own| !patch.contains_key(own) && named.insert(own.clone()));
            let name = own.as_deref().unwrap_or(name);
            let present = members.remove(name);
            let (ty, is_unknown) = match shape {
                Shape::Free => (None, false),
                Shape::Pairs(_, value) => (Some(value), false),
                Shape::Record(record) | Shape::Choice(record) => {
                    let ty = record.field(name).map(|(_, ty)| ty);
                    (ty, ty.is_none())
                }
            };
            // The reader refuses a name that means nothing, even if it is to go.
            let merged = self.merged(present, value, ty).or(is_unknown.then_some(Tree::Null));
            members.extend(merged.map(|merged| (name.into(), merged)));
        }
        Some(Tree::Mapping(members.into()))
    }
}

/// What the names in a mapping are.
#[derive(Clone, Copy)]
enum Shape<'t> {
    /// Anything.
    Free,
    /// The fields of a record.
    Record(&'t Record),
    /// The alternatives of a choice.
    Choice(&'t Record),
    /// Keys of this type, with values of that one.
    Pairs(&'t Type, &'t Type),
}

impl<'t> Shape<'t> {
    fn of(ty: &'t Type) -> Self {
        if let Some((key, value)) = as_mapping(ty).and_then(pair) {
            return Shape::Pairs(key, value);
        }
        if let Some(alternatives) = ty.alternatives() {
            return Shape::Choice(alternatives);
        }
        match ty.base() {
            Type::Opt(of) => Shape::of(of),
            Type::Record(of) => Shape::Record(of),
            _ => Shape::Free,
        }
    }
}
