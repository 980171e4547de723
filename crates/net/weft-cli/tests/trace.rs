//! `weft trace`.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use frame_builder::{Endpoints, IPV4, Ipv4, TCP, ethernet, tcp};
use serde_json::{Value, json};

use crate::routes::Controller;
use crate::support::{Folder, Outcome, root};

/// Two hosts, two switches, and a router between them.
const NETWORK: &str = "
{kind: transport_node, id: hv1, ip: 172.16.0.1, encaps: [geneve]}
---
{kind: transport_node, id: hv2, ip: 172.16.0.2, encaps: [geneve]}
---
{kind: switch, id: blue}
---
{kind: switch, id: red}
---
{kind: switch_port, id: blue-1, switch: blue, port_security: true, addresses: [{mac: '02:00:00:00:00:01', ips: [10.0.1.1, 'fd01::1']}]}
---
{kind: switch_port, id: blue-2, switch: blue, port_security: true, addresses: [{mac: '02:00:00:00:00:02', ips: [10.0.1.2]}]}
---
{kind: switch_port, id: blue-3, switch: blue, addresses: [{mac: '02:00:00:00:00:03', ips: [10.0.1.3]}]}
---
{kind: switch_port, id: red-1, switch: red, port_security: true, addresses: [{mac: '02:00:00:00:00:01', ips: [10.0.2.1, 'fd02::1']}]}
---
{kind: router, id: r}
---
{kind: router_port, id: r-blue, router: r, switch: blue, mac: '02:00:00:00:ff:01', networks: [10.0.1.254/24, 'fd01::fe/64']}
---
{kind: router_port, id: r-red, router: r, switch: red, mac: '02:00:00:00:ff:02', networks: [10.0.2.254/24, 'fd02::fe/64']}
---
{kind: acl, id: no-ssh, switch: red, direction: to_port, priority: 100, match: {ip_proto: tcp, tp_dst: 22}, action: drop}
";

/// The third transaction moves nothing but takes blue-2 away.
pub(crate) const REPORTS: &str = r#"{"insert":{"managed":[["hv1"],["hv2"]],"vif":[["hv1","blue-1",1,"",1],["hv2","blue-2",1,"",1],["hv2","red-1",2,"",1]],"tunnel_port":[["hv1","weft-geneve",100],["hv2","weft-geneve",100]]}}
{"delete":{"vif":[["hv2","blue-2",1,"",1]]}}
"#;

fn trace_in(folder: &Folder, arguments: &[&str]) -> Outcome {
    let source = ["trace", "builtin", "--objects", "net.yaml", "-i", "reports.jsonl"];
    folder.weft(&[&source, arguments].concat())
}

pub(crate) fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("net.yaml", NETWORK).write("reports.jsonl", REPORTS);
    folder
}

/// The trace before the last transaction.
fn trace(arguments: &[&str]) -> Outcome {
    trace_in(&folder(), &[&["--at", "2"], arguments].concat())
}

#[track_caller]
pub(crate) fn says(outcome: &Outcome, parts: &[&str]) {
    for part in parts {
        assert!(outcome.stdout.contains(part), "no {part:?} in\n{}\n{}", outcome.stdout, outcome.stderr);
    }
}

#[test]
fn the_verdict_comes_first_then_what_changed_and_the_way() {
    let outcome = trace(&["blue-1", "--to", "red-1", "--tcp", "80"]);
    let lines = outcome.has_status(0).lines();
    assert_eq!(lines[0], "delivered to red-1 on hv2");
    let changes = ["02:00:00:00:00:01 -> 02:00:00:00:ff:02", "nw_ttl: 64 -> 63"];
    says(&outcome, &changes);
    says(&outcome, &["on hv1:", "    on hv2:", "28 R_ROUTE", "47 RECEIVER", "[routes.nlog:"]);
    assert!(lines.len() < 40, "more than a screen:\n{}", outcome.stdout);
    let verbose = trace(&["blue-1", "--to", "red-1", "--tcp", "80", "--verbose"]);
    assert!(verbose.has_status(0).lines().len() > 2 * lines.len());
    says(&verbose, &["placed by builtin/physical/placement.nlog:", "actions="]);
}

