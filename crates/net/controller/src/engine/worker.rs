//! The engine thread: it gives the [`Machine`] its events and carries out the effects.
//!
//! It has the clocks, the queues, the journal and the drivers. Changes, queries and the news of switches wait in separate queues, which
//! take turns so that none starves. Changes and news that wait are processed as a group: each is a transaction with its own result, but
//! they share one write and one synchronisation of the journal. No effect of a request, not even its answer, leaves the process
//! before that. If the disk refuses the write, the group is undone in memory and refused. If even that fails, the
//! state in memory is ahead of the disk, so the thread ends and with it the process; the switches go on forwarding.

mod folding;
mod saving;
mod scrub;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::mpsc;
use tracing::{debug, info, warn};
use weft_core::core::Refusal;
use weft_core::fleet::{DriverOrder, SwitchNews};
use weft_core::listings::{Asked, ToRead};
use weft_core::logical_flows::LogicalFlows;
use weft_core::machine::{Effect, Event, Machine, Request, RequestId};
use weft_core::now::Now;

use super::{Answer, Applied, ChangeRequest, EngineError, Listing, Query, Requests};
use crate::activity::Work;
use crate::config::Settings;
use crate::drivers::Running;
use crate::flow_counts::Counting;
use crate::journal::{Journal, JournalError};
use crate::metrics::Stored;
use crate::receipts::{self, ReceiptLog};
use crate::spans::{Stages, Traced};
use crate::surveys;
use crate::watchers::Watchers;
use folding::Folding;
use saving::Ended;
pub(crate) use saving::Saving;

