//! The reference evaluator compared with results worked out by hand and with a separate oracle.

mod build;
mod defaults;
mod fields;
mod random;
mod semantics;
mod source;
