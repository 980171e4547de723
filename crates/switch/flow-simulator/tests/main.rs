//! Random tables and frames, in real Open vSwitch and in the simulator; packet filters and traces, in the simulator.

mod connection_filter;
mod open_vswitch;
mod packet_filter;
mod trace;
mod translation;
