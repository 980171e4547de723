//! The rows of a watched relation: from derived rows to the change of a set, by hashes of keys.

use super::delta::{Delta, Diff};
use super::relation::{Attributed, Split, Unsettled};
use super::rule::Numbers;
use super::watch::{Watch, hash_of};
use crate::symbol::{Hashes, Symbol, Symbols};

/// The number of rows that are looked at before all are.
const SAMPLE: usize = 1 << 13;

/// The processing of a watched relation's derived rows.
pub(crate) struct WatchedRows<'a> {
    split: &'a Split,
    symbols: &'a Symbols,
    numbers: &'a Numbers,
    delta: &'a mut Delta,
    report: &'a mut Attributed,
}

/// A derived row of a transaction.
struct Change {
    /// The hash of its key.
    hash: u64,
    /// Its position among the derived rows.
    at: u32,
    /// Whether the hash was there before the transaction.
    is_known: bool,
}

impl<'a> WatchedRows<'a> {
    pub(crate) fn new(
        split: &'a Split,
        symbols: &'a Symbols,
        numbers: &'a Numbers,
        delta: &'a mut Delta,
        report: &'a mut Attributed,
    ) -> Self {
        WatchedRows { split, symbols, numbers, delta, report }
    }

    /// The hash of a row's key.
    #[inline]
    fn hash(&self, row: &[Symbol], hashes: &Hashes<'_>) -> u64 {
        hash_of(self.split.key.iter().map(|column| row[*column]), hashes)
    }

    /// The hashes of the first rows of a relation; `None` if a row is derived twice or a key has two rows.
    pub(crate) fn watch(&self, derived: &Delta) -> Option<Watch> {
        if !derived.is_once() {
            return None;
        }
        let hashes = self.symbols.hashes();
        if derived.len() > 2 * SAMPLE {
            // Most rows that repeat do so at once.
            let first = derived.rows().take(SAMPLE);
            Watch::of(|each| first.for_each(|(row, _)| each(self.hash(row, &hashes))))?;
        }
        Watch::of(|each| derived.rows().for_each(|(row, _)| each(self.hash(row, &hashes))))
    }

    /// Passes on the first rows of a relation.
    pub(crate) fn pass_on(&mut self, mut derived: Delta) {
        if self.split.attributed {
            derived.into_rows(|row, _| self.appear(row));
        } else {
            self.delta.append(&mut derived);
        }
    }

    /// Turns derived rows into a change of the set. Fails if the set may not be one any more.
    pub(crate) fn settle(&mut self, derived: &Delta, watch: &mut Watch) -> Result<(), Unsettled> {
        let hashes = self.symbols.hashes();
        let mut order: Vec<Change> = (derived.rows().zip(0..))
            .map(|((row, _), at)| Change { hash: self.hash(row, &hashes), at, is_known: false })
            .collect();
        // Rows with one key become neighbours: what replaces a row comes with it.
        order.sort_unstable_by_key(|change| (change.hash, change.at));
        // Each look-up misses the processor's caches. Apart from all other work, several wait for memory at a time.
        for change in &mut order {
            change.is_known = watch.has(change.hash);
        }
        let mut of_key = Vec::new();
        for group in order.chunk_by(|one, other| one.hash == other.hash) {
            let first = &group[0];
            let change =
                |change: &Change| (derived.row(change.at as usize), derived.diff(change.at as usize));
            if group.len() == 1 {
                let (row, diff) = change(first);
                self.only(row, diff, first, watch)?;
                continue;
            }
            of_key.clear();
            of_key.extend(group.iter().map(change));
            self.several(&mut of_key, first, watch)?;
        }
        Ok(())
    }

    /// The only change under a key.
    fn only(&mut self, row: &[Symbol], diff: Diff, key: &Change, watch: &mut Watch) -> Result<(), Unsettled> {
        match (diff, key.is_known) {
            (0, _) => {}
            (1, false) => {
                watch.insert(key.hash);
                self.appear(row);
            }
            (-1, true) => {
                watch.remove(key.hash);
                self.disappear(row);
            }
            _ => return Err(Unsettled::Uncounted),
        }
        Ok(())
    }

    /// Several changes under one hash: most often a row and its replacement, or a row whose derivation changes.
    fn several(
        &mut self,
        changes: &mut Vec<(&[Symbol], Diff)>,
        key: &Change,
        watch: &mut Watch,
    ) -> Result<(), Unsettled> {
        // A row with so many derivations may need counts, and the sum of several such numbers may not fit.
        if changes.iter().any(|(_, ways)| i32::try_from(*ways).is_err()) {
            return Err(Unsettled::Uncounted);
        }
        sum_equal(changes);
        match changes[..] {
            [] => {}
            [(row, sum)] => self.only(row, sum, key, watch)?,
            // The new row was not there, even if only the hashes of the keys are equal: no two keys of a watch have one hash.
            [(one, 1), (other, -1)] if key.is_known => self.replace(other, one),
            [(one, -1), (other, 1)] if key.is_known => self.replace(one, other),
            _ => return Err(Unsettled::Uncounted),
        }
        Ok(())
    }

    /// A row that takes the place of another one, or is the same row, derived by another rule.
    fn replace(&mut self, old: &[Symbol], new: &[Symbol]) {
        let columns = self.delta.width();
        if old[..columns] == new[..columns] {
            let ((before, _), (after, rule)) = (self.rank(old), self.rank(new));
            if before != after {
                self.report.reattributed.push_words(new[..columns].iter().copied().chain([rule.0]), 1);
            }
        } else {
            self.disappear(old);
            self.appear(new);
        }
    }

    /// The rank and the id of the rule that an attributed row carries.
    fn rank(&self, row: &[Symbol]) -> (u64, nlog_data::RuleId) {
        self.numbers.order(row[row.len() - 1])
    }

    fn appear(&mut self, row: &[Symbol]) {
        let columns = self.delta.width();
        self.delta.push(&row[..columns], 1);
        if self.split.attributed {
            let (_, rule) = self.rank(row);
            self.report.inserted.push(rule.0);
        }
    }

    fn disappear(&mut self, row: &[Symbol]) {
        let columns = self.delta.width();
        self.delta.push(&row[..columns], -1);
    }
}

/// Sorts rows and sums the ways of equal ones, each of which is a small number. Rows with a zero sum disappear.
fn sum_equal(ways: &mut Vec<(&[Symbol], Diff)>) {
    ways.sort_unstable();
    ways.dedup_by(|next, first| {
        let is_same = next.0 == first.0;
        if is_same {
            first.1 += next.1;
        }
        is_same
    });
    ways.retain(|(_, sum)| *sum != 0);
}
