//! The client against servers that misbehave, over a network in memory and under paused time.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::time::Duration;

use crate::common::{PATIENCE, connected, disconnected, next, next_changes};
use futures_util::StreamExt;
use ovsdb_client::framing::JsonCodec;
use ovsdb_client::{Client, Endpoint, Event, MonitorSpec, Operation, Options, TransactError};
use peer_connection::{InMemoryListener, InMemoryNetwork, MemoryBudget, Sockets};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc::Receiver;
use tokio::time::Instant;
use tokio_util::codec::Framed;

pub(crate) const A: &str = "00000000-0000-0000-0000-00000000000a";
pub(crate) const B: &str = "00000000-0000-0000-0000-00000000000b";
const NO_TRANSACTION: &str = "00000000-0000-0000-0000-000000000000";

/// A listener, and a client of it with short deadlines.
pub(crate) struct Stage {
    listener: InMemoryListener,
    pub(crate) client: Client,
    pub(crate) events: Receiver<Event>,
}

const PROBE: Duration = Duration::from_millis(100);

impl Stage {
    pub(crate) fn new() -> Stage {
        Stage::with(Options::default())
    }

    fn with(options: Options) -> Stage {
        let network = InMemoryNetwork::default();
        let endpoint = Endpoint::Unix("server".into());
        let listener = network.listen(endpoint.clone());
        let options = Options {
            probe_interval: PROBE,
            probe_timeout: PROBE,
            backoff_min: Duration::from_millis(10),
            ..options
        };
        let monitor = MonitorSpec::nothing().table("T", &["name"]);
        let (client, events) = Client::spawn_with(Arc::new(network), endpoint, "D", monitor, options);
        Stage { listener, client, events }
    }

    async fn accept(&mut self) -> Peer {
        let accepted = tokio::time::timeout(PATIENCE, self.listener.accept()).await;
        Peer { stream: Framed::new(accepted.expect("a connection in time").unwrap(), JsonCodec::default()) }
    }

    /// Accepts and serves schema and snapshot well.
    pub(crate) async fn accept_well(&mut self, rows: &[(&str, &str)]) -> Peer {
        let mut peer = self.accept().await;
        peer.handshake(rows).await;
        peer
    }

    /// After whatever happened, a peer that behaves is found, and the replica is what it says.
    pub(crate) async fn recovers(&mut self) {
        let _peer = self.accept_well(&[(A, "recovered")]).await;
        connected(&mut self.events).await;
        let name = |replica: &ovsdb_client::Replica| {
            replica.rows("T").map(|(_, row)| row.get("name").unwrap()).collect()
        };
        let names: Vec<String> = self.client.with_replica(name);
        assert_eq!(names, ["recovered"]);
    }
}

pub(crate) struct Peer {
    stream: Framed<DuplexStream, JsonCodec>,
}

impl Peer {
    pub(crate) async fn send(&mut self, text: impl AsRef<[u8]>) {
        self.stream.get_mut().write_all(text.as_ref()).await.unwrap();
    }

    /// The client's next message.
    async fn next(&mut self) -> Value {
        let message = tokio::time::timeout(PATIENCE, self.stream.next()).await.expect("a message in time");
        message.expect("the client should not close").unwrap()
    }

    /// The client's next message but echo requests, which are not answered.
    async fn receive(&mut self) -> Value {
        loop {
            let message = self.next().await;
            if message["method"] != "echo" {
                return message;
            }
        }
    }

    pub(crate) async fn answer(&mut self, method: &str, result: &Value) {
        let request = self.receive().await;
        assert_eq!(request["method"], method);
        self.send(json!({"id": request["id"], "result": result, "error": null}).to_string()).await;
    }

    async fn answer_schema(&mut self) {
        let schema = json!({"name": "D", "version": "1.0.0", "tables": {"T": {"columns": {"name": {"type": "string"}}}}});
        self.answer("get_schema", &schema).await;
    }

    async fn handshake(&mut self, rows: &[(&str, &str)]) {
        self.answer_schema().await;
        let rows: serde_json::Map<String, Value> = rows
            .iter()
            .map(|(uuid, name)| ((*uuid).to_owned(), json!({"initial": {"name": name}})))
            .collect();
        self.answer("monitor_cond_since", &json!([false, NO_TRANSACTION, {"T": rows}])).await;
    }

