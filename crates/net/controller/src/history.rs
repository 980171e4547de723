//! What was changed, by whom and when, and the objects as they were: read from the journal.

pub(crate) mod stale;

use std::collections::{BTreeMap, BTreeSet, btree_map};
use std::fmt;
use std::path::Path;

use memchr::memmem;
use nlog_data::Cancel;
use objects::{ObjectKey, Outcome};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::Value as Json;
use serde_json::value::RawValue;
use tonic::Status;
use weft_core::peer::Peer;

use crate::journal::{Backwards, Segment, folder_of, number, segments};

/// The most transactions of an answer, and how many there are unless somebody says so.
const LIMIT_MAX: usize = 1000;
const LIMIT: usize = 50;
/// The most objects that are named of one transaction.
const OBJECTS_MAX: usize = 1000;

/// What is asked for.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// The object; all if there is none.
    pub(crate) of: Option<ObjectKey>,
    /// The newest transaction.
    pub(crate) newest: u64,
    /// The most transactions; 0 for a page.
    pub(crate) limit: usize,
}

/// A transaction that changed objects.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) txn: u64,
    pub(crate) at: String,
    pub(crate) by: String,
    /// Who that was according to the system, if anybody is known.
    pub(crate) peer: String,
    /// The first objects that it changed, or the one that is asked for.
    pub(crate) changes: Vec<(ObjectKey, Outcome)>,
    /// The number of further ones.
    pub(crate) more: usize,
    /// The one that is asked for as it was after that, as JSON.
    pub(crate) object: Option<String>,
}

/// Transactions, the newest first.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) entries: Vec<Entry>,
    /// Whether there are older ones.
    pub(crate) has_more: bool,
}

/// A line of the journal, as far as it says what became of objects.
#[derive(Deserialize)]
struct Line<'a> {
    txn: u64,
    at: String,
    by: String,
    #[serde(default)]
    peer: Option<Peer>,
    #[serde(default, borrow)]
    objects: Objects<'a>,
    #[serde(default)]
    insert: BTreeMap<String, Vec<First>>,
    #[serde(default)]
    delete: BTreeMap<String, Vec<First>>,
    /// If the line stands for all before it, which are not kept.
    #[serde(default)]
    base: Option<IgnoredAny>,
}

/// The first column of a row, if it is a text: in the table of a kind, the id of the object.
struct First(Option<String>);

impl<'de> Deserialize<'de> for First {
    fn deserialize<D: Deserializer<'de>>(row: D) -> Result<Self, D::Error> {
        struct Columns;
        impl<'de> Visitor<'de> for Columns {
            type Value = First;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a row")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut columns: A) -> Result<First, A::Error> {
                let first = columns.next_element::<Json>()?;
                while columns.next_element::<IgnoredAny>()?.is_some() {}
                Ok(First(first.and_then(|first| first.as_str().map(str::to_owned))))
            }
        }
        row.deserialize_seq(Columns)
    }
}

#[derive(Default, Deserialize)]
struct Objects<'a> {
    #[serde(default, borrow)]
    put: Vec<&'a RawValue>,
    #[serde(default)]
    delete: Vec<(String, String)>,
}

#[derive(Deserialize)]
struct Name {
    kind: String,
    id: String,
}

impl Line<'_> {
    /// The objects that are there after the transaction, each with its text.
    fn put(&self) -> impl Iterator<Item = (ObjectKey, &str)> {
        self.objects.put.iter().filter_map(|text| {
            let Name { kind, id } = serde_json::from_str(text.get()).ok()?;
            Some((ObjectKey::new(kind, id), text.get()))
        })
    }

    fn deleted(&self) -> impl Iterator<Item = ObjectKey> {
        self.objects.delete.iter().map(|(kind, id)| ObjectKey::new(kind.as_str(), id.as_str()))
    }
}

/// The lines of the journal that change objects, the newest first, with the text that each must have. What a fold stands for is in the
/// segments before it, as far as they are kept.
struct Lines {
    journal: Backwards,
    /// The segments that are still to be read, the oldest first.
    segments: Vec<Segment>,
    /// The number of the last line that was taken; more than any at first.
    last: u64,
    /// The ids of which lines must name one, in quotes; any line if there are none.
    ids: Vec<String>,
    /// The bytes that are still read.
    left: u64,
}

impl Lines {
    fn open(journal: &Path, of: Option<&ObjectKey>) -> Result<Self, Status> {
        Self::open_for(journal, of.into_iter())
    }

