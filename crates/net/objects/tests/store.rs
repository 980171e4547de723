//! The changes that a store accepts, the resulting rows, and independence of history.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nlog_data::{Row, Value};
use objects::{ChangeSet, ObjectError, ObjectKey, ObjectStore, Outcome};
use proptest::prelude::*;

use crate::support::{batch, built_in, empty_store, numbered};

fn apply(store: &mut ObjectStore, text: &str) -> ChangeSet {
    let mut batch = batch(&built_in());
    if !text.is_empty() {
        batch.add_document("net.yaml", text);
    }
    let changes = store.plan(batch).unwrap_or_else(|faults| panic!("{faults:#?}"));
    store.commit(&changes);
    changes
}

/// `+ table ["value"]` or `- …`, with values as JSON.
fn shown(changes: &ChangeSet) -> Vec<String> {
    let rows = changes.rows();
    let line = |sign: &str, table: &str, row: &Row| {
        let values: Vec<String> = row
            .iter()
            .map(|value| match value {
                Value::String(text) => text.to_string(),
                Value::Mac(mac) => mac.to_string(),
                Value::Ip(ip) => ip.to_string(),
                other => other.to_string(),
            })
            .collect();
        format!("{sign} {table} {}", values.join(" "))
    };
    let delete = rows.delete.iter().flat_map(|(table, rows)| rows.iter().map(|row| line("-", table, row)));
    let insert = rows.insert.iter().flat_map(|(table, rows)| rows.iter().map(|row| line("+", table, row)));
    delete.chain(insert).collect()
}

#[test]
fn objects_become_rows() {
    let mut store = empty_store();
    let changes = apply(
        &mut store,
        "
kind: switch_port
id: blue-1
switch: blue
port_security: true
addresses:
  - {mac: '02:00:00:00:00:0A', ips: ['10.0.0.1', 'FD00:0:0::1']}
  - {mac: 02:00:00:00:00:02}
---
# A comment alone makes no object.
---
kind: transport_node
id: hv1
role: gateway
ip: 172.16.0.1
encaps: [vxlan, geneve]
---
kind: switch
id: blue
tenant: acme
---
{kind: switch, id: red}
---
{kind: transport_zone, id: far, tunnels: port, mtu: 9000}
---
kind: transport_node
id: hv2
ip: 172.16.0.2
transport_zone: far
bridge_mappings: {physnet: br-ex, 'storage:1': br-storage}
---
{kind: switch_port, id: blue-2, switch: blue, unknown_addresses: true}
---
{kind: switch_port, id: red-1, switch: red, parent: blue-2, tag: 4094}
---
{kind: localnet_port, id: out, switch: blue, network: physnet, tag: 7}
---
{kind: localnet_port, id: red-out, switch: red, network: storage:1}
",
    );
    assert_eq!(
        shown(&changes),
        [
            "+ localnet_port out blue physnet 7",
            "+ localnet_port red-out red storage:1 0",
            "+ switch blue acme",
            "+ switch red none",
            "+ switch_port blue-1 blue [(mac\"02:00:00:00:00:0a\", [ip\"10.0.0.1\", ip\"fd00::1\"]), (mac\"02:00:00:00:00:02\", [])] true false none none",
            "+ switch_port blue-2 blue [] false true none none",
            "+ switch_port red-1 red [] false false blue-2 4094",
            "+ transport_node hv1 [\"gateway\"] 172.16.0.1 [\"vxlan\", \"geneve\"] none {} none none none",
            "+ transport_node hv2 [\"hypervisor\"] 172.16.0.2 [\"geneve\"] far {(\"physnet\", \"br-ex\"), (\"storage:1\", \"br-storage\")} none none none",
            "+ transport_zone far port 9000",
        ]
    );
    assert!(changes.changes.iter().all(|change| change.outcome() == Outcome::Created));
}

