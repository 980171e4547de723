//! The flows, the groups and the meters of a switch, each with their ledger.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use openflow_rs::MeterEntry;

use crate::foreign::{Foreign, Held, Removal, Update};
use crate::group::{self, Part, Wanted};
use crate::ledger::{self, Change, FlowChange, Ledger};
use crate::meter;
use switch_model::flow::{self, Flow, FlowKey};
use switch_model::zone::{self, ZoneOwner};
use switch_model::{Changes, Desired, ForeignChange};

/// A modification of a group, or of a part of one.
pub(crate) type GroupChange = Change<u32, Part>;

impl fmt::Display for GroupChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        group::show(f, self.key, self.value.as_ref())
    }
}

/// A modification of a meter.
pub(crate) type MeterChange = Change<u32, MeterEntry>;

impl fmt::Display for MeterChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        meter::show(f, self.key, self.value.as_ref())
    }
}

/// The changes sent in one batch. An index counts groups first, then flows, then meters.
#[derive(Debug, Clone, Default)]
pub(crate) struct Batch {
    pub(crate) groups: ledger::Changes<u32, Part>,
    pub(crate) flows: ledger::Changes<FlowKey, Flow>,
    pub(crate) meters: ledger::Changes<u32, MeterEntry>,
    /// Whether the switch was read just before and had flows, of which nobody knows whose connections they tracked.
    pub(crate) had_flows: bool,
}

impl Batch {
    pub(crate) fn len(&self) -> usize {
        self.groups.len() + self.flows.len() + self.meters.len()
    }

    /// The change at an index: of a group, of a flow or of a meter.
    pub(crate) fn at(&self, place: usize) -> Option<Place<'_>> {
        match place.checked_sub(self.groups.len()) {
            None => self.groups.get(place).map(Place::Group),
            Some(place) => match place.checked_sub(self.flows.len()) {
                None => self.flows.get(place).map(Place::Flow),
                Some(place) => self.meters.get(place).map(Place::Meter),
            },
        }
    }
}

/// One change of a batch.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place<'a> {
    Group(&'a GroupChange),
    Flow(&'a FlowChange),
    Meter(&'a MeterChange),
}

impl Place<'_> {
    pub(crate) fn txn(self) -> Option<u64> {
        match self {
            Place::Group(change) => change.txn,
            Place::Flow(change) => change.txn,
            Place::Meter(change) => change.txn,
        }
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Group(change) => change.fmt(f),
            Place::Flow(change) => change.fmt(f),
            Place::Meter(change) => change.fmt(f),
        }
    }
}

/// The contents of a switch, as read from it.
#[derive(Debug, Default)]
pub(crate) struct Installed {
    pub(crate) groups: BTreeMap<u32, Part>,
    pub(crate) flows: BTreeMap<FlowKey, Flow>,
    pub(crate) meters: BTreeMap<u32, MeterEntry>,
    /// The cookies of the flows of watched tables.
    pub(crate) watched: BTreeMap<FlowKey, u64>,
    /// Why the switch does not have the tunnel option as a field.
    pub(crate) option_fault: Option<String>,
}

#[derive(Debug, Default)]
pub(crate) struct Forwarding {
    /// The desired groups. The ledger has their parts.
    wanted: BTreeMap<u32, Wanted>,
    groups: Ledger<u32, Part>,
    flows: Ledger<FlowKey, Flow>,
    meters: Ledger<u32, MeterEntry>,
    /// Whether the switch had flows when it was read, and nothing was taken since.
    had_flows: bool,
    /// Groups and meters that are being deleted. The switch deletes the flows that use them.
    leaving: Leaving,
    /// Changes of others that are not undone yet.
    foreign: Foreign,
}

/// The flows of a state, and the marks of its zones.
fn flows_and_marks(desired: &Desired) -> Cow<'_, BTreeMap<FlowKey, Flow>> {
    if desired.zones.is_empty() {
        return Cow::Borrowed(&desired.flows);
    }
    let mut flows = desired.flows.clone();
    flows.extend(desired.zones.iter().map(|(zone, owner)| (zone::key(*zone), owner.mark())));
    Cow::Owned(flows)
}

/// Groups and meters that are being deleted.
#[derive(Debug, Default)]
struct Leaving {
    groups: Vec<u32>,
    meters: Vec<u32>,
}

