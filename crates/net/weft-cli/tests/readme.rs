//! The examples in the README are correct.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::process::Command;

use crate::support::root;

/// The README's indented lines that follow a command, up to the next blank line or command.
fn shown_after(command: &str) -> String {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let (_, after) = readme.split_once(&format!("    $ {command}\n")).expect("the README has this command");
    let lines = after.lines().take_while(|line| line.starts_with("    ") && !line.starts_with("    $ "));
    lines.flat_map(|line| [&line[4..], "\n"]).collect()
}

#[test]
fn the_tour_shows_the_example_program() {
    let program = fs::read_to_string(root().join("examples/tour.nlog")).unwrap();
    let (_, declarations) = program.split_once("\n\n").unwrap();
    let indent = |line: &str| if line.is_empty() { "\n".to_owned() } else { format!("    {line}\n") };
    let shown: String = declarations.lines().map(indent).collect();
    assert!(fs::read_to_string(root().join("README.md")).unwrap().contains(&shown), "not as shown:\n{shown}");
}

#[test]
fn the_tour_shows_what_the_commands_print() {
    assert_eq!(
        shown_after("cat examples/tour.jsonl"),
        fs::read_to_string(root().join("examples/tour.jsonl")).unwrap()
    );
    let eval = ["eval", "examples/tour.nlog", "-i", "examples/tour.jsonl"];
    let output = Command::new(env!("CARGO_BIN_EXE_weft")).args(eval).current_dir(root()).output().unwrap();
    assert_eq!(shown_after(&format!("weft {}", eval.join(" "))), String::from_utf8(output.stdout).unwrap());
}
