//! Groups, the tunnel option, learned flows and patch ports at a real Open vSwitch.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::open_vswitch::switch::Switch;
use crate::support::driven::Driven;
use crate::support::flows::{buckets, flows};
use ovs_driver::{Changes, Channel, CollectorSet, Config, Desired, Edits, Event, Patch, Tunnel};

fn standing(event: &Event) -> Option<usize> {
    match event {
        Event::RefusedTotal { refused } => Some(*refused),
        _ => None,
    }
}

#[tokio::test]
async fn groups_are_added_changed_and_removed_and_survive_a_restart() {
    let mut ovs = Switch::start();
    let user = "cookie=0x11, priority=100,in_port=1 actions=group:7";
    let desired = Desired {
        flows: flows(&[user]),
        buckets: buckets(&[
            (7, 0, "group:16777223"),
            (7, 3, "set_field:172.16.0.3->tun_dst,set_field:0xc8->reg12,resubmit(,51)"),
            (0x100_0007, 1, "set_field:0x1->reg1,resubmit(,40)"),
        ]),
        ..Desired::default()
    };
    let mut driven = Driven::start(ovs.config());
    driven.handle.set_desired(Arc::new(desired.clone()));
    assert_eq!(driven.synced().await, (3, 0));
    let local = "group_id=16777223,type=all,bucket=bucket_id:1,actions=set_field:0x1->reg1,resubmit(,40)";
    let remote = "group_id=7,type=all,bucket=bucket_id:0,actions=group:16777223,\
                  bucket=bucket_id:3,actions=set_field:172.16.0.3->tun_dst,set_field:0xc8->reg12,resubmit(,51)";
    assert_eq!(ovs.groups(), [local, remote]);
    assert_eq!(ovs.flows(), [user]);
    drop(driven);

    // Somebody else has changed a bucket, taken one away and added a group.
    ovs.ofctl(&["remove-buckets", "BRIDGE", "group_id=7,command_bucket_id=3"]);
    ovs.ofctl(&["mod-group", "BRIDGE", &local.replace("0x1->", "0x2->")]);
    ovs.ofctl(&["add-group", "BRIDGE", "group_id=99,type=select,bucket=actions=output:1"]);
    let mut driven = Driven::start(ovs.config());
    driven.handle.set_desired(Arc::new(desired.clone()));
    assert_eq!(driven.synced().await, (3, 0));
    assert_eq!(ovs.groups(), [local, remote]);
    let before = ovs.group_mods();
    drop(driven);
    let mut driven = Driven::start(ovs.config());
    driven.handle.set_desired(Arc::new(desired));
    assert_eq!(driven.synced().await, (0, 0));
    assert_eq!((ovs.group_mods(), ovs.flow_mods()), (before, 1), "a switch that is right is left alone");

    ovs.kill_vswitchd();
    driven.disconnected(Channel::OpenFlow).await;
    let changes = Changes {
        buckets: Edits {
            add: buckets(&[(0x100_0007, 2, "set_field:0x2->reg1,resubmit(,40)")]),
            delete: [(7, 3)].into(),
        },
        ..Changes::default()
    };
    driven.handle.push(7, changes);
    ovs.start_vswitchd();
    driven.confirmed(7).await;
    let local = format!("{local},bucket=bucket_id:2,actions=set_field:0x2->reg1,resubmit(,40)");
    assert_eq!(
        ovs.groups(),
        [local.as_str(), "group_id=7,type=all,bucket=bucket_id:0,actions=group:16777223"]
    );

    // Group and flow go in one transaction.
    let gone = Changes {
        flows: Edits::delete(flows(&[user]).into_keys()),
        buckets: Edits::delete([(7, 0), (0x100_0007, 1), (0x100_0007, 2)]),
        ..Changes::default()
    };
    driven.handle.push(8, gone);
    driven.confirmed(8).await;
    assert_eq!((ovs.groups(), ovs.flows()), (Vec::new(), Vec::new()));
}

/// The rows of a group of 80 bytes a bucket.
fn many(group: u32, count: u32) -> Vec<(u32, u32, String)> {
    let actions = |n: u32| {
        let (high, low) = (n >> 8, n & 0xff);
        format!(
            "set_field:172.16.{high}.{low}->tun_dst,set_field:{n:#x}->reg1,set_field:0xc8->reg12,resubmit(,51)"
        )
    };
    (0..count).map(|n| (group, n, actions(n))).collect()
}

