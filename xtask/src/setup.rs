//! Installs the requirements of a fresh machine: Open vSwitch and the tools that make virtual hosts, whose requirements the lab knows, and
//! what uses the API from outside.

use std::fs;
use std::path::{Path, PathBuf};
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
    if has_program("gringo") {
        return Ok(());
    }
    install("gringo is not installed", "gringo")
}

/// Ensures that a program is installed, which is in this package.
pub(crate) fn program(name: &str, package: &str) -> Result<()> {
    if has_program(name) {
        return Ok(());
    }
    install(&format!("{name} is not installed"), package)
}

/// The package whose tests run the fault suite, which needs [`faults`].
pub(crate) const USES_FAULTS: &str = "weft-cli";

/// Where Debian's multi-architecture folders and others have the library of libfaketime.
const CLOCK_LIBRARY: &str = "faketime/libfaketimeMT.so.1";

/// Ensures that what makes a process fail is there: strace, and libfaketime, which has no program.
pub(crate) fn faults() -> Result<()> {
    program("strace", "strace")?;
    let has_library = |folder: &str| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        entries.chain([PathBuf::from(folder)]).any(|folder| folder.join(CLOCK_LIBRARY).exists())
    };
    if ["/usr/lib", "/usr/local/lib", "/usr/lib64", "/lib"].into_iter().any(has_library) {
        return Ok(());
    }
    install("libfaketime is not installed", "libfaketime")
}

/// Whether `PATH`, or a folder of daemons, has a program.
fn has_program(name: &str) -> bool {
    let path = crate::with_system_folders();
    std::env::split_paths(&path).any(|folder| folder.join(name).exists())
}

/// The package whose tests run programs of others: clients of the API, and OpenSSL on certificates.
pub(crate) const USES_CLIENTS: &str = "weft-cli";

/// The programs that the book uses the API with, the one that reads certificates, and the one that scrapes metrics, with its `promtool`. Each
/// is in the Debian package of its name.
const CLIENTS: [&str; 4] = ["curl", "jq", "openssl", "prometheus"];

/// What the tests of the API import, from the root of the repository.
const REQUIREMENTS: &str = "crates/net/weft-cli/tests/python/requirements.txt";

/// Ensures that the programs are there by which tests use the API, check certificates, scrape metrics and check the unit, and
/// ask for addresses and names: curl, jq, openssl, prometheus, systemd-analyze, dhclient and dig, and in `target/python` those of Python.
pub(crate) fn clients() -> Result<()> {
    let missing: Vec<&str> = CLIENTS.into_iter().filter(|name| !has_program(name)).collect();
    if !missing.is_empty() {
        install(&format!("{} not installed", missing.join(" and ")), &missing.join(" "))?;
    }
    program("systemd-analyze", "systemd")?;
    program("dhclient", "isc-dhcp-client")?;
    program("dig", "bind9-dnsutils")?;
    let own = std::env::current_exe().context("cannot find this program's file")?;
    let target = own.parent().and_then(Path::parent).context("this program is not in a target folder")?;
    python(&target.join("python"))
}

/// Ensures that a virtual environment has what [`REQUIREMENTS`] names. It is reused as long as the file is the same.
fn python(folder: &Path) -> Result<()> {
    let requirements = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(REQUIREMENTS);
    let wanted = fs::read_to_string(&requirements)
        .with_context(|| format!("cannot read {}", requirements.display()))?;
    let installed = folder.join("installed.txt");
    if fs::read_to_string(&installed).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    let runs = |arguments: &[&str]| {
        let status = Command::new("python3").args(arguments).stdout(std::io::stderr()).status();
        status.is_ok_and(|status| status.success())
    };
    if !runs(&["-c", "import ensurepip, venv"]) {
        install("Python has no virtual environments", "python3-venv")?;
    }
    eprintln!("installing programs of Python in {}, once", folder.display());
    let pip: PathBuf = folder.join("bin/pip");
    let made = runs(&["-m", "venv", "--clear", &folder.to_string_lossy()])
        && Command::new(&pip)
            .args(["install", "--quiet", "--disable-pip-version-check", "-r"])
            .arg(&requirements)
            .stdout(std::io::stderr())
            .status()
            .is_ok_and(|status| status.success());
    if !made {
        let folder = folder.display();
        bail!(
            "the tests of the API need packages of Python, which could not be installed. Run this by hand in the folder of the \
             repository, then try again:\n\n    python3 -m venv --clear {folder} && {folder}/bin/pip install -r {REQUIREMENTS} && \
             cp {REQUIREMENTS} {folder}/installed.txt\n"
        );
    }
    fs::write(&installed, wanted).with_context(|| format!("cannot write {}", installed.display()))
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

/// Builds a Debian package.
pub(crate) const DEB: CargoTool = CargoTool { name: "cargo-deb", version: "3.8.0" };

/// Lists what a program is made of.
pub(crate) const SBOM: CargoTool = CargoTool { name: "cargo-sbom", version: "0.10.0" };

/// Builds programs that libFuzzer drives.
pub(crate) const FUZZ: CargoTool = CargoTool { name: "cargo-fuzz", version: "0.13.2" };

/// Ensures that there is a compiler of C++, in which libFuzzer is written.
pub(crate) fn cpp_compiler() -> Result<()> {
    program("c++", "g++")
}

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
