//! Tests that send packets.

use std::path::Path;
use std::sync::Arc;

use nlog::{Program, Sources};
use rule_tests::{Failure, Folder, Suite, Verdict};

fn hub() -> Folder {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hub");
    Folder::load(&folder).expect("the rules can be read")
}

/// The program of the hub's rules, others, and these steps of a test.
fn program(more: &str, steps: &str) -> Arc<Program> {
    let rules = hub().text("hub.nlog").unwrap_or_default().to_owned() + more;
    let test = format!("import \"hub.nlog\";\ntest \"packets\" {{ {steps} }}\n");
    let sources = Sources::from_texts([("hub.nlog", rules), ("packets.test.nlog", test)]);
    let compilation = nlog::compile(&sources);
    compilation.program.unwrap_or_else(|| panic!("{:?}", compilation.diagnostics))
}

fn failures(steps: &str) -> Vec<Failure> {
    let program = program("", steps);
    rule_tests::run(&program, &program.tests[0]).failures
}

/// The message of the only failure.
fn message(steps: &str) -> String {
    let failures = failures(steps);
    assert_eq!(failures.len(), 1, "{failures:?}");
    failures[0].message.clone()
}

const TWO_HOSTS: &str = r#"
    given {
        host("hv1", "172.16.0.1");
        host("hv2", "172.16.0.2");
        port("a", "02:00:00:00:00:01", 1);
        port("b", "02:00:00:00:00:02", 2);
    }
    given port "a" on "hv1";
    given port "b" on "hv2";
"#;

#[test]
fn packets_notice_that_a_rule_is_missing() {
    let folder = hub();
    let mut suite = Suite::new(&folder);
    let text = folder.text("hub.nlog").expect("the rules are there").to_owned();
    assert_eq!(suite.verdict("hub.nlog", &text), Verdict::Passed);
    let program = suite.program("hub.nlog", &text).expect("the rules compile");
    assert_eq!(program.rules.len(), 11);
    for rule in &program.rules {
        let without = text.replace(&*rule.text, "");
        assert_ne!(without, text, "the rule stands in its file: {}", rule.text);
        let verdict = suite.verdict("hub.nlog", &without);
        assert!(matches!(verdict, Verdict::Failed { .. }), "without {}: {verdict:?}", rule.text);
    }
}

#[test]
fn a_failure_says_where_the_packet_went_and_which_rules_sent_it_there() {
    let steps = format!(
        "{TWO_HOSTS} expect packet from \"a\" match{{eth_dst: \"02:00:00:00:00:02\"}} nowhere;
         expect packet from \"a\" match{{eth_dst: \"02:00:00:00:00:09\"}} at \"b\";
         expect packet from \"a\" match{{eth_dst: \"ff:ff:ff:ff:ff:ff\"}} at \"b\";"
    );
    let failures = failures(&steps);
    let messages: Vec<&str> = failures.iter().map(|failure| failure.message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "the packet arrived at \"b\", but is expected nowhere",
            "the packet arrived nowhere, but is expected at \"b\""
        ]
    );
    let questions: Vec<&str> = failures[0].reasons.iter().map(|(question, _)| question.as_str()).collect();
    assert_eq!(questions, ["the packet", "on hv1", "on hv2"]);
    let trace = failures[0].reasons[1].1.join("\n");
    let line = |part: &str| {
        let rules = hub().text("hub.nlog").unwrap_or_default().to_owned();
        rules.lines().position(|line| line.starts_with(part)).expect("a rule") + 1
    };
    let said = format!(
        "hub.nlog:{}, placed by hub.nlog:{}",
        line("common_flow(20, 100, match{eth_dst: mac}"),
        line("of_flow(hv, table_id")
    );
    assert!(trace.contains(&said), "{trace}\nlacks {said}");
}

#[test]
fn a_packet_that_arrives_twice_is_a_fault() {
    let again = "of_bucket(hv, 1, 100 + label, actions[set(reg1, label), resubmit(30)]) :- managed(hv), port(_, _, label);";
    let steps =
        format!("{TWO_HOSTS} expect packet from \"a\" match{{eth_dst: \"ff:ff:ff:ff:ff:ff\"}} at \"b\";");
    let program = program(again, &steps);
    let failures = rule_tests::run(&program, &program.tests[0]).failures;
    assert_eq!(failures[0].message, "the packet arrived 2 times at \"b\"");
    assert_eq!(failures.len(), 1);
}

