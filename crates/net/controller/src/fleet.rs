//! The switches: a driver for each transport node, and its state.
//!
//! A driver receives the full desired state when it starts, and the changes of each transaction from then on, whether its
//! switch is connected or not. It merges changes, so nothing is queued for an offline switch; it sends the difference when
//! the switch reconnects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use openflow_rs::Match;
use ovs_driver::Owner;
use switch_model::{Channel, Event, FlowCount, FlowKey, MeterCount, ReadError, Rejection, SeenFlow};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tracing::{debug, info, warn};

use crate::core::{AddressChanges, DesiredCounts, Given, Strays, SwitchAddress};
use crate::lasting::Lasting;
use crate::levels::{Link, Moment, Patience};
use crate::receipt::{Progress, Receipts};
use crate::rules::Conventions;

mod drivers;
mod event;
mod faults;
mod order;
mod start;
mod state;
mod watch;

pub use drivers::{Asking, Driver, Drivers, Reading, RealDrivers, Shutdown};
use event::EventKind;
pub(crate) use event::FleetEvent;
use faults::SwitchFault;
use order::Order;
pub(crate) use start::Start;
use state::Switch;
use watch::Watch;

/// The integration bridge on every transport node.
const BRIDGE: &str = "br-int";
/// The number of queued events per switch. The driver holds back further events in bounded memory.
const EVENTS_MAX: usize = 64;

/// The time that the switch of a deleted transport node has to remove the controller's flows, groups and ports.
const DRAIN_MAX: Duration = Duration::from_secs(30);

/// The state of one switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchStatus {
    /// The transport node.
    pub node: String,
    /// Whether both connections are up.
    pub connected: bool,
    /// Whether the switch is in sync with its desired state.
    pub synced: bool,
    /// The most important error; empty if there is none.
    pub last_error: String,
    /// The number of flows, groups, tunnels and patch ports that it refuses.
    pub refused: usize,
    /// The number of unconfirmed transactions: sent, or waiting for a connection.
    pub pending: usize,
    /// The last confirmed transaction.
    pub confirmed_txn: Option<u64>,
    /// The desired number of flows.
    pub flows: usize,
    /// The desired number of groups.
    pub groups: usize,
    /// The desired number of tunnel ports.
    pub tunnels: usize,
    /// The desired number of patch ports.
    pub patches: usize,
    /// The number of virtual interfaces that it reports.
    pub vifs: usize,
    /// The number of flow mods that the last synchronisation after a connection sent.
    pub sync_flow_mods: Option<usize>,
    /// The number of flows and groups changed by others, and of rows of the database changed without a notification, as found since the driver was started.
    pub foreign_changes: usize,
    /// The last change by others and the time at which it was found; empty if there is none.
    pub last_foreign_change: String,
    /// The number of times that the driver failed and was restarted.
    pub driver_restarts: usize,
    /// The last failure of the driver and its time; empty if there is none.
    pub last_driver_failure: String,
    /// The interfaces that it reports with ids that no object has, as of its last news.
    pub strays: Strays,
}

/// All switches.
pub(crate) struct Fleet {
    conventions: Conventions,
    drivers: Box<dyn Drivers>,
    runtime: Handle,
    events: mpsc::Sender<FleetEvent>,
    switches: BTreeMap<String, Switch>,
    draining: Vec<Draining>,
    /// The transactions that not all their switches have got.
    orders: BTreeMap<u64, Order>,
    generation: u64,
    drain_max: Duration,
    /// When the controller started, for [`Moment`]s.
    begun: Instant,
    watch: Watch,
    /// The faults of switches, each logged once it has lasted.
    faults: Lasting<SwitchFault>,
    start: Option<Start>,
    owner: Option<Arc<Owner>>,
    announced: Vec<(String, BTreeSet<String>)>,
    pub(crate) receipts: Receipts,
}

/// Gives a driver what it begins with.
fn give(driver: &dyn Driver, Given { desired, announcing }: Given) {
    driver.set_desired(desired);
    if !announcing.is_empty() {
        driver.announce(announcing);
    }
}

/// The switch of a deleted transport node, whose driver still removes the controller's flows, groups and ports.
struct Draining {
    node: String,
    /// The transaction that deleted it.
    txn: u64,
    switch: Switch,
}

