//! What the owner of a driver wants, shared between its handle and the driver's task.
//!
//! Not a queue of messages: changes that the task has not taken yet are merged flow by flow, so the owner never
//! waits for a slow or absent switch, and what waits is bounded by the size of the desired state (and a few words
//! for each transaction that waits for its confirmation).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::desired::{Changes, Desired, Tunnel};
use crate::ledger::Ledger;

#[derive(Debug, Default)]
pub(crate) struct Shared {
    intent: Mutex<Intent>,
    changed: Notify,
}

impl Shared {
    /// The intent, for a short time: no waiting while it is held.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Intent> {
        self.intent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the intent and wakes the task.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Intent)) {
        change(&mut self.lock());
        self.changed.notify_one();
    }

    /// Waits until the intent has changed since the last call.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }
}

#[derive(Debug, Default)]
pub(crate) struct Intent {
    /// Whether the desired state is known. Before it is, nothing may be written to the switch: a controller that
    /// has just started knows nothing yet, and what it will want is probably there.
    pub(crate) given: bool,
    pub(crate) ledger: Ledger,
    pub(crate) tunnels: BTreeMap<String, Tunnel>,
    /// The last transaction that touched a tunnel and the version it made, until that is in force.
    pub(crate) tunnels_touched: BTreeMap<String, (u64, u64)>,
    /// Transactions without confirmation, in their order.
    waiting: VecDeque<Waiting>,
    /// How often the intent has changed.
    version: u64,
}

#[derive(Debug)]
struct Waiting {
    txn: u64,
    version: u64,
    touches_tunnels: bool,
}

impl Intent {
    pub(crate) fn set_desired(&mut self, desired: &Desired) {
        self.given = true;
        self.version += 1;
        self.ledger.set(desired);
        self.tunnels_touched.clear();
        self.tunnels.clone_from(&desired.tunnels);
    }

    pub(crate) fn push(&mut self, txn: u64, changes: &Changes) {
        self.version += 1;
        self.ledger.push(txn, changes);
        for name in &changes.tunnels_delete {
            self.tunnels.remove(name);
        }
        self.tunnels.extend(changes.tunnels_add.iter().map(|(name, tunnel)| (name.clone(), tunnel.clone())));
        let names = changes.tunnels_add.keys().chain(&changes.tunnels_delete);
        self.tunnels_touched.extend(names.map(|name| (name.clone(), (txn, self.version))));
        let touches_tunnels = changes.touches_tunnels();
        self.waiting.push_back(Waiting { txn, version: self.version, touches_tunnels });
    }

    /// The present version, counted from 1.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// The tunnels of this version are in force, or refused.
    pub(crate) fn settle_tunnels(&mut self, version: u64) {
        self.tunnels_touched.retain(|_, (_, touched)| *touched > version);
    }

    /// The transactions that are in force and not yet told so, given the versions up to which flows and tunnels
    /// are, without those in `refused`; these are struck off there.
    pub(crate) fn confirm(&mut self, flows: u64, tunnels: u64, refused: &mut BTreeSet<u64>) -> Vec<u64> {
        let in_force = |waiting: &Waiting| {
            waiting.version <= flows && (!waiting.touches_tunnels || waiting.version <= tunnels)
        };
        let mut confirmed = Vec::new();
        self.waiting.retain(|waiting| {
            let done = in_force(waiting);
            if done && !refused.remove(&waiting.txn) {
                confirmed.push(waiting.txn);
            }
            !done
        });
        confirmed
    }
}
