//! The engine thread: it takes requests one after another through the rules, onto disk, and to the switches.
//!
//! The thread gives the [`Machine`] its events and carries out the effects: it has the clocks, the queues, the journal and the drivers.
//! Changes, queries and the news of switches wait in separate queues, which take turns so that none starves.
//! Changes and news that wait are processed as a group: each is a transaction with its own result, but they share
//! one write and one synchronisation of the journal. No effect of a request, not even its answer, leaves the process
//! before that. If the disk refuses the write, the group is undone in memory and refused. If even that fails, the
//! state in memory is ahead of the disk, so the thread ends and with it the process; the switches go on forwarding.

mod scrub;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use network::{Batch, Cancel, ObjectKey};
use nlog_data::CommitError;
use switch_model::{Desired, FlowKey};
use tokio::sync::{mpsc, oneshot, watch};
use tracing::{debug, info};
use weft_core::core::Refusal;
use weft_core::derived::port_meters::Metered;
use weft_core::fleet::{DriverOrder, SwitchNews};
use weft_core::logical_flows::LogicalFlows;
use weft_core::machine::{Change, Effect, Event, Failed, Machine, Request, RequestId};
use weft_core::now::Now;
use weft_core::peer::Origin;
use weft_core::provenance::Provenance;
use weft_core::routes::{NoRouter, RoutesOf};
use weft_core::rules::Rules;
use weft_core::snapshot::Snapshot;
use weft_core::status::{Published, Status};

use crate::activity::{Activity, Busy, Work};
use crate::aside::CancelOnDrop;
use crate::drivers::{Asking, Readings, Running};
use crate::flood_drops::FloodSurvey;
use crate::flow_counts::{Counted, Counting, Counts, ToRead};
use crate::journal::{Journal, JournalError};
use crate::learned::Survey;
use crate::watchers::{Wanted, Watch, WatchError, Watchers};
pub use weft_core::machine::Applied;
pub use weft_core::status::{Found, PAGE, Which};

/// The number of inputs that may share one write of the journal.
const GROUP_MAX: usize = 256;
/// How long a group accepts more inputs. Every query waits for the group that it arrived with.
const GROUP_TIME: Duration = Duration::from_millis(20);
/// The number of requests that may wait before senders wait too.
pub(crate) const REQUESTS_MAX: usize = 1024;

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
    Failed(#[from] Failed),
}

type Answer<T> = oneshot::Sender<T>;

/// What flows of switches have counted, not asked yet, by transport node.
pub(crate) type Countings = Vec<(String, Asking<Counts>)>;

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
    pub(crate) status: Published,
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

/// The engine thread.
pub(crate) struct Worker {
    machine: Machine,
    journal: Journal,
    drivers: Running,
    requests: Requests,
    news: mpsc::Receiver<SwitchNews>,
    /// The queue served last.
    turn: Turn,
    /// The clients that wait for an answer.
    answers: BTreeMap<RequestId, Answer<Result<Applied, Refusal>>>,
    last_request: u64,
    /// Answers that wait until the status is published.
    results: Vec<(RequestId, Result<Applied, Refusal>)>,
    /// The questions that came with the group. Their answers include all of it.
    queries: Vec<Query>,
    watchers: Watchers,
    /// The time to compare the running state with its inputs.
    scrub_at: Instant,
}

/// A queue of the engine thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Turn {
    Changes,
    Queries,
    #[default]
    News,
}

impl Turn {
    fn next(self) -> Self {
        match self {
            Turn::Changes => Turn::Queries,
            Turn::Queries => Turn::News,
            Turn::News => Turn::Changes,
        }
    }
}

enum Input {
    Change(ChangeRequest),
    Query(Query),
    News(SwitchNews),
    /// It is time to look at what was observed of switches.
    Look,
}

/// The time at this moment.
pub(crate) fn now() -> Now {
    Now { instant: Instant::now(), wall: SystemTime::now() }
}

