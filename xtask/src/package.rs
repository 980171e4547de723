//! `cargo xtask package`: a Debian package of `weft`, and an archive of the same files, in the folder `dist` of the target folder.
//!
//! The section `package.metadata.deb` in the manifest of `weft-cli` lists the files. Those that are generated are in the folder
//! `release/package` of the target folder.

mod machine;
mod test;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::setup::{DEB, cargo_tool};
use crate::{cargo_command, release};

/// The most that the program may take, so that it does not grow unnoticed. Where it has to be smaller, more crates can be built for size: the
/// profile `release` says which ones are.
const LARGEST_PROGRAM: u64 = 34_000_000;

/// The shells that have completions.
const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Install, use, upgrade and remove the package on fresh Debian systems with systemd
    #[arg(long)]
    test: bool,
}

/// What was built.
struct Package {
    deb: PathBuf,
    archive: PathBuf,
    version: String,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let dist = release::run()?;
    let program = dist.join("weft");
    let bytes = program.metadata().with_context(|| format!("{} is not there", program.display()))?.len();
    if bytes > LARGEST_PROGRAM {
        bail!("{} has {bytes} bytes, and may have {LARGEST_PROGRAM}", program.display());
    }
    stage(&program)?;
    let package = build(&dist, &version()?)?;
    if arguments.test { test::run(&package, &dist) } else { Ok(()) }
}

/// Builds the package, and tests it.
pub(crate) fn test() -> Result<()> {
    run(&Arguments { test: true })
}

/// Puts the program and what it generates where the manifest expects them.
fn stage(program: &Path) -> Result<()> {
    let folder = crate::release_build("package")?;
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    fs::copy(program, folder.join("weft")).context("cannot copy weft")?;
    output(Command::new(program).arg("manual").arg(&folder))?;
    // As Debian has them; without their names and times, so that equal pages stay equal.
    output(Command::new("sh").args(["-c", "gzip -9 -n man?/*"]).current_dir(&folder))?;
    for shell in SHELLS {
        let path = folder.join(format!("weft.{shell}"));
        let script = output(Command::new(program).args(["completions", shell]))?;
        fs::write(&path, script).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Removes packages and archives of other versions: who installs `weft_*.deb` means one.
fn remove_former(dist: &Path) -> Result<()> {
    for entry in fs::read_dir(dist).with_context(|| format!("cannot read {}", dist.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("weft_") && (name.ends_with(".deb") || name.ends_with(".tar.gz")) {
            fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}

/// Builds the package and the archive of this version.
fn build(dist: &Path, version: &str) -> Result<Package> {
    cargo_tool(DEB)?;
    remove_former(dist)?;
    let time = git(&["log", "-1", "--format=%ct"]);
    let mut deb = cargo_command([
        "deb",
        "--package",
        "weft-cli",
        "--no-build",
        "--compress-system",
        "--no-strip",
        "--deb-version",
        version,
    ]);
    deb.arg("--output").arg(dist);
    if let (Some(time), None) = (time, std::env::var_os("SOURCE_DATE_EPOCH")) {
        deb.env("SOURCE_DATE_EPOCH", time);
    }
    let printed = output(&mut deb)?;
    let printed = String::from_utf8_lossy(&printed);
    let deb = PathBuf::from(printed.lines().next_back().context("cargo deb names no package")?.trim());
    let archive = deb.with_extension("tar.gz");
    let script = r#"dpkg-deb --fsys-tarfile "$0" > "$1.tar" && gzip -9 -n < "$1.tar" > "$1"; status=$?; rm -f "$1.tar"; exit $status"#;
    output(Command::new("sh").args(["-c", script]).arg(&deb).arg(&archive))?;
    for path in [&deb, &archive] {
        let bytes = path.metadata().with_context(|| format!("{} is not there", path.display()))?.len();
        eprintln!("{}: {} MB", path.display(), bytes.div_ceil(1_000_000));
    }
    Ok(Package { deb, archive, version: version.to_owned() })
}

/// The version of the package: that of the workspace at its tag, and otherwise the last commit, which is older than the tag before
/// there is one, and newer afterwards.
fn version() -> Result<String> {
    let version = env!("CARGO_PKG_VERSION");
    let tag = format!("v{version}");
    let Some(commit) = git(&["log", "-1", "--date=format-local:%Y%m%d%H%M%S", "--format=%cd.%h"]) else {
        return Ok(version.to_owned());
    };
    if git(&["tag", "--points-at", "HEAD"]).is_some_and(|tags| tags.lines().any(|each| each == tag)) {
        return Ok(version.to_owned());
    }
    let tagged = git(&["tag", "--merged", "HEAD"]).context("cannot list the tags of the repository")?;
    let order = if tagged.lines().any(|each| each == tag) { '+' } else { '~' };
    Ok(format!("{version}{order}git{commit}"))
}

/// What git prints, if this is a repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).env("TZ", "UTC").output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// What a program prints on standard output; it must succeed.
fn output(command: &mut Command) -> Result<Vec<u8>> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?} failed ({}): {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(output.stdout)
}
