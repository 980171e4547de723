//! Clients that mean no good, or are broken: the controller serves the others, in bounded memory.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use h2::RecvStream;
use h2::client::SendRequest;
use prost::Message as _;
use tokio::net::UnixStream;
use tokio::task::JoinHandle;

use crate::support::drivers::Switches;
use crate::support::running::{apply, parts, start, start_with, within};
use crate::support::*;
use controller::Parts;

/// How much memory more than before a controller may reserve while it is attacked, in bytes.
const RESERVED_MAX: usize = 1 << 30;

/// The bytes before each message.
const PREFIX: usize = 5;

/// The address space of this process, in bytes: what is reserved counts, used or not.
fn reserved() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages = statm.split(' ').next().and_then(|pages| pages.parse::<usize>().ok());
    pages.expect("a number of pages") * 4096
}

/// A connection without any manners of a client library.
async fn connect(folder: &Path) -> SendRequest<Bytes> {
    let stream = UnixStream::connect(folder.join("weft.sock")).await.expect("it listens");
    let (sender, connection) = h2::client::handshake(stream).await.expect("it speaks HTTP/2");
    tokio::spawn(connection);
    sender
}

fn request(method: &str) -> http::Request<()> {
    let request = http::Request::post(format!("http://localhost/weft.v1.Controller/{method}"));
    request.header("content-type", "application/grpc").header("te", "trailers").body(()).expect("a request")
}

/// The prefix of a message of this length.
fn prefix(length: u32) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_u8(0);
    bytes.put_u32(length);
    bytes.freeze()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_request_announces_is_not_reserved() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    let before = reserved();
    let mut open = Vec::new();
    for _ in 0..32 {
        let mut sender = connect(folder.path()).await;
        for _ in 0..32 {
            sender = within(sender.ready()).await.unwrap();
            let (response, mut body) = sender.send_request(request("Apply"), false).unwrap();
            body.send_data(prefix(256 << 20), false).unwrap();
            open.push((response, body));
        }
    }
    // A request that is answered on each connection, after those before it were taken.
    let status = within(running.client().await.status()).await.unwrap();
    assert_eq!(status.last_txn, 0);
    let more = reserved().saturating_sub(before);
    assert!(more < RESERVED_MAX, "{more} bytes more");
    drop(open);
    within(running.client().await.status()).await.unwrap();
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_of_more_than_it_may_have_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    let code = |response: &http::Response<_>| response.headers()["grpc-status"].to_str().unwrap().to_owned();
    for (method, announced, sent, wanted) in [
        // RESOURCE_EXHAUSTED: too long, for this method or any.
        ("Status", 5 << 20, 0, "8"),
        ("Apply", (256 << 20) + 1, 0, "8"),
        // INVALID_ARGUMENT: longer than announced.
        ("Status", 10, 1000, "3"),
        // RESOURCE_EXHAUSTED: two million names of no length.
        ("Status", 4 << 20, 4 << 20, "8"),
    ] {
        let mut sender = connect(folder.path()).await;
        let (response, mut body) = sender.send_request(request(method), false).unwrap();
        body.send_data(prefix(announced), false).unwrap();
        if sent > 0 {
            body.send_data([0x0a, 0].repeat(sent / 2).into(), true).unwrap();
        }
        let response = within(response).await.unwrap();
        assert_eq!(code(&response), wanted, "{method}");
    }
    within(running.client().await.status()).await.unwrap();
    running.stop().await;
}

/// Calls over a connection whose client reads nothing beyond the beginning of each answer.
struct Unread {
    /// The answers, once they have begun.
    calls: Vec<JoinHandle<RecvStream>>,
    begun: Arc<AtomicUsize>,
}

impl Unread {
    /// Asks for the status so many times.
    async fn ask(folder: &Path, count: usize) -> Self {
        let mut sender = connect(folder).await;
        let begun = Arc::new(AtomicUsize::new(0));
        let mut calls = Vec::new();
        for _ in 0..count {
            sender = within(sender.ready()).await.expect("a connection");
            let sent = sender.send_request(request("Status"), false);
            let (response, mut body) = sent.expect("a connection");
            body.send_data(prefix(0), true).expect("a connection");
            let begun = begun.clone();
            calls.push(tokio::spawn(async move {
                let response = response.await.expect("an answer");
                begun.fetch_add(1, Ordering::SeqCst);
                response.into_body()
            }));
        }
        Unread { calls, begun }
    }

    /// Reads all answers; gives the length of each. They come in any order, and share the window of the connection.
    async fn read(self) -> Vec<usize> {
        let reading: Vec<_> = self.calls.into_iter().map(|call| tokio::spawn(Self::read_one(call))).collect();
        let mut lengths = Vec::new();
        for length in reading {
            lengths.push(within(length).await.expect("an answer"));
        }
        lengths
    }

