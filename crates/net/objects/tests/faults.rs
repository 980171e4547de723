//! Every fault of a file, as a user reads it.

use nlog_data::{Constrained, ObjectField, ObjectKind, TableId, Type};
use objects::{Batch, Kinds, ListedFault, ObjectKey, ObjectStore, fault_lines};

use crate::support::{batch, built_in, empty_store, numbered, record};

const NAME: &str = "net.yaml";

/// A store with switch `blue`, its port `blue-1` and transport node `hv1`.
fn store() -> ObjectStore {
    let mut batch = batch(&built_in());
    batch.add_document(
        NAME,
        "
kind: transport_node
id: hv1
ip: 172.16.0.1
ovsdb: unix:/run/hv1/db.sock
---
{kind: switch, id: blue, tenant: acme}
---
kind: switch_port
id: blue-1
switch: blue
addresses: [{mac: '02:00:00:00:00:01', ips: [10.0.0.1]}]
",
    );
    let mut store = empty_store();
    let changes = store.plan(batch).expect("objects without fault");
    store.commit(&changes);
    store
}

fn faults_of(name: &str, text: &str) -> Vec<String> {
    let mut batch = batch(&built_in());
    batch.add_document(name, text);
    let store = store();
    let before = store.iter().count();
    let faults = store.plan(batch).expect_err("the text has faults");
    assert_eq!(store.iter().count(), before, "nothing is applied");
    faults.iter().map(|fault| format!("{}: {}", fault.code.name(), numbered(fault))).collect()
}

