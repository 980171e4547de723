//! The OpenFlow side of a driver: stays connected, and serves two requests, read all groups and flows and apply a batch.

mod connection;
mod error;
mod groups;
mod push;
mod session;
mod steps;
mod wire;

use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::time::Duration;

use ovsdb_client::Endpoint;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use connection::{Connection, ConnectionError};
pub(crate) use groups::option_name;
pub use push::{PushError, Pushed, push_bundle};
use session::Session;

use crate::config::{Config, Timing};
use crate::event::{Channel, Event};
use crate::forwarding::{Batch, Installed};
use crate::intent::Shared;
use crate::outbox::Outbox;

/// Whether there is a connection, and which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Status {
    pub(crate) up: bool,
    /// How many connections there were.
    pub(crate) connection: u64,
}

/// The connection was lost, or is another one by now; the status says more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lost;

/// What became of a batch.
#[derive(Debug, Default)]
pub(crate) struct Applied {
    /// How many of its changes, of flows and groups, are in force.
    pub(crate) flow_mods: usize,
    /// The others, in the order of the batch.
    pub(crate) refused: Vec<RefusedChange>,
}

/// A change that the switch refused.
#[derive(Debug)]
pub(crate) struct RefusedChange {
    /// Its place in the batch.
    pub(crate) place: usize,
    /// The error.
    pub(crate) reason: String,
}

impl Applied {
    fn new(changes: usize, refused: BTreeMap<usize, RefusedChange>) -> Self {
        Applied { flow_mods: changes - refused.len(), refused: refused.into_values().collect() }
    }
}

/// A handle to the connection's task, for the driver's.
pub(crate) struct OpenFlow {
    pub(crate) status: watch::Receiver<Status>,
    requests: mpsc::Sender<Request>,
}

struct Request {
    connection: u64,
    what: What,
}

enum What {
    Read(oneshot::Sender<Installed>),
    Apply(Batch, oneshot::Sender<Applied>),
}

impl OpenFlow {
    /// The handle, and the task to be run beside it.
    pub(crate) fn new(
        config: Arc<Config>,
        timing: &Timing,
        intent: Arc<Shared>,
        outbox: Arc<Outbox>,
    ) -> (OpenFlow, impl Future<Output = ()> + Send + 'static) {
        let (requests, request_receiver) = mpsc::channel(1);
        let (status, status_receiver) = watch::channel(Status::default());
        let timing = timing.clone();
        let keeper = Keeper { config, timing, intent, outbox, status, requests: request_receiver };
        (OpenFlow { status: status_receiver, requests }, keeper.run())
    }

    /// All groups and flows that the switch has.
    pub(crate) async fn read(&self, connection: u64) -> Result<Installed, Lost> {
        let (reply, receiver) = oneshot::channel();
        let request = Request { connection, what: What::Read(reply) };
        self.requests.send(request).await.map_err(|_| Lost)?;
        receiver.await.map_err(|_| Lost)
    }

    /// Makes these changes.
    pub(crate) async fn apply(&self, connection: u64, batch: Batch) -> Result<Applied, Lost> {
        let (reply, receiver) = oneshot::channel();
        let request = Request { connection, what: What::Apply(batch, reply) };
        self.requests.send(request).await.map_err(|_| Lost)?;
        receiver.await.map_err(|_| Lost)
    }
}

/// The messages that a batch is sent as, each with the place of its change.
#[cfg(test)]
pub(crate) fn messages(batch: &Batch) -> Vec<(usize, Vec<u8>)> {
    let message = |step: &steps::Step| {
        let mut bytes = Vec::new();
        wire::put_step(&mut bytes, 1, batch, *step);
        (step.place(batch), bytes)
    };
    steps::steps(batch, |_| false).iter().map(message).collect()
}

/// Connects, serves, and connects again.
struct Keeper {
    config: Arc<Config>,
    timing: Timing,
    intent: Arc<Shared>,
    outbox: Arc<Outbox>,
    status: watch::Sender<Status>,
    requests: mpsc::Receiver<Request>,
}

impl Keeper {
    async fn run(mut self) {
        let channel = Channel::OpenFlow;
        let mut backoff = self.timing.backoff_min;
        let mut told = None;
        loop {
            let why = match connect(&self.config.openflow, &self.timing).await {
                Ok(mut session) => {
                    let features = session.features;
                    tracing::debug!(
                        switch = self.config.name,
                        datapath_id = format_args!("{:016x}", features.datapath_id),
                        tables = features.n_tables,
                        "openflow connected"
                    );
                    told = None;
                    let since = Instant::now();
                    self.intent.lock().connected(channel);
                    self.outbox.put(Event::Connected { channel });
                    self.status.send_modify(|status| {
                        *status = Status { up: true, connection: status.connection + 1 };
                    });
                    let error = self.serve(&mut session).await;
                    self.status.send_modify(|status| status.up = false);
                    // A switch that breaks off again and again is not called more often for it.
                    if since.elapsed() >= self.timing.backoff_max {
                        backoff = self.timing.backoff_min;
                    }
                    error
                }
                Err(error) => error,
            };
            self.intent.lock().disconnected(channel);
            let why = format!("{}: {why}", self.config.openflow);
            if told.as_ref() != Some(&why) {
                tracing::debug!(switch = self.config.name, why, "openflow not connected");
                self.outbox.put(Event::Disconnected { channel, why: why.clone() });
                told = Some(why);
            }
            self.pause(jittered(backoff)).await;
            backoff = (backoff * 2).min(self.timing.backoff_max);
        }
    }

    async fn serve(&mut self, session: &mut Session) -> ConnectionError {
        let current = self.status.borrow().connection;
        loop {
            let request = tokio::select! {
                error = session.idle() => return error,
                request = self.requests.recv() => request,
            };
            let result = match request {
                // What is meant for an earlier connection is dropped, and its sender learns that it was lost.
                Some(Request { connection, .. }) if connection != current => Ok(()),
                // A sender who has gone does not want to know.
                Some(Request { what: What::Read(reply), .. }) => session
                    .read(&self.config.learned_tables)
                    .await
                    .map(|installed| drop(reply.send(installed))),
                Some(Request { what: What::Apply(batch, reply), .. }) => {
                    session.apply(&batch).await.map(|applied| drop(reply.send(applied)))
                }
                None => std::future::pending().await,
            };
            if let Err(error) = result {
                return error;
            }
        }
    }

    /// Waits; requests that come meanwhile are dropped.
    async fn pause(&mut self, pause: Duration) {
        let refuse = async { while self.requests.recv().await.is_some() {} };
        let _ = tokio::time::timeout(pause, refuse).await;
    }
}

/// Connects and exchanges greetings.
async fn connect(endpoint: &Endpoint, timing: &Timing) -> Result<Session, ConnectionError> {
    let connection = Connection::open(endpoint, timing).await?;
    let limit = timing.handshake_max;
    match tokio::time::timeout(limit, Session::greet(connection)).await {
        Ok(session) => session,
        Err(_) => Err(ConnectionError::NoGreeting { seconds: limit.as_secs_f64() }),
    }
}

/// Between half of the pause and all of it, so that switches which went down together are not called together.
fn jittered(pause: Duration) -> Duration {
    let share = RandomState::new().build_hasher().finish() as u16;
    pause / 2 + pause / 2 * u32::from(share) / u32::from(u16::MAX)
}
