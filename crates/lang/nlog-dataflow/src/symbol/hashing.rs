//! The hashers of the engine's hash tables.

use std::hash::BuildHasher;

/// Builds hashers with a seed.
///
/// Results never depend on a hash, but the numbers of symbols do, and so does the order of the work. Debug builds have a
/// fixed seed, so that a failing test of an engine with one worker replays exactly. Release builds have a random one,
/// because values come from outside. A restored engine has the seed with which it was saved.
#[derive(Debug, Clone)]
pub(crate) struct HashBuilder {
    seed: u64,
    #[cfg(not(debug_assertions))]
    state: foldhash::fast::SeedableRandomState,
}

impl HashBuilder {
    pub(super) fn of_seed(seed: u64) -> Self {
        HashBuilder {
            seed,
            #[cfg(not(debug_assertions))]
            state: foldhash::fast::SeedableRandomState::with_seed(seed, foldhash::SharedSeed::global_fixed()),
        }
    }

    pub(super) fn seed(&self) -> u64 {
        self.seed
    }
}

impl Default for HashBuilder {
    fn default() -> Self {
        let random = || std::hash::RandomState::new().hash_one(0);
        HashBuilder::of_seed(if cfg!(debug_assertions) { 0 } else { random() })
    }
}

impl BuildHasher for HashBuilder {
    #[cfg(debug_assertions)]
    type Hasher = std::hash::DefaultHasher;
    #[cfg(not(debug_assertions))]
    type Hasher = foldhash::fast::FoldHasher<'static>;

    #[inline]
    fn build_hasher(&self) -> Self::Hasher {
        #[cfg(debug_assertions)]
        return std::hash::DefaultHasher::new();
        #[cfg(not(debug_assertions))]
        return self.state.build_hasher();
    }
}
