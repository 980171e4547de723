//! Several hosts, the tunnels between them, and the physical networks that they share.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use openflow_rs::{Actions, PortNo};

use crate::trace::{HandedOver, Step};
use crate::walk::{Hosts, Walk};
use crate::{Bridge, Encapsulation, Lost, Packet, Tunnel};

/// A host: a bridge, the address of its tunnel endpoint, and the physical networks of its patch ports.
#[derive(Clone, Debug)]
pub struct Host {
    /// The bridge; tunnel and patch ports are ports of it too.
    pub bridge: Bridge,
    address: IpAddr,
    networks: BTreeMap<PortNo, String>,
    underlay_mtu: Option<u32>,
    down: bool,
}

impl Host {
    /// Makes a host with these tunnel ports, which are added to the bridge; each serves all peers
    /// (`options:remote_ip=flow`, `options:key=flow`).
    pub fn new(
        mut bridge: Bridge,
        address: impl Into<IpAddr>,
        tunnels: impl IntoIterator<Item = (PortNo, Encapsulation)>,
    ) -> Host {
        for (port, encapsulation) in tunnels {
            bridge.add_tunnel(port, encapsulation);
        }
        Host { bridge, address: address.into(), networks: BTreeMap::new(), underlay_mtu: None, down: false }
    }

    /// Limits the packets that the host sends into tunnels: the largest on the underlay, in bytes, with all their headers. Open vSwitch
    /// forbids fragments of them (`options:df_default`).
    pub fn set_underlay_mtu(&mut self, mtu: u32) {
        self.underlay_mtu = Some(mtu);
    }

    /// That limit; none if there is none.
    pub(crate) fn underlay_mtu(&self) -> Option<u32> {
        self.underlay_mtu
    }

    /// Whether the host is down ([`Fabric::set_down`]).
    pub fn is_down(&self) -> bool {
        self.down
    }

    /// The address of the host's tunnel endpoint.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Changes the address of the host's tunnel endpoint.
    #[cfg(test)]
    fn set_address(&mut self, address: impl Into<IpAddr>) {
        self.address = address.into();
    }

    /// Adds a tunnel port, for all peers or for a single one.
    pub fn add_tunnel(&mut self, port: PortNo, tunnel: impl Into<Tunnel>) {
        self.bridge.add_tunnel(port, tunnel);
    }

    /// Adds a patch port to a physical network.
    pub fn attach(&mut self, port: PortNo, network: &str) {
        self.bridge.add_patch(port);
        self.networks.insert(port, network.to_owned());
    }

    /// Removes a port of any kind.
    pub fn remove_port(&mut self, port: PortNo) {
        self.bridge.remove_port(port);
        self.networks.remove(&port);
    }

    /// The physical network of a patch port.
    pub(crate) fn network(&self, port: PortNo) -> Option<&str> {
        self.networks.get(&port).map(String::as_str)
    }

    /// The patch ports to a physical network.
    pub(crate) fn ports_of<'a>(&'a self, network: &'a str) -> impl Iterator<Item = PortNo> + 'a {
        self.networks.iter().filter(move |(_, name)| *name == network).map(|(port, _)| *port)
    }
}

/// Hosts that reach each other by tunnels over a lossless underlay, and over physical networks.
///
/// ```
/// use std::net::Ipv4Addr;
/// use flow_simulator::{Bridge, Encapsulation, Fabric, Host, Packet};
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

/// A packet that left the fabric by a port that is not a tunnel port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrival {
    /// The host.
    pub host: String,
    /// The port, [`PortNo::CONTROLLER`] for a packet-in.
    pub port: PortNo,
    /// The packet.
    pub bytes: Vec<u8>,
}

/// The maximum number of packets between hosts for one packet sent; a logical switch on 3,000 hosts needs 2,999.
pub(crate) const MAX_CROSSINGS: usize = 100_000;

/// A packet in a tunnel, as somebody sends it to the tunnel endpoint of a host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tunnelled {
    /// The tunnel's encapsulation.
    pub encapsulation: Encapsulation,
    /// The source address of the outer header.
    pub from: IpAddr,
    /// The tunnel's key.
    pub key: u32,
    /// Geneve's option.
    pub option: Option<u32>,
    /// The frame inside.
    pub inner: Vec<u8>,
}

