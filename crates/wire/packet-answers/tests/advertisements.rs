//! Router advertisements byte by byte, and what holds for all of them.

use openflow_rs::{Actions, Match};
use packet_answers::{Advertisement, Answer, Answered, Ask, Instruction, Preference, Receiver, Silence};
use proptest::prelude::*;

use crate::golden::hex;
use crate::instructions::advertisement;

fn router() -> Advertisement {
    Advertisement {
        mac: [2, 0, 0, 0, 0, 0xfe],
        managed: false,
        other: true,
        autonomous: true,
        lifetime: 1800,
        preference: Preference::High,
        mtu: 1442,
        prefixes: vec![
            ("2001:db8:0:1::fe".parse().unwrap(), 64),
            ("2001:db8:0:2:8000::".parse().unwrap(), 65),
        ],
        dns: vec!["2001:db8::53".parse().unwrap()],
        periodic: false,
    }
}

/// From `fe80::ff:fe00:1` to all routers, with its MAC address. `____` is the checksum.
const SOLICITATION: &str = "
    333300000002 020000000001 86dd
    60000000 0010 3a ff fe80000000000000000000fffe000001 ff020000000000000000000000000002
    85 00 ____ 00000000 0101 020000000001";

/// From no address.
const EARLY: &str = "
    333300000002 020000000001 86dd
    60000000 0008 3a ff 00000000000000000000000000000000 ff020000000000000000000000000002
    85 00 ____ 00000000";

/// A frame with the checksum of its ICMP message.
fn solicitation(text: &str) -> Vec<u8> {
    let mut frame = hex(&text.replace("____", "0000"));
    if text.contains("____") {
        let length = frame.len() - 54;
        let pseudo = [&frame[22..54], &(length as u32).to_be_bytes(), &[0, 0, 0, 58]].concat();
        let sum = frame_builder::checksum(&[&pseudo, &frame[54..]]);
        frame[56..58].copy_from_slice(&sum.to_be_bytes());
    }
    frame
}

fn asked(router: &Advertisement, frame: &[u8]) -> Result<Answer, Silence> {
    let ask = Ask::Advertisement(router.clone());
    Instruction { ask, kept: Vec::new(), actions: Actions::drop() }.answer(frame, &Match::any())
}

/// The message of the router above behind its checksum.
const MESSAGE: &str = "
    40 48 0708 00000000 00000000                # hop limit 64; other, high preference; 1800 s
    01 01 0200000000fe                          # source link-layer address
    05 01 0000 000005a2                         # MTU 1442
    03 04 40 c0 00278d00 00093a80 00000000 20010db8000000010000000000000000
    03 04 41 80 00278d00 00093a80 00000000 20010db8000000028000000000000000 # no addresses from 65 bits
    19 03 0000 00000708 20010db8000000000000000000000053";

#[test]
fn a_machine_gets_what_it_solicits() {
    let got = asked(&router(), &solicitation(SOLICITATION)).unwrap();
    let wanted = "
        020000000001 0200000000fe 86dd
        60000000 0078 3a ff fe80000000000000000000fffe0000fe fe80000000000000000000fffe000001
        86 00 CHECKSUM";
    assert_eq!(
        got.frame,
        hex(&[&wanted.replace("CHECKSUM", "e622"), MESSAGE].concat()),
        "{:02x?}",
        got.frame
    );
    assert_eq!(got.to, Some(Receiver::Mac([2, 0, 0, 0, 0, 1])));
    assert_eq!(got.kind, Answered::RouterAdvertisement);
}

const TO_ALL: &str = "
    333300000001 0200000000fe 86dd
    60000000 0078 3a ff fe80000000000000000000fffe0000fe ff020000000000000000000000000001
    86 00 CHECKSUM";

#[test]
fn a_machine_without_an_address_gets_what_all_get() {
    let wanted = hex(&[&TO_ALL.replace("CHECKSUM", "e4a0"), MESSAGE].concat());
    let got = asked(&router(), &solicitation(EARLY)).unwrap();
    assert_eq!(got.frame, wanted, "{:02x?}", got.frame);
    assert_eq!(got.to, Some(Receiver::Mac([2, 0, 0, 0, 0, 1])));
    assert_eq!(router().unsolicited(), wanted);
}

