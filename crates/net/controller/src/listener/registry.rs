//! The connections in use, by client.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::{Account, Client};

/// The most connections in all, and of one client: a program that watches a thousand things has a connection for each, and takes 18 KB
/// for it while it is idle.
const CONNECTIONS_MAX: usize = 4096;
const CLIENT_MAX: usize = 2048;
/// The most bytes of unread answers of all connections together.
const UNREAD_BYTES_MAX: usize = 96 << 20;

/// The connections in use, ordered by their last activity.
#[derive(Debug, Default)]
pub(super) struct Registry {
    table: Mutex<Table>,
    /// The bytes of unread answers, also of connections that were closed and have not ended yet.
    held: AtomicUsize,
}

#[derive(Debug, Default)]
struct Table {
    /// The connection that has been silent for the longest comes first.
    connections: BTreeMap<u64, Entry>,
    clients: BTreeMap<Client, usize>,
    next: u64,
}

#[derive(Debug)]
struct Entry {
    client: Client,
    account: Account,
    /// Dropping it closes the connection.
    _close: oneshot::Sender<()>,
}

/// The slot of a connection. Dropping it frees the slot.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) client: Client,
    pub(super) account: Account,
    number: u64,
    registry: Arc<Registry>,
}

impl Registry {
    /// Gives a new connection a slot, and closes another connection if there are too many. The receiver completes
    /// when the connection must end.
    pub(super) fn admit(self: &Arc<Self>, client: Client) -> (Slot, oneshot::Receiver<()>) {
        let mut table = self.table();
        if table.clients.get(&client).is_some_and(|count| *count >= CLIENT_MAX) {
            table.close_of(client);
        } else if table.connections.len() >= CONNECTIONS_MAX {
            table.close_most_silent();
        }
        let (close, closed) = oneshot::channel();
        let account = Account::new(Arc::downgrade(self));
        let number = table.insert(Entry { client, account: account.clone(), _close: close });
        *table.clients.entry(client).or_default() += 1;
        (Slot { client, account, number, registry: self.clone() }, closed)
    }

    /// Closes connections until the unread answers of the others are within the limit: each time the connection with the
    /// most, of the client with the most.
    pub(super) fn close_while_too_much_is_held(&self) {
        // Adding up the connections takes time in proportion to their number, and every message comes here.
        if self.held.load(Ordering::Relaxed) <= UNREAD_BYTES_MAX {
            return;
        }
        let mut table = self.table();
        while table.held() > UNREAD_BYTES_MAX {
            table.close_with_most_unread();
        }
    }

