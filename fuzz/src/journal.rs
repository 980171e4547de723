//! A journal that is not what a controller wrote.

use std::fs;
use std::path::Path;

use controller::journal::{JournalError, Replay};
use weft_core::record::Record;

use crate::decode;

/// Bytes as a journal. Whatever is accepted, and repaired, reads the same when it is opened again.
pub fn journal(bytes: &[u8]) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("journal.jsonl"), bytes).expect("a temporary file");
    let Ok(records) = decode("a journal", bytes.len(), || open(folder.path())) else { return };
    let again = open(folder.path()).expect("a journal that was opened can be opened again");
    assert_eq!(records, again);
}

/// Opens a state folder as a controller does at its start.
fn open(folder: &Path) -> Result<Vec<Record>, JournalError> {
    let mut replay = Replay::open(folder)?;
    let records = replay.by_ref().collect::<Result<_, _>>()?;
    replay.finish()?;
    Ok(records)
}
