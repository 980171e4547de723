//! Figure 6 in dbsp: loads the network, then runs transactions that move ports and transactions that add some.
//!
//! `weft-bench-dbsp SETTINGS FILE` reads the transactions from a file that `cargo xtask bench datalog` wrote, runs them, and
//! prints what it measured as one line of JSON. Reading the file, and turning a transaction's rows into those of dbsp,
//! is not timed. The time ends when all net changes of a transaction are in two vectors.

mod circuit;
mod settings;

// Shared with the other side: what is measured, how, and what the file holds.
#[allow(dead_code, reason = "the other side needs more of it")]
#[path = "../../src/figure6/figures.rs"]
mod figures;
#[path = "../../src/meter.rs"]
mod meter;
#[allow(dead_code, reason = "the other side writes the file")]
#[path = "../../src/figure6/transactions.rs"]
mod transactions;
#[allow(dead_code, reason = "the other side makes the transactions")]
#[path = "../../src/figure6/workload.rs"]
mod workload;

use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use circuit::{Deltas, Engine, Rows};
use figures::{Figures, Latency, Output};
use meter::Clock;
use transactions::Transactions;
use workload::Change;

/// dbsp's own benchmarks use it too, and Weft's side uses another release of mimalloc.
#[global_allocator]
static ALLOCATOR: dbsp::mimalloc::MiMalloc = dbsp::mimalloc::MiMalloc;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [settings, file] = &arguments[..] else { bail!("two arguments: default or best, and a file") };
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {file}"))?;
    let transactions = transactions::read(&bytes)?;
    drop(bytes);
    let mut engine = Engine::new(settings::of(settings)?)?;
    let figures = run(&mut engine, transactions)?;
    engine.stop()?;
    println!("{}", serde_json::to_string(&figures)?);
    Ok(())
}

/// Runs all transactions.
fn run(engine: &mut Engine, transactions: Transactions) -> Result<Figures> {
    let mut output = Output::default();
    let (load, load_cpu) = commit(engine, &transactions.load, &mut output)?;
    drop(transactions.load);
    let peak_mib = meter::peak_mib();
    let rest_mib = meter::resident_mib();
    output.loaded = output.flows;

    let mut both = |[change, answer]: &[Change; 2]| -> Result<Duration> {
        Ok(commit(engine, change, &mut output)?.0 + commit(engine, answer, &mut output)?.0)
    };
    let moved = transactions.moves.iter().map(&mut both).collect::<Result<Vec<Duration>>>()?;
    let (mut added, mut removed) = (Vec::new(), Vec::new());
    for [addition, removal] in &transactions.additions {
        added.push(both(addition)?);
        removed.push(both(removal)?);
    }
    // There is nothing to tell dbsp when no transaction waits: threads of its own merge batches.
    let [moved, idle, added, removed] = [moved, Vec::new(), added, removed].map(Latency::new);
    let (load_s, load_cpu_s) = (load.as_secs_f64(), load_cpu.as_secs_f64());
    Ok(Figures { load_s, load_cpu_s, peak_mib, rest_mib, moved, idle, added, removed, output })
}

/// Runs a transaction: its time and the processor time of all threads.
fn commit(engine: &mut Engine, change: &Change, output: &mut Output) -> Result<(Duration, Duration)> {
    let rows = Rows::new(change);
    let clock = Clock::start();
    let deltas = engine.commit(rows)?;
    let took = clock.stop();
    report(&deltas, output)?;
    Ok(took)
}

/// Adds a transaction's deltas to the output. Both tables are sets.
fn report(deltas: &Deltas, output: &mut Output) -> Result<()> {
    let came = |weight: i64| match weight {
        1 => Ok(true),
        -1 => Ok(false),
        _ => bail!("a row changed by {weight}"),
    };
    for (flow, weight) in &deltas.flows {
        output.flow(flow.0, flow.1, flow.2, came(*weight)?);
    }
    for (tunnel, weight) in &deltas.tunnels {
        output.tunnel(tunnel.0, tunnel.2, came(*weight)?);
    }
    Ok(())
}