impl Fleet {
    pub(crate) fn new(
        conventions: Conventions,
        drivers: Box<dyn Drivers>,
        runtime: Handle,
        events: mpsc::Sender<FleetEvent>,
        patience: Patience,
    ) -> Self {
        let (switches, draining, receipts) = (BTreeMap::new(), Vec::new(), Receipts::default());
        let drain_max = DRAIN_MAX;
        Fleet {
            conventions,
            drivers,
            runtime,
            events,
            switches,
            draining,
            orders: BTreeMap::new(),
            generation: 0,
            drain_max,
            begun: Instant::now(),
            watch: Watch::new(patience),
            faults: Lasting::default(),
            start: None,
            owner: None,
            announced: Vec::new(),
            receipts,
        }
    }

    /// The time.
    pub(crate) fn now(&self) -> Moment {
        self.begun.elapsed()
    }

    /// An event of the present driver of a transport node's switch.
    #[cfg(test)]
    pub(crate) fn event_of(&self, node: &str, event: Event) -> FleetEvent {
        let generation = self.switches[node].generation;
        FleetEvent { node: node.to_owned(), generation, what: EventKind::Event(event) }
    }

    /// Lets time pass.
    #[cfg(test)]
    pub(crate) fn pass(&mut self, time: Duration) {
        self.begun -= time;
    }

    /// This time on the system's clock.
    pub(crate) fn instant(&self, moment: Moment) -> Instant {
        self.begun + moment
    }

