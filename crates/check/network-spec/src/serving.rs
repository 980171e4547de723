//! What hosts do for each other: they lead branches of floods, and relay what routers send to a switch. Any host with ports of the
//! switch can. Which one does is for the network to choose, but a host that is cordoned or drained does it only where no other can.

use std::collections::{BTreeMap, BTreeSet};

use crate::World;
use crate::world::{Node, Port};

impl Node {
    /// Whether the host works for others. Where no host does that could, all of them do.
    pub fn serves(&self) -> bool {
        self.schedulable && !self.drain
    }
}

impl World {
    fn serves(&self, host: &str) -> bool {
        self.nodes.get(host).is_some_and(Node::serves)
    }

    /// The leaders of branches that do not serve, although another host of the branch does, whose ports are in the same audience.
    pub(crate) fn leader_faults(&self) -> Vec<String> {
        let audiences: [fn(&Port) -> bool; 2] = [|_| true, |port| port.unknown_addresses];
        let mut faults = Vec::new();
        for (switch, of) in &self.trees.branches {
            let names: BTreeSet<&String> = of.values().collect();
            for (branch, audience) in
                names.iter().flat_map(|name| audiences.map(|audience| (*name, audience)))
            {
                let is_member = |host: &str| {
                    let mut ports = self.ports_of(switch).filter(|(_, port)| audience(port));
                    ports.any(|(id, _)| self.hosts_with(id).contains(host))
                };
                let members = of.iter().filter(|(host, in_branch)| *in_branch == branch && is_member(host));
                let members: Vec<&str> = members.map(|(host, _)| host.as_str()).collect();
                let leader = self.trees.first(switch, &members);
                let other = members.iter().find(|host| self.serves(host));
                if let (Some(leader), Some(other)) = (leader.filter(|host| !self.serves(host)), other) {
                    faults.push(format!("switch {switch}: {leader} leads {branch} in the place of {other}"));
                }
            }
        }
        faults
    }

    /// What is wrong about the relays of hosts for a switch, by host and switch, in the order in which the host prefers them: one
    /// that cannot relay because it has no port of the switch or the host no tunnel to it, or one that does not serve in the place of a
    /// host that could relay and serves.
    pub fn relay_faults(&self, relays: &BTreeMap<(String, String), Vec<String>>) -> Vec<String> {
        let mut faults = Vec::new();
        for ((host, switch), relays) in relays {
            let mut able = self.hosts_of(switch);
            able.retain(|relay| self.tunnel(host, relay).is_some());
            let serving = able.iter().filter(|relay| self.serves(relay)).count();
            for (place, relay) in relays.iter().enumerate() {
                if !able.contains(relay.as_str()) {
                    faults.push(format!("{host} cannot send to relay {relay} of {switch}"));
                } else if place < serving && !self.serves(relay) {
                    faults.push(format!(
                        "{relay} relays to {switch} for {host} in the place of a host that serves"
                    ));
                }
            }
        }
        faults
    }
}
