//! Measures processes, runs both sides in turns, and summarises the runs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::de::DeserializeOwned;

pub(crate) use crate::meter::{Clock, cpu, peak_mib, resident_mib};

/// The peak memory of any ended child of this process, in mebibytes.
pub(crate) fn peak_of_children_mib() -> Result<f64> {
    use nix::sys::resource::{UsageWho, getrusage};
    Ok(getrusage(UsageWho::RUSAGE_CHILDREN)?.max_rss() as f64 / 1024.0)
}

/// Runs this program again with these arguments, and reads the one JSON value that it prints.
pub(crate) fn child<T: DeserializeOwned>(arguments: &[&str]) -> Result<T> {
    child_of(&std::env::current_exe().context("cannot find this program's file")?, arguments)
}

/// Runs a program with these arguments, and reads the one JSON value that it prints.
pub(crate) fn child_of<T: DeserializeOwned>(program: &Path, arguments: &[&str]) -> Result<T> {
    let output = Command::new(program).args(arguments).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        bail!("`{} {}` failed ({})", program.display(), arguments.join(" "), output.status);
    }
    serde_json::from_slice(&output.stdout).context("a run printed something that is no result")
}

/// Runs both in turns, `runs` times. One more pair comes first and does not count, because it touches memory for
/// the first time.
pub(crate) fn in_turns<A, B>(
    runs: usize,
    mut ours: impl FnMut() -> Result<A>,
    mut baseline: impl FnMut() -> Result<B>,
    mut agree: impl FnMut(&A, &B) -> Result<()>,
) -> Result<(Vec<A>, Vec<B>)> {
    let mut results = (Vec::new(), Vec::new());
    for run in 0..=runs {
        let (ours, baseline) = (ours()?, baseline()?);
        agree(&ours, &baseline)?;
        if run > 0 {
            results.0.push(ours);
            results.1.push(baseline);
        }
    }
    Ok(results)
}

/// One figure over several runs.
#[derive(Debug, Clone)]
pub(crate) struct Spread {
    sorted: Vec<f64>,
}

impl Spread {
    /// Summarises these measurements; there must be at least one.
    pub(crate) fn new(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        Spread { sorted: values }
    }

    /// The value in the middle.
    pub(crate) fn median(&self) -> f64 {
        self.sorted[self.sorted.len() / 2]
    }

    /// The value below which this part of them is.
    pub(crate) fn at(&self, part: f64) -> f64 {
        self.sorted[((self.sorted.len() - 1) as f64 * part).round() as usize]
    }

    /// The greatest.
    pub(crate) fn greatest(&self) -> f64 {
        self.sorted[self.sorted.len() - 1]
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = f.precision().unwrap_or(3);
        let (low, high) = (self.sorted[0], self.greatest());
        write!(f, "{:.digits$} ({low:.digits$}–{high:.digits$})", self.median())
    }
}

/// Prints one figure of Weft and of the baseline: medians with their range, and the ratio of each pair of runs.
pub(crate) fn print_ratio(name: &str, digits: usize, ours: &[f64], baseline: &[f64]) {
    let ratio = Spread::new(ours.iter().zip(baseline).map(|(ours, baseline)| ours / baseline).collect());
    let (ours, baseline) = (Spread::new(ours.to_vec()), Spread::new(baseline.to_vec()));
    println!("| {name} | {ours:.digits$} | {baseline:.digits$} | {ratio:.2} |");
}

/// A line about the machine and its software.
pub(crate) fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        line.and_then(|line| Some(line.split_once([':', '='])?.1.trim().trim_matches('"').to_owned()))
    };
    let processor = field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| "unknown processor".into());
    let memory = field(&read("/proc/meminfo"), "MemTotal");
    let memory = memory.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0);
    let system = field(&read("/etc/os-release"), "PRETTY_NAME").unwrap_or_else(|| "unknown system".into());
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let load = read("/proc/loadavg");
    let load = load.split_whitespace().next().unwrap_or("?");
    format!("{processor}, {cores} cores, {} GiB, {system}; load {load}", memory / (1 << 20))
}

/// The `weft` that was built with this program.
pub(crate) fn weft() -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find this program's file")?;
    let weft = own.with_file_name("weft");
    if !weft.exists() {
        bail!("{} is not there; `cargo xtask bench` builds it", weft.display());
    }
    Ok(weft)
}
