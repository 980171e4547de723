//! The runs of all fuzz targets so far: a line for each, in a file of the repository.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::output::Totals;

/// The file, in the repository.
pub(super) const FILE: &str = "fuzz/runs.csv";

/// Its first line.
const HEADER: &str = "date,commit,target,seconds,executions,executions a second,edges covered,corpus size";

/// A run of one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Run {
    /// The day and time of its end, in UTC.
    date: String,
    commit: String,
    target: String,
    totals: Totals,
}

impl Run {
    /// One that ends now.
    pub(super) fn now(commit: &str, target: &str, totals: &Totals) -> Result<Self> {
        let output =
            Command::new("date").args(["-u", "+%Y-%m-%dT%H:%MZ"]).output().context("cannot start date")?;
        ensure!(output.status.success(), "date failed ({})", output.status);
        let date = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        Ok(Run { date, commit: commit.to_owned(), target: target.to_owned(), totals: *totals })
    }

    fn rate(&self) -> u64 {
        rate(self.totals.executions, self.totals.seconds)
    }

    fn line(&self) -> String {
        let Run { date, commit, target, totals: Totals { seconds, executions, edges, corpus } } = self;
        format!("{date},{commit},{target},{seconds},{executions},{},{edges},{corpus}", self.rate())
    }

    fn of_line(line: &str) -> Result<Self> {
        let parts: Vec<&str> = line.split(',').collect();
        let [date, commit, target, seconds, executions, rate, edges, corpus] = parts[..] else {
            bail!("it has {} fields instead of {}", parts.len(), HEADER.split(',').count());
        };
        ensure!([date, commit, target].iter().all(|text| !text.is_empty()), "a field is empty");
        let number = |text: &str| text.parse().with_context(|| format!("`{text}` is not a number"));
        let totals = Totals {
            seconds: number(seconds)?,
            executions: number(executions)?,
            edges: number(edges)?,
            corpus: number(corpus)?,
        };
        let run = Run { date: date.to_owned(), commit: commit.to_owned(), target: target.to_owned(), totals };
        ensure!(
            run.rate() == number(rate)?,
            "{executions} executions in {seconds} seconds are not {rate} a second"
        );
        Ok(run)
    }
}

/// All runs so far.
#[derive(Debug)]
pub(super) struct Runs {
    path: PathBuf,
    runs: Vec<Run>,
}

impl Runs {
    /// Reads the file, or begins it.
    ///
    /// # Errors
    /// It cannot be read, or has a line that is none of a run.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let path = root.join(FILE);
        if !path.exists() {
            fs::write(&path, format!("{HEADER}\n")).with_context(|| format!("cannot write {FILE}"))?;
        }
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {FILE}"))?;
        Ok(Runs { path, runs: parse(&text)? })
    }

    /// Adds a run, also to the file.
    pub(super) fn add(&mut self, run: Run) -> Result<()> {
        let written = OpenOptions::new()
            .append(true)
            .open(&self.path)
            .and_then(|mut file| writeln!(file, "{}", run.line()));
        written.with_context(|| format!("cannot write {FILE}"))?;
        self.runs.push(run);
        Ok(())
    }

    /// The last run of each of these targets beside the sum of all its runs; in the last line, all targets of the file.
    pub(super) fn table(&self, targets: &[&str]) -> String {
        let mut sums: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for run in &self.runs {
            let (executions, seconds) = sums.entry(&run.target).or_default();
            (*executions, *seconds) = (*executions + run.totals.executions, *seconds + run.totals.seconds);
        }
        let mut rows = vec![["target", "edges", "a second", "executions", "in all runs"].map(str::to_owned)];
        for target in targets {
            let Some(last) = self.runs.iter().rev().find(|run| run.target == *target) else { continue };
            let numbers =
                [last.totals.edges, last.rate(), last.totals.executions, sums[target].0].map(grouped);
            let [edges, rate, executions, all] = numbers;
            rows.push([(*target).to_owned(), edges, rate, executions, all]);
        }
        let (executions, seconds) = sums.values().fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
        let all = [rate(executions, seconds), executions].map(grouped);
        let [rate, executions] = all;
        let name = format!("all {} targets, {} runs, {} min", sums.len(), self.runs.len(), seconds / 60);
        rows.push([name, String::new(), rate, String::new(), executions]);
        let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or_default();
        let widths = [0, 1, 2, 3, 4].map(width);
        let line = |row: &[String; 5]| {
            let cells = row[1..].iter().zip(&widths[1..]).map(|(cell, width)| format!("  {cell:>width$}"));
            format!("{:<width$}{}", row[0], cells.collect::<String>(), width = widths[0])
        };
        rows.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

/// The runs in the text of the file.
fn parse(text: &str) -> Result<Vec<Run>> {
    let mut lines = text.lines();
    let header = lines.next().unwrap_or_default();
    ensure!(header == HEADER, "{FILE} begins with `{header}`, and not with `{HEADER}`");
    let run = |(number, line)| Run::of_line(line).with_context(|| format!("{FILE}:{}: {line}", number + 2));
    lines.enumerate().map(run).collect()
}

fn rate(executions: u64, seconds: u64) -> u64 {
    executions / seconds.max(1)
}

/// A number with a comma between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| str::from_utf8(group).ok()).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(lines: &[&str]) -> String {
        [&[HEADER], lines].concat().join("\n") + "\n"
    }

    #[test]
    fn runs_add_up_by_target_and_in_all() {
        let text = text(&[
            "2026-11-29T22:00Z,0123456789,parse,60,6000000,100000,700,90",
            "2026-11-29T22:02Z,0123456789+,check,60,60000,1000,900,80",
            "2026-11-30T22:00Z,abcdef0123,parse,120,6000060,50000,710,91",
        ]);
        let runs = parse(&text).unwrap();
        assert_eq!(
            runs.iter().map(Run::line).collect::<Vec<_>>().join("\n"),
            text.trim_end()[HEADER.len() + 1..]
        );
        let table = Runs { path: PathBuf::new(), runs }.table(&["parse"]);
        let words: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(words[1], ["parse", "710", "50,000", "6,000,060", "12,000,060"], "{table}");
        assert_eq!(words[2].last(), Some(&"12,060,060"), "{table}");
        assert!(table.contains("all 2 targets, 3 runs, 4 min"), "{table}");
    }

    #[test]
    fn a_line_that_is_none_of_a_run_is_an_error_with_its_number() {
        for line in [
            "2026-11-29T22:00Z,0123456789,parse,60,6000000,100000,700",
            "2026-11-29T22:00Z,0123456789,,60,6000000,100000,700,90",
            "2026-11-29T22:00Z,0123456789,parse,60,,100000,700,90",
            "2026-11-29T22:00Z,0123456789,parse,60,6000000,100001,700,90",
            "",
        ] {
            let error = parse(&text(&[line, "x"])).unwrap_err();
            assert!(error.to_string().starts_with("fuzz/runs.csv:2: "), "{error}");
        }
        assert!(parse("").is_err());
        assert!(parse("date\n").is_err());
    }
}
