//! The desired state, shared between the handle and the driver's task.
//!
//! This is not a queue of messages. Changes that the task has not taken yet are merged flow by flow, so the owner never
//! waits for a slow or unreachable switch, and pending changes are bounded by the size of the desired state. Each
//! transaction that waits for its confirmation takes a few more words; transactions that wait for an unreachable switch
//! are merged into one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use tokio::sync::Notify;

use crate::awaited::Awaited;
use crate::conflicts::Conflicts;
use crate::forwarding::Forwarding;
use crate::frames::Frames;
use crate::in_database::Wanted;
use crate::ports::{self, Ports};
use switch_model::{Changes, Channel, Desired, Frame};

#[derive(Debug, Default)]
pub(crate) struct Shared {
    intent: Mutex<Intent>,
    /// What the owner wants while the intent is locked, in order. Whoever locks the intent next does it first.
    inbox: Mutex<Vec<Wish>>,
    changed: Notify,
    /// Wakes the task that sends frames.
    frames: Notify,
    /// Wakes the task that reports.
    conflicts: Notify,
}

/// What the owner wants.
#[derive(Debug)]
pub(crate) enum Wish {
    /// This desired state instead of the former.
    Desired(Arc<Desired>),
    /// The changes of this transaction.
    Push(u64, Box<Changes>),
    /// These frames, once all that is wanted so far is in force.
    Announce(BTreeMap<String, Frame>),
    /// To leave the switch, once it is in sync.
    Leave,
}

impl Shared {
    /// Locks the intent. Do not wait while holding the lock.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Intent> {
        let mut intent = self.intent.lock().unwrap_or_else(PoisonError::into_inner);
        self.empty_inbox(&mut intent);
        intent
    }

    /// Takes a wish of the owner, and wakes the task. Never waits: a switch with 300,000 flows is compared while the intent is
    /// locked, and the owner is one thread for all switches.
    pub(crate) fn wish(&self, wish: Wish) {
        match self.intent.try_lock() {
            Ok(mut intent) => {
                self.empty_inbox(&mut intent);
                intent.take(wish);
            }
            Err(TryLockError::Poisoned(poisoned)) => {
                let mut intent = poisoned.into_inner();
                self.empty_inbox(&mut intent);
                intent.take(wish);
            }
            Err(TryLockError::WouldBlock) => self.inbox().push(wish),
        }
        self.wake();
    }

    /// Wakes the task.
    pub(crate) fn wake(&self) {
        self.changed.notify_one();
    }

    fn inbox(&self) -> MutexGuard<'_, Vec<Wish>> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn empty_inbox(&self, intent: &mut Intent) {
        // The inbox must not stay locked meanwhile.
        let wishes = std::mem::take(&mut *self.inbox());
        for wish in wishes {
            intent.take(wish);
        }
    }

    /// Waits until the intent has changed since the last call.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Wakes the task that sends frames.
    pub(crate) fn frames_are_due(&self) {
        self.frames.notify_one();
    }

    /// Address conflicts have come or gone.
    pub(crate) fn conflicts_have_changed(&self) {
        self.conflicts.notify_one();
    }

    /// Waits until address conflicts are to be reported. Cancel safe.
    pub(crate) async fn conflicts_are_due(&self) {
        loop {
            let due = self.lock().conflicts.due(tokio::time::Instant::now());
            let is_due = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = is_due => return,
                () = self.conflicts.notified() => {}
            }
        }
    }

    /// Waits until frames are to be sent.
    pub(crate) async fn frame_is_due(&self) {
        loop {
            let due = self.lock().frames.due();
            let is_due = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = is_due => {}
                () = self.frames.notified() => {}
            }
            if self.lock().frames.due().is_some_and(|due| due <= tokio::time::Instant::now()) {
                return;
            }
        }
    }
}

/// What the database of the switch is to have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Database {
    pub(crate) ports: Ports,
    /// The kinds of things besides ports.
    pub(crate) things: Wanted,
}

