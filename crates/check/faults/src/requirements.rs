//! What the machine must have besides a lab's requirements: strace, and the library of libfaketime.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Where distributions install libfaketime, below the folder of each architecture.
const LIBRARY: &str = "faketime/libfaketimeMT.so.1";
/// Folders of libraries.
const LIBRARIES: [&str; 4] = ["/usr/lib", "/usr/local/lib", "/usr/lib64", "/lib"];

/// The library that gives a program another clock, for programs with several threads.
pub fn clock_library() -> Result<PathBuf> {
    let below = |folder: &str| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let folders = entries.map(|entry| entry.path());
        folders.chain([PathBuf::from(folder)]).map(|folder| folder.join(LIBRARY)).find(|path| path.exists())
    };
    LIBRARIES.into_iter().find_map(below).context(
        "no folder of libraries has faketime/libfaketimeMT.so.1; remedy: apt-get install -y libfaketime",
    )
}

/// Makes sure that everything is there. A lab checks its own requirements.
pub fn check() -> Result<()> {
    clock_library()?;
    let path = std::env::var("PATH").unwrap_or_default();
    let has = |name: &str| std::env::split_paths(&path).any(|folder| Path::new(&folder).join(name).exists());
    if !has("strace") {
        bail!("no strace in PATH; remedy: apt-get install -y strace");
    }
    Ok(())
}