    /// Counts further bytes of unread answers.
    pub(super) fn hold(&self, bytes: usize) {
        self.held.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes were read, or their connection has ended.
    pub(super) fn release(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Closes the most silent connection of the client with the most connections.
    pub(super) fn close_most_silent(&self) {
        self.table().close_most_silent();
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // No method leaves the table in an inconsistent state.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn insert(&mut self, entry: Entry) -> u64 {
        self.next += 1;
        self.connections.insert(self.next, entry);
        self.next
    }

    fn remove(&mut self, number: u64) {
        let Some(entry) = self.connections.remove(&number) else { return };
        if let Some(count) = self.clients.get_mut(&entry.client) {
            *count -= 1;
            if *count == 0 {
                self.clients.remove(&entry.client);
            }
        }
    }

    fn close_most_silent(&mut self) {
        let most = self.clients.iter().max_by_key(|(_, count)| **count);
        if let Some(client) = most.map(|(client, _)| *client) {
            self.close_of(client);
        }
    }

    fn held(&self) -> usize {
        self.connections.values().map(|entry| entry.account.held()).sum()
    }

    fn close_with_most_unread(&mut self) {
        let mut clients: BTreeMap<Client, usize> = BTreeMap::new();
        for entry in self.connections.values() {
            *clients.entry(entry.client).or_default() += entry.account.held();
        }
        let most = clients.into_iter().max_by_key(|(_, held)| *held).map(|(client, _)| client);
        let of_it = self.connections.iter().filter(|(_, entry)| Some(entry.client) == most);
        let number = of_it.max_by_key(|(_, entry)| entry.account.held()).map(|(number, _)| *number);
        if let Some(number) = number {
            self.remove(number);
        }
    }

    fn close_of(&mut self, client: Client) {
        let mut of_it = self.connections.iter().filter(|(_, entry)| entry.client == client);
        if let Some(number) = of_it.next().map(|(number, _)| *number) {
            self.remove(number);
        }
    }
}

impl Slot {
    /// Records that the connection has moved bytes.
    pub(super) fn touch(&mut self) {
        let mut table = self.registry.table();
        if table.next != self.number
            && let Some(entry) = table.connections.remove(&self.number)
        {
            self.number = table.insert(entry);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.registry.table().remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_silent_connection_of_the_same_client_makes_room() {
        let registry = Arc::new(Registry::default());
        let (mut first, mut first_closed) = registry.admit(Client::Process(1));
        let (_other, mut other_closed) = registry.admit(Client::Process(2));
        let mut rest: Vec<_> = (1..CLIENT_MAX).map(|_| registry.admit(Client::Process(1))).collect();
        first.touch();
        assert!(first_closed.try_recv() == Err(oneshot::error::TryRecvError::Empty));
        let _new = registry.admit(Client::Process(1));
        assert_eq!(rest[0].1.try_recv(), Err(oneshot::error::TryRecvError::Closed));
        assert_eq!(rest[1].1.try_recv(), Err(oneshot::error::TryRecvError::Empty));
        assert_eq!(first_closed.try_recv(), Err(oneshot::error::TryRecvError::Empty));
        assert_eq!(other_closed.try_recv(), Err(oneshot::error::TryRecvError::Empty));
        rest.clear();
        drop(first);
        assert_eq!(registry.table().connections.len(), 2);
        assert_eq!(registry.table().clients.len(), 2);
    }

    #[test]
    fn the_client_with_most_connections_makes_room_for_another() {
        let registry = Arc::new(Registry::default());
        let (_small, mut small_closed) = registry.admit(Client::Process(0));
        let fill = |client: i32, count| -> Vec<_> {
            (0..count).map(|_| registry.admit(Client::Process(client))).collect()
        };
        let mut large = fill(1, CLIENT_MAX);
        let _rest = fill(2, CLIENT_MAX - 2);
        let left = CONNECTIONS_MAX - registry.table().connections.len();
        let _fifth = fill(5, left);
        let _new = registry.admit(Client::Process(6));
        assert_eq!(registry.table().connections.len(), CONNECTIONS_MAX);
        assert_eq!(large[0].1.try_recv(), Err(oneshot::error::TryRecvError::Closed));
        assert_eq!(large[1].1.try_recv(), Err(oneshot::error::TryRecvError::Empty));
        assert_eq!(small_closed.try_recv(), Err(oneshot::error::TryRecvError::Empty));
    }

    #[test]
    fn the_client_that_leaves_most_unread_loses_its_largest_connection() {
        let registry = Arc::new(Registry::default());
        let (honest, mut honest_closed) = registry.admit(Client::Process(1));
        let (small, mut small_closed) = registry.admit(Client::Process(2));
        let (large, mut large_closed) = registry.admit(Client::Process(2));
        let _held = [
            honest.account.charge(UNREAD_BYTES_MAX * 4 / 10),
            small.account.charge(UNREAD_BYTES_MAX * 2 / 10),
            large.account.charge(UNREAD_BYTES_MAX * 4 / 10),
        ];
        let is_closed = |closed: &mut oneshot::Receiver<()>| {
            closed.try_recv() == Err(oneshot::error::TryRecvError::Closed)
        };
        assert!(!is_closed(&mut large_closed));
        let more = honest.account.charge(UNREAD_BYTES_MAX / 10);
        assert!(is_closed(&mut large_closed) && !is_closed(&mut small_closed));
        // What a closed connection holds until it has ended does not count any more.
        drop(more);
        let _more = small.account.charge(UNREAD_BYTES_MAX / 10);
        assert!(!is_closed(&mut small_closed) && !is_closed(&mut honest_closed));
    }
}
