//! What a transaction changes in switches, counted by host, table and rule, for those who try it out.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use switch_model::{Changes, Flow, FlowKey};

use crate::core::{AppliedTransaction, Core};
use crate::provenance::Provenance;

/// The most parts that are kept. A change of all switches has more than anybody reads.
pub const PARTS_MAX: usize = 1000;

/// The changes of a transaction in all switches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SwitchDelta {
    /// By host, table and rule, in that order: the first [`PARTS_MAX`].
    pub parts: Vec<Part>,
    /// The number of further parts.
    pub left_out: usize,
    /// The number of switches that change.
    pub switches: usize,
    /// The flows of all parts together.
    pub flows: Counts,
    /// The number of other things that change: buckets, meters, ports and what else a switch has.
    pub others: usize,
}

/// Numbers of flows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// New ones.
    pub added: usize,
    /// Those whose actions change.
    pub replaced: usize,
    /// Those that go.
    pub deleted: usize,
}

/// The flows of one rule that change in a table of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The transport node.
    pub node: String,
    /// The OpenFlow table.
    pub table: u8,
    /// The fingerprint of the rule: of the logical one, if another rule only placed the flow.
    pub rule: u64,
    /// How many there are.
    pub counts: Counts,
    /// One of them, as Open vSwitch prints it. Of a flow that goes, without actions.
    pub example: String,
}

impl Counts {
    fn add(&mut self, other: Counts) {
        self.added += other.added;
        self.replaced += other.replaced;
        self.deleted += other.deleted;
    }
}

/// A state of switches, with the logical rules behind its flows.
pub(crate) struct State<'a> {
    /// The cookie of a flow of a transport node's switch, if it is there.
    pub(crate) cookie: &'a dyn Fn(&str, &FlowKey) -> Option<u64>,
    pub(crate) provenance: &'a Provenance,
}

/// The logical rules behind the flows that changes make, where there are some.
pub(crate) struct RulesOfNew(HashMap<FlowKey, u64>);

impl RulesOfNew {
    /// Those of these changes, to be kept when the state that they lead to is no more.
    pub(crate) fn of(changes: &BTreeMap<String, Changes>, provenance: &Provenance) -> Self {
        let new = changes.values().flat_map(|changes| changes.flows.each());
        let new = new.filter(|(_, flow)| flow.is_some());
        RulesOfNew(new.filter_map(|(key, _)| Some((key.clone(), provenance.logical_rule(key)?))).collect())
    }
}

impl SwitchDelta {
    /// What leads from the switches of one network to those of another.
    pub fn between(before: &Core, after: &Core) -> Self {
        let (states, wanted) = (before.all_desired(), after.all_desired());
        let nodes: BTreeSet<&String> = states.keys().chain(wanted.keys()).collect();
        let changes = nodes.into_iter().map(|node| {
            let [from, to] = [&states, &wanted].map(|states| states.get(node).cloned().unwrap_or_default());
            (node.clone(), from.changes_to(&to))
        });
        let provenance = before.provenance();
        let cookie = |node: &str, key: &FlowKey| before.cookie(node, key);
        let state = State { cookie: &cookie, provenance: &provenance };
        let changes = changes.collect();
        SwitchDelta::of(&changes, &state, &RulesOfNew::of(&changes, &after.provenance()))
    }

    /// What a transaction changes that changes the rules, the last one of a network; `None` if it changes others.
    pub fn of_rules(applied: &AppliedTransaction, after: &Core) -> Option<Self> {
        let (cookie, provenance) = applied.before_other_rules()?;
        let before = State { cookie: &cookie, provenance };
        let after = RulesOfNew::of(&applied.changes, &after.provenance());
        Some(SwitchDelta::of(&applied.changes, &before, &after))
    }

    /// The delta of changes that lead from a state to another one.
    pub(crate) fn of(changes: &BTreeMap<String, Changes>, before: &State, after: &RulesOfNew) -> Self {
        let mut delta = SwitchDelta::default();
        for (node, changes) in changes.iter().filter(|(_, changes)| !changes.is_empty()) {
            delta.switches += 1;
            delta.others += changes.count() - changes.flows.each().count();
            let mut parts: BTreeMap<(u8, u64), (Counts, String)> = BTreeMap::new();
            for (key, flow) in changes.flows.each() {
                let (counts, rule) = match ((before.cookie)(node, key), flow) {
                    (None, None) => continue,
                    (Some(old), None) => (
                        Counts { deleted: 1, ..Counts::default() },
                        before.provenance.logical_rule(key).unwrap_or(old),
                    ),
                    (old, Some(new)) => (
                        match old {
                            Some(_) => Counts { replaced: 1, ..Counts::default() },
                            None => Counts { added: 1, ..Counts::default() },
                        },
                        after.0.get(key).copied().unwrap_or_else(|| new.cookie()),
                    ),
                };
                let part =
                    parts.entry((key.table(), rule)).or_insert_with(|| (Counts::default(), text(key, flow)));
                part.0.add(counts);
            }
            for ((table, rule), (counts, example)) in parts {
                delta.flows.add(counts);
                if delta.parts.len() == PARTS_MAX {
                    delta.left_out += 1;
                } else {
                    delta.parts.push(Part { node: node.clone(), table, rule, counts, example });
                }
            }
        }
        delta
    }
}

/// A flow, or what it matches.
fn text(key: &FlowKey, flow: Option<&Flow>) -> String {
    let matches = key.matching().map(|matching| matching.to_string()).unwrap_or_default();
    let comma = if matches.is_empty() { "" } else { "," };
    let priority = key.priority();
    let actions = flow.and_then(|flow| flow.actions().ok());
    match actions {
        Some(actions) => format!("priority={priority}{comma}{matches} actions={actions}"),
        None => format!("priority={priority}{comma}{matches}"),
    }
}
