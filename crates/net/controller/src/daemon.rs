//! The daemon: assembles rules, journal, engine, switches and API, and takes them apart again.
//!
//! The order matters. The steps that can fail because of the configuration come first (rules, address, state folder),
//! then the journal. The controller touches a switch only after it has restored its whole state.

use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use mutual_tls::{Credentials, CredentialsError};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::{mpsc, oneshot, watch};
use tracing::{debug, error, info, warn};
use weft_core::core::{Core, History, MakeEvaluator, RestoreError};
use weft_core::machine::Machine;
use weft_core::record::Record;
use weft_core::rules::{Rules, RulesError};

use crate::api::Api;
use crate::config::{CounterSettings, Listen, Settings, SocketMode};
use crate::counter_readings::CounterReadings;
use crate::diagnostics::Diagnostics;
use crate::dial_in::{DialIn, Entrances, Targets};
use crate::drivers::{Drivers, Running, Start};
use crate::engine::{self, Engine, EngineError, Saving, Worker};
use crate::evaluators::edit;
use crate::http::LastStored;
use crate::identification::Identification;
use crate::journal::{self, Journal, JournalError, Lock, Records, Replay, Saved};
use crate::listener::{BindError, Listener, SocketFile};
use crate::running_rules::RunningRules;
use crate::server::serve;
use crate::spans::Spans;
use crate::tokens::{TokenFileError, Tokens};

/// The number of news of all switches that may wait for the engine.
const NEWS_MAX: usize = 1024;
/// The time that the current transaction has to end after the controller is told to stop, and that open calls have
/// after it. A transaction that takes longer ends with the process; no client has been told that it was accepted.
const ENGINE_GRACE: Duration = Duration::from_millis(600);
const CALLS_GRACE: Duration = Duration::from_millis(200);
/// The time that the rows of the engine have to be saved for the next start, after the API has ended. Without them, it derives all rows.
const SAVE_GRACE: Duration = Duration::from_secs(30);
/// The time that the last spans have to be sent.
const SPANS_GRACE: Duration = Duration::from_millis(300);
/// The value of [`Parts::probe`] outside tests.
pub const PROBE: Duration = Duration::from_secs(10);

