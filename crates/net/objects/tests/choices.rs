//! Values of one of several alternatives: `choice<R>`.

use nlog_data::{ObjectKind, Type, Value};
use objects::{Kinds, ObjectStore};
use serde_json::{Value as Json, json};

use crate::support::json_schema::accepts;
use crate::support::{
    batch, choice, constrained, enumeration, field, kind, mapping, name, record, reference,
};

/// The name of a machine.
fn host() -> Type {
    let is_short = |value: &Value| matches!(value, Value::String(text) if text.len() < 20);
    constrained("host", Type::String, None, &[("must be shorter", is_short)])
}

/// Addresses, the name of a machine, or a zone.
fn target() -> Type {
    let alternatives = [
        ("addresses", Type::list(Type::Ip)),
        ("cname", host()),
        ("zone", record("of_zone", &[("of", reference(&["zone"])), ("note", Type::opt(Type::String))])),
    ];
    choice("target", &alternatives)
}

fn zone() -> ObjectKind {
    let records = mapping(record("entry", &[("name", Type::String), ("value", target())]));
    let members = choice("members", &[("ids", Type::set(reference(&["zone"]))), ("label", Type::String)]);
    let mut former = field("wanted", Type::list(target()), Some(Value::list([])));
    former.formers = vec!["want".to_owned()];
    let mut several = field("named", Type::list(members.clone()), Some(Value::list([])));
    several.formers = vec!["name".to_owned()];
    let plain = choice("plain", &[("number", Type::Int), ("text", Type::String)]);
    let word = enumeration("word", &["any", "none"]);
    let listed = choice("listed", &[("ids", Type::list(Type::Int)), ("word", word.clone())]);
    let worded = choice("worded", &[("word", word), ("number", Type::Int)]);
    let fields = vec![
        field("records", records, Some(Value::set([]))),
        field("fallback", Type::opt(target()), None),
        former,
        several,
        field("plain", Type::opt(plain), None),
        field("listed", Type::opt(listed.clone()), None),
        field("within", Type::opt(record("within", &[("listed", listed)])), None),
        field("worded", Type::opt(worded), None),
    ];
    kind("zone", "zone", fields, &["records.value.cname", "fallback.addresses"])
}

fn store() -> ObjectStore {
    ObjectStore::new(&Kinds::new(vec![zone()]))
}

/// Applies a YAML text, or returns its faults.
fn apply(store: &mut ObjectStore, text: &str) -> Result<(), Vec<String>> {
    let mut batch = batch(store.kinds());
    batch.add_document("net.yaml", text);
    let mut changes = store.plan(batch).map_err(|mut faults| {
        objects::locate("net.yaml", text, &mut faults);
        faults.iter().map(ToString::to_string).collect::<Vec<_>>()
    })?;
    changes.stamp(1);
    store.commit(&changes);
    Ok(())
}

/// The faults of a zone with this, without the place and the object.
fn faults(given: &str) -> Vec<String> {
    let found = apply(&mut store(), &format!("{{kind: zone, id: a, {given}}}")).expect_err("a fault");
    let bare = |fault: &String| fault.strip_prefix("net.yaml:1: zone a: ").expect("its fault").to_owned();
    found.iter().map(bare).collect()
}

/// The canonical form of a field.
fn canonical(field: &str, given: &Json) -> Json {
    let (mut store, document) = (store(), json!({"kind": "zone", "id": "a", field: given}));
    apply(&mut store, &document.to_string()).unwrap_or_else(|faults| panic!("{faults:?}"));
    let (_, object) = store.iter().next().expect("it is there");
    let printed: Json = object.to_json().parse().expect("JSON");
    printed[field].clone()
}

