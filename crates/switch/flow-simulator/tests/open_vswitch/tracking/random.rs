//! Random tables that track connections, and random packets of a few connections through them.

use test_random::Random;

use super::packets::*;
use super::run::{CASES, Case, Stimulus, compare};
use super::{Both, lines};

const TABLES: std::ops::RangeInclusive<u8> = 1..=4;
/// Zones of a case.
const ZONES: u16 = 3;
const PACKETS: usize = 16;

/// What a match makes certain.
#[derive(Clone, Copy)]
struct Place {
    port: u16,
    table: u8,
    /// `ip` or `ipv6` is matched, so the flow may track.
    is_ip: bool,
    ipv6: bool,
    protocol: &'static str,
    /// The original direction can be read.
    is_valid: bool,
    /// Only invalid packets match; a switch refuses to commit them.
    is_invalid: bool,
}

fn case(random: &mut Random, port: u16) -> Case {
    let mut flows = vec![format!("in_port={port} actions=set_field:{port}->reg15,resubmit(,1)")];
    for table in TABLES {
        for priority in 1..=3 + random.below(5) {
            let (matches, place) = matches(random, port, table);
            let count = 1 + random.below(4);
            let actions = actions(random, place, count, true);
            flows.push(format!("table={table},priority={priority},{matches} actions={actions}"));
        }
        for family in ["ip", "ipv6"] {
            let place = Place {
                port,
                table,
                is_ip: true,
                ipv6: family == "ipv6",
                protocol: "",
                is_valid: false,
                is_invalid: false,
            };
            let actions = actions(random, place, 3, true);
            let shown = if random.chance(70) { ",resubmit(,90)" } else { "" };
            flows.push(format!("table={table},priority=0,reg15={port},{family} actions={actions}{shown}"));
        }
    }
    Case { port, flows, stimuli: stimuli(random) }
}

fn matches(random: &mut Random, port: u16, table: u8) -> (String, Place) {
    let mut text = format!("reg15={port}");
    let kinds = [
        ("", false, false, ""),
        ("ip", true, false, ""),
        ("ipv6", true, true, ""),
        ("tcp", true, false, "tcp"),
        ("udp", true, false, "udp"),
        ("tcp6", true, true, "tcp"),
        ("udp6", true, true, "udp"),
        ("icmp", true, false, ""),
    ];
    let (family, is_ip, ipv6, protocol) = *random.pick(&kinds);
    if !family.is_empty() {
        text += &format!(",{family}");
    }
    let state: String = ["new", "est", "rel", "rpl", "inv", "trk"]
        .iter()
        .filter_map(|bit| match random.below(10) {
            0 => Some(format!("+{bit}")),
            1 => Some(format!("-{bit}")),
            _ => None,
        })
        .collect();
    let contradicts = state.contains("+inv") || state.contains("-trk");
    let is_valid = is_ip && !contradicts && random.chance(40);
    if is_valid {
        text += ",ct_state=+trk-inv";
        let family = if ipv6 { "ipv6" } else { "nw" };
        let address = |last| if ipv6 { format!("fd00::{last}") } else { format!("10.0.0.{last}") };
        match random.below(5) {
            0 => text += &format!(",ct_{family}_src={}", address(1 + random.below(2))),
            1 => text += &format!(",ct_{family}_dst={}", address(1 + random.below(2))),
            2 => text += &format!(",ct_nw_proto={}", random.pick(&[1, 6, 17, 58])),
            3 => text += &format!(",ct_nw_proto={},ct_tp_dst={}", random.pick(&[6, 17]), 7 + random.below(2)),
            _ => {}
        }
    } else if !state.is_empty() {
        text += &format!(",ct_state={state}");
    }
    match random.below(8) {
        0 => text += &format!(",ct_mark={}/{}", 0, 1 << random.below(4)),
        1 => text += &format!(",ct_mark={0}/{0}", 1 << random.below(4)),
        2 => text += &format!(",ct_label={0}/{0}", 1 << random.below(4)),
        3 => text += &format!(",ct_zone={}", zone(random, port)),
        4 => text += &format!(",reg1={0}/{0}", 1 << random.below(4)),
        _ => {}
    }
    let is_invalid = !is_valid && state.contains("+inv");
    (text, Place { port, table, is_ip, ipv6, protocol, is_valid, is_invalid })
}

fn zone(random: &mut Random, port: u16) -> u16 {
    port * 8 + random.below(ZONES.into()) as u16
}

fn actions(random: &mut Random, place: Place, count: u64, nested: bool) -> String {
    let list: Vec<String> = (0..count).map(|_| action(random, place, nested)).collect();
    list.join(",")
}

