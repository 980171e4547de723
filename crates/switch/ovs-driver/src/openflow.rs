//! The OpenFlow side of a driver. It stays connected and serves requests: read all groups, meters and flows, compare them,
//! and apply a batch.

mod connection;
mod error;
mod monitor;
mod option;
mod push;
mod role;
mod session;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use openflow_rs::Match;
use openflow_rs::message::PacketOut;
use peer_connection::{Dial, Endpoint, PeerMemory, Reconnect};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use connection::{OpenFlowConnection, SessionError};
pub(crate) use option::option_name;
pub use push::{PushError, Pushed, push_bundle};
use session::Session;

use crate::config::{Config, Timing};
use crate::identity::{self, Identity, Verdict};
use crate::in_openflow::{Batch, Contents};
use crate::intent::Shared;
use crate::outbox::Outbox;
use switch_model::{
    BundleTimes, Channel, Conflict, Event, FlowCount, FlowKey, Frame, LearnedFlow, MeterCount, Packet,
    ReadError, SeenFlow,
};

/// Whether the switch is connected, and the number of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Status {
    pub(crate) up: bool,
    /// The number of connections so far.
    pub(crate) connection: u64,
}

/// The connection was lost or replaced. The status says which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lost;

/// The result of a batch.
#[derive(Debug, Default)]
pub(crate) struct Applied {
    /// The number of its changes that are in force.
    pub(crate) flow_mods: usize,
    /// The refused changes, in the order of the batch.
    pub(crate) refused: Vec<RefusedChange>,
    /// The things of the kinds whose changes take several messages, read again if a refused change may be partly in force.
    pub(crate) partly: Option<Contents>,
    /// Why the changes were sent one by one, if they were.
    pub(crate) alone: Option<String>,
    /// When it was sent, unless it needed no bundle.
    pub(crate) sent: Option<BundleTimes>,
}

/// What was read from a switch.
#[derive(Debug, Default)]
struct Installed {
    contents: Contents,
    /// The cookies of the flows of watched tables.
    watched: BTreeMap<FlowKey, u64>,
    /// What the switch has noted of address conflicts.
    conflicts: BTreeMap<FlowKey, Conflict>,
    /// Why the switch does not have the tunnel option as a field.
    option_fault: Option<String>,
}

/// A change that the switch refused.
#[derive(Debug)]
pub(crate) struct RefusedChange {
    /// Its index in the batch.
    pub(crate) place: usize,
    /// The error.
    pub(crate) reason: String,
}

impl Applied {
    fn new(changes: usize, refused: BTreeMap<usize, RefusedChange>) -> Self {
        Applied {
            flow_mods: changes - refused.len(),
            refused: refused.into_values().collect(),
            partly: None,
            alone: None,
            sent: None,
        }
    }
}

/// The driver task's handle to the connection task.
pub(crate) struct OpenFlow {
    pub(crate) status: watch::Receiver<Status>,
    requests: mpsc::Sender<Box<Request>>,
}

#[derive(Debug)]
struct Request {
    connection: u64,
    what: What,
}

#[derive(Debug)]
enum What {
    /// Read all groups, meters and flows, for the first time on this connection.
    Read(oneshot::Sender<Option<String>>),
    /// Compare the groups and meters, and the flows too if asked for or if some changes may be unreported.
    Compare(bool, oneshot::Sender<()>),
    Apply(Batch, oneshot::Sender<Applied>),
    /// Read some flows for somebody else.
    Learned(u8, Box<Match>, oneshot::Sender<Result<Vec<LearnedFlow>, ReadError>>),
    /// Read what the meters have counted, for somebody else.
    Counts(oneshot::Sender<Result<Vec<MeterCount>, ReadError>>),
    /// Read what these flows have counted, for somebody else.
    FlowCounts(Vec<FlowKey>, oneshot::Sender<Result<Vec<FlowCount>, ReadError>>),
    /// Read the flows of this table that the match covers, for somebody else.
    TableFlows(u8, Box<Match>, oneshot::Sender<Result<Vec<SeenFlow>, ReadError>>),
    /// Send these packets, for somebody else.
    Packets(Vec<Packet>, oneshot::Sender<Result<(), ReadError>>),
    /// Send these frames.
    Send(Vec<Frame>, oneshot::Sender<()>),
}