#[test]
fn o6_a_fault_names_the_line_of_its_object() {
    let lines = |name: &str, text: &str| {
        let mut batch = batch(&built_in());
        batch.add_document(name, text);
        let faults = store().plan(batch).expect_err("the text has faults");
        faults.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let text = "# A comment.\n\nkind: switch\nid: [x]\n---\n{kind: switch, id: y}\n---\n\n# Another.\n{kind: swich, id: z}\n---\n\
                {kind: switch, id: y}\n";
    assert_eq!(
        lines("net.yaml", text),
        [
            "net.yaml:3: switch: id: must be text, not a list",
            "net.yaml:10: swich z: kind: unknown kind; did you mean `switch`?",
            "net.yaml:12: switch y: id: is defined twice; first in net.yaml:6",
        ]
    );
    let json = "\n{\"kind\": \"switch\",\n \"id\": \"y\"}\n\n{\"kind\": \"swich\", \"id\": \"z\"} [{\"kind\": 1}]\n{";
    let faults = lines("net.json", json);
    assert_eq!(faults[0], "net.json:5: swich z: kind: unknown kind; did you mean `switch`?");
    // The objects of an array have no lines, and a fault of the form says where it is.
    assert_eq!(faults[1], "net.json: object 3: kind: must be text, not a number; write it in quotes");
    let form = faults.last().unwrap();
    assert!(form.starts_with("net.json: object 4: not valid JSON: ") && form.contains("line 6"), "{form}");
    // What is sent without a file has numbers.
    let mut sent = batch(&built_in());
    sent.add_json("request", "{\"kind\": \"swich\", \"id\": \"z\"}");
    let faults = store().plan(sent).expect_err("the kind is unknown");
    assert_eq!(
        faults[0].to_string(),
        "request: object 1: swich z: kind: unknown kind; did you mean `switch`?"
    );
}

#[test]
fn o4_one_mistake_in_many_objects_is_one_line() {
    let object = |id: usize, field: &str| format!("{{kind: switch, id: s{id}, {field}}}");
    let mut objects: Vec<String> = (1..=500).map(|id| object(id, "labels: {team: \"red\\r\"}")).collect();
    objects.insert(1, object(501, "tennant: acme"));
    objects.extend((502..=504).map(|id| object(id, "tenant: 7")));
    let mut batch = batch(&built_in());
    batch.add_document(NAME, &objects.join("\n---\n"));
    let faults = store().plan(batch).expect_err("the text has faults");
    let texts: Vec<String> = faults.iter().map(ToString::to_string).collect();
    let listed = faults.iter().zip(&texts).map(|(fault, text)| ListedFault {
        kind: fault.kind.as_deref().unwrap_or_default(),
        path: &fault.path,
        message: &fault.message,
        text,
    });
    let lines = fault_lines(&listed.collect::<Vec<_>>());
    let [first, other, rest @ ..] = lines.as_slice() else { panic!("{lines:#?}") };
    assert!(first.starts_with("net.yaml:1: switch s1: labels.team: "), "{first}");
    assert!(first.ends_with(" (and 499 more objects with this fault)"), "{first}");
    assert!(other.starts_with("net.yaml:3: switch s501: tennant: unknown field"), "{other}");
    // A few are listed one by one.
    assert_eq!(rest.len(), 3, "{rest:#?}");
}

#[test]
fn o6_a_file_without_objects_is_refused() {
    for (name, text) in
        [("a.yaml", ""), ("a.yaml", "# Nothing.\n---\n---\n"), ("a.json", " \n"), ("a.json", "[]"), ("a", "")]
    {
        let wanted =
            format!("syntax: {name}: document 1: has no objects: each is a mapping with `kind` and `id`");
        assert_eq!(faults_of(name, text), [wanted], "{text:?}");
    }
}

fn check(text: &str, faults: &[&str]) {
    assert_eq!(faults_of(NAME, text), faults);
}

#[test]
fn all_faults_of_a_file_are_reported_at_once() {
    check(
        "
kind: transport_node
id: hv 2
role: hyperviser
ip: 172.16.0.999
encaps: [geneve, vxlam, gre]
ovsdb: tcp:172.16.0.2
openflow: unix:br-int.mgmt
datapath_type: netdef
mtu: 1500
---
kind: switch_port
id: blue-2
switch: red
addresses:
  - {mac: '03:00:00:00:00:02', ips: [10.0.0.2/24, 224.0.0.1, 0.0.0.0]}
  - {ips: 10.0.0.3}
  - 02:00:00:00:00:05
  - {mac: 2, mask: 1}
port_security: 'yes'
---
kind: switch_port
id: blue-3
",
        &[
            "bad-value: net.yaml: document 1: transport_node: id: \"hv 2\" contains the character ' '; use only letters, digits and - _ . : @",
            "bad-value: net.yaml: document 1: transport_node: role: \"hyperviser\" is not one of `hypervisor`, `gateway` and `service_node`; did you mean `hypervisor`?",
            "bad-value: net.yaml: document 1: transport_node: ip: \"172.16.0.999\" is not an IP address; write it as \"10.0.0.1\" or \"fd00::1\"",
            "bad-value: net.yaml: document 1: transport_node: encaps[1]: \"vxlam\" is not one of `geneve`, `vxlan`, `gre` and `stt`; did you mean `vxlan`?",
            "bad-value: net.yaml: document 1: transport_node: ovsdb: \"tcp:172.16.0.2\" must have the form unix:/PATH, tcp:HOST:PORT or ssl:HOST:PORT",
            "bad-value: net.yaml: document 1: transport_node: openflow: \"unix:br-int.mgmt\" must have the form unix:/PATH, tcp:HOST:PORT or ssl:HOST:PORT",
            "bad-value: net.yaml: document 1: transport_node: datapath_type: \"netdef\" is not one of `system` and `netdev`; did you mean `netdev`?",
            "unknown-field: net.yaml: document 1: transport_node: mtu: unknown field; valid fields are `kind`, `id`, `labels`, `roles`, `ip`, `encaps`, `transport_zone`, `bridge_mappings`, `ovsdb`, `openflow` and `datapath_type`",
            "bad-value: net.yaml: document 2: switch_port blue-2: addresses[0].mac: 03:00:00:00:00:02 must be unicast (first byte even)",
            "bad-value: net.yaml: document 2: switch_port blue-2: addresses[0].ips[0]: \"10.0.0.2/24\" is not an IP address (a prefix is not allowed here); write it as \"10.0.0.1\" or \"fd00::1\"",
            "bad-value: net.yaml: document 2: switch_port blue-2: addresses[0].ips[1]: 224.0.0.1 must not be a multicast or broadcast address",
            "bad-value: net.yaml: document 2: switch_port blue-2: addresses[0].ips[2]: 0.0.0.0 must not be the unspecified address",
            "missing-field: net.yaml: document 2: switch_port blue-2: addresses[1].mac: is missing",
            "bad-value: net.yaml: document 2: switch_port blue-2: addresses[1].ips: must be a list, not text",
            "bad-value: net.yaml: document 2: switch_port blue-2: addresses[2]: must be a mapping of fields, not text",
            "bad-value: net.yaml: document 2: switch_port blue-2: addresses[3].mac: must be text, not a number; write it in quotes",
            "unknown-field: net.yaml: document 2: switch_port blue-2: addresses[3].mask: unknown field; valid fields are `mac` and `ips`",
            "bad-value: net.yaml: document 2: switch_port blue-2: port_security: must be `true` or `false`, not text",
            "missing-field: net.yaml: document 3: switch_port blue-3: switch: is missing",
        ],
    );
}

#[test]
fn unknown_kinds_are_named_with_those_meant() {
    check(
        "
{kind: swich, id: a, anything: 1}
---
{kind: router, id: r1}
---
{kind: tap, id: t}
---
{id: x}
---
{kind: [switch], id: x}
",
        &[
            "unknown-kind: net.yaml: document 1: swich a: kind: unknown kind; did you mean `switch`?",
            "unknown-kind: net.yaml: document 2: router r1: kind: unknown kind; valid kinds are `transport_zone`, `transport_node`, `switch`, `switch_port` and `localnet_port`",
            "unknown-kind: net.yaml: document 3: tap t: kind: unknown kind; valid kinds are `transport_zone`, `transport_node`, `switch`, `switch_port` and `localnet_port`",
            "missing-field: net.yaml: document 4: x: kind: is missing",
            "bad-value: net.yaml: document 5: x: kind: must be text, not a list",
        ],
    );
}

#[test]
fn a_dangling_reference_is_a_fault_but_not_a_consequence_of_another() {
    check(
        "{kind: switch_port, id: p, switch: red}",
        &[
            "no-such-object: net.yaml: document 1: switch_port p: switch: switch red does not exist; apply it first, or in the same request",
        ],
    );
    check(
        "{kind: switch_port, id: p, switch: red}\n---\n{kind: switch, id: red, tenent: acme}",
        &["unknown-field: net.yaml: document 2: switch red: tenent: unknown field; did you mean `tenant`?"],
    );
    check(
        "{kind: switch_port, id: p, switch: red}\n---\n{kind: switch}",
        &["missing-field: net.yaml: document 2: switch: id: is missing"],
    );
}

#[test]
fn ids_addresses_and_end_points_belong_to_one() {
    check(
        "
{kind: switch, id: red}
---
{kind: switch, id: red, tenant: other}
---
{kind: switch_port, id: p1, switch: red, addresses: [{mac: 02:00:00:00:00:01, ips: [10.0.0.1]}]}
---
{kind: switch_port, id: p2, switch: red, addresses: [{mac: 02:00:00:00:00:01, ips: [10.0.0.1]}]}
---
{kind: switch_port, id: p3, switch: blue, addresses: [{mac: 02:00:00:00:00:01}]}
---
{kind: switch_port, id: p4, switch: blue, addresses: [{mac: 02:00:00:00:00:09, ips: [fd00::1]}, {mac: 02:00:00:00:00:0a, ips: ['fd00:0::1']}]}
---
{kind: transport_node, id: hv2, ip: 172.16.0.1, ovsdb: unix:/run/hv1/db.sock}
---
{kind: transport_node, id: hv3, ip: 127.0.0.1, encaps: []}
---
{kind: transport_node, id: hv4, ip: '::ffff:10.0.0.1', encaps: [gre, gre]}
",
        &[
            "duplicate: net.yaml: document 2: switch red: id: is defined twice; first in net.yaml:2",
            "duplicate: net.yaml: document 4: switch_port p2: addresses[0].mac: mac 02:00:00:00:00:01 on switch red already belongs to switch_port p1 (net.yaml:6)",
            "duplicate: net.yaml: document 4: switch_port p2: addresses[0].ips[0]: ips 10.0.0.1 on switch red already belongs to switch_port p1 (net.yaml:6)",
            "duplicate: net.yaml: document 5: switch_port p3: addresses[0].mac: mac 02:00:00:00:00:01 on switch blue already belongs to switch_port blue-1",
            "duplicate: net.yaml: document 6: switch_port p4: addresses[1].ips[0]: ips fd00::1 on switch blue is given twice",
            "duplicate: net.yaml: document 7: transport_node hv2: ip: ip 172.16.0.1 already belongs to transport_node hv1",
            "duplicate: net.yaml: document 7: transport_node hv2: ovsdb: ovsdb unix:/run/hv1/db.sock already belongs to transport_node hv1",
            "bad-value: net.yaml: document 8: transport_node hv3: ip: 127.0.0.1 must not be a loopback address, which other hosts cannot reach",
            "bad-value: net.yaml: document 8: transport_node hv3: encaps: [] must not be empty; omit it to use `geneve`",
            "bad-value: net.yaml: document 9: transport_node hv4: ip: ::ffff:10.0.0.1 must not be an IPv4-mapped address; write the IPv4 address",
            "bad-value: net.yaml: document 9: transport_node hv4: encaps: [\"gre\",\"gre\"] must not list an encapsulation twice",
        ],
    );
}

#[test]
fn zones_mappings_tags_and_numbers_have_their_limits() {
    check(
        "
{kind: transport_zone, id: z1, tunnels: flows, mtu: 1279}
---
{kind: transport_zone, id: z2, tunnels: 1, mtu: 65536}
---
{kind: transport_zone, id: z3, mtu: '1500', tunnel: port}
---
{kind: transport_zone, id: z4, mtu: 1500.5}
---
{kind: transport_node, id: hv2, ip: 172.16.0.2, transport_zone: 7, bridge_mappings: {net: br-int, 'a b': br-a, c: br-a-long-name-16, d: [br-d], e: ''}}
---
{kind: transport_node, id: hv3, ip: 172.16.0.3, transport_zone: far, bridge_mappings: [br-ex]}
---
{kind: transport_node, id: hv4, ip: 172.16.0.4, transport_zone: far}
---
{kind: localnet_port, id: l1, switch: blue, tag: 4095}
---
{kind: localnet_port, id: l2, network: physnet, tag: -1, vlan: 3}
---
{kind: localnet_port, id: l3, switch: red, network: physnet, tag: 'untagged'}
---
{kind: localnet_port, id: l4, switch: red, network: physnet}
",
        &[
            "bad-value: net.yaml: document 1: transport_zone z1: tunnels: \"flows\" is not one of `flow` and `port`; did you mean `flow`?",
            "bad-value: net.yaml: document 1: transport_zone z1: mtu: 1279 is not a number from 1280 to 65535",
            "bad-value: net.yaml: document 2: transport_zone z2: tunnels: must be text, not a number; write it in quotes",
            "bad-value: net.yaml: document 2: transport_zone z2: mtu: 65536 is not a number from 1280 to 65535",
            "bad-value: net.yaml: document 3: transport_zone z3: mtu: must be a number from 1280 to 65535, not text",
            "unknown-field: net.yaml: document 3: transport_zone z3: tunnel: unknown field; did you mean `tunnels`?",
            "bad-value: net.yaml: document 4: transport_zone z4: mtu: 1500.5 is not a number from 1280 to 65535",
            "bad-value: net.yaml: document 5: transport_node hv2: transport_zone: must be text, not a number; write it in quotes",
            "bad-value: net.yaml: document 5: transport_node hv2: bridge_mappings: \"a b\" must consist of letters, digits and - _ . : @ and begin with a letter or a digit",
            "bad-value: net.yaml: document 5: transport_node hv2: bridge_mappings.c: \"br-a-long-name-16\" must not be longer than 15 bytes, the maximum for the name of a bridge",
            "bad-value: net.yaml: document 5: transport_node hv2: bridge_mappings.d: must be text, not a list",
            "bad-value: net.yaml: document 5: transport_node hv2: bridge_mappings.e: \"\" must consist of letters, digits and - _ . : @ and begin with a letter or a digit",
            "bad-value: net.yaml: document 5: transport_node hv2: bridge_mappings.net: \"br-int\" must not be `br-int`, which the controller manages",
            "bad-value: net.yaml: document 6: transport_node hv3: bridge_mappings: must be a mapping, not a list",
            "no-such-object: net.yaml: document 7: transport_node hv4: transport_zone: transport_zone far does not exist; apply it first, or in the same request",
            "missing-field: net.yaml: document 8: localnet_port l1: physical_network: is missing",
            "bad-value: net.yaml: document 8: localnet_port l1: tag: 4095 is not a number from 0 to 4094",
            "missing-field: net.yaml: document 9: localnet_port l2: switch: is missing",
            "bad-value: net.yaml: document 9: localnet_port l2: tag: -1 is not a number from 0 to 4094",
            "unknown-field: net.yaml: document 9: localnet_port l2: vlan: unknown field; valid fields are `kind`, `id`, `labels`, `switch`, `physical_network` and `tag`",
            "bad-value: net.yaml: document 10: localnet_port l3: tag: must be a number from 0 to 4094, not text",
            "no-such-object: net.yaml: document 11: localnet_port l4: switch: switch red does not exist; apply it first, or in the same request",
        ],
    );
}

#[test]
fn tags_behind_a_port_differ_and_addresses_are_those_of_interfaces() {
    check(
        "
{kind: switch_port, id: p1, switch: blue, parent: blue-1}
---
{kind: switch_port, id: p2, switch: blue, tag: 5}
---
{kind: switch_port, id: p3, switch: blue, parent: p3, tag: 0}
---
{kind: switch_port, id: p4, switch: blue, parent: blue-1, tag: 4095}
---
{kind: switch_port, id: p5, switch: blue, parent: gone, tag: 5}
---
{kind: switch_port, id: p6, switch: blue, parent: blue-1, tag: 5}
---
{kind: switch_port, id: p7, switch: blue, parent: blue-1, tag: 5}
---
{kind: switch_port, id: p8, switch: blue, parent: p6, tag: 6}
---
{kind: switch_port, id: p9, switch: blue, parent: p1, tag: 6}
---
{kind: switch_port, id: p10, switch: blue, unknown_addresses: true, port_security: true}
---
{kind: switch_port, id: p11, switch: blue, unknown_addresses: 1, addresses: [{mac: 00:00:00:00:00:00, ips: [127.0.0.2, '::1', 'ff02::1', '::']}]}
",
        &[
            "bad-value: net.yaml: document 3: switch_port p3: tag: 0 is not a number from 1 to 4094",
            "bad-value: net.yaml: document 4: switch_port p4: tag: 4095 is not a number from 1 to 4094",
            "no-such-object: net.yaml: document 5: switch_port p5: parent: switch_port gone does not exist; apply it first, or in the same request",
            "duplicate: net.yaml: document 7: switch_port p7: tag: tag 5 on parent blue-1 already belongs to switch_port p6 (net.yaml:12)",
            "bad-value: net.yaml: document 11: switch_port p11: addresses[0].mac: 00:00:00:00:00:00 must not be the null address",
            "bad-value: net.yaml: document 11: switch_port p11: addresses[0].ips[0]: 127.0.0.2 must not be a loopback address, which other hosts cannot reach",
            "bad-value: net.yaml: document 11: switch_port p11: addresses[0].ips[1]: ::1 must not be a loopback address, which other hosts cannot reach",
            "bad-value: net.yaml: document 11: switch_port p11: addresses[0].ips[2]: ff02::1 must not be a multicast or broadcast address",
            "bad-value: net.yaml: document 11: switch_port p11: addresses[0].ips[3]: :: must not be the unspecified address",
            "bad-value: net.yaml: document 11: switch_port p11: unknown_addresses: must be `true` or `false`, not a number",
        ],
    );
}

/// The member that `weft get --json` adds is accepted at the top level of an object, and only there.
#[test]
fn what_is_printed_of_an_object_can_be_applied() {
    check(
        "{kind: switch, id: a, state: {mtu: 1442}}
---
{kind: switch_port, id: p, switch: a, addresses: [{mac: 02:00:00:00:00:01, state: {}}]}",
        &[
            "unknown-field: net.yaml: document 2: switch_port p: addresses[0].state: unknown field; valid fields are `mac` and `ips`",
        ],
    );
}

/// Faults that depend on objects already in force.
#[test]
fn trunks_and_localnet_ports_are_judged_beside_what_is_there() {
    let mut store = store();
    let mut apply = |text: &str| {
        let mut batch = batch(&built_in());
        batch.add_document(NAME, text);
        let planned = store.plan(batch);
        if let Ok(changes) = &planned {
            store.commit(changes);
        }
        planned.map(|_| ()).map_err(|faults| faults.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    apply(
        "
{kind: switch, id: red}
---
{kind: switch_port, id: box, switch: red, parent: blue-1, tag: 5}
---
{kind: switch_port, id: other, switch: red}
---
{kind: localnet_port, id: out, switch: red, network: physnet, tag: 7}
",
    )
    .expect("objects without fault");
    let cases: [(&str, &[&str]); 5] = [
        (
            "{kind: switch_port, id: box-2, switch: blue, parent: blue-1, tag: 5}",
            &[
                "net.yaml:1: switch_port box-2: tag: tag 5 on parent blue-1 already belongs to switch_port box",
            ],
        ),
        (
            "{kind: localnet_port, id: out-2, switch: red, network: other}",
            &["net.yaml:1: localnet_port out-2: switch: switch red already belongs to localnet_port out"],
        ),
        (
            "{kind: localnet_port, id: box, switch: blue, network: physnet}",
            &["net.yaml:1: localnet_port box: id: port id box already belongs to switch_port box"],
        ),
        (
            "{kind: switch_port, id: out, switch: blue}",
            &["net.yaml:1: switch_port out: id: port id out already belongs to localnet_port out"],
        ),
        // Parent and member in one file, swapped compared with the objects in force: no fault, because
        // both change.
        (
            "{kind: switch_port, id: blue-1, switch: blue, parent: box, tag: 5}\n---\n{kind: switch_port, id: box, switch: red}",
            &[],
        ),
    ];
    for (text, wanted) in cases {
        assert_eq!(apply(text).err().unwrap_or_default(), wanted, "{text}");
    }

    let delete = |ids: &[&str]| {
        let keys: Vec<ObjectKey> = ids.iter().map(|id| ObjectKey::new("switch_port", *id)).collect();
        store.plan_delete(&keys).map(|changes| changes.changes.len()).map_err(|faults| faults[0].to_string())
    };
    assert_eq!(
        delete(&["box"]),
        Err("switch_port box: is in use by switch_port blue-1; delete the objects that refer to it first"
            .to_owned())
    );
    assert_eq!(delete(&["box", "blue-1"]), Ok(2));
}

#[test]
fn text_that_is_no_yaml_ends_the_reading_and_what_came_before_is_judged() {
    check(
        "{kind: switch, id: -a}\n---\nkind: switch\nid: [b\n---\n{kind: switch, id: c}",
        &[
            "bad-value: net.yaml: document 1: switch: id: \"-a\" must begin with a letter or a digit",
            "syntax: net.yaml: document 2: not valid YAML: did not find expected ',' or ']' at line 5 column 1, while parsing a flow sequence at line 4 column 5",
        ],
    );
    check("just text", &["syntax: net.yaml: document 1: must be a mapping with `kind` and `id`, not text"]);
    check(
        "kind: switch\nid: a\nid: b",
        &["syntax: net.yaml: document 1: not valid YAML: field `id` is given twice at line 3 column 1"],
    );
    check(
        "kind: switch\n1: b",
        &[
            "syntax: net.yaml: document 1: not valid YAML: a field's name must be text, not a number at line 2 column 1",
        ],
    );
}

#[test]
fn json_comes_as_object_array_or_lines() {
    let bad = [
        (r#"{"kind": "switch", "id": ""}"#, "object 1"),
        (r#"[{"kind": "switch", "id": "a"}, {"kind": "switch", "id": ""}]"#, "object 2"),
        ("{\"kind\": \"switch\", \"id\": \"a\"}\n\n{\"kind\": \"switch\", \"id\": \"\"}\n", "object 2"),
    ];
    for (text, place) in bad {
        let wanted = format!("bad-value: net.json: {place}: switch: id: must not be empty");
        assert_eq!(faults_of("net.json", text), [wanted], "{text}");
        let wanted = format!("bad-value: <stdin>: {place}: switch: id: must not be empty");
        assert_eq!(faults_of("<stdin>", text), [wanted], "{text}");
    }
    assert_eq!(
        faults_of(
            "net.jsonl",
            "{\"kind\": \"switch\", \"id\": \"a\"}\n{\"kind\": \"switch\", \"kind\": \"switch\"}"
        ),
        ["syntax: net.jsonl: object 2: not valid JSON: field `kind` is given twice at line 2 column 36"]
    );
}

#[test]
fn text_of_no_known_format_that_is_no_json_can_be_yaml() {
    let objects = |text: &str| {
        let mut batch = batch(&built_in());
        batch.add_document("standard input", text);
        let changes = store().plan(batch).unwrap_or_else(|faults| panic!("{text}: {faults:?}"));
        changes.changes.iter().map(|change| change.key.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(objects("{kind: switch, id: x}"), ["switch x"]);
    assert_eq!(objects("{\"kind\": switch, id: x}\n---\n{kind: switch, id: y}\n"), ["switch x", "switch y"]);
    assert_eq!(
        objects(r#"{"kind": "switch", "id": "x"} {"kind": "switch", "id": "y"}"#),
        ["switch x", "switch y"]
    );

    // The fault of text in neither format refers to the format that was meant.
    let fault = |text: &str| faults_of("standard input", text).concat();
    let json = fault(r#"[{"kind": "switch", "id" "x"}]"#);
    assert!(json.starts_with("syntax: standard input: object 1: not valid JSON: "), "{json}");
    let yaml = fault("{kind: switch, id: x");
    assert!(yaml.starts_with("syntax: standard input: document 1: not valid YAML: "), "{yaml}");
    // The name of a file decides the format.
    assert!(faults_of("net.json", "{kind: switch, id: x}").concat().contains("not valid JSON"));
}

#[test]
fn deleting_names_the_referrers() {
    let mut store = store();
    let mut batch = batch(&built_in());
    let ports: Vec<String> = (2..=8)
        .map(|n| format!(r#"{{"kind": "switch_port", "id": "blue-{n}", "switch": "blue"}}"#))
        .collect();
    batch.add_document("ports.json", &ports.join("\n"));
    let changes = store.plan(batch).expect("objects without fault");
    store.commit(&changes);

    let blue = ObjectKey::new("switch", "blue");
    let faults = store.plan_delete(std::slice::from_ref(&blue)).expect_err("it has ports");
    assert_eq!(
        faults.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "switch blue: is in use by switch_port blue-1, switch_port blue-2, switch_port blue-3, switch_port blue-4, \
          switch_port blue-5 and 3 more; delete the objects that refer to it first"
        ]
    );
    let faults = store.plan_delete(&[ObjectKey::new("switch_port", "red-1")]).expect_err("there is none");
    assert_eq!(faults[0].to_string(), "switch_port red-1: does not exist");

    let mut all: Vec<ObjectKey> =
        (1..=8).map(|n| ObjectKey::new("switch_port", format!("blue-{n}"))).collect();
    all.insert(0, blue);
    let changes = store.plan_delete(&all).expect("all go together");
    store.commit(&changes);
    assert_eq!(store.list("switch").count() + store.list("switch_port").count(), 0);
    assert_eq!(store.list("transport_node").count(), 1);
}

#[test]
fn a_byte_order_mark_before_a_text_means_nothing() {
    for (name, text) in [
        ("net.yaml", "\u{feff}kind: switch\nid: ''\n"),
        ("net.json", "\u{feff}{\"kind\": \"switch\", \"id\": \"\"}"),
        ("<stdin>", "\u{feff}{\"kind\": \"switch\", \"id\": \"\"}"),
    ] {
        let faults = faults_of(name, text).concat();
        assert!(faults.ends_with("1: switch: id: must not be empty"), "{faults}");
    }
}

/// Nested brackets are refused before the parser has looked at all of them, in which each would cost as much as all before it.
#[test]
fn d26_nested_brackets_are_refused() {
    let nested = "[".repeat(100_000);
    let fault = |name: &str, text: &str| faults_of(name, text).concat();
    let deep = "is nested deeper than 128 levels at line";
    let limit = "the limit of one object";
    assert_eq!(
        fault("net.yaml", &nested),
        format!("syntax: net.yaml: document 1: {deep} 1 column 129, {limit}")
    );
    let second = format!("kind: switch\nid: a\n---\n{nested}\n");
    assert_eq!(
        fault("net.yaml", &second),
        format!("syntax: net.yaml: document 2: {deep} 4 column 129, {limit}")
    );
    let blocks = "- ".repeat(5_000);
    assert!(fault("net.yaml", &blocks).starts_with(&format!("syntax: net.yaml: document 1: {deep} 1")));
    // Brackets beside one another are no depth, nor are those of a text.
    let flat = format!("kind: switch\nid: a\ntags: [{}]\nlabels: {{x: '{nested}'}}", "[],".repeat(20_000));
    let fault_of_flat = fault("net.yaml", &flat);
    assert!(fault_of_flat.contains("switch a: tags"), "{fault_of_flat:.300}");
    let json = fault("net.json", &nested);
    assert!(json.starts_with("syntax: net.json: object 1: not valid JSON: EOF"), "{json}");
    let closed = nested.clone() + &"]".repeat(100_000);
    let json = fault("net.json", &closed);
    assert!(
        json.starts_with("syntax: net.json: object 1: not valid JSON: recursion limit exceeded"),
        "{json}"
    );
    assert!(fault("<stdin>", &nested).starts_with(&format!("syntax: <stdin>: document 1: {deep} 1")));
}

#[test]
fn an_object_beyond_all_bounds_is_refused() {
    let long = format!("kind: switch\nid: a\ntenant: '{}'\n", "x".repeat(1 << 20));
    assert_eq!(
        faults_of("net.yaml", &long),
        ["syntax: net.yaml: document 1: is longer than 1 MiB, the limit of one object"]
    );
    let many = format!(r#"{{"kind": "switch", "id": "a", "tags": [{}0]}}"#, "0,".repeat(100_000));
    let faults = faults_of("net.json", &many).concat();
    assert!(faults.contains("has more than 100000 values, the limit of one object"), "{faults}");
    // All objects together may be as many as the text holds.
    let ports: Vec<String> = (0..60_000).map(|n| format!(r#"{{"kind": "switch", "id": "s{n}"}}"#)).collect();
    for text in [format!("[{}]", ports.join(",")), ports.join("\n")] {
        let mut batch = batch(&built_in());
        batch.add_document("net.json", &text);
        assert_eq!(batch.entries().len(), 60_000);
    }
}

/// An alias is short, and stands for all that it repeats.
#[test]
fn d1_anchors_and_aliases_are_refused() {
    let refused = "objects have no anchors and aliases; write the value out wherever it is meant";
    for (text, place) in [
        ("kind: switch\nid: &a x", "document 1: has `&a` at line 2 column 5"),
        ("&a\nkind: switch", "document 1: has `&a`"),
        ("kind: switch\nid: s\nlabels: &l {a: b}", "document 1: has `&l` at line 3 column 9"),
        ("{kind: switch, id: s}\n---\n- &l [a]\n", "document 2: has `&l` at line 3 column 3"),
        ("kind: switch\nid: *b", "document 1: has `*b` at line 2 column 5"),
    ] {
        assert_eq!(faults_of("net.yaml", text), [format!("syntax: net.yaml: {place}: {refused}")]);
    }
    // The same signs inside of texts are text.
    let text = "kind: switch\nid: a\ntenant: 'R & D, *all* &a'\nlabels: {a: R&D*, b: \"*b\"}";
    assert!(!faults_of("net.yaml", text).concat().contains("syntax"));
}

#[test]
fn a_place_counts_from_the_beginning_of_the_text() {
    let text = "[\n{\"kind\": \"switch\", \"id\": \"a\"}\n]\n  {\"kind\": \"switch\",\n\"kind\": 0}";
    assert_eq!(
        faults_of("net.json", text),
        ["syntax: net.json: object 2: not valid JSON: field `kind` is given twice at line 5 column 10"]
    );
}

#[test]
fn a_thousand_faults_are_listed() {
    let faulty = "{\"kind\": \"switch\", \"id\": \"\"}\n".repeat(100_000);
    assert_eq!(faults_of("net.json", &faulty).len(), 1000);
    assert_eq!(faults_of("net.json", &"0,".repeat(100_000).replace("0,0", "[0,0")).len(), 1);
    let list = format!("[{}0]", "0,".repeat(100_000));
    assert_eq!(faults_of("net.json", &list).len(), 1000);
}

#[test]
fn a_cancelled_reading_ends() {
    let cancel = objects::Cancel::default();
    cancel.cancel();
    for name in ["net.yaml", "net.json"] {
        let mut batch = Batch::new(&built_in(), cancel.clone());
        batch.add_document(name, "{\"kind\": \"switch\", \"id\": \"a\"}");
        assert!(batch.entries().is_empty());
    }
}

#[test]
fn a_fault_quotes_the_beginning_of_a_long_value() {
    let long = "x".repeat(1 << 20);
    for object in [
        format!(r#"{{"kind": "{long}", "id": "a"}}"#),
        format!(r#"{{"kind": "switch", "id": " {long}"}}"#),
        format!(r#"{{"kind": "switch", "id": "a", "{long}": 1}}"#),
        format!(r#"{{"kind": "switch", "id": "a", "{long}": 1, "{long}": 2}}"#),
        format!(
            r#"{{"kind": "transport_node", "id": "a", "ip": "{long}", "ovsdb": "{long}", "encaps": ["{long}"]}}"#
        ),
        format!(r#"{{"kind": "switch_port", "id": "a", "switch": "s", "addresses": [{{"mac": "{long}"}}]}}"#),
    ] {
        let faults = faults_of("net.json", &object);
        assert!(!faults.is_empty());
        for fault in faults {
            assert!(fault.len() < 2000, "{} bytes", fault.len());
        }
    }
}

/// Kinds of a package, with texts of any form.
fn notes() -> Kinds {
    let field = |name: &str, ty| ObjectField {
        name: name.to_owned(),
        ty,
        default: None,
        formers: Vec::new(),
        doc: String::new(),
    };
    let entry = record("entry", &[("key", Type::String), ("value", Type::String)]);
    let fields = vec![
        field("text", Type::String),
        field("lines", Type::list(Type::String)),
        field("entries", Type::Constrained(Constrained::mapping(entry).into())),
    ];
    Kinds::new(vec![ObjectKind {
        name: "note".to_owned(),
        table: TableId(0),
        id_space: "note".to_owned(),
        fields,
        uniques: Vec::new(),
        doc: String::new(),
    }])
}

#[test]
fn d17_a_text_of_an_object_is_a_short_line() {
    let kinds = notes();
    let note = |text: &str, line: &str, key: &str, value: &str| {
        let json = serde_json::json!({"kind": "note", "id": "n", "text": text, "lines": [line], "entries": {key: value}});
        json.to_string()
    };
    let faults = |batch: Batch| -> Vec<String> {
        let faults = ObjectStore::new(&kinds).plan(batch).err().unwrap_or_default();
        faults.iter().map(ToString::to_string).collect()
    };
    let read = |text: &str| {
        let mut batch = batch(&kinds);
        batch.add_document("net.json", text);
        faults(batch)
    };
    let long = "é".repeat(2048);
    assert_eq!(read(&note(&long, "", "a b", "tab-less; ünïcode")), Vec::<String>::new());
    let odd = note("a\nb", "\u{1b}[31m", "\u{9b}", "\u{202e}");
    let place = "net.json:1: note n: ";
    assert_eq!(
        read(&odd),
        [
            format!("{place}text: \"a\\nb\" contains the character '\\n'; write a text of one line"),
            format!(
                "{place}lines[0]: \"\\u001b[31m\" contains the character '\\u{{1b}}'; write a text of one line"
            ),
            format!(
                "{place}entries: \"\u{9b}\" contains the character '\\u{{9b}}'; write a text of one line"
            ),
            format!(
                "{place}entries.\u{9b}: \"\u{202e}\" contains the character '\\u{{202e}}'; write a text of one line"
            ),
        ]
    );
    let too_long = read(&note(&format!("{long}x"), "", "a", ""));
    assert_eq!(too_long, [format!("{place}text: is 4,097 bytes long; write at most 4096")]);
    // What was accepted before stays readable.
    let mut stored = Batch::stored(&kinds);
    stored.add_json("journal", &odd);
    assert_eq!(faults(stored), Vec::<String>::new());
}

/// A list of a hundred thousand faults is no answer.
#[test]
fn d1_the_faults_of_one_object_are_counted() {
    let text = format!("kind: switch_port\nid: a\nswitch: blue\naddresses: [{}0]", "0,".repeat(50_000));
    assert_eq!(faults_of(NAME, &text).len(), 1000);
}

/// The canonical form has the defaults that a document leaves out. A journal must stay readable all the same.
#[test]
fn what_was_accepted_near_the_bound_of_values_can_be_read_again() {
    let address = |n: usize| format!(r#"{{"mac": "02:00:00:00:{:02x}:{:02x}"}}"#, n / 256, n % 256);
    let addresses: Vec<String> = (0..30_000).map(address).collect();
    let addresses = addresses.join(",");
    let port = format!(r#"{{"kind": "switch_port", "id": "p", "switch": "s", "addresses": [{addresses}]}}"#);
    let mut given = batch(&built_in());
    given.add_json("net.json", &port);
    let canonical = given.entries()[0].object.to_json();
    let mut stored = Batch::stored(&built_in());
    stored.add_json("journal", &canonical);
    assert_eq!(stored.entries().len(), 1);
}
