//! The driver against the fake switch: everything a real one does rarely.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::support::driven::Driven;
use crate::support::flows::{buckets, flow, flows};
use crate::support::setting::{
    Setting, adding, config, desired, eventually, hasty, patient, refusal, refused_total, some_flows,
};
use fake_switch::FakeSwitch;
use fake_switch::openflow::{Fault, Refusal, Stage};
use openflow_rs::{GroupEntry, Match};
use ovs_driver::{
    Changes, Channel, Config, Desired, Edits, Event, Flow, FlowKey, LearnedFlow, Meter, ReadError, Rejection,
    Timing, ZONE_TABLE, ZoneOwner, push_bundle,
};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::task::JoinSet;
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn nothing_is_written_before_the_desired_state_is_known() {
    let setting = Setting::new();
    let (key, foreign) = flow("table=9, actions=drop");
    setting.fake.install(key, foreign);
    let mut driven = setting.drive(hasty());
    driven.handle.push(1, adding(&["table=1, actions=drop"]));
    driven.wait("a connection", |event| matches!(event, Event::Connected { .. }).then_some(())).await;
    // The probe of an idle connection shows that it has settled.
    setting.fake.fault(Stage::Echo, Fault::Close);
    driven.disconnected(Channel::OpenFlow).await;
    assert_eq!((setting.fake.counts().dumps, setting.fake.counts().flow_mods), (0, 0));
    let want = flows(&["table=1, actions=drop", "table=2, actions=drop"]);
    driven.handle.set_desired(desired(&want));
    driven.confirmed(1).await;
    assert_eq!(setting.fake.flows(), want);
}

#[tokio::test(start_paused = true)]
async fn whatever_fails_at_whatever_stage_is_reported_and_healed() {
    let mut runs = JoinSet::new();
    for stage in Stage::ALL {
        for fault in Fault::BREAKING {
            runs.spawn(async move {
                let setting = Setting::new();
                let mut want = some_flows(20);
                setting.fake.install(flow("table=9, actions=drop").0, flow("actions=drop").1);
                match stage {
                    // Only a refusal makes the driver discard.
                    Stage::Discard => {
                        for n in 0..6 {
                            let (key, bad) = flow(&format!("table=66, priority={n}, actions=group:{n}"));
                            want.insert(key, bad);
                        }
                        setting.fake.refuse(|key, _| (key.table() == 66).then_some(Refusal::BAD_OUT_PORT));
                    }
                    // Only where no bundle works, the driver sends flow-mods alone.
                    Stage::FlowMod => setting.fake.fail_bundles(true),
                    _ => {}
                }
                setting.fake.fault(stage, fault);
                let mut driven = setting.drive(hasty());
                let meters = BTreeMap::from([(7, Meter { rate: 100, burst: 10 })]);
                let owner = ZoneOwner::new("one").unwrap();
                let zones = if stage == Stage::Flush { [(5, owner)].into() } else { BTreeMap::new() };
                let with_meter = Desired { flows: want.clone(), meters, zones, ..Desired::default() };
                driven.handle.set_desired(Arc::new(with_meter));
                driven.handle.push(8, adding(&["table=8, actions=output:8"]));
                let why = loop {
                    let why = driven.disconnected(Channel::OpenFlow).await;
                    if setting.fake.counts().faults > 0 {
                        break why;
                    }
                };
                let says: &[&str] = match fault {
                    Fault::Garbage => &["not OpenFlow 1.5: a message of version 0x48"],
                    Fault::Close => &["closed the connection"],
                    Fault::Stall | Fault::Ignore | Fault::EmptyParts | Fault::Trickle | Fault::Endless => {
                        &[""]
                    }
                    Fault::StallMidMessage => &["in the middle of a message (12 bytes of it received)"],
                };
                // In the greeting it is the limit for the greeting as a whole that is hit.
                let greeting = matches!(stage, Stage::Hello | Stage::Features);
                assert!(says.iter().any(|says| why.contains(says)) || greeting, "{stage:?} {fault:?}: {why}");
                want.retain(|key, _| key.table() != 66);
                want.extend(flows(&["table=8, actions=output:8"]));
                let has = || {
                    let mut flows = setting.fake.flows();
                    flows.retain(|key, _| key.table() != ZONE_TABLE);
                    flows
                };
                eventually(&format!("{stage:?} {fault:?} healed"), || has() == want).await;
                driven.confirmed(8).await;
            });
        }
    }
    while let Some(run) = runs.join_next().await {
        run.unwrap();
    }
}

