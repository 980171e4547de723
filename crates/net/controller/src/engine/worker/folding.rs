//! The journal is folded in a thread of its own, while transactions go on.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use nlog_data::Cancel;
use tokio::sync::Notify;
use tracing::{info, warn};
use weft_core::rules::Rules;

use super::Worker;
use crate::engine::EngineError;
use crate::journal::{FoldError, Folded, Journal, Keep, fold, trim};

/// How long a journal that could not be folded is left alone.
const REST: Duration = Duration::from_mins(10);

/// Folds the journal when it is long.
pub(crate) struct Folding {
    keep: Keep,
    /// The fold that is being written.
    thread: Option<Thread>,
    /// Before that, no fold begins.
    not_before: Instant,
    /// A fold is there.
    ready: Arc<Notify>,
}

struct Thread {
    folded: mpsc::Receiver<Result<Folded, FoldError>>,
    cancel: Cancel,
}

/// A fold ends with the worker.
impl Drop for Thread {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

impl Folding {
    pub(crate) fn new(keep: Keep) -> Self {
        Folding { keep, thread: None, not_before: Instant::now(), ready: Arc::default() }
    }

    /// Waits until a fold is there.
    pub(crate) async fn ready(&self) {
        self.ready.notified().await;
    }

    /// Begins a fold if it is time, or goes on in one that is there. Returns whether the journal has another beginning now.
    fn advance(&mut self, journal: &mut Journal, rules: &Arc<Rules>) -> Result<bool, EngineError> {
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
        match folded {
            Some(Ok(folded)) => {
                let begun = Instant::now();
                if !journal.follow(folded)? {
                    self.not_before = Instant::now() + REST;
                    return Ok(false);
                }
                info!(paused = ?begun.elapsed(), "transactions go on");
                let _ = self.in_thread(journal, |folder, keep| {
                    if let Err(error) = trim(&folder, &keep, SystemTime::now()) {
                        warn!(folder = %folder.display(), %error, "old records of the journal cannot be removed");
                    }
                });
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

    fn begin(&mut self, journal: &Journal, rules: &Arc<Rules>) {
        let (sender, folded) = mpsc::channel();
        let (cancel, ready, until) = (Cancel::default(), self.ready.clone(), journal.last_txn());
        let (cancelled, rules) = (cancel.clone(), rules.clone());
        let spawned = self.in_thread(journal, move |folder, _| {
            // The worker may have ended.
            let _ = sender.send(fold(&folder, until, &rules, &cancelled));
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

    fn in_thread(
        &self,
        journal: &Journal,
        work: impl FnOnce(std::path::PathBuf, Keep) + Send + 'static,
    ) -> std::io::Result<thread::JoinHandle<()>> {
        let (folder, keep) = (journal.folder().to_owned(), self.keep);
        thread::Builder::new().name("fold".to_owned()).spawn(move || work(folder, keep))
    }
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
