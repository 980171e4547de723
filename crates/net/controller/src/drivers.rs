//! Drivers of switches: real ones, those that tests supply, and those that run.
//!
//! [`Running`] carries out what the core tells drivers to do, and asks switches questions.

mod start;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::Arc;

use openflow_rs::Match;
use ovs_driver::{Endpoint, FlowTable, Owner, Peers, Timing};
use switch_model::{
    Changes, Desired, Event, FlowCount, FlowKey, Frame, LearnedFlow, MeterCount, Packet, ReadError, SeenFlow,
};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use weft_core::core::{Given, SwitchAddress};
use weft_core::fleet::{BRIDGE, DriverId, DriverOrder, News, SwitchNews};
use weft_core::rules::Conventions;

use crate::dial_in::Targets;

pub(crate) use start::Start;

/// The number of queued events per switch. The driver holds back further events in bounded memory.
const EVENTS_MAX: usize = 64;
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
    /// Reads from the switch the flows of this table that the match covers, whoever wrote them.
    fn covered_flows(&self, table: u8, matching: Match) -> Asking<Vec<SeenFlow>>;
    /// Has the switch execute these packets, each once.
    fn send(&self, packets: Vec<Packet>) -> Asking<()>;
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

/// What is asked of switches: the flows of some tables, by transport node.
pub(crate) type Readings = Vec<(String, Asking<Vec<SeenFlow>>)>;

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

    fn covered_flows(&self, table: u8, matching: Match) -> Asking<Vec<SeenFlow>> {
        Box::pin(ovs_driver::Handle::covered_flows(self, table, matching))
    }

    fn send(&self, packets: Vec<Packet>) -> Asking<()> {
        Box::pin(ovs_driver::Handle::send(self, packets))
    }

    fn leave(&self) {
        ovs_driver::Handle::leave(self);
    }

    fn end(self: Box<Self>) -> Shutdown {
        Box::pin(ovs_driver::Handle::end(*self))
    }
}

/// The drivers that run.
pub(crate) struct Running {
    drivers: Box<dyn Drivers>,
    runtime: Handle,
    news: mpsc::Sender<SwitchNews>,
    conventions: Conventions,
    start: Option<Start>,
    /// Where switches dial in.
    targets: Targets,
    owner: Option<Arc<Owner>>,
    /// With their transport nodes.
    all: BTreeMap<DriverId, (String, Box<dyn Driver>)>,
    /// Those of transport nodes that exist.
    of_nodes: BTreeMap<String, DriverId>,
}

impl Running {
    /// None yet. Their news go to `news`; switches belong to this start of the controller, and without one they are managed whoever
    /// has them.
    pub(crate) fn new(
        drivers: Box<dyn Drivers>,
        runtime: Handle,
        news: mpsc::Sender<SwitchNews>,
        conventions: Conventions,
        (start, targets): (Option<Start>, Targets),
    ) -> Self {
        let (all, of_nodes) = (BTreeMap::new(), BTreeMap::new());
        Running { drivers, runtime, news, conventions, start, targets, owner: None, all, of_nodes }
    }

    /// Names the journal of the controller, before the first switch that belongs to it. Later calls change nothing.
    pub(crate) fn identify(&mut self, journal: Option<&str>) {
        if let (None, Some(start), Some(journal)) = (&self.owner, &self.start, journal) {
            self.owner = Some(Arc::new(start.owner(journal)));
        }
    }

    /// These transport nodes are about to be managed. A switch that is marked for one of them waits for it, whichever connects first.
    pub(crate) fn expect(&self, nodes: impl Iterator<Item = String>) {
        if let Some(owner) = &self.owner {
            owner.expect(nodes);
        }
    }

    /// The transport node of a driver.
    pub(crate) fn node(&self, driver: DriverId) -> Option<&str> {
        self.all.get(&driver).map(|(node, _)| node.as_str())
    }

    /// Carries out an order. Returns the news if a driver cannot be started.
    pub(crate) fn carry_out(&mut self, order: DriverOrder) -> Option<SwitchNews> {
        match order {
            DriverOrder::Start { node, driver, address, given } => {
                let started = self.start(&node, driver, &address, given);
                return started.err().map(|why| SwitchNews { node, driver, what: News::NotStarted(why) });
            }
            DriverOrder::Give(driver, given) => {
                if let Some((_, driver)) = self.all.get(&driver) {
                    give(&**driver, given);
                }
            }
            DriverOrder::Push { driver, txn, changes } => {
                if let Some((_, driver)) = self.all.get(&driver) {
                    driver.push(txn, *changes);
                }
            }
            DriverOrder::Send { driver, node, number, packets } => {
                let sent = self.ask_driver(driver, |driver| driver.send(packets));
                self.answer(node, driver, sent, move |sent| News::Sent(number, sent));
            }
            DriverOrder::Count { driver, node, table, covers } => {
                let counted = self.ask_driver(driver, |driver| driver.covered_flows(table, covers));
                self.answer(node, driver, counted, News::Counted);
            }
            DriverOrder::Leave(driver) => {
                if let Some((node, leaving)) = self.all.get(&driver) {
                    self.of_nodes.remove(node);
                    leaving.leave();
                }
            }
            DriverOrder::Stop(driver) => {
                if let Some((node, ending)) = self.all.remove(&driver) {
                    if self.of_nodes.get(&node) == Some(&driver) {
                        self.of_nodes.remove(&node);
                    }
                    self.runtime.block_on(ending.end());
                }
            }
        }
        None
    }

