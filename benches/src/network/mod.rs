//! The network's own rules (`rules/`) on `nvp-eval`: from the JSON texts of network objects, which are read and checked, and
//! reports, with the hooks that give labels, to the flows of all hosts, in one process.
//!
//! Each port has a MAC address and an IPv4 address, and port security. [`world`] makes the objects, [`drive`] loads them
//! and then changes some, [`routed`] does so with routers, [`filtered`] with ACLs, [`growth`] counts flows of networks of several shapes,
//! [`traced`] traces packets, [`restart`] starts an engine again from saved rows, [`started`] a controller, [`inside`] runs the rules
//! inside timely, [`scale`] has simulated switches on real sockets.

mod drive;
pub(crate) mod filtered;
pub(crate) mod growth;
pub(crate) mod inside;
pub(crate) mod restart;
pub(crate) mod routed;
pub(crate) mod scale;
pub(crate) mod started;
pub(crate) mod traced;
mod world;

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail, ensure};
use nlog::{Program, Sources};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use weft_core::builtin;

use crate::figure6::Latency;
use crate::figure6::workload::Network;
use crate::measure;
use crate::report::{Aim, Line};
pub(crate) use world::{Acls, Reach};

/// The settings of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    /// Every count of `nvp-eval` is divided by this.
    pub(crate) divisor: usize,
    /// Transactions of each kind after the load.
    pub(crate) steps: usize,
    /// Our workers.
    pub(crate) workers: usize,
    /// How routers reach hosts; none without routers.
    pub(crate) reach: Option<Reach>,
    /// What ACLs do; none without ACLs.
    pub(crate) acls: Option<Acls>,
    /// Whether the invariants of `examples/invariants` are loaded beside the network's rules.
    pub(crate) invariants: bool,
}

impl Run {
    /// Switches and ports alone.
    pub(crate) fn plain(divisor: usize, steps: usize, workers: usize) -> Run {
        Run { divisor, steps, workers, reach: None, acls: None, invariants: false }
    }

    /// The figures of a run in a separate process.
    fn child<T: DeserializeOwned>(self) -> Result<T> {
        let arguments = self.arguments("network-run");
        measure::child(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// The arguments of a command with these settings.
    fn arguments(self, command: &str) -> Vec<String> {
        let [divisor, steps, workers] =
            [self.divisor, self.steps, self.workers].map(|number| number.to_string());
        let mut arguments = vec![command, "--divisor", &divisor, "--steps", &steps, "--workers", &workers];
        arguments.extend(self.reach.iter().flat_map(|reach| ["--reach", reach.name()]));
        arguments.extend(self.acls.iter().flat_map(|acls| ["--acls", acls.name()]));
        arguments.extend(self.invariants.then_some("--invariants"));
        arguments.into_iter().map(str::to_owned).collect()
    }

    /// The figures of several runs, each in a separate process.
    fn children<T: DeserializeOwned>(self, runs: usize) -> Result<Vec<T>> {
        // The first touches memory for the first time.
        let all: Result<Vec<T>> = (0..=runs).map(|_| self.child()).collect();
        Ok(all?.split_off(1))
    }
}

/// The cost of a load, and what it makes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Load {
    /// From JSON texts in memory to deltas in memory, in seconds.
    time_s: f64,
    /// Processor time for it.
    cpu_s: f64,
    /// The peak memory until then, including objects, rows and deltas, in mebibytes.
    peak_mib: f64,
    /// What the engine does afterwards while no transaction waits, in seconds.
    idle_s: f64,
    /// The memory of the process after that, when rows and deltas were dropped.
    rest_mib: f64,
    /// Flows of a host.
    flows: PerHost,
    /// Those without the ones that check the sources of tunnels.
    unchecked: PerHost,
    /// Buckets of its groups.
    buckets: PerHost,
}

/// The measurements of one run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Figures {
    load: Load,
    ports_added: Changes,
    ports_removed: Changes,
    port_moved: Changes,
    switch_added: Changes,
    switch_removed: Changes,
}

/// The cost of transactions of one kind.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Changes {
    wall: Latency,
    /// Processor time of all threads. On a busy machine it is more meaningful than wall time.
    cpu: Latency,
    /// Rows inserted and deleted: median and 99th percentile.
    rows: (usize, usize),
    /// Flows inserted and deleted on the host where most are: median and 99th percentile.
    flows_of_a_host: (usize, usize),
}

/// The figures of one kind of transactions.
type Kind = fn(&Figures) -> &Changes;

/// A count per host: mean, least and greatest.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct PerHost {
    pub(crate) all: usize,
    pub(crate) mean: f64,
    pub(crate) least: usize,
    pub(crate) most: usize,
}

impl PerHost {
    /// Summarises the counts of hosts.
    fn new(counts: &[usize]) -> PerHost {
        let all: usize = counts.iter().sum();
        let mean = all as f64 / counts.len().max(1) as f64;
        let (least, most) = (counts.iter().min(), counts.iter().max());
        PerHost { all, mean, least: least.copied().unwrap_or(0), most: most.copied().unwrap_or(0) }
    }
}

impl std::fmt::Display for PerHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.0} ({}–{})", self.mean, self.least, self.most)
    }
}

