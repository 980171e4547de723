//! Sorted rows, from which the batches of indexes and counts are built.
//!
//! Sorting is a large part of a load's cost, and numbers sort twice as fast as arrays of words. Up to four words are
//! packed into one number, the first word in its highest bits, so that numbers have the order of rows. Up to eight words are
//! an array, and wider rows are sorted as slices.

use super::delta::{Delta, Diff, TooMany};
use super::index::Fit;
use crate::row::Eight;
use crate::symbol::Symbol;

/// A row that can be sorted. Only rows with the same number of words may be compared.
pub(crate) trait Packed: Copy + Ord {
    /// The word at a position.
    fn word(&self, at: usize) -> Symbol;

    /// Whether two rows agree on their first words, so many.
    #[inline]
    fn same_prefix(self, other: Self, words: usize) -> bool {
        (0..words).all(|at| self.word(at) == other.word(at))
    }
}

macro_rules! packed {
    ($number:ty) => {
        impl Packed for $number {
            #[inline]
            fn word(&self, at: usize) -> Symbol {
                (self >> (<$number>::BITS - (at as u32 + 1) * Symbol::BITS)) as Symbol
            }

            #[inline]
            fn same_prefix(self, other: Self, words: usize) -> bool {
                words == 0 || (self ^ other) >> (<$number>::BITS - words as u32 * Symbol::BITS) == 0
            }
        }
    };
}

packed!(u64);
packed!(u128);

/// Packs two words, the first in the higher bits.
#[inline]
fn two(first: Symbol, second: Symbol) -> u64 {
    u64::from(first) << Symbol::BITS | u64::from(second)
}

/// Packs four words, given as two numbers of two words.
#[inline]
fn four(first: u64, second: u64) -> u128 {
    u128::from(first) << u64::BITS | u128::from(second)
}

impl Packed for Eight {
    #[inline]
    fn word(&self, at: usize) -> Symbol {
        self.0[at]
    }
}

/// Packs up to eight words.
#[inline]
fn eight(words: impl Iterator<Item = Symbol>) -> Eight {
    let mut row = Eight::default();
    row.0.iter_mut().zip(words).for_each(|(to, word)| *to = word);
    row
}

impl Packed for &[Symbol] {
    #[inline]
    fn word(&self, at: usize) -> Symbol {
        self[at]
    }
}

/// A row and its count.
pub(crate) trait Entry: Copy {
    type Row: Packed;

    /// Whether each count is 1.
    const ONCE: bool = false;

    fn row(&self) -> Self::Row;

    fn count(&self) -> Diff;
}

impl<P: Packed> Entry for (P, Diff) {
    type Row = P;

    #[inline]
    fn row(&self) -> P {
        self.0
    }

    #[inline]
    fn count(&self) -> Diff {
        self.1
    }
}

/// A row with the count 1, as nearly all rows of a load have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Once<P>(P);

impl<P: Packed> Entry for Once<P> {
    type Row = P;

    const ONCE: bool = true;

    #[inline]
    fn row(&self) -> P {
        self.0
    }

    #[inline]
    fn count(&self) -> Diff {
        1
    }
}

/// Rows in ascending order. Equal rows may occur several times.
pub(crate) struct Sorted<E>(Vec<E>);

impl<E: Entry> Sorted<E> {
    fn new(mut entries: Vec<E>) -> Self {
        if !entries.is_sorted_by(|a, b| a.row() <= b.row()) {
            entries.sort_unstable_by_key(Entry::row);
        }
        Sorted(entries)
    }

    /// The number of rows, of which some may be equal.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The rows, of which some may be equal.
    pub(crate) fn rows(&self) -> impl Iterator<Item = E::Row> {
        self.0.iter().map(Entry::row)
    }

    /// Whether each row occurs once and has the count 1.
    pub(crate) fn is_set(&self) -> bool {
        E::ONCE && self.0.is_sorted_by(|one, other| one.row() < other.row())
    }

    /// The number of different prefixes of so many words.
    pub(crate) fn prefixes(&self, words: usize) -> usize {
        let changes = self.0.windows(2).filter(|two| !two[0].row().same_prefix(two[1].row(), words));
        changes.count() + usize::from(!self.0.is_empty())
    }

