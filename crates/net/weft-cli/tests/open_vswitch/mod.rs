//! Tests that need Open vSwitch and network namespaces. Each test has its own lab.

mod end_to_end;
mod faults;
mod network;
mod replayed;
mod trace;
mod upgrade;
mod zones_and_counters;
