//! What the network itself says: errors of routers, and what the sender of a rejected packet hears.

use std::net::IpAddr;

use frame_builder::{BROADCAST, Endpoints, ICMP, ICMPV6, TCP, UDP, icmp, icmpv6, tcp};
use network_spec::{
    Address, Encap, Heard, Mac, Model, Network, PolicyAction, PolicyMatch, Port, Reach, RoutePolicy, Router,
    Says, Tap, Transition, World,
};

use crate::sentences::acls::{
    AllowRelated, Drop, FromPort, Reject, ToPort, acl, at, three, udp as udp_of, with,
};
use crate::sentences::frames::{link_local, mac};
use crate::sentences::routers::{
    TO_ROUTER, connect, echo, from_a, ip, packet, port_mac, route, two_switches, udp,
};
use crate::sentences::worlds::{on_vlan, send_any, world};

/// What is heard of a frame from a port: where, and what.
fn heard(model: &mut Model, from: &str, frame: &[u8]) -> Vec<(String, Heard)> {
    send_any(model, from, frame);
    let name = |at: &Tap| match at {
        Tap::Vnic { port, .. } => port.clone(),
        Tap::Physical { network } => network.clone(),
    };
    let all = model.messages().iter();
    all.map(|one| (name(&one.at), Heard::read(&one.frame).expect("a message"))).collect()
}

/// The type, code and last two bytes of the only error that `a` hears, from this address.
fn error(model: &mut Model, frame: &[u8], by: &str) -> Option<(u8, u8, u16)> {
    let mut all = heard(model, "a", frame);
    let (at, heard) = all.pop()?;
    assert_eq!((all, at.as_str(), heard.addresses.0), (vec![], "a", ip(by)));
    let Says::Error { kind, code, rest, about } = heard.says else { panic!("{heard:?}") };
    assert_eq!(about, frame[14..], "the packet as it came");
    Some((kind, code, u16::from_be_bytes([rest[2], rest[3]])))
}

fn segment(ends: (&str, &str), flags: u8, data: &[u8]) -> Vec<u8> {
    let endpoints = match (ip(ends.0), ip(ends.1)) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => Endpoints::V4(src, dst),
        (IpAddr::V6(src), IpAddr::V6(dst)) => Endpoints::V6(src, dst),
        mixed => panic!("{mixed:?}"),
    };
    tcp(5, 6, flags, data, endpoints)
}

#[test]
fn the_port_that_a_packet_came_to_says_that_its_ttl_has_ended() {
    let mut model = Model::new(two_switches());
    for hops in [0, 1] {
        let frame = udp(TO_ROUTER, ("10.0.1.1", "10.0.2.2"), (5, 6), hops);
        assert_eq!(error(&mut model, &frame, "10.0.1.254"), Some((11, 0, 0)));
        let frame = udp(TO_ROUTER, ("fd01::1", "fd02::2"), (5, 6), hops);
        assert_eq!(error(&mut model, &frame, "fd01::fe"), Some((3, 0, 0)));
    }
    let (_, heard) = heard(&mut model, "a", &udp(TO_ROUTER, ("10.0.1.1", "10.0.2.2"), (5, 6), 1)).remove(0);
    assert_eq!(heard.macs, (mac(1), port_mac(1)));
}

#[test]
fn of_several_addresses_the_one_near_the_sender_speaks_or_else_the_lowest() {
    let mut world = two_switches();
    connect(&mut world, "r", "blue", 1, &["10.0.9.1/24", "10.0.1.254/24", "10.0.8.1/24"]);
    let mut model = Model::new(world);
    let from = |source| udp(TO_ROUTER, (source, "10.0.2.2"), (5, 6), 1);
    assert_eq!(error(&mut model, &from("10.0.1.1"), "10.0.1.254"), Some((11, 0, 0)));
    route(&mut world_of(&mut model), "back", "r", "192.0.2.0/24", &["10.0.1.1"]);
    let mut world = world_of(&mut model);
    route(&mut world, "back", "r", "192.0.2.0/24", &["10.0.1.1"]);
    assert_eq!(error(&mut Model::new(world), &from("192.0.2.9"), "10.0.1.254"), Some((11, 0, 0)));
}

