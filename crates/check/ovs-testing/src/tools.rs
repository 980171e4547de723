//! The tools of Open vSwitch, run to their end.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long a test waits for a daemon. A daemon takes milliseconds; the rest is for a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(40);

const INSTALL: &str = "install Open vSwitch with: apt-get install -y openvswitch-switch";

/// Runs a program of Open vSwitch; it may fail.
///
/// # Panics
/// When the program is not installed.
pub fn run<A: AsRef<OsStr>>(program: &str, arguments: &[A]) -> Output {
    output(Command::new(program).args(arguments))
}

/// Runs `ovs-ofctl` for OpenFlow 1.5 and returns its output.
///
/// # Panics
/// When it fails or is not installed.
pub fn ofctl(arguments: &[&str]) -> String {
    let mut command = Command::new("ovs-ofctl");
    command.args(["-O", "OpenFlow15", "--no-names"]).args(arguments);
    must(&mut command)
}

/// Runs `ovs-vsctl` on the database with this socket and does not wait for an `ovs-vswitchd`.
///
/// # Errors
/// The error output of `ovs-vsctl`.
pub fn vsctl(socket: &Path, arguments: &[&str]) -> Result<String, String> {
    let database = format!("--db=unix:{}", socket.display());
    let mut command = Command::new("ovs-vsctl");
    succeed(command.args([&database, "--no-wait", "--timeout=20"]).args(arguments))
}

/// Waits until the condition holds.
///
/// # Panics
/// When it does not hold in time; `what` says what the test waited for.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < deadline, "timed out after {DEADLINE:?} waiting until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Runs a command, which must succeed, and returns its standard output.
pub(crate) fn must(command: &mut Command) -> String {
    succeed(command).unwrap_or_else(|errors| panic!("{command:?} failed: {errors}"))
}

/// The standard output of a command that succeeds, the error output of one that fails.
pub(crate) fn succeed(command: &mut Command) -> Result<String, String> {
    let output = output(command);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

fn output(command: &mut Command) -> Output {
    let output = command.stdin(Stdio::null()).output();
    output.unwrap_or_else(|error| panic!("cannot start {command:?}: {error}; {INSTALL}"))
}

/// The database schema that comes with Open vSwitch.
pub(crate) fn schema() -> &'static str {
    let paths =
        ["/usr/share/openvswitch/vswitch.ovsschema", "/usr/local/share/openvswitch/vswitch.ovsschema"];
    let found = paths.into_iter().find(|path| Path::new(path).is_file());
    found.unwrap_or_else(|| panic!("there is no {}; {INSTALL}", paths.join(" and no ")))
}
