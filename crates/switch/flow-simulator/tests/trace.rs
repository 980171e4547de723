//! What a trace says of choices, lengths and times.

use flow_simulator::trace::{HandedOver, What};
use flow_simulator::{Bridge, Outcome, Packet};
use frame_builder::{ARP, IPV4, IPV6, Ipv4, Ipv6, UDP, ethernet};
use openflow_rs::{Field, PortNo};

fn bridge(groups: &[&str], flows: &[&str]) -> Bridge {
    let mut bridge = Bridge::new((1..=5).map(PortNo));
    for group in groups {
        bridge.add_group(group.parse().expect("a group")).expect("an interpreted group");
    }
    for flow in flows {
        bridge.add_flow(flow.parse().expect("a flow")).expect("an interpreted flow");
    }
    bridge
}

fn frame(ttl: u8, payload: usize) -> Vec<u8> {
    let header = Ipv4 {
        src: [10, 0, 0, 1].into(),
        dst: [10, 0, 0, 2].into(),
        protocol: UDP,
        tos: 0,
        identification: 1,
        fragment: 0,
        ttl,
        options: vec![],
    };
    ethernet([2; 6], [4; 6], IPV4, &header.packet(&vec![1; payload]))
}

fn trace(bridge: &Bridge, frame: Vec<u8>) -> (Vec<u16>, String) {
    let Outcome { emitted, steps, .. } = bridge.trace(&Packet::new(frame, PortNo(5)));
    let text = steps.iter().map(ToString::to_string).collect();
    (emitted.iter().map(|one| one.port.0).collect(), text)
}

#[track_caller]
fn says(text: &str, part: &str) {
    assert!(text.lines().any(|line| line.trim() == part), "no line `{part}` in\n{text}");
}

#[test]
fn the_state_of_a_connection_is_shown_where_its_packet_goes_on() {
    let mut bridge = bridge(
        &[],
        &[
            "ip actions=ct(zone=7,table=3),output:1",
            "table=3,ip,ct_state=+new-inv actions=ct(commit,zone=7,exec(set_field:5->ct_mark)),output:2",
            "table=3,ip,ct_state=-new-inv actions=output:3",
        ],
    );
    let packet = |from, to| {
        let header = Ipv4::new(from, to, 47);
        ethernet([2; 6], [4; 6], IPV4, &header.packet(&[0; 8]))
    };
    let (one, other) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let (ports, text) = trace(&bridge, packet(one, other));
    assert_eq!(ports, [2, 1], "the datapath looks a tracked copy up before it goes on");
    says(&text, "-> zone 7; a tracked copy goes on in table 3, below");
    says(&text, "-> tracked in zone 7: +new+trk, ct_mark=0x0");
    assert_eq!(bridge.connections().count(), 0, "a trace commits nothing");
    bridge.receive(&Packet::new(packet(one, other), PortNo(5)));
    let (ports, text) = trace(&bridge, packet(other, one));
    assert_eq!(ports, [3, 1]);
    says(&text, "-> tracked in zone 7: +est+rpl+trk, ct_mark=0x5");
    bridge.advance(std::time::Duration::from_mins(1));
    assert_eq!(bridge.connections().count(), 0);
}

#[test]
fn the_bucket_that_is_first_of_those_alive_is_named_and_why_others_are_not() {
    let mut bridge = bridge(
        &[
            "group_id=1,type=ff,bucket=bucket_id:4,watch_port:2,actions=output:2,bucket=bucket_id:3,watch_port:3,actions=output:3",
            "group_id=2,type=ff,bucket=bucket_id:7,watch_group:1,actions=output:2,bucket=bucket_id:8,watch_port:77,watch_group:9,actions=output:1",
        ],
        &["priority=2,ip actions=group:1,output:4", "priority=1 actions=group:2,output:4"],
    );
    let other = || ethernet([2; 6], [4; 6], ARP, &[0; 28]);
    let (ports, text) = trace(&bridge, frame(9, 8));
    assert_eq!(ports, [2, 4]);
    says(&text, "-> bucket 4, the first that is live");
    says(&text, "bucket 4");
    assert_eq!(trace(&bridge, other()).0, [2, 4]);

    bridge.set_live(PortNo(2), false);
    let (ports, text) = trace(&bridge, frame(9, 8));
    assert_eq!(ports, [3, 4]);
    says(&text, "-> bucket 3, the first that is live; 4: port 2 is not live");
    // A port that is not live still sends and receives.
    assert!(bridge.has_port(PortNo(2)) && !bridge.is_live(PortNo(2)));

    bridge.remove_port(PortNo(3));
    let (ports, text) = trace(&bridge, frame(9, 8));
    assert_eq!(ports, [4], "what comes after the group is done all the same");
    says(&text, ">> no bucket is live; 4: port 2 is not live, 3: port 3 is not live");
    let (ports, text) = trace(&bridge, other());
    assert_eq!(ports, [4]);
    says(&text, ">> no bucket is live; 7: group 1 is not live, 8: neither its port nor its group is live");
    bridge.set_live(PortNo(2), true);
    assert_eq!(trace(&bridge, frame(9, 8)).0, [2, 4]);
}

