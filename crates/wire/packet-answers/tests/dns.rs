//! DNS byte by byte, and what holds for all of it.

mod names;
mod properties;
mod questions;

use std::net::IpAddr;

use frame_builder::{Endpoints, IPV4, IPV6, Ipv4, Ipv6, UDP, ethernet, udp};
use openflow_rs::{Actions, Match};
use packet_answers::{Answer, Answered, Ask, DnsAnswer, Instruction, Silence};

use crate::golden::hex;
use crate::properties::verified;

pub(crate) use properties::{answer, question};

/// The name `DB.blue.example`, with a case that clients choose.
const NAME: &str = "02 4442 04 626c7565 07 6578616d706c65 00";
/// Types of records, and the class of the Internet.
const A: &str = "0001 0001";
const AAAA: &str = "001c 0001";
const PTR: &str = "000c 0001";
const MX: &str = "000f 0001";
const ANY: &str = "00ff 0001";
/// What a client says of itself: version 0 of EDNS, messages of 1232 bytes, DNSSEC wanted.
const OPT: &str = "00 0029 04d0 00 00 8000 0000";
/// What the server says of itself.
const OWN_OPT: &str = "00 0029 04d0 00 00 0000 0000";

fn server(settings: &[&str]) -> DnsAnswer {
    let instruction =
        Instruction::from_settings("dns_answer", settings.iter().copied(), Actions::drop()).unwrap();
    let Ask::DnsAnswer(answer) = instruction.ask else { panic!("an answer") };
    answer
}

fn db(settings: &[&str]) -> DnsAnswer {
    server(&[&["name=db.blue.example", "ttl=60"], settings].concat())
}

/// Of all names that nobody has.
fn nobody() -> DnsAnswer {
    server(&["domain.0=blue.example", "domain.1=red.example"])
}

fn asked(answer: &DnsAnswer, frame: &[u8]) -> Result<Answer, Silence> {
    let ask = Ask::DnsAnswer(answer.clone());
    Instruction { ask, kept: Vec::new(), actions: Actions::drop() }.answer(frame, &Match::any())
}

const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 0x35], [2, 0, 0, 0, 0, 1]];

/// A datagram of a client from port 50000.
fn datagram(message: &[u8], from: &str, to: &str, port: u16) -> Vec<u8> {
    let [to_mac, from_mac] = MACS;
    let (kind, packet) = match (from.parse().unwrap(), to.parse().unwrap()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let datagram = udp(50000, port, message, Endpoints::V4(from, to));
            (IPV4, Ipv4::new(from, to, UDP).packet(&datagram))
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let datagram = udp(50000, port, message, Endpoints::V6(from, to));
            (IPV6, Ipv6::new(from, to, UDP).packet(&datagram))
        }
        _ => panic!("two IP versions"),
    };
    ethernet(to_mac, from_mac, kind, &packet)
}

fn sent(message: &[u8]) -> Vec<u8> {
    datagram(message, "10.0.0.1", "10.0.0.53", 53)
}

/// A query with one question and perhaps additional records.
fn query(name: &str, of: &str, additional: &[&str]) -> Vec<u8> {
    hex(&format!("1234 0100 0001 0000 0000 {:04x} {name} {of} {}", additional.len(), additional.join(" ")))
}

/// The message that answers another one.
fn message(server: &DnsAnswer, asks: &[u8]) -> Result<Vec<u8>, Silence> {
    asked(server, &sent(asks)).map(|got| {
        let (from, to) = verified(&got.frame);
        assert_eq!((from.to_string().as_str(), to.to_string().as_str()), ("10.0.0.53", "10.0.0.1"));
        assert_eq!((got.to, got.kind, got.loads), (None, Answered::DnsAnswer, Vec::new()));
        got.frame[42..].to_vec()
    })
}

#[track_caller]
fn answered(server: &DnsAnswer, asks: &[u8], wanted: &str) {
    let got = message(server, asks).unwrap();
    assert_eq!(got, hex(wanted), "{got:02x?}");
}

