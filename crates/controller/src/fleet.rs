//! The switches: a driver for each transport node, and what is known of it.
//!
//! A driver gets the whole desired state when it is started and each transaction's changes from then on, whether its
//! switch is connected or not: it merges what waits, so nothing is queued for a switch that is away, and it sends the
//! difference when the switch is back.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use network::{ChangeSet, Object, ObjectStore, TransportNode};
use ovs_driver::{Changes, Channel, Desired, Event, Rejection};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tracing::{debug, info, warn};

use crate::receipt::{Progress, Receipts, SwitchReceipt};

mod state;

use state::Switch;

/// The integration bridge on every transport node.
const BRIDGE: &str = "br-int";
/// The table whose flows switches learn by themselves: `FDB` in `rules/interface/layout.nlog`.
const LEARNED_TABLE: u8 = 21;
/// How many events of a switch may wait for the controller; its driver then keeps the rest, bounded.
const EVENTS_MAX: usize = 64;

/// How long the switch of a deleted transport node may take to take away what is ours.
const FAREWELL_MAX: Duration = Duration::from_secs(30);

/// Starts drivers. Tests have their own.
pub trait Drivers: Send {
    /// Starts the driver of a switch; it ends when what is returned is dropped. Called within the tokio runtime.
    fn spawn(&self, config: ovs_driver::Config, events: mpsc::Sender<(String, Event)>) -> Box<dyn Driver>;
}

/// A driver of one switch. No call waits for the switch.
pub trait Driver: Send {
    /// What the switch should have, whole.
    fn set_desired(&self, desired: Arc<Desired>);
    /// The changes of one transaction, upon all before.
    fn push(&self, txn: u64, changes: Changes);
    /// Ends the driver; completes when it does nothing any more, which is soon.
    fn end(self: Box<Self>) -> Ending;
}

/// See [`Driver::end`].
pub type Ending = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Drivers of real switches.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDrivers;

impl Drivers for RealDrivers {
    fn spawn(&self, config: ovs_driver::Config, events: mpsc::Sender<(String, Event)>) -> Box<dyn Driver> {
        Box::new(ovs_driver::spawn(config, events))
    }
}

impl Driver for ovs_driver::Handle {
    fn set_desired(&self, desired: Arc<Desired>) {
        ovs_driver::Handle::set_desired(self, desired);
    }

    fn push(&self, txn: u64, changes: Changes) {
        ovs_driver::Handle::push(self, txn, changes);
    }

    fn end(self: Box<Self>) -> Ending {
        Box::pin(ovs_driver::Handle::end(*self))
    }
}

/// An event of a switch, for the engine thread.
#[derive(Debug)]
pub(crate) struct FleetEvent {
    node: String,
    /// Which driver it came from: what a driver says that was replaced meanwhile does not count.
    generation: u64,
    what: What,
}

#[derive(Debug)]
enum What {
    Event(Event),
    /// A switch that is leaving has had its time.
    FarewellOver,
}

/// What is known of one switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchStatus {
    /// The transport node.
    pub node: String,
    /// Whether both connections are up.
    pub connected: bool,
    /// Whether everything wanted is in force, as far as is known.
    pub synced: bool,
    /// What is wrong; empty if nothing is.
    pub last_error: String,
    /// Flows, groups, tunnels and patch ports that it refuses.
    pub refused: usize,
    /// Transactions not answered: sent, or waiting for a connection.
    pub pending: usize,
    /// The last transaction confirmed.
    pub confirmed_txn: Option<u64>,
    /// Flows that it should have.
    pub flows: usize,
    /// Groups that it should have.
    pub groups: usize,
    /// Tunnel ports that it should have.
    pub tunnels: usize,
    /// Patch ports that it should have.
    pub patches: usize,
    /// Flow modifications that the last comparison after a connection took.
    pub sync_flow_mods: Option<usize>,
}

/// All switches.
pub(crate) struct Fleet {
    drivers: Box<dyn Drivers>,
    runtime: Handle,
    events: mpsc::Sender<FleetEvent>,
    switches: BTreeMap<String, Switch>,
    leaving: Vec<Leaving>,
    generation: u64,
    farewell_max: Duration,
    pub(crate) receipts: Receipts,
}

