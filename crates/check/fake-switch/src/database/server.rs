//! The connections of a fake OVSDB server.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use ovsdb_client::framing::JsonCodec;
use ovsdb_client::open_vswitch::DATABASE;
use ovsdb_client::schema::{ColumnType, Schema};
use ovsdb_client::{Change, Datum, Replica, Row};
use peer_connection::{Stream, after};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::codec::Decoder;
use uuid::Uuid;

use super::{Fault, Shared, Stage, State};
use crate::listener::Listener;

/// Invalid JSON at any position between messages.
const GARBAGE: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\r\n";
/// The id of an unsolicited reply.
const WRONG_ID: u64 = 1 << 40;
/// The most bytes per read.
const READ_BYTES: usize = 64 << 10;

pub(super) async fn listen(mut listener: Listener, shared: Arc<Shared>) {
    let mut number = 0;
    while let Ok(stream) = listener.accept().await {
        number += 1;
        tokio::spawn(serve(stream, number, shared.clone()));
    }
}

async fn serve(stream: Stream, number: u64, shared: Arc<Shared>) {
    let mut generation = shared.generation.subscribe();
    let frozen = shared.frozen.subscribe();
    let (queue, messages) = mpsc::unbounded_channel();
    {
        let mut state = shared.lock();
        state.counts.connections += 1;
        state.subscribers.insert(number, Subscriber { queue: queue.clone(), monitors: Vec::new() });
    }
    let (reader, writer) = tokio::io::split(stream);
    let connection = Connection {
        reader,
        writer,
        shared: shared.clone(),
        number,
        queue,
        messages,
        frozen,
        codec: JsonCodec::default(),
        received: BytesMut::new(),
        unsent: BytesMut::new(),
        last_words: false,
    };
    tokio::select! {
        _ = connection.serve() => {}
        _ = generation.changed() => {}
    }
    let mut state = shared.lock();
    state.subscribers.remove(&number);
    for (lock, heir) in state.locks.end(number) {
        state.tell(heir, "locked", &lock);
    }
}

/// A message to be sent.
pub(super) struct Outgoing {
    stage: Stage,
    message: Value,
}

/// The monitors of a connection, and its queue.
pub(super) struct Subscriber {
    queue: mpsc::UnboundedSender<Outgoing>,
    monitors: Vec<Monitor>,
}

struct Monitor {
    id: Value,
    notification: &'static str,
    tables: BTreeMap<String, Vec<String>>,
}

impl Subscriber {
    pub(super) fn publish(&self, schema: &Schema, changes: &[Change]) {
        for monitor in &self.monitors {
            let updates = monitor.updates(schema, changes);
            if updates.is_empty() {
                continue;
            }
            let params = match monitor.notification {
                "update3" => json!([monitor.id, Uuid::nil().to_string(), updates]),
                _ => json!([monitor.id, updates]),
            };
            let message = json!({"id": null, "method": monitor.notification, "params": params});
            // The connection may have ended just now.
            let _ = self.queue.send(Outgoing { stage: Stage::Update, message });
        }
    }
}

impl State {
    /// Tells a connection that it has got a lock, or lost it.
    fn tell(&self, client: u64, method: &str, lock: &str) {
        if let Some(subscriber) = self.subscribers.get(&client) {
            let message = json!({"id": null, "method": method, "params": [lock]});
            // The connection may have ended just now.
            let _ = subscriber.queue.send(Outgoing { stage: Stage::Echo, message });
        }
    }
}

impl Monitor {
    fn read(params: &[Value], notification: &'static str, schema: &Schema) -> Option<Monitor> {
        let mut tables = BTreeMap::new();
        for (table, requests) in params.get(2)?.as_object()? {
            let all = schema.tables.get(table.as_str())?;
            let requests = requests.as_array().map_or(std::slice::from_ref(requests), Vec::as_slice);
            let mut columns = Vec::new();
            for request in requests {
                match request.get("columns").and_then(Value::as_array) {
                    Some(wanted) => {
                        columns.extend(wanted.iter().filter_map(Value::as_str).map(str::to_owned));
                    }
                    None => columns.extend(all.keys().map(ToString::to_string)),
                }
            }
            if columns.iter().any(|column| !all.contains_key(column.as_str())) {
                return None;
            }
            tables.insert(table.clone(), columns);
        }
        Some(Monitor { id: params.get(1)?.clone(), notification, tables })
    }

