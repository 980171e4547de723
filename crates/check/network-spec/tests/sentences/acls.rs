//! ACLs without connections: which packets they are for, which of them decides, and what they leave alone.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use frame_builder::{BROADCAST, ICMP, ICMPV6, IPV4, IPV6, Ipv4, Ipv6, TCP, UDP, icmp, icmpv6};
use network_spec::{
    Acl, AclAction, AclDefault, AclPlace, AclProtocol, Direction, Encap, EtherType, Mac, Model, Network,
    PacketMatch, Peers, RouterPort, World,
};

use crate::sentences::frames::{arp, discovery, frame, ipv4, ipv6, link_local, mac, unknown};
use crate::sentences::worlds::{port, secured, send, send_any, world};

pub(super) use AclAction::{Allow, AllowRelated, Drop, Pass, Reject};
pub(super) use Direction::{FromPort, ToPort};

/// An ACL for all packets at a switch, in tier 0 with priority 100.
pub(super) fn acl(direction: Direction, action: AclAction) -> Acl {
    let place = AclPlace::Switch("blue".into());
    let (tier, priority, matches) = (0, 100, PacketMatch::default());
    Acl { place, direction, tier, priority, matches, from: None, to: None, action }
}

/// At one port instead.
pub(super) fn at(port: &str, acl: Acl) -> Acl {
    Acl { place: AclPlace::Port(port.into()), ..acl }
}

pub(super) fn with(mut world: World, acls: &[Acl]) -> World {
    for acl in acls {
        world.acls.insert(format!("acl{}", world.acls.len()), acl.clone());
    }
    world
}

pub(super) fn net(text: &str) -> Network {
    let (ip, length) = text.split_once('/').expect("a prefix");
    Network { ip: ip.parse().expect("an address"), length: length.parse().expect("a length") }
}

/// `a` and `c` of blue on hv1, `b` of blue on hv2.
pub(super) fn three() -> World {
    world(
        &[Encap::Geneve],
        &[("a", "hv1", port("blue", 1)), ("b", "hv2", port("blue", 2)), ("c", "hv1", port("blue", 3))],
    )
}

/// IP from one machine to another, with a TTL of 64.
pub(super) fn ip((src, dst): (u8, u8), protocol: u8, inside: &[u8]) -> Vec<u8> {
    let packet = Ipv4::new(ipv4(src), ipv4(dst), protocol);
    frame(mac(src), mac(dst), IPV4, &packet.packet(inside))
}

pub(super) fn udp(ends: (u8, u8), ports: (u16, u16)) -> Vec<u8> {
    ip(ends, UDP, &frame_builder::udp_without_checksum(ports.0, ports.1, b"said"))
}

fn tcp_to(port: u16) -> Vec<u8> {
    let ends = frame_builder::Endpoints::V4(ipv4(1), ipv4(2));
    ip((1, 2), TCP, &frame_builder::tcp(5, port, 2, b"", ends))
}

fn ping6(kind: u8) -> Vec<u8> {
    let (src, dst) = (ipv6(1), ipv6(2));
    let message = icmpv6(vec![kind, 0, 0, 0, 0, 7, 0, 1], src, dst);
    frame(mac(1), mac(2), IPV6, &Ipv6::new(src, dst, ICMPV6).packet(&message))
}

/// Whether `b` gets what `a` sends, in a world with these ACLs.
fn gets(acls: &[Acl], bytes: &[u8]) -> bool {
    send(&mut Model::new(with(three(), acls)), "a", bytes) == ["b"]
}

fn matching(matches: PacketMatch) -> Acl {
    Acl { matches, ..acl(ToPort, Drop) }
}

#[test]
fn acls_act_where_frames_enter_and_where_they_leave() {
    let bytes = udp((1, 2), (5, 6));
    assert!(gets(&[], &bytes));
    for (acl, passes) in [
        (at("a", acl(FromPort, Drop)), false),
        (at("b", acl(ToPort, Drop)), false),
        (at("b", acl(FromPort, Drop)), true),
        (at("a", acl(ToPort, Drop)), true),
        (at("c", acl(FromPort, Drop)), true),
    ] {
        assert_eq!(gets(std::slice::from_ref(&acl), &bytes), passes, "{acl:?}");
    }
}

