//! Random objects that make the network speak, and frames that ask it to.

use std::net::Ipv6Addr;

use frame_builder::{ICMPV6, IPV6, Ipv6, ethernet, icmpv6, link_layer};
use network_spec::{Ra, RaMode};

use super::{Generator, Place, Step};
use crate::frames::link_local;
use crate::world::Change;

impl Generator<'_> {
    /// What the ports of routers advertise at the start.
    pub(super) fn advertise(&mut self) {
        if !self.style.routed {
            return;
        }
        let ports: Vec<String> = self.world.router_ports.keys().cloned().collect();
        for port in ports {
            if self.says.chance(50) {
                let ra = self.ra();
                self.change(vec![Change::Advertise(port, Some(ra))]);
            }
        }
    }

    fn ra(&mut self) -> Ra {
        let servers =
            [Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0x53), Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0x54)];
        let dns = servers[..self.says.below(3) as usize].to_vec();
        let mode = *self.says.pick(&[RaMode::Slaac, RaMode::Stateful, RaMode::Stateless]);
        Ra { mode, mtu: *self.says.pick(&[None, None, Some(1280), Some(1400)]), dns }
    }

    /// Now and then, a port advertises something else, or a machine asks for routers.
    pub(super) fn solicit(&mut self) {
        let ports: Vec<String> = self.world.router_ports.keys().cloned().collect();
        if !ports.is_empty() && self.says.chance(2) {
            let port = self.says.pick(&ports).clone();
            let ra = self.ra();
            let ra = self.says.chance(70).then_some(ra);
            self.change(vec![Change::Advertise(port, ra)]);
        }
        if self.says.chance(4) {
            let solicitation = self.solicitation();
            self.steps.extend(solicitation.map(|(place, bytes)| Step::Send(place, bytes)));
        }
    }

    /// A solicitation, mostly a valid one, from a port of a switch with routers.
    fn solicitation(&mut self) -> Option<(Place, Vec<u8>)> {
        const SOLICITATION: u8 = 133;
        let world = &self.world;
        let mut all = Vec::new();
        for (host, outer) in world.vnics.keys() {
            let behind = world.children(outer).map(|(tag, child)| (host, outer, child, Some(tag)));
            all.extend(behind.chain([(host, outer, outer.as_str(), None)]));
        }
        all.retain(|(.., port, _)| {
            let switch = world.ports.get(*port).map(|port| port.switch.as_str());
            switch.is_some_and(|switch| world.router_ports_on(switch).next().is_some())
        });
        if all.is_empty() {
            return None;
        }
        let (host, outer, port, tag) = *self.says.pick(&all);
        let own = world.ports[port].addresses.first();
        let routers: Vec<[u8; 6]> =
            world.router_ports_on(&world.ports[port].switch).map(|(_, port)| port.mac).collect();
        let mac = own.map_or([2, 0xee, 0, 0, 0, 1], |own| own.mac);
        let mac = if self.says.chance(5) { *self.says.pick(&routers) } else { mac };
        let all_routers = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
        let from = if self.says.chance(35) { Ipv6Addr::UNSPECIFIED } else { link_local(mac) };
        let says_mac = if from.is_unspecified() { self.says.chance(10) } else { self.says.chance(80) };
        let options = if says_mac { link_layer(1, mac) } else { vec![] };
        let code = u8::from(self.says.chance(4));
        let mut message =
            icmpv6([&[SOLICITATION, code, 0, 0, 0, 0, 0, 0][..], &options].concat(), from, all_routers);
        if self.says.chance(4) {
            message[2] ^= 1;
        }
        let hops = *self.says.pick(&[255, 255, 255, 255, 255, 255, 255, 64]);
        let packet = Ipv6 { hops, ..Ipv6::new(from, all_routers, ICMPV6) }.packet(&message);
        let to = if self.says.chance(10) { *self.says.pick(&routers) } else { [0x33, 0x33, 0, 0, 0, 2] };
        let bytes = ethernet(to, mac, IPV6, &packet);
        let bytes =
            tag.map_or_else(|| bytes.clone(), |tag| frame_builder::tagged(&bytes, frame_builder::VLAN, tag));
        Some((Place::Vnic(host.clone(), outer.clone()), bytes))
    }
}
