//! What translation does, in the switch and here. The texts are as the switch printed them.

use super::answers::{answer, ends, error};
use super::packets::*;
use super::{Both, SHOWN, Sent, lines, shown};

/// Translates the source of what comes by port 1, and the other way what comes by port 2.
fn source(to: &str, to_v6: &str) -> Vec<String> {
    lines(&[
        &format!("in_port=1,ip actions=ct(commit,zone=5,nat(src={to}),table=90)"),
        &format!("in_port=1,ipv6 actions=ct(commit,zone=5,nat(src={to_v6}),table=90)"),
        "in_port=2,ip actions=ct(zone=5,nat,table=90)",
        "in_port=2,ipv6 actions=ct(zone=5,nat,table=90)",
    ])
}

/// State and ends of the packet that is shown.
fn text(sent: &[Sent]) -> String {
    let shown_one = sent.iter().find(|(port, _)| *port == SHOWN);
    shown_one.map_or_else(String::new, |(_, bytes)| {
        let said = shown(bytes);
        format!("{} {}", said.split(' ').next().unwrap_or_default(), ends(bytes))
    })
}

impl Both {
    /// What becomes of a frame in both: its state and ends.
    #[track_caller]
    fn becomes(&mut self, port: u16, frame: &[u8]) -> (String, Vec<u8>) {
        let sent = self.receive(port, frame).unwrap_or_else(|difference| panic!("{difference}"));
        let bytes = sent.iter().find(|(port, _)| *port == SHOWN).map(|(_, bytes)| bytes.clone());
        (text(&sent), bytes.unwrap_or_default())
    }

    /// What becomes of a frame, of the answer to it, and of an error about it.
    #[track_caller]
    fn goes(&mut self, frame: &[u8], kind: u8) -> [String; 3] {
        let (there, bytes) = self.becomes(1, frame);
        let (error, _) = self.becomes(2, &error(&bytes, kind, 2000).expect("a packet"));
        let (back, _) = self.becomes(2, &answer(&bytes).expect("a packet"));
        [there, back, error]
    }
}

#[test]
fn sources_are_translated_and_answers_and_errors_back() {
    let mut both = Both::start();
    both.load(&source("10.0.0.20", "fd00::14")).expect("taken");
    for ipv6 in [false, true] {
        let (ab, kind) = (Pair { ipv6, ..AB }, if ipv6 { 1 } else { 3 });
        let tcp = ab.tcp(Segment::new((7, 80), SYN, 100, 0));
        for packet in [ab.udp(7, 80), tcp] {
            let said = both.goes(&ab.frame(&packet), kind);
            let expected =
                ["+new+trk+snat 20:7>2:80", "+est+rpl+trk+dnat 2:80>1:7", "+rel+rpl+trk+dnat 9>1 [1:7>2:80]"];
            assert_eq!(said, expected);
        }
        for packet in [ab.echo(false, 3), ab.packet(47, &[0; 12])] {
            let said = both.goes(&ab.frame(&packet), kind);
            let expected = ["+new+trk+snat 20>2", "+est+rpl+trk+dnat 2>1", "+rel+rpl+trk+dnat 9>1 [1>2]"];
            assert_eq!(said, expected);
        }
    }
}

/// The port is kept if it is free; else the next one of its class is taken, for each destination.
#[test]
fn ports_are_kept_or_the_next_of_their_class() {
    let mut both = Both::start();
    both.load(&source("10.0.0.20", "fd00::14")).expect("taken");
    for (port, then) in
        [(7, "8"), (511, "1"), (512, "600"), (600, "601"), (1023, "600"), (1024, "1025"), (65535, "1024")]
    {
        let other = Pair { from: 3, ..AB };
        assert_eq!(both.becomes(1, &AB.frame(&AB.udp(port, 80))).0, format!("+new+trk+snat 20:{port}>2:80"));
        assert_eq!(
            both.becomes(1, &other.frame(&other.udp(port, 80))).0,
            format!("+new+trk+snat 20:{then}>2:80")
        );
        let elsewhere = Pair { from: 3, to: 4, ..AB };
        let said = both.becomes(1, &elsewhere.frame(&elsewhere.udp(port, 80))).0;
        assert_eq!(said, format!("+new+trk+snat 20:{port}>4:80"));
        both.load(&source("10.0.0.20", "fd00::14")).expect("taken");
    }
}

