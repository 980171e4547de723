//! Rows that come and go, one after the other in one vector of words.

use serde::{Deserialize, Serialize};

use super::index::Fit;
use super::sorted::{Entry, Packed as _, Sorted, Use, sort};
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
    len: usize,
    words: Vec<Symbol>,
    /// Empty as long as each row comes once, which saves a third of a load's memory.
    diffs: Vec<Diff>,
}

impl Delta {
    pub(crate) fn new(width: usize) -> Self {
        Delta { width, len: 0, words: Vec::new(), diffs: Vec::new() }
    }

    /// With room for so many rows.
    pub(crate) fn with_capacity(width: usize, rows: usize) -> Self {
        Delta { words: Vec::with_capacity(width * rows), ..Delta::new(width) }
    }

    pub(crate) fn width(&self) -> usize {
        self.width
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn clear(&mut self) {
        // What a large transaction took is given back.
        if self.words.capacity() > 1 << 14 {
            *self = Delta::new(self.width);
        } else {
            self.words.clear();
            self.diffs.clear();
            self.len = 0;
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, row: &[Symbol], diff: Diff) {
        debug_assert_eq!(row.len(), self.width);
        self.words.extend_from_slice(row);
        self.count(diff);
    }

    /// Adds a row of an iterator's words.
    #[inline]
    pub(crate) fn push_words(&mut self, row: impl Iterator<Item = Symbol>, diff: Diff) {
        self.words.extend(row);
        self.count(diff);
        debug_assert_eq!(self.words.len(), self.len * self.width);
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
                self.count(diff);
            }
            None => self.words.truncate(begun),
        }
    }

    /// The words of one more row are there.
    #[inline]
    fn count(&mut self, diff: Diff) {
        if diff != 1 || !self.diffs.is_empty() {
            self.spell_out();
            self.diffs.push(diff);
        }
        self.len += 1;
    }

    /// Gives each row its own count.
    fn spell_out(&mut self) {
        if self.diffs.is_empty() {
            self.diffs.resize(self.len, 1);
        }
    }

    pub(crate) fn append(&mut self, other: &mut Delta) {
        debug_assert_eq!(self.width, other.width);
        if self.is_empty() {
            std::mem::swap(self, other);
            return;
        }
        if !(self.is_once() && other.is_once()) {
            self.spell_out();
            other.spell_out();
            self.diffs.append(&mut other.diffs);
        }
        self.words.append(&mut other.words);
        self.len += std::mem::take(&mut other.len);
    }

    #[inline]
    pub(crate) fn row(&self, at: usize) -> &[Symbol] {
        &self.words[at * self.width..(at + 1) * self.width]
    }

    #[inline]
    fn diff(&self, at: usize) -> Diff {
        self.diffs.get(at).copied().unwrap_or(1)
    }

    pub(crate) fn rows(&self) -> impl ExactSizeIterator<Item = (&[Symbol], Diff)> {
        (0..self.len()).map(|at| (self.row(at), self.diff(at)))
    }

    /// Whether each row comes once; whether a row stands there twice nobody knows.
    pub(crate) fn is_once(&self) -> bool {
        self.diffs.is_empty()
    }

    /// Turns what comes into what goes.
    pub(crate) fn negate(&mut self) {
        self.spell_out();
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
        if self.is_once() {
            return;
        }
        let mut kept = 0;
        for at in 0..self.len() {
            if self.diffs[at] > 0 {
                self.words.copy_within(at * self.width..(at + 1) * self.width, kept * self.width);
                kept += 1;
            }
        }
        self.words.truncate(kept * self.width);
        self.diffs.clear();
        self.len = kept;
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
                let sum = sum((0..self.len()).map(|at| self.diff(at)))?;
                *self = Delta::new(0);
                if sum != 0 {
                    self.push(&[], sum);
                }
                Ok(())
            }
            1..=8 => {
                let columns: Vec<usize> = (0..self.width).collect();
                let width = self.width;
                let rows = std::mem::replace(self, Delta::new(width));
                *self = sort(rows, &Fit::default(), &columns, Sums { width })??;
                Ok(())
            }
            _ => self.consolidate_any(),
        }
    }

    fn consolidate_any(&mut self) -> Result<(), TooMany> {
        let mut order: Vec<u32> = (0..self.len() as u32).collect();
        order.sort_unstable_by(|a, b| self.row(*a as usize).cmp(self.row(*b as usize)));
        let mut net = Delta::new(self.width);
        for equal in order.chunk_by(|a, b| self.row(*a as usize) == self.row(*b as usize)) {
            let sum = sum(equal.iter().map(|at| self.diff(*at as usize)))?;
            if sum != 0 {
                net.push(self.row(equal[0] as usize), sum);
            }
        }
        *self = net;
        Ok(())
    }
}

/// Rows with their sums.
struct Sums {
    width: usize,
}

impl Use for Sums {
    type Done = Result<Delta, TooMany>;

    fn rows<E: Entry>(self, rows: &Sorted<E>) -> Self::Done {
        let mut net = Delta::with_capacity(self.width, rows.len());
        for sum in rows.sums() {
            let (row, sum) = sum?;
            if sum != 0 {
                net.push_words((0..self.width).map(|at| row.word(at)), Diff::from(sum));
            }
        }
        Ok(net)
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
