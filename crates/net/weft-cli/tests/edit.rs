//! `weft edit`, with scripts as editors.

use std::fs;
use std::process::Stdio;

use crate::get::controller;
use crate::routes::Controller;
use crate::support::{Outcome, finish};

/// Edits desk `a` by a script, which has the name of the file in `$1`, and in `$turn` how often it was started.
fn edit(controller: &Controller, script: &str) -> Outcome {
    let folder = &controller.folder;
    let counted =
        "turn=$(( $(cat turn 2>/dev/null || echo 0) + 1 ))\necho $turn > turn\ncp \"$1\" \"seen$turn\"\n";
    folder.write("editor.sh", format!("{counted}{script}\n")).write("turn", "0\n");
    let mut command = folder.command(&["edit", "desk", "a"]);
    command
        .env_remove("VISUAL")
        .env("EDITOR", "sh -e editor.sh")
        .env("WEFT_CONTROLLER", controller.address());
    command.env("WEFT", env!("CARGO_BIN_EXE_weft")).env("TMPDIR", folder.path(""));
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    finish(child)
}

/// The file that the editor found when it was started for this time.
fn seen(controller: &Controller, turn: u32) -> String {
    fs::read_to_string(controller.folder.path(&format!("seen{turn}"))).unwrap()
}

fn desk(controller: &Controller) -> String {
    controller.weft(&["get", "desk", "a", "--json"]).has_status(0).stdout.clone()
}

#[test]
fn what_was_edited_is_applied_and_told() {
    let controller = controller();
    let outcome = edit(&controller, "sed -i 's/^number: .*/number: 7/; /^below/d' \"$1\"");
    assert_eq!(
        outcome.has_status(0).stdout,
        "desk a: updated\n  number: 1 -> 7\n  below: hv1 -> \"\" (not in the file)\n"
    );
    assert_eq!(
        seen(&controller, 1),
        "# Edit desk a, save the file and leave the editor. To change nothing, leave it as it is.\n\
         kind: desk\nid: a\nlabels:\n  app: web\n  tier: one\nsockets: []\nswitch: blue\nnumber: 1\nbelow: hv1\nrevision: 1\n"
    );
    assert!(desk(&controller).contains("\"number\":7"));
    let left = fs::read_dir(controller.folder.path("")).unwrap().filter_map(Result::ok);
    let left = left.filter(|entry| entry.file_name().to_string_lossy().ends_with(".yaml")).count();
    assert_eq!(left, 1, "the file is gone, and only that of the network is left");
}

#[test]
fn a_file_that_is_unchanged_or_empty_changes_nothing() {
    let controller = controller();
    let before = desk(&controller);
    for script in [":", ": > \"$1\"", "sed -i 1d \"$1\"", "echo '# nothing' > \"$1\""] {
        let outcome = edit(&controller, script);
        assert_eq!(
            (outcome.has_status(0).stdout.as_str(), outcome.stderr.as_str()),
            ("", "desk a: unchanged\n"),
            "{script}"
        );
    }
    let outcome = edit(&controller, "echo 'number: 9' >> \"$1\"; exit 3");
    assert!(
        outcome.has_status(3).stderr.ends_with("(exit status: 3); nothing was changed\n"),
        "{}",
        outcome.stderr
    );
    assert_eq!(desk(&controller), before);
}

#[test]
fn faults_are_comments_on_top_of_the_file_that_opens_again() {
    let controller = controller();
    let script = "if [ $turn = 1 ]; then sed -i 's/^number: .*/number: many/; s/^switch: .*/switch: green/' \"$1\"\n\
                  else sed -i 's/^number: .*/number: 8/; s/^switch: .*/switch: red/' \"$1\"; fi";
    let outcome = edit(&controller, script);
    assert_eq!(outcome.has_status(0).stdout, "desk a: updated\n  switch: blue -> red\n  number: 1 -> 8\n");
    let again = seen(&controller, 2);
    let (comments, text) = again.split_once("kind: desk\n").unwrap();
    assert!(comments.lines().any(|line| line == "# number: must be a whole number, not text"), "{again}");
    assert!(comments.lines().all(|line| line.starts_with("# ")), "{again}");
    assert!(text.contains("\nnumber: many\n"), "the text is as it was left: {again}");

    // Whoever gives up keeps the text.
    let before = desk(&controller);
    let outcome = edit(&controller, "if [ $turn = 1 ]; then sed -i 's/^number: .*/number: many/' \"$1\"; fi");
    assert!(
        outcome
            .has_status(1)
            .stderr
            .contains("number: must be a whole number, not text\nnothing was changed\n"),
        "{}",
        outcome.stderr
    );
    let kept = outcome.stderr.lines().find_map(|line| line.strip_prefix("your text is in ")).unwrap();
    assert!(fs::read_to_string(kept).unwrap().contains("\nnumber: many\n"));
    assert_eq!(desk(&controller), before);
}

#[test]
fn a_change_of_somebody_else_is_not_overwritten_unseen() {
    let controller = controller();
    let script = "if [ $turn = 1 ]; then $WEFT set desk a below=hv2 >/dev/null; sed -i '/^revision/d' \"$1\"; fi\n\
                  if [ $turn = 2 ]; then $WEFT set desk a below=hv3 >/dev/null; fi\n\
                  sed -i \"s/^number: .*/number: 2$turn/\" \"$1\"";
    let outcome = edit(&controller, script);
    assert_eq!(
        outcome.has_status(0).stdout,
        "desk a: updated\n  number: 1 -> 23\n  below: hv3 -> hv1\n",
        "{}",
        outcome.stderr
    );
    let again = seen(&controller, 2);
    assert!(again.contains("\n# below: hv2\n") && again.contains("\nbelow: hv1\n"), "{again}");
    assert!(again.contains("\nnumber: 21\n"), "{again}");
    assert!(again.contains(". weft set changed it last, at "), "{again}");
    assert!(again.contains("; since 1: below: \"hv1\" -> \"hv2\"\n"), "{again}");
    assert!(seen(&controller, 3).contains("\n# below: hv3\n"));
}

#[test]
fn a_file_with_an_old_revision_is_refused_with_what_has_changed() {
    let controller = controller();
    controller.weft(&["set", "desk", "a", "number=5"]).has_status(0);
    controller.folder.write("old.yaml", "{kind: desk, id: a, switch: blue, number: 9, revision: 1}\n");
    let old = controller.folder.path("old.yaml");
    let refused = controller.weft(&["apply", "-f", old.to_str().unwrap()]);
    let told = &refused.has_status(1).stderr;
    assert!(
        told.contains(": desk a: revision: is 1, but transaction 2 has changed the object since;"),
        "{told}"
    );
    assert!(told.contains(". weft set changed it last, at "), "{told}");
    assert!(told.trim_end().ends_with("; since 1: number: 1 -> 5"), "{told}");
}
