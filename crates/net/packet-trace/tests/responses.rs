//! What a trace says of the responder of a host: its answer, or why there is none.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use conformance::program;
use frame_builder::{BROADCAST, Endpoints, IPV4, Ipv4, UDP, ethernet, udp};
use nlog::Program;
use nlog_data::json::parse_line;
use nlog_data::{TableDelta, TableId};
use objects::{Kinds, ObjectStore};
use openflow_rs::FlowEntry;
use packet_trace::{
    FlowRules, HostTables, Network, Origins, Payload, Trace, Words, input_engine, input_rows, json, text,
};
use serde_json::{Value as Json, json};

/// Two switches, and a router between them; ACLs that reject, a DHCP server, and a zone of names for each switch.
const OBJECTS: &str = "
{kind: transport_node, id: hv1, ip: 172.16.0.1, encaps: [geneve]}
---
{kind: switch, id: blue}
---
{kind: switch, id: red}
---
{kind: switch_port, id: blue-1, switch: blue, addresses: [{mac: '02:00:00:00:00:01', ips: [10.0.1.1, 'fd01::1']}]}
---
{kind: switch_port, id: red-1, switch: red, addresses: [{mac: '02:00:00:00:00:02', ips: [10.0.2.1]}]}
---
{kind: router, id: r}
---
{kind: router_port, id: r-blue, router: r, switch: blue, mac: '02:00:00:00:ff:01', networks: [10.0.1.254/24, 'fd01::fe/64']}
---
{kind: router_port, id: r-red, router: r, switch: red, mac: '02:00:00:00:ff:02', networks: [10.0.2.254/24]}
---
{kind: acl, id: no-web, switch: red, direction: to_port, priority: 100, match: {tp_dst: 80, ip_proto: tcp}, action: reject}
---
{kind: acl, id: no-dns, switch: red, direction: to_port, priority: 100, match: {tp_dst: 53, ip_proto: udp}, action: reject}
---
{kind: dhcp, id: d, switch: blue, net: 10.0.1.0/24, server: {ip: 10.0.1.253, mac: '02:00:00:00:ff:03'}}
---
{kind: dns_zone, id: names, switches: [blue], server: {ip: 10.0.1.252, mac: '02:00:00:00:ff:04'}, records: {db.example: [10.0.2.1]}}
---
{kind: dns_zone, id: others, switches: [red], records: {db.example: [10.0.2.9]}}
";

const REPORTS: &str =
    r#"{"insert":{"managed":[["hv1"]],"vif":[["hv1","blue-1",1,"",1],["hv1","red-1",2,"",1]]}}"#;

static RULES: LazyLock<(Arc<Program>, Origins)> = LazyLock::new(|| {
    let rules = program::rules();
    let store = ObjectStore::new(&Kinds::new(rules.objects.clone()));
    let changes = store.plan_document("net.yaml", OBJECTS).unwrap();
    let reports = parse_line(REPORTS.as_bytes(), 1, &rules.schema).unwrap().transaction;
    let mut engine = input_engine(&rules).unwrap();
    for transaction in [changes.rows().transaction(&rules.schema), reports] {
        engine.commit(&transaction).unwrap();
    }
    let rows = input_rows(&rules, &mut *engine).unwrap();
    (rules, rows)
});

fn network() -> Network {
    let (rules, rows) = &*RULES;
    Network::new(rules, rows.clone()).unwrap()
}

fn traced(payload: Payload, ttl: Option<u8>) -> Trace {
    let words = Words {
        to: Some("red-1".to_owned()),
        ip: None,
        from_ip: None,
        from_mac: None,
        to_mac: None,
        payload,
        ttl,
        size: None,
    };
    let mut network = network();
    let sent = network.packet("blue-1", &words).unwrap();
    network.trace(&sent).unwrap()
}

fn traced_flow(fields: &str) -> Trace {
    let mut network = network();
    let sent = network.packet_of_flow("blue-1", fields).unwrap();
    network.trace(&sent).unwrap()
}

/// The lines of the text that say what the responder does, and the answers for programs.
#[track_caller]
fn said(trace: &Trace) -> (Vec<String>, Json) {
    let text = text::text(trace, false);
    assert!(text.starts_with("dropped on hv1"), "an answer is no delivery:\n{text}");
    let lines = text.lines().filter(|line| line.contains("responder of")).map(str::to_owned).collect();
    (lines, json::json(trace)["answers"].clone())
}

