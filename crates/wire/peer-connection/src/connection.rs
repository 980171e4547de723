//! One connection: whole messages over a byte stream, reading and writing at the same time.
//!
//! Every wait has a deadline. A silent peer is probed with an echo request and disconnected if it does not answer. A
//! peer that takes no bytes, or that does not complete a message in time, is disconnected too. Writing never blocks
//! reading. Otherwise, a peer that answers a long request before it has read all of it would wait for this side to
//! read, while this side waits for the peer.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::BytesMut;
use tokio::time::Instant;
use tokio_util::codec::{Decoder, Encoder};

use crate::after;
use crate::dial::Dial;
use crate::endpoint::Endpoint;
use crate::framing::Framing;
use crate::memory::{Account, OverBudget};
use crate::timed_stream::TimedStream;

/// The time within which a runtime with enough CPU time reports the bytes that wait in a socket.
pub(crate) const GRACE: Duration = Duration::from_millis(200);

/// A protocol: its codec and its echo messages.
///
/// The decoder must consume bytes that are not part of a message, such as white space between two. Its `decode_eof`
/// must leave a partial message in the buffer and return `None`, so that the connection can report it.
pub trait Protocol:
    Decoder<Error = ConnectionError<<Self as Protocol>::Malformed>>
    + Encoder<<Self as Protocol>::Outgoing, Error = io::Error>
{
    /// A message to send.
    type Outgoing;
    /// The error for bytes that are not a message of the protocol.
    type Malformed: std::error::Error + 'static;
    /// The name of the peer in error messages, such as "the switch".
    const PEER: &'static str;
    /// How an operator gets a peer to dial in, as the end of a sentence.
    const DIAL_IN: &'static str;

    /// The probe of an idle connection.
    fn echo_request(&self) -> Self::Outgoing;

    /// Separates the messages that the connection handles from the messages for its owner.
    fn classify(&self, message: Self::Item) -> Received<Self::Item, Self::Outgoing>;
}

/// A received message, by its handler.
#[derive(Debug)]
pub enum Received<Message, Outgoing> {
    /// The owner of the connection handles it.
    Message(Message),
    /// A request that the connection answers by itself, such as an echo request.
    Request {
        /// The answer.
        answer: Outgoing,
    },
    /// The answer to a probe. Any received byte counts as a sign of life too.
    EchoReply,
}

/// The time limits of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// The peer is probed after this time without a sign of life: a byte from the peer, or a byte that it takes after
    /// its buffers were full.
    pub probe_interval: Duration,
    /// The longest time without a sign of life after a probe. A peer that has stopped is disconnected after
    /// `probe_interval` and `probe_timeout` together.
    pub probe_timeout: Duration,
    /// The longest time in which the peer takes none of the bytes sent to it.
    pub write_timeout: Duration,
    /// The longest time from the first byte of a message to its last. `None` sets no limit.
    pub message_timeout: Option<Duration>,
}

/// The reason why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError<E: std::error::Error + 'static> {
    /// Dialling failed.
    #[error("cannot connect: {0}")]
    Connect(#[source] io::Error),
    /// Dialling took too long.
    #[error("cannot connect within {seconds:.1} s")]
    ConnectTimeout {
        /// The limit.
        seconds: f64,
    },
    /// A peer that dials in has not done so.
    #[error("{peer} has not dialled in; {remedy}")]
    NotDialledIn {
        /// The name of the peer.
        peer: &'static str,
        /// How to get it to.
        remedy: &'static str,
    },
    /// The stream failed.
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
    /// The peer closed the connection.
    #[error("{peer} closed the connection{partial}")]
    Closed {
        /// The name of the peer.
        peer: &'static str,
        /// The message that was cut off.
        partial: Partial,
    },
    /// The peer sent nothing, not even an answer to a probe.
    #[error("{peer} sent nothing for {seconds:.1} s{partial} and did not answer an echo request")]
    Silent {
        /// The name of the peer.
        peer: &'static str,
        /// The time since its last byte.
        seconds: f64,
        /// The message that was not completed.
        partial: Partial,
    },
    /// The peer did not complete a message in time.
    #[error("{peer} stalled{partial} for {seconds:.1} s")]
    Stalled {
        /// The name of the peer.
        peer: &'static str,
        /// The time since the first byte of the message.
        seconds: f64,
        /// The message.
        partial: Partial,
    },
    /// The peer does not read.
    #[error("{peer} took none of the {unsent} bytes sent to it for {seconds:.1} s")]
    NotReading {
        /// The name of the peer.
        peer: &'static str,
        /// The bytes that it has not taken.
        unsent: usize,
        /// The time since it took the last byte.
        seconds: f64,
    },
    /// The peer makes its owner hold too much memory.
    #[error(transparent)]
    OverBudget(OverBudget),
    /// The peer sent bytes that are not a message of the protocol.
    #[error(transparent)]
    Malformed(E),
}

