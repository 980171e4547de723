//! Changes of some fields of an object.

use objects::{Amendment, ObjectKey, ObjectStore};

use crate::support::{batch, built_in, empty_store};

const PORT: &str = "
{kind: switch, id: blue}
---
{kind: switch_port, id: p, switch: blue, port_security: true, addresses: [{mac: '02:00:00:00:00:01'}], labels: {a.b: c}}
---
{kind: transport_node, id: hv1, ip: 172.16.0.1, bridge_mappings: {office: br-office}}
";

fn store() -> ObjectStore {
    let mut store = empty_store();
    let mut batch = batch(&built_in());
    batch.add_document("net.yaml", PORT);
    let changes = store.plan(batch).unwrap_or_else(|faults| panic!("{faults:#?}"));
    store.commit(&changes);
    store
}

/// The object after `FIELD=VALUE`s, or without a value `FIELD`s, or the faults.
fn amended(kind: &str, id: &str, fields: &[&str]) -> Result<String, String> {
    let store = store();
    let object = store.get(&ObjectKey::new(kind, id)).cloned().expect("it is there");
    let amendment = |text: &&str| match text.split_once('=') {
        Some((field, value)) => Amendment { field: field.to_owned(), value: Some(value.to_owned()) },
        None => Amendment { field: (*text).to_owned(), value: None },
    };
    let mut batch = batch(&built_in());
    batch.amend(&object, &fields.iter().map(amendment).collect::<Vec<_>>());
    let changes = store
        .plan(batch)
        .map_err(|faults| faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))?;
    Ok(changes.changes[0].after.as_ref().expect("it stays").to_json())
}

#[test]
fn other_fields_stay_as_they_are() {
    let port = |fields: &[&str]| amended("switch_port", "p", fields).unwrap();
    let whole = port(&[]);
    assert_eq!(
        port(&["port_security=false"]),
        whole.replace("\"port_security\":true", "\"port_security\":false")
    );
    let addresses = "addresses=[{mac: \"02:00:00:00:00:02\", ips: [10.0.0.1]}]";
    let address = "{\"mac\":\"02:00:00:00:00:01\",\"ips\":[]}";
    assert!(whole.contains(address), "{whole}");
    let other = "{\"mac\":\"02:00:00:00:00:02\",\"ips\":[\"10.0.0.1\"]}";
    assert_eq!(port(&[addresses]), whole.replace(address, other));
    assert_eq!(port(&["addresses"]), whole.replace(address, ""));
    // The last of several counts, and null is no value.
    assert_eq!(port(&[addresses, "addresses=~"]), port(&["addresses"]));
    assert_eq!(port(&["tag=7", "tag"]), whole);
    // A key of a label may have dots.
    assert_eq!(port(&["labels.a.b=d"]), whole.replace("\"c\"", "\"d\""));
    assert!(port(&["labels.x=y"]).contains(r#""labels":{"a.b":"c","x":"y"}"#));
    assert!(!port(&["labels.a.b"]).contains("labels"));
    assert_eq!(port(&["labels"]), port(&["labels.a.b"]));
    // A member of a mapping.
    let node = |fields: &[&str]| amended("transport_node", "hv1", fields).unwrap();
    assert!(
        node(&["bridge_mappings.plant=br-plant"]).contains(r#"{"office":"br-office","plant":"br-plant"}"#)
    );
    // A former name means the field that is there by the name of today.
    assert!(node(&["role=gateway"]).contains(r#""roles":["gateway"]"#));
    assert!(node(&["bridge_mappings.office"]).contains(r#""bridge_mappings":{}"#));
}

#[test]
fn what_cannot_be_is_refused_with_the_field() {
    let refused = |fields: &[&str]| amended("switch_port", "p", fields).unwrap_err();
    let unknown = "switch_port p: port_securty: unknown field; did you mean `port_security`?";
    assert_eq!(refused(&["port_securty=true"]).trim_start_matches("request: object 1: "), unknown);
    assert_eq!(refused(&["port_securty"]).trim_start_matches("request: object 1: "), unknown);
    for (field, why) in [
        ("id=q", "id: says which object this is, so it cannot change; make another object with `weft apply`"),
        (
            "kind=switch",
            "kind: says which object this is, so it cannot change; make another object with `weft apply`",
        ),
        ("delete=true", "delete: is no field of an object; `weft delete` deletes it"),
        ("state.mtu=1", "state.mtu: is what the rules say of the object, so it cannot be set"),
        ("revision=1", "revision: is the transaction that changed the object last, so it cannot be set"),
        ("switch.id=red", "switch.id: switch is text, which has no named parts; give it as a whole"),
        ("tag=1\n---\n2", "tag: \"1\\n---\\n2\" is more than one value"),
        ("labels.x=[1]", "labels.x: must be text, not a list"),
    ] {
        assert_eq!(refused(&[field]), format!("switch_port p: {why}"));
    }
    let broken = refused(&["addresses=["]);
    assert!(broken.starts_with("switch_port p: addresses: \"[\" "), "{broken}");
    // All at once.
    assert_eq!(refused(&["id=q", "switch.id=red"]).lines().count(), 2);
    assert_eq!(refused(&["switch"]), "switch_port p: switch: is missing");
    assert!(
        refused(&["switch=red"])
            .ends_with("switch red does not exist; apply it first, or in the same request")
    );
}