#[derive(Debug, Default)]
pub(crate) struct Intent {
    /// Whether the desired state is known. Until then nothing may be written to the switch: a controller that has just
    /// started has computed nothing yet, and the switch is probably in sync with what it will compute.
    pub(crate) given: bool,
    /// Whether the driver is to leave the switch.
    pub(crate) leaving: Leaving,
    pub(crate) forwarding: Forwarding,
    /// A new one for each change, so that what was compared with one pointer is not compared again.
    pub(crate) database: Arc<Database>,
    /// Learned flows to report.
    pub(crate) awaited: Awaited,
    /// Address conflicts to report.
    pub(crate) conflicts: Conflicts,
    /// Frames to send.
    pub(crate) frames: Frames,
    /// Why the last changes were sent one by one, and not as a whole.
    pub(crate) not_as_a_whole: Option<String>,
    /// By port, the last transaction that changed it and the version of the intent that it made, until that version
    /// is in force.
    pub(crate) ports_touched: BTreeMap<String, (u64, u64)>,
    /// Unconfirmed transactions that need flows only, and those that need ports too.
    waiting: Waiting,
    waiting_for_ports: Waiting,
    /// The connections that are up, as reported to the owner.
    up: BTreeSet<Channel>,
    /// How often the intent has changed.
    version: u64,
}

/// Whether a driver leaves its switch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Leaving {
    #[default]
    No,
    /// Once the switch is in sync.
    Wanted,
    /// The switch does not belong to it any more.
    Left,
}

/// Transactions that wait for their confirmation, in order.
#[derive(Debug, Default)]
struct Waiting(VecDeque<Run>);

/// Consecutive transactions that are confirmed together. The last one names the run.
#[derive(Debug, Clone, Copy)]
struct Run {
    first: u64,
    last: u64,
    /// The version of the intent after the last one.
    version: u64,
}

impl Waiting {
    /// Adds a transaction, to be confirmed `alone` or with the one before.
    fn push(&mut self, txn: u64, version: u64, alone: bool) {
        match self.0.back_mut() {
            Some(run) if !alone => (run.last, run.version) = (txn, version),
            _ => self.0.push_back(Run { first: txn, last: txn, version }),
        }
    }

    /// Merges all waiting transactions into one confirmation.
    fn merge(&mut self) {
        if let (Some(Run { first, .. }), Some(last)) = (self.0.front(), self.0.back()) {
            let run = Run { first: *first, ..*last };
            self.0.clear();
            self.0.push_back(run);
        }
    }

    /// Removes the next run that is in force at `version`.
    fn next(&mut self, version: u64) -> Option<Run> {
        self.0.pop_front_if(|run| run.version <= version)
    }
}

impl Intent {
    fn take(&mut self, wish: Wish) {
        match wish {
            Wish::Desired(desired) => self.set_desired(&desired),
            Wish::Push(txn, changes) => self.push(txn, &changes),
            Wish::Announce(frames) => self.frames.announce(frames, self.version),
            Wish::Leave => self.leaving = Leaving::Wanted,
        }
    }

    pub(crate) fn set_desired(&mut self, desired: &Desired) {
        self.given = true;
        self.version += 1;
        self.forwarding.set(desired);
        self.ports_touched.clear();
        self.database = Arc::new(Database { ports: ports::desired(desired), things: Wanted::new(desired) });
        self.awaited.set(desired.awaited.keys().copied().collect(), self.version);
        self.frames.clear();
    }

    pub(crate) fn push(&mut self, txn: u64, changes: &Changes) {
        self.version += 1;
        self.forwarding.push(txn, changes);
        self.awaited.push(changes, self.version);
        self.frames.push(changes, self.version);
        if changes.touches_database() {
            self.push_database(txn, changes);
        }
        // Until it is given something, nobody knows when a transaction will be in force.
        let flows_up = self.given && self.up.contains(&Channel::OpenFlow);
        if changes.touches_database() {
            let up = flows_up && self.up.contains(&Channel::Ovsdb);
            self.waiting_for_ports.push(txn, self.version, up);
        } else {
            self.waiting.push(txn, self.version, flows_up);
        }
    }

    fn push_database(&mut self, txn: u64, changes: &Changes) {
        let database = Arc::make_mut(&mut self.database);
        for name in ports::deleted(changes) {
            database.ports.remove(name);
            // Only desired ports can be refused.
            self.ports_touched.remove(name);
        }
        for (name, port) in ports::added(changes) {
            self.ports_touched.insert(name.clone(), (txn, self.version));
            database.ports.insert(name, port);
        }
        database.things.push(changes);
    }

    /// Notes that a connection is up. Called before the event is sent, so that every transaction that the owner pushes
    /// after the event is confirmed individually.
    pub(crate) fn connected(&mut self, channel: Channel) {
        self.up.insert(channel);
    }