#[test]
fn an_acl_is_for_all_ports_of_its_switch_for_its_port_or_for_the_ports_of_its_group() {
    let mut world = three();
    world.port_groups.insert("g".into(), BTreeSet::from(["b".into()]));
    for (place, left) in [
        (AclPlace::Switch("blue".into()), vec![]),
        (AclPlace::Switch("red".into()), vec!["b", "c"]),
        (AclPlace::Port("c".into()), vec!["b"]),
        (AclPlace::PortGroup("g".into()), vec!["c"]),
    ] {
        let acls = [Acl { place, ..acl(ToPort, Drop) }];
        let mut model = Model::new(with(world.clone(), &acls));
        assert_eq!(send(&mut model, "a", &unknown(mac(1), BROADCAST)), left, "{acls:?}");
    }
}

#[test]
fn a_member_that_leaves_a_group_leaves_its_acls() {
    let mut world = with(three(), &[Acl { place: AclPlace::PortGroup("g".into()), ..acl(ToPort, Drop) }]);
    world.port_groups.insert("g".into(), BTreeSet::from(["b".into()]));
    let mut model = Model::new(world);
    assert!(send(&mut model, "a", &udp((1, 2), (5, 6))).is_empty());
    model.apply(|world| world.port_groups.get_mut("g").expect("the group").clear());
    assert_eq!(send(&mut model, "a", &udp((1, 2), (5, 6))), ["b"]);
}

#[test]
fn a_match_is_for_packets_with_all_that_it_says() {
    let any = PacketMatch::default;
    let tcp = || PacketMatch { protocol: Some(AclProtocol::Number(TCP)), ..any() };
    let icmp_of_any = || PacketMatch { protocol: Some(AclProtocol::Icmp), ..any() };
    let ping = ip((1, 2), ICMP, &icmp(8, &[0, 7, 0, 1]));
    let ports = |first, last| PacketMatch { destination_ports: Some((first, last)), ..tcp() };
    for (matches, bytes, matched) in [
        (any(), unknown(mac(1), mac(2)), true),
        (tcp(), tcp_to(22), true),
        (tcp(), udp((1, 2), (5, 22)), false),
        (ports(22, 22), tcp_to(22), true),
        (ports(22, 22), tcp_to(23), false),
        (ports(8000, 8999), tcp_to(8999), true),
        (ports(8000, 8999), tcp_to(9000), false),
        (PacketMatch { source_ports: Some((5, 5)), ..tcp() }, tcp_to(9), true),
        (PacketMatch { source_ports: Some((9, 9)), ..tcp() }, tcp_to(9), false),
        (icmp_of_any(), ping.clone(), true),
        (icmp_of_any(), ping6(128), true),
        (PacketMatch { protocol: Some(AclProtocol::Icmpv6), ..any() }, ping.clone(), false),
        (PacketMatch { icmp_type: Some(8), ..any() }, ping.clone(), true),
        (PacketMatch { icmp_type: Some(8), icmp_code: Some(1), ..any() }, ping.clone(), false),
        (PacketMatch { icmp_type: Some(128), ..any() }, ping6(128), true),
        (PacketMatch { ether_type: Some(EtherType::Ipv6), ..any() }, ping6(128), true),
        (PacketMatch { ether_type: Some(EtherType::Ipv6), ..any() }, ping.clone(), false),
        (PacketMatch { source: Some(net("10.0.0.0/31")), ..any() }, ping.clone(), true),
        (PacketMatch { destination: Some(net("10.0.0.0/31")), ..any() }, ping, false),
    ] {
        assert_eq!(gets(&[matching(matches.clone())], &bytes), !matched, "{matches:?}");
    }
}

#[test]
fn from_and_to_are_about_addresses_so_they_match_no_other_packet() {
    let from = |peers| Acl { from: Some(peers), ..acl(ToPort, Drop) };
    let to = |peers| Acl { to: Some(peers), ..acl(ToPort, Drop) };
    let bytes = udp((1, 2), (5, 6));
    let everything = || Peers::Net(net("0.0.0.0/0"));
    assert!(!gets(&[from(everything())], &bytes));
    assert!(gets(&[from(Peers::Net(net("10.0.0.2/32")))], &bytes));
    assert!(!gets(&[to(Peers::Net(net("10.0.0.2/32")))], &bytes));
    assert!(gets(&[from(everything())], &unknown(mac(1), mac(2))));
    assert!(gets(&[from(everything())], &ping6(128)));
    let asked = arp(mac(1), mac(2), 2, (mac(1), ipv4(1)), (mac(2), ipv4(2)));
    let of_arp = PacketMatch { ether_type: Some(EtherType::Arp), ..PacketMatch::default() };
    assert!(gets(&[Acl { matches: of_arp.clone(), ..from(everything()) }], &asked));
    assert!(!gets(&[matching(of_arp)], &asked));
}

