//! What is observed of switches becomes transactions: reports, learned flows and connections.
//!
//! The fleet keeps it as levels (`crate::levels`). They are compared with the rules at the end of each group of inputs, and when time alone makes a
//! difference, so the reports that came in with a group can become one transaction ([`Joint`]). What a group leaves to compare, the next one
//! goes on with, in order. While the journal rests after a failure, the differences wait.

use std::time::Instant;

use hashbrown::HashSet;
use switch_model::Report;
use tracing::{info, warn};

use super::{Failed, Machine, failed};
use crate::core::{AppliedTransaction, CoreError, Retried};
use crate::fleet::SwitchNews;
use crate::levels::Difference;
use crate::now::Now;
use crate::reports::Joint;

/// The number of parts of refused reports that may be retried with each look.
const RETRIES_MAX: usize = 8;

/// Something to compute: what a switch has told and the rules do not have, or what follows from connections.
#[derive(Debug)]
pub struct Task(Work);

#[derive(Debug)]
enum Work {
    /// Switches of transport nodes have reported something else than the rules have: all of it becomes one transaction.
    Reports(Vec<(String, Report)>),
    /// A transport node's switch has learned an awaited flow.
    Learned {
        node: String,
        flow: (u8, u64),
        is_new: bool,
    },
    /// A part of the refused report of a transport node's switch.
    Retry(String),
    Connections,
}

impl Task {
    /// The transport nodes whose switches said what is to be computed; none if it is of no single one.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        let (reports, single) = match &self.0 {
            Work::Reports(reports) => (reports.as_slice(), None),
            Work::Learned { node, .. } | Work::Retry(node) => (&[][..], Some(node.as_str())),
            Work::Connections => (&[][..], None),
        };
        reports.iter().map(|(node, _)| node.as_str()).chain(single)
    }
}

/// What is to be compared with the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Comparison {
    /// The switch of a transport node.
    Switch(String),
    Connections,
    /// At most so many parts of refused reports.
    Retries(usize),
}

impl Machine {
    /// The next task, until there is none: after each event, and before the group is written. It may be left to the next group, if this one has
    /// taken long. `is_alone` says whether what a transport node's switch told is to be computed in a task of its own.
    pub fn next_task(&mut self, now: Now, is_alone: &dyn Fn(&str) -> bool) -> Option<Task> {
        self.set_now(now);
        while let Some(next) = self.to_compare.pop_front() {
            let work = match next {
                Comparison::Switch(node) => self.next_of_switch(node, is_alone),
                Comparison::Connections => {
                    let is_due = self.fleet.judged_at().is_some_and(|moment| moment <= self.fleet.now());
                    (is_due && self.core.asks_for_connections()).then_some(Work::Connections)
                }
                Comparison::Retries(most) => {
                    let node = self.core.next_retry().filter(|_| most > 0).map(str::to_owned);
                    node.map(|node| {
                        self.to_compare.push_front(Comparison::Retries(most - 1));
                        Work::Retry(node)
                    })
                }
            };
            if work.is_some() {
                return work.map(Task);
            }
        }
        None
    }

    /// What a switch has told, with the reports of the switches that are compared next.
    fn next_of_switch(&mut self, node: String, is_alone: &dyn Fn(&str) -> bool) -> Option<Work> {
        let last_txn = self.core.last_txn();
        let report = match self.fleet.take_difference(&node, last_txn)? {
            Difference::Report(report) => *report,
            Difference::Learned { table, cookie, is_new } => {
                self.to_compare.push_front(Comparison::Switch(node.clone()));
                return Some(Work::Learned { node, flow: (table, cookie), is_new });
            }
        };
        let mut joint = Joint::default();
        let mut more = !is_alone(&node) && self.core.joins(&mut joint, &node, &report);
        // What else they have told comes before what others have.
        let mut again = vec![Comparison::Switch(node.clone())];
        let mut reports = vec![(node, report)];
        while more && let Some(Comparison::Switch(node)) = self.to_compare.front() {
            more = match self.fleet.waiting_report(node) {
                Some(report) => !is_alone(node) && self.core.joins(&mut joint, node, report),
                None => false,
            };
            if more && let Some(Comparison::Switch(node)) = self.to_compare.pop_front() {
                again.push(Comparison::Switch(node.clone()));
                match self.fleet.take_difference(&node, last_txn) {
                    Some(Difference::Report(report)) => reports.push((node, *report)),
                    Some(other) => self.fleet.put_back(&node, other),
                    None => {}
                }
            }
        }
        for comparison in again.into_iter().rev() {
            self.to_compare.push_front(comparison);
        }
        Some(Work::Reports(reports))
    }