impl Leaving {
    fn of(batch: &Batch) -> Leaving {
        let groups = batch.groups.iter().filter(|group| group.value.is_none());
        let meters = batch.meters.iter().filter(|meter| meter.value.is_none());
        Leaving {
            groups: groups.map(|group| group.key).collect(),
            meters: meters.map(|meter| meter.key).collect(),
        }
    }

    fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.meters.is_empty()
    }

    /// Whether a flow uses one of them.
    fn takes(&self, flow: &Flow) -> bool {
        flow.uses_group(|group| self.groups.contains(&group))
            || flow.uses_meter(|meter| self.meters.contains(&meter))
    }
}

impl Forwarding {
    /// Replaces the desired state.
    pub(crate) fn set(&mut self, desired: &Desired) {
        self.flows.set(&flows_and_marks(desired));
        self.wanted.clear();
        for (group, choice) in &desired.choices {
            self.wanted.entry(*group).or_default().shape = choice.shape();
        }
        for ((group, bucket), what) in desired.buckets.iter().chain(&desired.candidates) {
            self.wanted.entry(*group).or_default().buckets.insert(*bucket, what.bytes());
        }
        let parts = self.wanted.iter().flat_map(|(group, wanted)| wanted.parts(*group));
        self.groups.set(&parts.collect());
        self.meters.set(&desired.meters.iter().map(|(id, meter)| (*id, meter::entry(*id, *meter))).collect());
    }

    /// Applies the changes of a transaction to the desired state.
    pub(crate) fn push(&mut self, txn: u64, changes: &Changes) {
        for (key, flow) in changes.flows.each() {
            self.flows.push(txn, key.clone(), flow.cloned());
        }
        for (zone, owner) in changes.zones.each() {
            self.flows.push(txn, zone::key(*zone), owner.map(ZoneOwner::mark));
        }
        for (id, meter) in changes.meters.each() {
            self.meters.push(txn, *id, meter.map(|meter| meter::entry(*id, *meter)));
        }
        self.push_groups(txn, changes);
    }

    fn push_groups(&mut self, txn: u64, changes: &Changes) {
        let touched = changes.touched_groups();
        let before: Vec<BTreeMap<u32, Part>> = touched.iter().map(|group| self.parts(*group)).collect();
        for group in &changes.choices.delete {
            if let Some(wanted) = self.wanted.get_mut(group) {
                wanted.shape.clear();
            }
        }
        for (group, bucket) in changes.buckets.delete.iter().chain(&changes.candidates.delete) {
            if let Some(wanted) = self.wanted.get_mut(group) {
                wanted.buckets.remove(bucket);
            }
        }
        for (group, choice) in &changes.choices.add {
            self.wanted.entry(*group).or_default().shape = choice.shape();
        }
        for ((group, bucket), what) in changes.buckets.add.iter().chain(&changes.candidates.add) {
            self.wanted.entry(*group).or_default().buckets.insert(*bucket, what.bytes());
        }
        for (group, before) in touched.into_iter().zip(before) {
            if self.wanted.get(&group).is_some_and(Wanted::is_empty) {
                self.wanted.remove(&group);
            }
            let mut after = self.parts(group);
            let ids: BTreeSet<u32> = before.keys().chain(after.keys()).copied().collect();
            for id in ids {
                let part = after.remove(&id);
                if part.as_ref() != before.get(&id) {
                    self.groups.push(txn, id, part);
                }
            }
        }
    }

    fn parts(&self, group: u32) -> BTreeMap<u32, Part> {
        self.wanted.get(&group).map(|wanted| wanted.parts(group)).unwrap_or_default()
    }

    /// Takes over the contents of the switch after a read.
    pub(crate) fn read(&mut self, installed: &Installed) {
        self.groups.read(&installed.groups);
        self.flows.read(&installed.flows);
        self.meters.read(&installed.meters);
        self.had_flows = !installed.flows.is_empty();
        self.leaving = Leaving::default();
        self.foreign = Foreign::default();
    }

    /// Handles the loss of the connection: the contents of the switch are unknown until it is read again.
    pub(crate) fn lost(&mut self) {
        self.groups.lost();
        self.flows.lost();
        self.meters.lost();
        self.leaving = Leaving::default();
        self.foreign = Foreign::default();
    }

