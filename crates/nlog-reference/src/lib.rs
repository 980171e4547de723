//! The naive evaluator of nlog programs: the oracle of every test.
//!
//! Every transaction recomputes every table from the inputs, in the program's order, by nested loops over the atoms of
//! each rule, and compares with what was there before. Nothing is incremental and nothing is shared between rules, so
//! that it can be read against the semantics written at [`nlog::program::Rule`].
//!
//! What that text leaves to be said about a binding of a rule:
//!
//! - An expression gives a value, or nothing (a function without a result), or is undetermined. A call gives nothing if
//!   an argument gives nothing; otherwise it is undetermined if an argument is, or if the function fails.
//!   `if c then a else b` is what `c` is unless that is a value, else what the branch taken is.
//! - A `Let`, a `Filter`, a head column or an aggregate's argument that gives nothing rejects the binding, as does a
//!   condition that is false, or a `Generate` without results. What is undetermined rejects nothing.
//! - A binding that nothing rejects and in which nothing failed derives its head. One in which something failed derives
//!   nothing, and its least failure is an error of the head's table.
//! - A group whose sum overflows derives nothing; that is a failure as well. The sum is that of all tuples at once: parts
//!   of it may leave 64 bits.
//!
//! All tables are computed even after errors; the least [`DerivedError`](nlog_data::DerivedError) is reported.
//!
//! In reading order: [`Reference`] (transactions), `rule` (bindings to rows), `join` (bodies to bindings), `expression`,
//! `aggregate`. Left out on purpose: any speed beyond an index on the columns that earlier atoms bind.
#![forbid(unsafe_code)]

mod aggregate;
mod expression;
mod join;
mod reference;
mod rule;

pub use reference::{Derivation, Reference};