/// The switch of a deleted transport node, whose driver still takes away what is ours.
struct Leaving {
    node: String,
    /// The transaction that deleted it.
    txn: u64,
    switch: Switch,
}

impl Fleet {
    pub(crate) fn new(drivers: Box<dyn Drivers>, runtime: Handle, events: mpsc::Sender<FleetEvent>) -> Self {
        let (switches, leaving, receipts) = (BTreeMap::new(), Vec::new(), Receipts::default());
        let farewell_max = FAREWELL_MAX;
        Fleet { drivers, runtime, events, switches, leaving, generation: 0, farewell_max, receipts }
    }

    /// Starts a driver for every transport node.
    pub(crate) fn start(&mut self, objects: &ObjectStore, desired: impl Fn(&str) -> Arc<Desired>) {
        for object in objects.list(network::Kind::TransportNode) {
            if let Object::TransportNode(node) = &**object {
                self.start_one(node, desired(&node.id));
            }
        }
    }

    /// Hears of changes that are accepted and not on disk yet: what the switches at end points that change still report
    /// is not that of the new ones. Says what will be left at the switches of transport nodes that go. What follows
    /// is [`follow`](Fleet::follow) or [`stay`](Fleet::stay).
    pub(crate) fn expect(&mut self, objects: &ChangeSet) -> Vec<String> {
        let mut warnings = Vec::new();
        for change in objects.effective() {
            let Some(before) = node_of(change.before.as_ref()) else { continue };
            let after = node_of(change.after.as_ref());
            let Some(switch) = self.switches.get_mut(&before.id) else { continue };
            if after.as_ref().is_none_or(|after| reach(after) != reach(&before)) {
                switch.goes = true;
            }
            if after.is_none() && switch.driver.is_some() {
                let what =
                    match [Channel::OpenFlow, Channel::Ovsdb].map(|channel| switch.up.contains(&channel)) {
                        [true, true] => continue,
                        [true, false] => format!(
                            "its database is not connected; the ports marked external_ids:weft stay if it is \
                         not back within {:?}",
                            self.farewell_max
                        ),
                        [false, _] => left("not connected"),
                    };
                warnings.push(format!("transport_node {}: its switch: {what}", before.id));
            }
        }
        warnings
    }

    /// What was expected is taken back: reports that were held back since count.
    pub(crate) fn stay(&mut self) {
        for (node, switch) in self.switches.iter_mut().filter(|(_, switch)| switch.goes) {
            switch.goes = false;
            if let Some(report) = switch.held_back.take() {
                let (node, events) = (node.clone(), self.events.clone());
                let what = What::Event(Event::Report(report));
                let event = FleetEvent { node, generation: switch.generation, what };
                self.runtime.spawn(async move {
                    // If nobody receives, the controller is stopping.
                    let _ = events.send(event).await;
                });
            }
        }
    }

    /// Starts, restarts and ends drivers as transport nodes change with transaction `txn`, whose changes were pushed.
    pub(crate) fn follow(&mut self, txn: u64, objects: &ChangeSet, desired: impl Fn(&str) -> Arc<Desired>) {
        let (mut starting, mut ending) = (Vec::new(), Vec::new());
        for change in objects.effective() {
            match (node_of(change.before.as_ref()), node_of(change.after.as_ref())) {
                (Some(before), None) => ending.extend(self.leave(&before.id, txn)),
                (None, Some(after)) => starting.push(after),
                (Some(before), Some(after)) if reach(&before) != reach(&after) => starting.push(after),
                _ => {}
            }
        }
        // No two drivers work at one switch, also if transport nodes exchange theirs: all end before one starts.
        for node in &starting {
            ending.extend(self.make_room(node));
        }
        self.end(ending);
        for node in starting {
            self.start_one(&node, desired(&node.id));
        }
    }

