//! Commands that take network objects, as `weft apply` does, without a controller.

use std::path::Path;

use crate::support::{Folder, Outcome, WAYS};

const PROGRAM: &str = r#"object room {
    building: opt<string>;
}
object desk {
    room: ref room;
    number: int = 1;
    unique(room, number);
}
input table object_label(kind: string, id: string, label: string, value: string) key(kind, id, label);
input table person(name: string, desk: string);

output table place(desk: string, room: string, number: int);
output table label(id: string, name: string, value: string);
output table sits(name: string, room: string);

place(desk, room, number) :- desk(id: desk, room: room, number: number);
label(id, name, value) :- object_label("desk", id, name, value);
sits(name, room) :- person(name, desk), desk(id: desk, room: room, ..);

## Numbers that a rule refuses.
forbid table refuse(kind: string, id: string, path: string, text: string);
refuse("desk", desk, "number", "13 brings bad luck") :- desk(id: desk, number: 13, ..);
"#;

const ROOMS: &str = "{kind: room, id: blue}\n---\n{kind: room, id: red, building: north}\n";
const DESKS: &str = "{kind: desk, id: window, room: blue, labels: {view: sea}}\n";
const PEOPLE: &str = "{\"insert\":{\"person\":[[\"ada\",\"window\"]]}}\n";

fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("p.nlog", PROGRAM).write("people.jsonl", PEOPLE);
    folder.write("rooms.yaml", ROOMS).write("desks.yaml", DESKS);
    folder
}

/// Runs `weft eval` in every way, which must print the same.
#[track_caller]
fn eval(folder: &Folder, arguments: &[&str]) -> Outcome {
    let ways: Vec<&[&str]> = WAYS.into_iter().chain([&["--engine", "composed"][..]]).collect();
    let run = |way: &[&str]| folder.weft(&[&["eval", "p.nlog"], way, arguments].concat());
    let first = run(ways[0]);
    for way in &ways[1..] {
        assert_eq!(run(way), first, "{way:?}");
    }
    first
}

#[test]
fn each_file_is_a_transaction_before_the_lines() {
    let folder = folder();
    let outcome = eval(&folder, &["--objects", "rooms.yaml", "desks.yaml", "-i", "people.jsonl"]);
    let lines = [
        r#"{"txn":1,"insert":{},"delete":{}}"#,
        r#"{"txn":2,"insert":{"label":[["window","view","sea"]],"place":[["window","blue",1]]},"delete":{}}"#,
        r#"{"txn":3,"insert":{"sits":[["ada","blue"]]},"delete":{}}"#,
    ];
    assert_eq!(outcome.has_status(0).lines(), lines);
    assert_eq!(outcome.stderr, "");
    let alone = eval(&folder, &["--objects", "rooms.yaml", "--objects", "desks.yaml"]);
    assert_eq!(alone.has_status(0).lines(), lines[..2]);
    let state = eval(&folder, &["--objects", "rooms.yaml", "desks.yaml", "--final"]);
    assert_eq!(
        state.has_status(0).stdout,
        "{\"label\":[[\"window\",\"view\",\"sea\"]],\"place\":[[\"window\",\"blue\",1]],\"sits\":[]}\n"
    );
    let piped = folder.weft_reading(ROOMS, &["eval", "p.nlog", "--objects", "-", "desks.yaml"]);
    assert_eq!(piped.has_status(0).lines(), lines[..2]);
}

