//! A controller that reads its configuration again while it runs, and what it tells systemd.

use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use weft_client::{Client, ClientError};

use crate::support::Folder;
use crate::support::controller::{Controller, DEADLINE};

/// Waits until the log has a line with all of these.
fn logged(folder: &Folder, parts: &[&str]) {
    let deadline = Instant::now() + DEADLINE;
    let has = |line: &str| parts.iter().all(|part| line.contains(part));
    loop {
        let log = Controller::log(folder);
        if log.lines().any(has) {
            return;
        }
        assert!(Instant::now() < deadline, "no line with {parts:?} in:\n{log}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

async fn apply(client: &mut Client, text: &str) -> Result<(), ClientError> {
    client.apply([("net.yaml".to_owned(), text.to_owned())], "test").await.map(drop)
}

#[test]
fn a_running_controller_takes_what_it_can_and_says_what_it_cannot() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let folder = Folder::new();
        let mut controller = Controller::start_with(&folder, "log = \"info\"\n");
        let mut client = controller.client(&folder).await;
        apply(&mut client, "{kind: switch, id: a, tenant: acme}").await.unwrap();

        Controller::configure(&folder, "log = \"debug\"\ntenants = \"declared\"\nworkers = 2\n");
        controller.hang_up();
        logged(
            &folder,
            &["the configuration has changed", "key=\"log\"", "from=\"\\\"info\\\"\"", "weft.toml:3"],
        );
        logged(&folder, &["takes effect after a restart", "key=\"workers\"", "to=\"2\""]);
        // It counts for the next request.
        let deadline = Instant::now() + DEADLINE;
        while apply(&mut client, "{kind: switch, id: b, tenant: umbra}").await.is_ok() {
            assert!(Instant::now() < deadline, "{}", Controller::log(&folder));
            client.delete(&[objects::ObjectKey::new("switch", "b")], "test").await.unwrap();
        }
        logged(&folder, &["DEBUG", "reading the objects of a request"]);

        // A file with faults changes nothing, and the log lists each fault.
        Controller::configure(&folder, "log = \"loud\"\nworkers = 0\n");
        controller.hang_up();
        logged(
            &folder,
            &["ERROR", "weft.toml:4:11: 0 workers are not possible", "the former one stays in use"],
        );
        apply(&mut client, "{kind: switch, id: c, tenant: umbra}").await.unwrap_err();
        Controller::configure(&folder, "log = \"loud\"\n");
        controller.hang_up();
        logged(&folder, &["ERROR", "weft.toml:3:7: ", "loud", "is no level; use a level (off, error,"]);
        controller.terminate();
    });
}

#[test]
fn systemd_is_told_that_the_controller_serves_is_alive_reloads_and_stops() {
    let folder = Folder::new();
    let socket = UnixDatagram::bind(folder.path("notify")).unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    // Until one comes that begins like this. What is alive says so again and again.
    let told = |wanted: &str| {
        let mut buffer = [0; 256];
        loop {
            let bytes = socket.recv(&mut buffer).unwrap_or_else(|error| panic!("no {wanted}: {error}"));
            let text = String::from_utf8_lossy(&buffer[..bytes]).into_owned();
            if text.starts_with(wanted) {
                return text;
            }
            assert_eq!(text, "WATCHDOG=1\n", "before {wanted}");
        }
    };
    let path = folder.path("notify");
    let variables = [("NOTIFY_SOCKET", path.to_str().unwrap()), ("WATCHDOG_USEC", "200000")];
    let controller = Controller::start_as_service(&folder, &variables);
    told("READY=1\n");
    for _ in 0..3 {
        told("WATCHDOG=1\n");
    }
    controller.hang_up();
    let reloading = told("RELOADING=1\n");
    assert!(reloading.contains("MONOTONIC_USEC="), "{reloading}");
    told("READY=1\n");
    controller.terminate_after(|| drop(told("STOPPING=1\n")));
}
