//! The matches of a packet filter admit exactly the packets that it means.
//!
//! Filters and packets are random. A predicate over the packet as it was built says whether the filter means it; the
//! simulator, which is checked against Open vSwitch, says which matches the packet's frame satisfies.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use flow_simulator::Packet;
use frame_builder::{
    Arp, Endpoints, ICMP, ICMPV6, Ipv4, Ipv6, Mac, TCP, UDP, arp, ethernet, icmp, icmpv6, tagged,
};
use openflow_rs::{Match, PortNo};
use packet_filter::PacketFilter;
use test_random::Random;

pub(crate) const SCTP: u8 = 132;

/// A packet before it is bytes.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) from: Mac,
    pub(crate) vlan: Option<u16>,
    pub(crate) inside: Inside,
}

#[derive(Debug)]
pub(crate) enum Inside {
    /// With its operation.
    Arp(u16),
    Ip(Ip),
    /// Of a type that nobody reads.
    Other,
}

#[derive(Clone, Debug)]
pub(crate) struct Ip {
    pub(crate) src: IpAddr,
    pub(crate) dst: IpAddr,
    pub(crate) protocol: u8,
    pub(crate) ttl: u8,
    pub(crate) fragment: Fragment,
    /// Ports, or type and code of ICMP.
    pub(crate) numbers: (u16, u16),
    /// Of TCP: 2 is SYN, 16 ACK.
    pub(crate) flags: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fragment {
    No,
    First,
    Later,
}

/// What a filter says of one field.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Say {
    Protocol(&'static str),
    Src(IpAddr, u8),
    Dst(IpAddr, u8),
    TpSrc(u16, u16),
    TpDst(u16, u16),
    IcmpType(u16),
    IcmpCode(u16),
    Ttl(u8),
    Fragment(&'static str),
    /// The flags that are set, and those that are not.
    Flags(u8, u8),
    EthSrc(Mac),
    EthType(u16),
    Vlan(u16),
    ArpOp(u16),
}

const ADDRESSES: [&str; 6] = ["10.0.0.1", "10.0.0.2", "10.0.9.7", "fd00::1", "fd00::2", "fd00:0:0:9::7"];

fn address(random: &mut Random) -> IpAddr {
    random.pick(&ADDRESSES).parse().expect("an address")
}

fn mac(random: &mut Random) -> Mac {
    [2, 0, 0, 0, 0, random.below(2) as u8]
}

pub(crate) fn sent(random: &mut Random) -> Sent {
    let inside = match random.below(10) {
        0 => Inside::Arp(1 + random.below(2) as u16),
        1 => Inside::Other,
        _ => Inside::Ip(ip(random)),
    };
    let vlan = random.chance(30).then(|| random.below(3) as u16);
    Sent { from: mac(random), vlan, inside }
}

fn ip(random: &mut Random) -> Ip {
    let src = address(random);
    let dst = loop {
        let dst = address(random);
        if dst.is_ipv4() == src.is_ipv4() {
            break dst;
        }
    };
    let protocol = *random.pick(&[TCP, TCP, TCP, UDP, UDP, SCTP, ICMP, ICMP, ICMPV6, ICMPV6, 47]);
    let port = |random: &mut Random| *random.pick(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 79, 80, 81, 65535]);
    let numbers = match protocol {
        ICMP => (*random.pick(&[0, 8]), 0),
        ICMPV6 => (*random.pick(&[1, 128, 8]), random.below(2) as u16),
        _ => (port(random), port(random)),
    };
    let fragment = match (src, random.below(8)) {
        (IpAddr::V4(_), 0) => Fragment::First,
        (IpAddr::V4(_), 1) => Fragment::Later,
        _ => Fragment::No,
    };
    Ip {
        src,
        dst,
        protocol,
        ttl: *random.pick(&[1, 64]),
        fragment,
        numbers,
        flags: *random.pick(&[2, 16, 18]),
    }
}

pub(crate) fn frame(sent: &Sent) -> Vec<u8> {
    let (kind, payload) = match &sent.inside {
        Inside::Arp(operation) => {
            let sender = (sent.from, Ipv4Addr::new(10, 0, 0, 1));
            (0x0806, arp(Arp { operation: *operation, sender, target: sender }))
        }
        Inside::Other => (0x88cc, vec![7; 40]),
        Inside::Ip(ip) => packet(ip),
    };
    let frame = ethernet([2, 0, 0, 0, 0, 9], sent.from, kind, &payload);
    match sent.vlan {
        Some(id) => tagged(&frame, 0x8100, id),
        None => frame,
    }
}

/// The Ethernet type of an IP packet, and its bytes.
pub(crate) fn packet(ip: &Ip) -> (u16, Vec<u8>) {
    let endpoints = match (ip.src, ip.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => Endpoints::V4(src, dst),
        (IpAddr::V6(src), IpAddr::V6(dst)) => Endpoints::V6(src, dst),
        other => panic!("{other:?} are of two versions"),
    };
    let (from, to) = ip.numbers;
    let message = vec![from as u8, to as u8, 0, 0, 0, 1, 0, 1];
    let payload = match (ip.protocol, ip.src, ip.dst) {
        (TCP, ..) => frame_builder::tcp(from, to, ip.flags, &[], endpoints),
        (UDP, ..) => frame_builder::udp(from, to, &[5; 8], endpoints),
        (ICMP, ..) => icmp(from as u8, &[0, 1, 0, 1]),
        (ICMPV6, IpAddr::V6(src), IpAddr::V6(dst)) => icmpv6(message, src, dst),
        (ICMPV6, ..) => message,
        _ => [&from.to_be_bytes()[..], &to.to_be_bytes(), &[0; 12]].concat(),
    };
    match (ip.src, ip.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let fragment = match ip.fragment {
                Fragment::No => 0,
                Fragment::First => 0x2000,
                Fragment::Later => 0x2003,
            };
            let header = Ipv4 { fragment, ttl: ip.ttl, ..Ipv4::new(src, dst, ip.protocol) };
            (0x0800, header.packet(&payload))
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            (0x86dd, Ipv6 { hops: ip.ttl, ..Ipv6::new(src, dst, ip.protocol) }.packet(&payload))
        }
        other => panic!("{other:?} are of two versions"),
    }
}

