//! Reasons for refusing a request, and their messages.

use std::sync::Arc;

use nlog_data::{Stopped, TransactionError};
use objects::ObjectError;

use crate::harm::{Harm, problems_text};
use crate::object_status::Problem;

/// Why a request was refused. A refused request has no effect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Some objects are invalid.
    #[error("{}", faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Objects {
        /// Every fault, in the order of the request.
        faults: Vec<ObjectError>,
    },
    /// The rules refuse the resulting transaction.
    #[error(transparent)]
    Rules(TransactionError),
    /// The request is too much work, or nobody waits for its result any more.
    #[error("{}", stopped(.0))]
    Stopped(Stopped),
    /// The request is strict and would bring these problems.
    #[error("{}", problems_text(.0))]
    Problems(Vec<Arc<Problem>>),
    /// The request is careful and would do this.
    #[error("{0}")]
    Unconfirmed(Box<Harm>),
    /// The key of the request is that of another one.
    #[error(
        "the key `{key}` is that of another request, transaction {txn}; give each request a key of its own"
    )]
    KeyReused {
        /// The key.
        key: String,
        /// The transaction of the other request.
        txn: u64,
    },
    /// Other rules cannot take the place of those that run.
    #[error("{0}")]
    NewRules(String),
    /// The engine cannot be edited to other rules; another one has to take its place.
    #[error("the new rules need another engine")]
    NotByEdit,
    /// The rules changed after the objects of the request were read.
    #[error("the rules changed while the request was read; send it again")]
    RulesChanged,
    /// The request was valid, but could not be written to the journal.
    #[error("journal: {0}")]
    Journal(String),
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CoreError {
    /// The request is refused. Further requests are possible.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The engine failed. The core must not be used any more.
    #[error("the engine failed: {0}")]
    Failed(String),
}

/// The message for the client of a request that was stopped.
fn stopped(stopped: &Stopped) -> String {
    match stopped {
        Stopped::Cancelled => stopped.to_string(),
        Stopped::TooMuch(_) => format!(
            "{stopped}, too much for what the request gives; nothing was applied. Apply it in parts, or let fewer objects meet in \
             this rule; `rule_rows` in the configuration of the controller raises the limit"
        ),
    }
}