    /// Notes that a connection is down. Called before the event is sent. Transactions are confirmed together
    /// from now on. Returns whether the connection was up.
    pub(crate) fn disconnected(&mut self, channel: Channel) -> bool {
        let was_up = self.up.remove(&channel);
        self.waiting_for_ports.merge();
        if channel == Channel::OpenFlow {
            self.waiting.merge();
        }
        was_up
    }

    /// The current version, counted from 1.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Notes that the ports of this version are in force or refused.
    pub(crate) fn settle_ports(&mut self, version: u64) {
        self.ports_touched.retain(|_, (_, touched)| *touched > version);
    }

    /// The transactions to confirm, given the versions up to which flows and ports are in force. Leaves out transactions
    /// in `refused`, and removes them there. Of transactions that waited for an unreachable switch only the last is
    /// returned.
    pub(crate) fn confirm(&mut self, flows: u64, ports: u64, refused: &mut BTreeSet<u64>) -> Vec<u64> {
        let mut runs: Vec<Run> = std::iter::from_fn(|| self.waiting.next(flows)).collect();
        runs.extend(std::iter::from_fn(|| self.waiting_for_ports.next(flows.min(ports))));
        runs.sort_by_key(|run| run.version);
        let confirmed = runs.iter().map(|run| run.last).filter(|txn| !refused.contains(txn)).collect();
        for Run { first, last, .. } in runs {
            if refused.is_empty() {
                break;
            }
            refused.retain(|txn| !(first..=last).contains(txn));
        }
        confirmed
    }
}

#[cfg(test)]
mod tests {
    use switch_model::Edits;

    use super::*;
    use openflow_rs::FlowEntry;
    use switch_model::{Flow, FlowKey};

    fn flow(n: u64) -> (FlowKey, Flow) {
        let entry: FlowEntry = format!("table=1,reg0={n} actions=drop").parse().expect("a flow");
        let key = FlowKey::new(entry.table, entry.priority, &entry.matches).expect("a short match");
        (key, Flow::new(0, &entry.actions).expect("short actions"))
    }

    fn adds(n: u64) -> Changes {
        Changes { flows: Edits::add([flow(n)]), ..Changes::default() }
    }

    fn deletes(n: u64) -> Changes {
        Changes { flows: Edits::delete([flow(n).0]), ..Changes::default() }
    }

    fn tunnel(n: u64, add: bool) -> Changes {
        let tunnel =
            switch_model::Tunnel { encap: switch_model::Encap::Geneve, remote: switch_model::Remote::Flow };
        let name = format!("t{n}");
        if add {
            Changes { tunnels: Edits::add([(name, tunnel)]), ..Changes::default() }
        } else {
            Changes { tunnels: Edits::delete([name]), ..Changes::default() }
        }
    }

    /// Everything that can grow besides the desired state.
    fn entries(intent: &Intent) -> usize {
        let waiting = intent.waiting.0.len() + intent.waiting_for_ports.0.len();
        intent.forwarding.entries() + intent.ports_touched.len() + waiting
    }

    #[test]
    fn what_comes_and_goes_while_the_switch_is_away_leaves_nothing_behind() {
        let mut intent = Intent::default();
        let flows: BTreeMap<FlowKey, Flow> = (0..10).map(flow).collect();
        intent.set_desired(&Desired { flows: flows.clone(), ..Desired::default() });
        for channel in [Channel::Ovsdb, Channel::OpenFlow] {
            intent.connected(channel);
        }
        intent.forwarding.read_flows(&flows);
        intent.push(1, &deletes(3));
        intent.push(2, &tunnel(0, true));
        intent.forwarding.lost();
        for channel in [Channel::Ovsdb, Channel::OpenFlow] {
            intent.disconnected(channel);
        }
        let mut txn = 2;
        for n in 100..50_100 {
            for changes in [adds(n), tunnel(n, true), deletes(n), tunnel(n, false)] {
                txn += 1;
                intent.push(txn, &changes);
            }
            assert!(entries(&intent) < 10, "{} after {txn} transactions", entries(&intent));
        }
        assert_eq!(intent.forwarding.take().map(|batch| batch.len()), None, "nothing is known");
        // After reconnecting, the two transactions that waited are confirmed together with the later ones.
        intent.forwarding.read_flows(&flows);
        assert_eq!(intent.forwarding.take().map(|batch| batch.len()), Some(1));
        let version = intent.version();
        let mut refused = BTreeSet::from([1, 7]);
        assert_eq!(intent.confirm(version, version, &mut refused), [txn - 1, txn]);
        assert!(refused.is_empty());
    }

