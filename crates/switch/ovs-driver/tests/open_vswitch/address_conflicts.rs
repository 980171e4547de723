//! Address conflicts that real Open vSwitch notes in flows that it learns.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use ovs_driver::{Config, Desired, Event};

use super::switch::Switch;
use crate::support::driven::Driven;
use crate::support::flows::flows;

const NOTED: u8 = 53;

/// A request for an IPv4 address, and a solicitation, are noted for some seconds, as those of port 0x101.
const NOTING: [&str; 2] = [
    "table=0, priority=5,arp actions=set_field:0x101->reg0,move:NXM_OF_ARP_TPA[]->NXM_NX_REG4[],\
     learn(table=53,priority=50,hard_timeout=2,cookie=1,delete_learned,limit=4096,NXM_NX_REG0[],load:NXM_NX_REG4[]->NXM_NX_REG4[])",
    "table=0, priority=5,icmp6,icmpv6_type=135,icmpv6_code=0 actions=set_field:0x101->reg0,\
     move:NXM_NX_ND_TARGET[]->NXM_NX_XXREG2[],learn(table=53,priority=40,hard_timeout=600,cookie=1,delete_learned,limit=4096,\
     NXM_NX_REG0[],load:NXM_NX_XXREG2[]->NXM_NX_XXREG2[])",
];

fn send(ovs: &Switch, packet: &str) {
    ovs.appctl(&["ofproto/trace", "br-int", &format!("in_port=LOCAL,{packet}"), "-generate"]);
}

fn ask_for(ovs: &Switch, address: &str) {
    send(ovs, &format!("arp,arp_op=1,arp_spa=0.0.0.0,arp_tpa={address}"));
}

/// Waits until the driver reports these conflicts.
async fn reported(driven: &mut Driven, wanted: &[&str]) {
    driven
        .wait(&format!("a report of {wanted:?}"), |event| {
            let Event::Report(report) = event else { return None };
            let conflicts = report.conflicts.as_ref()?.iter();
            let found = conflicts.map(|found| format!("{:#x} {}", found.label, found.address));
            found.eq(wanted.iter().copied()).then_some(())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_switch_notes_is_reported_until_it_is_forgotten() {
    let ovs = Switch::start();
    let config = Config { conflict_tables: [NOTED].into(), ..ovs.config() };
    let desired = Arc::new(Desired { flows: flows(&NOTING), ..Desired::default() });
    let mut driven = Driven::start(config.clone());
    driven.handle.set_desired(desired.clone());
    driven.synced().await;
    ask_for(&ovs, "10.0.0.2");
    reported(&mut driven, &["0x101 10.0.0.2"]).await;
    send(&ovs, "icmp6,icmpv6_type=135,icmpv6_code=0,nd_target=fd00::2");
    reported(&mut driven, &["0x101 10.0.0.2", "0x101 fd00::2"]).await;
    // The IPv4 address is forgotten by itself, and a driver that starts finds the other one.
    reported(&mut driven, &["0x101 fd00::2"]).await;
    driven.handle.end().await;
    let mut driven = Driven::start(config);
    driven.handle.set_desired(desired);
    reported(&mut driven, &["0x101 fd00::2"]).await;

    // The switch has one flow of a port, whatever it asks for.
    for n in 1..=20 {
        ask_for(&ovs, &format!("10.0.1.{n}"));
    }
    driven
        .wait("a report of one of them", |event| {
            let Event::Report(report) = event else { return None };
            let mut conflicts = report.conflicts.as_ref()?.iter();
            conflicts.any(|found| found.address.to_string().starts_with("10.0.1.")).then_some(())
        })
        .await;
    assert_eq!(
        ovs.flows().iter().filter(|flow| flow.contains("table=53") && !flow.contains("learn")).count(),
        2
    );
    assert!(
        !driven.seen.iter().any(|event| matches!(event, Event::ForeignChanges { .. })),
        "{:#?}",
        driven.seen
    );
}
