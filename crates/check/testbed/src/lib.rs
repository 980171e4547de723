//! A lab with a controller: hosts with real Open vSwitch, a `weft controller` process that manages them, and virtual
//! machines plugged in as logical ports. The demo and the end-to-end tests share it.
//!
//! Reading order: [`Testbed`] (from start to removal), [`Machine`] (a virtual machine to plug in), [`reach`] (who reaches
//! whom, also where tenants share addresses), [`tenants`] (the network of the demo and the tests), [`scenario`] (a network
//! with its machines and who should reach whom, as a file).
//!
//! Left out on purpose: output and assertions, which belong to the demo and to the tests.
#![forbid(unsafe_code)]

pub mod reach;
pub mod scenario;
pub mod tenants;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use lab::{Lab, Link, Options, VmSpec};
use rustix::process::{Pid, Signal, kill_process};
use tokio::runtime::Runtime;
use weft_client::Client;
use weft_client::Flows;
use weft_client::pb::{Receipt, StatusResponse, SwitchStatus};
use weft_core::Rules;

/// How long anything here may take. An idle machine needs a few seconds; the rest is for one that is busy.
pub const DEADLINE: Duration = Duration::from_mins(2);

/// The controller's state folder, in its folder.
const STATE: &str = "state";

/// Time between two checks of a condition.
const LOOK: Duration = Duration::from_millis(10);
/// What a responder logs when it is connected.
const RESPONDS: &str = "answers for this bridge";

/// A testbed to make.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The lab's name.
    pub name: String,
    /// Hosts hv1, hv2, ….
    pub hosts: u8,
    /// Physical networks; every host has a bridge on each.
    pub physical: Vec<String>,
    /// MTU of the network between the hosts, bytes.
    pub underlay_mtu: u16,
    /// Encapsulations of every host, in order of preference.
    pub encaps: Vec<String>,
    /// The `weft` program.
    pub weft: PathBuf,
    /// The rules that the controller runs, as its configuration takes them; the built-in ones if there are none.
    pub rules: Vec<PathBuf>,
    /// Whether the controller reaches the hosts by TCP over a management network, and not by their unix sockets.
    pub remote: bool,
    /// Whether the controller may outlive this process, for [`Testbed::keep`].
    pub may_be_kept: bool,
    /// Where the controller listens; by default, on a socket in its folder.
    pub listen: Option<String>,
    /// Other lines of the controller's configuration.
    pub configuration: Vec<String>,
    /// Variables of the controller's environment, besides those of this process.
    pub variables: Vec<(String, String)>,
}

impl Settings {
    /// Two hosts with geneve tunnels, and the rules built into `weft`.
    pub fn new(name: impl Into<String>, weft: impl Into<PathBuf>) -> Settings {
        Settings {
            name: name.into(),
            hosts: 2,
            physical: Vec::new(),
            underlay_mtu: 1500,
            encaps: vec!["geneve".to_owned()],
            weft: weft.into(),
            rules: Vec::new(),
            remote: false,
            may_be_kept: false,
            listen: None,
            configuration: Vec::new(),
            variables: Vec::new(),
        }
    }
}

/// A virtual machine, and the logical port of the same name that it attaches to.
#[derive(Debug, Clone)]
pub struct Machine {
    /// The name of the machine and of the logical port.
    pub name: String,
    /// The host to plug it in at.
    pub host: String,
    /// Its MAC address.
    pub mac: String,
    /// Its IP address, with prefix length.
    pub address: String,
}

/// A lab with a controller. Dropping it ends the controller and removes the lab.
pub struct Testbed {
    settings: Settings,
    lab: Option<Lab>,
    controller: Option<Child>,
    /// One beside each switch.
    responders: Vec<Child>,
    folder: PathBuf,
    runtime: Runtime,
}