    #[test]
    fn a_switch_that_comes_and_goes_leaves_nothing_behind_either() {
        let mut intent = Intent::default();
        intent.set_desired(&Desired::default());
        let channels = [Channel::Ovsdb, Channel::OpenFlow];
        let mut txn = 0;
        for n in 0..1000 {
            for channel in channels {
                intent.connected(channel);
            }
            intent.forwarding.read_flows(&BTreeMap::new());
            for changes in [adds(n), tunnel(n, true), deletes(n), tunnel(n, false), adds(5000)] {
                txn += 1;
                intent.push(txn, &changes);
            }
            // The connection breaks before it is known whether the batch arrived.
            assert_eq!(intent.forwarding.take().map(|batch| batch.len()), Some(1));
            intent.forwarding.lost();
            for channel in channels {
                intent.disconnected(channel);
            }
            assert!(entries(&intent) < 5, "{} after {txn} transactions", entries(&intent));
        }
        let version = intent.version();
        assert_eq!(intent.confirm(version, version, &mut BTreeSet::new()), [txn - 1, txn]);
    }

    #[test]
    fn d26_the_owner_does_not_wait_while_a_switch_is_compared_and_its_order_is_kept() {
        let shared = Shared::default();
        let comparing = shared.lock();
        shared.wish(Wish::Desired(Arc::new(Desired { flows: [flow(1)].into(), ..Desired::default() })));
        shared.wish(Wish::Push(1, Box::new(adds(2))));
        shared.wish(Wish::Push(2, Box::new(deletes(1))));
        drop(comparing);
        // The next one comes after those that wait.
        shared.wish(Wish::Push(3, Box::new(adds(1))));
        shared.wish(Wish::Push(4, Box::new(deletes(2))));
        assert!(shared.inbox().is_empty());
        let mut intent = shared.lock();
        intent.forwarding.read_flows(&[flow(1)].into());
        assert_eq!(intent.forwarding.take().map(|batch| batch.len()), None, "the switch has what is wanted");
        let version = intent.version();
        assert_eq!(intent.confirm(version, version, &mut BTreeSet::new()), [4]);
    }

    #[test]
    fn a_slow_switch_costs_no_more_than_what_it_is_to_be_told() {
        let mut intent = Intent::default();
        intent.set_desired(&Desired::default());
        intent.connected(Channel::OpenFlow);
        intent.forwarding.read_flows(&BTreeMap::new());
        for n in 0..10_000 {
            intent.push(2 * n, &adds(n));
            intent.push(2 * n + 1, &deletes(n));
        }
        assert_eq!(intent.forwarding.entries(), 0);
        let version = intent.version();
        assert_eq!(intent.confirm(version, 0, &mut BTreeSet::new()), (0..20_000).collect::<Vec<u64>>());
    }

    #[test]
    fn what_is_pushed_before_anything_is_given_is_confirmed_together_afterwards() {
        let mut intent = Intent::default();
        for channel in [Channel::Ovsdb, Channel::OpenFlow] {
            intent.connected(channel);
        }
        for n in 0..10_000 {
            intent.push(2 * n, &adds(n));
            intent.push(2 * n + 1, &tunnel(n, true));
        }
        assert_eq!([&intent.waiting, &intent.waiting_for_ports].map(|waiting| waiting.0.len()), [1, 1]);
        intent.set_desired(&Desired::default());
        intent.push(20_000, &adds(0));
        let version = intent.version();
        assert_eq!(intent.confirm(version, version, &mut BTreeSet::new()), [19_998, 19_999, 20_000]);
    }

    #[test]
    fn a_transaction_that_only_needs_flows_does_not_wait_for_one_that_needs_tunnels() {
        let mut intent = Intent::default();
        intent.set_desired(&Desired::default());
        intent.connected(Channel::OpenFlow);
        for (txn, changes) in [(1, adds(1)), (2, tunnel(1, true)), (3, adds(2)), (4, tunnel(2, true))] {
            intent.push(txn, &changes);
        }
        let none = &mut BTreeSet::new();
        assert_eq!(intent.confirm(4, 0, none), [1, 3]);
        assert!(intent.confirm(5, 4, none).is_empty());
        assert_eq!(intent.confirm(5, 5, none), [4], "the database was away: one word for both");
    }
}
