//! Conntrack zones on the fake switch: flushed before they are used for another owner, whenever the driver or the switch ends.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fake_switch::openflow::{Flushed, Refusal};
use ovs_driver::{Changes, Channel, Desired, Edits, Event, Flow, FlowKey, ZONE_TABLE, ZoneOwner};

use crate::support::driven::Driven;
use crate::support::flows::flows;
use crate::support::setting::{Setting, patient, refused_total};

const ZONE: u16 = 5;
/// The table of the flows that track packets here. Their cookie says for whom.
const TRACKING: u8 = 1;
/// More messages than any reading of the switch and change of a zone takes.
const MESSAGES_MAX: usize = 60;

/// The flows of an owner, which track packets in a zone. Another owner has the same flow with another cookie.
fn tracking(zone: u16, owner: u64) -> BTreeMap<FlowKey, Flow> {
    flows(&[format!("cookie={owner}, table=1, in_port={zone} actions=ct(commit,zone={zone}),output:2")])
}

fn zones(owners: &[(u16, u64)]) -> BTreeMap<u16, ZoneOwner> {
    owners.iter().map(|(zone, owner)| (*zone, ZoneOwner::new(&format!("port-{owner}")).unwrap())).collect()
}

/// What a switch is to have if these zones have these owners.
fn owned(owners: &[(u16, u64)]) -> Desired {
    let flows = owners.iter().flat_map(|(zone, owner)| tracking(*zone, *owner)).collect();
    Desired { flows, zones: zones(owners), ..Desired::default() }
}

/// A zone gets another owner, or its first one.
fn given(zone: u16, owner: u64) -> Changes {
    Changes {
        flows: Edits::add(tracking(zone, owner)),
        zones: Edits::add(zones(&[(zone, owner)])),
        ..Changes::default()
    }
}

/// The owners whose flows track packets, by zone.
fn users(flows: &BTreeMap<FlowKey, Flow>) -> Vec<(u16, String)> {
    let tracking = flows.iter().filter(|(key, _)| key.table() == TRACKING);
    let zone = |key: &FlowKey| {
        let (port, _) = key.matching().unwrap().get(openflow_rs::Field::InPort).unwrap();
        u16::try_from(port).unwrap()
    };
    tracking.map(|(key, flow)| (zone(key), format!("port-{}", flow.cookie()))).collect()
}

/// A switch on which packets of all owners pass all the time.
fn busy() -> Setting {
    let setting = Setting::new();
    setting.fake.traffic(users);
    setting
}

fn names(owners: &[u64]) -> BTreeSet<String> {
    owners.iter().map(|owner| format!("port-{owner}")).collect()
}

/// The flushed zones, and for each whose flows the switch had.
fn told(flushes: &[Flushed]) -> Vec<(u16, Vec<String>)> {
    let of = |flushed: &Flushed| {
        let users = users(&flushed.flows).into_iter().filter(|(zone, _)| *zone == flushed.zone);
        (flushed.zone, users.map(|(_, owner)| owner).collect())
    };
    flushes.iter().map(of).collect()
}

#[tokio::test(start_paused = true)]
async fn a_zone_is_flushed_before_the_flows_of_a_new_owner_and_not_while_it_keeps_it() {
    let setting = busy();
    let mut driven = setting.drive(patient());
    driven.handle.set_desired(Arc::new(owned(&[])));
    driven.synced().await;
    driven.handle.push(1, given(ZONE, 1));
    driven.confirmed(1).await;
    let none: Vec<String> = Vec::new();
    assert_eq!(told(&setting.fake.flushes()), [(ZONE, none.clone())], "before its flows, and once");
    assert_eq!(setting.fake.connections(ZONE), names(&[1]));

    // Others change, and the zone stays.
    driven.handle.push(2, given(9, 2));
    driven
        .handle
        .push(3, Changes { flows: Edits::add(flows(&["table=3, actions=drop"])), ..Changes::default() });
    driven.confirmed(3).await;
    assert_eq!(told(&setting.fake.flushes()[1..]), [(9, none.clone())]);
    assert_eq!(setting.fake.connections(ZONE), names(&[1]));

    // The next owner takes it over while packets of the former pass until the bundle.
    driven.handle.push(4, given(ZONE, 3));
    driven.confirmed(4).await;
    let flushes = setting.fake.flushes();
    assert_eq!(told(&flushes[2..]), [(ZONE, vec!["port-1".to_owned()]), (ZONE, vec!["port-3".to_owned()])]);
    assert_eq!(setting.fake.connections(ZONE), names(&[3]));

    // Without an owner it holds nothing, and the next one is the first again.
    let gone = Changes {
        flows: Edits::delete(tracking(ZONE, 3).into_keys()),
        zones: Edits::delete([ZONE]),
        ..Changes::default()
    };
    driven.handle.push(5, gone);
    driven.confirmed(5).await;
    assert_eq!(setting.fake.connections(ZONE), names(&[]));
    driven.handle.push(6, given(ZONE, 4));
    driven.confirmed(6).await;
    let flushes = setting.fake.flushes();
    assert_eq!(told(&flushes[4..]), [(ZONE, none.clone()), (ZONE, none)]);
    assert_eq!(setting.fake.connections(ZONE), names(&[4]));
}