    /// Reads until the client closes.
    async fn closed(mut self) {
        let read = async {
            let mut chunk = [0; 4096];
            while self.stream.get_mut().read(&mut chunk).await.is_ok_and(|length| length > 0) {}
        };
        tokio::time::timeout(PATIENCE, read).await.expect("the client closes in time");
    }
}

pub(crate) fn update(uuid: &str, change: &Value) -> String {
    json!({"id": null, "method": "update3", "params": ["replica", NO_TRANSACTION, {"T": {uuid: change}}]})
        .to_string()
}

#[tokio::test(start_paused = true)]
async fn every_breach_is_told_and_the_next_connection_reports_the_difference() {
    for (breach, says) in [
        ("nonsense".to_owned(), "malformed JSON at byte"),
        ("[1]".to_owned(), "malformed JSON at byte"),
        (r#"{"id":null,"method":"update3" "params":[]}"#.to_owned(), "malformed JSON at byte"),
        (
            r#"{"id":99,"result":[],"error":null}"#.to_owned(),
            "a reply has id 99, which no pending request has",
        ),
        (
            r#"{"id":"x","result":[],"error":null}"#.to_owned(),
            "a reply has id \"x\", which no pending request has",
        ),
        (r#"{"id":null,"method":7,"params":[]}"#.to_owned(), "a method is 7"),
        (update(B, &json!({"modify": {"name": "x"}})), "reported as modified, but it is unknown"),
        (update(A, &json!({"modify": {"name": 1}})), "T.name: wanted string, got 1"),
        (
            r#"{"id":null,"method":"update3","params":["replica",null,{}]}"#.to_owned(),
            "a transaction id is null",
        ),
        (r#"{"id":null,"method":"update2","params":["other",{}]}"#.to_owned(), "for an unknown monitor"),
        (
            r#"{"id":null,"method":"update3","params":["replica"]}"#.to_owned(),
            "has the parameters [\"replica\"]",
        ),
        (r#"{"id":null,"method":"update2"}"#.to_owned(), "has the parameters null"),
        (r#"{"id":null,"method":"update","params":{"0":"replica"}}"#.to_owned(), "has the parameters {"),
        (
            r#"{"id":null,"method":"monitor_canceled","params":["replica"]}"#.to_owned(),
            "cancelled the monitor",
        ),
    ] {
        let mut stage = Stage::new();
        let mut peer = stage.accept_well(&[(A, "same"), (B, "going")]).await;
        assert_eq!(connected(&mut stage.events).await.len(), 2);
        // A transaction is on its way when the breach comes.
        let client = stage.client.clone();
        let pending =
            tokio::spawn(async move { client.transact(&[Operation::Comment(String::new())]).await });
        assert_eq!(peer.receive().await["method"], "transact");
        // What came before the breach counts.
        peer.send(update(B, &json!({"delete": null})) + &update(B, &json!({"insert": {"name": "back"}})))
            .await;
        assert_eq!(next_changes(&mut stage.events).await.len(), 1);
        assert_eq!(next_changes(&mut stage.events).await.len(), 1);
        peer.send(update(B, &json!({"delete": null})) + &breach).await;
        assert_eq!(next_changes(&mut stage.events).await[0].new, None, "{breach}");
        let Event::Disconnected { why } = next(&mut stage.events).await else {
            panic!("{breach}: still connected")
        };
        assert!(why.contains(says), "{breach}: {why}");
        let fate = pending.await.unwrap();
        assert!(matches!(&fate, Err(TransactError::FateUnknown { why: same }) if *same == why), "{fate:?}");
        peer.closed().await;

        let _peer = stage.accept_well(&[(A, "same"), (B, "new")]).await;
        let changes = connected(&mut stage.events).await;
        assert_eq!(changes.len(), 1, "{changes:?}");
        assert_eq!((changes[0].uuid.to_string().as_str(), &changes[0].old), (B, &None));
    }
}

#[tokio::test(start_paused = true)]
async fn closing_is_told_with_where() {
    let mut stage = Stage::new();
    drop(stage.accept().await);
    let why = disconnected(&mut stage.events).await;
    assert_eq!(why, "the server closed the connection");
    let mut peer = stage.accept_well(&[]).await;
    connected(&mut stage.events).await;
    peer.send(r#"{"id":null,"method":"upd"#).await;
    drop(peer);
    assert_eq!(
        disconnected(&mut stage.events).await,
        "the server closed the connection in the middle of a message (24 bytes of it received)"
    );
    stage.recovers().await;
}

#[tokio::test(start_paused = true)]
async fn silence_is_probed_and_then_ended() {
    for (last_words, says) in [
        ("", "did not answer an echo request"),
        (
            r#"{"id":null,"method":"upd"#,
            "in the middle of a message (24 bytes of it received) and did not answer an echo request",
        ),
    ] {
        let mut stage = Stage::new();
        let mut peer = stage.accept_well(&[]).await;
        connected(&mut stage.events).await;
        let start = Instant::now();
        peer.send(last_words).await;
        let why = disconnected(&mut stage.events).await;
        assert!(why.contains(says), "{why}");
        assert_eq!(start.elapsed(), PROBE * 2);
        stage.recovers().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_answered_probe_keeps_the_connection_and_the_servers_echo_is_answered() {
    let mut stage = Stage::new();
    let mut peer = stage.accept_well(&[]).await;
    connected(&mut stage.events).await;
    for _ in 0..5 {
        let probe = peer.next().await;
        assert_eq!(probe["method"], "echo");
        peer.send(json!({"id": probe["id"], "result": probe["params"], "error": null}).to_string()).await;
    }
    peer.send(r#"{"id":"e","method":"echo","params":["x"]}"#).await;
    assert_eq!(peer.receive().await, json!({"id": "e", "result": ["x"], "error": null}));
    // Unknown notifications and requests do no harm.
    peer.send(r#"{"id":null,"method":"novelty","params":[]}{"id":5,"method":"novelty","params":[]}"#).await;
    assert_eq!(peer.receive().await, json!({"id": 5, "result": null, "error": "unknown method"}));
    peer.send(update(A, &json!({"insert": {"name": "x"}}))).await;
    assert_eq!(next_changes(&mut stage.events).await.len(), 1, "no event came before");
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_does_not_end_is_ended() {
    let options = Options { handshake_timeout: PROBE * 3, ..Options::default() };
    let mut stage = Stage::with(options);
    let mut peer = stage.accept().await;
    peer.answer_schema().await;
    // Alive, byte by byte, but never done.
    let trickle = tokio::spawn(async move {
        while peer.stream.get_mut().write_all(b" ").await.is_ok() {
            tokio::time::sleep(PROBE / 4).await;
        }
    });
    let why = disconnected(&mut stage.events).await;
    assert!(why.contains("no schema and snapshot within 0.3 s"), "{why}");
    trickle.abort();
    stage.recovers().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_dials_in_late_has_the_whole_time_for_its_snapshot() {
    let (name, target) = ("hv1", "ssl:192.0.2.1:6640");
    let sockets = Sockets::default();
    let inbound = sockets.inbound().clone();
    let _expected = inbound.expect(name, target);
    let endpoint = Endpoint::DialIn { name: name.to_owned(), target: target.to_owned() };
    let options = Options { handshake_timeout: PROBE * 3, ..Options::default() };
    let monitor = MonitorSpec::nothing().table("T", &["name"]);
    let (_client, mut events) = Client::spawn_with(Arc::new(sockets), endpoint, "D", monitor, options);
    let start = Instant::now();
    tokio::time::sleep(PROBE * 2).await;
    let (theirs, ours) = tokio::io::duplex(1 << 14);
    inbound.arrived(name, target, "192.0.2.11", Box::new(theirs)).unwrap();
    let mut peer = Peer { stream: Framed::new(ours, JsonCodec::default()) };
    tokio::time::sleep(PROBE * 2).await;
    peer.handshake(&[]).await;
    assert_eq!(next(&mut events).await, Event::Connected);
    assert!(start.elapsed() > PROBE * 3, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_wrong_handshake_is_told_once_for_all_attempts() {
    let mut stage = Stage::new();
    for _ in 0..3 {
        stage.accept().await.answer("get_schema", &json!({"name": "D"})).await;
    }
    let mut peer = stage.accept().await;
    assert_eq!(disconnected(&mut stage.events).await, "schema: version: wanted a string, got null");
    peer.handshake(&[]).await;
    assert_eq!(next(&mut stage.events).await, Event::Connected);
}

#[tokio::test(start_paused = true)]
async fn a_malformed_snapshot_ends_the_attempt_and_the_next_one_is_made() {
    for (result, says) in [
        (json!([]), "is not [found, last transaction, rows] but []"),
        (json!([false]), "is not [found, last transaction, rows] but [false]"),
        (json!([false, NO_TRANSACTION]), "is not [found, last transaction, rows] but [false,"),
        (json!([null, NO_TRANSACTION, {}]), "is not [found, last transaction, rows] but [null,"),
        (json!({"found": false}), "is not [found, last transaction, rows] but {\"found\":false}"),
        (json!(null), "is not [found, last transaction, rows] but null"),
        (json!([false, 7, {}]), "a transaction id is 7"),
        (json!([false, NO_TRANSACTION, []]), "wanted an object, got []"),
        (
            json!([true, NO_TRANSACTION, {"T": {A: {"modify": {}}}}]),
            "reported as modified, but it is unknown",
        ),
    ] {
        let mut stage = Stage::new();
        let mut peer = stage.accept().await;
        peer.answer_schema().await;
        peer.answer("monitor_cond_since", &result).await;
        let why = disconnected(&mut stage.events).await;
        assert!(why.contains(says), "{result}: {why}");
        stage.recovers().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_malformed_result_of_a_transaction_ends_the_session() {
    let operations = [Operation::Comment(String::new()), Operation::select("T", vec![], &["name"])];
    for (result, says) in [
        (json!(null), "no array: null"),
        (json!({}), "no array: {}"),
        (json!([]), "0 results for 2 operations"),
        (json!([{}]), "1 results for 2 operations"),
        (json!([{}, {"rows": []}, {}]), "3 results for 2 operations"),
        (json!([7, {"rows": []}]), "operation 0 (comment): 7"),
        (json!([{}, {"rows": {}}]), "operation 1 (select from T): {\"rows\":{}}"),
        (json!([{}, {"rows": [7]}]), "T.(row): wanted an object, got 7"),
        (json!([{}, {"rows": [{"name": ["set", 7]}]}]), "T.name: wanted an atom"),
    ] {
        let mut stage = Stage::new();
        let mut peer = stage.accept_well(&[]).await;
        connected(&mut stage.events).await;
        let (client, asked) = (stage.client.clone(), operations.clone());
        let pending = tokio::spawn(async move { client.transact(&asked).await });
        peer.answer("transact", &result).await;
        let error = pending.await.unwrap().unwrap_err();
        assert!(
            matches!(&error, TransactError::Reply { problem } if problem.contains(says)),
            "{result}: {error}"
        );
        let why = disconnected(&mut stage.events).await;
        assert!(why.contains("violated the protocol") && why.contains(says), "{result}: {why}");
        stage.recovers().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_read_is_given_up() {
    let mut stage = Stage::new();
    let mut peer = stage.accept_well(&[]).await;
    connected(&mut stage.events).await;
    // More than the socket's buffers hold.
    let client = stage.client.clone();
    let big = tokio::spawn(async move { client.transact(&[Operation::Comment("x".repeat(8 << 20))]).await });
    // It talks all the time, so it is not silent.
    let talk = async {
        while peer.stream.get_mut().write_all(br#"{"id":null,"method":"talk","params":[]}"#).await.is_ok() {
            tokio::time::sleep(PROBE / 4).await;
        }
    };
    let (why, ()) = tokio::join!(disconnected(&mut stage.events), talk);
    assert!(why.contains("took none of the"), "{why}");
    assert!(matches!(big.await.unwrap(), Err(TransactError::FateUnknown { .. })));
    stage.recovers().await;
}

#[tokio::test(start_paused = true)]
async fn a_message_over_the_limit_is_refused() {
    let mut stage = Stage::with(Options { message_size_max: 4096, ..Options::default() });
    let mut peer = stage.accept_well(&[]).await;
    connected(&mut stage.events).await;
    peer.send(update(A, &json!({"insert": {"name": "x".repeat(5000)}}))).await;
    let why = disconnected(&mut stage.events).await;
    assert!(why.contains("larger than 4096 bytes"), "{why}");
    stage.recovers().await;
}

/// Sends until all is sent or the client closes.
async fn flood(peer: &mut Peer, parts: impl Iterator<Item = String>) {
    for part in parts {
        if peer.stream.get_mut().write_all(part.as_bytes()).await.is_err() {
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn d16_a_schema_of_brackets_is_refused_before_it_is_whole() {
    let mut stage = Stage::new();
    let mut peer = stage.accept().await;
    let request = peer.receive().await;
    let begin = format!(r#"{{"id":{},"error":null,"result":["#, request["id"]);
    let brackets = std::iter::repeat_n("[],".repeat(10_000), 2_100);
    let start = Instant::now();
    let ((), why) = tokio::join!(
        flood(&mut peer, std::iter::once(begin).chain(brackets)),
        disconnected(&mut stage.events)
    );
    assert_eq!(why, "the message that starts at byte 0 of the stream is larger than 1048576 bytes");
    // It would do the same at once.
    stage.accept().await;
    assert!(start.elapsed() > Duration::from_secs(25), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn d16_a_schema_and_rows_that_no_open_vswitch_has_are_refused() {
    let brackets = format!("[{}1]", "[],".repeat(100_000));
    let mut stage = Stage::new();
    let mut peer = stage.accept().await;
    peer.answer("get_schema", &serde_json::from_str(&brackets).unwrap()).await;
    let why = disconnected(&mut stage.events).await;
    assert!(why.starts_with("schema: the whole: wanted an object, got [[],[],"), "{why}");

    let many: serde_json::Map<String, Value> = (0..200_001).map(|n| (n.to_string(), json!(0))).collect();
    for (rows, says) in [
        (json!({"T": many}), "T: it has more members, and at most 200000 are read"),
        (
            json!({"T": {A: {"initial": {"name": "x".repeat(70_000)}}}}),
            "it has more bytes, and at most 65536 are read",
        ),
        (json!({"T": serde_json::from_str::<Value>(&brackets).unwrap()}), "wanted an object, got [[],[],"),
    ] {
        let mut stage = Stage::new();
        let mut peer = stage.accept().await;
        peer.answer_schema().await;
        let request = peer.receive().await;
        let reply = json!({"id": request["id"], "result": [false, NO_TRANSACTION, rows], "error": null});
        let ((), why) = tokio::join!(
            flood(&mut peer, std::iter::once(reply.to_string())),
            disconnected(&mut stage.events)
        );
        assert!(why.contains(says), "{why}");
        drop(peer);
        stage.recovers().await;
    }
}

#[tokio::test(start_paused = true)]
async fn d16_a_server_that_answers_probes_alone_does_not_keep_a_request() {
    let limit = Duration::from_secs(20);
    let mut stage = Stage::with(Options { request_timeout: limit, ..Options::default() });
    let mut peer = stage.accept_well(&[]).await;
    connected(&mut stage.events).await;
    let start = Instant::now();
    let client = stage.client.clone();
    let transaction = tokio::spawn(async move { client.transact(&[Operation::Comment("x".into())]).await });
    let answers = async {
        while let Some(Ok(message)) = peer.stream.next().await {
            if message["method"] == "echo" {
                let reply = json!({"id": message["id"], "result": [], "error": null});
                flood(&mut peer, std::iter::once(reply.to_string())).await;
            }
        }
        std::future::pending::<()>().await;
    };
    let why = tokio::select! {
        why = disconnected(&mut stage.events) => why,
        () = answers => unreachable!(),
    };
    assert_eq!(why, "the server answers echo requests, but did not answer a transaction within 20.0 s");
    assert_eq!(start.elapsed(), limit);
    assert!(matches!(transaction.await.unwrap(), Err(TransactError::FateUnknown { .. })));
}

#[tokio::test(start_paused = true)]
async fn d16_what_a_server_makes_the_client_hold_is_bounded() {
    const LIMIT: usize = 2 << 20;
    let row = |n: usize| {
        let name = format!("{n}{}", "x".repeat(50_000));
        update(&uuid::Uuid::from_u128(n as u128).to_string(), &json!({"insert": {"name": name}}))
    };
    let rows = |_: usize| (0..1000).map(row).collect::<Vec<_>>();
    let unfinished = |_: usize| vec![format!("{{\"a\": \"{}", "x".repeat(20 << 20))];
    for sent in [&rows as &dyn Fn(usize) -> Vec<String>, &unfinished] {
        let budget = MemoryBudget::new(LIMIT);
        let mut stage = Stage::with(Options { memory: budget.peer("hv7"), ..Options::default() });
        let mut peer = stage.accept_well(&[(B, "before")]).await;
        connected(&mut stage.events).await;
        let most = std::cell::Cell::new(0);
        let why = async {
            loop {
                let event = next(&mut stage.events).await;
                most.set(most.get().max(budget.charged()));
                if let Event::Disconnected { why } = event {
                    return why;
                }
            }
        };
        let ((), why) = tokio::join!(flood(&mut peer, sent(0).into_iter()), why);
        assert!(why.starts_with("hv7 has sent "), "{why}");
        assert!(why.contains("reached the limit of 2097152 bytes beyond what is expected"), "{why}");
        assert!(most.get() <= LIMIT);
        assert_eq!((stage.client.with_replica(|rows| rows.rows("T").count()), budget.charged()), (0, 0));
        drop(peer);
        stage.recovers().await;
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_server_requests_fail_and_dropping_the_client_ends_the_events() {
    let network = Arc::new(InMemoryNetwork::default());
    let endpoint = Endpoint::Unix("nobody".into());
    let (client, mut events) =
        Client::spawn_with(network, endpoint, "D", MonitorSpec::nothing(), Options::default());
    assert_eq!(disconnected(&mut events).await, "cannot connect: connection refused");
    let error = client.transact(&[]).await.unwrap_err();
    assert!(matches!(error, TransactError::NotConnected { .. }), "{error}");
    drop(client);
    assert_eq!(tokio::time::timeout(PATIENCE, events.recv()).await.expect("an end in time"), None);
}

#[tokio::test(start_paused = true)]
async fn attempts_become_rarer() {
    let options = Options { backoff_max: Duration::from_millis(80), ..Options::default() };
    let mut stage = Stage::with(options);
    let mut last: Option<Instant> = None;
    // From 10 ms doubling to 80 ms, of which the jitter takes up to a half.
    for least in [0, 5, 10, 20, 40, 40] {
        drop(stage.accept().await);
        let now = Instant::now();
        let gap = last.map_or(Duration::ZERO, |last| now - last);
        // Timers have a resolution of a millisecond.
        let due = Duration::from_millis(least)..=Duration::from_millis(least * 2 + 1);
        assert!(due.contains(&gap), "{gap:?} where {due:?} is due");
        last = Some(now);
    }
}

#[tokio::test(start_paused = true)]
async fn a_clustered_server_is_asked_for_what_follows_unless_the_replica_is_in_doubt() {
    let transaction = |n: u8| format!("00000000-0000-0000-0000-0000000000{n:02}");
    let update = |n, uuid: &str, change: Value| {
        json!({"id": null, "method": "update3", "params": ["replica", transaction(n), {"T": {uuid: change}}]})
            .to_string()
    };
    let mut stage = Stage::new();
    let mut peer = stage.accept().await;
    peer.answer_schema().await;
    peer.answer(
        "monitor_cond_since",
        &json!([false, transaction(1), {"T": {A: {"initial": {"name": "a"}}}}]),
    )
    .await;
    assert_eq!(connected(&mut stage.events).await.len(), 1);
    peer.send(update(2, B, json!({"insert": {"name": "b"}}))).await;
    next_changes(&mut stage.events).await;
    drop(peer);

    let mut peer = stage.accept().await;
    peer.answer_schema().await;
    let request = peer.receive().await;
    assert_eq!(request["params"][3], transaction(2));
    let since = json!([true, transaction(3), {"T": {B: {"modify": {"name": "c"}}}}]);
    peer.send(json!({"id": request["id"], "result": since, "error": null}).to_string()).await;
    let changes = connected(&mut stage.events).await;
    assert_eq!((changes.len(), changes[0].uuid.to_string().as_str()), (1, B), "the rest stays as it was");
    peer.send(update(4, A, json!({"insert": {"name": 7}}))).await;
    disconnected(&mut stage.events).await;

    let mut peer = stage.accept().await;
    peer.answer_schema().await;
    assert_eq!(peer.receive().await["params"][3], NO_TRANSACTION);
}

#[tokio::test(start_paused = true)]
async fn after_a_good_connection_the_next_attempt_is_soon() {
    let options = Options { backoff_max: Duration::from_millis(400), ..Options::default() };
    let longest = options.backoff_max;
    let mut stage = Stage::with(options);
    for _ in 0..7 {
        drop(stage.accept().await);
    }
    let mut peer = stage.accept_well(&[]).await;
    connected(&mut stage.events).await;
    let start = Instant::now();
    while start.elapsed() < longest {
        let probe = peer.next().await;
        peer.send(json!({"id": probe["id"], "result": [], "error": null}).to_string()).await;
    }
    let lost = Instant::now();
    drop(peer);
    let _peer = stage.accept_well(&[]).await;
    // The shortest delay, and the resolution of timers.
    assert!(lost.elapsed() <= Duration::from_millis(11), "{:?}", lost.elapsed());
}
