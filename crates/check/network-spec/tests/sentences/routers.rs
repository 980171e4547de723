//! Routers: what becomes of the packets that come to the MACs of their ports.

use std::net::{IpAddr, Ipv4Addr};

use frame_builder::{BROADCAST, ICMP, ICMPV6, IPV4, IPV6, Ipv4, Ipv6, TCP, UDP, icmp, icmpv6, link_layer};
use network_spec::{
    Address, Encap, Mac, Model, Network, PolicyAction, PolicyMatch, Port, ROUTER_BUDGET, Route, RoutePolicy,
    RouterPort, Target, Why, World,
};

use crate::sentences::acls::{Drop, ToPort, acl, at};
use crate::sentences::frames::{arp, discovery, frame, mac, tag, unknown as any};
use crate::sentences::worlds::{on_vlan, send_any, unknown, world};

pub(super) fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

pub(super) fn net(text: &str) -> Network {
    let (ip, length) = text.split_once('/').expect("a prefix");
    Network { ip: ip.parse().expect("an address"), length: length.parse().expect("a length") }
}

/// The MAC of a router's port.
pub(super) fn port_mac(number: u8) -> Mac {
    [2, 0, 0, 0, 0xff, number]
}

/// A port with these addresses at the MAC of its number.
fn port(switch: &str, number: u8, ips: &[&str]) -> Port {
    let address = Address { mac: mac(number), ips: ips.iter().map(|text| ip(text)).collect() };
    Port { switch: switch.into(), addresses: vec![address], ..Port::default() }
}

pub(super) fn connect(world: &mut World, router: &str, switch: &str, number: u8, networks: &[&str]) {
    world.routers.entry(router.into()).or_default();
    world.switches.entry(switch.into()).or_default();
    let networks = networks.iter().map(|text| net(text)).collect();
    let port = RouterPort {
        router: router.into(),
        switch: switch.into(),
        mac: port_mac(number),
        networks,
        gateways: Vec::new(),
    };
    world.router_ports.insert(format!("{router}-{switch}-{number}"), port);
}

pub(super) fn route(world: &mut World, id: &str, router: &str, destination: &str, hops: &[&str]) {
    let target = match hops {
        [] => Target::Discard,
        hops => Target::NextHops(hops.iter().map(|text| ip(text)).collect()),
    };
    let route = Route { router: router.into(), destination: net(destination), target };
    world.routes.insert(id.into(), route);
}

pub(super) fn policy(world: &mut World, id: &str, priority: i64, matches: PolicyMatch, action: PolicyAction) {
    world.route_policies.insert(id.into(), RoutePolicy { router: "r".into(), priority, matches, action });
}

/// `a` of blue on hv1, `b` of red on hv2, and `c` and `d` of red on hv1 and hv2, which router `r` connects.
pub(super) fn two_switches() -> World {
    let mut world = world(
        &[Encap::Geneve],
        &[
            ("a", "hv1", port("blue", 1, &["10.0.1.1", "fd01::1"])),
            ("b", "hv2", port("red", 2, &["10.0.2.2", "fd02::2"])),
            ("c", "hv1", port("red", 3, &["10.0.2.3", "fd02::3"])),
            ("d", "hv2", port("red", 4, &["10.0.2.4", "fd02::4"])),
        ],
    );
    connect(&mut world, "r", "blue", 1, &["10.0.1.254/24", "fd01::fe/64"]);
    connect(&mut world, "r", "red", 2, &["10.0.2.254/24", "fd02::fe/64"]);
    world
}

/// UDP from and to these ports, with this TTL, in a frame.
pub(super) fn udp(macs: (Mac, Mac), addresses: (&str, &str), ports: (u16, u16), hops: u8) -> Vec<u8> {
    packet(macs, addresses, UDP, &frame_builder::udp_without_checksum(ports.0, ports.1, b"said"), hops)
}

pub(super) fn packet(
    macs: (Mac, Mac),
    addresses: (&str, &str),
    protocol: u8,
    inside: &[u8],
    hops: u8,
) -> Vec<u8> {
    match (ip(addresses.0), ip(addresses.1)) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            frame(macs.0, macs.1, IPV4, &Ipv4 { ttl: hops, ..Ipv4::new(src, dst, protocol) }.packet(inside))
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            frame(macs.0, macs.1, IPV6, &Ipv6 { hops, ..Ipv6::new(src, dst, protocol) }.packet(inside))
        }
        mixed => panic!("{mixed:?}"),
    }
}

/// An echo request or reply.
pub(super) fn echo(macs: (Mac, Mac), addresses: (&str, &str), is_answer: bool, hops: u8) -> Vec<u8> {
    if let (IpAddr::V6(src), IpAddr::V6(dst)) = (ip(addresses.0), ip(addresses.1)) {
        let kind = if is_answer { 129 } else { 128 };
        let message = icmpv6(vec![kind, 0, 0, 0, 0, 7, 0, 1, 9, 9], src, dst);
        return packet(macs, addresses, ICMPV6, &message, hops);
    }
    let kind = if is_answer { 0 } else { 8 };
    packet(macs, addresses, ICMP, &icmp(kind, &[0, 7, 0, 1, 9, 9]), hops)
}

