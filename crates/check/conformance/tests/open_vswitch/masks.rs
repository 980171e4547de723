//! What the datapath caches of ordinary packets: the fields that a cached flow matches decide how many packets it serves. Flows that
//! look at more widen it, also if they match no ordinary packet.

use std::net::{IpAddr, Ipv4Addr};

use conformance::{Change, NumberedWorld, Simulation, program};
use frame_builder::{
    Encapsulation, Endpoints, ICMP, IPV4, Ipv4, Mac, TCP, UDP, Wrapped, ethernet, icmp, tcp,
    udp_without_checksum,
};
use network_spec::{Address, Network, Node, Port, Router, RouterPort, Trust};
use ovs_testing::DummySwitch;

use super::numbered::{ipv4, mac, port};
use super::start;

const HERE: &str = "h1";
const THERE: &str = "h2";
/// Machines of the other host, which all send to one of this host.
const SENDERS: u8 = 12;

/// The MAC address of the router on both of its switches.
const ROUTER: Mac = mac(0xfe);
/// Ports that a machine sends to: 300, of all sizes.
const PORTS: std::ops::Range<u16> = 0..300;

fn addresses() -> [Ipv4Addr; 2] {
    [Ipv4Addr::new(172, 16, 0, 1), Ipv4Addr::new(172, 16, 0, 2)]
}

/// The address of a machine behind the router.
fn beyond(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 1, number)
}

/// Machines 1, `open`, and 2, both secured, and 3, `server`, which is trusted with what DHCP servers send; and the senders, from 11 on.
/// Behind a router, machine 2 on this host, and 12 on the other.
fn world() -> NumberedWorld {
    let mut world = NumberedWorld::new(false);
    for (host, ip) in [HERE, THERE].into_iter().zip(addresses()) {
        assert!(world.apply(&Change::Node(host.to_owned(), Node::at(ip))));
    }
    assert!(world.apply(&Change::Switch("blue".to_owned(), String::new())));
    let secured = |number| Port { port_security: true, ..port("blue", number) };
    let mut ports = vec![
        (HERE, "open".to_owned(), port("blue", 1)),
        (HERE, "guarded".to_owned(), secured(2)),
        (HERE, "server".to_owned(), Port { trust: [Trust::DhcpServer].into(), ..secured(3) }),
    ];
    ports.extend((0..SENDERS).map(|number| (THERE, format!("sender-{number}"), secured(11 + number))));
    assert!(world.apply(&Change::Switch("red".to_owned(), String::new())));
    for (host, name, number) in [(HERE, "near", 2), (THERE, "far", 12)] {
        let addresses = vec![Address { mac: mac(number), ips: vec![IpAddr::V4(beyond(number))] }];
        ports.push((host, name.to_owned(), Port { addresses, ..Port::of("red") }));
    }
    assert!(world.apply(&Change::Router("router".to_owned(), Router::default())));
    for (switch, ip) in [("blue", ipv4(0xfe)), ("red", beyond(0xfe))] {
        let (router, networks) = ("router".to_owned(), vec![Network::of(ip, 24)]);
        let port =
            RouterPort { router, switch: switch.to_owned(), mac: ROUTER, networks, gateways: Vec::new() };
        assert!(world.apply(&Change::RouterPort(format!("to-{switch}"), port)));
    }
    for (host, name, port) in ports {
        assert!(world.apply(&Change::Port(name.clone(), port)), "{name}");
        assert!(world.apply(&Change::Plug(host.to_owned(), name.clone())), "{name}");
    }
    world
}

fn switch(world: &NumberedWorld) -> DummySwitch {
    let mut simulation = Simulation::new(program::rules()).expect("the rules start");
    simulation.change(world, &|_| true).expect("the rules take the network");
    let host = simulation.hosts().fabric().host(HERE).expect("the host is there").clone();
    start(&host, &[IpAddr::V4(addresses()[1])])
}

fn datagram(from: u8, to: u8, ports: (u16, u16)) -> Vec<u8> {
    packet(from, (mac(to), ipv4(to)), UDP, &udp_without_checksum(ports.0, ports.1, b"said"))
}

fn packet(from: u8, (mac_to, to): (Mac, Ipv4Addr), protocol: u8, inside: &[u8]) -> Vec<u8> {
    ethernet(mac_to, mac(from), IPV4, &Ipv4::new(ipv4(from), to, protocol).packet(inside))
}

