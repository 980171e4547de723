//! Sorted rows, from which the batches of indexes and counts are built.
//!
//! Sorting is a large part of a load's cost, and numbers sort twice as fast as arrays of words. Up to four words are
//! packed into one number, the first word in its highest bits, so that numbers have the order of rows.

use super::delta::{Delta, Diff, TooMany};
use super::index::Fit;
use crate::row::{Row, Wide};
use crate::symbol::Symbol;

/// The maximum number of columns of rows that can be sorted here.
pub(crate) const MOST_COLUMNS: usize = <Wide as Packed>::WIDTH;

/// A row that sorts fast. Only rows with the same number of words may be compared.
pub(crate) trait Packed: Copy + Ord {
    /// The maximum number of words of a row.
    const WIDTH: usize;

    fn pack(words: impl Iterator<Item = Symbol>) -> Self;

    /// The word at a position.
    fn word(&self, at: usize) -> Symbol;
}

macro_rules! packed {
    ($number:ty) => {
        impl Packed for $number {
            const WIDTH: usize = size_of::<$number>() / size_of::<Symbol>();

            #[inline]
            fn pack(words: impl Iterator<Item = Symbol>) -> Self {
                let mut shift = <$number>::BITS;
                words.fold(0, |row, word| {
                    shift -= Symbol::BITS;
                    row | <$number>::from(word) << shift
                })
            }

            #[inline]
            fn word(&self, at: usize) -> Symbol {
                (self >> (<$number>::BITS - (at as u32 + 1) * Symbol::BITS)) as Symbol
            }
        }
    };
}

packed!(u64);
packed!(u128);

impl Packed for Wide {
    const WIDTH: usize = <Wide as Row>::WIDTH;

    #[inline]
    fn pack(words: impl Iterator<Item = Symbol>) -> Self {
        let mut row = Wide::default();
        for (to, word) in row.words_mut().iter_mut().zip(words) {
            *to = word;
        }
        row
    }

    #[inline]
    fn word(&self, at: usize) -> Symbol {
        self.words()[at]
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

/// Sorts the given columns of the rows that satisfy the conditions, and passes them to `user`. There may be at most
/// [`MOST_COLUMNS`] columns.
pub(crate) fn sort<U: Use>(delta: impl Rows, fit: &Fit, columns: &[usize], user: U) -> U::Done {
    match columns.len() {
        0..=2 => sort_as::<u64, U>(delta, fit, columns, user),
        3..=4 => sort_as::<u128, U>(delta, fit, columns, user),
        _ => sort_as::<Wide, U>(delta, fit, columns, user),
    }
}

fn sort_as<P: Packed, U: Use>(delta: impl Rows, fit: &Fit, columns: &[usize], user: U) -> U::Done {
    debug_assert!(columns.len() <= P::WIDTH);
    let pack = |row: &[Symbol]| P::pack(columns.iter().map(|column| row[*column]));
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
