//! Reads a journal record by record, and opens it for appending at a start.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use tracing::{error, warn};
use weft_core::record::{Base, Record};

use super::acknowledged::{self, Acknowledged, Known, Position};
use super::files::{self, Lock};
use super::fold;
use super::seal::Seal;
use super::{Begin, FILE, Journal, JournalError, PutAside, identity, io_error};

/// The file that keeps the end that was last removed from the journal.
const REMOVED: &str = "journal.removed";
/// This many zero bytes in a row, or zero bytes at the end, belong to a part of the file that was never written. JSON
/// contains none, and a flipped bit produces at most one.
const ZEROS_MIN: usize = 8;

/// A journal being read: an iterator over its records. Only one record is in memory at a time. Reading changes nothing.
pub struct Records {
    path: PathBuf,
    reader: Box<dyn BufRead + Send>,
    /// The size of the file, in bytes.
    len: u64,
    /// The current line, without its line feed.
    text: Vec<u8>,
    /// The number of lines read.
    lines: u64,
    /// The end of the records read.
    end: Position,
    known: Option<Position>,
    tail: Tail,
    done: bool,
    identity: Option<Arc<str>>,
    begin: Begin,
}

/// A journal being read by the owner of its folder. After the last record, [`Replay::finish`] opens the journal for appending.
pub struct Replay {
    folder: PathBuf,
    /// The journal, to be appended to.
    file: File,
    records: Records,
    lock: Arc<Lock>,
}

/// The part after the last complete record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tail {
    /// There is none.
    Nothing,
    /// The last record lacks its line feed, or has another byte in its place.
    NoFeed,
    /// The trace of a crash.
    Torn,
}

fn buffered(file: File) -> Box<dyn BufRead + Send> {
    Box::new(BufReader::with_capacity(1 << 18, file))
}

impl Replay {
    /// Opens the journal in a folder. Creates both if they do not exist.
    pub fn open(folder: &Path) -> Result<Replay, JournalError> {
        files::make_folder(folder)?;
        let lock = Arc::new(files::lock(folder)?);
        fold::forget(folder)?;
        let path = folder.join(FILE);
        let known = acknowledged::read(folder)?;
        let there = files::is_there(&path)?;
        let mut options = OpenOptions::new();
        let options = options.read(true).append(true).mode(files::MODE);
        let open = |create| options.clone().create(create).open(&path);
        let found =
            there.then(|| open(false)).transpose().map_err(io_error(&path, "cannot open the journal"))?;
        let len = |file: &File| file.metadata().map(|metadata| metadata.len());
        let size =
            found.as_ref().map_or(Ok(0), len).map_err(io_error(&path, "cannot look at the journal"))?;
        if size == 0 {
            check_new(&path, there, lock.existed, known)?;
        } else if known == Known::Damaged {
            let file = folder.join(acknowledged::FILE);
            warn!(file = %file.display(), "the file is damaged and will be written again; the journal itself is checked");
        }
        let known = if let Known::UpTo(position) = known { Some(position) } else { None };
        let file = if let Some(file) = found {
            file
        } else {
            // First of all, so that a missing journal is detected from now on.
            Acknowledged::open(folder, &Position::default())?;
            let file = open(true).map_err(io_error(&path, "cannot open the journal"))?;
            files::sync_folder(folder)?;
            file
        };
        files::close_to_others(&path, &file)?;
        let reader = file.try_clone().map_err(io_error(&path, "cannot open the journal"))?;
        let records = Records::of(path, buffered(reader), size, known);
        Ok(Replay { folder: folder.to_owned(), file, records, lock })
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.records.path
    }

    /// The state folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The lock of the folder. Whoever holds it keeps other controllers away from the folder, and from what belongs to its
    /// owner elsewhere.
    pub fn lock(&self) -> Arc<Lock> {
        self.lock.clone()
    }

