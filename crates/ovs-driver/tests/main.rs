//! The driver against a fake switch and against real Open vSwitch.

mod fake;
mod real;
mod real_groups;
mod support;
