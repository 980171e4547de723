//! What a port is beside its name, and what hosts forget when it becomes another.

use std::collections::{BTreeMap, BTreeSet};

use crate::World;

/// A port is the same as long as this is: what hosts know of it (connections, addresses that were learned there, announcements), and
/// what is on its way to it, is of no use to the machine that is there afterwards, and none of its business. Addresses, port security,
/// ACLs and the host are not part of it: a machine that gets another address or migrates keeps its connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    switch: String,
    tenant: String,
    /// The parent or the physical network, and the VLAN; or the router.
    place: Option<(String, u16)>,
}

impl World {
    /// What a port, a localnet port or a port of a router is.
    pub(crate) fn identity(&self, port: &str) -> Option<Identity> {
        let of_port = self.ports.get(port).map(|port| (&port.switch, port.parent.clone()));
        let of_localnet = || {
            let localnet = self.localnets.get(port)?;
            Some((&localnet.switch, Some((localnet.network.clone(), localnet.tag))))
        };
        let of_router = || {
            let port = self.router_ports.get(port)?;
            Some((&port.switch, Some((port.router.clone(), 0))))
        };
        let (switch, place) = of_port.or_else(of_localnet).or_else(of_router)?;
        let tenant = self.switches.get(switch).map_or(String::new(), |switch| switch.tenant.clone());
        Some(Identity { switch: switch.clone(), tenant, place })
    }

    /// All ports of these kinds, with what they are.
    pub(crate) fn identities(&self) -> BTreeMap<String, Identity> {
        let all = self.ports.keys().chain(self.localnets.keys()).chain(self.router_ports.keys());
        all.filter_map(|port| Some((port.clone(), self.identity(port)?))).collect()
    }

    /// The ports that are another now than they were, or are gone.
    pub(crate) fn others_than(&self, before: &BTreeMap<String, Identity>) -> BTreeSet<String> {
        let is_other = |port: &str, was: &Identity| self.identity(port).as_ref() != Some(was);
        before.iter().filter(|(port, was)| is_other(port, was)).map(|(port, _)| port.clone()).collect()
    }
}
