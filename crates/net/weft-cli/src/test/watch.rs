//! Runs tests again when files change.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::report::{self, Tally};
use super::{Suite, Test, files};
use crate::exit::{Failure, say};
use crate::saved_files::SavedFiles;

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
        changed = watch.saved.wait();
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
    saved: SavedFiles,
}

impl Watch {
    /// Finds the files of tests, reads those affected by the change, and returns them.
    fn update(&mut self, test: &Test, changed: &BTreeSet<PathBuf>) -> Result<BTreeSet<PathBuf>, Failure> {
        for path in changed {
            self.saved.renew(path);
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
        self.saved.retain(|path| {
            inputs.contains(path) || found.folders.contains(path) || test.paths.contains(path)
        });
        Ok(runs)
    }

    /// Searches folders, after taking their stamps.
    fn find(&mut self, test: &Test) -> Result<files::Found, Failure> {
        loop {
            let there: Vec<PathBuf> = test.paths.iter().filter(|path| path.exists()).cloned().collect();
            let found = files::find(&there)?;
            let new = found.folders.iter().filter(|folder| self.saved.add(folder)).count();
            if new == 0 {
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
                self.saved.add(input);
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
            if inputs.iter().all(|input| self.saved.has(input)) {
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
        say(format_args!("after {milliseconds} ms; watching {} files and folders", self.saved.len()));
        Ok(())
    }
}
