//! Follows a packet and its copies from host to host.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use openflow_rs::{Actions, Field, PortNo};

use crate::fabric::MAX_CROSSINGS;
use crate::{
    Arrival, Crossing, Emitted, Encapsulation, FlowKey, Host, Lost, Outcome, Packet, Tapped, Tunnel,
    Tunnelled,
};

/// The hosts that a packet meets.
pub(crate) enum Hosts<'a> {
    /// The hosts themselves, which learn from the packet.
    Live(&'a mut BTreeMap<String, Host>),
    /// Copies of the hosts that learn from the packet; the hosts themselves do not.
    Copied { hosts: &'a BTreeMap<String, Host>, taught: BTreeMap<String, Host> },
}

impl<'a> Hosts<'a> {
    pub(crate) fn untouched(hosts: &'a BTreeMap<String, Host>) -> Hosts<'a> {
        Hosts::Copied { hosts, taught: BTreeMap::new() }
    }

    fn get(&self, name: &str) -> Option<&Host> {
        match self {
            Hosts::Live(hosts) => hosts.get(name),
            Hosts::Copied { hosts, taught } => taught.get(name).or_else(|| hosts.get(name)),
        }
    }

    fn iter(&self) -> impl DoubleEndedIterator<Item = (&String, &Host)> {
        match self {
            Hosts::Live(hosts) => hosts.iter(),
            Hosts::Copied { hosts, .. } => hosts.iter(),
        }
    }

    /// A host gets a packet, or carries out these actions on one that its controller sends out.
    fn receive(
        &mut self,
        name: &str,
        packet: &Packet,
        actions: Option<&Actions>,
        wanted: bool,
    ) -> Option<Outcome> {
        let bridge = &self.get(name)?.bridge;
        let (outcome, effects) = match actions {
            Some(actions) => bridge.send_out(packet, actions, wanted),
            None => bridge.look_at(packet, wanted),
        };
        if effects.are_none() {
            return Some(outcome);
        }
        let host = match self {
            Hosts::Live(hosts) => hosts.get_mut(name)?,
            Hosts::Copied { hosts, taught } => {
                if !taught.contains_key(name) {
                    taught.insert(name.to_owned(), hosts.get(name)?.clone());
                }
                taught.get_mut(name)?
            }
        };
        host.bridge.leave_behind(effects);
        Some(outcome)
    }
}

/// A packet on its way.
pub(crate) struct Walk<'a> {
    hosts: Hosts<'a>,
    /// Whether to record a trace.
    wanted: bool,
    /// Hosts to reach, with the hop that each packet comes from.
    under_way: VecDeque<(String, Packet, Option<usize>)>,
    crossings: usize,
    /// Hosts by address, built when first needed.
    addresses: Option<BTreeMap<IpAddr, String>>,
    crossing: Crossing,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(hosts: Hosts<'a>, wanted: bool) -> Walk<'a> {
        let (under_way, crossing) = (VecDeque::new(), Crossing::default());
        Walk { hosts, wanted, under_way, crossings: 0, addresses: None, crossing }
    }

    pub(crate) fn start_at_host(mut self, host: &str, packet: Packet) -> Crossing {
        self.under_way.push_back((host.to_owned(), packet, None));
        self.follow()
    }

    pub(crate) fn start_with_actions(mut self, host: &str, packet: &Packet, actions: &Actions) -> Crossing {
        self.pass_host(host, packet, Some(actions), None);
        self.follow()
    }

    pub(crate) fn start_on_network(mut self, network: &str, bytes: Vec<u8>) -> Crossing {
        self.spread(network, &bytes, None);
        self.follow()
    }

    pub(crate) fn start_in_tunnel(mut self, to: &str, tunnelled: &Tunnelled) -> Crossing {
        let Some(host) = self.hosts.get(to) else {
            self.crossing.lost.push(Lost::Unknown(to.to_owned()));
            return self.crossing;
        };
        let Tunnelled { encapsulation, from, key, option, inner } = tunnelled;
        // A packet of the other IP version has another destination than the host's tunnel endpoint.
        let reaches = from.is_ipv4() == host.address().is_ipv4();
        if let Some(port) = arrival(host, *from, *encapsulation).filter(|_| reaches) {
            let packet = Packet::new(inner.clone(), port);
            let option = option.filter(|_| *encapsulation == Encapsulation::Geneve);
            let packet =
                received(packet, encapsulation.carried((*key).into()), (*from, host.address()), option);
            self.under_way.push_back((to.to_owned(), packet, None));
        }
        self.follow()
    }

    /// The number of the hop that the packet is on; none without a trace.
    fn hop(&self) -> Option<usize> {
        self.crossing.hops.len().checked_sub(1)
    }

    fn follow(mut self) -> Crossing {
        while let Some((name, packet, before)) = self.under_way.pop_front() {
            self.pass_host(&name, &packet, None, before);
            if self.crossings > MAX_CROSSINGS {
                self.crossing.lost.push(Lost::Storm);
                break;
            }
        }
        self.crossing
    }

    /// A host does what it does with a packet.
    fn pass_host(&mut self, name: &str, packet: &Packet, actions: Option<&Actions>, before: Option<usize>) {
        if self.hosts.get(name).is_some_and(Host::is_down) {
            self.crossing.lost.push(Lost::Down { host: name.to_owned() });
            return;
        }
        let Some(outcome) = self.hosts.receive(name, packet, actions, self.wanted) else {
            self.crossing.lost.push(Lost::Unknown(name.to_owned()));
            return;
        };
        if self.wanted {
            self.crossing.hops.push((name.to_owned(), outcome.steps));
            self.crossing.before.push(before);
        }
        if outcome.cut {
            self.crossing.lost.push(Lost::Cut { host: name.to_owned() });
        }
        if let Some(why) = outcome.stopped {
            self.crossing.lost.push(Lost::Stopped { host: name.to_owned(), why });
        }
        self.crossing.handed.extend(outcome.handed.into_iter().map(|handed| (name.to_owned(), handed)));
        for emitted in outcome.emitted {
            self.leave(name, emitted);
            if self.crossings > MAX_CROSSINGS {
                return;
            }
        }
    }

    /// Handles a packet that leaves a host.
    fn leave(&mut self, name: &str, emitted: Emitted) {
        let Some(host) = self.hosts.get(name) else { return };
        if let Some(tunnel) = host.bridge.tunnel(emitted.port) {
            self.crossings += 1;
            let lost = self.through(name, tunnel, emitted).err();
            self.crossing.lost.extend(lost);
        } else if let Some(network) = host.network(emitted.port).map(str::to_owned) {
            self.spread(&network, &emitted.bytes, Some((name, emitted.port)));
            self.crossing.tapped.push(Tapped { network, bytes: emitted.bytes });
        } else {
            let (host, port, bytes) = (name.to_owned(), emitted.port, emitted.bytes);
            self.crossing.arrived.push(Arrival { host, port, bytes });
        }
    }

    /// Sends a frame to every port on a physical network except the sender's.
    fn spread(&mut self, network: &str, bytes: &[u8], from: Option<(&str, PortNo)>) {
        let before = self.hop();
        for (name, host) in self.hosts.iter().filter(|(_, host)| !host.is_down()) {
            for port in host.ports_of(network).filter(|port| from != Some((name, *port))) {
                self.crossings += 1;
                self.under_way.push_back((name.clone(), Packet::new(bytes.to_vec(), port), before));
            }
        }
    }

    /// A packet goes through a tunnel.
    fn through(&mut self, from: &str, tunnel: Tunnel, emitted: Emitted) -> Result<(), Lost> {
        let host = || from.to_owned();
        let no_destination = || Lost::NoDestination { host: host(), port: emitted.port };
        let to = tunnel.destination(&emitted.key).ok_or_else(no_destination)?;
        let hosts = &self.hosts;
        let addresses = self.addresses.get_or_insert_with(|| {
            hosts.iter().map(|(name, host)| (host.address(), name.clone())).rev().collect()
        });
        let no_host = || Lost::NoHost { host: host(), address: to };
        let name = addresses.get(&to).filter(|name| *name != from).ok_or_else(no_host)?;
        let (Some(sender), Some(peer)) = (hosts.get(from), hosts.get(name)) else { return Err(no_host()) };
        let encapsulation = tunnel.encapsulation;
        let no_tunnel = || Lost::NoTunnel { from: host(), host: name.clone(), encapsulation };
        let own = sender.address();
        if own.is_ipv4() != to.is_ipv4() {
            return Err(Lost::OtherVersion { host: host(), from: own, to });
        }
        if peer.is_down() {
            return Err(Lost::Down { host: name.clone() });
        }
        let port = arrival(peer, own, encapsulation).ok_or_else(no_tunnel)?;
        let Emitted { bytes, key, .. } = emitted;
        let option = option(&key).filter(|_| encapsulation == Encapsulation::Geneve);
        let size = encapsulation.size(bytes.len(), to, option.is_some());
        if let Some(mtu) = sender.underlay_mtu().filter(|mtu| size > *mtu) {
            let headers = encapsulation.size(ETHERNET, to, option.is_some());
            let fits = mtu.saturating_sub(headers);
            return Err(Lost::TooLarge { from: host(), host: name.clone(), size, mtu, fits });
        }
        let packet = received(
            Packet::new(bytes, port),
            encapsulation.carried(key.get(Field::TunId)),
            (own, to),
            option,
        );
        let name = name.clone();
        self.crossing.tunnelled.push((host(), name.clone()));
        self.under_way.push_back((name, packet, self.hop()));
        Ok(())
    }
}

/// The bytes of an Ethernet header.
pub(crate) const ETHERNET: usize = 14;

/// The ingress port of a tunnelled packet: the port for this sender, if there is one, otherwise the
/// port for all peers.
fn arrival(host: &Host, from: IpAddr, encapsulation: Encapsulation) -> Option<PortNo> {
    let by = |remote: Option<IpAddr>| {
        let wanted = Tunnel { encapsulation, remote };
        host.bridge.tunnels().find(|(_, tunnel)| *tunnel == wanted).map(|(port, _)| port)
    };
    by(Some(from)).or_else(|| by(None))
}

/// The packet after decapsulation, with the key, addresses and option of its tunnel.
fn received(packet: Packet, key: u128, (from, to): (IpAddr, IpAddr), option: Option<u32>) -> Packet {
    let with = |packet: Packet, address: IpAddr, four, six| match address {
        IpAddr::V4(address) => packet.with(four, address.to_bits().into()),
        IpAddr::V6(address) => packet.with(six, address.to_bits()),
    };
    let packet = with(packet.with(Field::TunId, key), from, Field::TunSrc, Field::TunIpv6Src);
    let packet = with(packet, to, Field::TunDst, Field::TunIpv6Dst);
    match option {
        Some(option) => packet.with(Field::TunMetadata0, option.into()),
        None => packet,
    }
}

/// The Geneve option that a packet carries.
fn option(key: &FlowKey) -> Option<u32> {
    key.tunnel.metadata
}
