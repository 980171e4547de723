//! Frames that a switch must not pass on, or must pass on only to some: by the model, and in real Open vSwitch, which reads
//! one VLAN tag of a frame, two, or as many as it can.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};

use conformance::{Change, NumberedWorld, Place, Simulation, oracle, program};
use frame_builder::{
    ARP, Arp, BROADCAST, ICMP, ICMPV6, IPV4, IPV6, Ipv4, Ipv6, Mac, UDP, arp, ethernet, icmp, icmpv6,
    link_layer, neighbour, solicited_node, tagged, udp_without_checksum,
};
use network_spec::{Localnet, Model, Node, Port, Trust};

use super::numbered::{ipv4, ipv6, mac, port};
use super::{plain, start};

const HOST: &str = "h1";
const NETWORK: &str = "net1";

const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const REPORTS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);

/// Switch blue: `vm`, `s` with port security, `r` as well but trusted with router advertisements, `p`. Switch red: `box` and
/// `bag` behind `vm` with tags 7 and 8, and `q`. Switch green: `g`, and the untagged frames of a physical network. Switch
/// gold: `can` behind `vm` with tag 9, and VLAN 5 of the same network.
fn world() -> NumberedWorld {
    let behind = |switch, tag, number| Port { parent: Some(("vm".to_owned(), tag)), ..port(switch, number) };
    let secured = |number| Port { port_security: true, ..port("blue", number) };
    let ports = [
        ("vm", port("blue", 1)),
        ("s", secured(2)),
        ("r", Port { trust: BTreeSet::from([Trust::Ra]), ..secured(3) }),
        ("p", port("blue", 4)),
        ("box", behind("red", 7, 2)),
        ("bag", behind("red", 8, 3)),
        ("q", port("red", 4)),
        ("g", port("green", 1)),
        ("can", behind("gold", 9, 2)),
    ];
    let mappings = BTreeMap::from([(NETWORK.to_owned(), "br-one".to_owned())]);
    let node = Node { mappings, ..Node::at(Ipv4Addr::new(172, 16, 0, 1)) };
    let mut world = NumberedWorld::new(false);
    assert!(world.apply(&Change::Node(HOST.to_owned(), node)));
    for switch in ["blue", "red", "green", "gold"] {
        assert!(world.apply(&Change::Switch(switch.to_owned(), "acme".to_owned())));
    }
    for (name, port) in ports {
        let plugged = port.parent.is_none();
        assert!(world.apply(&Change::Port(name.to_owned(), port)), "{name}");
        assert!(!plugged || world.apply(&Change::Plug(HOST.to_owned(), name.to_owned())), "{name}");
    }
    for (switch, tag) in [("green", 0), ("gold", 5)] {
        let wire = Localnet { switch: switch.to_owned(), network: NETWORK.to_owned(), tag };
        assert!(world.apply(&Change::Localnet(format!("wire-{switch}"), wire)));
    }
    world
}

/// What is sent, from where, and the places where it comes out.
type Case = (&'static str, &'static str, Vec<u8>, &'static [&'static str]);

fn data(from: u8, to: Mac) -> Vec<u8> {
    ethernet(to, mac(from), 0x88b5, b"of a kind for experiments")
}

fn said6(from: u8, to: Mac, (src, dst): (Ipv6Addr, Ipv6Addr), hops: u8, message: Vec<u8>) -> Vec<u8> {
    let packet = Ipv6 { hops, ..Ipv6::new(src, dst, ICMPV6) }.packet(&icmpv6(message, src, dst));
    ethernet(to, mac(from), IPV6, &packet)
}

fn udp4(from: u8, to: Mac, (src, dst): (Ipv4Addr, Ipv4Addr), ports: (u16, u16)) -> Vec<u8> {
    let datagram = udp_without_checksum(ports.0, ports.1, b"said");
    ethernet(to, mac(from), IPV4, &Ipv4::new(src, dst, UDP).packet(&datagram))
}

fn arp4(from: u8, to: Mac, operation: u16, [sender, target]: [Ipv4Addr; 2]) -> Vec<u8> {
    ethernet(
        to,
        mac(from),
        ARP,
        &arp(Arp { operation, sender: (mac(from), sender), target: ([0; 6], target) }),
    )
}

