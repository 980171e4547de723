//! The engine thread: one request after another through the rules, onto disk, to the switches.
//!
//! Requests that wait are taken together: each is a transaction with its own result, but they share one write and one
//! synchronisation of the journal. Nothing that follows from a request leaves the process, no answer either, before
//! that. If the disk takes none of it, all of it is taken back in memory too and refused. If not even that is certain,
//! what is in memory is ahead of what is on disk, so the thread ends and the process with it; switches go on
//! forwarding.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use network::{Batch, ChangeSet, Kind, Object, ObjectKey, Outcome};
use ovs_driver::{Desired, FlowKey};
use tokio::sync::{mpsc, oneshot};
use tracing::{debug, error, info, warn};

use crate::core::{Accepted, AppliedTransaction, Core, CoreError, Problem, ProblemChanges, Refusal, Retried};
use crate::fleet::{Fleet, FleetEvent, SwitchStatus};
use crate::journal::{Journal, JournalError};
use crate::provenance::Provenance;
use crate::receipt::{Receipt, Watch};
use crate::rules::Rules;

/// How many requests may share one write of the journal.
const GROUP_MAX: usize = 256;
/// How many parts of refused reports may be tried with each group.
const RETRIES_MAX: usize = 8;
/// How long after a failure of the journal reports are tried again.
const JOURNAL_REST: Duration = Duration::from_secs(2);
/// How many requests may wait before those who ask wait too.
pub(crate) const REQUESTS_MAX: usize = 1024;

/// What became of a request to change objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// The transaction; `None` if nothing changed.
    pub txn: Option<u64>,
    /// What became of each object.
    pub outcomes: Vec<(ObjectKey, Outcome)>,
    /// What the request leaves to a person, a line each.
    pub warnings: Vec<String>,
}

/// The controller and its switches at one moment.
#[derive(Debug, Clone)]
pub struct Status {
    /// The last transaction; 0 if there was none.
    pub last_txn: u64,
    /// How many objects there are.
    pub objects: BTreeMap<Kind, usize>,
    /// The switches, in order of names, each with the number of virtual interfaces that it reports.
    pub switches: Vec<(SwitchStatus, usize)>,
    /// What cannot be done as things are.
    pub problems: Vec<Problem>,
}

/// An object, and what the rules say of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The object as canonical JSON.
    pub object: String,
    /// Of a switch: how large IP packets may be that all its ports exchange, if the rules say it.
    pub mtu: Option<i64>,
    /// What it asks that cannot be done as things are.
    pub problems: Vec<String>,
}

/// What one switch should have, and the rules that say so.
#[derive(Debug, Clone)]
pub struct Listing {
    /// Flows and tunnels.
    pub desired: Arc<Desired>,
    /// By cookie.
    pub rules: Arc<Rules>,
    provenance: Provenance,
}

impl Listing {
    /// The logical rule behind a flow that the physical rules only placed: its fingerprint.
    pub fn origin(&self, key: &FlowKey) -> Option<u64> {
        self.provenance.logical_rule(key)
    }
}

/// The thread that answers has ended, or is about to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the controller is stopping")]
pub struct Stopping;

/// Why the engine thread ended.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The journal cannot be written, and what is in it is unknown.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The evaluator is at fault.
    #[error("{0}; restart the controller: the journal is intact")]
    Failed(String),
}

enum Change {
    Apply(Batch),
    Delete(Vec<ObjectKey>),
}

type Answer<T> = oneshot::Sender<T>;

pub(crate) enum Request {
    Change(Box<ChangeRequest>),
    Get { kind: Kind, id: Option<String>, answer: Answer<Vec<Found>> },
    List { node: String, answer: Answer<Option<Listing>> },
    Status { answer: Answer<Status> },
    Watch { from: Option<u64>, answer: Answer<Watch> },
    Stop,
}

pub(crate) struct ChangeRequest {
    change: Change,
    by: String,
    accepted: Instant,
    answer: Answer<Result<Applied, Refusal>>,
}

/// Asks the engine thread. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    requests: mpsc::Sender<Request>,
}

impl Engine {
    pub(crate) fn new() -> (Engine, mpsc::Receiver<Request>) {
        let (requests, receiver) = mpsc::channel(REQUESTS_MAX);
        (Engine { requests }, receiver)
    }

    /// Creates or replaces objects.
    pub async fn apply(&self, batch: Batch, by: String) -> Result<Result<Applied, Refusal>, Stopping> {
        self.change(Change::Apply(batch), by).await
    }

