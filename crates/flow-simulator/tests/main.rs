//! Random tables and frames, in real Open vSwitch and in the simulator.

mod open_vswitch;
