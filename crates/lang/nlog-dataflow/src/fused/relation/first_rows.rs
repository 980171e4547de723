//! The first rows of a relation that is counted: sorted once, for its changes and for its counts.

use nlog_data::RuleId;

use super::Conflict;
use super::settling::Settling;
use crate::fused::delta::TooMany;
use crate::fused::sorted::{Entry, Packed as _, Sorted};
use crate::symbol::Symbol;

/// Settles sorted rows of an empty relation, of which all that differ are new.
pub(super) fn settle_first<E: Entry>(settling: &mut Settling<'_>, rows: &Sorted<E>) -> Result<(), TooMany> {
    let split = settling.split;
    let mut place = vec![0; split.key.len() + split.rest.len()];
    for (at, column) in split.key.iter().chain(&split.rest).enumerate() {
        place[*column] = at;
    }
    let first = FirstRows { rows, keys: split.key.len(), place };
    if split.checked {
        first.find_conflicts(settling)?;
    }
    if split.attributed { first.pass_on_with_rules(settling) } else { first.pass_on(settling) }
}

/// The first rows of a relation, sorted: key, rest, and the rule if they are attributed.
struct FirstRows<'a, E> {
    rows: &'a Sorted<E>,
    /// The number of columns of the key.
    keys: usize,
    /// By column, its place in a sorted row.
    place: Vec<usize>,
}

impl<E: Entry> FirstRows<'_, E> {
    fn words(&self, row: E::Row) -> impl Iterator<Item = Symbol> + use<'_, E> {
        self.place.iter().map(move |at| row.word(*at))
    }

    /// Notes different rows that share a key.
    fn find_conflicts(&self, settling: &mut Settling<'_>) -> Result<(), TooMany> {
        let (relation, width) = (settling.relation, self.place.len());
        let words = |row| self.words(row).collect::<Vec<Symbol>>();
        let mut last: Option<E::Row> = None;
        for sum in self.rows.sums() {
            let (row, _) = sum?;
            let clashes = |last: &E::Row| last.same_prefix(row, self.keys) && !last.same_prefix(row, width);
            if let Some(last) = last.filter(clashes) {
                let known = settling.conflicts.last_mut();
                match known.filter(|known| known.rows.last() == Some(&words(last))) {
                    Some(known) if known.relation == relation => known.rows.push(words(row)),
                    _ => settling.conflicts.push(Conflict { relation, rows: vec![words(last), words(row)] }),
                }
            }
            last = Some(row);
        }
        Ok(())
    }

    fn pass_on(&self, settling: &mut Settling<'_>) -> Result<(), TooMany> {
        for sum in self.rows.sums() {
            let (row, _) = sum?;
            settling.delta.push_words(self.words(row), 1);
        }
        Ok(())
    }

    /// Passes on each row once, with the least of its rules.
    fn pass_on_with_rules(&self, settling: &mut Settling<'_>) -> Result<(), TooMany> {
        let width = self.place.len();
        let mut pass_on = |(row, (_, rule)): (E::Row, (u64, RuleId))| {
            settling.delta.push_words(self.words(row), 1);
            settling.report.inserted.push(rule.0);
        };
        let mut open: Option<(E::Row, (u64, RuleId))> = None;
        for sum in self.rows.sums() {
            let (row, _) = sum?;
            let rule = settling.numbers.order(row.word(width));
            match &mut open {
                Some((last, least)) if last.same_prefix(row, width) => *least = rule.min(*least),
                _ => open.replace((row, rule)).into_iter().for_each(&mut pass_on),
            }
        }
        open.into_iter().for_each(pass_on);
        Ok(())
    }
}
