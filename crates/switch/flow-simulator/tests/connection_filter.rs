//! The matches of a packet filter at a port that tracks connections admit what it means of the first packet of each
//! connection, and the packets that are not tracked as any port does.
//!
//! Filters and packets are random. Each packet begins a connection in the simulator, which is checked against Open vSwitch;
//! then it comes again, and an answer to it, and an ICMP error about it.

use std::net::IpAddr;

use flow_simulator::{Bridge, Packet};
use frame_builder::{ICMP, ICMPV6, IPV4, IPV6, TCP, UDP, ethernet, icmp, icmpv6};
use openflow_rs::{Field, Match, PortNo};
use packet_filter::PacketFilter;
use test_random::Random;

use crate::packet_filter::{Fragment, Inside, Ip, SCTP, Say, Sent, frame, holds, packet, says, sent, text};

/// `ICMPv6` types that the port does not track.
const UNTRACKED: [u16; 8] = [130, 131, 132, 133, 134, 135, 136, 143];
/// Where packets come from that begin a connection, and those that only pass.
const BEGINS: PortNo = PortNo(1);
const PASSES: PortNo = PortNo(2);
/// Where packets go that are invalid, and those that a filter admits.
const INVALID: PortNo = PortNo(3);
const ADMITTED: PortNo = PortNo(4);

/// A bridge that tracks connections, in the zone of register 0, before it looks at the matches.
fn bridge(matches: &[Match]) -> Bridge {
    let mut bridge = Bridge::new((1..=4).map(PortNo));
    let untracked =
        UNTRACKED.iter().map(|kind| format!("priority=3,icmp6,icmp_type={kind} actions=resubmit(,1)"));
    let ip = ["ip", "ipv6"].into_iter().flat_map(|ip| {
        let zone = "zone=NXM_NX_REG0[0..15]";
        [
            format!("priority=2,in_port={BEGINS},{ip} actions=ct(commit,{zone})"),
            format!("priority=1,in_port={PASSES},{ip} actions=ct({zone},table=1)"),
        ]
    });
    let rest = [
        "priority=0 actions=resubmit(,1)".to_owned(),
        format!("table=1,priority=2,ct_state=+inv+trk actions=output:{INVALID}"),
    ];
    let comma = |text: &str| if text.is_empty() { "" } else { "," };
    let filter = matches.iter().map(|matches| {
        let matches = matches.to_string();
        format!("table=1,priority=1{}{matches} actions=output:{ADMITTED}", comma(&matches))
    });
    for flow in untracked.chain(ip).chain(rest).chain(filter) {
        let flow = flow.parse().unwrap_or_else(|error| panic!("{flow}: {error}"));
        bridge.add_flow(flow).expect("a flow that the simulator knows");
    }
    bridge
}

/// A packet, of which some are not tracked. Fragments have tests of their own.
fn first(random: &mut Random) -> Sent {
    let mut sent = sent(random);
    if let Inside::Ip(ip) = &mut sent.inside {
        ip.fragment = Fragment::No;
        if ip.protocol == ICMPV6 && random.chance(70) {
            ip.numbers.0 = *random.pick(&[128, 128, 130, 135]);
        }
        if ip.protocol == TCP {
            ip.flags = 2;
        }
    }
    sent
}

/// What a connection keeps of its first packet; none if it is not tracked.
fn kept(sent: &Sent) -> Option<Ip> {
    let Inside::Ip(ip) = &sent.inside else { return None };
    let mut kept = ip.clone();
    match ip.protocol {
        ICMPV6 if ip.src.is_ipv6() && UNTRACKED.contains(&ip.numbers.0) => return None,
        // The datapath that the simulator follows keeps no ports of SCTP.
        SCTP => kept.numbers = (0, 0),
        _ => {}
    }
    Some(kept)
}

/// An answer to a packet, with its frame.
fn answer(first: &Sent, ip: &Ip) -> (Sent, Vec<u8>) {
    let numbers = match (ip.protocol, ip.numbers) {
        (ICMP | ICMPV6, (8, code)) => (0, code),
        (ICMP | ICMPV6, (128, code)) => (129, code),
        (TCP | UDP | SCTP, (from, to)) => (to, from),
        (_, numbers) => numbers,
    };
    let answer = Ip { src: ip.dst, dst: ip.src, numbers, flags: 18, ..ip.clone() };
    let answer = Sent { inside: Inside::Ip(answer), ..*first };
    let bytes = frame(&answer);
    (answer, bytes)
}

