//! Reads an object from its document.

use std::collections::HashSet;
use std::sync::Arc;

use nlog_data::{ObjectField, Type, Value};

use crate::field::{Fault, Step, check_name, form, label, text};
use crate::object::Labels;
use crate::print::single;
use crate::tree::{Mapping, Tree};
use crate::value::Reader;
use crate::{FaultCode, Kind, Kinds, Object};

/// The fields of every object, besides those of its kind.
pub(crate) const KIND: &str = "kind";
pub(crate) const ID: &str = "id";
pub(crate) const LABELS: &str = "labels";
/// The member that `weft get --json` adds to an object. It is accepted and ignored, so that printed objects can be
/// applied again.
pub(crate) const STATE: &str = "state";
/// Says whether the object is deleted.
pub(crate) const DELETE: &str = "delete";

/// The transaction that changed the object last, as whoever writes the document knows it. The object is written only if that is so.
pub(crate) const REVISION: &str = "revision";

/// What a document says of an object.
pub(crate) enum Given {
    /// Its content, and the fields that the document names.
    Object(Object, Named),
    /// That it is deleted.
    Removal(Arc<Kind>, Arc<str>),
}

/// Which fields of its kind a document names, by their numbers. Fields beyond the 128th count as named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Named(u128);

impl Named {
    /// All fields.
    pub(crate) const ALL: Named = Named(u128::MAX);

    fn of(map: &Mapping, fields: &[ObjectField]) -> Self {
        let is_named = |field: &ObjectField| {
            map.contains_key(&field.name) || field.formers.iter().any(|former| map.contains_key(former))
        };
        let unnamed = fields.iter().enumerate().take(128).filter(|(_, field)| !is_named(field));
        Named(unnamed.fold(u128::MAX, |named, (number, _)| named & !(1 << number)))
    }

    /// Whether the field of this number is among them.
    pub(crate) fn has(self, number: usize) -> bool {
        number >= 128 || self.0 & (1 << number) != 0
    }
}

/// The fields of an object's document.
struct Document<'a> {
    map: &'a Mapping,
    reader: Reader<'a>,
}

/// Reads an object. If it has faults, the result must not be used.
pub(crate) fn read(
    kinds: &Kinds,
    map: &Mapping,
    faults: &mut Vec<Fault>,
    texts: &mut HashSet<Arc<str>>,
    is_stored: bool,
) -> Option<Given> {
    let mut document = Document { map, reader: Reader { faults, texts, path: Vec::new(), is_stored, kinds } };
    let kind = document.required(KIND, text);
    let id = document.required(ID, name);
    let kind = match kinds.find(kind?) {
        Ok(kind) => kind,
        Err(error) => return document.fault(FaultCode::UnknownKind, KIND, error.to_string()),
    };
    if !is_stored {
        document.optional(REVISION, revision);
    }
    if document.optional(DELETE, flag).unwrap_or(false) {
        return Some(Given::Removal(kind.clone(), id?.into()));
    }
    let labels = document.labels();
    let fields = &kind.declared().fields;
    let values: Vec<Value> = fields.iter().filter_map(|field| document.field(field)).collect();
    document.finish(kind.name(), fields);
    if values.len() < fields.len() {
        return None;
    }
    Some(Given::Object(Object::new(kind.clone(), id?.into(), values, labels), Named::of(map, fields)))
}

impl<'a> Document<'a> {
    fn fault<T>(&mut self, code: FaultCode, field: &'a str, message: impl Into<String>) -> Option<T> {
        self.reader.part(Step::Member(field), |reader| reader.fault(code, message))
    }

    /// A member that has a value.
    fn given(&self, name: &str) -> Option<&'a Tree> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    fn optional<T>(&mut self, name: &'a str, read: impl FnOnce(&'a Tree) -> Result<T, String>) -> Option<T> {
        match read(self.given(name)?) {
            Ok(value) => Some(value),
            Err(message) => self.fault(FaultCode::BadValue, name, message),
        }
    }