#[test]
fn without_a_free_tuple_packets_go_on_as_they_are() {
    let mut both = Both::start();
    both.load(&source("10.0.0.20:2000", "[fd00::14]:2000")).expect("taken");
    for ipv6 in [false, true] {
        let (ab, other) = (Pair { ipv6, ..AB }, Pair { ipv6, from: 3, to: 2 });
        assert_eq!(both.becomes(1, &ab.frame(&ab.udp(7, 80))).0, "+new+trk+snat 20:2000>2:80");
        assert_eq!(both.becomes(1, &other.frame(&other.udp(7, 80))).0, "+new+trk 3:7>2:80");
        assert_eq!(both.becomes(1, &other.frame(&other.udp(7, 81))).0, "+new+trk+snat 20:2000>2:81");
        // Identifiers of echoes are not translated.
        assert_eq!(both.becomes(1, &ab.frame(&ab.echo(false, 3))).0, "+new+trk+snat 20>2");
        assert_eq!(both.becomes(1, &other.frame(&other.echo(false, 3))).0, "+new+trk 3>2");
        assert_eq!(both.becomes(1, &other.frame(&other.echo(false, 4))).0, "+new+trk+snat 20>2");
    }
    let two = both.bridge.connections().filter(|one| one.protocol == 17).count();
    assert_eq!(two, 4, "none of those that were not translated");
}

#[test]
fn destinations_are_translated_and_sources_too_where_they_would_collide() {
    let mut both = Both::start();
    for (v4, v6, port) in [("10.0.0.2", "fd00::2", 80), ("10.0.0.2:8080", "[fd00::2]:8080", 8080)] {
        both.load(&lines(&[
            &format!("in_port=1,ip actions=ct(commit,zone=5,nat(dst={v4}),table=90)"),
            &format!("in_port=1,ipv6 actions=ct(commit,zone=5,nat(dst={v6}),table=90)"),
            "in_port=2,ip actions=ct(zone=5,nat,table=90)",
            "in_port=2,ipv6 actions=ct(zone=5,nat,table=90)",
        ]))
        .expect("taken");
        for ipv6 in [false, true] {
            let (one, other) = (Pair { ipv6, from: 1, to: 20 }, Pair { ipv6, from: 1, to: 21 });
            let said = both.goes(&one.frame(&one.udp(7, 80)), if ipv6 { 1 } else { 3 });
            let expected = [
                format!("+new+trk+dnat 1:7>2:{port}"),
                "+est+rpl+trk+snat 20:80>1:7".to_owned(),
                "+rel+rpl+trk+snat 20>1 [1:7>20:80]".to_owned(),
            ];
            assert_eq!(said, expected);
            let said = both.goes(&other.frame(&other.udp(7, 80)), if ipv6 { 1 } else { 3 });
            let expected = [
                format!("+new+trk+dnat 1:8>2:{port}"),
                "+est+rpl+trk+snat 21:80>1:7".to_owned(),
                "+rel+rpl+trk+snat 21>1 [1:7>21:80]".to_owned(),
            ];
            assert_eq!(said, expected);
        }
    }
}

