//! Certificates of everybody that are renewed while requests, watches and switches go on over TLS.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use controller::dial_in::Targets;
use controller::{Daemon, Listen, Parts};
use mutual_tls::{Credentials, SecureStream};
use test_authority::{Authority, Leaf, controller};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use weft_client::{Client, Identification};

use crate::dial_in::{Host, in_sync, secure_parts, trusting};
use crate::support::running::{apply, within};
use crate::support::web::{Web, next};

const NODE: &str = "{kind: transport_node, id: hv1, ip: 172.16.0.1}";
/// How often all certificates change.
const ROUNDS: u64 = 3;
/// The requests of each client that are answered between two changes.
const REQUESTS: u64 = 20;
/// The connections of a host: of its database and of its switch.
const OF_HOST: usize = 2;

/// A controller with an API over TLS, where switches dial in over TLS.
struct Secure {
    controllers: Authority,
    members: Authority,
    port: u16,
    targets: [String; 2],
    stop: oneshot::Sender<()>,
    end: JoinHandle<Result<(), controller::DaemonError>>,
}

impl Secure {
    async fn start(folder: &Path) -> Secure {
        let (controllers, members) = (Authority::new(), Authority::new());
        let listen = Listen::Tcp(([127, 0, 0, 1], 0).into());
        let parts = Parts { listen, ..secure_parts(folder, &controllers, &members) };
        let daemon = Daemon::start(parts).await.unwrap_or_else(|error| panic!("{error}"));
        let Listen::Tcp(address) = daemon.listen().clone() else { panic!("a port") };
        let Targets { ovsdb, openflow } = daemon.targets().clone();
        let (stop, stopped) = oneshot::channel();
        let end = tokio::spawn(daemon.run(async move { stopped.await.unwrap_or(()) }));
        let targets = [ovsdb.unwrap(), openflow.unwrap()];
        Secure { controllers, members, port: address.port(), targets, stop, end }
    }

    /// A certificate of a member.
    fn member(&self, leaf: &Leaf<'_>) -> Arc<Credentials> {
        trusting(&self.controllers, self.members.issue(leaf))
    }

    async fn stream(&self, credentials: &Arc<Credentials>) -> SecureStream<TcpStream> {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        credentials.connect_to_controller(stream, "localhost").await.unwrap()
    }

    async fn client(&self, credentials: &Arc<Credentials>) -> Client {
        let identification = Identification { credentials: Some(credentials.clone()), token: None };
        let address = format!("https://localhost:{}", self.port);
        Client::connect_as(&address, &identification).await.unwrap_or_else(|error| panic!("{error}"))
    }

    /// The controller shows another certificate from now on, whose name is this.
    async fn renew(&self, name: &str, serial: u64, credentials: &Arc<Credentials>) {
        let other = self.controllers.issue(&Leaf { name, serial, ..controller() }).own.unwrap();
        fs::copy(other.key, self.controllers.path("controller.key")).unwrap();
        fs::copy(other.certificate, self.controllers.path("controller.pem")).unwrap();
        let shown = async || self.stream(credentials).await.peer().unwrap().name.clone();
        within(async { while shown().await != name {} }).await;
    }
}

/// A client that changes and reads over one connection, and how many of its requests were answered.
struct Asking {
    answered: Arc<AtomicU64>,
    done: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Asking {
    fn start(mut web: Web, id: &'static str) -> Asking {
        let (answered, done) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (count, is_done) = (answered.clone(), done.clone());
        let path = format!("/v1/switches/{id}");
        let task = tokio::spawn(async move {
            while !is_done.load(Ordering::Relaxed) {
                for answer in [web.put(&path, "{}").await, web.get(&path).await, web.delete(&path).await] {
                    assert!(answer.status.is_success(), "{answer:?}");
                    count.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        Asking { answered, done, task }
    }

    /// Waits until more requests have been answered.
    async fn goes_on(&self) {
        let goal = self.answered.load(Ordering::Relaxed) + REQUESTS;
        let reached = async {
            while self.answered.load(Ordering::Relaxed) < goal {
                assert!(!self.task.is_finished(), "a request was not answered");
                tokio::task::yield_now().await;
            }
        };
        within(reached).await;
    }

    async fn end(self) {
        self.done.store(true, Ordering::Relaxed);
        within(self.task).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_of_all_change_and_no_request_and_no_connection_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let secure = Secure::start(folder.path()).await;
    let operator = Leaf { role: Some("weft:operator"), ..Leaf::new("alice") };
    let alice = secure.member(&operator);
    let mut client = secure.client(&alice).await;
    apply(&mut client, NODE).await.unwrap();
    let host = Host::new(folder.path(), "hv1");
    let hv1 = secure.member(&Leaf::new("hv1"));
    let dialling = host.dial_at(secure.targets.clone(), &hv1);
    in_sync(&mut client).await;
    let begun = host.begun.load(Ordering::Relaxed);

    // Two clients, and one who watches.
    let mut asking = Vec::new();
    for id in ["one", "other"] {
        asking.push(Asking::start(Web::over(secure.stream(&alice).await).await, id));
    }
    let mut watching = Web::over(secure.stream(&alice).await).await;
    let mut watched = watching.open("GET", "/v1/switches?watch=true", &[], "").await.into_body();
    next(&mut watched).await.unwrap();

    for round in 1..=ROUNDS {
        // The hosts and the clients too, for their next connections.
        secure.members.issue(&Leaf { serial: 10 + round, ..Leaf::new("hv1") });
        secure.members.issue(&Leaf { serial: 20 + round, ..operator.clone() });
        assert!(hv1.reload().unwrap() && alice.reload().unwrap());
        secure.renew(&format!("controller-{round}"), 30 + round, &alice).await;
        for one in &asking {
            one.goes_on().await;
        }
        let status = in_sync(&mut client).await;
        assert!(status.switches[0].connected && status.problems.is_empty(), "{status:?}");
    }
    for one in asking {
        one.end().await;
    }
    // The watch goes on: what is new arrives, with the new certificates too.
    let made = Web::over(secure.stream(&alice).await).await.put("/v1/switches/late", "{}").await;
    assert!(made.status.is_success(), "{made:?}");
    while !String::from_utf8(next(&mut watched).await.unwrap()).unwrap().contains("late") {}
    assert_eq!((host.begun.load(Ordering::Relaxed), begun >= OF_HOST), (begun, true));
    dialling.iter().for_each(JoinHandle::abort);
    secure.stop.send(()).unwrap();
    within(secure.end).await.unwrap().unwrap();
}
