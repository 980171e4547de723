//! The client against a real ovsdb-server.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::common::{PATIENCE, connected, disconnected, follow, next, next_changes};
use crate::open_vswitch::proxy::Proxy;
use crate::open_vswitch::server::Server;
use ovs_testing::OpenVswitch;
use ovsdb_client::{
    Client, Condition, Datum, Endpoint, Event, MonitorSpec, Mutation, Mutator, Operation, Options, Replica,
    Row, TransactError,
};
use serde_json::json;

fn bridges() -> MonitorSpec {
    MonitorSpec::nothing().table("Bridge", &["name", "fail_mode", "protocols", "external_ids", "flood_vlans"])
}

/// A bridge without ports, attached to the root row.
fn insert_bridge(name: &str) -> [Operation; 2] {
    [
        Operation::insert_named("b", Row::new("Bridge").with("name", name)),
        Operation::mutate(
            "Open_vSwitch",
            vec![],
            vec![Mutation::new("bridges", Mutator::Insert, Datum::named_uuid("b"))],
        ),
    ]
}

#[tokio::test]
async fn foreign_changes_arrive_one_batch_per_transaction() {
    let server = Server::start();
    let (_client, mut events) = server.client(bridges());
    assert_eq!(connected(&mut events).await, []);

    server.vsctl(&["add-br", "br0", "--", "set", "bridge", "br0", "external_ids:a=1", "external_ids:b=2"]);
    let changes = next_changes(&mut events).await;
    assert_eq!(changes.len(), 1);
    let (uuid, new) = (changes[0].uuid, changes[0].new.clone().unwrap());
    assert_eq!(changes[0].old, None);
    assert_eq!(new.get::<String>("name").unwrap(), "br0");
    assert_eq!(new.get::<Option<String>>("fail_mode").unwrap(), None, "a default, left out on the wire");

    // One key gone, one changed, one new, an optional column set and a set column grown: all differences.
    server.vsctl(&[
        "set",
        "bridge",
        "br0",
        "external_ids:b=3",
        "external_ids:c=4",
        "fail_mode=secure",
        "protocols=OpenFlow15",
        "--",
        "remove",
        "bridge",
        "br0",
        "external_ids",
        "a",
    ]);
    let changes = next_changes(&mut events).await;
    assert_eq!((changes.len(), changes[0].uuid, changes[0].old.as_ref()), (1, uuid, Some(&new)));
    let row = changes[0].new.clone().unwrap();
    assert_eq!(row.datum("external_ids"), Some(&Datum::map([("b", "3"), ("c", "4")])));
    assert_eq!(row.datum("fail_mode"), Some(&Datum::from("secure")));

    server.vsctl(&[
        "set",
        "bridge",
        "br0",
        "fail_mode=standalone",
        "--",
        "add",
        "bridge",
        "br0",
        "protocols",
        "OpenFlow13",
    ]);
    let row = next_changes(&mut events).await[0].new.clone().unwrap();
    assert_eq!(row.datum("fail_mode"), Some(&Datum::from("standalone")), "an optional column is replaced");
    assert_eq!(
        row.datum("protocols"),
        Some(&Datum::set(["OpenFlow13", "OpenFlow15"])),
        "a set column is not"
    );

    server.vsctl(&["del-br", "br0"]);
    let changes = next_changes(&mut events).await;
    assert_eq!((changes[0].old.as_ref(), &changes[0].new), (Some(&row), &None));
}