    /// Ends drivers, and waits until they do nothing any more: no longer than a step of their tasks.
    fn end(&self, drivers: impl IntoIterator<Item = Box<dyn Driver>>) {
        self.runtime.block_on(async {
            for driver in drivers {
                driver.end().await;
            }
        });
    }

    /// Takes out the drivers that must have ended before that of a transport node starts.
    fn make_room(&mut self, node: &TransportNode) -> Vec<Box<dyn Driver>> {
        let mut ending = Vec::new();
        if let Some(switch) = self.switches.remove(&node.id) {
            info!(switch = node.id, "other end points; what the switch at the old ones has stays");
            ending.extend(self.let_go(&node.id, switch));
        }
        let reach = reach(node);
        let same = |leaving: &mut Leaving| {
            let shared = leaving.switch.reach.iter().zip(&reach).take(2);
            leaving.node == node.id || shared.into_iter().any(|(old, new)| old.is_some() && old == new)
        };
        let taken_over: Vec<Leaving> = self.leaving.extract_if(.., same).collect();
        for Leaving { node, switch, .. } in taken_over {
            ending.extend(self.let_go(&node, switch));
        }
        ending
    }

    fn start_one(&mut self, node: &TransportNode, desired: Arc<Desired>) {
        self.generation += 1;
        let mut switch = Switch { generation: self.generation, reach: reach(node), ..Switch::default() };
        match config(node) {
            Ok(config) => {
                let (sender, mut receiver) = mpsc::channel(EVENTS_MAX);
                let (events, generation) = (self.events.clone(), self.generation);
                let _runtime = self.runtime.enter();
                let driver = self.drivers.spawn(config, sender);
                driver.set_desired(desired);
                switch.driver = Some(driver);
                self.runtime.spawn(async move {
                    while let Some((node, event)) = receiver.recv().await {
                        let what = What::Event(event);
                        if events.send(FleetEvent { node, generation, what }).await.is_err() {
                            break;
                        }
                    }
                });
            }
            Err(why) => {
                warn!(switch = node.id, why, "switch cannot be managed");
                switch.faults.unreachable = Some(why);
            }
        }
        self.switches.insert(node.id.clone(), switch);
    }

    /// Lets a switch go: at once if it is not connected or has nothing to take away, else when it has done so or the
    /// time for it is over.
    /// Returns the driver that is to end now.
    fn leave(&mut self, node: &str, txn: u64) -> Option<Box<dyn Driver>> {
        let switch = self.switches.remove(node)?;
        let node = node.to_owned();
        let connected = switch.driver.is_some() && switch.up.contains(&Channel::OpenFlow);
        if connected && switch.last_pushed == Some(txn) {
            let over =
                FleetEvent { node: node.clone(), generation: switch.generation, what: What::FarewellOver };
            let (events, limit) = (self.events.clone(), self.farewell_max);
            self.runtime.spawn(async move {
                tokio::time::sleep(limit).await;
                // If nobody receives, the controller is stopping.
                let _ = events.send(over).await;
            });
            self.leaving.push(Leaving { node, txn, switch });
            return None;
        }
        if switch.last_pushed == Some(txn) {
            warn!(switch = node, "transport node deleted, its switch is {}", left("not connected"));
        } else {
            info!(switch = node, "transport node deleted; its switch has nothing to take away");
        }
        self.let_go(&node, switch)
    }

