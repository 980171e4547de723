//! Exit statuses: 0 done, 1 what was given is rejected, 2 wrong usage, 3 something outside failed.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::process::ExitCode;

/// Why a command did not do what it was asked to.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The program, data or configuration is at fault.
    Rejected(String),
    /// The same, and the reasons stand on standard error or output already.
    Reported,
    /// The command line is at fault in a way that its grammar cannot say.
    Usage(String),
    /// A file, a socket, a switch or the store failed.
    Outside(String),
}

impl Failure {
    /// Something outside failed while `doing`.
    pub(crate) fn outside(doing: impl Display, error: impl Display) -> Self {
        Failure::Outside(format!("{doing}: {error}"))
    }

    /// A failure to write results. A reader that has had enough (`weft … | head`) is no failure of ours, but there is
    /// nothing left to do.
    pub(crate) fn output(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            std::process::exit(0);
        }
        Failure::outside("standard output", error)
    }

    /// Says why, and gives the status to exit with.
    pub(crate) fn report(self) -> ExitCode {
        let (message, status) = match self {
            Failure::Rejected(message) => (Some(message), 1),
            Failure::Reported => (None, 1),
            Failure::Usage(message) => (Some(message), 2),
            Failure::Outside(message) => (Some(message), 3),
        };
        if let Some(message) = message {
            say(format_args!("error: {message}"));
        }
        ExitCode::from(status)
    }
}

/// Writes a line for people to standard error. If nobody can read it (`2>&1 | head`), the work goes on all the same.
pub(crate) fn say(line: impl Display) {
    let _unread = writeln!(io::stderr().lock(), "{line}");
}
