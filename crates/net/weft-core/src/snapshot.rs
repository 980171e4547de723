//! The network around some objects at one moment, for whoever asks about it: the desired states, which are shared, and the input rows that
//! concern the objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use nlog_data::{CommitError, Memories};
use objects::{ChangeSet, ObjectKey, Outcome, Rows};
use packet_trace::{Origins, UNKNOWN};
use switch_model::Desired;

use crate::core::Core;
use crate::input_rows::managed_rows;
use crate::neighbourhood::WHOLE_MAX;
use crate::provenance::Provenance;
use crate::rules::Rules;

/// The network around some objects at one moment.
pub struct Snapshot {
    /// The rules that run.
    pub rules: Arc<Rules>,
    /// The input rows that concern the objects.
    pub origins: Origins,
    /// Whether some were left out because there are too many.
    pub is_cut: bool,
    /// Whether none were left out.
    pub is_whole: bool,
    /// The desired states of all switches, by transport node.
    pub desired: BTreeMap<String, Arc<Desired>>,
    /// The logical rules behind placed flows.
    pub provenance: Provenance,
    /// What a change that is to be tried out needs.
    pub what_if: Option<WhatIf>,
}

impl Snapshot {
    /// The network around objects with these ids.
    ///
    /// # Errors
    /// The engine fails.
    pub fn of(
        core: &mut Core,
        ids: &[String],
        without: Option<&[ObjectKey]>,
    ) -> Result<Snapshot, CommitError> {
        let what_if = without.map(|without| WhatIf::of(core, without));
        Ok(Snapshot { what_if, ..Snapshot::of_at_most(core, ids, WHOLE_MAX)? })
    }

    /// The same. A network with at most so many objects is taken whole.
    pub fn of_at_most(core: &mut Core, ids: &[String], whole_max: usize) -> Result<Snapshot, CommitError> {
        let neighbourhood = core.neighbourhood(ids, whole_max)?;
        Ok(Snapshot {
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
pub struct WhatIf {
    /// What hooks remember, as the labels that were given.
    pub memories: Memories,
    /// The number of the last transaction.
    pub last_txn: u64,
    /// What the switches of hosts have reported that the change may delete.
    reports: BTreeMap<String, Rows>,
}

impl WhatIf {
    /// That of a change which deletes these objects.
    pub fn of(core: &Core, without: &[ObjectKey]) -> WhatIf {
        let host_kind = core.rules().host_kind();
        let hosts = without.iter().filter(|key| host_kind == Some(&*key.kind));
        let reports = hosts.map(|key| (key.id.to_string(), core.reported(&key.id)));
        WhatIf { memories: core.memories(), last_txn: core.last_txn(), reports: reports.collect() }
    }

    /// The rows that a change of objects brings along: which hosts are managed, and what deleted ones have reported.
    pub fn besides(&self, changes: &ChangeSet, rules: &Rules) -> Rows {
        let mut rows = managed_rows(changes, rules);
        for change in changes.effective().filter(|change| change.outcome() == Outcome::Deleted) {
            if let Some(reports) = self.reports.get(&*change.key.id) {
                rows.add(Rows { insert: BTreeMap::new(), delete: reports.insert.clone() });
            }
        }
        rows
    }
}
