//! Labels: the numbers that packets and registers carry for datapaths and ports.
//!
//! A label stays with its object for as long as the object lives. It is then given out again as late as possible: the
//! allocator goes round, so that a packet still on its way, or a flow still in a switch that is cut off, does not reach
//! another object. Allocation is a function of the objects' history, nothing else.

use std::collections::{BTreeMap, HashSet};

use network::{ChangeSet, Kind, Outcome, Rows};
use nlog_data::Value;

use crate::record::LabelRecord;

/// The greatest label: 24 bits, so that every encapsulation's key carries it.
const LABEL_MAX: u32 = 0x00ff_ffff;
/// The first label of a datapath; 0 is none.
const DATAPATH_MIN: u32 = 1;
/// The first label of a port. Lower numbers stay free for what is not a port of a tenant.
const PORT_MIN: u32 = 0x101;

/// All labels in use.
#[derive(Debug)]
pub(crate) struct Labels {
    datapaths: Space,
    ports: Space,
}

/// Every label of a space is taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("all {0} labels are in use: {1} cannot be created")]
pub(crate) struct Exhausted(u32, String);

/// What a change of objects does to labels.
#[derive(Debug, Default)]
pub(crate) struct LabelChanges {
    /// Allocated, in this order.
    pub(crate) records: Vec<LabelRecord>,
    /// The rows of `datapath_label` and `port_label` that come and go.
    pub(crate) rows: Rows,
    allocated: Vec<(Kind, String, u32)>,
    released: Vec<(Kind, String, u32)>,
}

/// What takes a change of labels back.
#[derive(Debug, Default)]
pub(crate) struct LabelUndo {
    allocated: Vec<(Kind, String, u32)>,
    released: Vec<(Kind, String, u32)>,
    /// Where the searches began.
    next: [u32; 2],
}

impl Default for Labels {
    fn default() -> Self {
        Labels { datapaths: Space::new(DATAPATH_MIN, LABEL_MAX), ports: Space::new(PORT_MIN, LABEL_MAX) }
    }
}

impl Labels {
    /// The labels that objects get and give back; nothing changes before [`Labels::commit`].
    pub(crate) fn plan(&self, changes: &ChangeSet) -> Result<LabelChanges, Exhausted> {
        let mut plan = LabelChanges::default();
        for change in changes.effective().filter(|change| change.outcome() == Outcome::Deleted) {
            let Some((space, table)) = self.space(change.key.kind) else { continue };
            if let Some(label) = space.labels.get(&change.key.id) {
                plan.rows.delete.entry(table).or_default().push(row(&change.key.id, *label));
                plan.released.push((change.key.kind, change.key.id.clone(), *label));
            }
        }
        for kind in [Kind::Switch, Kind::SwitchPort] {
            let Some((space, table)) = self.space(kind) else { continue };
            let created =
                |change: &&network::Change| change.key.kind == kind && change.outcome() == Outcome::Created;
            let mut ids: Vec<&str> =
                changes.effective().filter(created).map(|change| change.key.id.as_str()).collect();
            ids.sort_unstable();
            for (id, label) in ids.iter().zip(space.plan(&ids)?) {
                plan.rows.insert.entry(table).or_default().push(row(id, label));
                plan.records.push(LabelRecord(kind.name().to_owned(), (*id).to_owned(), label));
                plan.allocated.push((kind, (*id).to_owned(), label));
            }
        }
        Ok(plan)
    }

    /// Makes a plan true; what is returned takes it back.
    pub(crate) fn commit(&mut self, plan: LabelChanges) -> LabelUndo {
        let next = [self.datapaths.next, self.ports.next];
        let LabelChanges { allocated, released, .. } = plan;
        self.exchange(&released, &allocated);
        LabelUndo { allocated, released, next }
    }

    /// Takes back what was committed last.
    pub(crate) fn undo(&mut self, undo: &LabelUndo) {
        self.exchange(&undo.allocated, &undo.released);
        [self.datapaths.next, self.ports.next] = undo.next;
    }

    fn exchange(&mut self, released: &[(Kind, String, u32)], allocated: &[(Kind, String, u32)]) {
        for (kind, id, _) in released {
            self.release(*kind, id);
        }
        for (kind, id, label) in allocated {
            if let Some(space) = self.space_mut(*kind) {
                space.take(id.clone(), *label);
            }
        }
    }

    /// Takes a label that was allocated before; `Err` says why that cannot have been.
    pub(crate) fn restore(&mut self, kind: Kind, id: &str, label: u32) -> Result<(), String> {
        let space = self.space_mut(kind).ok_or_else(|| format!("a {kind} has no label"))?;
        if !(space.min..=space.max).contains(&label) || space.taken.contains(&label) {
            return Err(format!("label {label} cannot be that of {kind} {id}"));
        }
        if space.labels.contains_key(id) {
            return Err(format!("{kind} {id} has a label already"));
        }
        space.take(id.to_owned(), label);
        Ok(())
    }

    /// Gives back the label of an object, if it has one.
    pub(crate) fn release(&mut self, kind: Kind, id: &str) {
        if let Some(space) = self.space_mut(kind) {
            space.release(id);
        }
    }

    /// The label of an object.
    pub(crate) fn get(&self, kind: Kind, id: &str) -> Option<u32> {
        self.space(kind).and_then(|(space, _)| space.labels.get(id).copied())
    }

