//! What kinds can declare beyond those of the built-in rules.

use nlog_data::{ObjectField, ObjectKind, Type, Value};
use objects::{FaultCode, Kinds, ObjectKey, ObjectStore, Outcome, Refusal};

use crate::support::{
    batch, built_in, constrained, empty_store, enumeration, field, kind, mapping, name, record, reference,
};

/// Applies a YAML text, or returns its faults.
fn apply(store: &mut ObjectStore, text: &str) -> Result<Vec<Outcome>, Vec<String>> {
    let mut batch = batch(store.kinds());
    batch.add_document("net.yaml", text);
    match store.plan(batch) {
        Ok(changes) => {
            store.commit(&changes);
            Ok(changes.changes.iter().map(objects::Change::outcome).collect())
        }
        Err(faults) => Err(faults.iter().map(ToString::to_string).collect()),
    }
}

fn only(fields: Vec<ObjectField>, uniques: &[&str]) -> ObjectKind {
    kind("thing", "thing", fields, uniques)
}

fn store_of(kinds: Vec<ObjectKind>) -> ObjectStore {
    ObjectStore::new(&Kinds::new(kinds))
}

/// The faults of a thing with these fields, without the place and the object.
#[track_caller]
fn check(fields: Vec<ObjectField>, given: &str, faults: &[&str]) {
    let mut store = store_of(vec![only(fields, &[])]);
    let found = apply(&mut store, &format!("{{kind: thing, id: a, {given}}}")).err().unwrap_or_default();
    let found: Vec<&str> = found
        .iter()
        .map(|fault| fault.strip_prefix("net.yaml:1: thing a: ").expect("a fault of the thing"))
        .collect();
    assert_eq!(found, faults, "{given}");
}

#[test]
fn a_text_that_is_no_value_of_its_type_says_how_to_write_one() {
    let fields = || {
        let types = [Type::Int, Type::Net, Type::Net, Type::Match, Type::Actions];
        ["number", "a", "b", "match", "actions"]
            .iter()
            .zip(types)
            .map(|(name, ty)| field(name, ty, None))
            .collect()
    };
    check(
        fields(),
        "number: 1.5, a: 10.0.0.1/24, b: here, match: nonsense=1, actions: [1]",
        &[
            "number: 1.5 is not a whole number",
            "a: \"10.0.0.1/24\" has host bits; write it as \"10.0.0.0/24\"",
            "b: \"here\" is not a prefix; write it as \"10.0.0.0/24\" or \"fd00::/64\"",
            "match: \"nonsense=1\" is not an OpenFlow match: `nonsense` is not a known match field; ovs-fields(7) lists the names",
            "actions: must be text, not a list",
        ],
    );
    check(
        fields(),
        "number: 9223372036854775808, a: 10.0.0.1, b: 'fd00::1', match: 'reg0=1', actions: 'output:1'",
        &["number: 9223372036854775808 is not a number from -9223372036854775808 to 9223372036854775807"],
    );
    check(
        fields(),
        "number: '1', a: '::/0', b: 'fd00::/8', match: '', actions: drop",
        &["number: must be a whole number, not text"],
    );
    let mut store = store_of(vec![only(fields(), &[])]);
    apply(
        &mut store,
        "{kind: thing, id: a, number: 15e2, a: 10.0.0.1, b: 'fd00::1', match: 'reg0=1', actions: drop}",
    )
    .unwrap();
    let json = store.list("thing").next().unwrap().to_json();
    assert_eq!(
        json,
        r#"{"kind":"thing","id":"a","number":1500,"a":"10.0.0.1/32","b":"fd00::1/128","match":"reg0=0x1","actions":"drop"}"#
    );
}

