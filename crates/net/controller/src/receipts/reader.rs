//! Reads receipts back from the files.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use nlog_data::Cancel;
use tonic::Status;

use super::line::{self, Line, New, State, What};
use super::{LIMITS, Limits, numbers, path_of};
use weft_client::pb;

/// The bytes of lines that are read at a time. A single receipt may have more.
const PAGE_BYTES: usize = 8 << 20;
/// The bytes that are read from a file at a time.
const BLOCK: usize = 1 << 18;

/// Reads receipts while others are written.
#[derive(Debug, Clone)]
pub(crate) struct Reader {
    folder: PathBuf,
    limits: Limits,
    page_bytes: usize,
}

/// Receipts in order.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) receipts: Vec<pb::Receipt>,
    /// The transaction that the next page begins with, if there may be one.
    pub(crate) next: Option<u64>,
}

/// Calls this with each line of a file without its line feed, until it returns false. A last line without one is not ours yet.
pub(super) fn lines(path: &Path, mut take: impl FnMut(&[u8]) -> bool) -> io::Result<()> {
    let file = match File::open(path) {
        // It has become too old meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        file => file?,
    };
    let (mut file, mut text) = (BufReader::with_capacity(BLOCK, file), Vec::new());
    while file.read_until(b'\n', &mut text)? > 0 {
        if text.pop() != Some(b'\n') || !take(&text) {
            break;
        }
        text.clear();
    }
    Ok(())
}

impl Reader {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self::with_limits(folder, LIMITS, PAGE_BYTES)
    }

    pub(super) fn with_limits(folder: PathBuf, limits: Limits, page_bytes: usize) -> Self {
        Reader { folder, limits, page_bytes }
    }

    /// The receipts from transaction `from` on and before transaction `before`, as far as they are kept. Reads all files once.
    pub(crate) fn page(
        &self,
        from: u64,
        before: u64,
        now: SystemTime,
        cancel: &Cancel,
    ) -> Result<Page, Status> {
        let unreadable = |error: io::Error| {
            Status::internal(format!("cannot read the receipts in {}: {error}", self.folder.display()))
        };
        let mut found = Found {
            from,
            end: before,
            most: self.page_bytes,
            bytes: 0,
            journal: None,
            receipts: BTreeMap::new(),
        };
        let numbers = match numbers(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            numbers => numbers.map_err(unreadable)?,
        };
        for number in numbers {
            let read = lines(&path_of(&self.folder, number), |text| {
                found.take(text);
                !cancel.is_cancelled()
            });
            read.map_err(unreadable)?;
            if cancel.is_cancelled() {
                return Err(Status::cancelled("nobody waits for the receipts any more"));
            }
        }
        let next = Some(found.end).filter(|end| *end < before);
        let is_kept = |new: &New| {
            let at = humantime::parse_rfc3339(&new.at).ok();
            at.is_some_and(|at| now.duration_since(at).unwrap_or_default() <= self.limits.age)
        };
        let kept = found.receipts.into_iter().filter(|(_, (_, new))| is_kept(new));
        Ok(Page { receipts: kept.map(|(txn, (_, new))| new.message(txn)).collect(), next })
    }
}

/// What lines have said so far.
struct Found {
    /// The receipts from here on are wanted.
    from: u64,
    /// Those from here on are for another page.
    end: u64,
    most: usize,
    /// The length of the lines of the receipts.
    bytes: usize,
    /// The journal that they belong to; `None` if nothing has said it, or if it is empty and so has none.
    journal: Option<String>,
    /// With the length of its line.
    receipts: BTreeMap<u64, (usize, New)>,
}

impl Found {
    fn take(&mut self, text: &[u8]) {
        let Some((txn, is_begin)) = line::glance(text) else { return };
        if !is_begin && !(self.from..self.end).contains(&txn) {
            return;
        }
        match Line::read(text) {
            Some(Line { txn, what: What::Begin(journal) }) => self.begin(txn, journal),
            Some(Line { txn, what: What::New(new) }) => self.add(txn, text.len(), new),
            Some(Line { txn, what: What::Progress(progress) }) => self.advance(txn, progress),
            None => {}
        }
    }

    fn begin(&mut self, last: u64, journal: Option<String>) {
        if self.journal.is_some() && self.journal != journal {
            self.receipts.clear();
        }
        self.journal = journal;
        // A journal that was restored from a copy has them no more.
        self.receipts.retain(|txn, _| *txn <= last);
        self.bytes = self.receipts.values().map(|(bytes, _)| bytes).sum();
    }

    fn add(&mut self, txn: u64, bytes: usize, new: New) {
        self.bytes += bytes;
        if let Some((bytes, _)) = self.receipts.insert(txn, (bytes, new)) {
            self.bytes -= bytes;
        }
        while self.bytes > self.most && self.receipts.len() > 1 {
            let Some((txn, (bytes, _))) = self.receipts.pop_last() else { break };
            self.bytes -= bytes;
            self.end = txn;
        }
    }

    fn advance(&mut self, txn: u64, progress: Vec<(String, State)>) {
        let Some((_, new)) = self.receipts.get_mut(&txn) else { return };
        for (node, state) in progress {
            // They are ordered by name.
            if let Ok(at) = new.switches.binary_search_by(|switch| switch.node.cmp(&node)) {
                new.switches[at].state = state;
            }
        }
    }
}
