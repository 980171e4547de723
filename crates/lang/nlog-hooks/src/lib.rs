//! Hooks: named computations that rules cannot express.
//!
//! nlog rules have no recursion and no memory. A *hook* is Rust code that computes the rows of an input table, its
//! target, from the rows of another table, its source; nothing else may change the target. A program says which hooks
//! fill its tables: `input table stable(port: string) from hysteresis(up, rise: 1000, fall: 500);`. The compiler knows the
//! hooks ([`HookKind`](nlog::hook::HookKind)) and checks their settings and tables. The target of a pure hook is up to date at the end of every transaction; the target of a timed hook follows
//! with ticks, which are external transactions. Hooks read no clock: the same transactions and ticks give the same
//! deltas.
//!
//! ```
//! use nlog::{Sources, compile};
//! use nlog_data::{Evaluator, json};
//! use nlog_dataflow::{Dataflow, Options};
//!
//! let text = "input table cable(a: string, b: string);
//!     output table link(a: string, b: string); link(a, b) :- cable(a, b);
//!     input table component(node: string, component: string) key(node) from connected_components(link);
//!     output table size(component: string, n: int); size(c, count(node)) :- component(node, c);";
//! let program = compile(&Sources::from_texts([("graph.nlog", text)])).program.ok_or("a faulty program")?;
//! let mut engine = Dataflow::new(program, Options::default())?;
//!
//! let line = br#"{"insert":{"cable":[["x","y"],["y","z"]]}}"#;
//! let transaction = json::parse_line(line, 1, engine.schema())?.transaction;
//! let mut out = Vec::new();
//! json::write_delta_line(&mut out, 1, &engine.commit(&transaction)?.delta, engine.schema());
//! assert_eq!(out,
//! b"{\"txn\":1,\"insert\":{\"link\":[[\"x\",\"y\"],[\"y\",\"z\"]],\"size\":[[\"x\",3]]},\"delete\":{}}\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! In reading order: [`Hook`] (the interface), [`ConnectedComponents`], [`Hysteresis`], [`Allocate`], [`Hold`], [`Pick`], [`registry`]
//! (the implementation of each hook), [`memory`] with [`Recorded`] (memories of recorded histories), [`refusal`] (what every evaluator refuses). `nlog_dataflow` runs hooks in the
//! middle of transactions.
//!
//! Left out on purpose: clocks. The caller of a program with timed hooks sends ticks and records them.
#![forbid(unsafe_code)]

pub mod allocate;
mod bounds;
pub mod connected_components;
pub mod hold;
pub mod hook;
pub mod hysteresis;
pub mod memory;
pub mod pick;
pub mod refusal;
pub mod registry;

pub use allocate::Allocate;
pub use connected_components::ConnectedComponents;
pub use hold::Hold;
pub use hook::Hook;
pub use hysteresis::Hysteresis;
pub use memory::Recorded;
pub use pick::Pick;
