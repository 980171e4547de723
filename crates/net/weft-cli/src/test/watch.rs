//! Runs tests again when files change.
//!
//! Files are polled twenty times a second instead of being watched by the kernel. There are dozens of them, a poll costs
//! microseconds each, and it works the same on every file system, for editors that replace files and those that write in
//! place, and for files and folders that appear and disappear. (inotify does not report changes made on the other side
//! of a network or container mount, loses its watch when a file is replaced, and needs a watch for each folder.)

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::report::{self, Tally};
use super::{Suite, Test, files};
use crate::exit::{Failure, say};

/// The polling interval of files.
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

/// Runs all tests, and then those affected by each change, until the process is interrupted.
pub(super) fn run(test: &Test) -> Result<(), Failure> {
    // A wrong path at the start is an error. A path that vanishes later may come back.
    files::find(&test.paths)?;
    let mut watch = Watch::default();
    let mut changed: BTreeSet<PathBuf> = test.paths.iter().cloned().collect();
    loop {
        let start = Instant::now();
        let runs = watch.update(test, &changed)?;
        if !runs.is_empty() {
            watch.run(test, &runs, start)?;
        }
        changed = watch.wait();
        let names: Vec<String> = changed.iter().map(|path| path.display().to_string()).collect();
        say(format_args!("\n--- changed: {}", names.join(", ")));
    }
}

/// A file of tests with its last state.
struct Watched {
    /// `None` if it could not be read.
    suite: Option<Suite>,
    /// The files that it consisted of, and those that were missing.
    inputs: BTreeSet<PathBuf>,
    tally: Tally,
}

#[derive(Default)]
struct Watch {
    files: BTreeMap<PathBuf, Watched>,
    /// The stamps taken before the last read.
    stamps: BTreeMap<PathBuf, Stamp>,
}

impl Watch {
    /// Finds the files of tests, reads those affected by the change, and returns them.
    fn update(&mut self, test: &Test, changed: &BTreeSet<PathBuf>) -> Result<BTreeSet<PathBuf>, Failure> {
        for path in changed {
            self.stamps.insert(path.clone(), stamp(path));
        }
        let found = self.find(test)?;
        self.files.retain(|path, _| {
            let stays = found.files.contains(path);
            if !stays {
                say(format_args!("{} is gone", path.display()));
            }
            stays
        });
        let depends =
            |path: &PathBuf| self.files.get(path).is_none_or(|watched| !watched.inputs.is_disjoint(changed));
        let runs: BTreeSet<PathBuf> = found.files.iter().filter(|path| depends(path)).cloned().collect();
        for path in &runs {
            self.read(test, path);
        }
        // Files that nothing depends on are no longer polled.
        let inputs: BTreeSet<&PathBuf> = self.files.values().flat_map(|watched| &watched.inputs).collect();
        self.stamps.retain(|path, _| {
            inputs.contains(path) || found.folders.contains(path) || test.paths.contains(path)
        });
        Ok(runs)
    }

    /// Searches folders, after taking their stamps.
    fn find(&mut self, test: &Test) -> Result<files::Found, Failure> {
        loop {
            let there: Vec<PathBuf> = test.paths.iter().filter(|path| path.exists()).cloned().collect();
            let found = files::find(&there)?;
            let known = self.stamps.len();
            for folder in &found.folders {
                self.stamps.entry(folder.clone()).or_insert_with(|| stamp(folder));
            }
            if self.stamps.len() == known {
                return Ok(found);
            }
        }
    }

    /// Reads a file of tests and its imports, after taking their stamps.
    fn read(&mut self, test: &Test, path: &Path) {
        let before = self.files.remove(path);
        let (mut suite, mut inputs) = before.map(|before| (before.suite, before.inputs)).unwrap_or_default();
        inputs.insert(path.to_owned());
        loop {
            for input in &inputs {
                self.stamps.entry(input.clone()).or_insert_with(|| stamp(input));
            }
            let read = match suite.take() {
                Some(mut known) => known.reload().map(|()| known),
                None => test.suite(path),
            };
            let tally = match read {
                Ok(read) => {
                    inputs = read.inputs();
                    suite = Some(read);
                    Tally::default()
                }
                Err(failure) => {
                    let _status = failure.report();
                    Tally { files: 1, rejected: 1, ..Tally::default() }
                }
            };
            if inputs.iter().all(|input| self.stamps.contains_key(input)) {
                self.files.insert(path.to_owned(), Watched { suite, inputs, tally });
                return;
            }
        }
    }

    /// Runs the tests of these files and reports them.
    fn run(&mut self, test: &Test, runs: &BTreeSet<PathBuf>, start: Instant) -> Result<(), Failure> {
        let mut all = Tally::default();
        for path in runs {
            let Some(watched) = self.files.get_mut(path) else { continue };
            if let Some(suite) = &watched.suite {
                watched.tally = test.run_suites(std::slice::from_ref(suite))?;
            }
            all = all + watched.tally;
        }
        report::summary(&all);
        let elsewhere = self.files.iter().filter(|(path, _)| !runs.contains(*path));
        let elsewhere = elsewhere.fold(Tally::default(), |sum, (_, watched)| sum + watched.tally);
        if elsewhere.failed + elsewhere.rejected > 0 {
            let Tally { failed, rejected, .. } = elsewhere;
            say(format_args!("unchanged elsewhere: {failed} FAILED, {rejected} files with errors"));
        }
        let milliseconds = start.elapsed().as_millis();
        say(format_args!("after {milliseconds} ms; watching {} files and folders", self.stamps.len()));
        Ok(())
    }

    /// Waits until something has changed and changes have stopped. Returns the changed paths.
    fn wait(&self) -> BTreeSet<PathBuf> {
        let mut changed = BTreeMap::new();
        loop {
            thread::sleep(if changed.is_empty() { INTERVAL } else { QUIET });
            let now = (self.stamps.iter()).map(|(path, before)| (path, before, stamp(path)));
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
