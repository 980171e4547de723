//! Figure 6 of the NVP paper (NSDI 2014) on `nvp-eval`: Weft's engine compared with the same dataflow written by hand.
//!
//! Both sides run the same transactions and report their output; only their own work is timed. In reading order:
//! [`workload`], [`handwritten`] (the baseline), [`weft`] (ours), this file (one run), [`compare`] (many), [`json`]
//! (whole processes), [`saved`] (saved states), [`live`] (rules added and removed).

pub(crate) mod compare;
mod handwritten;
pub(crate) mod json;
pub(crate) mod live;
pub(crate) mod saved;
#[cfg(test)]
mod tests;
mod weft;
pub(crate) mod workload;

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::measure::{self, Clock};
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
    /// Weft: rows in, rows out, unordered.
    WeftRowsUnordered,
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

/// The measurements of one run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Figures {
    /// From the first row in hand to the last delta in hand, in seconds.
    pub(crate) load_s: f64,
    /// Processor time of all threads for it, in seconds.
    pub(crate) load_cpu_s: f64,
    /// The peak memory of the process until the end of the load, including rows and deltas, in mebibytes.
    pub(crate) peak_mib: f64,
    /// Its memory after the load's rows and deltas were dropped, in mebibytes.
    pub(crate) rest_mib: f64,
    /// Transactions that move ports, in milliseconds.
    pub(crate) moved: Latency,
    /// What the engine does after each transaction that moves ports, while no transaction waits.
    pub(crate) idle: Latency,
    /// Transactions that add ports.
    pub(crate) added: Latency,
    /// Those that take them back.
    pub(crate) removed: Latency,
    /// The output, which must be the same for both sides.
    pub(crate) output: Output,
}

/// Durations of many transactions, in milliseconds.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Latency {
    /// Half took less.
    pub(crate) median_ms: f64,
    /// 99 in 100 took less.
    pub(crate) p99_ms: f64,
}

/// The output of all transactions together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Output {
    /// Flows after the load.
    pub(crate) loaded: i64,
    /// Flows in the end.
    pub(crate) flows: i64,
    /// OVSDB tunnels in the end.
    pub(crate) tunnels: i64,
    /// Rows inserted or deleted.
    pub(crate) changes: u64,
    /// The sum of the hashes of all rows inserted, less that of rows deleted.
    pub(crate) checksum: u64,
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
    /// The number of flows inserted, less those deleted.
    flows: i64,
    /// Rows inserted or deleted.
    changes: u64,
    /// Their hashes.
    checksum: u64,
}

impl Outcome {
    /// The result of a transaction that has just ended, with the output still to be filled in.
    pub(crate) fn after(clock: &Clock) -> Outcome {
        let (took, cpu) = clock.stop();
        Outcome { took, cpu, ..Outcome::default() }
    }

    /// A flow that came or went.
    pub(crate) fn flow(&mut self, host: u32, stage: u32, port: u32, came: bool) {
        self.flows += if came { 1 } else { -1 };
        self.count(hash([1, host, stage, port]), came);
    }

    /// A tunnel that came or went.
    pub(crate) fn tunnel(&mut self, from: u32, to: u32, came: bool) {
        self.tunnels.push(([from, to], came));
        self.count(hash([2, from, to, 0]), came);
    }

    /// Lets the engine do its maintenance, and times it.
    fn rest(&mut self, idle: impl FnOnce() -> Result<()>) -> Result<()> {
        let start = Instant::now();
        idle()?;
        self.idle = start.elapsed();
        Ok(())
    }

    fn count(&mut self, hash: u64, came: bool) {
        self.changes += 1;
        self.checksum =
            if came { self.checksum.wrapping_add(hash) } else { self.checksum.wrapping_sub(hash) };
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

/// Mixes words into one; the sum over a set of rows serves as its checksum.
fn hash(words: [u32; 4]) -> u64 {
    words.into_iter().fold(0, |hash: u64, word| {
        let mixed = (hash ^ u64::from(word)).wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        mixed ^ (mixed >> 32)
    })
}

/// Makes a run in this process, which ends after it.
pub(crate) fn run(side: Side, run: Run) -> Result<Figures> {
    let network = Network::nvp_eval(run.divisor);
    match side {
        Side::WeftIds => weft::ids(&network, run),
        Side::WeftColumns => weft::by_columns(&network, run),
        Side::WeftRows => weft::by_rows(&network, run),
        Side::WeftRowsUnordered => weft::by_rows_unordered(&network, run),
        Side::WeftInside => weft::inside(&network, run),
        Side::HandIds => handwritten::ids(network, run),
        Side::HandValues => handwritten::values(network, run),
        #[cfg(feature = "datalog")]
        Side::Ascent => crate::datalog::compiled::run(&network),
    }
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
    let mut output = Output { loaded: loaded.flows, ..Output::default() };
    let load_s = loaded.took.as_secs_f64();
    output.add(&loaded);
    drop(loaded);
    let rest_mib = measure::resident_mib();

    let mut step = |change: Change| -> Result<[Duration; 2]> {
        let first = commit(change)?;
        let second = commit(first.answer())?;
        output.add(&first);
        output.add(&second);
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

impl Output {
    fn add(&mut self, outcome: &Outcome) {
        self.flows += outcome.flows;
        self.tunnels += outcome.tunnels.iter().map(|(_, came)| if *came { 1 } else { -1 }).sum::<i64>();
        self.changes += outcome.changes;
        self.checksum = self.checksum.wrapping_add(outcome.checksum);
    }
}

impl Latency {
    /// Of these durations.
    pub(crate) fn new(mut durations: Vec<Duration>) -> Latency {
        durations.sort();
        let at = |part: f64| {
            let index = ((durations.len().saturating_sub(1)) as f64 * part).round() as usize;
            durations.get(index).map_or(0.0, |duration| duration.as_secs_f64() * 1e3)
        };
        Latency { median_ms: at(0.5), p99_ms: at(0.99) }
    }
}