    /// Updates in the notation of `ovsdb-server(7)`, by table and row.
    fn updates(&self, schema: &Schema, changes: &[Change]) -> Map<String, Value> {
        let mut updates: Map<String, Value> = Map::new();
        for change in changes {
            let Some(columns) = self.tables.get(&*change.table) else { continue };
            let typed = columns.iter().map(|column| (column.as_str(), schema.column(&change.table, column)));
            let columns = typed.filter_map(|(column, kind)| Some((column, kind?)));
            let update = match (&change.old, &change.new) {
                (None, Some(new)) => json!({"insert": shown(columns, new)}),
                (Some(old), Some(new)) => match modified(columns, old, new) {
                    modified if modified.is_empty() => continue,
                    modified => json!({"modify": modified}),
                },
                _ => json!({"delete": null}),
            };
            let table = updates.entry(change.table.to_string()).or_insert_with(|| json!({}));
            if let Some(rows) = table.as_object_mut() {
                rows.insert(change.uuid.to_string(), update);
            }
        }
        updates
    }
}

/// The columns whose values differ from the default.
fn shown<'a>(columns: impl Iterator<Item = (&'a str, ColumnType)>, row: &Row) -> Map<String, Value> {
    let other = columns.filter_map(|(column, kind)| {
        let datum = row.datum(column).filter(|datum| **datum != kind.default_datum())?;
        Some((column.to_owned(), datum.to_json()))
    });
    other.collect()
}

fn modified<'a>(
    columns: impl Iterator<Item = (&'a str, ColumnType)>,
    old: &Row,
    new: &Row,
) -> Map<String, Value> {
    let changed = columns.filter_map(|(column, kind)| {
        let (old, new) = (old.datum(column)?, new.datum(column)?);
        let datum = if kind.is_composite() { difference(old, new) } else { new.clone() };
        (old != new).then(|| (column.to_owned(), datum.to_json()))
    });
    changed.collect()
}

/// The symmetric difference of two sets. For maps: the removed pairs with their old values, and the new pairs.
fn difference(old: &Datum, new: &Datum) -> Datum {
    match (old, new) {
        (Datum::Set(old), Datum::Set(new)) => {
            let gone = old.iter().filter(|atom| !new.has(atom));
            Datum::Set(gone.chain(new.iter().filter(|atom| !old.has(atom))).cloned().collect())
        }
        (Datum::Map(old), Datum::Map(new)) => {
            let gone = old.iter().filter(|(key, _)| new.get(key).is_none());
            let set = new.iter().filter(|(key, value)| old.get(key) != Some(value));
            Datum::Map(gone.chain(set).map(|(key, value)| (key.clone(), value.clone())).collect())
        }
        _ => new.clone(),
    }
}

/// The last event of a connection.
enum Step {
    Wrote,
    Froze,
    Send(Outgoing),
    Received(usize),
}

struct Connection {
    reader: ReadHalf<Stream>,
    writer: WriteHalf<Stream>,
    shared: Arc<Shared>,
    number: u64,
    queue: mpsc::UnboundedSender<Outgoing>,
    messages: mpsc::UnboundedReceiver<Outgoing>,
    frozen: watch::Receiver<bool>,
    codec: JsonCodec,
    received: BytesMut,
    unsent: BytesMut,
    /// Whether the connection only sends its remaining bytes and neither reads nor replies any more.
    last_words: bool,
}

impl Connection {
    async fn serve(mut self) -> io::Result<()> {
        loop {
            if self.last_words && self.unsent.is_empty() {
                return std::future::pending().await;
            }
            match self.step().await? {
                Step::Wrote => {}
                Step::Froze => drop(self.frozen.wait_for(|frozen| !*frozen).await),
                Step::Send(message) => self.put(message).await?,
                Step::Received(0) => return Err(closed()),
                Step::Received(_) => {
                    while let Some(message) =
                        self.codec.decode(&mut self.received).map_err(io::Error::other)?
                    {
                        self.take(&message)?;
                    }
                }
            }
        }
    }

