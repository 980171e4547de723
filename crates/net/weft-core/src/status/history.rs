//! The objects as they are and as they were a while ago, from which readers get pages and changes that fit together.
//!
//! # Revisions
//!
//! A *revision* numbers a publication that changed an object, its state or its problems. For every revision from
//! [`History::since`] on, this holds: **the list at a revision, with the versions after it, is the list now.**
//!
//! The number of the last transaction cannot be the revision. What is published about objects also changes without a transaction:
//! probes find a fault of a tunnel, a host reports an interface that no object has, the engine derives again what was damaged. Two
//! different lists would then have one revision. After a start with other rules, even the same transactions give other states.
//! So revisions count on by themselves, and the count begins anew with each start of the controller.
//!
//! A client that keeps a revision over a restart must not be given changes since another moment. So the first revision of a start is
//! its time, in microseconds since 1970. Publications come more slowly than one per microsecond, because each waits for the journal's
//! disk, so the revisions of an earlier start are less than the first of this one: too old, and the client lists again. If the
//! clock was set back meanwhile, an old revision is ahead of the newest and is refused for that, with the same remedy. It could only be
//! taken for another one if the clock were set back to the very second of the earlier start.
//!
//! These numbers are less than 2⁵³ until the year 2255, so readers of JSON with floating-point numbers get them exactly. 0 is no revision
//! of a controller that has started, so messages can leave it out.
//!
//! # Bounds
//!
//! The history is bounded by bytes and by number: in a small network, by twice the number of its objects ([`Bounds`]). The oldest revisions go
//! first, each as a whole. Whoever asks for one that is gone lists again. A watcher has no queue: it has a [`Cursor`], and reads from here at its own pace.

use std::collections::btree_map;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::iter::Peekable;
use std::ops::Bound;
use std::sync::Arc;
use std::time::SystemTime;

use objects::ObjectKey;

use super::seen::Seen;

/// A change of one object, its state or its problems.
#[derive(Debug, Clone)]
pub struct Version {
    /// The object.
    pub key: ObjectKey,
    /// The revision that made the change.
    pub revision: u64,
    /// The object before the change; `None` if it was created. A watcher with a selector tells by it whether its client knows the object.
    pub before: Option<Arc<Seen>>,
    /// The object after it; `None` if it was deleted.
    pub after: Option<Arc<Seen>>,
    /// Whether it is the last of its revision. A watcher of some kinds may never see that one: see [`Cursor::revision`].
    pub is_last: bool,
    /// About the bytes that it keeps in memory.
    bytes: usize,
}

impl Version {
    /// About the bytes that it keeps in memory.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// A revision that a reader asks for and that cannot be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RevisionError {
    /// The history does not reach back so far.
    #[error(
        "revision {asked} is too old: the controller knows the changes after revision {oldest} only, because it started then or has \
         dropped older ones; list the objects again, and go on from the revision of that list"
    )]
    TooOld {
        /// The revision asked for.
        asked: u64,
        /// The oldest that can be served.
        oldest: u64,
        /// The newest.
        newest: u64,
    },
    /// There is no such revision yet.
    #[error(
        "revision {asked} is ahead of the newest, {newest}: it comes from another controller, or the clock was set back before the \
         controller started; list the objects again, and go on from the revision of that list"
    )]
    Ahead {
        /// The revision asked for.
        asked: u64,
        /// The newest.
        newest: u64,
    },
}

/// The place of a watcher in the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// The number of the version that comes next.
    next: u64,
    revision: u64,
}

impl Cursor {
    /// The revision whose versions, and all before, the watcher has got. A client that lost its connection can go on from here, but not
    /// from the revision of a version: others of the same revision may have been missing.
    pub fn revision(&self) -> u64 {
        self.revision
    }
}

/// Versions that follow a [`Cursor`].
#[derive(Debug, Clone)]
pub struct Following {
    /// The versions, in the order in which they happened.
    pub versions: Vec<Arc<Version>>,
    /// Where the watcher goes on.
    pub cursor: Cursor,
    /// Whether there are more already.
    pub has_more: bool,
}

