//! What the engine thread is doing, for readers that do not wait for it.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nlog_data::Progress;
use tracing::warn;

/// From this time on, a thread that has not turned is reported.
pub(crate) const STALLED: Duration = Duration::from_secs(10);

/// What the engine thread is doing. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Activity(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    now: Mutex<Option<(Work, Instant)>>,
    progress: Progress,
    pulse: Mutex<Pulse>,
    /// Whether the disk has refused the last write of the journal.
    is_refused: AtomicBool,
}

/// A piece of work of the engine thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Work {
    /// A transaction of somebody.
    Transaction(String),
    /// What the switch of a transport node says.
    Switch(String),
    /// The records of a group are written to disk.
    Journal,
    /// A group goes to switches and clients.
    Effects,
    /// Nothing waits.
    Maintenance,
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Work::Transaction(by) => write!(f, "a transaction by {by}"),
            Work::Switch(node) => write!(f, "a message of the switch of {node}"),
            Work::Journal => f.write_str("a write of the journal"),
            Work::Effects => f.write_str("telling switches and clients"),
            Work::Maintenance => f.write_str("maintenance"),
        }
    }
}

/// The work of the engine thread at some moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Busy {
    /// What it is.
    pub with: String,
    /// Since when.
    pub time: Duration,
    /// The fingerprint of the rule that runs, if the work is a transaction that has come to one.
    pub rule: Option<u64>,
    /// The rows that its rules have derived so far.
    pub rows: u64,
}

/// Where the engine thread is in its work: two equal looks find it at the same point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Look {
    since: Instant,
    rule: Option<u64>,
    rows: u64,
}

impl Activity {
    /// Other work begins.
    pub(crate) fn begin(&self, work: Work) {
        self.0.progress.begin();
        *self.now() = Some((work, Instant::now()));
    }

    /// The thread waits for work.
    pub(crate) fn rest(&self) {
        *self.now() = None;
    }

    /// Whether the disk has taken the last write of the journal.
    pub(crate) fn written(&self, is_written: bool) {
        self.0.is_refused.store(!is_written, Ordering::Relaxed);
    }

    /// Whether the disk has refused it, so that changes are refused.
    pub(crate) fn is_refused(&self) -> bool {
        self.0.is_refused.load(Ordering::Relaxed)
    }

    /// What transactions tell their progress.
    pub(crate) fn progress(&self) -> &Progress {
        &self.0.progress
    }

    /// The work at this moment.
    pub(crate) fn read(&self) -> Option<Busy> {
        let (work, since) = self.now().clone()?;
        let (rule, rows) = self.0.progress.read();
        Some(Busy { with: work.to_string(), time: since.elapsed(), rule, rows })
    }

    /// For how long the thread has been at one point of its work, as far as somebody has looked; `None` if it has gone on since the last
    /// look, or rests.
    pub(crate) fn stuck(&self, now: Instant) -> Option<Duration> {
        let look = self.look();
        self.0.pulse.lock().unwrap_or_else(PoisonError::into_inner).stuck(look, now)
    }

    /// Where the thread is in its work; `None` if it rests.
    fn look(&self) -> Option<Look> {
        let (_, since) = self.now().clone()?;
        let (rule, rows) = self.0.progress.read();
        Some(Look { since, rule, rows })
    }

    /// Logs each work that takes very long, once. Never ends.
    pub(crate) async fn watch(self, rule: impl Fn(u64) -> String) {
        let mut told = None;
        loop {
            tokio::time::sleep(STALLED / 4).await;
            // So that whoever asks learns of the time before.
            self.stuck(Instant::now());
            let now = self.now().clone();
            let Some((work, since)) = now else { continue };
            if since.elapsed() < STALLED || told == Some(since) {
                continue;
            }
            told = Some(since);
            let (fingerprint, rows) = self.0.progress.read();
            let rule = fingerprint.map(&rule).unwrap_or_default();
            warn!(rule, rows, "the engine has not turned for {:?}: it is busy with {work}", since.elapsed());
        }
    }

    fn now(&self) -> MutexGuard<'_, Option<(Work, Instant)>> {
        // Nothing panics while it is locked.
        self.0.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What was last seen of the engine thread, and since when it is the same.
#[derive(Debug, Default)]
struct Pulse(Option<(Look, Instant)>);

impl Pulse {
    /// For how long the thread has been at one point of its work; `None` if it has gone on since the last look, or rests.
    fn stuck(&mut self, look: Option<Look>, now: Instant) -> Option<Duration> {
        let since = self.0.filter(|(last, _)| Some(*last) == look).map(|(_, since)| since);
        self.0 = look.map(|look| (look, since.unwrap_or(now)));
        Some(now.saturating_duration_since(since?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_counts_rows_or_takes_up_other_work_is_alive() {
        let (activity, begun) = (Activity::default(), Instant::now());
        let stuck = |activity: &Activity, seconds| {
            activity.stuck(begun + Duration::from_secs(seconds)).map(|time| time.as_secs())
        };
        assert_eq!([stuck(&activity, 0), stuck(&activity, 50)], [None; 2], "it rests");
        activity.begin(Work::Journal);
        assert_eq!(stuck(&activity, 60), None);
        assert_eq!([stuck(&activity, 70), stuck(&activity, 90)], [Some(10), Some(30)]);
        activity.begin(Work::Transaction("alice".to_owned()));
        assert_eq!(stuck(&activity, 100), None);
        activity.progress().add_rows(7);
        assert_eq!(stuck(&activity, 200), None, "a long derivation counts rows");
        assert_eq!(stuck(&activity, 210), Some(10));
        activity.rest();
        assert_eq!(stuck(&activity, 220), None);
    }
}
