//! Wakes those who wait for changes of objects of some kinds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

/// How long the waking waits for further changes. A thousand watchers take a millisecond of processor time to wake, so under load they
/// share it.
const GATHER: Duration = Duration::from_millis(5);

/// The way from the engine thread to those who wait.
///
/// The thread tells one task, and that task wakes the others, so that a transaction takes the same time however many there are. Who waits
/// for other kinds than those that changed sleeps on.
#[derive(Debug, Clone, Default)]
pub(crate) struct ObjectNews {
    told: Arc<Notify>,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// The kinds that have changed since the last waking.
    changed: BTreeSet<Arc<str>>,
    waiting: BTreeMap<u64, Waiting>,
    last: u64,
}

#[derive(Debug)]
struct Waiting {
    /// `None` stands for all kinds.
    kinds: Option<BTreeSet<Arc<str>>>,
    woken: Arc<Notify>,
}

impl ObjectNews {
    /// Objects of these kinds have changed.
    pub(crate) fn tell(&self, kinds: BTreeSet<Arc<str>>) {
        if !kinds.is_empty() {
            self.shared().changed.extend(kinds);
            self.told.notify_one();
        }
    }

    /// Waits for changes of these kinds, or of all, from now on.
    pub(crate) fn subscribe(&self, kinds: Option<BTreeSet<Arc<str>>>) -> Subscription {
        let mut shared = self.shared();
        shared.last += 1;
        let (number, woken) = (shared.last, Arc::<Notify>::default());
        shared.waiting.insert(number, Waiting { kinds, woken: woken.clone() });
        Subscription { news: self.clone(), number, woken }
    }

    /// Wakes those who wait, until it is dropped.
    pub(crate) async fn forward(self) {
        loop {
            self.told.notified().await;
            self.wake();
            tokio::time::sleep(GATHER).await;
        }
    }

    fn wake(&self) {
        let mut shared = self.shared();
        let changed = std::mem::take(&mut shared.changed);
        for waiting in shared.waiting.values() {
            if waiting.kinds.as_ref().is_none_or(|kinds| !kinds.is_disjoint(&changed)) {
                waiting.woken.notify_one();
            }
        }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Someone who waits. Ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Subscription {
    news: ObjectNews,
    number: u64,
    woken: Arc<Notify>,
}

impl Subscription {
    /// Waits for changes since the last call, or since the subscription.
    pub(crate) async fn changed(&self) {
        self.woken.notified().await;
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.news.shared().waiting.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    fn kinds(names: &[&str]) -> BTreeSet<Arc<str>> {
        names.iter().map(|name| Arc::from(*name)).collect()
    }

    fn is_woken(subscription: &Subscription) -> bool {
        pin!(subscription.changed()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn who_waits_for_other_kinds_sleeps_on() {
        let news = ObjectNews::default();
        let of_ports = news.subscribe(Some(kinds(&["switch_port"])));
        let of_others = news.subscribe(Some(kinds(&["acl", "switch"])));
        let of_all = news.subscribe(None);
        let woken = || [&of_ports, &of_others, &of_all].map(is_woken);
        assert_eq!(woken(), [false, false, false]);

        news.tell(kinds(&["switch_port"]));
        news.wake();
        assert_eq!(woken(), [true, false, true]);
        assert_eq!(woken(), [false, false, false], "a change wakes once");

        // Before the waking, changes add up.
        news.tell(kinds(&["switch"]));
        news.tell(kinds(&["router"]));
        news.wake();
        assert_eq!(woken(), [false, true, true]);

        drop(of_all);
        assert_eq!(news.shared().waiting.len(), 2);
    }
}