#[test]
fn a_name_has_an_ipv4_address() {
    let got = asked(&db(&["address=10.0.0.2"]), &sent(&query(NAME, A, &[]))).unwrap();
    let wanted = format!(
        "020000000001 020000000035 0800
         45 00 004d 0000 4000 40 11 266b 0a000035 0a000001
         0035 c350 0039 c809
         1234 85 00 0001 0001 0000 0000 {NAME} {A}  # QR, AA and RD
         c00c {A} 0000003c 0004 0a000002"
    );
    assert_eq!(got.frame, hex(&wanted), "{:02x?}", got.frame);
}

#[test]
fn a_name_has_an_ipv6_address() {
    let frame = datagram(&query(NAME, AAAA, &[]), "fd00::1", "fd00::53", 53);
    let got = asked(&db(&["address=10.0.0.2", "address=fd00::2"]), &frame).unwrap();
    let wanted = format!(
        "020000000001 020000000035 86dd
         60000000 0045 11 40 fd000000000000000000000000000053 fd000000000000000000000000000001
         0035 c350 0045 9ede
         1234 85 00 0001 0001 0000 0000 {NAME} {AAAA}
         c00c {AAAA} 0000003c 0010 fd000000000000000000000000000002"
    );
    assert_eq!(got.frame, hex(&wanted), "{:02x?}", got.frame);
}

#[test]
fn a_name_has_the_records_of_the_type_that_is_asked_for() {
    let server = db(&["address.0=10.0.0.2", "address.1=10.0.0.3", "address.2=fd00::2"]);
    let a = format!("c00c {A} 0000003c 0004 0a000002 c00c {A} 0000003c 0004 0a000003");
    let aaaa = format!("c00c {AAAA} 0000003c 0010 fd000000000000000000000000000002");
    answered(&server, &query(NAME, A, &[]), &format!("1234 8500 0001 0002 0000 0000 {NAME} {A} {a}"));
    let all = format!("1234 8500 0001 0003 0000 0000 {NAME} {ANY} {a} {aaaa}");
    answered(&server, &query(NAME, ANY, &[]), &all);
    let none = format!("1234 8500 0001 0000 0000 0000 {NAME} {MX}");
    answered(&server, &query(NAME, MX, &[]), &none);
    // The class may be any.
    let any_class = format!("1234 8500 0001 0002 0000 0000 {NAME} 0001 00ff {a}");
    answered(&server, &query(NAME, "0001 00ff", &[]), &any_class);
    // A client that wants no recursion.
    let mut asks = query(NAME, MX, &[]);
    asks[2] = 0;
    answered(&server, &asks, &none.replace("8500", "8400"));
}

#[test]
fn an_alias_has_the_addresses_of_its_target() {
    let server = db(&["cname=a.Example", "address.0=10.0.0.2", "address.1=fd00::2"]);
    let alias = "c00c 0005 0001 0000003c 000b 01 61 07 4578616d706c65 00";
    // Its name begins at 12 of the header, 21 of the question and 12 of the record.
    let a = format!("c02d {A} 0000003c 0004 0a000002");
    let aaaa = format!("c02d {AAAA} 0000003c 0010 fd000000000000000000000000000002");
    for (of, count, records) in
        [(A, 2, &*a), (AAAA, 2, &*aaaa), (MX, 1, ""), ("0005 0001", 1, ""), (ANY, 1, "")]
    {
        let wanted = format!("1234 8500 0001 {count:04x} 0000 0000 {NAME} {of} {alias} {records}");
        answered(&server, &query(NAME, of, &[]), &wanted);
    }
}

#[test]
fn an_address_has_names() {
    let of_v4 = server(&["name=10.0.0.2", "ttl=60", "pointer.0=db.blue.example", "pointer.1=a"]);
    let reverse = "01 32 01 30 01 30 02 3130 07 696e2d61646472 04 61727061 00";
    let pointers = format!(
        "c00c {PTR} 0000003c 0011 02 6462 04 626c7565 07 6578616d706c65 00 c00c {PTR} 0000003c 0003 01 61 00"
    );
    let wanted = format!("1234 8500 0001 0002 0000 0000 {reverse} {PTR} {pointers}");
    answered(&of_v4, &query(reverse, PTR, &[]), &wanted);
    answered(&of_v4, &query(reverse, A, &[]), &format!("1234 8500 0001 0000 0000 0000 {reverse} {A}"));
    let of_v6 = server(&["name=fd00::2", "ttl=60", "pointer=a"]);
    let reverse = format!("01 32 {} 01 64 01 66 03 697036 04 61727061 00", "01 30 ".repeat(29));
    let wanted = format!("1234 8500 0001 0001 0000 0000 {reverse} {PTR} c00c {PTR} 0000003c 0003 01 61 00");
    answered(&of_v6, &query(&reverse, PTR, &[]), &wanted);
}

