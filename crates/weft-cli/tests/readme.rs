//! What the README shows is what happens.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

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

#[test]
fn the_tour_shows_what_a_mistake_brings() {
    let folder = tempfile::tempdir().unwrap();
    let program = fs::read_to_string(root().join("examples/tour.nlog")).unwrap();
    let broken = folder.path().join("broken.nlog");
    fs::write(&broken, program.replace("host_address(there", "host_adress(there")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_weft")).arg("check").arg(&broken).output().unwrap();
    let said =
        String::from_utf8(output.stderr).unwrap().replace(&broken.display().to_string(), "/tmp/broken.nlog");
    let command = "sed 's/host_address(there/host_adress(there/' examples/tour.nlog > /tmp/broken.nlog; weft check /tmp/broken.nlog";
    let shown = shown_after(command);
    assert!(!shown.is_empty() && said.starts_with(&shown), "shown:\n{shown}\nsaid:\n{said}");
}

#[test]
fn the_tour_shows_what_a_test_says() {
    let test = fs::read_to_string(root().join("examples/tour.test.nlog")).unwrap();
    let (_, tests) = test.split_once("\n\n").unwrap();
    let indent = |line: &str| if line.is_empty() { "\n".to_owned() } else { format!("    {line}\n") };
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let shown: String = tests.lines().map(indent).collect();
    assert!(readme.contains(&shown), "not as shown:\n{shown}");

    let folder = tempfile::tempdir().unwrap();
    let program = fs::read_to_string(root().join("examples/tour.nlog")).unwrap();
    let broken = program.replace("machine(vm, network,", "machine(vm, _,");
    fs::write(folder.path().join("tour.nlog"), broken).unwrap();
    fs::write(folder.path().join("tour.test.nlog"), test).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_weft")).arg("test").arg(folder.path()).output().unwrap();
    let said =
        String::from_utf8(output.stderr).unwrap().replace(&folder.path().display().to_string(), "/tmp/tour");
    let command = "    $ mkdir /tmp/tour; cp examples/tour.* /tmp/tour; sed -i 's/machine(vm, network,/machine(vm, _,/' /tmp/tour/tour.nlog; weft test /tmp/tour\n";
    let shown: String = said.lines().map(indent).collect();
    assert!(readme.contains(&format!("{command}{shown}\n")), "not as shown:\n{shown}");
}
