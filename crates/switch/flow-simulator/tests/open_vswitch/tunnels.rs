//! Tunnels: the packets that a switch with tunnel ports exchanges with its peers, and the limits of floods.

use flow_simulator::Packet;
use frame_builder::{Encapsulation, Wrapped};
use openflow_rs::PortNo;
use test_random::Random;

use crate::open_vswitch::beside::{Beside, FOR_ALL, Out, PEERS, address, arrived, sent_by_switch};
use crate::open_vswitch::frames::frame;

fn actions(random: &mut Random) -> String {
    let mut list = Vec::new();
    for _ in 0..3 + random.below(6) {
        let port = 200 + random.below(5);
        list.push(match random.below(12) {
            0 => format!("set_field:{}->tun_id", random.pick(&["0", "0x102", "0x5000102"])),
            1..=3 => format!("set_field:{}->tun_dst", address(1 + random.below(4) as u8)),
            4 => format!("set_field:{}->tun_metadata0", random.pick(&["0", "0x7", "0xfffffff0"])),
            5 => "move:NXM_NX_REG0[0..23]->NXM_NX_TUN_METADATA0[0..23]".to_owned(),
            6 => format!("set_field:{port}->reg12,set_field:0x3000103->reg1,resubmit(,50)"),
            7 => "group:500".to_owned(),
            8 => "move:NXM_NX_TUN_METADATA0[0..31]->NXM_NX_REG0[]".to_owned(),
            9 => format!("output:{}", 1 + random.below(3)),
            10 => "set_field:0->in_port".to_owned(),
            _ => format!("output:{port}"),
        });
    }
    list.join(",")
}

fn flows(random: &mut Random) -> Vec<String> {
    let mut flows =
        vec!["table=50 actions=move:NXM_NX_REG1[]->NXM_NX_TUN_ID[0..31],output:NXM_NX_REG12[]".to_owned()];
    for port in (1..4).chain(200..205) {
        flows.push(format!("priority=1,in_port={port} actions=set_field:9->reg0,{}", actions(random)));
    }
    for (priority, condition) in [
        (5, "tun_metadata0=0x7"),
        (4, "tun_metadata0=0"),
        (3, "tun_metadata0=0xf0/0xf0"),
        (2, "tun_src=172.31.0.3"),
        (6, "tun_id=0x102,tun_dst=172.31.0.1"),
    ] {
        if random.chance(40) {
            flows.push(format!("priority={priority},{condition} actions={}", actions(random)));
        }
    }
    flows
}

#[test]
fn random_packets_go_into_tunnels_and_come_out_as_in_open_vswitch() {
    let mut both = Beside::start();
    let bucket = |peer: u8, port: u16| {
        format!("bucket=actions=set_field:{}->tun_dst,set_field:{port}->reg12,resubmit(,50)", address(peer))
    };
    let group = format!("group_id=500,type=all,{},{},{}", bucket(2, 200), bucket(3, 201), bucket(4, 202));
    for seed in test_random::seeds!("random_packets_go_into_tunnels_and_come_out_as_in_open_vswitch", 8) {
        let mut random = Random::new(seed);
        let flows = flows(&mut random);
        both.load(std::slice::from_ref(&group), &flows);
        for _ in 0..25 {
            let inner = frame(&mut random);
            let same = if random.chance(40) {
                both.receive(1 + random.below(3) as u16, &inner)
            } else {
                let encapsulation = random.pick(&FOR_ALL).1;
                let option = *random.pick(&[None, None, Some(7), Some(0), Some(0xf1)]);
                let option = option.filter(|_| encapsulation == Encapsulation::Geneve);
                let key = *random.pick(&[0, 0x102, 0x00ff_ffff]);
                let from = address(*random.pick(&PEERS));
                both.receive_tunnelled(&Wrapped { encapsulation, from, to: address(1), key, option, inner })
            };
            if let Err(difference) = same {
                panic!("seed {seed}\n{difference}\n{}", flows.join("\n"));
            }
        }
    }
}