/// Until the other side has answered, the second packet is new, and already translated.
#[test]
fn a_known_connection_is_translated_before_its_first_answer() {
    let mut both = Both::start();
    both.load(&lines(&[
        "ip actions=ct(zone=5,nat,table=1)",
        "table=1,priority=1,ip,ct_state=+new+trk,nw_src=10.0.0.1 actions=ct(commit,zone=5,nat(src=10.0.0.20),table=90)",
        "table=1,priority=0 actions=resubmit(,90)",
    ]))
    .expect("taken");
    let ask = AB.frame(&AB.udp(7, 80));
    let (said, bytes) = both.becomes(1, &ask);
    assert_eq!(said, "+new+trk+snat 20:7>2:80");
    assert_eq!(both.becomes(1, &ask).0, "+new+trk+snat 20:7>2:80");
    let steps = both.bridge.trace(&flow_simulator::Packet::new(ask.clone(), openflow_rs::PortNo(1))).steps;
    let trace: String = steps.iter().map(ToString::to_string).collect();
    let note = "-> translated: 10.0.0.1:7 > 10.0.0.2:80 is now 10.0.0.20:7 > 10.0.0.2:80";
    assert!(trace.contains(note), "{trace}");
    assert_eq!(both.becomes(1, &answer(&bytes).expect("a packet")).0, "+est+rpl+trk+dnat 2:80>1:7");
    assert_eq!(both.becomes(1, &ask).0, "+est+trk+snat 20:7>2:80");
}

/// The new outer address is summed into what would be a checksum if the error were a packet of the connection.
#[test]
fn of_icmpv6_errors_the_switch_damages_a_field() {
    let mut both = Both::start();
    both.load(&source("10.0.0.20", "fd00::14")).expect("taken");
    let ab = AB.v6();
    let (_, bytes) = both.becomes(1, &ab.frame(&ab.udp(7, 80)));
    let (said, bytes) = both.becomes(2, &error(&bytes, 2, 2000).expect("a packet"));
    assert_eq!(said, "+rel+rpl+trk+dnat 9>1 [1:7>2:80]");
    // 1400, as it was sent, and fd00::14 replaced by fd00::1.
    assert_eq!(bytes[58..62], [0, 0, 5, 0x78 + 0x13], "the MTU");
    both.load(&lines(&[
        "in_port=1,ipv6 actions=ct(commit,zone=5,nat(dst=fd00::2),table=90)",
        "in_port=2,ipv6 actions=ct(zone=5,nat,table=90)",
    ]))
    .expect("taken");
    let one = Pair { ipv6: true, from: 1, to: 20 };
    let (_, bytes) = both.becomes(1, &one.frame(&one.tcp(Segment::new((7, 80), SYN, 100, 0))));
    let (said, bytes) = both.becomes(2, &error(&bytes, 1, 2000).expect("a packet"));
    assert_eq!(said, "+rel+rpl+trk+snat 20>1 [1:7>20:80]");
    assert_ne!(bytes[70..72], [0xfd, 0], "the source inside");
}

#[test]
fn a_hairpin_is_translated_in_two_zones() {
    let mut both = Both::start();
    both.load(&lines(&[
        "priority=2,in_port=1,ip actions=ct(commit,zone=5,nat(dst=10.0.0.2),table=1)",
        "priority=1,in_port=2,ip actions=ct(zone=6,nat,table=2)",
        "table=1,ip actions=ct(commit,zone=6,nat(src=10.0.0.20),table=90)",
        "table=2,ip actions=ct(zone=5,nat,table=90)",
    ]))
    .expect("taken");
    let one = Pair { ipv6: false, from: 1, to: 21 };
    let said = both.goes(&one.frame(&one.udp(7, 80)), 3);
    let expected =
        ["+new+trk+snat 20:7>2:80", "+est+rpl+trk+snat 21:80>1:7", "+rel+rpl+trk+snat 21>1 [1:7>21:80]"];
    assert_eq!(said, expected);
}