#[tokio::test]
async fn a_group_longer_than_a_message_is_kept_in_parts_and_read_back() {
    let ovs = Switch::start();
    let mut rows = many(5, 1500);
    // One behind it: with a group of more than 64 KB before it, describing this one makes Open vSwitch abort.
    rows.extend(many(6, 3));
    let desired =
        Desired { buckets: buckets(&rows), flows: flows(&["actions=group:5"]), ..Desired::default() };
    let mut driven = Driven::start(ovs.config());
    driven.handle.set_desired(Arc::new(desired.clone()));
    driven.synced().await;
    let count =
        |groups: &[String]| groups.iter().map(|group| group.matches("bucket_id").count()).sum::<usize>();
    let groups = ovs.groups();
    let parts = groups.len() - 1;
    assert!(parts > 1, "{parts}");
    assert_eq!(count(&groups), 1500 + 3 + parts - 1, "each part but the last hands on");
    assert!(groups.iter().all(|group| group.len() < 200_000));

    // One bucket more and one less change no more than their parts.
    let before = ovs.group_mods();
    let changes = Changes {
        buckets: Edits { add: buckets(&many(5, 1501)[1500..]), delete: [(5, 3)].into() },
        ..Changes::default()
    };
    driven.handle.push(1, changes.clone());
    driven.confirmed(1).await;
    assert_eq!(ovs.group_mods() - before, 2);
    drop(driven);
    let mut want = desired;
    want.apply(&changes);
    let mut driven = Driven::start(ovs.config());
    driven.handle.set_desired(Arc::new(want));
    assert_eq!(driven.synced().await, (0, 0));

    let gone = (0..1501).map(|bucket| (5, bucket));
    driven.handle.push(2, Changes { buckets: Edits::delete(gone), ..Changes::default() });
    driven
        .wait("the refusal of the flow without its group", |event| (standing(event) == Some(1)).then_some(()))
        .await;
    assert_eq!((ovs.groups().len(), ovs.flows()), (1, Vec::new()));
}

#[tokio::test]
async fn the_tunnel_option_is_mapped_before_flows_and_a_map_in_the_way_is_told() {
    let mut ovs = Switch::start();
    let flow = "cookie=0x11, table=1, priority=5,tun_id=0x7,tun_metadata0=0x101 actions=move:NXM_NX_TUN_METADATA0[0..31]->NXM_NX_REG0[]";
    let desired = Arc::new(Desired { flows: flows(&[flow]), ..Desired::default() });
    let mut driven = Driven::start(ovs.config());
    driven.handle.set_desired(desired.clone());
    assert_eq!(driven.synced().await, (1, 0));
    assert_eq!(ovs.flows(), [flow]);
    ovs.kill_vswitchd();
    driven.disconnected(Channel::OpenFlow).await;
    ovs.start_vswitchd();
    assert_eq!(driven.synced().await, (1, 0));
    assert_eq!(ovs.flows(), [flow]);
    drop(driven);
    let mut driven = Driven::start(ovs.config());
    driven.handle.set_desired(desired.clone());
    assert_eq!(driven.synced().await, (0, 0), "what is read is what was sent");
    drop(driven);

    ovs.ofctl(&["del-flows", "BRIDGE"]);
    ovs.ofctl(&["del-tlv-map", "BRIDGE"]);
    ovs.ofctl(&["add-tlv-map", "BRIDGE", "{class=0x7,type=0x1,len=8}->tun_metadata0"]);
    let mut driven = Driven::start(ovs.config());
    driven.handle.set_desired(Arc::new(Desired::default()));
    let why = driven
        .wait("a refusal", |event| match event {
            Event::Refused { txn: None, first, .. } => Some(first[0].to_string()),
            _ => None,
        })
        .await;
    assert_eq!(
        why,
        "geneve option class=0x102,type=0x80,len=4 as tun_metadata0: the switch has class=0x7,type=0x1,len=8 as \
         tun_metadata0; remove that mapping with ovs-ofctl del-tlv-map and reconnect the switch"
    );
    driven.wait("that it stands", |event| (standing(event) == Some(1)).then_some(())).await;
}

