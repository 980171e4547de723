//! The comparison of the replica with the database.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use crate::common::{connected, next, next_changes};
use crate::peers::{A, B, Stage, update};
use fake_switch::FakeDatabase;
use fake_switch::database::{self, Fault};
use ovsdb_client::open_vswitch::{self, Bridge, DATABASE};
use ovsdb_client::{Client, Condition, Endpoint, Event, Operation, Options, Replica, Row, TransactError};
use peer_connection::InMemoryNetwork;
use serde_json::{Value, json};

#[tokio::test(start_paused = true)]
async fn d30_a_change_whose_notification_is_lost_is_found_and_applied_as_if_notified() {
    let network = InMemoryNetwork::default();
    let endpoint = Endpoint::Unix("db.sock".into());
    let fake = FakeDatabase::start_in_memory(&network, endpoint.clone());
    fake.vswitchd(false);
    let (client, mut events) = Client::spawn_with(
        Arc::new(network),
        endpoint,
        DATABASE,
        open_vswitch::monitor(),
        Options::default(),
    );
    let mut known = Replica::default();
    known.apply(&connected(&mut events).await);
    let is_named = |name: &str| vec![Condition::equal("name", name)];
    let changed = Row::new(Bridge::TABLE).with("fail_mode", "secure");
    let add = || fake.add_bridge("br").map(drop);
    let change = || fake.transact(&[Operation::update(changed.clone(), is_named("br"))]).map(drop);
    let remove = || fake.unplug("br").map(drop);
    let steps: [&dyn Fn() -> Result<(), TransactError>; 3] = [&add, &change, &remove];
    for (step, rows) in steps.into_iter().zip([3, 1, 3]) {
        assert_eq!(client.compare().await.unwrap(), []);
        fake.fault(database::Stage::Update, Fault::Swallow);
        step().unwrap();
        let found = client.compare().await.unwrap();
        assert_eq!(found.len(), rows, "{found:?}");
        assert_eq!(next_changes(&mut events).await, found);
        known.apply(&found);
        assert_eq!(client.with_replica(Replica::clone), known);
    }
    // Later notifications fit.
    fake.add_bridge("other").unwrap();
    assert_eq!(next_changes(&mut events).await.len(), 3);
    assert_eq!(client.compare().await.unwrap(), []);
    assert_eq!(fake.counts().connections, 1);
}

fn selected(rows: &[(&str, &str)]) -> Value {
    let row = |(uuid, name): &(&str, &str)| json!({"_uuid": ["uuid", uuid], "name": name});
    json!([{"rows": rows.iter().map(row).collect::<Vec<_>>()}])
}

/// A server that is less orderly than Open vSwitch answers before it notifies.
#[tokio::test(start_paused = true)]
async fn d30_a_change_that_is_on_its_way_is_no_difference() {
    let mut stage = Stage::new();
    let mut peer = stage.accept_well(&[(A, "old"), (B, "gone")]).await;
    connected(&mut stage.events).await;
    let client = stage.client.clone();
    let comparison = tokio::spawn(async move { client.compare().await });
    peer.answer("transact", &selected(&[(A, "new")])).await;
    peer.send(update(A, &json!({"modify": {"name": "new"}}))).await;
    peer.answer("transact", &selected(&[(A, "new")])).await;
    let found = comparison.await.unwrap().unwrap();
    // Only what is the same both times counts.
    let [change] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((change.uuid.to_string().as_str(), &change.new), (B, &None));
    assert_eq!(next_changes(&mut stage.events).await[0].uuid.to_string(), A);
    assert_eq!(next_changes(&mut stage.events).await, found);
}

#[tokio::test(start_paused = true)]
async fn d30_a_malformed_answer_is_told_and_the_next_connection_reads_everything() {
    for (result, says) in [
        (json!(null), "wanted a result for each monitored table, got null"),
        (json!([{"rows": []}, {}]), "wanted a result for each monitored table"),
        (json!([{"error": "not supported"}]), "wanted the rows of a table, got \"not supported\""),
        (json!([{"rows": [{"name": "x"}]}]), "wanted a uuid, got"),
        (json!([{"rows": [{"_uuid": ["uuid", A], "name": 7}]}]), "T.name: wanted string, got 7"),
        (json!([{"rows": [{"_uuid": ["uuid", A], "other": 7}]}]), "T.other: wanted a monitored column"),
    ] {
        let mut stage = Stage::new();
        let mut peer = stage.accept_well(&[]).await;
        connected(&mut stage.events).await;
        let client = stage.client.clone();
        let comparison = tokio::spawn(async move { client.compare().await });
        peer.answer("transact", &result).await;
        let error = comparison.await.unwrap().unwrap_err().to_string();
        assert!(error.contains(says), "{result}: {error}");
        assert!(matches!(next(&mut stage.events).await, Event::Disconnected { why } if why.contains(says)));
        stage.recovers().await;
    }
}
