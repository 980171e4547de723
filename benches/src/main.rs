//! Weft's benchmarks: `cargo xtask bench`.
//!
//! Each runs ours and a baseline in turns, every run a process of its own, and prints medians, ranges and ratios.

mod figure6;
mod handwritten;
mod measure;
mod nvp;
mod program;
mod push;
mod texts;
mod workload;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::figure6::Figures;
use crate::workload::Network;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(name = "cargo xtask bench", about = "Speed and memory, ours and the baselines side by side")]
struct Arguments {
    #[command(subcommand)]
    bench: Option<Bench>,
    /// Runs of each side; the first pair is discarded, since memory is touched for the first time
    #[arg(long, default_value_t = 5, global = true)]
    runs: usize,
    /// Every count of nvp-eval is divided by this, 1 to 100
    #[arg(long, default_value_t = 10, global = true)]
    divisor: usize,
    /// Workers of our engine
    #[arg(long, default_value_t = 1, global = true)]
    workers: usize,
    /// Seed of the program of NVP's size
    #[arg(long, default_value_t = nvp::SEED, global = true)]
    seed: u64,
    /// Flows to push in one bundle
    #[arg(long, default_value_t = 100_000, global = true)]
    flows: usize,
}

#[derive(Subcommand, Clone)]
enum Bench {
    /// Figure 6 on nvp-eval: load, memory, moves of ten ports; against the same written by hand
    Figure6,
    /// Flows to a real ovs-vswitchd as one bundle; against ovs-ofctl
    Push,
    /// Compiling texts of many shapes, and longer ones: how the time grows
    Texts,
    /// A program of NVP's size: checked, checked again after an edit, run until the first delta
    Program,
    /// Writes the program of NVP's size, its one-file form and its transaction into a folder
    Write {
        /// Where to
        folder: PathBuf,
    },
    #[command(hide = true)]
    ProgramLex {
        /// A file, or a folder of files
        path: PathBuf,
    },
    #[command(hide = true)]
    Figure6Weft,
    #[command(hide = true)]
    Figure6Handwritten,
}

const MOVES: usize = 500;
const PORTS_MOVED: usize = 10;

fn main() -> Result<()> {
    let start = Instant::now();
    let arguments = Arguments::parse();
    anyhow::ensure!(arguments.runs > 0, "--runs: a figure needs at least one run");
    anyhow::ensure!(
        (1..=100).contains(&arguments.divisor),
        "--divisor: 1 to 100, so that every size of switch stays"
    );
    let network = || Network::nvp_eval(arguments.divisor);
    match &arguments.bench {
        None => {
            compare_figure6(&arguments)?;
            push::compare(arguments.flows, arguments.runs)?;
            texts::growth(arguments.runs);
            program::figures(arguments.seed, arguments.runs)
        }
        Some(Bench::Figure6) => compare_figure6(&arguments),
        Some(Bench::Push) => push::compare(arguments.flows, arguments.runs),
        Some(Bench::Texts) => {
            texts::growth(arguments.runs);
            Ok(())
        }
        Some(Bench::Write { folder }) => program::write(arguments.seed, folder).map(drop),
        Some(Bench::Program) => program::figures(arguments.seed, arguments.runs),
        Some(Bench::ProgramLex { path }) => program::lex(path, start),
        Some(Bench::Figure6Weft) => print(&figure6::run(&network(), MOVES, PORTS_MOVED, arguments.workers)?),
        Some(Bench::Figure6Handwritten) => print(&handwritten::run(&network(), MOVES, PORTS_MOVED)),
    }
}

fn print(figures: &Figures) -> Result<()> {
    println!("{}", serde_json::to_string(figures)?);
    Ok(())
}

fn compare_figure6(arguments: &Arguments) -> Result<()> {
    let network = Network::nvp_eval(arguments.divisor);
    println!(
        "\nFigure 6, {} hypervisors, {} switches, {} ports; {MOVES} transactions of {PORTS_MOVED} moved ports; \
         {} runs, {} worker(s)\n",
        network.hypervisors,
        network.switches,
        network.ports(),
        arguments.runs,
        arguments.workers,
    );
    let run = |name: &str| -> Result<Figures> {
        let flags =
            [name, "--divisor", &arguments.divisor.to_string(), "--workers", &arguments.workers.to_string()];
        measure::child(&flags.map(str::to_owned))
    };
    let (mut ours, mut baseline) = (Vec::new(), Vec::new());
    for number in 0..=arguments.runs {
        let pair = (run("figure6-weft")?, run("figure6-handwritten")?);
        anyhow::ensure!(
            pair.0.flows == pair.1.flows,
            "the two disagree: {} flows and {}",
            pair.0.flows,
            pair.1.flows
        );
        if number > 0 {
            ours.push(pair.0);
            baseline.push(pair.1);
        }
    }
    println!("| | weft | hand-written | ratio |\n|---|---|---|---|");
    let compare = |name, digits, of: fn(&Figures) -> f64| {
        let column = |side: &[Figures]| side.iter().map(of).collect::<Vec<_>>();
        measure::print_ratio(name, digits, &column(&ours), &column(&baseline));
    };
    compare("load, s", 3, |figures| figures.load_s);
    compare("10 moves, median ms", 3, |figures| figures.move_ms_median);
    compare("10 moves, p99 ms", 3, |figures| figures.move_ms_p99);
    compare("peak memory, MiB", 0, |figures| figures.peak_mib);
    println!("\n{} flows on both sides.", ours[0].flows);
    Ok(())
}