#[test]
fn the_address_of_an_interface_has_one_form_and_needs_its_length() {
    let port = || only(vec![field("networks", Type::list(Type::InterfaceAddress), None)], &["networks"]);
    let mut store = store_of(vec![port()]);
    assert_eq!(
        apply(
            &mut store,
            "{kind: thing, id: a, networks: [10.0.0.254, 'fd00::1', 10.0.0.254/33, gateway, 7, 10.0.0.254/24]}"
        ),
        Err([
            "networks[0]: \"10.0.0.254\" is not the address of an interface: the length of the prefix is missing; write it as 10.0.0.254/24",
            "networks[1]: \"fd00::1\" is not the address of an interface: the length of the prefix is missing; write it as fd00::1/64",
            "networks[2]: \"10.0.0.254/33\" is not the address of an interface: the length of the prefix must be a number from 0 to 32",
            "networks[3]: \"gateway\" is not the address of an interface: not an IP address with the length of its prefix, such as 10.0.0.254/24",
            "networks[4]: must be text, not a number; write it in quotes",
        ]
        .map(|fault| format!("net.yaml:1: thing a: {fault}"))
        .to_vec())
    );
    apply(&mut store, "{kind: thing, id: a, networks: [10.0.0.254/24, 'FD00:0:0::1/64']}").unwrap();
    let json = store.list("thing").next().unwrap().to_json();
    assert_eq!(json, r#"{"kind":"thing","id":"a","networks":["10.0.0.254/24","fd00::1/64"]}"#);
    // Another spelling is the same value, and another address in the same prefix is not.
    assert_eq!(
        apply(&mut store, "{kind: thing, id: b, networks: [10.0.0.253/24, 'fd00::0:1/64']}"),
        Err(vec![
            "net.yaml:1: thing b: networks[1]: networks fd00::1/64 already belongs to thing a".to_owned()
        ])
    );
}

#[test]
fn a_packet_filter_is_a_mapping_of_header_fields() {
    let fields = || vec![field("match", Type::PacketFilter, None)];
    let mut store = store_of(vec![only(fields(), &["match"])]);
    for (id, given, json) in [
        ("a", "{tp_dst: 22, ip_proto: tcp}", r#"{"ip_proto":"tcp","tp_dst":22}"#),
        ("b", "{ip_src: 10.0.9.0/24}", r#"{"ip_src":"10.0.9.0/24"}"#),
        ("c", "{udp_src: 8000-8999, nw_ttl: 0x40}", r#"{"ip_proto":"udp","nw_ttl":64,"tp_src":"8000-8999"}"#),
        ("d", "{}", "{}"),
        ("e", "{ip_proto: 47, tp_dst: null}", r#"{"ip_proto":47}"#),
        ("f", "{icmp_type: 8.0, icmp_code: '0'}", r#"{"icmp_type":8,"icmp_code":0}"#),
    ] {
        apply(&mut store, &format!("{{kind: thing, id: {id}, match: {given}}}")).unwrap();
        let object = store.list("thing").find(|object| **object.id() == *id).unwrap();
        let printed = object.to_json();
        assert_eq!(printed, format!(r#"{{"kind":"thing","id":"{id}","match":{json}}}"#));
        let yaml = object.to_yaml();
        assert_eq!(apply(&mut store, &yaml).unwrap(), [Outcome::Unchanged], "{yaml}");
    }
    // Another spelling is the same value.
    let again = apply(&mut store, "{kind: thing, id: g, match: {nw_proto: 6, tcp_dst: 22}}").unwrap_err();
    assert!(again[0].contains("already belongs to thing a"), "{again:?}");
}

#[test]
fn faults_of_a_packet_filter_have_paths() {
    let fields = || vec![field("match", Type::PacketFilter, None)];
    for (given, faults) in [
        ("tcp", &["match: must be a mapping of header fields, not text"][..]),
        (
            "{tp_dts: 22, ip_proto: [tcp], in_port: 1, tp_dst: 0.5, tp_src: 70000}",
            &[
                "match.in_port: cannot be matched: numbers of ports differ from host to host; write `eth_src` or `ip_src`",
                "match.ip_proto: must be a number or text, not a list",
                "match.tp_dst: 0.5 is not a whole number",
                "match.tp_src: `70000` is not a port or a range of ports; write 22 or 8000-8999",
                "match.tp_dts: unknown field; did you mean `tp_dst`?",
            ],
        ),
        ("{tp_dst: 22}", &["match.tp_dst: needs a protocol: add `ip_proto`, tcp, udp or sctp"]),
        (
            "{ip_src: 10.0.0.1, ip_dst: 'fd00::1'}",
            &[
                "match.ip_dst: is about IPv6 packets, but `ip_src` is about IPv4 packets; remove one of the two",
            ],
        ),
        (
            "{nw_src: 10.0.0.1, ip_src: 10.0.0.1}",
            &["match.nw_src: says the same field as `ip_src`; remove one of the two"],
        ),
    ] {
        check(fields(), &format!("match: {given}"), faults);
    }
}

#[test]
fn parts_of_values_have_paths() {
    let port = constrained("port", Type::Int, Some((1, 9)), &[]);
    let part = || {
        let fields = [
            ("port", port.clone()),
            ("names", Type::set(name())),
            ("of", mapping(record("of", &[("n", port.clone()), ("flag", Type::Bool)]))),
            ("note", Type::opt(Type::String)),
        ];
        vec![field("parts", Type::list(record("part", &fields)), None)]
    };
    check(
        part(),
        "parts: [{}, {port: 10, names: [a, ' '], of: {'1': true, x: false, '2': 1}, not: x}, {port: 1, names: a, of: [], note: 5}]",
        &[
            "parts[0].port: is missing",
            "parts[1].port: 10 is not a number from 1 to 9",
            "parts[1].names[1]: \" \" must consist of letters, digits and - _ . : @ and begin with a letter or a digit",
            "parts[1].of.2: must be `true` or `false`, not a number",
            "parts[1].of: must be a number from 1 to 9, not text",
            "parts[1].not: unknown field; did you mean `note`?",
            "parts[2].names: must be a list, not text",
            "parts[2].of: must be a mapping, not a list",
            "parts[2].note: must be text, not a number; write it in quotes",
        ],
    );
    check(part(), "parts: [{port: 1, of: {'1': true, '+1': false}}]", &["parts[0].of: \"1\" is given twice"]);
    check(part(), "parts: [{port: 1, note: null, names: null}]", &[]);
}

#[test]
fn a_list_that_must_not_be_empty_is_required() {
    let is_filled = |value: &Value| matches!(value, Value::List(values) if !values.is_empty());
    let filled = constrained("filled", Type::list(Type::Int), None, &[("must not be empty", is_filled)]);
    let pool = record("pool", &[("members", filled)]);
    check(vec![field("pool", pool.clone(), None)], "pool: {}", &["pool.members: is missing"]);
    check(vec![field("pool", pool, None)], "pool: {members: []}", &["pool.members: [] must not be empty"]);
}

#[test]
fn the_innermost_constraint_is_named_first() {
    let even = |value: &Value| matches!(value, Value::Int(n) if n % 2 == 0);
    let tens = |value: &Value| matches!(value, Value::Int(n) if n % 10 == 0);
    let vlan = constrained("vlan", Type::Int, Some((1, 4094)), &[("must be even", even)]);
    let special = constrained("special", vlan, Some((100, 9999)), &[("must end with 0", tens)]);
    let fields = || vec![field("tag", special.clone(), None)];
    check(fields(), "tag: 4095", &["tag: 4095 is not a number from 100 to 4094"]);
    check(fields(), "tag: 99", &["tag: 99 is not a number from 100 to 4094"]);
    check(fields(), "tag: 101", &["tag: 101 must be even"]);
    check(fields(), "tag: 102", &["tag: 102 must end with 0"]);
    check(fields(), "tag: 110", &[]);
}

#[test]
fn a_field_can_be_given_by_a_former_name() {
    let mut store = empty_store();
    let role = |store: &mut ObjectStore, given: &str| {
        apply(store, &format!("{{kind: transport_node, id: hv, ip: 172.16.0.1, {given}}}"))?;
        let node = store.list("transport_node").next().unwrap();
        Ok::<String, Vec<String>>(node.value("roles").unwrap().to_string())
    };
    assert_eq!(role(&mut store, "role: gateway").unwrap(), "[\"gateway\"]");
    assert_eq!(role(&mut store, "role: [gateway, hypervisor]").unwrap(), "[\"gateway\", \"hypervisor\"]");
    assert_eq!(role(&mut store, "role: null").unwrap(), "[\"hypervisor\"]");
    let fault = |text: &str| vec![format!("net.yaml:1: transport_node hv: {text}")];
    assert_eq!(role(&mut store, "roles: gateway"), Err(fault("roles: must be a list, not text")));
    assert_eq!(
        role(&mut store, "role: 7"),
        Err(fault("role: must be text, not a number; write it in quotes"))
    );
    assert_eq!(
        role(&mut store, "roles: [gateway], role: gateway"),
        Err(fault("role: is a former name of `roles`, which is given as `roles` too; remove one of them"))
    );
    assert_eq!(
        apply(&mut store, "{kind: localnet_port, id: l, switch: s}\n---\n{kind: switch, id: s}"),
        Err(vec!["net.yaml:1: localnet_port l: physical_network: is missing".to_owned()])
    );
}

#[test]
fn a_default_other_than_none_gives_way_to_null() {
    let fields = vec![field("limit", Type::opt(Type::Int), Some(Value::Int(5)))];
    let mut store = store_of(vec![only(fields, &[])]);
    let mut json = |given: &str| {
        apply(&mut store, &format!("{{kind: thing, id: a{given}}}")).unwrap();
        store.list("thing").next().unwrap().to_json()
    };
    assert_eq!(json(""), r#"{"kind":"thing","id":"a","limit":5}"#);
    assert_eq!(json(", limit: null"), r#"{"kind":"thing","id":"a","limit":null}"#);
    assert_eq!(json(", limit: 7"), r#"{"kind":"thing","id":"a","limit":7}"#);
}

/// A store in which a rule refers to ports or groups: in a field, a list, a set, and a mapping.
fn referring() -> ObjectStore {
    let either = || reference(&["port", "group"]);
    let fields = vec![
        field("at", Type::opt(either()), None),
        field("to", Type::list(record("to", &[("group", reference(&["group"]))])), Some(Value::list([]))),
        field("of", Type::set(either()), Some(Value::set([]))),
        field(
            "by",
            mapping(record("by", &[("name", name()), ("port", reference(&["port"]))])),
            Some(Value::set([])),
        ),
    ];
    store_of(vec![
        kind("port", "port", vec![], &[]),
        kind("group", "group", vec![], &[]),
        kind("rule", "rule", fields, &[]),
    ])
}

#[test]
fn references_are_found_wherever_they_stand() {
    let mut store = referring();
    assert_eq!(
        apply(
            &mut store,
            "{kind: rule, id: r, at: a, to: [{group: b}, {group: c}], of: [d], by: {x: e}}\n---\n{kind: group, id: b}"
        ),
        Err([
            "at: port or group a does not exist; apply it first, or in the same request",
            "to[1].group: group c does not exist; apply it first, or in the same request",
            "of: port or group d does not exist; apply it first, or in the same request",
            "by.x: port e does not exist; apply it first, or in the same request",
        ]
        .map(|fault| format!("net.yaml:1: rule r: {fault}"))
        .to_vec())
    );
    apply(
        &mut store,
        "{kind: rule, id: r, to: [{group: b}], of: [d], by: {x: e}}
---
{kind: group, id: b}
---
{kind: group, id: d}
---
{kind: port, id: e}",
    )
    .unwrap();
    for key in [("group", "b"), ("group", "d"), ("port", "e")] {
        let faults = store.plan_delete(&[ObjectKey::new(key.0, key.1)]).unwrap_err();
        assert_eq!(faults[0].message, "is in use by rule r; delete the objects that refer to it first");
    }
}

#[test]
fn any_of_several_kinds_satisfies_a_reference() {
    let mut store = referring();
    apply(&mut store, "{kind: port, id: a}\n---\n{kind: group, id: a}\n---\n{kind: rule, id: r, at: a}")
        .unwrap();
    let (port, group) = (ObjectKey::new("port", "a"), ObjectKey::new("group", "a"));
    let faults = store.plan_delete(&[port.clone(), group.clone()]).unwrap_err();
    assert_eq!(faults.iter().map(|fault| fault.kind.clone().unwrap()).collect::<Vec<_>>(), ["group", "port"]);
    let changes = store.plan_delete(&[port]).unwrap();
    store.commit(&changes);
    assert!(store.plan_delete(&[group]).is_err());
    // The other kind takes over in one request.
    let text = "{kind: group, id: a, delete: true}\n---\n{kind: port, id: a}";
    assert_eq!(apply(&mut store, text).unwrap(), [Outcome::Deleted, Outcome::Created]);
}

#[test]
fn paths_that_begin_alike_go_through_the_same_element() {
    let service = record("service", &[("protocol", Type::String), ("port", Type::Int)]);
    let fields = vec![
        field("services", Type::list(service), Some(Value::list([]))),
        field(
            "names",
            mapping(record("n", &[("name", name()), ("number", Type::Int)])),
            Some(Value::set([])),
        ),
        field("marks", Type::set(Type::Int), Some(Value::set([]))),
    ];
    let uniques = ["services.protocol, services.port", "names.number", "marks"];
    let mut store = store_of(vec![only(fields, &uniques)]);
    apply(&mut store, "{kind: thing, id: a, services: [{protocol: tcp, port: 1}, {protocol: udp, port: 2}]}")
        .unwrap();
    apply(&mut store, "{kind: thing, id: b, services: [{protocol: tcp, port: 2}, {protocol: udp, port: 1}]}")
        .unwrap();
    apply(&mut store, "{kind: thing, id: c, names: {x: 1, y: 2}, marks: [4, 5]}").unwrap();
    assert_eq!(
        apply(
            &mut store,
            "{kind: thing, id: d, services: [{protocol: sctp, port: 1}, {protocol: udp, port: 2}], names: {p: 3, q: 2, r: 3}, marks: [6, 5]}"
        ),
        Err([
            "services[1].port: port 2 on protocol udp already belongs to thing a",
            "names.q: number 2 already belongs to thing c",
            "names.r: number 3 is given twice",
            "marks: marks 5 already belongs to thing c",
        ]
        .map(|fault| format!("net.yaml:1: thing d: {fault}"))
        .to_vec())
    );
}

#[test]
fn kinds_of_one_name_space_share_no_id() {
    let kinds = || {
        ["port", "tap", "switch"]
            .map(|name| kind(name, if name == "switch" { "switch" } else { "port" }, vec![], &[]))
    };
    let mut store = store_of(kinds().to_vec());
    apply(&mut store, "{kind: port, id: a}\n---\n{kind: switch, id: a}").unwrap();
    assert_eq!(
        apply(&mut store, "{kind: tap, id: a}\n---\n{kind: tap, id: b}\n---\n{kind: port, id: b}"),
        Err(vec![
            "net.yaml:1: tap a: id: port id a already belongs to port a".to_owned(),
            "net.yaml:5: port b: id: port id b already belongs to tap b (net.yaml:3)".to_owned(),
        ])
    );
}

#[test]
fn a_hundred_duplicates_are_listed() {
    let mut store = store_of(vec![only(vec![field("n", Type::Int, None)], &["n"])]);
    let objects: Vec<String> = (0..152).map(|id| format!("{{kind: thing, id: t{id}, n: 1}}")).collect();
    let faults = apply(&mut store, &objects.join("\n---\n")).unwrap_err();
    assert_eq!(faults.len(), 101);
    assert_eq!(
        faults[99..],
        [
            "net.yaml:201: thing t100: n: n 1 already belongs to thing t0 (net.yaml:1)",
            "51 more duplicates are not listed; correct those above first",
        ]
    );
    let faults = apply(&mut store, &objects[..101].join("\n---\n")).unwrap_err();
    assert_eq!(faults.len(), 100);
}

#[test]
fn refused_objects_are_named_with_their_places() {
    let mut store = empty_store();
    apply(&mut store, "{kind: switch, id: old}").unwrap();
    let mut batch = batch(store.kinds());
    batch.add_document(
        "net.yaml",
        "{kind: switch, id: a}\n---\n{kind: switch, id: b}\n---\n{kind: switch, id: gone, delete: true}",
    );
    let changes = store.plan(batch).unwrap();
    let refusal = |id: &str, path: &str| Refusal {
        key: ObjectKey::new("switch", id),
        path: path.to_owned(),
        text: "is not wanted".to_owned(),
    };
    let refused =
        changes.refused(&[refusal("old", ""), refusal("gone", ""), refusal("b", "tenant"), refusal("a", "")]);
    assert!(refused.iter().all(|fault| fault.code == FaultCode::Refused && fault.code.name() == "refused"));
    assert_eq!(
        refused.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "net.yaml:1: switch a: is not wanted",
            "net.yaml:3: switch b: tenant: is not wanted",
            "net.yaml:5: switch gone: is not wanted",
            "switch old: is not wanted",
        ]
    );
}

#[test]
fn objects_of_other_kinds_than_the_stores_are_not_planned() {
    let store = empty_store();
    let text = "{kind: switch, id: a}";
    let mut same = batch(&built_in());
    same.add_document("net.yaml", text);
    assert!(store.plan(same).is_ok());
    let mut other = batch(&Kinds::new(vec![kind("switch", "switch", vec![], &[])]));
    other.add_document("net.yaml", text);
    let faults = store.plan(other).unwrap_err();
    assert_eq!(
        faults[0].to_string(),
        "the rules have changed since these objects were read; apply them again"
    );
}

#[test]
fn kinds_are_found_by_name() {
    let kinds = built_in();
    assert_eq!(kinds.index("switch"), Some(2));
    assert_eq!(kinds.get("switch_port").map(|kind| kind.index()), Some(3));
    assert_eq!(kinds.find("swich").unwrap_err().to_string(), "unknown kind; did you mean `switch`?");
    let none = Kinds::new(Vec::new());
    assert_eq!(none.find("switch").unwrap_err().to_string(), "unknown kind; the rules declare no kind");
    let colours = enumeration("colour", &["red"]);
    check(vec![field("colour", colours, None)], "colour: blue", &["colour: \"blue\" is not one of `red`"]);
}
