//! The project's commands: `cargo xtask demo`, `cargo xtask test`, `cargo xtask soak`, `cargo xtask bench`, `cargo xtask scale`,
//! `cargo xtask sim-switches`, `cargo xtask sim`, `cargo xtask faults`, `cargo xtask fuzz`, `cargo xtask release`, `cargo xtask package`.
//!
//! Each prepares the machine ([`setup`]) and then runs programs of the workspace. This crate depends on no other crate
//! of Weft except what the lab needs, so it builds in seconds.

mod deny;
mod fuzz;
mod package;
mod release;
mod setup;
mod soak;
mod test;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Weft's own commands; each does its set-up on a fresh machine")]
struct Arguments {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Two hypervisors, two tenants with the same addresses, one migration, one dead controller, on real Open vSwitch
    Demo {
        /// Show the same networks' rules, rows and deltas without any switch
        #[arg(long)]
        rules_only: bool,
        /// Leave the lab and the controller running, and print commands to try
        #[arg(long, conflicts_with = "rules_only")]
        keep: bool,
    },
    /// Everything that is tested: units, properties, golden files, dependencies, and the lab on real Open vSwitch
    Test(test::Arguments),
    /// Licences, advisories and duplicate versions of the dependencies, by `deny.toml`; a part of `test`
    Deny(deny::Arguments),
    /// `weft` as it is installed, in target/dist, with its line tables in a file beside it
    Release,
    /// A Debian package of the same program and an archive of the same files, in target/dist
    Package(package::Arguments),
    /// Bytes that libFuzzer invents, through everything that reads what comes from outside
    Fuzz(fuzz::Arguments),
    /// Random tests at their nightly size, from a fresh seed: programs in every engine and the reference, networks in
    /// rules and model, and a long run with ever new names, in a release build
    Soak(soak::Soak),
    /// Mistakes made in the rules one at a time, and whether unit tests or random histories notice, in a release build
    Mutate {
        /// Passed on; `--help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Thousands of simulated Open vSwitches on the loopback interface, in a release build, until Ctrl-C
    SimSwitches {
        /// Passed on; `--help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// The controller's core with drivers, switches, network, disk and clock in one thread, all of which fail, from a seed, in a release build
    Sim {
        /// Passed on; `--help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// A real controller and real Open vSwitch on virtual hosts, with kills, broken connections, a failing disk and a jumping clock, from a
    /// seed, in a release build
    Faults {
        /// Passed on; `--help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// A real controller and 3,000 simulated switches: cold start, changes, restart, faults, in a release build
    Scale {
        /// Passed on; `--help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Speed and memory, ours and the baselines side by side, in a release build
    Bench {
        /// Passed on to the benchmarks; `--help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    match task {
        Task::Demo { rules_only, keep } => {
            if !rules_only {
                setup::open_vswitch().context(
                    "the demo needs real Open vSwitch; `cargo xtask demo --rules-only` does without",
                )?;
            }
            cargo(&["build", "--package", "weft-cli"], None)?;
            let mut demo = vec!["run", "--quiet", "--package", "weft-cli", "--", "demo"];
            demo.extend(rules_only.then_some("--rules-only"));
            demo.extend(keep.then_some("--keep"));
            cargo(&demo, None)
        }
        Task::Test(arguments) => test::run(&arguments),
        Task::Deny(arguments) => deny::command(&arguments),
        Task::Release => release::run().map(drop),
        Task::Package(arguments) => package::run(&arguments),
        Task::Fuzz(arguments) => fuzz::command(&arguments),
        Task::Soak(soak) => soak.run(),
        Task::Mutate { arguments } => build_and_run("mutation", &arguments),
        Task::SimSwitches { arguments } => build_and_run("sim-switches", &arguments),
        Task::Sim { arguments } => build_and_run("simulation", &arguments),
        Task::Faults { arguments } => faults(&arguments),
        Task::Scale { arguments } => bench(&[vec!["scale".to_owned()], arguments].concat()),
        Task::Bench { arguments } => bench(&arguments),
    }
}

/// Builds `weft` and the benchmarks together, so that both have the same dependencies, and runs the benchmarks.
fn bench(arguments: &[String]) -> Result<()> {
    let named = |names: &[&str]| arguments.iter().any(|argument| names.contains(&argument.as_str()));
    if named(&["push", "plug", "first-packet", "all"]) {
        setup::open_vswitch()?;
    }
    if let Err(why) = setup::gringo() {
        eprintln!("{why:#}; figures beside it are left out");
    }
    cargo(
        &[
            "build",
            "--release",
            "--package",
            "weft-cli",
            "--package",
            "weft-bench",
            "--features",
            "weft-bench/datalog",
        ],
        None,
    )?;
    run_release_build("weft-bench", arguments)
}

/// Builds `weft` and the fault suite together, and runs the suite.
fn faults(arguments: &[String]) -> Result<()> {
    setup::open_vswitch()?;
    setup::faults()?;
    cargo(&["build", "--release", "--package", "weft-cli", "--package", "faults"], None)?;
    run_release_build("faults", arguments)
}

/// Builds a package, and runs its program.
fn build_and_run(package: &str, arguments: &[String]) -> Result<()> {
    cargo(&["build", "--release", "--package", package], None)?;
    run_release_build(package, arguments)
}

/// Runs a program of the release build.
fn run_release_build(name: &str, arguments: &[String]) -> Result<()> {
    let program = release_build(name)?;
    let status = Command::new(&program)
        .args(arguments)
        .env("PATH", with_system_folders())
        .status()
        .with_context(|| format!("cannot start {}", program.display()))?;
    if !status.success() {
        bail!("{name} failed ({status})");
    }
    Ok(())
}

/// A program of the release build.
fn release_build(name: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find this program's file")?;
    let target = own.parent().and_then(Path::parent).context("this program is not in a target folder")?;
    Ok(target.join("release").join(name))
}

/// `PATH` with the folders of daemons, which the `PATH` of ordinary users lacks.
fn with_system_folders() -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    format!("{path}:/usr/sbin:/sbin")
}

/// The cargo that runs this program.
fn cargo_program() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Cargo with these arguments. Without incremental compilation, unless the user asks for it: builds here are rare and large, and take
/// longer and three gigabytes more with it.
fn cargo_command<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(cargo_program());
    command.args(arguments).env("PATH", with_system_folders());
    if std::env::var_os("CARGO_INCREMENTAL").is_none() {
        command.env("CARGO_INCREMENTAL", "0");
    }
    command
}

/// Runs cargo with our standard output and error.
fn cargo<'a, A: AsRef<str>>(
    arguments: &[A],
    variables: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<()> {
    let arguments: Vec<&str> = arguments.iter().map(AsRef::as_ref).collect();
    let status =
        cargo_command(arguments.iter().copied()).envs(variables).status().context("cannot start cargo")?;
    if !status.success() {
        bail!("`cargo {}` failed ({status})", arguments.join(" "));
    }
    Ok(())
}
