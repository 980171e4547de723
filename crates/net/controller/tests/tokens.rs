//! The API with bearer tokens: who has one needs no certificate, and is known by it.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use controller::tokens::{TokenFile, Tokens};
use mutual_tls::Role;
use test_authority::Leaf;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::Instant;
use weft_client::{Client, ClientError, Credentials, Identification};

use crate::support::running::{DEADLINE, apply, within};
use crate::tls::Secure;

const NETWORK: &str = "{kind: switch, id: web-1}";
const DAY: Duration = Duration::from_hours(24);

/// A controller that knows tokens.
struct Guarded {
    secure: Secure,
    file: TokenFile,
    path: PathBuf,
}

impl Guarded {
    async fn start(folder: &Path) -> Guarded {
        let (file, path) = (TokenFile::default(), folder.join("tokens.toml"));
        file.write(&path).unwrap();
        let secure = Secure::start_with(folder, Some(Tokens::open(&path).unwrap())).await;
        Guarded { secure, file, path }
    }

    /// Makes a token that is good for some time, and returns its text.
    fn grant(&mut self, name: &str, role: Role, time: Duration) -> String {
        let now = SystemTime::now();
        let granted = self.file.create(name, &role, now, now + time).unwrap();
        self.file.write(&self.path).unwrap();
        granted.text
    }

    /// A client without a certificate.
    async fn client(&self, token: Option<&str>) -> Client {
        let trust = Credentials::load(self.secure.authority.trust()).unwrap();
        self.secure.connect_as(Some(trust), token).await.unwrap_or_else(|error| panic!("{error}"))
    }

    /// The answer to a request over HTTP by a client without a certificate.
    async fn ask(&self, headers: &str) -> String {
        self.ask_for("/v1/switches", headers).await
    }

    async fn ask_for(&self, path: &str, headers: &str) -> String {
        let trust = Credentials::load(self.secure.authority.trust()).unwrap();
        let mut web = self.secure.stream(&trust).await;
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n");
        web.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        within(web.read_to_string(&mut answer)).await.unwrap();
        answer
    }
}

