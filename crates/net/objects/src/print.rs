//! The canonical form of values in documents.

use nlog_data::{Constrained, Meaning, Record, Type, Value};
use serde::ser::{Serialize, SerializeMap as _, Serializer};

/// A value as a document has it.
pub(crate) struct Printed<'a> {
    pub(crate) ty: &'a Type,
    pub(crate) value: &'a Value,
}

/// Whether an absent value is left out of a document, because its absence means the same.
pub(crate) fn is_left_out(value: &Value, default: Option<&Value>) -> bool {
    *value == Value::None && matches!(default, None | Some(Value::None))
}

/// The constraint that says the type is a mapping.
pub(crate) fn as_mapping(ty: &Type) -> Option<&Constrained> {
    let Type::Constrained(of) = ty else { return None };
    if of.meaning == Meaning::Mapping { Some(of) } else { as_mapping(&of.base) }
}

/// How a document can write an alternative of a choice without its name: one alternative at most is written so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unnamed {
    /// As a list.
    List,
    /// As the word of an enumeration.
    Word,
}

impl Unnamed {
    /// How the alternative of this type is written, if it needs no name.
    pub(crate) fn of(alternative: &Type) -> Option<Unnamed> {
        match alternative.base() {
            Type::Opt(of) if of.elements().is_some() => Some(Unnamed::List),
            Type::Opt(of) if matches!(of.base(), Type::Enum(_)) => Some(Unnamed::Word),
            _ => None,
        }
    }

    /// The alternative of a choice that is written so, by its place.
    pub(crate) fn among(self, alternatives: &Record) -> Option<usize> {
        alternatives.fields.iter().position(|(_, ty)| Unnamed::of(ty) == Some(self))
    }
}

/// Whether documents can write the choice as a list.
fn is_list_choice(ty: &Type) -> bool {
    ty.alternatives().and_then(|of| Unnamed::List.among(of)).is_some()
}

/// The value of a choice, with its type, if documents give it without the name of its alternative.
pub(crate) fn without_name<'a>(ty: &'a Type, value: &'a Value) -> Option<(&'a Type, &'a Value)> {
    let Value::Record(values) = value else { return None };
    let alternatives = ty.alternatives()?;
    let mut given = values.iter().enumerate().filter(|(_, value)| **value != Value::None);
    let (Some((at, value)), None) = (given.next(), given.next()) else { return None };
    let (_, ty) = alternatives.fields.get(at)?;
    Unnamed::of(ty).map(|_| (ty, value))
}

/// The type of a value that can stand for a list or a set of that value alone: documents have it as no list.
pub(crate) fn single(ty: &Type) -> Option<&Type> {
    let element = match ty.elements()? {
        Type::Opt(of) => of,
        of => of,
    };
    let is_list = |of: &Type| of.elements().is_some() || is_list_choice(of);
    let is_single = !is_list(element) && !matches!(element.base(), Type::Opt(_));
    is_single.then_some(element)
}

/// The types of the keys and the values of a mapping, which is a set of records of two fields.
pub(crate) fn pair(mapping: &Constrained) -> Option<(&Type, &Type)> {
    let Type::Set(element) = mapping.base.base() else { return None };
    let Type::Record(record) = element.base() else { return None };
    let [(_, key), (_, value)] = record.fields.as_slice() else { return None };
    Some((key, value))
}

/// The text of a value that can be the key of a mapping.
pub(crate) fn text_of(value: &Value) -> String {
    match value {
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::String(value) => value.to_string(),
        Value::Mac(value) => value.to_string(),
        Value::Ip(value) => value.to_string(),
        Value::Net(value) => value.to_string(),
        Value::InterfaceAddress(value) => value.to_string(),
        Value::Match(value) => value.text().into_owned(),
        Value::Actions(value) => value.text().into_owned(),
        Value::PacketFilter(value) => value.text().to_owned(),
        Value::None | Value::Set(_) | Value::List(_) | Value::Record(_) => value.to_string(),
    }
}

impl Serialize for Printed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let (Some((_, ty)), Value::Set(pairs)) = (as_mapping(self.ty).and_then(pair), self.value) {
            let mut map = serializer.serialize_map(Some(pairs.len()))?;
            for element in pairs.iter() {
                if let Value::Record(values) = element
                    && let [name, value] = &**values
                {
                    map.serialize_entry(&text_of(name), &Printed { ty, value })?;
                }
            }
            return map.end();
        }
        if let Some((ty, value)) = without_name(self.ty, self.value) {
            return Printed { ty, value }.serialize(serializer);
        }
        match (self.ty.base(), self.value) {
            (Type::Opt(of), value) if *value != Value::None => {
                Printed { ty: of, value }.serialize(serializer)
            }
            (_, Value::PacketFilter(filter)) => {
                let mut map = serializer.serialize_map(None)?;
                for (name, text) in filter.items() {
                    match text.parse::<u64>() {
                        Ok(number) => map.serialize_entry(name, &number)?,
                        Err(_) => map.serialize_entry(name, &text)?,
                    }
                }
                map.end()
            }
            (Type::Set(of), Value::Set(values)) | (Type::List(of), Value::List(values)) => {
                serializer.collect_seq(values.iter().map(|value| Printed { ty: of, value }))
            }
            (Type::Record(of), Value::Record(values)) => {
                let mut map = serializer.serialize_map(None)?;
                for ((name, ty), value) in of.fields.iter().zip(values.iter()) {
                    if !is_left_out(value, None) {
                        map.serialize_entry(name, &Printed { ty, value })?;
                    }
                }
                map.end()
            }
            (_, value) => value.serialize(serializer),
        }
    }
}
