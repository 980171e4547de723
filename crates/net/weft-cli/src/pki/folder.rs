//! The folder of a CA: its files, and its lock.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nlog_data::quotation::shown;
use tempfile::NamedTempFile;

use crate::exit::Failure;
use crate::replacement::Replacement;

/// The mode of private keys.
pub(super) const SECRET: u32 = 0o600;
/// The mode of all other files: nothing in them is secret.
pub(super) const PUBLIC: u32 = 0o644;
/// No name begins with a dot.
const LOCK: &str = ".lock";

/// The folder of a CA.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

/// Whoever has it changes the folder alone. The system releases it when the process ends.
pub(super) struct Lock(#[expect(dead_code, reason = "the lock is held as long as the file is open")] File);

impl Folder {
    pub(super) fn new(path: PathBuf) -> Folder {
        Folder(path)
    }

    /// Makes the folder, unless it is there, so that only its owner can look into it.
    pub(super) fn make(&self) -> Result<(), Failure> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.0);
        made.map_err(|error| Failure::outside(format!("cannot make the folder {}", self.name()), error))
    }

    /// Waits until no other command changes the folder.
    pub(super) fn lock(&self) -> Result<Lock, Failure> {
        let path = self.path(LOCK);
        let mut options = File::options();
        let options = options.write(true).create(true).truncate(false).mode(SECRET);
        let locked = options.open(&path).and_then(|file| file.lock().map(|()| file));
        locked.map(Lock).map_err(failed("cannot lock", &path))
    }

    /// The path of a file in it.
    pub(super) fn path(&self, file: &str) -> PathBuf {
        self.0.join(file)
    }

    /// The folder's name, for people.
    pub(super) fn name(&self) -> String {
        shown(&self.0.display().to_string()).into_owned()
    }

    /// The name of a file in it, for people.
    pub(super) fn name_of(&self, file: &str) -> String {
        shown(&self.path(file).display().to_string()).into_owned()
    }

    /// Whether there is something of this name, a broken link included.
    pub(super) fn has(&self, file: &str) -> Result<bool, Failure> {
        let path = self.path(file);
        match fs::symlink_metadata(&path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(failed("cannot look at", &path)(error)),
        }
    }

    /// The text of a file.
    pub(super) fn read(&self, file: &str) -> Result<String, Failure> {
        let path = self.path(file);
        fs::read_to_string(&path).map_err(failed("cannot read", &path))
    }

    /// Writes a new file. It is there whole or not at all, and replaces none.
    pub(super) fn create(&self, file: &str, text: &str, mode: u32) -> Result<(), Failure> {
        let path = self.path(file);
        let write = || -> io::Result<()> {
            // Only its owner can read it until it is whole.
            let mut new = NamedTempFile::new_in(&self.0)?;
            new.write_all(text.as_bytes())?;
            new.as_file().set_permissions(Permissions::from_mode(mode))?;
            new.as_file().sync_all()?;
            new.persist_noclobber(&path)?;
            sync(&self.0)
        };
        write().map_err(failed("cannot write", &path))
    }

    /// Writes a file anew. Who reads it meanwhile sees the old one or the new one, and the new one has the owner and the mode of the old one.
    pub(super) fn replace(&self, file: &str, text: &str, mode: u32) -> Result<(), Failure> {
        if !self.has(file)? {
            return self.create(file, text, mode);
        }
        let path = self.path(file);
        let write = || -> io::Result<()> {
            let new = Replacement::of(&path)?;
            new.file().write_all(text.as_bytes())?;
            new.finish()?;
            sync(&self.0)
        };
        write().map_err(failed("cannot write", &path))
    }

    /// Moves a file, if it is there, into a folder within this one, under another name.
    pub(super) fn put_aside(&self, file: &str, into: &str, name: &str) -> Result<(), Failure> {
        if !self.has(file)? {
            return Ok(());
        }
        let (from, folder) = (self.path(file), self.path(into));
        let put = || -> io::Result<()> {
            DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
            fs::rename(&from, folder.join(name))?;
            sync(&folder)?;
            sync(&self.0)
        };
        put().map_err(failed("cannot put aside", &from))
    }
}

/// Waits until the entries of a folder are on disk.
fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn failed(doing: &str, path: &Path) -> impl Fn(io::Error) -> Failure {
    let doing = format!("{doing} {}", shown(&path.display().to_string()));
    move |error| Failure::outside(&doing, error)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("a file").mode() & 0o777
    }

    #[test]
    fn files_have_their_modes_and_are_not_overwritten() {
        let above = tempfile::tempdir().expect("a folder");
        let folder = Folder::new(above.path().join("a/pki"));
        folder.make().expect("a folder");
        assert_eq!(mode(&folder.0), 0o700);
        folder.create("a.key", "secret", SECRET).expect("a file");
        folder.create("a.pem", "public", PUBLIC).expect("a file");
        assert_eq!((mode(&folder.path("a.key")), mode(&folder.path("a.pem"))), (0o600, 0o644));
        assert!(matches!(folder.create("a.key", "other", SECRET), Err(Failure::Outside(_))));
        assert_eq!(folder.read("a.key").expect("a file"), "secret");

        // A new file takes the mode of the one that it replaces; one that replaces none has its own.
        fs::set_permissions(folder.path("a.key"), Permissions::from_mode(0o640)).expect("a mode");
        folder.replace("a.key", "other", SECRET).expect("a file");
        folder.replace("b.key", "new", SECRET).expect("a file");
        assert_eq!((mode(&folder.path("a.key")), mode(&folder.path("b.key"))), (0o640, 0o600));
        assert_eq!(folder.read("a.key").expect("a file"), "other");

        folder.put_aside("a.key", "revoked", "a-1.key").expect("moved");
        folder.put_aside("none.key", "revoked", "none-1.key").expect("nothing to move");
        assert_eq!(folder.read("revoked/a-1.key").expect("a file"), "other");
        let mut left: Vec<_> = fs::read_dir(&folder.0)
            .expect("a folder")
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
            .collect();
        left.sort();
        assert_eq!(left, ["a.pem", "b.key", "revoked"], "nothing half-written stays");
    }
}
