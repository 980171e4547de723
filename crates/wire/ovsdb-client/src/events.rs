//! The queue of events for a receiver that may be slow.

use std::collections::VecDeque;

use tokio::sync::mpsc::{self, error::TrySendError};

use crate::replica::{Change, merge};

/// A report of a client. Reports arrive in order over one bounded channel. `Connected` and `Disconnected` alternate,
/// except that a new reason for having no connection is reported too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Connected. One `Changes` follows at once, possibly empty, with everything new since the last connection.
    Connected,
    /// The changes of one update of the database, or of several updates if the receiver is slow.
    Changes(Vec<Change>),
    /// The connection was lost, or a connection attempt failed for a reason other than the last reported one.
    Disconnected {
        /// The reason.
        why: String,
    },
}

/// The sending side. [`push`](Outbox::push) never waits. Events that do not fit into the channel are kept here and, beyond
/// a limit, merged, so that a slow receiver costs no more memory than the database.
pub(crate) struct Outbox {
    channel: mpsc::Sender<Event>,
    kept: VecDeque<Event>,
    kept_max: usize,
}

impl Outbox {
    pub(crate) fn new(channel: mpsc::Sender<Event>, kept_max: usize) -> Self {
        // The events left after merging must not fill the queue again.
        Outbox { channel, kept: VecDeque::new(), kept_max: kept_max.max(4) }
    }

    pub(crate) fn push(&mut self, event: Event) {
        if self.kept.is_empty() {
            match self.channel.try_send(event) {
                Ok(()) | Err(TrySendError::Closed(_)) => {}
                Err(TrySendError::Full(event)) => self.kept.push_back(event),
            }
            return;
        }
        self.kept.push_back(event);
        if self.kept.len() > self.kept_max {
            self.kept = collapse(std::mem::take(&mut self.kept));
        }
    }

    /// Sends one kept event. Never completes if there is none. Cancel safe.
    pub(crate) async fn hand_over(&mut self) {
        if self.kept.is_empty() {
            std::future::pending::<()>().await;
        }
        match self.channel.reserve().await {
            Ok(permit) => {
                if let Some(event) = self.kept.pop_front() {
                    permit.send(event);
                }
            }
            Err(_) => self.kept.clear(),
        }
    }
}

/// Merges events into at most three with the same effect: one batch of changes, and the last connect and disconnect.
fn collapse(events: VecDeque<Event>) -> VecDeque<Event> {
    let mut all = Vec::new();
    let mut lost = None;
    // The state before the first event and after the last; `None` if no event shows it.
    let (mut connected_before, mut connected_after) = (None, None);
    for event in events {
        match event {
            Event::Changes(changes) => all.push(changes),
            Event::Connected => {
                connected_before.get_or_insert(false);
                connected_after = Some(true);
            }
            Event::Disconnected { why } => {
                connected_before.get_or_insert(true);
                connected_after = Some(false);
                lost = Some(Event::Disconnected { why });
            }
        }
    }
    let changes = Event::Changes(merge(all.into_iter().flatten()));
    match (connected_before, connected_after) {
        (Some(true), Some(true)) => lost.into_iter().chain([Event::Connected, changes]).collect(),
        (Some(false), Some(true)) => [Event::Connected, changes].into(),
        (Some(false), _) => [Event::Connected, changes].into_iter().chain(lost).collect(),
        _ => [changes].into_iter().chain(lost).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Replica, Row};
    use proptest::prelude::*;
    use uuid::Uuid;

    /// A history that a session could report: it starts disconnected, and each change names the previous row.
    fn history(steps: &[(u8, u8)]) -> Vec<Event> {
        let (mut replica, mut connected) = (Replica::default(), false);
        let mut events = Vec::new();
        for (n, (kind, value)) in steps.iter().enumerate() {
            if *kind == 0 {
                connected = !connected;
                let lost = Event::Disconnected { why: n.to_string() };
                events.push(if connected { Event::Connected } else { lost });
            }
            if connected {
                let uuid = Uuid::from_u128(u128::from(value % 3));
                let new = (value / 3 > 0).then(|| Row::new("T").with("name", i64::from(value / 3)));
                let old = replica.row("T", uuid).cloned();
                let change = Change { table: "T".into(), uuid, old, new };
                let changes = if change.old == change.new { vec![] } else { vec![change] };
                replica.apply(&changes);
                events.push(Event::Changes(changes));
            }
        }
        events
    }

    /// The replica, connection state and last reason that a receiver ends with. Panics if the events are
    /// inconsistent.
    fn received(events: impl IntoIterator<Item = Event>) -> (Replica, bool, Option<String>) {
        let (mut replica, mut connected, mut last) = (Replica::default(), false, None);
        for event in events {
            match event {
                Event::Connected => {
                    assert!(!connected);
                    connected = true;
                }
                Event::Disconnected { why } => (connected, last) = (false, Some(why)),
                Event::Changes(changes) => {
                    assert!(connected, "changes without a connection");
                    for change in &changes {
                        assert_eq!(replica.row("T", change.uuid), change.old.as_ref());
                        assert_ne!(change.old, change.new);
                    }
                    replica.apply(&changes);
                }
            }
        }
        (replica, connected, last.filter(|_| !connected))
    }

    proptest! {
            #[test]
        fn a_slow_receiver_ends_where_a_fast_one_does(
            steps in proptest::collection::vec((0u8..4, 0u8..9), 0..60),
            room in 1usize..4,
            // The number of events that the receiver takes after each push.
            pace in proptest::collection::vec(0usize..2, 60),
        ) {
            let history = history(&steps);
            let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
            let (sender, mut receiver) = mpsc::channel(room);
            let mut outbox = Outbox::new(sender, room);
            let mut taken = Vec::new();
            for (event, pace) in history.iter().zip(pace.into_iter().cycle()) {
                outbox.push(event.clone());
                prop_assert!(outbox.kept.len() <= outbox.kept_max);
                for _ in 0..pace {
                    taken.extend(receiver.try_recv());
                    if !outbox.kept.is_empty() {
                        runtime.block_on(outbox.hand_over());
                    }
                }
            }
            while let Ok(event) = receiver.try_recv() {
                taken.push(event);
                if !outbox.kept.is_empty() {
                    runtime.block_on(outbox.hand_over());
                }
            }
            prop_assert_eq!(received(taken), received(history));
        }
    }
}
