//! The order in which switches get a transaction that moves ports.
//!
//! The new home of a port gets its changes first, so that it is ready when others send there. All other switches follow once
//! it has confirmed, and the old home, which still delivers what is on its way, once these have. Nobody waits long: not for a
//! switch that is away or not in sync, and for none longer than [`HOLD_MAX`].
//!
//! A switch gets its transactions one after another, so later ones wait behind one that is held back. Other switches get
//! them at once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use switch_model::{Changes, Channel};
use tracing::info;

use super::state::Switch;
use super::{DriverOrder, Fleet, Timeout};
use crate::port_moves::Moves;
use crate::receipt::{Progress, SwitchReceipt};

/// The time that each part of the switches has to confirm before the next one follows. A switch needs milliseconds; while
/// one is busy longer, frames to the port are lost whether others wait for it or not.
pub(super) const HOLD_MAX: Duration = Duration::from_millis(500);

/// A transaction that not all its switches have got.
#[derive(Debug)]
pub(super) struct Order {
    /// The number of parts that have got it.
    begun: u32,
    /// The parts that follow.
    left: VecDeque<BTreeSet<String>>,
    /// Of the part that got it last, those that have not confirmed.
    awaited: BTreeSet<String>,
}

/// The changes of a transaction that its switch has not got.
#[derive(Debug)]
pub(super) struct Held {
    txn: u64,
    changes: Box<Changes>,
    /// Whether it waits for nothing but earlier transactions of the same switch.
    is_free: bool,
}

impl Switch {
    /// Hands over the transactions that wait for nothing.
    fn push_free(&mut self, told: &mut Vec<DriverOrder>) {
        while let Some(Held { txn, changes, .. }) = self.held.pop_front_if(|held| held.is_free) {
            told.push(DriverOrder::Push { driver: self.driver, txn, changes });
            self.last_pushed = Some(txn);
        }
    }

    /// The first transaction that it has not confirmed, or not even got.
    pub(super) fn unconfirmed_from(&self) -> Option<u64> {
        let held = self.held.front().map(|held| held.txn);
        self.pending.keys().next().copied().into_iter().chain(held).min()
    }

    /// Hands over all transactions.
    pub(super) fn push_held(&mut self, told: &mut Vec<DriverOrder>) {
        for held in &mut self.held {
            held.is_free = true;
        }
        self.push_free(told);
    }

    fn free(&mut self, txn: u64, told: &mut Vec<DriverOrder>) {
        for held in self.held.iter_mut().filter(|held| held.txn == txn) {
            held.is_free = true;
        }
        self.push_free(told);
    }

    /// Whether its confirmation of a transaction can be expected soon.
    fn will_confirm(&self, txn: u64) -> bool {
        self.reconciled && self.pending.contains_key(&txn)
    }
}

impl Fleet {
    /// Sends the changes of a transaction to switches, in the order that its moves ask for, and returns the first receipts.
    pub(crate) fn push_in_order(
        &mut self,
        txn: u64,
        changes: BTreeMap<String, Changes>,
        moves: &Moves,
    ) -> BTreeMap<String, SwitchReceipt> {
        let parts = moves.in_order(changes.keys());
        if parts.len() < 2 {
            let push = |(node, changes): (String, Changes)| {
                let receipt = self.push(txn, &node, changes);
                (node, receipt)
            };
            return changes.into_iter().map(push).collect();
        }
        let mut receipts = BTreeMap::new();
        for (node, changes) in changes {
            let receipt = self.take(txn, &node, changes, false);
            receipts.insert(node, receipt);
        }
        let waiting = parts.len() - 1;
        let order = Order { begun: 0, left: parts.into(), awaited: BTreeSet::new() };
        self.orders.insert(txn, order);
        self.proceed(txn);
        if self.orders.contains_key(&txn) {
            let now = self.now();
            for (begun, _) in (1..).zip(0..waiting) {
                self.timers.set(now + HOLD_MAX * begun, Timeout::Hold { txn, begun });
            }
        }
        receipts
    }

    /// Sends the changes of a transaction to a switch, and returns the first receipt.
    pub(crate) fn push(&mut self, txn: u64, node: &str, changes: Changes) -> SwitchReceipt {
        self.take(txn, node, changes, true)
    }

    /// Takes the changes of a transaction for a switch, which gets them after earlier ones, and once it `is_free`.
    fn take(&mut self, txn: u64, node: &str, changes: Changes, is_free: bool) -> SwitchReceipt {
        let mut receipt = SwitchReceipt::new(Progress::Offline, &changes);
        if let Some(switch) = self.switches.get_mut(node).filter(|switch| switch.is_driven()) {
            let tunnels = changes.touches_database();
            if switch.can_receive(tunnels) {
                receipt.progress = Progress::Pending;
                switch.pending.insert(txn, tunnels);
            } else {
                switch.backlog(tunnels).add(txn);
            }
            let is_away = !switch.up.contains(&Channel::OpenFlow);
            switch.held.push_back(Held { txn, changes: Box::new(changes), is_free: is_free || is_away });
            switch.push_free(&mut self.told);
        }
        receipt
    }

    /// Lets the parts of a transaction get it that need not wait any longer. Nobody waits for the part before.
    fn proceed(&mut self, txn: u64) {
        while let Some(order) = self.orders.get_mut(&txn) {
            let (switches, told) = (&mut self.switches, &mut self.told);
            if let Some(part) = order.left.pop_front() {
                order.begun += 1;
                for node in &part {
                    if let Some(switch) = switches.get_mut(node) {
                        switch.free(txn, told);
                    }
                }
                order.awaited = part;
            }
            if order.left.is_empty() {
                self.orders.remove(&txn);
                return;
            }
            order.awaited.retain(|node| switches.get(node).is_some_and(|switch| switch.will_confirm(txn)));
            if !order.awaited.is_empty() {
                return;
            }
        }
    }

    /// Lets the switches proceed that wait for this one, if its event is what they wait for. Looks at no other switch: there
    /// may be thousands.
    pub(super) fn proceed_after(&mut self, node: &str) {
        let switch = self.switches.get(node);
        let mut ready = Vec::new();
        for (txn, order) in &mut self.orders {
            let waits = switch.is_some_and(|switch| switch.will_confirm(*txn));
            if !waits && order.awaited.remove(node) && order.awaited.is_empty() {
                ready.push(*txn);
            }
        }
        for txn in ready {
            self.proceed(txn);
        }
    }

    /// Lets the next part of a transaction get it if no more than so many have.
    pub(super) fn hold_timeout(&mut self, txn: u64, begun: u32) {
        let Some(order) = self.orders.get_mut(&txn).filter(|order| order.begun <= begun) else { return };
        let awaited = std::mem::take(&mut order.awaited);
        info!(txn, ?awaited, "switches have not confirmed in time; others do not wait for them");
        self.proceed(txn);
    }
}
