//! Random objects.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use network_spec::{Address, Encap, Form, Learning, Localnet, Node, Port, Trust, World, Zone};

use super::Generator;
use crate::frames::link_local;
use crate::world::Change;

/// Physical networks and their bridges, which some hosts have exchanged.
pub(super) const NETWORKS: [(&str, &str); 2] = [("net1", "br-one"), ("net2", "br-two")];

/// The roles of nodes.
const ROLES: [&str; 3] = ["hypervisor", "gateway", "service_node"];

impl Generator<'_> {
    pub(super) fn zone(&mut self, name: &str) -> Change {
        let form = *self.random.pick(&[Form::Flow, Form::Port]);
        let form = if self.style.paired { Form::Port } else { form };
        let mtu = *self.random.pick(&[1500, 1280, 9000]);
        let check_sources = self.random.chance(80);
        Change::Zone(name.to_owned(), Zone { form, mtu, check_sources })
    }

    pub(super) fn node(&mut self, name: &str) -> Change {
        let ip = match self.world.nodes.get(name) {
            Some(node) if self.random.chance(80) => node.ip,
            _ => self.endpoint(),
        };
        let mut encaps = Encap::ALL.to_vec();
        self.random.shuffle(&mut encaps);
        encaps.truncate(*self.random.pick(&[1, 2, 2, 3, 4]));
        if self.style.geneve && self.random.chance(95) {
            encaps.retain(|encap| *encap != Encap::Geneve);
            encaps.insert(0, Encap::Geneve);
        }
        if self.style.relayed {
            encaps = vec![if self.style.geneve { Encap::Geneve } else { Encap::Vxlan }];
        }
        let zones: Vec<String> = self.world.zones.keys().cloned().collect();
        let zone = if self.style.one_zone { String::new() } else { self.random.pick(&zones).clone() };
        let mapped = *self.random.pick(&[80, 80, 100, 0]);
        let mapped = if self.style.translated { 95 } else { mapped };
        let mut mappings: Vec<(String, String)> = Vec::new();
        let mut bridges = NETWORKS.map(|(_, bridge)| bridge);
        if self.random.chance(20) {
            bridges.reverse();
        }
        for ((network, _), bridge) in NETWORKS.into_iter().zip(bridges) {
            if self.random.chance(mapped) {
                mappings.push((network.to_owned(), bridge.to_owned()));
            }
        }
        let mut roles = ROLES.map(str::to_owned).to_vec();
        self.random.shuffle(&mut roles);
        roles.truncate(*self.random.pick(&[1, 1, 2, 3]));
        if self.style.outside && !roles.iter().any(|role| role == "gateway") {
            roles.push("gateway".to_owned());
        }
        let schedulable = !self.upkeep.chance(self.style.cordoned);
        let drain = self.upkeep.chance(self.style.cordoned);
        let node =
            Node { ip, zone, encaps, mappings: mappings.into_iter().collect(), roles, schedulable, drain };
        Change::Node(name.to_owned(), node)
    }

    /// The address of a tunnel endpoint.
    fn endpoint(&mut self) -> IpAddr {
        let last = self.random.below(250) as u8 + 1;
        if self.random.chance(self.style.six) {
            Ipv6Addr::new(0xfd00, 0, 0, 0xac10, 0, 0, 0, last.into()).into()
        } else {
            Ipv4Addr::new(172, 16, 0, last).into()
        }
    }

    pub(super) fn learning(&mut self, switch: &str) -> Change {
        let limit = *self.limits.pick(&[0, 1, 1, 2, 2, 3, 4096]);
        let age = Duration::from_secs(*self.limits.pick(&[1, 59, 60, 300, 300, 301, 1000]));
        Change::Learning(switch.to_owned(), Learning { limit, age })
    }

    pub(super) fn localnet(&mut self, switch: &str) -> Vec<Change> {
        let name = self.new_name("l");
        let network = self.random.pick(&NETWORKS).0.to_owned();
        let tag = *self.random.pick(&[0, 0, 5, 6, 7, 4094]);
        // A localnet port on another switch's VLAN is skipped.
        vec![Change::Localnet(name, Localnet { switch: switch.to_owned(), network, tag })]
    }

    pub(super) fn new_port(&mut self, switch: &str) -> (String, Vec<Change>) {
        let name = self.new_name("p");
        let port = self.port(&name, switch);
        (name.clone(), vec![Change::Port(name, port)])
    }

    pub(super) fn port(&mut self, name: &str, switch: &str) -> Port {
        let unknown_addresses = self.random.chance(self.style.unknown);
        let port_security = !unknown_addresses && self.random.chance(self.style.secured);
        let macs = *self.random.pick(if unknown_addresses { &[0, 0, 1, 1] } else { &[1, 1, 1, 1, 2, 0] });
        let taken = self.world.addresses_but(switch, name);
        let mut addresses: Vec<Address> = Vec::new();
        for _ in 0..macs {
            let number = self.random.below(12) as u8 + 1;
            let mac = [2, 0, 0, 0, if self.style.alike { 0 } else { switch.as_bytes()[1] }, number];
            if taken.iter().chain(&addresses).all(|other| other.mac != mac) {
                let mut ips = self.ips(number, mac);
                if self.style.routed {
                    self.move_to_network(switch, number, &mut ips);
                }
                addresses.push(Address { mac, ips });
            }
        }
        let dynamic = self.dynamic(&mut addresses);
        let parent = if self.random.chance(self.style.behind) { self.parent(name) } else { None };
        let enabled = !self.random.chance(self.style.disabled);
        let requested_hosts = self.requested();
        let trust = self.trust();
        let allowed = self.allowed(&addresses);
        Port {
            addresses,
            dynamic,
            allowed,
            port_security,
            unknown_addresses,
            trust,
            parent,
            enabled,
            requested_hosts,
            ..Port::of(switch)
        }
    }

    /// What a port is trusted with: mostly nothing. Without port security this has no effect.
    fn trust(&mut self) -> BTreeSet<Trust> {
        if !self.random.chance(35) {
            return BTreeSet::new();
        }
        Trust::ALL.into_iter().filter(|_| self.random.chance(50)).collect()
    }

    /// The hosts that a port requests: none, or about half of them.
    pub(super) fn requested(&mut self) -> Vec<String> {
        if !self.random.chance(self.style.requesting) {
            return Vec::new();
        }
        let hosts: Vec<String> = self.world.nodes.keys().cloned().collect();
        let mut chosen: Vec<String> = hosts.into_iter().filter(|_| self.random.chance(55)).collect();
        self.moves.shuffle(&mut chosen);
        chosen
    }

    fn ips(&mut self, number: u8, mac: [u8; 6]) -> Vec<IpAddr> {
        let mut ips = Vec::new();
        let net = if self.style.alike { 0 } else { self.random.below(2) as u8 };
        let (four, six) =
            *self.random.pick(&[(0, 0), (1, 0), (1, 0), (1, 1), (1, 1), (2, 1), (0, 1), (1, 2)]);
        for more in 0..four {
            ips.push(IpAddr::V4(Ipv4Addr::new(10, 0, net, number + 100 * more)));
        }
        for more in 0..six {
            let last = u16::from(number) + 0x100 * more;
            ips.push(IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, net.into(), 0, 0, 0, last)));
        }
        if six > 0 && self.random.chance(10) {
            ips.push(IpAddr::V6(link_local(mac)));
        }
        ips
    }

    /// Most addresses of machines are in the network that the routers of their switch expect them in.
    fn move_to_network(&mut self, switch: &str, number: u8, ips: &mut Vec<IpAddr>) {
        let network = Generator::network_of(switch);
        if ips.is_empty() && self.routes.chance(80) {
            ips.push(Ipv4Addr::new(10, 0, 0, number).into());
            ips.push(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, number.into()).into());
        }
        for ip in ips.iter_mut().filter(|_| self.routes.chance(95)) {
            *ip = match ip {
                IpAddr::V4(ip) => {
                    let [a, b, _, d] = ip.octets();
                    Ipv4Addr::new(a, b, network, d).into()
                }
                IpAddr::V6(ip) if ip.segments()[0] == 0xfd00 => {
                    let mut segments = ip.segments();
                    segments[3] = network.into();
                    Ipv6Addr::from(segments).into()
                }
                IpAddr::V6(ip) => IpAddr::V6(*ip),
            };
        }
    }

    fn parent(&mut self, name: &str) -> Option<(String, u16)> {
        let parents = |world: &World| {
            let may = world.ports.iter().filter(|(other, port)| *other != name && port.parent.is_none());
            may.map(|(other, _)| other.clone()).collect()
        };
        let parent = self.some(parents)?;
        Some((parent, *self.random.pick(&[1, 5, 6, 7, 8, 4094])))
    }
}
