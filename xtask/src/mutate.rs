//! `cargo xtask mutate`: mistakes made in the rules one at a time.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{cargo, release_build};

/// Builds the `mutation` program and passes on its arguments. The program itself prints which mistakes survive.
pub(crate) fn mutate(arguments: &[String]) -> Result<()> {
    cargo(&["build", "--release", "--package", "mutation"], None)?;
    let program = release_build("mutation")?;
    let status = Command::new(&program)
        .args(arguments)
        .status()
        .with_context(|| format!("cannot start {}", program.display()))?;
    if !status.success() {
        bail!("some mistakes survive, or could not be tried ({status})");
    }
    Ok(())
}