#[track_caller]
fn answers(trace: &Trace, what: &str) -> Json {
    let (lines, json) = said(trace);
    let line =
        format!("the responder of hv1, if it runs, answers: {what}, at most 10 a second for each receiver");
    assert_eq!(lines, [line]);
    json[0].clone()
}

#[test]
fn a_router_tells_that_the_ttl_has_expired() {
    let trace = traced(Payload::Udp(33434), Some(1));
    let json = answers(&trace, "ICMP time exceeded, from 10.0.1.254 to 10.0.1.1");
    assert_eq!((&json["node"], &json["kind"]), (&json!("hv1"), &json!("time_exceeded")));
    assert_eq!((&json["from"], &json["to"]), (&json!("10.0.1.254"), &json!("10.0.1.1")));
    assert_eq!((&json["silence"], &json["at"]["stage"]), (&Json::Null, &json!("RESPOND")));
    let text = text::text(&trace, false);
    assert!(text.contains("    stage 60 RESPOND, CAME_FROM_PORT, rule "), "{text}");
    assert!(
        text.contains("    because of switch_port blue-1, transport_node hv1, router_port r-blue"),
        "{text}"
    );
    let v6 = "udp6,dl_dst=02:00:00:00:ff:01,ipv6_src=fd01::1,ipv6_dst=fd02::1,nw_ttl=1,tp_src=1,tp_dst=2";
    answers(&traced_flow(v6), "ICMPv6 time exceeded, from fd01::fe to fd01::1");
}

#[test]
fn what_an_acl_rejects_is_answered_in_the_name_of_its_receiver() {
    answers(&traced(Payload::Tcp(80), None), "TCP reset, from 10.0.2.1 to 10.0.1.1");
    let udp = answers(
        &traced(Payload::Udp(53), None),
        "ICMP administratively prohibited, from 10.0.2.1 to 10.0.1.1",
    );
    assert_eq!(udp["kind"], "rejected");
}

#[test]
fn errors_are_not_answered() {
    let fields = |kind| format!("icmp,dl_dst=02:00:00:00:ff:01,nw_dst=10.0.2.1,nw_ttl=1,icmp_type={kind}");
    let trace = traced_flow(&fields(3));
    let (lines, json) = said(&trace);
    let why = "stage 60 RESPOND, UNANSWERED drops the packet before";
    assert_eq!(lines, [format!("the responder of hv1 answers nothing: {why}")]);
    assert_eq!((&json[0]["kind"], &json[0]["silence"]), (&Json::Null, &json!(why)));
    assert!(text::text(&trace, false).contains("nobody answers it (RFC 1812"), "the flow says why");
    // No flow knows this type.
    let (lines, json) = said(&traced_flow(&fields(99)));
    let why = "the packet is an ICMP error itself, or ICMP of unknown kind";
    assert_eq!(lines, [format!("the responder of hv1 answers nothing: {why}")]);
    assert_eq!(json[0]["silence"], why);
}

#[test]
fn a_dhcp_server_offers_an_address() {
    const DISCOVER: [u8; 8] = [0x63, 0x82, 0x53, 0x63, 53, 1, 1, 255];
    let mac = [2, 0, 0, 0, 0, 1];
    let mut message = vec![1, 1, 6, 0, 1, 2, 3, 4];
    message.resize(28, 0);
    message.extend(mac);
    message.resize(236, 0);
    message.extend(DISCOVER);
    let (from, to) = ("0.0.0.0".parse().unwrap(), "255.255.255.255".parse().unwrap());
    let datagram = udp(68, 67, &message, Endpoints::V4(from, to));
    let frame = ethernet(BROADCAST, mac, IPV4, &Ipv4::new(from, to, UDP).packet(&datagram));
    let mut network = network();
    let sent = network.packet_of_bytes("blue-1", frame).unwrap();
    let trace = network.trace(&sent).unwrap();
    let json = answers(&trace, "DHCP offer of 10.0.1.1, from 10.0.1.253 to 10.0.1.1");
    assert_eq!(json["kind"], "dhcpv4_offer");
    let because = json["because"].as_array().unwrap();
    assert!(because.iter().any(|leaf| leaf["what"] == "dhcp d"), "{json}");
}