    async fn step(&mut self) -> io::Result<Step> {
        let (pause, bytes) = self.shared.lock().slow.unwrap_or((Duration::ZERO, READ_BYTES));
        let read = async {
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            (&mut self.reader).take(bytes as u64).read_buf(&mut self.received).await
        };
        Ok(tokio::select! {
            biased;
            _ = self.frozen.wait_for(|frozen| *frozen) => Step::Froze,
            written = self.writer.write_buf(&mut self.unsent), if !self.unsent.is_empty() => {
                written.map(|_| Step::Wrote)?
            }
            Some(message) = self.messages.recv(), if self.unsent.is_empty() => Step::Send(message),
            read = read, if !self.last_words => Step::Received(read?),
        })
    }

    /// Encodes a message, with the fault that is due for it.
    async fn put(&mut self, Outgoing { stage, mut message }: Outgoing) -> io::Result<()> {
        let Some(fault) = self.fault(stage, |fault| !prevents(fault)) else {
            self.unsent.extend_from_slice(message.to_string().as_bytes());
            return Ok(());
        };
        let member = if stage == Stage::Update { "params" } else { "result" };
        let set = |message: &mut Value, member: &str, value: Value| {
            if let Some(members) = message.as_object_mut() {
                members.insert(member.to_owned(), value);
            }
        };
        match fault {
            Fault::Empty => set(&mut message, member, json!([])),
            Fault::Short => {
                let shorter = message.get(member).map(shortened).unwrap_or_default();
                set(&mut message, member, shorter);
            }
            Fault::Null => set(&mut message, member, Value::Null),
            Fault::Result(value) => set(&mut message, member, value),
            Fault::WrongId if stage == Stage::Update => {
                message = json!({"id": WRONG_ID, "result": [], "error": null});
            }
            Fault::WrongId => set(&mut message, "id", json!(WRONG_ID)),
            Fault::Swallow => return Ok(()),
            Fault::Late(late) => tokio::time::sleep(late).await,
            Fault::StallMidMessage => {
                let text = message.to_string();
                self.unsent.extend(text.bytes().take(text.len() / 2));
                self.last_words = true;
                return Ok(());
            }
            Fault::Garbage => {
                self.unsent.put_slice(GARBAGE);
                self.last_words = true;
                return Ok(());
            }
            Fault::Stall => {
                self.last_words = true;
                return Ok(());
            }
            Fault::Close | Fault::CloseUnanswered | Fault::Refuse(_) => return Err(closed()),
        }
        self.unsent.extend_from_slice(message.to_string().as_bytes());
        Ok(())
    }

    /// The next fault, if it belongs to this stage and `now` declares it due.
    fn fault(&self, stage: Stage, now: impl FnOnce(&Fault) -> bool) -> Option<Fault> {
        let mut state = self.shared.lock();
        let (wanted, fault) = state.faults.front()?;
        // No fault prevents an update, so all faults of updates are due when one is sent.
        if *wanted != stage || !(stage == Stage::Update || now(fault)) {
            return None;
        }
        state.counts.faults += 1;
        state.faults.pop_front().map(|(_, fault)| fault)
    }

    /// Executes a request.
    fn take(&mut self, message: &Value) -> io::Result<()> {
        let Some(method) = message.get("method").and_then(Value::as_str) else { return Ok(()) };
        let id = message.get("id").cloned().unwrap_or_default();
        let params = message.get("params").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let stage = match method {
            "get_schema" => Stage::Schema,
            "monitor_cond_since" | "monitor_cond" => Stage::Monitor,
            "transact" => Stage::Transact,
            _ => Stage::Echo,
        };
        match self.fault(stage, prevents) {
            None => {}
            Some(Fault::Close) => return Err(closed()),
            Some(Fault::Refuse(error)) => {
                self.reply(stage, &id, &Value::Null, &json!(error));
                return Ok(());
            }
            Some(_) => {
                self.unsent.clear();
                self.last_words = true;
                return Ok(());
            }
        }
        match method {
            "echo" => {
                self.shared.lock().counts.echoes += 1;
                self.reply(stage, &id, &json!(params), &Value::Null);
            }
            "lock" | "steal" | "unlock" => self.change_lock(&id, method, params),
            "list_dbs" => self.reply(stage, &id, &json!([DATABASE]), &Value::Null),
            _ if params.first() != Some(&json!(DATABASE)) => {
                self.reply(stage, &id, &Value::Null, &json!("unknown database"));
            }
            "get_schema" => {
                let schema = self.shared.lock().tables.schema.clone();
                self.reply(stage, &id, &schema.notation, &Value::Null);
            }
            "monitor_cond_since" => self.monitor(&id, params, "update3"),
            "monitor_cond" => self.monitor(&id, params, "update2"),
            "transact" => self.transact(id, params.get(1..).unwrap_or_default()),
            _ => self.reply(stage, &id, &Value::Null, &json!("unknown method")),
        }
        Ok(())
    }

