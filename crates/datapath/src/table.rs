//! One flow table: lookup by priority, over masks.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use openflow_rs::{Field, FlowEntry, Match};

use crate::FlowKey;

/// A flow table. Entries with the same masks are one hash table (tuple space search: Srinivasan, Suri and Varghese,
/// SIGCOMM 1999), so that a lookup takes as many steps as there are kinds of matches.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    shapes: HashMap<Vec<(Field, u128)>, Shape>,
}

/// Entries whose matches have the same masks, by their values, then priority.
#[derive(Clone, Debug, Default)]
struct Shape {
    entries: HashMap<Vec<u128>, BTreeMap<u16, Arc<FlowEntry>>>,
    /// How many entries have each priority.
    priorities: BTreeMap<u16, usize>,
}

fn split(matches: &Match) -> (Vec<(Field, u128)>, Vec<u128>) {
    matches.iter().map(|demand| ((demand.field, demand.mask), demand.value)).unzip()
}

impl Table {
    /// The entry of the highest priority that the packet meets. Of several with that priority, for which `OpenFlow`
    /// says nothing, the least by match.
    pub(crate) fn lookup(&self, key: &FlowKey) -> Option<&Arc<FlowEntry>> {
        let mut best: Option<&Arc<FlowEntry>> = None;
        for (masks, shape) in &self.shapes {
            let highest = shape.priorities.last_key_value().map(|(priority, _)| *priority);
            if best.is_some_and(|best| Some(best.priority) > highest) {
                continue;
            }
            let values: Vec<u128> = masks.iter().map(|(field, mask)| key.get(*field) & mask).collect();
            let Some((_, found)) = shape.entries.get(&values).and_then(BTreeMap::last_key_value) else {
                continue;
            };
            let rank = |entry: &FlowEntry| entry.priority;
            let better = best.is_none_or(|best| {
                rank(found) > rank(best) || (rank(found) == rank(best) && found.matches < best.matches)
            });
            best = if better { Some(found) } else { best };
        }
        best
    }

    /// Adds the entry, in place of one with the same match and priority.
    pub(crate) fn add(&mut self, entry: Arc<FlowEntry>) {
        let (masks, values) = split(&entry.matches);
        let shape = self.shapes.entry(masks).or_default();
        let priority = entry.priority;
        if shape.entries.entry(values).or_default().insert(priority, entry).is_none() {
            *shape.priorities.entry(priority).or_default() += 1;
        }
    }

    /// Removes the entry with this match and priority.
    pub(crate) fn remove(&mut self, matches: &Match, priority: u16) {
        let (masks, values) = split(matches);
        let Some(shape) = self.shapes.get_mut(&masks) else { return };
        let Some(same) = shape.entries.get_mut(&values) else { return };
        if same.remove(&priority).is_none() {
            return;
        }
        if same.is_empty() {
            shape.entries.remove(&values);
        }
        if let Some(count) = shape.priorities.get_mut(&priority) {
            *count -= 1;
            if *count == 0 {
                shape.priorities.remove(&priority);
            }
        }
        if shape.entries.is_empty() {
            self.shapes.remove(&masks);
        }
    }

    /// The entry with this match and priority.
    pub(crate) fn get(&self, matches: &Match, priority: u16) -> Option<&Arc<FlowEntry>> {
        let (masks, values) = split(matches);
        self.shapes.get(&masks)?.entries.get(&values)?.get(&priority)
    }

    /// All entries, in no order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Arc<FlowEntry>> {
        self.shapes.values().flat_map(|shape| shape.entries.values().flat_map(BTreeMap::values))
    }
}

/// Whether every packet that meets `narrow` meets `wide`, as demand by demand shows.
pub(crate) fn covers(wide: &Match, narrow: &Match) -> bool {
    wide.iter().all(|demand| {
        narrow.get(demand.field).is_some_and(|(value, mask)| {
            mask & demand.mask == demand.mask && value & demand.mask == demand.value
        })
    })
}
