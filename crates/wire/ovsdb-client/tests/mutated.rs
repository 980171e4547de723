//! Sessions whose replies are changed on the way: other types, missing members, flipped bits, cut streams. Whatever
//! arrives, the client goes on, and after the next connection its replica equals the database.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::PATIENCE;
use fake_switch::FakeDatabase;
use futures_util::StreamExt;
use ovsdb_client::framing::JsonCodec;
use ovsdb_client::open_vswitch::{
    BridgeSpec, TunnelSpec, delete_ports, ensure_bridge, ensure_tunnels, monitor,
};
use ovsdb_client::{Client, Dial, Endpoint, Options, Replica};
use peer_connection::{Dialling, InMemoryNetwork, Stream};
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_util::codec::FramedRead;

/// A change of what the server sends.
#[derive(Debug, Clone)]
enum Change {
    /// Of a value in a message: the way to it from the whole message, and what takes its place.
    Value { path: Vec<u8>, by: Replacement },
    /// Of a bit in a message.
    Bit { pick: usize },
    /// The connection ends within a message.
    Cut { pick: usize },
    /// The message comes twice.
    Twice,
}

#[derive(Debug, Clone)]
enum Replacement {
    Another(Value),
    /// The last element or member is missing.
    Shorter,
    /// There is one element or member more.
    Longer,
}

fn change() -> impl Strategy<Value = Change> {
    let others = [
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(1e300),
        json!(""),
        json!("é\u{0}\u{10ffff}"),
        json!([]),
        json!([[]]),
        json!({}),
        json!(["set", []]),
        json!(["map", [[1, 2]]]),
        json!(["uuid", "x"]),
        json!(["uuid", "00000000-0000-0000-0000-000000000000"]),
        json!({"error": "constraint violation"}),
        json!({"modify": {}}),
        json!({"delete": null}),
    ];
    let by = prop_oneof![
        3 => proptest::sample::select(others.to_vec()).prop_map(Replacement::Another),
        1 => Just(Replacement::Shorter),
        1 => Just(Replacement::Longer),
    ];
    prop_oneof![
        8 => (proptest::collection::vec(any::<u8>(), 1..7), by).prop_map(|(path, by)| Change::Value { path, by }),
        2 => any::<usize>().prop_map(|pick| Change::Bit { pick }),
        1 => any::<usize>().prop_map(|pick| Change::Cut { pick }),
        1 => Just(Change::Twice),
    ]
}

/// Dials a server through a relay that changes what the server sends: before each change some messages pass unchanged.
struct Changing {
    network: InMemoryNetwork,
    plan: Arc<Mutex<VecDeque<(u8, Change)>>>,
}

impl Dial for Changing {
    fn dial<'a>(&'a self, endpoint: &'a Endpoint) -> Dialling<'a> {
        Box::pin(async move {
            let far = self.network.dial(endpoint).await?;
            let (near, end) = tokio::io::duplex(64 << 10);
            let (from_server, mut to_server) = tokio::io::split(far);
            let (mut from_client, to_client) = tokio::io::split(end);
            tokio::spawn(async move {
                let _ = tokio::io::copy(&mut from_client, &mut to_server).await;
                let _ = to_server.shutdown().await;
            });
            tokio::spawn(relay(from_server, to_client, self.plan.clone()));
            Ok(Box::new(near) as Stream)
        })
    }
}