/// From `a` to its router.
pub(super) const TO_ROUTER: (Mac, Mac) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0xff, 1]);

/// From `a`, TTL 64, to this address.
pub(super) fn from_a(destination: &str) -> Vec<u8> {
    let source = if ip(destination).is_ipv4() { "10.0.1.1" } else { "fd01::1" };
    udp(TO_ROUTER, (source, destination), (5, 6), 64)
}

/// The ports that get what `a` sends.
fn reached(model: &mut Model, frame: &[u8]) -> Vec<String> {
    send_any(model, "a", frame).into_iter().map(|(port, _)| port).collect()
}

/// Why the router drops what `a` sends.
fn refused(model: &mut Model, frame: &[u8]) -> Option<Why> {
    assert!(reached(model, frame).is_empty());
    let mut why = model.dropped().iter().map(|one| one.why.clone());
    let first = why.next();
    assert_eq!(why.next(), None);
    first
}

#[test]
fn a_packet_to_a_connected_network_gets_there_wherever_the_hosts_are() {
    let mut model = Model::new(two_switches());
    for (to, dst, number) in
        [("b", "10.0.2.2", 2), ("c", "10.0.2.3", 3), ("b", "fd02::2", 2), ("d", "fd02::4", 4)]
    {
        let source = if ip(dst).is_ipv4() { "10.0.1.1" } else { "fd01::1" };
        let wanted = udp((port_mac(2), mac(number)), (source, dst), (5, 6), 63);
        assert_eq!(send_any(&mut model, "a", &from_a(dst)), [(to.into(), wanted)]);
    }
    let back = udp((mac(2), port_mac(2)), ("10.0.2.2", "10.0.1.1"), (6, 5), 64);
    let wanted = udp((port_mac(1), mac(1)), ("10.0.2.2", "10.0.1.1"), (6, 5), 63);
    assert_eq!(send_any(&mut model, "b", &back), [("a".into(), wanted)], "hv2 has no port of blue");
}

#[test]
fn what_a_machine_sends_to_itself_by_its_router_comes_back() {
    let mut model = Model::new(two_switches());
    assert_eq!(reached(&mut model, &from_a("10.0.1.1")), ["a"]);
}

#[test]
fn the_ttl_is_decremented_and_a_packet_whose_ttl_ends_is_dropped_and_owes_an_error() {
    let mut model = Model::new(two_switches());
    for addresses in [("10.0.1.1", "10.0.2.2"), ("fd01::1", "fd02::2")] {
        let at = |hops| udp(TO_ROUTER, addresses, (5, 6), hops);
        for hops in [0, 1] {
            assert_eq!(refused(&mut model, &at(hops)), Some(Why::Expired));
        }
        let wanted = udp((port_mac(2), mac(2)), addresses, (5, 6), 1);
        assert_eq!(send_any(&mut model, "a", &at(2)), [("b".into(), wanted)]);
    }
    assert!(Why::Expired.owes_error() && Why::NoRoute.owes_error() && !Why::Discarded.owes_error());
}

#[test]
fn a_damaged_checksum_stays_damaged() {
    let mut model = Model::new(two_switches());
    let mut damaged = from_a("10.0.2.2");
    damaged[14 + 10] ^= 0x40;
    let out = send_any(&mut model, "a", &damaged);
    assert_ne!(frame_builder::checksum(&[&out[0].1[14..34]]), 0);
}

#[test]
fn only_readable_ip_to_the_router_alone_is_routed() {
    let mut model = Model::new(two_switches());
    assert_eq!(refused(&mut model, &any(mac(1), port_mac(1))), Some(Why::NotIp));
    assert_eq!(refused(&mut model, &from_a("10.0.2.2")[..40]), Some(Why::NotIp), "cut short");
    let of_none = packet(TO_ROUTER, ("10.0.1.1", "10.0.2.2"), 0, b"no protocol", 64);
    assert_eq!(refused(&mut model, &of_none), Some(Why::NotIp));
    let mut to_many = from_a("10.0.2.2");
    to_many[..6].copy_from_slice(&BROADCAST);
    assert_eq!(refused(&mut model, &to_many), None, "a broadcast stays on its switch");
    assert!(reached(&mut model, &tag(&from_a("10.0.2.2"), 0x8100, 5)).is_empty());
    let mut to_other_port = from_a("10.0.2.2");
    to_other_port[..6].copy_from_slice(&port_mac(2));
    assert!(reached(&mut model, &to_other_port).is_empty(), "that MAC is on another switch");
}

