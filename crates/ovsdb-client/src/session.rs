//! A client: a task that stays connected, keeps a replica, reports changes and forwards requests.
//!
//! The task loops through three states: connecting (schema, monitor, snapshot), serving, and waiting to reconnect.
//! Requests wait while it connects and fail at once while it waits to reconnect. The task never waits for the
//! receiver of events: a receiver that itself waits for a transaction would never get its reply.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use peer_connection::{Dial, Endpoint, Reconnect, Sockets, after, within};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use uuid::Uuid;

use crate::connection::{Incoming, Options, RpcConnection, SessionError, unexpected_reply, violation};
use crate::events::{Event, Outbox};
use crate::replica::{Change, Format, Layout, MonitorSpec, Replica};
use crate::schema::Schema;
use crate::transact::{self, Operation, Outcomes, TransactError, error_parts};
use crate::value::shorten;

/// A handle to the client's task. Clones share it; the task ends when the last one is dropped.
#[derive(Debug, Clone)]
pub struct Client {
    database: Arc<str>,
    commands: mpsc::Sender<Command>,
    replica: Arc<RwLock<Replica>>,
    layout: Arc<RwLock<Layout>>,
    version: watch::Receiver<u64>,
}

#[derive(Debug)]
struct Command {
    method: String,
    params: Value,
    caller: Caller,
}

/// The caller that waits for a reply. It may have stopped waiting.
#[derive(Debug)]
enum Caller {
    /// The operations, used to check the result.
    Transaction(Vec<Operation>, oneshot::Sender<Result<Outcomes, TransactError>>),
    Call(oneshot::Sender<Result<Value, TransactError>>),
}

impl Caller {
    fn fail(self, error: TransactError) {
        match self {
            Caller::Transaction(_, sender) => drop(sender.send(Err(error))),
            Caller::Call(sender) => drop(sender.send(Err(error))),
        }
    }

