//! Instructions that no packet meets, byte by byte.

use frame_builder::{announcement, gratuitous_arp, unsolicited_advertisement};
use openflow_rs::{Actions, Match};
use packet_answers::{Announcement, Ask, Instruction, Malformed, Readiness, Silence, Tunnels};

use crate::golden::hex;

fn read(kind: &str, settings: &[&str]) -> Instruction {
    Instruction::from_settings(kind, settings.iter().copied(), Actions::drop()).unwrap()
}

fn refusal(kind: &str, settings: &[&str]) -> String {
    Instruction::from_settings(kind, settings.iter().copied(), Actions::drop()).unwrap_err().to_string()
}

fn announced(settings: &[&str]) -> Announcement {
    let Ask::Announcement(announcement) = read("announce", settings).ask else { panic!("an announcement") };
    announcement
}

const MAC: [u8; 6] = [2, 0, 0, 0, 0xff, 1];
const SETTINGS: [&str; 7] = [
    "mac=02:00:00:00:ff:01",
    "router=true",
    "address.0=203.0.113.10",
    "address.1=2001:db8::10",
    "address.2=203.0.113.11",
    "watch=301",
    "watch=302",
];

#[test]
fn an_announcement_has_its_bytes() {
    let wanted = "
        01 08 00
        0200 0000 ff01 01 02 01 02
        cb00710a cb00710b 20010db8000000000000000000000010
        0000012d 0000012e";
    let instruction = read("announce", &SETTINGS);
    assert_eq!(instruction.encode(), hex(wanted));
    let damaged = |at: usize, byte: u8| {
        let mut bytes = hex(wanted);
        bytes[at] = byte;
        Instruction::decode(&bytes)
    };
    assert_eq!(damaged(9, 2), Err(Malformed::Flags(2)));
    assert_eq!(damaged(10, 9), Err(Malformed::Short));
}

#[test]
fn each_address_has_its_frame_and_a_mac_address_alone_has_one() {
    let said = announced(&SETTINGS);
    assert_eq!(said.frames(), 3);
    // The advertisement of a router, to all nodes.
    let router = "
        333300000001 02000000ff01 86dd
        60000000 0020 3a ff 20010db8000000000000000000000010 ff020000000000000000000000000001
        88 00 ____ a0000000 20010db8000000000000000000000010 02 01 02000000ff01";
    let mut router = hex(&router.replace("____", "0000"));
    let pseudo = [&router[22..54], &[0, 0, 0, 32], &[0, 0, 0, 58]].concat();
    let sum = frame_builder::checksum(&[&pseudo, &router[54..]]);
    router[56..58].copy_from_slice(&sum.to_be_bytes());
    let frames: Vec<Vec<u8>> = (0..4).filter_map(|number| said.frame(number)).collect();
    let arp = |last| gratuitous_arp(MAC, [203, 0, 113, last].into());
    assert_eq!(frames, [arp(10), arp(11), router]);

    let machine = announced(&["mac=02:00:00:00:ff:01", "address=2001:db8::10"]);
    assert_eq!(machine.frame(0), Some(unsolicited_advertisement(MAC, "2001:db8::10".parse().unwrap())));
    let alone = announced(&["mac=02:00:00:00:ff:01"]);
    assert_eq!((alone.frames(), alone.frame(0), alone.frame(1)), (1, Some(announcement(MAC)), None));
}

#[test]
fn a_switch_that_is_ready_has_its_bytes() {
    let instruction = read("ready", &["hold=g1", "hold=tun-2", "uplink=eth1"]);
    let wanted = "01 09 00 00 02 01 02 6731 05 74756e2d32 04 65746831";
    assert_eq!(instruction.encode(), hex(wanted));
    assert_eq!(read("ready", &["hold=g1", "hold=all"]).encode(), hex("01 09 00 01 00 00"));
    assert_eq!(read("ready", &[]).ask, Ask::Ready(Readiness::default()));
    assert_eq!(Readiness::default().hold, Tunnels::These(vec![]));
    for (bytes, error) in [
        ("01 09 00 02 00 00", Malformed::Flags(2)),
        ("01 09 00 01 01 00 01 67", Malformed::Flags(1)),
        ("01 09 00 00 01 00 00", Malformed::Interface),
        ("01 09 00 00 01 00 01 ff", Malformed::Interface),
        ("01 09 00 00 01 00 01 2c", Malformed::Interface),
        ("01 09 00 00 00 01 02 67", Malformed::Short),
    ] {
        assert_eq!(Instruction::decode(&hex(bytes)), Err(error), "{bytes}");
    }
}

#[test]
fn settings_that_say_too_little_are_refused() {
    assert_eq!(refusal("announce", &["address=10.0.0.1"]), "announce needs the setting mac");
    assert!(
        refusal("announce", &["mac=02:00:00:00:ff:01", "watch=g1"]).starts_with("watch=g1: give the number")
    );
    assert!(refusal("announce", &["mac=02:00:00:00:ff:01", "address=g1"]).contains("give an IP address"));
    let long = format!("hold={}", "g".repeat(256));
    for name in ["hold=", "hold=a,b", "uplink=", &long] {
        assert!(refusal("ready", &[name]).contains("give a name of up to 255 bytes"), "{name}");
    }
}

#[test]
fn a_packet_that_meets_them_gets_no_answer() {
    for instruction in [read("announce", &SETTINGS), read("ready", &["hold=all"])] {
        let frame = crate::golden::question(crate::golden::UDP4);
        assert_eq!(instruction.answer(&frame, &Match::any()), Err(Silence::NotAsked));
    }
}
