//! `cargo xtask release`: `weft` as it is installed, and its symbols and line tables in a file beside it.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{cargo, release_build};

/// The file of the symbols and line tables. `weft` names it, without a folder.
const LINE_TABLES: &str = "weft.debug";

/// Builds `weft` and writes both files to the folder `dist` of the target folder.
pub(crate) fn run() -> Result<()> {
    cargo(&["build", "--release", "--locked", "--package", "weft-cli"], None)?;
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
    Ok(())
}
