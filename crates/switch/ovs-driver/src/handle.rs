//! Starts the tasks of a driver, and is its owner's end of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use openflow_rs::Match;
use peer_connection::{Dial, Endpoint, Expected, MemoryBudget, PeerMemory, Sockets};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::config::{Config, Timing};
use crate::database::{self, Database};
use crate::driver::Driver;
use crate::identity::Identity;
use crate::intent::{Shared, Wish};
use crate::learned::Readers;
use crate::openflow::OpenFlow;
use crate::outbox::Outbox;
use crate::rivals::Rivals;
use crate::supervisor::{Tasks, supervise};
use switch_model::{
    Changes, Channel, Desired, Event, FlowCount, FlowKey, Frame, LearnedFlow, MeterCount, Packet, ReadError,
    SeenFlow,
};

/// A running driver. Dropping the handle stops the driver and leaves the switch unchanged.
#[derive(Debug)]
pub struct Handle {
    intent: Arc<Shared>,
    readers: Readers,
    /// Dropping it stops the supervisor.
    stop: Option<oneshot::Sender<()>>,
    supervisor: JoinHandle<()>,
    _claim: Claim,
    /// A switch that dials in is admitted until the end of the driver.
    _expected: [Option<Expected>; 2],
}

/// The claim of a driver to its switch, which ends with the driver.
#[derive(Debug)]
struct Claim(Arc<Config>);

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(owner) = &self.0.owner {
            owner.forget(&self.0.name);
        }
    }
}

impl Handle {
    /// Sets the whole desired state. The driver writes nothing to the switch before the first call. A later call
    /// replaces the desired state, pushed transactions included; transactions not confirmed yet are confirmed when
    /// the new state is in force. Returns at once.
    pub fn set_desired(&self, desired: Arc<Desired>) {
        self.intent.wish(Wish::Desired(desired));
    }

    /// Applies the changes of one transaction to the desired state. Transaction numbers ascend. Returns at once: the
    /// changes of transactions that wait for the switch are merged flow by flow. Each transaction ends with
    /// [`Event::Confirmed`] or [`Event::Refused`]; transactions that wait for an unreachable switch end together.
    pub fn push(&self, txn: u64, changes: Changes) {
        self.intent.wish(Wish::Push(txn, Box::new(changes)));
    }

    /// Has these frames sent, each several times, once all that is wanted so far is in force, as those of a transaction
    /// ([`Changes::frames`]). [`set_desired`](Self::set_desired) forgets frames. Returns at once.
    pub fn announce(&self, frames: BTreeMap<String, Frame>) {
        self.intent.wish(Wish::Announce(frames));
    }

    /// Reads from the switch the flows of a table that the switch itself fills, those whose packets the match covers.
    /// Waits at most ten seconds, and for no switch that is not connected. One call reads
    /// at a time; batches of changes wait while it does. It changes nothing that the driver knows.
    pub fn learned(
        &self,
        table: u8,
        matching: Match,
    ) -> impl Future<Output = Result<Vec<LearnedFlow>, ReadError>> + Send + use<> {
        self.readers.clone().read(table, matching)
    }

    /// Reads from the switch what its meters have counted, as [`learned`](Self::learned) reads flows.
    pub fn meter_counts(&self) -> impl Future<Output = Result<Vec<MeterCount>, ReadError>> + Send + use<> {
        self.readers.clone().meter_counts()
    }

    /// Reads from the switch what these flows have counted, as [`learned`](Self::learned) reads flows. Flows that the switch does
    /// not have are left out.
    pub fn flow_counts(
        &self,
        keys: Vec<FlowKey>,
    ) -> impl Future<Output = Result<Vec<FlowCount>, ReadError>> + Send + use<> {
        self.readers.clone().flow_counts(keys)
    }

    /// Reads from the switch the flows of these tables, whoever wrote them, as [`learned`](Self::learned) reads flows.
    pub fn table_flows(
        &self,
        tables: Vec<u8>,
    ) -> impl Future<Output = Result<Vec<SeenFlow>, ReadError>> + Send + use<> {
        self.readers.clone().table_flows(tables)
    }

    /// Reads from the switch the flows of a table that the match covers, whoever wrote them, as [`learned`](Self::learned) reads flows.
    pub fn covered_flows(
        &self,
        table: u8,
        matching: Match,
    ) -> impl Future<Output = Result<Vec<SeenFlow>, ReadError>> + Send + use<> {
        self.readers.clone().covered_flows(table, matching)
    }

    /// Has the switch execute these packets, each once. Waits as [`learned`](Self::learned) does, until it has. If it refuses one, the
    /// others are executed.
    pub fn send(&self, packets: Vec<Packet>) -> impl Future<Output = Result<(), ReadError>> + Send + use<> {
        self.readers.clone().send(packets)
    }

    /// Lets the driver leave the switch as soon as that is in sync: it removes its mark and where the bridge waits for it, and
    /// reports [`Event::Left`]. Returns at once.
    pub fn leave(&self) {
        self.intent.wish(Wish::Leave);
    }

