//! The engine thread: it takes requests one after another through the rules, onto disk, and to the switches.
//!
//! Changes, queries and the events of switches wait in separate queues, which take turns so that none starves.
//! Changes and events that wait are processed as a group: each is a transaction with its own result, but they share
//! one write and one synchronisation of the journal. No effect of a request, not even its answer, leaves the process
//! before that. If the disk refuses the write, the group is undone in memory and refused. If even that fails, the
//! state in memory is ahead of the disk, so the thread ends and with it the process; the switches go on forwarding.

mod events;
mod scrub;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use network::{Batch, Cancel, Object, ObjectKey, Outcome};
use nlog_data::CommitError;
use serde_json::{Map, Value as Json};
use switch_model::{Desired, FlowKey};
use tokio::sync::{mpsc, oneshot, watch};
use tracing::{debug, error, info, warn};

use crate::activity::{Activity, Busy, Work};
use crate::aside::CancelOnDrop;
use crate::core::{
    Accepted, AddressChange, AddressChanges, AppliedTransaction, Core, CoreError, Problem, ProblemChanges,
    Refusal,
};
use crate::derived::port_meters::Metered;
use crate::fleet::{Asking, Fleet, FleetEvent};
use crate::flood_drops::FloodSurvey;
use crate::flow_counts::{Counted, Counting, Counts, ToRead};
use crate::journal::{Journal, JournalError};
use crate::lasting::{LINES_MAX, Lasting};
use crate::learned::Survey;
use crate::levels::Difference;
use crate::logical_flows::LogicalFlows;
use crate::peer::Origin;
use crate::provenance::Provenance;
use crate::receipt::{Receipt, Wanted, Watch, WatchError};
use crate::record::ObjectChanges;
use crate::routes::{NoRouter, RoutesOf};
use crate::rules::Rules;
use crate::snapshot::Snapshot;
use crate::status::{self, Published, Status, Unpublished};
use crate::text::shown;
use crate::trace::Readings;

/// The number of inputs that may share one write of the journal.
const GROUP_MAX: usize = 256;
/// How long a group accepts more inputs. Every query waits for the group that it arrived with.
const GROUP_TIME: Duration = Duration::from_millis(20);
/// The number of parts of refused reports that may be retried with each group.
const RETRIES_MAX: usize = 8;
/// The delay before reports are retried after a failure of the journal.
const JOURNAL_REST: Duration = Duration::from_secs(2);
/// The most objects in one answer, so that a long list does not delay other requests.
pub const PAGE: usize = 1000;
/// The number of requests that may wait before senders wait too.
pub(crate) const REQUESTS_MAX: usize = 1024;

/// The outcome of a request that changes objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// The transaction; `None` if nothing changed.
    pub txn: Option<u64>,
    /// The outcome for each object.
    pub outcomes: Vec<(ObjectKey, Outcome)>,
    /// Work that the request leaves to the operator, one line each.
    pub warnings: Vec<String>,
    /// The transport nodes whose endpoints change, so that their switches are connected again.
    pub reconnecting: Vec<String>,
    /// The transport nodes whose switches are managed from now on.
    pub connecting: Vec<String>,
    /// The transport nodes whose switches are not managed any more.
    pub leaving: Vec<String>,
}

/// An object, with its state as computed by the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The object.
    pub object: Arc<Object>,
    /// The columns of the rules' tables of state, by name.
    pub state: Map<String, Json>,
    /// Requests of the object that the network currently cannot fulfil.
    pub problems: Vec<String>,
}

/// The desired state of a switch, and the rules behind it.
#[derive(Debug, Clone)]
pub struct Listing {
    /// The flows, groups and ports.
    pub desired: Arc<Desired>,
    /// The rules, to be looked up by cookie.
    pub rules: Arc<Rules>,
    provenance: Provenance,
}

impl Listing {
    /// The fingerprint of the logical rule behind a flow that the physical rules only placed.
    pub fn origin(&self, key: &FlowKey) -> Option<u64> {
        self.provenance.logical_rule(key)
    }

    /// The ids of objects that a flow names: those that own it, and the datapath in its match.
    pub(crate) fn owners(&self, key: &FlowKey) -> Vec<String> {
        self.provenance.owners(key)
    }
}