/// Waits until the controller has read the file again: a status with this token succeeds or fails.
async fn until(client: &mut Client, succeeds: bool) -> Option<ClientError> {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let answer = client.status().await;
        if answer.is_ok() == succeeds {
            return answer.err();
        }
        assert!(Instant::now() < deadline, "the controller has not read the tokens again: {answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_has_a_role_and_its_owner_stands_in_the_journal() {
    let folder = tempfile::tempdir().unwrap();
    let mut guarded = Guarded::start(folder.path()).await;
    let [ci, bob] =
        [("ci", Role::Operator), ("bob", Role::Viewer)].map(|(name, role)| guarded.grant(name, role, DAY));
    let mut ci = guarded.client(Some(&ci)).await;
    until(&mut ci, true).await;
    apply(&mut ci, NETWORK).await.unwrap();
    let journal = std::fs::read_to_string(folder.path().join("state/journal.jsonl")).unwrap();
    assert!(
        journal.contains(r#""peer":{"identity":"token ci (operator)","address":"127.0.0.1:"#),
        "{journal}"
    );

    let mut bob = guarded.client(Some(&bob)).await;
    assert!(bob.status().await.is_ok());
    let error = apply(&mut bob, NETWORK).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "bob (viewer) may read and not change anything; changes need the role operator"
    );
    guarded.secure.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_and_bad_tokens_get_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut guarded = Guarded::start(folder.path()).await;
    let good = guarded.grant("ci", Role::Viewer, DAY);
    let old = guarded.grant("old", Role::Operator, Duration::ZERO);
    until(&mut guarded.client(Some(&good)).await, true).await;

    let refused = |answer: &str, detail: &str| {
        assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
        assert!(answer.contains("www-authenticate: Bearer\r\n"), "{answer}");
        assert!(answer.contains(r#""code":"unauthenticated""#) && answer.contains(detail), "{answer}");
    };
    refused(&guarded.ask("").await, "show a certificate, or send `authorization: Bearer TOKEN`");
    refused(&guarded.ask("authorization: Basic Zm9v\r\n").await, "is not `Bearer TOKEN`");
    refused(&guarded.ask("authorization: Bearer weft_1_2\r\n").await, "unknown or was revoked");
    refused(&guarded.ask(&format!("authorization: Bearer {old}\r\n")).await, "the token has expired");
    let answer = guarded.ask(&format!("Authorization: bearer  {good}\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");

    for path in ["/livez", "/readyz"] {
        let answer = guarded.ask_for(path, "").await;
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\nok\n"), "{answer}");
    }

    let error = guarded.client(None).await.status().await.unwrap_err();
    assert!(matches!(error, ClientError::Forbidden(_)), "{error}");
    guarded.secure.stop().await;
}

/// A token counts more than a certificate: who sends one wants to be its owner.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_counts_more_than_the_certificate_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut guarded = Guarded::start(folder.path()).await;
    let bob = guarded.grant("bob", Role::Viewer, DAY);
    let leaf = Leaf { role: Some("weft:operator"), serial: 2, ..Leaf::new("alice") };
    let alice = guarded.secure.authority.credentials(&leaf);
    let mut both = guarded.secure.connect_as(Some(alice.clone()), Some(&bob)).await.unwrap();
    until(&mut both, true).await;
    assert!(matches!(apply(&mut both, NETWORK).await, Err(ClientError::Forbidden(_))));
    let mut alone = guarded.secure.connect_as(Some(alice), None).await.unwrap();
    apply(&mut alone, NETWORK).await.unwrap();
    guarded.secure.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_answer_ends_with_its_token_and_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut guarded = Guarded::start(folder.path()).await;
    let [ci, eve] = ["ci", "eve"].map(|name| guarded.grant(name, Role::Viewer, DAY));
    let mut of_ci = guarded.client(Some(&ci)).await;
    until(&mut of_ci, true).await;
    let trust = Credentials::load(guarded.secure.authority.trust()).unwrap();
    let mut watch = guarded.secure.stream(&trust).await;
    let request = format!(
        "GET /v1/switches?watch=true HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {eve}\r\n\r\n"
    );
    watch.write_all(request.as_bytes()).await.unwrap();
    let mut seen = vec![0; 1 << 12];
    let length = within(watch.read(&mut seen)).await.unwrap();
    assert!(seen[..length].starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&seen[..length]));

    guarded.file.revoke("eve");
    guarded.file.write(&guarded.path).unwrap();
    // What ends a chunked body without its last chunk closes the connection.
    while within(watch.read(&mut seen)).await.is_ok_and(|length| length > 0) {}
    let error = until(&mut guarded.client(Some(&eve)).await, false).await.unwrap();
    assert_eq!(error.to_string(), "the token is unknown or was revoked; `weft token create` makes one");
    assert!(of_ci.status().await.is_ok());
    guarded.secure.stop().await;
}

#[tokio::test]
async fn a_token_is_sent_to_nobody_who_can_be_overheard() {
    let connect = async |endpoint: &str, token: &str| {
        let identification = Identification { token: Some(token.to_owned()), ..Identification::default() };
        Client::connect_as(endpoint, &identification).await.unwrap_err()
    };
    for endpoint in ["192.0.2.1:6657", "http://192.0.2.1:6657", "weft.example:6657", "[2001:db8::1]:6657"] {
        let error = connect(endpoint, "weft_1_2").await;
        assert!(matches!(error, ClientError::ClearToken { .. }), "{endpoint}: {error}");
    }
    // Nobody listens there, which is found out later.
    for endpoint in ["unix:/nonexistent/weft.sock", "127.0.0.1:1", "[::1]:1", "localhost:1"] {
        let error = connect(endpoint, "weft_1_2").await;
        assert!(matches!(error, ClientError::Unreachable { .. }), "{endpoint}: {error}");
    }
    assert!(matches!(connect("127.0.0.1:1", "a\nb").await, ClientError::BadToken));
}
