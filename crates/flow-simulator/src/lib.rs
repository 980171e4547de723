//! What flow tables do to a packet: an interpreter of Open vSwitch's `OpenFlow` pipeline.
//!
//! The promise: for the matches and actions that a [`Bridge`] takes, a packet leaves by the same ports with the same
//! bytes as from real Open vSwitch 3.1, and its fields end up the same. The tests compare random tables and packets
//! with a running switch, both with what `ofproto/trace` says and with the frames that its ports send.
//!
//! ```
//! use flow_simulator::{Bridge, Packet};
//! use openflow_rs::PortNo;
//!
//! let mut bridge = Bridge::new([PortNo(1), PortNo(2)]);
//! for flow in [
//!     "table=0,in_port=1 actions=set_field:7->metadata,resubmit(,4)",
//!     "table=4,metadata=7,dl_dst=02:00:00:00:00:02 actions=set_field:2->reg12,output:reg12",
//! ] {
//!     bridge.add_flow(flow.parse()?)?;
//! }
//! let frame = [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xcc][..], b"who is there"].concat();
//! let outcome = bridge.trace(&Packet::new(frame.clone(), PortNo(1)));
//! assert_eq!(outcome.emitted.len(), 1);
//! assert_eq!((outcome.emitted[0].port, &outcome.emitted[0].bytes), (PortNo(2), &frame));
//! assert_eq!(
//!     outcome.steps[0].to_string(),
//!     " 0. in_port=1, priority 32768
//!     set_field:0x7->metadata
//!     resubmit(,4)
//!          4. metadata=0x7,dl_dst=02:00:00:00:00:02, priority 32768
//!             set_field:0x2->reg12
//!             output:NXM_NX_REG12[]
//!                 -> sent by port 2
//! "
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! In reading order:
//! - [`FlowKey`]: the fields of a packet; [`Packet`]: bytes and the fields read from them. Reading and writing back is
//!   our own, because it must be wrong where the switch is: what is cut short, padding, checksums that were bad before.
//! - [`Bridge`]: tables, [`Group`]s and ports; what it does not interpret it refuses, with [`Refused`].
//! - [`Bridge::process`] and [`Bridge::trace`]: a packet's way, its [`Outcome`], and the [`trace::Step`]s of it.
//! - [`Bridge::receive`]: the same, and what the packet teaches ([`Bridge::learned`]). No clock is read: time passes by
//!   [`Bridge::advance`].
//! - [`Change`]: flows and buckets that come and go, in any order, as deltas of rules have them.
//! - [`Fabric`]: [`Host`]s with tunnels and physical networks between them, and a packet's way through all of it.
//!
//! Left out on purpose: timeouts of flows that were not learned, meters, counters, and the `NORMAL` action. Queues are
//! accepted and mean nothing here. A flow whose actions lack their prerequisites is taken, where a switch refuses it. A
//! packet's second VLAN tag is not seen, as with the default of Open vSwitch (`vlan-limit=1`).
//!
//! Left out so far, and refused: `ct` and `nat`, `conjunction`, `check_pkt_larger`, action sets of flows
//! (`write_actions`, `clear_actions`), groups of type `select` and `ff`, and of `learn` what ends with TCP connections,
//! limits and results. Not seen: MPLS, NSH and all options of Geneve but the one of 4 bytes that is `tun_metadata0`.
//! Tunnels are over IPv4, with `options:key=flow`, without an underlay that could lose or fragment; the bridge that carries
//! them, and the one behind a patch port, is taken to have one flow, which sends by one port.
#![forbid(unsafe_code)]

mod bridge;
mod change;
mod check;
mod error;
mod extract;
mod fabric;
mod group;
mod key;
mod learned;
mod limits;
mod packet;
mod pipeline;
mod port;
mod rewrite;
mod table;
pub mod trace;
mod walk;

pub use bridge::Bridge;
pub use change::Change;
pub use error::{Refused, Stopped};
pub use fabric::{Arrival, Crossing, Fabric, Host, Lost, Tapped};
pub use group::{Bucket, Group};
pub use key::FlowKey;
pub use packet::Packet;
pub use pipeline::{Emitted, Outcome};
pub use port::{Encapsulation, Tunnel};
