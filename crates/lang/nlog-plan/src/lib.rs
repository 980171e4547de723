//! The query planner: from a typed nlog program to a plan of join orders, indexes and duplicate elimination.
//!
//! The planner is a pure function from a program and the requested tables to a [`query::Plan`], the same on every
//! run. A plan is data: an engine turns it into operators, and `Display` into text for the author of a rule:
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
//! In reading order: [`query`] and [`plan`] (the data), `analysis` and `body` (the body of a rule), `dependency`
//! (functional dependencies from declared keys), [`statistics`](Statistics), `common_variables` (variables that
//! several atoms share), `spread`, `estimate` and `model` (cardinality and cost of joins), `order` (join orders),
//! `draft` and `lower` (from orders to pipelines), `joins` (one rule), `indexes` (shared indexes), `tables` (keys and
//! required tables), `cost`, `inline` and `stage` (rewriting), `program` (all rules), [`pinned`](Pinned),
//! [`describe`].
//!
//! How a rule becomes a plan:
//!
//! - Each atom of the body has a pipeline that starts with changed rows of that atom and probes indexes of the
//!   others. The order is the one that touches the fewest rows according to statistics, declared keys and default
//!   estimates.
//! - Filters and functions run as soon as their variables are bound, columns are dropped as soon as they are no
//!   longer needed, and indexes contain only the columns that are read from them.
//! - An equation between a variable and an expression provides a key to probe. If the expression can fail, separate
//!   pipelines ([`query::RulePlan::failures`]) follow the bindings for which it fails and evaluate the rest of the
//!   body without the equation, so that the failure counts exactly for bindings that satisfy everything else.
//! - A failure takes the place of the value and travels with the binding to the head. If its column is dropped, or if
//!   a filter failed, the binding remembers the failure.
//! - A part of a body whose projection has duplicates can become a *stage*, a separate distinct relation, so that
//!   duplicates are removed early and the head needs no counts.
//! - An internal table that only one atom reads can be *inlined*: its rule replaces that atom.
//!
//! Out of scope: the time at which statistics are collected, bushy join orders except through stages, and the
//! implementation of operators.
#![forbid(unsafe_code)]

mod analysis;
mod body;
mod common_variables;
mod cost;
mod dependency;
pub mod describe;
mod describer;
mod draft;
mod estimate;
mod indexes;
mod inline;
mod joins;
mod lower;
mod model;
mod order;
mod pinned;
pub mod plan;
mod program;
pub mod query;
mod spread;
mod stage;
mod statistics;
mod tables;
mod text;
mod unfold;

pub use pinned::{Pinned, PinnedJoins, PinnedRule, PinnedStage};
pub use plan::{AggregatePlan, GroupColumn, Keep, Operand, Scalar, Selection, Slot};
pub use program::Settings;
pub use statistics::{Counter, FREQUENT, JointColumns, SAMPLED, Sample, Statistics, TableStatistics};
