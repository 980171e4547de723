//! A bridge: flow tables, groups and ports, and the changes to them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use openflow_rs::flow::{ALL_TABLES, ANY_GROUP};
use openflow_rs::{Action, Actions, FlowCommand, FlowEntry, FlowMod, PortNo};

use crate::group::misplaced;
use crate::table::{Table, covers};
use crate::{FlowKey, Group, Refused};

/// The flow tables, groups and ports of one switch.
#[derive(Clone, Debug, Default)]
pub struct Bridge {
    tables: BTreeMap<u8, Table>,
    groups: BTreeMap<u32, Group>,
    ports: BTreeSet<u16>,
}

impl Bridge {
    /// A bridge without flows, with these ports and `LOCAL`.
    pub fn new(ports: impl IntoIterator<Item = PortNo>) -> Bridge {
        let ports = ports.into_iter().chain([PortNo::LOCAL]).map(|port| port.0).collect();
        Bridge { tables: BTreeMap::new(), groups: BTreeMap::new(), ports }
    }

    /// Adds a port.
    pub fn add_port(&mut self, port: PortNo) {
        self.ports.insert(port.0);
    }

    /// The ports, by number.
    pub fn ports(&self) -> impl Iterator<Item = PortNo> + '_ {
        self.ports.iter().map(|port| PortNo(*port))
    }

    /// Whether there is such a port.
    pub fn has_port(&self, port: PortNo) -> bool {
        self.ports.contains(&port.0)
    }

    /// Adds a flow, in place of one with the same table, match and priority.
    ///
    /// # Errors
    /// The flow has an action that is not interpreted, or that names a group that is not there. Prerequisites of
    /// fields are not looked at: an action whose field a packet does not have does nothing.
    pub fn add_flow(&mut self, flow: FlowEntry) -> Result<(), Refused> {
        if flow.table == ALL_TABLES {
            return Err(Refused::Table(flow.table));
        }
        self.check(&flow.actions, flow.table)?;
        self.tables.entry(flow.table).or_default().add(Arc::new(flow));
        Ok(())
    }

    /// Carries out a flow-mod, whole or not at all. Flags, timeouts and buffers are not looked at.
    ///
    /// # Errors
    /// As [`Bridge::add_flow`]; also a deletion by port or group.
    pub fn apply(&mut self, change: &FlowMod) -> Result<(), Refused> {
        if change.out_port != PortNo::ANY || change.out_group != ANY_GROUP {
            return Err(Refused::OutFilter);
        }
        let entry = &change.entry;
        if change.command == FlowCommand::Add {
            return self.add_flow(entry.clone());
        }
        let deletes = matches!(change.command, FlowCommand::Delete | FlowCommand::DeleteStrict);
        let strict = matches!(change.command, FlowCommand::DeleteStrict | FlowCommand::ModifyStrict);
        if !deletes {
            let concerned = |number: &&u8| [ALL_TABLES, **number].contains(&entry.table);
            self.tables
                .keys()
                .filter(concerned)
                .try_for_each(|number| self.check(&entry.actions, *number))?;
        }
        for (number, table) in &mut self.tables {
            if entry.table != ALL_TABLES && entry.table != *number {
                continue;
            }
            let concerned = |old: &&Arc<FlowEntry>| (old.cookie ^ entry.cookie) & change.cookie_mask == 0;
            let found: Vec<Arc<FlowEntry>> = if strict {
                table.get(&entry.matches, entry.priority).filter(concerned).cloned().into_iter().collect()
            } else {
                let covered = |old: &&Arc<FlowEntry>| covers(&entry.matches, &old.matches);
                table.entries().filter(concerned).filter(covered).cloned().collect()
            };
            for old in found {
                if deletes {
                    table.remove(&old.matches, old.priority);
                } else {
                    table.add(Arc::new(FlowEntry { actions: entry.actions.clone(), ..(*old).clone() }));
                }
            }
        }
        Ok(())
    }

    /// Adds a group.
    ///
    /// # Errors
    /// There is one with this id, or a bucket holds what is not interpreted or what no action set can hold.
    pub fn add_group(&mut self, group: Group) -> Result<(), Refused> {
        if self.groups.contains_key(&group.id) {
            return Err(Refused::GroupExists(group.id));
        }
        self.replace_group(group)
    }

    /// Adds a group, in place of one with the same id.
    ///
    /// # Errors
    /// As [`Bridge::add_group`].
    pub fn replace_group(&mut self, group: Group) -> Result<(), Refused> {
        if group.indirect && group.buckets.len() != 1 {
            return Err(Refused::Buckets(group.buckets.len()));
        }
        for bucket in &group.buckets {
            self.check(&bucket.actions, 0)?;
            if let Some(action) = misplaced(&bucket.actions) {
                return Err(Refused::InBucket(Box::new(action.clone())));
            }
        }
        self.groups.insert(group.id, group);
        Ok(())
    }

    /// Removes a group, and as Open vSwitch does, silently, every flow that names it.
    pub fn remove_group(&mut self, id: u32) {
        self.groups.remove(&id);
        for table in self.tables.values_mut() {
            let naming: Vec<_> =
                table.entries().filter(|flow| names_group(&flow.actions, id)).cloned().collect();
            for flow in naming {
                table.remove(&flow.matches, flow.priority);
            }
        }
    }

    /// The group with this id.
    pub fn group(&self, id: u32) -> Option<&Group> {
        self.groups.get(&id)
    }

    /// All flows, by table, then highest priority first, then match.
    pub fn flows(&self) -> Vec<&FlowEntry> {
        let mut flows: Vec<&FlowEntry> =
            self.tables.values().flat_map(|table| table.entries().map(|entry| &**entry)).collect();
        flows.sort_by(|a, b| {
            (a.table, b.priority).cmp(&(b.table, a.priority)).then_with(|| a.matches.cmp(&b.matches))
        });
        flows
    }

    /// The flow that a packet meets in a table.
    pub fn lookup(&self, table: u8, key: &FlowKey) -> Option<&FlowEntry> {
        self.find(table, key).map(|entry| &**entry)
    }

    pub(crate) fn find(&self, table: u8, key: &FlowKey) -> Option<&Arc<FlowEntry>> {
        self.tables.get(&table)?.lookup(key)
    }

    /// Refuses what is not interpreted, before a packet finds out.
    fn check(&self, actions: &Actions, table: u8) -> Result<(), Refused> {
        for action in &actions.0 {
            let unsupported = |why| Err(Refused::Action { action: Box::new(action.clone()), why });
            match action {
                Action::Ct(_) | Action::Nat(_) => {
                    return unsupported("connection tracking is not there yet");
                }
                Action::Learn(_) => return unsupported("flows cannot be learned yet"),
                Action::Conjunction(_) => {
                    return unsupported("conjunctive matches are not there yet; write the flows out");
                }
                Action::Meter(_) => return unsupported("a meter needs a clock, and none is read here"),
                Action::WriteActions(_) | Action::ClearActions(_) => {
                    return unsupported("flows have no action set here, only buckets do; apply the actions");
                }
                Action::CheckPktLarger(_) => return unsupported("packet lengths are not looked at yet"),
                Action::Unknown(_) => return unsupported("the action is not known"),
                Action::Resubmit(resubmit) if resubmit.ct => {
                    return unsupported("connection tracking is not there yet");
                }
                Action::Output(output) if output.port == PortNo::NORMAL => {
                    return unsupported("a learning bridge is not there; write the flows");
                }
                Action::Output(output) if output.port == PortNo::TABLE => {
                    return unsupported("only packet-outs may use it; write resubmit(,0)");
                }
                Action::Group(group) if !self.groups.contains_key(&group.id) => {
                    return Err(Refused::NoGroup(group.id));
                }
                Action::GotoTable(goto) if goto.table <= table => {
                    return Err(Refused::Backwards { from: table, to: goto.table });
                }
                Action::CloneActions(clone) => self.check(&clone.actions, table)?,
                _ => {}
            }
        }
        Ok(())
    }
}

