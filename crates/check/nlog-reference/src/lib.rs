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
//! All tables are computed even after errors; the least [`DerivedError`](nlog_data::DerivedError) is reported. `nlog_explain` evaluates one rule
//! (bindings to rows); its documentation has the details.
//!
//! In reading order: [`Reference`] (transactions), [`Hooked`] (its hooks). Left out on purpose: optimisation.
#![forbid(unsafe_code)]

mod hooked;
mod reference;

pub use hooked::Hooked;
pub use reference::Reference;
