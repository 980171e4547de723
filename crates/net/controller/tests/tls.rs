//! The API over TLS: who may do what, and certificates that change while it serves.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use controller::tokens::{TokenFile, Tokens};
use controller::{Daemon, Listen, Parts};
use mutual_tls::Role;
use prost_types::FileDescriptorSet;
use test_authority::{Authority, Leaf, controller};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use weft_client::{Client, ClientError, Credentials, DESCRIPTORS, Identification};

use crate::support::drivers::Switches;
use crate::support::running::{DEADLINE, apply, parts, start_with, status_when, within};
use crate::support::*;

const NETWORK: &str = "{kind: switch, id: web-1}";

/// A controller that speaks TLS.
pub(crate) struct Secure {
    pub(crate) authority: Authority,
    port: u16,
    stop: oneshot::Sender<()>,
    end: JoinHandle<Result<(), controller::daemon::DaemonError>>,
}

impl Secure {
    async fn start(folder: &Path) -> Secure {
        Secure::start_with(folder, None).await
    }

    /// One that knows these tokens.
    pub(crate) async fn start_with(folder: &Path, tokens: Option<Tokens>) -> Secure {
        let authority = Authority::new();
        let parts = Parts {
            listen: Listen::Tcp(([127, 0, 0, 1], 0).into()),
            credentials: Some(authority.credentials(&controller())),
            tokens: tokens.map(Arc::new),
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
        self.connect_as(Some(certificate.clone()), None).await
    }

    /// Connects with what somebody shows.
    pub(crate) async fn connect_as(
        &self,
        credentials: Option<Arc<Credentials>>,
        token: Option<&str>,
    ) -> Result<Client, ClientError> {
        let identification = Identification { credentials, token: token.map(str::to_owned) };
        Client::connect_as(&format!("https://localhost:{}", self.port), &identification).await
    }

    async fn client(&self, name: &str, role: &str, serial: u64) -> Client {
        let certificate = self.certificate(name, Some(role), serial);
        self.connect(&certificate).await.unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) async fn stop(self) {
        self.stop.send(()).expect("it runs");
        within(self.end).await.expect("it does not panic").unwrap_or_else(|error| panic!("{error}"));
    }

    /// The paths of the API and their methods, as its description lists them.
    async fn described_paths(&self) -> Vec<(String, String)> {
        let alice = self.certificate("alice", Some("weft:operator"), 9);
        let mut web = self.stream(&alice).await;
        web.write_all(b"GET /v1/openapi.json HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            .await
            .unwrap();
        let mut answer = String::new();
        web.read_to_string(&mut answer).await.unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let described: serde_json::Value = serde_json::from_str(body).unwrap();
        let of_path = |(path, methods): (&String, &serde_json::Value)| {
            let methods = methods.as_object().unwrap().keys().filter(|key| *key != "parameters");
            methods.map(|method| (path.clone(), method.to_uppercase())).collect::<Vec<_>>()
        };
        described["paths"].as_object().unwrap().iter().flat_map(of_path).collect()
    }

    /// A stream on which this certificate was shown.
    pub(crate) async fn stream(&self, certificate: &Arc<Credentials>) -> mutual_tls::SecureStream<TcpStream> {
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
        "bob (viewer) may read and not change anything; changes need the role operator"
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

/// The statuses of gRPC for a call that the role of the caller does not allow, and for one of nobody.
const PERMISSION_DENIED: &str = "7";
const UNAUTHENTICATED: &str = "16";

/// What a request does.
#[derive(Debug, Clone, Copy)]
struct Does {
    /// It changes nothing.
    reads: bool,
    /// It reads what is of the controller's machine, which only operators may.
    inspects: bool,
    /// It can be limited to the objects of a tenant, or is about no network at all.
    can_be_limited: bool,
}

/// Every call of the service as a request of gRPC with an empty message, and every path of HTTP with each of its methods: its name, and
/// what it does.
async fn requests(secure: &Secure) -> Vec<(String, Does, http::request::Builder)> {
    let can_be_limited = ["Apply", "Delete", "Set", "Get", "Watch", "Status", "ListListings", "Trace"];
    let changes = ["Apply", "Delete", "Set", "Rollback", "LoadRules", "RollbackRules"];
    let described: FileDescriptorSet = prost::Message::decode(DESCRIPTORS).unwrap();
    let methods = described.file.iter().flat_map(|file| &file.service).flat_map(|service| &service.method);
    let mut requests: Vec<_> = methods
        .map(|method| {
            let uri = format!("https://localhost/weft.v1.Controller/{}", method.name());
            let request = http::Request::post(uri).header("content-type", "application/grpc");
            let does = Does {
                reads: !changes.contains(&method.name()),
                inspects: method.name() == "ReadDiagnostics",
                can_be_limited: can_be_limited.contains(&method.name()),
            };
            (method.name().to_owned(), does, request.header("te", "trailers"))
        })
        .collect();
    let questions = ["/v1/trace", "/v1/explain", "/v1/why-not"];
    for (path, method) in secure.described_paths().await {
        let reads = method == "GET" || questions.contains(&path.as_str());
        let kinds: Vec<String> = rules(RULES).kinds().iter().map(|kind| kind.plural()).collect();
        let of_kinds = |path: &str| {
            kinds.iter().any(|kinds| path == format!("/v1/{kinds}") || path == format!("/v1/{kinds}/{{id}}"))
        };
        let others = ["apply", "status", "listings", "openapi.json", "schema", "schema/{kind}", "trace"];
        let is_other = others.iter().any(|other| path == format!("/v1/{other}"));
        let inspects = path == "/v1/diagnostics";
        let does = Does { reads, inspects, can_be_limited: of_kinds(&path) || is_other };
        let uri = format!("https://localhost{}", path.replace(['{', '}'], ""));
        let request = http::Request::builder().method(method.as_str()).uri(uri);
        requests.push((format!("{method} {path}"), does, request));
    }
    requests
}

/// Which requests are refused to whoever shows this: by a status that says so, and by one that says that nobody is known.
async fn refused(
    secure: &Secure,
    credentials: &Arc<Credentials>,
    token: Option<&str>,
) -> Vec<(String, Does, bool)> {
    let requests = requests(secure).await;
    let stream = secure.stream(credentials).await;
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    let connection = tokio::spawn(connection);
    let mut client = client.ready().await.unwrap();
    let mut found = Vec::new();
    for (name, does, mut request) in requests {
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let (answer, mut body) = client.send_request(request.body(()).unwrap(), false).unwrap();
        // A call that is refused may have ended by now. Five zero bytes are an empty message of gRPC, and no document.
        let _ = body.send_data(Bytes::from_static(&[0; 5]), true);
        client = client.ready().await.unwrap();
        // What is refused at once has its status in the headers. Other answers are not waited for.
        let answer = within(answer).await.unwrap();
        let grpc = answer.headers().get("grpc-status").and_then(|status| status.to_str().ok());
        let denied = grpc == Some(PERMISSION_DENIED) || answer.status() == http::StatusCode::FORBIDDEN;
        let unknown = grpc == Some(UNAUTHENTICATED) || answer.status() == http::StatusCode::UNAUTHORIZED;
        assert!(!(denied && unknown));
        found.push((name, does, denied || unknown));
    }
    connection.abort();
    found
}

/// A new call or path has a place in this table by itself: it is one that changes something and that no tenant may use, unless it is listed
/// as another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_and_path_is_refused_to_those_without_a_role_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let (mut file, path) = (TokenFile::default(), folder.path().join("tokens.toml"));
    let (now, hour) = (SystemTime::now(), Duration::from_hours(1));
    let acme = Role::Tenant("acme".to_owned());
    let [viewer, tenant, operator, expired] =
        [(Role::Viewer, hour), (acme, hour), (Role::Operator, hour), (Role::Operator, Duration::ZERO)]
            .map(|(role, good)| file.create("ci", &role, now, now + good).unwrap().text);
    file.write(&path).unwrap();
    let secure = Secure::start_with(folder.path(), Some(Tokens::open(&path).unwrap())).await;
    // Something to read, since a call that finds nothing recorded ends in another way.
    apply(&mut secure.client("alice", "weft:operator", 2).await, NETWORK).await.unwrap();

    let stranger = Credentials::load(secure.authority.trust()).unwrap();
    let of = |role| secure.certificate("mallory", role, 3);
    let nothing = [
        (of(Some("weft:node")), None),
        (of(Some("weft:controller")), None),
        (of(Some("other")), None),
        (of(None), None),
        (stranger.clone(), None),
        (stranger.clone(), Some(expired.as_str())),
        (stranger.clone(), Some("weft_1_2")),
        (of(Some("weft:operator")), Some("weft_1_2")),
    ];
    for (credentials, token) in &nothing {
        let found = refused(&secure, credentials, *token).await;
        assert!(found.len() > 60, "{} calls and paths", found.len());
        for (name, _, refused) in found {
            assert!(refused, "{name} is not refused to {token:?}");
        }
    }
    for (credentials, token) in [(of(Some("weft:viewer")), None), (stranger.clone(), Some(viewer.as_str()))] {
        for (name, does, refused) in refused(&secure, &credentials, token).await {
            assert_eq!(refused, !does.reads || does.inspects, "a viewer calls {name}");
        }
    }
    let tenants = [(of(Some("weft:tenant:acme")), None), (stranger.clone(), Some(tenant.as_str()))];
    for (credentials, token) in tenants {
        for (name, does, refused) in refused(&secure, &credentials, token).await {
            assert_eq!(refused, !does.can_be_limited, "a tenant calls {name}");
        }
    }
    for (credentials, token) in [(of(Some("weft:operator")), None), (stranger, Some(operator.as_str()))] {
        for (name, _, refused) in refused(&secure, &credentials, token).await {
            assert!(!refused, "an operator calls {name}");
        }
    }
    secure.stop().await;
}

/// The unix socket answers still, when nobody can connect over TLS any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_that_has_expired_is_a_problem_of_the_controller() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let expired = authority.credentials(&Leaf { until: 2026, ..controller() });
    assert_eq!(expired.not_after(), Some(SystemTime::UNIX_EPOCH + Duration::from_hours(24 * 20_454)));
    let switches = Switches::default();
    let parts = Parts { credentials: Some(expired), ..parts(folder.path(), rules(RULES), &switches) };
    let running = start_with(parts, switches).await;
    let mut client = running.client().await;
    let status = client.status().await.unwrap();
    let problem = &status.problems[0];
    assert_eq!(problem.code, "certificate-expires");
    assert!(problem.text.contains("has expired at 2026-01-01T00:00:00Z"), "{}", problem.text);
    authority.issue(&Leaf { serial: 9, ..controller() });
    status_when(&mut client, |status| status.problems.is_empty()).await;
    running.stop().await;
}

/// Connections without certificates, in clear text, and half of a handshake: others are answered meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_finish_a_handshake_delays_nobody() {
    const HALF_OPEN: usize = 1_000;
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

fn name(peer: Option<&mutual_tls::Identity>) -> String {
    peer.map_or_else(|| "nobody".to_owned(), ToString::to_string)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_certificate_serves_new_connections_and_ends_none() {
    let folder = tempfile::tempdir().unwrap();
    let secure = Secure::start(folder.path()).await;
    let mut alice = secure.client("alice", "weft:operator", 2).await;
    let bob = secure.certificate("bob", Some("weft:viewer"), 3);
    assert_eq!(name(secure.stream(&bob).await.peer()), "controller (controller)");
    // The next one differs in its role, so that it can be told.
    let next = Leaf { role: None, serial: 4, ..controller() };
    secure.authority.issue(&next);
    let deadline = Instant::now() + DEADLINE;
    while name(secure.stream(&bob).await.peer()) != "controller" {
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
    assert!(
        error.starts_with("https://localhost:1 wants a certificate or a token; set WEFT_AUTHORITIES"),
        "{error}"
    );
}
