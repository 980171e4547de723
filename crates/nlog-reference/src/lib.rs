//! The naive evaluator of nlog programs: the oracle for tests.
//!
//! Every transaction recomputes every table from the inputs, in topological order, with nested loops over the atoms
//! of each rule, and compares the result with the previous contents. Nothing is incremental or shared between rules,
//! so the code can be compared directly with the semantics in [`nlog::program::Rule`].
//!
//! ```
//! use nlog::{Sources, compile};
//! use nlog_data::{Evaluator, Tables, json};
//! use nlog_reference::Reference;
//!
//! let text = "input table vif(port: string, hv: string); output table ports(hv: string, n: int);
//!     ports(hv, count(port)) :- vif(port, hv);";
//! let program = compile(&Sources::from_texts([("ports.nlog", text)])).program.ok_or("a faulty program")?;
//! let mut reference = Reference::new(program, Tables::Outputs);
//! let line = br#"{"insert":{"vif":[["p1","hv1"],["p2","hv1"]]}}"#;
//! let transaction = json::parse_line(line, 1, reference.schema())?.transaction;
//! let mut out = Vec::new();
//! json::write_delta_line(&mut out, 1, &reference.commit(&transaction)?.delta, reference.schema());
//! assert_eq!(out, b"{\"txn\":1,\"insert\":{\"ports\":[[\"hv1\",2]]},\"delete\":{}}\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What that text leaves to be said about a binding of a rule:
//!
//! - An expression gives a value, or nothing (a function without a result), or is undetermined. A call gives nothing
//!   if an argument gives nothing; otherwise it is undetermined if an argument is, or if the function fails. `if c
//!   then a else b` is what `c` is unless that is a value, else what the branch taken is.
//! - A `Let`, a `Filter`, a head column or an aggregate's argument that gives nothing rejects the binding, as does a
//!   condition that is false, or a `Generate` without results. What is undetermined rejects nothing.
//! - A binding that nothing rejects and in which nothing failed derives its head. One in which something failed
//!   derives nothing, and its least failure is an error of the head's table.
//! - A group whose sum overflows derives nothing; that is a failure as well. The sum is that of all tuples at once:
//!   parts of it may leave 64 bits.
//!
//! All tables are computed even after errors; the least [`DerivedError`](nlog_data::DerivedError) is reported.
//!
//! In reading order: [`Reference`] (transactions), `rule` (bindings to rows), `join` (bodies to bindings), `expression`,
//! `aggregate`; `why_not` (how far each rule gets that could derive a row), `hidden`, `text`,
//! [`explanation`] (both questions answered in text). Left out on purpose: any speed beyond an index on the columns that
//! earlier atoms bind.
#![forbid(unsafe_code)]

mod aggregate;
pub mod explanation;
mod expression;
mod hidden;
mod join;
mod reference;
mod rule;
mod text;
mod why_not;

pub use reference::{Derivation, Reference};
pub use why_not::{Obstacle, ObstacleKind, WhyNot, nearest};
