//! The unread answers that a connection holds.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tonic::Status;

use super::registry::Registry;

/// The limit of a connection: with this many bytes of unread answers, it gets no further answer.
pub(crate) const CONNECTION_BYTES: usize = 4 << 20;
/// How long a call or a part of an answer waits for a client that does not read.
pub(crate) const UNREAD_MAX: Duration = Duration::from_secs(30);

/// The account of the bytes that a connection holds. Clones share one account.
#[derive(Debug, Clone)]
pub(crate) struct Account(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// In bytes.
    held: watch::Sender<usize>,
    turn: Arc<Semaphore>,
    /// For work beside the engine.
    beside: Arc<Semaphore>,
    /// For answers that wait for no other call, except of their own kind.
    status: Arc<Semaphore>,
    /// The number of calls that the controller works on.
    working: AtomicUsize,
    registry: Weak<Registry>,
}

/// A call that the controller works on, until it is dropped.
#[derive(Debug)]
pub(crate) struct Working(Account);

/// Bytes on an account. Dropping it removes them.
#[derive(Debug)]
pub(crate) struct Charge {
    account: Account,
    bytes: usize,
}

impl Account {
    /// An account that counts towards the limit of this registry.
    pub(super) fn new(registry: Weak<Registry>) -> Self {
        let one = || Arc::new(Semaphore::new(1));
        let held = watch::Sender::new(0);
        let working = AtomicUsize::new(0);
        Account(Arc::new(Inner { held, turn: one(), beside: one(), status: one(), working, registry }))
    }

    /// An account of no connection.
    pub(crate) fn detached() -> Self {
        Account::new(Weak::new())
    }

    /// Puts bytes on the account. If all accounts together hold too much, a connection is closed.
    pub(crate) fn charge(&self, bytes: usize) -> Charge {
        self.0.held.send_modify(|held| *held += bytes);
        if let Some(registry) = self.0.registry.upgrade() {
            registry.hold(bytes);
            registry.close_while_too_much_is_held();
        }
        Charge { account: self.clone(), bytes }
    }

    /// Begins to work on a call.
    pub(crate) fn work(&self) -> Working {
        self.0.working.fetch_add(1, Ordering::Relaxed);
        Working(self.clone())
    }

    /// Whether the controller works on a call.
    pub(crate) fn is_working(&self) -> bool {
        self.0.working.load(Ordering::Relaxed) > 0
    }

    /// The bytes on the account.
    pub(crate) fn held(&self) -> usize {
        *self.0.held.borrow()
    }

    /// Waits until the account is below its limit.
    pub(crate) async fn room(&self) -> Result<(), Status> {
        let mut held = self.0.held.subscribe();
        let room = held.wait_for(|held| *held < CONNECTION_BYTES);
        match tokio::time::timeout(UNREAD_MAX, room).await {
            Ok(_) => Ok(()),
            Err(_) => Err(Status::resource_exhausted(format!(
                "this connection has {} bytes of answers that the client has not read for {UNREAD_MAX:?}; read them first",
                self.held()
            ))),
        }
    }

    /// Waits for room, one call at a time: other calls wait until the permit is dropped.
    pub(crate) async fn turn(&self) -> Result<OwnedSemaphorePermit, Status> {
        let turn = self.0.turn.clone().acquire_owned().await;
        let turn = turn.map_err(|error| Status::internal(error.to_string()))?;
        self.room().await?;
        Ok(turn)
    }

    /// Waits for room, and for other calls for the status until their answers are on the account: together they would exceed
    /// the limit.
    pub(crate) async fn status_turn(&self) -> Result<OwnedSemaphorePermit, Status> {
        let turn = self.0.status.clone().acquire_owned().await;
        let turn = turn.map_err(|error| Status::internal(error.to_string()))?;
        self.room().await?;
        Ok(turn)
    }

    /// Waits until no other call of the connection has work beside the engine, and then for room.
    pub(crate) async fn place_beside(&self) -> Result<OwnedSemaphorePermit, Status> {
        let place = self.0.beside.clone().acquire_owned().await;
        let place = place.map_err(|error| Status::internal(error.to_string()))?;
        self.room().await?;
        Ok(place)
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.0.0.working.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if let Some(registry) = self.account.0.registry.upgrade() {
            registry.release(self.bytes);
        }
        self.account.0.held.send_modify(|held| *held -= self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Time is virtual here: it passes when nothing can run.
    #[tokio::test(start_paused = true)]
    async fn one_call_at_a_time_waits_for_room() {
        let account = Account::detached();
        let first = account.turn().await.unwrap();
        let second = tokio::spawn({
            let account = account.clone();
            async move { account.turn().await.map(drop) }
        });
        let charge = account.charge(CONNECTION_BYTES);
        drop(first);
        tokio::time::sleep(UNREAD_MAX / 2).await;
        assert!(!second.is_finished());
        drop(charge);
        second.await.unwrap().unwrap();
        assert_eq!(account.held(), 0);

        let _charge = account.charge(CONNECTION_BYTES);
        let error = account.turn().await.unwrap_err();
        assert_eq!(error.code(), tonic::Code::ResourceExhausted);
        assert!(error.message().contains("4194304 bytes of answers"), "{error}");
    }
}
