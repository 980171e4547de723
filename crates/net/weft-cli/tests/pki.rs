//! `weft pki`: certificates as OpenSSL and rustls read them, and files that nobody overwrites or reads by accident.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::process::{Command, Stdio};
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};
use rustls::server::WebPkiClientVerifier;

use crate::support::{Folder, Outcome, finish};

/// A folder with both CAs in `pki`.
fn with_ca() -> Folder {
    let folder = Folder::new();
    folder.weft(&["pki", "init", "--address", "192.0.2.1", "--address", "weft.example.net"]).has_status(0);
    folder
}

/// The folder of the CA that signs this name.
fn home(name: &str) -> &'static str {
    if name.starts_with("controller") { "pki/controllers" } else { "pki/members" }
}

/// Runs OpenSSL in the folder of a CA.
fn openssl(folder: &Folder, home: &str, arguments: &[&str]) -> Outcome {
    let mut command = Command::new("openssl");
    command.args(arguments).current_dir(folder.path(home)).stdin(Stdio::null());
    finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

/// What OpenSSL says of a certificate.
fn described(folder: &Folder, name: &str, what: &[&str]) -> String {
    let file = format!("{name}.pem");
    openssl(folder, home(name), &[&["x509", "-noout", "-in", &file], what].concat())
        .has_status(0)
        .stdout
        .clone()
}

fn serial(folder: &Folder, name: &str) -> String {
    described(folder, name, &["-serial"]).trim_start_matches("serial=").trim().to_owned()
}

/// Whether OpenSSL accepts the certificate in a file, at either end of a connection, with the revocation list.
fn is_accepted(folder: &Folder, file: &str) -> bool {
    let accepted = ["sslclient", "sslserver"].map(|purpose| {
        let how = ["verify", "-x509_strict", "-crl_check", "-CRLfile", "revoked.pem", "-CAfile", "ca.pem"];
        let outcome = openssl(folder, home(file), &[&how[..], &["-purpose", purpose, file]].concat());
        let is_accepted = outcome.status == Some(0);
        let why = outcome.stderr.contains("certificate revoked");
        assert!(is_accepted != why, "{file}: {}", outcome.stderr);
        is_accepted
    });
    assert_eq!(accepted[0], accepted[1]);
    accepted[0]
}

/// The same of rustls, as a server that knows its clients.
fn is_accepted_by_rustls(folder: &Folder, file: &str) -> bool {
    let path = |name: &str| folder.path(&format!("{}/{name}", home(file)));
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(path("ca.pem")).unwrap()).unwrap();
    let list = CertificateRevocationListDer::from_pem_file(path("revoked.pem")).unwrap();
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let verifier = verifier.with_crls([list]).build().unwrap();
    let chain: Vec<_> = CertificateDer::pem_file_iter(path(file)).unwrap().collect::<Result<_, _>>().unwrap();
    assert_eq!(chain.len(), 2);
    match verifier.verify_client_cert(&chain[0], &chain[1..], UnixTime::now()) {
        Ok(_) => true,
        Err(error) => {
            assert!(format!("{error:?}").contains("Revoked"), "{error:?}");
            false
        }
    }
}

/// The names of the files in a folder, with the permissions of each.
fn files(folder: &Folder, name: &str) -> BTreeSet<(String, u32)> {
    let entries = fs::read_dir(folder.path(name)).unwrap().map(|entry| {
        let entry = entry.unwrap();
        (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().mode() & 0o777)
    });
    entries.collect()
}

fn states(folder: &Folder) -> Vec<(String, String)> {
    let outcome = folder.weft(&["pki", "list", "--json"]);
    let lines = outcome.has_status(0).lines().into_iter().map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let text = |member: &str| line[member].as_str().unwrap().to_owned();
        (text("name"), text("state"))
    });
    lines.collect()
}

fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter().map(|(name, state)| ((*name).to_owned(), (*state).to_owned())).collect()
}