/// The size of the history.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// The most versions, however many objects there are.
    pub(super) versions: usize,
    /// The most versions where two for each object are less. The newest revision stays even if it has more: whoever was up to date before a
    /// large deletion learns of it.
    pub(super) of_few_objects: usize,
    pub(super) bytes: usize,
}

impl Default for Bounds {
    /// So many versions are a hundred seconds of a thousand changes a second. A client that reads at all is not that far behind, and a list of all
    /// objects takes less. A replaced port keeps some 800 bytes, and one whose state changes less, so in a network of
    /// ports both limits are near each other. That of bytes is for objects of many kilobytes, such as groups with thousands of addresses.
    /// In a small network, whoever is two changes of each object behind lists again with less work, and the past takes no more memory
    /// than the network.
    fn default() -> Self {
        Bounds { versions: 100_000, of_few_objects: 4096, bytes: 64 << 20 }
    }
}

/// The most versions that a watcher looks at in one turn, while it holds the lock: a fraction of a millisecond.
const LOOKED_AT: usize = 4096;

/// About the bytes of a version without its objects: itself, its place in the order, and its place in the map by object, which are a key
/// and a queue with room for four.
const VERSION_BYTES: usize =
    size_of::<Version>() + 24 + size_of::<(Arc<str>, VecDeque<Arc<Version>>)>() + 4 * 8;

type ById<T> = BTreeMap<Arc<str>, T>;

/// The objects now, and their last changes.
#[derive(Debug, Default)]
pub(super) struct History {
    /// The objects by kind and id. Every kind is there.
    now: BTreeMap<Arc<str>, ById<Arc<Seen>>>,
    newest: u64,
    /// All changes after this revision are known.
    since: u64,
    versions: VecDeque<Arc<Version>>,
    /// The number of the first of them, counted since the start.
    first: u64,
    /// The revision with which it began.
    begun: u64,
    /// By kind, the revision of the last version that was dropped. A watcher of other kinds misses nothing by that.
    dropped: BTreeMap<Arc<str>, u64>,
    /// The same versions by kind and id.
    by_object: BTreeMap<Arc<str>, ById<VecDeque<Arc<Version>>>>,
    /// About the bytes of all versions.
    bytes: usize,
    bounds: Bounds,
}

/// Some of the objects of a kind at a revision.
#[derive(Debug)]
pub(super) struct Looked {
    pub(super) revision: u64,
    pub(super) objects: Vec<Arc<Seen>>,
    /// The last id that was looked at, if there may be more.
    pub(super) next: Option<Arc<str>>,
}

/// The first revision of a controller that starts at this time.
pub(super) fn first_revision(start: SystemTime) -> u64 {
    let since_1970 = start.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_1970.as_micros()).unwrap_or(u64::MAX / 2).max(1)
}

impl History {
    #[cfg(test)]
    pub(super) fn bounded(bounds: Bounds) -> Self {
        History { bounds, ..History::default() }
    }

    /// Begins with objects of these kinds, at this revision. Nothing is known of before.
    pub(super) fn begin(&mut self, kinds: impl Iterator<Item = Arc<str>>, revision: u64) {
        let bounds = self.bounds;
        *self = History { bounds, newest: revision, since: revision, begun: revision, ..History::default() };
        self.now = kinds.map(|kind| (kind, BTreeMap::new())).collect();
    }

    /// Fills a history that has just begun. That makes no versions.
    pub(super) fn fill(&mut self, objects: impl IntoIterator<Item = (ObjectKey, Arc<Seen>)>) {
        for (ObjectKey { kind, id }, seen) in objects {
            self.now.entry(kind).or_default().insert(id, seen);
        }
    }

    /// About the bytes of all versions.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The newest revision.
    pub(super) fn newest(&self) -> u64 {
        self.newest
    }

