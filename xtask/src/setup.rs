//! Installs the requirements of a fresh machine: Open vSwitch and the tools that make virtual hosts. The lab knows its
//! requirements.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Ensures that the machine can run a lab: installs missing packages through apt if permitted. Otherwise fails with the
/// exact command to run, or with another obstacle.
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

/// Ensures that gringo, the baseline of some figures, is installed.
pub(crate) fn gringo() -> Result<()> {
    let there = |folder: std::path::PathBuf| folder.join("gringo").exists();
    if std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).any(there) {
        return Ok(());
    }
    install("gringo is not installed", "gringo")
}

/// A program that extends cargo by a command, with the version that the project's settings are written for.
#[derive(Clone, Copy)]
pub(crate) struct CargoTool {
    name: &'static str,
    version: &'static str,
}

/// Runs tests, each in a separate process.
pub(crate) const NEXTEST: CargoTool = CargoTool { name: "cargo-nextest", version: "0.9.143" };

/// Checks Weft's dependencies.
pub(crate) const DENY: CargoTool = CargoTool { name: "cargo-deny", version: "0.20.2" };

/// Ensures that a tool of cargo is installed. Any version suffices; if there is none, the known version is built, without
/// optimisation because it runs briefly.
pub(crate) fn cargo_tool(tool: CargoTool) -> Result<()> {
    let CargoTool { name, version } = tool;
    let version_of_installed = Command::new(crate::cargo_program())
        .args([name.trim_start_matches("cargo-"), "--version"])
        .output()
        .context("cannot start cargo")?;
    if version_of_installed.status.success() {
        return Ok(());
    }
    eprintln!("building {name} {version}, once for this machine; it takes a few minutes");
    let install = ["install", "--locked", "--debug", "--version", version, name];
    crate::cargo(&install, None).with_context(|| {
        format!(
            "{name} is not installed. Run this by hand, then try again:\n\n    cargo {}\n",
            install.join(" ")
        )
    })
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
