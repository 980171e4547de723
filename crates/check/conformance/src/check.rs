//! One random history, shrunk if it fails.

use test_random::Random;

use crate::generate::{Size, history};
use crate::run::{Count, Runner};
use crate::{report, shrink};

/// Runs the history of a seed through rules and model.
///
/// # Errors
/// They disagree: returns the smallest history found that fails in the same way, with its failure.
pub fn check(runner: &mut Runner, seed: u64, size: Size) -> Result<Count, String> {
    let whole = history(&mut Random::new(seed), size);
    if let Ok(count) = runner.run(&whole) {
        return Ok(count);
    }
    // Earlier histories may have left state behind, so the failure must also occur in a fresh engine.
    let mut fresh = runner.fresh()?;
    let Err(failure) = fresh.run(&whole) else {
        return Err(format!("seed {seed} fails only after other histories, which left something behind"));
    };
    let (small, failure) = shrink::smallest(&mut fresh, whole, *failure);
    Err(format!("seed {seed}\n{}", report::text(&small, &failure, fresh.simulation())))
}