fn world_of(model: &mut Model) -> World {
    model.world().clone()
}

#[test]
fn a_router_says_that_it_has_no_route_or_that_nobody_is_there() {
    let mut world = two_switches();
    route(&mut world, "lost", "r", "198.51.100.0/24", &["10.0.2.77"]);
    route(&mut world, "nowhere", "r", "203.0.113.0/24", &[]);
    let mut model = Model::new(world);
    assert_eq!(error(&mut model, &from_a("192.0.2.1"), "10.0.1.254"), Some((3, 0, 0)));
    assert_eq!(error(&mut model, &from_a("2001:db8::1"), "fd01::fe"), Some((1, 0, 0)));
    assert_eq!(error(&mut model, &from_a("10.0.2.77"), "10.0.1.254"), Some((3, 1, 0)));
    assert_eq!(error(&mut model, &from_a("fd02::77"), "fd01::fe"), Some((1, 3, 0)));
    assert_eq!(error(&mut model, &from_a("198.51.100.1"), "10.0.1.254"), Some((3, 1, 0)), "its next hop");
    assert_eq!(heard(&mut model, "a", &from_a("203.0.113.1")), [], "it is configured so");
    assert_eq!(heard(&mut model, "a", &from_a("10.0.2.255")), [], "it is for all");
}

#[test]
fn who_has_an_address_is_not_said_where_another_host_knows_it() {
    let mut world = two_switches();
    world.ports.remove("c");
    world.vnics.retain(|(_, port), _| port != "c");
    assert_eq!(error(&mut Model::new(world.clone()), &from_a("10.0.2.77"), "10.0.1.254"), Some((3, 1, 0)));
    world.routers.insert("r".into(), Router { reach: Reach::Relay, ..Router::default() });
    let mut model = Model::new(world);
    assert_eq!(heard(&mut model, "a", &from_a("10.0.2.77")), []);
    assert_eq!(error(&mut model, &from_a("192.0.2.1"), "10.0.1.254"), Some((3, 0, 0)));
}

#[test]
fn nothing_is_said_of_a_network_whose_port_is_dead() {
    let mut model = Model::new(on_vlan(two_switches(), "red", 5));
    assert_eq!(heard(&mut model, "a", &from_a("10.0.2.2")), []);
}

#[test]
fn a_packet_that_is_too_large_comes_back_with_the_mtu_of_the_next_switch() {
    let mut model = Model::new(two_switches());
    let mtu = model.world().mtu("red").expect("there is a tunnel");
    let large = |ends, length: u16| packet(TO_ROUTER, ends, UDP, &vec![0; usize::from(length)], 64);
    let fits = large(("10.0.1.1", "10.0.2.2"), mtu - 20);
    assert_eq!(heard(&mut model, "a", &fits), []);
    for (ends, header, by, kind) in [
        (("10.0.1.1", "10.0.2.2"), 20, "10.0.1.254", (3, 4)),
        (("fd01::1", "fd02::2"), 40, "fd01::fe", (2, 0)),
    ] {
        let frame = large(ends, mtu + 1 - header);
        let (_, heard) = heard(&mut model, "a", &frame).remove(0);
        let Says::Error { kind: is, code, rest, about } = heard.says else { panic!("{heard:?}") };
        assert_eq!((heard.addresses.0, is, code), (ip(by), kind.0, kind.1));
        assert_eq!(u32::from_be_bytes(rest), mtu.into());
        // As much as has room.
        let longest = if header == 20 { 576 } else { 1280 };
        assert_eq!(about, frame[14..14 + longest - usize::from(header) - 8]);
    }
}

