//! The daemon: assembles rules, journal, engine, switches and API, and takes them apart again.
//!
//! The order matters. First what can fail for reasons of configuration (rules, address, state folder), then the journal,
//! and only when the controller knows all that it knew does it touch a switch.

use std::fs;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use nlog_data::Evaluator;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::{mpsc, oneshot};
use tonic::transport::Server;
use tracing::{debug, info, warn};

use crate::api::Api;
use crate::config::{Listen, SocketMode};
use crate::core::{Core, History, ProblemChanges, RestoreError};
use crate::engine::{Engine, EngineError, Turn, Worker, log_problems};
use crate::fleet::{Drivers, Fleet};
use crate::journal::{Journal, JournalError, Replay};
use crate::listener::Listener;
use crate::pb::controller_server::ControllerServer;
use crate::requests::{MESSAGE_BYTES_MAX, WholeRequests};
use crate::rules::{Rules, RulesError};

/// How many events of all switches may wait for the engine.
const EVENTS_MAX: usize = 1024;
/// How long the transaction at hand may take to end after the controller was told to stop, and calls after that. A
/// transaction that takes longer ends with the process: nobody was told that it is accepted.
const ENGINE_GRACE: Duration = Duration::from_millis(600);
const CALLS_GRACE: Duration = Duration::from_millis(200);
/// How many calls a connection may have at a time.
const STREAMS_MAX: u32 = 32;
/// The largest headers of a call, in bytes.
const HEADERS_MAX: u32 = 16 << 10;
/// How many bytes of a call, and of all calls of a connection, may be on their way.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;
/// [`Parts::probe`] of a controller that is not under test.
pub const PROBE: Duration = Duration::from_secs(10);

/// Makes the evaluator, in the thread that it runs in.
pub type MakeEvaluator = Box<dyn FnOnce() -> Result<Box<dyn Evaluator>, String> + Send>;

/// What a controller is made of.
pub struct Parts {
    /// The folder of the journal.
    pub state: PathBuf,
    /// Where the API listens.
    pub listen: Listen,
    /// The permissions of a unix socket that it listens on.
    pub socket_mode: SocketMode,
    /// How often the server probes a connection, and how long a live client may take to answer.
    pub probe: Duration,
    /// The rules' tables.
    pub rules: Arc<Rules>,
    /// Runs the rules.
    pub evaluator: MakeEvaluator,
    /// Reaches the switches.
    pub drivers: Box<dyn Drivers>,
}

/// Why a controller does not start, or ends.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The address cannot be listened at.
    #[error("cannot listen on {listen}: {why}")]
    Listen {
        /// The address.
        listen: Listen,
        /// The cause.
        why: String,
    },
    /// The journal cannot be opened.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// What the journal says cannot be restored.
    #[error("{}: {source}", path.display())]
    Restore {
        /// The journal.
        path: PathBuf,
        /// Why.
        source: RestoreError,
    },
    /// The evaluator cannot be made.
    #[error("cannot start the engine: {0}")]
    Evaluator(String),
    /// The engine ended.
    #[error("the controller ends: {0}")]
    Engine(#[from] EngineError),
    /// The API ended.
    #[error("the API at {listen} failed: {why}")]
    Serve {
        /// Its address.
        listen: Listen,
        /// The cause.
        why: String,
    },
    /// The rules cannot be run.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// The configuration's `log` means nothing.
    #[error(
        "log = {log:?}: {why}; use a level (error, warn, info, debug, trace) or levels by module, such as info,ovs_driver=debug"
    )]
    Log {
        /// As it is configured.
        log: String,
        /// What is wrong with it.
        why: String,
    },
    /// A thread cannot be started, or has panicked.
    #[error("{0}")]
    Thread(String),
}

impl DaemonError {
    /// Whether what was given (rules, configuration) is at fault, and not the world outside.
    pub fn is_rejection(&self) -> bool {
        match self {
            DaemonError::Rules(error) => !matches!(error, RulesError::Load(_)),
            DaemonError::Restore { source, .. } => matches!(source, RestoreError::Rules(_)),
            DaemonError::Log { .. } => true,
            _ => false,
        }
    }
}

/// A controller that serves.
pub struct Daemon {
    engine: Engine,
    listen: Listen,
    thread: oneshot::Receiver<Result<(), EngineError>>,
    server: tokio::task::JoinHandle<Result<(), tonic::transport::Error>>,
    stop_server: oneshot::Sender<()>,
}

