//! The state of the controller, and the effects of requests on it. No I/O, no clock.
//!
//! A request is validated first and then evaluated by the rules. If the rules accept it, objects, reports and the desired
//! state of the switches change together, and a [`Record`] describes the change. A refused request has no effect.
//!
//! Invariant: the input rows of the rules are a function of objects and reports, and equal the sum of the rows in all
//! records.

mod amend;
mod change_rules;
mod cut_off;
mod edit_rules;
mod prepared_rules;
mod reads;
mod refused;
mod reported;
mod saved_rows;
mod scrub;
mod tenancy;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use nlog_data::{
    Bound, Cancel, CommitError, Evaluator, Memories, Most, Progress, Stage, StoredRows, Transaction,
};
use objects::{Batch, ChangeSet, Deletion, Object, ObjectStore, Outcome, Rows};
use switch_model::{Changes, Desired, Frame};

use crate::announcements::Announcements;
use crate::answered::{Answered, Repeated, RequestKey};
use crate::beside::{Beside, Kept};
use crate::derived::{Derived, DesiredStates, RulesOutput, decode_output, run};
use crate::harm::CutOff;
use crate::input_rows::{all_rows, managed_rows};
pub(crate) use crate::object_status::{ChangedStates, ObjectStatus};
pub use crate::object_status::{Problem, ProblemChanges};
use crate::peer::Origin;
pub use crate::port_moves::Moves;
use crate::record::{AnnouncementChanges, NewRecord, ObjectChanges, Record, UPGRADE, outcomes};
pub use crate::refusal::{CoreError, Refusal};
pub use crate::refused_reports::Verdict;
use crate::refused_reports::{Entry, RefusedReports};
use crate::reports::{NodeReport, Reports};
use crate::restore::Restored;
pub use crate::restore::{History, RestoreError};
use crate::rules::Rules;
use crate::rules_versions::RulesVersions;
pub use crate::switch_address::{AddressChange, AddressChanges, SwitchAddress};
use crate::times::rfc3339;
use change_rules::FormerRules;
pub use change_rules::{EngineTransition, MakeEvaluator, RulesTransition};
pub use edit_rules::{EditEvaluator, NotEdited};
pub use prepared_rules::{PreparedRows, StateForRules, Written};
pub use reported::Strays;
pub use saved_rows::SavedRows;
use saved_rows::{Present, output_of_all};
pub use scrub::{Mended, Scrub};
pub use tenancy::hidden_text;

/// All state of a controller.
pub struct Core {
    evaluator: Box<dyn Evaluator>,
    rules: Arc<Rules>,
    objects: ObjectStore,
    reports: Reports,
    refused: RefusedReports,
    /// What switches report and no object has.
    beside: Beside,
    /// By host, the ids of its interfaces whose objects were deleted since its last report. An object may have come again.
    left_behind: BTreeMap<String, BTreeSet<String>>,
    /// The desired state by transport node. Nodes without any are absent.
    desired: DesiredByNode,
    derived: Derived,
    announcements: Announcements,
    /// The requests that a client can repeat.
    answered: Answered,
    versions: RulesVersions,
    /// Makes an evaluator of other rules.
    make: Option<MakeEvaluator>,
    /// Edits the evaluator.
    edit: Option<EditEvaluator>,
    /// What hooks remembered before the first transaction, for its record: facts can want numbers too.
    unrecorded: Memories,
    last_txn: u64,
    /// The last transaction that is journalled.
    on_disk: u64,
    /// The most rows that a rule may derive from a request, besides those for its values.
    rule_rows: u64,
    /// Whether objects can name only tenants that are declared.
    declared_tenants: bool,
    /// How far the running transaction is.
    progress: Progress,
    /// Whether nobody waits for the next request any more.
    unwanted: Cancel,
}

/// The most rows that a rule derives from a request, unless configured, and for each value that the request gives. The largest
/// network that is measured (`nvp-eval` with routers and ACLs, as one request) gives some two million values, and all rules
/// together derive ten million rows of it. Rules that multiply exceed this with some hundred kilobytes.
pub const RULE_ROWS: u64 = 1_000_000;
const ROWS_OF_VALUE: u64 = 32;
/// The most bytes of derived rows and values, likewise.
const BYTES: u64 = 1 << 30;
const BYTES_OF_VALUE: u64 = 4 << 10;

/// The most that rules may make of a transaction that gives so many values.
pub fn most_of(rule_rows: u64, values: u64) -> Most {
    Most {
        rows: rule_rows.saturating_add(values.saturating_mul(ROWS_OF_VALUE)),
        bytes: BYTES.saturating_add(values.saturating_mul(BYTES_OF_VALUE)),
    }
}

