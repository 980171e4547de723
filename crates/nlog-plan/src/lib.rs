//! Typed nlog program to query plan: which rows are joined in which order, on which columns, and where duplicates go.
//!
//! The planner is pure: a program and the tables that are wanted give a [`query::Plan`], the same on every run. A plan is
//! data. An engine turns it into operators; `Display` turns it into text that the author of a rule can follow:
//!
//! ```
//! let sources = nlog::Sources::from_texts([(
//!     "peers.nlog",
//!     "input table on(port: string, hv: string) key(port);
//!      input table at(hv: string, ip: ip) key(hv);
//!      output table where(port: string, ip: ip) key(port);
//!      where(port, ip) :- on(port, hv), at(hv, ip);",
//! )]);
//! let program = nlog::compile(&sources).program.expect("it compiles");
//! let plan = nlog_plan::query::Plan::for_outputs(program).to_string();
//! assert!(plan.contains("on(port, hv)"), "{plan}");
//! assert!(plan.contains("where: as it is"), "its key follows from those of on and at: {plan}");
//! ```
//!
//! In reading order: [`query`] and [`plan`] (the data), `analysis` and `body` (what a rule's body says), `dependency`
//! (functional dependencies from declared keys), `model` and `estimate` (what joining costs), `order`, `joins` (one rule),
//! `lower` (orders to pipelines), `indexes` (what rules share), `program` (all rules), [`describe`].
//!
//! How a rule becomes a plan:
//!
//! - A body is a chain of joins, greedily ordered: the atom with constants first, then connected atoms, those whose
//!   declared key is bound before others; products only where the body has nothing else.
//! - An atom that is only a lookup of another one (its key is among the other's variables) is joined to that one
//!   first, so that what the lookup finds is computed once per row and not once per pair.
//! - Filters and functions run as soon as their variables are bound; columns are dropped as soon as nothing needs
//!   them, on both sides of every join.
//! - An equation between a variable and an expression is a join key. If the expression can fail, the bindings for
//!   which it does are followed by a plan of their own ([`query::RulePlan::failures`]), which looks for the rest of the body
//!   without that equation: so the failure counts exactly for bindings that satisfy everything else.
//! - A failed value takes the place of the value that it has not become and travels with the binding to the head.
//!   Where its column is dropped, or where a filter failed, the binding remembers it.
//!
//! Left out on purpose: statistics, and everything about how operators work.
#![forbid(unsafe_code)]

mod analysis;
mod body;
mod dependency;
pub mod describe;
mod draft;
mod estimate;
mod indexes;
mod joins;
mod lower;
mod model;
mod order;
pub mod plan;
mod program;
pub mod query;
mod statistics;

pub use plan::{AggregatePlan, GroupColumn, Keep, NARROW, Operand, Scalar, Selection, Slot};
pub use program::Settings;
pub use statistics::{Statistics, TableStatistics};
