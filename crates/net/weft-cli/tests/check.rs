//! `weft check`: each kind of mistake, alone, at its place; text and JSON.
//!
//! Marks in a program define the expected diagnostics: `«code:text»` marks a range of text as the place of a
//! diagnostic. The test removes the marks and expects exactly those diagnostics.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeSet;

use crate::support::{Folder, Outcome};
use serde_json::Value;

const WARNINGS: [&str; 9] = [
    "cartesian-product",
    "constant-condition",
    "duplicate-rule",
    "key-clash",
    "never-fires",
    "sum-of-distinct",
    "unfilled-table",
    "unused-table",
    "unused-variable",
];

/// Severity, code, file, and start and end: line, column, line, column.
type Found = (String, String, String, [u64; 4]);

/// Removes the marks from a program.
fn unmark(file: &str, marked: &str) -> (String, Vec<Found>) {
    let (mut text, mut found, mut open) = (String::new(), Vec::new(), Vec::new());
    let (mut line, mut column) = (1, 1);
    let mut rest = marked;
    while let Some(character) = rest.chars().next() {
        rest = &rest[character.len_utf8()..];
        match character {
            '«' => {
                let (code, after) = rest.split_once(':').unwrap();
                open.push((code, line, column));
                rest = after;
            }
            '»' => {
                let (code, start, from) = open.pop().unwrap();
                let severity = if WARNINGS.contains(&code) { "warning" } else { "error" };
                found.push((severity.into(), code.into(), file.into(), [start, from, line, column]));
            }
            character => {
                text.push(character);
                (line, column) = match character {
                    '\n' => (line + 1, 1),
                    // A byte order mark has no width.
                    '\u{feff}' if text.len() == 3 => (line, column),
                    _ => (line, column + 1),
                };
            }
        }
    }
    found.sort();
    (text, found)
}

fn found(outcome: &Outcome) -> Vec<Found> {
    let mut found: Vec<Found> = outcome.lines().into_iter().map(one_found).collect();
    found.sort();
    found
}

fn one_found(line: &str) -> Found {
    let object: Value = serde_json::from_str(line).expect(line);
    let members: BTreeSet<&str> = object.as_object().unwrap().keys().map(String::as_str).collect();
    let wanted = ["severity", "code", "message", "file", "line", "column", "end_line", "end_column", "help"];
    assert_eq!(members, BTreeSet::from(wanted), "{line}");
    let text = |member: &str| object[member].as_str().expect(member).to_owned();
    assert!(!text("message").is_empty() && !text("help").is_empty(), "{line}");
    let place = ["line", "column", "end_line", "end_column"].map(|member| object[member].as_u64().unwrap());
    (text("severity"), text("code"), text("file"), place)
}

/// Checks marked files, in both output formats.
#[track_caller]
fn check_files(files: &[(&str, &str)], arguments: &[&str]) {
    let folder = Folder::new();
    let mut wanted = Vec::new();
    let mut lines = Vec::new();
    for (name, marked) in files {
        let (text, mut marks) = unmark(name, marked);
        folder.write(name, &text);
        let line = |mark: &Found| text.lines().nth(mark.3[0] as usize - 1).unwrap_or_default().to_owned();
        lines.extend(marks.iter().map(line));
        wanted.append(&mut marks);
    }
    wanted.sort();
    let errors = wanted.iter().filter(|(severity, ..)| severity == "error").count();
    let status = i32::from(errors > 0);

    let json = folder.weft(&[&["check", "--json"], arguments].concat());
    assert_eq!(found(&json), wanted, "{}\n{}", files[0].1, json.stdout);
    json.has_status(status);
    assert_eq!(json.stderr, "");

    let text = folder.weft(&[&["check"], arguments].concat());
    text.has_status(status);
    assert_eq!(text.stdout, "", "diagnostics are for people");
    assert!(!text.stderr.contains('\u{1b}'), "no colour where there is no terminal");
    for (severity, code, file, [line, column, ..]) in &wanted {
        let title = format!("{severity}[{code}]: ");
        assert!(text.stderr.contains(&title), "{title} is missing in\n{}", text.stderr);
        let place = format!("{file}:{line}:{column}\n");
        assert!(text.stderr.contains(&place), "{place} is missing in\n{}", text.stderr);
    }
    for line in lines {
        // Tabs are shown as spaces.
        let shown = line.trim_start_matches('\u{feff}').trim().replace('\t', "    ");
        assert!(text.stderr.contains(&shown), "the line `{shown}` is missing in\n{}", text.stderr);
    }
    let warnings = wanted.len() - errors;
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    let total = format!("{errors} error{}, {warnings} warning{}\n", plural(errors), plural(warnings));
    assert_eq!(text.stderr.ends_with(&total), !wanted.is_empty(), "{}", text.stderr);
}

