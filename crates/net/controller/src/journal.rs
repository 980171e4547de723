//! The journal: every accepted transaction, one line each, on disk before it takes effect anywhere else.
//!
//! A record is complete with its line feed and [sealed](seal): its checksum covers the record and, through the
//! checksum of the previous line, its position. Records that are accepted together are written and synchronised
//! together, as one *group*, and none takes effect before that. A crash can therefore damage only the last group,
//! which no client was told about. [`Replay`] reads the lines at the start; it removes such a damaged end and refuses
//! all other damage. The file [`acknowledged`] records the last acknowledged end of the journal, so that the loss of
//! its end, or of the whole file, is detected too.
//!
//! While a controller runs, another program may move or truncate the file. Each append checks the file's identity and
//! size before it writes and after it has synchronised, and acknowledges nothing if they are not as expected.

mod acknowledged;
mod backwards;
mod compressed;
mod epoch;
mod files;
mod fold;
mod origins;
#[cfg(test)]
mod power_loss;
mod put_aside;
mod replay;
mod saved_rows;
mod seal;
mod store;
#[cfg(test)]
mod tests;

use std::fs::{self, File, Metadata};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use weft_core::record::{Base, Record};

use self::acknowledged::{Acknowledged, Position};
pub(crate) use self::backwards::Backwards;
pub(crate) use self::compressed::compress;
pub use self::compressed::open;
pub(crate) use self::epoch::next as next_epoch;
pub use self::files::Lock;
pub(crate) use self::files::{MODE as FILE_MODE, folder_of, make_folder};
pub use self::fold::{FoldError, Folded, Keep, Segment, segments};
pub(crate) use self::fold::{base, line};
pub use self::origins::add_calls;
pub(crate) use self::origins::{add_origins, number};
pub(crate) use self::put_aside::PutAside;
pub use self::replay::{Records, Replay};
pub(crate) use self::saved_rows::Saved;
pub(crate) use self::seal::{Chain, seal};
pub use self::store::Store;
#[cfg(test)]
pub(crate) use self::store::memory::Memory;

/// The name of the journal in the state folder.
pub(crate) const FILE: &str = "journal.jsonl";

/// A journal open for appending. No other process can open the same journal meanwhile.
#[derive(Debug)]
pub struct Journal<F = File> {
    path: PathBuf,
    file: F,
    begin: Begin,
    /// The end of the journal. All records up to it are complete and on disk.
    end: Position,
    acknowledged: Acknowledged,
    identity: Option<Arc<str>>,
    put_aside: PutAside,
    _lock: Arc<Lock>,
}

/// How a journal begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Begin {
    /// Its first record; 0 if it is empty.
    txn: u64,
    /// The size of that record, in bytes, if it stands for all before it; otherwise 0.
    bytes: u64,
}

/// What tells a journal, and the copies of it, from all others: when its first record was accepted, and the checksum of that.
fn identity(at: &str, sum: u32) -> Arc<str> {
    format!("{at}-{sum:08x}").into()
}

/// The file operations that a journal needs. Tests substitute a file on a full disk.
pub trait JournalFile {
    /// Appends the bytes and waits until they are on disk.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Truncates the file and waits until that is on disk.
    fn cut(&mut self, len: u64) -> io::Result<()>;
    /// The open file's identity and size.
    fn metadata(&self) -> io::Result<Metadata>;
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

    fn metadata(&self) -> io::Result<Metadata> {
        File::metadata(self)
    }
}

/// What was appended to a journal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Written {
    /// The number of records.
    pub records: u64,
    /// Their size in the file.
    pub bytes: u64,
    /// The time to write them and to wait until they are on disk.
    pub sync: Duration,
}

/// Why a journal cannot be opened, read or written.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// A file-system operation failed.
    #[error("{path}: {what}: {source}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The operation.
        what: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// Records could not be written. The file is unchanged.
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
        /// The process, if it is known.
        holder: String,
    },
    /// A file of the state folder is a device, a FIFO, …
    #[error("{path} is {what}, not a file; remove it, or use another state folder")]
    NotAFile {
        /// Its path.
        path: PathBuf,
        /// Its kind.
        what: &'static str,
    },
    /// A line differs from the line that was written.
    #[error("{path}:{line}: the journal is damaged: byte {byte}: {why}; restore the file from a backup")]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// Where the line begins: bytes from the start of the file.
        byte: u64,
        /// The damage.
        why: String,
    },
    /// A newer version has written it.
    #[error(
        "{path}: a newer version of Weft has written it, in format {format}; this one reads format {} and older ones: use the newer version",
        Base::FORMAT
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: u32,
    },
    /// The journal, or its end, is missing, or it is another journal.
    #[error(
        "{path}: {why}; restore the journal, or remove {} to start with the journal as it is",
        path.with_file_name(acknowledged::FILE).display()
    )]
    Lost {
        /// The journal.
        path: PathBuf,
        /// What is missing.
        why: String,
    },
}

