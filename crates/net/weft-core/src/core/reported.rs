//! What switches say: reports, announcements and connections become transactions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

use super::{AppliedTransaction, Core, CoreError, Retried, Undo, Verdict};
use crate::derived::RulesOutput;
use crate::reports::{CONNECTION, Joint, NodeReport, difference};
use objects::{ChangeSet, ObjectKey, Outcome, Rows};

/// Interfaces of a host with ids that no object has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Strays {
    /// How many there are.
    pub count: usize,
    /// The ids of the first, and for each the object without an interface that has a similar id, if there is one.
    pub first: Vec<(String, Option<ObjectKey>)>,
}

/// Objects that come whose interfaces hosts report already.
#[derive(Debug, Default)]
pub(super) struct Adoptions {
    /// What is known of each host afterwards.
    pub(super) states: BTreeMap<String, NodeReport>,
    pub(super) rows: Rows,
    /// Host, port and interface.
    pub(super) ports: Vec<(String, String, switch_model::Vif)>,
}

impl Core {
    /// Takes a switch's report. Returns nothing if the report changes nothing or the transport node does not exist.
    /// If the rules refuse the report, its parts are left to [`Core::retry`].
    pub fn report(
        &mut self,
        node: &str,
        report: &switch_model::Report,
        now: SystemTime,
    ) -> Result<Option<AppliedTransaction>, CoreError> {
        let Some(report) = self.take_report(node, report) else { return Ok(None) };
        let reports = [(node, report)];
        match self.commit_reports(&reports, now) {
            Err(CoreError::Refused(why)) => {
                let [(node, report)] = reports;
                let ports = self.reports.missing(node, &report);
                self.refused.refuse_whole(node, report, ports, &why.to_string());
                Ok(None)
            }
            result => result,
        }
    }

    /// Takes the reports of several switches in one transaction, which [`Joint`] allows. Returns nothing if they change nothing.
    ///
    /// # Errors
    /// The rules refuse the transaction, so it is up to the caller to try each report alone; or the engine failed.
    pub(crate) fn report_together(
        &mut self,
        reports: &[(String, switch_model::Report)],
        now: SystemTime,
    ) -> Result<Option<AppliedTransaction>, CoreError> {
        let take = |(node, report): &(String, switch_model::Report)| {
            Some((node.clone(), self.take_report(node, report)?))
        };
        let reports: Vec<_> = reports.iter().filter_map(take).collect();
        self.commit_reports(&reports, now)
    }

    /// Whether the report of a switch can become a part of a transaction with others. A host of whose last report something is refused would make
    /// the rules refuse the others too.
    pub(crate) fn joins(&self, joint: &mut Joint, node: &str, report: &switch_model::Report) -> bool {
        !self.refused.has(node) && joint.join(&self.reports, node, report)
    }

    /// Replaces the last report of a switch. Returns what objects exist for; `None` if the transport node does not exist.
    fn take_report(&mut self, node: &str, report: &switch_model::Report) -> Option<switch_model::Report> {
        if !self.derived.addresses.contains(node) {
            return None;
        }
        self.refused.forget(node);
        let objects = &self.objects;
        let report = self.beside.take(node, report, |port| objects.has_id(port));
        self.left_behind.remove(node);
        Some(report)
    }

