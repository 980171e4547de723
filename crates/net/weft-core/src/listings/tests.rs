use std::time::SystemTime;

use openflow_rs::FlowEntry;
use serde_json::json;

use super::*;
use crate::test_core;

/// Ports with an address count in three ways, and a listing says their networks.
const RULES: &str = r#"
    object node {}
    object switch {}
    object port { switch: ref switch; host: string; number: int; nets: list<net>; hop: string; }
    output table switch_address(
        hv: ref node, ovsdb: opt<string>, openflow: opt<string>, datapath_type: opt<string>,
    ) key(hv);
    output table of_flow(hv: string, table_id: int, priority: int, match: match, actions: actions)
        key(hv, table_id, priority, match);
    of_flow(host, 1, number, match{reg0: 7}, actions[]) :- port(host: host, number: number, ..);

    ## The networks of a port. Also those that it shares.
    listing table port_nets(port: ref port, net: net, hop: string) key(port, net, hop) else "the port has no networks";
    port_nets(port, net, hop) :- port(id: port, nets: nets, hop: hop, ..), element(nets, net);

    counter table port_drops(port: ref port, node: string, meter: int)
        key(port, node)
        reads meter(node, meter) as (seen: packets, dropped: dropped);
    port_drops(port, host, number) :- port(id: port, host: host, number: number, ..);

    counter table switch_packets(switch: ref switch, t: int, p: int, m: match)
        reads flow(t, p, m) as (packets: packets, bytes: bytes);
    switch_packets(switch, 1, number, match{reg0: 7}) :- port(switch: switch, number: number, ..);

    counter table learned(switch: ref switch, port: string, limit: int, t: int, m: match, cookie: int)
        reads learned(t, m, cookie) on learner as (count: entries of limit, addresses: eth_dst);
    learned(switch, port, 2, 5, match{reg1: number}, number) :- port(id: port, switch: switch, number: number, ..);
    output table learner(host: string, switch: ref switch);
    learner(host, switch) :- port(host: host, switch: switch, ..);
"#;

const OBJECTS: [&str; 5] = [
    r#"{"kind": "switch", "id": "blue"}"#,
    r#"{"kind": "switch", "id": "red"}"#,
    r#"{"kind": "port", "id": "b1", "switch": "blue", "host": "hv1", "number": 1,
        "nets": ["10.0.0.0/8", "10.0.0.0/24", "::/0", "0.0.0.0/0"], "hop": ""}"#,
    r#"{"kind": "port", "id": "b2", "switch": "blue", "host": "hv2", "number": 2, "nets": [], "hop": ""}"#,
    r#"{"kind": "port", "id": "b3", "switch": "blue", "host": "hv1", "number": 3, "nets": ["10.0.0.0/8"], "hop": "10.0.0.9"}"#,
];

fn core() -> Core {
    let now = SystemTime::UNIX_EPOCH;
    let mut core = test_core::core(&test_core::rules(RULES), [], now);
    for object in OBJECTS {
        test_core::apply(&mut core, object, now);
    }
    core
}

fn asked(core: &Core, name: &str, id: Option<&str>) -> Asked {
    Asked::of(core, name, None, id).unwrap()
}

/// The rows that a host has counted for.
fn answer(plan: &Plan, host: &str, counts: &Counts, details: bool) -> Json {
    json!(plan.answer(host, counts, details))
}

#[test]
fn rows_of_a_listing_are_in_the_order_in_which_people_read_them() {
    let core = core();
    let rows = asked(&core, "port-nets", Some("b1")).rows();
    let nets: Vec<&Json> = rows.iter().map(|row| &row["net"]).collect();
    assert_eq!(nets, ["10.0.0.0/24", "10.0.0.0/8", "0.0.0.0/0", "::/0"]);
    assert_eq!((&rows[0]["hop"], &rows[0]["port"]), (&Json::Null, &"b1".into()));
    assert_eq!(asked(&core, "port-nets", Some("b2")).rows().len(), 0);
    let all = asked(&core, "port-nets", None).rows();
    assert_eq!((all.len(), &all[4]["hop"]), (5, &"10.0.0.9".into()));
    let texts = |a: &str, b: &str| in_order(&Value::String(a.into()), &Value::String(b.into()));
    assert_eq!([texts("10.0.0.9", "10.0.0.10"), texts("b", "a")], [Ordering::Less, Ordering::Greater]);
}

#[test]
fn what_is_not_there_says_what_is() {
    let core = core();
    let refused =
        |name: &str, kind: Option<&str>, id: &str| Asked::of(&core, name, kind, Some(id)).unwrap_err();
    let all = ["learned", "port-drops", "port-nets", "switch-packets"].map(str::to_owned);
    assert_eq!(refused("nets", None, "b1"), NoListing::Name(all.to_vec()));
    assert_eq!(refused("learned", Some("port"), "b1"), NoListing::Name(all[1..3].to_vec()));
    assert_eq!(refused("port-nets", None, "blue"), NoListing::Object(vec!["port".to_owned()]));
}

