//! `DHCPv6` byte by byte, and what holds for all of it.

use std::net::Ipv6Addr;

use frame_builder::{Endpoints, IPV6, Ipv6, UDP, ethernet, udp};
use openflow_rs::{Actions, Match};
use packet_answers::{Answer, Answered, Ask, Dhcpv6Offer, Instruction, Receiver, Silence, domain_search};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::golden::hex;
use crate::properties::{mac, verified};

const CLIENT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const CLIENT: &str = "fe80::ff:fe00:1";
const SERVERS: &str = "ff02::1:2";

fn server() -> Dhcpv6Offer {
    Dhcpv6Offer {
        addresses: vec!["2001:db8::7".parse().unwrap()],
        server_mac: [2, 0, 0, 0, 0, 0xfe],
        client_mac: CLIENT_MAC,
        preferred: 3600,
        valid: 7200,
        dns: vec!["2001:db8::53".parse().unwrap()],
        domain_search: domain_search("a.example").unwrap(),
    }
}

/// A server that has other configuration alone.
fn stateless() -> Dhcpv6Offer {
    Dhcpv6Offer { addresses: Vec::new(), ..server() }
}

fn asked(server: &Dhcpv6Offer, frame: &[u8]) -> Result<Answer, Silence> {
    let ask = Ask::Dhcpv6(server.clone());
    Instruction { ask, kept: Vec::new(), actions: Actions::drop() }.answer(frame, &Match::any())
}

fn framed(message: &[u8], mac: [u8; 6], from: &str, to: &str) -> Vec<u8> {
    let (from, to): (Ipv6Addr, Ipv6Addr) = (from.parse().unwrap(), to.parse().unwrap());
    let datagram = udp(546, 547, message, Endpoints::V6(from, to));
    let packet = Ipv6 { hops: 1, ..Ipv6::new(from, to, UDP) }.packet(&datagram);
    ethernet([0x33, 0x33, 0, 1, 0, 2], mac, IPV6, &packet)
}

fn request(message: &str) -> Vec<u8> {
    framed(&hex(message), CLIENT_MAC, CLIENT, SERVERS)
}

/// The identifier of the client: a DUID-LL.
const NAME: &str = "0001 000a 00030001 020000000001";
/// The identifier of the server.
const SERVER: &str = "0002 000a 00030001 0200000000fe";
/// An association with the number 01020304, without times.
const WANTED: &str = "0003 000c 01020304 00000000 00000000";
/// What it gets: half of 3600 and four fifths of it, and the address for 3600 and 7200 seconds.
const LEASED: &str = "0003 0028 01020304 00000708 00000b40
    0005 0018 20010db8000000000000000000000007 00000e10 00001c20";
/// Asks for DNS servers and domains.
const LIST: &str = "0006 0004 0017 0018";
const CONFIGURED: &str = "0017 0010 20010db8000000000000000000000053
    0018 000b 0161 076578616d706c65 00";

/// The answer to a message, behind the headers.
fn message(server: &Dhcpv6Offer, asks: &str) -> Result<Vec<u8>, Silence> {
    asked(server, &request(asks)).map(|got| {
        let (from, to) = verified(&got.frame);
        assert_eq!((from.to_string().as_str(), to.to_string().as_str()), ("fe80::ff:fe00:fe", CLIENT));
        got.frame[62..].to_vec()
    })
}

fn answered(server: &Dhcpv6Offer, asks: &str, wanted: &str) {
    let got = message(server, asks).unwrap();
    assert_eq!(got, hex(wanted), "{asks}: {got:02x?}");
}

