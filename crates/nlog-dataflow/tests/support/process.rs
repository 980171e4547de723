//! Processes of a test's own: its binary again, of which one test serves.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use nlog_dataflow::processes::serve;

/// Where process 0 is, for whoever is started to serve.
const PROCESS_0: &str = "NLOG_TEST_PROCESS_0";

/// What the processes of tests know each other by.
pub(crate) const SECRET: &str = "of this test";

/// Another process, which serves whoever listens at an address. Dropped, it is waited for: process 0 has to be done.
pub(crate) struct Process(Child);

impl Process {
    /// Starts it with a program. The test file has a test `serves_if_it_is_told_to`, which calls [`serve_if_told_to`].
    pub(crate) fn start(text: &str, process_0: SocketAddr) -> Self {
        let binary = std::env::current_exe().expect("a test runs");
        let mut child = Command::new(binary)
            .args(["--exact", "serves_if_it_is_told_to", "--nocapture", "--test-threads=1"])
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

    /// Kills it, as a machine that fails does.
    pub(crate) fn kill(&mut self) {
        self.0.kill().expect("it runs");
    }

    /// Waits until it ends: whether it did so in good order, and what it said.
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

/// Serves, if this process was started to.
pub(crate) fn serve_if_told_to() {
    let Ok(process_0) = std::env::var(PROCESS_0) else { return };
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).expect("a program comes");
    let program = super::compile(&text);
    if let Err(error) = serve(program, process_0, SECRET) {
        println!("{error}");
        std::process::exit(1);
    }
}
