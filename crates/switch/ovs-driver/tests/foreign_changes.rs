//! Changes of flows and groups by others, on the fake switch: found, reported, undone.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use fake_switch::openflow::Refusal;
use openflow_rs::{Field, GroupEntry, PortNo};
use ovs_driver::{
    Bucket, Changes, Channel, Choice, Config, Desired, Edits, Event, ForeignChange, Timing, Watched,
};
use tokio::time::Instant;

use crate::support::driven::Driven;
use crate::support::flows::{buckets, flow, flows};
use crate::support::setting::{Setting, adding, config, desired, patient, refused_total, some_flows};

fn foreign(event: &Event) -> Option<(usize, Vec<ForeignChange>, Duration)> {
    match event {
        Event::ForeignChanges { count, first, repair_in } => Some((*count, first.clone(), *repair_in)),
        _ => None,
    }
}

fn repaired(event: &Event) -> Option<usize> {
    match event {
        Event::Repaired { flow_mods } => Some(*flow_mods),
        _ => None,
    }
}

async fn repair(driven: &mut Driven) -> usize {
    driven.wait("a repair", repaired).await
}

#[tokio::test(start_paused = true)]
async fn a_flow_that_another_deletes_adds_or_changes_is_put_right_and_reported() {
    let setting = Setting::new();
    let mut driven = setting.drive(patient());
    driven.handle.set_desired(desired(&some_flows(5)));
    driven.synced().await;
    let dumps = setting.fake.counts().dumps;
    let want = some_flows(5);
    let (first, _) = want.first_key_value().unwrap();
    let (added, drop) = flow("table=0, priority=65535 actions=drop");

    setting.fake.remove(first);
    let (count, changes, delay) = driven.wait("the deletion", foreign).await;
    assert_eq!((count, delay), (1, Duration::ZERO));
    assert!(changes[0].what.starts_with("deleted cookie=0x7, priority=100,reg0=0"), "{changes:?}");
    assert_eq!(
        changes[0].why,
        "deleted by another client; no controller is set for the bridge, so it was a client of its management socket"
    );
    assert_eq!(repair(&mut driven).await, 1);
    assert_eq!(setting.fake.flows(), want);

    setting.fake.install(added, drop);
    let (_, changes, _) = driven.wait("the addition", foreign).await;
    assert_eq!(changes[0].what, "added priority=65535 actions=drop");
    assert_eq!(repair(&mut driven).await, 1);
    assert_eq!(setting.fake.flows(), want);

    setting.fake.install(first.clone(), flow("actions=drop").1);
    let (_, changes, _) = driven.wait("the change", foreign).await;
    assert!(changes[0].what.starts_with("changed "), "{changes:?}");
    assert_eq!(repair(&mut driven).await, 1);
    assert_eq!(setting.fake.flows(), want);
    assert_eq!(setting.fake.counts().dumps, dumps, "nothing was read again");

    // The driver's own changes are not foreign, and a reconnect to a switch in sync sends nothing.
    let delete = Changes { flows: Edits::delete([first.clone()]), ..Changes::default() };
    driven.handle.push(1, delete);
    driven.confirmed(1).await;
    let before = setting.fake.counts().flow_mods;
    setting.fake.disconnect();
    assert_eq!(driven.synced().await, (0, 0));
    assert_eq!(setting.fake.counts().flow_mods, before);
    assert_eq!(driven.seen.iter().filter_map(foreign).count(), 3, "{:#?}", driven.seen);
}

