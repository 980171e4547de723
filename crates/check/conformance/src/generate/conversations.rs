//! Conversations between machines: connections with their replies and errors, and changes of ACLs in the middle.

use std::net::IpAddr;

use frame_builder::BROADCAST;
use network_spec::{Acl, AclAction, AclPlace, Address, Direction, PacketMatch};

use super::{Generator, Place, Step};
use crate::frames::Mac;
use crate::frames::connections::{
    ACK, DATA, End, FIN_ACK, SYN, SYN_ACK, Talk, error, large, other_subject, say, subject,
};
use crate::world::{Change, NumberedWorld};

/// MAC addresses of groups.
const GROUPS: [Mac; 2] = [BROADCAST, [1, 0, 0x5e, 0, 0, 5]];

/// A machine in a conversation.
pub(super) struct Speaker {
    pub(super) port: String,
    pub(super) place: Place,
    /// The tag of a trunk member.
    pub(super) tag: Option<u16>,
    pub(super) end: End,
}

impl Generator<'_> {
    /// Two machines, or three, talk about something, and ACLs change while they do.
    pub(super) fn converse(&mut self) {
        let Some((one, other)) = self.speakers() else { return };
        let talk = subject(&mut self.acls);
        let changing = *self.acls.pick(&[0, 10, 10, 35]);
        // Who translates puts fragments together, which the model leaves out.
        if let Talk::Udp(from, to) = talk
            && !self.style.translated
            && self.acls.chance(12)
        {
            return self.say_large(&one, &other, (from, to));
        }
        if self.style.stateful && self.acls.chance(30) {
            let (place, direction) = beginning(&one, &other, self.acls.chance(50));
            let change = self.acl_at(place, direction, AclAction::AllowRelated);
            self.change(vec![change]);
        }
        let last = 3 + self.acls.below(6);
        for number in 0..last {
            // Mostly what was said is answered; now and then somebody answers who was not asked.
            let asks = if number == 0 { self.acls.chance(93) } else { self.acls.chance(45) };
            let (from, to) = if asks { (&one, &other) } else { (&other, &one) };
            let flags = match number {
                0 | 1 => {
                    if asks {
                        SYN
                    } else {
                        SYN_ACK
                    }
                }
                _ if number + 1 == last && self.acls.chance(40) => FIN_ACK,
                _ => *self.acls.pick(&[ACK, DATA]),
            };
            // Now and then to all on the switch.
            let next = if self.acls.chance(4) { *self.acls.pick(&GROUPS) } else { from.end.next };
            let bytes = say(End { next, ..from.end }, to.end, talk, asks, flags);
            self.speak(from, bytes);
            if self.acls.chance(18) {
                self.complain(&one, &other, talk);
            }
            if self.acls.chance(changing) {
                let changes =
                    if self.acls.chance(60) { self.about(&one, &other) } else { self.some_filtering() };
                let one_by_one = self.acls.chance(self.style.one_by_one / 2);
                if one_by_one {
                    self.one_by_one(changes);
                } else {
                    self.change(changes);
                }
                // Whoever was asked before answers under the new ACLs.
                self.speak(&other, say(other.end, one.end, talk, false, ACK));
            }
        }
        if self.others.chance(self.style.parting) {
            self.change_places(&one, &other, talk);
        }
    }

    /// An error about what one of them has said, or about something that nobody has said.
    fn complain(&mut self, one: &Speaker, other: &Speaker, talk: Talk) {
        let talk = if self.acls.chance(75) { talk } else { other_subject(talk) };
        let asks = self.acls.chance(60);
        let (from, to) = if asks { (one, other) } else { (other, one) };
        let about = say(from.end, to.end, talk, asks, ACK);
        let kinds: &[u8] = if from.end.ip.is_ipv4() { &[3, 11, 12, 3, 4, 5] } else { &[1, 2, 3, 4] };
        let kind = *self.acls.pick(kinds);
        // The other end says it; a machine between them would use its own address.
        let mut by = to.end;
        if self.acls.chance(20) {
            by.ip = match by.ip {
                IpAddr::V4(_) => [10, 9, 9, 9].into(),
                IpAddr::V6(_) => [0xfd99, 0, 0, 0, 0, 0, 0, 9].into(),
            };
        }
        self.speak(to, error(by, from.end, &about, kind));
    }

    /// A datagram in fragments, in some order, and perhaps not all of them; then an answer.
    fn say_large(&mut self, one: &Speaker, other: &Speaker, ports: (u16, u16)) {
        self.made += 1;
        let mut parts = large(one.end, other.end, ports, self.made as u16 | 0x4000);
        self.acls.shuffle(&mut parts);
        if self.acls.chance(15) {
            parts.pop();
        }
        for part in parts {
            self.speak(one, part);
        }
        let answer = say(other.end, one.end, Talk::Udp(ports.0, ports.1), false, 0);
        self.speak(other, answer);
    }

    pub(super) fn speak(&mut self, speaker: &Speaker, bytes: Vec<u8>) {
        let bytes = match speaker.tag {
            Some(tag) => frame_builder::tagged(&bytes, frame_builder::VLAN, tag),
            None => bytes,
        };
        self.steps.push(Step::Send(speaker.place.clone(), bytes));
    }

    /// A change that concerns a conversation: an ACL at one of its ports, or no more an ACL there.
    fn about(&mut self, one: &Speaker, other: &Speaker) -> Vec<Change> {
        let speaker = if self.acls.chance(50) { one } else { other };
        let here: Vec<String> = self
            .world
            .acls
            .iter()
            .filter(|(_, acl)| acl.place == AclPlace::Port(speaker.port.clone()))
            .map(|(name, _)| name.clone())
            .collect();
        if !here.is_empty() && self.acls.chance(45) {
            return vec![Change::NoAcl(self.acls.pick(&here).clone())];
        }
        let direction = *self.acls.pick(&[Direction::FromPort, Direction::ToPort]);
        let (port, direction) = match self.acls.below(10) {
            0..7 => beginning(one, other, self.acls.chance(50)),
            _ => (speaker.port.clone(), direction),
        };
        let actions = [AclAction::Drop, AclAction::Drop, AclAction::AllowRelated, AclAction::Allow];
        let action = *self.acls.pick(&actions);
        vec![self.acl_at(port, direction, action)]
    }

    /// An ACL for everything in one direction of a port.
    fn acl_at(&mut self, port: String, direction: Direction, action: AclAction) -> Change {
        let acl = Acl {
            place: AclPlace::Port(port),
            direction,
            tier: 0,
            priority: *self.acls.pick(&[1, 500, 10_000]),
            matches: PacketMatch::default(),
            from: None,
            to: None,
            action: self.without_state(action),
        };
        Change::Acl(self.new_name("f"), acl)
    }

    /// Where frames of a port enter.
    pub(super) fn place_of(&self, port: &str) -> Option<Place> {
        let (host, outer) = (self.world.location(port)?, self.world.owner(port)?);
        Some(Place::Vnic(host.to_owned(), outer.to_owned()))
    }

    /// Two machines that can reach each other, on one switch or by one router.
    fn speakers(&mut self) -> Option<(Speaker, Speaker)> {
        let pairs = pairs(&self.world);
        let beyond: Vec<_> = pairs.iter().filter(|pair| pair.is_routed).collect();
        let near: Vec<_> = pairs.iter().filter(|pair| !pair.is_routed).collect();
        let from =
            if !beyond.is_empty() && (near.is_empty() || self.acls.chance(50)) { beyond } else { near };
        if from.is_empty() {
            return None;
        }
        let pair = *self.acls.pick(&from);
        let [one, other] = [(pair.one, pair.next), (pair.other, pair.back)].map(|((port, mac, ip), next)| {
            let place = self.place_of(port)?;
            let tag = self.world.ports[port].parent.as_ref().map(|(_, tag)| *tag);
            Some(Speaker { port: port.to_owned(), place, tag, end: End { mac, ip, next } })
        });
        Some((one?, other?))
    }
}

