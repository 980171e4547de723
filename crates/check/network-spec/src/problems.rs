//! What is wrong with a network as it is configured and reported: what its users must see, one function for each kind of
//! problem.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::world::{Encap, Form, Port, World};

/// The most ports of one switch on a host to which floods are complete: a switch does a limited amount of work for one frame.
pub const MOST_LOCAL_PORTS: usize = 4000;

/// An object that cannot work as configured. Two reasons of one kind are one problem.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The kind of the object, as users write it.
    pub kind: &'static str,
    /// Its id.
    pub id: String,
    /// The kind of problem, for scripts.
    pub code: &'static str,
}

impl World {
    /// All problems.
    pub fn problems(&self) -> BTreeSet<Problem> {
        fn of(kind: &'static str, code: &'static str, ids: BTreeSet<&str>) -> Vec<Problem> {
            ids.into_iter().map(|id| Problem { kind, id: id.to_owned(), code }).collect()
        }
        let all = [
            of("switch", "no-common-encapsulation", self.without_common_encapsulation()),
            of("transport_node", "no-tunnel-port", self.without_tunnel_port()),
            of("transport_node", "too-many-local-ports", self.with_too_many_local_ports()),
            of("localnet_port", "no-bridge-mapping", self.without_bridge_mapping()),
            of("switch_port", "parent-not-attached", self.behind_unattached_parent()),
            of("switch_port", "parent-disabled", self.behind_disabled_parent()),
            of("transport_node", "member-reported", self.reporting_members()),
            of("switch_port", "unrequested-host", self.reported_elsewhere()),
            of("switch_port", "claimed-twice", self.claimed_twice()),
            of("switch_port", "no-address", self.waiting_for_addresses()),
            of("router_port", "physical-network", self.routers_on_physical_networks()),
            of("router_port", "no-physical-network", self.gateways_without_physical_network()),
            of("router_port", "gateway-without-network", self.gateways_without_bridge()),
            of("nat", "no-outside", self.translations_nowhere()),
            of("route", "next-hop-far", self.routes_with_far_next_hops()),
            of("route_policy", "next-hop-far", self.policies_with_far_next_hops()),
        ];
        all.into_iter().flatten().collect()
    }

    /// The switches with ports on two hosts that can use no common encapsulation in one zone between addresses of one IP
    /// version, although each can use some: frames between these hosts are lost. A switch with a localnet port uses no tunnels.
    pub(crate) fn without_common_encapsulation(&self) -> BTreeSet<&str> {
        let apart = |one: &str, other: &str| {
            let [ours, theirs] = [one, other].map(|host| self.usable(host));
            let meet = self.nodes[one].meets(&self.nodes[other]);
            let common = meet && ours.iter().any(|encap| theirs.contains(encap));
            !ours.is_empty() && !theirs.is_empty() && !common
        };
        let split = |switch: &&str| {
            let hosts = self.hosts_of(switch);
            let pairs = hosts.iter().flat_map(|one| hosts.iter().map(move |other| (one, other)));
            self.localnet_of(switch).is_none() && pairs.into_iter().any(|(one, other)| apart(one, other))
        };
        self.switches.keys().map(String::as_str).filter(split).collect()
    }

    /// The ports whose addresses are for the network to choose, on switches where no server gives any.
    pub(crate) fn waiting_for_addresses(&self) -> BTreeSet<&str> {
        let serves = |switch: &str| self.dhcps.values().any(|dhcp| dhcp.switch == switch);
        let asks = |port: &Port| port.addresses.iter().any(|address| port.dynamic.contains(&address.mac));
        let waiting = self.ports.iter().filter(|(_, port)| asks(port) && !serves(&port.switch));
        waiting.map(|(id, _)| id.as_str()).collect()
    }

    /// The hosts that can use no encapsulation: they exchange frames with no other host through a tunnel.
    pub(crate) fn without_tunnel_port(&self) -> BTreeSet<&str> {
        self.nodes.keys().map(String::as_str).filter(|host| self.usable(host).is_empty()).collect()
    }

    /// The hosts with more ports of one switch, its localnet port included, than floods reach for certain.
    pub(crate) fn with_too_many_local_ports(&self) -> BTreeSet<&str> {
        let mut ports: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for (id, port) in &self.ports {
            for host in self.hosts_with(id) {
                *ports.entry((host, &port.switch)).or_default() += 1;
            }
        }
        let all = |(host, switch), ports| ports + usize::from(self.attached(host, switch));
        let beyond = ports.into_iter().filter(|(of, ports)| all(*of, *ports) > MOST_LOCAL_PORTS);
        beyond.map(|((host, _), _)| host).collect()
    }

    /// The localnet ports whose physical network has no bridge on some host with ports of the switch: these ports reach
    /// only each other.
    pub(crate) fn without_bridge_mapping(&self) -> BTreeSet<&str> {
        let cut_off = self.localnets.iter().filter(|(_, localnet)| {
            let mapped = |host: &&str| self.nodes[*host].mappings.contains_key(&localnet.network);
            !self.hosts_of(&localnet.switch).iter().all(mapped)
        });
        cut_off.map(|(id, _)| id.as_str()).collect()
    }

    /// The enabled trunk members that are nowhere because their parent, which is enabled, is nowhere.
    pub(crate) fn behind_unattached_parent(&self) -> BTreeSet<&str> {
        self.members(|id, parent| parent.enabled && self.location(id).is_none())
    }

