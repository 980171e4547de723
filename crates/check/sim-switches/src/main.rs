//! `cargo xtask sim-switches`: simulated hosts until the process is told to end.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, BufRead as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use mutual_tls::{Files, Pair};
use serde_json::json;
use sim_switches::faults::Faults;
use sim_switches::{DialIn, Fleet, Layout, Totals};
use tokio::sync::mpsc::{self, UnboundedReceiver};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The interval between two lines about the hosts.
const REPORT: Duration = Duration::from_secs(5);

/// Thousands of Open vSwitches on the loopback interface: OpenFlow and OVSDB, without packets
///
/// Commands on the standard input, one a line: `plug HOST PORT [MAC]`, `unplug HOST PORT`, `restart HOST` (it loses its flows), `reset HOST`
/// (its connections end), `freeze HOST`, `thaw HOST`, `renumber HOST`, `fault` (the next of the seed), `heal` (of all faults), `show`. HOST is
/// a number from 0.
#[derive(Parser)]
#[command(name = "cargo xtask sim-switches")]
struct Arguments {
    /// How many hosts
    #[arg(long, value_name = "N", default_value_t = 3000)]
    hosts: usize,
    /// The address of the first host; each other one has the next
    #[arg(long, value_name = "ADDRESS", default_value_t = Layout::default().first)]
    first: Ipv4Addr,
    /// The TCP port of the databases
    #[arg(long, value_name = "PORT", default_value_t = Layout::default().ovsdb_port)]
    ovsdb_port: u16,
    /// The TCP port of the switches
    #[arg(long, value_name = "PORT", default_value_t = Layout::default().openflow_port)]
    openflow_port: u16,
    /// The hosts dial a controller over TLS: their databases dial this address, its `listen_ovsdb`, and their bridges what it tells them
    #[arg(long, value_name = "ADDRESS:PORT")]
    dial_in: Option<SocketAddr>,
    /// The folder with the certificates of hosts that dial, as `weft pki node` makes it; each host has its own
    #[arg(long, value_name = "FOLDER", default_value = "pki", requires = "dial_in")]
    pki: PathBuf,
    /// Write the hosts as objects to this file, a line of JSON each, for `weft apply -f`
    #[arg(long, value_name = "FILE")]
    objects: Option<PathBuf>,
    /// Plug these interfaces in: each line is the number of a host, the id of a port, and a MAC address if there is one
    #[arg(long, value_name = "FILE")]
    ports: Option<PathBuf>,
    /// Faults a second, at hosts and of kinds that the seed chooses
    #[arg(long, value_name = "RATE", default_value_t = 0.0)]
    faults: f64,
    /// The seed of the faults
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .and_then(|runtime| runtime.block_on(run(&arguments)));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &Arguments) -> io::Result<()> {
    let layout = Layout {
        hosts: arguments.hosts,
        first: arguments.first,
        ovsdb_port: arguments.ovsdb_port,
        openflow_port: arguments.openflow_port,
        ..Layout::default()
    };
    let mut fleet = Fleet::start(&layout)?;
    if let Some(path) = &arguments.ports {
        for line in fs::read_to_string(path)?.lines() {
            command(&fleet, &format!("plug {line}"))
                .map_err(|why| io::Error::other(format!("{}: {why}", path.display())))?;
        }
    }
    if let Some(path) = &arguments.objects {
        fs::write(path, objects(&layout, arguments.dial_in.is_some()))?;
    }
    if let Some(manager) = arguments.dial_in {
        let how = DialIn { manager, files: Box::new(|name| certificate(&arguments.pki, name)) };
        let remedy = |error| {
            io::Error::other(format!("{error}; `weft pki node HOST` makes the certificate of a host"))
        };
        fleet.dial_in(&how).map_err(remedy)?;
    }
    if let (Some(ovsdb), Some(last)) = (layout.endpoints(0), layout.address(layout.hosts.saturating_sub(1))) {
        println!("{} hosts: {} and {} to the same ports of {last}", layout.hosts, ovsdb.0, ovsdb.1);
    }
    let mut faults = Faults::new(arguments.seed);
    let mut commands = commands();
    let mut reports = tokio::time::interval(REPORT);
    let each = Duration::try_from_secs_f64(1.0 / arguments.faults).unwrap_or(Duration::MAX);
    let mut next_fault = tokio::time::interval(each.min(Duration::from_hours(1)));
    let mut shown = Totals::default();
    loop {
        tokio::select! {
            ended = tokio::signal::ctrl_c() => {
                ended?;
                println!("{}", counted(&faults));
                return Ok(());
            }
            Some(line) = commands.recv() => match line.as_str() {
                "fault" => println!("{:?}", faults.next(fleet.hosts())),
                "heal" => faults.finish(fleet.hosts()),
                "show" => println!("{}\n{}", described(&fleet.totals()), counted(&faults)),
                line => if let Err(why) = command(&fleet, line) {
                    eprintln!("{line}: {why}");
                }
            },
            _ = next_fault.tick(), if arguments.faults > 0.0 => drop(faults.next(fleet.hosts())),
            _ = reports.tick() => {
                let totals = fleet.totals();
                if totals != shown {
                    println!("{}", described(&totals));
                    shown = totals;
                }
            }
        }
    }
}