#[test]
fn groups_links_and_impossible_addresses_are_not_routed() {
    let mut world = two_switches();
    route(&mut world, "all", "r", "0.0.0.0/0", &["10.0.2.2"]);
    route(&mut world, "all6", "r", "::/0", &["fd02::2"]);
    let mut model = Model::new(world);
    assert_eq!(reached(&mut model, &from_a("192.0.2.1")), ["b"]);
    for (dst, why) in [
        ("224.0.0.5", Why::Group),
        ("255.255.255.255", Why::Group),
        ("10.0.2.255", Why::Group),
        ("ff0e::1", Why::Group),
        ("169.254.1.1", Why::LinkLocal),
        ("fe80::99", Why::LinkLocal),
        ("127.0.0.1", Why::Martian),
        ("0.1.2.3", Why::Martian),
        ("240.0.0.1", Why::Martian),
        ("::", Why::Martian),
        ("::1", Why::Martian),
        ("::ffff:10.0.2.2", Why::Martian),
    ] {
        assert_eq!(refused(&mut model, &from_a(dst)), Some(why.clone()), "to {dst}");
        if dst != "10.0.2.255" {
            let to = if ip(dst).is_ipv4() { "10.0.2.2" } else { "fd02::2" };
            let from = udp(TO_ROUTER, (dst, to), (5, 6), 64);
            assert_eq!(refused(&mut model, &from), Some(why), "from {dst}");
        }
    }
}

#[test]
fn a_message_of_neighbour_discovery_stays_on_its_link() {
    let mut model = Model::new(two_switches());
    let (IpAddr::V6(from), IpAddr::V6(to)) = (ip("fd01::1"), ip("fd02::2")) else { panic!() };
    let advertised = discovery(TO_ROUTER, (from, to), (136, 0x60), from, &link_layer(2, mac(1)));
    assert_eq!(refused(&mut model, &advertised), Some(Why::LinkLocal));
}

#[test]
fn the_longest_prefix_wins_and_a_connected_network_beats_a_route() {
    let mut world = two_switches();
    route(&mut world, "default", "r", "0.0.0.0/0", &["10.0.2.2"]);
    route(&mut world, "more", "r", "198.51.100.0/24", &["10.0.2.3"]);
    route(&mut world, "most", "r", "198.51.100.7/32", &["10.0.2.4"]);
    route(&mut world, "same", "r", "10.0.2.0/24", &["10.0.1.1"]);
    let mut model = Model::new(world);
    for (dst, to) in [("192.0.2.1", "b"), ("198.51.100.1", "c"), ("198.51.100.7", "d"), ("10.0.2.4", "d")] {
        assert_eq!(reached(&mut model, &from_a(dst)), [to], "{dst}");
    }
    model.apply(|world| route(world, "one", "r", "10.0.2.4/32", &["10.0.2.2"]));
    assert_eq!(reached(&mut model, &from_a("10.0.2.4")), ["b"], "longer than connected");
}

#[test]
fn what_has_no_route_or_a_discard_route_is_dropped() {
    let mut world = two_switches();
    assert_eq!(refused(&mut Model::new(world.clone()), &from_a("192.0.2.1")), Some(Why::NoRoute));
    assert_eq!(refused(&mut Model::new(world.clone()), &from_a("2001:db8::1")), Some(Why::NoRoute));
    route(&mut world, "all", "r", "0.0.0.0/0", &["10.0.2.2"]);
    route(&mut world, "hole", "r", "192.0.2.0/24", &[]);
    let mut model = Model::new(world);
    assert_eq!(refused(&mut model, &from_a("192.0.2.1")), Some(Why::Discarded));
    assert_eq!(reached(&mut model, &from_a("192.0.3.1")), ["b"]);
}

#[test]
fn an_address_that_no_port_declares_is_unresolved_and_no_shorter_route_is_taken() {
    let mut world = two_switches();
    route(&mut world, "all", "r", "0.0.0.0/0", &["10.0.2.2"]);
    route(&mut world, "lost", "r", "192.0.2.0/24", &["10.0.2.9"]);
    route(&mut world, "far", "r", "198.51.100.0/24", &["203.0.113.1"]);
    let mut model = Model::new(world);
    for dst in ["10.0.2.9", "192.0.2.1", "198.51.100.1"] {
        assert_eq!(refused(&mut model, &from_a(dst)), Some(Why::Unresolved), "{dst}");
    }
    model.apply(|world| {
        world.ports.insert("nowhere".into(), port("red", 9, &["10.0.2.9"]));
    });
    assert_eq!(refused(&mut model, &from_a("192.0.2.1")), None, "known, but on no host");
}

/// The ports that a flow of `a` from this UDP port may get to.
fn choices(model: &Model, from: u16) -> Vec<(Model, String)> {
    let frame = udp(TO_ROUTER, ("10.0.1.1", "192.0.2.1"), (from, 6), 64);
    let outcomes = model.outcomes(&network_spec::Tap::vnic("hv1", "a"), &frame);
    let name = |out: &[network_spec::Arrival]| match &out[0].at {
        network_spec::Tap::Vnic { port, .. } => port.clone(),
        network_spec::Tap::Physical { network } => network.clone(),
    };
    outcomes.into_iter().map(|(model, out)| (model, name(&out))).collect()
}