#[test]
fn defaults_are_those_of_the_contract() {
    let mut store = empty_store();
    apply(&mut store, "{kind: transport_node, id: hv1, ip: 172.16.0.1}");
    apply(
        &mut store,
        "{kind: switch, id: blue}\n---\n{kind: switch_port, id: p, switch: blue, port_security: null}",
    );
    apply(
        &mut store,
        "{kind: transport_zone, id: z}\n---\n{kind: localnet_port, id: l, switch: blue, network: physnet, tag: null}
---
{kind: switch_port, id: q, switch: blue, parent: p, tag: 9}",
    );
    let json: Vec<String> = store.iter().map(|(_, object)| object.to_json()).collect();
    assert_eq!(
        json,
        [
            r#"{"kind":"transport_zone","id":"z","tunnels":"flow","mtu":1500}"#,
            r#"{"kind":"transport_node","id":"hv1","roles":["hypervisor"],"ip":"172.16.0.1","encaps":["geneve"],"bridge_mappings":{}}"#,
            r#"{"kind":"switch","id":"blue"}"#,
            r#"{"kind":"switch_port","id":"p","switch":"blue","addresses":[],"port_security":false,"unknown_addresses":false}"#,
            r#"{"kind":"switch_port","id":"q","switch":"blue","addresses":[],"port_security":false,"unknown_addresses":false,"parent":"p","tag":9}"#,
            r#"{"kind":"localnet_port","id":"l","switch":"blue","physical_network":"physnet","tag":0}"#,
        ]
    );
}

#[test]
fn a_change_touches_only_the_rows_that_differ() {
    let mut store = empty_store();
    apply(
        &mut store,
        "
{kind: switch, id: blue}
---
{kind: switch, id: red}
---
{kind: switch_port, id: p1, switch: blue, addresses: [{mac: 02:00:00:00:00:01, ips: [10.0.0.1]}]}
---
{kind: switch_port, id: p2, switch: blue, addresses: [{mac: 02:00:00:00:00:02, ips: [10.0.0.2]}]}
",
    );
    // Two ports swap their addresses: possible only because a file is checked as a whole.
    let changes = apply(
        &mut store,
        "
{kind: switch_port, id: p1, switch: blue, addresses: [{mac: 02:00:00:00:00:01, ips: [10.0.0.2]}]}
---
{kind: switch_port, id: p2, switch: blue, addresses: [{mac: 02:00:00:00:00:02, ips: [10.0.0.1]}]}
---
{kind: switch, id: red}
",
    );
    assert_eq!(
        shown(&changes),
        [
            "- switch_port p1 blue [(mac\"02:00:00:00:00:01\", [ip\"10.0.0.1\"])] false false none none",
            "- switch_port p2 blue [(mac\"02:00:00:00:00:02\", [ip\"10.0.0.2\"])] false false none none",
            "+ switch_port p1 blue [(mac\"02:00:00:00:00:01\", [ip\"10.0.0.2\"])] false false none none",
            "+ switch_port p2 blue [(mac\"02:00:00:00:00:02\", [ip\"10.0.0.1\"])] false false none none",
        ]
    );
    let outcomes: Vec<Outcome> = changes.changes.iter().map(objects::Change::outcome).collect();
    assert_eq!(outcomes, [Outcome::Updated, Outcome::Updated, Outcome::Unchanged]);

    // The swap is in force: the old owner's address is free, the new one's is not.
    let mut batch = batch(&built_in());
    batch.add_document(
        "net.yaml",
        "{kind: switch_port, id: p3, switch: blue, addresses: [{mac: 02:00:00:00:00:03, ips: [10.0.0.1]}]}",
    );
    let faults = store.plan(batch).unwrap_err();
    assert!(faults[0].message.contains("already belongs to switch_port p2"), "{faults:?}");

    // A port moves to another switch, so the first switch can be deleted.
    apply(
        &mut store,
        "{kind: switch_port, id: p1, switch: red}\n---\n{kind: switch_port, id: p2, switch: red}",
    );
    assert!(store.plan_delete(&[ObjectKey::new("switch", "red")]).is_err());
    assert!(store.plan_delete(&[ObjectKey::new("switch", "blue")]).is_ok());
}