#[test]
fn an_ipv6_packet_is_as_good() {
    let outcome = trace(&["blue-1", "--ip", "fd02::1", "--udp", "53"]);
    assert_eq!(outcome.has_status(0).lines()[0], "delivered to red-1 on hv2");
    says(&outcome, &["packet: udp6,"]);
}

#[test]
fn a_drop_names_the_stage_the_rule_and_the_object_with_its_transaction() {
    let outcome = trace(&["blue-1", "--to", "red-1", "--tcp", "22"]);
    assert_eq!(
        outcome.has_status(1).lines()[0],
        "dropped on hv2 in red by stage 44 VERDICT, DROPPED_BY_ACLS"
    );
    says(
        &outcome,
        &[
            "was decided in stage 43 ACL",
            "builtin/logical/acl/acls.nlog:",
            "because of acl no-ssh (transaction 1)",
        ],
    );
}

#[test]
fn a_missing_flow_is_told_by_the_nearest_one() {
    let outcome = trace(&["blue-1", "--to", "blue-2", "--from-ip", "10.0.1.77"]);
    assert_eq!(outcome.has_status(1).lines()[0], "dropped on hv1 in blue in stage 5 SENDER: no flow matches");
    let near = "the nearest flow asks for sought_ipv4=10.0.1.1, and the packet has sought_ipv4=10.0.1.77";
    says(&outcome, &[near, "because of switch_port blue-1 (transaction 1)"]);
}

#[test]
fn a_port_that_is_nowhere_is_told_down_to_the_missing_report() {
    let to = trace(&["blue-1", "--to", "blue-3"]);
    assert_eq!(
        to.has_status(1).lines()[0],
        "dropped: port blue-3 is not attached to any host, so nothing reaches it"
    );
    says(&to, &["cause: no host reports an interface of port blue-3: none has external_ids:iface-id=blue-3"]);
    says(&trace(&["blue-1", "--to", "blue-3", "--verbose"]), &["finds no vif(hv, \"blue-3\", _, _, since)"]);
    let from = trace(&["blue-3", "--to", "blue-1"]);
    says(from.has_status(1), &["dropped: port blue-3 has no interface on any host"]);
    // The same packet at two moments.
    trace(&["blue-1", "--to", "blue-2"]).has_status(0);
    let later = trace_in(&folder(), &["blue-1", "--to", "blue-2"]);
    says(later.has_status(1), &["dropped: port blue-2 is not attached to any host"]);
}

#[test]
fn an_address_that_nobody_has_is_asked_for_in_vain() {
    let outcome = trace(&["blue-1", "--ip", "10.0.1.9"]);
    assert_eq!(
        outcome.has_status(1).lines()[0],
        "dropped: no port of blue has 10.0.1.9, and no router there leads to it"
    );
    says(&outcome, &["the question reaches blue-2 on hv2", "packet: arp,", "asks for 10.0.1.9 by ARP"]);
}

#[test]
fn routers_drop_what_they_cannot_forward() {
    for (arguments, stage) in [
        (&["--ip", "192.0.2.1"][..], "dropped on hv1 in r by stage 28 R_ROUTE, NO_ROUTE"),
        (&["--to", "red-1", "--ttl", "1"], "dropped on hv1 in r by stage 25 R_LOCAL, EXPIRED"),
        (&["--to", "red-1", "--size", "9000"], "dropped on hv1 in red by stage 33 R_LEAVE, TOO_LARGE"),
    ] {
        let outcome = trace(&[&["blue-1"], arguments].concat());
        assert_eq!(outcome.has_status(1).lines()[0], stage);
    }
}

