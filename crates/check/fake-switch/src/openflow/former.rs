//! What a switch had before some changes, as far as they concern it: for bundles that fail, and for reports.

use std::collections::BTreeMap;

use openflow_rs::{GroupCommand, GroupEntry, GroupMod};
use switch_model::{Flow, FlowKey};

use super::table::Table;

/// The former flows and groups under the keys that have changed since; `None` where there was nothing.
#[derive(Debug, Default)]
pub(super) struct Former {
    flows: BTreeMap<FlowKey, Option<Flow>>,
    groups: BTreeMap<u32, Option<GroupEntry>>,
}

impl Former {
    /// The flows that differ between two tables, as they were in the first one.
    pub(super) fn between(before: Table, after: &Table) -> Former {
        let new = after.flows.keys().filter(|key| !before.flows.contains_key(*key));
        let mut flows: BTreeMap<FlowKey, Option<Flow>> = new.map(|key| (key.clone(), None)).collect();
        let old = before.flows.into_iter().filter(|(key, flow)| after.flows.get(key) != Some(flow));
        flows.extend(old.map(|(key, flow)| (key, Some(flow))));
        Former { flows, groups: BTreeMap::new() }
    }

    /// Notes a flow that is about to change.
    pub(super) fn note_flow(&mut self, table: &Table, key: &FlowKey) {
        if !self.flows.contains_key(key) {
            self.flows.insert(key.clone(), table.flows.get(key).cloned());
        }
    }

    /// Notes the groups that are about to change, and the flows that go with them.
    pub(super) fn note_group(&mut self, table: &Table, change: &GroupMod) {
        let is_changed = |id: u32| change.group.id == GroupEntry::ALL || id == change.group.id;
        if change.command == GroupCommand::Delete {
            for key in table.flows.iter().filter(|(_, flow)| flow.uses_group(is_changed)).map(|(key, _)| key)
            {
                self.note_flow(table, key);
            }
        }
        let all = table.groups.range(..).filter(|_| change.group.id == GroupEntry::ALL).map(|(id, _)| *id);
        for id in all.chain([change.group.id]) {
            self.groups.entry(id).or_insert_with(|| table.groups.get(&id).cloned());
        }
    }

    /// Takes all changes back.
    pub(super) fn restore(self, table: &mut Table) {
        for (key, flow) in self.flows {
            table.apply(key, flow);
        }
        for (id, group) in self.groups {
            match group {
                Some(group) => drop(table.groups.insert(id, group)),
                None => drop(table.groups.remove(&id)),
            }
        }
    }

    /// The former flows that the table no longer has.
    pub(super) fn removed_flows<'a>(
        &'a self,
        after: &'a Table,
    ) -> impl Iterator<Item = (&'a FlowKey, &'a Flow)> {
        let former = self.flows.iter().filter_map(|(key, flow)| Some((key, flow.as_ref()?)));
        former.filter(|(key, _)| !after.flows.contains_key(*key))
    }

    /// The flows that the table has now and did not have, or had otherwise.
    pub(super) fn set_flows<'a>(&'a self, after: &'a Table) -> impl Iterator<Item = (&'a FlowKey, &'a Flow)> {
        let now =
            self.flows.iter().filter_map(|(key, former)| Some((former, after.flows.get_key_value(key)?)));
        now.filter(|(former, (_, flow))| former.as_ref() != Some(*flow)).map(|(_, now)| now)
    }
}
