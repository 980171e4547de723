//! A client: a task that stays connected, keeps a replica, reports changes and forwards requests.
//!
//! The task loops through three states: connecting (schema, monitor, snapshot), serving, and waiting to reconnect.
//! Requests wait while it connects and fail at once while it waits to reconnect. The task never waits for the
//! receiver of events: a receiver that itself waits for a transaction would never get its reply.

mod comparison;

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use peer_connection::{Account, Charge, Dial, Endpoint, Reconnect, Sockets, after, within};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use uuid::Uuid;

use crate::connection::{
    Incoming, Options, RpcConnection, RpcMessage, SessionError, unexpected_reply, violation,
};
use crate::events::{Event, Outbox};
use crate::lock::{self, Asserted};
use crate::replica::{Change, Format, Layout, MonitorSpec, Replica, ReplicaError};
use crate::row::Row;
use crate::schema::Schema;
use crate::text::elements;
use crate::transact::{self, Operation, Outcomes, TransactError, error_parts};
use crate::value::shorten;
use comparison::Comparison;

/// A handle to the client's task. Clones share it; the task ends when the last one is dropped.
#[derive(Debug, Clone)]
pub struct Client {
    database: Arc<str>,
    commands: mpsc::Sender<Box<Command>>,
    replica: Arc<RwLock<Replica>>,
    layout: Arc<RwLock<Arc<Layout>>>,
    version: watch::Receiver<u64>,
    asserted: Asserted,
}

#[derive(Debug)]
struct Command {
    what: What,
    caller: Caller,
}

#[derive(Debug)]
enum What {
    Request {
        method: String,
        params: Value,
    },
    /// Read what is monitored.
    Select,
}

/// The caller that waits for a reply. It may have stopped waiting.
#[derive(Debug)]
enum Caller {
    /// The operations, used to check the result.
    Transaction(Vec<Operation>, oneshot::Sender<Result<Outcomes, TransactError>>),
    Call(oneshot::Sender<Result<Value, TransactError>>),
    Comparison(Comparison),
}

impl Caller {
    /// How long the server may wait before it answers; none if it may wait for ever.
    fn waits(&self) -> Option<Duration> {
        match self {
            Caller::Transaction(operations, _) => transact::waits(operations),
            Caller::Call(_) | Caller::Comparison(_) => Some(Duration::ZERO),
        }
    }

    fn method(&self) -> &'static str {
        match self {
            Caller::Transaction(..) => "a transaction",
            Caller::Call(_) => "a call",
            Caller::Comparison(_) => "a comparison",
        }
    }

    fn fail(self, error: TransactError) {
        match self {
            Caller::Transaction(_, sender) => drop(sender.send(Err(error))),
            Caller::Call(sender) => drop(sender.send(Err(error))),
            Caller::Comparison(comparison) => comparison.fail(error),
        }
    }

    /// Checks a reply and passes it on. A malformed reply also ends the session, because the server is broken or its
    /// schema has changed.
    fn answer(self, message: &RpcMessage, schema: &Schema) -> Result<(), SessionError> {
        if let Some(error) = message.error() {
            let (error, details) = error_parts(error);
            self.fail(TransactError::Request { error, details });
            return Ok(());
        }
        match self {
            Caller::Call(sender) => {
                let problem = || TransactError::Reply { problem: "it is too long".to_owned() };
                drop(sender.send(crate::text::tree(message.result()).ok_or_else(problem)));
            }
            // The session answers it.
            Caller::Comparison(comparison) => comparison.fail(ended()),
            Caller::Transaction(operations, sender) => {
                let outcomes = transact::outcomes(&operations, message.result(), schema);
                let problem = match &outcomes {
                    Err(error @ TransactError::Reply { .. }) => Some(error.to_string()),
                    _ => None,
                };
                let _ = sender.send(outcomes);
                if let Some(problem) = problem {
                    return Err(violation(problem));
                }
            }
        }
        Ok(())
    }
}

/// The capacity of the queue of requests. A caller waits while the queue is full.
const COMMANDS_MAX: usize = 64;
/// The task takes no further request while this many bytes wait to be sent.
const UNSENT_BYTES_MAX: usize = 1 << 20;
const MONITOR_ID: &str = "replica";

impl Client {
    /// Starts a client of one database and returns it with the receiver of its events. Must be called within a
    /// tokio runtime. If the receiver is dropped, the client continues without reporting.
    pub fn spawn(
        endpoint: Endpoint,
        database: impl Into<Arc<str>>,
        monitor: MonitorSpec,
        options: Options,
    ) -> (Client, mpsc::Receiver<Event>) {
        Client::spawn_with(Arc::new(Sockets::default()), endpoint, database, monitor, options)
    }

