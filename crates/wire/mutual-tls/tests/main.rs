//! Handshakes with good and bad certificates, files that change, and how connections end.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use mutual_tls::{Credentials, Files, RECHECK, SecureStream, Strangers};
use test_authority::{Authority, Leaf, controller};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

type Secure = std::io::Result<SecureStream<DuplexStream>>;

/// Both ends of a connection of a client to a controller at `localhost`.
async fn to_controller(server: &Arc<Credentials>, client: &Arc<Credentials>) -> (Secure, Secure) {
    let (here, there) = duplex(1 << 14);
    tokio::join!(server.accept(there, Strangers::Refused), client.connect_to_controller(here, "localhost"))
}

/// Both ends of a connection of a controller to a switch with this name.
async fn to_switch(switch: &Arc<Credentials>, controller: &Arc<Credentials>, name: &str) -> (Secure, Secure) {
    let (here, there) = duplex(1 << 14);
    tokio::join!(switch.accept(there, Strangers::Refused), controller.connect_to_switch(here, name))
}

/// Who is at the other end.
fn who(stream: &SecureStream<DuplexStream>) -> String {
    stream.peer().map_or_else(|| "nobody".to_owned(), ToString::to_string)
}

fn text(secure: Secure) -> String {
    match secure {
        Ok(stream) => who(&stream),
        Err(error) => format!("error: {error}"),
    }
}

#[tokio::test]
async fn each_side_knows_the_other_by_name_and_role() {
    let authority = Authority::new();
    let server = authority.credentials(&controller());
    let alice = authority.credentials(&Leaf { role: Some("weft:operator"), ..Leaf::new("alice") });
    let (at_server, at_client) = to_controller(&server, &alice).await;
    let (mut at_server, mut at_client) = (at_server.unwrap(), at_client.unwrap());
    assert_eq!(who(&at_server), "alice (operator)");
    assert_eq!(who(&at_client), "controller (controller)");
    at_client.write_all(b"hello").await.unwrap();
    let mut buffer = [0; 5];
    at_server.read_exact(&mut buffer).await.unwrap();
    assert_eq!(&buffer, b"hello");
}

#[tokio::test]
async fn a_controller_is_known_by_the_address_that_is_dialled() {
    let authority = Authority::new();
    let elsewhere = authority.credentials(&Leaf { host: Some("192.0.2.1"), ..Leaf::new("controller") });
    let alice = authority.credentials(&Leaf::new("alice"));
    let (_, at_client) = to_controller(&elsewhere, &alice).await;
    let error = text(at_client);
    assert!(error.contains("not valid for name \"localhost\""), "{error}");
}

#[tokio::test]
async fn strangers_the_expired_and_the_revoked_are_refused() {
    let (authority, foreign) = (Authority::new(), Authority::new());
    let server = authority.credentials(&controller());
    let refused = async |client: &Arc<Credentials>| text(to_controller(&server, client).await.0);

    // A stranger that trusts this authority, so that it is the server that refuses.
    let mut files = foreign.issue(&Leaf::new("mallory"));
    files.authorities = authority.path("ca.pem");
    files.revoked = None;
    let error = refused(&Credentials::load(files).unwrap()).await;
    assert!(error.contains("UnknownIssuer") || error.contains("BadSignature"), "{error}");

    let error = refused(&authority.credentials(&Leaf { until: 2020, ..Leaf::new("old") })).await;
    assert!(error.contains("expired"), "{error}");

    let eve = authority.credentials(&Leaf { serial: 7, ..Leaf::new("eve") });
    assert_eq!(refused(&eve).await, "eve");
    authority.revoke(&[7], 2);
    assert!(server.reload().unwrap());
    let error = refused(&eve).await;
    assert!(error.contains("Revoked"), "{error}");
    assert_eq!(refused(&authority.credentials(&Leaf { serial: 8, ..Leaf::new("alice") })).await, "alice");
}

#[tokio::test]
async fn a_switch_must_have_the_name_of_its_node() {
    let authority = Authority::new();
    let controller = authority.credentials(&controller());
    let at_controller = async |leaf: Leaf<'_>, name: &str| {
        text(to_switch(&authority.credentials(&leaf), &controller, name).await.1)
    };
    // As Open vSwitch's own tool makes them, and as ours does.
    assert_eq!(at_controller(Leaf::new("hv1 id:8cf6bcbd"), "hv1").await, "hv1");
    assert_eq!(
        at_controller(Leaf { role: Some("weft:node"), ..Leaf::new("hv1") }, "hv1").await,
        "hv1 (node)"
    );
    let error = at_controller(Leaf::new("hv2"), "hv1").await;
    assert!(error.contains("its certificate names hv2, not hv1"), "{error}");
    let error = at_controller(Leaf { role: Some("weft:operator"), ..Leaf::new("hv1") }, "hv1").await;
    assert!(error.contains("is that of hv1 (operator), not of a switch"), "{error}");
    let error = at_controller(Leaf { until: 2020, ..Leaf::new("hv1") }, "hv1").await;
    assert!(error.contains("expired"), "{error}");
}