fn names_group(actions: &Actions, id: u32) -> bool {
    actions.0.iter().any(|action| match action {
        Action::Group(group) => group.id == id,
        Action::CloneActions(clone) => names_group(&clone.actions, id),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Packet, Stopped};

    fn bridge(flows: &[&str]) -> Bridge {
        let mut bridge = Bridge::new((1..4).map(PortNo));
        for flow in flows {
            bridge.add_flow(flow.parse().unwrap()).unwrap();
        }
        bridge
    }

    fn ports(bridge: &Bridge) -> Vec<u16> {
        let outcome = bridge.process(&Packet::new(vec![2; 60], PortNo(1)));
        outcome.emitted.iter().map(|emitted| emitted.port.0).collect()
    }

    #[test]
    fn what_is_not_interpreted_is_refused_also_within_others() {
        let mut bridge = bridge(&[]);
        for actions in [
            "ct(table=1)",
            "learn(table=1,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[])",
            "clone(output:1,meter:1)",
            "check_pkt_larger(100)->NXM_NX_REG0[0]",
            "write_actions(output:1)",
            "NORMAL",
            "conjunction(1,1/2)",
        ] {
            let flow = format!("ip actions={actions}").parse().unwrap();
            assert!(matches!(bridge.add_flow(flow), Err(Refused::Action { .. })), "{actions}");
        }
        let flow = |text: &str| text.parse::<FlowEntry>().unwrap();
        assert_eq!(bridge.add_flow(flow("actions=group:7")), Err(Refused::NoGroup(7)));
        let back = Err(Refused::Backwards { from: 3, to: 3 });
        assert_eq!(bridge.add_flow(flow("table=3 actions=goto_table:3")), back);
        assert!(bridge.flows().is_empty());
        assert_eq!("group_id=1,type=select".parse::<Group>(), Err(Refused::GroupKind("select".to_owned())));
        let group: Group = "group_id=1,type=all,bucket=actions=exit".parse().unwrap();
        assert!(matches!(bridge.add_group(group), Err(Refused::InBucket(_))));
    }

    #[test]
    fn a_packet_that_meets_a_limit_goes_nowhere_at_all() {
        let deep = bridge(&["actions=output:2,resubmit(,0)"]);
        let outcome = deep.process(&Packet::new(vec![2; 60], PortNo(1)));
        assert_eq!((outcome.emitted, outcome.stopped), (vec![], Some(Stopped::Depth)));
        // Every table looks up the next one twice: 2 + 4 + ... + 4096.
        let mut wide = bridge(&["table=12 actions=output:2"]);
        for table in 0..12 {
            let flow = format!("table={table} actions=resubmit(,{0}),resubmit(,{0})", table + 1);
            wide.add_flow(flow.parse().unwrap()).unwrap();
        }
        let outcome = wide.process(&Packet::new(vec![2; 60], PortNo(1)));
        assert_eq!((outcome.emitted, outcome.stopped), (vec![], Some(Stopped::Resubmits)));
    }

    #[test]
    fn flow_mods_change_what_they_cover() {
        let mut bridge =
            bridge(&["priority=2,cookie=1,in_port=1,reg1=0 actions=2", "priority=1,cookie=2 actions=3"]);
        let apply = |bridge: &mut Bridge, text: &str| bridge.apply(&text.parse().unwrap()).unwrap();
        assert_eq!(ports(&bridge), [2]);
        apply(&mut bridge, "modify_strict priority=2,in_port=1 actions=3");
        assert_eq!(ports(&bridge), [2], "another match");
        apply(&mut bridge, "modify in_port=1 actions=2,3");
        assert_eq!(ports(&bridge), [2, 3]);
        assert_eq!(bridge.flows()[0].cookie, 1);
        apply(&mut bridge, "delete cookie=2/-1,in_port=1");
        assert_eq!(bridge.flows().len(), 2);
        apply(&mut bridge, "delete cookie=1/-1");
        assert_eq!(ports(&bridge), [3]);
        apply(&mut bridge, "delete_strict priority=1");
        assert!(bridge.flows().is_empty());
    }

    #[test]
    fn flows_that_name_a_group_go_with_it() {
        let mut bridge = bridge(&["table=1 actions=output:2"]);
        bridge.add_group("group_id=5,type=all,bucket=actions=3".parse().unwrap()).unwrap();
        bridge.add_flow("actions=clone(group:5)".parse().unwrap()).unwrap();
        assert_eq!(ports(&bridge), [3]);
        bridge.remove_group(5);
        assert_eq!(bridge.flows().len(), 1);
    }

    #[test]
    fn of_a_bucket_only_the_last_resubmit_runs_after_all_changes() {
        let mut bridge = bridge(&["table=1 actions=2", "table=2,reg1=7 actions=3"]);
        let group = "group_id=5,type=all,bucket=actions=resubmit(,1),resubmit(,2),set_field:7->reg1";
        bridge.add_group(group.parse().unwrap()).unwrap();
        bridge.add_flow("actions=group:5".parse().unwrap()).unwrap();
        assert_eq!(ports(&bridge), [3]);
    }
}
