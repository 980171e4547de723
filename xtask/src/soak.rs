//! `cargo xtask soak`: the random tests at their nightly size, from a fresh seed; a long run that must not grow; and an upgrade from the last
//! release.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::{cargo, fuzz, package, setup};

/// Arguments of `cargo xtask soak`.
#[derive(Args)]
pub(crate) struct Soak {
    /// Programs with their histories, in every engine and the reference; one of fifty does not compile
    #[arg(long, value_name = "N", default_value_t = 10_500)]
    cases: u64,
    /// Transactions of the long run with ever new names
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    transactions: u64,
    /// Networks with their histories, in rules and model; ten thousand take some minutes
    #[arg(long, value_name = "N", default_value_t = 50_000)]
    networks: u64,
    /// Networks with ACLs and their histories, of each kind
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    networks_with_acls: u64,
    /// Lists of random flows that a real switch takes, prints and returns
    #[arg(long, value_name = "N", default_value_t = 50)]
    flow_tables: u64,
    /// Histories of Figure 6 through `weft eval` in all ways
    #[arg(long, value_name = "N", default_value_t = 500)]
    figure6: u64,
    /// Kills of a controller under load
    #[arg(long, value_name = "N", default_value_t = 1000)]
    kills: u64,
    /// Rounds of clients whose answers are lost, each with a kill of the controller
    #[arg(long, value_name = "N", default_value_t = 300)]
    rounds: u64,
    /// Rounds of watchers that are disturbed, each with a kill of the controller and a history that is cut
    #[arg(long, value_name = "N", default_value_t = 30)]
    watches: u64,
    /// Ports of a network that is created, listed and watched over HTTP
    #[arg(long, value_name = "N", default_value_t = 63_000)]
    ports: u64,
    /// Requests that are generated from the description of the API; a short run has 2,000
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    requests: u64,
    /// Kills of the responders of hosts, beside a machine that floods them
    #[arg(long, value_name = "N", default_value_t = 100)]
    responders: u64,
    /// How long everything goes wrong at once around a controller, in seconds
    #[arg(long, value_name = "N", default_value_t = 600)]
    disturbed: u64,
    /// Changes of a network whose controller must stay as small as it is, with restarts between them
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    changes: u64,
    /// Simulations of the controller with everything failing around it
    #[arg(long, value_name = "N", default_value_t = 2_000)]
    simulations: u64,
    /// How long a real controller and real Open vSwitch are killed, cut off and deprived of their disk, in minutes
    #[arg(long, value_name = "N", default_value_t = 30)]
    faults: u64,
    /// Minutes that each fuzz target runs
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    fuzzing: u32,
    /// The first seed; without it, a fresh one, which is printed
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
}

impl Soak {
    /// Runs the random tests in a release build.
    pub(crate) fn run(&self) -> Result<()> {
        let seed = self.seed.map_or_else(fresh_seed, Ok)?;
        eprintln!("soak: seed {seed}; `cargo xtask soak --seed {seed}` runs the same cases again");
        test("nlog-dataflow", "random::", seed, ("WEFT_TEST_CASES", self.cases))?;
        test("conformance", "random::", seed, ("WEFT_TEST_CASES", self.networks))?;
        test("conformance", "acls::", seed, ("WEFT_TEST_CASES", self.networks_with_acls))?;
        test("simulation", "seeds::nothing_is_lost", seed, ("WEFT_TEST_CASES", self.simulations))?;
        test("openflow-rs", "open_vswitch::", seed, ("WEFT_TEST_CASES", self.flow_tables))?;
        for package in ["nlog", "nlog-data", "nlog-reference", "objects", "openflow-rs"] {
            // All tests of the package, for its property tests.
            test(package, "", seed, ("PROPTEST_RNG_SEED", seed))?;
        }
        fuzz::all(self.fuzzing).context("fuzzing")?;
        test("nlog-dataflow", "soak::", seed, ("WEFT_TEST_TRANSACTIONS", self.transactions))?;
        test("weft-cli", "figure6::", seed, ("WEFT_TEST_CASES", self.figure6))?;
        test("weft-cli", "disturbed::", seed, ("WEFT_TEST_SECONDS", self.disturbed))?;
        setup::clients()?;
        test("weft-cli", "python::generated_requests", seed, ("WEFT_TEST_REQUESTS", self.requests))?;
        test("weft-cli", "kill::", seed, ("WEFT_TEST_KILLS", self.kills))?;
        test("weft-cli", "network::responses", seed, ("WEFT_TEST_KILLS", self.responders))?;
        test("weft-cli", "linearizable::", seed, ("WEFT_TEST_ROUNDS", self.rounds))?;
        test("weft-cli", "watches::", seed, ("WEFT_TEST_ROUNDS", self.watches))?;
        test("weft-cli", "large::", seed, ("WEFT_TEST_PORTS", self.ports))?;
        crate::faults(&["--minutes".into(), self.faults.to_string(), "--seed".into(), seed.to_string()])?;
        steady(seed, self.changes)?;
        upgrade()?;
        run("weft-bench", &["--bin", "weft-bench"], [])?;
        package::test()
    }
}