fn action(random: &mut Random, place: Place, nested: bool) -> String {
    match random.below(20) {
        0..=5 if place.is_ip => track(random, place),
        6 => "ct_clear".to_owned(),
        7 | 8 => format!("output:{}", 1 + random.below(3)),
        9 | 10 => format!("resubmit(,{})", later(random, place.table)),
        11 if nested => {
            let count = 1 + random.below(3);
            format!("clone({})", actions(random, place, count, false))
        }
        12 => format!("set_field:{}->reg1", random.below(16)),
        13 => "move:NXM_NX_CT_STATE[0..7]->NXM_NX_REG1[0..7]".to_owned(),
        14 => "move:NXM_NX_CT_MARK[0..3]->NXM_OF_ETH_DST[4..7]".to_owned(),
        15 if place.is_valid => match random.below(3) {
            0 => "move:NXM_NX_CT_TP_SRC[]->NXM_OF_ETH_DST[16..31]".to_owned(),
            1 => "move:NXM_NX_CT_NW_PROTO[]->NXM_NX_REG1[0..7]".to_owned(),
            _ if place.ipv6 => "move:NXM_NX_CT_IPV6_SRC[0..15]->NXM_OF_ETH_DST[0..15]".to_owned(),
            _ => "move:NXM_NX_CT_NW_SRC[0..15]->NXM_OF_ETH_DST[0..15]".to_owned(),
        },
        16 if !place.protocol.is_empty() => {
            format!("set_field:{}->{}_dst", 7 + random.below(2), place.protocol)
        }
        17 if place.is_ip && !place.ipv6 => format!("set_field:10.0.0.{}->ip_src", 1 + random.below(2)),
        18 => match random.below(3) {
            0 => "push:NXM_NX_REG1[],set_field:3->reg1,pop:NXM_NX_REG1[]".to_owned(),
            1 => "check_pkt_larger(60)->NXM_NX_REG1[2]".to_owned(),
            _ => "set_field:9->pkt_mark".to_owned(),
        },
        _ => "resubmit(,90)".to_owned(),
    }
}

/// A table after this one, or that of the shown state; seldom any.
fn later(random: &mut Random, table: u8) -> u8 {
    if random.chance(5) {
        return TABLES.start() + random.below(TABLES.count() as u64) as u8;
    }
    let next = table + 1 + random.below(2) as u8;
    if TABLES.contains(&next) { next } else { 90 }
}

fn track(random: &mut Random, place: Place) -> String {
    let mut parts = Vec::new();
    let mut before = String::new();
    let commit = !place.is_invalid && random.chance(55);
    if commit {
        parts.push("commit".to_owned());
        if random.chance(12) {
            parts.push("force".to_owned());
        }
    }
    if random.chance(75) {
        parts.push(format!("table={}", later(random, place.table)));
    }
    let zone = zone(random, place.port);
    if random.chance(25) {
        before = format!("set_field:{zone}->reg2,");
        parts.push("zone=NXM_NX_REG2[0..15]".to_owned());
    } else {
        parts.push(format!("zone={zone}"));
    }
    if random.chance(30) {
        parts.push(translation(random, place.ipv6, commit));
    }
    if commit && random.chance(60) {
        let writes: Vec<String> = (0..=random.below(2)).map(|_| write(random)).collect();
        parts.push(format!("exec({})", writes.join(",")));
    }
    format!("{before}ct({})", parts.join(","))
}

/// A `nat`, with an address only if it may open connections. Its ranges have one address and at most one port, so the switch has no choice.
pub(super) fn translation(random: &mut Random, ipv6: bool, commit: bool) -> String {
    if !commit || random.chance(15) {
        return "nat".to_owned();
    }
    let side = random.pick(&["src", "dst"]);
    let last = *random.pick(&[20, 20, 20, 21, 21, 1, 2, 3]);
    let port = if random.chance(40) { Some(*random.pick(&[7, 8, 80, 2000])) } else { None };
    match (ipv6, port) {
        (false, None) => format!("nat({side}=10.0.0.{last})"),
        (false, Some(port)) => format!("nat({side}=10.0.0.{last}:{port})"),
        (true, None) => format!("nat({side}=fd00::{last:x})"),
        (true, Some(port)) => format!("nat({side}=[fd00::{last:x}]:{port})"),
    }
}

