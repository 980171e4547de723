//! The state of the controller, and the effects of requests on it. No I/O, no clock.
//!
//! Every request is judged first (objects, labels), then given to the rules, and takes effect if they accept it: then
//! objects, labels, reports and the switches' desired state change together, and a [`Record`] says how. A refused
//! request leaves no trace.
//!
//! Invariant: the rows that the rules have are a function of objects, labels and reports, and the records' rows add up
//! to them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

use network::{
    Batch, Change, ChangeSet, Kind, Object, ObjectError, ObjectKey, ObjectStore, Outcome, Rows, TransportZone,
};
use nlog_data::{CommitError, Evaluator, Row, Transaction, TransactionError, Value};
use ovs_driver::{Changes, Desired, Pool};

use crate::delta_split::split_by_node;
use crate::labels::{LabelChanges, LabelUndo, Labels};
use crate::object_status::ObjectStatus;
pub use crate::object_status::{Problem, ProblemChanges};
use crate::peer::Origin;
use crate::provenance::Provenance;
use crate::record::{ObjectChanges, Record, ReportChanges, UPGRADE, rfc3339, rows_to_json};
pub use crate::refused_reports::Verdict;
use crate::refused_reports::{Entry, RefusedReports};
use crate::reports::{NodeReport, Reports};
pub use crate::restore::History;
use crate::restore::Restored;
use crate::rules::Rules;

/// All state of a controller.
pub struct Core {
    evaluator: Box<dyn Evaluator>,
    rules: Arc<Rules>,
    objects: ObjectStore,
    labels: Labels,
    reports: Reports,
    refused: RefusedReports,
    /// By transport node; only those that have anything.
    desired: BTreeMap<String, NodeDesired>,
    derived: Derived,
    last_txn: u64,
}

/// The desired state of a switch.
#[derive(Debug, Default)]
struct NodeDesired {
    state: Arc<Desired>,
    /// The number of its groups, counted as buckets come and go.
    groups: usize,
}

/// How much the switch of a transport node should have.
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

/// What the controller itself remembers of the rules' outputs.
#[derive(Debug, Default)]
struct Derived {
    provenance: Provenance,
    status: ObjectStatus,
    /// The encoded values of all switches.
    pool: Pool,
}

/// Why a request is refused. Nothing changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The objects are at fault.
    #[error("{}", faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Objects {
        /// Every fault, in the request's order.
        faults: Vec<ObjectError>,
    },
    /// The labels do not suffice.
    #[error("{0}")]
    Labels(String),
    /// The rules refuse what follows.
    #[error(transparent)]
    Rules(TransactionError),
    /// It was in order, but could not be journalled.
    #[error("journal: {0}")]
    Journal(String),
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CoreError {
    /// The request is refused; the next one may come.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The engine is at fault; the core must not be used any more.
    #[error("the engine failed: {0}")]
    Failed(String),
}

/// What an accepted request did.
#[derive(Debug, Default)]
pub struct Accepted {
    /// What became of the objects of the request.
    pub objects: ChangeSet,
    /// The transaction, if anything changed: to be journalled before the changes leave the process.
    pub transaction: Option<AppliedTransaction>,
}

/// A transaction that took effect in the core.
#[derive(Debug)]
pub struct AppliedTransaction {
    /// For the journal.
    pub record: Record,
    /// By transport node, what its switch is to change.
    pub changes: BTreeMap<String, Changes>,
    /// What people are to know.
    pub problems: ProblemChanges,
    undo: Box<Undo>,
}

/// What takes a transaction back.
#[derive(Debug, Default)]
struct Undo {
    /// Those of the transaction.
    rows: Rows,
    objects: ChangeSet,
    labels: Option<LabelUndo>,
    /// The last reports before, by transport node.
    reports: Vec<(String, Option<NodeReport>)>,
    refused: Vec<(String, Entry)>,
}

/// A part of a refused report was tried again.
#[derive(Debug)]
pub struct Retried {
    /// Of which transport node.
    pub node: String,
    /// Of which report.
    pub report: ovs_driver::Report,
    /// The transaction, if it was accepted now.
    pub transaction: Option<AppliedTransaction>,
}

