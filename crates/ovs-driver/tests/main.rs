//! The driver against a fake switch and against real Open vSwitch.

mod fake;
mod open_vswitch;
mod support;
