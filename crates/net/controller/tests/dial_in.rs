//! Switches that dial in: who is admitted, and to what.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use controller::dial_in::Targets;
use controller::drivers::RealDrivers;
use controller::{DialIn, Parts};
use fake_switch::{FakeDatabase, FakeSwitch};
use mutual_tls::{Credentials, SecureStream};
use objects::ObjectKey;
use ovs_driver::{Peers, Sockets};
use ovsdb_client::open_vswitch::Controller;
use test_authority::{Authority, Leaf, controller};
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinHandle;
use weft_client::{Client, pb};

use crate::support::drivers::Switches;
use crate::support::running::{Running, apply, parts, start_with, status_when, within};
use crate::support::*;

const NODE: &str = "{kind: transport_node, id: hv1, ip: 172.16.0.1}";

/// The serial number of a certificate that was revoked before.
const REVOKED: u64 = 7;

/// A controller where switches dial in, and the authorities of both sides.
struct Setting {
    running: Running,
    controllers: Authority,
    members: Authority,
    folder: tempfile::TempDir,
}

impl Setting {
    async fn start() -> Setting {
        let folder = tempfile::tempdir().unwrap();
        let (controllers, members) = (Authority::new(), Authority::new());
        members.revoke(&[REVOKED], 2);
        let parts = secure_parts(folder.path(), &controllers, &members);
        Setting { running: start_with(parts, Switches::default()).await, controllers, members, folder }
    }

    fn targets(&self) -> [String; 2] {
        let Targets { ovsdb, openflow } = self.running.targets.clone();
        [ovsdb.unwrap(), openflow.unwrap()]
    }

    /// A certificate of the authority that the controller trusts, for somebody who trusts that of controllers.
    fn credentials(&self, leaf: &Leaf<'_>) -> Arc<Credentials> {
        self.trusting_controllers(self.members.issue(leaf))
    }

    fn trusting_controllers(&self, files: mutual_tls::Files) -> Arc<Credentials> {
        trusting(&self.controllers, files)
    }

    fn host(&self, name: &str) -> Host {
        Host::new(self.folder.path(), name)
    }
}

/// A controller with the certificate of one authority, which trusts another, with drivers of real switches, which can dial in.
pub(crate) fn secure_parts(folder: &Path, controllers: &Authority, members: &Authority) -> Parts {
    let files = mutual_tls::Files { own: controllers.issue(&controller()).own, ..members.trust() };
    let credentials = Credentials::load(files).unwrap();
    let sockets = Sockets::default().with_credentials(Some(credentials.clone()));
    let inbound = sockets.inbound().clone();
    let peers = Peers::start(Arc::new(sockets), 2, 128 << 20, || {}).unwrap();
    let any = || Some(([127, 0, 0, 1], 0).into());
    let threads = peers.threads().unwrap().clone();
    let dial_in = DialIn { ovsdb: any(), openflow: any(), advertise: None, inbound, threads };
    Parts {
        credentials: Some(credentials),
        dial_in: Some(dial_in),
        drivers: Box::new(RealDrivers { learned_addresses: 100.try_into().unwrap(), peers }),
        ..parts(folder, rules(RULES), &Switches::default())
    }
}

/// These files, with the authority of controllers as the one that is trusted.
pub(crate) fn trusting(controllers: &Authority, mut files: mutual_tls::Files) -> Arc<Credentials> {
    (files.authorities, files.revoked) = (controllers.path("ca.pem"), None);
    Credentials::load(files).unwrap()
}

/// A host whose switch and database dial in: what they send and get passes through here.
pub(crate) struct Host {
    database: FakeDatabase,
    switch: FakeSwitch,
    sockets: [PathBuf; 2],
    /// The connections that it has begun.
    pub(crate) begun: Arc<AtomicUsize>,
}

impl Host {
    /// One that gives itself this name.
    pub(crate) fn new(folder: &Path, name: &str) -> Host {
        let sockets = ["db", "mgmt"].map(|socket| folder.join(format!("{name}.{socket}")));
        let host = Host {
            database: FakeDatabase::start(&sockets[0]).unwrap(),
            switch: FakeSwitch::start(&sockets[1]).unwrap(),
            sockets,
            begun: Arc::default(),
        };
        host.database.datapath_id("br-int", FakeSwitch::DATAPATH_ID);
        host.call_itself(name);
        host
    }

    fn call_itself(&self, name: &str) {
        self.database.set_system_id(name).unwrap();
    }

