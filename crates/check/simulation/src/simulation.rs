//! One simulation: users, faults, and a controller with its hosts, in simulated time.

mod continuity;
mod faults;
mod isolation;
mod quiescence;
mod requests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use objects::ObjectKey;
use peer_connection::Dial;
use sim_switches::SimulatedHost;
use sim_switches::faults::Faults;
use test_random::Random;
use tokio::time::{Instant, sleep_until};
use weft_core::fleet::{News, SwitchNews};
use weft_core::machine::Event;
use weft_core::rules::Rules;

use crate::Frames;
use crate::fault::Kind;
use crate::links::Links;
use crate::network::{Network, database_of, switch_of};
use crate::plan::{Action, ActionKind, Plan};
use crate::process::{Grouped, Identity, Process};
use crate::store::Store;
use crate::trace::Trace;
use faults::Recovery;
use isolation::Tenants;
use requests::Requests;

/// The controller that is simulated, by its journal.
const OWN: &str = "own";
/// The percentage of events after which frames are sent.
const ISOLATION_PERCENT: u64 = 20;
/// How far its clock on the wall is ahead of the earliest that it can show.
const FIRST_SKEW: Duration = Duration::from_hours(24);

/// A controller, its hosts, its users, and everything between them.
pub(crate) struct Simulation {
    rules: Arc<Rules>,
    random: Random,
    network: Network,
    /// The hosts and their names.
    hosts: Vec<SimulatedHost>,
    names: Vec<String>,
    links: Links,
    host_faults: Faults,
    store: Store,
    process: Option<Process>,
    /// How often the controller was started.
    epoch: u64,
    /// When it is started again.
    starts_at: Option<Instant>,
    /// Another controller, or the same one before it was replaced, and its journal.
    other: Option<(Process, Store)>,
    skew: Duration,
    requests: Requests,
    /// The interfaces that hosts have, each for a port.
    plugged: BTreeSet<(String, String)>,
    /// Those that are one too many for their ports.
    duplicates: BTreeSet<(String, String)>,
    /// The ends of faults that last, with their times.
    recoveries: Vec<(Instant, Recovery)>,
    tenants: Tenants,
    pub(crate) frames: Frames,
    pub(crate) counted: BTreeMap<Kind, usize>,
    pub(crate) trace: Trace,
}

/// The reason why a wait is over.
enum Woken {
    Own(Option<SwitchNews>),
    Other(Option<SwitchNews>),
    Time,
}

impl Simulation {
    /// The hosts of a plan, and no controller yet.
    pub(crate) fn new(rules: &Arc<Rules>, plan: &Plan) -> Result<Simulation, String> {
        let network = Network::new(plan.seed);
        let (mut hosts, mut names, mut endpoints) = (Vec::new(), Vec::new(), Vec::new());
        for (number, (name, bridges)) in network.hosts().into_iter().enumerate() {
            let (host, streams) = SimulatedHost::start(name.clone(), number);
            for bridge in bridges {
                let added = host.database().add_bridge(&bridge);
                added.map_err(|error| format!("a host has no bridge {bridge}: {error}"))?;
            }
            endpoints.push((database_of(&name), streams.to_database));
            endpoints.push((switch_of(&name), streams.to_switch));
            hosts.push(host);
            names.push(name);
        }
        Ok(Simulation {
            rules: rules.clone(),
            random: Random::new(plan.seed),
            network,
            hosts,
            names,
            links: Links::new(endpoints),
            host_faults: Faults::new(plan.seed),
            store: Store::default(),
            process: None,
            epoch: 0,
            starts_at: None,
            other: None,
            skew: FIRST_SKEW,
            requests: Requests::default(),
            plugged: BTreeSet::new(),
            duplicates: BTreeSet::new(),
            recoveries: Vec::new(),
            tenants: Tenants::new(),
            frames: Frames::default(),
            counted: BTreeMap::new(),
            trace: Trace::default(),
        })
    }

    /// Runs a plan, has everything heal, and waits until all is as it should be.
    ///
    /// # Errors
    /// In plain words, what is not as it should be.
    pub(crate) async fn run(&mut self, plan: &Plan) -> Result<(), String> {
        let begun = Instant::now();
        self.start().await?;
        for Action { at, what, draw } in &plan.actions {
            self.until(begun + *at).await?;
            self.random = Random::new(*draw);
            match what {
                ActionKind::Change(steps) => self.change(*steps).await?,
                ActionKind::Fault(kind) => self.fail(*kind).await?,
            }
            if self.random.chance(ISOLATION_PERCENT) {
                // In the middle of what follows from it.
                let moment = Duration::from_millis(self.random.below(60));
                self.until(Instant::now() + moment).await?;
                self.check_isolation()?;
            }
        }
        self.heal().await?;
        self.quiesce().await?;
        self.change_calmly(plan.calm_changes).await
    }

    /// The number of transactions so far.
    pub(crate) fn transactions(&self) -> usize {
        self.store.written()
    }

    /// The number of requests so far.
    pub(crate) fn requested(&self) -> u64 {
        self.requests.last()
    }

