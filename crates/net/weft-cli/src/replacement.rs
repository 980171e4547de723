//! A file that replaces another one atomically.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};

/// A file written beside the one that it will replace. If it is dropped before [`Replacement::finish`], it is
/// removed.
pub(crate) struct Replacement {
    /// The file to replace. Links were followed, so they stay.
    path: PathBuf,
    beside: PathBuf,
    file: File,
    finished: bool,
}

impl Replacement {
    /// Begins to write a file. An existing file must be a writable regular file; the new file inherits its
    /// permissions and its owner.
    pub(crate) fn of(path: &Path) -> io::Result<Replacement> {
        let before = check(path)?;
        let path = if before.is_some() { path.canonicalize()? } else { path.to_owned() };
        let mut name = std::ffi::OsString::from(".");
        name.push(path.file_name().ok_or(io::ErrorKind::InvalidInput)?);
        name.push(format!(".{}.new", std::process::id()));
        let beside = path.with_file_name(name);
        let mut options = File::options();
        options.read(true).write(true).create_new(true);
        if before.is_some() {
            // Nobody else opens it before it has the permissions of the file that it replaces, which may be a private key.
            options.mode(0o600);
        }
        let file = options.open(&beside)?;
        let this = Replacement { path, beside, file, finished: false };
        if let Some(before) = before {
            let own = this.file.metadata()?;
            if (own.uid(), own.gid()) != (before.uid(), before.gid()) {
                fchown(&this.file, Some(before.uid()), Some(before.gid()))?;
            }
            this.file.set_permissions(before.permissions())?;
        }
        Ok(this)
    }

    /// The file to write to.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Waits until the file is on disk, then replaces the old one.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.beside, &self.path)?;
        self.finished = true;
        Ok(())
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if !self.finished {
            // The original error matters more than an unfinished file that stays behind.
            let _left = fs::remove_file(&self.beside);
        }
    }
}

/// Checks that a path can be replaced by a file: it is a writable regular file, or a link to one, or does not exist.
/// Returns the metadata of an existing file.
pub(crate) fn check(path: &Path) -> io::Result<Option<Metadata>> {
    let invalid = |why: String| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return match fs::read_link(path) {
                Ok(target) => invalid(format!("it is a link to {}, which does not exist", target.display())),
                Err(_) => Ok(None),
            };
        }
        Err(error) => return Err(error),
    };
    let kind = metadata.file_type();
    let what = match () {
        () if kind.is_file() => {
            if metadata.permissions().readonly() {
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the file is read-only"));
            }
            return Ok(Some(metadata));
        }
        () if kind.is_dir() => "a folder",
        () if kind.is_fifo() => "a FIFO",
        () if kind.is_socket() => "a socket",
        () => "a device",
    };
    invalid(format!("it is {what}, not a file"))
}