fn names(choices: &[(Model, String)]) -> Vec<&str> {
    choices.iter().map(|(_, name)| name.as_str()).collect()
}

#[test]
fn a_flow_may_take_any_next_hop_and_keeps_it() {
    let mut world = two_switches();
    route(&mut world, "all", "r", "0.0.0.0/0", &["10.0.2.2", "10.0.2.3"]);
    let model = Model::new(world);
    let first = choices(&model, 5);
    assert_eq!(names(&first), ["b", "c"]);
    for (model, hop) in &first {
        assert_eq!(names(&choices(model, 5)), [hop], "it keeps its hop");
        assert_eq!(names(&choices(model, 7)), ["b", "c"], "another flow chooses anew");
    }
    let fragment = Ipv4 { fragment: 0x2000, ..Ipv4::new([10, 0, 1, 1].into(), [192, 0, 2, 1].into(), UDP) };
    let fragment = frame(TO_ROUTER.0, TO_ROUTER.1, IPV4, &fragment.packet(&[0; 16]));
    let outcomes = first[1].0.outcomes(&network_spec::Tap::vnic("hv1", "a"), &fragment);
    assert_eq!(outcomes.len(), 2, "a fragment shows no flow");
}

#[test]
fn only_the_flows_of_a_removed_hop_move_and_an_added_one_takes_some() {
    let mut world = two_switches();
    route(&mut world, "all", "r", "0.0.0.0/0", &["10.0.2.2", "10.0.2.3"]);
    let [(_, _), (on_c, _)] = choices(&Model::new(world), 5).try_into().expect("two");
    let mut more = on_c.clone();
    more.apply(|world| route(world, "all", "r", "0.0.0.0/0", &["10.0.2.2", "10.0.2.3", "10.0.2.4"]));
    assert_eq!(names(&choices(&more, 5)), ["c", "d"]);
    let mut fewer = on_c.clone();
    fewer.apply(|world| route(world, "all", "r", "0.0.0.0/0", &["10.0.2.3"]));
    assert_eq!(names(&choices(&fewer, 5)), ["c"]);
    let mut without = on_c.clone();
    without.apply(|world| route(world, "all", "r", "0.0.0.0/0", &["10.0.2.2", "10.0.2.4"]));
    assert_eq!(names(&choices(&without, 5)), ["b", "d"]);
    let mut unresolved = on_c;
    unresolved.apply(|world| drop(world.ports.remove("c")));
    assert_eq!(names(&choices(&unresolved, 5)), ["b"], "a hop that nobody has takes no flow");
}

#[test]
fn a_next_hop_that_was_away_for_a_while_is_a_new_one() {
    let mut world = two_switches();
    route(&mut world, "all", "r", "0.0.0.0/0", &["10.0.2.2", "10.0.2.3"]);
    let [(_, _), (mut on_c, _)] = choices(&Model::new(world), 5).try_into().expect("two");
    on_c.apply(|world| route(world, "all", "r", "0.0.0.0/0", &["10.0.2.3"]));
    on_c.apply(|world| route(world, "all", "r", "0.0.0.0/0", &["10.0.2.2", "10.0.2.3"]));
    assert_eq!(names(&choices(&on_c, 5)), ["b", "c"], "`b` may take flows of others when it comes back");
    let [(_, _), (mut on_c, _)] = choices(&on_c, 5).try_into().expect("two");
    on_c.apply(|world| route(world, "all", "r", "0.0.0.0/0", &["10.0.2.2"]));
    on_c.apply(|world| route(world, "all", "r", "0.0.0.0/0", &["10.0.2.2", "10.0.2.3"]));
    assert_eq!(names(&choices(&on_c, 5)), ["b", "c"], "its flow has left `c` meanwhile");
}

#[test]
fn states_that_differ_in_choices_alone_become_one() {
    let mut world = two_switches();
    route(&mut world, "all", "r", "0.0.0.0/0", &["10.0.2.2", "10.0.2.3", "10.0.2.4"]);
    let [(on_b, _), (on_c, _), _] = choices(&Model::new(world), 5).try_into().expect("three");
    let united = Model::unite(vec![on_b.clone(), on_c.clone()]);
    let [either] = &united[..] else { panic!("{}", united.len()) };
    assert_eq!(names(&choices(either, 5)), ["b", "c"]);
    assert_eq!(names(&choices(&choices(either, 5)[1].0, 5)), ["c"], "once it is seen, it is known");
    let mut other = on_c;
    other.apply(|world| drop(world.routes.remove("all")));
    assert_eq!(Model::unite(vec![on_b, other]).len(), 2, "these are different networks");
}

