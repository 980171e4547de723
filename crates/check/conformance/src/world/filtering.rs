//! ACLs, what they refer to, and their changes.

use std::collections::{BTreeMap, BTreeSet};

pub use network_spec::{Acl, AclAction, AclPlace, AclProtocol, Direction, EtherType, PacketMatch, Peers};

use super::change::agree;
use super::{Change, Network, World};

/// The last tier.
pub(super) const LAST_TIER: u8 = 3;
/// The highest priority of ACLs.
pub(super) const GREATEST_PRIORITY: i64 = 10_000;

/// Labels by key.
pub type Labelled = BTreeMap<String, String>;

/// ACLs and what they refer to, each by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filtering {
    /// ACLs.
    pub acls: BTreeMap<String, Acl>,
    /// Groups of addresses.
    pub address_groups: BTreeMap<String, Vec<Network>>,
    /// Groups of ports of one tenant.
    pub port_groups: BTreeMap<String, BTreeSet<String>>,
    /// The switches that drop what no ACL matches.
    pub dropping: BTreeSet<String>,
    /// The labels of ports that have any.
    pub labels: BTreeMap<String, Labelled>,
}

impl Filtering {
    /// Whether ACLs could drop anything.
    pub fn is_used(&self) -> bool {
        !self.acls.is_empty() || !self.dropping.is_empty()
    }

    /// The changes after which nothing refers to these ports.
    pub(crate) fn without_ports(&self, ports: &BTreeSet<&str>) -> Vec<Change> {
        let of_them = self
            .acls
            .iter()
            .filter(|(_, acl)| matches!(&acl.place, AclPlace::Port(port) if ports.contains(port.as_str())));
        let groups = self.port_groups.iter().filter_map(|(name, members)| {
            let left: BTreeSet<String> =
                members.iter().filter(|port| !ports.contains(port.as_str())).cloned().collect();
            (left.len() < members.len()).then(|| Change::PortGroup(name.clone(), left))
        });
        of_them.map(|(name, _)| Change::NoAcl(name.clone())).chain(groups).collect()
    }

    /// The changes after which nothing refers to a switch.
    pub fn without_switch(&self, switch: &str) -> Vec<Change> {
        let of_it =
            self.acls.iter().filter(|(_, acl)| matches!(&acl.place, AclPlace::Switch(of) if of == switch));
        of_it.map(|(name, _)| Change::NoAcl(name.clone())).collect()
    }

    /// Whether an ACL refers to a group as one of its peers.
    fn is_peer(&self, wanted: impl Fn(&Peers) -> bool) -> bool {
        self.acls.values().flat_map(|acl| acl.from.iter().chain(&acl.to)).any(wanted)
    }

    pub(super) fn refers_to_port(&self, port: &str) -> bool {
        self.acls.values().any(|acl| acl.place == AclPlace::Port(port.to_owned()))
            || self.port_groups.values().any(|members| members.contains(port))
    }

    pub(super) fn refers_to_switch(&self, switch: &str) -> bool {
        self.acls.values().any(|acl| acl.place == AclPlace::Switch(switch.to_owned()))
    }
}

impl World {
    /// Makes a change of ACLs or of what they refer to.
    pub(super) fn change_filtering(&mut self, change: Change) {
        let filtering = &mut self.filtering;
        match change {
            Change::Acl(name, acl) => drop(filtering.acls.insert(name, acl)),
            Change::NoAcl(name) => drop(filtering.acls.remove(&name)),
            Change::AddressGroup(name, addresses) => drop(filtering.address_groups.insert(name, addresses)),
            Change::NoAddressGroup(name) => drop(filtering.address_groups.remove(&name)),
            Change::PortGroup(name, ports) => drop(filtering.port_groups.insert(name, ports)),
            Change::NoPortGroup(name) => drop(filtering.port_groups.remove(&name)),
            Change::AclDefault(switch, true) => drop(filtering.dropping.insert(switch)),
            Change::AclDefault(switch, false) => drop(filtering.dropping.remove(&switch)),
            Change::Label(port, key, value) => {
                let labels = filtering.labels.entry(port.clone()).or_default();
                match value {
                    Some(value) => drop(labels.insert(key, value)),
                    None => drop(labels.remove(&key)),
                }
                if labels.is_empty() {
                    filtering.labels.remove(&port);
                }
            }
            _ => {}
        }
    }

