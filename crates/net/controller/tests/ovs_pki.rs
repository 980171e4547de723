//! What certificates that `ovs-pki` has made can do at the API, and what they lack.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use controller::tokens::{TokenFile, Tokens};
use controller::{Daemon, Listen, Parts};
use mutual_tls::{Credentials, Files, Role};
use test_authority::ovs_pki::{OvsPki, Signer};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use weft_client::{Client, ClientError, Identification};

use crate::support::drivers::Switches;
use crate::support::running::{parts, within};
use crate::support::*;

/// A controller with this certificate, and the token of an operator.
struct Secure {
    port: u16,
    token: String,
    stop: oneshot::Sender<()>,
    end: JoinHandle<Result<(), controller::DaemonError>>,
}

impl Secure {
    async fn start(folder: &Path, files: Files) -> Secure {
        let (mut file, path) = (TokenFile::default(), folder.join("tokens.toml"));
        let now = SystemTime::now();
        let token = file.create("ci", &Role::Operator, now, now + Duration::from_hours(1)).unwrap().text;
        file.write(&path).unwrap();
        let parts = Parts {
            listen: Listen::Tcp(([127, 0, 0, 1], 0).into()),
            credentials: Some(Credentials::load(files).unwrap()),
            tokens: Some(Arc::new(Tokens::open(&path).unwrap())),
            ..parts(folder, rules(RULES), &Switches::default())
        };
        let daemon = Daemon::start(parts).await.unwrap_or_else(|error| panic!("{error}"));
        let Listen::Tcp(address) = daemon.listen().clone() else { panic!("a port") };
        let (stop, stopped) = oneshot::channel();
        let end = tokio::spawn(daemon.run(async move { stopped.await.unwrap_or(()) }));
        Secure { port: address.port(), token, stop, end }
    }

    async fn client(&self, files: Files, token: Option<&str>) -> Result<Client, ClientError> {
        let credentials = Some(Credentials::load(files).unwrap());
        let identification = Identification { credentials, token: token.map(str::to_owned) };
        Client::connect_as(&format!("https://localhost:{}", self.port), &identification).await
    }

    async fn stop(self) {
        self.stop.send(()).expect("it runs");
        within(self.end).await.expect("it does not panic").unwrap_or_else(|error| panic!("{error}"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_of_ovs_pki_has_no_role_and_a_token_gives_one() {
    let (pki, folder) = (OvsPki::new(), tempfile::tempdir().unwrap());
    let secure = Secure::start(folder.path(), pki.issue_exactly("localhost", Signer::Controllers)).await;
    let hv1 = pki.issue("hv1", Signer::Switches);
    let mut client = secure.client(hv1.clone(), None).await.unwrap();
    let error = client.status().await.unwrap_err();
    assert!(matches!(error, ClientError::Forbidden(_)), "{error}");
    let error = error.to_string();
    assert!(error.starts_with("the certificate of hv1 gives no access to the API; "), "{error}");
    for remedy in ["organisation (O) weft:operator", "spiffe://", "`weft pki client", "a token"] {
        assert!(error.contains(remedy), "{remedy}: {error}");
    }
    let stranger = Files { own: None, ..hv1 };
    let mut client = secure.client(stranger, Some(&secure.token)).await.unwrap();
    client.status().await.unwrap();
    secure.stop().await;
}

/// As the tool makes them by itself: the name is followed by a number, so that it is no DNS name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_do_not_know_a_controller_by_the_name_that_ovs_pki_gives_it() {
    let (pki, folder) = (OvsPki::new(), tempfile::tempdir().unwrap());
    let secure = Secure::start(folder.path(), pki.issue("localhost", Signer::Controllers)).await;
    let stranger = Files { own: None, ..pki.issue("hv1", Signer::Switches) };
    let error = secure.client(stranger, Some(&secure.token)).await.unwrap_err().to_string();
    for part in ["invalid peer certificate", "DNS name", "subjectAltName", "`ovs-pki --unique`"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    secure.stop().await;
}
