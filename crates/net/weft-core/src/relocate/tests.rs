//! What becomes of a state whose hosts get other switches.

use std::time::SystemTime;

use serde_json::json;

use super::*;
use crate::core::History;
use crate::record::{ObjectChanges, RulesText};
use crate::test_core;

const RULES: &str = r#"
type mapping = record {network: string, bridge: string};
object transport_node {
    ip: ip;
    ovsdb: opt<string>;
    openflow: opt<string>;
    datapath_type: opt<string>;
    bridge_mappings: map<mapping> = {};
    drain: bool = false;
}
object port { text: string = ""; }
input table vif(hv: string, port: string, ofport: int, mac: string, since: int) key(hv, port);
output table of_flow(hv: string, table_id: int, priority: int, match: match, actions: actions)
    key(hv, table_id, priority, match);
output table switch_address(hv: ref transport_node, ovsdb: opt<string>, openflow: opt<string>, datapath_type: opt<string>)
    key(hv);
switch_address(node, ovsdb, openflow, datapath) :-
    transport_node(id: node, ovsdb: ovsdb, openflow: openflow, datapath_type: datapath, ..);
"#;

fn text(rules: &str) -> RulesText {
    RulesText {
        packages: vec!["mine".to_owned()],
        files: BTreeMap::from([("a.nlog".into(), rules.to_owned())]),
    }
}

fn rules(rules: &str) -> Arc<Rules> {
    Arc::new(Rules::of_text(&text(rules)).unwrap())
}

/// A state with four hosts. No text but these endpoints has `prod`.
fn record() -> Record {
    let host = |id: &str, last: u8, other: Json| {
        let mut host = json!({
            "kind": "transport_node", "id": id, "ip": format!("192.0.2.{last}"), "bridge_mappings": {}, "drain": true,
            "ovsdb": format!("tcp:prod-{id}.example.org:6640"), "openflow": format!("unix:/run/prod-{id}.mgmt"),
        });
        host.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
        host
    };
    let objects = [
        json!({"kind": "port", "id": "web", "text": ""}),
        host("hv1", 1, json!({"datapath_type": "system", "bridge_mappings": {"rack": "br-prod"}})),
        host("hv2", 2, json!({"datapath_type": "netdev"})),
        host("hv3", 3, json!({"datapath_type": "system"})),
        json!({"kind": "transport_node", "id": "hv4", "ip": "192.0.2.4", "bridge_mappings": {}, "drain": false}),
    ];
    let row = |host: &Json| {
        let mappings = host["bridge_mappings"].as_object().unwrap().iter();
        let mappings: Vec<Json> =
            mappings.map(|(network, bridge)| json!({"network": network, "bridge": bridge})).collect();
        json!([
            host["id"],
            host["ip"],
            host["ovsdb"],
            host["openflow"],
            host["datapath_type"],
            mappings,
            host["drain"]
        ])
    };
    let record = json!({
        "txn": 9, "at": "2026-11-27T00:00:00Z", "by": "base",
        "insert": {
            "transport_node": objects[1..].iter().map(row).collect::<Vec<_>>(),
            "port": [["web", ""]],
            "vif": [["hv1", "web", 3, "02:00:00:00:00:01", 4], ["hv3", "db", 5, "", 2]],
        },
        "memory": {"number": {"given": [["web", 7]], "next": [[8]]}},
        "objects": {"put": objects},
        "base": {
            "format": 1, "journal": "2026-11-27T00:00:00Z-12345678", "sum": 5,
            "revisions": [[1, 2], [3, 4], [5, 6], [7, 8], [9, 9]],
            "answered": [{"key": {"text": "a-key", "checksum": 1}, "txn": 8, "at": "2026-11-27T00:00:00Z"}],
            "rules": {"packages": ["mine"], "files": {"a.nlog": RULES}},
        },
    });
    serde_json::from_value(record).unwrap()
}

fn place(host: &str, ip: Option<&str>) -> Place {
    Place {
        ip: ip.map(|ip| ip.parse().unwrap()),
        ovsdb: format!("unix:/lab/{host}/db.sock"),
        openflow: format!("unix:/lab/{host}/br-int.mgmt"),
        bridge_mappings: BTreeMap::from([("rack".to_owned(), "br-rack".to_owned())]),
    }
}

