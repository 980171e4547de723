//! The addresses that a switch learns: their limit, and what is read of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use openflow_rs::{Field, Match};
use ovs_driver::{Changes, Config, Desired, Edits, FlowTable, LearnedFlow, ReadError};
use ovs_testing::wait_until;

use super::switch::Switch;
use crate::support::driven::Driven;
use crate::support::flows::flows;

/// The table of learned flows.
const LEARNED: u8 = 21;
/// The most learned flows.
const LIMIT: u32 = 20;

/// Learns from frames of a tenant, which have a type of their own here.
fn learner(tenant: u8, limit: &str) -> String {
    format!(
        "cookie=0x1{tenant}, table=0, priority=5,in_port=LOCAL,dl_type=0x900{tenant} \
         actions=set_field:0x{tenant}->metadata,learn(table={LEARNED},hard_timeout=300,priority=50,delete_learned,\
         cookie=0x{tenant}{limit},OXM_OF_METADATA[],NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],load:0x5->NXM_NX_REG1[])"
    )
}

/// A tenant sends from this many addresses.
fn send(ovs: &Switch, tenant: u8, addresses: u8) {
    for address in 1..=addresses {
        let frame = format!(
            "in_port=LOCAL,dl_src=02:00:00:00:00:{address:02x},dl_dst=02:00:00:00:ff:01,dl_type=0x900{tenant}"
        );
        ovs.appctl(&["ofproto/trace", "br-int", &frame, "-generate"]);
    }
}

/// The number of learned addresses of a tenant.
fn learned(ovs: &Switch, tenant: u8) -> usize {
    let of_tenant = format!("metadata=0x{tenant},");
    ovs.flows().into_iter().filter(|flow| flow.contains("table=21,") && flow.contains(&of_tenant)).count()
}

fn limited(ovs: &Switch) -> Config {
    let learned_limit = Some(FlowTable::evicting(LIMIT, "OXM_OF_METADATA[]"));
    Config { learned_tables: [LEARNED].into(), learned_limit, ..ovs.config() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_with_many_addresses_pushes_out_its_own_and_not_those_of_another() {
    let ovs = Switch::start();
    let mut driven = Driven::start(limited(&ovs));
    let learners = [learner(1, ""), learner(2, ""), learner(3, ",limit=4")];
    let learners: Vec<&str> = learners.iter().map(String::as_str).collect();
    driven.handle.set_desired(Arc::new(Desired { flows: flows(&learners), ..Desired::default() }));
    driven.synced().await;

    send(&ovs, 3, 30);
    assert_eq!(learned(&ovs, 3), 4, "a port has its own limit");
    send(&ovs, 2, 6);
    send(&ovs, 1, 60);
    assert_eq!([1, 2, 3].map(|tenant| learned(&ovs, tenant)), [10, 6, 4]);
    // Those with fewer than others may have more.
    send(&ovs, 2, 8);
    assert_eq!([1, 2, 3].map(|tenant| learned(&ovs, tenant)), [8, 8, 4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limit_comes_back_if_others_change_it_and_other_tables_are_left_alone() {
    let ovs = Switch::start();
    let mut driven = Driven::start(limited(&ovs));
    driven.handle.set_desired(Arc::new(Desired::default()));
    driven.synced().await;
    let limit =
        || ovs.vsctl(&["--columns=flow_limit,overflow_policy,groups", "--bare", "list", "flow_table"]);
    let wanted = "20\nevict\nOXM_OF_METADATA[]";
    assert_eq!(limit().trim(), wanted);
    ovs.vsctl(&["clear", "bridge", "br-int", "flow_tables"]);
    wait_until("the limit is there again", || limit().trim() == wanted);
    let other = ["--", "set", "bridge", "br-int", "flow_tables:5=@t"];
    ovs.vsctl(&[&["--id=@t", "create", "flow_table", "flow_limit=7"][..], &other].concat());
    let table = ovs.vsctl(&["get", "bridge", "br-int", "flow_tables:21"]);
    ovs.vsctl(&["set", "flow_table", table.trim(), "flow_limit=3"]);
    wait_until("the limit is right again", || {
        let limits = ovs.vsctl(&["--columns=flow_limit", "--bare", "list", "flow_table"]);
        let mut limits: Vec<&str> = limits.split_whitespace().collect();
        limits.sort_unstable();
        limits == ["20", "7"]
    });
}

/// The number of flows with each cookie.
fn by_cookie(flows: &[LearnedFlow]) -> BTreeMap<u64, usize> {
    let mut counts = BTreeMap::new();
    for flow in flows {
        *counts.entry(flow.cookie()).or_default() += 1;
    }
    counts
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_switch_has_learned_is_read_while_it_is_connected_and_flows_go_on() {
    let ovs = Switch::start();
    let mut driven = Driven::start(limited(&ovs));
    let learners = [learner(1, ""), learner(2, ",limit=4")];
    let wanted = Arc::new(Desired { flows: flows(&learners), ..Desired::default() });
    driven.handle.set_desired(wanted.clone());
    driven.synced().await;
    let read = async |matching| driven.handle.learned(LEARNED, matching).await;
    assert_eq!(read(Match::any()).await, Ok(Vec::new()));

    send(&ovs, 1, 3);
    send(&ovs, 2, 30);
    let all = read(Match::any()).await.unwrap();
    assert_eq!(by_cookie(&all), BTreeMap::from([(1, 3), (2, 4)]));
    let tenant = Match::any().with_masked(Field::Metadata, 1, u128::from(u64::MAX)).unwrap();
    let of_one = read(tenant).await.unwrap();
    let address = |flow: &LearnedFlow| flow.matching().unwrap().get(Field::EthDst).unwrap().0;
    let mut addresses: Vec<u128> = of_one.iter().map(address).collect();
    addresses.sort_unstable();
    assert_eq!(addresses, [1, 2, 3].map(|last| 0x02_00_00_00_00_00 + last));

    // Readers at once, and a change between them.
    let readers: Vec<_> =
        (0..20).map(|_| tokio::spawn(driven.handle.learned(LEARNED, Match::any()))).collect();
    driven
        .handle
        .push(1, Changes { flows: Edits::add(flows(&["table=9, actions=drop"])), ..Changes::default() });
    driven.confirmed(1).await;
    for reader in readers {
        assert_eq!(reader.await.unwrap().unwrap().len(), 7);
    }
    assert_eq!(learned(&ovs, 1) + learned(&ovs, 2), 7, "reading changes nothing");

    drop(ovs);
    driven.disconnected(ovs_driver::Channel::OpenFlow).await;
    assert_eq!(driven.handle.learned(LEARNED, Match::any()).await, Err(ReadError::NotConnected));
}
