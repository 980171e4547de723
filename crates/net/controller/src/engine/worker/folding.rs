//! The journal is folded in a thread of its own, while transactions go on.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use nlog_data::Cancel;
use tokio::sync::Notify;
use tracing::{info, warn};
use weft_core::rules::Rules;

use super::Worker;
use crate::engine::EngineError;
use crate::journal::{FoldError, Keep, Store};
use crate::metrics::Metrics;

/// How long a journal that could not be folded is left alone.
const REST: Duration = Duration::from_mins(10);

/// Folds the journal when it is long.
pub(crate) struct Folding<S: Store> {
    keep: Keep,
    /// The fold that is being written.
    thread: Option<Thread<S::Snapshot>>,
    /// Before that, no fold begins.
    not_before: Instant,
    /// A fold is there.
    ready: Arc<Notify>,
    metrics: Metrics,
}

struct Thread<T> {
    folded: mpsc::Receiver<Result<T, FoldError>>,
    cancel: Cancel,
}

/// A fold ends with the worker.
impl<T> Drop for Thread<T> {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

impl<S: Store> Folding<S> {
    pub(crate) fn new(keep: Keep, metrics: Metrics) -> Self {
        Folding { keep, thread: None, not_before: Instant::now(), ready: Arc::default(), metrics }
    }

    /// Keeps records in this way from now on.
    pub(super) fn keep(&mut self, keep: Keep) {
        self.keep = keep;
    }

    /// Waits until a fold is there.
    pub(crate) async fn ready(&self) {
        self.ready.notified().await;
    }

    /// Begins a fold if it is time, or goes on in one that is there. Returns whether the journal has another beginning now.
    fn advance(&mut self, journal: &mut S, rules: &Arc<Rules>) -> Result<bool, EngineError> {
        let Some(thread) = &self.thread else {
            if journal.is_long(&self.keep) && Instant::now() >= self.not_before {
                self.begin(journal, rules);
            }
            return Ok(false);
        };
        let folded = match thread.folded.try_recv() {
            Err(mpsc::TryRecvError::Empty) => return Ok(false),
            Err(mpsc::TryRecvError::Disconnected) => None,
            Ok(folded) => Some(folded),
        };
        self.thread = None;
        self.metrics.folded(matches!(folded, Some(Ok(_))));
        match folded {
            Some(Ok(folded)) => {
                let begun = Instant::now();
                if !journal.begin_with(folded)? {
                    self.not_before = Instant::now() + REST;
                    return Ok(false);
                }
                info!(paused = ?begun.elapsed(), "transactions go on");
                // The next fold trims it too.
                let _ = in_thread(journal.trim(self.keep));
                return Ok(true);
            }
            Some(Err(error)) => {
                self.not_before = Instant::now() + REST;
                warn!(%error, "the journal cannot be folded, so it grows; the next attempt is in ten minutes");
            }
            None => self.not_before = Instant::now() + REST,
        }
        Ok(false)
    }

    fn begin(&mut self, journal: &S, rules: &Arc<Rules>) {
        let (sender, folded) = mpsc::channel();
        let (cancel, ready) = (Cancel::default(), self.ready.clone());
        let snapshot = journal.snapshot(rules.clone(), cancel.clone());
        let spawned = in_thread(move || {
            // The worker may have ended.
            let _ = sender.send(snapshot());
            ready.notify_one();
        });
        match spawned {
            Ok(_) => self.thread = Some(Thread { folded, cancel }),
            Err(error) => {
                self.not_before = Instant::now() + REST;
                warn!(%error, "cannot start the thread that folds the journal");
            }
        }
    }
}

fn in_thread(work: impl FnOnce() + Send + 'static) -> std::io::Result<thread::JoinHandle<()>> {
    thread::Builder::new().name("fold".to_owned()).spawn(work)
}

impl Worker {
    /// Folds the journal if it is time.
    pub(super) fn fold(&mut self) -> Result<(), EngineError> {
        if self.folding.advance(&mut self.journal, self.machine.core().rules())? {
            self.saving.outdated();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
