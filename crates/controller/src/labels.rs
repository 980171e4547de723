//! Labels: the numbers that packets and registers carry for datapaths, ports, flood groups and nodes.
//!
//! An object keeps its label until it is deleted. The label is then allocated again as late as possible: after all labels
//! that were never used, and after all labels that were released earlier. So a packet in flight, or a flow in an unreachable
//! switch, does not reach another object. Allocation depends on the history of the objects alone.

use std::collections::{BTreeMap, HashSet, VecDeque};

use network::{ChangeSet, Kind, ObjectStore, Outcome, Rows};
use nlog_data::{Row, Value};

use crate::record::LabelRecord;

/// The greatest label: 24 bits, so that every encapsulation's key carries it.
const LABEL_MAX: u32 = 0x00ff_ffff;
/// The first label of a datapath or a node; 0 is none.
const FIRST: u32 = 1;
/// The first label of a port. Lower numbers are reserved for receivers other than tenants' ports.
const PORT_MIN: u32 = 0x101;

/// The rules' names for the receivers of flooded packets.
pub(crate) const AUDIENCES: [&str; 2] = ["all", "unknown"];

/// The use of a label, in the order of allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Slot {
    Datapath,
    SwitchPort,
    LocalnetPort,
    /// A flood group of a switch. Its packets go to a host that delivers them to its own ports, or to a host that also
    /// relays them to others.
    Replication {
        /// Index into [`AUDIENCES`].
        audience: usize,
        relay: bool,
    },
    Node,
}

impl Slot {
    /// All slots, with their names in the journal.
    const ALL: [(Slot, &'static str); 8] = [
        (Slot::Datapath, "switch"),
        (Slot::SwitchPort, "switch_port"),
        (Slot::LocalnetPort, "localnet_port"),
        (Slot::Replication { audience: 0, relay: false }, "switch/all"),
        (Slot::Replication { audience: 0, relay: true }, "switch/all/relay"),
        (Slot::Replication { audience: 1, relay: false }, "switch/unknown"),
        (Slot::Replication { audience: 1, relay: true }, "switch/unknown/relay"),
        (Slot::Node, "transport_node"),
    ];

    /// The slots of objects of a kind.
    fn of(kind: Kind) -> impl Iterator<Item = Slot> {
        Slot::ALL.iter().map(|(slot, _)| *slot).filter(move |slot| slot.kind() == kind)
    }

    fn kind(self) -> Kind {
        match self {
            Slot::Datapath | Slot::Replication { .. } => Kind::Switch,
            Slot::SwitchPort => Kind::SwitchPort,
            Slot::LocalnetPort => Kind::LocalnetPort,
            Slot::Node => Kind::TransportNode,
        }
    }

    /// The index of the space that its labels come from.
    fn space(self) -> usize {
        match self {
            Slot::Datapath => 0,
            Slot::SwitchPort | Slot::LocalnetPort | Slot::Replication { .. } => 1,
            Slot::Node => 2,
        }
    }
}

/// All labels in use.
#[derive(Debug)]
pub(crate) struct Labels {
    spaces: [Space; 3],
    given: BTreeMap<Slot, BTreeMap<String, u32>>,
}

/// Every label of a space is taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("all {0} labels are in use: {1} cannot be created; delete objects that are no longer needed")]
pub(crate) struct Exhausted(u32, String);

/// The effect of a change of objects on labels.
#[derive(Debug, Default)]
pub(crate) struct LabelChanges {
    /// The allocated labels, in the order of allocation.
    pub(crate) records: Vec<LabelRecord>,
    /// Inserted and deleted rows of the tables in `rules/interface/labels.nlog`.
    pub(crate) rows: Rows,
    allocated: Vec<Given>,
    released: Vec<Given>,
}

type Given = (Slot, String, u32);

/// Undoes a change of labels.
#[derive(Debug, Default)]
pub(crate) struct LabelUndo {
    allocated: Vec<Given>,
    released: Vec<Given>,
    /// The first unused label of each space at that time.
    never_used: [u32; 3],
}

impl Default for Labels {
    fn default() -> Self {
        let spaces = [FIRST, PORT_MIN, FIRST].map(|min| Space::new(min, LABEL_MAX));
        Labels { spaces, given: BTreeMap::new() }
    }
}

impl Labels {
    /// Plans the labels that a change allocates and releases. The plan takes effect with [`Labels::commit`].
    pub(crate) fn plan(&self, changes: &ChangeSet) -> Result<LabelChanges, Exhausted> {
        let mut plan = LabelChanges::default();
        for change in changes.effective().filter(|change| change.outcome() == Outcome::Deleted) {
            let id = change.key.id.as_str();
            let given = |slot| self.label(slot, id).map(|label| (slot, id.to_owned(), label));
            plan.released.extend(Slot::of(change.key.kind).filter_map(given));
        }
        let created: Vec<(Kind, &str)> = changes
            .effective()
            .filter(|change| change.outcome() == Outcome::Created)
            .map(|change| (change.key.kind, change.key.id.as_str()))
            .collect();
        self.allocate(&mut plan, created)?;
        Ok(plan)
    }

