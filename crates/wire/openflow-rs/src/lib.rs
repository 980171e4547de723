//! OpenFlow 1.5 and the Nicira extensions that Open vSwitch adds: bytes, types and `ovs-ofctl` text.
//!
//! The guarantee: this crate prints a message as real `ovs-ofctl` prints it, and reads text that
//! `ovs-ofctl` accepts for a flow as the same flow. Flows have one canonical form, so that the flow
//! sent to a switch and the flow in its dump compare as equal values. The tests check this against the
//! installed Open vSwitch 3.1, with random flows and a live switch.
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
//! - [`field`]: the table of packet fields, and the notation of their values.
//! - [`Match`]: the match of a flow, canonical and comparable.
//! - [`action`]: one file for each action and instruction; [`Actions`] is the list of a flow.
//! - [`Packed`]: a compact form of matches and actions.
//! - [`flow`]: flow entries, changes to them, dumps and removal notifications.
//! - [`group`]: groups, their buckets, and changes to them.
//! - [`meter`]: limits of rate, and changes to them.
//! - [`literal`]: matches and actions as a rule language writes them, checked against the table of actions and the
//!   table of fields, built once and filled with values many times.
//! - [`message`]: the messages of a connection; [`frame()`] finds messages in a stream.
//!
//! No input makes decoding panic or allocate more than a small multiple of its size. A message of an
//! unknown type is returned as bytes, and a malformed message as a [`DecodeError`] with
//! the place of the fault.
//!
//! Out of scope: connections, time and I/O, which belong to the caller; OpenFlow before 1.5, except for reading hello
//! and error messages; interpreting flows.
//!
//! Not supported yet: OpenFlow's own packet-in (kept as bytes; Open vSwitch's is read); actions of
//! Open vSwitch that [`action`] does not list, such as `bundle`, `sample` and `multipath` (kept as
//! [`action::UnknownAction`]); the fields of NSH, ERSPAN and GTP-U; geneve options other than one of 4 bytes,
//! [`Field::TunMetadata0`], which a switch accepts only after the option has been mapped (`add-tlv-map`).
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
pub mod meter;
mod nearest;
mod oxm;
mod packed;
mod port;
mod property;
pub mod protocol;
mod wire;

pub use action::{Action, Actions, Subfield};
pub use error::{DecodeError, EncodeError, Fault, MatchError, ParseError};
pub use field::{Field, Prerequisite};
pub use flow::{FlowCommand, FlowEntry, FlowFlags, FlowMod, FlowStats};
pub use flow_match::{Demand, Match};
pub use frame::{Frame, HEADER_LEN, frame};
pub use group::{Bucket, GroupCommand, GroupEntry, GroupKind, GroupMod, Selection, SelectionMethod};
pub use mac::MacAddr;
pub use message::{Body, Message};
pub use meter::{MeterEntry, MeterMod, MeterStats};
pub use nearest::nearest;
pub use packed::{Pack, Packed};
pub use port::PortNo;
