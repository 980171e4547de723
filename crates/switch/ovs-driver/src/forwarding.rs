//! The flows, the groups and the meters of a switch, each kind with its ledger, and what flows need of the others.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::foreign::{Foreign, Held, Removal, Update};
use crate::in_openflow::{self, Batch, Contents, Flows, InOpenFlow, Place, Things, kinds_in_openflow};
use crate::ledger::{Change, Ledger};
use switch_model::flow::{Flow, FlowKey};
use switch_model::{Changes, Desired, ForeignChange};

/// The most flows that are tracked one by one. Beyond that the whole switch is read instead.
const FOREIGN_FLOWS_MAX: usize = 50_000;

/// The things of one kind.
#[derive(Debug)]
struct Kept<K: InOpenFlow> {
    source: K::Source,
    ledger: Ledger<K::Key, K::Value>,
    /// Changes of others that are not undone yet.
    foreign: BTreeMap<K::Key, Held<K::Value>>,
}

impl<K: InOpenFlow> Default for Kept<K> {
    fn default() -> Self {
        Kept { source: K::Source::default(), ledger: Ledger::default(), foreign: BTreeMap::new() }
    }
}

impl<K: InOpenFlow> Kept<K> {
    fn set(&mut self, desired: &Desired) {
        self.ledger.set(&K::set(&mut self.source, desired));
    }

    fn push(&mut self, txn: u64, changes: &Changes) {
        K::push(&mut self.source, changes, |key, value| self.ledger.push(txn, key, value));
    }

    fn read(&mut self, things: &Things<K>) {
        self.ledger.read(things);
        self.foreign.clear();
    }

    fn lost(&mut self) {
        self.ledger.lost();
        self.foreign.clear();
    }

    /// Finds changes of others by comparison.
    fn compare(&mut self, things: &Things<K>, found: &mut Foreign) {
        let before = std::mem::take(&mut self.foreign);
        for (key, actual) in self.ledger.deviations(things) {
            if before.get(&key).is_none_or(|held| held.actual != actual) {
                let why = "by another client, or lost on the way; found by comparison".to_owned();
                let what = change_text::<K>(&key, self.ledger.believed(&key), actual.as_ref());
                found.found(ForeignChange { what, why });
            }
            self.foreign.insert(key, Held { actual, resend: false });
        }
    }

    fn absorb(&mut self) {
        for (key, held) in std::mem::take(&mut self.foreign) {
            self.ledger.observe(key, held.actual, held.resend);
        }
    }

    fn settle(&mut self, refused: impl IntoIterator<Item = usize>) {
        if K::IS_REPORTED && !self.foreign.is_empty() {
            for key in self.ledger.keys_in_flight() {
                if let Some(held) = self.foreign.get_mut(key) {
                    held.resend = true;
                }
            }
        }
        self.ledger.settle(refused);
    }

    /// Whether the switch has all of these things that a flow uses, as far as the driver knows.
    fn has_needs_of(&self, flow: &Flow) -> bool {
        !K::is_used(flow, |key| self.ledger.believed(key).is_none())
    }

    /// Whether a flow goes with one of these things that is being deleted.
    fn takes(&self, flow: &Flow) -> bool {
        K::is_used(flow, |key| self.ledger.leaving().any(|leaving| leaving == key))
    }

    fn is_leaving(&self) -> bool {
        K::IS_USED && self.ledger.leaving().next().is_some()
    }

    fn weight(&self) -> usize {
        K::weight(&self.source, self.ledger.desired())
    }
}

