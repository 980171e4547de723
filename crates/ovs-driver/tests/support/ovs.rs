//! A real Open vSwitch for one test: `ovsdb-server` and `ovs-vswitchd` (userspace datapath) in a temporary folder.
//!
//! `ovs-vswitchd` runs in a network namespace of its own without a name, so that its devices vanish with it, and
//! both daemons are killed when this process ends in whatever way (`setpriv --pdeathsig`).

use std::collections::BTreeSet;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ovs_driver::Config;
use tempfile::TempDir;

use super::driven::PATIENCE;

pub struct Ovs {
    folder: TempDir,
    database: Option<Child>,
    vswitchd: Option<Child>,
}

impl Ovs {
    /// Starts both daemons, without any bridge. `None` if this machine cannot, which is said loudly.
    pub fn start() -> Option<Ovs> {
        if let Err(why) = possible() {
            eprintln!("SKIPPED: no real Open vSwitch for this test: {why}");
            assert!(std::env::var_os("WEFT_REQUIRE_OVS").is_none(), "WEFT_REQUIRE_OVS is set, and {why}");
            return None;
        }
        let folder = tempfile::Builder::new().prefix("weft-switch-").tempdir().expect("a temporary folder");
        let mut ovs = Ovs { folder, database: None, vswitchd: None };
        run(Command::new("ovsdb-tool")
            .arg("create")
            .arg(ovs.path("conf.db"))
            .arg(schema().expect("a schema")));
        ovs.start_database();
        ovs.vsctl(&["--no-wait", "init"]);
        ovs.start_vswitchd();
        Some(ovs)
    }

    pub fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    pub fn start_database(&mut self) {
        let socket = self.path("db.sock");
        let mut command = self.daemon(&["ovsdb-server"]);
        command.arg(self.path("conf.db")).arg(format!("--remote=punix:{}", socket.display()));
        command.arg(format!("--unixctl={}", self.path("db.ctl").display()));
        command.arg(format!("--log-file={}", self.path("db.log").display()));
        self.database = Some(command.spawn().expect("ovsdb-server starts"));
        wait_until("ovsdb-server listens", || UnixStream::connect(&socket).is_ok());
    }

    pub fn start_vswitchd(&mut self) {
        let control = self.path("vs.ctl");
        let mut command = self.daemon(&["unshare", "--net", "ovs-vswitchd", "--disable-system"]);
        command.arg(format!("unix:{}", self.path("db.sock").display()));
        command.arg(format!("--unixctl={}", control.display()));
        command.arg(format!("--log-file={}", self.path("vs.log").display()));
        // Every OpenFlow message goes to the log: there the switch's own count of flow-mods is taken.
        command.args(["-vconsole:off", "-vvconn:file:dbg"]);
        self.vswitchd = Some(command.spawn().expect("ovs-vswitchd starts"));
        wait_until("ovs-vswitchd listens", || UnixStream::connect(&control).is_ok());
        self.appctl(&["vlog/disable-rate-limit"]);
    }

