//! What rules refuse of the objects of a request, and the words of other systems.

use objects::{ChangeSet, Faulty, ObjectKey, ObjectStore, Outcome, Refusal, Spelling};

use crate::support::{batch, built_in, empty_store};

const STORED: &str = "
{kind: switch, id: blue}
---
{kind: switch_port, id: old, switch: blue, addresses: [{mac: '02:00:00:00:00:01', ips: [10.0.0.1]}]}
";

fn store() -> ObjectStore {
    let mut store = empty_store();
    let changes = store.plan_document("stored.yaml", STORED).expect("objects without fault");
    store.commit(&changes);
    store
}

fn refusal(id: &str, path: &str, text: &str) -> Refusal {
    Refusal { key: ObjectKey::new("switch_port", id), path: path.to_owned(), text: text.to_owned() }
}

fn lines(changes: &ChangeSet, refusals: &[Refusal]) -> Vec<String> {
    changes.refused(refusals).iter().map(ToString::to_string).collect()
}

const NEW: &str = "
{kind: switch_port, id: new, switch: blue, addresses: [{mac: '02:00:00:00:00:02', ips: [10.0.0.2, 'fe80::9']}]}
---
{kind: switch_port, id: newer, switch: blue, addresses: [{mac: '02:00:00:00:00:03', ips: [10.0.0.3]}]}
";

#[test]
fn o6_a_refusal_names_the_object_of_the_file_and_the_field_with_the_address() {
    let changes = store().plan_document("net.yaml", NEW).unwrap();
    assert_eq!(
        lines(&changes, &[refusal("old", "addresses", "gives fe80::9, which belongs to switch_port new.")]),
        [
            "net.yaml:2: switch_port new: addresses[0].ips[1]: contradicts switch_port old, which is in force: addresses: gives fe80::9, \
             which belongs to switch_port new."
        ]
    );
    // The field of an object in the file is found by the first address of the text that it has; otherwise it stays as the rule says.
    assert_eq!(
        lines(
            &changes,
            &[
                refusal("newer", "addresses", "10.9.9.9 is not 10.0.0.3"),
                refusal("newer", "tag", "10.0.0.3 is odd")
            ]
        ),
        [
            "net.yaml:4: switch_port newer: addresses[0].ips[0]: 10.9.9.9 is not 10.0.0.3",
            "net.yaml:4: switch_port newer: tag: 10.0.0.3 is odd"
        ]
    );
    // Nothing of the file is named.
    assert_eq!(lines(&changes, &[refusal("old", "tag", "is odd")]), ["switch_port old: tag: is odd"]);
}

#[test]
fn o6_a_contradiction_of_two_objects_is_told_once() {
    let changes = store().plan_document("net.yaml", NEW).unwrap();
    let other = |id: &str, other: &str, ip: &str| {
        refusal(id, "addresses", &format!("{ip} overlaps switch_port {other}"))
    };
    // Both in the file: at the first. One of them: at that one.
    assert_eq!(
        lines(&changes, &[other("newer", "new", "10.0.0.2"), other("new", "newer", "10.0.0.2")]),
        ["net.yaml:4: switch_port newer: addresses: 10.0.0.2 overlaps switch_port new"]
    );
    assert_eq!(
        lines(&changes, &[other("old", "new", "10.0.0.2"), other("new", "old", "10.0.0.2")]),
        ["net.yaml:2: switch_port new: addresses[0].ips[0]: 10.0.0.2 overlaps switch_port old"]
    );
    // Two contradictions of the same objects are two.
    let two = [other("newer", "new", "10.0.0.2"), other("new", "newer", "10.0.0.3")];
    assert_eq!(lines(&changes, &two).len(), 2);
}

#[test]
fn o6_what_remains_of_a_faulty_file_has_neither_the_faulty_objects_nor_what_they_replace() {
    let store = store();
    let text = "
{kind: switch_port, id: old, switch: none}
---
{kind: switch_port, id: new, switch: blue, tag: many}
---
{kind: switch_port, id: newer, switch: blue}
";
    let mut faulty: Faulty = store.plan_document_or_rest("net.yaml", text).unwrap_err();
    let rest = faulty.rest().unwrap();
    let outcomes: Vec<(String, Outcome)> =
        rest.changes.iter().map(|change| (change.key.to_string(), change.outcome())).collect();
    assert_eq!(
        outcomes,
        [
            ("switch_port newer".to_owned(), Outcome::Created),
            ("switch_port old".to_owned(), Outcome::Deleted)
        ]
    );
    // Only refusals of the rest are faults of the file, in its order.
    let refusals =
        rest.refused(&[refusal("newer", "switch", "is full"), refusal("old", "switch", "is full")]);
    faulty.refuse(refusals);
    let faults: Vec<String> = faulty.into_faults().iter().map(ToString::to_string).collect();
    assert_eq!(
        faults,
        [
            "net.yaml:2: switch_port old: switch: switch none does not exist; apply it first, or in the same request",
            "net.yaml:4: switch_port new: tag: must be a number from 1 to 4094, not text",
            "net.yaml:6: switch_port newer: switch: is full",
        ]
    );
}

#[test]
fn o6_an_object_that_cannot_be_read_leaves_nothing_to_say() {
    let text = "{kind: switch, id: red}\n---\n{kind: switch}\n";
    let faulty = store().plan_document_or_rest("net.yaml", text).unwrap_err();
    assert!(faulty.rest().is_none(), "the nameless object may replace what contradicts the other");
}

#[test]
fn o7_words_of_other_systems_have_hints_and_kinds_on_a_command_line_many_forms() {
    let spelling = |of: &str, other: &str, here: &str| Spelling {
        of: of.to_owned(),
        other: other.to_owned(),
        here: here.to_owned(),
    };
    let kinds = built_in().with_spellings([
        spelling("switch", "owner", "tenant"),
        spelling("switch", "mac", "ports have MAC addresses, not switches"),
    ]);
    let fault = |text: &str| {
        let mut batch = objects::Batch::new(&kinds, objects::Cancel::default());
        batch.add_document("net.yaml", text);
        ObjectStore::new(&kinds).plan(batch).unwrap_err().swap_remove(0).to_string()
    };
    assert_eq!(
        fault("{kind: switch, id: a, Owner: b}"),
        "net.yaml:1: switch a: Owner: unknown field; did you mean `tenant`?"
    );
    assert_eq!(
        fault("{kind: switch, id: a, mac: b}"),
        "net.yaml:1: switch a: mac: unknown field; ports have MAC addresses, not switches"
    );
    for wrong in ["Switches", "switches", "SWITCH"] {
        assert_eq!(
            fault(&format!("{{kind: {wrong}, id: a}}")),
            format!("net.yaml:1: {wrong} a: kind: unknown kind; did you mean `switch`?")
        );
    }
    let find = |name: &str| kinds.forgiving(name).map(|kind| kind.name().to_owned());
    for name in ["switch-port", "Switch_Ports", "switch_port", "SWITCH-PORTS"] {
        assert_eq!(find(name).unwrap(), "switch_port", "{name}");
    }
    assert_eq!(find("switches").unwrap(), "switch");
    assert!(find("swtich").unwrap_err().to_string().contains("did you mean `switch`?"));
    // A batch of the plain kinds has no hints.
    let mut plain = batch(&built_in());
    plain.add_document("net.yaml", "{kind: switch, id: a, owner: b}");
    assert!(
        empty_store().plan(plain).unwrap_err()[0].to_string().contains("unknown field; valid fields are")
    );
}
