//! Files of objects in tests of rules.

use std::fs;

use nlog::{Sources, compile};
use rule_tests::{Failure, Folder, Suite, Verdict, run};

const RULES: &str = r#"
    object switch {
        mtu: int = 1500;
    }
    object port {
        switch: ref switch;
        mac: opt<string>;
        unique(switch, mac);
    }
    input table object_label(kind: string, id: string, label: string, value: string) key(kind, id, label);
    input table vif(port: string, hv: string) key(port);
    forbid table refuse(kind: string, id: string, path: string, text: string);
    output table host(switch: string, hv: string);

    host(switch, hv) :- port(id: port, switch: switch, ..), vif(port, hv), object_label("port", port, "live", _);
    refuse("switch", switch, "mtu", "is too small: give at least 1280") :- switch(switch, mtu), mtu < 1280;
"#;

const NETWORK: &str = "
kind: port
id: p1
switch: blue
labels: {live: 'yes'}
---
kind: switch
id: blue
";

/// The failures of a test of these steps, with these documents beside the test.
fn failures(steps: &str, documents: &[(&str, &str)]) -> Vec<Failure> {
    let test = format!("import \"../rules.nlog\";\ntest \"objects\" {{\n{steps}\n}}");
    let own = [("rules.nlog", RULES), ("net/a.test.nlog", test.as_str())];
    let sources = Sources::from_texts(own.into_iter().chain(documents.iter().copied()));
    let compilation = compile(&sources);
    let program = compilation.program.unwrap_or_else(|| panic!("{:?}", compilation.diagnostics));
    run(&program, &program.tests[0]).failures
}

/// The lines of a report: places and messages with their reasons.
fn said(failures: &[Failure]) -> Vec<String> {
    let mut lines = Vec::new();
    for failure in failures {
        lines.push(format!("{}: {}", failure.place, failure.message));
        lines.extend(failure.reasons.iter().flat_map(|(_, reasons)| reasons.clone()));
    }
    lines
}

#[track_caller]
fn passes(steps: &str, documents: &[(&str, &str)]) {
    let failures = failures(steps, documents);
    assert!(failures.is_empty(), "{:#?}", said(&failures));
}

#[test]
fn a_file_creates_replaces_and_deletes_objects_with_their_labels() {
    passes(
        r#"
        given { vif("p1", "hv1"); }
        given objects "network.yaml";
        expect delta { insert host("blue", "hv1"); }
        expect exactly { switch("blue", 1500); port("p1", "blue", none()); object_label("port", "p1", "live", "yes"); }
        given objects "network.yaml";
        expect exactly { switch("blue", 1500); port("p1", "blue", none()); }
        given objects "../changes.json";
        expect delta {
            delete switch("blue", 1500);
            insert switch("blue", 9000);
            delete port("p1", "blue", none());
            delete object_label("port", "p1", "live", "yes");
            delete host("blue", "hv1");
        }
        "#,
        &[
            ("net/network.yaml", NETWORK),
            (
                "changes.json",
                r#"[{"kind": "switch", "id": "blue", "mtu": 9000}, {"kind": "port", "id": "p1", "delete": true}]"#,
            ),
        ],
    );
}

#[test]
fn rows_of_objects_are_objects() {
    passes(
        r#"
        given {
            switch("blue", 1400);
            object_label("switch", "blue", "floor", "2");
            port("odd", "nowhere", none());
        }
        given objects "port.yaml";
        expect port("p1", "blue", some("m"));
        change { delete port("p1", "blue", some("m")); }
        # The port is not there, so that it is created again.
        given objects "port.yaml";
        expect port("p1", "blue", some("m"));
        given objects "less.yaml";
        expect no object_label(..);
        expect exactly { switch("blue", 1500); port("odd", "nowhere", none()); }
        "#,
        &[
            ("net/port.yaml", "{kind: port, id: p1, switch: blue, mac: m}"),
            ("net/less.yaml", "{kind: port, id: p1, delete: true}\n---\n{kind: switch, id: blue}"),
        ],
    );
    let failures = failures(
        "given { switch(\"blue\", 1400); port(\"p1\", \"blue\", some(\"m\")); }\ngiven objects \"x.yaml\";\nexpect no host(..);",
        &[(
            "net/x.yaml",
            "{kind: port, id: p2, switch: blue, mac: m}\n---\n{kind: switch, id: blue, delete: true}",
        )],
    );
    assert_eq!(
        said(&failures),
        [
            "net/a.test.nlog:4:1: the objects are refused for 3 reasons",
            "net/x.yaml:1: port p2: switch: switch blue is deleted by the same request",
            "net/x.yaml:1: port p2: mac: mac m on switch blue already belongs to port p1",
            "net/x.yaml:3: switch blue: is in use by port p1; delete the objects that refer to it first",
        ]
    );
}

