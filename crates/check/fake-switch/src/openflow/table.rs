//! Tables of flows, groups and meters, and the effect of changes on them.

use std::collections::BTreeMap;

use openflow_rs::flow::{ALL_TABLES, ANY_GROUP};
use openflow_rs::message::TlvMapping;
use openflow_rs::meter::MeterCommand;
use openflow_rs::{
    Bucket, FlowCommand, FlowMod, GroupCommand, GroupEntry, GroupKind, GroupMod, MeterEntry, MeterMod, PortNo,
};
use switch_model::{Flow, FlowKey};

use super::Refuse;

/// The refusal of a flow-mod or group-mod: OpenFlow's error type and code, and the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// `OFPET_*`.
    pub error_type: u16,
    /// The code within the type.
    pub code: u16,
    /// Whether the error appears when the bundle is committed, as for an unknown group, or already when the message
    /// is added.
    pub at_commit: bool,
}

impl Refusal {
    /// `OFPBAC_BAD_OUT_PORT`, found when the flow is added.
    pub const BAD_OUT_PORT: Refusal = Refusal { error_type: 2, code: 4, at_commit: false };
    /// `OFPBAC_BAD_OUT_GROUP`, found when the bundle is committed.
    pub const BAD_OUT_GROUP: Refusal = Refusal { error_type: 2, code: 9, at_commit: true };
    /// `OFPFMFC_BAD_COMMAND`: the fake does not know the command.
    const BAD_COMMAND: Refusal = Refusal { error_type: 5, code: 6, at_commit: false };
    /// `OFPGMFC_GROUP_EXISTS`.
    const GROUP_EXISTS: Refusal = Refusal { error_type: 6, code: 0, at_commit: true };
    /// `OFPGMFC_INVALID_GROUP`, found when the change is added.
    const INVALID_GROUP: Refusal = Refusal { error_type: 6, code: 1, at_commit: false };
    /// `OFPGMFC_WATCH_UNSUPPORTED`, likewise.
    const WATCH_UNSUPPORTED: Refusal = Refusal { error_type: 6, code: 6, at_commit: false };
    /// `OFPBPC_BAD_VALUE`, likewise.
    const BAD_PROPERTY: Refusal = Refusal { error_type: 14, code: 2, at_commit: false };
    /// `OFPGMFC_UNKNOWN_GROUP`.
    const UNKNOWN_GROUP: Refusal = Refusal { error_type: 6, code: 8, at_commit: true };
    /// `OFPGMFC_UNKNOWN_BUCKET`.
    const UNKNOWN_BUCKET: Refusal = Refusal { error_type: 6, code: 15, at_commit: true };
    /// `OFPGMFC_BUCKET_EXISTS`.
    const BUCKET_EXISTS: Refusal = Refusal { error_type: 6, code: 16, at_commit: true };
    /// `OFPMMFC_METER_EXISTS`.
    const METER_EXISTS: Refusal = Refusal { error_type: 12, code: 1, at_commit: false };
    /// `OFPMMFC_INVALID_METER`: the meter of a flow does not exist, which is found when the flow is added.
    pub(super) const INVALID_METER: Refusal = Refusal { error_type: 12, code: 2, at_commit: false };
    /// `OFPMMFC_UNKNOWN_METER`.
    const UNKNOWN_METER: Refusal = Refusal { error_type: 12, code: 3, at_commit: false };
    /// `OFPMMFC_OUT_OF_METERS`.
    pub const OUT_OF_METERS: Refusal = Refusal { error_type: 12, code: 10, at_commit: false };
    /// `OFPBFC_MSG_UNSUP`.
    pub(super) const NOT_IN_BUNDLE: Refusal = Refusal { error_type: 17, code: 10, at_commit: false };
    /// `OFPRRFC_STALE`.
    pub(super) const STALE_ROLE: Refusal = Refusal { error_type: 11, code: 0, at_commit: false };
    /// `OFPBRC_BAD_MULTIPART`: the fake does not answer such a request.
    pub(super) const BAD_MULTIPART: Refusal = Refusal { error_type: 1, code: 2, at_commit: false };
    /// `OFPBRC_IS_SLAVE`.
    pub(super) const IS_SECONDARY: Refusal = Refusal { error_type: 1, code: 10, at_commit: false };
    /// `OFPBRC_BAD_LEN`.
    pub(super) const BAD_LEN: Refusal = Refusal { error_type: 1, code: 6, at_commit: false };
}

