//! `weft explain` and `weft why-not` without a program: a running controller says what its journal says.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use serde_json::Value;

use crate::routes::Controller;
use crate::support::Outcome;

const NETWORK: &str = "
{kind: transport_node, id: hv1, ip: 172.16.0.1, encaps: [geneve]}
---
{kind: switch, id: blue}
---
{kind: switch_port, id: blue-1, switch: blue, port_security: true, addresses: [{mac: '02:00:00:00:00:01', ips: [10.0.1.1]}]}
---
{kind: router, id: r}
---
{kind: router_port, id: r-blue, router: r, switch: blue, mac: '02:00:00:00:ff:01', networks: [10.0.1.254/24]}
";

fn controller() -> Controller {
    let controller = Controller::start();
    controller.folder.write("network.yaml", NETWORK);
    let network = controller.folder.path("network.yaml");
    controller.weft(&["apply", "-f", network.to_str().unwrap()]).has_status(0);
    controller
}

/// The same question, asked of the journal.
fn offline(controller: &Controller, arguments: &[&str]) -> Outcome {
    let journal = controller.folder.path("state/journal.jsonl");
    let (command, question) = arguments.split_first().unwrap();
    let source = [*command, "builtin", "-i", journal.to_str().unwrap()];
    controller.folder.weft(&[&source, question].concat())
}

/// An answer of the journal without what a controller does not know: which transaction made a hook fill a row.
fn without_transactions_of_hooks(text: &str) -> String {
    let line = |line: &str| match line.split_once("  hook ") {
        Some((_, hook)) => line
            .strip_suffix(hook.split_once("), ").map_or("", |(_, origin)| origin))
            .unwrap_or(line)
            .trim_end_matches(", ")
            .to_owned(),
        None => line.to_owned(),
    };
    text.lines().map(|text| line(text) + "\n").collect()
}

#[track_caller]
fn agree(controller: &Controller, arguments: &[&str]) -> String {
    let running = controller.weft(arguments);
    let offline = offline(controller, arguments);
    assert_eq!(running.status, offline.status, "{arguments:?}: {}\n{}", running.stderr, offline.stderr);
    assert_eq!(
        running.stdout,
        without_transactions_of_hooks(&offline.stdout),
        "{arguments:?}: {}",
        running.stderr
    );
    assert_ne!(running.stdout, "", "{arguments:?}: {}", running.stderr);
    running.stdout
}

#[test]
fn a_line_that_no_controller_wrote_may_be_refused() {
    let controller = controller();
    let question = r#"switch_port("blue-1", ..)"#;
    let known = offline(&controller, &["explain", question]);
    assert!(known.has_status(0).stdout.contains("transaction 1"), "{}", known.stdout);
    let journal = std::fs::read_to_string(controller.folder.path("state/journal.jsonl")).unwrap();
    controller.folder.write("longer.jsonl", format!("{journal}{{\"insert\": {{\"nothing\": [[1]]}}}}\n"));
    let longer = controller.folder.weft(&["explain", "builtin", "-i", "longer.jsonl", question]);
    assert_eq!(longer.has_status(1).stdout, known.stdout);
    assert!(longer.stderr.contains("error[unknown-table]"), "{}", longer.stderr);
}

#[test]
fn a_row_follows_from_the_same_rows() {
    let controller = controller();
    for object in ["switch_port/blue-1", "switch/blue", "transport_node/hv1", "router_port/r-blue"] {
        let text = agree(&controller, &["explain", object]);
        assert!(text.contains(" (since transaction 1, by "), "{text}");
    }
    let label = agree(&controller, &["explain", "datapath_label(\"blue\", _)"]);
    assert!(label.contains("datapath_label(\"blue\", ") && label.contains("  hook allocate("), "{label}");
    let port = agree(&controller, &["explain", "isolated_flow(\"blue\", ..)", "--rows", "3"]);
    assert!(port.contains("switch(\"blue\", ") && port.contains(".nlog:"), "{port}");
    assert!(port.contains("  transaction 1, by "), "{port}");
    let json = agree(&controller, &["explain", "port_ip(..)", "--json"]);
    assert!(json.contains("\"txn\":1") && json.contains("\"by\":\""), "{json}");
}

#[test]
fn a_flow_follows_from_the_same_objects() {
    let controller = controller();
    let flows = controller.weft(&["get", "flows", "hv1", "--json"]);
    let flows: Vec<Value> =
        flows.has_status(0).stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let flows: Vec<&Value> = flows.iter().filter(|flow| flow["table"].is_number()).collect();
    let text = |flow: &Value| {
        let part = |name: &str| flow[name].to_string().trim_matches('"').to_owned();
        let [cookie, table, priority, matching, actions] =
            ["cookie", "table", "priority", "match", "actions"].map(part);
        format!("cookie={cookie}, table={table}, priority={priority},{matching} actions={actions}")
    };
    let texts: Vec<String> = flows.iter().step_by(20).map(|flow| text(flow)).collect();
    assert!(texts.len() > 2, "{flows:?}");
    for flow in &texts {
        let text = agree(&controller, &["explain", "--host", "hv1", flow]);
        assert!(text.starts_with("of_flow(\"hv1\", "), "{text}");
    }
    let (cookie, _) = texts[0].split_once(',').unwrap();
    let by_cookie = agree(&controller, &["explain", "--host", "hv1", cookie]);
    assert!(by_cookie.starts_with("of_flow(\"hv1\", "), "{by_cookie}");
    let unknown = controller.weft(&["explain", "--host", "hv9", cookie]);
    assert!(
        unknown.has_status(1).stderr.contains("no rule derives such a flow for hv9"),
        "{}",
        unknown.stderr
    );
}

#[test]
fn what_is_missing_is_missing_for_the_same_reason() {
    let controller = controller();
    let location = agree(&controller, &["why-not", "location(\"blue-1\", ..)"]);
    assert!(location.contains("finds no vif("), "{location}");
    agree(&controller, &["why-not", "--json", "location(\"blue-1\", ..)"]);
    // The port of a machine that runs nowhere.
    let flow = "table=40, priority=10,reg15=0x101,metadata=0x1 actions=drop";
    agree(&controller, &["why-not", "--host", "hv1", flow]);
}

#[test]
fn a_question_that_has_no_answer_is_refused_with_the_remedy() {
    let controller = controller();
    for (arguments, status, why) in [
        (&["explain", "location(\"blue-1\", ..)"][..], 1, "`weft why-not` explains why"),
        (&["why-not", "datapath_label(\"blue\", _)"], 1, "exists; `weft explain` explains why"),
        (&["why-not", "--host", "hv1", "cookie=0x1"], 1, "give the flow's text"),
        (&["explain", "locations(..)"], 1, "error[unknown-table]: unknown table `locations`"),
        (&["explain", "no location(..)"], 1, "is not a row"),
        (&["explain", "--host", "hv1", "nonsense"], 1, "is no flow"),
        (&["explain", "location(..)", "-i", "txns.jsonl"], 2, "need a program"),
    ] {
        let outcome = controller.weft(arguments);
        assert!(outcome.has_status(status).stderr.contains(why), "{arguments:?}: {}", outcome.stderr);
    }
    let nothing = controller.folder.weft(&["explain", "builtin", "location(..)"]);
    assert!(nothing.has_status(2).stderr.contains("say what the network is"), "{}", nothing.stderr);
}
