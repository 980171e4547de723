//! The texts of faults, names and labels.

use std::fmt::{self, Write as _};

use nlog_data::Value;
use nlog_data::quotation::{grouped, is_odd, quote_text};

use crate::FaultCode;
use crate::print::text_of;
use crate::tree::Tree;

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
/// The most bytes of any other text.
pub(crate) const TEXT_BYTES_MAX: usize = 4096;
/// The most faults that are reported of one object, and of a batch. A user with more faults corrects these first.
pub(crate) const FAULTS_MAX: usize = 1000;

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

/// The most names that a message lists.
const LISTED: usize = 16;

/// Names, joined as in a sentence. Of many, the first and the number of the others.
pub(crate) fn list(names: &[&str]) -> String {
    let mut text = String::new();
    let (listed, more) = names.split_at(names.len().min(LISTED));
    for (index, name) in listed.iter().enumerate() {
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
    if !more.is_empty() {
        let _ = write!(text, " and {} more", more.len());
    }
    text
}

/// The noun for the type of a value.
pub(crate) fn form(value: &Tree) -> &'static str {
    match value {
        Tree::Null => "nothing",
        Tree::Bool(_) => "a boolean",
        Tree::Number(_) => "a number",
        Tree::Text(_) => "text",
        Tree::List(_) => "a list",
        Tree::Mapping(_) => "a mapping",
    }
}

/// The value of a label: text of one line.
pub(crate) fn label(value: &Tree) -> Result<String, String> {
    let text = text(value)?;
    if text.chars().count() > LABEL_CHARS_MAX {
        Err(format!("is longer than {LABEL_CHARS_MAX} characters"))
    } else {
        check_line(text).map(|()| text.to_owned())
    }
}

/// Checks a text that is no name: one line, which looks in a terminal, a log and a file as it is (CWE-150).
pub(crate) fn check_line(text: &str) -> Result<(), String> {
    if text.len() > TEXT_BYTES_MAX {
        Err(format!("is {} bytes long; write at most {TEXT_BYTES_MAX}", grouped(text.len())))
    } else if let Some(odd) = text.chars().find(|c| is_odd(*c)) {
        Err(format!("{} contains the character {odd:?}; write a text of one line", quote_text(text)))
    } else {
        Ok(())
    }
}

/// Text.
pub(crate) fn text(value: &Tree) -> Result<&str, String> {
    let quote = if matches!(value, Tree::Number(_) | Tree::Bool(_)) { "; write it in quotes" } else { "" };
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
