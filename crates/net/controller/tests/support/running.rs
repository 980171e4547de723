//! A whole controller for a test: the interface over a unix socket, the journal on disk, switches in the test's hands.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use controller::config::SocketMode;
use controller::dial_in::Targets;
use controller::engine::Engine;
use controller::{Daemon, DaemonError, Listen, PROBE, Parts};
use nlog_data::Evaluator;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use weft_client::pb;
use weft_client::{Client, ClientError};
use weft_core::Rules;

use crate::support::drivers::Switches;
use crate::support::web::Web;
use crate::support::{RULES, reference, rules};

/// Whatever is waited for comes within this time, or the test fails.
pub(crate) const DEADLINE: Duration = Duration::from_mins(1);

/// A controller in a folder of its own.
pub(crate) struct Running {
    #[allow(dead_code, reason = "most tests ask over the socket")]
    pub(crate) engine: Engine,
    socket: PathBuf,
    /// Where switches dial in.
    pub(crate) targets: Targets,
    pub(crate) switches: Switches,
    stop: oneshot::Sender<()>,
    end: JoinHandle<Result<(), DaemonError>>,
}

/// What such a controller is made of: the reference evaluator, and switches in the test's hands.
pub(crate) fn parts(folder: &Path, rules: Arc<Rules>, switches: &Switches) -> Parts {
    Parts {
        state: folder.join("state"),
        listen: Listen::Unix(folder.join("weft.sock")),
        socket_mode: SocketMode::default(),
        credentials: None,
        tokens: None,
        probe: PROBE,
        settings: controller::Config::default().settings(),
        counters: controller::Config::default().counters(),
        rules,
        evaluator: Arc::new(|rules: &Rules| Ok(reference(rules) as Box<dyn Evaluator>)),
        drivers: Box::new(switches.clone()),
        dial_in: None,
        listen_metrics: None,
        spans: None,
        take_over: false,
        diagnostics: controller::Diagnostics::default(),
    }
}

pub(crate) async fn start_with(parts: Parts, switches: Switches) -> Running {
    let Listen::Unix(socket) = parts.listen.clone() else { panic!("a unix socket") };
    let daemon = Daemon::start(parts).await.unwrap_or_else(|error| panic!("{error}"));
    let (engine, targets) = (daemon.engine().clone(), daemon.targets().clone());
    let (stop, stopped) = oneshot::channel();
    let end = tokio::spawn(daemon.run(async move { stopped.await.unwrap_or(()) }));
    Running { engine, socket, targets, switches, stop, end }
}

/// Starts a controller with the small rules.
pub(crate) async fn start(folder: &Path) -> Running {
    let switches = Switches::default();
    start_with(parts(folder, rules(RULES), &switches), switches).await
}

impl Running {
    #[allow(dead_code, reason = "most tests use a client")]
    pub(crate) fn endpoint(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    /// A client of HTTP.
    pub(crate) async fn web(&self) -> Web {
        Web::connect(&self.socket).await
    }

    pub(crate) async fn client(&self) -> Client {
        let endpoint = format!("unix:{}", self.socket.display());
        Client::connect(&endpoint).await.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Waits until it ends by itself.
    #[allow(dead_code, reason = "one test lets it fail")]
    pub(crate) async fn ends(self) -> Result<(), DaemonError> {
        within(self.end).await.expect("it does not panic")
    }

    /// Stops it in order; its state stays in its folder.
    pub(crate) async fn stop(self) {
        self.stop.send(()).expect("it runs");
        within(self.end).await.expect("it does not panic").unwrap_or_else(|error| panic!("{error}"));
    }
}

/// What a future gives, which must be there before the deadline.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future).await.unwrap_or_else(|_| panic!("not within {DEADLINE:?}"))
}

/// Waits until a status is as wanted.
pub(crate) async fn status_when(
    client: &mut Client,
    wanted: impl Fn(&pb::StatusResponse) -> bool,
) -> pb::StatusResponse {
    let deadline = tokio::time::Instant::now() + DEADLINE;
    loop {
        let status = client.status().await.expect("it serves");
        if wanted(&status) {
            return status;
        }
        assert!(tokio::time::Instant::now() < deadline, "not before the deadline: {status:#?}");
        tokio::task::yield_now().await;
    }
}

/// Applies a file of objects, as a client does.
pub(crate) async fn apply(client: &mut Client, text: &str) -> Result<pb::Accepted, ClientError> {
    client.apply([("net.yaml".to_owned(), text.to_owned())], "test").await
}
