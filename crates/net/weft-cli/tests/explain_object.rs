//! `weft explain KIND/ID`, and what is known of kinds only by what rules declare.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Folder, Outcome, root};
use crate::trace::{ACLS, REPORTS, folder, says};

/// An object explained from files.
fn explain(arguments: &[&str]) -> Outcome {
    let folder = folder();
    folder.write("acls.yaml", ACLS);
    let reports = REPORTS.lines().next().unwrap();
    folder.write("reports.jsonl", reports);
    let source =
        ["explain", "builtin", "--objects", "net.yaml", "--objects", "acls.yaml", "-i", "reports.jsonl"];
    folder.weft(&[&source, arguments].concat())
}

#[test]
fn an_object_is_explained_in_sentences() {
    let port = explain(&["switch_port/red-1"]);
    says(
        port.has_status(0),
        &[
            "switch_port red-1 (since transaction 2): ",
            "\n    switch: red\n",
            "\nIt lives on host hv2: hv2 reports its interface as port 2 of the switch (since transaction 3).\n",
            "\nIt has these numbers: allocated_meter (hv hv2, kind error, meter ",
            "\nThese objects refer to it: acl all-in, acl zero.\n",
            "\nThe rules say ",
            "\nIn the switch of hv2, ",
            "\nIt has no problem, and the rules know of nothing that it lacks.\n",
        ],
    );
    assert_eq!(explain(&["switch_port", "red-1"]).stdout, port.stdout);
    let json: Value = serde_json::from_str(&explain(&["switch_port/red-1", "--json"]).stdout).unwrap();
    assert_eq!((&json["transaction"], &json["nodes"]), (&json!(2), &json!(["hv2"])));
    assert!(json["flows"]["ACL"].as_u64() > Some(0), "{json}");
    // The switch has the port's flows, and not those of another port.
    let on = |port: &str| -> Value {
        let json: Value = serde_json::from_str(&explain(&["switch_port", port, "--json"]).stdout).unwrap();
        json["flows_on_hosts"].clone()
    };
    assert!(on("blue-1")["hv1"]["CLASSIFY"] == 1 && on("blue-1")["hv2"].is_null(), "{}", on("blue-1"));
}

#[test]
fn an_object_that_does_not_work_says_what_it_lacks() {
    let port = explain(&["switch_port/blue-3"]);
    let why = "\nlacks: no host reports an interface of port blue-3: none has external_ids:iface-id=blue-3\n";
    says(port.has_status(0), &["\nIt is not attached to any host.\n", why]);
}

#[test]
fn every_kind_of_object_is_explained_on_a_screen() {
    for object in [
        "transport_node/hv1",
        "switch/red",
        "switch_port/blue-1",
        "router/r",
        "router_port/r-red",
        "acl/no-ssh",
        "route/lab",
        "route_policy/web",
    ] {
        let (kind, id) = object.split_once('/').unwrap();
        let answer = explain(&[object]);
        says(answer.has_status(0), &[&format!("{kind} {id} (since transaction ")]);
        let lines = answer.stdout.lines();
        assert!(
            lines.clone().count() <= 24 && lines.clone().all(|line| line.len() < 500),
            "{}",
            answer.stdout
        );
        assert!(
            lines.clone().any(|line| line.starts_with("Tables of rules") || line.contains(" flow")),
            "{object}"
        );
    }
    says(&explain(&["acl/no-ssh"]), &["\nThe rules say 2 flows for it: ACL 2.\n"]);
    says(
        &explain(&["transport_node/hv2"]),
        &["Switches report rows about it: managed 1, tunnel_port 1, vif 2."],
    );
}

#[test]
fn what_is_no_object_is_refused_with_the_remedy() {
    for (arguments, status, why) in [
        (&["switch_prot/red-1"][..], 1, "there is no kind \"switch_prot\"; did you mean switch_port?"),
        (&["switch_port/red-9"], 1, "there is no switch_port \"red-9\"; `weft get switch_port` lists"),
    ] {
        let outcome = explain(arguments);
        assert!(outcome.has_status(status).stderr.contains(why), "{arguments:?}: {}", outcome.stderr);
    }
    let folder = folder();
    let why_not = folder.weft(&["why-not", "switch_port/red-1"]).has_status(2).stderr.clone();
    assert!(why_not.contains("`weft explain switch_port/red-1` says what it lacks"), "{why_not}");
    let journal =
        folder.weft(&["explain", "switch_port/red-1", "-i", "reports.jsonl"]).has_status(2).stderr.clone();
    assert!(journal.contains("need a program, such as: builtin switch_port/red-1"), "{journal}");
}

/// The files of traces that still name kinds: their findings are about packets, and rules do not say them yet.
const NAME_KINDS: [&str; 7] = [
    "cause.rs",
    "connection.rs",
    "findings/acls.rs",
    "findings/objects.rs",
    "findings/routers.rs",
    "findings/security.rs",
    "packet.rs",
];

fn sources(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() { sources(&entry, found) } else { found.push(entry) }
    }
}

#[test]
fn where_ports_live_and_what_is_known_of_objects_names_no_kind() {
    let kinds = Folder::new().weft(&["schema", "--kinds", "builtin"]);
    let kinds: Vec<String> = kinds
        .has_status(0)
        .stdout
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .map(|kind| format!("\"{kind}\""))
        .collect();
    assert!(
        kinds.contains(&"\"acl\"".to_owned()) && kinds.contains(&"\"switch_port\"".to_owned()),
        "{kinds:?}"
    );
    let own = root().join("crates/net/packet-trace/src");
    let mut files = Vec::new();
    sources(&own, &mut files);
    let mut naming: Vec<String> = files
        .iter()
        .filter(|file| {
            let text = std::fs::read_to_string(file).unwrap();
            kinds.iter().any(|kind| text.contains(kind.as_str()))
        })
        .map(|file| file.strip_prefix(&own).unwrap().to_str().unwrap().to_owned())
        .collect();
    naming.sort();
    assert_eq!(naming, NAME_KINDS);
}
