//! The command line itself: exit statuses, streams, pipes that close early, answers line by line.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::Folder;

const PROGRAM: &str =
    "input table i(x: int, s: string);\noutput table o(x: int, s: string);\no(x, s) :- i(x, s);\n";

/// How long anything may take before it counts as hanging.
const DEADLINE: Duration = Duration::from_mins(1);

fn folder() -> Folder {
    let folder = Folder::new();
    folder
        .write("p.nlog", PROGRAM)
        .write("t.jsonl", "{\"insert\":{\"i\":[[1,\"a\"]]}}\n")
        .write("bad.nlog", "o(1;\n");
    folder
}

#[test]
fn zero_is_done() {
    let folder = folder();
    for arguments in [
        &["check", "p.nlog"][..],
        &["check", "--json", "p.nlog"],
        &["eval", "p.nlog", "-i", "t.jsonl"],
        &["eval", "-i", "t.jsonl", "p.nlog"],
        &["eval", "p.nlog", "--input=t.jsonl", "--workers", "3", "--engine", "composed"],
        &["--version"],
        &["--help"],
    ] {
        assert_eq!(folder.weft(arguments).has_status(0).stderr, "", "{arguments:?}");
    }
}

#[test]
fn both_engines_can_be_chosen() {
    let folder = folder();
    let with = |flags: &[&str]| folder.weft(&[&["eval", "p.nlog", "-i", "t.jsonl"], flags].concat());
    let usual = with(&[]);
    usual.has_status(0);
    for flags in [&["--engine", "composed"][..], &["--engine", "fused"], &["--workers", "2"]] {
        assert_eq!(with(flags), usual, "{flags:?}");
    }
    with(&["--engine", "other"]).has_status(2);
}

#[test]
fn every_command_has_help() {
    let folder = folder();
    let commands = [
        "check",
        "test",
        "explain",
        "why-not",
        "trace",
        "eval",
        "controller",
        "apply",
        "get",
        "delete",
        "lab",
        "demo",
    ];
    let front = folder.weft(&["--help"]);
    for command in commands {
        assert!(front.stdout.contains(&format!("  {command} ")), "{}", front.stdout);
        let help = folder.weft(&[command, "--help"]);
        assert!(help.has_status(0).stdout.contains("Usage: weft"), "{}", help.stdout);
        assert_eq!(folder.weft(&["help", command]).has_status(0).stdout, help.stdout);
    }
    for flag in ["--input", "--tables", "--workers", "--engine", "--final", "--reference"] {
        assert!(folder.weft(&["eval", "--help"]).stdout.contains(flag), "{flag}");
    }
}

/// The commands in a command's `--help`, each with its subcommands. What it lists under any heading but these are commands.
fn commands_below(folder: &Folder, command: &[String]) -> Vec<Vec<String>> {
    let arguments: Vec<&str> = command.iter().map(String::as_str).chain(["--help"]).collect();
    let help = folder.weft(&arguments).has_status(0).stdout.clone();
    if !help.contains(" <COMMAND>\n") {
        return Vec::new();
    }
    let sections = help
        .split("\n\n")
        .filter(|section| !["Options:", "Examples:"].iter().any(|heading| section.starts_with(heading)));
    let names = sections.flat_map(|section| section.lines().skip(1));
    // The rarer ones share a line: `and NAME, NAME`.
    let named = |line: &'_ str| -> Vec<String> {
        match line.strip_prefix("  ") {
            Some(line) => match line.strip_prefix("and ") {
                Some(rarer) => rarer.split(", ").map(str::to_owned).collect(),
                None => line.split(' ').next().map(str::to_owned).into_iter().collect(),
            },
            None => Vec::new(),
        }
    };
    let names = names.flat_map(named);
    let mut all = Vec::new();
    for name in names.filter(|name| !name.is_empty() && name != "help") {
        let below = [command, &[name]].concat();
        all.extend(commands_below(folder, &below));
        all.push(below);
    }
    all
}

