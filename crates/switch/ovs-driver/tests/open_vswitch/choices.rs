//! Groups that choose one of their buckets, at a real Open vSwitch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use openflow_rs::{Field, PortNo};
use ovs_driver::{BfdSession, Bucket, Changes, Channel, Choice, Desired, Edits, Tunnel, Watched};

use crate::open_vswitch::switch::Switch;
use crate::support::driven::Driven;
use crate::support::flows::{buckets, flows};

/// The flow that uses all groups of these tests.
const USER: &str = "cookie=0x11, priority=100,ip actions=group:7,group:8,group:9";

/// What a hash of the five-tuple takes.
const FIVE_TUPLE: [Field; 7] =
    [Field::IpSrc, Field::IpDst, Field::IpProto, Field::TcpSrc, Field::TcpDst, Field::UdpSrc, Field::UdpDst];

/// Buckets from group, number, weight, watched port (0: none) and actions.
fn candidates(rows: &[(u32, u32, u16, u16, &str)]) -> BTreeMap<(u32, u32), Bucket> {
    let candidate = |(group, bucket, weight, port, actions): &(u32, u32, u16, u16, &str)| {
        let actions = actions.parse().expect("actions");
        let watched = Watched { port: Some(PortNo(*port)).filter(|port| *port != PortNo(0)), group: None };
        ((*group, *bucket), Bucket::candidate(7, *weight, watched, &actions).expect("a bucket that fits"))
    };
    rows.iter().map(candidate).collect()
}

/// A group of each type.
fn desired() -> Desired {
    Desired {
        flows: flows(&[USER]),
        buckets: buckets(&[(7, 1, "set_field:0x1->reg1,resubmit(,40)")]),
        choices: [(8, Choice::Select(vec![Field::TcpDst, Field::IpSrc])), (9, Choice::FastFailover)].into(),
        candidates: candidates(&[
            (8, 2, 1, 0, "set_field:0x2->reg1,resubmit(,40)"),
            (8, 5, 3, 4, "set_field:0x5->reg1,resubmit(,40)"),
            (9, 3, 0, 6, "output:6"),
            (9, 4, 0, 7, "output:7"),
        ]),
        ..Desired::default()
    }
}

const SELECT: &str = "group_id=8,type=select,selection_method=hash,fields(ip_src,tcp_dst),\
                      bucket=bucket_id:2,actions=set_field:0x2->reg1,resubmit(,40),\
                      bucket=bucket_id:5,weight:3,watch_port:4,actions=set_field:0x5->reg1,resubmit(,40)";
const FAILOVER: &str = "group_id=9,type=ff,bucket=bucket_id:3,watch_port:6,actions=output:6,\
                        bucket=bucket_id:4,watch_port:7,actions=output:7";
const ALL: &str = "group_id=7,type=all,bucket=bucket_id:1,actions=set_field:0x1->reg1,resubmit(,40)";

