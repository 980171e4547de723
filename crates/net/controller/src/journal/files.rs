//! The state folder: its creation, its lock, and the kinds of files allowed in it.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read as _, Seek as _};
use std::os::unix::fs::{
    DirBuilderExt as _, FileExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _,
    PermissionsExt as _,
};
use std::path::Path;

use tracing::info;

use super::{JournalError, io_error};

/// The file whose lock marks the folder as in use.
const LOCK: &str = "lock";
/// The permissions of new files, which contain names and addresses of all tenants.
pub(crate) const MODE: u32 = 0o600;
/// The permissions of a new state folder.
const FOLDER_MODE: u32 = 0o700;
/// The permission bits of other users.
const OTHERS: u32 = 0o007;

/// Creates the state folder if it does not exist. The entry of each new folder is on disk afterwards.
pub(crate) fn make_folder(folder: &Path) -> Result<(), JournalError> {
    let failed = |source| io_error(folder, "cannot make the state folder")(source);
    let missing: Vec<&Path> =
        folder.ancestors().take_while(|path| !is_empty(path) && !path.exists()).collect();
    for path in missing.iter().rev() {
        let mut builder = DirBuilder::new();
        if *path == folder {
            builder.mode(FOLDER_MODE);
        }
        match builder.create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
            _ => {}
        }
        let parent = path.parent().filter(|parent| !is_empty(parent)).unwrap_or(Path::new("."));
        sync_folder(parent)?;
    }
    if folder.is_dir() { Ok(()) } else { Err(failed(io::ErrorKind::NotADirectory.into())) }
}

/// The folder of a journal.
pub(crate) fn folder_of(journal: &Path) -> &Path {
    journal.parent().unwrap_or(Path::new("."))
}

fn is_empty(path: &Path) -> bool {
    path.as_os_str().is_empty()
}

/// Waits until the entries of a folder are on disk.
pub(super) fn sync_folder(folder: &Path) -> Result<(), JournalError> {
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(io_error(folder, "cannot synchronise the folder to disk"))
}

/// Removes a file, if it is there.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Whether the file exists. Fails if it is a device, a FIFO or anything else that does not keep its contents.
pub(super) fn is_there(path: &Path) -> Result<bool, JournalError> {
    let kind = match fs::metadata(path) {
        Ok(metadata) => metadata.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(io_error(path, "cannot look at it")(error)),
    };
    let what = match () {
        () if kind.is_file() => return Ok(true),
        () if kind.is_dir() => "a folder",
        () if kind.is_fifo() => "a FIFO",
        () if kind.is_socket() => "a socket",
        () => "a device",
    };
    Err(JournalError::NotAFile { path: path.to_owned(), what })
}

/// Removes the permissions of other users, which a copy from a backup may have.
pub(super) fn close_to_others(path: &Path, file: &File) -> Result<(), JournalError> {
    let mode = file.metadata().map_err(io_error(path, "cannot look at it"))?.mode() & 0o7777;
    if mode & OTHERS == 0 {
        return Ok(());
    }
    let closed = mode & !OTHERS;
    file.set_permissions(Permissions::from_mode(closed)).map_err(io_error(path, "cannot change its mode"))?;
    info!(file = %path.display(), "every user could read it; its mode is now {closed:04o}");
    Ok(())
}

/// The lock of a state folder. The system releases it when the last owner drops it, or when the process ends for any reason.
#[derive(Debug)]
pub struct Lock {
    _file: File,
    /// Whether the folder has been used before.
    pub(super) existed: bool,
}

/// Whether a controller has used the folder before.
pub(super) fn was_used(folder: &Path) -> Result<bool, JournalError> {
    is_there(&folder.join(LOCK))
}

/// Takes the folder's lock.
pub(super) fn lock(folder: &Path) -> Result<Lock, JournalError> {
    let path = folder.join(LOCK);
    let existed = is_there(&path)?;
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(false).mode(MODE);
    let mut file = options.open(&path).map_err(io_error(&path, "cannot open the lock file"))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            let read = file.read_to_string(&mut holder).is_ok() && !holder.trim().is_empty();
            let holder = if read { format!(" (process {})", holder.trim()) } else { String::new() };
            return Err(JournalError::Locked { path: folder.to_owned(), holder });
        }
        Err(TryLockError::Error(source)) => return Err(io_error(&path, "cannot lock")(source)),
    }
    let holder = format!("{}\n", std::process::id());
    let written = file.write_all_at(holder.as_bytes(), 0).and_then(|()| file.set_len(holder.len() as u64));
    written.map_err(io_error(&path, "cannot write the lock file"))?;
    Ok(Lock { _file: file, existed })
}

/// Copies the end of a file, from byte `from` on, into another file, which it replaces.
pub(super) fn keep_end(file: &mut File, from: u64, to: &Path) -> Result<(), JournalError> {
    is_there(to)?;
    let mut options = OpenOptions::new();
    let kept = options.write(true).create(true).truncate(true).mode(MODE).open(to).and_then(|mut to| {
        file.seek(io::SeekFrom::Start(from))?;
        io::copy(file, &mut to)?;
        to.sync_all()
    });
    kept.map_err(io_error(to, "cannot keep the removed end of the journal"))
}