#[tokio::test]
async fn strangers_are_admitted_where_a_server_says_so() {
    let authority = Authority::new();
    let server = authority.credentials(&controller());
    let stranger = Credentials::load(authority.trust()).unwrap();
    let (at_server, _) = to_controller(&server, &stranger).await;
    let error = text(at_server);
    assert!(error.contains("peer sent no certificates"), "{error}");
    let admitted = async |client: &Arc<Credentials>| {
        let (here, there) = duplex(1 << 14);
        let (server, client) = tokio::join!(
            server.accept(there, Strangers::Admitted),
            client.connect_to_controller(here, "localhost")
        );
        (text(server), text(client))
    };
    assert_eq!(admitted(&stranger).await, ("nobody".to_owned(), "controller (controller)".to_owned()));
    assert_eq!(admitted(&authority.credentials(&Leaf::new("alice"))).await.0, "alice");
    // A certificate that is shown must be good.
    let (server, _) = admitted(&authority.credentials(&Leaf { until: 2020, ..Leaf::new("old") })).await;
    assert!(server.contains("expired"), "{server}");
    // Who has none cannot serve.
    let (here, _there) = duplex(1 << 14);
    let error = text(stranger.accept(here, Strangers::Admitted).await);
    assert!(error.contains("there is no certificate to serve with"), "{error}");
}

/// Without the announcement, reading would be an error in place of the end.
#[tokio::test]
async fn both_sides_announce_the_end_of_a_connection_after_what_they_have_sent() {
    let authority = Authority::new();
    let server = authority.credentials(&controller());
    let alice = authority.credentials(&Leaf::new("alice"));
    for shuts_down in [true, false] {
        for ends in ["server", "client"] {
            let (at_server, at_client) = to_controller(&server, &alice).await;
            let (at_server, at_client) = (at_server.unwrap(), at_client.unwrap());
            let (mut ending, mut other) =
                if ends == "server" { (at_server, at_client) } else { (at_client, at_server) };
            ending.write_all(b"last words").await.unwrap();
            if shuts_down {
                ending.shutdown().await.unwrap();
            }
            drop(ending);
            let mut read = Vec::new();
            other
                .read_to_end(&mut read)
                .await
                .unwrap_or_else(|error| panic!("{ends}, {shuts_down}: {error}"));
            assert_eq!(read, b"last words");
        }
    }
}

/// Somebody between could end it so, after half of what was sent.
#[tokio::test]
async fn an_end_that_is_not_announced_is_an_error_that_says_so() {
    let authority = Authority::new();
    let server = authority.credentials(&controller());
    let (at_server, at_client) = to_controller(&server, &authority.credentials(&Leaf::new("alice"))).await;
    let (mut at_server, mut at_client) = (at_server.unwrap(), at_client.unwrap());
    at_client.write_all(b"half of").await.unwrap();
    at_client.transport_mut().shutdown().await.unwrap();
    let mut read = Vec::new();
    let error = at_server.read_to_end(&mut read).await.unwrap_err();
    assert_eq!((error.kind(), read.as_slice()), (ErrorKind::UnexpectedEof, b"half of".as_slice()));
    assert!(
        error.to_string().starts_with("the connection was cut, since its end was not announced"),
        "{error}"
    );
}

#[tokio::test]
async fn a_switch_that_refuses_the_controller_is_an_error_with_the_remedy() {
    let (authority, foreign) = (Authority::new(), Authority::new());
    let mut files = foreign.issue(&controller());
    let shown = files.own.clone().unwrap().certificate.display().to_string();
    (files.authorities, files.revoked) = (authority.path("ca.pem"), None);
    let stranger = Credentials::load(files).unwrap();
    let hv1 = authority.credentials(&Leaf::new("hv1"));
    let (_, at_controller) = to_switch(&hv1, &stranger, "hv1").await;
    // The handshake of TLS 1.3 is done before the switch looks at the certificate.
    let error = at_controller.unwrap().read_u8().await.unwrap_err().to_string();
    let start = format!("the other side refuses the certificate {shown} (UnknownCA); ");
    assert!(error.starts_with(&start) && error.contains("`ovs-vsctl set-ssl`"), "{error}");

    // A switch that says nothing about it.
    let (at_switch, at_controller) = to_switch(&hv1, &authority.credentials(&controller()), "hv1").await;
    at_switch.unwrap().transport_mut().shutdown().await.unwrap();
    let error = at_controller.unwrap().read_u8().await.unwrap_err().to_string();
    assert!(
        error.starts_with("the connection was ended before anything came (")
            && error.contains("if the switch refuses the certificate ")
            && error.ends_with("`ovs-vsctl get-ssl` shows them"),
        "{error}"
    );
}