/// A frame on a physical network, as another machine there receives it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tapped {
    /// The network.
    pub network: String,
    /// The frame, with its tags.
    pub bytes: Vec<u8>,
}

/// The result of sending a packet into a fabric.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Crossing {
    /// The packets delivered, in order: host by host as the hosts were reached.
    pub arrived: Vec<Arrival>,
    /// The frames that hosts sent into physical networks, in order.
    pub tapped: Vec<Tapped>,
    /// The packets that went through tunnels, in order: sender and receiver.
    pub tunnelled: Vec<(String, String)>,
    /// The packets lost by faults of the flow tables. A packet that flows drop is not lost.
    pub lost: Vec<Lost>,
    /// The packets that hosts handed over to a process by the action `controller`, in order. Whether one is connected is not known here.
    pub handed: Vec<(String, HandedOver)>,
    /// The trace on each host that the packet or a copy passed, in order, if it was requested.
    pub hops: Vec<(String, Vec<Step>)>,
    /// For each of these, the number of the one that it came from, from 0; none for the first on its way.
    pub before: Vec<Option<usize>>,
}

impl Fabric {
    /// Adds a host, replacing one with the same name.
    pub fn add(&mut self, name: &str, host: Host) {
        self.hosts.insert(name.to_owned(), host);
    }

    /// Removes a host.
    pub fn remove(&mut self, name: &str) -> Option<Host> {
        self.hosts.remove(name)
    }

    /// A host.
    pub fn host(&self, name: &str) -> Option<&Host> {
        self.hosts.get(name)
    }

    /// A host, to change its flows.
    pub fn host_mut(&mut self, name: &str) -> Option<&mut Host> {
        self.hosts.get_mut(name)
    }

    /// Takes a host down, or brings it up again. While it is down, it gets nothing, and the tunnel ports of other hosts that have it as
    /// their only peer are not live, as BFD finds out on a switch. So groups that watch these ports choose other buckets. A tunnel
    /// port that is added later is live until the next call.
    pub fn set_down(&mut self, name: &str, down: bool) {
        let Some(host) = self.hosts.get_mut(name) else { return };
        host.down = down;
        let address = host.address;
        for other in self.hosts.values_mut() {
            let to_it: Vec<PortNo> = other
                .bridge
                .tunnels()
                .filter(|(_, tunnel)| tunnel.remote == Some(address))
                .map(|(port, _)| port)
                .collect();
            for port in to_it {
                other.bridge.set_live(port, !down);
            }
        }
    }

    /// The hosts, by name.
    pub fn hosts(&self) -> impl Iterator<Item = (&str, &Host)> {
        self.hosts.iter().map(|(name, host)| (name.as_str(), host))
    }

    /// Advances time on all hosts ([`Bridge::advance`]).
    pub fn advance(&mut self, time: Duration) {
        self.hosts.values_mut().for_each(|host| host.bridge.advance(time));
    }

    /// Sends a packet from a port of a host and follows it and its copies. Hosts learn from it.
    pub fn send(&mut self, host: &str, packet: Packet) -> Crossing {
        Walk::new(Hosts::Live(&mut self.hosts), false).start_at_host(host, packet)
    }

    /// Has a host carry out these actions on a packet, which a controller sends out as from the bridge itself, and follows it and its
    /// copies. Hosts learn from it.
    pub fn send_out(&mut self, host: &str, bytes: Vec<u8>, actions: &Actions) -> Crossing {
        let packet = Packet::new(bytes, PortNo::LOCAL);
        Walk::new(Hosts::Live(&mut self.hosts), false).start_with_actions(host, &packet, actions)
    }

    /// The result that [`Fabric::send`] would have, with the trace on every host. No host learns from it.
    pub fn trace(&self, host: &str, packet: Packet) -> Crossing {
        Walk::new(Hosts::untouched(&self.hosts), true).start_at_host(host, packet)
    }

