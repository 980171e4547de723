//! Mistakes that users make, and the first lines of the answers.
//!
//! `mistakes/cases.txt` has the mistakes: files of objects for a small network, and rules. `mistakes/answers.txt` has each with its answer,
//! and is reviewed line by line: an answer names the file, the line, the object and its field, the cause and the remedy.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use expect_test::expect_file;

use crate::support::{Folder, root};

/// The network that the objects are added to.
const NETWORK: &str = "
{kind: transport_node, id: hv1, ip: 172.16.0.1}
---
{kind: switch, id: blue, tenant: acme}
---
{kind: switch, id: green, tenant: acme}
---
{kind: switch, id: red, tenant: umbra}
---
{kind: switch_port, id: vm, switch: blue, addresses: [{mac: '02:00:00:00:00:01', ips: [10.0.0.1]}]}
---
{kind: router, id: r, tenant: acme}
---
{kind: router, id: other}
---
{kind: router_port, id: r-blue, router: r, switch: blue, mac: '02:00:00:00:ff:01', networks: [10.0.0.254/24]}
---
{kind: address_group, id: offices, addresses: [198.51.100.0/24]}
";

/// The fewest mistakes that are worth this test.
const CASES_MIN: usize = 60;

/// The mistakes: a title and the text of a file each.
fn cases() -> Vec<(String, String)> {
    let text = std::fs::read_to_string(root().join("crates/net/weft-cli/tests/mistakes/cases.txt")).unwrap();
    let cases = text.strip_prefix("== ").unwrap().split("\n== ");
    cases
        .map(|case| case.split_once('\n').unwrap())
        .map(|(title, text)| (title.to_owned(), format!("{}\n", text.trim_end())))
        .collect()
}

#[test]
fn o6_each_mistake_is_told_with_file_line_object_field_and_remedy() {
    let folder = Folder::new();
    folder.write("network.yaml", NETWORK);
    let (rules, objects): (Vec<_>, Vec<_>) =
        cases().into_iter().partition(|(title, _)| title.starts_with("rules: "));
    assert!(rules.len() + objects.len() >= CASES_MIN);

    let mut arguments =
        vec!["eval".to_owned(), "builtin".to_owned(), "--objects".to_owned(), "network.yaml".to_owned()];
    for (at, (_, text)) in objects.iter().enumerate() {
        let name = format!("m{at:02}.yaml");
        folder.write(&name, text);
        arguments.push(name);
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = folder.weft(&arguments);
    let told = &outcome.has_status(1).stderr;
    assert!(
        told.ends_with(&format!("{} transactions were refused and changed nothing\n", objects.len())),
        "{told}"
    );
    let mut answers: BTreeMap<usize, String> = BTreeMap::new();
    let mut last = 0;
    for line in told.lines().map(|line| line.strip_prefix("error: ").unwrap_or(line)) {
        let number = line.strip_prefix('m').and_then(|rest| rest.split_once(".yaml")?.0.parse().ok());
        last = number.unwrap_or(last);
        // The next lines of an answer belong to the same file.
        writeln!(answers.entry(last).or_default(), "{line}").unwrap();
    }
    let mut page = String::new();
    for (at, (title, text)) in objects.iter().enumerate() {
        let answer = answers.get(&at).unwrap_or_else(|| panic!("{title}: no answer in\n{told}"));
        let answer = answer.replace(&format!("m{at:02}.yaml"), "net.yaml");
        let answer = answer.lines().filter(|line| !line.ends_with("refused and changed nothing"));
        write!(page, "== {title}\n{text}=>\n{}\n", answer.collect::<Vec<_>>().join("\n")).unwrap();
    }
    for (title, text) in &rules {
        folder.write("rules.nlog", text);
        let outcome = folder.weft(&["check", "rules.nlog"]);
        assert!(matches!(outcome.status, Some(0 | 1)), "{title}: {outcome:?}");
        let mut parts = outcome.stderr.split("\n\n");
        let first =
            parts.clone().find(|part| part.starts_with("error[")).or(parts.next()).unwrap_or_default();
        assert!(first.contains("--> rules.nlog:"), "{title}: no place in\n{}", outcome.stderr);
        write!(page, "== {title}\n{text}=>\n{first}\n").unwrap();
    }
    expect_file![root().join("crates/net/weft-cli/tests/mistakes/answers.txt")].assert_eq(&page);
}