/// An action that writes a connection's mark or label.
fn write(random: &mut Random) -> String {
    let value = random.below(16);
    match random.below(6) {
        0 => format!("set_field:{value}->ct_mark"),
        1 => format!("set_field:{0:#x}/{0:#x}->ct_mark", value | 1),
        2 => format!("set_field:{value}->ct_label"),
        3 => format!("set_field:0x0/{:#x}->ct_label", value | 1),
        4 => "move:NXM_NX_REG1[0..2]->NXM_NX_CT_MARK[1..3]".to_owned(),
        _ => "move:NXM_NX_CT_MARK[0..3]->NXM_NX_CT_LABEL[2..5]".to_owned(),
    }
}

/// Packets of two connections that mostly follow the protocol.
fn stimuli(random: &mut Random) -> Vec<Stimulus> {
    let mut talks: Vec<Talk> = (0..2).map(|_| Talk::new(random)).collect();
    (0..PACKETS)
        .map(|_| {
            if random.chance(15) {
                return Stimulus::Answer;
            }
            let at = random.below(2) as usize;
            let talk = &mut talks[at];
            let mut frame = talk.next(random);
            if random.chance(4) {
                let place = frame.len() - 1 - random.below(8) as usize;
                frame[place] ^= 1 << random.below(8);
            }
            Stimulus::Frame(frame)
        })
        .collect()
}

/// A connection from the side of those who send its packets.
struct Talk {
    pair: Pair,
    protocol: u8,
    ports: (u16, u16),
    /// The next sequence number of each side.
    next: [u32; 2],
    packets: u32,
}

impl Talk {
    fn new(random: &mut Random) -> Talk {
        let protocol = *random.pick(&[6, 6, 6, 17, 17, 1, 47]);
        let pair = Pair { ipv6: random.chance(30), ..AB };
        let next = [random.below(1 << 32) as u32, random.below(1 << 32) as u32];
        Talk {
            pair,
            protocol,
            ports: (7 + random.below(2) as u16, 7 + random.below(2) as u16),
            next,
            packets: 0,
        }
    }

    fn next(&mut self, random: &mut Random) -> Vec<u8> {
        let Pair { ipv6, from, to } = self.pair;
        let back = Pair { ipv6, from: to, to: from };
        let router = Pair { ipv6, from: 9, to: from };
        if random.chance(15) {
            let is_reply = random.chance(30);
            let inside = self.packet(random, is_reply);
            let length = if random.chance(20) { 2 * random.below(30) as usize } else { inside.len() };
            let kind = if ipv6 { *random.pick(&[1, 2, 3, 4]) } else { *random.pick(&[3, 4, 5, 11, 12, 9]) };
            let toward = if is_reply { Pair { from: 9, to: back.from, ipv6 } } else { router };
            let toward = if random.chance(10) { Pair { to: 3, ..toward } } else { toward };
            return toward.frame(&toward.error(kind, &inside[..length.min(inside.len())]));
        }
        let is_reply = random.chance(if self.packets == 0 { 10 } else { 45 });
        self.packets += 1;
        self.pair.frame(&self.packet(random, is_reply))
    }

    fn packet(&mut self, random: &mut Random, is_reply: bool) -> Vec<u8> {
        let (from, to) = (self.pair.from, self.pair.to);
        let pair = if is_reply { Pair { from: to, to: from, ..self.pair } } else { self.pair };
        let ports = if is_reply { (self.ports.1, self.ports.0) } else { self.ports };
        match self.protocol {
            6 => pair.tcp(self.segment(random, ports, is_reply)),
            17 => pair.udp(ports.0, ports.1),
            1 => pair.echo(is_reply, 3),
            other => pair.packet(other, &[0; 12]),
        }
    }

    fn segment(&mut self, random: &mut Random, ports: (u16, u16), is_reply: bool) -> Segment {
        let (own, other) = (usize::from(is_reply), usize::from(!is_reply));
        let usual = match (self.packets, is_reply) {
            (0 | 1, false) => SYN,
            (..=3, true) => SYN | ACK,
            _ => ACK,
        };
        let flags = match random.below(10) {
            0 => *random.pick(&[SYN, SYN | ACK, ACK]),
            1 => *random.pick(&[FIN | ACK, RST, RST | ACK, PSH | ACK, 0, FIN, SYN | FIN, PSH]),
            2 => FIN | ACK,
            _ => usual,
        };
        let off = |random: &mut Random| -> i64 {
            *random.pick(&[0, 0, 0, 0, 0, 0, 0, 1, -1, 300, -300, 70_000, -70_000, 1 << 30, 1 << 31])
        };
        let sequence = (i64::from(self.next[own]) + off(random)) as u32;
        let acknowledged =
            if random.chance(5) { 0 } else { (i64::from(self.next[other]) + off(random)) as u32 };
        let payload = if flags & SYN == 0 { *random.pick(&[0, 0, 0, 5, 300]) } else { 0 };
        let window = *random.pick(&[256, 256, 1, 0, 0xffff]);
        let scale = (flags & SYN != 0 && random.chance(60)).then(|| *random.pick(&[0, 3, 7, 15]));
        let length = payload as u32 + u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0);
        if sequence == self.next[own] {
            self.next[own] = sequence.wrapping_add(length);
        }
        Segment { ports, flags, sequence, acknowledged, window, payload, scale }
    }
}