    /// The rows of all labels.
    pub(crate) fn rows(&self) -> Rows {
        let mut rows = Rows::default();
        for kind in [Kind::Switch, Kind::SwitchPort] {
            if let Some((space, table)) = self.space(kind) {
                let list = space.labels.iter().map(|(id, label)| row(id, *label)).collect();
                rows.insert.insert(table, list);
            }
        }
        rows
    }

    fn space(&self, kind: Kind) -> Option<(&Space, &'static str)> {
        match kind {
            Kind::Switch => Some((&self.datapaths, "datapath_label")),
            Kind::SwitchPort => Some((&self.ports, "port_label")),
            Kind::TransportZone | Kind::TransportNode | Kind::LocalnetPort => None,
        }
    }

    fn space_mut(&mut self, kind: Kind) -> Option<&mut Space> {
        match kind {
            Kind::Switch => Some(&mut self.datapaths),
            Kind::SwitchPort => Some(&mut self.ports),
            Kind::TransportZone | Kind::TransportNode | Kind::LocalnetPort => None,
        }
    }
}

fn row(id: &str, label: u32) -> Vec<Value> {
    vec![Value::String(id.into()), Value::Int(label.into())]
}

/// A range of numbers and who has them.
#[derive(Debug)]
struct Space {
    min: u32,
    max: u32,
    /// Where the search for a free label begins: after the one allocated last.
    next: u32,
    labels: BTreeMap<String, u32>,
    taken: HashSet<u32>,
}

impl Space {
    fn new(min: u32, max: u32) -> Self {
        Space { min, max, next: min, labels: BTreeMap::new(), taken: HashSet::new() }
    }

    /// A free label for each, in this order.
    fn plan(&self, ids: &[&str]) -> Result<Vec<u32>, Exhausted> {
        let size = self.max - self.min + 1;
        let free = size as usize - self.taken.len();
        if let Some(beyond) = ids.get(free) {
            return Err(Exhausted(size, (*beyond).to_owned()));
        }
        let round = (self.next..=self.max).chain(self.min..self.next);
        Ok(round.filter(|label| !self.taken.contains(label)).take(ids.len()).collect())
    }

    fn take(&mut self, id: String, label: u32) {
        self.next = if label == self.max { self.min } else { label + 1 };
        self.taken.insert(label);
        self.labels.insert(id, label);
    }

    fn release(&mut self, id: &str) {
        if let Some(label) = self.labels.remove(id) {
            self.taken.remove(&label);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn labels_go_round_and_skip_those_in_use() {
        let mut space = Space::new(5, 8);
        for (id, label) in ["a", "b", "c"].iter().zip(5..) {
            assert_eq!(space.plan(&[id]), Ok(vec![label]));
            space.take((*id).to_owned(), label);
        }
        space.release("a");
        assert_eq!(space.plan(&["d"]), Ok(vec![8]), "not the label just given back");
        space.take("d".to_owned(), 8);
        assert_eq!(space.plan(&["e"]), Ok(vec![5]));
        assert_eq!(space.plan(&["e", "f"]), Err(Exhausted(4, "f".to_owned())));
        assert_eq!(
            space.plan(&["e", "f"]).unwrap_err().to_string(),
            "all 4 labels are in use: f cannot be created"
        );
    }

    #[test]
    fn nobody_gets_a_label_that_cannot_be_his() {
        let mut labels = Labels::default();
        labels.restore(Kind::SwitchPort, "p1", 0x101).unwrap();
        assert!(labels.restore(Kind::SwitchPort, "p2", 0x101).is_err());
        assert!(labels.restore(Kind::SwitchPort, "p1", 0x102).is_err());
        assert!(labels.restore(Kind::SwitchPort, "p3", 0x100).is_err());
        assert!(labels.restore(Kind::Switch, "s1", 0x100_0000).is_err());
        assert!(labels.restore(Kind::TransportNode, "hv1", 1).is_err());
        labels.restore(Kind::Switch, "s1", 0x101).unwrap();
        assert_eq!(
            (labels.get(Kind::SwitchPort, "p1"), labels.get(Kind::Switch, "s1")),
            (Some(0x101), Some(0x101))
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// While at most half of the space is in use, a label rests for at least a quarter of it.
        #[test]
        fn labels_are_unique_and_rest_before_they_come_again(steps in prop::collection::vec(any::<bool>(), 1..400)) {
            let mut space = Space::new(1, 32);
            let mut alive: VecDeque<String> = VecDeque::new();
            let mut resting: VecDeque<u32> = VecDeque::new();
            for (create, number) in steps.into_iter().zip(0..) {
                if create && alive.len() < 16 {
                    let id = format!("p{number}");
                    let label = space.plan(&[&id]).unwrap()[0];
                    prop_assert!(!space.taken.contains(&label));
                    prop_assert!(!resting.contains(&label), "{label} was given back just before");
                    space.take(id.clone(), label);
                    alive.push_back(id);
                    if resting.len() > 8 {
                        resting.pop_front();
                    }
                } else if let Some(id) = alive.pop_front() {
                    // The oldest goes, so that what rests is what the allocator meets last.
                    resting.push_back(space.labels[&id]);
                    space.release(&id);
                    while resting.len() > 8 {
                        resting.pop_front();
                    }
                }
            }
        }
    }
}