/// The desired state of a switch.
#[derive(Debug, Clone, Default)]
struct NodeDesired {
    state: Arc<Desired>,
    /// The number of its groups, maintained as buckets are added and deleted.
    groups: usize,
}

/// What a driver begins with.
#[derive(Debug, Default)]
pub struct Given {
    /// The desired state.
    pub desired: Arc<Desired>,
    /// The announcements under way.
    pub announcing: BTreeMap<String, Frame>,
}

/// The desired states of switches, by transport node.
type DesiredByNode = BTreeMap<String, NodeDesired>;

impl DesiredStates for DesiredByNode {
    fn of(&self, node: &str) -> Option<&Desired> {
        self.get(node).map(|desired| &*desired.state)
    }
}

/// The number of objects in the desired state of a transport node's switch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DesiredCounts {
    /// Flows.
    pub flows: usize,
    /// Groups.
    pub groups: usize,
    /// Tunnel ports.
    pub tunnels: usize,
    /// Patch ports.
    pub patches: usize,
}

/// The effect of an accepted request.
#[derive(Debug, Default)]
pub struct Accepted {
    /// The outcome for each object of the request.
    pub objects: ChangeSet,
    /// The transaction, if anything changed. It must be journalled before its changes leave the process.
    pub transaction: Option<AppliedTransaction>,
    /// The ports that it cuts off.
    pub cut_off: Vec<CutOff>,
    /// The number of objects before it.
    pub objects_before: usize,
}

/// A transaction that took effect in the core.
#[derive(Debug)]
pub struct AppliedTransaction {
    /// The record for the journal.
    pub record: NewRecord,
    /// The changes of the switches, by transport node.
    pub changes: BTreeMap<String, Changes>,
    /// Problems that operators should know about.
    pub problems: ProblemChanges,
    /// The rows of tables of state that change.
    pub(crate) states: ChangedStates,
    /// The changes of the addresses of switches.
    pub addresses: AddressChanges,
    /// The ports that move between switches.
    pub moves: Moves,
    undo: Box<Undo>,
}

impl AppliedTransaction {
    /// Its record as the next start reads it from the journal.
    pub fn journalled(&self) -> Record {
        self.record.journalled()
    }

    /// The transport nodes of which it changes what is reported.
    pub(crate) fn reporting(&self) -> impl Iterator<Item = &str> {
        self.undo.reports.iter().map(|(node, _)| node.as_str())
    }
}

/// The information needed to undo a transaction, besides its record.
#[derive(Debug, Default)]
struct Undo {
    objects: ChangeSet,
    /// The previous reports, by transport node.
    reports: Vec<(String, Option<NodeReport>)>,
    refused: Vec<(String, Entry)>,
    beside: Vec<(String, Kept)>,
    /// Hosts and ports that became a part of refused reports.
    adopted: Vec<(String, String)>,
    /// What depended on the former rules, if they changed.
    former: Option<FormerRules>,
}

/// The retry of a part of a refused report.
#[derive(Debug)]
pub struct Retried {
    /// The transport node.
    pub node: String,
    /// The whole report.
    pub report: switch_model::Report,
    /// The transaction, if the part was accepted this time.
    pub transaction: Option<AppliedTransaction>,
}

impl Core {
    /// Restores a core from a journal. If the rules or the version differ from those that wrote the journal, also
    /// returns a record that brings the journal's rows up to date; it must be journalled first.
    pub fn restore(
        evaluator: Box<dyn Evaluator>,
        rules: Arc<Rules>,
        history: History,
        now: SystemTime,
    ) -> Result<(Core, Option<Record>), RestoreError> {
        let (core, correction, _) = Core::restore_from(evaluator, rules, history, None, now)?;
        Ok((core, correction))
    }

