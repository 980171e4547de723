//! A disk that fills up: the controller refuses requests that it cannot journal, and continues when there is space
//! again.
//!
//! A limit on the size of files simulates the full disk, because it needs no privileges: a write beyond it fails
//! after a partial write.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Folder, Outcome};

const DEADLINE: Duration = Duration::from_mins(1);

/// A controller that is killed with the test.
struct Controller(Child);

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(folder: &Folder, limit: &str) -> Controller {
    // A signal that the shell ignores stays ignored after `exec`; otherwise the first write beyond the limit would
    // kill the controller.
    let script = format!("trap '' XFSZ; ulimit -S -f {limit}; exec \"$0\" controller --config weft.toml");
    let mut command = Command::new("sh");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_weft")]).current_dir(folder.path(""));
    command.stdout(Stdio::null()).stderr(fs::File::create(folder.path("log")).unwrap());
    Controller(command.spawn().unwrap())
}

#[test]
fn what_a_full_disk_does_not_take_is_refused_and_the_controller_goes_on() {
    let folder = Folder::new();
    let socket = format!("unix:{}", folder.path("weft.sock").display());
    folder.write("weft.toml", format!("state = \"state\"\nlisten = \"{socket}\"\n"));
    let weft = |input: &str, arguments: &[&str]| -> Outcome {
        folder.weft_reading(input, &[arguments, &["--controller", &socket]].concat())
    };
    let apply = |number: usize| {
        let text = format!("kind: switch\nid: s{number}\ntenant: {}\n", "x".repeat(60));
        weft(&text, &["apply", "-f", "-"])
    };
    let controller = start(&folder, "8");
    let deadline = Instant::now() + DEADLINE;
    let answers = |outcome: &Outcome| outcome.status == Some(0);
    while !answers(&weft("", &["get", "status"])) {
        assert!(Instant::now() < deadline, "{}", fs::read_to_string(folder.path("log")).unwrap());
    }

    let full = (0..200).find(|number| apply(*number).status != Some(0)).expect("the disk fills up");
    assert!(full > 2);
    let journal = || fs::read_to_string(folder.path("state/journal.jsonl")).unwrap();
    let before = journal();
    for _ in 0..3 {
        let refused = apply(full);
        assert!(refused.has_status(3).stderr.contains("journal: "), "{}", refused.stderr);
        assert!(refused.stderr.contains("nothing took effect"), "{}", refused.stderr);
        assert_eq!(journal(), before);
    }
    let switches = || weft("", &["get", "switches", "--json"]).has_status(0).lines().len();
    assert_eq!(switches(), full);

    let pid = controller.0.id().to_string();
    let raised = Command::new("prlimit").args(["--pid", &pid, "--fsize=unlimited:"]).status().unwrap();
    assert!(raised.success());
    assert_eq!(apply(full).has_status(0).stdout, format!("switch s{full}: created\n"));
    assert_eq!(switches(), full + 1);
    assert_eq!(journal().lines().count(), full + 1);
    drop(controller);

    // After a crash, exactly the accepted objects exist.
    let _controller = start(&folder, "unlimited");
    let deadline = Instant::now() + DEADLINE;
    while !answers(&weft("", &["get", "status"])) {
        assert!(Instant::now() < deadline, "{}", fs::read_to_string(folder.path("log")).unwrap());
    }
    assert_eq!(switches(), full + 1);
}
