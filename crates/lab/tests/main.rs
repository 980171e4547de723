//! Virtual hosts with real Open vSwitch. Each test makes a lab of its own.

mod common;
mod lifetime;
mod outside;
mod traffic;
