//! Keeps other switches from choosing this one while it cannot forward for them: their tunnels to it look as if they were down.
//!
//! A flow says that the switch has its flows ([`Readiness`]), and by which tunnel ports others choose it. While there is no such flow, or
//! an uplink that it names is down, key `cpath_down` of column `bfd` of these ports is set: the other end takes the port for dead
//! (RFC 5880, 6.8.17), and this end does not. Which ports these are stands in the database as long as a flow says so, since a switch that
//! starts has no flows. It is written to the database server alone, so it is there before ovs-vswitchd starts.

mod plan;
mod probed;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use ovsdb_client::open_vswitch::DATABASE;
use ovsdb_client::{Client, Event, Options, TransactError};
use packet_answers::Readiness;
use peer_connection::{Dial, Endpoint, MemoryBudget};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;
use tracing::{debug, info, warn};

use crate::probing::{Remembered, Results};
use plan::{Known, Plan, monitor};

/// The most that messages of the database and its rows may take. A thousand interfaces take some 2 MiB.
const MEMORY_MAX: usize = 16 << 20;
/// The longest pause before it connects again, and how long the database may take to answer.
const PAUSE_MAX: Duration = Duration::from_secs(1);
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// The pause after a write. Another program that writes the same must not keep both busy.
const AFTER_WRITE: Duration = Duration::from_millis(20);
/// The pause before something is tried again that has failed.
const AFTER_FAILURE: Duration = Duration::from_millis(200);

/// The database of the switch.
#[derive(Debug, Clone)]
pub struct Database {
    /// Where its server listens.
    pub endpoint: Endpoint,
    /// The name of the bridge.
    pub bridge: String,
}

/// What is known of the flows of the switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Switch {
    /// Nothing. From this time on it is taken for a switch without flows.
    Unknown {
        /// The time.
        hold_at: Instant,
    },
    /// It does not run, or has no flow that says that it is ready.
    NotReady,
    /// It has its flows.
    Ready(Arc<Readiness>),
}

impl Switch {
    /// What is known for certain at this time, and when that may change by itself.
    fn known(&self, now: Instant) -> (Option<Known>, Option<Instant>) {
        match self {
            Switch::Unknown { hold_at } if now < *hold_at => (None, Some(*hold_at)),
            Switch::Unknown { .. } | Switch::NotReady => (Some(Known::NotReady), None),
            Switch::Ready(readiness) => (Some(Known::Ready(readiness.clone())), None),
        }
    }
}

/// What passes between probes and the database.
pub(crate) struct Probed {
    /// The results that the database is to have.
    pub(crate) results: watch::Receiver<Results>,
    /// The results that the database has, once they are known.
    pub(crate) remembered: watch::Sender<Option<Arc<Remembered>>>,
}

/// Writes what has to be held and what probes have found, whenever the switch or the database changes. `released` counts how often tunnel ports were let go;
/// `settled` is told whenever the database has what it should have.
pub(crate) async fn hold(
    database: &Database,
    dialler: Arc<dyn Dial>,
    switch: watch::Receiver<Switch>,
    probed: Probed,
    released: &watch::Sender<u64>,
    settled: &Notify,
) -> Infallible {
    let options = Options {
        handshake_timeout: ANSWER_MAX,
        request_timeout: ANSWER_MAX,
        backoff_max: PAUSE_MAX,
        memory: MemoryBudget::new(MEMORY_MAX).peer("the database"),
        ..Options::default()
    };
    let (client, events, session) =
        Client::new(dialler, database.endpoint.clone(), DATABASE, monitor(), options);
    let holder = Holder { client, bridge: &database.bridge, released, settled };
    tokio::select! {
        // It ends with the last handle, which the holder has.
        () = session => std::future::pending().await,
        never = holder.run(events, switch, probed) => never,
    }
}

struct Holder<'a> {
    client: Client,
    bridge: &'a str,
    released: &'a watch::Sender<u64>,
    settled: &'a Notify,
}

impl Holder<'_> {
    async fn run(
        self,
        mut events: mpsc::Receiver<Event>,
        mut switch: watch::Receiver<Switch>,
        mut probed: Probed,
    ) -> Infallible {
        let mut is_connected = false;
        loop {
            let (known, mut until) = switch.borrow_and_update().known(Instant::now());
            if is_connected {
                self.remember(&probed.remembered);
                let results = probed.results.borrow_and_update().clone();
                match self.correct(known.as_ref(), &results).await {
                    Ok(false) if known.is_none() => {}
                    Ok(false) => self.settled.notify_one(),
                    Ok(true) => tokio::time::sleep(AFTER_WRITE).await,
                    Err(error) => {
                        debug!(%error, "cannot write to the database");
                        until = Some(Instant::now() + AFTER_FAILURE);
                    }
                }
            }
            let later = async {
                match until {
                    Some(until) => tokio::time::sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                event = events.recv() => match event {
                    // Changes follow.
                    Some(Event::Connected) => {}
                    Some(Event::Changes(_)) => is_connected = true,
                    Some(Event::Disconnected { why }) => {
                        is_connected = false;
                        warn!(why, "the database of the switch does not answer; tunnel ports stay as they are");
                    }
                    None => std::future::pending().await,
                },
                changed = switch.changed() => if changed.is_err() { std::future::pending().await },
                changed = probed.results.changed() => if changed.is_err() { std::future::pending().await },
                () = later => {}
            }
        }
    }

    /// Says what the database has of probes.
    fn remember(&self, remembered: &watch::Sender<Option<Arc<Remembered>>>) {
        let found = self.client.with_replica(|replica| probed::read(replica, self.bridge));
        remembered.send_if_modified(|known| {
            let is_new = known.as_deref() != Some(&found);
            if is_new {
                *known = Some(Arc::new(found));
            }
            is_new
        });
    }

    /// Writes what differs. Whether something did.
    async fn correct(&self, known: Option<&Known>, results: &Results) -> Result<bool, TransactError> {
        let has_held = match known {
            Some(known) => self.hold(known).await?,
            None => false,
        };
        let of_probes = |replica: &_| probed::correction(replica, self.bridge, results);
        let Some(operation) = self.client.with_replica(of_probes) else { return Ok(has_held) };
        self.client.transact(&[operation]).await?;
        Ok(true)
    }

    async fn hold(&self, known: &Known) -> Result<bool, TransactError> {
        let plan = self.client.with_replica(|replica| Plan::new(replica, self.bridge, known));
        let Some(Plan { operations, held, is_release, why }) =
            plan.filter(|plan| !plan.operations.is_empty())
        else {
            return Ok(false);
        };
        self.client.transact(&operations).await?;
        info!(bridge = self.bridge, held, why, "other switches see this many tunnel ports as down");
        if is_release {
            self.released.send_modify(|released| *released += 1);
        }
        Ok(true)
    }
}
