//! The tunnels of switches: the packets that fit, and the sources whose packets hosts accept.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::world::{Encap, Form, World};

/// Whether the receiver of a frame knows its ingress port.
pub(crate) fn carries_ingress_port(encap: Encap) -> bool {
    encap == Encap::Geneve
}

/// The bytes between the start of the outer IP packet and that of the inner one, where the outer IP header is of this
/// version. They do not depend on the switch: the MTU of machines that run must not shrink because a port of their
/// switch changes.
fn overhead(encap: Encap, is_ipv4: bool) -> u16 {
    // RFC 791 without options; RFC 8200, section 3, without extension headers.
    let ip = if is_ipv4 { 20 } else { 40 };
    let header = match encap {
        // UDP; the header of RFC 8926, section 3.4; its option of 4 bytes with the ingress port, section 3.5.
        Encap::Geneve => 8 + 8 + 8,
        // UDP, and the header of RFC 7348, section 5.
        Encap::Vxlan => 8 + 8,
        // The header of RFC 2890 with a key and neither checksum nor sequence number.
        Encap::Gre => 8,
        // The header that looks like TCP, and that of draft-davie-stt, section 3.2.
        Encap::Stt => 20 + 18,
    };
    // The Ethernet header of the inner frame.
    ip + header + 14
}

impl World {
    /// The largest IP packet that passes through every tunnel to hosts with ports of a switch from such hosts and from those that
    /// reach it through routers; none if there is no such tunnel, as with ports on one host alone, or on a switch with a
    /// localnet port. Routers send nothing larger into the switch, wherever the receiver is: a packet that passes goes on
    /// passing when the receiver moves.
    pub fn mtu(&self, switch: &str) -> Option<u16> {
        if self.localnet_of(switch).is_some() {
            return None;
        }
        let hosts = self.hosts_of(switch);
        let reaching = self.hosts_that_reach(switch);
        let pairs = reaching.iter().flat_map(|from| hosts.iter().map(move |to| (*from, *to)));
        pairs.filter_map(|(from, to)| self.tunnel_mtu(from, to)).min()
    }

    /// The largest IP packet that passes through the tunnel from one host to another.
    pub(crate) fn tunnel_mtu(&self, from: &str, to: &str) -> Option<u16> {
        let encap = self.tunnel(from, to)?;
        let sender = self.nodes.get(from)?;
        Some(self.zone(&sender.zone)?.mtu - overhead(encap, sender.ip.is_ipv4()))
    }

    /// Whether a host drops every packet that arrives in a tunnel from this address, whatever its key. It may send to and
    /// receive from nodes with which it shares a switch or switches that routers connect, that are in its zone, have an address of the same IP version, and
    /// have a common encapsulation: who has none of their addresses can inject nothing. With a tunnel port for each peer
    /// that holds always, otherwise if the zone checks sources.
    ///
    /// Addresses can be forged: this says nothing of a packet with the address of such a node that another machine sent.
    pub fn refuses(&self, host: &str, source: IpAddr) -> bool {
        let Some(node) = self.nodes.get(host) else { return false };
        let Some(zone) = self.zone(&node.zone) else { return false };
        let is_peer = |name: &str| {
            let peer = &self.nodes[name];
            name != host
                && peer.ip == source
                && peer.meets(node)
                && peer.encaps.iter().any(|encap| node.encaps.contains(encap))
                && self.share_overlay(name, host)
        };
        (zone.check_sources || zone.form == Form::Port) && !self.nodes.keys().any(|name| is_peer(name))
    }

    /// Whether both hosts have ports of one switch that uses tunnels, or of two that routers connect, or are gateways of such a router.
    pub(crate) fn share_overlay(&self, one: &str, other: &str) -> bool {
        !self.overlays(one).is_disjoint(&self.overlays(other))
    }

    /// The switches that packets can reach from a switch, whatever the routes are: itself, and those that chains of
    /// routers connect with it.
    pub(crate) fn linked<'a>(&'a self, switch: &'a str) -> BTreeSet<&'a str> {
        let mut linked = BTreeSet::from([switch]);
        let mut open = vec![switch];
        while let Some(switch) = open.pop() {
            let routers = self.routers_on(switch);
            let ports = routers.flat_map(|(_, port)| self.ports_of_router(&port.router));
            let ports = ports.filter(|(_, port)| port.gateways.is_empty());
            let switches = ports.map(|(_, port)| port.switch.as_str());
            let new = switches.filter(|to| self.localnet_of(to).is_none() && linked.insert(to));
            open.extend(new);
        }
        linked
    }

    /// The hosts with ports of a switch, and those whose packets can reach it through routers.
    fn hosts_that_reach<'a>(&'a self, switch: &'a str) -> BTreeSet<&'a str> {
        let linked = self.linked(switch);
        let overlay = linked.iter().min().copied().unwrap_or(switch);
        let hosts = self.nodes.keys().map(String::as_str);
        hosts.filter(|host| self.overlays(host).contains(overlay)).collect()
    }
}
