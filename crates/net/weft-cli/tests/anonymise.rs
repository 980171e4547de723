//! Snapshots for somebody else: other names, the same network.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value as Json, json};

use crate::support::Folder;
use crate::support::controller::Controller;

/// What must not be in a file for somebody else.
const SECRETS: [&str; 4] = ["secret", "52:54:00:", "198.51.100.", "2001:db8:"];

fn objects() -> Vec<String> {
    let node = |number: u8| {
        json!({"kind": "transport_node", "id": format!("secret-hv{number}"), "ip": format!("198.51.100.{number}"),
            "ovsdb": format!("tcp:198.51.100.{number}:6640"), "openflow": format!("unix:/secret/{number}"),
            "bridge_mappings": {"secret-net": "secret-br"}})
    };
    let port = |number: u8| {
        json!({"kind": "switch_port", "id": format!("secret-port{number}"), "switch": "secret-switch", "labels": {"secret": "secret"},
            "addresses": [{"mac": format!("52:54:00:00:00:0{number}"), "ips": [format!("2001:db8:1::{number}")]}]})
    };
    let all = [
        node(1),
        node(2),
        json!({"kind": "tenant", "id": "secret-tenant", "physical_networks": ["secret-net"], "quota": {"switch": 3},
            "ids": "secret-", "addresses": ["198.51.100.128/25"]}),
        json!({"kind": "switch", "id": "secret-switch", "tenant": "secret-tenant"}),
        port(1),
        port(2),
        json!({"kind": "acl", "id": "secret-acl", "switch": "secret-switch", "direction": "to_port", "priority": 10,
            "match": {"ip_src": "2001:db8:1::/64", "tp_dst": 5432, "ip_proto": "tcp"}, "action": "drop"}),
    ];
    all.iter().map(Json::to_string).collect()
}

/// The number of rows of each table in the output of `weft replay`.
fn rows(folder: &Folder, recorded: &str) -> BTreeMap<String, usize> {
    let found = folder.weft(&["replay", recorded, "--tables", "all"]);
    let tables: BTreeMap<String, Vec<Json>> = serde_json::from_str(&found.has_status(0).stdout).unwrap();
    tables.into_iter().map(|(table, rows)| (table, rows.len())).collect()
}

#[test]
fn a_snapshot_for_somebody_else_shows_the_same_network_under_other_names() {
    let folder = Folder::new();
    let mut controller = Controller::start(&folder);
    let address = Controller::endpoint(&folder);
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let mut client = controller.client(&folder).await;
        client.apply_objects(objects(), "secret").await.unwrap();
    });
    let of_controller = ["snapshot", "take", "a.weft", "--anonymise", "--controller", &address];
    folder.weft(&of_controller).has_status(0);
    controller.kill();
    let of_state = ["snapshot", "take", "b.weft", "--of", "state", "--anonymise", "--names", "names.jsonl"];
    folder.weft(&of_state).has_status(0);
    assert_eq!(fs::metadata(folder.path("names.jsonl")).unwrap().permissions().mode() & 0o777, 0o600);
    let names = fs::read_to_string(folder.path("names.jsonl")).unwrap();
    let names = names.lines().map(|line| serde_json::from_str::<(String, String)>(line).unwrap());
    let names: BTreeMap<String, String> = names.collect();

    let (expected, flows) = (rows(&folder, "state"), ["replay", "state", "--host", "secret-hv1"]);
    let flows = folder.weft(&flows).has_status(0).lines().len();
    for (file, restored) in [("a.weft", "a"), ("b.weft", "b")] {
        folder.weft(&["snapshot", "restore", file, restored]).has_status(0);
        let text = fs::read_to_string(folder.path(restored).join("journal.jsonl")).unwrap();
        for secret in SECRETS {
            assert!(!text.contains(secret), "{file}: {secret} in {text}");
        }
        assert_eq!(rows(&folder, file), expected, "{file}");
        let found = folder.weft(&["replay", file, "--host", &names["secret-hv1"]]);
        assert_eq!(found.has_status(0).lines().len(), flows, "{file}");
    }
    let trace = |recorded: &str, from: &str, to: &str| {
        let found = folder.weft(&["trace", "builtin", "-i", recorded, from, "--to", to, "--tcp", "5432"]);
        (found.status, found.stdout.lines().count())
    };
    let [from, to] = ["secret-port1", "secret-port2"];
    folder.weft(&["snapshot", "take", "real.weft", "--of", "state"]).has_status(0);
    assert_eq!(trace("real.weft", from, to), trace("b.weft", &names[from], &names[to]));

    let shown = |arguments: &[&str]| -> Json {
        let found = folder.weft(&[&["snapshot", "show", "--json"], arguments].concat());
        serde_json::from_str(&found.has_status(0).stdout).unwrap()
    };
    let (real, other, file) = (shown(&["state"]), shown(&["state", "--anonymise"]), shown(&["b.weft"]));
    for member in ["txn", "at", "rules", "objects", "rows", "memories"] {
        assert_eq!(real[member], other[member], "{member}");
        assert_eq!(real[member], file[member], "{member}");
    }
    assert!(
        real["journal"] != other["journal"] && real["journal"] != file["journal"],
        "{real} {other} {file}"
    );

    let alone = folder.weft(&["snapshot", "take", "c.weft", "--of", "state", "--names", "names.jsonl"]);
    assert!(alone.has_status(2).stderr.contains("--anonymise"), "{}", alone.stderr);
}
