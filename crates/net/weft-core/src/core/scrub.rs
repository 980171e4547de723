//! Compares the running state with its inputs, in idle time, and mends what differs.
//!
//! The engine compares its stored rows a part at a time. If some do not follow from the inputs, all of them are derived again, and the
//! desired states of switches with them. The network then has what a start from the journal would give it.

use std::collections::BTreeSet;
use std::sync::Arc;

use nlog_data::Scrubbed;

use super::{Core, CoreError, DesiredByNode, Problem, ProblemChanges};
use crate::derived::{Derived, RulesOutput, decode_output};

/// The outcome of a part of a scrub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scrub {
    /// All has been compared. The next part begins anew.
    Whole,
    /// There is more to compare.
    More,
    /// Some rows did not follow from the inputs.
    Mended(Mended),
}

/// What a scrub found and put right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mended {
    /// The table whose rows differed, and by how many.
    pub what: String,
    /// The transport nodes whose switches had another desired state.
    pub nodes: BTreeSet<String>,
    /// The problems that came and went with it.
    pub problems: ProblemChanges,
}

impl Core {
    /// Compares a further part of the running state with its inputs, and mends it if it differs. To be called while no request
    /// waits.
    ///
    /// # Errors
    /// The engine failed, or cannot derive the rows again. The core must not be used any more.
    pub fn scrub(&mut self) -> Result<Scrub, CoreError> {
        let failed = |error: nlog_data::CommitError| CoreError::Failed(error.to_string());
        match self.evaluator.scrub().map_err(failed)? {
            Scrubbed::Whole => Ok(Scrub::Whole),
            Scrubbed::More => Ok(Scrub::More),
            Scrubbed::Differs(what) => {
                let before: BTreeSet<Arc<Problem>> = self.problems().cloned().collect();
                let nodes = self.derive_anew()?;
                let after: BTreeSet<Arc<Problem>> = self.problems().cloned().collect();
                let new = after.difference(&before).cloned().collect();
                let gone = before.difference(&after).cloned().collect();
                Ok(Scrub::Mended(Mended { what, nodes, problems: ProblemChanges { new, gone } }))
            }
        }
    }

    /// Derives all that the rules say again. Returns the transport nodes whose desired states were others before.
    fn derive_anew(&mut self) -> Result<BTreeSet<String>, CoreError> {
        let committed = self.evaluator.derive_anew().map_err(|error| CoreError::Failed(error.to_string()))?;
        let mut derived = Derived::default();
        let RulesOutput { changes, .. } =
            decode_output(&committed, &self.rules, &mut derived, &DesiredByNode::new())
                .map_err(|error| CoreError::Failed(format!("the rows derived again are refused: {error}")))?;
        let before = std::mem::take(&mut self.desired);
        self.derived = derived;
        self.change_desired(&changes);
        let state =
            |states: &DesiredByNode, node: &String| states.get(node).map(|desired| desired.state.clone());
        let nodes: BTreeSet<&String> = before.keys().chain(self.desired.keys()).collect();
        let differ = nodes.into_iter().filter(|node| state(&before, node) != state(&self.desired, node));
        Ok(differ.cloned().collect())
    }
}