#[test]
fn a_router_offers_nothing_but_echoes_and_says_so_from_the_address_that_was_asked() {
    let mut model = Model::new(two_switches());
    for (own, from) in [("10.0.1.254", "10.0.1.1"), ("10.0.2.254", "10.0.1.1"), ("fd02::fe", "fd01::1")] {
        let kind = if ip(own).is_ipv4() { (3, 3, 0) } else { (1, 4, 0) };
        assert_eq!(error(&mut model, &udp(TO_ROUTER, (from, own), (5, 6), 1), own), Some(kind));
        let kind = if ip(own).is_ipv4() { (3, 2, 0) } else { (4, 1, 6) };
        assert_eq!(error(&mut model, &packet(TO_ROUTER, (from, own), 132, &[0; 12], 64), own), Some(kind));
        let syn = packet(TO_ROUTER, (from, own), TCP, &segment((from, own), 2, &[]), 64);
        let (at, said) = heard(&mut model, "a", &syn).remove(0);
        assert_eq!((at.as_str(), said.addresses), ("a", (ip(own), ip(from))));
        let wanted = Says::Segment { ports: (6, 5), numbers: (0, Some(sequence(&syn) + 1)), flags: 0x14 };
        assert_eq!(said.says, wanted);
        let data = packet(TO_ROUTER, (from, own), TCP, &segment((from, own), 0x10, b"data"), 64);
        let Says::Segment { numbers, flags, .. } = heard(&mut model, "a", &data).remove(0).1.says else {
            panic!("a reset")
        };
        assert_eq!((numbers, flags), ((acknowledged(&data), None), 4));
        let reset = packet(TO_ROUTER, (from, own), TCP, &segment((from, own), 4, &[]), 64);
        assert_eq!(heard(&mut model, "a", &reset), [], "nobody answers a reset");
    }
}

fn sequence(frame: &[u8]) -> u32 {
    let at = if frame[12] == 8 { 34 } else { 54 } + 4;
    u32::from_be_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]])
}

fn acknowledged(frame: &[u8]) -> u32 {
    let at = if frame[12] == 8 { 34 } else { 54 } + 8;
    u32::from_be_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]])
}

#[test]
fn a_router_knows_icmp_and_says_nothing_of_what_it_has_not_asked_for() {
    let mut model = Model::new(two_switches());
    for addresses in [("10.0.1.1", "10.0.1.254"), ("fd01::1", "fd01::fe")] {
        assert_eq!(heard(&mut model, "a", &echo(TO_ROUTER, addresses, true, 64)), []);
    }
    let of_v4 = packet(TO_ROUTER, ("10.0.1.1", "10.0.1.254"), ICMPV6, &[128, 0, 0, 0, 0, 0, 0, 0], 64);
    assert_eq!(error(&mut model, &of_v4, "10.0.1.254"), Some((3, 2, 0)), "no protocol of IPv4");
}

#[test]
fn what_is_said_to_an_address_of_a_link_goes_back_to_its_port() {
    let mut world = two_switches();
    // Whatever routes and policies say.
    route(&mut world, "all", "r", "::/0", &["fd02::3"]);
    let reroute = PolicyAction::Reroute(vec![ip("fd02::3")]);
    let policy =
        RoutePolicy { router: "r".into(), priority: 1, matches: PolicyMatch::default(), action: reroute };
    world.route_policies.insert("p".into(), policy);
    let mut model = Model::new(world);
    let own = link_local(1).to_string();
    let frame = udp(TO_ROUTER, (&own, "fd01::fe"), (5, 6), 64);
    assert_eq!(error(&mut model, &frame, "fd01::fe"), Some((1, 4, 0)));
}

#[test]
fn policies_and_routes_send_messages_as_they_send_packets() {
    let mut world = two_switches();
    let matches = PolicyMatch {
        source: Some(Network::host(ip("10.0.1.254"))),
        destination: Some(Network::host(ip("10.0.1.1"))),
        protocol: Some(ICMP),
    };
    let policy = RoutePolicy { router: "r".into(), priority: 1, matches, action: PolicyAction::Drop };
    world.route_policies.insert("p".into(), policy);
    let mut model = Model::new(world);
    assert_eq!(heard(&mut model, "a", &udp(TO_ROUTER, ("10.0.1.1", "10.0.2.2"), (5, 6), 1)), []);
}