    /// The same, from rows that were saved after one of the journal's transactions, which is returned. If they cannot be used, all rows
    /// are derived.
    pub fn restore_from(
        mut evaluator: Box<dyn Evaluator>,
        rules: Arc<Rules>,
        history: History,
        saved: Option<SavedRows<'_>>,
        now: SystemTime,
    ) -> Result<(Core, Option<Record>, Option<u64>), RestoreError> {
        let confirmed = history.confirmed();
        let Restored { objects, reports, rows, memories, announcing, answered, mut versions, last_txn } =
            history.finish(&rules)?;
        let all = rules.transaction(all_rows(&objects, &reports, &rules));

        let mut derived = Derived::default();
        let Present { changes, desired, from } =
            output_of_all(&mut *evaluator, &rules, &mut derived, (&memories, &all), saved)?;
        evaluator.checkpoint();
        let overruling = change_rules::overruling(&versions, &rules, confirmed);
        let is_recorded = |memory: &Memories| overruling.is_none() && *memory == memories;
        let memory = Some(evaluator.memories()).filter(|now| !is_recorded(now)).unwrap_or_default();
        let (memory, unrecorded) =
            if last_txn == 0 { (Memories::new(), memory) } else { (memory, Memories::new()) };
        let differs = rows.correction(&rules.named(all));
        let correct = differs.is_some() || !memory.is_empty() || overruling.is_some();
        let correction = correct.then(|| {
            let (insert, delete) = differs.unwrap_or_default();
            Record {
                txn: last_txn + 1,
                at: rfc3339(now),
                by: UPGRADE.to_owned(),
                peer: None,
                key: None,
                insert,
                delete,
                objects: ObjectChanges::default(),
                reports: None,
                filled: None,
                memory,
                announcements: AnnouncementChanges::default(),
                observation: false,
                rules: overruling,
                base: None,
            }
        });
        if let Some(record) = &correction {
            versions.follow(record.rules.as_deref(), record.txn, &record.at, &record.by);
        }
        let last_txn = last_txn + u64::from(correction.is_some());
        let (refused, beside) = Default::default();
        let announcements = Announcements::resumed(announcing, &changes);
        let core = Core {
            evaluator,
            rules,
            objects,
            reports,
            refused,
            beside,
            left_behind: BTreeMap::new(),
            desired,
            derived,
            announcements,
            answered,
            versions,
            make: None,
            edit: None,
            unrecorded,
            last_txn,
            on_disk: last_txn,
            rule_rows: RULE_ROWS,
            declared_tenants: false,
            progress: Progress::default(),
            unwanted: Cancel::default(),
        };
        Ok((core, correction, from))
    }

    /// The request that took effect with this key, in the last hour.
    ///
    /// # Errors
    /// It was another one.
    pub(crate) fn answered(&self, key: &RequestKey, now: SystemTime) -> Result<Option<Repeated>, Refusal> {
        match self.answered.find(key, now) {
            None => Ok(None),
            Some(Ok(request)) => Ok(Some(request)),
            Some(Err(txn)) => Err(Refusal::KeyReused { key: key.text.clone(), txn }),
        }
    }

    /// Creates or replaces objects.
    pub fn apply(
        &mut self,
        batch: Batch,
        by: impl Into<Origin>,
        now: SystemTime,
    ) -> Result<Accepted, CoreError> {
        if !batch.kinds().are(self.rules.kinds()) {
            return Err(Refusal::RulesChanged.into());
        }
        let by = by.into();
        if let Some(tenant) = by.tenant.clone() {
            return self.apply_of_tenant(batch, &tenant, by, now);
        }
        match self.objects.plan_or_rest(batch) {
            Ok(changes) => self.change_objects(changes, by, now),
            Err(faulty) => Err(self.all_faults(faulty)?.into()),
        }
    }

    /// Deletes objects: keys, or [`Deletion`]s that expect a revision.
    pub fn delete<D: Into<Deletion>>(
        &mut self,
        objects: impl IntoIterator<Item = D>,
        by: impl Into<Origin>,
        now: SystemTime,
    ) -> Result<Accepted, CoreError> {
        let by = by.into();
        if let Some(tenant) = by.tenant.clone() {
            return self.delete_of_tenant(objects, &tenant, by, now);
        }
        let changes = self.objects.plan_delete(objects).map_err(|faults| Refusal::Objects { faults })?;
        self.change_objects(changes, by, now)
    }

    /// Bounds later requests: a rule may derive this many rows from one, and more for each value that it gives.
    pub(crate) fn bound(&mut self, rule_rows: u64) {
        self.rule_rows = rule_rows;
    }

    /// Tells the progress of transactions from now on.
    pub fn tell(&mut self, progress: Progress) {
        self.progress = progress;
    }

    /// The next request is stopped once this is cancelled.
    pub(crate) fn next_is_cancelled_by(&mut self, unwanted: Cancel) {
        self.unwanted = unwanted;
    }

    /// Does maintenance that makes later transactions cheaper, to be called while no request waits. Has no visible
    /// effect.
    pub fn idle(&mut self) -> Result<(), CommitError> {
        self.evaluator.idle()
    }

    /// The rows that the evaluator has stored, and the work of its rules.
    ///
    /// # Errors
    /// The evaluator failed.
    pub fn stored(&mut self) -> Result<StoredRows, CommitError> {
        self.evaluator.stored()
    }

