//! A switch with tunnels to peers, and a simulated fabric that must behave the same.

use std::net::{IpAddr, Ipv4Addr};

use flow_simulator::{Bridge, Crossing, Fabric, Host, Packet, Tunnel};
use frame_builder::{Encapsulation, Wrapped, unwrap};
use openflow_rs::PortNo;
use ovs_testing::{DummySwitch, hex};

/// The switch's tunnel ports: for all peers, then for one.
pub(crate) const FOR_ALL: [(u16, Encapsulation); 3] =
    [(200, Encapsulation::Geneve), (201, Encapsulation::Vxlan), (202, Encapsulation::Gre)];
pub(crate) const FOR_ONE: [(u16, Encapsulation, u8); 2] =
    [(203, Encapsulation::Geneve, 2), (204, Encapsulation::Vxlan, 3)];
/// The last bytes of the peers' addresses; that of the switch is 1.
pub(crate) const PEERS: [u8; 3] = [2, 3, 4];

pub(crate) fn address(last: u8) -> IpAddr {
    Ipv4Addr::new(172, 31, 0, last).into()
}

/// The last byte of an address.
fn last(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(address) => address.octets()[3],
        IpAddr::V6(address) => address.octets()[15],
    }
}

/// An output packet: host, port and bytes.
pub(crate) type Out = (String, u16, Vec<u8>);

/// A switch with tunnel ports, and a fabric whose host `here` must behave the same. Peers write the tunnel metadata
/// into the addresses of received packets, and distinguish encapsulations by ports.
pub(crate) struct Beside {
    pub(crate) switch: DummySwitch,
    pub(crate) fabric: Fabric,
}

impl Beside {
    pub(crate) fn start() -> Beside {
        let mut switch = DummySwitch::start(1..=crate::open_vswitch::PORTS);
        let for_all = FOR_ALL.iter().map(|(port, kind)| (*port, *kind, "flow".to_owned()));
        let for_one = FOR_ONE.iter().map(|(port, kind, peer)| (*port, *kind, address(*peer).to_string()));
        let ports: Vec<_> = for_all.chain(for_one).collect();
        switch.add_tunnels(address(1), &PEERS.map(address), &ports);
        let mut fabric = Fabric::default();
        fabric.add("here", here());
        for peer in PEERS {
            let mut bridge = bridge([1, 100, 101, 102]);
            for (port, _) in FOR_ALL {
                let flow = format!(
                    "in_port={port} actions=move:NXM_NX_TUN_ID[0..31]->NXM_OF_ETH_SRC[0..31],\
                     move:NXM_NX_TUN_METADATA0[0..31]->NXM_OF_ETH_DST[0..31],output:{}",
                    port - 100
                );
                bridge.add_flow(flow.parse().expect("a flow")).expect("taken");
            }
            fabric.add(&peer.to_string(), Host::new(bridge, address(peer), tunnels()));
        }
        Beside { switch, fabric }
    }

    /// Replaces all flows and groups on both sides. The groups are in an order in which each names only earlier ones.
    pub(crate) fn load(&mut self, groups: &[String], flows: &[String]) {
        self.switch.load(groups, flows).expect("the switch takes the flows");
        let mut host = here();
        for group in groups {
            host.bridge.add_group(group.parse().expect("a group")).expect("taken");
        }
        for flow in flows {
            host.bridge.add_flow(flow.parse().expect("a flow")).expect("taken");
        }
        self.fabric.add("here", host);
    }

    /// Lets a port receive a frame on both sides.
    ///
    /// # Errors
    /// The outputs that differ.
    pub(crate) fn receive(&mut self, port: u16, bytes: &[u8]) -> Result<(), String> {
        let packet = || Packet::new(bytes.to_vec(), PortNo(port));
        let before = self.fabric.clone();
        let crossing = self.fabric.send("here", packet());
        let sent = self.switch.receive(port, bytes);
        self.compare(crossing, sent).map_err(|difference| {
            format!("{} on port {port}\n{difference}{}", hex(bytes), steps(&before.trace("here", packet())))
        })
    }