/// What a controller is made of.
pub struct Parts {
    /// The folder of the journal.
    pub state: PathBuf,
    /// Where the API listens.
    pub listen: Listen,
    /// Where metrics are served besides, without encryption.
    pub listen_metrics: Option<SocketAddr>,
    /// The permissions of a unix socket that it listens on.
    pub socket_mode: SocketMode,
    /// The certificate of the API over TCP, and of `ssl:` endpoints of switches. Without it, the API over TCP is not encrypted.
    pub credentials: Option<Arc<Credentials>>,
    /// The tokens of clients, if there are any.
    pub tokens: Option<Arc<Tokens>>,
    /// How often the server probes a connection, and how long a live client may take to answer.
    pub probe: Duration,
    /// What can change while it runs.
    pub settings: Settings,
    /// Which counters of switches are in the metrics. This can change too.
    pub counters: CounterSettings,
    /// The configured rules.
    pub rules: Arc<Rules>,
    /// Makes what runs rules, in the thread that it runs in.
    pub evaluator: MakeEvaluator,
    /// Reaches the switches.
    pub drivers: Box<dyn Drivers>,
    /// Where switches dial in. Needs `credentials`.
    pub dial_in: Option<DialIn>,
    /// Makes the spans of calls, if there is a receiver.
    pub spans: Option<Spans>,
    /// Whether the controller takes the switches of other controllers.
    pub take_over: bool,
    /// Its configuration and its log, for those who ask.
    pub diagnostics: Diagnostics,
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
    /// Certificates cannot be used.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// The file of tokens cannot be used.
    #[error(transparent)]
    Tokens(#[from] TokenFileError),
    /// A thread cannot be started, or has panicked.
    #[error("{0}")]
    Thread(String),
}

impl From<BindError> for DaemonError {
    fn from(BindError { listen, why }: BindError) -> Self {
        DaemonError::Listen { listen, why }
    }
}

impl DaemonError {
    /// Whether the input (rules, configuration) is at fault, rather than the environment.
    pub fn is_rejection(&self) -> bool {
        match self {
            DaemonError::Rules(error) => !matches!(error, RulesError::Load(_)),
            DaemonError::Restore { source, .. } => matches!(source, RestoreError::Rules(_)),
            DaemonError::Credentials(error) => !matches!(error, CredentialsError::Unreadable { .. }),
            DaemonError::Tokens(error) => matches!(error, TokenFileError::Content { .. }),
            _ => false,
        }
    }
}

/// A controller that serves.
pub struct Daemon {
    engine: Engine,
    listen: Listen,
    socket: Option<SocketFile>,
    /// The lock of the state folder. A successor that holds it may use the socket's path, so it is released last of all.
    _lock: Arc<Lock>,
    thread: oneshot::Receiver<Result<(), EngineError>>,
    /// Ends once the thread has saved its rows.
    saved: oneshot::Receiver<()>,
    server: tokio::task::JoinHandle<std::io::Result<()>>,
    stop_server: oneshot::Sender<()>,
    /// Serves metrics besides, and where.
    metrics: Option<(Listen, tokio::task::JoinHandle<()>)>,
    _stop_metrics: oneshot::Sender<()>,
    /// Reports an engine thread that does not turn.
    watch: tokio::task::JoinHandle<()>,
    /// Keeps the health service of gRPC up to date.
    health: tokio::task::JoinHandle<()>,
    /// Wakes those who wait for changes of objects.
    forward: tokio::task::JoinHandle<()>,
    /// Reads counters of switches for the metrics.
    counting: tokio::task::JoinHandle<()>,
    counters: watch::Sender<CounterSettings>,
    /// Reads the files of certificates again.
    certificates: Option<tokio::task::JoinHandle<()>>,
    targets: Targets,
    spans: Option<Spans>,
    /// Admit switches that dial in.
    admitting: Vec<tokio::task::JoinHandle<()>>,
}

impl Daemon {
    /// Starts a controller. Returns once the API serves requests; switches may still be connecting.
    pub async fn start(parts: Parts) -> Result<Daemon, DaemonError> {
        let Parts {
            state,
            listen,
            listen_metrics,
            socket_mode,
            credentials,
            tokens,
            probe,
            settings,
            counters,
            rules,
            evaluator,
            drivers,
            dial_in,
            spans,
            take_over,
            diagnostics,
        } = parts;
        // The lock comes first: it proves that no process uses a socket left behind.
        let replay = Replay::open(&state)?;
        let lock = replay.lock();
        let now = SystemTime::now();
        let start = Start::new(journal::next_epoch(&state, now)?, now, take_over);
        let listener = Listener::bind(listen, socket_mode).await;
        let listener = listener?;
        let (listen, socket) = (listener.listen.clone(), listener.socket.clone());
        let metrics_listener = match listen_metrics {
            Some(address) => Some(Listener::bind(Listen::Tcp(address), socket_mode).await?),
            None => None,
        };
        let metrics_address = metrics_listener.as_ref().map(|listener| listener.listen.clone());
        let inbound = dial_in.as_ref().map(|dial_in| dial_in.inbound.clone());
        let entrances = match dial_in {
            Some(dial_in) => Some(Entrances::bind(dial_in).await?),
            None => None,
        };
        let targets = entrances.as_ref().map(|entrances| entrances.targets.clone()).unwrap_or_default();
        raise_descriptor_limit();

        let (engine, mut requests) = Engine::new(RunningRules::new(rules.clone()), settings);
        requests.spans.clone_from(&spans);
        let (sender, news) = mpsc::channel(NEWS_MAX);
        let runtime = tokio::runtime::Handle::current();
        let (ready, started) = oneshot::channel();
        let (ended, thread_end) = oneshot::channel();
        let (saving, saved) = oneshot::channel();
        let api = Api::new(
            engine.clone(),
            replay.path().to_owned(),
            evaluator.clone(),
            credentials.clone(),
            inbound,
            diagnostics,
        );
        let running = engine.rules().clone();
        let watching = engine.activity().clone().watch(move |fingerprint| running.get().told(fingerprint));
        let dialled = targets.clone();
        let in_thread = move || {
            let prepared =
                prepare(&evaluator, &rules, replay).and_then(|Prepared { mut core, journal, saving }| {
                    core.tell(requests.activity.progress().clone());
                    core.make_evaluators_with(evaluator);
                    core.edit_evaluators_with(Arc::new(edit));
                    let conventions = core.rules().conventions().clone();
                    let drivers =
                        Running::new(drivers, runtime.clone(), sender, conventions, (Some(start), dialled));
                    let status = requests.status.clone();
                    let (machine, orders) = Machine::start(core, &settings.policy, status, engine::now());
                    Ok(Worker::new((machine, orders), (journal, saving), drivers, requests, news)?)
                });
            match prepared {
                Ok(worker) => {
                    // If nobody waits any more, the requests' channel is closed too and the worker ends at once.
                    let _ = ready.send(Ok(()));
                    match worker.run(&runtime) {
                        Ok(rest) => {
                            let _ = ended.send(Ok(()));
                            let machine = rest.save();
                            // The end of the process waits for this, not for the memory to be freed.
                            drop(saving);
                            drop(machine);
                        }
                        Err(error) => drop(ended.send(Err(error))),
                    }
                }
                Err(error) => drop(ready.send(Err(error))),
            }
        };
        // Connections are served already, so that clients know that somebody is there. Their requests wait until the state is restored.
        let (restored, is_restored) = watch::channel(false);
        let stored = LastStored::default();
        let (app, health) = crate::http::app(api, is_restored.clone(), (spans.clone(), stored.clone()))
            .map_err(DaemonError::Thread)?;
        let health = tokio::spawn(health);
        let (stop_server, stopped) = oneshot::channel();
        let identification = Identification { credentials: credentials.clone(), tokens };
        let metrics = engine.metrics().clone();
        let server = tokio::spawn(serve(listener, app, probe, (identification, metrics.clone()), stopped));
        let (stop_metrics, metrics_stopped) = oneshot::channel();
        let of_metrics = metrics_listener.map(|listener| {
            let app = crate::http::apart(&engine, is_restored, stored);
            let listen = listener.listen.clone();
            let served = serve(listener, app, probe, (Identification::default(), metrics), metrics_stopped);
            tokio::spawn(async move {
                if let Err(error) = served.await {
                    error!(%listen, %error, "metrics are served there no longer; restart the controller");
                }
            })
        });
        let failed = |why: String| Err(DaemonError::Thread(why));
        let begun = match thread::Builder::new().name("engine".to_owned()).spawn(in_thread) {
            Ok(_) => started.await.unwrap_or_else(|_| failed("the engine's thread has panicked".to_owned())),
            Err(error) => failed(format!("cannot start the engine's thread: {error}")),
        };
        if let Err(error) = begun {
            server.abort();
            health.abort();
            if let Some(server) = of_metrics {
                server.abort();
            }
            // Its socket is free once it has ended.
            drop(server.await);
            return Err(error);
        }
        restored.send_replace(true);

        let watch = tokio::spawn(watching);
        let admitting = match (entrances, &credentials) {
            (Some(entrances), Some(credentials)) => entrances.admit(credentials),
            _ => Vec::new(),
        };
        let certificates = credentials.map(|credentials| tokio::spawn(credentials.follow()));
        let forward = tokio::spawn(engine.object_news().clone().forward());
        let (counters, settings_of_counters) = watch::channel(counters);
        let counting = tokio::spawn(CounterReadings::new(engine.clone(), settings_of_counters).follow());
        let packages = engine.rules().get().packages().join(", ");
        let metrics_at = metrics_address.as_ref().map(tracing::field::display);
        info!(%listen, metrics = metrics_at, state = %state.display(), rules = packages, "controller started");
        Ok(Daemon {
            engine,
            listen,
            socket,
            _lock: lock,
            thread: thread_end,
            saved,
            server,
            stop_server,
            metrics: metrics_address.zip(of_metrics),
            _stop_metrics: stop_metrics,
            watch,
            health,
            forward,
            counting,
            counters,
            certificates,
            targets,
            spans,
            admitting,
        })
    }