impl Worker {
    /// An engine that starts: drivers are told to begin.
    pub(crate) fn new(
        (machine, orders): (Machine, Vec<DriverOrder>),
        journal: Journal,
        drivers: Running,
        requests: Requests,
        news: mpsc::Receiver<SwitchNews>,
    ) -> Result<Self, EngineError> {
        let mut worker = Worker {
            machine,
            journal,
            drivers,
            requests,
            news,
            turn: Turn::default(),
            answers: BTreeMap::new(),
            last_request: 0,
            results: Vec::new(),
            queries: Vec::new(),
            watchers: Watchers::default(),
            scrub_at: Instant::now() + scrub::SCRUB_EVERY,
        };
        worker.drivers.identify(worker.journal.identity());
        let starting = orders.iter().filter_map(|order| match order {
            DriverOrder::Start { node, .. } => Some(node.clone()),
            _ => None,
        });
        worker.drivers.expect(starting);
        for order in orders {
            if let Some(news) = worker.drivers.carry_out(order) {
                worker.machine.step(now(), Event::News(news))?;
            }
        }
        worker.machine.publish();
        Ok(worker)
    }

    /// Serves until it is told to stop, all handles are dropped, or something fails.
    pub(crate) fn run(mut self, runtime: &tokio::runtime::Handle) -> Result<(), EngineError> {
        while !self.is_stopped() {
            let first = match self.waiting() {
                None if !self.machine.has_more() => match self.when_idle(runtime)? {
                    None => break,
                    first => first,
                },
                waiting => waiting,
            };
            self.group(first)?;
            self.commit()?;
        }
        info!("engine stops");
        Ok(())
    }

    /// Handles waiting inputs, up to the limits of a group, and then all that was observed of switches.
    fn group(&mut self, mut input: Option<Input>) -> Result<(), EngineError> {
        let begun = Instant::now();
        let mut taken = 0;
        while let Some(this) = input {
            match this {
                Input::Change(request) => self.change(request)?,
                Input::Query(query) if query.is_wanted() => self.queries.push(query),
                Input::Query(_) => {}
                Input::News(news) => {
                    self.requests.activity.begin(Work::Switch(news.node.clone()));
                    self.step(Event::News(news))?;
                }
                // That comes at the end of each group.
                Input::Look => {}
            }
            taken += 1;
            // Inputs beyond the limits stay in their queues.
            let full = taken >= GROUP_MAX || begun.elapsed() >= GROUP_TIME || self.is_stopped();
            input = if full { None } else { self.waiting() };
        }
        self.step(Event::Look)
    }

    /// Gives the machine an event, and computes what follows from what was observed.
    fn step(&mut self, event: Event) -> Result<(), EngineError> {
        self.advance(event)?;
        while let Some(task) = self.machine.next_task(now()) {
            let Some(node) = task.node().map(str::to_owned) else {
                self.advance(Event::Task(task))?;
                continue;
            };
            if let Some(why) = self.journal.put_aside().reason(&node) {
                self.advance(Event::PutAside(task, why))?;
                continue;
            }
            self.journal.put_aside().begin(&node);
            self.advance(Event::Task(task))?;
            self.journal.put_aside().end(&node);
        }
        Ok(())
    }

    /// Gives the machine an event, and carries out the effects.
    fn advance(&mut self, event: Event) -> Result<(), EngineError> {
        let effects = self.machine.step(now(), event)?;
        self.carry_out(effects)
    }

    /// Lets drivers do their work. If one cannot be started, the machine knows it before anybody asks. Answers wait until the status is
    /// published.
    fn carry_out(&mut self, effects: Vec<Effect>) -> Result<(), EngineError> {
        let mut effects = VecDeque::from(effects);
        while let Some(effect) = effects.pop_front() {
            match effect {
                Effect::Answer(id, result) => self.results.push((id, result)),
                Effect::Order(order) => {
                    // Another switch has the name now.
                    if let DriverOrder::Start { node, .. } = &order {
                        self.journal.put_aside().forget(node);
                    }
                    if let Some(news) = self.drivers.carry_out(order) {
                        effects.extend(self.machine.step(now(), Event::News(news))?);
                    }
                }
            }
        }
        Ok(())
    }

