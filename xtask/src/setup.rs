//! What a fresh machine lacks: Open vSwitch and the tools that make virtual hosts.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Programs that tests and demo start, and the Debian package that has each.
const PROGRAMS: [(&str, &str); 7] = [
    ("ovs-vswitchd", "openvswitch-switch"),
    ("ovsdb-server", "openvswitch-switch"),
    ("ovs-ofctl", "openvswitch-switch"),
    ("ip", "iproute2"),
    ("ethtool", "ethtool"),
    ("ping", "iputils-ping"),
    ("arping", "iputils-arping"),
];

/// Sees to it that every one of [`PROGRAMS`] is there: installs what is missing through apt where we are root, else
/// fails with the exact command to run.
pub(crate) fn open_vswitch() -> Result<()> {
    let mut packages: Vec<&str> =
        PROGRAMS.iter().filter(|(program, _)| find(program).is_none()).map(|(_, package)| *package).collect();
    packages.dedup();
    if packages.is_empty() {
        return Ok(());
    }
    let install =
        format!("apt-get update && apt-get install -y --no-install-recommends {}", packages.join(" "));
    if find("apt-get").is_none() {
        bail!(
            "missing: {}. This is no Debian or Ubuntu: install them with the system's package manager",
            packages.join(" ")
        );
    }
    if !is_root() {
        bail!("missing: {}. Run this, then try again:\n\n    sudo sh -c '{install}'\n", packages.join(" "));
    }
    eprintln!("installing {} with apt-get", packages.join(" "));
    // The packages' own services are not wanted: every test and the demo start their own daemons.
    let status = Command::new("sh")
        .args(["-c", &install])
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdout(std::io::stderr())
        .status()
        .context("cannot start sh")?;
    if !status.success() {
        bail!("the installation failed ({status}). Run this by hand, then try again:\n\n    {install}\n");
    }
    match PROGRAMS.iter().find(|(program, _)| find(program).is_none()) {
        Some((program, package)) => bail!("{package} is installed, but there is no {program} on PATH"),
        None => Ok(()),
    }
}

/// Where daemons live on Debian; a user's `PATH` may leave them out.
const SYSTEM_FOLDERS: [&str; 2] = ["/usr/sbin", "/sbin"];

/// The folders of `PATH`, then those of the system.
fn folders() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).chain(SYSTEM_FOLDERS.map(PathBuf::from)).collect()
}

/// A `PATH` on which everything in [`PROGRAMS`] is found.
pub(crate) fn path_with_system_folders() -> Result<OsString> {
    std::env::join_paths(folders()).context("PATH has a folder whose name cannot stand in it")
}

/// The path of a program.
fn find(program: &str) -> Option<PathBuf> {
    folders().into_iter().map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Whether this process may install packages: `/proc/self` belongs to the user that we run as.
fn is_root() -> bool {
    Path::new("/proc/self").metadata().is_ok_and(|metadata| metadata.uid() == 0)
}
