//! `cargo xtask faults`: a run of the fault suite.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use faults::Run;
use faults::kind::Kind;

/// Breaks a real controller, real Open vSwitch, and what is between them, and checks after each fault that nothing is lost
#[derive(Parser)]
#[command(name = "cargo xtask faults")]
struct Arguments {
    /// How long it runs, in hours
    #[arg(long, value_name = "N", conflicts_with = "minutes")]
    hours: Option<f64>,
    /// How long it runs, in minutes; 10 if nothing else is said
    #[arg(long, value_name = "N")]
    minutes: Option<f64>,
    /// Ends after this many faults
    #[arg(long, value_name = "N")]
    faults: Option<u64>,
    /// What happens; without it, a fresh one, which is printed
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Only faults of this kind; may be repeated
    #[arg(long, value_name = "NAME")]
    kind: Vec<String>,
    /// Faults do not last long, and two happen at a time, as in `cargo xtask test`
    #[arg(long)]
    short: bool,
    /// The controller; by default, the `weft` beside this program
    #[arg(long, value_name = "FILE")]
    weft: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let seed = match arguments.seed {
        Some(seed) => seed,
        None => SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs(),
    };
    let weft = match &arguments.weft {
        Some(weft) => weft.clone(),
        None => std::env::current_exe().context("cannot find this program's file")?.with_file_name("weft"),
    };
    ensure!(weft.exists(), "{} is missing; remedy: cargo build --package weft-cli", weft.display());
    let kinds = kinds(&arguments.kind)?;
    let run = Run {
        name: format!("faults-{}", std::process::id()),
        weft: weft.canonicalize().with_context(|| format!("cannot find {}", weft.display()))?,
        seed,
        kinds: kinds.clone(),
        faults: arguments.faults.unwrap_or(u64::MAX),
        time: time(arguments)?,
        is_short: arguments.short,
        is_told: true,
    };
    eprintln!("seed {seed}; `cargo xtask faults --seed {seed}` has the same faults again");
    let (report, done) = run.run();
    println!("{report}");
    done?;
    let never: Vec<Kind> = report.never().into_iter().filter(|kind| kinds.contains(kind)).collect();
    // The plan has all kinds before one of them comes again.
    ensure!(
        never.is_empty() || report.faults() < 2 * kinds.len(),
        "after {} faults, these kinds have had no effect: {never:?}",
        report.faults()
    );
    println!("nothing is lost");
    Ok(())
}

fn kinds(names: &[String]) -> Result<Vec<Kind>> {
    if names.is_empty() {
        return Ok(Kind::ALL.to_vec());
    }
    let kind = |name: &String| {
        let known = || Kind::ALL.map(Kind::name).join(", ");
        Kind::of_name(name).with_context(|| format!("there is no kind {name:?}; there are {}", known()))
    };
    names.iter().map(kind).collect()
}

fn time(arguments: &Arguments) -> Result<Duration> {
    let seconds = match (arguments.hours, arguments.minutes, arguments.faults) {
        (Some(hours), _, _) => hours * 3600.0,
        (None, Some(minutes), _) => minutes * 60.0,
        (None, None, Some(_)) => return Ok(Duration::MAX),
        (None, None, None) => 600.0,
    };
    Duration::try_from_secs_f64(seconds).context("this is no time")
}
