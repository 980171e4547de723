//! Hostile and clumsy input: every limit of `docs/reference/limits.md` that a command checks, and files that are not what
//! they should be.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::process::{Command, Stdio};

use crate::support::{Folder, eval_with, finish};

const PROGRAM: &str =
    "input table i(x: int, s: string) key(x);\noutput table o(x: int, s: string);\no(x, s) :- i(x, s);\n";

fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("p.nlog", PROGRAM).write("t.jsonl", "{\"insert\":{\"i\":[[1,\"a\"]]}}\n");
    folder
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

#[test]
fn a_line_without_end_is_refused() {
    let folder = folder();
    let outcome = folder.weft(&["eval", "p.nlog", "-i", "/dev/zero"]);
    let wanted = "error: /dev/zero:1:1: the line is longer than 1 GiB; a transaction is one line: split it into several\n";
    assert_eq!(outcome.has_status(1).stderr, wanted);
}

#[test]
fn a_byte_order_mark_is_skipped_and_another_encoding_is_named() {
    let folder = folder();
    let line = "{\"insert\":{\"i\":[[1,\"a\"]]}}\n";
    let plain = folder.weft_reading(line, &["eval", "p.nlog", "-i", "-"]);
    let marked = folder.weft_reading(format!("\u{feff}{line}"), &["eval", "p.nlog", "-i", "-"]);
    assert_eq!(plain, marked);
    // A fault in a marked line has its column without the mark.
    let fault = folder.weft_reading("\u{feff}{]\n", &["eval", "p.nlog", "-i", "-"]);
    assert!(fault.stderr.starts_with("standard input:1:2: error[bad-json]"), "{}", fault.stderr);
    for text in [line.to_owned(), format!("\u{feff}{line}")] {
        let outcome = folder.weft_reading(utf16(&text), &["eval", "p.nlog", "-i", "-"]);
        let wanted = "error: standard input:1:1: the text is encoded in UTF-16 (little-endian), not in UTF-8; save it with UTF-8 encoding\n";
        assert_eq!(outcome.has_status(1).stderr, wanted);
    }
    folder.write("utf16.nlog", utf16(PROGRAM)).write("marked.nlog", format!("\u{feff}{PROGRAM}"));
    for arguments in
        [&["check", "utf16.nlog"][..], &["fmt", "utf16.nlog"], &["eval", "utf16.nlog", "-i", "t.jsonl"]]
    {
        let outcome = folder.weft(arguments);
        assert!(
            outcome.has_status(1).stderr.contains("is encoded in UTF-16 (little-endian)"),
            "{}",
            outcome.stderr
        );
    }
    folder.weft(&["check", "marked.nlog"]).has_status(0);
    folder.weft(&["fmt", "marked.nlog"]).has_status(0);
    assert_eq!(std::fs::read_to_string(folder.path("marked.nlog")).unwrap(), PROGRAM, "the mark is gone");
}

#[test]
fn files_that_are_read_as_a_whole_are_regular_files() {
    let folder = folder();
    for name in ["pipe.nlog", "pipe"] {
        assert!(Command::new("mkfifo").arg(folder.path(name)).status().unwrap().success());
    }
    folder.write("main.nlog", "import \"pipe.nlog\";\n");
    for arguments in [
        &["check", "main.nlog"][..],
        &["check", "."],
        &["fmt", "pipe.nlog"],
        &["fmt", "."],
        &["plan", "p.nlog", "--stats", "/dev/zero"],
        &["plan", "p.nlog", "--plan", "/dev/zero"],
        &["plan", "p.nlog", "--stats", "pipe"],
        &["eval", "p.nlog", "-i", "t.jsonl", "--state", "/dev/zero"],
        &["eval", "p.nlog", "-i", "t.jsonl", "--state", "."],
        &["eval", "p.nlog", "-i", "t.jsonl", "--plan", "pipe"],
    ] {
        let outcome = folder.weft(arguments);
        assert_eq!(outcome.status, Some(3), "{arguments:?}: {}", outcome.stderr);
        assert!(
            ["regular file", "neither a file"].iter().any(|why| outcome.stderr.contains(why))
                || outcome.stderr.contains("irectory"),
            "{}",
            outcome.stderr
        );
    }
    let outcome = folder.weft(&["check", "/dev/zero"]);
    assert!(outcome.has_status(1).stderr.contains("the file is larger than 64 MiB"), "{}", outcome.stderr);
}

