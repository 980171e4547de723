//! `weft support-bundle`: what is in the file, and what is not.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Instant;

use serde_json::{Value as Json, json};
use test_authority::{Authority, controller};

use crate::support::controller::{Controller, DEADLINE};
use crate::support::{Folder, Outcome, finish};

/// The parts that each bundle has, or says why not.
const PARTS: [&str; 9] = [
    "versions.json",
    "configuration.toml",
    "status.json",
    "problems.json",
    "metrics.txt",
    "log.txt",
    "history.json",
    "receipts.jsonl",
    "snapshot.weft",
];

/// The files of a bundle by their names, without its folder; a snapshot as its text.
struct Unpacked(BTreeMap<String, Vec<u8>>);

impl Unpacked {
    fn of(folder: &Folder, file: &str) -> Unpacked {
        assert_eq!(fs::metadata(folder.path(file)).unwrap().permissions().mode() & 0o777, 0o600);
        let compressed = fs::File::open(folder.path(file)).unwrap();
        let mut archive = tar::Archive::new(zstd::Decoder::new(compressed).unwrap());
        let mut files = BTreeMap::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().into_owned();
            let mut parts = path.components();
            assert!(parts.next().unwrap().as_os_str().to_str().unwrap().starts_with("weft-support-"));
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            files.insert(parts.as_path().to_str().unwrap().to_owned(), bytes);
        }
        Unpacked(files)
    }

    fn text(&self, name: &str) -> String {
        let bytes = self.0.get(name).unwrap_or_else(|| panic!("no {name}: {:?}", self.0.keys()));
        String::from_utf8(bytes.clone()).unwrap()
    }

    fn json(&self, name: &str) -> Json {
        serde_json::from_str(&self.text(name)).unwrap()
    }

    /// What the page says of a part.
    fn said(&self, part: &str) -> String {
        let (readme, start) = (self.text("README"), format!("{part}: "));
        let line = readme.lines().find_map(|line| line.strip_prefix(&start));
        line.unwrap_or_else(|| panic!("nothing about {part}: {readme}")).to_owned()
    }

    /// No file has one of these, nor does what a file is compressed of.
    fn has_none_of(&self, secrets: &[&str]) {
        let whole = self.0.get("snapshot.weft").map(|bytes| zstd::decode_all(&**bytes).unwrap());
        let whole = whole.map(|bytes| ("the snapshot", bytes));
        let files = self.0.iter().map(|(name, bytes)| (name.as_str(), bytes.clone())).chain(whole);
        for (name, bytes) in files {
            for secret in secrets {
                let has =
                    |bytes: &[u8]| bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
                assert!(!has(name.as_bytes()) && !has(&bytes), "{name} has {secret}");
            }
        }
    }
}

/// A host and two ports of a tenant, whose names and addresses all begin so that they are found.
fn network() -> Vec<String> {
    let port = |number: u8| {
        json!({"kind": "switch_port", "id": format!("hidden-port{number}"), "switch": "hidden-switch",
            "addresses": [{"mac": format!("52:54:00:00:00:0{number}"), "ips": [format!("2001:db8:1::{number}")]}]})
    };
    let all = [
        json!({"kind": "transport_node", "id": "hidden-hv1", "ip": "198.51.100.1", "ovsdb": "unix:/hidden/db",
            "openflow": "unix:/hidden/of"}),
        json!({"kind": "tenant", "id": "hidden-tenant", "quota": {"switch": 3}, "ids": "hidden-"}),
        json!({"kind": "switch", "id": "hidden-switch", "tenant": "hidden-tenant"}),
        port(1),
        port(2),
    ];
    all.iter().map(Json::to_string).collect()
}

async fn apply(controller: &mut Controller, folder: &Folder) {
    let mut client = controller.client(folder).await;
    client.apply_objects(network(), "hidden-alice").await.unwrap();
}

