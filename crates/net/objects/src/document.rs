//! Reads objects from text: YAML, JSON, JSON Lines.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use nlog_data::quotation::cut;
use serde::de::DeserializeSeed as _;
use serde_json::value::RawValue;

use crate::field::{FAULTS_MAX, Fault, form};
use crate::read::{Given, ID, KIND, Named, REVISION, expected, name, read};
use crate::tree::{Items, Tree, TreeSeed};
use crate::yaml::Documents;
use crate::{Cancel, Deletion, FaultCode, Kinds, Object, ObjectError, ObjectKey, Place, Selection};

/// The most objects of a batch. More of them take too much memory, and the network too long for one transaction.
const OBJECTS_MAX: usize = 1 << 20;

/// Objects to be applied together, and the faults of each object by itself.
#[derive(Debug)]
pub struct Batch {
    pub(crate) kinds: Kinds,
    pub(crate) entries: Vec<Entry>,
    /// Objects to be deleted.
    pub(crate) removals: Vec<Removal>,
    /// Whether objects in force that the batch does not name are deleted.
    pub prune: bool,
    /// Which of them.
    pub selection: Selection,
    /// Faults, each with the number of its object in the batch, which determines their order.
    pub(crate) faults: Vec<(usize, ObjectError)>,
    /// Ids of faulty objects: references to them are not additional faults.
    pub(crate) faulty: HashSet<Arc<str>>,
    /// Whether any object has no readable id. Dangling references may refer to it and are not reported.
    pub(crate) unnamed: bool,
    /// Where each object is, and the revision that its document expects.
    seen: HashMap<ObjectKey, (Place, Option<u64>)>,
    /// The revision that is expected of objects whose documents expect none.
    expected: Option<u64>,
    /// Texts that occur in many objects.
    texts: HashSet<Arc<str>>,
    /// The number of objects read, including faulty ones.
    count: usize,
    /// Whether it has as many objects as it may have, and there are more.
    full: bool,
    /// Whether the objects were accepted before.
    is_stored: bool,
    pub(crate) cancel: Cancel,
}

/// The lines of the parts of a text, which are asked for in order.
struct Lines<'t> {
    text: &'t str,
    /// The part whose lines are counted.
    offset: usize,
    /// The line in which it ends, from 1 on.
    line: u32,
}

impl Lines<'_> {
    /// The line in which a part of the text begins.
    fn of(&mut self, part: &str) -> u32 {
        let begin = part.as_ptr().addr().saturating_sub(self.text.as_ptr().addr());
        let breaks = self.text.get(self.offset..begin).unwrap_or_default().matches('\n').count();
        self.line = self.line.saturating_add(u32::try_from(breaks).unwrap_or(u32::MAX));
        self.offset = self.offset.max(begin);
        self.line
    }
}

/// An object of a batch.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its number in the batch, counting faulty ones.
    pub(crate) number: usize,
    /// Its place.
    pub place: Place,
    /// The object; valid by itself.
    pub object: Arc<Object>,
    /// The fields that its document names.
    pub(crate) named: Named,
    /// The revision that its document expects.
    pub(crate) expected: Option<u64>,
}

/// An object of a batch that is to be deleted: `delete: true`.
#[derive(Debug, Clone)]
pub(crate) struct Removal {
    /// Its number in the batch, counting faulty objects.
    pub(crate) number: usize,
    /// Its place.
    pub(crate) place: Place,
    /// The object.
    pub(crate) key: ObjectKey,
    /// The revision that its document expects.
    pub(crate) expected: Option<u64>,
}

impl Batch {
    /// A batch of objects of these kinds, whose reading can be cancelled through `cancel`. A cancelled batch is
    /// incomplete and must not be used.
    pub fn new(kinds: &Kinds, cancel: Cancel) -> Self {
        Batch {
            kinds: kinds.clone(),
            entries: Vec::new(),
            removals: Vec::new(),
            prune: false,
            selection: Selection::default(),
            faults: Vec::new(),
            faulty: HashSet::new(),
            unnamed: false,
            seen: HashMap::new(),
            expected: None,
            texts: HashSet::new(),
            count: 0,
            full: false,
            is_stored: false,
            cancel,
        }
    }