#[tokio::test]
async fn what_the_switch_has_learned_stays_while_flows_change() {
    let ovs = Switch::start();
    let learning = "cookie=0x11, table=0, priority=5,in_port=LOCAL actions=learn(table=21,hard_timeout=300,priority=100,\
                    delete_learned,cookie=0x7,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],load:0x5->NXM_NX_REG1[]),resubmit(,20)";
    let other = "cookie=0x12, table=20, priority=5,reg0=0x5 actions=resubmit(,21)";
    let config = Config { learned_tables: [21].into(), ..ovs.config() };
    let mut driven = Driven::start(config.clone());
    let desired = Desired { flows: flows(&[learning, other]), ..Desired::default() };
    driven.handle.set_desired(Arc::new(desired.clone()));
    driven.synced().await;
    let packet = "in_port=LOCAL,dl_src=02:00:00:00:00:01,dl_dst=02:00:00:00:00:02,dl_type=0x1234";
    ovs.appctl(&["ofproto/trace", "br-int", packet, "-generate"]);
    let learned = || ovs.flows().into_iter().filter(|flow| flow.contains("table=21, ")).collect::<Vec<_>>();
    assert_eq!(learned().len(), 1, "{:?}", ovs.flows());

    let attributed = learning.replace("cookie=0x11", "cookie=0x99");
    let changes = Changes {
        flows: Edits {
            add: flows(&[attributed.as_str(), "table=21, priority=1 actions=drop"]),
            delete: flows(&[other]).into_keys().collect(),
        },
        ..Changes::default()
    };
    driven.handle.push(1, changes);
    driven.confirmed(1).await;
    assert_eq!(learned().len(), 2, "our own flow there and the learned one: {:?}", ovs.flows());
    drop(driven);
    ovs.ofctl(&["add-flow", "BRIDGE", "table=22,priority=3 actions=drop"]);
    let mut driven = Driven::start(config);
    driven
        .handle
        .set_desired(Arc::new(Desired { flows: flows(&[attributed.as_str()]), ..Desired::default() }));
    assert_eq!(driven.synced().await, (1, 0), "the foreign flow of another table goes");
    assert_eq!(learned().len(), 2);

    // With the flow that learned, what it learned goes, by the switch's own doing.
    let gone = flows(&[attributed.as_str()]).into_keys();
    driven.handle.push(2, Changes { flows: Edits::delete(gone), ..Changes::default() });
    driven.confirmed(2).await;
    assert_eq!(learned(), ["table=21, priority=1 actions=drop"]);
}

fn patches(patches: &[(&str, &str, &str)]) -> BTreeMap<String, Patch> {
    let patch = |bridge: &str, peer: &str| Patch { bridge: bridge.to_owned(), peer: peer.to_owned() };
    patches.iter().map(|(name, bridge, peer)| ((*name).to_owned(), patch(bridge, peer))).collect()
}

fn patch_numbers(event: &Event) -> Option<BTreeMap<String, u16>> {
    match event {
        Event::Report(report) => Some(report.patches.clone()),
        _ => None,
    }
}

