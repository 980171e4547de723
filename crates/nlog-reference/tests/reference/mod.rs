//! The reference evaluator compared with results worked out by hand and with a separate oracle.

mod build;
mod defaults;
mod fields;
mod questions;
mod random;
mod semantics;
mod source;
mod work;
