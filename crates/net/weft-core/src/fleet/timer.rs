//! What is waited for only so long.

use std::collections::BTreeSet;

use super::DriverId;
use crate::levels::Moment;

/// What has come to its end when the time is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timeout {
    /// A draining switch has to be clean.
    Drain(DriverId),
    /// So many parts of a transaction's switches have to have confirmed it.
    Hold { txn: u64, begun: u32 },
}

/// The times when something is over. Those of what has ended earlier pass without an effect.
#[derive(Debug, Default)]
pub(super) struct Timers(BTreeSet<(Moment, Timeout)>);

impl Timers {
    pub(super) fn set(&mut self, at: Moment, timeout: Timeout) {
        self.0.insert((at, timeout));
    }

    pub(super) fn next(&self) -> Option<Moment> {
        self.0.first().map(|(at, _)| *at)
    }

    /// Takes those that are over.
    pub(super) fn due(&mut self, now: Moment) -> Vec<Timeout> {
        let mut due = Vec::new();
        while self.next().is_some_and(|next| next <= now) {
            due.extend(self.0.pop_first().map(|(_, timeout)| timeout));
        }
        due
    }
}
