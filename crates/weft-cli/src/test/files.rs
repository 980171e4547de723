//! Which files of tests there are.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use nlog::source::is_test_file;

use crate::exit::Failure;

/// Files of tests, and the folders that were looked through for them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// In the order of their paths, each once.
    pub(super) files: BTreeSet<PathBuf>,
    /// So that new files can be noticed.
    pub(super) folders: BTreeSet<PathBuf>,
}

/// Finds the files that are named, and those in the folders that are named.
pub(super) fn find(paths: &[PathBuf]) -> Result<Found, Failure> {
    let mut found = Found::default();
    let mut seen = BTreeSet::new();
    for path in paths {
        let metadata = fs::metadata(path)
            .map_err(|error| Failure::outside(format!("cannot read {}", path.display()), error))?;
        if metadata.is_dir() {
            look_through(path, &mut found, &mut seen);
        } else if is_test_file(path) {
            add(path, &mut found, &mut seen);
        } else {
            let path = path.display();
            let message =
                format!("{path} is no file of tests: those are named NAME.test.nlog and import the rules");
            return Err(Failure::Usage(message));
        }
    }
    Ok(found)
}

fn add(path: &Path, found: &mut Found, seen: &mut BTreeSet<PathBuf>) {
    let path = path.strip_prefix(".").unwrap_or(path);
    if seen.insert(path.canonicalize().unwrap_or_else(|_| path.to_owned())) {
        found.files.insert(path.to_owned());
    }
}

/// Files and folders that vanish meanwhile, or may not be read, are as if they were not there.
fn look_through(folder: &Path, found: &mut Found, seen: &mut BTreeSet<PathBuf>) {
    let is_new = folder.canonicalize().is_ok_and(|canonical| seen.insert(canonical));
    // The mark of caches such as cargo's target folder (bford.info/cachedir): much to look through, nothing to find.
    if !is_new || folder.join("CACHEDIR.TAG").exists() {
        return;
    }
    found.folders.insert(folder.to_owned());
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.filter_map(Result::ok) {
        let path = entry.path();
        let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        match fs::metadata(&path) {
            _ if hidden => {}
            Ok(metadata) if metadata.is_dir() => look_through(&path, found, seen),
            Ok(_) if is_test_file(&path) => add(&path, found, seen),
            _ => {}
        }
    }
}
