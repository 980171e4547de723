//! The journal: every accepted transaction, one line each, on disk before it takes effect anywhere else.
//!
//! A record is complete with its line feed. Several records may be written together; they are synchronised to disk
//! together and none takes effect before that. So after a crash the file ends with whole records and at most a part of
//! one that nobody was told of: that part is cut off, with a warning. Damage anywhere else is an error with file and
//! line, and nothing is changed.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use tracing::warn;

use crate::record::Record;

/// The name of the journal in the state folder.
const FILE: &str = "journal.jsonl";
/// The name of the file whose lock says that a controller uses the folder.
const LOCK: &str = "lock";

/// A journal open for appending. While it lives, no other process can open the same one.
#[derive(Debug)]
pub struct Journal<F = File> {
    path: PathBuf,
    file: F,
    /// How long the file is: whole records, on disk.
    len: u64,
    last_txn: u64,
    _lock: File,
}

/// What a journal needs of its file. Tests have one that is full.
pub trait JournalFile {
    /// Writes at the end and waits until it is on disk.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Cuts the file off and waits until that is on disk.
    fn cut(&mut self, len: u64) -> io::Result<()>;
}

impl JournalFile for File {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)?;
        self.sync_data()
    }

    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.set_len(len)?;
        self.sync_all()
    }
}

/// Why a journal cannot be opened or written.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Something with the file system.
    #[error("{path}: {what}: {source}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// Records could not be written; the file is as it was before.
    #[error("{path}: cannot write the journal: {source}; nothing took effect")]
    Unwritten {
        /// The journal.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Another controller uses the folder.
    #[error(
        "{path}: another controller uses this state folder{holder}; stop it, or give this one a folder of its own"
    )]
    Locked {
        /// The state folder.
        path: PathBuf,
        /// Who, if it can be told.
        holder: String,
    },
    /// A line is not what was written.
    #[error("{path}:{line}: the journal is damaged: {why}; restore the file from a backup")]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong with it.
        why: String,
    },
}

impl Journal {
    /// Opens the journal in a folder, which is made if it does not exist, and reads all records.
    pub fn open(folder: &Path) -> Result<(Journal, Vec<Record>), JournalError> {
        fs::create_dir_all(folder).map_err(io_error(folder, "cannot make the state folder"))?;
        let lock = lock(folder)?;
        let path = folder.join(FILE);
        let existed = path.exists();
        let mut options = OpenOptions::new();
        let mut file = options
            .read(true)
            .append(true)
            .create(true)
            .open(&path)
            .map_err(io_error(&path, "cannot open the journal"))?;
        if !existed {
            let synced = File::open(folder).and_then(|folder| folder.sync_all());
            synced.map_err(io_error(folder, "cannot synchronise the state folder to disk"))?;
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(io_error(&path, "cannot read the journal"))?;

        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |feed| feed + 1);
        let records = parse(&path, &bytes[..whole])?;
        if whole < bytes.len() {
            warn!(
                file = %path.display(),
                bytes = bytes.len() - whole,
                after_txn = records.len(),
                "the journal ends within a record, as after a crash; the incomplete record is removed"
            );
            file.cut(whole as u64).map_err(io_error(&path, "cannot cut off an incomplete record"))?;
        }
        let last_txn = records.last().map_or(0, |record| record.txn);
        Ok((Journal { path, file, len: whole as u64, last_txn, _lock: lock }, records))
    }
}

