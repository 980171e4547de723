//! Switches that lie, and objects that no switch has room for: memory and time stay bounded, and the rest goes on.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::support::driven::Driven;
use crate::support::flows::flows;
use crate::support::setting::{Setting, config, desired, refused_total, some_flows};
use fake_switch::FakeSwitch;
use fake_switch::openflow::{Fault, Refusal, Stage};
use ovs_driver::{Bucket, Changes, Channel, Edits, Event, FlowKey, InMemoryNetwork, Peers, Timing};
use tokio::sync::mpsc;
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn d16_empty_parts_do_not_keep_a_request() {
    for (stage, request) in
        [(Stage::Groups, "the group dump"), (Stage::Meters, "the meter dump"), (Stage::Dump, "the flow dump")]
    {
        let setting = Setting::new();
        setting.fake.fault(stage, Fault::EmptyParts);
        let mut driven = setting.drive(Timing::default());
        driven.handle.set_desired(desired(&some_flows(5)));
        let began = Instant::now();
        let why = driven.disconnected(Channel::OpenFlow).await;
        assert!(
            why.ends_with(&format!("the switch has sent more than 16 empty parts of {request}")),
            "{why}"
        );
        assert!(began.elapsed() < Duration::from_secs(90), "{:?}", began.elapsed());
        // The next attempt waits, and then the switch is served like any other.
        assert_eq!(driven.synced().await.0, 5);
        assert!(began.elapsed() > Duration::from_secs(90), "{:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn d16_a_request_that_makes_little_progress_ends() {
    let setting = Setting::new();
    // One description each four seconds is progress, but not for ever.
    setting.fake.fault(Stage::Dump, Fault::Trickle);
    let mut driven = setting.drive(Timing { request_max: Duration::from_secs(10), ..Timing::default() });
    driven.handle.set_desired(desired(&some_flows(5)));
    let began = Instant::now();
    let why = driven.disconnected(Channel::OpenFlow).await;
    assert!(why.contains("has not finished the flow dump after 100 s"), "{why}");
    assert!(began.elapsed() < Duration::from_secs(110), "{:?}", began.elapsed());
    assert_eq!(driven.synced().await.0, 5);
}

/// One of two hosts describes groups or flows without an end.
#[tokio::test]
async fn d16_the_host_that_floods_is_disconnected_and_the_other_is_served() {
    const LIMIT: usize = 8 << 20;
    for stage in [Stage::Groups, Stage::Dump] {
        let network = InMemoryNetwork::default();
        let peers = Peers::start(Arc::new(network.clone()), 2, LIMIT, || {}).unwrap();
        let start = |name: &str| {
            let endpoint: ovs_driver::Endpoint = format!("unix:{name}").parse().unwrap();
            let fake = FakeSwitch::start_in_memory(&network, endpoint.clone());
            let (sender, events) = mpsc::channel(16);
            let config = ovs_driver::Config { name: name.to_owned(), openflow: endpoint, ..config() };
            (fake, move |peers: &Peers| {
                let handle = peers.spawn(config, Timing::default(), sender);
                handle.set_desired(desired(&some_flows(5)));
                Driven { handle, events, seen: Vec::new() }
            })
        };
        let (liar, drive_liar) = start("liar");
        let (_honest, drive_honest) = start("honest");
        liar.fault(stage, Fault::Endless);
        let (mut lying, mut honest) = (drive_liar(&peers), drive_honest(&peers));
        let why = lying.disconnected(Channel::OpenFlow).await;
        assert!(
            why.contains("liar has sent ") && why.contains(" reached the limit of 8388608 bytes"),
            "{why}"
        );
        assert_eq!(honest.synced().await.0, 5);
        assert!(
            !honest
                .seen
                .iter()
                .any(|event| matches!(event, Event::Disconnected { channel: Channel::OpenFlow, .. }))
        );
        assert!(peers.memory().charged() <= LIMIT);
    }
}

/// Such a group would take more than a message, and more than a switch can describe.
#[tokio::test(start_paused = true)]
async fn d23_a_group_that_no_switch_has_room_for_is_refused_and_the_connection_lives() {
    let setting = Setting::new();
    let mut driven = setting.drive(Timing::default());
    driven.handle.set_desired(desired(&some_flows(5)));
    driven.synced().await;
    let bucket = |n: u32| {
        let actions = format!("set_field:{n:#x}->reg1,set_field:{n:#x}->reg2,resubmit(,40)").parse().unwrap();
        Bucket::new(7, &actions).unwrap()
    };
    let large: BTreeMap<(u32, u32), Bucket> = (0..70_000).map(|n| ((9, n), bucket(n))).collect();
    let small: BTreeMap<(u32, u32), Bucket> = (0..10).map(|n| ((8, n), bucket(n))).collect();
    let buckets = Edits::add(large.into_iter().chain(small));
    let users = flows(&["table=3,actions=group:8", "table=4,actions=group:9", "table=5,actions=drop"]);
    driven.handle.push(1, Changes { buckets, flows: Edits::add(users), ..Changes::default() });
    let reason = |event: &Event| match event {
        Event::Refused { txn: Some(1), first, .. } => {
            first.iter().find(|first| first.what.contains("group_id=9")).map(|first| first.reason.clone())
        }
        _ => None,
    };
    let why = driven.wait("a refusal", reason).await;
    assert!(
        why.contains("and a group on a switch has room for 60000") && why.contains("fewer members"),
        "{why}"
    );
    // The rest is in force, over the same connection.
    driven
        .handle
        .push(2, Changes { flows: Edits::add(flows(&["table=6,actions=drop"])), ..Changes::default() });
    driven.confirmed(2).await;
    // Gates to parts that the switch has no room for do no harm.
    let first_parts = || setting.fake.groups().keys().filter(|id| **id <= ovs_driver::GROUP_MAX).count();
    assert_eq!((setting.fake.flows().len(), first_parts()), (5 + 3, 1));
    assert_eq!(setting.fake.counts().connections, 1);
    // A group that becomes small again is sent.
    let buckets = Edits::delete((10..70_000).map(|n| (9, n)));
    driven.handle.push(3, Changes { buckets, ..Changes::default() });
    driven.wait("an end of the refusals", |event| refused_total(event).filter(|total| *total == 0)).await;
    assert_eq!((setting.fake.flows().len(), first_parts()), (5 + 4, 2));
}

/// A bundle that fails at its commit names one bad change. Those that are good are in force as wholes all the same.
#[tokio::test(start_paused = true)]
async fn d26_a_batch_with_many_bad_changes_goes_in_smaller_bundles() {
    const BAD: usize = 20;
    let setting = Setting::new();
    let is_bad = |key: &FlowKey| key.table() == 66;
    setting.fake.refuse(move |key, _| is_bad(key).then_some(Refusal::BAD_OUT_GROUP));
    let mut driven = setting.drive(Timing::default());
    driven.handle.set_desired(desired(&some_flows(500)));
    driven.synced().await;
    let before = setting.fake.counts().commits;
    let bad = (0..BAD).map(|n| format!("table=66,priority={n},actions=output:1"));
    let good = (0..500).map(|n| format!("table=67,priority={n},actions=output:1"));
    let texts: Vec<String> = bad.chain(good).collect();
    driven.handle.push(1, Changes { flows: Edits::add(flows(&texts)), ..Changes::default() });
    driven.wait("the refusals", |event| refused_total(event).filter(|total| *total == BAD)).await;
    assert_eq!(setting.fake.flows().len(), 1000);
    let commits = setting.fake.counts().commits - before;
    // One by one, nothing is committed after the fourth.
    assert!((BAD..500).contains(&commits), "{commits} bundles");
}