#[test]
fn a_client_that_solicits_is_told_of_its_address() {
    let got = asked(&server(), &request(&format!("01 a1b2c3 {NAME} {WANTED} {LIST}"))).unwrap();
    let wanted = format!(
        "020000000001 0200000000fe 86dd
         60000000 007c 11 40 fe80000000000000000000fffe0000fe fe80000000000000000000fffe000001
         0223 0222 007c 6b2d
         02 a1b2c3 {NAME} {SERVER}
         0007 0001 ff                          # the only server
         {LEASED} {CONFIGURED}"
    );
    assert_eq!(got.frame, hex(&wanted), "{:02x?}", got.frame);
    assert_eq!((got.to, got.kind), (Some(Receiver::Mac(CLIENT_MAC)), Answered::Dhcpv6Advertise));
}

#[test]
fn a_client_gets_its_address() {
    let leased = format!("07 000001 {NAME} {SERVER} {LEASED}");
    answered(&server(), &format!("03 000001 {NAME} {SERVER} {WANTED}"), &leased);
    answered(&server(), &format!("05 000001 {NAME} {SERVER} {WANTED}"), &leased);
    answered(&server(), &format!("06 000001 {NAME} {WANTED}"), &leased);
    // At once, if the client wants that.
    let rapid = format!("01 000001 {NAME} {WANTED} 000e 0000");
    answered(&server(), &rapid, &format!("07 000001 {NAME} {SERVER} 000e 0000 {LEASED}"));
    let nothing = format!(
        "02 000001 {NAME} {SERVER} 0003 001e 01020304 00000000 00000000 000d 000e 0002 6e6f20616464726573736573"
    );
    answered(&stateless(), &rapid, &nothing);
}

#[test]
fn an_address_that_the_client_has_beside_ends() {
    let has = "0003 0044 01020304 00000708 00000b40
        0005 0018 20010db8000000000000000000000008 00000e10 00001c20
        0005 0018 20010db8000000000000000000000007 00000e10 00001c20";
    let gets = "0003 0044 01020304 00000708 00000b40
        0005 0018 20010db8000000000000000000000007 00000e10 00001c20
        0005 0018 20010db8000000000000000000000008 00000000 00000000";
    let gets = format!("07 000001 {NAME} {SERVER} {gets}");
    answered(&server(), &format!("05 000001 {NAME} {SERVER} {has}"), &gets);
    answered(&server(), &format!("06 000001 {NAME} {has}"), &gets);
    // A network that has addresses no longer: nothing to renew, and nothing to keep.
    let status = "0003 001c 01020304 00000000 00000000 000d 000c 0003 6e6f74206c6561736564";
    answered(
        &stateless(),
        &format!("05 000001 {NAME} {SERVER} {has}"),
        &format!("07 000001 {NAME} {SERVER} {status}"),
    );
    let ends = "0003 0044 01020304 00000000 00000000
        0005 0018 20010db8000000000000000000000008 00000000 00000000
        0005 0018 20010db8000000000000000000000007 00000000 00000000";
    answered(&stateless(), &format!("06 000001 {NAME} {has}"), &format!("07 000001 {NAME} {SERVER} {ends}"));
}

#[test]
fn a_client_with_the_right_address_is_confirmed() {
    let has = |address: &str| {
        format!("04 000001 {NAME} 0003 0028 01020304 00000000 00000000 0005 0018 {address} 00000000 00000000")
    };
    let right = has("20010db8000000000000000000000007");
    let wrong = has("20010db8000000000000000000000008");
    answered(&server(), &right, &format!("07 000001 {NAME} {SERVER} 000d 0002 0000"));
    let status = "000d 0015 0004 6e6f74206f662074686973206e6574776f726b";
    answered(&server(), &wrong, &format!("07 000001 {NAME} {SERVER} {status}"));
    assert_eq!(
        message(&server(), &format!("04 000001 {NAME} {WANTED}")),
        Err(Silence::Damaged),
        "no address"
    );
}

