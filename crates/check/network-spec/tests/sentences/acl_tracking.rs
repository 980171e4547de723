//! What belongs to a connection, and what may begin one: frames for groups, ICMP, fragments and SCTP.

use std::time::Duration;

use frame_builder::{Endpoints, ICMP, ICMPV6, IPV6, Ipv6, TCP, checksum, icmp, icmpv6, tcp};
use network_spec::{Acl, AclProtocol, Model, PacketMatch, Tap, World};

use crate::sentences::acl_states::{echo, error_of, fragments, guarded, passes, possibilities};
use crate::sentences::acls::{Allow, AllowRelated, Drop, FromPort, ToPort, acl, at, ip, three, udp, with};
use crate::sentences::frames::{frame, ipv4, ipv6, mac};
use crate::sentences::worlds::send_any;

const GROUP: [u8; 6] = [1, 0, 0x5e, 0, 0, 5];
const SCTP: u8 = 132;

/// The same packet, sent to a group.
fn to_group(bytes: &[u8]) -> Vec<u8> {
    [&GROUP, &bytes[6..]].concat()
}

/// Whether a frame reaches a port.
fn reaches(model: &mut Model, from: &str, bytes: &[u8], to: &str) -> bool {
    send_any(model, from, bytes).iter().any(|(port, _)| port == to)
}