fn moved(configured: &Rules) -> Record {
    let (record, rules) = (record(), rules(RULES));
    let places = BTreeMap::from([
        ("hv1".to_owned(), place("hv1", None)),
        ("hv2".to_owned(), place("hv2", Some("172.31.0.2"))),
    ]);
    Recording::of(&record, &rules).unwrap().at(&places, Path::new("/lab/none"), configured).unwrap()
}

#[test]
fn no_endpoint_of_the_recording_is_left() {
    let moved = moved(&rules(RULES));
    let text = serde_json::to_string(&moved).unwrap();
    assert!(!text.contains("prod"), "{text}");
    // A controller gets its addresses from the rules.
    let core = test_core::core(&rules(RULES), [&moved], SystemTime::UNIX_EPOCH);
    let addresses: BTreeMap<&str, [Option<&str>; 3]> = core
        .addresses()
        .map(|(host, address)| {
            let fields = [&address.ovsdb, &address.openflow, &address.datapath_type];
            (host.as_str(), fields.map(|field| field.as_deref()))
        })
        .collect();
    let expected = [
        ("hv1", [Some("unix:/lab/hv1/db.sock"), Some("unix:/lab/hv1/br-int.mgmt"), None]),
        ("hv2", [Some("unix:/lab/hv2/db.sock"), Some("unix:/lab/hv2/br-int.mgmt"), Some("netdev")]),
        ("hv3", [Some("unix:/lab/none/4.ovsdb"), Some("unix:/lab/none/4.openflow"), Some("system")]),
        ("hv4", [None, None, None]),
    ];
    assert_eq!(addresses, BTreeMap::from(expected));
}

#[test]
fn all_else_stays_as_it_was_recorded() {
    let (before, after) = (record(), moved(&rules(RULES)));
    let objects = |record: &Record| -> BTreeMap<String, Json> {
        let objects =
            record.objects.put.iter().map(|object| serde_json::from_str::<Json>(object.text()).unwrap());
        objects.map(|object| (object["id"].as_str().unwrap().to_owned(), object)).collect()
    };
    let (was, mut is) = (objects(&before), objects(&after));
    assert_eq!(is["hv1"]["bridge_mappings"], json!({"rack": "br-rack"}));
    assert_eq!((&is["hv1"]["ip"], &is["hv2"]["ip"]), (&json!("192.0.2.1"), &json!("172.31.0.2")));
    for (id, object) in &mut is {
        for field in ["ip", "ovsdb", "openflow", "datapath_type", "bridge_mappings"] {
            if let Some(before) = was[id].get(field) {
                object[field] = before.clone();
            }
        }
    }
    assert_eq!(is, was);

    let base = |record: &Record| record.base.clone().unwrap();
    assert_eq!(base(&after).revisions, base(&before).revisions);
    let but_hosts = |record: &Record| {
        let mut record = Record { base: None, objects: ObjectChanges::default(), ..record.clone() };
        record.insert.remove("transport_node");
        record
    };
    assert_eq!(but_hosts(&after), but_hosts(&before));
    let recorded = record();
    let rules = rules(RULES);
    let web = Interface { port: "web".to_owned(), ofport: 3, mac: "02:00:00:00:00:01".to_owned() };
    assert_eq!(Recording::of(&recorded, &rules).unwrap().interfaces("hv1"), [web]);
}

#[test]
fn a_controller_runs_the_recorded_rules_whatever_its_configuration_names() {
    for configured in [RULES.to_owned(), format!("{RULES}table other(x: int);\nother(1);\n")] {
        let configured = rules(&configured);
        let mut history = History::new(&configured);
        history.add(&moved(&configured)).unwrap();
        assert_eq!(history.rules_to_run(&configured).version(), rules(RULES).version());
    }
}

#[test]
fn rules_whose_hosts_have_no_endpoints_are_refused() {
    let others = RULES
        .replace("    ovsdb: opt<string>;\n", "")
        .replace("ovsdb: ovsdb, ", "ip: _, ")
        .replace("switch_address(node, ovsdb,", "switch_address(node, none(),");
    let rules = rules(&others);
    let error = Recording::of(&record(), &rules).err().unwrap().to_string();
    assert!(
        error.starts_with("the kind transport_node of the recorded rules has no field ovsdb,"),
        "{error}"
    );
}