/// Time is virtual: it passes while nothing can run.
#[tokio::test(start_paused = true)]
async fn an_open_connection_ends_once_its_certificate_is_revoked() {
    let authority = Authority::new();
    let server = authority.credentials(&controller());
    let (good, bad) = (Leaf::new("good"), Leaf { serial: 9, ..Leaf::new("bad") });
    let (good, bad) = (authority.credentials(&good), authority.credentials(&bad));
    let (good, bad) = (to_controller(&server, &good).await, to_controller(&server, &bad).await);
    let (mut to_good, mut to_bad) = (good.0.unwrap(), bad.0.unwrap());
    authority.revoke(&[9], 2);
    server.reload().unwrap();
    let begun = tokio::time::Instant::now();
    let error = to_bad.read_u8().await.unwrap_err().to_string();
    assert!(error.contains("the certificate of bad: ") && error.contains("Revoked"), "{error}");
    assert!(begun.elapsed() <= RECHECK, "{:?}", begun.elapsed());
    assert_eq!(to_bad.write_all(b"x").await.unwrap_err().kind(), std::io::ErrorKind::PermissionDenied);
    // The other one goes on.
    let mut client = good.1.unwrap();
    tokio::time::sleep(3 * RECHECK).await;
    client.write_all(b"x").await.unwrap();
    assert_eq!(to_good.read_u8().await.unwrap(), b'x');
}

/// A switch too: the controller ends the connection that it has made.
#[tokio::test(start_paused = true)]
async fn a_connection_to_a_switch_ends_once_its_certificate_is_revoked() {
    let authority = Authority::new();
    let controller = authority.credentials(&controller());
    let switch = authority.credentials(&Leaf { serial: 3, ..Leaf::new("hv1") });
    let (_switch, to_switch) = to_switch(&switch, &controller, "hv1").await;
    let mut to_switch = to_switch.unwrap();
    authority.revoke(&[3], 2);
    controller.reload().unwrap();
    let error = to_switch.read_u8().await.unwrap_err().to_string();
    assert!(error.contains("the certificate of hv1: ") && error.contains("Revoked"), "{error}");
}

#[tokio::test]
async fn a_changed_certificate_is_used_and_a_broken_one_is_not() {
    let authority = Authority::new();
    let server = authority.credentials(&Leaf { serial: 1, ..controller() });
    let alice = authority.credentials(&Leaf { serial: 2, ..Leaf::new("alice") });
    assert!(!server.reload().unwrap());
    let name = async || text(to_controller(&server, &alice).await.1);
    assert_eq!(name().await, "controller (controller)");
    // Another one under the same name of file.
    let other =
        authority.issue(&Leaf { serial: 3, ..Leaf { host: Some("localhost"), ..Leaf::new("other") } });
    let here = |name: &str| authority.path(name);
    let other = other.own.unwrap();
    fs::copy(&other.certificate, here("controller.pem")).unwrap();
    let error = server.reload().unwrap_err().to_string();
    assert!(error.contains("its key is expected in"), "{error}");
    assert_eq!(name().await, "controller (controller)");
    fs::copy(&other.key, here("controller.key")).unwrap();
    assert!(server.reload().unwrap());
    assert_eq!(name().await, "other");
    fs::write(here("controller.pem"), "what?").unwrap();
    let error = server.reload().unwrap_err().to_string();
    assert!(error.ends_with("controller.pem: it has no certificate in PEM"), "{error}");
    fs::remove_file(here("controller.pem")).unwrap();
    let error = server.reload().unwrap_err().to_string();
    assert!(error.starts_with("cannot read ") && error.contains("controller.pem"), "{error}");
    assert_eq!(name().await, "other");
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let authority = Authority::new();
    let files = authority.issue(&Leaf::new("a"));
    let error = |files: Files| Credentials::load(files).unwrap_err().to_string();
    let with = |text: &str, change: fn(&mut Files, &Path)| {
        let path = authority.path("broken");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let mut files = files.clone();
        change(&mut files, &path);
        error(files)
    };
    let own = files.own.clone().unwrap();
    let certificate = fs::read_to_string(&own.certificate).unwrap();
    let of_key = with(&certificate, |files, path| files.own.as_mut().unwrap().key = path.into());
    assert!(of_key.contains("broken: it has no private key in PEM"), "{of_key}");
    let of_lists = with(&certificate, |files, path| files.revoked = Some(path.into()));
    assert!(of_lists.ends_with("broken: it has no revocation list in PEM"), "{of_lists}");
    let of_authorities = with("", |files, path| files.authorities = path.into());
    assert!(of_authorities.ends_with("broken: it has no certificate in PEM"), "{of_authorities}");
    fs::set_permissions(&own.key, fs::Permissions::from_mode(0o644)).unwrap();
    let of_mode = error(files);
    assert!(
        of_mode.starts_with("every user can read the key ") && of_mode.contains("chmod 600"),
        "{of_mode}"
    );
}

#[tokio::test]
async fn a_certificate_with_an_empty_name_has_none() {
    let authority = Authority::new();
    let server = authority.credentials(&controller());
    let nameless = authority.credentials(&Leaf { role: Some("weft:operator"), ..Leaf::new("") });
    let (at_server, _) = to_controller(&server, &nameless).await;
    let said = text(at_server);
    assert!(said.contains("a certificate without a name"), "{said}");
}