    /// The kinds, with their objects as they are now.
    pub(super) fn kinds(&self) -> impl Iterator<Item = (&Arc<str>, &ById<Arc<Seen>>)> {
        self.now.iter()
    }

    /// An object as it is now.
    pub(super) fn get(&self, kind: &str, id: &str) -> Option<&Arc<Seen>> {
        self.now.get(kind)?.get(id)
    }

    /// Objects change: what each of them is now, or that it is no more. Nothing happens if there are none. Returns the versions that
    /// the history drops for it, so that the caller frees their memory while it holds no lock.
    pub(super) fn change(&mut self, changes: Vec<(ObjectKey, Option<Arc<Seen>>)>) -> Vec<Arc<Version>> {
        let revision = self.newest + 1;
        let mut versions = Vec::with_capacity(changes.len());
        for (key, after) in changes {
            let of_kind = self.now.entry(key.kind.clone()).or_default();
            let before = match &after {
                Some(after) => of_kind.insert(key.id.clone(), after.clone()),
                None => of_kind.remove(&key.id),
            };
            if before.is_some() || after.is_some() {
                let kept = before.as_ref().map_or(0, |before| before.bytes_beside(after.as_deref()));
                let bytes = VERSION_BYTES + kept;
                versions.push(Version { key, revision, before, after, is_last: false, bytes });
            }
        }
        let Some(last) = versions.last_mut() else { return Vec::new() };
        last.is_last = true;
        self.newest = revision;
        for version in versions {
            self.remember(Arc::new(version));
        }
        self.forget()
    }

    fn remember(&mut self, version: Arc<Version>) {
        self.bytes += version.bytes;
        let ObjectKey { kind, id } = version.key.clone();
        self.by_object.entry(kind).or_default().entry(id).or_default().push_back(version.clone());
        self.versions.push_back(version);
    }

    /// Drops the oldest revisions until the rest is within the bounds.
    fn forget(&mut self) -> Vec<Arc<Version>> {
        let objects: usize = self.now.values().map(BTreeMap::len).sum();
        let of_few = self.bounds.of_few_objects.max(2 * objects);
        let mut dropped = Vec::new();
        while let Some(oldest) = self.versions.front()
            && (self.versions.len() > self.bounds.versions
                || self.bytes > self.bounds.bytes
                || (self.versions.len() > of_few && oldest.revision < self.newest))
        {
            self.since = oldest.revision;
            while let Some(version) = self.versions.pop_front_if(|version| version.revision == self.since) {
                self.first += 1;
                self.bytes -= version.bytes;
                let ObjectKey { kind, id } = &version.key;
                self.dropped.insert(kind.clone(), self.since);
                if let Some(of_kind) = self.by_object.get_mut(kind)
                    && let Some(of_object) = of_kind.get_mut(id)
                {
                    of_object.pop_front();
                    if of_object.is_empty() {
                        of_kind.remove(id);
                    }
                }
                dropped.push(version);
            }
        }
        dropped
    }

    fn check(&self, asked: u64) -> Result<(), RevisionError> {
        let (oldest, newest) = (self.since, self.newest);
        if asked > newest {
            Err(RevisionError::Ahead { asked, newest })
        } else if asked < oldest {
            Err(RevisionError::TooOld { asked, oldest, newest })
        } else {
            Ok(())
        }
    }

    /// Looks at so many objects of a kind that follow an id, as they were at a revision or are now.
    pub(super) fn look(
        &self,
        kind: &str,
        after: Option<&str>,
        at: Option<u64>,
        most: usize,
    ) -> Result<Looked, RevisionError> {
        let revision = at.unwrap_or(self.newest);
        self.check(revision)?;
        // Of a list of now, no object needs to be corrected.
        let changed = self.by_object.get(kind).filter(|_| revision < self.newest);
        let mut past = Past {
            now: following(self.now.get(kind), after).peekable(),
            changed: following(changed, after).peekable(),
            revision,
        };
        let (mut objects, mut last) = (Vec::new(), None);
        for (id, seen) in past.by_ref().take(most) {
            objects.extend(seen.cloned());
            last = Some(id);
        }
        let next = past.next().and(last).cloned();
        Ok(Looked { revision, objects, next })
    }

