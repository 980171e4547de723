//! Random numbers for tests, the same for a seed on every machine, and the seeds that a random test runs.
//!
//! ```
//! let mut random = test_random::Random::new(7);
//! let again = test_random::Random::new(7).below(1000);
//! assert_eq!(random.below(1000), again);
//! ```
//!
//! A random test is a loop over [`seeds!`]: first the seeds in the crate's `tests/regressions.txt` that once found a fault,
//! then as many new cases as the test usually runs. A test that fails prints the command that replays its seed and the line
//! to add to that file.
//!
//! | environment variable | effect |
//! |---|---|
//! | `WEFT_TEST_SEED=S` | runs the case of seed S alone |
//! | `WEFT_TEST_CASES=N` | runs N new cases, from seed 1 or, with `WEFT_TEST_SEED`, from S |
//! | `WEFT_TEST_QUICK=1` | runs a tenth of the usual cases |
//!
//! In reading order: [`Random`], [`Seeds`]. Left out on purpose: shrinking. Property tests have `proptest`; the tests of
//! programs and networks shrink their own cases.
#![forbid(unsafe_code)]

mod random;
mod regressions;
mod seeds;

pub use random::Random;
pub use seeds::{Running, Seeds, Test, cases};
