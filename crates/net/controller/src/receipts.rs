//! Receipts on disk, so that they outlive the daemon: for a day, and up to 100 MB.
//!
//! The engine's thread hands over what is new of receipts, before it tells watchers; a thread of its own writes that into files of lines
//! ([`line`]) in a folder beside the journal. A transaction waits for none of it. The files are not synchronised to disk: after a killed
//! process they have all that was handed over, but for what was on its way; after a loss of power they may lack more. What is missing
//! is not made up: a switch whose answer is not in the files is `unknown` in a receipt that is [read](Reader) from them.
//!
//! A full file is followed by the next one. The oldest file goes when all of them would be too large, or when it is too old. Receipts leave
//! most of the room on their disk to the journal, and old ones go when the disk is full: without room, the journal refuses all requests.

mod line;
mod reader;
#[cfg(test)]
mod tests;

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use memchr::{memchr, memrchr};
use tracing::{info, warn};
use weft_core::receipt::Update;

use self::line::{Begin, Line};
pub(crate) use self::reader::{Page, Reader};
use crate::journal::FILE_MODE;

/// The folder, beside the journal.
const FOLDER: &str = "receipts";
/// How long receipts are kept, and how many bytes of them.
pub(crate) const LIMITS: Limits = Limits { bytes: 100_000_000, age: Duration::from_hours(24) };
/// The files are parts of the limit: so many, of size and of age.
const PARTS: u32 = 16;
/// The share of the room on a disk that receipts may take, and what they may take in any case, in bytes.
const SHARE: u64 = 4;
const ROOM_MIN: u64 = 1_000_000;
/// What may wait to be written, in bytes. What is more is not recorded.
const WAITING_MAX: usize = 32 << 20;
/// The most bytes of a write, unless a single line is longer.
const WRITE_MAX: usize = 1 << 20;

/// How much is kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// The size of all files.
    pub(crate) bytes: u64,
    /// The age of a receipt.
    pub(crate) age: Duration,
}

/// The folder of the receipts that belong to a journal.
pub(crate) fn folder_of(journal: &Path) -> PathBuf {
    journal.with_file_name(FOLDER)
}

/// What the engine's thread hands over.
enum Message {
    Begin(Begin),
    Updates(usize, Vec<Arc<Update>>),
}

/// The way to the files. When it is dropped, all that was handed over is written.
pub(crate) struct ReceiptLog {
    queue: Option<mpsc::Sender<Message>>,
    /// The size of what waits.
    waiting: Arc<AtomicUsize>,
    waiting_max: usize,
    /// Whether updates are left out, since too many wait.
    is_behind: bool,
    /// The journal that the receipts belong to.
    journal: Option<String>,
    /// Whether nothing more comes.
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ReceiptLog {
    /// Opens the files in a folder, which is made if it does not exist. The journal with this identity ends with transaction `last_txn`:
    /// receipts of other transactions are of no journal that is there.
    pub(crate) fn open(
        folder: PathBuf,
        limits: Limits,
        journal: Option<&str>,
        last_txn: u64,
    ) -> io::Result<ReceiptLog> {
        let journal = journal.map(str::to_owned);
        let files = Files::open(folder, limits, Begin { journal: journal.clone(), txn: last_txn })?;
        let (queue, messages) = mpsc::channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let is_over = Arc::new(AtomicBool::new(false));
        let (written, ends) = (waiting.clone(), is_over.clone());
        let thread = std::thread::Builder::new().name("receipts".to_owned());
        let thread = thread.spawn(move || {
            files.say_what_is_damaged(&ends);
            files.write_all_of(&messages, &written);
        })?;
        let (queue, thread) = (Some(queue), Some(thread));
        let (waiting_max, is_behind) = (WAITING_MAX, false);
        Ok(ReceiptLog { queue, waiting, waiting_max, is_behind, journal, is_over, thread })
    }

    /// Hands over what is new, with its size, of receipts that belong to this journal.
    pub(crate) fn write(&mut self, updates: &[(usize, Arc<Update>)], journal: Option<&str>) {
        let Some(queue) = self.queue.as_ref().filter(|_| !updates.is_empty()) else { return };
        // The thread ends before the queue only if it panics. Then receipts are as lost as it says.
        if self.journal.as_deref() != journal {
            // It was empty until now, so all receipts that are there are of another one.
            self.journal = journal.map(str::to_owned);
            let _ = queue.send(Message::Begin(Begin { journal: self.journal.clone(), txn: 0 }));
        }
        let bytes = updates.iter().map(|(bytes, _)| bytes).sum::<usize>();
        let is_behind = self.waiting.load(Ordering::Relaxed) + bytes > self.waiting_max;
        if is_behind != self.is_behind {
            self.is_behind = is_behind;
            if is_behind {
                warn!("receipts come faster than they can be written; what is more is not recorded");
            } else {
                info!("receipts are recorded again");
            }
        }
        if !is_behind {
            self.waiting.fetch_add(bytes, Ordering::Relaxed);
            let updates = updates.iter().map(|(_, update)| update.clone()).collect();
            let _ = queue.send(Message::Updates(bytes, updates));
        }
    }
}

impl Drop for ReceiptLog {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.queue = None;
        if let Some(Err(_)) = self.thread.take().map(JoinHandle::join) {
            warn!("the thread that writes receipts has panicked");
        }
    }
}

