//! Direct look-ups: the places of the keys of an index, by their distance from the least one.
//!
//! Symbols of one kind of things are numbers close to each other, so the keys of ports, hosts or stages fit into such a table. A run with
//! many bindings then need not sort them to look them up, nor let them wait.

use std::rc::Rc;

use super::batch::{Batch, Values};
use super::trace::{Trace, View};
use crate::symbol::Symbol;

/// At most so many keys, whose places the processor's cache still has in good part.
const MOST_KEYS: usize = 1 << 20;

/// At most so many places for each key, and for a few keys.
const SPREAD: usize = 4;
const FEW: usize = 1 << 10;

/// The places of the keys of one batch, each of which has one value.
pub(super) struct Direct {
    batch: Rc<Batch>,
    least: Symbol,
    /// By distance, one more than the key's place; 0 where there is no key.
    places: Vec<u32>,
}

impl Direct {
    /// The places of an index's keys, if they are close to each other and so few that looking up `sought` of them in this way pays.
    pub(super) fn new(trace: &Trace, view: View, sought: usize) -> Option<Self> {
        let batch = trace.only(view)?;
        let keys = batch.keys();
        if batch.stride().key != 1 || !batch.has_one_value_each() || keys.len() > MOST_KEYS.min(sought) {
            return None;
        }
        let (least, most) = (*keys.first()?, *keys.last()?);
        let range = (most - least) as usize + 1;
        if range > keys.len() * SPREAD + FEW {
            return None;
        }
        let mut places = vec![0; range];
        for (at, key) in (1..).zip(keys) {
            places[(key - least) as usize] = at;
        }
        Some(Direct { batch: Rc::clone(batch), least, places })
    }

    /// The values under a key.
    #[inline]
    pub(super) fn find(&self, key: Symbol) -> Values<'_> {
        match self.places.get(key.wrapping_sub(self.least) as usize) {
            None | Some(0) => Values::none(self.batch.stride().value),
            Some(place) => self.batch.values(*place as usize - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::delta::{Delta, Diff};
    use super::super::index::Fit;
    use super::super::sorted::sort;
    use super::*;

    fn add(trace: &mut Trace, pairs: &[(Symbol, Symbol, Diff)]) {
        let mut delta = Delta::new(2);
        for (key, value, count) in pairs {
            delta.push(&[*key, *value], *count);
        }
        sort(&delta, &Fit::default(), &[0, 1], trace).expect("small numbers");
    }

    fn trace(pairs: &[(Symbol, Symbol, Diff)]) -> Trace {
        let mut trace = Trace::new(1, 1);
        add(&mut trace, pairs);
        trace.publish_if_touched();
        trace
    }

    #[test]
    fn the_value_of_each_key_is_found_and_none_of_others() {
        let pairs: Vec<_> = (100..400).step_by(3).map(|key| (key, key * 7 % 50, 1)).collect();
        let trace = trace(&pairs);
        let direct =
            Direct::new(&trace, View::Before, pairs.len()).expect("the keys are close to each other");
        let mut probe = trace.probe(View::Before);
        for key in (0..500).chain([Symbol::MAX]) {
            let [found, wanted]: [Vec<_>; 2] =
                [direct.find(key).iter().collect(), probe.find(&[key]).iter().collect()];
            assert_eq!(found, wanted, "{key}");
        }
    }

    #[test]
    fn other_indexes_are_looked_up_in_order() {
        let is_direct = |pairs: &[_], sought| Direct::new(&trace(pairs), View::After, sought).is_some();
        assert!(is_direct(&[(5, 1, 1), (6, 2, 1)], 2));
        assert!(!is_direct(&[(5, 1, 1), (6, 2, 1)], 1), "a table for one look-up");
        assert!(!is_direct(&[(5, 1, 1), (5, 2, 1)], 9), "two values of a key");
        assert!(!is_direct(&[(5, 1, 2)], 9), "a count");
        assert!(!is_direct(&[(5, 1, 1), (1 << 30, 2, 1)], 9), "keys far from each other");
        let mut changed = trace(&[(5, 1, 1)]);
        add(&mut changed, &[(6, 1, 1)]);
        assert!(Direct::new(&changed, View::After, 9).is_none(), "two batches");
        assert!(Direct::new(&changed, View::Before, 9).is_some());
    }
}
