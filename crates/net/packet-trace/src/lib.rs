//! The way of one packet through a network, as its rules derive it, and why it ends where it ends.
//!
//! The caller gives a program and the rows of its input tables; where these come from (files, a journal, a running
//! controller) is its own affair. Rows are derived when they are asked for: the flow tables of the hosts on the packet's way, and
//! what explains them. Simulated hosts carry the packet through the flow tables. No I/O.
//!
//! In reading order: [`Origins`] (rows of inputs) and [`input_engine`], [`Network`] (rules, rows and simulated hosts) with [`HostTables`] (flow tables that are there already),
//! [`Words`] (a packet in words), [`mod@frame`] (fields as bytes) and [`Sent`] (the frame that they mean), [`Trace`] (the way: hosts, look-ups, ends), [`Drop`] (why
//! the packet or a copy ends), [`Response`] (what the responder of a host answers), `findings` (which objects and reports are behind that), [`text`] and [`json`] (how it reads), [`OwnTrace`] (what of it the owner of some objects may read),
//! [`compare`] with [`Change`] (a packet before and after a change of objects), [`live`] (the flows on the way compared with those of switches), [`Question`] (rows to explain, also as flows of a switch).
#![forbid(unsafe_code)]

mod cause;
mod change;
mod compare;
mod connection;
mod findings;
mod flow_origin;
pub mod frame;
mod inputs;
pub mod json;
pub mod live;
mod meaning;
mod network;
mod object;
mod own_trace;
mod packet;
mod question;
mod ready;
mod response;
pub mod text;
mod way;

pub use cause::{Cause, Drop, Leaf, Nearest};
pub use change::{Change, ChangeError};
pub use compare::{Difference, Parting, Side, compare};
pub use connection::{Connection, TraceError};
pub use flow_origin::FlowOrigin;
pub use inputs::{Origins, UNKNOWN, follow, hook_engine, input_engine, input_rows};
pub use network::Network;
pub use object::{AskedObject, ObjectAnswer, ObjectExplainer, derived_flows};
pub use openflow_rs::MacAddr;
pub use own_trace::{OwnTrace, Owner, port_kinds};
pub use packet::{Payload, Sent, Words};
pub use question::{AskedFlow, FlowName, Question};
pub use ready::{FlowRules, HostTables};
pub use response::{Responded, Response};
pub use way::{Delivery, FlowView, Hop, Line, LookupView, Trace};
