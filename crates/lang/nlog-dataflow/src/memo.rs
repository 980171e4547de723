//! The results of calls, by their arguments.
//!
//! A memo is a direct-mapped cache, as packages for decision diagrams use: arguments have one place, and a new result
//! takes the place of the one before. Nothing is allocated for a result, a look-up reads one place, and the memory is
//! bounded. A load calls most functions once with the same arguments: there, hash tables that kept each result took a tenth
//! of the time.

use crate::row::mix;
use crate::symbol::{NO_FAILURE, Symbol};

/// The number of places that a memo begins with.
const FEWEST: usize = 1 << 6;

/// The greatest number of places.
const MOST: usize = 1 << 18;

/// From this number of places on, a memo grows only if it is of use.
const LARGE: usize = 1 << 14;

/// A memo is of use if it found one result for this many that it replaced. Calls that go through four times as many
/// arguments as there are places, in turn, still find one of fifty.
const USEFUL: usize = 64;

/// A cache of results by arguments.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memo {
    /// The places: the arguments and the result of each. No call results in [`NO_FAILURE`], which marks free places.
    words: Vec<Symbol>,
    places: usize,
    /// The results that took another's place, and those that were found, since the memo grew last.
    replaced: usize,
    found: usize,
}

impl Memo {
    /// Where the place of these arguments begins.
    #[inline]
    fn place(&self, arguments: &[Symbol]) -> usize {
        (mix(arguments) as usize & (self.places - 1)) * (arguments.len() + 1)
    }

    /// The result of a call with these arguments, if it is known.
    #[inline]
    pub(crate) fn get(&mut self, arguments: &[Symbol]) -> Option<Symbol> {
        if self.places == 0 {
            return None;
        }
        let at = self.place(arguments);
        let (known, result) = (&self.words[at..at + arguments.len()], self.words[at + arguments.len()]);
        if result == NO_FAILURE || known != arguments {
            return None;
        }
        self.found += 1;
        Some(result)
    }

    /// Keeps the result of a call. All calls have the same number of arguments.
    pub(crate) fn insert(&mut self, arguments: &[Symbol], result: Symbol) {
        let is_of_use = self.places < LARGE || self.found * USEFUL > self.replaced;
        if self.places == 0 || self.replaced > self.places / 2 && self.places < MOST && is_of_use {
            self.grow(arguments.len());
        }
        self.put(arguments, result);
    }

    fn put(&mut self, arguments: &[Symbol], result: Symbol) {
        let at = self.place(arguments);
        let place = &mut self.words[at..=at + arguments.len()];
        self.replaced += usize::from(place[arguments.len()] != NO_FAILURE);
        place[..arguments.len()].copy_from_slice(arguments);
        place[arguments.len()] = result;
    }

    fn grow(&mut self, arguments: usize) {
        let places = (self.places * 4).clamp(FEWEST, MOST);
        let words = vec![NO_FAILURE; places * (arguments + 1)];
        let before = std::mem::replace(self, Memo { words, places, ..Memo::default() });
        for place in before.words.chunks_exact(arguments + 1) {
            if place[arguments] != NO_FAILURE {
                self.put(&place[..arguments], place[arguments]);
            }
        }
        self.replaced = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn a_result_that_is_found_is_the_last_one_of_its_arguments() {
        for arguments in 0..5 {
            for range in [3, 50, 1000] {
                let mut random = test_random::Random::new(1);
                let (mut memo, mut all) = (Memo::default(), HashMap::new());
                let mut found = 0;
                for result in 2..20_000 {
                    let words: Vec<Symbol> = (0..arguments).map(|_| random.below(range) as Symbol).collect();
                    if let Some(result) = memo.get(&words) {
                        assert_eq!(Some(&result), all.get(&words), "{arguments} arguments");
                        found += 1;
                    }
                    memo.insert(&words, result);
                    assert_eq!(memo.get(&words), Some(result));
                    all.insert(words, result);
                }
                assert!(all.len() > 1000 || found > 18_000, "{found} found of {}", all.len());
            }
        }
    }

    #[test]
    fn a_memo_that_is_of_no_use_stays_small() {
        let (mut useless, mut useful) = (Memo::default(), Memo::default());
        for call in 2..1_000_000 {
            useless.insert(&[call, call + 1], call);
            let argument = [call % 63_000, 7];
            if useful.get(&argument).is_none() {
                useful.insert(&argument, call);
            }
        }
        assert!(useless.places <= LARGE, "{}", useless.places);
        assert!(useful.places > 1 << 15, "{}", useful.places);
    }
}