    /// Takes a change reported by the switch that the driver did not make. [`absorb`](Self::absorb) later schedules
    /// its repair. Returns whether there is something to repair.
    pub(crate) fn updated(&mut self, update: Update) -> bool {
        if !self.flows.is_known() {
            return false;
        }
        let (key, actual, why) = match update {
            Update::Missed => {
                self.foreign.missed = true;
                return true;
            }
            Update::Gone(_, flow, Removal::GroupDeleted | Removal::MeterDeleted)
                if self.leaving.takes(&flow) =>
            {
                // The driver deletes the group or the meter itself. If the flow is desired, it is sent again afterwards.
                return false;
            }
            Update::Gone(key, _, reason) => (key, None, reason.describe()),
            Update::Is(key, flow) => (key, Some(flow), "by another client".to_owned()),
        };
        let known = self.foreign.flows.get(&key).map(|held| held.actual.as_ref());
        let before = known.unwrap_or_else(|| self.flows.believed(&key));
        if before == actual.as_ref() {
            return false;
        }
        let what = change_text(before.is_some(), actual.is_some(), |f| {
            flow::show(f, &key, actual.as_ref().or(before))
        });
        self.foreign.found(ForeignChange { what, why });
        self.foreign.hold_flow(key, actual);
        true
    }

    /// Compares the groups and meters of the switch, and its flows if they were read, with the contents that the driver
    /// expects. Every difference is a change by others.
    pub(crate) fn compare(
        &mut self,
        groups: &BTreeMap<u32, Part>,
        meters: &BTreeMap<u32, MeterEntry>,
        flows: Option<&BTreeMap<FlowKey, Flow>>,
    ) {
        if !self.flows.is_known() {
            return;
        }
        let why = || "by another client, or lost on the way; found by comparison".to_owned();
        let held = std::mem::take(&mut self.foreign.groups);
        for (id, actual) in self.groups.deviations(groups) {
            if held.get(&id) != Some(&actual) {
                let before = self.groups.believed(&id);
                let what =
                    change_text(before.is_some(), actual.is_some(), |f| group::show(f, id, actual.as_ref()));
                self.foreign.found(ForeignChange { what, why: why() });
            }
            self.foreign.groups.insert(id, actual);
        }
        let held = std::mem::take(&mut self.foreign.meters);
        for (id, actual) in self.meters.deviations(meters) {
            if held.get(&id) != Some(&actual) {
                let before = self.meters.believed(&id);
                let what =
                    change_text(before.is_some(), actual.is_some(), |f| meter::show(f, id, actual.as_ref()));
                self.foreign.found(ForeignChange { what, why: why() });
            }
            self.foreign.meters.insert(id, actual);
        }
        let Some(flows) = flows else { return };
        self.foreign.missed = false;
        let held = std::mem::take(&mut self.foreign.flows);
        for (key, actual) in self.flows.deviations(flows) {
            if held.get(&key).is_none_or(|held| held.actual != actual) {
                let before = self.flows.believed(&key);
                let what = change_text(before.is_some(), actual.is_some(), |f| {
                    flow::show(f, &key, actual.as_ref().or(before))
                });
                self.foreign.found(ForeignChange { what, why: why() });
            }
            self.foreign.flows.insert(key, Held { actual, resend: false });
        }
    }

    /// The changes of others found since the last call, for the report.
    pub(crate) fn take_found(&mut self) -> Option<(usize, Vec<ForeignChange>)> {
        self.foreign.take_found()
    }

    /// Whether the switch failed to report some changes, so that all flows must be read.
    pub(crate) fn has_missed_changes(&self) -> bool {
        self.foreign.missed
    }

    /// Schedules the repair of the changes of others. Must be called while no batch is in flight.
    pub(crate) fn absorb(&mut self) {
        for (key, held) in std::mem::take(&mut self.foreign.flows) {
            self.flows.observe(key, held.actual, held.resend);
        }
        for (id, actual) in std::mem::take(&mut self.foreign.groups) {
            self.groups.observe(id, actual, false);
        }
        for (id, actual) in std::mem::take(&mut self.foreign.meters) {
            self.meters.observe(id, actual, false);
        }
    }

    /// Takes over the groups read from the switch after it refused changes of groups, some of which may be partly in
    /// force.
    pub(crate) fn correct_refused_groups(&mut self, groups: &BTreeMap<u32, Part>) {
        self.groups.correct_refused(groups);
    }

