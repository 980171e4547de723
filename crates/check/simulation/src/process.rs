//! A controller: the machine of weft-core with real drivers, driven as the daemon drives it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use nlog_data::{Evaluator, Tables};
use nlog_dataflow::{Dataflow, Options};
use ovs_driver::{Config, FlowTable, Handle, Owner, Timing};
use peer_connection::{Dial, Endpoint};
use switch_model::Event as SwitchEvent;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use weft_core::core::Refusal;
use weft_core::core::{Core, Given, History, SwitchAddress};
use weft_core::fleet::{BRIDGE, DriverId, DriverOrder, News, SwitchNews};
use weft_core::machine::{Applied, Effect, Event, Machine, Policy, RequestId};
use weft_core::now::Now;
use weft_core::record::{NewRecord, Record};
use weft_core::rules::Rules;
use weft_core::status::{Published, Status};

use crate::store::{Store, Written};

/// The most news of switches that one group takes.
const GROUP_MAX: usize = 64;
/// The most that one group computes of what switches have told. The daemon takes as much as fits into some milliseconds, so groups leave something there too.
const TASKS_MAX: usize = 2;
/// The queue of news, as in the daemon.
const NEWS_MAX: usize = 1024;
/// The queue of events of one switch, as in the daemon.
const EVENTS_MAX: usize = 64;
/// The most addresses that a switch learns.
const LEARNED_ADDRESSES: u32 = 4096;

/// The answer to a request.
pub(crate) type Answer = (RequestId, Box<Result<Applied, Refusal>>);

/// The outcome of a group.
pub(crate) enum Grouped {
    /// It is done, and these are the answers.
    Answers(Vec<Answer>),
    /// The process has died on the way.
    Died,
}

/// A running controller. Dropping it kills it.
pub(crate) struct Process {
    machine: Machine,
    published: Published,
    drivers: BTreeMap<DriverId, (String, Handle)>,
    rules: Arc<Rules>,
    dialler: Arc<dyn Dial>,
    owner: Arc<Owner>,
    news: mpsc::Receiver<SwitchNews>,
    to_news: mpsc::Sender<SwitchNews>,
    /// How far its clock on the wall is ahead.
    pub(crate) skew: Duration,
}

/// The time when every simulation begins.
const BEGINS: SystemTime = SystemTime::UNIX_EPOCH;
/// How long after 1970 that is: the clock on the wall goes back in simulations.
const SINCE_1970: Duration = Duration::from_secs(1_700_000_000);

/// The engine of these rules.
fn engine(rules: &Rules) -> Result<Box<dyn Evaluator>, String> {
    let observe = Tables::These(rules.observed());
    let options = Options { observe, attribute: true, ascending: false, ..Options::default() };
    Ok(Box::new(Dataflow::new(Arc::clone(rules.program()), options).map_err(|error| error.to_string())?))
}

/// The state that these records add up to, in an engine that has derived all of it at once.
pub(crate) fn restored(rules: &Arc<Rules>, records: &[Record]) -> Result<(Core, Option<Record>), String> {
    let mut history = History::new(rules);
    for record in records {
        history.add(record).map_err(|error| format!("the journal cannot be read: {error}"))?;
    }
    Core::restore(engine(rules)?, rules.clone(), history, BEGINS + SINCE_1970)
        .map_err(|error| format!("the journal cannot be restored: {error}"))
}

/// Whose controller it is: what identifies its journal, and how often that was started.
pub(crate) struct Identity {
    pub(crate) journal: &'static str,
    pub(crate) epoch: u64,
}

