//! Errors in a literal and in a value for one.

use std::fmt;

/// The part of the term at [`TemplateError::path`] that an error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// The name: of the action, the field, or the argument.
    Name,
    /// All of it.
    Whole,
}

/// The kinds of errors in a literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Problem {
    /// No such action, or not allowed in this context.
    UnknownAction,
    /// No such field, or one that cannot be matched.
    UnknownField,
    /// An argument is missing, superfluous, given twice, or conflicts with others.
    Argument,
    /// A value of a type that the position does not accept.
    Type,
    /// The field cannot be written, either here or at all.
    ReadOnly,
    /// A constant that does not fit, or bits outside the field.
    Range,
    /// A field without a prerequisite, usually a protocol.
    Prerequisite,
    /// No packet can match the literal.
    Contradiction,
    /// A field, or bits of it, given twice.
    DuplicateField,
}

/// An invalid literal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}; {remedy}")]
pub struct TemplateError {
    /// The term: its place in the list, then in the arguments of that term, and so on. A match item's value is
    /// its place 0; the value of `value/mask` is place 0 of the pair, the mask place 1.
    pub path: Vec<usize>,
    /// The part of the term.
    pub at: Where,
    /// The kind of error.
    pub problem: Problem,
    /// The fault.
    pub message: String,
    /// The remedy.
    pub remedy: String,
}

impl TemplateError {
    pub(crate) fn new(
        problem: Problem,
        message: impl fmt::Display,
        remedy: impl fmt::Display,
    ) -> TemplateError {
        let (message, remedy) = (message.to_string(), remedy.to_string());
        TemplateError { path: Vec::new(), at: Where::Whole, problem, message, remedy }
    }

    /// The same error, about the name.
    pub(crate) fn name(self) -> TemplateError {
        TemplateError { at: Where::Name, ..self }
    }

    /// The same error, one level down, at this position.
    pub(crate) fn at(mut self, place: usize) -> TemplateError {
        self.path.insert(0, place);
        self
    }
}

/// A value that does not fit a hole of a template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct FillError {
    /// The term, as in [`TemplateError::path`].
    pub path: Vec<usize>,
    /// The fault: "4294967296 does not fit reg0, which has 32 bits".
    pub message: String,
}

/// The remedy for an unknown name: the nearest known one, or where to look.
pub(super) fn remedy<'a>(given: &str, known: impl Iterator<Item = &'a str>, otherwise: &str) -> String {
    match crate::nearest(given, known) {
        Some(name) => format!("did you mean `{name}`?"),
        None => otherwise.to_owned(),
    }
}
