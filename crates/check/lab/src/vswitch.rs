//! One Open vSwitch: two daemons in a network namespace, and the folder with their database, sockets and logs.
//!
//! Every host has one, and so do the physical networks and each virtual machine with interfaces behind VLAN tags.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::command::{output, run, tool, tool_in, wait_for};
use crate::process::{alive, kill, runs_in, signal};
use crate::{Error, Output, preflight};

/// How long a daemon may take to start or end. On an idle machine it takes a tenth of a second.
const DAEMON_DEADLINE: Duration = Duration::from_mins(1);

/// How to end `ovs-vswitchd`. The ways differ in the devices that they leave behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// `ovs-appctl exit`: TAP devices and their addresses stay, as when the daemon is upgraded.
    Exit,
    /// `ovs-appctl exit --cleanup`: TAP devices are removed too.
    Cleanup,
    /// SIGKILL: a crash.
    Kill,
}

/// An Open vSwitch of a running lab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vswitch {
    /// Its name: that of the host, virtual machine or physical network that it serves.
    pub name: String,
    /// Its network namespace.
    pub namespace: String,
    /// The folder with the database, sockets, logs and pid files.
    pub run_dir: PathBuf,
}

impl Vswitch {
    /// Plans an Open vSwitch whose folder is `folder` in `run_dir`.
    pub(crate) fn plan(
        name: &str,
        namespace: String,
        run_dir: &Path,
        folder: &str,
    ) -> Result<Vswitch, Error> {
        let run_dir = run_dir.join(folder);
        // sockaddr_un holds 108 bytes with the final zero; the daemon's own name for a bridge's socket is the longest.
        let longest = run_dir.join("br-int.controller");
        if longest.as_os_str().len() > 107 {
            let reason = "socket paths below it would exceed 107 bytes; choose a shorter run_dir";
            return Err(Error::invalid("run folder", run_dir.to_string_lossy(), reason));
        }
        Ok(Vswitch { name: name.to_owned(), namespace, run_dir })
    }

    /// The OVSDB endpoint, `unix:...`.
    pub fn ovsdb_endpoint(&self) -> String {
        format!("unix:{}", self.run_dir.join("db.sock").display())
    }

    /// The `OpenFlow` endpoint of `br-int`, `unix:...`. The socket exists once the bridge does.
    pub fn openflow_endpoint(&self) -> String {
        self.bridge_endpoint("br-int")
    }

    /// The `OpenFlow` endpoint of a bridge.
    pub fn bridge_endpoint(&self, bridge: &str) -> String {
        format!("unix:{}", self.run_dir.join(format!("{bridge}.mgmt")).display())
    }

    /// The log of `ovs-vswitchd`. Several faults appear only there.
    pub fn vswitchd_log(&self) -> PathBuf {
        self.run_dir.join("vs.log")
    }

    /// A command to run in this switch's namespace, not yet started.
    pub fn command(&self, program: &str) -> Command {
        self.with_folders(tool_in(&self.namespace, program))
    }

    /// Runs a command in this switch's namespace to its end. A failing exit status is not an error.
    pub fn exec(&self, argv: &[&str]) -> Result<Output, Error> {
        let (program, arguments) = split(&self.name, argv)?;
        let mut command = self.command(program);
        command.args(arguments);
        output(&self.name, command, None)
    }

    /// `ovs-vsctl` on this host's database. Waits up to 60 s for the daemon to apply the change.
    pub fn vsctl(&self, arguments: &[&str]) -> Result<String, Error> {
        let mut command = self.with_folders(tool("ovs-vsctl"));
        command.arg(format!("--db={}", self.ovsdb_endpoint())).arg("--timeout=60").args(arguments);
        run(&self.name, command)
    }

    /// `ovs-ofctl -O OpenFlow15`; name bridges as usual: `ofctl(&["add-flow", "br-int", "..."])`. After a change, call
    /// [`Vswitch::flush_datapath`] before sending traffic; [`Vswitch::add_flows`] does so itself.
    pub fn ofctl(&self, arguments: &[&str]) -> Result<String, Error> {
        let mut command = self.with_folders(tool("ovs-ofctl"));
        command.args(["-O", "OpenFlow15", "--timeout=60"]).args(arguments);
        run(&self.name, command)
    }

    /// `ovs-ofctl --bundle add-flows`: one atomic bundle, in order; `delete` lines are allowed. The new flows apply to
    /// every packet that arrives after this returns.
    pub fn add_flows(&self, bridge: &str, flows: &str) -> Result<(), Error> {
        let mut command = self.with_folders(tool("ovs-ofctl"));
        command.args(["-O", "OpenFlow15", "--timeout=60", "--bundle", "add-flows", bridge, "-"]);
        crate::command::run_with_input(&self.name, command, Some(flows))?;
        self.flush_datapath()
    }