impl Testbed {
    /// Brings up the hosts and the controller, makes the hosts transport nodes, and starts a responder beside each switch. Returns once all are
    /// connected.
    pub fn start(settings: Settings) -> Result<Testbed> {
        let mut options = Options::new(&settings.name).hosts(settings.hosts);
        options.physical.clone_from(&settings.physical);
        options.underlay_mtu = settings.underlay_mtu;
        let mut testbed = Testbed::around(Lab::create(options)?, settings)?;
        testbed.start_controller()?;
        let nodes = testbed.hosts_as_objects()?;
        testbed.apply("transport nodes", &nodes)?;
        let deadline = Instant::now() + DEADLINE;
        while testbed.status()?.switches.iter().any(|switch| !switch.connected) {
            ensure!(Instant::now() < deadline, "no connection to the switches:\n{}", testbed.end_of_log());
            std::thread::sleep(LOOK);
        }
        // The controller has made the bridges.
        testbed.start_responders()?;
        Ok(testbed)
    }

    /// A lab, and a controller that is configured but not [started](Testbed::start_controller): its folder may get a state first. What the
    /// settings say of hosts and networks has been decided by whoever made the lab.
    pub fn around(lab: Lab, settings: Settings) -> Result<Testbed> {
        let folder = lab.state()?.run_dir.join(lab::CONTROLLER);
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let testbed =
            Testbed { settings, lab: Some(lab), controller: None, responders: Vec::new(), folder, runtime };
        // Otherwise the first packet through each tunnel is lost while its neighbour is resolved.
        testbed.lab()?.warm_underlay()?;
        if testbed.settings.remote {
            testbed.lab()?.lay_management()?;
        }
        testbed.write_configuration()?;
        Ok(testbed)
    }

    /// The lab.
    pub fn lab(&self) -> Result<&Lab> {
        self.lab.as_ref().context("the lab is gone")
    }

    /// The folder with the controller's configuration, socket, log and state.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The controller's address, for `weft … --controller`.
    pub fn controller_address(&self) -> String {
        let in_folder = || format!("unix:{}", self.folder.join("weft.sock").display());
        self.settings.listen.clone().unwrap_or_else(in_folder)
    }

    /// The controller's configuration file.
    pub fn configuration(&self) -> PathBuf {
        self.folder.join("weft.toml")
    }

    /// The controller's log.
    pub fn log(&self) -> PathBuf {
        self.folder.join("weft.log")
    }

    /// The controller's state folder.
    pub fn state(&self) -> PathBuf {
        self.folder.join(STATE)
    }

    fn write_configuration(&self) -> Result<()> {
        let mut text = format!("state = \"{STATE}\"\nlisten = \"{}\"\n", self.controller_address());
        let rules: Vec<String> =
            self.settings.rules.iter().map(|path| format!("\"{}\"", path.display())).collect();
        if !rules.is_empty() {
            let _ = writeln!(text, "rules = [{}]", rules.join(", "));
        }
        for line in &self.settings.configuration {
            let _ = writeln!(text, "{line}");
        }
        fs::write(self.configuration(), text).context("cannot write the controller's configuration")
    }

    /// Starts the controller, which restores its state from its folder. Returns once it answers.
    pub fn start_controller(&mut self) -> Result<()> {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.log())?;
        let child = self
            .weft()?
            .arg("controller")
            .arg("--config")
            .arg(self.configuration())
            .envs(self.settings.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot start {}", self.settings.weft.display()))?;
        self.controller = Some(child);
        let start = Instant::now();
        loop {
            let Some(child) = self.controller.as_mut() else { bail!("the controller is gone") };
            if let Some(status) = child.try_wait()? {
                bail!("the controller ended ({status}); its log:\n{}", self.end_of_log());
            }
            match self.status() {
                Ok(_) => return Ok(()),
                Err(error) if start.elapsed() > DEADLINE => return Err(error),
                Err(_) => std::thread::sleep(LOOK),
            }
        }
    }

    /// Starts a responder beside each switch, in the place of the one that runs there, and waits until it is connected. A program of a version
    /// without responders ends at once instead.
    pub fn start_responders(&mut self) -> Result<()> {
        self.kill_responders();
        for host in self.lab()?.hosts()? {
            let endpoint = host.openflow_endpoint();
            let socket = endpoint.strip_prefix("unix:").context("a switch has a socket")?;
            let [lock, log] =
                ["lock", "log"].map(|kind| self.folder.join(format!("responder-{}.{kind}", host.name)));
            let output = fs::File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
            let mut command = self.weft()?;
            command.args(["responder", "--socket", socket, "--lock"]).arg(lock);
            command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
            let mut responder = command.spawn().context("cannot start a responder")?;
            let start = Instant::now();
            while responder.try_wait()?.is_none() && !fs::read_to_string(&log)?.contains(RESPONDS) {
                ensure!(
                    start.elapsed() < DEADLINE,
                    "the responder of {} does not connect: see {}",
                    host.name,
                    log.display()
                );
                std::thread::sleep(LOOK);
            }
            self.responders.push(responder);
        }
        Ok(())
    }

