//! Property: whatever a second client does, the replica is what a fresh select returns, and the events add up to it.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{connected, follow};
use crate::open_vswitch::server::Server;
use ovsdb_client::{Client, Condition, Datum, MonitorSpec, Mutation, Mutator, Operation, Replica, Row};
use proptest::prelude::*;
use uuid::Uuid;

const BRIDGE: &[&str] = &["external_ids", "fail_mode", "flood_vlans", "name", "protocols", "stp_enable"];
const QUEUE: &[&str] = &["dscp", "external_ids", "other_config"];
const QOS: &[&str] = &["queues", "type"];

#[derive(Debug, Clone)]
enum Step {
    AddBridge(u8),
    DeleteBridge(u8),
    Vlans(u8, BTreeSet<i64>),
    ToggleVlans(u8, BTreeSet<i64>),
    Ids(u8, BTreeMap<String, String>),
    DeleteIds(u8, BTreeSet<String>),
    FailMode(u8, Option<bool>),
    Protocols(u8, BTreeSet<u8>),
    Stp(u8, bool),
    AddQueue(Option<i64>),
    Dscp(Option<i64>, Option<i64>),
    DeleteQueues(i64),
    AddQos(String, BTreeSet<i64>),
    ClearQos(String),
}

fn keys() -> impl Strategy<Value = BTreeSet<String>> {
    proptest::collection::btree_set("[a-d]", 0..4)
}

fn step() -> impl Strategy<Value = Step> {
    let bridge = || 0u8..3;
    let vlans = || proptest::collection::btree_set(0i64..8, 0..6);
    let dscp = || proptest::option::of(0i64..3);
    prop_oneof![
        3 => bridge().prop_map(Step::AddBridge),
        1 => bridge().prop_map(Step::DeleteBridge),
        2 => (bridge(), vlans()).prop_map(|(bridge, vlans)| Step::Vlans(bridge, vlans)),
        2 => (bridge(), vlans()).prop_map(|(bridge, vlans)| Step::ToggleVlans(bridge, vlans)),
        2 => (bridge(), proptest::collection::btree_map("[a-d]", "[xy]?", 0..4))
            .prop_map(|(bridge, ids)| Step::Ids(bridge, ids)),
        1 => (bridge(), keys()).prop_map(|(bridge, keys)| Step::DeleteIds(bridge, keys)),
        2 => (bridge(), any::<Option<bool>>()).prop_map(|(bridge, mode)| Step::FailMode(bridge, mode)),
        2 => (bridge(), proptest::collection::btree_set(10u8..16, 0..4))
            .prop_map(|(bridge, versions)| Step::Protocols(bridge, versions)),
        1 => (bridge(), any::<bool>()).prop_map(|(bridge, stp)| Step::Stp(bridge, stp)),
        2 => dscp().prop_map(Step::AddQueue),
        2 => (dscp(), dscp()).prop_map(|(old, new)| Step::Dscp(old, new)),
        1 => (0i64..3).prop_map(Step::DeleteQueues),
        2 => ("[ab]", proptest::collection::btree_set(0i64..4, 0..4)).prop_map(|(kind, queues)| Step::AddQos(kind, queues)),
        1 => "[ab]".prop_map(Step::ClearQos),
    ]
}

