//! Random rows of address translation, and what machines say through them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use network_spec::{Address, Nat, NatKind, NatService, Network, RouterPort};

use super::conversations::Speaker;
use super::routed_traffic::speaks;
use super::routing::{outside_machine, with_last};
use super::{Generator, Place};
use crate::frames::connections::{ACK, DATA, End, FIN_ACK, SYN, SYN_ACK, Talk, error, say, subject};
use crate::world::Change;

const TCP: u8 = 6;
const UDP: u8 = 17;
/// Machines beyond the physical network.
const FAR: [&str; 4] = ["198.51.100.1", "198.51.100.2", "2001:db8:5::1", "2001:db8:5::2"];

/// What a conversation through a translation is.
struct Scene {
    port: RouterPort,
    /// A machine on the physical network, and by it one that it may stand for.
    outside: Speaker,
    inside: Speaker,
    /// The address of the machine inside as others know it.
    external: IpAddr,
}

/// An external address, the one inside, and the protocol with the ports of both if these matter.
type Published = (IpAddr, IpAddr, Option<(u8, u16, u16)>);

impl Generator<'_> {
    /// Rows at the start.
    pub(super) fn nats(&mut self) {
        for _ in 0..2 + self.nats.below(5) {
            let made = self.new_nat();
            self.change(made);
        }
    }

    /// A change of address translation.
    pub(super) fn some_nat(&mut self) -> Vec<Change> {
        let all: Vec<String> = self.world.nats.keys().cloned().collect();
        if !all.is_empty() && self.nats.chance(40) {
            return vec![Change::NoNat(self.nats.pick(&all).clone())];
        }
        self.new_nat()
    }

    /// The ports of routers with gateways on physical networks.
    fn ports_outside(&self) -> Vec<(String, RouterPort)> {
        let world = &self.world;
        let is_outside =
            |port: &RouterPort| !port.gateways.is_empty() && world.localnet_of(&port.switch).is_some();
        let all = world.router_ports.iter().filter(|(_, port)| is_outside(port));
        all.map(|(name, port)| (name.clone(), port.clone())).collect()
    }

    /// The machines behind a router, with the router's MAC there.
    fn machines_inside(&self, router: &str) -> Vec<(String, Address, IpAddr, [u8; 6])> {
        let world = &self.world;
        let mut all = Vec::new();
        for (_, port) in world.ports_of_router(router).filter(|(_, port)| port.gateways.is_empty()) {
            for (name, machine) in world.ports_of(&port.switch) {
                for address in &machine.addresses {
                    let near = |ip: &&IpAddr| port.networks.iter().any(|network| network.contains(**ip));
                    let ips = address.ips.iter().filter(near);
                    all.extend(ips.map(|ip| (name.to_owned(), address.clone(), *ip, port.mac)));
                }
            }
        }
        all
    }

    fn new_nat(&mut self) -> Vec<Change> {
        let ports = self.ports_outside();
        if ports.is_empty() {
            return vec![];
        }
        let (_, port) = self.nats.pick(&ports).clone();
        let machines = self.machines_inside(&port.router);
        if machines.is_empty() {
            return vec![];
        }
        let (_, _, internal, _) = self.nats.pick(&machines).clone();
        let Some(external) = self.external(&port, internal.is_ipv4()) else { return vec![] };
        let kind = match self.nats.below(10) {
            0..4 => self.snat(&port, external, internal),
            4..7 => NatKind::Dnat { external, internal, service: self.service() },
            _ => NatKind::Floating { external, internal },
        };
        let mut changes = Vec::new();
        if let NatKind::Snat { except: Some(group), .. } = &kind
            && !self.world.address_groups.contains_key(group)
        {
            let networks = vec![Network::of(Ipv4Addr::new(198, 51, 100, 2), 32)];
            changes.push(Change::AddressGroup(group.clone(), networks));
        }
        let name = self.new_name("n");
        changes.push(Change::Nat(name, Nat { router: port.router, kind }));
        changes
    }

    /// An external address: in a network of a port, often its own, or elsewhere.
    fn external(&mut self, port: &RouterPort, is_ipv4: bool) -> Option<IpAddr> {
        let alike = port.networks.iter().filter(|network| network.ip.is_ipv4() == is_ipv4);
        let alike: Vec<Network> = alike.copied().collect();
        let number = self.nats.below(6) as u8;
        if alike.is_empty() || self.nats.chance(15) {
            return Some(if is_ipv4 {
                Ipv4Addr::new(198, 18, 0, number).into()
            } else {
                Ipv6Addr::new(0x2001, 0xdb8, 6, 0, 0, 0, 0, number.into()).into()
            });
        }
        let network = *self.nats.pick(&alike);
        if self.nats.chance(20) {
            return Some(network.ip);
        }
        let near = with_last(network.ip, *self.nats.pick(&[5, 40, 150, 180]) + number);
        (network.contains(near) && near != network.ip).then_some(near)
    }

    fn snat(&mut self, port: &RouterPort, external: IpAddr, internal: IpAddr) -> NatKind {
        let lengths = if internal.is_ipv4() { [32, 30, 24, 24, 8] } else { [128, 126, 64, 64, 16] };
        let internal = Network::of(internal, *self.nats.pick(&lengths)).prefix();
        let last = match external {
            IpAddr::V4(first) if self.nats.chance(30) => {
                let more = *self.nats.pick(&[1, 2, 3, 4]);
                let last = Ipv4Addr::from(u32::from(first) + more).into();
                // All in a network of the port, or none.
                let near = port.networks.iter().find(|network| network.contains(external));
                if near.is_none_or(|near| near.contains(last)) { last } else { external }
            }
            first => first,
        };
        let ports =
            self.nats.chance(25).then(|| *self.nats.pick(&[(1024, 65535), (4990, 5001), (2000, 2001)]));
        let except = self.nats.chance(20).then(|| "partners".to_owned());
        NatKind::Snat { external: (external, last), internal, ports, except }
    }

    fn service(&mut self) -> Option<NatService> {
        let outside = *self.nats.pick(&[80, 443, 1]);
        let inside = *self.nats.pick(&[outside, 80, 8080]);
        let protocol = *self.nats.pick(&[TCP, UDP]);
        self.nats.chance(70).then_some(NatService { protocol, ports: Some((outside, inside)) })
    }

    /// Machines talk through a translation.
    pub(super) fn translate(&mut self) {
        let Some(scene) = self.scene() else { return };
        // The router learns where the machine outside is.
        let machine = outside_machine(&scene.port, 0);
        for _ in 0..*self.nats.pick(&[0, 1, 2, 2]) {
            let said = speaks(&mut self.nats, &machine, &scene.port);
            self.speak(&scene.outside, said);
        }
        match self.nats.below(10) {
            0..5 => self.ask_outside(&scene),
            5..8 => self.ask_inside(&scene),
            _ => self.turn_round(&scene),
        }
    }

    /// A machine outside and one inside, of one IP version.
    fn scene(&mut self) -> Option<Scene> {
        let ports = self.ports_outside();
        let with_rows = ports.iter().filter(|(id, _)| !self.world.nats_at(id).is_empty());
        let ports: Vec<(String, RouterPort)> = with_rows.cloned().collect();
        if ports.is_empty() {
            return None;
        }
        let (id, port) = self.nats.pick(&ports).clone();
        let mut machines = self.machines_inside(&port.router);
        machines.retain(|(name, ..)| self.world.location(name).is_some());
        if machines.is_empty() {
            return None;
        }
        let (name, address, ip, next) = self.nats.pick(&machines).clone();
        let place = self.place_of(&name)?;
        let tag = self.world.ports[&name].parent.as_ref().map(|(_, tag)| *tag);
        let inside = Speaker { port: name, place, tag, end: End { mac: address.mac, ip, next } };
        let external = self.world.external_of(&id, ip).unwrap_or(ip);
        let machine = outside_machine(&port, 0);
        let near = machine.ips.iter().copied().find(|near| near.is_ipv4() == ip.is_ipv4())?;
        let (_, localnet) = self.world.localnet_of(&port.switch)?;
        let (place, tag) = (Place::Tap(localnet.network.clone()), localnet.tag);
        let end = End { mac: machine.mac, ip: near, next: port.mac };
        let outside = Speaker { port: String::new(), place, tag: (tag != 0).then_some(tag), end };
        Some(Scene { port, outside, inside, external })
    }

    /// The address of the machine outside, or of one beyond it.
    fn far(&mut self, near: IpAddr) -> IpAddr {
        let far: Vec<IpAddr> = FAR.iter().map(|text| text.parse().expect("an address")).collect();
        let far: Vec<IpAddr> = far.into_iter().filter(|far| far.is_ipv4() == near.is_ipv4()).collect();
        if self.nats.chance(60) { near } else { *self.nats.pick(&far) }
    }

    /// The machine inside asks, and is answered; somebody may complain.
    fn ask_outside(&mut self, scene: &Scene) {
        let talk = self.any_talk();
        let to = self.far(scene.outside.end.ip);
        let inside = scene.inside.end;
        let outside = End { ip: to, ..scene.outside.end };
        let seen = End { ip: scene.external, ..inside };
        for number in 0..2 + self.nats.below(3) {
            let asks = if number == 0 { self.nats.chance(93) } else { self.nats.chance(40) };
            let flags = self.flags(number, asks);
            if asks {
                self.speak(&scene.inside, say(inside, outside, talk, true, flags));
            } else {
                self.speak(&scene.outside, say(outside, seen, talk, false, flags));
            }
            if self.nats.chance(15) && inside.ip.is_ipv4() {
                let about = say(seen, outside, talk, true, ACK);
                let kind = *self.nats.pick(&[3, 11]);
                let by = if self.nats.chance(70) { outside } else { scene.outside.end };
                self.speak(&scene.outside, error(by, seen, &about, kind));
            }
        }
    }

    /// A machine outside asks for an external address, and the machine inside answers.
    fn ask_inside(&mut self, scene: &Scene) {
        let Some(published) = self.published(&scene.port, scene.inside.end.ip) else { return };
        let client = End { ip: self.far(scene.outside.end.ip), ..scene.outside.end };
        self.ask_external(scene, &scene.outside, (client, client), published);
    }

    /// A machine inside asks for an external address of its router.
    fn turn_round(&mut self, scene: &Scene) {
        let one = scene.inside.end;
        let Some(published) = self.published(&scene.port, one.ip) else { return };
        let (to, ..) = published;
        let covered = scene.external != one.ip;
        let seen = End { ip: if covered { scene.external } else { to }, ..one };
        self.ask_external(scene, &scene.inside, (one, seen), published);
    }

    /// A client sends to an external address, and the machine behind it answers the source address that it sees.
    fn ask_external(
        &mut self,
        scene: &Scene,
        asker: &Speaker,
        (client, seen): (End, End),
        (to, internal, ports): Published,
    ) {
        let asked = End { ip: to, ..scene.inside.end };
        let mut talk = self.any_talk();
        let mut inside = talk;
        if let Some((protocol, outside_port, inside_port)) = ports
            && self.nats.chance(85)
        {
            let own = *self.nats.pick(&[1, 5000, 5001, 6000]);
            let with = |port| if protocol == TCP { Talk::Tcp(own, port) } else { Talk::Udp(own, port) };
            (talk, inside) = (with(outside_port), with(inside_port));
        }
        let machine = self.speaker_of(&scene.port.router, internal);
        for number in 0..2 + self.nats.below(3) {
            let asks = number == 0 || self.nats.chance(40);
            let flags = self.flags(number, asks);
            if asks {
                self.speak(asker, say(client, asked, talk, true, flags));
            } else if let Some(machine) = &machine {
                self.speak(machine, say(machine.end, seen, inside, false, flags));
            }
            if let Some(machine) = machine.as_ref().filter(|_| self.nats.chance(15) && to.is_ipv4()) {
                let about = say(seen, machine.end, inside, true, ACK);
                self.speak(machine, error(machine.end, seen, &about, 3));
            }
        }
    }

    fn flags(&mut self, number: u64, asks: bool) -> u8 {
        match (number, asks) {
            (0 | 1, true) => SYN,
            (0 | 1, false) => SYN_ACK,
            _ => *self.nats.pick(&[ACK, DATA, FIN_ACK]),
        }
    }

    fn any_talk(&mut self) -> Talk {
        subject(&mut self.nats)
    }

    /// An external address of a router's port that leads inside, to whom, and by which protocol and ports if that matters; now and then
    /// one that does not.
    fn published(&mut self, port: &RouterPort, like: IpAddr) -> Option<Published> {
        let of_router = self.world.nats.values().filter(|nat| nat.router == port.router);
        let mut all = Vec::new();
        for nat in of_router.filter(|nat| nat.kind.external().0.is_ipv4() == like.is_ipv4()) {
            match &nat.kind {
                NatKind::Snat { external: (first, _), .. } => all.push((*first, like, None)),
                NatKind::Floating { external, internal } => all.extend([(*external, *internal, None); 3]),
                NatKind::Dnat { external, internal, service } => {
                    let ports = |service: &NatService| {
                        service.ports.map(|(outside, inside)| (service.protocol, outside, inside))
                    };
                    all.extend([(*external, *internal, service.as_ref().and_then(ports)); 3]);
                }
            }
        }
        (!all.is_empty()).then(|| *self.nats.pick(&all))
    }

    /// The machine with an address behind a router.
    fn speaker_of(&self, router: &str, ip: IpAddr) -> Option<Speaker> {
        let mut machines = self.machines_inside(router).into_iter();
        let (name, address, ip, next) = machines.find(|(_, _, own, _)| *own == ip)?;
        let place = self.place_of(&name)?;
        let tag = self.world.ports[&name].parent.as_ref().map(|(_, tag)| *tag);
        Some(Speaker { port: name, place, tag, end: End { mac: address.mac, ip, next } })
    }
}