#[test]
fn packets_pass_groups_that_choose_a_bucket_and_comparisons_of_lengths() {
    const CHOICES: &str = r#"
        output table of_group(hv: string, group: int, type: string, fields: set<string>) key(hv, group);
        output table of_candidate(
            hv: string, group: int, bucket: int, weight: int, watch_port: int, watch_group: int, actions: actions
        ) key(hv, group, bucket);
        of_group(hv, 2, "fast_failover", {}) :- managed(hv);
        of_candidate(hv, 2, 1, 0, 999, 0, actions[set(reg1, 1), resubmit(30)]) :- managed(hv);
        of_candidate(hv, 2, 5, 0, ofport, 0, actions[group(3)]) :- tunnel_port(hv, _, ofport);
        of_group(hv, 3, "select", {"eth_src", "ip_dst"}) :- managed(hv);
        of_candidate(hv, 3, 1, 1, 0, 0, actions[set(reg1, 2), resubmit(30)]) :- managed(hv);
        of_candidate(hv, 3, 2, 9, 999, 0, actions[set(reg1, 1), resubmit(30)]) :- managed(hv);
        common_flow(20, 100, match{eth_dst: "02:00:00:00:00:03"}, actions[check_pkt_larger(1400, reg0[0]), resubmit(25)])
            :- port(..);
        common_flow(25, 100, match{reg0: 0/1}, actions[group(2)]) :- port(..);
    "#;
    let steps = |expected: &str| {
        let packet = "match{ip, eth_dst: \"02:00:00:00:00:03\", ip_dst: \"10.0.0.9\"}";
        format!("{TWO_HOSTS} expect packet from \"a\" {packet} {expected};")
    };
    let good = program(CHOICES, &steps("at \"b\""));
    let failures = rule_tests::run(&good, &good.tests[0]).failures;
    assert!(failures.is_empty(), "{failures:?}");
    let wrong = program(CHOICES, &steps("nowhere"));
    let failures = rule_tests::run(&wrong, &wrong.tests[0]).failures;
    let trace = failures[0].reasons[1].1.join("\n");
    for said in [
        "not larger: NXM_NX_REG0[0] is now 0",
        "-> bucket 5, the first that is live; 1: port 999 is not live",
        "-> bucket 1, which has the highest score by the hash of eth_src, ip_dst; 1: ",
        ", 2: port 999 is not live",
    ] {
        assert!(trace.contains(said), "no `{said}` in\n{trace}");
    }
}

#[test]
fn what_a_test_lacks_is_said() {
    let none = message(
        "given { host(\"hv1\", \"172.16.0.1\"); } expect packet from \"a\" match{eth_dst: \"02:00:00:00:00:02\"} nowhere;",
    );
    assert_eq!(
        none,
        "port \"a\" has no interface: write given port \"a\" on \"HOST\"; before this (no port has one)"
    );
    let host =
        message("given { host(\"hv1\", \"172.16.0.1\"); } given port \"a\" on \"hv9\"; expect no vif(..);");
    assert_eq!(host, "there is no host \"hv9\": give its object before its ports; the hosts are \"hv1\"");
    let twice = message(&format!("{TWO_HOSTS} given port \"a\" on \"hv1\"; expect no port(..);"));
    assert_eq!(twice, "port \"a\" is already on \"hv1\"");
    let receiver = message(&format!(
        "{TWO_HOSTS} expect packet from \"a\" match{{eth_dst: \"02:00:00:00:00:02\"}} at \"c\";"
    ));
    assert!(
        receiver.starts_with(
            "the packet arrived at \"b\", but is expected at \"c\"; port \"c\" has no interface"
        ),
        "{receiver}"
    );
    let frame = message(&format!("{TWO_HOSTS} expect packet from \"a\" match{{tcp}} nowhere;"));
    assert_eq!(frame, "the packet has no destination: write eth_dst in its match");
}

#[test]
fn a_program_without_the_tables_of_switches_is_told_which_it_lacks() {
    let test = "test \"packets\" { expect packet from \"a\" match{eth_dst: \"02:00:00:00:00:02\"} nowhere; }";
    let program = nlog::compile(&Sources::from_texts([("p.test.nlog", test)])).program.expect("it compiles");
    let failures = rule_tests::run(&program, &program.tests[0]).failures;
    assert_eq!(
        failures[0].message,
        "a test with ports or packets needs the input table managed(hv: string), which its program does not have: import the \
         rules of the whole network, or test a package with `weft test builtin FOLDER`"
    );
}
