//! The engines against the reference evaluator.

/// That of the daemon: a tenth less processor time than with that of the C library.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod counts;
mod engine;
mod figure6;
mod forbid;
mod large;
mod life;
mod live;
mod operator;
mod order;
mod parts;
mod random;
mod replaced;
mod rules;
mod saved;
mod soak;
mod support;
mod uniques;
mod watched;
mod work;
