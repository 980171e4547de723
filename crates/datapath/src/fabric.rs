//! Several hosts and the tunnels between them.

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;

use openflow_rs::{Field, PortNo};

use crate::trace::Step;
use crate::{Bridge, Packet, Stopped};

/// What a tunnel wraps packets in, as far as the receiver can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Encapsulation {
    /// Geneve, with a key of 24 bits. Its options are not carried.
    Geneve,
    /// VXLAN, with a key of 24 bits.
    Vxlan,
    /// GRE, with a key of 32 bits.
    Gre,
}

impl Encapsulation {
    /// The part of a tunnel key that arrives: the rest is cut off without an error.
    fn carried(self, tun_id: u128) -> u128 {
        match self {
            Encapsulation::Geneve | Encapsulation::Vxlan => tun_id & 0x00ff_ffff,
            Encapsulation::Gre => tun_id & 0xffff_ffff,
        }
    }
}

/// A host: a bridge, the address that tunnels find it by, and its tunnel ports, each of which serves all peers
/// (`options:remote_ip=flow`, `options:key=flow`).
#[derive(Clone, Debug)]
pub struct Host {
    /// The bridge; tunnel ports are ports of it too.
    pub bridge: Bridge,
    address: Ipv4Addr,
    tunnels: BTreeMap<PortNo, Encapsulation>,
}

impl Host {
    /// A host with these tunnel ports, which are added to the bridge.
    pub fn new(
        mut bridge: Bridge,
        address: Ipv4Addr,
        tunnels: impl IntoIterator<Item = (PortNo, Encapsulation)>,
    ) -> Host {
        let tunnels: BTreeMap<PortNo, Encapsulation> = tunnels.into_iter().collect();
        for port in tunnels.keys() {
            bridge.add_port(*port);
        }
        Host { bridge, address, tunnels }
    }
}

/// Hosts that reach each other by tunnels over an underlay that loses nothing.
///
/// ```
/// use std::net::Ipv4Addr;
/// use datapath::{Bridge, Encapsulation, Fabric, Host, Packet};
/// use openflow_rs::PortNo;
///
/// let mut fabric = Fabric::default();
/// for (name, flow) in [
///     ("hv1", "in_port=1 actions=set_field:0x102->tun_id,set_field:10.0.0.2->tun_dst,output:200"),
///     ("hv2", "in_port=200,tun_id=0x102,tun_src=10.0.0.1 actions=output:3"),
/// ] {
///     let mut bridge = Bridge::new([PortNo(1), PortNo(3)]);
///     bridge.add_flow(flow.parse()?)?;
///     let address = Ipv4Addr::new(10, 0, 0, name.as_bytes()[2] - b'0');
///     fabric.add(name, Host::new(bridge, address, [(PortNo(200), Encapsulation::Geneve)]));
/// }
/// let crossing = fabric.send("hv1", Packet::new(vec![2; 60], PortNo(1)));
/// assert_eq!(crossing.arrived.len(), 1);
/// assert_eq!((crossing.arrived[0].host.as_str(), crossing.arrived[0].port), ("hv2", PortNo(3)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Fabric {
    hosts: BTreeMap<String, Host>,
}

/// A packet that left the fabric by a port that is no tunnel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrival {
    /// The host.
    pub host: String,
    /// The port, [`PortNo::CONTROLLER`] for a packet-in.
    pub port: PortNo,
    /// The packet.
    pub bytes: Vec<u8>,
}

/// A packet that was lost between flow tables, by a fault of theirs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// It left by a tunnel port without being told where to.
    #[error("{host}: a packet left by tunnel port {port} with tun_dst 0: set tun_dst before the output")]
    NoDestination {
        /// The sender.
        host: String,
        /// Its tunnel port.
        port: PortNo,
    },
    /// No other host has the address.
    #[error("{host}: a packet was tunnelled to {address}, which is no other host's address")]
    NoHost {
        /// The sender.
        host: String,
        /// The address.
        address: Ipv4Addr,
    },
    /// The receiver has no tunnel port of this encapsulation.
    #[error("{host} has no port for {encapsulation:?}, which {from} sent")]
    NoTunnel {
        /// The sender.
        from: String,
        /// The receiver.
        host: String,
        /// What was sent.
        encapsulation: Encapsulation,
    },
    /// A bridge gave the packet up.
    #[error("{host}: {why}")]
    Stopped {
        /// The host.
        host: String,
        /// Why.
        why: Stopped,
    },
    /// Packets went round, or multiplied, and what was still under way was thrown away.
    #[error(
        "more than {MAX_CROSSINGS} packets crossed tunnels for one that was sent: look for a loop between hosts"
    )]
    Storm,
    /// The packet was to start at a host that is not there.
    #[error("there is no host {0}")]
    Unknown(String),
}