/// The files of a host in the folder that `weft pki` keeps.
fn certificate(pki: &Path, name: &str) -> Files {
    let file = |extension: &str| pki.join("members").join(format!("{name}.{extension}"));
    let own = Pair { certificate: file("pem"), key: file("key") };
    Files { own: Some(own), authorities: pki.join("controllers/ca.pem"), revoked: None }
}

/// The hosts as objects. Those that dial have no endpoints.
fn objects(layout: &Layout, they_dial: bool) -> String {
    let mut lines = String::new();
    for host in 0..layout.hosts {
        let Some((ovsdb, openflow)) = layout.endpoints(host) else { continue };
        let ip = Ipv4Addr::from(u32::from(Ipv4Addr::new(172, 16, 0, 1)) + host as u32);
        let mut node = json!({"kind": "transport_node", "id": layout.id(host), "ip": ip});
        if !they_dial {
            node["ovsdb"] = ovsdb.into();
            node["openflow"] = openflow.into();
        }
        // Writing to a text does not fail.
        let _ = writeln!(lines, "{node}");
    }
    lines
}

fn described(totals: &Totals) -> String {
    let Totals {
        hosts,
        driven,
        flows,
        groups,
        buckets,
        flow_mods,
        group_mods,
        commits,
        connections,
        writes,
        faults,
    } = totals;
    format!(
        "{driven} of {hosts} hosts driven, {flows} flows, {groups} groups, {buckets} buckets; received: {flow_mods} flow-mods, \
         {group_mods} group-mods, {commits} bundles, {connections} connections, {writes} changes of databases, {faults} faults"
    )
}

fn counted(faults: &Faults) -> String {
    let each: Vec<String> =
        faults.counted().iter().map(|(kind, count)| format!("{kind:?} {count}")).collect();
    format!("faults by kind: {}", if each.is_empty() { "none".to_owned() } else { each.join(", ") })
}

/// Lines of the standard input, read by a thread of its own, because the process ends without it.
fn commands() -> UnboundedReceiver<String> {
    let (sender, commands) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    commands
}

/// Carries out a command for one host.
fn command(fleet: &Fleet, line: &str) -> Result<(), String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (Some(verb), Some(number)) = (words.first(), words.get(1)) else {
        return Err("use VERB HOST".to_owned());
    };
    let host = number.parse().ok().and_then(|number| fleet.host(number));
    let host = host.ok_or_else(|| format!("{number} is no host"))?;
    match (*verb, words.get(2..).unwrap_or_default()) {
        ("plug", [port, mac @ ..]) => {
            let ports = BTreeMap::from([((*port).to_owned(), mac.first().map(|mac| (*mac).to_owned()))]);
            host.plug(&ports).map_err(|error| error.to_string())?;
        }
        ("unplug", [port]) => {
            if !host.unplug(port).map_err(|error| error.to_string())? {
                return Err(format!("{port} is not plugged in"));
            }
        }
        ("restart", []) => host.switch().restart(),
        ("reset", []) => {
            host.switch().disconnect();
            host.database().disconnect();
        }
        ("freeze", []) => host.switch().freeze(),
        ("thaw", []) => host.switch().thaw(),
        ("renumber", []) => host.database().renumber(),
        _ => return Err("no such command; --help has the list".to_owned()),
    }
    Ok(())
}