    /// Like [`spawn`](Client::spawn), with a dialler.
    pub fn spawn_with(
        dialler: Arc<dyn Dial>,
        endpoint: Endpoint,
        database: impl Into<Arc<str>>,
        monitor: MonitorSpec,
        options: Options,
    ) -> (Client, mpsc::Receiver<Event>) {
        let (client, events, task) = Client::new(dialler, endpoint, database, monitor, options);
        tokio::spawn(task);
        (client, events)
    }

    /// A client whose task the caller runs, and can therefore supervise and await. The task ends when the last handle
    /// is dropped. Requests wait until the task runs.
    pub fn new(
        dialler: Arc<dyn Dial>,
        endpoint: Endpoint,
        database: impl Into<Arc<str>>,
        monitor: MonitorSpec,
        options: Options,
    ) -> (Client, mpsc::Receiver<Event>, impl Future<Output = ()> + Send + 'static) {
        let database = database.into();
        let (commands, command_receiver) = mpsc::channel(COMMANDS_MAX);
        let (events, event_receiver) = mpsc::channel(options.events_max.max(1));
        let (version_sender, version) = watch::channel(0);
        let replica = Arc::new(RwLock::new(Replica::default()));
        let layout = Arc::new(RwLock::new(Arc::default()));
        let held = options.memory.account().charge();
        let session = Session {
            dialler,
            endpoint,
            database: database.clone(),
            monitor,
            commands: command_receiver,
            outbox: Outbox::new(events, options.events_max),
            options,
            replica: replica.clone(),
            layout: layout.clone(),
            version: version_sender,
            last: None,
            held,
        };
        let asserted = Asserted::default();
        (Client { database, commands, replica, layout, version, asserted }, event_receiver, session.run())
    }

    /// Runs a transaction. Dropping the future does not undo it.
    pub async fn transact(&self, operations: &[Operation]) -> Result<Outcomes, TransactError> {
        match self.asserted.guarded(operations) {
            Some(guarded) => lock::without_assertion(self.send(&guarded).await),
            None => self.send(operations).await,
        }
    }

    pub(crate) fn asserted(&self) -> &Asserted {
        &self.asserted
    }

    async fn send(&self, operations: &[Operation]) -> Result<Outcomes, TransactError> {
        let (sender, receiver) = oneshot::channel();
        let params = transact::request(&self.database, operations);
        let caller = Caller::Transaction(operations.to_vec(), sender);
        self.request("transact", params, caller).await?;
        receiver.await.unwrap_or_else(|_| Err(ended()))
    }

    /// Sends any other request (`list_dbs`, `lock`, `steal`, …) and returns its result unchanged.
    pub async fn call(&self, method: &str, params: Value) -> Result<Value, TransactError> {
        let (sender, receiver) = oneshot::channel();
        self.request(method, params, Caller::Call(sender)).await?;
        receiver.await.unwrap_or_else(|_| Err(ended()))
    }