/// The engine thread has ended, or is about to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the controller is stopping")]
pub struct Stopping;

/// Why the engine thread ended.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The journal cannot be written, and the state of its file is unknown.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The evaluator failed.
    #[error("{0}; restart the controller: the journal is intact")]
    Failed(String),
}

enum Change {
    Apply(Box<Batch>),
    Delete(Vec<ObjectKey>),
}

type Answer<T> = oneshot::Sender<T>;

/// What flows of switches have counted, not asked yet, by transport node.
pub(crate) type Countings = Vec<(String, Asking<Counts>)>;

/// A selection of the objects of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// The object with this id.
    One(String),
    /// The first [`PAGE`] objects whose ids follow this one; without an id, the first of all.
    After(Option<String>),
}

/// A read-only request.
pub(crate) enum Query {
    List {
        node: String,
        answer: Answer<Option<Listing>>,
    },
    Logical {
        id: String,
        answer: Answer<Option<LogicalFlows>>,
    },
    Survey {
        id: String,
        answer: Answer<Option<Survey>>,
    },
    Routes {
        router: String,
        answer: Answer<Result<RoutesOf, NoRouter>>,
    },
    FloodDrops {
        of: Metered,
        port: Option<String>,
        answer: Answer<FloodSurvey>,
    },
    Counting {
        of: Counted,
        answer: Answer<Counting>,
    },
    Counts {
        to_read: BTreeMap<String, ToRead>,
        answer: Answer<Countings>,
    },
    TableFlows {
        tables: BTreeMap<String, BTreeSet<u8>>,
        answer: Answer<Readings>,
    },
    Snapshot {
        ids: Vec<String>,
        without: Option<Vec<ObjectKey>>,
        answer: Answer<Result<Snapshot, CommitError>>,
    },
    Watch {
        wanted: Wanted,
        answer: Answer<Result<Watch, WatchError>>,
    },
}

impl Query {
    /// Whether somebody waits for the answer.
    fn is_wanted(&self) -> bool {
        let is_closed = match self {
            Query::List { answer, .. } => answer.is_closed(),
            Query::Logical { answer, .. } => answer.is_closed(),
            Query::Survey { answer, .. } => answer.is_closed(),
            Query::Routes { answer, .. } => answer.is_closed(),
            Query::FloodDrops { answer, .. } => answer.is_closed(),
            Query::Counting { answer, .. } => answer.is_closed(),
            Query::Counts { answer, .. } => answer.is_closed(),
            Query::TableFlows { answer, .. } => answer.is_closed(),
            Query::Snapshot { answer, .. } => answer.is_closed(),
            Query::Watch { answer, .. } => answer.is_closed(),
        };
        !is_closed
    }
}

pub(crate) struct ChangeRequest {
    change: Change,
    by: Origin,
    accepted: Instant,
    /// Whether nobody waits for the answer any more.
    gone: Cancel,
    answer: Answer<Result<Applied, Refusal>>,
}

/// A handle that sends requests to the engine thread. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    changes: mpsc::Sender<ChangeRequest>,
    queries: mpsc::Sender<Query>,
    stop: watch::Sender<bool>,
    status: Published,
    activity: Activity,
}

/// The thread's end of the queues of all [`Engine`] handles.
pub(crate) struct Requests {
    changes: mpsc::Receiver<ChangeRequest>,
    queries: mpsc::Receiver<Query>,
    /// Not a queue: a stop takes effect no matter how many requests wait.
    stop: watch::Receiver<bool>,
    /// For readers that do not wait.
    status: Published,
    pub(crate) activity: Activity,
}

impl Engine {
    pub(crate) fn new() -> (Engine, Requests) {
        let (changes, changes_receiver) = mpsc::channel(REQUESTS_MAX);
        let (queries, queries_receiver) = mpsc::channel(REQUESTS_MAX);
        let (stop, stop_receiver) = watch::channel(false);
        let (status, activity) = (Published::default(), Activity::default());
        let requests = Requests {
            changes: changes_receiver,
            queries: queries_receiver,
            stop: stop_receiver,
            status: status.clone(),
            activity: activity.clone(),
        };
        (Engine { changes, queries, stop, status, activity }, requests)
    }

