//! Which flows and meters count which cause of drops.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nlog_data::{Committed, Row, TableId, Value};
use switch_model::{Desired, Flow, FlowKey};

use crate::rules::Rules;

/// What the rules say of drops.
#[derive(Debug, Clone, Default)]
pub struct DropCauses {
    /// The sentence of each cause.
    pub(crate) texts: BTreeMap<Arc<str>, Arc<str>>,
    /// By table and first priority: the last priority, and the cause.
    pub flows: BTreeMap<(u8, u16), (u16, Arc<str>)>,
    /// Instructions, as switches have them, that drop packets although there are some.
    pub(crate) ending: BTreeSet<Vec<u8>>,
    /// By number of a meter, the cause.
    pub meters: BTreeMap<u32, Arc<str>>,
}

/// The flows and the meters of a host that count what is dropped.
#[derive(Debug, Default, PartialEq)]
pub struct Counters {
    /// The flows.
    pub flows: BTreeSet<FlowKey>,
    /// The numbers of the meters.
    pub meters: BTreeSet<u32>,
}

impl Counters {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty() && self.meters.is_empty()
    }
}

impl DropCauses {
    /// Applies the changes of the rules' tables.
    pub(crate) fn apply(causes: &mut Arc<DropCauses>, committed: &Committed, rules: &Rules) {
        let delta = |table: Option<TableId>| committed.delta.tables.get(&table?);
        if let Some(delta) = delta(rules.drop_causes) {
            let causes = Arc::make_mut(causes);
            for (cause, _) in delta.delete.iter().filter_map(drop_cause) {
                causes.texts.remove(&cause);
            }
            causes.texts.extend(delta.insert.iter().filter_map(drop_cause));
        }
        if let Some(delta) = delta(rules.dropping_flows) {
            let causes = Arc::make_mut(causes);
            for (place, _) in delta.delete.iter().filter_map(dropping_flow) {
                causes.flows.remove(&place);
            }
            causes.flows.extend(delta.insert.iter().filter_map(dropping_flow));
        }
        if let Some(delta) = delta(rules.dropping_actions) {
            let causes = Arc::make_mut(causes);
            for instructions in delta.delete.iter().filter_map(ending) {
                causes.ending.remove(&instructions);
            }
            causes.ending.extend(delta.insert.iter().filter_map(ending));
        }
        if let Some(delta) = delta(rules.dropping_meters) {
            let causes = Arc::make_mut(causes);
            for (meter, _) in delta.delete.iter().filter_map(dropping_meter) {
                causes.meters.remove(&meter);
            }
            causes.meters.extend(delta.insert.iter().filter_map(dropping_meter));
        }
    }

    /// Whether the rules say nothing of drops.
    pub(crate) fn is_empty(&self) -> bool {
        self.flows.is_empty() && self.meters.is_empty()
    }

    /// The causes and their sentences.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts.iter().map(|(cause, text)| (&**cause, &**text))
    }

    /// Why a flow drops packets, given its table and its priority.
    pub fn cause_of(&self, table: u8, priority: u16) -> Option<&Arc<str>> {
        let (place, (last, cause)) = self.flows.range(..=(table, priority)).next_back()?;
        (place.0 == table && priority <= *last).then_some(cause)
    }

    /// Why what comes to a meter is dropped, given its number.
    pub fn cause_of_meter(&self, meter: u32) -> Option<&Arc<str>> {
        self.meters.get(&meter)
    }

    /// Whether a flow that is named for a cause drops what meets it.
    pub(crate) fn drops(&self, flow: &Flow) -> bool {
        flow.drops() || self.ending.contains(flow.instructions())
    }

    /// What counts the drops of a host.
    pub(crate) fn of_host(&self, desired: &Desired) -> Counters {
        let meters = self.meters.keys().filter(|meter| desired.meters.contains_key(meter)).copied();
        Counters { flows: self.flows_of_host(desired), meters: meters.collect() }
    }

    /// The flows of a host that drop packets.
    fn flows_of_host(&self, desired: &Desired) -> BTreeSet<FlowKey> {
        let mut found = BTreeSet::new();
        for ((table, first), (last, _)) in &self.flows {
            let after = last.checked_add(1).map(|priority| FlowKey::before(*table, priority));
            let from = desired.flows.range(FlowKey::before(*table, *first)..);
            let within = from.take_while(|(key, _)| after.as_ref().is_none_or(|after| *key < after));
            let within = within.take_while(|(key, _)| key.table() == *table);
            found.extend(within.filter(|(_, flow)| self.drops(flow)).map(|(key, _)| key.clone()));
        }
        found
    }
}

fn drop_cause(row: &Row) -> Option<(Arc<str>, Arc<str>)> {
    match row.as_slice() {
        [Value::String(cause), Value::String(text)] => Some((cause.clone(), text.clone())),
        _ => None,
    }
}

/// A table and a priority.
type Place = (u8, u16);

/// A row; `None` if no switch can have such a flow.
fn dropping_flow(row: &Row) -> Option<(Place, (u16, Arc<str>))> {
    let [Value::String(cause), Value::Int(table), Value::Int(first), Value::Int(last)] = row.as_slice()
    else {
        return None;
    };
    let place = (u8::try_from(*table).ok()?, u16::try_from(*first).ok()?);
    Some((place, (u16::try_from(*last).ok()?, cause.clone())))
}

/// The instructions of a row.
fn ending(row: &Row) -> Option<Vec<u8>> {
    match row.as_slice() {
        [Value::Actions(actions)] => Some(actions.get().to_wire()),
        _ => None,
    }
}

/// A row; `None` if no switch can have such a meter.
fn dropping_meter(row: &Row) -> Option<(u32, Arc<str>)> {
    match row.as_slice() {
        [Value::String(cause), Value::Int(meter)] => Some((u32::try_from(*meter).ok()?, cause.clone())),
        _ => None,
    }
}
