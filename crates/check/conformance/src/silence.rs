//! Relays that are silent: BFD says so on some hosts, which then use another relay, or the first one where none answers. Frames arrive all
//! the same.

use std::collections::BTreeSet;

use flow_simulator::Bridge;
use openflow_rs::{GroupKind, PortNo};

use crate::simulation::Hosts;

/// Makes tunnel ports of each host silent, others at each `turn`: none, one of those that are first in a group, or all, as while no
/// session is up yet. Without a turn, none is. The others are live again. Returns whether any is silent.
pub(crate) fn silence(hosts: &mut Hosts, turn: Option<u64>) -> bool {
    let names: Vec<String> = hosts.fabric().hosts().map(|(name, _)| name.to_owned()).collect();
    let mut any = false;
    for name in names {
        let Some(host) = hosts.fabric_mut().host_mut(&name) else { continue };
        let watched = watched(&host.bridge);
        let silent = turn.map(|turn| some_of(&watched, turn)).unwrap_or_default();
        for port in watched.iter().flatten() {
            host.bridge.set_live(*port, !silent.contains(port));
        }
        any |= !silent.is_empty();
    }
    any
}

/// The ports that each failover group watches, in order.
fn watched(bridge: &Bridge) -> Vec<Vec<PortNo>> {
    let groups = bridge.groups().filter(|group| group.kind == GroupKind::FastFailover);
    let ports = |port: &PortNo| bridge.has_port(*port);
    groups.map(|group| group.buckets.iter().map(|bucket| bucket.watch_port).filter(ports).collect()).collect()
}

/// None of the watched ports, one of the first ports of groups, or all, in turn.
fn some_of(watched: &[Vec<PortNo>], turn: u64) -> BTreeSet<PortNo> {
    let firsts: BTreeSet<PortNo> = watched.iter().filter_map(|ports| ports.first().copied()).collect();
    let place = (turn % (firsts.len() as u64 + 2)) as usize;
    if place > firsts.len() {
        return watched.iter().flatten().copied().collect();
    }
    firsts.into_iter().nth(place).into_iter().collect()
}
