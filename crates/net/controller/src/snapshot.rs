//! The network around some objects at one moment, for whoever asks about it: the desired states, which are shared, and the input rows that
//! concern the objects.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use network::{ChangeSet, ObjectKey, Outcome, Rows};
use nlog::Program;
use nlog_data::{CommitError, Memories};
use nlog_explain::ShowsInputs;
use packet_trace::{Origins, UNKNOWN};
use switch_model::Desired;
use tonic::Status;
use tracing::warn;

use crate::core::Core;
use crate::input_rows::managed_rows;
use crate::journal::add_origins;
use crate::neighbourhood::WHOLE_MAX;
use crate::provenance::Provenance;
use crate::rules::Rules;

/// The most combinations of values that are tried for an answer: a question about all rows of a large table would take the machine
/// from the network.
pub(crate) const COMBINATIONS: u64 = 5_000_000;

/// The network around some objects at one moment.
pub(crate) struct Snapshot {
    pub(crate) rules: Arc<Rules>,
    /// The input rows that concern the objects.
    pub(crate) origins: Origins,
    /// Whether some were left out because there are too many.
    pub(crate) is_cut: bool,
    /// Whether none were left out.
    pub(crate) is_whole: bool,
    /// How long the engine thread took.
    pub(crate) taken: Duration,
    pub(crate) desired: BTreeMap<String, Arc<Desired>>,
    pub(crate) provenance: Provenance,
    /// What a change that is to be tried out needs.
    pub(crate) what_if: Option<WhatIf>,
}

impl Snapshot {
    /// The network around objects with these ids.
    ///
    /// # Errors
    /// The engine fails.
    pub(crate) fn of(
        core: &mut Core,
        ids: &[String],
        without: Option<&[ObjectKey]>,
    ) -> Result<Snapshot, CommitError> {
        let what_if = without.map(|without| WhatIf::of(core, without));
        Ok(Snapshot { what_if, ..Snapshot::of_at_most(core, ids, WHOLE_MAX)? })
    }

    /// The same. A network with at most so many objects is taken whole.
    pub(crate) fn of_at_most(
        core: &mut Core,
        ids: &[String],
        whole_max: usize,
    ) -> Result<Snapshot, CommitError> {
        let begun = Instant::now();
        let neighbourhood = core.neighbourhood(ids, whole_max)?;
        Ok(Snapshot {
            taken: begun.elapsed(),
            rules: core.rules().clone(),
            origins: neighbourhood.rows.into_iter().map(|row| (row, UNKNOWN)).collect(),
            is_cut: neighbourhood.is_cut,
            is_whole: neighbourhood.is_whole,
            desired: core.all_desired(),
            provenance: core.provenance(),
            what_if: None,
        })
    }
}

/// What is needed besides the rows, at the same moment.
pub(crate) struct WhatIf {
    /// What hooks remember, as the labels that were given.
    pub(crate) memories: Memories,
    /// The number of the last transaction.
    pub(crate) last_txn: u64,
    /// What the switches of hosts have reported that the change may delete.
    reports: BTreeMap<String, Rows>,
}

impl WhatIf {
    /// That of a change which deletes these objects.
    pub(crate) fn of(core: &Core, without: &[ObjectKey]) -> WhatIf {
        let host_kind = core.rules().host_kind();
        let hosts = without.iter().filter(|key| host_kind == Some(&*key.kind));
        let reports = hosts.map(|key| (key.id.to_string(), core.reported(&key.id)));
        WhatIf { memories: core.memories(), last_txn: core.last_txn(), reports: reports.collect() }
    }

    /// The rows that a change of objects brings along: which hosts are managed, and what deleted ones have reported.
    pub(crate) fn besides(&self, changes: &ChangeSet, rules: &Rules) -> Rows {
        let mut rows = managed_rows(changes, rules);
        for change in changes.effective().filter(|change| change.outcome() == Outcome::Deleted) {
            if let Some(reports) = self.reports.get(&*change.key.id) {
                rows.add(Rows { insert: BTreeMap::new(), delete: reports.insert.clone() });
            }
        }
        rows
    }
}

/// Says of the rows of an answer who asked for them, if the journal can be read.
pub(crate) fn asked_for(answer: &mut impl ShowsInputs, program: &Program, journal: &Path) {
    if let Err(error) = add_origins(answer, &program.schema, journal) {
        warn!(journal = %journal.display(), %error, "the journal cannot be read, so answers do not say which transactions are behind them");
    }
}

/// The refusal of a question about a packet that would need too much work.
pub(crate) fn too_long() -> Status {
    Status::resource_exhausted(
        "the way of this packet takes too long to explain for a running controller: ask its journal, with weft trace builtin -i \
         STATE/journal.jsonl PORT",
    )
}
