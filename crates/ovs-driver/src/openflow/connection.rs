//! One OpenFlow connection: whole messages over a byte stream, reading and writing at once.
//!
//! Every wait here ends. A peer that is silent is probed with an echo request and given up if it does not answer;
//! so is one that takes no bytes, or that does not complete a message it has begun. Writing never keeps from
//! reading: a switch that answers a long bundle with errors would else wait for us while we wait for it.

use std::fmt;
use std::io;
use std::time::Duration;

use ovsdb_client::Endpoint;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::Instant;

use super::wire::{HEADER_LEN, Header, kind};
use crate::config::Timing;

/// Bytes read at once.
const READ_SIZE: usize = 64 << 10;

/// With fewer bytes than this to be sent, more are prepared.
const AHEAD_MIN: usize = 256 << 10;

/// Why there is no connection, or no more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionError {
    #[error("cannot connect: {0}")]
    Connect(#[source] io::Error),
    #[error("cannot connect within {0:?}")]
    ConnectTimeout(Duration),
    #[error("the connection broke: {0}")]
    Io(#[from] io::Error),
    #[error("the switch closed the connection{0}")]
    Closed(Unfinished),
    #[error("the switch sent nothing for {seconds:.1} s{unfinished}, not even an answer to an echo request")]
    Silent { seconds: f64, unfinished: Unfinished },
    #[error("the switch stalled{unfinished} for {seconds:.1} s")]
    Stalled { seconds: f64, unfinished: Unfinished },
    #[error("the switch took none of {unsent} bytes for {seconds:.1} s")]
    NotReading { unsent: usize, seconds: f64 },
    #[error("the switch did not complete hello and features within {seconds:.1} s")]
    NoGreeting { seconds: f64 },
    #[error("no answer to {request} within {seconds:.1} s, although the switch answers echo requests")]
    NoAnswer { request: &'static str, seconds: f64 },
    #[error("the switch sent what is no OpenFlow 1.5: {problem} (bytes {bytes})")]
    Garbage { problem: String, bytes: Shown },
    #[error(
        "the switch does not speak OpenFlow 1.5 (0x06) but {theirs}; set the bridge's protocols to OpenFlow15"
    )]
    Version { theirs: String },
    #[error("the switch answered {request} with an error: {error}")]
    Refused { request: &'static str, error: String },
    #[error("the switch has more than {max} flows; that is more than the driver reads")]
    TooManyFlows { max: usize },
}

/// How much of a message was there when nothing more came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unfinished {
    received: usize,
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.received {
            0 => Ok(()),
            received => write!(f, " in the middle of a message ({received} bytes of it came)"),
        }
    }
}

/// The first bytes of something, in hexadecimal.
#[derive(Debug)]
pub(crate) struct Shown(Vec<u8>);

impl Shown {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        Shown(bytes[..bytes.len().min(16)].to_vec())
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A whole message, header included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) header: Header,
    pub(crate) bytes: Vec<u8>,
}

impl Frame {
    pub(crate) fn body(&self) -> &[u8] {
        &self.bytes[HEADER_LEN..]
    }
}

/// A connection. Nothing happens unless [`step`](Self::step) is polled.
pub(crate) struct Connection {
    reader: Box<dyn AsyncRead + Send + Unpin>,
    writer: Box<dyn AsyncWrite + Send + Unpin>,
    incoming: Vec<u8>,
    /// How much of `incoming` was taken.
    taken: usize,
    outgoing: Vec<u8>,
    /// How much of `outgoing` was written.
    written: usize,
    next_xid: u32,
    /// Hello has not come yet: any version is accepted.
    greeting: bool,
    last_read: Instant,
    last_write: Instant,
    /// When the unfinished message at the end of `incoming` began.
    message_began: Instant,
    probed: Option<Instant>,
    /// A request is under way, which has a limit of its own: a switch that commits a large bundle answers no probe.
    busy: bool,
    timing: Timing,
}

impl Connection {
    pub(crate) async fn open(endpoint: &Endpoint, timing: &Timing) -> Result<Self, ConnectionError> {
        let limit = timing.handshake_max;
        match tokio::time::timeout(limit, dial(endpoint)).await {
            Ok(Ok((reader, writer))) => Ok(Connection::new(reader, writer, timing)),
            Ok(Err(error)) => Err(ConnectionError::Connect(error)),
            Err(_) => Err(ConnectionError::ConnectTimeout(limit)),
        }
    }