    /// The records.
    pub(crate) fn reading(&mut self) -> &mut Records {
        &mut self.records
    }

    /// The number of records read.
    pub fn records(&self) -> u64 {
        self.records.end.txn
    }

    /// Opens the journal for appending after its last record was read. Removes the traces of a crash.
    pub fn finish(mut self) -> Result<Journal, JournalError> {
        for record in &mut self {
            record?;
        }
        let Replay { folder, mut file, records, lock } = self;
        let Records { path, len, end, tail, known, identity, begin, .. } = records;
        if tail == Tail::Torn {
            let torn = Torn { path: &path, bytes: len - end.bytes, end, known };
            torn.keep(&mut file, &folder.join(REMOVED))?;
        }
        if tail != Tail::Nothing {
            let feed = u64::from(tail == Tail::NoFeed);
            let repaired = file.set_len(end.bytes - feed).and_then(|()| {
                file.write_all(&b"\n"[..feed as usize])?;
                file.sync_all()
            });
            repaired.map_err(io_error(&path, "cannot repair the end of the journal"))?;
        }
        let acknowledged = Acknowledged::open(&folder, &end)?;
        if tail == Tail::Torn || known.is_none() {
            files::sync_folder(&folder)?;
        }
        let put_aside = PutAside::open(&folder, SystemTime::now())?;
        Ok(Journal { path, file, begin, end, acknowledged, identity, put_aside, _lock: lock })
    }
}

/// The part of a journal after its last complete record, which a crash has left.
struct Torn<'a> {
    path: &'a Path,
    bytes: u64,
    /// Where it begins.
    end: Position,
    known: Option<Position>,
}

impl Torn<'_> {
    /// Says that it is going to be removed, and copies it into another file.
    ///
    /// What nobody was told of may be lost: then a copy that cannot be made, as on a full disk, is only said. It must not keep a controller
    /// from its start, which is what makes room.
    ///
    /// # Errors
    /// It has acknowledged transactions, and the copy cannot be made.
    fn keep(&self, file: &mut File, to: &Path) -> Result<(), JournalError> {
        let Torn { path, bytes, end, known } = self;
        let file_name = path.display();
        warn!(
            file = %file_name,
            bytes,
            after_txn = end.txn,
            "the journal ends within a record, as after a crash; the incomplete record is removed"
        );
        let lost = known.filter(|known| known.txn > end.txn);
        if let Some(lost) = lost {
            error!(
                file = %file_name,
                from = end.txn + 1,
                to = lost.txn,
                "transactions were acknowledged and are lost: apply their objects again"
            );
        }
        match files::keep_end(file, end.bytes, to) {
            Err(error) if lost.is_none() => {
                warn!(%error, "the incomplete record is removed without a copy: it was never acknowledged");
                Ok(())
            }
            kept => kept,
        }
    }
}

impl Iterator for Replay {
    type Item = Result<Record, JournalError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.records.next()
    }
}

impl Records {
    /// Reads the journal in a folder without a change to the folder, also while a controller appends to it: without its lock, and
    /// without a repair of its end. Returns nothing if the folder has no journal and never had one.
    pub fn read(folder: &Path) -> Result<Option<Records>, JournalError> {
        let path = folder.join(FILE);
        // First of all, because the journal may grow meanwhile: it has at least the records that are known before.
        let known = acknowledged::read(folder)?;
        let there = files::is_there(&path)?;
        let found = there.then(|| File::open(&path).and_then(|file| Ok((file.metadata()?.len(), file))));
        let found = found.transpose().map_err(io_error(&path, "cannot open the journal"))?;
        let Some((size, file)) = found.filter(|(size, _)| *size > 0) else {
            check_new(&path, there, files::was_used(folder)?, known)?;
            return Ok(None);
        };
        let known = if let Known::UpTo(position) = known { Some(position) } else { None };
        Ok(Some(Records::of(path, buffered(file), size, known)))
    }