#[test]
fn policies_decide_before_routes_by_priority_and_strictness() {
    let reroute = |hop| PolicyAction::Reroute(vec![ip(hop)]);
    let from_a_net = || PolicyMatch { source: Some(net("10.0.1.0/24")), ..PolicyMatch::default() };
    let mut model = Model::new(two_switches());
    let mut with = |id, priority, matches, action| {
        model.apply(|world| policy(world, id, priority, matches, action));
        (reached(&mut model, &from_a("10.0.2.2")), reached(&mut model, &from_a("fd02::2")))
    };
    let both = |four: &[&str], six: &[&str]| {
        let of = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        (of(four), of(six))
    };
    assert_eq!(
        with("via", 5, PolicyMatch::default(), reroute("10.0.2.3")),
        both(&["c"], &["b"]),
        "one version"
    );
    assert_eq!(
        with("allow", 5, from_a_net(), PolicyAction::Allow),
        both(&["c"], &["b"]),
        "reroute comes first"
    );
    let tcp = PolicyMatch { protocol: Some(TCP), ..PolicyMatch::default() };
    assert_eq!(with("tcp", 9, tcp, PolicyAction::Drop), both(&["c"], &["b"]), "another protocol");
    assert_eq!(
        with("allow", 6, from_a_net(), PolicyAction::Allow),
        both(&["b"], &["b"]),
        "the routes decide"
    );
    let to_red = PolicyMatch { destination: Some(net("fd02::/64")), ..PolicyMatch::default() };
    assert_eq!(with("six", 6, to_red, PolicyAction::Drop), both(&["b"], &[]));
    assert_eq!(with("zz", 6, PolicyMatch::default(), PolicyAction::Drop), both(&[], &[]), "drop comes first");
    assert_eq!(model.dropped()[0].why, Why::Policy("six".into()), "then the first by id");
    model.apply(|world| {
        world.route_policies.clear();
        policy(world, "lost", 1, PolicyMatch::default(), reroute("10.0.2.9"));
    });
    assert_eq!(refused(&mut model, &from_a("10.0.2.2")), Some(Why::Unresolved));
}

/// A chain of routers between switches s0, s1, …; `a` is on the first, `z` on the last. Only these have ports of machines.
fn chain(routers: u8) -> World {
    let last = format!("s{routers}");
    let z = port(&last, 2, &["10.1.0.1", "fd01::1:0:0:1"]);
    let mut world =
        world(&[Encap::Geneve], &[("a", "hv1", port("s0", 1, &["10.0.1.1", "fd01::1"])), ("z", "hv2", z)]);
    for number in 0..routers {
        let (router, next) = (format!("r{number}"), number + 1);
        let left = if number == 0 { "10.0.1.254/24".into() } else { format!("192.168.{number}.2/24") };
        let right = if next == routers { "10.1.0.254/24".into() } else { format!("192.168.{next}.1/24") };
        let left_port = if number == 0 { 1 } else { 2 * number + 1 };
        connect(&mut world, &router, &format!("s{number}"), left_port, &[&left]);
        connect(&mut world, &router, &format!("s{next}"), 2 * number + 2, &[&right]);
        if next < routers {
            route(
                &mut world,
                &format!("on{number}"),
                &router,
                "10.1.0.0/16",
                &[&format!("192.168.{next}.2")],
            );
        }
        if number > 0 {
            route(
                &mut world,
                &format!("back{number}"),
                &router,
                "10.0.1.0/24",
                &[&format!("192.168.{number}.1")],
            );
        }
    }
    world
}

#[test]
fn a_chain_of_routers_over_transit_switches_carries_packets_and_answers() {
    for routers in [2, 4, 8] {
        let mut model = Model::new(chain(routers));
        let wanted = udp((port_mac(2 * routers), mac(2)), ("10.0.1.1", "10.1.0.1"), (5, 6), 64 - routers);
        assert_eq!(send_any(&mut model, "a", &from_a("10.1.0.1")), [("z".into(), wanted)]);
        let asked = echo(TO_ROUTER, ("10.0.1.1", "10.1.0.254"), false, 64);
        let hops = 64 - (routers - 1);
        let answer = echo((port_mac(1), mac(1)), ("10.1.0.254", "10.0.1.1"), true, hops);
        assert_eq!(send_any(&mut model, "a", &asked), [("a".into(), answer)], "the last router answers");
        let expires = udp(TO_ROUTER, ("10.0.1.1", "10.1.0.1"), (5, 6), routers);
        assert_eq!(refused(&mut model, &expires), Some(Why::Expired));
        assert_eq!(model.dropped()[0].router, format!("r{}", routers - 1), "at the last");
    }
}