    /// A batch of objects that were accepted before. What is asked of texts since then does not apply to theirs, so that a
    /// state stays readable.
    pub fn stored(kinds: &Kinds) -> Self {
        Batch { is_stored: true, ..Batch::new(kinds, Cancel::default()) }
    }

    /// The objects of the batch whose documents have no `revision` are written only if the transaction of this number changed them
    /// last; with 0, only if they do not exist. For a request that says so once, beside the documents.
    pub fn expect(&mut self, revision: u64) {
        self.expected = Some(revision);
    }

    /// The kinds of its objects.
    pub fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// What cancels the reading.
    pub(crate) fn cancel(&self) -> Cancel {
        self.cancel.clone()
    }

    /// The revision that is expected of an object whose document expects this one.
    pub(crate) fn expectation(&self, own: Option<u64>) -> Option<u64> {
        own.or(self.expected)
    }

    /// Reads the text of a file. The extension decides the format (`.yaml`, `.yml`, `.json`, `.jsonl`). Without a
    /// known extension, text that begins with a brace or a bracket is JSON if it parses as JSON, and all other text
    /// is YAML.
    ///
    /// Each YAML document is one object; empty documents are ignored. JSON text is a sequence of objects and arrays
    /// of objects. A text without any object is a fault: somebody meant another file.
    pub fn add_document(&mut self, name: &str, text: &str) {
        let before = self.count;
        self.read_document(name, text);
        if self.count == before && !self.is_at_end() {
            let place = Place { document: name.into(), unit: "document", number: 1, line: Some(1) };
            self.unreadable(place, "has no objects: each is a mapping with `kind` and `id`".to_owned());
        }
    }

    fn read_document(&mut self, name: &str, text: &str) {
        if is_json_file(name, text, &self.cancel) {
            self.read_json(name, text, true);
        } else {
            self.add_yaml(name, text);
        }
    }

    /// Reads objects of JSON text that is no file. Their places are numbered objects of `name`.
    pub fn add_json(&mut self, name: &str, text: &str) {
        self.read_json(name, text, false);
    }

    /// Reads objects of JSON text, whose places have lines if it is that of a file.
    fn read_json(&mut self, name: &str, text: &str, is_file: bool) {
        let text = without_mark(text);
        let mut place = Place { document: name.into(), unit: "object", number: 0, line: None };
        let mut lines = Lines { text, offset: 0, line: 1 };
        let (cancel, is_stored) = (self.cancel.clone(), self.is_stored);
        // Each value is split off as text first, so that a long text is never parsed into one tree.
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
        while !self.is_at_end() {
            let next = values.next();
            // The objects of an array have no lines of their own, and the reason of a fault of the form has it.
            let part = next.as_ref().and_then(|value| value.as_ref().ok()).map(|value| value.get());
            let part = part.filter(|part| is_file && !part.starts_with('['));
            place.line = part.map(|part| lines.of(part));
            let read = match next {
                None => return,
                Some(Err(error)) => Err(error.to_string()),
                Some(Ok(value)) => {
                    let mut parser = serde_json::Deserializer::from_str(value.get());
                    let mut each = |item: &Tree| {
                        place.number += 1;
                        self.add(place.clone(), item);
                        !self.is_at_end()
                    };
                    let read = if value.get().starts_with('[') {
                        Items::new(&mut each, &cancel).deserialize(&mut parser)
                    } else {
                        let seed = if is_stored { TreeSeed::unbounded } else { TreeSeed::new };
                        let read = seed(&cancel).deserialize(&mut parser);
                        read.map(|value| {
                            each(&value);
                        })
                    };
                    read.map_err(|error| moved(&error, text, value.get()))
                }
            };
            if let Err(error) = read
                && !self.is_at_end()
            {
                place.number += 1;
                self.unreadable(place, format!("not valid JSON: {}", cut(&error)));
                return;
            }
        }
    }

