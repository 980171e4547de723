//! A journal that is not what a controller wrote.

use std::fs;

use controller::journal::Journal;

/// Bytes as a journal. What is accepted is the same when it is opened again.
pub fn journal(bytes: &[u8]) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("journal.jsonl"), bytes).expect("a temporary file");
    let Ok((journal, records)) = Journal::open(folder.path()) else { return };
    drop(journal);
    let (_journal, again) = Journal::open(folder.path()).expect("a journal that was opened can be opened again");
    assert_eq!(records, again);
}
