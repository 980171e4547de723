//! The reference evaluator.

mod function_examples;
mod reference;
