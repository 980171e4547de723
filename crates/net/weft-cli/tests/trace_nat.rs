//! `weft trace` through gateways and address translation.

use crate::support::{Folder, Outcome};
use crate::trace::says;

/// A machine on a hypervisor, a router whose port outside has two gateways, and a row of each type.
const NETWORK: &str = "
{kind: transport_node, id: hv1, ip: 172.16.0.1, encaps: [geneve]}
---
{kind: transport_node, id: gw1, ip: 172.16.0.2, encaps: [geneve], roles: [gateway], bridge_mappings: {dc: br-dc}}
---
{kind: transport_node, id: gw2, ip: 172.16.0.3, encaps: [geneve], roles: [gateway], bridge_mappings: {dc: br-dc}}
---
{kind: switch, id: front}
---
{kind: switch_port, id: web, switch: front, addresses: [{mac: '02:00:00:00:00:01', ips: [10.0.1.1]}]}
---
{kind: switch_port, id: office, switch: front, addresses: [{mac: '02:00:00:00:00:02', ips: [10.0.1.2]}]}
---
{kind: switch, id: outside}
---
{kind: localnet_port, id: outside-dc, switch: outside, physical_network: dc}
---
{kind: router, id: r}
---
{kind: router_port, id: r-front, router: r, switch: front, mac: '02:00:00:00:ff:01', networks: [10.0.1.254/24]}
---
kind: router_port
id: r-out
router: r
switch: outside
mac: '02:00:00:00:ff:02'
networks: [203.0.113.2/24]
gateways: [{node: gw1, priority: 20}, {node: gw2, priority: 10}]
---
{kind: nat, id: all, router: r, type: snat, external: 203.0.113.9, internal: 10.0.1.0/24}
---
{kind: nat, id: of-office, router: r, type: floating, external: 203.0.113.12, internal: 10.0.1.2}
---
{kind: nat, id: http, router: r, type: dnat, external: 203.0.113.2, internal: 10.0.1.1, protocol: tcp, external_port: 80, internal_port: 8080}
";

/// The hosts have their tunnels and their patch ports.
const REPORTS: &str = r#"{"insert":{"managed":[["hv1"],["gw1"],["gw2"]],"vif":[["hv1","web",1,"",1],["hv1","office",2,"",1]],
    "tunnel_port":[["hv1","weft-geneve",100],["hv1","geneve-0x1",101],["hv1","geneve-0x2",102],["hv1","geneve-0x3",103],
        ["gw1","weft-geneve",100],["gw1","geneve-0x1",101],["gw1","geneve-0x2",102],["gw1","geneve-0x3",103],
        ["gw2","weft-geneve",100],["gw2","geneve-0x1",101],["gw2","geneve-0x2",102],["gw2","geneve-0x3",103]],
    "patch_port":[["gw1","phy-0x2bb1cdc",200],["gw2","phy-0x2bb1cdc",200]]}}"#;

fn trace(arguments: &[&str]) -> Outcome {
    let folder = Folder::new();
    folder.write("net.yaml", NETWORK).write("reports.jsonl", REPORTS.replace('\n', "") + "\n");
    let source = ["trace", "builtin", "--objects", "net.yaml", "-i", "reports.jsonl"];
    folder.weft(&[&source, arguments].concat())
}

/// A packet from the machine outside.
fn from_outside<'a>(to: &'a str, packet: &[&'a str]) -> Outcome {
    let sender = [
        "outside-dc",
        "--from-mac",
        "02:00:00:00:00:e1",
        "--from-ip",
        "203.0.113.1",
        "--to-mac",
        "02:00:00:00:ff:02",
    ];
    trace(&[&sender[..], &["--ip", to], packet].concat())
}

#[test]
fn a_packet_from_outside_goes_to_the_machine_by_the_row_that_translates_it() {
    let outcome = from_outside("203.0.113.2", &["--tcp", "80"]);
    assert_eq!(outcome.has_status(0).lines()[0], "delivered to web on hv1");
    says(&outcome, &["ip_dst: 203.0.113.2 -> 10.0.1.1", "tcp_dst: 80 -> 8080", ", by nat http", "on gw2:"]);
    // The other gateway hears the frame, too, and leaves it.
    let lines = outcome.lines();
    let dropped: Vec<&str> = lines.into_iter().filter(|line| line.contains("is dropped")).collect();
    assert_eq!(dropped, ["a copy is dropped on gw2 in outside by stage 59 HANDED_OVER, STANDS_BY"]);
    assert!(!outcome.stdout.contains("note:"), "{}", outcome.stdout);
}

#[test]
fn a_packet_that_turns_round_at_the_gateway_is_translated_by_two_rows() {
    let outcome = trace(&["office", "--ip", "203.0.113.2", "--tcp", "80"]);
    assert_eq!(outcome.has_status(0).lines()[0], "delivered to web on hv1");
    says(&outcome, &["ip_src: 10.0.1.2 -> 203.0.113.12", ", by nat http", ", by nat of-office"]);
    assert!(!outcome.stdout.contains("is dropped"), "{}", outcome.stdout);
}

#[test]
fn a_packet_that_no_row_wants_is_dropped_where_rows_are_asked() {
    let outcome = from_outside("203.0.113.9", &["--udp", "53"]);
    outcome.has_status(1);
    says(&outcome, &["dropped on gw1 in r by stage 68 N_DESTINATION, NOT_WANTED"]);
    let outcome = trace(&["web", "--ip", "203.0.113.9", "--udp", "53"]);
    outcome.has_status(1);
    says(&outcome, &["dropped on gw1 in r by stage 68 N_DESTINATION, NOT_WANTED"]);
}