#[test]
fn an_empty_folder_becomes_a_ca_with_the_certificate_of_the_controller() {
    let folder = with_ca();
    let wanted = [
        (".lock", 0o600),
        ("ca.key", 0o600),
        ("ca.pem", 0o644),
        ("controller.key", 0o600),
        ("controller.pem", 0o644),
        ("issued.txt", 0o644),
        ("revoked.pem", 0o644),
    ];
    let mut wanted: BTreeSet<_> = wanted.into_iter().map(|(name, mode)| (name.to_owned(), mode)).collect();
    assert_eq!(files(&folder, "pki/controllers"), wanted);
    wanted.retain(|(name, _)| !name.starts_with("controller"));
    assert_eq!(files(&folder, "pki/members"), wanted);
    assert_eq!(
        files(&folder, "pki"),
        [("controllers".to_owned(), 0o700), ("members".to_owned(), 0o700)].into()
    );

    let ca = described(&folder, "ca", &["-text"]);
    for part in ["CA:TRUE, pathlen:0", "Certificate Sign, CRL Sign", "NIST CURVE: P-256", "ecdsa-with-SHA256"]
    {
        assert!(ca.contains(part), "{part}: {ca}");
    }
    let controller = described(&folder, "controller", &["-subject", "-text"]);
    for part in [
        "O = weft:controller, CN = controller",
        "DNS:controller, IP Address:192.0.2.1, DNS:weft.example.net, DNS:localhost, IP Address:127.0.0.1, IP Address:0:0:0:0:0:0:0:1",
        "TLS Web Server Authentication, TLS Web Client Authentication",
        "Digital Signature",
        "CA:FALSE",
        "NIST CURVE: P-256",
    ] {
        assert!(controller.contains(part), "{part}: {controller}");
    }
    // Clocks differ, so it is valid five minutes before it was issued. OpenSSL counts from now.
    for (name, days) in [("ca", 3650), ("controller", 825)] {
        let ends = |after: i64| {
            let file = format!("{name}.pem");
            let seconds = (days * 24 * 60 * 60 + after).to_string();
            openssl(&folder, home(name), &["x509", "-noout", "-in", &file, "-checkend", &seconds]).status
                == Some(1)
        };
        assert!(!ends(-300) && ends(60), "{name}");
    }
    let list = openssl(
        &folder,
        "pki/members",
        &["crl", "-noout", "-text", "-CAfile", "ca.pem", "-in", "revoked.pem"],
    );
    assert!(list.has_status(0).stdout.contains("No Revoked Certificates"), "{}", list.stdout);
    assert!(list.stderr.contains("verify OK"), "{}", list.stderr);
    assert!(is_accepted(&folder, "controller.pem") && is_accepted_by_rustls(&folder, "controller.pem"));
    // Open vSwitch learns the CA from the chain.
    let chain = fs::read_to_string(folder.path("pki/controllers/controller.pem")).unwrap();
    let [controllers, members] = ["controllers", "members"]
        .map(|half| fs::read_to_string(folder.path(&format!("pki/{half}/ca.pem"))).unwrap());
    assert!(chain.ends_with(&controllers));
    // A host must not be able to act as a controller.
    assert_ne!(controllers, members);
    folder.weft(&["pki", "node", "hv1"]).has_status(0);
    let how = ["verify", "-CAfile", "../controllers/ca.pem", "hv1.pem"];
    assert_ne!(openssl(&folder, "pki/members", &how).status, Some(0));
}

#[test]
fn the_key_of_a_certificate_is_its_own_and_is_printed_nowhere() {
    let folder = Folder::new();
    let outcomes = [
        folder.weft(&["pki", "init"]),
        folder.weft(&["pki", "node", "hv1"]),
        folder.weft(&["pki", "renew", "hv1"]),
        folder.weft(&["pki", "revoke", "hv1"]),
        folder.weft(&["pki", "list"]),
    ];
    for outcome in &outcomes {
        assert!(!format!("{outcome:?}").contains("PRIVATE"), "{outcome:?}");
    }
    for name in ["ca", "controller"] {
        let key = format!("{name}.key");
        let public = openssl(&folder, home(name), &["pkey", "-pubout", "-in", &key]);
        assert_eq!(described(&folder, name, &["-pubkey"]), public.has_status(0).stdout);
    }
}

