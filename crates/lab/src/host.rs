//! One virtual host, a transport node: a namespace with an uplink, `br-phy` and two daemons.
//!
//! `br-phy` is a userspace bridge of the uplink and an internal port that holds the tunnel address; tunnel
//! packets of `br-int` leave through it (openvswitch "userspace datapath, native tunnelling").

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::command::{ip_batch, output, run, tool, tool_in, wait_for};
use crate::process::{alive, kill, runs_in, signal};
use crate::registry::{Kind, check_name, namespace};
use crate::{Error, Output, preflight};

/// How long a daemon may take to appear or vanish; normal is a tenth of a second.
const DAEMON_DEADLINE: Duration = Duration::from_secs(10);

/// A host to make.
#[derive(Debug, Clone)]
pub struct HostSpec {
    /// Its name: 1 to 24 of a-z, 0-9, `_` and `-`.
    pub name: String,
    /// Its tunnel address in the underlay's subnet.
    pub ip: Ipv4Addr,
}

impl HostSpec {
    /// A host `name` with tunnel address `ip`.
    pub fn new(name: impl Into<String>, ip: impl Into<Ipv4Addr>) -> Self {
        HostSpec { name: name.into(), ip: ip.into() }
    }
}

/// How `ovs-vswitchd` is ended; they differ in what stays behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// `ovs-appctl exit`: TAP devices and their addresses stay, as for an upgrade of the daemon.
    Exit,
    /// `ovs-appctl exit --cleanup`: TAP devices go too.
    Cleanup,
    /// SIGKILL: a crash.
    Kill,
}

/// A virtual host of a running lab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Its network namespace.
    pub namespace: String,
    /// Its tunnel address, on `br-phy`.
    pub ip: Ipv4Addr,
    /// Prefix length of the underlay's subnet.
    pub prefix: u8,
    /// MAC of `br-phy`. Fixed, because peers keep a neighbour for 900 s and do not notice a changed one.
    pub mac: String,
    /// Underlay MTU, bytes.
    pub mtu: u16,
    /// Holds the database, sockets, logs and pid files.
    pub run_dir: PathBuf,
}

impl Host {
    pub(crate) fn plan(
        lab: &str,
        spec: &HostSpec,
        run_dir: &Path,
        prefix: u8,
        mtu: u16,
    ) -> Result<Host, Error> {
        check_name("host name", &spec.name)?;
        let [a, b, c, d] = spec.ip.octets();
        let run_dir = run_dir.join(&spec.name);
        // sockaddr_un holds 108 bytes with the final zero; the daemon's own name for a bridge's socket is the longest.
        let longest = run_dir.join("br-int.controller");
        if longest.as_os_str().len() > 107 {
            let reason = "socket paths below it would exceed 107 bytes; choose a shorter run_dir";
            return Err(Error::invalid("run folder", run_dir.to_string_lossy(), reason));
        }
        Ok(Host {
            name: spec.name.clone(),
            namespace: namespace(lab, Kind::Host, &spec.name),
            ip: spec.ip,
            prefix,
            mac: format!("0e:fe:{a:02x}:{b:02x}:{c:02x}:{d:02x}"),
            mtu,
            run_dir,
        })
    }

    /// OVSDB of this host, `unix:...`.
    pub fn ovsdb_endpoint(&self) -> String {
        format!("unix:{}", self.run_dir.join("db.sock").display())
    }

    /// `OpenFlow` of `br-int`, `unix:...`; the socket is there once the bridge is.
    pub fn openflow_endpoint(&self) -> String {
        self.bridge_endpoint("br-int")
    }

    /// `OpenFlow` of any bridge of this host.
    pub fn bridge_endpoint(&self, bridge: &str) -> String {
        format!("unix:{}", self.run_dir.join(format!("{bridge}.mgmt")).display())
    }

    /// The log of `ovs-vswitchd`: several faults show there and nowhere else.
    pub fn vswitchd_log(&self) -> PathBuf {
        self.run_dir.join("vs.log")
    }

    /// A command that runs in this host's namespace; not yet started.
    pub fn command(&self, program: &str) -> Command {
        self.with_folders(tool_in(&self.namespace, program))
    }

    /// Runs a command in this host's namespace to its end; a failing exit status is not an error.
    pub fn exec(&self, argv: &[&str]) -> Result<Output, Error> {
        let (program, arguments) = split(&self.name, argv)?;
        let mut command = self.command(program);
        command.args(arguments);
        output(&self.name, command, None)
    }

    /// `ovs-vsctl` on this host's database; waits until the daemon has followed, at most 10 s.
    pub fn vsctl(&self, arguments: &[&str]) -> Result<String, Error> {
        let mut command = self.with_folders(tool("ovs-vsctl"));
        command.arg(format!("--db={}", self.ovsdb_endpoint())).arg("--timeout=10").args(arguments);
        run(&self.name, command)
    }