#[test]
fn peers_are_a_prefix_a_group_of_addresses_a_group_of_ports_or_ports_with_labels() {
    let mut world = three();
    world.address_groups.insert("office".into(), vec![net("192.0.2.0/24"), net("10.0.0.1/32")]);
    world.port_groups.insert("web".into(), BTreeSet::from(["a".into()]));
    let labels = |of: &[(&str, &str)]| -> BTreeMap<String, String> {
        of.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
    };
    world.ports.get_mut("a").expect("a").labels = labels(&[("app", "web"), ("tier", "1")]);
    for (peers, matched) in [
        (Peers::AddressGroup("office".into()), true),
        (Peers::PortGroup("web".into()), true),
        (Peers::Labels(labels(&[("app", "web")])), true),
        (Peers::Labels(labels(&[("app", "web"), ("tier", "1")])), true),
        (Peers::Labels(labels(&[("app", "web"), ("tier", "2")])), false),
        (Peers::Labels(labels(&[])), true),
        (Peers::AddressGroup("nobody".into()), false),
    ] {
        let acls = [Acl { from: Some(peers), ..acl(ToPort, Drop) }];
        let mut model = Model::new(with(world.clone(), &acls));
        assert_eq!(send(&mut model, "a", &udp((1, 2), (5, 6))).is_empty(), matched, "{acls:?}");
        // `c` has nothing of all this, but for the labels that ask for nothing.
        let of_all = acls[0].from == Some(Peers::Labels(labels(&[])));
        assert_eq!(send(&mut model, "c", &udp((3, 2), (5, 6))).is_empty(), of_all, "{acls:?}");
    }
}

#[test]
fn ports_stand_for_their_declared_addresses_and_labels_for_ports_of_the_tenant() {
    let labelled = |world: &mut World, port: &str| {
        world.ports.get_mut(port).expect("the port").labels.insert("app".into(), "web".into());
    };
    let by_labels = Peers::Labels(BTreeMap::from([("app".into(), "web".into())]));
    let acls = [Acl { from: Some(by_labels), ..acl(ToPort, Drop) }];
    let mut world = with(three(), &acls);
    labelled(&mut world, "c");
    let mut model = Model::new(world.clone());
    assert_eq!(send(&mut model, "a", &udp((1, 2), (5, 6))), ["b"]);
    let as_c =
        frame(mac(1), mac(2), IPV4, &Ipv4::new(ipv4(3), ipv4(2), UDP).packet(&[0, 5, 0, 6, 0, 8, 0, 0]));
    assert!(send(&mut model, "a", &as_c).is_empty(), "from an address of `c`");
    // A port of another tenant has the address and the label.
    let mut apart = world;
    apart.ports.get_mut("c").expect("c").labels.clear();
    apart.switches.entry("red".into()).or_default().tenant = "t1".into();
    apart.ports.insert("d".into(), port("red", 3));
    labelled(&mut apart, "d");
    let mut model = Model::new(apart);
    assert_eq!(send(&mut model, "a", &as_c), ["b"]);
    model.apply(|world| world.switches.get_mut("red").expect("red").tenant.clear());
    assert!(send(&mut model, "a", &as_c).is_empty(), "both without a tenant");
}

