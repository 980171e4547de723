//! One budget for the memory that peers make their owner hold.
//!
//! A peer decides how much it sends, so what is kept of it is counted: its incomplete message, and what its owner has
//! decoded. What is expected of a peer is free ([`PeerMemory::expect`]). What goes beyond it is charged to a budget that all
//! peers share. When the budget is used up, the peer that holds the most beyond its expectation is disconnected, whoever
//! asked for more: one that lies takes no room from the others.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// What each connection may hold without being charged, in bytes. A database of a host with 200 ports takes half of it.
const FREE_BYTES: usize = 1 << 20;

/// The default limit of what all peers together hold beyond what is expected of each, in bytes.
const LIMIT_BYTES: usize = 128 << 20;

/// The memory that peers may hold together. Clones share it.
#[derive(Clone)]
pub struct MemoryBudget(Arc<Budget>);

struct Budget {
    limit: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    accounts: BTreeMap<u64, Entry>,
    next: u64,
    /// The sum of what accounts hold beyond their expectations, without those that are being disconnected.
    charged: usize,
}

struct Entry {
    peer: PeerMemory,
    held: usize,
    /// What it holds beyond the expectation, as of the last change.
    excess: usize,
    /// Set once, when the peer is to be disconnected.
    over: Option<OverBudget>,
    wake: Arc<Notify>,
}

/// A peer holds the most of a budget that is used up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{peer} has sent {held} bytes that this process holds, more than any other peer, and all peers together have reached the \
     limit of {limit} bytes beyond what is expected of them: look for what fills the switch or its database, or answers in its name"
)]
pub struct OverBudget {
    /// The peer.
    pub peer: Arc<str>,
    /// What it holds, in bytes.
    pub held: usize,
    /// The limit of all peers, in bytes.
    pub limit: usize,
}

impl Default for MemoryBudget {
    fn default() -> Self {
        MemoryBudget::new(LIMIT_BYTES)
    }
}

impl fmt::Debug for MemoryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let charged = self.lock().charged;
        f.debug_struct("MemoryBudget").field("limit", &self.0.limit).field("charged", &charged).finish()
    }
}

impl MemoryBudget {
    /// A budget of so many bytes.
    pub fn new(limit: usize) -> Self {
        MemoryBudget(Arc::new(Budget { limit, state: Mutex::default() }))
    }

    /// The share of a peer, which errors call by this name.
    pub fn peer(&self, name: impl Into<Arc<str>>) -> PeerMemory {
        PeerMemory { budget: self.clone(), name: name.into(), expected: Arc::default() }
    }

    fn account(&self, peer: PeerMemory) -> Account {
        let wake = Arc::new(Notify::new());
        let mut state = self.lock();
        let id = state.next;
        state.next += 1;
        let entry = Entry { peer, held: 0, excess: 0, over: None, wake: wake.clone() };
        state.accounts.insert(id, entry);
        drop(state);
        Account(Arc::new(Holder { budget: self.clone(), id, wake }))
    }

    /// What peers hold beyond what is expected of them, in bytes.
    pub fn charged(&self) -> usize {
        self.lock().charged
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what an account holds, and disconnects the largest holders while the limit is exceeded.
    fn change(&self, id: u64, change: impl FnOnce(&mut usize)) -> Result<(), OverBudget> {
        let mut state = self.lock();
        let State { accounts, charged, .. } = &mut *state;
        let Some(entry) = accounts.get_mut(&id) else { return Ok(()) };
        change(&mut entry.held);
        if let Some(over) = &entry.over {
            return Err(over.clone());
        }
        let free = FREE_BYTES.saturating_add(entry.peer.expected.load(Ordering::Relaxed));
        let before = std::mem::replace(&mut entry.excess, entry.held.saturating_sub(free));
        *charged = (*charged + entry.excess).saturating_sub(before);
        while *charged > self.0.limit {
            let staying = accounts.values_mut().filter(|entry| entry.over.is_none());
            let Some(largest) = staying.max_by_key(|entry| entry.excess) else { break };
            let (peer, held, limit) = (largest.peer.name.clone(), largest.held, self.0.limit);
            *charged = charged.saturating_sub(largest.excess);
            largest.over = Some(OverBudget { peer, held, limit });
            largest.wake.notify_one();
        }
        accounts.get(&id).and_then(|entry| entry.over.clone()).map_or(Ok(()), Err)
    }
}

/// The part of a budget that one peer has.
#[derive(Debug, Clone)]
pub struct PeerMemory {
    budget: MemoryBudget,
    name: Arc<str>,
    expected: Arc<AtomicUsize>,
}

impl PeerMemory {
    /// Opens an account for a connection.
    pub fn account(&self) -> Account {
        self.budget.account(self.clone())
    }