#[test]
fn information_needs_no_client_and_no_list() {
    answered(&stateless(), "0b 000001", &format!("07 000001 {SERVER} {CONFIGURED}"));
    answered(
        &server(),
        &format!("0b 000001 {NAME} 0006 0002 0017"),
        &format!("07 000001 {NAME} {SERVER} {CONFIGURED}"),
    );
    let bare = Dhcpv6Offer { dns: Vec::new(), domain_search: Vec::new(), ..server() };
    answered(&bare, "0b 000001", &format!("07 000001 {SERVER}"));
    answered(
        &server(),
        &format!("06 000001 {NAME} 0006 0002 0018"),
        &format!("07 000001 {NAME} {SERVER} 0018 000b 0161 076578616d706c65 00"),
    );
}

#[test]
fn what_a_client_gives_back_is_taken() {
    for (kind, answered) in [("08", Answered::Dhcpv6Reply), ("09", Answered::Dhcpv6Declined)] {
        let got = asked(&server(), &request(&format!("{kind} 000001 {NAME} {SERVER} {LEASED}"))).unwrap();
        assert_eq!(got.kind, answered);
        assert_eq!(got.frame[62..], hex(&format!("07 000001 {NAME} {SERVER} 000d 0002 0000")));
    }
}

#[test]
fn temporary_addresses_prefixes_and_second_associations_are_not_there() {
    let asks = format!(
        "03 000001 {NAME} {SERVER} 0004 0004 0a0b0c0d 0019 000c 00000001 00000000 00000000 {WANTED} {WANTED}"
    );
    let no_addresses = "000d 000e 0002 6e6f20616464726573736573";
    let wanted = format!(
        "07 000001 {NAME} {SERVER}
         0004 0016 0a0b0c0d {no_addresses}
         0019 001d 00000001 00000000 00000000 000d 000d 0006 6e6f207072656669786573
         {LEASED}
         0003 001e 01020304 00000000 00000000 {no_addresses}"
    );
    answered(&server(), &asks, &wanted);
}

#[test]
fn what_is_not_for_this_server_gets_no_answer() {
    let silent = |message: &str| asked(&server(), &request(message)).unwrap_err();
    let other = SERVER.replace("fe", "fd");
    for kind in ["03", "05", "08", "09", "0b"] {
        assert_eq!(silent(&format!("{kind} 000001 {NAME} {other}")), Silence::OtherServer);
    }
    for kind in ["03", "05", "08", "09"] {
        assert_eq!(silent(&format!("{kind} 000001 {NAME}")), Silence::Damaged, "no server");
        assert_eq!(silent(&format!("{kind} 000001 {SERVER}")), Silence::Damaged, "no client");
    }
    for kind in ["01", "04", "06"] {
        assert_eq!(silent(&format!("{kind} 000001 {NAME} {SERVER}")), Silence::Damaged, "a server");
        assert_eq!(silent(&format!("{kind} 000001")), Silence::Damaged, "no client");
    }
    assert_eq!(silent(&format!("0b 000001 {WANTED}")), Silence::Damaged, "addresses are no information");
    for kind in ["02", "07", "0a", "0d", "ff"] {
        assert_eq!(silent(&format!("{kind} 000001 {NAME}")), Silence::NoRequest);
    }
    assert_eq!(silent("0c 000001"), Silence::Relayed);
    assert_eq!(silent("01"), Silence::Damaged);
    assert_eq!(silent("01 000001 0001 000a 00"), Silence::Damaged, "an option that is cut off");
    assert_eq!(silent("01 000001 0001 0002 0003"), Silence::Damaged, "an identifier without a value");
    assert_eq!(silent(&format!("01 000001 {NAME} 0003 0008 01020304 00000000")), Silence::Damaged);
    assert_eq!(silent(&format!("01 000001 {NAME} 0006 0003 001700")), Silence::Damaged);
    let solicit = hex(&format!("01 000001 {NAME} {WANTED}"));
    let from = |mac, from: &str, to: &str| asked(&server(), &framed(&solicit, mac, from, to)).unwrap_err();
    assert_eq!(from([2, 0, 0, 0, 0, 2], CLIENT, SERVERS), Silence::OtherClient);
    assert_eq!(from(server().server_mac, CLIENT, SERVERS), Silence::FromItself);
    assert_eq!(from(CLIENT_MAC, "fe80::ff:fe00:fe", SERVERS), Silence::FromItself);
    assert_eq!(from(CLIENT_MAC, "2001:db8::7", SERVERS), Silence::FromNobody);
    assert_eq!(from(CLIENT_MAC, CLIENT, "fe80::ff:fe00:fe"), Silence::NoRequest, "not by unicast");
    let mut frame = framed(&solicit, CLIENT_MAC, CLIENT, SERVERS);
    frame[60..62].fill(0);
    assert_eq!(asked(&server(), &frame), Err(Silence::Damaged), "no checksum");
}

