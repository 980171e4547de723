//! A bridge: flow tables, groups and ports, and the changes to them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use openflow_rs::flow::{ALL_TABLES, ANY_GROUP};
use openflow_rs::{Actions, FlowCommand, FlowEntry, FlowMod, GroupEntry, Match, PortNo};

use crate::check::{There, check, check_match, check_protocol, groups_named};
use crate::conntrack::Connections;
use crate::conntrack::fragments::Held;
use crate::extract::VlanLimit;
use crate::group::check_group;
use crate::learned::Learned;
use crate::meter::Meter;
use crate::pipeline::Rest;
use crate::port::Port;
use crate::table::Table;
use crate::{FlowKey, Refused, Tunnel};

/// The flow tables, groups and ports of one switch.
#[derive(Clone, Debug, Default)]
pub struct Bridge {
    tables: BTreeMap<u8, Table>,
    pub(crate) groups: BTreeMap<u32, GroupEntry>,
    pub(crate) meters: BTreeMap<u32, Meter>,
    /// The number of references to each group in flows.
    users: BTreeMap<u32, usize>,
    pub(crate) ports: BTreeMap<u16, Port>,
    /// The ports that are not live.
    pub(crate) dead: BTreeSet<u16>,
    pub(crate) learned: Learned,
    pub(crate) connections: Connections,
    pub(crate) held: Held<Rest>,
    /// The number of VLAN tags that the switch reads.
    pub vlan_limit: VlanLimit,
}

impl Bridge {
    /// A bridge without flows, with these ports and `LOCAL`.
    pub fn new(ports: impl IntoIterator<Item = PortNo>) -> Bridge {
        let ports = ports.into_iter().chain([PortNo::LOCAL]);
        Bridge { ports: ports.map(|port| (port.0, Port::Plain)).collect(), ..Bridge::default() }
    }

    /// Adds a port.
    pub fn add_port(&mut self, port: PortNo) {
        self.ports.insert(port.0, Port::Plain);
    }

    /// Adds a tunnel port.
    pub fn add_tunnel(&mut self, port: PortNo, tunnel: impl Into<Tunnel>) {
        self.ports.insert(port.0, Port::Tunnel(tunnel.into()));
    }

    /// Adds a patch port to another bridge of the same switch.
    pub(crate) fn add_patch(&mut self, port: PortNo) {
        self.ports.insert(port.0, Port::Patch);
    }

    /// Removes a port. Flows that name it stay, but send nothing there.
    pub fn remove_port(&mut self, port: PortNo) {
        self.ports.remove(&port.0);
        self.dead.remove(&port.0);
    }