/// The result of an operation on a connection of protocol `P`.
pub type ConnectionResult<T, P> = Result<T, ConnectionError<<P as Protocol>::Malformed>>;

/// The received part of an incomplete message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partial {
    /// The number of bytes; 0 between messages.
    pub received: usize,
}

impl fmt::Display for Partial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.received {
            0 => Ok(()),
            received => write!(f, " in the middle of a message ({received} bytes of it received)"),
        }
    }
}

/// The echo requests of a connection. A peer that answers in order has lost the reply to a request if it has answered a probe that was
/// sent after it, but not the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Probes {
    /// The number of probes sent.
    pub sent: u64,
    /// The number of probes answered.
    pub answered: u64,
}

/// A connection. Nothing is sent or received unless [`step`](Self::step) or [`receive`](Self::receive) is polled.
pub struct Connection<P> {
    framed: Framing<P>,
    account: Account,
    timeouts: Timeouts,
    /// Bytes may wait in the write buffer or in the stream.
    needs_flush: bool,
    /// The arrival of the first byte of the incomplete message in the read buffer.
    message_began: Option<Instant>,
    /// The time of the last probe.
    probed: Option<Instant>,
    probes: Probes,
    /// The next deadline, and the time at which it counts as missed: see [`timer`](Self::timer).
    verdict: Option<(Instant, Instant)>,
}

impl<P> fmt::Debug for Connection<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("timeouts", &self.timeouts).finish_non_exhaustive()
    }
}

impl<P: Protocol> Connection<P> {
    /// Dials an endpoint, or waits for a peer that dials in. What the peer makes this side hold is charged to `account`.
    pub async fn open(
        dialler: &dyn Dial,
        endpoint: &Endpoint,
        deadline: Instant,
        protocol: P,
        timeouts: Timeouts,
        account: Account,
    ) -> ConnectionResult<Self, P> {
        let limit = deadline - Instant::now();
        match tokio::time::timeout_at(deadline, dialler.dial(endpoint)).await {
            Ok(Ok(stream)) => Ok(Connection {
                framed: Framing::new(TimedStream::new(stream), protocol, &account),
                account,
                timeouts,
                needs_flush: false,
                message_began: None,
                probed: None,
                probes: Probes::default(),
                verdict: None,
            }),
            Ok(Err(error)) => Err(ConnectionError::Connect(error)),
            Err(_) if matches!(endpoint, Endpoint::DialIn { .. }) => {
                Err(ConnectionError::NotDialledIn { peer: P::PEER, remedy: P::DIAL_IN })
            }
            Err(_) => Err(ConnectionError::ConnectTimeout { seconds: limit.as_secs_f64() }),
        }
    }

    /// The codec, whose state a handshake may change.
    pub fn protocol_mut(&mut self) -> &mut P {
        &mut self.framed.protocol
    }

    /// The account that the peer's memory is charged to.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Queues a message. The queue has no limit; see [`unsent`](Self::unsent).
    pub fn send(&mut self, message: P::Outgoing) -> ConnectionResult<(), P> {
        self.about_to_write();
        // The owner bounds the write buffer.
        Ok(self.framed.protocol.encode(message, &mut self.framed.write)?)
    }

