//! Settling: from derived rows to the change of a counted set.

use nlog_data::RuleId;
use nlog_plan::query::RelationId;

use super::first_rows::settle_first;
use super::{Attributed, Conflict, Split};
use crate::fused::batch::{Values, append, same};
use crate::fused::delta::{Delta, Diff, TooMany};
use crate::fused::index::Fit;
use crate::fused::probe::AHEAD;
use crate::fused::rule::Numbers;
use crate::fused::sorted::{Entry, Packed as _, Sorted, Use, sort};
use crate::fused::trace::{Trace, View, Ways, ways};
use crate::symbol::Symbol;

/// The processing of one relation's derived rows.
pub(super) struct Settling<'a> {
    pub(super) relation: RelationId,
    pub(super) split: &'a Split,
    pub(super) numbers: &'a Numbers,
    pub(super) delta: &'a mut Delta,
    pub(super) report: &'a mut Attributed,
    pub(super) conflicts: &'a mut Vec<Conflict>,
}

/// A row, a rule, and whether the rule derived the row before the transaction and derives it after.
type OfRule = (Vec<Symbol>, (u64, RuleId), bool, bool);

/// The values under a key, with their counts before and after the transaction.
#[derive(Debug, Default)]
struct Presences {
    width: usize,
    words: Vec<Symbol>,
    counts: Vec<[Ways; 2]>,
}

impl Presences {
    /// The values of a key and their changes.
    fn fill(&mut self, old: Values<'_>, changes: Values<'_>) -> Result<(), TooMany> {
        self.words.clear();
        self.counts.clear();
        let (mut old, mut changes) = (old.iter().peekable(), changes.iter().peekable());
        loop {
            let value = match (old.peek(), changes.peek()) {
                (None, None) => return Ok(()),
                (Some((value, _)), None) | (None, Some((value, _))) => *value,
                (Some((one, _)), Some((other, _))) => *one.min(other),
            };
            let before = old.next_if(|(found, _)| same(found, value)).map_or(0, |(_, count)| count);
            let change = changes.next_if(|(found, _)| same(found, value)).map_or(0, |(_, count)| count);
            let sum = i128::from(before) + i128::from(change);
            let after = ways(Diff::try_from(sum).map_err(|_| TooMany)?)?;
            debug_assert!(after >= 0, "a row is derived less often than never");
            append(value, &mut self.words);
            self.counts.push([before, after]);
        }
    }

    /// Each value, and whether it is there before and after the transaction.
    fn iter(&self) -> impl Iterator<Item = (&[Symbol], bool, bool)> {
        (self.counts.iter().enumerate()).map(|(at, [before, after])| {
            (&self.words[at * self.width..][..self.width], *before > 0, *after > 0)
        })
    }
}

