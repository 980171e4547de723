//! Other rules for a core that runs.
//!
//! All that depends on rules is made anew of the objects, the reports and what hooks remember, as a start makes it of a journal. So the
//! core is afterwards what a restart with these rules would make of it. What was there before is kept until the change is on disk. Most of
//! the time goes into deriving rows, which can be done before, beside the core ([`PreparedRows`]). Rules that differ from the present ones in
//! little need none of that: the engine is edited ([`edit_rules`](super::edit_rules)).

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::mem::swap;
use std::sync::Arc;
use std::time::SystemTime;

use nlog_data::{Evaluator, Memories, Row, Transaction, TransactionError};
use nlog_hooks::Recorded;
use objects::{Object, ObjectStore, Rows};
use switch_model::{Changes, FlowKey};
use tracing::{debug, warn};

use super::edit_rules::BeforeEdit;
use super::prepared_rules::PreparedRows;
use super::saved_rows::{Present, catch_up, from_nothing, restore};
use super::{
    Accepted, AddressChanges, AppliedTransaction, Core, CoreError, DesiredByNode, Moves, Problem,
    ProblemChanges, Refusal, Undo,
};
use crate::announcements::Announcements;
use crate::derived::{Derived, DesiredStates as _, RulesOutput};
use crate::input_rows::all_rows;
use crate::object_status::ChangedStates;
use crate::peer::Origin;
use crate::provenance::Provenance;
use crate::record::{AnnouncementChanges, ObjectText, RulesChange};
use crate::restore::{Kept, KeptObjects, RestoreError, refusal_of_state, store};
use crate::rules::Rules;
use crate::rules_versions::RulesVersions;

/// Makes an evaluator that has run nothing yet.
pub type MakeEvaluator = Arc<dyn Fn(&Rules) -> Result<Box<dyn Evaluator>, String> + Send + Sync>;

/// How a core comes to other rules.
#[derive(Debug)]
pub enum RulesTransition {
    /// The engine that runs is edited, or the rules are refused: [`Refusal::NotByEdit`].
    Edit,
    /// Another engine takes its place: with rows that were prepared, or with those that it derives.
    Replace(Option<Box<PreparedRows>>),
}

/// How a core came to other rules, and what that took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineTransition {
    /// The engine was edited.
    Edited {
        /// The number of rows that rules derived for that.
        rows: u64,
    },
    /// Another engine, which derived all rows, took its place.
    Replaced,
}

/// What depended on the former rules.
#[derive(Debug)]
pub(super) enum FormerRules {
    Replaced(Box<UnderRules>),
    Edited(Box<BeforeEdit>),
}

/// The parts of a core that depend on its rules.
pub(super) struct UnderRules {
    evaluator: Box<dyn Evaluator>,
    rules: Arc<Rules>,
    objects: ObjectStore,
    derived: Derived,
    desired: DesiredByNode,
    announcements: Announcements,
    unrecorded: Memories,
    versions: RulesVersions,
}

impl fmt::Debug for UnderRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnderRules").field("versions", &self.versions.all().len()).finish_non_exhaustive()
    }
}

impl AppliedTransaction {
    /// If it changes the rules, how the core came to them.
    pub fn engine_transition(&self) -> Option<EngineTransition> {
        self.undo.former.as_ref().map(|former| match former {
            FormerRules::Replaced(_) => EngineTransition::Replaced,
            FormerRules::Edited(before) => EngineTransition::Edited { rows: before.derived },
        })
    }

    /// If it changes the rules, what there was before: the cookies of flows that it changes, and the logical rules behind flows.
    pub(crate) fn before_other_rules(&self) -> Option<(impl Fn(&str, &FlowKey) -> Option<u64>, &Provenance)> {
        let former = self.undo.former.as_ref()?;
        let provenance = match former {
            FormerRules::Replaced(former) => &former.derived.provenance,
            FormerRules::Edited(before) => &before.provenance,
        };
        let cookie = |node: &str, key: &FlowKey| match former {
            FormerRules::Replaced(former) => former.desired.cookie(node, key),
            FormerRules::Edited(before) => before.cookies.get(node).and_then(|flows| flows.get(key)).copied(),
        };
        Some((cookie, provenance))
    }
}

impl Core {
    /// Evaluators of other rules are made so. Without, the rules cannot change.
    pub fn make_evaluators_with(&mut self, make: MakeEvaluator) {
        self.make = Some(make);
    }

