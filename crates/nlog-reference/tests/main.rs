//! The reference evaluator.

mod explanation;
mod function_examples;
mod reference;