    /// The place after a revision.
    pub(super) fn cursor(&self, revision: u64) -> Result<Cursor, RevisionError> {
        self.check(revision)?;
        let known = self.versions.partition_point(|version| version.revision <= revision);
        Ok(Cursor { next: self.first + known as u64, revision })
    }

    /// At most so many versions of objects of these kinds, or of all, that follow the cursor.
    pub(super) fn follow(
        &self,
        cursor: &Cursor,
        kinds: Option<&BTreeSet<Arc<str>>>,
        most: usize,
    ) -> Result<Following, RevisionError> {
        let &Cursor { mut next, mut revision } = cursor;
        if revision < self.since {
            let is_missed = |(kind, last): (&Arc<str>, &u64)| {
                revision < *last && kinds.is_none_or(|kinds| kinds.contains(kind))
            };
            if revision < self.begun || self.dropped.iter().any(is_missed) {
                let (oldest, newest) = (self.since, self.newest);
                return Err(RevisionError::TooOld { asked: revision, oldest, newest });
            }
            (next, revision) = (self.first, self.since);
        }
        let known = usize::try_from(next - self.first).unwrap_or(usize::MAX).min(self.versions.len());
        let mut versions = Vec::new();
        for version in self.versions.range(known..).take(LOOKED_AT) {
            if versions.len() >= most.max(1) {
                break;
            }
            if kinds.is_none_or(|kinds| kinds.contains(&version.key.kind)) {
                versions.push(version.clone());
            }
            next += 1;
            if version.is_last {
                revision = version.revision;
            }
        }
        let has_more = next < self.first + self.versions.len() as u64;
        Ok(Following { versions, cursor: Cursor { next, revision }, has_more })
    }
}

/// What follows an id.
fn following<'a, T>(of_kind: Option<&'a ById<T>>, after: Option<&str>) -> Objects<'a, T> {
    let from: Bound<&str> = after.map_or(Bound::Unbounded, Bound::Excluded);
    of_kind.map(|of_kind| of_kind.range::<str, _>((from, Bound::Unbounded))).into_iter().flatten()
}

type Objects<'a, T> = std::iter::Flatten<std::option::IntoIter<btree_map::Range<'a, Arc<str>, T>>>;

/// The objects of a kind at a revision, in the order of ids: each id that had an object then, has one now or had one meanwhile.
struct Past<'a> {
    now: Peekable<Objects<'a, Arc<Seen>>>,
    changed: Peekable<Objects<'a, VecDeque<Arc<Version>>>>,
    revision: u64,
}

impl<'a> Iterator for Past<'a> {
    type Item = (&'a Arc<str>, Option<&'a Arc<Seen>>);

    fn next(&mut self) -> Option<Self::Item> {
        let now = self.now.peek().map(|(id, _)| &***id);
        let changed = self.changed.peek().map(|(id, _)| &***id);
        let is_first = |id: Option<&str>, other: Option<&str>| {
            id.is_some_and(|id| other.is_none_or(|other| id <= other))
        };
        let (takes_now, takes_changed) = (is_first(now, changed), is_first(changed, now));
        let now = self.now.next_if(|_| takes_now);
        match self.changed.next_if(|_| takes_changed) {
            None => now.map(|(id, seen)| (id, Some(seen))),
            Some((id, versions)) => {
                // What came before the first change after the revision was there at the revision.
                let later = versions.partition_point(|version| version.revision <= self.revision);
                let seen = match versions.get(later) {
                    Some(version) => version.before.as_ref(),
                    None => now.map(|(_, seen)| seen),
                };
                Some((id, seen))
            }
        }
    }
}