    fn new(
        reader: Box<dyn AsyncRead + Send + Unpin>,
        writer: Box<dyn AsyncWrite + Send + Unpin>,
        timing: &Timing,
    ) -> Self {
        let now = Instant::now();
        Connection {
            reader,
            writer,
            incoming: Vec::new(),
            taken: 0,
            outgoing: Vec::new(),
            written: 0,
            next_xid: 1,
            greeting: true,
            last_read: now,
            last_write: now,
            message_began: now,
            probed: None,
            busy: false,
            timing: timing.clone(),
        }
    }

    /// A transaction id that no message of this connection has, followed by `more` others that are free too.
    pub(crate) fn xids(&mut self, more: u32) -> u32 {
        // 0 is the id of what nobody asked for.
        if self.next_xid.checked_add(more).and_then(|last| last.checked_add(1)).is_none() {
            self.next_xid = 1;
        }
        let xid = self.next_xid;
        self.next_xid += more + 1;
        xid
    }

    /// Where to append messages that shall be sent.
    pub(crate) fn outgoing(&mut self) -> &mut Vec<u8> {
        if self.written == self.outgoing.len() {
            self.outgoing.clear();
            self.written = 0;
            self.last_write = Instant::now();
        } else if self.written >= READ_SIZE {
            self.outgoing.drain(..self.written);
            self.written = 0;
        }
        &mut self.outgoing
    }

    /// Bytes that the switch has not taken yet.
    pub(crate) fn unsent(&self) -> usize {
        self.outgoing.len() - self.written
    }

    /// From now on every message must be of version 1.5.
    pub(crate) fn greeted(&mut self) {
        self.greeting = false;
    }

    /// One step of input or output: `Some` message, or `None` when bytes went out. Cancelling it loses nothing.
    pub(crate) async fn step(&mut self) -> Result<Option<Frame>, ConnectionError> {
        loop {
            if let Some(frame) = self.next_frame()? {
                match frame.header.kind {
                    kind::ECHO_REQUEST if !self.greeting => self.answer(&frame),
                    kind::ECHO_REPLY if !self.greeting => {}
                    _ => return Ok(Some(frame)),
                }
                continue;
            }
            if self.incoming.capacity() - self.incoming.len() < READ_SIZE {
                self.incoming.reserve(READ_SIZE);
            }
            let deadline = self.deadline();
            let unsent = self.written < self.outgoing.len();
            tokio::select! {
                read = self.reader.read_buf(&mut self.incoming) => {
                    let had = self.incoming.len() - self.taken;
                    match read? {
                        0 => return Err(ConnectionError::Closed(self.unfinished())),
                        new => self.read(had - new),
                    }
                }
                written = self.writer.write(&self.outgoing[self.written..]), if unsent => {
                    self.written += written?;
                    self.last_write = Instant::now();
                    return Ok(None);
                }
                () = tokio::time::sleep_until(deadline) => self.time_passed()?,
            }
        }
    }

    /// Waits for the answer that `wanted` finds in a message; `request` names what it answers.
    pub(crate) async fn wait_for<T>(
        &mut self,
        request: &'static str,
        wanted: impl FnMut(Frame) -> Result<Option<T>, ConnectionError>,
    ) -> Result<T, ConnectionError> {
        self.converse(request, |_| {}, wanted).await
    }

    /// As [`wait_for`](Self::wait_for), and sends what `feed` appends whenever little is left to be sent.
    pub(crate) async fn converse<T>(
        &mut self,
        request: &'static str,
        mut feed: impl FnMut(&mut Vec<u8>),
        mut wanted: impl FnMut(Frame) -> Result<Option<T>, ConnectionError>,
    ) -> Result<T, ConnectionError> {
        self.busy = true;
        let limit = self.timing.request_max;
        let mut progress = Instant::now();
        loop {
            if self.unsent() < AHEAD_MIN {
                feed(self.outgoing());
            }
            let Ok(step) = tokio::time::timeout_at(progress + limit, self.step()).await else {
                return Err(match self.probed {
                    Some(_) => self.silent(),
                    None => ConnectionError::NoAnswer { request, seconds: limit.as_secs_f64() },
                });
            };
            if let Some(frame) = step?
                && let Some(answer) = wanted(frame)?
            {
                self.busy = false;
                return Ok(answer);
            }
            progress = Instant::now();
        }
    }