#[test]
fn a_flow_expression_is_a_packet_and_floods_are_a_tree_of_copies() {
    let flow = "arp,dl_dst=ff:ff:ff:ff:ff:ff,arp_tpa=10.0.1.3,arp_op=1";
    let outcome = trace(&["blue-1", "--flow", flow, "--json"]);
    let trace: Value = serde_json::from_str(&outcome.has_status(0).stdout).unwrap();
    assert_eq!(trace["verdict"], "delivered");
    assert_eq!(trace["delivered"][0]["port"], "blue-1", "the host answers: {trace}");
    let flood = flood();
    assert_eq!(flood["delivered"], json!([{"port": "blue-2", "node": "hv2", "changes": []}]));
    assert_eq!((&flood["hops"][0]["before"], &flood["hops"][1]["before"]), (&Value::Null, &json!(0)));
    assert_eq!(flood["hops"][1]["node"], "hv2");
}

/// The trace of a broadcast.
fn flood() -> Value {
    let flow = "arp,dl_dst=ff:ff:ff:ff:ff:ff,arp_tpa=10.0.1.99,arp_op=1";
    let outcome = trace(&["blue-1", "--flow", flow, "--json"]);
    serde_json::from_str(&outcome.has_status(0).stdout).unwrap()
}

/// A capture in the format pcap.
fn capture(frames: &[Vec<u8>]) -> Vec<u8> {
    let (snapshot_length, ethernet) = (65535_u32, 1_u32);
    let header: [u32; 6] = [0xa1b2_c3d4, 2 | 4 << 16, 0, 0, snapshot_length, ethernet];
    let mut bytes: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
    for frame in frames {
        let length = frame.len() as u32;
        bytes.extend([0, 0, length, length].iter().flat_map(|word| word.to_le_bytes()));
        bytes.extend(frame);
    }
    bytes
}

#[test]
fn each_packet_of_a_capture_gets_a_line() {
    let (from, to) = ("10.0.1.1".parse().unwrap(), "10.0.1.2".parse().unwrap());
    let segment = tcp(49152, 80, 2, &[], Endpoints::V4(from, to));
    let packet = Ipv4::new(from, to, TCP).packet(&segment);
    let from_mac = |last| ethernet([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, last], IPV4, &packet);
    let folder = folder();
    let whole = capture(&[from_mac(1), from_mac(9)]);
    folder
        .write("two.pcap", &whole)
        .write("cut.pcap", &whole[..whole.len() - 1])
        .write("none.pcap", "nothing");
    let outcome = trace_in(&folder, &["--at", "2", "blue-1", "--pcap", "two.pcap"]);
    let lines = outcome.has_status(1).lines();
    assert_eq!(lines.len(), 2, "{}", outcome.stdout);
    assert!(lines[0].starts_with("1: delivered to blue-2 on hv2: tcp,"), "{}", lines[0]);
    assert!(lines[1].starts_with("2: dropped on hv1 in blue in stage 4 PORT_SECURITY"), "{}", lines[1]);
    for (file, why) in [("cut.pcap", "it ends within frame 2"), ("none.pcap", "no capture that can be read")]
    {
        let outcome = trace_in(&folder, &["blue-1", "--pcap", file]);
        assert!(outcome.has_status(1).stderr.contains(why), "{}", outcome.stderr);
    }
    trace_in(&folder, &["blue-1", "--pcap", "absent.pcap"]).has_status(3);
}

#[test]
fn what_cannot_be_traced_is_refused_with_the_remedy() {
    for (arguments, why) in [
        (&["blue-9", "--to", "blue-1"][..], "there is no port \"blue-9\"; there are blue-1, blue-2"),
        (&["blue-1", "--to", "blue-9"], "there is no port \"blue-9\""),
        (&["blue-1"], "--to PORT or --ip ADDRESS"),
        (&["blue-2", "--ip", "fd02::1"], "say the packet's with --from-ip"),
        (&["blue-1", "--to", "red-1", "--size", "20"], "--size: such a packet has"),
        (&["blue-1", "--flow", "nonsense=1"], "--flow"),
        (&["blue-1", "--to", "red-1", "--tcp", "1", "--udp", "1"], "cannot be used with"),
    ] {
        let outcome = trace(arguments);
        assert!(outcome.has_status(2).stderr.contains(why), "{arguments:?}: {}", outcome.stderr);
    }
}