#[test]
fn later_files_change_the_objects_of_earlier_ones() {
    let folder = folder();
    folder
        .write("move.yaml", "{kind: desk, id: window, room: red}\n---\n{kind: room, id: blue, delete: true}");
    folder.write("gone.yaml", "{kind: room, id: red, delete: true}");
    let files = ["--objects", "rooms.yaml", "desks.yaml", "gone.yaml", "move.yaml", "gone.yaml"];
    let outcome = eval(&folder, &files);
    let refusal = |txn: u32, file: &str, id: &str| {
        let text = format!(
            "{file}:1: room {id}: is in use by desk window; delete the objects that refer to it first"
        );
        let message = text.strip_prefix(&format!("{file}:1: room {id}: ")).unwrap();
        let fault = format!(
            r#"{{"code":"in-use","file":"{file}","id":"{id}","kind":"room","line":1,"message":"{message}","path":"","severity":"error"}}"#
        );
        let error = format!(r#"{{"code":"bad-object","message":"{text}","faults":[{fault}]}}"#);
        (format!(r#"{{"txn":{txn},"error":{error}}}"#), text)
    };
    let moved = r#"{"txn":4,"insert":{"place":[["window","red",1]]},"delete":{"label":[["window","view","sea"]],"place":[["window","blue",1]]}}"#;
    let (last, text) = refusal(5, "gone.yaml", "red");
    let lines = outcome.has_status(1).lines();
    assert_eq!(lines[2], r#"{"txn":3,"insert":{},"delete":{}}"#, "no desk is in the red room yet");
    let dangling = r#"{"txn":4,"error":{"code":"bad-object","message":"move.yaml:1: desk window: room: room red does not exist; apply it first, or in the same request","faults":["#;
    assert!(lines[3].starts_with(dangling), "{}", lines[3]);
    // Without the deletion of the red room before it.
    let files = ["--objects", "rooms.yaml", "desks.yaml", "rooms.yaml", "move.yaml", "gone.yaml"];
    let outcome = eval(&folder, &files);
    assert_eq!(outcome.has_status(1).lines()[3..], [moved, &last]);
    assert_eq!(outcome.stderr, format!("error: {text}\n1 transaction was refused and changed nothing\n"));
}

#[test]
fn faults_are_printed_as_by_apply_and_the_run_goes_on() {
    let folder = folder();
    folder.write("bad.yaml", "{kind: desk, id: a, rom: blue}\n---\n{kind: desc, id: b}\n");
    folder.write("more.json", r#"{"kind": "desk", "id": "c", "room": "blue", "number": true}"#);
    let outcome = eval(&folder, &["--objects", "bad.yaml", "more.json", "rooms.yaml", "desks.yaml"]);
    assert_eq!(
        outcome.has_status(1).stderr,
        "error: bad.yaml:1: desk a: room: is missing\n\
         bad.yaml:1: desk a: rom: unknown field; did you mean `room`?\n\
         bad.yaml:3: desc b: kind: unknown kind; did you mean `desk`?\n\
         error: more.json:1: desk c: number: must be a whole number, not a boolean\n\
         2 transactions were refused and changed nothing\n"
    );
    let lines = outcome.lines();
    let first = r#"{"txn":1,"error":{"code":"bad-object","message":"bad.yaml:1: desk a: room: is missing and 2 more faults","faults":[{"code":"missing-field","file":"bad.yaml","id":"a","kind":"desk","line":1,"message":"is missing","path":"room","severity":"error"},"#;
    assert!(lines[0].starts_with(first), "{}", lines[0]);
    assert_eq!(lines.len(), 4);
    assert!(lines[3].starts_with(r#"{"txn":4,"insert":{"label""#), "{lines:?}");
}

#[test]
fn what_rules_refuse_names_object_and_field() {
    let folder = folder();
    folder.write(
        "unlucky.yaml",
        "{kind: desk, id: a, room: red, number: 13}\n---\n{kind: desk, id: b, room: blue, number: 13}\n",
    );
    folder.write("again.yaml", "{kind: desk, id: a, room: red, number: 14}\n");
    let outcome = eval(&folder, &["--objects", "rooms.yaml", "unlucky.yaml", "again.yaml"]);
    assert_eq!(
        outcome.has_status(1).stderr,
        "error: unlucky.yaml:1: desk a: number: 13 brings bad luck\n\
         unlucky.yaml:3: desk b: number: 13 brings bad luck\n\
         1 transaction was refused and changed nothing\n"
    );
    let lines = outcome.lines();
    assert_eq!(
        lines[1],
        r#"{"txn":2,"error":{"code":"forbidden","message":"Numbers that a rule refuses: refuse(kind: \"desk\", id: \"a\", path: \"number\", text: \"13 brings bad luck\") and 1 more row","faults":[{"code":"refused","file":"unlucky.yaml","id":"a","kind":"desk","line":1,"message":"13 brings bad luck","path":"number","severity":"error"},{"code":"refused","file":"unlucky.yaml","id":"b","kind":"desk","line":3,"message":"13 brings bad luck","path":"number","severity":"error"}]}}"#
    );
    assert_eq!(lines[2], r#"{"txn":3,"insert":{"place":[["a","red",14]]},"delete":{}}"#);
}

#[test]
fn o6_faults_of_values_of_references_and_of_rules_come_in_one_round_with_the_lines_of_their_fields() {
    let folder = folder();
    folder.write(
        "all.yaml",
        "kind: desk\nid: a\nroom: red\nnumber: 13\n---\nkind: desk\nid: b\nroom: green\n---\nkind: desk\nid: c\nroom: red\nnumber: many\n",
    );
    let outcome = eval(&folder, &["--objects", "rooms.yaml", "all.yaml", "desks.yaml"]);
    assert_eq!(
        outcome.has_status(1).stderr,
        "error: all.yaml:4: desk a: number: 13 brings bad luck\n\
         all.yaml:8: desk b: room: room green does not exist; apply it first, or in the same request\n\
         all.yaml:13: desk c: number: must be a whole number, not text\n\
         1 transaction was refused and changed nothing\n"
    );
    // The rest of the file has left no trace, not even the facts of the program.
    assert_eq!(
        outcome.lines()[2],
        r#"{"txn":3,"insert":{"label":[["window","view","sea"]],"place":[["window","blue",1]]},"delete":{}}"#
    );
}

/// The program has a conflict wherever a desk has number 13, in a table that comes before `refuse`.
#[test]
fn a4_what_is_refused_of_an_object_comes_before_a_conflict_and_a_line_keeps_the_order_of_tables() {
    let folder = folder();
    let more = "output table note(desk: string, text: string) key(desk);\n\
                # weft: allow(key-clash): the test is about it\n\
                note(desk, \"new\") :- desk(id: desk, ..);\nnote(desk, \"odd\") :- desk(id: desk, number: 13, ..);\n\
                note(desk, \"high\") :- desk(id: desk, number: 14, ..);\n";
    folder.write("p.nlog", format!("{PROGRAM}{more}"));
    folder.write("unlucky.yaml", "kind: desk\nid: a\nroom: red\nnumber: 13\n");
    folder.write("high.yaml", "kind: desk\nid: a\nroom: red\nnumber: 14\n");
    folder.write("rows.jsonl", r#"{"insert":{"desk":[["a","red",13]]}}"#);
    let outcome =
        eval(&folder, &["--objects", "rooms.yaml", "unlucky.yaml", "high.yaml", "-i", "rows.jsonl"]);
    let stderr = &outcome.has_status(1).stderr;
    assert!(stderr.starts_with("error: unlucky.yaml:4: desk a: number: 13 brings bad luck\n"), "{stderr}");
    let line =
        |text: &str| 1 + format!("{PROGRAM}{more}").lines().position(|line| line.starts_with(text)).unwrap();
    let [new, high, odd] = ["note(desk, \"new\")", "note(desk, \"high\")", "note(desk, \"odd\")"].map(line);
    let conflict = |place: &str, txn: u32, other: &str, number: u32, [first, second]: [usize; 2]| {
        let (mut one, mut two) = ("new", other);
        if two < one {
            (one, two) = (two, one);
        }
        format!(
            "{place}: error[key-conflict]: table note: the rules derive two rows with the same key (desk: \"a\"): \
             text is \"{one}\" in one and \"{two}\" in the other; transaction {txn} changes nothing\n  \
             one by the rule at p.nlog:{first}:1, from desk(\"a\", \"red\", {number})\n  \
             the other by the rule at p.nlog:{second}:1, from desk(\"a\", \"red\", {number})\n"
        )
    };
    let high = conflict("high.yaml", 3, "high", 14, [high, new]);
    assert!(stderr.contains(&high), "{stderr}\nis not\n{high}");
    let odd = conflict("rows.jsonl:1:1", 4, "odd", 13, [new, odd]);
    assert!(stderr.contains(&odd), "{stderr}\nis not\n{odd}");
    let codes: Vec<bool> =
        outcome.lines()[1..].iter().map(|line| line.contains(r#""code":"forbidden""#)).collect();
    assert_eq!(codes, [true, false, false], "{}", outcome.stdout);
    assert!(outcome.lines()[3].contains(r#""code":"key-conflict""#));
}

#[test]
fn other_errors_name_the_file() {
    let folder = folder();
    let more = "output table double(desk: string, number: int);\ndouble(desk, n * 2) :- desk(id: desk, number: n, ..);\n";
    folder.write("p.nlog", format!("{PROGRAM}{more}"));
    folder.write("huge.yaml", "{kind: desk, id: a, room: red, number: 9223372036854775807}");
    let outcome = eval(&folder, &["--objects", "rooms.yaml", "huge.yaml"]);
    let stderr = &outcome.has_status(1).stderr;
    assert!(stderr.starts_with("huge.yaml: error[overflow]: table double: "), "{stderr}");
    assert!(stderr.contains("; transaction 2 changes nothing\n"), "{stderr}");
}

#[test]
fn labels_are_left_out_of_a_program_without_their_table() {
    let folder = folder();
    folder.write("p.nlog", "object desk { room: string; }\noutput table place(d: string, r: string);\nplace(d, r) :- desk(id: d, room: r);\n");
    let outcome = eval(&folder, &["--objects", "desks.yaml"]);
    assert_eq!(
        outcome.has_status(0).lines(),
        [r#"{"txn":1,"insert":{"place":[["window","blue"]]},"delete":{}}"#]
    );
}

#[test]
fn rows_are_explained_from_objects() {
    let folder = folder();
    let objects = ["--objects", "rooms.yaml", "--objects", "desks.yaml"];
    let explain = folder.weft(&[&["explain", "p.nlog"], &objects[..], &["place(\"window\", _, _)"]].concat());
    let text = &explain.has_status(0).stdout;
    assert!(text.contains("desk(\"window\", \"blue\", 1)  transaction 2"), "{text}");
    let why_not = ["why-not", "p.nlog", "--objects", "rooms.yaml", "place(\"window\", _, _)"];
    let text = folder.weft(&why_not).has_status(0).stdout.clone();
    assert!(text.contains("desk"), "{text}");
    let both = [&["explain", "p.nlog", "-i", "people.jsonl"], &objects[..], &["sits(\"ada\", \"blue\")"]];
    let text = folder.weft(&both.concat()).has_status(0).stdout.clone();
    assert!(text.contains("person(\"ada\", \"window\")  transaction 3"), "{text}");
}

#[test]
fn a_profile_runs_objects() {
    let folder = folder();
    let outcome = folder.weft(&["profile", "p.nlog", "--objects", "rooms.yaml", "desks.yaml", "--json"]);
    let profile: serde_json::Value = serde_json::from_str(&outcome.has_status(0).stdout).unwrap();
    let text = profile.to_string();
    assert!(text.contains("place"), "{text}");
}

#[test]
fn wrong_uses_are_refused() {
    let folder = folder();
    let status = |arguments: &[&str]| folder.weft(&[&["eval", "p.nlog"], arguments].concat());
    assert!(status(&[]).has_status(2).stderr.contains("--input <TXNS>"));
    let twice = status(&["-i", "-", "--objects", "-"]);
    assert_eq!(
        twice.has_status(2).stderr,
        "error: `-` is given twice, and standard input can be read once; write one of them to a file\n"
    );
    assert!(status(&["--objects", "none.yaml"]).has_status(3).stderr.contains("cannot read none.yaml: "));
    status(&["--objects", "rooms.yaml", "--save-state", "s"]).has_status(0);
    let state = status(&["--state", "s", "--objects", "desks.yaml"]);
    assert!(state.has_status(2).stderr.contains("cannot be used with"), "{}", state.stderr);
    status(&["--state", "s", "-i", "people.jsonl"]).has_status(0);
}

#[test]
fn the_schema_is_that_of_the_rules_given() {
    let folder = folder();
    let schema = |arguments: &[&str]| -> serde_json::Value {
        let outcome = folder.weft(&[&["schema"], arguments].concat());
        serde_json::from_str(&outcome.has_status(0).stdout).unwrap()
    };
    let own = schema(&["p.nlog"]);
    let names = |schema: &serde_json::Value| -> Vec<String> {
        schema["$defs"].as_object().unwrap().keys().cloned().collect()
    };
    assert_eq!(names(&own), ["desk", "room"]);
    assert_eq!(own["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(own["$defs"]["desk"]["else"]["required"], serde_json::json!(["room"]));
    assert_eq!(schema(&["p.nlog", "--json"]), own);
    assert!(names(&schema(&[])).contains(&"switch_port".to_owned()), "the built-in rules");
}

#[test]
fn kinds_are_listed_with_their_first_sentence() {
    let folder = folder();
    let program = "## A place to work. It has\n## a door.\nobject room { }\nobject workbench { }\n";
    folder
        .write("q.nlog", program)
        .write("none.nlog", "input table i(x: int);\n")
        .write("bad.nlog", "object {");
    let list = |arguments: &[&str]| folder.weft(&[&["schema", "--kinds"], arguments].concat());
    assert_eq!(list(&["q.nlog"]).has_status(0).stdout, "room       A place to work\nworkbench\n");
    assert_eq!(
        list(&["q.nlog", "--json"]).has_status(0).stdout,
        "{\"kind\":\"room\",\"summary\":\"A place to work\"}\n{\"kind\":\"workbench\",\"summary\":\"\"}\n"
    );
    assert_eq!(list(&["none.nlog"]).has_status(0).stdout, "");
    list(&["bad.nlog"]).has_status(1);
    list(&["missing.nlog"]).has_status(3);
    let built_in = list(&[]).has_status(0).stdout.clone();
    assert!(built_in.lines().any(|line| line.starts_with("switch_port ")), "{built_in}");
}

/// `UPDATE_EXPECT=1` writes the page.
#[test]
fn the_page_of_objects_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/reference/objects.md");
    let rules = weft_core::Rules::built_in().unwrap();
    expect_test::expect_file![path].assert_eq(&rules.kinds().markdown());
}

/// What a shell asks for the words after `weft`.
#[track_caller]
fn candidates(folder: &Folder, words: &[&str]) -> Vec<String> {
    let outcome = folder.weft(&[&["complete", "--"], words].concat());
    assert_eq!(outcome.has_status(0).stderr, "", "{words:?}");
    let value = |line: &str| line.split('\t').next().unwrap_or_default().to_owned();
    outcome.lines().into_iter().map(value).collect()
}

#[test]
fn commands_options_and_values_are_completed() {
    let folder = folder();
    assert_eq!(candidates(&folder, &["ex"]), ["explain", "explain-fields"]);
    let commands = candidates(&folder, &[""]);
    assert!(commands.contains(&"apply".to_owned()), "{commands:?}");
    assert!(!commands.contains(&"complete".to_owned()), "hidden: {commands:?}");
    assert_eq!(candidates(&folder, &["eval", "p.nlog", "--eng"]), ["--engine"]);
    assert_eq!(candidates(&folder, &["eval", "--engine", ""]), ["composed", "fused"]);
    assert_eq!(candidates(&folder, &["eval", "--engine=f"]), ["--engine=fused"]);
    assert_eq!(candidates(&folder, &["completions", "z"]), ["zsh"]);
    assert_eq!(candidates(&folder, &["apply", "--wait="]), ["--wait=installed"]);
    assert_eq!(candidates(&folder, &["apply", "--wait", ""]), [""; 0], "its value is not the next word");
    assert_eq!(candidates(&folder, &["lab", "do"]), ["down"]);
    let files: [&[&str]; 4] = [
        &["check", "p.nlog", "de"],
        &["apply", "-f", ""],
        &["eval", "p.nlog", "--objects", "a.yaml", ""],
        &["check", "--", "-"],
    ];
    for words in files {
        assert_eq!(candidates(&folder, words), [":files"], "{words:?}");
    }
    for words in [&["check", ""][..], &["schema", ""], &["test", "tests", "b"], &["explain", "built"]] {
        assert_eq!(candidates(&folder, words), ["builtin", ":files"], "{words:?}");
    }
    for words in
        [&["nonsense", "x", ""][..], &["get", "switch", "blue", ""], &["eval", "p.nlog", "--workers", ""]]
    {
        assert_eq!(candidates(&folder, words), [""; 0], "{words:?}");
    }
}

#[test]
fn without_a_controller_kinds_are_those_of_the_built_in_rules() {
    let folder = folder();
    let controller = format!("unix:{}", folder.path("none.sock").display());
    let of = |words: &[&str]| {
        candidates(&folder, &[&words[..1], &["--controller", &controller], &words[1..]].concat())
    };
    assert_eq!(of(&["get", "switch"]), ["switch", "switch_port"]);
    assert_eq!(of(&["get", "st"]), ["status"]);
    assert_eq!(of(&["delete", "st"]), [""; 0], "nothing but objects can be deleted");
    assert_eq!(of(&["get", "switch", ""]), [""; 0]);
}

/// The words that bash offers for the line, after it has read the script of `weft completions bash`.
#[track_caller]
fn offered(folder: &Folder, line: &str) -> Vec<String> {
    let weft = Path::new(env!("CARGO_BIN_EXE_weft"));
    let path = format!("{}:{}", weft.parent().unwrap().display(), std::env::var("PATH").unwrap_or_default());
    let script = r#"source <(weft completions bash)
complete -p weft || exit 9
COMP_LINE=$1 COMP_POINT=${#1}
_weft
printf '%s\n' "${COMPREPLY[@]}""#;
    let mut bash = std::process::Command::new("bash");
    bash.args(["--norc", "--noprofile", "-c", script, "bash", line]).env("PATH", path);
    bash.current_dir(folder.path(""));
    let controller = format!("unix:{}", folder.path("weft.sock").display());
    let output = bash.env("WEFT_CONTROLLER", controller).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        (output.status.code(), String::from_utf8_lossy(&output.stderr)),
        (Some(0), "".into()),
        "{text}"
    );
    let lines = text.strip_prefix("complete -F _weft weft\n").expect(&text);
    lines.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn bash_completes_kinds_and_ids_of_the_controller() {
    let folder = folder();
    assert_eq!(offered(&folder, "weft ap"), ["apply"]);
    assert_eq!(offered(&folder, "weft eval --engine=f"), ["fused"], "bash replaces what follows `=`");
    folder.write("building/q.nlog", "");
    assert_eq!(offered(&folder, "weft check b"), ["builtin", "building"], "the built-in rules, and files");
    assert_eq!(offered(&folder, "weft get switch blue"), [""; 0], "there is no controller");

    let config = format!("state = \"state\"\nlisten = \"unix:{}\"\n", folder.path("weft.sock").display());
    folder.write("weft.toml", config);
    folder.write(
        "net.yaml",
        "{kind: switch, id: blue}\n---\n{kind: switch, id: 'rack:a'}\n---\n{kind: switch_port, id: b1, switch: blue}\n",
    );
    let mut daemon = folder.command(&["controller", "--config", "weft.toml"]);
    let mut daemon = daemon.stderr(std::process::Stdio::null()).spawn().unwrap();
    let controller = format!("unix:{}", folder.path("weft.sock").display());
    let deadline = std::time::Instant::now() + std::time::Duration::from_mins(1);
    while folder.weft(&["get", "status", "--controller", &controller]).status != Some(0) {
        assert!(std::time::Instant::now() < deadline, "the controller does not start");
    }
    folder.weft(&["apply", "-f", "net.yaml", "--controller", &controller]).has_status(0);
    let found = [
        offered(&folder, "weft get switch "),
        offered(&folder, "weft get switch rack:"),
        offered(&folder, "weft delete switch_port "),
        offered(&folder, "weft get localnet"),
    ];
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    assert_eq!(found, [vec!["blue", "rack:a"], vec!["a"], vec!["b1"], vec!["localnet_port"]]);
}