    /// The switch of a transport node has announced these as often as they are to be.
    pub fn announced(&mut self, node: &str, names: &BTreeSet<String>) {
        self.announcements.end(node, names);
    }

    fn change_objects(
        &mut self,
        mut objects: ChangeSet,
        by: Origin,
        now: SystemTime,
    ) -> Result<Accepted, CoreError> {
        let unwanted = std::mem::take(&mut self.unwanted);
        let objects_before = self.objects.len();
        if objects.is_empty() {
            return Ok(Accepted { objects, objects_before, ..Accepted::default() });
        }
        self.check_tenants(&objects)?;
        let host_kind = self.rules.host_kind();
        let deleted = objects
            .effective()
            .filter(|change| change.outcome() == Outcome::Deleted && host_kind == Some(&*change.key.kind));
        let mut gone: BTreeSet<String> = deleted.map(|change| change.key.id.to_string()).collect();
        let cut_off = self.cut_off(&gone, &objects);
        let mut adoptions = self.plan_adoptions(&objects, &gone);
        let mut reported = self.removal(&gone);
        reported.add(adoptions.rows.clone());
        let mut transaction = self.transaction(&objects, &reported);
        let mut ran = self.run_objects(&transaction, &unwanted, &objects)?;
        // Only the rules know which nodes have no switch any more. Their reports go in the same transaction.
        let without = ran.addresses.iter().filter(|(node, change)| change.leaves() && !gone.contains(*node));
        let more: Vec<String> = without.map(|(node, _)| node.clone()).collect();
        if more.iter().any(|node| self.reports.has(node)) {
            self.undo_rows(&transaction)?;
            gone.extend(more);
            adoptions = self.plan_adoptions(&objects, &gone);
            reported = self.removal(&gone);
            reported.add(adoptions.rows.clone());
            transaction = self.transaction(&objects, &reported);
            ran = self.run_objects(&transaction, &unwanted, &objects)?;
        }
        let RulesOutput { mut changes, problems, states, addresses, moves, filled } = ran;

        // Nothing shares the objects yet: the store, the record and the answer get them with their revisions.
        objects.stamp(self.last_txn + 1);
        self.objects.commit(&objects);
        let mut undo = Undo { objects: objects.clone(), ..Undo::default() };
        for node in gone {
            undo.refused.extend(self.refused.forget(&node).map(|entry| (node.clone(), entry)));
            undo.beside.extend(self.beside.forget(&node).map(|kept| (node.clone(), kept)));
            let report = self.reports.remove(&node);
            undo.reports.push((node, report));
        }
        for (node, state) in adoptions.states {
            let before = self.reports.commit(&node, state);
            undo.reports.push((node, before));
        }
        for (node, port, vif) in adoptions.ports {
            self.refused.adopt(&node, &port, Some(vif));
            undo.adopted.push((node, port));
        }
        self.note_left_behind(&objects);
        self.refused.retry_later();
        let announcements = self.announcements.follow(&mut changes);
        self.change_desired(&changes);
        let mut record = self.record(transaction, by, now);
        record.announcements = announcements;
        record.filled = filled;
        record.objects = ObjectChanges::of(&objects);
        if let Some(key) = &record.key {
            let is_new = |object: &Arc<Object>| (object.key(), object.revision().created == record.txn);
            let ObjectChanges { put, delete } = &record.objects;
            let outcomes = outcomes(put.iter().map(is_new), delete);
            self.answered.add(key.clone(), record.txn, now, outcomes);
        }
        record.reports = (!self.rules.use_all(&reported)).then(|| reported.into());
        let undo = Box::new(undo);
        let transaction = AppliedTransaction { record, changes, problems, states, addresses, moves, undo };
        Ok(Accepted { objects, transaction: Some(transaction), cut_off, objects_before })
    }

    /// The transactions so far are journalled: [`Core::undo`] is not called for them any more.
    pub fn journalled(&mut self) {
        self.on_disk = self.last_txn;
        self.evaluator.checkpoint();
    }