    /// Starts a driver for each of these switches.
    pub(crate) fn start<'a>(
        &mut self,
        addresses: impl Iterator<Item = (&'a String, &'a Arc<SwitchAddress>)>,
        given: impl Fn(&str) -> Given,
    ) {
        let addresses: Vec<_> = addresses.collect();
        if let Some(owner) = &self.owner {
            // A switch that is marked for one of them waits for it, whichever connects first.
            owner.expect(addresses.iter().map(|(node, _)| (*node).clone()));
        }
        for (node, address) in addresses {
            self.add_node(node, address, given(node));
        }
    }

    /// Prepares for changes that are accepted but not on disk yet: from now on, what is observed of switches whose endpoints
    /// change waits. Returns warnings about leftovers on the switches of deleted transport nodes. Must be
    /// followed by [`commit`](Fleet::commit) or [`roll_back`](Fleet::roll_back).
    pub(crate) fn prepare(&mut self, addresses: &AddressChanges) -> Vec<String> {
        let mut warnings = Vec::new();
        for (node, change) in addresses {
            let Some(switch) = self.switches.get_mut(node) else { continue };
            switch.removing = true;
            if change.after.is_none() && switch.driver.is_some() && switch.faults.withheld.is_none() {
                let what =
                    match [Channel::OpenFlow, Channel::Ovsdb].map(|channel| switch.up.contains(&channel)) {
                        [true, true] => continue,
                        [true, false] => format!(
                            "its database is not connected; the ports marked external_ids:weft stay if it is \
                         not back within {:?}",
                            self.drain_max
                        ),
                        [false, _] => leftovers("not connected"),
                    };
                warnings.push(format!("transport node {node}: its switch: {what}"));
            }
        }
        warnings
    }

    /// Cancels prepared changes. What was observed of their switches counts again.
    pub(crate) fn roll_back(&mut self) {
        for switch in self.switches.values_mut() {
            switch.removing = false;
        }
    }

    /// Starts, restarts and stops drivers as transaction `txn` changes transport nodes. Its flow changes were pushed before.
    pub(crate) fn commit(&mut self, txn: u64, addresses: &AddressChanges, given: impl Fn(&str) -> Given) {
        let (mut starting, mut ending) = (Vec::new(), Vec::new());
        if !addresses.is_empty() {
            self.watch.look();
        }
        for (node, change) in addresses {
            match &change.after {
                None => ending.extend(self.remove_node(node, txn)),
                Some(address) => starting.push((node, address)),
            }
        }
        // No two drivers manage one switch, even if transport nodes exchange switches: all stop before any starts.
        for (node, address) in &starting {
            ending.extend(self.stop_predecessors(node, address));
        }
        self.end(ending);
        for (node, address) in starting {
            self.add_node(node, address, given(node));
        }
    }

    /// Stops drivers and waits until they no longer act, which takes at most one step of their tasks.
    fn end(&self, drivers: impl IntoIterator<Item = Box<dyn Driver>>) {
        self.runtime.block_on(async {
            for driver in drivers {
                driver.end().await;
            }
        });
    }

    /// Removes the drivers that must stop before the driver of a transport node starts.
    fn stop_predecessors(&mut self, node: &str, address: &SwitchAddress) -> Vec<Box<dyn Driver>> {
        let mut ending = Vec::new();
        if let Some(switch) = self.switches.remove(node) {
            info!(switch = node, "endpoints changed; the previous switch keeps its flows");
            ending.extend(self.release(node, switch));
        }
        let is_same = |old: &Option<String>, new: &Option<String>| old.is_some() && old == new;
        let same = |draining: &mut Draining| {
            let old = &draining.switch.address;
            draining.node == node
                || is_same(&old.ovsdb, &address.ovsdb)
                || is_same(&old.openflow, &address.openflow)
        };
        let taken_over: Vec<Draining> = self.draining.extract_if(.., same).collect();
        for Draining { node, switch, .. } in taken_over {
            ending.extend(self.release(&node, switch));
        }
        ending
    }

    fn add_node(&mut self, node: &str, address: &Arc<SwitchAddress>, given: Given) {
        self.generation += 1;
        let mut switch = Switch::new(self.generation, address.clone(), self.now());
        match config(node, address, &self.conventions, self.owner.clone()) {
            Ok(config) => {
                let (sender, mut receiver) = mpsc::channel(EVENTS_MAX);
                let (events, generation) = (self.events.clone(), self.generation);
                let _runtime = self.runtime.enter();
                let driver = self.drivers.spawn(config, sender);
                give(&*driver, given);
                switch.driver = Some(driver);
                self.runtime.spawn(async move {
                    while let Some((node, event)) = receiver.recv().await {
                        let what = EventKind::Event(event);
                        if events.send(FleetEvent { node, generation, what }).await.is_err() {
                            break;
                        }
                    }
                });
            }
            Err(why) => {
                warn!(switch = node, why, "switch cannot be managed");
                switch.faults.unreachable = Some(why);
            }
        }
        self.switches.insert(node.to_owned(), switch);
    }

    /// Removes a switch: at once if it is offline or has nothing to remove, otherwise once it has confirmed the
    /// removal or the time for it is over. Returns the driver to stop now.
    fn remove_node(&mut self, node: &str, txn: u64) -> Option<Box<dyn Driver>> {
        let mut switch = self.switches.remove(node)?;
        self.forget_faults(node);
        switch.push_held();
        let node = node.to_owned();
        let driver = switch.driver.as_ref().filter(|_| switch.up.contains(&Channel::OpenFlow));
        if let Some(driver) = driver {
            driver.leave();
            let (generation, what) = (switch.generation, EventKind::DrainTimeout);
            self.send_later(self.drain_max, FleetEvent { node: node.clone(), generation, what });
            self.draining.push(Draining { node, txn, switch });
            return None;
        }
        if switch.faults.withheld.is_some() {
            info!(switch = node, "transport node deleted; its switch is somebody else's and stays as it is");
        } else if switch.last_pushed == Some(txn) {
            warn!(switch = node, "transport node deleted, its switch is {}", leftovers("not connected"));
        } else {
            info!(switch = node, "transport node deleted; its switch had nothing to remove");
        }
        self.release(&node, switch)
    }

    /// Sends an event to the engine thread after a delay.
    fn send_later(&self, delay: Duration, event: FleetEvent) {
        let events = self.events.clone();
        self.runtime.spawn(async move {
            tokio::time::sleep(delay).await;
            // The send fails only while the controller is stopping.
            let _ = events.send(event).await;
        });
    }

    /// Handles an event of a draining switch. Returns false if the event belongs to another switch.
    fn draining_event(&mut self, event: &FleetEvent) -> bool {
        let Some(index) =
            self.draining.iter().position(|draining| draining.switch.generation == event.generation)
        else {
            return false;
        };
        let Draining { node, txn, switch } = &mut self.draining[index];
        let receipts = &mut self.receipts;
        // The outcome, once known.
        let end = match &event.what {
            // Its mark may stay, but it has nothing else left.
            EventKind::DrainTimeout if switch.confirmed_txn == Some(*txn) => Some(Ok(())),
            EventKind::DrainTimeout => Some(Err(format!("it did not confirm within {:?}", self.drain_max))),
            EventKind::Event(Event::Connected { channel }) => {
                switch.up.insert(*channel);
                None
            }
            EventKind::Event(Event::Disconnected { channel, why }) => {
                switch.up.remove(channel);
                for txn in switch.move_to_backlog() {
                    receipts.advance(txn, node, |_| Progress::Offline);
                }
                // A remote bridge that waits for the driver no more closes the connection.
                let is_over = *channel == Channel::OpenFlow && switch.confirmed_txn != Some(*txn);
                is_over.then(|| Err(format!("not connected: {why}")))
            }
            EventKind::Event(Event::Confirmed { txn: confirmed, at }) => {
                if switch.answered(*confirmed) {
                    receipts.confirm(*confirmed, node, *at);
                }
                switch.confirmed_txn = switch.confirmed_txn.max(Some(*confirmed));
                // Without its database, the switch cannot be left. It has lost its flows and groups.
                let is_all = confirmed == txn && !switch.up.contains(&Channel::Ovsdb);
                is_all.then_some(Ok(()))
            }
            EventKind::Event(Event::Left) => Some(Ok(())),
            EventKind::Event(Event::Refused { txn: Some(refused), count, first }) => {
                let why = refusal(*count, first);
                if switch.answered(*refused) {
                    receipts.advance(*refused, node, |_| Progress::Refused(why.clone()));
                }
                (refused == txn).then_some(Err(why))
            }
            EventKind::Event(_) | EventKind::HoldTimeout { .. } => None,
        };
        if let Some(end) = end {
            let Draining { node, switch, .. } = self.draining.swap_remove(index);
            match end {
                Ok(()) => info!(switch = node, "switch removed; its flows, groups and ports are deleted"),
                Err(why) => warn!(switch = node, "transport node deleted, its switch is {}", leftovers(&why)),
            }
            let driver = self.release(&node, switch);
            self.end(driver);
        }
        true
    }

    /// Marks the unconfirmed transactions of a removed switch as offline, and returns its driver.
    fn release(&mut self, node: &str, switch: Switch) -> Option<Box<dyn Driver>> {
        for txn in switch.pending.into_keys() {
            self.receipts.advance(txn, node, |_| Progress::Offline);
        }
        switch.driver
    }

    /// Handles an event of a switch. What it tells of the switch that the rules do not have is a
    /// [difference](Fleet::take_difference) from now on.
    pub(crate) fn event(&mut self, event: FleetEvent) {
        if let EventKind::HoldTimeout { txn, begun } = event.what {
            return self.hold_timeout(txn, begun);
        }
        if self.orders.is_empty() {
            return self.handle(event);
        }
        let node = event.node.clone();
        self.handle(event);
        self.proceed_after(&node);
    }

    fn handle(&mut self, event: FleetEvent) {
        if self.draining_event(&event) {
            return;
        }
        let now = self.now();
        let FleetEvent { node, generation, what } = event;
        let EventKind::Event(event) = what else { return };
        let Some(switch) = self.switches.get_mut(&node).filter(|switch| switch.generation == generation)
        else {
            return;
        };
        match event {
            Event::Connected { channel } => {
                info!(switch = node, %channel, "switch connected");
                switch.up.insert(channel);
                // The switch will be reconciled again, because the last reconciliation did not include this channel.
                switch.reconciled = false;
                switch.faults.connection.remove(&channel);
                self.faults.ends(&SwitchFault::connection(&node, channel));
                if channel == Channel::OpenFlow {
                    switch.link = Link::Up(now);
                    self.watch.look();
                }
            }
            Event::Disconnected { channel, why } => {
                // It may be over within milliseconds. Then it is no fault.
                debug!(switch = node, %channel, why, "switch disconnected");
                self.faults.begins(SwitchFault::connection(&node, channel), now);
                switch.up.remove(&channel);
                switch.reconciled = false;
                switch.faults.connection.insert(channel, why);
                if channel == Channel::OpenFlow {
                    // It gets all of them together when it is back.
                    switch.push_held();
                    if switch.link.is_up() {
                        switch.link = Link::Down(now);
                        self.watch.look();
                    }
                }
                for txn in switch.move_to_backlog() {
                    self.receipts.advance(txn, &node, |_| Progress::Offline);
                }
            }
            Event::Report(report) => {
                let problems = report.problems.iter().map(|problem| SwitchFault::problem(&node, problem));
                let is_problem = |fault: &SwitchFault| fault.is_problem_of(&node);
                self.faults.become_these(is_problem, &problems.collect(), now);
                switch.reported(report);
                self.watch.differs(node);
            }
            Event::Learned { table, cookie, is_new } => {
                switch.observed.learned(table, cookie, is_new);
                self.watch.differs(node);
            }
            Event::Confirmed { txn, at } => {
                debug!(switch = node, txn, "transaction in force");
                switch.confirmed_txn = switch.confirmed_txn.max(Some(txn));
                if switch.answered(txn) {
                    self.receipts.confirm(txn, &node, at);
                }
            }
            Event::Refused { txn, count, first } => {
                // The driver logs it.
                let text = refusal(count, &first);
                if let Some(txn) = txn.filter(|txn| switch.answered(*txn)) {
                    self.receipts.advance(txn, &node, |_| Progress::Refused(text.clone()));
                }
                switch.faults.refused = Some(text);
            }
            Event::RefusedTotal { refused } => {
                switch.refused = refused;
                if refused == 0 {
                    info!(switch = node, "switch no longer refuses anything");
                    switch.faults.refused = None;
                }
            }
            Event::Synced { flow_mods, tunnels_changed } => {
                info!(switch = node, flow_mods, tunnels_changed, "switch reconciled");
                switch.reconciled = true;
                switch.sync_flow_mods = Some(flow_mods);
                // The comparison also repaired changes by others and leftovers of a failed driver.
                switch.faults.foreign = None;
                switch.faults.driver = None;
            }
            Event::ForeignChanges { count, first, repair_in } => {
                switch.changed_by_others(count, &first, repair_in);
            }
            Event::Announced { names } => self.announced.push((node, names)),
            Event::MissedChanges { count, last } => switch.found_changes(count, &last),
            Event::Repaired { flow_mods } => {
                info!(switch = node, flow_mods, "changes of others are undone");
                switch.faults.foreign = None;
            }
            // The driver logs it.
            Event::Withheld { why } => switch.faults.withheld = why,
            Event::Left => {}
            Event::Failed { why, restart_in } => switch.driver_failed(&why, restart_in),
        }
    }

    /// Records the verdict of the rules on the report of a switch.
    pub(crate) fn report_judged(&mut self, node: &str, refused: Option<String>) {
        if let Some(why) = &refused {
            warn!(switch = node, why, "report of the switch not accepted in full; the rest will be retried");
        }
        if let Some(switch) = self.switches.get_mut(node) {
            switch.faults.report = refused;
        }
    }

    /// Reads from the switch of a transport node what it has learned.
    pub(crate) fn learned(&self, node: &str, table: u8, matching: &Match) -> Reading {
        match self.switches.get(node).and_then(|switch| switch.driver.as_ref()) {
            Some(driver) => driver.learned(table, matching),
            None => Box::pin(std::future::ready(Err(ReadError::NotConnected))),
        }
    }

    /// Gives the switch of a transport node this desired state, which was derived again.
    pub(crate) fn correct(&self, node: &str, given: Given) {
        if let Some(driver) = self.switches.get(node).and_then(|switch| switch.driver.as_ref()) {
            give(&**driver, given);
        }
    }

    /// What switches have announced as often as it is to be, since the last call.
    pub(crate) fn take_announced(&mut self) -> Vec<(String, BTreeSet<String>)> {
        std::mem::take(&mut self.announced)
    }

    /// Reads from the switch of a transport node what its meters have counted.
    pub(crate) fn meter_counts(&self, node: &str) -> Asking<Vec<MeterCount>> {
        match self.switches.get(node).and_then(|switch| switch.driver.as_ref()) {
            Some(driver) => driver.meter_counts(),
            None => Box::pin(std::future::ready(Err(ReadError::NotConnected))),
        }
    }

    /// Reads from the switch of a transport node what these flows have counted.
    pub(crate) fn flow_counts(&self, node: &str, keys: Vec<FlowKey>) -> Asking<Vec<FlowCount>> {
        match self.switches.get(node).and_then(|switch| switch.driver.as_ref()) {
            Some(driver) => driver.flow_counts(keys),
            None => Box::pin(std::future::ready(Err(ReadError::NotConnected))),
        }
    }

    /// Reads from the switch of a transport node the flows of these tables.
    pub(crate) fn table_flows(&self, node: &str, tables: Vec<u8>) -> Asking<Vec<SeenFlow>> {
        match self.switches.get(node).and_then(|switch| switch.driver.as_ref()) {
            Some(driver) => driver.table_flows(tables),
            None => Box::pin(std::future::ready(Err(ReadError::NotConnected))),
        }
    }

    /// The deleted transport nodes whose switches have not confirmed the removal, and what that means if the controller ends now.
    fn unfinished(&self) -> impl Iterator<Item = (&str, String)> {
        let why = "the controller ends before it has confirmed the removal";
        self.draining.iter().map(move |draining| (draining.node.as_str(), leftovers(why)))
    }

    /// The transport nodes, in order.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &str> {
        self.switches.keys().map(String::as_str)
    }

    /// The state of a transport node's switch, given its desired state's counts and its number of virtual interfaces.
    pub(crate) fn status(&self, node: &str, counts: DesiredCounts, vifs: usize) -> Option<SwitchStatus> {
        let (node, switch) = self.switches.get_key_value(node)?;
        let connected = switch.up.len() == 2;
        let reconciled = connected && switch.reconciled && switch.unanswered() == 0;
        Some(SwitchStatus {
            node: node.clone(),
            connected,
            synced: reconciled && switch.faults.are_settled() && switch.refused == 0,
            refused: switch.refused,
            last_error: switch.faults.last_error().unwrap_or_default(),
            pending: switch.unanswered(),
            confirmed_txn: switch.confirmed_txn,
            flows: counts.flows,
            groups: counts.groups,
            tunnels: counts.tunnels,
            patches: counts.patches,
            vifs,
            sync_flow_mods: switch.sync_flow_mods,
            foreign_changes: switch.foreign_changes,
            last_foreign_change: switch.last_foreign_change.clone(),
            driver_restarts: switch.driver_restarts,
            last_driver_failure: switch.last_driver_failure.clone(),
            strays: Strays::default(),
        })
    }
}