    /// Reads a file with records, which may be compressed: a journal anywhere, or a snapshot.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(path: &Path) -> Result<Records, JournalError> {
        let reader = super::open(path).map_err(io_error(path, "cannot open it"))?;
        Ok(Records::of(path.to_owned(), reader, u64::MAX, None))
    }

    fn of(path: PathBuf, reader: Box<dyn BufRead + Send>, len: u64, known: Option<Position>) -> Records {
        Records {
            path,
            reader,
            len,
            text: Vec::new(),
            lines: 0,
            end: Position::default(),
            known,
            tail: Tail::Nothing,
            done: false,
            identity: None,
            begin: Begin::default(),
        }
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The end of the records read.
    pub(super) fn end(&self) -> Position {
        self.end
    }

    /// The transaction up to which the first record stands for all before it; 0 if it is a transaction itself.
    pub(crate) fn base_txn(&self) -> u64 {
        if self.begin.bytes > 0 { self.begin.txn } else { 0 }
    }

    /// The last transaction that was acknowledged when the journal was opened, as far as anybody knows.
    pub(super) fn known(&self) -> Option<Position> {
        self.known
    }

    /// What tells the journal, and its copies, from all others; `None` before the first record is read.
    pub(super) fn identity(&self) -> Option<&Arc<str>> {
        self.identity.as_ref()
    }

    /// Reads the next line. Returns whether it has its line feed; `None` at the end of the file.
    fn line(&mut self) -> Result<Option<bool>, JournalError> {
        self.text.clear();
        let read = self.reader.read_until(b'\n', &mut self.text);
        match read.map_err(io_error(&self.path, "cannot read the journal"))? {
            0 => Ok(None),
            _ => Ok(Some(self.text.pop_if(|byte| *byte == b'\n').is_some())),
        }
    }

    fn record(&mut self) -> Result<Option<Record>, JournalError> {
        let Some(fed) = self.line()? else {
            self.check_end()?;
            return Ok(None);
        };
        self.lines += 1;
        let line = self.text.as_slice();
        let (mut read, mut len) = (self.check(line), line.len());
        if !fed
            && read.is_err()
            // The line feed may have turned into another byte.
            && let Some((_, line)) = line.split_last()
            && let Ok(record) = self.check(line)
        {
            (read, len) = (Ok(record), line.len());
        }
        let (record, seal) = match read {
            Ok(read) => read,
            Err(why) => return self.damage(fed, why).map(|()| None),
        };
        if !fed {
            self.tail = Tail::NoFeed;
        }
        let (txn, bytes) = (record.txn, self.end.bytes + len as u64 + 1);
        let sum = match &record.base {
            None => seal.sum,
            Some(base) if base.format > Base::FORMAT => {
                return Err(JournalError::Newer { path: self.path.clone(), format: base.format });
            }
            Some(base) => {
                self.identity = Some(base.journal.clone());
                base.sum
            }
        };
        if self.lines == 1 {
            self.begin = Begin { txn, bytes: if record.base.is_some() { bytes } else { 0 } };
        }
        if txn == 1 && record.base.is_none() {
            self.identity = Some(identity(&record.at, seal.sum));
        }
        self.end = Position { txn, group: seal.group, bytes, sum };
        self.check_known()?;
        Ok(Some(record))
    }

    /// Checks a line and returns its record and its seal.
    fn check(&self, line: &[u8]) -> Result<(Record, Seal), String> {
        let wanted = self.end.txn + 1;
        let seal = Seal::of(line).ok_or("the line has no checksum")?;
        let record = serde_json::from_slice::<Record>(&seal.unsealed(line.to_vec()));
        if let Ok(Record { txn, base, .. }) = &record
            && *txn != wanted
            // It stands for all that came before it.
            && !(self.lines == 1 && base.is_some())
        {
            return Err(format!("found transaction {txn}, expected {wanted}"));
        }
        if !seal.fits(line, self.end.sum) {
            return Err(
                "the checksum does not fit: a byte has changed, or the line before it is missing".to_owned()
            );
        }
        Ok((record.map_err(|error| error.to_string())?, seal))
    }

    /// Handles an invalid line: either the trace of a crash, or an error.
    fn damage(&mut self, fed: bool, why: String) -> Result<(), JournalError> {
        let damaged =
            JournalError::Damaged { path: self.path.clone(), line: self.lines, byte: self.end.bytes, why };
        let next = self.end.txn + 1;
        let in_last_group = |group: u64| group <= next;
        // Only the last group can be torn, because all earlier groups were on disk before it was written.
        if self.known.is_some_and(|known| known.txn >= next && !in_last_group(known.group)) {
            return Err(damaged);
        }
        let cut =
            !fed && self.known.is_none_or(|known| known.bytes <= self.end.bytes || self.len < known.bytes);
        if !cut && !has_hole(&self.text, fed) {
            return Err(damaged);
        }
        let (mut fed, mut group) = (fed, Seal::of(&self.text).map(|seal| seal.group));
        while fed {
            if group.is_some_and(|group| !in_last_group(group)) {
                return Err(damaged);
            }
            let Some(next_fed) = self.line()? else { break };
            group = Seal::of(&self.text).map(|seal| seal.group);
            if next_fed && group.is_none() && !has_hole(&self.text, true) {
                return Err(damaged);
            }
            fed = next_fed;
        }
        if group.is_some_and(|group| !in_last_group(group)) {
            return Err(damaged);
        }
        self.tail = Tail::Torn;
        Ok(())
    }

    /// Compares the journal with the acknowledged end.
    fn check_known(&self) -> Result<(), JournalError> {
        let Some(known) = self.known.filter(|known| known.txn == self.end.txn) else { return Ok(()) };
        if known.sum == self.end.sum {
            return Ok(());
        }
        let why = format!(
            "this is another journal: its transaction {} is not the one that was acknowledged here",
            known.txn
        );
        Err(JournalError::Lost { path: self.path.clone(), why })
    }

    fn check_end(&self) -> Result<(), JournalError> {
        let Some(known) = self.known.filter(|known| known.txn > self.end.txn) else { return Ok(()) };
        let (path, txn) = (self.path.clone(), self.end.txn);
        let why = format!(
            "the journal ends with transaction {txn}, but transaction {} was acknowledged",
            known.txn
        );
        Err(JournalError::Lost { path, why })
    }
}