#[test]
fn a_loop_ends_at_the_budget_or_by_the_ttl() {
    let mut world = chain(2);
    route(&mut world, "loop0", "r0", "192.0.2.0/24", &["192.168.1.2"]);
    route(&mut world, "loop1", "r1", "192.0.2.0/24", &["192.168.1.1"]);
    let mut model = Model::new(world);
    assert_eq!(refused(&mut model, &from_a("192.0.2.1")), Some(Why::Budget));
    let short = udp(TO_ROUTER, ("10.0.1.1", "192.0.2.1"), (5, 6), 5);
    assert_eq!(refused(&mut model, &short), Some(Why::Expired));
    let most = u8::try_from(ROUTER_BUDGET).expect("a small number");
    assert_eq!(reached(&mut Model::new(chain(most)), &from_a("10.1.0.1")), ["z"]);
    assert_eq!(refused(&mut Model::new(chain(most + 1)), &from_a("10.1.0.1")), Some(Why::Budget));
}

#[test]
fn tenants_with_equal_addresses_do_not_meet_at_their_routers() {
    let mut world = two_switches();
    for (name, host, of) in
        [("e", "hv1", port("green", 1, &["10.0.1.1"])), ("f", "hv1", port("gold", 2, &["10.0.2.2"]))]
    {
        world.switches.insert(of.switch.clone(), network_spec::Switch::default());
        world.ports.insert(name.into(), of);
        world.vnics.insert((host.into(), name.into()), 1);
    }
    connect(&mut world, "q", "green", 1, &["10.0.1.254/24"]);
    connect(&mut world, "q", "gold", 2, &["10.0.2.254/24"]);
    let mut model = Model::new(world);
    assert_eq!(reached(&mut model, &from_a("10.0.2.2")), ["b"]);
    let out = send_any(&mut model, "e", &from_a("10.0.2.2"));
    assert_eq!(out.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["f"]);
    assert!(send_any(&mut model, "e", &from_a("10.0.2.3")).is_empty(), "that is the other tenant's alone");
}

#[test]
fn an_echo_request_to_any_address_of_the_router_is_answered_from_it() {
    let mut model = Model::new(two_switches());
    for (src, dst) in [
        ("10.0.1.1", "10.0.1.254"),
        ("10.0.1.1", "10.0.2.254"),
        ("fd01::1", "fd01::fe"),
        ("fd01::1", "fd02::fe"),
        ("fe80::ff:fe00:1", "fd01::fe"),
        ("fe80::ff:fe00:1", "fe80::ff:fe00:ff01"),
    ] {
        for hops in [1, 64] {
            let answer = echo((port_mac(1), mac(1)), (dst, src), true, 64);
            let asked = echo(TO_ROUTER, (src, dst), false, hops);
            assert_eq!(send_any(&mut model, "a", &asked), [("a".into(), answer)], "{src} to {dst}");
        }
    }
    let far_link = echo(TO_ROUTER, ("fe80::ff:fe00:1", "fe80::ff:fe00:ff02"), false, 64);
    assert_eq!(
        refused(&mut model, &far_link),
        Some(Why::LinkLocal),
        "the link-local address of another link"
    );
}

#[test]
fn p11_a_router_is_one_of_those_that_have_the_anycast_addresses_of_its_networks() {
    let mut world = two_switches();
    connect(&mut world, "r", "green", 3, &["10.0.3.254/24"]);
    world.ports.insert("e".into(), port("green", 5, &["fd03::5"]));
    world.vnics.insert(("hv1".into(), "e".into()), 1);
    let mut model = Model::new(world);
    // The answer is from an address of the port that the request has come to (RFC 4443, 4.2).
    for (src, dst) in [("fd01::1", "fd01::"), ("fd01::1", "fd02::"), ("fe80::ff:fe00:1", "fd01::")] {
        for hops in [1, 64] {
            let answer = echo((port_mac(1), mac(1)), ("fd01::fe", src), true, 64);
            let asked = echo(TO_ROUTER, (src, dst), false, hops);
            assert_eq!(send_any(&mut model, "a", &asked), [("a".into(), answer)], "{src} to {dst}");
        }
    }
    assert_eq!(refused(&mut model, &from_a("fd01::")), Some(Why::ForRouter), "no echo request");
    assert_eq!(refused(&mut model, &from_a("fd02::")), Some(Why::ForRouter), "no echo request");
    let by_green = echo((mac(5), port_mac(3)), ("fd03::5", "fd01::"), false, 64);
    assert!(send_any(&mut model, "e", &by_green).is_empty(), "the port has no address to answer from");
}

#[test]
fn p11_solicitations_for_the_anycast_address_are_answered_without_the_override_flag() {
    let mut model = Model::new(two_switches());
    let (IpAddr::V6(asker), IpAddr::V6(all)) = (ip("fd01::1"), ip("fd01::")) else { panic!() };
    let (group, group_mac) = frame_builder::solicited_node(all);
    for (dst, to) in [(group_mac, group), (port_mac(1), all)] {
        let asked = discovery((mac(1), dst), (asker, to), (135, 0), all, &link_layer(1, mac(1)));
        let option = link_layer(2, port_mac(1));
        let answer = discovery((port_mac(1), mac(1)), (all, asker), (136, 0xc0), all, &option);
        assert_eq!(send_any(&mut model, "a", &asked), [("a".into(), answer)], "RFC 4861, 7.2.7");
    }
}