/// What a filter says, each field at most once.
pub(crate) fn says(random: &mut Random) -> Vec<Say> {
    let mut says = match random.below(4) {
        0 => {
            let protocol = *random.pick(&["tcp", "6", "udp", "17", "sctp"]);
            vec![Say::Protocol(protocol), ports(random, Say::TpSrc), ports(random, Say::TpDst)]
        }
        1 => {
            let protocol = *random.pick(&["icmp", "icmp", "icmp6", "1", "58"]);
            let kind = *random.pick(&[0, 8, 128]);
            vec![Say::Protocol(protocol), Say::IcmpType(kind), Say::IcmpCode(random.below(2) as u16)]
        }
        2 => vec![
            Say::Protocol("tcp"),
            ports(random, Say::TpDst),
            *random.pick(&[Say::Flags(2, 16), Say::Flags(16, 0)]),
        ],
        _ => {
            let protocol = *random.pick(&["tcp", "47", "icmp"]);
            vec![Say::Protocol(protocol), Say::IcmpType(8)]
        }
    };
    // The protocol stays, mostly.
    says.retain(|say| random.chance(if matches!(say, Say::Protocol(_)) { 90 } else { 60 }));
    let (src, dst) = (net(random), net(random));
    let fragments = *random.pick(&["no", "yes", "first", "later", "not_later"]);
    let more = [
        Say::Src(src.0, src.1),
        Say::Dst(dst.0, dst.1),
        Say::Ttl(*random.pick(&[1, 64])),
        Say::Fragment(fragments),
        Say::EthSrc(mac(random)),
        Say::EthType(*random.pick(&[0x0800, 0x86dd, 0x0806])),
        Say::Vlan(random.below(3) as u16),
        Say::ArpOp(1),
    ];
    says.extend(more.into_iter().filter(|_| random.chance(12)));
    random.shuffle(&mut says);
    says
}