#[test]
fn nobody_hears_of_errors_fragments_groups_and_damage() {
    let mut model = Model::new(two_switches());
    let expired = |protocol, inside: &[u8]| packet(TO_ROUTER, ("10.0.1.1", "10.0.2.2"), protocol, inside, 1);
    for kind in [3, 5, 11, 12, 40] {
        assert_eq!(heard(&mut model, "a", &expired(ICMP, &icmp(kind, &[0; 20]))), [], "type {kind}");
    }
    let v6 = |kind| {
        let (from, to) = ("fd01::1".parse().unwrap(), "fd02::2".parse().unwrap());
        packet(
            TO_ROUTER,
            ("fd01::1", "fd02::2"),
            ICMPV6,
            &icmpv6(vec![kind, 0, 0, 0, 0, 0, 0, 0], from, to),
            1,
        )
    };
    assert_eq!(heard(&mut model, "a", &v6(1)), []);
    assert_eq!(heard(&mut model, "a", &v6(128)).len(), 1);
    assert_eq!(heard(&mut model, "a", &expired(ICMP, &icmp(8, &[0; 20]))).len(), 1);
    let fragment = |word: u16| {
        let mut frame = expired(UDP, &[0; 16]);
        frame[20..22].copy_from_slice(&word.to_be_bytes());
        frame[24..26].fill(0);
        let sum = frame_builder::checksum(&[&frame[14..34]]).to_be_bytes();
        frame[24..26].copy_from_slice(&sum);
        frame
    };
    assert_eq!(heard(&mut model, "a", &fragment(0x2000)).len(), 1, "the first one");
    assert_eq!(heard(&mut model, "a", &fragment(0x2002)), []);
    let mut damaged = fragment(0);
    damaged[24] ^= 1;
    assert_eq!(heard(&mut model, "a", &damaged), []);
    let from_itself = udp(TO_ROUTER, ("10.0.1.254", "10.0.2.2"), (5, 6), 1);
    assert_eq!(heard(&mut model, "a", &from_itself), []);
}

#[test]
fn while_hosts_change_no_message_is_due() {
    let world = two_switches();
    let transition = Transition::new(world.clone(), world);
    let frame = udp(TO_ROUTER, ("10.0.1.1", "10.0.2.2"), (5, 6), 1);
    assert_eq!(transition.forbidden(&Tap::vnic("hv1", "a"), &frame, &[]), []);
}

/// The reset or error that the sender of a packet of blue hears: the port, the addresses, and whether it is a reset.
fn rejected(model: &mut Model, from: &str, frame: &[u8]) -> Vec<(String, (Mac, Mac), bool)> {
    let all = heard(model, from, frame).into_iter();
    all.map(|(at, heard)| (at, heard.macs, matches!(heard.says, Says::Segment { .. }))).collect()
}

fn tcp_of((src, dst): (u8, u8)) -> Vec<u8> {
    let (from, to) = (format!("10.0.0.{src}"), format!("10.0.0.{dst}"));
    packet((mac(src), mac(dst)), (&from, &to), TCP, &segment((&from, &to), 2, &[]), 64)
}

#[test]
fn a_rejected_packet_is_answered_as_by_its_destination_where_it_enters_and_where_it_leaves() {
    for acl in [at("a", acl(FromPort, Reject)), at("b", acl(ToPort, Reject))] {
        let mut model = Model::new(with(three(), &[acl]));
        let wanted = |is_reset| vec![("a".to_owned(), (mac(1), mac(2)), is_reset)];
        assert_eq!(rejected(&mut model, "a", &udp_of((1, 2), (5, 6))), wanted(false));
        assert_eq!(error(&mut model, &udp_of((1, 2), (5, 6)), "10.0.0.2"), Some((3, 13, 0)));
        assert_eq!(rejected(&mut model, "a", &tcp_of((1, 2))), wanted(true));
    }
    let mut model = Model::new(with(three(), &[acl(ToPort, Drop)]));
    assert_eq!(heard(&mut model, "a", &tcp_of((1, 2))), [], "drop is silent");
}

