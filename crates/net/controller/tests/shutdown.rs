//! The end of a controller, and the one that comes after it.

use std::fs;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use controller::journal::{JournalError, Replay};

use crate::support::running::start;

/// Whatever is waited for comes within this time, or the test fails.
const DEADLINE: Duration = Duration::from_mins(1);

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