    /// The result that [`Fabric::send_out`] would have, as in [`Fabric::trace`].
    pub fn trace_out(&self, host: &str, bytes: Vec<u8>, actions: &Actions) -> Crossing {
        let packet = Packet::new(bytes, PortNo::LOCAL);
        Walk::new(Hosts::untouched(&self.hosts), true).start_with_actions(host, &packet, actions)
    }

    /// Sends a packet to the tunnel endpoint of a host, from anywhere. If the host has no tunnel port for it, Open vSwitch
    /// drops it. Hosts learn from it.
    pub fn send_tunnelled(&mut self, host: &str, tunnelled: &Tunnelled) -> Crossing {
        Walk::new(Hosts::Live(&mut self.hosts), false).start_in_tunnel(host, tunnelled)
    }

    /// The result that [`Fabric::send_tunnelled`] would have, as in [`Fabric::trace`].
    pub fn trace_tunnelled(&self, host: &str, tunnelled: &Tunnelled) -> Crossing {
        Walk::new(Hosts::untouched(&self.hosts), true).start_in_tunnel(host, tunnelled)
    }

    /// Sends a frame from another machine on an ideal physical network: whatever its tags are, it reaches everybody
    /// there. Hosts learn from it.
    pub fn send_physical(&mut self, network: &str, bytes: Vec<u8>) -> Crossing {
        Walk::new(Hosts::Live(&mut self.hosts), false).start_on_network(network, bytes)
    }

