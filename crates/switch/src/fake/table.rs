//! A flow table: what additions and deletions do to it, alone or in a bundle.

use std::collections::BTreeMap;

use openflow_rs::{FlowCommand, FlowMod};

use super::Refuse;
use crate::flow::{Flow, FlowKey};

/// How a flow is refused: error type and code of OpenFlow, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// `OFPET_*`.
    pub error_type: u16,
    /// Depends on the type.
    pub code: u16,
    /// Found only when the bundle is committed, as with an unknown group; else when the flow is added to it.
    pub at_commit: bool,
}

impl Refusal {
    /// `OFPBAC_BAD_OUT_PORT`, found when the flow is added.
    pub const BAD_OUT_PORT: Refusal = Refusal { error_type: 2, code: 4, at_commit: false };
    /// `OFPBAC_BAD_OUT_GROUP`, found when the bundle is committed.
    pub const BAD_OUT_GROUP: Refusal = Refusal { error_type: 2, code: 9, at_commit: true };
    /// `OFPFMFC_BAD_COMMAND`: the fake does not know the command.
    const BAD_COMMAND: Refusal = Refusal { error_type: 5, code: 6, at_commit: false };
    /// `OFPBRC_BAD_LEN`.
    pub(super) const BAD_LEN: Refusal = Refusal { error_type: 1, code: 6, at_commit: false };
}

/// At most one flow for each table, priority and match.
#[derive(Debug, Default, Clone)]
pub(crate) struct Table {
    pub(crate) flows: BTreeMap<FlowKey, Flow>,
}

impl Table {
    /// What one flow-mod is about: its key, and the flow it puts there; `None` deletes.
    pub(super) fn target(flow_mod: &FlowMod) -> Result<(FlowKey, Option<Flow>), Refusal> {
        let entry = &flow_mod.entry;
        let key = FlowKey::new(entry.table, entry.priority, &entry.matches).map_err(|_| Refusal::BAD_LEN)?;
        match flow_mod.command {
            FlowCommand::Add => {
                let flow = Flow::new(entry.cookie, &entry.actions).map_err(|_| Refusal::BAD_LEN)?;
                Ok((key, Some(flow)))
            }
            FlowCommand::DeleteStrict if flow_mod.cookie_mask == 0 => Ok((key, None)),
            _ => Err(Refusal::BAD_COMMAND),
        }
    }

    /// Applies one flow-mod: an addition replaces the flow under its key, a strict deletion of nothing is no error.
    pub(crate) fn apply(&mut self, key: FlowKey, flow: Option<Flow>) {
        match flow {
            Some(flow) => self.flows.insert(key, flow),
            None => self.flows.remove(&key),
        };
    }

    /// Whether the flow-mod is refused at this time.
    pub(super) fn refusal(
        refuse: Option<&Refuse>,
        key: &FlowKey,
        flow: Option<&Flow>,
        commit: bool,
    ) -> Option<Refusal> {
        refuse.and_then(|refuse| refuse(key, flow)).filter(|refusal| refusal.at_commit == commit)
    }
}
