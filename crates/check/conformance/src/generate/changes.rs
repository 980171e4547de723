//! Random changes of an existing network.

use network_spec::{Encap, Node, Tunnel};

use super::Generator;
use super::objects::NETWORKS;
use crate::world::Change;

impl Generator<'_> {
    /// One change, or a few that belong together. Some are invalid and are skipped.
    pub(super) fn some_change(&mut self) -> Vec<Change> {
        match self.random.below(100) {
            0..15 => self.migration(),
            15..23 => self.plug().into_iter().collect(),
            23..25 => self.some_vif().map(|(host, port)| Change::Renumber(host, port)).into_iter().collect(),
            25..33 => self.some_vif().map(|(host, port)| Change::Unplug(host, port)).into_iter().collect(),
            33..45 => self.added_port(),
            45..55 => self.removed_port(),
            55..68 => self.changed_port().into_iter().collect(),
            68..73 => self.changed_switches(),
            73..80 => self.changed_localnets(),
            80..91 => self.changed_nodes(),
            91..93 => {
                let name = *self.random.pick(&["", "z1"]);
                let gone = !name.is_empty() && self.random.chance(20);
                vec![if gone { Change::NoZone(name.to_owned()) } else { self.zone(name) }]
            }
            93..95 => vec![self.trees()],
            _ => self.failure().into_iter().collect(),
        }
    }

    /// Trees so small that few hosts make one, or those of the rules.
    pub(super) fn trees(&mut self) -> Change {
        let (hosts, slack) =
            *self.random.pick(&[(0, 0), (1, 0), (1, 50), (2, 0), (2, 25), (3, 40), (64, 25)]);
        Change::Trees { hosts, slack }
    }

    /// A port that floods is limited or not, or uses up its limit where it is. Hosts do not change one after another then:
    /// what is used up is no change that a host makes.
    pub(super) fn limit_floods(&mut self) {
        let limited: Vec<String> = self.world.flood_limits.keys().cloned().collect();
        let change = if limited.is_empty() || self.floods.chance(40) {
            self.flood_limit()
        } else {
            let port = self.floods.pick(&limited).clone();
            let here = self.world.location(&port).map(str::to_owned);
            let hosts: Vec<String> = self.world.nodes.keys().cloned().collect();
            let host = here.or_else(|| (!hosts.is_empty()).then(|| self.floods.pick(&hosts).clone()));
            let exhausted = self.floods.chance(65);
            host.map(|host| Change::Exhaust(host, port, exhausted))
        };
        self.change(change.into_iter().collect());
    }

    pub(super) fn flood_limit(&mut self) -> Option<Change> {
        let ports: Vec<String> =
            self.world.ports.keys().chain(self.world.localnets.keys()).cloned().collect();
        if ports.is_empty() {
            return None;
        }
        let limit = *self.floods.pick(&[None, Some(1), Some(100), Some(100_000)]);
        Some(Change::FloodLimit(self.floods.pick(&ports).clone(), limit))
    }

    fn some_vif(&mut self) -> Option<(String, String)> {
        self.some(|world| world.vnics.keys().cloned().collect())
    }

    fn some_port(&mut self) -> Option<String> {
        self.some(|world| world.ports.keys().cloned().collect())
    }

    fn some_switch(&mut self) -> Option<String> {
        self.some(|world| world.switches.keys().cloned().collect())
    }

    /// A port appears on another host: before, when, or long after it disappears elsewhere.
    fn migration(&mut self) -> Vec<Change> {
        let (Some((from, port)), Some(to)) = (self.some_vif(), self.some_host()) else { return vec![] };
        let mut changes = vec![Change::Unplug(from, port.clone()), Change::Plug(to, port)];
        match self.random.below(4) {
            0 => drop(changes.remove(0)),
            1 => changes.reverse(),
            _ => {}
        }
        changes
    }

    fn plug(&mut self) -> Option<Change> {
        let port = match self.random.below(20) {
            0 => "p-none".to_owned(),
            1 => self.some(|world| world.localnets.keys().cloned().collect())?,
            _ => self.some_port()?,
        };
        Some(Change::Plug(self.some_host()?, port))
    }

    fn added_port(&mut self) -> Vec<Change> {
        let Some(switch) = self.some_switch() else { return vec![] };
        let (name, mut changes) = self.new_port(&switch);
        let host = self.some_host().filter(|_| self.random.chance(85));
        changes.extend(host.map(|host| Change::Plug(host, name)));
        if self.random.chance(20) {
            changes.reverse();
        }
        changes
    }

    fn removed_port(&mut self) -> Vec<Change> {
        let Some(port) = self.some_port() else { return vec![] };
        let mut changes = Vec::new();
        if self.random.chance(60) {
            let hosts = self.world.vnics.keys().filter(|(_, named)| *named == port);
            changes.extend(hosts.map(|(host, port)| Change::Unplug(host.clone(), port.clone())));
        }
        if self.random.chance(50) {
            changes.extend(self.world.children(&port).map(|(_, child)| Change::NoPort(child.to_owned())));
        }
        let children: Vec<&str> = self.world.children(&port).map(|(_, child)| child).collect();
        let gone = children.into_iter().chain([port.as_str()]).collect();
        let mut all = self.world.without_ports(&gone);
        changes.push(Change::NoPort(port));
        all.extend(changes);
        all
    }

    fn changed_port(&mut self) -> Option<Change> {
        let name = self.some_port()?;
        let mut port = self.world.ports[&name].clone();
        let other = self.port(&name, &port.switch);
        match self.random.below(7) {
            0 => {
                (port.port_security, port.unknown_addresses) = (other.port_security, other.unknown_addresses);
            }
            1 => port.addresses = other.addresses,
            2 => port.parent = other.parent,
            3 => port.enabled = !port.enabled,
            4 => port.requested_hosts = other.requested_hosts,
            5 => port.trust = other.trust,
            _ => port = other,
        }
        if self.style.allowed > 0 && self.shared.chance(30) {
            port.allowed = self.allowed(&port.addresses);
        }
        Some(Change::Port(name, port))
    }

    fn changed_switches(&mut self) -> Vec<Change> {
        if self.random.chance(40) {
            let name = self.new_name("s");
            let mut changes = vec![Change::Switch(name.clone(), "t1".to_owned())];
            if self.random.chance(self.style.physical) {
                changes.extend(self.localnet(&name));
            }
            return changes;
        }
        let Some(name) = self.some_switch() else { return vec![] };
        let children = self.world.ports_of(&name).filter(|(_, port)| port.parent.is_some());
        let others = self.world.ports_of(&name).filter(|(_, port)| port.parent.is_none());
        let gone = self.world.ports_of(&name).map(|(port, _)| port).collect();
        let mut changes = self.world.without_ports(&gone);
        changes.extend(self.world.without_switch(&name));
        changes.extend(children.chain(others).map(|(port, _)| Change::NoPort(port.to_owned())));
        changes.extend(
            self.world.localnet_of(&name).map(|(localnet, _)| Change::NoLocalnet(localnet.to_owned())),
        );
        let of_routers = self.world.router_ports_on(&name);
        changes.extend(of_routers.map(|(port, _)| Change::NoRouterPort(port.to_owned())));
        changes.push(Change::NoSwitch(name));
        changes
    }

    fn changed_localnets(&mut self) -> Vec<Change> {
        let there = self.some(|world| world.localnets.keys().cloned().collect());
        match (there, self.random.below(3)) {
            (Some(name), 0) => vec![Change::NoLocalnet(name)],
            (Some(name), 1) => {
                let mut localnet = self.world.localnets[&name].clone();
                self.random.pick(&NETWORKS).0.clone_into(&mut localnet.network);
                localnet.tag = *self.random.pick(&[0, 5, 6]);
                vec![Change::Localnet(name, localnet)]
            }
            _ => self.some_switch().map_or(vec![], |switch| self.localnet(&switch)),
        }
    }

    fn changed_nodes(&mut self) -> Vec<Change> {
        if self.random.chance(25) {
            let name = self.new_name("h");
            return vec![self.node(&name)];
        }
        let Some(name) = self.some_host() else { return vec![] };
        if self.random.chance(25) { vec![Change::NoNode(name)] } else { vec![self.node(&name)] }
    }

    /// A host is cordoned or drained, or no longer is.
    pub(super) fn maintain(&mut self) {
        let nodes: Vec<(String, Node)> = self.world.nodes.clone().into_iter().collect();
        if nodes.is_empty() {
            return;
        }
        let (name, mut node) = self.upkeep.pick(&nodes).clone();
        if self.upkeep.chance(60) {
            node.schedulable = !node.schedulable;
        } else {
            node.drain = !node.drain;
        }
        let changes = vec![Change::Node(name, node)];
        if !self.upkeep.chance(self.style.one_by_one) {
            return self.change(changes);
        }
        // The frames that are sent meanwhile are from the same stream: histories are what they were but for this.
        std::mem::swap(self.random, &mut self.upkeep);
        self.one_by_one(changes);
        std::mem::swap(self.random, &mut self.upkeep);
    }

    fn failure(&mut self) -> Option<Change> {
        if self.style.relayed || self.random.chance(60) {
            let failing: Option<Tunnel> = self.some(|world| world.failing.iter().cloned().collect());
            return failing.map(Change::Heal);
        }
        let peer = if self.random.chance(50) { self.some_host() } else { None };
        let host = self.some_host()?;
        Some(Change::Fail(Tunnel { host, encap: *self.random.pick(&Encap::ALL), peer }))
    }
}
