//! The faults of switches that are logged once they have lasted.

use std::collections::BTreeSet;

use switch_model::{Channel, Problem};
use tracing::warn;

use super::Fleet;
use crate::lasting::LINES_MAX;
use crate::levels::Moment;

/// A fault of a switch.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SwitchFault {
    node: String,
    what: What,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// A connection is not there.
    Connection(Channel),
    /// The switch reports a problem.
    Problem(String),
}

impl SwitchFault {
    pub(super) fn connection(node: &str, channel: Channel) -> Self {
        SwitchFault { node: node.to_owned(), what: What::Connection(channel) }
    }

    pub(super) fn problem(node: &str, problem: &Problem) -> Self {
        SwitchFault { node: node.to_owned(), what: What::Problem(problem.to_string()) }
    }

    pub(super) fn is_problem_of(&self, node: &str) -> bool {
        self.node == node && matches!(self.what, What::Problem(_))
    }
}

impl Fleet {
    /// When a fault is to be logged, if it lasts.
    pub(crate) fn logs_at(&self) -> Option<Moment> {
        self.faults.next()
    }

    /// Logs the faults that have lasted.
    pub(crate) fn log_lasting(&mut self) {
        let due = self.faults.due(self.now());
        for SwitchFault { node, what } in due.iter().take(LINES_MAX) {
            match what {
                What::Problem(problem) => warn!(switch = node, problem, "switch reports a problem"),
                What::Connection(channel) => {
                    let faults = self.switches.get(node).map(|switch| &switch.faults.connection);
                    let why = faults.and_then(|faults| faults.get(channel)).map_or("", String::as_str);
                    warn!(switch = node, %channel, why, "switch disconnected");
                }
            }
        }
        if let Some(more) = due.len().checked_sub(LINES_MAX).filter(|more| *more > 0) {
            warn!(more, "switches have more faults; weft status lists all");
        }
    }

    /// A switch is gone, with its faults.
    pub(super) fn forget_faults(&mut self, node: &str) {
        let now = self.now();
        self.faults.become_these(|fault| fault.node == node, &BTreeSet::new(), now);
    }
}