/// An answer is lost on the way, whichever it is, while the switch is silent otherwise or reports other things all the time.
#[tokio::test(start_paused = true)]
async fn d30_a_lost_answer_costs_no_more_than_a_probe() {
    for stage in [Stage::Options, Stage::Groups, Stage::Meters, Stage::Dump, Stage::Barrier, Stage::Commit] {
        for is_busy in [false, true] {
            let setting = Setting::new();
            setting.fake.fault(stage, Fault::Ignore);
            let mut driven = setting.drive(patient());
            let began = Instant::now();
            driven.handle.set_desired(desired(&some_flows(5)));
            let busy = async {
                for n in 0.. {
                    tokio::time::sleep(Duration::from_millis(500)).await;
                    if is_busy && began.elapsed() < Duration::from_secs(6) {
                        let (key, other) = flow(&format!("table=99, priority={n} actions=drop"));
                        setting.fake.install(key, other);
                    }
                }
            };
            let why = tokio::select! {
                why = driven.disconnected(Channel::OpenFlow) => why,
                () = busy => unreachable!(),
            };
            assert!(why.contains("the answer is lost on the way"), "{stage:?}: {why}");
            driven.synced().await;
            assert!(began.elapsed() < Duration::from_secs(6), "{stage:?} {is_busy}: {:?}", began.elapsed());
            let mut flows = setting.fake.flows();
            flows.retain(|key, _| key.table() != 99);
            assert_eq!(flows, some_flows(5));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn another_version_is_a_clear_error() {
    let setting = Setting::new();
    setting.fake.versions(1 << 1 | 1 << 4);
    let mut driven = setting.drive(patient());
    let why = driven.disconnected(Channel::OpenFlow).await;
    assert!(why.contains("does not speak OpenFlow 1.5 (0x06) but 1.0 (0x01), 1.3 (0x04)"), "{why}");
    setting.fake.versions(1 << 4 | 1 << 6);
    driven.handle.set_desired(desired(&some_flows(3)));
    assert_eq!(driven.synced().await, (3, 0));
}

#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_flows_go_through_while_the_switch_reads_slowly() {
    let setting = Setting::new();
    setting.fake.slow(Duration::from_micros(100), 256 << 10);
    let want = some_flows(100_000);
    let mut driven = setting.drive(Timing::default());
    driven.handle.set_desired(desired(&want));
    assert_eq!(driven.synced().await, (100_000, 0));
    assert!(setting.fake.flows() == want);
    assert_eq!(setting.fake.counts().commits, 1, "one bundle");
}

#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_errors_are_read_while_the_bundle_is_written() {
    let setting = Setting::new();
    // As a real switch the fake reads nothing while its answers are not taken.
    setting.fake.refuse(|key, _| (key.table() > 0).then_some(Refusal::BAD_OUT_PORT));
    let mut want = some_flows(100_000);
    let mut driven = setting.drive(Timing::default());
    driven.handle.set_desired(desired(&want));
    driven.synced().await;
    want.retain(|key, _| key.table() == 0);
    // One event for all of them.
    let refused: Vec<(usize, usize)> = driven.seen.iter().filter_map(refusal).collect();
    assert_eq!(refused, [(100_000 - want.len(), Rejection::REPORTED_MAX)]);
    assert!(setting.fake.flows() == want);
}

#[tokio::test(start_paused = true)]
async fn transactions_that_wait_go_in_one_bundle_and_each_is_confirmed() {
    let setting = Setting::new();
    let mut driven = setting.drive(Timing::default());
    driven.handle.set_desired(desired(&some_flows(2000)));
    driven.synced().await;
    let before = setting.fake.counts();
    // 1000 transactions, of which the last undoes what all others do but for one flow.
    for txn in 1..1000 {
        driven.handle.push(txn, adding(&[&format!("table=5, priority={txn}, actions=output:1")]));
    }
    let undo: BTreeSet<FlowKey> =
        (2..1000).map(|txn| flow(&format!("table=5, priority={txn}, actions=drop")).0).collect();
    driven.handle.push(1000, Changes { flows: Edits::delete(undo), ..Changes::default() });
    let mut confirmed = Vec::new();
    driven
        .wait("the last confirmation", |event| {
            if let Event::Confirmed { txn, .. } = event {
                confirmed.push(*txn);
            }
            (confirmed.last() == Some(&1000)).then_some(())
        })
        .await;
    assert_eq!(confirmed, (1..=1000).collect::<Vec<u64>>(), "each once, in order");
    assert_eq!(setting.fake.flows().len(), 2001);
    let after = setting.fake.counts();
    assert!(after.commits - before.commits < 100, "{} bundles", after.commits - before.commits);
    assert_eq!(after.dumps, before.dumps);
}

#[tokio::test(start_paused = true)]
async fn a_refused_flow_does_not_loop_and_is_tried_again_after_a_connection() {
    let setting = Setting::new();
    setting.fake.refuse(|key, _| (key.table() == 66).then_some(Refusal::BAD_OUT_PORT));
    let mut driven = setting.drive(patient());
    driven.handle.set_desired(desired(&some_flows(5)));
    driven.synced().await;
    driven.handle.push(1, adding(&["table=66, actions=output:1", "table=1, actions=output:2"]));
    let refused = driven
        .wait("the refusal", |event| match event {
            Event::Refused { txn, count, first } => Some((*txn, *count, first.clone())),
            _ => None,
        })
        .await;
    let what = "table=66, actions=output:1".to_owned();
    let rejection = Rejection { what, reason: "OFPBAC_BAD_OUT_PORT".to_owned() };
    assert_eq!(refused, (Some(1), 1, vec![rejection]));
    driven.handle.push(2, adding(&["table=2, actions=output:2"]));
    driven.confirmed(2).await;
    let mut want = some_flows(5);
    want.extend(flows(&["table=1, actions=output:2", "table=2, actions=output:2"]));
    assert_eq!(setting.fake.flows(), want);
    // 5; 2 of which 1 was refused, then 1; 1. None for the refused one since.
    assert_eq!(setting.fake.counts().flow_mods, 5 + 2 + 1 + 1);
    let standing: Vec<usize> = driven.seen.iter().filter_map(refused_total).collect();
    assert_eq!(standing, [1]);

    setting.fake.refuse(|_, _| None);
    setting.fake.disconnect();
    assert_eq!(driven.synced().await, (1, 0));
    want.extend(flows(&["table=66, actions=output:1"]));
    assert_eq!(setting.fake.flows(), want);
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_is_counted_until_it_is_mended() {
    let setting = Setting::new();
    setting.fake.refuse(|key, _| (key.table() == 66).then_some(Refusal::BAD_OUT_PORT));
    let mut driven = setting.drive(patient());
    driven.handle.set_desired(desired(&some_flows(5)));
    driven.synced().await;
    let bad = ["table=66, priority=1, actions=drop", "table=66, priority=2, actions=drop"];
    driven.handle.push(1, adding(&bad));
    assert_eq!(driven.wait("two", refused_total).await, 2);
    let key = |text: &str| flow(text).0;
    driven.handle.push(2, Changes { flows: Edits::delete([key(bad[0])]), ..Changes::default() });
    assert_eq!(driven.wait("one", refused_total).await, 1);
    // The other is put right at the switch: what was refused is sent again when it changes.
    setting.fake.refuse(|_, _| None);
    driven.handle.push(3, adding(&[&bad[1].replace("drop", "output:1")]));
    assert_eq!(driven.wait("none", refused_total).await, 0);
    assert!(
        !driven
            .seen
            .iter()
            .any(|event| matches!(event, Event::Disconnected { channel: Channel::OpenFlow, .. }))
    );
}

#[tokio::test(start_paused = true)]
async fn without_a_database_flows_are_driven_and_transactions_with_tunnels_wait() {
    let setting = Setting::new();
    let mut driven = setting.drive(patient());
    driven.handle.set_desired(desired(&some_flows(5)));
    assert_eq!(driven.synced().await, (5, 0));
    let tunnel = ovs_driver::Tunnel { encap: ovs_driver::Encap::Geneve, remote: ovs_driver::Remote::Flow };
    let changes = Changes {
        tunnels: Edits::add([("gnv".to_owned(), tunnel)]),
        ..adding(&["table=3, actions=output:3"])
    };
    driven.handle.push(1, changes);
    driven.handle.push(2, adding(&["table=4, actions=output:4"]));
    driven.confirmed(2).await;
    assert_eq!(setting.fake.flows().len(), 7, "the flows of both are there");
    assert!(!driven.seen.iter().any(|event| matches!(event, Event::Confirmed { txn: 1, .. })));
}

/// Over real sockets, which the other tests do without.
#[tokio::test]
async fn unix_and_tcp_sockets_serve_as_well() {
    let folder = tempfile::Builder::new().prefix("weft-fake-").tempdir().unwrap();
    let socket = folder.path().join("mgmt");
    let fake = FakeSwitch::start(&socket).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let tcp = format!("tcp:{}", listener.local_addr().unwrap());
    let unix = format!("unix:{}", socket.display());
    tokio::spawn(async move {
        while let Ok((mut tcp, _)) = listener.accept().await {
            let mut unix = tokio::net::UnixStream::connect(&socket).await.unwrap();
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut tcp, &mut unix).await });
        }
    });
    for (openflow, added) in [(unix, 500), (tcp, 0)] {
        let ovsdb = format!("unix:{}", folder.path().join("no-database").display()).parse().unwrap();
        let mut driven = Driven::start(Config { ovsdb, openflow: openflow.parse().unwrap(), ..config() });
        driven.handle.set_desired(desired(&some_flows(500)));
        assert_eq!(driven.synced().await, (added, 0), "{openflow}");
        assert_eq!(fake.flows(), some_flows(500));
    }
}