    /// Stops the driver, as dropping the handle does. Completes when all its tasks have ended and both connections
    /// are closed. Another driver may then control the same switch.
    pub async fn end(mut self) {
        self.stop = None;
        // The result carries no further information.
        let _ = (&mut self.supervisor).await;
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.supervisor.abort();
    }
}

/// Starts the driver of a switch, with the default limits. Must be called within a tokio runtime.
pub fn spawn(config: Config, events: mpsc::Sender<(String, Event)>) -> Handle {
    spawn_with(config, Timing::default(), Arc::new(Sockets::default()), events)
}

/// Starts the driver of a switch with these limits; `dialler` makes its connections. Must be called within a tokio
/// runtime.
pub fn spawn_with(
    config: Config,
    timing: Timing,
    dialler: Arc<dyn Dial>,
    events: mpsc::Sender<(String, Event)>,
) -> Handle {
    let memory = MemoryBudget::default().peer(config.name.as_str());
    spawn_within(config, timing, dialler, memory, events)
}

/// The same with a share of a budget.
pub(crate) fn spawn_within(
    config: Config,
    timing: Timing,
    dialler: Arc<dyn Dial>,
    memory: PeerMemory,
    events: mpsc::Sender<(String, Event)>,
) -> Handle {
    let config = Arc::new(config);
    let intent = Arc::new(Shared::default());
    let outbox = Arc::new(Outbox::default());
    let readers = Readers::default();
    let limits = (timing.backoff_min, timing.backoff_max);
    let (stop, stopped) = oneshot::channel();
    let expected = [&config.ovsdb, &config.openflow].map(|endpoint| dialler.expect(endpoint));
    let rivals = Rivals::of(&expected);
    let start = {
        let (config, intent, outbox) = (config.clone(), intent.clone(), outbox.clone());
        let readers = readers.clone();
        move || start((&config, &rivals), &timing, (&dialler, &memory), &intent, (&outbox, &events), &readers)
    };
    let failed = {
        let intent = intent.clone();
        let config = config.clone();
        move |why, restart_in| failed(&config, &intent, &outbox, why, restart_in)
    };
    if let Some(owner) = &config.owner {
        owner.expect([config.name.clone()]);
    }
    let supervisor = tokio::spawn(supervise(limits, stopped, start, failed));
    Handle { intent, readers, stop: Some(stop), supervisor, _claim: Claim(config), _expected: expected }
}

/// Starts the tasks of a driver. The intent and the undelivered events survive a failure of the tasks.
fn start(
    (config, rivals): (&Arc<Config>, &Rivals),
    timing: &Timing,
    (dialler, memory): (&Arc<dyn Dial>, &PeerMemory),
    intent: &Arc<Shared>,
    (outbox, events): (&Arc<Outbox>, &mpsc::Sender<(String, Event)>),
    readers: &Readers,
) -> Tasks {
    let identity = Arc::new(Identity::new(config.datapath_id, config.owner.is_some()));
    if matches!(config.openflow, Endpoint::DialIn { .. }) {
        // It dials once the database says where. Its certificate names its node, so no other bridge than that host's can answer.
        identity.openflow_is_silent();
    }
    let (connection, session) = database::connection(config, timing, dialler.clone(), memory.clone());
    let (database, watch_database) =
        Database::new(connection, (config, rivals.clone()), timing, &identity, intent, outbox);
    let (openflow, keep_connected) = OpenFlow::new(
        config.clone(),
        timing,
        (dialler.clone(), memory.clone()),
        identity.clone(),
        intent.clone(),
        outbox.clone(),
    );
    readers.set(openflow.reader());
    let send_frames = openflow.reader().send_frames(intent.clone(), outbox.clone());
    let driver = Driver::new(config, (timing, memory.clone()), identity, intent, outbox, database, openflow);
    let mut tasks = Tasks::default();
    tasks.spawn("that corrects the switch", driver.run());
    tasks.spawn("that watches the database", watch_database);
    tasks.spawn("that sends frames", send_frames);
    tasks.spawn("of the database connection", session);
    tasks.spawn("of the OpenFlow connection", keep_connected);
    tasks.spawn("that delivers events", outbox.clone().deliver(config.name.clone(), events.clone()));
    tasks
}

/// Resets the state after a task has ended and all others were stopped: the contents of the switch are unknown again.
fn failed(config: &Config, intent: &Shared, outbox: &Outbox, why: String, restart_in: Duration) {
    tracing::error!(switch = config.name, why, ?restart_in, "the driver failed and is started again");
    let connected = {
        let mut intent = intent.lock();
        intent.forwarding.lost();
        [Channel::Ovsdb, Channel::OpenFlow].map(|channel| (channel, intent.disconnected(channel)))
    };
    for (channel, _) in connected.into_iter().filter(|(_, was_up)| *was_up) {
        outbox.put(Event::Disconnected { channel, why: "the driver failed and is started again".to_owned() });
    }
    outbox.put(Event::RefusedTotal { refused: 0 });
    outbox.put(Event::Failed { why, restart_in });
}
