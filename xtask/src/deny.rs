//! `cargo xtask deny`: licences, advisories and duplicate versions of everything that Weft depends on.
//!
//! The advisory database is pinned, so that the result for a commit does not depend on place and time:
//! `supply-chain/advisory-db.tar.gz` holds the advisories of one commit of the `RustSec` database (public domain).
//! `--update` replaces it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{cargo, setup};

/// The pinned database, relative to the workspace.
const PINNED: &str = "supply-chain/advisory-db.tar.gz";

/// The upstream repository of the database, for [`Arguments::update`].
const UPSTREAM: &str = "https://github.com/rustsec/advisory-db";

/// The folder where a new database is made.
const NEW: &str = "target/advisory-db-new";

/// The folder where cargo-deny looks for it: in the folder that `deny.toml` names, the one named by the hash of the
/// URL.
const UNPACKED: &str = "target/advisory-db/advisory-db-3157b0e258782691";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Take the newest advisories first; commit the file that changes
    #[arg(long)]
    update: bool,
}

pub(crate) fn command(arguments: &Arguments) -> Result<()> {
    if arguments.update {
        update().with_context(|| format!("cannot bring {PINNED} up to date"))?;
    }
    run()
}

/// Checks against `deny.toml`.
pub(crate) fn run() -> Result<()> {
    setup::cargo_tool(setup::DENY)?;
    unpack().with_context(|| format!("cannot unpack {PINNED}"))?;
    // The check itself stays offline, or it would fetch another database. It reads the manifests of all dependencies,
    // those for other systems included.
    cargo(&["fetch", "--quiet", "--locked"], None)?;
    cargo(
        &[
            "deny",
            "--log-level",
            "error",
            "--locked",
            "--offline",
            "check",
            "--hide-inclusion-graph",
            "--deny",
            "unmatched-skip",
        ],
        None,
    )
}

/// Unpacks the database into a repository of one commit, which cargo-deny insists on.
fn unpack() -> Result<()> {
    let folder = Path::new(UNPACKED);
    let is_new = |of: &Path| of.metadata().and_then(|data| data.modified());
    if let (Ok(unpacked), Ok(pinned)) = (is_new(&folder.join(".git/HEAD")), is_new(Path::new(PINNED)))
        && unpacked > pinned
    {
        return Ok(());
    }
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    std::fs::create_dir_all(folder)?;
    execute(Command::new("tar").args(["-xzf", PINNED, "-C", UNPACKED]))?;
    let git = |arguments: &[&str]| {
        let named = ["-c", "user.name=weft", "-c", "user.email=weft@localhost", "-c", "commit.gpgsign=false"];
        execute(Command::new("git").current_dir(folder).args(named).args(arguments))
    };
    git(&["init", "--quiet"])?;
    git(&["add", "--all"])?;
    git(&["commit", "--quiet", "--message", "the pinned advisories"])
}

fn update() -> Result<()> {
    let folder = Path::new(NEW);
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    std::fs::create_dir_all(folder)?;
    let clone = folder.join("advisory-db");
    execute(Command::new("git").args(["clone", "--quiet", "--depth", "1", UPSTREAM]).arg(&clone))?;
    let archive = folder.join("advisory-db.tar");
    execute(
        Command::new("git")
            .arg("-C")
            .arg(&clone)
            .args(["archive", "--output"])
            .arg(&archive)
            .args(["HEAD", "crates"]),
    )?;
    execute(Command::new("gzip").args(["-9n"]).arg(&archive))?;
    std::fs::copy(archive.with_extension("tar.gz"), PINNED)?;
    Ok(())
}

fn execute(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    if !status.success() {
        bail!("{command:?} failed ({status})");
    }
    Ok(())
}