/// The ACL that drops is not the only one of the port, and not the first by its id.
pub(crate) const ACLS: &str = "
{kind: switch_port, id: red-1, switch: red, addresses: [{mac: '02:00:00:00:00:01', ips: [10.0.2.1, 'fd02::1']}]}
---
{kind: acl, id: all-in, port: red-1, direction: to_port, priority: 10, action: allow}
---
{kind: acl, id: zero, port: red-1, direction: to_port, priority: 20, match: {ip_proto: tcp, tp_dst: 81}, action: drop}
---
{kind: route, id: lab, router: r, destination: 198.51.100.0/24, next_hops: [10.0.2.1]}
---
{kind: route_policy, id: web, router: r, priority: 5, match: {ip_proto: tcp, tp_dst: 80}, action: allow}
";

fn among_acls(arguments: &[&str]) -> Outcome {
    let folder = folder();
    folder.write("acls.yaml", ACLS);
    let source = [
        "trace",
        "builtin",
        "--objects",
        "net.yaml",
        "--objects",
        "acls.yaml",
        "-i",
        "reports.jsonl",
        "blue-1",
    ];
    folder.weft(&[&source, arguments].concat())
}

#[test]
fn of_several_objects_the_one_that_decides_comes_first() {
    let outcome = among_acls(&["--to", "red-1", "--tcp", "81"]);
    let because: Vec<&str> = outcome.stdout.lines().filter(|line| line.contains("because of")).collect();
    assert!(because[0].contains("because of acl zero "), "{}", outcome.stdout);
    let allows = because.iter().position(|line| line.contains("acl all-in"));
    assert!(
        allows.is_none_or(|allows| because[allows - 1].contains("switch_port red-1")),
        "{}",
        outcome.stdout
    );
}

#[test]
fn a_packet_that_arrives_names_what_decided_at_each_stage() {
    let outcome = among_acls(&["--to", "red-1", "--tcp", "80"]);
    says(outcome.has_status(0), &["delivered to red-1 on hv2"]);
    let line = |stage: &str| {
        let found = outcome.stdout.lines().find(|line| line.split_whitespace().nth(1) == Some(stage));
        found.unwrap_or_else(|| panic!("no {stage}: {}", outcome.stdout)).to_owned()
    };
    assert!(line("ACL").ends_with(", by acl all-in"), "{}", outcome.stdout);
    assert!(line("R_POLICY").ends_with(", by route_policy web"), "{}", outcome.stdout);
    assert!(line("R_ROUTE").ends_with(", by router_port r-red"), "{}", outcome.stdout);
    // What no object decides names none.
    assert!(!line("OUTPUT").contains(", by "), "{}", outcome.stdout);
    let routed = among_acls(&["--ip", "198.51.100.7"]);
    says(&routed, &[", by route lab\n"]);
}

#[test]
fn numbers_in_fields_read_as_what_they_stand_for() {
    let outcome = among_acls(&["--to", "red-1", "--tcp", "81"]);
    says(&outcome, &["verdict=DROPPED, checked_port=red-1, datapath=red -> drop", "set(verdict, DROPPED)"]);
    // The label of this port is the number of a constant, which has nothing to do with ports.
    let constant = "OPTION_CLASS";
    assert!(!outcome.stdout.contains(constant), "{}", outcome.stdout);
    let verbose = among_acls(&["--to", "red-1", "--tcp", "80", "--verbose"]);
    says(&verbose, &["set(outport, red-1)", "set(inport, blue-1)", "set(datapath, blue)"]);
    assert!(!verbose.stdout.contains(constant), "{}", verbose.stdout);
}