    /// Empties the datapath's cache, so that the flow tables in force decide every later packet. On its own the cache
    /// follows a change of the tables within half a second, and until then packets take their former way.
    pub fn flush_datapath(&self) -> Result<(), Error> {
        // Megaflows are enabled already; the command also flushes, with the revalidators stopped. `revalidator/purge`
        // skips flows that a revalidator is looking at, and `revalidator/wait` may end with a round that began before
        // the change.
        self.appctl(&["upcall/enable-megaflows"]).map(drop)
    }

    /// `ovs-appctl` to `ovs-vswitchd`.
    pub fn appctl(&self, arguments: &[&str]) -> Result<String, Error> {
        let mut command = self.with_folders(tool("ovs-appctl"));
        command.arg("-t").arg(self.run_dir.join("vs.ctl")).arg("--timeout=60").args(arguments);
        run(&self.name, command)
    }

    /// The flows of a bridge without counters and durations, one per entry.
    pub fn dump_flows(&self, bridge: &str) -> Result<Vec<String>, Error> {
        let text = self.ofctl(&["--no-stats", "dump-flows", bridge])?;
        Ok(text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect())
    }

    /// One of the daemon's coverage counters since its start; 0 if it was never hit.
    pub fn coverage(&self, counter: &str) -> Result<u64, Error> {
        let text = self.appctl(&["coverage/read-counter", counter])?;
        text.trim().parse().map_err(|_| Error::Unexpected {
            place: self.name.clone(),
            command: format!("ovs-appctl coverage/read-counter {counter}"),
            detail: text,
        })
    }

    /// The `OpenFlow` port number of an interface. An interface that Open vSwitch has not taken up is an error.
    pub fn ofport(&self, interface: &str) -> Result<u16, Error> {
        let text = self.vsctl(&["--if-exists", "get", "Interface", interface, "ofport", "error"])?;
        let mut lines = text.lines();
        match lines.next().and_then(|port| port.trim().parse::<i32>().ok()) {
            Some(port @ 1..=0xfeff) => Ok(port as u16),
            _ => Err(Error::Port {
                host: self.name.clone(),
                interface: interface.to_owned(),
                reason: lines.next().unwrap_or("the database has no such interface").to_owned(),
            }),
        }
    }

    /// The process number of `ovs-vswitchd`, if it runs.
    pub fn vswitchd_pid(&self) -> Option<u32> {
        self.daemon("vs.pid")
    }

    /// The process number of `ovsdb-server`, if it runs.
    pub fn ovsdb_pid(&self) -> Option<u32> {
        self.daemon("db.pid")
    }

    /// Ends `ovs-vswitchd` and waits until it is gone. Does nothing if it does not run.
    pub fn stop_vswitchd(&self, how: Stop) -> Result<(), Error> {
        let Some(pid) = self.vswitchd_pid() else { return Ok(()) };
        match how {
            Stop::Exit => drop(self.appctl(&["exit"])?),
            Stop::Cleanup => drop(self.appctl(&["exit", "--cleanup"])?),
            Stop::Kill => kill(pid),
        }
        self.wait_gone("ovs-vswitchd", pid)
    }

    /// Kills `ovs-vswitchd`; see [`Stop::Kill`].
    pub fn kill_vswitchd(&self) -> Result<(), Error> {
        self.stop_vswitchd(Stop::Kill)
    }

    /// Starts `ovs-vswitchd` with these options on the existing database. Flows are lost.
    pub(crate) fn run_vswitchd(&self, options: &[&str]) -> Result<(), Error> {
        if self.vswitchd_pid().is_none() {
            let mut command = self.command("ovs-vswitchd");
            command.arg("--disable-system").args(options).arg(self.ovsdb_endpoint());
            run(&self.name, self.daemonised(command, "vs"))?;
        }
        Ok(())
    }

    /// Ends `ovsdb-server` by SIGTERM. With the userspace datapath the host then forwards nothing.
    pub fn stop_ovsdb(&self) -> Result<(), Error> {
        let Some(pid) = self.ovsdb_pid() else { return Ok(()) };
        signal(pid, rustix::process::Signal::TERM);
        self.wait_gone("ovsdb-server", pid)
    }

    /// Kills `ovsdb-server` as a crash would, and waits until it is gone. Does nothing if it does not run.
    pub fn kill_ovsdb(&self) -> Result<(), Error> {
        let Some(pid) = self.ovsdb_pid() else { return Ok(()) };
        kill(pid);
        self.wait_gone("ovsdb-server", pid)
    }

    /// Starts `ovsdb-server` on the existing database.
    pub fn start_ovsdb(&self) -> Result<(), Error> {
        self.start_ovsdb_with(&[])
    }

