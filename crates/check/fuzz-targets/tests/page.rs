//! `docs/internals/fuzzing.md`: each target has its row, with the figures of `fuzz/runs.csv` up to the run that the page names.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use super::{fuzz, programs};

/// What is in front of the time of the last run whose figures are in the page.
const AS_OF: &str = "as of the run at `";

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/internals/fuzzing.md")
}

/// The edges that the last run of a target reached, and the executions of all its runs.
type Figures = BTreeMap<String, (u64, u64)>;

/// The figures of all runs up to this time, and the time of the last.
fn figures(until: Option<&str>) -> (Figures, String) {
    let text = fs::read_to_string(fuzz().join("runs.csv")).unwrap();
    let (mut figures, mut last) = (Figures::new(), String::new());
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        if until.is_some_and(|until| fields[0] > until) {
            continue;
        }
        let number = |at: usize| fields[at].parse::<u64>().unwrap_or_else(|error| panic!("{line}: {error}"));
        let (edges, executions) = figures.entry(fields[2].to_owned()).or_default();
        (*edges, *executions) = (number(6), *executions + number(4));
        fields[0].clone_into(&mut last);
    }
    (figures, last)
}

/// The target of a row of the table.
fn target(line: &str) -> Option<&str> {
    let cells: Vec<&str> = line.strip_prefix("| ")?.split('|').map(str::trim).collect();
    let [_, _, target, _, _, ""] = cells[..] else { return None };
    target.strip_prefix('`')?.strip_suffix('`')
}

/// A number with a comma between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|group| str::from_utf8(group).unwrap()).collect();
    groups.join(",")
}

/// The page with these figures.
fn with(text: &str, figures: &Figures, date: &str) -> String {
    let mut page = String::new();
    for line in text.lines() {
        let known = target(line).and_then(|target| figures.get(target));
        if let Some((edges, executions)) = known {
            let rest: Vec<&str> = line.splitn(5, '|').take(4).collect();
            let _ = writeln!(page, "{}| {} | {} |", rest.join("|"), grouped(*edges), grouped(*executions));
        } else if let Some((before, rest)) = line.split_once(AS_OF) {
            let after = rest.split_once('`').map_or("", |(_, after)| after);
            let _ = writeln!(page, "{before}{AS_OF}{date}`{after}");
        } else {
            let _ = writeln!(page, "{line}");
        }
    }
    page
}

#[test]
fn every_target_has_a_row() {
    let text = fs::read_to_string(page()).unwrap();
    let rows: Vec<&str> = text.lines().filter_map(target).collect();
    let named: BTreeSet<String> = rows.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(named, programs());
    assert_eq!(rows.len(), named.len(), "a target has two rows");
}

/// The file grows with each run, so the page says up to which run it counts. A target without a run has no figures.
#[test]
fn the_figures_are_those_of_the_file() {
    let text = fs::read_to_string(page()).unwrap();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        let (figures, date) = figures(None);
        return fs::write(page(), with(&text, &figures, &date)).unwrap();
    }
    let date = text.lines().find_map(|line| Some(line.split_once(AS_OF)?.1)).unwrap();
    let date = date.split('`').next().unwrap();
    let (figures, _) = figures(Some(date));
    assert!(
        with(&text, &figures, date) == text,
        "the page has other figures than fuzz/runs.csv up to {date}; `UPDATE_EXPECT=1 cargo xtask test -p fuzz-targets` writes them"
    );
}
