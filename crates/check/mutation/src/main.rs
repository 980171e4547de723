//! Checks whether tests notice mistakes in the rules.
//!
//! The program makes one mistake at a time in the rules ([`mutants`]): it leaves out an atom, a match field or an action,
//! changes a constant, or takes one variable, table or field for another. A mistake that does not compile cannot go
//! unnoticed. Every other mistake is tried in two independent tests: the unit tests beside the rules, and random histories
//! compared with the network model. The report counts both. A mistake that neither notices survives and is printed: a test
//! is missing, or the text that was changed has no effect.
#![forbid(unsafe_code)]

mod mutants;
mod tally;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use clap::Parser;
use conformance::{Runner, Size, history};
use mutants::{Mutant, Names, mutants};
use nlog::Program;
use nlog_plan::query::Plan;
use rule_tests::{Folder, Suite, Verdict};
use tally::{Fate, Tally};
use test_random::Random;

/// Makes mistakes in the rules, one at a time, and reports whether unit tests and random histories notice
#[derive(Parser)]
#[command(name = "cargo xtask mutate")]
struct Arguments {
    /// Only mistakes in files whose paths contain this text
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// How many mistakes to try at a time; by default, one for each processor
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// How many random histories each mistake meets; with 0, unit tests alone
    #[arg(long, value_name = "N", default_value_t = 200)]
    histories: u64,
    /// Only every N-th mistake
    #[arg(long, value_name = "N", default_value_t = 1)]
    each: usize,
    /// Without the unit tests: which mistakes random histories notice by the behaviour of the network alone
    #[arg(long)]
    behaviour: bool,
    /// Histories of networks with ACLs, which the others do not have
    #[arg(long)]
    acls: bool,
    /// Try the mistakes in a random order, of this seed: what is tried until it ends is a sample
    #[arg(long, value_name = "SEED")]
    shuffle: Option<u64>,
    /// Begin no mistake after so many minutes
    #[arg(long, value_name = "N")]
    minutes: Option<u64>,
    /// Print every mistake with its fate, not just the survivors
    #[arg(long)]
    verbose: bool,
    /// The folder of rules
    #[arg(long, value_name = "DIR", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../rules"))]
    rules: PathBuf,
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

/// Makes all mistakes. Returns the number that survive.
fn run(arguments: &Arguments) -> Result<usize, String> {
    let folder = Folder::load(&arguments.rules)?;
    let original = without_mistakes(&folder, arguments)?;
    let names = Names::of(folder.rules()).ok_or("the rules do not compile; `weft check` says why")?;
    let wanted = |name: &str| arguments.only.as_deref().is_none_or(|only| name.contains(only));
    let files = folder.rules().filter(|(name, _)| wanted(name));
    let mut all: Vec<(&str, Mutant)> = files
        .flat_map(|(name, text)| mutants(&names, name, text).into_iter().map(move |mutant| (name, mutant)))
        .step_by(arguments.each.max(1))
        .collect();
    if let Some(seed) = arguments.shuffle {
        Random::new(seed).shuffle(&mut all);
        println!("In the order of seed {seed}, of {} mistakes:", all.len());
    }
    let jobs = arguments.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    eprintln!("{} mistakes, {jobs} at a time", all.len());
    // A mistake may make the engine panic; the messages would only hide the report.
    std::panic::set_hook(Box::new(|_| {}));
    let (next, tally, start) = (AtomicUsize::new(0), Mutex::new(Tally::default()), Instant::now());
    let plan = plan(&original);
    let in_time =
        || arguments.minutes.is_none_or(|minutes| start.elapsed() < Duration::from_secs(60 * minutes));
    let work = || -> Result<(), String> {
        let mut suite = Suite::new(&folder);
        while let Some((file, mutant)) = all.get(next.fetch_add(1, Ordering::Relaxed)).filter(|_| in_time()) {
            let fate = fate(&mut suite, &plan, (file, mutant), &folder, arguments);
            let mut tally = tally.lock().map_err(|_| "another worker failed")?;
            tally.add(fate);
            if arguments.verbose || fate.survives() {
                println!("{file}:{}: {mutant}: {fate}", mutant.line);
            }
            if tally.mistakes().is_multiple_of(20) {
                let seconds = start.elapsed().as_secs();
                eprintln!("{} of {} after {seconds} s", tally.mistakes(), all.len());
            }
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
    let tally = tally.into_inner().map_err(|_| "a worker failed")?;
    println!("{}", tally.text(arguments.behaviour));
    Ok(tally.survivors())
}

/// The rules without a mistake, which must pass all tests: otherwise a test that fails with a mistake proves nothing.
fn without_mistakes(folder: &Folder, arguments: &Arguments) -> Result<Arc<Program>, String> {
    let mut suite = Suite::new(folder);
    let (file, text) = folder.rules().next().ok_or("the folder has no rules")?;
    let program = suite.program(file, text).ok_or("the rules do not compile; `weft check` says why")?;
    for (file, text) in folder.rules().filter(|_| !arguments.behaviour) {
        match suite.verdict(file, text) {
            Verdict::Passed => {}
            verdict => return Err(format!("a unit test fails without any mistake: {verdict:?}")),
        }
    }
    if !passes_histories(&program, arguments) {
        return Err("histories fail without any mistake; `cargo test -p conformance` says which".to_owned());
    }
    Ok(program)
}

/// The fate of a mistake in a file.
fn fate(
    suite: &mut Suite<'_>,
    original: &[String],
    (file, mutant): (&str, &Mutant),
    folder: &Folder,
    arguments: &Arguments,
) -> Fate {
    let text = mutant.text(folder.text(file).unwrap_or_default());
    let Some(program) = suite.program(file, &text) else { return Fate::Rejected };
    let unit_tests = !arguments.behaviour && suite.verdict(file, &text) != Verdict::Passed;
    let histories = !passes_histories(&program, arguments);
    // A plan names declared functions and does not show their bodies.
    if !unit_tests && !histories && !mutant.in_function && plan(&program) == original {
        return Fate::SamePlan;
    }
    Fate::Made { unit_tests, histories }
}

/// Whether a program agrees with the model. A program that panics does not.
fn passes_histories(program: &Arc<Program>, arguments: &Arguments) -> bool {
    let pass = || {
        if arguments.histories == 0 {
            return true;
        }
        let Ok(mut runner) = Runner::new(program.clone()) else { return false };
        let size = |seed| size(seed, arguments.acls);
        (1..=arguments.histories).all(|seed| runner.run(&history(&mut Random::new(seed), size(seed))).is_ok())
    };
    catch_unwind(AssertUnwindSafe(pass)).unwrap_or(false)
}

/// What the network of a seed has.
fn size(seed: u64, acls: bool) -> Size {
    match (acls, seed % 4) {
        // Ports that keep connections do everything that others do, and more.
        (true, 0) => Size::stateless(),
        (true, _) => Size::filtered(),
        // Every other network has routers.
        (false, _) => Size { routed: 100 * (seed % 2), ..Size::default() },
    }
}

/// The plan of each rule, whatever the rule's place and the numbers of its indexes, in one order.
fn plan(program: &Arc<Program>) -> Vec<String> {
    let mut rules: Vec<String> = Vec::new();
    for line in Plan::for_outputs(program.clone()).to_string().lines() {
        let words = line.split(' ').map(|word| if is_index(word) { "index" } else { word });
        let line = words.collect::<Vec<_>>().join(" ");
        match rules.last_mut() {
            Some(rule) if line.starts_with(' ') => rule.extend(["\n", &line]),
            _ => rules.push(line.rsplit_once(" (").map_or(line.as_str(), |(head, _place)| head).to_owned()),
        }
    }
    rules.sort();
    rules
}

/// Whether a word of a plan is the number of an index, such as `i12:`.
fn is_index(word: &str) -> bool {
    let digits = word.trim_end_matches([':', ',']).strip_prefix('i').unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan_of(rules: &str) -> Vec<String> {
        let tables =
            "input table a(x: int, y: int); input table b(x: int); output table c(x: int, y: int);\n";
        let text = format!("{tables}{rules}");
        plan(&nlog::compile(&nlog::Sources::from_texts([("rules.nlog", text)])).program.expect("it compiles"))
    }

    #[test]
    fn plans_are_the_same_wherever_rules_stand_and_differ_with_what_they_mean() {
        let rule = "c(x, y) :- a(x, y), b(y), x < 3;";
        assert_eq!(plan_of(rule), plan_of(&format!("\n\n  {rule}")));
        assert_ne!(plan_of(rule), plan_of("c(x, y) :- a(x, y), b(y), x < 4;"));
        assert_ne!(plan_of(rule), plan_of("c(x, y) :- a(x, y), b(x), x < 3;"));
    }
}
