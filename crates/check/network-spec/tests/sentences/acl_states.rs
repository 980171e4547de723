//! Connections: which ones a stateful port remembers, which replies pass, and when the port forgets.

use std::time::Duration;

use frame_builder::{
    Endpoints, ICMP, ICMPV6, IPV4, IPV6, Ipv4, Ipv6, TCP, UDP, icmp, icmpv6, tcp, udp as datagram,
};
use network_spec::{Acl, AclDefault, AclPlace, AclProtocol, Model, PacketMatch, Tap, World};

use crate::sentences::acls::{
    Allow, AllowRelated, Drop, FromPort, ToPort, acl, at, ip, net, three, udp, with,
};
use crate::sentences::frames::{discovery, frame, ipv4, ipv6, mac};
use crate::sentences::worlds::{secured, send, send_any};

/// `a` may begin connections of UDP, TCP and echoes, and nobody else may send to it.
pub(super) fn guarded() -> World {
    with(three(), &[at("a", acl(FromPort, AllowRelated)), at("a", acl(ToPort, Drop))])
}

pub(super) fn passes(model: &mut Model, from: &str, bytes: &[u8]) -> bool {
    !send_any(model, from, bytes).is_empty()
}

/// Whether a frame passes, in all that may become of it.
pub(super) fn possibilities(model: &Model, host: &str, from: &str, bytes: &[u8]) -> Vec<bool> {
    let mut all: Vec<bool> =
        model.outcomes(&Tap::vnic(host, from), bytes).iter().map(|(_, out)| !out.is_empty()).collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn segment((src, dst): (u8, u8), ports: (u16, u16), flags: u8) -> Vec<u8> {
    let ends = Endpoints::V4(ipv4(src), ipv4(dst));
    ip((src, dst), TCP, &tcp(ports.0, ports.1, flags, b"", ends))
}

pub(super) fn echo((src, dst): (u8, u8), kind: u8, identifier: u8) -> Vec<u8> {
    ip((src, dst), ICMP, &icmp(kind, &[0, identifier, 0, 1]))
}

/// The error that a packet was not delivered, from another machine to its sender.
fn error_about(bytes: &[u8], ends: (u8, u8)) -> Vec<u8> {
    error_of(3, bytes, ends)
}

/// An error of this type.
pub(super) fn error_of(kind: u8, bytes: &[u8], (src, dst): (u8, u8)) -> Vec<u8> {
    let inside = &bytes[14..(14 + 28).min(bytes.len())];
    ip((src, dst), ICMP, &icmp(kind, &[&[0; 4][..], inside].concat()))
}

#[test]
fn replies_of_what_a_port_has_begun_pass_whatever_the_other_direction_says() {
    let six = |(src, dst): (u8, u8), ports: (u16, u16)| {
        let ends = Endpoints::V6(ipv6(src), ipv6(dst));
        let packet = Ipv6::new(ipv6(src), ipv6(dst), UDP).packet(&datagram(ports.0, ports.1, b"said", ends));
        frame(mac(src), mac(dst), IPV6, &packet)
    };
    let other = |ends| ip(ends, 47, &[7; 12]);
    for (first, reply) in [
        (udp((1, 2), (5, 6)), udp((2, 1), (6, 5))),
        (six((1, 2), (5, 6)), six((2, 1), (6, 5))),
        (segment((1, 2), (5, 80), 2), segment((2, 1), (80, 5), 0x12)),
        (echo((1, 2), 8, 7), echo((2, 1), 0, 7)),
        (other((1, 2)), other((2, 1))),
    ] {
        let mut model = Model::new(guarded());
        assert!(!passes(&mut model, "b", &reply), "nothing has been asked");
        assert!(passes(&mut model, "a", &first));
        assert_eq!((model.connections(), model.judged().begun), (1, 1));
        assert!(passes(&mut model, "b", &reply));
        assert_eq!(model.judged().replies, 1);
        assert!(passes(&mut model, "a", &first), "and so on");
        assert_eq!(model.connections(), 1);
    }
}

#[test]
fn a_connection_is_known_by_addresses_protocol_and_ports_or_the_identifier_of_an_echo() {
    let mut model = Model::new(guarded());
    assert!(passes(&mut model, "a", &udp((1, 2), (5, 6))));
    assert!(passes(&mut model, "a", &echo((1, 2), 8, 7)));
    for other in [
        udp((2, 1), (6, 4)),
        udp((2, 1), (7, 5)),
        udp((2, 1), (5, 6)),
        segment((2, 1), (6, 5), 0x10),
        echo((2, 1), 0, 8),
        echo((2, 1), 8, 7),
    ] {
        assert!(!possibilities(&model, "hv2", "b", &other).contains(&true), "{other:x?}");
    }
    assert!(!passes(&mut model, "c", &udp((3, 1), (6, 5))), "another machine");
}

#[test]
fn a_connection_to_a_port_has_replies_too() {
    let mut model =
        Model::new(with(three(), &[at("b", acl(ToPort, AllowRelated)), at("b", acl(FromPort, Drop))]));
    assert!(!passes(&mut model, "b", &udp((2, 1), (6, 5))));
    assert!(passes(&mut model, "a", &udp((1, 2), (5, 6))));
    assert!(passes(&mut model, "b", &udp((2, 1), (6, 5))));
}

#[test]
fn each_port_keeps_its_own_connections() {
    let mut world = guarded();
    world.ports.get_mut("c").expect("c").addresses[0].ips.push(ipv4(1).into());
    world = with(world, &[at("c", acl(FromPort, AllowRelated)), at("c", acl(ToPort, Drop))]);
    let mut model = Model::new(world);
    assert!(passes(&mut model, "a", &udp((1, 2), (5, 6))));
    let to_c = frame(mac(2), mac(3), IPV4, &udp((2, 1), (6, 5))[14..]);
    assert!(!passes(&mut model, "b", &to_c));
}

#[test]
fn a_port_is_stateful_in_both_directions_by_any_acl_of_its_own_its_switch_or_its_groups() {
    let elsewhere = PacketMatch { icmp_type: Some(42), ..PacketMatch::default() };
    let related = |place, direction| Acl {
        place,
        matches: elsewhere.clone(),
        priority: 1,
        ..acl(direction, AllowRelated)
    };
    let drops = at("a", acl(ToPort, Drop));
    for (stateful, is_stateful) in [
        (related(AclPlace::Port("a".into()), ToPort), true),
        (related(AclPlace::Port("a".into()), FromPort), true),
        (related(AclPlace::Switch("blue".into()), ToPort), true),
        (related(AclPlace::PortGroup("g".into()), ToPort), true),
        (related(AclPlace::Port("b".into()), ToPort), false),
        (at("a", Acl { matches: elsewhere.clone(), ..acl(ToPort, Allow) }), false),
    ] {
        let mut world = with(three(), &[drops.clone(), stateful.clone()]);
        world.port_groups.insert("g".into(), ["a".to_owned()].into());
        let mut model = Model::new(world);
        assert!(passes(&mut model, "a", &udp((1, 2), (5, 6))), "no ACL matches");
        assert_eq!(passes(&mut model, "b", &udp((2, 1), (6, 5))), is_stateful, "{stateful:?}");
    }
}

#[test]
fn what_no_acl_matches_begins_a_connection_where_the_default_allows_it_and_allow_begins_none() {
    let related = PacketMatch { protocol: Some(AclProtocol::Icmp), ..PacketMatch::default() };
    let stateful = at("a", Acl { matches: related, ..acl(FromPort, AllowRelated) });
    let drops = at("a", acl(ToPort, Drop));
    let mut model = Model::new(with(three(), &[stateful.clone(), drops.clone()]));
    assert!(passes(&mut model, "a", &udp((1, 2), (5, 6))));
    assert!(passes(&mut model, "b", &udp((2, 1), (6, 5))));
    let allows = Acl { priority: 1, ..at("a", acl(FromPort, Allow)) };
    let mut model = Model::new(with(three(), &[stateful.clone(), drops.clone(), allows]));
    assert!(passes(&mut model, "a", &udp((1, 2), (5, 6))));
    assert_eq!(model.connections(), 0);
    assert!(!passes(&mut model, "b", &udp((2, 1), (6, 5))));
    let mut world = with(three(), &[stateful, drops]);
    world.switches.get_mut("blue").expect("blue").acl_default = AclDefault::Drop;
    let mut model = Model::new(world);
    assert!(!passes(&mut model, "a", &udp((1, 2), (5, 6))));
    assert_eq!(model.connections(), 0);
}

#[test]
fn what_is_dropped_is_not_remembered() {
    let mut model = Model::new(with(guarded(), &[at("a", Acl { priority: 900, ..acl(FromPort, Drop) })]));
    assert!(!passes(&mut model, "a", &udp((1, 2), (5, 6))));
    assert_eq!(model.connections(), 0);
    model.apply(|world| drop(world.acls.remove("acl2")));
    assert!(!passes(&mut model, "b", &udp((2, 1), (6, 5))));
}

#[test]
fn what_is_dropped_later_on_its_way_is_remembered() {
    let mut world = guarded();
    world.ports.insert("b".into(), secured("blue", 2, &[ipv4(9).into()]));
    world.acls.insert("b".into(), at("b", acl(ToPort, AllowRelated)));
    let mut model = Model::new(world);
    assert!(!passes(&mut model, "a", &udp((1, 2), (5, 6))), "no address of `b`");
    assert_eq!(model.connections(), 2, "that of `a`, and that of `b` before its port security");
}

#[test]
fn what_port_security_drops_begins_nothing() {
    let mut world = guarded();
    world.ports.insert("a".into(), secured("blue", 1, &[ipv4(9).into()]));
    let mut model = Model::new(world);
    assert!(!passes(&mut model, "a", &udp((1, 2), (5, 6))));
    assert_eq!(model.connections(), 0);
}

#[test]
fn an_edit_that_forbids_a_connection_cuts_its_replies_and_another_does_not() {
    let of_port = |port| PacketMatch {
        protocol: Some(AclProtocol::Number(UDP)),
        destination_ports: Some((port, port)),
        ..PacketMatch::default()
    };
    let (first, reply) = (udp((1, 2), (5, 6)), udp((2, 1), (6, 5)));
    for (edit, is_cut) in [
        (at("a", Acl { priority: 900, matches: of_port(6), ..acl(FromPort, Drop) }), true),
        (at("a", Acl { priority: 900, matches: of_port(5), ..acl(FromPort, Drop) }), false),
        (at("a", Acl { priority: 900, ..acl(FromPort, Allow) }), false),
        (at("a", Acl { priority: 900, ..acl(ToPort, Drop) }), false),
        (at("b", Acl { priority: 900, ..acl(ToPort, Drop) }), false),
    ] {
        let mut model = Model::new(guarded());
        assert!(passes(&mut model, "a", &first));
        model.apply(|world| drop(world.acls.insert("edit".into(), edit.clone())));
        assert_eq!(passes(&mut model, "b", &reply), !is_cut, "{edit:?}");
        assert_eq!(model.judged().cut, usize::from(is_cut));
        model.apply(|world| drop(world.acls.remove("edit")));
        assert!(passes(&mut model, "b", &reply), "it is known as before");
    }
}

#[test]
fn an_edit_of_a_group_a_label_or_the_default_cuts_too() {
    let (first, reply) = (udp((1, 2), (5, 6)), udp((2, 1), (6, 5)));
    let mut world = with(three(), &[at("a", acl(ToPort, Drop))]);
    world.address_groups.insert("g".into(), vec![net("10.0.0.2/32")]);
    let to = Some(network_spec::Peers::AddressGroup("g".into()));
    world.acls.insert("begin".into(), at("a", Acl { to, ..acl(FromPort, AllowRelated) }));
    world.switches.get_mut("blue").expect("blue").acl_default = AclDefault::Drop;
    world.acls.insert("b".into(), at("b", acl(ToPort, Allow)));
    world.acls.insert("b2".into(), at("b", acl(FromPort, Allow)));
    let mut model = Model::new(world);
    assert!(passes(&mut model, "a", &first) && passes(&mut model, "b", &reply));
    model.apply(|world| world.address_groups.get_mut("g").expect("g").clear());
    assert!(!passes(&mut model, "b", &reply), "the default drops it");
    model.apply(|world| world.switches.get_mut("blue").expect("blue").acl_default = AclDefault::Allow);
    assert!(passes(&mut model, "b", &reply), "the default allows it");
}

#[test]
fn the_further_packets_of_the_first_direction_ask_again() {
    let mut model = Model::new(guarded());
    assert!(passes(&mut model, "a", &segment((1, 2), (5, 80), 2)));
    model.apply(|world| {
        let edit = at("a", Acl { priority: 900, ..acl(FromPort, Drop) });
        world.acls.insert("edit".into(), edit);
    });
    assert!(!passes(&mut model, "a", &segment((1, 2), (5, 80), 0x10)));
}

#[test]
fn errors_about_a_known_connection_pass_and_others_do_not() {
    for first in [udp((1, 2), (5, 6)), segment((1, 2), (5, 80), 2), echo((1, 2), 8, 7)] {
        let mut model = Model::new(guarded());
        let error = error_about(&first, (3, 1));
        assert!(!passes(&mut model, "c", &error));
        assert_eq!(model.judged().strays, 1);
        assert!(passes(&mut model, "a", &first));
        assert!(passes(&mut model, "c", &error), "whoever sends it");
        assert_eq!(model.judged().errors, 1);
    }
    let mut model = Model::new(guarded());
    assert!(passes(&mut model, "a", &udp((1, 2), (5, 6))) && passes(&mut model, "b", &udp((2, 1), (6, 5))));
    assert!(passes(&mut model, "a", &error_about(&udp((2, 1), (6, 5)), (1, 2))), "about a reply");
    assert!(!passes(&mut model, "c", &error_about(&udp((1, 2), (5, 7)), (3, 1))), "about something else");
    assert!(!passes(&mut model, "c", &error_about(&udp((2, 1), (6, 5)), (3, 1))), "not to its sender");
}

#[test]
fn errors_of_ipv6_pass_likewise() {
    let (src, dst) = (ipv6(1), ipv6(2));
    let inside = datagram(5, 6, b"said", Endpoints::V6(src, dst));
    let packet = Ipv6::new(src, dst, UDP).packet(&inside);
    let error = icmpv6([&[1, 0, 0, 0, 0, 0, 0, 0][..], &packet].concat(), ipv6(3), src);
    let error = frame(mac(3), mac(1), IPV6, &Ipv6::new(ipv6(3), src, ICMPV6).packet(&error));
    let mut model = Model::new(guarded());
    assert!(!passes(&mut model, "c", &error));
    assert!(passes(&mut model, "a", &frame(mac(1), mac(2), IPV6, &packet)));
    assert!(passes(&mut model, "c", &error));
}

#[test]
fn after_an_edit_an_error_may_be_lost_until_a_packet_of_the_connection_has_passed() {
    let (first, error) = (udp((1, 2), (5, 6)), error_about(&udp((1, 2), (5, 6)), (3, 1)));
    let mut model = Model::new(guarded());
    assert!(passes(&mut model, "a", &first));
    model.apply(|world| {
        drop(world.acls.insert("edit".into(), at("a", Acl { tier: 3, ..acl(ToPort, Allow) })));
    });
    assert_eq!(possibilities(&model, "hv1", "c", &error), [false, true]);
    assert!(passes(&mut model, "a", &first));
    assert_eq!(possibilities(&model, "hv1", "c", &error), [true]);
    model.apply(|world| {
        drop(world.acls.insert("cut".into(), at("a", Acl { priority: 900, ..acl(FromPort, Drop) })));
    });
    assert_eq!(possibilities(&model, "hv1", "c", &error), [false], "the connection is forbidden");
}

#[test]
fn at_a_port_without_state_errors_are_packets_like_others() {
    let mut model = Model::new(with(three(), &[at("c", acl(ToPort, Drop))]));
    assert!(passes(&mut model, "c", &error_about(&udp((1, 2), (5, 6)), (3, 1))));
}

#[test]
fn discovery_and_listeners_of_groups_pass_and_begin_no_connection() {
    let listener = |(src, dst): (u8, u8)| {
        let message = icmpv6([&[131, 0, 0, 0][..], &[0; 20]].concat(), ipv6(src), ipv6(dst));
        frame(mac(src), mac(dst), IPV6, &Ipv6::new(ipv6(src), ipv6(dst), ICMPV6).packet(&message))
    };
    let ask = |(src, dst): (u8, u8)| {
        discovery((mac(src), mac(dst)), (ipv6(src), ipv6(dst)), (136, 0), ipv6(src), &[])
    };
    for bytes in [listener((1, 2)), listener((2, 1)), ask((1, 2)), ask((2, 1))] {
        let mut model = Model::new(guarded());
        let from = if bytes[11] == 1 { "a" } else { "b" };
        assert!(passes(&mut model, from, &bytes));
        assert_eq!(model.connections(), 0);
    }
}

/// An edit of a world.
type Edit = fn(&mut World);

#[test]
fn connections_are_forgotten_when_the_port_goes_moves_or_keeps_none() {
    let (first, reply) = (udp((1, 2), (5, 6)), udp((2, 1), (6, 5)));
    let gone_and_back: [(Edit, Edit); 3] = [
        (
            |world| {
                world.vnics.remove(&("hv1".to_owned(), "a".to_owned()));
            },
            |world| {
                world.vnics.insert(("hv1".into(), "a".into()), 2);
            },
        ),
        (
            |world| {
                world.vnics.insert(("hv2".into(), "a".into()), 2);
            },
            |world| {
                world.vnics.insert(("hv1".into(), "a".into()), 3);
            },
        ),
        (
            |world| drop(world.acls.remove("acl0")),
            |world| drop(world.acls.insert("acl0".into(), at("a", acl(FromPort, AllowRelated)))),
        ),
    ];
    for (gone, back) in gone_and_back {
        let mut model = Model::new(guarded());
        assert!(passes(&mut model, "a", &first));
        model.apply(gone);
        assert_eq!(model.connections(), 0);
        model.apply(back);
        let sent = model.inject(&Tap::vnic("hv2", "b"), &reply);
        assert!(sent.is_empty(), "{sent:x?}");
    }
}

#[test]
fn how_long_a_silent_connection_is_remembered_is_not_said() {
    let mut model = Model::new(guarded());
    assert!(passes(&mut model, "a", &udp((1, 2), (5, 6))));
    model.advance(Duration::from_secs(10));
    assert_eq!(possibilities(&model, "hv2", "b", &udp((2, 1), (6, 5))), [true]);
    model.advance(Duration::from_secs(100));
    let outcomes = model.outcomes(&Tap::vnic("hv2", "b"), &udp((2, 1), (6, 5)));
    assert_eq!(outcomes.len(), 2);
    let united = Model::unite(outcomes.into_iter().map(|(model, _)| model).collect());
    assert_eq!(united.len(), 1, "they differ in what is known alone");
    assert_eq!(possibilities(&united[0], "hv2", "b", &udp((2, 1), (6, 5))), [false, true]);
}

#[test]
fn a_damaged_packet_may_be_dropped() {
    let mut model = Model::new(guarded());
    let mut bytes = segment((1, 2), (5, 80), 2);
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    assert_eq!(possibilities(&model, "hv1", "a", &bytes), [false, true]);
    // Nor does anybody answer who was not asked.
    assert_eq!(possibilities(&model, "hv1", "a", &segment((1, 2), (5, 80), 0x12)), [false, true]);
    assert_eq!(possibilities(&model, "hv1", "a", &echo((1, 2), 0, 7)), [false, true]);
    assert!(passes(&mut model, "a", &segment((1, 2), (5, 80), 2)));
}

/// The fragments of a datagram of 3,000 bytes.
pub(super) fn fragments((src, dst): (u8, u8), ports: (u16, u16)) -> Vec<Vec<u8>> {
    const PART: usize = 1448;
    let whole = datagram(ports.0, ports.1, &[7; 2992], Endpoints::V4(ipv4(src), ipv4(dst)));
    let count = whole.len().div_ceil(PART);
    let part = |(number, part): (usize, &[u8])| {
        let more = if number + 1 < count { 0x2000 } else { 0 };
        let fragment = (number * PART / 8) as u16 | more;
        let packet = Ipv4 { fragment, identification: 77, ..Ipv4::new(ipv4(src), ipv4(dst), UDP) };
        frame(mac(src), mac(dst), IPV4, &packet.packet(part))
    };
    whole.chunks(PART).enumerate().map(part).collect()
}

#[test]
fn fragments_share_the_fate_of_their_datagram_at_a_stateful_port() {
    let mut model = Model::new(guarded());
    let parts = fragments((1, 2), (5, 6));
    assert!(send(&mut model, "a", &parts[2]).is_empty());
    assert_eq!(model.judged().waiting, 1);
    assert!(send(&mut model, "a", &parts[0]).is_empty());
    let mut out = send_any(&mut model, "a", &parts[1]);
    out.sort();
    let mut wanted: Vec<(String, Vec<u8>)> = parts.iter().map(|part| ("b".into(), part.clone())).collect();
    wanted.sort();
    assert_eq!(out, wanted);
    assert_eq!(model.connections(), 1);
    assert!(passes(&mut model, "b", &udp((2, 1), (6, 5))), "the answer to the datagram");
    let stray = fragments((2, 1), (6, 4));
    assert!(stray.iter().all(|part| !passes(&mut model, "b", part)));
}

#[test]
fn at_a_port_without_state_fragments_show_no_ports() {
    let of_port = PacketMatch {
        protocol: Some(AclProtocol::Number(UDP)),
        destination_ports: Some((6, 6)),
        ..PacketMatch::default()
    };
    let mut model = Model::new(with(three(), &[at("b", Acl { matches: of_port, ..acl(ToPort, Drop) })]));
    let parts = fragments((1, 2), (5, 6));
    let passed: Vec<bool> = parts.iter().map(|part| passes(&mut model, "a", part)).collect();
    assert_eq!(passed, [true, true, true]);
}

#[test]
fn p2_a_port_that_becomes_another_knows_no_connection_of_the_old_one() {
    let becomes = |change: &dyn Fn(&mut World)| {
        let mut model = Model::new(guarded());
        model.apply(|world| drop(world.switches.insert("red".into(), network_spec::Switch::default())));
        assert!(passes(&mut model, "a", &udp((1, 2), (5, 6))));
        assert!(passes(&mut model, "b", &udp((2, 1), (6, 5))), "what was asked is answered");
        model.apply(|world| change(world));
        // Whoever has the address of `b` there.
        model.apply(|world| {
            let switch = world.ports["a"].switch.clone();
            world.ports.get_mut("b").expect("it is there").switch = switch;
        });
        passes(&mut model, "b", &udp((2, 1), (6, 5)))
    };
    assert!(becomes(&|_| {}), "nothing has changed");
    let port = |world: &mut World, change: &dyn Fn(&mut network_spec::Port)| {
        change(world.ports.get_mut("a").expect("it is there"));
    };
    assert!(becomes(&|world| port(world, &|port| port.unknown_addresses = true)), "it is the same port");
    assert!(!becomes(&|world| port(world, &|port| port.switch = "red".into())));
    let tenant = |world: &mut World| {
        let switch = world.ports["a"].switch.clone();
        world.switches.get_mut(&switch).expect("it is there").tenant = "other".into();
    };
    assert!(!becomes(&tenant), "its switch belongs to another");
    let trunk = |world: &mut World| {
        world.vnics.insert(("hv1".into(), "trunk".into()), 1);
        let switch = world.ports["a"].switch.clone();
        world.ports.insert("trunk".into(), network_spec::Port { switch, ..network_spec::Port::default() });
        port(world, &|port| port.parent = Some(("trunk".into(), 5)));
    };
    assert!(!becomes(&trunk), "it is another machine's");
}
