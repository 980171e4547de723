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
//! (functional dependencies from declared keys), [`statistics`](Statistics), `together` (which columns are joined as one),
//! `spread`, `estimate` and `model` (what joining finds and costs), `order` (which atom when), `draft` and `lower` (orders to pipelines), `joins` (one rule), `indexes` (what rules
//! share), `tables` (whose keys hold, which are needed), `cost`, `inline` and `stage` (what stands in the place of what),
//! `program` (all rules), [`pinned`](Pinned), [`describe`].
//!
//! How a rule becomes a plan:
//!
//! - For each atom of its body there is a pipeline that begins with changed rows of that atom and probes indexes of the
//!   others, in the order that touches the fewest rows by estimates from statistics, declared keys and defaults.
//! - Filters and functions run as soon as their variables are bound; columns are dropped as soon as nothing needs
//!   them; indexes have the columns that somebody takes from them.
//! - An equation between a variable and an expression gives keys to probe by. If the expression can fail, the bindings
//!   for which it does are followed by pipelines of their own ([`query::RulePlan::failures`]), which look for the rest of
//!   the body without that equation: so the failure counts exactly for bindings that satisfy everything else.
//! - A failed value takes the place of the value that it has not become and travels with the binding to the head.
//!   Where its column is dropped, or where a filter failed, the binding remembers it.
//! - A part of a body of which fewer columns are needed than tell its bindings apart can become a *stage*, a relation
//!   of its own that is made distinct, so that duplicates go early and the head needs no counts.
//! - An internal table that one atom alone reads can be *inlined*: its rule stands in the place of that atom.
//!
//! Left out on purpose: when statistics are taken, orders that join two joins with each other (bushy ones) but for
//! stages, and everything about how operators work.
#![forbid(unsafe_code)]

mod analysis;
mod body;
mod cost;
mod dependency;
pub mod describe;
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
mod together;
mod unfold;
mod words;

pub use pinned::{Pinned, PinnedJoins, PinnedRule, PinnedStage};
pub use plan::{AggregatePlan, GroupColumn, Keep, NARROW, Operand, Scalar, Selection, Slot};
pub use program::Settings;
pub use statistics::{Counter, FREQUENT, SAMPLED, Sample, Statistics, TableStatistics, Together};