#[test]
fn a_list_needs_no_name() {
    let short = json!(["10.0.0.2", "2001:db8::2"]);
    for given in [&short, &json!({"addresses": short}), &json!({"addresses": short, "cname": null})] {
        assert_eq!(canonical("fallback", given), short);
        assert_eq!(canonical("records", &json!({"www.a": given})), json!({"www.a": short}));
    }
    for given in [
        json!([]),
        json!({"cname": "b"}),
        json!({"zone": {"of": "a"}}),
        json!({"zone": {"of": "a", "note": "n"}}),
    ] {
        assert_eq!(canonical("fallback", &given), given);
    }
    assert_eq!(canonical("plain", &json!({"number": 7})), json!({"number": 7}));
    assert_eq!(canonical("fallback", &Json::Null), Json::Null);
    // The rows are those of the record.
    let mut store = store();
    apply(&mut store, "{kind: zone, id: a, fallback: [10.0.0.2], plain: {text: x}}").unwrap();
    let zone = store.list("zone").next().unwrap();
    assert_eq!(zone.value("fallback").unwrap().to_string(), "([ip\"10.0.0.2\"], none, none)");
    assert_eq!(
        zone.to_yaml(),
        "kind: zone\nid: a\nrecords: {}\nfallback:\n- 10.0.0.2\nwanted: []\nnamed: []\nplain:\n  text: x\n"
    );
}

#[test]
fn a_word_needs_no_name() {
    for (field, given) in [
        ("listed", json!("any")),
        ("listed", json!({"word": "any"})),
        ("worded", json!("any")),
        ("worded", json!({"word": "any", "number": null})),
    ] {
        assert_eq!(canonical(field, &given), json!("any"), "{field}: {given}");
    }
    assert_eq!(canonical("listed", &json!({"ids": [1, 2]})), json!([1, 2]));
    assert_eq!(canonical("worded", &json!({"number": 7})), json!({"number": 7}));
    // What is absent is the list, without elements.
    assert_eq!(canonical("within", &json!({})), json!({"listed": []}));
    for (given, fault) in [
        ("listed: anny", "listed: \"anny\" is not one of `any` and `none`; did you mean `any`?"),
        ("listed: 7", "listed: must be a list or `any` or `none`, not a number"),
        ("listed: {any: 1}", "listed.any: unknown field; valid fields are `ids` and `word`"),
        (
            "worded: [1]",
            "worded: must be `any` or `none` or a mapping with one of `word` and `number`, not a list",
        ),
        ("worded: {}", "worded: must be one of `word` and `number`; it has none"),
    ] {
        assert_eq!(faults(given), [fault], "{given}");
    }
}

#[test]
fn exactly_one_alternative_is_given() {
    let one = "must be one of `addresses`, `cname` and `zone`";
    for (given, fault) in [
        ("fallback: {cname: b, addresses: []}", format!("fallback: {one}; it has `addresses` and `cname`")),
        ("fallback: {}", format!("fallback: {one}; it has none")),
        ("fallback: {cname: null}", format!("fallback: {one}; it has none")),
        ("records: {www.a: {}}", format!("records.www.a: {one}; it has none")),
        ("fallback: {cnam: b}", "fallback.cnam: unknown field; did you mean `cname`?".to_owned()),
        (
            "fallback: {cname: b, other: c}",
            "fallback.other: unknown field; valid fields are `addresses`, `cname` and `zone`".to_owned(),
        ),
        (
            "fallback: b",
            "fallback: must be a list or a mapping with one of `addresses`, `cname` and `zone`, not text"
                .to_owned(),
        ),
        (
            "records: {a: null}",
            format!("records.a: {}, not nothing", one.replacen("be", "be a list or a mapping with", 1)),
        ),
        ("plain: [1]", "plain: must be a mapping with one of `number` and `text`, not a list".to_owned()),
        ("plain: {number: x}", "plain.number: must be a whole number, not text".to_owned()),
    ] {
        assert_eq!(faults(given), [fault], "{given}");
    }
}