    fn daemon(&self, words: &[&str]) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).args(words).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        for variable in ["OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR"] {
            command.env(variable, self.folder.path());
        }
        command
    }

    /// `kill -9`, and waits until it is gone.
    pub fn kill_vswitchd(&mut self) {
        kill(&mut self.vswitchd);
        let _ = std::fs::remove_file(self.path("vs.ctl"));
    }

    pub fn signal_vswitchd(&self, signal: &str) {
        let pid = self.vswitchd.as_ref().expect("it runs").id().to_string();
        run(Command::new("kill").args(["-s", signal, &pid]));
    }

    pub fn kill_database(&mut self) {
        kill(&mut self.database);
        let _ = std::fs::remove_file(self.path("db.sock"));
    }

    pub fn vsctl(&self, args: &[&str]) -> String {
        let database = format!("--db=unix:{}", self.path("db.sock").display());
        run(Command::new("ovs-vsctl").args(["--timeout=20", &database]).args(args))
    }

    pub fn appctl(&self, args: &[&str]) -> String {
        run(Command::new("ovs-appctl").arg("--target").arg(self.path("vs.ctl")).args(args))
    }

    pub fn ofctl(&self, args: &[&str]) -> String {
        let management = format!("unix:{}", self.path("br-int.mgmt").display());
        let args = args.iter().map(|arg| if *arg == "BRIDGE" { management.as_str() } else { arg });
        run(Command::new("ovs-ofctl").args(["-O", "OpenFlow15", "--no-names"]).args(args))
    }

    /// The flows, as Open vSwitch prints them, without what changes by itself; sorted.
    pub fn flows(&self) -> Vec<String> {
        let dump = self.ofctl(&["--no-stats", "dump-flows", "BRIDGE"]);
        let mut flows: Vec<String> = dump.lines().map(|line| line.trim().to_owned()).collect();
        flows.retain(|line| line.contains("actions="));
        flows.sort();
        flows
    }

    /// The groups, as Open vSwitch prints them, sorted.
    pub fn groups(&self) -> Vec<String> {
        let dump = self.ofctl(&["dump-groups", "BRIDGE"]);
        let mut groups: Vec<String> = dump.lines().map(|line| line.trim().to_owned()).collect();
        groups.retain(|line| line.starts_with("group_id"));
        groups.sort();
        groups
    }

    /// How many group modifications the switch has received, as with [`flow_mods`](Ovs::flow_mods).
    pub fn group_mods(&self) -> usize {
        let is_group_mod =
            |line: &&str| line.starts_with("OFPT_GROUP_MOD") || line.contains("received: OFPT_GROUP_MOD");
        self.log().lines().filter(is_group_mod).count()
    }

    /// How many flow modifications the switch has received since it started, in bundles (where the log shows them
    /// on lines of their own) and alone.
    pub fn flow_mods(&self) -> usize {
        let is_flow_mod =
            |line: &&str| line.starts_with("OFPT_FLOW_MOD") || line.contains("received: OFPT_FLOW_MOD");
        self.log().lines().filter(is_flow_mod).count()
    }

    /// What ovs-vswitchd has logged, every OpenFlow message included, up to now: the log is written in the
    /// background, so a request that nobody else makes is sent and looked for.
    pub fn log(&self) -> String {
        static MARKS: AtomicU64 = AtomicU64::new(0xfeed_0000_0000);
        let mark = format!("metadata={:#x}", MARKS.fetch_add(1, Ordering::Relaxed));
        self.ofctl(&["dump-flows", "BRIDGE", &mark]);
        let mut log = String::new();
        wait_until("the log is written", || {
            let bytes = std::fs::read(self.path("vs.log")).expect("the log of ovs-vswitchd");
            log = String::from_utf8_lossy(&bytes).into_owned();
            log.contains(&mark)
        });
        log
    }

    pub fn config(&self) -> Config {
        let endpoint = |file| format!("unix:{}", self.path(file).display()).parse().expect("an endpoint");
        Config {
            name: "hv1".to_owned(),
            ovsdb: endpoint("db.sock"),
            openflow: endpoint("br-int.mgmt"),
            bridge: "br-int".to_owned(),
            datapath_type: None,
            learned_tables: BTreeSet::new(),
        }
    }
}

impl Drop for Ovs {
    fn drop(&mut self) {
        kill(&mut self.vswitchd);
        kill(&mut self.database);
    }
}

fn kill(child: &mut Option<Child>) {
    if let Some(mut child) = child.take() {
        let _ = child.kill();
        let _ = child.wait();
    }
}

fn possible() -> Result<(), String> {
    for tool in ["ovsdb-tool", "ovsdb-server", "ovs-vswitchd", "ovs-vsctl", "ovs-ofctl", "ovs-appctl"] {
        let found = Command::new(tool).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !found.is_ok_and(|status| status.success()) {
            return Err(format!("{tool} is not there; apt-get install -y openvswitch-switch"));
        }
    }
    if schema().is_none() {
        return Err("vswitch.ovsschema is not there; apt-get install -y openvswitch-switch".to_owned());
    }
    let unshared = Command::new("unshare").args(["--net", "true"]).stderr(Stdio::null()).status();
    if !unshared.is_ok_and(|status| status.success()) {
        return Err("no right to make a network namespace; run as root".to_owned());
    }
    Ok(())
}

fn schema() -> Option<&'static Path> {
    let paths =
        ["/usr/share/openvswitch/vswitch.ovsschema", "/usr/local/share/openvswitch/vswitch.ovsschema"];
    paths.into_iter().map(Path::new).find(|path| path.is_file())
}

fn run(command: &mut Command) -> String {
    let output = command.output().expect("the tool starts");
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?} failed: {errors}");
    text.into_owned()
}

/// Waits for what a daemon does.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
