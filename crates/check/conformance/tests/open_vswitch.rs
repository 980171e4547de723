//! The rules' output for hosts of random networks, in real Open vSwitch: each frame leaves it as it leaves the simulated
//! host, by ports and in tunnels, byte by byte. Frames enter by ports of the host and by tunnels from other hosts.

mod directed;
mod floods;
mod masks;
mod migration;
mod numbered;

use std::collections::BTreeSet;
use std::net::IpAddr;

use conformance::world::{Change, routed};
use conformance::{NumberedWorld, Place, Simulation, Size, Step, history, program};
use flow_simulator::{Bridge, Host, Packet, Tunnel};
use frame_builder::{Encapsulation, Wrapped, unwrap};
use openflow_rs::{Field, PortNo};
use ovs_testing::{DummySwitch, hex};
use test_random::Random;

/// Networks of an ordinary run, with neither routers nor ACLs, with routers, and with ACLs.
const NETWORKS: u64 = 12;
const ROUTED: u64 = 8;
const FILTERED: u64 = 12;
/// Seeds of networks with relays.
const RELAYED: [u64; 4] = [70, 113, 31, 108];
/// Frames for each.
const FRAMES: usize = 120;
/// A port that no flow knows.
const NOBODY: u16 = 0x3fff;

/// A frame that left.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Out {
    Port(u16, Vec<u8>),
    Tunnel(Wrapped),
}

#[test]
fn hosts_of_random_networks_do_in_open_vswitch_what_they_do_here() {
    let seeds =
        test_random::seeds!("hosts_of_random_networks_do_in_open_vswitch_what_they_do_here", NETWORKS);
    tally(seeds, Size::default()).check(NETWORKS);
}

#[test]
fn hosts_with_routers_do_in_open_vswitch_what_they_do_here() {
    let seeds = test_random::seeds!("hosts_with_routers_do_in_open_vswitch_what_they_do_here", ROUTED);
    tally(seeds, Size::routed()).check(ROUTED);
}

/// One network in eight has a relay that any frame meets, so these are chosen: on the largest host of the first two, frames come to a
/// relay, and on that of the others they leave for one.
#[test]
fn relays_do_in_open_vswitch_what_they_do_here() {
    let tally = tally(RELAYED, Size { served: 0, shared: false, ..Size::routed() });
    assert!(
        tally.to_relays >= 20 && tally.by_relays >= 4,
        "too few frames met a relay; look for other seeds: {tally:?}"
    );
}

#[test]
fn hosts_with_acls_do_in_open_vswitch_what_they_do_here() {
    let seeds = test_random::seeds!("hosts_with_acls_do_in_open_vswitch_what_they_do_here", FILTERED);
    tally(seeds, Size::filtered()).check(FILTERED);
}