#[test]
fn a_router_that_goes_is_no_default_router_and_has_no_preference() {
    let message =
        MESSAGE.replace("40 48 0708", "40 40 0000").replace("19 03 0000 00000708", "19 03 0000 00000000");
    let wanted = hex(&[&TO_ALL.replace("CHECKSUM", "f2b8"), &*message].concat());
    assert_eq!(router().farewell(), wanted, "{:02x?}", router().farewell());
    let never = Advertisement { lifetime: 0, ..router() };
    assert_eq!(never.unsolicited()[59], 0x40, "no preference");
    assert_eq!(never.unsolicited()[154..158], 1800_u32.to_be_bytes(), "but DNS servers");
}

#[test]
fn nothing_is_said_of_what_is_not_there() {
    let bare = Advertisement {
        managed: true,
        other: false,
        preference: Preference::Low,
        mtu: 0,
        prefixes: Vec::new(),
        dns: Vec::new(),
        ..router()
    };
    let frame = bare.unsolicited();
    assert_eq!(frame.len(), 54 + 16 + 8);
    assert_eq!(frame[59], 0x98);
}

#[test]
fn a_solicitation_that_is_not_valid_gets_no_answer() {
    let silent = |text: &str| asked(&router(), &solicitation(text)).unwrap_err();
    assert_eq!(silent(&SOLICITATION.replace("3a ff", "3a fe")), Silence::Forwarded);
    assert_eq!(silent(&SOLICITATION.replace("____", "1234")), Silence::Damaged);
    assert_eq!(silent(&SOLICITATION.replace("85 00", "85 01")), Silence::Damaged);
    assert_eq!(silent(&SOLICITATION.replace("85 00", "86 00")), Silence::NoRequest);
    assert_eq!(
        silent(&SOLICITATION.replace("0101 02", "0100 02")),
        Silence::Damaged,
        "an option of no length"
    );
    assert_eq!(
        silent(&SOLICITATION.replace("0101 02", "0102 02")),
        Silence::Damaged,
        "an option that is cut off"
    );
    let early = SOLICITATION.replace("fe80000000000000000000fffe000001", "00000000000000000000000000000000");
    assert_eq!(silent(&early), Silence::Damaged, "a link-layer address, but no address");
    assert_eq!(
        silent(&EARLY.replace("0008 3a", "0004 3a").replace("____ 00000000", "____")),
        Silence::Damaged
    );
    assert_eq!(silent(&EARLY.replace("0008 3a", "0010 3a")), Silence::Damaged, "cut off");
    assert_eq!(silent(&EARLY.replace("020000000001 86dd", "030000000001 86dd")), Silence::GroupFrame);
    assert_eq!(silent(&SOLICITATION.replace("fe800000", "ff020000")), Silence::FromNobody);
    assert_eq!(silent(&SOLICITATION.replace("020000000001 86dd", "0200000000fe 86dd")), Silence::FromItself);
    assert_eq!(silent(&SOLICITATION.replace("fffe000001 ff02", "fffe0000fe ff02")), Silence::FromItself);
    assert_eq!(silent(&SOLICITATION.replace("0010 3a", "0010 11")), Silence::NoRequest);
    assert_eq!(silent(crate::golden::UDP6), Silence::NoRequest);
    assert_eq!(silent("333300000002 020000000001 0806 0001"), Silence::NotIp);
    // A tag before it changes nothing.
    let tagged = SOLICITATION.replace("86dd", "8100 0007 86dd");
    let sum = u16::from_be_bytes(solicitation(SOLICITATION)[56..58].try_into().unwrap());
    assert!(asked(&router(), &hex(&tagged.replace("____", &format!("{sum:04x}")))).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn an_advertisement_is_in_order_bounded_and_gets_no_answer(router in advertisement()) {
        let Ok(got) = asked(&router, &solicitation(SOLICITATION)) else { return Ok(()) };
        for frame in [got.frame, router.unsolicited(), router.farewell()] {
            crate::properties::verified(&frame);
            prop_assert!(frame.len() <= 14 + 1280);
            prop_assert_eq!(asked(&router, &frame), Err(Silence::NoRequest));
            // Options follow each other without a gap.
            let mut rest = &frame[54 + 16..];
            while let [_, units, ..] = *rest {
                prop_assert!(units > 0);
                rest = &rest[8 * usize::from(units)..];
            }
            prop_assert!(rest.is_empty());
        }
    }
}
