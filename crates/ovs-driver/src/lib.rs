//! The driver of one Open vSwitch: it connects over OVSDB and OpenFlow, brings the integration bridge up, reads what
//! is there, sends the difference to what is wanted, and says when that is in force.
//!
//! Promise: whatever happens to the switch, the connections or the controller, the switch ends up with the desired
//! flows, groups, tunnel and patch ports; what is right is never touched, so a controller that comes back to a switch
//! that is right sends it no flow-mod at all; and every transaction ends with its confirmation or with the switch's refusal, those
//! that came while the switch was away together. A switch that is away costs no more memory than its network.
//!
//! ```
//! use std::collections::BTreeSet;
//! use std::sync::Arc;
//! use openflow_rs::FlowEntry;
//! use ovs_driver::{Config, Desired, Event, Flow, FlowKey, fake::FakeSwitch};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let socket = folder.path().join("br-int.mgmt");
//! let _switch = FakeSwitch::start(&socket)?;
//! let config = Config {
//!     name: "hv1".to_owned(),
//!     ovsdb: "unix:/run/openvswitch/db.sock".parse()?,
//!     openflow: format!("unix:{}", socket.display()).parse()?,
//!     bridge: "br-int".to_owned(),
//!     datapath_type: None,
//!     learned_tables: BTreeSet::new(),
//! };
//! let flow: FlowEntry = "cookie=0x5, table=3, ip,nw_dst=10.0.0.1 actions=output:1".parse()?;
//! let mut desired = Desired::default();
//! desired.flows.insert(
//!     FlowKey::new(flow.table, flow.priority, &flow.matches)?,
//!     Flow::new(flow.cookie, &flow.actions)?,
//! );
//!
//! let (sender, mut events) = tokio::sync::mpsc::channel(64);
//! let handle = ovs_driver::spawn(config, sender);
//! handle.set_desired(Arc::new(desired));
//! while let Some((_name, event)) = events.recv().await {
//!     if let Event::Synced { flow_mods, .. } = event {
//!         assert_eq!(flow_mods, 1);
//!         break;
//!     }
//! }
//! # Ok(()) }
//! # tokio::runtime::Runtime::new().unwrap().block_on(example()).unwrap();
//! ```
//!
//! In reading order: [`Config`] and [`Timing`]; [`FlowKey`] and [`Flow`] (flows as bytes), [`Desired`] and
//! [`Changes`], [`Event`]; then what keeps the promise: `ledger` (what separates the switch from what is desired),
//! `forwarding` (flows and groups together) and `group` (the parts that large groups are kept in), `intent` and `outbox` (how the owner and the driver meet without waiting for each other), `driver` (the one
//! procedure that compares and corrects); `view` and `database` (OVSDB), `openflow` with `codec`, `connection`, `session`,
//! `steps` (the order of messages), `groups` and `wire`; and [`fake`], the test double.
//!
//! What the switch refuses does not hold up the rest: a bundle is discarded if any of its flows is bad, then sent
//! again without those, and if that does not help either, flow by flow; [`Event::Refused`] names what was bad, and
//! it is not sent again before it changes or the switch is connected anew. [`Event::Standing`] says how much of it
//! there is, until it is mended.
//!
//! Before it reads a switch the driver makes its geneve option a field (class 0x102, type 0x80, 4 bytes: `tun_metadata0`).
//! Flows that `learn` actions make are the switch's own where [`Config::learned_tables`] says so.
//!
//! Left out on purpose: rules and networks (this crate knows OpenFlow and OVSDB, nothing else), groups that choose one
//! of their buckets, meters and BFD, and changes that others make to flows and groups while the connection lasts: they
//! are found at the next one. TLS is not there yet, in `ovsdb-client` neither.
#![forbid(unsafe_code)]

mod config;
mod database;
mod desired;
mod driver;
mod event;
pub mod fake;
mod flow;
mod forwarding;
mod group;
mod intent;
mod ledger;
mod openflow;
mod outbox;
mod view;

pub use config::{Config, Timing};
pub use desired::{Changes, Desired, Encap, Patch, Remote, Tunnel, TunnelError};
pub use driver::{Handle, spawn, spawn_with};
pub use event::{Channel, Event, Problem, Rejection, Report, Vif};
pub use flow::{ENCODED_BYTES_MAX, Flow, FlowError, FlowKey};
pub use group::{BUCKET_MAX, Bucket, GROUP_MAX};
pub use openflow::{PushError, Pushed, push_bundle};
pub use peer_connection::{Dial, Endpoint, InMemoryNetwork, Sockets};
