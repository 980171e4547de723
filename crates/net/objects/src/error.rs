//! Faults of objects, and their places.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::ObjectKey;

/// The kind of a fault, for scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FaultCode {
    /// The text is neither YAML nor JSON, or contains something other than objects.
    Syntax,
    /// The kind is unknown.
    UnknownKind,
    /// The field is unknown.
    UnknownField,
    /// A required field is missing.
    MissingField,
    /// The value of the field is invalid.
    BadValue,
    /// Another object already has this id, or a value that only one object can have.
    Duplicate,
    /// The referenced object does not exist.
    NoSuchObject,
    /// The object has changed since the revision that the request expects, or there is one where none is expected.
    Stale,
    /// Other objects refer to the object to delete.
    InUse,
    /// A rule refuses the object.
    Refused,
}

impl FaultCode {
    /// Every code.
    pub const ALL: [FaultCode; 10] = [
        FaultCode::Syntax,
        FaultCode::UnknownKind,
        FaultCode::UnknownField,
        FaultCode::MissingField,
        FaultCode::BadValue,
        FaultCode::Duplicate,
        FaultCode::NoSuchObject,
        FaultCode::Stale,
        FaultCode::InUse,
        FaultCode::Refused,
    ];

    /// The code of this name; of one that another version has, the code of a refusal.
    pub fn of_name(name: &str) -> Self {
        FaultCode::ALL.into_iter().find(|code| code.name() == name).unwrap_or(FaultCode::Refused)
    }

    /// The code's name in output.
    pub const fn name(self) -> &'static str {
        match self {
            FaultCode::Syntax => "syntax",
            FaultCode::UnknownKind => "unknown-kind",
            FaultCode::UnknownField => "unknown-field",
            FaultCode::MissingField => "missing-field",
            FaultCode::BadValue => "bad-value",
            FaultCode::Duplicate => "duplicate",
            FaultCode::NoSuchObject => "no-such-object",
            FaultCode::Stale => "stale",
            FaultCode::InUse => "in-use",
            FaultCode::Refused => "refused",
        }
    }
}

/// The place of an object in the input.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The name of the file, as the user named it.
    pub document: Arc<str>,
    /// `document` (YAML) or `object` (JSON).
    pub unit: &'static str,
    /// Its number, counted from 1.
    pub number: u32,
    /// The line that it begins in, counted from 1; `None` for an object of a JSON array, and if the text is not of a file.
    pub line: Option<u32>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}", self.document),
            None => write!(f, "{}: {} {}", self.document, self.unit, self.number),
        }
    }
}

/// One fault of one object: place, object, field and cause, as far as each is known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ObjectError {
    /// The code of the fault.
    pub code: FaultCode,
    /// The place of the object; `None` if it did not come from a document.
    pub place: Option<Place>,
    /// The kind as written, which may be unknown.
    pub kind: Option<String>,
    /// The object's id.
    pub id: Option<String>,
    /// The path of the field, such as `addresses[0].mac`; empty if the fault concerns the object as a whole.
    pub path: String,
    /// Cause and remedy.
    pub message: String,
    /// The revision that the request expects, if the fault is that the object has another one.
    pub expected: Option<u64>,
}

impl ObjectError {
    /// A fault of a whole object that is not from a document.
    pub fn of_object(code: FaultCode, key: &ObjectKey, message: String) -> Self {
        let (kind, id) = (Some(key.kind.to_string()), Some(key.id.to_string()));
        ObjectError { code, place: None, kind, id, path: String::new(), message, expected: None }
    }
}

/// So many objects with one fault are listed one by one; of more, the first and their number.
const ALIKE_MAX: usize = 3;

/// A fault as it is listed: whose it is, and its line.
#[derive(Debug, Clone, Copy)]
pub struct ListedFault<'a> {
    /// The kind of the object.
    pub kind: &'a str,
    /// The path of the field.
    pub path: &'a str,
    /// Cause and remedy.
    pub message: &'a str,
    /// The fault with its place.
    pub text: &'a str,
}

/// The lines of a list of faults. One mistake in hundreds of objects, as of a template that made them, is one line.
pub fn fault_lines(faults: &[ListedFault<'_>]) -> Vec<String> {
    let mut counts: HashMap<[&str; 3], usize> = HashMap::new();
    for ListedFault { kind, path, message, .. } in faults {
        *counts.entry([kind, path, message]).or_default() += 1;
    }
    let mut lines = Vec::new();
    for ListedFault { kind, path, message, text } in faults {
        // The first of its like takes the number.
        match counts.get_mut(&[*kind, *path, *message]) {
            Some(0) => {}
            Some(count) if *count > ALIKE_MAX => {
                lines.push(format!("{text} (and {} more objects with this fault)", *count - 1));
                *count = 0;
            }
            _ => lines.push((*text).to_owned()),
        }
    }
    lines
}

impl fmt::Display for ObjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        match (&self.kind, &self.id) {
            (Some(kind), Some(id)) => write!(f, "{kind} {id}: ")?,
            (Some(kind), None) => write!(f, "{kind}: ")?,
            (None, Some(id)) => write!(f, "{id}: ")?,
            (None, None) => {}
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}
