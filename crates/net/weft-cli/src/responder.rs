//! `weft responder`: sends, from the host of a switch, the messages that flows cannot build.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use peer_connection::{Endpoint, Sockets};
use responder::{Config, Counts, Database, ResponderError};
use sd_notify::NotifyState;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;
use tracing_subscriber::EnvFilter;

use crate::exit::Failure;

/// Where Debian's Open vSwitch has the socket, and where the lock is, for br-int.
const SOCKET: &str = "/var/run/openvswitch/br-int.mgmt";
const LOCK: &str = "/run/weft-responder/br-int.lock";
/// The name of the database's socket, which Open vSwitch has in the folder of those of its bridges.
const DATABASE: &str = "db.sock";
/// The longest time for which a switch that starts may wait for the responder.
const SETTLED_MAX: Duration = Duration::from_secs(3);
/// How often in the time of systemd's watchdog the responder says that it is alive.
const TIMES: u32 = 4;

/// Arguments of `weft responder`.
#[derive(Args)]
#[command(
    after_help = "Run one on each host, beside ovs-vswitchd, as a user who can open the management socket of the\n\
        bridge. It sends time exceeded, destination unreachable, packet too big, TCP resets, router\n\
        advertisements, the answers of DHCP and DNS servers, and announcements of addresses, as the flows\n\
        of the bridge ask for. It needs neither a configuration nor the controller. While it does not\n\
        run, these messages are missing, and nothing else changes.\n\n\
        Of a host that others choose by BFD, such as a gateway, it also sets bfd:cpath_down of the tunnel\n\
        ports in the database while the host does not have its flows, or its uplink is down. So start it\n\
        before ovs-vswitchd.\n\n\
        It logs to standard error, once a minute, what it has answered and what not, and why. A receiver\n\
        gets at most 10 messages a second from a router or switch.\n\n\
        The bridge has the name of the socket. Without --database, the database is db.sock in the same\n\
        folder.\n\n\
        Without options: --socket /var/run/openvswitch/br-int.mgmt --lock /run/weft-responder/br-int.lock"
)]
pub(crate) struct Responder {
    /// The management socket of the bridge
    #[arg(long, value_name = "FILE", default_value = SOCKET, hide_default_value = true)]
    socket: PathBuf,
    /// The socket of the database of the switch
    #[arg(long, value_name = "FILE")]
    database: Option<PathBuf>,
    /// A file that a responder locks, so that no second one answers
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
        let database = self.database(&socket)?;
        let config = Config {
            endpoint,
            controller_id: responder::CONTROLLER_ID,
            database: Some(database),
            lock: self.lock,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::outside("the runtime", error))?;
        runtime.block_on(answer(&config))
    }
}

impl Responder {
    /// The database of the switch whose bridge has this socket.
    fn database(&self, socket: &Path) -> Result<Database, Failure> {
        let file = self.database.clone().unwrap_or_else(|| socket.with_file_name(DATABASE));
        let file = std::path::absolute(&file).map_err(|error| Failure::outside(file.display(), error))?;
        let endpoint = format!("unix:{}", file.display())
            .parse()
            .map_err(|error| Failure::Usage(format!("--database: {error}")))?;
        let bridge = socket.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Database { endpoint, bridge })
    }
}

/// Answers until a signal comes.
async fn answer(config: &Config) -> Result<(), Failure> {
    let signals = [SignalKind::terminate(), SignalKind::interrupt()].map(signal);
    let [Ok(mut terminated), Ok(mut interrupted)] = signals else {
        return Err(Failure::Ended("the system lets no signal be awaited".to_owned()));
    };
    let counts = Arc::new(Counts::default());
    let settled = Notify::new();
    let answers = responder::run(config, Arc::new(Sockets::default()), &counts, &settled);
    let ended = tokio::select! {
        ended = answers => ended.map(|never| match never {}),
        _ = terminated.recv() => Ok(()),
        _ = interrupted.recv() => Ok(()),
        () = stay_alive(&settled) => Ok(()),
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

/// Tells systemd that the responder runs, once the database says what it has to say before the switch starts, and then that it is alive, if
/// systemd wants to know. Never completes.
async fn stay_alive(settled: &Notify) {
    if tokio::time::timeout(SETTLED_MAX, settled.notified()).await.is_err() {
        tracing::warn!("the database of the switch does not answer; the switch may start without it");
    }
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