    /// The lines about any of these objects.
    fn open_for<'k>(journal: &Path, of: impl Iterator<Item = &'k ObjectKey>) -> Result<Self, Status> {
        let ids = of.map(|key| Json::from(&*key.id).to_string()).collect();
        let unreadable = |error| unreadable(journal, &error);
        let lines = Backwards::open(journal).map_err(unreadable)?;
        // Later, so that a journal that was folded in between is among them.
        let segments = segments(folder_of(journal)).map_err(unreadable)?;
        Ok(Lines { journal: lines, segments, last: u64::MAX, ids, left: u64::MAX })
    }

    /// Reads about so much and no more.
    fn bound(&mut self, bytes: u64) {
        self.left = bytes;
    }

    /// The next line that may be meant.
    fn next(&mut self, cancel: &Cancel) -> Result<Option<Vec<u8>>, Status> {
        loop {
            if cancel.is_cancelled() {
                return Err(Status::cancelled("nobody waits for the history any more"));
            }
            if self.left == 0 {
                return Ok(None);
            }
            let line = self.journal.line().map_err(|error| Status::internal(error.to_string()))?;
            let Some(line) = line else {
                let Some(segment) = self.segments.pop() else { return Ok(None) };
                self.journal =
                    Backwards::open(&segment.path).map_err(|error| unreadable(&segment.path, &error))?;
                continue;
            };
            self.left = self.left.saturating_sub(line.len() as u64);
            // A segment ends with lines that the file after it has too.
            let Some(txn) = number(&line).filter(|txn| *txn < self.last) else { continue };
            let names = |text: &str| memmem::find(&line, text.as_bytes()).is_some();
            let is_meant =
                names("\"objects\":{") && (self.ids.is_empty() || self.ids.iter().any(|id| names(id)));
            let is_fold = self.journal.is_over() && names(",\"base\":{");
            if is_fold && !self.segments.is_empty() {
                // The transaction itself is in the segment.
                continue;
            }
            self.last = txn;
            if is_meant {
                return Ok(Some(line));
            }
        }
    }
}

fn unreadable(journal: &Path, error: &std::io::Error) -> Status {
    Status::internal(format!("cannot read the journal {}: {error}", journal.display()))
}

/// The transactions that changed objects, or one object.
pub(crate) fn find(journal: &Path, asked: &Asked, cancel: &Cancel) -> Result<Found, Status> {
    let limit = if asked.limit == 0 { LIMIT } else { asked.limit.min(LIMIT_MAX) };
    let mut lines = Lines::open(journal, asked.of.as_ref())?;
    let mut entries = Vec::new();
    while let Some(text) = lines.next(cancel)? {
        let Ok(line) = serde_json::from_slice::<Line<'_>>(&text) else { continue };
        if line.base.is_some() {
            break;
        }
        if line.txn > asked.newest {
            continue;
        }
        let Some(entry) = entry(&line, asked.of.as_ref()) else { continue };
        if entries.len() == limit {
            return Ok(Found { entries, has_more: true });
        }
        entries.push(entry);
    }
    Ok(Found { entries, has_more: false })
}

/// What a line says; nothing if it does not change what is asked for.
fn entry(line: &Line<'_>, of: Option<&ObjectKey>) -> Option<Entry> {
    // A new object has a new row in the table of its kind, and leaves no old one. One whose labels alone change has neither.
    let [inserted, left] = [&line.insert, &line.delete].map(keys_of);
    let is_new = |key: &ObjectKey| inserted.contains(key) && !left.contains(key);
    let mut object = None;
    let mut changes = Vec::new();
    for (key, text) in line.put() {
        if of.is_some_and(|of| *of != key) {
            continue;
        }
        object = of.map(|_| text.to_owned());
        let outcome = if is_new(&key) { Outcome::Created } else { Outcome::Updated };
        changes.push((key, outcome));
    }
    changes.extend(
        line.deleted().filter(|key| of.is_none_or(|of| of == key)).map(|key| (key, Outcome::Deleted)),
    );
    if changes.is_empty() {
        return None;
    }
    let more = changes.len().saturating_sub(OBJECTS_MAX);
    changes.truncate(OBJECTS_MAX);
    let peer = line.peer.as_ref().map(ToString::to_string).unwrap_or_default();
    Some(Entry { txn: line.txn, at: line.at.clone(), by: line.by.clone(), peer, changes, more, object })
}

/// What rows of the tables of kinds are named by.
fn keys_of(rows: &BTreeMap<String, Vec<First>>) -> BTreeSet<ObjectKey> {
    let rows = rows.iter().flat_map(|(kind, rows)| rows.iter().map(move |row| (kind, row)));
    rows.filter_map(|(kind, First(id))| Some(ObjectKey::new(kind.as_str(), id.as_deref()?))).collect()
}

/// The objects that changed since a transaction, as they were after it: as JSON, or not there.
pub(crate) type Back = BTreeMap<ObjectKey, Option<String>>;

/// Reads what brings objects back from what they are after transaction `from` to what they were after transaction `to`.
pub(crate) fn back(journal: &Path, from: u64, to: u64, cancel: &Cancel) -> Result<Back, Status> {
    let mut lines = Lines::open(journal, None)?;
    // The objects that changed since then, and whose state at that time is not known yet.
    let mut wanted: BTreeSet<ObjectKey> = BTreeSet::new();
    let mut then = Back::new();
    while let Some(text) = lines.next(cancel)? {
        let Ok(line) = serde_json::from_slice::<Line<'_>>(&text) else { continue };
        if line.txn > from {
            continue;
        }
        if line.txn > to && line.base.is_some() {
            return Err(Status::out_of_range(format!(
                "what was before transaction {} is not kept any more (`journal_size` and `journal_days` in the configuration say for how \
                 long it is); roll back to that or a later one",
                line.txn
            )));
        }
        if line.txn > to {
            wanted.extend(line.put().map(|(key, _)| key).chain(line.deleted()));
            continue;
        }
        let put = line.put().map(|(key, text)| (key, Some(text.to_owned())));
        for (key, object) in put.chain(line.deleted().map(|key| (key, None))) {
            if wanted.remove(&key)
                && let btree_map::Entry::Vacant(place) = then.entry(key)
            {
                place.insert(object);
            }
        }
        if wanted.is_empty() {
            break;
        }
    }
    // What no transaction up to then names was not there.
    then.extend(wanted.into_iter().map(|key| (key, None)));
    Ok(then)
}
