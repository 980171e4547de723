//! `cargo xtask fuzz`: the fuzz targets of `fuzz/`, each for some minutes, and what all runs add up to.
//!
//! The programs are built once by cargo-fuzz, with counters of coverage, and started one after another. Each run adds a line to
//! [`runs::FILE`], which is in the repository.

mod output;
mod runs;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde_json::Value as Json;

use crate::{cargo_command, cargo_program, setup, with_system_folders};
use output::Output;
use runs::{Run, Runs};

/// The folder of the targets, in the repository.
const FOLDER: &str = "fuzz";

/// How long one input may take, in seconds. What takes longer hangs, also on a machine that is busy otherwise.
const INPUT_SECONDS: u32 = 120;

/// How often progress is shown.
const SHOW: Duration = Duration::from_secs(10);

/// Arguments of `cargo xtask fuzz`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The targets to run; without any, all
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// How long each target runs
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    minutes: u32,
}

/// A program that libFuzzer drives.
#[derive(Debug, Clone)]
struct Target {
    name: String,
    /// The features of the package that it needs.
    features: Vec<String>,
}

/// Runs the chosen targets.
pub(crate) fn command(arguments: &Arguments) -> Result<()> {
    let Package { targets: known, built } = Package::read()?;
    for name in &arguments.targets {
        if !known.iter().any(|target| target.name == *name) {
            let names: Vec<&str> = known.iter().map(|target| target.name.as_str()).collect();
            bail!("there is no fuzz target `{name}`; {FOLDER}/Cargo.toml has {}", names.join(", "));
        }
    }
    let is_chosen =
        |target: &Target| arguments.targets.is_empty() || arguments.targets.contains(&target.name);
    run(&known.into_iter().filter(is_chosen).collect::<Vec<_>>(), &built, arguments.minutes)
}

/// Runs every target for so many minutes.
pub(crate) fn all(minutes: u32) -> Result<()> {
    let Package { targets, built } = Package::read()?;
    run(&targets, &built, minutes)
}

fn run(targets: &[Target], built: &Path, minutes: u32) -> Result<()> {
    let mut runs = Runs::read(&root())?;
    setup::cpp_compiler()?;
    setup::cargo_tool(setup::FUZZ)?;
    let programs = build(targets, built)?;
    let commit = commit()?;
    for target in targets {
        eprintln!("fuzz: {} for {}", target.name, many(minutes, "minute"));
        let totals = fuzz(&programs.join(&target.name), &target.name, minutes)?;
        runs.add(Run::now(&commit, &target.name, &totals)?)?;
    }
    let names: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
    println!("{}", runs.table(&names));
    Ok(())
}

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// What cargo says of `fuzz/Cargo.toml`.
struct Package {
    /// The targets, in its order.
    targets: Vec<Target>,
    /// Where cargo puts what it builds.
    built: PathBuf,
}

impl Package {
    fn read() -> Result<Self> {
        let manifest = root().join(FOLDER).join("Cargo.toml");
        let output = Command::new(cargo_program())
            .args(["metadata", "--no-deps", "--format-version", "1", "--manifest-path"])
            .arg(&manifest)
            .output()
            .context("cannot start cargo")?;
        let place = manifest.display();
        ensure!(output.status.success(), "{place}: {}", String::from_utf8_lossy(&output.stderr).trim());
        let metadata: Json =
            serde_json::from_slice(&output.stdout).context("`cargo metadata` prints JSON")?;
        let built =
            metadata["target_directory"].as_str().context("`cargo metadata` names the target folder")?;
        let programs = metadata["packages"][0]["targets"].as_array();
        let programs = programs.with_context(|| format!("{place}: cargo lists no programs"))?.iter();
        let is_program =
            |of: &&Json| of["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "bin"));
        let target = |of: &Json| {
            let features = of["required-features"].as_array().into_iter().flatten();
            let features = features.filter_map(Json::as_str).map(str::to_owned).collect();
            Some(Target { name: of["name"].as_str()?.to_owned(), features })
        };
        let targets: Option<Vec<Target>> = programs.filter(is_program).map(target).collect();
        let targets = targets.with_context(|| format!("{place}: cargo lists a program without a name"))?;
        Ok(Package { targets, built: built.into() })
    }
}

/// Builds the targets. Returns the folder of their programs.
///
/// All features that any of them needs are on for all, so that a dependency is built once.
fn build(targets: &[Target], built: &Path) -> Result<PathBuf> {
    let features: BTreeSet<&str> =
        targets.iter().flat_map(|target| target.features.iter().map(String::as_str)).collect();
    let features = features.into_iter().collect::<Vec<_>>().join(",");
    // Without a sanitizer: those need a nightly compiler, and find faults of unsafe code, of which we have none.
    let mut arguments = vec!["fuzz", "build", "--sanitizer", "none"];
    if !features.is_empty() {
        arguments.extend(["--features", &features]);
    }
    if let [target] = targets {
        arguments.push(&target.name);
    }
    eprintln!("fuzz: building; from nothing, it takes many minutes");
    let status = cargo_command(arguments.iter().copied()).current_dir(root()).status();
    let status = status.context("cannot start cargo")?;
    ensure!(status.success(), "`cargo {}` failed ({status})", arguments.join(" "));
    Ok(built.join(host()?).join("release"))
}

/// The machine that the compiler builds for, by which cargo-fuzz names the folder of its programs.
fn host() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("cannot start rustc")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: ")).map(str::to_owned);
    host.context("`rustc -vV` names no host")
}