    /// The result that [`Fabric::send_physical`] would have, as in [`Fabric::trace`].
    pub fn trace_physical(&self, network: &str, bytes: Vec<u8>) -> Crossing {
        Walk::new(Hosts::untouched(&self.hosts), true).start_on_network(network, bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::walk::ETHERNET;

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

    fn send(fabric: &mut Fabric) -> (Vec<(String, u16)>, Vec<Lost>) {
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
        let mut fabric = fabric([
            host(1, &[FLOOD], &["in_port=1 actions=set_field:9->reg0,group:1", send_on]),
            host(2, &[], &[&received(2)]),
            host(3, &[], &[&received(3)]),
        ]);
        assert_eq!(send(&mut fabric), (vec![("hv2".to_owned(), 2), ("hv3".to_owned(), 3)], vec![]));
        let traced = fabric.trace("hv1", Packet::new(vec![2; 60], PortNo(1)));
        let hops: Vec<&str> = traced.hops.iter().map(|(host, _)| host.as_str()).collect();
        assert_eq!(hops, ["hv1", "hv2", "hv3"]);
        let through = ["hv2", "hv3"].map(|to| ("hv1".to_owned(), to.to_owned()));
        assert_eq!(traced.tunnelled, through);
    }

    #[test]
    fn a_packet_from_a_tunnel_leaves_by_it_only_if_told_to() {
        let to = |address: u8| format!("actions=set_field:10.0.0.{address}->tun_dst,output:200");
        let relay =
            |clear: &str| format!("in_port=200 actions={clear}set_field:10.0.0.3->tun_dst,output:200");
        let hosts =
            |clear| [host(1, &[], &[&to(2)]), host(2, &[], &[&relay(clear)]), host(3, &[], &["actions=3"])];
        assert_eq!(send(&mut fabric(hosts(""))), (vec![], vec![]));
        assert_eq!(send(&mut fabric(hosts("set_field:0->in_port,"))), (vec![("hv3".to_owned(), 3)], vec![]));
    }

    #[test]
    fn a_group_that_watches_tunnels_passes_by_a_host_that_is_down() {
        let group = "group_id=7,type=ff,bucket=bucket_id:1,watch_port:301,actions=output:301,\
                     bucket=bucket_id:2,watch_port:302,actions=output:302";
        let mut sender = host(1, &[], &[]);
        for (port, last) in [(301, 2), (302, 3)] {
            let remote = Some(Ipv4Addr::new(10, 0, 0, last).into());
            sender.add_tunnel(PortNo(port), Tunnel { encapsulation: Encapsulation::Geneve, remote });
        }
        sender.bridge.add_group(group.parse().unwrap()).unwrap();
        sender.bridge.add_flow("in_port=1 actions=group:7".parse().unwrap()).unwrap();
        let mut fabric =
            fabric([sender, host(2, &[], &["actions=output:2"]), host(3, &[], &["actions=output:3"])]);
        let arrived = |last: u16| (vec![(format!("hv{last}"), last)], vec![]);
        assert_eq!(send(&mut fabric), arrived(2));
        fabric.set_down("hv2", true);
        assert_eq!(send(&mut fabric), arrived(3));
        let traced = fabric.trace("hv1", Packet::new(vec![2; 60], PortNo(1)));
        let text: String = traced.hops.iter().flat_map(|(_, steps)| steps).map(ToString::to_string).collect();
        assert!(text.contains("bucket 2, the first that is live; 1: port 301 is not live"), "{text}");
        fabric.set_down("hv3", true);
        assert_eq!(send(&mut fabric), (vec![], vec![]));
        fabric.set_down("hv2", false);
        assert_eq!(send(&mut fabric), arrived(2));
        // Without a group, the packet is sent and lost.
        fabric.set_down("hv2", true);
        let sender = fabric.host_mut("hv1").unwrap();
        sender.bridge.add_flow("in_port=1 actions=output:301".parse().unwrap()).unwrap();
        assert_eq!(send(&mut fabric), (vec![], vec![Lost::Down { host: "hv2".to_owned() }]));
    }

    #[test]
    fn what_goes_nowhere_or_round_is_said() {
        let bad = |actions: &str| send(&mut fabric([host(1, &[], &[&format!("actions={actions}")])])).1;
        let (host_name, port) = ("hv1".to_owned(), PortNo(200));
        assert_eq!(bad("output:200"), [Lost::NoDestination { host: host_name.clone(), port }]);
        for last in [1, 7] {
            let address = Ipv4Addr::new(10, 0, 0, last);
            let lost = bad(&format!("set_field:{address}->tun_dst,output:200"));
            assert_eq!(lost, [Lost::NoHost { host: host_name.clone(), address: address.into() }]);
        }
        let back = |to: u8| format!("actions=set_field:10.0.0.{to}->tun_dst,set_field:0->in_port,output:200");
        let mut round = fabric([host(1, &[], &[&back(2)]), host(2, &[], &[&back(1)])]);
        assert_eq!(send(&mut round), (vec![], vec![Lost::Storm]));
    }

    #[test]
    fn a_packet_that_does_not_fit_into_the_underlay_is_lost_and_one_byte_less_is_not() {
        for (option, fits) in [("", 1450), ("set_field:1->tun_metadata0,", 1442)] {
            let sends = format!("in_port=1 actions={option}set_field:10.0.0.2->tun_dst,output:200");
            let mut fabric = fabric([host(1, &[], &[&sends]), host(2, &[], &["in_port=200 actions=2"])]);
            fabric.host_mut("hv1").unwrap().set_underlay_mtu(1500);
            let mut send = |ip: u32| {
                let frame = vec![2; ETHERNET + ip as usize];
                let crossing = fabric.send("hv1", Packet::new(frame, PortNo(1)));
                (crossing.arrived.len(), crossing.lost)
            };
            assert_eq!(send(fits), (1, vec![]));
            let (from, host) = ("hv1".to_owned(), "hv2".to_owned());
            let lost = Lost::TooLarge { from, host, size: 1501, mtu: 1500, fits };
            assert_eq!(send(fits + 1), (0, vec![lost]));
        }
    }

    #[test]
    fn what_a_peer_sends_comes_in_by_its_own_port_if_it_has_one() {
        let one = |remote: u8, encapsulation| Tunnel {
            encapsulation,
            remote: Some(Ipv4Addr::new(10, 0, 0, remote).into()),
        };
        let mut sender = host(1, &[], &["in_port=1 actions=output:201"]);
        sender.add_tunnel(PortNo(201), one(2, Encapsulation::Geneve));
        let mut receiver = host(2, &[], &["in_port=200 actions=output:2", "in_port=202 actions=LOCAL"]);
        let mut fabric = fabric([sender.clone(), receiver.clone(), host(3, &[], &[])]);
        assert_eq!(send(&mut fabric), (vec![("hv2".to_owned(), 2)], vec![]));
        receiver.add_tunnel(PortNo(202), one(3, Encapsulation::Geneve));
        receiver.add_tunnel(PortNo(203), one(1, Encapsulation::Vxlan));
        fabric.add("hv2", receiver.clone());
        assert_eq!(send(&mut fabric), (vec![("hv2".to_owned(), 2)], vec![]), "others' ports");
        receiver.add_tunnel(PortNo(202), one(1, Encapsulation::Geneve));
        fabric.add("hv2", receiver.clone());
        assert_eq!(send(&mut fabric), (vec![("hv2".to_owned(), PortNo::LOCAL.0)], vec![]));
        receiver.remove_port(PortNo(202));
        receiver.remove_port(PortNo(200));
        fabric.add("hv2", receiver);
        let lost =
            Lost::NoTunnel { from: "hv1".into(), host: "hv2".into(), encapsulation: Encapsulation::Geneve };
        assert_eq!(send(&mut fabric), (vec![], vec![lost]));
    }

    #[test]
    fn what_strangers_send_comes_in_like_what_peers_send() {
        let mut receiver =
            host(1, &[], &["in_port=200,tun_src=10.9.9.9,tun_id=7,tun_metadata0=0x5 actions=1"]);
        let forged = |encapsulation, last| Tunnelled {
            encapsulation,
            from: Ipv4Addr::new(10, 9, 9, last).into(),
            key: 7,
            option: Some(5),
            inner: vec![2; 60],
        };
        let sent = |fabric: &mut Fabric, encapsulation, last| {
            let crossing = fabric.send_tunnelled("hv1", &forged(encapsulation, last));
            assert_eq!(crossing.lost, []);
            crossing.arrived.len()
        };
        let mut hosts = fabric([receiver.clone()]);
        assert_eq!(sent(&mut hosts, Encapsulation::Geneve, 9), 1);
        assert_eq!(sent(&mut hosts, Encapsulation::Geneve, 8), 0);
        assert_eq!(sent(&mut hosts, Encapsulation::Vxlan, 9), 0, "the host has no port for it");
        receiver.remove_port(PortNo(200));
        let own = |last| Tunnel {
            encapsulation: Encapsulation::Geneve,
            remote: Some(Ipv4Addr::new(10, 9, 9, last).into()),
        };
        for (peer, arrived) in [(8, 0), (9, 1)] {
            receiver.add_tunnel(PortNo(200), own(peer));
            assert_eq!(sent(&mut fabric([receiver.clone()]), Encapsulation::Geneve, 9), arrived);
        }
    }

    #[test]
    fn tunnels_over_ipv6_have_fields_of_their_own_and_both_ends_of_one_version() {
        let received =
            "in_port=200,tun_src=0.0.0.0,tun_ipv6_src=fd00::1,tun_ipv6_dst=fd00::2 actions=output:2";
        let mut hosts = [
            host(1, &[], &["in_port=1 actions=set_field:fd00::2->tun_ipv6_dst,output:200"]),
            host(2, &[], &[received]),
        ];
        hosts[1].set_address("fd00::2".parse::<IpAddr>().unwrap());
        let versions = Lost::OtherVersion {
            host: "hv1".to_owned(),
            from: Ipv4Addr::new(10, 0, 0, 1).into(),
            to: "fd00::2".parse().unwrap(),
        };
        assert_eq!(send(&mut fabric(hosts.clone())), (vec![], vec![versions]));
        hosts[0].set_address("fd00::1".parse::<IpAddr>().unwrap());
        assert_eq!(send(&mut fabric(hosts)), (vec![("hv2".to_owned(), 2)], vec![]));
    }

    #[test]
    fn geneve_alone_carries_the_option() {
        let flow =
            |port| format!("actions=set_field:7->tun_metadata0,set_field:10.0.0.2->tun_dst,output:{port}");
        let received = ["tun_metadata0=0x7 actions=output:2", "priority=1 actions=LOCAL"];
        for (encapsulation, port) in [(Encapsulation::Geneve, 2), (Encapsulation::Vxlan, PortNo::LOCAL.0)] {
            let mut hosts = [host(1, &[], &[&flow(201)]), host(2, &[], &received)];
            for host in &mut hosts {
                host.add_tunnel(PortNo(201), encapsulation);
            }
            assert_eq!(send(&mut fabric(hosts)), (vec![("hv2".to_owned(), port)], vec![]));
        }
    }

    #[test]
    fn a_physical_network_carries_a_frame_to_all_others_on_it() {
        let attached = |number: u8, flows: &[&str]| {
            let mut host = host(number, &[], flows);
            host.attach(PortNo(100), "blue");
            host
        };
        let mut hosts = [
            attached(1, &["in_port=1 actions=push_vlan:0x8100,set_field:4105->vlan_vid,output:100"]),
            attached(2, &["in_port=100,dl_vlan=9 actions=pop_vlan,output:2"]),
            attached(3, &["in_port=100,dl_vlan=8 actions=output:3", "in_port=101 actions=output:3"]),
            attached(4, &["in_port=100 actions=output:4"]),
        ];
        hosts[2].attach(PortNo(101), "red");
        hosts[3].remove_port(PortNo(100));
        let mut fabric = fabric(hosts);
        let frame = vec![2; 60];
        let crossing = fabric.send("hv1", Packet::new(frame.clone(), PortNo(1)));
        let arrived = [Arrival { host: "hv2".to_owned(), port: PortNo(2), bytes: frame.clone() }];
        assert_eq!((crossing.arrived, crossing.lost), (arrived.to_vec(), vec![]));
        let [tapped] = &crossing.tapped[..] else { panic!("{:?}", crossing.tapped) };
        assert_eq!((tapped.network.as_str(), &tapped.bytes[12..16]), ("blue", &[0x81, 0, 0, 9][..]));
        let again = fabric.send_physical("blue", tapped.bytes.clone());
        assert_eq!((again.arrived, again.tapped), (arrived.to_vec(), vec![]));
        assert_eq!(fabric.trace_physical("blue", tapped.bytes.clone()).hops.len(), 3);
    }

    #[test]
    fn hosts_learn_from_what_is_sent_and_not_from_what_is_traced() {
        let learn = "in_port=1 actions=learn(table=1,hard_timeout=10,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[])";
        let mut fabric = fabric([host(1, &[], &[learn])]);
        let learned = |fabric: &Fabric| fabric.host("hv1").unwrap().bridge.learned().len();
        fabric.trace("hv1", Packet::new(vec![2; 60], PortNo(1)));
        assert_eq!(learned(&fabric), 0);
        send(&mut fabric);
        assert_eq!(learned(&fabric), 1);
        fabric.advance(Duration::from_secs(10));
        assert_eq!(learned(&fabric), 1);
        fabric.advance(Duration::from_millis(1));
        assert_eq!(learned(&fabric), 0);
    }

    #[test]
    fn a_flood_that_is_cut_short_is_lost_in_part() {
        let bucket = |to: u32| {
            let to = Ipv4Addr::from_bits(0x0a00_0000 + to);
            format!(",bucket=actions=set_field:{to}->tun_dst,output:200")
        };
        for (others, cut) in [(780, vec![]), (781, vec![Lost::Cut { host: "hv1".to_owned() }])] {
            let group = (2..others + 2).fold("group_id=1,type=all".to_owned(), |text, to| text + &bucket(to));
            let mut fabric = fabric([host(1, &[&group], &["in_port=1 actions=group:1"])]);
            let mut receiver = host(2, &[], &["in_port=200 actions=LOCAL"]);
            for number in 2..others + 2 {
                receiver.set_address(Ipv4Addr::from_bits(0x0a00_0000 + number));
                fabric.add(&format!("hv{number}"), receiver.clone());
            }
            let (arrived, lost) = send(&mut fabric);
            assert_eq!((arrived.len(), lost), (780, cut));
        }
    }
}
