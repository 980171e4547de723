//! Work for answers beside the engine thread and the runtime's threads: explanations, traces, trials.
//!
//! Such work takes long, so few of it is done at a time, and whoever waits for his turn holds nothing that others wait for. It ends
//! early when nobody waits for its result any more, or at a deadline: it looks at a [`Cancel`] now and then.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nlog::Program;
use nlog_data::Cancel;
use nlog_explain::ShowsInputs;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;
use tracing::warn;

use crate::journal::add_origins;
use crate::listener::Account;

/// The most combinations of values that are tried for an answer: a question about all rows of a large table would take the machine
/// from the network.
pub(crate) const COMBINATIONS: u64 = 5_000_000;

/// The work done at a time. The engine and the switches need CPU time too.
const PLACES: usize = 1;
/// The longest that one piece of work may take. Bounds on its size come first, so a slow machine meets this one alone.
const LONGEST: Duration = Duration::from_secs(20);

/// The places where such work is done. Clones share them.
#[derive(Clone)]
pub(crate) struct Aside(Arc<Semaphore>);

/// A place, for one piece of work.
pub(crate) struct Place {
    _of_connection: OwnedSemaphorePermit,
    of_all: OwnedSemaphorePermit,
}

impl Default for Aside {
    fn default() -> Self {
        Aside(Arc::new(Semaphore::new(PLACES)))
    }
}

impl Aside {
    /// Waits for a place. A connection waits for one at a time, so that connections take turns.
    pub(crate) async fn place(&self, account: &Account) -> Result<Place, Status> {
        let of_connection = account.place_beside().await?;
        let of_all = self.0.clone().acquire_owned().await;
        let of_all = of_all.map_err(|error| Status::internal(error.to_string()))?;
        Ok(Place { _of_connection: of_connection, of_all })
    }
}

impl Place {
    /// Does the work, which is cancelled when this future is dropped or the time is over. The place is taken until the work has
    /// really ended; that of the connection until its answer is there.
    pub(crate) async fn work<T: Send + 'static>(
        self,
        work: impl FnOnce(&Cancel) -> Result<T, Status> + Send + 'static,
    ) -> Result<T, Status> {
        self.work_within(LONGEST, work).await
    }

    /// The same, with another deadline.
    pub(crate) async fn work_within<T: Send + 'static>(
        self,
        longest: Duration,
        work: impl FnOnce(&Cancel) -> Result<T, Status> + Send + 'static,
    ) -> Result<T, Status> {
        let Place { _of_connection, of_all } = self;
        let cancel = Cancel::default();
        let _gone = CancelOnDrop(cancel.clone());
        let done = tokio::task::spawn_blocking(move || {
            let _of_all = of_all;
            work(&cancel)
        });
        match tokio::time::timeout(longest, done).await {
            Ok(done) => done.map_err(|error| Status::internal(error.to_string()))?,
            Err(_) => Err(Status::deadline_exceeded(format!(
                "the answer takes longer than {longest:?}, too long for a running controller: ask about less, or name a program and the \
                 journal: builtin -i STATE/journal.jsonl"
            ))),
        }
    }
}

/// Says of the rows of an answer who asked for them, if the journal can be read.
pub(crate) fn asked_for(answer: &mut impl ShowsInputs, program: &Program, journal: &Path) {
    if let Err(error) = add_origins(answer, &program.schema, journal) {
        warn!(journal = %journal.display(), %error, "the journal cannot be read, so answers do not say which transactions are behind them");
    }
}

/// The refusal of a question about a packet that would need too much work.
pub(crate) fn too_long() -> Status {
    Status::resource_exhausted(
        "the way of this packet takes too long to explain for a running controller: ask its journal, with weft trace builtin -i \
         STATE/journal.jsonl PORT",
    )
}

/// Cancels work when it is dropped, as with the future that waits for the work.
pub(crate) struct CancelOnDrop(pub(crate) Cancel);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Work that ends when it is cancelled, and says so.
    fn until_cancelled(
        begun: mpsc::Sender<()>,
        ended: mpsc::Sender<()>,
    ) -> impl FnOnce(&Cancel) -> Result<(), Status> {
        move |cancel| {
            begun.send(()).unwrap();
            while !cancel.is_cancelled() {
                std::thread::yield_now();
            }
            ended.send(()).unwrap();
            Ok(())
        }
    }

    #[tokio::test]
    async fn d3_work_ends_when_nobody_waits_for_it_and_the_next_gets_its_place() {
        let (aside, account) = (Aside::default(), Account::detached());
        let ((begin, begun), (end, ended)) = (mpsc::channel(), mpsc::channel());
        let place = aside.place(&account).await.unwrap();
        let call = tokio::spawn(place.work(until_cancelled(begin, end)));
        tokio::task::spawn_blocking(move || begun.recv().unwrap()).await.unwrap();
        call.abort();
        assert!(call.await.unwrap_err().is_cancelled());
        tokio::task::spawn_blocking(move || ended.recv().unwrap()).await.unwrap();
        let place = aside.place(&account).await.unwrap();
        assert_eq!(place.work(|_| Ok(7)).await.unwrap(), 7);
    }

    /// Time is virtual here: it passes when nothing can run, but work in threads is not seen.
    #[tokio::test(start_paused = true)]
    async fn d3_work_ends_at_its_deadline() {
        let (aside, account) = (Aside::default(), Account::detached());
        let ((begin, _begun), (end, ended)) = (mpsc::channel(), mpsc::channel());
        let place = aside.place(&account).await.unwrap();
        let call = tokio::spawn(place.work(until_cancelled(begin, end)));
        tokio::task::yield_now().await;
        tokio::time::advance(LONGEST).await;
        assert_eq!(call.await.unwrap().unwrap_err().code(), tonic::Code::DeadlineExceeded);
        ended.recv().unwrap();
    }
}
