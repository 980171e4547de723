//! Work without end: requests that a rule multiplies, and a log that nobody reads.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::fmt::Write as _;
use std::fs;
use std::io::Read as _;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Folder, Outcome};

/// Whatever is waited for comes within this time.
const DEADLINE: Duration = Duration::from_mins(2);

/// A controller in a folder, which is killed with the test.
struct Controller<'a> {
    folder: &'a Folder,
    socket: String,
    process: Child,
}

impl<'a> Controller<'a> {
    /// Starts one with these lines of configuration, and waits until it answers.
    fn start(folder: &'a Folder, configuration: &str, log: impl Into<Stdio>) -> Self {
        let socket = format!("unix:{}", folder.path("weft.sock").display());
        folder.write("weft.toml", format!("state = \"state\"\nlisten = \"{socket}\"\n{configuration}"));
        let mut command = folder.command(&["controller", "--config", "weft.toml"]);
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let mut controller = Controller { folder, socket, process };
        let deadline = Instant::now() + DEADLINE;
        while controller.weft("", &["get", "status"]).status != Some(0) {
            let ended = controller.process.try_wait().unwrap();
            assert!(ended.is_none() && Instant::now() < deadline, "it does not answer: {ended:?}");
        }
        controller
    }

    fn weft(&self, input: &str, arguments: &[&str]) -> Outcome {
        self.folder.weft_reading(input, &[arguments, &["--controller", &self.socket]].concat())
    }

    /// Asks it to end, and waits for that.
    fn terminate(mut self) -> ExitStatus {
        kill_process(Pid::from_child(&self.process), Signal::TERM).unwrap();
        let deadline = Instant::now() + DEADLINE;
        loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "it does not end");
            std::thread::yield_now();
        }
    }
}

impl Drop for Controller<'_> {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A package with a rule that multiplies: a row for each pair of address groups.
const PAIRS: &str = r#"
import "builtin/interface/objects.nlog";

## Each row: the address groups `a` and `b` have the same addresses.
table pair(a: string, b: string);

pair(a, b) :-
    address_group(id: a, addresses: all, ..),
    address_group(id: b, addresses: all, ..);

## Each row: `a` is in `pairs` pairs.
table pairs_of(a: string, pairs: int) key(a);

pairs_of(a, count(b)) :- pair(a, b);

## Nothing is less than nothing.
forbid table less_than_nothing(a: string);

less_than_nothing(a) :-
    pairs_of(a, pairs),
    pairs < 0;
"#;

fn groups(count: usize) -> String {
    (0..count).fold(String::new(), |mut text, group| {
        let _ = writeln!(text, "---\n{{kind: address_group, id: g{group}, addresses: [10.0.0.0/24]}}");
        text
    })
}

#[test]
fn d2_a_request_that_a_rule_multiplies_is_refused_as_a_whole_and_derived_once_accepted() {
    let folder = Folder::new();
    folder.write("pairs/pairs.nlog", PAIRS);
    let log = || fs::File::create(folder.path("log")).unwrap();
    let start = |rule_rows: &str| {
        Controller::start(&folder, &format!("rules = [\"builtin\", \"pairs\"]\n{rule_rows}"), log())
    };
    // 90,000 pairs: beyond the bound of some 50,000 that follows from the values of the request.
    let request = groups(300);
    let controller = start("rule_rows = 1000\n");
    let refused = controller.weft(&request, &["apply", "-f", "-"]);
    assert_eq!(refused.status, Some(1), "{refused:?}");
    for part in ["the rule at ", "pairs.nlog:", "which fills table pair", " rows (", "`rule_rows`"] {
        assert!(refused.stderr.contains(part), "{part} is missing: {}", refused.stderr);
    }
    // Nothing is left of it, and what is less is accepted.
    assert_eq!(controller.weft("", &["get", "address_group", "--json"]).has_status(0).stdout, "");
    controller.weft(&groups(30), &["apply", "-f", "-"]).has_status(0);
    assert!(controller.terminate().success());

    // A controller that accepts it, and then one that would not: what is accepted stays, and can go.
    let controller = start("");
    controller.weft(&request, &["apply", "-f", "-"]).has_status(0);
    assert!(controller.terminate().success());
    let controller = start("rule_rows = 1\n");
    let there = controller.weft("", &["get", "address_group", "--json"]);
    assert_eq!(there.has_status(0).lines().len(), 300);
    controller.weft(&request, &["delete", "-f", "-"]).has_status(0);
    assert_eq!(controller.weft("", &["get", "address_group", "--json"]).has_status(0).stdout, "");
    assert!(controller.terminate().success());
}

#[test]
fn d11_a_controller_whose_log_nobody_reads_answers_and_ends() {
    let folder = Folder::new();
    let (mut unread, log) = std::io::pipe().unwrap();
    let controller = Controller::start(&folder, "log = \"trace\"\n", log);
    let nodes = (0..500).fold(String::new(), |mut text, node| {
        let (high, low) = (node / 250, node % 250 + 1);
        let _ = writeln!(text, "---\n{{kind: transport_node, id: n{node}, ip: 172.16.{high}.{low}}}");
        text
    });
    controller.weft(&nodes, &["apply", "-f", "-"]).has_status(0);
    for _ in 0..20 {
        controller.weft("", &["get", "transport_node"]).has_status(0);
    }
    assert!(controller.terminate().success());
    let mut written = Vec::new();
    unread.read_to_end(&mut written).unwrap();
    // The pipe was full. One page may not be filled to its end.
    assert!(written.len() >= (64 << 10) - (4 << 10), "only {} bytes were logged", written.len());
}
