//! `weft trace` of a packet within a connection, and of a packet before and after a change.

use serde_json::Value;

use crate::defects::network_of_defects;
use crate::support::{Folder, Outcome};

/// The ACL without which ports of `db` open no connections.
const ALLOW_OUT: &str = "acl allow-out";

fn trace_in(folder: &Folder, arguments: &[&str]) -> Outcome {
    let source = ["trace", "builtin", "--objects", "network.yaml", "-i", "reports.jsonl"];
    folder.weft(&[&source, arguments].concat())
}

/// The network without an object, if one is named.
fn folder(without: Option<&str>) -> Folder {
    let folder = Folder::new();
    network_of_defects(&folder, without);
    folder
}

#[track_caller]
fn first(outcome: &Outcome) -> String {
    outcome.lines().first().map_or_else(|| outcome.stderr.clone(), |line| (*line).to_owned())
}

#[test]
fn a_packet_of_a_connection_passes_because_its_opening_did() {
    let folder = folder(Some(ALLOW_OUT));
    // Ports of db open no connections to others, but answer what others open.
    let opens = trace_in(&folder, &["db-1", "--to", "web-1", "--tcp", "5432"]);
    assert!(
        first(opens.has_status(1)).starts_with("dropped on hv2 in db by stage 44 VERDICT"),
        "{}",
        opens.stdout
    );
    for (state, packet) in [("rpl", "tp_src=5432,tp_dst=49152,tcp_flags=syn|ack"), ("rel", "packet: icmp,")] {
        let outcome = trace_in(&folder, &["db-1", "--to", "web-1", "--tcp", "5432", "--ct", state]);
        assert_eq!(first(outcome.has_status(0)), "delivered to web-1 on hv1", "{state}");
        assert!(outcome.stdout.contains(packet), "{state}: {}", outcome.stdout);
    }
    let later = trace_in(&folder, &["web-1", "--to", "db-1", "--tcp", "5432", "--ct", "est"]);
    assert_eq!(first(later.has_status(0)), "delivered to db-1 on hv2");
    assert!(later.stdout.contains("tp_dst=5432,tcp_flags=ack\n"), "{}", later.stdout);
    // Echo and UDP have connections too, and so has IPv6.
    let echo = trace_in(&folder, &["db-1", "--to", "web-1", "--ct", "rpl"]);
    assert_eq!(first(echo.has_status(0)), "delivered to web-1 on hv1");
    let v6 = trace_in(&folder, &["db-1", "--ip", "fd01::11", "--tcp", "5432", "--ct", "rel"]);
    assert_eq!(first(v6.has_status(0)), "delivered to web-1 on hv1");
}

#[test]
fn a_connection_whose_opening_is_dropped_is_none() {
    let folder = folder(None);
    for (port, state, sender) in [("web-1", "est", "web-1"), ("db-1", "rpl", "web-1")] {
        let to = if port == "web-1" { "db-1" } else { "web-1" };
        let outcome = trace_in(&folder, &[port, "--to", to, "--tcp", "22", "--ct", state]);
        assert!(first(outcome.has_status(1)).starts_with("dropped on hv2 in db"), "{}", outcome.stdout);
        let note = format!("note: this packet, from {sender}, opens the connection; since it is dropped");
        assert!(outcome.stdout.contains(&note), "{}", outcome.stdout);
    }
    let nobody = trace_in(&folder, &["web-1", "--ip", "198.51.100.7", "--tcp", "80", "--ct", "est"]);
    assert!(nobody.has_status(1).stderr.contains("say it with --to"), "{}", nobody.stderr);
    let both = trace_in(&folder, &["web-1", "--flow", "icmp", "--ct", "est"]);
    assert!(both.has_status(2).stderr.contains("cannot be used with"), "{}", both.stderr);
}

const QUARANTINE: &str = "{kind: acl, id: quarantine, switch: db, direction: to_port, priority: 900, match: {ip_proto: tcp}, action: drop}";

