//! Files that a controller reads, which are not what it or anybody else wrote.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use controller::journal::{JournalError, Replay};
use controller::snapshots;
use controller::tokens::TokenFile;
use controller::{Config, ConfigError};
use weft_core::Rules;
use weft_core::anonymise::{SECRET_BYTES, anonymise};
use weft_core::record::Record;
use weft_core::restore::History;

use crate::decode;

/// A folder for one input.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Folder(tempfile::tempdir().expect("a temporary folder"))
    }

    /// A file in it with these bytes.
    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, bytes).expect("a temporary file");
        path
    }
}

/// Bytes as a journal. Whatever is accepted, and repaired, reads the same when it is opened again.
pub fn journal(bytes: &[u8]) {
    let folder = Folder::new();
    folder.file("journal.jsonl", bytes);
    let Ok(records) = decode("a journal", bytes.len(), || open(folder.0.path())) else { return };
    let again = open(folder.0.path()).expect("a journal that was opened can be opened again");
    assert_eq!(records, again);
}

/// Opens a state folder as a controller does at its start.
fn open(folder: &Path) -> Result<Vec<Record>, JournalError> {
    let mut replay = Replay::open(folder)?;
    let records = replay.by_ref().collect::<Result<_, _>>()?;
    replay.finish()?;
    Ok(records)
}

/// Bytes as a compressed snapshot, from which a state folder is made: the folder has what the snapshot has.
pub fn restore(bytes: &[u8]) {
    let folder = Folder::new();
    let file = folder.file("snapshot.zst", bytes);
    let state = folder.0.path().join("state");
    match snapshots::restore(&file, &state) {
        Ok(last) => {
            let records = open(&state).expect("a restored state can be opened");
            assert_eq!(records.last().map(|record| record.txn), Some(last), "the state ends elsewhere");
        }
        Err(error) => assert!(!error.to_string().is_empty(), "refused without a reason"),
    }
}

/// The rules that states are read with.
static RULES: LazyLock<Rules> = LazyLock::new(|| Rules::built_in().unwrap_or_else(|error| panic!("{error}")));

/// A text as the record of a snapshot: its state is added up, and the anonymised one is a state as well, which the same rules take.
pub fn snapshot(bytes: &[u8]) {
    let record = decode("a record", bytes.len(), || serde_json::from_slice::<Record>(bytes));
    let Ok(record) = record else { return };
    let text = serde_json::to_string(&record).expect("a record prints");
    let read: Record = serde_json::from_str(&text).expect("a record is read back");
    assert_eq!(read, record, "a record is not read as it was written");
    let add = |record: &Record| {
        let mut history = History::new(&RULES);
        history.add(record).map(|()| history)
    };
    let Ok(history) = add(&record) else { return };
    assert_eq!(history.last_txn(), record.txn);
    let _inputs = history.inputs(&RULES);
    if let Ok((anonymised, _)) = anonymise(&record, &RULES, [7; SECRET_BYTES])
        && let Err(error) = add(&anonymised)
    {
        panic!("an anonymised state is refused: {error}");
    }
}

/// A text as the configuration file of a controller.
pub fn configuration(bytes: &[u8]) {
    let folder = Folder::new();
    let path = folder.file("weft.toml", bytes);
    match decode("a configuration", bytes.len(), || Config::load(&path, [])) {
        Ok(_) => {}
        Err(ConfigError::Io { .. }) => assert!(str::from_utf8(bytes).is_err(), "a text that is not read"),
        Err(ConfigError::Content(faults)) => {
            assert!(!faults.is_empty(), "refused without a reason");
            let place = format!("{}:", path.display());
            for fault in faults {
                assert!(fault.to_string().starts_with(&place), "a fault without a place: {fault}");
            }
        }
    }
}

/// A text as a file of tokens: what is accepted is read back as it is written.
pub fn tokens(bytes: &[u8]) {
    let folder = Folder::new();
    let path = folder.file("tokens.toml", bytes);
    let Ok(file) = decode("tokens", bytes.len(), || TokenFile::read(&path)) else { return };
    file.write(&path).expect("a temporary file");
    let again = TokenFile::read(&path).expect("a written file of tokens can be read");
    assert_eq!(again.tokens(), file.tokens(), "tokens are not read as they were written");
}