impl<F: JournalFile> Journal<F> {
    /// Appends records and waits until they are on disk.
    ///
    /// After [`JournalError::Unwritten`] the journal is as it was before and can be used. After any other error the end
    /// of the file is unknown: the journal must not be used any more.
    pub fn append<'a>(&mut self, records: impl IntoIterator<Item = &'a Record>) -> Result<(), JournalError> {
        let mut bytes = Vec::new();
        let mut last_txn = self.last_txn;
        for record in records {
            debug_assert_eq!(record.txn, last_txn + 1, "records come in order");
            let written = serde_json::to_writer(&mut bytes, record).map_err(io::Error::from);
            written.map_err(io_error(&self.path, "cannot write a record"))?;
            bytes.push(b'\n');
            last_txn = record.txn;
        }
        if bytes.is_empty() {
            return Ok(());
        }
        if let Err(source) = self.file.append(&bytes) {
            // How much of it is in the file, or on disk, cannot be known.
            self.file.cut(self.len).map_err(io_error(&self.path, "cannot cut off what was not written"))?;
            return Err(JournalError::Unwritten { path: self.path.clone(), source });
        }
        self.len += bytes.len() as u64;
        self.last_txn = last_txn;
        Ok(())
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn parse(path: &Path, bytes: &[u8]) -> Result<Vec<Record>, JournalError> {
    let damaged = |line, why| JournalError::Damaged { path: path.to_owned(), line, why };
    let mut records: Vec<Record> = Vec::new();
    let lines = bytes.strip_suffix(b"\n").into_iter().flat_map(|bytes| bytes.split(|byte| *byte == b'\n'));
    for (text, line) in lines.zip(1..) {
        let record: Record =
            serde_json::from_slice(text).map_err(|error| damaged(line, error.to_string()))?;
        let wanted = records.last().map_or(1, |record| record.txn + 1);
        if record.txn != wanted {
            return Err(damaged(line, format!("found transaction {}, expected {wanted}", record.txn)));
        }
        records.push(record);
    }
    Ok(records)
}

/// Takes the folder's lock, which the system releases when the process ends, however it ends.
fn lock(folder: &Path) -> Result<File, JournalError> {
    let path = folder.join(LOCK);
    let mut options = OpenOptions::new();
    let mut file = options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(io_error(&path, "cannot open the lock file"))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            let read = file.read_to_string(&mut holder).is_ok() && !holder.trim().is_empty();
            let holder = if read { format!(" (process {})", holder.trim()) } else { String::new() };
            return Err(JournalError::Locked { path: folder.to_owned(), holder });
        }
        Err(TryLockError::Error(source)) => return Err(io_error(&path, "cannot lock")(source)),
    }
    let written = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
    written.map_err(io_error(&path, "cannot write the lock file"))?;
    Ok(file)
}

