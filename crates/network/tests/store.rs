//! The changes that a store accepts, the resulting rows, and independence of history.

use std::collections::{BTreeMap, BTreeSet};

use network::{Batch, ChangeSet, Kind, ObjectKey, ObjectStore, Outcome};
use nlog_data::Row;
use proptest::prelude::*;

fn apply(store: &mut ObjectStore, text: &str) -> ChangeSet {
    let mut batch = Batch::default();
    batch.add_document("net.yaml", text);
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
                nlog_data::Value::String(text) => text.to_string(),
                nlog_data::Value::Int(n) => n.to_string(),
                nlog_data::Value::Mac(mac) => mac.to_string(),
                nlog_data::Value::Ip(ip) => ip.to_string(),
                other => panic!("no object has {other:?}"),
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
    let mut store = ObjectStore::default();
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
            "+ bridge_mapping hv2 physnet br-ex",
            "+ bridge_mapping hv2 storage:1 br-storage",
            "+ localnet_port out blue physnet 7",
            "+ localnet_port red-out red storage:1 0",
            "+ logical_switch blue acme",
            "+ logical_switch red ",
            "+ logical_switch_port blue-1 blue",
            "+ logical_switch_port blue-2 blue",
            "+ logical_switch_port red-1 red",
            "+ port_ip blue-1 10.0.0.1 02:00:00:00:00:0a",
            "+ port_ip blue-1 fd00::1 02:00:00:00:00:0a",
            "+ port_mac blue-1 02:00:00:00:00:02",
            "+ port_mac blue-1 02:00:00:00:00:0a",
            "+ port_parent red-1 blue-2 4094",
            "+ port_security blue-1",
            "+ transport_node hv1 gateway 172.16.0.1",
            "+ transport_node hv2 hypervisor 172.16.0.2",
            "+ transport_node_encap hv1 0 vxlan",
            "+ transport_node_encap hv1 1 geneve",
            "+ transport_node_encap hv2 0 geneve",
            "+ transport_node_zone hv1 ",
            "+ transport_node_zone hv2 far",
            "+ transport_zone far port 9000",
            "+ unknown_addresses blue-2",
        ]
    );
    assert!(changes.changes.iter().all(|change| change.outcome() == Outcome::Created));
}

#[test]
fn defaults_are_those_of_the_contract() {
    let mut store = ObjectStore::default();
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
            r#"{"kind":"transport_node","id":"hv1","role":"hypervisor","ip":"172.16.0.1","encaps":["geneve"],"bridge_mappings":{}}"#,
            r#"{"kind":"switch","id":"blue"}"#,
            r#"{"kind":"switch_port","id":"p","switch":"blue","addresses":[],"port_security":false,"unknown_addresses":false}"#,
            r#"{"kind":"switch_port","id":"q","switch":"blue","addresses":[],"port_security":false,"unknown_addresses":false,"parent":"p","tag":9}"#,
            r#"{"kind":"localnet_port","id":"l","switch":"blue","network":"physnet","tag":0}"#,
        ]
    );
}

#[test]
fn a_change_touches_only_the_rows_that_differ() {
    let mut store = ObjectStore::default();
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
            "- port_ip p1 10.0.0.1 02:00:00:00:00:01",
            "- port_ip p2 10.0.0.2 02:00:00:00:00:02",
            "+ port_ip p1 10.0.0.2 02:00:00:00:00:01",
            "+ port_ip p2 10.0.0.1 02:00:00:00:00:02",
        ]
    );
    let outcomes: Vec<Outcome> = changes.changes.iter().map(network::Change::outcome).collect();
    assert_eq!(outcomes, [Outcome::Updated, Outcome::Updated, Outcome::Unchanged]);

    // The swap is in force: the old owner's address is free, the new one's is not.
    let mut batch = Batch::default();
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
    assert!(store.plan_delete(&[ObjectKey::new(Kind::Switch, "red")]).is_err());
    assert!(store.plan_delete(&[ObjectKey::new(Kind::Switch, "blue")]).is_ok());
}

#[test]
fn end_points_print_as_they_are_read() {
    for text in ["unix:/run/hv1/db.sock", "tcp:127.0.0.1:6640", "ssl:[fd00::1]:6640", "tcp:hv1.example:6653"]
    {
        assert_eq!(text.parse::<network::Endpoint>().unwrap().to_string(), text);
    }
    for text in
        ["", "unix:db.sock", "tcp:fd00::1:6640", "tcp::6640", "tcp:h:0", "tcp:h:65536", "udp:h:1", "tcp:h"]
    {
        assert!(text.parse::<network::Endpoint>().is_err(), "{text}");
    }
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
        (Kind::TransportZone, "z"),
        (Kind::TransportNode, "hv"),
        (Kind::Switch, "s"),
        (Kind::SwitchPort, "p"),
        (Kind::SwitchPort, "p"),
        (Kind::LocalnetPort, "p"),
    ];
    let key = (prop::sample::select(kinds.to_vec()), 0..5)
        .prop_map(|((kind, prefix), id)| ObjectKey::new(kind, format!("{prefix}{id}")));
    prop_oneof![
        3 => prop::collection::vec(object(), 1..5).prop_map(Step::Apply),
        1 => prop::collection::vec(key, 1..3).prop_map(Step::Delete),
    ]
}

