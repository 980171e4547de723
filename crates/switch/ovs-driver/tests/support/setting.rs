//! A fake switch and a driver on a network in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use fake_switch::FakeSwitch;
use ovs_driver::{Changes, Config, Desired, Edits, Event, Flow, FlowKey, InMemoryNetwork, Timing};

use crate::support::driven::{Driven, PATIENCE};
use crate::support::flows::{TUNNEL_OPTION, flows};

/// Default limits, which a busy machine does not reach, and fast reconnecting.
pub fn patient() -> Timing {
    let (backoff_min, backoff_max) = (Duration::from_millis(5), Duration::from_millis(50));
    Timing { backoff_min, backoff_max, retry_after: backoff_max, ..Timing::default() }
}

/// Limits short enough to wait for. A test that uses them must allow for one that is reached without a fault.
pub fn hasty() -> Timing {
    Timing {
        probe_after: Duration::from_millis(100),
        stall_max: Duration::from_secs(2),
        request_max: Duration::from_secs(3),
        ..patient()
    }
}

/// A fake switch without a database, on a network in memory: the driver must do what it can with OpenFlow alone.
pub struct Setting {
    pub network: InMemoryNetwork,
    pub fake: FakeSwitch,
}

impl Setting {
    pub fn new() -> Setting {
        let network = InMemoryNetwork::default();
        let fake = FakeSwitch::start_in_memory(&network, config().openflow);
        Setting { network, fake }
    }

    pub fn drive(&self, timing: Timing) -> Driven {
        Driven::start_on(Arc::new(self.network.clone()), config(), timing)
    }
}

pub fn config() -> Config {
    Config {
        name: "fake".to_owned(),
        ovsdb: "unix:no-database".parse().unwrap(),
        openflow: "unix:br-int.mgmt".parse().unwrap(),
        bridge: "br-int".to_owned(),
        datapath_type: None,
        datapath_id: Some(FakeSwitch::DATAPATH_ID),
        tunnel_option: Some(TUNNEL_OPTION),
        learned_tables: BTreeSet::new(),
        watched_tables: BTreeSet::new(),
        conflict_tables: BTreeSet::new(),
        learned_limit: None,
        owner: None,
    }
}

/// Of a refusal without a transaction: how many flows, and how many of them it names.
pub fn refusal(event: &Event) -> Option<(usize, usize)> {
    match event {
        Event::Refused { txn: None, count, first } => Some((*count, first.len())),
        _ => None,
    }
}

pub fn refused_total(event: &Event) -> Option<usize> {
    match event {
        Event::RefusedTotal { refused } => Some(*refused),
        _ => None,
    }
}

pub fn some_flows(count: u32) -> BTreeMap<FlowKey, Flow> {
    let texts: Vec<String> = (0..count)
        .map(|n| {
            format!(
                "cookie=0x7, table={}, priority=100,reg0={n:#x} actions=set_field:{n:#x}->reg1,resubmit(,40)",
                n % 8
            )
        })
        .collect();
    flows(&texts)
}

pub fn desired(flows: &BTreeMap<FlowKey, Flow>) -> Arc<Desired> {
    Arc::new(Desired { flows: flows.clone(), ..Desired::default() })
}

pub fn adding(texts: &[&str]) -> Changes {
    Changes { flows: Edits::add(flows(texts)), ..Changes::default() }
}

/// Waits for a state of the fake that no event tells of.
pub async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !condition() {
        assert!(tokio::time::Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