    fn is_stopped(&self) -> bool {
        *self.requests.stop.borrow()
    }

    /// While no input waits, does maintenance that makes later transactions cheaper, then waits for the next input.
    fn when_idle(&mut self, runtime: &tokio::runtime::Handle) -> Result<Option<Input>, EngineError> {
        self.requests.activity.begin(Work::Maintenance);
        self.machine.idle()?;
        let waiting = self.scrub()?;
        self.requests.activity.rest();
        match waiting {
            None => Ok(runtime.block_on(self.next())),
            waiting => Ok(waiting),
        }
    }

    async fn next(&mut self) -> Option<Input> {
        let look_at = self.machine.looks_at().into_iter().chain([self.scrub_at]).min();
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
            Some(news) = self.news.recv() => Some(Input::News(news)),
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
                Turn::News => self.news.try_recv().ok().map(Input::News),
            };
            if input.is_some() {
                return input;
            }
        }
        None
    }

    fn change(&mut self, request: ChangeRequest) -> Result<(), EngineError> {
        let ChangeRequest { change, by, accepted, gone, answer } = request;
        if answer.is_closed() {
            debug!(by = by.by, "nobody waits for a request any more; it is not taken");
            return Ok(());
        }
        self.requests.activity.begin(Work::Transaction(by.by.clone()));
        self.last_request += 1;
        let id = RequestId(self.last_request);
        self.answers.insert(id, answer);
        self.advance(Event::Request(Request { id, change, by, accepted, gone }))
    }

    /// Writes the group to disk, and releases its effects.
    fn commit(&mut self) -> Result<(), EngineError> {
        self.requests.activity.begin(Work::Journal);
        let event = match self.journal.append(self.machine.records()) {
            Ok(()) => Event::Journalled,
            Err(error @ JournalError::Unwritten { .. }) => Event::Unwritten(error.to_string()),
            Err(error) => return Err(error.into()),
        };
        if matches!(event, Event::Journalled) {
            self.requests.activity.begin(Work::Effects);
        }
        self.drivers.identify(self.journal.identity());
        self.advance(event)?;
        self.machine.publish();
        for (id, result) in std::mem::take(&mut self.results) {
            if let Some(answer) = self.answers.remove(&id) {
                // The requester may have gone.
                drop(answer.send(result));
            }
        }
        for query in std::mem::take(&mut self.queries) {
            self.answer(query);
        }
        self.watchers.send_changed(self.machine.receipts());
        Ok(())
    }

    fn answer(&mut self, query: Query) {
        let (core, drivers) = (self.machine.core(), &self.drivers);
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
            Query::Survey { id, answer } => drop(answer.send(Survey::of(core, drivers, &id))),
            Query::Routes { router, answer } => drop(answer.send(RoutesOf::of(core, &router))),
            Query::FloodDrops { of, port, answer } => {
                let _ = answer.send(FloodSurvey::of(core, drivers, of, port.as_deref()));
            }
            Query::Counting { of, answer } => {
                let _ = answer.send(Counting::of(core, &of));
            }
            Query::Counts { to_read, answer } => {
                let read = |(node, to_read): (String, ToRead)| {
                    let counts = to_read.read(drivers, &node);
                    (node, counts)
                };
                drop(answer.send(to_read.into_iter().map(read).collect()));
            }
            Query::TableFlows { tables, answer } => {
                let read = |(node, tables): (String, BTreeSet<u8>)| {
                    let reading = drivers.table_flows(&node, tables.into_iter().collect());
                    (node, reading)
                };
                drop(answer.send(tables.into_iter().map(read).collect()));
            }
            Query::Snapshot { ids, without, answer } => {
                let begun = Instant::now();
                let snapshot = self.machine.snapshot(&ids, without.as_deref());
                debug!(taken = ?begun.elapsed(), "rows around objects found");
                let _ = answer.send(snapshot);
            }
            Query::Watch { wanted, answer } => {
                drop(answer.send(self.watchers.watch(wanted, self.machine.receipts())));
            }
        }
    }
}