    /// Labels for existing objects without one: an older version did not allocate labels for their kind.
    pub(crate) fn plan_missing(&self, objects: &ObjectStore) -> Result<LabelChanges, Exhausted> {
        let mut plan = LabelChanges::default();
        self.allocate(&mut plan, objects.iter().map(|(key, _)| (key.kind, key.id.as_str())).collect())?;
        Ok(plan)
    }

    /// Finds a label for each slot without one.
    fn allocate(&self, plan: &mut LabelChanges, mut objects: Vec<(Kind, &str)>) -> Result<(), Exhausted> {
        objects.sort_unstable();
        let mut free = self.spaces.each_ref().map(Space::free);
        for (slot, name) in Slot::ALL {
            for (_, id) in objects.iter().filter(|(kind, _)| *kind == slot.kind()) {
                if self.label(slot, id).is_some() {
                    continue;
                }
                let label = free[slot.space()].next();
                let exhausted = || Exhausted(self.spaces[slot.space()].size(), (*id).to_owned());
                let label = label.ok_or_else(exhausted)?;
                plan.records.push(LabelRecord(name.to_owned(), (*id).to_owned(), label));
                plan.allocated.push((slot, (*id).to_owned(), label));
            }
        }
        plan.rows = Rows { insert: rows(&plan.allocated), delete: rows(&plan.released) };
        Ok(())
    }

    /// Applies a plan, and returns the data to undo it.
    pub(crate) fn commit(&mut self, plan: LabelChanges) -> LabelUndo {
        let never_used = self.spaces.each_ref().map(|space| space.never_used);
        let LabelChanges { allocated, released, .. } = plan;
        for (slot, id, _) in &released {
            self.release_slot(*slot, id);
        }
        for (slot, id, label) in &allocated {
            self.take(*slot, id, *label);
        }
        LabelUndo { allocated, released, never_used }
    }

    /// Undoes the last commit.
    pub(crate) fn undo(&mut self, undo: &LabelUndo) {
        for (slot, id, label) in undo.allocated.iter().rev() {
            self.slot(*slot).remove(id);
            let space = slot.space();
            self.spaces[space].untake(*label, undo.never_used[space]);
        }
        for (slot, id, label) in undo.released.iter().rev() {
            self.slot(*slot).insert(id.clone(), *label);
            self.spaces[slot.space()].unrelease(*label);
        }
        for (space, never_used) in self.spaces.iter_mut().zip(undo.never_used) {
            space.never_used = never_used;
        }
    }

    /// Restores an allocated label from a record, by the name of its slot. The error explains why the record is
    /// invalid.
    pub(crate) fn restore(&mut self, name: &str, id: &str, label: u32) -> Result<(), String> {
        let slot = Slot::ALL.iter().find(|(_, slot)| *slot == name).map(|(slot, _)| *slot);
        let slot = slot.ok_or_else(|| format!("nothing has a label as {name}"))?;
        let space = &self.spaces[slot.space()];
        if !(space.min..=space.max).contains(&label) || space.taken.contains(&label) {
            return Err(format!("label {label} cannot be that of {name} {id}"));
        }
        if self.label(slot, id).is_some() {
            return Err(format!("{name} {id} has a label already"));
        }
        self.take(slot, id, label);
        Ok(())
    }

