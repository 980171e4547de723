//! What the fuzz targets do with their bytes: one function for each target, by the kind of input.
//!
//! ARCHITECTURE.md, "Tests", has the command that runs them.

pub mod data;
#[cfg(feature = "journal")]
pub mod journal;
pub mod objects;
pub mod program;
pub mod switch;