    /// Deletes objects.
    pub async fn delete(
        &self,
        keys: Vec<ObjectKey>,
        by: String,
    ) -> Result<Result<Applied, Refusal>, Stopping> {
        self.change(Change::Delete(keys), by).await
    }

    async fn change(&self, change: Change, by: String) -> Result<Result<Applied, Refusal>, Stopping> {
        let accepted = Instant::now();
        self.ask(|answer| Request::Change(Box::new(ChangeRequest { change, by, accepted, answer }))).await
    }

    /// The objects of a kind, or one of them, in order of ids.
    pub async fn get(&self, kind: Kind, id: Option<String>) -> Result<Vec<Found>, Stopping> {
        self.ask(|answer| Request::Get { kind, id, answer }).await
    }

    /// What the switch of a transport node should have; `None` if there is no such node.
    pub async fn list(&self, node: String) -> Result<Option<Listing>, Stopping> {
        self.ask(|answer| Request::List { node, answer }).await
    }

    /// The controller and its switches now.
    pub async fn status(&self) -> Result<Status, Stopping> {
        self.ask(|answer| Request::Status { answer }).await
    }

    /// The receipts kept from a transaction on, and all to come.
    pub async fn watch(&self, from: Option<u64>) -> Result<Watch, Stopping> {
        self.ask(|answer| Request::Watch { from, answer }).await
    }

    /// Ends the thread when it has answered what was asked before.
    pub async fn stop(&self) {
        // If nobody receives, it has ended already.
        let _ = self.requests.send(Request::Stop).await;
    }

    async fn ask<T>(&self, request: impl FnOnce(Answer<T>) -> Request) -> Result<T, Stopping> {
        let (answer, receiver) = oneshot::channel();
        self.requests.send(request(answer)).await.map_err(|_| Stopping)?;
        receiver.await.map_err(|_| Stopping)
    }
}

/// What a group of requests has led to and waits for the journal.
enum Effect {
    Publish { applied: Box<AppliedTransaction>, objects: ChangeSet, accepted: Instant, computed: Duration },
    Answer { answer: Answer<Result<Applied, Refusal>>, result: Result<Applied, Refusal> },
    Query(Request),
}

/// The state of the engine thread.
pub(crate) struct Worker {
    pub(crate) core: Core,
    pub(crate) journal: Journal,
    pub(crate) fleet: Fleet,
    pub(crate) requests: mpsc::Receiver<Request>,
    pub(crate) events: mpsc::Receiver<FleetEvent>,
    /// The reports of the group at hand, which their switches will not say again.
    pub(crate) reports: Vec<(String, ovs_driver::Report)>,
    /// When reports that could not be journalled are tried again.
    pub(crate) retry_at: Option<Instant>,
}

enum Input {
    Request(Request),
    Event(FleetEvent),
    /// Time to try all that is refused.
    Retry,
}

impl Worker {
    /// Serves until it is told to stop, nobody can ask any more, or something fails.
    pub(crate) fn run(mut self, runtime: &tokio::runtime::Handle) -> Result<(), EngineError> {
        loop {
            let mut input = match self.waiting() {
                None if !self.core.is_retry_due() => match runtime.block_on(self.next()) {
                    None => return Ok(()),
                    first => first,
                },
                waiting => waiting,
            };
            let mut effects = Vec::new();
            let mut stop = false;
            let mut taken = 0;
            while let Some(this) = input {
                match this {
                    Input::Request(Request::Stop) => {
                        stop = true;
                        break;
                    }
                    Input::Request(request) => self.request(request, &mut effects)?,
                    Input::Event(event) => self.event(event, &mut effects)?,
                    Input::Retry => {
                        self.retry_at = None;
                        self.core.retry_all();
                    }
                }
                taken += 1;
                // What does not belong to this group stays where it waits.
                input = if taken < GROUP_MAX { self.waiting() } else { None };
            }
            let mut retries = 0;
            while retries < RETRIES_MAX && self.retry(&mut effects)? {
                retries += 1;
            }
            self.commit(effects)?;
            if stop {
                info!("engine stops");
                return Ok(());
            }
        }
    }

