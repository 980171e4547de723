//! Many histories, and the first that fails made small.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nlog::Program;
use test_random::Random;

use crate::generate::{Size, history};
use crate::run::{Count, Runner};
use crate::{report, shrink};

/// Runs the histories of these seeds.
///
/// # Errors
/// Of the seeds that fail, the least that was met: what it is, small, and what goes wrong.
pub fn check(program: &Arc<Program>, seeds: Range<u64>, size: Size) -> Result<Count, String> {
    let (next, least) = (AtomicU64::new(seeds.start), AtomicU64::new(u64::MAX));
    let work = || -> Result<Count, String> {
        let mut runner = Runner::new(program.clone())?;
        let mut count = Count::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end || least.load(Ordering::Relaxed) < seed {
                return Ok(count);
            }
            let Ok(one) = runner.run(&history(&mut Random::new(seed), size)) else {
                least.fetch_min(seed, Ordering::Relaxed);
                return Ok(count);
            };
            count += one;
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    let counts: Vec<Result<Count, String>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let ended = workers.into_iter().map(std::thread::ScopedJoinHandle::join);
        ended.map(|ended| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    let mut sum = Count::default();
    for count in counts {
        sum += count?;
    }
    match least.load(Ordering::Relaxed) {
        u64::MAX => Ok(sum),
        seed => Err(explain(program, seed, size)?),
    }
}

/// What goes wrong with a seed, in a history as small as can be found.
///
/// # Errors
/// The rules do not start.
pub fn explain(program: &Arc<Program>, seed: u64, size: Size) -> Result<String, String> {
    let mut runner = Runner::new(program.clone())?;
    let whole = history(&mut Random::new(seed), size);
    let again = format!("seed {seed} (WEFT_TEST_SEED={seed} runs it alone)");
    let Err(failure) = runner.run(&whole) else {
        return Ok(format!("{again} fails only after other histories: something of them is left over"));
    };
    let (small, failure) = shrink::smallest(&mut runner, whole, *failure);
    Ok(format!("{again}\n{}", report::text(&small, &failure, runner.simulation())))
}
