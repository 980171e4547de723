//! Random numbers for tests: the same for a seed on every machine, and one way to say which seeds are run.
//!
//! ```
//! let mut random = test_random::Random::new(7);
//! let again = test_random::Random::new(7).below(1000);
//! assert_eq!(random.below(1000), again);
//! ```
//!
//! Left out on purpose: everything that no test needs. Tests of properties that shrink what fails have `proptest`.
#![forbid(unsafe_code)]

use std::ops::Range;

/// A small generator of numbers, the same on every machine (`SplitMix64`: Steele, Lea and Flood, OOPSLA 2014).
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The generator of this seed.
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d))
    }

    /// A number below this limit, which is not 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    /// True so many times in a hundred.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of them; there is one.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }

    /// Puts them into any order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at as u64 + 1) as usize);
        }
    }
}

/// The seeds to run: so many from 1 on; with `NLOG_CASES=n` in the environment n of them; with `NLOG_SEED=s` s alone.
pub fn seeds(usually: u64) -> Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match (number("NLOG_SEED"), number("NLOG_CASES")) {
        (Some(seed), _) => seed..seed + 1,
        (None, cases) => 1..1 + cases.unwrap_or(usually),
    }
}
