//! Files that change.
//!
//! They are polled twenty times a second instead of being watched by the kernel. There are dozens of them, a poll costs
//! microseconds each, and it works the same on every file system, for editors that replace files and those that write in
//! place, and for files and folders that appear and disappear. (inotify does not report changes made on the other side
//! of a network or container mount, loses its watch when a file is replaced, and needs a watch for each folder.)

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// The polling interval.
const INTERVAL: Duration = Duration::from_millis(50);

/// How long files must be unchanged before they are read again, since programs write files in pieces.
const QUIET: Duration = Duration::from_millis(15);

/// A stamp that identifies a state of a file or folder; `None` if it does not exist.
type Stamp = Option<(u64, i64, i64, u64)>;

fn stamp(path: &Path) -> Stamp {
    let metadata = fs::metadata(path).ok()?;
    // Unlike the modification time, the change time cannot be set back by unpacking or copying files.
    Some((metadata.ino(), metadata.ctime(), metadata.ctime_nsec(), metadata.len()))
}

/// Files and folders, with their stamps. A stamp is taken before the file is read, so that no change is missed.
#[derive(Default)]
pub(crate) struct SavedFiles(BTreeMap<PathBuf, Stamp>);

impl SavedFiles {
    /// Takes the stamp of a file anew.
    pub(crate) fn renew(&mut self, path: &Path) {
        self.0.insert(path.to_owned(), stamp(path));
    }

    /// Takes the stamp of a file that is not known yet. Returns whether it is new.
    pub(crate) fn add(&mut self, path: &Path) -> bool {
        let is_new = !self.0.contains_key(path);
        if is_new {
            self.renew(path);
        }
        is_new
    }

    /// Whether the file is known.
    pub(crate) fn has(&self, path: &Path) -> bool {
        self.0.contains_key(path)
    }

    /// Forgets the others.
    pub(crate) fn retain(&mut self, keep: impl Fn(&PathBuf) -> bool) {
        self.0.retain(|path, _| keep(path));
    }

    /// Their number.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Waits until something has changed and changes have stopped. Returns the changed paths.
    pub(crate) fn wait(&self) -> BTreeSet<PathBuf> {
        let mut changed = BTreeMap::new();
        loop {
            thread::sleep(if changed.is_empty() { INTERVAL } else { QUIET });
            let now = self.0.iter().map(|(path, before)| (path, before, stamp(path)));
            let now: BTreeMap<PathBuf, Stamp> = now
                .filter(|(_, before, now)| *before != now)
                .map(|(path, _, now)| (path.clone(), now))
                .collect();
            if !now.is_empty() && now == changed {
                return now.into_keys().collect();
            }
            changed = now;
        }
    }
}
