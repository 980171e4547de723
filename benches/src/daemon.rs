//! The memory of a whole controller: engine, desired state, drivers.
//!
//! A process of its own starts from a journal and drives hosts that it cannot reach: each driver keeps what it will send.
//! So the figure has no buffers of connections and no copy of what switches have reported.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use openflow_rs::MacAddr;
use ovs_driver::{InterfaceId, Report, Vif};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::runtime::Runtime;
use weft_client::Client;

use crate::measure::{machine, weft};
use crate::process::Killed;
use crate::recorded::Recorded;

/// Ports of each switch, and of each host: those of a large network.
pub(crate) const OF_SWITCH: usize = 16;
pub(crate) const OF_HOST: usize = 21;
/// The memory is read until it has not changed by more than this for [`STILL`] readings.
const STILL_MIB: f64 = 0.5;
const STILL: usize = 20;
const INTERVAL: Duration = Duration::from_millis(250);
/// The longest that a start may take.
const START_MOST: Duration = Duration::from_mins(10);

/// A controller in a process of its own. It ends with this value.
pub(crate) struct Daemon {
    child: Killed,
    runtime: Runtime,
    client: Client,
    /// What its configuration has beside what every one has.
    lines: String,
}

impl Daemon {
    /// Starts a controller on the journal in the folder `state` below this one, and waits until it answers.
    pub(crate) fn start(folder: &Path) -> Result<Daemon> {
        Daemon::start_with(folder, String::new())
    }

    /// The same with these lines in its configuration, also after a restart.
    pub(crate) fn start_with(folder: &Path, lines: String) -> Result<Daemon> {
        let socket = format!("unix:{}", folder.join("weft.sock").display());
        let (config, state) = (folder.join("weft.toml"), folder.join("state"));
        let state = state.display();
        fs::write(&config, format!("state = '{state}'\nlisten = '{socket}'\nlog = 'error'\n{lines}"))?;
        let mut controller = Command::new(weft()?);
        let mut child = Killed(controller.args(["controller", "--config"]).arg(&config).spawn()?);
        let runtime = Runtime::new()?;
        let client = loop {
            match runtime.block_on(Client::connect(&socket)) {
                Ok(client) => break client,
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
            if let Some(status) = child.0.try_wait()? {
                bail!("the controller ended: {status}");
            }
        };
        Ok(Daemon { child, runtime, client, lines })
    }

    /// The answer of the controller.
    pub(crate) fn ask<T>(&mut self, question: impl AsyncFnOnce(&mut Client) -> Result<T>) -> Result<T> {
        self.runtime.block_on(question(&mut self.client))
    }

    /// Stops it in order, and starts it again on the same folder. Returns once it answers: a large network takes longer than a call may.
    pub(crate) fn restart(&mut self, folder: &Path) -> Result<()> {
        self.end()?;
        *self = Daemon::start_with(folder, std::mem::take(&mut self.lines))?;
        let begun = Instant::now();
        while let Err(why) = self.ask(async |client| Ok(client.status().await?)) {
            ensure!(begun.elapsed() < START_MOST, "{why:#}");
        }
        Ok(())
    }

    /// The processor time of its threads that still run.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        self.child.cpu()
    }

    /// Its memory now, in mebibytes.
    pub(crate) fn resident_mib(&self) -> Result<f64> {
        self.child.resident_mib()
    }

    /// The most memory since [`Daemon::forget_peak`], in mebibytes.
    pub(crate) fn peak_mib(&self) -> Result<f64> {
        self.child.peak_mib()
    }

    /// Lets the peak begin anew.
    pub(crate) fn forget_peak(&self) -> Result<()> {
        self.child.forget_peak()
    }

    /// Stops it in order, and waits for its end.
    pub(crate) fn stop(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        kill_process(Pid::from_child(&self.child.0), Signal::TERM)?;
        let status = self.child.0.wait()?;
        ensure!(status.success(), "the controller ended: {status}");
        Ok(())
    }

    /// Its memory in mebibytes, once it no longer changes.
    pub(crate) fn at_rest(&self) -> Result<f64> {
        let (mut last, mut still) = (0.0, 0);
        while still < STILL {
            std::thread::sleep(INTERVAL);
            let now = self.child.resident_mib()?;
            still = if (now - last).abs() < STILL_MIB { still + 1 } else { 0 };
            last = now;
        }
        Ok(last)
    }
}

/// Prints the memory of a controller with so many hosts.
pub(crate) fn print(hosts: usize) -> Result<()> {
    let folder = tempfile::tempdir()?;
    write_journal(folder.path(), hosts)?;
    let mut daemon = Daemon::start(folder.path())?;
    let memory = daemon.at_rest()?;
    let (mut flows, mut buckets) = (0, 0);
    for host in 0..hosts {
        let listed = daemon.ask(async |client| Ok(client.flows(&host_name(host)).await?))?;
        flows += listed.flows.len();
        buckets += listed.buckets.len();
    }
    let each = memory * 1024.0 * 1024.0 / (flows + buckets) as f64;
    println!("\n{}; {hosts} hosts, {} ports, switches of {OF_SWITCH} ports.\n", machine(), hosts * OF_HOST);
    println!("| figure | Weft |\n|---|---|");
    println!("| a controller at rest after a start, MiB | {memory:.0} |");
    println!("| … its flows, and buckets of groups | {flows} and {buckets} |");
    println!("| … bytes for each of them | {each:.0} |");
    Ok(())
}

fn host_name(host: usize) -> String {
    format!("hv{host}")
}

/// Writes the journal of a network whose hosts have reported all their ports.
pub(crate) fn write_journal(folder: &Path, hosts: usize) -> Result<()> {
    let mut objects = Vec::new();
    for host in 0..hosts {
        let (id, socket) = (host_name(host), |name: &str| format!("unix:{}/{host}.{name}", folder.display()));
        let ip = format!("172.16.{}.{}", host / 250, host % 250 + 1);
        objects.push(
            json!({"kind": "transport_node", "id": id, "ip": ip, "ovsdb": socket("db"), "openflow": socket("of")}),
        );
    }
    let mut reports = vec![Report::default(); hosts];
    for port in 0..hosts * OF_HOST {
        let (switch, id) = (port / OF_SWITCH, format!("p{port}"));
        if port % OF_SWITCH == 0 {
            objects.push(json!({"kind": "switch", "id": format!("s{switch}")}));
        }
        let bytes = u32::try_from(port)?.to_be_bytes();
        let mac = MacAddr([2, 0, bytes[0], bytes[1], bytes[2], bytes[3]]).to_string();
        let ip = format!("10.{}.{}.{}", bytes[1], bytes[2], bytes[3]);
        objects.push(
            json!({"kind": "switch_port", "id": id, "switch": format!("s{switch}"), "port_security": true,
            "addresses": [{"mac": mac, "ips": [ip]}]}),
        );
        // Ports of a switch are on different hosts.
        let report = &mut reports[port % hosts];
        let ofport = u16::try_from(report.vifs.len() + 10)?;
        let interface = InterfaceId(port as u128);
        report.interfaces.insert((id.clone(), interface));
        report.vifs.insert(id, Vif { ofport, mac: mac.clone(), interface });
    }
    let mut recorded = Recorded::new()?;
    recorded.apply(objects)?;
    for (host, mut report) in reports.into_iter().enumerate() {
        report.tunnels.insert("weft-geneve".to_owned(), 1);
        recorded.report(&host_name(host), &report)?;
    }
    recorded.write(folder)
}
