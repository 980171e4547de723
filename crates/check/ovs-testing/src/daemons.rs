//! An `ovsdb-server` and an `ovs-vswitchd` for one test.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::tools::{must, schema, succeed, vsctl, wait_until};

/// Lines of a daemon's log that a failing test prints.
const LOG_LINES: usize = 60;

/// An `ovsdb-server`, and an `ovs-vswitchd` if asked for, in a temporary folder.
///
/// It does not touch the machine's network: `ovs-vswitchd` has dummy devices, or a separate network namespace. Both
/// daemons end when the value is dropped, and also when the test process is killed (`setpriv --pdeathsig`).
pub struct OpenVswitch {
    // In this order, because the daemons must end before their folder is removed.
    vswitchd: Option<Daemon>,
    database: Option<Daemon>,
    folder: TempDir,
}

/// A child process, killed when it is dropped.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl OpenVswitch {
    /// Starts both daemons with dummy devices, without any bridge. Bridges need `datapath_type=dummy`. This needs no
    /// privileges.
    pub fn start() -> OpenVswitch {
        let mut ovs = OpenVswitch::start_database_only();
        let command = ovs.daemon(&["ovs-vswitchd", "--enable-dummy"], "vs");
        ovs.run_vswitchd(command);
        ovs
    }

    /// Starts `ovsdb-server` alone, with an initialised database.
    pub fn start_database_only() -> OpenVswitch {
        let ovs = OpenVswitch::start_uninitialised();
        ovs.vsctl(&["init"]);
        ovs
    }

    /// Starts `ovsdb-server` alone, with a database that lacks the row that `ovs-vsctl init` makes.
    pub fn start_uninitialised() -> OpenVswitch {
        OpenVswitch::create(|database| {
            must(Command::new("ovsdb-tool").arg("create").arg(database).arg(schema()))
        })
    }

    /// Starts a clustered database of one server: its transactions have ids.
    pub fn start_clustered() -> OpenVswitch {
        let ovs = OpenVswitch::create(|database| {
            let raft = format!("unix:{}", database.with_file_name("raft").display());
            must(Command::new("ovsdb-tool").arg("create-cluster").arg(database).arg(schema()).arg(raft))
        });
        wait_until("the cluster has a leader", || vsctl(&ovs.path("db.sock"), &["init"]).is_ok());
        ovs
    }

    fn create(create: impl Fn(&Path) -> String) -> OpenVswitch {
        let folder = tempfile::Builder::new().prefix("weft-ovs-").tempdir().expect("a temporary folder");
        create(&folder.path().join("conf.db"));
        let mut ovs = OpenVswitch { vswitchd: None, database: None, folder };
        ovs.start_database();
        ovs
    }

    /// A file in the folder: `conf.db`, `db.sock`, `BRIDGE.mgmt`, and `ctl` and `log` of `db` and `vs`.
    pub fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    /// The connection to the database: `unix:PATH`.
    pub fn database(&self) -> String {
        format!("unix:{}", self.path("db.sock").display())
    }

    /// The connection to a bridge, for `OpenFlow`: `unix:PATH`.
    pub fn bridge(&self, bridge: &str) -> String {
        format!("unix:{}", self.path(&format!("{bridge}.mgmt")).display())
    }

    /// Starts or restarts `ovsdb-server`, with its existing database.
    pub fn start_database(&mut self) {
        let socket = self.path("db.sock");
        let mut command = self.daemon(&["ovsdb-server"], "db");
        command.arg(self.path("conf.db")).arg(format!("--remote=punix:{}", socket.display()));
        self.database = Some(spawn(command));
        wait_until("ovsdb-server listens", || UnixStream::connect(&socket).is_ok());
    }

    /// Kills `ovsdb-server` and waits for its end.
    pub fn kill_database(&mut self) {
        self.database = None;
        let _ = std::fs::remove_file(self.path("db.sock"));
    }

    /// Starts or restarts `ovs-vswitchd` with its userspace datapath and these options. It runs in an unnamed
    /// network namespace, so its devices end with it. This needs root.
    pub fn start_vswitchd(&mut self, options: &[&str]) {
        let mut command = self.daemon(&["unshare", "--net", "ovs-vswitchd"], "vs");
        command.args(options);
        self.run_vswitchd(command);
    }

    fn run_vswitchd(&mut self, mut command: Command) {
        let control = self.path("vs.ctl");
        command.arg("--disable-system").arg(self.database());
        self.vswitchd = Some(spawn(command));
        wait_until("ovs-vswitchd listens", || UnixStream::connect(&control).is_ok());
    }

    /// Kills `ovs-vswitchd` and waits for its end.
    pub fn kill_vswitchd(&mut self) {
        self.vswitchd = None;
        let _ = std::fs::remove_file(self.path("vs.ctl"));
    }

    /// The file that stands for the network namespace of `ovs-vswitchd`.
    pub fn network(&self) -> PathBuf {
        let Daemon(child) = self.vswitchd.as_ref().expect("ovs-vswitchd runs");
        PathBuf::from(format!("/proc/{}/ns/net", child.id()))
    }

    /// Sends a signal, `STOP` or `CONT`, to `ovs-vswitchd`.
    pub fn signal_vswitchd(&self, signal: &str) {
        let Daemon(child) = self.vswitchd.as_ref().expect("ovs-vswitchd runs");
        must(Command::new("kill").args(["-s", signal, &child.id().to_string()]));
    }

    /// Runs `ovs-vsctl`, which must succeed; it waits for `ovs-vswitchd` if that runs.
    pub fn vsctl(&self, arguments: &[&str]) -> String {
        let mut command = self.command("ovs-vsctl");
        command.args([&format!("--db={}", self.database()), "--timeout=30"]);
        if self.vswitchd.is_none() {
            command.arg("--no-wait");
        }
        must(command.args(arguments))
    }

    /// Runs `ovs-appctl` on `ovs-vswitchd`, which must succeed.
    pub fn appctl(&self, arguments: &[&str]) -> String {
        must(self.command("ovs-appctl").arg("--target").arg(self.path("vs.ctl")).args(arguments))
    }

    /// Runs `ovs-appctl` on `ovsdb-server`, which must succeed.
    pub fn database_appctl(&self, arguments: &[&str]) -> String {
        must(self.command("ovs-appctl").arg("--target").arg(self.path("db.ctl")).args(arguments))
    }

    /// Runs `ovs-ofctl` for OpenFlow 1.5.
    ///
    /// # Errors
    /// Its error output.
    pub fn try_ofctl(&self, arguments: &[&str]) -> Result<String, String> {
        succeed(self.command("ovs-ofctl").args(["-O", "OpenFlow15", "--no-names"]).args(arguments))
    }

    /// A program of Open vSwitch that finds sockets in the folder; not yet started.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        for variable in ["OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR"] {
            command.env(variable, self.folder.path());
        }
        command
    }

    fn daemon(&self, words: &[&str], files: &str) -> Command {
        let mut command = self.command("setpriv");
        command.args(["--pdeathsig", "KILL"]).args(words).args(["-vconsole:off", "-vsyslog:off"]);
        command.arg(format!("--unixctl={}", self.path(&format!("{files}.ctl")).display()));
        command.arg(format!("--log-file={}", self.path(&format!("{files}.log")).display()));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }
}

impl Drop for OpenVswitch {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        for file in ["db.log", "vs.log"] {
            let Ok(log) = std::fs::read(self.path(file)) else { continue };
            let log = String::from_utf8_lossy(&log);
            let lines: Vec<&str> = log.lines().collect();
            let end = &lines[lines.len().saturating_sub(LOG_LINES)..];
            eprintln!("--- the end of {file} ---\n{}", end.join("\n"));
        }
    }
}

fn spawn(mut command: Command) -> Daemon {
    Daemon(command.spawn().unwrap_or_else(|error| {
        panic!("cannot start {command:?}: {error}; install setpriv with: apt-get install -y util-linux")
    }))
}
