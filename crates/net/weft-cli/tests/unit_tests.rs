//! `weft test`, and the tests beside the real rules.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::watched::Watched;
use crate::support::{Folder, root};
use serde_json::Value;

/// How long anything may take before it counts as hanging.
const DEADLINE: Duration = Duration::from_mins(2);

const PEERS: &str = include_str!("unit_tests/peers.nlog");
const FAILING: &str = include_str!("unit_tests/peers.test.nlog");

fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("peers.nlog", PEERS).write("peers.test.nlog", FAILING);
    folder
}

/// A file of one test that passes if a host with one port has this count.
fn counts(port: &str, count: u32) -> String {
    format!(
        "import \"peers.nlog\";\ntest \"{port} counts\" {{ given {{ on(\"{port}\", \"s\", \"h\"); }} expect ports(\"h\", {count}); }}\n"
    )
}

#[test]
fn the_rules_pass_their_tests() {
    let weft = Command::new(env!("CARGO_BIN_EXE_weft"))
        .args(["test", "rules"])
        .current_dir(root())
        .output()
        .unwrap();
    let said = String::from_utf8(weft.stderr).unwrap();
    assert_eq!(weft.status.code(), Some(0), "{said}");
    assert!(said.contains(" files: all ok") && !said.contains("warning"), "{said}");
}

/// `UPDATE_EXPECT=1` writes the present output; review the difference like code.
#[test]
fn failures_are_shown_as_reviewed() {
    let outcome = folder().weft(&["test"]);
    outcome.has_status(1);
    assert_eq!(outcome.stdout, "");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/unit_tests/failures.txt");
    expect_test::expect_file![path].assert_eq(&outcome.stderr);
}

/// The same for packets: each failure shows the way of the packet.
#[test]
fn failures_of_packets_are_shown_as_reviewed() {
    let folder = Folder::new();
    folder
        .write("hub.nlog", include_str!("../../../check/rule-tests/tests/hub/hub.nlog"))
        .write("packets.test.nlog", include_str!("unit_tests/packets.test.nlog"));
    let outcome = folder.weft(&["test"]);
    outcome.has_status(1);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/unit_tests/packet_failures.txt");
    expect_test::expect_file![path].assert_eq(&outcome.stderr);
}

#[test]
fn json_has_an_object_for_each_test() {
    let outcome = folder().weft(&["test", "--json", "peers.test.nlog"]);
    let tests: Vec<Value> =
        outcome.has_status(1).lines().iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(tests.len(), 13);
    assert_eq!(tests[0]["name"], "passes");
    assert_eq!(tests[0]["ok"], true);
    assert_eq!(tests[0]["failures"], serde_json::json!([]));
    assert!(tests[0]["milliseconds"].as_f64().unwrap() > 0.0);
    let failed = &tests[1];
    assert_eq!(
        (&failed["ok"], &failed["file"], &failed["line"]),
        (&false.into(), &"peers.test.nlog".into(), &17.into())
    );
    let failure = &failed["failures"][0];
    assert_eq!(
        (&failure["line"], &failure["column"], &failure["table"]),
        (&24.into(), &5.into(), &"peer".into())
    );
    assert_eq!(failure["rows"][0], serde_json::json!({"what": "expected", "row": ["hv1", "hv2", "geneve"]}));
    assert_eq!(failure["rows"][1], serde_json::json!({"what": "there is", "row": ["hv1", "hv2", "vxlan"]}));
    assert_eq!(failure["reasons"][0]["question"], "why no peer(\"hv1\", \"hv2\", \"geneve\")");
}

#[test]
fn a_filter_chooses_tests() {
    let folder = folder();
    let passing = folder.weft(&["test", "--filter", "passes"]);
    assert!(
        passing.has_status(0).stderr.ends_with("\n1 test in 1 file: all ok, 12 left out\n"),
        "{}",
        passing.stderr
    );
    let none = folder.weft(&["test", "--filter", "no test is called so"]);
    assert!(none.has_status(1).stderr.contains("lists all 13 tests"), "{}", none.stderr);
}

#[test]
fn where_there_is_no_test_it_says_so() {
    let folder = Folder::new();
    folder.write("peers.nlog", PEERS).write("empty/x.test.nlog", "import \"../peers.nlog\";");
    let none = folder.weft(&["test", "empty"]);
    assert!(none.has_status(1).stderr.contains("the files have no tests"), "{}", none.stderr);
    fs::remove_file(folder.path("empty/x.test.nlog")).unwrap();
    let none = folder.weft(&["test"]);
    assert!(none.has_status(1).stderr.contains("no file named *.test.nlog in .;"), "{}", none.stderr);
    let ordinary = folder.weft(&["test", "peers.nlog"]);
    assert!(ordinary.has_status(2).stderr.contains("NAME.test.nlog"), "{}", ordinary.stderr);
    folder.weft(&["test", "nowhere"]).has_status(3);
}