    /// The last versions of the rules; empty if they have never changed while a controller ran.
    pub fn rules_versions(&self) -> &RulesVersions {
        &self.versions
    }

    /// Goes on with other rules. If they are those that run, nothing changes.
    ///
    /// # Errors
    /// They cannot take the place of those that run. Nothing changes.
    pub fn change_rules(
        &mut self,
        rules: &Arc<Rules>,
        transition: RulesTransition,
        by: impl Into<Origin>,
        now: SystemTime,
    ) -> Result<Accepted, CoreError> {
        let objects_before = self.objects.len();
        let text =
            rules.text().ok_or_else(|| refused("the new rules have no text, so no journal can keep them"))?;
        let version = Some(text.fingerprint());
        if version == self.rules.version() {
            return Ok(Accepted { objects_before, ..Accepted::default() });
        }
        self.check_what_stays(rules)?;
        let before = self.rules.text().filter(|_| self.versions.is_empty());
        let instead_of = self.configured_version().filter(|configured| version.as_ref() != Some(configured));
        let change = Box::new(RulesChange { text, instead_of, before });
        let Changed { insert, delete, announcements, changes, problems, states, addresses, moves, former } =
            match transition {
                RulesTransition::Edit => self.change_by_edit(rules)?,
                RulesTransition::Replace(prepared) => {
                    self.change_by_another(rules, prepared.map(|prepared| *prepared))?
                }
            };
        let mut record = self.record(Transaction::default(), by.into(), now);
        (record.insert, record.delete) = (insert, delete);
        record.memory = self.evaluator.memories();
        record.announcements = announcements;
        record.rules = Some(change);
        self.versions.follow(record.rules.as_deref(), record.txn, &record.at, &record.by);
        if let Some(key) = &record.key {
            self.answered.add(key.clone(), record.txn, now, Vec::new());
        }
        self.refused.retry_later();
        let undo = Box::new(Undo { former: Some(former), ..Undo::default() });
        let transaction = AppliedTransaction { record, changes, problems, states, addresses, moves, undo };
        Ok(Accepted { transaction: Some(transaction), objects_before, ..Accepted::default() })
    }

    /// Lets another engine take the place of the one that runs.
    fn change_by_another(
        &mut self,
        rules: &Arc<Rules>,
        prepared: Option<PreparedRows>,
    ) -> Result<Changed, CoreError> {
        let Made { mut other, rows, announcements } = self.under(rules, prepared)?;
        let problems = problem_changes(&self.derived, &other.derived);
        let addresses = self.derived.addresses.changes_to(&other.derived.addresses);
        let changes = changes_between(&self.desired, &other.desired);
        let was =
            self.rules.named(self.rules.transaction(all_rows(&self.objects, &self.reports, &self.rules)));
        self.exchange(&mut other);
        Ok(Changed {
            insert: missing(&rows, &was),
            delete: missing(&was, &rows),
            announcements,
            changes,
            problems,
            states: ChangedStates::new(),
            addresses,
            moves: Moves::default(),
            former: FormerRules::Replaced(Box::new(other)),
        })
    }

    /// Edits the engine that runs. The rows of input tables stay.
    fn change_by_edit(&mut self, rules: &Arc<Rules>) -> Result<Changed, CoreError> {
        let (output, mut before) = self.edit_rules(rules)?;
        let RulesOutput { changes, problems, states, addresses, moves, .. } = output;
        let (changes, announcements) = self.push_edit(changes, &mut before);
        Ok(Changed {
            insert: BTreeMap::new(),
            delete: BTreeMap::new(),
            announcements,
            changes,
            problems,
            states,
            addresses,
            moves,
            former: FormerRules::Edited(Box::new(before)),
        })
    }

    /// Undoes a change of rules, the last transaction.
    pub(super) fn change_rules_back(
        &mut self,
        former: FormerRules,
        announcements: AnnouncementChanges,
    ) -> Result<(), CoreError> {
        match former {
            FormerRules::Replaced(mut former) => self.exchange(&mut former),
            FormerRules::Edited(before) => self.edit_back(*before, announcements)?,
        }
        Ok(())
    }

