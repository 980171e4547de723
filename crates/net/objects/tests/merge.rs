//! Changes of an object by a JSON merge patch.

use nlog_data::{Type, Value};
use objects::{Batch, Cancel, Kinds, Object, ObjectKey, ObjectStore};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Map, Value as Json, json};

use crate::support::random::{any_document, any_kinds};
use crate::support::{built_in, choice, field, kind, mapping, record};

/// Kinds with all that a document can nest.
fn kinds() -> Kinds {
    let limits = record("limits", &[("rate", Type::Int), ("burst", Type::opt(Type::Int))]);
    let mut ports = field("ports", Type::list(Type::Int), Some(Value::list([])));
    ports.formers = vec!["port".to_owned()];
    let mut names = field(
        "names",
        mapping(record("pair", &[("mac", Type::Mac), ("name", Type::String)])),
        Some(Value::set([])),
    );
    names.formers = vec!["old_names".to_owned()];
    let fields = vec![
        field("room", Type::String, None),
        field("size", Type::Int, Some(Value::Int(7))),
        field("limits", Type::opt(limits), None),
        ports,
        names,
        field("filter", Type::opt(Type::PacketFilter), None),
    ];
    Kinds::new(vec![kind("desk", "desk", fields, &[])])
}

const DESK: &str = r#"{"kind": "desk", "id": "d", "labels": {"a": "b", "c.d": "e"}, "room": "blue", "size": 9,
    "limits": {"rate": 1, "burst": 2}, "ports": [1, 2], "names": {"02:00:00:00:00:0a": "x"},
    "filter": {"ip_proto": "tcp", "tp_dst": 22}}"#;

fn store(kinds: &Kinds, document: &str) -> ObjectStore {
    let mut store = ObjectStore::new(kinds);
    let mut batch = Batch::new(kinds, Cancel::default());
    batch.add_json("net.json", document);
    let mut changes = store.plan(batch).unwrap_or_else(|faults| panic!("{faults:#?}"));
    changes.stamp(5);
    store.commit(&changes);
    store
}

