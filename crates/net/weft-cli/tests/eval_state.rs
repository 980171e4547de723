//! Saved states: a run that starts from one continues exactly like the run that saved it.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::process::Command;

use test_random::Random;

use crate::support::{Folder, WAYS};

const PROGRAM: &str = r#"
    type encap = enum {geneve, stt};
    input table a(k: string, v: int) key(k);
    input table b(x: int, to: opt<ip>, by: encap);
    output table z(k: string, v: int) key(k);
    output table y(v: int, n: int) key(v);
    output table fact(x: int);
    z(k, v) :- a(k, v), b(v, _, _);
    y(v, count(x)) :- a(_, v), b(x, _, "geneve"), x != v;
    fact(7);
"#;

/// A transaction that changes a few rows; some are refused.
fn transaction(random: &mut Random) -> String {
    let mut rows = |table: &str| {
        let rows: Vec<String> = (0..random.below(4))
            .map(|_| {
                let (small, key, to) = (random.below(5), random.below(6), random.below(3));
                match table {
                    "a" => format!(r#"["k{key}",{small}]"#),
                    _ if to == 0 => format!(r#"[{small},null,"stt"]"#),
                    _ => format!(r#"[{small},"10.0.0.{to}","geneve"]"#),
                }
            })
            .collect();
        format!(r#""{table}":[{}]"#, rows.join(","))
    };
    let (delete_a, delete_b) = (rows("a"), rows("b"));
    let (insert_a, insert_b) = (rows("a"), rows("b"));
    format!(r#"{{"delete":{{{delete_a},{delete_b}}},"insert":{{{insert_a},{insert_b}}}}}"#)
}

#[test]
fn a_run_in_parts_prints_what_one_run_prints() {
    let folder = Folder::new();
    folder.write("p.nlog", PROGRAM);
    for seed in 0..6 {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let history: Vec<String> = (0..30).map(|_| transaction(&mut random)).collect();
        // The first part of the first history is empty: facts then come with the second.
        let cuts = [random.below(15) * u64::from(seed > 0), 15 + random.below(15)].map(|cut| cut as usize);
        let parts = [&history[..cuts[0]], &history[cuts[0]..cuts[1]], &history[cuts[1]..]];
        // One worker of the engine can save derived rows too.
        for (way, derived) in WAYS.into_iter().map(|way| (way, false)).chain([(&[][..], true)]) {
            let save: &[&str] = if derived {
                &["--save-state", "state", "--save-derived"]
            } else {
                &["--save-state", "state"]
            };
            let run = |lines: &[String], more: &[&str]| {
                let input = lines.join("\n");
                folder.weft_reading(input, &[&["eval", "p.nlog", "-i", "-"], way, more].concat())
            };
            let whole = run(&history, &[]);
            let mut printed = run(parts[0], save).stdout;
            let second = run(parts[1], &[&["--state", "state"], save].concat());
            let third = run(parts[2], &["--state", "state"]);
            for outcome in [&second, &third] {
                assert!(!outcome.stderr.contains("derived again"), "{}", outcome.stderr);
                printed += &outcome.stdout;
            }
            assert_eq!(whole.stdout.lines().count(), 30, "{}", whole.stderr);
            assert_eq!(whole.stdout, printed, "{way:?}, parts of {cuts:?}");
            let contents = |lines: &[String], more: &[&str]| {
                run(lines, &[&["--final", "--tables", "all"], more].concat()).stdout
            };
            // With other tables, saved derived rows are not used.
            assert_eq!(
                contents(&history, &[]),
                contents(parts[2], &["--state", "state"]),
                "{way:?}, {cuts:?}"
            );
        }
    }
}

#[test]
fn a_state_is_for_programs_with_its_input_tables() {
    let folder = Folder::new();
    folder.write("p.nlog", PROGRAM).write("t.jsonl", r#"{"insert":{"b":[[1,null,"stt"]]}}"#);
    folder.weft(&["eval", "p.nlog", "-i", "t.jsonl", "--save-state", "state"]).has_status(0);
    assert_eq!(
        fs::read_dir(folder.path("")).unwrap().count(),
        3,
        "nothing but the program, the transactions and the state"
    );
    let with = |program: &str| {
        folder.write("p.nlog", program);
        folder.weft_reading("{}", &["eval", "p.nlog", "-i", "-", "--state", "state"])
    };
    // Rules and what they fill may change.
    let other = with(&PROGRAM.replace("fact", "truth").replace("x != v", "x > v"));
    assert_eq!(other.has_status(0).stdout, "{\"txn\":2,\"insert\":{},\"delete\":{}}\n");
    let other = with(&PROGRAM.replace("to: opt<ip>", "to: opt<net>"));
    assert_eq!(other.has_status(1).stdout, "");
    let (theirs, ours) = ("opt<ip>", "opt<net>");
    let signature = |to| format!("(x: int, to: {to}, by: encap{{\"geneve\", \"stt\"}})");
    let why = format!(
        "error: the state state cannot be used: the state was saved from a program with different input tables: table b is {} in the state and {} in the program\n",
        signature(theirs),
        signature(ours)
    );
    assert_eq!(other.stderr, why);
    let refused = with(&format!(
        "{PROGRAM} output table one(n: int) key(n); one(9223372036854775807 + x) :- b(x, _, _);"
    ));
    refused.has_status(1);
    assert!(
        refused.stderr.contains("the program refuses its rows: overflow: table one: "),
        "{}",
        refused.stderr
    );
}

#[test]
fn derived_rows_that_cannot_be_used_are_derived_again() {
    let folder = Folder::new();
    let rows = r#"{"insert":{"a":[["k",1]],"b":[[1,null,"stt"],[2,"10.0.0.1","geneve"]]}}"#;
    folder.write("p.nlog", PROGRAM).write("t.jsonl", rows);
    let save = ["eval", "p.nlog", "-i", "t.jsonl", "--save-state", "state"];
    folder.weft(&save).has_status(0);
    let plain = fs::read(folder.path("state")).unwrap();
    folder.weft(&[&save[..], &["--save-derived"]].concat()).has_status(0);
    let state = fs::read(folder.path("state")).unwrap();
    assert_eq!(state[..plain.len()], plain, "derived rows follow the state");
    let next = r#"{"delete":{"a":[["k",1]]}}"#;
    let wanted = "{\"txn\":2,\"insert\":{},\"delete\":{\"y\":[[1,1]],\"z\":[[\"k\",1]]}}\n";
    let go_on = |program: &str, bytes: &[u8]| {
        folder.write("p.nlog", program).write("state", bytes);
        folder.weft_reading(next, &["eval", "p.nlog", "-i", "-", "--state", "state"])
    };
    assert_eq!(go_on(PROGRAM, &state).has_status(0).stdout, wanted);
    assert_eq!(go_on(PROGRAM, &state).stderr, "");
    let other = PROGRAM.replace("z(k, v) :- a(k, v), b(v, _, _);", "z(k, v) :- b(v, _, _), a(k, v), v < 9;");
    let mut damaged = state.clone();
    damaged[plain.len() + 1000] ^= 1;
    for (program, bytes, why) in [
        (&other[..], &state, "another program has derived them, or a run that observed other tables"),
        (PROGRAM, &damaged, "they are damaged or truncated"),
    ] {
        let outcome = go_on(program, bytes);
        assert_eq!(outcome.has_status(0).stdout, wanted, "{why}");
        let told = format!("the derived rows in state are not used, all rows are derived again: {why}\n");
        assert_eq!(outcome.stderr, told);
    }
    // Without its end, the file is no state.
    go_on(PROGRAM, &state[..state.len() - 1]).has_status(1);
    // Commands that need the inputs alone read them.
    folder.write("p.nlog", PROGRAM).write("state", &state);
    folder.weft(&["plan", "p.nlog", "--stats", "state"]).has_status(0);
    folder.weft(&["profile", "p.nlog", "-i", "t.jsonl", "--state", "state"]).has_status(0);
}

#[test]
fn derived_rows_are_saved_by_one_worker_of_the_engine() {
    let folder = Folder::new();
    folder.write("p.nlog", PROGRAM).write("t.jsonl", "");
    let save = ["eval", "p.nlog", "-i", "t.jsonl", "--save-state", "state", "--save-derived"];
    for way in [&["--workers", "2"][..], &["--engine", "composed"], &["--reference"]] {
        folder.weft(&[&save[..], way].concat()).has_status(2);
    }
    folder.weft(&["eval", "p.nlog", "-i", "t.jsonl", "--save-derived"]).has_status(2);
    assert!(!folder.path("state").exists(), "nothing was run");
}

#[test]
fn what_is_no_state_is_told() {
    let folder = Folder::new();
    folder.write("p.nlog", PROGRAM).write("t.jsonl", r#"{"insert":{"a":[["k",1]]}}"#);
    folder.weft(&["eval", "p.nlog", "-i", "t.jsonl", "--save-state", "state"]).has_status(0);
    let state = fs::read(folder.path("state")).unwrap();
    let with = |bytes: &[u8]| {
        folder.write("state", bytes);
        folder.weft(&["eval", "p.nlog", "-i", "t.jsonl", "--state", "state"])
    };
    for (bytes, why) in [
        (&b"{}"[..], "not a saved state"),
        (&state[..state.len() - 1], "the state is damaged or truncated: checksum mismatch"),
    ] {
        let outcome = with(bytes);
        outcome.has_status(1);
        assert!(outcome.stderr.contains(why) && outcome.stdout.is_empty(), "{}", outcome.stderr);
    }
    with(&state).has_status(0);
    folder.weft(&["eval", "p.nlog", "-i", "t.jsonl", "--state", "no"]).has_status(3);
    folder.weft(&["eval", "p.nlog", "-i", "t.jsonl", "--save-state", "no/state"]).has_status(3);
    // An existing state stays unchanged if a new one cannot be written.
    fs::create_dir(folder.path("folder")).unwrap();
    folder.weft(&["eval", "p.nlog", "-i", "t.jsonl", "--save-state", "folder"]).has_status(3);
    assert_eq!(fs::read_dir(folder.path("")).unwrap().count(), 4, "no unfinished file is left");
}

#[test]
fn a_state_takes_the_place_of_files_alone() {
    let folder = Folder::new();
    folder.write("p.nlog", PROGRAM).write("t.jsonl", r#"{"insert":{"a":[["k",1]]}}"#);
    let save = |to: &str| folder.weft(&["eval", "p.nlog", "-i", "t.jsonl", "--save-state", to]);
    save("state").has_status(0);
    let state = fs::read(folder.path("state")).unwrap();

    let fifo = folder.path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    symlink("/dev/null", folder.path("null")).unwrap();
    symlink("nowhere", folder.path("dangling")).unwrap();
    for (to, why) in [
        ("/dev/full", "it is a device, not a file"),
        ("null", "it is a device, not a file"),
        ("fifo", "it is a FIFO, not a file"),
        ("dangling", "it is a link to nowhere, which does not exist"),
    ] {
        let before = fs::symlink_metadata(folder.path(to)).unwrap();
        let outcome = save(to);
        assert!(outcome.has_status(3).stderr.contains(why), "{}", outcome.stderr);
        assert_eq!(outcome.stdout, "", "nothing was run");
        let after = fs::symlink_metadata(folder.path(to)).unwrap();
        assert_eq!((before.ino(), before.mode()), (after.ino(), after.mode()), "{to}");
    }

    // A link stays a link, and its file keeps its permissions.
    folder.write("kept/real", "old");
    fs::set_permissions(folder.path("kept/real"), Permissions::from_mode(0o640)).unwrap();
    symlink("kept/real", folder.path("link")).unwrap();
    save("link").has_status(0);
    assert!(fs::symlink_metadata(folder.path("link")).unwrap().is_symlink());
    assert_eq!(fs::read(folder.path("kept/real")).unwrap(), state);
    assert_eq!(fs::metadata(folder.path("kept/real")).unwrap().mode() & 0o777, 0o640);
    fs::set_permissions(folder.path("kept/real"), Permissions::from_mode(0o440)).unwrap();
    assert!(save("link").has_status(3).stderr.contains("the file is read-only"));
    assert_eq!(fs::read_dir(folder.path("kept")).unwrap().count(), 1, "no unfinished file is left");
}
