//! Conntrack zones at a real Open vSwitch.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use crate::open_vswitch::switch::Switch;
use crate::support::driven::Driven;
use crate::support::flows::flows;
use crate::support::packets::datagram;
use ovs_driver::{Changes, Channel, Desired, ZoneOwner};

/// Sends a UDP packet through the flows, which track it in a zone.
fn send(ovs: &Switch, zone: u16, source_port: u16) {
    let packet = format!(
        "in_port=controller packet={} actions=set_field:{zone}->reg1,resubmit(,1)",
        datagram(source_port)
    );
    ovs.ofctl(&["packet-out", "BRIDGE", &packet]);
}

/// The zone and the source port of each connection, sorted.
fn connections(ovs: &Switch) -> Vec<(u16, u16)> {
    let number = |line: &str, name: &str| {
        let (_, rest) = line.split_once(name)?;
        rest.split([',', ')']).next()?.parse().ok()
    };
    let dump = ovs.appctl(&["dpctl/dump-conntrack"]);
    let mut found: Vec<(u16, u16)> =
        dump.lines().filter_map(|line| Some((number(line, "zone=")?, number(line, "sport=")?))).collect();
    found.sort_unstable();
    found
}

/// Flows that track UDP packets in the zone that register 1 says, and these owners.
fn owned(owners: &[(u16, &str)]) -> Desired {
    let zones = owners.iter().map(|(zone, owner)| (*zone, ZoneOwner::new(owner).unwrap())).collect();
    let track = "table=1, udp actions=ct(commit,zone=NXM_NX_REG1[0..15])";
    Desired { flows: flows(&[track]), zones, ..Desired::default() }
}

async fn drive(ovs: &Switch, owners: &[(u16, &str)]) -> (Driven, usize) {
    let mut driven = Driven::start(ovs.config());
    driven.handle.set_desired(Arc::new(owned(owners)));
    let (flow_mods, _) = driven.synced().await;
    (driven, flow_mods)
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_stay_with_the_owner_of_their_zone_and_go_with_it() {
    let mut ovs = Switch::start();
    let (driven, flow_mods) = drive(&ovs, &[(5, "blue-1"), (65535, "blue-2")]).await;
    assert_eq!(flow_mods, 3);
    send(&ovs, 5, 1001);
    send(&ovs, 65535, 1002);
    let both = [(5, 1001), (65535, 1002)];
    assert_eq!(connections(&ovs), both);

    // Another driver with the same owners.
    driven.handle.end().await;
    let (driven, flow_mods) = drive(&ovs, &[(5, "blue-1"), (65535, "blue-2")]).await;
    assert_eq!((flow_mods, connections(&ovs)), (0, both.to_vec()));

    // A new owner while the driver is there, and a new zone.
    let mut driven = driven;
    let zones = [(5, "red-1"), (7, "red-2")].map(|(zone, owner)| (zone, ZoneOwner::new(owner).unwrap()));
    driven.handle.push(1, Changes { zones_add: zones.into(), ..Changes::default() });
    driven.confirmed(1).await;
    assert_eq!(connections(&ovs), [(65535, 1002)]);
    send(&ovs, 5, 1003);
    send(&ovs, 7, 1004);

    // And while it is away.
    driven.handle.end().await;
    let (mut driven, _) = drive(&ovs, &[(5, "red-1"), (7, "blue-3"), (65535, "blue-2")]).await;
    assert_eq!(connections(&ovs), [(5, 1003), (65535, 1002)]);

    // Without an owner, a zone holds nothing.
    driven.handle.push(1, Changes { zones_delete: [5].into(), ..Changes::default() });
    driven.confirmed(1).await;
    assert_eq!(connections(&ovs), [(65535, 1002)]);

    // The switch comes back without flows and connections.
    ovs.kill_vswitchd();
    driven.disconnected(Channel::OpenFlow).await;
    ovs.start_vswitchd();
    driven.synced().await;
    assert_eq!(connections(&ovs), []);
    send(&ovs, 7, 1005);
    driven.handle.end().await;
    let (_driven, flow_mods) = drive(&ovs, &[(7, "blue-3"), (65535, "blue-2")]).await;
    assert_eq!((flow_mods, connections(&ovs)), (0, vec![(7, 1005)]));
}
