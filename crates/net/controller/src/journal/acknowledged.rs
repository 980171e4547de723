//! The last acknowledged end of the journal, in a small file beside it.
//!
//! The journal alone cannot show that its end is missing, or the whole file. This file can: it is overwritten after
//! each synchronisation of the journal and before any answer. The file itself is not synchronised, because that would
//! double the cost of a transaction. After a killed process it has the last state; after a loss of power perhaps an
//! earlier one.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tracing::warn;

use super::files;
use super::seal::{Seal, seal};
use super::{JournalError, io_error};

/// The name of the file in the state folder.
pub(super) const FILE: &str = "acknowledged";
/// The size of the file. Padding lets a shorter text replace a longer one in one write.
const SIZE: usize = 160;

/// An end of the journal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Position {
    /// The last record; 0 if there is none.
    pub(super) txn: u64,
    /// The first record that was written together with it.
    pub(super) group: u64,
    /// The size of the journal, in bytes.
    pub(super) bytes: u64,
    /// The checksum of the last record, which depends on all records before it.
    pub(super) sum: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    txn: u64,
    bytes: u64,
    journal: String,
}

/// The contents of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// The file does not exist: the folder is new, or somebody removed it, as errors advise.
    Nothing,
    /// The file is damaged.
    Damaged,
    /// All records up to this position were acknowledged.
    UpTo(Position),
}

/// The file, open for writing.
#[derive(Debug)]
pub(super) struct Acknowledged {
    path: PathBuf,
    file: File,
    failed: bool,
}

/// Reads the file of a state folder.
pub(super) fn read(folder: &Path) -> Result<Known, JournalError> {
    let path = folder.join(FILE);
    if !files::is_there(&path)? {
        return Ok(Known::Nothing);
    }
    let mut bytes = vec![0; SIZE + 1];
    let file = File::open(&path).map_err(io_error(&path, "cannot open"))?;
    let len = file.read_at(&mut bytes, 0).map_err(io_error(&path, "cannot read"))?;
    bytes.truncate(len);
    // A crash before the first synchronisation leaves an empty file.
    Ok(if bytes.is_empty() { Known::Nothing } else { parse(&bytes).map_or(Known::Damaged, Known::UpTo) })
}

fn parse(bytes: &[u8]) -> Option<Position> {
    let line = bytes.trim_ascii_end().to_vec();
    let seal = Seal::of(&line).filter(|seal| seal.fits(&line, 0))?;
    let Text { txn, bytes, journal } = serde_json::from_slice(&seal.unsealed(line)).ok()?;
    Some(Position { txn, group: seal.group, bytes, sum: u32::from_str_radix(&journal, 16).ok()? })
}

fn text(position: &Position) -> io::Result<Vec<u8>> {
    let Position { txn, group, bytes, sum } = *position;
    let mut line = serde_json::to_vec(&Text { txn, bytes, journal: format!("{sum:08x}") })?;
    seal(&mut line, 0, group, 0);
    line.resize(SIZE - 1, b' ');
    line.push(b'\n');
    Ok(line)
}

impl Acknowledged {
    /// Opens or creates the file, and writes the position to disk.
    pub(super) fn open(folder: &Path, position: &Position) -> Result<Acknowledged, JournalError> {
        let path = folder.join(FILE);
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(false).mode(files::MODE);
        let file = options.open(&path).map_err(io_error(&path, "cannot open"))?;
        let written = text(position).and_then(|text| {
            file.write_all_at(&text, 0)?;
            file.set_len(SIZE as u64)?;
            file.sync_all()
        });
        written.map_err(io_error(&path, "cannot write"))?;
        Ok(Acknowledged { path, file, failed: false })
    }

    /// Records that the journal was acknowledged up to this position.
    pub(super) fn write(&mut self, position: &Position) {
        let written = text(position).and_then(|text| {
            self.file.write_all_at(&text, 0)?;
            // Once there is a first record, a missing journal must be detected after a loss of power too.
            if position.group == 1 { self.file.sync_data() } else { Ok(()) }
        });
        // The records are on disk, so they count as acknowledged even if this write fails.
        if let Err(error) = &written
            && !self.failed
        {
            warn!(file = %self.path.display(), %error, "cannot write; a loss of the journal's end may go unnoticed");
        }
        self.failed = written.is_err();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_position_fits_and_any_flipped_bit_is_noticed() {
        let greatest = Position { txn: u64::MAX, group: u64::MAX, bytes: u64::MAX, sum: u32::MAX };
        for position in [greatest, Position { txn: 12, group: 11, bytes: 4000, sum: 7 }] {
            let mut bytes = text(&position).unwrap();
            assert_eq!((bytes.len(), parse(&bytes)), (SIZE, Some(position)));
            for bit in 0..8 * SIZE {
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert!(parse(&bytes).is_none_or(|read| read == position), "bit {bit}");
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }
}
