//! Whether tests notice when a rule is wrong.
//!
//! A machine makes a mistake in the rules, one at a time: an atom, a match field or an action left out, a constant that is
//! another ([`mutants`]). What does not compile is no mistake that could be made unseen. Each of the others is to be noticed by
//! the unit tests beside the rules or, if not by those, by random histories against the network model. What nothing notices
//! survives, and is printed: a test is missing, or what was changed says nothing.
#![forbid(unsafe_code)]

mod mutants;
mod suite;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use clap::Parser;
use conformance::{Runner, Size, history};
use mutants::{Mutant, mutants};
use nlog::Program;
use suite::{Copy, Suite};
use test_random::Random;

/// Mistakes made in the rules by a machine, and whether tests notice.
#[derive(Parser)]
#[command(name = "cargo xtask mutate")]
struct Arguments {
    /// Only mistakes in files whose paths contain this text
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// How many mistakes are tried at a time
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// How many random histories a mistake that unit tests let pass must get through to survive
    #[arg(long, value_name = "N", default_value_t = 200)]
    histories: u64,
    /// Only histories, to see what these notice by themselves
    #[arg(long)]
    without_unit_tests: bool,
    /// Only each N-th mistake
    #[arg(long, value_name = "N", default_value_t = 1)]
    each: usize,
    /// The folder of rules
    #[arg(long, value_name = "DIR", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../rules"))]
    rules: PathBuf,
    /// The `weft` command, whose `weft test` runs the unit tests
    #[arg(long, value_name = "PATH")]
    weft: PathBuf,
}

/// What became of a mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It does not compile.
    Refused,
    /// A unit test fails.
    UnitTest,
    /// A random history goes otherwise than the model says.
    History,
    /// Nothing noticed.
    Survived,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// Makes all mistakes; how many survive.
fn run(arguments: &Arguments) -> Result<usize, String> {
    let suite = Suite::load(&arguments.rules)?;
    without_mistakes(&suite, arguments)?;
    let wanted = |name: &str| arguments.only.as_deref().is_none_or(|only| name.contains(only));
    let files = suite.rules().filter(|(name, _)| wanted(name) && !name.starts_with("interface/"));
    let all: Vec<(&String, Mutant)> = files
        .flat_map(|(name, text)| mutants(text).into_iter().map(move |mutant| (name, mutant)))
        .step_by(arguments.each.max(1))
        .collect();
    let jobs = arguments.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    eprintln!("{} mistakes, {jobs} at a time", all.len());
    // What goes wrong in a worker's rules is no fault of ours.
    std::panic::set_hook(Box::new(|_| {}));
    let (next, fates, start) = (AtomicUsize::new(0), Mutex::new(vec![None; all.len()]), Instant::now());
    let work = || -> Result<(), String> {
        let copy =
            Copy::new(&suite, &arguments.weft).map_err(|error| format!("a temporary folder: {error}"))?;
        while let Some((at, (file, mutant))) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, all.get(at)?)))
        {
            let text = mutant.text(&suite.files[*file]);
            let fate = fate(&suite, &copy, (file, &text), arguments)?;
            let mut fates = fates.lock().map_err(|_| "another worker failed")?;
            fates[at] = Some(fate);
            if fate == Fate::Survived {
                println!("{file}:{}: {mutant}", mutant.line);
            }
            progress(&fates, start);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        let ended = workers.into_iter().map(std::thread::ScopedJoinHandle::join);
        ended
            .map(|ended| ended.unwrap_or_else(|_| Err("a worker failed".to_owned())))
            .collect::<Result<Vec<()>, _>>()
    })?;
    let fates = fates.into_inner().map_err(|_| "a worker failed")?;
    let survivors = count(&fates, Fate::Survived);
    println!("{}", summary(&fates));
    Ok(survivors)
}

/// Whether rules without a mistake pass; otherwise nothing follows from what fails with one.
fn without_mistakes(suite: &Suite, arguments: &Arguments) -> Result<(), String> {
    let (file, text) = suite.rules().next().ok_or("there are no rules")?;
    let program = suite.program(file, text).ok_or("the rules do not compile; `weft check` says why")?;
    let copy = Copy::new(suite, &arguments.weft).map_err(|error| format!("a temporary folder: {error}"))?;
    if !copy.passes_all().map_err(|error| format!("{}: {error}", arguments.weft.display()))? {
        return Err("unit tests fail without any mistake; `weft test rules` says which".to_owned());
    }
    if !passes_histories(program, arguments.histories) {
        return Err("histories fail without any mistake; `cargo test -p conformance` says which".to_owned());
    }
    Ok(())
}

/// What becomes of a file with a mistake in it.
fn fate(
    suite: &Suite,
    copy: &Copy<'_>,
    (file, text): (&str, &str),
    arguments: &Arguments,
) -> Result<Fate, String> {
    let Some(program) = suite.program(file, text) else {
        return Ok(Fate::Refused);
    };
    let passes = arguments.without_unit_tests
        || copy.passes(file, text).map_err(|error| format!("weft test: {error}"))?;
    if !passes {
        return Ok(Fate::UnitTest);
    }
    Ok(if passes_histories(program, arguments.histories) { Fate::Survived } else { Fate::History })
}

/// Whether a program does what the model says. One that panics does not.
fn passes_histories(program: Arc<Program>, histories: u64) -> bool {
    let pass = || {
        let Ok(mut runner) = Runner::new(program) else { return false };
        (1..=histories).all(|seed| runner.run(&history(&mut Random::new(seed), Size::default())).is_ok())
    };
    catch_unwind(AssertUnwindSafe(pass)).unwrap_or(false)
}

fn count(fates: &[Option<Fate>], fate: Fate) -> usize {
    fates.iter().filter(|one| **one == Some(fate)).count()
}

/// Says from time to time how far it is.
fn progress(fates: &[Option<Fate>], start: Instant) {
    let done = fates.iter().flatten().count();
    if done.is_multiple_of(20) {
        let seconds = start.elapsed().as_secs();
        eprintln!("{done} of {} after {seconds} s: {}", fates.len(), summary(fates));
    }
}

fn summary(fates: &[Option<Fate>]) -> String {
    let [refused, unit, model, survived] =
        [Fate::Refused, Fate::UnitTest, Fate::History, Fate::Survived].map(|fate| count(fates, fate));
    let made = unit + model + survived;
    let score = 100.0 * (unit + model) as f64 / made.max(1) as f64;
    format!(
        "{score:.1}% of {made} mistakes are noticed: {unit} by unit tests, {model} by histories alone; {survived} survive; \
         {refused} do not compile"
    )
}
