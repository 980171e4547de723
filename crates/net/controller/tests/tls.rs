//! The API over TLS: who may do what, and certificates that change while it serves.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use controller::{Daemon, Listen, Parts};
use prost_types::FileDescriptorSet;
use test_authority::{Authority, Leaf, controller};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use weft_client::{Client, ClientError, Credentials, DESCRIPTORS};

use crate::support::drivers::Switches;
use crate::support::running::{DEADLINE, apply, parts, within};
use crate::support::*;

const NETWORK: &str = "{kind: switch, id: web-1}";

/// A controller that speaks TLS.
struct Secure {
    authority: Authority,
    port: u16,
    stop: oneshot::Sender<()>,
    end: JoinHandle<Result<(), controller::daemon::DaemonError>>,
}

impl Secure {
    async fn start(folder: &Path) -> Secure {
        let authority = Authority::new();
        let parts = Parts {
            listen: Listen::Tcp(([127, 0, 0, 1], 0).into()),
            credentials: Some(authority.credentials(&controller())),
            ..parts(folder, rules(RULES), &Switches::default())
        };
        let daemon = Daemon::start(parts).await.unwrap_or_else(|error| panic!("{error}"));
        let Listen::Tcp(address) = daemon.listen().clone() else { panic!("a port") };
        let (stop, stopped) = oneshot::channel();
        let end = tokio::spawn(daemon.run(async move { stopped.await.unwrap_or(()) }));
        Secure { authority, port: address.port(), stop, end }
    }

    /// The certificate of somebody with this role.
    fn certificate(&self, name: &str, role: Option<&str>, serial: u64) -> Arc<Credentials> {
        self.authority.credentials(&Leaf { role, serial, ..Leaf::new(name) })
    }

    async fn connect(&self, certificate: &Arc<Credentials>) -> Result<Client, ClientError> {
        Client::connect_with(&format!("https://localhost:{}", self.port), Some(certificate)).await
    }

    async fn client(&self, name: &str, role: &str, serial: u64) -> Client {
        let certificate = self.certificate(name, Some(role), serial);
        self.connect(&certificate).await.unwrap_or_else(|error| panic!("{error}"))
    }

    async fn stop(self) {
        self.stop.send(()).expect("it runs");
        within(self.end).await.expect("it does not panic").unwrap_or_else(|error| panic!("{error}"));
    }