#[test]
fn p11_networks_of_two_addresses_and_of_one_have_no_anycast_address() {
    let mut world = two_switches();
    connect(&mut world, "r", "green", 3, &["fd05::1/127"]);
    connect(&mut world, "r", "gold", 4, &["fd06::1/128", "fd07::/64"]);
    let mut model = Model::new(world);
    let asks = |dst| echo(TO_ROUTER, ("fd01::1", dst), false, 64);
    assert_eq!(refused(&mut model, &asks("fd05::")), Some(Why::Unresolved), "RFC 6164, 5.1");
    let answer = echo((port_mac(1), mac(1)), ("fd07::", "fd01::1"), true, 64);
    assert_eq!(send_any(&mut model, "a", &asks("fd07::")), [("a".into(), answer)], "its own address");
}

#[test]
fn p11_acls_concern_what_a_router_answers_to_an_address_of_a_link() {
    for (src, dst) in [
        ("fd01::1", "fd01::fe"),
        ("fd01::1", "fd01::"),
        ("fe80::ff:fe00:1", "fd01::fe"),
        ("fe80::ff:fe00:1", "fe80::ff:fe00:ff01"),
        ("169.254.0.1", "10.0.1.254"),
    ] {
        let asked = echo(TO_ROUTER, (src, dst), false, 64);
        let mut world = two_switches();
        assert_eq!(reached(&mut Model::new(world.clone()), &asked), ["a"]);
        world.acls.insert("no-icmp".into(), at("a", acl(ToPort, Drop)));
        assert!(reached(&mut Model::new(world), &asked).is_empty(), "{src} to {dst}");
    }
}

#[test]
fn whatever_else_is_for_the_router_is_dropped() {
    let mut model = Model::new(two_switches());
    for dst in ["10.0.1.254", "10.0.2.254", "fd02::fe"] {
        assert_eq!(refused(&mut model, &from_a(dst)), Some(Why::ForRouter));
    }
    let answer = echo(TO_ROUTER, ("10.0.1.1", "10.0.1.254"), true, 64);
    assert_eq!(refused(&mut model, &answer), Some(Why::ForRouter));
    let mut fragment = echo(TO_ROUTER, ("10.0.1.1", "10.0.1.254"), false, 64);
    fragment[14 + 6] = 0x20;
    assert_eq!(refused(&mut model, &fragment), Some(Why::ForRouter));
}

/// An ARP request of `a`.
fn who_has(target: [u8; 4], to: Mac) -> Vec<u8> {
    arp(mac(1), to, 1, (mac(1), Ipv4Addr::new(10, 0, 1, 1)), ([0; 6], target.into()))
}

/// The router's answer to it.
fn is_at_router(target: [u8; 4]) -> Vec<u8> {
    arp(port_mac(1), mac(1), 2, (port_mac(1), target.into()), (mac(1), Ipv4Addr::new(10, 0, 1, 1)))
}

#[test]
fn requests_for_an_address_of_the_routers_port_are_answered_also_to_it_alone() {
    let mut model = Model::new(two_switches());
    for to in [BROADCAST, port_mac(1)] {
        let own = [10, 0, 1, 254];
        assert_eq!(send_any(&mut model, "a", &who_has(own, to)), [("a".into(), is_at_router(own))]);
        assert!(reached(&mut model, &who_has([10, 0, 2, 254], to)).is_empty(), "an address of another link");
    }
}

#[test]
fn solicitations_for_an_address_of_the_routers_port_are_answered_with_the_router_flag() {
    let mut model = Model::new(two_switches());
    let IpAddr::V6(asker) = ip("fd01::1") else { panic!() };
    for target in ["fd01::fe", "fe80::ff:fe00:ff01"] {
        let IpAddr::V6(own) = ip(target) else { panic!() };
        let (group, group_mac) = frame_builder::solicited_node(own);
        let advertised =
            |flags, option: &[u8]| discovery((port_mac(1), mac(1)), (own, asker), (136, flags), own, option);
        for (dst, to) in [(group_mac, group), (port_mac(1), own)] {
            let asked = discovery((mac(1), dst), (asker, to), (135, 0), own, &link_layer(1, mac(1)));
            let answer = advertised(0xe0, &link_layer(2, port_mac(1)));
            assert_eq!(send_any(&mut model, "a", &asked), [("a".into(), answer)]);
        }
        let plain = discovery(TO_ROUTER, (asker, own), (135, 0), own, &[]);
        assert_eq!(send_any(&mut model, "a", &plain), [("a".into(), advertised(0xc0, &[]))], "no MAC to say");
    }
}

