//! Answers byte by byte, written by hand from the RFCs.

use std::net::IpAddr;

use packet_answers::{Address, Reason, Silence, answer_error as answer};

/// Bytes as hexadecimal, with blanks anywhere and comments behind `#`.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: String = text
        .lines()
        .filter_map(|line| line.split('#').next())
        .flat_map(str::chars)
        .filter(|c| !c.is_whitespace())
        .collect();
    assert!(digits.len().is_multiple_of(2), "whole bytes: {digits}");
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

/// A frame in which `____` stands for the checksum of an IPv4 header without options.
pub(crate) fn question(text: &str) -> Vec<u8> {
    let mut frame = hex(&text.replace("____", "0000"));
    if text.contains("____") {
        let sum = frame_builder::checksum(&[&frame[14..34]]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    }
    frame
}

fn addresses() -> Vec<Address> {
    let own = |text: &str| {
        let (address, prefix) = text.split_once('/').unwrap();
        Address { address: address.parse().unwrap(), prefix: prefix.parse().unwrap() }
    };
    ["172.16.0.1/30", "10.0.1.254/24", "fd02::fe/64", "fd01::fe/64"].map(own).to_vec()
}

/// A datagram to port 33434, as of traceroute.
pub(crate) const UDP4: &str = "
    0200000000ff 020000000001 0800
    45 00 0020 1234 0000 01 11 ____ 0a000101 0a000201 # TTL 1, UDP, from 10.0.1.1 to 10.0.2.1
    c350 829a 000c 0000 61626364";

pub(crate) const UDP6: &str = "
    0200000000ff 020000000001 86dd
    60000000 000c 11 01 fd010000000000000000000000000001 fd020000000000000000000000000001
    c350 829a 000c abcd 61626364";

/// A connection request with a sequence number of 0x01020304.
const SYN4: &str = "
    0200000000ff 020000000001 0800
    45 00 002c 1234 4000 40 06 ____ 0a000101 0a0001fe
    c350 0050 01020304 00000000 60 02 faf0 0000 0000 020405b4";

/// What a closed port answers. The rest of the frame is the same for all of it.
fn answered(asked: &str, reason: Reason, wanted: &str) {
    let got = answer(&question(asked), reason, 1400, &addresses()).unwrap();
    assert_eq!(got.frame, hex(wanted), "{:02x?}", got.frame);
}

#[test]
fn a_ttl_that_ends_is_answered_from_the_network_of_the_sender() {
    answered(
        UDP4,
        Reason::TimeExceeded,
        "020000000001 0200000000ff 0800
         45 c0 003c 0000 4000 40 01 2303 0a0001fe 0a000101  # from 10.0.1.254, which connects the sender
         0b 00 ea41 00000000                                # time exceeded in transit
         45 00 0020 1234 0000 01 11 9098 0a000101 0a000201  # the packet as it came
         c350 829a 000c 0000 61626364",
    );
    answered(
        UDP6,
        Reason::TimeExceeded,
        "020000000001 0200000000ff 86dd
         60000000 003c 3a 40 fd0100000000000000000000000000fe fd010000000000000000000000000001
         03 00 dfe6 00000000
         60000000 000c 11 01 fd010000000000000000000000000001 fd020000000000000000000000000001
         c350 829a 000c abcd 61626364",
    );
}

#[test]
fn a_connection_request_to_a_closed_port_is_reset() {
    answered(
        SYN4,
        Reason::Closed,
        "020000000001 0200000000ff 0800
         45 00 0028 0000 4000 40 06 23d2 0a0001fe 0a000101
         0050 c350 00000000 01020305 50 14 0000 d12a 0000   # acknowledges the SYN; RST and ACK",
    );
}

/// The message of an answer to a datagram: type, code, and the four bytes that depend on them.
fn message(asked: &str, reason: Reason) -> (IpAddr, u8, u8, [u8; 4]) {
    let got = answer(&question(asked), reason, 1400, &addresses()).unwrap().frame;
    let ip = &got[14..];
    let (from, at): (IpAddr, usize) = match ip[0] >> 4 {
        4 => (<[u8; 4]>::try_from(&ip[12..16]).unwrap().into(), 20),
        _ => (<[u8; 16]>::try_from(&ip[8..24]).unwrap().into(), 40),
    };
    (from, ip[at], ip[at + 1], ip[at + 4..at + 8].try_into().unwrap())
}

#[test]
fn each_reason_has_its_type_and_code() {
    let (router4, router6): (IpAddr, IpAddr) = ("10.0.1.254".parse().unwrap(), "fd01::fe".parse().unwrap());
    // Of what is closed or rejected speaks the address that was asked.
    let (asked4, asked6): (IpAddr, IpAddr) = ("10.0.2.1".parse().unwrap(), "fd02::1".parse().unwrap());
    let none = [0; 4];
    assert_eq!(message(UDP4, Reason::NoRoute), (router4, 3, 0, none));
    assert_eq!(message(UDP4, Reason::HostUnreachable), (router4, 3, 1, none));
    assert_eq!(message(UDP4, Reason::Closed), (asked4, 3, 3, none));
    assert_eq!(message(UDP4, Reason::TooBig), (router4, 3, 4, [0, 0, 0x05, 0x78]));
    assert_eq!(message(UDP4, Reason::Rejected), (asked4, 3, 13, none));
    assert_eq!(message(UDP6, Reason::NoRoute), (router6, 1, 0, none));
    assert_eq!(message(UDP6, Reason::HostUnreachable), (router6, 1, 3, none));
    assert_eq!(message(UDP6, Reason::Closed), (asked6, 1, 4, none));
    assert_eq!(message(UDP6, Reason::TooBig), (router6, 2, 0, [0, 0, 0x05, 0x78]));
    assert_eq!(message(UDP6, Reason::Rejected), (asked6, 1, 1, none));
    // SCTP: no port is closed, but the protocol is unknown. The pointer leads to its number.
    let sctp4 = UDP4.replace("01 11", "01 84");
    assert_eq!(message(&sctp4, Reason::Closed), (asked4, 3, 2, none));
    let sctp6 = UDP6.replace("000c 11 01", "000c 84 01");
    assert_eq!(message(&sctp6, Reason::Closed), (asked6, 4, 1, [0, 0, 0, 6]));
    let behind_options =
        UDP6.replace("000c 11 01", "0014 3c 01").replace("c350 829a", "8400010400000000 c350 829a");
    assert_eq!(message(&behind_options, Reason::Closed), (asked6, 4, 1, [0, 0, 0, 40]));
}

#[test]
fn the_source_is_the_address_that_was_asked_or_the_nearest_or_the_first() {
    let from = |asked: &str, reason| message(asked, reason).0.to_string();
    assert_eq!(from(&UDP4.replace("0a000101", "0a000201"), Reason::TimeExceeded), "172.16.0.1");
    let to_other_port = UDP4.replace("0a000201", "ac100001");
    assert_eq!(from(&to_other_port, Reason::Closed), "172.16.0.1", "the address that was asked");
    assert_eq!(from(&to_other_port, Reason::TimeExceeded), "10.0.1.254");
    let beyond = UDP4.replace("0a000201", "0a000963");
    assert_eq!(from(&beyond, Reason::Closed), "10.0.9.99", "the router has it on another switch");
    // Nobody's addresses: the destination rejects by itself.
    let own = answer(&question(UDP4), Reason::Rejected, 0, &[]).unwrap();
    assert_eq!(own.frame[26..30], [10, 0, 2, 1]);
}

#[test]
fn resets_continue_the_numbers_of_their_segment() {
    let reset = |flags: &str, payload: &str| {
        let length = 40 + hex(payload).len();
        let segment = format!(
            "0200000000ff 020000000001 0800 45 00 {length:04x} 1234 4000 40 06 ____ 0a000101 0a0001fe
             c350 0050 01020304 0a0b0c0d 50 {flags} faf0 0000 0000 {payload}"
        );
        answer(&question(&segment), Reason::Rejected, 0, &addresses())
            .map(|answer| answer.frame[38..48].to_vec())
    };
    let ack = reset("10", "").unwrap();
    assert_eq!(ack[..], hex("0a0b0c0d 00000000 50 04"), "the sequence number is the one acknowledged");
    let fin = reset("01", "616263").unwrap();
    assert_eq!(fin[..], hex("00000000 01020308 50 14"), "three bytes and a FIN are acknowledged");
    assert_eq!(reset("04", ""), Err(Silence::IsReset));
    assert_eq!(reset("14", ""), Err(Silence::IsReset));
}

#[test]
fn what_must_not_be_answered_is_not() {
    let silent = |asked: &str| answer(&question(asked), Reason::TimeExceeded, 0, &addresses()).unwrap_err();
    assert_eq!(silent("0200000000ff 020000000001 0806 0001"), Silence::NotIp);
    assert_eq!(silent("0200000000ff 0200"), Silence::Damaged);
    assert_eq!(silent(&UDP4.replace("____", "9097")), Silence::Damaged, "the checksum");
    assert_eq!(silent(&UDP4.replace("0200000000ff", "ffffffffffff")), Silence::GroupFrame);
    assert_eq!(silent(&UDP4.replace("0a000201", "e0000001")), Silence::ToGroup);
    assert_eq!(silent(&UDP6.replace("fd020000", "ff020000")), Silence::ToGroup);
    assert_eq!(silent(&UDP4.replace("0a000101", "00000000")), Silence::FromNobody);
    assert_eq!(silent(&UDP6.replace("fd010000", "ff010000")), Silence::FromNobody);
    assert_eq!(silent(&UDP4.replace("0000 01 11", "0001 01 11")), Silence::LaterFragment);
    let later6 = UDP6.replace("000c 11 01", "0014 2c 01").replace("c350 829a", "1100000800000007 c350 829a");
    assert_eq!(silent(&later6), Silence::LaterFragment);
    let first6 = later6.replace("11000008", "11000001");
    assert!(answer(&question(&first6), Reason::TimeExceeded, 0, &addresses()).is_ok(), "a first fragment is");
    // An echo request is answered, and an unreachable is not.
    let echo = UDP4.replace("01 11", "01 01").replace("c350 829a", "0800 0000");
    assert!(answer(&question(&echo), Reason::TimeExceeded, 0, &addresses()).is_ok());
    assert_eq!(silent(&echo.replace("0800 0000", "0301 0000")), Silence::IsError);
    assert_eq!(silent(&echo.replace("0800 0000", "6300 0000")), Silence::IsError, "an unknown type");
    let echo6 = UDP6.replace("000c 11 01", "000c 3a 01").replace("c350 829a", "8000 0000");
    assert!(answer(&question(&echo6), Reason::TimeExceeded, 0, &addresses()).is_ok());
    for kind in ["01", "64", "89"] {
        assert_eq!(silent(&echo6.replace("8000 0000", &format!("{kind}00 0000"))), Silence::IsError);
    }
    assert_eq!(silent(&UDP4.replace("0a000101", "0a0001fe")), Silence::FromItself);
    let without_ipv6 = &addresses()[..2];
    assert_eq!(answer(&question(UDP6), Reason::NoRoute, 0, without_ipv6), Err(Silence::NoAddress));
}

#[test]
fn a_long_packet_is_quoted_as_far_as_all_networks_carry_it() {
    let mut long4 = question(&UDP4.replace("0020 1234", "05dc 1234"));
    long4.resize(14 + 1500, 7);
    let got = answer(&long4, Reason::TooBig, 1400, &addresses()).unwrap().frame;
    assert_eq!(got.len(), 14 + 576);
    assert_eq!(got[42..], long4[14..14 + 548]);
    let mut long6 = hex(&UDP6.replace("000c 11 01", "05b4 11 01"));
    long6.resize(14 + 1500, 7);
    let got = answer(&long6, Reason::TooBig, 1400, &addresses()).unwrap().frame;
    assert_eq!(got.len(), 14 + 1280);
    // The padding of a short frame is no part of the packet.
    let mut padded = question(UDP4);
    padded.resize(60, 0xee);
    let got = answer(&padded, Reason::TimeExceeded, 0, &addresses()).unwrap().frame;
    assert_eq!(got, answer(&question(UDP4), Reason::TimeExceeded, 0, &addresses()).unwrap().frame);
}
