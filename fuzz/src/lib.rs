//! What the fuzz targets do with their bytes: one function for each target, by the kind of input.
//!
//! docs/internals/testing.md has the command that runs them.

/// Runs a decoder on so many bytes, and fails if it takes more than 64 bytes of memory for each, and what any input takes. Programs
/// are not held to it: see `crates/lang/nlog/tests/memory.rs`.
pub(crate) fn decode<R>(name: &str, bytes: usize, decoder: impl FnOnce() -> R) -> R {
    /// The faults and buffers of any input.
    const ANY_INPUT: usize = 1 << 20;
    decoder_memory::checked(name, bytes, ANY_INPUT, decoder)
}

pub mod data;
#[cfg(feature = "journal")]
pub mod journal;
pub mod objects;
pub mod program;
pub mod switch;