#[track_caller]
fn check(marked: &str) {
    check_files(&[("program.nlog", marked)], &["program.nlog"]);
}

/// Checks rules over three tables, together with a rule that reads the tables that the others may leave
/// unread.
fn rules(rules: &str) {
    check(&format!(
        "input table a(x: int, y: string);\n\
         input table b(x: int);\n\
         output table o(x: int);\n\
         output table seen(x: int, y: string);\n\
         seen(x, y) :- a(x, y), b(x);\n\
         {rules}\n"
    ));
}

#[test]
fn a_right_program_is_passed_in_silence() {
    rules("o(x) :- b(x);");
    check("");
    check("# nothing\n");
    check("\u{feff}output table o(x: int);\r\no(1);\r\n");
}

#[test]
fn syntax() {
    rules("o(x) :- a(x «syntax:_»);\no(x) :- b(x);");
    rules("o(x) :- b(x)«syntax:»\no(x) :- a(x, _);");
    rules("o(x) «syntax:<-» b(x);");
    rules("o(«syntax:\"abc»\n);\no(1);");
    rules("o(1) :- «syntax:;»");
    rules("o(x) :- b(x) «syntax:&&» a(x, _);");
    rules("table «syntax:key»(x: int);");
    check("output table o(«syntax:output»: int);\noutput table p(x: int);\np(1);\n");
    check(
        "output table o(\n    x: int,\n    «syntax:table»: int,\n) key(x);\noutput table p(x: int);\np(1);\n",
    );
    check("output table «syntax:const»(x: int) key(x);\noutput table p(x: int);\np(1);\n");
}

#[test]
fn a_semicolon_for_a_comma_is_one_mistake() {
    rules("input table c(x: int«syntax:;» y: int) key(x);\no(x) :- b(x), c(x, _);");
    rules("input table c(\n    x: int«syntax:;»\n    y: int,\n);\no(x) :- b(x), c(x, _);");
    rules("o(x) :- a(x«syntax:;» _), b(x), x > 1;\no(«unbound-variable:z») :- b(_);");
    rules("o(1«syntax:;»);\n«syntax:42»;\no(«type-mismatch:\"z\"»);");
    rules("o(1«syntax:;»;\no(«type-mismatch:\"z\"»);");
    rules("o(1 «syntax:2»); «unknown-table:nope»(3); o(x) :- b(x);");
}

#[test]
fn a_file_may_end_within_a_declaration() {
    check("output table o(x: int);\no(1);\ninput table t(x: int,«syntax:»");
    check("output table o(x: int);\no(1«syntax:»\n");
}

#[test]
fn unknown_table() {
    rules("o(x) :- b(x), «unknown-table:nope»(x);");
    rules("o(z) :- «unknown-table:nope»(z);");
    rules("o(x) :- «unknown-table:aa»(x, y, 1, \"q\"), b(x);");
    rules("«unknown-table:nope»(x, y) :- a(x, y);");
    rules("«unknown-table:nope»(1);");
    rules("o(x) :- «unknown-table:nope»(lport: x, ..);");
    rules("o(z) :- «unknown-table:nope»(x), z = x + 1, z > 2;");
}

#[test]
fn unknown_function() {
    rules("o(«unknown-function:f»(x)) :- b(x);");
    rules("o(z) :- b(x), z = «unknown-function:f»(x);");
    rules("o(z) :- b(x), z = «unknown-function:f»(w);");
    rules("o(x) :- b(x), «unknown-function:f»(x) > 3;");
    rules("o(x) :- b(x), x == 1 + «unknown-function:f»(x, \"s\", unbound);");
    rules("o(«unknown-function:f»(1));");
    rules("o(z) :- b(x), z = if «unknown-function:f»(x) then 1 else 2;");
    // A table is no function.
    rules("o(«unknown-function:b»(x)) :- b(x);");
}