#[test]
fn a_description_has_the_columns_of_an_answer() {
    let core = core();
    let names = |name: &str| -> Vec<String> {
        asked(&core, name, None).description().columns.into_iter().map(|column| column.name).collect()
    };
    assert_eq!(names("port-drops"), ["port", "node", "seen", "dropped"]);
    assert_eq!(names("switch-packets"), ["switch", "node", "packets", "bytes"]);
    assert_eq!(names("learned"), ["switch", "node", "port", "limit", "count", "addresses"]);
    let nets = asked(&core, "port-nets", None).description();
    assert_eq!(
        (nets.doc.as_str(), nets.otherwise.as_str()),
        ("The networks of a port. Also those that it shares.", "the port has no networks")
    );
}

#[test]
fn a_meter_that_is_not_there_yet_has_counted_nothing() {
    let core = core();
    let plan = asked(&core, "port-drops", None).plan();
    let hosts: Vec<(String, bool)> =
        plan.to_read().into_iter().map(|(host, read)| (host, read.meters)).collect();
    assert_eq!(hosts, [("hv1".to_owned(), true), ("hv2".to_owned(), true)]);
    let meter = |meter, packets, dropped| MeterCount { meter, packets, bytes: 0, dropped };
    let counts = Counts { meters: vec![meter(9, 3, 3), meter(3, 1000, 890)], ..Counts::default() };
    assert_eq!(
        answer(&plan, "hv1", &counts, false),
        json!([
            {"port": "b1", "node": "hv1", "seen": 0, "dropped": 0},
            {"port": "b3", "node": "hv1", "seen": 1000, "dropped": 890},
        ])
    );
}

#[test]
fn flows_are_read_where_they_are_and_those_of_an_object_are_added_up() {
    let core = core();
    let plan = asked(&core, "switch-packets", Some("blue")).plan();
    let flows: Vec<usize> = plan.to_read().values().map(|read| read.flows.len()).collect();
    assert_eq!(flows, [2, 1]);
    assert_eq!(plan.to_read().keys().collect::<Vec<_>>(), ["hv1", "hv2"]);
    let counted =
        |(key, packets): (&FlowKey, u64)| FlowCount { key: key.clone(), packets, bytes: 2 * packets };
    let counts = plan.to_read()["hv1"].flows.iter().zip([5, 7]).map(counted).collect();
    let counts = Counts { flows: counts, ..Counts::default() };
    let rows = answer(&plan, "hv1", &counts, false);
    assert_eq!(rows, json!([{"switch": "blue", "node": "hv1", "packets": 12, "bytes": 24}]));
    assert_eq!(core.flows_counted_for("switch", "blue").len(), 3);
    assert_eq!(core.flows_counted_for("port", "blue").len(), 0);
}

#[test]
fn learned_flows_are_counted_by_cookie_and_listed_for_those_who_ask() {
    let core = core();
    let one = asked(&core, "learned", Some("blue")).plan();
    assert_eq!(one.to_read().keys().collect::<Vec<_>>(), ["hv1", "hv2"]);
    // Three ports have three matches: one question reads them all.
    assert_eq!(one.to_read()["hv2"].learned, Some((5, Match::any())));
    assert!(asked(&core, "learned", Some("red")).plan().to_read().is_empty());
    let flow = |cookie, last: u8| {
        let text = format!("table=5,priority=50,reg1=1,dl_dst=02:00:00:00:00:{last:02x} actions=drop");
        let entry: FlowEntry = text.parse().unwrap();
        LearnedFlow::new(FlowKey::new(entry.table, entry.priority, &entry.matches).unwrap(), cookie)
    };
    let learned = vec![flow(2, 9), flow(1, 4), flow(1, 2), flow(77, 3)];
    let counts = Counts { learned, ..Counts::default() };
    let expected = |details: bool| {
        let mut rows = json!([
            {"switch": "blue", "node": "hv2", "port": "b1", "limit": 2, "count": 2, "reached": true},
            {"switch": "blue", "node": "hv2", "port": "b2", "limit": 2, "count": 1, "reached": false},
        ]);
        if details {
            rows[0]["addresses"] = json!(["02:00:00:00:00:02", "02:00:00:00:00:04"]);
            rows[1]["addresses"] = json!(["02:00:00:00:00:09"]);
        }
        rows
    };
    assert_eq!(answer(&one, "hv2", &counts, false), expected(false));
    assert_eq!(answer(&one, "hv2", &counts, true), expected(true));
}

#[test]
fn rows_go_with_their_objects() {
    let mut core = core();
    let gone = r#"{"kind": "port", "id": "b1", "delete": true}"#;
    test_core::apply(&mut core, gone, SystemTime::UNIX_EPOCH);
    assert_eq!(asked(&core, "port-nets", None).rows().len(), 1);
    assert_eq!(asked(&core, "port-drops", None).plan().to_read().len(), 2);
    assert_eq!(
        Asked::of(&core, "port-nets", None, Some("b1")).unwrap_err(),
        NoListing::Object(vec!["port".to_owned()])
    );
}
