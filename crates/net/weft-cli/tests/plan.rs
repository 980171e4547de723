//! `weft plan`: output, filters, pinned plans and errors.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use crate::support::Folder;

const PROGRAM: &str = r"
input table vif(port: string, hv: string) key(port);
input table host(hv: string, ip: ip);
input table down(hv: string);
output table route(port: string, ip: ip);
output table lost(port: string);
route(p, ip) :- vif(p, hv), host(hv, ip);
lost(p) :- vif(p, hv), down(hv);
";

fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("net.nlog", PROGRAM);
    folder
}

#[test]
fn statistics_change_the_order() {
    let folder = folder();
    folder.write(
        "few.json",
        r#"{"tables": {"vif": {"rows": 100000, "distinct": [100000, 100]}, "down": {"rows": 2, "distinct": [2]}}}"#,
    );
    let without = folder.weft(&["plan", "net.nlog", "--rule", "lost"]);
    assert!(without.has_status(0).stdout.contains("from vif(port: p, hv): 1,000 rows"), "{}", without.stdout);
    let with = folder.weft(&["plan", "net.nlog", "--rule", "lost", "--stats", "few.json", "--explain"]);
    let line = with.has_status(0).lines().into_iter().find(|line| line.contains("all rows this way"));
    assert!(line.is_some_and(|line| line.contains("from down(hv): 2 rows")), "{}", with.stdout);
    let step = with.lines().into_iter().find(|line| line.contains("vif(hv) gives port: p by"));
    let because = ": 1,000 (because hv is bound: 1,000 rows each)";
    assert!(step.is_some_and(|line| line.ends_with(because)), "{}", with.stdout);
    assert!(!with.stdout.contains("route ("), "--rule leaves others out: {}", with.stdout);
    assert!(with.stdout.contains("down: input, level 0, 2 rows"), "they are counted: {}", with.stdout);
}

#[test]
fn scripts_read_json() {
    let outcome = folder().weft(&["plan", "net.nlog", "--json"]);
    let plan: serde_json::Value = serde_json::from_str(&outcome.has_status(0).stdout).unwrap();
    assert_eq!(plan["rules"][1]["head"], "route");
    let probed = &plan["rules"][1]["pipelines"][0]["steps"][0]["index"];
    let mut indexes = plan["indexes"].as_array().unwrap().iter();
    let index = indexes.find(|index| index["index"] == *probed).unwrap();
    assert_eq!(index["relation"], "host");
    assert_eq!(index["used_by"]["route"], 1);
}

#[test]
fn a_saved_plan_is_chosen_again_whatever_the_statistics_say() {
    let folder = folder();
    folder.write("many.json", r#"{"tables": {"host": {"rows": 1000000}, "vif": {"rows": 10}}}"#);
    let first = folder.weft(&["plan", "net.nlog", "--save", "kept.json"]);
    let other = folder.weft(&["plan", "net.nlog", "--stats", "many.json", "--save", "other.json"]);
    let pinned = ["plan", "net.nlog", "--stats", "many.json", "--plan", "kept.json", "--save", "again.json"];
    let again = folder.weft(&pinned);
    assert_eq!(again.has_status(0).stderr, "");
    first.has_status(0);
    other.has_status(0);
    let read = |name: &str| std::fs::read_to_string(folder.path(name)).unwrap();
    assert_eq!(read("kept.json"), read("again.json"));
    folder.write("kept.json", read("kept.json").replace("\"host\"", "\"hosts\""));
    let misfit = folder.weft(&pinned);
    assert!(
        misfit
            .has_status(0)
            .stderr
            .contains("warning: the pinned plan does not fit the rule for route at net.nlog:7:1"),
        "{}",
        misfit.stderr
    );
}

#[test]
fn figures_come_from_a_saved_state_and_a_kept_plan_is_run() {
    let folder = folder();
    folder.write(
        "txns.jsonl",
        r#"{"insert": {"vif": [["p1", "hv1"], ["p2", "hv1"], ["p3", "hv2"]], "down": [["hv1"]]}}"#,
    );
    folder.weft(&["plan", "net.nlog", "--save", "kept.json"]).has_status(0);
    let run = ["eval", "net.nlog", "-i", "txns.jsonl", "--save-state", "now.state", "--plan", "kept.json"];
    let outcome = folder.weft(&run);
    assert_eq!(
        outcome.has_status(0).stdout,
        "{\"txn\":1,\"insert\":{\"lost\":[[\"p1\"],[\"p2\"]]},\"delete\":{}}\n"
    );
    let plan = folder.weft(&["plan", "net.nlog", "--stats", "now.state"]);
    assert!(plan.has_status(0).stdout.contains("vif: input, level 0, 3 rows"), "{}", plan.stdout);
    folder.write("kept.json", "{}");
    assert!(folder.weft(&run).has_status(1).stderr.contains("kept.json:1:2: this is not a plan"));
}

#[test]
fn what_cannot_be_is_refused() {
    let folder = folder();
    folder.write("bad.json", "{\"tables\": 3}");
    let bad = folder.weft(&["plan", "net.nlog", "--stats", "bad.json"]);
    assert!(bad.has_status(1).stderr.starts_with("error: bad.json:1:"), "{}", bad.stderr);
    folder.weft(&["plan", "net.nlog", "--stats", "none.json"]).has_status(3);
    let unknown = folder.weft(&["plan", "net.nlog", "--tables", "roads"]);
    assert!(
        unknown.has_status(2).stderr.contains("no table `roads`; it has down, host,"),
        "{}",
        unknown.stderr
    );
    assert!(folder.weft(&["plan", "net.nlog", "--rule", "nothing"]).has_status(1).stderr.contains("nothing"));
}