#[test]
fn random_connections_go_as_in_open_vswitch() {
    let mut both = Both::start();
    let mut tracked = 0;
    for seed in test_random::seeds!("random_connections_go_as_in_open_vswitch", 20) {
        let mut random = Random::new(seed);
        let cases = CASES.map(|port| case(&mut random, port)).collect();
        compare(&mut both, seed, cases);
        tracked += both.bridge.connections().count();
    }
    assert!(tracked > 0, "nothing was tracked");
}

/// The flows of a random table of conjunctions: each clause of a conjunction is about another field.
fn conjunctions(random: &mut Random, port: u16) -> Vec<String> {
    let mut flows = vec![
        format!("in_port={port} actions=set_field:{port}->reg15,resubmit(,1)"),
        format!("table=1,priority=0,reg15={port} actions=output:4"),
    ];
    let mut number = u32::from(port) * 100;
    for priority in [10, 20, 30] {
        if random.chance(40) {
            let field = random.pick(&["tp_src", "tp_dst"]).to_owned();
            let value = 7 + random.below(2);
            flows.push(format!(
                "table=1,priority={},reg15={port},udp,{field}={value} actions=output:1",
                priority - 5
            ));
        }
        number += 1;
        let clauses = 2 + random.below(2);
        for clause in 1..=clauses {
            let field = ["tp_src", "tp_dst", "nw_src"][clause as usize - 1];
            for value in 7..=8 {
                let value = if clause == 3 { format!("10.0.0.{}", value - 6) } else { value.to_string() };
                if random.chance(60) {
                    flows.push(format!(
                        "table=1,priority={priority},reg15={port},udp,{field}={value} \
                         actions=conjunction({number},{clause}/{clauses})"
                    ));
                }
            }
        }
        if random.chance(85) {
            let at = *random.pick(&[priority, priority, priority - 8, priority + 3, 1]);
            flows.push(format!(
                "table=1,priority={at},reg15={port},ip,conj_id={number} actions=set_field:{at}->ip_dscp,output:2"
            ));
        }
    }
    flows
}

#[test]
fn random_conjunctions_match_as_in_open_vswitch() {
    let mut both = Both::start();
    let mut met = 0;
    for seed in test_random::seeds!("random_conjunctions_match_as_in_open_vswitch", 8) {
        let mut random = Random::new(seed);
        let flows: Vec<String> = CASES.flat_map(|port| conjunctions(&mut random, port)).collect();
        both.load(&flows).expect("the switch takes the flows");
        for port in CASES {
            for (pair, from, to) in
                [(AB, 7, 7), (AB, 7, 8), (AB, 8, 7), (AB, 8, 8), (BA, 7, 7), (BA, 7, 8), (BA, 8, 8)]
            {
                let sent = both.receive(port, &pair.frame(&pair.udp(from, to)));
                let sent = sent.unwrap_or_else(|difference| panic!("seed {seed}\n{difference}"));
                met += sent.iter().filter(|(port, _)| *port == 2).count();
            }
        }
    }
    assert!(met > 0, "no conjunction matched");
    // What several conjunctions share, as groups of addresses do.
    let shared = [
        "table=1,priority=10,udp,tp_src=7 actions=conjunction(1,1/2),conjunction(2,1/2)",
        "table=1,priority=10,udp,tp_dst=7 actions=conjunction(1,2/2)",
        "table=1,priority=10,udp,tp_dst=8 actions=conjunction(2,2/2)",
        "table=1,priority=10,udp,conj_id=1 actions=output:1",
        "table=1,priority=10,udp,conj_id=2 actions=output:2",
        "in_port=5 actions=resubmit(,1)",
    ];
    both.load(&lines(&shared)).expect("taken");
    for (from, to, port) in [(7, 7, Some(1)), (7, 8, Some(2)), (8, 7, None)] {
        let sent = both.receive(5, &AB.frame(&AB.udp(from, to))).expect("the same");
        assert_eq!(sent.first().map(|(port, _)| *port), port);
    }
}
