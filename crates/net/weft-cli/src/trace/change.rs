//! A change of objects that a trace tries out, as the command line names it.

use std::path::PathBuf;
use std::sync::Arc;

use nlog::Program;
use objects::{ChangeSet, ObjectKey, Rows};
use packet_trace::{Change, ChangeError, Origins};

use crate::client::read_document;
use crate::eval::{Begin, Source};
use crate::exit::Failure;
use crate::explain::Inputs;

/// Reads `KIND/ID`.
pub(super) fn key(text: &str) -> Result<ObjectKey, String> {
    let (kind, id) =
        text.split_once('/').ok_or("write the kind and the id of an object, as in acl/no-ssh")?;
    Ok(ObjectKey::new(kind, id))
}

/// The change that a file of objects and the names of deleted objects say.
pub(super) fn read(file: Option<&PathBuf>, without: &[ObjectKey]) -> Result<Change, Failure> {
    let documents = file.map(read_document).transpose()?;
    Ok(Change { documents: documents.into_iter().collect(), without: without.to_vec() })
}

/// The rows of the inputs before and after the change. The change is a transaction of its own, after all others.
pub(super) fn rows(
    change: &Change,
    begin: Option<Begin>,
    program: &Arc<Program>,
    source: &Source,
    until: Option<u64>,
) -> Result<([Origins; 2], Result<(), Failure>), Failure> {
    let Inputs { run, mut running, origins: before } = Inputs::read(begin, program, source, until)?;
    let number = before.values().max().map_or(1, |last| last + 1);
    // Transactions say themselves which hosts are managed, and what they report.
    let besides = |_: &ChangeSet| Rows::default();
    let after =
        change.after(program, running.evaluator(), &before, number, &besides).map_err(
            |error| match error {
                ChangeError::Refused(why) => Failure::Rejected(why),
                ChangeError::Failed(why) => Failure::Outside(why),
            },
        )?;
    Ok(([before, after], run.finish()))
}
