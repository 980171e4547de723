//! Virtual hosts on one machine: each is a network namespace with its own `ovsdb-server` and
//! `ovs-vswitchd`, joined by an underlay, carrying virtual machines that are namespaces too.
//!
//! What it promises: packets that cross the lab cross real Open vSwitch, over real tunnels; and whatever
//! happens to the process that made it (return, panic, `kill -9`), everything it made can be taken away
//! again, by [`Drop`], by the next [`Lab::create`] of that name, or by [`sweep`].
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
//! Reading order: [`preflight`] (what the machine must offer), [`Lab`] (the whole), [`Vswitch`] and [`Host`] (one
//! transport node: daemons and `ovs-*` tools), [`VmSpec`] and [`Migration`] (what plugs in, behind a tag or on a physical
//! network too), [`ping`], [`Transfer`], [`Datagrams`] and [`Reach`] (traffic as a measure), [`Taps`] and [`frame`] (frames
//! as bytes, counted where they come out), [`openflow`] (what a switch was told), [`state`] (what is on disk), cleanup.
//!
//! Why it runs `ip`, `ethtool` and the `ovs-*` tools instead of speaking netlink and OVSDB itself: the lab
//! must not share code with what it tests, and a failed step is a command that one can run again by hand. Only sockets in
//! machines' namespaces are this process's own, opened by a thread that enters the namespace ([`Lab::inside`]).
//!
//! Left out on purpose: the kernel datapath (needs a module, and one switch per machine), IPv6 underlays,
//! more than one uplink per host. The time to make a host is dominated by the two daemons (0.1 to 0.2 s).
#![forbid(unsafe_code)]

mod check;
mod cleanup;
mod command;
mod error;
pub mod frame;
mod guest;
mod host;
mod inside;
mod labs;
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

pub use cleanup::sweep;
pub use command::Output;
pub use error::Error;
pub use host::{Host, HostSpec};
pub use labs::{Lab, Options};
pub use openflow::{OpenflowCount, OpenflowMark};
pub use ping::{PingOptions, PingResult, Reachability, RunningPing};
pub use preflight::{Missing, preflight};
pub use reach::Reach;
pub use registry::{Ownership, Summary, list};
pub use state::Link;
pub use taps::{Arrived, Taps};
pub use transfer::{Datagrams, Transfer};
pub use vm::{Migration, Neighbour, Order, VmSpec};
pub use vswitch::{Stop, Vswitch};