    /// Whether a change of ACLs or of what they refer to is valid now.
    pub(super) fn accepts_filtering(&self, change: &Change) -> bool {
        let filtering = &self.filtering;
        match change {
            Change::Acl(name, acl) => filtering.acls.get(name) != Some(acl) && self.accepts_acl(acl),
            Change::NoAcl(name) => filtering.acls.contains_key(name),
            Change::AddressGroup(name, addresses) => {
                filtering.address_groups.get(name) != Some(addresses)
                    && addresses.iter().all(|network| *network == network.prefix())
            }
            Change::NoAddressGroup(name) => {
                filtering.address_groups.contains_key(name)
                    && !filtering.is_peer(|peers| *peers == Peers::AddressGroup(name.clone()))
            }
            Change::PortGroup(name, ports) => {
                let mut ports_of = |group: &str| (group == name).then_some(ports);
                filtering.port_groups.get(name) != Some(ports)
                    && ports.iter().all(|port| self.ports.contains_key(port))
                    && ports.iter().all(|port| {
                        Some(self.tenant_of(port)) == ports.first().map(|one| self.tenant_of(one))
                    })
                    && self.filters_agree(&mut ports_of, &|_| None)
            }
            Change::NoPortGroup(name) => {
                filtering.port_groups.contains_key(name)
                    && !filtering.is_peer(|peers| *peers == Peers::PortGroup(name.clone()))
                    && !filtering.acls.values().any(|acl| acl.place == AclPlace::PortGroup(name.clone()))
            }
            Change::AclDefault(switch, drops) => {
                self.switches.contains_key(switch) && filtering.dropping.contains(switch) != *drops
            }
            Change::Label(port, key, value) => {
                let now = filtering.labels.get(port).and_then(|labels| labels.get(key));
                self.ports.contains_key(port) && now != value.as_ref()
            }
            _ => false,
        }
    }

    fn accepts_acl(&self, acl: &Acl) -> bool {
        let exists = match &acl.place {
            AclPlace::Switch(switch) => self.switches.contains_key(switch),
            AclPlace::Port(port) => self.ports.contains_key(port),
            AclPlace::PortGroup(group) => self.filtering.port_groups.contains_key(group),
        };
        let is_known = |peers: &Peers| match peers {
            Peers::AddressGroup(group) => self.filtering.address_groups.contains_key(group),
            Peers::PortGroup(group) => self.filtering.port_groups.contains_key(group),
            Peers::Net(_) | Peers::Labels(_) => true,
        };
        exists
            && acl.tier <= LAST_TIER
            && (0..=GREATEST_PRIORITY).contains(&acl.priority)
            && acl.from.iter().chain(&acl.to).all(is_known)
            && self.peers_agree(acl, &mut |_| None, &|_| None)
    }

    /// Whether nothing of one tenant refers to what belongs to another once some port groups have these members, and some
    /// switches these tenants. The ports of a group are all of one tenant, or all of none.
    pub(super) fn filters_agree<'a>(
        &'a self,
        members: &mut dyn FnMut(&str) -> Option<&'a BTreeSet<String>>,
        tenant_of: &dyn Fn(&str) -> Option<&'a str>,
    ) -> bool {
        // A group that is new is in no ACL.
        let groups_agree = self.filtering.port_groups.keys().all(|group| {
            let ports = members(group).or_else(|| self.filtering.port_groups.get(group));
            let mut tenants: Vec<&str> =
                ports.into_iter().flatten().map(|port| self.tenant_of_port(port, tenant_of)).collect();
            tenants.sort_unstable();
            tenants.dedup();
            tenants.len() <= 1
        });
        groups_agree && self.filtering.acls.values().all(|acl| self.peers_agree(acl, members, tenant_of))
    }

    fn peers_agree<'a>(
        &'a self,
        acl: &Acl,
        members: &mut dyn FnMut(&str) -> Option<&'a BTreeSet<String>>,
        tenant_of: &dyn Fn(&str) -> Option<&'a str>,
    ) -> bool {
        let mut of_group = |group: &str| {
            let ports = members(group).or_else(|| self.filtering.port_groups.get(group));
            ports.and_then(BTreeSet::first).map_or("", |port| self.tenant_of_port(port, tenant_of))
        };
        let own = match &acl.place {
            AclPlace::Switch(switch) => self.tenant_of_switch(switch, tenant_of),
            AclPlace::Port(port) => self.tenant_of_port(port, tenant_of),
            AclPlace::PortGroup(group) => of_group(group),
        };
        acl.from.iter().chain(&acl.to).all(|peers| match peers {
            Peers::PortGroup(group) => agree(Some(own), Some(of_group(group))),
            Peers::AddressGroup(_) | Peers::Net(_) | Peers::Labels(_) => true,
        })
    }

    fn tenant_of_port<'a>(&'a self, port: &str, tenant_of: &dyn Fn(&str) -> Option<&'a str>) -> &'a str {
        self.ports.get(port).map_or("", |port| self.tenant_of_switch(&port.switch, tenant_of))
    }

    fn tenant_of_switch<'a>(&'a self, switch: &str, tenant_of: &dyn Fn(&str) -> Option<&'a str>) -> &'a str {
        tenant_of(switch).or_else(|| self.switches.get(switch).map(String::as_str)).unwrap_or("")
    }

    /// The tenant of a port's switch; "" if there is none.
    pub fn tenant_of(&self, port: &str) -> &str {
        self.tenant_of_port(port, &|_| None)
    }
}