/// The handle of those who only read from the switch.
#[derive(Debug, Clone)]
pub(crate) struct Reader {
    status: watch::Receiver<Status>,
    requests: mpsc::Sender<Box<Request>>,
}

impl Reader {
    /// The number of the current connection.
    pub(crate) fn connection(&self) -> Result<u64, ReadError> {
        let Status { up, connection } = *self.status.borrow();
        if up { Ok(connection) } else { Err(ReadError::NotConnected) }
    }

    /// Reads flows that the switch itself has written.
    pub(crate) async fn learned(&self, table: u8, matches: Match) -> Result<Vec<LearnedFlow>, ReadError> {
        let (reply, receiver) = oneshot::channel();
        self.ask(What::Learned(table, Box::new(matches), reply)).await?;
        receiver.await.map_err(|_| ReadError::Lost)?
    }

    /// Reads what the meters have counted.
    pub(crate) async fn meter_counts(&self) -> Result<Vec<MeterCount>, ReadError> {
        let (reply, receiver) = oneshot::channel();
        self.ask(What::Counts(reply)).await?;
        receiver.await.map_err(|_| ReadError::Lost)?
    }

    /// Reads what these flows have counted.
    pub(crate) async fn flow_counts(&self, keys: Vec<FlowKey>) -> Result<Vec<FlowCount>, ReadError> {
        let (reply, receiver) = oneshot::channel();
        self.ask(What::FlowCounts(keys, reply)).await?;
        receiver.await.map_err(|_| ReadError::Lost)?
    }

    /// Reads the flows of a table that the match covers.
    pub(crate) async fn table_flows(&self, table: u8, matches: Match) -> Result<Vec<SeenFlow>, ReadError> {
        let (reply, receiver) = oneshot::channel();
        self.ask(What::TableFlows(table, Box::new(matches), reply)).await?;
        receiver.await.map_err(|_| ReadError::Lost)?
    }

    /// Sends packets, once.
    pub(crate) async fn send(&self, packets: Vec<Packet>) -> Result<(), ReadError> {
        let (reply, receiver) = oneshot::channel();
        self.ask(What::Packets(packets, reply)).await?;
        receiver.await.map_err(|_| ReadError::Lost)?
    }

    async fn ask(&self, what: What) -> Result<(), ReadError> {
        let request = Request { connection: self.connection()?, what };
        self.requests.send(Box::new(request)).await.map_err(|_| ReadError::Lost)
    }

    /// Sends the frames of the intent for ever, and reports those that are done. If there is no connection when the time of one comes, or the
    /// switch does not confirm it, its series begins again after the next connection.
    pub(crate) async fn send_frames(self, intent: Arc<Shared>, outbox: Arc<Outbox>) {
        loop {
            intent.frame_is_due().await;
            let Ok(connection) = self.connection() else {
                intent.lock().frames.interrupted();
                continue;
            };
            let frames = intent.lock().frames.take_due(tokio::time::Instant::now());
            let (reply, sent) = oneshot::channel();
            let request = Request { connection, what: What::Send(frames, reply) };
            // The send fails only while the driver ends.
            let _ = self.requests.send(Box::new(request)).await;
            if sent.await.is_err() {
                intent.lock().frames.interrupted();
                continue;
            }
            let names = intent.lock().frames.confirmed();
            if !names.is_empty() {
                outbox.put(Event::Announced { names });
            }
        }
    }
}

impl OpenFlow {
    /// Returns the handle, and the task to run beside it.
    pub(crate) fn new(
        config: Arc<Config>,
        timing: &Timing,
        (dialler, memory): (Arc<dyn Dial>, PeerMemory),
        identity: Arc<Identity>,
        intent: Arc<Shared>,
        outbox: Arc<Outbox>,
    ) -> (OpenFlow, impl Future<Output = ()> + Send + 'static) {
        let (requests, request_receiver) = mpsc::channel(1);
        let (status, status_receiver) = watch::channel(Status::default());
        let timing = timing.clone();
        let requests_to_serve = request_receiver;
        let keeper = Keeper {
            config,
            timing,
            dialler,
            memory,
            identity,
            intent,
            outbox,
            status,
            requests: requests_to_serve,
            monitored: false,
        };
        (OpenFlow { status: status_receiver, requests }, keeper.run())
    }

