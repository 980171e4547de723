//! Cases that random tables seldom reach, and the building blocks of the network's tables.

use openflow_rs::FlowEntry;
use test_random::Random;

use crate::open_vswitch::compare::first_difference;
use crate::open_vswitch::frames::frame;
use crate::open_vswitch::tables::Case;
use crate::open_vswitch::{PORTS, Setting};
use ovs_testing::DummySwitch;

/// The first fragment of a TCP packet to port 80, and a later one.
const FRAGMENTS: [&str; 2] = [
    "020000000002020000000001080045000028000120004006\
     00000a0000010a00000200010050000000010000000050020100000000000000",
    "020000000002020000000001080045000028000100044006\
     00000a0000010a00000200010050000000010000000050020100000000000000",
];

/// Flows of each building block: for table 0, without the ingress port, and for tables from 1 on.
const PIECES: &[(&str, &[&str], &[&str])] = &[
    (
        "the tables see no ports of any fragment",
        &[],
        &[
            "priority=3,tcp,tp_dst=80 actions=2",
            "priority=2,tcp,nw_frag=first,tp_dst=0 actions=set_field:99->tcp_dst,output:3",
            "priority=1,ip actions=set_field:10.9.9.9->ip_dst,output:1",
        ],
    ),
    (
        "an exit ends its bucket alone, and everything within a clone",
        &["type=all,bucket=actions=resubmit(,1),bucket=actions=output:3"],
        &[
            "priority=2,dl_type=0x0800 actions=group:GROUP,output:1",
            "priority=1 actions=clone(resubmit(,1),output:1),output:3",
            "table=1 actions=output:2,exit,output:1",
        ],
    ),
    (
        "a packet whose time is up leaves its own list",
        &[],
        &[
            "actions=resubmit(,1),output:3",
            "table=1,ip actions=dec_ttl,output:2",
            "table=1,priority=3,ipv6 actions=dec_ttl,2",
        ],
    ),
    (
        "a time that is up ends its bucket, and those of other protocols have none",
        &[
            "type=all,bucket=actions=output:2,set_field:10.9.9.9->ip_dst,dec_ttl,bucket=actions=dec_ttl,resubmit(,1),\
           bucket=actions=mod_nw_ttl:1,resubmit(,1),bucket=actions=dec_ttl,set_field:2->nw_ttl,output:1",
        ],
        &[
            "priority=2,ip actions=dec_ttl,group:GROUP,dec_ttl,output:1",
            "priority=2,ipv6 actions=group:GROUP,dec_ttl,dec_ttl,output:1",
            "priority=1 actions=group:GROUP,output:1",
            "table=1,priority=2,ip,nw_ttl=1 actions=set_field:8->nw_tos,dec_ttl,output:3",
            "table=1,priority=2,ipv6,nw_ttl=0 actions=output:3",
            "table=1,priority=1 actions=output:3,output:2",
        ],
    ),
    (
        "what was rewritten is offered to controllers as the time is up: a tag put on and off again is written",
        &[],
        &[
            "ip,vlan_tci=0x1000/0x1000 actions=move:NXM_OF_VLAN_TCI[]->NXM_NX_REG13[0..15],pop_vlan,resubmit(,1),\
             push_vlan:0x8100,move:NXM_NX_REG13[0..15]->NXM_OF_VLAN_TCI[],output:2",
            "table=1,priority=2,ip,nw_ttl=64 actions=drop",
            "table=1,priority=1,ip actions=dec_ttl,output:3",
        ],
    ),
    (
        "the length decides what comes after it in its list, and nothing else",
        &["type=all,bucket=actions=resubmit(,1),bucket=actions=output:3"],
        &[
            "priority=2,ip actions=set_field:1->reg1,resubmit(,1),move:NXM_NX_REG1[0..7]->NXM_OF_ETH_SRC[0..7],\
             pop:NXM_NX_REG4[],move:NXM_NX_REG4[0..7]->NXM_OF_ETH_SRC[8..15],output:1",
            "priority=1 actions=group:GROUP,move:NXM_NX_REG1[0..7]->NXM_OF_ETH_SRC[0..7],output:1",
            "table=1 actions=set_field:7->reg4,push:NXM_NX_REG4[],set_field:0->reg4,\
             check_pkt_larger(64)->NXM_NX_REG1[0],set_field:02:00:00:00:00:33->eth_dst,resubmit(,2),output:3",
            "table=2,reg1=0/1 actions=pop:NXM_NX_REG5[],output:2,exit",
            "table=2,reg1=1/1,vlan_tci=0/0x1000 actions=pop:NXM_NX_REG5[],push_vlan:0x8100,\
             check_pkt_larger(76)->NXM_NX_REG1[1],resubmit(,3),output:2",
            "table=2,reg1=1/1,vlan_tci=0x1000/0x1000 actions=pop_vlan,check_pkt_larger(72)->NXM_NX_REG1[1],\
             resubmit(,3),output:2",
            "table=3,reg1=2/2 actions=set_field:02:00:00:00:00:09->eth_src,output:3,exit",
            "table=3,reg1=0/2 actions=set_field:02:00:00:00:00:08->eth_src,output:3",
        ],
    ),
    (
        "what is popped after a comparison is on the stack again once its list ends",
        &[],
        &[
            "actions=set_field:7->reg4,push:NXM_NX_REG4[],set_field:0->reg4,resubmit(,1),pop:NXM_NX_REG4[],\
             move:NXM_NX_REG4[0..7]->NXM_OF_ETH_SRC[0..7],output:1",
            "table=1 actions=check_pkt_larger(64)->NXM_NX_REG1[0],pop:NXM_NX_REG5[],output:2",
        ],
    ),
    (
        "a comparison alone in its list changes nothing",
        &[],
        &[
            "actions=set_field:2->reg1,resubmit(,1),clone(check_pkt_larger(60)->NXM_NX_REG1[0],output:3),\
             resubmit(,2)",
            "table=1 actions=check_pkt_larger(60)->NXM_NX_REG1[1]",
            "table=2,reg1=0 actions=output:1",
            "table=2,reg1=2 actions=output:2",
            "table=2,reg1=3 actions=output:3",
        ],
    ),
    (
        "a stack swaps addresses; it is restored after a clone and not after a bucket",
        &["type=all,bucket=actions=resubmit(,1)"],
        &[
            "priority=2,ip actions=push:NXM_OF_IP_SRC[],move:NXM_OF_IP_DST[]->NXM_OF_IP_SRC[],pop:NXM_OF_IP_DST[],2",
            "priority=1 actions=push:NXM_NX_REG1[],set_field:5->reg5,push:NXM_NX_REG5[],\
             clone(pop:NXM_NX_REG2[]),group:GROUP,pop:NXM_NX_REG3[],pop:NXM_NX_REG6[],\
             move:NXM_NX_REG3[0..15]->NXM_OF_ETH_SRC[0..15],output:2",
            "table=1 actions=set_field:77->reg4,push:NXM_NX_REG4[]",
        ],
    ),
    (
        "an ARP request is answered",
        &[],
        &[
            "arp,arp_op=1 actions=move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[],set_field:02:00:00:00:00:aa->eth_src,\
           set_field:2->arp_op,move:NXM_NX_ARP_SHA[]->NXM_NX_ARP_THA[],move:NXM_OF_ARP_TPA[]->NXM_NX_REG4[],\
           move:NXM_OF_ARP_SPA[]->NXM_OF_ARP_TPA[],set_field:02:00:00:00:00:aa->arp_sha,\
           move:NXM_NX_REG4[]->NXM_OF_ARP_SPA[],IN_PORT",
        ],
    ),
    (
        "a neighbour solicitation is answered, in two tables",
        &[],
        &[
            "icmp6,icmp_type=135,icmp_code=0 actions=move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[],\
             set_field:02:00:00:00:00:aa->eth_src,move:NXM_NX_IPV6_SRC[]->NXM_NX_IPV6_DST[],\
             move:NXM_NX_ND_TARGET[]->NXM_NX_IPV6_SRC[],set_field:255->nw_ttl,set_field:136->icmpv6_type,resubmit(,1)",
            "table=1,icmp6,icmp_type=136,icmp_code=0 actions=set_field:0x60000000->nd_reserved,\
             set_field:2->nd_options_type,set_field:02:00:00:00:00:aa->nd_tll,IN_PORT",
        ],
    ),
    (
        "an echo is answered, and one to a router",
        &[],
        &["icmp,icmp_type=8,icmp_code=0 actions=move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[],\
           move:NXM_OF_IP_SRC[]->NXM_OF_IP_DST[],set_field:10.0.0.9->ip_src,set_field:255->nw_ttl,\
           set_field:0->icmp_type,IN_PORT"],
    ),
    (
        "a child's tag is taken off, and put on again",
        &[],
        &[
            "priority=2,vlan_tci=0x1000/0x1000 actions=move:NXM_OF_VLAN_TCI[0..11]->NXM_NX_REG13[0..11],pop_vlan,\
             output:2,push_vlan:0x8100,move:NXM_NX_REG13[0..11]->NXM_OF_VLAN_TCI[0..11],set_field:3->vlan_pcp,output:3",
            "priority=1 actions=push_vlan:0x8100,set_field:4106->vlan_vid,push_vlan:0x88a8,output:2,pop_vlan,output:3",
        ],
    ),
    (
        "of two tags the inner one may be the frame's type, also once the outer one is gone",
        &[],
        &[
            "priority=2,vlan_tci=0x1000/0x1000 actions=pop_vlan,resubmit(,1)",
            "priority=1,vlan_tci=0/0x1000 actions=output:1",
            "table=1,priority=3,vlan_tci=0x1000/0x1000 actions=output:1",
            "table=1,priority=2,dl_type=0x8100 actions=output:2,push_vlan:0x8100,set_field:4099->vlan_vid,output:3",
            "table=1,priority=2,dl_type=0x88a8 actions=output:3",
            "table=1,priority=1,vlan_tci=0/0x1000 actions=set_field:0x1007->reg13,push_vlan:0x8100,\
             move:NXM_NX_REG13[0..15]->NXM_OF_VLAN_TCI[],output:2",
        ],
    ),
    (
        "addresses and ports change with their checksums, where they are",
        &[],
        &[
            "priority=3,tcp actions=set_field:99->tcp_dst,set_field:10.9.9.9->ip_src,set_field:1->nw_ecn,output:2",
            "priority=3,udp actions=set_field:99->udp_src,set_field:10.9.9.9->ip_dst,set_field:9->ip_dscp,output:2",
            "priority=2,ipv6 actions=set_field:fd00::9->ipv6_dst,set_field:fd00::8->ipv6_src,set_field:1->nw_ecn,\
             set_field:5->ipv6_label,output:2",
            // Without arp_op in the match, ovs-vswitchd 3.1 crashes on a frame that ends within its ARP header: it
            // writes to the missing field.
            "priority=1,arp,arp_op=1 actions=set_field:10.9.9.9->arp_tpa,set_field:2->arp_op,output:2",
        ],
    ),
    (
        "in_port can be cleared, and a look-up can be as if from another port",
        &[],
        &[
            "priority=2,in_port=9000 actions=output:3",
            "priority=1 actions=resubmit(9000,0),output:INPORT,IN_PORT,set_field:0->in_port,output:INPORT,IN_PORT",
        ],
    ),
];

