//! One connection: JSON-RPC 1.0 messages (RFC 7047, section 4) over a byte stream, with echo in both directions.
//!
//! Every wait here ends: connecting has a deadline, a silent peer is probed with `echo` and given up, and so is
//! one that does not take what is sent to it.

use std::io;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::Instant;

use crate::endpoint::Endpoint;
use crate::framing::{Decoder, FramingError, MESSAGE_SIZE_MAX};
use crate::replica::ReplicaError;
use crate::schema::SchemaError;
use crate::value::shorten;

/// The limits of a client. All have a default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// A peer silent for this long is sent an `echo`. Default 5 s, as in Open vSwitch.
    pub probe_interval: Duration,
    /// A peer that sends nothing for this long after the `echo`, or takes nothing that is sent to it for both
    /// times together, is given up. Default 5 s.
    pub probe_timeout: Duration,
    /// Connecting, the schema and the first snapshot must be through within this time. Default 30 s.
    pub handshake_timeout: Duration,
    /// The pause before the first attempt to connect again; doubles with each. Default 100 ms.
    pub backoff_min: Duration,
    /// The longest pause between attempts. Default 5 s. A pause is shortened by up to a half at random.
    pub backoff_max: Duration,
    /// How many events wait for a slow receiver; beyond it batches of changes are merged. Default 64.
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