/// Derives everything from the list of kinds.
macro_rules! kinds {
    ($($field:ident: $kind:ident;)*) => {
        #[derive(Debug, Default)]
        pub(crate) struct Forwarding {
            $($field: Kept<in_openflow::$kind>,)*
            /// Whether the switch had flows when it was read, and nothing was taken since.
            had_flows: bool,
            foreign: Foreign,
        }

        impl Forwarding {
            /// Replaces the desired state.
            pub(crate) fn set(&mut self, desired: &Desired) {
                $(self.$field.set(desired);)*
            }

            /// Applies the changes of a transaction to the desired state.
            pub(crate) fn push(&mut self, txn: u64, changes: &Changes) {
                $(self.$field.push(txn, changes);)*
            }

            /// Takes over the contents of the switch after a read.
            pub(crate) fn read(&mut self, contents: &Contents) {
                $(self.$field.read(&contents.$field);)*
                self.had_flows = !contents.flows.is_empty();
                self.foreign = Foreign::default();
            }

            /// Handles the loss of the connection: the contents of the switch are unknown until it is read again.
            pub(crate) fn lost(&mut self) {
                $(self.$field.lost();)*
                self.foreign = Foreign::default();
            }

            /// Compares what the switch has with what the driver expects; of what the switch reports by itself only if `all` was read.
            /// Every difference is a change by others.
            pub(crate) fn compare(&mut self, contents: &Contents, all: bool) {
                if !self.flows.ledger.is_known() {
                    return;
                }
                self.foreign.missed &= !all;
                for reported in [false, true].into_iter().filter(|reported| all || !reported) {
                    $(if in_openflow::$kind::IS_REPORTED == reported {
                        self.$field.compare(&contents.$field, &mut self.foreign);
                    })*
                }
            }

            /// Schedules the repair of the changes of others. Must be called while no batch is in flight.
            pub(crate) fn absorb(&mut self) {
                $(self.$field.absorb();)*
            }

            /// Takes over what was read from the switch after it refused changes that take several messages, some of which may be in
            /// force.
            pub(crate) fn correct_refused(&mut self, contents: &Contents) {
                $(if in_openflow::$kind::IS_STEPWISE {
                    self.$field.ledger.correct_refused(&contents.$field);
                })*
            }

            /// Whether the switch has all that a flow uses, as far as the driver knows.
            fn has_needs_of(&self, flow: &Flow) -> bool {
                $(self.$field.has_needs_of(flow))&&*
            }

            /// Whether a flow goes with something that is being deleted.
            fn takes(&self, flow: &Flow) -> bool {
                $(self.$field.takes(flow))||*
            }

            /// About the memory that the desired contents of the switch take while they are read, in bytes.
            pub(crate) fn expected_bytes(&self) -> usize {
                const OBJECT_BYTES: usize = 800;
                OBJECT_BYTES * (0 $(+ self.$field.weight())*)
            }

            /// The number of objects of the switch that differ from the desired ones.
            pub(crate) fn differing(&self) -> usize {
                0 $(+ self.$field.ledger.differing())*
            }

            /// The number of objects that the switch refuses.
            pub(crate) fn refused(&self) -> usize {
                0 $(+ self.$field.ledger.refused())*
            }

            /// Schedules a retry of all that the switch refuses.
            pub(crate) fn retry_refused(&mut self) {
                $(self.$field.ledger.retry(|_| true);)*
            }

            /// All outstanding changes as one batch, or `None` if the switch is in sync. At most one batch is in flight.
            pub(crate) fn take(&mut self) -> Option<Batch> {
                // A flow may have been refused because something that it uses was missing.
                $(if in_openflow::$kind::IS_USED && self.$field.ledger.is_outstanding() {
                    self.flows.ledger.retry(|flow| in_openflow::$kind::is_used(flow, |_| true));
                })*
                let had_flows = std::mem::take(&mut self.had_flows);
                let batch = Batch { $($field: self.$field.ledger.take(),)* had_flows };
                (batch.len() > 0).then_some(batch)
            }

            /// Handles the end of the batch in flight: all changes are in force except those at the places in `refused`.
            /// Returns whether more must be sent, because the switch deleted desired flows together with what they used.
            pub(crate) fn settle(&mut self, refused: &BTreeSet<usize>) -> bool {
                let is_leaving = $(self.$field.is_leaving())||*;
                let users = if is_leaving { self.users_of_what_leaves() } else { Vec::new() };
                let mut first = 0;
                $(
                    let end = first + self.$field.ledger.in_flight();
                    self.$field.settle(refused.range(first..end).map(|place| place - first));
                    first = end;
                )*
                let _ = first;
                let dropped = !users.is_empty();
                self.flows.ledger.dropped(users);
                dropped
            }

            /// The number of entries kept in addition to the desired state.
            #[cfg(test)]
            pub(crate) fn entries(&self) -> usize {
                0 $(+ self.$field.ledger.entries())*
            }
        }
    };
}

kinds_in_openflow!(kinds);

impl Forwarding {
    fn users_of_what_leaves(&self) -> Vec<FlowKey> {
        let flows = self.flows.ledger.desired().iter();
        flows.filter(|(_, flow)| self.takes(flow)).map(|(key, _)| key.clone()).collect()
    }

