//! Meters on the fake switch: before the flows that use them, after those that did, and whatever others do to them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::sync::Arc;

use fake_switch::openflow::Refusal;
use openflow_rs::{MeterEntry, MeterMod};
use ovs_driver::{Changes, Desired, Edits, Event, ForeignChange, Meter, MeterCount, ReadError};

use crate::support::driven::Driven;
use crate::support::flows::flows;
use crate::support::setting::{Setting, patient, refused_total};

const LIMITED: &str = "table=1, actions=meter:7,resubmit(,3)";
const OTHER: &str = "table=2, actions=output:2";

fn meters(rates: &[(u32, u32)]) -> BTreeMap<u32, Meter> {
    rates.iter().map(|(id, rate)| (*id, Meter { rate: *rate, burst: 10 })).collect()
}

fn on_switch(rates: &[(u32, u32)]) -> BTreeMap<u32, MeterEntry> {
    rates.iter().map(|(id, rate)| (*id, MeterEntry::packets_per_second(*id, *rate, 10))).collect()
}

fn limited(rates: &[(u32, u32)]) -> Desired {
    Desired { flows: flows(&[LIMITED, OTHER]), meters: meters(rates), ..Desired::default() }
}

async fn foreign(driven: &mut Driven) -> Vec<ForeignChange> {
    driven
        .wait("a foreign change", |event| match event {
            Event::ForeignChanges { first, .. } => Some(first.clone()),
            _ => None,
        })
        .await
}

async fn repaired(driven: &mut Driven) -> usize {
    driven
        .wait("a repair", |event| match event {
            Event::Repaired { flow_mods } => Some(*flow_mods),
            _ => None,
        })
        .await
}

#[tokio::test(start_paused = true)]
async fn meters_come_before_their_flows_change_alone_and_go_after_them() {
    let setting = Setting::new();
    let mut driven = setting.drive(patient());
    driven.handle.set_desired(Arc::new(limited(&[(7, 100), (8, 5)])));
    assert_eq!(driven.synced().await, (4, 0));
    assert_eq!(
        (setting.fake.flows(), setting.fake.meters()),
        (flows(&[LIMITED, OTHER]), on_switch(&[(7, 100), (8, 5)]))
    );
    assert_eq!(setting.fake.counts().meter_mods, 2);

    // A rate changes without touching a flow.
    let before = setting.fake.counts().flow_mods;
    driven.handle.push(1, Changes { meters: Edits::add(meters(&[(7, 200)])), ..Changes::default() });
    driven.confirmed(1).await;
    assert_eq!(setting.fake.meters(), on_switch(&[(7, 200), (8, 5)]));
    assert_eq!((setting.fake.counts().flow_mods, setting.fake.counts().meter_mods), (before, 3));

    // The limit goes: in one transaction the flow becomes another, and the meter is deleted.
    let unlimited = flows(&["table=1, actions=resubmit(,3)"]);
    let changes =
        Changes { flows: Edits::add(unlimited.clone()), meters: Edits::delete([7]), ..Changes::default() };
    driven.handle.push(2, changes);
    driven.confirmed(2).await;
    assert_eq!(setting.fake.meters(), on_switch(&[(8, 5)]));
    assert_eq!(setting.fake.flows().len(), 2, "the flow has not gone with its meter");
    assert!(
        !driven.seen.iter().any(|event| matches!(event, Event::ForeignChanges { .. })),
        "{:#?}",
        driven.seen
    );

    // A switch in sync is left alone, and one that has lost everything gets it again.
    let counts = setting.fake.counts();
    setting.fake.disconnect();
    assert_eq!(driven.synced().await, (0, 0));
    assert_eq!(setting.fake.counts().meter_mods, counts.meter_mods);
    setting.fake.restart();
    assert_eq!(driven.synced().await, (3, 0));
    assert_eq!(setting.fake.meters(), on_switch(&[(8, 5)]));
}