#[test]
fn a_change_is_tried_out_on_a_packet() {
    let folder = folder(None);
    folder.write("change.yaml", QUARANTINE);
    let packet = ["web-1", "--to", "db-1", "--tcp", "5432"];
    let outcome = trace_in(&folder, &[&packet[..], &["--diff", "change.yaml"]].concat());
    let lines = outcome.has_status(1).lines();
    assert_eq!(
        lines[..2],
        [
            "before: delivered to db-1 on hv2",
            "after:  dropped on hv2 in db by stage 44 VERDICT, DROPPED_BY_ACLS"
        ]
    );
    assert!(
        lines[2].contains("acl quarantine (tier 0, priority 900) drops the packet"),
        "{}",
        outcome.stdout
    );
    for part in [
        "first difference:",
        "before: on hv2: stage 43 ACL, ACLS",
        "because of acl allow-clients (transaction 1)",
        "because of acl quarantine (transaction 7)",
    ] {
        assert!(outcome.stdout.contains(part), "no {part:?} in {}", outcome.stdout);
    }
    // Nothing was applied, and the same change without its object leaves the packet alone.
    trace_in(&folder, &packet).has_status(0);
    folder.write("other.yaml", QUARANTINE.replace("tcp", "udp"));
    let same = trace_in(&folder, &[&packet[..], &["--diff", "other.yaml"]].concat());
    assert_eq!(same.has_status(0).lines()[2], "the packet takes the same path");
    let json = trace_in(&folder, &[&packet[..], &["--diff", "change.yaml", "--json"]].concat());
    let json: Value = serde_json::from_str(&json.has_status(1).stdout).unwrap();
    assert_eq!(json["after"]["parts"]["because"][0]["what"], "acl quarantine");
}

#[test]
fn a_deletion_is_tried_out_on_a_packet() {
    let folder = folder(None);
    let packet = ["web-1", "--to", "db-1", "--tcp", "5432"];
    let without = |key| trace_in(&folder, &[&packet[..], &["--without", key]].concat());
    let outcome = without("acl/allow-clients");
    assert!(
        outcome.has_status(1).stdout.contains("after:  dropped on hv2 in db by stage 44"),
        "{}",
        outcome.stdout
    );
    assert!(outcome.stdout.contains("acl_default: drop"), "{}", outcome.stdout);
    without("route/internet").has_status(0);
    assert!(without("acl/none").has_status(1).stderr.contains("the change is refused"));
    assert!(without("switch/db").has_status(1).stderr.contains("the change is refused"));
    assert!(without("allow-clients").has_status(2).stderr.contains("acl/no-ssh"));
}

/// A package with a flow for TCP from each port.
fn package(actions: &str) -> String {
    format!(
        r#"
import "builtin/interface/layout.nlog";
import "builtin/interface/universal.nlog";
import "builtin/logical/ports.nlog";

## TCP of every port.
priority TCP_FROM_PORT of PORT_SECURITY = 30000;

logical_port_flow(port, PORT_SECURITY, TCP_FROM_PORT, match{{inport: label, tcp}}, {actions}) :- logical_port(port, _, label);
"#
    )
}

#[test]
fn other_rules_are_compared_where_they_do_something_else() {
    let folder = folder(Some(ALLOW_OUT));
    folder
        .write("passes.nlog", package("actions[resubmit(GUARD)]"))
        .write("drops.nlog", package("actions[]"));
    let compare = |of: &[&str], rules: &[&str]| {
        let source = ["trace", "builtin"].iter().chain(of).chain(&[
            "--objects",
            "network.yaml",
            "-i",
            "reports.jsonl",
        ]);
        let packet = ["web-1", "--to", "db-1", "--tcp", "5432"];
        let arguments: Vec<&str> = source.chain(&packet).chain(rules).copied().collect();
        folder.weft(&arguments)
    };
    // A flow alike that another rule makes do something else parts the ways.
    let with = ["--rules", "builtin", "--rules", "drops.nlog"];
    let edited = compare(&["passes.nlog"], &with);
    let text = &edited.has_status(1).stdout;
    assert!(text.starts_with("before: delivered to db-1 on hv2\nafter:  dropped on hv1"), "{text}");
    let (_, parted) = text.split_once("first difference:\n").unwrap();
    let sides: Vec<&str> =
        parted.lines().filter(|line| line.contains(": stage 4 PORT_SECURITY, TCP_FROM_PORT")).collect();
    assert_eq!(sides.len(), 2, "{text}");
    // With a change of objects besides, the state after has both.
    let both = compare(&[], &["--rules", "builtin", "--without", "acl/allow-clients"]);
    let objects_alone = compare(&[], &["--without", "acl/allow-clients"]);
    assert!(both.has_status(1).stdout.contains("after:  dropped on hv2"), "{}", both.stdout);
    assert_eq!(both.stdout, objects_alone.stdout);
    let same = compare(&["drops.nlog"], &with);
    assert!(!same.has_status(1).stdout.contains("first difference"), "{}", same.stdout);
    let running = folder.weft(&["trace", "web-1", "--to", "db-1", "--rules", "drops.nlog"]);
    assert!(running.has_status(2).stderr.contains("--rules needs a program"), "{}", running.stderr);
}