fn io_error(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> JournalError {
    let path = path.to_owned();
    move |source| JournalError::Io { path, what, source }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::record::{LabelRecord, ObjectChanges};

    fn record(txn: u64) -> Record {
        Record {
            txn,
            at: "2026-11-20T09:00:00.000001Z".to_owned(),
            by: "api".to_owned(),
            insert: BTreeMap::from([(
                "logical_switch".to_owned(),
                vec![vec![json!(format!("s{txn}\n")), json!("")]],
            )]),
            delete: BTreeMap::new(),
            objects: ObjectChanges { put: vec![json!({"kind": "switch", "id": "ü"})], delete: Vec::new() },
            labels: vec![LabelRecord("switch".to_owned(), "ü".to_owned(), 1)],
            reports: None,
        }
    }

    #[test]
    fn a_journal_gives_back_what_was_appended() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("a/b");
        {
            let (mut journal, records) = Journal::open(&state).unwrap();
            assert!(records.is_empty());
            journal.append(&[record(1), record(2)]).unwrap();
            journal.append(&[]).unwrap();
        }
        let (mut journal, records) = Journal::open(&state).unwrap();
        assert_eq!(records, [record(1), record(2)]);
        journal.append(&[record(3)]).unwrap();
        drop(journal);
        assert_eq!(Journal::open(&state).unwrap().1.len(), 3);
    }

    #[test]
    fn a_record_torn_at_any_byte_is_cut_off_and_the_journal_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        Journal::open(folder.path()).unwrap().0.append(&[record(1), record(2)]).unwrap();
        let two = fs::read(&path).unwrap();
        let first_len = two.iter().position(|byte| *byte == b'\n').unwrap() + 1;

        for cut in first_len..two.len() {
            fs::write(&path, &two[..cut]).unwrap();
            let (mut journal, records) = Journal::open(folder.path()).unwrap();
            assert_eq!(records, [record(1)], "cut at byte {cut}");
            journal.append(&[record(2)]).unwrap();
            drop(journal);
            assert_eq!(fs::read(&path).unwrap(), two, "cut at byte {cut}");
        }
        // Also the very first record.
        fs::write(&path, &two[..first_len - 1]).unwrap();
        assert!(Journal::open(folder.path()).unwrap().1.is_empty());
    }

    #[test]
    fn damage_elsewhere_is_an_error_with_its_line_and_the_file_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        Journal::open(folder.path()).unwrap().0.append(&[record(1), record(2), record(3)]).unwrap();
        let good = fs::read_to_string(&path).unwrap();

        let lines: Vec<&str> = good.lines().collect();
        let cases = [
            (format!("{}\n{}\n", lines[0], lines[2]), ":2: ", "found transaction 3, expected 2"),
            (format!("{}\n\n{}\n", lines[0], lines[1]), ":2: ", "EOF while parsing"),
            (format!("{}\n{}\n{}\n", lines[0], &lines[1][..40], lines[2]), ":2: ", "EOF while parsing"),
            (good.replacen("\"by\":\"api\"", "\"by\":7", 1), ":1: ", "expected a string"),
            (good.replacen("api", "\u{0}\u{0}\u{0}", 1), ":1: ", "control character"),
        ];
        for (text, place, why) in cases {
            fs::write(&path, &text).unwrap();
            let error = Journal::open(folder.path()).unwrap_err().to_string();
            assert!(error.contains(place) && error.contains(why), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }

    /// A file on a disk that has room for so many bytes; `None`: that is broken.
    struct Full {
        file: File,
        room: Option<usize>,
    }

    impl JournalFile for Full {
        fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
            let room = self.room.unwrap_or(0);
            self.file.append(&bytes[..room.min(bytes.len())])?;
            if room < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        }

        fn cut(&mut self, len: u64) -> io::Result<()> {
            self.room.ok_or(io::ErrorKind::Other)?;
            self.file.cut(len)
        }
    }

    #[test]
    fn what_a_full_disk_does_not_take_leaves_no_trace() {
        let folder = tempfile::tempdir().unwrap();
        let (journal, _) = Journal::open(folder.path()).unwrap();
        let Journal { path, file, len, last_txn, _lock: lock } = journal;
        let file = Full { file, room: Some(usize::MAX) };
        let mut journal = Journal { path: path.clone(), file, len, last_txn, _lock: lock };
        journal.append(&[record(1)]).unwrap();
        let one = fs::read(&path).unwrap();
        for room in [0, 1, one.len(), one.len() + 5] {
            journal.file.room = Some(room);
            let error = journal.append(&[record(2), record(3)]).unwrap_err();
            assert!(matches!(error, JournalError::Unwritten { .. }), "{error}");
            assert!(error.to_string().contains("nothing took effect"), "{error}");
            assert_eq!(fs::read(&path).unwrap(), one);
        }
        journal.file.room = Some(usize::MAX);
        journal.append(&[record(2)]).unwrap();
        journal.file.room = None;
        let error = journal.append(&[record(3)]).unwrap_err();
        assert!(matches!(error, JournalError::Io { .. }), "{error}");
        drop(journal);
        assert_eq!(Journal::open(folder.path()).unwrap().1, [record(1), record(2)]);
    }

    #[test]
    fn two_controllers_cannot_share_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let (journal, _) = Journal::open(folder.path()).unwrap();
        let error = Journal::open(folder.path()).unwrap_err();
        assert!(matches!(error, JournalError::Locked { .. }), "{error}");
        assert!(error.to_string().contains(&format!("(process {})", std::process::id())), "{error}");
        drop(journal);
        Journal::open(folder.path()).unwrap();
    }
}
