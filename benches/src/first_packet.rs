//! What the first packet of a connection costs a real ovs-vswitchd that it passes through both ACL stages: its sender's and its
//! receiver's, on one host; compared with the same network without ACLs.
//!
//! The figure is processor time for each packet, of the thread of ovs-vswitchd that forwards: what the others do, which look at the
//! datapath's flows again and forget connections, grows with time. *Cached*: the ports are new, and the datapath has flows for the
//! packet. *Not cached*: the datapath's flows are gone, and no two packets share one, so each goes through all tables.
//! A burst is sent only when the one before it has arrived whole, so that none is lost, and the switch's own counters must say that
//! cached packets did not go through the tables and the others did.

use std::net::Ipv4Addr;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use frame_builder::{IPV4, Ipv4, UDP, ethernet, udp_without_checksum};
use lab::{Host, Taps, VmSpec};
use openflow_rs::MacAddr;
use testbed::{DEADLINE, Settings, Testbed};

use crate::measure::{machine, weft};
use crate::report::{self, Aim, Line};

/// Machines on the host. Each sends to each other one.
const MACHINES: u8 = 24;
/// Frames in flight at a time.
const BURST: usize = 46;
/// Bursts of cached packets in a run.
const CACHED_BURSTS: usize = 1000;
/// How often in a run all machines send to all others.
const ROUNDS: usize = 24;
/// Packets in a round.
const PAIRS: usize = MACHINES as usize * (MACHINES as usize - 1);

/// The ACLs of all ports, for what they send and for what they get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Acls {
    None,
    Stateless,
    Stateful,
}

/// Microseconds of processor time for a packet, and how often one that is not cached goes through tables.
struct Figures {
    cached: f64,
    uncached: f64,
    upcalls: f64,
}

/// Prints the figures as a table.
pub(crate) fn print(runs: usize) -> Result<()> {
    let lines = lines(runs)?;
    println!("\n{}; medians (least–greatest) of {runs} runs.", machine());
    report::print("The first packet of a connection", &lines);
    Ok(())
}

/// Measures each kind of ACLs in turns, and compares those with ACLs with those without.
fn lines(runs: usize) -> Result<Vec<Line>> {
    let settings = Settings { hosts: 1, ..Settings::new(format!("bench-{}", std::process::id()), weft()?) };
    let bench = Bench::start(settings)?;
    let kinds = [Acls::None, Acls::Stateless, Acls::Stateful];
    let mut found: [Vec<Figures>; 3] = Default::default();
    // The first run of each does not count.
    for run in 0..=runs {
        for (kind, found) in kinds.into_iter().zip(&mut found) {
            let figures = bench.measure(kind, run * kinds.len() + kind as usize)?;
            let Figures { cached, uncached, upcalls } = &figures;
            eprintln!(
                "run {run}, {kind:?}: {cached:.2} µs cached, {uncached:.2} µs not ({upcalls:.2} upcalls)"
            );
            if run > 0 {
                found.push(figures);
            }
        }
    }
    let [none, stateless, stateful] = found;
    let cached = |of: &[Figures]| of.iter().map(|figures| figures.cached).collect::<Vec<_>>();
    let uncached = |of: &[Figures]| of.iter().map(|figures| figures.uncached).collect::<Vec<_>>();
    let line = |what: &str, ours, baseline, most| {
        Line::compared(format!("first packet, {what}, µs"), 2, ours, baseline, Aim::Ratio(most))
    };
    Ok(vec![
        line("stateless ACLs, cached", cached(&stateless), cached(&none), 1.5),
        line("stateless ACLs, not cached", uncached(&stateless), uncached(&none), 2.0),
        line("stateful ACLs, cached", cached(&stateful), cached(&none), 1.5),
        line("stateful ACLs, not cached", uncached(&stateful), uncached(&none), 2.0),
    ])
}

/// A host with machines.
struct Bench {
    testbed: Testbed,
    taps: Taps,
    host: Host,
}

impl Bench {
    fn start(settings: Settings) -> Result<Bench> {
        let testbed = Testbed::start(settings)?;
        let lab = testbed.lab()?;
        testbed.apply("network.yaml", &network(Acls::None))?;
        // Without IP addresses, so that they answer nothing.
        let specs: Vec<VmSpec> =
            (0..MACHINES).map(|n| VmSpec::new(name(n), "hv1", name(n), mac(n).to_string())).collect();
        lab.add_vms(&specs)?;
        testbed.wait_in_sync()?;
        let (taps, host) = (lab.all_taps()?, lab.host("hv1")?);
        Ok(Bench { testbed, taps, host })
    }

    /// One run; `number` tells its connections from those of other runs.
    fn measure(&self, acls: Acls, number: usize) -> Result<Figures> {
        self.replace(acls)?;
        let first = u16::try_from(number * ROUNDS % 60_000).context("a port")?;
        let cached = self.cached(number)?;
        let (uncached, upcalls) = self.uncached(first)?;
        Ok(Figures { cached, uncached, upcalls })
    }

    /// Makes these the only ACLs.
    fn replace(&self, acls: Acls) -> Result<()> {
        let file = self.testbed.folder().join("bench.yaml");
        std::fs::write(&file, format!("{}\n---\n{}", network(acls), self.testbed.hosts_as_objects()?))?;
        let status = Command::new(weft()?)
            .args(["apply", "--prune", "--yes", "--wait", "-f"])
            .arg(&file)
            .env("WEFT_CONTROLLER", self.testbed.controller_address())
            .stdout(std::process::Stdio::null())
            .status()?;
        ensure!(status.success(), "weft apply of {acls:?} ACLs failed ({status})");
        self.testbed.wait_in_sync()?;
        Ok(())
    }

