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
}

macro_rules! packed {
    ($number:ty, $pack:ident) => {
        impl Packed for $number {
            #[inline]
            fn word(&self, at: usize) -> Symbol {
                (self >> (<$number>::BITS - (at as u32 + 1) * Symbol::BITS)) as Symbol
            }
        }

        #[inline]
        fn $pack(words: impl Iterator<Item = Symbol>) -> $number {
            let mut shift = <$number>::BITS;
            words.fold(0, |row, word| {
                shift -= Symbol::BITS;
                row | <$number>::from(word) << shift
            })
        }
    };
}

packed!(u64, two);
packed!(u128, four);

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

    fn each(self, mut each: impl FnMut(&[Symbol], Diff)) {
        self.rows().for_each(|(row, diff)| each(row, diff));
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
    match columns.len() {
        0..=2 => sort_as(delta, fit, |row| two(columns.iter().map(|column| row[*column])), user),
        3..=4 => sort_as(delta, fit, |row| four(columns.iter().map(|column| row[*column])), user),
        5..=8 => sort_as(delta, fit, |row| eight(columns.iter().map(|column| row[*column])), user),
        width => {
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
    let rows = delta.look().len();
    if delta.look().is_once() {
        let mut entries = Vec::with_capacity(rows);
        delta.each(|row, _| {
            if fit.fits(row) {
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
