//! Drivers of switches: real ones, and those that tests supply.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::Arc;

use openflow_rs::Match;
use ovs_driver::{FlowTable, Peers, Timing};
use switch_model::{
    Changes, Desired, Event, FlowCount, FlowKey, Frame, LearnedFlow, MeterCount, ReadError, SeenFlow,
};
use tokio::sync::mpsc;

/// The field that keeps datapaths apart, as Open vSwitch names it.
const DATAPATH_FIELD: &str = "OXM_OF_METADATA[]";

/// Starts drivers. Tests supply their own.
pub trait Drivers: Send {
    /// Starts the driver of a switch, which stops when the returned value is dropped. Called within the tokio runtime.
    fn spawn(&self, config: ovs_driver::Config, events: mpsc::Sender<(String, Event)>) -> Box<dyn Driver>;
}

/// The driver of one switch. No call waits for the switch.
pub trait Driver: Send {
    /// Sets the full desired state.
    fn set_desired(&self, desired: Arc<Desired>);
    /// Adds the changes of one transaction.
    fn push(&self, txn: u64, changes: Changes);
    /// Has these frames sent once all that is wanted so far is in force.
    fn announce(&self, frames: BTreeMap<String, Frame>);
    /// Reads from the switch what it has learned: the flows of this table, those that the match covers.
    fn learned(&self, table: u8, matching: &Match) -> Reading;
    /// Reads from the switch what its meters have counted.
    fn meter_counts(&self) -> Asking<Vec<MeterCount>>;
    /// Reads from the switch what these flows have counted.
    fn flow_counts(&self, keys: Vec<FlowKey>) -> Asking<Vec<FlowCount>>;
    /// Reads from the switch the flows of these tables, whoever wrote them.
    fn table_flows(&self, tables: Vec<u8>) -> Asking<Vec<SeenFlow>>;
    /// Lets the driver leave the switch as soon as that is in sync, and say so ([`Event::Left`]).
    fn leave(&self);
    /// Stops the driver. The future completes, soon, when the driver no longer acts.
    fn end(self: Box<Self>) -> Shutdown;
}

/// See [`Driver::end`].
pub type Shutdown = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A question to a switch. Ends by itself if the switch does not answer.
pub type Asking<A> = Pin<Box<dyn Future<Output = Result<A, ReadError>> + Send>>;

/// See [`Driver::learned`].
pub type Reading = Asking<Vec<LearnedFlow>>;

/// Drivers of real switches.
#[derive(Debug)]
pub struct RealDrivers {
    /// The most addresses that a switch learns.
    pub learned_addresses: NonZeroU32,
    /// What they share.
    pub peers: Peers,
}

impl Drivers for RealDrivers {
    fn spawn(&self, config: ovs_driver::Config, events: mpsc::Sender<(String, Event)>) -> Box<dyn Driver> {
        // The datapath with the most addresses loses one, so no tenant pushes out the addresses of another.
        let learned_limit = Some(FlowTable::evicting(self.learned_addresses.get(), DATAPATH_FIELD));
        let config = ovs_driver::Config { learned_limit, ..config };
        Box::new(self.peers.spawn(config, Timing::default(), events))
    }
}

impl Driver for ovs_driver::Handle {
    fn set_desired(&self, desired: Arc<Desired>) {
        ovs_driver::Handle::set_desired(self, desired);
    }

    fn push(&self, txn: u64, changes: Changes) {
        ovs_driver::Handle::push(self, txn, changes);
    }

    fn announce(&self, frames: BTreeMap<String, Frame>) {
        ovs_driver::Handle::announce(self, frames);
    }

    fn learned(&self, table: u8, matching: &Match) -> Reading {
        Box::pin(ovs_driver::Handle::learned(self, table, matching.clone()))
    }

    fn meter_counts(&self) -> Asking<Vec<MeterCount>> {
        Box::pin(ovs_driver::Handle::meter_counts(self))
    }

    fn flow_counts(&self, keys: Vec<FlowKey>) -> Asking<Vec<FlowCount>> {
        Box::pin(ovs_driver::Handle::flow_counts(self, keys))
    }

    fn table_flows(&self, tables: Vec<u8>) -> Asking<Vec<SeenFlow>> {
        Box::pin(ovs_driver::Handle::table_flows(self, tables))
    }

    fn leave(&self) {
        ovs_driver::Handle::leave(self);
    }

    fn end(self: Box<Self>) -> Shutdown {
        Box::pin(ovs_driver::Handle::end(*self))
    }
}
