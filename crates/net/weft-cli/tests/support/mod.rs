//! Runs the `weft` binary as users do: arguments, files and pipes in, streams and an exit status out.

#![allow(dead_code)] // Each test binary uses its own part.

pub(crate) mod controller;
pub(crate) mod watched;
pub(crate) mod web;

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use tempfile::TempDir;

/// The repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").canonicalize().unwrap()
}

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// The exit status; `None` after a signal.
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Outcome {
    /// The lines of standard output.
    pub(crate) fn lines(&self) -> Vec<&str> {
        self.stdout.lines().collect()
    }

    #[track_caller]
    pub(crate) fn has_status(&self, status: i32) -> &Self {
        assert_eq!(self.status, Some(status), "{}\n{}", self.stdout, self.stderr);
        self
    }
}

/// A separate folder for a test, in which its commands run.
pub(crate) struct Folder {
    folder: TempDir,
}

impl Folder {
    pub(crate) fn new() -> Self {
        Folder { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file and creates its parent folders.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> &Self {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    /// The command, still to be run.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weft"));
        command.args(arguments);
        self.alone(&mut command);
        command
    }

    /// Lets a command run in the folder, with no controller of whoever runs the tests.
    fn alone(&self, command: &mut Command) {
        command.current_dir(self.folder.path()).env("WEFT_CONFIG", self.path("contexts.toml"));
        command.env_remove("WEFT_CONTROLLER").env_remove("WEFT_CONTEXT");
    }

    /// The same, but an interrupt ends it: a shell starts background commands with interrupts ignored, and children
    /// inherit this.
    pub(crate) fn interruptible(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("env");
        command.args(["--default-signal=INT", env!("CARGO_BIN_EXE_weft")]).args(arguments);
        self.alone(&mut command);
        command
    }

    pub(crate) fn weft(&self, arguments: &[&str]) -> Outcome {
        self.weft_reading("", arguments)
    }

    /// Runs the command with this on its standard input.
    pub(crate) fn weft_reading(&self, input: impl AsRef<[u8]>, arguments: &[&str]) -> Outcome {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.as_ref().to_vec();
        // A command that ends early leaves input unread.
        let feeder = thread::spawn(move || drop(stdin.write_all(&input)));
        let outcome = finish(child);
        feeder.join().unwrap();
        outcome
    }
}

/// Reads the command's output until it ends.
pub(crate) fn finish(mut child: Child) -> Outcome {
    let mut stderr = child.stderr.take().unwrap();
    let errors = thread::spawn(move || text_of(&mut stderr));
    let stdout = child.stdout.take().map(|mut stdout| text_of(&mut stdout)).unwrap_or_default();
    let stderr = errors.join().unwrap();
    let status = child.wait().unwrap().code();
    Outcome { status, stdout, stderr }
}

fn text_of(stream: &mut impl Read) -> String {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    String::from_utf8(bytes).expect("what commands print is UTF-8")
}

/// The ways to evaluate a program, which all print the same bytes.
pub(crate) const WAYS: [&[&str]; 4] = [&[], &["--workers", "2"], &["--workers", "4"], &["--reference"]];

/// Runs transactions through a program in every way, and returns the common output.
#[track_caller]
pub(crate) fn eval_with(program: &str, transactions: &str, flags: &[&str]) -> Outcome {
    let folder = Folder::new();
    folder.write("program.nlog", program).write("txns.jsonl", transactions);
    let run =
        |way: &[&str]| folder.weft(&[&["eval", "program.nlog", "-i", "txns.jsonl"], way, flags].concat());
    let first = run(WAYS[0]);
    for way in &WAYS[1..] {
        assert_eq!(first, run(way), "{way:?} differs for\n{program}\n{transactions}");
    }
    first
}

/// [`eval_with`] no flags.
#[track_caller]
pub(crate) fn eval(program: &str, transactions: &str) -> Outcome {
    eval_with(program, transactions, &[])
}