    /// Undoes the last transaction that is not undone yet and restores the previous state. After an error the core
    /// must not be used any more.
    pub fn undo(&mut self, applied: AppliedTransaction) -> Result<(), CoreError> {
        let AppliedTransaction { record, undo, .. } = applied;
        let Undo { objects, reports, refused, beside, adopted, former } = *undo;
        let Record { txn, insert, delete, memory, announcements, key, .. } = record;
        if let Some(key) = key {
            self.answered.remove(&key.text);
        }
        if let Some(former) = former {
            self.last_txn = txn - 1;
            return self.change_rules_back(former, announcements);
        }
        let ran = self.undo_rows(&self.rules.transaction(Rows { insert, delete }))?;
        self.announcements.undo(&ran.changes, announcements);
        self.change_desired(&ran.changes);
        self.unrecorded = memory;
        self.objects.commit(&objects.inverse());
        for (node, before) in reports {
            match before {
                Some(before) => drop(self.reports.commit(&node, before)),
                None => self.reports.forget(&node),
            }
        }
        for (node, port) in adopted {
            self.refused.adopt(&node, &port, None);
        }
        for (node, entry) in refused {
            self.refused.remember(&node, entry);
        }
        for (node, kept) in beside {
            self.beside.keep(&node, kept);
        }
        self.last_txn = txn - 1;
        Ok(())
    }

    /// Suspends [`Core::retry`] until a transaction is accepted or `Core::retry_all` is called.
    pub fn pause_retries(&mut self) {
        self.refused.pause();
    }

    /// Makes all refused parts due for [`Core::retry`].
    pub(crate) fn retry_all(&mut self) {
        self.refused.retry_later();
    }

    /// The next record.
    fn record(&mut self, transaction: Transaction, origin: Origin, now: SystemTime) -> NewRecord {
        self.last_txn += 1;
        let Rows { insert, delete } = self.rules.named(transaction);
        let (txn, at) = (self.last_txn, rfc3339(now));
        let Origin { by, peer, key, tenant: _ } = origin;
        let (objects, reports, filled) = (ObjectChanges::default(), None, None);
        let memory = std::mem::take(&mut self.unrecorded);
        let (announcements, observation) = (AnnouncementChanges::default(), false);
        Record {
            txn,
            at,
            by,
            peer,
            key,
            insert,
            delete,
            objects,
            reports,
            filled,
            memory,
            announcements,
            observation,
            rules: None,
            base: None,
        }
    }

    /// The rows of the last reports of these switches, to be deleted.
    fn removal(&self, nodes: &BTreeSet<String>) -> Rows {
        let mut reported = Rows::default();
        for node in nodes {
            reported.add(self.reports.plan_removal(node));
        }
        reported
    }

    /// The transaction of changed objects and removed reports.
    fn transaction(&self, objects: &ChangeSet, reported: &Rows) -> Transaction {
        let mut rows = objects.rows();
        rows.add(managed_rows(objects, &self.rules));
        rows.add(reported.clone());
        self.rules.transaction(rows)
    }

    fn run(&mut self, transaction: &Transaction) -> Result<RulesOutput, CoreError> {
        self.run_within(transaction, Most::ANY, Cancel::default())
    }

    fn run_within(
        &mut self,
        transaction: &Transaction,
        most: Most,
        cancel: Cancel,
    ) -> Result<RulesOutput, CoreError> {
        self.evaluator.bound(Bound { most, cancel, progress: self.progress.clone() });
        self.progress.enter(Stage::Derive);
        let ran = run(&mut *self.evaluator, &self.rules, &mut self.derived, &self.desired, transaction);
        self.progress.enter(Stage::Follow);
        ran
    }

    /// Undoes the last transaction in the rules and what is kept of their output.
    fn undo_rows(&mut self, transaction: &Transaction) -> Result<RulesOutput, CoreError> {
        let failed = |why: &dyn fmt::Display| CoreError::Failed(format!("cannot undo a transaction: {why}"));
        let undone = self.evaluator.undo(transaction).map_err(|error| failed(&error))?;
        decode_output(&undone, &self.rules, &mut self.derived, &self.desired).map_err(|error| failed(&error))
    }

    fn change_desired(&mut self, changes: &BTreeMap<String, Changes>) {
        change_desired(&mut self.desired, changes);
    }
}

fn change_desired(states: &mut DesiredByNode, changes: &BTreeMap<String, Changes>) {
    for (node, changes) in changes {
        let desired = states.entry(node.clone()).or_default();
        let groups = changes.touched_groups();
        let present = |state: &Desired| groups.iter().filter(|group| has_group(state, **group)).count();
        let before = present(&desired.state);
        // Copies the state only while someone still reads the previous one.
        Arc::make_mut(&mut desired.state).apply(changes);
        desired.groups = desired.groups + present(&desired.state) - before;
        if *desired.state == Desired::default() {
            states.remove(node);
        }
    }
}

fn has_group(state: &Desired, group: u32) -> bool {
    let buckets = (group, 0)..=(group, u32::MAX);
    state.buckets.range(buckets.clone()).chain(state.candidates.range(buckets)).next().is_some()
}
