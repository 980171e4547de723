//! A story: consecutive pages in a separate folder.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::block::{Form, Place};
use super::compare::{difference, matches};
use super::page::{Fenced, Page};
use super::shell::Shell;

struct Story {
    /// The folder of the story, like one that a reader makes in a clone.
    folder: PathBuf,
    shell: Option<Shell>,
    /// The lab's name, unique on the machine.
    lab: String,
    /// The `.nlog` files so far, in order.
    programs: Vec<String>,
    bless: bool,
    /// Whether a command of the shell did not end: no later one would.
    stuck: bool,
}

/// Lines of a page to replace: the first, their number, and the new lines.
type Edit = (usize, usize, Vec<String>);

/// Runs the story of the pages. Returns the failures, each with its place.
pub(crate) fn run(name: &str, pages: &[Page]) -> Vec<String> {
    tell(name, pages, std::env::var_os("UPDATE_EXPECT").is_some())
}

/// The same; `bless` writes the output of commands into the pages.
fn tell(name: &str, pages: &[Page], bless: bool) -> Vec<String> {
    let lab = format!("book-{name}-{}", std::process::id());
    let clone = tempfile::tempdir().unwrap();
    let folder = like_a_clone(clone.path());
    let mut story = Story { folder, shell: None, lab, programs: Vec::new(), bless, stuck: false };
    let mut failures = Vec::new();
    for page in pages {
        let blocks = match page.blocks() {
            Ok(blocks) => blocks,
            Err((line, reason)) => {
                failures.push(format!("{}:{line}: {reason}", page.name));
                continue;
            }
        };
        let mut edits = Vec::new();
        for block in &blocks {
            let told = Form::of(block).and_then(|form| story.tell(block, &form, &mut edits));
            if let Err(reason) = told {
                failures.push(format!("{}:{}: {reason}", page.name, block.line));
            }
            if story.stuck {
                return failures;
            }
        }
        write_edits(page, edits);
    }
    failures
}

/// Makes a folder for a story, with the repository's folders beside it.
fn like_a_clone(clone: &Path) -> PathBuf {
    for folder in ["rules", "examples"] {
        std::os::unix::fs::symlink(crate::support::root().join(folder), clone.join(folder)).unwrap();
    }
    let folder = clone.join("tutorial");
    fs::create_dir(&folder).unwrap();
    folder
}

impl Story {
    fn tell(&mut self, block: &Fenced, form: &Form, edits: &mut Vec<Edit>) -> Result<(), String> {
        match form {
            Form::Nlog { place, errors, warnings } => {
                self.nlog(block, place, errors, warnings)?;
                // A file must have the canonical layout; a fragment may have any.
                if matches!(place, Place::Fragment(_)) { Ok(()) } else { self.layout(block, edits) }
            }
            Form::Data { file, json } => self.data(block, file, *json),
            Form::Console { exit } => self.console(block, *exit, edits),
            // The grammar has tests of its own.
            Form::Setup | Form::Grammar | Form::Figure => Ok(()),
        }
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }

    fn write(&self, file: &str, text: &str) -> Result<(), String> {
        let path = self.path(file);
        fs::create_dir_all(path.parent().unwrap()).map_err(|error| error.to_string())?;
        fs::write(path, text).map_err(|error| format!("{file}: {error}"))
    }

    fn data(&self, block: &Fenced, file: &str, json: bool) -> Result<(), String> {
        let text = joined(&block.lines);
        if json {
            for value in serde_json::Deserializer::from_str(&text).into_iter::<serde_json::Value>() {
                value.map_err(|error| format!("no JSON: {error}"))?;
            }
        }
        self.write(file, &text)
    }

