//! The comparison of the replica with the database. It finds notifications that were lost on the way, which nothing else shows.
//!
//! A server sends the changes that a client monitors before it answers the client's next request, so the answer describes what the
//! replica should have. A difference counts only if a second answer shows the same one: then not even a server that is less orderly
//! has it on the way.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use tokio::sync::oneshot;
use uuid::Uuid;

use super::{Caller, Command, Served, Session, What};
use crate::connection::{RpcMessage, SessionError};
use crate::replica::{Change, Replica, ReplicaError};
use crate::row::Row;
use crate::transact::{TransactError, error_parts};

type Compared = Result<Vec<Change>, TransactError>;

/// A comparison that has asked once or twice.
#[derive(Debug)]
pub(super) struct Comparison {
    /// What the first answer showed.
    suspected: Option<BTreeMap<(Arc<str>, Uuid), Change>>,
    sender: oneshot::Sender<Compared>,
}

impl Comparison {
    pub(super) fn new() -> (Comparison, oneshot::Receiver<Compared>) {
        let (sender, receiver) = oneshot::channel();
        (Comparison { suspected: None, sender }, receiver)
    }

    pub(super) fn fail(self, error: TransactError) {
        self.end(Err(error));
    }

    fn end(self, compared: Compared) {
        // The caller may have gone away.
        let _ = self.sender.send(compared);
    }
}

impl Session {
    /// Takes an answer of the database: asks once more if it differs from the replica, and then applies the difference.
    pub(super) fn compare(
        &mut self,
        served: &mut Served,
        mut comparison: Comparison,
        answer: &RpcMessage,
    ) -> Result<(), SessionError> {
        if let Some(error) = answer.error() {
            let (error, details) = error_parts(error);
            comparison.fail(TransactError::Request { error, details });
            return Ok(());
        }
        let found = match self.difference(served, answer.result()) {
            Ok(found) => found,
            Err(error) => {
                comparison.fail(TransactError::Reply { problem: error.to_string() });
                return Err(error.into());
            }
        };
        let Some(suspected) = comparison.suspected.take() else {
            if found.is_empty() {
                comparison.end(Ok(found));
                return Ok(());
            }
            let key = |change: &Change| (change.table.clone(), change.uuid);
            comparison.suspected = Some(found.into_iter().map(|change| (key(&change), change)).collect());
            return self.ask(served, Command { what: What::Select, caller: Caller::Comparison(comparison) });
        };
        let is_same = |change: &Change| {
            suspected.get(&(change.table.clone(), change.uuid)).is_some_and(|same| same == change)
        };
        let lost: Vec<Change> = found.into_iter().filter(is_same).collect();
        if !lost.is_empty() {
            let held: usize = lost.iter().filter_map(|change| change.new.as_ref()).map(Row::memory).sum();
            self.held.add(held).map_err(ReplicaError::from)?;
            self.apply(lost.clone())?;
        }
        comparison.end(Ok(lost));
        Ok(())
    }

    /// The changes from the replica to what the database has answered.
    fn difference(&self, served: &Served, results: &str) -> Result<Vec<Change>, ReplicaError> {
        let mut held = self.held.account().charge();
        let there = Replica::selected(&served.layout, results, &mut held)?;
        Ok(self.replica.read().unwrap_or_else(PoisonError::into_inner).difference(&there))
    }
}
