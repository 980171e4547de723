//! Which bucket a real switch gives a flow to, what moves when buckets come and go, and lengths to the byte.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};

use flow_simulator::{Bridge, Packet};
use frame_builder::{Endpoints, IPV4, IPV6, Ipv4, Ipv6, UDP, VLAN, ethernet, tagged, udp};
use openflow_rs::{Bucket, GroupEntry, PortNo};
use ovs_testing::DummySwitch;
use test_random::Random;

use crate::open_vswitch::PORTS;

const IN_PORT: u16 = 9;
const FLOWS: u16 = 120;
const FIELDS: &str = "fields(ip_src,ip_dst,ipv6_src,ipv6_dst,nw_proto,udp_src,udp_dst,tcp_src,tcp_dst)";

/// A packet of a flow: flows of even numbers are IPv4, others IPv6.
fn packet_of(flow: u16, ttl: u8, payload: &[u8]) -> Vec<u8> {
    let [high, low] = flow.to_be_bytes();
    let (kind, packet) = if flow.is_multiple_of(2) {
        let (src, dst) = (Ipv4Addr::new(10, 0, high, low), Ipv4Addr::new(10, 1, 0, 1));
        let inside = udp(1000 + flow, 53, payload, Endpoints::V4(src, dst));
        let header =
            Ipv4 { src, dst, protocol: UDP, tos: 0, identification: 7, fragment: 0, ttl, options: vec![] };
        (IPV4, header.packet(&inside))
    } else {
        let (src, dst) = (Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, flow), Ipv6Addr::LOCALHOST);
        let inside = udp(1000 + flow, 53, payload, Endpoints::V6(src, dst));
        (IPV6, Ipv6 { src, dst, next: UDP, tos: 0, label: 0, hops: ttl }.packet(&inside))
    };
    ethernet([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1], kind, &packet)
}

/// A switch and a bridge with the same group, whose bucket N sends by port N.
struct Both {
    switch: DummySwitch,
    bridge: Bridge,
    random: Random,
}

impl Both {
    fn start() -> Both {
        let bridge = Bridge::new((1..=PORTS).map(PortNo));
        Both { switch: DummySwitch::start(1..=PORTS), bridge, random: Random::new(1) }
    }

    fn load(&mut self, group: &GroupEntry) {
        let flow = "actions=group:7";
        self.switch.load(&[group.to_string()], &[flow.to_owned()]).expect("the switch takes the group");
        self.bridge.replace_group(group.clone()).expect("an interpreted group");
        self.bridge.add_flow(flow.parse().expect("a flow")).expect("taken");
    }

    fn set_live(&mut self, port: u16, live: bool) {
        self.switch.set_live([port], live);
        self.bridge.set_live(PortNo(port), live);
    }

    /// The port of each flow, from the switch, which must be the bridge's choice; 0 if its packet is dropped.
    fn ports(&mut self, flows: u16) -> BTreeMap<u16, u16> {
        let mut ports = BTreeMap::new();
        for flow in 0..flows {
            // What the group does not hash may differ.
            let ttl = 2 + self.random.below(200) as u8;
            let frame = packet_of(flow, ttl, &vec![1; self.random.below(9) as usize]);
            let sent = self.switch.receive(IN_PORT, &frame);
            let by_switch: Vec<u16> = sent.iter().map(|(port, _)| *port).collect();
            let outcome = self.bridge.trace(&Packet::new(frame, PortNo(IN_PORT)));
            let here: Vec<u16> = outcome.emitted.iter().map(|one| one.port.0).collect();
            let steps: String = outcome.steps.iter().map(ToString::to_string).collect();
            assert_eq!(here, by_switch, "flow {flow}\n{steps}");
            ports.insert(flow, by_switch.first().copied().unwrap_or(0));
        }
        ports
    }
}

fn select(buckets: &[(u16, u16)]) -> GroupEntry {
    let text = format!("group_id=7,type=select,selection_method=hash,{FIELDS}");
    let mut group: GroupEntry = text.parse().expect("a group");
    group.buckets = buckets
        .iter()
        .map(|(port, weight)| {
            let actions = format!("output:{port}").parse().expect("actions");
            Bucket { weight: *weight, watch_port: PortNo(*port), ..Bucket::new((*port).into(), actions) }
        })
        .collect();
    group
}

fn used(ports: &BTreeMap<u16, u16>) -> BTreeSet<u16> {
    ports.values().copied().collect()
}

