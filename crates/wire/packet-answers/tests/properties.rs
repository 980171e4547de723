//! What holds for the answers to all packets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use frame_builder::{
    Endpoints, ICMP, ICMPV6, IPV4, IPV6, Ipv4, Ipv6, TCP, UDP, checksum, ethernet, icmp, tcp, udp,
};
use packet_answers::{Address, Answered, Instruction, Reason, Receiver, Silence, answer_error as answer};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

pub(crate) fn mac() -> impl Strategy<Value = [u8; 6]> {
    any::<[u8; 5]>().prop_map(|[a, b, c, d, e]| [2, a, b, c, d, e])
}

/// A packet that is mostly in order: one protocol in four, any addresses.
pub(crate) fn frames() -> impl Strategy<Value = Vec<u8>> {
    let payload = vec(any::<u8>(), 0..1600);
    let addresses = (any::<u32>(), any::<u32>(), any::<u128>(), any::<u128>());
    (mac(), mac(), any::<bool>(), 0..4_u8, addresses, any::<[u8; 4]>(), payload).prop_map(
        |(to_mac, from_mac, is_ipv4, protocol, (from4, to4, from6, to6), bits, payload)| {
            let (from4, to4) = (Ipv4Addr::from(from4), Ipv4Addr::from(to4));
            let (from6, to6) = (Ipv6Addr::from(from6 >> 3 | 1 << 125), Ipv6Addr::from(to6 >> 3 | 1 << 125));
            let ends = if is_ipv4 { Endpoints::V4(from4, to4) } else { Endpoints::V6(from6, to6) };
            let (protocol, inside) = match protocol {
                0 => (TCP, tcp(1000, 2000, bits[0], &payload, ends)),
                1 => (UDP, udp(1000, 2000, &payload, ends)),
                2 if is_ipv4 => (ICMP, icmp(bits[0] & 15, &payload)),
                2 => (ICMPV6, [&bits[..], &payload].concat()),
                _ => (bits[1], payload),
            };
            let (kind, packet) = if is_ipv4 {
                let header =
                    Ipv4 { fragment: u16::from(bits[2] & 0x20) << 8, ..Ipv4::new(from4, to4, protocol) };
                (IPV4, header.packet(&inside))
            } else {
                (IPV6, Ipv6::new(from6, to6, protocol).packet(&inside))
            };
            ethernet(to_mac, from_mac, kind, &packet)
        },
    )
}

pub(crate) fn own() -> impl Strategy<Value = Vec<Address>> {
    let ipv4 = (any::<u32>(), 0..=32_u8).prop_map(|(bits, prefix)| (IpAddr::V4(bits.into()), prefix));
    let ipv6 = (any::<u128>(), 0..=128_u8).prop_map(|(bits, prefix)| (IpAddr::V6(bits.into()), prefix));
    vec(prop_oneof![ipv4, ipv6].prop_map(|(address, prefix)| Address { address, prefix }), 0..5)
}

fn reason() -> impl Strategy<Value = Reason> {
    select(&Reason::ALL[..])
}

/// Checks the checksums of an answer, and returns its IP packet's source and destination.
pub(crate) fn verified(frame: &[u8]) -> (IpAddr, IpAddr) {
    let packet = &frame[14..];
    if frame[12..14] == IPV4.to_be_bytes() {
        assert_eq!(checksum(&[&packet[..20]]), 0, "the header");
        assert_eq!(usize::from(u16::from_be_bytes([packet[2], packet[3]])), packet.len());
        let (from, to) = (&packet[12..16], &packet[16..20]);
        let inside = &packet[20..];
        let pseudo = [from, to, &[0, packet[9]], &(inside.len() as u16).to_be_bytes()].concat();
        let parts: &[&[u8]] = if packet[9] == ICMP { &[inside] } else { &[&pseudo, inside] };
        assert_eq!(checksum(parts), 0, "the payload");
        (<[u8; 4]>::try_from(from).unwrap().into(), <[u8; 4]>::try_from(to).unwrap().into())
    } else {
        assert_eq!(usize::from(u16::from_be_bytes([packet[4], packet[5]])), packet.len() - 40);
        let (from, to) = (&packet[8..24], &packet[24..40]);
        let inside = &packet[40..];
        let pseudo = [from, to, &(inside.len() as u32).to_be_bytes(), &[0, 0, 0, packet[6]]].concat();
        assert_eq!(checksum(&[&pseudo, inside]), 0, "the payload");
        (<[u8; 16]>::try_from(from).unwrap().into(), <[u8; 16]>::try_from(to).unwrap().into())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn an_answer_is_in_order_bounded_and_for_the_sender(
        frame in frames(), reason in reason(), mtu: u32, own in own()
    ) {
        let Ok(got) = answer(&frame, reason, mtu, &own) else { return Ok(()) };
        let (from, to) = verified(&got.frame);
        prop_assert_eq!(Some(Receiver::Ip(to)), got.to);
        prop_assert_eq!(Answered::Error(reason), got.kind);
        prop_assert_eq!(&got.frame[..12], &[&frame[6..12], &frame[..6]].concat()[..]);
        let longest = if from.is_ipv4() { 576 } else { 1280 };
        prop_assert!(got.frame.len() <= 14 + longest);
        prop_assert_ne!(from, to);
    }

    #[test]
    fn nobody_answers_an_answer(frame in frames(), reason in reason(), then in reason(), own in own()) {
        let Ok(first) = answer(&frame, reason, 0, &own) else { return Ok(()) };
        let second = answer(&first.frame, then, 0, &own);
        // A reset may expire on its way, as any segment.
        let may = matches!(then, Reason::TimeExceeded | Reason::NoRoute | Reason::HostUnreachable | Reason::TooBig);
        let is_reset = first.frame[if frame[12] == 8 { 23 } else { 20 }] == TCP;
        prop_assert!(second.is_err() || (is_reset && may), "{:?}", second);
    }

    #[test]
    fn any_bytes_have_an_answer_or_a_reason_for_none(bytes in vec(any::<u8>(), 0..200), reason in reason(), own in own()) {
        let _ = answer(&bytes, reason, 0, &own);
        let _ = Instruction::decode(&bytes);
    }

    #[test]
    fn a_damaged_or_cut_packet_does_not_end_the_process(
        frame in frames(), reason in reason(), own in own(), damage in vec((any::<usize>(), any::<u8>()), 0..8), cut: usize
    ) {
        let mut frame = frame;
        for (at, byte) in damage {
            let at = at % frame.len().min(100);
            frame[at] = byte;
        }
        frame.truncate(cut % (frame.len() + 1));
        if let Ok(answer) = answer(&frame, reason, 0, &own) {
            verified(&answer.frame);
        }
    }
}

#[test]
fn each_count_has_a_name_of_its_own() {
    let silences = Silence::ALL.iter().map(|silence| silence.name());
    let names: std::collections::BTreeSet<&str> =
        silences.chain(Answered::ALL.iter().map(|kind| kind.name())).collect();
    assert_eq!(names.len(), Silence::ALL.len() + Answered::ALL.len());
}
