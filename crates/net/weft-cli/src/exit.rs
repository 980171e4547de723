//! Exit statuses: 0 done, 1 input rejected, 2 wrong usage, 3 failure outside, 4 not in force everywhere.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nlog_data::quotation::shown_lines;

/// The reason why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The program, data or configuration is at fault.
    Rejected(String),
    /// The same, with the reasons already on standard error or output.
    Reported,
    /// The command line is invalid in a way that its grammar cannot express.
    Usage(String),
    /// A file, a socket, a switch or the store failed.
    Outside(String),
    /// The change was accepted, or is wanted, but it is not in force on all hosts concerned. The hosts are named on standard error already.
    NotInForce,
    /// The same, of a daemon, which ends also if nobody reads its standard error.
    Ended(String),
}

/// How long the last message of a daemon waits for a reader.
const UNREAD_MAX: Duration = Duration::from_millis(200);

impl Failure {
    /// Something outside failed while `doing`.
    pub(crate) fn outside(doing: impl Display, error: impl Display) -> Self {
        Failure::Outside(format!("{doing}: {error}"))
    }

    /// A failure to write results. If the reader closed the pipe (`weft … | head`), this is not an error, but there
    /// is nothing left to do.
    pub(crate) fn output(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            std::process::exit(0);
        }
        Failure::outside("standard output", error)
    }

    /// The reason; empty if it was reported before.
    pub(crate) fn text(&self) -> String {
        match self {
            Failure::Rejected(why) | Failure::Usage(why) | Failure::Outside(why) | Failure::Ended(why) => {
                why.clone()
            }
            Failure::Reported | Failure::NotInForce => String::new(),
        }
    }

    /// Reports the reason and returns the exit status.
    pub(crate) fn report(self) -> ExitCode {
        let (message, status) = match self {
            Failure::Rejected(message) => (Some(message), 1),
            Failure::Reported => (None, 1),
            Failure::Usage(message) => (Some(message), 2),
            Failure::Outside(message) => (Some(message), 3),
            Failure::NotInForce => (None, 4),
            Failure::Ended(message) => {
                say_soon(format!("error: {message}"));
                (None, 3)
            }
        };
        if let Some(message) = message {
            say(format_args!("error: {message}"));
        }
        ExitCode::from(status)
    }
}

/// Prints the requested help, or the error in the command line. Returns the exit status.
pub(crate) fn usage(answer: &clap::Error) -> ExitCode {
    let status = ExitCode::from(u8::try_from(answer.exit_code()).unwrap_or(2));
    match answer.print().and_then(|()| io::stdout().flush()) {
        Err(error) if !answer.use_stderr() => Failure::output(error).report(),
        // Errors may go unread.
        _ => status,
    }
}

/// Prints an answer for a person. Names and errors of switches and of other clients are in it: nothing in them reaches the terminal
/// but text (CWE-150). Whoever puts such a text into a line escapes its line ends too, by [`shown`](nlog_data::quotation::shown).
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    io::stdout().lock().write_all(shown_lines(text).as_bytes()).map_err(Failure::output)
}

/// Prints JSON, or the answer for a person.
pub(crate) fn print_as(is_json: bool, text: &str) -> Result<(), Failure> {
    if is_json {
        io::stdout().lock().write_all(text.as_bytes()).map_err(Failure::output)
    } else {
        print(text)
    }
}

/// Writes a message to standard error, as [`print`] does an answer. If it cannot be written (`2>&1 | head`), the work continues.
pub(crate) fn say(line: impl Display) {
    say_painted(shown_lines(&line.to_string()));
}

/// The same of a text with colours, which quotes only files that the user named.
pub(crate) fn say_painted(line: impl Display) {
    let _unread = writeln!(io::stderr().lock(), "{line}");
}

/// The same, but gives up if nobody reads.
fn say_soon(line: String) {
    let (said, done) = mpsc::channel();
    let write = move || {
        say(line);
        let _waits = said.send(());
    };
    if thread::Builder::new().name("last-message".to_owned()).spawn(write).is_ok() {
        let _unread = done.recv_timeout(UNREAD_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d29_the_last_message_of_a_command_has_no_control_characters() {
        // `say` and `print` have this in common.
        let hostile = "error: hv1 failed: x\u{1b}[2Jy\u{9b}31m\u{202e}\r\u{7}";
        assert_eq!(shown_lines(hostile), "error: hv1 failed: x\\u{1b}[2Jy\\u{9b}31m\\u{202e}\\r\\u{7}");
        assert_eq!(shown_lines("one\ntwo é\n"), "one\ntwo é\n");
    }
}
