//! What a change of objects would do to a packet. Nothing is applied: the network before and after it are computed beside the engine.

use std::path::Path;

use nlog_data::{Bound, Cancel, ColumnTransaction, Progress, Transaction};
use objects::{ChangeSet, ObjectKey};
use packet_trace::{Change, ChangeError, Network, Origins, Trace, input_engine, input_rows, text};
use tonic::Status;
use weft_client::pb;
use weft_core::core::most_of;
use weft_core::neighbourhood::WHOLE_MAX;
use weft_core::snapshot::Snapshot;

use crate::aside::{asked_for, too_long};
use crate::trace::way;

/// The most rows that a rule may derive of a change that is tried out.
const DERIVED_MAX: u64 = 1_000_000;

/// The change that a request asks about.
pub(crate) fn change(request: &pb::TraceRequest) -> Option<Change> {
    let pb::TriedChange { documents, without } = request.change.clone()?;
    let documents = documents.into_iter().map(|document| (document.name, document.text)).collect();
    let without = without.into_iter().map(|object| ObjectKey::new(object.kind, object.id)).collect();
    Some(Change { documents, without })
}

/// Traces the packet of a request before and after a change.
///
/// # Errors
/// The request is wrong, the change is refused, or the network is too large.
#[allow(clippy::result_large_err, reason = "as tonic has it")]
pub(crate) fn compare(
    snapshot: Snapshot,
    request: &pb::TraceRequest,
    change: &Change,
    journal: &Path,
    cancel: &Cancel,
) -> Result<pb::TraceResponse, Status> {
    if request.live {
        return Err(Status::invalid_argument(
            "no switch has the flows of a change that is not applied: ask for one of the two",
        ));
    }
    if !snapshot.is_whole {
        let why = format!(
            "the network has more than {WHOLE_MAX} objects, so a running controller does not compute it once more to try a change: ask its journal, with \
             weft trace builtin -i STATE/journal.jsonl PORT --diff FILE"
        );
        return Err(Status::invalid_argument(why));
    }
    let [before, after] = states(&snapshot, change, cancel).map_err(|error| match error {
        ChangeError::Refused(why) => Status::invalid_argument(why),
        ChangeError::Failed(why) => Status::internal(why),
    })?;
    let program = snapshot.rules.program();
    let traced = |rows: Origins| -> Result<(Network, Trace), Status> {
        let mut network = Network::new(program, rows).map_err(Status::internal)?;
        let trace = way(&mut network, request, cancel)?;
        Ok((network, trace))
    };
    let (before, after) = (traced(before)?, traced(after)?);
    let mut difference = packet_trace::compare((&before.0, &before.1), (&after.0, &after.1));
    if before.0.is_exhausted() || after.0.is_exhausted() {
        return Err(too_long());
    }
    asked_for(&mut difference, program, journal);
    Ok(pb::TraceResponse {
        delivered: after.1.is_delivered(),
        verdict: text::verdict(&after.1),
        packet: after.1.packet.clone(),
        // No switch has what is not applied.
        not_in_force: Vec::new(),
        text: match request.form() {
            pb::TraceForm::Json => difference.json().to_string(),
            pb::TraceForm::Verbose | pb::TraceForm::Unspecified => difference.text(),
        },
    })
}

/// The rows of the inputs before and after a change, by an engine of its own that ends with this.
fn states(snapshot: &Snapshot, change: &Change, cancel: &Cancel) -> Result<[Origins; 2], ChangeError> {
    let failed = |why: String| ChangeError::Failed(why);
    let what_if =
        snapshot.what_if.as_ref().ok_or_else(|| failed("the change was not announced".to_owned()))?;
    let program = snapshot.rules.program();
    let mut evaluator = input_engine(program).map_err(failed)?;
    evaluator.restore(&what_if.memories).map_err(|error| failed(error.to_string()))?;
    let mut rows = Transaction::default();
    for (table, row) in snapshot.origins.keys().filter(|(table, _)| program.hook_of(*table).is_none()) {
        rows.insert.entry(*table).or_default().push(row.clone());
    }
    let rows = ColumnTransaction::from_rows(&rows).map_err(|error| failed(error.to_string()))?;
    // The controller has accepted these rows, so only a client that has gone ends their derivation.
    evaluator.bound(Bound::cancelled_by(cancel.clone()));
    evaluator.commit_columns(&rows).map_err(|error| failed(error.to_string()))?;
    let before = input_rows(program, &mut *evaluator).map_err(|error| failed(error.to_string()))?;
    let besides = |changes: &ChangeSet| what_if.besides(changes, &snapshot.rules);
    let most = most_of(DERIVED_MAX, 0);
    evaluator.bound(Bound { most, cancel: cancel.clone(), progress: Progress::default() });
    let after = change.after(program, &mut *evaluator, &before, what_if.last_txn + 1, &besides)?;
    Ok([before, after])
}