    /// Whether a look would find something to compute though nothing comes in.
    pub fn has_more(&self) -> bool {
        self.core.is_retry_due() || !self.to_compare.is_empty()
    }

    /// When there may be something to compute, to end or to log, though nothing comes in.
    pub fn looks_at(&self) -> Option<Instant> {
        let moments = [
            self.fleet.judged_at().filter(|_| self.retry_at.is_none() && self.core.asks_for_connections()),
            self.fleet.takes_at().filter(|_| self.retry_at.is_none()),
            self.fleet.passes_at(),
            self.problems.next(),
            self.fleet.logs_at(),
            self.fleet.measures_at(),
            self.retry_at,
        ];
        moments.into_iter().flatten().min().map(|moment| self.fleet.instant(moment))
    }

    /// Takes news of a switch: its state, and what follows from it for the rules.
    pub(super) fn news(&mut self, news: SwitchNews) {
        let Some(news) = self.fleet.measured_news(self.core.probe_plan(), news) else { return };
        let node = news.node.clone();
        self.unpublished.nodes.insert(node.clone());
        self.fleet.news(news);
        for (node, names) in self.fleet.take_announced() {
            self.core.announced(&node, &names);
        }
    }

    /// Compares what was observed of all switches with the rules, and their connections if all news has been heard. What waits to be compared
    /// keeps its place.
    pub(super) fn look(&mut self, heard_all: bool) {
        self.fleet.pass();
        if !self.rests() {
            if self.retry_at.take().is_some() {
                self.core.retry_all();
            }
            let waiting: HashSet<String> = self.waiting_switches().map(str::to_owned).collect();
            let differing = self.fleet.differing().into_iter().filter(|node| !waiting.contains(node));
            self.to_compare.extend(differing.map(Comparison::Switch));
            self.to_compare.retain(|comparison| heard_all || *comparison != Comparison::Connections);
            if heard_all && !self.to_compare.contains(&Comparison::Connections) {
                self.to_compare.push_back(Comparison::Connections);
            }
        }
        if !self.to_compare.iter().any(|comparison| matches!(comparison, Comparison::Retries(_))) {
            self.to_compare.push_back(Comparison::Retries(RETRIES_MAX));
        }
        self.measure();
        self.log_lasting();
    }

    fn waiting_switches(&self) -> impl Iterator<Item = &str> {
        self.to_compare.iter().filter_map(|comparison| match comparison {
            Comparison::Switch(node) => Some(node.as_str()),
            Comparison::Connections | Comparison::Retries(_) => None,
        })
    }

    /// Measures the network between the hosts, and states what is wrong with it.
    fn measure(&mut self) {
        let plan = self.core.probe_plan();
        self.fleet.measure(plan);
        let kind = self.core.rules().host_kind().unwrap_or_default();
        if let Some(changes) = self.fleet.state_underlay(plan, kind) {
            self.follow_problems(&changes);
            self.unpublished.problems.push(changes);
        }
    }

    /// Whether the journal rests after a failure.
    fn rests(&self) -> bool {
        self.retry_at.is_some_and(|at| self.fleet.now() < at)
    }

    /// The group is not journalled: the differences that it has taken are differences still.
    pub(super) fn put_back(&mut self, why: &str) {
        for (node, difference) in std::mem::take(&mut self.taken) {
            if matches!(difference, Difference::Report(_)) {
                self.core.forget_refused(&node);
                self.fleet.report_judged(&node, Some(format!("journal: {why}")));
            }
            self.fleet.put_back(&node, difference);
        }
        self.fleet.look_again();
    }

    /// What a switch tells is not computed, and its last report before holds.
    pub(super) fn put_aside(&mut self, task: &Task, why: &str) {
        if let Work::Reports(reports) = &task.0 {
            for (node, report) in reports {
                let is_known = self.core.has_only_ports_of(node, report);
                self.fleet.is_put_aside(node, why.to_owned(), is_known);
            }
            return;
        }
        for node in task.nodes() {
            self.fleet.is_put_aside(node, why.to_owned(), true);
        }
    }

