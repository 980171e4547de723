//! A switch and its database for tests of those who drive switches. Both speak the real protocols over unix sockets or a network in
//! memory, and misbehave on demand.
//!
//! [`openflow`] has the switch, [`database`] its OVSDB server. Neither knows a driver: the switch is made of `openflow-rs`, the
//! database of the values and rows of `ovsdb-client`.
#![forbid(unsafe_code)]

pub mod database;
mod listener;
pub mod openflow;

pub use database::FakeDatabase;
pub use openflow::FakeSwitch;
pub use peer_connection::Stream;
