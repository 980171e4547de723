//! Random DHCP servers and DNS zones, and what machines ask them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use frame_builder::{ARP, Arp, Mac, ethernet};
use network_spec::{Address, Dhcp, DnsData, DnsZone, Network, Server};

use super::{Generator, Place, Step};
use crate::frames::link_local;
use crate::frames::requests::{Dhcpv4, association, datagram, option, query, reverse};
use crate::world::Change;

const NAMES: [&str; 7] = [
    "db.blue.example",
    "WWW.blue.example",
    "mail.blue.example",
    "a.b.example",
    "host",
    "x.green.example",
    "y.x.green.example",
];
/// Names that no zone has.
const OTHER_NAMES: [&str; 6] = [
    "no.blue.example",
    "blue.example",
    "example",
    "deep.no.blue.example",
    "xblue.example",
    "www.example.com",
];
const BROADCAST: Mac = [0xff; 6];

/// Who asks: an interface of a host, the port there, and its tag.
struct Asker {
    place: Place,
    tag: Option<u16>,
    switch: String,
    mac: Mac,
    ips: Vec<IpAddr>,
}

impl Generator<'_> {
    /// The servers at the start.
    pub(super) fn serve(&mut self) {
        if !self.style.served {
            return;
        }
        let switches: Vec<String> = self.world.switches.keys().cloned().collect();
        for switch in switches {
            for is_ipv4 in [true, false] {
                if self.services.chance(60) {
                    let change = self.dhcp(&switch, is_ipv4);
                    self.change(vec![change]);
                }
            }
            if self.services.chance(60) {
                let change = self.dns_zone(&switch);
                self.change(vec![change]);
            }
        }
    }

    /// The MAC addresses of a port whose IP addresses the network chooses.
    pub(super) fn dynamic(&mut self, addresses: &mut [Address]) -> BTreeSet<Mac> {
        let mut dynamic = BTreeSet::new();
        for address in addresses {
            if self.style.dynamic && self.services.chance(40) {
                address.ips.clear();
                dynamic.insert(address.mac);
            }
        }
        dynamic
    }

    /// The network that machines of a switch are in, or some are.
    fn network_on(&mut self, switch: &str) -> u8 {
        if self.style.routed {
            return Generator::network_of(switch);
        }
        let machines = self.world.addresses_but(switch, "");
        let networks = machines.iter().flat_map(|one| &one.ips).map(|ip| match ip {
            IpAddr::V4(ip) => ip.octets()[2],
            IpAddr::V6(ip) => ip.octets()[7],
        });
        let networks: Vec<u8> = networks.filter(|network| *network < 2).collect();
        if networks.is_empty() { 0 } else { *self.services.pick(&networks) }
    }

    fn server(&mut self, network: u8, is_ipv4: bool) -> Server {
        let last = *self.services.pick(&[0xfd, 0xfc, 1]);
        let ip: IpAddr = if is_ipv4 {
            Ipv4Addr::new(10, 0, network, last).into()
        } else {
            Ipv6Addr::new(0xfd00, 0, 0, network.into(), 0, 0, 0, last.into()).into()
        };
        Server { ip, mac: [2, 0, 0, 0, 0xfe, last] }
    }

    fn dhcp(&mut self, switch: &str, is_ipv4: bool) -> Change {
        let network = self.network_on(switch);
        let net = if is_ipv4 {
            // A small one is full of addresses that somebody has.
            let lengths = if self.style.dynamic { [24, 27, 27, 27] } else { [24, 24, 25, 23] };
            Network::of(Ipv4Addr::new(10, 0, network, 0), *self.services.pick(&lengths))
        } else {
            let ip = Ipv6Addr::new(0xfd00, 0, 0, network.into(), 0, 0, 0, 0);
            Network::of(ip, *self.services.pick(&[64, 64, 120]))
        };
        let router = Ipv4Addr::new(10, 0, network, 100);
        let dns: [IpAddr; 2] = if is_ipv4 {
            [Ipv4Addr::new(10, 0, 0, 53).into(), Ipv4Addr::new(192, 0, 2, 53).into()]
        } else {
            [
                Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0x53).into(),
                Ipv6Addr::new(0xfd99, 0, 0, 0, 0, 0, 0, 0x53).into(),
            ]
        };
        let other = BTreeMap::from([(128, vec![0x0a, 0]), (66, b"tftp".to_vec())]);
        let dhcp = Dhcp {
            switch: switch.to_owned(),
            net: net.prefix(),
            router: (is_ipv4 && self.services.chance(70))
                .then_some(router)
                .filter(|ip| net.contains((*ip).into())),
            server: self.server(network, is_ipv4),
            lease: *self.services.pick(&[3600, 3600, 21, u32::MAX]),
            dns: dns[..self.services.below(3) as usize].to_vec(),
            mtu: (is_ipv4 && self.services.chance(20)).then_some(1280),
            domain_name: (is_ipv4 && self.services.chance(30)).then(|| "blue.example".to_owned()),
            other: if is_ipv4 && self.services.chance(20) { other } else { BTreeMap::new() },
        };
        let name = self.new_name("dhcp");
        Change::Dhcp(name, dhcp)
    }

    fn dns_zone(&mut self, switch: &str) -> Change {
        let network = self.network_on(switch);
        let is_ipv4 = self.services.chance(70);
        let server = self.services.chance(60).then(|| self.server(network, is_ipv4));
        let mut switches = BTreeSet::from([switch.to_owned()]);
        let others: Vec<String> = self.world.switches.keys().cloned().collect();
        if self.services.chance(30) {
            switches.insert(self.services.pick(&others).clone());
        }
        let mut records = BTreeMap::new();
        for name in NAMES {
            if !self.services.chance(35) {
                continue;
            }
            let target = (*self.services.pick(&NAMES)).to_owned();
            let data = if self.services.chance(25) && target != name {
                DnsData::Alias(target)
            } else {
                DnsData::Addresses(self.named())
            };
            records.insert(name.to_owned(), data);
        }
        let ttl = *self.services.pick(&[60, 0, 5, 3600]);
        let name = self.new_name("z");
        Change::DnsZone(name, DnsZone { switches, server, records, ttl })
    }

    /// The addresses of a name.
    fn named(&mut self) -> Vec<IpAddr> {
        let number = self.services.below(4) as u8 + 1;
        let four = Ipv4Addr::new(10, 0, 0, number).into();
        let six = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, number.into()).into();
        match self.services.below(4) {
            0 => vec![four],
            1 => vec![six],
            2 => vec![four, six],
            _ => vec![four, Ipv4Addr::new(192, 0, 2, number).into()],
        }
    }

    /// Now and then, servers change, or machines ask them.
    pub(super) fn ask(&mut self) {
        if self.services.chance(3) {
            let change = self.some_service();
            let one_by_one = self.services.chance(self.style.one_by_one);
            if one_by_one { self.one_by_one(change) } else { self.change(change) }
        }
        if self.style.dynamic && self.services.chance(40) {
            let seed = self.services.below(u64::MAX);
            self.steps.push(Step::SendGiven(seed));
        }
        if self.services.chance(40)
            && let Some(asker) = self.asker()
        {
            let bytes = match self.services.below(20) {
                0..7 => self.dhcpv4(&asker),
                7..12 => self.dhcpv6(&asker),
                12..19 => self.dns_query(&asker),
                _ => self.look_up(&asker),
            };
            let tagged = |tag| frame_builder::tagged(&bytes, frame_builder::VLAN, tag);
            let bytes = asker.tag.map_or_else(|| bytes.clone(), tagged);
            self.steps.push(Step::Send(asker.place, bytes));
        }
    }

    /// A server comes, goes, or is another.
    fn some_service(&mut self) -> Vec<Change> {
        let switches: Vec<String> = self.world.switches.keys().cloned().collect();
        if switches.is_empty() {
            return Vec::new();
        }
        let switch = self.services.pick(&switches).clone();
        let dhcps: Vec<String> = self.world.dhcps.keys().cloned().collect();
        let zones: Vec<String> = self.world.dns_zones.keys().cloned().collect();
        let is_ipv4 = self.services.chance(60);
        let change = match self.services.below(6) {
            0 if !dhcps.is_empty() => Change::NoDhcp(self.services.pick(&dhcps).clone()),
            1 if !zones.is_empty() => Change::NoDnsZone(self.services.pick(&zones).clone()),
            2 if !dhcps.is_empty() => match self.dhcp(&switch, is_ipv4) {
                Change::Dhcp(_, dhcp) => Change::Dhcp(self.services.pick(&dhcps).clone(), dhcp),
                other => other,
            },
            3 if !zones.is_empty() => match self.dns_zone(&switch) {
                Change::DnsZone(_, zone) => Change::DnsZone(self.services.pick(&zones).clone(), zone),
                other => other,
            },
            4 => self.dhcp(&switch, is_ipv4),
            _ => self.dns_zone(&switch),
        };
        vec![change]
    }

    /// A machine that asks, mostly by its own address.
    fn asker(&mut self) -> Option<Asker> {
        let world = &self.world;
        let mut all = Vec::new();
        for (host, outer) in world.vnics.keys() {
            let behind = world.children(outer).map(|(tag, child)| (host, outer, child, Some(tag)));
            all.extend(behind.chain([(host, outer, outer.as_str(), None)]));
        }
        all.retain(|(.., port, _)| world.ports.get(*port).is_some_and(|port| world.serves(&port.switch)));
        // Mostly where the machine is.
        let here =
            |(host, outer, ..): &&(&String, &String, &str, _)| world.location(outer) == Some(host.as_str());
        let there: Vec<_> = all.iter().filter(here).copied().collect();
        let all = if self.services.chance(92) { there } else { all };
        if all.is_empty() {
            return None;
        }
        // Mostly a machine that has addresses.
        let with_addresses = |(_, _, port, _): &&(_, _, &str, _)| !world.ports[*port].addresses.is_empty();
        let having: Vec<_> = all.iter().filter(with_addresses).copied().collect();
        let all = if having.is_empty() || self.services.chance(15) { all } else { having };
        let (host, outer, port, tag) = *self.services.pick(&all);
        let own = &world.ports[port];
        let others = world.addresses_but(&own.switch, port);
        let servers: Vec<Server> = world.servers_on(&own.switch).copied().collect();
        let mut at = if own.addresses.is_empty() { None } else { Some(self.services.pick(&own.addresses)) };
        if !others.is_empty() && self.services.chance(7) {
            at = Some(self.services.pick(&others));
        }
        let (mut mac, ips) = at.map_or(([2, 0xee, 0, 0, 0, 1], Vec::new()), |at| (at.mac, at.ips.clone()));
        if !servers.is_empty() && self.services.chance(2) {
            mac = self.services.pick(&servers).mac;
        }
        let (place, switch) = (Place::Vnic(host.clone(), outer.clone()), own.switch.clone());
        Some(Asker { place, tag, switch, mac, ips })
    }

    /// The server of an IP version of the switch, or another one.
    fn dhcp_server(&mut self, asker: &Asker, is_ipv4: bool) -> Server {
        let of_version = self
            .world
            .dhcps
            .values()
            .filter(|one| one.net.ip.is_ipv4() == is_ipv4 && one.switch == asker.switch);
        let servers: Vec<Server> = of_version.map(|one| one.server).collect();
        if servers.is_empty() || self.services.chance(8) {
            let ip = if is_ipv4 {
                Ipv4Addr::new(10, 0, 0, 77).into()
            } else {
                link_local([2, 0, 0, 0, 9, 9]).into()
            };
            return Server { ip, mac: [2, 0, 0, 0, 9, 9] };
        }
        *self.services.pick(&servers)
    }

    /// An address that the asker has, or one of somebody else.
    fn wanted<A: Copy>(&mut self, own: &[A], other: A) -> A {
        if own.is_empty() || self.services.chance(20) { other } else { *self.services.pick(own) }
    }

    fn dhcpv4(&mut self, asker: &Asker) -> Vec<u8> {
        let four = |ip: &IpAddr| if let IpAddr::V4(ip) = ip { Some(*ip) } else { None };
        let own: Vec<Ipv4Addr> = asker.ips.iter().filter_map(four).collect();
        let server = self.dhcp_server(asker, true);
        let other = Ipv4Addr::new(10, 0, 0, self.services.below(12) as u8 + 1);
        let wanted = self.wanted(&own, other);
        let IpAddr::V4(named) = server.ip else { return Vec::new() };
        let (mut has, mut from, mut to, mut to_mac) =
            (Ipv4Addr::UNSPECIFIED, Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST, BROADCAST);
        let mut options = Vec::new();
        let kind = *self.services.pick(&[1, 1, 1, 3, 3, 3, 3, 3, 3, 8, 8, 4, 7, 2]);
        match (kind, self.services.below(4)) {
            (1, 0) => options.push((50, wanted.octets().to_vec())),
            (3, 0 | 1) => {
                // Selecting.
                options.extend([(50, wanted.octets().to_vec()), (54, named.octets().to_vec())]);
            }
            // After a start.
            (3, 2) => options.push((50, wanted.octets().to_vec())),
            // Renewing, rebinding, and what has an address.
            (3 | 7 | 8, _) => {
                (has, from) = (wanted, wanted);
                if self.services.chance(70) {
                    (to, to_mac) = (named, server.mac);
                }
                if kind == 7 {
                    options.push((54, named.octets().to_vec()));
                }
            }
            (4, _) => options.extend([(50, wanted.octets().to_vec()), (54, named.octets().to_vec())]),
            _ => {}
        }
        if self.services.chance(60) {
            options.push((55, vec![1, 3, 6, 26, 15, 128]));
        }
        if self.services.chance(30) {
            options.push((61, [&[1][..], &asker.mac].concat()));
        }
        let message = Dhcpv4 {
            kind: (!self.services.chance(3)).then_some(kind),
            broadcast: self.services.chance(30),
            has,
            relay: if self.services.chance(3) { Ipv4Addr::new(10, 0, 0, 1) } else { Ipv4Addr::UNSPECIFIED },
            mac: if self.services.chance(4) { [2, 0, 0, 0, 0, 1] } else { asker.mac },
            options,
        };
        let port = if self.services.chance(4) { 6800 } else { 68 };
        let bytes = datagram((to_mac, asker.mac), (from.into(), to.into()), (port, 67), &message.message());
        self.damaged(bytes)
    }

    fn dhcpv6(&mut self, asker: &Asker) -> Vec<u8> {
        const ALL_SERVERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 2);
        let six = |ip: &IpAddr| if let IpAddr::V6(ip) = ip { Some(*ip) } else { None };
        let own: Vec<Ipv6Addr> = asker.ips.iter().filter_map(six).collect();
        let server = self.dhcp_server(asker, false);
        let other = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, self.services.below(12) as u16 + 1);
        let mut named = vec![self.wanted(&own, other)];
        if self.services.chance(30) {
            named.push(self.wanted(&own, other));
        }
        if self.services.chance(20) {
            named.clear();
        }
        let kind = *self.services.pick(&[1, 1, 3, 3, 4, 5, 6, 8, 9, 11, 11, 12, 7]);
        let names_server = matches!(kind, 3 | 5 | 8 | 9) ^ self.services.chance(4);
        let mut message = vec![kind, 1, 2, 3];
        if !self.services.chance(4) {
            message.extend(option(1, &[&[0, 3, 0, 1][..], &asker.mac].concat()));
        }
        if names_server {
            message.extend(option(2, &[&[0, 3, 0, 1][..], &server.mac].concat()));
        }
        if kind != 11 || self.services.chance(5) {
            message.extend(association(*self.services.pick(&[3, 3, 3, 3, 4, 25]), 1, &named));
        }
        if kind != 11 && self.services.chance(15) {
            message.extend(association(3, 2, &named));
        }
        if self.services.chance(50) {
            message.extend(option(6, &[0, 23, 0, 24]));
        }
        if self.services.chance(30) {
            message.extend(option(14, &[]));
        }
        let from = if self.services.chance(8) {
            named.first().copied().unwrap_or(other)
        } else {
            link_local(asker.mac)
        };
        let to = if self.services.chance(5) { server.ip } else { ALL_SERVERS.into() };
        let bytes = datagram(([0x33, 0x33, 0, 1, 0, 2], asker.mac), (from.into(), to), (546, 547), &message);
        self.damaged(bytes)
    }

    fn dns_query(&mut self, asker: &Asker) -> Vec<u8> {
        let on_switch: Vec<Server> = self.world.servers_on(&asker.switch).copied().collect();
        let elsewhere = self.world.addresses_but(&asker.switch, "");
        let of_others =
            elsewhere.iter().flat_map(|one| one.ips.iter().map(|ip| Server { ip: *ip, mac: one.mac }));
        let mut others: Vec<Server> = of_others.collect();
        others.push(Server { ip: Ipv4Addr::new(192, 0, 2, 53).into(), mac: [2, 0, 0, 0, 0xff, 1] });
        let server = if on_switch.is_empty() || self.services.chance(40) {
            *self.services.pick(&others)
        } else {
            *self.services.pick(&on_switch)
        };
        let other: IpAddr = if server.ip.is_ipv4() {
            Ipv4Addr::new(10, 0, 0, 9).into()
        } else {
            link_local(asker.mac).into()
        };
        let own: Vec<IpAddr> =
            asker.ips.iter().copied().filter(|ip| ip.is_ipv4() == server.ip.is_ipv4()).collect();
        let from = self.wanted(&own, other);
        let addresses = self.world.named_addresses();
        let name = match self.services.below(10) {
            0..6 => (*self.services.pick(&NAMES)).to_owned(),
            6 | 7 if !addresses.is_empty() => reverse(*self.services.pick(&addresses)),
            6 => reverse(from),
            _ => (*self.services.pick(&OTHER_NAMES)).to_owned(),
        };
        let name = if self.services.chance(20) { name.to_uppercase() } else { name };
        let kind =
            if name.ends_with("arpa") { 12 } else { *self.services.pick(&[1, 1, 1, 28, 28, 5, 12, 15, 255]) };
        let class = *self.services.pick(&[1, 1, 1, 1, 1, 1, 1, 1, 255, 3]);
        let flags = *self.services.pick(&[1, 1, 1, 1, 1, 1, 1, 0, 0x80, 0x10]);
        let edns = *self.services.pick(&[None, None, Some(0), Some(0), Some(0), Some(0), Some(1)]);
        let mut message = query(&name, kind, class, flags, edns);
        if self.services.chance(4) {
            message.truncate(message.len() - 6);
        }
        let to_mac = if self.services.chance(3) { BROADCAST } else { server.mac };
        let bytes = datagram((to_mac, asker.mac), (from, server.ip), (5353, 53), &message);
        self.damaged(bytes)
    }

    /// Who has the address of a server?
    fn look_up(&mut self, asker: &Asker) -> Vec<u8> {
        let servers: Vec<Server> =
            self.world.servers_on(&asker.switch).filter(|server| server.ip.is_ipv4()).copied().collect();
        let own = asker.ips.iter().find_map(|ip| if let IpAddr::V4(ip) = ip { Some(*ip) } else { None });
        let target = match servers.first().map(|_| self.services.pick(&servers).ip) {
            Some(IpAddr::V4(ip)) => ip,
            _ => Ipv4Addr::new(10, 0, 0, 0xfd),
        };
        let from = if self.services.chance(20) { target } else { own.unwrap_or(Ipv4Addr::UNSPECIFIED) };
        let arp = Arp { operation: 1, sender: (asker.mac, from), target: ([0; 6], target) };
        ethernet(BROADCAST, asker.mac, ARP, &frame_builder::arp(arp))
    }

    /// A frame that now and then has a wrong byte near its end.
    fn damaged(&mut self, mut bytes: Vec<u8>) -> Vec<u8> {
        if self.services.chance(3) {
            let at = bytes.len() - 1 - self.services.below(6) as usize;
            bytes[at] ^= 0x10;
        }
        bytes
    }
}
