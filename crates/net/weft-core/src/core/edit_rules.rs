//! Other rules by an edit of the engine that runs: it derives what the edit changes, and nothing else.
//!
//! That suffices if both programs declare the same objects, inputs, hooks and tables that the controller reads: then all that the core keeps
//! goes on. An edit that derives too much is left to another engine, which is filled beside this one.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use nlog_data::{
    Bound, Cancel, CommitError, Committed, Evaluator, Memories, Most, Progress, Stopped, Transaction,
};
use switch_model::{Changes, Desired, FlowKey};

use super::change_rules::refuse_rows;
use super::{Core, CoreError, RULE_ROWS, Refusal};
use crate::derived::{DesiredStates as _, RulesOutput, decode_output};
use crate::provenance::Provenance;
use crate::record::AnnouncementChanges;
use crate::rules::Rules;
use crate::rules_versions::RulesVersions;

/// The most that an edit derives, to add it or to take it away: transactions wait for it, for a second at most.
const EDIT: Most = Most { rows: RULE_ROWS, bytes: 64 << 20 };

/// Lets an evaluator go on with other rules, within its [bound](Evaluator::bound). Returns the changes of the tables that these rules
/// observe. After an error, the evaluator is as before.
pub type EditEvaluator =
    Arc<dyn Fn(&mut dyn Evaluator, &Rules) -> Result<Committed, NotEdited> + Send + Sync>;

/// Why an evaluator does not go on with other rules.
#[derive(Debug)]
pub enum NotEdited {
    /// It cannot be edited in this way: another one has to take its place.
    Unfit(String),
    /// The rules cause an error, or the edit exceeds the bound.
    Commit(CommitError),
}

/// Cookies of flows, by transport node.
type CookiesByNode = BTreeMap<String, HashMap<FlowKey, u64>>;

/// What an edit replaces, to undo it with.
pub(super) struct BeforeEdit {
    rules: Arc<Rules>,
    /// The cookies of the flows that it changes, by transport node.
    pub(super) cookies: CookiesByNode,
    pub(super) provenance: Provenance,
    /// The number of rows that rules derived for the edit.
    pub(super) derived: u64,
    memories: Memories,
    unrecorded: Memories,
    versions: RulesVersions,
}

impl fmt::Debug for BeforeEdit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BeforeEdit").field("rules", &self.rules.version()).finish_non_exhaustive()
    }
}

impl Core {
    /// Evaluators are edited so. Without, another one takes their place.
    pub fn edit_evaluators_with(&mut self, edit: EditEvaluator) {
        self.edit = Some(edit);
    }

    /// Goes on with rules that the engine is edited to. What they change is in effect then, and is returned beside what there was before.
    ///
    /// # Errors
    /// The rules refuse what is there; or an edit is not possible ([`Refusal::NotByEdit`]). Nothing has changed.
    pub(super) fn edit_rules(&mut self, rules: &Arc<Rules>) -> Result<(RulesOutput, BeforeEdit), CoreError> {
        let not_by_edit = || CoreError::Refused(Refusal::NotByEdit);
        let edit = self.edit.clone().ok_or_else(not_by_edit)?;
        // Hooks forget how to undo the transactions before an edit.
        if self.last_txn != self.on_disk || !self.rules.differ_in_rules_alone(rules) {
            return Err(not_by_edit());
        }
        let mut before = BeforeEdit {
            rules: self.rules.clone(),
            cookies: CookiesByNode::new(),
            provenance: self.derived.provenance.clone(),
            derived: 0,
            memories: self.evaluator.memories(),
            unrecorded: Memories::new(),
            versions: self.versions.clone(),
        };
        let (cancel, progress) = (Cancel::default(), Progress::default());
        self.evaluator.bound(Bound { most: EDIT, cancel, progress: progress.clone() });
        let committed = edit(&mut *self.evaluator, rules).map_err(|error| match error {
            NotEdited::Unfit(_) | NotEdited::Commit(CommitError::Stopped(Stopped::TooMuch(_))) => {
                not_by_edit()
            }
            NotEdited::Commit(CommitError::Stopped(stopped)) => Refusal::Stopped(stopped).into(),
            NotEdited::Commit(CommitError::Refused(error)) => refuse_rows(&error),
            NotEdited::Commit(CommitError::Engine(why)) => CoreError::Failed(why),
        })?;
        (_, before.derived) = progress.read();
        self.evaluator.checkpoint();
        match self.follow_edit(&committed, rules) {
            Ok(output) => Ok((output, before)),
            Err(refused) => {
                // The core has followed none of it.
                self.engine_back(&before)?;
                Err(refused)
            }
        }
    }

