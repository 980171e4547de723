//! Instructions that no packet meets, byte by byte.

use frame_builder::{announcement, gratuitous_arp, unsolicited_advertisement};
use openflow_rs::{Actions, Match};
use packet_answers::{
    Announcement, Ask, Instruction, Malformed, Query, Readiness, Silence, Solicitation, Tunnels,
};

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

fn query(settings: &[&str]) -> Query {
    let Ask::Query(query) = read("query", settings).ask else { panic!("a query") };
    query
}

fn solicitation(settings: &[&str]) -> Solicitation {
    let Ask::Solicitation(solicitation) = read("solicit", settings).ask else { panic!("a solicitation") };
    solicitation
}

/// The frame, once its checksum of `ICMPv6`, at this place, is seen to be right and put to 0.
fn unsummed(mut frame: Vec<u8>, message: usize) -> Vec<u8> {
    let length = (frame.len() - message) as u8;
    let pseudo = [&frame[22..54], &[0, 0, 0, length], &[0, 0, 0, 58]].concat();
    assert_eq!(frame_builder::checksum(&[&pseudo, &frame[message..]]), 0);
    frame[message + 2..message + 4].fill(0);
    frame
}

const ASKS: [&str; 3] = ["mac=02:00:00:00:ff:01", "igmp=10.0.0.252", "mld=true"];

#[test]
fn queries_are_those_of_a_multicast_router() {
    let query = query(&ASKS);
    let igmp = "
        01005e000001 02000000ff01 0800
        46 c0 0024 0000 0000 01 02 3917 0a0000fc e0000001 94040000    # TTL 1, router alert
        11 64 ec1e 00000000 02 7d 0000    # within 10 s, any group, robustness 2, every 125 s";
    let mld = "
        333300000001 02000000ff01 86dd
        60000000 0024 00 01 fe80000000000000000000fffe00ff01 ff020000000000000000000000000001
        3a 00 0502 0000 0100    # router alert: MLD
        82 00 0000 2710 0000 00000000000000000000000000000000 02 7d 0000";
    assert_eq!(query.frame(0).unwrap(), hex(igmp));
    assert_eq!(unsummed(query.frame(1).unwrap(), 62), hex(mld));
    assert_eq!((query.frames(), query.frame(2)), (2, None));
    let alone = self::query(&["mac=02:00:00:00:ff:01", "mld=true"]);
    assert_eq!((alone.frame(0), alone.frame(1)), (query.frame(1), None));
    // Whoever asks often leaves less time to answer: 1 s of 2, and 0.5 s of 1.
    let often = |interval: &str| self::query(&["mac=02:00:00:00:ff:01", "igmp=10.0.0.252", interval]);
    let times = |query: Query| query.frame(0).map(|frame| (frame[39], frame[47])).unwrap();
    assert_eq!(times(often("interval=2")), (10, 2));
    assert_eq!(times(often("interval=1")), (5, 1));
}

#[test]
fn a_neighbour_is_asked_for_its_mac_address() {
    let settings = ["mac=02:00:00:00:ff:01", "from=10.0.0.1", "target=10.0.0.9", "interval=30"];
    let request = "
        ffffffffffff 02000000ff01 0806 0001 0800 06 04 0001
        02000000ff01 0a000001 000000000000 0a000009";
    assert_eq!(solicitation(&settings).frame().unwrap(), hex(request));
    let settings = ["mac=02:00:00:00:ff:01", "from=fd00::1", "target=fd00::12:3456", "interval=30"];
    let wanted = "
        3333ff123456 02000000ff01 86dd
        60000000 0020 3a ff fd000000000000000000000000000001 ff0200000000000000000001ff123456
        87 00 0000 00000000 fd000000000000000000000000123456 01 01 02000000ff01";
    assert_eq!(unsummed(solicitation(&settings).frame().unwrap(), 54), hex(wanted));
}

#[test]
fn questions_have_their_bytes() {
    assert_eq!(read("query", &ASKS).encode(), hex("01 0a 00 0200 0000 ff01 03 007d 0a0000fc"));
    let alone = ["mac=02:00:00:00:ff:01", "mld=true", "interval=20"];
    assert_eq!(read("query", &alone).encode(), hex("01 0a 00 0200 0000 ff01 02 0014"));
    let ipv4 = ["mac=02:00:00:00:ff:01", "from=10.0.0.1", "target=10.0.0.9", "interval=30", "watch=301"];
    let wanted = "01 0b 00 0200 0000 ff01 00 001e 01 0a000001 0a000009 0000012d";
    assert_eq!(read("solicit", &ipv4).encode(), hex(wanted));
    for (bytes, error) in [
        ("01 0a 00 0200 0000 ff01 04 0014", Malformed::Flags(4)),
        ("01 0a 00 0200 0000 ff01 01 0014", Malformed::Short),
        ("01 0b 00 0200 0000 ff01 02 001e 00 0a000001 0a000009", Malformed::Flags(2)),
        ("01 0b 00 0200 0000 ff01 01 001e 00 0a000001 0a000009", Malformed::Short),
    ] {
        assert_eq!(Instruction::decode(&hex(bytes)), Err(error), "{bytes}");
    }
    // Without a pause, they would never end.
    for bytes in ["01 0a 00 0200 0000 ff01 02 0000", "01 0b 00 0200 0000 ff01 00 0000 00 0a000001 0a000009"] {
        let interval = match Instruction::decode(&hex(bytes)).unwrap().ask {
            Ask::Query(query) => query.interval,
            Ask::Solicitation(solicitation) => solicitation.interval,
            other => panic!("{other:?}"),
        };
        assert_eq!(interval, 1);
    }
}

#[test]
fn settings_that_say_too_little_are_refused() {
    assert_eq!(refusal("announce", &["address=10.0.0.1"]), "announce needs the setting mac");
    assert!(
        refusal("announce", &["mac=02:00:00:00:ff:01", "watch=g1"]).starts_with("watch=g1: give the number")
    );
    assert!(refusal("announce", &["mac=02:00:00:00:ff:01", "address=g1"]).contains("give an IP address"));
    let mac = "mac=02:00:00:00:ff:01";
    assert_eq!(refusal("query", &[mac]), "query needs the setting igmp");
    assert!(refusal("query", &[mac, "igmp=fd00::1"]).contains("give an IPv4 address"));
    assert!(refusal("query", &[mac, "mld=true", "interval=0"]).contains("give seconds from 1 to 65535"));
    let asked = |target: &str| refusal("solicit", &[mac, "from=10.0.0.1", target, "interval=9"]);
    assert!(asked("target=fd00::1").contains("of the version of from"));
    assert_eq!(refusal("solicit", &[mac, "from=::1", "target=::2"]), "solicit needs the setting interval");
    let long = format!("hold={}", "g".repeat(256));
    for name in ["hold=", "hold=a,b", "uplink=", &long] {
        assert!(refusal("ready", &[name]).contains("give a name of up to 255 bytes"), "{name}");
    }
}

#[test]
fn a_packet_that_meets_them_gets_no_answer() {
    let asks = ["mac=02:00:00:00:ff:01", "from=10.0.0.1", "target=10.0.0.9", "interval=30"];
    for instruction in [
        read("announce", &SETTINGS),
        read("ready", &["hold=all"]),
        read("query", &ASKS),
        read("solicit", &asks),
    ] {
        let frame = crate::golden::question(crate::golden::UDP4);
        assert_eq!(instruction.answer(&frame, &Match::any()), Err(Silence::NotAsked));
    }
}
