//! The rows of the engine are saved beside the journal, for a start that need not derive them: at the end, and in idle time.
//!
//! In idle time, an input that comes interrupts that, and it begins again later. So no transaction waits for longer than the engine takes to
//! write a part.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tracing::{debug, info, warn};
use weft_core::machine::Machine;

use super::{Input, Worker};
use crate::drivers::Running;
use crate::journal::{Journal, Store};

/// The most time from a start that derived its rows, or a fold of the journal, to the first attempt.
const SOON: Duration = Duration::from_mins(1);
/// The time between two files, each of which is as large as all rows together. A start from an old file runs what has changed since.
const EVERY: Duration = Duration::from_hours(1);
/// An attempt that an input interrupts rests so many times as long as it took, and at least so long.
const RESTS: u32 = 9;
const REST: Duration = Duration::from_secs(1);
/// Nor does an attempt last longer than that, because what is due by time alone waits for it.
const LONGEST: Duration = Duration::from_secs(10);

/// When rows are saved.
pub(crate) struct Saving {
    /// The transaction of the rows that were saved last; 0 if none were.
    txn: u64,
    /// Before that, they are not saved in idle time; `None` if this engine cannot.
    not_before: Option<Instant>,
    /// Writes the last file.
    thread: Option<JoinHandle<()>>,
}

/// What became of an attempt.
pub(crate) enum Attempt {
    Saved,
    Interrupted,
    /// The disk does not take the file.
    Failed,
    /// The engine does not give its rows.
    Impossible,
}

impl Saving {
    /// After a start from saved rows of this transaction; 0 if all rows were derived.
    pub(crate) fn new(txn: u64) -> Self {
        let rest = if txn == 0 { SOON } else { EVERY };
        Saving { txn, not_before: Some(Instant::now() + rest), thread: None }
    }

    /// When idle time is to be used; `None` if there is nothing to save.
    pub(crate) fn due(&self, journal: &Journal) -> Option<Instant> {
        self.not_before.filter(|_| self.txn != journal.last_txn())
    }

    /// The journal does not reach back to what is saved any more.
    pub(crate) fn outdated(&mut self) {
        self.txn = 0;
        self.not_before = self.not_before.map(|at| at.min(Instant::now() + SOON));
    }

    /// Saves the rows of a machine whose transactions are all in the journal.
    pub(crate) fn save(
        &mut self,
        machine: &mut Machine,
        journal: &Journal,
        interrupted: &dyn Fn() -> bool,
    ) -> Attempt {
        if self.thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return Attempt::Interrupted;
        }
        let core = machine.core();
        let (rules, memories) = (core.rules().clone(), core.memories());
        let mut writing = match journal.save_rows(&rules, memories) {
            Ok(writing) => writing,
            Err(error) => {
                warn!(%error, "cannot start the thread that saves the rows of the engine");
                return Attempt::Failed;
            }
        };
        let saved = machine.save_rows(&mut writing.writer(interrupted));
        let is_broken = writing.is_broken;
        self.thread = Some(if saved.is_ok() { writing.finish() } else { writing.cancel() });
        match saved {
            Ok(()) => {
                self.txn = journal.last_txn();
                Attempt::Saved
            }
            Err(_) if is_broken => Attempt::Failed,
            Err(_) if interrupted() => Attempt::Interrupted,
            Err(why) => {
                info!(why, "the rows of the engine are not saved, so each start derives them");
                Attempt::Impossible
            }
        }
    }

    /// Waits until the file that was begun last is on disk.
    pub(crate) fn wait(&mut self) {
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            warn!("the thread that saves the rows of the engine has panicked");
        }
    }
}

impl Worker {
    /// Saves the rows if it is time. Returns an input that has come meanwhile.
    pub(super) fn save(&mut self) -> Option<Input> {
        let begun = Instant::now();
        self.saving.due(&self.journal).filter(|at| *at <= begun)?;
        let Worker { machine, journal, saving, requests, news, .. } = self;
        let interrupted = || {
            *requests.stop.borrow()
                || !(requests.changes.is_empty() && requests.queries.is_empty() && news.is_empty())
                || begun.elapsed() > LONGEST
        };
        let rest = match saving.save(machine, journal, &interrupted) {
            Attempt::Saved | Attempt::Failed => Some(EVERY),
            Attempt::Interrupted => {
                debug!(after = ?begun.elapsed(), "the rows of the engine are not saved in this idle time");
                Some((begun.elapsed() * RESTS).max(REST))
            }
            Attempt::Impossible => None,
        };
        saving.not_before = rest.map(|rest| Instant::now() + rest);
        self.waiting()
    }
}

/// What is left of a worker that has ended in order.
pub(crate) struct Ended {
    pub(super) machine: Machine,
    pub(super) journal: Journal,
    pub(super) saving: Saving,
    pub(super) drivers: Running,
}

impl Ended {
    /// Ends the drivers, which takes seconds in a large network, and saves the rows for the next start, unless they are saved already.
    /// Returns what is left, which takes seconds to free, too.
    pub(crate) fn save(mut self) -> Machine {
        drop(self.drivers);
        self.saving.wait();
        if self.saving.due(&self.journal).is_some() {
            self.saving.save(&mut self.machine, &self.journal, &|| false);
            self.saving.wait();
        }
        self.machine
    }
}
