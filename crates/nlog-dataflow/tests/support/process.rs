//! Other processes for tests: the test binary, started again to run one helper test that serves.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use nlog_dataflow::processes::serve;

/// The address of process 0, set only for a helper process.
const PROCESS_0: &str = "NLOG_TEST_PROCESS_0";

/// The secret that the processes of a test share.
pub(crate) const SECRET: &str = "of this test";

/// A command that runs one helper test of this binary, given its full path: `module_path!()` and the test's name.
pub(crate) fn helper(path: &str) -> Command {
    // The first part is the binary's name, which the test harness omits.
    let (_, path) = path.split_once("::").expect("a path within the test binary");
    let mut command = Command::new(std::env::current_exe().expect("a test runs from a file"));
    command.args(["--exact", path, "--ignored", "--nocapture", "--test-threads=1"]);
    command
}

/// Another process that serves process 0 at an address. Dropping it waits for its end, so process 0 must end first.
pub(crate) struct Process(Child);

impl Process {
    /// Starts a process with a program.
    pub(crate) fn start(text: &str, process_0: SocketAddr) -> Self {
        let mut child = helper(concat!(module_path!(), "::serves_process_0"))
            .env(PROCESS_0, process_0.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts as this one did");
        let mut to = child.stdin.take().expect("it is piped");
        to.write_all(text.as_bytes()).expect("it reads");
        Process(child)
    }

    /// Kills the process, as a failing machine would.
    pub(crate) fn kill(&mut self) {
        self.0.kill().expect("it runs");
    }

    /// Waits for the end of the process. Returns whether it succeeded, and its output.
    pub(crate) fn wait(&mut self) -> (bool, String) {
        let (mut said, mut errors) = (String::new(), String::new());
        let outputs = (self.0.stdout.take(), self.0.stderr.take());
        let (Some(mut stdout), Some(mut stderr)) = outputs else { return (true, said) };
        stdout.read_to_string(&mut said).expect("it speaks text");
        stderr.read_to_string(&mut errors).expect("it speaks text");
        (self.0.wait().expect("it was started").success(), said + &errors)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let (well, said) = self.wait();
        if !(well || std::thread::panicking()) {
            println!("a process failed: {said}");
        }
    }
}

#[test]
#[ignore = "a helper process, started by Process::start"]
fn serves_process_0() {
    let process_0 = std::env::var(PROCESS_0).expect("started by a test, which sets the address of process 0");
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).expect("a program comes");
    let program = super::compile(&text);
    if let Err(error) = serve(program, process_0, SECRET) {
        println!("{error}");
        std::process::exit(1);
    }
}
