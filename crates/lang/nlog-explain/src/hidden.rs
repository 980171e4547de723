//! Recognises the hidden tables that the compiler creates for defaults: see the module `defaults` of `nlog`'s
//! checker.

use nlog_data::{Role, Table};

/// The part of a default that a hidden table represents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HiddenPart {
    /// Whether an ordinary rule has a key: the last column is 1 if one has.
    Level,
    /// A default's candidate rows, before overriding.
    Other,
}

/// For a hidden table, the name of the table that it was made for, and its part.
pub(crate) fn hidden_part(table: &Table) -> Option<(&str, HiddenPart)> {
    if table.role != Role::Hidden {
        return None;
    }
    // Names in the source have no dots.
    let (of, part) = table.name.split_once('.')?;
    Some((of, if part == "level" { HiddenPart::Level } else { HiddenPart::Other }))
}