/// Where the first packet of a conversation meets ACLs: at the port of the first, or at that of the second.
fn beginning(one: &Speaker, other: &Speaker, at_first: bool) -> (String, Direction) {
    if at_first { (one.port.clone(), Direction::FromPort) } else { (other.port.clone(), Direction::ToPort) }
}

/// A port with one of its addresses.
type Machine<'a> = (&'a str, Mac, IpAddr);

/// Two machines, and the MACs to which each sends for the other.
struct Pair<'a> {
    one: Machine<'a>,
    other: Machine<'a>,
    next: Mac,
    back: Mac,
    is_routed: bool,
}

/// All pairs of machines that can talk.
fn pairs(world: &NumberedWorld) -> Vec<Pair<'_>> {
    let mut machines: Vec<Machine<'_>> = Vec::new();
    for (name, port) in world.ports.iter().filter(|(name, _)| world.location(name).is_some()) {
        for Address { mac, ips } in &port.addresses {
            machines.extend(ips.iter().map(|ip| (name.as_str(), *mac, *ip)));
        }
    }
    let mut pairs = Vec::new();
    for one in &machines {
        for other in &machines {
            let alike = one.2.is_ipv4() == other.2.is_ipv4();
            if one.0 == other.0 || !alike {
                continue;
            }
            let [from, to] = [one, other].map(|machine| world.ports[machine.0].switch.as_str());
            if from == to {
                pairs.push(Pair { one: *one, other: *other, next: other.1, back: one.1, is_routed: false });
                continue;
            }
            if let Some((next, back)) = gateways(world, (from, one.2), (to, other.2)) {
                pairs.push(Pair { one: *one, other: *other, next, back, is_routed: true });
            }
        }
    }
    pairs
}

/// The MACs of one router on two switches, if its networks there contain these addresses.
fn gateways(world: &NumberedWorld, one: (&str, IpAddr), other: (&str, IpAddr)) -> Option<(Mac, Mac)> {
    let on = |(switch, ip): (&str, IpAddr)| {
        let ports: Vec<(String, Mac)> = world
            .router_ports_on(switch)
            .filter(|(_, port)| port.networks.iter().any(|network| network.contains(ip)))
            .map(|(_, port)| (port.router.clone(), port.mac))
            .collect();
        ports
    };
    let back = on(other);
    on(one).into_iter().find_map(|(router, mac)| {
        let (_, of_other) = back.iter().find(|(of, _)| *of == router)?;
        Some((mac, *of_other))
    })
}