    /// Creates or replaces objects.
    pub async fn apply(
        &self,
        batch: Batch,
        by: impl Into<Origin>,
    ) -> Result<Result<Applied, Refusal>, Stopping> {
        self.change(Change::Apply(Box::new(batch)), by.into()).await
    }

    /// Deletes objects.
    pub async fn delete(
        &self,
        keys: Vec<ObjectKey>,
        by: impl Into<Origin>,
    ) -> Result<Result<Applied, Refusal>, Stopping> {
        self.change(Change::Delete(keys), by.into()).await
    }

    async fn change(&self, change: Change, by: Origin) -> Result<Result<Applied, Refusal>, Stopping> {
        let (accepted, gone) = (Instant::now(), Cancel::default());
        let (answer, receiver) = oneshot::channel();
        // If this future is dropped, nobody waits for the transaction, and it need not be computed.
        let _gone = CancelOnDrop(gone.clone());
        let request = ChangeRequest { change, by, accepted, gone, answer };
        self.changes.send(request).await.map_err(|_| Stopping)?;
        receiver.await.map_err(|_| Stopping)
    }

    /// Objects of a kind, ordered by id, with their states after the last transaction that took effect. Does not wait for one that is
    /// being computed.
    pub fn get(&self, kind: &str, which: &Which) -> Result<Vec<Found>, Stopping> {
        if self.queries.is_closed() { Err(Stopping) } else { Ok(self.status.objects(kind, which)) }
    }

    /// The desired state of a transport node's switch; `None` if the node does not exist.
    pub async fn list(&self, node: String) -> Result<Option<Listing>, Stopping> {
        self.ask(|answer| Query::List { node, answer }).await
    }

    /// The universal flows of a datapath; `None` if no object that owns such flows has this id.
    pub(crate) async fn logical_flows(&self, id: String) -> Result<Option<LogicalFlows>, Stopping> {
        self.ask(|answer| Query::Logical { id, answer }).await
    }

    /// The question what hosts have learned of a datapath, to be asked by whoever wants to know; `None` if no object that
    /// owns flows has this id.
    pub(crate) async fn survey(&self, id: String) -> Result<Option<Survey>, Stopping> {
        self.ask(|answer| Query::Survey { id, answer }).await
    }

    /// The question what a port with a limit has lost, or all such ports, to be asked by whoever wants to know.
    pub(crate) async fn flood_drops(
        &self,
        of: Metered,
        port: Option<String>,
    ) -> Result<FloodSurvey, Stopping> {
        self.ask(|answer| Query::FloodDrops { of, port, answer }).await
    }

    /// What tells the flows that have counted what somebody wants to know.
    pub(crate) async fn counting(&self, of: Counted) -> Result<Counting, Stopping> {
        self.ask(|answer| Query::Counting { of, answer }).await
    }

    /// The question what these flows and meters of switches have counted, to be asked by whoever wants to know.
    pub(crate) async fn counts(&self, to_read: BTreeMap<String, ToRead>) -> Result<Countings, Stopping> {
        self.ask(|answer| Query::Counts { to_read, answer }).await
    }

    /// The network around objects with these ids. If a change is to be tried out, `without` is what it deletes.
    pub(crate) async fn snapshot(
        &self,
        ids: Vec<String>,
        without: Option<Vec<ObjectKey>>,
    ) -> Result<Result<Snapshot, CommitError>, Stopping> {
        self.ask(|answer| Query::Snapshot { ids, without, answer }).await
    }

    /// The question which flows tables of switches have, to be asked by whoever wants to know.
    pub(crate) async fn table_flows(
        &self,
        tables: BTreeMap<String, BTreeSet<u8>>,
    ) -> Result<Readings, Stopping> {
        self.ask(|answer| Query::TableFlows { tables, answer }).await
    }

    /// The routes of a router.
    pub(crate) async fn routes(&self, router: String) -> Result<Result<RoutesOf, NoRouter>, Stopping> {
        self.ask(|answer| Query::Routes { router, answer }).await
    }