#[test]
fn the_pieces_of_pipelines_go_as_in_open_vswitch() {
    let mut switch = DummySwitch::start(1..=PORTS);
    for (what, groups, flows) in PIECES {
        let port = 5;
        let mut random = Random::new(1);
        let mut frames: Vec<Vec<u8>> = (0..150).map(|_| frame(&mut random)).collect();
        frames.extend(FRAGMENTS.iter().map(|digits| bytes(digits)));
        let written = |text: &str| text.replace("GROUP", "500").replace("INPORT", &port.to_string());
        let groups =
            groups.iter().map(|group| format!("group_id=500,{group}").parse().expect("a group")).collect();
        let flows: Vec<FlowEntry> = flows.iter().map(|flow| written(flow).parse().expect("a flow")).collect();
        let case = Case { port, flows, groups, frames };
        for vlan_limit in [1, 2, 0] {
            let setting = Setting::new(&mut switch, vlan_limit);
            let difference = first_difference(&mut switch, &setting, std::slice::from_ref(&case));
            if let Some(failure) = difference.unwrap_or_else(|error| panic!("{what}: {error}")) {
                panic!("{what}, with vlan-limit={vlan_limit}:\n{failure}");
            }
        }
    }
}

#[test]
fn a_loop_may_go_as_deep_as_in_open_vswitch() {
    let mut switch = DummySwitch::start(1..=PORTS);
    let setting = Setting::new(&mut switch, 1);
    for length in 62..=66 {
        let step = |at: u64| format!("table=1,reg1={at} actions=set_field:{}->reg1,resubmit(,1)", at + 1);
        let mut flows = vec!["actions=output:2,resubmit(,1)".to_owned()];
        flows.extend((0..length).map(step));
        flows.push(format!("table=1,reg1={length} actions=output:3"));
        let flows: Vec<FlowEntry> = flows.iter().map(|flow| flow.parse().expect("a flow")).collect();
        let case = Case { port: 5, flows, groups: vec![], frames: vec![bytes(FRAGMENTS[0])] };
        let difference = first_difference(&mut switch, &setting, &[case]);
        if let Some(failure) = difference.expect("the switch takes the flows") {
            panic!("{length} steps:\n{failure}");
        }
    }
}

fn bytes(digits: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal");
    (0..digits.len()).step_by(2).map(byte).collect()
}