#[test]
fn p15_a_group_of_ports_is_also_these_ports_where_a_frame_is_known_to_be_from_or_to_one() {
    let mut world = three();
    world.port_groups.insert("g".into(), BTreeSet::from(["b".into()]));
    world.ports.get_mut("b").expect("b").labels.insert("app".into(), "web".into());
    let as_others = frame(mac(1), mac(2), IPV4, &Ipv4::new(ipv4(8), ipv4(9), UDP).packet(&[0; 8]));
    let back = frame(mac(2), mac(1), IPV4, &Ipv4::new(ipv4(9), ipv4(8), UDP).packet(&[0; 8]));
    let group = || Some(Peers::PortGroup("g".into()));
    let web = || Some(Peers::Labels(BTreeMap::from([("app".into(), "web".into())])));
    for peers in [group(), web()] {
        // What `b` gets, by whatever address, and if it is not IP.
        let mut model = Model::new(with(world.clone(), &[Acl { to: peers.clone(), ..acl(ToPort, Drop) }]));
        for frame in [udp((1, 2), (5, 6)), as_others.clone(), unknown(mac(1), mac(2))] {
            assert!(send(&mut model, "a", &frame).is_empty(), "{peers:?}");
        }
        assert_eq!(send(&mut model, "a", &unknown(mac(1), BROADCAST)), ["c"], "of a flood its copy alone");
        assert_eq!(send(&mut model, "b", &back), ["a"]);
        // What `b` sends.
        let mut model =
            Model::new(with(world.clone(), &[Acl { from: peers.clone(), ..acl(FromPort, Drop) }]));
        for frame in [udp((2, 1), (5, 6)), back.clone(), unknown(mac(2), mac(1)), unknown(mac(2), BROADCAST)]
        {
            assert!(send(&mut model, "b", &frame).is_empty(), "{peers:?}");
        }
        assert_eq!(send(&mut model, "a", &as_others), ["b"]);
        // At the other end, only addresses say what is from `b` or to it.
        let far = [
            Acl { to: peers.clone(), ..acl(FromPort, Drop) },
            Acl { from: peers.clone(), ..acl(ToPort, Drop) },
        ];
        let mut model = Model::new(with(world.clone(), &far));
        assert_eq!(send(&mut model, "a", &as_others), ["b"]);
        assert_eq!(send(&mut model, "b", &unknown(mac(2), mac(1))), ["a"]);
        assert!(send(&mut model, "a", &udp((1, 2), (5, 6))).is_empty());
    }
}

#[test]
fn the_first_tier_decides_then_the_highest_priority_then_the_strictest_action() {
    let with_rank = |tier, priority, action| Acl { tier, priority, ..acl(ToPort, action) };
    let bytes = udp((1, 2), (5, 6));
    for (acls, passes) in [
        (vec![with_rank(0, 1, Allow), with_rank(1, 9, Drop)], true),
        (vec![with_rank(0, 1, Drop), with_rank(1, 9, Allow)], false),
        (vec![with_rank(0, 1, Drop), with_rank(0, 2, Allow)], true),
        (vec![with_rank(0, 1, Drop), with_rank(0, 1, Allow)], false),
        (vec![with_rank(0, 1, Reject), with_rank(0, 1, AllowRelated)], false),
        (vec![with_rank(0, 1, Pass), with_rank(0, 1, Allow), with_rank(1, 1, Drop)], true),
        (vec![with_rank(0, 2, Pass), with_rank(0, 1, Drop), with_rank(1, 1, Allow)], true),
        (vec![with_rank(0, 2, Pass), with_rank(3, 1, Drop)], false),
        (vec![with_rank(3, 1, Pass)], true),
        (
            vec![
                Acl {
                    matches: PacketMatch { icmp_type: Some(8), ..PacketMatch::default() },
                    ..with_rank(0, 9, Allow)
                },
                with_rank(1, 1, Drop),
            ],
            false,
        ),
    ] {
        assert_eq!(gets(&acls, &bytes), passes, "{acls:?}");
    }
}

#[test]
fn the_default_of_the_switch_is_for_what_no_tier_decides() {
    let mut world = three();
    world.switches.get_mut("blue").expect("blue").acl_default = AclDefault::Drop;
    let bytes = udp((1, 2), (5, 6));
    assert!(send(&mut Model::new(world.clone()), "a", &bytes).is_empty());
    let passes = [acl(FromPort, Pass), acl(ToPort, Pass)];
    assert!(send(&mut Model::new(with(world.clone(), &passes)), "a", &bytes).is_empty());
    let one_side = [acl(FromPort, Allow)];
    assert!(send(&mut Model::new(with(world.clone(), &one_side)), "a", &bytes).is_empty());
    let both = [acl(FromPort, Allow), acl(ToPort, Allow)];
    assert_eq!(send(&mut Model::new(with(world, &both)), "a", &bytes), ["b"]);
}

#[test]
fn reject_drops() {
    let mut model = Model::new(with(three(), &[at("b", acl(ToPort, Reject))]));
    assert!(send_any(&mut model, "a", &udp((1, 2), (5, 6))).is_empty());
    assert_eq!(model.judged().dropped, 1);
}

