//! What the engine thread is doing, for readers that do not wait for it.

use std::fmt;
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
pub(crate) struct Look {
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

    /// Where the thread is in its work; `None` if it rests.
    pub(crate) fn look(&self) -> Option<Look> {
        let (_, since) = self.now().clone()?;
        let (rule, rows) = self.0.progress.read();
        Some(Look { since, rule, rows })
    }

    /// Logs each work that takes very long, once. Never ends.
    pub(crate) async fn watch(self, rule: impl Fn(u64) -> String) {
        let mut told = None;
        loop {
            tokio::time::sleep(STALLED / 4).await;
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
