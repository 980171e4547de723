//! Batches of a trace, filled directly.
//!
//! Differential's builder takes updates in any form: it groups and sums the times of each pair, and copies each update
//! several times. The pairs of a transaction come in order, each once and all at one time, so that their batch is a
//! few vectors to append to. That takes a third of the builder's time, which was a tenth of a load.

use differential_dataflow::trace::Description;
use differential_dataflow::trace::implementations::Vector;
use differential_dataflow::trace::implementations::ord_neu::val_batch::OrdValStorage;
use differential_dataflow::trace::implementations::ord_neu::{OrdValBatch, Upds, Vals};
use timely::progress::Antichain;

use super::trace::{Count, Time};
use crate::row::Row;

type Layout<K, V, C> = Vector<((K, V), Time, C)>;
pub(crate) type Batch<K, V, C> = OrdValBatch<Layout<K, V, C>>;

/// A batch of changes at one time, while it is filled.
pub(super) struct Filling<K: Row, V: Row, C: Count> {
    storage: OrdValStorage<Layout<K, V, C>>,
    now: Time,
}

impl<K: Row, V: Row, C: Count> Filling<K, V, C> {
    /// Begins a batch with room for this many keys and values.
    pub(super) fn new(keys: usize, values: usize, now: Time) -> Self {
        let storage = OrdValStorage {
            keys: Vec::with_capacity(keys),
            vals: Vals::with_capacity(keys + 1, values),
            upds: Upds::with_capacity(values + 1, 1),
        };
        Filling { storage, now }
    }

    /// Adds the change of a pair, which comes after all pairs before it.
    #[inline]
    pub(super) fn push(&mut self, key: K, value: V, count: C) {
        let OrdValStorage { keys, vals, upds } = &mut self.storage;
        debug_assert!(
            keys.last().is_none_or(|last| *last < key || *last == key && vals.vals.last() < Some(&value)),
            "pairs come in ascending order"
        );
        if keys.last() != Some(&key) {
            if !keys.is_empty() {
                vals.offs.push(vals.vals.len());
            }
            keys.push(key);
        }
        vals.vals.push(value);
        // An empty list of updates means the update before it (`Upds`), which nearly all pairs share.
        if upds.diffs.last() != Some(&count) {
            upds.times.push(self.now);
            upds.diffs.push(count);
        }
        upds.offs.push(upds.diffs.len());
    }

    /// The batch; none if nothing was added.
    pub(super) fn finish(self) -> Option<Batch<K, V, C>> {
        let Filling { mut storage, now } = self;
        let updates = storage.vals.vals.len();
        if updates == 0 {
            return None;
        }
        storage.vals.offs.push(updates);
        let [lower, upper, since] = [now, now + 1, 0].map(Antichain::from_elem);
        Some(OrdValBatch { storage, description: Description::new(lower, upper, since), updates })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use differential_dataflow::trace::Builder as _;
    use differential_dataflow::trace::implementations::ord_neu::OrdValBuilder;

    use super::super::trace::Rows;
    use super::*;
    use crate::row::{Narrow, narrow as row};

    type Update = ((Narrow, Narrow), Time, Rows);

    /// The batch that differential's builder makes.
    fn built(updates: &[Update], now: Time) -> Batch<Narrow, Narrow, Rows> {
        let mut builder = OrdValBuilder::<Layout<Narrow, Narrow, Rows>, Vec<Update>>::with_capacity(1, 1, 1);
        builder.push(&mut updates.to_vec());
        let [lower, upper, since] = [now, now + 1, 0].map(Antichain::from_elem);
        builder.done(Description::new(lower, upper, since))
    }

    #[test]
    fn a_batch_is_the_one_that_differentials_builder_makes() {
        for seed in test_random::seeds!("a_batch_is_the_one_that_differentials_builder_makes", 200) {
            let mut random = test_random::Random::new(seed);
            let pairs = 1 + random.below(60);
            let pairs: BTreeMap<(u32, u32), Rows> = (0..pairs)
                .map(|_| {
                    (
                        (random.below(20) as u32, random.below(9) as u32),
                        [1, 1, 1, -1, 2][random.below(5) as usize],
                    )
                })
                .collect();
            let now = random.below(9) as Time;
            let updates: Vec<Update> =
                pairs.iter().map(|((key, value), count)| ((row(*key), row(*value)), now, *count)).collect();
            let mut filling = Filling::new(0, 0, now);
            for ((key, value), _, count) in &updates {
                filling.push(*key, *value, *count);
            }
            let (mine, theirs) = (filling.finish().expect("some pairs"), built(&updates, now));
            // All of a batch: keys, values, updates and its times.
            let text =
                |batch: &Batch<Narrow, Narrow, Rows>| serde_json::to_string(batch).expect("it is data");
            assert_eq!(text(&mine), text(&theirs));
        }
    }

    #[test]
    fn a_batch_without_pairs_is_none() {
        assert!(Filling::<Narrow, Narrow, Rows>::new(0, 0, 3).finish().is_none());
    }
}