    /// A handle for those who only read from the switch.
    pub(crate) fn reader(&self) -> Reader {
        Reader { status: self.status.clone(), requests: self.requests.clone() }
    }

    /// Reads all groups, meters and flows of the switch into the intent. Returns the reason if the tunnel option could not be
    /// mapped to a field.
    pub(crate) async fn read(&self, connection: u64) -> Result<Option<String>, Lost> {
        let (reply, receiver) = oneshot::channel();
        let request = Request { connection, what: What::Read(reply) };
        self.requests.send(Box::new(request)).await.map_err(|_| Lost)?;
        receiver.await.map_err(|_| Lost)
    }

    /// Compares the groups and meters of the switch with the believed ones, and the flows too if `all`, or if changes of flows may
    /// have been missed. Records the differences in the intent.
    pub(crate) async fn compare(&self, connection: u64, all: bool) -> Result<(), Lost> {
        let (reply, receiver) = oneshot::channel();
        let request = Request { connection, what: What::Compare(all, reply) };
        self.requests.send(Box::new(request)).await.map_err(|_| Lost)?;
        receiver.await.map_err(|_| Lost)
    }

    /// Applies a batch.
    pub(crate) async fn apply(&self, connection: u64, batch: Batch) -> Result<Applied, Lost> {
        let (reply, receiver) = oneshot::channel();
        let request = Request { connection, what: What::Apply(batch, reply) };
        self.requests.send(Box::new(request)).await.map_err(|_| Lost)?;
        receiver.await.map_err(|_| Lost)
    }
}

/// Connects, serves requests, and reconnects.
struct Keeper {
    config: Arc<Config>,
    timing: Timing,
    dialler: Arc<dyn Dial>,
    memory: PeerMemory,
    identity: Arc<Identity>,
    intent: Arc<Shared>,
    outbox: Arc<Outbox>,
    status: watch::Sender<Status>,
    requests: mpsc::Receiver<Box<Request>>,
    /// Whether the switch reports changes of flows.
    monitored: bool,
}

impl Keeper {
    async fn run(mut self) {
        let mut reconnect = Reconnect::new(self.timing.backoff_min, self.timing.backoff_max);
        loop {
            let connected = connect(&*self.dialler, &self.config.openflow, &self.timing, &self.memory);
            let error = match Box::pin(connected).await {
                Ok(mut session) => self.use_session(&mut session, &mut reconnect).await,
                Err(error) => {
                    self.identity.openflow_is_silent();
                    error
                }
            };
            self.intent.lock().disconnected(Channel::OpenFlow);
            let why = format!("{}: {error}", self.config.openflow);
            let mut retry = reconnect.failed(&why);
            if error.breaks_limits() {
                retry.delay = retry.delay.max(self.timing.limits_pause);
            }
            if retry.report {
                tracing::debug!(switch = self.config.name, why, "openflow not connected");
                self.tell_disconnected(why);
            }
            self.pause(retry.delay).await;
        }
    }

    fn tell_disconnected(&self, why: String) {
        self.outbox.put(Event::Disconnected { channel: Channel::OpenFlow, why });
    }

    /// Serves requests over a new session, once it is certain to lead to the right bridge. Returns the reason for the
    /// end of the session.
    async fn use_session(&mut self, session: &mut Session, reconnect: &mut Reconnect) -> SessionError {
        let features = session.features;
        tracing::debug!(
            switch = self.config.name,
            datapath_id = format_args!("{:016x}", features.datapath_id),
            tables = features.n_tables,
            "openflow connected"
        );
        self.identity.openflow_says(features.datapath_id);
        let mut changes = self.identity.changes();
        if let Err(error) = self.verify(session, &mut changes).await {
            return error;
        }
        if let Some(owner) = &self.config.owner
            && let Err(error) = session.become_primary(owner.epoch()).await
        {
            return error;
        }
        let channel = Channel::OpenFlow;
        reconnect.connected();
        self.intent.lock().connected(channel);
        self.outbox.put(Event::Connected { channel });
        self.status.send_modify(|status| {
            *status = Status { up: true, connection: status.connection + 1 };
        });
        let error = self.serve(session, &mut changes).await;
        self.status.send_modify(|status| status.up = false);
        error
    }

