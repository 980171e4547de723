//! Incremental evaluation of nlog programs with timely and differential dataflow: from transactions to deltas.
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
//! A transaction takes effect as a whole or not at all. If it causes a failure or violates a key, the state does not
//! change and the engine reports the least error, the same one as the reference evaluator. Results do not depend on the
//! number of workers.
//!
//! The modules in reading order: `symbol` (values as 32-bit words), `row` (rows as a few words), `expression`
//! (conditions and functions on symbols), `steps`, `aggregate`, [`fused`] (rules in static order over shared traces),
//! `carrier` (messages between workers over timely), [`dataflow`] (the public interface), [`operator`] (a program inside
//! timely).
//!
//! Out of scope: planning (crate `nlog-plan`), and transactions as text (crate `nlog-data`).
#![forbid(unsafe_code)]

mod aggregate;
mod carrier;
mod checked_bytes;
pub mod dataflow;
mod expression;
pub mod fused;
mod memo;
pub mod operator;
mod panic;
mod row;
mod steps;
mod symbol;
mod wire;

pub use carrier::{Processes, StartError as WorkersError, hostfile};
pub use dataflow::{Dataflow, Options, StartError, serve};
