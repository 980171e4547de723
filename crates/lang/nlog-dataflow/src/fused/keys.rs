//! The sort keys of a batch: the key of each binding with the binding's position.
//!
//! Sorting is most of a probe's cost, and numbers sort fast. A key of up to three words is therefore packed into one
//! number with its position.

use smallvec::SmallVec;

use crate::symbol::Symbol;

/// A key of any length, of which most are short.
type Key = SmallVec<[Symbol; 8]>;

/// A key and the position of its binding. Positions of equal keys ascend.
pub(crate) trait Place: Ord {
    fn at(&self) -> usize;

    /// The same key for a binding at another position.
    fn moved(&self, at: usize) -> Self;

    fn has_same_key(&self, other: &Self) -> bool;

    /// Appends the words of the key, so many.
    fn put_key(&self, words: usize, into: &mut Vec<Symbol>);
}

/// The keys of a batch.
pub(crate) enum Keys {
    /// Keys of at most one word.
    One(Vec<u64>),
    /// Keys of up to three words.
    Three(Vec<u128>),
    /// Longer keys.
    More(Vec<(Key, u32)>),
}

impl Keys {
    /// An empty list for keys of this many words.
    pub(crate) fn new(words: usize) -> Self {
        match words {
            0..=1 => Keys::One(Vec::new()),
            2..=3 => Keys::Three(Vec::new()),
            _ => Keys::More(Vec::new()),
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, words: impl Iterator<Item = Symbol>, at: usize) {
        match self {
            Keys::One(keys) => keys.push(words.fold(0, |_, word| u64::from(word)) << 32 | at as u64),
            Keys::Three(keys) => {
                let key = words.fold(0, |key: u128, word| key << 32 | u128::from(word));
                keys.push(key << 32 | at as u128);
            }
            Keys::More(keys) => keys.push((words.collect(), at as u32)),
        }
    }

    /// Frees unused memory.
    pub(crate) fn shrink(&mut self) {
        match self {
            Keys::One(keys) => keys.shrink_to_fit(),
            Keys::Three(keys) => keys.shrink_to_fit(),
            Keys::More(keys) => keys.shrink_to_fit(),
        }
    }

    pub(crate) fn clear(&mut self) {
        match self {
            Keys::One(keys) => keys.clear(),
            Keys::Three(keys) => keys.clear(),
            Keys::More(keys) => keys.clear(),
        }
    }
}

impl Place for u64 {
    #[inline]
    fn at(&self) -> usize {
        *self as u32 as usize
    }

    #[inline]
    fn moved(&self, at: usize) -> Self {
        self >> 32 << 32 | at as u64
    }

    #[inline]
    fn has_same_key(&self, other: &Self) -> bool {
        self >> 32 == other >> 32
    }

    #[inline]
    fn put_key(&self, words: usize, into: &mut Vec<Symbol>) {
        if words > 0 {
            into.push((self >> 32) as Symbol);
        }
    }
}

impl Place for u128 {
    #[inline]
    fn at(&self) -> usize {
        *self as u32 as usize
    }

    #[inline]
    fn moved(&self, at: usize) -> Self {
        self >> 32 << 32 | at as u128
    }

    #[inline]
    fn has_same_key(&self, other: &Self) -> bool {
        self >> 32 == other >> 32
    }

    #[inline]
    fn put_key(&self, words: usize, into: &mut Vec<Symbol>) {
        into.extend((0..words).map(|at| (self >> (32 * (words - at))) as Symbol));
    }
}

impl Place for (Key, u32) {
    #[inline]
    fn at(&self) -> usize {
        self.1 as usize
    }

    #[inline]
    fn moved(&self, at: usize) -> Self {
        (self.0.clone(), at as u32)
    }

    #[inline]
    fn has_same_key(&self, other: &Self) -> bool {
        self.0 == other.0
    }

    #[inline]
    fn put_key(&self, _: usize, into: &mut Vec<Symbol>) {
        into.extend_from_slice(&self.0);
    }
}
