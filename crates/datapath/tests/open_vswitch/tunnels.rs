//! Tunnels: what a switch with tunnel ports sends to its peers and takes from them, beside a [`Fabric`].

use std::net::Ipv4Addr;

use datapath::{Bridge, Encapsulation, Fabric, Host, Packet, Tunnel};
use openflow_rs::{FlowEntry, PortNo};
use seeded::Random;

use crate::frames::frame;
use crate::switch::{Switch, hex};
use crate::wrapping::{Wrapped, unwrap, wrap};

/// The switch's tunnel ports: for all peers, then for one.
const FOR_ALL: [(u16, Encapsulation); 3] =
    [(200, Encapsulation::Geneve), (201, Encapsulation::Vxlan), (202, Encapsulation::Gre)];
const FOR_ONE: [(u16, Encapsulation, u8); 2] =
    [(203, Encapsulation::Geneve, 2), (204, Encapsulation::Vxlan, 3)];
/// The peers' last bytes of addresses; the switch is 1.
const PEERS: [u8; 3] = [2, 3, 4];

fn address(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(172, 31, 0, last)
}

/// A switch with the tunnel ports, and the hosts that it is among. Peers write what tunnels said into the addresses of
/// what they get, and tell encapsulations apart by ports.
fn start() -> Option<(Switch, Fabric)> {
    let mut switch = Switch::start(crate::PORTS)?;
    let for_all = FOR_ALL.iter().map(|(port, kind)| (*port, *kind, "flow".to_owned()));
    let for_one = FOR_ONE.iter().map(|(port, kind, peer)| (*port, *kind, address(*peer).to_string()));
    let ports: Vec<_> = for_all.chain(for_one).collect();
    switch.add_tunnels(address(1), &PEERS.map(address), &ports);
    let mut here = Host::new(bridge(1..=crate::PORTS), address(1), tunnels());
    for (port, encapsulation, peer) in FOR_ONE {
        here.add_tunnel(PortNo(port), Tunnel { encapsulation, remote: Some(address(peer)) });
    }
    let mut fabric = Fabric::default();
    fabric.add("here", here);
    for peer in PEERS {
        let mut bridge = bridge([1, 100, 101, 102]);
        for (port, _) in FOR_ALL {
            let flow = format!(
                "in_port={port} actions=move:NXM_NX_TUN_ID[0..31]->NXM_OF_ETH_SRC[0..31],\
                 move:NXM_NX_TUN_METADATA0[0..31]->NXM_OF_ETH_DST[0..31],output:{}",
                port - 100
            );
            bridge.add_flow(flow.parse().expect("a flow")).expect("taken");
        }
        fabric.add(&peer.to_string(), Host::new(bridge, address(peer), tunnels()));
    }
    Some((switch, fabric))
}

fn bridge(ports: impl IntoIterator<Item = u16>) -> Bridge {
    Bridge::new(ports.into_iter().map(PortNo))
}

fn tunnels() -> impl Iterator<Item = (PortNo, Encapsulation)> {
    FOR_ALL.iter().map(|(port, kind)| (PortNo(*port), *kind))
}

/// A packet that came out somewhere: host, port and bytes.
type Out = (String, u16, Vec<u8>);

/// What a fabric's peers would make of what the switch sent to them.
fn at_peer(sent: &Wrapped) -> Out {
    let mut bytes = sent.inner.clone();
    if bytes.len() >= 14 {
        bytes[2..6].copy_from_slice(&sent.option.unwrap_or(0).to_be_bytes());
        bytes[8..12].copy_from_slice(&sent.key.to_be_bytes());
    }
    let port = FOR_ALL.iter().find(|(_, kind)| *kind == sent.encapsulation).map_or(0, |(port, _)| port - 100);
    (sent.to.octets()[3].to_string(), port, bytes)
}