    /// Ends all responders as a crash does.
    pub fn kill_responders(&mut self) {
        for mut responder in self.responders.drain(..) {
            let _ = responder.kill();
            let _ = responder.wait();
        }
    }

    /// The process numbers of the responders, in the order of the lab's hosts.
    pub fn responder_pids(&self) -> Vec<u32> {
        self.responders.iter().map(Child::id).collect()
    }

    /// The program, where it reaches the hosts. The kernel kills it if this thread ends first.
    fn weft(&self) -> Result<Command> {
        let mut words: Vec<OsString> = Vec::new();
        if !self.settings.may_be_kept {
            words.extend(["setpriv", "--pdeathsig", "KILL", "--"].map(OsString::from));
        }
        if self.settings.remote {
            words.extend(["ip", "netns", "exec"].map(OsString::from));
            words.push(self.lab()?.underlay_namespace().into());
        }
        words.push(self.settings.weft.clone().into());
        let mut command = Command::new(words.remove(0));
        command.args(words);
        if self.settings.may_be_kept {
            // An interrupt from the terminal of this process is not for it.
            command.process_group(0);
        }
        Ok(command)
    }

    /// The controller's process number, while it runs or has not been waited for.
    pub fn controller_pid(&self) -> Option<u32> {
        self.controller.as_ref().map(Child::id)
    }

    /// The status of a controller that ended by itself; `None` while it runs. After that, the controller may be [started](Testbed::start_controller)
    /// again.
    pub fn controller_ended(&mut self) -> Result<Option<ExitStatus>> {
        let Some(child) = self.controller.as_mut() else { return Ok(None) };
        let status = child.try_wait().context("cannot ask for the controller's end")?;
        if status.is_some() {
            self.controller = None;
        }
        Ok(status)
    }

    /// Kills the controller as a crash would.
    pub fn kill_controller(&mut self) -> Result<()> {
        if let Some(mut child) = self.controller.take() {
            child.kill().context("cannot kill the controller")?;
            child.wait()?;
        }
        Ok(())
    }