#[tokio::test]
async fn patch_ports_are_made_at_both_ends_once_the_bridge_is_there_and_go_together() {
    let ovs = Switch::start();
    let mut driven = Driven::start(ovs.config());
    driven.handle.set_desired(Arc::new(Desired::default()));
    driven.synced().await;
    let wanted = patches(&[("weft-p1", "br-phys", "weft-p1-r")]);
    driven.handle.push(1, Changes { patches: Edits::add(wanted.clone()), ..Changes::default() });
    let why = driven
        .wait("a refusal", |event| match event {
            Event::Refused { txn: Some(1), first, .. } => Some(first[0].to_string()),
            _ => None,
        })
        .await;
    assert_eq!(
        why,
        "patch weft-p1: to weft-p1-r of br-phys: there is no bridge br-phys on this switch: create it, or correct the \
         bridge_mappings of this node"
    );
    driven.wait("that it stands", |event| (standing(event) == Some(1)).then_some(())).await;

    ovs.vsctl(&["add-br", "br-phys", "--", "set", "bridge", "br-phys", "datapath_type=netdev"]);
    let numbers =
        driven.wait("its number", |event| patch_numbers(event).filter(|numbers| numbers.len() == 1)).await;
    assert_eq!(ovs.vsctl(&["get", "interface", "weft-p1", "ofport"]).trim(), numbers["weft-p1"].to_string());
    for (name, peer) in [("weft-p1", "weft-p1-r"), ("weft-p1-r", "weft-p1")] {
        assert_eq!(ovs.vsctl(&["get", "interface", name, "type"]).trim(), "patch");
        assert_eq!(ovs.vsctl(&["get", "interface", name, "options:peer"]).trim(), peer);
    }
    assert_eq!(ovs.vsctl(&["list-ports", "br-phys"]).trim(), "weft-p1-r");
    if !driven.seen.iter().any(|event| standing(event) == Some(0)) {
        driven.wait("that nothing is refused", |event| (standing(event) == Some(0)).then_some(())).await;
    }
    drop(driven);

    // Those of others stay, and one whose name is taken is refused alone.
    for (bridge, name, peer) in [("br-int", "mine", "mine-r"), ("br-phys", "mine-r", "mine")] {
        let peer = format!("options:peer={peer}");
        ovs.vsctl(&["add-port", bridge, name, "--", "set", "interface", name, "type=patch", &peer]);
    }
    let mut driven = Driven::start(ovs.config());
    let desired = Desired { patches: wanted, ..Desired::default() };
    driven.handle.set_desired(Arc::new(desired));
    assert_eq!(driven.synced().await, (0, 0), "what is right is left alone");
    let changes = Changes {
        patches: Edits {
            add: patches(&[("p2", "br-phys", "mine-r"), ("p3", "br-phys", "p3-r")]),
            delete: ["weft-p1".to_owned()].into(),
        },
        ..Changes::default()
    };
    driven.handle.push(2, changes);
    let why = driven
        .wait("a refusal", |event| match event {
            Event::Refused { txn: Some(2), first, .. } => Some(first[0].to_string()),
            _ => None,
        })
        .await;
    assert!(why.contains("patch p2: to mine-r of br-phys: the name mine-r is taken"), "{why}");
    driven.handle.push(3, Changes { patches: Edits::delete(["p2".to_owned()]), ..Changes::default() });
    driven.confirmed(3).await;
    let ports =
        |bridge: &str| ovs.vsctl(&["list-ports", bridge]).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!((ports("br-int").as_str(), ports("br-phys").as_str()), ("mine p3", "mine-r p3-r"));
}

/// Two networks exchange their bridges, and one port becomes another kind, so names are free only while the change is made.
#[tokio::test]
async fn d9_patch_ports_that_move_to_other_bridges_are_never_refused() {
    let ovs = Switch::start();
    for bridge in ["br-a", "br-b"] {
        ovs.vsctl(&["add-br", bridge, "--", "set", "bridge", bridge, "datapath_type=netdev"]);
    }
    let geneve = || Tunnel { encap: "geneve".parse().unwrap(), remote: "flow".parse().unwrap() };
    let mut driven = Driven::start(ovs.config());
    driven.handle.set_desired(Arc::new(Desired {
        patches: patches(&[("phy-a", "br-a", "int-a"), ("phy-b", "br-b", "int-b")]),
        tunnels: [("changing".to_owned(), geneve())].into(),
        ..Desired::default()
    }));
    driven.synced().await;
    driven.handle.push(
        1,
        Changes {
            patches: Edits::add(patches(&[
                ("phy-a", "br-b", "int-a"),
                ("phy-b", "br-a", "int-b"),
                ("changing", "br-a", "changing-r"),
            ])),
            tunnels: Edits::delete(["changing".to_owned()]),
            ..Changes::default()
        },
    );
    driven.confirmed(1).await;
    let refused: Vec<&Event> =
        driven.seen.iter().filter(|event| matches!(event, Event::Refused { .. })).collect();
    assert!(refused.is_empty(), "{refused:#?}");
    let ports =
        |bridge: &str| ovs.vsctl(&["list-ports", bridge]).lines().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(ports("br-a"), ["changing-r", "int-b"]);
    assert_eq!(ports("br-b"), ["int-a"]);
    assert_eq!(ports("br-int"), ["changing", "phy-a", "phy-b"]);
    for port in ["changing", "changing-r", "int-a", "int-b", "phy-a", "phy-b"] {
        let ofport = ovs.vsctl(&["get", "interface", port, "ofport"]);
        assert!(ofport.trim().parse::<u16>().is_ok(), "{port}: {ofport}");
    }
}

/// Collectors of what actions `sample` report. Nobody listens there.
fn collectors() -> CollectorSet {
    CollectorSet { targets: ["127.0.0.1:9".to_owned()].into(), active_timeout: 10, flows_max: 4096 }
}

