//! The unit tests of the repository's rules.

/// That of the daemon: a tenth less processor time than with that of the C library.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod objects;
mod packets;
mod rules;
