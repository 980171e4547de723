//! Reads objects from text: YAML, JSON, JSON Lines.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value as Json};

use crate::field::{Fault, Fields, form, name, text};
use crate::{FaultCode, Kind, Object, ObjectError, ObjectKey, Place, UnknownKind};

/// Objects to be applied together, and all faults that each of them has by itself.
#[derive(Debug, Default)]
pub struct Batch {
    pub(crate) entries: Vec<Entry>,
    /// With the number of the object in the batch, by which faults are sorted.
    pub(crate) faults: Vec<(usize, ObjectError)>,
    /// Ids of faulty objects: references to them are not additional faults.
    pub(crate) faulty: BTreeSet<String>,
    /// Whether an object has no readable id, so that any dangling reference may mean it.
    pub(crate) unnamed: bool,
    /// The place of each object.
    seen: HashMap<ObjectKey, Place>,
    /// The number of objects read, including faulty ones.
    count: usize,
}

/// An object of a batch.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its number in the batch, counting faulty ones.
    pub(crate) number: usize,
    /// Its place.
    pub place: Place,
    /// The object; valid by itself.
    pub object: Object,
}

impl Batch {
    /// Reads the text of a file. The extension decides the format (`.yaml`, `.yml`, `.json`, `.jsonl`). Without a
    /// known extension, text that begins with a brace or a bracket is JSON if it parses as JSON, and all other text
    /// is YAML.
    ///
    /// Each YAML document is one object; empty documents are ignored. JSON text is a sequence of objects and arrays
    /// of objects.
    pub fn add_document(&mut self, name: &str, text: &str) {
        let extension = name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
        match extension.as_deref() {
            Some("json" | "jsonl") => self.add_json(name, text),
            Some("yaml" | "yml") => self.add_yaml(name, text),
            _ if text.trim_start().starts_with(['{', '[']) => {
                let (values, error) = json_values(text);
                // YAML has mappings with braces too. If the text is neither, quotes show which format was meant.
                let quoted =
                    text.trim_start_matches(|c: char| "{[".contains(c) || c.is_whitespace()).starts_with('"');
                if error.is_none() || (quoted && !is_yaml(text)) {
                    self.add_json_values(name, values, error);
                } else {
                    self.add_yaml(name, text);
                }
            }
            _ => self.add_yaml(name, text),
        }
    }

    /// Reads objects from JSON text; their places are numbered objects of `name`.
    pub fn add_json(&mut self, name: &str, text: &str) {
        let (values, error) = json_values(text);
        self.add_json_values(name, values, error);
    }

    fn add_json_values(&mut self, name: &str, values: Vec<Json>, error: Option<serde_json::Error>) {
        let mut place = Place { document: name.to_owned(), unit: "object", number: 0 };
        for value in values {
            let items = match value {
                Json::Array(items) => items,
                value => vec![value],
            };
            for item in &items {
                place.number += 1;
                self.add(place.clone(), item);
            }
        }
        if let Some(error) = error {
            place.number += 1;
            self.unreadable(place, format!("not valid JSON: {error}"));
        }
    }

    fn add_yaml(&mut self, name: &str, text: &str) {
        for (document, number) in serde_norway::Deserializer::from_str(text).zip(1..) {
            let place = Place { document: name.to_owned(), unit: "document", number };
            match Tree::deserialize(document) {
                Ok(Tree(Json::Null)) => {}
                Ok(Tree(value)) => self.add(place, &value),
                Err(error) => {
                    self.unreadable(place, format!("not valid YAML: {error}"));
                    return;
                }
            }
        }
    }