    /// `ovs-ofctl -O OpenFlow15`; name bridges as usual: `ofctl(&["add-flow", "br-int", "..."])`.
    pub fn ofctl(&self, arguments: &[&str]) -> Result<String, Error> {
        let mut command = self.with_folders(tool("ovs-ofctl"));
        command.args(["-O", "OpenFlow15", "--timeout=30"]).args(arguments);
        run(&self.name, command)
    }

    /// `ovs-ofctl --bundle add-flows`: one atomic bundle, in order; `delete` lines are allowed.
    pub fn add_flows(&self, bridge: &str, flows: &str) -> Result<(), Error> {
        let mut command = self.with_folders(tool("ovs-ofctl"));
        command.args(["-O", "OpenFlow15", "--timeout=60", "--bundle", "add-flows", bridge, "-"]);
        crate::command::run_with_input(&self.name, command, Some(flows)).map(drop)
    }

    /// `ovs-appctl` to `ovs-vswitchd`.
    pub fn appctl(&self, arguments: &[&str]) -> Result<String, Error> {
        let mut command = self.with_folders(tool("ovs-appctl"));
        command.arg("-t").arg(self.run_dir.join("vs.ctl")).arg("--timeout=10").args(arguments);
        run(&self.name, command)
    }

    /// The flows of a bridge without counters and durations, one a line.
    pub fn dump_flows(&self, bridge: &str) -> Result<Vec<String>, Error> {
        let text = self.ofctl(&["--no-stats", "dump-flows", bridge])?;
        Ok(text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect())
    }

    /// One of the daemon's coverage counters (total since its start); 0 if it was never hit.
    pub fn coverage(&self, counter: &str) -> Result<u64, Error> {
        let text = self.appctl(&["coverage/read-counter", counter])?;
        text.trim().parse().map_err(|_| Error::Unexpected {
            place: self.name.clone(),
            command: format!("ovs-appctl coverage/read-counter {counter}"),
            detail: text,
        })
    }

    /// The `OpenFlow` port number of an interface, once open vswitch has one for it.
    pub fn ofport(&self, interface: &str) -> Result<u16, Error> {
        let text = self.vsctl(&["--if-exists", "get", "Interface", interface, "ofport", "error"])?;
        let mut lines = text.lines();
        match lines.next().and_then(|port| port.trim().parse::<i32>().ok()) {
            Some(port @ 1..=0xfeff) => Ok(port as u16),
            _ => Err(Error::Port {
                host: self.name.clone(),
                interface: interface.to_owned(),
                reason: lines.next().unwrap_or("no such row").to_owned(),
            }),
        }
    }

    /// Process number of `ovs-vswitchd`, if it runs.
    pub fn vswitchd_pid(&self) -> Option<u32> {
        self.daemon("vs.pid")
    }

    /// Process number of `ovsdb-server`, if it runs.
    pub fn ovsdb_pid(&self) -> Option<u32> {
        self.daemon("db.pid")
    }

    /// Ends `ovs-vswitchd` and waits until it is gone. No-op if it does not run.
    pub fn stop_vswitchd(&self, how: Stop) -> Result<(), Error> {
        let Some(pid) = self.vswitchd_pid() else { return Ok(()) };
        match how {
            Stop::Exit => drop(self.appctl(&["exit"])?),
            Stop::Cleanup => drop(self.appctl(&["exit", "--cleanup"])?),
            Stop::Kill => kill(pid),
        }
        self.wait_gone("ovs-vswitchd", pid)
    }

    /// SIGKILL, as [`Stop::Kill`].
    pub fn kill_vswitchd(&self) -> Result<(), Error> {
        self.stop_vswitchd(Stop::Kill)
    }

    /// Starts `ovs-vswitchd` and makes `br-phy` usable again; flows are gone, the database is as it was.
    pub fn start_vswitchd(&self) -> Result<(), Error> {
        if self.vswitchd_pid().is_none() {
            let mut command = self.command("ovs-vswitchd");
            command.arg("--disable-system").arg(self.ovsdb_endpoint());
            run(&self.name, self.daemonised(command, "vs"))?;
        }
        if self.vsctl(&["--no-wait", "list-br"])?.lines().any(|bridge| bridge == "br-phy") {
            self.address_br_phy()?;
        }
        Ok(())
    }

    /// SIGTERM to `ovsdb-server`. With the userspace datapath the host then forwards nothing.
    pub fn stop_ovsdb(&self) -> Result<(), Error> {
        let Some(pid) = self.ovsdb_pid() else { return Ok(()) };
        signal(pid, rustix::process::Signal::TERM);
        self.wait_gone("ovsdb-server", pid)
    }

    /// Starts `ovsdb-server` on the database that is there.
    pub fn start_ovsdb(&self) -> Result<(), Error> {
        if self.ovsdb_pid().is_some() {
            return Ok(());
        }
        let mut command = self.command("ovsdb-server");
        command.arg(self.run_dir.join("conf.db"));
        command.arg(format!("--remote=p{}", self.ovsdb_endpoint()));
        run(&self.name, self.daemonised(command, "db")).map(drop)
    }