    /// The status of the controller, with all switches and problems. If nodes are given, only their switches and no
    /// problems. Does not wait for a transaction that is being computed.
    pub fn status(&self, nodes: &BTreeSet<String>) -> Result<Status, Stopping> {
        if self.queries.is_closed() { Err(Stopping) } else { Ok(self.status.read(nodes)) }
    }

    /// What the engine thread is doing; `None` while it waits for work. Does not wait for it.
    pub fn busy(&self) -> Option<Busy> {
        self.activity.read()
    }

    /// What the engine thread is doing, for who watches it.
    pub(crate) fn activity(&self) -> &Activity {
        &self.activity
    }

    /// Receipts: the stored ones, and later updates.
    pub async fn watch(&self, wanted: Wanted) -> Result<Result<Watch, WatchError>, Stopping> {
        self.ask(|answer| Query::Watch { wanted, answer }).await
    }

    /// Ends the thread after the current group of requests. Waiting requests get [`Stopping`].
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    async fn ask<T>(&self, query: impl FnOnce(Answer<T>) -> Query) -> Result<T, Stopping> {
        let (answer, receiver) = oneshot::channel();
        self.queries.send(query(answer)).await.map_err(|_| Stopping)?;
        receiver.await.map_err(|_| Stopping)
    }
}

/// An effect of a group that waits for the journal.
enum Effect {
    Publish { applied: Box<AppliedTransaction>, accepted: Instant, computed: Duration },
    Answer { answer: Answer<Result<Applied, Refusal>>, result: Result<Applied, Refusal> },
    Query(Query),
}

/// The state of the engine thread.
pub(crate) struct Worker {
    pub(crate) core: Core,
    pub(crate) journal: Journal,
    pub(crate) fleet: Fleet,
    pub(crate) requests: Requests,
    pub(crate) events: mpsc::Receiver<FleetEvent>,
    /// The queue served last.
    pub(crate) turn: Turn,
    /// The differences of switches that the current group has taken. Until it is journalled, they may have to be put back.
    pub(crate) taken: Vec<(String, Difference)>,
    /// After a failure of the journal, the time when what was observed of switches is compared with the rules again.
    pub(crate) retry_at: Option<Instant>,
    /// The time to compare the running state with its inputs.
    scrub_at: Instant,
    pub(crate) unpublished: Unpublished,
    /// The problems of objects, each logged once it has lasted.
    pub(crate) problems: Lasting<Arc<Problem>>,
}

/// A queue of the engine thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Turn {
    Changes,
    Queries,
    #[default]
    Events,
}

impl Turn {
    fn next(self) -> Self {
        match self {
            Turn::Changes => Turn::Queries,
            Turn::Queries => Turn::Events,
            Turn::Events => Turn::Changes,
        }
    }
}

enum Input {
    Change(ChangeRequest),
    Query(Query),
    Event(FleetEvent),
    /// It is time to look at what was observed of switches.
    Look,
}

impl Worker {
    /// An engine that starts. Its status is published.
    pub(crate) fn new(
        core: Core,
        journal: Journal,
        fleet: Fleet,
        requests: Requests,
        events: mpsc::Receiver<FleetEvent>,
    ) -> Self {
        let unpublished = Unpublished::all(&core, &fleet);
        let (taken, problems) = (Vec::new(), Lasting::default());
        let (turn, retry_at, scrub_at) = (Turn::default(), None, Instant::now() + scrub::SCRUB_EVERY);
        let mut worker = Worker {
            core,
            journal,
            fleet,
            requests,
            events,
            turn,
            taken,
            retry_at,
            scrub_at,
            unpublished,
            problems,
        };
        let new = worker.core.problems().cloned().collect();
        worker.follow_problems(&ProblemChanges { new, gone: Vec::new() });
        worker.publish_status();
        worker
    }

    /// Serves until it is told to stop, all handles are dropped, or something fails.
    pub(crate) fn run(mut self, runtime: &tokio::runtime::Handle) -> Result<(), EngineError> {
        while !self.is_stopped() {
            let first = match self.waiting() {
                None if !self.core.is_retry_due() => match self.when_idle(runtime)? {
                    None => break,
                    first => first,
                },
                waiting => waiting,
            };
            let effects = self.group(first)?;
            self.commit(effects)?;
        }
        info!("engine stops");
        Ok(())
    }

