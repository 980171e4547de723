//! JSON-RPC 1.0 (RFC 7047, section 4) on a connection: requests, replies, notifications, and echo in both directions.

use std::time::Duration;

use peer_connection::{Connection, ConnectionError, Dial, Endpoint, Protocol, Received, Timeouts};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::framing::{FramingError, JsonCodec, MESSAGE_SIZE_MAX};
use crate::replica::ReplicaError;
use crate::schema::SchemaError;
use crate::value::shorten;

/// The limits of a client. All have a default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// A server that is silent for this long is sent an `echo` request. Default 5 s, as in Open vSwitch.
    pub probe_interval: Duration,
    /// A server that sends nothing for this long after the `echo` request is disconnected. So is a server that takes
    /// no bytes for `probe_interval` and `probe_timeout` together. Default 5 s.
    pub probe_timeout: Duration,
    /// The time allowed for connecting, reading the schema and reading the first snapshot. Default 30 s.
    pub handshake_timeout: Duration,
    /// The delay before the first attempt to reconnect. It doubles with each attempt. Default 100 ms.
    pub backoff_min: Duration,
    /// The longest delay between attempts. Default 5 s. Jitter shortens each delay by up to a half.
    pub backoff_max: Duration,
    /// The number of events that wait for a slow receiver. Beyond it, batches of changes are merged. Default 64.
    pub events_max: usize,
    /// The largest message accepted, in bytes. Default [`MESSAGE_SIZE_MAX`].
    pub message_size_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            probe_interval: Duration::from_secs(5),
            probe_timeout: Duration::from_secs(5),
            handshake_timeout: Duration::from_secs(30),
            backoff_min: Duration::from_millis(100),
            backoff_max: Duration::from_secs(5),
            events_max: 64,
            message_size_max: MESSAGE_SIZE_MAX,
        }
    }
}

/// The reason why a client is not connected.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// There is no connection.
    #[error(transparent)]
    Connection(#[from] ConnectionError<FramingError>),
    /// Connecting, reading the schema and reading the first snapshot took too long.
    #[error("no schema and snapshot within {seconds:.1} s of connecting")]
    HandshakeTimeout {
        /// The limit.
        seconds: f64,
    },
    /// The server sent JSON that violates the protocol.
    #[error("the server violated the protocol: {problem}")]
    Protocol {
        /// The violation.
        problem: String,
    },
    /// The server refused a request that the client depends on.
    #[error("the server refused {method}: {error}: {details}")]
    Refused {
        /// The request.
        method: String,
        /// The name of the error.
        error: String,
        /// The explanation, which may be empty.
        details: String,
    },
    /// The database has a schema that the client does not understand.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// A reported change does not fit the schema or earlier reports.
    #[error(transparent)]
    Replica(#[from] ReplicaError),
    /// The server ended the monitor, as it does when the database is removed or converted.
    #[error("the server cancelled the monitor: the database was removed, or its schema changed")]
    MonitorCancelled,
}

/// A message for the client.
#[derive(Debug)]
pub(crate) enum Incoming {
    Reply { id: u64, result: Value, error: Value },
    Notification { method: String, params: Value },
}

const PROBE_ID: &str = "echo";

impl Protocol for JsonCodec {
    type Outgoing = Value;
    type Malformed = FramingError;
    const PEER: &'static str = "the server";

    fn echo_request(&self) -> Value {
        json!({"id": PROBE_ID, "method": "echo", "params": []})
    }

    fn classify(&self, mut message: Value) -> Received<Value, Value> {
        let id = message.get("id").unwrap_or(&Value::Null);
        match message.get("method").unwrap_or(&Value::Null) {
            Value::Null if id == PROBE_ID => Received::EchoReply,
            Value::String(_) if id.is_null() => Received::Message(message),
            Value::String(method) if method == "echo" => {
                let (id, params) = (take(&mut message, "id"), take(&mut message, "params"));
                Received::Request { answer: json!({"id": id, "result": params, "error": null}) }
            }
            Value::String(method) => {
                let method = shorten(method);
                tracing::warn!(method, "refused a request from the server: OVSDB clients serve echo only");
                let id = take(&mut message, "id");
                Received::Request { answer: json!({"id": id, "result": null, "error": "unknown method"}) }
            }
            _ => Received::Message(message),
        }
    }
}

/// Takes a member out of a message; `null` if it has no such member.
fn take(message: &mut Value, member: &str) -> Value {
    message.get_mut(member).map(Value::take).unwrap_or_default()
}

/// A JSON-RPC connection. [`receive`](RpcConnection::receive) also sends, so it must be polled for anything to happen.
pub(crate) struct RpcConnection {
    connection: Connection<JsonCodec>,
    next_id: u64,
}

impl RpcConnection {
    pub(crate) async fn open(
        dialler: &dyn Dial,
        endpoint: &Endpoint,
        deadline: Instant,
        options: &Options,
    ) -> Result<Self, SessionError> {
        let timeouts = Timeouts {
            probe_interval: options.probe_interval,
            probe_timeout: options.probe_timeout,
            write_timeout: options.probe_interval.saturating_add(options.probe_timeout),
            // There is no limit: a snapshot of a large database over a slow link can take long.
            message_timeout: None,
        };
        let codec = JsonCodec::new(options.message_size_max);
        let connection = Connection::open(dialler, endpoint, deadline, codec, timeouts).await?;
        Ok(RpcConnection { connection, next_id: 1 })
    }

    /// Queues a request and returns its id.
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Result<u64, SessionError> {
        let id = self.next_id;
        self.next_id += 1;
        self.connection.send(json!({"id": id, "method": method, "params": params}))?;
        Ok(id)
    }

    /// The queued bytes that the server has not taken yet.
    pub(crate) fn unsent(&self) -> usize {
        self.connection.unsent()
    }

    /// Sends a request and waits for its reply. Notifications that arrive earlier are ignored.
    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Result<(Value, Value), SessionError> {
        let wanted = self.request(method, params)?;
        loop {
            match self.receive().await? {
                Incoming::Reply { id, result, error } if id == wanted => return Ok((result, error)),
                Incoming::Reply { id, .. } => return Err(unexpected_reply(&json!(id))),
                Incoming::Notification { method, .. } => {
                    tracing::debug!(method, "ignored a notification before the monitor");
                }
            }
        }
    }

    /// The next reply or notification. Dropping the future loses nothing.
    pub(crate) async fn receive(&mut self) -> Result<Incoming, SessionError> {
        let mut message = self.connection.receive().await?;
        match take(&mut message, "method") {
            Value::String(method) => {
                Ok(Incoming::Notification { method, params: take(&mut message, "params") })
            }
            Value::Null => {
                let id = take(&mut message, "id");
                let id = id.as_u64().ok_or_else(|| unexpected_reply(&id))?;
                let (result, error) = (take(&mut message, "result"), take(&mut message, "error"));
                Ok(Incoming::Reply { id, result, error })
            }
            method => Err(violation(format!("a method is {}", shorten(&method.to_string())))),
        }
    }
}

/// The error for a reply that matches no request. The client could not attribute any later reply with certainty
/// either.
pub(crate) fn unexpected_reply(id: &Value) -> SessionError {
    violation(format!("a reply has id {}, which no pending request has", shorten(&id.to_string())))
}

pub(crate) fn violation(problem: String) -> SessionError {
    SessionError::Protocol { problem }
}
