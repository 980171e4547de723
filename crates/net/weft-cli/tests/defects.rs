//! Defective networks: the first screen of `weft trace` names what is wrong, without being told where to look.
//!
//! Each file `defects/*.defect` is a defect: what it is, how the network differs from `network.yaml` and `reports.jsonl`, which packet is
//! traced, what the first lines must name, and the whole screen. `UPDATE_EXPECT=1` writes the screens and the page of the book: review the
//! difference line by line, because a screen that does not say what to change is a fault of the trace.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use expect_test::expect_file;
use serde_json::{Value, json};

use crate::support::{Folder, root};

/// The most lines of a screen.
const SCREEN: usize = 40;
/// The first lines of a screen, which name the defect.
const FIRST_LINES: usize = 12;
/// The tests between which the defects are divided.
const PARTS: usize = 4;
/// What stands between a defect and its screen.
const RULE: &str = "\n---\n";
/// What begins and continues the lines that the page of the book shows beside the verdict.
const CAUSES: [&str; 3] = ["cause: ", "       ", "problem: "];

/// What begins the lines that say what has changed in a packet that arrives.
const CHANGE: &str = "    ";
/// What begins the lines below one of a cause.
const DEEPER: &str = "        ";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/defects")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

/// A defect.
struct Defect {
    file: PathBuf,
    /// The lines of the file before the screen: a word, and what it is about.
    lines: Vec<(String, String)>,
    screen: String,
}

impl Defect {
    fn read(file: PathBuf) -> Defect {
        let text = read(&file);
        let (head, screen) = text.split_once(RULE).unwrap_or((&text, ""));
        let line = |line: &str| {
            let (word, rest) = line.split_once(": ").unwrap_or_else(|| panic!("{}: {line}", file.display()));
            (word.to_owned(), rest.to_owned())
        };
        let lines = head.lines().map(line).collect();
        Defect { lines, screen: screen.to_owned(), file }
    }

    fn all() -> Vec<Defect> {
        let files = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<PathBuf> =
            files.filter(|file| file.extension().is_some_and(|own| own == "defect")).collect();
        files.sort();
        files.into_iter().map(Defect::read).collect()
    }

    fn of(&self, word: &str) -> impl Iterator<Item = &str> {
        self.lines.iter().filter(move |(own, _)| own == word).map(|(_, rest)| &**rest)
    }

    /// What is wrong, in a sentence.
    fn what(&self) -> &str {
        self.of("defect").next().unwrap()
    }

    /// The network with the defect.
    fn write(&self, folder: &Folder) {
        let mut objects: BTreeMap<String, String> = BTreeMap::new();
        let mut order = Vec::new();
        let network = read(&folder_file("network.yaml"));
        for object in network.split("---\n").map(str::trim).chain(self.of("set")) {
            let name = name_of(object);
            if objects.insert(name.clone(), object.to_owned()).is_none() {
                order.push(name);
            }
        }
        for name in self.of("remove") {
            assert!(objects.remove(name).is_some(), "{}: no {name}", self.file.display());
        }
        let objects: Vec<&str> =
            order.iter().filter_map(|name| objects.get(name)).map(String::as_str).collect();
        folder.write("network.yaml", objects.join("\n---\n"));
        let reports = read(&folder_file("reports.jsonl"));
        let mut reports: Vec<Value> =
            reports.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        for (table, row) in self.rows("unreport") {
            let tables = reports.iter_mut().filter_map(|one| one["insert"].get_mut(&table)?.as_array_mut());
            let remove = |rows: &mut Vec<Value>| {
                let before = rows.len();
                rows.retain(|own| *own != row);
                before - rows.len()
            };
            let removed: usize = tables.map(remove).sum();
            assert_eq!(removed, 1, "{}: {table} {row}", self.file.display());
        }
        reports.extend(self.rows("report").map(|(table, row)| json!({"insert": {table: [row]}})));
        let lines: Vec<String> = reports.iter().map(Value::to_string).collect();
        folder.write("reports.jsonl", lines.join("\n") + "\n");
    }

    fn rows(&self, word: &str) -> impl Iterator<Item = (String, Value)> {
        self.of(word).map(|line| {
            let (table, row) = line.split_once(' ').unwrap();
            (table.to_owned(), serde_json::from_str(row).unwrap())
        })
    }

    /// Copies the rules, and breaks one. Returns what names the program.
    fn program(&self, folder: &Folder) -> &'static str {
        let Some(edit) = self.of("rule").next() else { return "builtin" };
        let (name, edit) = edit.split_once(": ").unwrap();
        let (old, new) = edit.split_once(" => ").unwrap();
        let rules = root().join("rules");
        copy_rules(&rules, &rules, folder);
        let text = read(&rules.join(name));
        assert!(text.contains(old), "{}: {name} has no {old:?}", self.file.display());
        folder.write(&format!("rules/{name}"), text.replacen(old, new, 1));
        "rules"
    }

    /// The screen that somebody sees who traces the packet.
    fn found(&self) -> String {
        let folder = Folder::new();
        self.write(&folder);
        let program = self.program(&folder);
        let source = ["trace", program, "--objects", "network.yaml", "-i", "reports.jsonl"];
        let packet: Vec<&str> = self.of("trace").next().unwrap().split(' ').collect();
        let outcome = folder.weft(&[&source[..], &packet].concat());
        without_lines(&(outcome.stdout + &outcome.stderr))
    }

    /// What the page of the book shows of a screen: the verdict, causes and problems.
    fn said(&self) -> String {
        let mut lines = self.screen.lines();
        let verdict = lines.next().unwrap_or_default();
        let is_cause = |line: &&str| CAUSES.iter().any(|start| line.starts_with(start));
        let causes =
            lines.skip_while(|line| line.starts_with(CHANGE) && !is_cause(line)).take_while(is_cause);
        // What is deeper says how far the rules get.
        let shown = std::iter::once(verdict).chain(causes.filter(|line| !line.starts_with(DEEPER)));
        let shown: Vec<String> = shown.map(|line| format!("`{}`", line.trim().replace('|', "\\|"))).collect();
        shown.join("<br>")
    }
}