/// Compares the largest hosts of random networks.
fn tally(seeds: impl IntoIterator<Item = u64>, size: Size) -> Tally {
    let (program, mut tally) = (program::rules(), Tally::default());
    for seed in seeds {
        let mut random = Random::new(seed);
        let history = history(&mut random, size);
        let mut world = NumberedWorld::new(history.scattered);
        let mut frames = Vec::new();
        for step in history.steps {
            // The real meters let everything through.
            for change in step.changes().iter().filter(|change| !matches!(change, Change::Exhaust(..))) {
                world.apply(change);
            }
            // The devices here carry 1,500 bytes, whatever is added to a frame on its way.
            if let Step::Send(place, bytes) = step
                && bytes.len() <= 1500
            {
                frames.push((place, bytes));
            }
        }
        let mut simulation = Simulation::new(program.clone()).expect("the rules start");
        simulation.change(&world, &|_| true).expect("the rules take the network");
        let Some((name, mut host)) = largest(&mut simulation) else { continue };
        let own = |place: &Place| match place {
            Place::Vnic(at, port) if *at == name => world.ofports.get(&(at.clone(), port.clone())).copied(),
            _ => None,
        };
        let mut frames: Vec<(Option<u16>, Vec<u8>)> =
            frames.into_iter().map(|(place, bytes)| (own(&place), bytes)).collect();
        let peers: Vec<IpAddr> = world
            .nodes
            .values()
            .map(|node| node.ip)
            .filter(|ip| *ip != host.address() && ip.is_ipv4() == host.address().is_ipv4())
            .collect();
        let keys = world.router_ports.values().map(|port| world.labels.port(&routed(&port.switch)));
        let relayed: BTreeSet<u32> = keys.collect();
        let mut switch = start(&host, &peers);
        for _ in 0..FRAMES {
            if frames.is_empty() {
                break;
            }
            let own: Vec<usize> = (0..frames.len()).filter(|at| frames[*at].0.is_some()).collect();
            let from_own = !own.is_empty() && random.chance(60);
            let at = if from_own { *random.pick(&own) } else { random.below(frames.len() as u64) as usize };
            let (port, bytes) = frames[at].clone();
            if is_fragment(&bytes) {
                // The fate of a fragment that comes twice depends on time.
                frames.remove(at);
            }
            let way = Way::any(&mut random, &host, &peers, port.filter(|_| from_own));
            match same(&way, &mut switch, &mut host, &bytes) {
                Ok(out) => tally.add(&way, &out, &relayed),
                Err(difference) => {
                    panic!("seed {seed}\n{difference}\n{world}")
                }
            }
        }
    }
    eprintln!("{tally:?}");
    tally
}

/// Whether a frame has a fragment of an IP packet (RFC 791, 3.1; RFC 8200, 4.5).
fn is_fragment(frame: &[u8]) -> bool {
    const VLAN: [u8; 2] = [0x81, 0];
    let mut rest = frame.get(12..).unwrap_or_default();
    while rest.starts_with(&VLAN) {
        rest = rest.get(4..).unwrap_or_default();
    }
    match rest {
        [8, 0, _, _, _, _, _, _, high, low, ..] => u16::from_be_bytes([*high, *low]) & 0x3fff != 0,
        [0x86, 0xdd, header @ ..] => header.get(6) == Some(&44),
        _ => false,
    }
}

/// The numbers of frames by outcome.
#[derive(Debug, Default)]
struct Tally {
    sent: usize,
    /// Frames of which some copy left.
    forwarded: usize,
    /// Frames of which some copy left by a port of a machine or of a physical network.
    by_ports: usize,
    /// Frames of which some copy left in a tunnel.
    in_tunnels: usize,
    /// Frames that left for a relay.
    to_relays: usize,
    /// Frames that came to the host as a relay and left it.
    by_relays: usize,
}

impl Tally {
    /// Counts a frame that came this way; `relayed` are the tunnel keys of frames for relays.
    fn add(&mut self, way: &Way, out: &[Out], relayed: &BTreeSet<u32>) {
        let to_relay = |out: &Out| matches!(out, Out::Tunnel(wrapped) if relayed.contains(&wrapped.key));
        let came = matches!(way, Way::Tunnel(_, wrapped) if relayed.contains(&wrapped.key));
        self.to_relays += usize::from(out.iter().any(to_relay));
        self.by_relays += usize::from(came && !out.is_empty());
        let in_tunnel = |out: &Out| matches!(out, Out::Tunnel(_));
        self.sent += 1;
        self.forwarded += usize::from(!out.is_empty());
        self.by_ports += usize::from(out.iter().any(|out| !in_tunnel(out)));
        self.in_tunnels += usize::from(out.iter().any(in_tunnel));
    }

    /// Two switches that drop everything agree too, so a fair fraction of the frames must be forwarded: the limits are
    /// about half of today's fractions.
    fn check(&self, networks: u64) {
        // A history may have fewer frames than are sent, if they are not to come twice.
        if self.sent < FRAMES * networks as usize / 2 {
            return;
        }
        for (forwarded, one_of) in [(self.forwarded, 12), (self.by_ports, 14), (self.in_tunnels, 100)] {
            assert!(forwarded * one_of >= self.sent, "too few frames were forwarded: {self:?}");
        }
    }
}

