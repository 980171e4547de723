//! The lab's hosts for recorded hosts: names, tunnel addresses and physical networks.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use lab::{Error, HostSpec, Lab, fitting_name, fitting_network};
use nlog_data::Value;
use objects::Object;
use weft_core::relocate::{Place, Recording};

use crate::exit::Failure;

/// The most hosts of a lab: each takes two daemons.
const HOSTS_MAX: usize = 250;
/// The MTU of the network between hosts, unless the recording says another, in bytes.
const UNDERLAY_MTU: u16 = 1500;
/// The lengths of prefixes that a network between hosts can have, the longest first.
const PREFIXES: std::ops::RangeInclusive<u8> = 8..=24;

/// Hosts to be built.
pub(super) struct Hosts {
    /// By their recorded names.
    built: Vec<Host>,
    /// Physical networks of the lab, by their recorded names.
    networks: BTreeMap<String, String>,
    /// The length of the prefix of the network between them.
    pub(super) prefix: u8,
    /// Its MTU, in bytes.
    pub(super) mtu: u16,
    /// Whether they have tunnel addresses of the lab.
    new_addresses: bool,
}

struct Host {
    /// The recorded name.
    node: String,
    spec: HostSpec,
    /// Its physical networks, as recorded.
    networks: Vec<String>,
}

impl Hosts {
    /// Those of these names.
    pub(super) fn of(recording: &Recording<'_>, names: &[String]) -> Result<Hosts, Failure> {
        let names: Vec<&String> =
            names.iter().collect::<BTreeSet<_>>().into_iter().filter(|name| !name.is_empty()).collect();
        if names.len() > HOSTS_MAX || names.is_empty() {
            return Err(Failure::Usage(format!(
                "--hosts names {} hosts; a lab has 1 to {HOSTS_MAX}",
                names.len()
            )));
        }
        let objects = names.iter().map(|name| recording.host(name).ok_or_else(|| unknown(recording, name)));
        let objects = objects.collect::<Result<Vec<_>, _>>()?;
        let recorded: Vec<Option<IpAddr>> = objects.iter().map(|object| ip(object)).collect();
        let all = recording.hosts().filter_map(|host| ip(host)).collect();
        let kept = kept_addresses(&recorded);
        let new_addresses = kept.is_none();
        let (addresses, prefix) = kept.unwrap_or_else(|| (new_addresses_beside(&all, objects.len()), 24));
        // The folder of the controller has this name.
        let mut taken = BTreeSet::from([lab::CONTROLLER.to_owned()]);
        let (mut networks, mut built) = (BTreeMap::new(), Vec::new());
        for (object, address) in objects.iter().zip(addresses) {
            let name = fitting_name(object.id(), |name| taken.contains(name));
            taken.insert(name.clone());
            let of_host = physical_networks(object);
            for network in &of_host {
                if !networks.contains_key(network) {
                    let name = fitting_network(network, |name| networks.values().any(|taken| taken == name));
                    networks.insert(network.clone(), name);
                }
            }
            let spec = HostSpec::new(name, address);
            built.push(Host { node: object.id().to_string(), spec, networks: of_host });
        }
        let mtu = objects.iter().filter_map(|object| underlay_mtu(recording, object)).max();
        Ok(Hosts { built, networks, prefix, mtu: mtu.unwrap_or(UNDERLAY_MTU), new_addresses })
    }

    /// How many.
    pub(super) fn len(&self) -> usize {
        self.built.len()
    }

    /// What the lab makes.
    pub(super) fn specs(&self) -> Vec<HostSpec> {
        self.built.iter().map(|host| host.spec.clone()).collect()
    }

    /// The names of the lab's physical networks.
    pub(super) fn networks(&self) -> impl Iterator<Item = &String> {
        self.networks.values()
    }

    /// Each host: its recorded name, and its name in the lab.
    pub(super) fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        self.built.iter().map(|host| (host.node.as_str(), host.spec.name.as_str()))
    }

    /// Where each host is in the lab, by its recorded name.
    pub(super) fn places(&self, lab: &Lab) -> Result<BTreeMap<String, Place>, Error> {
        let bridges: BTreeMap<String, String> = lab.bridge_mappings()?.into_iter().collect();
        let place = |host: &Host| {
            let built = lab.host(&host.spec.name)?;
            let bridge =
                |network: &String| Some((network.clone(), bridges.get(self.networks.get(network)?)?.clone()));
            let place = Place {
                ip: self.new_addresses.then_some(built.ip.into()),
                ovsdb: built.ovsdb_endpoint(),
                openflow: built.openflow_endpoint(),
                bridge_mappings: host.networks.iter().filter_map(bridge).collect(),
            };
            Ok((host.node.clone(), place))
        };
        self.built.iter().map(place).collect()
    }

    /// A line for each of them, and for what has another name in the lab.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for Host { node, spec, .. } in &self.built {
            let other =
                if *node == spec.name { String::new() } else { format!(", in the lab {}", spec.name) };
            text += &format!("host {node}{other}: tunnel address {}\n", spec.ip);
        }
        if self.new_addresses {
            text += "These tunnel addresses are not the recorded ones, which one IPv4 network of a lab cannot have.\n";
        }
        for (recorded, name) in self.networks.iter().filter(|(recorded, name)| recorded != name) {
            text += &format!("physical network {recorded}: in the lab {name}\n");
        }
        text
    }
}

