//! Every fault of a file, as a user reads it.

use network::{Batch, ObjectStore};

const NAME: &str = "net.yaml";

/// A store with switch `blue`, its port `blue-1` and transport node `hv1`.
fn store() -> ObjectStore {
    let mut batch = Batch::default();
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
    let mut store = ObjectStore::default();
    let changes = store.plan(batch).expect("objects without fault");
    store.commit(&changes);
    store
}

fn faults_of(name: &str, text: &str) -> Vec<String> {
    let mut batch = Batch::default();
    batch.add_document(name, text);
    let store = store();
    let before = store.iter().count();
    let faults = store.plan(batch).expect_err("the text has faults");
    assert_eq!(store.iter().count(), before, "nothing is applied");
    faults.iter().map(|fault| format!("{}: {fault}", fault.code.name())).collect()
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
            "bad-value: net.yaml: document 1: transport_node: id: \"hv 2\" has the character ' '; letters, digits and - _ . : @ can be used",
            "bad-value: net.yaml: document 1: transport_node: role: \"hyperviser\" is none of `hypervisor`, `gateway` and `service_node`; did you mean `hypervisor`?",
            "bad-value: net.yaml: document 1: transport_node: ip: \"172.16.0.999\" is no IP address; write it as \"10.0.0.1\" or \"fd00::1\"",
            "bad-value: net.yaml: document 1: transport_node: encaps[1]: \"vxlam\" is none of `geneve`, `vxlan`, `gre` and `stt`; did you mean `vxlan`?",
            "bad-value: net.yaml: document 1: transport_node: ovsdb: \"tcp:172.16.0.2\" has no port; write it as unix:/PATH, tcp:HOST:PORT or ssl:HOST:PORT",
            "bad-value: net.yaml: document 1: transport_node: openflow: \"unix:br-int.mgmt\": a socket's path must be absolute",
            "bad-value: net.yaml: document 1: transport_node: datapath_type: \"netdef\" is none of `system` and `netdev`; did you mean `netdev`?",
            "unknown-field: net.yaml: document 1: transport_node: mtu: no such field; there are `kind`, `id`, `role`, `ip`, `encaps`, `ovsdb`, `openflow` and `datapath_type`",
            "bad-value: net.yaml: document 2: switch_port blue-2: addresses[0].mac: 03:00:00:00:00:02 is a group address; an interface needs one whose first byte is even",
            "bad-value: net.yaml: document 2: switch_port blue-2: addresses[0].ips[0]: \"10.0.0.2/24\" is no IP address (a prefix has no place here); write it as \"10.0.0.1\" or \"fd00::1\"",
            "bad-value: net.yaml: document 2: switch_port blue-2: addresses[0].ips[1]: 224.0.0.1 is a group address, not that of one interface",
            "bad-value: net.yaml: document 2: switch_port blue-2: addresses[0].ips[2]: 0.0.0.0 is nobody's address",
            "missing-field: net.yaml: document 2: switch_port blue-2: addresses[1].mac: is missing",
            "bad-value: net.yaml: document 2: switch_port blue-2: addresses[1].ips: must be a list, not text",
            "bad-value: net.yaml: document 2: switch_port blue-2: addresses[2]: must be a mapping of fields, not text",
            "bad-value: net.yaml: document 2: switch_port blue-2: addresses[3].mac: must be text, not a number; write it in quotes",
            "unknown-field: net.yaml: document 2: switch_port blue-2: addresses[3].mask: no such field; there are `mac` and `ips`",
            "bad-value: net.yaml: document 2: switch_port blue-2: port_security: must be `true` or `false`, not text",
            "missing-field: net.yaml: document 3: switch_port blue-3: switch: is missing",
        ],
    );
}

#[test]
fn kinds_that_are_not_ours_are_told_apart_from_those_to_come() {
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
            "unknown-kind: net.yaml: document 1: swich a: kind: no such kind; did you mean `switch`?",
            "unsupported-kind: net.yaml: document 2: router r1: kind: objects of kind `router` are known, but not supported yet",
            "unknown-kind: net.yaml: document 3: tap t: kind: no such kind; there are `transport_node`, `switch` and `switch_port`",
            "missing-field: net.yaml: document 4: x: kind: is missing",
            "bad-value: net.yaml: document 5: x: kind: must be text, not a list",
        ],
    );
}