#[test]
fn p12_arp_rarp_discovery_and_listeners_of_groups_meet_only_acls_that_ask_for_them() {
    let reply = arp(mac(1), mac(2), 2, (mac(1), ipv4(1)), (mac(2), ipv4(2)));
    let reverse = frame(mac(1), mac(2), 0x8035, &reply[14..]);
    let advertisement = discovery((mac(1), mac(2)), (ipv6(1), ipv6(2)), (136, 0), ipv6(1), &[]);
    let of_type = |ether_type| PacketMatch { ether_type: Some(ether_type), ..PacketMatch::default() };
    let of_message = |kind| PacketMatch { icmp_type: Some(kind), ..PacketMatch::default() };
    let ip_of_all = PacketMatch { ether_type: Some(EtherType::Ipv6), ..PacketMatch::default() };
    let of_listeners = [130, 131, 132, 143].map(ping_of);
    let of_link = [&reply, &reverse, &advertisement, &ping_of(133), &ping_of(134)];
    for bytes in of_link.into_iter().chain(&of_listeners) {
        for matches in [PacketMatch::default(), ip_of_all.clone()] {
            for direction in [FromPort, ToPort] {
                assert!(gets(&[Acl { matches: matches.clone(), ..acl(direction, Drop) }], bytes));
            }
        }
        let mut world = three();
        world.switches.get_mut("blue").expect("blue").acl_default = AclDefault::Drop;
        assert_eq!(send(&mut Model::new(world), "a", bytes), ["b"]);
    }
    for (bytes, matches) in [
        (&reply, of_type(EtherType::Arp)),
        (&reverse, of_type(EtherType::Rarp)),
        (&advertisement, of_message(136)),
        (&ping_of(134), of_message(134)),
        (&of_listeners[0], of_message(130)),
        (&of_listeners[1], of_message(131)),
        (&of_listeners[2], of_message(132)),
        (&of_listeners[3], of_message(143)),
    ] {
        for direction in [FromPort, ToPort] {
            assert!(!gets(&[Acl { matches: matches.clone(), ..acl(direction, Drop) }], bytes));
        }
    }
    // A redirect, and a discovery of routers for multicast (RFC 4286), are none of these messages.
    for kind in [129, 137, 142, 144, 151] {
        assert!(!gets(&[acl(ToPort, Drop)], &ping_of(kind)), "type {kind}");
    }
}

/// A message of `ICMPv6` with the hop limit of neighbour discovery.
fn ping_of(kind: u8) -> Vec<u8> {
    let (src, dst) = (ipv6(1), ipv6(2));
    let message = icmpv6([&[kind, 0, 0, 0, 0, 0, 0, 0][..], &[0; 8]].concat(), src, dst);
    frame(mac(1), mac(2), IPV6, &Ipv6::new(src, dst, ICMPV6).packet(&message))
}

#[test]
fn an_acl_that_drops_questions_leaves_them_unanswered() {
    let asks = arp(mac(1), BROADCAST, 1, (mac(1), ipv4(1)), ([0; 6], ipv4(2)));
    let of_arp = PacketMatch { ether_type: Some(EtherType::Arp), ..PacketMatch::default() };
    let mut model = Model::new(with(three(), &[Acl { matches: of_arp, ..acl(FromPort, Drop) }]));
    assert!(send_any(&mut model, "a", &asks).is_empty());
}

#[test]
fn what_the_network_answers_itself_is_delivered_past_acls() {
    let every: Vec<Acl> = [EtherType::Arp, EtherType::Ipv4]
        .map(|kind| matching(PacketMatch { ether_type: Some(kind), ..PacketMatch::default() }))
        .into_iter()
        .chain([matching(PacketMatch { icmp_type: Some(136), ..PacketMatch::default() }), acl(ToPort, Drop)])
        .collect();
    let mut world = with(three(), &every);
    let gateway: Mac = [2, 0, 0, 0, 0xff, 1];
    world.routers.entry("r".into()).or_default();
    let networks = vec![net("10.0.0.254/24")];
    let of_router = RouterPort {
        router: "r".into(),
        switch: "blue".into(),
        mac: gateway,
        networks,
        gateways: Vec::new(),
    };
    world.router_ports.insert("r-blue".into(), of_router);
    let mut model = Model::new(world);
    let asks = arp(mac(1), BROADCAST, 1, (mac(1), ipv4(1)), ([0; 6], ipv4(2)));
    assert_eq!(send_any(&mut model, "a", &asks).len(), 1);
    let solicits = discovery(
        (mac(1), mac(2)),
        (link_local(1), ipv6(2)),
        (135, 0),
        ipv6(2),
        &frame_builder::link_layer(1, mac(1)),
    );
    let solicits = [&[0x33, 0x33, 0xff, 0, 0, 2][..], &solicits[6..]].concat();
    assert_eq!(send_any(&mut model, "a", &solicits).len(), 1);
    // The echo of a router is a packet like any: it may have come from another host.
    let gateway_ip = "10.0.0.254".parse().expect("an address");
    let ping = Ipv4::new(ipv4(1), gateway_ip, ICMP).packet(&icmp(8, &[0, 7, 0, 1]));
    assert_eq!(send_any(&mut model, "a", &frame(mac(1), gateway, IPV4, &ping)), []);
}