    /// Starts the controller from its journal, which must have every answered request.
    async fn start(&mut self) -> Result<(), String> {
        self.starts_at = None;
        self.epoch += 1;
        let identity = Identity { journal: OWN, epoch: self.epoch };
        let dialler: Arc<dyn Dial> = Arc::new(self.links.clone());
        let process = Process::start(&self.rules, &mut self.store, dialler, identity, self.skew).await?;
        self.trace.note(&format!("the controller starts, transaction {}", process.core().last_txn()));
        self.requests.after_start(process.core().objects(), self.store.records())?;
        self.process = Some(process);
        Ok(())
    }

    /// The controller is dead, and starts again after this time.
    fn dies(&mut self, down: Duration) {
        self.trace.note("the controller dies");
        self.process = None;
        self.starts_at = Some(Instant::now() + down);
    }

    /// Lets everything go on until this time.
    async fn until(&mut self, at: Instant) -> Result<(), String> {
        loop {
            self.what_is_due().await?;
            let others = self.recoveries.iter().map(|(at, _)| *at).chain(self.starts_at);
            let next = others.chain([at]).min().unwrap_or(at);
            let woken = tokio::select! {
                biased;
                () = sleep_until(next) => Woken::Time,
                news = next_of(self.process.as_mut()) => Woken::Own(news),
                news = next_of(self.other.as_mut().map(|(process, _)| process)) => Woken::Other(news),
            };
            match woken {
                Woken::Time if next == at => return self.what_is_due().await,
                Woken::Time => {}
                Woken::Own(news) => self.group(news.into_iter().map(Event::News).collect()).await?,
                Woken::Other(news) => {
                    let events = news.into_iter().map(Event::News).collect();
                    if let Some((process, store)) = &mut self.other {
                        // Nobody waits for its answers.
                        process.group(events, store).await?;
                    }
                }
            }
        }
    }

    /// Has the controller handle events.
    async fn group(&mut self, events: Vec<Event>) -> Result<(), String> {
        let Some(process) = &mut self.process else { return Ok(()) };
        for event in &events {
            if let Event::News(SwitchNews { node, what, .. }) = event {
                self.trace.note(&format!("{node}: {}", kind_of(what)));
            }
        }
        match process.group(events, &mut self.store).await? {
            Grouped::Died => {
                let down = Duration::from_millis(self.random.below(3000));
                self.dies(down);
            }
            Grouped::Answers(answers) => {
                for (id, result) in answers {
                    let line = self.requests.answered(id, &result, process.core().objects())?;
                    self.trace.note(&line);
                }
            }
        }
        Ok(())
    }

    /// Has users change the network, and plugs and unplugs interfaces.
    async fn change(&mut self, steps: usize) -> Result<(), String> {
        self.network.advance(steps);
        self.remember_tenants();
        // Machines are started before, after or while their ports are declared.
        if self.random.chance(50) {
            self.plug()?;
        }
        let wanted = self.network.objects(&self.rules);
        let is_whole = self.random.chance(30);
        let events = self.requests.towards(&wanted, is_whole, &self.rules, self.process.is_some());
        self.trace.note(&format!("{} requests", events.len()));
        self.group(events).await?;
        self.plug()
    }

    /// Gives hosts the interfaces that they should have now.
    fn plug(&mut self) -> Result<(), String> {
        let wanted: BTreeSet<(String, String)> =
            self.network.plugged().union(&self.duplicates).cloned().collect();
        let refused = |error: &dyn std::fmt::Display| format!("an interface cannot be plugged in: {error}");
        for (host, port) in self.plugged.difference(&wanted) {
            let unplugged = host_of(&self.names, &self.hosts, host).map(|host| host.unplug(port)).transpose();
            unplugged.map_err(|error| refused(&error))?;
        }
        for (host, port) in wanted.difference(&self.plugged) {
            let port = BTreeMap::from([(port.clone(), None)]);
            let plugged = host_of(&self.names, &self.hosts, host).map(|host| host.plug(&port)).transpose();
            plugged.map_err(|error| refused(&error))?;
        }
        self.plugged = wanted;
        Ok(())
    }
}

fn host_of<'a>(names: &[String], hosts: &'a [SimulatedHost], name: &str) -> Option<&'a SimulatedHost> {
    hosts.get(names.iter().position(|one| one == name)?)
}

/// The next input of a controller; without one, never.
async fn next_of(process: Option<&mut Process>) -> Option<SwitchNews> {
    match process {
        Some(process) => process.next().await,
        None => std::future::pending().await,
    }
}

/// The kind of news. The rest of it has times of the machine that runs the simulation.
fn kind_of(news: &News) -> String {
    let text = match news {
        News::Event(event) => format!("{event:?}"),
        other => format!("{other:?}"),
    };
    text.chars().take_while(|letter| letter.is_alphanumeric()).collect()
}

/// An object's name, as tools write it.
fn named(key: &ObjectKey) -> String {
    format!("{} {}", key.kind, key.id)
}