/// The trace of a query for the IPv4 address of a name.
fn queried(from: &str, ends: [(u8, &str); 2], name: &str) -> Trace {
    let [(from_mac, from_ip), (to_mac, to_ip)] = ends;
    let mut message = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        message.push(label.len() as u8);
        message.extend(label.bytes());
    }
    message.extend([0, 0, 1, 0, 1]);
    let (from_ip, to_ip) = (from_ip.parse().unwrap(), to_ip.parse().unwrap());
    let datagram = udp(50_000, 53, &message, Endpoints::V4(from_ip, to_ip));
    let packet = Ipv4::new(from_ip, to_ip, UDP).packet(&datagram);
    let frame = ethernet([2, 0, 0, 0, 0xff, to_mac], [2, 0, 0, 0, 0, from_mac], IPV4, &packet);
    let mut network = network();
    let sent = network.packet_of_bytes(from, frame).unwrap();
    network.trace(&sent).unwrap()
}

#[test]
fn a_query_is_followed_from_the_reader_of_its_name_to_the_answer() {
    let asked = |name: &str| {
        let trace = queried("blue-1", [(1, "10.0.1.1"), (4, "10.0.1.252")], name);
        let (lines, json) = said(&trace);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].contains("looks the name up: key 0x"), "{lines:?}");
        assert_eq!((&json[0]["kind"], &json[1]["kind"]), (&json!("dns_looked_up"), &json!("dns")));
        let because = json[1]["because"].as_array().unwrap();
        assert!(because.iter().any(|leaf| leaf["what"] == "dns_zone names"), "{json}");
        assert_eq!(trace.dropped.len(), 1, "the query ends once");
        lines[1].clone()
    };
    let answer = "the responder of hv1, if it runs, answers: DNS answer";
    let ends = ", from 10.0.1.252 to 10.0.1.1";
    assert_eq!(asked("db.example"), format!("{answer} with 1 record{ends}"));
    assert_eq!(asked("www.example"), format!("{answer}, no such name{ends}"));
    assert_eq!(asked("www.test"), format!("{answer}, refused{ends}"));
}

#[test]
fn a_query_that_is_not_for_the_network_is_followed_to_its_server() {
    // The zone of the other switch has no server, so all queries come by the responder, and go on.
    let trace = queried("red-1", [(2, "10.0.2.1"), (2, "10.0.1.1")], "elsewhere.example");
    let text = text::text(&trace, false);
    assert!(trace.delivered.iter().any(|one| one.port == "blue-1"), "{text}");
    assert!(trace.dropped.is_empty() && text.contains("looks the name up"), "{text}");
    assert!(trace.hops.last().unwrap().before.is_some(), "it goes on where it was");
}

/// A host whose only flow asks for something that no responder of this version knows.
struct Newer;

impl HostTables for Newer {
    fn flows(&self, _: &str) -> Result<Vec<FlowEntry>, String> {
        Ok(vec!["table=0 actions=controller(id=7,userdata=02)".parse().unwrap()])
    }

    fn others(&self, _: &str) -> Result<BTreeMap<TableId, TableDelta>, String> {
        Ok(BTreeMap::new())
    }

    fn rules(&self, _: &str, _: &FlowEntry) -> Option<FlowRules> {
        None
    }
}

#[test]
fn an_instruction_of_another_version_is_told() {
    let (rules, rows) = &*RULES;
    let mut network = Network::over(rules, rows.clone(), Box::new(Newer), false).unwrap();
    let sent = network.packet_of_flow("blue-1", "dl_dst=02:00:00:00:ff:01,ip").unwrap();
    let (lines, json) = said(&network.trace(&sent).unwrap());
    let why = "the responder of hv1 answers nothing: the userdata of the flow has format 2";
    assert!(lines.len() == 1 && lines[0].starts_with(why), "{lines:?}");
    assert_eq!((&json[0]["kind"], &json[0]["at"]["table"]), (&Json::Null, &json!(0)));
}

#[test]
fn what_needs_no_answer_has_none() {
    let trace = traced(Payload::Tcp(443), None);
    assert!(trace.is_delivered() && trace.responses.is_empty(), "{}", text::text(&trace, false));
}
