//! Idle time: the running state is compared with its inputs, a part at a time, with a look at the queues after each.

use std::time::{Duration, Instant};

use tracing::{debug, error};

use super::{EngineError, Input, Worker, failed};
use crate::core::{Mended, Scrub};

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
            match self.core.scrub().map_err(failed)? {
                Scrub::More => {}
                Scrub::Whole => {
                    debug!("what the engine has stored follows from its inputs");
                    self.scrub_at = Instant::now() + SCRUB_EVERY;
                }
                Scrub::Mended(mended) => self.mended(mended),
            }
            let waiting = self.waiting();
            if waiting.is_some() {
                self.scrub_at = self.scrub_at.max(Instant::now() + begun.elapsed() * RESTS);
                return Ok(waiting);
            }
        }
        Ok(None)
    }

    /// Switches get the desired states that were derived again.
    fn mended(&mut self, Mended { what, nodes, problems }: Mended) {
        error!(
            what,
            switches = nodes.len(),
            "what the engine had stored did not follow from its inputs; all of it is derived again. Please report this with the log: it \
             is a fault of Weft or of this machine's memory"
        );
        for node in &nodes {
            self.fleet.correct(node, self.core.given(node));
        }
        self.unpublished.nodes.extend(nodes);
        self.follow_problems(&problems);
        self.unpublished.problems.push(problems);
        // Those that are gone, and those that are new.
        self.unpublished.states = self.requests.status.all_states();
        self.unpublished.states.extend(self.core.object_status().all_states());
        self.publish_status();
    }
}
