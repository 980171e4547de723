//! `weft fmt`: the files that it formats, those that it leaves alone, and its messages.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use crate::support::Folder;

const LOOSE: &str = "input table a( x:int );\r\noutput table b(x: int);\nb(x):-a(x);# all";
const LAID_OUT: &str = "input table a(x: int);\noutput table b(x: int);\nb(x) :- a(x); # all\n";

fn read(folder: &Folder, name: &str) -> String {
    fs::read_to_string(folder.path(name)).unwrap()
}

#[test]
fn files_change_once_and_are_named() {
    let folder = Folder::new();
    folder.write("a.nlog", LOOSE).write("b.nlog", LAID_OUT);
    let first = folder.weft(&["fmt", "a.nlog", "b.nlog", "./a.nlog"]);
    assert_eq!((first.status, first.stdout.as_str(), first.stderr.as_str()), (Some(0), "", "a.nlog\n"));
    assert_eq!(read(&folder, "a.nlog"), LAID_OUT);
    let second = folder.weft(&["fmt", "a.nlog", "b.nlog"]);
    assert_eq!((second.status, second.stderr.as_str()), (Some(0), ""));
    let left = fs::read_dir(folder.path(".")).unwrap().count();
    assert_eq!(left, 2, "a temporary file is left");
}

#[test]
fn a_folder_is_all_its_programs_and_no_import() {
    let folder = Folder::new();
    folder
        .write("p/a.nlog", "import \"../outside.nlog\";\n\n\n")
        .write("p/deep/b.test.nlog", "test \"x\"{}")
        .write("p/.hidden/c.nlog", LOOSE)
        .write("p/notes.txt", LOOSE)
        .write("outside.nlog", LOOSE)
        .write("empty/x.txt", "");
    symlink("..", folder.path("p/deep/up")).unwrap();
    let outcome = folder.weft(&["fmt", "p"]);
    assert_eq!((outcome.status, outcome.stderr.as_str()), (Some(0), "p/a.nlog\np/deep/b.test.nlog\n"));
    assert_eq!(read(&folder, "p/deep/b.test.nlog"), "test \"x\" {}\n");
    for other in ["p/.hidden/c.nlog", "p/notes.txt", "outside.nlog"] {
        assert_eq!(read(&folder, other), LOOSE, "{other}");
    }
    assert!(folder.weft(&["fmt", "empty"]).has_status(1).stderr.contains("contain no *.nlog file"));
    folder.weft(&["fmt", "p", "gone.nlog"]).has_status(3);
}

#[test]
fn check_changes_nothing_and_shows_where() {
    let folder = Folder::new();
    folder
        .write("a.nlog", LOOSE)
        .write("b.nlog", LAID_OUT)
        .write("c.nlog", "a(1); ")
        .write("d.nlog", "a(1);\r\n");
    folder.write("e.nlog", "a(1);");
    let outcome = folder.weft(&["fmt", "--check", "a.nlog", "b.nlog", "c.nlog", "d.nlog", "e.nlog"]);
    assert_eq!((outcome.status, outcome.stdout.as_str()), (Some(1), ""));
    assert_eq!(
        outcome.stderr,
        "a.nlog:1: would be laid out anew\n-input table a( x:int );\n+input table a(x: int);\n\
         c.nlog:1: white space at the end of the line\n\
         d.nlog:1: white space at the end of the line\n\
         e.nlog:1: the last line has no line break\n"
    );
    assert_eq!(read(&folder, "a.nlog"), LOOSE);
    assert_eq!(folder.weft(&["fmt", "--check", "b.nlog"]).has_status(0).stderr, "");
}

#[test]
fn a_file_with_mistakes_is_left_alone_and_the_others_are_not() {
    let folder = Folder::new();
    let mistaken = "b(x):-a(x;\nc(1)\n";
    folder.write("a.nlog", mistaken).write("b.nlog", LOOSE).write("c.nlog", b"a(1);\n\xff");
    let outcome = folder.weft(&["fmt", "."]);
    outcome.has_status(1);
    assert_eq!(read(&folder, "a.nlog"), mistaken);
    assert_eq!(read(&folder, "b.nlog"), LAID_OUT);
    assert_eq!(fs::read(folder.path("c.nlog")).unwrap(), b"a(1);\n\xff");
    assert!(outcome.stderr.contains("./c.nlog:2: the file is not UTF-8: byte 0xff"), "{}", outcome.stderr);
    // The same message as that of `weft check`.
    let checked = folder.weft(&["check", "./a.nlog"]).stderr;
    let mistakes: Vec<&str> = checked.split("\n\n").filter(|shown| shown.contains("error[syntax]")).collect();
    assert_eq!(mistakes.len(), 2, "{checked}");
    for mistake in mistakes {
        assert!(outcome.stderr.contains(mistake), "{mistake}\nis not in\n{}", outcome.stderr);
    }
}

#[test]
fn permissions_and_links_stay() {
    let folder = Folder::new();
    folder.write("a.nlog", LOOSE).write("kept.nlog", LOOSE);
    fs::set_permissions(folder.path("a.nlog"), fs::Permissions::from_mode(0o640)).unwrap();
    symlink("a.nlog", folder.path("link.nlog")).unwrap();
    folder.weft(&["fmt", "link.nlog"]).has_status(0);
    assert!(fs::symlink_metadata(folder.path("link.nlog")).unwrap().is_symlink());
    assert_eq!(read(&folder, "a.nlog"), LAID_OUT);
    assert_eq!(fs::metadata(folder.path("a.nlog")).unwrap().permissions().mode() & 0o777, 0o640);
    fs::set_permissions(folder.path("kept.nlog"), fs::Permissions::from_mode(0o444)).unwrap();
    let outcome = folder.weft(&["fmt", "kept.nlog"]);
    assert!(outcome.has_status(3).stderr.contains("kept.nlog: the file is read-only"), "{}", outcome.stderr);
    assert_eq!(read(&folder, "kept.nlog"), LOOSE);
}

#[test]
fn standard_input_becomes_standard_output() {
    let folder = Folder::new();
    let outcome = folder.weft_reading(LOOSE, &["fmt", "-"]);
    assert_eq!((outcome.status, outcome.stdout.as_str(), outcome.stderr.as_str()), (Some(0), LAID_OUT, ""));
    let outcome = folder.weft_reading("a(", &["fmt", "-"]);
    assert_eq!((outcome.status, outcome.stdout.as_str()), (Some(1), ""));
    assert!(outcome.stderr.contains("--> standard input:1:3"), "{}", outcome.stderr);
    folder.weft_reading(LOOSE, &["fmt", "--check", "-"]).has_status(1);
    folder.weft_reading(LAID_OUT, &["fmt", "--check", "-"]).has_status(0);
    folder.weft_reading("", &["fmt", "-", "a.nlog"]).has_status(2);
    folder.weft(&["fmt"]).has_status(2);
}

#[test]
fn only_files_are_formatted() {
    let folder = Folder::new();
    let fifo = folder.path("fifo.nlog");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for path in ["fifo.nlog", "/dev/zero"] {
        let outcome = folder.weft(&["fmt", path]);
        assert!(
            outcome.has_status(3).stderr.contains("is neither a file nor a folder"),
            "{}",
            outcome.stderr
        );
    }
}
