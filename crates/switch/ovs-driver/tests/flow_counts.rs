//! What flows have counted, read when somebody asks.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use openflow_rs::Match;
use ovs_driver::{Desired, FlowCount, FlowKey, ReadError};

use crate::support::flows::{flow, flows};
use crate::support::setting::{Setting, desired, patient, some_flows};

const WEB: &str = "table=9, priority=7,metadata=0x5,tcp,tp_dst=80 actions=resubmit(,10)";
/// What a request for the flow above finds too.
const NARROWER: &str = "table=9, priority=7,metadata=0x5,tcp,nw_src=10.0.0.1,tp_dst=80 actions=drop";
const HIGHER: &str = "table=9, priority=8,metadata=0x5,tcp,tp_dst=80 actions=drop";

fn key(text: &str) -> FlowKey {
    flow(text).0
}

#[tokio::test(start_paused = true)]
async fn only_the_flows_that_are_asked_for_are_read_and_none_when_nobody_asks() {
    let setting = Setting::new();
    let mut driven = setting.drive(patient());
    assert_eq!(driven.handle.flow_counts(vec![key(WEB)]).await, Err(ReadError::NotConnected));
    let want = Desired { flows: flows(&[WEB, NARROWER, HIGHER]), ..Desired::default() };
    driven.handle.set_desired(Arc::new(want));
    driven.synced().await;
    for (number, text) in [(1, WEB), (10, NARROWER), (100, HIGHER)] {
        setting.fake.pass(key(text), number, number * 60);
    }
    let before = setting.fake.requests().len();
    assert_eq!(before, 1, "the driver itself reads all flows once");
    let absent = key("table=9, priority=7,metadata=0x6 actions=drop");
    let counted = driven.handle.flow_counts(vec![key(WEB), absent.clone()]).await;
    assert_eq!(counted, Ok(vec![FlowCount { key: key(WEB), packets: 1, bytes: 60 }]));
    let asked: Vec<(u8, Match)> =
        setting.fake.requests()[before..].iter().map(|asked| (asked.table, asked.matches.clone())).collect();
    assert_eq!(asked, [(9, key(WEB).matching().unwrap()), (9, absent.matching().unwrap())]);
}

#[tokio::test(start_paused = true)]
async fn many_flows_are_counted_and_a_switch_that_does_not_answer_is_late() {
    let setting = Setting::new();
    let mut driven = setting.drive(patient());
    let want = some_flows(200);
    driven.handle.set_desired(desired(&want));
    driven.synced().await;
    for key in want.keys() {
        setting.fake.pass(key.clone(), 1, 2);
    }
    let keys: Vec<FlowKey> = want.into_keys().collect();
    let counted = driven.handle.flow_counts(keys.clone()).await.unwrap();
    assert_eq!(counted.iter().map(|count| count.packets).sum::<u64>(), 200);
    setting.fake.freeze();
    let late = driven.handle.flow_counts(keys).await;
    assert!(matches!(late, Err(ReadError::Late | ReadError::Lost)), "{late:?}");
}