    async fn next(&mut self) -> Option<Input> {
        let retry_at = self.retry_at;
        let retry = async {
            match retry_at {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            request = self.requests.recv() => request.map(Input::Request),
            Some(event) = self.events.recv() => Some(Input::Event(event)),
            () = retry => Some(Input::Retry),
        }
    }

    /// What can be taken without waiting; events first, since requests can fill the group alone.
    fn waiting(&mut self) -> Option<Input> {
        let event = self.events.try_recv().ok().map(Input::Event);
        event.or_else(|| self.requests.try_recv().ok().map(Input::Request))
    }

    fn request(&mut self, request: Request, effects: &mut Vec<Effect>) -> Result<(), EngineError> {
        let Request::Change(request) = request else {
            effects.push(Effect::Query(request));
            return Ok(());
        };
        let ChangeRequest { change, by, accepted, answer } = *request;
        let now = SystemTime::now();
        let result = match change {
            Change::Apply(batch) => self.core.apply(batch, &by, now),
            Change::Delete(keys) => self.core.delete(&keys, &by, now),
        };
        let result = match result {
            Ok(Accepted { objects, transaction }) => {
                let outcomes = objects.changes.iter().map(|change| (change.key.clone(), change.outcome()));
                let txn = transaction.as_ref().map(|applied| applied.record.txn);
                let warnings = self.fleet.prepare(&objects);
                let summary = Applied { txn, outcomes: outcomes.collect(), warnings };
                if let Some(applied) = transaction {
                    let applied = Box::new(applied);
                    let computed = accepted.elapsed();
                    effects.push(Effect::Publish { applied, objects, accepted, computed });
                }
                Ok(summary)
            }
            Err(CoreError::Refused(refusal)) => Err(refusal),
            Err(CoreError::Failed(why)) => return Err(EngineError::Failed(why)),
        };
        effects.push(Effect::Answer { answer, result });
        Ok(())
    }

    fn event(&mut self, event: FleetEvent, effects: &mut Vec<Effect>) -> Result<(), EngineError> {
        let accepted = Instant::now();
        let Some((node, report)) = self.fleet.event(event) else { return Ok(()) };
        let transaction = self.core.report(&node, &report, SystemTime::now()).map_err(failed)?;
        self.reported(&node, transaction, accepted, effects);
        self.reports.push((node, report));
        Ok(())
    }

    /// Tries a part of a refused report again; whether there was one.
    fn retry(&mut self, effects: &mut Vec<Effect>) -> Result<bool, EngineError> {
        let accepted = Instant::now();
        let retried = self.core.retry(SystemTime::now()).map_err(failed)?;
        let Some(Retried { node, report, transaction }) = retried else { return Ok(false) };
        self.reported(&node, transaction, accepted, effects);
        self.reports.push((node, report));
        Ok(true)
    }

    fn reported(
        &mut self,
        node: &str,
        transaction: Option<AppliedTransaction>,
        accepted: Instant,
        effects: &mut Vec<Effect>,
    ) {
        if let Some(verdict) = self.core.verdict(node) {
            self.fleet.report_judged(node, verdict.refusal());
        }
        if let Some(applied) = transaction {
            let applied = Box::new(applied);
            let (objects, computed) = (ChangeSet::default(), accepted.elapsed());
            effects.push(Effect::Publish { applied, objects, accepted, computed });
        }
    }

    /// Puts a group on disk, then lets its effects out, in order.
    fn commit(&mut self, effects: Vec<Effect>) -> Result<(), EngineError> {
        let records = effects.iter().filter_map(|effect| match effect {
            Effect::Publish { applied, .. } => Some(&applied.record),
            _ => None,
        });
        match self.journal.append(records) {
            Ok(()) => {}
            Err(error @ JournalError::Unwritten { .. }) => {
                return self.roll_back(effects, &error.to_string());
            }
            Err(error) => return Err(error.into()),
        }
        self.reports.clear();
        for effect in effects {
            match effect {
                Effect::Publish { applied, objects, accepted, computed } => {
                    self.publish(*applied, &objects, accepted, computed);
                }
                // Whoever asked may be gone.
                Effect::Answer { answer, result } => drop(answer.send(result)),
                Effect::Query(request) => self.answer(request),
            }
        }
        self.fleet.receipts.send_changed();
        Ok(())
    }

    /// Undoes a group that could not be journalled: what was accepted, and what came after it, is refused.
    fn roll_back(&mut self, effects: Vec<Effect>, why: &str) -> Result<(), EngineError> {
        error!(why, "requests are refused");
        let (mut undone, mut rest) = (Vec::new(), Vec::new());
        for effect in effects {
            match effect {
                Effect::Publish { applied, .. } => undone.push(applied),
                // Even a refusal may have been for what is taken back.
                Effect::Answer { answer, .. } if !undone.is_empty() => {
                    let result = Err(Refusal::Journal(why.to_owned()));
                    rest.push(Effect::Answer { answer, result });
                }
                effect => rest.push(effect),
            }
        }
        while let Some(applied) = undone.pop() {
            self.core.undo(*applied).map_err(failed)?;
        }
        self.fleet.roll_back();
        for (node, report) in std::mem::take(&mut self.reports) {
            self.core.keep_report(&node, report);
            self.fleet.report_judged(&node, Some(format!("journal: {why}")));
        }
        if self.core.pause_retries() {
            self.retry_at = Some(Instant::now() + JOURNAL_REST);
        }
        for effect in rest {
            match effect {
                Effect::Answer { answer, result } => drop(answer.send(result)),
                Effect::Query(request) => self.answer(request),
                Effect::Publish { .. } => {}
            }
        }
        self.fleet.receipts.send_changed();
        Ok(())
    }

    fn publish(
        &mut self,
        applied: AppliedTransaction,
        objects: &ChangeSet,
        accepted: Instant,
        computed: Duration,
    ) {
        let AppliedTransaction { record, changes, problems, .. } = applied;
        log_problems(&problems);
        let journalled = accepted.elapsed();
        let switches: BTreeMap<_, _> = changes
            .into_iter()
            .map(|(node, changes)| {
                let receipt = self.fleet.push(record.txn, &node, changes);
                (node, receipt)
            })
            .collect();
        // A driver that starts now gets the whole, this transaction included.
        let core = &self.core;
        self.fleet.commit(record.txn, objects, |node| core.desired(node));
        debug!(
            txn = record.txn,
            by = record.by,
            switches = switches.len(),
            ?computed,
            "transaction accepted"
        );
        let (txn, by, at) = (record.txn, record.by, record.at);
        self.fleet.receipts.add(Receipt { txn, by, at, accepted, computed, journalled, switches });
    }

    fn answer(&self, request: Request) {
        let core = &self.core;
        match request {
            Request::Get { kind, id, answer } => {
                let objects = match id {
                    Some(id) => core.objects().get(&ObjectKey::new(kind, id)).into_iter().collect(),
                    None => core.objects().list(kind).collect::<Vec<_>>(),
                };
                drop(answer.send(objects.into_iter().map(|object| found(core, object)).collect()));
            }
            Request::List { node, answer } => {
                let known = core.objects().get(&ObjectKey::new(Kind::TransportNode, &*node)).is_some();
                let listing = || Listing {
                    desired: core.desired(&node),
                    rules: core.rules().clone(),
                    provenance: core.provenance(),
                };
                drop(answer.send(known.then(listing)));
            }
            Request::Status { answer } => {
                let count = |kind: &Kind| (*kind, core.objects().list(*kind).count());
                let switches = self.fleet.status(|node| core.desired(node));
                let with_vifs = |status: SwitchStatus| {
                    let vifs = core.vif_count(&status.node);
                    (status, vifs)
                };
                let status = Status {
                    last_txn: core.last_txn(),
                    objects: Kind::ALL.iter().map(count).collect(),
                    switches: switches.into_iter().map(with_vifs).collect(),
                    problems: core.problems().cloned().collect(),
                };
                drop(answer.send(status));
            }
            Request::Watch { from, answer } => drop(answer.send(self.fleet.receipts.watch(from))),
            Request::Change(_) | Request::Stop => {}
        }
    }
}

/// Logs what people are to know.
pub(crate) fn log_problems(problems: &ProblemChanges) {
    for Problem { kind, id, text } in &problems.new {
        warn!(kind, id, "problem: {text}");
    }
    for Problem { kind, id, text } in &problems.gone {
        info!(kind, id, "problem resolved: {text}");
    }
}

fn found(core: &Core, object: &Object) -> Found {
    let (kind, id) = (object.kind(), object.id());
    let of_it = |problem: &&Problem| problem.kind == kind.name() && problem.id == id;
    Found {
        object: object.to_json(),
        mtu: (kind == Kind::Switch).then(|| core.mtu(id)).flatten(),
        problems: core.problems().filter(of_it).map(|problem| problem.text.clone()).collect(),
    }
}

/// A fault of the evaluator: what the rules refuse of a report is no error.
fn failed(error: CoreError) -> EngineError {
    EngineError::Failed(error.to_string())
}
