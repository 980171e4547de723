//! The OpenFlow side of a driver: stays connected and serves two requests, to read all groups and flows, and to apply a
//! batch.

mod codec;
mod connection;
mod error;
mod groups;
mod push;
mod session;
mod steps;
mod wire;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use peer_connection::{Dial, Endpoint, Reconnect};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use connection::{OpenFlowConnection, SessionError};
pub(crate) use groups::option_name;
pub use push::{PushError, Pushed, push_bundle};
use session::Session;

use crate::config::{Config, Timing};
use crate::event::{Channel, Event};
use crate::forwarding::{Batch, Installed};
use crate::intent::Shared;
use crate::outbox::Outbox;

/// Whether there is a connection, and its number.
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
    /// The number of its changes of flows and groups that are in force.
    pub(crate) flow_mods: usize,
    /// The others, in the order of the batch.
    pub(crate) refused: Vec<RefusedChange>,
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
        Applied { flow_mods: changes - refused.len(), refused: refused.into_values().collect() }
    }
}

/// The driver task's handle to the connection task.
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
    /// The handle, and the task to run beside it.
    pub(crate) fn new(
        config: Arc<Config>,
        timing: &Timing,
        dialler: Arc<dyn Dial>,
        intent: Arc<Shared>,
        outbox: Arc<Outbox>,
    ) -> (OpenFlow, impl Future<Output = ()> + Send + 'static) {
        let (requests, request_receiver) = mpsc::channel(1);
        let (status, status_receiver) = watch::channel(Status::default());
        let timing = timing.clone();
        let keeper = Keeper { config, timing, dialler, intent, outbox, status, requests: request_receiver };
        (OpenFlow { status: status_receiver, requests }, keeper.run())
    }

    /// Reads all groups and flows of the switch.
    pub(crate) async fn read(&self, connection: u64) -> Result<Installed, Lost> {
        let (reply, receiver) = oneshot::channel();
        let request = Request { connection, what: What::Read(reply) };
        self.requests.send(request).await.map_err(|_| Lost)?;
        receiver.await.map_err(|_| Lost)
    }

    /// Applies a batch.
    pub(crate) async fn apply(&self, connection: u64, batch: Batch) -> Result<Applied, Lost> {
        let (reply, receiver) = oneshot::channel();
        let request = Request { connection, what: What::Apply(batch, reply) };
        self.requests.send(request).await.map_err(|_| Lost)?;
        receiver.await.map_err(|_| Lost)
    }
}

/// The messages of a batch, each with the index of its change.
#[cfg(test)]
pub(crate) fn messages(batch: &Batch) -> Vec<(usize, Vec<u8>)> {
    let message = |step: &steps::Step| {
        let mut bytes = bytes::BytesMut::new();
        wire::put_step(&mut bytes, 1, batch, *step);
        (step.place(batch), bytes.to_vec())
    };
    steps::steps(batch, |_| false).iter().map(message).collect()
}

/// Connects, serves requests, and reconnects.
struct Keeper {
    config: Arc<Config>,
    timing: Timing,
    dialler: Arc<dyn Dial>,
    intent: Arc<Shared>,
    outbox: Arc<Outbox>,
    status: watch::Sender<Status>,
    requests: mpsc::Receiver<Request>,
}

impl Keeper {
    async fn run(mut self) {
        let channel = Channel::OpenFlow;
        let mut reconnect = Reconnect::new(self.timing.backoff_min, self.timing.backoff_max);
        loop {
            let why = match connect(&*self.dialler, &self.config.openflow, &self.timing).await {
                Ok(mut session) => {
                    let features = session.features;
                    tracing::debug!(
                        switch = self.config.name,
                        datapath_id = format_args!("{:016x}", features.datapath_id),
                        tables = features.n_tables,
                        "openflow connected"
                    );
                    reconnect.connected();
                    self.intent.lock().connected(channel);
                    self.outbox.put(Event::Connected { channel });
                    self.status.send_modify(|status| {
                        *status = Status { up: true, connection: status.connection + 1 };
                    });
                    let error = self.serve(&mut session).await;
                    self.status.send_modify(|status| status.up = false);
                    error
                }
                Err(error) => error,
            };
            self.intent.lock().disconnected(channel);
            let why = format!("{}: {why}", self.config.openflow);
            let retry = reconnect.failed(&why);
            if retry.report {
                tracing::debug!(switch = self.config.name, why, "openflow not connected");
                self.outbox.put(Event::Disconnected { channel, why });
            }
            self.pause(retry.delay).await;
        }
    }

    async fn serve(&mut self, session: &mut Session) -> SessionError {
        let current = self.status.borrow().connection;
        loop {
            let request = tokio::select! {
                error = session.idle() => return error,
                request = self.requests.recv() => request,
            };
            let result = match request {
                // A request for an earlier connection is dropped, which tells its sender that the connection was lost.
                Some(Request { connection, .. }) if connection != current => Ok(()),
                // The sender of a request may be gone.
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

    /// Waits, and drops requests meanwhile.
    async fn pause(&mut self, pause: Duration) {
        let refuse = async { while self.requests.recv().await.is_some() {} };
        let _ = tokio::time::timeout(pause, refuse).await;
    }
}

/// Connects, and exchanges hello and features.
async fn connect(dialler: &dyn Dial, endpoint: &Endpoint, timing: &Timing) -> Result<Session, SessionError> {
    let connection = OpenFlowConnection::open(dialler, endpoint, timing).await?;
    let limit = timing.handshake_max;
    let deadline = peer_connection::after(Instant::now(), limit);
    peer_connection::within(deadline, Session::greet(connection))
        .await
        .unwrap_or(Err(SessionError::HandshakeTimeout { seconds: limit.as_secs_f64() }))
}
