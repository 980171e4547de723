//! The OVSDB side of a driver: creates the bridge, watches its interfaces, creates and removes tunnel and patch ports.

use std::sync::Arc;
use std::time::Duration;

use ovsdb_client::open_vswitch::{self, DATABASE, PortStatus};
use ovsdb_client::{Change, Client, Event as ClientEvent, Operation, Options, TransactError};
use peer_connection::{Dial, PeerMemory};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;

use crate::arrivals::Arrivals;
use crate::config::{Config, Timing, first_scrub};
use crate::connecting;
use crate::identity::Identity;
use crate::in_database::Support;
use crate::intent::{Leaving, Shared};
use crate::outbox::Outbox;
use crate::ownership::{self, Refused, Verdict};
use crate::rivals::Rivals;
use crate::view::{self, FlowKeeping, MissingPort, View};
use switch_model::{Channel, Event, Problem, Report};

/// How often a switch that does not answer is made to look at its configuration again.
const LISTEN_AGAIN: Duration = Duration::from_secs(10);

/// The state of the database for the rest of the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Status {
    /// Whether a connection has been attempted. Before that it is unknown whether the database is reachable.
    pub(crate) known: bool,
    /// Whether the database is connected and the bridge is configured.
    pub(crate) ready: bool,
    /// The number of connections so far.
    pub(crate) connection: u64,
    /// The number of events that may have made ovs-vswitchd discard all flows.
    pub(crate) flushes: u64,
    /// The number of changes of the database.
    pub(crate) version: u64,
}

/// A client of the database.
pub(crate) struct Connection {
    client: Client,
    events: mpsc::Receiver<ClientEvent>,
}

/// A client of the database of a switch, and the task that runs it.
pub(crate) fn connection(
    config: &Config,
    timing: &Timing,
    dialler: Arc<dyn Dial>,
    memory: PeerMemory,
) -> (Connection, impl Future<Output = ()> + Send + 'static) {
    let options = Options {
        probe_interval: timing.probe_after,
        probe_timeout: timing.probe_timeout(),
        backoff_min: timing.backoff_min,
        backoff_max: timing.backoff_max,
        limits_pause: timing.limits_pause,
        memory,
        ..Options::default()
    };
    let (client, events, session) =
        Client::new(dialler, config.ovsdb.clone(), DATABASE, view::monitor(), options);
    (Connection { client, events }, session)
}

/// The driver task's handle to the database task.
pub(crate) struct Database {
    client: Client,
    config: Arc<Config>,
    timing: Timing,
    pub(crate) status: watch::Receiver<Status>,
    report_again: Arc<Notify>,
    lock_lost: Arc<Notify>,
}

/// The result for one port.
pub(crate) type PortResult = (String, Result<(), String>);

impl Database {
    /// The handle, and the task to run beside it.
    pub(crate) fn new(
        Connection { client, events }: Connection,
        (config, rivals): (&Arc<Config>, Rivals),
        timing: &Timing,
        identity: &Arc<Identity>,
        intent: &Arc<Shared>,
        outbox: &Arc<Outbox>,
    ) -> (Database, impl Future<Output = ()> + Send + 'static) {
        let (status, status_receiver) = watch::channel(Status::default());
        let report_again = Arc::new(Notify::new());
        let lock_lost = Arc::new(Notify::new());
        let watcher = Watcher {
            client: client.clone(),
            config: config.clone(),
            timing: timing.clone(),
            identity: identity.clone(),
            intent: intent.clone(),
            outbox: outbox.clone(),
            status,
            report_again: report_again.clone(),
            lock_lost: lock_lost.clone(),
            flow_keeping: None,
            arrivals: Arrivals::default(),
            bridge_problem: None,
            has_lock: false,
            withheld: None,
            rivals,
            scrub_at: Instant::now() + first_scrub(&config.name, timing.scrub_every),
        };
        let (config, timing) = (config.clone(), timing.clone());
        let database = Database { client, config, timing, status: status_receiver, report_again, lock_lost };
        (database, watcher.run(events))
    }

    pub(crate) fn view(&self) -> View {
        view(&self.client, &self.config)
    }

    /// Schedules another report, because the desired ports have changed and the report depends on them.
    pub(crate) fn report_again(&self) {
        self.report_again.notify_one();
    }

