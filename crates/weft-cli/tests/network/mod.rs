//! The logical network with real stacks on real Open vSwitch: what objects promise, measured in frames that come out of
//! machines.
//!
//! Each test has a lab of its own. Where the machine cannot make one the tests say so loudly and do nothing; with
//! `WEFT_REQUIRE_OVS` set they fail.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod examples;
mod first_hit;
mod learning;
mod migration;
mod stacks;
mod support;
