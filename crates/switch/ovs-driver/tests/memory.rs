//! The memory that a connected switch takes, with an allocator that counts.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::collections::BTreeSet;
use std::sync::Arc;

use ovs_driver::{Config, Desired, Encap, Remote, Tunnel};
use ovs_testing::OpenVswitch;
use peak_alloc::PeakAlloc;

use crate::support::driven::Driven;
use crate::support::flows::TUNNEL_OPTION;
use crate::support::setting::some_flows;

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

/// The drivers that are measured, the flows of each, and the virtual interfaces of the switch.
const DRIVERS: usize = 20;
const FLOWS: u32 = 131;
const INTERFACES: usize = 5;
/// The most bytes for each.
const MOST: usize = 64 << 10;

/// Drivers of one switch, which want the same of it: to each of them it is a switch of its own.
#[tokio::test]
async fn d12_a_connected_switch_takes_little_memory() {
    let ovs = OpenVswitch::start();
    let config = || Config {
        name: "hv1".to_owned(),
        ovsdb: ovs.database().parse().unwrap(),
        openflow: ovs.bridge("br-int").parse().unwrap(),
        bridge: "br-int".to_owned(),
        datapath_type: None,
        datapath_id: None,
        tunnel_option: Some(TUNNEL_OPTION),
        learned_tables: BTreeSet::new(),
        watched_tables: BTreeSet::new(),
        conflict_tables: BTreeSet::new(),
        learned_limit: None,
        owner: None,
    };
    let tunnel = Tunnel { encap: Encap::Geneve, remote: Remote::Flow };
    let tunnels = [("gnv".to_owned(), tunnel)].into();
    let desired = Desired { flows: some_flows(FLOWS), tunnels, ..Desired::default() };
    let drive = async || {
        let mut driven = Driven::start(config());
        driven.handle.set_desired(Arc::new(desired.clone()));
        driven.synced().await;
        driven.seen = Vec::new();
        driven
    };
    let mut drivens = vec![drive().await];
    for number in 0..INTERFACES {
        let name = format!("tap{number}");
        let ids =
            format!("external_ids={{iface-id=port-{number},attached-mac=\"02:00:00:00:00:0{number}\"}}");
        let port = ["add-port", "br-int", &name, "--", "set", "interface", &name, "type=internal", &ids];
        ovs.vsctl(&port);
    }
    let mut before = 0;
    // The first ones also bring what all share.
    for number in 0..2 * DRIVERS {
        if number == DRIVERS {
            before = ALLOCATED.current_usage();
        }
        drivens.push(drive().await);
    }
    let each = (ALLOCATED.current_usage() - before) / DRIVERS;
    println!("{each} bytes for each connected switch");
    assert!(each < MOST, "{each} bytes for each connected switch, and not {MOST}");
}
