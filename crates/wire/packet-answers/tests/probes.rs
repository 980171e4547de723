//! Probes, byte by byte, and the packets that answer them.

use frame_builder::{Endpoints, IPV4, Ipv4, TCP, ethernet, tcp};
use openflow_rs::{Actions, Match};
use packet_answers::{Ask, Conversation, Instruction, Malformed, Probe, Returned, Silence};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::golden::hex;
use crate::properties::frames;

const ENDS: [&str; 5] =
    ["id=web:1", "from=10.0.0.1", "from_mac=02:00:00:00:ff:01", "to=10.0.0.9", "to_mac=02:00:00:00:00:09"];

fn settings<'a>(others: &[&'a str]) -> Vec<&'a str> {
    let named = |setting: &&str| {
        let (name, _) = setting.split_once('=').unwrap();
        !others.iter().any(|other| other.starts_with(&format!("{name}=")))
    };
    ENDS.into_iter().filter(named).chain(others.iter().copied()).collect()
}

fn read(others: &[&str]) -> Instruction {
    Instruction::from_settings("probe", settings(others), Actions::drop()).unwrap()
}

fn refusal(others: &[&str]) -> String {
    Instruction::from_settings("probe", settings(others), Actions::drop()).unwrap_err().to_string()
}

fn probe(others: &[&str]) -> Probe {
    let Ask::Probe(probe) = read(others).ask else { panic!("a probe") };
    probe
}

#[test]
fn a_probe_has_its_bytes() {
    let http = "
        01 0c 00
        00 03 1f90 000a 0003 02 04
        02000000ff01 020000000009 0a000001 0a000009
        05 7765623a31 02 2f68";
    let all = ["check=http:8080:/h", "interval=10", "timeout=3", "failures=2", "successes=4"];
    assert_eq!(read(&all).encode(), hex(http));
    let icmp = "
        01 0c 00
        01 02 0000 0005 0002 03 03
        02000000ff01 020000000009
        fd000000000000000000000000000001 fd000000000000000000000000000009
        05 7765623a31 00";
    assert_eq!(read(&["check=icmp", "from=fd00::1", "to=fd00::9"]).encode(), hex(icmp));
    assert_eq!(probe(&["check=tcp:80", "interval=1"]).timeout, 1, "never longer than the interval");
    let probed = Instruction::from_settings("probed", [], Actions::drop()).unwrap();
    assert_eq!(probed.encode(), hex("01 0d 00"));
    assert!(Instruction::is_of_probed(&probed.encode()));
    assert!(!Instruction::is_of_probed(&hex(http)) && !Instruction::is_of_probed(&[1]));
}

#[test]
fn bytes_that_no_probe_has_are_refused() {
    let whole = read(&["check=tcp:80"]).encode();
    let changed = |at: usize, byte: u8| {
        let mut bytes = whole.clone();
        bytes[at] = byte;
        Instruction::decode(&bytes)
    };
    assert!(changed(6, 81).is_ok());
    assert_eq!(changed(3, 2), Err(Malformed::Flags(2)));
    // An unknown check, no port, no interval, a timeout beyond it, no failures, no successes, the address of nobody, a space.
    for (at, byte) in
        [(4, 4), (4, 2), (6, 0), (8, 0), (10, 9), (11, 0), (12, 0), (25, 0), (25, 224), (34, b' ')]
    {
        assert_eq!(changed(at, byte), Err(Malformed::Probe), "byte {at} is {byte:#x}");
    }
}

#[test]
fn settings_that_make_no_probe_are_refused() {
    assert_eq!(refusal(&[]), "probe needs the setting check");
    for check in
        ["tcp", "tcp:0", "tcp:65536", "icmp:1", "http:80", "http:80:healthz", "http:80:/a b", "udp:53"]
    {
        let why = format!("check={check}: use tcp:PORT, icmp or http:PORT:/PATH");
        assert_eq!(refusal(&[&format!("check={check}")]), why);
    }
    let said = |setting: &str| refusal(&["check=icmp", setting]);
    assert_eq!(said("interval=0"), "interval=0: give seconds, from 1 to 3600");
    assert_eq!(said("timeout=6"), "timeout=6: give seconds, from 1 to 5");
    assert_eq!(said("failures=0"), "failures=0: give a number from 1 to 255");
    assert!(said("to=fd00::9").contains("of the version of from"));
    assert!(said("to=10.0.0.1").contains("another host"));
    assert!(said("from=224.0.0.1").contains("of a host"));
    assert!(said("id=a b").contains("without spaces") && said("id=").contains("without spaces"));
}