/// Ordinary packets of a machine, each with what it is: to a machine of its switch on this host and on the other, and to some behind
/// the router.
fn ordinary(number: u8) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    let here = if number == 1 { 2 } else { 1 };
    for (place, to) in [
        ("here", (mac(here), ipv4(here))),
        ("there", (mac(12), ipv4(12))),
        ("here, routed", (ROUTER, beyond(2))),
        ("there, routed", (ROUTER, beyond(12))),
    ] {
        // Of two ports, so that a cached flow that matches a part of the port differs.
        for port in [6000, 53] {
            let inside = udp_without_checksum(40_000, port, b"said");
            all.push((format!("{place}, UDP port {port}"), packet(number, to, UDP, &inside)));
        }
        let inside = tcp(40_000, 443, 2, &[], Endpoints::V4(ipv4(number), to.1));
        all.push((format!("{place}, TCP"), packet(number, to, TCP, &inside)));
        all.push((format!("{place}, echo"), packet(number, to, ICMP, &icmp(8, &[0, 1, 0, 1]))));
    }
    all
}

/// The fields of the packet that the datapath would match for a frame, without the port that it comes from.
fn matched(switch: &mut DummySwitch, world: &NumberedWorld, from: &str, frame: &[u8]) -> String {
    let in_port = world.ofports[&(HERE.to_owned(), from.to_owned())];
    let trace = switch.trace(in_port, frame);
    let megaflow = trace.lines().find_map(|line| line.strip_prefix("Megaflow: ")).expect("a trace");
    megaflow.replace(&format!("in_port={in_port},"), "")
}

#[test]
fn p16_cached_flows_of_ordinary_packets_match_no_more_than_they_must() {
    let world = world();
    let mut switch = switch(&world);
    let mut masks = String::new();
    for (from, number) in [("open", 1), ("guarded", 2), ("server", 3)] {
        for (what, frame) in ordinary(number) {
            let megaflow = matched(&mut switch, &world, from, &frame);
            // Only the guard against false DHCP servers asks for ports, and only of UDP.
            let is_guarded = from == "guarded" && what.contains("UDP");
            assert!(is_guarded || !megaflow.contains("tp_"), "{from} to {what}: {megaflow}");
            masks += &format!("{from} to {what}\n    {megaflow}\n");
        }
    }
    expect_test::expect_file!["masks.txt"].assert_eq(&masks);
}

/// A cached flow is a match on bits. Sixteen of them have all ports but one, and fewer cannot.
#[test]
fn p16_a_secured_port_takes_a_cached_flow_for_each_range_of_udp_ports_and_others_take_one() {
    let world = world();
    let mut switch = switch(&world);
    for (from, number, most) in [("open", 1, 1), ("guarded", 2, 16), ("server", 3, 1)] {
        let in_port = world.ofports[&(HERE.to_owned(), from.to_owned())];
        let to = if number == 1 { 2 } else { 1 };
        // The first forgets what was cached before.
        switch.receive(in_port, &datagram(number, to, (40_000, 6000)));
        for port in PORTS.map(|port| port * 218) {
            let out = switch.receive_cached(in_port, &datagram(number, to, (40_000, port)));
            assert_eq!(out.len(), 1, "{from}, UDP port {port}");
        }
        let flows = switch.call("dpctl/dump-flows", &[]);
        let of_udp: Vec<&str> = flows.lines().filter(|line| line.contains("eth_type(0x0800)")).collect();
        println!("{from}: {} cached flows", of_udp.len());
        assert!(of_udp.len() <= most, "{from}: {flows}");
    }
}

#[test]
fn p16_senders_of_another_host_share_a_cached_flow_of_their_receiver() {
    let world = world();
    let mut switch = switch(&world);
    let [to, from] = addresses().map(IpAddr::V4);
    let key = world.labels.port("guarded");
    let arrived = world.ofports[&(HERE.to_owned(), "guarded".to_owned())];
    for number in 0..SENDERS {
        let option = Some(world.labels.port(&format!("sender-{number}")));
        let inner = datagram(11 + number, 2, (40_000, 6000));
        let wrapped =
            Wrapped { encapsulation: Encapsulation::Geneve, from, to, key, option, inner: inner.clone() };
        // The first makes the cached flow; the others must meet it.
        let out = if number == 0 {
            switch.receive_from_peer(&wrapped)
        } else {
            switch.receive_cached_from_peer(&wrapped)
        };
        assert_eq!(out, [(arrived, inner)]);
    }
    let flows = switch.call("dpctl/dump-flows", &[]);
    let decapsulated: Vec<&str> = flows.lines().filter(|line| line.contains("tunnel(")).collect();
    assert_eq!(decapsulated.len(), 1, "{flows}");
}
