//! What flows of a real Open vSwitch have counted.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;
use std::time::Duration;

use crate::open_vswitch::switch::Switch;
use crate::support::driven::{Driven, PATIENCE};
use crate::support::flows::{flow, flows};
use crate::support::packets::datagram;
use openflow_rs::Match;
use ovs_driver::{Desired, FlowCount, Packet, ReadError};
use switch_model::{probe_frame, probe_length};

/// The bytes of a frame of [`datagram`].
const FRAME: u64 = 46;

#[tokio::test(flavor = "multi_thread")]
async fn packets_are_counted_by_the_flow_that_they_meet() {
    let ovs = Switch::start();
    let mut driven = Driven::start(ovs.config());
    let (all, some) = (
        "table=1, priority=5,udp,metadata=0x7 actions=resubmit(,2)",
        "table=2, udp,tp_src=1002 actions=drop",
    );
    let narrower = "table=1, priority=6,udp,metadata=0x7,tp_src=1003 actions=drop";
    driven
        .handle
        .set_desired(Arc::new(Desired { flows: flows(&[all, some, narrower]), ..Desired::default() }));
    driven.synced().await;
    for source_port in [1001, 1002, 1002, 1003] {
        let packet = datagram(source_port);
        let packet = format!("in_port=controller packet={packet} actions=set_field:7->metadata,resubmit(,1)");
        ovs.ofctl(&["packet-out", "BRIDGE", &packet]);
    }
    let [all, some] = [all, some].map(|text| flow(text).0);
    let count =
        |key: &ovs_driver::FlowKey, packets| FlowCount { key: key.clone(), packets, bytes: packets * FRAME };
    let expected = [count(&all, 3), count(&some, 2)];
    // Open vSwitch counts later than it forwards.
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let counted = driven.handle.flow_counts(vec![all.clone(), some.clone()]).await.unwrap();
        if counted == expected {
            break;
        }
        assert!(tokio::time::Instant::now() < deadline, "{counted:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A probe that a switch executes with these actions.
fn probe(bytes: usize, actions: &str) -> Packet {
    let (_, flow) = flow(&format!("table=0 actions={actions}"));
    Packet::new(flow.actions().unwrap(), probe_frame(bytes))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_packet_that_is_handed_to_the_switch_goes_the_way_of_its_actions_and_is_counted() {
    let ovs = Switch::start();
    let mut driven = Driven::start(ovs.config());
    let counting = "table=2, metadata=0x7,reg1=0x1 actions=drop";
    let other = "table=2, metadata=0x8 actions=drop";
    driven.handle.set_desired(Arc::new(Desired { flows: flows(&[counting, other]), ..Desired::default() }));
    driven.synced().await;
    let actions = "set_field:7->metadata,set_field:1->reg1,resubmit(,2)";
    let packets = [46, 1442, 1442].map(|bytes| probe(bytes, actions)).to_vec();
    assert_eq!(driven.handle.send(packets).await, Ok(()));
    let covers = Match::any().with(openflow_rs::Field::Metadata, 7).unwrap();
    let expected = (3, probe_length(46) + 2 * probe_length(1442));
    // Open vSwitch counts later than it forwards.
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let seen = driven.handle.covered_flows(2, covers.clone()).await.unwrap();
        let counted: Vec<_> = seen.iter().map(|flow| (flow.packets, flow.bytes)).collect();
        if counted == [expected] {
            break;
        }
        assert!(tokio::time::Instant::now() < deadline, "{counted:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // The driver reports the refusal, and the connection stays.
    let refused = driven.handle.send(vec![probe(46, "group:99")]).await;
    assert!(matches!(&refused, Err(ReadError::Refused(_))), "{refused:?}");
    assert_eq!(driven.handle.send(vec![probe(46, actions)]).await, Ok(()));
}