    /// Exchanges all that depends on the rules.
    fn exchange(&mut self, other: &mut UnderRules) {
        swap(&mut self.evaluator, &mut other.evaluator);
        swap(&mut self.rules, &mut other.rules);
        swap(&mut self.objects, &mut other.objects);
        swap(&mut self.derived, &mut other.derived);
        swap(&mut self.desired, &mut other.desired);
        swap(&mut self.announcements, &mut other.announcements);
        swap(&mut self.unrecorded, &mut other.unrecorded);
        swap(&mut self.versions, &mut other.versions);
    }

    /// The version of the rules that the configuration names.
    fn configured_version(&self) -> Option<String> {
        let loaded = self.versions.last().and_then(|last| last.instead_of.clone());
        loaded.or_else(|| self.rules.version())
    }

    /// Checks that nothing is lost that only a restart may take away.
    fn check_what_stays(&self, rules: &Rules) -> Result<(), CoreError> {
        if rules.conventions() != self.rules.conventions() {
            return Err(refused(
                "the new rules change FDB, OUTSIDE_NEIGHBOUR, LED, SHARED_NEIGHBOUR, ANNOUNCED, CONFLICTS or OPTION_…, which \
                 drivers of switches are given when they start; keep these constants, or name the rules in the configuration and restart the controller",
            ));
        }
        let nothing = Recorded::new(self.rules.program()).memories();
        let forgotten = self.evaluator.memories().into_iter().find(|(table, memory)| {
            !rules.remembers(table) && nothing.get(table).is_none_or(|nothing| nothing != memory)
        });
        forgotten.map_or(Ok(()), |(table, _)| {
            Err(refused(format!(
                "no hook of the new rules fills table {table}, so the numbers that it has given would be forgotten, and others get \
                 them; keep the table and its hook, or name the rules in the configuration and restart the controller"
            )))
        })
    }

    /// All that depends on the rules, made of these.
    fn under(&self, rules: &Arc<Rules>, prepared: Option<PreparedRows>) -> Result<Made, CoreError> {
        let make = self.make.as_ref().ok_or_else(|| refused("this controller cannot make other engines"))?;
        let mut evaluator = make(rules).map_err(refused)?;
        let objects = objects_under(self.objects.iter().map(|(_, object)| object), rules)?;
        let rows = rules.transaction(all_rows(&objects, &self.reports, rules));
        let memories = memories_under(self.evaluator.memories(), rules);
        let mut derived = Derived::default();
        let ran = output_under(&mut *evaluator, rules, &mut derived, (&memories, &rows), prepared);
        let Present { changes, desired, .. } = ran.map_err(|error| match error {
            CoreError::Refused(Refusal::Rules(error)) => refuse_rows(&error),
            CoreError::Refused(refusal) => refused(refusal.to_string()),
            // The one that runs has nothing to do with it.
            CoreError::Failed(why) => refused(format!("the engine of the new rules failed: {why}")),
        })?;
        evaluator.checkpoint();
        let (announcements, record) = self.announcements.under_other_rules(&changes);
        let other = UnderRules {
            evaluator,
            rules: rules.clone(),
            objects,
            derived,
            desired,
            announcements,
            unrecorded: Memories::new(),
            versions: self.versions.clone(),
        };
        Ok(Made { other, rows: rules.named(rows), announcements: record })
    }
}

/// The output of other rules for these input rows, where hooks remember this: of the prepared rows if they can be used, or derived.
fn output_under(
    evaluator: &mut dyn Evaluator,
    rules: &Rules,
    derived: &mut Derived,
    (memories, rows): (&Memories, &Transaction),
    mut prepared: Option<PreparedRows>,
) -> Result<Present, CoreError> {
    if let Some((saved, memories)) = prepared.as_mut().and_then(|prepared| prepared.saved(rules, memories)) {
        match restore(evaluator, saved, &mut derived.pool) {
            Ok(restored) => {
                debug!(txn = restored.txn, "the rows of the new rules were derived beside transactions");
                return catch_up(evaluator, rules, derived, (&memories, rows), restored);
            }
            Err(why) => warn!(why, "the prepared rows of the new rules cannot be read; they are derived"),
        }
    }
    let restored = evaluator.restore(memories);
    restored.map_err(|error| CoreError::Refused(Refusal::Rules(error)))?;
    evaluator.checkpoint();
    from_nothing(evaluator, rules, derived, rows)
}

