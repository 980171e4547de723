//! Translated packets, byte by byte, with the addresses of RFC 3022 (2.2): 10.0.0.10 port 3017 is 138.76.28.4 port 1024 to
//! 138.76.29.7. The checksums were computed from scratch by another program, the simulator changes them by differences.

use flow_simulator::{Bridge, Packet};
use openflow_rs::PortNo;

const FLOWS: [&str; 6] = [
    "in_port=1,tcp actions=ct(commit,zone=5,nat(src=138.76.28.4:1024),table=1)",
    "in_port=1,udp actions=ct(commit,zone=5,nat(src=138.76.28.4:1024),table=1)",
    "in_port=1,icmp,icmp_type=8 actions=ct(commit,zone=5,nat(src=138.76.28.4),table=1)",
    "in_port=1,icmp,icmp_type=3 actions=ct(zone=5,nat,table=1)",
    "in_port=2,ip actions=ct(zone=5,nat,table=1)",
    "table=1 actions=IN_PORT",
];

const SYN: &str = "45000028000100004006c9720a00000a8a4c1d070bc90017000003e80000000050021000debd0000";
const SYN_OUTSIDE: &str = "450000280001000040062d2c8a4c1c048a4c1d0704000017000003e800000000500210004a400000";
const SYN_ACK: &str = "450000280001000040062d2c8a4c1d078a4c1c040017040000001388000003e95012100036a70000";
const SYN_ACK_INSIDE: &str =
    "45000028000100004006c9728a4c1d070a00000a00170bc900001388000003e950121000cb240000";
const ERROR: &str = "450000380001000040012e278a4c1c018a4c1c040301f4ff00000000450000280001000040062d2c8a4c1c048a4c1d0704000017000003e8";
const ERROR_INSIDE: &str = "45000038000100004001ca6d8a4c1c010a00000a0301ed360000000045000028000100004006c9720a00000a8a4c1d070bc90017000003e8";
const TOO_BIG: &str = "450000440001000040012e1b8a4c1c018a4c1c040304454200000578450000280001000040062d2c8a4c1c048a4c1d0704000017000003e800000000500210004a400000";
const TOO_BIG_INSIDE: &str = "45000044000100004001ca618a4c1c010a00000a0304a8fb0000057845000028000100004006c9720a00000a8a4c1d070bc90017000003e80000000050021000debd0000";
const OWN_ERROR: &str = "45000038000100004001c9670a00000a8a4c1d070303dd940000000045000028000100004006c9728a4c1d070a00000a00170bc900001388";
const OWN_ERROR_OUTSIDE: &str = "450000380001000040012d218a4c1c048a4c1d070303e55d00000000450000280001000040062d2c8a4c1d078a4c1c040017040000001388";
const QUERY: &str = "4500001d000100004011c9720a00000a8a4c1d070bc900350009000071";
const QUERY_OUTSIDE: &str = "4500001d0001000040112d2c8a4c1c048a4c1d07040000350009000071";
const ECHO: &str = "4500001f000100004001c9800a00000a8a4c1d070800339500070001616263";
const ECHO_OUTSIDE: &str = "4500001f0001000040012d3a8a4c1c048a4c1d070800339500070001616263";
const REPLY: &str = "4500001f0001000040012d3a8a4c1d078a4c1c0400003b9500070001616263";
const REPLY_INSIDE: &str = "4500001f000100004001c9808a4c1d070a00000a00003b9500070001616263";

fn bridge() -> Bridge {
    let mut bridge = Bridge::new([PortNo(1), PortNo(2)]);
    for flow in FLOWS {
        bridge.add_flow(flow.parse().expect("a flow")).expect("an interpreted flow");
    }
    bridge
}

