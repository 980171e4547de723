//! The network's own rules on the wire: a real controller, the API, and thousands of simulated switches on real sockets.
//!
//! The hosts are in this process ([`sim_switches`]), the controller in another one. All ports are plugged in before the first object is
//! declared, as on hosts that outlived their controller. What is measured, in this order: the start of a network from nothing, single changes,
//! many moves at once, a restart of the controller, a host that stands still, faults of tens of hosts, and the loss of all connections.
//! After each step, the flows of all hosts must be in sync. After faults, another start must find nothing to change.

mod curve;
mod dialled;
mod watched;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use nlog_data::Value;
use objects::ObjectKey;
use serde_json::Value as Json;
use sim_switches::faults::{Faults, Kind};
use sim_switches::{Fleet, Layout, Totals};
use tokio::runtime::Runtime;
use weft_client::Client;
use weft_client::pb::SwitchStatus;

use super::Run;
use super::world::{Step, World};
use crate::daemon::Daemon;
use crate::figure6::workload::Network;
use crate::measure::{Spread, machine};
use dialled::Authorities;
use watched::{Sample, Samples, Watch};

/// Objects in one request of the load.
const OF_REQUEST: usize = 1000;
/// Single changes of each kind.
const CHANGES: usize = 100;
/// Moves that are made at once.
const MOVES: usize = 3000;
/// Faults a second, and how long.
const FAULTS_EACH: Duration = Duration::from_millis(100);
const FAULTS_LAST: Duration = Duration::from_secs(30);
/// The pause between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// The longest that hosts may take to be in sync.
const DEADLINE: Duration = Duration::from_hours(1);

/// The network, its hosts and its controller.
struct Scale {
    run: Run,
    network: Network,
    world: World,
    runtime: Runtime,
    fleet: Fleet,
    daemon: Daemon,
    folder: PathBuf,
    /// Those of hosts that dial the controller; otherwise the controller dials.
    authorities: Option<Authorities>,
    /// The host of each port that is plugged in.
    plugged: BTreeMap<String, usize>,
}

/// How far the hosts are.
#[derive(PartialEq)]
struct State {
    hosts: usize,
    synced: usize,
    /// The ports that hosts have reported, in all.
    reported: u64,
    /// The hosts that have not reported the number of ports that are plugged in.
    other_ports: usize,
    /// Whether a transaction has taken long and goes on.
    is_busy: bool,
    last_txn: u64,
    totals: Totals,
}

impl State {
    fn is_done(&self) -> bool {
        self.synced == self.hosts && self.other_ports == 0 && !self.is_busy
    }
}

impl Display for State {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let State { hosts, synced, reported, other_ports, .. } = self;
        write!(
            f,
            "{synced} of {hosts} hosts are in sync, {reported} ports reported, {other_ports} hosts to report"
        )
    }
}

/// Prints the figures of a network that many times as large, and writes the curve of the start to this file. Either hosts dial the controller
/// over TLS, or it dials them in clear text.
pub(crate) fn print(run: Run, times: usize, hosts_dial: bool, svg: Option<&Path>) -> Result<()> {
    println!("\n{}\n\n| figure | measured |\n|---|---|", machine());
    let folder = tempfile::tempdir()?;
    let (mut scale, load) = Scale::new(run, times, hosts_dial, folder.path())?;
    let samples = scale.cold_start(load)?;
    if let Some(path) = svg {
        std::fs::write(path, curve::svg(&samples)).with_context(|| path.display().to_string())?;
    }
    scale.single_changes("", &[])?;
    scale.moves()?;
    scale.restart()?;
    scale.still_host()?;
    scale.faults()?;
    scale.all_at_once()?;
    say("the controller's most memory since its restart, MiB", &format!("{:.0}", scale.daemon.peak_mib()?));
    Ok(())
}

fn say(what: &str, measured: &str) {
    println!("| {what} | {measured} |");
}

fn progress(what: &str) {
    eprintln!("{what} …");
}