/// Why a journal and rules do not make a controller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// A record does not fit those before it.
    #[error("line {line}: {why}")]
    Record {
        /// The record's line in the journal.
        line: u64,
        /// What is wrong.
        why: String,
    },
    /// The objects in force at the end are at fault, by the reckoning of this version.
    #[error("the objects in the journal are invalid for this version: {0}")]
    Objects(Refusal),
    /// The rules refuse the state.
    #[error("the rules refuse the journal's state: {0}; start with the rules that wrote it, or repair them")]
    Rules(TransactionError),
    /// The engine is at fault.
    #[error("the engine failed: {0}")]
    Failed(String),
}

impl Core {
    /// A core that knows what a journal knows. The record, if there is one, brings the journal's rows up to date with
    /// rules or a version that differ from those that wrote it; it must be journalled first.
    pub fn restore(
        mut evaluator: Box<dyn Evaluator>,
        rules: Arc<Rules>,
        history: History,
        now: SystemTime,
    ) -> Result<(Core, Option<Record>), RestoreError> {
        let Restored { objects, mut labels, reports, rows, last_txn } = history.finish()?;
        let missing = labels.plan_missing(&objects);
        let missing = missing.map_err(|error| RestoreError::Objects(Refusal::Labels(error.to_string())))?;
        let new_labels = missing.records.clone();
        labels.commit(missing);
        let mut all = rules.used(objects_rows(&objects));
        if last_txn > 0 {
            merge(&mut all, rules.used(rows_from_the_start()));
        }
        merge(&mut all, rules.used(labels.rows()));
        merge(&mut all, rules.used(reports.rows()));

        let differs = rows.correction(&all);
        let correction = (differs.is_some() || !new_labels.is_empty()).then(|| {
            let (txn, at, by) = (last_txn + 1, rfc3339(now), UPGRADE.to_owned());
            let ((insert, delete), objects) = (differs.unwrap_or_default(), ObjectChanges::default());
            Record { txn, at, by, peer: None, insert, delete, objects, labels: new_labels, reports: None }
        });
        let mut derived = Derived::default();
        let (changes, _) = run(&mut *evaluator, &rules, &mut derived, &all).map_err(|error| match error {
            CoreError::Refused(Refusal::Rules(error)) => RestoreError::Rules(error),
            CoreError::Refused(refusal) => RestoreError::Objects(refusal),
            CoreError::Failed(why) => RestoreError::Failed(why),
        })?;
        let last_txn = last_txn + u64::from(correction.is_some());
        let (refused, desired) = (RefusedReports::default(), BTreeMap::new());
        let mut core =
            Core { evaluator, rules, objects, labels, reports, refused, desired, derived, last_txn };
        core.change_desired(&changes);
        Ok((core, correction))
    }

    /// Creates or replaces objects.
    pub fn apply(
        &mut self,
        batch: Batch,
        by: impl Into<Origin>,
        now: SystemTime,
    ) -> Result<Accepted, CoreError> {
        let changes = self.objects.plan(batch).map_err(|faults| Refusal::Objects { faults })?;
        self.change_objects(changes, by.into(), now)
    }

    /// Deletes objects.
    pub fn delete(
        &mut self,
        keys: &[ObjectKey],
        by: impl Into<Origin>,
        now: SystemTime,
    ) -> Result<Accepted, CoreError> {
        let changes = self.objects.plan_delete(keys).map_err(|faults| Refusal::Objects { faults })?;
        self.change_objects(changes, by.into(), now)
    }

    /// Takes a switch's report; nothing is accepted if it says nothing new, or the transport node does not exist. If
    /// the rules refuse it, its parts are for [`Core::retry`].
    pub fn report(
        &mut self,
        node: &str,
        report: &ovs_driver::Report,
        now: SystemTime,
    ) -> Result<Option<AppliedTransaction>, CoreError> {
        if self.objects.get(&ObjectKey::new(Kind::TransportNode, node)).is_none() {
            return Ok(None);
        }
        self.refused.forget(node);
        match self.commit_report(node, report, now) {
            Err(CoreError::Refused(why)) => {
                let ports = self.reports.missing(node, report);
                self.refused.refuse_whole(node, report.clone(), ports, &why.to_string());
                Ok(None)
            }
            result => result,
        }
    }

