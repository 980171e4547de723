//! Waiting for the client's events.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use ovsdb_client::{Change, Event, Replica};
use tokio::sync::mpsc::Receiver;

/// How long a test waits for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(40);

/// The next event.
pub(crate) async fn next(events: &mut Receiver<Event>) -> Event {
    tokio::time::timeout(PATIENCE, events.recv()).await.expect("an event in time").expect("a living client")
}

/// The next event, which must be changes.
pub(crate) async fn next_changes(events: &mut Receiver<Event>) -> Vec<Change> {
    match next(events).await {
        Event::Changes(changes) => changes,
        other => panic!("{other:?} instead of changes"),
    }
}

/// Waits for a connection and returns the changes that come with it.
pub(crate) async fn connected(events: &mut Receiver<Event>) -> Vec<Change> {
    loop {
        if next(events).await == Event::Connected {
            return next_changes(events).await;
        }
    }
}

/// The next reason for a lost connection.
pub(crate) async fn disconnected(events: &mut Receiver<Event>) -> String {
    loop {
        if let Event::Disconnected { why } = next(events).await {
            return why;
        }
    }
}

/// Applies the events that are there, without waiting, checking that each change starts where the last one ended.
pub(crate) fn follow(own: &mut Replica, events: &mut Receiver<Event>) {
    while let Ok(event) = events.try_recv() {
        if let Event::Changes(changes) = event {
            follow_changes(own, &changes);
        }
    }
}

pub(crate) fn follow_changes(own: &mut Replica, changes: &[Change]) {
    for change in changes {
        assert_eq!(own.row(&change.table, change.uuid), change.old.as_ref(), "{change:?}");
        assert_ne!(change.old, change.new);
    }
    own.apply(changes);
}