    /// Releases the labels of an object, if it has any.
    pub(crate) fn release(&mut self, kind: Kind, id: &str) {
        for slot in Slot::of(kind) {
            self.release_slot(slot, id);
        }
    }

    /// The label of an object; for a switch, the label of its datapath.
    pub(crate) fn get(&self, kind: Kind, id: &str) -> Option<u32> {
        Slot::of(kind).next().and_then(|slot| self.label(slot, id))
    }

    /// The rows of all labels.
    pub(crate) fn rows(&self) -> Rows {
        let all = self
            .given
            .iter()
            .flat_map(|(slot, given)| given.iter().map(move |(id, label)| (*slot, id, *label)));
        let all: Vec<Given> = all.map(|(slot, id, label)| (slot, id.clone(), label)).collect();
        Rows { insert: rows(&all), delete: BTreeMap::new() }
    }

    fn label(&self, slot: Slot, id: &str) -> Option<u32> {
        self.given.get(&slot)?.get(id).copied()
    }

    fn slot(&mut self, slot: Slot) -> &mut BTreeMap<String, u32> {
        self.given.entry(slot).or_default()
    }

    fn take(&mut self, slot: Slot, id: &str, label: u32) {
        self.slot(slot).insert(id.to_owned(), label);
        self.spaces[slot.space()].take(label);
    }

    fn release_slot(&mut self, slot: Slot, id: &str) {
        if let Some(label) = self.slot(slot).remove(id) {
            self.spaces[slot.space()].release(label);
        }
    }
}

/// The rows of labels, ascending in each table.
fn rows(given: &[Given]) -> BTreeMap<&'static str, Vec<Row>> {
    let mut rows: BTreeMap<&'static str, Vec<Row>> = BTreeMap::new();
    // An audience of a switch has one row for its two labels.
    let mut replication: BTreeMap<(&str, usize), [u32; 2]> = BTreeMap::new();
    for (slot, id, label) in given {
        let table = match slot {
            Slot::Datapath => "datapath_label",
            Slot::SwitchPort | Slot::LocalnetPort => "port_label",
            Slot::Node => "node_label",
            Slot::Replication { audience, relay } => {
                replication.entry((id, *audience)).or_default()[usize::from(*relay)] = *label;
                continue;
            }
        };
        rows.entry(table).or_default().push(vec![text(id), Value::Int((*label).into())]);
    }
    for ((id, audience), labels) in replication {
        let labels = labels.map(|label| Value::Int(label.into()));
        let row = [text(id), text(AUDIENCES[audience])].into_iter().chain(labels).collect();
        rows.entry("replication_label").or_default().push(row);
    }
    for list in rows.values_mut() {
        list.sort_unstable();
    }
    rows
}

fn text(text: &str) -> Value {
    Value::String(text.into())
}

/// A range of numbers, some of them in use.
#[derive(Debug)]
struct Space {
    min: u32,
    max: u32,
    /// The least number never used. All greater numbers are unused too.
    never_used: u32,
    taken: HashSet<u32>,
    /// Released numbers, in order of release.
    freed: VecDeque<u32>,
}

impl Space {
    fn new(min: u32, max: u32) -> Self {
        Space { min, max, never_used: min, taken: HashSet::new(), freed: VecDeque::new() }
    }

    fn size(&self) -> u32 {
        self.max - self.min + 1
    }

    /// The free numbers, in the order of allocation.
    fn free(&self) -> impl Iterator<Item = u32> {
        (self.never_used..=self.max).chain(self.freed.iter().copied())
    }

    fn take(&mut self, label: u32) {
        if label >= self.never_used {
            // Skipped labels count as released first.
            for skipped in (self.never_used..label).rev() {
                self.freed.push_front(skipped);
            }
            self.never_used = label + 1;
        } else if let Some(at) = self.freed.iter().position(|freed| *freed == label) {
            self.freed.remove(at);
        }
        self.taken.insert(label);
    }

