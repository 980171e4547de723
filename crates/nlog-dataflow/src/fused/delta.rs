//! Rows that come and go, one after the other in one vector of words.

use serde::{Deserialize, Serialize};

use crate::row::{Narrow, Row, Wide};
use crate::symbol::Symbol;

/// How many more times something is there.
pub(crate) type Diff = i64;

/// A count that has left what it can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooMany;

/// Changes of rows of one width.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Delta {
    width: usize,
    words: Vec<Symbol>,
    diffs: Vec<Diff>,
}

impl Delta {
    pub(crate) fn new(width: usize) -> Self {
        Delta { width, words: Vec::new(), diffs: Vec::new() }
    }

    pub(crate) fn width(&self) -> usize {
        self.width
    }

    pub(crate) fn len(&self) -> usize {
        self.diffs.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.diffs.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        // What a large transaction took is given back.
        if self.words.capacity() > 1 << 14 {
            *self = Delta::new(self.width);
        } else {
            self.words.clear();
            self.diffs.clear();
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, row: &[Symbol], diff: Diff) {
        debug_assert_eq!(row.len(), self.width);
        self.words.extend_from_slice(row);
        self.diffs.push(diff);
    }

    /// Adds a row of an iterator's words.
    #[inline]
    pub(crate) fn push_words(&mut self, row: impl Iterator<Item = Symbol>, diff: Diff) {
        self.words.extend(row);
        self.diffs.push(diff);
        debug_assert_eq!(self.words.len(), self.diffs.len() * self.width);
    }

    /// Begins a row, whose words are then put into [`Delta::words_mut`], and which [`Delta::end`] makes one or drops.
    #[inline]
    pub(crate) fn begin(&mut self) -> usize {
        self.words.len()
    }

    #[inline]
    pub(crate) fn words_mut(&mut self) -> &mut Vec<Symbol> {
        &mut self.words
    }

    /// Every symbol in rows whose last `raw` words are none.
    pub(crate) fn symbols_mut(&mut self, raw: usize) -> impl Iterator<Item = &mut Symbol> {
        let symbols = self.width.saturating_sub(raw);
        self.words.chunks_mut(self.width.max(1)).flat_map(move |row| &mut row[..symbols])
    }

    /// Ends the row that was begun here: it changes by so much, or is dropped.
    #[inline]
    pub(crate) fn end(&mut self, begun: usize, diff: Option<Diff>) {
        match diff {
            Some(diff) => {
                debug_assert_eq!(self.words.len(), begun + self.width);
                self.diffs.push(diff);
            }
            None => self.words.truncate(begun),
        }
    }

    pub(crate) fn append(&mut self, other: &mut Delta) {
        debug_assert_eq!(self.width, other.width);
        if self.is_empty() {
            std::mem::swap(self, other);
        } else {
            self.words.append(&mut other.words);
            self.diffs.append(&mut other.diffs);
        }
    }

    #[inline]
    pub(crate) fn row(&self, at: usize) -> &[Symbol] {
        &self.words[at * self.width..(at + 1) * self.width]
    }

    pub(crate) fn rows(&self) -> impl ExactSizeIterator<Item = (&[Symbol], Diff)> {
        (0..self.len()).map(|at| (self.row(at), self.diffs[at]))
    }

    /// Turns what comes into what goes.
    pub(crate) fn negate(&mut self) {
        for diff in &mut self.diffs {
            *diff = -*diff;
        }
    }

    /// Whether some row goes.
    pub(crate) fn has_gone(&self) -> bool {
        self.diffs.iter().any(|diff| *diff < 0)
    }

    /// Whether rows only come, or only go: then nothing cancels.
    pub(crate) fn is_one_way(&self) -> bool {
        self.diffs.iter().all(|diff| *diff > 0) || self.diffs.iter().all(|diff| *diff < 0)
    }

    /// Of consolidated rows those that are there, each once.
    pub(crate) fn make_set(&mut self) {
        let mut kept = 0;
        for at in 0..self.len() {
            if self.diffs[at] > 0 {
                self.words.copy_within(at * self.width..(at + 1) * self.width, kept * self.width);
                self.diffs[kept] = 1;
                kept += 1;
            }
        }
        self.words.truncate(kept * self.width);
        self.diffs.truncate(kept);
    }

    /// Sorts rows by their words and sums equal ones up; what cancels goes.
    pub(crate) fn consolidate(&mut self) -> Result<(), TooMany> {
        if self.len() < 2 {
            if self.diffs.first() == Some(&0) {
                self.clear();
            }
            return Ok(());
        }
        match self.width {
            0 => {
                let sum = self.diffs.iter().try_fold(0, |sum: Diff, diff| sum.checked_add(*diff));
                self.diffs.clear();
                self.diffs.extend(Some(sum.ok_or(TooMany)?).filter(|sum| *sum != 0));
                Ok(())
            }
            1..=4 => self.consolidate_as::<Narrow>(),
            5..=8 => self.consolidate_as::<Wide>(),
            _ => self.consolidate_any(),
        }
    }

    fn consolidate_as<R: Row>(&mut self) -> Result<(), TooMany> {
        let width = self.width;
        let mut rows: Vec<(R, Diff)> = Vec::with_capacity(self.len());
        rows.extend(self.rows().map(|(words, diff)| {
            let mut row = R::default();
            row.words_mut()[..width].copy_from_slice(words);
            (row, diff)
        }));
        rows.sort_unstable_by_key(|(row, _)| *row);
        self.words.clear();
        self.diffs.clear();
        for equal in rows.chunk_by(|a, b| a.0 == b.0) {
            let sum = sum(equal.iter().map(|(_, diff)| *diff))?;
            if sum != 0 {
                self.words.extend_from_slice(&equal[0].0.words()[..width]);
                self.diffs.push(sum);
            }
        }
        Ok(())
    }

    fn consolidate_any(&mut self) -> Result<(), TooMany> {
        let mut order: Vec<u32> = (0..self.len() as u32).collect();
        order.sort_unstable_by(|a, b| self.row(*a as usize).cmp(self.row(*b as usize)));
        let mut net = Delta::new(self.width);
        for equal in order.chunk_by(|a, b| self.row(*a as usize) == self.row(*b as usize)) {
            let sum = sum(equal.iter().map(|at| self.diffs[*at as usize]))?;
            if sum != 0 {
                net.push(self.row(equal[0] as usize), sum);
            }
        }
        *self = net;
        Ok(())
    }
}

fn sum(diffs: impl Iterator<Item = Diff>) -> Result<Diff, TooMany> {
    let mut total: Diff = 0;
    for diff in diffs {
        total = total.checked_add(diff).ok_or(TooMany)?;
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_rows_are_summed_up_whatever_their_width() {
        for width in [0, 1, 3, 4, 5, 8, 9, 12] {
            let mut delta = Delta::new(width);
            let row = |word: u32| vec![word; width];
            for (word, diff) in [(3, 1), (1, 1), (3, -1), (2, 2), (1, 1), (2, -1)] {
                delta.push(&row(word), diff);
            }
            delta.consolidate().expect("small numbers");
            let found: Vec<(Vec<u32>, Diff)> = delta.rows().map(|(row, diff)| (row.to_vec(), diff)).collect();
            let wanted = if width == 0 { vec![(vec![], 3)] } else { vec![(row(1), 2), (row(2), 1)] };
            assert_eq!(found, wanted, "width {width}");
        }
    }

    #[test]
    fn a_sum_that_does_not_fit_is_noticed() {
        for width in [0, 2, 6, 9] {
            let mut delta = Delta::new(width);
            delta.push(&vec![1; width], Diff::MAX);
            delta.push(&vec![1; width], 1);
            assert_eq!(delta.consolidate(), Err(TooMany));
        }
    }
}
