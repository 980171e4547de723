//! Events of switches: reports, learned flows and connections become transactions.

use std::time::{Instant, SystemTime};

use tracing::warn;

use super::{Effect, EngineError, Worker, failed};
use crate::core::{AppliedTransaction, CoreError, Retried};
use crate::fleet::{FleetEvent, Learned, News};

impl Worker {
    /// Takes an event of a switch: its state, and what follows from it for the rules.
    pub(super) fn event(&mut self, event: FleetEvent, effects: &mut Vec<Effect>) -> Result<(), EngineError> {
        let accepted = Instant::now();
        self.unpublished.nodes.insert(event.node.clone());
        match self.fleet.event(event) {
            None => {}
            Some(News::Report(node, report)) => {
                let transaction = self.core.report(&node, &report, SystemTime::now()).map_err(failed)?;
                self.reported(&node, transaction, accepted, effects);
                self.reports.push((node, report));
            }
            Some(News::Learned(learned)) => self.learned(learned, accepted, effects)?,
            Some(News::Connection(node, connected)) => {
                self.connection(&node, connected, accepted, effects)?;
            }
        }
        Ok(())
    }

    /// A switch has learned a flow that the rules wait for.
    pub(super) fn learned(
        &mut self,
        learned: Learned,
        accepted: Instant,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EngineError> {
        let Learned { node, table, cookie, is_new } = &learned;
        match self.core.learned(node, (*table, *cookie), *is_new, SystemTime::now()) {
            Ok(transaction) => self.reported(node, transaction, accepted, effects),
            Err(CoreError::Refused(why)) => {
                warn!(switch = node, %why, "the rules refuse the announcement of an interface; it is ignored");
            }
            Err(error) => return Err(failed(error)),
        }
        self.learned.push(learned);
        Ok(())
    }

    /// Tells the rules that a switch is lost, or connected again.
    fn connection(
        &mut self,
        node: &str,
        connected: bool,
        accepted: Instant,
        effects: &mut Vec<Effect>,
    ) -> Result<(), EngineError> {
        match self.core.connection(node, connected, SystemTime::now()) {
            Ok(transaction) => effects.extend(transaction.map(|applied| publishing(applied, accepted))),
            Err(CoreError::Refused(why)) => {
                warn!(switch = node, connected, %why, "the rules refuse the state of the connection");
            }
            Err(error) => return Err(failed(error)),
        }
        Ok(())
    }

    /// Retries a part of a refused report. Returns whether one was due.
    pub(super) fn retry(&mut self, effects: &mut Vec<Effect>) -> Result<bool, EngineError> {
        let accepted = Instant::now();
        let retried = self.core.retry(SystemTime::now()).map_err(failed)?;
        let Some(Retried { node, report, transaction }) = retried else { return Ok(false) };
        self.reported(&node, transaction, accepted, effects);
        self.reports.push((node, report));
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