impl Drop for Fleet {
    /// What the controller does not wait for when it ends is said: nobody removes it after the next start.
    fn drop(&mut self) {
        for (node, farewell) in self.unfinished() {
            warn!(switch = node, "transport node deleted, its switch is {farewell}");
        }
    }
}

/// Instructs the operator to clean up a switch that keeps flows, groups and ports of the controller.
fn leftovers(why: &str) -> String {
    format!(
        "left unchanged: {why}; delete the flows and groups of {BRIDGE} and the ports with external_ids:weft by hand, or \
         apply the node again"
    )
}

/// The refusals of a switch, as one line.
fn refusal(count: usize, first: &[Rejection]) -> String {
    let first = first.first().map(ToString::to_string).unwrap_or_default();
    match count {
        0 | 1 => format!("refused {first}"),
        _ => format!("refused {first} (and {} more)", count - 1),
    }
}

fn config(
    node: &str,
    address: &SwitchAddress,
    conventions: &Conventions,
    owner: Option<Arc<Owner>>,
) -> Result<ovs_driver::Config, String> {
    let endpoint = |name: &str, endpoint: &Option<String>, absent: &str| match endpoint {
        Some(endpoint) => endpoint.parse().map_err(|error| format!("{name}: {endpoint}: {error}")),
        None => Err(format!("{name}: is not set, and {absent} is not supported yet")),
    };
    Ok(ovs_driver::Config {
        name: node.to_owned(),
        ovsdb: endpoint("ovsdb", &address.ovsdb, "a switch that dials in")?,
        openflow: endpoint("openflow", &address.openflow, "setting the bridge's controller")?,
        bridge: BRIDGE.to_owned(),
        datapath_type: address.datapath_type.clone(),
        datapath_id: None,
        tunnel_option: conventions.tunnel_option,
        learned_tables: conventions.learned_tables.clone(),
        watched_tables: conventions.watched_tables.clone(),
        learned_limit: None,
        owner,
    })
}

#[cfg(test)]
mod tests;