#[test]
fn unknown_type() {
    check("input table t(x: «unknown-type:integer»);\noutput table o(x: int);\no(x) :- t(x);\n");
    check(
        "input table t(x: set<«unknown-type:str»>);\noutput table o(x: int);\no(x) :- t(s), element(s, x);\n",
    );
    check("output table o(x: «unknown-type:Int»);\no(1);\no(\"text\");\n");
    check(
        "input table t(x: «unknown-type:u8», y: int, z: «unknown-type:u8»);\noutput table o(x: int);\n\
         o(x) :- t(x, y, x), y > 1;\n",
    );
}

#[test]
fn duplicate_table() {
    check(
        "input table t(x: int);\ninput table «duplicate-table:t»(x: string);\ntable «duplicate-table:t»(a: mac, b: ip);\n\
         output table o(x: int);\no(x) :- t(x);\n",
    );
    // The first declaration counts, including its role.
    check("output table t(x: int);\ninput table «duplicate-table:t»(x: int);\nt(1);\n");
}

#[test]
fn arity() {
    rules("o(x) :- «arity:a(x)»;");
    rules("o(z) :- «arity:a(x, y, z)»;");
    rules("o(x) :- «arity:b()», a(x, _);");
    rules("«arity:o(x, y)» :- a(x, y);");
    rules("«arity:o()»;");
    rules("o(«arity:length()») :- b(_);");
    rules("o(x) :- b(x), «arity:not_equal(x)»;");
    rules("o(x) :- b(x), z = «arity:flow_expr_match_reg1(x, x)», w = z, w != match\"\";");
}

#[test]
fn type_mismatch() {
    rules("o(«type-mismatch:\"one\"»);");
    rules("o(«type-mismatch:y») :- a(_, y);");
    rules("o(z) :- a(z, «type-mismatch:z»);");
    rules("o(x) :- a(x, y), «type-mismatch:y» + 1 > x;");
    rules("o(x) :- a(x, «type-mismatch:7»);");
    rules("o(x) :- b(x), «type-mismatch:x»;");
    rules("o(x) :- b(«type-mismatch:true»), b(x);");
    rules("o(length(«type-mismatch:x»)) :- b(x);");
    rules("o(length(«type-mismatch:7»));");
    rules("output table y(y: actions);\ny(flow_output_action(«type-mismatch:\"s\"»));");
    rules("o(x) :- b(x), flow_expr_match_reg1(«type-mismatch:true», m), m != match\"\";");
    rules("o(z) :- a(_, y), z = «type-mismatch:y» * 2, z > 1;");
}

#[test]
fn unbound_variable() {
    rules("o(«unbound-variable:z») :- b(_);");
    rules("o(«unbound-variable:z»);");
    rules("o(x) :- b(x), «unbound-variable:z» > 3;");
    rules("o(x) :- b(x), x == «unbound-variable:z» + 1;");
    rules("o(«unbound-variable:z») :- b(x), x > z, z != 4;");
    rules("o(«unbound-variable:_») :- b(_);");
}

#[test]
fn recursion_is_reported_once_for_each_component() {
    check(
        "input table e(x: int);\ntable p(x: int);\ntable q(x: int);\ntable r(x: int);\noutput table o(x: int);\n\
         p(x) :- e(x);\np(x) :- «recursion:q(x)»;\nq(x) :- p(x);\nr(x) :- «recursion:r(x)», e(x);\no(x) :- q(x), r(x);\n",
    );
}

#[test]
fn recursion_shows_the_whole_cycle_rule_by_rule() {
    let folder = Folder::new();
    folder.write(
        "a.nlog",
        "input table e(x: int);\noutput table one(x: int);\ntable two(x: int);\none(x) :- three(x);\n",
    );
    folder.write("b.nlog", "two(x) :- one(x), e(x);\ntable three(x: int);\nthree(x) :-\n  two(x);\n");
    let outcome = folder.weft(&["check", "--json", "a.nlog", "b.nlog"]);
    assert_eq!(outcome.lines().len(), 1, "{}", outcome.stdout);
    let object: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let message = object["message"].as_str().unwrap();
    assert!(message.contains("one → three → two → one"), "{message}");
    for rule in ["a.nlog:4:11", "b.nlog:1:11", "b.nlog:4:3"] {
        assert!(message.contains(rule), "{rule} is missing in {message}");
    }
    let text = folder.weft(&["check", "a.nlog", "b.nlog"]);
    for line in ["one(x) :- three(x);", "two(x) :- one(x), e(x);", "  two(x);"] {
        assert!(text.stderr.contains(line), "{line} is missing in {}", text.stderr);
    }
}