#[test]
fn faults_fail_the_test_at_the_step_whatever_it_expects() {
    let cases = [
        ("{kind: switch, id: s, mut: 5}", "1: switch s: mut: unknown field; did you mean `mtu`?"),
        (
            "{kind: port, id: p, switch: gone}",
            "1: port p: switch: switch gone does not exist; apply it first, or in the same request",
        ),
        ("{kind: swich, id: s}", "1: s: kind: unknown kind; did you mean `switch`?"),
    ];
    for (text, fault) in cases {
        for after in ["expect no host(..);", "expect error \"forbidden\";"] {
            let failures =
                failures(&format!("  given objects \"x.yaml\";\n{after}"), &[("net/x.yaml", text)]);
            let wanted = format!("net/a.test.nlog:3:3: the objects are refused: net/x.yaml:{fault}");
            let said = said(&failures);
            assert_eq!(said.len(), 1, "{said:#?}");
            assert!(said[0].starts_with(&wanted) || said[0].contains("swich"), "{said:#?}\n{wanted}");
        }
    }
}

#[test]
fn what_rules_refuse_can_be_expected_and_changes_nothing() {
    let small = [("net/network.yaml", NETWORK), ("net/small.yaml", "{kind: switch, id: blue, mtu: 9}")];
    passes(
        "given objects \"network.yaml\"; given objects \"small.yaml\"; expect error \"forbidden\"; \
         expect switch(\"blue\", 1500); given objects \"network.yaml\"; expect no host(..);",
        &small,
    );
    assert_eq!(
        said(&failures("given objects \"small.yaml\";\nexpect no host(..);", &small)),
        ["net/a.test.nlog:3:1: the objects are refused: net/small.yaml:1: switch blue: mtu: is too small: \
             give at least 1280"]
    );
    assert_eq!(
        said(&failures("given objects \"network.yaml\";\nexpect error \"forbidden\";", &small)),
        ["net/a.test.nlog:4:1: the transaction is accepted, and not refused with forbidden"]
    );
    // Labels by hand of an object that is not there are no labels of it.
    let label = "given { object_label(\"port\", \"p1\", \"live\", \"no\"); }\ngiven objects \"network.yaml\";\nexpect no host(..);";
    let said = said(&failures(label, &small));
    assert!(said[0].starts_with("net/a.test.nlog:4:1: the transaction is refused: "), "{said:?}");
}

#[test]
fn a_folder_has_the_files_that_its_tests_give() {
    let root = tempfile::tempdir().unwrap();
    let test = "import \"../rules.nlog\"; test \"t\" { given objects \"net.yaml\"; given objects \"../../above.yaml\"; \
                expect switch(\"blue\", 9000); }";
    let above = "{kind: switch, id: blue, mtu: 9000}";
    fs::create_dir_all(root.path().join("rules/in")).unwrap();
    for (name, text) in [
        ("rules/rules.nlog", RULES),
        ("rules/in/a.test.nlog", test),
        ("rules/in/net.yaml", NETWORK),
        ("rules/other.yaml", "not of any test"),
        ("above.yaml", above),
    ] {
        fs::write(root.path().join(name), text).unwrap();
    }
    let folder = Folder::load(&root.path().join("rules")).unwrap();
    assert_eq!(folder.tests_of("in/net.yaml"), ["in/a.test.nlog"]);
    assert_eq!(folder.tests_of("../above.yaml"), ["in/a.test.nlog"]);
    assert!(folder.tests_of("other.yaml").is_empty());
    assert_eq!(folder.rules().map(|(name, _)| name).collect::<Vec<_>>(), ["rules.nlog"]);
    let mut suite = Suite::new(&folder);
    assert_eq!(suite.verdict("in/net.yaml", NETWORK), Verdict::Passed);
    assert_eq!(suite.verdict("../above.yaml", above), Verdict::Passed);
    let failed = Verdict::Failed { file: "in/a.test.nlog".to_owned(), test: "t".to_owned() };
    assert_eq!(suite.verdict("../above.yaml", "{kind: switch, id: blue}"), failed);
    assert_eq!(suite.verdict("rules.nlog", &RULES.replace("1280", "9001")), failed);

    fs::remove_file(root.path().join("above.yaml")).unwrap();
    let folder = Folder::load(&root.path().join("rules")).unwrap();
    let rejected = Verdict::Rejected { file: "in/a.test.nlog".to_owned() };
    assert_eq!(Suite::new(&folder).verdict("rules.nlog", RULES), rejected);
}