pub(crate) fn offer() -> impl Strategy<Value = Dhcpv6Offer> {
    let addresses = || vec(any::<u128>().prop_map(Ipv6Addr::from), 0..60);
    (addresses(), mac(), mac(), any::<u32>(), any::<u32>(), addresses(), vec(any::<u8>(), 0..300)).prop_map(
        |(addresses, server_mac, client_mac, preferred, valid, dns, domain_search)| Dhcpv6Offer {
            addresses,
            server_mac,
            client_mac,
            preferred,
            valid,
            dns,
            domain_search,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn an_answer_is_in_order_bounded_and_gets_no_answer(
        server in offer(), kind in select(vec![1_u8, 3, 4, 5, 6, 8, 9, 11]), rapid: bool,
        associations in vec((select(vec![3_u16, 4, 25]), vec(any::<u128>(), 0..20)), 0..3)
    ) {
        let option = |code: u16, value: &[u8]| [&code.to_be_bytes()[..], &(value.len() as u16).to_be_bytes(), value].concat();
        let mut message = [&[kind, 1, 2, 3][..], &hex(NAME), &option(6, &[0, 23, 0, 24])].concat();
        if [3, 5, 8, 9].contains(&kind) {
            message.extend(option(2, &[&[0, 3, 0, 1][..], &server.server_mac].concat()));
        }
        message.extend(if rapid { option(14, &[]) } else { Vec::new() });
        for (code, addresses) in associations.iter().filter(|_| kind != 11) {
            let mut value = vec![0; if *code == 4 { 4 } else { 12 }];
            for address in addresses {
                value.extend(option(5, &[&address.to_be_bytes()[..], &[0; 8]].concat()));
            }
            message.extend(option(*code, &value));
        }
        let Ok(got) = asked(&server, &framed(&message, server.client_mac, CLIENT, SERVERS)) else { return Ok(()) };
        verified(&got.frame);
        prop_assert!(got.frame.len() <= 14 + 1280);
        prop_assert_eq!(asked(&server, &got.frame), Err(Silence::NoRequest));
        let mut rest = &got.frame[66..];
        let mut codes = Vec::new();
        while let [c0, c1, l0, l1, ..] = *rest {
            codes.push(u16::from_be_bytes([c0, c1]));
            rest = &rest[4 + usize::from(u16::from_be_bytes([l0, l1]))..];
        }
        prop_assert!(rest.is_empty());
        prop_assert_eq!(&codes[..2], &[1, 2]);
        // The first association for addresses is always there.
        let wants_addresses = [1, 3, 5, 6].contains(&kind) && associations.first().is_some_and(|(code, _)| *code == 3);
        prop_assert!(!wants_addresses || codes.contains(&3));
    }

    #[test]
    fn a_damaged_message_does_not_end_the_process(damage in vec((0..200_usize, any::<u8>()), 1..6), cut in 0..64_usize) {
        let mut message = hex(&format!("05 a1b2c3 {NAME} {SERVER} {LEASED} 0004 0004 00000001 {LIST}"));
        for (at, byte) in damage {
            let at = at % message.len();
            message[at] = byte;
        }
        message.truncate(message.len() - cut);
        let _ = asked(&server(), &framed(&message, CLIENT_MAC, CLIENT, SERVERS));
    }
}
