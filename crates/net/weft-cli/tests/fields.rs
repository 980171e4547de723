//! `weft explain-fields`: what fields a kind has, of a controller or of the built-in rules.

use crate::get::controller;
use crate::support::{Folder, Outcome};

fn asked(folder: &Folder, words: &[&str]) -> Outcome {
    let nowhere = format!("unix:{}", folder.path("none.sock").display());
    folder.weft(&[&["explain-fields", "--controller", &nowhere], words].concat())
}

#[test]
fn fields_of_a_controller_are_shown_with_type_default_and_meaning() {
    let controller = controller();
    let shown = controller.weft(&["explain-fields", "desks"]);
    let wanted = "desk

A desk.

Fields:
  below <text>, default \"\"
      The host below it.
  id <text>, required
      Unique among the ids of name space `desk`.
  labels <mapping of names to text>, optional
      Texts by key, for rules.
  number <number>, default 1
      Its number.
  revision <number from 0>, optional
      The transaction that changed the object last: the object is written only if that is so. With
      0, only if the object does not exist.
  sockets <list of IP address>, default []
      Its sockets.
  switch <id of a switch>, required
      Its switch.
";
    assert_eq!(shown.has_status(0).stdout, wanted);
    let one = controller.weft(&["explain-fields", "desk.sockets"]);
    assert_eq!(one.has_status(0).stdout, "desk.sockets <list of IP address>, default []\n\nIts sockets.\n");
    let json = controller.weft(&["explain-fields", "desk.number", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json.has_status(0).stdout).unwrap();
    assert_eq!((&json["default"], &json["description"]), (&1.into(), &"Its number.".into()));
    let kinds = controller.weft(&["explain-fields"]);
    assert!(kinds.has_status(0).stdout.contains("desk            A desk\n"), "{}", kinds.stdout);
    for (path, told) in [
        ("deks", "there is no kind \"deks\"; did you mean `desk`?"),
        ("desk.numbre", "desk has no field \"numbre\"; did you mean `number`?"),
        ("desk.number.more", "desk.number has no field \"more\"; it has no fields"),
        ("../status", "there is no kind \"\"; the kinds are acl, "),
        ("a b", "there is no kind \"a b\"; the kinds are acl, "),
    ] {
        let outcome = controller.weft(&["explain-fields", path]);
        assert!(outcome.has_status(1).stderr.contains(told), "{path}: {}", outcome.stderr);
    }
}

#[test]
fn without_a_controller_they_are_those_of_the_built_in_rules() {
    let folder = Folder::new();
    let fields = asked(&folder, &["acl.from.ports"]);
    assert!(
        fields.has_status(0).stderr.contains("none.sock; this is of the built-in rules"),
        "{}",
        fields.stderr
    );
    assert!(fields.stdout.starts_with("acl.from.ports <mapping>, optional\n"), "{}", fields.stdout);
    let acl = asked(&folder, &["acl"]);
    for line in [
        "  action <drop|reject|allow_related|allow|pass>, required\n",
        "  tier <number from 0 to 3>, default 0\n",
        "  switch <id of a switch>, optional\n      All ports of this switch.",
        "  log <true|false>, default false\n",
    ] {
        assert!(acl.has_status(0).stdout.contains(line), "{line}{}", acl.stdout);
    }
    let filter = asked(&folder, &["acl.match"]);
    assert!(
        filter.has_status(0).stdout.contains("  tcp_dst <number or text>, optional\n"),
        "{}",
        filter.stdout
    );
    let port = asked(&folder, &["switch-ports.addresses"]);
    assert!(port.has_status(0).stdout.contains("  mac <MAC address>, required\n"), "{}", port.stdout);
    let kinds = asked(&folder, &["--json"]);
    assert!(
        kinds.has_status(0).stdout.contains("{\"kind\":\"acl\",\"summary\":\"An access"),
        "{}",
        kinds.stdout
    );
}

/// Every field of every kind is shown, in lines that fit, and each path that is completed can be asked for.
#[test]
fn every_field_of_the_built_in_rules_can_be_asked_for() {
    let folder = Folder::new();
    let nowhere = format!("unix:{}", folder.path("none.sock").display());
    let offered = |typed: &str| -> Vec<String> {
        let outcome = folder.weft(&["complete", "--", "explain-fields", "--controller", &nowhere, typed]);
        let value = |line: &str| line.split('\t').next().unwrap_or_default().to_owned();
        outcome.has_status(0).lines().into_iter().map(value).collect()
    };
    let kinds = offered("");
    let rules = weft_core::Rules::built_in().unwrap();
    assert_eq!(kinds, rules.kinds().names().map(str::to_owned).collect::<Vec<_>>());
    let acl = offered("acl.fr");
    assert_eq!(acl, ["acl.from"]);
    assert_eq!(offered("acl.from.port"), ["acl.from.port_group", "acl.from.ports"]);
    for kind in rules.kinds().iter() {
        let shown = asked(&folder, &[kind.name()]);
        assert!(
            shown.has_status(0).stdout.lines().all(|line| line.chars().count() <= 100),
            "{}",
            shown.stdout
        );
        for field in &kind.declared().fields {
            let line = format!("\n  {} <", field.name);
            assert!(
                shown.stdout.contains(&line) && !shown.stdout.contains("<value>"),
                "{line}{}",
                shown.stdout
            );
        }
    }
}
