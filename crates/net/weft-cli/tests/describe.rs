//! `weft describe`: an object in full.

use serde_json::{Value, json};

use crate::get::{apply, controller};

#[test]
fn an_object_is_described_with_all_fields_its_revision_and_what_is_known_of_it() {
    let controller = controller();
    let describe = |arguments: &[&str]| {
        controller.weft(&[&["describe"], arguments].concat()).has_status(0).stdout.clone()
    };
    let text = describe(&["desk", "a"]);
    let (first, rest) = text.split_once('\n').unwrap();
    assert!(first.starts_with("desk a (since transaction 1, by weft apply at "), "{text}");
    assert!(first.ends_with("): A desk."), "{text}");
    let wanted = "    labels:\n      app: web\n      tier: one\n    sockets: []\n    switch: blue\n    number: 1\n    below: hv1\n\
                  Transaction 1 created it, and none has changed it since.\nnode: hv1\n";
    assert!(rest.starts_with(wanted), "{text}");
    assert!(rest.contains("\nIt has no problem, and the rules know of nothing that it lacks.\n"), "{text}");
    assert_eq!(rest.matches("below").count(), 1, "each field once: {text}");

    apply(&controller, "{kind: desk, id: a, switch: red, number: 13}");
    let text = describe(&["desks/a"]);
    assert!(
        text.contains("\nTransaction 1 created it, and transaction 2 was the last to change it.\n"),
        "{text}"
    );
    assert!(text.contains("\nproblem: unlucky: number 13 brings bad luck to whoever sits there\n"), "{text}");

    let described: Value = serde_json::from_str(&describe(&["desk", "a", "--json"])).unwrap();
    assert_eq!(described["object"]["switch"], "red");
    assert_eq!((&described["created"], &described["changed"]), (&json!(1), &json!(2)));
    assert_eq!(described["problems"], json!(["number 13 brings bad luck to whoever sits there"]));
    assert_eq!(described["explanation"]["id"], "a", "{described}");
}

#[test]
fn what_cannot_be_described_is_told() {
    let controller = controller();
    for (arguments, status, told) in [
        (&["desk", "nobody"][..], 1, "desk nobody does not exist"),
        (&["dessk", "a"], 1, "did you mean `desk`?"),
        (&["desk"], 2, "weft describe KIND ID"),
    ] {
        let outcome = controller.weft(&[&["describe"], arguments].concat());
        assert!(outcome.has_status(status).stderr.contains(told), "{arguments:?}: {}", outcome.stderr);
    }
}
