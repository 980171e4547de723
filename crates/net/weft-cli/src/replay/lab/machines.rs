//! Which machines a lab has on recorded hosts: one for each interface that a host reported, and one for each port behind its VLAN tags.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use lab::{Link, VmSpec, fitting_name};
use nlog_data::Value;
use objects::{Object, ObjectKey};
use openflow_rs::MacAddr;
use weft_core::relocate::{Interface, Recording};

use super::hosts::Hosts;

/// The machines of a lab.
pub(super) struct Machines {
    /// What the lab makes.
    pub(super) specs: Vec<VmSpec>,
    /// The interfaces of each host, by its recorded name.
    pub(super) interfaces: BTreeMap<String, u64>,
    /// By the name of a machine, the port that it has, if that has another name.
    ports: BTreeMap<String, String>,
}

impl Machines {
    /// Those of these hosts.
    pub(super) fn of(recording: &Recording<'_>, hosts: &Hosts) -> Machines {
        let known = Ports::of(recording);
        let mut machines =
            Machines { specs: Vec::new(), interfaces: BTreeMap::new(), ports: BTreeMap::new() };
        for (node, host) in hosts.names() {
            let interfaces = recording.interfaces(node);
            machines.interfaces.insert(node.to_owned(), interfaces.len() as u64);
            for interface in interfaces {
                machines.add(&interface, host, &known);
            }
        }
        machines
    }

    /// Adds the machine of an interface, and those behind it.
    fn add(&mut self, Interface { port, ofport, mac }: &Interface, host: &str, known: &Ports<'_>) {
        let name = self.name(port);
        let object = known.by_id.get(port.as_str()).copied();
        let mut spec = VmSpec::new(&name, host, port, "");
        spec.ofport = Some(*ofport);
        self.address(&mut spec, object, mac.parse().ok().filter(|mac| is_unicast(*mac)), known);
        let behind = object.map_or(&[][..], |object| known.behind(object));
        spec.trunk = !behind.is_empty();
        self.specs.push(spec);
        for (object, tag) in behind {
            let mut spec = VmSpec::behind(&name, *tag, self.name(object.id()), "");
            self.address(&mut spec, Some(object), None, known);
            self.specs.push(spec);
        }
    }

    /// A name for the machine of a port.
    fn name(&mut self, port: &str) -> String {
        let name = fitting_name(port, |name| self.specs.iter().any(|spec| spec.name == name));
        if name != port {
            self.ports.insert(name.clone(), port.to_owned());
        }
        name
    }

    /// Gives a machine the MAC address that its interface had, and the IP addresses that its port has with that, or else the first ones.
    fn address(
        &self,
        spec: &mut VmSpec,
        port: Option<&Arc<Object>>,
        mac: Option<MacAddr>,
        known: &Ports<'_>,
    ) {
        let addresses = port.map(|port| addresses(port)).unwrap_or_default();
        let of_port = addresses.iter().find(|(own, _)| Some(*own) == mac).or(addresses.first());
        let mac = mac.or(of_port.map(|(mac, _)| *mac));
        spec.mac = mac.unwrap_or_else(|| MacAddr::from_u64(LOCAL | self.specs.len() as u64)).to_string();
        let segment = port.map(|port| known.segment(port)).unwrap_or_default();
        for ip in of_port.map_or(&[][..], |(_, ips)| ips) {
            let router = segment.routers.iter().find(|net| net.contains(ip));
            let length = router.map_or_else(|| segment.prefix(*ip), IpNet::prefix_len);
            spec.addresses.push(format!("{ip}/{length}"));
            let is_first = spec.gateways.iter().all(|gateway| gateway.is_ipv4() != ip.is_ipv4());
            spec.gateways.extend(router.map(IpNet::addr).filter(|_| is_first));
        }
    }

    /// A machine and the address of another, if there are two.
    pub(super) fn pair(&self) -> Option<(&str, &str)> {
        let ip = |spec: &'_ VmSpec| spec.addresses.first()?.split('/').next().map(str::to_owned);
        let (from, own) = self.specs.iter().find_map(|spec| Some((spec, ip(spec)?)))?;
        let other = self.specs.iter().find(|spec| ip(spec).is_some_and(|ip| ip != own))?;
        Some((&from.name, other.addresses.first()?.split('/').next()?))
    }