impl Daemon {
    /// Starts a controller; returns when it serves. Its switches are being connected then.
    pub async fn start(parts: Parts) -> Result<Daemon, DaemonError> {
        let Parts { state, listen, socket_mode, probe, rules, evaluator, drivers } = parts;
        // The lock comes first: it also says that a socket left behind is nobody's.
        let replay = Replay::open(&state)?;
        let listener = Listener::bind(listen, socket_mode).await?;
        let listen = listener.listen.clone();
        raise_descriptor_limit();
        if listen.is_open() {
            warn!(%listen, "insecure: other machines can connect and change the network, without encryption or authentication");
        }

        let (engine, requests) = Engine::new();
        let (event_sender, events) = mpsc::channel(EVENTS_MAX);
        let runtime = tokio::runtime::Handle::current();
        let (ready, started) = oneshot::channel();
        let (ended, thread_end) = oneshot::channel();
        let in_thread = move || {
            let prepared = prepare(evaluator, &rules, replay).map(|(core, journal)| {
                let mut fleet =
                    Fleet::new(rules.conventions().clone(), drivers, runtime.clone(), event_sender);
                fleet.start(core.objects(), |node| core.desired(node));
                let (reports, retry_at, turn) = (Vec::new(), None, Turn::default());
                Worker { core, journal, fleet, requests, events, turn, reports, retry_at }
            });
            match prepared {
                Ok(worker) => {
                    // If nobody waits any more, the requests' channel is closed too and the worker ends at once.
                    let _ = ready.send(Ok(()));
                    let _ = ended.send(worker.run(&runtime));
                }
                Err(error) => drop(ready.send(Err(error))),
            }
        };
        let spawned = thread::Builder::new().name("engine".to_owned()).spawn(in_thread);
        spawned.map_err(|error| DaemonError::Thread(format!("cannot start the engine's thread: {error}")))?;
        started.await.map_err(|_| DaemonError::Thread("the engine's thread has panicked".to_owned()))??;

        let (stop_server, stopped) = oneshot::channel();
        let server = tokio::spawn(serve(listener, Api::new(engine.clone()), probe, stopped));
        info!(%listen, state = %state.display(), "controller started");
        Ok(Daemon { engine, listen, thread: thread_end, server, stop_server })
    }

    /// Where it listens; a port that was 0 is a real one here.
    pub fn listen(&self) -> &Listen {
        &self.listen
    }

    /// Asks the engine, without the API.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Serves until `shutdown` is ready or something fails; then ends in order and within a second: the group of
    /// transactions at hand is answered if it ends in time, what waits is refused, the journal is whole, and the switches keep what they have.
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) -> Result<(), DaemonError> {
        let mut server_result = None;
        let mut engine_result = None;
        tokio::select! {
            () = shutdown => info!("controller stops; switches keep their flows"),
            result = &mut self.thread => engine_result = Some(result),
            result = &mut self.server => server_result = Some(result),
        }
        self.engine.stop();
        let engine_result = match engine_result {
            Some(result) => Some(result),
            None => tokio::time::timeout(ENGINE_GRACE, &mut self.thread).await.ok(),
        };
        // Nobody listening means that the server has ended.
        let _ = self.stop_server.send(());
        let server_result = match server_result {
            Some(result) => Some(result),
            None => tokio::time::timeout(CALLS_GRACE, &mut self.server).await.ok(),
        };
        self.server.abort();
        if let Listen::Unix(path) = &self.listen
            && let Err(error) = fs::remove_file(path)
        {
            warn!(socket = %path.display(), %error, "cannot remove the socket");
        }
        match engine_result {
            Some(Ok(result)) => result?,
            Some(Err(_)) => return Err(DaemonError::Thread("the engine's thread has panicked".to_owned())),
            None => warn!("the transaction under way takes too long to wait for; it was not answered"),
        }
        let serve = |why| DaemonError::Serve { listen: self.listen.clone(), why };
        match server_result {
            Some(Ok(Ok(()))) => Ok(()),
            Some(Ok(Err(error))) => Err(serve(error.to_string())),
            Some(Err(error)) => Err(serve(error.to_string())),
            None => {
                info!("calls that had not ended were cancelled");
                Ok(())
            }
        }
    }
}

/// Restores what the journal knows.
fn prepare(
    evaluator: MakeEvaluator,
    rules: &Arc<Rules>,
    mut replay: Replay,
) -> Result<(Core, Journal), DaemonError> {
    let path = replay.path().to_owned();
    let fault = |source| DaemonError::Restore { path: path.clone(), source };
    let mut history = History::default();
    for record in &mut replay {
        history.add(&record?).map_err(fault)?;
    }
    let transactions = replay.records();
    let evaluator = evaluator().map_err(DaemonError::Evaluator)?;
    let restored = Core::restore(evaluator, rules.clone(), history, SystemTime::now());
    let (core, correction) = restored.map_err(fault)?;
    // The file is not changed before all that it says is known to be good.
    let mut journal = replay.finish()?;
    if let Some(correction) = &correction {
        warn!(
            txn = correction.txn,
            "the journal has other rows than the present rules need; a transaction corrects them"
        );
        journal.append([correction])?;
    }
    log_problems(&ProblemChanges { new: core.problems().cloned().collect(), gone: Vec::new() });
    info!(transactions, objects = core.objects().iter().count(), "journal read");
    Ok((core, journal))
}

/// Serves the API until `stopped` is ready.
async fn serve(
    listener: Listener,
    api: Api,
    probe: Duration,
    stopped: oneshot::Receiver<()>,
) -> Result<(), tonic::transport::Error> {
    let service = ControllerServer::new(api)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    let router = Server::builder()
        .max_concurrent_streams(STREAMS_MAX)
        .http2_max_header_list_size(HEADERS_MAX)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .http2_keepalive_interval(Some(probe))
        .http2_keepalive_timeout(Some(probe))
        .add_service(WholeRequests::new(service));
    let stopped = async {
        // The sender dropped means the same.
        let _ = stopped.await;
    };
    router.serve_with_incoming_shutdown(listener.incoming(), stopped).await
}

/// Lets the process have as many descriptors as the system allows it: each switch needs two.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        debug!(%error, "the limit of open files stays");
    }
}
