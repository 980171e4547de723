//! The difference between the contents of a switch and the desired state, for one kind of object.
//!
//! Invariant: while the contents of the switch are known, they equal the desired state, except for the keys that are
//! outstanding, in flight or refused; for these the ledger records the installed value. An object that is in sync is
//! therefore never listed, never sent and takes no memory, and changes that cancel each other while the switch is
//! busy disappear before they are sent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// One modification: install `value`, or with `None` delete the object with this key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change<K, V> {
    pub(crate) key: K,
    pub(crate) value: Option<V>,
    /// The value on the switch before the modification.
    pub(crate) installed: Option<V>,
    /// The last transaction that changed the object.
    pub(crate) txn: Option<u64>,
}

/// Modifications in the order in which they are sent. Deletions come first, so that a flow that the switch stores
/// under another spelling of our match is replaced and not lost.
pub(crate) type Changes<K, V> = Arc<Vec<Change<K, V>>>;

#[derive(Debug)]
pub(crate) struct Ledger<K, V> {
    desired: BTreeMap<K, V>,
    /// Whether the contents of the switch are known: from a read until the connection is lost.
    known: bool,
    /// By key, the value on the switch (assuming that the batch in flight arrives) where it differs from the desired
    /// one.
    outstanding: BTreeMap<K, Option<V>>,
    in_flight: Option<Changes<K, V>>,
    /// By key, the value on the switch where it refused the desired one.
    refused: BTreeMap<K, Option<V>>,
    /// By key, the last transaction of each unsent change. While the contents of the switch are known, it has entries
    /// only for outstanding changes; otherwise it has none for objects that were added and deleted again. So it never
    /// outgrows the network.
    touched: BTreeMap<K, u64>,
}

impl<K, V> Default for Ledger<K, V> {
    fn default() -> Self {
        Ledger {
            desired: BTreeMap::new(),
            known: false,
            outstanding: BTreeMap::new(),
            in_flight: None,
            refused: BTreeMap::new(),
            touched: BTreeMap::new(),
        }
    }
}

impl<K: Ord + Clone, V: Eq + Clone> Ledger<K, V> {
    /// The desired state.
    pub(crate) fn desired(&self) -> &BTreeMap<K, V> {
        &self.desired
    }

    /// Replaces the desired state.
    pub(crate) fn set(&mut self, desired: &BTreeMap<K, V>) {
        self.touched.clear();
        if !self.known {
            self.desired.clone_from(desired);
            return;
        }
        let changes = differences(&self.desired, desired);
        for (key, _) in changes {
            let value = desired.get(&key).cloned();
            self.change(key, value);
        }
    }

    /// Applies a change of a transaction to the desired state.
    pub(crate) fn push(&mut self, txn: u64, key: K, value: Option<V>) {
        self.change(key.clone(), value);
        let unsent =
            if self.known { self.outstanding.contains_key(&key) } else { self.desired.contains_key(&key) };
        if unsent {
            self.touched.insert(key, txn);
        } else {
            self.touched.remove(&key);
        }
    }

    fn change(&mut self, key: K, value: Option<V>) {
        let old = match &value {
            Some(value) => self.desired.insert(key.clone(), value.clone()),
            None => self.desired.remove(&key),
        };
        if !self.known {
            return;
        }
        let installed = match (self.outstanding.remove(&key), self.refused.remove(&key)) {
            (Some(installed), _) | (None, Some(installed)) => installed,
            (None, None) => old,
        };
        if installed != value {
            self.outstanding.insert(key, installed);
        }
    }

    /// Takes over the contents of the switch after a read.
    pub(crate) fn read(&mut self, installed: &BTreeMap<K, V>) {
        self.lost();
        self.known = true;
        self.outstanding = differences(installed, &self.desired).into_iter().collect();
        self.touched.retain(|key, _| self.outstanding.contains_key(key));
    }

