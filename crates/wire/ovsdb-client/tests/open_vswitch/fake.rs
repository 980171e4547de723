//! The fake database does what a real ovsdb-server does: random transactions on both.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::common::connected;
use crate::open_vswitch::server::Server;
use fake_switch::FakeDatabase;
use ovsdb_client::{
    Client, Condition, Datum, Endpoint, MonitorSpec, Mutation, Mutator, Operation, Options, Replica, Row,
};
use peer_connection::InMemoryNetwork;
use proptest::prelude::*;
use serde_json::{Value, json};
use uuid::Uuid;

const OPEN_VSWITCH: &[&str] = &["bridges", "external_ids", "next_cfg"];
const BRIDGE: &[&str] = &["external_ids", "fail_mode", "name", "ports", "protocols"];
const PORT: &[&str] = &["external_ids", "interfaces", "name", "tag", "trunks"];
const INTERFACE: &[&str] = &["external_ids", "name", "ofport_request", "options", "type"];

#[derive(Debug, Clone)]
enum Step {
    AddBridge(u8),
    AddPort {
        bridge: u8,
        port: u8,
        trunks: BTreeSet<i64>,
    },
    /// A port that no bridge has.
    Orphan(u8),
    DetachPort {
        bridge: u8,
        port: u8,
    },
    Delete(&'static str, u8),
    Rename(&'static str, u8, u8),
    Ids(&'static str, u8, BTreeMap<String, String>),
    AddIds(&'static str, u8, BTreeMap<String, String>),
    DeleteIds(&'static str, u8, BTreeSet<String>),
    DeletePairs(&'static str, u8, BTreeMap<String, String>),
    Tag(u8, Option<i64>),
    Trunks(Mutator, u8, BTreeSet<i64>),
    NextCfg(Mutator, i64),
    Guard(u8, u8),
    Select(Condition),
    Abort(u8),
    /// What no server understands.
    Wrong(usize),
}

fn table() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("Bridge"), Just("Port"), Just("Interface")]
}

fn ids() -> impl Strategy<Value = BTreeMap<String, String>> {
    proptest::collection::btree_map("[a-c]", "[xy]", 0..4)
}

fn condition() -> impl Strategy<Value = Condition> {
    let function = prop_oneof![
        Just(ovsdb_client::transact::Function::Equal),
        Just(ovsdb_client::transact::Function::NotEqual),
        Just(ovsdb_client::transact::Function::Includes),
        Just(ovsdb_client::transact::Function::Excludes),
    ];
    let value = prop_oneof![
        (0u8..4).prop_map(|n| ("name", Datum::from(name(n).as_str()))),
        ids().prop_map(|ids| ("external_ids", Datum::from(ids))),
        proptest::option::of(1i64..3).prop_map(|tag| ("tag", Datum::from(tag))),
        trunks().prop_map(|trunks| ("trunks", Datum::from(trunks))),
    ];
    (function, value).prop_map(|(function, (column, value))| Condition {
        column: column.to_owned(),
        function,
        value,
    })
}

fn trunks() -> impl Strategy<Value = BTreeSet<i64>> {
    proptest::collection::btree_set(1i64..6, 0..4)
}

fn step() -> impl Strategy<Value = Step> {
    let n = || 0u8..4;
    let set = || prop_oneof![Just(Mutator::Insert), Just(Mutator::Delete)];
    let arithmetic = prop_oneof![
        Just(Mutator::Add),
        Just(Mutator::Subtract),
        Just(Mutator::Multiply),
        Just(Mutator::Divide),
        Just(Mutator::Remainder),
    ];
    prop_oneof![
        4 => n().prop_map(Step::AddBridge),
        5 => (n(), n(), trunks()).prop_map(|(bridge, port, trunks)| Step::AddPort { bridge, port, trunks }),
        1 => n().prop_map(Step::Orphan),
        2 => (n(), n()).prop_map(|(bridge, port)| Step::DetachPort { bridge, port }),
        1 => (table(), n()).prop_map(|(table, n)| Step::Delete(table, n)),
        2 => (table(), n(), n()).prop_map(|(table, from, to)| Step::Rename(table, from, to)),
        2 => (table(), n(), ids()).prop_map(|(table, n, ids)| Step::Ids(table, n, ids)),
        2 => (table(), n(), ids()).prop_map(|(table, n, ids)| Step::AddIds(table, n, ids)),
        2 => (table(), n(), proptest::collection::btree_set("[a-c]", 0..3))
            .prop_map(|(table, n, keys)| Step::DeleteIds(table, n, keys)),
        1 => (table(), n(), ids()).prop_map(|(table, n, ids)| Step::DeletePairs(table, n, ids)),
        2 => (n(), proptest::option::of(1i64..3)).prop_map(|(n, tag)| Step::Tag(n, tag)),
        2 => (set(), n(), trunks()).prop_map(|(mutator, n, trunks)| Step::Trunks(mutator, n, trunks)),
        // ovsdb-server 3.1 crashes on some multiplications by 0.
        2 => (arithmetic, prop_oneof![-3i64..-1, 1i64..4]).prop_map(|(mutator, by)| Step::NextCfg(mutator, by)),
        2 => (n(), n()).prop_map(|(n, wanted)| Step::Guard(n, wanted)),
        3 => condition().prop_map(Step::Select),
        1 => n().prop_map(Step::Abort),
        1 => (0..WRONG.len()).prop_map(Step::Wrong),
    ]
}

const WRONG: [&str; 8] = [
    r#"{"op":"mutate","table":"Open_vSwitch","where":[],"mutations":[["next_cfg","/=",0]]}"#,
    r#"{"op":"select","table":"Nothing","where":[]}"#,
    r#"{"op":"select","table":"Port","where":[],"columns":["nothing"]}"#,
    r#"{"op":"select","table":"Port"}"#,
    r#"{"op":"select","table":"Port","where":[["name","==",7]]}"#,
    r#"{"op":"update","table":"Port","where":[],"row":{"name":["set",["a","b"]]}}"#,
    r#"{"op":"insert","table":"Port","row":{"nothing":1}}"#,
    r#"{"op":"dance","table":"Port","where":[]}"#,
];

fn name(n: u8) -> String {
    format!("n{n}")
}

fn is_named(n: u8) -> Vec<Condition> {
    vec![Condition::equal("name", name(n))]
}

/// The operations of a step on a database with these rows.
fn operations(step: &Step, rows: &Replica) -> Vec<Value> {
    let port = |n: u8| {
        let names = BTreeMap::from([("x".to_owned(), name(n))]);
        [
            Operation::insert_named(
                "i",
                Row::new("Interface").with("name", name(n)).with("external_ids", names.clone()),
            ),
            Operation::insert_named(
                "p",
                Row::new("Port").with("name", name(n)).with("interfaces", Datum::named_uuid("i")),
            ),
        ]
    };
    let mutate = |table: &str, conditions: Vec<Condition>, column: &str, mutator, value: Datum| {
        Operation::mutate(table, conditions, vec![Mutation::new(column, mutator, value)])
    };
    let operations = match step.clone() {
        Step::AddBridge(n) => {
            let mut operations = port(n).to_vec();
            let bridge = Row::new("Bridge").with("name", name(n)).with("ports", Datum::named_uuid("p"));
            operations.push(Operation::insert_named("b", bridge));
            operations.push(mutate(
                "Open_vSwitch",
                vec![],
                "bridges",
                Mutator::Insert,
                Datum::named_uuid("b"),
            ));
            operations
        }
        Step::AddPort { bridge, port: n, trunks } => {
            let mut operations = port(n).to_vec();
            operations.push(mutate(
                "Bridge",
                is_named(bridge),
                "ports",
                Mutator::Insert,
                Datum::named_uuid("p"),
            ));
            operations.push(Operation::update(Row::new("Port").with("trunks", trunks), is_named(n)));
            operations
        }
        Step::Orphan(n) => port(n).to_vec(),
        Step::DetachPort { bridge, port } => {
            let uuids = rows.rows("Port").filter(|(_, row)| row.get("name") == Ok(name(port)));
            let uuids = Datum::set(uuids.map(|(uuid, _)| uuid));
            vec![mutate("Bridge", is_named(bridge), "ports", Mutator::Delete, uuids)]
        }
        Step::Delete(table, n) => vec![Operation::delete(table, is_named(n))],
        Step::Rename(table, from, to) => {
            vec![Operation::update(Row::new(table).with("name", name(to)), is_named(from))]
        }
        Step::Ids(table, n, ids) => {
            vec![Operation::update(Row::new(table).with("external_ids", ids), is_named(n))]
        }
        Step::AddIds(table, n, ids) => {
            vec![mutate(table, is_named(n), "external_ids", Mutator::Insert, ids.into())]
        }
        Step::DeleteIds(table, n, keys) => {
            vec![mutate(table, is_named(n), "external_ids", Mutator::Delete, keys.into())]
        }
        Step::DeletePairs(table, n, ids) => {
            vec![mutate(table, is_named(n), "external_ids", Mutator::Delete, ids.into())]
        }
        Step::Tag(n, tag) => vec![Operation::update(Row::new("Port").with("tag", tag), is_named(n))],
        Step::Trunks(mutator, n, trunks) => {
            vec![mutate("Port", is_named(n), "trunks", mutator, trunks.into())]
        }
        Step::NextCfg(mutator, by) => vec![mutate("Open_vSwitch", vec![], "next_cfg", mutator, by.into())],
        Step::Guard(n, wanted) => {
            let uuid = rows.rows("Port").find(|(_, row)| row.get("name") == Ok(name(n)));
            let uuid = uuid.map_or(Uuid::nil(), |(uuid, _)| uuid);
            vec![
                Operation::guard(uuid, Row::new("Port").with("name", name(wanted))),
                Operation::Comment("it holds".to_owned()),
            ]
        }
        Step::Select(condition) => {
            vec![Operation::select("Port", vec![condition], &["name", "tag", "trunks", "external_ids"])]
        }
        Step::Abort(n) => {
            let [interface, port] = port(n);
            vec![interface, Operation::Abort, port]
        }
        Step::Wrong(n) => {
            let wrong = serde_json::from_str(WRONG[n]).unwrap();
            return vec![Operation::Comment(String::new()).to_json(), wrong];
        }
    };
    operations.iter().map(Operation::to_json).collect()
}

/// A result without what differs from server to server: uuids, explanations and the order of rows.
fn comparable(mut result: Value) -> Value {
    for element in result.as_array_mut().unwrap() {
        let Some(members) = element.as_object_mut() else { continue };
        members.retain(|member, _| member != "details" && member != "syntax");
        if let Some(uuid) = members.get_mut("uuid") {
            *uuid = json!("a uuid");
        }
        if let Some(rows) = members.get_mut("rows").and_then(Value::as_array_mut) {
            rows.sort_by_key(Value::to_string);
        }
    }
    result
}

/// All rows, with names in the place of uuids.
fn by_name(replica: &Replica) -> BTreeSet<String> {
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    for table in ["Bridge", "Port", "Interface"] {
        for (uuid, row) in replica.rows(table) {
            names.insert(uuid.to_string(), format!("{table} {}", row.get::<String>("name").unwrap()));
        }
    }
    let mut rows = BTreeSet::new();
    for table in ["Open_vSwitch", "Bridge", "Port", "Interface"] {
        for (_, row) in replica.rows(table) {
            let columns = row.columns().map(|(column, datum)| {
                let datum = match datum {
                    Datum::Set(atoms) => {
                        let named = atoms.iter().map(|atom| {
                            let text = atom.to_json().to_string();
                            names
                                .iter()
                                .find(|(uuid, _)| text.contains(*uuid))
                                .map_or(text, |(_, name)| name.clone())
                        });
                        let sorted: BTreeSet<String> = named.collect();
                        format!("{sorted:?}")
                    }
                    map @ Datum::Map(_) => map.to_json().to_string(),
                };
                format!("{column}={datum}")
            });
            rows.insert(format!("{table} {:?}", columns.collect::<Vec<_>>()));
        }
    }
    rows
}

fn monitor() -> MonitorSpec {
    MonitorSpec::nothing()
        .table("Open_vSwitch", OPEN_VSWITCH)
        .table("Bridge", BRIDGE)
        .table("Port", PORT)
        .table("Interface", INTERFACE)
}

/// Deletes all bridges, and with them everything.
async fn clear(client: &Client) {
    let nothing = Row::new("Open_vSwitch").with("bridges", Datum::set::<Uuid>([])).with("next_cfg", 0);
    client.transact(&[Operation::update(nothing, vec![])]).await.unwrap();
}

async fn run(client: &Client, step: &Step) -> (Value, BTreeSet<String>) {
    let operations = client.with_replica(|rows| operations(step, rows));
    let params: Value = std::iter::once(json!("Open_vSwitch")).chain(operations).collect();
    let result = client.call("transact", params).await.unwrap();
    (comparable(result), client.with_replica(by_name))
}

async fn check(real: &Client, steps: &[Step]) {
    let network = InMemoryNetwork::default();
    let endpoint = Endpoint::Unix("db".into());
    let fake = FakeDatabase::start_in_memory(&network, endpoint.clone());
    fake.vswitchd(false);
    let (faked, mut events) =
        Client::spawn_with(Arc::new(network), endpoint, "Open_vSwitch", monitor(), Options::default());
    connected(&mut events).await;
    drop(events);
    clear(real).await;
    clear(&faked).await;
    for step in steps {
        let (from_real, from_fake) = (run(real, step).await, run(&faked, step).await);
        assert_eq!(from_fake.0, from_real.0, "the result of {step:?}");
        assert_eq!(from_fake.1, from_real.1, "the rows after {step:?}");
    }
}

#[test]
fn the_fake_does_what_a_server_does() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = Server::start();
    let real = runtime.block_on(async {
        let (client, mut events) = server.client(monitor());
        connected(&mut events).await;
        client
    });
    let config = ProptestConfig { cases: 64, max_shrink_iters: 400, ..ProptestConfig::default() };
    proptest!(config, |(steps in proptest::collection::vec(step(), 1..25))| {
        runtime.block_on(check(&real, &steps));
    });
}
