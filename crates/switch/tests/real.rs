//! The driver against a real Open vSwitch.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use openflow_rs::FlowEntry;
use support::{Driven, Ovs};
use switch::{Changes, Desired, Event, Flow, FlowKey, Tunnel};

fn flow(text: &str) -> (FlowKey, Flow) {
    let entry: FlowEntry = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    let key = FlowKey::new(entry.table, entry.priority, &entry.matches).unwrap();
    (key, Flow::new(entry.cookie, &entry.actions).unwrap())
}

fn flows(texts: &[&str]) -> BTreeMap<FlowKey, Flow> {
    texts.iter().map(|text| flow(text)).collect()
}

fn tunnels(tunnels: &[(&str, &str, &str)]) -> BTreeMap<String, Tunnel> {
    let tunnel = |encap: &str, remote: &str| Tunnel {
        encap: encap.parse().unwrap(),
        remote: remote.parse().unwrap(),
    };
    tunnels.iter().map(|(name, encap, remote)| ((*name).to_owned(), tunnel(encap, remote))).collect()
}

const FLOWS: [&str; 5] = [
    "cookie=0x11, priority=100,in_port=1 actions=set_field:0x1->metadata,set_field:0x101->reg0,resubmit(,20)",
    "cookie=0x12, table=1, priority=100,tun_id=0x101 actions=set_field:0x101->reg1,resubmit(,40)",
    "cookie=0x13, table=20, priority=100,metadata=0x1,dl_dst=02:00:00:00:00:01 actions=set_field:0x101->reg1,resubmit(,40)",
    "cookie=0x14, table=14, priority=90,arp,metadata=0x1,arp_tpa=10.0.0.1,arp_op=1 actions=move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[],IN_PORT",
    "cookie=0x15, table=40, reg1=0x101,metadata=0x1 actions=output:1",
];

fn sorted(texts: &[&str]) -> Vec<String> {
    let mut texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
    texts.sort();
    texts
}

#[tokio::test]
async fn an_empty_switch_is_brought_up_and_a_right_one_is_left_alone() {
    let Some(ovs) = Ovs::start() else { return };
    let desired = Arc::new(Desired { flows: flows(&FLOWS), tunnels: BTreeMap::new() });

    let mut driven = Driven::start(ovs.config());
    driven.handle.set_desired(desired.clone());
    assert_eq!(driven.synced().await, (FLOWS.len(), 0));
    assert_eq!(ovs.flows(), sorted(&FLOWS));
    assert_eq!(ovs.flow_mods(), FLOWS.len());
    let bridge = ovs.vsctl(&["get", "bridge", "br-int", "fail_mode", "protocols", "datapath_type"]);
    assert_eq!(bridge.split_whitespace().collect::<Vec<_>>(), ["secure", "[OpenFlow15]", "netdev"]);
    drop(driven);

    let mut again = Driven::start(ovs.config());
    again.handle.set_desired(desired);
    assert_eq!(again.synced().await, (0, 0));
    assert_eq!(ovs.flow_mods(), FLOWS.len(), "a switch that is right gets no flow-mod at all");
}
