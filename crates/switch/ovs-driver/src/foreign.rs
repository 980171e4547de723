//! Changes that others made and the driver has not undone yet, and the pace of undoing them.

use std::time::Duration;

use tokio::time::Instant;

use switch_model::{Flow, FlowKey, ForeignChange};

/// A change of a flow that the switch reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Update {
    /// Another client added the flow or changed it to this.
    Is(FlowKey, Flow),
    /// The flow was removed for this reason.
    Gone(FlowKey, Flow, Removal),
    /// The switch could not report every change, so all flows must be read again.
    Missed,
}

/// Why a flow was removed (`OFPRR_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removal {
    Timeout,
    /// A client deleted it.
    Deleted,
    /// A group that it used was deleted.
    GroupDeleted,
    /// A meter that it used was deleted.
    MeterDeleted,
    Other(u8),
}

impl Removal {
    /// The reason with this number.
    pub(crate) fn new(reason: u8) -> Self {
        match reason {
            0 | 1 => Removal::Timeout,
            2 => Removal::Deleted,
            3 => Removal::GroupDeleted,
            4 => Removal::MeterDeleted,
            other => Removal::Other(other),
        }
    }

    /// The reason as text.
    pub(crate) fn describe(self) -> String {
        match self {
            Removal::Timeout => "its timeout expired".to_owned(),
            Removal::Deleted => "deleted by another client".to_owned(),
            Removal::GroupDeleted => "its group was deleted".to_owned(),
            Removal::MeterDeleted => "its meter was deleted".to_owned(),
            Removal::Other(reason) => format!("reason {reason} of OpenFlow"),
        }
    }
}

/// Changes that others made.
#[derive(Debug, Default)]
pub(crate) struct Foreign {
    /// Whether the switch failed to report some changes, or there was no room for them.
    pub(crate) missed: bool,
    /// The number of changes since the last report, and the first few of them.
    count: usize,
    first: Vec<ForeignChange>,
}

/// What the switch has under a key since others changed it.
#[derive(Debug)]
pub(crate) struct Held<V> {
    pub(crate) actual: Option<V>,
    /// The driver changed the same thing at about the same time, so it is uncertain which change came last.
    pub(crate) resend: bool,
}

impl Foreign {
    /// Counts a change for the next report.
    pub(crate) fn found(&mut self, change: ForeignChange) {
        self.count += 1;
        if self.first.len() < ForeignChange::REPORTED_MAX {
            self.first.push(change);
        }
    }

    /// The changes since the last call.
    pub(crate) fn take_found(&mut self) -> Option<(usize, Vec<ForeignChange>)> {
        let (count, first) = (std::mem::take(&mut self.count), std::mem::take(&mut self.first));
        (count > 0).then_some((count, first))
    }
}

/// The times at which changes of others are undone: at once, unless others changed the switch again soon after the
/// last repair. Two controllers that undo each other's changes must not keep the switch busy.
#[derive(Debug)]
pub(crate) struct RepairPace {
    shortest: Duration,
    longest: Duration,
    delay: Duration,
    due: Option<Instant>,
    last: Option<Instant>,
}

impl RepairPace {
    /// Delays lie between these limits.
    pub(crate) fn new(shortest: Duration, longest: Duration) -> Self {
        RepairPace { shortest, longest, delay: Duration::ZERO, due: None, last: None }
    }

    /// Schedules a repair and returns the delay until it is due.
    pub(crate) fn needed(&mut self) -> Duration {
        let now = Instant::now();
        if let Some(due) = self.due {
            return due.saturating_duration_since(now);
        }
        // If nobody else changed the switch for twice the longest delay, the dispute is over.
        let is_dispute = self.last.is_some_and(|last| now.saturating_duration_since(last) < 2 * self.longest);
        self.delay =
            if is_dispute { (2 * self.delay).clamp(self.shortest, self.longest) } else { Duration::ZERO };
        self.due = Some(now + self.delay);
        self.delay
    }

    /// The time of the next repair, if one is needed.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Whether a repair is due now.
    pub(crate) fn is_due(&self) -> bool {
        self.due.is_some_and(|due| due <= Instant::now())
    }

    /// Records that the repair was made.
    pub(crate) fn repaired(&mut self) {
        (self.due, self.last) = (None, Some(Instant::now()));
    }

    /// Cancels the repair, because the whole switch was compared again.
    pub(crate) fn cancel(&mut self) {
        self.due = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn repairs_are_made_at_once_and_ever_later_while_others_undo_them() {
        let (shortest, longest) = (Duration::from_millis(100), Duration::from_secs(1));
        let mut pace = RepairPace::new(shortest, longest);
        let mut delays = Vec::new();
        for _ in 0..7 {
            let delay = pace.needed();
            assert_eq!(pace.needed(), delay, "one delay for all changes until the repair");
            assert_eq!(pace.is_due(), delay.is_zero());
            tokio::time::advance(delay).await;
            assert!(pace.is_due());
            pace.repaired();
            delays.push(delay.as_millis());
        }
        assert_eq!(delays, [0, 100, 200, 400, 800, 1000, 1000]);
        tokio::time::advance(2 * longest).await;
        assert_eq!(pace.needed(), Duration::ZERO);
    }
}
