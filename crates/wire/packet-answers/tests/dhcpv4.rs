//! DHCP byte by byte, and what holds for all of it.

use std::net::Ipv4Addr;

use frame_builder::{BROADCAST, Endpoints, IPV4, Ipv4, UDP, ethernet, udp};
use openflow_rs::{Actions, Match};
use packet_answers::{
    Answer, Answered, Ask, Dhcpv4Offer, Instruction, NAMES, Receiver, Silence, dhcp_option,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::golden::hex;
use crate::properties::mac;

const CLIENT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

fn server() -> Dhcpv4Offer {
    Dhcpv4Offer {
        address: "10.0.0.7".parse().unwrap(),
        prefix: 24,
        server: "10.0.0.254".parse().unwrap(),
        server_mac: [2, 0, 0, 0, 0, 0xfe],
        client_mac: CLIENT_MAC,
        lease: 3600,
        next_server: Ipv4Addr::UNSPECIFIED,
        options: [
            ("router", "10.0.0.254"),
            ("dns", "10.0.0.53,10.0.1.53"),
            ("mtu", "1442"),
            ("domain_name", "a.example"),
        ]
        .map(|(name, value)| dhcp_option(name, value).unwrap())
        .to_vec(),
    }
}

fn asked(server: &Dhcpv4Offer, frame: &[u8]) -> Result<Answer, Silence> {
    let ask = Ask::Dhcpv4(server.clone());
    Instruction { ask, kept: Vec::new(), actions: Actions::drop() }.answer(frame, &Match::any())
}

/// The fields of a client's message that differ from test to test.
#[derive(Clone)]
struct Message {
    flags: u16,
    ciaddr: Ipv4Addr,
    giaddr: Ipv4Addr,
    chaddr: [u8; 6],
    /// Behind the cookie, without the end.
    options: Vec<u8>,
    to: Ipv4Addr,
}

fn message(options: &str) -> Message {
    let nowhere = Ipv4Addr::UNSPECIFIED;
    let (chaddr, to) = (CLIENT_MAC, Ipv4Addr::BROADCAST);
    Message { flags: 0, ciaddr: nowhere, giaddr: nowhere, chaddr, options: hex(options), to }
}

impl Message {
    fn payload(&self) -> Vec<u8> {
        let addresses = [self.ciaddr, Ipv4Addr::UNSPECIFIED, Ipv4Addr::UNSPECIFIED, self.giaddr];
        let mut out = hex("01 01 06 00 a1b2c3d4 0000");
        out.extend(self.flags.to_be_bytes());
        out.extend(addresses.into_iter().flat_map(|address| address.octets()));
        out.extend(self.chaddr);
        out.resize(236, 0);
        out.extend(hex("63825363"));
        out.extend(&self.options);
        out.push(255);
        out
    }

    fn frame(&self) -> Vec<u8> {
        framed(&self.payload(), self.ciaddr, self.to)
    }
}

fn framed(payload: &[u8], from: Ipv4Addr, to: Ipv4Addr) -> Vec<u8> {
    let datagram = udp(68, 67, payload, Endpoints::V4(from, to));
    ethernet(BROADCAST, CLIENT_MAC, IPV4, &Ipv4::new(from, to, UDP).packet(&datagram))
}

/// What an answer says: kind, IP and MAC address that it goes to, `yiaddr`, and its options.
type Said = (Answered, Ipv4Addr, [u8; 6], Ipv4Addr, Vec<(u8, Vec<u8>)>);

fn said(got: &Answer) -> Said {
    crate::properties::verified(&got.frame);
    let address = |at: usize| <[u8; 4]>::try_from(&got.frame[at..at + 4]).unwrap().into();
    let mut options = Vec::new();
    let mut rest = &got.frame[42 + 240..];
    while let [code, length, ..] = *rest
        && code != 255
    {
        options.push((code, rest[2..2 + usize::from(length)].to_vec()));
        rest = &rest[2 + usize::from(length)..];
    }
    (got.kind, address(30), got.frame[..6].try_into().unwrap(), address(42 + 16), options)
}

fn codes(got: &Answer) -> Vec<u8> {
    said(got).4.into_iter().map(|(code, _)| code).collect()
}

/// Asks for mask, DNS, router, a domain name and the time, in this order; its name is 01 and its MAC address.
const DISCOVER: &str = "35 01 01 3d 07 01 020000000001 37 05 01 06 03 0f 02";

#[test]
fn a_client_that_discovers_is_offered_its_address() {
    let wanted = [
        // Ethernet, IPv4 and UDP: 10.0.0.254 to 10.0.0.7
        "020000000001 0200000000fe 0800
         45 00 IPLEN 0000 4000 40 11 IPSUM 0a0000fe 0a000007
         0043 0044 UDPLEN UDPSUM",
        // reply, Ethernet, transaction, no time, no flags; yiaddr is 10.0.0.7
        "02 01 06 00 a1b2c3d4 0000 0000
         00000000 0a000007 00000000 00000000
         020000000001 00000000000000000000",
        &"00".repeat(192),
        "63825363
         35 01 02                              # an offer
         36 04 0a0000fe                        # of 10.0.0.254
         33 04 00000e10                        # for 3600 seconds
         3a 04 00000708                        # renew after 1800
         3b 04 00000c4e                        # rebind after 3150
         01 04 ffffff00
         3d 07 01 020000000001
         06 08 0a000035 0a000135               # what it asked for, in its order
         03 04 0a0000fe
         0f 09 612e6578616d706c65
         ff",
    ]
    .join("\n")
    .replace("IPLEN", "0152")
    .replace("UDPLEN", "013e")
    .replace("IPSUM", "2497")
    .replace("UDPSUM", "c628");
    let wanted = hex(&wanted);
    let got = asked(&server(), &message(DISCOVER).frame()).unwrap();
    assert_eq!(got.frame, wanted, "{:02x?}", got.frame);
    assert_eq!((got.to, got.kind), (Some(Receiver::Mac(CLIENT_MAC)), Answered::Dhcpv4Offer));
}

#[test]
fn a_refusal_goes_to_all_and_is_padded() {
    let wanted = [
        "ffffffffffff 0200000000fe 0800
         45 00 0148 0000 4000 40 11 2ea8 0a0000fe ffffffff
         0043 0044 0134 6c49
         02 01 06 00 a1b2c3d4 0000 0000
         00000000 00000000 00000000 00000000
         020000000001 00000000000000000000",
        &"00".repeat(192),
        "63825363
         35 01 06 36 04 0a0000fe               # refused by 10.0.0.254
         38 20 7468652061646472657373206973206e6f74207468697320636c69656e742773
         ff",
    ];
    let mut wanted = hex(&wanted.join("\n"));
    wanted.resize(42 + 300, 0);
    let got = asked(&server(), &message("35 01 03 32 04 0a000008").frame()).unwrap();
    assert_eq!(got.frame, wanted, "{:02x?}", got.frame);
}

const OURS: &str = "36 04 0a0000fe";
const ADDRESS: &str = "32 04 0a000007";
const OTHER: &str = "32 04 0a000008";

#[test]
fn a_client_gets_its_address_and_no_other() {
    let address: Ipv4Addr = "10.0.0.7".parse().unwrap();
    let (to_client, to_all) = ((address, CLIENT_MAC), (Ipv4Addr::BROADCAST, BROADCAST));
    let request = |options: &str| message(&format!("35 01 03 {options}"));
    let renewal = |has: &str| Message { ciaddr: has.parse().unwrap(), ..request("") };
    let rebinding = Message { to: Ipv4Addr::BROADCAST, ..renewal("10.0.0.7") };
    let renewal = |has: &str| Message { to: server().server, ..renewal(has) };
    let nak = (Answered::Dhcpv4Nak, to_all, Ipv4Addr::UNSPECIFIED);
    let ack = (Answered::Dhcpv4Ack, to_client, address);
    for (what, message, wanted) in [
        ("selecting", request(&format!("{OURS} {ADDRESS}")), ack),
        ("selecting another address", request(&format!("{OURS} {OTHER}")), nak),
        ("after a start", request(ADDRESS), ack),
        ("after a start with another address", request(OTHER), nak),
        ("renewing", renewal("10.0.0.7"), ack),
        ("renewing another address", renewal("10.0.0.8"), nak),
        ("rebinding", rebinding, ack),
        ("by broadcast", Message { flags: 0x8000, ..request(ADDRESS) }, (ack.0, to_all, address)),
    ] {
        let (kind, ip, mac, gets, options) = said(&asked(&server(), &message.frame()).unwrap());
        assert_eq!((kind, (ip, mac), gets), wanted, "{what}");
        let has = |code: u8| options.iter().any(|(other, _)| *other == code);
        let is_nak = wanted == nak;
        assert_eq!(
            [53, 54, 51, 58, 59, 1, 3, 56].map(has),
            [true, true, !is_nak, !is_nak, !is_nak, !is_nak, !is_nak, is_nak]
        );
    }
    let got = asked(&server(), &renewal("10.0.0.7").frame()).unwrap();
    assert_eq!(got.frame[42 + 12..42 + 16], address.octets(), "ciaddr as in the request");
}

#[test]
fn a_client_with_an_address_of_its_own_is_informed() {
    let own: Ipv4Addr = "10.0.0.99".parse().unwrap();
    let inform = Message { ciaddr: own, ..message("35 01 08 37 02 06 33") };
    let (kind, ip, mac, gets, options) = said(&asked(&server(), &inform.frame()).unwrap());
    assert_eq!((kind, ip, mac, gets), (Answered::Dhcpv4Ack, own, CLIENT_MAC, Ipv4Addr::UNSPECIFIED));
    let codes: Vec<u8> = options.iter().map(|(code, _)| *code).collect();
    assert_eq!(codes, [53, 54, 1, 6], "no lease, although it asks for one");
    let from_group = Message { ciaddr: "224.0.0.1".parse().unwrap(), ..inform };
    assert_eq!(asked(&server(), &from_group.frame()), Err(Silence::FromNobody));
}

#[test]
fn options_go_to_clients_that_ask_or_have_no_list() {
    let routes = dhcp_option("classless_static_route", "0.0.0.0/0 via 10.0.0.254").unwrap();
    let mut server = server();
    server.options.push(routes);
    let of = |options: &str| codes(&asked(&server, &message(options).frame()).unwrap());
    let fixed = [53, 54, 51, 58, 59, 1];
    assert_eq!(of("35 01 01"), [&fixed[..], &[3, 6, 26, 15, 121]].concat(), "no list");
    assert_eq!(of("35 01 01 37 04 1a 06 1a 36"), [&fixed[..], &[26, 6]].concat(), "each once");
    assert_eq!(of("35 01 01 37 03 79 03 06"), [&fixed[..], &[121, 6]].concat(), "routes instead of a router");
    assert_eq!(of("35 01 01 37 02 03 06"), [&fixed[..], &[3, 6]].concat(), "a router for older clients");
    // Two parts of one list are joined (RFC 3396).
    assert_eq!(of("35 01 01 37 01 06 37 01 03"), [&fixed[..], &[6, 3]].concat());
}

#[test]
fn options_are_also_read_from_the_fields_of_names() {
    let mut payload = message("35 01 01 34 01 03").payload();
    payload[108..112].copy_from_slice(&[55, 1, 26, 255]);
    payload[44..48].copy_from_slice(&[55, 1, 6, 255]);
    let frame = framed(&payload, Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST);
    assert_eq!(codes(&asked(&server(), &frame).unwrap())[6..], [26, 6], "the file first (RFC 3396, 5)");
}

#[test]
fn a_long_option_is_split_and_one_without_room_is_left_out() {
    let mut server = server();
    server.options = vec![(128, vec![7; 300]), (129, vec![8; 20]), (51, vec![0; 4])];
    let got = asked(&server, &message("35 01 01 39 02 05dc").frame()).unwrap();
    let options = said(&got).4;
    assert_eq!(options[6..], [(128, vec![7; 255]), (128, vec![7; 45]), (129, vec![8; 20])]);
    let (least, larger) = ("35 01 01 39 02 0040", "35 01 01 39 02 0241");
    for (options, wanted) in [("35 01 01", &[129][..]), (least, &[129]), (larger, &[129])] {
        let got = asked(&server, &message(options).frame()).unwrap();
        assert_eq!(&codes(&got)[6..], wanted, "{options}");
        assert!(got.frame.len() <= 14 + 577);
    }
    // 33 bytes of options and the end: there is room for 274 bytes.
    server.options = vec![(128, vec![7; 270])];
    assert_eq!(asked(&server, &message("35 01 01").frame()).unwrap().frame.len(), 14 + 576);
    server.options = vec![(128, vec![7; 271])];
    assert_eq!(asked(&server, &message("35 01 01").frame()).unwrap().frame.len(), 42 + 300);
}

#[test]
fn a_lease_for_ever_is_never_renewed() {
    let server = Dhcpv4Offer { lease: u32::MAX, prefix: 0, ..server() };
    let options = said(&asked(&server, &message("35 01 01").frame()).unwrap()).4;
    for (code, value) in &options[2..5] {
        assert_eq!(value[..], [0xff; 4], "option {code}");
    }
    assert_eq!(options[5], (1, vec![0; 4]), "a network of all addresses");
}

#[test]
fn what_is_not_for_this_server_gets_no_answer() {
    let silent = |message: Message| asked(&server(), &message.frame()).unwrap_err();
    let discover = || message(DISCOVER);
    assert_eq!(silent(Message { chaddr: [2, 0, 0, 0, 0, 2], ..discover() }), Silence::OtherClient);
    assert_eq!(silent(Message { giaddr: "10.9.9.9".parse().unwrap(), ..discover() }), Silence::Relayed);
    assert_eq!(silent(message(&format!("35 01 03 36 04 0a0000fd {ADDRESS}"))), Silence::OtherServer);
    assert_eq!(silent(Message { to: "10.0.0.253".parse().unwrap(), ..discover() }), Silence::OtherServer);
    assert_eq!(silent(message(&format!("35 01 04 {OURS} {ADDRESS}"))), Silence::Declined);
    let release = Message { ciaddr: server().address, ..message(&format!("35 01 07 {OURS}")) };
    assert_eq!(silent(release), Silence::Released);
    assert_eq!(silent(message("")), Silence::Bootp);
    assert_eq!(silent(message("35 01 03")), Silence::Damaged, "a request for no address");
    assert_eq!(silent(message("35 02 0101")), Silence::Damaged);
    assert_eq!(silent(message("35 01 02")), Silence::NoRequest, "an offer");
    assert_eq!(silent(message("35 01 01 3d")), Silence::Damaged, "an option that is cut off");
    let mine = Message { ciaddr: server().server, ..discover() };
    assert_eq!(silent(mine), Silence::FromItself);
    let frame = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut frame = discover().frame();
        change(&mut frame);
        asked(&server(), &frame).map(|got| got.kind)
    };
    assert_eq!(frame(&|frame| frame[60] ^= 1), Err(Silence::Damaged), "the checksum of UDP");
    assert_eq!(frame(&|frame| frame[40..42].fill(0)), Ok(Answered::Dhcpv4Offer), "no checksum");
    assert_eq!(frame(&|frame| frame[16] ^= 1), Err(Silence::Damaged), "the checksum of IPv4");
    assert_eq!(frame(&|frame| frame[35] = 69), Err(Silence::NoRequest), "another port");
    assert_eq!(frame(&|frame| frame.truncate(300)), Err(Silence::Damaged));
    let payload = |at: usize, byte: u8| {
        let mut payload = discover().payload();
        payload[at] = byte;
        asked(&server(), &framed(&payload, Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST)).unwrap_err()
    };
    assert_eq!(payload(0, 2), Silence::NoRequest, "a reply");
    assert_eq!(payload(1, 6), Silence::NoRequest, "another network than Ethernet");
    assert_eq!(payload(236, 0), Silence::Bootp, "no cookie");
}

