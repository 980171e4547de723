//! Rows as the composed engine stores them: a fixed number of inline words. The fused engine only sorts rows of up to eight columns in
//! this form.
//!
//! There are two widths, four words and eight: nearly all rows have at most four columns. If eight are too few, the last word represents a tuple of the remaining columns, interned by
//! [`Symbols::tuple`](crate::symbol::Symbols::tuple). That is slow and rare, and it is correct because equal tuples
//! have one symbol. A third width would add another third to the compile time, for programs that do not exist yet.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use differential_dataflow::ExchangeData;
use serde::{Deserialize, Serialize};

use crate::symbol::{Symbol, Symbols};

/// A row with a fixed number of words. Unused words are zero.
pub(crate) trait Row: ExchangeData + Hash + Copy + Default + fmt::Debug {
    /// The number of words.
    const WIDTH: usize;

    fn words(&self) -> &[Symbol];

    fn words_mut(&mut self) -> &mut [Symbol];

    /// The row with these columns.
    #[inline]
    fn pack(columns: impl ExactSizeIterator<Item = Symbol>, symbols: &Symbols) -> Self {
        let mut row = Self::default();
        if columns.len() <= Self::WIDTH {
            for (word, column) in row.words_mut().iter_mut().zip(columns) {
                *word = column;
            }
        } else {
            let columns: Vec<Symbol> = columns.collect();
            let (head, tail) = columns.split_at(Self::WIDTH - 1);
            row.words_mut()[..Self::WIDTH - 1].copy_from_slice(head);
            row.words_mut()[Self::WIDTH - 1] = symbols.tuple(tail);
        }
        row
    }

    /// Appends the first `count` columns.
    #[inline]
    fn unpack(&self, count: usize, symbols: &Symbols, into: &mut Vec<Symbol>) {
        if count <= Self::WIDTH {
            into.extend_from_slice(&self.words()[..count]);
        } else {
            into.extend_from_slice(&self.words()[..Self::WIDTH - 1]);
            symbols.with_tuple(self.words()[Self::WIDTH - 1], |tail| into.extend_from_slice(tail));
        }
    }
}

macro_rules! row {
    ($(#[$doc:meta])* $name:ident, $width:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
        pub(crate) struct $name([Symbol; $width]);

        impl Ord for $name {
            /// Compares two words at once, since sorting is most of a load's cost.
            #[inline]
            fn cmp(&self, other: &Self) -> Ordering {
                for at in (0..$width).step_by(2) {
                    let pair = |row: &Self| u64::from(row.0[at]) << 32 | u64::from(row.0[at + 1]);
                    match pair(self).cmp(&pair(other)) {
                        Ordering::Equal => {}
                        unequal => return unequal,
                    }
                }
                Ordering::Equal
            }
        }

        impl PartialOrd for $name {
            #[inline]
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl Row for $name {
            const WIDTH: usize = $width;

            #[inline]
            fn words(&self) -> &[Symbol] {
                &self.0
            }

            #[inline]
            fn words_mut(&mut self) -> &mut [Symbol] {
                &mut self.0
            }
        }

        impl Hash for $name {
            /// Feeds one mixed word to the hasher; differential would otherwise hash byte by byte.
            #[inline]
            fn hash<H: Hasher>(&self, state: &mut H) {
                state.write_u64(mix(&self.0));
            }
        }
    };
}

row! {
    /// A row of up to four columns.
    Narrow, 4
}
row! {
    /// A row of up to eight columns.
    Wide, 8
}
/// Mixes words into one, as multiplicative hashing does.
#[inline]
pub(crate) fn mix(words: &[Symbol]) -> u64 {
    let mixed = words.iter().fold(0u64, |hash, word| {
        (hash.rotate_left(5) ^ u64::from(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    });
    // The low bits choose the worker, and multiplication mixes them poorly.
    mixed ^ (mixed >> 32)
}