impl Iterator for Records {
    type Item = Result<Record, JournalError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let record = self.record().transpose();
        self.done = !matches!(record, Some(Ok(_)));
        record
    }
}

/// Handles a folder whose journal is missing or empty.
fn check_new(path: &Path, there: bool, used: bool, known: Known) -> Result<(), JournalError> {
    let state = if there { "empty" } else { "missing" };
    let lost = |what: &str| {
        Err(JournalError::Lost { path: path.to_owned(), why: format!("the journal is {state}, but {what}") })
    };
    match known {
        Known::UpTo(Position { txn: 0, .. }) => Ok(()),
        Known::UpTo(Position { txn, .. }) => {
            lost(&format!("transaction {txn} was acknowledged in this folder"))
        }
        Known::Damaged => lost("the folder was used before"),
        Known::Nothing => {
            if used || there {
                warn!(
                    journal = %path.display(),
                    "the folder was used before, but its journal is {state}: the controller starts with an empty network"
                );
            }
            Ok(())
        }
    }
}

/// Whether a part of a line was never written. A hole in front may be short: it ends with the sector in which the group begins.
fn has_hole(line: &[u8], fed: bool) -> bool {
    let in_front = line.first() == Some(&0);
    let at_end = !fed && line.last() == Some(&0);
    in_front || at_end || line.split(|byte| *byte != 0).any(|zeros| zeros.len() >= ZEROS_MIN)
}