#[tokio::test]
async fn what_others_change_of_a_choice_is_repaired_and_a_restart_brings_it_back() {
    let mut ovs = Switch::start();
    let desired = Arc::new(desired());
    let mut driven = Driven::start(ovs.config());
    driven.handle.set_desired(desired.clone());
    assert_eq!(driven.synced().await, (4, 0));
    assert_eq!(ovs.groups(), [ALL, SELECT, FAILOVER]);
    drop(driven);

    let reversed = "group_id=9,type=ff,bucket=bucket_id:4,watch_port:7,actions=output:7,\
                    bucket=bucket_id:3,watch_port:6,actions=output:6";
    let changed = [
        ("selection method", SELECT.replace("hash,fields(ip_src,tcp_dst)", "dp_hash")),
        ("no selection method", SELECT.replace(",selection_method=hash,fields(ip_src,tcp_dst)", "")),
        ("parameter", SELECT.replace("=hash,", "=hash,selection_method_param=9,")),
        ("fields", SELECT.replace("ip_src,tcp_dst", "ip_src,udp_dst")),
        ("mask of a field", SELECT.replace("(ip_src,", "(ip_src=255.0.0.0,")),
        ("weight", SELECT.replace("weight:3", "weight:4")),
        ("watched port", SELECT.replace("watch_port:4", "watch_port:5")),
        ("no watched port", SELECT.replace("watch_port:4,", "")),
        ("actions", SELECT.replace("0x2->", "0x3->")),
        ("number of a bucket", SELECT.replace("bucket_id:2", "bucket_id:3")),
        (
            "type",
            SELECT
                .replace("type=select,selection_method=hash,fields(ip_src,tcp_dst)", "type=all")
                .replace("weight:3,watch_port:4,", ""),
        ),
        ("order", reversed.to_owned()),
        ("watched port of failover", FAILOVER.replace("watch_port:7", "watch_port:8")),
        ("watched group", FAILOVER.replace("watch_port:7", "watch_port:7,watch_group:7")),
        ("watched group instead of port", FAILOVER.replace("watch_port:7", "watch_group:7")),
        ("failover to select", FAILOVER.replace("type=ff", "type=select")),
        ("all to select", ALL.replace("type=all", "type=select,selection_method=hash,fields=ip_src")),
    ];
    for (what, group) in changed {
        ovs.ofctl(&["mod-group", "BRIDGE", &group]);
        assert_ne!(ovs.groups(), [ALL, SELECT, FAILOVER], "{what}");
        let mut driven = Driven::start(ovs.config());
        driven.handle.set_desired(desired.clone());
        assert_eq!((driven.synced().await, what), ((1, 0), what));
        assert_eq!(ovs.groups(), [ALL, SELECT, FAILOVER], "{what}");
        assert_eq!(ovs.flows(), [USER], "{what}");
    }
    ovs.ofctl(&["remove-buckets", "BRIDGE", "group_id=8,command_bucket_id=2"]);
    ovs.ofctl(&["add-group", "BRIDGE", &SELECT.replace("group_id=8", "group_id=99")]);
    ovs.ofctl(&["del-groups", "BRIDGE", "group_id=9"]);
    let mut driven = Driven::start(ovs.config());
    driven.handle.set_desired(desired.clone());
    assert_eq!(driven.synced().await, (4, 0), "three groups, and the flow that went with one");
    assert_eq!(
        (ovs.groups(), ovs.flows()),
        (vec![ALL.to_owned(), SELECT.to_owned(), FAILOVER.to_owned()], vec![USER.to_owned()])
    );
    drop(driven);
    let before = ovs.group_mods();
    let mut driven = Driven::start(ovs.config());
    driven.handle.set_desired(desired.clone());
    assert_eq!(
        (driven.synced().await, ovs.group_mods()),
        ((0, 0), before),
        "a switch that is right is left alone"
    );

    ovs.kill_vswitchd();
    driven.disconnected(Channel::OpenFlow).await;
    ovs.start_vswitchd();
    assert_eq!(driven.synced().await, (4, 0));
    assert_eq!(ovs.groups(), [ALL, SELECT, FAILOVER]);
}