    /// The write buffer, for callers that encode many messages in place.
    pub fn write_buffer(&mut self) -> &mut BytesMut {
        self.about_to_write();
        &mut self.framed.write
    }

    /// The bytes that the peer has not taken yet.
    pub fn unsent(&self) -> usize {
        self.framed.write.len()
    }

    /// The bytes that its buffers take: none while it waits between messages.
    pub fn buffer_bytes(&self) -> usize {
        self.framed.capacity()
    }

    /// The probes so far.
    pub fn probes(&self) -> Probes {
        self.probes
    }

    /// Sends a probe, whether or not the peer is silent.
    pub fn probe(&mut self) -> ConnectionResult<(), P> {
        self.probes.sent += 1;
        let probe = self.framed.protocol.echo_request();
        self.send(probe)
    }

    /// The next message. Cancel safe.
    pub async fn receive(&mut self) -> ConnectionResult<P::Item, P> {
        loop {
            if let Some(message) = self.step().await? {
                return Ok(message);
            }
        }
    }

    /// The next message, or `None` once the peer has taken bytes or answered a probe. Cancel safe.
    pub async fn step(&mut self) -> ConnectionResult<Option<P::Item>, P> {
        let account = self.account.clone();
        loop {
            let timer = self.timer();
            let progress = tokio::select! {
                // A message that has arrived counts even if its deadline has passed meanwhile.
                biased;
                over = account.over() => return Err(ConnectionError::OverBudget(over)),
                progress = poll_fn(|cx| self.poll_progress(cx)) => progress?,
                () = tokio::time::sleep_until(timer) => {
                    self.timer_fired()?;
                    continue;
                }
            };
            let Some(message) = progress else { return Ok(None) };
            match self.framed.protocol.classify(message) {
                Received::Message(message) => return Ok(Some(message)),
                Received::Request { answer } => self.send(answer)?,
                Received::EchoReply => {
                    // More answers than probes are no answers.
                    self.probes.answered = self.probes.sent.min(self.probes.answered + 1);
                    return Ok(None);
                }
            }
        }
    }

    /// Reads and writes. Both happen on each call, so that neither direction starves.
    fn poll_progress(&mut self, cx: &mut Context<'_>) -> Poll<ConnectionResult<Option<P::Item>, P>> {
        let received = self.poll_receive(cx);
        let sent = self.poll_send(cx);
        match (received, sent) {
            // A send error appears again on the next call, after the peer's remaining messages.
            (Poll::Ready(received), _) => Poll::Ready(received.map(Some)),
            (Poll::Pending, Err(error)) => Poll::Ready(Err(error)),
            (Poll::Pending, Ok(true)) => Poll::Ready(Ok(None)),
            (Poll::Pending, Ok(false)) => Poll::Pending,
        }
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<ConnectionResult<P::Item, P>> {
        let polled = self.framed.poll_next(cx);
        if self.framed.received() == 0 {
            self.message_began = None;
        } else if polled.is_ready() {
            self.message_began = Some(Instant::now());
        } else {
            self.message_began.get_or_insert_with(Instant::now);
        }
        polled.map(|message| match message {
            Some(message) => message.map_err(|error| self.broken(error)),
            None => Err(self.closed()),
        })
    }

    /// Writes as much as the peer takes. Returns whether it took any bytes.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> ConnectionResult<bool, P> {
        if !self.needs_flush {
            return Ok(false);
        }
        let before = self.unsent();
        match self.framed.poll_flush(cx) {
            Poll::Ready(Ok(())) => self.needs_flush = false,
            Poll::Ready(Err(error)) => return Err(self.broken(error.into())),
            Poll::Pending => {}
        }
        Ok(self.unsent() < before)
    }

    fn about_to_write(&mut self) {
        if self.unsent() == 0 {
            self.framed.stream.last_write = Instant::now();
        }
        self.needs_flush = true;
    }

