//! Fragments are held until their packet is complete.

use std::net::Ipv4Addr;

use frame_builder::{Ipv4, UDP};
use test_random::Random;

use super::packets::*;
use super::{Both, lines};

/// The fragments of a datagram with so many bytes, each with `size` of them but the last.
fn fragments(pair: Pair, id: u16, bytes: usize, size: usize) -> Vec<Vec<u8>> {
    let datagram = frame_builder::udp(7, 8, &vec![5; bytes], pair.endpoints());
    let pieces: Vec<&[u8]> = datagram.chunks(size).collect();
    let packet = |(number, piece): (usize, &&[u8])| {
        let more = number + 1 < pieces.len();
        if pair.ipv6 {
            let offset = (number * size) as u16 | u16::from(more);
            let header = [&[UDP, 0][..], &offset.to_be_bytes(), &[0, 0], &id.to_be_bytes()].concat();
            return pair.frame(&pair.packet(44, &[&header, *piece].concat()));
        }
        let fragment = (number * size / 8) as u16 | if more { 0x2000 } else { 0 };
        let address = |last| Ipv4Addr::new(10, 0, 0, last);
        let header = Ipv4::new(address(pair.from), address(pair.to), UDP);
        pair.frame(&Ipv4 { identification: id, fragment, ..header }.packet(piece))
    };
    pieces.iter().enumerate().map(packet).collect()
}

const PIPELINE: [&str; 6] = [
    "ip actions=ct(zone=5,table=1)",
    "ipv6 actions=ct(zone=5,table=1)",
    "table=1,priority=2,ip,ct_state=+new-inv actions=ct(commit,zone=5,exec(set_field:7->ct_mark)),ct(zone=6,table=2)",
    "table=1,priority=1,ip actions=ct(zone=6,table=2)",
    "table=1,priority=1,ipv6 actions=ct(commit,zone=6,table=90)",
    "table=2,ip actions=ct(commit,zone=6,table=90)",
];

const ONE_ZONE: [&str; 2] =
    ["ip actions=ct(commit,zone=5,table=90)", "ipv6 actions=ct(commit,zone=5,table=90)"];

#[test]
fn fragments_of_large_datagrams_are_tracked_as_one() {
    let mut both = Both::start();
    both.load(&lines(&PIPELINE)).expect("taken");
    let first = "+new+trk zone 6 1>2 protocol 17 7>8";
    let later = "+new+trk zone 6 1>2 protocol 17 0>0";
    for id in 1..=2 {
        let said: Vec<String> =
            fragments(AB, id, 3000, 1480).iter().map(|frame| both.says("fragment", 1, frame)).collect();
        assert_eq!(said, ["", "", &format!("{later} | {later} | {first}")]);
    }
    let said: Vec<String> =
        fragments(AB.v6(), 3, 3000, 1448).iter().map(|frame| both.says("fragment", 1, frame)).collect();
    assert_eq!(said, ["", "", &format!("{later} | {later} | {first}")]);
    let small = fragments(AB, 4, 1500, 800);
    assert_eq!(both.says("too small", 1, &small[0]), "+inv+trk zone 6");
    assert_eq!(both.says("its last one waits in vain", 1, &small[1]), "");
}

/// All fragments get the address, and the first one the port and the checksum, which covers the whole datagram.
#[test]
fn fragments_of_a_datagram_are_translated_together() {
    let mut both = Both::start();
    both.load(&lines(&[
        "in_port=1,ip actions=ct(commit,zone=5,nat(src=10.0.0.20:2000)),ct(zone=6,table=1)",
        "in_port=1,ipv6 actions=ct(commit,zone=5,nat(src=[fd00::14]:2000),table=1)",
        "in_port=2,ip actions=ct(zone=5,nat,table=1)",
        "in_port=2,ipv6 actions=ct(zone=5,nat,table=1)",
        "table=1,ip actions=output:3,set_field:9->nw_ttl,output:4",
        "table=1,ipv6 actions=output:3,set_field:9->nw_ttl,output:4",
    ]))
    .expect("taken");
    for (pair, size) in [(AB, 1480), (AB.v6(), 1448)] {
        let mut sent = Vec::new();
        for frame in fragments(pair, 1, 3000, size) {
            sent.extend(both.receive(1, &frame).expect("the same"));
        }
        assert_eq!(sent.len(), 6, "three fragments by two ports");
        let header = if pair.ipv6 { 8..24 } else { 12..16 };
        assert!(sent.iter().all(|(_, frame)| frame[14..][header.clone()].last() == Some(&20)));
        let back = Pair { from: 2, to: 20, ..pair };
        let answer = back.frame(&back.udp(8, 2000));
        let sent = both.receive(2, &answer).expect("the same");
        assert_eq!(super::answers::ends(&sent[0].1), "2:8>1:7");
    }
}

