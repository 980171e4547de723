//! What connection tracking says of packets, in the switch and here. The texts are as the switch printed them.

use super::packets::*;
use super::{Both, lines};

/// Tracks in zone 5, shows the state, and commits what is new with mark 77 and label 55.
const COMMITTING: [&str; 5] = [
    "priority=1,ip actions=ct(table=1,zone=5)",
    "priority=1,ipv6 actions=ct(table=1,zone=5)",
    "table=1,priority=2,ip,ct_state=+new-inv actions=resubmit(,90),\
     ct(commit,zone=5,exec(set_field:0x77->ct_mark,set_field:0x55->ct_label))",
    "table=1,priority=2,ipv6,ct_state=+new-inv actions=resubmit(,90),\
     ct(commit,zone=5,exec(set_field:0x77->ct_mark,set_field:0x55->ct_label))",
    "table=1,priority=0 actions=resubmit(,90)",
];
const INVALID: &str = "+inv+trk zone 5";

/// Sends packets, each with its name and what the switch says of it.
#[track_caller]
fn says(both: &mut Both, packets: &[(&str, u16, Vec<u8>, &str)]) {
    for (what, port, frame, expected) in packets {
        assert_eq!(both.says(what, *port, frame), *expected, "{what}");
    }
}

fn segment(pair: Pair, flags: u8, sequence: u32, acknowledged: u32) -> Vec<u8> {
    let ports = if pair.from == 1 { (7, 80) } else { (80, 7) };
    pair.frame(&pair.tcp(Segment::new(ports, flags, sequence, acknowledged)))
}

#[test]
fn tcp_connections_open_close_and_open_again() {
    let mut both = Both::start();
    both.load(&lines(&COMMITTING)).expect("taken");
    let first = "+new+trk zone 5 1>2 protocol 6 7>80";
    let again = "+new+trk zone 5 mark 77 label 55 1>2 protocol 6 7>80";
    let forth = "+est+trk zone 5 mark 77 label 55 1>2 protocol 6 7>80";
    let back = "+est+rpl+trk zone 5 mark 77 label 55 1>2 protocol 6 7>80";
    let far = AB.frame(&AB.tcp(Segment { payload: 5, ..Segment::new((7, 80), PSH | ACK, 900_000, 501) }));
    says(
        &mut both,
        &[
            ("SYN and ACK of nothing", 2, segment(BA, SYN | ACK, 1, 1), INVALID),
            ("FIN without ACK", 1, segment(AB, FIN, 1, 1), INVALID),
            ("no flag", 1, segment(AB, 0, 1, 1), INVALID),
            ("SYN and FIN", 1, segment(AB, SYN | FIN, 1, 1), INVALID),
            ("SYN", 1, segment(AB, SYN, 100, 0), first),
            ("SYN again", 1, segment(AB, SYN, 100, 0), again),
            ("ACK before an answer", 1, segment(AB, ACK, 101, 0), forth),
            ("SYN and ACK", 2, segment(BA, SYN | ACK, 500, 101), back),
            ("ACK", 1, segment(AB, ACK, 101, 501), forth),
            ("outside the window", 1, far, "+inv+trk zone 5 mark 77 label 55"),
            ("FIN", 1, segment(AB, FIN | ACK, 101, 501), forth),
            ("FIN of the other", 2, segment(BA, FIN | ACK, 501, 102), back),
            ("the last ACK", 1, segment(AB, ACK, 102, 502), forth),
            ("SYN after the end", 1, segment(AB, SYN, 9000, 0), first),
        ],
    );
}

#[test]
fn tcp_connections_are_picked_up_in_the_middle() {
    let mut both = Both::start();
    both.load(&lines(&COMMITTING)).expect("taken");
    says(
        &mut both,
        &[
            ("ACK", 1, segment(AB, ACK, 100, 900), "+new+trk zone 5 1>2 protocol 6 7>80"),
            (
                "ACK again",
                1,
                segment(AB, ACK, 100, 900),
                "+est+trk zone 5 mark 77 label 55 1>2 protocol 6 7>80",
            ),
            (
                "back",
                2,
                segment(BA, ACK, 900, 100),
                "+est+rpl+trk zone 5 mark 77 label 55 1>2 protocol 6 7>80",
            ),
            ("RST", 1, segment(AB, RST, 100, 0), "+est+trk zone 5 mark 77 label 55 1>2 protocol 6 7>80"),
            ("SYN of the other", 2, segment(BA, SYN, 900, 0), "+new+trk zone 5 2>1 protocol 6 80>7"),
        ],
    );
    both.load(&lines(&COMMITTING)).expect("taken");
    says(&mut both, &[("RST alone", 1, segment(AB, RST, 1, 0), "+new+trk zone 5 1>2 protocol 6 7>80")]);
}

