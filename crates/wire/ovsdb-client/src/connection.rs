//! JSON-RPC 1.0 (RFC 7047, section 4) on a connection: requests, replies, notifications, and echo in both directions.

use std::io;
use std::ops::Range;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use peer_connection::{
    Account, Connection, ConnectionError, Dial, Endpoint, PeerMemory, Protocol, Received, Timeouts,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::codec::{Decoder, Encoder};

use crate::framing::{self, FramingError, JsonCodec, MESSAGE_SIZE_MAX};
use crate::replica::ReplicaError;
use crate::schema::SchemaError;
use crate::value::shorten;

/// The longest message with a schema, in bytes. That of Open vSwitch 3.5 has 65 KB.
pub(crate) const SCHEMA_BYTES_MAX: usize = 1 << 20;

/// The longest id and parameters of a request of the server that are sent back, in bytes.
const ECHOED_BYTES_MAX: usize = 16 << 10;

/// The limits of a client. All have a default.
#[derive(Debug, Clone)]
pub struct Options {
    /// A server that is silent for this long is sent an `echo` request. Default 5 s, as in Open vSwitch.
    pub probe_interval: Duration,
    /// A server that sends nothing for this long after the `echo` request is disconnected. So is a server that takes
    /// no bytes for `probe_interval` and `probe_timeout` together. Default 5 s.
    pub probe_timeout: Duration,
    /// The time allowed for connecting, or for the server to dial in, and then again for reading the schema and the first snapshot. Default 30 s.
    pub handshake_timeout: Duration,
    /// The delay before the first attempt to reconnect. It doubles with each attempt. Default 100 ms.
    pub backoff_min: Duration,
    /// The longest delay between attempts. Default 5 s. Jitter shortens each delay by up to a half.
    pub backoff_max: Duration,
    /// The number of events that wait for a slow receiver. Beyond it, batches of changes are merged. Default 64.
    pub events_max: usize,
    /// The time allowed for a request beyond what its operations may wait, whatever else the server says meanwhile, and for a
    /// whole message. Default 60 s.
    pub request_timeout: Duration,
    /// The least delay after the server has broken a limit of memory or size. Default 30 s.
    pub limits_pause: Duration,
    /// The largest message accepted, in bytes. Default [`MESSAGE_SIZE_MAX`].
    pub message_size_max: usize,
    /// Bounds what the server makes the client hold. Default: a budget of its own.
    pub memory: PeerMemory,
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
            request_timeout: Duration::from_mins(1),
            limits_pause: Duration::from_secs(30),
            message_size_max: MESSAGE_SIZE_MAX,
            memory: PeerMemory::default(),
        }
    }
}

