//! The rows of other rules on their way from the thread that derives them to the engine's: in a file, since they can be as large as an engine.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use nlog_data::Cancel;
use tracing::{debug, warn};
use weft_core::core::{MakeEvaluator, PreparedRows, StateForRules};
use weft_core::rules::Rules;

use crate::journal::FILE_MODE;

/// The file. Its name is gone as soon as it is open, so nothing is left of it after a crash.
const FILE: &str = "rules.rows";

/// Derives the rows that rules make of a state. `None` if that is not possible: the engine says why when it gets the rules.
pub(crate) fn prepare(
    folder: &Path,
    state: StateForRules,
    rules: &Rules,
    make: &MakeEvaluator,
    cancel: &Cancel,
) -> Option<PreparedRows> {
    let unwritten = |error: io::Error| {
        let folder = folder.display();
        warn!(%folder, %error, "the rows of the new rules cannot be kept; transactions wait while the engine derives them");
    };
    let mut file = BufWriter::new(unnamed(&folder.join(FILE)).map_err(unwritten).ok()?);
    let written = state.derive(rules, make, cancel.clone(), &mut file);
    let written =
        written.inspect_err(|why| debug!(%why, "the rows of the new rules are not prepared")).ok()?;
    let read = || -> io::Result<(File, u64)> {
        file.flush()?;
        let mut file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        let bytes = file.stream_position()?;
        file.rewind()?;
        Ok((file, bytes))
    };
    let (file, bytes) = read().map_err(unwritten).ok()?;
    Some(written.with(Box::new(BufReader::new(file)), bytes))
}

fn unnamed(path: &Path) -> io::Result<File> {
    let file =
        OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(FILE_MODE).open(path)?;
    fs::remove_file(path)?;
    Ok(file)
}