/// An ICMP error about a packet, with its frame.
fn error(first: &Sent, ip: &Ip) -> (Sent, Vec<u8>) {
    let (_, inside) = packet(ip);
    let rest = [&[0; 4], &inside[..]].concat();
    let (protocol, kind) = if ip.src.is_ipv4() { (ICMP, 3) } else { (ICMPV6, 1) };
    let own = Ip { src: ip.dst, dst: ip.src, protocol, ttl: 64, numbers: (kind, 0), flags: 0, ..ip.clone() };
    let (ethertype, bytes) = match (own.src, own.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let header = frame_builder::Ipv4 { ttl: own.ttl, ..frame_builder::Ipv4::new(src, dst, ICMP) };
            (IPV4, header.packet(&icmp(kind as u8, &rest)))
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let message = [&[kind as u8, 0, 0, 0][..], &rest].concat();
            let header = frame_builder::Ipv6 { hops: own.ttl, ..frame_builder::Ipv6::new(src, dst, ICMPV6) };
            (IPV6, header.packet(&icmpv6(message, src, dst)))
        }
        other => panic!("{other:?} are of two versions"),
    };
    let error = Sent { vlan: None, inside: Inside::Ip(own), ..*first };
    (error, ethernet([2, 0, 0, 0, 0, 9], first.from, ethertype, &bytes))
}

/// Whether a filter means a packet of a connection.
fn is_meant(says: &[Say], own: &Sent, kept: Option<&Ip>) -> bool {
    let original = kept.map(|ip| Sent { inside: Inside::Ip(ip.clone()), ..*own });
    says.iter().all(|say| match say {
        Say::Protocol(_)
        | Say::Src(..)
        | Say::Dst(..)
        | Say::TpSrc(..)
        | Say::TpDst(..)
        | Say::IcmpType(_)
        | Say::IcmpCode(_) => holds(say, original.as_ref().unwrap_or(own)),
        _ => holds(say, own),
    })
}

/// Filters and packets of a run.
#[derive(Default)]
struct Counts {
    filters: u64,
    invalid: u64,
    /// By kind of packet, those that filters do not mean and those that they do: untracked, first, answers, errors.
    packets: [[u64; 2]; 4],
}

fn check_filter(seed: u64, random: &mut Random, counts: &mut Counts) {
    let mut says = says(random);
    for say in &mut says {
        if let Say::IcmpType(kind) = say
            && random.chance(40)
        {
            *kind = *random.pick(&[130, 135]);
        }
    }
    let text = text(&says);
    let Ok(filter) = text.parse::<PacketFilter>() else { return };
    counts.filters += 1;
    let matches = filter.connection_matches();
    assert!(!matches.is_empty(), "seed {seed}: {text}");
    for (place, one) in matches.iter().enumerate() {
        assert_eq!(one.validate(), Ok(()), "seed {seed}: {text}: {one}");
        for other in &matches[..place] {
            assert!(one.and(other).is_err(), "seed {seed}: {text}: a packet can satisfy {one} and {other}");
        }
    }
    let mut bridge = bridge(&matches);
    for zone in 1..=60 {
        let first = first(random);
        let received = |bytes: Vec<u8>, port| Packet::new(bytes, port).with(Field::Reg0, zone);
        bridge.receive(&received(frame(&first), BEGINS));
        let kept = kept(&first);
        let mut packets = Vec::new();
        if let Some(Inside::Ip(ip)) = kept.as_ref().map(|_| &first.inside) {
            packets = vec![(2, answer(&first, ip)), (3, error(&first, ip))];
        }
        let bytes = frame(&first);
        packets.insert(0, (usize::from(kept.is_some()), (first, bytes)));
        for (kind, (own, bytes)) in packets {
            let outcome = bridge.process(&received(bytes, PASSES));
            let ports: Vec<PortNo> = outcome.emitted.iter().map(|emitted| emitted.port).collect();
            if ports == [INVALID] {
                counts.invalid += 1;
                continue;
            }
            let meant = is_meant(&says, &own, kept.as_ref());
            let expected = if meant { vec![ADMITTED] } else { Vec::new() };
            assert_eq!(ports, expected, "seed {seed}: {text}: {matches:?}: {own:?} of {kept:?}");
            counts.packets[kind][usize::from(meant)] += 1;
        }
    }
}

#[test]
fn the_matches_of_a_filter_admit_the_packets_of_the_connections_that_it_means() {
    let mut counts = Counts::default();
    for seed in
        test_random::seeds!("the_matches_of_a_filter_admit_the_packets_of_the_connections_that_it_means", 60)
    {
        let mut random = Random::new(seed);
        for _ in 0..20 {
            check_filter(seed, &mut random, &mut counts);
        }
    }
    let Counts { filters, invalid, packets } = counts;
    println!("{filters} filters; {invalid} invalid packets; others and meant, by kind: {packets:?}");
    assert!(packets.iter().flatten().all(|count| *count > 100), "all are met");
}
