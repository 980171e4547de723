//! How readers get pages and changes.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::history::{Cursor, Following, Looked, RevisionError};
use super::{PAGE, Published, Seen};

/// The most objects of a page, and the most that one call looks at.
pub const LIMIT_MAX: usize = PAGE;

/// Some of the objects of a kind, ordered by id, as they were at one revision.
#[derive(Debug, Clone)]
pub struct Page {
    /// The revision. Asked for again, the next pages fit to this one; the versions after it are what changes since.
    pub revision: u64,
    /// The objects that were selected. There may be fewer than the limit, even none, although more follow.
    pub objects: Vec<Arc<Seen>>,
    /// The id after which the next page begins; `None` if this page is the last.
    pub next: Option<Arc<str>>,
}

impl Page {
    pub(super) fn of(looked: Looked, limit: usize, selects: &dyn Fn(&Seen) -> bool) -> Page {
        let Looked { revision, objects: all, next: more } = looked;
        let (mut objects, mut all) = (Vec::new(), all.into_iter());
        let limit = limit.clamp(1, LIMIT_MAX);
        objects.extend(all.by_ref().filter(|seen| selects(seen)).take(limit));
        let is_full = objects.len() == limit && (all.len() > 0 || more.is_some());
        let last = objects.last().filter(|_| is_full).map(|seen: &Arc<Seen>| seen.object().id().clone());
        Page { revision, next: last.or(more), objects }
    }
}

impl Published {
    /// The newest revision of the objects.
    pub fn revision(&self) -> u64 {
        self.parts().history.newest()
    }

    /// The objects of a kind that follow an id and that are selected: as they were at a revision, or as they are now. At most `limit` and
    /// [`LIMIT_MAX`] of them. The call looks at a bounded number of objects, so a page may have fewer; the caller goes on at
    /// [`Page::next`] and [`Page::revision`] until there is no next one.
    ///
    /// # Errors
    /// Objects are not known at that revision.
    pub fn page(
        &self,
        kind: &str,
        after: Option<&str>,
        limit: usize,
        at: Option<u64>,
        selects: &dyn Fn(&Seen) -> bool,
    ) -> Result<Page, RevisionError> {
        // A selector may take its time: it is asked once the lock is free.
        let looked = self.parts().history.look(kind, after, at, LIMIT_MAX)?;
        Ok(Page::of(looked, limit, selects))
    }

    /// The place from which a watcher follows what changes after a revision: that of a list or of [`Cursor::revision`].
    ///
    /// # Errors
    /// Not all changes after that revision are known.
    pub fn cursor(&self, revision: u64) -> Result<Cursor, RevisionError> {
        self.parts().history.cursor(revision)
    }

    /// The versions that follow a watcher's place, of these kinds or of all, at most `most`, and where the watcher goes on. The call looks at
    /// a bounded number of versions, so it may return none although there [are more](Following::has_more).
    ///
    /// # Errors
    /// The watcher was so slow that the history has dropped what comes next.
    pub fn versions_after(
        &self,
        cursor: &Cursor,
        kinds: Option<&BTreeSet<Arc<str>>>,
        most: usize,
    ) -> Result<Following, RevisionError> {
        self.parts().history.follow(cursor, kinds, most)
    }
}