/// What soaks of this clone add up to: a line for each long run.
const RECORD: &str = "soak.jsonl";

/// Changes a network for long, and reports what all long runs so far add up to.
fn steady(seed: u64, changes: u64) -> Result<()> {
    let record = target()?.join(RECORD);
    let (seed, changes, path) = (seed.to_string(), changes.to_string(), record.display().to_string());
    let variables =
        [("WEFT_TEST_SEED", &*seed), ("WEFT_TEST_CHANGES", &*changes), ("WEFT_TEST_RECORD", &*path)];
    run("weft-cli", &["--test", "integration", "--", "--nocapture", "steady::"], variables)?;
    let text = fs::read_to_string(&record).with_context(|| format!("cannot read {path}"))?;
    let (mut runs, mut all, mut seconds) = (0, 0, 0);
    for line in text.lines() {
        let line: serde_json::Value =
            serde_json::from_str(line).with_context(|| format!("{path}: {line}"))?;
        let of = |key: &str| line[key].as_u64().unwrap_or_default();
        (runs, all, seconds) = (runs + 1, all + of("changes"), seconds + of("seconds"));
    }
    eprintln!("soak: {runs} runs so far: {all} changes in {} h {} min", seconds / 3600, seconds / 60 % 60);
    Ok(())
}

/// Upgrades from the last tag under traffic, and back.
fn upgrade() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let git = |arguments: &[&str]| {
        let output =
            Command::new("git").arg("-C").arg(&root).args(arguments).output().context("cannot start git")?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "git {}: {said}", arguments.join(" "));
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let tag = git(&["describe", "--tags", "--abbrev=0", "--match", "v*", "HEAD^"])
        .context("this clone has no tag of a release; fetch it with `git fetch --tags`")?;
    let source = target()?.join("former").join(&tag);
    let path = source.display().to_string();
    if !source.exists() {
        git(&["worktree", "add", "--force", "--detach", &path, &tag])?;
    }
    eprintln!("soak: building {tag}, to upgrade from it");
    let build = Command::new(crate::cargo_program())
        .args(["build", "--release", "--locked", "--package", "weft-cli"])
        .env("CARGO_TARGET_DIR", source.join("target"))
        .current_dir(&source)
        .status()
        .context("cannot start cargo")?;
    ensure!(build.success(), "{tag} cannot be built ({build})");
    let former = source.join("target/release/weft").display().to_string();
    setup::open_vswitch()?;
    run(
        "weft-cli",
        &["--test", "integration", "--", "--nocapture", "upgrade::"],
        [("WEFT_TEST_FORMER", &*former)],
    )
}

/// The target folder, which has this program.
fn target() -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find this program's file")?;
    own.parent().and_then(Path::parent).map(Path::to_owned).context("this program is not in a target folder")
}

/// Runs the tests of a package's module in a release build.
fn test(package: &str, module: &str, seed: u64, size: (&str, u64)) -> Result<()> {
    let (seed_of_run, size_of_run) = (seed.to_string(), size.1.to_string());
    let variables = [("WEFT_TEST_SEED", &*seed_of_run), (size.0, &*size_of_run)];
    run(package, &["--test", "integration", "--", "--nocapture", module], variables)
        .with_context(|| format!("a random test of {package} fails; it began at seed {seed}"))
}

/// Runs tests of a package in a release build.
fn run<'a>(
    package: &str,
    selection: &[&str],
    variables: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<()> {
    cargo(&[&["test", "--release", "--package", package], selection].concat(), variables)
}

/// A seed that no earlier run has used: the time, in seconds.
fn fresh_seed() -> Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())
}