/// The host with the most flows.
fn largest(simulation: &mut Simulation) -> Option<(String, Host)> {
    let hosts = simulation.hosts_mut().fabric_mut().hosts();
    let largest = hosts.max_by_key(|(_, host)| host.bridge.flows().len());
    largest.map(|(name, host)| (name.to_owned(), host.clone()))
}

/// The ports that are no tunnel's.
fn plain(bridge: &Bridge) -> impl Iterator<Item = u16> + '_ {
    let is_plain = |port: &PortNo| bridge.tunnel(*port).is_none() && *port != PortNo::LOCAL;
    bridge.ports().filter(is_plain).map(|port| port.0)
}

/// A switch with ports, flows and groups of a host.
fn start(host: &Host, peers: &[IpAddr]) -> DummySwitch {
    let bridge = &host.bridge;
    let mut switch = DummySwitch::start(plain(bridge).chain([NOBODY]));
    switch.set_vlan_limit(bridge.vlan_limit.setting());
    let remote = |tunnel: Tunnel| tunnel.remote.map_or("flow".to_owned(), |remote| remote.to_string());
    let tunnels: Vec<(u16, Encapsulation, String)> =
        bridge.tunnels().map(|(port, tunnel)| (port.0, real(tunnel.encapsulation), remote(tunnel))).collect();
    switch.add_tunnels(host.address(), peers, &tunnels);
    for (meter, _) in bridge.meters() {
        switch.add_meter(meter);
    }
    let flows: Vec<String> = bridge.flows().into_iter().map(ToString::to_string).collect();
    // The other groups refer to the groups of the ports on this host, which come first.
    let mut groups: Vec<(u32, String)> = bridge.groups().map(|group| (group.id, group.to_string())).collect();
    groups.sort_by_key(|(id, _)| std::cmp::Reverse((*id & 0xff00_0000 == 0x0100_0000, *id)));
    let groups: Vec<String> = groups.into_iter().map(|(_, text)| text).collect();
    switch.load(&groups, &flows).expect("the switch takes the flows");
    switch
}

fn real(encapsulation: flow_simulator::Encapsulation) -> Encapsulation {
    match encapsulation {
        flow_simulator::Encapsulation::Geneve => Encapsulation::Geneve,
        flow_simulator::Encapsulation::Vxlan => Encapsulation::Vxlan,
        flow_simulator::Encapsulation::Gre => Encapsulation::Gre,
    }
}

/// The way by which a frame enters.
enum Way {
    Port(u16),
    /// By this tunnel port, in this tunnel header.
    Tunnel(PortNo, Wrapped),
}

impl Way {
    /// By this port, or by any.
    fn any(random: &mut Random, host: &Host, peers: &[IpAddr], port: Option<u16>) -> Way {
        let ports: Vec<u16> = plain(&host.bridge).collect();
        let tunnel = if port.is_none() { tunnel(random, host, peers) } else { None };
        match (port, tunnel) {
            (Some(port), _) => Way::Port(port),
            (None, Some((port, wrapped))) if ports.is_empty() || random.chance(70) => {
                Way::Tunnel(port, wrapped)
            }
            _ => Way::Port(if ports.is_empty() { NOBODY } else { *random.pick(&ports) }),
        }
    }
}