    /// Waits until the database has reported the id of the bridge. Fails if it differs from the id of the session.
    async fn verify(
        &self,
        session: &mut Session,
        changes: &mut identity::Changes,
    ) -> Result<(), SessionError> {
        // ovs-vswitchd writes a new id to the database shortly after the bridge uses it.
        let patience = self.timing.retry_after;
        let mut late = std::pin::pin!(tokio::time::sleep(patience));
        let mut told = false;
        loop {
            let verdict = self.identity.verdict();
            match verdict {
                Verdict::Same => return Ok(()),
                Verdict::Withheld => return Err(self.withheld()),
                Verdict::Unknown | Verdict::Different { .. } => {}
            }
            tokio::select! {
                error = session.idle() => return Err(error),
                () = changes.next() => {}
                () = late.as_mut(), if !told => {
                    if let Verdict::Different { database, openflow } = verdict {
                        return Err(self.other_bridge(database, openflow));
                    }
                    told = true;
                    self.tell_disconnected(format!(
                        "{}: connected, but not used before the database at {} has said the datapath id of {}: flows \
                         must not be sent to another bridge",
                        self.config.openflow, self.config.ovsdb, self.config.bridge
                    ));
                }
            }
        }
    }

    fn withheld(&self) -> SessionError {
        let why = self.identity.withheld().unwrap_or_default().to_string();
        SessionError::Withheld { why }
    }

    fn other_bridge(&self, database: u64, openflow: u64) -> SessionError {
        let Config { bridge, ovsdb, .. } = &*self.config;
        SessionError::OtherBridge { bridge: bridge.clone(), ovsdb: ovsdb.to_string(), database, openflow }
    }

    async fn serve(&mut self, session: &mut Session, changes: &mut identity::Changes) -> SessionError {
        let current = self.status.borrow().connection;
        loop {
            let request = tokio::select! {
                error = session.idle() => return error,
                () = changes.next() => match self.identity.verdict() {
                    Verdict::Same => continue,
                    Verdict::Withheld => return self.withheld(),
                    _ => return SessionError::NewDatapathId,
                },
                request = self.requests.recv() => request.map(|request| *request),
            };
            // What is done is in memory of its own: a connection waits nearly all the time.
            let result = match request {
                // Dropping a request for an earlier connection tells its sender that the connection was lost.
                Some(Request { connection, .. }) if connection != current => Ok(()),
                // The sender of a request may have gone away.
                Some(Request { what: What::Read(reply), .. }) => {
                    Box::pin(self.read(session)).await.map(|option_fault| drop(reply.send(option_fault)))
                }
                Some(Request { what: What::Compare(all, reply), .. }) => {
                    Box::pin(self.compare(session, all)).await.map(|()| {
                        let _ = reply.send(());
                    })
                }
                Some(Request { what: What::Apply(batch, reply), .. }) => {
                    let applied = Box::pin(session.apply(&batch)).await;
                    // What was refused is held on; the next comparison counts it exactly.
                    let settled = applied.and_then(|applied| {
                        session.settle(applied.refused.len())?;
                        Ok(applied)
                    });
                    settled.map(|applied| drop(reply.send(applied)))
                }
                // Whoever asked has gone: the time was over while others were served.
                Some(Request { what: What::Learned(_, _, reply), .. }) if reply.is_closed() => Ok(()),
                Some(Request { what: What::Learned(table, matches, reply), .. }) => {
                    Box::pin(session.learned(table, *matches)).await.map(|learned| drop(reply.send(learned)))
                }
                Some(Request { what: What::Counts(reply), .. }) if reply.is_closed() => Ok(()),
                Some(Request { what: What::Counts(reply), .. }) => {
                    Box::pin(session.meter_counts()).await.map(|counts| drop(reply.send(counts)))
                }
                Some(Request { what: What::FlowCounts(_, reply), .. }) if reply.is_closed() => Ok(()),
                Some(Request { what: What::FlowCounts(keys, reply), .. }) => {
                    Box::pin(session.flow_counts(&keys)).await.map(|counts| drop(reply.send(counts)))
                }
                Some(Request { what: What::TableFlows(_, _, reply), .. }) if reply.is_closed() => Ok(()),
                Some(Request { what: What::TableFlows(table, matches, reply), .. }) => {
                    Box::pin(session.table_flows(table, *matches)).await.map(|flows| drop(reply.send(flows)))
                }
                Some(Request { what: What::Packets(_, reply), .. }) if reply.is_closed() => Ok(()),
                Some(Request { what: What::Packets(packets, reply), .. }) => {
                    let packets = packets
                        .iter()
                        .map(|packet| PacketOut::new(packet.actions.get(), packet.frame.to_vec()));
                    Box::pin(session.send_packets(packets)).await.map(|refused| {
                        let _ = reply.send(refused.map_or(Ok(()), |error| Err(ReadError::Refused(error))));
                    })
                }
                Some(Request { what: What::Send(frames, reply), .. }) => {
                    Box::pin(session.send_frames(&frames)).await.map(|()| {
                        let _ = reply.send(());
                    })
                }
                None => std::future::pending().await,
            };
            session.release();
            if let Err(error) = result {
                return error;
            }
        }
    }