impl<F: JournalFile> Journal<F> {
    /// Appends records and waits until they are on disk.
    ///
    /// After [`JournalError::Unwritten`] the journal is unchanged and can be used. After any other error the end of
    /// the file is unknown, and the journal must not be used any more.
    pub fn append<'a, R, O>(
        &mut self,
        records: impl IntoIterator<Item = &'a Record<R, O>>,
    ) -> Result<Written, JournalError>
    where
        R: Serialize + 'a,
        O: Serialize + 'a,
    {
        let mut bytes = Vec::new();
        let mut end = Position { group: self.end.txn + 1, ..self.end };
        let mut identified = self.identity.clone();
        for record in records {
            debug_assert_eq!(record.txn, end.txn + 1, "records come in order");
            let start = bytes.len();
            let written = serde_json::to_writer(&mut bytes, record).map_err(io::Error::from);
            written.map_err(io_error(&self.path, "cannot write a record"))?;
            end.sum = seal::seal(&mut bytes, start, end.group, end.sum);
            bytes.push(b'\n');
            end.txn = record.txn;
            if record.txn == 1 {
                identified = Some(identity(&record.at, end.sum));
            }
        }
        if bytes.is_empty() {
            return Ok(Written::default());
        }
        end.bytes += bytes.len() as u64;
        let before = self.check_size(self.end.bytes).and_then(|()| self.check_place());
        before.map_err(|source| self.unwritten(source))?;
        let begun = Instant::now();
        let appended = self.file.append(&bytes);
        let sync = begun.elapsed();
        if appended.is_ok() {
            self.check_size(end.bytes).map_err(io_error(&self.path, "changed while records were written"))?;
        }
        if let Err(source) = appended.and_then(|()| self.check_place()) {
            // It is unknown how much of the group is in the file or on disk.
            let cut = self.file.cut(self.end.bytes);
            cut.map_err(io_error(&self.path, "cannot cut off what was not written"))?;
            return Err(self.unwritten(source));
        }
        if self.begin.txn == 0 {
            self.begin.txn = end.group;
        }
        let written = Written { records: end.txn - self.end.txn, bytes: bytes.len() as u64, sync };
        self.end = end;
        self.identity = identified;
        self.acknowledged.write(&end);
        Ok(written)
    }

    /// The size of the file.
    pub(crate) fn bytes(&self) -> u64 {
        self.end.bytes
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The hosts whose messages are not computed, and the one whose message is.
    pub(crate) fn put_aside(&mut self) -> &mut PutAside {
        &mut self.put_aside
    }

    /// What tells this journal, and the copies of it, from all others; `None` while it is empty.
    pub fn identity(&self) -> Option<&str> {
        self.identity.as_deref()
    }

    fn unwritten(&self, source: io::Error) -> JournalError {
        JournalError::Unwritten { path: self.path.clone(), source }
    }

    /// Checks that no other program has truncated or written the file.
    fn check_size(&self, wanted: u64) -> io::Result<()> {
        let found = self.file.metadata()?.len();
        if found == wanted {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "another program changed the file: it has {found} bytes instead of {wanted}; put its contents back, or save the \
             network with `weft get KIND --json` before the controller ends"
        )))
    }

    /// Checks that the open file is the one that the next start will read.
    fn check_place(&self) -> io::Result<()> {
        let open = self.file.metadata()?;
        match fs::metadata(&self.path) {
            Ok(there) if (there.dev(), there.ino()) == (open.dev(), open.ino()) => Ok(()),
            Ok(_) => Err(io::Error::other(
                "another file took its place while the controller runs; move the controller's file back",
            )),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(io::Error::other("the file was moved or removed while the controller runs; move it back"))
            }
            Err(error) => Err(error),
        }
    }
}

fn io_error(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> JournalError {
    let path = path.to_owned();
    move |source| JournalError::Io { path, what, source }
}
