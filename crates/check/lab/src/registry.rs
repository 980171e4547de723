//! The labs of this machine: their names, folders and owners.
//!
//! Namespaces are visible on the whole machine, so a lab's name is a claim on the whole machine: `/run/weft-lab/NAME` is
//! made before the first namespace and removed after the last. The owner holds a lock on a file in it for as long as it
//! lives. The kernel releases the lock however the process ends, so a crash can be distinguished from a lab in use without
//! relying on process numbers.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::Error;
use crate::state::State;

/// Every lab has a folder here. It is on a tmpfs, so a reboot, which ends all labs, also removes their folders.
pub(crate) const REGISTRY: &str = "/run/weft-lab";

/// The first part of every namespace name.
const PREFIX: &str = "weft";

/// The maximum length of the name of a lab, a host or a machine; a unix socket's path is limited to 107 bytes in total.
const LONGEST_NAME: usize = 24;

/// The folder where `ip netns` keeps names.
const NAMESPACES: &str = "/run/netns";

/// How long a lock may appear taken because another process is inspecting it.
const GLANCE: Duration = Duration::from_secs(1);

/// The owner responsible for removing a lab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ownership {
    /// The process with this number, which is alive.
    Process(u32),
    /// No owner: the lab was left running on purpose ([`crate::Lab::keep`]).
    Kept,
    /// Its owner died; [`crate::sweep`] removes the lab.
    Abandoned,
}

/// One line of [`list`].
#[derive(Debug, Clone)]
pub struct Summary {
    /// The lab's name.
    pub name: String,
    /// The owner responsible for it.
    pub ownership: Ownership,
    /// Its hosts, in order of creation.
    pub hosts: Vec<String>,
    /// Its virtual machines, by name.
    pub vms: Vec<String>,
}

/// The labs of this machine, by name. A lab that is being made or removed may appear without hosts.
pub fn list() -> Result<Vec<Summary>, Error> {
    let mut labs = Vec::new();
    for name in names()? {
        let state = State::load(&name).ok();
        labs.push(Summary {
            ownership: ownership(&name, state.as_ref())?,
            hosts: state.iter().flat_map(|s| s.hosts.iter().map(|h| h.name.clone())).collect(),
            vms: state.iter().flat_map(|s| s.vms.keys().cloned()).collect(),
            name,
        });
    }
    Ok(labs)
}

pub(crate) fn ownership(name: &str, state: Option<&State>) -> Result<Ownership, Error> {
    if state.is_some_and(|state| state.kept) {
        return Ok(Ownership::Kept);
    }
    let path = lock_path(name);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Ownership::Abandoned),
        Err(error) => return Err(Error::io("read", path)(error)),
    };
    // Shared, so that two processes that inspect it do not mistake each other for the owner.
    match file.try_lock_shared() {
        Ok(()) => Ok(Ownership::Abandoned),
        Err(TryLockError::WouldBlock) => Ok(Ownership::Process(written_pid(&path))),
        Err(TryLockError::Error(error)) => Err(Error::io("lock", path)(error)),
    }
}

/// Names of the folders in the registry.
pub(crate) fn names() -> Result<Vec<String>, Error> {
    entries(Path::new(REGISTRY)).map_err(Error::io("read", REGISTRY))
}

/// All namespaces of the machine that carry a lab's prefix.
pub(crate) fn namespaces() -> Result<Vec<String>, Error> {
    let mut all = entries(Path::new(NAMESPACES)).map_err(Error::io("read", NAMESPACES))?;
    all.retain(|name| lab_of(name).is_some());
    Ok(all)
}

fn entries(folder: &Path) -> std::io::Result<Vec<String>> {
    let mut names = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error),
        Ok(entries) => entries
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect::<std::io::Result<_>>()?,
    };
    names.sort_unstable();
    Ok(names)
}

pub(crate) fn namespace_file(namespace: &str) -> PathBuf {
    Path::new(NAMESPACES).join(namespace)
}

/// The namespace of a part of lab `lab`. Names contain no dots, so no lab's prefix is a prefix of another's.
pub(crate) fn namespace(lab: &str, kind: Kind, name: &str) -> String {
    match kind {
        Kind::Underlay => format!("{PREFIX}.{lab}.underlay"),
        Kind::Host => format!("{PREFIX}.{lab}.host.{name}"),
        Kind::Vm => format!("{PREFIX}.{lab}.vm.{name}"),
        Kind::Guest => format!("{PREFIX}.{lab}.guest.{name}"),
        Kind::Physical => format!("{PREFIX}.{lab}.physical"),
    }
}

/// The lab to which a namespace belongs.
pub(crate) fn lab_of(namespace: &str) -> Option<&str> {
    let mut parts = namespace.split('.');
    (parts.next() == Some(PREFIX)).then(|| parts.next()).flatten()
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Underlay,
    Host,
    Vm,
    /// A machine's own switch.
    Guest,
    /// The switch of all physical networks.
    Physical,
}

/// A name for a host or a machine of a lab: as much like `wanted` as names can be, and not taken.
pub fn fitting_name(wanted: &str, is_taken: impl Fn(&str) -> bool) -> String {
    fitting(wanted, LONGEST_NAME, is_taken)
}