fn tags() -> Vec<Case> {
    let priority = 0xa000;
    let tag = |frame: &[u8], tag| tagged(frame, 0x8100, tag);
    let to_p = data(1, mac(4));
    vec![
        ("another tenant's tag below a child's", "vm", tag(&tag(&data(2, BROADCAST), 8), 7), &[]),
        ("a service tag above a child's", "vm", tagged(&tag(&data(2, BROADCAST), 7), 0x88a8, 8), &[]),
        ("a priority below a child's tag", "vm", tag(&tag(&data(2, BROADCAST), priority), 7), &[]),
        ("a child's tag below a priority", "vm", tag(&tag(&data(2, BROADCAST), 7), priority), &[]),
        ("two priorities", "vm", tag(&tag(&to_p, priority), priority), &[]),
        ("three tags", "vm", tag(&tag(&tag(&to_p, 7), 7), 7), &[]),
        ("a priority", "vm", tag(&to_p, priority), &["p"]),
        ("a priority in a service tag", "vm", tagged(&to_p, 0x88a8, priority), &["p"]),
        (
            "a priority, to a secured port",
            "vm",
            tag(&udp4(1, mac(2), (ipv4(1), ipv4(2)), (5, 6)), priority),
            &["s"],
        ),
        ("a priority, into a physical network", "g", tag(&data(1, mac(9)), priority), &["wire"]),
        ("a priority, from a physical network", "wire", tag(&data(9, mac(1)), priority), &["g"]),
        ("a child's tag with a priority", "vm", tag(&data(2, mac(4)), priority | 7), &["q"]),
        ("from child to child with a priority", "vm", tag(&data(2, mac(3)), priority | 7), &["vm"]),
        ("from child to VLAN with a priority", "vm", tag(&data(2, mac(9)), priority | 9), &["wire"]),
        ("from VLAN to child with a priority", "wire", tag(&data(9, mac(2)), priority | 5), &["vm"]),
        ("a tag that is cut off", "vm", tag(&to_p, 7)[..17].to_vec(), &[]),
        ("a second tag that is cut off", "vm", tag(&tag(&to_p, 7), 7)[..21].to_vec(), &[]),
    ]
}

fn for_nobody() -> Vec<Case> {
    let mut from_group = data(1, BROADCAST);
    from_group[6] |= 1;
    vec![
        ("a group's", "vm", from_group.clone(), &[]),
        ("a group's from a physical network", "wire", from_group, &[]),
        ("spanning tree's", "vm", data(1, [1, 0x80, 0xc2, 0, 0, 0]), &[]),
        ("LLDP's from a physical network", "wire", data(9, [1, 0x80, 0xc2, 0, 0, 14]), &[]),
        ("that of GVRP, which is forwarded", "vm", data(1, [1, 0x80, 0xc2, 0, 0, 0x21]), &["p", "r", "s"]),
    ]
}

fn advice() -> Vec<Case> {
    let advertises =
        |from, hops| said6(from, BROADCAST, (ipv6(from), ALL_NODES), hops, vec![134, 0, 0, 0, 0, 0, 0, 0]);
    let redirects = |from| {
        let said = icmp(5, &[0; 8]);
        let packet = Ipv4::new(ipv4(from), Ipv4Addr::BROADCAST, ICMP).packet(&said);
        ethernet(BROADCAST, mac(from), IPV4, &packet)
    };
    let serves = |from| udp4(from, BROADCAST, (ipv4(from), Ipv4Addr::BROADCAST), (67, 68));
    vec![
        ("a router advertisement of a secured port", "s", advertises(2, 255), &[]),
        ("that of a trusted port", "r", advertises(3, 255), &["p", "s", "vm"]),
        ("that of a trusted port from another link", "r", advertises(3, 64), &[]),
        ("that of a port without port security", "vm", advertises(1, 255), &["p", "r", "s"]),
        ("that of a port without port security, from another link", "vm", advertises(1, 254), &[]),
        ("that of a physical network", "wire", advertises(9, 255), &["g"]),
        ("a redirect of a secured port", "s", redirects(2), &[]),
        ("a redirect of a port that is trusted with something else", "r", redirects(3), &[]),
        ("a redirect of a port without port security", "vm", redirects(1), &["p", "r", "s"]),
        ("an answer of a DHCP server of a secured port", "s", serves(2), &[]),
        ("that of a port without port security", "vm", serves(1), &["p", "r", "s"]),
        (
            "a question of a DHCP client",
            "s",
            udp4(2, BROADCAST, (Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST), (68, 67)),
            &["p", "r", "vm"],
        ),
    ]
}

