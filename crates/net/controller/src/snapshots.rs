//! Snapshots: one compressed file with all that a controller has recorded up to a transaction.
//!
//! A snapshot is a journal whose only line is a [`Base`](weft_core::record::Base), so all that reads journals reads snapshots. It is added up
//! from the journal on the disk, so the engine's thread does nothing for it and transactions go on.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use nlog_data::Cancel;
use weft_core::record::Record;
use weft_core::rules::Rules;

use crate::journal::{self, FoldError, JournalError, Records, Replay};

/// The snapshot of the records in a state folder, up to the last acknowledged one. A controller may run there.
///
/// # Errors
/// The journal cannot be read, is damaged, or is empty; or nobody waits for the snapshot any more.
pub fn of_folder(folder: &Path, rules: &Rules, cancel: &Cancel) -> Result<Vec<u8>, FoldError> {
    let path = folder.to_owned();
    let records = Records::read(folder)?.ok_or(FoldError::Empty { path })?;
    let path = records.path().to_owned();
    let (base, _) = sum(records, None, rules, cancel)?;
    Ok(of_record(&base).map_err(|source| JournalError::Io {
        path,
        what: "cannot compress the snapshot",
        source,
    })?)
}

/// The snapshot that has this record, which has a [`Base`](weft_core::record::Base).
///
/// # Errors
/// The record cannot be compressed.
pub fn of_record(base: &Record) -> io::Result<Vec<u8>> {
    journal::line(base).and_then(|line| journal::compress(&line))
}

/// What some records add up to, up to a transaction or the last acknowledged one, as one record, and how many of them are single
/// transactions.
///
/// # Errors
/// As [`of_folder`].
pub fn sum(
    mut records: Records,
    until: Option<u64>,
    rules: &Rules,
    cancel: &Cancel,
) -> Result<(Record, u64), FoldError> {
    let base = journal::base(&mut records, until, rules, cancel)?;
    let transactions = base.txn - records.base_txn();
    Ok((base, transactions))
}

/// Why a snapshot cannot be restored.
#[derive(Debug, thiserror::Error)]
pub enum RestoreSnapshotError {
    /// A file cannot be read or written, or the snapshot is damaged.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The folder has a journal.
    #[error("{0} has been used by a controller; restore into a folder that is empty or does not exist")]
    Used(String),
    /// The snapshot has no record.
    #[error("{0} has no record")]
    Empty(String),
}

/// Makes a state folder with what a snapshot, or a journal, has: a controller can start there. Returns the last transaction.
///
/// # Errors
/// The file is damaged, the folder is in use, or it cannot be written.
pub fn restore(file: &Path, folder: &Path) -> Result<u64, RestoreSnapshotError> {
    let failed = |what| {
        let path = folder.to_owned();
        move |source| JournalError::Io { path, what, source }
    };
    // All of it is checked before anything is written.
    let mut last = 0;
    for record in Records::open(file)? {
        last = record?.txn;
    }
    if last == 0 {
        return Err(RestoreSnapshotError::Empty(file.display().to_string()));
    }
    let is_used = match fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(failed("cannot look at the folder")(error).into()),
    };
    if is_used {
        return Err(RestoreSnapshotError::Used(folder.display().to_string()));
    }
    journal::make_folder(folder)?;
    let mut options = OpenOptions::new();
    let path = folder.join(journal::FILE);
    let options = options.write(true).create_new(true).mode(journal::FILE_MODE);
    let written = options.open(&path).and_then(|mut to| {
        io::copy(&mut journal::open(file)?, &mut to)?;
        to.flush()?;
        to.sync_all()
    });
    written.map_err(failed("cannot write the journal"))?;
    // It makes what belongs to a journal, as a controller does when it starts.
    Replay::open(folder)?.finish()?;
    Ok(last)
}

#[cfg(test)]
mod tests;
