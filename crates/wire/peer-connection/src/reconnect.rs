//! The schedule of connection attempts, and the choice of failures to report.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use tokio::time::Instant;

/// The state of a connection that is re-established whenever it fails.
///
/// The delay between attempts doubles from the shortest to the longest. Jitter shortens each delay by up to a half,
/// so that peers that failed together are not dialled together. A connection that lasts as long as the longest delay
/// resets the backoff. A peer that accepts connections and closes them at once does not reset it.
#[derive(Debug)]
pub struct Reconnect {
    backoff: ExponentialBuilder,
    delays: <ExponentialBuilder as BackoffBuilder>::Backoff,
    longest: Duration,
    connected_at: Option<Instant>,
    /// The reason in the last report.
    reported: Option<String>,
}

/// The reaction to a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// The time to wait before the next attempt.
    pub delay: Duration,
    /// Whether to report the failure: a connection was lost, or the reason differs from the last reported one.
    pub report: bool,
}

impl Reconnect {
    /// A backoff with delays between these limits.
    pub fn new(shortest: Duration, longest: Duration) -> Self {
        // backon adds jitter of up to the whole delay. Halving the delays yields delays between a half and the whole.
        let backoff = ExponentialBuilder::new()
            .with_jitter()
            .with_min_delay(shortest.min(longest) / 2)
            .with_max_delay(longest / 2)
            .without_max_times();
        Reconnect { backoff, delays: backoff.build(), longest, connected_at: None, reported: None }
    }

    /// Records that a connection was made.
    pub fn connected(&mut self) {
        self.connected_at = Some(Instant::now());
        self.reported = None;
    }

    /// Records that an attempt failed or a connection was lost.
    pub fn failed(&mut self, why: &str) -> Retry {
        if self.connected_at.take().is_some_and(|at| at.elapsed() >= self.longest) {
            self.delays = self.backoff.build();
        }
        let report = self.reported.as_deref() != Some(why);
        if report {
            self.reported = Some(why.to_owned());
        }
        Retry { delay: self.delays.next().unwrap_or(self.longest), report }
    }
}