#[test]
fn groups_that_watch_each_other_are_not_live() {
    // Open vSwitch takes a group that watches one that comes later.
    let bridge = bridge(
        &[
            "group_id=1,type=ff,bucket=bucket_id:1,watch_group:2,actions=output:2",
            "group_id=2,type=ff,bucket=bucket_id:1,watch_group:1,actions=output:2",
        ],
        &["actions=group:1"],
    );
    assert!(trace(&bridge, frame(9, 8)).0.is_empty());
}

#[test]
fn the_bucket_with_the_highest_score_is_named_with_the_fields_and_all_scores() {
    let group = "group_id=1,type=select,selection_method=hash,fields(ip_dst,ipv6_dst,nw_proto,tcp_dst),\
                 bucket=bucket_id:1,weight:1,actions=output:1,bucket=bucket_id:2,weight:0,actions=output:2,\
                 bucket=bucket_id:3,weight:1,watch_port:3,actions=output:3";
    let mut bridge = bridge(&[group], &["actions=group:1"]);
    let (ports, text) = trace(&bridge, frame(9, 8));
    assert_eq!(ports.len(), 1);
    let chosen =
        format!("-> bucket {0}, which has the highest score by the hash of ip_dst, nw_proto; 1: ", ports[0]);
    let line = text.lines().find(|line| line.trim().starts_with(&chosen)).unwrap_or_else(|| panic!("{text}"));
    assert!(line.contains(", 2: weight 0, 3: "), "{line}");
    let score = |number: &str| -> u32 {
        let after = line.split_once(&format!(" {number}: ")).expect("a score").1;
        after.split(',').next().expect("text").parse().expect("a number")
    };
    assert_eq!(ports[0] == 1, score("1") > score("3"), "{line}");
    bridge.set_live(PortNo(3), false);
    let (ports, text) = trace(&bridge, frame(9, 8));
    assert_eq!(ports, [1]);
    assert!(text.contains(", 3: port 3 is not live"), "{text}");
}

#[test]
fn a_length_is_named_and_only_its_case_is_shown() {
    let bridge = bridge(
        &[],
        &[
            "actions=check_pkt_larger(60)->NXM_NX_REG0[3],resubmit(,1)",
            "table=1,reg0=0x8 actions=output:1",
            "table=1,reg0=0 actions=output:2",
        ],
    );
    for (payload, port, line) in [
        (26, 2, "-> 60 bytes, not larger: NXM_NX_REG0[3] is now 0"),
        (27, 1, "-> 61 bytes, larger: NXM_NX_REG0[3] is now 1"),
    ] {
        let (ports, text) = trace(&bridge, frame(9, payload));
        assert_eq!(ports, [port]);
        says(&text, line);
        assert_eq!(text.matches("sent by port").count(), 1, "{text}");
        assert_eq!(text.matches("resubmit(,1)").count(), 1, "{text}");
    }
}

#[test]
fn a_result_that_nothing_can_see_is_named() {
    let bridge = bridge(
        &[],
        &[
            "actions=resubmit(,1),resubmit(,2)",
            "table=1 actions=check_pkt_larger(60)->NXM_NX_REG0[3]",
            "table=2,reg0=0 actions=output:2",
        ],
    );
    let (ports, text) = trace(&bridge, frame(9, 100));
    assert_eq!(ports, [2]);
    says(&text, ">> nothing comes after it in these actions: the result is lost");
}