    /// Creates or changes ports in one transaction, and waits until they are in force. Returns a result for each
    /// port. The outer error means that the results are unknown and the caller must wait for another connection.
    pub(crate) async fn ensure_ports(&self, ports: &[MissingPort]) -> Result<Vec<PortResult>, String> {
        match self.try_ensure_ports(ports).await {
            Err(error) if is_about_one(&error) && ports.len() > 1 => {
                // One port makes the whole transaction fail; try each port alone.
                let mut results = Vec::new();
                for port in ports {
                    match self.try_ensure_ports(std::slice::from_ref(port)).await {
                        Ok(result) => results.extend(result),
                        Err(error) if is_about_one(&error) => {
                            results.push((port.name.clone(), Err(error.to_string())));
                        }
                        Err(error) => return Err(self.failure(&error)),
                    }
                }
                Ok(results)
            }
            Err(error) if is_about_one(&error) => {
                Ok(ports.iter().map(|port| (port.name.clone(), Err(error.to_string()))).collect())
            }
            other => other.map_err(|error| self.failure(&error)),
        }
    }

    /// The error as text. If another client has taken the lock, it is found out whose the bridge is.
    fn failure(&self, error: &open_vswitch::Error) -> String {
        if is_lock_lost(error) {
            self.lock_lost.notify_one();
        }
        error.to_string()
    }

    async fn try_ensure_ports(&self, ports: &[MissingPort]) -> Result<Vec<PortResult>, open_vswitch::Error> {
        let patience = Some(self.timing.in_force_max);
        let specs: Vec<_> = ports.iter().flat_map(|port| port.ends.iter().cloned()).collect();
        let outcomes =
            open_vswitch::ensure_tunnels(&self.client, &self.config.bridge, &specs, patience).await?;
        let result = |status| match status {
            PortStatus::Assigned(_) => Ok(()),
            PortStatus::Failed { error } => Err(error),
            PortStatus::Pending => Err("ovs-vswitchd gave it no port number; see its log".to_owned()),
        };
        let mut outcomes = outcomes.into_iter();
        let of_port = |port: &MissingPort| {
            let ends: Vec<_> = outcomes.by_ref().take(port.ends.len()).collect();
            let result = ends.into_iter().try_for_each(|end| result(end.status));
            (port.name.clone(), result)
        };
        Ok(ports.iter().map(of_port).collect())
    }

    /// Makes changes that concern no port, and waits until they are in force.
    pub(crate) async fn put_in_force(&self, operations: Vec<Operation>) -> Result<(), String> {
        if operations.is_empty() {
            return Ok(());
        }
        let made = open_vswitch::transact_in_force(&self.client, operations, self.timing.in_force_max).await;
        made.map(drop).map_err(|error| self.failure(&error))
    }

    /// Removes the driver's mark from the bridge, and where the bridge waits for it.
    pub(crate) async fn leave(&self) -> Result<(), String> {
        let operations = self.view().departure();
        if operations.is_empty() {
            return Ok(());
        }
        let left = self.client.transact(&operations).await;
        left.map(drop).map_err(|error| self.failure(&error.into()))
    }

    /// Removes ports, each named with its bridge, and waits until the removal is in force. Returns the number of
    /// removed ports on the integration bridge.
    pub(crate) async fn remove_ports(&self, ports: &[(String, String)]) -> Result<usize, String> {
        let ports: Vec<(&str, &str)> =
            ports.iter().map(|(bridge, name)| (bridge.as_str(), name.as_str())).collect();
        let patience = Some(self.timing.in_force_max);
        let removed = open_vswitch::delete_ports_of(&self.client, &ports, patience).await;
        let removed = removed.map_err(|error| self.failure(&error))?;
        Ok(removed.iter().filter(|(bridge, _)| *bridge == self.config.bridge).count())
    }
}

/// What the replica has.
fn view(client: &Client, config: &Config) -> View {
    let support = Support::of(client);
    client.with_replica(|replica| View::read(replica, support, &config.bridge))
}

/// Whether the request itself is at fault, so that repeating it will not help.
fn is_about_one(error: &open_vswitch::Error) -> bool {
    match error {
        open_vswitch::Error::NameTaken { .. } | open_vswitch::Error::Column(_) => true,
        open_vswitch::Error::Transact(error) => match error {
            TransactError::Operation { .. } => !error.is_timed_out(),
            TransactError::Commit { .. } => true,
            _ => false,
        },
        _ => false,
    }
}

