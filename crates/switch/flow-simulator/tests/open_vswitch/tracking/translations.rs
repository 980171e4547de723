//! Random tables that translate addresses, with answers to what leaves, and errors about it.

use test_random::Random;

use super::Both;
use super::packets::*;
use super::random::translation;
use super::run::{CASES, Case, Stimulus, compare};

const STIMULI: usize = 24;

/// The tables of one family at a port: translate what is known, commit what is new, and then often the same in a second zone.
fn tables(random: &mut Random, port: u16, ipv6: bool) -> Vec<String> {
    let family = if ipv6 { "ipv6" } else { "ip" };
    let (zone, second) = (port * 8, port * 8 + 1);
    let mut flows = Vec::new();
    let mut flow = |table: u8, priority: u8, rest: String| {
        flows.push(format!("table={table},priority={priority},reg15={port},{family}{rest}"));
    };
    let known = if random.chance(85) { "nat," } else { "" };
    flow(1, 1, format!(" actions=ct(zone={zone},{known}table=2)"));
    for (priority, state) in [(50, "+inv"), (40, "+snat"), (40, "+dnat"), (35, "+rel")] {
        if random.chance(60) {
            flow(2, priority, format!(",ct_state={state}+trk actions=resubmit(,3)"));
        }
    }
    for priority in 20..21 + random.below(3) as u8 {
        let matches = matches(random, ipv6);
        let actions = opening(random, ipv6, zone, 3);
        flow(2, priority, format!("{matches},ct_state=+new-inv+trk actions={actions}"));
    }
    flow(2, 1, " actions=resubmit(,3)".to_owned());
    let next = match random.below(8) {
        0..=2 => "resubmit(,90)".to_owned(),
        3..=4 => format!("ct(zone={second},nat,table=4)"),
        5 => format!("ct(zone={zone},nat,table=4)"),
        6 => format!("ct(zone={zone},table=4)"),
        _ => format!("ct_clear,ct(zone={},nat,table=4)", random.pick(&[zone, second])),
    };
    flow(3, 1, format!(" actions={next}"));
    if random.chance(70) {
        let actions = opening(random, ipv6, second, 90);
        flow(4, 2, format!(",ct_state=+new-inv+trk actions={actions}"));
    }
    flow(4, 1, " actions=resubmit(,90)".to_owned());
    flows
}

fn matches(random: &mut Random, ipv6: bool) -> String {
    let end = random.pick(&["src", "dst"]);
    let last = *random.pick(&[1, 2, 3, 20]);
    match (random.below(3), ipv6) {
        (0, true) => format!(",ipv6_{end}=fd00::{last:x}"),
        (0, false) => format!(",nw_{end}=10.0.0.{last}"),
        _ => String::new(),
    }
}

/// Actions that open a connection, mostly a translated one; what follows `ct` sends the packet as translated.
fn opening(random: &mut Random, ipv6: bool, zone: u16, table: u8) -> String {
    let force = if random.chance(5) { "force," } else { "" };
    let nat = if random.chance(85) { format!("{},", translation(random, ipv6, true)) } else { String::new() };
    let exec = if random.chance(20) { "exec(set_field:5->ct_mark)," } else { "" };
    let rest = match random.below(12) {
        0 | 1 => ",output:2",
        2 if !ipv6 => ",set_field:10.0.0.30->ip_dst,output:3",
        3 if ipv6 => ",set_field:fd00::30->ipv6_src,output:3",
        4 => ",set_field:9->nw_ttl,output:1,set_field:02:00:00:00:00:07->eth_src,output:3",
        _ => "",
    };
    let ct = format!("ct(commit,{force}zone={zone},{nat}{exec}table={table})");
    match random.below(10) {
        0 => format!("clone({ct}{rest}),output:1"),
        1 => format!("check_pkt_larger(60)->NXM_NX_REG1[0],{ct}{rest}"),
        _ => format!("{ct}{rest}"),
    }
}

/// A packet that begins a connection, or comes again.
fn beginning(random: &mut Random) -> Vec<u8> {
    let pair = Pair {
        ipv6: random.chance(35),
        from: 1 + random.below(3) as u8,
        to: *random.pick(&[2, 2, 3, 20, 20]),
    };
    let ports = (*random.pick(&[7, 7, 8, 511, 600, 1023, 2000]), *random.pick(&[7, 80, 80]));
    pair.frame(&match random.below(8) {
        0..=2 => {
            let flags = *random.pick(&[SYN, SYN, SYN, SYN, ACK, FIN | ACK, RST]);
            pair.tcp(Segment::new(ports, flags, 100, 0))
        }
        3..=5 => pair.udp(ports.0, ports.1),
        6 => pair.echo(random.chance(10), 3 + random.below(2) as u16),
        _ => pair.packet(47, &[0; 12]),
    })
}

fn case(random: &mut Random, port: u16) -> Case {
    let mut flows = vec![format!("in_port={port} actions=set_field:{port}->reg15,resubmit(,1)")];
    for ipv6 in [false, true] {
        flows.extend(tables(random, port, ipv6));
    }
    let mut before = beginning(random);
    // The switch also changes a checksum of TCP that an error cuts in two, with what its memory holds behind.
    let stimuli = (0..STIMULI).map(|_| match random.below(20) {
        0..=7 => Stimulus::Answer,
        8..=10 => Stimulus::Error {
            kind: *random.pick(&[3, 3, 1, 2, 4, 11, 12]),
            length: if random.chance(20) {
                28 + 2 * random.below(20) as usize
            } else {
                usize::from(u16::MAX)
            },
        },
        11..=13 => Stimulus::Frame(before.clone()),
        _ => {
            before = beginning(random);
            Stimulus::Frame(before.clone())
        }
    });
    let stimuli = stimuli.collect();
    Case { port, flows, stimuli }
}

#[test]
fn random_translations_go_as_in_open_vswitch() {
    let mut both = Both::start();
    let mut translated = 0;
    for seed in test_random::seeds!("random_translations_go_as_in_open_vswitch", 20) {
        let mut random = Random::new(seed);
        let cases = CASES.map(|port| case(&mut random, port)).collect();
        compare(&mut both, seed, cases);
        let all = both.bridge.connections();
        translated += all.filter(|one| (one.reply_from, one.reply_to) != (one.to, one.from)).count();
    }
    assert!(translated > 0, "nothing was translated");
}
