//! Edits of rules between transactions: the engine, which computes only what an edit affects, prints the same as
//! the reference, which evaluates both programs.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use test_random::Random;

use crate::support::{Folder, Outcome};

const PROGRAM: &str = r"
# Ports and where they are.
input table on(port: string, hv: string) key(port);
input table at(hv: string, ip: int) key(hv);
output table reach(port: string, ip: int);
output table alone(hv: string);

reach(port, ip) :-
    on(port, hv), at(hv, ip);
";

/// Runs lines in the engine, with one thread and with two, and in the reference, which must all print the same.
#[track_caller]
fn both(folder: &Folder, lines: &str, more: &[&str]) -> Outcome {
    let run =
        |way: &[&str]| folder.weft_reading(lines, &[&["eval", "p.nlog", "-i", "-"][..], way, more].concat());
    let (engine, reference) = (run(&[]), run(&["--reference"]));
    assert_eq!(engine, reference, "for\n{lines}");
    assert_eq!(engine, run(&["--workers", "2"]), "with two threads, for\n{lines}");
    engine
}

#[track_caller]
fn edited(lines: &str, more: &[&str]) -> Outcome {
    let folder = Folder::new();
    folder.write("p.nlog", PROGRAM);
    both(&folder, lines, more)
}

const ROWS: &str = r#"{"insert":{"on":[["p","h"],["q","g"]],"at":[["h",1],["g",2]]}}"#;

#[test]
fn rules_and_tables_come_and_go() {
    let lines = [
        ROWS,
        // A rule more: what it derives comes.
        r#"{"rules":{"add":["alone(hv) :- on(_, hv);"]}}"#,
        // A different layout is the same rule. A table is added with its rules and is read at once.
        r#"{"rules":{"remove":["alone(hv):-\n  on(_, hv) ; # gone"],"add":["table seen(hv: string); seen(hv) :- on(_, hv);","alone(hv) :- seen(hv), at(hv, 1);"]}}"#,
        r#"{"delete":{"on":[["p","h"]]}}"#,
        r#"{"rules":{"remove":["reach(port, ip) :- on(port, hv), at(hv, ip);"],"add":["input table extra(port: string, ip: int); reach(p, i) :- extra(p, i);"]}}"#,
        r#"{"insert":{"extra":[["q",2],["z",9]],"on":[["p","h"]]}}"#,
        // An input table goes with its rows.
        r#"{"rules":{"remove":["reach(p, i) :- extra(p, i);","input table extra(port: string, ip: int);"]}}"#,
        r#"{"txn":20,"insert":{"extra":[["q",2]]}}"#,
        r#"{"txn":30,"rules":{"add":["input table extra(port: string, ip: int); reach(p, i) :- extra(p, i);"]}}"#,
    ];
    let expected = [
        r#"{"txn":1,"insert":{"reach":[["p",1],["q",2]]},"delete":{}}"#,
        r#"{"txn":2,"insert":{"alone":[["g"],["h"]]},"delete":{}}"#,
        r#"{"txn":3,"insert":{},"delete":{"alone":[["g"]]}}"#,
        r#"{"txn":4,"insert":{},"delete":{"alone":[["h"]],"reach":[["p",1]]}}"#,
        r#"{"txn":5,"insert":{},"delete":{"reach":[["q",2]]}}"#,
        r#"{"txn":6,"insert":{"alone":[["h"]],"reach":[["q",2],["z",9]]},"delete":{}}"#,
        r#"{"txn":7,"insert":{},"delete":{"reach":[["q",2],["z",9]]}}"#,
        r#"{"txn":20,"error":{"code":"unknown-table","message":"unknown table \"extra\""}}"#,
        r#"{"txn":30,"insert":{},"delete":{}}"#,
    ];
    let outcome = edited(&lines.join("\n"), &[]);
    assert_eq!(outcome.has_status(1).lines(), expected, "{}", outcome.stderr);
    // The final contents are those of the last program.
    let contents = edited(&lines.join("\n"), &["--final", "--tables", "all"]).stdout;
    assert_eq!(
        contents,
        "{\"alone\":[[\"h\"]],\"at\":[[\"g\",2],[\"h\",1]],\"extra\":[],\"on\":[[\"p\",\"h\"],[\"q\",\"g\"]],\"reach\":[],\"seen\":[[\"g\"],[\"h\"]]}\n"
    );
}