    pub(super) fn run(&mut self, task: Task, now: Now) -> Result<(), Failed> {
        match task.0 {
            Work::Reports(reports) => self.reconcile_reports(reports, now),
            Work::Learned { node, flow, is_new } => self.reconcile_learned(node, flow, is_new, now),
            Work::Retry(_) => self.retry(now),
            Work::Connections => self.reconcile_connections(now),
        }
    }

    /// Takes reports, in one transaction if the rules allow that.
    fn reconcile_reports(&mut self, reports: Vec<(String, Report)>, now: Now) -> Result<(), Failed> {
        let together = match reports.as_slice() {
            [_] => None,
            several => match self.core.report_together(several, now.wall) {
                Ok(transaction) => Some(transaction),
                Err(CoreError::Refused(_)) => None,
                Err(error) => return Err(failed(error)),
            },
        };
        let is_together = together.is_some();
        if let Some(applied) = together.flatten() {
            self.wait(applied, now.instant);
        }
        for (node, report) in reports {
            let alone = if is_together {
                None
            } else {
                self.core.report(&node, &report, now.wall).map_err(failed)?
            };
            self.fleet.report_exceeds(&node, self.core.excess(&node));
            self.reported(&node, alone, now);
            self.taken.push((node, Difference::Report(Box::new(report))));
        }
        Ok(())
    }

    fn reconcile_learned(
        &mut self,
        node: String,
        (table, cookie): (u8, u64),
        is_new: bool,
        now: Now,
    ) -> Result<(), Failed> {
        if self.learned(&node, (table, cookie), is_new, now)? {
            self.taken.push((node, Difference::Learned { table, cookie, is_new }));
        }
        Ok(())
    }

    /// A switch has learned a flow that the rules wait for. Returns false if that is to be tried again after another transaction.
    fn learned(
        &mut self,
        node: &str,
        (table, cookie): (u8, u64),
        is_new: bool,
        now: Now,
    ) -> Result<bool, Failed> {
        match self.core.learned(node, (table, cookie), is_new, now.wall) {
            Ok(None) if self.core.may_await_later(node, table, cookie) => {}
            Ok(transaction) => {
                self.reported(node, transaction, now);
                return Ok(true);
            }
            Err(CoreError::Refused(why)) => {
                warn!(switch = node, %why, "the rules refuse the announcement of an interface; it is tried again later");
            }
            Err(error) => return Err(failed(error)),
        }
        self.fleet.put_off(node, (table, cookie), is_new, self.core.last_txn());
        Ok(false)
    }

    /// Tells the rules which switches are lost, and which are back.
    fn reconcile_connections(&mut self, now: Now) -> Result<(), Failed> {
        let core = &self.core;
        for (node, is_back) in self.fleet.judge(|node| core.is_lost(node)) {
            match self.core.connection(&node, is_back, now.wall) {
                Ok(Some(applied)) => {
                    if is_back {
                        info!(switch = node, "host is back");
                    } else {
                        warn!(switch = node, "host is lost; others take over what it did for them");
                    }
                    self.wait(applied, now.instant);
                }
                Ok(None) => {}
                Err(CoreError::Refused(why)) => {
                    warn!(switch = node, is_back, %why, "the rules refuse the state of the connection");
                }
                Err(error) => return Err(failed(error)),
            }
        }
        for node in self.core.with_stale_connection() {
            match self.core.forget_connection(&node, now.wall) {
                Ok(Some(applied)) => self.wait(applied, now.instant),
                Ok(None) => {}
                Err(CoreError::Refused(why)) => {
                    warn!(switch = node, %why, "the rules refuse to forget a connection");
                }
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(())
    }

    /// Retries a part of a refused report.
    fn retry(&mut self, now: Now) -> Result<(), Failed> {
        let retried = self.core.retry(now.wall).map_err(failed)?;
        if let Some(Retried { node, report, transaction }) = retried {
            self.reported(&node, transaction, now);
            self.taken.push((node, Difference::Report(Box::new(report))));
        }
        Ok(())
    }

    /// Takes what the rules made of a report.
    fn reported(&mut self, node: &str, transaction: Option<AppliedTransaction>, now: Now) {
        self.unpublished.nodes.insert(node.to_owned());
        if let Some(verdict) = self.core.verdict(node) {
            self.fleet.report_judged(node, verdict.refusal());
        }
        if let Some(applied) = transaction {
            self.wait(applied, now.instant);
        }
    }
}