/// Checks the invariants from scratch: references are valid and unique values are unique.
fn assert_sound(store: &ObjectStore) {
    let mut held = BTreeSet::new();
    let mut hold = |what: String| assert!(held.insert(what.clone()), "{what} is there twice");
    for object in store.list(Kind::TransportNode) {
        let network::Object::TransportNode(node) = &**object else { panic!("listed under another kind") };
        if let Some(zone) = &node.transport_zone {
            assert!(store.get(&ObjectKey::new(Kind::TransportZone, zone)).is_some(), "{node:?}");
        }
    }
    for object in store.list(Kind::LocalnetPort) {
        let network::Object::LocalnetPort(port) = &**object else { panic!("listed under another kind") };
        assert!(store.get(&ObjectKey::new(Kind::Switch, &port.switch)).is_some(), "{port:?}");
        hold(format!("port {}", port.id));
        hold(format!("localnet of {}", port.switch));
    }
    for object in store.list(Kind::SwitchPort) {
        let network::Object::SwitchPort(port) = &**object else { panic!("listed under another kind") };
        assert!(store.get(&ObjectKey::new(Kind::Switch, &port.switch)).is_some(), "{port:?}");
        hold(format!("port {}", port.id));
        for address in &port.addresses {
            hold(format!("{} on {}", address.mac, port.switch));
            for ip in &address.ips {
                hold(format!("{ip} on {}", port.switch));
            }
        }
        let Some(member) = &port.trunk_member else { continue };
        hold(format!("tag {} of {}", member.tag, member.parent));
        match store.get(&ObjectKey::new(Kind::SwitchPort, &member.parent)).map(|parent| &**parent) {
            Some(network::Object::SwitchPort(parent)) => assert_eq!(parent.trunk_member, None, "{port:?}"),
            other => panic!("{port:?} is behind {other:?}"),
        }
    }
}

proptest! {
    #[test]
    fn rows_follow_the_objects_through_any_history(steps in prop::collection::vec(step(), 1..20)) {
        let mut store = ObjectStore::default();
        let mut rows: BTreeMap<&'static str, BTreeSet<Row>> = BTreeMap::new();
        for step in &steps {
            let plan = match step {
                Step::Apply(objects) => {
                    let mut batch = Batch::default();
                    batch.add_json("step", &objects.join("\n"));
                    store.plan(batch)
                }
                Step::Delete(keys) => store.plan_delete(keys),
            };
            let Ok(changes) = plan else { continue };
            let delta = changes.rows();
            for (table, gone) in &delta.delete {
                for row in gone {
                    prop_assert!(rows.entry(table).or_default().remove(row), "{table} had no {row:?}");
                }
            }
            for (table, come) in &delta.insert {
                for row in come {
                    prop_assert!(rows.entry(table).or_default().insert(row.clone()), "{table} had {row:?}");
                }
            }
            store.commit(&changes);
            assert_sound(&store);
        }

        // A store filled at once from the other's canonical text, in YAML, is equal and has the same rows.
        let yaml: Vec<String> = store.iter().map(|(_, object)| object.to_yaml()).collect();
        let mut copy = ObjectStore::default();
        let changes = apply(&mut copy, &yaml.join("---\n"));
        prop_assert!(store.iter().eq(copy.iter()));
        let fresh: BTreeMap<&str, BTreeSet<Row>> =
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
    let mut store = ObjectStore::default();
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
            "- logical_switch_port vm blue",
            "- port_mac vm 02:00:00:00:00:01",
            "- port_parent inner vm 7",
            "+ logical_switch_port machine blue",
            "+ port_mac machine 02:00:00:00:00:01",
            "+ port_parent inner machine 7",
        ]
    );
    assert_eq!(store.count(Kind::SwitchPort), 2);
    // The same file again says the same.
    let again = apply(&mut store, rename);
    assert!(again.is_empty(), "{:?}", outcomes(&again));
}

#[test]
fn an_id_moves_to_another_kind_in_one_request() {
    let mut store = ObjectStore::default();
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
    let mut store = ObjectStore::default();
    apply(&mut store, SMALL_NETWORK);
    let plan = |store: &ObjectStore, text: &str| {
        let mut batch = Batch::default();
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
    assert_eq!(
        faults,
        ["net.yaml: document 1: switch_port p: switch: switch blue is deleted by the same request"]
    );
    let faults = plan(&store, "# nothing\n").unwrap_err();
    assert_eq!(faults, ["no object is given, so all objects would be deleted; to delete some, name them"]);
    // A faulty object is named, so it is not deleted because of its fault.
    let faults = plan(&store, "{kind: switch, id: blue, bogus: 1}").unwrap_err();
    assert_eq!(
        faults,
        [
            "net.yaml: document 1: switch blue: bogus: unknown field; valid fields are `kind`, `id`, `labels` and `tenant`"
        ]
    );
}

#[test]
fn what_stays_must_not_refer_to_what_goes() {
    let mut store = ObjectStore::default();
    apply(&mut store, SMALL_NETWORK);
    let faults = |text: &str| {
        let mut batch = Batch::default();
        batch.add_document("net.yaml", text);
        let faults = store.plan(batch).unwrap_err();
        faults.iter().map(|fault| format!("{}: {fault}", fault.code.name())).collect::<Vec<_>>()
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
        ["duplicate: net.yaml: document 2: switch red: id: is defined twice; first in net.yaml: document 1"]
    );
}

#[test]
fn labels_are_kept_and_become_rows() {
    let mut store = ObjectStore::default();
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
    let blue = store.get(&ObjectKey::new(Kind::Switch, "blue")).unwrap();
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
    let mut batch = Batch::default();
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
            "net.yaml: document 1: switch red: labels: \"a b\" contains the character ' '; use only letters, digits and - _ . : @",
            "net.yaml: document 1: switch red: labels.l: is longer than 255 characters",
            "net.yaml: document 1: switch red: labels.n: must be text, not a number; write it in quotes",
            "net.yaml: document 1: switch red: labels.t: \"a\\nb\" contains the character '\\n'; write a text of one line",
            "net.yaml: document 2: switch s: labels: must be a mapping, not text",
        ]
    );
}
