//! Saved rows: what the engine has after some transaction, in a file beside the journal, so that the next start need not derive it.
//!
//! The first line says what the rows belong to: the record of the transaction, which stands for all records before it, and what derived
//! them. It is sealed as a line of the journal is. What the engine writes follows, with checksums of its own. A file that is damaged, or
//! belongs to another journal, other rules or another program, is not used, and the log says why: nothing is lost by that but time.
//!
//! A thread writes the file under another name, waits until it is on disk, and renames it. So the engine waits for no disk, and no moment
//! leaves half a file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nlog_data::{Memories, function};
use serde::{Deserialize, Serialize};
use tracing::{info, warn};
use weft_core::core::SavedRows;
use weft_core::rules::Rules;

use super::acknowledged::Position;
use super::seal::{Seal, seal};
use super::{Journal, Records, files};

/// The name of the file in the state folder.
const FILE: &str = "engine.rows";
/// The file that is to take its place.
const NEXT: &str = "engine.rows.next";
/// The bytes that go to the thread at once, and how many such parts there are.
const PART: usize = 1 << 20;
const PARTS: usize = 4;
/// How often the engine looks up while it waits for the disk.
const LOOK_UP: Duration = Duration::from_millis(1);

/// What rows belong to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    /// The transaction after which they were saved.
    txn: u64,
    /// What tells its journal from all others.
    journal: String,
    /// The checksum of its record, which depends on all records before it.
    record: u32,
    maker: Maker,
    /// What hooks remembered after it.
    memories: Memories,
}

/// What derived rows. Another one may derive others, or save them in another form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Maker {
    release: String,
    /// The size of the program's file, and when it was built: a release that is being developed has many.
    program: String,
    functions: u64,
    rules: u64,
}

impl Maker {
    /// This program with these rules.
    fn with(rules: &Rules) -> Maker {
        static FUNCTIONS: LazyLock<u64> = LazyLock::new(function::digest);
        let file = fs::metadata("/proc/self/exe");
        let program = file.map(|file| format!("{} {}.{}", file.size(), file.mtime(), file.mtime_nsec()));
        Maker {
            release: env!("CARGO_PKG_VERSION").to_owned(),
            program: program.unwrap_or_default(),
            functions: *FUNCTIONS,
            rules: rules.program().identity(),
        }
    }

    /// Why it cannot use what another one has saved, if it cannot.
    fn refuses(&self, other: &Maker) -> Option<&'static str> {
        if other.rules != self.rules {
            return Some("other rules have derived them");
        }
        (other != self).then_some("another release or build of weft has derived them")
    }
}

/// The file as a start finds it.
pub(crate) struct Saved {
    path: PathBuf,
    header: Header,
    rows: Box<dyn Read>,
    /// Their length in bytes.
    len: u64,
    /// Whether the record of the transaction is in the journal; `None` before that was read.
    is_recorded: Option<bool>,
    /// Whether a start begins with them.
    is_used: bool,
}

impl Saved {
    /// Opens the file in a folder, if it is there and whole. If it is damaged, the log says so.
    pub(crate) fn open(folder: &Path) -> Option<Saved> {
        let path = folder.join(FILE);
        // The rest of an earlier attempt.
        let _ = fs::remove_file(folder.join(NEXT));
        match read(&path) {
            Ok(saved) => Some(saved),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(why) => {
                warn!(file = %path.display(), %why, "the saved rows are not used, so all rows are derived");
                None
            }
        }
    }

    /// Looks whether the record that was read last is that of the transaction.
    pub(crate) fn follow(&mut self, records: &Records) {
        let Position { txn, sum, .. } = records.end();
        if txn == self.header.txn {
            let is_same = records.identity().is_some_and(|journal| **journal == *self.header.journal);
            self.is_recorded = Some(is_same && sum == self.header.record);
        }
    }

    /// The rows, once all records were read and these rules are to run. If they belong to another journal or to other rules, the log says so.
    pub(crate) fn rows(&mut self, records: &Records, rules: &Rules) -> Option<SavedRows<'_>> {
        let txn = self.header.txn;
        // As after each upgrade, and each change of rules.
        if let Some(why) = Maker::with(rules).refuses(&self.header.maker) {
            info!(file = %self.path.display(), why, "the saved rows are not used, so all rows are derived");
            return None;
        }
        let why = match self.is_recorded {
            Some(true) => {
                let memories = std::mem::take(&mut self.header.memories);
                self.is_used = true;
                return Some(SavedRows {
                    txn,
                    memories,
                    rows: (&mut *self.rows as &mut dyn Read).take(self.len),
                });
            }
            Some(false) => "they belong to another journal",
            None if txn < records.base_txn() => "they are older than the journal's first record",
            None => "the journal ends before them",
        };
        warn!(file = %self.path.display(), txn, why, "the saved rows are not used, so all rows are derived");
        None
    }

    /// Removes the file if a start began with it: that has failed, so the next one goes without.
    pub(crate) fn forget(&self) {
        if !self.is_used {
            return;
        }
        if let Err(error) = fs::remove_file(&self.path) {
            warn!(file = %self.path.display(), %error, "cannot remove the saved rows");
        }
    }
}

