//! Conntrack zones at a real Open vSwitch.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use ovs_testing::wait_until;

use crate::open_vswitch::switch::Switch;
use crate::support::driven::Driven;
use crate::support::flows::flows;
use crate::support::packets::datagram;
use ovs_driver::{Changes, Channel, Desired, Edits, ZoneLimits, ZoneOwner};

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
    driven.handle.push(1, Changes { zones: Edits::add(zones), ..Changes::default() });
    driven.confirmed(1).await;
    assert_eq!(connections(&ovs), [(65535, 1002)]);
    send(&ovs, 5, 1003);
    send(&ovs, 7, 1004);

    // And while it is away.
    driven.handle.end().await;
    let (mut driven, _) = drive(&ovs, &[(5, "red-1"), (7, "blue-3"), (65535, "blue-2")]).await;
    assert_eq!(connections(&ovs), [(5, 1003), (65535, 1002)]);

    // Without an owner, a zone holds nothing.
    driven.handle.push(1, Changes { zones: Edits::delete([5]), ..Changes::default() });
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

/// Zones 5 and 6, which forget connections without an answer soon and late.
fn limited() -> Desired {
    let limits = |unanswered| ZoneLimits {
        connections: None,
        unanswered,
        answered: 100,
        established: 100,
        closing: 100,
    };
    Desired { limits: [(5, limits(2)), (6, limits(100))].into(), ..owned(&[(5, "blue-1"), (6, "blue-2")]) }
}

/// Connections begin in both zones, and the one in zone 5 is forgotten.
fn forgets(ovs: &Switch, source_port: u16) {
    send(ovs, 5, source_port);
    send(ovs, 6, source_port);
    assert_eq!(connections(ovs).iter().filter(|(_, port)| *port == source_port).count(), 2);
    wait_until("the connection of zone 5 is forgotten", || !connections(ovs).contains(&(5, source_port)));
    assert!(connections(ovs).contains(&(6, source_port)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zone_forgets_connections_after_its_timeouts_also_after_restarts() {
    let mut ovs = Switch::start();
    let mut driven = Driven::start(ovs.config());
    driven.handle.set_desired(Arc::new(limited()));
    driven.synced().await;
    forgets(&ovs, 1001);

    // Another driver finds all as it should be.
    let rows = |ovs: &Switch| ovs.vsctl(&["--columns=_uuid,ct_zones", "list", "Datapath"]);
    let before = rows(&ovs);
    driven.handle.end().await;
    let mut driven = Driven::start(ovs.config());
    driven.handle.set_desired(Arc::new(limited()));
    assert_eq!((driven.synced().await, rows(&ovs)), ((0, 0), before.clone()));
    forgets(&ovs, 1002);

    // ovs-vswitchd reads them from the database.
    ovs.kill_vswitchd();
    driven.disconnected(Channel::OpenFlow).await;
    ovs.start_vswitchd();
    driven.synced().await;
    assert_eq!(rows(&ovs), before);
    forgets(&ovs, 1003);

    // A zone that has gone leaves no rows.
    let gone = Changes { zones: Edits::delete([5]), limits: Edits::delete([5]), ..Changes::default() };
    driven.handle.push(1, gone);
    driven.confirmed(1).await;
    let count = |table: &str| ovs.vsctl(&["--columns=_uuid", "list", table]).matches("_uuid").count();
    assert_eq!([count("CT_Zone"), count("CT_Timeout_Policy")], [1, 1]);
    assert!(rows(&ovs).contains("{6="), "{}", rows(&ovs));
}