/// Packets through tunnels for one that was sent; a switch on every one of 3,000 hosts needs 2,999.
const MAX_CROSSINGS: usize = 100_000;

/// What became of a packet that was sent into a fabric.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Crossing {
    /// Where it came out, in order: by one host after the other as they were reached.
    pub arrived: Vec<Arrival>,
    /// What went wrong on the way. A packet that flows drop is not lost.
    pub lost: Vec<Lost>,
    /// For each host in turn that the packet or a copy of it passed: what was done there, if it was asked for.
    pub hops: Vec<(String, Vec<Step>)>,
}

impl Fabric {
    /// Adds a host, in place of one with the same name.
    pub fn add(&mut self, name: &str, host: Host) {
        self.hosts.insert(name.to_owned(), host);
    }

    /// A host, to change its flows.
    pub fn host_mut(&mut self, name: &str) -> Option<&mut Host> {
        self.hosts.get_mut(name)
    }

    /// Sends a packet from a port of a host and follows it and its copies wherever they go.
    pub fn send(&self, host: &str, packet: Packet) -> Crossing {
        self.follow(host, packet, false)
    }

    /// As [`Fabric::send`], and says what was done on every host.
    pub fn trace(&self, host: &str, packet: Packet) -> Crossing {
        self.follow(host, packet, true)
    }

    fn follow(&self, host: &str, packet: Packet, wanted: bool) -> Crossing {
        let mut crossing = Crossing::default();
        let Some((name, host)) = self.hosts.get_key_value(host) else {
            crossing.lost.push(Lost::Unknown(host.to_owned()));
            return crossing;
        };
        let mut under_way = VecDeque::from([(name, host, packet)]);
        let mut crossings = 0;
        while let Some((name, host, packet)) = under_way.pop_front() {
            let outcome = if wanted { host.bridge.trace(&packet) } else { host.bridge.process(&packet) };
            if wanted {
                crossing.hops.push((name.clone(), outcome.steps));
            }
            crossing.lost.extend(outcome.stopped.map(|why| Lost::Stopped { host: name.clone(), why }));
            for emitted in outcome.emitted {
                let Some(encapsulation) = host.tunnels.get(&emitted.port) else {
                    let (host, port, bytes) = (name.clone(), emitted.port, emitted.bytes);
                    crossing.arrived.push(Arrival { host, port, bytes });
                    continue;
                };
                crossings += 1;
                if crossings > MAX_CROSSINGS {
                    crossing.lost.push(Lost::Storm);
                    return crossing;
                }
                let to = Ipv4Addr::from(emitted.key.get(Field::TunDst) as u32);
                match self.receiver(name, host, to, emitted.port, *encapsulation) {
                    Ok((peer_name, peer, port)) => {
                        let packet = Packet::new(emitted.bytes, port)
                            .with(Field::TunId, encapsulation.carried(emitted.key.get(Field::TunId)))
                            .with(Field::TunSrc, host.address.to_bits().into())
                            .with(Field::TunDst, to.to_bits().into());
                        under_way.push_back((peer_name, peer, packet));
                    }
                    Err(lost) => crossing.lost.push(lost),
                }
            }
        }
        crossing
    }