    /// The objects that are valid by themselves, in the order given.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    fn unreadable(&mut self, place: Place, message: String) {
        self.unnamed = true;
        let (kind, id, path) = (None, None, String::new());
        let error = ObjectError { code: FaultCode::Syntax, place: Some(place), kind, id, path, message };
        self.faults.push((self.count, error));
        self.count += 1;
    }

    fn add(&mut self, place: Place, value: &Json) {
        let Json::Object(map) = value else {
            let message = format!("must be a mapping with `kind` and `id`, not {}", form(value));
            self.unreadable(place, message);
            return;
        };
        let mut faults = Vec::new();
        let object = read(map, &mut faults);
        let number = self.count;
        self.count += 1;

        let kind = map.get("kind").and_then(Json::as_str).map(ToOwned::to_owned);
        let id = map.get("id").and_then(|id| name(id).ok());
        if let Some(key) = kind.as_deref().and_then(|kind| kind.parse().ok()).zip(id.clone()) {
            let key = ObjectKey { kind: key.0, id: key.1 };
            if let Some(first) = self.seen.get(&key) {
                let path = "id".to_owned();
                let message = format!("is defined twice; first in {first}");
                faults.push(Fault { code: FaultCode::Duplicate, path, message });
            } else {
                self.seen.insert(key, place.clone());
            }
        }
        match object {
            Some(object) if faults.is_empty() => self.entries.push(Entry { number, place, object }),
            _ => {
                self.unnamed |= id.is_none();
                self.faulty.extend(id.clone());
                let fault = |fault: Fault| {
                    let (kind, id, place) = (kind.clone(), id.clone(), Some(place.clone()));
                    let Fault { code, path, message } = fault;
                    (number, ObjectError { code, place, kind, id, path, message })
                };
                self.faults.extend(faults.into_iter().map(fault));
            }
        }
    }
}

/// The values of JSON text, up to the first fault.
fn json_values(text: &str) -> (Vec<Json>, Option<serde_json::Error>) {
    let mut values = Vec::new();
    for value in serde_json::Deserializer::from_str(text).into_iter::<Tree>() {
        match value {
            Ok(Tree(value)) => values.push(value),
            Err(error) => return (values, Some(error)),
        }
    }
    (values, None)
}

fn is_yaml(text: &str) -> bool {
    serde_norway::Deserializer::from_str(text).all(|document| Tree::deserialize(document).is_ok())
}

/// Reads an object; if there is any fault, the result is not to be used.
fn read(map: &Map<String, Json>, faults: &mut Vec<Fault>) -> Option<Object> {
    let mut fields = Fields::new(map, faults);
    let kind = fields.required("kind", |value| text(value).map(str::to_owned));
    let id = fields.required("id", name);
    let kind = match kind?.parse::<Kind>() {
        Ok(kind) => kind,
        Err(error) => {
            let code = match error {
                UnknownKind::Planned(_) => FaultCode::UnsupportedKind,
                UnknownKind::Unknown { .. } => FaultCode::UnknownKind,
            };
            fields.fault(code, "kind", error.to_string());
            return None;
        }
    };
    // A faulty id is noted; the other fields are still read, to find their faults.
    let object = Object::read(kind, id.unwrap_or_default(), &mut fields);
    fields.finish();
    object
}

/// A JSON value, from YAML or JSON, in which no mapping has a key twice and every key is text.
struct Tree(Json);

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor).map(Tree)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a mapping, a list, text, a number, `true`, `false` or nothing")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Json, E> {
        match serde_json::Number::from_f64(value) {
            Some(number) => Ok(Json::Number(number)),
            None => Err(E::custom(format_args!("{value} is not a number that an object can have"))),
        }
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Json, E> {
        Ok(Json::String(value))
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_none<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(Tree(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Json::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Json, A::Error> {
        let mut map = Map::new();
        while let Some(Tree(key)) = entries.next_key()? {
            let Json::String(key) = key else {
                return Err(de::Error::custom(format_args!(
                    "a field's name must be text, not {}",
                    form(&key)
                )));
            };
            let Tree(value) = entries.next_value()?;
            if map.insert(key.clone(), value).is_some() {
                return Err(de::Error::custom(format_args!("field `{key}` is given twice")));
            }
        }
        Ok(Json::Object(map))
    }
}