/// Why there is no connection, or no more.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// Nobody listens there, or it cannot be reached.
    #[error("cannot connect: {0}")]
    Connect(#[source] io::Error),
    /// The stream broke.
    #[error("the connection broke: {0}")]
    Io(#[from] io::Error),
    /// The peer closed the connection.
    #[error("the server closed the connection{}", if *.mid_message { " in the middle of a message" } else { "" })]
    Closed {
        /// Whether a message was begun and not ended.
        mid_message: bool,
    },
    /// The peer sent nothing, not even a reply to an echo request.
    #[error(
        "the server was silent for {seconds:.1} s{} and did not answer an echo request",
        if *.mid_message { " in the middle of a message" } else { "" }
    )]
    Silent {
        /// Since its last byte.
        seconds: f64,
        /// Whether a message was begun and not ended.
        mid_message: bool,
    },
    /// The peer does not read.
    #[error("the server took none of the bytes sent to it for {seconds:.1} s")]
    NotReading {
        /// Since it took the last byte.
        seconds: f64,
    },
    /// Connecting, the schema and the first snapshot took too long.
    #[error("no schema and snapshot within {seconds:.1} s of connecting")]
    HandshakeTimeout {
        /// The limit.
        seconds: f64,
    },
    /// What came is no JSON.
    #[error(transparent)]
    Framing(#[from] FramingError),
    /// What came is JSON, but breaks the protocol.
    #[error("the server broke the protocol: {problem}")]
    Protocol {
        /// How.
        problem: String,
    },
    /// The server refused a request without which the client cannot work.
    #[error("the server refused {method}: {error}: {details}")]
    Refused {
        /// The request.
        method: String,
        /// The error's name.
        error: String,
        /// The explanation; may be empty.
        details: String,
    },
    /// The database's schema cannot be understood.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// What is reported does not fit the schema or what was reported before.
    #[error(transparent)]
    Replica(#[from] ReplicaError),
    /// The server ended the monitor, as it does when the database is removed or converted.
    #[error("the server cancelled the monitor: the database was removed, or its schema changed")]
    MonitorCancelled,
}

/// What a peer sent, echo apart.
#[derive(Debug)]
pub(crate) enum Incoming {
    Reply { id: u64, result: Value, error: Value },
    Notification { method: String, params: Value },
}

const PROBE_ID: &str = "echo";

/// A connection. [`receive`](Connection::receive) also sends, so it must be polled for anything to happen.
pub(crate) struct Connection {
    reader: Box<dyn AsyncRead + Send + Unpin>,
    writer: Box<dyn AsyncWrite + Send + Unpin>,
    chunk: Vec<u8>,
    decoder: Decoder,
    outgoing: Vec<u8>,
    /// How much of `outgoing` is written.
    written: usize,
    next_id: u64,
    probe_interval: Duration,
    probe_timeout: Duration,
    last_read: Instant,
    /// When the peer last took a byte, or `outgoing` was last empty.
    last_write: Instant,
    probed: Option<Instant>,
}

impl Connection {
    pub(crate) async fn open(endpoint: &Endpoint, options: &Options) -> Result<Self, ConnectionError> {
        let connected = match endpoint {
            Endpoint::Unix(path) => UnixStream::connect(path).await.map(|stream| {
                let (reader, writer) = stream.into_split();
                (
                    Box::new(reader) as Box<dyn AsyncRead + Send + Unpin>,
                    Box::new(writer) as Box<dyn AsyncWrite + Send + Unpin>,
                )
            }),
            Endpoint::Tcp { host, port } => match TcpStream::connect((host.as_str(), *port)).await {
                Ok(stream) => stream.set_nodelay(true).map(|()| {
                    let (reader, writer) = stream.into_split();
                    (Box::new(reader) as _, Box::new(writer) as _)
                }),
                Err(error) => Err(error),
            },
        };
        let (reader, writer) = connected.map_err(ConnectionError::Connect)?;
        let now = Instant::now();
        Ok(Connection {
            reader,
            writer,
            chunk: vec![0; 64 << 10],
            decoder: Decoder::new(options.message_size_max),
            outgoing: Vec::new(),
            written: 0,
            next_id: 1,
            probe_interval: options.probe_interval,
            probe_timeout: options.probe_timeout,
            last_read: now,
            last_write: now,
            probed: None,
        })
    }

    /// Queues a request and returns its id.
    pub(crate) fn request(&mut self, method: &str, params: &Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.send(&json!({"id": id, "method": method, "params": params}));
        id
    }

    /// Bytes queued that the peer has not taken.
    pub(crate) fn unsent(&self) -> usize {
        self.outgoing.len() - self.written
    }

    /// Sends a request and waits for its reply. Notifications that come before it are handed to `other`.
    pub(crate) async fn call(
        &mut self,
        method: &str,
        params: Value,
    ) -> Result<(Value, Value), ConnectionError> {
        let wanted = self.request(method, &params);
        loop {
            match self.receive().await? {
                Incoming::Reply { id, result, error } if id == wanted => return Ok((result, error)),
                Incoming::Reply { id, .. } => return Err(unasked(&json!(id))),
                Incoming::Notification { method, .. } => {
                    tracing::debug!(method, "ignored a notification before the monitor");
                }
            }
        }
    }

    /// The next reply or notification. Dropping the future loses nothing.
    pub(crate) async fn receive(&mut self) -> Result<Incoming, ConnectionError> {
        loop {
            while let Some(message) = self.decoder.next_message()? {
                if let Some(incoming) = self.classify(message)? {
                    return Ok(incoming);
                }
            }
            let deadline = self.deadline();
            let pending = self.written < self.outgoing.len();
            tokio::select! {
                read = self.reader.read(&mut self.chunk) => match read.map_err(|error| self.broken(error))? {
                    0 => return Err(self.closed()),
                    length => {
                        self.last_read = Instant::now();
                        self.probed = None;
                        self.decoder.feed(&self.chunk[..length]);
                    }
                },
                written = self.writer.write(&self.outgoing[self.written..]), if pending => {
                    self.wrote(written.map_err(|error| self.broken(error))?)?;
                }
                () = tokio::time::sleep_until(deadline) => self.time_passed()?,
            }
        }
    }

    fn closed(&self) -> ConnectionError {
        ConnectionError::Closed { mid_message: self.decoder.is_mid_message() }
    }

    /// A peer that closes while something is sent to it shows as one of these.
    fn broken(&self, error: io::Error) -> ConnectionError {
        match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => self.closed(),
            _ => error.into(),
        }
    }

    fn send(&mut self, message: &Value) {
        if self.written == self.outgoing.len() {
            self.last_write = Instant::now();
        }
        self.outgoing.extend(message.to_string().into_bytes());
    }

    fn wrote(&mut self, length: usize) -> io::Result<()> {
        if length == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.last_write = Instant::now();
        self.written += length;
        if self.written == self.outgoing.len() {
            self.outgoing.clear();
            self.written = 0;
        }
        Ok(())
    }

    /// When something must be done if nothing is read or written until then.
    fn deadline(&self) -> Instant {
        let read = match self.probed {
            None => after(self.last_read, self.probe_interval),
            Some(probed) => after(probed, self.probe_timeout),
        };
        if self.unsent() > 0 { read.min(self.write_deadline()) } else { read }
    }

    fn write_deadline(&self) -> Instant {
        after(after(self.last_write, self.probe_interval), self.probe_timeout)
    }

    fn time_passed(&mut self) -> Result<(), ConnectionError> {
        let now = Instant::now();
        if self.unsent() > 0 && now >= self.write_deadline() {
            return Err(ConnectionError::NotReading { seconds: (now - self.last_write).as_secs_f64() });
        }
        match self.probed {
            None if now >= after(self.last_read, self.probe_interval) => {
                self.probed = Some(now);
                self.send(&json!({"id": PROBE_ID, "method": "echo", "params": []}));
                Ok(())
            }
            Some(probed) if now >= after(probed, self.probe_timeout) => Err(ConnectionError::Silent {
                seconds: (now - self.last_read).as_secs_f64(),
                mid_message: self.decoder.is_mid_message(),
            }),
            _ => Ok(()),
        }
    }

    /// What a message is; requests and echo replies are dealt with here.
    fn classify(&mut self, mut message: Value) -> Result<Option<Incoming>, ConnectionError> {
        let (id, params) = (message["id"].take(), message["params"].take());
        match message["method"].take() {
            Value::String(method) if id.is_null() => Ok(Some(Incoming::Notification { method, params })),
            Value::String(method) if method == "echo" => {
                self.send(&json!({"id": id, "result": params, "error": null}));
                Ok(None)
            }
            Value::String(method) => {
                tracing::warn!(method, "the server sent a request that clients do not serve");
                self.send(&json!({"id": id, "result": null, "error": "unknown method"}));
                Ok(None)
            }
            Value::Null if id == PROBE_ID => Ok(None),
            Value::Null => match id.as_u64() {
                Some(id) => {
                    let (result, error) = (message["result"].take(), message["error"].take());
                    Ok(Some(Incoming::Reply { id, result, error }))
                }
                None => Err(unasked(&id)),
            },
            method => Err(protocol(format!("a method is {}", shorten(&method.to_string())))),
        }
    }
}

/// `instant + duration`, however long a caller says "never" is; at most thirty years hence.
pub(crate) fn after(instant: Instant, duration: Duration) -> Instant {
    const FAR: Duration = Duration::from_hours(30 * 365 * 24);
    instant + duration.min(FAR)
}

/// The error for a reply to what was never asked. Going on would leave the true request waiting for ever.
pub(crate) fn unasked(id: &Value) -> ConnectionError {
    protocol(format!("a reply with id {} answers no request of ours", shorten(&id.to_string())))
}

pub(crate) fn protocol(problem: String) -> ConnectionError {
    ConnectionError::Protocol { problem }
}