/// The object after a patch, or the faults.
fn merged(kinds: &Kinds, document: &str, patch: &str) -> Result<Object, String> {
    let store = store(kinds, document);
    let (_, object) = store.iter().next().expect("it is there");
    let mut batch = Batch::new(kinds, Cancel::default());
    batch.merge(object, patch);
    match store.plan(batch) {
        Ok(changes) => Ok(Object::clone(changes.changes[0].after.as_ref().expect("it stays"))),
        Err(mut faults) => {
            // As the controller does.
            for fault in &mut faults {
                fault.place = None;
            }
            Err(faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
        }
    }
}

/// The merge of RFC 7396, section 2.
fn oracle(target: Json, patch: &Json) -> Json {
    let Json::Object(patch) = patch else { return patch.clone() };
    let mut target = if let Json::Object(target) = target { target } else { Map::new() };
    for (name, value) in patch {
        if value.is_null() {
            target.remove(name);
        } else {
            let present = target.remove(name).unwrap_or_default();
            target.insert(name.clone(), oracle(present, value));
        }
    }
    target.into()
}

fn desk(patch: &Json) -> Json {
    let object =
        merged(&kinds(), DESK, &patch.to_string()).unwrap_or_else(|faults| panic!("{patch}: {faults}"));
    object.to_json().parse().expect("JSON")
}

#[test]
fn a_patch_changes_what_it_names() {
    let whole: Json =
        store(&kinds(), DESK).iter().next().expect("it is there").1.to_json().parse().expect("JSON");
    for (patch, path, after) in [
        (json!({}), "", whole.clone()),
        (json!({"room": "red"}), "/room", json!("red")),
        (json!({"size": null}), "/size", json!(7)),
        (json!({"labels": {"a": null, "f": "g"}}), "/labels", json!({"c.d": "e", "f": "g"})),
        (json!({"limits": {"rate": 3}}), "/limits", json!({"rate": 3, "burst": 2})),
        (json!({"limits": {"burst": null}}), "/limits", json!({"rate": 1})),
        (json!({"ports": [3]}), "/ports", json!([3])),
        (json!({"port": 4}), "/ports", json!([4])),
        (json!({"port": null}), "/ports", json!([])),
        (
            json!({"old_names": {"02:00:00:00:00:0b": "y"}}),
            "/names",
            json!({"02:00:00:00:00:0a": "x", "02:00:00:00:00:0b": "y"}),
        ),
        // A key means the same however it is written.
        (json!({"names": {"02:00:00:00:00:0A": "y"}}), "/names", json!({"02:00:00:00:00:0a": "y"})),
        (json!({"names": {"2:0:0:0:0:A": null, "02:00:00:00:00:0c": null}}), "/names", json!({})),
        (json!({"filter": {"tp_dst": 80}}), "/filter", json!({"ip_proto": "tcp", "tp_dst": 80})),
        (json!({"filter": {"tp_dst": null}}), "/filter", json!({"ip_proto": "tcp"})),
    ] {
        let found = desk(&patch);
        assert_eq!(found.pointer(path), Some(&after), "{patch}");
        // The rest stays.
        let mut rest = whole.clone();
        *rest.pointer_mut(path).expect("it is there") = after;
        assert_eq!(found, rest, "{patch}");
    }
    assert_eq!(desk(&json!({"labels": null})).get("labels"), None);
    assert_eq!(desk(&json!({"limits": null})).get("limits"), None);
    // What is sent back as it was printed changes nothing.
    let mut same = whole.clone();
    same["state"] = json!({"mtu": 1});
    same["revision"] = json!(5);
    assert_eq!(desk(&same), whole);
}

/// A choice of one alternative gets another one, however they are written.
#[test]
fn what_a_patch_gives_takes_the_place_of_another_alternative() {
    let alias = record("alias", &[("name", Type::String), ("age", Type::opt(Type::Int))]);
    let target = choice("target", &[("ips", Type::list(Type::Ip)), ("alias", alias), ("note", Type::String)]);
    let by_name = mapping(record("entry", &[("name", Type::String), ("target", target.clone())]));
    let fields =
        vec![field("target", Type::opt(target), None), field("entries", by_name, Some(Value::set([])))];
    let kinds = Kinds::new(vec![kind("desk", "desk", fields, &[])]);
    let (list, alias) = (json!(["10.0.0.1"]), json!({"alias": {"name": "a", "age": 7}}));
    for (before, patch, after) in [
        (&list, json!({"note": "x"}), json!({"note": "x"})),
        (&list, json!({"ips": ["10.0.0.2"]}), json!(["10.0.0.2"])),
        (&list, json!(["10.0.0.2"]), json!(["10.0.0.2"])),
        (&alias, json!(["10.0.0.2"]), json!(["10.0.0.2"])),
        (&alias, json!({"ips": ["10.0.0.2"]}), json!(["10.0.0.2"])),
        (&alias, json!({"note": "x"}), json!({"note": "x"})),
        (&alias, json!({"note": "x", "alias": null}), json!({"note": "x"})),
        (&alias, json!({"note": null}), alias.clone()),
        // The parts that a patch leaves out stay, as in any record.
        (&alias, json!({"alias": {"name": "b"}}), json!({"alias": {"name": "b", "age": 7}})),
    ] {
        let document = json!({"kind": "desk", "id": "d", "target": before, "entries": {"a.b": before}});
        let given = json!({"target": patch, "entries": {"a.b": patch}});
        let object = merged(&kinds, &document.to_string(), &given.to_string()).expect("no faults");
        let object: Json = object.to_json().parse().expect("JSON");
        assert_eq!(object["target"], after, "{before} with {patch}");
        assert_eq!(object["entries"]["a.b"], after, "{before} with {patch}");
    }
    let refused = |patch: Json| {
        let document = json!({"kind": "desk", "id": "d", "target": alias, "entries": {"a.b": list}});
        merged(&kinds, &document.to_string(), &patch.to_string()).unwrap_err()
    };
    assert_eq!(
        refused(json!({"target": {"note": "x", "ips": []}})),
        "desk d: target: must be one of `ips`, `alias` and `note`; it has `ips` and `note`"
    );
    assert_eq!(
        refused(json!({"target": {"alias": null}, "entries": {"a.b": {"nte": null}}})),
        "desk d: target: must be one of `ips`, `alias` and `note`; it has none\n\
         desk d: entries.a.b.nte: unknown field; did you mean `note`?"
    );
}

#[test]
fn what_cannot_be_is_refused_with_the_field() {
    for (patch, why) in [
        (
            r#"{"id": "e"}"#,
            "id: says which object this is, so it cannot change; make another object with `weft apply`",
        ),
        (
            r#"{"kind": null}"#,
            "kind: says which object this is, so it cannot change; make another object with `weft apply`",
        ),
        (r#"{"delete": true}"#, "delete: is no field of an object; `weft delete` deletes it"),
        (r#"{"room": null}"#, "room: is missing"),
        (r#"{"limits": {"rate": null}}"#, "limits.rate: is missing"),
        // A slip is no wish for nothing.
        (r#"{"roomm": null}"#, "roomm: unknown field; did you mean `room`?"),
        (r#"{"limits": {"brst": null}}"#, "limits.brst: unknown field; did you mean `burst`?"),
        (
            r#"{"port": null, "ports": [1]}"#,
            "port: is a former name of `ports`, which is given as `ports` too; remove one of them",
        ),
        (
            r#"{"names": {"2:0:0:0:0:a": "y", "02:00:00:00:00:0a": "z"}}"#,
            "names: \"2:0:0:0:0:a\" is given twice",
        ),
        (r#"{"names": {"2:0:0:0:0:b": "y", "2:00:0:0:0:b": "z"}}"#, "names: \"2:0:0:0:0:b\" is given twice"),
        (
            r#"{"revision": 4}"#,
            "revision: is 4, but transaction 5 has changed the object since; read it again and repeat the change",
        ),
        (r#"{"revision": "x"}"#, "revision: must be the number of a transaction, not text"),
        ("[]", "a merge patch must be a mapping of the fields to change, not a list"),
        ("null", "a merge patch must be a mapping of the fields to change, not nothing"),
        ("{} {}", "the merge patch is not valid JSON: trailing characters at line 1 column 4"),
        (
            r#"{"size": 1, "size": 2}"#,
            "the merge patch is not valid JSON: field `size` is given twice at line 1 column 22",
        ),
    ] {
        let refused = merged(&kinds(), DESK, patch).unwrap_err();
        assert_eq!(refused, format!("desk d: {why}"), "{patch}");
    }
    // All at once.
    let refused =
        merged(&kinds(), DESK, r#"{"id": "e", "delete": true, "room": 7, "roomm": 1}"#).unwrap_err();
    assert_eq!(refused.lines().count(), 4, "{refused}");
}

#[test]
fn a_patch_is_read_within_bounds() {
    let deep = format!(r#"{{"labels": {}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    assert!(merged(&kinds(), DESK, &deep).unwrap_err().contains("recursion limit exceeded"));
    let many = format!(r#"{{"ports": [{}0]}}"#, "0,".repeat(100_000));
    assert!(merged(&kinds(), DESK, &many).unwrap_err().contains("has more than 100000 values"));
    // Nor can many patches together make what no document can have.
    let labels = |prefix: &str| {
        let labels: Vec<String> = (0..30_000).map(|number| format!(r#""{prefix}{number}": """#)).collect();
        format!(r#"{{"labels": {{{}}}}}"#, labels.join(","))
    };
    let object = merged(&kinds(), DESK, &labels("x")).expect("it fits").to_json();
    let refused = merged(&kinds(), &object, &labels("y")).unwrap_err();
    assert_eq!(refused, "desk d: would have more than 100000 values, the limit of one object");
}

/// A document of few values has more of them in canonical form, with the defaults.
#[test]
fn an_object_near_the_bound_can_be_changed() {
    let kinds = built_in();
    let addresses: Vec<String> =
        (0..30_000).map(|n| format!(r#"{{"mac": "02:00:00:00:{:02x}:{:02x}"}}"#, n / 256, n % 256)).collect();
    let text = format!(
        r#"{{"kind": "switch_port", "id": "p", "switch": "s", "addresses": [{}]}}"#,
        addresses.join(",")
    );
    let text = format!("{{\"kind\": \"switch\", \"id\": \"s\"}}\n{text}");
    let store = store(&kinds, &text);
    let port = store.get(&ObjectKey::new("switch_port", "p")).expect("it is there");
    let mut batch = Batch::new(&kinds, Cancel::default());
    batch.merge(port, r#"{"port_security": true}"#);
    assert!(store.plan(batch).is_ok());
}

/// The examples of RFC 7396, appendix A, whose patch is a mapping, inside labels or as them.
#[test]
fn the_examples_of_the_standard() {
    let of_oracle = [
        (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
        (json!({"a": "b"}), json!({"a": null}), json!({})),
        (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
        (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
        (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
        (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
        (json!(["a", "b"]), json!({"a": "b"}), json!({"a": "b"})),
        (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
        (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
        (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
    ];
    for (before, patch, after) in of_oracle {
        assert_eq!(oracle(before.clone(), &patch), after);
        // Labels are texts by key, so not all of them can have these.
        let is_labels = |json: &Json| json.as_object().is_some_and(|map| map.values().all(Json::is_string));
        if is_labels(&before) && is_labels(&after) {
            let document = json!({"kind": "desk", "id": "d", "room": "r", "labels": before});
            let object =
                merged(&kinds(), &document.to_string(), &json!({"labels": patch}).to_string()).unwrap();
            assert_eq!(json!(object.labels()), after);
        }
    }
}

/// A patch made of a document: some members are left out, and some become nothing.
fn patch_of(json: &Json, choices: &mut impl Iterator<Item = usize>) -> Json {
    let Json::Object(map) = json else { return json.clone() };
    let mut patch = Map::new();
    for (name, value) in map.iter().filter(|(name, _)| !matches!(name.as_str(), "kind" | "id")) {
        match choices.next().unwrap_or_default() % 5 {
            0 => {}
            1 => drop(patch.insert(name.clone(), Json::Null)),
            _ => drop(patch.insert(name.clone(), patch_of(value, choices))),
        }
    }
    patch.into()
}

/// A patch as the standard needs it where a choice gets another alternative: it also removes all that may be there.
fn without_others(ty: &Type, patch: &Json) -> Json {
    let (Type::Opt(of), false) = (ty.base(), patch.is_null()) else { return in_parts(ty, patch) };
    without_others(of, patch)
}

fn in_parts(ty: &Type, patch: &Json) -> Json {
    let Json::Object(patch) = patch else { return patch.clone() };
    let mut whole = patch.clone();
    match ty.base() {
        Type::Record(of) => {
            for (name, ty) in of.fields.iter().filter(|(name, _)| patch.contains_key(name)) {
                whole[name] = without_others(ty, &patch[name]);
            }
            if ty.alternatives().is_some() && patch.values().any(|value| !value.is_null()) {
                for (name, _) in &of.fields {
                    whole.entry(name).or_insert(Json::Null);
                }
            }
        }
        Type::Set(of) => {
            let Type::Record(pair) = of.base() else { return whole.into() };
            whole.values_mut().for_each(|value| *value = without_others(&pair.fields[1].1, value));
        }
        _ => {}
    }
    whole.into()
}

/// The object of a document, if it has no faults.
fn read(kinds: &Kinds, document: &Json) -> Option<Object> {
    let mut batch = Batch::new(kinds, Cancel::default());
    batch.add_json("net.json", &document.to_string());
    batch.entries().first().map(|entry| Object::clone(&entry.object))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, max_shrink_iters: 200, ..ProptestConfig::default() })]
    /// A patch means what it would mean for the document, by present names, and then the document is applied.
    #[test]
    fn a_patch_means_what_the_standard_says(
        (kinds, documents) in any_kinds().prop_flat_map(|kinds| {
            let documents = prop::collection::vec(any_document(&kinds), 8);
            (Just(kinds), documents)
        }),
        choices in prop::collection::vec(any::<Index>(), 1..40),
    ) {
        let first = &documents[0].0;
        let Some((other, _)) = documents[1..].iter().find(|(other, _)| other["kind"] == first["kind"]) else {
            return Ok(());
        };
        let mut choices = choices.iter().map(|index| index.index(1000)).cycle();
        let before = read(&kinds, first).expect("a valid document");
        let patch = patch_of(other, &mut choices);
        let mut batch = Batch::new(&kinds, Cancel::default());
        batch.merge(&before, &patch.to_string());
        let found = batch.entries().first().map(|entry| Object::clone(&entry.object));

        // The standard knows no former names.
        let mut document: Json = before.to_json().parse().expect("JSON");
        for field in &before.kind().declared().fields {
            for former in field.formers.iter().filter(|former| patch.get(former.as_str()).is_some()) {
                let map = document.as_object_mut().expect("a mapping");
                let present = map.remove(&field.name);
                map.extend(present.map(|present| (former.clone(), present)));
            }
        }
        let mut standard = patch.clone();
        for field in &before.kind().declared().fields {
            for name in field.formers.iter().chain([&field.name]) {
                let value = standard.as_object_mut().and_then(|patch| patch.get_mut(name));
                if let Some(value) = value {
                    *value = without_others(&field.ty, value);
                }
            }
        }
        let wanted = read(&kinds, &oracle(document, &standard));
        prop_assert_eq!(found, wanted, "{:?} with {}", before, patch);
    }
}
