//! Figure 6 of the NVP paper (NSDI 2014) on `nvp-eval`: Weft's engine compared with the same dataflow written by hand.
//!
//! Both sides run the same transactions and report their output; only their own work is timed. In reading order:
//! [`workload`], [`figures`] (what a run measures), [`handwritten`] (the baseline), [`weft`] (ours), this file (one run),
//! [`compare`] (many), [`transactions`] (a file of them, for programs outside of this one), [`json`] (whole processes),
//! [`saved`] (saved states), [`live`] (rules added and removed).

pub(crate) mod compare;
mod figures;
mod handwritten;
pub(crate) mod json;
pub(crate) mod live;
pub(crate) mod saved;
#[cfg(test)]
mod tests;
#[cfg_attr(not(test), allow(dead_code, reason = "`benches/dbsp` reads what this program writes"))]
pub(crate) mod transactions;
mod weft;
pub(crate) mod workload;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::ValueEnum;

use crate::measure::{self, Clock};
pub(crate) use figures::{Figures, Latency, Output};
pub(crate) use handwritten::address;
use workload::{Change, Network, tunnel_port};

/// Ports that one transaction moves, or adds.
const PORTS: usize = 10;

/// The evaluator of Figure 6, with the form of its input rows and output deltas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Side {
    /// Weft: integers by columns in, rows of the engine's words out, unordered.
    WeftIds,
    /// Weft: strings and addresses by columns in; makes matches and actions; by columns out, ascending.
    WeftColumns,
    /// The same by rows, with a separate value in each cell.
    WeftRows,
    /// Weft: strings and addresses by columns in; makes matches and actions; rows of the engine's words out.
    WeftWords,
    /// The same inside timely.
    WeftInside,
    /// Handwritten: tuples of u32 in, tuples of u32 out, unordered.
    HandIds,
    /// Handwritten: a struct of strings and addresses for each row in; names mapped to numbers and back; structs out,
    /// unordered.
    HandValues,
    /// The load in `ascent`.
    #[cfg(feature = "datalog")]
    Ascent,
}

/// Checks that both sides have the same output.
fn agree<T: PartialEq + std::fmt::Debug>(ours: &T, baseline: &T) -> Result<()> {
    ensure!(ours == baseline, "the sides disagree: {ours:?}, {baseline:?}");
    Ok(())
}

/// The settings of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    /// Every count of `nvp-eval` is divided by this.
    pub(crate) divisor: usize,
    /// Our workers.
    pub(crate) workers: usize,
    /// The number of transactions that move ports, and of those that add ports.
    pub(crate) steps: usize,
}

/// The result of one transaction.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// From rows in memory to deltas in memory.
    took: Duration,
    /// Processor time of all threads in between.
    cpu: Duration,
    /// What the engine then does while no transaction waits.
    idle: Duration,
    /// OVSDB tunnels inserted (true) and deleted.
    tunnels: Vec<([u32; 2], bool)>,
    /// All rows inserted and deleted.
    output: Output,
}

impl Outcome {
    /// The result of a transaction that has just ended, with the output still to be filled in.
    pub(crate) fn after(clock: &Clock) -> Outcome {
        let (took, cpu) = clock.stop();
        Outcome { took, cpu, ..Outcome::default() }
    }

    /// A flow that came or went.
    pub(crate) fn flow(&mut self, host: u32, stage: u32, port: u32, came: bool) {
        self.output.flow(host, stage, port, came);
    }

    /// A tunnel that came or went.
    pub(crate) fn tunnel(&mut self, from: u32, to: u32, came: bool) {
        self.tunnels.push(([from, to], came));
        self.output.tunnel(from, to, came);
    }

    /// Lets the engine do its maintenance, and times it.
    fn rest(&mut self, idle: impl FnOnce() -> Result<()>) -> Result<()> {
        let start = Instant::now();
        idle()?;
        self.idle = start.elapsed();
        Ok(())
    }

    /// The answer of Open vSwitch: port numbers for new tunnels, none for removed ones.
    fn answer(&self) -> Change {
        let mut change = Change::default();
        for ([from, to], came) in &self.tunnels {
            let rows = if *came { &mut change.insert } else { &mut change.delete };
            rows.tunnel_port.push([*from, 0, *to, tunnel_port(*from, *to)]);
        }
        change
    }
}

/// Makes a run in this process, which ends after it.
pub(crate) fn run(side: Side, run: Run) -> Result<Figures> {
    let network = Network::nvp_eval(run.divisor);
    match side {
        Side::WeftIds => weft::ids(&network, run),
        Side::WeftColumns => weft::by_columns(&network, run),
        Side::WeftRows => weft::by_rows(&network, run),
        Side::WeftWords => weft::by_words(&network, run),
        Side::WeftInside => weft::inside(&network, run),
        Side::HandIds => handwritten::ids(network, run),
        Side::HandValues => handwritten::values(network, run),
        #[cfg(feature = "datalog")]
        Side::Ascent => crate::datalog::compiled::run(&network),
    }
}

/// Writes all transactions of a run, with the answers of Open vSwitch, into a file.
pub(crate) fn write(run: Run, file: &Path) -> Result<()> {
    let transactions = handwritten::transactions(Network::nvp_eval(run.divisor), run)?;
    std::fs::write(file, transactions::write(run.steps, &transactions))
        .with_context(|| format!("cannot write {}", file.display()))
}

/// Loads the network, moves ports, adds and removes some.
///
/// The load includes the tunnels' port numbers, as after a restart. Each later transaction is followed by a second one
/// that inserts the numbers of new tunnels and deletes those of removed ones; both are timed. Weft's engine is idle after
/// each, as in a controller, and that time is a figure of its own.
pub(crate) fn drive(
    network: &Network,
    steps: usize,
    mut commit: impl FnMut(Change) -> Result<Outcome>,
) -> Result<Figures> {
    let load = Change { insert: network.rows(), ..Change::default() };
    let loaded = commit(load)?;
    let load_cpu_s = loaded.cpu.as_secs_f64();
    let peak_mib = measure::peak_mib();
    let mut output = Output { loaded: loaded.output.flows, ..Output::default() };
    let load_s = loaded.took.as_secs_f64();
    output.add(&loaded.output);
    drop(loaded);
    let rest_mib = measure::resident_mib();

    let mut step = |change: Change| -> Result<[Duration; 2]> {
        let first = commit(change)?;
        let second = commit(first.answer())?;
        output.add(&first.output);
        output.add(&second.output);
        Ok([first.took + second.took, first.idle + second.idle])
    };
    let (mut moved, mut idle) = (Vec::new(), Vec::new());
    for change in network.moves(steps, PORTS) {
        let [took, after] = step(change)?;
        moved.push(took);
        idle.push(after);
    }
    let (mut added, mut removed) = (Vec::new(), Vec::new());
    for change in network.additions(steps, PORTS) {
        let inverse = change.inverse();
        added.push(step(change)?[0]);
        removed.push(step(inverse)?[0]);
    }
    let [moved, idle, added, removed] = [moved, idle, added, removed].map(Latency::new);
    Ok(Figures { load_s, load_cpu_s, peak_mib, rest_mib, moved, idle, added, removed, output })
}
