//! OpenFlow 1.5 and Nicira-extension messages: bytes, types and ovs-ofctl text. No I/O.
#![forbid(unsafe_code)]

pub mod action;
mod error;
pub mod field;
mod flow_match;
mod mac;
mod oxm;
mod port;
mod wire;

pub use action::{Action, Actions, Subfield};
pub use error::{DecodeError, Fault, MatchError, ParseError};
pub use field::{Field, Prerequisite};
pub use flow_match::{Demand, Match};
pub use mac::MacAddr;
pub use port::PortNo;