#[test]
fn a_table_without_a_flow_for_a_packet_that_goes_on_is_no_fault() {
    let flow = "arp,dl_dst=ff:ff:ff:ff:ff:ff,arp_spa=10.0.1.1,arp_tpa=10.0.1.9,arp_op=1";
    let outcome = among_acls(&["--flow", flow, "--verbose"]);
    says(&outcome, &["30 NEIGHBOUR         no entry (goes on)"]);
    let json: Value = serde_json::from_str(&among_acls(&["--flow", flow, "--json"]).stdout).unwrap();
    let steps = json["hops"][0]["steps"].as_array().unwrap();
    let lookup =
        steps.iter().map(|step| &step["lookup"]).find(|lookup| lookup["stage"] == "NEIGHBOUR").unwrap();
    assert_eq!((&lookup["flow"], &lookup["ends"]), (&Value::Null, &json!(false)), "{lookup}");
    let dropped = trace(&["blue-1", "--to", "blue-2", "--from-ip", "10.0.1.77"]);
    says(&dropped, &["SENDER: no flow matches"]);
    assert!(!dropped.stdout.contains("SENDER            no entry"), "{}", dropped.stdout);
}

#[test]
fn the_engine_computes_no_row_that_only_explanations_read() {
    let plan = Folder::new().weft(&["plan", "builtin"]);
    let lines: Vec<&str> = plan.has_status(0).stdout.lines().map(str::trim).collect();
    assert!(lines.iter().any(|line| line.starts_with("port_label: ") && !line.ends_with("not computed")));
    for table in
        ["stands_for", "label_role", "decides", "lacks", "unattached", "last_reporter", "apart", "joins"]
    {
        let line = format!("{table}: not computed");
        assert!(lines.contains(&&*line), "no {line:?} in:\n{}", plan.stdout);
    }
}

#[test]
fn every_number_with_a_meaning_is_that_of_a_field() {
    let folder = folder();
    let source = ["eval", "builtin", "--objects", "net.yaml", "--tables", "stands_for", "--final"];
    let rows: Value = serde_json::from_str(&folder.weft(&source).has_status(0).stdout).unwrap();
    let rows = rows["stands_for"].as_array().unwrap();
    let layout = std::fs::read_to_string(root().join("rules/interface/layout.nlog")).unwrap();
    for row in rows {
        let field = row[0].as_str().unwrap();
        let is_own = layout.contains(&format!("field {field} = "));
        assert!(is_own || ["tun_id", "tun_metadata0"].contains(&field), "{row}");
    }
    assert!(
        rows.iter().any(|row| row[0] == "verdict") && rows.iter().any(|row| row[0] == "inport"),
        "{rows:?}"
    );
}

#[test]
fn a_package_says_which_of_its_objects_decide() {
    let folder = folder();
    let package = root().join("examples/own-feature/quarantine.nlog");
    let quarantine = "{kind: quarantine, id: q, label: state}\n---\n{kind: switch_port, id: red-1, switch: red, \
                      labels: {state: infected}, addresses: [{mac: '02:00:00:00:00:01', ips: [10.0.2.1]}]}\n";
    folder.write("quarantine.yaml", quarantine);
    let source = [
        "trace",
        "builtin",
        package.to_str().unwrap(),
        "--objects",
        "net.yaml",
        "--objects",
        "quarantine.yaml",
    ];
    let outcome = folder.weft(&[&source[..], &["-i", "reports.jsonl", "blue-1", "--to", "red-1"]].concat());
    let because =
        outcome.has_status(1).stdout.lines().find(|line| line.contains("because of")).map(str::trim);
    assert_eq!(because, Some("because of quarantine q (transaction 2)"), "{}", outcome.stdout);
    says(&outcome, &[", by quarantine q\n"]);
}