    /// Handles waiting inputs, up to the limits of a group, and retries the refused parts of reports that are due.
    fn group(&mut self, mut input: Option<Input>) -> Result<Vec<Effect>, EngineError> {
        let begun = Instant::now();
        let mut effects = Vec::new();
        let mut taken = 0;
        while let Some(this) = input {
            match this {
                Input::Change(request) => self.change(request, &mut effects)?,
                Input::Query(query) if query.is_wanted() => effects.push(Effect::Query(query)),
                Input::Query(_) => {}
                Input::Event(event) => self.event(event, &mut effects)?,
                // That comes at the end of each group.
                Input::Look => {}
            }
            taken += 1;
            // Inputs beyond the limits stay in their queues.
            let full = taken >= GROUP_MAX || begun.elapsed() >= GROUP_TIME || self.is_stopped();
            input = if full { None } else { self.waiting() };
        }
        self.reconcile(&mut effects)?;
        self.log_lasting();
        let mut retries = 0;
        while retries < RETRIES_MAX && !self.is_stopped() && self.retry(&mut effects)? {
            retries += 1;
        }
        Ok(effects)
    }

    fn is_stopped(&self) -> bool {
        *self.requests.stop.borrow()
    }

    /// While no input waits, does maintenance that makes later transactions cheaper, then waits for the next input.
    fn when_idle(&mut self, runtime: &tokio::runtime::Handle) -> Result<Option<Input>, EngineError> {
        self.requests.activity.begin(Work::Maintenance);
        self.core.idle().map_err(|error| EngineError::Failed(error.to_string()))?;
        let waiting = self.scrub()?;
        self.requests.activity.rest();
        match waiting {
            None => Ok(runtime.block_on(self.next())),
            waiting => Ok(waiting),
        }
    }