    /// The address; if the configured port was 0, the assigned one.
    pub fn listen(&self) -> &Listen {
        &self.listen
    }

    /// Where metrics are served besides; if the configured port was 0, with the assigned one.
    pub fn metrics_listen(&self) -> Option<&Listen> {
        self.metrics.as_ref().map(|(listen, _)| listen)
    }

    /// What switches must be told to dial in.
    pub fn targets(&self) -> &Targets {
        &self.targets
    }

    /// Asks the engine, without the API.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Decides which counters of switches are in the metrics.
    pub(crate) fn counters(&self) -> watch::Sender<CounterSettings> {
        self.counters.clone()
    }

    /// Serves until `shutdown` completes or something fails, and then ends in order and within a second. The current
    /// group of transactions is answered if it ends in time, waiting requests are refused, the journal stays
    /// complete, and the switches keep their state. Then the rows of the engine are saved for the next start, for thirty seconds
    /// at most.
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) -> Result<(), DaemonError> {
        let mut server_result = None;
        let mut engine_result = None;
        tokio::select! {
            () = shutdown => info!("controller stops; switches keep their flows"),
            result = &mut self.thread => engine_result = Some(result),
            result = &mut self.server => server_result = Some(result),
        }
        self.watch.abort();
        self.health.abort();
        self.forward.abort();
        self.counting.abort();
        for task in self.certificates.iter().chain(&self.admitting) {
            task.abort();
        }
        if let Some((_, server)) = &self.metrics {
            server.abort();
        }
        self.engine.stop();
        let engine_result = match engine_result {
            Some(result) => Some(result),
            None => tokio::time::timeout(ENGINE_GRACE, &mut self.thread).await.ok(),
        };
        // The send fails only if the server has ended already.
        let _ = self.stop_server.send(());
        let server_result = match server_result {
            Some(result) => Some(result),
            None => tokio::time::timeout(CALLS_GRACE, &mut self.server).await.ok(),
        };
        self.server.abort();
        if let Some(socket) = &self.socket {
            socket.remove();
        }
        match engine_result {
            Some(Ok(result)) => {
                result?;
                if tokio::time::timeout(SAVE_GRACE, &mut self.saved).await.is_err() {
                    warn!("saving the rows of the engine takes too long; the next start derives them");
                }
                if let Some(spans) = &self.spans {
                    spans.flush(SPANS_GRACE).await;
                }
            }
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

/// What a worker begins with.
pub(crate) struct Prepared {
    pub(crate) core: Core,
    pub(crate) journal: Journal,
    pub(crate) saving: Saving,
}

/// Restores what the journal knows, with the rows that were saved beside it if they can be used.
pub(crate) fn prepare(
    evaluator: &MakeEvaluator,
    rules: &Arc<Rules>,
    mut replay: Replay,
) -> Result<Prepared, DaemonError> {
    let mut saved = Saved::open(replay.folder());
    let restored = restore(evaluator, rules, replay.reading(), saved.as_mut());
    if let (Err(_), Some(saved)) = (&restored, &saved) {
        saved.forget();
    }
    let (core, correction, from) = restored?;
    let transactions = replay.records();
    // The file changes only after all its records were restored.
    let mut journal = replay.finish()?;
    if let Some(correction) = &correction {
        warn!(
            txn = correction.txn,
            "the journal has other rows than the present rules need; a transaction corrects them"
        );
        journal.append([correction])?;
    }
    info!(transactions, objects = core.objects().iter().count(), "journal read");
    Ok(Prepared { core, journal, saving: Saving::new(from.unwrap_or_default()) })
}

/// Restores the state that the records of a journal add up to. Also returns the record that corrects the journal, if one must, and the
/// transaction of the saved rows that it began with.
pub(crate) fn restore(
    evaluator: &MakeEvaluator,
    rules: &Arc<Rules>,
    records: &mut Records,
    mut saved: Option<&mut Saved>,
) -> Result<(Core, Option<Record>, Option<u64>), DaemonError> {
    let path = records.path().to_owned();
    let fault = |source| DaemonError::Restore { path: path.clone(), source };
    let mut history = History::new(rules);
    while let Some(record) = records.next().transpose()? {
        history.add(&record).map_err(fault)?;
        if let Some(saved) = &mut saved {
            saved.follow(records);
        }
    }
    let rules = history.rules_to_run(rules);
    let evaluator = evaluator(&rules).map_err(DaemonError::Evaluator)?;
    let rows = saved.and_then(|saved| saved.rows(records, &rules));
    Core::restore_from(evaluator, rules, history, rows, SystemTime::now()).map_err(fault)
}

/// Whether a controller with these rules could start from the state in a folder. Changes nothing, and needs no lock: a controller
/// may run there.
pub(crate) fn check_state(
    state: &Path,
    rules: &Arc<Rules>,
    evaluator: &MakeEvaluator,
) -> Result<(), DaemonError> {
    let Some(mut records) = Records::read(state)? else { return Ok(()) };
    restore(evaluator, rules, &mut records, None).map(|_| ())
}

/// Raises the limit of open files to the system's maximum: each switch needs two descriptors.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        debug!(%error, "the limit of open files stays");
    }
}