#[tokio::test(start_paused = true)]
async fn a_choice_that_another_changes_is_put_right() {
    let setting = Setting::new();
    let candidate = |weight, port| {
        Bucket::candidate(7, weight, Watched::port(PortNo(port)), &"output:1".parse().unwrap()).unwrap()
    };
    let want = Desired {
        choices: [(7, Choice::Select(vec![Field::IpDst])), (8, Choice::FastFailover)].into(),
        candidates: [
            ((7, 1), candidate(1, 1)),
            ((7, 2), candidate(2, 2)),
            ((8, 1), candidate(0, 1)),
            ((8, 2), candidate(0, 2)),
        ]
        .into(),
        ..Desired::default()
    };
    let mut driven = setting.drive(patient());
    driven.handle.set_desired(Arc::new(want));
    driven.synced().await;
    let groups = setting.fake.groups();
    let [select, failover] = [7, 8].map(|id| groups[&id].to_string());
    assert_eq!(
        select,
        "group_id=7,type=select,selection_method=hash,fields=ip_dst,bucket=bucket_id:1,watch_port:1,actions=output:1,\
         bucket=bucket_id:2,weight:2,watch_port:2,actions=output:1"
    );
    for (text, what) in [
        (
            select.replace("hash,fields=ip_dst", "dp_hash"),
            "changed group_id=7,type=select,selection_method=dp_hash",
        ),
        (
            select.replace("weight:2", "weight:3"),
            "changed group_id=7,type=select,selection_method=hash,fields=ip_dst",
        ),
        (
            failover.replace("type=ff", "type=select"),
            "changed group_id=8,type=select,bucket=bucket_id:1,watch_port:1",
        ),
    ] {
        setting.fake.install_group(text.parse::<GroupEntry>().unwrap());
        let (count, changes, _) = driven.wait("the change", foreign).await;
        assert_eq!(count, 1, "{changes:?}");
        assert!(changes[0].what.starts_with(what), "{changes:?}");
        repair(&mut driven).await;
        assert_eq!(setting.fake.groups(), groups);
    }
    assert_eq!(driven.seen.iter().filter(|event| matches!(event, Event::Refused { .. })).count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_group_that_another_deletes_or_changes_is_put_right_with_the_flows_that_use_it() {
    let setting = Setting::new();
    let want = Desired {
        flows: flows(&["table=1, actions=group:7", "table=2, actions=output:2"]),
        buckets: buckets(&[(7, 1, "output:1"), (8, 1, "output:1")]),
        ..Desired::default()
    };
    let mut driven = setting.drive(patient());
    driven.handle.set_desired(Arc::new(want.clone()));
    driven.synced().await;
    let groups = setting.fake.groups();

    // Its flow goes with it, and the switch reports that.
    setting.fake.remove_group(7);
    let (_, changes, _) = driven.wait("the deletion", foreign).await;
    assert!(changes[0].why.starts_with("its group was deleted"), "{changes:?}");
    assert_eq!(repair(&mut driven).await, 2);
    assert_eq!((setting.fake.flows(), setting.fake.groups()), (want.flows.clone(), groups.clone()));

    // What no switch reports is found by comparison.
    for text in ["group_id=8,type=all,bucket=bucket_id:1,actions=drop", "group_id=99,type=all"] {
        setting.fake.install_group(text.parse::<GroupEntry>().unwrap());
        let began = Instant::now();
        let (count, changes, _) = driven.wait("the change", foreign).await;
        assert_eq!(count, 1, "{changes:?}");
        assert!(changes[0].why.contains("found by comparison"), "{changes:?}");
        repair(&mut driven).await;
        assert!(began.elapsed() <= 2 * Timing::default().compare_every, "{:?}", began.elapsed());
        assert_eq!(setting.fake.groups(), groups);
    }
    assert_eq!(driven.seen.iter().filter(|event| matches!(event, Event::Refused { .. })).count(), 0);
}

#[tokio::test(start_paused = true)]
async fn learned_flows_and_their_expiry_are_not_foreign() {
    let setting = Setting::new();
    let learning = Config { learned_tables: BTreeSet::from([21]), ..config() };
    let mut driven = Driven::start_on(Arc::new(setting.network.clone()), learning, patient());
    driven.handle.set_desired(desired(&some_flows(5)));
    driven.synced().await;
    let (key, learned) = flow("table=21, dl_dst=02:00:00:00:00:01 actions=output:1");
    setting.fake.learn(key.clone(), Some(learned));
    setting.fake.learn(key, None);
    // A change that is foreign shows that those before were handled.
    setting.fake.install(flow("table=1, priority=1 actions=drop").0, flow("actions=drop").1);
    let (count, changes, _) = driven.wait("the foreign change", foreign).await;
    assert_eq!(count, 1, "{changes:?}");
    assert_eq!(repair(&mut driven).await, 1);
}

#[tokio::test(start_paused = true)]
async fn changes_that_the_switch_could_not_report_are_found_by_reading_it() {
    let setting = Setting::new();
    let mut driven = setting.drive(patient());
    driven.handle.set_desired(desired(&some_flows(5)));
    driven.synced().await;
    let (key, drop) = flow("table=0, priority=65535 actions=drop");
    setting.fake.install_unreported(key, drop);
    setting.fake.leave_out_reports();
    let (count, changes, _) = driven.wait("the change", foreign).await;
    assert_eq!(count, 1, "{changes:?}");
    assert_eq!(repair(&mut driven).await, 1);
    assert_eq!(setting.fake.flows(), some_flows(5));
}

/// Two drivers that want different actions for the same flow.
#[tokio::test(start_paused = true)]
async fn two_controllers_that_fight_do_not_keep_the_switch_busy() {
    let setting = Setting::new();
    let timing = Timing { repair_max: Duration::from_secs(10), ..patient() };
    let mut drivers: Vec<Driven> = (0..2).map(|_| setting.drive(timing.clone())).collect();
    for (n, driven) in drivers.iter_mut().enumerate() {
        let want = flows(&[format!("table=1, actions=output:{}", n + 1)]);
        driven.handle.set_desired(desired(&want));
    }
    let began = Instant::now();
    let mut longest = Duration::ZERO;
    while began.elapsed() < Duration::from_mins(2) {
        let (_, _, delay) = drivers[0].wait("a change by the other", foreign).await;
        longest = longest.max(delay);
        while drivers[1].events.try_recv().is_ok() {}
    }
    assert_eq!(longest, timing.repair_max);
    let flow_mods = setting.fake.counts().flow_mods;
    // Both repair 8 times until the delay is longest, and then every ten seconds.
    assert!(flow_mods < 60, "{flow_mods} flow-mods in two minutes");
}

/// Bundles fail, so changes are sent one by one, and half of a change of a group is refused.
#[tokio::test(start_paused = true)]
async fn a_group_of_which_half_a_change_was_refused_is_known_as_it_is() {
    let setting = Setting::new();
    let group = |rows: &[(u32, u32, &str)]| Desired { buckets: buckets(rows), ..Desired::default() };
    let mut driven = setting.drive(patient());
    driven.handle.set_desired(Arc::new(group(&[(7, 1, "output:1"), (7, 2, "output:2"), (7, 3, "output:3")])));
    driven.synced().await;
    // The insertion of a bucket with output:9 is refused, the removal of the one in its place is not.
    setting.fake.refuse_groups(|change| {
        let is_bad = change.group.buckets.iter().any(|bucket| bucket.actions.to_string() == "output:9");
        is_bad.then_some(Refusal::BAD_OUT_PORT)
    });
    setting.fake.fail_bundles(true);
    let changed =
        |actions: &str| Changes { buckets: Edits::add(buckets(&[(7, 2, actions)])), ..Changes::default() };
    driven.handle.push(1, changed("output:9"));
    driven.wait("the refusal", |event| (refused_total(event) == Some(1)).then_some(())).await;
    assert_eq!(setting.fake.groups()[&7].buckets.len(), 2, "half of the change is in force");
    driven.handle.push(2, changed("output:4"));
    driven.wait("nothing refused", |event| (refused_total(event) == Some(0)).then_some(())).await;
    let group = &setting.fake.groups()[&7];
    let actions: BTreeSet<String> = group.buckets.iter().map(|bucket| bucket.actions.to_string()).collect();
    assert_eq!(actions, ["output:1", "output:3", "output:4"].map(str::to_owned).into());
    let lost = |event: &&Event| matches!(event, Event::Disconnected { channel: Channel::OpenFlow, .. });
    assert_eq!(driven.seen.iter().filter(lost).count(), 0);
}

/// All flows are compared each minute.
fn scrubbing() -> Timing {
    Timing { scrub_every: Duration::from_mins(1), ..patient() }
}

/// A flow that the switch lost, or never got, without a word.
#[tokio::test(start_paused = true)]
async fn d30_a_flow_that_is_missing_without_a_report_is_found_by_the_scrub() {
    let setting = Setting::new();
    let mut driven = setting.drive(scrubbing());
    driven.handle.set_desired(desired(&some_flows(5)));
    driven.synced().await;
    let began = Instant::now();
    for _ in 0..2 {
        let want = some_flows(5);
        let (first, _) = want.first_key_value().unwrap();
        setting.fake.lose(first);
        let (count, changes, _) = driven.wait("the loss", foreign).await;
        assert_eq!(count, 1, "{changes:?}");
        assert!(changes[0].what.starts_with("deleted cookie=0x7, priority=100,reg0=0"), "{changes:?}");
        assert!(changes[0].why.contains("lost on the way"), "{changes:?}");
        assert_eq!(repair(&mut driven).await, 1);
        assert_eq!(setting.fake.flows(), want);
    }
    assert!(began.elapsed() <= 3 * scrubbing().scrub_every, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn d30_a_scrub_of_a_switch_in_sync_changes_and_reports_nothing() {
    let setting = Setting::new();
    let mut driven = setting.drive(scrubbing());
    driven.handle.set_desired(desired(&some_flows(5)));
    driven.synced().await;
    let before = setting.fake.counts();
    while setting.fake.counts().dumps < before.dumps + 3 {
        tokio::time::advance(Duration::from_secs(10)).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(setting.fake.counts().flow_mods, before.flow_mods);
    while let Ok((_, event)) = driven.events.try_recv() {
        driven.seen.push(event);
    }
    let told = |event: &Event| foreign(event).is_some() || repaired(event).is_some();
    assert!(!driven.seen.iter().any(told), "{:#?}", driven.seen);
}

/// A switch that had no room takes the flow later, and nothing else says that it would.
#[tokio::test(start_paused = true)]
async fn a_refused_flow_is_tried_again_soon_and_then_ever_later_up_to_the_time_of_scrubs() {
    let timing = Timing { scrub_every: Duration::from_secs(20), ..Timing::default() };
    let setting = Setting::new();
    setting.fake.refuse(|key, _| (key.table() == 66).then_some(Refusal::BAD_OUT_PORT));
    let mut driven = setting.drive(timing);
    driven.handle.set_desired(desired(&some_flows(5)));
    driven.synced().await;
    driven.handle.push(1, adding(&["table=66, actions=output:1"]));
    let refused = |event: &Event| matches!(event, Event::Refused { .. }).then_some(());
    driven.wait("the refusal", refused).await;
    let (mut last, before) = (Instant::now(), setting.fake.counts().flow_mods);
    for (times, delay) in [2, 4, 8, 16, 20, 20].into_iter().enumerate() {
        driven.wait("another refusal", refused).await;
        assert_eq!(last.elapsed().as_secs(), delay, "after {times} others");
        assert_eq!(setting.fake.counts().flow_mods, before + times + 1);
        last = Instant::now();
    }

    setting.fake.accept();
    driven.wait("nothing refused", |event| (refused_total(event) == Some(0)).then_some(())).await;
    let mut want = some_flows(5);
    want.extend(flows(&["table=66, actions=output:1"]));
    assert_eq!(setting.fake.flows(), want);
}
