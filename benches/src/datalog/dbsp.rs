//! Figure 6 in `dbsp`, which is incremental too: a program of its own (`benches/dbsp`), since dbsp brings hundreds of crates.
//!
//! Numbers in memory to deltas in memory on both sides. The program reads all transactions from a file before its clock
//! starts; the handwritten dataflow ran them and wrote them there, with the answers of Open vSwitch. It runs twice: with
//! the settings that dbsp has by default, and with those that are best for this work, which the program explains.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::figure6::{self, Run, compare};
use crate::measure;
use crate::report::Line;

/// The release of `dbsp` in the lock file of `benches/dbsp`.
const VERSION: &str = "0.349.0";

/// Builds the program in a target folder of its own, beside that of this program, and returns its file.
pub(super) fn build() -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find this program's file")?;
    let folder = own.ancestors().nth(2).context("this program is not in a target folder")?.join("dbsp");
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/dbsp/Cargo.toml");
    eprintln!("building dbsp, which takes some ten minutes the first time");
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--locked", "--quiet", "--manifest-path", manifest, "--target-dir"]);
    let status = cargo.arg(&folder).status().context("cannot start cargo")?;
    ensure!(status.success(), "cargo failed ({status})");
    Ok(folder.join("release").join("weft-bench-dbsp"))
}

/// Many runs of both.
pub(super) fn lines(runs: usize, run: Run, program: &Path) -> Result<Vec<Line>> {
    let run = Run { workers: 1, ..run };
    let folder = tempfile::tempdir().context("cannot make a folder for transactions")?;
    let file = folder.path().join("transactions");
    figure6::write(run, &file)?;
    let file = file.to_string_lossy();
    let mut lines = Vec::new();
    for (settings, named) in [("default", "its default settings"), ("best", "its best settings")] {
        let name =
            format!("Figure 6, numbers in memory to deltas in memory, beside dbsp {VERSION} with {named}");
        lines.extend(compare::beside(runs, run, &name, || measure::child_of(program, &[settings, &file]))?);
    }
    Ok(lines)
}
