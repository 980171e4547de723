//! The time, as a value that the caller reads from its clocks.

use std::time::{Instant, SystemTime};

/// The time of a step.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// On the clock that never goes back: what delays and deadlines are measured with.
    pub instant: Instant,
    /// On the clock on the wall: what records and texts say.
    pub wall: SystemTime,
}