fn neighbours() -> Vec<Case> {
    let asks = |from, to, target, hops| {
        let said = neighbour(135, 0, ipv6(target), &link_layer(1, mac(from)));
        said6(from, to, (ipv6(from), ipv6(target)), hops, said)
    };
    let nobody = Ipv4Addr::UNSPECIFIED;
    let reports = |dst, to| said6(2, to, (Ipv6Addr::UNSPECIFIED, dst), 1, vec![143, 0, 0, 0, 0, 0, 0, 0]);
    let detects = |target, dst, to| {
        let said = neighbour(135, 0, target, &[]);
        said6(2, to, (Ipv6Addr::UNSPECIFIED, dst), 255, said)
    };
    let group_of = |target| solicited_node(target).0;
    let reports4 = |ttl| {
        let packet = Ipv4 { ttl, ..Ipv4::new(nobody, Ipv4Addr::new(224, 0, 0, 22), 2) };
        ethernet([1, 0, 0x5e, 0, 0, 22], mac(2), IPV4, &packet.packet(&[0x22, 0, 0xdd, 0xff, 0, 0, 0, 0]))
    };
    vec![
        ("a question to all", "vm", arp4(1, BROADCAST, 1, [ipv4(1), ipv4(4)]), &["vm"]),
        ("P8: another's address announced", "vm", arp4(1, BROADCAST, 1, [ipv4(4), ipv4(4)]), &["p"]),
        ("P8: a secured port's announced", "vm", arp4(1, BROADCAST, 1, [ipv4(2), ipv4(2)]), &["s"]),
        ("P8: one's own announced", "vm", arp4(1, BROADCAST, 1, [ipv4(1), ipv4(1)]), &["p", "r", "s"]),
        ("P8: another's in a reply", "vm", arp4(1, BROADCAST, 2, [ipv4(4), ipv4(4)]), &["p", "r", "s"]),
        ("a question to one", "vm", arp4(1, mac(4), 1, [ipv4(1), ipv4(4)]), &["p"]),
        ("a question to a secured port", "vm", arp4(1, mac(2), 1, [ipv4(1), ipv4(2)]), &["s"]),
        ("a question to the wrong secured port", "vm", arp4(1, mac(2), 1, [ipv4(1), ipv4(4)]), &[]),
        ("a solicitation to all", "vm", asks(1, BROADCAST, 4, 255), &["vm"]),
        ("a solicitation to all from another link", "vm", asks(1, BROADCAST, 4, 64), &[]),
        ("a solicitation to one", "vm", asks(1, mac(4), 4, 255), &["p"]),
        ("a solicitation to a secured port", "vm", asks(1, mac(2), 2, 255), &["s"]),
        ("a probe of a secured port", "s", arp4(2, BROADCAST, 1, [nobody, ipv4(2)]), &["p", "r", "vm"]),
        ("P10: a probe for another's address", "s", arp4(2, BROADCAST, 1, [nobody, ipv4(1)]), &[]),
        ("P10: a probe for no address", "s", arp4(2, BROADCAST, 1, [nobody, nobody]), &[]),
        ("P10: a probe to one", "s", arp4(2, mac(1), 1, [nobody, ipv4(2)]), &[]),
        ("P10: a reply without an address", "s", arp4(2, BROADCAST, 2, [nobody, ipv4(2)]), &[]),
        ("P10: a report over IPv4", "s", reports4(1), &["p", "r", "vm"]),
        ("P10: a report from another link", "s", reports4(2), &[]),
        ("the answer to it", "vm", arp4(1, mac(2), 2, [ipv4(2), nobody]), &["s"]),
        ("a question about nobody", "vm", arp4(1, mac(2), 1, [ipv4(1), nobody]), &[]),
        ("a report to the group of reports", "s", reports(REPORTS, BROADCAST), &["p", "r", "vm"]),
        ("a report to another group", "s", reports(ALL_NODES, BROADCAST), &[]),
        ("a report to one", "s", reports(ipv6(1), mac(1)), &[]),
        ("a detection of duplicates", "s", detects(ipv6(2), group_of(ipv6(2)), BROADCAST), &["p", "r", "vm"]),
        ("P9: of another's address", "s", detects(ipv6(1), group_of(ipv6(1)), BROADCAST), &[]),
        ("P9: of no address", "s", detects(Ipv6Addr::UNSPECIFIED, group_of(ipv6(2)), BROADCAST), &[]),
        ("a detection to all", "s", detects(ipv6(2), ALL_NODES, BROADCAST), &[]),
        ("a detection to one", "s", detects(ipv6(2), ipv6(1), mac(1)), &[]),
    ]
}