/// The flows of a host of what is recorded.
fn flows(folder: &Folder, recorded: &str, host: &str) -> usize {
    folder.weft(&["replay", recorded, "--host", host]).has_status(0).lines().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_has_every_part_and_its_snapshot_replays() {
    let folder = Folder::new();
    let mut controller = Controller::start_with(&folder, "workers = 2\n");
    apply(&mut controller, &folder).await;
    let address = Controller::endpoint(&folder);
    // Others may not read it even if they could read the former one.
    folder.write("b.tar.zst", "");
    fs::set_permissions(folder.path("b.tar.zst"), fs::Permissions::from_mode(0o644)).unwrap();
    let outcome = folder.weft(&[
        "support-bundle",
        "-o",
        "b.tar.zst",
        "--switch",
        "hidden-hv1",
        "--controller",
        &address,
    ]);
    let stderr = &outcome.has_status(0).stderr;
    assert!(stderr.contains("asking the controller for a snapshot\n"), "{stderr}");
    let bundle = Unpacked::of(&folder, "b.tar.zst");
    for part in PARTS {
        let said = bundle.said(part);
        let is_there = bundle.0.contains_key(part);
        assert!(is_there, "{part}: {said}");
    }
    let versions = bundle.json("versions.json");
    assert_eq!(versions["controller"], env!("CARGO_PKG_VERSION"));
    assert_eq!(
        (&versions["weft"], &versions["rules"]["packages"]),
        (&versions["controller"], &json!(["builtin"]))
    );
    assert!(versions["rules"]["fingerprint"].as_str().is_some_and(|hash| !hash.is_empty()), "{versions}");
    assert_eq!(versions["open_vswitch"], json!({"hidden-hv1": ""}));
    let configuration: toml::Table = toml::from_str(&bundle.text("configuration.toml")).unwrap();
    assert_eq!((&configuration["workers"], &configuration["state"]), (&2.into(), &"state".into()));
    assert!(bundle.text("log.txt").contains("controller started"), "{}", bundle.text("log.txt"));
    assert_eq!(bundle.json("status.json")["switches"][0]["node"], "hidden-hv1");
    assert!(bundle.json("problems.json").is_array());
    assert_eq!(bundle.json("history.json")["entries"][0]["by"], "hidden-alice");
    let receipts = bundle.text("receipts.jsonl");
    assert!(
        serde_json::from_str::<Json>(receipts.lines().next().unwrap()).unwrap()["txn"] == 1,
        "{receipts}"
    );
    assert!(bundle.text("switches/hidden-hv1/flows.txt").contains("table="));
    assert!(bundle.0.contains_key("switches/hidden-hv1/tunnels.jsonl"));
    controller.kill();
    folder.write("snapshot.weft", &bundle.0["snapshot.weft"]);
    assert_eq!(flows(&folder, "snapshot.weft", "hidden-hv1"), flows(&folder, "state", "hidden-hv1"));
    folder.weft(&["eval", "builtin", "-i", "snapshot.weft", "--tables", "problem"]).has_status(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_anonymised_bundle_has_no_name_and_no_address_of_a_tenant() {
    let folder = Folder::new();
    let mut controller = Controller::start_with(&folder, "advertise = \"hidden.example\"\n");
    apply(&mut controller, &folder).await;
    let address = Controller::endpoint(&folder);
    let arguments = ["--anonymise", "--names", "names.jsonl", "--switches", "--controller", &address];
    folder.weft(&[&["support-bundle", "-o", "b.tar.zst"], &arguments[..]].concat()).has_status(0);
    let bundle = Unpacked::of(&folder, "b.tar.zst");
    bundle.has_none_of(&[
        "hidden-",
        "hidden.example",
        "/hidden/",
        "52:54:00:",
        "198.51.100.",
        "2001:db8:",
        folder.path("").to_str().unwrap(),
    ]);
    for part in ["log.txt", "history.json", "receipts.jsonl", "switches"] {
        assert!(bundle.said(part).starts_with("LEFT OUT: "), "{part}: {}", bundle.said(part));
        assert!(bundle.0.keys().all(|name| !name.starts_with(part)), "{part}");
    }
    let names = fs::read_to_string(folder.path("names.jsonl")).unwrap();
    let names: BTreeMap<String, String> =
        names.lines().map(|line| serde_json::from_str::<(String, String)>(line).unwrap()).collect();
    let node = &names["hidden-hv1"];
    let status = bundle.json("status.json");
    assert_eq!(
        (&status["switches"][0]["node"], &status["switches"][0]["connected"]),
        (&json!(node), &json!(false))
    );
    assert_eq!(status["tenants"][0]["tenant"], names["hidden-tenant"].as_str());
    assert_eq!(status["objects"]["switch_port"], 2);
    let problems = bundle.json("problems.json");
    let since = problems[0]["since"].as_str().unwrap();
    assert!(since.starts_with("20") && since.ends_with('Z'), "{since}");
    assert_eq!(
        problems,
        json!([{"kind": "transport_node", "id": node, "code": "no-tunnel-port", "since": since}])
    );
    assert_eq!(bundle.json("versions.json")["open_vswitch"], json!({node: ""}));
    let configuration = bundle.text("configuration.toml");
    assert!(configuration.contains("\nworkers = 1\n") && configuration.contains("# advertise is left out\n"));
    controller.kill();
    folder.write("snapshot.weft", &bundle.0["snapshot.weft"]);
    assert_eq!(flows(&folder, "snapshot.weft", node), flows(&folder, "state", "hidden-hv1"));
}

/// A controller over TLS, with a file of tokens. Returns its port as well.
fn secure(folder: &Folder, authority: &Authority) -> (Controller, String) {
    let files = authority.issue(&controller());
    let own = files.own.unwrap();
    let path = |path: &std::path::Path| path.to_str().unwrap().to_owned();
    let [certificate, key, authorities, tokens] =
        [path(&own.certificate), path(&own.key), path(&files.authorities), path(&folder.path("tokens.toml"))];
    let started = Controller::start_as_service(
        folder,
        &[
            ("WEFT_CONFIG_LISTEN", "127.0.0.1:0"),
            ("WEFT_CONFIG_TLS_CERTIFICATE", &certificate),
            ("WEFT_CONFIG_TLS_KEY", &key),
            ("WEFT_CONFIG_TLS_AUTHORITIES", &authorities),
            ("WEFT_CONFIG_TOKENS", &tokens),
        ],
    );
    let begun = Instant::now();
    loop {
        let log = Controller::log(folder);
        let line = log.lines().find(|line| line.contains("controller started"));
        if let Some(port) = line.and_then(|line| line.split("listen=127.0.0.1:").nth(1)) {
            return (started, port.split(' ').next().unwrap().to_owned());
        }
        assert!(begun.elapsed() < DEADLINE, "{log}");
        std::thread::yield_now();
    }
}

#[test]
fn a_bundle_has_no_secret_and_a_viewer_gets_all_but_configuration_and_log() {
    let (folder, authority) = (Folder::new(), Authority::new());
    let token = |name: &str, role: &str| {
        folder.weft(&["token", "create", name, "--role", role]).has_status(0).stdout.trim_end().to_owned()
    };
    let [operator, viewer] = [token("alice", "operator"), token("bob", "viewer")];
    let (_controller, port) = secure(&folder, &authority);
    let (address, authorities) = (format!("https://localhost:{port}"), authority.path("ca.pem"));
    let weft = |token: &str, file: &str| -> Outcome {
        let mut command = folder.command(&["support-bundle", "-o", file, "--controller", &address]);
        command.env("WEFT_AUTHORITIES", &authorities).env("WEFT_TOKEN", token);
        let piped = std::process::Stdio::piped;
        finish(command.stdout(piped()).stderr(piped()).spawn().unwrap())
    };
    let key = fs::read_to_string(authority.path("controller.key")).unwrap();
    let hashes = fs::read_to_string(folder.path("tokens.toml")).unwrap();
    let quoted = |text: &str| text.split('"').nth(1).map(str::to_owned);
    let hashes: Vec<String> = hashes.lines().filter_map(quoted).filter(|value| value.len() >= 40).collect();
    assert_eq!(hashes.len(), 2, "the file has hashes");
    let mut secrets: Vec<&str> = key.lines().filter(|line| line.len() >= 40).collect();
    assert!(!secrets.is_empty());
    secrets.extend([&operator, &viewer].map(|token| token.split('_').nth(2).unwrap()));
    secrets.extend(hashes.iter().map(String::as_str));

    // Nothing is recorded yet, so there is no snapshot.
    let outcome = weft(&operator, "operator.tar.zst");
    let last = outcome.has_status(3).stderr.lines().last().unwrap();
    assert!(last.starts_with("error: the bundle lacks snapshot.weft; "), "{}", outcome.stderr);
    let bundle = Unpacked::of(&folder, "operator.tar.zst");
    assert!(bundle.text("configuration.toml").contains("\ntls_key = "), "it names the file");
    assert!(bundle.text("log.txt").contains("controller started"));
    bundle.has_none_of(&secrets);

    let outcome = weft(&viewer, "viewer.tar.zst");
    let refused = "bob (viewer) may not read the configuration and the log of the controller";
    let stderr = &outcome.has_status(3).stderr;
    assert!(stderr.contains(&format!("warning: log.txt is missing: {refused}")), "{stderr}");
    let bundle = Unpacked::of(&folder, "viewer.tar.zst");
    for part in ["configuration.toml", "log.txt"] {
        assert!(bundle.said(part).starts_with(&format!("MISSING: {refused}")), "{}", bundle.said(part));
    }
    assert!(bundle.json("status.json")["version"].is_string());
    bundle.has_none_of(&secrets);
}

#[test]
fn a_controller_that_does_not_answer_leaves_a_bundle_that_says_so() {
    let folder = Folder::new();
    let outcome =
        folder.weft(&["support-bundle", "-o", "b.tar.zst", "--controller", "unix:/nobody/weft.sock"]);
    assert!(outcome.has_status(3).stderr.contains("warning: status.json is missing: no controller answers"));
    let bundle = Unpacked::of(&folder, "b.tar.zst");
    assert_eq!(bundle.0.keys().collect::<Vec<_>>(), ["README", "versions.json"]);
    for part in &PARTS[1..] {
        assert!(bundle.said(part).starts_with("MISSING: no controller answers at "), "{}", bundle.said(part));
    }
    let unwritable = folder.weft(&["support-bundle", "-o", "none/b.tar.zst", "--controller", "unix:/nobody"]);
    assert!(unwritable.has_status(3).stderr.starts_with("error: cannot write none/b.tar.zst"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_configuration_over_http_is_the_one_that_a_reload_leaves() {
    let folder = Folder::new();
    let mut controller = Controller::start(&folder);
    let mut web = controller.web(&folder).await;
    // `workers` waits for a restart.
    Controller::configure(&folder, "rule_rows = 7000\nworkers = 3\n");
    controller.hang_up();
    let begun = Instant::now();
    loop {
        let answer = web.get("/v1/diagnostics").await.unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text);
        if answer.text.contains("rule_rows = 7000 ") {
            assert!(answer.text.contains("workers = 1 "), "{}", answer.text);
            assert!(answer.text.contains("the configuration has changed"), "{}", answer.text);
            return;
        }
        assert!(begun.elapsed() < DEADLINE, "{}", answer.text);
        tokio::task::yield_now().await;
    }
}
