//! The pipeline that rules describe: every stage, its priorities, and under each the shapes of its flows.
//!
//! The rules alone say it: their expressions are evaluated with symbols for what only rows of input tables determine,
//! through all tables that matches and actions come from. Constants fold, symbols stay, and where several rules fill a
//! table, each gives an alternative.
//!
//! ```
//! use nlog::{Sources, compile};
//!
//! let text = r#"
//!     input table port(port: string, label: int) key(port);
//!     output table of_flow(hv: string, table_id: int, priority: int, match: match, actions: actions)
//!         key(hv, table_id, priority, match);
//!     of_flow("hv1", 4, 50, match{reg0: label}, actions[set(reg1, label), resubmit(5)]) :- port(_, label);
//! "#;
//! let program = compile(&Sources::from_texts([("ports.nlog", text)])).program.ok_or("mistakes")?;
//! let pipeline = pipeline::Pipeline::new(&program);
//! let entry = &pipeline.stages[0].priorities[0].entries[0];
//! assert_eq!(entry.matching, "reg0=<label of port>");
//! assert_eq!(entry.outcomes[0].actions, "set(reg1, <label of port>), resubmit(5)");
//! # Ok::<(), &str>(())
//! ```
//!
//! In reading order: [`Pipeline`] (the result), `flows` (what rules derive flows), `unfold` (the rows that tables can
//! have), `join` (fewer rows that say the same), `evaluate` (expressions), `probe` (literals), `scope`, `row` and `term` (what is known of
//! values), `shape` and `names`
//! (how matches and actions read), [`Pipeline::markdown`] (the page).
//!
//! Out of scope: rows of a network (`weft get logical-flows`), I/O.
#![forbid(unsafe_code)]

mod evaluate;
mod flows;
mod join;
mod model;
mod names;
mod page;
mod probe;
mod row;
mod scope;
mod shape;
mod term;
mod text;
mod unfold;

pub use flows::{forms, one_line};
pub use model::{Entry, Form, Group, NamedBits, Outcome, Pipeline, Placed, Priority, Stage};
pub use names::{Meaning, Names, Reading};
