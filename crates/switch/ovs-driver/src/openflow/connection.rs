//! One OpenFlow connection: requests with transaction ids, each with a deadline.

use std::time::Duration;

use bytes::BytesMut;
use openflow_rs::{Body, Message};
use peer_connection::{
    Account, Connection, ConnectionError, Dial, Endpoint, OverBudget, PeerMemory, Timeouts,
};
use tokio::time::Instant;

use crate::config::Timing;
use openflow_connection::{Frame, Malformed, OpenFlowCodec, PROBE_XID};

/// While fewer bytes than this are queued, more are prepared.
const AHEAD_MIN: usize = 256 << 10;

/// A whole request may take so many times as long as one without progress.
const WHOLE: u32 = 10;

/// Why there is no OpenFlow session.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionError {
    #[error(transparent)]
    Connection(#[from] ConnectionError<Malformed>),
    #[error("the switch did not complete hello and features within {seconds:.1} s")]
    HandshakeTimeout { seconds: f64 },
    #[error("the switch answers echo requests, but did not answer {request} within {seconds:.1} s")]
    NoAnswer { request: &'static str, seconds: f64 },
    #[error(
        "the switch has answered an echo request that was sent after {request}, but not {request}: the answer is lost on the way; \
         connecting again to read the switch"
    )]
    LostAnswer { request: &'static str },
    #[error(
        "the switch does not speak OpenFlow 1.5 (0x06) but {theirs}; add OpenFlow15 to the bridge's protocols"
    )]
    Version { theirs: String },
    #[error("the switch answered {request} with an error: {error}")]
    Refused { request: &'static str, error: String },
    #[error(
        "answers as the bridge with datapath id {openflow:016x}, but {bridge} in the database at {ovsdb} has datapath id \
         {database:016x}; nothing is sent to either: correct `openflow` or `ovsdb` of this transport node, so that both \
         lead to the same switch"
    )]
    OtherBridge { bridge: String, ovsdb: String, database: u64, openflow: u64 },
    #[error("{why}")]
    Withheld { why: String },
    #[error(
        "another controller has become the primary one of the switch; nothing is sent to it any more. Two controllers manage this \
         switch: stop one of them"
    )]
    Demoted,
    #[error(
        "another controller is the primary one of the switch, with a later generation than {epoch}; nothing is sent to it. Two \
         controllers manage this switch, or did: stop the other one and start this one again"
    )]
    Superseded { epoch: u64 },
    #[error("the datapath id of the bridge has changed in the database; connecting again to compare it")]
    NewDatapathId,
    #[error("the switch has not finished {request} after {seconds:.0} s; it makes progress too slowly")]
    TooSlow { request: &'static str, seconds: f64 },
    #[error("the switch describes more than {max} {what}, the most that the driver reads")]
    TooMany { what: &'static str, max: usize },
    #[error("the switch has sent more than {max} empty parts of {request}")]
    EmptyParts { request: &'static str, max: usize },
}

impl From<OverBudget> for SessionError {
    fn from(over: OverBudget) -> Self {
        ConnectionError::OverBudget(over).into()
    }
}

impl SessionError {
    /// Whether the switch sent more than any Open vSwitch does. It would do so again at once.
    pub(crate) fn breaks_limits(&self) -> bool {
        matches!(
            self,
            SessionError::TooMany { .. }
                | SessionError::EmptyParts { .. }
                | SessionError::Connection(ConnectionError::OverBudget(_))
        )
    }
}

impl From<Malformed> for SessionError {
    fn from(malformed: Malformed) -> Self {
        ConnectionError::Malformed(malformed).into()
    }
}

/// A connection. It makes progress only while [`step`](Self::step) or [`exchange`](Self::exchange) is polled.
pub(crate) struct OpenFlowConnection {
    connection: Connection<OpenFlowCodec>,
    next_xid: u32,
    request_max: Duration,
    probe_after: Duration,
}

impl OpenFlowConnection {
    pub(crate) async fn open(
        dialler: &dyn Dial,
        endpoint: &Endpoint,
        timing: &Timing,
        memory: &PeerMemory,
    ) -> Result<Self, SessionError> {
        let timeouts = Timeouts {
            probe_interval: timing.probe_after,
            probe_timeout: timing.probe_timeout(),
            write_timeout: timing.stall_max,
            message_timeout: Some(timing.stall_max),
        };
        let deadline = peer_connection::after(Instant::now(), timing.handshake_max);
        let (codec, account) = (OpenFlowCodec::negotiating(), memory.account());
        let connection = Connection::open(dialler, endpoint, deadline, codec, timeouts, account).await?;
        let Timing { request_max, probe_after, .. } = *timing;
        Ok(OpenFlowConnection { connection, next_xid: 1, request_max, probe_after })
    }

    /// What the switch makes the driver hold is charged to this account.
    pub(crate) fn account(&self) -> &Account {
        self.connection.account()
    }

    /// From now on every message must have version 1.5.
    pub(crate) fn negotiated(&mut self) {
        self.connection.protocol_mut().negotiated();
    }

    /// An unused transaction id, followed by `more` unused ones.
    pub(crate) fn xids(&mut self, more: u32) -> u32 {
        // Id 0 is for unsolicited messages, the last id for probes.
        if self.next_xid.checked_add(more).is_none_or(|last| last == PROBE_XID) {
            self.next_xid = 1;
        }
        let xid = self.next_xid;
        self.next_xid += more + 1;
        xid
    }

    /// Queues a message and returns its transaction id.
    pub(crate) fn send(&mut self, body: Body) -> Result<u32, SessionError> {
        let xid = self.xids(0);
        self.connection.send(Message { xid, body })?;
        Ok(xid)
    }

    /// The buffer for messages that are encoded in place.
    pub(crate) fn write_buffer(&mut self) -> &mut BytesMut {
        self.connection.write_buffer()
    }

    /// The next message, or `None` once the switch has taken bytes. Dropping the future loses nothing.
    pub(crate) async fn step(&mut self) -> Result<Option<Frame>, SessionError> {
        Ok(self.connection.step().await?)
    }

    /// Waits for the message in which `wanted` finds the answer. Errors use `request` as the name of the request.
    pub(crate) async fn wait_for<T>(
        &mut self,
        request: &'static str,
        wanted: impl FnMut(Frame) -> Result<Option<T>, SessionError>,
    ) -> Result<T, SessionError> {
        self.exchange(request, |_| true, wanted).await
    }

    /// Like [`wait_for`](Self::wait_for), and sends what `feed` appends whenever little is queued, until it returns that the request
    /// is complete.
    ///
    /// A switch answers the messages of a connection in order. So the answer to an echo request that was sent after the request
    /// shows that the answer to the request is lost.
    pub(crate) async fn exchange<T>(
        &mut self,
        request: &'static str,
        mut feed: impl FnMut(&mut BytesMut) -> bool,
        mut wanted: impl FnMut(Frame) -> Result<Option<T>, SessionError>,
    ) -> Result<T, SessionError> {
        let (limit, whole_limit) = (self.request_max, self.request_max.saturating_mul(WHOLE));
        let mut progress = Instant::now();
        let whole = peer_connection::after(progress, whole_limit);
        let mut probing = None;
        loop {
            if probing.is_none()
                && self.connection.unsent() < AHEAD_MIN
                && feed(self.connection.write_buffer())
            {
                probing = Some(Probing {
                    sent_before: self.connection.probes().sent,
                    at: peer_connection::after(Instant::now(), self.probe_after),
                });
            }
            let deadline = peer_connection::after(progress, limit).min(whole);
            // Bytes of the request, not of a probe.
            let unsent = self.connection.unsent() > 0;
            let before = self.connection.probes();
            let step = self.step_until(deadline, probing).await?;
            // What is there in time does not help for ever.
            if Instant::now() >= whole {
                return Err(SessionError::TooSlow { request, seconds: whole_limit.as_secs_f64() });
            }
            let answered = self.connection.probes().answered;
            match step {
                Step::Message(frame) => {
                    if let Some(answer) = wanted(frame)? {
                        return Ok(answer);
                    }
                }
                Step::Late => return Err(SessionError::NoAnswer { request, seconds: limit.as_secs_f64() }),
                Step::Other if probing.is_some_and(|probing| answered > probing.sent_before) => {
                    return Err(SessionError::LostAnswer { request });
                }
                Step::Other if unsent && answered == before.answered => {}
                Step::Other => continue,
            }
            progress = Instant::now();
        }
    }

    /// One step of an exchange. Sends a probe when its time has come.
    async fn step_until(
        &mut self,
        deadline: Instant,
        probing: Option<Probing>,
    ) -> Result<Step, SessionError> {
        let is_due = |sent: u64| probing.filter(|probing| probing.sent_before == sent);
        if let Some(probing) = is_due(self.connection.probes().sent).filter(|probing| probing.at < deadline) {
            if let Some(step) = peer_connection::within(probing.at, self.connection.step()).await {
                return Ok(step?.map_or(Step::Other, Step::Message));
            }
            // The connection itself probes a silent switch.
            if is_due(self.connection.probes().sent).is_some() {
                self.connection.probe()?;
            }
        }
        match peer_connection::within(deadline, self.connection.step()).await {
            Some(step) => Ok(step?.map_or(Step::Other, Step::Message)),
            None => Ok(Step::Late),
        }
    }
}

/// The probe that shows whether the answer to a request is lost.
#[derive(Debug, Clone, Copy)]
struct Probing {
    /// The probes that were sent before the end of the request.
    sent_before: u64,
    /// When one is sent if none has been sent since.
    at: Instant,
}

/// What happens in an exchange.
enum Step {
    Message(Frame),
    /// The switch has taken bytes, or a probe was sent or answered.
    Other,
    /// Nothing, until the deadline.
    Late,
}