    fn nlog(
        &mut self,
        block: &Fenced,
        place: &Place,
        errors: &[String],
        warnings: &[String],
    ) -> Result<(), String> {
        let text = joined(&block.lines);
        match place {
            Place::File(file) => {
                self.write(file, &text)?;
                self.programs.retain(|known| known != file);
                self.programs.push(file.clone());
                self.check(std::slice::from_ref(file), errors, warnings, &[])
            }
            Place::Append(file) => {
                let before =
                    fs::read_to_string(self.path(file)).map_err(|error| format!("{file}: {error}"))?;
                self.write(file, &format!("{before}\n{text}"))?;
                self.check(std::slice::from_ref(file), errors, warnings, &[])
            }
            Place::Fragment(with) => {
                let mut files = match with {
                    Some(file) => vec![file.clone()],
                    None => {
                        self.programs.iter().filter(|file| !file.ends_with(".test.nlog")).cloned().collect()
                    }
                };
                files.push("fragment.nlog".into());
                self.write("fragment.nlog", &text)?;
                // A fragment ends before the rules that read its tables.
                let checked = self.check(&files, errors, warnings, &["unused-table"]);
                fs::remove_file(self.path("fragment.nlog")).map_err(|error| error.to_string())?;
                checked
            }
        }
    }

    /// Checks that the block has the layout of `weft fmt`.
    fn layout(&self, block: &Fenced, edits: &mut Vec<Edit>) -> Result<(), String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let file = folder.path().join("block.nlog");
        fs::write(&file, joined(&block.lines)).map_err(|error| error.to_string())?;
        let output = Command::new(env!("CARGO_BIN_EXE_weft")).arg("fmt").arg(&file).output();
        let output = output.map_err(|error| error.to_string())?;
        if !output.status.success() {
            return Err(format!("`weft fmt` fails: {}", String::from_utf8_lossy(&output.stderr)));
        }
        let text = fs::read_to_string(&file).map_err(|error| error.to_string())?;
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        if lines == block.lines {
            return Ok(());
        }
        if self.bless {
            edits.push((block.line + 1, block.lines.len(), lines));
            return Ok(());
        }
        Err(format!("`weft fmt` lays it out anew:\n{}", difference(&block.lines, &lines)))
    }

    /// Checks files as one program, which must report exactly these codes, apart from irrelevant ones.
    fn check(
        &self,
        files: &[String],
        errors: &[String],
        warnings: &[String],
        ignored: &[&str],
    ) -> Result<(), String> {
        let output = Command::new(env!("CARGO_BIN_EXE_weft"))
            .args(["check", "--json"])
            .args(files)
            .current_dir(&self.folder)
            .output()
            .map_err(|error| error.to_string())?;
        let mut found: BTreeMap<&str, Vec<String>> = BTreeMap::from([("error", vec![]), ("warning", vec![])]);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        for line in said.lines() {
            let report: serde_json::Value =
                serde_json::from_str(line).map_err(|error| format!("{error}: {line}"))?;
            let code = report["code"].as_str().unwrap_or_default();
            let severity = report["severity"].as_str().unwrap_or_default();
            let codes = found.entry(if severity == "error" { "error" } else { "warning" }).or_default();
            if !ignored.contains(&code) || warnings.iter().any(|wanted| wanted == code) {
                codes.push(code.to_owned());
            }
        }
        for codes in found.values_mut() {
            codes.sort();
            codes.dedup();
        }
        if found["error"] != errors || found["warning"] != warnings {
            let told = String::from_utf8_lossy(&output.stderr);
            return Err(format!(
                "`weft check` reports errors {:?} and warnings {:?}, not {errors:?} and {warnings:?}:\n{said}{told}",
                found["error"], found["warning"]
            ));
        }
        Ok(())
    }

    fn console(&mut self, block: &Fenced, exit: i32, edits: &mut Vec<Edit>) -> Result<(), String> {
        let shell = self.shell.get_or_insert_with(|| Shell::start(&self.folder, &self.lab));
        let commands = commands(block)?;
        let mut failures = Vec::new();
        for (at, command) in commands.iter().enumerate() {
            let outcome = shell.run(&command.text);
            let outcome = outcome.map_err(|error| {
                self.stuck = true;
                format!("`{}`: {error}{}", command.text, logs(&self.folder))
            })?;
            let place = block.line + 1 + command.prints_at;
            if !matches(command.prints, &outcome.lines) {
                if self.bless {
                    edits.push((place, command.prints.len(), outcome.lines.clone()));
                } else {
                    let difference = difference(command.prints, &outcome.lines);
                    failures
                        .push(format!("`{}` prints otherwise (line {place}):\n{difference}", command.text));
                }
            }
            let asked = commands.get(at + 1).is_some_and(|next| next.text == "echo $?");
            let wanted = if at + 1 == commands.len() { exit } else { 0 };
            if outcome.status != wanted && !asked {
                failures.push(format!(
                    "`{}` exits with {}, not {wanted}; it printed:\n{}",
                    command.text,
                    outcome.status,
                    outcome.lines.join("\n")
                ));
            }
        }
        if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
    }
}