#[test]
fn names_that_nobody_has_are_not_there_or_elsewhere() {
    let code = |name: &str, of: &str| {
        let got = message(&nobody(), &query(name, of, &[])).unwrap();
        assert_eq!(got[12..], query(name, of, &[])[12..], "the question");
        assert_eq!(got[4..12], [0, 1, 0, 0, 0, 0, 0, 0]);
        u16::from_be_bytes([got[2], got[3]])
    };
    let domain = "04 426c7565 07 6578616d706c65 00";
    assert_eq!(code(NAME, A), 0x8503, "no such name");
    assert_eq!(code(&format!("01 61 {NAME}"), A), 0x8503);
    assert_eq!(code(domain, A), 0x8500, "the domain itself");
    // Whoever answers refusals has authority over nothing.
    assert_eq!(code("07 6578616d706c65 00", A), 0x8105, "what is above it");
    assert_eq!(code("05 62426c7565 07 6578616d706c65 00", A), 0x8105, "the same letters, but no label");
    assert_eq!(code("00", A), 0x8105, "the root");
    assert_eq!(code(NAME, "0001 0003"), 0x8105, "another class");
    assert_eq!(message(&server(&[]), &query(NAME, A, &[])).unwrap()[3], 5, "no domains at all");
}

#[test]
fn what_is_no_query_is_told_so_if_nobody_has_the_name() {
    let update = hex(&format!("1234 2900 0001 0000 0000 0000 {NAME} 0006 0001"));
    answered(&nobody(), &update, "1234 a904 0000 0000 0000 0000");
    let malformed = "1234 8101 0000 0000 0000 0000";
    for asks in [
        "1234 0100 0000 0000 0000 0000".to_owned(),
        format!("1234 0100 0002 0000 0000 0000 {NAME} {A} {NAME} {A}"),
        format!("1234 0100 0001 0000 0000 0000 {NAME} 0001 00"),
        format!("1234 0100 0001 0000 0000 0000 {} {A}", &NAME[..38]),
        // Pointers lead to what is in front, and nothing is in front of the first name.
        format!("1234 0100 0001 0000 0000 0000 c00c {A}"),
        format!("1234 0100 0001 0000 0000 0000 41 {} 00 {A}", "61".repeat(65)),
        format!("1234 0100 0001 0000 0000 0000 {} 00 {A}", format!("3f {} ", "61".repeat(63)).repeat(4)),
        format!("1234 0100 0001 0000 0000 ffff {NAME} {A} {OPT}"),
        format!("1234 0100 0001 0000 0000 0002 {NAME} {A} {OPT} {OPT}"),
        format!("1234 0100 0001 0000 0000 0001 {NAME} {A} 01 61 {OPT}"),
    ] {
        answered(&nobody(), &hex(&asks), malformed);
        assert_eq!(message(&db(&[]), &hex(&asks)), Err(Silence::Damaged), "{asks}");
    }
    assert_eq!(message(&db(&[]), &update), Err(Silence::NoRequest));
    assert_eq!(message(&db(&[]), &query(NAME, "0001 0003", &[])), Err(Silence::NoRequest));
    // Signed queries are read as if they were not: records that are not known have no effect.
    let signature = format!("{NAME} 00fa 00ff 00000000 0002 abcd");
    assert_eq!(message(&db(&[]), &query(NAME, A, &[&signature])).unwrap()[3], 0);
}