#[test]
fn datagrams_and_echoes_are_new_until_they_are_answered() {
    let mut both = Both::start();
    both.load(&lines(&COMMITTING)).expect("taken");
    let wrong_sum = |mut frame: Vec<u8>, at: usize| {
        frame[at] ^= 1;
        frame
    };
    for (ipv6, protocol) in [(false, 1), (true, 58)] {
        let (ab, ba) = (Pair { ipv6, ..AB }, Pair { ipv6, ..BA });
        let kind = if ipv6 { 128 } else { 8 };
        let marked = "zone 5 mark 77 label 55 1>2";
        let udp = |state: &str| format!("{state} {marked} protocol 17 7>53");
        let echo = |state: &str| format!("{state} {marked} protocol {protocol} {kind}>0");
        let (ask, answer) = (|| ab.frame(&ab.udp(7, 53)), ba.frame(&ba.udp(53, 7)));
        let ping = || ab.frame(&ab.echo(false, 1));
        says(
            &mut both,
            &[
                ("datagram", 1, ask(), "+new+trk zone 5 1>2 protocol 17 7>53"),
                ("another", 1, ask(), &udp("+new+trk")),
                ("a third", 1, ask(), &udp("+new+trk")),
                ("answer", 2, answer, &udp("+est+rpl+trk")),
                ("the next", 1, ask(), &udp("+est+trk")),
                ("wrong checksum", 1, wrong_sum(ask(), ask().len() - 1), INVALID),
                ("reply of nothing", 2, ba.frame(&ba.echo(true, 1)), INVALID),
                ("echo", 1, ping(), &format!("+new+trk zone 5 1>2 protocol {protocol} {kind}>0")),
                ("again", 1, ping(), &echo("+new+trk")),
                ("reply", 2, ba.frame(&ba.echo(true, 1)), &echo("+est+rpl+trk")),
                ("the next", 1, ping(), &echo("+est+trk")),
                (
                    "an echo of the other",
                    2,
                    ba.frame(&ba.echo(false, 1)),
                    &format!("+new+trk zone 5 2>1 protocol {protocol} {kind}>0"),
                ),
            ],
        );
    }
    says(&mut both, &[("wrong IP checksum", 1, wrong_sum(AB.frame(&AB.udp(7, 53)), 24), INVALID)]);
}

#[test]
fn timestamps_and_information_are_tracked_like_echoes_and_have_no_code() {
    let mut both = Both::start();
    both.load(&lines(&COMMITTING)).expect("taken");
    for (kind, answer) in [(8, 0), (13, 14), (15, 16)] {
        let message = |pair: Pair, kind, code| pair.frame(&pair.icmp(kind, code, &[0, 7, 0, 1]));
        let shown = |state: &str, mark: &str| format!("{state} zone 5{mark} 1>2 protocol 1 {kind}>0");
        let marked = " mark 77 label 55";
        says(
            &mut both,
            &[
                ("question with a code", 1, message(AB, kind, 1), INVALID),
                ("answer to nothing", 2, message(BA, answer, 0), INVALID),
                ("question", 1, message(AB, kind, 0), &shown("+new+trk", "")),
                ("answer with a code", 2, message(BA, answer, 1), INVALID),
                ("answer", 2, message(BA, answer, 0), &shown("+est+rpl+trk", marked)),
                ("the next", 1, message(AB, kind, 0), &shown("+est+trk", marked)),
                (
                    "error",
                    2,
                    CA.frame(&CA.error(3, &AB.icmp(kind, 0, &[0, 7, 0, 1]))),
                    &shown("+rel+rpl+trk", marked),
                ),
            ],
        );
    }
    for kind in [128, 129] {
        let six = AB.v6();
        says(&mut both, &[("ICMPv6 with a code", 1, six.frame(&six.icmp(kind, 1, &[0, 7, 0, 1])), INVALID)]);
    }
}

