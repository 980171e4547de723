//! Locks of the server (RFC 7047, sections 4.1.8 to 4.1.10, and `steal` of `ovsdb-server(7)`), by which one of several
//! clients keeps the others from writing.

use std::sync::{Arc, PoisonError, RwLock};

use serde_json::json;

use crate::session::Client;
use crate::transact::{Operation, Outcomes, TransactError};

/// The lock that transactions which write assert; shared between the clones of a client.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asserted(Arc<RwLock<Option<Arc<str>>>>);

impl Asserted {
    /// The operations to send in place of these, if an assertion precedes them.
    pub(crate) fn guarded(&self, operations: &[Operation]) -> Option<Vec<Operation>> {
        let lock = self.0.read().unwrap_or_else(PoisonError::into_inner).clone()?;
        let assert = Operation::Assert { lock: lock.to_string() };
        let is_needed = operations.iter().any(Operation::writes);
        is_needed.then(|| std::iter::once(assert).chain(operations.iter().cloned()).collect())
    }
}

/// The result of the operations without the assertion that preceded them.
pub(crate) fn without_assertion(result: Result<Outcomes, TransactError>) -> Result<Outcomes, TransactError> {
    match result {
        Ok(outcomes) => Ok(Outcomes(outcomes.0.into_iter().skip(1).collect())),
        Err(TransactError::Operation { index: 0, error, details, .. }) if error == NOT_OWNER => {
            Err(TransactError::NotOwner { details })
        }
        Err(TransactError::Operation { index, operation, error, details }) => {
            Err(TransactError::Operation { index: index.saturating_sub(1), operation, error, details })
        }
        Err(error) => Err(error),
    }
}

/// The error of an assertion that does not hold (RFC 7047, section 5.2.10).
const NOT_OWNER: &str = "not owner";

impl Client {
    /// Takes a lock away from whoever holds it, and asserts it in every later transaction that writes. The server releases
    /// it when the connection ends; then transactions fail with [`TransactError::NotOwner`] until the lock is taken again.
    ///
    /// # Errors
    /// There is no connection, or the server has no locks.
    pub async fn steal_lock(&self, lock: &str) -> Result<(), TransactError> {
        match self.call("steal", json!([lock])).await {
            // A client whose lock was stolen still waits for it, and must give that up before it takes the lock again.
            Err(TransactError::Request { .. }) => {
                self.call("unlock", json!([lock])).await?;
                self.call("steal", json!([lock])).await?
            }
            other => other?,
        };
        *self.asserted().0.write().unwrap_or_else(PoisonError::into_inner) = Some(lock.into());
        Ok(())
    }
}