#[test]
fn who_says_something_of_itself_hears_the_same_of_the_server() {
    let server = db(&["address=10.0.0.2"]);
    let a = format!("c00c {A} 0000003c 0004 0a000002");
    let wanted = format!("1234 8500 0001 0001 0000 0001 {NAME} {A} {a} {OWN_OPT}");
    answered(&server, &query(NAME, A, &[OPT]), &wanted);
    let cookie = "00 0029 04d0 00000000 000c 000a 0008 0102030405060708";
    answered(&server, &query(NAME, A, &[cookie]), &wanted);
    // A version that is not known yet.
    let newer = OPT.replace("04d0 00 00", "04d0 00 01");
    let wanted =
        format!("1234 8100 0001 0000 0000 0001 {NAME} {A} {}", OWN_OPT.replace("04d0 00", "04d0 01"));
    answered(&server, &query(NAME, A, &[&newer]), &wanted);
    answered(&nobody(), &query(NAME, A, &[&newer]), &wanted);
    let wanted = format!("1234 8503 0001 0000 0000 0001 {NAME} {A} {OWN_OPT}");
    answered(&nobody(), &query(NAME, A, &[OPT]), &wanted);
}

#[test]
fn an_answer_has_as_many_records_as_its_client_takes() {
    let addresses: Vec<String> = (0..200).map(|last| format!("address.{last:03}=10.0.0.{last}")).collect();
    let server = db(&addresses.iter().map(String::as_str).collect::<Vec<_>>());
    let records = |additional: &[&str]| {
        let got = message(&server, &query(NAME, A, additional)).unwrap();
        let count = u16::from_be_bytes([got[6], got[7]]);
        assert_eq!(got[2], 0x85, "nobody answers over TCP, so no answer says that it is cut");
        let last = if additional.is_empty() { got.len() } else { got.len() - 11 };
        assert_eq!(got[last - 4..last], [10, 0, 0, count as u8 - 1], "the first of them");
        (count, got.len())
    };
    // A header and a question of 21 bytes, and 16 for each.
    assert_eq!(records(&[]), (29, 497));
    let takes = |longest: u16| OPT.replace("04d0", &format!("{longest:04x}"));
    assert_eq!(records(&[&takes(0)]), (29, 508), "at least 512");
    assert_eq!(records(&[&takes(540)]), (31, 540));
    assert_eq!(records(&[&takes(539)]), (30, 524));
    assert_eq!(records(&[&takes(1232)]), (74, 1228));
    assert_eq!(records(&[&takes(u16::MAX)]), (74, 1228), "what all networks carry");
}

#[test]
fn what_is_not_for_the_server_gets_no_answer() {
    let server = db(&["address=10.0.0.2"]);
    let silent = |frame: &[u8]| {
        let why = asked(&server, frame).unwrap_err();
        assert_eq!(asked(&nobody(), frame), Err(why));
        why
    };
    let asks = query(NAME, A, &[]);
    let changed = |at: usize, byte: u8| {
        let mut frame = sent(&asks);
        frame[at] = byte;
        silent(&frame)
    };
    assert_eq!(silent(&sent(&message(&server, &asks).unwrap())), Silence::NoRequest, "an answer");
    assert_eq!(silent(&datagram(&asks, "10.0.0.1", "10.0.0.53", 5353)), Silence::NoRequest);
    assert_eq!(silent(&datagram(&asks, "10.0.0.1", "224.0.0.251", 53)), Silence::ToGroup);
    assert_eq!(silent(&datagram(&asks, "0.0.0.0", "10.0.0.53", 53)), Silence::FromNobody);
    assert_eq!(silent(&datagram(&asks, "10.0.0.53", "10.0.0.53", 53)), Silence::FromItself);
    assert_eq!(silent(&sent(&asks[..11])), Silence::Damaged, "a part of a header");
    assert_eq!(silent(&sent(&asks)[..70]), Silence::Damaged, "a part of a packet");
    assert_eq!(changed(60, 0x7f), Silence::Damaged, "the checksum of UDP");
    assert_eq!(changed(0, 1), Silence::GroupFrame);
    // Another name with the same key.
    let other = "02 4443 04 626c7565 07 6578616d706c65 00";
    assert_eq!(message(&server, &query(other, A, &[])), Err(Silence::OtherName));
    assert_eq!(message(&server, &query(&format!("01 61 {NAME}"), A, &[])), Err(Silence::OtherName));
}
