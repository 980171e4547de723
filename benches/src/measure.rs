//! Runs of whole processes, taken in turns, and what they say together.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::de::DeserializeOwned;

/// The most memory this process has had, in mebibytes (`VmHWM` of proc(5)); 0 where the kernel does not say.
pub(crate) fn peak_mib() -> f64 {
    std::fs::read_to_string("/proc/self/status")
        .ok()
        .and_then(|status| {
            let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
            line.split_whitespace().next()?.parse::<f64>().ok()
        })
        .map_or(0.0, |kib| kib / 1024.0)
}

/// Runs this program again with these arguments, and reads the one JSON value that it prints.
pub(crate) fn child<T: DeserializeOwned>(arguments: &[String]) -> Result<T> {
    let program = std::env::current_exe().context("cannot find this program's file")?;
    let output = Command::new(program).args(arguments).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        bail!("`{}` failed ({})", arguments.join(" "), output.status);
    }
    serde_json::from_slice(&output.stdout).context("a run printed something that is no result")
}

/// One figure over several runs.
pub(crate) struct Spread {
    sorted: Vec<f64>,
}

impl Spread {
    /// Of these measurements; there is at least one.
    pub(crate) fn new(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        Spread { sorted: values }
    }

    /// The value in the middle.
    pub(crate) fn median(&self) -> f64 {
        self.sorted[self.sorted.len() / 2]
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = f.precision().unwrap_or(3);
        let (low, high) = (self.sorted[0], self.sorted[self.sorted.len() - 1]);
        write!(f, "{:.digits$} ({low:.digits$}–{high:.digits$})", self.median())
    }
}

/// Prints one figure of ours beside the baseline's: medians with their range, and the ratio of each pair of runs.
pub(crate) fn print_ratio(name: &str, digits: usize, ours: &[f64], baseline: &[f64]) {
    let ratio = Spread::new(ours.iter().zip(baseline).map(|(ours, baseline)| ours / baseline).collect());
    let (ours, baseline) = (Spread::new(ours.to_vec()), Spread::new(baseline.to_vec()));
    println!("| {name} | {ours:.digits$} | {baseline:.digits$} | {ratio:.2} |");
}