#[tokio::test(start_paused = true)]
async fn connections_survive_the_driver_and_its_connection_while_the_owner_stays() {
    let setting = busy();
    let mut driven = setting.drive(patient());
    driven.handle.set_desired(Arc::new(owned(&[(ZONE, 1), (6, 2)])));
    driven.synced().await;
    let before = setting.fake.flushes().len();
    setting.fake.disconnect();
    assert_eq!(driven.synced().await, (0, 0));
    driven.handle.end().await;

    let mut driven = setting.drive(patient());
    driven.handle.set_desired(Arc::new(owned(&[(ZONE, 1), (6, 2)])));
    assert_eq!(driven.synced().await, (0, 0), "a switch that is right is left alone");
    assert_eq!(setting.fake.flushes().len(), before);
    driven.handle.end().await;

    // While nobody drives the switch, one zone gets another owner, and one is left.
    let mut driven = setting.drive(patient());
    driven.handle.set_desired(Arc::new(owned(&[(ZONE, 3), (7, 2)])));
    driven.synced().await;
    assert_eq!(setting.fake.connections(ZONE), names(&[3]));
    assert_eq!((setting.fake.connections(6), setting.fake.connections(7)), (names(&[]), names(&[2])));
    let flushed: Vec<u16> = setting.fake.flushes()[before..].iter().map(|flushed| flushed.zone).collect();
    assert_eq!(flushed, [5, 7, 6, 5, 7], "those with other owners before and after the bundle");

    // A switch that has lost everything gets it again.
    setting.fake.restart();
    driven.synced().await;
    assert_eq!((setting.fake.connections(ZONE), setting.fake.connections(7)), (names(&[3]), names(&[2])));
    let marks = setting.fake.flows().into_keys().filter(|key| key.table() == ZONE_TABLE);
    assert_eq!(marks.map(|mark| mark.priority()).collect::<Vec<_>>(), [5, 7]);
}

/// The driver ends after each message in turn, in the middle of a change of the owner. Whoever owns the zone when the next driver
/// is done finds no connection of anybody else.
#[tokio::test(start_paused = true)]
async fn no_owner_gets_connections_of_another_wherever_the_driver_ends() {
    let mut cut_off = BTreeMap::new();
    for before in [&[(ZONE, 1)][..], &[]] {
        for last in [1, 2, 3] {
            for messages in 0..MESSAGES_MAX {
                let setting = busy();
                let mut driven = setting.drive(patient());
                driven.handle.set_desired(Arc::new(owned(before)));
                driven.synced().await;
                setting.fake.cut_off_after(messages);
                driven.handle.push(7, given(ZONE, 2));
                let over = driven.wait("the end of the connection, or the change", |event| match event {
                    Event::Confirmed { txn: 7, .. } => Some(true),
                    Event::Disconnected { channel: Channel::OpenFlow, .. } => Some(false),
                    _ => None,
                });
                let is_done = over.await;
                *cut_off.entry((before.len(), is_done)).or_insert(0) += 1;
                driven.handle.end().await;
                setting.fake.listen_again();

                let mut next = setting.drive(patient());
                next.handle.set_desired(Arc::new(owned(&[(ZONE, last)])));
                next.synced().await;
                let found = setting.fake.connections(ZONE);
                assert_eq!(found, names(&[last]), "{before:?}, after {messages} messages, then {last}");
                next.handle.end().await;
                if is_done {
                    break;
                }
            }
        }
    }
    // Otherwise the driver was never ended in the middle, or never came to the end.
    assert!(cut_off.iter().all(|(_, count)| *count >= 3) && cut_off.len() == 4, "{cut_off:?}");
    assert!(cut_off[&(1, false)] > cut_off[&(0, false)], "{cut_off:?}");
}

#[tokio::test(start_paused = true)]
async fn a_refused_flush_is_told_and_made_up_for() {
    let setting = busy();
    setting.fake.refuse_flushes(Some(Refusal::OUT_OF_METERS));
    let mut driven = setting.drive(patient());
    driven.handle.set_desired(Arc::new(owned(&[(ZONE, 1)])));
    driven.synced().await;
    let first = |event: &Event| match event {
        Event::Refused { first, .. } => Some(first[0].clone()),
        _ => None,
    };
    let refused = driven.seen.iter().find_map(first).unwrap();
    assert_eq!(refused.reason, "OFPMMFC_OUT_OF_METERS");
    assert!(refused.what.contains("table=253"), "{refused:?}");
    assert_eq!(driven.wait("the total", refused_total).await, 1);
    setting.fake.refuse_flushes(None);
    setting.fake.disconnect();
    driven.synced().await;
    let total = |driven: &Driven| driven.seen.iter().filter_map(refused_total).next_back();
    if total(&driven) != Some(0) {
        driven.wait("the total", |event| refused_total(event).filter(|total| *total == 0)).await;
    }
    assert_eq!(setting.fake.connections(ZONE), names(&[1]));
    assert_eq!(setting.fake.flushes().len(), 2);
}
