//! Flows that a packet meets, beside those of switches.

use std::collections::BTreeMap;

use openflow_rs::{FlowEntry, PortNo};
use packet_trace::live::{Compared, FlowOwner, Met, Seen, compare};

const WANTED: &str = "table=20,priority=50,dl_dst=02:00:00:00:00:02 actions=output:3";

fn met() -> Met {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x12, 0x34];
    frame.resize(64, 0);
    let key = flow_simulator::Packet::new(frame, PortNo(1)).key().clone();
    let flow = Some(WANTED.parse().expect("a flow"));
    Met { host: "hv1".to_owned(), table: 20, stage: "L2".to_owned(), key, flow }
}

fn compared(flows: &[&str]) -> Compared {
    let seen = |text: &&str| Seen { entry: text.parse().expect("a flow"), packets: 7, bytes: 700 };
    let there = BTreeMap::from([("hv1".to_owned(), Ok(flows.iter().map(seen).collect()))]);
    let whose = |_: &str, flow: &FlowEntry| {
        Some(if flow.cookie == 5 { FlowOwner::Stale } else { FlowOwner::Foreign })
    };
    compare(&[met()], &there, &whose).steps.remove(0)
}

#[test]
fn a_flow_that_is_there_is_as_wanted_whatever_else_does_not_take_the_packet() {
    let lower = "table=20,priority=10 actions=drop";
    let other = "table=20,priority=90,dl_dst=02:00:00:00:00:09 actions=drop";
    let step = compared(&[WANTED, lower, other]);
    assert!(step.is_as_wanted(), "{step:?}");
    assert_eq!(step.there.unwrap().packets, 7);
}

#[test]
fn what_is_missing_changed_stale_or_foreign_is_told() {
    let missing = compared(&["table=20,priority=10 actions=drop"]);
    assert!(!missing.is_as_wanted() && missing.there.is_none() && missing.taken_by.is_none());
    let changed = compared(&["table=20,priority=50,dl_dst=02:00:00:00:00:02 actions=drop"]);
    assert!(changed.is_changed && !changed.is_as_wanted());
    let foreign = compared(&[WANTED, "table=20,priority=60 actions=drop"]);
    assert_eq!(foreign.taken_by.map(|(whose, _)| whose), Some(FlowOwner::Foreign));
    let stale = compared(&[WANTED, "cookie=0x5,table=20,priority=60 actions=drop"]);
    assert_eq!(stale.taken_by.map(|(whose, _)| whose), Some(FlowOwner::Stale));
}