/// The ends of the logs in a folder: they may explain why a command timed out.
fn logs(folder: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "log") {
            let log = fs::read_to_string(&path).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let end = lines[lines.len().saturating_sub(30)..].join("\n");
            text += &format!("\nthe end of {}:\n{end}", path.display());
        }
    }
    text
}

/// A command of a block and the lines that it should print.
struct Shown<'a> {
    text: String,
    /// The start of its output, as an index of the block's lines.
    prints_at: usize,
    prints: &'a [String],
}

/// Reads commands: `$ command`, its further lines after `> `, then its output.
fn commands(block: &Fenced) -> Result<Vec<Shown<'_>>, String> {
    let lines = &block.lines;
    let mut commands = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let Some(first) = lines[at].strip_prefix("$ ") else {
            return Err("a console begins with a command: `$ …`".into());
        };
        let mut text = first.to_owned();
        at += 1;
        while let Some(more) = lines.get(at).and_then(|line| line.strip_prefix("> ")) {
            text = format!("{text}\n{more}");
            at += 1;
        }
        if text.contains("kill %") {
            // A job that ended between `kill` and `wait` can keep its number: the next one gets another, and a signal
            // to the ended one is lost without an error.
            return Err(format!("`{text}`: end the last job by `kill $!; wait`"));
        }
        let end = (at..lines.len()).find(|&line| lines[line].starts_with("$ ")).unwrap_or(lines.len());
        commands.push(Shown { text, prints_at: at, prints: &lines[at..end] });
        at = end;
    }
    if commands.is_empty() { Err("no command".into()) } else { Ok(commands) }
}

/// Writes the output of commands into the page.
fn write_edits(page: &Page, edits: Vec<Edit>) {
    if edits.is_empty() {
        return;
    }
    let mut lines: Vec<String> = page.text.lines().map(str::to_owned).collect();
    for (line, count, by) in edits.into_iter().rev() {
        lines.splice(line - 1..line - 1 + count, by);
    }
    fs::write(&page.path, joined(&lines)).unwrap();
}

fn joined(lines: &[String]) -> String {
    lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
}

#[test]
fn what_does_not_hold_is_told_with_its_place() {
    let page = |text: &str| {
        vec![Page { name: "p.md".into(), path: Path::new("/nowhere").into(), text: text.to_owned() }]
    };
    let tells = |text: &str, wanted: &[&str]| {
        let failures = tell("self", &page(text), false);
        assert_eq!(failures.len(), 1, "{failures:#?}");
        for part in wanted {
            assert!(failures[0].contains(part), "{part} is not in {}", failures[0]);
        }
    };
    tells("```console\n$ echo a\nb\n```\n", &["p.md:1", "line 3", "- b", "+ a"]);
    tells("a\n```console\n$ false\n```\n", &["p.md:2", "exits with 1"]);
    tells("```nlog file=a.nlog\noutput table a(x: int);\na(y) :- b(y);\n```\n", &["p.md:1", "unknown-table"]);
    tells("```nlog file=a.nlog error=recursion\noutput table a(x: int);\n```\n", &["p.md:1", "recursion"]);
    tells("```jsonl file=a\n{]\n```\n", &["p.md:1", "no JSON"]);
    tells("```ruby\n```\n", &["p.md:1", "ruby"]);
    tells("```console\n$ kill %1; wait\n```\n", &["p.md:1", "kill $!"]);
    tells("```console\n$ exit 3\n```\n```console\n$ echo a\n```\n", &["p.md:1", "the shell ended"]);
    let good = "```nlog file=a.nlog\noutput table a(x: int);\n```\n```nlog fragment\na(y) :- y = 1;\n```\n\
                ```console exit=1\n$ ls\na.nlog\n$ false\n```\n";
    assert_eq!(tell("self", &page(good), false), Vec::<String>::new());
}