    fn add_yaml(&mut self, name: &str, text: &str) {
        let (name, cancel): (Arc<str>, _) = (name.into(), self.cancel.clone());
        for (number, line, document) in Documents::new(without_mark(text), &cancel) {
            if self.is_at_end() {
                return;
            }
            let place = Place { document: name.clone(), unit: "document", number, line: Some(line) };
            match document {
                Ok(Tree::Null) => {}
                Ok(value) => self.add(place, &value),
                Err(why) => self.unreadable(place, why),
            }
        }
    }

    /// Whether to stop reading: the reading is cancelled, or there are too many objects, or too many faults to list.
    fn is_at_end(&self) -> bool {
        self.cancel.is_cancelled() || self.full || self.faults.len() >= FAULTS_MAX
    }

    /// The objects without faults of their own, in input order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The number of objects read, including faulty ones.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether the batch has an object with this key, to be applied or deleted, with or without faults.
    pub(crate) fn names(&self, key: &ObjectKey) -> bool {
        self.seen.contains_key(key)
    }

    /// The objects, to be deleted whatever else is wrong with them, or the faults because of which that cannot be said of each.
    pub fn deletions(&self) -> Result<Vec<Deletion>, Vec<&ObjectError>> {
        let hides = |error: &&ObjectError| {
            let is_nameless = error.id.is_none() || error.kind.is_none();
            is_nameless || error.code == FaultCode::UnknownKind || error.path == REVISION
        };
        let hidden: Vec<&ObjectError> = self.faults.iter().map(|(_, error)| error).filter(hides).collect();
        if !hidden.is_empty() {
            return Err(hidden);
        }
        let deletion = |(key, (_, expected)): (&ObjectKey, &(Place, Option<u64>))| Deletion {
            key: key.clone(),
            expected: self.expectation(*expected),
        };
        Ok(self.seen.iter().map(deletion).collect())
    }

    pub(crate) fn unreadable(&mut self, place: Place, message: String) {
        self.unnamed = true;
        let (kind, id, path) = (None, None, String::new());
        let error = ObjectError {
            code: FaultCode::Syntax,
            place: Some(place),
            kind,
            id,
            path,
            message,
            expected: None,
        };
        self.faults.push((self.count, error));
        self.count += 1;
    }

    pub(crate) fn add(&mut self, place: Place, value: &Tree) {
        self.add_with_faults(place, value, Vec::new());
    }

    /// Adds an object that has these faults besides its own.
    pub(crate) fn add_with_faults(&mut self, place: Place, value: &Tree, mut faults: Vec<Fault>) {
        if self.count == OBJECTS_MAX {
            self.full = true;
            self.unreadable(
                place,
                format!("is beyond the limit of {OBJECTS_MAX} objects; apply them in parts"),
            );
            return;
        }
        let Tree::Mapping(map) = value else {
            let message = format!("must be a mapping with `kind` and `id`, not {}", form(value));
            self.unreadable(place, message);
            return;
        };
        let object = read(&self.kinds, map, &mut faults, &mut self.texts, self.is_stored);
        let number = self.count;
        self.count += 1;

        let expected = if self.is_stored { None } else { expected(map) };
        let kind = map.get(KIND).and_then(Tree::as_str);
        let id: Option<Arc<str>> = match &object {
            Some(Given::Object(object, _)) => Some(object.id().clone()),
            Some(Given::Removal(_, id)) => Some(id.clone()),
            None => map.get(ID).and_then(|id| name(id).ok()).map(Into::into),
        };
        if let Some((kind, id)) = kind.and_then(|kind| self.kinds.get(kind)).zip(id.clone()) {
            let key = ObjectKey { kind: kind.shared_name().clone(), id };
            if let Some((first, _)) = self.seen.get(&key) {
                let path = ID.to_owned();
                let message = format!("is defined twice; first in {first}");
                faults.push(Fault { code: FaultCode::Duplicate, path, message });
            } else {
                self.seen.insert(key, (place.clone(), expected));
            }
        }
        match object {
            Some(Given::Object(object, named)) if faults.is_empty() => {
                self.entries.push(Entry { number, place, object: Arc::new(object), named, expected });
            }
            Some(Given::Removal(kind, id)) if faults.is_empty() => {
                let key = ObjectKey { kind: kind.shared_name().clone(), id };
                self.removals.push(Removal { number, place, key, expected });
            }
            _ => {
                self.unnamed |= id.is_none();
                self.faulty.extend(id.clone());
                // The quoted text may be as long as the whole input.
                let kind = kind.map(|kind| cut(kind).into_owned());
                let id = id.map(|id| id.to_string());
                let fault = |fault: Fault| {
                    let (kind, id, place) = (kind.clone(), id.clone(), Some(place.clone()));
                    let Fault { code, path, message } = fault;
                    let path = cut(&path).into_owned();
                    (number, ObjectError { code, place, kind, id, path, message, expected: None })
                };
                self.faults.extend(faults.into_iter().map(fault));
            }
        }
    }
}

