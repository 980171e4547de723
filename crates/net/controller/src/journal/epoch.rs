//! The number of a controller's present start, in a small file beside the journal.
//!
//! Switches obey the start with the greatest number (`ovs_driver::Owner`). It is the time of the start, in microseconds since 1970,
//! so that a journal that is restored from a backup on another machine has the greatest one as well. If the clock went back, it is
//! one more than the number before.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::SystemTime;

use tracing::warn;

use super::files;
use super::{JournalError, io_error};

/// The name of the file in the state folder.
const FILE: &str = "epoch";
/// The most bytes of the file that are read: more than any number has.
const READ_MAX: u64 = 64;

/// The number of a start at this time. It is on disk afterwards. The folder must be locked.
pub(crate) fn next(folder: &Path, now: SystemTime) -> Result<u64, JournalError> {
    let path = folder.join(FILE);
    let existed = files::is_there(&path)?;
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(false).mode(files::MODE);
    let mut file = options.open(&path).map_err(io_error(&path, "cannot open"))?;
    let mut text = Vec::new();
    (&mut file).take(READ_MAX).read_to_end(&mut text).map_err(io_error(&path, "cannot read"))?;
    let last: Option<u64> = str::from_utf8(&text).ok().and_then(|text| text.trim().parse().ok());
    if last.is_none() && !text.is_empty() {
        warn!(file = %path.display(), "the file is damaged and is written again: the number of this start is the time alone");
    }
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let now = u64::try_from(since.as_micros()).unwrap_or(u64::MAX);
    let epoch = last.map_or(now, |last| now.max(last.saturating_add(1)));
    write(&mut file, epoch).map_err(io_error(&path, "cannot write"))?;
    if !existed {
        files::sync_folder(folder)?;
    }
    Ok(epoch)
}

fn write(file: &mut File, epoch: u64) -> std::io::Result<()> {
    file.rewind()?;
    let text = format!("{epoch}\n");
    file.write_all(text.as_bytes())?;
    file.set_len(text.len() as u64)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn d19_each_start_has_a_greater_number_whatever_the_clock_says() {
        let folder = tempfile::tempdir().unwrap();
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let next = |seconds| next(folder.path(), at(seconds)).unwrap();
        assert_eq!(
            [next(100), next(100), next(7), next(200)],
            [100_000_000, 100_000_001, 100_000_002, 200_000_000]
        );
        std::fs::write(folder.path().join(FILE), "what?").unwrap();
        assert_eq!(next(300), 300_000_000);
    }
}
