//! One shell for a story: folder, variables and jobs persist from command to command, as they do for a reader.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How long a command may take; the slowest starts a lab.
const DEADLINE: Duration = Duration::from_mins(2);

/// A mark that no command prints.
const MARK: &str = "@@ end of a command of the book:";

/// A shell and the lab that its commands make.
pub(crate) struct Shell {
    child: Child,
    lines: Receiver<String>,
    lab: String,
}

/// The outcome of a command.
pub(crate) struct Outcome {
    /// Standard output and standard error, as a terminal shows them.
    pub(crate) lines: Vec<String>,
    /// Its exit status.
    pub(crate) status: i32,
}

impl Shell {
    /// Starts a shell in a folder. `lab` is the name of the lab for its commands.
    pub(crate) fn start(folder: &Path, lab: &str) -> Shell {
        let weft = Path::new(env!("CARGO_BIN_EXE_weft"));
        // `python3` is one that has the packages of PyPI that pages use.
        let path = format!("{}:{}", weft.parent().unwrap().display(), crate::python::path());
        let (read, write) = std::io::pipe().unwrap();
        let child = Command::new("bash")
            .args(["--noprofile", "--norc"])
            .current_dir(folder)
            .env("PATH", path)
            .env("HOME", folder)
            .env("LC_ALL", "C.UTF-8")
            .env("WEFT_LAB", lab)
            // Where stories at the same time have controllers of their own.
            .env("WEFT_CONTROLLER", format!("unix:{}", folder.join("weft.sock").display()))
            .stdin(Stdio::piped())
            .stdout(write.try_clone().unwrap())
            .stderr(write)
            // Processes that its commands leave running end with it.
            .process_group(0)
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(read).split(b'\n').map_while(Result::ok) {
                if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    return;
                }
            }
        });
        Shell { child, lines, lab: lab.to_owned() }
    }

    /// Runs a command, which may have several lines, to its end.
    pub(crate) fn run(&mut self, command: &str) -> Result<Outcome, String> {
        let script = format!(
            "{{ {command}\n}} < /dev/null\nstatus=$?; printf '\\n{MARK} %d\\n' $status; (exit $status)\n"
        );
        let input = self.child.stdin.as_mut().unwrap();
        input.write_all(script.as_bytes()).and_then(|()| input.flush()).map_err(|error| error.to_string())?;
        let (start, mut lines) = (Instant::now(), Vec::new());
        loop {
            let line = match self.lines.recv_timeout(DEADLINE.saturating_sub(start.elapsed())) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => {
                    return Err(format!("no end after {DEADLINE:?}; so far: {lines:#?}"));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(format!("the shell ended; it said: {lines:#?}"));
                }
            };
            if let Some(status) = line.strip_prefix(MARK) {
                // The line break before the mark is ours, unless the output ended within a line.
                if lines.last().is_some_and(String::is_empty) {
                    lines.pop();
                }
                return Ok(Outcome { lines, status: status.trim().parse().map_err(|_| line.clone())? });
            }
            lines.push(line);
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // Failures mean that nothing is left to end or remove.
        let _ = Command::new(env!("CARGO_BIN_EXE_weft")).args(["lab", "down", &self.lab]).output();
        let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", self.child.id())]).output();
        let _ = self.child.wait();
    }
}

#[test]
fn a_shell_remembers_and_tells_status_and_both_outputs() {
    let folder = tempfile::tempdir().unwrap();
    let mut shell = Shell::start(folder.path(), "book-none");
    let run = |shell: &mut Shell, command: &str| {
        let outcome = shell.run(command).unwrap();
        (outcome.lines.join("|"), outcome.status)
    };
    assert_eq!(run(&mut shell, "x=5; echo a; echo b >&2; printf c"), ("a|b|c".into(), 0));
    assert_eq!(run(&mut shell, "echo $x; false"), ("5".into(), 1));
    assert_eq!(run(&mut shell, "echo $?"), ("1".into(), 0));
    assert_eq!(run(&mut shell, "cat <<END\nd\n\nEND"), ("d|".into(), 0));
    assert_eq!(run(&mut shell, "cat"), (String::new(), 0));
    assert!(shell.run("exit 3").is_err());
}