#[test]
fn a_host_gets_its_certificate_and_commands() {
    let folder = with_ca();
    let outcome = folder.weft(&["pki", "node", "hv1", "--address", "192.0.2.11", "--address", "hv1"]);
    let wanted = "\
# Here, to copy the key and the certificates to the host:
scp pki/members/hv1.key pki/members/hv1.pem pki/controllers/ca.pem root@192.0.2.11:/etc/openvswitch/
# On the host:
ovs-vsctl set-ssl /etc/openvswitch/hv1.key /etc/openvswitch/hv1.pem /etc/openvswitch/ca.pem
# On the host, if the controller connects to its database (`ovsdb: ssl:ADDRESS:6640` of the transport node):
ovs-vsctl set-manager pssl:6640
# On the host, if its switch dials in (no `ovsdb` and no `openflow`; `listen_ovsdb` in the configuration of the controller):
ovs-vsctl set open_vswitch . external_ids:system-id=hv1
ovs-vsctl set-manager ssl:CONTROLLER:6640
";
    assert_eq!(outcome.has_status(0).stdout, wanted);
    let said = "pki/members/hv1.pem: a certificate with role weft:node, valid until ";
    assert!(outcome.stderr.starts_with(said), "{}", outcome.stderr);
    let text = described(&folder, "hv1", &["-subject", "-ext", "subjectAltName"]);
    assert!(text.contains("O = weft:node, CN = hv1\n"), "{text}");
    assert!(text.contains("    DNS:hv1, IP Address:192.0.2.11\n"), "{text}");
    assert!(is_accepted(&folder, "hv1.pem") && is_accepted_by_rustls(&folder, "hv1.pem"));

    // Not a host name, so the certificate has no address.
    folder.weft(&["pki", "node", "hv_2"]).has_status(0);
    assert!(!described(&folder, "hv_2", &["-text"]).contains("Subject Alternative Name"));
    let outcome = folder.weft(&["pki", "node", "hv3", "--address", "2001:db8::3"]);
    assert!(
        outcome.has_status(0).stdout.contains(" root@[2001:db8::3]:/etc/openvswitch/\n"),
        "{}",
        outcome.stdout
    );
}

#[test]
fn a_client_has_the_role_that_was_given() {
    let folder = with_ca();
    let client = |arguments: &[&str]| folder.weft(&[&["pki", "client"], arguments].concat());
    for (name, role, subject) in [
        ("alice", &["--role", "viewer"][..], "weft:viewer"),
        ("bob", &["--role", "operator"], "weft:operator"),
    ] {
        client(&[&[name], role].concat()).has_status(0);
        let text = described(&folder, name, &["-subject", "-text"]);
        assert!(text.contains(&format!("O = {subject}, CN = {name}\n")), "{text}");
        assert!(!text.contains("Subject Alternative Name"), "{text}");
        let file = format!("{name}.pem");
        assert!(is_accepted(&folder, &file) && is_accepted_by_rustls(&folder, &file));
    }
    for wrong in [
        &["dave"][..],
        &["dave", "--role", "root"],
        &["dave", "--role", "tenant"],
        &["../dave", "--role", "viewer"],
        &["ca", "--role", "viewer"],
        &["dave", "--role", "viewer", "--days", "0"],
    ] {
        client(wrong).has_status(2);
    }
    assert!(!folder.path("pki/members/dave.pem").exists());
}