/// The next event. Cancel safe.
async fn next(
    put_aside: &mut Option<ClientEvent>,
    events: &mut mpsc::Receiver<ClientEvent>,
) -> Option<ClientEvent> {
    match put_aside.take() {
        Some(event) => Some(event),
        None => events.recv().await,
    }
}

/// A change of a row as text.
fn change_text(change: &Change) -> String {
    let what = match (&change.old, &change.new) {
        (None, _) => "added",
        (_, None) => "deleted",
        _ => "changed",
    };
    let name = change.new.as_ref().or(change.old.as_ref()).and_then(|row| row.get::<String>("name").ok());
    format!("{what} {} {}", change.table, name.unwrap_or_else(|| change.uuid.to_string()))
}

/// Whether another client has the lock that the driver asserts.
fn is_lock_lost(error: &open_vswitch::Error) -> bool {
    matches!(error, open_vswitch::Error::Transact(TransactError::NotOwner { .. }))
}

struct Watcher {
    client: Client,
    config: Arc<Config>,
    timing: Timing,
    identity: Arc<Identity>,
    intent: Arc<Shared>,
    outbox: Arc<Outbox>,
    status: watch::Sender<Status>,
    report_again: Arc<Notify>,
    /// Another client has taken the lock.
    lock_lost: Arc<Notify>,
    flow_keeping: Option<FlowKeeping>,
    arrivals: Arrivals,
    /// Why the bridge does not have the desired settings.
    bridge_problem: Option<String>,
    /// Whether this connection has taken the lock of the bridge's owner.
    has_lock: bool,
    /// Why the bridge is not the driver's.
    withheld: Option<Refused>,
    /// Connections that were refused because the switch has another one.
    rivals: Rivals,
    /// The time of the next comparison with the database.
    scrub_at: Instant,
}

impl Watcher {
    async fn run(mut self, mut events: mpsc::Receiver<ClientEvent>) {
        let channel = Channel::Ovsdb;
        let mut connected = false;
        // Whether the connection is new and its first changes have not been examined.
        let mut fresh = false;
        // An event that was taken from the queue too early.
        let mut put_aside = None;
        let identity = self.identity.clone();
        let mut comparisons = identity.changes();
        // What is done is in memory of its own: the task waits nearly all the time.
        loop {
            let retry = connected && (self.bridge_problem.is_some() || self.withheld.is_some());
            let may_listen_later = connected && !retry && self.is_silent();
            tokio::select! {
                event = next(&mut put_aside, &mut events) => match event {
                    Some(ClientEvent::Connected) => {
                        (connected, fresh) = (true, true);
                        self.has_lock = false;
                        self.intent.lock().connected(channel);
                        self.outbox.put(Event::Connected { channel });
                        self.status.send_modify(|status| status.connection += 1);
                    }
                    Some(ClientEvent::Changes(_)) => {
                        // One look at the whole bridge serves for all changes that wait.
                        put_aside = std::iter::from_fn(|| events.try_recv().ok())
                            .find(|event| !matches!(event, ClientEvent::Changes(_)));
                        Box::pin(self.look()).await;
                        self.report(std::mem::take(&mut fresh));
                    }
                    Some(ClientEvent::Disconnected { why }) => {
                        connected = false;
                        self.status.send_modify(|status| (status.known, status.ready) = (true, false));
                        self.intent.lock().disconnected(channel);
                        let why = format!("{}: {why}", self.config.ovsdb);
                        self.outbox.put(Event::Disconnected { channel, why });
                    }
                    None => return,
                },
                () = self.report_again.notified() => if connected { self.report(false) },
                () = self.lock_lost.notified() => if connected {
                    self.has_lock = false;
                    Box::pin(self.look()).await;
                    self.report(false);
                },
                // A switch that cannot listen, because its address is not there yet, tries again when its database changes.
                () = tokio::time::sleep(LISTEN_AGAIN), if may_listen_later => Box::pin(self.until_in_force()).await,
                () = comparisons.next(), if retry || may_listen_later => {
                    Box::pin(self.look()).await;
                    self.report(false);
                }
                () = self.rivals.changed() => if connected { self.report(false) },
                () = self.intent.conflicts_are_due(), if connected => self.report(false),
                () = tokio::time::sleep_until(self.scrub_at), if connected => Box::pin(self.scrub()).await,
                () = tokio::time::sleep(self.timing.retry_after), if retry => {
                    Box::pin(self.look()).await;
                    self.report(false);
                }
            }
        }
    }

