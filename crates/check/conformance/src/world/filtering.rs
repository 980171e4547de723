//! ACLs, what they refer to, and their changes.

use std::collections::BTreeSet;

use network_spec::{Acl, AclDefault, AclPlace, Peers, World};

use super::change::agree;
use super::{Change, NumberedWorld};

/// The last tier.
pub(super) const LAST_TIER: u8 = 3;
/// The highest priority of ACLs.
pub(super) const GREATEST_PRIORITY: i64 = 10_000;

impl NumberedWorld {
    /// Whether ACLs could drop anything.
    pub fn is_filtered(&self) -> bool {
        !self.acls.is_empty() || self.switches.values().any(|switch| switch.acl_default == AclDefault::Drop)
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
        let acls = of_it.map(|(name, _)| Change::NoAcl(name.clone()));
        acls.chain(self.without_services(switch)).collect()
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
            || !self.without_services(switch).is_empty()
    }

    /// Makes a change of ACLs or of what they refer to.
    pub(super) fn change_filtering(&mut self, change: Change) {
        let World { acls, address_groups, port_groups, switches, ports, .. } = &mut self.network;
        match change {
            Change::Acl(name, acl) => drop(acls.insert(name, acl)),
            Change::NoAcl(name) => drop(acls.remove(&name)),
            Change::AddressGroup(name, addresses) => drop(address_groups.insert(name, addresses)),
            Change::NoAddressGroup(name) => drop(address_groups.remove(&name)),
            Change::PortGroup(name, ports) => drop(port_groups.insert(name, ports)),
            Change::NoPortGroup(name) => drop(port_groups.remove(&name)),
            Change::AclDefault(switch, default) => {
                switches.entry(switch).or_default().acl_default = default;
            }
            Change::Label(port, key, value) => {
                let labels = &mut ports.entry(port).or_default().labels;
                match value {
                    Some(value) => drop(labels.insert(key, value)),
                    None => drop(labels.remove(&key)),
                }
            }
            _ => {}
        }
    }

    /// Whether a change of ACLs or of what they refer to is valid now.
    pub(super) fn accepts_filtering(&self, change: &Change) -> bool {
        match change {
            Change::Acl(name, acl) => self.acls.get(name) != Some(acl) && self.accepts_acl(acl),
            Change::NoAcl(name) => self.acls.contains_key(name),
            Change::AddressGroup(name, addresses) => {
                self.address_groups.get(name) != Some(addresses)
                    && addresses.iter().all(|network| *network == network.prefix())
            }
            Change::NoAddressGroup(name) => {
                self.address_groups.contains_key(name)
                    && !self.is_peer(|peers| *peers == Peers::AddressGroup(name.clone()))
            }
            Change::PortGroup(name, ports) => {
                let mut ports_of = |group: &str| (group == name).then_some(ports);
                self.port_groups.get(name) != Some(ports)
                    && ports.iter().all(|port| self.ports.contains_key(port))
                    && ports.iter().all(|port| {
                        Some(self.tenant_of(port)) == ports.first().map(|one| self.tenant_of(one))
                    })
                    && self.filters_agree(&mut ports_of, &|_| None)
            }
            Change::NoPortGroup(name) => {
                self.port_groups.contains_key(name)
                    && !self.is_peer(|peers| *peers == Peers::PortGroup(name.clone()))
                    && !self.acls.values().any(|acl| acl.place == AclPlace::PortGroup(name.clone()))
            }
            Change::AclDefault(switch, default) => {
                self.switches.get(switch).is_some_and(|switch| switch.acl_default != *default)
            }
            Change::Label(port, key, value) => {
                self.ports.get(port).is_some_and(|port| port.labels.get(key) != value.as_ref())
            }
            _ => false,
        }
    }

    fn accepts_acl(&self, acl: &Acl) -> bool {
        let exists = match &acl.place {
            AclPlace::Switch(switch) => self.switches.contains_key(switch),
            AclPlace::Port(port) => self.ports.contains_key(port),
            AclPlace::PortGroup(group) => self.port_groups.contains_key(group),
        };
        let is_known = |peers: &Peers| match peers {
            Peers::AddressGroup(group) => self.address_groups.contains_key(group),
            Peers::PortGroup(group) => self.port_groups.contains_key(group),
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
        let groups_agree = self.port_groups.keys().all(|group| {
            let ports = members(group).or_else(|| self.port_groups.get(group));
            let mut tenants: Vec<&str> =
                ports.into_iter().flatten().map(|port| self.tenant_of_port(port, tenant_of)).collect();
            tenants.sort_unstable();
            tenants.dedup();
            tenants.len() <= 1
        });
        groups_agree && self.acls.values().all(|acl| self.peers_agree(acl, members, tenant_of))
    }

    fn peers_agree<'a>(
        &'a self,
        acl: &Acl,
        members: &mut dyn FnMut(&str) -> Option<&'a BTreeSet<String>>,
        tenant_of: &dyn Fn(&str) -> Option<&'a str>,
    ) -> bool {
        let mut of_group = |group: &str| {
            let ports = members(group).or_else(|| self.port_groups.get(group));
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
        tenant_of(switch).or_else(|| self.switches.get(switch).map(|switch| &*switch.tenant)).unwrap_or("")
    }

    /// The tenant of a port's switch; "" if there is none.
    pub fn tenant_of(&self, port: &str) -> &str {
        self.tenant_of_port(port, &|_| None)
    }
}