    fn change_lock(&self, id: &Value, method: &str, params: &[Value]) {
        let mut state = self.shared.lock();
        let lock = params.first().and_then(Value::as_str).unwrap_or_default();
        let result = if method == "unlock" {
            if let Some(heir) = state.locks.release(lock, self.number) {
                state.tell(heir, "locked", lock);
            }
            Some(json!({}))
        } else {
            state.locks.take(lock, self.number, method == "steal").map(|(held, former)| {
                if let Some(former) = former {
                    state.tell(former, "stolen", lock);
                }
                json!({"locked": held})
            })
        };
        drop(state);
        let error = json!({"error": "syntax error", "details": "must issue \"unlock\" before new \"lock\""});
        let error = if result.is_some() { Value::Null } else { error };
        self.reply(Stage::Echo, id, &result.unwrap_or_default(), &error);
    }

    fn monitor(&self, id: &Value, params: &[Value], notification: &'static str) {
        let mut state = self.shared.lock();
        state.counts.monitors += 1;
        let Some(monitor) = Monitor::read(params, notification, &state.tables.schema.types) else {
            drop(state);
            return self.reply(Stage::Monitor, id, &Value::Null, &json!("syntax error"));
        };
        let rows: Vec<Change> = Replica::default().difference(&state.tables.rows);
        let mut snapshot = Value::Object(monitor.updates(&state.tables.schema.types, &rows));
        for row in snapshot.as_object_mut().into_iter().flatten().filter_map(|(_, rows)| rows.as_object_mut())
        {
            for update in row.values_mut() {
                *update = json!({"initial": update.get("insert")});
            }
        }
        let result = match notification {
            "update3" => json!([false, Uuid::nil().to_string(), snapshot]),
            _ => snapshot,
        };
        if let Some(subscriber) = state.subscribers.get_mut(&self.number) {
            subscriber.monitors.push(monitor);
        }
        // Under the lock: no update may overtake the snapshot.
        self.reply(Stage::Monitor, id, &result, &Value::Null);
    }

    /// Runs a transaction now, or as soon as its `wait` is satisfied.
    fn transact(&self, id: Value, operations: &[Value]) {
        self.shared.lock().counts.transactions += 1;
        let queue = self.queue.clone();
        let reply = move |result: Value| {
            let message = json!({"id": id, "result": result, "error": null});
            let _ = queue.send(Outgoing { stage: Stage::Transact, message });
        };
        let mut version = self.shared.version.subscribe();
        let client = Some(self.number);
        if self.shared.transact(client, operations, true, reply.clone()).is_some() {
            return;
        }
        let timeouts = operations.iter().filter_map(|operation| operation.get("timeout")?.as_u64());
        let end = after(Instant::now(), timeouts.min().map_or(Duration::MAX, Duration::from_millis));
        let (shared, queue, operations) = (self.shared.clone(), self.queue.clone(), operations.to_vec());
        tokio::spawn(async move {
            loop {
                let late = tokio::select! {
                    () = queue.closed() => return,
                    _ = version.changed() => false,
                    () = tokio::time::sleep_until(end) => true,
                };
                if shared.transact(client, &operations, !late, reply.clone()).is_some() {
                    return;
                }
            }
        });
    }

    fn reply(&self, stage: Stage, id: &Value, result: &Value, error: &Value) {
        let message = json!({"id": id, "result": result, "error": error});
        let _ = self.queue.send(Outgoing { stage, message });
    }
}

fn closed() -> io::Error {
    io::ErrorKind::ConnectionAborted.into()
}

/// Whether the fault takes effect when the request arrives, so that the request is not executed.
fn prevents(fault: &Fault) -> bool {
    matches!(fault, Fault::Close | Fault::Stall | Fault::Refuse(_))
}

/// The value without its last element or member.
fn shortened(value: &Value) -> Value {
    match value {
        Value::Array(elements) => elements.iter().take(elements.len().saturating_sub(1)).cloned().collect(),
        Value::Object(members) => members
            .iter()
            .take(members.len().saturating_sub(1))
            .map(|(member, value)| (member.clone(), value.clone()))
            .collect(),
        _ => Value::Null,
    }
}
