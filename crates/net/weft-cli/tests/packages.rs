//! Packages: rules beside the built-in ones, which commands and the controller know as `builtin`.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::kinds::{code, sources};
use crate::support::{Folder, root};

/// Switches that are to go, each a problem.
const OLD: &str = r#"import "builtin/interface/driver.nlog";
import "builtin/interface/objects.nlog";

## A switch that is to go.
object old_switch {
    ## The switch.
    switch: ref switch;
}

problem("switch", sw, "old", "it is to go") :- old_switch(_, sw);
"#;

/// The flow of a host is a matter of the physical rules, which `OLD` does not import.
const TEST: &str = r#"import "old.nlog";

test "a host has flows" {
    given { managed("hv1"); transport_node(id: "hv1", ip: ip"10.0.0.1", ..); }
    expect of_flow(hv: "hv1", ..);
}
"#;

const NETWORK: &str = "{kind: switch, id: blue}\n---\n{kind: old_switch, id: o, switch: blue}\n";

/// Rules that need one built-in file, which has no hooks.
const MTU: &str = r#"import "builtin/interface/types.nlog";
input table a(x: int);
output table b(x: int);
b(x + DEFAULT_MTU) :- a(x);
"#;

fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("old/old.nlog", OLD).write("net.yaml", NETWORK);
    folder
}

#[test]
fn a_package_is_checked_alone_and_beside_the_built_in_rules() {
    let folder = folder();
    for programs in
        [&["old"][..], &["builtin", "old"], &["old", "builtin/"], &["builtin"], &["builtin/logical"]]
    {
        let outcome = folder.weft(&[&["check", "--deny-warnings"], programs].concat());
        assert_eq!((outcome.status, &*outcome.stdout, &*outcome.stderr), (Some(0), "", ""), "{programs:?}");
    }
    folder.weft(&["check", "builtin/none"]).has_status(3);
    let outcome = folder.weft(&["check", "./builtin"]);
    assert!(outcome.has_status(3).stderr.contains("cannot read ./builtin"), "{}", outcome.stderr);
    folder.write("builtin/own.nlog", "input table a(x: int;\n");
    let outcome = folder.weft(&["check", "./builtin"]);
    assert!(outcome.has_status(1).stderr.contains("--> ./builtin/own.nlog:1:"), "{}", outcome.stderr);
    folder.weft(&["check", "builtin"]).has_status(0);
}

#[test]
fn names_and_reservations_that_clash_are_told_with_both_places() {
    let folder = folder();
    folder.write("own/a.nlog", "table old_switch(x: int);\n");
    let outcome = folder.weft(&["check", "builtin", "old", "own"]);
    let told = &outcome.has_status(1).stderr;
    assert!(told.contains("table `old_switch` is already declared at old/old.nlog:5:8"), "{told}");
    assert!(told.contains("--> own/a.nlog:1:7"), "{told}");
    // Two packages that do not know each other take one table of Open vSwitch, and one register.
    folder.write("scrub/scrub.nlog", "stage SCRUB = 161;\nfield scrubbed = reg14[28];\n");
    folder.write("meter/meter.nlog", "stage METER = 161;\nfield counted = reg14[28..31];\n");
    let outcome = folder.weft(&["check", "builtin", "scrub", "meter"]);
    let told = &outcome.has_status(1).stderr;
    assert_eq!(told.matches("error[reserved-twice]").count(), 2, "{told}");
    for place in
        ["scrub/scrub.nlog:1:7", "meter/meter.nlog:1:7", "scrub/scrub.nlog:2:7", "meter/meter.nlog:2:7"]
    {
        assert!(told.contains(place), "{place}: {told}");
    }
    folder.weft(&["check", "builtin", "scrub"]).has_status(0);
    // The package is to change, although its name sorts before that of the built-in rules.
    let clash = "import \"builtin/interface/layout.nlog\";\n\
                 stage AUDIT = 20;\nfield audited = reg2[5];\npriority AUDITED of PORT_SECURITY = 90;\n";
    folder.write("audit/audit.nlog", clash);
    let outcome = folder.weft(&["check", "builtin", "audit"]);
    let told = &outcome.has_status(1).stderr;
    for place in ["--> audit/audit.nlog:2:7", "--> audit/audit.nlog:3:7", "--> audit/audit.nlog:4:10"] {
        assert!(told.contains(place), "{place}: {told}");
    }
}