    /// Handles the loss of the connection: the contents of the switch are unknown until it is read again.
    pub(crate) fn lost(&mut self) {
        self.known = false;
        self.outstanding.clear();
        self.refused.clear();
        for Change { key, txn, .. } in self.in_flight.take().iter().flat_map(|changes| changes.iter()) {
            if let Some(txn) = *txn {
                self.touched.entry(key.clone()).or_insert(txn);
            }
        }
    }

    /// Whether the switch's contents are known.
    pub(crate) fn is_known(&self) -> bool {
        self.known
    }

    /// The value that the switch should have under a key after everything read and sent, assuming that the batch in
    /// flight arrives.
    pub(crate) fn believed(&self, key: &K) -> Option<&V> {
        match self.outstanding.get(key).or_else(|| self.refused.get(key)) {
            Some(installed) => installed.as_ref(),
            None => self.desired.get(key),
        }
    }

    /// The keys whose value on the switch differs from the believed one, each with that value.
    pub(crate) fn deviations(&self, installed: &BTreeMap<K, V>) -> Vec<(K, Option<V>)> {
        let differs = |key: &&K| self.believed(key) != installed.get(*key);
        let missing = self.desired.keys().chain(self.outstanding.keys()).chain(self.refused.keys());
        let keys: BTreeSet<&K> = installed.keys().chain(missing).filter(differs).collect();
        keys.into_iter().map(|key| (key.clone(), installed.get(key).cloned())).collect()
    }

    /// Records a value on the switch that differs from the believed one. With `resend` the desired value is sent even
    /// if the switch seems to have it, because it is uncertain which of two changes came last.
    pub(crate) fn observe(&mut self, key: K, actual: Option<V>, resend: bool) {
        if !self.known || (!resend && self.believed(&key) == actual.as_ref()) {
            return;
        }
        self.outstanding.remove(&key);
        self.refused.remove(&key);
        if resend || self.desired.get(&key) != actual.as_ref() {
            self.outstanding.insert(key, actual);
        }
    }

    /// Corrects the installed values of refused changes, some of which may be partly in force.
    pub(crate) fn correct_refused(&mut self, installed: &BTreeMap<K, V>) {
        for (key, had) in &mut self.refused {
            *had = installed.get(key).cloned();
        }
        let desired = &self.desired;
        self.refused.retain(|key, had| had.as_ref() != desired.get(key));
    }

    /// The keys of the changes in flight.
    pub(crate) fn keys_in_flight(&self) -> impl Iterator<Item = &K> {
        self.in_flight.iter().flat_map(|changes| changes.iter().map(|change| &change.key))
    }

    /// The keys of the deletions in flight. They come first.
    pub(crate) fn leaving(&self) -> impl Iterator<Item = &K> {
        let changes = self.in_flight.iter().flat_map(|changes| changes.iter());
        changes.take_while(|change| change.value.is_none()).map(|change| &change.key)
    }

    /// The number of objects whose value on the switch differs from the desired one.
    pub(crate) fn differing(&self) -> usize {
        self.outstanding.len() + self.refused.len() + self.in_flight()
    }

    /// The number of desired changes that the switch refuses.
    pub(crate) fn refused(&self) -> usize {
        self.refused.len()
    }

    /// Schedules a retry of the refused objects whose desired value satisfies `which`.
    pub(crate) fn retry(&mut self, which: impl Fn(&V) -> bool) {
        let desired = &self.desired;
        let again = |key: &K, _: &mut Option<V>| desired.get(key).is_some_and(&which);
        self.outstanding.extend(self.refused.extract_if(.., again));
    }

    /// Records that the switch itself deleted the objects with these keys.
    pub(crate) fn dropped(&mut self, keys: impl IntoIterator<Item = K>) {
        for key in keys {
            self.refused.remove(&key);
            if self.known && self.desired.contains_key(&key) {
                self.outstanding.insert(key, None);
            }
        }
    }

    /// Whether any change is outstanding.
    pub(crate) fn is_outstanding(&self) -> bool {
        !self.outstanding.is_empty()
    }

