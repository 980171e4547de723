//! One switch: connect, read what is there, push deltas, confirm.
#![forbid(unsafe_code)]

mod config;
mod database;
mod desired;
mod driver;
mod event;
pub mod fake;
mod flow;
mod intent;
mod ledger;
mod openflow;
mod outbox;
mod view;

pub use config::{Config, Timing};
pub use desired::{Changes, Desired, Encap, Remote, Tunnel, TunnelError};
pub use driver::{Handle, spawn, spawn_with};
pub use event::{Channel, Event, Problem, Report, Vif};
pub use flow::{ENCODED_BYTES_MAX, Flow, FlowError, FlowKey};
pub use openflow::{PushError, Pushed, push_bundle};
pub use ovsdb_client::Endpoint;
