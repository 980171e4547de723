//! nlog: source text to typed program, with diagnostics.
#![forbid(unsafe_code)]

mod check;
pub mod diagnostic;
pub mod program;
pub mod source;
pub mod syntax;

pub use check::{Compilation, compile};
pub use diagnostic::{Diagnostic, Severity};
pub use program::Program;
pub use source::{LoadError, Sources};