/// The rules that the controller carries.
fn program() -> Result<Arc<Program>> {
    compile(&Sources::load(&[Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../rules"))])?)
}

/// The rules that the controller carries, and the invariants of `examples/invariants`.
fn guarded_program() -> Result<Arc<Program>> {
    let invariants = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/invariants"));
    compile(&builtin::load(&[Path::new(builtin::NAME), invariants])?)
}

fn compile(sources: &Sources) -> Result<Arc<Program>> {
    let compilation = nlog::compile(sources);
    match compilation.program {
        Some(program) => Ok(program),
        None => bail!("the rules do not compile: {:?}", compilation.diagnostics),
    }
}

/// Makes a run in this process, which ends after it.
pub(crate) fn run(run: Run) -> Result<Figures> {
    drive::run(&Network::nvp_eval(run.divisor), run)
}

/// A line without a baseline, of a figure of each run.
fn line<T>(all: &[T], what: &str, digits: usize, aim: Aim, of: impl Fn(&T) -> f64) -> Line {
    Line::alone(what, digits, all.iter().map(of).collect(), aim)
}

/// The lines of one kind of transactions.
fn lines_of_changes<T>(all: &[T], what: &str, [median, p99]: [Aim; 2], of: fn(&T) -> &Changes) -> Vec<Line> {
    let add = |figure: &str, digits, aim, value: fn(&Changes) -> f64| {
        line(all, &format!("… {what}, {figure}"), digits, aim, |run| value(of(run)))
    };
    vec![
        add("median ms", 2, median, |changes| changes.wall.median_ms),
        add("p99 ms", 2, p99, |changes| changes.wall.p99_ms),
        add("processor time, median ms", 2, Aim::None, |changes| changes.cpu.median_ms),
        add("processor time, p99 ms", 2, Aim::None, |changes| changes.cpu.p99_ms),
        add("rows, median", 0, Aim::None, |changes| changes.rows.0 as f64),
        add("rows, p99", 0, Aim::None, |changes| changes.rows.1 as f64),
    ]
}

/// The figures of several runs.
pub(crate) fn lines(runs: usize, run: Run) -> Result<Vec<Line>> {
    let all: Vec<Figures> = run.children(runs)?;
    let add =
        |what: &str, digits, aim, of: fn(&Load) -> f64| line(&all, what, digits, aim, |run| of(&run.load));
    let mut lines = vec![
        add("network rules, JSON objects to deltas, cold, s", 2, Aim::AtMost(12.0), |load| load.time_s),
        add("… processor time, s", 2, Aim::None, |load| load.cpu_s),
        add("… peak memory, MiB", 0, Aim::AtMost(2000.0), |load| load.peak_mib),
        add("… memory at rest, MiB", 0, Aim::None, |load| load.rest_mib),
    ];
    let kinds: [(&str, Kind); 5] = [
        ("10 ports added", |run| &run.ports_added),
        ("10 ports removed", |run| &run.ports_removed),
        ("a remote port moved", |run| &run.port_moved),
        ("a switch with two ports added", |run| &run.switch_added),
        ("a switch with two ports removed", |run| &run.switch_removed),
    ];
    for (what, of) in kinds {
        lines.extend(lines_of_changes(&all, what, [Aim::AtMost(5.0), Aim::AtMost(10.0)], of));
    }
    lines.extend([
        add("… flows of a host, mean", 0, Aim::AtMost(1400.0), |load| load.flows.mean),
        add("… flows of a host, least", 0, Aim::None, |load| load.flows.least as f64),
        add("… flows of a host, most", 0, Aim::AtMost(1400.0), |load| load.flows.most as f64),
        add("… buckets of a host, mean", 0, Aim::None, |load| load.buckets.mean),
    ]);
    Ok(lines)
}

/// Two workers of the engine against one.
pub(crate) fn lines_of_workers(runs: usize, run: Run) -> Result<Vec<Line>> {
    let child = |workers| -> Result<Figures> { Run { workers, ..run }.child() };
    let same = |two: &Figures, one: &Figures| {
        ensure!(
            two.load.flows.all == one.load.flows.all,
            "the number of flows depends on the number of workers: {}, {}",
            two.load.flows.all,
            one.load.flows.all
        );
        Ok(())
    };
    let (two, one) = measure::in_turns(runs, || child(2), || child(1), same)?;
    let line = |what: &str, digits, aim, of: fn(&Figures) -> f64| {
        let column = |side: &[Figures]| side.iter().map(of).collect::<Vec<_>>();
        Line::compared(what, digits, column(&two), column(&one), aim)
    };
    Ok(vec![
        line("network rules, 2 workers against 1: load, s", 2, Aim::Ratio(0.65), |run| run.load.time_s),
        line("… peak memory, MiB", 0, Aim::Ratio(1.15), |run| run.load.peak_mib),
        line("… 10 ports added, median ms", 2, Aim::Ratio(1.1), |run| run.ports_added.wall.median_ms),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundredth_goes_through_the_rules_and_what_is_added_goes_again() {
        let run = Run::plain(100, 5, 1);
        let figures = super::run(run).expect("it runs");
        // On 30 hosts most know most of the 70 switches.
        let flows = figures.load.flows;
        assert!(flows.least > 500 && flows.most < 1400, "{flows}");
        assert_eq!(figures.ports_added.rows, figures.ports_removed.rows);
        assert_eq!(figures.switch_added.rows, figures.switch_removed.rows);
        assert!(figures.switch_added.rows.0 > 20, "{:?}", figures.switch_added);
    }
}