#[test]
fn other_icmp_is_invalid_and_other_protocols_are_tracked_by_addresses() {
    let mut both = Both::start();
    both.load(&lines(&COMMITTING)).expect("taken");
    for kind in [9, 10, 14, 16, 17, 18, 40] {
        says(&mut both, &[("ICMP", 1, AB.frame(&AB.icmp(kind, 0, &[0, 1, 0, 1])), INVALID)]);
    }
    for kind in [5, 127, 130, 131, 132, 133, 134, 135, 136, 137, 143, 151] {
        let six = AB.v6();
        says(&mut both, &[("ICMPv6", 1, six.frame(&six.icmp(kind, 0, &[0; 20])), INVALID)]);
    }
    for protocol in [47, 132, 2] {
        let shown = |state: &str, mark: &str| format!("{state} zone 5{mark} 1>2 protocol {protocol} 0>0");
        let (there, back) =
            (AB.frame(&AB.packet(protocol, &[0; 20])), BA.frame(&BA.packet(protocol, &[0; 20])));
        says(
            &mut both,
            &[
                ("first", 1, there.clone(), &shown("+new+trk", "")),
                ("second", 1, there, &shown("+new+trk", " mark 77 label 55")),
                ("back", 2, back, &shown("+est+rpl+trk", " mark 77 label 55")),
            ],
        );
    }
}

#[test]
fn errors_are_related_to_the_connection_of_the_packet_inside() {
    let mut both = Both::start();
    both.load(&lines(&COMMITTING)).expect("taken");
    let inside = AB.udp(7, 53);
    let related = "+rel+rpl+trk zone 5 mark 77 label 55 1>2 protocol 17 7>53";
    let error = |kind, inside: &[u8]| CA.frame(&CA.error(kind, inside));
    says(&mut both, &[("datagram", 1, AB.frame(&inside), "+new+trk zone 5 1>2 protocol 17 7>53")]);
    for kind in [3, 4, 5, 11, 12] {
        says(&mut both, &[("error", 2, error(kind, &inside), related)]);
    }
    says(
        &mut both,
        &[
            ("eight bytes of the datagram", 2, error(3, &inside[..28]), related),
            ("less", 2, error(3, &inside[..27]), INVALID),
            ("unknown connection", 2, error(3, &AB.udp(8, 53)), INVALID),
            ("not to the sender", 2, error(3, &BA.udp(53, 7)), INVALID),
            ("error about an error", 2, error(3, &AB.error(3, &inside)), INVALID),
            // Actions do not find the original direction.
            (
                "about an answer",
                1,
                AB.frame(&AB.error(3, &BA.udp(53, 7))),
                "+rel+trk zone 5 mark 77 label 55",
            ),
        ],
    );
    let (six, inside) = (AB.v6(), AB.v6().udp(7, 53));
    let error = |kind, inside: &[u8]| CA.v6().frame(&CA.v6().error(kind, inside));
    says(&mut both, &[("datagram", 1, six.frame(&inside), "+new+trk zone 5 1>2 protocol 17 7>53")]);
    for kind in 1..=4 {
        says(&mut both, &[("error", 2, error(kind, &inside[..48]), related)]);
    }
    says(&mut both, &[("less", 2, error(1, &inside[..47]), INVALID)]);
}

/// What a packet from 1 to 2 says in tables, then its answer, and then another one.
#[track_caller]
fn three(both: &mut Both, flows: &[&str], expected: [&str; 3]) {
    both.load(&lines(flows)).expect("taken");
    let said = [
        both.says("first", 1, &AB.frame(&AB.udp(7, 8))),
        both.says("answer", 2, &BA.frame(&BA.udp(8, 7))),
        both.says("another", 1, &AB.frame(&AB.udp(7, 8))),
    ];
    assert_eq!(said, expected, "{flows:?}");
}

#[test]
fn what_follows_ct_in_its_list_is_not_tracked() {
    let mut both = Both::start();
    let untracked = " zone 0";
    let tracked = " zone 0 | +new+trk zone 5 1>2 protocol 17 7>8";
    three(&mut both, &["ip actions=ct(zone=5),resubmit(,90)"], [untracked; 3]);
    let answer = " zone 0 | +new+trk zone 5 2>1 protocol 17 8>7";
    three(&mut both, &["ip actions=ct(zone=5,table=90),resubmit(,90)"], [tracked, answer, tracked]);
    three(
        &mut both,
        &["ip actions=resubmit(,1),resubmit(,90)", "table=1,ip actions=ct(zone=5,table=90)"],
        [tracked, answer, tracked],
    );
    three(
        &mut both,
        &["ip actions=ct(zone=5,table=1)", "table=1,ip actions=ct_clear,resubmit(,90)"],
        [untracked; 3],
    );
}

