//! The end of a controller, and the one that comes after it.

use std::fs;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use controller::Parts;
use controller::journal::{JournalError, Replay};
use tokio::sync::oneshot;
use weft_core::core::MakeEvaluator;

use crate::support::drivers::Switches;
use crate::support::running::{apply, parts, start, start_with};
use crate::support::{NETWORK, RULES, rules};

/// Whatever is waited for comes within this time, or the test fails.
const DEADLINE: Duration = Duration::from_mins(1);

/// How long a driver takes to end: longer than the last transaction may.
const LONG: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread")]
async fn d8_the_lock_is_released_after_the_socket_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let (state, socket) = (folder.path().join("state"), folder.path().join("weft.sock"));
    let running = start(folder.path()).await;
    // A client that says nothing keeps the server busy for as long as it may wait for its calls.
    let client = UnixStream::connect(&socket).unwrap();
    let successor = tokio::task::spawn_blocking(move || {
        let start = Instant::now();
        loop {
            match Replay::open(&state) {
                Ok(_lock) => return socket.exists(),
                Err(JournalError::Locked { .. }) => assert!(start.elapsed() < DEADLINE, "the lock stays"),
                Err(error) => panic!("{error}"),
            }
        }
    });
    running.stop().await;
    assert!(!successor.await.unwrap(), "a successor that has the lock may bind the socket");
    drop(client);
}

#[tokio::test(flavor = "multi_thread")]
async fn d8_a_socket_that_another_process_has_bound_stays() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("weft.sock");
    let running = start(folder.path()).await;
    let other = folder.path().join("other.sock");
    let _listener = UnixListener::bind(&other).unwrap();
    fs::rename(&other, &socket).unwrap();
    running.stop().await;
    assert!(UnixStream::connect(&socket).is_ok(), "it is the other one's");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rows_are_saved_though_drivers_take_long_to_end() {
    let folder = tempfile::tempdir().unwrap();
    let switches = Switches::default();
    let evaluator: MakeEvaluator = Arc::new(|rules| controller::evaluator(rules, 1));
    let parts = Parts { evaluator, ..parts(folder.path(), rules(RULES), &switches) };
    let running = start_with(parts, switches.clone()).await;
    apply(&mut running.client().await, NETWORK).await.unwrap();
    let (held, is_held) = oneshot::channel();
    let (release, released) = std::sync::mpsc::channel();
    let driver = tokio::task::spawn_blocking(move || {
        // A driver that ends says so to its switch.
        switches.look("hv1", |_| {
            held.send(()).unwrap();
            released.recv().unwrap();
        });
    });
    is_held.await.unwrap();
    let stopping = tokio::spawn(running.stop());
    tokio::time::sleep(LONG).await;
    release.send(()).unwrap();
    stopping.await.unwrap();
    driver.await.unwrap();
    assert!(folder.path().join("state/engine.rows").exists(), "the next start need not derive them");
}
