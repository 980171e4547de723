//! Simulates flow tables on packets: an interpreter of Open vSwitch's `OpenFlow` pipeline.
//!
//! The guarantee: for the matches and actions that a [`Bridge`] accepts, a packet leaves by the same ports, with the same
//! bytes and the same final fields, as from real Open vSwitch 3.1. The tests compare random tables and packets with a
//! running switch: with the output of `ofproto/trace`, and with the frames that its ports send.
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
//! - [`FlowKey`]: the fields of a packet; [`Packet`]: bytes and the fields read from them. Parsing and writing back are our
//!   own code, because they must have the same faults as the switch: for truncated packets, padding and checksums that were
//!   already wrong.
//! - [`Bridge`]: tables, groups and ports; it refuses unsupported actions with [`Refused`].
//! - [`Bridge::process`] and [`Bridge::trace`]: the [`Outcome`] of a packet, and the [`trace::Step`]s that lead to it.
//! - [`Bridge::receive`]: the same, with learning ([`Bridge::learned`]). No clock is read: [`Bridge::advance`] advances
//!   time.
//! - [`Bridge::connections`]: what `ct` has committed. A packet goes on with the state of its connection only in the table of
//!   `ct`, below in a trace; the rest of its list of actions goes on without.
//! - [`Meter`]: drops packets when a test says so.
//! - [`Change`]: flows and buckets to add and remove, in any order, as in deltas of rules.
//! - [`Fabric`]: [`Host`]s with tunnels and physical networks between them, and the path of a packet through them.
//!
//! What surprises, and is so in the switch: a port that is not live still sends, and only groups ask for liveness; a group
//! without a live bucket drops its copy alone. What `check_pkt_larger` finds out lasts until the end of its list of
//! actions, counts VLAN tags but not the padding behind an IP packet, and flows for both lengths learn. A packet whose
//! time to live is up leaves its list of actions, not those around it. Select groups hash as Open vSwitch does in
//! distributions; one that is built for processors with SSE 4.2 spreads flows over the same buckets in another way.
//!
//! Left out on purpose: timeouts of flows that were not learned, counters, and the `NORMAL` action. Queues are
//! accepted and have no effect. Meters have no rate: a test says what they let through ([`Bridge::set_budget`]). A flow whose actions lack their prerequisites is accepted, although a switch refuses it.
//!
//! Connection tracking is that of the userspace datapath: sequence numbers are checked, timeouts are the default ones, and no
//! zone has a limit. Addresses are translated as there, except that the switch chooses from a range by a hash that nobody can
//! predict, and the simulator takes the first address and the first free port. Fragments that wait are lost when time passes. Known to differ: behind a comparison of lengths, a list
//! with an `exit` after `ct` tracks nothing in the switch; and at a second zone, the switch sometimes keeps fragments that come
//! twice or by different flows.
//!
//! Left out so far, and refused: `alg` and `resubmit(ct)`, action sets of flows (`write_actions`,
//! `clear_actions`), select groups without hashed fields, and `learn` with TCP timeouts or results. Not parsed: MPLS,
//! NSH and all Geneve options except the one of 4 bytes that is `tun_metadata0`. Tunnels are over IPv4, with
//! `options:key=flow`, over an underlay that neither loses nor fragments packets; the bridge of the underlay, and the
//! bridge behind a patch port, are assumed to have one flow that outputs to one port.
#![forbid(unsafe_code)]

mod bridge;
mod change;
mod check;
mod choice;
mod conntrack;
mod error;
mod extract;
mod fabric;
mod group;
mod hash;
mod key;
mod learned;
mod limits;
mod lost;
mod meter;
mod packet;
mod pipeline;
mod port;
mod rewrite;
mod table;
pub mod trace;
mod walk;

pub use bridge::Bridge;
pub use change::Change;
pub use conntrack::Connection;
pub use error::{Refused, Stopped};
pub use extract::VlanLimit;
pub use fabric::{Arrival, Crossing, Fabric, Host, Tapped, Tunnelled};
pub use key::FlowKey;
pub use lost::Lost;
pub use meter::Meter;
pub use packet::Packet;
pub use pipeline::{Emitted, Outcome};
pub use port::{Encapsulation, Tunnel};