    /// Undoes [`Space::take`] of the last label taken. Labels from `never_used` on were unused before.
    fn untake(&mut self, label: u32, never_used: u32) {
        self.taken.remove(&label);
        if label < never_used {
            self.freed.push_front(label);
        }
    }

    fn release(&mut self, label: u32) {
        if self.taken.remove(&label) {
            self.freed.push_back(label);
        }
    }

    /// Undoes [`Space::release`] of the last label released.
    fn unrelease(&mut self, label: u32) {
        self.freed.pop_back();
        self.taken.insert(label);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Takes the first free label.
    fn give(space: &mut Space) -> Option<u32> {
        let label = space.free().next()?;
        space.take(label);
        Some(label)
    }

    #[test]
    fn a_label_given_back_comes_after_all_never_used_and_those_given_back_before() {
        let mut space = Space::new(5, 9);
        assert_eq!([(); 3].map(|()| give(&mut space)), [Some(5), Some(6), Some(7)]);
        space.release(6);
        space.release(5);
        assert_eq!([(); 5].map(|()| give(&mut space)), [Some(8), Some(9), Some(6), Some(5), None]);
    }

    fn changes(store: &ObjectStore, text: &str) -> ChangeSet {
        let mut batch = network::Batch::default();
        batch.add_document("net.yaml", text);
        store.plan(batch).unwrap()
    }

    #[test]
    fn ports_and_replication_share_a_space_and_nodes_have_their_own() {
        let text = "
{kind: transport_node, id: hv2, ip: 172.16.0.2}
---
{kind: transport_node, id: hv1, ip: 172.16.0.1}
---
{kind: transport_zone, id: z}
---
{kind: switch, id: blue}
---
{kind: switch_port, id: p2, switch: blue}
---
{kind: switch_port, id: p1, switch: blue}
---
{kind: localnet_port, id: out, switch: blue, network: physnet}
";
        let mut labels = Labels::default();
        let mut store = ObjectStore::default();
        let objects = changes(&store, text);
        let plan = labels.plan(&objects).unwrap();
        let shown = |rows: &BTreeMap<&'static str, Vec<Row>>| {
            let line = |(table, rows): (&&'static str, &Vec<Row>)| {
                let rows = rows.iter().map(|row| format!("{table} {row:?}"));
                rows.map(|line| line.replace("String(\"", "(\"")).collect::<Vec<_>>()
            };
            rows.iter().flat_map(line).collect::<Vec<_>>()
        };
        let records: Vec<String> = plan
            .records
            .iter()
            .map(|LabelRecord(slot, id, label)| format!("{slot} {id} {label:#x}"))
            .collect();
        assert_eq!(
            records,
            [
                "switch blue 0x1",
                "switch_port p1 0x101",
                "switch_port p2 0x102",
                "localnet_port out 0x103",
                "switch/all blue 0x104",
                "switch/all/relay blue 0x105",
                "switch/unknown blue 0x106",
                "switch/unknown/relay blue 0x107",
                "transport_node hv1 0x1",
                "transport_node hv2 0x2",
            ]
        );
        let inserted = shown(&plan.rows.insert);
        assert_eq!(inserted.len(), 8, "{inserted:?}");
        let replication = &plan.rows.insert["replication_label"];
        let row = |audience, label: i64, relay: i64| {
            vec![super::text("blue"), super::text(audience), Value::Int(label), Value::Int(relay)]
        };
        assert_eq!(replication, &[row("all", 0x104, 0x105), row("unknown", 0x106, 0x107)]);

        labels.commit(plan);
        store.commit(&objects);
        assert_eq!(shown(&labels.rows().insert), inserted);
        assert!(labels.plan_missing(&store).unwrap().records.is_empty());
        let keys: Vec<_> = store.iter().map(|(key, _)| key.clone()).collect();
        let gone = labels.plan(&store.plan_delete(&keys).unwrap()).unwrap();
        assert_eq!(shown(&gone.rows.delete), inserted);
        labels.commit(gone);
        assert_eq!(labels.rows(), Rows::default());
    }

