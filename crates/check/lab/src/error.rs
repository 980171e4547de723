//! Errors: the place, the cause and the remedy.

use std::path::PathBuf;
use std::time::Duration;

use crate::Missing;

/// Every failure of this crate. The message names the place and, where there is one, the remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A tool failed.
    #[error("{place}: `{command}` failed ({status}): {stderr}")]
    Command {
        /// The host, virtual machine or lab that it ran for.
        place: String,
        /// The command line as a user would type it.
        command: String,
        /// Exit status or signal.
        status: std::process::ExitStatus,
        /// What the tool wrote to standard error, trimmed.
        stderr: String,
    },
    /// A tool could not be started.
    #[error(
        "{place}: `{command}` could not be started: {source}; `weft lab check` lists missing requirements"
    )]
    Spawn {
        /// The host, virtual machine or lab that it should have run for.
        place: String,
        /// The command line.
        command: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A file of the lab cannot be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// "read", "create", "lock" and the like.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The state file was damaged, or written by another version.
    #[error("{} is not a lab's state: {source}; `weft lab down` removes the lab", path.display())]
    State {
        /// The state file.
        path: PathBuf,
        /// The first fault in it.
        source: serde_json::Error,
    },
    /// The machine does not meet a requirement.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// A tool printed text in a form that this crate does not know.
    #[error("{place}: cannot read the output of `{command}`: {detail}")]
    Unexpected {
        /// The host or virtual machine.
        place: String,
        /// The command line.
        command: String,
        /// The text or the fault in it.
        detail: String,
    },
    /// A name, address or size is invalid.
    #[error("{what} {value:?} cannot be used: {reason}")]
    Invalid {
        /// "lab name", "mac address" and the like.
        what: &'static str,
        /// The value given.
        value: String,
        /// The fault, or the values that are allowed.
        reason: String,
    },
    /// The name is already used in its lab.
    #[error("lab {lab}: there is already a {kind} {name:?}")]
    Exists {
        /// The lab.
        lab: String,
        /// "host" or "virtual machine".
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// Nothing has this name.
    #[error("lab {lab}: there is no {kind} {name:?}; there are: {known}")]
    Unknown {
        /// The lab.
        lab: String,
        /// "host" or "virtual machine".
        kind: &'static str,
        /// The name.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// No lab has this name.
    #[error("there is no lab {0:?}; `weft lab list` shows those that run")]
    NoLab(String),
    /// A live process owns the lab.
    #[error("lab {lab} belongs to process {pid}, which is alive; stop that process or choose another name")]
    InUse {
        /// The lab.
        lab: String,
        /// Its owner; 0 if the owner has not yet written its number.
        pid: u32,
    },
    /// The lab was left running on purpose.
    #[error("lab {0} is running and was left so on purpose; `weft lab down {0}` removes it")]
    Kept(String),
    /// The lab's owner died without removing it.
    #[error("lab {0} was left behind by a process that died; `weft lab down {0}` removes it")]
    Abandoned(String),
    /// Open vSwitch has no port number for an interface.
    #[error("{host}: Open vSwitch has no port number for interface {interface}: {reason}")]
    Port {
        /// The host.
        host: String,
        /// The interface.
        interface: String,
        /// The error column of the Interface row, or another cause.
        reason: String,
    },
    /// A condition was not met in time.
    #[error("{place}: {what} did not happen within {within:?}")]
    Timeout {
        /// The host, virtual machine or lab.
        place: String,
        /// The condition.
        what: String,
        /// The deadline.
        within: Duration,
    },
    /// `ovs-vswitchd` was restarted while its messages were counted.
    #[error(
        "{host}: ovs-vswitchd was restarted since the mark (process {then}, now {now:?}); its earlier counts are lost"
    )]
    Restarted {
        /// The host.
        host: String,
        /// The process at the mark.
        then: u32,
        /// The process now, if one runs.
        now: Option<u32>,
    },
}

impl Error {
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.into();
        move |source| Error::Io { action, path, source }
    }

    pub(crate) fn invalid(what: &'static str, value: impl Into<String>, reason: impl Into<String>) -> Error {
        Error::Invalid { what, value: value.into(), reason: reason.into() }
    }
}