#[tokio::test]
async fn each_change_of_a_choice_is_one_change_of_the_group_and_its_flows_stay() {
    let ovs = Switch::start();
    let mut driven = Driven::start(ovs.config());
    driven.handle.set_desired(Arc::new(desired()));
    driven.synced().await;
    let flow_mods = ovs.flow_mods();
    let candidate = |row| candidates(&[row]);
    let new = "set_field:0x3->reg1,resubmit(,40)";
    let steps = [
        // A bucket between the others, then out again.
        (
            Changes { candidates: Edits::add(candidate((8, 3, 2, 0, new))), ..Changes::default() },
            SELECT.replace("bucket=bucket_id:5", &format!("bucket=bucket_id:3,weight:2,actions={new},bucket=bucket_id:5")),
            1,
        ),
        (Changes { candidates: Edits::delete([(8, 3)]), ..Changes::default() }, SELECT.to_owned(), 1),
        // The weight, then the watched port.
        (
            Changes {
                candidates: Edits::add(candidate((8, 5, 9, 4, "set_field:0x5->reg1,resubmit(,40)"))),
                ..Changes::default()
            },
            SELECT.replace("weight:3", "weight:9"),
            2,
        ),
        (
            Changes {
                candidates: Edits::add(candidate((8, 5, 3, 0, "set_field:0x5->reg1,resubmit(,40)"))),
                ..Changes::default()
            },
            SELECT.replace("watch_port:4,", ""),
            2,
        ),
        (
            Changes { choices: Edits::add([(8, Choice::Select(FIVE_TUPLE.to_vec()))]), ..Changes::default() },
            SELECT.replace("watch_port:4,", "").replace("ip_src,tcp_dst", "ip_src,ip_dst,nw_proto,tcp_src,tcp_dst,udp_src,udp_dst"),
            1,
        ),
        // From select to failover, and to all.
        (
            Changes {
                choices: Edits::add([(8, Choice::FastFailover)]),
                candidates: Edits::add(candidates(&[(8, 2, 0, 4, "output:4"), (8, 5, 0, 5, "output:5")])),
                ..Changes::default()
            },
            "group_id=8,type=ff,bucket=bucket_id:2,watch_port:4,actions=output:4,\
             bucket=bucket_id:5,watch_port:5,actions=output:5"
                .to_owned(),
            1,
        ),
        (
            Changes { candidates: Edits::add(candidate((8, 1, 0, 3, "output:3"))), ..Changes::default() },
            "group_id=8,type=ff,bucket=bucket_id:1,watch_port:3,actions=output:3,\
             bucket=bucket_id:2,watch_port:4,actions=output:4,bucket=bucket_id:5,watch_port:5,actions=output:5"
                .to_owned(),
            1,
        ),
        (
            Changes {
                choices: Edits::delete([8]),
                candidates: Edits::delete([(8, 1), (8, 2), (8, 5)]),
                buckets: Edits::add(buckets(&[(8, 2, "output:4")])),
                ..Changes::default()
            },
            "group_id=8,type=all,bucket=bucket_id:2,actions=output:4".to_owned(),
            1,
        ),
    ];
    for (txn, (changes, group, group_mods)) in (1..).zip(steps) {
        let before = ovs.group_mods();
        driven.handle.push(txn, changes);
        driven.confirmed(txn).await;
        assert_eq!(ovs.groups(), [ALL, group.as_str(), FAILOVER]);
        assert_eq!((ovs.group_mods() - before, group.as_str()), (group_mods, group.as_str()));
        assert_eq!((ovs.flows(), ovs.flow_mods()), (vec![USER.to_owned()], flow_mods));
    }
    let gone = Changes {
        flows: Edits::delete(flows(&[USER]).into_keys()),
        buckets: Edits::delete([(7, 1), (8, 2)]),
        choices: Edits::delete([9]),
        candidates: Edits::delete([(9, 3), (9, 4)]),
        ..Changes::default()
    };
    driven.handle.push(100, gone);
    driven.confirmed(100).await;
    assert_eq!((ovs.groups(), ovs.flows()), (Vec::new(), Vec::new()));
}

/// The number of five-tuples.
const PACKETS: u32 = 256;

/// The bucket that each packet goes to.
fn chosen(ovs: &Switch) -> Vec<u32> {
    let choose = |packet: u32| {
        let (low, port, protocol) =
            (packet % 7 + 1, packet * 251 % 60_000 + 1, ["tcp", "udp"][packet as usize % 2]);
        let packet = format!(
            "{protocol},in_port=LOCAL,nw_src=10.0.{low}.{},nw_dst=10.1.0.{low},{protocol}_src={port},{protocol}_dst=443",
            packet % 250 + 1
        );
        let trace = ovs.appctl(&["ofproto/trace", "br-int", &packet]);
        let bucket = trace.lines().find_map(|line| line.trim().strip_prefix("-> using bucket "));
        bucket.and_then(|bucket| bucket.parse().ok()).unwrap_or_else(|| panic!("no bucket: {trace}"))
    };
    (0..PACKETS).map(choose).collect()
}

