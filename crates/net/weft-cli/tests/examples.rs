//! The example programs whose rows are flows: Open vSwitch accepts and prints their output unchanged.
//!
//! Needs `ovs-ofctl`.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::fs;
use std::process::Command;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples");

/// The output of the example for the transactions beside it.
fn derived(name: &str) -> serde_json::Value {
    let (program, transactions) = (format!("{EXAMPLES}/{name}.nlog"), format!("{EXAMPLES}/{name}.jsonl"));
    let output = Command::new(env!("CARGO_BIN_EXE_weft"))
        .args(["eval", &program, "-i", &transactions, "--final"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A flow from a row whose last four columns are stage, priority, match and actions.
fn flow(row: &serde_json::Value) -> String {
    let columns = row.as_array().unwrap();
    let [table, priority, matched, actions] = &columns[columns.len() - 4..] else { panic!("{row}") };
    let (matched, actions) = (matched.as_str().unwrap(), actions.as_str().unwrap());
    let comma = if matched.is_empty() { "" } else { "," };
    format!("table={table},priority={priority}{comma}{matched} actions={actions}")
}

/// Checks that Open vSwitch reads every flow (so each action's field has its prerequisites in the match) and prints
/// match and actions as they are in the row.
#[track_caller]
fn are_flows(name: &str, table: &str) {
    let rows = derived(name);
    let flows: Vec<String> = rows[table].as_array().unwrap().iter().map(flow).collect();
    assert!(flows.len() > 5, "{name}: {flows:?}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("flows");
    fs::write(&file, flows.join("\n")).unwrap();
    let output = Command::new("ovs-ofctl")
        .args(["-O", "OpenFlow15", "--no-names", "parse-flows"])
        .arg(&file)
        .output()
        .expect("ovs-ofctl is installed: apt-get install openvswitch-switch");
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).unwrap();
    let printed: Vec<&str> = printed.lines().filter(|line| line.starts_with("OFPT_FLOW_MOD")).collect();
    assert_eq!(printed.len(), flows.len(), "{name}");
    for (flow, printed) in flows.iter().zip(printed) {
        let (_, actions) = flow.split_once(" actions=").unwrap();
        let end = format!("actions={actions}");
        assert!(printed.ends_with(&end), "{name}: {flow}\nprinted as {printed}");
    }
}

#[test]
fn the_pipeline_is_flows() {
    are_flows("pipeline", "of_flow");
}

#[test]
fn the_router_is_flows() {
    are_flows("router", "flow");
}

#[test]
fn the_acls_are_flows() {
    are_flows("acl", "flow");
}