#[test]
fn nothing_is_overwritten() {
    let folder = with_ca();
    folder.weft(&["pki", "node", "hv1"]).has_status(0);
    let before = ["ca.pem", "ca.key", "hv1.pem", "hv1.key", "issued.txt", "revoked.pem"]
        .map(|name| (name, fs::read(folder.path(&format!("pki/members/{name}"))).unwrap()));
    let again = folder.weft(&["pki", "init"]);
    assert!(again.has_status(1).stderr.contains("pki/members/ca.pem is there already"), "{}", again.stderr);
    for again in [&["node", "hv1"][..], &["client", "hv1", "--role", "viewer"]] {
        let again = folder.weft(&[&["pki"], again].concat());
        let said = &again.has_status(1).stderr;
        assert!(
            said.contains("hv1 has a certificate already (pki/members/hv1.pem); `weft pki renew hv1`"),
            "{said}"
        );
    }
    let again = folder.weft(&["pki", "controller", "hv1"]);
    assert!(again.has_status(1).stderr.contains("hv1 is a name in pki/members"), "{}", again.stderr);
    for again in [&["node", "controller"][..], &["client", "controller", "--role", "viewer"]] {
        let again = folder.weft(&[&["pki"], again].concat());
        let said = &again.has_status(1).stderr;
        assert!(
            said.contains("controller is a name in pki/controllers; give this certificate another one"),
            "{said}"
        );
    }
    // A key without a certificate is somebody's too.
    folder.write("pki/members/hv2.key", "mine");
    let again = folder.weft(&["pki", "node", "hv2"]);
    assert!(again.has_status(1).stderr.contains("(pki/members/hv2.key)"), "{}", again.stderr);
    for (name, text) in before {
        assert_eq!(fs::read(folder.path(&format!("pki/members/{name}"))).unwrap(), text, "{name}");
    }
}

#[test]
fn a_folder_without_a_ca_is_named_with_the_command_that_makes_one() {
    let folder = Folder::new();
    for arguments in [
        &["node", "hv1"][..],
        &["client", "a", "--role", "viewer"],
        &["renew", "hv1"],
        &["revoke", "hv1"],
        &["list"],
    ] {
        let outcome = folder.weft(&[&["pki"], arguments, &["--dir", "elsewhere"]].concat());
        let wanted = "error: there is no CA in elsewhere/controllers (elsewhere/controllers/ca.pem does not exist): `weft pki init` makes one, and `--dir` names \
                      another folder\n";
        assert_eq!(outcome.has_status(1).stderr, wanted);
        assert!(!folder.path("elsewhere").exists());
    }
    let folder = with_ca();
    for unknown in ["renew", "revoke"] {
        let outcome = folder.weft(&["pki", unknown, "hv9"]);
        let wanted = "error: pki/members has no certificate of hv9; `weft pki list` shows all\n";
        assert_eq!(outcome.has_status(1).stderr, wanted);
    }
    fs::remove_file(folder.path("pki/members/ca.key")).unwrap();
    let outcome = folder.weft(&["pki", "node", "hv1"]);
    assert!(outcome.has_status(3).stderr.contains("cannot read pki/members/ca.key"), "{}", outcome.stderr);
    folder.weft(&["pki", "list"]).has_status(0);
}

