//! The locks of a fake OVSDB server (RFC 7047, sections 4.1.8 to 4.1.10).

use std::collections::{BTreeMap, VecDeque};

/// By name, the connections that have asked for a lock. The first one holds it.
#[derive(Debug, Default)]
pub(super) struct Locks(BTreeMap<String, VecDeque<u64>>);

impl Locks {
    /// Whether a connection holds a lock.
    pub(super) fn holds(&self, lock: &str, client: Option<u64>) -> bool {
        client.is_some() && self.0.get(lock).and_then(|waiting| waiting.front().copied()) == client
    }

    /// Gives a lock to a connection, now or when those before it have released it. Returns whether it holds the lock, and the
    /// connection from which it was stolen; `None` if it has asked for the lock before and not released it.
    pub(super) fn take(&mut self, lock: &str, client: u64, steal: bool) -> Option<(bool, Option<u64>)> {
        let waiting = self.0.entry(lock.to_owned()).or_default();
        if waiting.contains(&client) {
            return None;
        }
        let former = waiting.front().copied();
        if steal {
            waiting.push_front(client);
        } else {
            waiting.push_back(client);
        }
        Some((former.is_none() || steal, former.filter(|_| steal)))
    }

    /// Releases a lock. Returns the connection that holds it from now on, if it is another one.
    pub(super) fn release(&mut self, lock: &str, client: u64) -> Option<u64> {
        let waiting = self.0.get_mut(lock)?;
        let held = waiting.front() == Some(&client);
        waiting.retain(|waiting| *waiting != client);
        waiting.front().copied().filter(|_| held)
    }

    /// Releases all locks of a connection that has ended. Returns each with the connection that holds it from now on.
    pub(super) fn end(&mut self, client: u64) -> Vec<(String, u64)> {
        let names: Vec<String> = self.0.keys().cloned().collect();
        names.into_iter().filter_map(|lock| Some((lock.clone(), self.release(&lock, client)?))).collect()
    }
}