async fn relay(
    from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    plan: Arc<Mutex<VecDeque<(u8, Change)>>>,
) {
    let mut messages = FramedRead::new(from, JsonCodec::default());
    while let Some(Ok(mut message)) = messages.next().await {
        let due = {
            let mut plan = plan.lock().unwrap();
            match plan.front_mut() {
                Some((0, _)) => plan.pop_front().map(|(_, change)| change),
                Some((skip, _)) => {
                    *skip -= 1;
                    None
                }
                None => None,
            }
        };
        if let Some(Change::Value { path, by }) = &due {
            replace(&mut message, path, by);
        }
        let mut bytes = message.to_string().into_bytes();
        match due {
            Some(Change::Bit { pick }) => {
                let at = (pick / 8) % bytes.len();
                bytes[at] ^= 1 << (pick % 8);
            }
            Some(Change::Cut { pick }) => {
                bytes.truncate(pick % bytes.len());
                let _ = to.write_all(&bytes).await;
                break;
            }
            Some(Change::Twice) => bytes = [bytes.clone(), bytes].concat(),
            Some(Change::Value { .. }) | None => {}
        }
        if to.write_all(&bytes).await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
    // The other direction ends when the client closes.
    let mut rest = messages.into_inner();
    while rest.read(&mut [0; 1000]).await.is_ok_and(|length| length > 0) {}
}

/// Replaces the value at the end of the path, each step of which picks an element or a member.
fn replace(value: &mut Value, path: &[u8], by: &Replacement) {
    if let [step, rest @ ..] = path {
        let step = usize::from(*step);
        match value {
            Value::Array(elements) if !elements.is_empty() => {
                let at = step % elements.len();
                return replace(&mut elements[at], rest, by);
            }
            Value::Object(members) if !members.is_empty() => {
                let at = step % members.len();
                return members.values_mut().nth(at).into_iter().for_each(|member| replace(member, rest, by));
            }
            _ => {}
        }
    }
    match (by, value) {
        (Replacement::Another(other), value) => *value = other.clone(),
        (Replacement::Shorter, Value::Array(elements)) => drop(elements.pop()),
        (Replacement::Shorter, Value::Object(members)) => {
            let last = members.keys().next_back().cloned();
            drop(last.and_then(|last| members.remove(&last)));
        }
        (Replacement::Longer, Value::Array(elements)) => elements.push(json!({})),
        (Replacement::Longer, Value::Object(members)) => {
            members.insert("more".to_owned(), json!(1));
        }
        (_, value) => *value = Value::Null,
    }
}

/// What a client monitors of these rows, as text.
fn shown(rows: &Replica) -> Vec<String> {
    let tables = ["Open_vSwitch", "Bridge", "Port", "Interface"];
    let rows = tables.into_iter().flat_map(|table| rows.rows(table));
    rows.map(|(uuid, row)| {
        let names: Result<String, _> = row.get("name");
        let columns = ["ofport", "options", "external_ids", "ports", "interfaces", "fail_mode", "cur_cfg"];
        let columns: Vec<_> = columns.iter().filter_map(|column| row.datum(column)).collect();
        format!("{} {uuid} {names:?} {columns:?}", row.table())
    })
    .collect()
}

async fn check(changes: Vec<(u8, Change)>) {
    let network = InMemoryNetwork::default();
    let endpoint = Endpoint::Unix("db".into());
    let fake = FakeDatabase::start_in_memory(&network, endpoint.clone());
    let plan = Arc::new(Mutex::new(VecDeque::from(changes)));
    let dialler = Arc::new(Changing { network, plan: plan.clone() });
    let options = Options { backoff_min: Duration::from_millis(1), ..Options::default() };
    let (client, events) = Client::spawn_with(dialler, endpoint, "Open_vSwitch", monitor(), options);
    drop(events);
    let patience = Some(Duration::from_secs(1));
    let bridge = BridgeSpec::secure("br-int", "netdev");
    let tunnels = ["gnv", "vx"].map(|name| TunnelSpec::by_flow(name, "geneve").external_id("owner", "us"));
    let mut round = 0;
    while round < 3 || !plan.lock().unwrap().is_empty() {
        round += 1;
        // The changes make some of them fail.
        let work = async {
            let _ = ensure_bridge(&client, &bridge, patience).await;
            let _ = ensure_tunnels(&client, "br-int", &tunnels, patience).await;
            let _ = fake.plug("br-int", &format!("tap{round}"), &[("iface-id", "vm")]);
            let _ = delete_ports(&client, "br-int", &["vx"], patience).await;
        };
        let _ = tokio::time::timeout(Duration::from_secs(20), work).await;
        if round > 40 {
            plan.lock().unwrap().clear();
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    // A change may have been one that only another connection corrects.
    let connections = fake.counts().monitors;
    fake.disconnect();
    let ensure = async {
        while fake.counts().monitors == connections
            || ensure_bridge(&client, &bridge, patience).await.is_err()
        {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, ensure).await.expect("another connection in time");
    ensure_tunnels(&client, "br-int", &tunnels, patience).await.unwrap();
    assert!(fake.interfaces().contains_key("vx"));
    let right = client.wait_for(PATIENCE, |rows| (shown(rows) == shown(&fake.rows())).then_some(())).await;
    assert!(right.is_some(), "{:#?}\n{:#?}", client.with_replica(shown), shown(&fake.rows()));
}

#[test]
fn whatever_a_server_sends_the_client_lives_and_recovers() {
    let config = ProptestConfig { cases: 128, max_shrink_iters: 200, ..ProptestConfig::default() };
    let changes = proptest::collection::vec((0u8..5, change()), 1..12);
    proptest!(config, |(changes in changes)| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(check(changes));
    });
}