    /// Reads the replica in its current state, or in that of the last connection while disconnected. Blocks the
    /// client's task, so `read` should be short.
    pub fn with_replica<T>(&self, read: impl FnOnce(&Replica) -> T) -> T {
        read(&self.replica.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether the replica has this column: the database that is connected, or was last, has it, and it is monitored.
    pub fn monitors(&self, table: &str, column: &str) -> bool {
        self.layout.read().unwrap_or_else(PoisonError::into_inner).has(table, column)
    }

    /// Waits until `read` returns a value for the replica. Returns `None` if it does not within `patience`.
    pub async fn wait_for<T>(
        &self,
        patience: Duration,
        mut read: impl FnMut(&Replica) -> Option<T>,
    ) -> Option<T> {
        let mut version = self.version.clone();
        let look = async {
            loop {
                version.borrow_and_update();
                if let Some(found) = self.with_replica(&mut read) {
                    return Some(found);
                }
                version.changed().await.ok()?;
            }
        };
        tokio::time::timeout(patience, look).await.ok().flatten()
    }

    /// Compares the replica with the database, and applies what differs as if it had been notified. Returns these changes; there are
    /// none unless a notification was lost on the way.
    pub async fn compare(&self) -> Result<Vec<Change>, TransactError> {
        let (comparison, receiver) = Comparison::new();
        self.command(What::Select, Caller::Comparison(comparison)).await?;
        receiver.await.unwrap_or_else(|_| Err(ended()))
    }

    async fn request(&self, method: &str, params: Value, caller: Caller) -> Result<(), TransactError> {
        self.command(What::Request { method: method.to_owned(), params }, caller).await
    }

    async fn command(&self, what: What, caller: Caller) -> Result<(), TransactError> {
        self.commands.send(Box::new(Command { what, caller })).await.map_err(|_| ended())
    }
}

fn ended() -> TransactError {
    TransactError::NotConnected { why: "the client's task has ended".to_owned() }
}

struct Session {
    dialler: Arc<dyn Dial>,
    endpoint: Endpoint,
    database: Arc<str>,
    monitor: MonitorSpec,
    options: Options,
    commands: mpsc::Receiver<Box<Command>>,
    outbox: Outbox,
    replica: Arc<RwLock<Replica>>,
    layout: Arc<RwLock<Arc<Layout>>>,
    version: watch::Sender<u64>,
    /// The last transaction seen, and the schema at that time. A clustered database can resume from it.
    last: Option<(Uuid, Arc<Schema>)>,
    /// The rows of the replica, charged to the account of the current connection, or of the last one.
    held: Charge,
}

/// A connection whose handshake is complete.
struct Served {
    connection: RpcConnection,
    schema: Arc<Schema>,
    layout: Arc<Layout>,
    /// The requests without an answer, and until when the server has time for it.
    pending: HashMap<u64, (Caller, Option<Instant>)>,
}

impl Served {
    /// The first time at which an answer is late.
    fn deadline(&self) -> Option<Instant> {
        self.pending.values().filter_map(|(_, deadline)| *deadline).min()
    }

    fn late(&self, now: Instant) -> Option<&'static str> {
        let is_late = |deadline: &Option<Instant>| deadline.is_some_and(|deadline| deadline <= now);
        self.pending.values().find(|(_, deadline)| is_late(deadline)).map(|(caller, _)| caller.method())
    }
}

/// Every handle was dropped.
struct Ended;

impl Session {
    async fn run(mut self) {
        let mut reconnect = Reconnect::new(self.options.backoff_min, self.options.backoff_max);
        loop {
            // In memory of its own: the task waits nearly all the time.
            let why = match Box::pin(self.connect_in_time()).await {
                Ok(served) => {
                    tracing::debug!(endpoint = %self.endpoint, "connected");
                    reconnect.connected();
                    let Ok(why) = self.serve(served).await else { return };
                    why
                }
                Err(error) => error,
            };
            if why.is_over_budget() {
                self.forget();
            }
            let breaks_limits = why.breaks_limits();
            let why = why.to_string();
            let mut retry = reconnect.failed(&why);
            if breaks_limits {
                retry.delay = retry.delay.max(self.options.limits_pause);
            }
            if retry.report {
                tracing::debug!(endpoint = %self.endpoint, why, "not connected");
                self.outbox.push(Event::Disconnected { why: why.clone() });
            }
            if self.pause(retry.delay, &why).await.is_err() {
                return;
            }
        }
    }

    async fn connect_in_time(&mut self) -> Result<Served, SessionError> {
        let limit = self.options.handshake_timeout;
        let deadline = after(Instant::now(), limit);
        let connection = RpcConnection::open(&*self.dialler, &self.endpoint, deadline, &self.options).await?;
        // A server that dials in may do so at the last moment.
        within(after(Instant::now(), limit), self.connected(connection))
            .await
            .unwrap_or(Err(SessionError::HandshakeTimeout { seconds: limit.as_secs_f64() }))
    }

    /// Brings the replica up to date over a new connection.
    async fn connected(&mut self, mut connection: RpcConnection) -> Result<Served, SessionError> {
        let reply = connection.call("get_schema", json!([*self.database])).await?;
        let schema = match reply.error() {
            None => Schema::from_text(reply.result())?.shared(),
            Some(error) => return Err(refused("get_schema", error)),
        };
        drop(reply);
        let layout = Layout::resolve(&self.monitor, &schema)?.shared();
        connection.expect_rows();
        self.hold(connection.account())?;
        let changes = if self.monitor.is_empty() {
            Vec::new()
        } else {
            self.snapshot(&mut connection, &schema, &layout).await?
        };
        self.layout.write().unwrap_or_else(PoisonError::into_inner).clone_from(&layout);
        self.outbox.push(Event::Connected);
        self.apply(changes)?;
        Ok(Served { connection, schema, layout, pending: HashMap::new() })
    }

