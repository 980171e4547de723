//! The driver of one Open vSwitch. It connects over OVSDB and OpenFlow, creates the integration bridge, reads its state,
//! sends the difference to the desired state, and reports when that is in force.
//!
//! Guarantees: whatever happens to the switch, the connections or the controller, the switch ends up with the desired
//! flows, groups, meters, tunnel ports and patch ports. Correct state is never touched, so a controller that restarts sends no
//! flow-mod to a switch that is in sync. Every transaction ends with its confirmation or with the switch's refusal;
//! transactions pushed while the switch was unreachable end together. An unreachable switch takes no more memory than
//! its desired state.
//!
//! ```
//! use std::collections::BTreeSet;
//! use std::sync::Arc;
//! use fake_switch::FakeSwitch;
//! use openflow_rs::FlowEntry;
//! use ovs_driver::{Config, Desired, Event, Flow, FlowKey};
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
//!     datapath_id: Some(0xfa4e), // used until the database reports it
//!     tunnel_option: None,
//!     learned_tables: BTreeSet::new(),
//!     watched_tables: BTreeSet::new(),
//!     conflict_tables: BTreeSet::new(),
//!     learned_limit: None,
//!     owner: None,
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
//! In reading order: [`Config`] and [`Timing`]; [`FlowKey`] and [`Flow`] (flows as bytes), [`Desired`] and [`Changes`],
//! [`Event`]; `ledger` (the difference between the switch and the desired state, for one kind of thing), `in_openflow` (flows, groups
//! and meters: each a file that says what is wanted, what is read, and which messages go when), `forwarding` (all of them together, and
//! what flows need of the others), `in_database` (the kinds that are there, each a file too), `intent` and `outbox` (how owner and
//! driver exchange work and events without waiting for each other), `handle` (start and end), `driver` (the one procedure that compares
//! and corrects); `view` and `database` (OVSDB), `openflow` with `connection` and `session`, and `wire` (the bytes that
//! messages share). The crate `fake-switch` has a switch for tests.
//!
//! Refused objects do not delay the rest. A bundle with a bad flow is discarded and sent again without that flow; after
//! several failures the changes are sent one by one. [`Event::Refused`] names the refused objects, which are retried
//! when they change or the switch reconnects. [`Event::RefusedTotal`] gives their number until all are resolved.
//!
//! Before the driver reads a switch, it maps the geneve option [`Config::tunnel_option`] to a field. In the tables
//! that [`Config::learned_tables`] lists, flows created by `learn` actions belong to the switch. [`Handle::learned`] reads
//! them, for those who look (`learned`), and [`Handle::meter_counts`] and [`Handle::flow_counts`] what meters and flows have counted.
//! In the few that [`Config::watched_tables`] lists, the driver reports the flows
//! that the owner waits for (`awaited`, [`Event::Learned`]).
//!
//! A transaction may have frames that the driver sends out of ports when it is in force (`frames`).
//!
//! Changes that others make are undone: the switch reports changes of flows (`openflow::monitor`), groups and meters are
//! compared at intervals, and an error that contradicts what the switch should have makes the driver read it again.
//! [`Event::ForeignChanges`] reports them; `foreign` sets the pace, since two controllers may undo each other's
//! changes.
//!
//! A conntrack zone is flushed before it gets another owner, also if that happened while the driver was away (`switch_model::zone`).
//! What bounds its connections is in the database before the flows that use it (`limits`), and so are the sets of IPFIX
//! collectors that actions `sample` name (`collectors`) and the BFD sessions of tunnel ports (`bfd`).
//!
//! The drivers of a process share threads, the way to dial, and the memory that switches may take ([`Peers`]). What a switch or its
//! database may make a driver hold is bounded, and charged to one budget.
//!
//! Nothing but an empty bridge is sent before both endpoints are known to lead to the same bridge (`identity`), and before it is
//! known that this bridge belongs to this driver ([`Config::owner`], `ownership`). A bridge on a remote host waits for the
//! driver's connections at the port of the endpoint, or dials the controller (`connecting`). The
//! tasks of a driver are supervised (`supervisor`).
//!
//! Out of scope: rules and networks (this crate knows OpenFlow and OVSDB only), and foreign flows in the tables that the switch fills.
#![forbid(unsafe_code)]
// Bytes from outside must not end the process.
#![cfg_attr(
    not(test),
    warn(
        clippy::indexing_slicing,
        clippy::string_slice,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

mod arrivals;
mod awaited;
mod config;
mod conflicts;
mod connecting;
mod database;
mod driver;
mod foreign;
mod forwarding;
mod frames;
mod handle;
mod identity;
mod in_database;
mod in_openflow;
mod intent;
mod learned;
mod ledger;
mod openflow;
mod outbox;
mod ownership;
mod peers;
mod ports;
mod refusals;
mod rivals;
mod supervisor;
mod view;
mod wire;

pub use config::{Config, Timing};
pub use handle::{Handle, spawn, spawn_with};
pub use openflow::{PushError, Pushed, push_bundle};
pub use openflow_rs::message::TlvMapping;
pub use ovsdb_client::open_vswitch::FlowTable;
pub use ownership::Owner;
pub use peer_connection::{
    Dial, Endpoint, InMemoryNetwork, Inbound, MemoryBudget, Resolver, Sockets, Unexpected,
};
pub use peers::Peers;
pub use switch_model::{
    BfdSession, Bucket, BundleTimes, CHOICE_BYTES_MAX, Changes, Channel, Choice, CollectorSet, Conflict,
    Desired, Edits, Encap, Event, Flow, FlowCount, FlowKey, ForeignChange, Frame, GROUP_MAX, InterfaceId,
    LearnedFlow, METER_MAX, Meter, MeterCount, Packet, Patch, ProbeFound, Problem, ReadError, Rejection,
    Remote, Report, SeenFlow, Tunnel, Vif, Watched, ZONE_TABLE, ZoneLimits, ZoneOwner,
};