#[test]
fn a_routed_packet_meets_the_acls_of_both_ends_and_no_others() {
    let mut world = world(&[Encap::Geneve], &[("a", "hv1", port("blue", 1)), ("b", "hv2", port("red", 2))]);
    world.routers.entry("r".into()).or_default();
    let gateway = |number| [2, 0, 0, 0, 0xff, number];
    for (switch, number, network) in [("blue", 1, "10.0.0.254/31"), ("red", 2, "10.0.0.3/31")] {
        let networks = vec![net(network)];
        let of_router = RouterPort {
            router: "r".into(),
            switch: switch.into(),
            mac: gateway(number),
            networks,
            gateways: Vec::new(),
        };
        world.router_ports.insert(format!("r-{switch}"), of_router);
    }
    let packet = Ipv4::new(ipv4(1), ipv4(2), UDP).packet(&frame_builder::udp_without_checksum(5, 6, b""));
    let bytes = frame(mac(1), gateway(1), IPV4, &packet);
    let reached = |acls: &[Acl]| {
        let out = send_any(&mut Model::new(with(world.clone(), acls)), "a", &bytes);
        out.into_iter().map(|(port, _)| port).collect::<Vec<_>>()
    };
    assert_eq!(reached(&[]), ["b"]);
    let on = |switch: &str, direction| Acl { place: AclPlace::Switch(switch.into()), ..acl(direction, Drop) };
    for (acl, left) in [
        (on("blue", FromPort), vec![]),
        (on("red", ToPort), vec![]),
        (on("blue", ToPort), vec!["b"]),
        (on("red", FromPort), vec!["b"]),
    ] {
        assert_eq!(reached(std::slice::from_ref(&acl)), left, "{acl:?}");
    }
}

#[test]
fn the_ports_of_localnet_ports_have_no_acls() {
    let world = with(three(), &[acl(FromPort, Drop)]);
    let mut model = Model::new(crate::sentences::worlds::on_vlan(world, "blue", 0));
    let bytes = unknown([2, 0xdd, 0, 0, 0, 1], mac(1));
    assert_eq!(send(&mut model, "physnet", &bytes), ["a"]);
    assert!(send(&mut model, "a", &unknown(mac(1), mac(3))).is_empty());
}

#[test]
fn a_sender_whose_frame_an_acl_drops_is_where_it_is() {
    let mut world = with(three(), &[at("l", acl(FromPort, Drop))]);
    world.ports.insert("l".into(), crate::sentences::worlds::unknown("blue"));
    world.vnics.insert(("hv1".into(), "l".into()), 1);
    let mut model = Model::new(world);
    assert!(send(&mut model, "l", &unknown([2, 9, 9, 9, 9, 9], mac(1))).is_empty());
    assert_eq!(send(&mut model, "a", &unknown(mac(1), [2, 9, 9, 9, 9, 9])), ["l"]);
}

#[test]
fn to_acls_come_before_the_security_of_the_receiver() {
    let addresses: [IpAddr; 1] = [ipv4(2).into()];
    let mut world = with(three(), &[at("b", acl(ToPort, Drop))]);
    world.ports.insert("b".into(), secured("blue", 2, &addresses));
    let mut model = Model::new(world);
    let astray =
        frame(mac(1), mac(2), IPV4, &Ipv4::new(ipv4(1), ipv4(9), UDP).packet(&[0, 5, 0, 6, 0, 8, 0, 0]));
    assert!(send(&mut model, "a", &astray).is_empty());
    assert_eq!(model.judged().dropped, 1, "the ACL has dropped it");
}
