//! What is observed of switches becomes transactions: reports, learned flows and connections.
//!
//! The fleet keeps it as levels (`crate::levels`). They are compared with the rules when a switch tells something, at the end of each group,
//! and when time alone makes a difference. While the journal rests after a failure, the differences wait.

use std::time::Instant;

use tracing::{info, warn};

use super::{Failed, Machine, failed};
use crate::core::{AppliedTransaction, CoreError, Retried};
use crate::fleet::SwitchNews;
use crate::levels::Difference;
use crate::now::Now;

/// The number of parts of refused reports that may be retried with each look.
const RETRIES_MAX: usize = 8;

/// Something to compute: what a switch has told and the rules do not have, or what follows from connections.
#[derive(Debug)]
pub struct Task(Work);

#[derive(Debug)]
enum Work {
    /// A transport node's switch differs from what the rules have.
    Difference(String, Difference),
    /// A part of the refused report of a transport node's switch.
    Retry(String),
    Connections,
}

impl Task {
    /// The transport node whose switch said what is to be computed; `None` if it is of no single one.
    pub fn node(&self) -> Option<&str> {
        match &self.0 {
            Work::Difference(node, _) | Work::Retry(node) => Some(node),
            Work::Connections => None,
        }
    }
}

/// What is to be compared with the rules.
#[derive(Debug)]
pub(super) enum Comparison {
    /// The switch of a transport node.
    Switch(String),
    Connections,
    /// At most so many parts of refused reports.
    Retries(usize),
}

impl Machine {
    /// The next task, until there is none: after each event, and before the group is written.
    pub fn next_task(&mut self, now: Now) -> Option<Task> {
        self.set_now(now);
        while let Some(next) = self.to_compare.pop_front() {
            let task = match next {
                Comparison::Switch(node) => {
                    self.fleet.take_difference(&node, self.core.last_txn()).map(|difference| {
                        self.to_compare.push_front(Comparison::Switch(node.clone()));
                        Work::Difference(node, difference)
                    })
                }
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
            if task.is_some() {
                return task.map(Task);
            }
        }
        None
    }

    /// Whether a look would find something to compute though nothing comes in.
    pub fn has_more(&self) -> bool {
        self.core.is_retry_due()
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
        if !self.rests() {
            self.to_compare.push_back(Comparison::Switch(node));
        }
    }

    /// Compares what was observed of all switches with the rules, and their connections if all news has been heard.
    pub(super) fn look(&mut self, heard_all: bool) {
        self.fleet.pass();
        if !self.rests() {
            if self.retry_at.take().is_some() {
                self.core.retry_all();
            }
            self.to_compare.extend(self.fleet.differing().into_iter().map(Comparison::Switch));
            if heard_all {
                self.to_compare.push_back(Comparison::Connections);
            }
        }
        self.to_compare.push_back(Comparison::Retries(RETRIES_MAX));
        self.measure();
        self.log_lasting();
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
    pub(super) fn put_aside(&mut self, task: Task, why: String) {
        let is_known = match &task.0 {
            Work::Difference(node, Difference::Report(report)) => self.core.has_only_ports_of(node, report),
            _ => true,
        };
        if let Some(node) = task.node() {
            self.fleet.is_put_aside(node, why, is_known);
        }
    }

    pub(super) fn run(&mut self, task: Task, now: Now) -> Result<(), Failed> {
        match task.0 {
            Work::Difference(node, difference) => self.reconcile_switch(node, difference, now),
            Work::Retry(_) => self.retry(now),
            Work::Connections => self.reconcile_connections(now),
        }
    }

    fn reconcile_switch(&mut self, node: String, difference: Difference, now: Now) -> Result<(), Failed> {
        match &difference {
            Difference::Report(report) => {
                let transaction = self.core.report(&node, report, now.wall).map_err(failed)?;
                self.fleet.report_exceeds(&node, self.core.excess(&node));
                self.reported(&node, transaction, now);
            }
            &Difference::Learned { table, cookie, is_new } => {
                if !self.learned(&node, (table, cookie), is_new, now)? {
                    return Ok(());
                }
            }
        }
        self.taken.push((node, difference));
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
            self.taken.push((node, Difference::Report(report)));
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