#[tokio::test]
async fn a_next_hop_that_goes_moves_only_its_own_flows() {
    let mut ovs = Switch::start();
    let hop = |bucket: u32, weight| {
        let actions = format!("set_field:{bucket}->reg14,resubmit(,31)");
        candidates(&[(8, bucket, weight, 0, &actions)])
    };
    let hops = |numbers: &[u32]| numbers.iter().flat_map(|bucket| hop(*bucket, 1)).collect();
    let mut driven = Driven::start(ovs.config());
    driven.handle.set_desired(Arc::new(Desired {
        flows: flows(&["cookie=0x11, priority=100,ip actions=group:8"]),
        choices: [(8, Choice::Select(FIVE_TUPLE.to_vec()))].into(),
        candidates: hops(&[1, 2, 3, 4]),
        ..Desired::default()
    }));
    driven.synced().await;
    let four = chosen(&ovs);
    let used: BTreeMap<u32, usize> = four.iter().fold(BTreeMap::new(), |mut used, bucket| {
        *used.entry(*bucket).or_default() += 1;
        used
    });
    assert_eq!(used.keys().copied().collect::<Vec<_>>(), [1, 2, 3, 4], "{used:?}");
    assert!(used.values().all(|count| *count > PACKETS as usize / 8), "{used:?}");

    let moved = |before: &[u32], after: &[u32]| -> BTreeSet<(u32, u32)> {
        before.iter().copied().zip(after.iter().copied()).filter(|(before, after)| before != after).collect()
    };
    driven.handle.push(1, Changes { candidates: Edits::delete([(8, 2)]), ..Changes::default() });
    driven.confirmed(1).await;
    let three = chosen(&ovs);
    let others = moved(&four, &three);
    assert!(!others.is_empty() && others.iter().all(|(from, to)| *from == 2 && *to != 2), "{others:?}");

    // Back again, also in the place of another: the number decides. A hop whose watched port is not live moves the same
    // flows to the same buckets.
    driven.handle.push(2, Changes { candidates: Edits::add(hop(2, 1)), ..Changes::default() });
    driven.confirmed(2).await;
    assert_eq!(chosen(&ovs), four);
    let dead = candidates(&[(8, 2, 1, 99, "set_field:2->reg14,resubmit(,31)")]);
    driven.handle.push(12, Changes { candidates: Edits::add(dead), ..Changes::default() });
    driven.confirmed(12).await;
    assert_eq!(chosen(&ovs), three);
    driven.handle.push(13, Changes { candidates: Edits::add(hop(2, 1)), ..Changes::default() });
    driven.confirmed(13).await;
    let other =
        Changes { candidates: Edits { delete: [(8, 4)].into(), add: hop(5, 1) }, ..Changes::default() };
    driven.handle.push(3, other);
    driven.confirmed(3).await;
    let replaced = moved(&four, &chosen(&ovs));
    assert!(replaced.iter().all(|(from, to)| *from == 4 || *to == 5), "{replaced:?}");

    // More weight draws flows, and moves no others.
    driven.handle.push(
        4,
        Changes { candidates: Edits { delete: [(8, 5)].into(), add: hops(&[4]) }, ..Changes::default() },
    );
    driven.handle.push(5, Changes { candidates: Edits::add(hop(1, 4)), ..Changes::default() });
    driven.confirmed(5).await;
    let heavier = chosen(&ovs);
    let drawn = moved(&four, &heavier);
    assert!(!drawn.is_empty() && drawn.iter().all(|(_, to)| *to == 1), "{drawn:?}");

    // Open vSwitch multiplies hashes by weights: weight 1 beside 3 gets a sixth of the flows, not a quarter.
    driven.handle.push(6, Changes { candidates: Edits::delete([(8, 2), (8, 3)]), ..Changes::default() });
    driven.handle.push(7, Changes { candidates: Edits::add(hop(1, 3)), ..Changes::default() });
    driven.confirmed(7).await;
    let unequal = chosen(&ovs);
    let lighter = unequal.iter().filter(|bucket| **bucket == 4).count();
    assert!((PACKETS as usize / 10..PACKETS as usize / 5).contains(&lighter), "{lighter} of {PACKETS}");

    // The same on every switch, and after a restart.
    ovs.kill_vswitchd();
    driven.disconnected(Channel::OpenFlow).await;
    ovs.start_vswitchd();
    driven.synced().await;
    assert_eq!(chosen(&ovs), unequal);
}

