//! Random ACLs, groups, labels and defaults, and changes of them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};

use network_spec::{
    Acl, AclAction, AclDefault, AclPlace, AclProtocol, Direction, EtherType, Network, PacketMatch, Peers,
};

use super::Generator;
use crate::world::Change;

/// The keys and values of labels: few, so that several ports share them.
const KEYS: [&str; 2] = ["app", "stage"];
const VALUES: [&str; 2] = ["one", "two"];

const ICMPV6: u8 = 58;
const TCP: u8 = 6;
const UDP: u8 = 17;
const SCTP: u8 = 132;

impl Generator<'_> {
    /// ACLs and groups at the start, in one transaction or several.
    pub(super) fn filters(&mut self) {
        if !self.style.filtered {
            return;
        }
        for _ in 0..self.acls.below(4) {
            let change = self.address_group();
            self.change(vec![change]);
            let change = self.port_group();
            self.change(change.into_iter().collect());
        }
        for _ in 0..self.acls.below(6) {
            let change = self.label();
            self.change(change.into_iter().collect());
        }
        for _ in 0..=self.acls.below(7) {
            let change = self.new_acl();
            self.change(change.into_iter().collect());
        }
        if self.acls.chance(25) {
            let change = self.acl_default();
            self.change(change.into_iter().collect());
        }
        if self.acls.chance(50) {
            for change in self.enclosure() {
                self.change(vec![change]);
            }
        }
    }

    /// A switch whose machines talk with some ports of their tenant, and with nobody else: who belongs to a group decides what arrives.
    fn enclosure(&mut self) -> Vec<Change> {
        let Some(port) = self.pick_port() else { return vec![] };
        let switch = self.world.ports[&port].switch.clone();
        let tenant = self.world.tenant_of(&port).to_owned();
        let alike = self.world.ports.keys().filter(|other| self.world.tenant_of(other) == tenant);
        let alike: Vec<String> = alike.cloned().collect();
        let members: BTreeSet<String> = alike.into_iter().filter(|_| self.acls.chance(50)).collect();
        let (groups, peers) = self.group_of(members);
        let direction = *self.acls.pick(&[Direction::FromPort, Direction::ToPort]);
        let mut acl = Acl {
            place: AclPlace::Switch(switch),
            direction,
            tier: 0,
            priority: 0,
            matches: PacketMatch::default(),
            from: None,
            to: None,
            action: AclAction::Drop,
        };
        let others = Change::Acl(self.new_name("f"), acl.clone());
        (acl.priority, acl.action) = (10, self.without_state(AclAction::AllowRelated));
        match direction {
            Direction::FromPort => acl.to = Some(peers),
            Direction::ToPort => acl.from = Some(peers),
        }
        let allow = Change::Acl(self.new_name("f"), acl);
        groups.into_iter().chain([allow, others]).collect()
    }

    /// Makes ports a group of ports, of addresses, or with a label.
    fn group_of(&mut self, members: BTreeSet<String>) -> (Vec<Change>, Peers) {
        match self.acls.below(4) {
            0 => {
                let of_ports = members.iter().flat_map(|port| &self.world.ports[port].addresses);
                let ips = of_ports.flat_map(|address| &address.ips);
                let mut hosts: Vec<Network> = ips.map(|ip| Network::host(*ip)).collect();
                hosts.sort();
                hosts.dedup();
                let name = self.new_name("g");
                (vec![Change::AddressGroup(name.clone(), hosts)], Peers::AddressGroup(name))
            }
            1 => {
                let (key, value) = (KEYS[0].to_owned(), VALUES[0].to_owned());
                let label = |port| Change::Label(port, key.clone(), Some(value.clone()));
                (
                    members.into_iter().map(label).collect(),
                    Peers::Labels(BTreeMap::from([(key.clone(), value.clone())])),
                )
            }
            _ => {
                let name = self.new_name("q");
                (vec![Change::PortGroup(name.clone(), members)], Peers::PortGroup(name))
            }
        }
    }

    /// A change of ACLs or of what they refer to.
    pub(super) fn some_filtering(&mut self) -> Vec<Change> {
        match self.acls.below(100) {
            0..30 => self.new_acl().into_iter().collect(),
            30..50 => self.changed_acl().into_iter().collect(),
            50..66 => self.some_acl().map(Change::NoAcl).into_iter().collect(),
            66..74 => vec![self.address_group()],
            74..86 => self.port_group().into_iter().collect(),
            86..94 => self.label().into_iter().collect(),
            94..97 => self.acl_default().into_iter().collect(),
            _ => self.removed_group(),
        }
    }

    fn some_acl(&mut self) -> Option<String> {
        let all: Vec<&String> = self.world.acls.keys().collect();
        (!all.is_empty()).then(|| (*self.acls.pick(&all)).clone())
    }

    pub(super) fn pick_port(&mut self) -> Option<String> {
        let all: Vec<&String> = self.world.ports.keys().collect();
        (!all.is_empty()).then(|| (*self.acls.pick(&all)).clone())
    }

    fn removed_group(&mut self) -> Vec<Change> {
        let groups = self.world.address_groups.keys().cloned().map(Change::NoAddressGroup);
        let all: Vec<Change> =
            groups.chain(self.world.port_groups.keys().cloned().map(Change::NoPortGroup)).collect();
        if all.is_empty() { vec![] } else { vec![self.acls.pick(&all).clone()] }
    }

    fn acl_default(&mut self) -> Option<Change> {
        let all: Vec<&String> = self.world.switches.keys().collect();
        let default = if self.acls.chance(40) { AclDefault::Drop } else { AclDefault::Allow };
        (!all.is_empty()).then(|| Change::AclDefault((*self.acls.pick(&all)).clone(), default))
    }

    fn label(&mut self) -> Option<Change> {
        let port = self.pick_port()?;
        let key = (*self.acls.pick(&KEYS)).to_owned();
        let value = self.acls.chance(75).then(|| (*self.acls.pick(&VALUES)).to_owned());
        Some(Change::Label(port, key, value))
    }

    /// A prefix that machines have addresses in.
    fn prefix(&mut self) -> Network {
        let machines: Vec<_> = self
            .world
            .ports
            .values()
            .flat_map(|port| &port.addresses)
            .flat_map(|address| &address.ips)
            .collect();
        if machines.is_empty() || self.acls.chance(10) {
            let strange = [
                Network::of(Ipv4Addr::new(192, 0, 2, 0), 24),
                Network::of(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
                Network::of(Ipv4Addr::UNSPECIFIED, 0),
                Network::of(Ipv6Addr::UNSPECIFIED, 0),
            ];
            return *self.acls.pick(&strange);
        }
        let ip = **self.acls.pick(&machines);
        let lengths: [u8; 4] = if ip.is_ipv4() { [32, 32, 30, 24] } else { [128, 128, 126, 64] };
        Network::of(ip, *self.acls.pick(&lengths)).prefix()
    }

    /// A new group of addresses, or other members of one.
    fn address_group(&mut self) -> Change {
        let all: Vec<String> = self.world.address_groups.keys().cloned().collect();
        if !all.is_empty() && self.acls.chance(70) {
            let name = self.acls.pick(&all).clone();
            let mut members = self.world.address_groups[&name].clone();
            if self.acls.chance(50) && !members.is_empty() {
                members.remove(self.acls.below(members.len() as u64) as usize);
            } else {
                members.push(self.prefix());
            }
            members.sort();
            members.dedup();
            return Change::AddressGroup(name, members);
        }
        let mut members: Vec<Network> = (0..self.acls.below(4)).map(|_| self.prefix()).collect();
        members.sort();
        members.dedup();
        Change::AddressGroup(self.new_name("g"), members)
    }

    /// A new group of ports of one tenant, or one with another member more or less.
    fn port_group(&mut self) -> Option<Change> {
        let port = self.pick_port()?;
        let all: Vec<String> = self.world.port_groups.keys().cloned().collect();
        if !all.is_empty() && self.acls.chance(75) {
            let name = self.acls.pick(&all).clone();
            let mut members = self.world.port_groups[&name].clone();
            if !members.remove(&port) {
                if self.acls.chance(25) {
                    members.pop_first();
                }
                members.insert(port);
            }
            return Some(Change::PortGroup(name, members));
        }
        let tenant = self.world.tenant_of(&port).to_owned();
        let alike = self.world.ports.keys().filter(|other| self.world.tenant_of(other) == tenant);
        let alike: Vec<String> = alike.cloned().collect();
        let members: BTreeSet<String> =
            alike.into_iter().filter(|_| self.acls.chance(40)).chain([port]).collect();
        Some(Change::PortGroup(self.new_name("q"), members))
    }

    fn acl_place(&mut self) -> Option<AclPlace> {
        let groups: Vec<String> = self.world.port_groups.keys().cloned().collect();
        let port = self.pick_port()?;
        Some(match self.acls.below(100) {
            0..35 => AclPlace::Switch(self.world.ports[&port].switch.clone()),
            35..65 if !groups.is_empty() => AclPlace::PortGroup(self.acls.pick(&groups).clone()),
            _ => AclPlace::Port(port),
        })
    }

    fn peers(&mut self) -> Peers {
        let addresses: Vec<String> = self.world.address_groups.keys().cloned().collect();
        let ports: Vec<String> = self.world.port_groups.keys().cloned().collect();
        match self.acls.below(100) {
            0..30 if !addresses.is_empty() => Peers::AddressGroup(self.acls.pick(&addresses).clone()),
            30..60 if !ports.is_empty() => Peers::PortGroup(self.acls.pick(&ports).clone()),
            60..80 => {
                let mut keys = KEYS.to_vec();
                self.acls.shuffle(&mut keys);
                keys.truncate(*self.acls.pick(&[1, 1, 2]));
                let mut labels = BTreeMap::new();
                for key in keys {
                    let value: &&str = self.acls.pick(&VALUES);
                    labels.insert(key.to_owned(), (*value).to_owned());
                }
                Peers::Labels(labels)
            }
            _ => Peers::Net(self.prefix()),
        }
    }

    fn action(&mut self) -> AclAction {
        let action = *self.acls.pick(&[
            AclAction::AllowRelated,
            AclAction::AllowRelated,
            AclAction::AllowRelated,
            AclAction::Drop,
            AclAction::Drop,
            AclAction::Reject,
            AclAction::Allow,
            AclAction::Pass,
        ]);
        self.without_state(action)
    }

    /// The action, but one that keeps no connections if no port does.
    pub(super) fn without_state(&self, action: AclAction) -> AclAction {
        if action == AclAction::AllowRelated && !self.style.stateful { AclAction::Allow } else { action }
    }

    pub(super) fn new_acl(&mut self) -> Option<Change> {
        let place = self.acl_place()?;
        let action = self.action();
        let mut acl = Acl {
            place,
            direction: *self.acls.pick(&[Direction::FromPort, Direction::ToPort]),
            tier: *self.acls.pick(&[0, 0, 0, 1, 2, 3]),
            priority: *self.acls.pick(&[0, 1, 1, 10, 100, 10_000]),
            matches: self.packet_match(),
            from: None,
            to: None,
            action,
        };
        (acl.from, acl.to) = (self.some_peers(), self.some_peers());
        // What drops everything leaves nothing to look at.
        let is_broad = acl.matches == PacketMatch::default() && acl.from.is_none() && acl.to.is_none();
        if is_broad && matches!(action, AclAction::Drop | AclAction::Reject) && self.acls.chance(70) {
            acl.matches = PacketMatch { protocol: Some(AclProtocol::Number(UDP)), ..PacketMatch::default() };
        }
        Some(Change::Acl(self.new_name("f"), acl))
    }

    fn some_peers(&mut self) -> Option<Peers> {
        self.acls.chance(30).then(|| self.peers())
    }

    fn changed_acl(&mut self) -> Option<Change> {
        let name = self.some_acl()?;
        let mut acl = self.world.acls[&name].clone();
        match self.acls.below(8) {
            0 => acl.tier = *self.acls.pick(&[0, 1, 2, 3]),
            1 => acl.priority = *self.acls.pick(&[0, 1, 10, 10_000]),
            2 => acl.matches = self.packet_match(),
            3 => acl.from = self.some_peers(),
            4 => acl.to = self.some_peers(),
            5 => acl.place = self.acl_place()?,
            _ => acl.action = self.action(),
        }
        Some(Change::Acl(name, acl))
    }

    fn packet_match(&mut self) -> PacketMatch {
        let any = PacketMatch::default();
        let port = |random: &mut test_random::Random| {
            *random.pick(&[
                (80, 80),
                (443, 443),
                (1, 1),
                (5000, 5000),
                (1, 79),
                (1, 1023),
                (80, 5001),
                (2, 65_535),
            ])
        };
        match self.acls.below(100) {
            0..30 => any,
            30..60 => {
                let number = *self.acls.pick(&[TCP, TCP, UDP, UDP, SCTP]);
                let mut matches = PacketMatch { protocol: Some(AclProtocol::Number(number)), ..any };
                if self.acls.chance(60) {
                    matches.destination_ports = Some(port(&mut self.acls));
                }
                if self.acls.chance(20) {
                    matches.source_ports = Some(port(&mut self.acls));
                }
                matches
            }
            60..75 => {
                let protocol = *self.acls.pick(&[AclProtocol::Icmp, AclProtocol::Icmp, AclProtocol::Icmpv6]);
                // Fragments that show no type have type 0 in switches, so nothing asks for it.
                let kinds: &[u8] = &[8, 3, 5, 9, 13, 1, 128, 128, 129, 135, 136, 134, 143];
                let icmp_type = self.acls.chance(60).then(|| *self.acls.pick(kinds));
                let icmp_code = icmp_type.filter(|_| self.acls.chance(20)).map(|_| 0);
                PacketMatch { protocol: Some(protocol), icmp_type, icmp_code, ..any }
            }
            75..83 => {
                let kinds = [EtherType::Ipv4, EtherType::Ipv6, EtherType::Arp, EtherType::Rarp];
                PacketMatch { ether_type: Some(*self.acls.pick(&kinds)), ..any }
            }
            83..86 => PacketMatch {
                protocol: Some(AclProtocol::Number(*self.acls.pick(&[1, ICMPV6, 47, 44]))),
                ..any
            },
            _ => {
                let (one, other) = (self.prefix(), self.prefix());
                let is_alike = one.ip.is_ipv4() == other.ip.is_ipv4();
                match self.acls.below(3) {
                    0 => PacketMatch { source: Some(one), ..any },
                    1 => PacketMatch { destination: Some(one), ..any },
                    _ => PacketMatch { source: Some(one), destination: is_alike.then_some(other), ..any },
                }
            }
        }
    }
}
