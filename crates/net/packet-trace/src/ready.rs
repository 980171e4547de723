//! Flow tables that somebody holds ready, such as a running controller: they need not be derived.

use std::collections::BTreeMap;

use nlog_data::{RuleId, TableDelta, TableId};
use openflow_rs::FlowEntry;

/// The flow tables of hosts. A [`Network`](crate::Network) over them sends packets through these and derives only what explains them.
pub trait HostTables {
    /// The flows of a host.
    ///
    /// # Errors
    /// A flow cannot be read.
    fn flows(&self, host: &str) -> Result<Vec<FlowEntry>, String>;

    /// What else the switch of a host is to do with packets, as inserted rows of the output tables for switches. A host without any
    /// has no rows.
    ///
    /// # Errors
    /// A group cannot be read.
    fn others(&self, host: &str) -> Result<BTreeMap<TableId, TableDelta>, String>;

    /// The rules behind a flow of a host; none if the host is not to have it.
    fn rules(&self, host: &str, flow: &FlowEntry) -> Option<FlowRules>;
}

/// The rules behind a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowRules {
    /// The rule that says the flow.
    pub said: RuleId,
    /// The rule that places it on the host. It is the same one if no rule says it without a host.
    pub placed: RuleId,
}