/// What becomes of an IP packet that comes by a port; nothing if it is dropped.
fn becomes(bridge: &mut Bridge, port: u16, packet: &str) -> String {
    let byte = |at: usize| u8::from_str_radix(&packet[at..at + 2], 16).expect("a byte");
    let bytes: Vec<u8> = (0..packet.len()).step_by(2).map(byte).collect();
    let frame = [&[2; 12][..], &[8, 0], &bytes].concat();
    let outcome = bridge.receive(&Packet::new(frame, PortNo(port)));
    let sent = outcome.emitted.first().map_or(&[][..], |one| &one.bytes[14..]);
    sent.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// RFC 3022, 2.2 and 4.1: addresses, ports and the checksums over them.
#[test]
fn a_tcp_connection_has_another_source_outside_and_its_own_inside() {
    let mut bridge = bridge();
    assert_eq!(becomes(&mut bridge, 1, SYN), SYN_OUTSIDE);
    assert_eq!(becomes(&mut bridge, 2, SYN_ACK), SYN_ACK_INSIDE);
    let connection = bridge.connections().next().expect("a connection");
    let outside = "138.76.28.4".parse().expect("an address");
    assert_eq!((connection.reply_from, connection.reply_to), (connection.to, (outside, 1024)));
}

/// RFC 3022, 4.3, and RFC 5508, 4.2: the header of the packet inside, and its ports, are those that the receiver has sent. Routers keep
/// their addresses. The error may end before the checksum of TCP.
#[test]
fn an_error_from_outside_names_the_packet_as_it_was_sent() {
    let mut bridge = bridge();
    becomes(&mut bridge, 1, SYN);
    assert_eq!(becomes(&mut bridge, 2, ERROR), ERROR_INSIDE);
    assert_eq!(becomes(&mut bridge, 2, TOO_BIG), TOO_BIG_INSIDE);
}

/// RFC 5508, 4.2: an error from inside has the address that the outside knows.
#[test]
fn an_error_from_inside_names_the_packet_as_it_was_sent_and_shows_the_outer_address() {
    let mut bridge = bridge();
    becomes(&mut bridge, 1, SYN);
    becomes(&mut bridge, 2, SYN_ACK);
    assert_eq!(becomes(&mut bridge, 1, OWN_ERROR), OWN_ERROR_OUTSIDE);
}

/// RFC 3022, 4.1: a checksum of 0 means that there is none, and stays.
#[test]
fn a_datagram_without_a_checksum_gets_none() {
    assert_eq!(becomes(&mut bridge(), 1, QUERY), QUERY_OUTSIDE);
}

/// Open vSwitch keeps the identifier, although RFC 5508 (3.1) asks for another one where two hosts have the same.
#[test]
fn echoes_keep_their_identifier() {
    let mut bridge = bridge();
    assert_eq!(becomes(&mut bridge, 1, ECHO), ECHO_OUTSIDE);
    assert_eq!(becomes(&mut bridge, 2, REPLY), REPLY_INSIDE);
}

#[test]
fn a_trace_says_what_a_packet_was_and_is_and_when_no_port_is_left() {
    let mut bridge = bridge();
    let frame = |last: u8| {
        let from = [10, 0, 0, last].into();
        let header = frame_builder::Ipv4::new(from, [138, 76, 29, 7].into(), frame_builder::UDP);
        let inside = frame_builder::udp_without_checksum(3017, 53, b"x");
        frame_builder::ethernet([2; 6], [4; 6], frame_builder::IPV4, &header.packet(&inside))
    };
    let text = |bridge: &Bridge, last: u8| -> String {
        let steps = bridge.trace(&Packet::new(frame(last), PortNo(1))).steps;
        steps.iter().map(ToString::to_string).collect()
    };
    let said = text(&bridge, 10);
    let line = "-> translated: 10.0.0.10:3017 > 138.76.29.7:53 is now 138.76.28.4:1024 > 138.76.29.7:53";
    assert!(said.contains(line), "{said}");
    bridge.receive(&Packet::new(frame(10), PortNo(1)));
    let said = text(&bridge, 11);
    let line =
        "-> not translated: other connections have all addresses and ports of nat(src=138.76.28.4:1024)";
    assert!(said.contains(line), "{said}");
    assert!(said.contains("-> tracked in zone 5: +new+trk,"), "{said}");
    // The time of the first one is over, and then its port is free.
    bridge.advance(std::time::Duration::from_mins(1));
    assert!(text(&bridge, 11).contains("is now 138.76.28.4:1024"));
}

/// The trace names the action that aborts the switch.
#[test]
fn a_connection_that_is_translated_to_itself_ends_the_switch_after_its_end() {
    let mut bridge = Bridge::new([PortNo(1), PortNo(2)]);
    for flow in
        ["in_port=1,ip actions=ct(commit,zone=5,nat(src=10.0.0.10))", "in_port=2,ip actions=ct(zone=5,nat)"]
    {
        bridge.add_flow(flow.parse().expect("a flow")).expect("an interpreted flow");
    }
    let segment = |from: u8, flags: u8| {
        let (a, b) = ([10, 0, 0, 10].into(), [138, 76, 29, 7].into());
        let (from, to, ports) = if from == 1 { (a, b, (3017, 23)) } else { (b, a, (23, 3017)) };
        let ends = frame_builder::Endpoints::V4(from, to);
        let inside = frame_builder::tcp(ports.0, ports.1, flags, b"", ends);
        let header = frame_builder::Ipv4::new(from, to, frame_builder::TCP);
        frame_builder::ethernet([2; 6], [4; 6], frame_builder::IPV4, &header.packet(&inside))
    };
    let (syn, rst, syn_ack) = (2, 4, 18);
    for (port, flags) in [(1, syn), (1, rst), (1, syn)] {
        bridge.receive(&Packet::new(segment(1, flags), PortNo(port)));
    }
    let steps = bridge.trace(&Packet::new(segment(2, syn_ack), PortNo(2))).steps;
    let said: String = steps.iter().map(ToString::to_string).collect();
    assert!(said.contains(flow_simulator::trace::ABORTS), "{said}");
}