#[test]
fn two_ports_in_a_row_are_told_how_to_name_the_second_one() {
    let folder = folder();
    let running = folder.weft(&["trace", "blue-1", "red-1"]);
    assert!(running.has_status(2).stderr.contains(": weft trace blue-1 --to red-1\n"), "{}", running.stderr);
    let journal = trace_in(&folder, &["blue-1", "red-1"]);
    assert!(
        journal.has_status(2).stderr.contains(": weft trace builtin blue-1 --to red-1\n"),
        "{}",
        journal.stderr
    );
    // A program is none of the ports, even if it does not exist.
    let file = folder.weft(&["trace", "absent.nlog", "red-1", "-i", "reports.jsonl"]);
    assert!(!file.has_status(3).stderr.contains("--to"), "{}", file.stderr);
}

#[test]
fn a_flow_of_a_switch_is_explained_by_its_text_and_by_its_cookie() {
    let folder = folder();
    let verbose = trace(&["blue-1", "--to", "red-1", "--tcp", "22", "--json"]);
    let trace: Value = serde_json::from_str(&verbose.has_status(1).stdout).unwrap();
    let flow = trace["dropped"][0]["written"][0]["at"]["flow"]["text"].as_str().unwrap();
    let explain = |flow: &str, host: &str| {
        folder.weft(&[
            "explain",
            "builtin",
            "--objects",
            "net.yaml",
            "-i",
            "reports.jsonl",
            "--host",
            host,
            flow,
        ])
    };
    // A switch shows counters besides.
    let dumped = flow.replace(" table=43,", " duration=7.1s, table=43, n_packets=3, n_bytes=180,");
    assert_ne!(flow, dumped);
    for flow in [flow, &dumped[..]] {
        let outcome = explain(flow, "hv2");
        says(outcome.has_status(0), &["of_flow(\"hv2\", 43, ", "acl(\"no-ssh\", ", "transaction 1"]);
    }
    assert!(explain(flow, "hv9").has_status(1).stderr.contains("no rule derives such a flow for hv9"));
    let (cookie, _) = flow.split_once(',').unwrap();
    let by_cookie = explain(cookie, "hv2");
    says(by_cookie.has_status(0), &["of_flow(\"hv2\", "]);
    assert!(explain("cookie=0x1", "hv2").has_status(1).stderr.contains("no rule derives"));
    assert!(explain("nonsense", "hv2").has_status(2).stderr.contains("is no flow"));
}

#[test]
fn a_missing_flow_is_told_down_to_the_missing_object_or_report() {
    let folder = folder();
    let why_not = |flow: &str| {
        let source = ["why-not", "builtin", "--objects", "net.yaml", "-i", "reports.jsonl", "--host", "hv1"];
        folder.weft(&[&source[..], &[flow]].concat())
    };
    // Datapath 1 is that of blue.
    let flow = "table=20,priority=50,metadata=0x1,dl_dst=02:00:00:00:00:99 actions=drop";
    let outcome = why_not(flow);
    says(outcome.has_status(0), &["finds no isolated_delivery(port, 20, 50, match\"metadata=0x1,dl_dst="]);
    says(&outcome, &["finds no port_mac(port, mac\"02:00:00:00:00:99\")", "finds switch_port("]);
    // No interface of hv1 has this number.
    says(
        why_not("table=0,priority=100,in_port=77 actions=drop").has_status(0),
        &["finds no tunnel_port(\"hv1\", tunnel, 77)"],
    );
    let there = why_not("table=20,priority=50,metadata=0x1,dl_dst=02:00:00:00:00:01 actions=drop");
    assert!(there.has_status(1).stderr.contains("exists; `weft explain` explains why"), "{}", there.stderr);
    assert!(why_not("cookie=0x1").has_status(1).stderr.contains("give the flow's text"));
    assert!(why_not("nonsense").has_status(2).stderr.contains("is no flow"));
}