    /// Sets what each connection of the peer is expected to hold: so many bytes more than that of any peer.
    pub fn expect(&self, bytes: usize) {
        self.expected.store(bytes, Ordering::Relaxed);
    }
}

impl Default for PeerMemory {
    /// A peer with a budget of its own.
    fn default() -> Self {
        MemoryBudget::default().peer("the peer")
    }
}

/// The account of one connection. Clones share it.
#[derive(Clone)]
pub struct Account(Arc<Holder>);

struct Holder {
    budget: MemoryBudget,
    id: u64,
    wake: Arc<Notify>,
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Account").field(&self.0.id).finish()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let mut state = self.budget.lock();
        if let Some(entry) = state.accounts.remove(&self.id)
            && entry.over.is_none()
        {
            state.charged = state.charged.saturating_sub(entry.excess);
        }
    }
}

impl Account {
    /// A part of what the peer holds; nothing yet.
    pub fn charge(&self) -> Charge {
        Charge { account: self.clone(), bytes: 0 }
    }

    /// Completes when the peer is to be disconnected.
    pub async fn over(&self) -> OverBudget {
        loop {
            let over = self.0.budget.lock().accounts.get(&self.0.id).and_then(|entry| entry.over.clone());
            if let Some(over) = over {
                // Others who wait, or this one again.
                self.0.wake.notify_one();
                return over;
            }
            self.0.wake.notified().await;
        }
    }
}

/// A part of what a peer holds. Dropping it gives the memory back.
#[derive(Debug)]
pub struct Charge {
    account: Account,
    bytes: usize,
}

impl Charge {
    /// Sets the number of bytes.
    ///
    /// # Errors
    /// The peer holds the most of a budget that is used up, so it must be disconnected.
    pub fn set(&mut self, bytes: usize) -> Result<(), OverBudget> {
        if bytes == self.bytes {
            return Ok(());
        }
        let before = std::mem::replace(&mut self.bytes, bytes);
        let account = &self.account.0;
        account.budget.change(account.id, |held| *held = (*held + bytes).saturating_sub(before))
    }

    /// Adds bytes, see [`set`](Self::set).
    ///
    /// # Errors
    /// As of [`set`](Self::set).
    pub fn add(&mut self, bytes: usize) -> Result<(), OverBudget> {
        self.set(self.bytes.saturating_add(bytes))
    }

    /// The number of bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The account that they are charged to.
    pub fn account(&self) -> &Account {
        &self.account
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let _ = self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d16_the_largest_holder_is_disconnected_whoever_asks_for_more() {
        let budget = MemoryBudget::new(1000);
        let (large, small) = (budget.peer("large").account(), budget.peer("small").account());
        let (mut of_large, mut of_small) = (large.charge(), small.charge());
        assert_eq!(of_large.set(FREE_BYTES + 700), Ok(()));
        assert_eq!(of_small.set(FREE_BYTES + 300), Ok(()));
        assert_eq!(budget.charged(), 1000);
        // The small one asks, and the large one pays.
        assert_eq!(of_small.add(1), Ok(()));
        let over = of_large.add(1).expect_err("it holds the most");
        assert_eq!((&*over.peer, over.held, over.limit), ("large", FREE_BYTES + 700, 1000));
        assert_eq!(budget.charged(), 301);
        drop((of_large, large));
        assert_eq!(budget.charged(), 301);
        drop((of_small, small));
        assert_eq!(budget.charged(), 0);
    }

    #[test]
    fn d16_what_is_expected_of_a_peer_is_free() {
        let budget = MemoryBudget::new(1000);
        let peer = budget.peer("host");
        let mut charge = peer.account().charge();
        peer.expect(5000);
        assert_eq!(charge.set(FREE_BYTES + 5000), Ok(()));
        assert_eq!(budget.charged(), 0);
        peer.expect(4500);
        assert_eq!((charge.add(1), budget.charged()), (Ok(()), 501));
        peer.expect(0);
        assert!(charge.add(1).is_err(), "nobody expects it any more");
    }

    #[tokio::test(start_paused = true)]
    async fn d16_a_peer_that_says_nothing_learns_that_it_must_go() {
        let budget = MemoryBudget::new(1000);
        let account = budget.peer("silent").account();
        let mut charge = account.charge();
        charge.set(FREE_BYTES + 900).expect("below the limit");
        let waits = tokio::spawn({
            let account = account.clone();
            async move { account.over().await }
        });
        tokio::task::yield_now().await;
        let mut other = budget.peer("other").account().charge();
        other.set(FREE_BYTES + 200).expect("the other one holds more");
        assert_eq!(&*waits.await.expect("no panic").peer, "silent");
        assert_eq!(account.over().await.held, FREE_BYTES + 900, "it stays so");
    }
}