/// Writes the network without any defect, and without an object if one is named: kind and id.
pub(crate) fn network_of_defects(folder: &Folder, without: Option<&str>) {
    let without = without.map(|name| ("remove".to_owned(), name.to_owned()));
    let lines = without.into_iter().collect();
    Defect { file: folder_file("network.yaml"), lines, screen: String::new() }.write(folder);
}

fn folder_file(name: &str) -> PathBuf {
    folder().join(name)
}

/// Kind and id of an object.
fn name_of(object: &str) -> String {
    let fields = object.trim_start_matches('{');
    let field = |name: &str| {
        let start = fields.split_once(name).unwrap_or_else(|| panic!("{object} has no {name}")).1;
        start.split([',', '}']).next().unwrap().trim().to_owned()
    };
    format!("{} {}", field("kind: "), field("id: "))
}

fn copy_rules(from: &Path, root: &Path, to: &Folder) {
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            copy_rules(&path, root, to);
        } else if path.extension().is_some_and(|own| own == "nlog") {
            let name = Path::new("rules").join(path.strip_prefix(root).unwrap());
            to.write(&name.to_string_lossy(), read(&path));
        }
    }
}

/// A screen without the numbers of lines in rules, which change with every edit of these.
fn without_lines(screen: &str) -> String {
    let mut text = String::new();
    for line in screen.lines() {
        let mut rest = line;
        while let Some((before, after)) = rest.split_once(".nlog:") {
            let _ = write!(text, "{before}.nlog:…");
            rest = after.trim_start_matches(|c: char| c.is_ascii_digit() || c == ':');
        }
        let place = rest.rfind(" (").filter(|at| {
            let inner = rest[at + 2..].trim_end_matches(')');
            rest.ends_with(')')
                && inner.contains(':')
                && inner.chars().all(|c| c.is_ascii_digit() || c == ':')
        });
        let rest = place.map_or(rest.to_owned(), |at| format!("{} (…)", &rest[..at]));
        let _ = writeln!(text, "{rest}");
    }
    text
}

/// The first screens of a part of the defects.
fn are_named(part: usize) {
    let mut faults = String::new();
    for defect in Defect::all().into_iter().skip(part).step_by(PARTS) {
        let found = defect.found();
        let name = defect.file.file_stem().unwrap().to_string_lossy();
        let first: Vec<&str> = found.lines().take(FIRST_LINES).collect();
        let first = first.join("\n");
        for wanted in defect.of("names").filter(|wanted| !first.contains(wanted)) {
            let _ = writeln!(faults, "{name}: the first lines do not name {wanted:?}:\n{found}");
        }
        if found.lines().count() > SCREEN {
            let _ = writeln!(faults, "{name}: more than a screen:\n{found}");
        }
        let head: Vec<String> = defect.lines.iter().map(|(word, rest)| format!("{word}: {rest}")).collect();
        expect_file![&defect.file].assert_eq(&(head.join("\n") + RULE + &found));
    }
    assert!(faults.is_empty(), "{faults}");
}

#[test]
fn the_first_screen_names_the_defect_1() {
    are_named(0);
}

#[test]
fn the_first_screen_names_the_defect_2() {
    are_named(1);
}

#[test]
fn the_first_screen_names_the_defect_3() {
    are_named(2);
}

#[test]
fn the_first_screen_names_the_defect_4() {
    are_named(3);
}

/// The page of the book with what a trace says of each defect.
#[test]
fn the_page_of_the_defects_is_up_to_date() {
    let mut page = PAGE.to_owned();
    for defect in Defect::all() {
        let _ = writeln!(page, "| {} | {} |", defect.what(), defect.said());
    }
    expect_file![root().join("docs/reference/defects.md")].assert_eq(&page);
}

const PAGE: &str = "\
# Defects, and what a trace says about them

Generated from `crates/net/weft-cli/tests/defects`, whose tests keep it true. In each row, one thing in a small network is wrong, and `weft trace` gets a packet that should pass, \
without any hint at what to look for. [Find out why a packet is dropped](../howto/why-is-my-packet-dropped.md) shows how to ask.

The first line of the answer is the verdict: which stage of [the pipeline](pipeline.md) drops the packet. Below it, `cause` names the object or report that keeps the packet from \
arriving, and `problem` lists known problems of these objects.

| what is wrong | the first lines of `weft trace` |
|---|---|
";