#[test]
fn a_router_answers_for_the_prefixes_that_it_is_asked_to() {
    let mut world = two_switches();
    world.routers.get_mut("r").unwrap().proxy_arp = vec![net("10.0.0.0/16"), net("fd02::/64")];
    world.ports.insert("near".into(), port("blue", 9, &["10.0.1.9"]));
    let mut model = Model::new(world);
    for to in [BROADCAST, port_mac(1)] {
        let far = [10, 0, 2, 2];
        assert_eq!(send_any(&mut model, "a", &who_has(far, to)), [("a".into(), is_at_router(far))]);
        assert!(reached(&mut model, &who_has([10, 1, 2, 2], to)).is_empty());
    }
    let near = send_any(&mut model, "a", &who_has([10, 0, 1, 9], BROADCAST));
    assert_eq!(near[0].1[6..12], mac(9), "a port that has the address comes first");
    let probe = arp(mac(1), BROADCAST, 1, (mac(1), [0; 4].into()), ([0; 6], [10, 0, 1, 77].into()));
    assert!(reached(&mut model, &probe).is_empty(), "nobody is driven from a free address");
    let own = [10, 0, 1, 77];
    let announced = arp(mac(1), BROADCAST, 1, (mac(1), own.into()), ([0; 6], own.into()));
    assert_eq!(reached(&mut model, &announced), ["a"], "nothing tells it from a request");
    let (IpAddr::V6(asker), IpAddr::V6(far)) = (ip("fd01::1"), ip("fd02::2")) else { panic!() };
    let (group, group_mac) = frame_builder::solicited_node(far);
    let asked = discovery((mac(1), group_mac), (asker, group), (135, 0), far, &link_layer(1, mac(1)));
    let option = link_layer(2, port_mac(1));
    let answer = discovery((port_mac(1), mac(1)), (far, asker), (136, 0xc0), far, &option);
    assert_eq!(send_any(&mut model, "a", &asked), [("a".into(), answer)], "without the override flag");
}

#[test]
fn a_packet_larger_than_the_next_switch_carries_is_dropped() {
    let mut model = Model::new(two_switches());
    assert_eq!(model.world().mtu("red"), Some(1442));
    for (addresses, header) in [(("10.0.1.1", "10.0.2.3"), 20), (("fd01::1", "fd02::3"), 40)] {
        let of = |size: usize| packet(TO_ROUTER, addresses, 253, &vec![0; size - header], 64);
        assert_eq!(reached(&mut model, &of(1442)), ["c"]);
        assert_eq!(refused(&mut model, &of(1443)), Some(Why::TooLarge), "also on one host");
        let padded = [of(1442), vec![0; 60]].concat();
        assert_eq!(reached(&mut model, &padded), ["c"], "padding is not of the packet");
    }
    assert_eq!(model.world().mtu("blue"), Some(1442), "hv2 reaches it through the router");
}

#[test]
fn routers_make_hosts_peers() {
    let mut world = two_switches();
    world.nodes.get_mut("hv1").unwrap().ip = ip("172.16.0.1");
    world.nodes.get_mut("hv2").unwrap().ip = ip("172.16.0.2");
    world.vnics.remove(&("hv1".into(), "c".into()));
    assert!(!world.refuses("hv1", ip("172.16.0.2")) && !world.refuses("hv2", ip("172.16.0.1")));
    world.router_ports.clear();
    assert!(world.refuses("hv1", ip("172.16.0.2")));
}

#[test]
fn the_receivers_port_security_counts_for_routed_packets() {
    let mut world = two_switches();
    world.ports.get_mut("b").unwrap().port_security = true;
    route(&mut world, "all", "r", "0.0.0.0/0", &["10.0.2.2"]);
    let mut model = Model::new(world);
    assert_eq!(reached(&mut model, &from_a("10.0.2.2")), ["b"]);
    assert_eq!(refused(&mut model, &from_a("192.0.2.1")), None, "routed, and not for an address of b");
}

#[test]
fn what_is_for_a_router_is_flooded_and_learned_nowhere() {
    let mut world = two_switches();
    world.ports.insert("u".into(), unknown("blue"));
    world.vnics.insert(("hv1".into(), "u".into()), 1);
    let mut model = Model::new(world);
    send_any(&mut model, "u", &any(port_mac(1), mac(1)));
    assert_eq!(reached(&mut model, &from_a("10.0.2.2")), ["b"], "whoever claims its MAC");
    assert_eq!(refused(&mut model, &from_a("192.0.2.1")), Some(Why::NoRoute));
}

#[test]
fn a_routers_port_on_a_physical_network_is_dead() {
    let mut model = Model::new(on_vlan(two_switches(), "red", 7));
    assert_eq!(refused(&mut model, &from_a("10.0.2.2")), Some(Why::Unresolved));
    let asked = arp(mac(2), BROADCAST, 1, (mac(2), [10, 0, 2, 2].into()), ([0; 6], [10, 0, 2, 254].into()));
    assert!(send_any(&mut model, "b", &asked).iter().all(|(_, bytes)| bytes[6..12] == mac(2)), "no answer");
}
