//! The client against real Open vSwitch and against faulty peers.

mod common;
mod comparison;
mod mutated;
mod open_vswitch;
mod peers;