/// Tables that each send a packet to the next one, and the last of which drops it. Each has these actions before.
fn look_ups(tables: std::ops::RangeInclusive<u8>, before: &str) -> Vec<String> {
    let last = *tables.end();
    let actions = |table: u8| {
        if table == last { "drop".to_owned() } else { format!("{before}resubmit(,{})", table + 1) }
    };
    tables.map(|table| format!("table={table}, actions={}", actions(table))).collect()
}

/// Floods to so many ports, each copy of which takes so many look-ups in tables, and to so many hosts besides, in the same translation. Open
/// vSwitch drops a packet with more than 4,096 look-ups in one translation, and sends no more copies after 64 KB of actions. Each look-up but
/// the last of a copy has these actions besides.
async fn a_flood_is_whole(ports: u32, copy: u8, hosts: u32, besides: &str) {
    const LOCAL: u8 = 40;
    const REMOTE: u8 = 60;
    let ovs = Switch::start();
    let last = LOCAL + copy - 1;
    let mut lines = look_ups(LOCAL..=last, besides);
    lines.extend(look_ups(REMOTE..=REMOTE + 2, besides));
    lines.push(if hosts == 0 { "actions=group:7" } else { "actions=group:8,group:7" }.to_owned());
    let to = |table: u8| move |n: u32| format!("set_field:{n:#x}->reg1,resubmit(,{table})");
    let copies: Vec<String> = (1..=ports).map(to(LOCAL)).collect();
    let remote: Vec<String> = (1..=hosts).map(to(REMOTE)).collect();
    let rows = (1..).zip(&copies).map(|(port, copy)| (7, port, &**copy));
    let rows: Vec<(u32, u32, &str)> =
        rows.chain((1..).zip(&remote).map(|(host, copy)| (8, host, &**copy))).collect();
    let desired = Desired {
        flows: flows(&lines),
        buckets: buckets(&rows),
        collectors: [(9, collectors())].into(),
        ..Desired::default()
    };
    let mut driven = Driven::start(ovs.config());
    driven.handle.set_desired(Arc::new(desired.clone()));
    driven.synced().await;

    let copied = |table: u8| {
        let dump = ovs.ofctl(&["dump-flows", "BRIDGE", &format!("table={table}")]);
        let counter = dump.split("n_packets=").nth(1).and_then(|rest| rest.split(',').next());
        counter.and_then(|packets| packets.parse().ok()).unwrap_or(0_u32)
    };
    // ARP, IPv4 and a frame that is neither.
    for (sent, rest) in (1..).zip(["0806", "0800", "88b5"]) {
        let frame = format!("ffffffffffff02000000000{sent}{rest}{}", "00".repeat(46));
        let out = format!("in_port=LOCAL,packet={frame},actions=table");
        ovs.ofctl(&["packet-out", "BRIDGE", &out]);
        ovs_testing::wait_until("every port has its copy", || copied(last) == sent * ports);
        ovs_testing::wait_until("every host has its copy", || copied(REMOTE + 2) == sent * hosts);
    }

    // What is read back is what was sent.
    drop(driven);
    let mut driven = Driven::start(ovs.config());
    driven.handle.set_desired(Arc::new(desired));
    assert_eq!(driven.synced().await, (0, 0));
}

/// Each copy takes nine look-ups, as one to a secured port with a stateless ACL does.
#[tokio::test]
async fn p1_a_flood_to_1500_ports_of_a_host_is_whole() {
    a_flood_is_whole(1500, 9, 0, "").await;
}

/// As many ports as a host has without a problem, each with the look-ups of four tiers of ACLs, and as many hosts as get copies from one that
/// has no tree of replication.
#[tokio::test]
async fn p1_a_flood_to_4000_ports_with_four_tiers_and_64_hosts_is_whole() {
    a_flood_is_whole(4000, 18, 64, "").await;
}

/// Four tiers report each copy to a port, and one of two packets: 80 bytes of actions for each report. A copy into a tunnel takes 92,
/// for which two reports stand here.
#[tokio::test]
async fn p1_a_flood_with_four_reports_for_each_of_192_ports_is_whole() {
    let report = "sample(probability=32767,collector_set_id=9,obs_domain_id=5,obs_point_id=7),";
    a_flood_is_whole(192, 5, 64, report).await;
}
