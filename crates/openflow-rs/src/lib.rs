//! OpenFlow 1.5 and Nicira-extension messages: bytes, types and ovs-ofctl text. No I/O.
#![forbid(unsafe_code)]

pub mod action;
mod error;
pub mod field;
pub mod flow;
mod flow_match;
mod frame;
mod mac;
pub mod message;
mod oxm;
mod port;
mod wire;

pub use action::{Action, Actions, Subfield};
pub use error::{DecodeError, EncodeError, Fault, MatchError, ParseError};
pub use field::{Field, Prerequisite};
pub use flow::{FlowCommand, FlowEntry, FlowFlags, FlowMod, FlowStats};
pub use flow_match::{Demand, Match};
pub use frame::{Frame, HEADER_LEN, frame};
pub use mac::MacAddr;
pub use message::{Body, Message};
pub use port::PortNo;
