//! `weft eval --processes`: the same bytes, and an error if a process ends.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use crate::support::{Folder, finish};

const PROGRAM: &str = "input table on(port: string, hv: string) key(port);
    input table size(port: string, bytes: int) key(port);
    output table peer(a: string, b: string);
    output table load(hv: string, bytes: int) key(hv);
    peer(a, b) :- on(p, a), on(q, b), a != b;
    load(hv, sum(bytes * 1000000000)) :- on(p, hv), size(p, bytes);";

/// Transactions that insert and delete rows; one overflows.
fn transactions() -> String {
    let mut lines: Vec<String> = (0..40)
        .map(|at| {
            let row = |at: u32| format!("[\"p{at}\",\"hv{}\"]", at % 7);
            let gone = if at > 5 { row(at - 5) } else { String::new() };
            format!(
                "{{\"insert\":{{\"on\":[{}],\"size\":[[\"p{at}\",{at}]]}},\"delete\":{{\"on\":[{gone}]}}}}",
                row(at)
            )
        })
        .collect();
    lines.insert(
        20,
        r#"{"insert":{"size":[["p19",9000000000000000000]]},"delete":{"size":[["p19",19]]}}"#.into(),
    );
    lines.join("\n")
}

#[test]
fn processes_print_what_one_prints() {
    let folder = Folder::new();
    folder.write("program.nlog", PROGRAM).write("txns.jsonl", transactions());
    for more in [&[][..], &["--final"], &["--tables", "all"]] {
        let run =
            |way: &[&str]| folder.weft(&[&["eval", "program.nlog", "-i", "txns.jsonl"], way, more].concat());
        let one = run(&[]);
        assert!(one.has_status(1).stdout.contains("overflow") || more == ["--final"], "{}", one.stdout);
        assert_eq!(one, run(&["--processes", "2"]), "{more:?}");
        assert_eq!(one, run(&["--processes", "3"]), "{more:?}");
    }
}

#[test]
fn what_cannot_be_shared_is_wrong_usage() {
    let folder = Folder::new();
    folder.write("program.nlog", PROGRAM).write("txns.jsonl", "{}\n");
    for more in [&["--workers", "2"][..], &["--reference"], &["--engine", "composed"], &["--processes", "0"]]
    {
        let command = ["eval", "program.nlog", "-i", "txns.jsonl", "--processes", "2"];
        let outcome = folder.weft(&[&command[..if more[0] == "--processes" { 4 } else { 6 }], more].concat());
        assert_eq!(outcome.has_status(2).stdout, "", "{more:?}");
    }
}

#[test]
fn a_process_that_is_killed_is_an_error() {
    let folder = Folder::new();
    folder.write("program.nlog", PROGRAM);
    let mut command = folder.command(&["eval", "program.nlog", "-i", "-", "--processes", "2"]);
    let mut weft =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = weft.stdin.take().unwrap();
    writeln!(stdin, r#"{{"insert":{{"on":[["p","a"],["q","b"]]}}}}"#).unwrap();
    let mut answers = BufReader::new(weft.stdout.take().unwrap()).lines();
    assert!(answers.next().unwrap().unwrap().contains("peer"));
    let tasks = fs::read_dir(format!("/proc/{}/task", weft.id())).unwrap();
    let children: String =
        tasks.map(|task| fs::read_to_string(task.unwrap().path().join("children")).unwrap()).collect();
    let children: Vec<&str> = children.split_whitespace().collect();
    assert_eq!(children.len(), 1, "{children:?}");
    assert!(Command::new("kill").args(["-KILL", children[0]]).status().unwrap().success());
    writeln!(stdin, r#"{{"insert":{{"on":[["r","c"]]}}}}"#).unwrap();
    drop(stdin);
    assert!(answers.next().is_none(), "nothing is answered without a part of the rows");
    let outcome = finish(weft);
    assert!(outcome.has_status(3).stderr.contains("process 1"), "{}", outcome.stderr);
}