#[test]
fn a_dry_run_answers_and_changes_nothing() {
    let edit = r#"{"rules":{"add":["alone(hv) :- on(_, hv);"]},"dry_run":true}"#;
    let lines = [ROWS, edit, edit, r#"{"insert":{"on":[["r","h"]]}}"#, &edit.replace("true", "false")];
    let outcome = edited(&lines.join("\n"), &[]);
    let answer = |txn: u64| {
        format!(r#"{{"txn":{txn},"insert":{{"alone":[["g"],["h"]]}},"delete":{{}},"dry_run":true}}"#)
    };
    assert_eq!(
        outcome.has_status(0).lines()[1..],
        [
            &answer(2),
            &answer(3),
            r#"{"txn":4,"insert":{"reach":[["r",1]]},"delete":{}}"#,
            &answer(5).replace(r#","dry_run":true"#, "")
        ]
    );
    // The output of one program can be the input of another, and refused changes do not happen there either.
    let folder = Folder::new();
    folder
        .write("p.nlog", "input table alone(hv: string); output table all(hv: string); all(h) :- alone(h);");
    let lines = outcome.stdout.lines().skip(1).filter(|line| !line.contains("reach")).collect::<Vec<_>>();
    assert_eq!(
        both(&folder, &lines.join("\n"), &[]).has_status(0).lines(),
        [
            r#"{"txn":2,"insert":{},"delete":{}}"#,
            r#"{"txn":3,"insert":{},"delete":{}}"#,
            r#"{"txn":5,"insert":{"all":[["g"],["h"]]},"delete":{}}"#
        ]
    );
}

/// Checks a refused edit after the rows, and then a transaction that shows that nothing changed.
#[track_caller]
fn is_refused(edit: &str, code: &str, message: &str) {
    let lines = [ROWS, edit, r#"{"insert":{"on":[["r","g"]]}}"#];
    let outcome = edited(&lines.join("\n"), &[]);
    let printed = outcome.has_status(1).lines();
    let answer: serde_json::Value = serde_json::from_str(printed[1]).unwrap();
    assert_eq!((&answer["error"]["code"], &answer["error"]["message"]), (&code.into(), &message.into()));
    assert_eq!(printed[2], r#"{"txn":3,"insert":{"reach":[["r",2]]},"delete":{}}"#);
}

#[test]
fn what_is_no_program_is_refused() {
    is_refused(
        r#"{"rules":{"add":["alone(hv) :- on(_, hv);", "alone(hv) :-\n    onn(_, hv);"]}}"#,
        "bad-rules",
        "add 2 of line 2:2:5: error[unknown-table]: unknown table `onn`; did you mean `on`?",
    );
    is_refused(
        r#"{"rules":{"remove":["table on(port: string);"]}}"#,
        "bad-rules",
        "remove 1 of line 2:1:1: the program has no `table on(port: string);`",
    );
    is_refused(
        r#"{"rules":{"remove":["reach(port, ip) :- at(hv, ip), on(port, hv), ip > 1;"]}}"#,
        "bad-rules",
        "remove 1 of line 2:1:1: the program has no `reach(port, ip) :- at(hv, ip), on(port, hv), ip > 1;`",
    );
    // The remaining rules keep their places.
    is_refused(
        r#"{"rules":{"remove":["input table on(port: string, hv: string) key(port);"]}}"#,
        "bad-rules",
        "p.nlog:9:5: error[unknown-table]: unknown table `on`; declare it: table on(…);",
    );
}

#[test]
fn what_derives_errors_is_refused_as_a_transaction_is() {
    is_refused(
        r#"{"rules":{"add":["output table of(port: string, ip: int) key(port); of(p, i) :- on(p, _), at(_, i);"]}}"#,
        "key-conflict",
        r#"table of: the rules derive two rows with the same key (port: "p"): ip is 1 in one and 2 in the other"#,
    );
    let overflow =
        r#"{"rules":{"add":["output table sum(x: int); sum(9223372036854775807 + i) :- at(_, i);"]}}"#;
    let outcome = edited(&[ROWS, overflow].join("\n"), &[]);
    let printed = outcome.has_status(1).lines();
    assert!(printed[1].contains(r#""code":"overflow""#), "{}", printed[1]);
    assert!(outcome.stderr.contains("(the rule at add 1 of line 2:1:27)"), "{}", outcome.stderr);
    // Nothing is derived before the first transaction, so that transaction is refused.
    let outcome = edited(&[overflow, ROWS, "{}"].join("\n"), &[]);
    let printed = outcome.has_status(1).lines();
    assert_eq!(printed[0], r#"{"txn":1,"insert":{},"delete":{}}"#);
    assert!(printed[1].contains(r#""code":"overflow""#), "{}", printed[1]);
    assert_eq!(printed[2], r#"{"txn":3,"insert":{},"delete":{}}"#);
}

#[test]
fn lines_of_no_such_form_are_bad_json() {
    for (line, message) in [
        (
            r#"{"rules":{"add":[]},"insert":{"on":[["r","g"]]}}"#,
            "line 2, column 1: an edit of rules cannot have rows; put them on another line",
        ),
        (r#"{"rules":{},"dry_run":1}"#, "line 2, column 1: dry_run must be true or false"),
        (
            r#"{"rules":{"ad":[]}}"#,
            "line 2, column 1: rules must be an object with arrays of strings, add and remove: unknown field `ad`, expected `add` or `remove`",
        ),
    ] {
        is_refused(line, "bad-json", message);
    }
}

#[test]
fn names_do_not_change_their_meaning_under_rules() {
    let first = |rules: &str| format!(r#"{{"rules":{{"add":["{rules}"]}}}}"#);
    let run = |lines: &[&str]| {
        let outcome = edited(&[&[ROWS], lines].concat().join("\n"), &[]);
        outcome.has_status(1).lines().last().unwrap().to_string()
    };
    let limit = first("const LIMIT: int = 1; alone(hv) :- at(hv, ip), ip > LIMIT;");
    let again = r#"{"rules":{"remove":["const LIMIT: int = 1;"],"add":["const LIMIT: int = 0;"]}}"#;
    let printed = run(&[&limit, again]);
    assert!(printed.contains("`LIMIT` is removed and declared again in one edit"), "{printed}");
    // A variable would be a constant.
    let printed = run(&[&first("const hv: string = 'h';").replace('\'', "\\\"")]);
    assert!(printed.contains("the rule at p.nlog:8:1 stays, but its meaning would change"), "{printed}");
    let printed = run(&[
        r#"{"rules":{"remove":["output table alone(hv: string);"],"add":["output table alone(hv: int);"]}}"#,
    ]);
    assert!(printed.contains("the columns of table alone would change"), "{printed}");
    let printed = run(&[
        &first("table seen(hv: string); seen(hv) :- on(_, hv); alone(hv) :- seen(hv);"),
        r#"{"rules":{"remove":["table seen(hv: string);"],"add":["output table seen(hv: string);"]}}"#,
    ]);
    assert!(printed.contains("the changes of table seen would be printed from now on"), "{printed}");
    let printed = run(&[
        r#"{"rules":{"remove":["input table on(port: string, hv: string) key(port);"],"add":["input table on(port: string, hv: string);"]}}"#,
    ]);
    assert!(
        printed.contains("input table on has 2 rows, and the new program changes its columns or its key"),
        "{printed}"
    );
}

#[test]
fn what_takes_no_edits_says_so() {
    let folder = Folder::new();
    folder.write("p.nlog", PROGRAM);
    let edit = r#"{"rules":{"add":["alone(hv) :- on(_, hv);"]}}"#;
    let lines = [ROWS, edit, "{}"].join("\n");
    let outcome = folder.weft_reading(&lines, &["eval", "p.nlog", "-i", "-", "--engine", "composed"]);
    let refused: Vec<&str> =
        outcome.has_status(1).stdout.lines().filter(|line| line.contains("bad-rules")).collect();
    let why = "only the fused engine changes the rules of this program";
    assert!(refused.len() == 1 && refused[0].contains(why), "{}", outcome.stdout);
    assert_eq!(outcome.lines().len(), 3);
    let outcome = folder.weft_reading(edit, &["profile", "p.nlog", "-i", "-"]);
    assert!(outcome.has_status(1).stderr.contains("`weft eval` takes edits"), "{}", outcome.stderr);
}

#[test]
fn rules_change_beside_hooks_in_the_fused_engine_alone() {
    let hook = "input table island(a: string, b: string) from connected_components(pair); table pair(a: string, b: string);";
    let rest = " pair(p, h) :- on(p, h); alone(i) :- island(_, i);";
    let folder = Folder::new();
    folder.write("p.nlog", PROGRAM);
    let add = format!(r#"{{"rules":{{"add":["{hook}{rest}"]}}}}"#);
    let lines = [ROWS, &add].join("\n");
    let outcome = folder.weft_reading(&lines, &["eval", "p.nlog", "-i", "-", "--tables", "all"]);
    assert!(outcome.has_status(0).lines()[1].contains(r#""island":[["#), "{}", outcome.stdout);
    folder.write("p.nlog", format!("{PROGRAM}\n{hook}{rest}"));
    let edit = r#"{"rules":{"add":["alone(p) :- on(p, _);"]}}"#;
    let lines = [ROWS, edit].join("\n");
    let outcome = folder.weft_reading(&lines, &["eval", "p.nlog", "-i", "-"]);
    assert!(outcome.has_status(0).lines()[1].contains(r#""alone":[["#), "{}", outcome.stdout);
    for way in [&["--reference"][..], &["--engine", "composed"]] {
        let outcome = folder.weft_reading(edit, &[&["eval", "p.nlog", "-i", "-"], way].concat());
        let printed = &outcome.has_status(1).stdout;
        assert!(printed.contains("only the fused engine changes the rules of this program"), "{printed}");
    }
}

#[test]
fn imported_files_are_edited_where_they_are() {
    let folder = Folder::new();
    let (tables, rules) = PROGRAM.split_at(PROGRAM.find("reach(port, ip) :-").unwrap());
    folder.write("tables/t.nlog", tables);
    folder.write("p.nlog", format!("import \"tables/../tables/t.nlog\";\n{rules}"));
    let lines = [
        ROWS,
        r#"{"rules":{"remove":["output table alone(hv: string);"],"add":["output table other(hv: string); other(h) :- on(_, h);"]}}"#,
        r#"{"rules":{"remove":["other(h) :- on(_, h);"]}}"#,
    ];
    let expected = [
        r#"{"txn":1,"insert":{"reach":[["p",1],["q",2]]},"delete":{}}"#,
        r#"{"txn":2,"insert":{"other":[["g"],["h"]]},"delete":{}}"#,
        r#"{"txn":3,"insert":{},"delete":{"other":[["g"],["h"]]}}"#,
    ];
    assert_eq!(both(&folder, &lines.join("\n"), &[]).has_status(0).lines(), expected);
}

/// Rules and declarations that edits add and remove; their dependencies may be missing.
const POOL: [&str; 10] = [
    "reach(p, i) :- on(p, _), at(_, i), i > 2;",
    "reach(port, 7) :- on(port, _);",
    "alone(hv) :- on(_, hv), at(hv, 1);",
    "alone(hv) :- at(hv, _);",
    "alone(hv) :- mid(hv, n), n > 1;",
    "table mid(hv: string, n: int) key(hv); mid(hv, count(p)) :- on(p, hv);",
    "output table top(hv: string, ip: int) key(hv); top(hv, max(ip)) :- at(hv, ip), on(_, hv);",
    "output table one(p: string, ip: int) key(p); one(p, ip) :- reach(p, ip);",
    "default top(hv, 0 - 1) :- on(_, hv);",
    "alone(\\\"fact\\\");",
];

#[test]
fn random_edits_say_what_the_reference_says() {
    let (mut accepted, mut refused, mut changed) = (0, 0, 0);
    for seed in 0..12 {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let folder = Folder::new();
        folder.write("p.nlog", PROGRAM);
        let mut there = [false; POOL.len()];
        let mut lines: Vec<String> = Vec::new();
        for _ in 0..40 {
            if random.below(2) == 0 {
                let mut rows = || {
                    let (port, host, ip) = (random.below(5), random.below(4), random.below(5));
                    format!(r#"{{"on":[["p{port}","h{host}"]],"at":[["h{host}",{ip}]]}}"#)
                };
                lines.push(format!(r#"{{"delete":{},"insert":{}}}"#, rows(), rows()));
                continue;
            }
            let which = random.below(POOL.len() as u64) as usize;
            let verb = if there[which] { "remove" } else { "add" };
            let dry = random.below(4) == 0;
            // Only the run knows whether it is accepted; a second try of the same edit is refused or succeeds.
            there[which] ^= !dry && random.below(5) > 0;
            lines.push(format!(r#"{{"rules":{{"{verb}":["{}"]}},"dry_run":{dry}}}"#, POOL[which]));
        }
        let tables: &[&str] = if seed % 2 == 0 { &[] } else { &["--tables", "all"] };
        let outcome = both(&folder, &lines.join("\n"), tables);
        for (line, answer) in lines.iter().zip(outcome.lines()).filter(|(line, _)| line.contains("rules")) {
            let is_refused = answer.contains("error");
            refused += u32::from(is_refused);
            accepted += u32::from(!is_refused && line.contains("\"dry_run\":false"));
            changed += u32::from(!is_refused && answer.contains("[["));
        }
        both(&folder, &lines.join("\n"), &["--final", "--tables", "all"]);
    }
    println!("{accepted} accepted, {refused} refused, {changed} with rows");
    assert!(accepted > 40 && refused > 10 && changed > 30, "{accepted}, {refused}, {changed}");
}