/// What is written in a package, and the code and the line of what `weft check` says of it beside the built-in rules.
const NUMBERS: [(&str, &str); 11] = [
    ("common_meter(300000, 1, 1);", "error[constant-range]: 300000 is not a value of type meter_number"),
    ("common_meter(PACKAGE_METERS, 0, 1);", "error[constant-range]: 0 is not a value of type meter_rate"),
    (
        "common_flow(OWN, 70000, match{}, actions[]);",
        "error[constant-range]: 70000 is not a value of type flow_priority",
    ),
    (
        "common_flow(OWN, 0 - 1, match{}, actions[]);",
        "error[constant-range]: -1 is not a value of type flow_priority",
    ),
    (
        "common_flow(253, ALL, match{}, actions[]);",
        "error[constant-range]: 253 is not a value of type table_number",
    ),
    ("stage NOTES = 253;", "error[reserved-twice]: stage `NOTES` takes table 253, which stage `ZONE_OWNERS`"),
    (
        "reserve MINE of meter_number = 1..2;",
        "error[reserved-twice]: `MINE` reserves 1..2 of type `meter_number`",
    ),
    (
        "reserve MINE of group_number = 0xffffff..0x1000000;",
        "error[reserved-twice]: `MINE` reserves 16777215..16777216",
    ),
    ("field mine = ct_mark[15..16];", "error[reserved-twice]: field `mine` takes ct_mark[15..16]"),
    ("field mine = ct_label[63..64];", "error[reserved-twice]: field `mine` takes ct_label[63..64]"),
    ("field mine = tun_metadata0;", "error[reserved-twice]: field `mine` takes tun_metadata0"),
];

#[test]
fn numbers_that_no_switch_or_no_package_has_are_found_by_check() {
    let folder = folder();
    let own = "import \"builtin/interface/layout.nlog\";\nimport \"builtin/interface/universal.nlog\";\n\n\
               stage OWN = 128;\npriority ALL of OWN = 60001;\nfield mark = reg14[28];\nfield counted = ct_mark[16..31];\n\
               field owner = ct_label[64..127];\ncommon_flow(OWN, ALL, match{}, actions[]);\n";
    folder.write("own/own.nlog", own);
    folder.weft(&["check", "--deny-warnings", "builtin", "own"]).has_status(0);
    for (more, told) in NUMBERS {
        folder.write("own/own.nlog", format!("{own}{more}\n"));
        let outcome = folder.weft(&["check", "builtin", "own"]);
        let said = &outcome.has_status(1).stderr;
        assert!(said.contains(told) && said.contains("--> own/own.nlog:10:"), "{more}: {said}");
    }
}

#[test]
fn a_flow_of_a_package_that_nobody_reserves_is_a_warning() {
    let folder = folder();
    let own = "import \"builtin/interface/layout.nlog\";\nimport \"builtin/interface/universal.nlog\";\n\n\
               priority HIGH of PORT_SECURITY = 1000..2000;\ncommon_flow(PORT_SECURITY, HIGH + 9000, match{}, actions[]);\n";
    folder.write("own/own.nlog", own);
    let outcome = folder.weft(&["check", "builtin", "own"]);
    let said = &outcome.has_status(0).stderr;
    assert!(
        said.contains("warning[unreserved-priority]: priority 10000 of this flow is not one of `HIGH`"),
        "{said}"
    );
    assert!(said.contains("--> own/own.nlog:5:28"), "{said}");
    folder.weft(&["check", "--deny-warnings", "builtin", "own"]).has_status(1);
}

