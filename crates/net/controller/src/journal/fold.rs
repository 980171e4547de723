//! Folds: a journal that begins with one record for all that came before, so that it does not grow for ever.
//!
//! A thread beside the engine reads the journal up to a transaction, adds it up, and writes the beginning of another file: a record with a
//! [`Base`](weft_core::record::Base), then copies of the records that have come since. [`Journal::follow`] copies the last few and puts the file
//! in the journal's place. The former file stays in the folder as a *segment*, by the number of its first record, until [`trim`] lets it go.
//! No moment leaves the folder without a whole journal: the segment is a second name of the former file, and a rename replaces the first.
//!
//! The first line of a folded journal is sealed like the first of any. The second follows the record that the first one stands for, as it
//! did in the former file, so records are copied as they are.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nlog_data::Cancel;
use tracing::{info, warn};
use weft_core::core::{History, RestoreError};
use weft_core::record::Record;
use weft_core::rules::Rules;

use super::acknowledged::{self, Acknowledged, Known};
use super::seal::seal;
use super::{Begin, FILE, Journal, JournalError, Records, files, io_error};

/// The file that is to take the journal's place.
const NEXT: &str = "journal.next";
/// The name of a segment, around the number of its first record.
const SEGMENT: (&str, &str) = ("journal-", ".jsonl");
/// What may be left for the engine's thread to copy, in bytes.
const REST: u64 = 64 << 10;

/// How long a controller keeps its records, and when it folds them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// The journal is folded once its records since the last fold have so many bytes, and as many as the fold itself.
    pub segment: u64,
    /// The most bytes of all segments together.
    pub bytes: u64,
    /// The age at which a segment goes, counted from its last record.
    pub age: Duration,
}

/// Why a journal cannot be folded.
#[derive(Debug, thiserror::Error)]
pub enum FoldError {
    /// It cannot be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Its records do not add up.
    #[error("{}: {source}", path.display())]
    Restore {
        /// The journal.
        path: PathBuf,
        /// Why.
        source: RestoreError,
    },
    /// It has no record.
    #[error("{}: nothing has been recorded yet", path.display())]
    Empty {
        /// The journal.
        path: PathBuf,
    },
    /// Nobody wants it any more.
    #[error("nobody waits for it any more")]
    Cancelled,
}

/// A file that can take the journal's place.
#[derive(Debug)]
pub struct Folded {
    path: PathBuf,
    file: File,
    begin: Begin,
    /// Its size, in bytes.
    len: u64,
    /// How much of the former file it stands for.
    copied: u64,
}

/// The record that stands for all records of a journal up to a transaction, or to the last acknowledged one when it was opened.
pub(crate) fn base(
    records: &mut Records,
    until: Option<u64>,
    rules: &Rules,
    cancel: &Cancel,
) -> Result<Record, FoldError> {
    let path = records.path().to_owned();
    let until = until.or_else(|| records.known().map(|known| known.txn)).unwrap_or(u64::MAX);
    let mut history = History::new(rules);
    let mut last_at = None;
    while records.end().txn < until {
        if cancel.is_cancelled() {
            return Err(FoldError::Cancelled);
        }
        let Some(record) = records.next().transpose()? else { break };
        let added = history.add(&record);
        added.map_err(|source| FoldError::Restore { path: path.clone(), source })?;
        last_at = Some(record.at);
    }
    let Some((at, journal)) = last_at.zip(records.identity()) else {
        return Err(FoldError::Empty { path });
    };
    Ok(history.into_base(journal.clone(), records.end().sum, at, rules.text()))
}

/// A base as a line, with its line feed.
pub(crate) fn line(base: &Record) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(base)?;
    seal(&mut line, 0, base.txn, 0);
    line.push(b'\n');
    Ok(line)
}

/// Adds up the journal in a folder, and writes the file that can take its place.
pub(crate) fn fold(folder: &Path, until: u64, rules: &Rules, cancel: &Cancel) -> Result<Folded, FoldError> {
    let path = folder.join(NEXT);
    let failed = |source| JournalError::Io { path: path.clone(), what: "cannot write", source };
    let former = folder.join(FILE);
    let Some(mut records) = Records::read(folder)? else { return Err(FoldError::Empty { path: former }) };
    let base = base(&mut records, Some(until), rules, cancel)?;
    let copied = records.end().bytes;
    let line = line(&base).map_err(failed)?;
    let mut options = OpenOptions::new();
    let options = options.read(true).append(true).create(true).truncate(false).mode(files::MODE);
    forget(folder)?;
    let mut file = options.open(&path).map_err(failed)?;
    file.write_all(&line).and_then(|()| file.sync_all()).map_err(failed)?;
    let len = line.len() as u64;
    let mut folded =
        Folded { path: path.clone(), file, begin: Begin { txn: base.txn, bytes: len }, len, copied };
    let mut from = File::open(&former).map_err(io_error(&former, "cannot open the journal"))?;
    loop {
        // What is beyond may be cut off again.
        let Known::UpTo(end) = acknowledged::read(folder)? else { return Ok(folded) };
        let copied = folded.copy(&mut from, end.bytes).map_err(failed)?;
        folded.file.sync_data().map_err(failed)?;
        if copied <= REST {
            return Ok(folded);
        }
        if cancel.is_cancelled() {
            return Err(FoldError::Cancelled);
        }
    }
}