    /// Starts the monitor with the best method that the server supports, and returns the changes since the last one.
    async fn snapshot(
        &mut self,
        connection: &mut RpcConnection,
        schema: &Arc<Schema>,
        layout: &Layout,
    ) -> Result<Vec<Change>, SessionError> {
        // Differences do not apply to rows of another schema version.
        let since = self.last.take().filter(|(_, seen)| seen == schema).map_or(Uuid::nil(), |(id, _)| id);
        let requests = layout.to_json();
        let params = json!([*self.database, MONITOR_ID, requests, since.to_string()]);
        let reply = connection.call("monitor_cond_since", params).await?;
        let Some(error) = reply.error() else {
            let result = reply.result();
            let parts = elements(result, 3).unwrap_or_default();
            let [found @ ("true" | "false"), last, rows] = parts.as_slice() else {
                return Err(violation(format!(
                    "the reply to monitor_cond_since is not [found, last transaction, rows] but {}",
                    shorten(result)
                )));
            };
            let last = transaction_id(last)?;
            let changes = if *found == "true" {
                self.decode(layout, rows, Format::Update2)?
            } else {
                self.replaced(layout, rows, Format::Update2)?
            };
            self.last = Some((last, schema.clone()));
            return Ok(changes);
        };
        if error_parts(error).0 != "unknown method" {
            return Err(refused("monitor_cond_since", error));
        }
        for (method, format) in [("monitor_cond", Format::Update2), ("monitor", Format::Update1)] {
            let params = json!([*self.database, MONITOR_ID, requests]);
            let reply = connection.call(method, params).await?;
            match reply.error() {
                None => return self.replaced(layout, reply.result(), format),
                Some(error) if method == "monitor_cond" && error_parts(error).0 == "unknown method" => {}
                Some(error) => return Err(refused(method, error)),
            }
        }
        Err(violation(
            "the server supports neither monitor_cond_since, nor monitor_cond, nor monitor".to_owned(),
        ))
    }