/// Two packages that do not know each other ask for meters and groups.
#[test]
fn packages_get_meters_and_groups_that_nobody_else_has() {
    let folder = folder();
    for package in ["audit", "scrub"] {
        let rules = format!(
            "import \"builtin/interface/objects.nlog\";\nimport \"builtin/interface/package_numbers.nlog\";\n\
             import \"builtin/interface/universal.nlog\";\n\
             wants_package_meter(\"{package}\", sw) :- switch(id: sw, ..);\n\
             wants_package_group(\"{package}\", sw) :- switch(id: sw, ..);\n\
             common_meter(meter, 100, 10) :- package_meter(\"{package}\", _, meter);\n"
        );
        folder.write(&format!("{package}/{package}.nlog"), rules);
    }
    folder.write("net.yaml", "{kind: switch, id: blue}\n");
    let arguments = [
        "eval",
        "builtin",
        "audit",
        "scrub",
        "--objects",
        "net.yaml",
        "--tables",
        "common_meter,package_group",
    ];
    assert_eq!(
        folder.weft(&arguments).has_status(0).stdout,
        "{\"txn\":1,\"insert\":{\"common_meter\":[[80001,1000,200],[80002,1000,200],[80003,1000,200],[80004,1000,200],[120001,100,10],[120002,100,10],[200000,4294967295,4294967295]],\
         \"package_group\":[[\"audit\",\"blue\",15728640],[\"scrub\",\"blue\",15728641]]},\"delete\":{}}\n"
    );
}

#[test]
fn tests_of_a_package_run_alone_or_with_all_built_in_rules() {
    let folder = folder();
    folder.write("old/old.test.nlog", TEST);
    let alone = folder.weft(&["test", "old"]);
    assert!(alone.has_status(1).stderr.contains("error["), "{}", alone.stderr);
    let outcome = folder.weft(&["test", "builtin", "old"]);
    assert_eq!(
        outcome.has_status(0).stderr,
        "old/old.test.nlog\n    ok a host has flows\n\n1 test in 1 file: all ok\n",
        "only the package has tests"
    );
    let none = folder.weft(&["test", "builtin"]);
    let told = &none.has_status(1).stderr;
    assert!(told.contains("builtin has no tests; also name the folder of a package"), "{told}");
}

/// A folder of `examples`, checked and tested as a package with this name.
fn is_a_package_in_order(example: &str, name: &str) {
    let folder = folder();
    let examples =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples").canonicalize().unwrap();
    std::os::unix::fs::symlink(examples.join(example), folder.path(name)).unwrap();
    for command in [&["check", "--deny-warnings"][..], &["fmt", "--check"], &["test"]] {
        let outcome = folder.weft(&[command, &["builtin", name]].concat());
        assert_eq!(outcome.status, Some(0), "{command:?}: {}", outcome.stderr);
    }
    folder.weft(&["check", "--deny-warnings", name]).has_status(0);
}

/// The example of the book, with its packet tests.
#[test]
fn the_example_is_a_package_in_order() {
    is_a_package_in_order("own-feature", "quarantine");
}

#[test]
fn the_invariants_are_a_package_in_order() {
    is_a_package_in_order("invariants", "invariants");
}