/// The book's test compares the texts; this one finds commands that are missing on the page.
#[test]
fn every_command_is_in_the_reference() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/reference/command-line.md");
    let page = fs::read_to_string(page).unwrap();
    let commands = commands_below(&folder(), &[]);
    assert!(commands.len() > 20, "{commands:?}");
    for command in commands {
        let line = format!("\n$ weft {} --help\n", command.join(" "));
        assert!(page.contains(&line), "docs/reference/command-line.md lacks {line}");
    }
}

/// The table of [the page about the API](../../../../docs/howto/automate.md): what does the same as each command.
#[test]
fn every_command_that_asks_a_controller_has_its_request_in_the_book() {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs");
    let page = fs::read_to_string(format!("{docs}/howto/automate.md")).unwrap();
    let (_, table) = page.split_once("| `weft` | request |\n|---|---|\n").expect("the page has the table");
    let (table, _) = table.split_once("\n\n").unwrap();
    let rows: Vec<(&str, &str)> = table.lines().map(|row| row.split_once(" | ").unwrap()).collect();
    let folder = folder();
    let asks = |command: &&Vec<String>| {
        let arguments: Vec<&str> = command.iter().map(String::as_str).chain(["--help"]).collect();
        folder.weft(&arguments).has_status(0).stdout.contains("--controller <ADDRESS>")
    };
    let commands = commands_below(&folder, &[]);
    // It tells which controller there is, and asks it nothing.
    let commands = commands.iter().filter(|command| command[0] != "context");
    let asking: Vec<_> = commands.filter(asks).collect();
    assert!(asking.len() >= 15, "{asking:?}");
    for command in asking {
        let start = format!("`weft {}", command.join(" "));
        let has_row = |(what, _): &(&str, &str)| {
            let mut after = what.match_indices(&start).map(|(at, _)| &what[at + start.len()..]);
            after.any(|after| after.starts_with([' ', '`']))
        };
        assert!(rows.iter().any(has_row), "docs/howto/automate.md lacks a row with {start}`");
    }
    // Its reference is made from the description that the controller gives.
    let reference = fs::read_to_string(format!("{docs}/reference/api.md")).unwrap().replace("{kind}", "KIND");
    let reference = reference.replace("{id}", "ID");
    // Texts in backquotes: requests, and parameters of their queries.
    let code = || rows.iter().flat_map(|(_, requests)| requests.split('`').skip(1).step_by(2));
    let requests: Vec<&str> = code().filter(|text| text.contains(" /v1/")).collect();
    assert!(requests.len() > 20, "{requests:?}");
    for request in requests {
        let request = request.split('?').next().unwrap();
        assert!(reference.contains(&format!("\n### {request}\n")), "the API has no {request}");
    }
    let queries = code().map(|text| text.split_once('?').map_or(text, |(_, query)| query));
    let parameters = queries.flat_map(|query| query.split('&')).filter_map(|text| text.split_once('='));
    let parameters: Vec<&str> = parameters.map(|(name, _)| name).collect();
    assert!(parameters.len() > 10, "{parameters:?}");
    for parameter in parameters {
        assert!(reference.contains(&format!("\n| `{parameter}` | query |")), "no query has {parameter}");
    }
}

#[test]
fn one_is_a_program_or_data_that_is_rejected() {
    let folder = folder();
    folder
        .write("facts.nlog", "output table o(x: int, y: int) key(x);\no(1, 1);\no(1, 2);\n")
        .write("txn", "{}\n")
        .write("no", "{\n");
    fs::create_dir(folder.path("empty")).unwrap();
    for arguments in [
        &["check", "bad.nlog"][..],
        &["check", "--json", "bad.nlog"],
        &["check", "p.nlog", "bad.nlog"],
        &["check", "empty"],
        &["eval", "bad.nlog", "-i", "t.jsonl"],
        &["eval", "p.nlog", "-i", "no"],
        &["eval", "facts.nlog", "-i", "txn"],
        &["eval", "facts.nlog", "-i", "/dev/null", "--final"],
    ] {
        let outcome = folder.weft(arguments);
        outcome.has_status(1);
        assert_eq!(outcome.stderr.is_empty(), arguments[1] == "--json", "{arguments:?}");
    }
    let outcome = folder.weft(&["eval", "bad.nlog", "-i", "t.jsonl"]);
    assert_eq!(outcome.stdout, "", "nothing runs");
    assert!(outcome.stderr.contains("bad.nlog:1:4"), "{}", outcome.stderr);
}

