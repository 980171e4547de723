//! Wirings that are refused before anything runs.

use crate::support::{compile, wirings};
use nlog_hooks::{HOOKS, Wired, Wiring};

const PROGRAM: &str = "
    input table cable(a: int, b: int);
    input table component(node: int, component: int) key(node);
    input table by_component(node: int, component: int) key(component);
    input table stable(a: int, b: int);
    input table keyed(a: int, b: int) key(a);
    input table whole(a: int, b: int) key(b, a);
    input table names(a: string, b: string);
    input table other(a: int, b: int);
    table inside(a: int, b: int) key(a, b);
    output table link(a: int, b: int);
    output table three(a: int, b: int, c: int);
    output table reach(a: int, b: int);
    output table back(a: int, b: int);
    link(a, b) :- cable(a, b);
    inside(a, c) :- component(a, c);
    reach(a, b) :- inside(a, b), other(a, b);
    back(a, b) :- stable(a, b);
    default reach2(a, b) :- back(a, b);
    reach2(a, b) :- names(_, _), component(a, b);
    output table reach2(a: int, b: int) key(a);
    three(a, b, c) :- cable(a, b), cable(b, c), whole(a, c), keyed(a, b), by_component(a, b);
";

/// The error of wirings that do not fit.
fn refusal(texts: &[&str]) -> String {
    let program = compile(PROGRAM);
    Wired::new(&program, &wirings(texts)).map_or_else(|error| error.to_string(), |_| "nothing".to_owned())
}

#[test]
fn a_wiring_is_the_text_that_it_prints() {
    for text in ["connected_components:link:component", "hysteresis:link:stable:fall=500,rise=1000"] {
        assert_eq!(text.parse::<Wiring>().expect("it is one").to_string(), text);
    }
}

#[test]
fn what_is_no_wiring_is_told_what_one_is() {
    let refusals = [
        ("", "`` is not a hook: write HOOK:FROM:TO"),
        ("hysteresis:up", "`hysteresis:up` is not a hook: write HOOK:FROM:TO"),
        ("hysteresis::b:rise=1,fall=1", "is not a hook: write"),
        ("hysteresis:a:b:rise", "is not a hook: write"),
        ("histeresis:a:b", "unknown hook `histeresis`; the hooks are connected_components, hysteresis"),
        (
            "hysteresis:a:b:rise=1",
            "hook hysteresis: missing setting fall; settings: rise=NUMBER (milliseconds for which",
        ),
        ("hysteresis:a:b:rise=-1,fall=1", "rise=-1 is not a non-negative"),
        ("hysteresis:a:b:rise=1,rise=1,fall=1", "duplicate setting rise"),
        ("hysteresis:a:b:rise=1,fall=1,raise=2", "there is no setting `raise`"),
        ("connected_components:a:b:rise=1", "there is no setting `rise`; settings: none"),
    ];
    for (text, wanted) in refusals {
        let error = text.parse::<Wiring>().expect_err("it is none").to_string();
        assert!(error.contains(wanted), "{error}");
    }
}

#[test]
fn tables_have_to_be_there_and_to_fit() {
    let refusals = [
        ("connected_components:link:component", "nothing"),
        ("connected_components:link:stable", "nothing"),
        ("connected_components:lnk:component", "the program has no table `lnk`"),
        ("connected_components:cable:component", "declare `output table cable`"),
        ("connected_components:inside:component", "declare `output table inside`"),
        ("connected_components:link:reach", "declare `input table reach`"),
        ("connected_components:three:component", "three has 3 columns, but a table of edges has 2"),
        (
            "connected_components:link:names",
            "column a of type int and column a of type string must have the same type",
        ),
        (
            "connected_components:link:by_component",
            "many nodes have the same component; declare the key node",
        ),
        ("hysteresis:link:stable:rise=1,fall=1", "nothing"),
        ("hysteresis:link:whole:rise=1,fall=1", "nothing"),
        ("hysteresis:link:keyed:rise=1,fall=1", "keyed has a key, but a new row can coexist"),
        (
            "hysteresis:link:names:rise=1,fall=1",
            "link has the columns (int, int) but names has (string, string)",
        ),
        (
            "hysteresis:three:stable:rise=1,fall=1",
            "three has the columns (int, int, int) but stable has (int, int)",
        ),
    ];
    for (text, wanted) in refusals {
        let error = refusal(&[text]);
        assert!(error.contains(wanted), "{text}: {error}");
    }
    assert!(
        refusal(&["hysteresis:link:stable:rise=1,fall=1", "connected_components:link:stable"])
            .contains("connected_components:link:stable fill the same table"),
    );
}

#[test]
fn a_hook_that_feeds_itself_is_shown_the_way() {
    let through_rules = refusal(&["connected_components:reach:component"]);
    assert!(through_rules.contains(": component → inside → reach → component;"), "{through_rules}");
    let through_hidden = refusal(&["hysteresis:reach2:stable:rise=0,fall=0"]);
    assert!(through_hidden.contains(": stable → back → reach2 → stable;"), "{through_hidden}");
    let through_hooks = ["hysteresis:reach:stable:rise=1,fall=1", "connected_components:back:component"];
    let wanted = ": component → inside → reach → stable → back → component;";
    let said = refusal(&through_hooks);
    assert!(said.contains(wanted), "{said}");
    assert_eq!(refusal(&[through_hooks[1], through_hooks[0]]), said, "the order of options does not show");
    assert_eq!(refusal(&through_hooks[..1]), "nothing", "one of them alone has no way back");
}

#[test]
fn the_registry_is_in_order_and_says_what_each_is() {
    assert!(HOOKS.windows(2).all(|pair| pair[0].name < pair[1].name));
    assert!(HOOKS.iter().all(|kind| !kind.summary.is_empty() && !kind.shape.is_empty()));
}
