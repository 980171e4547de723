//! Real Open vSwitch for tests: its tools, its daemons, and a switch whose ports are files.
//!
//! In reading order: [`OpenVswitch`], an `ovsdb-server` and an `ovs-vswitchd` in a temporary folder; [`DummySwitch`], a
//! bridge of dummy devices that takes frames and returns the frames that it sends, tunnels included; [`run`] and
//! [`ofctl`], the tools alone.
//!
//! Every function panics when Open vSwitch is missing or refuses something: the error names the command and its output.
//! When a test fails, the end of each daemon's log is printed.
//!
//! Of the project's crates it depends only on `frame-builder`, so every crate can use it in its tests. Hosts with network
//! namespaces are crate `lab`.
#![forbid(unsafe_code)]

mod daemons;
mod dummy_switch;
mod tools;

pub use daemons::OpenVswitch;
pub use dummy_switch::{DummySwitch, hex};
pub use tools::{ofctl, run, vsctl, wait_until};