    fn required<T>(&mut self, name: &'a str, read: impl FnOnce(&'a Tree) -> Result<T, String>) -> Option<T> {
        if self.given(name).is_none() {
            return self.fault(FaultCode::MissingField, name, "is missing");
        }
        self.optional(name, read)
    }

    /// Reads the labels; those of a faulty object are incomplete.
    fn labels(&mut self) -> Labels {
        let mut labels = Labels::new();
        for (key, value) in self.optional(LABELS, mapping).into_iter().flat_map(Mapping::iter) {
            if let Err(message) = check_name(key) {
                self.fault::<()>(FaultCode::BadValue, LABELS, message);
            }
            self.reader.path.push(Step::Member(LABELS));
            match label(value) {
                Ok(value) => drop(labels.insert(key.to_owned(), value)),
                Err(message) => drop(self.fault::<()>(FaultCode::BadValue, key, message)),
            }
            self.reader.path.pop();
        }
        labels
    }

    /// Reads a field, by its name or a former one.
    fn field(&mut self, field: &'a ObjectField) -> Option<Value> {
        let names = std::iter::once(&field.name).chain(&field.formers);
        let mut given = names.filter(|name| self.map.contains_key(name)).map(String::as_str);
        let name = given.next().unwrap_or(&field.name);
        let others: Vec<&str> = given.collect();
        for other in &others {
            let message = format!(
                "is a former name of `{}`, which is given as `{name}` too; remove one of them",
                field.name
            );
            self.fault::<()>(FaultCode::BadValue, other, message);
        }
        let Some(json) = self.given(name) else {
            let is_none = self.map.contains_key(name) && matches!(field.ty.base(), Type::Opt(_));
            return match &field.default {
                _ if is_none => Some(Value::None),
                Some(default) => Some(default.clone()),
                None => self.fault(FaultCode::MissingField, &field.name, "is missing"),
            };
        };
        let is_former = *name != *field.name;
        let single = single(&field.ty).filter(|_| is_former && !matches!(json, Tree::List(_)));
        self.reader.part(Step::Member(name), |reader| {
            let Some(of) = single else { return reader.value(&field.ty, json) };
            let element = reader.value(of, json)?;
            let is_list = matches!(field.ty.base(), Type::List(_));
            let value = if is_list { Value::list([element]) } else { Value::set([element]) };
            reader.constraints(&field.ty, &value).map(|()| value)
        })
    }

    /// Reports unknown fields.
    fn finish(&mut self, kind: &str, fields: &'a [ObjectField]) {
        let own = fields.iter().map(|field| field.name.as_str());
        let names: Vec<&str> = [KIND, ID, LABELS].into_iter().chain(own).collect();
        let is_known = |name: &str| {
            matches!(name, STATE | DELETE | REVISION)
                || fields.iter().any(|field| field.formers.iter().any(|former| former == name))
        };
        self.reader.unknown(self.map, kind, &names, is_known);
    }
}

fn mapping(value: &Tree) -> Result<&Mapping, String> {
    if let Tree::Mapping(map) = value {
        Ok(map)
    } else {
        Err(format!("must be a mapping, not {}", form(value)))
    }
}

/// Reads a name: text that needs no quoting in a URL path, a log line or a shell.
pub(crate) fn name(value: &Tree) -> Result<&str, String> {
    let text = text(value)?;
    check_name(text).map(|()| text)
}

/// The revision that a document expects, if it has one that can be read.
pub(crate) fn expected(map: &Mapping) -> Option<u64> {
    map.get(REVISION).and_then(|value| revision(value).ok())
}

/// Reads the number of a transaction.
fn revision(value: &Tree) -> Result<u64, String> {
    let Tree::Number(number) = value else {
        return Err(format!("must be the number of a transaction, not {}", form(value)));
    };
    // `17.0` is a whole number, in JSON Schema as well. 2^53 is the least beyond which numbers with a point are not exact.
    let whole = |number: &f64| number.fract() == 0.0 && (0.0..9_007_199_254_740_992.0).contains(number);
    let exact = number.as_u64().or_else(|| number.as_f64().filter(whole).map(|number| number as u64));
    exact.ok_or_else(|| format!("{number} is not the number of a transaction: a whole number from 0 on"))
}

fn flag(value: &Tree) -> Result<bool, String> {
    if let Tree::Bool(flag) = value {
        Ok(*flag)
    } else {
        Err(format!("must be `true` or `false`, not {}", form(value)))
    }
}