#[test]
fn a_packet_stays_what_it_is_in_its_zone() {
    let mut both = Both::start();
    let states = |zone: u8| {
        ["+new+trk", "+est+rpl+trk", "+est+trk"]
            .map(|state| format!("{state} zone {zone} 1>2 protocol 17 7>8"))
    };
    let five = states(5);
    let five = [&five[0][..], &five[1], &five[2]];
    three(&mut both, &["ip actions=ct(commit,zone=5,table=90)"], five);
    three(&mut both, &["ip actions=ct(commit,zone=5),ct(zone=5,table=90)"], five);
    three(&mut both, &["ip actions=ct(commit,zone=5),ct(zone=6),ct(zone=5,table=90)"], five);
    let six = "+new+trk zone 6 1>2 protocol 17 7>8";
    let flows = ["ip actions=ct(commit,zone=5,table=1)", "table=1,ip actions=ct(zone=6,table=90)"];
    three(&mut both, &flows, [six, "+new+trk zone 6 2>1 protocol 17 8>7", six]);
    // `force` makes a new connection of an answer.
    three(
        &mut both,
        &[
            "priority=2,in_port=2,ip actions=ct(commit,force,zone=5,table=90)",
            "priority=1,ip actions=ct(commit,zone=5,table=90)",
        ],
        [
            "+new+trk zone 5 1>2 protocol 17 7>8",
            "+new+trk zone 5 2>1 protocol 17 8>7",
            "+est+rpl+trk zone 5 2>1 protocol 17 8>7",
        ],
    );
}

#[test]
fn a_mark_is_written_by_any_packet_of_the_connection_and_keeps_its_other_bits() {
    let mut both = Both::start();
    let flows = [
        "priority=3,in_port=2,ip actions=set_field:0x12->reg1,\
         ct(commit,zone=5,exec(move:NXM_NX_REG1[0..7]->NXM_NX_CT_MARK[0..7],set_field:0x30/0xf0->ct_label),table=90)",
        "priority=2,ip,nw_ttl=64 actions=ct(zone=5,table=1)",
        "table=1,priority=2,ip,ct_state=+new-inv actions=\
         ct(commit,zone=5,exec(set_field:0xff00->ct_mark,set_field:0xf->ct_label),table=90)",
        "table=1,priority=1 actions=resubmit(,90)",
    ];
    three(
        &mut both,
        &flows,
        [
            "+new+trk zone 5 mark ff00 label f 1>2 protocol 17 7>8",
            "+est+rpl+trk zone 5 mark ff12 label 3f 1>2 protocol 17 7>8",
            "+est+trk zone 5 mark ff12 label 3f 1>2 protocol 17 7>8",
        ],
    );
}

#[test]
fn registers_metadata_port_and_stack_survive_and_seven_passes_are_the_most() {
    let mut both = Both::start();
    let flows = [
        "ip actions=set_field:5->reg1,set_field:6->metadata,push:NXM_NX_REG1[],set_field:3->pkt_mark,\
         set_field:2->in_port,set_field:9->nw_ttl,ct(zone=NXM_NX_REG1[0..15],table=1)",
        "table=1,ip,metadata=6,reg1=5,pkt_mark=3,in_port=2,nw_ttl=9 actions=pop:NXM_NX_REG2[],output:NXM_NX_REG2[],\
         output:1,output:2,IN_PORT",
    ];
    let ports = |sent: Vec<super::Sent>| sent.into_iter().map(|(port, _)| port).collect::<Vec<_>>();
    both.load(&lines(&flows)).expect("taken");
    assert_eq!(ports(both.receive(1, &AB.frame(&AB.udp(7, 8))).expect("the same")), [1, 2, 5]);
    both.load(&lines(&["ip actions=output:3,ct(zone=5,table=0)"])).expect("taken");
    assert_eq!(ports(both.receive(1, &AB.frame(&AB.udp(7, 8))).expect("the same")), [3; 7]);
}

#[test]
fn a_zone_is_flushed_alone() {
    let mut both = Both::start();
    both.load(&lines(&[
        "ip actions=ct(commit,zone=5,table=1)",
        "table=1,ip actions=ct(commit,zone=6,table=90)",
    ]))
    .expect("taken");
    both.says("first", 1, &AB.frame(&AB.udp(7, 8)));
    assert_eq!(both.bridge.connections().count(), 2);
    both.switch.call("dpctl/flush-conntrack", &["zone=5"]);
    both.bridge.flush_zone(5);
    let left: Vec<u16> = both.bridge.connections().map(|connection| connection.zone).collect();
    assert_eq!(left, [6]);
    let answer = BA.frame(&BA.udp(8, 7));
    assert_eq!(both.says("answer", 2, &answer), "+est+rpl+trk zone 6 1>2 protocol 17 7>8");
}