#[test]
fn the_original_direction_is_matched_in_all_fragments_and_the_ports_only_in_the_first() {
    let mut both = Both::start();
    let flows = [
        "ip actions=ct(zone=5,table=1)",
        "table=1,priority=3,udp,tp_dst=8 actions=output:1",
        "table=1,priority=2,udp,ct_state=+trk-inv,ct_nw_proto=17,ct_tp_dst=8 actions=output:2",
        "table=1,priority=1,udp,ct_state=+trk-inv,ct_nw_proto=17,ct_nw_dst=10.0.0.2 actions=output:3",
    ];
    both.load(&lines(&flows)).expect("taken");
    let mut ports = Vec::new();
    for frame in fragments(AB, 1, 3000, 1480) {
        ports.extend(both.receive(1, &frame).expect("the same").into_iter().map(|(port, _)| port));
    }
    assert_eq!(ports, [2, 3, 3]);
}

/// The first fragment is judged by its ports; then all of them meet in the zone again, and those of a datagram whose first one was
/// dropped wait in vain.
#[test]
fn fragments_of_a_judged_datagram_meet_in_a_second_pass() {
    let mut both = Both::start();
    let judge = |dst: u16| {
        lines(&[
            "ip actions=ct(zone=5,table=1)",
            "table=1,priority=3,ip,nw_frag=later actions=resubmit(,3)",
            &format!(
                "table=1,priority=2,ip,ct_state=+trk-inv,ct_nw_proto=17,ct_tp_dst={dst} actions=resubmit(,3)"
            ),
            "table=3,priority=2,ip,ct_state=+new+trk actions=ct(commit,zone=5),resubmit(,4)",
            "table=3,priority=1,ip,nw_frag=yes,ct_state=+trk actions=ct(zone=5),resubmit(,4)",
            "table=3,priority=0 actions=resubmit(,4)",
            "table=4 actions=output:3",
        ])
    };
    let mut count = |dst: u16| {
        both.load(&judge(dst)).expect("taken");
        // The second datagram belongs to the connection that the first one began.
        let sent = (1..=2).map(|id| {
            let frames = fragments(AB, dst * 2 + id, 3000, 1480);
            frames.iter().map(|frame| both.receive(1, frame).expect("the same").len()).collect::<Vec<_>>()
        });
        sent.collect::<Vec<_>>()
    };
    assert_eq!(count(8), [[0, 0, 3], [0, 0, 3]]);
    assert_eq!(count(9), [[0, 0, 0], [0, 0, 0]]);
}

/// A clone is held alone: what follows it does not wait.
#[test]
fn a_fragment_that_is_cloned_into_conntrack_goes_on_without_its_clone() {
    let mut both = Both::start();
    both.load(&lines(&["ip actions=clone(ct(zone=5,table=1)),output:2", "table=1,ip actions=output:3"]))
        .expect("taken");
    let mut ports = Vec::new();
    for frame in fragments(AB, 1, 3000, 1480) {
        ports.push(
            both.receive(1, &frame).expect("the same").iter().map(|(port, _)| *port).collect::<Vec<_>>(),
        );
    }
    assert_eq!(ports, [vec![2], vec![2], vec![2, 3, 3, 3]]);
}

#[test]
fn random_fragments_go_as_in_open_vswitch() {
    let mut both = Both::start();
    let mut sent = 0;
    for seed in test_random::seeds!("random_fragments_go_as_in_open_vswitch", 10) {
        let mut random = Random::new(seed);
        // A fragment that comes twice is invalid in the first zone; what becomes of it in a second one differs.
        let twice = random.chance(50);
        both.load(&lines(if twice { &ONE_ZONE[..] } else { &PIPELINE[..] })).expect("taken");
        // Fragments that are held from earlier cases have other numbers.
        let id = |number: u64| (seed * 8 + number) as u16;
        let mut frames: Vec<Vec<u8>> = (0..3)
            .flat_map(|number| {
                let pair = Pair { ipv6: random.chance(30), ..AB };
                // A port sends nothing that is larger than 1,500 bytes.
                let size = *random.pick(&[1448, 1448, 1240, 800]);
                let bytes = 500 + random.below(4000) as usize;
                fragments(pair, id(number), bytes, size)
            })
            .collect();
        for _ in 0..frames.len() {
            let (one, other) = (random.below(frames.len() as u64), random.below(frames.len() as u64));
            frames.swap(one as usize, other as usize);
        }
        if twice {
            let again = random.pick(&frames).clone();
            frames.insert(random.below(frames.len() as u64) as usize, again);
        }
        for frame in frames {
            sent += both
                .receive(1, &frame)
                .unwrap_or_else(|difference| panic!("seed {seed}\n{difference}"))
                .len();
        }
    }
    assert!(sent > 0, "no packet was complete");
}