    /// Tries a part of what was refused of a report and is due: after the report itself and when anything else was
    /// accepted. `None` if there is nothing to try.
    pub fn retry(&mut self, now: SystemTime) -> Result<Option<Retried>, CoreError> {
        let Some((part, report)) = self.refused.next(&self.reports) else { return Ok(None) };
        let node = part.node.clone();
        let candidate = self.reports.partial(&node, &report, &part.ports);
        let transaction = match self.commit_report(&node, &candidate, now) {
            Ok(transaction) => {
                let (_, left) = self.reports.plan(&node, &report, self.last_txn);
                self.refused.accept(&part, left == Rows::default());
                transaction
            }
            Err(CoreError::Refused(why)) => {
                self.refused.refuse(part, &why.to_string());
                None
            }
            Err(failed) => return Err(failed),
        };
        Ok(Some(Retried { node, report, transaction }))
    }

    /// Whether [`Core::retry`] has anything to do.
    pub fn is_retry_due(&self) -> bool {
        self.refused.is_due()
    }

    /// What to tell of a transport node's last report, if all its parts are judged and it was not told already.
    pub fn verdict(&mut self, node: &str) -> Option<Verdict> {
        self.refused.verdict(node)
    }

    fn commit_report(
        &mut self,
        node: &str,
        report: &ovs_driver::Report,
        now: SystemTime,
    ) -> Result<Option<AppliedTransaction>, CoreError> {
        let (state, reported) = self.reports.plan(node, report, self.last_txn + 1);
        if reported == Rows::default() {
            return Ok(None);
        }
        let rows = self.rules.used(reported.clone());
        let (changes, problems) = run(&mut *self.evaluator, &self.rules, &mut self.derived, &rows)?;
        let before = self.reports.commit(node, state);
        self.refused.retry_later();
        self.change_desired(&changes);
        let mut record = self.record(&rows, format!("switch {node}").into(), now);
        record.reports = (rows != reported).then(|| ReportChanges::of(&reported));
        let undo = Undo { rows, reports: vec![(node.to_owned(), before)], ..Undo::default() };
        Ok(Some(AppliedTransaction { record, changes, problems, undo: Box::new(undo) }))
    }

    /// Uses time in which nothing waits to make later transactions cheaper. Nothing changes but that.
    pub fn idle(&mut self) -> Result<(), CommitError> {
        self.evaluator.idle()
    }

    /// The objects in force.
    pub fn objects(&self) -> &ObjectStore {
        &self.objects
    }

    /// The rules that run.
    pub fn rules(&self) -> &Arc<Rules> {
        &self.rules
    }

    /// What the switch of a transport node should have.
    pub fn desired(&self, node: &str) -> Arc<Desired> {
        self.desired.get(node).map(|desired| desired.state.clone()).unwrap_or_default()
    }

    /// How much the switch of a transport node should have. Takes no time, however much it is.
    pub fn desired_counts(&self, node: &str) -> DesiredCounts {
        let Some(NodeDesired { state, groups }) = self.desired.get(node) else {
            return DesiredCounts::default();
        };
        DesiredCounts {
            flows: state.flows.len(),
            groups: *groups,
            tunnels: state.tunnels.len(),
            patches: state.patches.len(),
        }
    }

    /// The problems of one object.
    pub fn problems_of(&self, kind: Kind, id: &str) -> impl Iterator<Item = &Problem> {
        self.derived.status.problems_of(kind.name(), id)
    }

    /// The logical rules behind flows that the physical rules only placed, as they are now. Cheap.
    pub(crate) fn provenance(&self) -> Provenance {
        self.derived.provenance.clone()
    }

    /// How large IP packets may be that all ports of a logical switch exchange, if the rules say it.
    pub fn mtu(&self, switch: &str) -> Option<i64> {
        self.derived.status.mtu(switch)
    }

    /// What cannot be done as things are, in order of the objects' kind and id.
    pub fn problems(&self) -> impl Iterator<Item = &Problem> {
        self.derived.status.problems()
    }

    /// The label of a switch or a port.
    pub fn label(&self, key: &ObjectKey) -> Option<u32> {
        self.labels.get(key.kind, &key.id)
    }

    /// How many virtual interfaces a transport node has reported.
    pub fn vif_count(&self, node: &str) -> usize {
        self.reports.vif_count(node)
    }

    /// The number of the last transaction; 0 if there was none.
    pub fn last_txn(&self) -> u64 {
        self.last_txn
    }