fn sent_by_switch(ports: Vec<(u16, Vec<u8>)>, uplink: &[Vec<u8>]) -> Vec<Out> {
    let mut out: Vec<Out> = ports.into_iter().map(|(port, bytes)| ("here".to_owned(), port, bytes)).collect();
    out.extend(uplink.iter().map(|frame| at_peer(&unwrap(frame).expect("a tunnelled frame"))));
    out.sort();
    out
}

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
    let Some((mut switch, mut fabric)) = start() else { return };
    let bucket = |peer: u8, port: u16| {
        format!("bucket=actions=set_field:{}->tun_dst,set_field:{port}->reg12,resubmit(,50)", address(peer))
    };
    let group = format!("group_id=500,type=all,{},{},{}", bucket(2, 200), bucket(3, 201), bucket(4, 202));
    for seed in seeded::seeds(6) {
        let mut random = Random::new(seed);
        let flows = flows(&mut random);
        switch.load(std::slice::from_ref(&group), &flows).expect("the switch takes the flows");
        let here = fabric.host_mut("here").expect("it is there");
        let old: Vec<FlowEntry> = here.bridge.flows().into_iter().cloned().collect();
        for flow in old {
            here.bridge.remove_flow(flow.table, flow.priority, &flow.matches);
        }
        here.bridge.replace_group(group.parse().expect("a group")).expect("taken");
        for flow in &flows {
            here.bridge.add_flow(flow.parse().expect("a flow")).expect("taken");
        }
        for _ in 0..25 {
            let bytes = frame(&mut random);
            let (what, crossing, sent) = if random.chance(40) {
                let port = 1 + random.below(3) as u16;
                let crossing = fabric.trace("here", Packet::new(bytes.clone(), PortNo(port)));
                let sent = switch.receive(port, &bytes);
                (format!("{} on port {port}", hex(&bytes)), crossing, sent)
            } else {
                let (port, encapsulation) = *random.pick(&FOR_ALL);
                let option = [None, None, Some(7), Some(0), Some(0xf1)][random.below(5) as usize];
                let key = *random.pick(&[0, 0x102, 0x00ff_ffff]);
                let from = *random.pick(&PEERS);
                let set =
                    option.map_or(String::new(), |option| format!("set_field:{option}->tun_metadata0,"));
                let flow = format!(
                    "in_port=1 actions={set}set_field:{key}->tun_id,set_field:{}->tun_dst,output:{port}",
                    address(1)
                );
                let peer = fabric.host_mut(&from.to_string()).expect("it is there");
                peer.bridge.add_flow(flow.parse().expect("a flow")).expect("taken");
                let crossing = fabric.trace(&from.to_string(), Packet::new(bytes.clone(), PortNo(1)));
                let option = option.filter(|_| encapsulation == Encapsulation::Geneve);
                let wrapped =
                    Wrapped { encapsulation, from: address(from), to: address(1), key, option, inner: bytes };
                let sent = switch.receive_from_peer(&wrap(&wrapped));
                (format!("{wrapped:?}"), crossing, sent)
            };
            let there = sent_by_switch(sent, &switch.sent_up());
            let mut out: Vec<Out> =
                crossing.arrived.into_iter().map(|one| (one.host, one.port.0, one.bytes)).collect();
            out.sort();
            if out != there {
                let steps: String =
                    crossing.hops.iter().flat_map(|(_, steps)| steps).map(ToString::to_string).collect();
                panic!(
                    "seed {seed} (NLOG_SEED={seed} runs it alone)\n{what}\nOpen vSwitch: {there:x?}\nhere: {out:x?}\n\
                     {steps}{}",
                    flows.join("\n")
                );
            }
        }
    }
}

/// Groups of so many buckets with these actions each, and what leads a packet to them.
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
    // Something comes last that is no copy: the last one of all takes four bytes less.
    let lead = format!("in_port=1 actions={before}{},output:3", calls.join(","));
    let flows = vec![lead, "table=50 actions=output:NXM_NX_REG12[]".to_owned()];
    (groups, flows)
}

#[test]
fn a_flood_is_cut_short_where_open_vswitch_cuts_it() {
    let Some((mut switch, fabric)) = start() else { return };
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
        // Between the last that goes and the first that does not.
        (vec![(779, geneve), (2, plain), (1, geneve), (1, plain)], ""),
        (vec![(779, geneve), (3, plain), (1, geneve), (1, plain)], ""),
        (vec![(779, geneve), (3, plain), (1, gre), (1, plain)], ""),
        (vec![(779, geneve), (4, plain), (1, gre), (1, plain)], ""),
        // A copy may come to more than there is room for, but no group after it.
        (vec![(8189, plain), (3, plain), (9, plain)], ""),
        (vec![(700, to_each), (100, geneve)], ""),
        (vec![(600, from_and_to)], ""),
        (vec![(700, geneve)], "set_field:02:00:00:00:00:09->eth_dst,push_vlan:0x8100,"),
    ];
    let bytes = [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0x88][..], b"a flood"].concat();
    for (parts, before) in floods {
        compare_flood(&mut switch, &fabric, &parts, before, &bytes);
    }
    // Look-ups in vain count, and those of tunnels, which the underlay's bridge needs.
    for lookups in 4095..=4097 {
        compare_flood(&mut switch, &fabric, &[(lookups, "resubmit(,51)")], "output:2,", &bytes);
        compare_flood(&mut switch, &fabric, &[(lookups, "resubmit(,52)")], "output:2,", &bytes);
    }
    for lookups in 3395..=3397 {
        compare_flood(&mut switch, &fabric, &[(lookups, "resubmit(,51)"), (700, geneve)], "", &bytes);
        compare_flood(&mut switch, &fabric, &[(700, geneve), (lookups, "resubmit(,51)")], "", &bytes);
    }
}

fn compare_flood(switch: &mut Switch, fabric: &Fabric, parts: &[(usize, &str)], before: &str, bytes: &[u8]) {
    let (groups, mut flows) = flood(parts, before);
    flows.push("table=51 actions=set_field:1->reg1".to_owned());
    switch.load(&groups, &flows).expect("the switch takes the flows");
    let mut fabric = fabric.clone();
    let here = &mut fabric.host_mut("here").expect("it is there").bridge;
    for group in &groups {
        here.add_group(group.parse().expect("a group")).expect("taken");
    }
    for flow in &flows {
        here.add_flow(flow.parse().expect("a flow")).expect("taken");
    }
    let mut out: Vec<Out> = fabric
        .send("here", Packet::new(bytes.to_vec(), PortNo(1)))
        .arrived
        .into_iter()
        .map(|one| (one.host, one.port.0, one.bytes))
        .collect();
    out.sort();
    let sent = switch.receive(1, bytes);
    let there = sent_by_switch(sent, &switch.sent_up());
    let count = |out: &[Out]| {
        let at = |host: &str, port: u16| out.iter().filter(|one| one.0 == host && one.1 == port).count();
        (at("2", 100), at("2", 102), at("here", 2), at("here", 3))
    };
    assert_eq!(count(&there), count(&out), "{before} {parts:?}");
    assert_eq!(there, out, "{before} {parts:?}");
}