    /// Where its bridges dial.
    fn controllers(&self) -> Vec<String> {
        let rows = self.database.rows();
        rows.rows(Controller::TABLE).map(|(_, row)| row.get("target").unwrap()).collect()
    }

    /// Dials in at both targets, with its database and with its switch, again and again.
    fn dial(&self, setting: &Setting, credentials: &Arc<Credentials>) -> [JoinHandle<()>; 2] {
        self.dial_at(setting.targets(), credentials)
    }

    pub(crate) fn dial_at(
        &self,
        [ovsdb, openflow]: [String; 2],
        credentials: &Arc<Credentials>,
    ) -> [JoinHandle<()>; 2] {
        let [database, switch] = self.sockets.clone();
        [(ovsdb, database), (openflow, switch)].map(|(target, socket)| {
            tokio::spawn(relay(target, socket, credentials.clone(), self.begun.clone()))
        })
    }
}

async fn relay(target: String, socket: PathBuf, credentials: Arc<Credentials>, begun: Arc<AtomicUsize>) {
    loop {
        if let Ok(mut outside) = connect(&target, &credentials).await {
            begun.fetch_add(1, Ordering::Relaxed);
            let mut inside = UnixStream::connect(&socket).await.unwrap();
            // However it ends, it begins again.
            let _ = tokio::io::copy_bidirectional(&mut outside, &mut inside).await;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn connect(target: &str, credentials: &Arc<Credentials>) -> std::io::Result<SecureStream<TcpStream>> {
    let stream = TcpStream::connect(address(target)).await?;
    credentials.connect_to_controller(stream, "localhost").await
}

fn address(target: &str) -> &str {
    target.strip_prefix("ssl:").unwrap()
}

/// Whether the controller ends a connection of this peer.
async fn is_refused(target: &str, credentials: &Arc<Credentials>) -> bool {
    match connect(target, credentials).await {
        // With TLS 1.3, the certificate of a client is checked after its handshake.
        Ok(mut stream) => within(stream.read_u8()).await.is_err(),
        Err(_) => true,
    }
}

pub(crate) async fn in_sync(client: &mut Client) -> pb::StatusResponse {
    status_when(client, |status| status.switches.iter().all(|switch| switch.synced)).await
}

fn problem_codes(status: &pb::StatusResponse) -> Vec<&str> {
    status.problems.iter().map(|problem| problem.code.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_switch_that_dials_in_is_managed_until_its_node_is_deleted() {
    let setting = Setting::start().await;
    let mut client = setting.running.client().await;
    let host = setting.host("hv1");
    let hv1 = setting.credentials(&Leaf { role: Some("weft:node"), ..Leaf::new("hv1") });
    let dialling = host.dial(&setting, &hv1);
    // Nobody awaits it yet.
    let status = status_when(&mut client, |status| !status.problems.is_empty()).await;
    let problem = &status.problems[0];
    assert_eq!(problem.code, "switch-unexpected");
    assert!(
        problem.text.contains("with the certificate of hv1, and no transport node hv1 awaits it"),
        "{problem:?}"
    );

    apply(&mut client, NODE).await.unwrap();
    let status = in_sync(&mut client).await;
    assert_eq!(problem_codes(&status), [""; 0]);
    let [_, openflow] = setting.targets();
    assert_eq!(host.controllers(), [openflow]);
    assert!(host.switch.has_primary());

    // It is cut off, and comes back.
    host.database.disconnect();
    host.switch.disconnect();
    status_when(&mut client, |status| !status.switches[0].connected).await;
    in_sync(&mut client).await;

    client.delete(&[ObjectKey::new("transport_node", "hv1")], "test").await.unwrap();
    status_when(&mut client, |status| problem_codes(status).contains(&"switch-unexpected")).await;
    assert_eq!(host.controllers(), [""; 0]);
    dialling.iter().for_each(JoinHandle::abort);
    setting.running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_entrance_admits_the_certificate_of_an_awaited_node_and_no_other() {
    let setting = Setting::start().await;
    let mut client = setting.running.client().await;
    apply(&mut client, NODE).await.unwrap();
    let member = |name: &'static str, role: Option<&'static str>| {
        (format!("{name} {role:?}"), setting.credentials(&Leaf { role, ..Leaf::new(name) }))
    };
    let foreign = setting.trusting_controllers(Authority::new().issue(&Leaf::new("hv1")));
    let of_controllers = setting.trusting_controllers(setting.controllers.issue(&Leaf::new("hv1")));
    let refused = [
        ("nobody".to_owned(), setting.trusting_controllers(setting.members.trust())),
        ("of another authority".to_owned(), foreign),
        ("of the authority of controllers".to_owned(), of_controllers),
        ("expired".to_owned(), setting.credentials(&Leaf { until: 2020, ..Leaf::new("hv1") })),
        ("revoked".to_owned(), setting.credentials(&Leaf { serial: REVOKED, ..Leaf::new("hv1") })),
        member("hv1", Some("weft:viewer")),
        member("hv1", Some("weft:tenant:acme")),
        member("hv1", Some("weft:operator")),
        member("hv1", Some("weft:controller")),
        member("hv2", Some("weft:node")),
    ];
    for (target, role) in setting.targets().into_iter().zip([None, Some("weft:node")]) {
        for (who, credentials) in &refused {
            assert!(is_refused(&target, credentials).await, "{who} at {target}");
        }
        let (_, hv1) = member("hv1", role);
        // Its driver speaks first.
        let mut stream = connect(&target, &hv1).await.unwrap();
        within(stream.read_u8()).await.unwrap();
    }
    setting.running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_switch_that_gives_itself_the_name_of_another_node_gets_nothing() {
    let setting = Setting::start().await;
    let mut client = setting.running.client().await;
    apply(&mut client, &format!("{NODE}\n---\n{{kind: transport_node, id: hv2, ip: 172.16.0.2}}"))
        .await
        .unwrap();
    let host = setting.host("hv2");
    let dialling = host.dial(&setting, &setting.credentials(&Leaf::new("hv1")));
    let status =
        status_when(&mut client, |status| status.switches[0].last_error.contains("external_ids:system-id"))
            .await;
    let error = &status.switches[0].last_error;
    assert!(
        error
            .contains("the certificate of hv1, but its external_ids:system-id is hv2; nothing is sent to it"),
        "{error}"
    );
    assert!(host.database.bridges().is_empty());
    host.call_itself("hv1");
    status_when(&mut client, |status| status.switches[0].synced).await;
    assert!(!client.status().await.unwrap().switches[1].connected);
    dialling.iter().for_each(JoinHandle::abort);
    setting.running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_switch_with_the_same_certificate_is_refused_and_a_problem() {
    let setting = Setting::start().await;
    let mut client = setting.running.client().await;
    apply(&mut client, NODE).await.unwrap();
    let hv1 = setting.credentials(&Leaf::new("hv1"));
    let host = setting.host("hv1");
    let dialling = host.dial(&setting, &hv1);
    in_sync(&mut client).await;
    for target in setting.targets() {
        assert!(is_refused(&target, &hv1).await, "{target}");
    }
    let second = "connection: a second switch has dialled in from 127.0.0.1 ";
    let status = status_when(&mut client, |status| status.switches[0].last_error.starts_with(second)).await;
    assert!(status.switches[0].synced, "{status:?}");
    dialling.iter().for_each(JoinHandle::abort);
    setting.running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_say_nothing_keep_no_switch_out() {
    /// Of one kind, at each entrance.
    const SILENT: usize = 500;
    let setting = Setting::start().await;
    let mut client = setting.running.client().await;
    let mut silent = Vec::new();
    for target in setting.targets() {
        for _ in 0..SILENT {
            silent.push(TcpStream::connect(address(&target)).await.unwrap());
        }
    }
    apply(&mut client, NODE).await.unwrap();
    let host = setting.host("hv1");
    let dialling = host.dial(&setting, &setting.credentials(&Leaf::new("hv1")));
    in_sync(&mut client).await;
    // They do not stay.
    for mut stream in silent {
        assert_eq!(within(stream.read(&mut [0])).await.unwrap_or(0), 0);
    }
    dialling.iter().for_each(JoinHandle::abort);
    setting.running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_switch_is_cut_off() {
    let setting = Setting::start().await;
    let mut client = setting.running.client().await;
    apply(&mut client, NODE).await.unwrap();
    let host = setting.host("hv1");
    let dialling = host.dial(&setting, &setting.credentials(&Leaf { serial: 3, ..Leaf::new("hv1") }));
    in_sync(&mut client).await;
    setting.members.revoke(&[3], 3);
    status_when(&mut client, |status| status.switches[0].last_error.contains("the certificate of hv1: "))
        .await;
    dialling.iter().for_each(JoinHandle::abort);
    setting.running.stop().await;
}