#[tokio::test(start_paused = true)]
async fn a_single_bundle_goes_over_the_network_of_its_dialler() {
    let setting = Setting::new();
    let texts = ["table=1, actions=output:1", "table=66, actions=output:2"];
    let rows: Vec<(FlowKey, Flow)> = flows(&texts).into_iter().collect();
    setting.fake.refuse(|key, _| (key.table() == 66).then_some(Refusal::BAD_OUT_PORT));
    let error = push_bundle(&setting.network, &config().openflow, &rows).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "unix:br-int.mgmt: the switch refused table=66, actions=output:2: OFPBAC_BAD_OUT_PORT"
    );
    assert!(setting.fake.flows().is_empty(), "all or none");
    setting.fake.refuse(|_, _| None);
    push_bundle(&setting.network, &config().openflow, &rows).await.unwrap();
    assert_eq!(setting.fake.flows(), flows(&texts));
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_was_ended_does_nothing_any_more() {
    let setting = Setting::new();
    let mut driven = setting.drive(patient());
    driven.handle.set_desired(desired(&some_flows(5)));
    driven.synced().await;
    let Driven { handle, mut events, .. } = driven;
    handle.end().await;
    // All that it held is gone, its sender of events too.
    while let Ok(event) = events.try_recv() {
        drop(event);
    }
    assert_eq!(events.try_recv(), Err(TryRecvError::Disconnected));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_handle_ends_the_driver_and_leaves_the_flows() {
    let setting = Setting::new();
    let mut driven = setting.drive(patient());
    driven.handle.set_desired(desired(&some_flows(5)));
    driven.synced().await;
    drop(driven);
    let connections = setting.fake.counts().connections;
    setting.fake.disconnect();
    let mut again = setting.drive(patient());
    again.handle.set_desired(desired(&some_flows(5)));
    assert_eq!(again.synced().await, (0, 0));
    assert_eq!(setting.fake.counts().connections, connections + 1);
}

/// The more there is in a flow or a group, the fewer fit into a part of the answer.
#[tokio::test(start_paused = true)]
async fn the_next_driver_finds_flows_and_groups_of_any_length() {
    let setting = Setting::new();
    let actions = |length: u32| vec!["set_field:1->reg1"; length as usize].join(",");
    let texts: Vec<_> =
        (0..1500).map(|n| format!("table=1,reg0={n} actions={},group:1", actions(n / 10))).collect();
    let rows: Vec<_> = (0..300).map(|n| (1 + n % 100, n, actions(n))).collect();
    let want = Arc::new(Desired { flows: flows(&texts), buckets: buckets(&rows), ..Desired::default() });
    for flow_mods in [1600, 0] {
        let mut driven = setting.drive(patient());
        driven.handle.set_desired(want.clone());
        assert_eq!(driven.synced().await, (flow_mods, 0));
    }
}

fn groups(texts: &[&str]) -> BTreeMap<u32, GroupEntry> {
    let group = |text: &&str| text.parse::<GroupEntry>().unwrap();
    texts.iter().map(group).map(|group| (group.id, group)).collect()
}

#[tokio::test(start_paused = true)]
async fn groups_are_read_and_only_what_differs_is_sent() {
    let setting = Setting::new();
    for group in groups(&[
        "group_id=7,type=all,bucket=bucket_id:1,actions=output:1,bucket=bucket_id:2,actions=output:2,bucket=bucket_id:3,actions=output:9",
        "group_id=8,type=indirect,bucket=bucket_id:1,actions=output:1",
        "group_id=99,type=all",
    ])
    .into_values()
    {
        setting.fake.install_group(group);
    }
    let rows =
        [(7, 1, "output:1"), (7, 2, "output:2"), (7, 3, "output:3"), (7, 4, "output:4"), (8, 1, "output:1")];
    let want = Desired {
        flows: flows(&["table=1, actions=group:7", "table=2, actions=group:8"]),
        buckets: buckets(&rows),
        ..Desired::default()
    };
    let mut driven = setting.drive(patient());
    driven.handle.set_desired(Arc::new(want.clone()));
    // One change for each group and each flow; buckets 3 and 4 of group 7 are two messages.
    assert_eq!(driven.synced().await, (5, 0));
    assert_eq!((setting.fake.counts().group_mods, setting.fake.counts().commits), (4, 1));
    let right = groups(&[
        "group_id=7,type=all,bucket=bucket_id:1,actions=output:1,bucket=bucket_id:2,actions=output:2,bucket=bucket_id:3,actions=output:3,bucket=bucket_id:4,actions=output:4",
        "group_id=8,type=all,bucket=bucket_id:1,actions=output:1",
    ]);
    assert_eq!(setting.fake.groups(), right);
    assert_eq!(setting.fake.options().len(), 1);

    setting.fake.disconnect();
    assert_eq!(driven.synced().await, (0, 0));
    assert_eq!(setting.fake.counts().group_mods, 4, "a switch that is right gets no group-mod");
    assert_eq!(setting.fake.options().len(), 1, "and no other map of options");

    let delete = Changes {
        flows: Edits::delete(flows(&["table=2, actions=group:8"]).into_keys()),
        buckets: Edits::delete([(8, 1), (7, 2)]),
        ..Changes::default()
    };
    driven.handle.push(1, delete);
    driven.confirmed(1).await;
    setting.fake.restart();
    assert_eq!(driven.synced().await, (2, 0));
    let mut left = right[&7].clone();
    left.buckets.remove(1);
    assert_eq!(setting.fake.groups(), [(7, left)].into());
    assert_eq!(setting.fake.flows(), flows(&["table=1, actions=group:7"]));
    assert_eq!(setting.fake.options().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_flow_without_its_group_is_refused_until_the_group_is_there() {
    let setting = Setting::new();
    let mut driven = setting.drive(patient());
    driven.handle.set_desired(desired(&flows(&["table=1, actions=group:7", "table=2, actions=output:1"])));
    driven.wait("a refusal", |event| (refused_total(event) == Some(1)).then_some(())).await;
    assert_eq!(setting.fake.flows(), flows(&["table=2, actions=output:1"]));
    let group = Changes { buckets: Edits::add(buckets(&[(7, 1, "output:1")])), ..Changes::default() };
    driven.handle.push(1, group);
    driven.wait("nothing refused", |event| (refused_total(event) == Some(0)).then_some(())).await;
    assert_eq!(setting.fake.flows().len(), 2);
    // A switch drops the flows of a group that goes: the driver knows and says so.
    driven.handle.push(2, Changes { buckets: Edits::delete([(7, 1)]), ..Changes::default() });
    driven.wait("a refusal", |event| (refused_total(event) == Some(1)).then_some(())).await;
    assert_eq!((setting.fake.flows().len(), setting.fake.groups().len()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_switch_that_does_not_say_what_it_learned_delays_nobody_for_long() {
    const LEARNED: u8 = 21;
    let setting = Setting::new();
    let config = Config { learned_tables: BTreeSet::from([LEARNED]), ..config() };
    let mut driven = Driven::start_on(Arc::new(setting.network.clone()), config, patient());
    let read = |driven: &Driven| driven.handle.learned(LEARNED, Match::any());
    assert_eq!(read(&driven).await, Err(ReadError::NotConnected));
    driven.handle.set_desired(desired(&some_flows(5)));
    driven.synced().await;
    let (key, learned) = flow("cookie=0x9, table=21, actions=drop");
    setting.fake.learn(key.clone(), Some(learned));
    assert_eq!(read(&driven).await, Ok(vec![LearnedFlow::new(key.clone(), 9)]));

    // It ignores the request, and so it is connected anew. Changes and the next request are answered then.
    setting.fake.fault(Stage::Dump, Fault::Ignore);
    assert_eq!(read(&driven).await, Err(ReadError::Lost));
    driven.handle.push(1, adding(&["table=9, actions=drop"]));
    driven.disconnected(Channel::OpenFlow).await;
    driven.synced().await;
    driven.confirmed(1).await;
    assert_eq!(read(&driven).await.unwrap().len(), 1);

    // The connection is lost meanwhile. The next one is used then.
    setting.fake.fault(Stage::Dump, Fault::Close);
    assert_eq!(read(&driven).await, Err(ReadError::Lost));
    driven.disconnected(Channel::OpenFlow).await;
    driven.synced().await;
    assert_eq!(read(&driven).await.unwrap().len(), 1);
    assert!(setting.fake.flows().contains_key(&key), "it is not deleted");
}
