//! DHCP servers and DNS zones: what changes of them are valid.

use std::collections::BTreeSet;
use std::net::IpAddr;

use network_spec::{Address, Dhcp, DnsData, DnsZone, Server};

use super::change::agree;
use super::{Change, NumberedWorld};

impl NumberedWorld {
    /// Makes a change of servers.
    pub(super) fn change_services(&mut self, change: Change) {
        match change {
            Change::Dhcp(name, dhcp) => drop(self.network.dhcps.insert(name, dhcp)),
            Change::NoDhcp(name) => drop(self.network.dhcps.remove(&name)),
            Change::DnsZone(name, zone) => drop(self.network.dns_zones.insert(name, zone)),
            Change::NoDnsZone(name) => drop(self.network.dns_zones.remove(&name)),
            _ => {}
        }
    }

    /// Whether a change of servers is valid now.
    pub(super) fn accepts_services(&self, change: &Change) -> bool {
        match change {
            Change::Dhcp(name, dhcp) => self.dhcps.get(name) != Some(dhcp) && self.accepts_dhcp(name, dhcp),
            Change::NoDhcp(name) => self.dhcps.contains_key(name),
            Change::DnsZone(name, zone) => {
                self.dns_zones.get(name) != Some(zone) && self.accepts_zone(name, zone)
            }
            Change::NoDnsZone(name) => self.dns_zones.contains_key(name),
            _ => false,
        }
    }

    fn accepts_dhcp(&self, name: &str, dhcp: &Dhcp) -> bool {
        let is_ipv4 = dhcp.net.ip.is_ipv4();
        let mut others = self.dhcps.iter().filter(|(other, _)| *other != name);
        self.switches.contains_key(&dhcp.switch)
            && dhcp.net == dhcp.net.prefix()
            && others.all(|(_, other)| other.switch != dhcp.switch || !other.net.overlaps(dhcp.net))
            && dhcp.router.is_none_or(|router| is_ipv4 && dhcp.net.contains(router.into()))
            && dhcp.dns.iter().chain([&dhcp.server.ip]).all(|ip| ip.is_ipv4() == is_ipv4)
            && (is_ipv4 || (dhcp.mtu.is_none() && dhcp.domain_name.is_none() && dhcp.other.is_empty()))
            && self.accepts_server(&dhcp.switch, dhcp.server, name)
            && !self
                .given_on(&dhcp.switch)
                .iter()
                .any(|ip| dhcp.dns.contains(ip) || dhcp.router.map(IpAddr::from) == Some(*ip))
    }

    fn accepts_zone(&self, name: &str, zone: &DnsZone) -> bool {
        let tenants = zone.switches.iter().map(|switch| self.switches.get(switch).map(|of| &*of.tenant));
        let tenants: Vec<Option<&str>> = tenants.collect();
        let server =
            |switch: &String| zone.server.is_none_or(|server| self.accepts_server(switch, server, name));
        !zone.switches.is_empty()
            && tenants.iter().all(Option::is_some)
            && tenants.iter().all(|one| tenants.iter().all(|other| agree(*one, *other)))
            && zone.switches.iter().all(|switch| server(switch) && self.accepts_names(switch, name, zone))
    }

    /// Whether the names of a switch are as they must be with this zone: each is in one zone, and no name is another name for one that is
    /// another name itself.
    fn accepts_names(&self, switch: &str, name: &str, zone: &DnsZone) -> bool {
        let others =
            self.dns_zones.iter().filter(|(other, of)| *other != name && of.switches.contains(switch));
        let zones: Vec<&DnsZone> = others.map(|(_, other)| other).chain([zone]).collect();
        let records = || zones.iter().flat_map(|zone| &zone.records);
        let mut names = BTreeSet::new();
        let is_alias = |name: &str| {
            records()
                .any(|(other, data)| other.eq_ignore_ascii_case(name) && matches!(data, DnsData::Alias(_)))
        };
        records().all(|(name, data)| {
            let is_single = match data {
                DnsData::Addresses(ips) => !ips.is_empty(),
                DnsData::Alias(target) => !is_alias(target),
            };
            is_single && names.insert(name.to_ascii_lowercase())
        })
    }

    /// Whether a server on a switch may have these addresses: nobody else has them, but another server there may be the same.
    fn accepts_server(&self, switch: &str, server: Server, but: &str) -> bool {
        let others = self.dhcps.iter().filter(|(name, dhcp)| *name != but && dhcp.switch == switch);
        let zones =
            self.dns_zones.iter().filter(|(name, zone)| *name != but && zone.switches.contains(switch));
        let mut others = others.map(|(_, dhcp)| dhcp.server).chain(zones.filter_map(|(_, zone)| zone.server));
        let address = Address { mac: server.mac, ips: vec![server.ip] };
        let of_routers = self.router_ports_on(switch).map(|(_, port)| port.address());
        let mut all = self.addresses_but(switch, "").into_iter().chain(of_routers);
        others.all(|other| other.ip != server.ip || other.mac == server.mac)
            && !all.any(|other| super::conflict(&other, &address))
            && !self.is_shared(switch, &address)
    }

    /// Whether each zone is of one tenant once a switch belongs to this one.
    pub(super) fn zones_agree(&self, renamed: &str, tenant: &str) -> bool {
        let tenant_of = |switch: &str| {
            let own = self.switches.get(switch).map(|switch| &*switch.tenant);
            if switch == renamed { Some(tenant) } else { own }
        };
        let with = self.dns_zones.values().filter(|zone| zone.switches.contains(renamed));
        with.flat_map(|zone| &zone.switches).all(|other| agree(tenant_of(other), Some(tenant)))
    }

    /// The changes after which no server refers to a switch.
    pub(super) fn without_services(&self, switch: &str) -> Vec<Change> {
        let dhcps = self.dhcps.iter().filter(|(_, dhcp)| dhcp.switch == switch);
        let zones = self.dns_zones.iter().filter(|(_, zone)| zone.switches.contains(switch));
        let dhcps = dhcps.map(|(name, _)| Change::NoDhcp(name.clone()));
        dhcps.chain(zones.map(|(name, _)| Change::NoDnsZone(name.clone()))).collect()
    }

    /// Whether a switch has servers of an IP version of DHCP, or any for names.
    pub(crate) fn serves(&self, switch: &str) -> bool {
        !self.without_services(switch).is_empty()
    }

    /// The addresses that zones name.
    pub(crate) fn named_addresses(&self) -> Vec<IpAddr> {
        let records = self.dns_zones.values().flat_map(|zone| zone.records.values());
        let addresses = records.filter_map(|data| match data {
            DnsData::Addresses(ips) => Some(ips),
            DnsData::Alias(_) => None,
        });
        addresses.flatten().copied().collect()
    }
}
