//! Running tools. Every failure names its place, command line and standard error.

use std::ffi::OsStr;
use std::io::Write;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::Error;

/// The folders of tools, for callers whose PATH lacks the system folders, as that of ordinary users does.
pub(crate) const TOOL_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The result of a finished command.
#[derive(Debug, Clone)]
pub struct Output {
    /// Exit status or signal.
    pub status: ExitStatus,
    /// Standard output. Bytes that are not UTF-8 are replaced.
    pub stdout: String,
    /// Standard error, likewise.
    pub stderr: String,
}

impl Output {
    /// Whether the command succeeded.
    pub fn success(&self) -> bool {
        self.status.success()
    }
}

/// A command with the lab's PATH and untranslated messages, which the parsers here rely on.
pub(crate) fn tool(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    let path = match std::env::var("PATH") {
        Ok(path) if !path.is_empty() => format!("{path}:{TOOL_PATH}"),
        _ => TOOL_PATH.to_owned(),
    };
    command.env("PATH", path).env("LC_ALL", "C");
    command
}

/// A command to run in the network namespace `namespace`.
pub(crate) fn tool_in(namespace: &str, program: impl AsRef<OsStr>) -> Command {
    let mut command = tool("ip");
    command.args(["netns", "exec", namespace]).arg(program);
    command
}

/// Runs a command to its end. Failure to start it is an error; a failing exit status is not.
pub(crate) fn output(place: &str, mut command: Command, input: Option<&str>) -> Result<Output, Error> {
    let line = line(&command);
    let spawn = |source| Error::Spawn { place: place.to_owned(), command: line.clone(), source };
    command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(spawn)?;
    if let (Some(input), Some(mut stdin)) = (input, child.stdin.take()) {
        // If a tool stops reading, its exit status says more than the broken pipe.
        let _ = stdin.write_all(input.as_bytes());
    }
    let done = child.wait_with_output().map_err(spawn)?;
    Ok(Output {
        status: done.status,
        stdout: String::from_utf8_lossy(&done.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&done.stderr).into_owned(),
    })
}

/// Runs a command to its end, requires success, and returns standard output.
pub(crate) fn run(place: &str, command: Command) -> Result<String, Error> {
    run_with_input(place, command, None)
}

/// Like [`run`], with text on standard input.
pub(crate) fn run_with_input(place: &str, command: Command, input: Option<&str>) -> Result<String, Error> {
    let line = line(&command);
    let output = output(place, command, input)?;
    if output.success() {
        return Ok(output.stdout);
    }
    let mut stderr = output.stderr.trim().to_owned();
    if let Some(input) = input {
        // Tools that read a batch report only the line's number.
        stderr = format!("{stderr} (input: {})", input.trim().replace('\n', "; "));
    }
    Err(Error::Command { place: place.to_owned(), command: line, status: output.status, stderr })
}

/// Runs `ip -batch` in `namespace` with one command per line, so that many steps take one process.
pub(crate) fn ip_batch(place: &str, namespace: &str, lines: &[String]) -> Result<(), Error> {
    let mut command = tool("ip");
    command.args(["-n", namespace, "-batch", "-"]);
    run_with_input(place, command, Some(&(lines.join("\n") + "\n"))).map(drop)
}

/// The command line as a user would type it.
pub(crate) fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| quote(&word.to_string_lossy())).collect::<Vec<_>>().join(" ")
}

fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Asks repeatedly until the answer is `Some` or `within` has passed.
pub(crate) fn wait_for<T>(
    place: &str,
    what: &str,
    within: Duration,
    mut ask: impl FnMut() -> Result<Option<T>, Error>,
) -> Result<T, Error> {
    let start = Instant::now();
    loop {
        if let Some(found) = ask()? {
            return Ok(found);
        }
        if start.elapsed() > within {
            return Err(Error::Timeout { place: place.to_owned(), what: what.to_owned(), within });
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Does `work` for each item on a few threads, in any order. Results are in the order of the items.
pub(crate) fn in_parallel<I: Sync, T: Send>(
    items: &[I],
    threads: usize,
    work: impl Fn(&I) -> T + Sync,
) -> Vec<T> {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let mut done: Vec<(usize, T)> = std::thread::scope(|scope| {
        let worker = || {
            let mut mine = Vec::new();
            loop {
                let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let Some(item) = items.get(at) else { return mine };
                mine.push((at, work(item)));
            }
        };
        let workers: Vec<_> = (0..threads.min(items.len())).map(|_| scope.spawn(worker)).collect();
        workers
            .into_iter()
            .flat_map(|w| w.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_place_command_status_and_reason() {
        let mut command = tool("sh");
        command.args(["-c", "echo because >&2; exit 3"]);
        let text = run("hv1", command).unwrap_err().to_string();
        assert_eq!(text, "hv1: `sh -c 'echo because >&2; exit 3'` failed (exit status: 3): because");
    }

    #[test]
    fn a_tool_that_is_not_there_is_named() {
        let text = run("hv1", tool("no-such-tool-here")).unwrap_err().to_string();
        assert!(text.starts_with("hv1: `no-such-tool-here` could not be started"), "{text}");
    }

    #[test]
    fn parallel_results_keep_the_items_order() {
        let items: Vec<u32> = (0..50).collect();
        assert_eq!(in_parallel(&items, 4, |n| n * 2), items.iter().map(|n| n * 2).collect::<Vec<_>>());
    }
}
