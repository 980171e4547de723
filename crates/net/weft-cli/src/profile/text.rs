//! The figures as tables of text.

use nlog_dataflow::fused::{PipelineProfile, RuleProfile};

use super::{Account, Work, sum, thousandths};

/// The lines, with at most this many rules, tables and indexes; `verbose` adds the pipelines of each
/// rule.
pub(super) fn page(account: &Account<'_>, shown: usize, verbose: bool) -> Vec<String> {
    let figures = &account.figures;
    let mut lines = vec![
        format!("transactions  {}", figures.transactions),
        format!(
            "time          {} ms, of which rules {} ms",
            millis(nanos(account)),
            millis(account.rules_nanos())
        ),
        format!("values        {}", figures.symbols),
    ];
    let titled = |lines: &mut Vec<String>, title: &str, table: Table, more: usize| {
        lines.push(String::new());
        lines.push(title.to_owned());
        lines.extend(table.lines());
        if more > 0 {
            lines.push(format!("  and {more} more; --top shows more"));
        }
    };
    let more = |all: usize| all.saturating_sub(shown);
    titled(&mut lines, "RULES", rules(account, shown, verbose), more(figures.rules.len()));
    titled(&mut lines, "TABLES", tables(account, shown), more(figures.relations.len()));
    titled(&mut lines, "INDEXES", indexes(account, shown), more(figures.indexes.len()));
    titled(&mut lines, "WORKERS", workers(account), 0);
    lines
}

fn nanos(account: &Account<'_>) -> u64 {
    u64::try_from(account.elapsed.as_nanos()).unwrap_or(u64::MAX)
}

/// Headings for the work of a rule or pipeline.
const WORK: [&str; 6] = ["time [ms]", "share", "runs", "rows in", "bindings", "rows out"];

fn rules(account: &Account<'_>, shown: usize, verbose: bool) -> Table {
    let all = account.rules_nanos();
    let mut table = Table::new(&WORK, &["head", "place"]);
    for rule in account.figures.rules.iter().take(shown) {
        let RuleProfile { head, pipelines, .. } = rule;
        let (file, line) = account.place(rule);
        table.row(work(&sum(pipelines), all).chain([head.clone(), format!("{file}:{line}")]));
        for pipeline in pipelines.iter().filter(|_| verbose) {
            let PipelineProfile { begins, .. } = pipeline;
            let begins = begins.as_ref().map_or("  once".to_owned(), |table| format!("  from {table}"));
            table.row(work(&sum([pipeline]), all).chain([begins, String::new()]));
        }
    }
    table
}

fn work(work: &Work, all: u64) -> impl Iterator<Item = String> {
    let counts = [work.runs, work.rows, work.bindings, work.derived].map(|count| count.to_string());
    [millis(work.nanos), percent(work.nanos, all)].into_iter().chain(counts)
}

fn tables(account: &Account<'_>, shown: usize) -> Table {
    let mut table = Table::new(&["bytes", "rows counted", "rows watched", "changes"], &["table"]);
    for relation in account.figures.relations.iter().take(shown) {
        let numbers = [relation.bytes, relation.counted, relation.watched].map(|number| number.to_string());
        let changes = relation.changes.to_string();
        table.row(numbers.into_iter().chain([changes, relation.name.clone()]));
    }
    table
}

fn indexes(account: &Account<'_>, shown: usize) -> Table {
    let mut table = Table::new(&["bytes", "rows"], &["table", "key", "value"]);
    for index in account.figures.indexes.iter().take(shown) {
        let names = [index.relation.clone(), index.key.join(", "), index.value.join(", ")];
        table.row([index.bytes.to_string(), index.rows.to_string()].into_iter().chain(names));
    }
    table
}

fn workers(account: &Account<'_>) -> Table {
    let all = account.workers_nanos();
    let mut table = Table::new(&["worker", "time [ms]", "share", "rows in", "bindings", "rows out"], &[]);
    for (worker, number) in account.figures.workers.iter().zip(0_u32..) {
        let counts = [worker.rows, worker.bindings, worker.derived].map(|count| count.to_string());
        let first = [number.to_string(), millis(worker.nanos), percent(worker.nanos, all)];
        table.row(first.into_iter().chain(counts));
    }
    table
}

fn millis(nanos: u64) -> String {
    format!("{}.{:03}", nanos / 1_000_000, nanos / 1000 % 1000)
}

fn percent(part: u64, whole: u64) -> String {
    let thousandths = thousandths(part, whole);
    format!("{}.{} %", thousandths / 10, thousandths % 10)
}

/// A table with headings: numbers are right-aligned, texts left-aligned.
struct Table {
    numbers: usize,
    rows: Vec<Vec<String>>,
}

impl Table {
    fn new(numbers: &[&str], texts: &[&str]) -> Self {
        let headings = numbers.iter().chain(texts).map(|heading| (*heading).to_owned()).collect();
        Table { numbers: numbers.len(), rows: vec![headings] }
    }

    fn row(&mut self, cells: impl Iterator<Item = String>) {
        self.rows.push(cells.collect());
    }

    fn lines(&self) -> Vec<String> {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.rows.first().map_or(0, Vec::len)).map(width).collect();
        let line = |row: &Vec<String>| {
            let mut line = String::new();
            for ((column, cell), width) in row.iter().enumerate().zip(&widths) {
                line.push_str("  ");
                line.push_str(&if column < self.numbers {
                    format!("{cell:>width$}")
                } else {
                    format!("{cell:<width$}")
                });
            }
            line.trim_end().to_owned()
        };
        self.rows.iter().map(line).collect()
    }
}
