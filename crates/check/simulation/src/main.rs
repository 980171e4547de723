//! `cargo xtask sim`: simulations, one seed after another.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use simulation::{Frames, Kind, Outcome, Plan, run, smallest};
use weft_core::rules::Rules;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The most runs that make a failure smaller.
const SHRINK_MOST: usize = 400;

/// Simulates the controller with its hosts, network, disk and clock, and has all of them fail, until a seed violates what must hold
#[derive(Parser)]
#[command(name = "cargo xtask sim")]
struct Arguments {
    /// Replays this seed alone
    #[arg(long, conflicts_with_all = ["seeds", "from"])]
    seed: Option<u64>,
    /// How many seeds to run
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// Goes on after a violation, and lists the seeds that have one
    #[arg(long)]
    all: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let rules = match Rules::built_in() {
        Ok(rules) => Arc::new(rules),
        Err(error) => {
            eprintln!("the built-in rules cannot be loaded: {error}");
            return ExitCode::FAILURE;
        }
    };
    let (first, count) = arguments.seed.map_or((arguments.from, arguments.seeds), |seed| (seed, 1));
    let begun = Instant::now();
    let (mut simulated, mut transactions, mut requests) = (Duration::ZERO, 0, 0);
    let mut frames = Frames::default();
    let mut counted: BTreeMap<Kind, usize> = Kind::all().map(|kind| (kind, 0)).collect();
    let (mut done, mut violated) = (0_u64, Vec::new());
    let mut told = Instant::now();
    for seed in first..first.saturating_add(count) {
        let plan = Plan::new(seed);
        let outcome = run(&rules, &plan);
        done += 1;
        simulated += outcome.simulated;
        transactions += outcome.transactions;
        requests += outcome.requests;
        frames += outcome.frames;
        for (kind, times) in &outcome.counted {
            *counted.entry(*kind).or_default() += times;
        }
        if arguments.seed.is_some() {
            println!("trace {:016x}", outcome.checksum);
        }
        if let Some((why, _)) = &outcome.violation {
            violated.push(seed);
            if arguments.all {
                println!("seed {seed}: {why}");
            } else {
                report(&rules, plan, outcome);
                break;
            }
        }
        if told.elapsed() > Duration::from_secs(10) {
            eprintln!("{done} of {count} seeds, {:.1} simulated hours …", simulated.as_secs_f64() / 3600.0);
            told = Instant::now();
        }
    }
    let hours = simulated.as_secs_f64() / 3600.0;
    println!(
        "{done} seeds in {:.0} s: {hours:.1} simulated hours, {:.0} an hour; {requests} requests, {transactions} transactions, \
         {} frames sent and {} received; {} followed through a change, {} of them on another way after it",
        begun.elapsed().as_secs_f64(),
        hours / (begun.elapsed().as_secs_f64() / 3600.0),
        frames.sent,
        frames.received,
        frames.followed,
        frames.rerouted
    );
    for (kind, times) in counted {
        println!("  {times:>8}  {}", kind.name());
    }
    if violated.is_empty() {
        println!("no violation");
        ExitCode::SUCCESS
    } else {
        println!("violations: {violated:?}");
        ExitCode::FAILURE
    }
}

/// Prints a violation and the smallest plan with it.
fn report(rules: &Arc<Rules>, plan: Plan, outcome: Outcome) {
    let seed = plan.seed;
    let (why, trace) = outcome.violation.unwrap_or_default();
    println!("seed {seed}: {why}\n\nThe last of what happened:\n{trace}");
    eprintln!("making it smaller …");
    let mut fails = |plan: &Plan| run(rules, plan).violation;
    let (plan, (why, trace)) = smallest(plan, (why, trace), SHRINK_MOST, &mut fails);
    println!(
        "The smallest plan found with a violation:\n{plan}\n{why}\n\nThe last of what happens in it:\n{trace}"
    );
    println!("To replay seed {seed}, at this commit: cargo xtask sim --seed {seed}");
}
