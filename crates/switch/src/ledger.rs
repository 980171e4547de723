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
    /// By key, the last transaction, for changes that were not sent yet. While the switch is known only of what is
    /// outstanding; while it is not, of no flow that came and went: so it is never larger than the network.
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
            self.change(key.clone(), None);
            self.touch(txn, key);
        }
        for (key, flow) in &changes.flows_add {
            self.change(key.clone(), Some(flow.clone()));
            self.touch(txn, key);
        }
    }

    fn touch(&mut self, txn: u64, key: &FlowKey) {
        let unsent =
            if self.known { self.outstanding.contains_key(key) } else { self.desired.contains_key(key) };
        if unsent {
            self.touched.insert(key.clone(), txn);
        } else {
            self.touched.remove(key);
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
        self.touched.retain(|key, _| self.outstanding.contains_key(key));
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

    /// How many flows the switch refuses.
    pub(crate) fn refused(&self) -> usize {
        self.refused.len()
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
            let (Some(FlowChange { key, .. }), Some(had)) = (batch.get(place), installed.get_mut(place))
            else {
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

#[cfg(test)]
impl Ledger {
    /// How many entries there are beside the desired flows.
    pub(crate) fn entries(&self) -> usize {
        let in_flight = self.in_flight.as_ref().map_or(0, |in_flight| in_flight.batch.len());
        self.outstanding.len() + self.refused.len() + self.touched.len() + in_flight
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::table::Table;
    use openflow_rs::FlowEntry;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Few of both, so that changes meet.
    const KEYS: u8 = 6;
    const FLOWS: u8 = 3;

    fn key(n: u8) -> FlowKey {
        let entry: FlowEntry = format!("table={},reg0={} actions=drop", n % 3, n).parse().expect("a flow");
        FlowKey::new(entry.table, entry.priority, &entry.matches).expect("a short match")
    }

    fn flow(n: u8) -> Flow {
        let entry: FlowEntry = format!("actions=output:{}", n % 2 + 1).parse().expect("a flow");
        Flow::new(u64::from(n / 2), &entry.actions).expect("short actions")
    }

    fn contents(flows: &BTreeMap<u8, u8>) -> BTreeMap<FlowKey, Flow> {
        flows.iter().map(|(k, f)| (key(*k), flow(*f))).collect()
    }

    fn desired(flows: &BTreeMap<u8, u8>) -> Desired {
        Desired { flows: contents(flows), ..Desired::default() }
    }

    fn some_flows() -> impl Strategy<Value = BTreeMap<u8, u8>> {
        proptest::collection::btree_map(0u8..KEYS, 0u8..FLOWS, 0..usize::from(KEYS))
    }

    /// What happens to a ledger and to the switch beside it.
    #[derive(Debug, Clone)]
    enum Step {
        Set(BTreeMap<u8, u8>),
        Push(BTreeMap<u8, Option<u8>>),
        Take,
        /// The batch in flight arrives, but for the changes of these keys.
        Settle(BTreeSet<u8>),
        /// The connection breaks; the batch in flight may have arrived all the same.
        Lose {
            arrived: bool,
        },
        /// The switch is read again, after somebody else has changed it to this.
        Read(Option<BTreeMap<u8, u8>>),
    }

    fn step() -> impl Strategy<Value = Step> {
        let push = proptest::collection::btree_map(0u8..KEYS, proptest::option::of(0u8..FLOWS), 0..4);
        prop_oneof![
            1 => some_flows().prop_map(Step::Set),
            4 => push.prop_map(Step::Push),
            3 => Just(Step::Take),
            3 => proptest::collection::btree_set(0u8..KEYS, 0..3).prop_map(Step::Settle),
            1 => any::<bool>().prop_map(|arrived| Step::Lose { arrived }),
            1 => proptest::option::of(some_flows()).prop_map(Step::Read),
        ]
    }

    fn changes(push: &BTreeMap<u8, Option<u8>>) -> Changes {
        let mut changes = Changes::default();
        for (k, f) in push {
            match f {
                Some(f) => drop(changes.flows_add.insert(key(*k), flow(*f))),
                None => drop(changes.flows_delete.insert(key(*k))),
            }
        }
        changes
    }

    fn apply(table: &mut Table, batch: &[FlowChange], refused: &BTreeSet<usize>) {
        for (place, change) in batch.iter().enumerate().filter(|(place, _)| !refused.contains(place)) {
            let _ = place;
            table.apply(change.key.clone(), change.flow.clone());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_is_sent_makes_the_switch_right_and_touches_nothing_that_is(have in some_flows(), want in some_flows()) {
            let mut ledger = Ledger::default();
            ledger.set(&desired(&want));
            let (have, want) = (contents(&have), contents(&want));
            ledger.read(&have);
            let mut table = Table { flows: have.clone() };
            let batch = ledger.take().unwrap_or_default();
            for change in batch.iter() {
                prop_assert_ne!(have.get(&change.key), want.get(&change.key), "{} is right", change);
            }
            apply(&mut table, &batch, &BTreeSet::new());
            prop_assert_eq!(&table.flows, &want);
            ledger.settle([]);
            prop_assert!(ledger.take().is_none());
        }

        #[test]
        fn whatever_happens_the_switch_ends_up_right_but_for_what_it_refused(
            steps in proptest::collection::vec(step(), 0..40),
        ) {
            let (mut ledger, mut table, mut model) = (Ledger::default(), Table::default(), Desired::default());
            let mut in_flight: Option<Batch> = None;
            // What the switch refused and has not been told otherwise since.
            let mut refused_keys: BTreeSet<FlowKey> = BTreeSet::new();
            for (txn, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Set(flows) => {
                        let new = desired(&flows);
                        refused_keys.retain(|key| model.flows.get(key) == new.flows.get(key));
                        model = new;
                        ledger.set(&model);
                    }
                    Step::Push(push) => {
                        let changes = changes(&push);
                        refused_keys.retain(|key| !changes.flows_add.contains_key(key) && !changes.flows_delete.contains(key));
                        model.apply(&changes);
                        ledger.push(txn as u64, &changes);
                    }
                    Step::Take if in_flight.is_none() => {
                        in_flight = ledger.take();
                        for change in in_flight.iter().flat_map(|batch| batch.iter()) {
                            prop_assert_ne!(table.flows.get(&change.key), change.flow.as_ref(), "{} is right", change);
                        }
                    }
                    Step::Settle(keys) => {
                        let Some(batch) = in_flight.take() else { continue };
                        let keys: BTreeSet<FlowKey> = keys.into_iter().map(key).collect();
                        let refused: BTreeSet<usize> =
                            (0..batch.len()).filter(|place| keys.contains(&batch[*place].key)).collect();
                        apply(&mut table, &batch, &refused);
                        for place in &refused {
                            let change = &batch[*place];
                            if change.flow.as_ref() == model.flows.get(&change.key) {
                                refused_keys.insert(change.key.clone());
                            }
                        }
                        ledger.settle(refused);
                    }
                    Step::Lose { arrived } => {
                        if let Some(batch) = in_flight.take().filter(|_| arrived) {
                            apply(&mut table, &batch, &BTreeSet::new());
                        }
                        ledger.lost();
                        refused_keys.clear();
                    }
                    Step::Read(others) if in_flight.is_none() => {
                        if let Some(flows) = others {
                            table.flows = contents(&flows);
                        }
                        ledger.read(&table.flows);
                        refused_keys.clear();
                    }
                    Step::Take | Step::Read(_) => {}
                }
            }
            if in_flight.is_none() && !ledger.known {
                ledger.read(&table.flows);
                refused_keys.clear();
            }
            if let Some(batch) = in_flight {
                apply(&mut table, &batch, &BTreeSet::new());
                ledger.settle([]);
            }
            let before = table.flows.clone();
            for change in ledger.take().unwrap_or_default().iter() {
                prop_assert_ne!(before.get(&change.key), model.flows.get(&change.key), "{} is right", change);
                table.apply(change.key.clone(), change.flow.clone());
            }
            for key in (0..KEYS).map(key).filter(|key| !refused_keys.contains(key)) {
                prop_assert_eq!(table.flows.get(&key), model.flows.get(&key), "{:?}", key);
            }
        }
    }

    #[test]
    fn a_refusal_is_told_to_the_last_transaction_that_touched_the_flow_also_after_a_lost_connection() {
        let mut ledger = Ledger::default();
        ledger.read(&BTreeMap::new());
        let push = |n: u8, f: u8| changes(&[(n, Some(f))].into());
        ledger.push(1, &push(1, 1));
        ledger.push(2, &push(1, 2));
        let batch = ledger.take().expect("a change");
        assert_eq!(batch.iter().map(|change| change.txn).collect::<Vec<_>>(), [Some(2)]);
        ledger.push(3, &push(2, 1));
        ledger.lost();
        ledger.push(4, &push(3, 1));
        ledger.read(&BTreeMap::new());
        let batch = ledger.take().expect("changes");
        assert_eq!(
            batch.iter().map(|change| change.txn).collect::<BTreeSet<_>>(),
            [Some(2), Some(3), Some(4)].into()
        );
    }
}