    /// The host with this address, and the port that what was sent there comes in by.
    fn receiver(
        &self,
        from: &str,
        sender: &Host,
        address: Ipv4Addr,
        port: PortNo,
        encapsulation: Encapsulation,
    ) -> Result<(&String, &Host, PortNo), Lost> {
        if address.is_unspecified() {
            return Err(Lost::NoDestination { host: from.to_owned(), port });
        }
        let peer = self.hosts.iter().find(|(_, host)| host.address == address && address != sender.address);
        let (name, peer) = peer.ok_or_else(|| Lost::NoHost { host: from.to_owned(), address })?;
        let own = peer.tunnels.iter().find(|(_, kind)| **kind == encapsulation).map(|(port, _)| *port);
        let no_tunnel = || Lost::NoTunnel { from: from.to_owned(), host: name.clone(), encapsulation };
        own.map(|port| (name, peer, port)).ok_or_else(no_tunnel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A host `hvN` at 10.0.0.N with port N and Geneve at 200.
    fn host(number: u8, groups: &[&str], flows: &[&str]) -> Host {
        let mut bridge = Bridge::new([PortNo(number.into())]);
        let tunnels = [(PortNo(200), Encapsulation::Geneve)];
        for group in groups {
            bridge.add_group(group.parse().unwrap()).unwrap();
        }
        for flow in flows {
            bridge.add_flow(flow.parse().unwrap()).unwrap();
        }
        Host::new(bridge, Ipv4Addr::new(10, 0, 0, number), tunnels)
    }

    fn send(fabric: &Fabric) -> (Vec<(String, u16)>, Vec<Lost>) {
        let crossing = fabric.send("hv1", Packet::new(vec![2; 60], PortNo(1)));
        (crossing.arrived.into_iter().map(|one| (one.host, one.port.0)).collect(), crossing.lost)
    }

    fn fabric(hosts: impl IntoIterator<Item = Host>) -> Fabric {
        let mut fabric = Fabric::default();
        for (number, host) in hosts.into_iter().enumerate() {
            fabric.add(&format!("hv{}", number + 1), host);
        }
        fabric
    }

    const FLOOD: &str = "group_id=1,type=all,bucket=actions=set_field:10.0.0.2->tun_dst,resubmit(,50),\
                         bucket=actions=set_field:10.0.0.3->tun_dst,resubmit(,50)";

    #[test]
    fn a_flood_reaches_each_host_once_with_the_senders_address_and_a_key_of_24_bits() {
        let send_on = "table=50 actions=set_field:0x5000102->tun_id,output:200";
        let received = |number: u8| {
            format!(
                "in_port=200,tun_id=0x102,tun_src=10.0.0.1,tun_dst=10.0.0.{number},reg0=0 actions=output:{number}"
            )
        };
        let fabric = fabric([
            host(1, &[FLOOD], &["in_port=1 actions=set_field:9->reg0,group:1", send_on]),
            host(2, &[], &[&received(2)]),
            host(3, &[], &[&received(3)]),
        ]);
        assert_eq!(send(&fabric), (vec![("hv2".to_owned(), 2), ("hv3".to_owned(), 3)], vec![]));
        let traced = fabric.trace("hv1", Packet::new(vec![2; 60], PortNo(1)));
        let hops: Vec<&str> = traced.hops.iter().map(|(host, _)| host.as_str()).collect();
        assert_eq!(hops, ["hv1", "hv2", "hv3"]);
    }

    #[test]
    fn a_packet_from_a_tunnel_leaves_by_it_only_if_told_to() {
        let to = |address: u8| format!("actions=set_field:10.0.0.{address}->tun_dst,output:200");
        let relay =
            |clear: &str| format!("in_port=200 actions={clear}set_field:10.0.0.3->tun_dst,output:200");
        let hosts =
            |clear| [host(1, &[], &[&to(2)]), host(2, &[], &[&relay(clear)]), host(3, &[], &["actions=3"])];
        assert_eq!(send(&fabric(hosts(""))), (vec![], vec![]));
        assert_eq!(send(&fabric(hosts("set_field:0->in_port,"))), (vec![("hv3".to_owned(), 3)], vec![]));
    }

    #[test]
    fn what_goes_nowhere_or_round_is_said() {
        let bad = |actions: &str| send(&fabric([host(1, &[], &[&format!("actions={actions}")])])).1;
        let (host_name, port) = ("hv1".to_owned(), PortNo(200));
        assert_eq!(bad("output:200"), [Lost::NoDestination { host: host_name.clone(), port }]);
        for last in [1, 7] {
            let address = Ipv4Addr::new(10, 0, 0, last);
            let lost = bad(&format!("set_field:{address}->tun_dst,output:200"));
            assert_eq!(lost, [Lost::NoHost { host: host_name.clone(), address }]);
        }
        let back = |to: u8| format!("actions=set_field:10.0.0.{to}->tun_dst,set_field:0->in_port,output:200");
        let round = fabric([host(1, &[], &[&back(2)]), host(2, &[], &[&back(1)])]);
        assert_eq!(send(&round), (vec![], vec![Lost::Storm]));
    }
}
