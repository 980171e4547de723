//! Virtual hosts with real Open vSwitch.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod open_vswitch;