    /// Lets both sides receive a frame from a peer, by the peer's tunnel port for all.
    ///
    /// # Errors
    /// The outputs that differ.
    pub(crate) fn receive_tunnelled(&mut self, wrapped: &Wrapped) -> Result<(), String> {
        let peer = last(wrapped.from).to_string();
        let port =
            FOR_ALL.iter().find(|(_, kind)| *kind == wrapped.encapsulation).map_or(0, |(port, _)| *port);
        let set =
            wrapped.option.map_or(String::new(), |option| format!("set_field:{option}->tun_metadata0,"));
        let flow = format!(
            "in_port=1 actions={set}set_field:{}->tun_id,set_field:{}->tun_dst,output:{port}",
            wrapped.key, wrapped.to
        );
        let sender = self.fabric.host_mut(&peer).expect("it is there");
        sender.bridge.add_flow(flow.parse().expect("a flow")).expect("taken");
        let packet = || Packet::new(wrapped.inner.clone(), PortNo(1));
        let before = self.fabric.clone();
        let crossing = self.fabric.send(&peer, packet());
        let sent = self.switch.receive_from_peer(wrapped);
        self.compare(crossing, sent).map_err(|difference| {
            format!("{wrapped:?}\n{difference}{}", steps(&before.trace(&peer, packet())))
        })
    }

    fn compare(&mut self, crossing: Crossing, sent: Vec<(u16, Vec<u8>)>) -> Result<(), String> {
        let there = sent_by_switch(sent, &self.switch.sent_up());
        let out = arrived(crossing);
        if out == there {
            return Ok(());
        }
        let print = |out: &[Out]| {
            out.iter().fold(String::new(), |text, (host, port, bytes)| {
                text + &format!("  {host}, port {port}: {}\n", hex(bytes))
            })
        };
        Err(format!("Open vSwitch:\n{}here:\n{}", print(&there), print(&out)))
    }
}

fn steps(crossing: &Crossing) -> String {
    crossing.hops.iter().flat_map(|(_, steps)| steps).map(ToString::to_string).collect()
}

pub(crate) fn arrived(crossing: Crossing) -> Vec<Out> {
    let mut out: Vec<Out> =
        crossing.arrived.into_iter().map(|one| (one.host, one.port.0, one.bytes)).collect();
    out.sort();
    out
}

fn here() -> Host {
    let mut here = Host::new(bridge(1..=crate::open_vswitch::PORTS), address(1), tunnels());
    for (port, encapsulation, peer) in FOR_ONE {
        here.add_tunnel(
            PortNo(port),
            Tunnel { encapsulation: simulated(encapsulation), remote: Some(address(peer)) },
        );
    }
    here
}

fn bridge(ports: impl IntoIterator<Item = u16>) -> Bridge {
    Bridge::new(ports.into_iter().map(PortNo))
}

fn tunnels() -> impl Iterator<Item = (PortNo, flow_simulator::Encapsulation)> {
    FOR_ALL.iter().map(|(port, kind)| (PortNo(*port), simulated(*kind)))
}

fn simulated(encapsulation: Encapsulation) -> flow_simulator::Encapsulation {
    match encapsulation {
        Encapsulation::Geneve => flow_simulator::Encapsulation::Geneve,
        Encapsulation::Vxlan => flow_simulator::Encapsulation::Vxlan,
        Encapsulation::Gre => flow_simulator::Encapsulation::Gre,
    }
}

/// The output of a fabric's peer for a frame that the switch sent to it.
fn at_peer(sent: &Wrapped) -> Out {
    let mut bytes = sent.inner.clone();
    if bytes.len() >= 14 {
        bytes[2..6].copy_from_slice(&sent.option.unwrap_or(0).to_be_bytes());
        bytes[8..12].copy_from_slice(&sent.key.to_be_bytes());
    }
    let port = FOR_ALL.iter().find(|(_, kind)| *kind == sent.encapsulation).map_or(0, |(port, _)| port - 100);
    (last(sent.to).to_string(), port, bytes)
}

pub(crate) fn sent_by_switch(ports: Vec<(u16, Vec<u8>)>, uplink: &[Vec<u8>]) -> Vec<Out> {
    let mut out: Vec<Out> = ports.into_iter().map(|(port, bytes)| ("here".to_owned(), port, bytes)).collect();
    // The switch sends ARP for its own address to the underlay if a packet is tunnelled to it.
    let is_arp = |frame: &Vec<u8>| frame.get(12..14) == Some(&[8, 6]);
    let tunnelled = uplink.iter().filter(|frame| !is_arp(frame));
    out.extend(tunnelled.map(|frame| {
        at_peer(&unwrap(frame).unwrap_or_else(|| panic!("no tunnelled frame: {}", hex(frame))))
    }));
    out.sort();
    out
}