    /// Takes a change reported by the switch that the driver did not make. [`absorb`](Self::absorb) later schedules
    /// its repair. Returns whether there is something to repair.
    pub(crate) fn updated(&mut self, update: Update) -> bool {
        if !self.flows.ledger.is_known() {
            return false;
        }
        let (key, actual, why) = match update {
            Update::Missed => {
                self.foreign.missed = true;
                return true;
            }
            Update::Gone(_, flow, Removal::GroupDeleted | Removal::MeterDeleted) if self.takes(&flow) => {
                // The driver deletes the group or the meter itself. If the flow is desired, it is sent again afterwards.
                return false;
            }
            Update::Gone(key, _, reason) => (key, None, reason.describe()),
            Update::Is(key, flow) => (key, Some(flow), "by another client".to_owned()),
        };
        let held = &mut self.flows.foreign;
        let known = held.get(&key).map(|held| held.actual.as_ref());
        let before = known.unwrap_or_else(|| self.flows.ledger.believed(&key));
        if before == actual.as_ref() {
            return false;
        }
        let what = change_text::<Flows>(&key, before, actual.as_ref());
        self.foreign.found(ForeignChange { what, why });
        if held.len() >= FOREIGN_FLOWS_MAX {
            held.clear();
            self.foreign.missed = true;
        }
        let resend = held.get(&key).is_some_and(|held| held.resend);
        held.insert(key, Held { actual, resend });
        true
    }

    /// The changes of others found since the last call, for the report.
    pub(crate) fn take_found(&mut self) -> Option<(usize, Vec<ForeignChange>)> {
        self.foreign.take_found()
    }

    /// Whether the switch failed to report some changes, so that all flows must be read.
    pub(crate) fn has_missed_changes(&self) -> bool {
        self.foreign.missed
    }

    /// Whether the reason for which the switch refuses a change shows that it has others than it should.
    pub(crate) fn is_contradiction(&self, place: Place<'_>, reason: &str) -> bool {
        let has_needs = match place {
            Place::Flows(Change { value: Some(flow), .. }) => self.has_needs_of(flow),
            _ => true,
        };
        has_needs && place.is_contradiction(reason)
    }
}

/// Describes a change by another client: the verb, and the thing. Only of what it reports, a switch says what was deleted.
fn change_text<K: InOpenFlow>(key: &K::Key, before: Option<&K::Value>, actual: Option<&K::Value>) -> String {
    let verb = match (before, actual) {
        (None, _) => "added",
        (Some(_), Some(_)) => "changed",
        (Some(_), None) => "deleted",
    };
    let shown = actual.or(before.filter(|_| K::IS_REPORTED));
    format!("{verb} {}", fmt::from_fn(|f| K::show(f, key, shown)))
}