/// The reason why a client is not connected.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// There is no connection.
    #[error(transparent)]
    Connection(#[from] ConnectionError<FramingError>),
    /// Reading the schema and the first snapshot took too long.
    #[error("no schema and snapshot within {seconds:.1} s of connecting")]
    HandshakeTimeout {
        /// The limit.
        seconds: f64,
    },
    /// The server did not answer a request.
    #[error("the server answers echo requests, but did not answer {method} within {seconds:.1} s")]
    NoAnswer {
        /// The request.
        method: &'static str,
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

impl SessionError {
    /// Whether the server made the client hold too much memory.
    pub(crate) fn is_over_budget(&self) -> bool {
        matches!(
            self,
            SessionError::Connection(ConnectionError::OverBudget(_))
                | SessionError::Replica(ReplicaError::OverBudget(_))
        )
    }

    /// Whether the server sent more than any Open vSwitch does. It would do so again at once.
    pub(crate) fn breaks_limits(&self) -> bool {
        let is_large = matches!(
            self,
            SessionError::Connection(ConnectionError::Malformed(FramingError::TooLarge { .. }))
                | SessionError::Replica(ReplicaError::TooLarge { .. })
        );
        is_large || self.is_over_budget()
    }
}

/// A message of the server: its text, and where its members are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RpcMessage {
    text: Bytes,
    id: Range<usize>,
    method: Range<usize>,
    params: Range<usize>,
    result: Range<usize>,
    error: Range<usize>,
}

/// The members of a message.
#[derive(Deserialize)]
struct Members<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<&'a RawValue>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

impl RpcMessage {
    fn new(text: Bytes, position: u64) -> Result<Self, FramingError> {
        let members: Members<'_> = framing::parse(&text, position)?;
        let range = |member: Option<&RawValue>| {
            let member = member.map_or("", RawValue::get);
            // The member is a part of the text.
            let start = (member.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
            if member.is_empty() { 0..0 } else { start..start + member.len() }
        };
        let [id, method, params, result, error] =
            [members.id, members.method, members.params, members.result, members.error].map(range);
        Ok(RpcMessage { text, id, method, params, result, error })
    }

    /// A member as text; `null` if it is missing.
    fn member(&self, range: &Range<usize>) -> &str {
        let bytes = self.text.get(range.clone()).filter(|bytes| !bytes.is_empty()).unwrap_or(b"null");
        std::str::from_utf8(bytes).unwrap_or("null")
    }

    pub(crate) fn id(&self) -> &str {
        self.member(&self.id)
    }

    pub(crate) fn method(&self) -> Method<'_> {
        match self.member(&self.method) {
            "null" => Method::Missing,
            text => match crate::text::tree(text) {
                Some(Value::String(name)) => Method::Name(name),
                _ => Method::Other(text),
            },
        }
    }

    pub(crate) fn params(&self) -> &str {
        self.member(&self.params)
    }

    pub(crate) fn result(&self) -> &str {
        self.member(&self.result)
    }

    /// The error of a reply; none if it has none.
    pub(crate) fn error(&self) -> Option<&str> {
        Some(self.member(&self.error)).filter(|error| *error != "null")
    }
}

/// The method of a message.
pub(crate) enum Method<'a> {
    Missing,
    Name(String),
    Other(&'a str),
}

/// A message for the client.
#[derive(Debug)]
pub(crate) enum Incoming {
    Reply { id: u64, message: RpcMessage },
    Notification { method: String, message: RpcMessage },
}

/// The codec of a client: messages as text.
#[derive(Debug, Default)]
pub(crate) struct RpcCodec {
    messages: JsonCodec,
}

impl Decoder for RpcCodec {
    type Item = RpcMessage;
    type Error = ConnectionError<FramingError>;

    fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<RpcMessage>, Self::Error> {
        let text = self.messages.next_text(bytes).map_err(ConnectionError::Malformed)?;
        let position = self.messages.last_position();
        text.map(|text| RpcMessage::new(text, position)).transpose().map_err(ConnectionError::Malformed)
    }

    fn decode_eof(&mut self, bytes: &mut BytesMut) -> Result<Option<RpcMessage>, Self::Error> {
        self.decode(bytes)
    }
}

impl Encoder<Value> for RpcCodec {
    type Error = io::Error;

    fn encode(&mut self, message: Value, out: &mut BytesMut) -> io::Result<()> {
        self.messages.encode(message, out)
    }
}

const PROBE_ID: &str = "echo";

impl Protocol for RpcCodec {
    type Outgoing = Value;
    type Malformed = FramingError;
    const PEER: &'static str = "the server";
    const DIAL_IN: &'static str = "run `ovs-vsctl set-manager` with this target on its host, and if it cannot connect, ovsdb-server.log there \
                                   says why";

    fn echo_request(&self) -> Value {
        json!({"id": PROBE_ID, "method": "echo", "params": []})
    }

    fn classify(&self, message: RpcMessage) -> Received<RpcMessage, Value> {
        let id = message.id();
        let short =
            |text: &str| Some(text).filter(|text| text.len() <= ECHOED_BYTES_MAX).and_then(crate::text::tree);
        match message.method() {
            Method::Missing if short(id).is_some_and(|id| id == PROBE_ID) => Received::EchoReply,
            Method::Name(_) if id == "null" => Received::Message(message),
            Method::Name(method) if method == "echo" => {
                let (id, params) = (short(id).unwrap_or_default(), short(message.params()));
                let answer = match params {
                    Some(params) => json!({"id": id, "result": params, "error": null}),
                    None => json!({"id": id, "result": null, "error": "the parameters are too long"}),
                };
                Received::Request { answer }
            }
            Method::Name(method) => {
                let method = shorten(&method);
                tracing::warn!(method, "refused a request from the server: OVSDB clients serve echo only");
                let id = short(id).unwrap_or_default();
                Received::Request { answer: json!({"id": id, "result": null, "error": "unknown method"}) }
            }
            _ => Received::Message(message),
        }
    }
}

/// A JSON-RPC connection. [`receive`](RpcConnection::receive) also sends, so it must be polled for anything to happen.
pub(crate) struct RpcConnection {
    connection: Connection<RpcCodec>,
    next_id: u64,
    message_size_max: usize,
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
            message_timeout: Some(options.request_timeout),
        };
        let message_size_max = options.message_size_max;
        // The first message has the schema.
        let messages = JsonCodec::new(message_size_max.min(SCHEMA_BYTES_MAX));
        let (codec, account) = (RpcCodec { messages }, options.memory.account());
        let connection = Connection::open(dialler, endpoint, deadline, codec, timeouts, account).await?;
        Ok(RpcConnection { connection, next_id: 1, message_size_max })
    }

    /// What the server makes the client hold is charged to this account.
    pub(crate) fn account(&self) -> &Account {
        self.connection.account()
    }

    /// From now on messages may be long.
    pub(crate) fn expect_rows(&mut self) {
        self.connection.protocol_mut().messages.set_limit(self.message_size_max);
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
    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Result<RpcMessage, SessionError> {
        let wanted = self.request(method, params)?;
        loop {
            match self.receive().await? {
                Incoming::Reply { id, message } if id == wanted => return Ok(message),
                Incoming::Reply { message, .. } => return Err(unexpected_reply(message.id())),
                Incoming::Notification { method, .. } => {
                    tracing::debug!(method, "ignored a notification before the monitor");
                }
            }
        }
    }

    /// The next reply or notification. Dropping the future loses nothing.
    pub(crate) async fn receive(&mut self) -> Result<Incoming, SessionError> {
        let message = self.connection.receive().await?;
        match message.method() {
            Method::Name(method) => Ok(Incoming::Notification { method, message }),
            Method::Missing => {
                let id = message.id().parse().map_err(|_| unexpected_reply(message.id()))?;
                Ok(Incoming::Reply { id, message })
            }
            Method::Other(method) => Err(violation(format!("a method is {}", shorten(method)))),
        }
    }
}

/// The error for a reply that matches no request. The client could not attribute any later reply with certainty
/// either.
pub(crate) fn unexpected_reply(id: &str) -> SessionError {
    violation(format!("a reply has id {}, which no pending request has", shorten(id)))
}

pub(crate) fn violation(problem: String) -> SessionError {
    SessionError::Protocol { problem }
}