    /// The number of changes in flight.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.as_ref().map_or(0, |changes| changes.len())
    }

    /// All outstanding changes, as one batch; empty if the switch is in sync. The batch is in flight until
    /// [`settle`](Self::settle) or [`lost`](Self::lost).
    pub(crate) fn take(&mut self) -> Changes<K, V> {
        debug_assert!(self.in_flight.is_none(), "one batch at a time");
        let outstanding = std::mem::take(&mut self.outstanding);
        let touched = std::mem::take(&mut self.touched);
        let (mut deletions, mut additions) = (Vec::new(), Vec::new());
        for (key, installed) in outstanding {
            let value = self.desired.get(&key).cloned();
            let part = if value.is_none() { &mut deletions } else { &mut additions };
            let txn = touched.get(&key).copied();
            part.push(Change { key, value, installed, txn });
        }
        deletions.append(&mut additions);
        let changes = Arc::new(deletions);
        self.in_flight = Some(changes.clone()).filter(|changes| !changes.is_empty());
        changes
    }

    /// Handles the end of the batch in flight: its changes are in force except those at the indexes in `refused`.
    pub(crate) fn settle(&mut self, refused: impl IntoIterator<Item = usize>) {
        let Some(changes) = self.in_flight.take() else { return };
        for place in refused {
            let Some(Change { key, installed, .. }) = changes.get(place) else { continue };
            // A later change of the same key assumed that this one would arrive.
            if self.outstanding.remove(key).is_none() {
                self.refused.insert(key.clone(), installed.clone());
            } else if installed.as_ref() != self.desired.get(key) {
                self.outstanding.insert(key.clone(), installed.clone());
            }
        }
    }
}

#[cfg(test)]
impl<K: Ord + Clone, V: Eq + Clone> Ledger<K, V> {
    /// The number of entries kept in addition to the desired state.
    pub(crate) fn entries(&self) -> usize {
        self.outstanding.len() + self.refused.len() + self.touched.len() + self.in_flight()
    }
}