    /// Checks a reply and passes it on. A malformed reply also ends the session, because the server is broken or its
    /// schema has changed.
    fn answer(self, result: Value, error: &Value, schema: &Schema) -> Result<(), SessionError> {
        if !error.is_null() {
            let (error, details) = error_parts(error);
            self.fail(TransactError::Request { error, details });
            return Ok(());
        }
        match self {
            Caller::Call(sender) => drop(sender.send(Ok(result))),
            Caller::Transaction(operations, sender) => {
                let outcomes = transact::outcomes(&operations, &result, schema);
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
        Client::spawn_with(Arc::new(Sockets), endpoint, database, monitor, options)
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
        let layout = Arc::new(RwLock::new(Layout::default()));
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
        };
        (Client { database, commands, replica, layout, version }, event_receiver, session.run())
    }

    /// Runs a transaction. Dropping the future does not undo it.
    pub async fn transact(&self, operations: &[Operation]) -> Result<Outcomes, TransactError> {
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

    async fn request(&self, method: &str, params: Value, caller: Caller) -> Result<(), TransactError> {
        let command = Command { method: method.to_owned(), params, caller };
        self.commands.send(command).await.map_err(|_| ended())
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
    commands: mpsc::Receiver<Command>,
    outbox: Outbox,
    replica: Arc<RwLock<Replica>>,
    layout: Arc<RwLock<Layout>>,
    version: watch::Sender<u64>,
    /// The last transaction seen, and the schema at that time. A clustered database can resume from it.
    last: Option<(Uuid, Arc<Schema>)>,
}

/// A connection whose handshake is complete.
struct Served {
    connection: RpcConnection,
    schema: Arc<Schema>,
    layout: Layout,
    pending: HashMap<u64, Caller>,
}

/// Every handle was dropped.
struct Ended;

impl Session {
    async fn run(mut self) {
        let mut reconnect = Reconnect::new(self.options.backoff_min, self.options.backoff_max);
        loop {
            let why = match self.connect_in_time().await {
                Ok(served) => {
                    tracing::debug!(endpoint = %self.endpoint, "connected");
                    reconnect.connected();
                    let Ok(why) = self.serve(served).await else { return };
                    why
                }
                Err(error) => error.to_string(),
            };
            let retry = reconnect.failed(&why);
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
        within(deadline, self.connect(deadline))
            .await
            .unwrap_or(Err(SessionError::HandshakeTimeout { seconds: limit.as_secs_f64() }))
    }

    /// Connects and brings the replica up to date.
    async fn connect(&mut self, deadline: Instant) -> Result<Served, SessionError> {
        let mut connection =
            RpcConnection::open(&*self.dialler, &self.endpoint, deadline, &self.options).await?;
        let schema = match connection.call("get_schema", json!([*self.database])).await? {
            (schema, Value::Null) => Arc::new(Schema::from_json(&schema)?),
            (_, error) => return Err(refused("get_schema", &error)),
        };
        let layout = Layout::resolve(&self.monitor, &schema)?;
        let changes = if self.monitor.is_empty() {
            Vec::new()
        } else {
            self.snapshot(&mut connection, &schema, &layout).await?
        };
        self.layout.write().unwrap_or_else(PoisonError::into_inner).clone_from(&layout);
        self.outbox.push(Event::Connected);
        self.apply(changes);
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
        let (result, error) = connection.call("monitor_cond_since", params).await?;
        if error.is_null() {
            let Some([Value::Bool(found), last, rows]) = result.as_array().map(Vec::as_slice) else {
                let reply = shorten(&result.to_string());
                return Err(violation(format!(
                    "the reply to monitor_cond_since is not [found, last transaction, rows] but {reply}"
                )));
            };
            let last = transaction_id(last)?;
            let changes = if *found {
                self.decode(layout, rows, Format::Update2)?
            } else {
                self.replaced(layout, rows, Format::Update2)?
            };
            self.last = Some((last, schema.clone()));
            return Ok(changes);
        }
        if error_parts(&error).0 != "unknown method" {
            return Err(refused("monitor_cond_since", &error));
        }
        for (method, format) in [("monitor_cond", Format::Update2), ("monitor", Format::Update1)] {
            let params = json!([*self.database, MONITOR_ID, requests]);
            match connection.call(method, params).await? {
                (rows, Value::Null) => return self.replaced(layout, &rows, format),
                (_, error) if method == "monitor_cond" && error_parts(&error).0 == "unknown method" => {}
                (_, error) => return Err(refused(method, &error)),
            }
        }
        Err(violation(
            "the server supports neither monitor_cond_since, nor monitor_cond, nor monitor".to_owned(),
        ))
    }

    /// Serves until the connection is lost, and returns the reason.
    async fn serve(&mut self, mut served: Served) -> Result<String, Ended> {
        let why = loop {
            tokio::select! {
                incoming = served.connection.receive() => {
                    if let Err(error) = incoming.and_then(|incoming| self.take_in(&mut served, incoming)) {
                        break error;
                    }
                }
                command = self.commands.recv(), if served.connection.unsent() < UNSENT_BYTES_MAX => {
                    let Some(command) = command else { return Err(Ended) };
                    match served.connection.request(&command.method, command.params) {
                        Ok(id) => drop(served.pending.insert(id, command.caller)),
                        Err(error) => break error,
                    }
                }
                () = self.outbox.hand_over() => {}
            }
        };
        if matches!(why, SessionError::Replica(_)) {
            // The next snapshot must be complete.
            self.last = None;
        }
        let why = why.to_string();
        for (_, caller) in served.pending.drain() {
            caller.fail(TransactError::FateUnknown { why: why.clone() });
        }
        Ok(why)
    }

    fn take_in(&mut self, served: &mut Served, incoming: Incoming) -> Result<(), SessionError> {
        match incoming {
            Incoming::Reply { id, result, error } => {
                let caller = served.pending.remove(&id).ok_or_else(|| unexpected_reply(&json!(id)))?;
                caller.answer(result, &error, &served.schema)
            }
            Incoming::Notification { method, params } => self.notified(served, &method, &params),
        }
    }

    fn notified(&mut self, served: &Served, method: &str, params: &Value) -> Result<(), SessionError> {
        let params = params.as_array().map_or(&[][..], Vec::as_slice);
        let (last, updates, format) = match (method, params) {
            ("update3", [_, last, updates]) => (Some(last), updates, Format::Update2),
            ("update2", [_, updates]) => (None, updates, Format::Update2),
            ("update", [_, updates]) => (None, updates, Format::Update1),
            ("monitor_canceled", [id, ..]) if id == MONITOR_ID => return Err(SessionError::MonitorCancelled),
            ("update3" | "update2" | "update", _) => {
                let params = shorten(&Value::from(params).to_string());
                return Err(violation(format!("a notification {method} has the parameters {params}")));
            }
            _ => {
                tracing::info!(endpoint = %self.endpoint, method, "ignored a notification");
                return Ok(());
            }
        };
        if params.first().is_none_or(|id| id != MONITOR_ID) {
            return Err(violation(format!("a notification {method} for an unknown monitor")));
        }
        let changes = self.decode(&served.layout, updates, format)?;
        if let Some(last) = last {
            self.last = Some((transaction_id(last)?, served.schema.clone()));
        }
        if !changes.is_empty() {
            self.apply(changes);
        }
        Ok(())
    }

    fn decode(&self, layout: &Layout, updates: &Value, format: Format) -> Result<Vec<Change>, SessionError> {
        let replica = self.replica.read().unwrap_or_else(PoisonError::into_inner);
        Ok(replica.decode(layout, updates, format)?)
    }

    /// The changes from the replica to a snapshot.
    fn replaced(
        &self,
        layout: &Layout,
        snapshot: &Value,
        format: Format,
    ) -> Result<Vec<Change>, SessionError> {
        let mut later = Replica::default();
        later.apply(&later.decode(layout, snapshot, format)?);
        Ok(self.replica.read().unwrap_or_else(PoisonError::into_inner).difference(&later))
    }

    fn apply(&mut self, changes: Vec<Change>) {
        self.replica.write().unwrap_or_else(PoisonError::into_inner).apply(&changes);
        self.version.send_modify(|version| *version += 1);
        self.outbox.push(Event::Changes(changes));
    }

    /// Waits, and refuses requests meanwhile.
    async fn pause(&mut self, pause: Duration, why: &str) -> Result<(), Ended> {
        let end = after(Instant::now(), pause);
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(end) => return Ok(()),
                () = self.outbox.hand_over() => {}
                command = self.commands.recv() => {
                    let Some(command) = command else { return Err(Ended) };
                    command.caller.fail(TransactError::NotConnected { why: why.to_owned() });
                }
            }
        }
    }
}

fn refused(method: &str, error: &Value) -> SessionError {
    let (error, details) = error_parts(error);
    SessionError::Refused { method: method.to_owned(), error, details }
}

fn transaction_id(value: &Value) -> Result<Uuid, SessionError> {
    let id = value.as_str().and_then(|text| text.parse().ok());
    id.ok_or_else(|| violation(format!("a transaction id is {}", shorten(&value.to_string()))))
}