#[test]
fn a_running_controller_says_what_its_journal_says() {
    let controller = Controller::start();
    controller.folder.write("network.yaml", NETWORK);
    controller.folder.write(
        "change.yaml",
        "{kind: acl, id: no-web, switch: red, direction: to_port, priority: 50, action: drop}",
    );
    let network = controller.folder.path("network.yaml");
    controller.weft(&["apply", "-f", network.to_str().unwrap()]).has_status(0);
    let journal = controller.folder.path("state/journal.jsonl");
    for arguments in [
        &["blue-1", "--to", "red-1", "--tcp", "443"][..],
        &["blue-1", "--ip", "10.0.1.9"],
        &["blue-1", "--to", "red-1", "--json"],
        &["blue-1", "--to", "red-1", "--verbose"],
        &["blue-1", "--flow", "tcp,dl_dst=02:00:00:00:ff:01,nw_dst=10.0.2.1"],
        &["blue-1", "--to", "red-1", "--ct", "rpl"],
        &["blue-1", "--to", "red-1", "--diff", "change.yaml", "--without", "acl/no-ssh"],
    ] {
        let running = controller.weft(&[&["trace"], arguments].concat());
        let offline = ["trace", "builtin", "-i", journal.to_str().unwrap()];
        let offline = controller.folder.weft(&[&offline, arguments].concat());
        assert_eq!(running.status, offline.status, "{}", running.stderr);
        assert_eq!(running.stdout, offline.stdout, "{}", running.stderr);
        assert_ne!(running.stdout, "", "{}", running.stderr);
    }
    // The journal says who asked for what, also to those who add reports to it.
    let reports = std::fs::read_to_string(&journal).unwrap() + REPORTS;
    controller.folder.write("reported.jsonl", &reports);
    let arguments = ["trace", "builtin", "-i", "reported.jsonl", "blue-1", "--to", "red-1", "--tcp", "22"];
    let dropped = controller.folder.weft(&arguments).has_status(1).stdout.clone();
    let line = dropped.lines().find(|line| line.contains("because of acl no-ssh")).unwrap();
    assert!(line.contains("(transaction 1, by ") && line.contains(" at 20"), "{dropped}");
    let unknown = controller.weft(&["trace", "blue-9", "--to", "red-1"]);
    assert!(unknown.has_status(1).stderr.contains("there is no port \"blue-9\""), "{}", unknown.stderr);
    let usage = controller.weft(&["trace", "blue-1", "--to", "red-1", "--at", "2"]);
    assert!(usage.has_status(2).stderr.contains("need a program"), "{}", usage.stderr);
    let usage = trace(&["blue-1", "--to", "red-1", "--live"]);
    assert!(usage.has_status(2).stderr.contains("leave out the program"), "{}", usage.stderr);
}

#[test]
fn a_saved_state_is_as_good_as_the_transactions_before_it() {
    let folder = folder();
    let save = [
        "eval",
        "builtin",
        "--objects",
        "net.yaml",
        "-i",
        "reports.jsonl",
        "--save-state",
        "now.state",
        "--final",
    ];
    folder.weft(&save).has_status(0);
    for arguments in [&["blue-1", "--to", "red-1", "--tcp", "22"][..], &["blue-1", "--to", "blue-2"]] {
        let saved = folder.weft(&[&["trace", "builtin", "--state", "now.state"], arguments].concat());
        let replayed = trace_in(&folder, arguments);
        // A state does not say which transaction a row is from.
        let numbers = (1..=3).map(|number| format!(" (transaction {number})"));
        let replayed_text = numbers.fold(replayed.stdout.clone(), |text, number| text.replace(&number, ""));
        assert_eq!((saved.status, &saved.stdout), (replayed.status, &replayed_text), "{}", saved.stderr);
    }
    // Transactions after it go on from there.
    folder.write("later.jsonl", "{\"insert\":{\"vif\":[[\"hv2\",\"blue-2\",1,\"\",9]]}}\n");
    let later = ["trace", "builtin", "--state", "now.state", "-i", "later.jsonl", "blue-1", "--to", "blue-2"];
    says(folder.weft(&later).has_status(0), &["delivered to blue-2 on hv2"]);
}
