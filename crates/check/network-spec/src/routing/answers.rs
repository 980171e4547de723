//! Answers of routers to ARP requests and neighbour solicitations.

use std::cmp::Reverse;
use std::net::IpAddr;

use super::objects::RouterPort;
use crate::World;
use crate::frame::{Frame, is_group};
use crate::neighbour::{PROXY, Question, ROUTER};

impl World {
    /// The answer of a router's port on the switch to a frame that asks for an address: of the port that has it, or that
    /// answers for its prefix (RFC 1027; RFC 4861, 7.2.8). No machine but the router can answer, so, unlike for addresses of
    /// machines, questions to the port alone are answered too: by them a host asks whether its router is still there.
    ///
    /// Each router answers for the anycast address of all routers of a network of its port (RFC 4861, 7.2.7), which is that of nobody.
    ///
    /// A router does not answer in the place of a port that declares the address. It does not answer for a prefix, either, when a
    /// machine asks whether an address is free (RFC 5227, 2.1.1): the machine would give it up.
    pub(crate) fn answer_of_router(&self, switch: &str, frame: &Frame, bytes: &[u8]) -> Option<Vec<u8>> {
        let question = Question::to_router(frame)?;
        let target = question.target();
        let asked: Vec<_> = self
            .routers_on(switch)
            .filter(|(_, port)| is_group(frame.dst) || frame.dst == port.mac)
            .collect();
        // What is for such a port alone goes to its gateway.
        let outside = self.outside_ports(switch).filter(|_| is_group(frame.dst));
        let has = |(id, port): &(&str, &RouterPort)| port.has(target) || self.is_external_near(id, target);
        if let Some((_, port)) = asked.iter().copied().chain(outside).find(has) {
            return Some(question.answer(bytes, port.mac, ROUTER));
        }
        let mut declared = self.ports_of(switch).flat_map(|(_, port)| &port.addresses);
        if declared.any(|address| address.ips.contains(&target)) || question.is_probe() {
            return None;
        }
        let proxies = asked.iter().filter_map(|(id, port)| Some((self.answers_for(port, target)?, id, port)));
        let (_, _, port) = proxies.max_by_key(|(length, id, _)| (*length, Reverse(*id)))?;
        Some(question.answer(bytes, port.mac, ROUTER & PROXY))
    }

    /// The length of the longest prefix with an address that a router's port answers for. An anycast address is one by itself.
    fn answers_for(&self, port: &RouterPort, ip: IpAddr) -> Option<u8> {
        let is_anycast = port.networks.iter().any(|network| network.is_anycast(ip));
        if is_anycast { Some(128) } else { self.proxied(&port.router, ip) }
    }

    /// The length of the longest prefix with an address that a router answers for.
    fn proxied(&self, router: &str, ip: IpAddr) -> Option<u8> {
        let prefixes = self.routers.get(router)?.proxy_arp.iter();
        prefixes.filter(|prefix| prefix.contains(ip)).map(|prefix| prefix.length).max()
    }
}