    /// Reads the whole switch. The intent must be up to date before the next report of the switch arrives, so this
    /// completes before any further message is read.
    async fn read(&mut self, session: &mut Session) -> Result<Option<String>, SessionError> {
        // The monitor starts before the flows are read, so that no change falls between the two.
        self.monitored = session.monitor(&self.config, &self.intent, &self.outbox).await?;
        let installed = session.read(&self.config).await?;
        let differing = {
            let mut intent = self.intent.lock();
            intent.forwarding.read(&installed.contents);
            intent.forwarding.differing()
        };
        session.settle(differing)?;
        self.read_learned(installed.watched, installed.conflicts);
        Ok(installed.option_fault)
    }

    async fn compare(&self, session: &mut Session, all: bool) -> Result<(), SessionError> {
        let missed = self.intent.lock().forwarding.has_missed_changes();
        if self.monitored && !missed && !all {
            let contents = session.read_unreported().await?;
            self.intent.lock().forwarding.compare(&contents, false);
        } else {
            let Installed { contents, watched, conflicts, .. } = session.read(&self.config).await?;
            self.intent.lock().forwarding.compare(&contents, true);
            self.read_learned(watched, conflicts);
        }
        session.settle(self.intent.lock().forwarding.differing())
    }

    /// Takes over the learned flows of watched tables, and reports those that are new. Takes over address conflicts.
    fn read_learned(&self, flows: BTreeMap<FlowKey, u64>, conflicts: BTreeMap<FlowKey, Conflict>) {
        let learned = {
            let mut intent = self.intent.lock();
            if !self.config.conflict_tables.is_empty() {
                intent.conflicts.read(conflicts);
                self.intent.conflicts_have_changed();
            }
            intent.awaited.read(flows)
        };
        for event in learned {
            self.outbox.put(event);
        }
    }

    /// Waits, and drops the requests that arrive meanwhile.
    async fn pause(&mut self, pause: Duration) {
        let refuse = async { while self.requests.recv().await.is_some() {} };
        let _ = tokio::time::timeout(pause, refuse).await;
    }
}

/// Connects, and exchanges hello and features.
async fn connect(
    dialler: &dyn Dial,
    endpoint: &Endpoint,
    timing: &Timing,
    memory: &PeerMemory,
) -> Result<Session, SessionError> {
    let connection = OpenFlowConnection::open(dialler, endpoint, timing, memory).await?;
    let limit = timing.handshake_max;
    let deadline = peer_connection::after(Instant::now(), limit);
    peer_connection::within(deadline, Session::greet(connection))
        .await
        .unwrap_or(Err(SessionError::HandshakeTimeout { seconds: limit.as_secs_f64() }))
}