    fn change_objects(
        &mut self,
        objects: ChangeSet,
        by: Origin,
        now: SystemTime,
    ) -> Result<Accepted, CoreError> {
        if objects.is_empty() {
            return Ok(Accepted { objects, transaction: None });
        }
        let labels = self.labels.plan(&objects).map_err(|error| Refusal::Labels(error.to_string()))?;
        let gone: Vec<String> = objects
            .effective()
            .filter(|change| changes_switch(change))
            .map(|change| change.key.id.clone())
            .collect();
        let mut rows = objects.rows();
        merge(&mut rows, managed_rows(&objects));
        if self.last_txn == 0 {
            merge(&mut rows, rows_from_the_start());
        }
        let LabelChanges { rows: label_rows, .. } = &labels;
        merge(&mut rows, label_rows.clone());
        let mut reported = Rows::default();
        for node in &gone {
            merge(&mut reported, self.reports.plan_removal(node));
        }
        let all_used = self.rules.used(reported.clone()) == reported;
        merge(&mut rows, reported.clone());
        let rows = self.rules.used(rows);
        let (changes, problems) = run(&mut *self.evaluator, &self.rules, &mut self.derived, &rows)?;

        self.objects.commit(&objects);
        let mut undo = Undo { objects: objects.clone(), ..Undo::default() };
        for node in gone {
            undo.refused.extend(self.refused.forget(&node).map(|entry| (node.clone(), entry)));
            let report = self.reports.remove(&node);
            undo.reports.push((node, report));
        }
        self.refused.retry_later();
        self.change_desired(&changes);
        let mut record = self.record(&rows, by, now);
        record.objects = ObjectChanges::of(&objects);
        record.labels.clone_from(&labels.records);
        record.reports = (!all_used).then(|| ReportChanges::of(&reported));
        undo.labels = Some(self.labels.commit(labels));
        undo.rows = rows;
        let undo = Box::new(undo);
        Ok(Accepted { objects, transaction: Some(AppliedTransaction { record, changes, problems, undo }) })
    }

    /// Takes back the last transaction that was not taken back: all is as it was before. An error means that the core
    /// must not be used any more.
    pub fn undo(&mut self, applied: AppliedTransaction) -> Result<(), CoreError> {
        let AppliedTransaction { record, undo, .. } = applied;
        let Undo { rows: Rows { insert, delete }, objects, labels, reports, refused } = *undo;
        let rows = Rows { insert: delete, delete: insert };
        let run = run(&mut *self.evaluator, &self.rules, &mut self.derived, &rows);
        let (changes, _) =
            run.map_err(|error| CoreError::Failed(format!("cannot undo a transaction: {error}")))?;
        self.change_desired(&changes);
        let reverse = |change: Change| Change { key: change.key, before: change.after, after: change.before };
        let changes = objects.changes.into_iter().map(reverse).collect();
        self.objects.commit(&ChangeSet { changes });
        if let Some(labels) = &labels {
            self.labels.undo(labels);
        }
        for (node, before) in reports {
            match before {
                Some(before) => drop(self.reports.commit(&node, before)),
                None => drop(self.reports.remove(&node)),
            }
        }
        for (node, entry) in refused {
            self.refused.remember(&node, entry);
        }
        self.last_txn = record.txn - 1;
        Ok(())
    }

    /// Keeps a report whose transaction was taken back, to be tried again after [`Core::retry_all`].
    pub fn keep_report(&mut self, node: &str, report: ovs_driver::Report) {
        if self.objects.get(&ObjectKey::new(Kind::TransportNode, node)).is_some() {
            self.refused.keep(node, report);
        }
    }

    /// Lets [`Core::retry`] rest until something is accepted or [`Core::retry_all`] is called; whether it has anything
    /// left to try then.
    pub fn pause_retries(&mut self) -> bool {
        self.refused.pause()
    }

    /// Lets [`Core::retry`] try all that is refused.
    pub fn retry_all(&mut self) {
        self.refused.retry_later();
    }

    /// The next record.
    fn record(&mut self, rows: &Rows, origin: Origin, now: SystemTime) -> Record {
        self.last_txn += 1;
        let (insert, delete) = rows_to_json(rows);
        let (txn, at) = (self.last_txn, rfc3339(now));
        let Origin { by, peer } = origin;
        let (objects, labels, reports) = (ObjectChanges::default(), Vec::new(), None);
        Record { txn, at, by, peer, insert, delete, objects, labels, reports }
    }