#[test]
fn a_bucket_that_goes_moves_its_own_flows_alone() {
    let mut both = Both::start();
    both.load(&select(&[(1, 1), (2, 1), (3, 1), (4, 1), (5, 1)]));
    let all = both.ports(FLOWS);
    assert_eq!(used(&all), BTreeSet::from([1, 2, 3, 4, 5]));
    let stays = |before: &BTreeMap<u16, u16>, after: &BTreeMap<u16, u16>, gone: u16| {
        for (flow, port) in before {
            assert!(after[flow] == *port || *port == gone, "flow {flow} went from {port} to {}", after[flow]);
        }
        assert!(!used(after).contains(&gone), "bucket {gone} is still used");
    };
    // Removed; then back, in another place and with the same number.
    both.load(&select(&[(1, 1), (2, 1), (4, 1), (5, 1)]));
    let fewer = both.ports(FLOWS);
    stays(&all, &fewer, 3);
    both.load(&select(&[(5, 1), (3, 1), (1, 1), (2, 1), (4, 1)]));
    assert_eq!(both.ports(FLOWS), all);
    // A port that dies is like a bucket that goes, and so is a weight of 0.
    both.set_live(3, false);
    assert_eq!(both.ports(FLOWS), fewer);
    both.set_live(3, true);
    both.load(&select(&[(1, 1), (2, 1), (3, 0), (4, 1), (5, 1)]));
    assert_eq!(both.ports(FLOWS), fewer);
    // A weight that grows draws flows from all and moves none between others.
    both.load(&select(&[(1, 1), (2, 1), (3, 5), (4, 1), (5, 1)]));
    let heavy = both.ports(FLOWS);
    let share = |ports: &BTreeMap<u16, u16>| ports.values().filter(|port| **port == 3).count();
    assert!(share(&heavy) > 2 * share(&all), "{} against {} of {FLOWS} flows", share(&heavy), share(&all));
    stays(&heavy, &fewer, 3);
}

#[test]
fn the_first_live_bucket_gets_everything_and_none_without() {
    let mut both = Both::start();
    let bucket =
        |port: u16| format!(",bucket=bucket_id:{},watch_port:{port},actions=output:{port}", 9 - port);
    let text = format!("group_id=7,type=ff{}{}{}", bucket(2), bucket(1), bucket(3));
    both.load(&text.parse().expect("a group"));
    let all = |both: &mut Both| used(&both.ports(4)).into_iter().collect::<Vec<_>>();
    assert_eq!(all(&mut both), [2]);
    both.set_live(2, false);
    assert_eq!(all(&mut both), [1]);
    both.set_live(1, false);
    assert_eq!(all(&mut both), [3]);
    both.set_live(3, false);
    assert_eq!(all(&mut both), [0]);
    both.set_live(1, true);
    assert_eq!(all(&mut both), [1]);
    both.set_live(2, true);
    assert_eq!(all(&mut both), [2]);
}

#[test]
fn a_packet_is_larger_from_one_byte_more_on_tags_included_and_padding_not() {
    const LIMIT: usize = 100;
    let flows = [
        format!("actions=check_pkt_larger({LIMIT})->NXM_NX_REG3[5],resubmit(,1)"),
        "table=1,reg3=0 actions=output:1".to_owned(),
        "table=1,reg3=32 actions=output:2".to_owned(),
    ];
    let mut both = Both::start();
    both.switch.load(&[], &flows).expect("the switch takes the flows");
    for flow in &flows {
        both.bridge.add_flow(flow.parse().expect("a flow")).expect("taken");
    }
    for (number, tag, padding) in
        [(0, false, 0), (1, false, 0), (0, true, 0), (1, true, 0), (0, true, 30), (1, false, 1)]
    {
        for length in [LIMIT - 1, LIMIT, LIMIT + 1, LIMIT + 4] {
            let without = packet_of(number, 64, &[]);
            let payload = vec![7; length - without.len() - if tag { 4 } else { 0 }];
            let frame = packet_of(number, 64, &payload);
            let frame = if tag { tagged(&frame, VLAN, 5) } else { frame };
            assert_eq!(frame.len(), length);
            let frame = [frame, vec![0; padding]].concat();
            let expected = if length > LIMIT { 2 } else { 1 };
            let by_switch = both.switch.receive(IN_PORT, &frame);
            assert_eq!(
                by_switch,
                [(expected, frame.clone())],
                "{length} bytes, tag {tag}, padding {padding}"
            );
            let here = both.bridge.process(&Packet::new(frame.clone(), PortNo(IN_PORT))).emitted;
            let here: Vec<_> = here.into_iter().map(|one| (one.port.0, one.bytes)).collect();
            assert_eq!(here, by_switch, "{length} bytes, tag {tag}, padding {padding}");
        }
    }
}
