//! `weft profile`: counts match the work, and everything except times is deterministic.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use crate::support::Folder;
use serde_json::Value as Json;

const PROGRAM: &str = r"
input table on(port: string, hv: string) key(port);
input table at(hv: string, ip: int) key(hv);
table place(port: string, ip: int) key(port);
output table reach(a: string, b: string, ip: int);
output table full(hv: string, ports: int) key(hv);
output table fact(x: int);

place(port, ip) :- on(port, hv), at(hv, ip);
reach(a, b, ip) :- place(a, ip), place(b, ip), a != b;
full(hv, count(port)) :- on(port, hv);
fact(7);
";

/// A hundred ports on ten hypervisors, a migration, and one refused transaction.
fn transactions() -> String {
    let ports: Vec<String> = (0..100).map(|port| format!(r#"["p{port}","h{}"]"#, port % 10)).collect();
    let hosts: Vec<String> = (0..10).map(|host| format!(r#"["h{host}",{}]"#, 100 + host)).collect();
    let lines = [
        &*format!(r#"{{"insert":{{"on":[{}],"at":[{}]}}}}"#, ports.join(","), hosts.join(",")),
        r#"{"delete":{"on":[["p1","h1"]]},"insert":{"on":[["p1","h2"]]}}"#,
        r#"{"insert":{"on":[["p1","h3"]]}}"#,
    ];
    lines.join("\n")
}

fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("p.nlog", PROGRAM).write("t.jsonl", transactions());
    folder
}

fn profile(folder: &Folder, more: &[&str]) -> Json {
    let outcome = folder.weft(&[&["profile", "p.nlog", "-i", "t.jsonl", "--json"], more].concat());
    outcome.has_status(1);
    assert!(outcome.stderr.contains("error[duplicate-key]"), "{}", outcome.stderr);
    assert_eq!(outcome.lines().len(), 1, "one object: {}", outcome.stdout);
    serde_json::from_str(&outcome.stdout).unwrap()
}

fn rows<'a>(profile: &'a Json, member: &str) -> &'a Vec<Json> {
    profile[member].as_array().unwrap()
}

fn number(of: &Json, member: &str) -> u64 {
    of[member].as_u64().unwrap_or_else(|| panic!("{member} of {of}"))
}

/// The rule with this head.
fn rule<'a>(profile: &'a Json, head: &str) -> &'a Json {
    rows(profile, "rules").iter().find(|rule| rule["head"] == head).unwrap_or_else(|| panic!("no {head}"))
}

#[test]
fn rules_are_counted_by_what_they_did() {
    let folder = folder();
    let profile = profile(&folder, &[]);
    // One of the three is refused before any rule runs.
    assert_eq!(number(&profile, "transactions"), 2);
    let place = rule(&profile, "place");
    assert_eq!((place["file"].as_str(), number(place, "line")), (Some("p.nlog"), 9));
    // A hundred ports are added, and one is removed and added elsewhere.
    assert_eq!(number(place, "rows_out"), 102);
    assert_eq!(number(rule(&profile, "fact"), "rows_out"), 1);
    for rule in rows(&profile, "rules") {
        for member in ["nanos", "runs", "rows_in", "bindings", "rows_out"] {
            let of_pipelines: u64 = rows(rule, "pipelines").iter().map(|one| number(one, member)).sum();
            assert_eq!(number(rule, member), of_pipelines, "{member} of {rule}");
        }
    }
    let times: Vec<u64> = rows(&profile, "rules").iter().map(|rule| number(rule, "nanos")).collect();
    assert!(times.is_sorted_by(|one, next| one >= next), "{times:?}");
    assert_eq!(times.iter().sum::<u64>(), number(&profile, "rules_nanos"));
    assert!(number(&profile, "rules_nanos") <= number(&profile, "nanos"));
    let heads: Vec<&str> =
        rows(&profile, "tables").iter().map(|table| table["table"].as_str().unwrap()).collect();
    for table in ["on", "at", "place", "reach", "full", "fact"] {
        assert!(heads.contains(&table), "{table} is not among {heads:?}");
    }
    for index in rows(&profile, "indexes") {
        assert!(number(index, "rows") > 0 && number(index, "bytes") > 0, "{index}");
    }
    assert!(rows(&profile, "indexes").iter().any(|index| index["table"] == "on" && index["key"][0] == "hv"));
}

#[test]
fn every_worker_has_its_share() {
    let folder = folder();
    let (one, three) = (profile(&folder, &[]), profile(&folder, &["--workers", "3"]));
    assert_eq!((rows(&one, "workers").len(), rows(&three, "workers").len()), (1, 3));
    for member in ["nanos", "rows_in", "bindings", "rows_out"] {
        assert!(rows(&three, "workers").iter().all(|worker| number(worker, member) > 0), "{member}: {three}");
    }
    let shares = rows(&three, "workers").iter().map(|worker| worker["share"].as_f64().unwrap());
    assert!((0.99..=1.0).contains(&shares.sum()), "{three}");
    assert_eq!(number(&three, "transactions"), number(&one, "transactions"));
}

#[test]
fn people_see_the_slowest_first_and_as_many_as_they_like() {
    let folder = folder();
    let text = |more: &[&str]| {
        let outcome = folder.weft(&[&["profile", "p.nlog", "-i", "t.jsonl"], more].concat());
        outcome.has_status(1);
        outcome.stdout
    };
    let all = text(&[]);
    for part in [
        "transactions  2\n",
        "\nRULES\n",
        "\nTABLES\n",
        "\nINDEXES\n",
        "\nWORKERS\n",
        "time [ms]",
        " p.nlog:9\n",
    ] {
        assert!(all.contains(part), "no {part:?} in\n{all}");
    }
    assert!(!all.contains("more; --top shows more") && !all.contains("from on"), "{all}");
    let few = text(&["--top", "1"]);
    assert!(few.contains("  and 3 more; --top shows more"), "four rules ran:\n{few}");
    assert!(few.contains("  and 5 more; --top shows more"), "of six tables:\n{few}");
    let verbose = text(&["--verbose"]);
    assert!(verbose.contains("  from on\n") && verbose.contains("  once\n"), "{verbose}");
}

#[test]
fn a_saved_state_is_where_it_begins() {
    let folder = folder();
    folder.write("first.jsonl", transactions().lines().next().unwrap());
    let save = ["eval", "p.nlog", "-i", "first.jsonl", "--save-state", "state"];
    folder.weft(&save).has_status(0);
    folder.write("t.jsonl", transactions().lines().skip(1).collect::<Vec<_>>().join("\n"));
    let profile = profile(&folder, &["--state", "state"]);
    assert_eq!(number(&profile, "transactions"), 2, "the state is one");
    assert_eq!(number(rule(&profile, "place"), "rows_out"), 102);
}

#[test]
fn only_wanted_tables_cost() {
    let folder = folder();
    let profile = profile(&folder, &["--tables", "full"]);
    let heads: Vec<&str> =
        rows(&profile, "rules").iter().map(|rule| rule["head"].as_str().unwrap()).collect();
    assert_eq!(heads, ["full"]);
    let outcome = folder.weft(&["profile", "p.nlog", "-i", "t.jsonl", "--tables", "fuller"]);
    outcome.has_status(2);
    assert!(outcome.stderr.contains("no table `fuller`"), "{}", outcome.stderr);
}
