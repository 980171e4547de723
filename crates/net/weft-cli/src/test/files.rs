//! Finds the files of tests.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use nlog::source::is_test_file;
use weft_core::builtin;

use crate::exit::Failure;

/// Files of tests, and the folders that were searched for them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// The files in the order of their paths, each once.
    pub(super) files: BTreeSet<PathBuf>,
    /// The folders, so that new files can be noticed.
    pub(super) folders: BTreeSet<PathBuf>,
}

/// Finds the named files, and those in the named folders. The built-in rules come without tests.
pub(super) fn find(paths: &[PathBuf]) -> Result<Found, Failure> {
    let mut found = Found::default();
    let mut seen = BTreeSet::new();
    for path in paths.iter().filter(|path| !builtin::owns(path)) {
        let metadata = fs::metadata(path)
            .map_err(|error| Failure::outside(format!("cannot read {}", path.display()), error))?;
        if metadata.is_dir() {
            search(path, &mut found, &mut seen);
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

/// Files and folders that vanish meanwhile, or are not readable, are ignored.
fn search(folder: &Path, found: &mut Found, seen: &mut BTreeSet<PathBuf>) {
    let is_new = folder.canonicalize().is_ok_and(|canonical| seen.insert(canonical));
    // The mark of caches such as cargo's target folder (bford.info/cachedir), which are large and contain no tests.
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
            Ok(metadata) if metadata.is_dir() => search(&path, found, seen),
            Ok(_) if is_test_file(&path) => add(&path, found, seen),
            _ => {}
        }
    }
}
