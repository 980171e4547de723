//! What flows say, as bytes and back.

use std::net::{Ipv4Addr, Ipv6Addr};

use openflow_rs::{Actions, Field, Match, Subfield};
use packet_answers::{
    Advertisement, Announcement, Answered, Ask, Check, ErrorAsk, Instruction, Malformed, Operand, Preference,
    Probe, Query, Readiness, Reason, Receiver, Resolution, Silence, Solicitation, Tunnels,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::properties::{frames, mac, own};
use crate::{dhcpv4, dhcpv6, dns};

fn subfield() -> impl Strategy<Value = Subfield> {
    (0..16_u16, 1..=16_u16).prop_map(|(start, bits)| Subfield::new(Field::Reg9, start, bits).unwrap())
}

fn error() -> impl Strategy<Value = Ask> {
    (any::<u16>(), subfield(), own()).prop_map(|(reason, mtu, mut addresses)| {
        // The format has those of IPv4 first.
        addresses.sort_by_key(|own| own.address.is_ipv6());
        Ask::Error(ErrorAsk { reason: Operand::Constant(reason), mtu: Operand::Field(mtu), addresses })
    })
}

pub(crate) fn advertisement() -> impl Strategy<Value = Advertisement> {
    let preference = select(vec![Preference::High, Preference::Medium, Preference::Low]);
    let prefix = prop_oneof![Just(64), 0..=128_u8];
    let prefixes = vec((any::<u128>().prop_map(Into::into), prefix), 0..50);
    let dns = vec(any::<u128>().prop_map(Into::into), 0..90);
    (mac(), any::<[bool; 4]>(), any::<u16>(), preference, any::<u16>(), prefixes, dns).prop_map(
        |(mac, [managed, other, autonomous, periodic], lifetime, preference, mtu, prefixes, dns)| {
            Advertisement {
                mac,
                managed,
                other,
                autonomous,
                lifetime,
                preference,
                mtu,
                prefixes,
                dns,
                periodic,
            }
        },
    )
}

fn announcement() -> impl Strategy<Value = Ask> {
    let ipv4 = vec(any::<u32>().prop_map(Into::into), 0..20);
    let ipv6 = vec(any::<u128>().prop_map(Into::into), 0..20);
    (mac(), any::<bool>(), ipv4, ipv6, vec(any::<u32>(), 0..5)).prop_map(
        |(mac, router, ipv4, ipv6, watch)| Ask::Announcement(Announcement { mac, router, ipv4, ipv6, watch }),
    )
}

fn readiness() -> impl Strategy<Value = Ask> {
    let names = || vec("[a-zé-]{1,9}", 0..3);
    let hold = prop_oneof![Just(Tunnels::All), names().prop_map(Tunnels::These)];
    (hold, names()).prop_map(|(hold, uplinks)| Ask::Ready(Readiness { hold, uplinks }))
}

fn query() -> impl Strategy<Value = Ask> {
    let igmp = proptest::option::of(any::<u32>().prop_map(Into::into));
    (mac(), igmp, any::<bool>(), 1..u16::MAX)
        .prop_map(|(mac, igmp, mld, interval)| Ask::Query(Query { mac, igmp, mld, interval }))
}

fn solicitation() -> impl Strategy<Value = Ask> {
    let ipv4 = (any::<u32>(), any::<u32>())
        .prop_map(|(from, target)| (Ipv4Addr::from(from).into(), Ipv4Addr::from(target).into()));
    let ipv6 = (any::<u128>(), any::<u128>())
        .prop_map(|(from, target)| (Ipv6Addr::from(from).into(), Ipv6Addr::from(target).into()));
    (mac(), prop_oneof![ipv4, ipv6], 1..u16::MAX, vec(any::<u32>(), 0..5)).prop_map(
        |(mac, (from, target), interval, watch)| {
            Ask::Solicitation(Solicitation { mac, from, target, interval, watch })
        },
    )
}

fn resolution() -> impl Strategy<Value = Ask> {
    let from = prop_oneof![
        any::<u32>().prop_map(|from| Ipv4Addr::from(from).into()),
        any::<u128>().prop_map(|from| Ipv6Addr::from(from).into())
    ];
    (mac(), from).prop_map(|(mac, from)| Ask::Resolution(Resolution { mac, from }))
}

fn probe() -> impl Strategy<Value = Ask> {
    let check = prop_oneof![
        (1..=u16::MAX).prop_map(Check::Tcp),
        Just(Check::Icmp),
        (1..=u16::MAX, "/[!-~]{0,40}").prop_map(|(port, path)| Check::Http { port, path })
    ];
    let ends = prop_oneof![
        (0x0a00_0000..0x0b00_0000_u32, 0x0b00_0000..0x0c00_0000_u32)
            .prop_map(|(from, to)| (Ipv4Addr::from(from).into(), Ipv4Addr::from(to).into())),
        (1..1000_u128, 1000..2000_u128)
            .prop_map(|(from, to)| [from, to].map(|low| Ipv6Addr::from((0xfd00 << 112) | low).into()).into())
    ];
    let times = (1..=3600_u16).prop_flat_map(|interval| (Just(interval), 1..=interval));
    ("[!-~]{1,128}", check, ends, (mac(), mac()), times, (1..=u8::MAX, 1..=u8::MAX)).prop_map(
        |(id, check, (from, to), (from_mac, to_mac), (interval, timeout), (failures, successes))| {
            Ask::Probe(Probe {
                id,
                check,
                from,
                from_mac,
                to,
                to_mac,
                interval,
                timeout,
                failures,
                successes,
            })
        },
    )
}

fn ask() -> impl Strategy<Value = Ask> {
    prop_oneof![
        error(),
        advertisement().prop_map(Ask::Advertisement),
        dhcpv4::offer().prop_map(Ask::Dhcpv4),
        dhcpv6::offer().prop_map(Ask::Dhcpv6),
        dns::question().prop_map(Ask::DnsQuestion),
        dns::answer().prop_map(Ask::DnsAnswer),
        announcement(),
        readiness(),
        query(),
        solicitation(),
        probe(),
        Just(Ask::Probed),
        resolution()
    ]
}

fn instruction() -> impl Strategy<Value = Instruction> {
    (ask(), vec(subfield(), 0..4), any::<u8>()).prop_map(|(ask, kept, table)| {
        let actions = format!("set_field:0x{table:x}->metadata,resubmit(,{})", table.min(254));
        Instruction { ask, kept, actions: actions.parse().unwrap() }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn instructions_come_back_as_they_were(instruction in instruction()) {
        let bytes = instruction.encode();
        prop_assert_eq!(Instruction::decode(&bytes), Ok(instruction.clone()));
        let whole = bytes.len() - instruction.actions.list_to_wire().len();
        for length in 0..whole {
            prop_assert!(Instruction::decode(&bytes[..length]).is_err());
        }
    }

    #[test]
    fn bytes_that_are_read_are_written_as_they_were(
        instruction in instruction(), damage in vec((0..80_usize, any::<u8>()), 1..4), tail in vec(any::<u8>(), 0..64)
    ) {
        let mut bytes = instruction.encode();
        bytes.extend(tail);
        for (at, byte) in damage {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        if let Ok(read) = Instruction::decode(&bytes) {
            prop_assert_eq!(Instruction::decode(&read.encode()), Ok(read));
        }
    }

    #[test]
    fn no_packet_ends_the_process(instruction in instruction(), frame in frames(), bytes in vec(any::<u8>(), 0..300)) {
        let _ = instruction.answer(&frame, &Match::any());
        let _ = instruction.answer(&bytes, &Match::any());
    }
}

fn of_reason(reason: Operand) -> Instruction {
    Instruction {
        ask: Ask::Error(ErrorAsk { reason, mtu: Operand::Constant(0), addresses: Vec::new() }),
        kept: vec!["reg3[4..11]".parse().unwrap(), "reg5".parse().unwrap()],
        actions: "resubmit(,27)".parse().unwrap(),
    }
}

#[test]
fn kept_fields_are_set_again_before_the_actions() {
    let metadata: Match = "reg3=0xabcd,reg9=7".parse().unwrap();
    let wanted: Actions = "load:0xbc->reg3[4..11],load:0->reg5,resubmit(,27)".parse().unwrap();
    assert_eq!(of_reason(Operand::Constant(1)).actions_for(&metadata, &[]), wanted);
}

#[test]
fn a_reason_comes_from_a_field_and_must_be_known() {
    let instruction = of_reason(Operand::Field("reg9[0..3]".parse().unwrap()));
    let frame = crate::golden::question(crate::golden::UDP4);
    let answer = instruction.answer(&frame, &"reg9=0x13".parse().unwrap()).unwrap();
    assert_eq!(answer.kind.name(), Reason::HostUnreachable.name());
    assert_eq!(answer.to, Some(Receiver::Ip("10.0.1.1".parse().unwrap())));
    assert_eq!(instruction.answer(&frame, &"reg9=9".parse().unwrap()), Err(Silence::UnknownReason));
}

#[test]
fn what_cannot_be_read_says_why() {
    let bytes = of_reason(Operand::Constant(1)).encode();
    let changed = |at: usize, byte: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = byte;
        Instruction::decode(&bytes).unwrap_err()
    };
    assert_eq!(changed(0, 2), Malformed::Version(2));
    assert_eq!(changed(1, 99), Malformed::Kind(99));
    assert_eq!(Instruction::decode(&bytes[..2]), Err(Malformed::Short));
    let key = |field: &str| {
        let settings = ["key=xreg4"];
        let mut bytes =
            Instruction::from_settings("dns_question", settings, Actions::drop()).unwrap().encode();
        bytes[3..9].copy_from_slice(&field.parse::<Subfield>().unwrap().to_bytes());
        Instruction::decode(&bytes).unwrap_err()
    };
    assert_eq!(key("reg4"), Malformed::Key("reg4".parse().unwrap()));
    assert_eq!(key("xxreg1[0..62]"), Malformed::Key("xxreg1[0..62]".parse().unwrap()));
    let kept = Instruction { kept: vec!["in_port".parse().unwrap()], ..of_reason(Operand::Constant(1)) };
    assert!(Instruction::decode(&kept.encode()).is_ok(), "the port can be set");
    let kept = Instruction { kept: vec!["ct_state".parse().unwrap()], ..of_reason(Operand::Constant(1)) };
    let error = Instruction::decode(&kept.encode()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the userdata of the flow keeps NXM_NX_CT_STATE[], which no action can set"
    );
}

#[test]
fn a_packet_is_given_back_as_it_is() {
    let into: openflow_rs::FlowEntry = "actions=resubmit(,1)".parse().unwrap();
    let instruction = Instruction::from_settings("return", [], into.actions).unwrap();
    assert_eq!(Instruction::decode(&instruction.encode()).as_ref(), Ok(&instruction));
    // Not even a whole frame.
    let answer = instruction.answer(&[1, 2, 3], &Match::any()).unwrap();
    assert_eq!((&*answer.frame, answer.to, answer.kind), (&[1, 2, 3][..], None, Answered::Returned));
    assert!(Instruction::from_settings("return", ["ttl=5"], Actions::default()).is_err());
}