#[test]
fn a_loop_for_packets_of_another_length_stops_this_one_too() {
    let flows = [
        "actions=output:2,check_pkt_larger(60)->NXM_NX_REG0[3],resubmit(,1)",
        "table=1,reg0=0x8 actions=resubmit(,1)",
        "table=1,reg0=0 actions=output:2",
    ];
    let (ports, text) = trace(&bridge(&[], &flows), frame(9, 8));
    assert!(ports.is_empty());
    assert!(text.contains(">> a packet of another length: resubmits and groups nested more than"), "{text}");
}

#[test]
fn meters_drop_and_count_only_packets_of_their_length() {
    let mut bridge = Bridge::new((1..=5).map(PortNo));
    bridge.add_meter(1);
    for flow in [
        "actions=check_pkt_larger(60)->NXM_NX_REG0[3],resubmit(,1)",
        "table=1,reg0=0x8 actions=meter:1,output:1",
        "table=1,reg0=0 actions=output:2",
    ] {
        bridge.add_flow(flow.parse().expect("a flow")).expect("taken");
    }
    bridge.set_budget(1, Some(0)).expect("the meter");
    let mut send = |payload| bridge.receive(&Packet::new(frame(9, payload), PortNo(5))).emitted.len();
    assert_eq!((send(8), send(100), send(8)), (1, 0, 1));
    assert_eq!(bridge.meters().next().expect("the meter").1.dropped, 1);
}

#[test]
fn a_time_that_is_up_is_named_and_a_packet_without_one_goes_on() {
    let bridge = bridge(
        &["group_id=1,type=all,bucket=actions=dec_ttl,output:1,bucket=actions=mod_nw_ttl:7,output:2"],
        &["priority=2,ip,nw_ttl=255 actions=dec_ttl,output:4", "priority=1 actions=group:1,output:3"],
    );
    for (ttl, expected) in [(0, vec![2, 3]), (1, vec![2, 3]), (2, vec![1, 2, 3]), (255, vec![4])] {
        let (ports, text) = trace(&bridge, frame(ttl, 8));
        assert_eq!(ports, expected, "TTL {ttl}\n{text}");
        if ttl < 2 {
            says(&text, &format!(">> the time to live is {ttl}: the rest of these actions is skipped"));
        }
    }
    let (src, dst) = ("fd00::1".parse().expect("an address"), "fd00::2".parse().expect("an address"));
    let six = Ipv6 { src, dst, next: UDP, tos: 0, label: 0, hops: 1 }.packet(&[1; 8]);
    let (ports, text) = trace(&bridge, ethernet([2; 6], [4; 6], IPV6, &six));
    assert_eq!(ports, [2, 3]);
    says(&text, ">> the time to live is 1: the rest of these actions is skipped");
    let (ports, text) = trace(&bridge, ethernet([2; 6], [4; 6], ARP, &[0; 28]));
    assert_eq!(ports, [1, 2, 3]);
    says(&text, ">> the packet has no time to live: it is not IP");
}

#[test]
fn what_a_controller_gets_is_the_packet_as_it_is_there_and_its_fields() {
    let flow = "ip actions=set_field:7->reg4,set_field:9->metadata,dec_ttl,set_field:10.0.0.9->ip_dst,\
                controller(id=7,userdata=01.02),set_field:10.0.0.8->ip_dst,output:1";
    let bridge = bridge(&[], &[flow]);
    let outcome = bridge.trace(&Packet::new(frame(9, 20), PortNo(5)));
    says(&outcome.steps[0].to_string(), "-> handed to controller 7");
    let steps = outcome.steps[0].within.iter().flat_map(|step| &step.within);
    let handed: Vec<&HandedOver> = steps
        .filter_map(|step| match &step.what {
            What::HandedOver(handed) => Some(&**handed),
            _ => None,
        })
        .collect();
    let [handed] = handed[..] else { panic!("{:?}", outcome.steps) };
    assert_eq!((handed.controller.id, &*handed.controller.userdata), (7, &[1, 2][..]));
    let read = Packet::new(handed.bytes.clone(), PortNo(5));
    assert_eq!((read.key().get(Field::IpDst), read.key().get(Field::IpTtl)), (0x0a00_0009, 8));
    assert_eq!(handed.key.metadata(), "reg4=7,metadata=9,in_port=5".parse().expect("fields"));
    // The packet goes on as if nobody had got it.
    assert_eq!(outcome.emitted.len(), 1);
    assert_eq!(outcome.emitted[0].key.get(Field::IpDst), 0x0a00_0008);
    assert_eq!(bridge.process(&Packet::new(frame(9, 20), PortNo(5))).emitted, outcome.emitted);
}
