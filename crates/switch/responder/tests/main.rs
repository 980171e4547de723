//! The responder beside real switches.
#![allow(clippy::unwrap_used, reason = "a test ends at what it did not expect")]

mod open_vswitch;
