//! Tests that need Open vSwitch and network namespaces, as all of this crate do. Each test makes a lab of its own.

mod common;
mod lifetime;
mod outside;
mod traffic;
