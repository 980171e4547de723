//! The driver against real Open vSwitch.

mod flows_and_tunnels;
mod groups;
mod switch;
