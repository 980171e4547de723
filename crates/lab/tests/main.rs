//! Virtual hosts with real Open vSwitch.

mod open_vswitch;