    #[test]
    fn objects_of_a_journal_without_these_labels_get_them() {
        let mut labels = Labels::default();
        let mut store = ObjectStore::default();
        let text = "{kind: switch, id: s}\n---\n{kind: switch_port, id: p, switch: s}\n---\n{kind: transport_node, id: hv1, ip: 172.16.0.1}";
        store.commit(&changes(&store, text));
        labels.restore("switch", "s", 1).unwrap();
        labels.restore("switch_port", "p", 0x101).unwrap();
        let plan = labels.plan_missing(&store).unwrap();
        let records: Vec<_> = plan.records.iter().map(|record| (&*record.0, record.2)).collect();
        assert_eq!(
            records,
            [
                ("switch/all", 0x102),
                ("switch/all/relay", 0x103),
                ("switch/unknown", 0x104),
                ("switch/unknown/relay", 0x105),
                ("transport_node", 1)
            ]
        );
    }

    #[test]
    fn nobody_gets_a_label_that_cannot_be_his() {
        let mut labels = Labels::default();
        labels.restore("switch_port", "p1", 0x101).unwrap();
        assert!(labels.restore("switch_port", "p2", 0x101).is_err());
        assert!(labels.restore("localnet_port", "p2", 0x101).is_err());
        assert!(labels.restore("switch/all", "s1", 0x101).is_err());
        assert!(labels.restore("switch_port", "p1", 0x102).is_err());
        assert!(labels.restore("switch_port", "p3", 0x100).is_err());
        assert!(labels.restore("switch", "s1", 0x100_0000).is_err());
        assert!(labels.restore("transport_zone", "z1", 1).is_err());
        labels.restore("switch", "s1", 0x101).unwrap();
        labels.restore("transport_node", "hv1", 1).unwrap();
        let all = [(Kind::SwitchPort, "p1"), (Kind::Switch, "s1"), (Kind::TransportNode, "hv1")];
        assert_eq!(all.map(|(kind, id)| labels.get(kind, id)), [Some(0x101), Some(0x101), Some(1)]);
    }

    #[test]
    fn what_has_no_label_left_is_named() {
        let space = || Space::new(1, 4);
        let labels = Labels { spaces: [space(), space(), space()], given: BTreeMap::new() };
        let four = "{kind: switch, id: s}";
        assert!(labels.plan(&changes(&ObjectStore::default(), four)).is_ok());
        let five = "{kind: switch, id: s}\n---\n{kind: switch_port, id: p, switch: s}";
        let error = labels.plan(&changes(&ObjectStore::default(), five)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "all 4 labels are in use: s cannot be created; delete objects that are no longer needed"
        );
    }

    proptest! {
            /// Compares with a plain list of all labels in the order of allocation, including undone steps.
        #[test]
        fn labels_are_unique_and_come_again_in_the_order_of_their_return(
            steps in prop::collection::vec((0..3, 0..16usize), 1..400),
        ) {
            let mut space = Space::new(1, 32);
            let mut due: VecDeque<u32> = (1..=32).collect();
            let mut alive: Vec<u32> = Vec::new();
            for (step, at) in steps {
                if step == 0 && !alive.is_empty() {
                    let label = alive.remove(at % alive.len());
                    due.push_back(label);
                    space.release(label);
                } else if step == 1 && !alive.is_empty() && !due.is_empty() {
                    // One label is released and one taken, and both steps are undone.
                    let (gone, come, never_used) = (alive[at % alive.len()], due[0], space.never_used);
                    space.release(gone);
                    space.take(come);
                    space.untake(come, never_used);
                    space.unrelease(gone);
                    space.never_used = never_used;
                } else {
                    let label = due.pop_front();
                    prop_assert_eq!(give(&mut space), label);
                    alive.extend(label);
                }
                prop_assert!(space.free().eq(due.iter().copied()));
                prop_assert!(alive.iter().all(|label| space.taken.contains(label)));
            }
        }
    }
}