#[test]
fn programs_with_the_built_in_rules_run_and_are_explained() {
    let folder = folder();
    let run = |arguments: &[&str]| folder.weft(arguments).has_status(0).stdout.clone();
    let wanted = "{\"txn\":1,\"insert\":{\"problem\":[[\"switch\",\"blue\",\"old\",\"it is to go\"]]},\"delete\":{}}\n";
    assert_eq!(run(&["eval", "builtin", "old", "--tables", "problem", "--objects", "net.yaml"]), wanted);
    let explained =
        run(&["explain", "builtin", "old", "--objects", "net.yaml", r#"problem("switch", "blue", _, _)"#]);
    assert!(explained.contains("old/old.nlog:10"), "{explained}");
    folder.weft(&["explain", "builtin", "--objects", "net.yaml"]).has_status(2);
    let why = folder.weft(&["why-not", "builtin", "old", "--objects", "net.yaml", r#"of_flow("hv1", ..)"#]);
    assert!(why.has_status(0).stdout.contains("builtin/physical/"), "{}", why.stdout);
    assert!(run(&["plan", "builtin", "old", "--tables", "problem"]).contains("old/old.nlog:10"));
    let kinds = run(&["schema", "--kinds", "builtin", "old"]);
    let kinds: Vec<&str> = kinds.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(kinds.contains(&"old_switch") && kinds.contains(&"transport_node"), "{kinds:?}");
    assert!(!run(&["schema", "--kinds"]).contains("old_switch"));
}

#[test]
fn built_in_files_are_not_formatted() {
    let folder = folder();
    let outcome = folder.weft(&["fmt", "--check", "builtin", "old"]);
    assert_eq!((outcome.status, &*outcome.stderr), (Some(0), ""));
    folder.write("old/old.nlog", OLD.replace("    switch: ref switch;", "switch:ref switch;"));
    folder.weft(&["fmt", "--check", "builtin", "old"]).has_status(1);
    assert_eq!(folder.weft(&["fmt", "builtin", "old"]).has_status(0).stderr, "old/old.nlog\n");
    assert_eq!(std::fs::read_to_string(folder.path("old/old.nlog")).unwrap(), OLD);
}

/// Edits of rules between transactions compile the files of the program again.
#[test]
fn rules_beside_built_in_files_can_be_edited() {
    let folder = folder();
    folder.write("own.nlog", MTU);
    let edit = serde_json::json!({"rules": {"add": ["b(x) :- a(x);"]}}).to_string();
    folder.write("t.jsonl", format!("{{\"insert\":{{\"a\":[[1]]}}}}\n{edit}\n"));
    let outcome = folder.weft(&["eval", "own.nlog", "-i", "t.jsonl"]);
    assert_eq!(
        outcome.has_status(0).lines(),
        [r#"{"txn":1,"insert":{"b":[[1501]]},"delete":{}}"#, r#"{"txn":2,"insert":{"b":[[1]]},"delete":{}}"#]
    );
}

#[test]
fn a_controller_runs_packages_and_says_which() {
    let folder = folder();
    let config = |rules: &str| {
        format!(
            "rules = {rules}\nstate = \"state\"\nlisten = \"unix:{}\"\n",
            folder.path("weft.sock").display()
        )
    };
    let check = |rules: &str| {
        folder.write("weft.toml", config(rules)).weft(&["controller", "--config", "weft.toml", "--check"])
    };
    check("[\"builtin\", \"old\"]").has_status(0);
    let alone = check("\"old\"");
    assert!(alone.has_status(1).stderr.contains("write rules = [\"builtin\", FOLDER]"), "{}", alone.stderr);
    let missing = check("[\"builtin\", \"none\"]");
    assert!(missing.has_status(3).stderr.contains("cannot read none: "), "{}", missing.stderr);
    folder.write("clash/a.nlog", "table old_switch(x: int);\n");
    let clash = check("[\"builtin\", \"old\", \"clash\"]");
    let told = &clash.has_status(1).stderr;
    assert!(told.contains("clash/a.nlog:1:7") && told.contains("old/old.nlog:5:8"), "{told}");

    folder.write("weft.toml", config("[\"builtin\", \"old\"]"));
    let mut daemon = folder.command(&["controller", "--config", "weft.toml"]);
    let mut daemon = daemon.stderr(Stdio::null()).spawn().unwrap();
    let controller = format!("unix:{}", folder.path("weft.sock").display());
    let ask = |arguments: &[&str]| folder.weft(&[arguments, &["--controller", &controller]].concat());
    let deadline = Instant::now() + Duration::from_mins(1);
    while ask(&["get", "status"]).status != Some(0) {
        assert!(Instant::now() < deadline, "the controller does not start");
    }
    ask(&["apply", "-f", "net.yaml"]).has_status(0);
    let (status, json) = (ask(&["get", "status"]), ask(&["get", "status", "--json"]));
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    assert!(status.lines().contains(&"rules: builtin, old"), "{}", status.stdout);
    assert!(status.stdout.contains("it is to go"), "{}", status.stdout);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["rules"], serde_json::json!(["builtin", "old"]));
    // The journal replays with the same programs.
    let replay = folder.weft(&[
        "eval",
        "builtin",
        "old",
        "-i",
        "state/journal.jsonl",
        "--final",
        "--tables",
        "problem",
    ]);
    assert_eq!(
        replay.has_status(0).stdout,
        "{\"problem\":[[\"switch\",\"blue\",\"old\",\"it is to go\"]]}\n"
    );
}

/// The example adds a kind, a listing and a counter. They are in the API, in its description and in the command, and no source file
/// names them.
#[test]
fn what_a_package_declares_has_endpoints_a_schema_and_commands_without_a_line_of_code() {
    let folder = folder();
    let examples = root().join("examples");
    std::os::unix::fs::symlink(examples.join("own-feature"), folder.path("quarantine")).unwrap();
    let socket = folder.path("weft.sock");
    let config = format!(
        "rules = [\"builtin\", \"quarantine\"]\nstate = \"state\"\nlisten = \"unix:{}\"\n",
        socket.display()
    );
    folder.write("weft.toml", config);
    let mut daemon = folder.command(&["controller", "--config", "weft.toml"]);
    let _daemon = Running(daemon.stderr(Stdio::null()).spawn().unwrap());
    let controller = format!("unix:{}", socket.display());
    let ask = |arguments: &[&str]| folder.weft(&[arguments, &["--controller", &controller]].concat());
    let deadline = Instant::now() + Duration::from_mins(1);
    while ask(&["get", "status"]).status != Some(0) {
        assert!(Instant::now() < deadline, "the controller does not start");
    }
    let example = |name: &str| examples.join("own-feature").join(name).display().to_string();
    ask(&["apply", "-f", &example("network.yaml"), "-f", &example("quarantine.yaml")]).has_status(0);

    let ports = ask(&["get", "quarantined-ports", "infected"]);
    assert_eq!(ports.has_status(0).stdout, "PORT  SWITCH\np1    blue\n");
    let drops = ask(&["get", "quarantine-drops", "infected"]);
    assert_eq!(drops.has_status(0).stdout, "no host has a port in this quarantine\n");
    let listings = ask(&["get", "listings"]);
    let line = listings.has_status(0).stdout.lines().find(|line| line.starts_with("quarantine-drops "));
    let cells: Vec<&str> =
        line.unwrap_or_default().split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
    assert_eq!(
        cells,
        [
            "quarantine-drops",
            "quarantine",
            "The packets from and to ports in quarantine that hosts have dropped"
        ]
    );
    let words = folder.weft(&["complete", "--", "get", "--controller", &controller, "quarantine"]);
    for word in ["quarantine\t", "quarantine-drops\t", "quarantined-ports\t"] {
        assert!(words.stdout.lines().any(|line| line.starts_with(word)), "{word}: {}", words.stdout);
    }

    let get = |path: &str| -> serde_json::Value {
        let output = std::process::Command::new("curl")
            .args(["-s", "--fail", "--unix-socket"])
            .arg(&socket)
            .arg(format!("http://weft{path}"))
            .output()
            .expect("curl runs");
        assert!(output.status.success(), "{path}: {output:?}");
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    let listed = get("/v1/quarantines/infected/quarantined-ports");
    let row = serde_json::json!({"quarantine": "infected", "port": "p1", "switch": "blue"});
    assert_eq!(listed["rows"], serde_json::json!([row]));
    assert_eq!(get("/v1/quarantines/infected/quarantine-drops")["nodes"], 0);
    assert_eq!(get("/v1/quarantines/infected")["state"]["ports"], 1);
    assert!(get("/v1/schema/quarantine")["properties"]["label"].is_object());
    let document = get("/v1/openapi.json");
    for path in ["", "/{id}", "/{id}/quarantined-ports", "/{id}/quarantine-drops"] {
        assert!(document["paths"][format!("/v1/quarantines{path}")]["get"].is_object(), "{path}");
    }
    let named: Vec<_> = sources().into_iter().filter(|file| code(file).contains("quarantined")).collect();
    assert!(named.is_empty(), "a package needs no code: {named:?}");
}

/// A running controller, which ends with the test.
struct Running(std::process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `--check` finds in the state what would stop a start, in the same words, writes nothing, and may run beside a controller.
#[test]
fn d14_d28_the_check_reads_the_state_too() {
    let folder = folder();
    let config = |name: &str, rules: &str| {
        let socket = folder.path("weft.sock");
        let text = format!("rules = {rules}\nstate = \"state\"\nlisten = \"unix:{}\"\n", socket.display());
        folder.write(name, text);
    };
    config("with.toml", "[\"builtin\", \"old\"]");
    config("without.toml", "[\"builtin\"]");
    config("strict.toml", "[\"builtin\", \"old\", \"strict\"]");
    folder.write(
        "strict/strict.nlog",
        "import \"builtin/interface/objects.nlog\";\n## No switch is blue.\nforbid table blue(sw: string);\n\
         blue(sw) :- switch(id: sw, ..), sw == \"blue\";\n",
    );
    let check = |name: &str| folder.weft(&["controller", "--config", name, "--check"]);
    // There is no state yet, and none afterwards.
    check("with.toml").has_status(0);
    assert!(!folder.path("state").exists());

    let mut daemon = folder.command(&["controller", "--config", "with.toml"]);
    let daemon = Running(daemon.stderr(Stdio::null()).spawn().unwrap());
    let controller = format!("unix:{}", folder.path("weft.sock").display());
    let ask = |arguments: &[&str]| folder.weft(&[arguments, &["--controller", &controller]].concat());
    let deadline = Instant::now() + Duration::from_mins(1);
    while ask(&["get", "status"]).status != Some(0) {
        assert!(Instant::now() < deadline, "the controller does not start");
    }
    ask(&["apply", "-f", "net.yaml"]).has_status(0);
    check("with.toml").has_status(0);
    let missing = "kinds that the rules do not declare: old_switch (1); add the package that declares them to `rules` again, or delete these \
                   objects first, with the package still loaded";
    assert!(check("without.toml").stderr.contains(missing), "{}", check("without.toml").stderr);
    drop(daemon);

    // The end of the journal as a crash leaves it.
    let journal = folder.path("state/journal.jsonl");
    let mut bytes = std::fs::read(&journal).unwrap();
    bytes.extend_from_slice(b"{\"txn\":2,\"at");
    std::fs::write(&journal, &bytes).unwrap();
    check("with.toml").has_status(0);
    for (name, told) in [("without.toml", missing), ("strict.toml", "No switch is blue")] {
        let checked = check(name);
        assert!(checked.stderr.contains(told), "{}", checked.stderr);
        let started = folder.weft(&["controller", "--config", name]);
        assert_eq!(started.status, checked.status);
        assert!(started.stderr.contains(&checked.stderr), "{}\n{}", started.stderr, checked.stderr);
    }
    assert_eq!(std::fs::read(&journal).unwrap(), bytes, "the check has changed the journal");
    assert!(!folder.path("state/journal.removed").exists());
}
