//! The switches: the state of each, and what its driver is to do.
//!
//! Pure: the caller passes the time, and carries out the [`DriverOrder`]s. A driver receives the full desired state when it starts, and
//! the changes of each transaction from then on, whether its switch is connected or not. It merges changes, so nothing is queued for an
//! offline switch; it sends the difference when the switch reconnects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use switch_model::{Channel, Event, Rejection};
use tracing::{debug, info, warn};

use crate::core::{AddressChange, AddressChanges, DesiredCounts, Given, Strays, SwitchAddress};
use crate::lasting::Lasting;
use crate::levels::{Link, Moment};
use crate::now::Now;
use crate::receipt::{Progress, Receipts};
use crate::underlay::Underlay;

mod driver;
mod faults;
mod measure;
mod order;
mod state;
mod timer;
mod watch;

pub use driver::{DriverId, DriverOrder, News, SwitchNews};
use faults::SwitchFault;
use order::Order;
use state::{Switch, Writes};
use timer::{Timeout, Timers};
use watch::Watch;

/// The integration bridge on every transport node.
pub const BRIDGE: &str = "br-int";

/// The time that the switch of a deleted transport node has to remove the controller's flows, groups and ports.
const DRAIN_MAX: Duration = Duration::from_secs(30);

/// The state of one switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchStatus {
    /// The transport node.
    pub node: String,
    /// Whether both connections are up.
    pub connected: bool,
    /// Since when they are not, as far as this start of the controller knows.
    pub not_connected_since: Option<SystemTime>,
    /// Whether it has been compared with its desired state since it connected.
    pub reconciled: bool,
    /// The first transaction that it has not confirmed.
    pub unconfirmed_from: Option<u64>,
    /// Whether the switch is in sync with its desired state.
    pub synced: bool,
    /// The most important error; empty if there is none.
    pub last_error: String,
    /// The number of flows, groups, tunnels and patch ports that it refuses.
    pub refused: usize,
    /// The transactions of which it has refused something, until it refuses nothing any more: the newest, as far as this start of the controller knows.
    pub refused_txns: Arc<BTreeSet<u64>>,
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
    /// The version of Open vSwitch that it reports; empty if it has reported none since the controller started.
    pub ovs_version: String,
}

/// All switches.
pub struct Fleet {
    switches: BTreeMap<String, Switch>,
    draining: Vec<Draining>,
    /// The transactions that not all their switches have got.
    orders: BTreeMap<u64, Order>,
    /// The number of drivers so far.
    drivers: u64,
    /// What drivers are to do, in this order.
    told: Vec<DriverOrder>,
    timers: Timers,
    /// The transport nodes whose switches have reported and are written to as soon as the rules know that report.
    reporting: BTreeSet<String>,
    /// When the controller started, for [`Moment`]s.
    begun: Instant,
    now: Now,
    watch: Watch,
    /// The faults of switches, each logged once it has lasted.
    faults: Lasting<SwitchFault>,
    announced: Vec<(String, BTreeSet<String>)>,
    underlay: Underlay,
    pub(crate) receipts: Receipts,
}

/// The switch of a deleted transport node, whose driver still removes the controller's flows, groups and ports.
struct Draining {
    node: String,
    /// The transaction that deleted it.
    txn: u64,
    switch: Switch,
}

impl Fleet {
    /// A fleet without switches.
    pub fn new(now: Now) -> Self {
        Fleet {
            switches: BTreeMap::new(),
            draining: Vec::new(),
            orders: BTreeMap::new(),
            drivers: 0,
            told: Vec::new(),
            timers: Timers::default(),
            reporting: BTreeSet::new(),
            begun: now.instant,
            now,
            watch: Watch::default(),
            faults: Lasting::default(),
            announced: Vec::new(),
            underlay: Underlay::default(),
            receipts: Receipts::default(),
        }
    }

    /// It is this time now.
    pub(crate) fn set_now(&mut self, now: Now) {
        self.now = now;
    }

    /// The time on the wall clock.
    pub(crate) fn wall(&self) -> SystemTime {
        self.now.wall
    }

    /// The time on the clock that never goes back.
    pub(crate) fn now(&self) -> Moment {
        self.now.instant.saturating_duration_since(self.begun)
    }

    /// This time on the clock that [`Now`] is read from.
    pub(crate) fn instant(&self, moment: Moment) -> Instant {
        self.begun + moment
    }

    /// Takes what drivers are to do, in this order.
    pub(crate) fn take_told(&mut self) -> Vec<DriverOrder> {
        std::mem::take(&mut self.told)
    }