    /// Lets the controller end in order, and waits until it is gone.
    pub fn stop_controller(&mut self) -> Result<()> {
        let Some(mut child) = self.controller.take() else { return Ok(()) };
        kill_process(Pid::from_child(&child), Signal::TERM).context("cannot stop the controller")?;
        let start = Instant::now();
        while child.try_wait()?.is_none() {
            if start.elapsed() > DEADLINE {
                child.kill()?;
                bail!("the controller does not end; its log:\n{}", self.end_of_log());
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// From its next start on, this program is the controller: an upgrade, or a downgrade.
    pub fn use_program(&mut self, weft: impl Into<PathBuf>) {
        self.settings.weft = weft.into();
    }

    /// The lab's hosts as objects of the kind that the built-in rules have for hosts.
    pub fn hosts_as_objects(&self) -> Result<String> {
        let mut text = String::new();
        let mappings = self.lab()?.bridge_mappings()?;
        let rules = Rules::built_in()?;
        let kind = rules.host_kind().context("the built-in rules say nothing of hosts")?;
        for link in self.lab()?.management_links()? {
            let host = link.host();
            let (ovsdb, openflow) = if self.settings.remote {
                (link.ovsdb_endpoint(), link.openflow_endpoint())
            } else {
                (host.ovsdb_endpoint(), host.openflow_endpoint())
            };
            let _ = write!(
                text,
                "---\nkind: {kind}\nid: {}\nip: {}\nencaps: [{}]\novsdb: {ovsdb}\nopenflow: {openflow}\n",
                host.name,
                host.ip,
                self.settings.encaps.join(", "),
            );
            if !mappings.is_empty() {
                text.push_str("bridge_mappings:\n");
            }
            for (network, bridge) in &mappings {
                let _ = writeln!(text, "  {network}: {bridge}");
            }
        }
        Ok(text)
    }

    /// Applies objects given as YAML or JSON.
    pub fn apply(&self, name: &str, text: &str) -> Result<()> {
        let documents = vec![(name.to_owned(), text.to_owned())];
        self.runtime.block_on(async {
            let mut client = Client::connect(&self.controller_address()).await?;
            client.apply(documents, "testbed").await?;
            Ok(())
        })
    }

    /// Returns the status of the controller and its switches.
    pub fn status(&self) -> Result<StatusResponse> {
        self.runtime
            .block_on(async { Ok(Client::connect(&self.controller_address()).await?.status().await?) })
    }

    /// The flows that a host's switch should have, with the rules that derive them.
    pub fn flows(&self, host: &str) -> Result<Flows> {
        self.runtime
            .block_on(async { Ok(Client::connect(&self.controller_address()).await?.flows(host).await?) })
    }

    /// The receipt of a transaction, after every switch that it changes has answered.
    pub fn settled(&self, txn: u64) -> Result<Receipt> {
        let receipt = self.runtime.block_on(async {
            let mut client = Client::connect(&self.controller_address()).await?;
            tokio::time::timeout(DEADLINE, client.settled(txn))
                .await
                .context("no receipt came")?
                .map_err(anyhow::Error::from)
        })?;
        receipt.context("the controller ended")
    }

    /// Waits until every switch is connected and in sync and reports the virtual machines that are plugged in at its host.
    /// Every packet sent afterwards is forwarded by the flows then in force.
    pub fn wait_in_sync(&self) -> Result<StatusResponse> {
        let lab = self.lab()?;
        let mut plugged: BTreeMap<String, u64> =
            lab.hosts()?.into_iter().map(|host| (host.name.clone(), 0)).collect();
        for vm in lab.vms()?.into_iter().filter(|vm| vm.attached && vm.link == Link::Host) {
            *plugged.entry(vm.host).or_default() += 1;
        }
        self.wait_for_hosts(&plugged, |_| ())
    }

    /// Waits for the switches of these nodes. A switch is ready once it is in sync and has reported its number of virtual interfaces;
    /// `done` then gets its status.
    pub fn wait_for_hosts(
        &self,
        plugged: &BTreeMap<String, u64>,
        mut done: impl FnMut(&SwitchStatus),
    ) -> Result<StatusResponse> {
        let start = Instant::now();
        let mut told = BTreeSet::new();
        loop {
            let status = self.status()?;
            let in_sync = |switch: &&SwitchStatus| {
                switch.connected
                    && switch.synced
                    && switch.pending == 0
                    && plugged.get(&switch.node) == Some(&switch.vifs)
            };
            let ready: Vec<&SwitchStatus> = status.switches.iter().filter(in_sync).collect();
            for switch in &ready {
                if told.insert(switch.node.clone()) {
                    done(switch);
                }
            }
            if ready.len() == plugged.len() {
                self.lab()?.flush_datapaths()?;
                return Ok(status);
            }
            ensure!(
                start.elapsed() < DEADLINE,
                "the switches are not in sync with {plugged:?} after {DEADLINE:?}: {status:#?}\nthe controller's log:\n{}",
                self.end_of_log()
            );
            std::thread::sleep(LOOK);
        }
    }

    /// Makes virtual machines and plugs them in.
    pub fn plug_in(&self, machines: &[Machine]) -> Result<()> {
        let specs: Vec<_> = machines
            .iter()
            .map(|machine| {
                VmSpec::new(&machine.name, &machine.host, &machine.name, &machine.mac)
                    .address(&machine.address)
            })
            .collect();
        self.lab()?.add_vms(&specs)?;
        Ok(())
    }

    /// Leaves the lab and the controller running, and returns the controller's process number.
    pub fn keep(mut self) -> Result<Option<u32>> {
        if let Some(lab) = self.lab.take() {
            lab.keep()?;
        }
        self.responders.clear();
        Ok(self.controller.take().map(|child| child.id()))
    }

    fn end_of_log(&self) -> String {
        let text = fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        // Nothing can be done about a controller that cannot be killed; the lab removes itself.
        let _ = self.kill_controller();
        self.kill_responders();
    }
}