/// The keys whose values differ, each with its value in `old`.
fn differences<K: Ord + Clone, V: Eq + Clone>(
    old: &BTreeMap<K, V>,
    new: &BTreeMap<K, V>,
) -> Vec<(K, Option<V>)> {
    let gone_or_other = old
        .iter()
        .filter(|(key, flow)| new.get(*key) != Some(*flow))
        .map(|(key, flow)| (key.clone(), Some(flow.clone())));
    let missing = new.keys().filter(|key| !old.contains_key(*key)).map(|key| (key.clone(), None));
    gone_or_other.chain(missing).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fake_switch::openflow::Table;
    use openflow_rs::FlowEntry;
    use proptest::prelude::*;
    use switch_model::{Flow, FlowKey};

    type FlowChange = Change<FlowKey, Flow>;
    type FlowLedger = Ledger<FlowKey, Flow>;
    type Batch = Changes<FlowKey, Flow>;

    /// Few keys and few flows, so that changes collide.
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

    fn some_flows() -> impl Strategy<Value = BTreeMap<u8, u8>> {
        proptest::collection::btree_map(0u8..KEYS, 0u8..FLOWS, 0..usize::from(KEYS))
    }

    /// An event at a ledger or at its switch.
    #[derive(Debug, Clone)]
    enum Step {
        Set(BTreeMap<u8, u8>),
        Push(BTreeMap<u8, Option<u8>>),
        Take,
        /// The batch in flight arrives, except for the changes of these keys.
        Settle(BTreeSet<u8>),
        /// The connection breaks. The batch in flight may have arrived nevertheless.
        Lose {
            arrived: bool,
        },
        /// The switch is read again, after another client has possibly replaced its contents by these.
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

    fn push(ledger: &mut FlowLedger, txn: u64, changes: &BTreeMap<u8, Option<u8>>) {
        for (k, f) in changes {
            ledger.push(txn, key(*k), f.map(flow));
        }
    }

    fn apply(table: &mut Table, batch: &[FlowChange], refused: &BTreeSet<usize>) {
        for (place, change) in batch.iter().enumerate().filter(|(place, _)| !refused.contains(place)) {
            let _ = place;
            table.apply(change.key.clone(), change.value.clone());
        }
    }

    proptest! {
            #[test]
        fn what_is_sent_makes_the_switch_right_and_touches_nothing_that_is(have in some_flows(), want in some_flows()) {
            let mut ledger = Ledger::default();
            let (have, want) = (contents(&have), contents(&want));
            ledger.set(&want);
            ledger.read(&have);
            let mut table = Table { flows: have.clone(), ..Table::default() };
            let batch = ledger.take();
            for change in batch.iter() {
                prop_assert_ne!(have.get(&change.key), want.get(&change.key), "{:?} is right", change);
            }
            apply(&mut table, &batch, &BTreeSet::new());
            prop_assert_eq!(&table.flows, &want);
            ledger.settle([]);
            prop_assert!(ledger.take().is_empty());
        }

        #[test]
        fn whatever_happens_the_switch_ends_up_right_but_for_what_it_refused(
            steps in proptest::collection::vec(step(), 0..40),
        ) {
            let (mut ledger, mut table) = (FlowLedger::default(), Table::default());
            let mut model: BTreeMap<FlowKey, Flow> = BTreeMap::new();
            let mut in_flight: Option<Batch> = None;
            // The keys that the switch refused and that have not changed since.
            let mut refused_keys: BTreeSet<FlowKey> = BTreeSet::new();
            for (txn, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Set(flows) => {
                        let new = contents(&flows);
                        refused_keys.retain(|key| model.get(key) == new.get(key));
                        model = new;
                        ledger.set(&model);
                    }
                    Step::Push(changes) => {
                        for (k, f) in &changes {
                            refused_keys.remove(&key(*k));
                            match f {
                                Some(f) => drop(model.insert(key(*k), flow(*f))),
                                None => drop(model.remove(&key(*k))),
                            }
                        }
                        push(&mut ledger, txn as u64, &changes);
                    }
                    Step::Take if in_flight.is_none() => {
                        let batch = ledger.take();
                        for change in batch.iter() {
                            prop_assert_ne!(table.flows.get(&change.key), change.value.as_ref(), "{:?} is right", change);
                            prop_assert_eq!(table.flows.get(&change.key), change.installed.as_ref());
                        }
                        in_flight = Some(batch).filter(|batch| !batch.is_empty());
                    }
                    Step::Settle(keys) => {
                        let Some(batch) = in_flight.take() else { continue };
                        let keys: BTreeSet<FlowKey> = keys.into_iter().map(key).collect();
                        let refused: BTreeSet<usize> =
                            (0..batch.len()).filter(|place| keys.contains(&batch[*place].key)).collect();
                        apply(&mut table, &batch, &refused);
                        for place in &refused {
                            let change = &batch[*place];
                            if change.value.as_ref() == model.get(&change.key) {
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
            for change in ledger.take().iter() {
                prop_assert_ne!(before.get(&change.key), model.get(&change.key), "{:?} is right", change);
                table.apply(change.key.clone(), change.value.clone());
            }
            for key in (0..KEYS).map(key).filter(|key| !refused_keys.contains(key)) {
                prop_assert_eq!(table.flows.get(&key), model.get(&key), "{:?}", key);
            }
        }
    }

    #[test]
    fn a_refusal_is_told_to_the_last_transaction_that_touched_the_flow_also_after_a_lost_connection() {
        let mut ledger = FlowLedger::default();
        ledger.read(&BTreeMap::new());
        let put = |ledger: &mut FlowLedger, txn, n: u8, f: u8| push(ledger, txn, &[(n, Some(f))].into());
        put(&mut ledger, 1, 1, 1);
        put(&mut ledger, 2, 1, 2);
        let batch = ledger.take();
        assert_eq!(batch.iter().map(|change| change.txn).collect::<Vec<_>>(), [Some(2)]);
        put(&mut ledger, 3, 2, 1);
        ledger.lost();
        put(&mut ledger, 4, 3, 1);
        ledger.read(&BTreeMap::new());
        let batch = ledger.take();
        assert_eq!(
            batch.iter().map(|change| change.txn).collect::<BTreeSet<_>>(),
            [Some(2), Some(3), Some(4)].into()
        );
    }
}