    /// The enabled trunk members that are nowhere because their parent is not enabled.
    pub(crate) fn behind_disabled_parent(&self) -> BTreeSet<&str> {
        self.members(|_, parent| !parent.enabled)
    }

    /// The hosts with an interface of an enabled trunk member. It is ignored: a member uses its parent's.
    pub(crate) fn reporting_members(&self) -> BTreeSet<&str> {
        let members = self.members(|_, _| true);
        let ignored = self.vnics.keys().filter(|(_, port)| members.contains(port.as_str()));
        ignored.map(|(host, _)| host.as_str()).collect()
    }

    /// The ports with a report that is ignored: a host that the port does not request reports its interface. The port is
    /// enabled, and has an interface of its own.
    pub fn reported_elsewhere(&self) -> BTreeSet<&str> {
        let ignored = self.claims().filter(|(host, _, port)| !port.may_be_on(host));
        ignored.map(|(_, id, _)| id).collect()
    }

    /// The ports whose interface two hosts report, although nobody said that both may have it: one of them has taken the
    /// port from the other. The port is enabled, and has an interface of its own. A port that requests hosts may be on any
    /// of these, and moves between them without a problem.
    pub(crate) fn claimed_twice(&self) -> BTreeSet<&str> {
        let hosts = |id: &str| self.claims().filter(|(_, port, _)| *port == id).count();
        let twice = self.claims().filter(|(_, id, port)| port.requested_hosts.is_empty() && hosts(id) > 1);
        twice.map(|(_, id, _)| id).collect()
    }

    /// The ports of routers that are dead because their switch has a localnet port.
    pub(crate) fn routers_on_physical_networks(&self) -> BTreeSet<&str> {
        let dead = self
            .router_ports
            .iter()
            .filter(|(_, port)| self.localnet_of(&port.switch).is_some() && port.gateways.is_empty());
        dead.map(|(id, _)| id.as_str()).collect()
    }

    /// The ports of routers that are dead because they have gateways, but their switch no localnet port.
    pub(crate) fn gateways_without_physical_network(&self) -> BTreeSet<&str> {
        let dead = self
            .router_ports
            .iter()
            .filter(|(_, port)| self.localnet_of(&port.switch).is_none() && !port.gateways.is_empty());
        dead.map(|(id, _)| id.as_str()).collect()
    }

    /// The ports of routers with a gateway that has no bridge to their physical network.
    pub(crate) fn gateways_without_bridge(&self) -> BTreeSet<&str> {
        let ports = self
            .router_ports
            .iter()
            .filter(|(id, port)| self.is_outside(id) && self.gateways(id).len() < port.gateways.len());
        ports.map(|(id, _)| id.as_str()).collect()
    }

    /// The translations of routers without a port on a physical network.
    pub(crate) fn translations_nowhere(&self) -> BTreeSet<&str> {
        let has_outside = |router: &str| self.ports_of_router(router).any(|(id, _)| self.is_outside(id));
        let nowhere = self.nats.iter().filter(|(_, nat)| !has_outside(&nat.router));
        nowhere.map(|(id, _)| id.as_str()).collect()
    }

    /// The routes with a next hop that is in no network of their router: no packet takes it.
    pub(crate) fn routes_with_far_next_hops(&self) -> BTreeSet<&str> {
        let far = self.routes.iter().filter(|(_, route)| self.has_far_hop(&route.router, route.hops()));
        far.map(|(id, _)| id.as_str()).collect()
    }

    /// The policies with a next hop that is in no network of their router: no packet takes it.
    pub(crate) fn policies_with_far_next_hops(&self) -> BTreeSet<&str> {
        let far = self.route_policies.iter();
        let far = far.filter(|(_, policy)| self.has_far_hop(&policy.router, policy.hops()));
        far.map(|(id, _)| id.as_str()).collect()
    }

    fn has_far_hop(&self, router: &str, hops: &[IpAddr]) -> bool {
        hops.iter().any(|hop| self.connected(router, *hop).is_none())
    }

    /// The reports of hosts that count or would count: (host, port) of enabled ports with an interface of their own.
    fn claims(&self) -> impl Iterator<Item = (&String, &str, &Port)> {
        let of_ports = self.vnics.keys().filter_map(|(host, port)| {
            let (id, port) = self.ports.get_key_value(port)?;
            Some((host, id.as_str(), port))
        });
        of_ports
            .filter(|(host, _, port)| port.enabled && port.parent.is_none() && self.nodes.contains_key(*host))
    }

    /// The enabled trunk members for whose parent this holds.
    fn members(&self, holds: impl Fn(&str, &Port) -> bool) -> BTreeSet<&str> {
        let mut members = BTreeSet::new();
        for (id, port) in self.ports.iter().filter(|(_, port)| port.enabled) {
            let Some((parent, _)) = &port.parent else { continue };
            if self.ports.get(parent).is_some_and(|of| holds(parent, of)) {
                members.insert(id.as_str());
            }
        }
        members
    }

    /// The encapsulations that a host can use. Where one tunnel port serves all peers, it must exist. Where each peer has its
    /// own, a missing one is a problem of that pair alone, which the host shows itself.
    fn usable(&self, host: &str) -> Vec<Encap> {
        let Some(node) = self.nodes.get(host) else { return Vec::new() };
        let form = self.zone(&node.zone).map(|zone| zone.form);
        let exists = |encap: &Encap| form == Some(Form::Port) || self.can_use(host, *encap);
        node.encaps.iter().copied().filter(exists).collect()
    }
}