    async fn next(&mut self) -> Option<Input> {
        let look_at = self.look_at();
        let look = async {
            match look_at {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        let Requests { changes, queries, stop, .. } = &mut self.requests;
        tokio::select! {
            // A dropped sender means stop too.
            _ = stop.wait_for(|stop| *stop) => None,
            change = changes.recv() => change.map(Input::Change),
            query = queries.recv() => query.map(Input::Query),
            Some(event) = self.events.recv() => Some(Input::Event(event)),
            () = look => Some(Input::Look),
        }
    }

    /// The next waiting input. The queues take turns.
    fn waiting(&mut self) -> Option<Input> {
        for _ in 0..3 {
            self.turn = self.turn.next();
            let input = match self.turn {
                Turn::Changes => self.requests.changes.try_recv().ok().map(Input::Change),
                Turn::Queries => self.requests.queries.try_recv().ok().map(Input::Query),
                Turn::Events => self.events.try_recv().ok().map(Input::Event),
            };
            if input.is_some() {
                return input;
            }
        }
        None
    }

    fn change(&mut self, request: ChangeRequest, effects: &mut Vec<Effect>) -> Result<(), EngineError> {
        let ChangeRequest { change, by, accepted, gone, answer } = request;
        if answer.is_closed() {
            debug!(by = by.by, "nobody waits for a request any more; it is not taken");
            return Ok(());
        }
        self.requests.activity.begin(Work::Transaction(by.by.clone()));
        self.core.next_is_cancelled_by(gone);
        let now = SystemTime::now();
        let result = match change {
            Change::Apply(batch) => self.core.apply(*batch, by, now),
            Change::Delete(keys) => self.core.delete(&keys, by, now),
        };
        let result = match result {
            Ok(Accepted { objects, transaction }) => {
                let outcomes = objects.changes.iter().map(|change| (change.key.clone(), change.outcome()));
                let txn = transaction.as_ref().map(|applied| applied.record.txn);
                let none = AddressChanges::new();
                let addresses = transaction.as_ref().map_or(&none, |applied| &applied.addresses);
                let warnings = self.fleet.prepare(addresses);
                let nodes = |wanted: &dyn Fn(&AddressChange) -> bool| {
                    let nodes = addresses.iter().filter(|(_, change)| wanted(change));
                    nodes.map(|(node, _)| node.clone()).collect()
                };
                let summary = Applied {
                    txn,
                    outcomes: outcomes.collect(),
                    warnings,
                    reconnecting: nodes(&AddressChange::reconnects),
                    connecting: nodes(&|change| change.before.is_none()),
                    leaving: nodes(&|change| change.after.is_none()),
                };
                if let Some(applied) = transaction {
                    let applied = Box::new(applied);
                    let computed = accepted.elapsed();
                    effects.push(Effect::Publish { applied, accepted, computed });
                }
                Ok(summary)
            }
            Err(CoreError::Refused(refusal)) => Err(refusal),
            Err(CoreError::Failed(why)) => return Err(EngineError::Failed(why)),
        };
        effects.push(Effect::Answer { answer, result });
        Ok(())
    }

    /// Writes a group to disk, then releases its effects.
    fn commit(&mut self, effects: Vec<Effect>) -> Result<(), EngineError> {
        self.requests.activity.begin(Work::Journal);
        let records = effects.iter().filter_map(|effect| match effect {
            Effect::Publish { applied, .. } => Some(&applied.record),
            _ => None,
        });
        match self.journal.append(records) {
            Ok(()) => {
                self.requests.activity.begin(Work::Effects);
                self.core.journalled();
            }
            Err(error @ JournalError::Unwritten { .. }) => {
                return self.roll_back(effects, &error.to_string());
            }
            Err(error) => return Err(error.into()),
        }
        self.taken.clear();
        let mut rest = Vec::new();
        for effect in effects {
            match effect {
                Effect::Publish { applied, accepted, computed } => {
                    self.publish(*applied, accepted, computed);
                }
                effect => rest.push(effect),
            }
        }
        self.answer_all(rest);
        Ok(())
    }

    /// Undoes a group that could not be journalled. All its transactions are refused.
    fn roll_back(&mut self, effects: Vec<Effect>, why: &str) -> Result<(), EngineError> {
        error!(why, "requests are refused");
        let (mut undone, mut rest) = (Vec::new(), Vec::new());
        for effect in effects {
            match effect {
                Effect::Publish { applied, .. } => undone.push(applied),
                // Even a refusal may depend on a transaction that is undone.
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
        self.put_back(why);
        self.core.pause_retries();
        self.retry_at = Some(Instant::now() + JOURNAL_REST);
        self.answer_all(rest);
        Ok(())
    }

    /// Answers the requests and queries of a group whose transactions are published. The state of the core includes all
    /// of them, so no answer may leave before the last of them is published.
    fn answer_all(&mut self, effects: Vec<Effect>) {
        self.publish_status();
        for effect in effects {
            match effect {
                // The requester may have gone.
                Effect::Answer { answer, result } => drop(answer.send(result)),
                Effect::Query(query) => self.answer(query),
                Effect::Publish { .. } => {}
            }
        }
        self.fleet.receipts.send_changed();
    }

    /// Follows which problems there are. One is logged once it has lasted, and its end only then.
    pub(crate) fn follow_problems(&mut self, changes: &ProblemChanges) {
        let now = self.fleet.now();
        for problem in &changes.new {
            self.problems.begins(problem.clone(), now);
        }
        for problem in changes.gone.iter().filter(|problem| self.problems.ends(problem)) {
            let Problem { kind, id, code, text } = &**problem;
            info!(kind, id, code, "problem resolved: {}", shown(text));
        }
    }

    /// Logs the problems and the faults of switches that have lasted.
    fn log_lasting(&mut self) {
        let due = self.problems.due(self.fleet.now());
        for Problem { kind, id, code, text } in due.iter().take(LINES_MAX).map(|problem| &**problem) {
            warn!(kind, id, code, "problem: {}", shown(text));
        }
        if let Some(more) = due.len().checked_sub(LINES_MAX).filter(|more| *more > 0) {
            warn!(more, "there are more problems; weft get status lists all");
        }
        self.fleet.log_lasting();
    }

    /// Updates the status that everybody reads, before anybody learns of its causes by other ways.
    pub(crate) fn publish_status(&mut self) {
        let published = &self.requests.status;
        published.update(&mut self.unpublished, &self.core, &self.fleet);
        if cfg!(debug_assertions) {
            let [published, computed] =
                [published.read(&BTreeSet::new()), status::computed(&self.core, &self.fleet)]
                    .map(status::without_strays);
            assert!(published == computed, "the status is {computed:?}, but {published:?} is published");
            assert!(
                self.requests.status.has_objects_of(&self.core),
                "other objects are published than there are"
            );
        }
    }

    fn publish(&mut self, applied: AppliedTransaction, accepted: Instant, computed: Duration) {
        self.unpublished.nodes.extend(applied.reporting().map(str::to_owned));
        let AppliedTransaction { record, changes, problems, states, addresses, moves, .. } = applied;
        self.follow_problems(&problems);
        let ObjectChanges { put, delete } = &record.objects;
        let put =
            put.iter().map(|object| ObjectKey::new(object.kind().shared_name().clone(), object.id().clone()));
        let delete = delete.iter().map(|(kind, id)| ObjectKey::new(kind.as_str(), id.as_str()));
        self.unpublished.objects.extend(put.chain(delete));
        self.unpublished.states.extend(states);
        self.unpublished.problems.push(problems);
        self.unpublished.nodes.extend(changes.keys().cloned());
        self.unpublished.nodes.extend(addresses.keys().cloned());
        let journalled = accepted.elapsed();
        for node in addresses.keys() {
            self.journal.put_aside().forget(node);
        }
        self.fleet.identify(self.journal.identity());
        let switches = self.fleet.push_in_order(record.txn, changes, &moves);
        // Before drivers end, so that the receipt records the transactions that their switches have not answered.
        let (txn, by, at) = (record.txn, record.by, record.at);
        debug!(txn, by, switches = switches.len(), ?computed, "transaction accepted");
        self.fleet.receipts.add(Receipt { txn, by, at, accepted, computed, journalled, switches });
        // A driver that starts now receives the whole desired state, including this transaction.
        let core = &self.core;
        self.fleet.commit(txn, &addresses, |node| core.given(node));
    }

    fn answer(&mut self, query: Query) {
        let core = &self.core;
        match query {
            Query::List { node, answer } => {
                let known = core.is_managed(&node);
                let listing = || Listing {
                    desired: core.desired(&node),
                    rules: core.rules().clone(),
                    provenance: core.provenance(),
                };
                drop(answer.send(known.then(listing)));
            }
            Query::Logical { id, answer } => drop(answer.send(LogicalFlows::of(core, &id))),
            Query::Survey { id, answer } => drop(answer.send(Survey::of(core, &self.fleet, &id))),
            Query::Routes { router, answer } => drop(answer.send(RoutesOf::of(core, &router))),
            Query::FloodDrops { of, port, answer } => {
                let _ = answer.send(FloodSurvey::of(core, &self.fleet, of, port.as_deref()));
            }
            Query::Counting { of, answer } => {
                let _ = answer.send(Counting::of(core, &of));
            }
            Query::Counts { to_read, answer } => {
                let read = |(node, to_read): (String, ToRead)| {
                    let counts = to_read.read(&self.fleet, &node);
                    (node, counts)
                };
                drop(answer.send(to_read.into_iter().map(read).collect()));
            }
            Query::TableFlows { tables, answer } => {
                let read = |(node, tables): (String, BTreeSet<u8>)| {
                    let reading = self.fleet.table_flows(&node, tables.into_iter().collect());
                    (node, reading)
                };
                drop(answer.send(tables.into_iter().map(read).collect()));
            }
            Query::Snapshot { ids, without, answer } => {
                let _ = answer.send(Snapshot::of(&mut self.core, &ids, without.as_deref()));
            }
            Query::Watch { wanted, answer } => drop(answer.send(self.fleet.receipts.watch(wanted))),
        }
    }
}

/// Converts an evaluator failure. A report that the rules refuse is not an error.
fn failed(error: CoreError) -> EngineError {
    EngineError::Failed(error.to_string())
}
