//! `weft responder`: sends, from the host of a switch, the messages that flows cannot build.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use peer_connection::{Endpoint, Sockets};
use responder::{Config, Counts, ResponderError};
use sd_notify::NotifyState;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::exit::Failure;

/// Where Debian's Open vSwitch has the socket, and where the lock is, for br-int.
const SOCKET: &str = "/var/run/openvswitch/br-int.mgmt";
const LOCK: &str = "/run/weft-responder/br-int.lock";
/// How often in the time of systemd's watchdog the responder says that it is alive.
const TIMES: u32 = 4;

/// Arguments of `weft responder`.
#[derive(Args)]
#[command(
    after_help = "Run one on each host, beside ovs-vswitchd, as a user who can open the management socket of the\n\
        bridge. It sends time exceeded, destination unreachable, packet too big, TCP resets, router\n\
        advertisements and the answers of DHCP servers, as the flows of the bridge ask for. It needs\n\
        neither a configuration nor the controller. While it does not run, these messages are missing,\n\
        and nothing else changes.\n\n\
        It logs to standard error, once a minute, what it has answered and what not, and why. A receiver\n\
        gets at most 10 messages a second from a router or switch.\n\n\
        Without options: --socket /var/run/openvswitch/br-int.mgmt --lock /run/weft-responder/br-int.lock"
)]
pub(crate) struct Responder {
    /// The management socket of the bridge
    #[arg(long, value_name = "FILE", default_value = SOCKET, hide_default_value = true)]
    socket: PathBuf,
    /// A file that the responder of the bridge holds, so that no second one answers
    #[arg(long, value_name = "FILE", default_value = LOCK, hide_default_value = true)]
    lock: PathBuf,
    /// What is logged: error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log: String,
}

impl Responder {
    /// Runs the command until a signal ends it.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let filter = EnvFilter::try_new(&self.log)
            .map_err(|error| Failure::Usage(format!("--log: {error}; give a level such as `info`")))?;
        let socket = std::path::absolute(&self.socket)
            .map_err(|error| Failure::outside(self.socket.display(), error))?;
        let endpoint: Endpoint = format!("unix:{}", socket.display())
            .parse()
            .map_err(|error| Failure::Usage(format!("--socket: {error}")))?;
        tracing_subscriber::fmt()
            .with_writer(std::io::stderr)
            .with_ansi(false)
            .with_env_filter(filter)
            .init();
        let config = Config { endpoint, controller_id: responder::CONTROLLER_ID, lock: self.lock };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::outside("the runtime", error))?;
        runtime.block_on(answer(&config))
    }
}

/// Answers until a signal comes.
async fn answer(config: &Config) -> Result<(), Failure> {
    let signals = [SignalKind::terminate(), SignalKind::interrupt()].map(signal);
    let [Ok(mut terminated), Ok(mut interrupted)] = signals else {
        return Err(Failure::Ended("the system lets no signal be awaited".to_owned()));
    };
    let counts = Arc::new(Counts::default());
    let dialler = Sockets::default();
    let answers = responder::run(config, &dialler, &counts);
    let ended = tokio::select! {
        ended = answers => ended.map(|never| match never {}),
        _ = terminated.recv() => Ok(()),
        _ = interrupted.recv() => Ok(()),
        () = stay_alive() => Ok(()),
    };
    tell(NotifyState::Stopping);
    match ended {
        Ok(()) => {
            tracing::info!(since_start = %counts, "ends");
            Ok(())
        }
        Err(error @ (ResponderError::Running { .. } | ResponderError::Lock { .. })) => {
            Err(Failure::Ended(error.to_string()))
        }
    }
}

/// Tells systemd that the responder runs, and then that it is alive, if it wants to know. Never completes.
async fn stay_alive() {
    tell(NotifyState::Ready);
    let Some(limit) = sd_notify::watchdog_enabled() else { return std::future::pending().await };
    let mut every = tokio::time::interval((limit / TIMES).max(Duration::from_millis(1)));
    loop {
        every.tick().await;
        tell(NotifyState::Watchdog);
    }
}

fn tell(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::debug!(%error, "systemd cannot be told of the state of the service");
    }
}