    fn start(
        &mut self,
        node: &str,
        driver: DriverId,
        address: &SwitchAddress,
        given: Option<Given>,
    ) -> Result<(), String> {
        let config = config(node, address, (&self.conventions, &self.targets), self.owner.clone())?;
        let (sender, mut receiver) = mpsc::channel(EVENTS_MAX);
        let news = self.news.clone();
        let _runtime = self.runtime.enter();
        let started = self.drivers.spawn(config, sender);
        if let Some(given) = given {
            give(&*started, given);
        }
        self.all.insert(driver, (node.to_owned(), started));
        self.of_nodes.insert(node.to_owned(), driver);
        self.runtime.spawn(async move {
            while let Some((node, event)) = receiver.recv().await {
                if news.send(SwitchNews { node, driver, what: News::Event(event) }).await.is_err() {
                    break;
                }
            }
        });
        Ok(())
    }

    /// Reads from the switch of a transport node what it has learned.
    pub(crate) fn learned(&self, node: &str, table: u8, matching: &Match) -> Reading {
        self.ask(node, |driver| driver.learned(table, matching))
    }

    /// Reads from the switch of a transport node what its meters have counted.
    pub(crate) fn meter_counts(&self, node: &str) -> Asking<Vec<MeterCount>> {
        self.ask(node, |driver| driver.meter_counts())
    }

    /// Reads from the switch of a transport node what these flows have counted.
    pub(crate) fn flow_counts(&self, node: &str, keys: Vec<FlowKey>) -> Asking<Vec<FlowCount>> {
        self.ask(node, |driver| driver.flow_counts(keys))
    }

    /// Reads from the switch of a transport node the flows of these tables.
    pub(crate) fn table_flows(&self, node: &str, tables: Vec<u8>) -> Asking<Vec<SeenFlow>> {
        self.ask(node, |driver| driver.table_flows(tables))
    }

    fn ask<A: Send + 'static>(&self, node: &str, ask: impl FnOnce(&dyn Driver) -> Asking<A>) -> Asking<A> {
        match self.of_nodes.get(node) {
            Some(driver) => self.ask_driver(*driver, ask),
            None => Box::pin(std::future::ready(Err(ReadError::NotConnected))),
        }
    }

    fn ask_driver<A: Send + 'static>(
        &self,
        driver: DriverId,
        ask: impl FnOnce(&dyn Driver) -> Asking<A>,
    ) -> Asking<A> {
        match self.all.get(&driver) {
            Some((_, driver)) => ask(&**driver),
            None => Box::pin(std::future::ready(Err(ReadError::NotConnected))),
        }
    }

    /// Waits for the answer of a switch, and tells it as news.
    fn answer<A: Send + 'static>(
        &self,
        node: String,
        driver: DriverId,
        asking: Asking<A>,
        what: impl FnOnce(Result<A, ReadError>) -> News + Send + 'static,
    ) {
        let news = self.news.clone();
        self.runtime.spawn(async move {
            let what = what(asking.await);
            // The engine may have ended.
            drop(news.send(SwitchNews { node, driver, what }).await);
        });
    }
}

/// Gives a driver what it begins with.
fn give(driver: &dyn Driver, Given { desired, announcing }: Given) {
    driver.set_desired(desired);
    if !announcing.is_empty() {
        driver.announce(announcing);
    }
}

fn config(
    node: &str,
    address: &SwitchAddress,
    (conventions, targets): (&Conventions, &Targets),
    owner: Option<Arc<Owner>>,
) -> Result<ovs_driver::Config, String> {
    let endpoint = |field: &str, endpoint: &Option<String>, target: &Option<String>| match (endpoint, target)
    {
        // The certificate of a switch names its node.
        (Some(endpoint), _) => match endpoint.parse::<Endpoint>() {
            Ok(endpoint) => Ok(endpoint.named(node)),
            Err(error) => Err(format!("{field}: {error}")),
        },
        (None, Some(target)) => Ok(Endpoint::DialIn { name: node.to_owned(), target: target.clone() }),
        (None, None) => Err(format!(
            "{field}: is not set, and the controller has no address where switches dial in: set `{field}` of this node, or \
             `listen_{field}` in the configuration of the controller"
        )),
    };
    Ok(ovs_driver::Config {
        name: node.to_owned(),
        ovsdb: endpoint("ovsdb", &address.ovsdb, &targets.ovsdb)?,
        openflow: endpoint("openflow", &address.openflow, &targets.openflow)?,
        bridge: BRIDGE.to_owned(),
        datapath_type: address.datapath_type.clone(),
        datapath_id: None,
        tunnel_option: conventions.tunnel_option,
        learned_tables: conventions.learned_tables.clone(),
        watched_tables: conventions.watched_tables.clone(),
        conflict_tables: conventions.conflict_tables.clone(),
        learned_limit: None,
        owner,
    })
}