    /// A line for each of them.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for spec in &self.specs {
            let place = match &spec.link {
                Link::Tag { parent, tag } => format!("behind {parent}, VLAN {tag}"),
                _ => format!("on {}", spec.host),
            };
            let port = self.ports.get(&spec.name).map_or(String::new(), |port| format!(" (port {port})"));
            text += &format!("machine {}{port}: {place}, {}", spec.name, spec.mac);
            for address in &spec.addresses {
                text += &format!(" {address}");
            }
            for gateway in &spec.gateways {
                text += &format!(" via {gateway}");
            }
            text.push('\n');
        }
        if self.specs.iter().any(|spec| !spec.addresses.is_empty() && spec.gateways.is_empty()) {
            text +=
                "Machines without `via` have no default route: no router has an address in their network.\n";
        }
        text
    }
}

/// A locally administered MAC address.
const LOCAL: u64 = 0x0a00_0000_0000;

fn is_unicast(mac: MacAddr) -> bool {
    mac.0[0] & 1 == 0 && mac.to_u64() != 0
}

/// The ports of a recording.
struct Ports<'a> {
    by_id: BTreeMap<&'a str, &'a Arc<Object>>,
    /// The ports behind VLAN tags of another, each with its tag.
    behind: BTreeMap<ObjectKey, Vec<(&'a Arc<Object>, u16)>>,
    /// By each object that ports and routers refer to, such as a switch, the addresses of both.
    segments: BTreeMap<ObjectKey, Segment>,
}

/// The addresses in the network of a switch.
#[derive(Debug, Default, Clone)]
struct Segment {
    ips: BTreeSet<IpAddr>,
    /// The addresses of routers, with their networks.
    routers: Vec<IpNet>,
}

impl<'a> Ports<'a> {
    fn of(recording: &'a Recording<'a>) -> Ports<'a> {
        let mut ports = Ports { by_id: BTreeMap::new(), behind: BTreeMap::new(), segments: BTreeMap::new() };
        for port in recording.ports() {
            ports.by_id.insert(port.id(), port);
            if let Some((parent, tag)) = parent(port) {
                ports.behind.entry(parent).or_default().push((port, tag));
            }
            let ips: Vec<IpAddr> = addresses(port).into_iter().flat_map(|(_, ips)| ips).collect();
            for key in switches(port) {
                ports.segments.entry(key).or_default().ips.extend(&ips);
            }
        }
        for (_, object) in recording.objects().iter() {
            let mut routers = Vec::new();
            object.values().iter().for_each(|value| interface_addresses(value, &mut routers));
            if !routers.is_empty() {
                for key in switches(object) {
                    ports.segments.entry(key).or_default().routers.extend(&routers);
                }
            }
        }
        ports
    }

    fn behind(&self, port: &Object) -> &[(&'a Arc<Object>, u16)] {
        self.behind.get(&port.key()).map_or(&[], Vec::as_slice)
    }

    /// The addresses in the network of a port's switch.
    fn segment(&self, port: &Object) -> Segment {
        switches(port).first().and_then(|key| self.segments.get(key)).cloned().unwrap_or_default()
    }
}

impl Segment {
    /// The length of a prefix that an address has in common with all others.
    fn prefix(&self, ip: IpAddr) -> u8 {
        let (bits, least, most) = if ip.is_ipv4() { (32, 8, 24) } else { (128, 16, 64) };
        let number = |ip: &IpAddr| match ip {
            IpAddr::V4(ip) => u128::from(ip.to_bits()),
            IpAddr::V6(ip) => ip.to_bits(),
        };
        let others = self.ips.iter().filter(|other| other.is_ipv4() == ip.is_ipv4());
        // Link-local addresses are no reason for a longer network.
        let is_local = |ip: &IpAddr| matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
        let others = others.filter(|other| is_local(other) == is_local(&ip));
        let differing = others.fold(0, |differing, other| differing | (number(other) ^ number(&ip)));
        let shared = bits - (128 - differing.leading_zeros());
        (shared as u8).clamp(least, most)
    }
}

/// What the field `switch` of an object refers to.
fn switches(object: &Object) -> Vec<ObjectKey> {
    let field = object.kind().declared().field("switch");
    field.map_or_else(Vec::new, |field| object.references_in(field))
}

/// The port whose interface this port shares, and the tag of its frames there.
fn parent(port: &Object) -> Option<(ObjectKey, u16)> {
    let parent = port.references_in(port.kind().declared().field("parent")?).into_iter().next()?;
    match port.value("tag")? {
        Value::Int(tag) => Some((parent, u16::try_from(*tag).ok()?)),
        _ => None,
    }
}