    fn change_desired(&mut self, changes: &BTreeMap<String, Changes>) {
        for (node, changes) in changes {
            let desired = self.desired.entry(node.clone()).or_default();
            let buckets = changes.buckets_add.keys().chain(&changes.buckets_delete);
            let groups: BTreeSet<u32> = buckets.map(|(group, _)| *group).collect();
            let present = |state: &Desired| groups.iter().filter(|group| has_group(state, **group)).count();
            let before = present(&desired.state);
            // Copied only while somebody still looks at the state before.
            Arc::make_mut(&mut desired.state).apply(changes);
            desired.groups = desired.groups + present(&desired.state) - before;
            if *desired.state == Desired::default() {
                self.desired.remove(node);
            }
        }
    }
}

fn has_group(state: &Desired, group: u32) -> bool {
    state.groups.range((group, 0)..=(group, u32::MAX)).next().is_some()
}

/// Whether a transport node is deleted, or its end points change: what its switch reported, port numbers above all, says
/// nothing about another switch.
fn changes_switch(change: &Change) -> bool {
    match (change.before.as_deref(), change.after.as_deref()) {
        (Some(Object::TransportNode(_)), None) => true,
        (Some(Object::TransportNode(before)), Some(Object::TransportNode(after))) => {
            (&before.ovsdb, &before.openflow) != (&after.ovsdb, &after.openflow)
        }
        _ => false,
    }
}

/// Whether the switch of a transport node that stays is connected anew.
pub(crate) fn reconnects(change: &Change) -> bool {
    match (change.before.as_deref(), change.after.as_deref()) {
        (Some(Object::TransportNode(before)), Some(Object::TransportNode(after))) => {
            changes_switch(change) || before.datapath_type != after.datapath_type
        }
        _ => false,
    }
}

/// Runs rows through the rules: accepted and understood, or as if they had never come.
fn run(
    evaluator: &mut dyn Evaluator,
    rules: &Rules,
    derived: &mut Derived,
    rows: &Rows,
) -> Result<(BTreeMap<String, Changes>, ProblemChanges), CoreError> {
    let transaction = rules.transaction(rows);
    let mut commit = |transaction: &Transaction| {
        evaluator.commit(transaction).map_err(|error| match error {
            CommitError::Refused(error) => CoreError::Refused(Refusal::Rules(error)),
            CommitError::Engine(why) => CoreError::Failed(why),
        })
    };
    let committed = commit(&transaction)?;
    let changes = split_by_node(&committed, rules, &mut derived.pool).map_err(|error| {
        // Every row was new or there: the reverse transaction brings back exactly the state before.
        let Transaction { insert, delete } = transaction;
        match commit(&Transaction { insert: delete, delete: insert }) {
            Ok(_) => CoreError::Refused(Refusal::Rules(error)),
            Err(failed) => CoreError::Failed(format!("cannot undo a transaction: {failed}")),
        }
    })?;
    derived.provenance.apply(&committed, rules);
    Ok((changes, derived.status.apply(&committed, rules)))
}

fn merge(rows: &mut Rows, more: Rows) {
    for (table, list) in more.insert {
        rows.insert.entry(table).or_default().extend(list);
    }
    for (table, list) in more.delete {
        rows.delete.entry(table).or_default().extend(list);
    }
}

/// The rows of all objects.
fn objects_rows(objects: &ObjectStore) -> Rows {
    let mut rows = Rows::default();
    for (table, row) in objects.iter().flat_map(|(_, object)| object.rows()) {
        rows.insert.entry(table).or_default().push(row);
    }
    let nodes = objects.list(Kind::TransportNode).map(|node| managed(node.id()));
    rows.insert.insert(MANAGED, nodes.collect());
    rows
}

/// The rows that come with the first transaction and never go.
fn rows_from_the_start() -> Rows {
    let (table, row) = TransportZone::default_zone().row();
    Rows { insert: BTreeMap::from([(table, vec![row])]), delete: BTreeMap::new() }
}

/// The table of transport nodes that this controller programs: all.
const MANAGED: &str = "managed";

fn managed(node: &str) -> Row {
    vec![Value::String(node.into())]
}

/// The rows of [`MANAGED`] that come and go with objects.
fn managed_rows(objects: &ChangeSet) -> Rows {
    let mut rows = Rows::default();
    for change in objects.effective().filter(|change| change.key.kind == Kind::TransportNode) {
        let side = match change.outcome() {
            Outcome::Created => &mut rows.insert,
            Outcome::Deleted => &mut rows.delete,
            Outcome::Updated | Outcome::Unchanged => continue,
        };
        side.entry(MANAGED).or_default().push(managed(&change.key.id));
    }
    rows
}