#[test]
fn an_echo_request_has_its_bytes_and_its_answer() {
    let (request, reply) = probe(&["check=icmp"]).echo(0x1234, 7, b"abcd");
    let wanted = "45000020 0000 4000 40 01 26d4 0a000001 0a000009 0800 20fe 1234 0007 61626364";
    assert_eq!(request, hex(wanted));
    assert_eq!(reply, hex("0000 28fe 1234 0007 61626364"));
    let probe = probe(&["check=icmp", "from=fd00::1", "to=fd00::9"]);
    let (request, reply) = probe.echo(0x1234, 7, b"abcd");
    assert_eq!(request[..8], hex("60000000 000c 3a 40"));
    let pseudo = [&request[8..40], &[0, 0, 0, 12, 0, 0, 0, 58]].concat();
    assert_eq!(frame_builder::checksum(&[&pseudo, &request[40..]]), 0, "it sums up");
    assert_eq!((request[40], reply[0]), (128, 129));
    let frame = probe.frame(&request);
    assert_eq!(frame[..14], hex("020000000009 02000000ff01 86dd"));
    // Whoever is asked sends the same backwards.
    let back = [&request[..8], &request[24..40], &request[8..24], &reply].concat();
    let back = ethernet(probe.from_mac, probe.to_mac, 0x86dd, &back);
    let returned = Returned::read(&back).unwrap();
    let conversation = Conversation { from: probe.from, to: probe.to, port: None, own: 0x1234 };
    assert_eq!((returned.conversation, returned.payload), (conversation, &reply[..]));
    assert_eq!(Returned::read(&frame), Err(Silence::NoProbe), "a request is no answer");
}

#[test]
fn a_segment_belongs_to_the_conversation_with_its_ports() {
    let (from, to) = ([10, 0, 0, 9].into(), [10, 0, 0, 1].into());
    let packet = Ipv4::new(from, to, TCP).packet(&tcp(8080, 50_000, 0x12, &[], Endpoints::V4(from, to)));
    let frame = ethernet([2; 6], [4; 6], IPV4, &packet);
    let conversation = Conversation { from: to.into(), to: from.into(), port: Some(8080), own: 50_000 };
    // Whatever a short frame is padded with is not part of it.
    let padded = [&frame[..], &[0; 6]].concat();
    let returned = Returned::read(&padded).unwrap();
    assert_eq!((returned.conversation, returned.packet), (conversation, &packet[..]));
    assert_eq!(Returned::read(&frame[..frame.len() - 1]), Err(Silence::Damaged));
    let fragment = Ipv4 { fragment: 0x2000, ..Ipv4::new(from, to, TCP) }.packet(&[0; 24]);
    assert_eq!(Returned::read(&ethernet([2; 6], [4; 6], IPV4, &fragment)), Err(Silence::Fragment));
}

#[test]
fn a_packet_that_meets_them_gets_no_answer() {
    let frame = crate::golden::question(crate::golden::UDP4);
    let probed = Instruction::from_settings("probed", [], Actions::drop()).unwrap();
    assert_eq!(read(&["check=icmp"]).answer(&frame, &Match::any()), Err(Silence::NotAsked));
    assert_eq!(probed.answer(&frame, &Match::any()), Err(Silence::NoProbe));
    assert_eq!(Returned::read(&frame), Err(Silence::NoProbe));
}

proptest! {
    #[test]
    fn any_packet_can_be_handed_over(frame in frames(), bytes in vec(any::<u8>(), 0..200)) {
        let _ = Returned::read(&frame);
        let _ = Returned::read(&bytes);
    }
}
