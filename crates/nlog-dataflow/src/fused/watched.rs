//! The rows of a watched relation: from derived rows to the change of a set, by hashes of keys.

use super::delta::{Delta, Diff};
use super::relation::{Attributed, Split, Unsettled};
use super::rule::Numbers;
use super::watch::{Watch, hash_of};
use crate::symbol::{Hashes, Symbol, Symbols};

/// The processing of a watched relation's derived rows.
pub(crate) struct WatchedRows<'a> {
    split: &'a Split,
    symbols: &'a Symbols,
    numbers: &'a Numbers,
    delta: &'a mut Delta,
    report: &'a mut Attributed,
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
        Watch::of(|each| derived.rows().for_each(|(row, _)| each(self.hash(row, &hashes))))
    }

    /// Passes on the first rows of a relation.
    pub(crate) fn pass_on(&mut self, derived: Delta) {
        if self.split.attributed {
            derived.into_rows(|row, _| self.appear(row));
        } else if self.delta.is_empty() {
            *self.delta = derived;
        } else {
            self.delta.append(&mut { derived });
        }
    }

    /// Turns derived rows into a change of the set. Fails if the set may not be one any more.
    pub(crate) fn settle(&mut self, derived: &Delta, watch: &mut Watch) -> Result<(), Unsettled> {
        let hashes = self.symbols.hashes();
        let mut order: Vec<(u64, u32)> =
            (derived.rows().zip(0..)).map(|((row, _), at)| (self.hash(row, &hashes), at)).collect();
        drop(hashes);
        // Rows with one key become neighbours: what replaces a row comes with it.
        order.sort_unstable();
        let mut of_key = Vec::new();
        for group in order.chunk_by(|one, other| one.0 == other.0) {
            let change = |at: u32| (derived.row(at as usize), derived.diff(at as usize));
            if let [(hash, at)] = group {
                let (row, diff) = change(*at);
                self.only(row, diff, *hash, watch)?;
                continue;
            }
            of_key.clear();
            of_key.extend(group.iter().map(|(_, at)| change(*at)));
            self.several(&mut of_key, group[0].0, watch)?;
        }
        Ok(())
    }

    /// The only change under a key.
    fn only(&mut self, row: &[Symbol], diff: Diff, hash: u64, watch: &mut Watch) -> Result<(), Unsettled> {
        match diff {
            0 => {}
            1 if watch.insert(hash) => self.appear(row),
            -1 if watch.remove(hash) => self.disappear(row),
            _ => return Err(Unsettled::Uncounted),
        }
        Ok(())
    }

    /// Several changes under one hash: most often a row and its replacement, or a row whose derivation changes.
    fn several(
        &mut self,
        changes: &mut Vec<(&[Symbol], Diff)>,
        hash: u64,
        watch: &mut Watch,
    ) -> Result<(), Unsettled> {
        changes.sort_unstable();
        changes.dedup_by(|next, first| {
            let is_same = next.0 == first.0;
            if is_same {
                // Sums of a watched relation are 1 at most; anything else is found below.
                first.1 = first.1.saturating_add(next.1);
            }
            is_same
        });
        changes.retain(|(_, sum)| *sum != 0);
        match changes[..] {
            [] => Ok(()),
            [(row, sum)] => self.only(row, sum, hash, watch),
            [(one, 1), (other, -1)] => self.replace(other, one, hash, watch),
            [(one, -1), (other, 1)] => self.replace(one, other, hash, watch),
            _ => Err(Unsettled::Uncounted),
        }
    }

    /// A row that takes the place of another one with its key, or is the same row, derived by another rule.
    fn replace(&mut self, old: &[Symbol], new: &[Symbol], hash: u64, watch: &Watch) -> Result<(), Unsettled> {
        // The new row was not there, even if only the hashes of the keys are equal: no two keys of a watch have one hash.
        if !watch.has(hash) {
            return Err(Unsettled::Uncounted);
        }
        let columns = self.delta.width();
        if old[..columns] != new[..columns] {
            self.disappear(old);
            self.appear(new);
        } else {
            let ((before, _), (after, rule)) = (self.rank(old), self.rank(new));
            if before != after {
                self.report.reattributed.push_words(new[..columns].iter().copied().chain([rule.0]), 1);
            }
        }
        Ok(())
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
            self.report.inserted.push_words(row[..columns].iter().copied().chain([rule.0]), 1);
        }
    }

    fn disappear(&mut self, row: &[Symbol]) {
        let columns = self.delta.width();
        self.delta.push(&row[..columns], -1);
    }
}