#[test]
fn a_renewed_certificate_says_the_same_and_the_former_one_stays_valid() {
    let folder = with_ca();
    folder.weft(&["pki", "node", "hv1", "--address", "192.0.2.11"]).has_status(0);
    let names = ["-subject", "-issuer", "-ext", "subjectAltName,extendedKeyUsage,keyUsage,basicConstraints"];
    let before = (described(&folder, "hv1", &names), serial(&folder, "hv1"));
    let key = fs::read(folder.path("pki/members/hv1.key")).unwrap();
    fs::copy(folder.path("pki/members/hv1.pem"), folder.path("pki/members/former.pem")).unwrap();
    // A daemon that runs as another user reads its key by its group.
    fs::set_permissions(folder.path("pki/members/hv1.key"), fs::Permissions::from_mode(0o640)).unwrap();

    let outcome = folder.weft(&["pki", "renew", "hv1", "--days", "30"]);
    let said = &outcome.has_status(0).stderr;
    assert!(said.contains("The former certificate stays valid until 20"), "{said}");
    assert!(
        outcome.stdout.contains("scp pki/members/hv1.key pki/members/hv1.pem root@hv1:"),
        "{}",
        outcome.stdout
    );
    let after = (described(&folder, "hv1", &names), serial(&folder, "hv1"));
    assert_eq!(before.0, after.0);
    assert_ne!(before.1, after.1);
    assert_ne!(key, fs::read(folder.path("pki/members/hv1.key")).unwrap());
    assert!(files(&folder, "pki/members").contains(&("hv1.key".to_owned(), 0o640)));
    let public = openssl(&folder, "pki/members", &["pkey", "-pubout", "-in", "hv1.key"]);
    assert_eq!(described(&folder, "hv1", &["-pubkey"]), public.has_status(0).stdout);
    assert!(is_accepted(&folder, "hv1.pem") && is_accepted(&folder, "former.pem"));
    let states = states(&folder);
    assert_eq!(
        states,
        pairs(&[
            ("controllers", "valid"),
            ("controller", "valid"),
            ("members", "valid"),
            ("hv1", "renewed"),
            ("hv1", "valid")
        ])
    );

    // Who deleted the key here, because it is on the host, gets a new one that nobody else can read.
    fs::remove_file(folder.path("pki/members/hv1.key")).unwrap();
    folder.weft(&["pki", "renew", "hv1"]).has_status(0);
    assert!(files(&folder, "pki/members").contains(&("hv1.key".to_owned(), 0o600)));
}

#[test]
fn revoking_a_name_revokes_all_its_certificates_and_frees_it() {
    let folder = with_ca();
    folder.weft(&["pki", "node", "hv1"]).has_status(0);
    folder.weft(&["pki", "node", "hv2"]).has_status(0);
    fs::copy(folder.path("pki/members/hv1.pem"), folder.path("pki/members/first.pem")).unwrap();
    folder.weft(&["pki", "renew", "hv1"]).has_status(0);
    let second = serial(&folder, "hv1");
    let outcome = folder.weft(&["pki", "revoke", "hv1"]);
    let said = "hv1: 2 certificates revoked; the files of the last one are in pki/members/revoked\n";
    assert_eq!(outcome.has_status(0).stderr, said);
    let moved = [(format!("hv1-{second}.key"), 0o600), (format!("hv1-{second}.pem"), 0o644)];
    assert_eq!(files(&folder, "pki/members/revoked"), moved.clone().into_iter().collect());
    let second = format!("revoked/{}", moved[1].0);
    for (file, accepted) in [("first.pem", false), (&second, false), ("hv2.pem", true)] {
        assert_eq!(is_accepted(&folder, file), accepted, "{file}");
        assert_eq!(is_accepted_by_rustls(&folder, file), accepted, "{file}");
    }

    // The list keeps what it has, with the next number.
    folder.weft(&["pki", "revoke", "hv2"]).has_status(0);
    let list = openssl(
        &folder,
        "pki/members",
        &["crl", "-noout", "-text", "-CAfile", "ca.pem", "-in", "revoked.pem"],
    );
    assert!(list.has_status(0).stderr.contains("verify OK"), "{}", list.stderr);
    assert_eq!(list.stdout.matches("Serial Number: ").count(), 3, "{}", list.stdout);
    assert!(list.stdout.contains("X509v3 CRL Number: \n                3\n"), "{}", list.stdout);

    // Twice is as good as once; the name can be issued again, and is then not revoked.
    let again = folder.weft(&["pki", "revoke", "hv1"]);
    assert!(again.has_status(0).stderr.contains("hv1 has no valid certificate"), "{}", again.stderr);
    folder.weft(&["pki", "client", "hv1", "--role", "viewer"]).has_status(0);
    assert!(is_accepted(&folder, "hv1.pem") && is_accepted_by_rustls(&folder, "hv1.pem"));
    let wanted = [
        ("controllers", "valid"),
        ("controller", "valid"),
        ("members", "valid"),
        ("hv1", "revoked"),
        ("hv2", "revoked"),
        ("hv1", "revoked"),
        ("hv1", "valid"),
    ];
    assert_eq!(states(&folder), pairs(&wanted));

    folder.weft(&["pki", "revoke", "controller"]).has_status(0);
    folder.weft(&["pki", "controller", "--address", "192.0.2.1"]).has_status(0);
    let controller = described(&folder, "controller", &["-subject", "-ext", "subjectAltName"]);
    assert!(
        controller.contains("O = weft:controller") && controller.contains("192.0.2.1, DNS:localhost"),
        "{controller}"
    );
}

