//! Flipped bits and cut streams on both connections of a driver: the driver goes on, and after the next connections the
//! switch is as desired.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::driven::Driven;
use crate::support::flows::{buckets, flows};
use crate::support::setting::config;
use fake_switch::{FakeDatabase, FakeSwitch};
use ovs_driver::{
    Changes, Config, Desired, Dial, Edits, Encap, Endpoint, InMemoryNetwork, Remote, Timing, Tunnel,
};
use peer_connection::{Dialling, Stream};
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[derive(Debug, Clone, Copy)]
enum Change {
    Flip(u8),
    /// Sixteen bits of the stream, such as a length, become these.
    Number(u16),
    Cut,
}

fn change() -> impl Strategy<Value = Change> {
    let numbers = prop_oneof![Just(0), Just(1), Just(7), Just(8), Just(u16::MAX), any::<u16>()];
    prop_oneof![
        4 => (1u8..=255).prop_map(Change::Flip),
        4 => numbers.prop_map(Change::Number),
        1 => Just(Change::Cut),
    ]
}

type Plan = Arc<Mutex<VecDeque<(u16, Change)>>>;

/// Dials through a relay that changes what the peers send: before each change some bytes pass unchanged.
struct Changing {
    network: InMemoryNetwork,
    plan: Plan,
}

impl Dial for Changing {
    fn dial<'a>(&'a self, endpoint: &'a Endpoint) -> Dialling<'a> {
        Box::pin(async move {
            let far = self.network.dial(endpoint).await?;
            let (near, end) = tokio::io::duplex(64 << 10);
            let (mut from_peer, mut to_peer) = tokio::io::split(far);
            let (mut from_driver, mut to_driver) = tokio::io::split(end);
            tokio::spawn(async move {
                let _ = tokio::io::copy(&mut from_driver, &mut to_peer).await;
                let _ = to_peer.shutdown().await;
            });
            let plan = self.plan.clone();
            tokio::spawn(async move {
                let mut chunk = vec![0; 64 << 10];
                while let Ok(length @ 1..) = from_peer.read(&mut chunk).await {
                    let kept = changed(&mut chunk[..length], &plan);
                    if to_driver.write_all(&chunk[..kept]).await.is_err() || kept < length {
                        break;
                    }
                }
                let _ = to_driver.shutdown().await;
                while from_peer.read(&mut chunk).await.is_ok_and(|length| length > 0) {}
            });
            Ok(Box::new(near) as Stream)
        })
    }
}

/// Applies the changes that are due in these bytes, and returns how many of the bytes pass.
fn changed(bytes: &mut [u8], plan: &Plan) -> usize {
    let mut plan = plan.lock().unwrap();
    let mut at = 0;
    while let Some((skip, change)) = plan.front_mut() {
        let left = bytes.len() - at;
        if usize::from(*skip) >= left {
            *skip -= left as u16;
            return bytes.len();
        }
        at += usize::from(*skip);
        let change = *change;
        plan.pop_front();
        match change {
            Change::Flip(bits) => bytes[at] ^= bits,
            Change::Number(number) => {
                for (place, byte) in bytes[at..].iter_mut().zip(number.to_be_bytes()) {
                    *place = byte;
                }
            }
            Change::Cut => return at,
        }
    }
    bytes.len()
}

async fn check(changes: Vec<(u16, Change)>) {
    let network = InMemoryNetwork::default();
    let config = Config { ovsdb: "unix:db.sock".parse().unwrap(), datapath_id: None, ..config() };
    let switch = FakeSwitch::start_in_memory(&network, config.openflow.clone());
    let database = FakeDatabase::start_in_memory(&network, config.ovsdb.clone());
    let plan = Arc::new(Mutex::new(VecDeque::from(changes)));
    let timing = Timing { backoff_min: Duration::from_millis(1), ..Timing::default() };
    let mut driven = Driven::start_on(Arc::new(Changing { network, plan: plan.clone() }), config, timing);
    let tunnel = Tunnel { encap: Encap::Geneve, remote: Remote::Flow };
    let mut want = Desired {
        flows: flows(&["table=1, actions=output:1", "table=2, ip,nw_dst=10.0.0.0/8, actions=group:7"]),
        buckets: buckets(&[(7, 1, "output:1"), (7, 2, "set_field:5->tun_id,output:2")]),
        tunnels: [("gnv".to_owned(), tunnel)].into(),
        ..Desired::default()
    };
    driven.handle.set_desired(Arc::new(want.clone()));
    for txn in 1..30 {
        if txn > 3 && plan.lock().unwrap().is_empty() {
            break;
        }
        let flow = flows(&[format!("table=3, priority={txn}, actions=resubmit(,4)")]);
        want.flows.extend(flow.clone());
        driven.handle.push(txn, Changes { flows: Edits::add(flow), ..Changes::default() });
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    plan.lock().unwrap().clear();
    switch.disconnect();
    database.disconnect();
    // A change may have refused an object: another connection tries it again.
    driven.handle.set_desired(Arc::new(want.clone()));
    let flow = flows(&["table=4, actions=drop"]);
    want.flows.extend(flow.clone());
    // A transaction with a port is confirmed only by both connections.
    let tunnels = Edits::add([("vx".to_owned(), Tunnel { encap: Encap::Vxlan, remote: Remote::Flow })]);
    driven.handle.push(30, Changes { flows: Edits::add(flow), tunnels, ..Changes::default() });
    driven.confirmed(30).await;
    switch.disconnect();
    driven.synced().await;
    assert_eq!(switch.flows(), want.flows);
    assert!(switch.groups().contains_key(&7));
    let interfaces = database.interfaces();
    assert!(interfaces.contains_key("gnv") && interfaces.contains_key("vx"), "{:#?}", driven.seen);
}

#[test]
fn whatever_a_switch_sends_the_driver_lives_and_the_switch_is_right_in_the_end() {
    let config = ProptestConfig { cases: 128, max_shrink_iters: 200, ..ProptestConfig::default() };
    let changes = proptest::collection::vec((0u16..1500, change()), 1..20);
    proptest!(config, |(changes in changes)| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(check(changes));
    });
}
