//! Virtual hosts on one machine: each is a network namespace with its own `ovsdb-server` and
//! `ovs-vswitchd`, joined by an underlay, carrying virtual machines that are namespaces too.
//!
//! Packets that cross the lab cross real Open vSwitch, over real tunnels. However the process that made a lab ends (return,
//! panic, `kill -9`), everything it made can be removed: by [`Drop`], by the next [`Lab::create`] of that name, or by
//! [`sweep`].
//!
//! ```no_run
//! use lab::{HostSpec, Lab, Options, PingOptions, VmSpec};
//!
//! # fn main() -> Result<(), lab::Error> {
//! let lab = Lab::create(
//!     Options::new("demo")
//!         .host(HostSpec::new("hv1", [172, 31, 0, 1]))
//!         .host(HostSpec::new("hv2", [172, 31, 0, 2]))
//!         .with_integration_bridge(),
//! )?;
//! lab.add_vm(&VmSpec::new("web", "hv1", "port-web", "02:00:00:00:00:01").address("10.0.0.1/24"))?;
//! lab.add_vm(&VmSpec::new("db", "hv2", "port-db", "02:00:00:00:00:02").address("10.0.0.2/24"))?;
//! // ... a controller, or `ofctl`, writes flows ...
//! assert_eq!(lab.ping("web", [10, 0, 0, 2].into(), &PingOptions::default())?.lost(), 0);
//! # Ok(()) }
//! ```
//!
//! Reading order: [`preflight`] (requirements), [`Lab`] (the whole), [`Vswitch`] and [`Host`] (one transport node: daemons
//! and `ovs-*` tools), [`ManagementLink`] (TCP to its daemons), [`VmSpec`] and [`Migration`] (virtual machines, also behind VLAN tags and on physical networks),
//! [`ping`], [`Transfer`], [`Datagrams`] and [`Reach`] (measurements by traffic), [`Taps`] and [`frame`] (frames as bytes,
//! counted where they arrive), [`Lab::drain`] (when no frame is in flight any more), [`openflow`] (messages that a switch
//! received), [`state`] (the state on disk), cleanup.
//!
//! The lab runs `ip`, `ethtool` and the `ovs-*` tools instead of speaking netlink and OVSDB, because it must not share code
//! with the code under test, and because a failed step is then a command that can be repeated by hand. Only the sockets in
//! virtual machines belong to this process; a thread that enters the namespace opens them ([`Lab::inside`]).
//!
//! Left out on purpose: the kernel datapath (it needs a module and allows one switch per machine), IPv6 underlays, and more
//! than one uplink per host. A host takes 0.1 to 0.2 s to make, most of it for the two daemons.
#![forbid(unsafe_code)]

mod check;
mod cleanup;
mod command;
mod drain;
mod error;
pub mod frame;
mod guest;
mod host;
mod inside;
mod labs;
mod management;
pub mod openflow;
mod physical;
pub mod ping;
mod preflight;
mod process;
mod reach;
mod registry;
pub mod state;
mod taps;
mod transfer;
mod vm;
mod vswitch;

pub use cleanup::{CONTROLLER, sweep};
pub use command::Output;
pub use error::Error;
pub use host::{Host, HostSpec};
pub use labs::{Lab, Options};
pub use management::ManagementLink;
pub use openflow::{OpenflowCount, OpenflowMark};
pub use physical::fitting_network;
pub use ping::{PingOptions, PingResult, Reachability, RunningPing};
pub use preflight::{Missing, preflight};
pub use reach::Reach;
pub use registry::{Ownership, Summary, fitting_name, list};
pub use state::Link;
pub use taps::{Arrived, Taps, bind_to_eth0};
pub use transfer::{Datagrams, Transfer};
pub use vm::{Migration, Neighbour, Order, VmSpec};
pub use vswitch::{Stop, Vswitch};