/// The number of inputs that may share one write of the journal.
const GROUP_MAX: usize = 256;
/// How long a group accepts more inputs, and computes more of what switches have told. Every query waits for the group that it arrived with.
const GROUP_TIME: Duration = Duration::from_millis(20);

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
    /// What keeps receipts for after a restart; `None` if the folder cannot be written.
    receipt_log: Option<ReceiptLog>,
    folding: Folding<Journal>,
    saving: Saving,
    /// The spans of traced calls.
    stages: Stages,
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
    /// Starts the drivers, and publishes the first status.
    pub(crate) fn new(
        (machine, orders): (Machine, Vec<DriverOrder>),
        (journal, saving): (Journal, Saving),
        drivers: Running,
        requests: Requests,
        news: mpsc::Receiver<SwitchNews>,
    ) -> Result<Self, EngineError> {
        let (keep, metrics) = (requests.settings.borrow().keep, requests.metrics.clone());
        let stages = Stages::new(requests.spans.clone());
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
            receipt_log: None,
            folding: Folding::new(keep, metrics),
            saving,
            stages,
            scrub_at: Instant::now() + scrub::SCRUB_EVERY,
        };
        worker.receipt_log = worker.open_receipts();
        worker.requests.metrics.journal_has(worker.journal.bytes());
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
        worker.publish();
        Ok(worker)
    }

    fn open_receipts(&self) -> Option<ReceiptLog> {
        let folder = receipts::folder_of(self.journal.path());
        let (identity, last_txn) = (self.journal.identity(), self.machine.core().last_txn());
        let log = ReceiptLog::open(folder.clone(), receipts::LIMITS, identity, last_txn);
        let say = |error: &io::Error| {
            let folder = folder.display();
            warn!(%folder, %error, "receipts cannot be kept, so the next start will not know them; transactions go on");
        };
        log.inspect_err(say).ok()
    }

    /// Serves until it is stopped, every handle is dropped, or an error occurs. Its queues are closed then.
    pub(crate) fn run(mut self, runtime: &tokio::runtime::Handle) -> Result<Ended, EngineError> {
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
        let Worker { machine, journal, saving, drivers, .. } = self;
        Ok(Ended { machine, journal, saving, drivers })
    }

    /// Handles waiting inputs, up to the limits of a group, and then all that was observed of switches.
    fn group(&mut self, mut input: Option<Input>) -> Result<(), EngineError> {
        self.adjust();
        let begun = Instant::now();
        let (mut taken, mut heard) = (0, false);
        while let Some(this) = input {
            match this {
                // An edit of the engine cannot be undone together with what came before it.
                Input::Change(request) if request.changes_rules() => {
                    self.commit()?;
                    self.change(request)?;
                    break;
                }
                Input::Change(request) => self.change(request)?,
                Input::Query(query) if query.is_wanted() => self.queries.push(query),
                Input::Query(_) => {}
                Input::News(news) => {
                    heard = true;
                    self.requests.metrics.heard(&news.what);
                    self.stages.news(&news);
                    self.advance(Event::News(news))?;
                }
                // That comes at the end of each group.
                Input::Look => {}
            }
            taken += 1;
            // Inputs beyond the limits stay in their queues.
            let full = taken >= GROUP_MAX || begun.elapsed() >= GROUP_TIME || self.is_stopped();
            input = if full { None } else { self.waiting() };
        }
        // The queue of news is bounded: when news has been taken from it, more may be about to come.
        let heard_all = !heard && self.news.is_empty();
        self.advance(Event::Look { heard_all })?;
        self.compare(begun)
    }

    /// Takes other settings, if there are any.
    fn adjust(&mut self) {
        // The sender ends with the daemon.
        if self.requests.settings.has_changed().unwrap_or(false) {
            let Settings { policy, keep } = *self.requests.settings.borrow_and_update();
            self.machine.follow(&policy);
            self.folding.keep(keep);
        }
    }

    /// Computes what follows from what was observed of switches, at least one task of it. What takes longer than a group may is left to the next
    /// group, so that requests come between.
    fn compare(&mut self, begun: Instant) -> Result<(), EngineError> {
        loop {
            let put_aside = self.journal.put_aside();
            let Some(task) = self.machine.next_task(now(), &|node| put_aside.is_suspect(node)) else {
                return Ok(());
            };
            let nodes: Vec<String> = task.nodes().map(str::to_owned).collect();
            if let Some(why) = nodes.iter().find_map(|node| put_aside.reason(node)) {
                self.advance(Event::PutAside(task, why))?;
                continue;
            }
            if let Some(first) = nodes.first() {
                self.requests.activity.begin(Work::Switch(first.clone()));
            }
            put_aside.begin(&nodes);
            self.advance(Event::Task(task))?;
            self.journal.put_aside().end(&nodes);
            if begun.elapsed() >= GROUP_TIME {
                return Ok(());
            }
        }
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
                Effect::Answer(id, result) => {
                    self.requests.metrics.answered(&result);
                    self.results.push((id, *result));
                }
                Effect::Order(order) => {
                    // Another switch has the name now.
                    if let DriverOrder::Start { node, .. } = &order {
                        self.journal.put_aside().forget(node);
                    }
                    if let DriverOrder::Push { driver, txn, changes } = &order {
                        self.stages.pushed(*txn, changes, || self.drivers.node(*driver));
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
        match waiting.or_else(|| self.save()) {
            None => Ok(runtime.block_on(self.next())),
            waiting => Ok(waiting),
        }
    }

    async fn next(&mut self) -> Option<Input> {
        let save_at = self.saving.due(&self.journal);
        let look_at = self.machine.looks_at().into_iter().chain([self.scrub_at]).chain(save_at).min();
        let look = async {
            match look_at {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        let Requests { changes, queries, stop, settings, .. } = &mut self.requests;
        tokio::select! {
            // A dropped sender means stop too.
            _ = stop.wait_for(|stop| *stop) => None,
            change = changes.recv() => change.map(Input::Change),
            query = queries.recv() => query.map(Input::Query),
            Some(news) = self.news.recv() => Some(Input::News(news)),
            () = look => Some(Input::Look),
            // The group takes them when it begins.
            Ok(()) = settings.changed() => {
                settings.mark_changed();
                Some(Input::Look)
            }
            () = self.folding.ready() => Some(Input::Look),
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
        let ChangeRequest { change, terms, by, accepted, gone, traced, answer } = request;
        if answer.is_closed() {
            debug!(by = by.by, "nobody waits for a request any more; it is not taken");
            return Ok(());
        }
        self.requests.activity.begin(Work::Transaction(by.by.clone()));
        self.last_request += 1;
        let id = RequestId(self.last_request);
        self.answers.insert(id, answer);
        let begun = Instant::now();
        let (before, tenant) = (traced.as_ref().map(|_| self.machine.records().count()), by.tenant.clone());
        self.requests.metrics.clock().begin(begun);
        let advanced = self.advance(Event::Request(Request { id, change, terms, by, accepted, gone }));
        let spent = self.requests.metrics.clock().end(Instant::now());
        let trace = traced.as_ref().map(Traced::trace_id);
        self.requests.metrics.computed(begun.saturating_duration_since(accepted), spent, trace.as_deref());
        if let Some(tenant) = tenant {
            self.requests.metrics.computed_for(&tenant, spent.total());
        }
        advanced?;
        if let Some(before) = before {
            let txn = self.machine.records().nth(before).map(|record| record.txn);
            self.stages.derived(traced, (accepted, begun), txn);
        }
        Ok(())
    }

    /// Writes the group to disk, and releases its effects.
    fn commit(&mut self) -> Result<(), EngineError> {
        self.requests.activity.begin(Work::Journal);
        let (begun, metrics) = (Instant::now(), self.requests.metrics.clone());
        let txns: Vec<u64> = self.machine.records().map(|record| record.txn).collect();
        let traced = self.stages.begin();
        let event = match self.journal.append(self.machine.records()) {
            Ok(written) => {
                if written.records > 0 {
                    self.requests.activity.written(true);
                }
                metrics.journalled(written, begun.elapsed().saturating_sub(written.sync));
                Event::Journalled
            }
            Err(error @ JournalError::Unwritten { .. }) => {
                metrics.unwritten();
                self.requests.activity.written(false);
                Event::Unwritten(error.to_string())
            }
            Err(error) => return Err(error.into()),
        };
        let on_disk = Instant::now();
        self.stages.appended(traced, || self.machine.records().count(), &event);
        let is_on_disk = matches!(event, Event::Journalled);
        if is_on_disk {
            self.requests.activity.begin(Work::Effects);
        }
        self.drivers.identify(self.journal.identity());
        self.advance(event)?;
        self.publish();
        self.release();
        if is_on_disk {
            metrics.released(txns, on_disk.elapsed(), on_disk);
        }
        self.stages.published();
        self.fold()?;
        metrics.journal_has(self.journal.bytes());
        Ok(())
    }

    /// Gives answers and receipts to those who wait for them.
    fn release(&mut self) {
        for (id, result) in std::mem::take(&mut self.results) {
            if let Some(answer) = self.answers.remove(&id) {
                // The requester may have gone.
                drop(answer.send(result));
            }
        }
        for query in std::mem::take(&mut self.queries) {
            self.answer(query);
        }
        let receipts = self.machine.receipts();
        let updates = receipts.take_changed();
        // Before watchers hear of it: what they know is on its way to disk.
        if let Some(log) = &mut self.receipt_log {
            log.write(&updates, self.journal.identity());
        }
        self.watchers.send(&updates, receipts);
    }

    /// Publishes the status, and wakes those who wait for changes of objects.
    fn publish(&mut self) {
        let core = self.machine.core();
        if self.requests.rules.set(core.rules())
            && let Some(last) = core.rules_versions().last()
        {
            let (version, packages) = (last.text.fingerprint(), last.text.packages.join(", "));
            info!(txn = last.txn, by = last.by, version, rules = packages, "other rules run");
        }
        self.requests.object_news.tell(self.machine.publish());
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
            Query::Asked { listing, kind, id, answer } => {
                let _ = answer.send(Asked::of(core, &listing, kind.as_deref(), id.as_deref()));
            }
            Query::Counting { of, answer } => {
                let _ = answer.send(Counting::of(core, &of));
            }
            Query::Counts { to_read, answer } => {
                let read = |(node, to_read): (String, ToRead)| {
                    let counts = surveys::read(to_read, drivers, &node);
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
            Query::Tunnels { node, answer } => {
                let is_known = node.as_ref().is_none_or(|node| core.is_managed(node));
                let _ = answer.send(is_known.then(|| self.machine.measured_tunnels(node.as_deref())));
            }
            Query::RulesVersions { answer } => drop(answer.send(core.rules_versions().clone())),
            Query::StateForRules { answer } => drop(answer.send(core.state_for_rules())),
            Query::Stored { answer } => {
                let rules = core.rules().clone();
                // If the engine has failed, the next transaction says so.
                if let Ok(stored) = self.machine.stored() {
                    drop(answer.send(Stored { rules, rows: stored }));
                }
            }
            Query::Watch { wanted, answer } => {
                let last_txn = core.last_txn();
                drop(answer.send(self.watchers.watch(wanted, self.machine.receipts(), last_txn)));
            }
        }
    }
}
