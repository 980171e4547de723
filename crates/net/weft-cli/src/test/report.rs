//! Reports the results of tests.

use std::io::IsTerminal as _;

use nlog_data::Value;
use nlog_data::json::to_json as value_to_json;
use rule_tests::comparison::{Comparison, Line};
use rule_tests::{Failure, Outcome};
use serde_json::json;

use crate::exit::say_painted;

/// The number of tests by result.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) files: usize,
    /// Files whose programs have errors.
    pub(super) rejected: usize,
    /// Tests that were run.
    pub(super) tests: usize,
    pub(super) failed: usize,
    /// Tests that the filter excluded.
    pub(super) left_out: usize,
}

impl Tally {
    /// The totals of one file with this many tests, of which some were run.
    pub(super) fn of_file(accepted: bool, tests: usize, outcomes: &[Outcome]) -> Self {
        Tally {
            files: 1,
            rejected: usize::from(!accepted),
            tests: outcomes.len(),
            failed: outcomes.iter().filter(|outcome| !outcome.failures.is_empty()).count(),
            left_out: tests.saturating_sub(outcomes.len()),
        }
    }
}

impl std::ops::Add for Tally {
    type Output = Tally;

    fn add(self, other: Tally) -> Tally {
        Tally {
            files: self.files + other.files,
            rejected: self.rejected + other.rejected,
            tests: self.tests + other.tests,
            failed: self.failed + other.failed,
            left_out: self.left_out + other.left_out,
        }
    }
}

/// The escape sequences of a colour, if standard error is a terminal.
fn painted(text: &str, colour: u8) -> String {
    if std::io::stderr().is_terminal() { format!("\u{1b}[{colour}m{text}\u{1b}[0m") } else { text.to_owned() }
}

const RED: u8 = 31;
const GREEN: u8 = 32;

/// A file's name, and a line for each of its tests.
pub(super) fn list(file: &str, outcomes: &[Outcome]) {
    if outcomes.is_empty() {
        return;
    }
    say_painted(file);
    for outcome in outcomes {
        let word = if outcome.failures.is_empty() { painted("ok", GREEN) } else { painted("FAILED", RED) };
        say_painted(format_args!("    {word} {}", outcome.name));
    }
}

/// The full report of all failures.
pub(super) fn failures(outcomes: &[Outcome]) {
    for outcome in outcomes {
        say_painted(format_args!("\n{}: {}", painted("FAILED", RED), outcome.name));
        for failure in &outcome.failures {
            text(failure).iter().for_each(say_painted);
        }
    }
}

fn text(failure: &Failure) -> Vec<String> {
    let mut lines = vec![format!("  {}: {}", failure.place, failure.message)];
    if let Some(comparison) = &failure.comparison {
        lines.extend(comparison.text().iter().map(|line| format!("      {line}")));
    }
    for (question, answer) in &failure.reasons {
        lines.push(format!("    {question}"));
        lines.extend(answer.iter().map(|line| format!("      {line}")));
    }
    lines
}

/// Prints the last line.
pub(super) fn summary(tally: &Tally) {
    let Tally { files, rejected, tests, failed, left_out } = *tally;
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    let mut text = format!("\n{tests} test{} in {files} file{}", plural(tests), plural(files));
    text += &if failed == 0 {
        ": all ok".to_owned()
    } else {
        format!(": {} ok, {failed} FAILED", tests - failed)
    };
    if tests == 0 {
        text = format!("\nno test was run in {files} file{}", plural(files));
    }
    if rejected > 0 {
        text += &format!(", {rejected} file{} with errors", plural(rejected));
    }
    if left_out > 0 {
        text += &format!(", {left_out} left out");
    }
    say_painted(text);
}

/// A test as a line of `--json`.
pub(super) fn to_json(outcome: &Outcome) -> String {
    let failures: Vec<serde_json::Value> = outcome.failures.iter().map(failure_json).collect();
    let object = json!({
        "name": *outcome.name,
        "file": *outcome.place.file,
        "line": outcome.place.line,
        "column": outcome.place.column,
        "ok": outcome.failures.is_empty(),
        "milliseconds": outcome.elapsed.as_secs_f64() * 1e3,
        "failures": failures,
    });
    object.to_string()
}

fn failure_json(failure: &Failure) -> serde_json::Value {
    let reasons =
        failure.reasons.iter().map(|(question, answer)| json!({"question": question, "answer": answer}));
    json!({
        "file": *failure.place.file,
        "line": failure.place.line,
        "column": failure.place.column,
        "message": failure.message,
        "table": failure.comparison.as_ref().map(|comparison| &comparison.table),
        "columns": failure.comparison.as_ref().map(|comparison| &comparison.columns),
        "rows": failure.comparison.as_deref().map(rows_json),
        "reasons": reasons.collect::<Vec<_>>(),
    })
}

fn rows_json(comparison: &Comparison) -> Vec<serde_json::Value> {
    let cell = |cell: &Option<Value>| cell.as_ref().map(value_to_json);
    let row =
        |line: &Line| json!({"what": line.label, "row": line.cells.iter().map(cell).collect::<Vec<_>>()});
    comparison.lines.iter().map(row).collect()
}
