//! What holds for all queries.

use openflow_rs::{Actions, Match};
use packet_answers::{Ask, DnsAnswer, DnsQuestion, DomainName, Instruction, Silence};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::{NAME, asked, datagram, message, query, sent};
use crate::properties::{frames, verified};

fn name() -> impl Strategy<Value = DomainName> {
    let text = "[a-zA-Z0-9_]{1,63}(\\.[a-z0-9]{1,20}){0,4}".prop_map(|text| text.parse().unwrap());
    prop_oneof![
        any::<u128>().prop_map(|bits| DomainName::reverse(std::net::Ipv6Addr::from(bits).into())),
        text
    ]
}

pub(crate) fn answer() -> impl Strategy<Value = DnsAnswer> {
    let ipv4 = vec(any::<u32>().prop_map(Into::into), 0..90);
    let ipv6 = vec(any::<u128>().prop_map(Into::into), 0..90);
    let names = || vec(name(), 0..20);
    (option::of(name()), any::<u32>(), ipv4, ipv6, option::of(name()), names(), names()).prop_map(
        |(name, ttl, ipv4, ipv6, cname, pointers, domains)| DnsAnswer {
            name,
            ttl,
            ipv4,
            ipv6,
            cname,
            pointers,
            domains,
        },
    )
}

pub(crate) fn question() -> impl Strategy<Value = DnsQuestion> {
    let fields = vec!["xreg4", "metadata", "xxreg2[0..63]", "xxreg1[5..68]"];
    select(fields).prop_map(|field| DnsQuestion { key: field.parse().unwrap() })
}

fn bytes_of(name: &DomainName) -> String {
    name.bytes().iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn an_answer_is_in_order_bounded_and_gets_no_answer(
        server in answer(), other in name(), kind in select(vec![1_u16, 5, 12, 15, 28, 255]), longest in option::of(any::<u16>()), version in 0..2_u8,
        is_ipv4: bool
    ) {
        let asked_for = server.name.as_ref().unwrap_or(&other);
        let opt = longest.map(|longest| format!("00 0029 {longest:04x} 00 {version:02x} 0000 0000"));
        let asks = query(&bytes_of(asked_for), &format!("{kind:04x} 0001"), &opt.iter().map(String::as_str).collect::<Vec<_>>());
        let (from, to) = if is_ipv4 { ("10.0.0.1", "10.0.0.53") } else { ("fd00::1", "fd00::53") };
        let got = asked(&server, &datagram(&asks, from, to, 53)).unwrap();
        verified(&got.frame);
        let said = &got.frame[14 + 8 + if is_ipv4 { 20 } else { 40 }..];
        prop_assert!(said.len() <= usize::from(longest.unwrap_or(0).clamp(512, 1232)), "{} bytes", said.len());
        let question = 12 + asked_for.bytes().len() + 4;
        prop_assert_eq!(&said[12..question], &asks[12..question]);
        prop_assert_eq!(said[11], u8::from(longest.is_some()));
        prop_assert_eq!(asked(&server, &got.frame), Err(Silence::NoRequest));
        // Nor if it came to the port of servers.
        prop_assert_eq!(message(&server, said), Err(Silence::NoRequest));
    }

    #[test]
    fn a_damaged_query_does_not_end_the_process(
        server in answer(), damage in vec((0..64_usize, any::<u8>()), 1..6), cut in 0..64_usize, tail in vec(any::<u8>(), 0..64)
    ) {
        let mut asks = query(NAME, "0001 0001", &["00 0029 04d0 00 00 8000 0000", "c00c 0001 0001 00000000 0004 0a000001"]);
        for (at, byte) in damage {
            let at = at % asks.len();
            asks[at] = byte;
        }
        asks.truncate(asks.len().saturating_sub(cut % 32));
        asks.extend(tail);
        for server in [&server, &DnsAnswer { name: None, ..server.clone() }] {
            if let Ok(said) = message(server, &asks) {
                prop_assert!(asks[2] & 0x80 == 0, "an answer is answered");
                prop_assert!(said.len() <= 1232);
                prop_assert_eq!(&said[..2], &asks[..2]);
            }
        }
    }

    #[test]
    fn a_packet_whose_name_is_looked_up_stays_as_it_is(question in question(), frame in frames(), bytes in vec(any::<u8>(), 0..200)) {
        let field = question.key;
        let instruction = Instruction { ask: Ask::DnsQuestion(question), kept: Vec::new(), actions: Actions::drop() };
        for frame in [frame, bytes.clone(), sent(&bytes)] {
            let got = instruction.answer(&frame, &Match::any()).unwrap();
            prop_assert_eq!(&got.frame, &frame);
            prop_assert!(matches!(got.loads[..], [(of, key)] if of == field && key >> 63 == 0));
            // The field is set, and the packet goes on.
            prop_assert_eq!(instruction.actions_for(&Match::any(), &got.loads).0.len(), 1 + Actions::drop().0.len());
        }
    }
}
