//! The process beside a switch that sends the messages that flows cannot build: ICMP errors, TCP resets, router
//! advertisements, answers of DHCP and DNS, announcements of addresses, questions to machines, and probes of what has addresses. Of a host that others choose by BFD, it also keeps them from
//! choosing it while it has no flows.
//!
//! It computes nothing about networks. The rules say in the flows what is to be answered, and with what ([`packet_answers::Instruction`]); the
//! switch hands over the packet; the answer goes back into the pipeline as a packet of the router. So it needs no configuration, keeps
//! nothing that matters across a restart, and may die at any time: packets for it are dropped then, and nothing else changes.
//!
//! In reading order: [`Config`] and [`run`]; `session` (one connection), `answering` (one packet), `advertising` (what routers say unasked),
//! `watching` (flows that no packet meets), `unasked` (what they have sent, and how often), `announcing` (when it is sent), `probing` (which addresses work), `holding` (tunnels that others
//! are to see as down, and what probes have found), [`Counts`].
#![forbid(unsafe_code)]
// Bytes from outside must not end the process.
#![cfg_attr(
    not(test),
    warn(
        clippy::indexing_slicing,
        clippy::string_slice,
        clippy::expect_used,
        clippy::unwrap_used,
        clippy::panic,
        clippy::unreachable
    )
)]

mod advertising;
mod announcing;
mod answering;
mod counts;
mod holding;
mod probing;
mod session;
mod unasked;
mod watching;

use std::convert::Infallible;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use peer_connection::{Dial, Endpoint, Reconnect};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tracing::{info, warn};

pub use answering::{Answering, NoAnswer};
pub use counts::Counts;
pub use holding::Database;
pub use packet_answers::CONTROLLER_ID;
pub use session::SessionError;

use holding::{Probed, Switch};
use probing::{Remembered, Results};
use session::Holders;

/// The shortest and the longest pause before it connects again. A switch that starts again is there after a moment.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// How long a switch that runs may take to say which flows it has. When the responder starts, the switch most likely runs as before, and
/// may be busy. When a connection is lost, the switch most likely starts again; its sessions of BFD come up after about a second.
const UNKNOWN_AT_START: Duration = Duration::from_secs(2);
const UNKNOWN_LATER: Duration = Duration::from_millis(300);
/// How often it logs what it has answered, if it has.
const REPORT_EVERY: Duration = Duration::from_mins(1);

/// How a responder runs.
#[derive(Debug, Clone)]
pub struct Config {
    /// The management socket of the bridge.
    pub endpoint: Endpoint,
    /// The number by which flows name it: [`CONTROLLER_ID`], unless it is for flows of others.
    pub controller_id: u16,
    /// The database of the switch, where tunnel ports are held; none to hold nothing.
    pub database: Option<Database>,
    /// A file that one responder of the bridge holds. Two would answer everything twice.
    pub lock: PathBuf,
}

/// Why a responder does not run.
#[derive(Debug, thiserror::Error)]
pub enum ResponderError {
    /// Another one answers for this bridge.
    #[error(
        "another responder holds {lock}; two would answer each packet twice. Stop that one, or name another file with --lock if it is for another bridge"
    )]
    Running {
        /// The file.
        lock: PathBuf,
    },
    /// The file that it must hold cannot be opened.
    #[error("cannot lock {lock}: {error}; name a file that can be written with --lock")]
    Lock {
        /// The file.
        lock: PathBuf,
        /// The cause.
        error: io::Error,
    },
}

/// Answers, announces and holds until the future is dropped. It connects again whenever a connection ends. `settled` is told when the
/// database has what it should have, which a switch that starts may wait for.
///
/// # Errors
/// Another responder runs, or it cannot be known.
pub async fn run(
    config: &Config,
    dialler: Arc<dyn Dial>,
    counts: &Arc<Counts>,
    settled: &Notify,
) -> Result<Infallible, ResponderError> {
    let _held = hold(&config.lock)?;
    let unknown = Switch::Unknown { hold_at: Instant::now() + UNKNOWN_AT_START };
    let (switch, known) = watch::channel(unknown);
    let (release, released) = watch::channel(0);
    let (result, results) = watch::channel(Results::default());
    // Without a database, nothing is known for certain: that nothing is.
    let nothing = config.database.is_none().then(Arc::<Remembered>::default);
    let (remember, remembered) = watch::channel(nothing);
    let probed = Probed { results, remembered: remember };
    let holds = async {
        match &config.database {
            Some(database) => {
                Ok(holding::hold(database, dialler.clone(), known, probed, &release, settled).await)
            }
            None => std::future::pending().await,
        }
    };
    let reports = report(counts.clone());
    let holders = Holders { switch: &switch, released, results: &result, remembered };
    let answers = answer(config, &*dialler, counts, &holders);
    tokio::select! {
        never = answers => never,
        never = holds => never,
        never = reports => never,
    }
}

/// Answers and announces over one connection after the other.
async fn answer(
    config: &Config,
    dialler: &dyn Dial,
    counts: &Arc<Counts>,
    holders: &Holders<'_>,
) -> Result<Infallible, ResponderError> {
    let mut answering = Answering::new(counts.clone());
    let mut reconnect = Reconnect::new(PAUSE_MIN, PAUSE_MAX);
    loop {
        let error = match session::Session::open(config, dialler, counts, holders).await {
            Ok(session) => {
                reconnect.connected();
                info!(bridge = %config.endpoint, "answers for this bridge");
                let Err(error) = session.serve(&mut answering, holders.clone()).await;
                holders.switch.send_replace(Switch::Unknown { hold_at: Instant::now() + UNKNOWN_LATER });
                error
            }
            Err(error) => {
                holders.switch.send_replace(Switch::NotReady);
                error
            }
        };
        let why = error.to_string();
        let retry = reconnect.failed(&why);
        if retry.report {
            warn!(bridge = %config.endpoint, why, "answers nothing until it is connected again");
        }
        tokio::time::sleep(retry.delay).await;
    }
}

/// Logs now and then what was answered since the last time.
async fn report(counts: Arc<Counts>) -> Result<Infallible, ResponderError> {
    let mut every = tokio::time::interval(REPORT_EVERY);
    let mut before = counts.to_string();
    loop {
        every.tick().await;
        let now = counts.to_string();
        if now != before {
            info!(since_start = now, "has answered");
            before = now;
        }
    }
}

/// Holds the file for as long as the value lives.
fn hold(lock: &Path) -> Result<File, ResponderError> {
    let failed = |error| ResponderError::Lock { lock: lock.to_owned(), error };
    if let Some(folder) = lock.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(lock).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(ResponderError::Running { lock: lock.to_owned() }),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}