/// Whether a frame from `b` reaches `a`, in all that may become of it.
fn possibilities_at_a(model: &Model, bytes: &[u8]) -> Vec<bool> {
    let outcomes = model.outcomes(&Tap::vnic("hv2", "b"), bytes);
    let at_a = Tap::vnic("hv1", "a");
    let mut all: Vec<bool> =
        outcomes.iter().map(|(_, out)| out.iter().any(|arrival| arrival.at == at_a)).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// An ICMP message with a code.
fn message(ends: (u8, u8), kind: u8, code: u8, identifier: u8) -> Vec<u8> {
    let mut message = icmp(kind, &[0, identifier, 0, 1]);
    message[1] = code;
    message[2..4].fill(0);
    let sum = checksum(&[&message]);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    ip(ends, ICMP, &message)
}

fn message6((src, dst): (u8, u8), kind: u8, code: u8) -> Vec<u8> {
    let message = icmpv6([&[kind, code, 0, 0, 0, 7][..], &[0; 20]].concat(), ipv6(src), ipv6(dst));
    frame(mac(src), mac(dst), IPV6, &Ipv6::new(ipv6(src), ipv6(dst), ICMPV6).packet(&message))
}

#[test]
fn a_frame_for_a_group_begins_no_connection() {
    let mut model = Model::new(guarded());
    assert!(reaches(&mut model, "a", &to_group(&udp((1, 2), (5, 6))), "b"));
    assert_eq!((model.connections(), model.judged().begun), (0, 0));
    assert!(!passes(&mut model, "b", &udp((2, 1), (6, 5))), "a reply to nothing");
    let forbids = at("a", Acl { priority: 900, ..acl(FromPort, Drop) });
    let mut model = Model::new(with(guarded(), &[forbids]));
    assert!(!reaches(&mut model, "a", &to_group(&udp((1, 2), (5, 6))), "b"), "ACLs judge it");
}

#[test]
fn a_frame_for_a_group_may_reply_in_a_connection_and_keeps_it() {
    let (first, reply) = (udp((1, 2), (5, 6)), udp((2, 1), (6, 5)));
    let mut model = Model::new(guarded());
    assert!(!reaches(&mut model, "b", &to_group(&reply), "a"));
    assert!(passes(&mut model, "a", &first));
    for _ in 0..3 {
        model.advance(Duration::from_secs(10));
        assert_eq!(possibilities_at_a(&model, &to_group(&reply)), [true]);
        assert!(reaches(&mut model, "b", &to_group(&reply), "a"));
        assert_eq!(model.judged().replies, 1);
    }
    assert!(!reaches(&mut model, "b", &to_group(&udp((2, 1), (6, 4))), "a"), "not of the connection");
}

#[test]
fn fragments_for_a_group_wait_for_their_datagram() {
    let mut model = Model::new(guarded());
    let parts: Vec<Vec<u8>> = fragments((1, 2), (5, 6)).iter().map(|part| to_group(part)).collect();
    assert!(!reaches(&mut model, "a", &parts[0], "b") && !reaches(&mut model, "a", &parts[1], "b"));
    assert_eq!(model.judged().waiting, 1);
    let out = send_any(&mut model, "a", &parts[2]);
    assert_eq!(out.iter().filter(|(port, _)| port == "b").count(), 3);
    assert_eq!(model.connections(), 0);
}

#[test]
fn a_damaged_frame_for_a_group_is_dropped_at_all_stateful_ports_or_at_none() {
    let stateful = |port| at(port, acl(ToPort, AllowRelated));
    let model = Model::new(with(three(), &[stateful("a"), stateful("c")]));
    let mut bytes = to_group(&echo((2, 9), 8, 7));
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    let outcomes = model.outcomes(&Tap::vnic("hv2", "b"), &bytes);
    let counts: Vec<usize> = outcomes.iter().map(|(_, out)| out.len()).collect();
    assert_eq!(counts, [2, 0]);
}

#[test]
fn queries_of_icmp_are_answered_by_their_identifier() {
    for (kind, answer) in [(8, 0), (13, 14), (15, 16)] {
        let mut model = Model::new(guarded());
        assert!(!possibilities(&model, "hv2", "b", &message((2, 1), kind, 0, 7)).contains(&true));
        assert!(passes(&mut model, "a", &message((1, 2), kind, 0, 7)));
        assert_eq!(model.connections(), 1);
        assert!(!passes(&mut model, "b", &message((2, 1), answer, 0, 8)), "another identifier");
        let other = if answer == 0 { 14 } else { 0 };
        assert!(!passes(&mut model, "b", &message((2, 1), other, 0, 7)), "another query");
        assert!(passes(&mut model, "b", &message((2, 1), answer, 0, 7)));
        let error = error_of(3, &message((1, 2), kind, 0, 7), (3, 1));
        assert!(passes(&mut model, "c", &error));
    }
}

#[test]
fn queries_with_a_code_and_all_other_icmp_are_dropped_at_a_stateful_port() {
    let dropped: Vec<Vec<u8>> = [(8, 1), (0, 1), (13, 1), (9, 0), (10, 0), (17, 0), (40, 0)]
        .into_iter()
        .map(|(kind, code)| message((1, 2), kind, code, 7))
        .chain(
            [(128, 1), (129, 1), (127, 0), (137, 0), (151, 0)]
                .map(|(kind, code)| message6((1, 2), kind, code)),
        )
        .collect();
    for bytes in &dropped {
        assert_eq!(possibilities(&Model::new(guarded()), "hv1", "a", bytes), [false], "{bytes:x?}");
        let group = to_group(bytes);
        assert!(!reaches(&mut Model::new(guarded()), "a", &group, "b"), "{bytes:x?}");
        assert!(passes(&mut Model::new(three()), "a", bytes), "without state: {bytes:x?}");
    }
    for kind in [130, 131, 132, 143] {
        let mut model = Model::new(guarded());
        assert!(passes(&mut model, "a", &message6((1, 2), kind, 0)));
        assert!(passes(&mut model, "b", &message6((2, 1), kind, 0)), "no ACL asks for messages of listeners");
    }
}

#[test]
fn source_quenches_and_redirects_are_errors() {
    for kind in [3, 4, 5, 11, 12] {
        let first = udp((1, 2), (5, 6));
        let mut model = Model::new(guarded());
        let error = error_of(kind, &first, (3, 1));
        assert!(
            !passes(&mut model, "c", &error) && !passes(&mut model, "a", &error_of(kind, &first, (1, 3)))
        );
        assert!(passes(&mut model, "a", &first));
        assert!(passes(&mut model, "c", &error), "{kind}");
        assert_eq!(model.judged().errors, 1);
    }
}

#[test]
fn what_comes_in_fragments_may_begin_a_connection_where_it_is_only_allowed() {
    let allows = at("a", Acl { priority: 900, ..acl(FromPort, Allow) });
    let reply = udp((2, 1), (6, 5));
    let mut model = Model::new(with(guarded(), std::slice::from_ref(&allows)));
    assert!(passes(&mut model, "a", &udp((1, 2), (5, 6))));
    assert_eq!(possibilities(&model, "hv2", "b", &reply), [false]);
    let mut model = Model::new(with(guarded(), &[allows]));
    for part in fragments((1, 2), (5, 6)) {
        send_any(&mut model, "a", &part);
    }
    assert_eq!(model.judged().begun, 0, "nobody knows");
    assert_eq!(possibilities(&model, "hv2", "b", &reply), [false, true]);
    for part in fragments((1, 2), (5, 7)) {
        send_any(&mut model, "a", &to_group(&part));
    }
    assert_eq!(possibilities(&model, "hv2", "b", &udp((2, 1), (7, 5))), [false], "for a group");
}

#[test]
fn a_message_of_a_multicast_listener_in_fragments_may_be_dropped() {
    let whole = message6((1, 2), 131, 0);
    let (header, message) = whole[14..].split_at(40);
    let parts: Vec<Vec<u8>> = [(0_u16, 1_u16), (1, 0)]
        .into_iter()
        .map(|(offset, more)| {
            let part = if more == 1 { &message[..8] } else { &message[8..] };
            let fields =
                [&[ICMPV6, 0][..], &(offset << 3 | more).to_be_bytes(), &[0, 0, 0, 9], part].concat();
            let mut packet = [header, &fields].concat();
            packet[4..6].copy_from_slice(&(fields.len() as u16).to_be_bytes());
            packet[6] = 44;
            frame(mac(1), mac(2), IPV6, &packet)
        })
        .collect();
    let mut model = Model::new(guarded());
    assert!(send_any(&mut model, "a", &parts[0]).is_empty());
    assert_eq!(possibilities(&model, "hv1", "a", &parts[1]), [false, true]);
    assert_eq!(possibilities(&model, "hv1", "a", &whole), [true]);
}

#[test]
fn icmp_of_the_other_version_may_be_dropped_and_an_error_need_not_quote_what_names_no_ends() {
    let other = ip((1, 2), ICMPV6, &[9; 9]);
    assert_eq!(possibilities(&Model::new(guarded()), "hv1", "a", &other), [false, true]);
    let short = ip((1, 2), 47, &[7; 5]);
    let mut model = Model::new(guarded());
    assert!(passes(&mut model, "a", &short));
    assert!(passes(&mut model, "c", &error_of(3, &short, (3, 1))));
}

#[test]
fn a_connection_that_both_ends_begin_may_be_either_and_its_segments_may_be_dropped() {
    let segment = |(src, dst): (u8, u8), ports: (u16, u16), flags| {
        let ends = Endpoints::V4(ipv4(src), ipv4(dst));
        ip((src, dst), TCP, &tcp(ports.0, ports.1, flags, b"", ends))
    };
    let mut model = Model::new(guarded());
    assert!(passes(&mut model, "a", &segment((1, 2), (5, 80), 0x10)));
    assert_eq!(possibilities(&model, "hv2", "b", &segment((2, 1), (80, 5), 0x10)), [true]);
    let begun = segment((2, 1), (80, 5), 2);
    assert_eq!(possibilities(&model, "hv2", "b", &begun), [false, true]);
    assert!(passes(&mut model, "b", &begun));
    assert_eq!(possibilities(&model, "hv1", "a", &segment((1, 2), (5, 80), 0x18)), [false, true]);
}

/// SCTP without anything inside.
fn sctp(ends: (u8, u8), ports: (u16, u16)) -> Vec<u8> {
    ip(ends, SCTP, &[&ports.0.to_be_bytes()[..], &ports.1.to_be_bytes(), &[0; 12]].concat())
}

/// SCTP to a port from `a` is dropped, or allowed where all else is dropped.
fn of_sctp(action: network_spec::AclAction) -> World {
    let matches = PacketMatch {
        protocol: Some(AclProtocol::Number(SCTP)),
        destination_ports: Some((80, 80)),
        ..PacketMatch::default()
    };
    let rest = if action == Drop { AllowRelated } else { Drop };
    let stateful = at("a", Acl { priority: 1, ..acl(ToPort, AllowRelated) });
    let of_port = at("a", Acl { priority: 900, matches, ..acl(FromPort, action) });
    with(three(), &[at("a", Acl { priority: 1, ..acl(FromPort, rest) }), of_port, stateful])
}

#[test]
fn a_stateful_port_may_see_no_ports_of_sctp() {
    for action in [Drop, AllowRelated] {
        let model = Model::new(of_sctp(action));
        assert_eq!(possibilities(&model, "hv1", "a", &sctp((1, 2), (7, 80))), [false, true]);
    }
    // What no port would be allowed is dropped.
    let model = Model::new(of_sctp(AllowRelated));
    assert_eq!(possibilities(&model, "hv1", "a", &sctp((1, 2), (7, 81))), [false]);
    // Replies belong to either connection.
    let mut model =
        Model::new(with(three(), &[at("a", acl(FromPort, AllowRelated)), at("a", acl(ToPort, Drop))]));
    let reply = sctp((2, 1), (80, 7));
    assert_eq!(possibilities(&model, "hv2", "b", &reply), [false]);
    model.inject(&Tap::vnic("hv1", "a"), &sctp((1, 2), (7, 80)));
    assert_eq!(possibilities(&model, "hv2", "b", &reply), [false, true]);
    // Without state, ports are what they are.
    let stateless = PacketMatch {
        protocol: Some(AclProtocol::Number(SCTP)),
        destination_ports: Some((80, 80)),
        ..PacketMatch::default()
    };
    let model = Model::new(with(three(), &[at("a", Acl { matches: stateless, ..acl(FromPort, Drop) })]));
    assert_eq!(possibilities(&model, "hv1", "a", &sctp((1, 2), (7, 80))), [false]);
}
