//! `cargo xtask release`: `weft` as it is installed, its symbols and line tables in a file beside it, and its bill of materials.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::setup::{SBOM, cargo_tool};
use crate::{cargo, cargo_program, release_build};

/// The file of the symbols and line tables. `weft` names it, without a folder.
const LINE_TABLES: &str = "weft.debug";

/// The crates that `weft` is made of, with versions and licences, as `CycloneDX` 1.5.
const BILL_OF_MATERIALS: &str = "weft.cdx.json";

/// Options of the linker that make the program smaller. Functions with the same code are merged, so a backtrace may name another function than
/// the one that ran. Relocations are packed (`DT_RELR`), which needs glibc 2.36, as in Debian 12.
const LINKER_OPTIONS: &[&str] = if cfg!(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu"))
{
    &["-C", "link-arg=-Wl,--icf=all", "-C", "link-arg=-Wl,-z,pack-relative-relocs"]
} else {
    &[]
};

/// Builds `weft` and writes all files to the folder `dist` of the target folder, which it returns.
pub(crate) fn run() -> Result<PathBuf> {
    let build = ["rustc", "--release", "--locked", "--package", "weft-cli", "--bin", "weft", "--"];
    cargo(&[&build, LINKER_OPTIONS].concat(), None)?;
    let built = release_build("weft")?;
    let target = built.parent().and_then(Path::parent).context("the program is not in a target folder")?;
    let folder = target.join("dist");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let link = format!("--add-gnu-debuglink={LINE_TABLES}");
    for (options, file) in [(&["--only-keep-debug"][..], LINE_TABLES), (&["--strip-all", &link], "weft")] {
        let mut objcopy = Command::new("objcopy");
        objcopy.args(options).arg(&built).arg(file).current_dir(&folder);
        let status = objcopy.status().context("cannot start objcopy, of the package binutils")?;
        if !status.success() {
            bail!("{objcopy:?} failed ({status})");
        }
        let path = folder.join(file);
        let bytes = path.metadata().with_context(|| format!("{} is not there", path.display()))?.len();
        eprintln!("{}: {} MB", path.display(), bytes.div_ceil(1_000_000));
    }
    bill_of_materials(&folder.join(BILL_OF_MATERIALS))?;
    Ok(folder)
}

/// Lists the crates of all platforms, as `Cargo.lock` has them.
fn bill_of_materials(path: &Path) -> Result<()> {
    cargo_tool(SBOM)?;
    let mut sbom = Command::new(cargo_program());
    sbom.args(["sbom", "--cargo-package", "weft-cli", "--output-format", "cyclone_dx_json_1_5"]);
    let output = sbom.output().context("cannot start cargo sbom")?;
    if !output.status.success() {
        bail!("{sbom:?} failed ({}): {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    fs::write(path, output.stdout).with_context(|| format!("cannot write {}", path.display()))?;
    eprintln!("{}: what the program is made of", path.display());
    Ok(())
}
