//! The indexes of a plan. Equal indexes are shared, and indexes contained in others are dropped.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::body::Atom;
use crate::query::{Index, IndexId, RelationId, Step};

/// The indexes collected so far.
#[derive(Debug, Default)]
pub(crate) struct Indexes {
    all: Vec<Index>,
    of_relation: HashMap<RelationId, Vec<usize>>,
}

impl Indexes {
    /// The index of an atom's rows with this key and these values.
    pub(crate) fn find(&mut self, atom: &Atom, key: Vec<usize>, value: Vec<usize>, fan_out: f64) -> IndexId {
        let index = Index { relation: atom.relation, select: atom.select.clone(), key, value, fan_out };
        let same = |known: &Index| known.is_alike(&index) && known.value == index.value;
        let known = self.of_relation.entry(atom.relation).or_default();
        let at = known.iter().copied().find(|at| same(&self.all[*at])).unwrap_or_else(|| {
            known.push(self.all.len());
            self.all.push(index);
            self.all.len() - 1
        });
        IndexId(at as u32)
    }

    /// Drops indexes that are contained in another one. Returns for each index its replacement, and the positions of
    /// its values there.
    pub(crate) fn merge(self) -> (Vec<Index>, Vec<(IndexId, Vec<usize>)>) {
        let contains = |one: &Index, other: &Index| {
            one.is_alike(other) && other.value.iter().all(|column| one.value.contains(column))
        };
        let mut place_of: Vec<usize> = (0..self.all.len()).collect();
        for (at, index) in self.all.iter().enumerate() {
            let candidates = self.of_relation[&index.relation].iter().copied();
            let candidates = candidates.filter(|other| contains(&self.all[*other], index));
            let widest = candidates.max_by_key(|other| (self.all[*other].value.len(), Reverse(*other)));
            place_of[at] = widest.unwrap_or(at);
        }
        let mut left = Vec::new();
        let mut number_of = vec![None; self.all.len()];
        for (at, index) in self.all.iter().enumerate().filter(|(at, _)| place_of[*at] == *at) {
            number_of[at] = Some(IndexId(left.len() as u32));
            left.push(index.clone());
        }
        let places = self.all.iter().zip(&place_of).map(|(index, at)| {
            let value = &self.all[*at].value;
            let take = |column: &usize| value.iter().position(|other| other == column).unwrap_or_default();
            (number_of[*at].unwrap_or(IndexId(0)), index.value.iter().map(take).collect())
        });
        let places = places.collect();
        (left, places)
    }
}

impl Index {
    /// Whether both have the same rows under the same key.
    fn is_alike(&self, other: &Index) -> bool {
        self.relation == other.relation && self.select == other.select && self.key == other.key
    }
}

/// Makes a pipeline probe the remaining indexes.
pub(crate) fn settle(steps: &mut [Step], places: &[(IndexId, Vec<usize>)]) {
    for step in steps {
        if let Step::Probe(probe) = step {
            let (index, columns) = &places[probe.index.0 as usize];
            probe.index = *index;
            for take in &mut probe.take {
                *take = columns[*take];
            }
        }
    }
}