    /// Whether the switch has all groups and meters that a flow uses, as far as the driver knows.
    pub(crate) fn has_needs_of(&self, flow: &Flow) -> bool {
        let no_group = flow.uses_group(|group| self.groups.believed(&group).is_none());
        let no_meter = flow.uses_meter(|meter| self.meters.believed(&meter).is_none());
        !no_group && !no_meter
    }

    /// About the memory that the desired contents of the switch take while they are read, in bytes.
    pub(crate) fn expected_bytes(&self) -> usize {
        const OBJECT_BYTES: usize = 800;
        let buckets: usize = self.wanted.values().map(|wanted| wanted.buckets.len()).sum();
        OBJECT_BYTES * (self.flows.desired().len() + self.meters.desired().len() + buckets)
    }

    /// The number of objects of the switch that differ from the desired ones.
    pub(crate) fn differing(&self) -> usize {
        self.groups.differing() + self.flows.differing() + self.meters.differing()
    }

    /// The number of groups, flows and meters that the switch refuses.
    pub(crate) fn refused(&self) -> usize {
        self.groups.refused() + self.flows.refused() + self.meters.refused()
    }

    /// All outstanding changes as one batch, or `None` if the switch is in sync. At most one batch is in flight.
    pub(crate) fn take(&mut self) -> Option<Batch> {
        if self.groups.is_outstanding() {
            // A flow may have been refused because its group was missing.
            self.flows.retry(|flow| flow.uses_group(|_| true));
        }
        if self.meters.is_outstanding() {
            self.flows.retry(|flow| flow.uses_meter(|_| true));
        }
        let (groups, flows, meters) = (self.groups.take(), self.flows.take(), self.meters.take());
        let batch = Batch { groups, flows, meters, had_flows: std::mem::take(&mut self.had_flows) };
        self.leaving = Leaving::of(&batch);
        (batch.len() > 0).then_some(batch)
    }

    /// Handles the end of the batch in flight: all changes are in force except those at the indexes in `refused`.
    /// Returns whether more must be sent, because the switch deleted desired flows together with their groups or
    /// meters.
    pub(crate) fn settle(&mut self, refused: &BTreeSet<usize>) -> bool {
        if !self.foreign.flows.is_empty() {
            for key in self.flows.keys_in_flight() {
                if let Some(held) = self.foreign.flows.get_mut(key) {
                    held.resend = true;
                }
            }
        }
        let (groups, flows) = (self.groups.in_flight(), self.flows.in_flight());
        self.groups.settle(refused.iter().copied().filter(|place| *place < groups));
        let beyond = refused.iter().filter_map(|place| place.checked_sub(groups));
        self.flows.settle(beyond.clone().filter(|place| *place < flows));
        self.meters.settle(beyond.filter_map(|place| place.checked_sub(flows)));
        let leaving = std::mem::take(&mut self.leaving);
        if leaving.is_empty() {
            return false;
        }
        let users: Vec<FlowKey> = self
            .flows
            .desired()
            .iter()
            .filter(|(_, flow)| leaving.takes(flow))
            .map(|(key, _)| key.clone())
            .collect();
        let dropped = !users.is_empty();
        self.flows.dropped(users);
        dropped
    }
}

/// Describes a change by another client: the verb, and the flow or the group.
fn change_text(
    was_there: bool,
    is_there: bool,
    show: impl Fn(&mut fmt::Formatter<'_>) -> fmt::Result,
) -> String {
    let verb = match (was_there, is_there) {
        (false, _) => "added",
        (true, true) => "changed",
        (true, false) => "deleted",
    };
    format!("{verb} {}", fmt::from_fn(show))
}

#[cfg(test)]
impl Forwarding {
    /// The number of entries kept in addition to the desired state.
    pub(crate) fn entries(&self) -> usize {
        self.groups.entries() + self.flows.entries() + self.meters.entries()
    }

    /// Takes over the flows read from a switch without groups.
    pub(crate) fn read_flows(&mut self, flows: &BTreeMap<FlowKey, Flow>) {
        self.read(&Installed { flows: flows.clone(), ..Installed::default() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openflow::{messages, part_of};
    use fake_switch::openflow::Table;
    use openflow_rs::{Body, FlowEntry, Message};
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
        for (place, bytes) in messages(batch) {
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
            forwarding.read(&Installed::default());
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
                    want.meters.iter().map(|(id, meter)| (*id, meter::entry(*id, *meter))).collect();
                prop_assert_eq!(&table.meters, &meters);
                prop_assert_eq!(&table.flows, &flows);
            }
        }
    }
}
