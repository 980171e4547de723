//! One flow table: lookup by priority, over masks.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use openflow_rs::{Action, Field, FlowEntry, Match};

use crate::FlowKey;

/// A flow table. Entries with the same masks are one hash table (tuple space search: Srinivasan, Suri and Varghese,
/// SIGCOMM 1999), so that a lookup takes one step for each distinct set of masks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    shapes: Vec<Shape>,
    /// The number of entries that are clauses of conjunctions.
    clauses: usize,
}

/// Entries whose matches have the same masks.
#[derive(Clone, Debug)]
struct Shape {
    masks: Vec<(Field, u128)>,
    /// By a hash of their values, which are stored only in the entry; then highest priority first.
    entries: HashMap<u64, Vec<Arc<FlowEntry>>>,
    /// The number of entries of each priority.
    priorities: BTreeMap<u16, usize>,
}

fn masks(matches: &Match) -> impl Iterator<Item = (Field, u128)> {
    matches.iter().map(|demand| (demand.field, demand.mask))
}

/// A hash of the values of some fields, in order.
fn hash(values: impl Iterator<Item = u128>) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    values.fold(0, |hash: u64, value| {
        let mixed = (hash.rotate_left(29) ^ value as u64).wrapping_mul(ODD);
        (mixed.rotate_left(31) ^ (value >> 64) as u64).wrapping_mul(ODD)
    })
}

fn hash_of(matches: &Match) -> u64 {
    hash(matches.iter().map(|demand| demand.value))
}

impl Shape {
    fn highest(&self) -> Option<u16> {
        self.priorities.last_key_value().map(|(priority, _)| *priority)
    }

    /// The matching entries, highest priority first.
    fn matching<'a>(&'a self, key: &FlowKey) -> impl Iterator<Item = &'a Arc<FlowEntry>> {
        let hash = hash(self.masks.iter().map(|(field, mask)| key.get(*field) & mask));
        self.entries.get(&hash).into_iter().flatten().filter(|entry| key.meets_match(&entry.matches))
    }
}

impl Table {
    /// The matching entry of the highest priority. Among several with that priority, a case that `OpenFlow` leaves
    /// undefined, the least by match.
    ///
    /// Clauses of conjunctions apply where they have a higher priority than any other matching entry. Of those of one priority, a conjunction whose
    /// clauses all match sends the packet to the entry of the highest priority, wherever that is, that matches it with this `conj_id`.
    pub(crate) fn lookup(&self, key: &FlowKey) -> Option<&Arc<FlowEntry>> {
        let best = self.best(key);
        if self.clauses == 0 {
            return best;
        }
        let found = self.shapes.iter().flat_map(|shape| shape.matching(key));
        let mut clauses: Vec<&FlowEntry> =
            found.map(|entry| &**entry).filter(|entry| is_clause(entry)).collect();
        clauses.retain(|clause| best.is_none_or(|best| clause.priority > best.priority));
        clauses.sort_by_key(|clause| std::cmp::Reverse(clause.priority));
        let by_conjunction =
            clauses.chunk_by(|one, other| one.priority == other.priority).find_map(|clauses| {
                let key = FlowKey { conj_id: complete(clauses)?, ..key.clone() };
                self.best_first(&key)
            });
        by_conjunction.or(best)
    }

    /// The matching entry of the highest priority that is no clause.
    fn best(&self, key: &FlowKey) -> Option<&Arc<FlowEntry>> {
        let any = |entry: &&Arc<FlowEntry>| self.clauses == 0 || !is_clause(entry);
        self.highest(|shape| shape.matching(key).find(any))
    }

    /// The same, without the entries that have the match of a clause of a higher priority. Open vSwitch does not see them when it looks
    /// for the entry of a conjunction.
    fn best_first(&self, key: &FlowKey) -> Option<&Arc<FlowEntry>> {
        self.highest(|shape| shape.matching(key).next().filter(|entry| !is_clause(entry)))
    }