    /// Makes `br-int` as a controller would: userspace, secure (no flows until somebody adds some), `OpenFlow` 1.5.
    pub fn make_integration_bridge(&self) -> Result<(), Error> {
        self.vsctl(&[
            "--may-exist",
            "add-br",
            "br-int",
            "--",
            "set",
            "Bridge",
            "br-int",
            "datapath_type=netdev",
            "fail_mode=secure",
            "protocols=OpenFlow15",
        ])
        .map(drop)
    }

    /// Waits until a bridge is there and takes `OpenFlow`, when somebody else, a controller, makes it.
    pub fn wait_for_bridge(&self, bridge: &str, deadline: Duration) -> Result<(), Error> {
        wait_for(&self.name, &format!("bridge {bridge}"), deadline, || {
            Ok(self.run_dir.join(format!("{bridge}.mgmt")).exists().then_some(()))
        })
    }

    /// Tells this host the MAC behind `peer`'s tunnel address, so that no first packet is lost to ARP.
    pub fn learn_neighbour(&self, peer: &Host) -> Result<(), Error> {
        self.appctl(&["tnl/arp/set", "br-phy", &peer.ip.to_string(), &peer.mac]).map(drop)
    }

    /// Builds the host: namespace, uplink, daemons, `br-phy`. `number` names the underlay's end of the uplink.
    pub(crate) fn build(&self, underlay: &str, number: usize) -> Result<(), Error> {
        std::fs::create_dir(&self.run_dir).map_err(Error::io("create", &self.run_dir))?;
        self.build_namespace(underlay, number)?;
        let schema = preflight::schema().ok_or_else(|| {
            Error::invalid("open vswitch installation", "vswitch.ovsschema", "the file is gone")
        })?;
        let mut create = tool("ovsdb-tool");
        create.arg("create").arg(self.run_dir.join("conf.db")).arg(schema);
        run(&self.name, create)?;
        self.start_ovsdb()?;
        self.vsctl(&["--no-wait", "init"])?;
        self.start_vswitchd()?;
        // datapath_type in the same transaction as add-br, else the system datapath is asked for.
        self.vsctl(&[
            "add-br",
            "br-phy",
            "--",
            "set",
            "Bridge",
            "br-phy",
            "datapath_type=netdev",
            &format!("other_config:hwaddr=\"{}\"", self.mac),
            "--",
            "set",
            "Interface",
            "br-phy",
            &format!("mtu_request={}", self.mtu),
            "--",
            "add-port",
            "br-phy",
            "uplink",
        ])?;
        self.ofport("uplink")?;
        self.address_br_phy()
    }

    fn build_namespace(&self, underlay: &str, number: usize) -> Result<(), Error> {
        let mut add = tool("ip");
        add.args(["netns", "add", &self.namespace]);
        run(&self.name, add)?;
        let (mtu, there) = (self.mtu, format!("host{number}"));
        // Before any device is up, so that none of them ever speaks IPv6 or answers ARP for br-phy:
        // the kernel sees the uplink's frames as well as open vswitch does.
        let mut settings = tool_in(&self.namespace, "sysctl");
        settings.args([
            "-e",
            "-qw",
            "net.ipv6.conf.all.disable_ipv6=1",
            "net.ipv6.conf.default.disable_ipv6=1",
        ]);
        settings.args(["net.ipv4.conf.all.arp_ignore=1"]);
        run(&self.name, settings)?;
        ip_batch(
            &self.name,
            &self.namespace,
            &[
                format!(
                    "link add name uplink mtu {mtu} type veth peer name {there} mtu {mtu} netns {underlay}"
                ),
                "link set lo up".to_owned(),
                "link set uplink up".to_owned(),
            ],
        )?;
        ip_batch(&self.name, underlay, &[format!("link set {there} master switch up")])?;
        self.checksum_offload_off("uplink")
    }

    fn checksum_offload_off(&self, device: &str) -> Result<(), Error> {
        let mut command = self.command("ethtool");
        command.args(["-K", device, "tx", "off"]);
        run(&self.name, command).map(drop)
    }

    fn address_br_phy(&self) -> Result<(), Error> {
        ip_batch(
            &self.name,
            &self.namespace,
            &[
                format!("addr replace {}/{} dev br-phy", self.ip, self.prefix),
                "link set br-phy up".to_owned(),
            ],
        )
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

    /// The pid file goes before the process does; only then are its sockets and devices free.
    fn wait_gone(&self, daemon: &str, pid: u32) -> Result<(), Error> {
        wait_for(&self.name, &format!("the end of {daemon}"), DAEMON_DEADLINE, || {
            Ok((!alive(pid)).then_some(()))
        })
    }
}

/// Program and arguments of a command line given as words.
pub(crate) fn split<'a>(place: &str, argv: &'a [&'a str]) -> Result<(&'a str, &'a [&'a str]), Error> {
    match argv {
        [program, arguments @ ..] => Ok((program, arguments)),
        [] => Err(Error::invalid("command", "", format!("{place}: no program given"))),
    }
}