    /// Decodes what an edit changes, and goes on with its rules. After an error nothing has changed.
    fn follow_edit(&mut self, committed: &Committed, rules: &Arc<Rules>) -> Result<RulesOutput, CoreError> {
        self.derived.status.go_on(&self.rules, rules);
        let output = decode_output(committed, rules, &mut self.derived, &self.desired).map_err(|error| {
            self.derived.status.go_on(rules, &self.rules);
            refuse_rows(&error)
        })?;
        self.rules = rules.clone();
        Ok(output)
    }

    /// Lets switches follow an edit. Returns what changes in them, and what the record says of announcements.
    pub(super) fn push_edit(
        &mut self,
        mut changes: BTreeMap<String, Changes>,
        before: &mut BeforeEdit,
    ) -> (BTreeMap<String, Changes>, AnnouncementChanges) {
        let announcements = self.announcements.follow(&mut changes);
        // Rows whose rule has another number only are among the changes, and change no flow.
        let nothing = Desired::default();
        for (node, changes) in &mut changes {
            changes.reduce(self.desired.of(node).unwrap_or(&nothing));
            let was = |key: &FlowKey| Some((key.clone(), self.desired.cookie(node, key)?));
            let cookies: HashMap<FlowKey, u64> = changes.flows.keys().filter_map(was).collect();
            before.cookies.insert(node.clone(), cookies);
        }
        changes.retain(|_, changes| !changes.is_empty());
        self.change_desired(&changes);
        before.unrecorded = std::mem::take(&mut self.unrecorded);
        (changes, announcements)
    }

    /// Undoes an edit, the last transaction.
    pub(super) fn edit_back(
        &mut self,
        before: BeforeEdit,
        announcements: AnnouncementChanges,
    ) -> Result<(), CoreError> {
        let (edited, taken_back) = self.engine_back(&before)?;
        let ran = self.follow_edit(&edited, &before.rules).map_err(failed)?;
        self.announcements.undo(&ran.changes, announcements);
        self.change_desired(&ran.changes);
        if let Some(taken_back) = taken_back {
            let (rules, derived) = (&self.rules, &mut self.derived);
            let ran = decode_output(&taken_back, rules, derived, &self.desired).map_err(failed)?;
            self.change_desired(&ran.changes);
        }
        (self.unrecorded, self.versions) = (before.unrecorded, before.versions);
        Ok(())
    }

    /// Edits the engine back. Returns what that changes, and what it changes that hooks take back the numbers that they gave for the edit,
    /// if they gave any.
    fn engine_back(&mut self, before: &BeforeEdit) -> Result<(Committed, Option<Committed>), CoreError> {
        let edit = self.edit.clone().ok_or_else(|| failed("the engine cannot be edited any more"))?;
        // It must not fail, whatever it derives.
        self.evaluator.bound(Bound::cancelled_by(Cancel::default()));
        let edited = edit(&mut *self.evaluator, &before.rules).map_err(|error| match error {
            NotEdited::Unfit(why) => failed(why),
            NotEdited::Commit(error) => failed(error),
        })?;
        let mut taken_back = None;
        if self.evaluator.memories() != before.memories {
            self.evaluator.restore(&before.memories).map_err(failed)?;
            taken_back = Some(self.evaluator.commit(&Transaction::default()).map_err(failed)?);
        }
        self.evaluator.checkpoint();
        Ok((edited, taken_back))
    }
}

fn failed(why: impl fmt::Display) -> CoreError {
    CoreError::Failed(format!("cannot undo a change of rules: {why}"))
}
