//! Which flows count packets for which objects.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use nlog_data::{Canonical, Committed, Row, Value};
use openflow_rs::Match;
use switch_model::FlowKey;

use crate::rules::Rules;

/// Kind and id of an object.
type Named = (Arc<str>, Arc<str>);
/// Table, priority and match of a flow.
type Place = (u8, u16, Arc<Canonical<Match>>);

/// What the rules say of counters.
#[derive(Debug, Default)]
pub struct CountedFlows {
    /// The flows of each object that has some.
    objects: HashMap<Named, BTreeSet<Place>>,
}

impl CountedFlows {
    /// Applies the changes of the rules' table.
    pub(crate) fn apply(&mut self, committed: &Committed, rules: &Rules) {
        let Some(delta) = rules.counted_flows.and_then(|table| committed.delta.tables.get(&table)) else {
            return;
        };
        for (object, place) in delta.delete.iter().filter_map(counted_flow) {
            if let Some(places) = self.objects.get_mut(&object) {
                places.remove(&place);
                if places.is_empty() {
                    self.objects.remove(&object);
                }
            }
        }
        for (object, place) in delta.insert.iter().filter_map(counted_flow) {
            self.objects.entry(object).or_default().insert(place);
        }
    }

    /// The flows of an object, as switches have them.
    pub fn keys_of(&self, kind: &str, id: &str) -> BTreeSet<FlowKey> {
        let places = self.objects.get(&(Arc::from(kind), Arc::from(id))).into_iter().flatten();
        // No switch has a flow whose match is too long.
        places.filter_map(|(table, priority, of)| FlowKey::new(*table, *priority, &of.get()).ok()).collect()
    }
}

/// A row; `None` if no switch can have such a flow.
fn counted_flow(row: &Row) -> Option<(Named, Place)> {
    let [
        Value::String(kind),
        Value::String(id),
        Value::Int(table),
        Value::Int(priority),
        Value::Match(matching),
    ] = row.as_slice()
    else {
        return None;
    };
    let place = (u8::try_from(*table).ok()?, u16::try_from(*priority).ok()?, matching.clone());
    Some(((kind.clone(), id.clone()), place))
}
