//! Tests that need Open vSwitch and network namespaces. Each test has a lab of its own.

mod end_to_end;
mod network;