#[test]
fn what_is_inside_has_the_path_that_the_document_has() {
    assert_eq!(
        faults("records: {www.a: {cname: a-name-that-is-too-long}, b: [x], c: {addresses: [10.0.0.1, x]}}"),
        [
            "records.b[0]: \"x\" is not an IP address; write it as \"10.0.0.1\" or \"fd00::1\"",
            "records.c.addresses[1]: \"x\" is not an IP address; write it as \"10.0.0.1\" or \"fd00::1\"",
            "records.www.a.cname: \"a-name-that-is-too-long\" must be shorter",
        ]
    );
    let text =
        "kind: zone\nid: a\nfallback:\n  zone:\n    of: b\nnamed:\n- [a,\n  c]\n- label: x\n- ids:\n  - d\n";
    let missing = |path: &str, id: &str| {
        format!("zone a: {path}: zone {id} does not exist; apply it first, or in the same request")
    };
    assert_eq!(
        apply(&mut store(), text),
        Err(vec![
            format!("net.yaml:5: {}", missing("fallback.zone.of", "b")),
            format!("net.yaml:7: {}", missing("named[0]", "c")),
            format!("net.yaml:10: {}", missing("named[2]", "d")),
        ])
    );
}

#[test]
fn alternatives_can_be_unique() {
    let mut store = store();
    let first = "{kind: zone, id: a, records: {x: {cname: m}}, fallback: [10.0.0.1, 10.0.0.2]}";
    apply(&mut store, first).unwrap();
    assert_eq!(
        apply(
            &mut store,
            "{kind: zone, id: b, records: {y: [], z: {cname: m}}, fallback: [10.0.0.3, 10.0.0.2]}"
        ),
        Err(vec![
            "net.yaml:1: zone b: records.z.cname: cname m already belongs to zone a".to_owned(),
            "net.yaml:1: zone b: fallback[1]: addresses 10.0.0.2 already belongs to zone a".to_owned(),
        ])
    );
}

/// A list under a former name can be one value, unless that is a list too.
#[test]
fn one_value_under_a_former_name_is_no_list() {
    assert_eq!(faults("want: [10.0.0.1]").len(), 1);
    assert_eq!(faults("name: {label: x}"), ["name: must be a list, not a mapping"]);
    let page = Kinds::new(vec![zone()]).markdown();
    assert!(page.contains("Formerly `want`.") && page.contains("Formerly `name`."), "{page}");
}

#[test]
fn the_schema_and_the_page_say_which_alternatives_there_are() {
    let kinds = Kinds::new(vec![zone()]);
    let schema = kinds.json_schema();
    let zone = |fallback: Json| json!({"kind": "zone", "id": "a", "fallback": fallback});
    for good in [
        json!(["10.0.0.1"]),
        json!({"addresses": ["10.0.0.1"]}),
        json!({"cname": "b", "addresses": null}),
        json!({"zone": {"of": "a"}}),
        Json::Null,
    ] {
        assert!(accepts(&schema, &zone(good.clone())), "{good}");
    }
    for bad in [
        json!({}),
        json!("b"),
        json!([1]),
        json!({"cname": null}),
        json!({"cname": "b", "addresses": []}),
        json!({"cname": "b", "other": null}),
    ] {
        assert!(!accepts(&schema, &zone(bad.clone())), "{bad}");
    }
    let page = kinds.markdown();
    for line in [
        "| `fallback` | a list; each element: an IP address; or a mapping with one of (`cname`: a text; `zone`: a mapping of fields \
         (`of`: the id of a [`zone`](#zone); `note` (optional): a text)) | none | The fallback. |",
        "| `plain` | a mapping with one of (`number`: a whole number; `text`: a text) | none | The plain. |",
        "- Errors of `fallback.cname`: “must be shorter”.",
        "- Errors of `records.value.cname`: “must be shorter”.",
    ] {
        assert!(page.lines().any(|found| found == line), "{line}\n{page}");
    }
    assert_eq!(name().alternatives(), None);
}