pub(crate) fn offer() -> impl Strategy<Value = Dhcpv4Offer> {
    let options = vec((any::<u8>(), vec(any::<u8>(), 0..400)), 0..8);
    let addresses = any::<[u32; 3]>().prop_map(|addresses| addresses.map(Ipv4Addr::from));
    (addresses, 0..=32_u8, mac(), mac(), any::<u32>(), options).prop_map(
        |([address, server, next_server], prefix, server_mac, client_mac, lease, options)| Dhcpv4Offer {
            address,
            prefix,
            server,
            server_mac,
            client_mac,
            lease,
            next_server,
            options,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn an_answer_is_in_order_bounded_and_gets_no_answer(
        server in offer(), kind in select(vec![1_u8, 3, 8]), asked_for: bool, flags: u16, longest in proptest::option::of(any::<u16>()),
        list in proptest::option::of(vec(any::<u8>(), 0..255)), client in proptest::option::of(vec(any::<u8>(), 0..255))
    ) {
        let mut options = vec![53, 1, kind];
        let wanted = if asked_for { server.address } else { Ipv4Addr::new(10, 0, 0, 1) };
        options.extend([&[50, 4], &wanted.octets()[..]].concat());
        options.extend(longest.into_iter().flat_map(|longest| [&[57, 2], &longest.to_be_bytes()[..]].concat()));
        for (code, value) in [(55, &list), (61, &client)] {
            options.extend(value.iter().flat_map(|value| [&[code, value.len() as u8], &value[..]].concat()));
        }
        let message = Message { flags, chaddr: server.client_mac, options, ..message("") };
        let Ok(got) = asked(&server, &message.frame()) else { return Ok(()) };
        let (_, _, _, _, options) = said(&got);
        let most = usize::from(longest.unwrap_or(0).clamp(576, 1500));
        prop_assert!((42 + 300..=14 + most).contains(&got.frame.len()));
        prop_assert_eq!(options.iter().find(|(code, _)| *code == 61).map(|(_, name)| name), client.as_ref());
        prop_assert_eq!(asked(&server, &got.frame), Err(Silence::NoRequest));
    }

    #[test]
    fn a_damaged_message_does_not_end_the_process(damage in vec((0..400_usize, any::<u8>()), 1..6), cut in 0..400_usize) {
        let mut payload = message(&format!("{DISCOVER} 34 01 03 39 02 0400")).payload();
        for (at, byte) in damage {
            let at = at % payload.len();
            payload[at] = byte;
        }
        payload.truncate(payload.len().saturating_sub(cut % 64));
        let _ = asked(&server(), &framed(&payload, Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST));
    }

    #[test]
    fn no_text_of_an_option_ends_the_process(text in "[0-9a-z.,:/ -]{0,40}") {
        for known in NAMES {
            let _ = dhcp_option(known.name, &text);
        }
        let _ = dhcp_option(&text, &text);
    }
}