#[test]
fn a_half_done_revocation_is_not_renewed_away() {
    let folder = with_ca();
    folder.weft(&["pki", "node", "hv1"]).has_status(0);
    let [certificate, key] = ["pki/members/hv1.pem", "pki/members/hv1.key"]
        .map(|name| (name, fs::read(folder.path(name)).unwrap()));
    folder.weft(&["pki", "revoke", "hv1"]).has_status(0);
    // As if the machine had stopped after the list was written.
    for (name, text) in [certificate, key] {
        folder.write(name, text);
    }
    let outcome = folder.weft(&["pki", "renew", "hv1"]);
    assert!(outcome.has_status(1).stderr.contains("`weft pki revoke hv1` once more"), "{}", outcome.stderr);
    folder.weft(&["pki", "revoke", "hv1"]).has_status(0);
    folder.weft(&["pki", "node", "hv1"]).has_status(0);
}

#[test]
fn files_that_are_not_what_they_should_be_are_named() {
    let folder = with_ca();
    folder.weft(&["pki", "node", "hv1"]).has_status(0);
    let list = fs::read(folder.path("pki/members/revoked.pem")).unwrap();
    for (file, text, why) in [
        ("revoked.pem", "", "pki/members/revoked.pem: this is not PEM"),
        ("issued.txt", "x\n", "pki/members/issued.txt: line 1: "),
    ] {
        let before = fs::read(folder.path(&format!("pki/members/{file}"))).unwrap();
        folder.write(&format!("pki/members/{file}"), text);
        for command in [&["list"][..], &["revoke", "hv1"]] {
            let outcome = folder.weft(&[&["pki"], command].concat());
            assert!(outcome.has_status(1).stderr.contains(why), "{}", outcome.stderr);
        }
        folder.write(&format!("pki/members/{file}"), before);
    }
    // Another CA's certificate.
    folder.weft(&["pki", "init", "--dir", "other"]).has_status(0);
    fs::copy(folder.path("other/controllers/controller.pem"), folder.path("pki/members/foreign.pem"))
        .unwrap();
    let outcome = folder.weft(&["pki", "renew", "foreign"]);
    assert!(
        outcome.has_status(1).stderr.contains("pki/members/issued.txt does not list"),
        "{}",
        outcome.stderr
    );
    fs::copy(folder.path("other/members/ca.key"), folder.path("pki/members/ca.key")).unwrap();
    let outcome = folder.weft(&["pki", "node", "hv2"]);
    assert!(
        outcome.has_status(1).stderr.contains("pki/members/ca.key: this key does not belong"),
        "{}",
        outcome.stderr
    );
    assert_eq!(fs::read(folder.path("pki/members/revoked.pem")).unwrap(), list);
}

#[test]
fn commands_at_the_same_time_take_turns() {
    const HOSTS: usize = 12;
    let folder = with_ca();
    let names: Vec<String> = (0..HOSTS).map(|at| format!("hv{at}")).collect();
    let running: Vec<_> = names
        .iter()
        .map(|name| {
            let mut command = folder.command(&["pki", "node", name]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for child in running {
        finish(child).has_status(0);
    }
    let listed: BTreeSet<_> = states(&folder).into_iter().map(|(name, _)| name).collect();
    assert_eq!(listed.len(), HOSTS + 3);
}
