//! What can be wrong with an object, and where.

use std::fmt;

use crate::ObjectKey;

/// What kind of fault, for scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FaultCode {
    /// The text is neither YAML nor JSON, or holds something that is no object.
    Syntax,
    /// No kind has this name.
    UnknownKind,
    /// The kind exists, but not in this version.
    UnsupportedKind,
    /// The kind has no such field.
    UnknownField,
    /// A field that must be there is not.
    MissingField,
    /// The field cannot have this value.
    BadValue,
    /// Something else has this id, address or end point.
    Duplicate,
    /// A reference leads nowhere.
    NoSuchObject,
    /// Something refers to what is to be deleted.
    InUse,
}

impl FaultCode {
    /// The code's name in output.
    pub fn name(self) -> &'static str {
        match self {
            FaultCode::Syntax => "syntax",
            FaultCode::UnknownKind => "unknown-kind",
            FaultCode::UnsupportedKind => "unsupported-kind",
            FaultCode::UnknownField => "unknown-field",
            FaultCode::MissingField => "missing-field",
            FaultCode::BadValue => "bad-value",
            FaultCode::Duplicate => "duplicate",
            FaultCode::NoSuchObject => "no-such-object",
            FaultCode::InUse => "in-use",
        }
    }
}

/// Where an object stands in what was given.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The name of the file, as the user named it.
    pub document: String,
    /// `document` (YAML) or `object` (JSON).
    pub unit: &'static str,
    /// Which of them, counted from 1.
    pub number: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} {}", self.document, self.unit, self.number)
    }
}

/// One fault of one object: place, object, field and cause, as far as each is known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ObjectError {
    /// What kind of fault.
    pub code: FaultCode,
    /// Where the object stands; `None` if it did not come in a document.
    pub place: Option<Place>,
    /// The kind as it was written, which may be none of ours.
    pub kind: Option<String>,
    /// The object's id.
    pub id: Option<String>,
    /// The field, as `addresses[0].mac`; empty if the fault concerns the whole object.
    pub path: String,
    /// Cause and remedy.
    pub message: String,
}

impl ObjectError {
    /// A fault of a whole object that did not come in a document.
    pub(crate) fn of_object(code: FaultCode, key: &ObjectKey, message: String) -> Self {
        let (kind, id) = (Some(key.kind.name().to_owned()), Some(key.id.clone()));
        ObjectError { code, place: None, kind, id, path: String::new(), message }
    }
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
