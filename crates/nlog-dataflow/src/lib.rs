//! nlog programs as timely and differential dataflow: rows go in by the transaction, what changes comes out.
//!
//! ```
//! use nlog_data::{Evaluator, Transaction, Value};
//! use nlog_dataflow::{Dataflow, Options};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let sources = nlog::Sources::from_texts([(
//!     "peers.nlog",
//!     "input table on(port: string, hv: string) key(port);
//!      output table peer(a: string, b: string);
//!      peer(a, b) :- on(p, a), on(q, b), a != b;",
//! )]);
//! let program = nlog::compile(&sources).program.ok_or("it compiles")?;
//! let (on, peer) = (program.schema.find("on").ok_or("declared")?, program.schema.find("peer").ok_or("declared")?);
//! let mut engine = Dataflow::new(program, Options::default())?;
//!
//! let row = |port: &str, hv: &str| vec![Value::String(port.into()), Value::String(hv.into())];
//! let mut transaction = Transaction::default();
//! transaction.insert.insert(on, vec![row("p1", "hv1"), row("p2", "hv2"), row("p3", "hv2")]);
//! let committed = engine.commit(&transaction)?;
//! assert_eq!(committed.delta.tables[&peer].insert, vec![row("hv1", "hv2"), row("hv2", "hv1")]);
//! # Ok(()) }
//! ```
//!
//! A transaction is an epoch. It takes effect whole or not at all: if it brings about a failure or breaks a key, its
//! inverse runs as the next epoch and the least error is reported, the same one that the reference evaluator reports.
//! Results do not depend on the number of workers.
//!
//! In reading order: `symbol` (values as 32 bits), `row` (rows as a few words), `expression` (conditions and functions
//! on symbols), `head` (what becomes of a binding), `aggregate`, `layout` (how each table is kept), `graph` (plan to
//! operators), `worker` (threads), `output` (changes to deltas), [`dataflow`] (transactions).
//!
//! Left out on purpose: planning (crate `nlog-plan`), what transactions look like as text (crate `nlog-data`), giving
//! symbols back, and operators of our own: this is the plain composition that says what a plan means.
#![forbid(unsafe_code)]

mod aggregate;
pub mod dataflow;
mod expression;
pub mod fused;
mod graph;
mod head;
mod layout;
mod output;
mod row;
mod steps;
mod symbol;
mod trouble;
mod worker;

pub use dataflow::{Dataflow, Options, StartError};