#[test]
fn two_is_wrong_usage() {
    let folder = folder();
    for arguments in [
        &[][..],
        &["chekc"],
        &["check"],
        &["check", "--no-such-flag", "p.nlog"],
        &["eval"],
        &["eval", "p.nlog"],
        &["eval", "-i", "t.jsonl"],
        &["eval", "p.nlog", "-i"],
        &["eval", "p.nlog", "-i", "t.jsonl", "--workers", "0"],
        &["eval", "p.nlog", "-i", "t.jsonl", "--workers", "many"],
        &["eval", "p.nlog", "-i", "t.jsonl", "--engine", "steam"],
        &["eval", "p.nlog", "-i", "t.jsonl", "--tables", "nope"],
        &["apply"],
        &["get"],
        &["delete", "switch"],
        &["controller"],
    ] {
        let outcome = folder.weft(arguments);
        outcome.has_status(2);
        assert_eq!(outcome.stdout, "", "{arguments:?}");
        assert!(!outcome.stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn three_is_a_failure_outside() {
    let folder = folder();
    fs::create_dir(folder.path("folder")).unwrap();
    fs::create_dir(folder.path("dangling")).unwrap();
    std::os::unix::fs::symlink("nowhere", folder.path("dangling/a.nlog")).unwrap();
    for (arguments, named) in [
        (&["check", "none.nlog"][..], "none.nlog"),
        (&["check", "--json", "none.nlog"], "none.nlog"),
        (&["check", "p.nlog", "none"], "none"),
        (&["check", "dangling"], "a.nlog"),
        (&["eval", "none.nlog", "-i", "t.jsonl"], "none.nlog"),
        (&["eval", "p.nlog", "-i", "none.jsonl"], "none.jsonl"),
        (&["eval", "p.nlog", "-i", "folder"], "folder"),
        (&["controller", "--config", "none.toml"], "none.toml"),
        (&["apply", "-f", "none.yaml"], "none.yaml"),
        (&["get", "status", "--controller", "unix:/none/none.sock"], "none.sock"),
    ] {
        let outcome = folder.weft(arguments);
        outcome.has_status(3);
        assert_eq!(outcome.stdout, "", "{arguments:?}");
        assert!(
            outcome.stderr.starts_with("error: ") && outcome.stderr.contains(named),
            "{}",
            outcome.stderr
        );
    }
}

#[test]
fn a_folder_that_cannot_be_read_is_a_failure_outside() {
    let folder = folder();
    folder.write("secret/p.nlog", PROGRAM);
    fs::set_permissions(folder.path("secret"), fs::Permissions::from_mode(0o000)).unwrap();
    let readable = fs::read_dir(folder.path("secret")).is_ok();
    let outcome = folder.weft(&["check", "secret"]);
    fs::set_permissions(folder.path("secret"), fs::Permissions::from_mode(0o700)).unwrap();
    // Root reads everything.
    outcome.has_status(if readable { 0 } else { 3 });
}

#[test]
fn a_full_disk_is_a_failure_outside() {
    let folder = folder();
    for arguments in [&["eval", "p.nlog", "-i", "t.jsonl"][..], &["check", "--json", "bad.nlog"]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let child = folder.command(arguments).stdout(full).stderr(Stdio::piped()).spawn().unwrap();
        let outcome = crate::support::finish(child);
        assert!(outcome.has_status(3).stderr.contains("No space left"), "{}", outcome.stderr);
    }
}

#[test]
fn a_reader_that_has_enough_ends_the_run_quietly() {
    let folder = folder();
    let mut many = String::new();
    for x in 0..30_000 {
        writeln!(many, "{{\"insert\":{{\"i\":[[{x},\"{x}\"]]}}}}").unwrap();
    }
    folder.write("many.jsonl", many);
    let mut command = folder.command(&["eval", "p.nlog", "-i", "many.jsonl"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert_eq!(first, "{\"txn\":1,\"insert\":{\"o\":[[0,\"0\"]]},\"delete\":{}}\n");
    let outcome = crate::support::finish(child);
    assert_eq!(outcome.has_status(0).stderr, "");
}

#[test]
fn standard_error_that_nobody_reads_changes_nothing() {
    let folder = folder();
    folder.write("t.jsonl", "{\n{\"insert\":{\"i\":[[1,\"a\"]]}}\n");
    for arguments in
        [&["eval", "p.nlog", "-i", "t.jsonl"][..], &["check", "bad.nlog"], &["check", "none.nlog"]]
    {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = folder.command(arguments).stderr(full).output().unwrap();
        let usual = folder.weft(arguments);
        assert_eq!(output.status.code(), usual.status, "{arguments:?}");
        assert_eq!(String::from_utf8(output.stdout).unwrap(), usual.stdout);
    }
}

#[test]
fn each_line_is_answered_before_the_next_one_comes() {
    let folder = folder();
    for way in crate::support::WAYS {
        let mut command = folder.command(&[&["eval", "p.nlog", "-i", "-"], way].concat());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, answers) = mpsc::channel();
        thread::spawn(move || stdout.lines().for_each(|line| drop(sender.send(line.unwrap()))));
        for x in 1..=5 {
            writeln!(stdin, "{{\"insert\":{{\"i\":[[{x},\"s\"]]}}}}").unwrap();
            let answer = answers.recv_timeout(DEADLINE).expect("an answer before the input ends");
            assert_eq!(answer, format!("{{\"txn\":{x},\"insert\":{{\"o\":[[{x},\"s\"]]}},\"delete\":{{}}}}"));
        }
        drop(stdin);
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn an_interrupt_ends_a_run_that_waits() {
    let folder = folder();
    let mut command = folder.interruptible(&["eval", "p.nlog", "-i", "-", "--workers", "2"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    writeln!(stdin, "{{}}").unwrap();
    let mut first = [0];
    child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let until = Instant::now() + DEADLINE;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < until, "it goes on after an interrupt");
        thread::sleep(Duration::from_millis(5));
    };
    assert_eq!(status.signal(), Some(2));
    drop(stdin);
}

#[test]
fn long_lines_and_deep_ones_do_no_harm() {
    let folder = folder();
    let long = "x".repeat(5_000_000);
    let lines = [
        format!("{{\"insert\":{{\"i\":[[1,\"{long}\"]]}}}}"),
        format!("{{\"insert\":{{\"i\":[[2,\"{long}"),
        format!("{{\"note\":{}", "[".repeat(1_000_000)),
        format!("{{\"insert\":{{\"i\":[[3,{}]]}}}}", "[".repeat(1_000_000)),
        "\u{0}".to_owned(),
        format!("{{\"insert\":{{\"i\":[[\"{long}\",\"\"]]}}}}"),
        "{\"insert\":{\"i\":[[4,\"\"]]}}".to_owned(),
    ];
    folder.write("t.jsonl", lines.join("\n"));
    let outcome = folder.weft(&["eval", "p.nlog", "-i", "t.jsonl"]);
    let printed = outcome.has_status(1).lines();
    assert_eq!(printed.len(), lines.len());
    assert_eq!(printed[0].len(), long.len() + r#"{"txn":1,"insert":{"o":[[1,""]]},"delete":{}}"#.len());
    for (line, code) in
        [(1, "bad-json"), (2, "bad-json"), (3, "bad-json"), (4, "bad-json"), (5, "type-mismatch")]
    {
        assert!(
            printed[line].contains(&format!("\"code\":\"{code}\"")) && printed[line].len() < 2000,
            "{line}"
        );
    }
    assert_eq!(printed[6], r#"{"txn":7,"insert":{"o":[[4,""]]},"delete":{}}"#);
    assert!(outcome.stderr.len() < 10_000);
}

#[test]
fn bytes_that_are_no_utf8_are_bad_json() {
    let folder = folder();
    let outcome = folder.weft_reading(b"{\"note\":\"\xff\"}\n\xff\xfe\n{}\n", &["eval", "p.nlog", "-i", "-"]);
    let printed = outcome.has_status(1).lines();
    assert!(printed[0].starts_with(r#"{"txn":1,"error":{"code":"bad-json""#), "{}", printed[0]);
    assert!(printed[1].starts_with(r#"{"txn":2,"error":{"code":"bad-json""#), "{}", printed[1]);
    assert_eq!(printed[2], r#"{"txn":3,"insert":{},"delete":{}}"#);
}

#[test]
fn a_large_transaction_goes_through_in_one_piece() {
    let folder = folder();
    let row = |x: usize| format!("[{x},\"port {x}\"]");
    let all = (0..200_000).map(row).collect::<Vec<_>>().join(",");
    let program = "input table i(x: int, s: string) key(x);\noutput table o(n: int);\noutput table odd(s: string);\no(count(x)) :- i(x, _);\nodd(s) :- i(x, s), x & 1 == 1, x > 199990;\n";
    folder
        .write("p.nlog", program)
        .write("t.jsonl", format!("{{\"insert\":{{\"i\":[{all}]}}}}\n{{\"delete\":{{\"i\":[{all}]}}}}\n"));
    for way in crate::support::WAYS {
        let outcome = folder.weft(&[&["eval", "p.nlog", "-i", "t.jsonl"], way].concat());
        let odd =
            r#""odd":[["port 199991"],["port 199993"],["port 199995"],["port 199997"],["port 199999"]]"#;
        let tables = format!("\"o\":[[200000]],{odd}");
        let wanted = format!(
            "{{\"txn\":1,\"insert\":{{{tables}}},\"delete\":{{}}}}\n{{\"txn\":2,\"insert\":{{}},\"delete\":{{{tables}}}}}\n"
        );
        assert_eq!(outcome.has_status(0).stdout, wanted);
    }
}

#[test]
fn colour_is_for_terminals_alone() {
    let folder = folder();
    let plain = folder.weft(&["check", "bad.nlog"]).stderr;
    assert!(!plain.contains('\u{1b}'));
    // `script` (of util-linux) gives a command a terminal.
    let line = format!("{} check bad.nlog", env!("CARGO_BIN_EXE_weft"));
    let mut script = Command::new("script");
    script
        .args(["-qec", &line, "/dev/null"])
        .current_dir(folder.path(""))
        .env("TERM", "xterm")
        .stdin(Stdio::null());
    match script.output() {
        Ok(output) => {
            assert!(String::from_utf8_lossy(&output.stdout).contains('\u{1b}'), "colour on a terminal");
        }
        Err(_) => {
            eprintln!("\n*** NOT TESTED on a terminal: there is no `script` (apt-get install bsdutils)\n");
        }
    }
}

#[test]
fn help_that_cannot_be_written_is_a_failure_outside() {
    let folder = folder();
    for arguments in [&["--help"][..], &["--version"], &["apply", "--help"]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = folder.command(arguments).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{arguments:?}");
        assert!(String::from_utf8_lossy(&output.stderr).starts_with("error: standard output: "));
        folder.weft(arguments).has_status(0);
    }
    folder.weft(&["no-such-command"]).has_status(2);
    folder.weft(&[]).has_status(2);
}

#[test]
fn objects_that_are_not_utf8_are_rejected() {
    let folder = folder();
    folder.write("net.yaml", b"kind: switch\nid: \xff\n");
    for file in ["net.yaml", "-"] {
        let outcome = folder.weft_reading(b"kind: switch\nid: \xff\n", &["apply", "-f", file]);
        assert!(outcome.has_status(1).stderr.contains(": not UTF-8 at byte 17; "), "{}", outcome.stderr);
    }
}