fn groups() -> Vec<Case> {
    let to = |dst| udp4(1, mac(2), (ipv4(1), dst), (5, 6));
    vec![
        ("broadcast in a unicast frame", "vm", to(Ipv4Addr::BROADCAST), &["s"]),
        ("multicast in a unicast frame", "vm", to(Ipv4Addr::new(224, 0, 0, 251)), &["s"]),
        ("another's in a unicast frame", "vm", to(ipv4(4)), &[]),
        (
            "multicast of IPv6 in a unicast frame",
            "vm",
            said6(1, mac(2), (ipv6(1), ALL_NODES), 64, vec![128, 0, 0, 0, 0, 1, 0, 1]),
            &["s"],
        ),
    ]
}

/// The names of places where a frame comes out, as the cases write them.
fn name(place: &Place) -> &str {
    match place {
        Place::Vnic(_, port) => port,
        Place::Tap(_) => "wire",
    }
}

#[test]
fn frames_go_where_the_model_says_for_every_vlan_limit() {
    let world = world();
    let mut simulation = Simulation::new(program::rules()).expect("the rules start");
    simulation.change(&world, &|_| true).expect("the rules take the network");
    let wanted = oracle::world(&world);
    let fabric = simulation.hosts_mut().fabric_mut();
    let host = fabric.host_mut(HOST).expect("the host is there").clone();
    let mut switch = start(&host, &[]);
    let vnic = |port: &str| world.ofports.get(&(HOST.to_owned(), port.to_owned())).copied();
    // The patch port is the one that is no vNIC's.
    let wire = plain(&host.bridge).find(|port| world.ofports.values().all(|ofport| ofport != port));
    let number = |port: &str| vnic(port).or(wire).expect("a port");
    let cases = [tags(), for_nobody(), advice(), neighbours(), groups()].concat();
    for limit in [0, 1, 2] {
        switch.set_vlan_limit(limit);
        for (what, from, bytes, expected) in &cases {
            let place = match vnic(from) {
                Some(_) => Place::Vnic(HOST.to_owned(), (*from).to_owned()),
                None => Place::Tap(NETWORK.to_owned()),
            };
            // Each frame is the first that the network sees.
            let model = Model::new(wanted.clone()).inject(&oracle::tap(&place), bytes);
            let model = model.into_iter().map(|out| (oracle::place(&out.at), out.frame));
            let mut model: Vec<(String, Vec<u8>)> =
                model.map(|(place, frame)| (name(&place).to_owned(), frame)).collect();
            model.sort();
            let names: Vec<&str> = model.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(names, *expected, "by the model: {what} from {from}");
            let mut out = switch.receive(number(from), bytes);
            let mut model: Vec<(u16, Vec<u8>)> =
                model.into_iter().map(|(name, frame)| (number(&name), frame)).collect();
            out.sort();
            model.sort();
            assert_eq!(out, model, "in Open vSwitch with vlan-limit={limit}: {what} from {from}");
        }
    }
}
