//! OpenFlow 1.5 and the Nicira extensions that Open vSwitch adds: bytes, types and `ovs-ofctl` text.
//!
//! The promise: a message that real `ovs-ofctl` prints as text prints here as the same text, and text
//! that `ovs-ofctl` takes for a flow reads here as the same flow, in one canonical form, so that what
//! was sent to a switch and what its dump brings back compare as equal values. Checked against the
//! installed Open vSwitch 3.1 by the tests, with random flows and a live switch.
//!
//! ```
//! use openflow_rs::{Body, FlowEntry, FlowMod, Message};
//!
//! let flow: FlowEntry = "table=3,priority=50,metadata=7,dl_dst=02:00:00:00:00:01 \
//!                        actions=load:5->NXM_NX_REG5[],resubmit(,4)".parse()?;
//! let message = Message { xid: 9, body: Body::FlowMod(FlowMod::add(flow)) };
//! let bytes = message.encode()?;
//! assert_eq!(Message::decode(&bytes)?, message);
//! assert_eq!(
//!     message.to_string(),
//!     "OFPT_FLOW_MOD (OF1.5) (xid=0x9): ADD table:3 priority=50,metadata=0x7,dl_dst=02:00:00:00:00:01 \
//!      actions=set_field:0x5->reg5,resubmit(,4)"
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! In reading order:
//! - [`field`]: the one table of packet fields, and how their values are written.
//! - [`Match`]: what a flow demands of packets, canonical and comparable.
//! - [`action`]: one file for each action and instruction; [`Actions`] is the list of a flow.
//! - [`Packed`]: matches and actions in few bytes.
//! - [`flow`]: entries, the changes to them, and what dumps and removals tell.
//! - [`group`]: groups, their buckets, and the changes to them.
//! - [`literal`]: matches and actions as a rule language writes them, checked against one table of actions and the
//!   table of fields, built once and filled with values many times.
//! - [`message`]: everything that goes over a connection; [`frame`] finds messages in a stream.
//!
//! No input makes decoding panic or allocate more than a small multiple of its size. A message of a
//! kind not known here comes back as bytes, a known one that is malformed as a [`DecodeError`] with
//! the place.
//!
//! Left out on purpose: connections, time and I/O (the caller owns the socket); OpenFlow before 1.5,
//! but for reading hello and errors; interpreting flows. Left out so far: meters, how select groups choose (kept as bytes), packet-in
//! and packet-out (kept as bytes); actions that Open vSwitch has besides those of [`action`], such as
//! `bundle`, `sample` and `multipath` (kept as [`action::UnknownAction`]); the fields of NSH, ERSPAN and
//! GTP-U; Geneve options but for one of 4 bytes, [`Field::TunMetadata0`], which a switch takes only after
//! its map was set (`add-tlv-map`).
#![forbid(unsafe_code)]

pub mod action;
mod error;
pub mod field;
pub mod flow;
mod flow_match;
mod frame;
pub mod group;
pub mod literal;
mod mac;
pub mod message;
mod nearest;
mod oxm;
mod packed;
mod port;
mod wire;

pub use action::{Action, Actions, Subfield};
pub use error::{DecodeError, EncodeError, Fault, MatchError, ParseError};
pub use field::{Field, Prerequisite};
pub use flow::{FlowCommand, FlowEntry, FlowFlags, FlowMod, FlowStats};
pub use flow_match::{Demand, Match};
pub use frame::{Frame, HEADER_LEN, frame};
pub use group::{Bucket, GroupCommand, GroupEntry, GroupKind, GroupMod};
pub use mac::MacAddr;
pub use message::{Body, Message};
pub use nearest::nearest;
pub use packed::{Pack, Packed};
pub use port::PortNo;
