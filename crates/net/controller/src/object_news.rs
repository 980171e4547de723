//! Wakes those who wait for changes of objects.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};

/// How long the waking waits for further changes. A thousand watchers take a millisecond of processor time to wake, so under load they
/// share it.
const GATHER: Duration = Duration::from_millis(5);

/// The way from the engine thread to those who wait.
///
/// The thread tells one task, and that task wakes the others, so that a transaction takes the same time however many there are.
#[derive(Debug, Clone, Default)]
pub(crate) struct ObjectNews {
    told: Arc<Notify>,
    woken: watch::Sender<()>,
}

impl ObjectNews {
    /// Objects have changed.
    pub(crate) fn tell(&self) {
        self.told.notify_one();
    }

    /// What wakes whoever waits, from now on.
    pub(crate) fn subscribe(&self) -> watch::Receiver<()> {
        self.woken.subscribe()
    }

    /// Wakes those who wait, until it is dropped.
    pub(crate) async fn forward(self) {
        loop {
            self.told.notified().await;
            self.woken.send_replace(());
            tokio::time::sleep(GATHER).await;
        }
    }
}