    /// Takes an event of a switch that is leaving; whether it was one.
    fn farewell(&mut self, event: &FleetEvent) -> bool {
        let Some(index) =
            self.leaving.iter().position(|leaving| leaving.switch.generation == event.generation)
        else {
            return false;
        };
        let Leaving { node, txn, switch } = &mut self.leaving[index];
        let receipts = &mut self.receipts;
        // How it ended, if it did.
        let end = match &event.what {
            What::FarewellOver => Some(Err(format!("it has not confirmed within {:?}", self.farewell_max))),
            What::Event(Event::Connected { channel }) => {
                switch.up.insert(*channel);
                None
            }
            What::Event(Event::Disconnected { channel, why }) => {
                switch.up.remove(channel);
                for txn in switch.fall_behind() {
                    receipts.advance(txn, node, |_| Progress::Offline);
                }
                (*channel == Channel::OpenFlow).then(|| Err(format!("not connected: {why}")))
            }
            What::Event(Event::Confirmed { txn: confirmed, at }) => {
                if switch.answered(*confirmed) {
                    receipts.confirm(*confirmed, node, *at);
                }
                (confirmed == txn).then_some(Ok(()))
            }
            What::Event(Event::Refused { txn: Some(refused), count, first }) => {
                let why = refusal(*count, first);
                if switch.answered(*refused) {
                    receipts.advance(*refused, node, |_| Progress::Refused(why.clone()));
                }
                (refused == txn).then_some(Err(why))
            }
            What::Event(_) => None,
        };
        if let Some(end) = end {
            let Leaving { node, switch, .. } = self.leaving.swap_remove(index);
            match end {
                Ok(()) => info!(switch = node, "switch is let go; what was ours is taken away"),
                Err(why) => warn!(switch = node, "transport node deleted, its switch is {}", left(&why)),
            }
            let driver = self.let_go(&node, switch);
            self.end(driver);
        }
        true
    }

    /// Nobody waits for what a switch that is let go has not answered.
    fn let_go(&mut self, node: &str, switch: Switch) -> Option<Box<dyn Driver>> {
        for txn in switch.pending.into_keys() {
            self.receipts.advance(txn, node, |_| Progress::Offline);
        }
        switch.driver
    }

    /// Sends a switch the changes of a transaction; says what becomes of it.
    pub(crate) fn push(&mut self, txn: u64, node: &str, changes: Changes) -> SwitchReceipt {
        let mut receipt = SwitchReceipt {
            progress: Progress::Offline,
            flows_added: changes.flows_add.len(),
            flows_deleted: changes.flows_delete.len(),
            tunnels_added: changes.tunnels_add.len(),
            tunnels_deleted: changes.tunnels_delete.len(),
        };
        if let Some(switch) = self.switches.get_mut(node)
            && let Some(driver) = &switch.driver
        {
            let tunnels = changes.touches_ports();
            driver.push(txn, changes);
            switch.last_pushed = Some(txn);
            if switch.reaches(tunnels) {
                receipt.progress = Progress::Pending;
                switch.pending.insert(txn, tunnels);
            } else {
                switch.behind(tunnels).add(txn);
            }
        }
        receipt
    }

    /// Takes an event of a switch. A report is handed back: it is for the rules.
    pub(crate) fn event(&mut self, event: FleetEvent) -> Option<(String, ovs_driver::Report)> {
        if self.farewell(&event) {
            return None;
        }
        let FleetEvent { node, generation, what: What::Event(event) } = event else { return None };
        let switch = self.switches.get_mut(&node).filter(|switch| switch.generation == generation)?;
        match event {
            Event::Connected { channel } => {
                info!(switch = node, %channel, "switch connected");
                switch.up.insert(channel);
                // It is compared anew; what was said of it before does not include this channel.
                switch.compared = false;
                switch.faults.connection.remove(&channel);
            }
            Event::Disconnected { channel, why } => {
                warn!(switch = node, %channel, why, "switch not connected");
                switch.up.remove(&channel);
                switch.compared = false;
                switch.faults.connection.insert(channel, why);
                for txn in switch.fall_behind() {
                    self.receipts.advance(txn, &node, |_| Progress::Offline);
                }
            }
            Event::Report(report) => return switch.reported(&node, report).map(|report| (node, report)),
            Event::Confirmed { txn, at } => {
                debug!(switch = node, txn, "transaction in force");
                switch.confirmed_txn = switch.confirmed_txn.max(Some(txn));
                if switch.answered(txn) {
                    self.receipts.confirm(txn, &node, at);
                }
            }
            Event::Refused { txn, count, first } => {
                // The driver has logged it.
                let text = refusal(count, &first);
                if let Some(txn) = txn.filter(|txn| switch.answered(*txn)) {
                    self.receipts.advance(txn, &node, |_| Progress::Refused(text.clone()));
                }
                switch.faults.refused = Some(text);
            }
            Event::Standing { refused } => {
                switch.refused = refused;
                if refused == 0 {
                    info!(switch = node, "switch refuses nothing any more");
                    switch.faults.refused = None;
                }
            }
            Event::Synced { flow_mods, tunnels_changed } => {
                info!(switch = node, flow_mods, tunnels_changed, "switch compared with what it should have");
                switch.compared = true;
                switch.sync_flow_mods = Some(flow_mods);
            }
        }
        None
    }