/// The first bucket watches a tunnel port whose session with nobody never comes up; the last one watches a group of type `all`, which is
/// always live. The switch sends through the last, and what is read back is what was sent.
#[tokio::test]
async fn p5_a_bucket_that_watches_a_group_gets_packets_while_no_session_is_up() {
    const LIVE: u32 = 1;
    let ovs = Switch::start();
    let to_nobody = Tunnel { encap: "geneve".parse().unwrap(), remote: "192.0.2.1".parse().unwrap() };
    let tunnels = Desired {
        tunnels: [("gnv".to_owned(), to_nobody)].into(),
        bfd: [("gnv".to_owned(), BfdSession { interval: 200 })].into(),
        ..Desired::default()
    };
    let mut driven = Driven::start(ovs.config());
    driven.handle.set_desired(Arc::new(tunnels.clone()));
    driven.synced().await;
    let ofport = ovs.vsctl(&["get", "interface", "gnv", "ofport"]).trim().parse().expect("a port");

    let bucket = |watched, table: u8| {
        let actions = format!("resubmit(,{table})").parse().expect("actions");
        Bucket::candidate(7, 0, watched, &actions).expect("a bucket that fits")
    };
    let live = Bucket::new(7, &openflow_rs::Actions::drop()).expect("a bucket that fits");
    let changes = Changes {
        flows: Edits::add(flows(&["actions=group:9", "table=40, actions=drop", "table=41, actions=drop"])),
        buckets: Edits::add([((LIVE, 0), live)]),
        choices: Edits::add([(9, Choice::FastFailover)]),
        candidates: Edits::add([
            ((9, 0), bucket(Watched::port(PortNo(ofport)), 40)),
            ((9, 2), bucket(Watched { port: None, group: Some(LIVE) }, 41)),
        ]),
        ..Changes::default()
    };
    let mut desired = tunnels;
    desired.apply(&changes);
    driven.handle.push(1, changes);
    driven.confirmed(1).await;
    let passed = |table: u8| {
        let dump = ovs.ofctl(&["dump-flows", "BRIDGE", &format!("table={table}")]);
        let counter = dump.split("n_packets=").nth(1).and_then(|rest| rest.split(',').next());
        counter.and_then(|packets| packets.parse().ok()).unwrap_or(0_u32)
    };
    let frame = format!("0200000000020200000000010800{}", "00".repeat(46));
    ovs.ofctl(&["packet-out", "BRIDGE", &format!("in_port=LOCAL,packet={frame},actions=table")]);
    ovs_testing::wait_until("the last bucket has the packet", || passed(41) == 1);
    assert_eq!(passed(40), 0);

    drop(driven);
    let mut driven = Driven::start(ovs.config());
    driven.handle.set_desired(Arc::new(desired));
    assert_eq!(driven.synced().await, (0, 0), "what is read back is what was sent");
}

/// A route has at most 512 next hops (`MOST_NEXT_HOPS` in rules/logical/routing/objects.nlog). A switch has room for so many IPv6 ones, and
/// each packet takes one of them.
#[tokio::test]
async fn p1_a_choice_of_512_next_hops_passes_packets() {
    const HOPS: u32 = 512;
    const PACKETS: u16 = 20;
    let ovs = Switch::start();
    let bucket = |hop: u32| {
        let actions = format!(
            "set_field:0->reg9,set_field:0xfd000000000000000000000000000000/0xffffffffffffffffffffffff00000000->xxreg1,set_field:{hop}->reg7,resubmit(,40)"
        );
        Bucket::candidate(7, 1, Watched::default(), &actions.parse().expect("actions"))
            .expect("a bucket that fits")
    };
    let candidates: BTreeMap<(u32, u32), Bucket> = (1..=HOPS).map(|hop| ((8, hop), bucket(hop))).collect();
    let bytes: usize = candidates.values().map(Bucket::encoded_len).sum();
    assert!(bytes <= ovs_driver::CHOICE_BYTES_MAX, "{bytes}");
    let desired = Desired {
        flows: flows(&["actions=group:8", "table=40, actions=drop"]),
        choices: [(8, Choice::Select(FIVE_TUPLE.to_vec()))].into(),
        candidates,
        ..Desired::default()
    };
    let desired = Arc::new(desired);
    let mut driven = Driven::start(ovs.config());
    driven.handle.set_desired(desired.clone());
    driven.synced().await;
    for source in 0..PACKETS {
        let ip = format!("4500001c0000000040110000c0000201c0000202{source:04x}000700080000");
        let frame = format!("0200000000020200000000010800{ip}{}", "00".repeat(18));
        ovs.ofctl(&["packet-out", "BRIDGE", &format!("in_port=LOCAL,packet={frame},actions=table")]);
    }
    ovs_testing::wait_until("each packet takes a next hop", || {
        let dump = ovs.ofctl(&["dump-flows", "BRIDGE", "table=40"]);
        dump.contains(&format!("n_packets={PACKETS},"))
    });
    drop(driven);
    let mut driven = Driven::start(ovs.config());
    driven.handle.set_desired(desired);
    assert_eq!(driven.synced().await, (0, 0), "what is read back is what was sent");
}