    /// Retries a part of a refused report that is due: after the report itself, and after another transaction was
    /// accepted. `None` if no part is due.
    pub fn retry(&mut self, now: SystemTime) -> Result<Option<Retried>, CoreError> {
        let Some((part, report)) = self.refused.next(&self.reports) else { return Ok(None) };
        let node = part.node.clone();
        let candidate = self.reports.partial(&node, &report, &part.ports);
        let transaction = match self.commit_reports(&[(&*node, candidate)], now) {
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

    /// The transport node whose report [`Core::retry`] computes next.
    pub(crate) fn next_retry(&mut self) -> Option<&str> {
        self.refused.next_node(&self.reports)
    }

    /// Whether a refused part is due for [`Core::retry`].
    pub fn is_retry_due(&self) -> bool {
        self.refused.is_due()
    }

    /// The verdict on a transport node's last report, once all its parts are judged, unless it was returned already.
    pub fn verdict(&mut self, node: &str) -> Option<Verdict> {
        self.refused.verdict(node)
    }

    /// Commits the reports of switches of which no two claim the same port anew.
    fn commit_reports(
        &mut self,
        reports: &[(impl AsRef<str>, switch_model::Report)],
        now: SystemTime,
    ) -> Result<Option<AppliedTransaction>, CoreError> {
        let (mut states, mut rows) = (Vec::new(), Rows::default());
        for (node, report) in reports {
            let node = node.as_ref();
            let (state, reported) = self.reports.plan(node, report, self.last_txn + 1);
            states.push((node.to_owned(), state));
            rows.add(reported);
        }
        if rows == Rows::default() {
            for (node, state) in states {
                self.reports.commit(&node, state);
            }
            return Ok(None);
        }
        self.commit_reported(states, rows, now).map(Some)
    }

    /// Takes the news that a switch has learned a flow, new or seen for the first time. Returns nothing if that tells of no
    /// announcement, or of one that is known.
    ///
    /// # Errors
    /// The rules refuse the announcement, or the engine failed.
    pub fn learned(
        &mut self,
        node: &str,
        (table, cookie): (u8, u64),
        is_new: bool,
        now: SystemTime,
    ) -> Result<Option<AppliedTransaction>, CoreError> {
        let Some(port) = self.awaited(node, table, cookie) else { return Ok(None) };
        let plan = self.reports.plan_announced(node, &port, is_new, self.last_txn + 1);
        let Some((state, reported)) = plan else { return Ok(None) };
        self.commit_reported(vec![(node.to_owned(), state)], reported, now).map(Some)
    }

    /// The port whose interface announces itself by a learned flow.
    fn awaited(&self, node: &str, table: u8, cookie: u64) -> Option<Arc<str>> {
        self.desired.get(node)?.state.awaited.get(&(table, cookie)).cloned()
    }

    /// Whether an awaited flow may have an effect later, because the report of its interface is refused so far.
    pub(crate) fn may_await_later(&self, node: &str, table: u8, cookie: u64) -> bool {
        self.awaited(node, table, cookie).is_none() && self.refused.has(node)
    }

    /// Whether all port numbers that the rules have of a switch are those of its last report, even if they refuse parts of it.
    pub(crate) fn has_ports_of_report(&self, node: &str) -> bool {
        !self.refused.refuses_deletions(node)
    }

    /// Whether a report has all ports that the rules have of its switch, with the same numbers.
    pub(crate) fn has_only_ports_of(&self, node: &str, report: &switch_model::Report) -> bool {
        self.reports.has_only_ports_of(node, report)
    }

    /// Forgets what was refused of the last report of a transport node, since that report will come again.
    pub(crate) fn forget_refused(&mut self, node: &str) {
        self.refused.forget(node);
    }

    /// The limits that the last report of a transport node exceeds; `None` if there are none.
    pub(crate) fn excess(&self, node: &str) -> Option<String> {
        self.beside.excess(node)
    }

    /// The ids, in order, that interfaces of a transport node have and no object has.
    pub fn unclaimed(&self, node: &str) -> impl Iterator<Item = &str> {
        self.beside.of_host(node)
    }

    /// The interfaces of a transport node whose ids no object has: how many, and the first of them, each with the object that may be
    /// meant.
    pub fn strays(&self, node: &str) -> Strays {
        /// The most that are named.
        const NAMED: usize = 5;
        let near = |id: &str| self.object_status().nearest_unattached(id, &self.rules);
        let left_behind = self.left_behind.get(node).into_iter().flatten().map(String::as_str);
        // An object may have come since the last report.
        let mut strays = left_behind.chain(self.unclaimed(node)).filter(|id| !self.objects.has_id(id));
        let first: Vec<_> = strays.by_ref().take(NAMED).map(|id| (id.to_owned(), near(id))).collect();
        let count = first.len() + strays.count() + self.beside.beyond(node);
        Strays { count, first }
    }

    /// Notes the interfaces of objects that are deleted. Their hosts need not report them again soon.
    pub(super) fn note_left_behind(&mut self, objects: &ChangeSet) {
        let deleted = objects.effective().filter(|change| change.outcome() == Outcome::Deleted);
        let deleted: BTreeSet<&str> = deleted.map(|change| &*change.key.id).collect();
        if deleted.is_empty() {
            return;
        }
        for (node, port) in self.reports.interfaces_of(&deleted) {
            self.left_behind.entry(node.to_owned()).or_default().insert(port.to_owned());
        }
    }

    /// Plans that objects come whose interfaces hosts report already: the state of each host's reports, the rows, and the interfaces.
    pub(super) fn plan_adoptions(&self, objects: &ChangeSet, gone: &BTreeSet<String>) -> Adoptions {
        let mut adoptions = Adoptions::default();
        let created = objects.effective().filter(|change| change.outcome() == Outcome::Created);
        for port in created.map(|change| &*change.key.id) {
            for (node, vif) in self.beside.of_port(port).filter(|(node, _)| !gone.contains(*node)) {
                let before = adoptions.states.remove(node).unwrap_or_else(|| self.reports.of(node));
                let after = self.reports.plan_adoption(&before, (node, port), vif, self.last_txn + 1);
                if after.is_some() {
                    adoptions.ports.push((node.to_owned(), port.to_owned(), vif.clone()));
                }
                adoptions.states.insert(node.to_owned(), after.unwrap_or(before));
            }
            for (node, why) in self.beside.unopened(port).filter(|(node, _)| !gone.contains(*node)) {
                let state = adoptions.states.entry(node.to_owned());
                state.or_insert_with(|| self.reports.of(node)).note_unopened(port, why.clone());
            }
        }
        for (node, after) in &adoptions.states {
            adoptions.rows.add(difference(&self.reports.of(node).rows(node), &after.rows(node)));
        }
        adoptions
    }

    /// Whether the rules ask which switches are lost.
    pub(crate) fn asks_for_connections(&self) -> bool {
        self.rules.uses(CONNECTION)
    }

    /// Whether the switch of a transport node is lost.
    pub(crate) fn is_lost(&self, node: &str) -> bool {
        self.reports.is_lost(node)
    }

    /// The transport nodes that are not managed any more, of whose connection something is known.
    pub(crate) fn with_stale_connection(&self) -> Vec<String> {
        let known = self.reports.with_known_connection();
        known.filter(|node| !self.derived.addresses.contains(node)).map(str::to_owned).collect()
    }

    /// Takes that a transport node is not managed any more, so nothing is known of its connection. Returns nothing if that changes
    /// nothing.
    pub fn forget_connection(
        &mut self,
        node: &str,
        now: SystemTime,
    ) -> Result<Option<AppliedTransaction>, CoreError> {
        match self.reports.plan_forgotten(node) {
            Some((state, rows)) => self.commit_observed(node, state, rows, now).map(Some),
            None => Ok(None),
        }
    }

    /// Takes that the switch of a transport node is lost, or connected again. Returns nothing if that changes nothing, the
    /// transport node does not exist, or the rules do not ask.
    pub fn connection(
        &mut self,
        node: &str,
        connected: bool,
        now: SystemTime,
    ) -> Result<Option<AppliedTransaction>, CoreError> {
        if !self.derived.addresses.contains(node) {
            return Ok(None);
        }
        match self.reports.plan_connection(node, connected, self.last_txn + 1) {
            Some((state, rows)) if self.rules.use_all(&rows) => {
                self.commit_observed(node, state, rows, now).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Commits the rows of what was observed of a connection, in a record that nothing depends on.
    fn commit_observed(
        &mut self,
        node: &str,
        state: NodeReport,
        rows: Rows,
        now: SystemTime,
    ) -> Result<AppliedTransaction, CoreError> {
        let mut applied = self.commit_reported(vec![(node.to_owned(), state)], rows, now)?;
        // Later records rely on what hooks did.
        applied.record.observation = applied.record.filled.is_none() && applied.record.memory.is_empty();
        Ok(applied)
    }

    /// Commits the rows by which the states of switches become others.
    fn commit_reported(
        &mut self,
        states: Vec<(String, NodeReport)>,
        reported: Rows,
        now: SystemTime,
    ) -> Result<AppliedTransaction, CoreError> {
        // A report with rows that no rule reads is in the record as it came, beside the rows of the transaction.
        let whole = (!self.rules.use_all(&reported)).then(|| reported.clone().into());
        let transaction = self.rules.transaction(reported);
        let RulesOutput { mut changes, problems, states: told, addresses, moves, filled } =
            self.run(&transaction)?;
        let mut record = self.record(transaction, by(&states).into(), now);
        let commit = |(node, state): (String, NodeReport)| {
            let before = self.reports.commit(&node, state);
            (node, before)
        };
        let undo = Undo { reports: states.into_iter().map(commit).collect(), ..Undo::default() };
        self.refused.retry_later();
        let announcements = self.announcements.follow(&mut changes);
        self.change_desired(&changes);
        record.filled = filled;
        record.reports = whole;
        record.announcements = announcements;
        let undo = Box::new(undo);
        Ok(AppliedTransaction { record, changes, problems, states: told, addresses, moves, undo })
    }
}

/// The originator of a transaction of these switches, as journal and receipts name it.
fn by(states: &[(String, NodeReport)]) -> String {
    match states {
        [(only, _)] => format!("switch {only}"),
        [(first, _), (second, _)] => format!("switches {first}, {second}"),
        [(first, _), (second, _), more @ ..] => format!("switches {first}, {second} and {} more", more.len()),
        [] => "no switch".to_owned(),
    }
}
