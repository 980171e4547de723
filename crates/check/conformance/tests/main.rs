//! The rules against the specification and real Open vSwitch.

/// That of the daemon: a tenth less processor time than with that of the C library.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod acls;
mod drops;
mod filtering;
mod flood;
mod frames;
mod generate;
mod growth;
mod hosts;
mod isolation;
mod layers;
mod learning;
mod open_vswitch;
mod physical;
mod pipeline;
mod planted;
mod problems;
mod random;
mod trees;
