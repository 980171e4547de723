//! The versions of the rules that ran one after the other, as the records of a journal tell.

use std::collections::BTreeMap;
use std::sync::Arc;

use nlog_data::Value;
use nlog_data::function::hash_values;
use serde::{Deserialize, Serialize};

/// The most versions that are kept, each with its text.
pub const VERSIONS_MAX: usize = 8;

/// The text of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RulesText {
    /// What it was read from, as the configuration names it.
    pub packages: Vec<String>,
    /// Its files, by name.
    pub files: BTreeMap<Arc<str>, String>,
}

impl RulesText {
    /// A hash of the files and their names, which tells versions apart.
    pub fn fingerprint(&self) -> String {
        let texts = self.files.iter().flat_map(|(name, text)| [&**name, text.as_str()]);
        let texts: Vec<Value> = texts.map(|text| Value::String(text.into())).collect();
        format!("{:016x}", hash_values(&texts))
    }
}

/// A change of the rules while the controller runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RulesChange {
    /// The rules from now on.
    pub text: RulesText,
    /// The fingerprint of the rules that the configuration names, in whose place these run; none if they are these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instead_of: Option<String>,
    /// The rules before, unless an earlier record has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<RulesText>,
}

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
    /// One version.
    pub(crate) fn of(version: RulesVersion) -> Self {
        RulesVersions(vec![version])
    }

    /// Follows the change that a record has, if it has one: its transaction, its time and who asked for it.
    pub(crate) fn follow(&mut self, change: Option<&RulesChange>, txn: u64, at: &str, by: &str) {
        let Some(RulesChange { text, instead_of, before }) = change else { return };
        if let Some(before) = before {
            let (at, by, instead_of) = (String::new(), String::new(), None);
            self.0.push(RulesVersion { txn: 0, at, by, instead_of, text: Arc::new(before.clone()) });
        }
        let (text, instead_of) = (Arc::new(text.clone()), instead_of.clone());
        let is_same = |last: &&mut RulesVersion| last.text.fingerprint() == text.fingerprint();
        if let Some(last) = self.0.last_mut().filter(is_same) {
            // It runs on; the configuration names it now.
            (last.text, last.instead_of) = (text, instead_of);
            return;
        }
        let (at, by) = (at.to_owned(), by.to_owned());
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

    /// The same with each version replaced.
    pub(crate) fn map(&self, each: impl FnMut(&RulesVersion) -> RulesVersion) -> Self {
        RulesVersions(self.0.iter().map(each).collect())
    }

    /// Whether the rules have never changed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