impl Process {
    /// Starts a controller from a journal.
    pub(crate) async fn start(
        rules: &Arc<Rules>,
        store: &mut Store,
        dialler: Arc<dyn Dial>,
        Identity { journal, epoch }: Identity,
        skew: Duration,
    ) -> Result<Process, String> {
        let (core, correction) = restored(rules, store.records())?;
        if let Some(record) = correction {
            store.correct(record);
        }
        let published = Published::default();
        let now = now(skew);
        let (machine, orders) = Machine::start(core, &Policy::default(), published.clone(), now);
        let (to_news, news) = mpsc::channel(NEWS_MAX);
        let owner = Arc::new(Owner::new(journal, epoch, "simulated", "2026-01-01T00:00:00Z"));
        let (rules, drivers) = (rules.clone(), BTreeMap::new());
        let mut process = Process { machine, published, drivers, rules, dialler, owner, news, to_news, skew };
        process.owner.expect(orders.iter().filter_map(|order| match order {
            DriverOrder::Start { node, .. } => Some(node.clone()),
            _ => None,
        }));
        process.carry_out(orders.into_iter().map(Effect::Order).collect()).await?;
        process.machine.publish();
        Ok(process)
    }

    /// Waits for news of a switch, or until the machine wants to look.
    pub(crate) async fn next(&mut self) -> Option<SwitchNews> {
        if self.machine.has_more() {
            return None;
        }
        let look_at = self.machine.looks_at().map(Instant::from_std);
        let look = async {
            match look_at {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            news = self.news.recv() => news,
            () = look => None,
        }
    }

    /// Handles these events and the news that waits, as one group.
    pub(crate) async fn group(&mut self, events: Vec<Event>, store: &mut Store) -> Result<Grouped, String> {
        let mut heard = false;
        for event in events {
            heard |= matches!(event, Event::News(_));
            self.advance(event).await?;
        }
        for _ in 0..GROUP_MAX {
            let Ok(news) = self.news.try_recv() else { break };
            heard = true;
            self.advance(Event::News(news)).await?;
        }
        let heard_all = !heard && self.news.is_empty();
        self.advance(Event::Look { heard_all }).await?;
        let records: Vec<Record> = self.machine.records().map(NewRecord::journalled).collect();
        let event = match store.append(records).await {
            Written::All => Event::Journalled,
            Written::None(why) => Event::Unwritten(why.to_owned()),
            Written::Dead => return Ok(Grouped::Died),
        };
        let effects = self.step(event)?;
        let answers = self.carry_out(effects).await?;
        self.machine.publish();
        Ok(Grouped::Answers(answers))
    }

    fn step(&mut self, event: Event) -> Result<Vec<Effect>, String> {
        self.machine.step(now(self.skew), event).map_err(|error| format!("the machine fails: {error}"))
    }

    async fn advance(&mut self, event: Event) -> Result<(), String> {
        // Its supervisor starts it again, which hides the fault.
        if let Event::News(SwitchNews { node, what: News::Event(SwitchEvent::Failed { why, .. }), .. }) =
            &event
        {
            return Err(format!("the driver of {node} fails: {why}"));
        }
        let mut effects = self.step(event)?;
        // The next group goes on with what is left.
        for _ in 0..TASKS_MAX {
            let Some(task) = self.machine.next_task(now(self.skew), &|_| false) else { break };
            effects.extend(self.step(Event::Task(task))?);
        }
        if self.carry_out(effects).await?.is_empty() {
            Ok(())
        } else {
            Err("a request is answered before it is on disk".to_owned())
        }
    }

    async fn carry_out(&mut self, effects: Vec<Effect>) -> Result<Vec<Answer>, String> {
        let (mut effects, mut answers) = (VecDeque::from(effects), Vec::new());
        while let Some(effect) = effects.pop_front() {
            match effect {
                Effect::Answer(id, result) => answers.push((id, result)),
                Effect::Order(order) => {
                    if let Some(news) = self.obey(order).await {
                        effects.extend(self.step(Event::News(news))?);
                    }
                }
            }
        }
        Ok(answers)
    }

    /// Carries out an order, as `controller::drivers` does.
    async fn obey(&mut self, order: DriverOrder) -> Option<SwitchNews> {
        match order {
            DriverOrder::Start { node, driver, address, given } => {
                let started = self.start_driver(&node, driver, &address, given);
                return started.err().map(|why| SwitchNews { node, driver, what: News::NotStarted(why) });
            }
            DriverOrder::Give(driver, given) => {
                if let Some((_, handle)) = self.drivers.get(&driver) {
                    give(handle, given);
                }
            }
            DriverOrder::Push { driver, txn, changes } => {
                if let Some((_, handle)) = self.drivers.get(&driver) {
                    handle.push(txn, *changes);
                }
            }
            DriverOrder::Send { driver, node, number, packets } => {
                if let Some((_, handle)) = self.drivers.get(&driver) {
                    let sent = handle.send(packets);
                    self.answer(node, driver, async move { News::Sent(number, sent.await) });
                }
            }
            DriverOrder::Count { driver, node, table, covers } => {
                if let Some((_, handle)) = self.drivers.get(&driver) {
                    let counted = handle.covered_flows(table, covers);
                    self.answer(node, driver, async move { News::Counted(counted.await) });
                }
            }
            DriverOrder::Leave(driver) => {
                if let Some((_, handle)) = self.drivers.get(&driver) {
                    handle.leave();
                }
            }
            DriverOrder::Stop(driver) => {
                if let Some((_, handle)) = self.drivers.remove(&driver) {
                    handle.end().await;
                }
            }
        }
        None
    }

    fn start_driver(
        &mut self,
        node: &str,
        driver: DriverId,
        address: &SwitchAddress,
        given: Option<Given>,
    ) -> Result<(), String> {
        let endpoint = |endpoint: &Option<String>| {
            let endpoint = endpoint.as_deref().ok_or("a host has no endpoint")?;
            endpoint.parse::<Endpoint>().map_err(|error| error.to_string())
        };
        let conventions = self.rules.conventions();
        let config = Config {
            name: node.to_owned(),
            ovsdb: endpoint(&address.ovsdb)?,
            openflow: endpoint(&address.openflow)?,
            bridge: BRIDGE.to_owned(),
            datapath_type: address.datapath_type.clone(),
            datapath_id: None,
            tunnel_option: conventions.tunnel_option,
            learned_tables: conventions.learned_tables.clone(),
            watched_tables: conventions.watched_tables.clone(),
            conflict_tables: conventions.conflict_tables.clone(),
            learned_limit: Some(FlowTable::evicting(LEARNED_ADDRESSES, "OXM_OF_METADATA[]")),
            owner: Some(self.owner.clone()),
        };
        let (events, mut waiting) = mpsc::channel(EVENTS_MAX);
        let handle = ovs_driver::spawn_with(config, Timing::default(), self.dialler.clone(), events);
        if let Some(given) = given {
            give(&handle, given);
        }
        self.drivers.insert(driver, (node.to_owned(), handle));
        let news = self.to_news.clone();
        tokio::spawn(async move {
            while let Some((node, event)) = waiting.recv().await {
                if news.send(SwitchNews { node, driver, what: News::Event(event) }).await.is_err() {
                    break;
                }
            }
        });
        Ok(())
    }

    fn answer(&self, node: String, driver: DriverId, what: impl Future<Output = News> + Send + 'static) {
        let news = self.to_news.clone();
        tokio::spawn(async move {
            let what = what.await;
            // The controller may have ended.
            drop(news.send(SwitchNews { node, driver, what }).await);
        });
    }

    /// Ends it in order.
    pub(crate) async fn stop(mut self) {
        for (_, (_, handle)) in std::mem::take(&mut self.drivers) {
            handle.end().await;
        }
    }

    /// Objects, reports and desired states.
    pub(crate) fn core(&self) -> &Core {
        self.machine.core()
    }

    /// The status, as users read it.
    pub(crate) fn status(&self) -> Status {
        self.published.read(&BTreeSet::new())
    }
}

fn give(handle: &Handle, Given { desired, announcing }: Given) {
    handle.set_desired(desired);
    if !announcing.is_empty() {
        handle.announce(announcing);
    }
}

/// The time of a controller whose clock on the wall is so far ahead.
pub(crate) fn now(skew: Duration) -> Now {
    let instant = Instant::now().into_std();
    Now { instant, wall: BEGINS + SINCE_1970 + skew + simulated() }
}

tokio::task_local! {
    /// When this simulation began.
    pub(crate) static BEGAN: Instant;
}

/// How long this simulation has lasted.
pub(crate) fn simulated() -> Duration {
    BEGAN.try_with(Instant::elapsed).unwrap_or_default()
}
