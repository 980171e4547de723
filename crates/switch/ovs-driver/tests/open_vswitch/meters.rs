//! Meters at a real Open vSwitch.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::open_vswitch::switch::Switch;
use crate::support::driven::Driven;
use crate::support::flows::flows;
use ovs_driver::{Changes, Channel, Desired, Edits, METER_MAX, Meter, MeterCount};

/// The meters, as Open vSwitch prints them, each on a line, sorted.
fn meters(ovs: &Switch) -> Vec<String> {
    let dump = ovs.ofctl(&["dump-meters", "BRIDGE"]).replace("bands=\n", "bands=");
    let mut meters: Vec<String> = dump.lines().map(|line| line.trim().to_owned()).collect();
    meters.retain(|line| line.starts_with("meter="));
    meters.sort();
    meters
}

fn printed(id: u32, rate: u32) -> String {
    format!("meter={id} pktps burst stats bands=type=drop rate={rate} burst_size=10")
}

fn wanted(rates: &[(u32, u32)]) -> BTreeMap<u32, Meter> {
    rates.iter().map(|(id, rate)| (*id, Meter { rate: *rate, burst: 10 })).collect()
}

#[tokio::test]
async fn meters_are_added_changed_and_removed_and_survive_a_restart_and_others() {
    let mut ovs = Switch::start();
    let limited = "table=1, priority=100,in_port=1 actions=meter:7,group:7";
    let last = format!("table=1, priority=100,in_port=2 actions=meter:{METER_MAX},output:3");
    let desired = Desired {
        flows: flows(&[limited, &last]),
        buckets: crate::support::flows::buckets(&[(7, 0, "output:1")]),
        meters: wanted(&[(7, 100), (METER_MAX, 5)]),
        ..Desired::default()
    };
    let both = [printed(METER_MAX, 5), printed(7, 100)];
    let mut driven = Driven::start(ovs.config());
    driven.handle.set_desired(Arc::new(desired.clone()));
    assert_eq!(driven.synced().await, (5, 0));
    assert_eq!(meters(&ovs), both);
    assert_eq!(ovs.flows().len(), 2);
    drop(driven);
    let mut driven = Driven::start(ovs.config());
    driven.handle.set_desired(Arc::new(desired));
    assert_eq!(driven.synced().await, (0, 0), "a switch that is right is left alone");

    // Somebody else deletes a meter, and with it a flow; the switch reports the flow.
    ovs.ofctl(&["del-meter", "BRIDGE", "meter=7"]);
    let why = driven
        .wait("the deletion", |event| match event {
            ovs_driver::Event::ForeignChanges { first, .. } => Some(first[0].why.clone()),
            _ => None,
        })
        .await;
    assert!(why.starts_with("its meter was deleted"), "{why}");
    let repaired = |event: &ovs_driver::Event| match event {
        ovs_driver::Event::Repaired { flow_mods } => Some(*flow_mods),
        _ => None,
    };
    assert_eq!(driven.wait("the repair", repaired).await, 2);
    assert_eq!((meters(&ovs), ovs.flows().len()), (both.to_vec(), 2));

    // The rate changes while the switch is away.
    ovs.kill_vswitchd();
    driven.disconnected(Channel::OpenFlow).await;
    driven.handle.push(7, Changes { meters: Edits::add(wanted(&[(7, 200)])), ..Changes::default() });
    ovs.start_vswitchd();
    driven.confirmed(7).await;
    assert_eq!(meters(&ovs), [printed(METER_MAX, 5), printed(7, 200)]);
    assert_eq!(ovs.flows().len(), 2);
    let count = |meter| MeterCount { meter, packets: 0, bytes: 0, dropped: 0 };
    let mut counts = driven.handle.meter_counts().await.unwrap();
    counts.sort_by_key(|count| count.meter);
    assert_eq!(counts, [count(7), count(METER_MAX)]);

    // A limit goes together with the flow that uses it; another flow takes its place.
    let free = "table=1, priority=100,in_port=1 actions=group:7";
    let gone =
        Changes { flows: Edits::add(flows(&[free])), meters: Edits::delete([7]), ..Changes::default() };
    driven.handle.push(8, gone);
    driven.confirmed(8).await;
    assert_eq!(meters(&ovs), [printed(METER_MAX, 5)]);
    assert_eq!(ovs.flows(), [free, last.as_str()]);
}
