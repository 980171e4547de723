//! The one table of functions and operators: signatures, documentation, examples, evaluation.
//!
//! To add a function: one entry in the file of its subject below this module, with its examples; they are its
//! documentation and its test vectors.

use std::borrow::Cow;
use std::sync::Arc;

use crate::{Type, Value};

/// What kind of failure an expression met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FailureCode {
    /// Integer arithmetic left 64 bits.
    Overflow,
    /// A value does not fit where it is used; division by zero among them.
    Range,
}

/// Why an expression has no value for its arguments although it should. Ordered by code, then message.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// What kind.
    pub code: FailureCode,
    /// The operation with its values, and the bound that was left.
    pub message: Arc<str>,
}

/// What a function gives for its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Results {
    /// Nothing: the binding yields no tuple.
    None,
    /// One value (functions with one result column).
    One(Value),
    /// Any number of tuples of result columns.
    Many(Vec<Vec<Value>>),
}

/// How many results a function has for one list of arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Multiplicity {
    /// Always one; usable as an expression.
    One,
    /// One or none; usable as an expression.
    AtMostOne,
    /// Any number; usable as an atom alone.
    Many,
}

/// The form of a parameter or result, of which its type is an instance.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Shape {
    /// Exactly this type.
    Is(Type),
    /// Any type; equal numbers mean equal types in one call.
    Any(u8),
    /// A set of what the shape says.
    SetOf(Box<Shape>),
    /// A list of what the shape says.
    ListOf(Box<Shape>),
}

/// A named parameter or result column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// Its name in documentation.
    pub name: Cow<'static, str>,
    /// What it takes.
    pub shape: Shape,
}

/// A call in nlog text and what it gives in nlog text: documentation and test vector in one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Example {
    /// The arguments, as nlog literals.
    pub arguments: Cow<'static, str>,
    /// The result as an nlog literal; `none`; or `error CODE`.
    pub result: Cow<'static, str>,
}

/// How a function computes.
pub type Evaluate = dyn Fn(&[Value]) -> Result<Results, Failure> + Send + Sync;

/// A function or operator. Several may share a name and differ in parameters.
pub struct Function {
    /// Its name in rules; operators are named by their sign.
    pub name: Cow<'static, str>,
    /// What it takes.
    pub parameters: Vec<Parameter>,
    /// The last parameter may be repeated any number of times (`hash`).
    pub variadic: bool,
    /// Its result columns; a predicate has one of type `bool`.
    pub results: Vec<Parameter>,
    /// How many results there can be.
    pub multiplicity: Multiplicity,
    /// Whether it can fail for some arguments.
    pub may_fail: bool,
    /// What it does, in a sentence or two.
    pub doc: Cow<'static, str>,
    /// Its test vectors.
    pub examples: Vec<Example>,
    /// How it computes; arguments fit the parameters.
    pub evaluate: Box<Evaluate>,
}