#[tokio::test]
async fn after_a_restart_only_the_difference_is_reported() {
    let mut server = Server::start();
    server.vsctl(&["add-br", "kept", "--", "add-br", "changed", "--", "add-br", "gone"]);
    let (client, mut events) = server.client(bridges());
    let mut own = Replica::default();
    own.apply(&connected(&mut events).await);
    assert_eq!(own.rows("Bridge").count(), 3);

    server.kill_database();
    assert!(disconnected(&mut events).await.contains("closed the connection"));
    let refused = client.transact(&[Operation::Comment("x".to_owned())]).await;
    assert!(matches!(refused, Err(TransactError::NotConnected { .. })), "{refused:?}");
    let gone = own.rows("Bridge").find(|(_, row)| row.get("name") == Ok("gone".to_owned())).unwrap().0;
    server.transact_offline(&json!(["Open_vSwitch",
        {"op": "update", "table": "Bridge", "where": [["name", "==", "changed"]], "row": {"fail_mode": "secure"}},
        {"op": "mutate", "table": "Open_vSwitch", "where": [], "mutations": [["bridges", "delete", ["uuid", gone.to_string()]]]},
        {"op": "insert", "table": "Bridge", "uuid-name": "b", "row": {"name": "new"}},
        {"op": "mutate", "table": "Open_vSwitch", "where": [], "mutations": [["bridges", "insert", ["named-uuid", "b"]]]},
    ]));
    server.start_database();
    let changes = connected(&mut events).await;
    crate::common::follow_changes(&mut own, &changes);
    let name = |row: &Option<Row>| row.as_ref().map(|row| row.get::<String>("name").unwrap());
    let seen: BTreeSet<_> = changes.iter().map(|change| (name(&change.old), name(&change.new))).collect();
    let text = |name: &str| Some(name.to_owned());
    assert_eq!(seen, [(text("gone"), None), (text("changed"), text("changed")), (None, text("new"))].into());
    client.transact(&[Operation::Comment("again".to_owned())]).await.unwrap();

    // A restart without changes reports none.
    server.kill_database();
    disconnected(&mut events).await;
    server.start_database();
    assert_eq!(connected(&mut events).await, []);
    assert!(client.with_replica(|replica| *replica == own));
}

#[tokio::test]
async fn refused_transactions_say_which_operation_and_why() {
    let server = Server::start();
    let (client, _events) = server.client(bridges());
    client.transact(&insert_bridge("br0")).await.unwrap();

    let error = client.transact(&insert_bridge("br0")).await.unwrap_err();
    assert!(
        matches!(&error, TransactError::Commit { error, details } if error == "constraint violation" && details.contains("br0")),
        "{error}"
    );
    assert!(error.is_constraint_violation());

    let set = Operation::update(Row::new("Bridge").with("fail_mode", "secure"), vec![]);
    let error = client.transact(&[set.clone(), Operation::Abort, set.clone()]).await.unwrap_err();
    assert_eq!(error.to_string(), "operation 1 (abort) failed: aborted: aborted by request");

    let guard = Operation::Wait {
        table: "Bridge".to_owned(),
        conditions: vec![],
        columns: vec!["name".to_owned()],
        until_equal: true,
        rows: vec![Row::new("Bridge").with("name", "other")],
        timeout: Some(Duration::ZERO),
    };
    let error = client.transact(&[guard, set.clone()]).await.unwrap_err();
    assert!(error.is_timed_out(), "{error}");

    let wrong = Operation::update(Row::new("Bridge").with("fail_mode", "sometimes"), vec![]);
    let error = client.transact(&[Operation::Comment(String::new()), wrong]).await.unwrap_err();
    assert!(
        matches!(&error, TransactError::Operation { index: 1, operation, .. } if operation == "update of Bridge"),
        "{error}"
    );

    let assert = Operation::Assert { lock: "mine".to_owned() };
    let error = client.transact(std::slice::from_ref(&assert)).await.unwrap_err();
    assert!(error.to_string().contains("not owner"), "{error}");
    assert_eq!(client.call("lock", json!(["mine"])).await.unwrap(), json!({"locked": true}));
    client.transact(&[assert]).await.unwrap();

    let error = client.call("no_such_method", json!([])).await.unwrap_err();
    assert!(matches!(&error, TransactError::Request { error, .. } if error == "unknown method"), "{error}");

    let read = client.transact(&[Operation::select("Bridge", vec![], &["fail_mode"])]).await.unwrap();
    assert_eq!(
        read.rows(0)[0].get::<Option<String>>("fail_mode").unwrap(),
        None,
        "none of these took effect"
    );
}