/// An object of a small world in which clashes are likely.
fn object() -> impl Strategy<Value = String> {
    let zone = (0..2, prop::bool::ANY).prop_map(|(id, flow)| {
        let tunnels = if flow { "flow" } else { "port" };
        format!(r#"{{"kind":"transport_zone","id":"z{id}","tunnels":"{tunnels}"}}"#)
    });
    let node = (0..3, 0..3, prop::collection::btree_map(0..3, 0..3, 0..3)).prop_map(|(id, zone, mappings)| {
        let zone = if zone < 2 { format!(r#","transport_zone":"z{zone}""#) } else { String::new() };
        let mappings: Vec<String> = mappings.iter().map(|(net, br)| format!(r#""n{net}":"br-{br}""#)).collect();
        let mappings = mappings.join(",");
        format!(r#"{{"kind":"transport_node","id":"hv{id}","ip":"172.16.0.{}"{zone},"bridge_mappings":{{{mappings}}}}}"#, id + 1)
    });
    let switch = (0..3, 0..3)
        .prop_map(|(id, tenant)| format!(r#"{{"kind":"switch","id":"s{id}","tenant":"t{tenant}"}}"#));
    let addresses = prop::collection::vec((0..4, prop::collection::vec(0..4, 0..3)), 0..3);
    let port = (0..5, 0..3, addresses, prop::option::of((0..5, 1..3)), 0..4usize).prop_map(
        |(id, switch, addresses, behind, flags)| {
            let addresses: Vec<String> = addresses
                .into_iter()
                .map(|(mac, ips)| {
                    let ips: Vec<String> =
                        ips.into_iter().map(|ip| format!(r#""10.0.0.{}""#, ip + 1)).collect();
                    format!(r#"{{"mac":"02:00:00:00:00:0{mac}","ips":[{}]}}"#, ips.join(","))
                })
                .collect();
            let addresses = addresses.join(",");
            let behind = behind.map(|(parent, tag)| format!(r#","parent":"p{parent}","tag":{tag}"#));
            let flags = ["", r#","port_security":true"#, r#","unknown_addresses":true"#, ""][flags];
            let more = behind.unwrap_or_default() + flags;
            format!(r#"{{"kind":"switch_port","id":"p{id}","switch":"s{switch}","addresses":[{addresses}]{more}}}"#)
        },
    );
    let localnet = (3..6, 0..3, 0..3).prop_map(|(id, switch, tag)| {
        format!(r#"{{"kind":"localnet_port","id":"p{id}","switch":"s{switch}","network":"n0","tag":{tag}}}"#)
    });
    prop_oneof![1 => zone, 1 => node, 2 => switch, 4 => port, 1 => localnet]
}

#[derive(Debug, Clone)]
enum Step {
    Apply(Vec<String>),
    Delete(Vec<ObjectKey>),
}

fn step() -> impl Strategy<Value = Step> {
    let kinds = [
        ("transport_zone", "z"),
        ("transport_node", "hv"),
        ("switch", "s"),
        ("switch_port", "p"),
        ("switch_port", "p"),
        ("localnet_port", "p"),
    ];
    let key = (prop::sample::select(kinds.to_vec()), 0..5)
        .prop_map(|((kind, prefix), id)| ObjectKey::new(kind, format!("{prefix}{id}")));
    prop_oneof![
        3 => prop::collection::vec(object(), 1..3).prop_map(Step::Apply),
        1 => prop::collection::vec(key, 1..3).prop_map(Step::Delete),
    ]
}

/// Checks the invariants from scratch: references are valid and unique values are unique.
fn assert_sound(store: &ObjectStore) {
    let mut held = BTreeSet::new();
    let mut hold = |what: String| assert!(held.insert(what.clone()), "{what} is there twice");
    let there = |kind: &str, id: &Value| match id {
        Value::None => {}
        Value::String(id) => assert!(store.get(&ObjectKey::new(kind, id.clone())).is_some(), "{kind} {id}"),
        other => panic!("{other} is no id"),
    };
    for node in store.list("transport_node") {
        there("transport_zone", &node.row()[4]);
        hold(format!("tunnel endpoint {}", node.row()[2]));
    }
    for port in store.list("localnet_port") {
        let [id, switch, network, tag] = port.row() else { panic!("{port:?}") };
        there("switch", switch);
        hold(format!("port {id}"));
        hold(format!("localnet of {switch}"));
        hold(format!("tag {tag} of {network}"));
    }
    for port in store.list("switch_port") {
        let [id, switch, Value::List(addresses), _, _, parent, tag] = port.row() else { panic!("{port:?}") };
        there("switch", switch);
        there("switch_port", parent);
        hold(format!("port {id}"));
        for address in addresses.iter() {
            let Value::Record(address) = address else { panic!("{port:?}") };
            let [mac, Value::List(ips)] = &**address else { panic!("{port:?}") };
            hold(format!("{mac} on {switch}"));
            ips.iter().for_each(|ip| hold(format!("{ip} on {switch}")));
        }
        if *parent != Value::None && *tag != Value::None {
            hold(format!("tag {tag} of {parent}"));
        }
    }
}

fn plan(store: &ObjectStore, step: &Step) -> Result<ChangeSet, Vec<ObjectError>> {
    match step {
        Step::Apply(objects) => {
            let mut batch = batch(&built_in());
            batch.add_json("step", &objects.join("\n"));
            store.plan(batch)
        }
        Step::Delete(keys) => store.plan_delete(keys),
    }
}

fn faults(plan: &Result<ChangeSet, Vec<ObjectError>>) -> Vec<String> {
    plan.as_ref().err().into_iter().flatten().map(ToString::to_string).collect()
}

/// A store filled at once with the objects of another.
fn fresh_copy(store: &ObjectStore) -> ObjectStore {
    let yaml: Vec<String> = store.iter().map(|(_, object)| object.to_yaml()).collect();
    let mut copy = empty_store();
    apply(&mut copy, &yaml.join("---\n"));
    copy
}

proptest! {
    #[test]
    fn rows_follow_the_objects_through_any_history(steps in prop::collection::vec(step(), 1..30)) {
        let mut store = empty_store();
        let mut rows: BTreeMap<Arc<str>, BTreeSet<Row>> = BTreeMap::new();
        // Most objects need a switch.
        let switches = ["s0", "s1", "s2"].map(|id| format!(r#"{{"kind":"switch","id":"{id}"}}"#));
        for step in std::iter::once(&Step::Apply(switches.to_vec())).chain(&steps) {
            let plan = plan(&store, step);
            // What was in force before has no say: a store that only ever had these objects decides alike.
            let fresh = faults(&self::plan(&fresh_copy(&store), step));
            prop_assert_eq!(faults(&plan), fresh);
            let Ok(changes) = plan else { continue };
            let delta = changes.rows();
            for (table, gone) in &delta.delete {
                for row in gone {
                    prop_assert!(rows.entry(table.clone()).or_default().remove(row), "{table} had no {row:?}");
                }
            }
            for (table, come) in &delta.insert {
                for row in come {
                    prop_assert!(rows.entry(table.clone()).or_default().insert(row.clone()), "{table} had {row:?}");
                }
            }
            store.commit(&changes);
            assert_sound(&store);
        }

        // A store filled at once from the other's canonical text, in YAML, is equal and has the same rows.
        let yaml: Vec<String> = store.iter().map(|(_, object)| object.to_yaml()).collect();
        let mut copy = empty_store();
        let changes = apply(&mut copy, &yaml.join("---\n"));
        prop_assert!(store.iter().eq(copy.iter()));
        let fresh: BTreeMap<Arc<str>, BTreeSet<Row>> =
            changes.rows().insert.into_iter().map(|(table, rows)| (table, rows.into_iter().collect())).collect();
        rows.retain(|_, rows| !rows.is_empty());
        prop_assert_eq!(rows, fresh);
    }
}

/// The outcome of each object of a request.
fn outcomes(changes: &ChangeSet) -> Vec<String> {
    changes.changes.iter().map(|change| format!("{} {:?}", change.key, change.outcome())).collect()
}

const SMALL_NETWORK: &str = "
{kind: switch, id: blue}
---
{kind: switch_port, id: vm, switch: blue, addresses: [{mac: '02:00:00:00:00:01'}]}
---
{kind: switch_port, id: inner, switch: blue, parent: vm, tag: 7}
";

#[test]
fn a_rename_is_one_request() {
    let mut store = empty_store();
    apply(&mut store, SMALL_NETWORK);
    let rename = "
{kind: switch_port, id: vm, delete: true, switch: blue, bogus: 1}
---
{kind: switch_port, id: machine, switch: blue, addresses: [{mac: '02:00:00:00:00:01'}], delete: false}
---
{kind: switch_port, id: inner, switch: blue, parent: machine, tag: 7}
---
{kind: localnet_port, id: none, delete: true}
";
    let changes = apply(&mut store, rename);
    let outcome = [
        "switch_port vm Deleted",
        "switch_port machine Created",
        "switch_port inner Updated",
        "localnet_port none Absent",
    ];
    assert_eq!(outcomes(&changes), outcome);
    assert_eq!(
        shown(&changes),
        [
            "- switch_port inner blue [] false false vm 7",
            "- switch_port vm blue [(mac\"02:00:00:00:00:01\", [])] false false none none",
            "+ switch_port inner blue [] false false machine 7",
            "+ switch_port machine blue [(mac\"02:00:00:00:00:01\", [])] false false none none",
        ]
    );
    assert_eq!(store.count("switch_port"), 2);
    // The same file again says the same.
    let again = apply(&mut store, rename);
    assert!(again.is_empty(), "{:?}", outcomes(&again));
}

#[test]
fn an_id_moves_to_another_kind_in_one_request() {
    let mut store = empty_store();
    apply(&mut store, "{kind: switch, id: blue}\n---\n{kind: switch_port, id: out, switch: blue}");
    let text = "
{kind: localnet_port, id: out, switch: blue, network: office}
---
{kind: switch_port, id: out, delete: true}
";
    let changes = apply(&mut store, text);
    assert_eq!(outcomes(&changes), ["localnet_port out Created", "switch_port out Deleted"]);
}

#[test]
fn a_pruning_request_leaves_what_it_names() {
    let mut store = empty_store();
    apply(&mut store, SMALL_NETWORK);
    let plan = |store: &ObjectStore, text: &str| {
        let mut batch = batch(&built_in());
        batch.add_document("net.yaml", text);
        batch.prune = true;
        store.plan(batch).map_err(|faults| faults.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    let changes = plan(&store, "{kind: switch, id: blue}\n---\n{kind: switch, id: red}").unwrap();
    let outcome = [
        "switch blue Unchanged",
        "switch red Created",
        "switch_port inner Deleted",
        "switch_port vm Deleted",
    ];
    assert_eq!(outcomes(&changes), outcome);
    store.commit(&changes);
    assert_eq!(store.iter().count(), 2);

    let faults = plan(&store, "{kind: switch_port, id: p, switch: blue}").unwrap_err();
    assert_eq!(faults, ["net.yaml:1: switch_port p: switch: switch blue is deleted by the same request"]);
    let faults = plan(&store, "# nothing\n").unwrap_err();
    assert_eq!(faults, ["net.yaml:1: has no objects: each is a mapping with `kind` and `id`"]);
    let mut none = batch(&built_in());
    none.prune = true;
    let faults = store.plan(none).unwrap_err();
    assert_eq!(
        faults[0].to_string(),
        "no object is given, so all objects would be deleted; to delete some, name them"
    );
    // A faulty object is named, so it is not deleted because of its fault.
    let faults = plan(&store, "{kind: switch, id: blue, bogus: 1}").unwrap_err();
    assert_eq!(
        faults,
        [
            "net.yaml:1: switch blue: bogus: unknown field; valid fields are `kind`, `id`, `labels` and `tenant`"
        ]
    );
}

#[test]
fn what_stays_must_not_refer_to_what_goes() {
    let mut store = empty_store();
    apply(&mut store, SMALL_NETWORK);
    let faults = |text: &str| {
        let mut batch = batch(&built_in());
        batch.add_document("net.yaml", text);
        let faults = store.plan(batch).unwrap_err();
        faults.iter().map(|fault| format!("{}: {}", fault.code.name(), numbered(fault))).collect::<Vec<_>>()
    };
    assert_eq!(
        faults("{kind: switch_port, id: vm, delete: true}"),
        ["in-use: net.yaml: document 1: switch_port vm: is in use by switch_port inner; \
          delete the objects that refer to it first"]
    );
    assert_eq!(
        faults(
            "{kind: switch_port, id: inner, switch: blue, parent: vm, tag: 8}\n---\n{kind: switch_port, id: vm, delete: true}"
        ),
        [
            "no-such-object: net.yaml: document 1: switch_port inner: parent: switch_port vm is deleted by the same request"
        ]
    );
    assert_eq!(
        faults("{kind: switch, id: red, delete: maybe}"),
        ["bad-value: net.yaml: document 1: switch red: delete: must be `true` or `false`, not text"]
    );
    assert_eq!(
        faults("{kind: switch, id: red, delete: true}\n---\n{kind: switch, id: red}"),
        ["duplicate: net.yaml: document 2: switch red: id: is defined twice; first in net.yaml:1"]
    );
}

#[test]
fn labels_are_kept_and_become_rows() {
    let mut store = empty_store();
    let text = "
{kind: switch, id: blue, labels: {team: storage, note: ''}}
---
{kind: switch_port, id: vm, switch: blue, labels: {app: web}}
---
{kind: localnet_port, id: out, switch: blue, network: office, labels: {app: edge}}
---
{kind: transport_zone, id: rack, labels: {row: '7'}}
---
{kind: transport_node, id: hv1, ip: 172.16.0.1, labels: {rack: r1}}
";
    let changes = apply(&mut store, text);
    let labels: Vec<String> =
        shown(&changes).into_iter().filter(|line| line.contains("object_label")).collect();
    assert_eq!(
        labels,
        [
            "+ object_label localnet_port out app edge",
            "+ object_label switch blue note ",
            "+ object_label switch blue team storage",
            "+ object_label switch_port vm app web",
            "+ object_label transport_node hv1 rack r1",
            "+ object_label transport_zone rack row 7",
        ]
    );
    let blue = store.get(&ObjectKey::new("switch", "blue")).unwrap();
    assert_eq!(blue.to_json(), r#"{"kind":"switch","id":"blue","labels":{"note":"","team":"storage"}}"#);
    let changes = apply(&mut store, "{kind: switch, id: blue, labels: {team: network}}");
    assert_eq!(
        shown(&changes),
        [
            "- object_label switch blue note ",
            "- object_label switch blue team storage",
            "+ object_label switch blue team network",
        ]
    );
    let mut batch = batch(&built_in());
    let long = "x".repeat(256);
    batch.add_document(
        "net.yaml",
        &format!("{{kind: switch, id: red, labels: {{'a b': x, n: 5, l: {long}, t: \"a\\nb\"}}}}\n---\n{{kind: switch, id: s, labels: web}}"),
    );
    let faults = store.plan(batch).unwrap_err();
    let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
    assert_eq!(
        faults,
        [
            "net.yaml:1: switch red: labels: \"a b\" contains the character ' '; use only letters, digits and - _ . : @",
            "net.yaml:1: switch red: labels.l: is longer than 255 characters",
            "net.yaml:1: switch red: labels.n: must be text, not a number; write it in quotes",
            "net.yaml:1: switch red: labels.t: \"a\\nb\" contains the character '\\n'; write a text of one line",
            "net.yaml:3: switch s: labels: must be a mapping, not text",
        ]
    );
}
