//! Connections that are refused, in the log.

use std::fmt::Display;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::info;
use weft_core::peer::Peer;

/// The time between two lines of the log.
const PAUSE: Duration = Duration::from_secs(1);

/// Logs connections that are refused, since their peers cannot know why: with TLS 1.3, their handshake has succeeded before their
/// certificate is checked. Who is refused all the time does not fill the log.
#[derive(Default)]
pub(crate) struct Refusals(Mutex<Unlogged>);

/// When the last one was logged, and how many came since.
#[derive(Default)]
struct Unlogged {
    last: Option<Instant>,
    count: u64,
}

impl Refusals {
    /// The connection of this peer is refused.
    pub(crate) fn refused(&self, peer: &Peer, why: &dyn Display) {
        let mut unlogged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if unlogged.last.is_some_and(|last| last.elapsed() < PAUSE) {
            unlogged.count += 1;
            return;
        }
        let others = unlogged.count;
        info!(%peer, %why, others, "connection refused");
        *unlogged = Unlogged { last: Some(Instant::now()), count: 0 };
    }
}