#[tokio::test]
async fn requests_overtake_one_that_waits_and_a_lost_connection_leaves_its_fate_open() {
    let mut server = Server::start();
    let (client, mut events) = server.client(MonitorSpec::nothing());
    assert_eq!(connected(&mut events).await, []);
    let wait = Operation::Wait {
        table: "Bridge".to_owned(),
        conditions: vec![],
        columns: vec!["name".to_owned()],
        until_equal: true,
        rows: vec![Row::new("Bridge").with("name", "br0")],
        timeout: None,
    };
    let waiting = |client: Client, wait| tokio::spawn(async move { client.transact(&[wait]).await });
    let first = waiting(client.clone(), wait.clone());
    // Many at once, each with its own answer.
    let many: Vec<_> = (0..50)
        .map(|n| {
            let client = client.clone();
            tokio::spawn(async move {
                let row = Row::new("Queue").with("dscp", n);
                let inserted = client.transact(&[Operation::insert(row)]).await.unwrap().inserted(0).unwrap();
                let select = Operation::select("Queue", vec![Condition::uuid(inserted)], &["dscp"]);
                assert_eq!(client.transact(&[select]).await.unwrap().rows(0)[0].get("dscp"), Ok(n));
            })
        })
        .collect();
    for one in many {
        one.await.unwrap();
    }
    assert!(!first.is_finished());
    client.transact(&insert_bridge("br0")).await.unwrap();
    tokio::time::timeout(PATIENCE, first).await.unwrap().unwrap().unwrap();

    client.transact(&insert_bridge("br1")).await.unwrap();
    let second = waiting(client.clone(), wait);
    // Its request is sent before the next one's reply comes.
    tokio::task::yield_now().await;
    client.transact(&[Operation::Comment(String::new())]).await.unwrap();
    server.kill_database();
    let fate = tokio::time::timeout(PATIENCE, second).await.unwrap().unwrap();
    assert!(matches!(fate, Err(TransactError::FateUnknown { .. })), "{fate:?}");
}

/// What a select says the monitored rows are, in the form of the replica.
async fn selected(
    client: &Client,
    tables: &[(&str, &[&str])],
) -> BTreeMap<(String, uuid::Uuid), Vec<(String, Datum)>> {
    let select = |(table, columns): &(&str, &[&str])| {
        Operation::select(*table, vec![], &[*columns, &["_uuid"]].concat())
    };
    let operations: Vec<_> = tables.iter().map(select).collect();
    let outcomes = client.transact(&operations).await.unwrap();
    let rows = (0..tables.len()).flat_map(|index| outcomes.rows(index));
    let columns = |row: &Row| {
        row.columns()
            .filter(|(name, _)| *name != "_uuid")
            .map(|(name, datum)| (name.to_owned(), datum.clone()))
            .collect()
    };
    rows.map(|row| ((row.table().to_owned(), row.uuid().unwrap()), columns(row))).collect()
}

fn held(
    replica: &Replica,
    tables: &[(&str, &[&str])],
) -> BTreeMap<(String, uuid::Uuid), Vec<(String, Datum)>> {
    let columns = |row: &Row| row.columns().map(|(name, datum)| (name.to_owned(), datum.clone())).collect();
    tables
        .iter()
        .flat_map(|(table, _)| {
            replica.rows(table).map(|(uuid, row)| ((row.table().to_owned(), uuid), columns(row)))
        })
        .collect()
}

