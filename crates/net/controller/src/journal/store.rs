//! What a controller needs of the place that keeps its records. A [`Journal`] keeps them in a folder.
//!
//! Another place, such as etcd, would hold the same: the record that stands for all before it, and those that have come since. It would keep
//! a snapshot as a file of its own, because one request of etcd takes 1.5 MiB. What a controller keeps beside its records is not part of it
//! and stays in the state folder: saved rows, receipts, prepared rules. So do the readers that look at one file from its end.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use nlog_data::Cancel;
use serde::Serialize;
use tracing::warn;
use weft_core::record::Record;
use weft_core::rules::Rules;

use super::fold::{self, Folded};
use super::{FoldError, Journal, JournalError, Keep, Records, io_error};

/// Keeps the records of one controller, in order.
pub trait Store {
    /// What stands for the first records: made in a thread beside the appends, and then taken by [`Store::begin_with`].
    type Snapshot: Send + 'static;

    /// Appends records as one group, and returns when no crash can lose them.
    ///
    /// # Errors
    /// [`JournalError::Unwritten`]: nothing was appended, and the store can be used. After any other error it must not be used any more.
    fn append<'a, R, O>(
        &mut self,
        records: impl IntoIterator<Item = &'a Record<R, O>>,
    ) -> Result<(), JournalError>
    where
        R: Serialize + 'a,
        O: Serialize + 'a;

    /// The number of the last record; 0 if there is none.
    fn last_txn(&self) -> u64;

    /// The records after a transaction, up to the last one. If they are not kept as far back, the first one stands for all up to it.
    ///
    /// # Errors
    /// The records cannot be read. Each record may also be such an error, after which there are no more.
    fn read_from(
        &self,
        after: u64,
    ) -> Result<impl Iterator<Item = Result<Record, JournalError>>, JournalError>;

    /// Whether it is time for a snapshot.
    fn is_long(&self, keep: &Keep) -> bool;

    /// The work that makes a snapshot of all records up to the last one: for another thread, while more are appended.
    fn snapshot(
        &self,
        rules: Arc<Rules>,
        cancel: Cancel,
    ) -> impl FnOnce() -> Result<Self::Snapshot, FoldError> + Send + 'static;

    /// Goes on with a snapshot in place of the records that it stands for, which can go from now on. Returns whether it does.
    ///
    /// # Errors
    /// As of [`Store::append`]: it must not be used any more.
    fn begin_with(&mut self, snapshot: Self::Snapshot) -> Result<bool, JournalError>;

    /// The work that removes the oldest records beyond these limits among those that a snapshot stands for: for another thread.
    fn trim(&self, keep: Keep) -> impl FnOnce() + Send + 'static;
}

impl Store for Journal {
    type Snapshot = Folded;

    fn append<'a, R, O>(
        &mut self,
        records: impl IntoIterator<Item = &'a Record<R, O>>,
    ) -> Result<(), JournalError>
    where
        R: Serialize + 'a,
        O: Serialize + 'a,
    {
        Journal::append(self, records).map(drop)
    }

    fn last_txn(&self) -> u64 {
        self.end.txn
    }

    fn read_from(
        &self,
        after: u64,
    ) -> Result<impl Iterator<Item = Result<Record, JournalError>>, JournalError> {
        let folder = self.folder();
        let segments = fold::segments(folder).map_err(io_error(folder, "cannot list the journal's files"))?;
        let mut files: Vec<(u64, PathBuf)> =
            segments.into_iter().map(|segment| (segment.first, segment.path)).collect();
        files.push((self.begin.txn, self.path.clone()));
        let oldest = files.iter().rposition(|(first, _)| *first <= after).unwrap_or(0);
        let files = files.split_off(oldest).into_iter().map(|(_, path)| path);
        Ok(Reading { files, records: None, last: after, until: self.end.txn })
    }

    fn is_long(&self, keep: &Keep) -> bool {
        self.end.bytes - self.begin.bytes > keep.segment.max(self.begin.bytes)
    }

    fn snapshot(
        &self,
        rules: Arc<Rules>,
        cancel: Cancel,
    ) -> impl FnOnce() -> Result<Folded, FoldError> + Send + 'static {
        let (folder, until) = (self.folder().to_owned(), self.end.txn);
        move || fold::fold(&folder, until, &rules, &cancel)
    }

    fn begin_with(&mut self, snapshot: Folded) -> Result<bool, JournalError> {
        self.follow(snapshot)
    }

    fn trim(&self, keep: Keep) -> impl FnOnce() + Send + 'static {
        let folder = self.folder().to_owned();
        move || {
            if let Err(error) = fold::trim(&folder, &keep, SystemTime::now()) {
                warn!(folder = %folder.display(), %error, "old records of the journal cannot be removed");
            }
        }
    }
}

/// The records of some files, of which each begins with what the one before it has.
struct Reading<F> {
    files: F,
    /// Those of the present file.
    records: Option<Records>,
    last: u64,
    until: u64,
}

impl<F: Iterator<Item = PathBuf>> Reading<F> {
    fn record(&mut self) -> Result<Option<Record>, JournalError> {
        while self.last < self.until {
            let Some(records) = &mut self.records else {
                let Some(file) = self.files.next() else { return Ok(None) };
                self.records = Some(Records::open(&file)?);
                continue;
            };
            match records.next().transpose()? {
                Some(record) if record.txn > self.last => {
                    self.last = record.txn;
                    return Ok(Some(record));
                }
                Some(_) => {}
                None => self.records = None,
            }
        }
        Ok(None)
    }
}

impl<F: Iterator<Item = PathBuf>> Iterator for Reading<F> {
    type Item = Result<Record, JournalError>;

    fn next(&mut self) -> Option<Self::Item> {
        let record = self.record();
        if record.is_err() {
            self.last = self.until;
        }
        record.transpose()
    }
}

#[cfg(test)]
pub(crate) mod memory;
#[cfg(test)]
mod tests;