#[test]
fn negation() {
    rules("o(x) :- b(x), «negation:not a(x, _)»;");
    rules("o(x) :- b(x), «negation:!a(x, \"k\")»;");
    rules("o(x) :- b(x), «negation:not a(x, w)», x > 1;");
    rules("o(x) :- b(x), «negation:not nope(x)»;");
    rules("o(x) :- «negation:not b(x)»;");
    rules("«negation:not o(x)» :- b(x);");
}

#[test]
fn heads_that_rules_cannot_fill() {
    rules("«head-is-input:b»(x) :- a(x, _);");
    rules("«head-is-input:b»(1);");
    rules("«head-is-function:length»(y, x) :- a(x, y);");
    rules("«head-is-function:range»(1, 2, x) :- b(x);");
    rules("«head-is-input:a»(x) :- b(x);\n«head-is-input:b»(\"text\");");
    // This is one mistake, although it also looks like a cycle.
    rules("«head-is-input:b»(x) :- b(x);");
    rules("«head-is-input:b»(x) :- o(x);\no(x) :- b(x);");
}

#[test]
fn import_cycle() {
    let files = [
        ("main.nlog", "import «import-cycle:\"lib/one.nlog\"»;\noutput table o(x: int);\no(1);\n"),
        ("lib/one.nlog", "# one\nimport \"../main.nlog\";\n"),
    ];
    let folder = Folder::new();
    for (name, marked) in files {
        folder.write(name, unmark(name, marked).0);
    }
    // Whichever file is named first, it is one mistake, which names the whole cycle.
    for arguments in [&["main.nlog"][..], &["lib/one.nlog", "main.nlog"], &["."]] {
        let outcome = folder.weft(&[&["check", "--json"], arguments].concat());
        outcome.has_status(1);
        assert_eq!(outcome.lines().len(), 1, "{}", outcome.stdout);
        let object: Value = serde_json::from_str(&outcome.stdout).unwrap();
        assert_eq!(object["code"], "import-cycle");
        let message = object["message"].as_str().unwrap();
        assert!(message.contains("main.nlog") && message.contains("one.nlog"), "{message}");
    }
    check("import «import-cycle:\"program.nlog\"»;\noutput table o(x: int);\no(1);\n");
}

#[test]
fn unused_variables_and_tables_are_warnings() {
    rules("o(x) :- a(x, «unused-variable:y»);");
    rules("o(x) :- a(x, _), a(x, _y), a(_z, _y2), b(x), a(x, _y2), b(_z);");
    rules("o(x) :- b(x), «unused-variable:w» = x + 1;");
    rules("input table «unused-table:c»(x: int);");
    rules("table «unused-table:c»(x: int);\nc(x) :- b(x);");
}

#[test]
fn bodies_that_share_no_variable_are_warned_of() {
    rules("output table p(x: int, y: int);\n«cartesian-product:p(x, y)» :- b(x), a(y, _);");
    rules("output table p(x: int, y: int);\n«cartesian-product:p(x, y)» :- b(x), a(y, z), a(_, z), x > 1;");
    rules("output table p(x: int, y: int);\np(x, y) :- b(x), a(y, z), a(x, z);");
    rules("o(x) :- b(x);\no(x) :- a(x, _), x > 1, x != 4;");
}

#[test]
fn ten_mistakes_are_ten_diagnostics() {
    check(
        "# Größe: ten mistakes\n\
         input table t(x: int, y: «unknown-type:strin»);\n\
         table «duplicate-table:t»(z: mac);\n\
         input table v(x: int, y: string);\n\
         output table o(x: int);\n\
         o(x) :- t(x, y), «unknown-table:nope»(x, y, w), v(w, _);\n\
         o(z) :- v(x, _), z = «unknown-function:f»(x, u);\n\
         o(x) :- «arity:v(x)», x > 1;\n\
         o(«type-mismatch:\"größe\"») :- v(_, _);\n\
         o(«unbound-variable:z») :- v(_, _);\n\
         o(x) :- v(x, _), «negation:not t(x, _)»;\n\
         «head-is-input:v»(x, \"a\") :- o(x);\n\
         o(x) :- v(x «syntax:_»);\n",
    );
}

