//! `weft apply`, `weft set` and `weft delete` say what they change, and do nothing that may not be meant without a question.

use serde_json::{Value, json};

use crate::routes::Controller;

const NETWORK: &str = "
{kind: switch, id: front, acl_default: drop, tenant: acme}
---
{kind: switch_port, id: p, switch: front, port_security: true, addresses: [{mac: '02:00:00:00:00:01', ips: [10.0.0.1]}], labels: {app: web}}
---
{kind: switch, id: back}
---
{kind: switch_port, id: q, switch: back, labels: {app: web}}
";

/// A controller with the network.
fn controller() -> Controller {
    let controller = Controller::start();
    controller.folder.write("net.yaml", NETWORK);
    let applied = controller.weft(&["apply", "-f", &path(&controller, "net.yaml")]);
    let created =
        "switch front: created\nswitch_port p: created\nswitch back: created\nswitch_port q: created\n";
    assert_eq!(applied.has_status(0).stdout, created);
    controller
}

fn path(controller: &Controller, name: &str) -> String {
    controller.folder.path(name).display().to_string()
}

fn all(controller: &Controller) -> String {
    controller.weft(&["get", "all", "--json"]).has_status(0).stdout.clone()
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn what_a_file_changes_is_told_field_by_field() {
    let controller = controller();
    controller.folder.write("port.yaml", "{kind: switch_port, id: p, switch: front, enabled: false}");
    controller.folder.write("switch.yaml", "{kind: switch, id: front, tenant: acme, acl_default: allow}");
    let before = all(&controller);
    let files = [path(&controller, "port.yaml"), path(&controller, "switch.yaml")];
    let apply = ["apply", "-f", &files[0], "-f", &files[1]];
    let told = "switch_port p: updated\n  addresses: [{ips: [10.0.0.1], mac: \"02:00:00:00:00:01\"}] -> [] (not in the file)\n  \
        port_security: true -> false (not in the file)\n  enabled: true -> false\n  \
        labels.app: web -> none (not in the file)\n\
        switch front: updated\n  acl_default: drop -> allow\n";
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let tried = controller.weft(&[&apply[..], &["--dry-run"]].concat());
    assert_eq!(sorted(&tried.has_status(0).stdout), sorted(told));
    assert_eq!(tried.stderr.lines().last(), Some("dry run: nothing was changed"));
    assert_eq!(all(&controller), before);
    assert_eq!(sorted(&controller.weft(&apply).has_status(0).stdout), sorted(told));

    let deleted = controller.weft(&["delete", "switch", "back", "--json"]);
    assert_eq!(deleted.has_status(1).stdout.lines().count(), 1, "it is in use");
    let deleted = controller.weft(&["delete", "switch_port", "q"]);
    assert_eq!(deleted.has_status(0).stdout, "switch_port q: deleted\n  was switch: back, labels.app: web\n");
    let answer = json_of(&controller.weft(&["delete", "switch", "back", "--json"]).has_status(0).stdout);
    let switch = &answer["objects"][0];
    assert_eq!((&switch["outcome"], &switch["before"]["id"]), (&json!("deleted"), &json!("back")));
    assert_eq!(switch["before"]["acl_default"], json!("allow"), "the whole object, to be applied again");
    controller.folder.write("front.yaml", "{kind: switch, id: front, tenant: acme, labels: {a: b}}");
    let front = path(&controller, "front.yaml");
    let answer = json_of(&controller.weft(&["apply", "-f", &front, "--json"]).has_status(0).stdout);
    let wanted = json!([{"kind": "switch", "id": "front", "outcome": "updated", "fields": [
        {"field": "labels.a", "before": null, "after": "b", "left_out": false}
    ]}]);
    assert_eq!(answer["objects"], wanted);
}

#[test]
fn the_problems_of_a_change_are_told_and_strict_refuses_it() {
    let controller = controller();
    let apply = |name: &str, text: &str, arguments: &[&str]| {
        controller.folder.write(name, text);
        let file = path(&controller, name);
        controller.weft(&[&["apply", "-f", &file], arguments].concat())
    };
    apply("inner.yaml", "{kind: switch_port, id: inner, switch: front, parent: p, tag: 7}", &[])
        .has_status(0);
    let off = "{kind: switch_port, id: p, switch: front, enabled: false}";
    let before = all(&controller);
    let refused = apply("off.yaml", off, &["--strict"]);
    let (first, problem) = refused.has_status(1).stderr.trim_end().split_once('\n').unwrap();
    assert_eq!(first, "error: the change brings 1 new problem; nothing was applied");
    assert!(problem.starts_with("switch_port inner: "), "{problem}");
    let set = |arguments: &[&str]| controller.weft(&[&["set", "switch_port", "p"], arguments].concat());
    assert_eq!(set(&["enabled=false", "--strict"]).has_status(1).stderr, refused.stderr);
    assert_eq!((all(&controller), refused.stdout.as_str()), (before, ""));

    let told = format!("new problem: {problem}\n");
    let tried = set(&["enabled=false", "--dry-run"]).has_status(0).stderr.clone();
    assert!(tried.starts_with(&told) && tried.ends_with("dry run: nothing was changed\n"), "{tried}");
    let made = set(&["enabled=false"]).has_status(0).stderr.clone();
    assert_eq!(made + "dry run: nothing was changed\n", tried);
    // It is there already.
    apply("back.yaml", "{kind: switch, id: back, labels: {a: b}}", &["--strict"]).has_status(0);
    let answer = json_of(&set(&["enabled=", "--json"]).has_status(0).stdout);
    let resolved = answer["resolved_problems"].as_array().unwrap().iter();
    let told = resolved.map(|told| ["kind", "id", "text", "code"].map(|name| told[name].as_str().unwrap()));
    let told = told.map(|[kind, id, text, code]| (format!("{kind} {id}: {text}"), code));
    assert_eq!(told.collect::<Vec<_>>(), [(problem.to_owned(), "parent-disabled")]);
}

#[test]
fn a_field_is_set_and_the_others_stay() {
    let controller = controller();
    let set = |arguments: &[&str]| controller.weft(&[&["set", "switch_port", "p"], arguments].concat());
    assert_eq!(
        set(&["enabled=false"]).has_status(0).stdout,
        "switch_port p: updated\n  enabled: true -> false\n"
    );
    let addresses = "addresses=[{mac: '02:00:00:00:00:02'}]";
    let told = "switch_port p: updated\n  addresses: [{ips: [10.0.0.1], mac: \"02:00:00:00:00:01\"}] -> [{ips: [], mac: \"02:00:00:00:00:02\"}]\n  \
        enabled: false -> true\n  labels.app: web -> db\n";
    assert_eq!(set(&[addresses, "enabled=", "labels.app=db"]).has_status(0).stdout, told);
    let told = "switch_port p: updated\n  labels.app: db -> none\n";
    assert_eq!(set(&["--unset", "labels.app", "--unset", "enabled"]).has_status(0).stdout, told);
    assert_eq!(set(&["enabled=true"]).has_status(0).stdout, "switch_port p: unchanged\n");
    let port = json_of(&controller.weft(&["get", "switch_port", "p", "--json"]).has_status(0).stdout);
    assert_eq!((&port["port_security"], &port["switch"]), (&json!(true), &json!("front")));

    let before = all(&controller);
    for (arguments, status, why) in [
        (&["enabld=false"][..], 1, "error: switch_port p: enabld: unknown field; did you mean `enabled`?\n"),
        (&["enabld="], 1, "error: switch_port p: enabld: unknown field; did you mean `enabled`?\n"),
        (
            &["enabled=perhaps", "tag=5"],
            1,
            "error: switch_port p: enabled: must be `true` or `false`, not text\n",
        ),
        (
            &["enabled"],
            2,
            "error: \"enabled\" is no FIELD=VALUE; to give a field its default, write FIELD=\n",
        ),
        (
            &["switch=nowhere"],
            1,
            "error: switch_port p: switch: switch nowhere does not exist; apply it first, or in the same request\n",
        ),
    ] {
        assert_eq!(set(arguments).has_status(status).stderr, why);
    }
    let absent = controller.weft(&["set", "switch_port", "nobody", "enabled=false"]);
    assert_eq!(
        absent.has_status(1).stderr,
        "error: switch_port nobody: does not exist; `weft apply` creates it\n"
    );
    assert_eq!(all(&controller), before);
}

#[test]
fn much_is_pruned_only_if_that_is_meant_and_only_what_is_selected() {
    let controller = controller();
    let ports: Vec<String> =
        (0..20).map(|number| format!("{{kind: switch_port, id: m{number:02}, switch: back}}")).collect();
    controller.folder.write("more.yaml", ports.join("\n---\n"));
    controller.weft(&["apply", "-f", &path(&controller, "more.yaml")]).has_status(0);
    controller.folder.write("one.yaml", "{kind: switch, id: back}");
    let file = path(&controller, "one.yaml");
    let before = all(&controller);
    let prune =
        |arguments: &[&str]| controller.weft(&[&["apply", "--prune", "-f", &file], arguments].concat());
    let refused = prune(&[]);
    assert_eq!(
        refused.has_status(1).stderr,
        "error: 23 of 24 objects would be pruned: 1 switch, 22 switch_port\n\
         nothing was changed; give --yes if this is meant, or let --kind, --label or --tenant say what may be pruned\n"
    );
    assert_eq!(all(&controller), before);
    let tried = prune(&["--dry-run"]);
    assert_eq!(
        tried.has_status(0).stderr,
        "deleted 23 of 24 objects: 1 switch, 22 switch_port\ndry run: nothing was changed\n"
    );
    assert_eq!(all(&controller), before);
    // Selections.
    let labelled = prune(&["--kind", "switch_port", "--label", "app=web"]);
    assert_eq!(labelled.has_status(0).stderr, "deleted 2 of 24 objects: 2 switch_port\n");
    assert!(
        labelled.stdout.contains("switch_port p: deleted\n  was switch: front, addresses: "),
        "{}",
        labelled.stdout
    );
    assert_eq!(prune(&["--tenant", "acme"]).has_status(0).stderr, "deleted 1 of 22 objects: 1 switch\n");
    assert_eq!(prune(&["--tenant", "acme"]).has_status(0).stdout, "switch back: unchanged\n");
    assert!(prune(&["--kind", "swich"]).has_status(1).stderr.contains("did you mean `switch`?"));
    let alone = controller.weft(&["apply", "-f", &file, "--kind", "acl"]);
    assert!(alone.has_status(2).stderr.contains("--prune"), "{}", alone.stderr);
    let wrong = prune(&["--label", "app"]);
    assert!(wrong.has_status(2).stderr.contains("write it as KEY=VALUE"), "{}", wrong.stderr);
    let all_gone = prune(&["--yes"]);
    assert_eq!(all_gone.has_status(0).stderr, "deleted 20 of 21 objects: 20 switch_port\n");
    assert!(
        all_gone.stdout.ends_with("and 10 deleted, 1 unchanged (--json lists all)\n"),
        "{}",
        all_gone.stdout
    );
}

#[test]
fn a_diff_tells_the_flows_of_each_host() {
    let controller = controller();
    controller
        .folder
        .write("node.yaml", "{kind: transport_node, id: hv1, ip: 172.16.0.1, ovsdb: 'tcp:127.0.0.1:1'}");
    let file = path(&controller, "node.yaml");
    let before = all(&controller);
    let told = controller.weft(&["diff", "-f", &file]);
    let text = told.has_status(0).stdout.clone();
    assert!(text.starts_with("transport_node hv1: created\n1 switch changes; flows: "), "{text}");
    assert!(text.contains("\nhv1\n  table 1: flows: ") && text.contains(" new by "), "{text}");
    assert!(text.contains("\n    priority="), "{text}");
    assert_eq!(told.stderr.lines().last(), Some("dry run: nothing was changed"));
    let json = json_of(&controller.weft(&["diff", "--json", "-f", &file]).has_status(0).stdout);
    assert_eq!((&json["dry_run"], &json["delta"]["switches"]), (&json!(true), &json!(1)));
    assert_eq!(all(&controller), before);
    controller.folder.write("bad.yaml", "{kind: switch_port, id: z, switch: nowhere}");
    controller.weft(&["diff", "-f", &path(&controller, "bad.yaml")]).has_status(1);
}

#[test]
fn the_history_is_told_and_undone() {
    let controller = controller();
    controller.weft(&["set", "switch_port", "p", "enabled=false", "labels.app=db"]).has_status(0);
    controller.weft(&["delete", "switch_port", "q"]).has_status(0);
    let all_of_it = controller.weft(&["history"]).has_status(0).stdout.clone();
    let lines: Vec<&str> = all_of_it.lines().collect();
    assert!(lines[0].starts_with("3  20") && lines[0].contains("  weft delete (uid "), "{all_of_it}");
    assert_eq!((lines[1], lines[3]), ("  switch_port q: deleted", "  switch_port p: updated"));
    let first = "  switch front: created, switch_port p: created, switch back: created, and 1 more objects";
    assert_eq!(lines[5], first);
    let of_port = controller.weft(&["history", "switch_port", "p"]).has_status(0).stdout.clone();
    let lines: Vec<&str> = of_port.lines().map(str::trim_start).collect();
    let changed = ["updated", "enabled: true -> false", "labels: {app: web} -> {app: db}"];
    assert_eq!(lines[1..4], changed);
    assert_eq!((lines.len(), lines[5]), (6, "created"));
    let one = controller.weft(&["history", "switch_port", "p", "--limit", "1"]);
    assert_eq!(one.has_status(0).stdout.lines().map(str::trim_start).collect::<Vec<_>>()[1..], changed);
    assert_eq!(one.stderr, "there is more: --before 2\n");
    let json = json_of(controller.weft(&["history", "--json", "--limit", "1"]).has_status(0).stdout.trim());
    assert_eq!(
        (&json["txn"], &json["by"], &json["objects"][0]["outcome"]),
        (&json!(3), &json!("weft delete"), &json!("deleted"))
    );

    let dry = controller.weft(&["rollback", "--to", "1", "--dry-run"]);
    assert!(dry.has_status(0).stdout.contains("switch_port q: created\n"), "{}", dry.stdout);
    controller.weft(&["rollback", "--to", "1"]).has_status(0);
    let now = all(&controller);
    assert!(now.contains(r#""labels":{"app":"web"}"#) && now.contains(r#""id":"q""#), "{now}");
    let none = controller.weft(&["rollback", "--to", "99"]);
    assert_eq!(none.has_status(1).stderr, "error: there is no transaction 99 yet; the last one is 4\n");
}