    /// Compares what the database has notified with what it has. What differs comes as changes afterwards.
    async fn scrub(&mut self) {
        self.scrub_at = Instant::now() + self.timing.scrub_every;
        let switch = &self.config.name;
        match self.client.compare().await {
            Ok(changes) => {
                let Some(last) = changes.last() else { return };
                let (count, last) = (changes.len(), change_text(last));
                tracing::warn!(
                    switch,
                    count,
                    last,
                    "the database has changed without a notification, or that was lost on the way; found by comparison"
                );
                self.outbox.put(Event::MissedChanges { count, last });
            }
            // The next connection reads everything.
            Err(error) => tracing::debug!(switch, %error, "cannot compare with the database"),
        }
    }

    /// Finds out whose the bridge is, corrects its settings and publishes the state of the database to the driver.
    async fn look(&mut self) {
        let mut view = self.view();
        let found = view.flow_keeping();
        self.bridge_problem = None;
        self.identity.database_says(view.datapath_id());
        let mut is_own = self.hold(&view).await;
        if is_own {
            let existed = view.bridge.is_some();
            self.correct_bridge(&mut view).await;
            if !existed && view.bridge.is_some() {
                is_own = self.hold(&view).await;
            }
        }
        let flow_keeping = view.flow_keeping();
        if flow_keeping.is_some() && (self.flow_keeping != flow_keeping || found != flow_keeping) {
            if self.flow_keeping.is_some() {
                self.until_in_force().await;
            }
            self.status.send_modify(|status| status.flushes += 1);
            self.flow_keeping = flow_keeping;
        }
        let ready = is_own && view.bridge.is_some() && self.bridge_problem.is_none();
        self.status.send_modify(|status| {
            (status.known, status.ready) = (true, ready);
            status.version += 1;
        });
    }

    async fn correct_bridge(&mut self, view: &mut View) {
        let correction = view.correction(&self.config);
        // A missing bridge must be created so that it can be compared; it is empty and forwards nothing.
        let exists = view.bridge.is_some();
        if exists && correction.is_some() && !self.identity.may_configure().await {
            self.bridge_problem = Some(self.other_bridge_answers());
        } else if let Some(spec) = correction {
            tracing::info!(switch = self.config.name, bridge = spec.name, "bringing up the bridge");
            let patience = Some(self.timing.in_force_max);
            match open_vswitch::ensure_bridge(&self.client, &spec, patience).await {
                // The replica has the change already: updates arrive before the reply.
                Ok(_) => {
                    *view = self.view();
                    self.identity.database_says(view.datapath_id());
                }
                Err(error) => self.failed(&error),
            }
        }
        if view.bridge.is_none() && self.bridge_problem.is_none() {
            let why =
                "is missing, and the switch has not said which datapaths it has: does ovs-vswitchd run?";
            self.bridge_problem = Some(why.to_owned());
        }
    }

    fn failed(&mut self, error: &open_vswitch::Error) {
        self.has_lock &= !is_lock_lost(error);
        self.bridge_problem = Some(error.to_string());
    }

