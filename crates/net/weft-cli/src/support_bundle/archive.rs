//! The file of a bundle: a tar archive, compressed by Zstandard.

use std::fs::File;
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use tar::{Builder, Header};

use super::collected::Collected;

/// The default level of `zstd`.
const LEVEL: i32 = 3;

/// Writes all parts into a folder of this name, `README` first.
pub(super) fn write(to: &File, folder: &str, collected: &Collected) -> io::Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let readme = collected.readme();
    let mut archive = Builder::new(zstd::Encoder::new(to, LEVEL)?);
    for (name, bytes) in std::iter::once(("README", readme.as_bytes())).chain(collected.files()) {
        let mut header = Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(now);
        archive.append_data(&mut header, format!("{folder}/{name}"), bytes)?;
    }
    archive.into_inner()?.finish()?;
    Ok(())
}
