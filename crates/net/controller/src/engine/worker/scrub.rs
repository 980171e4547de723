//! Idle time: the running state is compared with its inputs, a part at a time, with a look at the queues after each.

use std::time::{Duration, Instant};

use tracing::debug;

use weft_core::machine::Effect;

use super::{EngineError, Input, Work, Worker, now};

/// The time from the end of one comparison to the begin of the next. A comparison takes about as long as a start.
pub(crate) const SCRUB_EVERY: Duration = Duration::from_hours(1);
/// A comparison that an input interrupts rests so many times as long as it has run. A transaction makes it compare a relation anew, so on a controller
/// that is never idle for long it would take all idle time and come to no end.
const RESTS: u32 = 9;

impl Worker {
    /// Compares until all is compared or an input waits, which it returns.
    pub(super) fn scrub(&mut self) -> Result<Option<Input>, EngineError> {
        let begun = Instant::now();
        while self.scrub_at <= Instant::now() && !self.is_stopped() {
            // Each part is progress.
            self.requests.activity.begin(Work::Maintenance);
            let (is_whole, orders) = self.machine.scrub(now())?;
            self.carry_out(orders.into_iter().map(Effect::Order).collect())?;
            if is_whole {
                debug!("what the engine has stored follows from its inputs");
                self.scrub_at = Instant::now() + SCRUB_EVERY;
            }
            let waiting = self.waiting();
            if waiting.is_some() {
                self.scrub_at = self.scrub_at.max(Instant::now() + begun.elapsed() * RESTS);
                return Ok(waiting);
            }
        }
        Ok(None)
    }
}