#[test]
fn a_dangling_reference_is_a_fault_but_not_a_consequence_of_another() {
    check(
        "{kind: switch_port, id: p, switch: red}",
        &["no-such-object: net.yaml: document 1: switch_port p: switch: there is no switch red"],
    );
    check(
        "{kind: switch_port, id: p, switch: red}\n---\n{kind: switch, id: red, tenent: acme}",
        &["unknown-field: net.yaml: document 2: switch red: tenent: no such field; did you mean `tenant`?"],
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
            "duplicate: net.yaml: document 2: switch red: id: is there already, in net.yaml: document 1",
            "duplicate: net.yaml: document 4: switch_port p2: addresses[0].mac: 02:00:00:00:00:01 on switch red is that of switch_port p1 already (net.yaml: document 3)",
            "duplicate: net.yaml: document 4: switch_port p2: addresses[0].ips[0]: 10.0.0.1 on switch red is that of switch_port p1 already (net.yaml: document 3)",
            "duplicate: net.yaml: document 5: switch_port p3: addresses[0].mac: 02:00:00:00:00:01 on switch blue is that of switch_port blue-1 already",
            "duplicate: net.yaml: document 6: switch_port p4: addresses[1].ips[0]: fd00::1 on switch blue is there twice",
            "duplicate: net.yaml: document 7: transport_node hv2: ip: tunnel end point 172.16.0.1 is that of transport_node hv1 already",
            "duplicate: net.yaml: document 7: transport_node hv2: ovsdb: end point unix:/run/hv1/db.sock is that of transport_node hv1 already",
            "bad-value: net.yaml: document 8: transport_node hv3: ip: 127.0.0.1 cannot be reached from other hosts",
            "bad-value: net.yaml: document 8: transport_node hv3: encaps: must not be empty; leave it out for `geneve`",
            "bad-value: net.yaml: document 9: transport_node hv4: ip: ::ffff:10.0.0.1 stands for an IPv4 address; write that",
            "bad-value: net.yaml: document 9: transport_node hv4: encaps: gre is there twice",
        ],
    );
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
        &["syntax: net.yaml: document 1: not valid YAML: field `id` is there twice"],
    );
    check(
        "kind: switch\n1: b",
        &["syntax: net.yaml: document 1: not valid YAML: a field's name must be text, not a number"],
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
        ["syntax: net.jsonl: object 2: not valid JSON: field `kind` is there twice at line 2 column 36"]
    );
}

#[test]
fn text_of_no_known_format_that_is_no_json_can_be_yaml() {
    let objects = |text: &str| {
        let mut batch = Batch::default();
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

    // What is neither is told in the form that was meant.
    let fault = |text: &str| faults_of("standard input", text).concat();
    let json = fault(r#"[{"kind": "switch", "id" "x"}]"#);
    assert!(json.starts_with("syntax: standard input: object 1: not valid JSON: "), "{json}");
    let yaml = fault("{kind: switch, id: x");
    assert!(yaml.starts_with("syntax: standard input: document 1: not valid YAML: "), "{yaml}");
    // The name of a file says what was meant.
    assert!(faults_of("net.json", "{kind: switch, id: x}").concat().contains("not valid JSON"));
}

#[test]
fn deleting_names_the_referrers() {
    use network::{Kind, ObjectKey};
    let mut store = store();
    let mut batch = Batch::default();
    let ports: Vec<String> = (2..=8)
        .map(|n| format!(r#"{{"kind": "switch_port", "id": "blue-{n}", "switch": "blue"}}"#))
        .collect();
    batch.add_document("ports.json", &ports.join("\n"));
    let changes = store.plan(batch).expect("objects without fault");
    store.commit(&changes);

    let blue = ObjectKey::new(Kind::Switch, "blue");
    let faults = store.plan_delete(std::slice::from_ref(&blue)).expect_err("it has ports");
    assert_eq!(
        faults.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "switch blue: is in use by switch_port blue-1, switch_port blue-2, switch_port blue-3, switch_port blue-4, \
          switch_port blue-5 and 3 more; delete what refers to it first"
        ]
    );
    let faults = store.plan_delete(&[ObjectKey::new(Kind::SwitchPort, "red-1")]).expect_err("there is none");
    assert_eq!(faults[0].to_string(), "switch_port red-1: does not exist");

    let mut all: Vec<ObjectKey> =
        (1..=8).map(|n| ObjectKey::new(Kind::SwitchPort, format!("blue-{n}"))).collect();
    all.insert(0, blue);
    let changes = store.plan_delete(&all).expect("all go together");
    store.commit(&changes);
    assert_eq!(store.list(Kind::Switch).count() + store.list(Kind::SwitchPort).count(), 0);
    assert_eq!(store.list(Kind::TransportNode).count(), 1);
}