/// About as large as a row may be.
#[tokio::test]
async fn big_sets_and_maps() {
    const TABLES: &[(&str, &[&str])] = &[("Bridge", &["name", "flood_vlans", "external_ids"])];
    let server = Server::start();
    let (client, mut events) = server.client(MonitorSpec::nothing().table(TABLES[0].0, TABLES[0].1));
    connected(&mut events).await;
    client.transact(&insert_bridge("br0")).await.unwrap();
    let fill = Row::new("Bridge")
        .with("flood_vlans", Datum::set(0..4096))
        .with("external_ids", Datum::map((0..1_000).map(|n| (format!("key-{n}"), format!("value-{n}")))));
    client.transact(&[Operation::update(fill, vec![])]).await.unwrap();
    assert_eq!(selected(&client, TABLES).await, client.with_replica(|replica| held(replica, TABLES)));
    let change = Row::new("Bridge").with("flood_vlans", Datum::set((0..4096).step_by(2))).with(
        "external_ids",
        Datum::map((0..1_000).map(|n| (format!("key-{}", n * 2), format!("value-{n}")))),
    );
    client.transact(&[Operation::update(change, vec![])]).await.unwrap();
    let expected = selected(&client, TABLES).await;
    assert_eq!(expected, client.with_replica(|replica| held(replica, TABLES)));
    assert_eq!(expected.values().next().unwrap().iter().map(|(_, datum)| datum.len()).max(), Some(2_048));
}

#[tokio::test]
async fn a_receiver_that_does_not_receive_stops_nobody_and_misses_nothing() {
    let server = Server::start();
    let options = Options { events_max: 2, ..Options::default() };
    let (client, mut events) = Client::spawn(server.endpoint(), "Open_vSwitch", bridges(), options);
    for n in 0..100 {
        client.transact(&insert_bridge(&format!("br{n}"))).await.unwrap();
        if n % 3 == 0 {
            let only = vec![Condition::equal("name", format!("br{n}"))];
            client
                .transact(&[Operation::update(Row::new("Bridge").with("fail_mode", "secure"), only)])
                .await
                .unwrap();
        }
    }
    let mut own = Replica::default();
    let mut received = 0;
    while client.with_replica(|replica| *replica != own) {
        if let Event::Changes(changes) = next(&mut events).await {
            crate::common::follow_changes(&mut own, &changes);
        }
        received += 1;
    }
    assert_eq!(own.rows("Bridge").count(), 100);
    assert!(received < 20, "{received} events, so nothing was merged");
}

#[tokio::test]
async fn older_servers_are_monitored_in_older_ways() {
    const TABLES: &[(&str, &[&str])] = &[("Bridge", &["external_ids", "fail_mode", "name", "protocols"])];
    let server = Server::start();
    server.vsctl(&["add-br", "br0", "--", "set", "bridge", "br0", "external_ids:a=1"]);
    for (name, refused, update) in [
        ("p1", &["monitor_cond_since"][..], "update2"),
        ("p2", &["monitor_cond_since", "monitor_cond"][..], "update"),
    ] {
        let proxy = Proxy::start(&server.path(name), &server.path("db.sock"), refused);
        let monitor = MonitorSpec::nothing().table(TABLES[0].0, TABLES[0].1);
        let (client, mut events) =
            Client::spawn(Endpoint::Unix(proxy.path.clone()), "Open_vSwitch", monitor, Options::default());
        let mut own = Replica::default();
        crate::common::follow_changes(&mut own, &connected(&mut events).await);
        for change in [
            &["set", "bridge", "br0", "external_ids:a=2", "external_ids:b=3", "fail_mode=secure"][..],
            &["set", "bridge", "br0", "fail_mode=standalone", "protocols=OpenFlow13,OpenFlow15"],
            &["clear", "bridge", "br0", "external_ids", "--", "add-br", "br1"],
            &[
                "del-br",
                "br1",
                "--",
                "clear",
                "bridge",
                "br0",
                "protocols",
                "fail_mode",
                "--",
                "set",
                "bridge",
                "br0",
                "external_ids:a=1",
            ],
        ] {
            server.vsctl(change);
            assert_eq!(selected(&client, TABLES).await, client.with_replica(|replica| held(replica, TABLES)));
            follow(&mut own, &mut events);
            assert!(client.with_replica(|replica| *replica == own));
        }
        assert!(proxy.from_server.lock().unwrap().iter().any(|message| message["method"] == update));
        proxy.cut();
        disconnected(&mut events).await;
        server.vsctl(&["set", "bridge", "br0", "external_ids:z=1"]);
        assert_eq!(connected(&mut events).await.len(), 1);
        server.vsctl(&["remove", "bridge", "br0", "external_ids", "z"]);
    }
}