    /// The rows from a position on.
    pub(crate) fn from(&self, at: usize) -> impl Iterator<Item = E::Row> {
        self.0[at.min(self.len())..].iter().map(Entry::row)
    }

    /// Each row with the sum of its counts, which may be zero.
    #[inline]
    pub(crate) fn sums(&self) -> impl Iterator<Item = Result<(E::Row, Diff), TooMany>> {
        let mut rest = self.0.iter();
        std::iter::from_fn(move || {
            let first = rest.next()?;
            let row = first.row();
            // Most rows occur once. Partial sums may exceed 64 bits.
            let mut sum = i128::from(first.count());
            while let Some(next) = rest.as_slice().first().filter(|next| next.row() == row) {
                sum += i128::from(next.count());
                rest.next();
            }
            Some(Diff::try_from(sum).map(|sum| (row, sum)).map_err(|_| TooMany))
        })
    }
}

/// Consumes sorted rows of any form.
pub(crate) trait Use {
    type Done;

    fn rows<E: Entry>(self, rows: &Sorted<E>) -> Self::Done;
}

/// Rows to sort. Owned rows are freed while they are read.
pub(crate) trait Rows {
    fn look(&self) -> &Delta;

    fn each(self, each: impl FnMut(&[Symbol], Diff));
}

impl Rows for &Delta {
    fn look(&self) -> &Delta {
        self
    }

    #[inline]
    fn each(self, each: impl FnMut(&[Symbol], Diff)) {
        self.for_each(each);
    }
}

impl Rows for Delta {
    fn look(&self) -> &Delta {
        self
    }

    fn each(self, each: impl FnMut(&[Symbol], Diff)) {
        self.into_rows(each);
    }
}

/// Sorts the given columns of the rows that satisfy the conditions, and passes them to `user`.
pub(crate) fn sort<U: Use>(delta: impl Rows, fit: &Fit, columns: &[usize], user: U) -> U::Done {
    // Up to four columns are named: to go over a list of columns for each row takes half as long again.
    match *columns {
        [] => sort_as(delta, fit, |_| 0_u64, user),
        [a] => sort_as(delta, fit, |row| two(row[a], 0), user),
        [a, b] => sort_as(delta, fit, |row| two(row[a], row[b]), user),
        [a, b, c] => sort_as(delta, fit, |row| four(two(row[a], row[b]), two(row[c], 0)), user),
        [a, b, c, d] => sort_as(delta, fit, |row| four(two(row[a], row[b]), two(row[c], row[d])), user),
        _ if columns.len() <= 8 => {
            sort_as(delta, fit, |row| eight(columns.iter().map(|column| row[*column])), user)
        }
        _ => {
            let width = columns.len();
            let rows = delta.look().len();
            let (mut all, mut diffs) = (Vec::with_capacity(rows * width), Vec::with_capacity(rows));
            delta.each(|row, diff| {
                if fit.fits(row) {
                    all.extend(columns.iter().map(|column| row[*column]));
                    diffs.push(diff);
                }
            });
            let entries: Vec<(&[Symbol], Diff)> = all.chunks_exact(width).zip(diffs).collect();
            user.rows(&Sorted::new(entries))
        }
    }
}

/// Sorts rows of at most eight columns.
fn sort_as<P: Packed, U: Use>(
    delta: impl Rows,
    fit: &Fit,
    pack: impl Fn(&[Symbol]) -> P,
    user: U,
) -> U::Done {
    let (rows, takes_all) = (delta.look().len(), fit.is_empty());
    if delta.look().is_once() {
        let mut entries = Vec::with_capacity(rows);
        delta.each(|row, _| {
            if takes_all || fit.fits(row) {
                entries.push(Once(pack(row)));
            }
        });
        return user.rows(&Sorted::new(entries));
    }
    let mut entries = Vec::with_capacity(rows);
    delta.each(|row, diff| {
        if fit.fits(row) {
            entries.push((pack(row), diff));
        }
    });
    user.rows(&Sorted::new(entries))
}
