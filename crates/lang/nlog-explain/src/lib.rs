//! Why a row exists or does not, and what asked for it: rows derived when they are asked for, top down, each with its derivation.
//!
//! An [`OnDemand`] has the rows of input tables, and derives the others that a question needs. So an answer costs what it looks at.
//!
//! ```
//! use nlog::{Sources, compile};
//! use nlog_data::Value;
//! use nlog_explain::{OnDemand, explanation};
//!
//! let text = "input table vif(port: string, hv: string); output table host(hv: string); host(hv) :- vif(_, hv);";
//! let program = compile(&Sources::from_texts([("hosts.nlog", text)])).program.ok_or("a faulty program")?;
//! let find = |name| program.schema.find(name).ok_or("declared");
//! let (vif, host) = (find("vif")?, find("host")?);
//! let row = |texts: &[&str]| texts.iter().map(|text| Value::from(*text)).collect::<Vec<_>>();
//! let state = OnDemand::new(program.clone(), [(vif, row(&["p1", "hv1"]))]);
//! let lines = explanation::why(&state, host, &row(&["hv1"]));
//! assert!(lines.join("\n").contains("vif(\"p1\", \"hv1\")"));
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
//! In reading order: `rule` (bindings to rows), `plan` (the order of a body), `project` (bodies to the variables of the head), `join`,
//! `expression`, `aggregate`; [`OnDemand`]; `derivation` (the bodies of a row), `why_not` (for each rule that could derive a row, how far
//! it gets), `hidden`, `text`, [`explanation`] (both questions answered in text), [`printed`] (rows of answers, read back), [`tree`] (why rows exist, down to the inputs), [`conflict`] (why
//! two rows have one key), `origin`
//! (who asked for them), `json`. Left out on purpose: optimisation beyond an index on the columns that earlier atoms bind, the order of
//! a body by what is known, rules that derive nothing, and groups by a value chosen from them.
#![forbid(unsafe_code)]

mod aggregate;
pub mod conflict;
mod derivation;
pub mod explanation;
mod expression;
mod hidden;
mod join;
mod json;
mod on_demand;
mod origin;
mod plan;
pub mod printed;
mod project;
mod rule;
mod text;
pub mod tree;
mod why_not;

pub use join::Contents;
pub use on_demand::{Derivation, OnDemand};
pub use origin::{Call, Origin, ShowsInputs};
pub use rule::{Derived, derive};
pub use why_not::{Obstacle, ObstacleKind, WhyNot, nearest};