/// Removes what an earlier attempt has left.
pub(super) fn forget(folder: &Path) -> Result<(), JournalError> {
    let path = folder.join(NEXT);
    files::remove(&path).map_err(io_error(&path, "cannot remove it"))
}

impl Folded {
    /// Copies what the former file has more, up to its byte `end`. Returns how much that was.
    fn copy(&mut self, from: &mut File, end: u64) -> io::Result<u64> {
        from.seek(SeekFrom::Start(self.copied))?;
        let copied = io::copy(&mut from.take(end.saturating_sub(self.copied)), &mut self.file)?;
        self.copied += copied;
        self.len += copied;
        Ok(copied)
    }
}

impl Journal {
    /// The folder.
    pub(crate) fn folder(&self) -> &Path {
        files::folder_of(&self.path)
    }

    /// Goes on in a file that stands for the first part of this one, which stays as a segment. Returns whether it does.
    ///
    /// # Errors
    /// It is not known which of both the next start finds: the journal must not be used any more. If only the new file cannot be made
    /// whole, the journal goes on as it was, with a warning.
    pub(crate) fn follow(&mut self, mut folded: Folded) -> Result<bool, JournalError> {
        let segment = segment(self.folder(), self.begin.txn);
        let prepared = self.complete(&mut folded).and_then(|()| {
            // The rest of a start that ended at this point.
            files::remove(&segment)?;
            fs::hard_link(&self.path, &segment)?;
            fs::rename(&folded.path, &self.path)
        });
        if let Err(error) = prepared {
            warn!(file = %folded.path.display(), %error, "the journal cannot be folded; it goes on as it was");
            return Ok(false);
        }
        files::sync_folder(self.folder())?;
        let former = self.end.bytes;
        (self.file, self.begin) = (folded.file, folded.begin);
        self.end.bytes = folded.len;
        self.acknowledged = Acknowledged::open(self.folder(), &self.end)?;
        info!(
            txn = self.begin.txn,
            bytes = self.end.bytes,
            former,
            segment = %segment.display(),
            "journal folded: it begins with the state after this transaction"
        );
        Ok(true)
    }

    /// Copies the last records.
    fn complete(&self, folded: &mut Folded) -> io::Result<()> {
        self.check_place()?;
        folded.copy(&mut File::open(&self.path)?, self.end.bytes)?;
        folded.file.sync_data()?;
        if folded.copied == self.end.bytes && folded.file.metadata()?.len() == folded.len {
            return Ok(());
        }
        Err(io::Error::other("another program changed the file, or the journal"))
    }
}

fn segment(folder: &Path, first: u64) -> PathBuf {
    folder.join(format!("{}{first:020}{}", SEGMENT.0, SEGMENT.1))
}

/// A former file of the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// The number of its first record.
    pub first: u64,
    /// The file.
    pub path: PathBuf,
    /// Its size, in bytes.
    pub bytes: u64,
    /// When its last record was written.
    pub written: SystemTime,
}

/// The segments beside the journal in a folder, the oldest first.
///
/// # Errors
/// The folder cannot be read.
pub fn segments(folder: &Path) -> io::Result<Vec<Segment>> {
    let mut segments = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(SEGMENT.0)?.strip_suffix(SEGMENT.1));
        let Some(first) = number.and_then(|number| number.parse().ok()) else { continue };
        let metadata = entry.metadata()?;
        segments.push(Segment {
            first,
            path: entry.path(),
            bytes: metadata.len(),
            written: metadata.modified()?,
        });
    }
    segments.sort_by_key(|segment| segment.first);
    Ok(segments)
}

/// Removes the oldest segments that are beyond the limits.
pub(crate) fn trim(folder: &Path, keep: &Keep, now: SystemTime) -> io::Result<()> {
    let segments = segments(folder)?;
    let mut left: u64 = segments.iter().map(|segment| segment.bytes).sum();
    for segment in segments {
        let is_old = now.duration_since(segment.written).is_ok_and(|age| age > keep.age);
        if !is_old && left <= keep.bytes {
            break;
        }
        fs::remove_file(&segment.path)?;
        left -= segment.bytes;
        info!(segment = %segment.path.display(), bytes = segment.bytes, "old records of the journal removed");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