    fn silent(&self) -> ConnectionError {
        let seconds = self.last_read.elapsed().as_secs_f64();
        ConnectionError::Silent { seconds, unfinished: self.unfinished() }
    }

    fn read(&mut self, had: usize) {
        self.last_read = Instant::now();
        self.probed = None;
        if had == 0 {
            self.message_began = self.last_read;
        }
    }

    fn next_frame(&mut self) -> Result<Option<Frame>, ConnectionError> {
        let rest = &self.incoming[self.taken..];
        let Some(header) = Header::read(rest) else {
            self.compact();
            return Ok(None);
        };
        let problem = match header.version {
            _ if usize::from(header.length) < HEADER_LEN => format!("a message of length {}", header.length),
            _ if self.greeting => String::new(),
            super::wire::VERSION => String::new(),
            other => format!("a message of version {other:#04x}"),
        };
        if !problem.is_empty() {
            return Err(ConnectionError::Garbage { problem, bytes: Shown::new(rest) });
        }
        let length = usize::from(header.length);
        if rest.len() < length {
            self.compact();
            return Ok(None);
        }
        let frame = Frame { header, bytes: rest[..length].to_vec() };
        self.taken += length;
        self.message_began = Instant::now();
        Ok(Some(frame))
    }

    /// Moves the unfinished message to the front, so that the buffer does not grow.
    fn compact(&mut self) {
        if self.taken > 0 {
            self.incoming.drain(..self.taken);
            self.taken = 0;
        }
    }

    fn answer(&mut self, request: &Frame) {
        let mut reply = request.bytes.clone();
        reply[1] = kind::ECHO_REPLY;
        self.outgoing().extend_from_slice(&reply);
    }

    fn unfinished(&self) -> Unfinished {
        Unfinished { received: self.incoming.len() - self.taken }
    }

    /// When to look whether the peer has stalled.
    fn deadline(&self) -> Instant {
        let Timing { probe_after, stall_max, .. } = self.timing;
        let mut deadline = match self.probed {
            // The limit of the request ends this.
            Some(probed) if self.busy => probed.max(Instant::now()) + stall_max,
            Some(probed) => probed + stall_max,
            None => self.last_read + probe_after,
        };
        if self.unsent() > 0 {
            deadline = deadline.min(self.last_write + stall_max);
        }
        if self.unfinished().received > 0 {
            deadline = deadline.min(self.message_began + stall_max);
        }
        deadline
    }

    fn time_passed(&mut self) -> Result<(), ConnectionError> {
        let now = Instant::now();
        let Timing { probe_after, stall_max, .. } = self.timing;
        let unfinished = self.unfinished();
        if unfinished.received > 0 && now >= self.message_began + stall_max {
            let seconds = (now - self.message_began).as_secs_f64();
            return Err(ConnectionError::Stalled { seconds, unfinished });
        }
        if self.unsent() > 0 && now >= self.last_write + stall_max {
            let seconds = (now - self.last_write).as_secs_f64();
            return Err(ConnectionError::NotReading { unsent: self.unsent(), seconds });
        }
        match self.probed {
            Some(probed) if !self.busy && now >= probed + stall_max => Err(self.silent()),
            None if now >= self.last_read + probe_after => {
                self.probed = Some(now);
                let xid = self.xids(0);
                Header::new(kind::ECHO_REQUEST, xid).put(self.outgoing(), &[]);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

type Halves = (Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>);

async fn dial(endpoint: &Endpoint) -> io::Result<Halves> {
    match endpoint {
        Endpoint::Unix(path) => {
            let (reader, writer) = UnixStream::connect(path).await?.into_split();
            Ok((Box::new(reader), Box::new(writer)))
        }
        Endpoint::Tcp { host, port } => {
            let stream = TcpStream::connect((host.as_str(), *port)).await?;
            // A bundle's last bytes must not wait for an acknowledgement.
            stream.set_nodelay(true)?;
            let (reader, writer) = stream.into_split();
            Ok((Box::new(reader), Box::new(writer)))
        }
    }
}
