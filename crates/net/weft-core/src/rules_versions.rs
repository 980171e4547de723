//! The versions of the rules that ran one after the other, as the records of a journal tell.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::record::{Record, RulesChange, RulesText};

/// The most versions that are kept, each with its text.
pub const VERSIONS_MAX: usize = 8;

/// A version of the rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RulesVersion {
    /// The transaction from which on it ran; 0 if it ran before the rules changed for the first time.
    pub txn: u64,
    /// When that was: RFC 3339, UTC. Empty if `txn` is 0.
    pub at: String,
    /// Who asked for it. Empty if `txn` is 0.
    pub by: String,
    /// The fingerprint of the configured rules in whose place it runs; none if it is what the configuration names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instead_of: Option<String>,
    /// Its text.
    pub text: Arc<RulesText>,
}

/// The last [`VERSIONS_MAX`] versions of the rules, the oldest first. The last one runs. Empty while the rules have never changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RulesVersions(Vec<RulesVersion>);

impl RulesVersions {
    /// Follows a record.
    pub(crate) fn follow<R, O>(&mut self, record: &Record<R, O>) {
        if let Some(base) = &record.base {
            self.0.clone_from(&base.versions.0);
        }
        let Some(change) = &record.rules else { return };
        let RulesChange { text, instead_of, before } = &**change;
        if let Some(before) = before {
            let (at, by, instead_of) = (String::new(), String::new(), None);
            self.0.push(RulesVersion { txn: 0, at, by, instead_of, text: Arc::new(before.clone()) });
        }
        let (text, instead_of) = (Arc::new(text.clone()), instead_of.clone());
        let (txn, at, by) = (record.txn, record.at.clone(), record.by.clone());
        self.0.push(RulesVersion { txn, at, by, instead_of, text });
        let beyond = self.0.len().saturating_sub(VERSIONS_MAX);
        self.0.drain(..beyond);
    }

    /// The one that runs; none if the rules have never changed.
    pub fn last(&self) -> Option<&RulesVersion> {
        self.0.last()
    }

    /// All that are kept, the oldest first.
    pub fn all(&self) -> &[RulesVersion] {
        &self.0
    }

    /// Whether the rules have never changed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