#[test]
fn a_rejection_at_the_receiver_meets_the_acls_of_the_sender_and_those_of_nobody_else() {
    let no_icmp = |direction| acl(direction, Drop);
    let reject = at("b", acl(ToPort, Reject));
    let mut model = Model::new(with(three(), &[reject.clone(), at("a", no_icmp(ToPort))]));
    assert_eq!(heard(&mut model, "a", &tcp_of((1, 2))), []);
    let mut model = Model::new(with(three(), &[reject.clone(), at("b", no_icmp(FromPort))]));
    assert_eq!(heard(&mut model, "a", &tcp_of((1, 2))).len(), 1);
    // Straight back: no ACL for what comes to the port is asked.
    let mut model = Model::new(with(three(), &[at("a", acl(FromPort, Reject)), at("a", no_icmp(ToPort))]));
    assert_eq!(heard(&mut model, "a", &tcp_of((1, 2))).len(), 1);
    // A port that keeps connections knows what the answer is about.
    let stateful = [reject, at("a", acl(FromPort, AllowRelated)), at("a", no_icmp(ToPort))];
    let mut model = Model::new(with(three(), &stateful));
    assert_eq!(heard(&mut model, "a", &tcp_of((1, 2))).len(), 1);
    assert_eq!(heard(&mut model, "a", &udp_of((1, 2), (5, 6))).len(), 1);
}

#[test]
fn what_is_for_many_or_for_somebody_else_is_rejected_in_silence() {
    let mut model = Model::new(with(three(), &[acl(ToPort, Reject)]));
    let mut to_all = udp_of((1, 2), (5, 6));
    to_all[..6].copy_from_slice(&BROADCAST);
    assert_eq!(heard(&mut model, "a", &to_all), []);
    // A copy of what is flooded because nobody is known to have the address: another port may take it.
    let mut world = three();
    for port in ["b", "c"] {
        let unknown = Port { unknown_addresses: true, ..world.ports[port].clone() };
        world.ports.insert(port.into(), unknown);
    }
    let mut model = Model::new(with(world, &[at("b", acl(ToPort, Reject))]));
    let mut to_stranger = tcp_of((1, 2));
    to_stranger[..6].copy_from_slice(&[2, 0xee, 0, 0, 0, 9]);
    assert_eq!(heard(&mut model, "a", &to_stranger), []);
    assert_eq!(heard(&mut model, "a", &tcp_of((1, 2))).len(), 1);
}

#[test]
fn a_rejection_takes_the_way_back_through_routers_and_only_to_the_sender() {
    let mut world = two_switches();
    let reject = at("b", acl(ToPort, Reject));
    world.acls.insert("no".into(), reject);
    let mut model = Model::new(world);
    let (at, said) = heard(&mut model, "a", &from_a("10.0.2.2")).remove(0);
    assert_eq!(
        (at.as_str(), said.macs, said.addresses),
        ("a", (mac(1), port_mac(1)), (ip("10.0.2.2"), ip("10.0.1.1")))
    );
}

#[test]
fn a_trunk_member_hears_with_its_tag() {
    let own = Address { mac: mac(7), ips: vec![ip("10.0.0.7")] };
    let child = Port { addresses: vec![own], parent: Some(("p".into(), 9)), ..Port::of("blue") };
    let mut world = world(&[Encap::Geneve], &[("p", "hv1", Port::of("trunk")), ("t", "", child)]);
    world.acls.insert("no".into(), at("t", acl(FromPort, Reject)));
    let mut model = Model::new(world);
    let frame = frame_builder::tagged(&tcp_of((7, 2)), 0x8100, 9);
    let (at, said) = heard(&mut model, "p", &frame).remove(0);
    assert_eq!((at.as_str(), said.vlan), ("p", Some(9)));
}

#[test]
fn a_host_that_stands_by_rejects_nothing() {
    let mut world = three();
    let both = vec!["hv2".to_owned(), "hv1".to_owned()];
    let port = Port { requested_hosts: both, ..world.ports["b"].clone() };
    world.ports.insert("b".into(), port);
    world.vnics.insert(("hv1".into(), "b".into()), 2);
    world.acls.insert("no".into(), at("b", acl(ToPort, Reject)));
    let mut model = Model::new(world);
    model.inject(&Tap::vnic("hv1", "a"), &tcp_of((1, 2)));
    assert_eq!(model.messages().len(), 1, "the machine is on one host");
}
