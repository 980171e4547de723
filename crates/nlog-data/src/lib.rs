//! The data of nlog: what a row can hold and what can be done with it.
//!
//! Everything that evaluates rules, checks them or carries their rows shares this crate, so that a value has one
//! order, one canonical text and one meaning everywhere.
//!
//! In reading order: [`types`], [`value`] (values, their order and text), [`literal`] (values as nlog text), [`schema`] (tables), [`function`] (the one
//! table of functions and operators), [`transaction`] (what goes in and what comes out), [`json`] (both as JSON
//! Lines), [`inputs`] (the contents of input tables, and which transactions they accept).
//!
//! Left out on purpose: rules (crate `nlog`), how rows are stored in an engine (crate `nlog-dataflow`), any I/O.
#![forbid(unsafe_code)]

pub mod function;
pub mod inputs;
pub mod json;
pub mod literal;
pub mod schema;
pub mod transaction;
pub mod types;
pub mod value;

pub use function::{Failure, FailureCode, Function, Results};

pub use inputs::{Changes, Inputs};
pub use schema::{Column, Role, Schema, Table, TableId};
pub use transaction::{
    CommitError, Committed, Delta, DerivedCause, DerivedError, ErrorCode, Evaluator, Row, RuleId, TableDelta,
    Tables, Transaction, TransactionError,
};
pub use types::Type;
pub use value::{Canonical, Value};
