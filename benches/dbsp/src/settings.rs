//! The two ways in which dbsp is run.
//!
//! `default` is `CircuitConfig::default()`: one worker, a thread beside it that merges batches, everything in memory, and
//! steps that pass on at most 10,000 rows at a time (microsteps).
//!
//! `best` passes on all rows of a transaction in one step (`StepSize::FullSteps`). Microsteps bound the memory between
//! operators, but each leaves a batch of at most 10,000 rows in every trace, which the thread beside the worker then merges.
//! In one step, the load leaves one batch. Its time was 0.82 of that by default, its processor time half; moves took the
//! same time.
//!
//! All else stays as it is by default, since nothing else was better (nvp-eval, medians of three runs each; a load, a move):
//!
//! - Storage: there is none by default, so batches are never written and buffer caches, Bloom filters and file sizes have no
//!   part.
//! - `splitter_chunk_size_records`, with microsteps: 1,000 and 3,000 rows took 1.4 and 1.2 times the load; 30,000 and
//!   100,000 0.95 to 1.02; 1,000,000 0.89; with 100,000,000, moves took 1.2 times as long.
//! - `max_level0_batch_size_records`: 3,000 made no difference; with 65,000, the slowest moves took longer, 1.2 to 1.5 times.
//! - `merger_threads` of 2: loads took 1.2 times as long. `merger` (`PushMerger`): 1.1 times.
//! - `negative_weight_multiplier` and `allow_input_during_commit`: no difference.
//! - `streaming_exchange`, `adaptive_joins` and the settings of the balancer: they are about several workers.
//!
//! Also slower, in either way: `hash_distinct` in place of `distinct` (loads 1.3 times, moves 1.2 times).

use anyhow::{Result, bail};
use dbsp::circuit::{CircuitConfig, StepSize};

/// The settings of this name.
pub(crate) fn of(name: &str) -> Result<CircuitConfig> {
    match name {
        "default" => Ok(CircuitConfig::default()),
        "best" => Ok(CircuitConfig::with_workers(1).with_step_size(StepSize::FullSteps)),
        _ => bail!("there are no settings `{name}`, only default and best"),
    }
}
