//! The log of a controller as JSON, and its limits.

use std::time::Instant;

use serde_json::Value as Json;

use crate::support::Folder;
use crate::support::controller::{Controller, DEADLINE};

/// The lines of the log so far, each of which must be an object.
fn lines(folder: &Folder) -> Vec<Json> {
    let log = Controller::log(folder);
    // The last line may be under way.
    let whole = log.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let line = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    whole.lines().map(line).collect()
}

/// Does something until the log has a line as wanted.
fn until(folder: &Folder, mut again: impl FnMut(), wanted: impl Fn(&Json) -> bool) -> Json {
    let deadline = Instant::now() + DEADLINE;
    loop {
        again();
        if let Some(line) = lines(folder).into_iter().find(&wanted) {
            return line;
        }
        assert!(Instant::now() < deadline, "{}", Controller::log(folder));
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn a_message_that_comes_too_often_is_counted() {
    let folder = Folder::new();
    let mut controller = Controller::start_with(&folder, "log_format = \"json\"\nlog_burst = 1\n");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    drop(runtime.block_on(controller.client(&folder)));
    let message = "the configuration has not changed";
    let begun = Instant::now();
    let count = until(&folder, || controller.hang_up(), |line| line["like"] == message);
    assert!(count["left_out"].as_u64().unwrap() > 0 && count["level"] == "INFO", "{count}");
    let logged = lines(&folder).iter().filter(|line| line["message"] == message).count();
    let seconds = begun.elapsed().as_secs() + 2;
    assert!(logged as u64 <= seconds, "{logged} lines in {seconds} s");
    // A reload lifts the limit.
    Controller::configure(&folder, "log_format = \"json\"\nlog_burst = 0\n");
    until(&folder, || controller.hang_up(), |line| line["key"] == "log_burst" && line["to"] == "0");
    controller.terminate();
}
