//! `cargo xtask test`: every test, or a selection that finishes within a minute or two of an edit.

mod selection;

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use selection::Selection;

use crate::{cargo, cargo_command, deny, setup};

/// Tests that need real Open vSwitch are in modules of this name, in every crate; only this identifies them.
const NEEDS_OPEN_VSWITCH: &str = "test(/(^|::)open_vswitch::/)";

/// Makes tests of random programs and networks run a tenth of their cases.
const QUICK: (&str, &str) = ("WEFT_TEST_QUICK", "1");

/// The number of tests that nextest runs at a time.
const TEST_THREADS: &str = "NEXTEST_TEST_THREADS";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// After an edit: the changed crates and what uses rules, with fewer random cases, without Open vSwitch
    #[arg(long)]
    quick: bool,
    /// Leave out the tests that need real Open vSwitch, for machines that cannot have it
    #[arg(long)]
    no_ovs: bool,
    /// Run the tests of this package only; the others are built as well
    #[arg(long, short = 'p', value_name = "NAME")]
    package: Vec<String>,
    /// Run only the tests that this filter of nextest selects, such as `test(random)`
    #[arg(long, short = 'E', value_name = "EXPRESSION")]
    filterset: Vec<String>,
    /// Passed on to `cargo nextest run`, such as part of a test's name
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    setup::cargo_tool(setup::NEXTEST)?;
    let mut parts = Parts::default();
    let without_switch = arguments.quick || arguments.no_ovs;
    if !without_switch {
        setup::open_vswitch().context(
            "most tests of flows need real Open vSwitch; `cargo xtask test --no-ovs` leaves those out and says how many",
        )?;
    }
    let chosen_by_hand =
        !(arguments.rest.is_empty() && arguments.package.is_empty() && arguments.filterset.is_empty());
    let whole = !arguments.quick && !chosen_by_hand;
    if whole {
        parts.time("licences, advisories and duplicate crates", deny::run)?;
    }
    let selection = match (arguments.quick, chosen_by_hand) {
        (true, false) => Selection::of_edits()?,
        (_, true) if !arguments.package.is_empty() => Selection::of_packages(&arguments.package)?,
        _ => Selection::whole(),
    };
    if selection.has(setup::USES_CLIENTS) {
        setup::clients()?;
    }
    if !without_switch && selection.has(setup::USES_FAULTS) {
        setup::faults()?;
    }
    for line in selection.describe() {
        eprintln!("{line}");
    }
    // Several filters of nextest would add up; here each narrows the choice.
    let mut filters: Vec<String> = selection.filter().into_iter().collect();
    if !arguments.filterset.is_empty() {
        filters.push(format!("({})", arguments.filterset.join(" | ")));
    }
    let needs_switch =
        filters.iter().map(String::as_str).chain([NEEDS_OPEN_VSWITCH]).collect::<Vec<_>>().join(" & ");
    if without_switch {
        filters.push(format!("not {NEEDS_OPEN_VSWITCH}"));
    }
    let options: Vec<&str> = arguments.rest.iter().map(String::as_str).chain(["--workspace"]).collect();
    let filter = filters.join(" & ");
    let chosen: &[&str] = if filters.is_empty() { &[] } else { &["-E", &filter] };
    // Many tests wait for switches: with twice as many tests as cores, fewer cores are idle. A variable, so that the option
    // of nextest can still be given.
    let threads = std::thread::available_parallelism().map_or(2, |cores| 2 * cores.get()).to_string();
    let threads = std::env::var(TEST_THREADS).unwrap_or(threads);
    let environment = || arguments.quick.then_some(QUICK).into_iter().chain([(TEST_THREADS, &*threads)]);
    let nextest =
        |more: &[&str]| cargo(&[&["nextest", "run"], more, &options, chosen].concat(), environment());
    parts.time("build", || nextest(&["--no-run"]))?;
    parts.time("tests", || nextest(&[]))?;
    if whole {
        parts.time("examples in the documentation of crates", || {
            cargo(&["test", "--quiet", "--workspace", "--doc"], None)
        })?;
    }
    parts.print();
    let mut left_out = selection.left_out();
    if without_switch {
        left_out.push(format!("{} tests that need Open vSwitch", count(&options, &needs_switch)?));
    }
    match &left_out[..] {
        [] if whole => eprintln!("all tests passed"),
        [] => eprintln!("the chosen tests passed"),
        left_out => eprintln!("passed; LEFT OUT: {}", left_out.join("; ")),
    }
    Ok(())
}

/// The number of tests that a filter selects.
fn count(options: &[&str], filter: &str) -> Result<usize> {
    let output = cargo_command(["nextest", "list", "--message-format", "oneline", "-E", filter])
        .args(options)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    if !output.status.success() {
        bail!("`cargo nextest list` failed ({})", output.status);
    }
    Ok(output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count())
}

/// The parts that ran, with their times.
#[derive(Default)]
struct Parts(Vec<(&'static str, Duration)>);

impl Parts {
    fn time(&mut self, part: &'static str, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let start = Instant::now();
        work().with_context(|| format!("{part}: failed"))?;
        self.0.push((part, start.elapsed()));
        Ok(())
    }

    fn print(&self) {
        eprintln!();
        for (part, time) in &self.0 {
            eprintln!("{:>6.1} s  {part}", time.as_secs_f64());
        }
        let all: Duration = self.0.iter().map(|(_, time)| *time).sum();
        eprintln!("{:>6.1} s  in all", all.as_secs_f64());
    }
}
