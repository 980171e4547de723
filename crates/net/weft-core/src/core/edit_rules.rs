//! Other rules by an edit of the engine that runs: it derives what the edit changes, and nothing else.
//!
//! That suffices if both programs declare the same objects, inputs, hooks and tables that the controller reads: then all that the core keeps
//! goes on. An edit that derives too much is left to another engine, which is filled beside this one.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use nlog_data::{
    Bound, Cancel, CommitError, Committed, Evaluator, Memories, Most, Progress, Stopped, Transaction,
};
use switch_model::Changes;

use super::change_rules::{changes_between, refuse_rows};
use super::{Core, CoreError, DesiredByNode, RULE_ROWS, Refusal};
use crate::derived::{RulesOutput, decode_output};
use crate::provenance::Provenance;
use crate::record::AnnouncementChanges;
use crate::rules::Rules;
use crate::rules_versions::RulesVersions;

/// The most that an edit derives: transactions wait for it, for a second at most.
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

/// What an edit replaces, to undo it with.
pub(super) struct BeforeEdit {
    rules: Arc<Rules>,
    pub(super) desired: DesiredByNode,
    pub(super) provenance: Provenance,
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
        let before = BeforeEdit {
            rules: self.rules.clone(),
            desired: self.desired.clone(),
            provenance: self.derived.provenance.clone(),
            memories: self.evaluator.memories(),
            unrecorded: Memories::new(),
            versions: self.versions.clone(),
        };
        let (cancel, progress) = (Cancel::default(), Progress::default());
        self.evaluator.bound(Bound { most: EDIT, cancel, progress });
        let committed = edit(&mut *self.evaluator, rules).map_err(|error| match error {
            NotEdited::Unfit(_) | NotEdited::Commit(CommitError::Stopped(Stopped::TooMuch(_))) => {
                not_by_edit()
            }
            NotEdited::Commit(CommitError::Stopped(stopped)) => Refusal::Stopped(stopped).into(),
            NotEdited::Commit(CommitError::Refused(error)) => refuse_rows(&error),
            NotEdited::Commit(CommitError::Engine(why)) => CoreError::Failed(why),
        })?;
        self.evaluator.checkpoint();
        match self.follow_edit(&committed, rules) {
            Ok(output) => Ok((output, before)),
            Err(refused) => {
                self.edit_engine_back(&before)?;
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
        self.change_desired(&changes);
        // Rows whose rule has another number only are among the changes, and change no flow.
        let mut exact = changes_between(&before.desired, &self.desired);
        for (node, changes) in changes {
            // Frames are sent once and are no part of a state.
            if !changes.frames.is_empty() {
                exact.entry(node).or_default().frames = changes.frames;
            }
        }
        before.unrecorded = std::mem::take(&mut self.unrecorded);
        (exact, announcements)
    }

    /// Undoes an edit, the last transaction.
    pub(super) fn edit_back(
        &mut self,
        before: BeforeEdit,
        announcements: AnnouncementChanges,
    ) -> Result<(), CoreError> {
        let committed = self.edit_engine_back(&before)?;
        let ran = self.follow_edit(&committed, &before.rules).map_err(failed)?;
        self.announcements.undo(&ran.changes, announcements);
        self.change_desired(&ran.changes);
        if self.evaluator.memories() != before.memories {
            // What the edit has let hooks give is taken back.
            self.evaluator.restore(&before.memories).map_err(failed)?;
            let ran = self.run(&Transaction::default())?;
            self.change_desired(&ran.changes);
            self.evaluator.checkpoint();
        }
        (self.unrecorded, self.versions) = (before.unrecorded, before.versions);
        Ok(())
    }

    fn edit_engine_back(&mut self, before: &BeforeEdit) -> Result<Committed, CoreError> {
        let edit = self.edit.clone().ok_or_else(|| failed("the engine cannot be edited any more"))?;
        let committed = edit(&mut *self.evaluator, &before.rules).map_err(|error| match error {
            NotEdited::Unfit(why) => failed(why),
            NotEdited::Commit(error) => failed(error),
        })?;
        self.evaluator.checkpoint();
        Ok(committed)
    }
}

fn failed(why: impl fmt::Display) -> CoreError {
    CoreError::Failed(format!("cannot undo a change of rules: {why}"))
}