    /// The ports, by number.
    pub fn ports(&self) -> impl Iterator<Item = PortNo> + '_ {
        self.ports.keys().map(|port| PortNo(*port))
    }

    /// Whether there is such a port.
    pub fn has_port(&self, port: PortNo) -> bool {
        self.ports.contains_key(&port.0)
    }

    /// The tunnel of a port, if it is a tunnel port.
    pub fn tunnel(&self, port: PortNo) -> Option<Tunnel> {
        match self.ports.get(&port.0) {
            Some(Port::Tunnel(tunnel)) => Some(*tunnel),
            _ => None,
        }
    }

    /// The tunnel ports, by number.
    pub fn tunnels(&self) -> impl Iterator<Item = (PortNo, Tunnel)> + '_ {
        self.ports.iter().filter_map(|(number, port)| match port {
            Port::Tunnel(tunnel) => Some((PortNo(*number), *tunnel)),
            Port::Plain | Port::Patch => None,
        })
    }

    /// Adds a flow, replacing one with the same table, match and priority.
    ///
    /// # Errors
    /// The flow has an action that is not interpreted, names a missing group, or is for IP packets while the match is not.
    /// Prerequisites of fields are not checked: an action on a field that a packet does not have does nothing.
    pub fn add_flow(&mut self, flow: FlowEntry) -> Result<(), Refused> {
        self.add_shared(Arc::new(flow))
    }

    /// As [`Bridge::add_flow`], with a flow that bridges share.
    ///
    /// # Errors
    /// As [`Bridge::add_flow`].
    pub fn add_shared(&mut self, flow: Arc<FlowEntry>) -> Result<(), Refused> {
        check_match(&flow.matches)?;
        check_protocol(&flow.matches, &flow.actions)?;
        self.check(&flow.actions, flow.table)?;
        self.put(flow);
        Ok(())
    }

    /// Removes the flow with this table, match and priority. Returns whether there was one. Its learned flows are
    /// removed too, if it has `delete_learned` and no other flow learns the same ones.
    pub fn remove_flow(&mut self, table: u8, priority: u16, matches: &Match) -> bool {
        self.take(table, priority, matches)
    }

    /// Executes a flow-mod atomically. Flags, timeouts and buffers are ignored. Learned flows are changed like others,
    /// as in a switch.
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
        let concerned = |old: &&Arc<FlowEntry>| (old.cookie ^ entry.cookie) & change.cookie_mask == 0;
        let mut found = Vec::new();
        for (number, table) in &self.tables {
            if entry.table != ALL_TABLES && entry.table != *number {
                continue;
            }
            if !deletes {
                self.check(&entry.actions, *number)?;
            }
            if strict {
                found.extend(table.get(&entry.matches, entry.priority).filter(concerned).cloned());
            } else {
                let covered = |old: &&Arc<FlowEntry>| entry.matches.covers(&old.matches);
                found.extend(table.entries().filter(concerned).filter(covered).cloned());
            }
        }
        if !deletes {
            found.iter().try_for_each(|old| check_protocol(&old.matches, &entry.actions))?;
        }
        for old in found {
            if deletes {
                self.take(old.table, old.priority, &old.matches);
            } else {
                self.put(Arc::new(FlowEntry { actions: entry.actions.clone(), ..(*old).clone() }));
            }
        }
        Ok(())
    }

    fn check(&self, actions: &Actions, table: u8) -> Result<(), Refused> {
        let group = |group| self.groups.contains_key(&group);
        let meter = |meter| self.meters.contains_key(&meter);
        check(actions, table, There { group: &group, meter: &meter })
    }

    /// Puts a flow into its table, replacing one with the same match and priority.
    pub(crate) fn put(&mut self, flow: Arc<FlowEntry>) {
        self.learned.forget(&flow);
        self.learned.note_added(&flow.actions);
        groups_named(&flow.actions, &mut |group| *self.users.entry(group).or_default() += 1);
        if let Some(old) = self.tables.entry(flow.table).or_default().add(flow) {
            self.remove_learned_by(&old);
        }
    }

    /// Removes a flow from its table. Returns whether it existed.
    pub(crate) fn take(&mut self, table: u8, priority: u16, matches: &Match) -> bool {
        let old = self.tables.get_mut(&table).and_then(|table| table.remove(matches, priority));
        let Some(old) = old else { return false };
        self.learned.forget(&old);
        self.remove_learned_by(&old);
        true
    }

    /// Removes the learned flows of a removed flow with `delete_learned`.
    fn remove_learned_by(&mut self, old: &FlowEntry) {
        groups_named(&old.actions, &mut |group| {
            if let Some(count) = self.users.get_mut(&group) {
                *count -= 1;
            }
        });
        for (cookie, table) in self.learned.note_removed(&old.actions) {
            let same = |flow: &&Arc<FlowEntry>| flow.cookie == cookie;
            let taught: Vec<_> =
                self.tables.get(&table).into_iter().flat_map(Table::entries).filter(same).cloned().collect();
            for flow in taught {
                self.take(table, flow.priority, &flow.matches);
            }
        }
    }

    /// Adds a group.
    ///
    /// # Errors
    /// A group with this id exists, a switch refuses such a group, the way in which it chooses a bucket is not interpreted,
    /// or a bucket contains an action that is not interpreted or not allowed in an action set.
    pub fn add_group(&mut self, group: GroupEntry) -> Result<(), Refused> {
        if self.groups.contains_key(&group.id) {
            return Err(Refused::GroupExists(group.id));
        }
        self.replace_group(group)
    }

    /// Adds a group, replacing one with the same id.
    ///
    /// # Errors
    /// As [`Bridge::add_group`].
    pub fn replace_group(&mut self, group: GroupEntry) -> Result<(), Refused> {
        group.buckets.iter().try_for_each(|bucket| self.check(&bucket.actions, 0))?;
        check_group(&group)?;
        self.groups.insert(group.id, group);
        Ok(())
    }

    /// Removes a group and, silently as in Open vSwitch, every flow that refers to it.
    pub fn remove_group(&mut self, id: u32) {
        self.groups.remove(&id);
        if self.users.remove(&id).is_none_or(|count| count == 0) {
            return;
        }
        self.remove_flows(|flow| {
            let mut names = false;
            groups_named(&flow.actions, &mut |group| names |= group == id);
            names
        });
    }

    pub(crate) fn remove_flows(&mut self, which: impl Fn(&FlowEntry) -> bool) {
        let entries = self.tables.values().flat_map(Table::entries);
        let found: Vec<_> = entries.filter(|flow| which(flow)).cloned().collect();
        for flow in found {
            self.take(flow.table, flow.priority, &flow.matches);
        }
    }

    /// The group with this id.
    pub fn group(&self, id: u32) -> Option<&GroupEntry> {
        self.groups.get(&id)
    }

    /// The groups, by id.
    pub fn groups(&self) -> impl Iterator<Item = &GroupEntry> {
        self.groups.values()
    }

    /// All flows except learned ones ([`Bridge::learned`]), by table, then highest priority first, then match.
    pub fn flows(&self) -> Vec<&FlowEntry> {
        let mut flows = self.all_flows();
        flows.retain(|flow| !self.is_learned(flow));
        flows
    }

    pub(crate) fn all_flows(&self) -> Vec<&FlowEntry> {
        let mut flows: Vec<&FlowEntry> =
            self.tables.values().flat_map(|table| table.entries().map(|entry| &**entry)).collect();
        flows.sort_by(|a, b| {
            (a.table, b.priority).cmp(&(b.table, a.priority)).then_with(|| a.matches.cmp(&b.matches))
        });
        flows
    }

    /// The flow that a packet matches in a table.
    pub fn lookup(&self, table: u8, key: &FlowKey) -> Option<&FlowEntry> {
        self.find(table, key).map(|entry| &**entry)
    }

    pub(crate) fn find(&self, table: u8, key: &FlowKey) -> Option<&Arc<FlowEntry>> {
        self.table(table)?.lookup(key)
    }

    pub(crate) fn table(&self, number: u8) -> Option<&Table> {
        self.tables.get(&number)
    }
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
            "ct(commit,alg=ftp)",
            "clone(ct(commit,alg=ftp,nat(src=10.0.0.1)))",
            "learn(table=1,result_dst=reg0[0],NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[])",
            "learn(table=1,fin_idle_timeout=5,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[])",
            "clone(output:1,meter:1)",
            "check_pkt_larger(100)->NXM_OF_ETH_DST[0],output:1",
            "write_actions(output:1)",
            "NORMAL",
            "conjunction(1,1/2),output:2",
            "clone(conjunction(1,1/2),output:2)",
        ] {
            let flow = format!("ip actions={actions}").parse().unwrap();
            assert!(matches!(bridge.add_flow(flow), Err(Refused::Action { .. })), "{actions}");
        }
        let flow = |text: &str| text.parse::<FlowEntry>().unwrap();
        assert_eq!(bridge.add_flow(flow("actions=group:7")), Err(Refused::NoGroup(7)));
        let back = Err(Refused::Backwards { from: 3, to: 3 });
        assert_eq!(bridge.add_flow(flow("table=3 actions=goto_table:3")), back);
        let port = flow("udp,ct_state=+trk-inv,ct_tp_dst=53 actions=2");
        assert_eq!(bridge.add_flow(port), Err(Refused::Ignored(openflow_rs::Field::CtTpDst)));
        for actions in ["dec_ttl,output:2", "mod_nw_ttl:7,output:2", "ct(table=1)", "clone(dec_ttl,output:2)"]
        {
            for matches in ["", "arp,"] {
                let refused = bridge.add_flow(flow(&format!("{matches}actions={actions}")));
                assert!(matches!(refused, Err(Refused::NotIp(_))), "{matches}{actions}");
            }
        }
        for family in ["ip,ct(commit,nat(src=fd00::1))", "ipv6,ct(commit,nat(dst=10.0.0.1:80))"] {
            let (family, actions) = family.split_once(',').unwrap();
            let refused = bridge.add_flow(flow(&format!("{family} actions={actions}")));
            assert!(matches!(refused, Err(Refused::Family(_))), "{family}: {refused:?}");
        }
        assert!(bridge.flows().is_empty());
        let mut group = |text: &str| bridge.add_group(text.parse().unwrap());
        for actions in ["exit", "check_pkt_larger(100)->NXM_NX_REG0[0],output:2"] {
            let refused = group(&format!("group_id=1,type=all,bucket=actions={actions}"));
            assert!(matches!(refused, Err(Refused::InBucket(_))), "{actions}");
        }
        for method in [
            "",
            ",selection_method=hash",
            ",selection_method=dp_hash",
            ",selection_method=hash,fields=dp_hash",
        ] {
            let refused = group(&format!("group_id=1,type=select{method},bucket=actions=output:2"));
            assert!(matches!(refused, Err(Refused::Selection { .. })), "{method}");
        }
        for rest in [
            "all,bucket=watch_port:2,actions=2",
            "ff,bucket=actions=2",
            "all,bucket=bucket_id:1,actions=2,bucket=bucket_id:1,actions=3",
        ] {
            let refused = group(&format!("group_id=1,type={rest}"));
            assert!(matches!(refused, Err(Refused::Bucket { .. })), "{rest}");
        }
        assert_eq!(bridge.groups().count(), 0);
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