/// The commit that is checked out, with a `+` if files differ from it.
fn commit() -> Result<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").arg("-C").arg(root()).args(arguments).output();
        let output = output.context("cannot start git")?;
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        ensure!(output.status.success(), "git {}: {said}", arguments.join(" "));
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=10", "HEAD"])?;
    // The line of an earlier run says nothing about what is fuzzed.
    let without_runs = format!(":(exclude){}", runs::FILE);
    let edited = git(&["status", "--porcelain", "--untracked-files=no", "--", ".", &without_runs])?;
    Ok(if edited.is_empty() { commit } else { commit + "+" })
}

/// Runs one target.
///
/// # Errors
/// It failed on an input, whose file the error names, or its figures cannot be read.
fn fuzz(program: &Path, name: &str, minutes: u32) -> Result<output::Totals> {
    let folder = root().join(FOLDER).canonicalize().context("cannot find the folder of the fuzz targets")?;
    let (corpus, seeds) = (folder.join("corpus").join(name), folder.join("seeds").join(name));
    let artifacts = folder.join("artifacts").join(name);
    for made in [&corpus, &artifacts] {
        fs::create_dir_all(made).with_context(|| format!("cannot make {}", made.display()))?;
    }
    ensure!(seeds.is_dir(), "{} is not there: a target needs seeds, such as a real input", seeds.display());
    let mut child = Command::new(program)
        .arg(format!("-max_total_time={}", u64::from(minutes) * 60))
        .args(["-print_final_stats=1", &format!("-timeout={INPUT_SECONDS}")])
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        // New inputs go into the first folder.
        .args([&corpus, &seeds])
        .env("PATH", with_system_folders())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))?;
    let printed = child.stderr.take().context("the program has a standard error")?;
    let (mut output, mut shown) = (Output::default(), Instant::now());
    for line in BufReader::new(printed).split(b'\n') {
        let line = line.with_context(|| format!("cannot read what {name} prints"))?;
        output.add(&String::from_utf8_lossy(&line));
        if shown.elapsed() >= SHOW {
            shown = Instant::now();
            if let Some(progress) = output.progress() {
                eprintln!("      {progress}");
            }
        }
    }
    let status = child.wait().with_context(|| format!("cannot wait for {name}"))?;
    if !status.success() {
        let last = output.last_lines();
        match output.failing_input() {
            Some(input) => bail!(
                "{last}\n\nthe fuzz target {name} fails on {input}\nmend the cause, add a regression test beside it, and keep the input \
                 in {}; `{} {input}` repeats the failure",
                seeds.display(),
                program.display(),
            ),
            None => bail!("{last}\n\nthe fuzz target {name} ended ({status}), and names no input"),
        }
    }
    output.totals().with_context(|| {
        format!("the figures of {name} cannot be read; this cargo-fuzz may have another libFuzzer")
    })
}

/// A number of things.
fn many(count: u32, name: &str) -> String {
    if count == 1 { format!("1 {name}") } else { format!("{count} {name}s") }
}
