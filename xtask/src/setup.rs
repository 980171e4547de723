//! What a fresh machine lacks: Open vSwitch and the tools that make virtual hosts. The lab knows what it needs.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Sees to it that the machine can carry a lab: installs what is missing through apt where we may. Fails with the exact
/// command to run, or what else stands against it.
pub(crate) fn open_vswitch() -> Result<()> {
    match lab::preflight() {
        Ok(()) => Ok(()),
        Err(missing) if missing.packages.is_empty() => Err(missing.into()),
        Err(missing) => {
            install(&missing.to_string(), &missing.packages.join(" "))?;
            lab::preflight().context("the packages are installed, but")
        }
    }
}

/// Sees to it that gringo is there, which some figures stand beside.
pub(crate) fn gringo() -> Result<()> {
    let there = |folder: std::path::PathBuf| folder.join("gringo").exists();
    if std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).any(there) {
        return Ok(());
    }
    install("gringo is not installed", "gringo")
}

fn install(missing: &str, packages: &str) -> Result<()> {
    if !Path::new("/usr/bin/apt-get").exists() {
        bail!("{missing} (this is no Debian or Ubuntu: install them with the system's package manager)");
    }
    let install = format!("apt-get update && apt-get install -y --no-install-recommends {packages}");
    if !rustix::process::geteuid().is_root() {
        bail!("{missing}\n\nRun this, then try again as root:\n\n    sudo sh -c '{install}'\n");
    }
    eprintln!("installing {packages} with apt-get");
    let status = Command::new("sh")
        .args(["-c", &install])
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdout(std::io::stderr())
        .status()
        .context("cannot start sh")?;
    if !status.success() {
        bail!("the installation failed ({status}). Run this by hand, then try again:\n\n    {install}\n");
    }
    Ok(())
}