fn ports(random: &mut Random, say: fn(u16, u16) -> Say) -> Say {
    match random.below(6) {
        0 => say(80, 80),
        1 => say(0, 65535),
        2 => say(79, 65535),
        _ => {
            let (a, b) = (random.below(10) as u16, random.below(10) as u16);
            say(a.min(b), a.max(b))
        }
    }
}

fn net(random: &mut Random) -> (IpAddr, u8) {
    let nets = ["10.0.0.0/24", "10.0.0.1/32", "0.0.0.0/0", "fd00::/64", "fd00::1/128", "::/0", "10.0.9.0/25"];
    let (ip, length) = random.pick(&nets).split_once('/').expect("a prefix");
    (ip.parse().expect("an address"), length.parse().expect("a length"))
}

/// The filter's text.
pub(crate) fn text(says: &[Say]) -> String {
    let hex = |mac: &Mac| mac.map(|byte| format!("{byte:02x}")).join(":");
    let texts = says.iter().map(|say| match say {
        Say::Protocol(name) => format!("ip_proto={name}"),
        Say::Src(ip, length) => format!("ip_src={ip}/{length}"),
        Say::Dst(ip, length) => format!("ip_dst={ip}/{length}"),
        Say::TpSrc(first, last) => format!("tp_src={first}-{last}"),
        Say::TpDst(first, last) => format!("tp_dst={first}-{last}"),
        Say::IcmpType(kind) => format!("icmp_type={kind}"),
        Say::IcmpCode(code) => format!("icmp_code={code}"),
        Say::Ttl(ttl) => format!("nw_ttl={ttl}"),
        Say::Fragment(which) => format!("ip_frag={which}"),
        Say::Flags(2, 16) => "tcp_flags=+syn-ack".to_owned(),
        Say::Flags(..) => "tcp_flags=+ack".to_owned(),
        Say::EthSrc(mac) => format!("eth_src={}", hex(mac)),
        Say::EthType(kind) => format!("eth_type={kind:#x}"),
        Say::Vlan(id) => format!("dl_vlan={id}"),
        Say::ArpOp(operation) => format!("arp_op={operation}"),
    });
    texts.collect::<Vec<_>>().join(",")
}

/// Whether a packet has the field with the value.
pub(crate) fn holds(say: &Say, sent: &Sent) -> bool {
    let ip = match &sent.inside {
        Inside::Ip(ip) => Some(ip),
        _ => None,
    };
    // The transport header of a fragment after the first counts as zeros.
    let numbers = |ip: &Ip| if ip.fragment == Fragment::Later { (0, 0) } else { ip.numbers };
    let is_icmp = |ip: &Ip| ip.protocol == if ip.src.is_ipv4() { ICMP } else { ICMPV6 };
    let has_ports = |ip: &Ip| [TCP, UDP, SCTP].contains(&ip.protocol);
    match *say {
        Say::Protocol("tcp") => ip.is_some_and(|ip| ip.protocol == TCP),
        Say::Protocol("udp") => ip.is_some_and(|ip| ip.protocol == UDP),
        Say::Protocol("sctp") => ip.is_some_and(|ip| ip.protocol == SCTP),
        Say::Protocol("icmp") => ip.is_some_and(is_icmp),
        Say::Protocol("icmp6") => ip.is_some_and(|ip| ip.src.is_ipv6() && ip.protocol == ICMPV6),
        Say::Protocol(number) => ip.is_some_and(|ip| ip.protocol.to_string() == number),
        Say::Src(net, length) => ip.is_some_and(|ip| is_in(ip.src, net, length)),
        Say::Dst(net, length) => ip.is_some_and(|ip| is_in(ip.dst, net, length)),
        Say::TpSrc(first, last) => {
            ip.is_some_and(|ip| has_ports(ip) && (first..=last).contains(&numbers(ip).0))
        }
        Say::TpDst(first, last) => {
            ip.is_some_and(|ip| has_ports(ip) && (first..=last).contains(&numbers(ip).1))
        }
        Say::IcmpType(kind) => ip.is_some_and(|ip| is_icmp(ip) && numbers(ip).0 == kind),
        Say::IcmpCode(code) => ip.is_some_and(|ip| is_icmp(ip) && numbers(ip).1 == code),
        Say::Ttl(ttl) => ip.is_some_and(|ip| ip.ttl == ttl),
        Say::Fragment(which) => ip.is_some_and(|ip| match which {
            "no" => ip.fragment == Fragment::No,
            "yes" => ip.fragment != Fragment::No,
            "first" => ip.fragment == Fragment::First,
            "later" => ip.fragment == Fragment::Later,
            _ => ip.fragment != Fragment::Later,
        }),
        Say::Flags(set, clear) => ip.is_some_and(|ip| {
            let flags = if ip.fragment == Fragment::Later { 0 } else { ip.flags };
            ip.protocol == TCP && flags & set == set && flags & clear == 0
        }),
        Say::EthSrc(mac) => sent.from == mac,
        Say::EthType(kind) => {
            kind == match &sent.inside {
                Inside::Arp(_) => 0x0806,
                Inside::Other => 0x88cc,
                Inside::Ip(ip) if ip.src.is_ipv4() => 0x0800,
                Inside::Ip(_) => 0x86dd,
            }
        }
        Say::Vlan(id) => sent.vlan == Some(id),
        Say::ArpOp(operation) => matches!(sent.inside, Inside::Arp(own) if own == operation),
    }
}