    /// A stream on which this certificate was shown.
    async fn stream(&self, certificate: &Arc<Credentials>) -> mutual_tls::SecureStream<TcpStream> {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        certificate.connect_to_controller(stream, "localhost").await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_changes_and_the_journal_names_the_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let secure = Secure::start(folder.path()).await;
    let mut alice = secure.client("alice", "weft:operator", 2).await;
    apply(&mut alice, NETWORK).await.unwrap();
    let journal = std::fs::read_to_string(folder.path().join("state/journal.jsonl")).unwrap();
    assert!(journal.contains(r#""peer":{"identity":"alice (operator)","address":"127.0.0.1:"#), "{journal}");
    secure.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_viewer_reads_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let secure = Secure::start(folder.path()).await;
    let mut bob = secure.client("bob", "weft:viewer", 2).await;
    let before = bob.status().await.unwrap().last_txn;
    let error = apply(&mut bob, NETWORK).await.unwrap_err();
    assert!(matches!(error, ClientError::Forbidden(_)), "{error}");
    assert_eq!(
        error.to_string(),
        "bob (viewer) may read and not change anything; changes need a certificate with the role operator"
    );
    assert_eq!(bob.status().await.unwrap().last_txn, before);

    let mut web = secure.stream(&secure.certificate("eve", Some("weft:viewer"), 3)).await;
    web.write_all(b"DELETE /v1/switches/web-1 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut answer = String::new();
    web.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert!(answer.contains("content-type: application/problem+json"), "{answer}");
    assert!(answer.contains(r#""code":"forbidden","detail":"eve (viewer) may read"#), "{answer}");
    secure.stop().await;
}

/// The status of gRPC for a call that the role of the caller does not allow.
const PERMISSION_DENIED: &str = "7";

/// Whether each call of the service, with an empty message, is refused for the role of this certificate.
async fn refused(secure: &Secure, certificate: &Arc<Credentials>) -> Vec<(String, bool)> {
    let stream = secure.stream(certificate).await;
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    let connection = tokio::spawn(connection);
    let mut client = client.ready().await.unwrap();
    let described: FileDescriptorSet = prost::Message::decode(DESCRIPTORS).unwrap();
    let mut calls = Vec::new();
    for method in described.file.iter().flat_map(|file| &file.service).flat_map(|service| &service.method) {
        let uri = format!("https://localhost/weft.v1.Controller/{}", method.name());
        let request =
            http::Request::post(uri).header("content-type", "application/grpc").header("te", "trailers");
        let (answer, mut body) = client.send_request(request.body(()).unwrap(), false).unwrap();
        // A call that is refused may have ended by now.
        let _ = body.send_data(Bytes::from_static(&[0; 5]), true);
        client = client.ready().await.unwrap();
        // A call that is refused at once has its status in the headers. Others are not waited for.
        let answer = within(answer).await.unwrap();
        let status = answer.headers().get("grpc-status").and_then(|status| status.to_str().ok());
        calls.push((method.name().to_owned(), status == Some(PERMISSION_DENIED)));
    }
    connection.abort();
    calls
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_is_refused_to_those_without_a_role_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let secure = Secure::start(folder.path()).await;
    // Something to read, since a call that finds nothing recorded ends in another way.
    apply(&mut secure.client("alice", "weft:operator", 2).await, NETWORK).await.unwrap();
    for role in [Some("weft:node"), Some("weft:controller"), Some("other"), None] {
        let calls = refused(&secure, &secure.certificate("mallory", role, 3)).await;
        assert!(calls.len() > 20 && calls.iter().all(|(_, refused)| *refused), "{role:?}: {calls:?}");
    }
    let changes = ["Apply", "Delete", "Set", "Rollback", "LoadRules", "RollbackRules"];
    for (call, refused) in refused(&secure, &secure.certificate("bob", Some("weft:viewer"), 4)).await {
        assert_eq!(refused, changes.contains(&call.as_str()), "a viewer calls {call}");
    }
    for (call, refused) in refused(&secure, &secure.certificate("carol", Some("weft:operator"), 5)).await {
        assert!(!refused, "an operator calls {call}");
    }
    secure.stop().await;
}

/// Connections without certificates, in clear text, and half of a handshake: others are answered meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_finish_a_handshake_delays_nobody() {
    const HALF_OPEN: usize = 200;
    let folder = tempfile::tempdir().unwrap();
    let secure = Secure::start(folder.path()).await;
    let mut half_open = Vec::new();
    for number in 0..HALF_OPEN {
        let mut stream = TcpStream::connect(("127.0.0.1", secure.port)).await.unwrap();
        if number % 2 == 0 {
            // The begin of a ClientHello.
            stream.write_all(&[0x16, 3, 1, 2, 0, 1]).await.unwrap();
        }
        half_open.push(stream);
    }
    let mut alice = secure.client("alice", "weft:operator", 2).await;
    assert!(alice.status().await.is_ok());
    let mut clear = TcpStream::connect(("127.0.0.1", secure.port)).await.unwrap();
    clear.write_all(b"GET /v1/status HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    // It may be reset, with what it has sent unread.
    let _ = within(clear.read_to_end(&mut answer)).await;
    assert!(!answer.starts_with(b"HTTP/"), "{answer:?}");
    // Each of them ends.
    for mut stream in half_open {
        let _ = within(stream.read_to_end(&mut Vec::new())).await;
    }
    assert!(alice.status().await.is_ok());
    secure.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_certificate_serves_new_connections_and_ends_none() {
    let folder = tempfile::tempdir().unwrap();
    let secure = Secure::start(folder.path()).await;
    let mut alice = secure.client("alice", "weft:operator", 2).await;
    let bob = secure.certificate("bob", Some("weft:viewer"), 3);
    assert_eq!(secure.stream(&bob).await.peer().to_string(), "controller (controller)");
    // The next one differs in its role, so that it can be told.
    let next = Leaf { role: None, serial: 4, ..controller() };
    secure.authority.issue(&next);
    let deadline = Instant::now() + DEADLINE;
    while secure.stream(&bob).await.peer().to_string() != "controller" {
        assert!(Instant::now() < deadline, "the new certificate is not in use");
        assert!(alice.status().await.is_ok());
    }
    assert!(alice.status().await.is_ok());
    secure.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_of_the_revoked_end_and_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let secure = Secure::start(folder.path()).await;
    let mut alice = secure.client("alice", "weft:operator", 2).await;
    let eve = secure.certificate("eve", Some("weft:operator"), 3);
    let mut stream = secure.stream(&eve).await;
    // A request that never ends, since a connection without any ends by itself.
    stream.write_all(b"GET /v1/switches?watch=true HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    assert_eq!(
        &within(async {
            let mut begin = [0; 12];
            stream.read_exact(&mut begin).await.map(|_| begin)
        })
        .await
        .unwrap(),
        b"HTTP/1.1 200"
    );
    secure.authority.revoke(&[3], 2);
    let _ = within(stream.read_to_end(&mut Vec::new())).await;
    let error = match secure.connect(&eve).await {
        Ok(mut client) => client.status().await.unwrap_err(),
        Err(error) => error,
    };
    assert!(error.to_string().contains("if it has refused the certificate, its log says why"), "{error}");
    assert_eq!(alice.get("switch", None).await.unwrap().len(), 0);
    secure.stop().await;
}

/// It has the same name, and another authority has signed it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_does_not_believe_a_controller_of_another_authority() {
    let folder = tempfile::tempdir().unwrap();
    let secure = Secure::start(folder.path()).await;
    let elsewhere = Authority::new();
    let error = secure.connect(&elsewhere.credentials(&Leaf::new("alice"))).await.unwrap_err().to_string();
    assert!(error.contains("invalid peer certificate"), "{error}");
    assert!(
        error.contains("the authorities in WEFT_AUTHORITIES, or in the context, must have signed"),
        "{error}"
    );
    secure.stop().await;
}

#[tokio::test]
async fn without_a_certificate_an_address_with_https_says_what_to_set() {
    let error = Client::connect("https://localhost:1").await.unwrap_err().to_string();
    assert!(error.starts_with("https://localhost:1 wants a certificate; set WEFT_CERTIFICATE"), "{error}");
}