#[test]
fn what_follows_ct_in_its_list_sends_the_translated_packet() {
    let mut both = Both::start();
    both.load(&lines(&[
        "ip actions=output:1,ct(commit,zone=5,nat(src=10.0.0.20)),output:2,set_field:10.0.0.30->ip_dst,output:3",
    ]))
    .expect("taken");
    let sent = both.receive(5, &AB.frame(&AB.udp(7, 80))).expect("the same");
    let said: Vec<String> = sent.iter().map(|(port, bytes)| format!("{port} {}", ends(bytes))).collect();
    assert_eq!(said, ["1 1:7>2:80", "2 20:7>2:80", "3 20:7>30:80"]);
}

/// The reply tuple of the closed connection stays in use until the next sweep of expired connections.
#[test]
fn a_connection_that_opens_again_gets_another_port() {
    let mut both = Both::start();
    both.load(&source("10.0.0.20", "fd00::14")).expect("taken");
    let segment = |flags| AB.frame(&AB.tcp(Segment::new((7, 80), flags, 100, 0)));
    let (said, first) = both.becomes(1, &segment(SYN));
    assert_eq!(said, "+new+trk+snat 20:7>2:80");
    assert_eq!(both.becomes(1, &segment(RST)).0, "+est+trk+snat 20:7>2:80");
    assert_eq!(both.becomes(1, &segment(SYN)).0, "+new+trk+snat 20:8>2:80");
    assert_eq!(both.becomes(2, &answer(&first).expect("a packet")).0, "+inv+trk 2:80>20:7");
}

/// Its answers would have to come from address 0 to port 0.
#[test]
fn a_commit_with_nat_alone_opens_a_connection_that_nobody_can_answer() {
    let mut both = Both::start();
    both.load(&lines(&["ip actions=ct(commit,zone=5,nat,table=90)"])).expect("taken");
    let (said, bytes) = both.becomes(1, &AB.frame(&AB.udp(7, 80)));
    assert_eq!(said, "+new+trk 1:7>2:80");
    assert_eq!(both.becomes(2, &answer(&bytes).expect("a packet")).0, "+new+trk 2:80>1:7");
}

/// The switch chooses by a hash with a secret seed. So the choices differ, and nothing else: how many there are, and what
/// comes back.
#[test]
fn a_range_is_used_up_whatever_is_chosen_first() {
    let mut both = Both::start();
    both.load(&source("10.0.0.20:2000-2003", "[fd00::14]:2000-2003")).expect("taken");
    for ipv6 in [false, true] {
        let mut ports = [Vec::new(), Vec::new()];
        for from in 1..=6 {
            let pair = Pair { ipv6, from, to: 9 };
            let frame = pair.frame(&pair.udp(7, 80));
            let there = both.switch.receive(1, &frame);
            let packet = flow_simulator::Packet::new(frame, openflow_rs::PortNo(1));
            let here: Vec<Sent> =
                both.bridge.receive(&packet).emitted.into_iter().map(|one| (one.port.0, one.bytes)).collect();
            let said = [&there, &here].map(|sent| text(sent));
            if from > 4 {
                let untranslated = format!("+new+trk {from}:7>9:80");
                assert_eq!(said, [untranslated.clone(), untranslated]);
                continue;
            }
            for (said, ports) in said.iter().zip(&mut ports) {
                let port = said.strip_prefix("+new+trk+snat 20:").and_then(|rest| rest.strip_suffix(">9:80"));
                ports.push(port.unwrap_or_else(|| panic!("{said}")).to_owned());
            }
            let answers = [&there, &here].map(|sent| answer(&sent[0].1).expect("a packet"));
            let there = text(&both.switch.receive(2, &answers[0]));
            let packet = flow_simulator::Packet::new(answers[1].clone(), openflow_rs::PortNo(2));
            let here = both.bridge.receive(&packet).emitted.into_iter().map(|one| (one.port.0, one.bytes));
            let back = format!("+est+rpl+trk+dnat 9:80>{from}:7");
            assert_eq!([there, text(&here.collect::<Vec<_>>())], [back.clone(), back]);
        }
        for mut ports in ports {
            ports.sort();
            assert_eq!(ports, ["2000", "2001", "2002", "2003"]);
        }
    }
}