    /// Serves until the connection is lost, and returns the reason.
    async fn serve(&mut self, mut served: Served) -> Result<SessionError, Ended> {
        let why = loop {
            let deadline = served.deadline();
            let late = async {
                match deadline {
                    Some(deadline) => tokio::time::sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                incoming = served.connection.receive() => {
                    if let Err(error) = incoming.and_then(|incoming| self.take_in(&mut served, incoming)) {
                        break error;
                    }
                }
                command = self.commands.recv(), if served.connection.unsent() < UNSENT_BYTES_MAX => {
                    let Some(command) = command else { return Err(Ended) };
                    if let Err(error) = self.ask(&mut served, *command) {
                        break error;
                    }
                }
                () = late => if let Some(method) = served.late(Instant::now()) {
                    break SessionError::NoAnswer { method, seconds: self.options.request_timeout.as_secs_f64() };
                },
                () = self.outbox.hand_over() => {}
            }
        };
        if matches!(why, SessionError::Replica(_)) {
            // The next snapshot must be complete.
            self.last = None;
        }
        let text = why.to_string();
        for (_, (caller, _)) in served.pending.drain() {
            caller.fail(TransactError::FateUnknown { why: text.clone() });
        }
        Ok(why)
    }

    fn ask(&self, served: &mut Served, Command { what, caller }: Command) -> Result<(), SessionError> {
        let (method, params) = match what {
            What::Request { method, params } => (method, params),
            What::Select => {
                ("transact".to_owned(), transact::request(&self.database, &served.layout.selects()))
            }
        };
        let id = served.connection.request(&method, params)?;
        let limit = caller.waits().map(|waits| waits + self.options.request_timeout);
        let deadline = limit.map(|limit| after(Instant::now(), limit));
        served.pending.insert(id, (caller, deadline));
        Ok(())
    }

    fn take_in(&mut self, served: &mut Served, incoming: Incoming) -> Result<(), SessionError> {
        match incoming {
            Incoming::Reply { id, message } => {
                let (caller, _) = served.pending.remove(&id).ok_or_else(|| unexpected_reply(message.id()))?;
                match caller {
                    Caller::Comparison(comparison) => self.compare(served, comparison, &message),
                    caller => caller.answer(&message, &served.schema),
                }
            }
            Incoming::Notification { method, message } => self.notified(served, &method, message.params()),
        }
    }

    fn notified(&mut self, served: &Served, method: &str, params: &str) -> Result<(), SessionError> {
        let parts = elements(params, 3).unwrap_or_default();
        let (last, updates, format) = match (method, parts.as_slice()) {
            ("update3", [_, last, updates]) => (Some(last), updates, Format::Update2),
            ("update2", [_, updates]) => (None, updates, Format::Update2),
            ("update", [_, updates]) => (None, updates, Format::Update1),
            ("monitor_canceled", [id, ..]) if is_monitor(id) => return Err(SessionError::MonitorCancelled),
            ("update3" | "update2" | "update", _) => {
                let params = shorten(params);
                return Err(violation(format!("a notification {method} has the parameters {params}")));
            }
            // Of two clients that take a lock in turn, the next transaction tells each how it stands.
            ("locked" | "stolen", _) => return Ok(()),
            _ => {
                tracing::info!(endpoint = %self.endpoint, method, "ignored a notification");
                return Ok(());
            }
        };
        if !parts.first().is_some_and(|id| is_monitor(id)) {
            return Err(violation(format!("a notification {method} for an unknown monitor")));
        }
        let changes = self.decode(&served.layout, updates, format)?;
        if let Some(last) = last {
            self.last = Some((transaction_id(last)?, served.schema.clone()));
        }
        if !changes.is_empty() {
            self.apply(changes)?;
        }
        Ok(())
    }

    fn decode(
        &mut self,
        layout: &Layout,
        updates: &str,
        format: Format,
    ) -> Result<Vec<Change>, SessionError> {
        let replica = self.replica.read().unwrap_or_else(PoisonError::into_inner);
        Ok(replica.decode(layout, updates, format, &mut self.held)?)
    }

    /// The changes from the replica to a snapshot.
    fn replaced(
        &mut self,
        layout: &Layout,
        snapshot: &str,
        format: Format,
    ) -> Result<Vec<Change>, SessionError> {
        let mut later = Replica::default();
        later.apply(&later.decode(layout, snapshot, format, &mut self.held)?);
        Ok(self.replica.read().unwrap_or_else(PoisonError::into_inner).difference(&later))
    }

    fn apply(&mut self, changes: Vec<Change>) -> Result<(), SessionError> {
        let replaced: usize = changes.iter().filter_map(|change| change.old.as_ref()).map(Row::memory).sum();
        self.held.set(self.held.bytes().saturating_sub(replaced)).map_err(ReplicaError::from)?;
        self.replica.write().unwrap_or_else(PoisonError::into_inner).apply(&changes);
        self.version.send_modify(|version| *version += 1);
        self.outbox.push(Event::Changes(changes));
        Ok(())
    }

    /// Charges the rows that are there to the account of a new connection.
    fn hold(&mut self, account: &Account) -> Result<(), SessionError> {
        let bytes = self.replica.read().unwrap_or_else(PoisonError::into_inner).memory();
        self.held = account.charge();
        Ok(self.held.set(bytes).map_err(ReplicaError::from)?)
    }

    /// Forgets all rows, which take too much memory. The next connection reports them as new.
    fn forget(&mut self) {
        *self.replica.write().unwrap_or_else(PoisonError::into_inner) = Replica::default();
        self.last = None;
        self.held = self.options.memory.account().charge();
    }

    /// Waits, and refuses requests meanwhile.
    async fn pause(&mut self, pause: Duration, why: &str) -> Result<(), Ended> {
        let end = after(Instant::now(), pause);
        loop {
            let account = self.held.account().clone();
            tokio::select! {
                () = tokio::time::sleep_until(end) => return Ok(()),
                () = self.outbox.hand_over() => {}
                _ = account.over() => self.forget(),
                command = self.commands.recv() => {
                    let Some(command) = command else { return Err(Ended) };
                    command.caller.fail(TransactError::NotConnected { why: why.to_owned() });
                }
            }
        }
    }
}

fn refused(method: &str, error: &str) -> SessionError {
    let (error, details) = error_parts(error);
    SessionError::Refused { method: method.to_owned(), error, details }
}

/// Whether a text is the id of the monitor.
fn is_monitor(id: &str) -> bool {
    serde_json::from_str::<&str>(id).is_ok_and(|id| id == MONITOR_ID)
}

fn transaction_id(text: &str) -> Result<Uuid, SessionError> {
    let id = serde_json::from_str::<&str>(text).ok().and_then(|text| text.parse().ok());
    id.ok_or_else(|| violation(format!("a transaction id is {}", shorten(text))))
}
