//! Runs a controller with its configuration, from signal handlers to exit.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use mutual_tls::Credentials;
use ovs_driver::{Inbound, Peers, Sockets};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};
use tracing::warn;
use weft_core::rules::Rules;

use crate::config::{Config, Effective};
use crate::daemon::{Daemon, DaemonError, PROBE, Parts, check_state};
use crate::diagnostics::Diagnostics;
use crate::dial_in::DialIn;
use crate::drivers::RealDrivers;
use crate::evaluators::dataflow;
use crate::log::{self, Level};
use crate::reload::Reload;
use crate::service;
use crate::spans::Spans;
use crate::tokens::Tokens;

/// How long a thread that decoded or parsed a request waits for more work. The allocator gets all its memory back only
/// when the thread ends.
const IDLE_MAX: Duration = Duration::from_secs(1);

/// How long the end of the process waits for a reader of the log.
const LOG_GRACE: Duration = Duration::from_millis(200);

/// Runs a controller until it receives SIGTERM or SIGINT, or something fails. With SIGHUP it reads its configuration again. Logs to standard
/// error.
///
/// Its threads call `before_sleep` whenever they run out of work: an allocator that keeps freed memory for each thread can
/// give it back there.
pub fn run(effective: &Effective, before_sleep: fn()) -> Result<(), DaemonError> {
    let log = start_log(&effective.config)?;
    let diagnostics = Diagnostics::new(log.last_lines());
    diagnostics.configured(&effective.to_string());
    let result = serve(effective, log.level.clone(), diagnostics, before_sleep);
    log.flush(LOG_GRACE);
    result
}

/// Before keys are read: they stay in memory, so whoever gets a core dump would get them.
fn leave_no_core_dump() {
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        warn!(%error, "a core dump of the controller would contain its keys");
    }
}

fn serve(
    effective: &Effective,
    level: Level,
    diagnostics: Diagnostics,
    before_sleep: fn(),
) -> Result<(), DaemonError> {
    let config = &effective.config;
    let rules = Arc::new(Rules::load(config.rules.paths())?);
    let threads = std::thread::available_parallelism().map_or(2, |cores| (cores.get() / 2).max(2));
    let memory = (config.switch_memory.get() as usize) << 20;
    let certificates = config.certificates();
    if certificates.is_some() {
        leave_no_core_dump();
    }
    let credentials = certificates.map(Credentials::load).transpose()?;
    let tokens = tokens(config)?;
    let sockets = Sockets::default().with_credentials(credentials.clone());
    let inbound = sockets.inbound().clone();
    let peers = Peers::start(Arc::new(sockets), threads, memory, before_sleep)
        .map_err(|error| DaemonError::Thread(format!("cannot start the threads of switches: {error}")))?;
    let dial_in = dial_in(config, inbound, &peers);
    let parts = Parts {
        state: config.state.clone(),
        listen: config.listen.clone(),
        listen_metrics: config.listen_metrics,
        socket_mode: config.socket_mode,
        credentials,
        tokens,
        probe: PROBE,
        settings: config.settings(),
        counters: config.counters(),
        evaluator: dataflow(config),
        rules,
        dial_in,
        drivers: Box::new(RealDrivers { learned_addresses: config.learned_addresses, peers }),
        spans: None,
        take_over: config.take_over,
        diagnostics: diagnostics.clone(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_keep_alive(IDLE_MAX)
        .on_thread_park(before_sleep)
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| DaemonError::Thread(format!("cannot start threads: {error}")))?;
    let parts = Parts { spans: spans(config, runtime.handle())?, ..parts };
    let result = runtime.block_on(async {
        // Before anything starts, so that no signal is lost.
        let handler = |error: io::Error| DaemonError::Thread(format!("cannot handle signals: {error}"));
        let mut terminate = signal(SignalKind::terminate()).map_err(handler)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(handler)?;
        let hangups = signal(SignalKind::hangup()).map_err(handler)?;
        let shutdown = async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        let mut shutdown = std::pin::pin!(shutdown);
        // In a separate task, since reading a long journal never yields.
        let mut start = tokio::spawn(Daemon::start(parts));
        let daemon = tokio::select! {
            daemon = &mut start => daemon,
            () = &mut shutdown => return Ok(()),
        };
        let panicked = |error| DaemonError::Thread(format!("the start has failed: {error}"));
        let daemon = daemon.map_err(panicked)??;
        let reload =
            Reload::new(effective.clone(), daemon.engine().clone(), daemon.counters(), level, diagnostics);
        let reload = tokio::spawn(reload.follow(hangups));
        tokio::spawn(service::stay_alive(daemon.engine().activity().clone()));
        service::serves();
        let stopped = async {
            shutdown.await;
            service::stops();
        };
        let result = daemon.run(stopped).await;
        reload.abort();
        result
    });
    // Threads that still compute are not awaited.
    runtime.shutdown_background();
    result
}

/// What makes the spans of calls, if the configuration names their receiver.
fn spans(config: &Config, runtime: &Handle) -> Result<Option<Spans>, DaemonError> {
    let Some(endpoint) = &config.otlp_endpoint else { return Ok(None) };
    let started = Spans::start(endpoint.as_str(), config.otlp_sample.get(), runtime);
    started.map(Some).map_err(|why| DaemonError::Thread(format!("cannot send spans: {why}")))
}

/// Where switches dial in, if the configuration says so.
fn dial_in(config: &Config, inbound: Arc<Inbound>, peers: &Peers) -> Option<DialIn> {
    let (ovsdb, openflow) = (config.listen_ovsdb, config.listen_openflow);
    if ovsdb.is_none() && openflow.is_none() {
        return None;
    }
    let (advertise, threads) = (config.advertise.clone(), peers.threads()?.clone());
    Some(DialIn { ovsdb, openflow, advertise, inbound, threads })
}

/// Checks the configuration, the rules, and whether they accept the state, without starting a controller. Writes nothing; a
/// controller may run meanwhile.
pub fn check(config: &Config) -> Result<(), DaemonError> {
    let log = start_log(config)?;
    let certificates = config.certificates().map(Credentials::load).transpose();
    let identification = certificates.map_err(DaemonError::from).and_then(|_| tokens(config));
    let rules = identification.and_then(|_| Ok(Rules::load(config.rules.paths())?));
    let checked = rules.and_then(|rules| {
        let rules = Arc::new(rules);
        check_state(&config.state, &rules, &dataflow(config))
    });
    log.flush(LOG_GRACE);
    checked
}

/// The tokens of clients, if the configuration names their file.
fn tokens(config: &Config) -> Result<Option<Arc<Tokens>>, DaemonError> {
    let tokens = config.tokens.as_deref().map(Tokens::open).transpose()?;
    Ok(tokens.map(Arc::new))
}

/// Starts the log.
fn start_log(config: &Config) -> Result<log::Started, DaemonError> {
    log::start(config)
        .map_err(|error| DaemonError::Thread(format!("cannot start the threads of the log: {error}")))
}
