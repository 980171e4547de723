//! The naive evaluator of nlog programs: the oracle for tests.
//!
//! Every transaction recomputes every table from the inputs, in topological order, each rule atom by atom, and compares the result with the previous contents. Nothing is incremental or shared between rules,
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
//! Details of a binding of a rule that this text leaves open:
//!
//! - An expression has a value, or has no value (a function without a result), or is undetermined. A call has no value
//!   if an argument has none; otherwise it is undetermined if an argument is, or if the function fails. The outcome of
//!   `if c then a else b` is that of `c` unless `c` has a value, and otherwise that of the taken branch.
//! - A `Let`, a `Filter`, a head column or an aggregate's argument without a value rejects the binding, as does a false
//!   condition or a `Generate` without results. An undetermined item rejects nothing.
//! - A binding that no item rejects derives its head if nothing failed in it. If something failed, it derives nothing,
//!   and its least failure is an error of the head's table.
//! - A group whose sum overflows derives nothing, which is a failure too. All tuples are summed at once: partial sums
//!   may exceed 64 bits.
//!
//! All tables are computed even after errors; the least [`DerivedError`](nlog_data::DerivedError) is reported.
//!
//! In reading order: [`Reference`] (transactions), [`Hooked`] (its hooks), `rule` (bindings to rows), `plan` (the order of a body), `project` (bodies to the variables of the
//! head), `join`, `expression`, `aggregate`; [`OnDemand`] (a state that derives the rows that are asked for, and explains them),
//! `derivation` (the bodies of a row), `why_not` (how far each rule gets that could derive a row), `hidden`, `text`, [`explanation`]
//! (both questions answered in text), [`tree`] (why rows exist, down to the inputs), `origin` (who asked for them), `json`. Left out on purpose: optimisation beyond
//! an index on the columns that earlier atoms bind, and the early removal of variables that are no longer needed. For rows on
//! demand, also the order of a body by what is known, rules that derive nothing, and groups by a value chosen from them.
#![forbid(unsafe_code)]

mod aggregate;
mod derivation;
pub mod explanation;
mod expression;
mod hidden;
mod hooked;
mod join;
mod json;
mod on_demand;
mod origin;
mod plan;
mod project;
mod reference;
mod rule;
mod text;
pub mod tree;
mod why_not;

pub use hooked::Hooked;
pub use on_demand::{Derivation, OnDemand};
pub use origin::{Call, Origin, ShowsInputs};
pub use reference::Reference;
pub use why_not::{Obstacle, ObstacleKind, WhyNot, nearest};