#[test]
fn people_see_the_first_thousand_diagnostics_and_scripts_all() {
    let folder = folder();
    let rules: Vec<String> = (0..1500).map(|n| format!("t{n}(x) :- u{n}(x);\n")).collect();
    folder.write("many.nlog", rules.concat());
    let outcome = folder.weft(&["check", "many.nlog"]);
    let shown = outcome.has_status(1).stderr.matches("error[").count();
    assert_eq!(shown, 1000);
    assert!(
        outcome.stderr.contains("\n2,000 more errors and warnings are not shown\n"),
        "{}",
        &outcome.stderr[..200]
    );
    assert!(outcome.stderr.ends_with("3000 errors, 0 warnings\n"));
    assert_eq!(folder.weft(&["check", "--json", "many.nlog"]).has_status(1).lines().len(), 3000);
}

#[test]
fn values_that_grow_without_end_refuse_the_transaction() {
    let doubling = |first: &str, more: &str| -> String {
        let tables = (0..40).map(|n| format!("table a{}({first});\na{}({more}) :- a{n}(x);\n", n + 1, n + 1));
        let tables: String = tables.collect();
        format!(
            "input table t({first});\ntable a0({first});\na0(x) :- t(x);\n{tables}output table o({first});\no(x) :- a40(x);\n"
        )
    };
    for (program, row, function) in [
        (doubling("x: string", "x ++ x"), "\"aaaaaaaaaaaaaaaa\"", "++: a text of 33,554,432 bytes"),
        (doubling("x: list<int>", "x ++ x"), "[1,2,3,4,5,6,7,8]", "++: a list of 33,554,432 elements"),
        (
            doubling("x: string", "replace(x, \"a\", \"aa\")"),
            "\"aaaaaaaa\"",
            "replace: a text of 33,554,432 bytes",
        ),
        (doubling("x: string", "join([x, x], \"\")"), "\"aaaaaaaa\"", "join: a text of 33,554,432 bytes"),
    ] {
        let folder = Folder::new();
        folder
            .write("p.nlog", program)
            .write("t.jsonl", format!("{{\"insert\":{{\"t\":[[{row}]]}}}}\n{{}}\n"));
        let outcome = folder.weft(&["eval", "p.nlog", "-i", "t.jsonl"]);
        let refused = r#"{"txn":1,"error":{"code":"range","message":"table a"#;
        let lines = outcome.has_status(1).lines();
        assert!(lines[0].starts_with(refused) && lines[0].contains(function), "{}", lines[0]);
        assert_eq!(lines[1], r#"{"txn":2,"insert":{},"delete":{}}"#);
    }
    // The limit counts for bindings that satisfy the whole body, in every way of evaluation.
    let program = "input table t(x: string);\noutput table o(n: int);\no(length(y)) :- t(x), y = x ++ x, length(x) < 5;\n";
    let long = "a".repeat((1 << 23) + 1);
    let outcome = eval_with(program, &format!("{{\"insert\":{{\"t\":[[\"{long}\"],[\"ab\"]]}}}}\n"), &[]);
    assert_eq!(outcome.has_status(0).stdout, "{\"txn\":1,\"insert\":{\"o\":[[4]]},\"delete\":{}}\n");
}

#[test]
fn help_to_a_full_device_is_a_failure_outside() {
    let folder = folder();
    for arguments in [
        &["--help"][..],
        &["--version"],
        &["help", "eval"],
        &["eval", "--help"],
        &["check", "--explain"],
        &["check", "--explain", "arity"],
        &["plan", "p.nlog"],
        &["plan", "p.nlog", "--json"],
        &["explain", "p.nlog", "-i", "t.jsonl", "o(1, \"a\")"],
        &["why-not", "p.nlog", "-i", "t.jsonl", "o(2, \"a\")"],
        &["profile", "p.nlog", "-i", "t.jsonl"],
        &["eval", "p.nlog", "-i", "t.jsonl", "--final"],
    ] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = folder.command(arguments);
        let child = command.stdin(Stdio::null()).stdout(full).stderr(Stdio::piped()).spawn().unwrap();
        let outcome = finish(child);
        assert_eq!(outcome.status, Some(3), "{arguments:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains("No space left"), "{arguments:?}: {}", outcome.stderr);
    }
}

#[test]
fn help_that_nobody_reads_ends_quietly() {
    let folder = folder();
    for arguments in [&["--help"][..], &["eval", "--help"], &["check", "--explain"], &["plan", "p.nlog"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = folder.command(arguments);
        let child = command.stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let outcome = finish(child);
        assert_eq!(outcome.has_status(0).stderr, "", "{arguments:?}");
    }
}