fn operations(step: &Step) -> Vec<Operation> {
    let named = |bridge: u8| vec![Condition::equal("name", format!("br{bridge}"))];
    let update = |bridge: u8, column: &str, value: Datum| {
        vec![Operation::update(Row::new("Bridge").with(column, value), named(bridge))]
    };
    let mutate = |bridge: u8, column: &str, mutator, value: Datum| {
        Operation::mutate("Bridge", named(bridge), vec![Mutation::new(column, mutator, value)])
    };
    match step.clone() {
        Step::AddBridge(bridge) => vec![
            Operation::insert_named("b", Row::new("Bridge").with("name", format!("br{bridge}"))),
            Operation::mutate(
                "Open_vSwitch",
                vec![],
                vec![Mutation::new("bridges", Mutator::Insert, Datum::named_uuid("b"))],
            ),
        ],
        // Bridges are not root rows, but referred to strongly: the two go together by clearing all.
        Step::DeleteBridge(0) => {
            vec![Operation::update(Row::new("Open_vSwitch").with("bridges", Datum::set::<Uuid>([])), vec![])]
        }
        Step::DeleteBridge(bridge) => vec![Operation::delete("Bridge", named(bridge))],
        Step::Vlans(bridge, vlans) => update(bridge, "flood_vlans", vlans.into()),
        Step::ToggleVlans(bridge, vlans) => {
            let (low, high) = vlans.into_iter().partition::<BTreeSet<i64>, _>(|vlan| *vlan < 4);
            vec![
                mutate(bridge, "flood_vlans", Mutator::Insert, low.into()),
                mutate(bridge, "flood_vlans", Mutator::Delete, high.into()),
            ]
        }
        Step::Ids(bridge, ids) => update(bridge, "external_ids", ids.into()),
        Step::DeleteIds(bridge, keys) => vec![mutate(bridge, "external_ids", Mutator::Delete, keys.into())],
        Step::FailMode(bridge, mode) => {
            let mode = mode.map(|secure| if secure { "secure" } else { "standalone" });
            update(bridge, "fail_mode", mode.into())
        }
        Step::Protocols(bridge, versions) => update(
            bridge,
            "protocols",
            Datum::set(versions.iter().map(|version| format!("OpenFlow{version}"))),
        ),
        Step::Stp(bridge, stp) => update(bridge, "stp_enable", stp.into()),
        Step::AddQueue(dscp) => vec![Operation::insert(Row::new("Queue").with("dscp", dscp))],
        Step::Dscp(old, new) => {
            vec![Operation::update(Row::new("Queue").with("dscp", new), vec![Condition::equal("dscp", old)])]
        }
        Step::DeleteQueues(dscp) => vec![Operation::delete("Queue", vec![Condition::equal("dscp", dscp)])],
        Step::AddQos(kind, queues) => {
            let mut operations: Vec<_> = queues
                .iter()
                .map(|queue| {
                    Operation::insert_named(format!("q{queue}"), Row::new("Queue").with("dscp", *queue))
                })
                .collect();
            let queues =
                queues.iter().map(|queue| (*queue, ovsdb_client::Atom::NamedUuid(format!("q{queue}"))));
            let queues = Row::new("QoS").with("type", kind.as_str()).with("queues", Datum::map(queues));
            operations.push(Operation::insert(queues));
            operations
        }
        Step::ClearQos(kind) => vec![Operation::update(
            Row::new("QoS").with("queues", Datum::map::<i64, Uuid>([])),
            vec![Condition::equal("type", kind.as_str())],
        )],
    }
}

/// The fresh select: every row as a change from nothing, so that it has the replica's form.
async fn fresh(client: &Client) -> Replica {
    let tables = [("Bridge", BRIDGE), ("QoS", QOS), ("Queue", QUEUE)];
    let selects =
        tables.map(|(table, columns)| Operation::select(table, vec![], &[columns, &["_uuid"]].concat()));
    let outcomes = client.transact(&selects).await.unwrap();
    let mut replica = Replica::default();
    for row in (0..tables.len()).flat_map(|index| outcomes.rows(index)) {
        let columns = row.columns().filter(|(column, _)| *column != "_uuid");
        let bare =
            columns.fold(Row::new(row.table()), |bare, (column, datum)| bare.with(column, datum.clone()));
        let change = ovsdb_client::Change {
            table: row.table().into(),
            uuid: row.uuid().unwrap(),
            old: None,
            new: Some(bare),
        };
        replica.apply(&[change]);
    }
    replica
}

async fn check(server: &Server, steps: &[Step]) {
    let monitor = MonitorSpec::nothing().table("Bridge", BRIDGE).table("QoS", QOS).table("Queue", QUEUE);
    let (first, mut events) = server.client(monitor);
    let (second, _) = server.client(MonitorSpec::nothing());
    let mut own = Replica::default();
    crate::common::follow_changes(&mut own, &connected(&mut events).await);
    for step in steps {
        // Some are refused (names taken, rows referred to); then nothing may change.
        let result = second.transact(&operations(step)).await;
        if let Err(error) = &result {
            assert!(error.is_constraint_violation(), "{step:?}: {error}");
        }
        // The server sends what the select sees before the select's reply.
        let expected = fresh(&first).await;
        assert!(first.with_replica(|replica| *replica == expected), "replica differs after {step:?}");
        follow(&mut own, &mut events);
        assert!(own == expected, "events differ after {step:?}");
        assert_eq!(first.compare().await.unwrap(), [], "after {step:?}");
    }
}

#[test]
fn replica_equals_a_fresh_select() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = Server::start();
    let config = ProptestConfig { cases: 48, max_shrink_iters: 200, ..ProptestConfig::default() };
    proptest!(config, |(steps in proptest::collection::vec(step(), 1..25))| {
        runtime.block_on(check(&server, &steps));
    });
}
