//! What fuzz targets do with their bytes: one function for each target, which panics if something is wrong with what we make of them.
//!
//! `fuzz/` gives each function bytes that libFuzzer invents, guided by coverage; the tests of this crate give it the seeds, without
//! libFuzzer. `docs/internals/fuzzing.md` says which input each is about.

mod data;
mod documents;
mod program;
mod switch;
mod wire;

#[cfg(feature = "controller")]
mod files;
#[cfg(feature = "controller")]
mod http;

pub use data::{literal, saved_state, transaction};
pub use documents::{merge, objects};
pub use program::{check, edit, format, parse};
pub use switch::{openflow, ovsdb, switch_state};
pub use wire::{answer, capture, certificate, endpoint, frame, message};

#[cfg(feature = "controller")]
pub use http::http;

#[cfg(feature = "controller")]
pub use files::{configuration, journal, restore, snapshot, tokens};

/// Runs a decoder on so many bytes, and fails if it takes more than 64 bytes of memory for each, and what any input takes. Programs
/// are not held to it: see `crates/lang/nlog/tests/memory.rs`.
fn decode<R>(name: &str, bytes: usize, decoder: impl FnOnce() -> R) -> R {
    /// The faults and buffers of any input.
    const ANY_INPUT: usize = 1 << 20;
    decoder_memory::checked(name, bytes, ANY_INPUT, decoder)
}
