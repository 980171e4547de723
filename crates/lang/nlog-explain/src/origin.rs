//! Where rows of input tables come from.

use std::fmt;

use nlog_data::{Row, TableId};
use serde_json::{Value as Json, json};

/// The transaction that inserted a row.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// Its number.
    pub transaction: u64,
    /// The request behind it, if it is known.
    pub call: Option<Call>,
}

/// The request that a controller made a transaction of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call {
    /// The requester: `api`, a name that a client gave, `switch hv1`.
    pub by: String,
    /// When the controller accepted it: RFC 3339, UTC.
    pub at: String,
}

/// An answer that shows rows of input tables.
pub trait ShowsInputs {
    /// Calls this for each of them, with its origin as far as it is known, which may be completed.
    fn for_each_input(&mut self, visit: &mut dyn FnMut(TableId, &Row, &mut Option<Origin>));
}

impl Origin {
    /// A transaction of which only the number is known.
    pub fn numbered(transaction: u64) -> Origin {
        Origin { transaction, call: None }
    }

    /// Adds this to an object for programs, as `key`, `by` and `at`.
    pub fn add_to(origin: Option<&Origin>, key: &str, object: &mut Json) {
        object[key] = json!(origin.map(|origin| origin.transaction));
        if let Some(call) = origin.and_then(|origin| origin.call.as_ref()) {
            object["by"] = json!(call.by);
            object["at"] = json!(call.at);
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "transaction {}", self.transaction)?;
        match &self.call {
            // A client chooses its name, which must not reach the terminal as it is.
            Some(Call { by, at }) => write!(f, ", by {} at {}", by.escape_debug(), at.escape_debug()),
            None => Ok(()),
        }
    }
}
