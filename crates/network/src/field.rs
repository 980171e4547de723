//! The texts of faults, names and labels.

use std::fmt::{self, Write as _};

use nlog_data::Value;
use nlog_data::quotation::quote_text;
use serde_json::Value as Json;

use crate::FaultCode;
use crate::print::text_of;

/// A fault, and the path of the field from the object's root.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) code: FaultCode,
    pub(crate) path: String,
    pub(crate) message: String,
}

/// The most characters of a label's value.
pub(crate) const LABEL_CHARS_MAX: usize = 255;
/// The most bytes of a name.
pub(crate) const NAME_BYTES_MAX: usize = 255;

/// A step of the path of a value in an object.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step<'a> {
    /// A field of an object or a record, or a key of a mapping.
    Member(&'a str),
    /// A key of a mapping, as a value.
    Key(&'a Value),
    /// An element of a list.
    Element(usize),
}

/// The path of a value, as text: `addresses[0].mac`.
pub(crate) struct Path<'a>(pub(crate) &'a [Step<'a>]);

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.0.iter().enumerate() {
            match step {
                Step::Member(name) if at == 0 => f.write_str(name)?,
                Step::Member(name) => write!(f, ".{name}")?,
                Step::Key(key) => write!(f, ".{}", text_of(key))?,
                Step::Element(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// Names, joined as in a sentence.
pub(crate) fn list(names: &[&str]) -> String {
    let mut text = String::new();
    for (index, name) in names.iter().enumerate() {
        let joint = if index == 0 {
            ""
        } else if index + 1 == names.len() {
            " and "
        } else {
            ", "
        };
        // Writing to a string cannot fail.
        let _ = write!(text, "{joint}`{name}`");
    }
    text
}

/// The noun for the type of a value.
pub(crate) fn form(value: &Json) -> &'static str {
    match value {
        Json::Null => "nothing",
        Json::Bool(_) => "a boolean",
        Json::Number(_) => "a number",
        Json::String(_) => "text",
        Json::Array(_) => "a list",
        Json::Object(_) => "a mapping",
    }
}

/// The value of a label: text of one line.
pub(crate) fn label(value: &Json) -> Result<String, String> {
    let text = text(value)?;
    if text.chars().count() > LABEL_CHARS_MAX {
        Err(format!("is longer than {LABEL_CHARS_MAX} characters"))
    } else if let Some(odd) = text.chars().find(|c| c.is_control()) {
        Err(format!("{} contains the character {odd:?}; write a text of one line", quote_text(text)))
    } else {
        Ok(text.to_owned())
    }
}

/// Text.
pub(crate) fn text(value: &Json) -> Result<&str, String> {
    let quote = if value.is_number() || value.is_boolean() { "; write it in quotes" } else { "" };
    value.as_str().ok_or_else(|| format!("must be text, not {}{quote}", form(value)))
}

/// Checks a name: text that needs no quoting in a URL path, a log line or a shell.
pub(crate) fn check_name(text: &str) -> Result<(), String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.:@".contains(c);
    if text.is_empty() {
        Err("must not be empty".to_owned())
    } else if text.len() > NAME_BYTES_MAX {
        Err(format!("is longer than {NAME_BYTES_MAX} characters"))
    } else if let Some(odd) = text.chars().find(|c| !fits(*c)) {
        Err(format!(
            "{} contains the character {odd:?}; use only letters, digits and - _ . : @",
            quote_text(text)
        ))
    } else if !text.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        Err(format!("{} must begin with a letter or a digit", quote_text(text)))
    } else {
        Ok(())
    }
}