/// What hooks of these rules remember of what others remembered.
pub(super) fn memories_under(mut memories: Memories, rules: &Rules) -> Memories {
    memories.retain(|table, _| rules.remembers(table));
    memories
}

/// Objects, read again as the kinds of these rules.
pub(super) fn objects_under<'o>(
    objects: impl Iterator<Item = &'o Arc<Object>>,
    rules: &Rules,
) -> Result<ObjectStore, CoreError> {
    let kept = objects.map(|object| {
        let kept = Kept { text: ObjectText::of(object), revision: object.revision() };
        ((object.kind().name().to_owned(), object.id().to_string()), kept)
    });
    store(&kept.collect::<KeptObjects>(), rules.kinds()).map_err(|error| match error {
        RestoreError::Kinds(kinds) => {
            let kinds = kinds.iter().map(|(kind, count)| format!("{kind} ({count})"));
            refused(format!(
                "the new rules do not declare kinds of which there are objects: {}; load the package that declares them too, or \
                 delete these objects first",
                kinds.collect::<Vec<_>>().join(", ")
            ))
        }
        RestoreError::Objects(refusal) => {
            refused(format!("objects do not fit the new rules; keep what they use, or change them first:\n{refusal}"))
        }
        error => refused(error.to_string()),
    })
}

/// What a change of rules changes.
struct Changed {
    insert: BTreeMap<Arc<str>, Vec<Row>>,
    delete: BTreeMap<Arc<str>, Vec<Row>>,
    announcements: AnnouncementChanges,
    changes: BTreeMap<String, Changes>,
    problems: ProblemChanges,
    states: ChangedStates,
    addresses: AddressChanges,
    moves: Moves,
    former: FormerRules,
}

/// What other rules make of what is there.
struct Made {
    other: UnderRules,
    /// The rows of all input tables.
    rows: Rows,
    /// What the record of the change says of announcements.
    announcements: AnnouncementChanges,
}

fn refused(why: impl Into<String>) -> CoreError {
    CoreError::Refused(Refusal::NewRules(why.into()))
}

pub(super) fn refuse_rows(error: &TransactionError) -> CoreError {
    let remedy = "correct them, or change first what they refuse";
    refused(format!("the new rules refuse what is there: {}", refusal_of_state(error, remedy)))
}

/// The rows that only the first has.
fn missing(these: &Rows, those: &Rows) -> BTreeMap<Arc<str>, Vec<Row>> {
    let mut missing = BTreeMap::new();
    for (table, rows) in &these.insert {
        let others = those.insert.get(table).map(Vec::as_slice).unwrap_or_default();
        if rows == others {
            continue;
        }
        let others: HashSet<&Row> = others.iter().collect();
        let rows: Vec<Row> = rows.iter().filter(|row| !others.contains(row)).cloned().collect();
        if !rows.is_empty() {
            missing.insert(table.clone(), rows);
        }
    }
    missing
}

/// What leads from the desired states of switches to others.
pub(super) fn changes_between(before: &DesiredByNode, after: &DesiredByNode) -> BTreeMap<String, Changes> {
    let nodes: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let change = |node: &String| {
        let [from, to] = [before, after]
            .map(|states| states.get(node).map(|desired| desired.state.clone()).unwrap_or_default());
        // Only the states that have changed were copied.
        let changes = if Arc::ptr_eq(&from, &to) { Changes::default() } else { from.changes_to(&to) };
        (!changes.is_empty()).then(|| (node.clone(), changes))
    };
    nodes.into_iter().filter_map(change).collect()
}

fn problem_changes(before: &Derived, after: &Derived) -> ProblemChanges {
    let [was, is] =
        [before, after].map(|derived| derived.status.problems().cloned().collect::<BTreeSet<Arc<Problem>>>());
    let [new, gone] =
        [(&is, &was), (&was, &is)].map(|(these, those)| these.difference(those).cloned().collect());
    ProblemChanges { new, gone }
}

/// What the first record of a start says that runs the rules of its configuration: if others ran before, or if the same were loaded in
/// place of an earlier configuration (`confirmed`).
pub(super) fn overruling(
    versions: &RulesVersions,
    rules: &Rules,
    confirmed: bool,
) -> Option<Box<RulesChange>> {
    let last = versions.last()?;
    let text = rules.text().filter(|text| confirmed || text.fingerprint() != last.text.fingerprint())?;
    Some(Box::new(RulesChange { text, instead_of: None, before: None }))
}