    /// Starts a driver for each of these switches, of which the rules may have reports from before. Each writes once its switch has
    /// reported: a host that was restarted meanwhile has given its ports other numbers, and flows with the former ones would connect
    /// the ports of one tenant as those of another. A switch whose database cannot be reached therefore keeps what it has, and its
    /// status says so. It forwards as before, whereas flows with wrong numbers break the isolation of tenants.
    pub(crate) fn start<'a>(
        &mut self,
        addresses: impl Iterator<Item = (&'a String, &'a Arc<SwitchAddress>)>,
    ) {
        for (node, address) in addresses {
            self.add_node(node, address, None);
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
            if change.after.is_none() && switch.is_driven() && switch.faults.withheld.is_none() {
                let what =
                    match [Channel::OpenFlow, Channel::Ovsdb].map(|channel| switch.up.contains(&channel)) {
                        [true, true] => continue,
                        [true, false] => format!(
                            "its database is not connected; the ports marked external_ids:weft stay if it is \
                         not back within {DRAIN_MAX:?}"
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
        let mut starting = Vec::new();
        if !addresses.is_empty() {
            self.watch.look();
        }
        for (node, change) in addresses {
            match &change.after {
                None => self.remove_node(node, txn, &given),
                Some(address) => starting.push((node, address)),
            }
        }
        // No two drivers manage one switch, even if transport nodes exchange switches: all stop before any starts.
        for (node, address) in &starting {
            self.stop_predecessors(node, address);
        }
        for (node, address) in starting {
            let has_other_endpoints = addresses.get(node).is_some_and(AddressChange::reconnects);
            self.add_node(node, address, (!has_other_endpoints).then(|| given(node)));
        }
    }

    /// Lets the switches be written to whose first report the rules have. Everything that the rules have is on disk. `is_known`: whether
    /// all port numbers that the rules have of a switch are those of the last report that they were given.
    pub(crate) fn begin_to_write(&mut self, is_known: impl Fn(&str) -> bool, given: impl Fn(&str) -> Given) {
        let Fleet { reporting, switches, told, .. } = self;
        reporting.retain(|node| {
            let switch = switches.get_mut(node).filter(|switch| switch.writes == Writes::OnceKnown);
            let Some(switch) = switch else { return false };
            let waits = !switch.observed.has_taken_reports() || !is_known(node);
            if !waits {
                switch.writes = Writes::Now;
                told.push(DriverOrder::Give(switch.driver, given(node)));
            }
            waits
        });
    }

    /// Stops the drivers that must not run any more when the driver of a transport node starts.
    fn stop_predecessors(&mut self, node: &str, address: &SwitchAddress) {
        if let Some(switch) = self.switches.remove(node) {
            info!(switch = node, "endpoints changed; the previous switch keeps its flows");
            self.release(node, switch);
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
            self.release(&node, switch);
        }
    }

    /// Starts the driver of a switch. With nothing given, it writes nothing until the switch has reported.
    fn add_node(&mut self, node: &str, address: &Arc<SwitchAddress>, given: Option<Given>) {
        self.drivers += 1;
        let driver = DriverId(self.drivers);
        let mut switch = Switch::new(driver, address.clone(), self.now(), self.now.wall);
        if given.is_none() {
            switch.writes = Writes::OnceReported;
        }
        self.switches.insert(node.to_owned(), switch);
        let (node, address) = (node.to_owned(), address.clone());
        self.told.push(DriverOrder::Start { node, driver, address, given });
    }

    /// Removes a switch: at once if it is offline or has nothing to remove, otherwise once it has confirmed the
    /// removal or the time for it is over.
    fn remove_node(&mut self, node: &str, txn: u64, given: impl Fn(&str) -> Given) {
        let Some(mut switch) = self.switches.remove(node) else { return };
        self.forget_faults(node);
        switch.push_held(&mut self.told);
        if switch.is_driven() && switch.up.contains(&Channel::OpenFlow) {
            if switch.writes != Writes::Now {
                // Nothing is left that depends on the numbers of its ports.
                self.told.push(DriverOrder::Give(switch.driver, given(node)));
            }
            self.told.push(DriverOrder::Leave(switch.driver));
            let timeout = Timeout::Drain(switch.driver);
            self.timers.set(self.now() + DRAIN_MAX, timeout);
            self.draining.push(Draining { node: node.to_owned(), txn, switch });
            return;
        }
        if switch.faults.withheld.is_some() {
            info!(switch = node, "transport node deleted; its switch is somebody else's and stays as it is");
        } else if switch.last_pushed == Some(txn) {
            warn!(switch = node, "transport node deleted, its switch is {}", leftovers("not connected"));
        } else {
            info!(switch = node, "transport node deleted; its switch had nothing to remove");
        }
        self.release(node, switch);
    }

    /// The time is over for what has come to no end by now.
    pub(crate) fn pass(&mut self) {
        for timeout in self.timers.due(self.now()) {
            match timeout {
                Timeout::Drain(driver) => self.drain_timeout(driver),
                Timeout::Hold { txn, begun } => self.hold_timeout(txn, begun),
            }
        }
    }

    /// When the time is over for something.
    pub(crate) fn passes_at(&self) -> Option<Moment> {
        self.timers.next()
    }

    /// The time allowed for a draining switch is over.
    fn drain_timeout(&mut self, driver: DriverId) {
        let Some(index) = self.draining.iter().position(|draining| draining.switch.driver == driver) else {
            return;
        };
        let Draining { txn, switch, .. } = &self.draining[index];
        // Its mark may stay, but it has nothing else left.
        let is_done = switch.confirmed_txn == Some(*txn);
        let end = if is_done { Ok(()) } else { Err(format!("it did not confirm within {DRAIN_MAX:?}")) };
        self.drained(index, end);
    }

    /// A draining switch is given up, with this outcome.
    fn drained(&mut self, index: usize, end: Result<(), String>) {
        let Draining { node, switch, .. } = self.draining.swap_remove(index);
        match end {
            Ok(()) => info!(switch = node, "switch removed; its flows, groups and ports are deleted"),
            Err(why) => warn!(switch = node, "transport node deleted, its switch is {}", leftovers(&why)),
        }
        self.release(&node, switch);
    }

    /// Handles news of a draining switch. Returns false if the news are of another switch.
    fn draining_news(&mut self, news: &SwitchNews) -> bool {
        let Some(index) = self.draining.iter().position(|draining| draining.switch.driver == news.driver)
        else {
            return false;
        };
        let Draining { node, txn, switch } = &mut self.draining[index];
        let receipts = &mut self.receipts;
        // The outcome, once known.
        let end = match &news.what {
            News::Event(Event::Connected { channel }) => {
                switch.up.insert(*channel);
                None
            }
            News::Event(Event::Disconnected { channel, why }) => {
                switch.up.remove(channel);
                for txn in switch.move_to_backlog() {
                    receipts.advance(txn, node, |_| Progress::Offline);
                }
                // A remote bridge that waits for the driver no more closes the connection.
                let is_over = *channel == Channel::OpenFlow && switch.confirmed_txn != Some(*txn);
                is_over.then(|| Err(format!("not connected: {why}")))
            }
            News::Event(Event::Confirmed { txn: confirmed, at, .. }) => {
                if switch.answered(*confirmed) {
                    receipts.confirm(*confirmed, node, *at);
                }
                switch.confirmed_txn = switch.confirmed_txn.max(Some(*confirmed));
                // Without its database, the switch cannot be left. It has lost its flows and groups.
                let is_all = confirmed == txn && !switch.up.contains(&Channel::Ovsdb);
                is_all.then_some(Ok(()))
            }
            News::Event(Event::Left) => Some(Ok(())),
            News::Event(Event::Refused { txn: Some(refused), count, first }) => {
                let why = refusal(*count, first);
                if switch.answered(*refused) {
                    receipts.advance(*refused, node, |_| Progress::Refused(why.clone()));
                }
                (refused == txn).then_some(Err(why))
            }
            News::Event(_) | News::NotStarted(_) | News::Sent(..) | News::Counted(_) => None,
        };
        if let Some(end) = end {
            self.drained(index, end);
        }
        true
    }

    /// Marks the unconfirmed transactions of a removed switch as offline, and stops its driver.
    fn release(&mut self, node: &str, switch: Switch) {
        if switch.is_driven() {
            self.told.push(DriverOrder::Stop(switch.driver));
        }
        for txn in switch.pending.into_keys() {
            self.receipts.advance(txn, node, |_| Progress::Offline);
        }
    }

    /// Handles news of a switch. What they tell of the switch that the rules do not have is a
    /// [difference](Fleet::take_difference) from now on.
    pub(crate) fn news(&mut self, news: SwitchNews) {
        if self.orders.is_empty() {
            return self.handle(news);
        }
        let node = news.node.clone();
        self.handle(news);
        self.proceed_after(&node);
    }

    fn handle(&mut self, news: SwitchNews) {
        if self.draining_news(&news) {
            return;
        }
        let now = self.now();
        let SwitchNews { node, driver, what } = news;
        let Some(switch) = self.switches.get_mut(&node).filter(|switch| switch.driver == driver) else {
            return;
        };
        match what {
            News::Event(event) => self.event(node, event, now),
            News::NotStarted(why) => {
                warn!(switch = node, why, "switch cannot be managed");
                switch.faults.unreachable = Some(why);
            }
            // They say nothing of the switch itself.
            News::Sent(..) | News::Counted(_) => {}
        }
    }

    fn event(&mut self, node: String, event: Event, now: Moment) {
        let Some(switch) = self.switches.get_mut(&node) else { return };
        match event {
            Event::Connected { channel } => {
                info!(switch = node, %channel, "switch connected");
                switch.up.insert(channel);
                if switch.up.len() == 2 {
                    switch.down_since = None;
                }
                // The switch will be reconciled again, because the last reconciliation did not include this channel.
                switch.reconciled = false;
                switch.faults.connection.remove(&channel);
                self.faults.ends(&SwitchFault::connection(&node, channel));
                if channel == Channel::OpenFlow {
                    let before = std::mem::replace(&mut switch.link, Link::Up(now));
                    self.watch.connected(before, now);
                }
            }
            Event::Disconnected { channel, why } => {
                // It may be over within milliseconds. Then it is no fault.
                debug!(switch = node, %channel, why, "switch disconnected");
                self.faults.begins(SwitchFault::connection(&node, channel), now);
                switch.up.remove(&channel);
                switch.down_since.get_or_insert(self.now.wall);
                switch.reconciled = false;
                switch.faults.connection.insert(channel, why);
                if channel == Channel::OpenFlow {
                    // It gets all of them together when it is back.
                    switch.push_held(&mut self.told);
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
                if switch.writes == Writes::OnceKnown {
                    self.reporting.insert(node.clone());
                }
                self.watch.differs(node);
            }
            Event::Learned { table, cookie, is_new } => {
                switch.observed.learned(table, cookie, is_new);
                self.watch.differs(node);
            }
            Event::Confirmed { txn, at, .. } => {
                debug!(switch = node, txn, "transaction in force");
                switch.confirmed_txn = switch.confirmed_txn.max(Some(txn));
                if switch.answered(txn) {
                    self.receipts.confirm(txn, &node, at);
                }
            }
            Event::Refused { txn, count, first } => {
                // The driver logs it.
                let text = refusal(count, &first);
                if let Some(txn) = txn {
                    switch.has_refused(txn);
                    if switch.answered(txn) {
                        self.receipts.advance(txn, &node, |_| Progress::Refused(text.clone()));
                    }
                }
                switch.faults.refused = Some(text);
            }
            Event::RefusedTotal { refused } => {
                switch.refused = refused;
                if refused == 0 {
                    info!(switch = node, "switch no longer refuses anything");
                    switch.faults.refused = None;
                    // What it refuses while it is away is not known.
                    if switch.up.contains(&Channel::OpenFlow) {
                        switch.refused_txns = Arc::default();
                    }
                }
            }
            Event::Synced { flow_mods, tunnels_changed } => {
                info!(switch = node, flow_mods, tunnels_changed, "switch reconciled");
                switch.reconciled = true;
                // It was asked for everything again.
                if switch.faults.refused.is_none() {
                    switch.refused_txns = Arc::default();
                }
                switch.sync_flow_mods = Some(flow_mods);
                // The comparison also repaired changes by others and leftovers of a failed driver.
                switch.faults.foreign = None;
                switch.faults.driver = None;
            }
            Event::ForeignChanges { count, first, repair_in } => {
                switch.changed_by_others(count, &first, repair_in, self.now.wall);
            }
            Event::Announced { names } => self.announced.push((node, names)),
            Event::MissedChanges { count, last } => switch.found_changes(count, &last, self.now.wall),
            Event::Repaired { flow_mods } => {
                info!(switch = node, flow_mods, "changes of others are undone");
                switch.faults.foreign = None;
            }
            // The driver logs it.
            Event::Withheld { why } => switch.faults.withheld = why,
            Event::Left => {}
            Event::Failed { why, restart_in } => switch.driver_failed(&why, restart_in, self.now.wall),
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

    /// The driver of a transport node's switch.
    fn driver(&self, node: &str) -> Option<DriverId> {
        self.switches.get(node).filter(|switch| switch.is_driven()).map(|switch| switch.driver)
    }

    /// Gives the switch of a transport node its desired state, which was derived again. One that is not written to yet gets it later.
    pub(crate) fn correct(&mut self, node: &str, given: impl Fn(&str) -> Given) {
        let switch = self.switches.get(node).filter(|switch| switch.writes == Writes::Now);
        if let Some(switch) = switch.filter(|switch| switch.is_driven()) {
            self.told.push(DriverOrder::Give(switch.driver, given(node)));
        }
    }

    /// What switches have announced as often as it is to be, since the last call.
    pub(crate) fn take_announced(&mut self) -> Vec<(String, BTreeSet<String>)> {
        std::mem::take(&mut self.announced)
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
            not_connected_since: switch.down_since,
            reconciled: connected && switch.reconciled,
            unconfirmed_from: switch.unconfirmed_from(),
            synced: reconciled && switch.faults.are_settled() && switch.refused == 0,
            refused: switch.refused,
            refused_txns: switch.refused_txns.clone(),
            last_error: switch.last_error().unwrap_or_default(),
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
            ovs_version: switch.ovs_version.clone(),
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

#[cfg(test)]
mod tests;
