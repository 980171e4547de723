//! A controller that dies leaves its keys in no core dump.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::Folder;
use crate::support::controller::DEADLINE;

/// Lets a controller with this configuration begin to serve, ends it as a fault would, and returns whether the system dumped its memory.
fn is_dumped(folder: &Folder, configuration: &str) -> bool {
    let socket = folder.path("weft.sock");
    folder.write(
        "weft.toml",
        format!("state = \"state\"\nlisten = \"unix:{}\"\n{configuration}", socket.display()),
    );
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "ulimit -c unlimited; exec \"$0\" controller --config weft.toml",
        env!("CARGO_BIN_EXE_weft"),
    ]);
    let mut controller = command.current_dir(folder.path(".")).spawn().unwrap();
    let deadline = Instant::now() + DEADLINE;
    while !socket.exists() {
        let ended = controller.try_wait().unwrap();
        assert!(ended.is_none() && Instant::now() < deadline, "it does not listen: {ended:?}");
    }
    kill_process(Pid::from_child(&controller), Signal::ABORT).unwrap();
    let ended = controller.wait().unwrap();
    assert_eq!(ended.signal(), Some(Signal::ABORT.as_raw()));
    std::fs::remove_file(socket).unwrap();
    ended.core_dumped()
}

#[test]
fn a_controller_with_keys_leaves_no_core_dump() {
    let folder = Folder::new();
    folder.weft(&["pki", "init"]).has_status(0);
    if !is_dumped(&folder, "") {
        eprintln!("this system makes no core dumps, so there is nothing to compare");
    }
    let keys = "
tls_certificate = \"pki/controllers/controller.pem\"
tls_key = \"pki/controllers/controller.key\"
tls_authorities = \"pki/members/ca.pem\"
";
    assert!(!is_dumped(&folder, keys));
}