#[test]
fn columns_are_characters_and_lines_end_in_any_way() {
    // Tabs are one column each; a character outside the basic plane is one too.
    rules("\to(x)\t:-\ta(x, \"größe😀e\u{301}\"), \t«unknown-table:nope»(x);");
    check("\u{feff}«unknown-table:nope»(1);\n");
    check("output table o(x: string);\r\no(\"😀\");\r\n# ü\r\n«arity:o(\"ä\", \"ö\")»;\r\n");
    check("output table o(x: int);\r\n\r\no(\r\n  «type-mismatch:\"two\"»\r\n);\r\n");
    // Without a line break at the end.
    check("output table o(x: int);\no(«unbound-variable:x»);");
}

#[test]
fn an_error_over_several_lines_ends_where_it_ends() {
    rules("o(x) :- «arity:a(x,\n    \"ü\",\n  3)»;");
}

#[test]
fn text_shows_the_line_with_a_mark_under_it() {
    let folder = Folder::new();
    folder.write("p.nlog", "output table o(x: int);\r\no(\"zwölf\");\r\n");
    let outcome = folder.weft(&["check", "p.nlog"]);
    let lines: Vec<&str> = outcome.stderr.lines().collect();
    let at = lines.iter().position(|line| line.ends_with("| o(\"zwölf\");")).expect(&outcome.stderr);
    let column = lines[at].find("\"zw").unwrap();
    assert_eq!(lines[at + 1].find("^^^^^^^"), Some(column), "{}", outcome.stderr);
    assert_eq!(lines[at + 1].matches('^').count(), 7, "{}", outcome.stderr);
}

#[test]
fn bytes_that_are_no_utf8_are_one_syntax_error() {
    let folder = Folder::new();
    folder.write("p.nlog", b"output table o(x: string);\no(\"a\xffb\");\n");
    let outcome = folder.weft(&["check", "--json", "p.nlog"]);
    outcome.has_status(1);
    assert_eq!(found(&outcome), [("error".into(), "syntax".into(), "p.nlog".into(), [2, 5, 2, 6])]);
}

#[test]
fn order_of_files_does_not_show() {
    let folder = Folder::new();
    folder.write("z.nlog", "o(x) :- a(x, y), nope(x);\n");
    folder.write("m.nlog", "input table a(x: int, y: string);\no(w) :- a(_, _);\n");
    folder.write("b/c.nlog", "output table o(x: int);\ninput table o(x: int);\n");
    let forward = folder.weft(&["check", "--json", "z.nlog", "m.nlog", "b/c.nlog"]);
    let backward = folder.weft(&["check", "--json", "b/c.nlog", "m.nlog", "z.nlog"]);
    assert_eq!(forward, backward);
    let codes: Vec<String> = found(&forward).into_iter().map(|(_, code, ..)| code).collect();
    assert_eq!(codes, ["duplicate-table", "unbound-variable", "unknown-table"]);
    let repeated = folder.weft(&["check", "--json", "z.nlog", "m.nlog", "b/c.nlog", "./z.nlog", "b"]);
    assert_eq!(forward.stdout, repeated.stdout, "a file counts once");
}

#[test]
fn folders_and_imports_make_one_program() {
    let folder = Folder::new();
    folder.write("p/tables.nlog", "input table a(x: int);\noutput table o(x: int);\n");
    folder.write("p/deep/rules.nlog", "o(x) :- a(x), x < LIMIT;\n");
    folder.write("p/deep/limit.nlog", "const LIMIT = 4;\n");
    folder.write("p/notes.txt", "not nlog\n");
    folder.weft(&["check", "p"]).has_status(0);
    folder.write(
        "main.nlog",
        "import \"p/deep/rules.nlog\";\nimport \"p/deep/limit.nlog\";\nimport \"p/tables.nlog\";\n",
    );
    folder.weft(&["check", "main.nlog"]).has_status(0);
    folder.write(
        "q/rules.nlog",
        "import \"../p/tables.nlog\";\nimport \"../p/deep/limit.nlog\";\no(LIMIT);\no(x) :- a(x);\n",
    );
    folder.weft(&["check", "q"]).has_status(0);
}