    /// Makes sure that the bridge is the driver's: takes the lock and marks the bridge if it is free. Returns whether the driver may
    /// change it. A bridge that does not exist belongs to whoever creates it.
    async fn hold(&mut self, view: &View) -> bool {
        if let Some(refused) = view.stranger(&self.config.ovsdb) {
            self.identity.is_others(&refused.why);
            self.withhold(Some(refused));
            return false;
        }
        let Some(owner) = self.config.owner.clone() else { return true };
        if self.intent.lock().leaving == Leaving::Left {
            return false;
        }
        let Some(bridge) = &view.bridge else { return self.take_lock().await };
        let Some(switch) = view.switch_id() else {
            let why = "has no datapath id yet, so it is unknown which switch this is: does ovs-vswitchd run?";
            self.bridge_problem = Some(why.to_owned());
            return false;
        };
        let verdict = match owner.claim(&self.config.name, &switch, &bridge.external_ids) {
            Ok(verdict) => verdict,
            Err(refused) => {
                self.identity.is_others(&refused.why);
                self.withhold(Some(refused));
                return false;
            }
        };
        if verdict == Verdict::Free || !self.has_lock {
            if !self.identity.may_configure().await {
                self.bridge_problem = Some(self.other_bridge_answers());
                return false;
            }
            if !self.take_lock().await {
                return false;
            }
            let marked =
                self.client.transact(&ownership::marking(bridge, &owner.mark(&self.config.name))).await;
            if let Err(error) = marked {
                self.failed(&error.into());
                return false;
            }
        }
        self.identity.is_own();
        self.withhold(None);
        true
    }

    async fn take_lock(&mut self) -> bool {
        if !self.has_lock {
            match self.client.steal_lock(ownership::LOCK).await {
                Ok(()) => self.has_lock = true,
                Err(error) => self.failed(&error.into()),
            }
        }
        self.has_lock
    }

    /// Reports whose the bridge is, if that has changed.
    fn withhold(&mut self, refused: Option<Refused>) {
        if self.withheld == refused {
            return;
        }
        let why = refused.as_ref().map(|refused| refused.why.clone());
        if let Some(why) = &why {
            tracing::warn!(switch = self.config.name, why, "the switch is somebody else's");
        } else {
            tracing::info!(switch = self.config.name, "the switch belongs to this controller again");
        }
        self.outbox.put(Event::Withheld { why });
        self.withheld = refused;
    }

    /// Whether the bridge waits for the driver at an address of its own, and does not answer there.
    fn is_silent(&self) -> bool {
        connecting::waits(&self.config.openflow) && self.identity.openflow_fails()
    }

    /// Why the driver does not change the bridge in the database.
    fn other_bridge_answers(&self) -> String {
        let Config { openflow, ovsdb, .. } = &*self.config;
        format!(
            "needs other settings in the database at {ovsdb}, but the OpenFlow endpoint {openflow} answers as another bridge; nothing \
             is sent to either: correct `openflow` or `ovsdb` of this transport node, so that both lead to the same switch"
        )
    }

    /// Waits until ovs-vswitchd has applied the current contents of the database. Only then is it certain that no
    /// flush is still to come.
    async fn until_in_force(&self) {
        let patience = self.timing.in_force_max;
        if let Err(error) = open_vswitch::transact_in_force(&self.client, Vec::new(), patience).await {
            let switch = &self.config.name;
            tracing::warn!(switch, %error, "cannot tell whether the change of the bridge is in force");
        }
    }

    fn view(&self) -> View {
        view(&self.client, &self.config)
    }

    fn report(&mut self, due: bool) {
        // Also if nothing is reported, so that they are due no more.
        let conflicts = self.intent.lock().conflicts.shown(Instant::now());
        match &self.withheld {
            // Its interfaces are those of the other node.
            Some(refused) if refused.by_node => {
                let nothing = Report { conflicts: Some(Arc::default()), ..Report::default() };
                return self.outbox.report(nothing, due);
            }
            // What this controller knew stays, for the time when the switch is its own again.
            Some(_) => return,
            None => {}
        }
        let (want, alone) = {
            let intent = self.intent.lock();
            (intent.database.clone(), intent.not_as_a_whole.clone())
        };
        let view = self.view();
        self.arrivals.note(view.claims());
        let mut report = view.report(&self.config, &self.arrivals, &want);
        report.conflicts = conflicts.map(Arc::new);
        if let Some(why) = alone {
            let why = format!(
                "takes no changes as a whole ({why}), so they were sent one by one, and packets may have met some without the \
                 others: look at the log of ovs-vswitchd"
            );
            report.problems.push(Problem { what: self.config.bridge.clone(), why });
        }
        if let Some(why) = self.rivals.problem() {
            report.problems.push(Problem { what: "connection".to_owned(), why });
        }
        if let Some(why) = &self.bridge_problem {
            report.problems.push(Problem { what: self.config.bridge.clone(), why: why.clone() });
        }
        self.outbox.report(report, due);
    }
}