/// Sends a frame into both, and compares the output.
fn same(way: &Way, switch: &mut DummySwitch, host: &mut Host, bytes: &[u8]) -> Result<Vec<Out>, String> {
    let (packet, sent) = match way {
        Way::Port(port) => (Packet::new(bytes.to_vec(), PortNo(*port)), switch.receive(*port, bytes)),
        Way::Tunnel(port, wrapped) => {
            let packet = Packet::new(bytes.to_vec(), *port).with(Field::TunId, wrapped.key.into());
            let packet = with(packet, wrapped.from, [Field::TunSrc, Field::TunIpv6Src]);
            let packet = with(packet, wrapped.to, [Field::TunDst, Field::TunIpv6Dst]);
            let packet = match wrapped.option {
                Some(option) => packet.with(Field::TunMetadata0, option.into()),
                None => packet,
            };
            let wrapped = Wrapped { inner: bytes.to_vec(), ..wrapped.clone() };
            (packet, switch.receive_from_peer(&wrapped))
        }
    };
    let steps: String = host.bridge.trace(&packet).steps.iter().map(ToString::to_string).collect();
    let emitted = host.bridge.receive(&packet).emitted.into_iter();
    let mut ours: Vec<Out> = emitted
        .map(|emitted| match host.bridge.tunnel(emitted.port) {
            Some(tunnel) => Out::Tunnel(sent_by(tunnel, host.address(), &emitted)),
            None => Out::Port(emitted.port.0, emitted.bytes),
        })
        .collect();
    let mut theirs: Vec<Out> = sent.into_iter().map(|(port, bytes)| Out::Port(port, bytes)).collect();
    for frame in switch.sent_up() {
        let mut wrapped = unwrap(&frame).ok_or_else(|| format!("no tunnel's frame: {}", hex(&frame)))?;
        wrapped.option = wrapped.option.filter(|option| *option != 0);
        theirs.push(Out::Tunnel(wrapped));
    }
    ours.sort();
    theirs.sort();
    if ours == theirs {
        return Ok(ours);
    }
    let (key, bytes) = (packet.key(), hex(packet.bytes()));
    Err(format!("{bytes} in {key:?}\nOpen vSwitch: {theirs:#x?}\nhere: {ours:#x?}\n{steps}"))
}

/// The packet with an address of its tunnel, in the field of its IP version.
fn with(packet: Packet, address: IpAddr, [four, six]: [Field; 2]) -> Packet {
    match address {
        IpAddr::V4(address) => packet.with(four, address.to_bits().into()),
        IpAddr::V6(address) => packet.with(six, address.to_bits()),
    }
}

/// The tunnelled frame of a packet that leaves by a tunnel port.
fn sent_by(tunnel: Tunnel, from: IpAddr, emitted: &flow_simulator::Emitted) -> Wrapped {
    let field = |field| emitted.key.get(field) as u32;
    let encapsulation = real(tunnel.encapsulation);
    let has_option = emitted.key.get(Field::TunMetadata0) != 0 && encapsulation == Encapsulation::Geneve;
    Wrapped {
        encapsulation,
        from,
        to: tunnel.destination(&emitted.key).expect("flows name the destination"),
        key: field(Field::TunId),
        option: has_option.then(|| field(Field::TunMetadata0)),
        inner: emitted.bytes.clone(),
    }
}

/// A tunnelled frame from a peer with a key in use here, and its ingress port.
fn tunnel(random: &mut Random, host: &Host, peers: &[IpAddr]) -> Option<(PortNo, Wrapped)> {
    let tunnels: Vec<(PortNo, Tunnel)> = host.bridge.tunnels().collect();
    let keys: Vec<u32> = keys(&host.bridge).into_iter().collect();
    if tunnels.is_empty() || keys.is_empty() || peers.is_empty() {
        return None;
    }
    let (port, tunnel) = *random.pick(&tunnels);
    let from = tunnel.remote.unwrap_or(*random.pick(peers));
    let encapsulation = real(tunnel.encapsulation);
    let has_option = encapsulation == Encapsulation::Geneve && random.chance(80);
    let wrapped = Wrapped {
        encapsulation,
        from,
        to: host.address(),
        key: *random.pick(&keys),
        option: has_option.then(|| *random.pick(&keys)),
        inner: Vec::new(),
    };
    Some((port, wrapped))
}

/// The tunnel keys that a host matches.
fn keys(bridge: &Bridge) -> BTreeSet<u32> {
    bridge
        .flows()
        .into_iter()
        .flat_map(|flow| flow.matches.iter().filter(|demand| demand.field == Field::TunId))
        .map(|demand| demand.value as u32)
        .collect()
}