    /// From one machine to another, by new ports.
    fn cached(&self, number: usize) -> Result<f64> {
        let frame = |n: usize| {
            // 60,000 ports of the sender, and as many of the receiver as there are runs.
            let from = 1024 + u16::try_from(n % 60_000)?;
            anyhow::Ok((0, datagram(0, 1, from, 1024 + u16::try_from(number * 8 + n / 60_000)?)))
        };
        self.pass(&[frame(0)?])?;
        let before = (self.processor_time()?, self.upcalls()?);
        for burst in 0..CACHED_BURSTS {
            let frames: Result<Vec<_>> = (0..BURST).map(|n| frame(1 + burst * BURST + n)).collect();
            self.pass(&frames?)?;
        }
        let (time, upcalls) = (self.processor_time()?, self.upcalls()?);
        let packets = CACHED_BURSTS * BURST;
        let missed = upcalls - before.1;
        ensure!(missed * 100 < packets as u64, "{missed} of {packets} packets were not cached");
        Ok(micros(time.saturating_sub(before.0)) / packets as f64)
    }

    /// From each machine to each other one, in rounds, each with ports of its own and with an empty cache.
    fn uncached(&self, first: u16) -> Result<(f64, f64)> {
        let (mut all, mut upcalls) = (Duration::ZERO, 0);
        for round in 0..ROUNDS {
            self.host.flush_datapath()?;
            let before = (self.processor_time()?, self.upcalls()?);
            let pairs: Vec<(u8, u8)> = (0..MACHINES)
                .flat_map(|from| (0..MACHINES).filter(move |to| *to != from).map(move |to| (from, to)))
                .collect();
            for burst in pairs.chunks(BURST) {
                let port = 1024 + first + u16::try_from(round)?;
                let frames: Vec<_> =
                    burst.iter().map(|(from, to)| (*from, datagram(*from, *to, port, 7))).collect();
                self.pass(&frames)?;
            }
            all += self.processor_time()?.saturating_sub(before.0);
            let missed = self.upcalls()? - before.1;
            ensure!(missed >= PAIRS as u64, "only {missed} of {PAIRS} packets were not cached");
            upcalls += missed;
        }
        let packets = (ROUNDS * PAIRS) as f64;
        Ok((micros(all) / packets, upcalls as f64 / packets))
    }

    /// Sends frames of machines, and waits until as many have arrived.
    fn pass(&self, frames: &[(u8, Vec<u8>)]) -> Result<()> {
        for (from, frame) in frames {
            self.taps.send(&name(*from), frame)?;
        }
        let arrived = self.taps.first(|frame| frame.get(12..14) == Some(&[8, 0]), frames.len(), DEADLINE)?;
        let count: usize = arrived.values().map(Vec::len).sum();
        ensure!(count == frames.len(), "{count} of {} packets arrived", frames.len());
        Ok(())
    }

    /// Processor time of the thread of ovs-vswitchd that forwards.
    fn processor_time(&self) -> Result<Duration> {
        let pid = self.host.vswitchd_pid().context("ovs-vswitchd does not run")?;
        let file = format!("/proc/{pid}/task/{pid}/schedstat");
        let text = std::fs::read_to_string(&file)
            .with_context(|| format!("cannot read {file}: the kernel needs CONFIG_SCHED_INFO"))?;
        let nanos = text.split(' ').next().and_then(|nanos| nanos.parse().ok());
        Ok(Duration::from_nanos(nanos.with_context(|| format!("{file} does not begin with a number"))?))
    }

    /// How many packets the datapath has sent through the tables so far.
    fn upcalls(&self) -> Result<u64> {
        const COUNTER: &str = "miss with success upcall:";
        let text = self.host.appctl(&["dpif-netdev/pmd-stats-show"])?;
        let counts: Vec<u64> =
            text.lines().filter_map(|line| line.trim().strip_prefix(COUNTER)?.trim().parse().ok()).collect();
        ensure!(!counts.is_empty(), "`dpif-netdev/pmd-stats-show` has no line `{COUNTER}`:\n{text}");
        Ok(counts.iter().sum())
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn name(machine: u8) -> String {
    format!("m{machine}")
}

fn mac(machine: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0x20, machine])
}

fn ip(machine: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 20, 0, machine + 1)
}

fn datagram(from: u8, to: u8, port: u16, to_port: u16) -> Vec<u8> {
    let datagram = udp_without_checksum(port, to_port, b"first packet");
    ethernet(mac(to).0, mac(from).0, IPV4, &Ipv4::new(ip(from), ip(to), UDP).packet(&datagram))
}

/// The switch drops what no ACL allows. Each port may send UDP, and get it from the ports of the group.
fn network(acls: Acls) -> String {
    let default = if acls == Acls::None { "allow" } else { "drop" };
    // As many connections as the bench begins.
    let mut text = format!(
        "{{kind: switch, id: bench, acl_default: {default}, connections: {{rate: 1000000, established: 600, unanswered: 30}}}}\n"
    );
    for machine in 0..MACHINES {
        text += &format!(
            "---\n{{kind: switch_port, id: {}, switch: bench, labels: {{app: web}}, port_security: true, \
             addresses: [{{mac: '{}', ips: [{}]}}]}}\n",
            name(machine),
            mac(machine),
            ip(machine)
        );
    }
    let action = match acls {
        Acls::None => return text,
        Acls::Stateless => "allow",
        Acls::Stateful => "allow_related",
    };
    text + &format!(
        "---\n{{kind: acl, id: send, switch: bench, direction: from_port, priority: 100, match: {{ip_proto: udp}}, action: {action}}}\n\
         ---\n{{kind: acl, id: get, switch: bench, direction: to_port, priority: 100, match: {{ip_proto: udp}}, \
         from: {{ports: {{labels: {{app: web}}}}}}, action: {action}}}\n"
    )
}