impl Settling<'_> {
    /// Turns derived rows into a change of the set, and counts them.
    pub(super) fn settle(mut self, derived: Delta, trace: &mut Trace) -> Result<(), TooMany> {
        if !derived.is_once() {
            derived.rows().try_for_each(|(_, diff)| ways(diff).map(drop))?;
        }
        let are_first = derived.only_comes() && trace.is_empty(View::Before);
        let places = self.split.places();
        sort(derived, &Fit::default(), &places, Settle { settling: &mut self, trace, are_first })
    }

    /// Settles rows of a relation that may have rows already.
    fn settle_changes<E: Entry>(&mut self, rows: &Sorted<E>, trace: &Trace) -> Result<(), TooMany> {
        let (keys, width) = (self.split.key.len(), self.split.values());
        let key_words = |row: E::Row| (0..keys).map(move |at| row.word(at));
        let mut probe = trace.probe(View::Before);
        let (mut presences, mut row) = (Presences { width, ..Presences::default() }, Vec::new());
        let (mut key, mut words, mut counts) = (Vec::new(), Vec::new(), Vec::new());
        let is_sparse = probe.is_sparse(rows.len());
        let (mut expected, mut sums) = (0, rows.sums().enumerate().peekable());
        while let Some((number, sum)) = sums.next() {
            let (first, count) = sum?;
            if is_sparse && number >= expected {
                probe
                    .expect(|into| rows.from(number).take(AHEAD).for_each(|row| into.extend(key_words(row))));
                expected = number + AHEAD;
            }
            key.clear();
            key.extend(key_words(first));
            words.clear();
            words.extend((0..width).map(|at| first.word(keys + at)));
            counts.clear();
            counts.push(count);
            let is_next = |next: &(usize, Result<(E::Row, Diff), TooMany>)| {
                next.1.is_ok_and(|(row, _)| key_words(row).eq(key.iter().copied()))
            };
            while let Some((_, sum)) = sums.next_if(is_next) {
                let (row, count) = sum?;
                words.extend((0..width).map(|at| row.word(keys + at)));
                counts.push(count);
            }
            presences.fill(probe.find(&key), Values::new(&words, &counts, width))?;
            self.key(&key, &presences, &mut row);
        }
        Ok(())
    }

    /// Computes the changes under one key.
    fn key(&mut self, key: &[Symbol], presences: &Presences, row: &mut Vec<Symbol>) {
        if !self.split.attributed {
            for (value, before, after) in presences.iter().filter(|(_, before, after)| before != after) {
                self.split.row(key, value, row);
                self.delta.push(row, Diff::from(after) - Diff::from(before));
            }
        } else if presences.counts.len() == 1 {
            self.attributed_row(key, presences, row);
        } else {
            self.attributed_key(key, presences, row);
        }
        if self.split.checked && presences.counts.iter().filter(|[_, after]| *after > 0).count() > 1 {
            let mut rows = Vec::new();
            for (value, ..) in presences.iter().filter(|(.., after)| *after) {
                self.split.row(key, value, row);
                rows.push(row.clone());
            }
            rows.sort_unstable();
            rows.dedup();
            if rows.len() > 1 {
                self.conflicts.push(Conflict { relation: self.relation, rows });
            }
        }
    }

    /// A key with one row, which one rule derives, as nearly all keys have.
    fn attributed_row(&mut self, key: &[Symbol], presences: &Presences, row: &mut Vec<Symbol>) {
        for (value, before, after) in presences.iter().filter(|(_, before, after)| before != after) {
            let rule = self.split.row(key, value, row);
            self.delta.push(row, Diff::from(after) - Diff::from(before));
            if after {
                let (_, rule) = self.numbers.order(rule);
                self.report.inserted.push(rule.0);
            }
        }
    }

    /// Treats rows that differ only in their rule as one row, attributed to the least rule.
    fn attributed_key(&mut self, key: &[Symbol], presences: &Presences, row: &mut Vec<Symbol>) {
        let of_rule = |(value, before, after): (&[Symbol], bool, bool)| {
            let rule = self.split.row(key, value, row);
            (row.clone(), self.numbers.order(rule), before, after)
        };
        let mut of_rules: Vec<OfRule> = presences.iter().map(of_rule).collect();
        of_rules.sort_unstable();
        for of_row in of_rules.chunk_by(|a, b| a.0 == b.0) {
            let row = &of_row[0].0;
            let before = of_row.iter().find(|of_rule| of_rule.2).map(|of_rule| of_rule.1);
            let after = of_row.iter().find(|of_rule| of_rule.3).map(|of_rule| of_rule.1);
            let with = |rule: (u64, RuleId)| row.iter().copied().chain([rule.1.0]);
            match (before, after) {
                (None, Some(rule)) => {
                    self.delta.push(row, 1);
                    self.report.inserted.push(rule.1.0);
                }
                (Some(_), None) => self.delta.push(row, -1),
                (Some(old), Some(new)) if old.0 != new.0 => self.report.reattributed.push_words(with(new), 1),
                _ => {}
            }
        }
    }
}

/// Settles sorted rows and stages their counts.
struct Settle<'a, 'b> {
    settling: &'a mut Settling<'b>,
    trace: &'a mut Trace,
    /// Whether the relation has no rows before the transaction, and each of these has a positive count.
    are_first: bool,
}

impl Use for Settle<'_, '_> {
    type Done = Result<(), TooMany>;

    fn rows<E: Entry>(self, rows: &Sorted<E>) -> Self::Done {
        if self.are_first {
            settle_first(self.settling, rows)?;
        } else {
            self.settling.settle_changes(rows, self.trace)?;
        }
        self.trace.stage(rows)
    }
}
