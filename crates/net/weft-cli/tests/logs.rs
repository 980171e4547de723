//! The log of a controller as JSON, its limits, and spans that nobody takes.

use std::net::TcpListener;
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

fn with_message(message: &'static str) -> impl Fn(&Json) -> bool {
    move |line| line["message"] == message
}

/// A call of `weft`, in this trace.
fn status(folder: &Folder, traceparent: Option<&str>) {
    let mut command = folder.command(&["status", "--controller", &Controller::endpoint(folder)]);
    command.env_remove("TRACEPARENT").envs(traceparent.map(|parent| ("TRACEPARENT", parent)));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_collector_that_takes_no_spans_is_one_warning() {
    let folder = Folder::new();
    let collector = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = collector.local_addr().unwrap();
    let mut controller = Controller::start_with(
        &folder,
        &format!(
            "log = \"debug\"\nlog_format = \"json\"\notlp_endpoint = \"http://{address}\"\notlp_sample = 0\n"
        ),
    );
    let runtime = tokio::runtime::Runtime::new().unwrap();
    drop(runtime.block_on(controller.client(&folder)));
    // Nobody wants spans of these.
    status(&folder, None);
    status(&folder, Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"));
    drop(collector);

    let calls = std::cell::Cell::new(0);
    let traced = || {
        calls.set(calls.get() + 1);
        status(&folder, Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"));
    };
    let failed = "spans cannot be sent; they are dropped until the receiver answers";
    let warning = until(&folder, traced, with_message(failed));
    assert_eq!(
        (&warning["level"], &warning["target"]),
        (&"WARN".into(), &"controller::spans::export".into())
    );
    assert_eq!(warning["endpoint"], format!("http://{address}"));
    traced();
    controller.terminate();
    let lines = lines(&folder);
    assert_eq!(lines.iter().filter(|line| line["message"] == failed).count(), 1);
    let lost = lines.iter().find(|line| line["message"] == "spans were lost").expect("the number");
    // Each call that was sampled has one span, and the others have none.
    assert_eq!(lost["lost"].as_u64(), Some(calls.get()), "{lost}");
    for line in &lines {
        let time = line["time"].as_str().unwrap();
        assert!(humantime::parse_rfc3339(time).is_ok() && time.ends_with('Z'), "{line}");
        assert!(line["level"].is_string() && line["target"].is_string(), "{line}");
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
