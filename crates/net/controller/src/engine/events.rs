//! What is observed of switches becomes transactions: reports, learned flows and connections.
//!
//! The fleet keeps it as levels (`crate::levels`). They are compared with the rules when a switch tells something, at the end of each group,
//! and when time alone makes a difference. While the journal rests after a failure, the differences wait.

use std::time::{Instant, SystemTime};

use tracing::{info, warn};

use super::{Effect, EngineError, Worker, failed};
use crate::activity::Work;
use crate::core::{AppliedTransaction, CoreError, Retried};
use crate::fleet::FleetEvent;
use crate::levels::Difference;

impl Worker {
    /// Takes an event of a switch: its state, and what follows from it for the rules.
    pub(super) fn event(&mut self, event: FleetEvent, effects: &mut Vec<Effect>) -> Result<(), EngineError> {
        let node = event.node.clone();
        self.requests.activity.begin(Work::Switch(node.clone()));
        self.unpublished.nodes.insert(node.clone());
        self.fleet.event(event);
        for (node, names) in self.fleet.take_announced() {
            self.core.announced(&node, &names);
        }
        if self.rests() { Ok(()) } else { self.reconcile_switch(&node, effects) }
    }

    /// Makes the rules have what was observed of all switches.
    pub(super) fn reconcile(&mut self, effects: &mut Vec<Effect>) -> Result<(), EngineError> {
        if self.rests() {
            return Ok(());
        }
        if self.retry_at.take().is_some() {
            self.core.retry_all();
        }
        for node in self.fleet.differing() {
            self.reconcile_switch(&node, effects)?;
        }
        self.reconcile_connections(effects)
    }

    /// When there may be something to do, or to log, though nothing comes in.
    pub(super) fn look_at(&self) -> Option<Instant> {
        let moments = [
            self.fleet.judged_at().filter(|_| self.retry_at.is_none() && self.core.asks_for_connections()),
            self.fleet.takes_at().filter(|_| self.retry_at.is_none()),
            self.problems.next(),
            self.fleet.logs_at(),
        ];
        let instants = moments.into_iter().flatten().map(|moment| self.fleet.instant(moment));
        instants.chain(self.retry_at).chain([self.scrub_at]).min()
    }

    /// Whether the journal rests after a failure.
    fn rests(&self) -> bool {
        self.retry_at.is_some_and(|at| Instant::now() < at)
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

    fn reconcile_switch(&mut self, node: &str, effects: &mut Vec<Effect>) -> Result<(), EngineError> {
        while let Some(difference) = self.fleet.take_difference(node, self.core.last_txn()) {
            if let Some(why) = self.journal.put_aside().reason(node) {
                self.fleet.is_put_aside(node, why);
                continue;
            }
            let accepted = Instant::now();
            self.journal.put_aside().begin(node);
            match &difference {
                Difference::Report(report) => {
                    let transaction = self.core.report(node, report, SystemTime::now()).map_err(failed)?;
                    self.fleet.report_exceeds(node, self.core.excess(node));
                    self.reported(node, transaction, accepted, effects);
                }
                &Difference::Learned { table, cookie, is_new } => {
                    if !self.learned(node, (table, cookie), is_new, effects)? {
                        self.journal.put_aside().end(node);
                        continue;
                    }
                }
            }
            self.journal.put_aside().end(node);
            self.taken.push((node.to_owned(), difference));
        }
        Ok(())
    }

    /// A switch has learned a flow that the rules wait for. Returns false if that is to be tried again after another transaction.
    fn learned(
        &mut self,
        node: &str,
        (table, cookie): (u8, u64),
        is_new: bool,
        effects: &mut Vec<Effect>,
    ) -> Result<bool, EngineError> {
        let accepted = Instant::now();
        match self.core.learned(node, (table, cookie), is_new, SystemTime::now()) {
            Ok(None) if self.core.may_await_later(node, table, cookie) => {}
            Ok(transaction) => {
                self.reported(node, transaction, accepted, effects);
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
    fn reconcile_connections(&mut self, effects: &mut Vec<Effect>) -> Result<(), EngineError> {
        let is_due = self.fleet.judged_at().is_some_and(|moment| moment <= self.fleet.now());
        if !is_due || !self.core.asks_for_connections() {
            return Ok(());
        }
        let core = &self.core;
        for (node, is_back) in self.fleet.judge(|node| core.is_lost(node)) {
            let accepted = Instant::now();
            match self.core.connection(&node, is_back, SystemTime::now()) {
                Ok(Some(applied)) => {
                    if is_back {
                        info!(switch = node, "host is back");
                    } else {
                        warn!(switch = node, "host is lost; others take over what it did for them");
                    }
                    effects.push(publishing(applied, accepted));
                }
                Ok(None) => {}
                Err(CoreError::Refused(why)) => {
                    warn!(switch = node, is_back, %why, "the rules refuse the state of the connection");
                }
                Err(error) => return Err(failed(error)),
            }
        }
        for node in self.core.with_stale_connection() {
            let accepted = Instant::now();
            match self.core.forget_connection(&node, SystemTime::now()) {
                Ok(applied) => effects.extend(applied.map(|applied| publishing(applied, accepted))),
                Err(CoreError::Refused(why)) => {
                    warn!(switch = node, %why, "the rules refuse to forget a connection");
                }
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(())
    }

    /// Retries a part of a refused report. Returns whether one was due.
    pub(super) fn retry(&mut self, effects: &mut Vec<Effect>) -> Result<bool, EngineError> {
        let accepted = Instant::now();
        let Some(node) = self.core.next_retry().map(str::to_owned) else { return Ok(false) };
        self.journal.put_aside().begin(&node);
        let retried = self.core.retry(SystemTime::now()).map_err(failed)?;
        self.journal.put_aside().end(&node);
        let Some(Retried { node, report, transaction }) = retried else { return Ok(false) };
        self.reported(&node, transaction, accepted, effects);
        self.taken.push((node, Difference::Report(report)));
        Ok(true)
    }

    /// Takes what the rules made of a report.
    fn reported(
        &mut self,
        node: &str,
        transaction: Option<AppliedTransaction>,
        accepted: Instant,
        effects: &mut Vec<Effect>,
    ) {
        self.unpublished.nodes.insert(node.to_owned());
        if let Some(verdict) = self.core.verdict(node) {
            self.fleet.report_judged(node, verdict.refusal());
        }
        effects.extend(transaction.map(|applied| publishing(applied, accepted)));
    }
}

/// The effect of a transaction that has been computed by now.
fn publishing(applied: AppliedTransaction, accepted: Instant) -> Effect {
    Effect::Publish { applied: Box::new(applied), accepted, computed: accepted.elapsed() }
}
