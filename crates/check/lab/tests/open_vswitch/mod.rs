//! Tests that need Open vSwitch and network namespaces, like all tests of this crate. Each test makes its own lab.

mod common;
mod lifetime;
mod outside;
mod traffic;
