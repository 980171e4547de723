//! Rows of symbols: their hash, and up to eight columns in the form in which they are sorted.

use std::cmp::Ordering;

use crate::symbol::Symbol;

/// A row of up to eight columns. The words of other columns are zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Eight(pub(crate) [Symbol; 8]);

impl Ord for Eight {
    /// Compares two words at once, since sorting is most of a load's cost.
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        for at in [0, 2, 4, 6] {
            let pair = |row: &Self| u64::from(row.0[at]) << 32 | u64::from(row.0[at + 1]);
            match pair(self).cmp(&pair(other)) {
                Ordering::Equal => {}
                unequal => return unequal,
            }
        }
        Ordering::Equal
    }
}

impl PartialOrd for Eight {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
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