#[test]
fn what_an_author_would_learn_in_the_field_is_a_warning() {
    rules("o(x) :- b(x), x == 1, «never-fires:x == 2»;");
    rules("table t(x: int);\nt(1);\no(x) :- b(x), «never-fires:t(2)»;");
    rules("o(x) :- b(x), «constant-condition:x == x»;");
    rules("table «unfilled-table:t»(x: int);\no(x) :- t(x);");
    rules("output table k(x: int, y: string) key(x);\n«key-clash:k(x, y)» :- a(x, y);");
    rules(
        "output table s(y: string, n: int);\ns(y, «sum-of-distinct:sum(x)») :- a(x, y), a(x, _z), a(_w, _z), b(_w);",
    );
    // While there are errors, such lints are not reported, because they could be consequences.
    rules("table t(x: int);\no(x) :- t(x);\no(«type-mismatch:\"one\"»);");
}

#[test]
fn comments_allow_warnings_and_no_errors() {
    rules("# weft: allow(unused-variable): a name for readers\no(x) :- a(x, y);");
    rules("# weft: allow(unused-variable): a name for readers\no(«type-mismatch:y») :- a(x, y), b(x);");
}

#[test]
fn warnings_can_be_denied() {
    let folder = Folder::new();
    folder.write("p.nlog", "input table a(x: int, y: int);\noutput table o(x: int);\no(x) :- a(x, y);\n");
    folder.weft(&["check", "p.nlog"]).has_status(0);
    let denied = folder.weft(&["check", "--deny-warnings", "p.nlog"]);
    denied.has_status(1);
    assert!(denied.stderr.contains("warning[unused-variable]: "), "{}", denied.stderr);
    folder.weft(&["check", "--deny-warnings", "--json", "p.nlog"]).has_status(1);
    folder.write("q.nlog", "input table a(x: int);\noutput table o(x: int);\no(x) :- a(x);\n");
    folder.weft(&["check", "--deny-warnings", "q.nlog"]).has_status(0);
}

#[test]
fn the_end_of_a_run_says_where_to_read_more() {
    let folder = Folder::new();
    folder.write("p.nlog", "output table o(x: int);\no(\"one\");\no(\"two\");\n");
    let outcome = folder.weft(&["check", "p.nlog"]);
    let hint = "for more: weft check --explain type-mismatch\n2 errors, 0 warnings\n";
    assert!(outcome.stderr.ends_with(hint), "{}", outcome.stderr);
    assert_eq!(outcome.stderr.matches("--explain").count(), 1);
}

#[test]
fn a_code_is_explained_by_its_page() {
    let folder = Folder::new();
    for name in ["unused-table", "warning[unused-table]"] {
        let outcome = folder.weft(&["check", "--explain", name]);
        outcome.has_status(0);
        assert!(outcome.stdout.starts_with("# unused-table\n"), "{}", outcome.stdout);
        assert_eq!(outcome.stderr, "");
    }
    let json = folder.weft(&["check", "--explain", "unused-table", "--json"]);
    json.has_status(0);
    let object: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((&object["code"], &object["severity"]), (&"unused-table".into(), &"warning".into()));
}

#[test]
fn without_a_code_all_are_listed() {
    let folder = Folder::new();
    let outcome = folder.weft(&["check", "--explain"]);
    outcome.has_status(0);
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    for code in ["syntax", "key-clash"] {
        let line = lines.iter().find(|line| line.split_whitespace().next() == Some(code));
        assert!(line.is_some_and(|line| line.split_whitespace().count() > 4), "{}", outcome.stdout);
    }
    assert!(lines.is_sorted());
    let json = folder.weft(&["check", "--explain", "--json"]);
    assert_eq!(json.lines().len(), lines.len());
}

#[test]
fn an_unknown_code_is_wrong_usage() {
    let folder = Folder::new();
    let outcome = folder.weft(&["check", "--explain", "unused-tabel"]);
    outcome.has_status(2);
    assert_eq!(outcome.stdout, "");
    assert!(outcome.stderr.contains("did you mean `unused-table`?"), "{}", outcome.stderr);
    folder.weft(&["check"]).has_status(2);
    folder.weft(&["check", "--explain", "syntax", "p.nlog"]).has_status(2);
}