/// Whether the text of a file is JSON, and not YAML.
pub(crate) fn is_json_file(name: &str, text: &str, cancel: &Cancel) -> bool {
    let extension = name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    match extension.as_deref() {
        Some("json" | "jsonl") => true,
        Some("yaml" | "yml") => false,
        _ if text.trim_start().starts_with(['{', '[']) => {
            // YAML has mappings in braces too. If the text is neither, quotes reveal the intended format.
            let quoted =
                text.trim_start_matches(|c: char| "{[".contains(c) || c.is_whitespace()).starts_with('"');
            is_json(text) || (quoted && !is_yaml(text, cancel))
        }
        _ => false,
    }
}

fn is_yaml(text: &str, cancel: &Cancel) -> bool {
    Documents::new(without_mark(text), cancel).all(|(_, _, document)| document.is_ok())
}

/// The text without the byte order mark that some editors write.
pub(crate) fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Whether a text is JSON. Builds no values.
fn is_json(text: &str) -> bool {
    let text = without_mark(text);
    serde_json::Deserializer::from_str(text).into_iter::<&RawValue>().all(|value| value.is_ok())
}

/// The fault of a part of a JSON text, with line and column in the whole text.
fn moved(error: &serde_json::Error, text: &str, part: &str) -> String {
    let message = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    let Some(message) = message.strip_suffix(&position) else { return message };
    let before = &text[..part.as_ptr().addr() - text.as_ptr().addr()];
    let line = before.matches('\n').count() + error.line();
    let shift =
        if error.line() > 1 { 0 } else { before.len() - before.rfind('\n').map_or(0, |feed| feed + 1) };
    format!("{message} at line {line} column {}", error.column() + shift)
}

#[cfg(test)]
mod tests {
    use nlog_data::{ObjectKind, TableId};

    use super::*;

    #[test]
    fn the_number_of_objects_is_limited() {
        let switch = ObjectKind {
            name: "switch".to_owned(),
            table: TableId(0),
            id_space: "switch".to_owned(),
            fields: Vec::new(),
            uniques: Vec::new(),
            doc: String::new(),
        };
        let mut batch = Batch::new(&Kinds::new(vec![switch]), Cancel::default());
        batch.count = OBJECTS_MAX - 2;
        let lines = (0..10).map(|id| format!("{{\"kind\": \"switch\", \"id\": \"s{id}\"}}"));
        let text = lines.collect::<Vec<_>>().join("\n");
        batch.add_json("net.json", &text);
        batch.add_json("more.json", &text);
        assert_eq!((batch.entries.len(), batch.faults.len()), (2, 1));
        let fault = batch.faults[0].1.to_string();
        assert_eq!(fault, "net.json: object 3: is beyond the limit of 1048576 objects; apply them in parts");
    }
}