impl Scale {
    /// Starts hosts with all ports plugged in, and a controller that knows nothing.
    fn new(run: Run, times: usize, hosts_dial: bool, folder: &Path) -> Result<(Scale, Step)> {
        let network = Network::multiplied(run.divisor, times);
        let (world, load) = World::new(&network, run);
        let layout = Layout { hosts: world.hosts(), ..Layout::default() };
        let runtime = Runtime::new()?;
        let fleet = {
            let _in_it = runtime.enter();
            Fleet::start(&layout)?
        };
        let authorities = hosts_dial.then(Authorities::new);
        let lines = authorities.as_ref().map(Authorities::configuration).unwrap_or_default();
        let daemon = Daemon::start_with(folder, lines)?;
        let (folder, plugged) = (folder.to_owned(), BTreeMap::new());
        let mut scale = Scale { run, network, world, runtime, fleet, daemon, folder, authorities, plugged };
        progress(&format!("{} ports are plugged in at {} hosts", scale.network.ports(), scale.hosts()));
        scale.plug(&load)?;
        Ok((scale, load))
    }

    fn hosts(&self) -> usize {
        self.fleet.hosts().len()
    }

    /// Plugs the interfaces of a step in.
    fn plug(&mut self, step: &Step) -> Result<()> {
        let _in_it = self.runtime.enter();
        for (host, port) in interfaces(step) {
            let simulated = self.fleet.host(host).context("the host is simulated")?;
            simulated.plug(&BTreeMap::from([(port.clone(), None)]))?;
            self.plugged.insert(port, host);
        }
        Ok(())
    }

    fn unplug(&mut self, port: &str) -> Result<()> {
        let _in_it = self.runtime.enter();
        let host = self.plugged.remove(port).context("the port is plugged in")?;
        ensure!(self.fleet.host(host).context("the host is simulated")?.unplug(port)?, "{port} was there");
        Ok(())
    }

    /// The objects of a step, each a line, with the addresses of hosts.
    fn objects(&self, step: &Step) -> Result<Vec<String>> {
        let mut objects = Vec::new();
        for line in step.documents.lines() {
            if !line.contains("\"transport_node\"") {
                objects.push(line.to_owned());
                continue;
            }
            let mut node: Json = serde_json::from_str(line)?;
            if self.authorities.is_some() {
                let fields = node.as_object_mut().context("a node is an object")?;
                fields.retain(|field, _| field != "ovsdb" && field != "openflow");
            } else {
                let number = node["id"].as_str().and_then(number_of).context("a host has a number")?;
                let (ovsdb, openflow) =
                    self.fleet.layout().endpoints(number).context("the host has an address")?;
                node["ovsdb"] = ovsdb.into();
                node["openflow"] = openflow.into();
            }
            objects.push(node.to_string());
        }
        Ok(objects)
    }

