//! Real daemons for tests, each set in a folder of its own; both go when the guard is dropped, on a panic too.
#![allow(dead_code, reason = "each test file uses a part")]
#![allow(clippy::unwrap_used, reason = "tests")]

pub(crate) mod proxy;

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ovsdb_client::{Change, Client, Endpoint, Event, MonitorSpec, Options, Replica};
use serde_json::Value;
use tokio::sync::mpsc::Receiver;

pub(crate) const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";

/// How long a test waits for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Kills a process and waits for it.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An ovsdb-server, and an ovs-vswitchd if asked for.
pub(crate) struct Server {
    // In this order: the daemons go before their folder.
    vswitchd: Option<Daemon>,
    database: Option<Daemon>,
    folder: tempfile::TempDir,
}

impl Server {
    /// A standalone database with the schema of Open vSwitch, initialised.
    pub(crate) fn start() -> Server {
        let server = Server::start_empty();
        server.vsctl(&["init"]);
        server
    }

    /// The same without the row that `init` makes.
    pub(crate) fn start_empty() -> Server {
        Server::start_created(|database| vec!["create".into(), database.into(), SCHEMA.into()])
    }

    /// A cluster of one server, whose transactions have ids.
    pub(crate) fn start_clustered() -> Server {
        let server = Server::start_created(|database| {
            let raft = format!("unix:{}", database.with_file_name("raft").display());
            vec!["create-cluster".into(), database.into(), SCHEMA.into(), raft.into()]
        });
        // A cluster serves once it has elected its leader.
        eventually(|| server.vsctl_status(&["init"]));
        server
    }

    fn start_created(create: impl Fn(&Path) -> Vec<std::ffi::OsString>) -> Server {
        let folder = tempfile::Builder::new().prefix("ovsdb-client-").tempdir().unwrap();
        run(Command::new("ovsdb-tool").args(create(&folder.path().join("conf.db"))));
        let mut server = Server { vswitchd: None, database: None, folder };
        server.resume();
        server
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        Endpoint::Unix(self.path("db.sock"))
    }

    /// Listens on a TCP port of the loopback interface as well.
    pub(crate) fn listen_on_tcp(&self) -> Endpoint {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let remote = format!("ptcp:{free}:127.0.0.1");
        run(Command::new("ovs-appctl")
            .arg("-t")
            .arg(self.path("db.ctl"))
            .args(["ovsdb-server/add-remote", &remote]));
        format!("tcp:127.0.0.1:{free}").parse().unwrap()
    }

    /// Kills the server; the database stays.
    pub(crate) fn stop(&mut self) {
        self.database = None;
    }

    /// Starts the server again.
    pub(crate) fn resume(&mut self) {
        let socket = self.path("db.sock");
        let _ = std::fs::remove_file(&socket);
        let child = Command::new("ovsdb-server")
            .arg("-vconsole:off")
            .arg(self.path("conf.db"))
            .arg(format!("--remote=punix:{}", socket.display()))
            .arg(format!("--unixctl={}", self.path("db.ctl").display()))
            .arg(format!("--log-file={}", self.path("db.log").display()))
            .current_dir(self.folder.path())
            .spawn()
            .expect("ovsdb-server of Open vSwitch is installed");
        self.database = Some(Daemon(child));
        eventually(|| UnixStream::connect(&socket).is_ok());
    }

    /// Starts an ovs-vswitchd, in a network namespace of its own that ends with it.
    pub(crate) fn start_vswitchd(&mut self) {
        let folder = self.folder.path();
        let child = Command::new("unshare")
            .args(["--net", "ovs-vswitchd", "--disable-system", "-vconsole:off"])
            .arg(format!("unix:{}", self.path("db.sock").display()))
            .arg(format!("--unixctl={}", self.path("vs.ctl").display()))
            .arg(format!("--pidfile={}", self.path("vs.pid").display()))
            .arg(format!("--log-file={}", self.path("vs.log").display()))
            .envs([("OVS_RUNDIR", folder), ("OVS_DBDIR", folder), ("OVS_LOGDIR", folder)])
            .current_dir(folder)
            .stderr(Stdio::null())
            .spawn()
            .expect("unshare");
        self.vswitchd = Some(Daemon(child));
    }

    /// Runs a change as a foreign client, without waiting for an ovs-vswitchd.
    pub(crate) fn vsctl(&self, arguments: &[&str]) {
        assert!(self.vsctl_status(arguments), "ovs-vsctl {arguments:?}");
    }

    fn vsctl_status(&self, arguments: &[&str]) -> bool {
        vsctl(&self.path("db.sock"), arguments)
    }

    /// Runs a transaction on the database file while the server is stopped.
    pub(crate) fn transact_offline(&self, transaction: &Value) {
        run(Command::new("ovsdb-tool")
            .arg("transact")
            .arg(self.path("conf.db"))
            .arg(transaction.to_string()));
    }

    /// The size of the database file, which grows with every transaction that changes something.
    pub(crate) fn log_size(&self) -> u64 {
        std::fs::metadata(self.path("conf.db")).unwrap().len()
    }

    pub(crate) fn client(&self, monitor: MonitorSpec) -> (Client, Receiver<Event>) {
        Client::spawn(self.endpoint(), "Open_vSwitch", monitor, Options::default())
    }
}

/// Runs a change as a foreign client and returns whether it worked.
pub(crate) fn vsctl(socket: &Path, arguments: &[&str]) -> bool {
    let database = format!("--db=unix:{}", socket.display());
    let mut command = Command::new("ovs-vsctl");
    command.args([&database, "--no-wait", "--timeout=10"]).args(arguments);
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Waits, on the thread, for a condition.
fn eventually(mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < end, "not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The next event.
pub(crate) async fn next(events: &mut Receiver<Event>) -> Event {
    tokio::time::timeout(PATIENCE, events.recv()).await.expect("an event in time").expect("a living client")
}

/// The next event, which must be changes.
pub(crate) async fn next_changes(events: &mut Receiver<Event>) -> Vec<Change> {
    match next(events).await {
        Event::Changes(changes) => changes,
        other => panic!("{other:?} instead of changes"),
    }
}

/// Waits for a connection and returns the changes that come with it.
pub(crate) async fn connected(events: &mut Receiver<Event>) -> Vec<Change> {
    loop {
        if next(events).await == Event::Connected {
            return next_changes(events).await;
        }
    }
}

/// The next reason for a lost connection.
pub(crate) async fn disconnected(events: &mut Receiver<Event>) -> String {
    loop {
        if let Event::Disconnected { why } = next(events).await {
            return why;
        }
    }
}

/// Applies the events that are there, without waiting, checking that each change starts where the last one ended.
pub(crate) fn follow(own: &mut Replica, events: &mut Receiver<Event>) {
    while let Ok(event) = events.try_recv() {
        if let Event::Changes(changes) = event {
            follow_changes(own, &changes);
        }
    }
}

pub(crate) fn follow_changes(own: &mut Replica, changes: &[Change]) {
    for change in changes {
        assert_eq!(own.row(&change.table, change.uuid), change.old.as_ref(), "{change:?}");
        assert_ne!(change.old, change.new);
    }
    own.apply(changes);
}