    /// The same with more options, such as `--ssl-protocols=TLSv1.2`.
    pub fn start_ovsdb_with(&self, options: &[&str]) -> Result<(), Error> {
        if self.ovsdb_pid().is_some() {
            return Ok(());
        }
        let mut command = self.command("ovsdb-server");
        command.arg(self.run_dir.join("conf.db"));
        command.arg(format!("--remote=p{}", self.ovsdb_endpoint()));
        // Where `ovs-vsctl set-manager` says too, as distributions start it.
        command.arg("--remote=db:Open_vSwitch,Open_vSwitch,manager_options");
        // With the files that `ovs-vsctl set-ssl` names.
        for (option, column) in
            [("private-key", "private_key"), ("certificate", "certificate"), ("bootstrap-ca-cert", "ca_cert")]
        {
            command.arg(format!("--{option}=db:Open_vSwitch,SSL,{column}"));
        }
        command.args(options);
        run(&self.name, self.daemonised(command, "db")).map(drop)
    }

    /// Makes `br-int` as a controller would: userspace datapath, `OpenFlow` 1.5, and `fail_mode=secure`, so that it has no
    /// flows until some are added.
    pub fn make_integration_bridge(&self) -> Result<(), Error> {
        self.add_bridge("br-int", &["fail_mode=secure", "protocols=OpenFlow15"])
    }

    /// Waits for a bridge that another process, such as a controller, makes, until it accepts `OpenFlow` connections.
    pub fn wait_for_bridge(&self, bridge: &str, deadline: Duration) -> Result<(), Error> {
        wait_for(&self.name, &format!("bridge {bridge}"), deadline, || {
            Ok(self.run_dir.join(format!("{bridge}.mgmt")).exists().then_some(()))
        })
    }

    /// Makes the folder and the database and starts both daemons. The namespace must exist.
    pub(crate) fn start(&self) -> Result<(), Error> {
        std::fs::create_dir(&self.run_dir).map_err(Error::io("create", &self.run_dir))?;
        let schema = preflight::schema().ok_or_else(|| {
            Error::invalid("Open vSwitch installation", "vswitch.ovsschema", "the file is missing")
        })?;
        let mut create = tool("ovsdb-tool");
        create.arg("create").arg(self.run_dir.join("conf.db")).arg(schema);
        run(&self.name, create)?;
        self.start_ovsdb()?;
        self.vsctl(&["--no-wait", "init"])?;
        self.run_vswitchd(&[])
    }

    /// Makes a userspace bridge. `datapath_type` is set in the transaction that adds the bridge; otherwise Open vSwitch
    /// would ask for the system datapath.
    pub(crate) fn add_bridge(&self, bridge: &str, settings: &[&str]) -> Result<(), Error> {
        let mut arguments = vec!["--may-exist", "add-br", bridge, "--", "set", "Bridge", bridge];
        arguments.push("datapath_type=netdev");
        arguments.extend(settings);
        self.vsctl(&arguments).map(drop)
    }

    pub(crate) fn checksum_offload_off(&self, device: &str) -> Result<(), Error> {
        let mut command = self.command("ethtool");
        command.args(["-K", device, "tx", "off"]);
        run(&self.name, command).map(drop)
    }

    fn daemonised(&self, mut command: Command, files: &str) -> Command {
        for (option, ending) in [("pidfile", "pid"), ("unixctl", "ctl"), ("log-file", "log")] {
            let file = self.run_dir.join(format!("{files}.{ending}"));
            command.arg(format!("--{option}={}", file.display()));
        }
        // Dozens of daemons would flood the machine's syslog.
        command.args(["-vconsole:off", "-vsyslog:off", "--detach", "--no-chdir"]);
        command
    }

    /// `OVS_RUNDIR` decides where bridges' sockets appear and where the tools look for them.
    fn with_folders(&self, mut command: Command) -> Command {
        for variable in ["OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR"] {
            command.env(variable, &self.run_dir);
        }
        command
    }

    fn daemon(&self, pid_file: &str) -> Option<u32> {
        let pid = std::fs::read_to_string(self.run_dir.join(pid_file)).ok()?.trim().parse().ok()?;
        runs_in(pid, &self.run_dir).then_some(pid)
    }

    /// Waits until the process is gone. The pid file is removed before the process ends, and only then are its sockets and
    /// devices free.
    fn wait_gone(&self, daemon: &str, pid: u32) -> Result<(), Error> {
        wait_for(&self.name, &format!("the end of {daemon}"), DAEMON_DEADLINE, || {
            Ok((!alive(pid)).then_some(()))
        })
    }
}

/// Splits the words of a command line into program and arguments.
pub(crate) fn split<'a>(place: &str, argv: &'a [&'a str]) -> Result<(&'a str, &'a [&'a str]), Error> {
    match argv {
        [program, arguments @ ..] => Ok((program, arguments)),
        [] => Err(Error::invalid("command", "", format!("{place}: no program given"))),
    }
}
