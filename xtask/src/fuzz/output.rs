//! What libFuzzer prints, read strictly: a figure that is not there is an error, and never a zero.

use std::collections::VecDeque;

use anyhow::{Context, Result, ensure};

/// The most lines that are kept for a failure: a message, a backtrace, and the input.
const LINES_KEPT: usize = 40;

/// The longest line that is kept, in characters: the dump of an input is one.
const LINE_KEPT: usize = 400;

/// The begin of the line that names the file of an input on which a target failed.
const ARTIFACT: &str = "Test unit written to ";

/// What a program of libFuzzer has printed so far.
#[derive(Debug, Default)]
pub(super) struct Output {
    /// The last line about progress.
    status: Option<String>,
    /// The last other lines.
    lines: VecDeque<String>,
    /// The lines at the end of a run: `Done N runs in N second(s)`, `stat::NAME: N`.
    end: Vec<String>,
    input: Option<String>,
}

/// The figures of a run that ended in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) seconds: u64,
    pub(super) executions: u64,
    /// Edges of the flow of control that were reached by the inputs of this run, the corpus included.
    pub(super) edges: u64,
    /// The number of inputs that together reach these edges.
    pub(super) corpus: u64,
}

impl Output {
    /// Adds a line.
    pub(super) fn add(&mut self, line: &str) {
        let line = line.trim_end();
        // A target that has no time left may print `#N` and `DONE` twice: the last counts.
        if line.starts_with('#') && line.contains(" cov: ") {
            self.status = Some(line.to_owned());
            return;
        }
        if line.starts_with("Done ") || line.starts_with("stat::") {
            self.end.push(line.to_owned());
        }
        if let Some((_, path)) = line.split_once(ARTIFACT) {
            self.input = Some(path.to_owned());
        }
        if self.lines.len() == LINES_KEPT {
            self.lines.pop_front();
        }
        self.lines.push_back(line.chars().take(LINE_KEPT).collect());
    }

    /// The last line about progress, in words.
    pub(super) fn progress(&self) -> Option<String> {
        let status = self.status.as_deref()?;
        let executions = status.trim_start_matches('#').split_whitespace().next()?;
        let [edges, corpus, rate] = ["cov:", "corp:", "exec/s:"].map(|name| word_after(status, name));
        Some(format!("{executions} executions, {} a second; {} edges, {} inputs", rate?, edges?, corpus?))
    }

    /// The last lines, for a failure.
    pub(super) fn last_lines(&self) -> String {
        self.lines.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }

    /// The file of the input on which the target failed.
    pub(super) fn failing_input(&self) -> Option<&str> {
        self.input.as_deref()
    }

    /// The figures of the run.
    ///
    /// # Errors
    /// One is missing, or two that must be equal are not.
    pub(super) fn totals(&self) -> Result<Totals> {
        let done = self.end.iter().find(|line| line.starts_with("Done "));
        let done = done.context("there is no line `Done N runs in N second(s)`")?;
        let words: Vec<&str> = done.split_whitespace().collect();
        let ["Done", runs, "runs", "in", seconds, "second(s)"] = words[..] else {
            anyhow::bail!("`{done}` is not `Done N runs in N second(s)`");
        };
        let (runs, seconds) = (number(runs, done)?, number(seconds, done)?);
        let executed = "stat::number_of_executed_units:";
        let line = self.end.iter().find_map(|line| line.strip_prefix(executed).map(str::trim));
        let executions = number(line.with_context(|| format!("there is no line `{executed} N`"))?, executed)?;
        ensure!(executions == runs, "`{done}`, but `{executed} {executions}`");
        ensure!(executions > 0 && seconds > 0, "`{done}`: nothing was run");
        let status = self.status.as_deref().context("there is no line of progress with `cov:`")?;
        ensure!(
            status.split_whitespace().nth(1) == Some("DONE"),
            "the last line of progress is `{status}`, and not DONE"
        );
        let edges = number(word_after(status, "cov:").context("no `cov:`")?, status)?;
        let corpus = word_after(status, "corp:").with_context(|| format!("`{status}` has no `corp:`"))?;
        let corpus = number(corpus.split('/').next().unwrap_or_default(), status)?;
        Ok(Totals { seconds, executions, edges, corpus })
    }
}

/// The word after another one.
fn word_after<'a>(line: &'a str, word: &str) -> Option<&'a str> {
    line.split_whitespace().skip_while(|each| *each != word).nth(1)
}

fn number(text: &str, line: &str) -> Result<u64> {
    text.parse().with_context(|| format!("`{text}` in `{line}` is not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = "\
INFO: Running with entropic power schedule (0xFF, 100).
INFO: Loaded 1 modules   (52339 inline 8-bit counters): 52339 [0x1, 0x2),
#2\tINITED cov: 610 ft: 611 corp: 1/1b exec/s: 0 rss: 38Mb
#131072\tpulse  cov: 700 ft: 900 corp: 90/4Kb lim: 4096 exec/s: 43690 rss: 60Mb
#270018\tDONE   cov: 701 ft: 905 corp: 91/4Kb lim: 4096 exec/s: 45003 rss: 60Mb
Done 270018 runs in 6 second(s)
stat::number_of_executed_units: 270018
stat::average_exec_per_sec:     45003
stat::peak_rss_mb:              61";

    fn of(text: &str) -> Output {
        let mut output = Output::default();
        text.lines().for_each(|line| output.add(line));
        output
    }

    #[test]
    fn the_figures_of_a_run_are_those_at_its_end() {
        let totals = Totals { seconds: 6, executions: 270018, edges: 701, corpus: 91 };
        assert_eq!(of(RUN).totals().unwrap(), totals);
        assert_eq!(
            of(RUN).progress().as_deref(),
            Some("270018 executions, 45003 a second; 701 edges, 91/4Kb inputs")
        );
    }

    #[test]
    fn figures_that_cannot_be_read_are_an_error() {
        for (from, to) in [
            ("Done 270018", "Finished 270018"),
            ("Done 270018", "Done many"),
            ("in 6 second(s)", "in 6 s"),
            ("in 6 second(s)", "in 0 second(s)"),
            ("stat::number_of_executed_units", "stat::executed"),
            ("units: 270018", "units: 270017"),
            ("DONE   cov: 701", "DONE   covered: 701"),
            ("DONE", "pulse"),
            ("corp: 91/4Kb", "corpus: 91/4Kb"),
            ("corp: 91/4Kb", "corp: ?/4Kb"),
            ("cov: 701", "cov: x"),
        ] {
            assert!(RUN.contains(from), "{from}");
            let text = RUN.replace(from, to);
            assert!(of(&text).totals().is_err(), "{text}");
        }
        assert!(of("").totals().is_err());
    }

    #[test]
    fn a_failure_names_its_input() {
        let output = of(
            "thread panicked at x.rs:1:\n==1== ERROR: libFuzzer: deadly signal\nartifact_prefix='a/'; Test unit written to a/crash-1",
        );
        assert_eq!(output.failing_input(), Some("a/crash-1"));
        assert!(output.last_lines().starts_with("thread panicked"));
    }
}
