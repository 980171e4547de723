//! Relays that are silent: BFD says so on some hosts, which then use another relay. Frames arrive all the same.

use std::collections::BTreeSet;

use flow_simulator::Bridge;
use openflow_rs::{GroupKind, PortNo};

use crate::simulation::Hosts;

/// Makes one tunnel port of each host silent, another one at each `turn`, as far as the groups that watch it have another port. All
/// others are live again. Returns whether any is silent.
pub(crate) fn silence(hosts: &mut Hosts, turn: u64) -> bool {
    let names: Vec<String> = hosts.fabric().hosts().map(|(name, _)| name.to_owned()).collect();
    let mut any = false;
    for name in names {
        let Some(host) = hosts.fabric_mut().host_mut(&name) else { continue };
        let watched = watched(&host.bridge);
        let silent = one_of(&watched, turn);
        for port in watched.iter().flatten() {
            host.bridge.set_live(*port, Some(*port) != silent);
        }
        any |= silent.is_some();
    }
    any
}

/// The ports that each failover group watches, in order.
fn watched(bridge: &Bridge) -> Vec<Vec<PortNo>> {
    let groups = bridge.groups().filter(|group| group.kind == GroupKind::FastFailover);
    let ports = |port: &PortNo| bridge.has_port(*port);
    groups.map(|group| group.buckets.iter().map(|bucket| bucket.watch_port).filter(ports).collect()).collect()
}

/// One of the first ports of groups, or none, in turn. No group is left without a port.
fn one_of(watched: &[Vec<PortNo>], turn: u64) -> Option<PortNo> {
    let spared = |port: &PortNo| watched.iter().all(|ports| ports.iter().any(|other| other != port));
    let firsts: BTreeSet<PortNo> =
        watched.iter().filter_map(|ports| ports.first().copied()).filter(spared).collect();
    let place = turn % (firsts.len() as u64 + 1);
    firsts.into_iter().nth(place as usize)
}