#[tokio::test]
async fn a_clustered_database_resumes_where_the_connection_broke() {
    let server = Server(OpenVswitch::start_clustered());
    server.vsctl(&["add-br", "br0", "--", "add-br", "br1"]);
    let proxy = Proxy::start(&server.path("proxy"), &server.path("db.sock"), &[]);
    let (client, mut events) =
        Client::spawn(Endpoint::Unix(proxy.path.clone()), "Open_vSwitch", bridges(), Options::default());
    let mut own = Replica::default();
    crate::common::follow_changes(&mut own, &connected(&mut events).await);
    // The server remembers transactions only as long as they are smaller, together, than the database.
    let bulk = Datum::map((0..1000).map(|n| (format!("key-{n}"), "value")));
    client.transact(&[Operation::insert(Row::new("Queue").with("external_ids", bulk))]).await.unwrap();
    client.transact(&insert_bridge("br2")).await.unwrap();
    crate::common::follow_changes(&mut own, &next_changes(&mut events).await);
    proxy.from_server.lock().unwrap().clear();
    proxy.cut();
    disconnected(&mut events).await;
    server.vsctl(&["set", "bridge", "br0", "external_ids:z=1", "--", "del-br", "br1"]);
    let changes = connected(&mut events).await;
    crate::common::follow_changes(&mut own, &changes);
    assert_eq!(changes.len(), 2, "{changes:?}");
    let resumed = |message: &serde_json::Value| message["result"][0] == true;
    assert!(proxy.from_server.lock().unwrap().iter().any(resumed), "the server sent a snapshot");
    assert!(client.with_replica(|replica| *replica == own));
}

#[tokio::test]
async fn what_the_schema_has_not_is_told() {
    let server = Server::start();
    let (_client, mut events) = server.client(MonitorSpec::nothing().table("Bridge", &["colour"]));
    assert!(disconnected(&mut events).await.contains("no column colour in table Bridge"));
    let (_client, mut events) =
        Client::spawn(server.endpoint(), "Northbound", MonitorSpec::nothing(), Options::default());
    let why = disconnected(&mut events).await;
    assert!(why.contains("refused get_schema"), "{why}");
}

#[tokio::test]
async fn a_receiver_that_does_not_receive_does_not_keep_the_client_from_connecting_again() {
    let mut server = Server::start();
    let options = Options { events_max: 1, backoff_min: Duration::from_millis(10), ..Options::default() };
    let (client, mut events) = Client::spawn(server.endpoint(), "Open_vSwitch", bridges(), options);
    for n in 0..5 {
        client.transact(&insert_bridge(&format!("br{n}"))).await.unwrap();
        server.kill_database();
        let gone = async { while client.transact(&[]).await.is_ok() {} };
        tokio::time::timeout(PATIENCE, gone).await.unwrap();
        server.start_database();
        let back = async { while client.transact(&[]).await.is_err() {} };
        tokio::time::timeout(PATIENCE, back).await.unwrap();
    }
    let mut own = Replica::default();
    while client.with_replica(|replica| *replica != own) {
        if let Event::Changes(changes) = next(&mut events).await {
            crate::common::follow_changes(&mut own, &changes);
        }
    }
    assert_eq!(own.rows("Bridge").count(), 5);
}

#[tokio::test]
async fn over_tcp() {
    let server = Server::start();
    let (client, mut events) =
        Client::spawn(server.listen_on_tcp(), "Open_vSwitch", bridges(), Options::default());
    assert_eq!(connected(&mut events).await, []);
    client.transact(&insert_bridge("br0")).await.unwrap();
    assert_eq!(next_changes(&mut events).await.len(), 1);
}