    fn closed(&self) -> ConnectionError<P::Malformed> {
        ConnectionError::Closed { peer: P::PEER, partial: self.partial() }
    }

    /// Turns the errors that follow when a peer closes the connection with bytes in flight into `Closed`.
    fn broken(&self, error: ConnectionError<P::Malformed>) -> ConnectionError<P::Malformed> {
        match &error {
            ConnectionError::Io(io)
                if matches!(io.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) =>
            {
                self.closed()
            }
            _ => error,
        }
    }

    fn partial(&self) -> Partial {
        Partial { received: self.framed.received() }
    }

    fn unanswered_probe(&self) -> Option<Instant> {
        self.probed.filter(|probed| self.framed.stream.last_read < *probed)
    }

    fn silence_deadline(&self) -> Instant {
        let stream = &self.framed.stream;
        match self.unanswered_probe() {
            // The peer answers a probe after the bytes queued before it, so the deadline moves while the peer takes
            // bytes.
            Some(probed) => after(probed.max(stream.last_drain), self.timeouts.probe_timeout),
            None => after(stream.last_read.max(stream.last_drain), self.timeouts.probe_interval),
        }
    }

    fn write_deadline(&self) -> Option<Instant> {
        (self.unsent() > 0).then(|| after(self.framed.stream.last_write, self.timeouts.write_timeout))
    }

    fn message_deadline(&self) -> Option<Instant> {
        Some(after(self.message_began?, self.timeouts.message_timeout?))
    }

    /// The earliest deadline, assuming that nothing is received or sent until then.
    fn deadline(&self) -> Instant {
        let deadlines = [Some(self.silence_deadline()), self.write_deadline(), self.message_deadline()];
        let first = deadlines.into_iter().flatten().min();
        first.unwrap_or_else(|| after(Instant::now(), Duration::MAX))
    }

    /// The time of the next check of the deadlines, assuming that nothing is received or sent until then.
    ///
    /// While the task is starved, a deadline can pass although bytes of the peer wait in the socket, and the runtime
    /// may fire the timer before it reports the bytes. A deadline therefore counts as missed only if the task ran
    /// shortly before it. The task wakes up once before each deadline; if it wakes up too late, it allows a short
    /// extra time.
    fn timer(&mut self) -> Instant {
        let (now, deadline) = (Instant::now(), self.deadline());
        if let Some(before) = deadline.checked_sub(GRACE).filter(|before| now < *before) {
            self.verdict = None;
            return before;
        }
        let due = match self.verdict {
            Some((same, due)) if same == deadline => due,
            _ if now <= deadline => deadline,
            _ => now + GRACE,
        };
        self.verdict = Some((deadline, due));
        due
    }

    fn timer_fired(&mut self) -> ConnectionResult<(), P> {
        match self.verdict.take() {
            // A timer that fires late shows that the task was starved again.
            Some((_, due)) if Instant::now() <= due + GRACE => self.check_deadlines(),
            _ => Ok(()),
        }
    }

    /// Disconnects the peer, or probes it, if a deadline was missed.
    fn check_deadlines(&mut self) -> ConnectionResult<(), P> {
        let now = Instant::now();
        let passed = |deadline: Option<Instant>| deadline.is_some_and(|deadline| now >= deadline);
        let peer = P::PEER;
        if let Some(began) = self.message_began
            && passed(self.message_deadline())
        {
            let seconds = (now - began).as_secs_f64();
            return Err(ConnectionError::Stalled { peer, seconds, partial: self.partial() });
        }
        if passed(self.write_deadline()) {
            let seconds = (now - self.framed.stream.last_write).as_secs_f64();
            return Err(ConnectionError::NotReading { peer, unsent: self.unsent(), seconds });
        }
        if passed(Some(self.silence_deadline())) {
            if self.unanswered_probe().is_some() {
                let seconds = (now - self.framed.stream.last_read).as_secs_f64();
                return Err(ConnectionError::Silent { peer, seconds, partial: self.partial() });
            }
            self.probed = Some(now);
            self.probe()?;
        }
        Ok(())
    }
}