/// The contents of a switch: at most one flow for each table, priority and match, and one group for each number. Tests of drivers use
/// it alone too.
#[derive(Debug, Default, Clone)]
pub struct Table {
    /// The flows.
    pub flows: BTreeMap<FlowKey, Flow>,
    /// The groups, by number.
    pub groups: BTreeMap<u32, GroupEntry>,
    /// The meters, by number.
    pub meters: BTreeMap<u32, MeterEntry>,
    /// The tunnel options that are mapped to fields.
    pub options: Vec<TlvMapping>,
}

impl Table {
    /// The key of a flow-mod, and the flow to install; `None` deletes.
    pub fn target(flow_mod: &FlowMod) -> Result<(FlowKey, Option<Flow>), Refusal> {
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

    /// Whether a flow-mod changes or deletes all flows that it finds.
    pub fn is_search(flow_mod: &FlowMod) -> bool {
        match flow_mod.command {
            FlowCommand::Add => false,
            FlowCommand::DeleteStrict => flow_mod.cookie_mask != 0,
            FlowCommand::Delete | FlowCommand::Modify | FlowCommand::ModifyStrict => true,
        }
    }

    /// The flows that such a flow-mod finds, each with what it becomes.
    pub(super) fn found(&self, flow_mod: &FlowMod) -> Result<Vec<(FlowKey, Option<Flow>)>, Refusal> {
        let FlowMod { command, entry, cookie_mask, out_port, out_group, .. } = flow_mod;
        // Nobody who uses the fake looks for flows by what they send packets to.
        if *out_port != PortNo::ANY || *out_group != ANY_GROUP {
            return Err(Refusal::BAD_COMMAND);
        }
        let strict = matches!(command, FlowCommand::DeleteStrict | FlowCommand::ModifyStrict);
        let exact =
            FlowKey::new(entry.table, entry.priority, &entry.matches).map_err(|_| Refusal::BAD_LEN)?;
        let actions = Flow::new(0, &entry.actions).map_err(|_| Refusal::BAD_LEN)?;
        let is_meant = |key: &FlowKey, flow: &Flow| {
            let is_there = entry.table == ALL_TABLES || key.table() == entry.table;
            let covers = || key.matching().is_ok_and(|matching| entry.matches.covers(&matching));
            is_there
                && (flow.cookie() ^ entry.cookie) & cookie_mask == 0
                && if strict { *key == exact.at(key.table(), entry.priority) } else { covers() }
        };
        let deletes = matches!(command, FlowCommand::Delete | FlowCommand::DeleteStrict);
        let found = self.flows.iter().filter(|(key, flow)| is_meant(key, flow));
        // The cookie of a flow stays when its actions change.
        Ok(found
            .map(|(key, flow)| (key.clone(), (!deletes).then(|| actions.with_cookie(flow.cookie()))))
            .collect())
    }

    /// Applies one flow-mod. An addition replaces the flow under its key. Deleting a flow that does not exist is no
    /// error.
    pub fn apply(&mut self, key: FlowKey, flow: Option<Flow>) {
        match flow {
            Some(flow) => self.flows.insert(key, flow),
            None => self.flows.remove(&key),
        };
    }

    /// Whether a flow uses a group that does not exist.
    pub fn lacks_group(&self, flow: &Flow) -> bool {
        flow.uses_group(|id| !self.groups.contains_key(&id))
    }

    /// Whether a flow uses a meter that does not exist.
    pub fn lacks_meter(&self, flow: &Flow) -> bool {
        flow.uses_meter(|id| !self.meters.contains_key(&id))
    }

    /// Applies a meter-mod. Deleting a meter also deletes the flows that use it.
    pub fn change_meter(&mut self, change: &MeterMod) -> Result<(), Refusal> {
        let meter = &change.meter;
        let there = self.meters.contains_key(&meter.id);
        match change.command {
            MeterCommand::Add if there => return Err(Refusal::METER_EXISTS),
            MeterCommand::Modify if !there => return Err(Refusal::UNKNOWN_METER),
            MeterCommand::Add | MeterCommand::Modify => drop(self.meters.insert(meter.id, meter.clone())),
            MeterCommand::Delete => {
                self.meters.retain(|id, _| meter.id != MeterEntry::ALL && *id != meter.id);
                let meters = &self.meters;
                self.flows.retain(|_, flow| !flow.uses_meter(|id| !meters.contains_key(&id)));
            }
        }
        Ok(())
    }

    /// Whether a switch takes a group-mod, whatever groups it has: weights and watched ports must be those of the type
    /// in the message.
    pub fn check_group(change: &GroupMod) -> Result<(), Refusal> {
        let GroupMod { command, group, .. } = change;
        let sets = matches!(command, GroupCommand::Add | GroupCommand::Modify);
        if group.selection.is_some() && !(sets && group.kind == GroupKind::Select) {
            return Err(Refusal::BAD_PROPERTY);
        }
        for bucket in &group.buckets {
            let watches = bucket.watch_port != PortNo::ANY || bucket.watch_group != ANY_GROUP;
            match group.kind {
                GroupKind::All | GroupKind::Indirect if watches => return Err(Refusal::WATCH_UNSUPPORTED),
                GroupKind::FastFailover if !watches => return Err(Refusal::INVALID_GROUP),
                _ => {}
            }
        }
        Ok(())
    }

    /// Applies a group-mod. Deleting a group also deletes the flows that use it.
    pub fn change_group(&mut self, change: &GroupMod) -> Result<(), Refusal> {
        let GroupMod { command, bucket, group } = change;
        let there = self.groups.contains_key(&group.id);
        match command {
            GroupCommand::Add if there => return Err(Refusal::GROUP_EXISTS),
            GroupCommand::Delete if group.id == GroupEntry::ALL => self.groups.clear(),
            GroupCommand::Delete => drop(self.groups.remove(&group.id)),
            GroupCommand::Add => drop(self.groups.insert(group.id, group.clone())),
            _ if !there => return Err(Refusal::UNKNOWN_GROUP),
            GroupCommand::Modify => drop(self.groups.insert(group.id, group.clone())),
            GroupCommand::InsertBucket => self.insert_buckets(group, *bucket)?,
            GroupCommand::RemoveBucket => self.remove_bucket(group.id, *bucket)?,
        }
        if *command == GroupCommand::Delete {
            let groups = &self.groups;
            self.flows.retain(|_, flow| !flow.uses_group(|id| !groups.contains_key(&id)));
        }
        Ok(())
    }

    fn insert_buckets(&mut self, more: &GroupEntry, after: u32) -> Result<(), Refusal> {
        let Some(group) = self.groups.get_mut(&more.id) else { return Err(Refusal::UNKNOWN_GROUP) };
        if more.buckets.iter().any(|new| group.buckets.iter().any(|old| old.id == new.id)) {
            return Err(Refusal::BUCKET_EXISTS);
        }
        let known = group.buckets.iter().position(|bucket| bucket.id == after).map(|place| place + 1);
        let place = match after {
            Bucket::FIRST => Some(0),
            Bucket::LAST => Some(group.buckets.len()),
            _ => known,
        };
        let place = place.ok_or(Refusal::UNKNOWN_BUCKET)?;
        group.buckets.splice(place..place, more.buckets.iter().cloned());
        Ok(())
    }

    fn remove_bucket(&mut self, id: u32, bucket: u32) -> Result<(), Refusal> {
        let Some(group) = self.groups.get_mut(&id) else { return Err(Refusal::UNKNOWN_GROUP) };
        let before = group.buckets.len();
        group.buckets.retain(|known| bucket != Bucket::ALL && known.id != bucket);
        if group.buckets.len() == before { Err(Refusal::UNKNOWN_BUCKET) } else { Ok(()) }
    }

    /// The refusal of the flow-mod at this stage, if any.
    pub(super) fn refusal(
        refuse: Option<&Refuse>,
        key: &FlowKey,
        flow: Option<&Flow>,
        commit: bool,
    ) -> Option<Refusal> {
        refuse.and_then(|refuse| refuse(key, flow)).filter(|refusal| refusal.at_commit == commit)
    }
}
