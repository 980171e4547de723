//! What separates the switch's flow tables from the desired ones.
//!
//! Invariant: while the switch is known, its contents are the desired flows with what is outstanding, in flight or
//! refused put back to what was installed. So the flows that are right are never listed, never sent and cost no
//! memory, and changes that cancel each other while the switch is busy vanish before they are sent.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::desired::{Changes, Desired};
use crate::flow::{self, Flow, FlowKey};

/// One flow modification: put `flow` in place, or with `None` delete what has the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FlowChange {
    pub(crate) key: FlowKey,
    pub(crate) flow: Option<Flow>,
    /// The last transaction that touched the flow.
    pub(crate) txn: Option<u64>,
}

/// Flow modifications in the order they are sent: deletions first, so that a flow which the switch stores under
/// another spelling of its match than ours is replaced and not lost.
pub(crate) type Batch = Arc<Vec<FlowChange>>;

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    desired: BTreeMap<FlowKey, Flow>,
    /// Whether the switch's contents are known: from a read to the loss of the connection.
    known: bool,
    /// By key, what the switch has (or will have when what is in flight has arrived) where that is wrong.
    outstanding: BTreeMap<FlowKey, Option<Flow>>,
    in_flight: Option<InFlight>,
    /// By key, what the switch has where it refused the desired flow.
    refused: BTreeMap<FlowKey, Option<Flow>>,
    /// By key, the last transaction, for changes that were not sent yet.
    touched: BTreeMap<FlowKey, u64>,
}

#[derive(Debug)]
struct InFlight {
    batch: Batch,
    /// For each change of the batch, what the switch had.
    installed: Vec<Option<Flow>>,
}

impl Ledger {
    /// Takes a new desired state in place of the old one.
    pub(crate) fn set(&mut self, desired: &Desired) {
        self.touched.clear();
        if !self.known {
            self.desired.clone_from(&desired.flows);
            return;
        }
        let changes = differences(&self.desired, &desired.flows);
        for (key, _) in changes {
            let flow = desired.flows.get(&key).cloned();
            self.change(key, flow);
        }
    }

    /// Takes the changes of one transaction.
    pub(crate) fn push(&mut self, txn: u64, changes: &Changes) {
        for key in changes.flows_delete.iter().filter(|key| !changes.flows_add.contains_key(*key)) {
            self.touched.insert(key.clone(), txn);
            self.change(key.clone(), None);
        }
        for (key, flow) in &changes.flows_add {
            self.touched.insert(key.clone(), txn);
            self.change(key.clone(), Some(flow.clone()));
        }
    }

    fn change(&mut self, key: FlowKey, flow: Option<Flow>) {
        let old = match &flow {
            Some(flow) => self.desired.insert(key.clone(), flow.clone()),
            None => self.desired.remove(&key),
        };
        if !self.known {
            return;
        }
        let installed = match (self.outstanding.remove(&key), self.refused.remove(&key)) {
            (Some(installed), _) | (None, Some(installed)) => installed,
            (None, None) => old,
        };
        if installed != flow {
            self.outstanding.insert(key, installed);
        }
    }

    /// The switch was read: this is what it has.
    pub(crate) fn read(&mut self, installed: &BTreeMap<FlowKey, Flow>) {
        self.lost();
        self.known = true;
        self.outstanding = differences(installed, &self.desired).into_iter().collect();
    }

    /// The connection was lost: what the switch has is unknown until it is read again.
    pub(crate) fn lost(&mut self) {
        self.known = false;
        self.outstanding.clear();
        self.refused.clear();
        if let Some(in_flight) = self.in_flight.take() {
            for FlowChange { key, txn, .. } in in_flight.batch.iter() {
                if let Some(txn) = *txn {
                    self.touched.entry(key.clone()).or_insert(txn);
                }
            }
        }
    }

    /// Everything outstanding, to be sent at once; it is in flight until [`settle`](Self::settle) or
    /// [`lost`](Self::lost). `None` if the switch is right. At most one batch is in flight.
    pub(crate) fn take(&mut self) -> Option<Batch> {
        debug_assert!(self.in_flight.is_none(), "one batch at a time");
        let outstanding = std::mem::take(&mut self.outstanding);
        let touched = std::mem::take(&mut self.touched);
        if outstanding.is_empty() {
            return None;
        }
        let (mut deletions, mut additions) = (Vec::new(), Vec::new());
        for (key, installed) in outstanding {
            let flow = self.desired.get(&key).cloned();
            let part = if flow.is_none() { &mut deletions } else { &mut additions };
            let txn = touched.get(&key).copied();
            part.push((FlowChange { key, flow, txn }, installed));
        }
        let (changes, installed) = deletions.into_iter().chain(additions).unzip();
        let batch: Batch = Arc::new(changes);
        self.in_flight = Some(InFlight { batch: batch.clone(), installed });
        Some(batch)
    }

    /// The batch in flight has arrived, except for the changes at these places, which the switch refused.
    pub(crate) fn settle(&mut self, refused: impl IntoIterator<Item = usize>) {
        let Some(InFlight { batch, mut installed }) = self.in_flight.take() else { return };
        for place in refused {
            let (Some(FlowChange { key, .. }), Some(had)) = (batch.get(place), installed.get_mut(place)) else {
                continue;
            };
            let had = had.take();
            // A later change of the same flow took it for granted that this one arrives.
            if self.outstanding.remove(key).is_none() {
                self.refused.insert(key.clone(), had);
            } else if had.as_ref() != self.desired.get(key) {
                self.outstanding.insert(key.clone(), had);
            }
        }
    }
}

/// For each key whose value differs, the value in `old`.
fn differences(old: &BTreeMap<FlowKey, Flow>, new: &BTreeMap<FlowKey, Flow>) -> Vec<(FlowKey, Option<Flow>)> {
    let gone_or_other = old
        .iter()
        .filter(|(key, flow)| new.get(*key) != Some(*flow))
        .map(|(key, flow)| (key.clone(), Some(flow.clone())));
    let missing = new.keys().filter(|key| !old.contains_key(*key)).map(|key| (key.clone(), None));
    gone_or_other.chain(missing).collect()
}

impl fmt::Display for FlowChange {
    /// As `ovs-ofctl` writes the flow, or its deletion.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        flow::show(f, &self.key, self.flow.as_ref())
    }
}