fn is_in(ip: IpAddr, net: IpAddr, length: u8) -> bool {
    let differ = |a: u128, b: u128, width: u32| (a ^ b).checked_shr(width - u32::from(length)).unwrap_or(0);
    let six = |ip: Ipv6Addr| u128::from(ip);
    match (ip, net) {
        (IpAddr::V4(ip), IpAddr::V4(net)) => differ(u32::from(ip).into(), u32::from(net).into(), 32) == 0,
        (IpAddr::V6(ip), IpAddr::V6(net)) => differ(six(ip), six(net), 128) == 0,
        _ => false,
    }
}

/// Filters and packets of a run.
#[derive(Default)]
struct Counts {
    filters: u64,
    refused: u64,
    meant: u64,
    others: u64,
}

fn check(seed: u64, counts: &mut Counts) {
    let mut random = Random::new(seed);
    for _ in 0..20 {
        let says = says(&mut random);
        let text = text(&says);
        let filter = text.parse::<PacketFilter>();
        // A field whose protocol is open, or that the switch refuses to look at in later fragments, is refused for its own sake.
        let later = says.iter().any(|say| matches!(say, Say::Fragment("later")));
        let open = !says.iter().any(|say| matches!(say, Say::Protocol(_)));
        let matches: Vec<Match> = match &filter {
            Ok(filter) => filter.matches(),
            Err(_) if later || open => continue,
            // Nothing but a contradiction is refused: no packet can have all fields.
            Err(_) => Vec::new(),
        };
        *if filter.is_ok() { &mut counts.filters } else { &mut counts.refused } += 1;
        for matches in &matches {
            assert_eq!(matches.validate(), Ok(()), "seed {seed}: {text}: {matches}");
        }
        for _ in 0..100 {
            let sent = sent(&mut random);
            let packet = Packet::new(frame(&sent), PortNo(1));
            let is_meant = says.iter().all(|say| holds(say, &sent));
            let admitted = matches.iter().filter(|matches| packet.key().meets_match(matches)).count();
            assert_eq!(admitted, usize::from(is_meant), "seed {seed}: {text}: {matches:?}: {sent:?}");
            *if is_meant { &mut counts.meant } else { &mut counts.others } += 1;
        }
    }
}

#[test]
fn the_matches_of_a_filter_admit_exactly_the_packets_that_it_means() {
    let mut counts = Counts::default();
    for seed in test_random::seeds!("the_matches_of_a_filter_admit_exactly_the_packets_that_it_means", 100) {
        check(seed, &mut counts);
    }
    let Counts { filters, refused, meant, others } = counts;
    println!("{filters} filters, {refused} contradictions; {meant} packets that they mean, {others} others");
    assert!(refused > 0 && meant > filters && others > filters, "both sides are met");
}
