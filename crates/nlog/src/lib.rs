//! nlog: source text to typed program, with diagnostics.
#![forbid(unsafe_code)]

pub mod diagnostic;
pub mod program;
pub mod source;
pub mod syntax;

pub use program::Program;
