//! When changes that a switch refused are sent again.

use std::time::Duration;

use tokio::time::Instant;

/// The pace of sending refused changes again: soon at first, since a switch often refuses what it takes a moment later, such as a flow to a port
/// that is being numbered anew; then ever later, since some it never takes.
#[derive(Debug)]
pub(crate) struct RefusalPace {
    shortest: Duration,
    longest: Duration,
    delay: Duration,
    due: Option<Instant>,
    refused: usize,
}

impl RefusalPace {
    /// Delays lie between these limits.
    pub(crate) fn new(shortest: Duration, longest: Duration) -> Self {
        RefusalPace { shortest, longest, delay: shortest, due: None, refused: 0 }
    }

    /// The number of changes that the switch refuses now.
    pub(crate) fn are_refused(&mut self, refused: usize) {
        if refused > self.refused || refused == 0 {
            (self.delay, self.due) = (self.shortest, None);
        }
        self.refused = refused;
        if refused > 0 {
            self.due.get_or_insert_with(|| Instant::now() + self.delay);
        }
    }

    /// The time at which they are sent again, if there are any.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Whether they are sent again now. If so, the next time comes after twice the delay.
    pub(crate) fn begins(&mut self) -> bool {
        let is_due = self.due.is_some_and(|due| due <= Instant::now());
        if is_due {
            (self.delay, self.due) = ((2 * self.delay).min(self.longest), None);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn refused_changes_are_sent_again_ever_later_and_soon_after_a_new_one() {
        let mut pace = RefusalPace::new(SECOND, 5 * SECOND);
        pace.are_refused(0);
        assert_eq!(pace.due(), None);
        for (refused, delay) in [(3, 1), (3, 2), (2, 4), (2, 5), (2, 5), (3, 1), (3, 2)] {
            pace.are_refused(refused);
            assert_eq!(pace.due(), Some(Instant::now() + delay * SECOND));
            assert!(!pace.begins());
            tokio::time::advance(delay * SECOND).await;
            pace.are_refused(refused);
            assert!(pace.begins() && !pace.begins());
        }
        pace.are_refused(0);
        assert_eq!(pace.due(), None);
        pace.are_refused(1);
        assert_eq!(pace.due(), Some(Instant::now() + SECOND));
    }
}