    /// The entry of the highest priority among those of all shapes.
    fn highest<'a>(
        &'a self,
        of: impl Fn(&'a Shape) -> Option<&'a Arc<FlowEntry>>,
    ) -> Option<&'a Arc<FlowEntry>> {
        let mut best: Option<&Arc<FlowEntry>> = None;
        for shape in &self.shapes {
            if best.is_some_and(|best| Some(best.priority) > shape.highest()) {
                continue;
            }
            let Some(found) = of(shape) else { continue };
            let better = best.is_none_or(|best| {
                found.priority > best.priority
                    || (found.priority == best.priority && found.matches < best.matches)
            });
            best = if better { Some(found) } else { best };
        }
        best
    }

    fn shape(&self, matches: &Match) -> Option<usize> {
        self.shapes.iter().position(|shape| shape.masks.iter().copied().eq(masks(matches)))
    }

    /// Adds the entry, replacing one with the same match and priority, which is returned.
    pub(crate) fn add(&mut self, entry: Arc<FlowEntry>) -> Option<Arc<FlowEntry>> {
        self.clauses += usize::from(is_clause(&entry));
        let at = self.shape(&entry.matches).unwrap_or_else(|| {
            let masks = masks(&entry.matches).collect();
            self.shapes.push(Shape { masks, entries: HashMap::new(), priorities: BTreeMap::new() });
            self.shapes.len() - 1
        });
        let shape = &mut self.shapes[at];
        let same = shape.entries.entry(hash_of(&entry.matches)).or_insert_with(|| Vec::with_capacity(1));
        let old = same.iter_mut().find(|old| old.priority == entry.priority && old.matches == entry.matches);
        if let Some(old) = old {
            self.clauses -= usize::from(is_clause(old));
            return Some(std::mem::replace(old, entry));
        }
        *shape.priorities.entry(entry.priority).or_default() += 1;
        let place = same.partition_point(|other| other.priority >= entry.priority);
        same.insert(place, entry);
        None
    }

    /// Removes and returns the entry with this match and priority.
    pub(crate) fn remove(&mut self, matches: &Match, priority: u16) -> Option<Arc<FlowEntry>> {
        let at = self.shape(matches)?;
        let (hash, shape) = (hash_of(matches), &mut self.shapes[at]);
        let same = shape.entries.get_mut(&hash)?;
        let place = same.iter().position(|old| old.priority == priority && old.matches == *matches)?;
        let removed = same.remove(place);
        self.clauses -= usize::from(is_clause(&removed));
        if same.is_empty() {
            shape.entries.remove(&hash);
        }
        if let Some(count) = shape.priorities.get_mut(&priority) {
            *count -= 1;
            if *count == 0 {
                shape.priorities.remove(&priority);
            }
        }
        if shape.entries.is_empty() {
            self.shapes.swap_remove(at);
        }
        Some(removed)
    }

    /// The entry with this match and priority.
    pub(crate) fn get(&self, matches: &Match, priority: u16) -> Option<&Arc<FlowEntry>> {
        let same = self.shapes[self.shape(matches)?].entries.get(&hash_of(matches))?;
        same.iter().find(|entry| entry.priority == priority && entry.matches == *matches)
    }

    /// All entries, in no order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Arc<FlowEntry>> {
        self.shapes.iter().flat_map(|shape| shape.entries.values().flatten())
    }
}

/// Whether the entry is a clause of conjunctions.
fn is_clause(entry: &FlowEntry) -> bool {
    entry.actions.0.iter().any(|action| matches!(action, Action::Conjunction(_)))
}

/// The conjunction all of whose clauses are among these entries. Among several, a case that Open vSwitch leaves undefined, the
/// one with the least id.
fn complete(entries: &[&FlowEntry]) -> Option<u32> {
    let mut found: BTreeMap<(u32, u8), u64> = BTreeMap::new();
    for action in entries.iter().flat_map(|entry| &entry.actions.0) {
        if let Action::Conjunction(part) = action {
            *found.entry((part.id(), part.clauses())).or_default() |= 1 << (part.clause() - 1);
        }
    }
    found
        .into_iter()
        .find(|((_, clauses), there)| there.count_ones() == u32::from(*clauses))
        .map(|((id, _), _)| id)
}