/// The same of at most `longest` characters.
pub(crate) fn fitting(wanted: &str, longest: usize, is_taken: impl Fn(&str) -> bool) -> String {
    let fitting = |c: char| match c.to_ascii_lowercase() {
        c @ ('a'..='z' | '0'..='9' | '_') => c,
        _ => '-',
    };
    let plain: String = wanted.chars().map(fitting).skip_while(|c| *c == '-').collect();
    let plain = if plain.is_empty() { "x" } else { &plain };
    let name = |number: usize| {
        let ending = if number == 1 { String::new() } else { format!("-{number}") };
        let begin: String = plain.chars().take(longest.saturating_sub(ending.len())).collect();
        begin + &ending
    };
    let mut number = 1;
    while is_taken(&name(number)) {
        number += 1;
    }
    name(number)
}

/// Refuses names that would not fit into the name of a namespace or file, or into a socket's path.
pub(crate) fn check_name(what: &'static str, name: &str) -> Result<(), Error> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    if name.is_empty() || name.len() > LONGEST_NAME || name.starts_with('-') || !name.chars().all(plain) {
        let reason = format!("use 1 to {LONGEST_NAME} of a-z, 0-9, _ and -, not starting with -");
        return Err(Error::invalid(what, name, reason));
    }
    Ok(())
}

pub(crate) fn folder(name: &str) -> PathBuf {
    Path::new(REGISTRY).join(name)
}

pub(crate) fn lock_path(name: &str) -> PathBuf {
    folder(name).join("owner.lock")
}

/// The right to build or remove one lab, held until dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    _lock: File,
}

impl Claim {
    /// Claims `name`, and makes its folder if there is none. If the lab is already claimed, the error names its owner.
    pub(crate) fn take(name: &str) -> Result<Claim, Error> {
        loop {
            std::fs::create_dir_all(folder(name)).map_err(Error::io("create", folder(name)))?;
            // Another process that removes the lab may remove the folder in between.
            if let Some(claim) = Claim::take_existing(name)? {
                return Ok(claim);
            }
        }
    }

    /// Claims `name` if it has a folder. Cleanup must not make one.
    pub(crate) fn take_existing(name: &str) -> Result<Option<Claim>, Error> {
        let path = lock_path(name);
        let start = Instant::now();
        loop {
            let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
            let mut file = match opened {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
                other => other.map_err(Error::io("create", &path))?,
            };
            match file.try_lock() {
                // The lock counts only if its file is still the one that others will open.
                Ok(()) if same_file(&file, &path) => {
                    sign(&mut file).map_err(Error::io("write", &path))?;
                    return Ok(Some(Claim { _lock: file }));
                }
                Ok(()) => {}
                Err(TryLockError::WouldBlock) if start.elapsed() > GLANCE => {
                    return Err(Error::InUse { lab: name.to_owned(), pid: written_pid(&path) });
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(10)),
                Err(TryLockError::Error(error)) => return Err(Error::io("lock", path)(error)),
            }
        }
    }
}

/// Writes the owner's process number for error messages. Only the lock itself decides.
fn sign(file: &mut File) -> std::io::Result<()> {
    file.rewind()?;
    file.set_len(0)?;
    write!(file, "{}", std::process::id())
}

fn same_file(open: &File, path: &Path) -> bool {
    match (open.metadata(), std::fs::metadata(path)) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}

fn written_pid(path: &Path) -> u32 {
    let mut text = String::new();
    let read = File::open(path).and_then(|mut file| file.read_to_string(&mut text));
    read.ok().and_then(|_| text.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_labs_prefix_covers_another_lab() {
        assert_eq!(lab_of(&namespace("a", Kind::Host, "hv1")), Some("a"));
        assert_eq!(lab_of(&namespace("a-b", Kind::Vm, "x")), Some("a-b"));
        assert_eq!(lab_of("weft.a.underlay"), Some("a"));
        assert_eq!(lab_of("weftish.a.underlay"), None);
        assert_eq!(lab_of("hv1"), None);
    }

    #[test]
    fn a_fitting_name_is_valid_and_free_and_like_the_wanted_one() {
        let fitting = |wanted: &str, taken: &[&str]| {
            let name = fitting_name(wanted, |name| taken.contains(&name));
            check_name("host name", &name).unwrap();
            name
        };
        assert_eq!(fitting("web-1", &[]), "web-1");
        assert_eq!(fitting("HV1.example.org", &["hv1"]), "hv1-example-org");
        assert_eq!(fitting("web-1", &["web-1", "web-1-2"]), "web-1-3");
        assert_eq!(fitting("--", &[]), "x");
        let uuid = "2e2a9f4c-8e0e-4f1c-a8f2-000000000001";
        assert_eq!(fitting(uuid, &[]), "2e2a9f4c-8e0e-4f1c-a8f2-");
        assert_eq!(fitting(uuid, &["2e2a9f4c-8e0e-4f1c-a8f2-"]), "2e2a9f4c-8e0e-4f1c-a8f-2");
    }

    #[test]
    fn names_that_break_paths_are_refused() {
        for bad in ["", "-a", "a.b", "a/b", "A", "a b", "abcdefghijklmnopqrstuvwxyz"] {
            assert!(check_name("lab name", bad).is_err(), "{bad:?}");
        }
        for good in ["a", "demo", "hv-1", "t_1", "abcdefghijklmnopqrstuvwx"] {
            assert!(check_name("lab name", good).is_ok(), "{good:?}");
        }
    }
}
