//! nlog: source text to typed program, with diagnostics.
#![forbid(unsafe_code)]

pub mod program;

pub use program::Program;