/// The recording lacks a host.
fn unknown(recording: &Recording<'_>, name: &str) -> Failure {
    /// The most names in a message.
    const NAMES_MAX: usize = 20;
    let known: Vec<&str> = recording.hosts().map(|host| &**host.id()).collect();
    let near = openflow_rs::nearest(name, known.iter().copied());
    let near = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
    let more = known.len().saturating_sub(NAMES_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let list = match &known[..known.len().min(NAMES_MAX)] {
        [] => "it has none".to_owned(),
        names => format!("it has {}{more}", names.join(", ")),
    };
    Failure::Rejected(format!("the recording has no host {name}{near} ({list})"))
}

fn ip(host: &Object) -> Option<IpAddr> {
    match host.value("ip") {
        Some(Value::Ip(ip)) => Some(*ip),
        _ => None,
    }
}

/// The physical networks of a host: the first members of its bridge mappings.
fn physical_networks(host: &Object) -> Vec<String> {
    let Some(Value::Set(mappings)) = host.value("bridge_mappings") else { return Vec::new() };
    let network = |mapping: &Value| match mapping {
        Value::Record(members) => match members.first() {
            Some(Value::String(network)) => Some(network.to_string()),
            _ => None,
        },
        _ => None,
    };
    mappings.iter().filter_map(network).collect()
}

/// The MTU that the zone of a host has.
fn underlay_mtu(recording: &Recording<'_>, host: &Object) -> Option<u16> {
    let objects = recording.objects();
    let zones = objects.references(host).into_iter().filter_map(|key| objects.get(&key));
    let mtu = |zone: &std::sync::Arc<Object>| match zone.value("mtu") {
        Some(Value::Int(mtu)) => u16::try_from(*mtu).ok(),
        _ => None,
    };
    zones.filter_map(mtu).max()
}

/// The recorded addresses and the length of a prefix that they share, if a lab can have them. Its network is its own, so the addresses
/// may be in use elsewhere.
fn kept_addresses(recorded: &[Option<IpAddr>]) -> Option<(Vec<Ipv4Addr>, u8)> {
    let v4 = |ip: &Option<IpAddr>| match ip {
        Some(IpAddr::V4(ip)) => Some(*ip),
        _ => None,
    };
    let addresses: Vec<Ipv4Addr> = recorded.iter().map(v4).collect::<Option<_>>()?;
    let first = addresses.first()?.to_bits();
    let shared = |length: &u8| {
        let host = u32::MAX >> length;
        // Neither the network nor all of its hosts.
        addresses
            .iter()
            .map(|ip| ip.to_bits())
            .all(|ip| ip & !host == first & !host && ip & host != 0 && ip & host != host)
    };
    let prefix = PREFIXES.rev().find(shared)?;
    Some((addresses, prefix))
}

/// So many addresses of a network that has no recorded one.
fn new_addresses_beside(recorded: &BTreeSet<IpAddr>, count: usize) -> Vec<Ipv4Addr> {
    let network = |third: u8| (1..=250).map(move |last| Ipv4Addr::new(172, 31, third, last));
    let is_free = |third: &u8| !network(*third).any(|ip| recorded.contains(&IpAddr::V4(ip)));
    let third = (0..=u8::MAX).find(is_free).unwrap_or(0);
    network(third).take(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ips(texts: &[&str]) -> Vec<Option<IpAddr>> {
        texts.iter().map(|text| text.parse().ok()).collect()
    }

    #[test]
    fn recorded_tunnel_addresses_stay_in_the_smallest_network_that_has_them() {
        let prefix = |texts: &[&str]| kept_addresses(&ips(texts)).map(|(_, prefix)| prefix);
        assert_eq!(prefix(&["192.0.2.1", "192.0.2.7"]), Some(24));
        assert_eq!(prefix(&["10.0.3.1", "10.0.4.1"]), Some(21));
        // The broadcast address of a network of 256.
        assert_eq!(prefix(&["10.0.2.255"]), Some(23));
        assert_eq!(prefix(&["10.0.2.1", "10.0.3.0"]), Some(23));
        assert_eq!(prefix(&["10.0.0.1", "192.0.2.1"]), None);
        assert_eq!(prefix(&["2001:db8::1"]), None);
        assert_eq!(prefix(&["none"]), None);
    }

    #[test]
    fn other_tunnel_addresses_are_those_of_nobody() {
        let recorded = BTreeSet::from(["172.31.0.9", "172.31.1.1"].map(|ip| ip.parse().unwrap()));
        assert_eq!(
            new_addresses_beside(&recorded, 2),
            [Ipv4Addr::new(172, 31, 2, 1), Ipv4Addr::new(172, 31, 2, 2)]
        );
    }
}