    /// Notes what the rules said to a switch's report.
    pub(crate) fn report_judged(&mut self, node: &str, refused: Option<String>) {
        if let Some(why) = &refused {
            warn!(switch = node, why, "report of the switch not accepted in full; the rest is tried again");
        }
        if let Some(switch) = self.switches.get_mut(node) {
            switch.faults.report = refused;
        }
    }

    /// What is known of every switch, in order of names.
    pub(crate) fn status(&self, desired: impl Fn(&str) -> Arc<Desired>) -> Vec<SwitchStatus> {
        let status = |(node, switch): (&String, &Switch)| {
            let desired = desired(node);
            let last_error = switch.faults.worst().unwrap_or_default();
            let connected = switch.up.len() == 2;
            let whole = connected && switch.compared && switch.unanswered() == 0;
            SwitchStatus {
                node: node.clone(),
                connected,
                synced: whole && switch.refused == 0 && switch.faults.refused.is_none(),
                refused: switch.refused,
                last_error,
                pending: switch.unanswered(),
                confirmed_txn: switch.confirmed_txn,
                flows: desired.flows.len(),
                groups: desired.groups.keys().map(|(group, _)| *group).collect::<BTreeSet<_>>().len(),
                tunnels: desired.tunnels.len(),
                patches: desired.patches.len(),
                sync_flow_mods: switch.sync_flow_mods,
            }
        };
        self.switches.iter().map(status).collect()
    }
}

/// What is to be done about a switch that is let go with what is ours.
fn left(why: &str) -> String {
    format!(
        "left as it is: {why}; delete {BRIDGE}'s flows and groups and the ports marked external_ids:weft by hand, or \
         apply the node again"
    )
}

/// What a switch refused, as a line.
fn refusal(count: usize, first: &[Rejection]) -> String {
    let first = first.first().map(ToString::to_string).unwrap_or_default();
    match count {
        0 | 1 => format!("refused {first}"),
        _ => format!("refused {first} (and {} more)", count - 1),
    }
}

fn node_of(object: Option<&Arc<Object>>) -> Option<TransportNode> {
    match object.map(|object| &**object) {
        Some(Object::TransportNode(node)) => Some(node.clone()),
        _ => None,
    }
}

/// What a driver depends on; if it changes, the driver is another.
fn reach(node: &TransportNode) -> [Option<String>; 3] {
    let text = |endpoint: &Option<network::Endpoint>| endpoint.as_ref().map(ToString::to_string);
    [text(&node.ovsdb), text(&node.openflow), node.datapath_type.map(|datapath| datapath.to_string())]
}

fn config(node: &TransportNode) -> Result<ovs_driver::Config, String> {
    let endpoint = |name: &str, endpoint: &Option<network::Endpoint>, absent: &str| match endpoint {
        Some(endpoint) => {
            endpoint.to_string().parse().map_err(|error| format!("{name}: {endpoint}: {error}"))
        }
        None => Err(format!("{name}: is not set, and {absent} is not supported yet")),
    };
    Ok(ovs_driver::Config {
        name: node.id.clone(),
        ovsdb: endpoint("ovsdb", &node.ovsdb, "a switch that dials in")?,
        openflow: endpoint("openflow", &node.openflow, "setting the bridge's controller")?,
        bridge: BRIDGE.to_owned(),
        datapath_type: node.datapath_type.map(|datapath| datapath.to_string()),
        learned_tables: [LEARNED_TABLE].into(),
    })
}

#[cfg(test)]
mod tests;