/// The files of a folder, the last one open for appending.
struct Files {
    folder: PathBuf,
    limits: Limits,
    /// The last file: its number, its size, and since when it is the last one.
    number: u64,
    file: File,
    bytes: u64,
    begun: SystemTime,
    /// What a new file begins with.
    begin: Begin,
    /// Whether the last write failed.
    is_failing: bool,
    /// The bytes of all files that the disk has room for, at most those of the limits.
    allowed: u64,
    /// The bytes that are free on the disk of a folder.
    free: fn(&Path) -> io::Result<u64>,
}

impl Files {
    fn open(folder: PathBuf, limits: Limits, begin: Begin) -> io::Result<Files> {
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let number = numbers(&folder)?.last().copied().unwrap_or(1);
        let path = path_of(&folder, number);
        let file = append_to(&path)?;
        let bytes = cut_torn_end(&path, &file)?;
        let begun = SystemTime::now();
        let allowed = limits.bytes;
        let mut files =
            Files { folder, limits, number, file, bytes, begun, begin, is_failing: false, allowed, free };
        let mut text = Vec::new();
        Line::begin(&files.begin).add_to(&mut text);
        files.tidy(begun)?;
        files.append(&text)?;
        Ok(files)
    }

    /// Writes what comes until nothing more can come.
    fn write_all_of(mut self, messages: &mpsc::Receiver<Message>, waiting: &AtomicUsize) {
        let mut text = Vec::new();
        let idle = self.limits.age / PARTS;
        loop {
            let mut next = match messages.recv_timeout(idle) {
                Ok(message) => Some(message),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let mut taken = 0;
            while let Some(message) = next {
                taken += self.take(message, &mut text);
                next = if text.len() < WRITE_MAX { messages.try_recv().ok() } else { None };
            }
            let now = SystemTime::now();
            let written = self.write(&text, now);
            if written.is_err() {
                // Perhaps the disk is full: the journal needs the room more.
                let _ = self.tidy(now);
            }
            self.follow(written);
            waiting.fetch_sub(taken, Ordering::Relaxed);
            text.clear();
            text.shrink_to(WRITE_MAX);
        }
    }

    /// Adds the lines of a message. Returns the size that it had in the queue.
    fn take(&mut self, message: Message, text: &mut Vec<u8>) -> usize {
        match message {
            Message::Begin(begin) => {
                Line::begin(&begin).add_to(text);
                self.begin = begin;
                0
            }
            Message::Updates(bytes, updates) => {
                for update in updates {
                    if let Update::New(receipt) = &*update {
                        self.begin.txn = self.begin.txn.max(receipt.txn);
                    }
                    Line::of(&update).add_to(text);
                }
                bytes
            }
        }
    }

    /// Writes lines into the last file, and into new ones when it is full or old.
    fn write(&mut self, mut text: &[u8], now: SystemTime) -> io::Result<()> {
        if text.is_empty() {
            return self.tidy(now);
        }
        let part = self.allowed / u64::from(PARTS);
        let fit = |text: &[u8], bytes: u64| {
            let room = part.saturating_sub(bytes).min(text.len() as u64);
            memrchr(b'\n', &text[..room as usize]).map_or(0, |feed| feed + 1)
        };
        while !text.is_empty() {
            let age = now.duration_since(self.begun).unwrap_or_default();
            let mut end = fit(text, self.bytes);
            if end == 0 || age > self.limits.age / PARTS {
                self.begin_file(now)?;
                // A line that is longer than a file has one to itself.
                let first = || memchr(b'\n', text).map_or(text.len(), |feed| feed + 1);
                end = Some(fit(text, self.bytes)).filter(|end| *end > 0).unwrap_or_else(first);
            }
            let (lines, rest) = text.split_at(end);
            self.append(lines)?;
            text = rest;
        }
        Ok(())
    }

    /// Goes on in a new file. It says again which journal the receipts belong to, since the file that said it may go.
    fn begin_file(&mut self, now: SystemTime) -> io::Result<()> {
        let (number, mut first) = (self.number + 1, Vec::new());
        Line::begin(&self.begin).add_to(&mut first);
        let path = path_of(&self.folder, number);
        let mut file = append_to(&path)?;
        if let Err(error) = file.write_all(&first) {
            fs::remove_file(&path)?;
            return Err(error);
        }
        (self.number, self.file, self.bytes, self.begun) = (number, file, first.len() as u64, now);
        self.tidy(now)
    }

    fn append(&mut self, text: &[u8]) -> io::Result<()> {
        if let Err(error) = self.file.write_all(text) {
            // A part of it may be there.
            self.file.set_len(self.bytes)?;
            return Err(error);
        }
        self.bytes += text.len() as u64;
        Ok(())
    }

    /// Removes the oldest files that are too much, or too old.
    fn tidy(&mut self, now: SystemTime) -> io::Result<()> {
        let mut old = Vec::new();
        for number in numbers(&self.folder)?.into_iter().filter(|number| *number < self.number) {
            let path = path_of(&self.folder, number);
            let metadata = fs::metadata(&path)?;
            old.push((path, metadata.len(), metadata.modified()?));
        }
        let older: u64 = old.iter().map(|(_, bytes, _)| bytes).sum();
        let room = (self.free)(&self.folder)? + self.bytes + older;
        self.allowed = self.limits.bytes.min((room / SHARE).max(ROOM_MIN));
        let part = self.allowed / u64::from(PARTS);
        let mut bytes = self.bytes.max(part) + older;
        for (path, size, written) in old {
            let age = now.duration_since(written).unwrap_or_default();
            if bytes > self.allowed || age > self.limits.age {
                fs::remove_file(&path)?;
                bytes -= size;
            }
        }
        Ok(())
    }

    /// Says when writing begins to fail, and when it succeeds again.
    fn follow(&mut self, written: io::Result<()>) {
        let folder = self.folder.display();
        match written {
            Err(error) if !self.is_failing => {
                warn!(%folder, %error, "receipts cannot be written, so the next start will not know them; transactions go on");
                self.is_failing = true;
            }
            Ok(()) if self.is_failing => {
                info!(%folder, "receipts can be written again");
                self.is_failing = false;
            }
            _ => {}
        }
    }

    /// Logs damage once at a start. Whoever reads leaves out damaged lines without a word. Does not keep the controller from ending.
    fn say_what_is_damaged(&self, is_over: &AtomicBool) {
        for number in numbers(&self.folder).unwrap_or_default() {
            let path = path_of(&self.folder, number);
            let mut damaged = 0;
            let counted = reader::lines(&path, |text| {
                damaged += usize::from(!line::is_intact(text));
                !is_over.load(Ordering::Relaxed)
            });
            if let Err(error) = counted {
                warn!(file = %path.display(), %error, "receipts cannot be read");
            } else if damaged > 0 {
                warn!(file = %path.display(), lines = damaged, "receipts are damaged; what these lines said is left out");
            }
        }
    }
}

fn free(folder: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(folder)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).append(true).create(true).mode(FILE_MODE).open(path)
}

/// Cuts off what a crash left behind the last intact line. Returns the size that remains.
fn cut_torn_end(path: &Path, file: &File) -> io::Result<u64> {
    let text = fs::read(path)?;
    let mut end = text.len();
    while end > 0 {
        let (line, feed) = text[..end].split_at(end - 1);
        let begin = memrchr(b'\n', line).map_or(0, |at| at + 1);
        if feed == b"\n" && line::is_intact(&line[begin..]) {
            break;
        }
        end = begin;
    }
    if end < text.len() {
        let bytes = text.len() - end;
        warn!(file = %path.display(), bytes, "the end of the receipts was not written whole; it is removed");
        file.set_len(end as u64)?;
    }
    Ok(end as u64)
}

/// The numbers of the files, the oldest first. Other files are none of ours.
fn numbers(folder: &Path) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(".jsonl")?.parse().ok());
        numbers.extend(number.filter(|number| path_of(folder, *number).file_name() == Some(&*name)));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

fn path_of(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:08}.jsonl"))
}