#[test]
fn files_are_found_at_any_depth_and_caches_left_alone() {
    let folder = Folder::new();
    folder
        .write("peers.nlog", PEERS)
        .write("a.test.nlog", counts("a", 1))
        .write("deep/er/peers.nlog", PEERS)
        .write("deep/er/b.test.nlog", counts("b", 1))
        .write(".hidden/c.test.nlog", "no nlog")
        .write("target/CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55")
        .write("target/d.test.nlog", "no nlog");
    let outcome = folder.weft(&["test", ".", "a.test.nlog", "deep"]);
    assert_eq!(
        outcome.has_status(0).stderr,
        "a.test.nlog\n    ok a counts\ndeep/er/b.test.nlog\n    ok b counts\n\n2 tests in 2 files: all ok\n"
    );
}

/// A mistake in one file does not keep others from running; only warnings of the test file itself are
/// reported.
#[test]
fn a_faulty_program_is_reported_and_the_others_run() {
    let folder = Folder::new();
    folder
        .write("peers.nlog", PEERS)
        .write("a.test.nlog", counts("a", 1))
        .write("b.test.nlog", "import \"peers.nlog\";\ntest \"b\" { expect prots(..); }\n")
        .write(
            "c.test.nlog",
            "import \"peers.nlog\";\ntable idle(x: int);\ntest \"c\" { expect no ports(..); }\n",
        );
    let outcome = folder.weft(&["test"]);
    let said = &outcome.has_status(1).stderr;
    assert!(said.contains("error[unknown-table]") && said.contains("b.test.nlog:2:19"), "{said}");
    assert!(said.ends_with("\n2 tests in 3 files: all ok, 1 file with errors\n"), "{said}");
    assert_eq!(said.matches("warning").count(), 1, "{said}");
    let json = folder.weft(&["test", "--json"]);
    assert!(json.has_status(1).stdout.contains("\"code\":\"unknown-table\""), "{}", json.stdout);
}

#[test]
fn a_folder_of_rules_is_a_program_without_its_tests() {
    let folder = folder();
    folder.weft(&["check", "."]).has_status(0);
    folder.write("peers.test.nlog", "no nlog");
    folder.weft(&["check", "."]).has_status(0);
    assert!(folder.weft(&["check", "peers.test.nlog"]).has_status(1).stderr.contains("error[syntax]"));
}

// Watching.

fn start(folder: &Folder, arguments: &[&str]) -> Watched {
    Watched::start(folder, &[&["test", "--watch"], arguments].concat())
}

#[test]
fn watching_runs_what_depends_on_a_change() {
    let folder = Folder::new();
    folder
        .write("peers.nlog", PEERS)
        .write("a.test.nlog", counts("a", 1))
        .write("b.test.nlog", counts("b", 1));
    let watch = start(&folder, &[]);
    assert!(watch.until("after ").contains("2 tests in 2 files: all ok"));

    folder.write("b.test.nlog", counts("b", 2));
    let said = watch.until("after ");
    assert!(
        said.contains("--- changed: b.test.nlog\n") && said.contains("1 test in 1 file: 0 ok, 1 FAILED"),
        "{said}"
    );
    assert!(!said.contains("a.test.nlog"), "{said}");

    folder.write("peers.nlog", PEERS.replace("ports(host, count(port))", "ports(host, count(port)"));
    let said = watch.until("after ");
    assert!(said.contains("error[syntax]") && said.contains("2 files with errors"), "{said}");

    folder.write("peers.nlog", PEERS);
    assert!(watch.until("after ").contains("2 tests in 2 files: 1 ok, 1 FAILED"));

    fs::remove_file(folder.path("b.test.nlog")).unwrap();
    watch.until("b.test.nlog is gone");

    folder.write("c/d.test.nlog", counts("d", 1));
    let said = watch.until("after ");
    assert!(said.contains("the imported file \"peers.nlog\" does not exist"), "{said}");
    folder.write("c/peers.nlog", PEERS);
    assert!(watch.until("after ").contains("1 test in 1 file: all ok"));
}

#[test]
fn watching_notices_files_of_objects() {
    let rules = "object s { x: int = 1; } output table big(id: string); big(id) :- s(id, x), x > 5;";
    let test = "import \"../s.nlog\"; test \"t\" { given objects \"net.yaml\"; expect big(\"a\"); }";
    let folder = Folder::new();
    folder.write("s.nlog", rules).write("in/s.test.nlog", test);
    let watch = start(&folder, &[]);
    let said = watch.until("after ");
    assert!(said.contains("the file of objects \"net.yaml\" does not exist"), "{said}");
    // A run between the creation of the file and its last byte sees another file.
    folder.write("in/net.yaml", "{kind: s, id: a, x: 6}");
    let said = watch.until("1 test in 1 file: all ok");
    assert!(said.contains("in/net.yaml\n"), "{said}");
    folder.write("in/net.yaml", "{kind: s, id: a, y: 6}");
    watch.until("in/s.test.nlog:1:32: the objects are refused: in/net.yaml:1: s a: y: ");
}

#[test]
fn an_interrupt_ends_watching() {
    let folder = Folder::new();
    folder.write("peers.nlog", PEERS).write("a.test.nlog", counts("a", 1));
    let mut watch = start(&folder, &["a.test.nlog"]);
    watch.until("after ");
    let id = watch.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let end = Instant::now() + DEADLINE;
    while !watch.has_ended() {
        assert!(Instant::now() < end, "it goes on");
        thread::yield_now();
    }
}
