//! Changes of some fields of an object that is in force.

use nlog_data::quotation::{cut, quote_text};
use serde::de::DeserializeSeed as _;

use crate::field::{Fault, form};
use crate::read::{DELETE, ID, KIND, LABELS, REVISION, STATE};
use crate::tree::{Mapping, Tree, TreeSeed, VALUES_MAX};
use crate::yaml::Documents;
use crate::{Batch, Cancel, FaultCode, Kind, Object, ObjectError, Place};

/// What becomes of a field of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Amendment {
    /// The field, or a field within it: `enabled`, `learning.limit`. Of a label, `labels.` and its key.
    pub field: String,
    /// The value, as YAML; `None` for the default.
    pub value: Option<String>,
}

impl Batch {
    /// Adds an object as it is with amendments: a later one counts after an earlier one. Its faults name no place: no document has it.
    pub fn amend(&mut self, object: &Object, amendments: &[Amendment]) {
        let (before, cancel) = (canonical(object), self.cancel());
        let (mut after, mut faults) = (before.clone(), Vec::new());
        for Amendment { field, value } in amendments {
            match amended(object.kind(), &after, field, value.as_deref(), &cancel) {
                Ok(map) => after = map,
                Err((code, message)) => faults.push(Fault { code, path: field.clone(), message }),
            }
        }
        self.add_changed(object, &before, after, faults);
    }

    /// Adds an object whose document has changed, and the faults of the change.
    pub(crate) fn add_changed(
        &mut self,
        object: &Object,
        before: &Mapping,
        after: Mapping,
        mut faults: Vec<Fault>,
    ) {
        // Many small changes must not make what no document can have.
        if after.count() > VALUES_MAX.max(before.count()) {
            let message = format!("would have more than {VALUES_MAX} values, the limit of one object");
            faults.push(Fault { code: FaultCode::BadValue, path: String::new(), message });
        }
        let read = self.faults.len();
        let place = Place { document: "request".into(), unit: "object", number: 1, line: None };
        self.add(place, &Tree::Mapping(after));
        for (_, fault) in &mut self.faults[read..] {
            fault.place = None;
        }
        let fault = |Fault { code, path, message }: Fault| {
            let path = cut(&path).into_owned();
            (0, ObjectError { path, ..ObjectError::of_object(code, &object.key(), message) })
        };
        self.faults.extend(faults.into_iter().map(fault));
    }
}

/// The canonical document of an object.
pub(crate) fn canonical(object: &Object) -> Mapping {
    let document = object.to_json();
    let mut parser = serde_json::Deserializer::from_str(&document);
    match TreeSeed::unbounded(&Cancel::default()).deserialize(&mut parser) {
        Ok(Tree::Mapping(map)) => map,
        read => unreachable!("the canonical form of an object is a mapping: {read:?}"),
    }
}

/// Code and message of a fault.
pub(crate) type Why = (FaultCode, String);

/// Refuses a member of a document that no change of fields can have.
pub(crate) fn check_changes(name: &str) -> Result<(), Why> {
    let (code, message) = match name {
        KIND | ID => (
            FaultCode::BadValue,
            "says which object this is, so it cannot change; make another object with `weft apply`",
        ),
        DELETE => (FaultCode::UnknownField, "is no field of an object; `weft delete` deletes it"),
        STATE => (FaultCode::UnknownField, "is what the rules say of the object, so it cannot be set"),
        REVISION => {
            (FaultCode::UnknownField, "is the transaction that changed the object last, so it cannot be set")
        }
        _ => return Ok(()),
    };
    Err((code, message.to_owned()))
}

/// The mapping of an object with an amendment.
fn amended(
    kind: &Kind,
    map: &Mapping,
    path: &str,
    value: Option<&str>,
    cancel: &Cancel,
) -> Result<Mapping, Why> {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    check_changes(first)?;
    let value = value.map(|text| read(text, cancel)).transpose()?;
    let declared = &kind.declared().fields;
    match rest {
        // A key may have dots.
        Some(key) if first == LABELS => within(map, first, |labels| Ok(labels.with(key, value))),
        None if value.is_none() && (first == LABELS || kind.declared().field(first).is_some()) => {
            Ok(map.with(first, None))
        }
        _ => match declared.iter().find(|field| field.formers.iter().any(|former| former == first)) {
            // What is set by a former name takes the place of what is there by the name of today.
            Some(field) => {
                let present = map.get(&field.name).cloned();
                placed(&map.with(&field.name, None).with(first, present), path, value)
            }
            None => placed(map, path, value),
        },
    }
}

/// The mapping with a value at a path. What is not there and is to go is there as nothing, so that a name that means nothing is refused.
fn placed(map: &Mapping, path: &str, value: Option<Tree>) -> Result<Mapping, Why> {
    match path.split_once('.') {
        None if value.is_none() && map.contains_key(path) => Ok(map.with(path, None)),
        None => Ok(map.with(path, Some(value.unwrap_or(Tree::Null)))),
        Some((first, rest)) => within(map, first, |map| placed(map, rest, value)),
    }
}

/// The mapping with a change in a mapping that it has, or gets.
fn within(
    map: &Mapping,
    name: &str,
    change: impl FnOnce(&Mapping) -> Result<Mapping, Why>,
) -> Result<Mapping, Why> {
    let inner = match map.get(name) {
        Some(Tree::Mapping(inner)) => change(inner)?,
        None | Some(Tree::Null) => change(&Mapping::default())?,
        Some(other) => {
            let message = format!("{name} is {}, which has no named parts; give it as a whole", form(other));
            return Err((FaultCode::BadValue, message));
        }
    };
    Ok(map.with(name, Some(Tree::Mapping(inner))))
}

/// The value of a YAML text.
fn read(text: &str, cancel: &Cancel) -> Result<Tree, Why> {
    let bad = |message: String| (FaultCode::BadValue, message);
    let mut documents = Documents::new(text, cancel);
    let value = match documents.next() {
        Some((_, _, value)) => value.map_err(|why| bad(format!("{} {why}", quote_text(text))))?,
        None => Tree::Null,
    };
    match documents.next() {
        None => Ok(value),
        Some(_) => Err(bad(format!("{} is more than one value", quote_text(text)))),
    }
}
