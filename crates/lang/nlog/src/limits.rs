//! Limits on the text of a program.
//!
//! They are far beyond the needs of people and generators. They keep a mistake or an attack from taking all memory or
//! time. `docs/reference/limits.md` lists them together with the limits on data.

pub use crate::syntax::MAX_NESTING;

/// The largest source file, in bytes.
pub const MAX_FILE: usize = 64 << 20;

/// The longest name, in bytes.
pub const MAX_NAME: usize = 255;

/// The most elements of a declaration or a call: columns, fields, members, parameters, arguments, fields of a match
/// literal, actions of an action literal. Literals of sets and lists can be longer.
pub const MAX_ELEMENTS: usize = 1000;

/// The most times that a table says what is unique: each takes memory for every row.
pub const MAX_UNIQUES: usize = 16;

/// The longest message of a diagnostic, in bytes.
pub(crate) const MAX_MESSAGE: usize = 10_000;

/// The most related places that a diagnostic shows.
pub(crate) const MAX_LABELS: usize = 100;