    /// Waits until every host is in sync and has reported its ports, and nothing changes from one look to the next: a report that is still on
    /// its way changes hosts that are in sync. Returns when the first of the two looks was.
    fn in_sync(&mut self, what: &str) -> Result<Duration> {
        let begun = Instant::now();
        let (mut said, mut before) = (begun, None);
        loop {
            let (at, state) = (begun.elapsed(), self.state()?);
            if state.is_done() && before.as_ref().is_some_and(|(_, before)| *before == state) {
                return Ok(before.map_or(at, |(at, _)| at));
            }
            if said.elapsed() > Duration::from_secs(5) {
                progress(&format!("{what}: {state}"));
                said = Instant::now();
            }
            ensure!(at < DEADLINE, "{what}: after {DEADLINE:?}, {state}");
            before = Some((at, state));
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// The controller's and the hosts' state.
    fn state(&mut self) -> Result<State> {
        let status = self.daemon.ask(async |client| Ok(client.status().await?))?;
        let mut unreported = vec![0_i64; self.hosts()];
        for host in self.plugged.values() {
            unreported[*host] += 1;
        }
        for switch in &status.switches {
            let host = number_of(&switch.node).context("a host has a number")?;
            unreported[host] -= i64::try_from(switch.vifs)?;
        }
        let is_synced = |switch: &&SwitchStatus| switch.connected && switch.synced;
        Ok(State {
            hosts: self.hosts(),
            synced: status.switches.iter().filter(is_synced).count(),
            reported: status.switches.iter().map(|switch| switch.vifs).sum(),
            other_ports: unreported.iter().filter(|count| **count != 0).count(),
            is_busy: status.engine.is_some(),
            last_txn: status.last_txn,
            totals: self.fleet.totals(),
        })
    }

    /// Declares the whole network.
    fn cold_start(&mut self, load: Step) -> Result<Samples> {
        let objects = self.objects(&load)?;
        drop(load);
        let count = objects.len();
        if let Some(authorities) = &self.authorities {
            let _in_it = self.runtime.enter();
            self.fleet.dial_in(&authorities.dial_in())?;
        }
        let watch = Watch::start(self.folder.join("weft.sock"));
        let begun = Instant::now();
        for part in objects.chunks(OF_REQUEST) {
            let part = part.to_vec();
            self.daemon.ask(async |client| Ok(client.apply_objects(part, "scale").await?))?;
        }
        let (declared, declared_at) = (begun.elapsed(), Instant::now());
        let samples = self.sampled(watch, begun)?;
        let took = samples.samples.last().context("there is a sample")?.at;
        let totals = self.fleet.totals();
        say(
            &format!("{count} objects declared until all hosts are in sync, s"),
            &format!("{:.1} (declared after {:.1})", took.as_secs_f64(), declared.as_secs_f64()),
        );
        say(
            "… flows, groups and buckets in force",
            &format!("{}, {}, {}", totals.flows, totals.groups, totals.buckets),
        );
        let sent = format!("{}, {}, {}", totals.flow_mods, totals.group_mods, totals.commits);
        say("… flow-mods, group-mods and bundles sent", &sent);
        say("… connections of OpenFlow", &totals.connections.to_string());
        say("… the controller's most memory, MiB", &format!("{:.0}", self.daemon.peak_mib()?));
        say("… its processor time, s", &format!("{:.1}", self.daemon.cpu()?.as_secs_f64()));
        let half = samples.time_of_share(0.5).as_secs_f64() / took.as_secs_f64();
        say("… half of the flows are in force after, part of the time", &format!("{half:.2}"));
        for (when, is_before) in [("while objects are declared", true), ("after that", false)] {
            say(
                &format!("… a change and a status that a user asks for {when}: median, greatest, ms"),
                &samples.asked.described(declared_at, is_before),
            );
        }
        say("… its memory then, MiB", &format!("{:.0}", self.daemon.resident_mib()?));
        Ok(samples)
    }

    /// Counts flows until all hosts are in sync.
    fn sampled(&mut self, watch: Watch, begun: Instant) -> Result<Samples> {
        let mut samples = Vec::new();
        let mut before: Option<State> = None;
        loop {
            let (at, mut state) = (begun.elapsed(), self.state()?);
            // The user's requests change no switch.
            state.last_txn = 0;
            let State { synced, reported, ref totals, .. } = state;
            samples.push(Sample { at, flows: totals.flows, synced, reported });
            if samples.len() % 20 == 0 {
                let mib = self.daemon.resident_mib()?;
                progress(&format!(
                    "{:.0} s: {} flows, {state}, {mib:.0} MiB",
                    at.as_secs_f64(),
                    totals.flows
                ));
            }
            if state.is_done() && before.as_ref() == Some(&state) {
                // The look before found the same.
                samples.pop();
                return Ok(Samples { samples, asked: watch.finish()? });
            }
            ensure!(at < DEADLINE, "after {DEADLINE:?}, {state}");
            before = Some(state);
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// The switches that have no port on these hosts.
    fn switches_beside(&self, hosts: &[usize]) -> Vec<usize> {
        let mut is_there = vec![false; self.network.switches];
        for (switch, host) in self.network.switch_of.iter().zip(&self.network.hypervisor_of) {
            is_there[*switch] |= hosts.contains(host);
        }
        (0..self.network.switches).filter(|switch| !is_there[*switch]).collect()
    }

    /// One port after another is declared whose interface is plugged in already.
    fn single_changes(&mut self, beside: &str, without: &[usize]) -> Result<()> {
        progress("single changes");
        let switches = self.switches_beside(without);
        let (mut answered, mut confirmed, mut stages) = (Vec::new(), Vec::new(), [Vec::new(), Vec::new()]);
        let stride = (switches.len() / CHANGES).max(1);
        for (number, switch) in switches.iter().step_by(stride).take(CHANGES).enumerate() {
            let mut hosts = (0..self.hosts()).map(|host| (host + number * 31) % self.hosts());
            let host = hosts.find(|host| !without.contains(host));
            let step = self.world.add_ports(*switch, host);
            self.plug(&step)?;
            let (objects, added) = (self.objects(&step)?, step.created().to_vec());
            self.daemon.ask(async |client| {
                let begun = Instant::now();
                let accepted = client.apply_objects(objects, "scale").await?;
                answered.push(ms(begun.elapsed()));
                let receipt = client
                    .settled(accepted.txn.context("a port changes something")?)
                    .await?
                    .context("the controller runs")?;
                confirmed.push(ms(begun.elapsed()));
                stages[0].push(receipt.computed_us as f64 / 1e3);
                stages[1].push(receipt.journalled_us as f64 / 1e3);
                let removed = client.delete(&added, "scale").await?;
                client.settled(removed.txn.context("a port changes something")?).await?;
                Ok(())
            })?;
            for (_, port) in interfaces(&step) {
                self.unplug(&port)?;
            }
        }
        let described = |times: Vec<f64>| {
            let spread = Spread::new(times);
            format!("{:.1}, {:.1}", spread.median(), spread.at(0.99))
        };
        say(
            &format!("one port added{beside}: API → confirmed on the wire: median, p99, ms"),
            &described(confirmed),
        );
        let [computed, journalled] = stages;
        say(
            "… of these, computed; on disk; answered",
            &format!("{}; {}; {}", described(computed), described(journalled), described(answered)),
        );
        Ok(())
    }

    /// Many ports move at once.
    fn moves(&mut self) -> Result<()> {
        let moves = MOVES / self.run.divisor;
        progress(&format!("{moves} ports move"));
        self.in_sync("before the moves")?;
        let before = self.fleet.totals();
        let begun = Instant::now();
        for port in 0..moves {
            let step = self.world.move_port(port * 7 % self.network.ports(), 17);
            for (_, port) in interfaces(&step) {
                self.unplug(&port)?;
            }
            self.plug(&step)?;
        }
        let plugged = begun.elapsed();
        self.in_sync("moves")?;
        let took = begun.elapsed().as_secs_f64();
        let after = self.fleet.totals();
        say(
            &format!("{moves} moves at once, confirmed, s"),
            &format!("{took:.1} (interfaces plugged after {:.1})", plugged.as_secs_f64()),
        );
        say("… moves a second", &format!("{:.0}", moves as f64 / took));
        say(
            "… flow-mods, bundles",
            &format!("{}, {}", after.flow_mods - before.flow_mods, after.commits - before.commits),
        );
        Ok(())
    }

    /// The controller is stopped in order, and starts again.
    fn restart(&mut self) -> Result<()> {
        progress("restart");
        let before = self.fleet.totals();
        let flows = self.flows();
        let begun = Instant::now();
        self.daemon.restart(&self.folder)?;
        let answers = begun.elapsed();
        self.in_sync("restart")?;
        let after = self.fleet.totals();
        say(
            "restart: stopped and answering again; all hosts known in sync, s",
            &format!("{:.1}; {:.1}", answers.as_secs_f64(), begun.elapsed().as_secs_f64()),
        );
        let [flow_mods, group_mods] =
            [after.flow_mods - before.flow_mods, after.group_mods - before.group_mods];
        say("… flow-mods and group-mods sent", &format!("{flow_mods}, {group_mods}"));
        ensure!(flows == self.flows(), "a restart changes flows");
        Ok(())
    }

    /// A host stands still while ports are added elsewhere.
    fn still_host(&mut self) -> Result<()> {
        const STILL: usize = 1;
        let before = self.daemon.resident_mib()?;
        let host = self.fleet.host(STILL).context("there is a second host")?;
        host.switch().freeze();
        host.database().freeze();
        self.single_changes(" beside a host that stands still", &[STILL])?;
        say(
            "… the controller's memory before and then, MiB",
            &format!("{before:.0}, {:.0}", self.daemon.resident_mib()?),
        );
        let host = self.fleet.host(STILL).context("there is a second host")?;
        host.switch().thaw();
        host.database().thaw();
        self.in_sync("the host goes on")?;
        Ok(())
    }

    /// Hosts fail in all ways, ten a second. Then the controller starts again: a start compares all flows of all hosts with the rules, and may find
    /// nothing to change but what was lost in silence.
    fn faults(&mut self) -> Result<()> {
        progress("faults");
        let mut faults = Faults::new(self.run.divisor as u64);
        self.runtime.block_on(async {
            let _ended = tokio::time::timeout(FAULTS_LAST, faults.run(self.fleet.hosts(), FAULTS_EACH)).await;
            faults.finish(self.fleet.hosts());
        });
        let count: usize = faults.counted().values().sum();
        let took = self.in_sync("after the faults")?;
        say(
            &format!(
                "{count} faults of {} kinds in {} s, then in sync after, s",
                faults.counted().len(),
                FAULTS_LAST.as_secs()
            ),
            &format!("{:.1}", took.as_secs_f64()),
        );
        let flows = self.flows();
        self.daemon.restart(&self.folder)?;
        self.in_sync("all flows are compared after the faults")?;
        let (other, lost) = (self.differing(&flows), faults.hosts_with(Kind::FlowLost));
        ensure!(other.is_subset(&lost), "hosts {other:?} were in sync with other flows than the rules want");
        let unnoticed = format!("{} of {}", other.len(), lost.len());
        say("… hosts that lost a flow in silence, and lack it until the next check", &unnoticed);
        Ok(())
    }

    /// All connections end at once.
    fn all_at_once(&mut self) -> Result<()> {
        progress("all connections end");
        let before = self.fleet.totals();
        let begun = Instant::now();
        {
            let _in_it = self.runtime.enter();
            for host in self.fleet.hosts() {
                host.switch().disconnect();
                host.database().disconnect();
            }
        }
        // The controller notices within a moment; before that, it calls all of them in sync.
        while self.fleet.totals().connections < before.connections + self.hosts() {
            ensure!(begun.elapsed() < DEADLINE, "hosts are not connected again");
            std::thread::sleep(Duration::from_millis(20));
        }
        self.in_sync("all connections ended")?;
        let after = self.fleet.totals();
        say(
            "all connections end; all hosts in sync again, s",
            &format!("{:.1}", begun.elapsed().as_secs_f64()),
        );
        say("… flow-mods sent", &(after.flow_mods - before.flow_mods).to_string());
        Ok(())
    }

    /// The flows of each host.
    fn flows(&self) -> Vec<u64> {
        self.fleet.hosts().iter().map(|host| host.switch().fingerprint()).collect()
    }

    /// The hosts that have other flows than these.
    fn differing(&self, wanted: &[u64]) -> BTreeSet<usize> {
        let flows = self.flows();
        let other = flows.iter().zip(wanted).enumerate().filter(|(_, (now, wanted))| now != wanted);
        other.map(|(host, _)| host).collect()
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The number at the end of an id.
fn number_of(id: &str) -> Option<usize> {
    id.rsplit_once('-')?.1.parse().ok()
}

/// The interfaces that a step reports: host and port.
fn interfaces(step: &Step) -> Vec<(usize, String)> {
    let rows = step.insert.get("vif").into_iter().flatten();
    let interface = |row: &Vec<Value>| match row.as_slice() {
        [Value::String(host), Value::String(port), ..] => Some((number_of(host)?, port.to_string())),
        _ => None,
    };
    rows.filter_map(interface).collect()
}

/// A client of the controller.
async fn connect(socket: &Path) -> Result<Client> {
    Ok(Client::connect(&format!("unix:{}", socket.display())).await?)
}

/// An object that changes nothing in any switch.
fn probe() -> (String, ObjectKey) {
    (r#"{"kind":"switch","id":"probe"}"#.to_owned(), ObjectKey::new("switch", "probe"))
}