    async fn read_one(call: JoinHandle<RecvStream>) -> usize {
        let (mut answer, mut length) = (call.await.expect("an answer"), 0);
        while let Some(data) = answer.data().await {
            let data = data.expect("a part of the answer");
            answer.flow_control().release_capacity(data.len()).expect("as much as has come");
            length += data.len();
        }
        length
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_nobody_reads_are_not_made() {
    const CALLS: usize = 32;
    /// The limit of unread bytes of a connection.
    const UNREAD: usize = 4 << 20;
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    let mut honest = running.client().await;
    // Each of them is a problem, which the status tells.
    let odd = |number| format!(r#"{{"kind":"switch","id":"{number:0>250}","tenant":"odd"}}"#);
    honest.apply_objects((0..4000).map(odd).collect(), "test").await.unwrap();
    let length = PREFIX + honest.status().await.unwrap().encoded_len();
    assert!(length > 1 << 20, "{length}");

    let mut attackers = Vec::new();
    for _ in 0..12 {
        attackers.push(Unread::ask(folder.path(), CALLS).await);
    }
    let begun = |attacker: &Unread| attacker.begun.load(Ordering::SeqCst);
    within(async {
        while attackers.iter().any(|attacker| begun(attacker) == 0) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // Others are served meanwhile; all that would be made is made before they have their answers.
    for _ in 0..10 {
        assert_eq!(within(honest.status()).await.unwrap().problems.len(), 4000);
    }
    let most = attackers.iter().map(begun).max().unwrap();
    assert!(most <= UNREAD / length + 1, "{most} answers of {length} bytes");

    // Who reads after all gets everything. Some say what the engine is doing at that moment, in a few bytes.
    let read = attackers.swap_remove(0).read().await;
    assert!(
        read.len() == CALLS && read.iter().all(|bytes| bytes.abs_diff(length) < 64),
        "{length}: {read:?}"
    );
    drop(attackers);
    running.stop().await;
}

/// The log of the controller.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Collects the log of this process from now on.
    fn begin() -> Self {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt().with_env_filter("controller=debug").with_ansi(false);
        subscriber.with_writer(move || writer.clone()).init();
        log
    }

    /// The first line with this text, once it is there.
    async fn line(&self, text: &str) -> String {
        within(async {
            loop {
                let log = String::from_utf8_lossy(&self.0.lock().expect("no panic")).into_owned();
                if let Some(line) = log.lines().find(|line| line.contains(text)) {
                    return line.to_owned();
                }
                tokio::task::yield_now().await;
            }
        })
        .await
    }
}

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_ends_the_reading_of_its_request() {
    const DOCUMENTS: usize = 100;
    let log = Log::begin();
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    // Close to the limits of one object: brackets, bytes, values.
    let nested = format!("{}{}", "[".repeat(50), "]".repeat(50));
    let values = vec![format!("{nested}, {}", ["7"; 300].join(", ")); 180].join(", ");
    let document = format!("---\n{{kind: switch, id: blue, x: [{values}]}}\n");
    let text = document.repeat(DOCUMENTS);

    let mut client = running.client().await;
    let call = tokio::spawn(async move { client.apply([("deep.yaml".to_owned(), text)], "test").await });
    log.line("reading the objects of a request").await;
    // The client and its connection end with the task.
    call.abort();
    let line = log.line("nobody waits for the objects of a request any more").await;
    let (_, objects) = line.split_once("objects=").expect("a count");
    assert!(objects.trim().parse::<usize>().unwrap() < DOCUMENTS, "{line}");
    within(running.client().await.status()).await.unwrap();
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_make_room_and_are_closed() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    let socket = folder.path().join("weft.sock");
    let mut silent: Vec<StdUnixStream> = (0..500).map(|_| StdUnixStream::connect(&socket).unwrap()).collect();
    // Whoever asks is served although there are too many.
    within(running.client().await.status()).await.unwrap();
    let all_closed = tokio::task::spawn_blocking(move || {
        for stream in &mut silent {
            stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            // The end of the stream; `h2` may have greeted first.
            stream.read_to_end(&mut Vec::new()).unwrap();
        }
    });
    within(all_closed).await.unwrap();
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_answers_no_probe_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let switches = Switches::default();
    // A second is the time that it has for an answer, and less than what ends a silent connection without a probe.
    let parts = Parts { probe: Duration::from_secs(1), ..parts(folder.path(), rules(RULES), &switches) };
    let running = start_with(parts, switches).await;
    let mut stream = StdUnixStream::connect(folder.path().join("weft.sock")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    // The preface of HTTP/2 and empty settings, and not a byte more.
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
    let received = tokio::task::spawn_blocking(move || {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        bytes
    });
    let received = within(received).await.unwrap();
    assert!(frame_types(&received).contains(&PING), "it was probed: {received:?}");
    running.stop().await;
}

/// The type of the frame PING (RFC 9113, section 6.7).
const PING: u8 = 6;

/// The types of the HTTP/2 frames in these bytes (RFC 9113, section 4.1: length in 24 bits, type in 8).
fn frame_types(mut bytes: &[u8]) -> Vec<u8> {
    let mut types = Vec::new();
    while let [a, b, c, kind, rest @ ..] = bytes {
        types.push(*kind);
        let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        bytes = rest.get(5 + length..).unwrap_or_default();
    }
    types
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_without_an_authority_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    let mut sender = connect(folder.path()).await;
    let mut request = request("Status");
    *request.uri_mut() = http::Uri::from_static("/weft.v1.Controller/Status");
    // This version makes the library send a path alone.
    *request.version_mut() = http::Version::HTTP_11;
    let (response, mut body) = sender.send_request(request, false).unwrap();
    body.send_data(prefix(0), true).unwrap();
    let response = within(response).await.unwrap();
    assert_eq!(response.status(), 200);
    let mut answer = response.into_body();
    let first = within(answer.data()).await.unwrap().unwrap();
    assert!(first.len() > 5, "a message");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_journal_says_who_connected() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    apply(&mut running.client().await, "{kind: switch, id: blue}").await.unwrap();
    running.stop().await;
    let journal = std::fs::read_to_string(folder.path().join("state/journal.jsonl")).unwrap();
    let record: serde_json::Value = serde_json::from_str(journal.lines().last().unwrap()).unwrap();
    assert_eq!(record["by"], "test");
    assert_eq!(record["peer"]["pid"], std::process::id());
    assert_eq!(record["peer"]["uid"], rustix::process::geteuid().as_raw());
    // It is origin, and nothing that the rules see.
    let rules = rules(RULES);
    nlog_data::json::parse_line(journal.lines().last().unwrap().as_bytes(), 1, &rules.program().schema)
        .unwrap();
}