#[cfg(test)]
impl Forwarding {
    /// Takes over the flows read from a switch without groups.
    pub(crate) fn read_flows(&mut self, flows: &BTreeMap<FlowKey, Flow>) {
        self.read(&Contents { flows: flows.clone(), ..Contents::default() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::in_openflow::groups::{Wanted, part_of};
    use crate::in_openflow::meters;
    use fake_switch::openflow::Table;
    use openflow_rs::{Body, FlowEntry, Message, MeterEntry};
    use proptest::prelude::*;

    fn flow(n: u8) -> (FlowKey, Flow) {
        let entry: FlowEntry = format!("table=1,reg0={n} actions=group:{n}").parse().expect("a flow");
        let key = FlowKey::new(entry.table, entry.priority, &entry.matches).expect("a short match");
        (key, Flow::new(0, &entry.actions).expect("short actions"))
    }

    fn bucket(n: u32) -> crate::Bucket {
        let actions = format!("set_field:{n}->reg1,resubmit(,40)").parse().expect("actions");
        crate::Bucket::new(n.into(), &actions).expect("a bucket")
    }

    /// A bucket of group 3 + `group`, which selects or fails over.
    fn candidate(group: u32, n: u32) -> crate::Bucket {
        let actions = format!("set_field:{n}->reg1,resubmit(,40)").parse().expect("actions");
        let weight = if group == 0 { n as u16 + 1 } else { 0 };
        let bucket = crate::Bucket::candidate(
            n.into(),
            weight,
            crate::Watched::port(openflow_rs::PortNo(n as u16 + 1)),
            &actions,
        );
        bucket.expect("a bucket")
    }

    fn choice(group: u32, n: u8) -> crate::Choice {
        let fields = [openflow_rs::Field::IpSrc, openflow_rs::Field::IpDst];
        match group {
            0 => crate::Choice::Select(fields[..=usize::from(n)].to_vec()),
            _ => crate::Choice::FastFailover,
        }
    }

    /// A flow that uses a meter.
    fn metered(n: u8) -> (FlowKey, Flow) {
        let entry: FlowEntry =
            format!("table=2,reg0={n} actions=meter:{},resubmit(,3)", n + 1).parse().expect("a flow");
        let key = FlowKey::new(entry.table, entry.priority, &entry.matches).expect("a short match");
        (key, Flow::new(0, &entry.actions).expect("short actions"))
    }

    /// Few groups and meters, flows that use them, and buckets and rates that differ.
    fn changes() -> impl Strategy<Value = Changes> {
        let buckets =
            proptest::collection::btree_map((0_u32..3, 0_u32..4), proptest::option::of(0_u32..2), 0..6);
        let candidates =
            proptest::collection::btree_map((0_u32..2, 0_u32..4), proptest::option::of(0_u32..2), 0..6);
        let fields = any::<bool>().prop_map(u8::from);
        let flows = proptest::collection::btree_map((0_u8..5, any::<bool>()), any::<bool>(), 0..4);
        let meters = proptest::collection::btree_map(1_u32..4, proptest::option::of(1_u32..3), 0..3);
        (buckets, flows, meters, candidates, fields).prop_map(
            |(buckets, flows, meters, candidates, fields)| {
                let mut changes = Changes::default();
                for ((group, bucket), there) in candidates {
                    // A group without a type would be one of type all.
                    changes.choices.add.insert(3 + group, choice(group, fields));
                    match there {
                        Some(n) => {
                            drop(changes.candidates.add.insert((3 + group, bucket), candidate(group, n)));
                        }
                        None => drop(changes.candidates.delete.insert((3 + group, bucket))),
                    }
                }
                for (key, there) in buckets {
                    match there {
                        Some(n) => drop(changes.buckets.add.insert(key, bucket(n))),
                        None => drop(changes.buckets.delete.insert(key)),
                    }
                }
                for (id, rate) in meters {
                    match rate {
                        Some(rate) => drop(changes.meters.add.insert(id, crate::Meter { rate, burst: 1 })),
                        None => drop(changes.meters.delete.insert(id)),
                    }
                }
                for ((n, limited), there) in flows {
                    let (key, flow) = if limited { metered(n) } else { flow(n) };
                    if there {
                        changes.flows.add.insert(key, flow);
                    } else {
                        changes.flows.delete.insert(key);
                    }
                }
                changes
            },
        )
    }

    /// Applies the batch to the table and returns the indexes of the refused changes.
    fn carry_out(table: &mut Table, batch: &Batch) -> BTreeSet<usize> {
        let mut refused = BTreeSet::new();
        for (place, bytes) in batch.messages() {
            match Message::decode(&bytes).expect("a message").body {
                Body::GroupMod(change) => {
                    Table::check_group(&change).expect("a group of its type");
                    table.change_group(&change).expect("a group that fits");
                }
                Body::MeterMod(change) => table.change_meter(&change).expect("a meter that fits"),
                Body::FlowMod(flow_mod) => {
                    let (key, flow) = Table::target(&flow_mod).expect("a flow");
                    if flow.as_ref().is_some_and(|flow| table.lacks_group(flow) || table.lacks_meter(flow)) {
                        refused.insert(place);
                    } else {
                        table.apply(key, flow);
                    }
                }
                other => panic!("{other:?}"),
            }
        }
        refused
    }

    proptest! {
            #[test]
        fn a_switch_has_the_groups_the_meters_and_all_flows_that_they_are_there_for(
            history in proptest::collection::vec((changes(), any::<bool>()), 1..12),
        ) {
            let (mut forwarding, mut table, mut want) = (Forwarding::default(), Table::default(), Desired::default());
            forwarding.read(&Contents::default());
            for (txn, (changes, sent)) in history.iter().enumerate() {
                want.apply(changes);
                forwarding.push(txn as u64, changes);
                if !sent {
                    continue;
                }
                // Flows that a deleted group or meter took with it are sent again at once.
                for _ in 0..2 {
                    if let Some(batch) = forwarding.take() {
                        let refused = carry_out(&mut table, &batch);
                        forwarding.settle(&refused);
                    }
                }
                let buckets = || want.buckets.iter().chain(&want.candidates);
                let groups: BTreeSet<u32> = buckets().map(|((group, _), _)| *group).collect();
                for group in 0..5 {
                    let of_group = buckets().filter(|((id, _), _)| *id == group);
                    let buckets = of_group.map(|((_, id), bucket)| (*id, bucket.bytes())).collect();
                    let shape = want.choices.get(&group).map(crate::Choice::shape).unwrap_or_default();
                    prop_assert_eq!(part_of(&table, group), Wanted { shape, buckets }.parts(group).remove(&group));
                }
                let flows: BTreeMap<FlowKey, Flow> = want
                    .flows
                    .iter()
                    .filter(|(_, flow)| !flow.uses_group(|id| !groups.contains(&id)))
                    .filter(|(_, flow)| !flow.uses_meter(|id| !want.meters.contains_key(&id)))
                    .map(|(key, flow)| (key.clone(), flow.clone()))
                    .collect();
                let meters: BTreeMap<u32, MeterEntry> =
                    want.meters.iter().map(|(id, meter)| (*id, meters::entry(*id, *meter))).collect();
                prop_assert_eq!(&table.meters, &meters);
                prop_assert_eq!(&table.flows, &flows);
            }
        }
    }
}