#[tokio::test(start_paused = true)]
async fn meters_of_others_and_what_they_do_to_ours_is_undone() {
    let setting = Setting::new();
    setting.fake.change_meter(&MeterMod::add(MeterEntry::packets_per_second(7, 1, 1)));
    setting.fake.change_meter(&MeterMod::add(MeterEntry::packets_per_second(99, 1, 1)));
    let mut driven = setting.drive(patient());
    let want = limited(&[(7, 100)]);
    driven.handle.set_desired(Arc::new(want.clone()));
    assert_eq!(driven.synced().await, (4, 0), "two flows, a change, a deletion");
    assert_eq!(setting.fake.meters(), on_switch(&[(7, 100)]));

    // The flow goes with the meter, and the switch reports that.
    setting.fake.change_meter(&MeterMod::delete(7));
    let changes = foreign(&mut driven).await;
    assert!(changes[0].why.starts_with("its meter was deleted"), "{changes:?}");
    assert_eq!(repaired(&mut driven).await, 2);
    assert_eq!((setting.fake.flows(), setting.fake.meters()), (want.flows.clone(), on_switch(&[(7, 100)])));

    // What no switch reports is found by comparison.
    for change in [
        MeterMod::modify(MeterEntry::packets_per_second(7, 9, 9)),
        MeterMod::add(MeterEntry::packets_per_second(98, 1, 1)),
    ] {
        setting.fake.change_meter(&change);
        let changes = foreign(&mut driven).await;
        assert!(changes[0].why.contains("found by comparison"), "{changes:?}");
        assert!(changes[0].what.contains("meter="), "{changes:?}");
        assert_eq!(repaired(&mut driven).await, 1);
        assert_eq!(setting.fake.meters(), on_switch(&[(7, 100)]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_meter_is_told_with_the_flows_that_need_it_and_delays_nothing_else() {
    let setting = Setting::new();
    setting.fake.refuse_meters(|change| (change.meter.id == 7).then_some(Refusal::OUT_OF_METERS));
    let mut driven = setting.drive(patient());
    driven.handle.set_desired(Arc::new(limited(&[(7, 100), (8, 5)])));
    driven.synced().await;
    assert_eq!((setting.fake.flows(), setting.fake.meters()), (flows(&[OTHER]), on_switch(&[(8, 5)])));
    let first = |event: &Event| match event {
        Event::Refused { first, .. } => Some(first.clone()),
        _ => None,
    };
    let refused: Vec<_> = driven.seen.iter().filter_map(first).flatten().collect();
    let reasons: Vec<&str> = refused.iter().map(|refused| refused.reason.as_str()).collect();
    assert_eq!(reasons, ["OFPMMFC_INVALID_METER", "OFPMMFC_OUT_OF_METERS"], "{refused:?}");
    assert_eq!(driven.wait("the total", refused_total).await, 2);

    // With another meter that is changed, flows that lacked theirs are tried again.
    setting.fake.refuse_meters(|_| None);
    driven.handle.push(1, Changes { meters: Edits::add(meters(&[(7, 50)])), ..Changes::default() });
    assert_eq!(driven.wait("the total", refused_total).await, 0);
    driven.confirmed(1).await;
    assert_eq!(
        (setting.fake.flows(), setting.fake.meters()),
        (flows(&[LIMITED, OTHER]), on_switch(&[(7, 50), (8, 5)]))
    );
}

#[tokio::test(start_paused = true)]
async fn counters_are_read_when_somebody_asks() {
    let setting = Setting::new();
    let mut driven = setting.drive(patient());
    assert_eq!(driven.handle.meter_counts().await, Err(ReadError::NotConnected));
    driven.handle.set_desired(Arc::new(limited(&[(7, 100), (8, 5)])));
    driven.synced().await;
    setting.fake.count(7, 1000, 890);
    let count = |meter, packets, dropped| MeterCount { meter, packets, bytes: packets * 100, dropped };
    assert_eq!(driven.handle.meter_counts().await, Ok(vec![count(7, 1000, 890), count(8, 0, 0)]));
}
