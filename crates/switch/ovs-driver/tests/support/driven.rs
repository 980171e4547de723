//! A driver and what it has told.

use std::sync::Arc;
use std::time::Duration;

use ovs_driver::{Config, Dial, Event, Handle, Sockets, Timing};
use tokio::sync::mpsc;

/// Nothing here takes more than a few seconds; the rest is for a machine that is busy with other things.
pub const PATIENCE: Duration = Duration::from_mins(2);

pub struct Driven {
    pub handle: Handle,
    pub events: mpsc::Receiver<(String, Event)>,
    pub seen: Vec<Event>,
}

impl Driven {
    pub fn start(config: Config) -> Driven {
        Driven::start_with(config, Timing::default())
    }

    pub fn start_with(config: Config, timing: Timing) -> Driven {
        Driven::start_on(Arc::new(Sockets::default()), config, timing)
    }

    pub fn start_on(dialler: Arc<dyn Dial>, config: Config, timing: Timing) -> Driven {
        let (sender, events) = mpsc::channel(16);
        let handle = ovs_driver::spawn_with(config, timing, dialler, sender);
        Driven { handle, events, seen: Vec::new() }
    }

    /// Waits for the next event in which `wanted` finds something.
    pub async fn wait<T>(&mut self, what: &str, mut wanted: impl FnMut(&Event) -> Option<T>) -> T {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            match tokio::time::timeout_at(deadline, self.events.recv()).await {
                Ok(Some((_, event))) => {
                    self.seen.push(event.clone());
                    if let Some(found) = wanted(&event) {
                        return found;
                    }
                }
                Ok(None) => panic!("the driver ended while waiting for {what}; seen {:#?}", self.seen),
                Err(late) => panic!("not within {PATIENCE:?} ({late}): {what}; seen {:#?}", self.seen),
            }
        }
    }

    /// Waits for the next sync and returns how many flow-mods and tunnel changes it took.
    pub async fn synced(&mut self) -> (usize, usize) {
        self.wait("a sync", |event| match event {
            Event::Synced { flow_mods, tunnels_changed } => Some((*flow_mods, *tunnels_changed)),
            _ => None,
        })
        .await
    }

    /// Waits until the transaction is confirmed, if it is not yet.
    pub async fn confirmed(&mut self, wanted: u64) {
        let is = |event: &Event| matches!(event, Event::Confirmed { txn, .. } if *txn == wanted);
        if self.seen.iter().any(is) {
            return;
        }
        self.wait(&format!("the confirmation of {wanted}"), |event| is(event).then_some(())).await;
    }

    /// Waits for the end of a connection and returns why it ended.
    pub async fn disconnected(&mut self, wanted: ovs_driver::Channel) -> String {
        self.wait("the end of a connection", |event| match event {
            Event::Disconnected { channel, why } if *channel == wanted => Some(why.clone()),
            _ => None,
        })
        .await
    }
}