/// Groups with this many buckets of these actions, and the flow that leads a packet to them.
fn flood(parts: &[(usize, &str)], before: &str) -> (Vec<String>, Vec<String>) {
    const IN_ONE: usize = 300;
    let (mut groups, mut calls) = (Vec::new(), Vec::new());
    for (count, actions) in parts {
        for first in (0..*count).step_by(IN_ONE) {
            let id = 500 + groups.len();
            let buckets = (first..*count.min(&(first + IN_ONE))).fold(String::new(), |text, bucket| {
                text + &format!(
                    ",bucket=bucket_id:{bucket},actions={}",
                    actions.replace("NN", &format!("{:02x}:{:02x}", bucket >> 8, bucket & 0xff))
                )
            });
            groups.push(format!("group_id={id},type=all{buckets}"));
            calls.push(format!("group:{id}"));
        }
    }
    // The last action is not a copy: the very last one takes four bytes less.
    let lead = format!("in_port=1 actions={before}{},output:3", calls.join(","));
    let flows = vec![lead, "table=50 actions=output:NXM_NX_REG12[]".to_owned()];
    (groups, flows)
}

#[test]
fn a_flood_is_cut_short_where_open_vswitch_cuts_it() {
    let mut both = Beside::start();
    let geneve = "set_field:172.31.0.2->tun_dst,output:200";
    let plain = "output:2";
    let called = "set_field:172.31.0.2->tun_dst,set_field:200->reg12,resubmit(,50)";
    let gre = "set_field:172.31.0.2->tun_dst,output:202";
    let to_each = "set_field:02:00:00:00:00:00->eth_dst,set_field:172.31.0.2->tun_dst,output:200";
    let from_and_to = "set_field:172.31.0.2->tun_dst,set_field:02:00:00:00:00:07->eth_src,set_field:00:00:00:00:NN->eth_dst,\
                       output:200";
    let option = "set_field:7->tun_metadata0,";
    let floods: Vec<(Vec<(usize, &str)>, &str)> = vec![
        (vec![(800, geneve)], ""),
        (vec![(800, called)], ""),
        (vec![(750, geneve)], option),
        (vec![(900, gre)], ""),
        (vec![(900, geneve), (5, plain)], ""),
        // Between the last copy that is sent and the first that is not.
        (vec![(779, geneve), (2, plain), (1, geneve), (1, plain)], ""),
        (vec![(779, geneve), (3, plain), (1, geneve), (1, plain)], ""),
        (vec![(779, geneve), (3, plain), (1, gre), (1, plain)], ""),
        (vec![(779, geneve), (4, plain), (1, gre), (1, plain)], ""),
        // A copy may exceed the limit, but no group after it.
        (vec![(8189, plain), (3, plain), (9, plain)], ""),
        (vec![(700, to_each), (100, geneve)], ""),
        (vec![(600, from_and_to)], ""),
        (vec![(700, geneve)], "set_field:02:00:00:00:00:09->eth_dst,push_vlan:0x8100,"),
    ];
    let bytes = [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0x88][..], b"a flood"].concat();
    for (parts, before) in floods {
        compare_flood(&mut both, &parts, before, &bytes);
    }
    // Lookups without a match count, and so do those of the underlay's bridge for tunnels.
    for lookups in 4095..=4097 {
        compare_flood(&mut both, &[(lookups, "resubmit(,51)")], "output:2,", &bytes);
        compare_flood(&mut both, &[(lookups, "resubmit(,52)")], "output:2,", &bytes);
    }
    for lookups in 3395..=3397 {
        compare_flood(&mut both, &[(lookups, "resubmit(,51)"), (700, geneve)], "", &bytes);
        compare_flood(&mut both, &[(700, geneve), (lookups, "resubmit(,51)")], "", &bytes);
    }
}

fn compare_flood(both: &mut Beside, parts: &[(usize, &str)], before: &str, bytes: &[u8]) {
    let (groups, mut flows) = flood(parts, before);
    flows.push("table=51 actions=set_field:1->reg1".to_owned());
    both.load(&groups, &flows);
    let out = arrived(both.fabric.send("here", Packet::new(bytes.to_vec(), PortNo(1))));
    let sent = both.switch.receive(1, bytes);
    let there = sent_by_switch(sent, &both.switch.sent_up());
    let count = |out: &[Out]| {
        let at = |host: &str, port: u16| out.iter().filter(|one| one.0 == host && one.1 == port).count();
        (at("2", 100), at("2", 102), at("here", 2), at("here", 3))
    };
    assert_eq!(count(&there), count(&out), "{before} {parts:?}");
    assert_eq!(there, out, "{before} {parts:?}");
}