/// The MAC addresses of a port, each with its IP addresses.
fn addresses(port: &Object) -> Vec<(MacAddr, Vec<IpAddr>)> {
    let Some(Value::List(entries) | Value::Set(entries)) = port.value("addresses") else { return Vec::new() };
    let address = |entry: &Value| {
        let Value::Record(members) = entry else { return None };
        let mac = members.iter().find_map(|member| match member {
            Value::Mac(mac) => Some(*mac),
            _ => None,
        })?;
        let mut ips = Vec::new();
        members.iter().for_each(|member| gather(member, &mut ips));
        Some((mac, ips))
    };
    entries.iter().filter_map(address).collect()
}

/// The addresses in a value: of a machine that the network gives its own, a recording has none.
fn gather(value: &Value, ips: &mut Vec<IpAddr>) {
    match value {
        Value::Ip(ip) => ips.push(*ip),
        Value::List(values) | Value::Set(values) | Value::Record(values) => {
            values.iter().for_each(|value| gather(value, ips));
        }
        _ => {}
    }
}

/// The addresses with networks in a value.
fn interface_addresses(value: &Value, found: &mut Vec<IpNet>) {
    match value {
        Value::InterfaceAddress(address) => {
            found.extend(IpNet::new(address.ip(), address.length()));
        }
        Value::Set(values) | Value::List(values) | Value::Record(values) => {
            values.iter().for_each(|value| interface_addresses(value, found));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};
    use weft_core::record::Record;
    use weft_core::rules::Rules;

    use super::*;

    fn record(objects: &[Json], vifs: &Json) -> Record {
        let revisions = vec![(1, 1); objects.len()];
        let record = json!({
            "txn": 3, "at": "2026-11-27T00:00:00Z", "by": "base", "insert": {"vif": vifs}, "objects": {"put": objects},
            "base": {"format": 1, "journal": "j", "sum": 5, "revisions": revisions},
        });
        serde_json::from_value(record).unwrap()
    }

    fn port(id: &str, mac: &str, ips: &[&str]) -> Json {
        json!({"kind": "switch_port", "id": id, "switch": "blue", "addresses": [{"mac": mac, "ips": ips}]})
    }

    #[test]
    fn machines_have_the_addresses_of_their_interfaces_and_ports() {
        let node = |id: &str, ip: &str| json!({"kind": "transport_node", "id": id, "ip": ip, "ovsdb": format!("unix:/{id}")});
        let objects = [
            node("hv1", "192.0.2.1"),
            node("HV.2", "192.0.2.2"),
            json!({"kind": "switch", "id": "blue"}),
            port("far", "02:00:00:00:00:01", &["10.0.1.5", "fd00::5", "fe80::5"]),
            port("near", "02:00:00:00:00:02", &["10.0.2.9"]),
            json!({"kind": "switch_port", "id": "bare", "switch": "blue", "unknown_addresses": true}),
        ];
        let vifs = json!([
            ["HV.2", "far", 4, "", 2],
            ["hv1", "bare", 7, "no address", 2],
            ["hv1", "far", 3, "02:00:00:00:00:01", 3],
            ["hv1", "near", 5, "02:00:00:00:00:77", 2],
        ]);
        let (record, rules) = (record(&objects, &vifs), Rules::built_in().unwrap());
        let recording = Recording::of(&record, &rules).unwrap();
        let hosts = Hosts::of(&recording, &["hv1".to_owned(), "HV.2".to_owned()]).unwrap();
        assert_eq!(hosts.names().collect::<Vec<_>>(), [("HV.2", "hv-2"), ("hv1", "hv1")]);
        let machines = Machines::of(&recording, &hosts);
        assert_eq!(machines.interfaces, BTreeMap::from([("HV.2".to_owned(), 1), ("hv1".to_owned(), 3)]));
        // No router: the network is the smallest that has the addresses of all ports.
        let expected = "\
            machine far: on hv-2, 02:00:00:00:00:01 10.0.1.5/22 fd00::5/64 fe80::5/64\n\
            machine bare: on hv1, 0a:00:00:00:00:01\n\
            machine far-2 (port far): on hv1, 02:00:00:00:00:01 10.0.1.5/22 fd00::5/64 fe80::5/64\n\
            machine near: on hv1, 02:00:00:00:00:77 10.0.2.9/22\n\
            Machines without `via` have no default route: no router has an address in their network.\n";
        assert_eq!(machines.text(), expected);
        assert_eq!(
            machines.specs.iter().map(|spec| spec.ofport).collect::<Vec<_>>(),
            [Some(4), Some(7), Some(3), Some(5)]
        );
        assert_eq!(machines.pair(), Some(("far", "10.0.2.9")));
    }
}
