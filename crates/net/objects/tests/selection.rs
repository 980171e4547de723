//! What a request prunes, and what it says of the fields that change.

use objects::{ObjectStore, Outcome, Selection};
use serde_json::json;

use crate::support::{batch, built_in, empty_store};

const NETWORK: &str = "
{kind: switch, id: blue, tenant: acme}
---
{kind: switch, id: red, labels: {app: web, tier: '1'}}
---
{kind: switch_port, id: vm, switch: blue, labels: {app: web}}
---
{kind: switch_port, id: inner, switch: blue, parent: vm, tag: 7}
---
{kind: switch_port, id: other, switch: red, labels: {app: web}}
";

fn store() -> ObjectStore {
    let mut store = empty_store();
    let mut batch = batch(&built_in());
    batch.add_document("net.yaml", NETWORK);
    let changes = store.plan(batch).unwrap_or_else(|faults| panic!("{faults:#?}"));
    store.commit(&changes);
    store
}

/// What a file of one object prunes of the network, or the faults.
fn pruned(text: &str, selection: Selection) -> Result<Vec<String>, Vec<String>> {
    let mut batch = batch(&built_in());
    batch.add_document("net.yaml", text);
    (batch.prune, batch.selection) = (true, selection);
    let changes =
        store().plan(batch).map_err(|faults| faults.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    let deleted = changes.changes.iter().filter(|change| change.outcome() == Outcome::Deleted);
    Ok(deleted.map(|change| change.key.to_string()).collect())
}

fn texts(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn a_request_prunes_what_is_selected_and_nothing_else() {
    let none = Selection::default;
    let green = "{kind: switch, id: green}";
    let by_kind =
        |kinds: &[&str]| Selection { kinds: kinds.iter().map(|kind| (*kind).into()).collect(), ..none() };
    let ports = ["switch_port inner", "switch_port other", "switch_port vm"];
    assert_eq!(pruned(green, by_kind(&["switch_port"])).unwrap(), ports);
    // All of the labels.
    let labels = |pairs| Selection { labels: texts(pairs), ..none() };
    assert_eq!(
        pruned(green, labels(&[("app", "web"), ("tier", "1")])),
        Err(vec![
            "switch red: is in use by switch_port other; delete the objects that refer to it first"
                .to_owned()
        ])
    );
    let of_red = Selection { labels: texts(&[("app", "web")]), ..by_kind(&["switch_port"]) };
    assert_eq!(pruned("{kind: switch_port, id: vm, switch: blue}", of_red).unwrap(), ["switch_port other"]);
    // What refers to an object of a tenant is of that tenant, over any number of references.
    let of = |owner| Selection { owners: texts(&[("tenant", owner)]), ..none() };
    let acme = ["switch blue", "switch_port inner", "switch_port vm"];
    assert_eq!(pruned(green, of("acme")).unwrap(), acme);
    assert_eq!(pruned(green, of("nobody")).unwrap(), [""; 0]);
    let ports_of_acme = Selection { owners: texts(&[("tenant", "acme")]), ..by_kind(&["switch_port"]) };
    assert_eq!(pruned(green, ports_of_acme).unwrap(), acme[1..]);
    assert_eq!(pruned(green, none()).unwrap().len(), 5);
}

#[test]
fn a_change_is_told_field_by_field_and_what_the_file_leaves_out_is_marked() {
    let fields = |text: &str| {
        let mut batch = batch(&built_in());
        batch.add_document("net.yaml", text);
        let changes = store().plan(batch).unwrap_or_else(|faults| panic!("{faults:#?}"));
        let told = changes.changes[0].fields().into_iter().map(|change| {
            let mark = if change.left_out { " left out" } else { "" };
            format!("{} {} -> {}{mark}", change.field, json!(change.before), json!(change.after))
        });
        told.collect::<Vec<_>>()
    };
    assert_eq!(fields("{kind: switch, id: blue}"), [r#"tenant "acme" -> null left out"#]);
    assert_eq!(fields("{kind: switch, id: blue, tenant: null}"), [r#"tenant "acme" -> null"#]);
    assert_eq!(
        fields(
            "{kind: switch_port, id: inner, switch: blue, parent: vm, tag: 9, port_security: true, labels: {x: y}}"
        ),
        ["port_security false -> true", "tag 7 -> 9", r#"labels.x null -> "y""#]
    );
    assert_eq!(
        fields("{kind: switch, id: red, labels: {tier: '2'}}"),
        [r#"labels.app "web" -> null left out"#, r#"labels.tier "1" -> "2""#]
    );
    // Of what goes: what it had besides its defaults.
    assert_eq!(
        fields("{kind: switch_port, id: other, delete: true}"),
        [r#"switch "red" -> null"#, r#"labels.app "web" -> null"#]
    );
    assert_eq!(fields("{kind: switch, id: green, tenant: acme}"), [""; 0]);
}