/// Reads the first line of the file.
fn read(path: &Path) -> io::Result<Saved> {
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, "they are damaged or truncated");
    if !files::is_there(path).map_err(io::Error::other)? {
        return Err(io::ErrorKind::NotFound.into());
    }
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut file = BufReader::with_capacity(PART, file);
    let mut line = Vec::new();
    file.read_until(b'\n', &mut line)?;
    let len = size.saturating_sub(line.len() as u64);
    line.pop_if(|byte| *byte == b'\n').ok_or_else(damaged)?;
    let seal = Seal::of(&line).filter(|seal| seal.fits(&line, 0)).ok_or_else(damaged)?;
    let header = serde_json::from_slice(&seal.unsealed(line)).map_err(|_| damaged())?;
    Ok(Saved { path: path.to_owned(), header, rows: Box::new(file), len, is_recorded: None, is_used: false })
}

/// A file that is being written.
pub(crate) struct Writing {
    /// The part that is being filled.
    part: Vec<u8>,
    full: Sender<Part>,
    empty: Receiver<Vec<u8>>,
    thread: JoinHandle<()>,
    /// The thread has ended, and logged why.
    pub(crate) is_broken: bool,
}

enum Part {
    Bytes(Vec<u8>),
    /// There is no more.
    End,
}

impl Journal {
    /// Begins to write rows that the engine has after the last record. `memories` are those of hooks.
    pub(crate) fn save_rows(&self, rules: &Rules, memories: Memories) -> io::Result<Writing> {
        let header = Header {
            txn: self.end.txn,
            journal: self.identity().unwrap_or_default().to_owned(),
            record: self.end.sum,
            maker: Maker::with(rules),
            memories,
        };
        let ((full, parts), (back, empty)) = (channel(), channel());
        for _ in 1..PARTS {
            // The receiver is there.
            let _ = back.send(Vec::with_capacity(PART));
        }
        let folder = self.folder().to_owned();
        let write = move || write(&folder, &header, &parts, &back);
        let thread = thread::Builder::new().name("save".to_owned()).spawn(write)?;
        Ok(Writing { part: Vec::with_capacity(PART), full, empty, thread, is_broken: false })
    }
}

impl Writing {
    /// Where the engine writes. It stops with an error once `is_interrupted`, which is asked often.
    pub(crate) fn writer<'a>(&'a mut self, is_interrupted: &'a dyn Fn() -> bool) -> impl Write + 'a {
        Pipe { writing: self, is_interrupted }
    }

    /// Lets the thread end the file. It logs when the file is on disk, or why it is not.
    pub(crate) fn finish(mut self) -> JoinHandle<()> {
        let rest = std::mem::take(&mut self.part);
        // If the thread has ended, it has logged why.
        let _ = self.full.send(Part::Bytes(rest)).and_then(|()| self.full.send(Part::End));
        self.thread
    }

    /// Lets the thread end without a file.
    pub(crate) fn cancel(self) -> JoinHandle<()> {
        self.thread
    }
}

struct Pipe<'a> {
    writing: &'a mut Writing,
    is_interrupted: &'a dyn Fn() -> bool,
}

impl Pipe<'_> {
    /// Passes a full part on, and waits for an empty one.
    fn pass_on(&mut self) -> io::Result<()> {
        let Writing { part, full, empty, is_broken, .. } = &mut *self.writing;
        let next = loop {
            if (self.is_interrupted)() {
                return Err(io::Error::other("interrupted"));
            }
            match empty.recv_timeout(LOOK_UP) {
                Ok(next) => break next,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    *is_broken = true;
                    return Err(io::Error::other("the file cannot be written"));
                }
            }
        };
        // If the thread has ended, the next part says so.
        let _ = full.send(Part::Bytes(std::mem::replace(part, next)));
        Ok(())
    }
}

impl Write for Pipe<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.writing.part.len() >= PART {
            self.pass_on()?;
        }
        let taken = bytes.len().min(PART - self.writing.part.len());
        self.writing.part.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes the file, in a thread of its own. If the parts stop without an end, nothing is left of it.
fn write(folder: &Path, header: &Header, parts: &Receiver<Part>, back: &Sender<Vec<u8>>) {
    let (begun, path, next) = (Instant::now(), folder.join(FILE), folder.join(NEXT));
    let written = write_next(&next, header, parts, back).and_then(|size| {
        let Some(size) = size else { return fs::remove_file(&next) };
        fs::rename(&next, &path)?;
        files::sync_folder(folder).map_err(io::Error::other)?;
        let (txn, took) = (header.txn, begun.elapsed());
        info!(file = %path.display(), txn, bytes = size, ?took, "the rows of the engine are saved");
        Ok(())
    });
    if let Err(error) = written {
        warn!(file = %next.display(), %error, "the rows of the engine cannot be saved; a start may have to derive them");
        // The original error matters more than an unfinished file that stays behind.
        let _ = fs::remove_file(&next);
    }
}

/// Writes all parts. Returns the size of the file, or `None` if they have no end.
fn write_next(
    next: &Path,
    header: &Header,
    parts: &Receiver<Part>,
    back: &Sender<Vec<u8>>,
) -> io::Result<Option<u64>> {
    files::remove(next)?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(files::MODE).open(next)?;
    let mut line = serde_json::to_vec(header)?;
    seal(&mut line, 0, header.txn, 0);
    line.push(b'\n');
    file.write_all(&line)?;
    while let Ok(part) = parts.recv() {
        let Part::Bytes(mut bytes) = part else {
            file.sync_all()?;
            return Ok(Some(file.metadata()?.len()));
        };
        file.write_all(&bytes)?;
        bytes.clear();
        // Nobody may want it back any more.
        let _ = back.send(bytes);
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
