//! What the datapath caches of ordinary packets: the fields that a cached flow matches decide how many packets it serves. Flows that
//! look at more widen it, also if they match no ordinary packet.

use std::net::{IpAddr, Ipv4Addr};

use conformance::world::{Change, Node, Port};
use conformance::{Simulation, World, program};
use frame_builder::{Encapsulation, IPV4, Ipv4, UDP, Wrapped, ethernet, udp_without_checksum};
use ovs_testing::DummySwitch;

use super::numbered::{ipv4, mac, port};
use super::start;

const HERE: &str = "h1";
const THERE: &str = "h2";
/// Machines of the other host, which all send to one of this host.
const SENDERS: u8 = 12;

fn addresses() -> [Ipv4Addr; 2] {
    [Ipv4Addr::new(172, 16, 0, 1), Ipv4Addr::new(172, 16, 0, 2)]
}

/// Machines 1, `open`, and 2, both secured, and 3, `server`, which is trusted with what DHCP servers send; and the senders, from 11 on.
fn world() -> World {
    let mut world = World::new(false);
    for (host, ip) in [HERE, THERE].into_iter().zip(addresses()) {
        assert!(world.apply(&Change::Node(host.to_owned(), Node::at(ip))));
    }
    assert!(world.apply(&Change::Switch("blue".to_owned(), String::new())));
    let secured = |number| Port { security: true, ..port("blue", number) };
    let mut ports = vec![
        (HERE, "open".to_owned(), port("blue", 1)),
        (HERE, "guarded".to_owned(), secured(2)),
        (HERE, "server".to_owned(), Port { trust: ["dhcp_server"].into(), ..secured(3) }),
    ];
    ports.extend((0..SENDERS).map(|number| (THERE, format!("sender-{number}"), secured(11 + number))));
    for (host, name, port) in ports {
        assert!(world.apply(&Change::Port(name.clone(), port)), "{name}");
        assert!(world.apply(&Change::Plug(host.to_owned(), name.clone())), "{name}");
    }
    world
}

fn switch(world: &World) -> DummySwitch {
    let mut simulation = Simulation::new(program::rules()).expect("the rules start");
    simulation.change(world, &|_| true).expect("the rules take the network");
    let host = simulation.hosts().fabric().host(HERE).expect("the host is there").clone();
    start(&host, &[IpAddr::V4(addresses()[1])])
}

fn datagram(from: u8, to: u8, ports: (u16, u16)) -> Vec<u8> {
    let inside = udp_without_checksum(ports.0, ports.1, b"said");
    ethernet(mac(to), mac(from), IPV4, &Ipv4::new(ipv4(from), ipv4(to), UDP).packet(&inside))
}

/// The fields of the packet that the datapath would match for a frame, without the port that it comes from.
fn matched(switch: &mut DummySwitch, world: &World, from: &str, frame: &[u8]) -> String {
    let in_port = world.vifs[&(HERE.to_owned(), from.to_owned())].ofport;
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
        for to in [1, 2, 12] {
            if to == number {
                continue;
            }
            // Of two ports, so that a cached flow that matches a part of the port differs.
            for port in [6000, 53] {
                let megaflow = matched(&mut switch, &world, from, &datagram(number, to, (40_000, port)));
                masks += &format!("{from} to {to}, UDP port {port}\n    {megaflow}\n");
            }
        }
    }
    expect_test::expect_file!["masks.txt"].assert_eq(&masks);
    let of = |from: &str| {
        let lines = masks.lines().zip(masks.lines().skip(1));
        lines
            .filter(|(title, _)| title.starts_with(from))
            .map(|(_, mask)| mask.to_owned())
            .collect::<Vec<_>>()
    };
    for from in ["open", "server"] {
        assert!(of(from).iter().all(|mask| !mask.contains("tp_")), "ports widen what {from} sends:\n{masks}");
    }
}

#[test]
fn p16_senders_of_another_host_share_a_cached_flow_of_their_receiver() {
    let world = world();
    let mut switch = switch(&world);
    let [to, from] = addresses().map(IpAddr::V4);
    let key = world.labels.port("guarded");
    let arrived = world.vifs[&(HERE.to_owned(), "guarded".to_owned())].ofport;
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
