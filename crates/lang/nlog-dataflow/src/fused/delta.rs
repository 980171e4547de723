//! Deltas: inserted and deleted rows, stored contiguously as words.
//!
//! A load has many rows. They are stored in pieces of fixed size, so that growing copies nothing, and the consumer can
//! free each piece as soon as it has read it.

use serde::{Deserialize, Serialize};

use super::index::Fit;
use super::sorted::{Entry, Packed as _, Sorted, Use, sort};
use crate::symbol::Symbol;

/// The change of a count.
pub(crate) type Diff = i64;

/// The error for a count that exceeds its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooMany;

/// The number of rows in a full piece.
const PIECE: usize = 1 << 14;

/// Changes of rows of one width.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Delta {
    width: usize,
    len: usize,
    /// Full pieces.
    pieces: Vec<Vec<Symbol>>,
    /// The last piece, which is not full.
    words: Vec<Symbol>,
    /// Empty as long as each row has the count 1, which saves a third of a load's memory.
    diffs: Vec<Diff>,
}

impl Delta {
    pub(crate) fn new(width: usize) -> Self {
        Delta { width, ..Delta::default() }
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
        // Returns the memory that a large transaction took.
        if !self.pieces.is_empty() || self.words.capacity() > PIECE {
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

    /// Adds a row, given as an iterator of words.
    #[inline]
    pub(crate) fn push_words(&mut self, row: impl Iterator<Item = Symbol>, diff: Diff) {
        self.words.extend(row);
        self.count(diff);
        debug_assert_eq!(self.words.len(), self.len % PIECE * self.width);
    }

    /// Begins a row. The caller writes its words to [`Delta::words_mut`] and then keeps or drops it with
    /// [`Delta::end`].
    #[inline]
    pub(crate) fn begin(&mut self) -> usize {
        self.words.len()
    }

    #[inline]
    pub(crate) fn words_mut(&mut self) -> &mut Vec<Symbol> {
        &mut self.words
    }

    /// Visits every symbol, except the last `raw` words of each row, which are not symbols.
    pub(crate) fn symbols_mut(&mut self, raw: usize) -> impl Iterator<Item = &mut Symbol> {
        let symbols = self.width.saturating_sub(raw);
        let width = self.width.max(1);
        let pieces = self.pieces.iter_mut().chain(std::iter::once(&mut self.words));
        pieces.flat_map(move |words| words.chunks_mut(width)).flat_map(move |row| &mut row[..symbols])
    }

    /// Ends the row begun at this position: gives it the count `diff`, or drops it.
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

    /// Adds the count of a row whose words are complete.
    #[inline]
    fn count(&mut self, diff: Diff) {
        if diff != 1 || !self.diffs.is_empty() {
            self.spell_out();
            self.diffs.push(diff);
        }
        self.len += 1;
        if self.len.is_multiple_of(PIECE) {
            let next = if self.width == 0 { 0 } else { PIECE * self.width };
            self.pieces.push(std::mem::replace(&mut self.words, Vec::with_capacity(next)));
        }
    }

    /// Stores an explicit count for each row.
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
        for (row, diff) in std::mem::replace(other, Delta::new(self.width)).rows() {
            self.push(row, diff);
        }
    }

    #[inline]
    pub(crate) fn row(&self, at: usize) -> &[Symbol] {
        let piece = self.pieces.get(at / PIECE).unwrap_or(&self.words);
        &piece[at % PIECE * self.width..][..self.width]
    }

    #[inline]
    pub(crate) fn diff(&self, at: usize) -> Diff {
        self.diffs.get(at).copied().unwrap_or(1)
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = (&[Symbol], Diff)> {
        let pieces = self.pieces.iter().chain(std::iter::once(&self.words));
        let width = self.width;
        pieces.enumerate().flat_map(move |(at, words)| {
            let rows = (self.len - at * PIECE).min(PIECE);
            (0..rows).map(move |row| (&words[row * width..][..width], self.diff(at * PIECE + row)))
        })
    }

    /// Passes every row to `each`, faster than [`Delta::rows`].
    #[inline]
    pub(crate) fn for_each(&self, mut each: impl FnMut(&[Symbol], Diff)) {
        if self.width == 0 || !self.is_once() {
            self.rows().for_each(|(row, diff)| each(row, diff));
            return;
        }
        for piece in self.pieces.iter().chain(std::iter::once(&self.words)) {
            piece.chunks_exact(self.width).for_each(|row| each(row, 1));
        }
    }

    /// Passes every row to `each` and frees each piece once it has been read.
    pub(crate) fn into_rows(self, mut each: impl FnMut(&[Symbol], Diff)) {
        let Delta { width, len, pieces, words, diffs } = self;
        let mut at = 0;
        for words in pieces.into_iter().chain(std::iter::once(words)) {
            for row in 0..(len - at).min(PIECE) {
                each(&words[row * width..][..width], diffs.get(at + row).copied().unwrap_or(1));
            }
            at += PIECE.min(len - at);
        }
    }

    /// Whether each row has the count 1. The same row may still occur twice.
    pub(crate) fn is_once(&self) -> bool {
        self.diffs.is_empty()
    }

    /// Turns insertions into deletions and the reverse.
    pub(crate) fn negate(&mut self) {
        self.spell_out();
        for diff in &mut self.diffs {
            *diff = -*diff;
        }
    }

    /// Whether any row is deleted.
    pub(crate) fn has_gone(&self) -> bool {
        self.diffs.iter().any(|diff| *diff < 0)
    }

    /// Whether all rows are inserted, however often.
    pub(crate) fn only_comes(&self) -> bool {
        self.diffs.iter().all(|diff| *diff > 0)
    }

    /// Whether all rows are inserted or all are deleted, so that nothing can cancel.
    pub(crate) fn is_one_way(&self) -> bool {
        self.only_comes() || self.diffs.iter().all(|diff| *diff < 0)
    }

    /// Reduces consolidated rows to those with a positive count, each once.
    pub(crate) fn make_set(&mut self) {
        if self.is_once() {
            return;
        }
        let mut kept = Delta::new(self.width);
        std::mem::take(self).into_rows(|row, diff| {
            if diff > 0 {
                kept.push(row, 1);
            }
        });
        *self = kept;
    }

    /// Sorts rows by their words and sums the counts of equal rows. Rows with a zero sum disappear.
    pub(crate) fn consolidate(&mut self) -> Result<(), TooMany> {
        if self.len() < 2 {
            if self.diffs.first() == Some(&0) {
                self.clear();
            }
            return Ok(());
        }
        let columns: Vec<usize> = (0..self.width).collect();
        let width = self.width;
        let rows = std::mem::replace(self, Delta::new(width));
        *self = sort(rows, &Fit::default(), &columns, Sums { width })?;
        Ok(())
    }
}

/// Consolidated rows with their sums.
struct Sums {
    width: usize,
}

impl Use for Sums {
    type Done = Result<Delta, TooMany>;

    fn rows<E: Entry>(self, rows: &Sorted<E>) -> Self::Done {
        let mut net = Delta::new(self.width);
        for sum in rows.sums() {
            let (row, sum) = sum?;
            if sum != 0 {
                net.push_words((0..self.width).map(|at| row.word(at)), sum);
            }
        }
        Ok(net)
    }
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
    fn rows_in_pieces_are_those_that_were_put_in() {
        for (width, rows) in [(0, 3 * PIECE), (1, PIECE - 1), (1, PIECE), (2, PIECE + 1), (3, 3 * PIECE + 5)]
        {
            let (mut delta, mut other) = (Delta::new(width), Delta::new(width));
            let diff = |at: usize| if at > PIECE && at.is_multiple_of(7) { -1 } else { 1 };
            for at in 0..rows {
                let into = if at < rows / 3 { &mut delta } else { &mut other };
                into.push(&vec![at as u32; width], diff(at));
            }
            delta.append(&mut other);
            assert!(other.is_empty());
            assert_eq!(delta.len(), rows);
            let wanted = || (0..rows).map(|at| (vec![at as u32; width], diff(at)));
            assert!(delta.rows().map(|(row, diff)| (row.to_vec(), diff)).eq(wanted()));
            assert!((0..rows).all(|at| delta.row(at) == vec![at as u32; width]));
            let mut all = Vec::new();
            delta.clone().into_rows(|row, diff| all.push((row.to_vec(), diff)));
            assert!(all.into_iter().eq(wanted()));
            delta.make_set();
            assert_eq!(delta.len(), wanted().filter(|(_, diff)| *diff > 0).count());
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
