//! `ovs-ofctl` and this crate read the same flow from the same text.

use std::io::Write;

use openflow_rs::{Body, FlowMod, Message};

use ovs_testing::ofctl;

/// Requires that `ovs-ofctl` reads each text as the addition beside it.
pub(crate) fn check_read(flows: &[(String, FlowMod)]) {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    for (text, _) in flows {
        writeln!(file, "{text}").expect("written");
    }
    let printed = ofctl(&["parse-flows", file.path().to_str().expect("an ASCII path")]);
    let lines: Vec<&str> = printed.lines().filter(|line| line.starts_with("OFPT_")).collect();
    assert_eq!(lines.len(), flows.len(), "{printed}");
    for ((text, flow), line) in flows.iter().zip(lines) {
        let ours = Message { xid: 1, body: Body::FlowMod(flow.clone()) }.to_string();
        let after = |line: &str| line.split_once("): ").map(|(_, rest)| rest.to_owned());
        assert_eq!(after(&ours), after(line), "{text}");
    }
}

const SPELLINGS: &[&str] = &[
    // Matches.
    "reg1=0,reg2=26,reg3=0x5/0xff,actions=drop",
    "xreg0=0x500000006,xxreg3=1,actions=drop",
    "metadata=0/0xf,tun_id=0x5,tunnel_id=0x5,actions=drop",
    "in_port=65534,actions=drop",
    "in_port=local actions=drop",
    "in_port_oxm=5 actions=drop",
    "dl_type=0x800,nw_proto=6,tp_dst=80,actions=drop",
    "tcp,tcp_dst=80,tp_src=0x50/0xf0,actions=drop",
    "ip,nw_src=10.1.2.3/24,nw_dst=0.0.0.0/0,actions=drop",
    "ip,ip_src=10.1.2.3/255.0.255.0,ip_proto=17,udp_dst=53,actions=drop",
    "ip,ip_dscp=8,ip_ecn=1,nw_ttl=3,actions=drop",
    "ip,nw_tos=32,nw_frag=later,actions=drop",
    "vlan_tci=0,actions=drop",
    "vlan_tci=0xf123,actions=drop",
    "vlan_tci=0x1005/0x1fff,actions=drop",
    "vlan_vid=0x1000/0x1000,vlan_pcp=3,actions=drop",
    "dl_vlan=100,dl_vlan_pcp=5,actions=drop",
    "dl_vlan=0xffff,actions=drop",
    "dl_src=00:0A:0b:00:00:01,eth_dst=01:00:00:00:00:00/01:00:00:00:00:00,actions=drop",
    "arp,arp_op=1,nw_src=10.0.0.1,arp_tpa=10.0.0.0/8,arp_sha=00:00:00:00:00:01,actions=drop",
    "arp,nw_proto=2,actions=drop",
    "icmp,icmp_type=8,icmp_code=0,actions=drop",
    "icmp,tp_src=8,actions=drop",
    "icmp6,icmp_type=135,icmp_code=0,nd_target=fe80::1,nd_sll=00:00:00:00:00:01,actions=drop",
    "icmp6,icmpv6_type=136,nd_tll=00:00:00:00:00:01,nd_reserved=4,nd_options_type=2,actions=drop",
    "ipv6,ipv6_src=fe80::1/64,ipv6_dst=::1.2.3.4,ipv6_label=5,actions=drop",
    "ipv6,ipv6_dst=fe80::1/ff::ff,actions=drop",
    "tcp,tcp_flags=+syn-ack,actions=drop",
    "tcp,tcp_flags=0x2/0x12,actions=drop",
    "tcp,tcp_flags=syn,actions=drop",
    "ct_state=+trk-new,ct_zone=5,ct_mark=1/3,ct_label=0x5,ip,actions=drop",
    "ct_state=0x21/0x21,actions=drop",
    "tun_src=1.2.3.4,tun_dst=10.0.0.0/8,tun_flags=+oam,actions=drop",
    "tun_ipv6_dst=::1,tun_gbp_id=5,tun_gbp_flags=0x8,actions=drop",
    "tun_metadata0=0x5,reg0=1,actions=move:tun_metadata0[0..31]->reg0,set_field:5->tun_metadata0",
    "actions=push:tun_metadata0[0..31],learn(table=3,reg0=tun_metadata0[0..31])",
    "pkt_mark=1/1,conj_id=5,actset_output=3,actions=drop",
    "mpls,mpls_label=5,mpls_tc=1,mpls_ttl=3,mpls_bos=1,actions=drop",
    "packet_type=(0,0),actions=drop",
    "packet_type=(1,0x800),actions=drop",
    // Actions.
    "actions=",
    "actions=7,output:8,LOCAL,in_port,normal,all,flood,controller,CONTROLLER:20",
    "actions=output:reg1,output:NXM_NX_REG2[0..15],output:tun_id[0..15],output:metadata[3]",
    "actions=load:0x5->NXM_NX_REG0[0..15],load:5->reg0[],load:1->reg0[31],load:0->reg0[0..3]",
    "actions=set_field:0->reg0,set_field:0/0xf0->metadata,set_field:1->in_port,set_field:LOCAL->in_port",
    "actions=load:0xfffe->NXM_OF_IN_PORT[],set_field:5->xxreg0,set_field:5/0xf->xreg0",
    "actions=set_tunnel:5,set_tunnel64:6,set_field:1.2.3.4->tun_dst,set_field:::1->tun_ipv6_dst",
    "actions=mod_dl_src:0:0:0:0:0:a,set_field:00:00:00:00:00:01/01:00:00:00:00:01->eth_dst",
    "tcp,actions=mod_nw_src:1.2.3.4,set_field:1.2.3.0/24->ip_dst,mod_nw_tos:8,set_field:1->ip_ecn",
    "tcp,actions=set_field:80->tcp_dst,set_field:0x234/0xfff->tcp_src,set_field:9->nw_ttl,mod_nw_ttl:5",
    "dl_vlan=5,actions=set_field:4103->vlan_vid,set_field:3->vlan_pcp,pop_vlan",
    "actions=push_vlan:0x8100,set_field:4196->vlan_vid,set_field:3->vlan_pcp",
    "dl_vlan=5,actions=strip_vlan",
    "arp,actions=set_field:2->arp_op,move:arp_sha[]->arp_tha[],move:arp_spa->arp_tpa,set_field:1.2.3.4->arp_spa",
    "actions=move:reg0[0..15]->reg1[16..31],move:xreg0[0..15]->metadata[0..15],move:in_port[]->reg1[0..15]",
    "actions=move:in_port_oxm[0..15]->reg1[0..15],move:tun_dst->reg0,move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[]",
    "actions=resubmit:5,resubmit(5,),resubmit(5),resubmit(,6),resubmit(LOCAL,6)",
    "ct_state=+est+trk,ip,actions=resubmit(1,2,ct)",
    "ip,actions=dec_ttl,ct_clear,exit,note:01.02.03,note:,group:5",
    "actions=meter:5,output:3",
    "actions=check_pkt_larger(1000)->reg0[0],check_pkt_larger(1400)->metadata[63]",
    "actions=output:1,clear_actions,write_actions(output:2,group:3),write_metadata:5/0xff,goto_table:7",
    "actions=write_metadata:0",
    "actions=push:eth_src,push:reg0[3..5],pop:NXM_NX_REG1[0..2],pop:metadata[0..47],push:xxreg1",
    "actions=clone(output:1,clone(set_field:5->reg0,resubmit(,5)),learn(table=3)),output:2,clone()",
    "actions=set_queue:5,output:1,pop_queue,set_queue:0",
    "actions=sample(probability=65535,collector_set_id=9,obs_domain_id=5,obs_point_id=77,sampling_port=101)",
    "actions=sample(probability=0x10),sample(obs_point_id=7,probability=1,sampling_port=LOCAL,egress)",
    "actions=sample(probability=1,collector_set_id=0xffffffff,ingress,sampling_port=any),clone(sample(probability=2))",
    "actions=controller(),controller:20,controller(30),controller(max_len=40),controller(id=0,reason=action)",
    "actions=controller(id=5),controller(reason=no_match,max_len=0x80),CONTROLLER(reason=Invalid_TTL)",
    "actions=controller(userdata=01.02.ff,id=7),controller(userdata=0102.03, pause),controller(pause,meter_id=9)",
    "actions=controller(meter_id=0),controller(reason=packet_out,pause),clone(controller(id=3,userdata=00))",
    "actions=conjunction(7,1/3),conjunction(8,64/64),note:01.02",
    "ip,actions=ct,ct(),ct(commit),ct(commit,force,zone=5,table=7),ct(nat,table=7,zone=7),ct(zone=0)",
    "ip,actions=ct(zone=reg13[0..15],table=42),ct(zone=xxreg1[16..31]),ct(zone=metadata[0..15],table=0)",
    "ip,actions=ct(commit,nat(src=10.0.0.1)),ct(commit,nat(dst=10.0.0.1:80)),ct(commit,nat(src))",
    "ip,actions=ct(commit,nat(src=10.0.0.1-10.0.0.9:100-200,persistent,random)),ct(commit,nat(src,hash))",
    "ip,actions=ct(commit,nat(dst=10.0.0.1-10.0.0.1:80-80,hash,persistent))",
    "ipv6,actions=ct(commit,nat(dst=fe80::1-fe80::9)),ct(commit,nat(dst=[fe80::1]:5)),ct(commit,nat(src=::1.2.3.4))",
    "ipv6,actions=ct(commit,nat(dst=[fe80::1]-[fe80::9]:5-9,random))",
    "tcp,actions=ct(commit,alg=ftp)",
    "udp,actions=ct(commit,alg=tftp,exec(set_field:1->ct_mark))",
    "tcp,actions=ct(commit,exec(set_field:1->ct_mark),nat(src=1.2.3.4),alg=ftp,table=1,zone=3,force)",
    "ip,actions=ct(commit,nat(src=1.2.3.4),exec(set_field:1/0xf->ct_mark,load:5->NXM_NX_CT_LABEL[64..95]))",
    "ip,actions=ct(commit,exec(move:NXM_NX_REG0[]->NXM_NX_CT_MARK[],set_field:0xabcd->ct_label))",
    "actions=learn(),learn(priority=0),learn(table=2,priority=32768,cookie=0)",
    "actions=learn(table=21,priority=50,idle_timeout=300,hard_timeout=5,fin_idle_timeout=7,fin_hard_timeout=9,\
     cookie=0x99,OXM_OF_METADATA[],NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],reg0=5,load:7->NXM_NX_REG1[],\
     load:NXM_NX_REG0[]->NXM_NX_REG2[],output:NXM_NX_REG0[])",
    "actions=learn(table=21,send_flow_rem,delete_learned,limit=10,cookie=5,result_dst=reg0[5],eth_dst=eth_src)",
    "actions=learn(result_dst=metadata[5],in_port=5,in_port),learn(limit=10,eth_dst=0:0:0:0:0:5,reg1[0..3]=5)",
    "actions=learn(load:0x1122334455667788->metadata,xxreg0=0x5,load:0x5->xxreg0[0..99],load:0->reg0)",
    "tcp,actions=learn(table=21,eth_type=0x800,nw_proto=6,tcp_dst=NXM_OF_TCP_SRC[],load:0x1->reg0[5])",
    "ip,actions=learn(eth_type=0x800,ip_src=1.2.3.4,ip_dst=NXM_OF_IP_SRC[],load:1->in_port,in_port=LOCAL)",
    "actions=learn(eth_type=0x86dd,ipv6_src=fe80::1,load:0x5->ipv6_dst[]),learn(output:metadata,vlan_tci[0..11])",
    "actions=learn(conj_id=5,pkt_mark=5,tun_id=5,tun_src=1.2.3.4,vlan_vid=5,metadata=5,xreg0=0xfffffffffffffff5)",
    "actions=learn(eth_type=0x806,arp_op=2,arp_spa=1.2.3.4,arp_sha=0:0:0:0:0:1,ct_mark=5)",
    // Flows.
    "priority=32768,table=254,cookie=0xffffffffffffffff,actions=drop",
    "table=3 , cookie=5 priority=7 ip nw_dst=1.2.3.4 actions=1, 2",
    "idle_timeout=1,hard_timeout=65535,send_flow_rem,check_overlap,reset_counts,actions=drop",
];

#[test]
fn usual_spellings_read_alike() {
    let read = |text: &&str| {
        let flow: FlowMod = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        ((*text).to_owned(), flow)
    };
    check_read(&SPELLINGS.iter().map(read).collect::<Vec<_>>());
}
