//! `weft profile`: where the time and the memory of a program go.
//!
//! The fused engine runs the transactions as for `weft eval` and counts its work. This file has the command and sorts
//! the engine's figures; its submodules print them as text and JSON.

use std::cmp::Reverse;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use nlog::Program;
use nlog_data::Tables;
use nlog_dataflow::fused::{PipelineProfile, Profile as Figures, RuleProfile};
use nlog_dataflow::{Dataflow, Options};
use nlog_plan::Settings;

use crate::eval::{Begin, Given, Run, Running};
use crate::exit::Failure;
use crate::program::{chosen_tables, compile, refuse_hooks};

mod json;
mod text;

/// The number of rules, tables and indexes shown by default.
const SHOWN: usize = 20;

/// Arguments of `weft profile`.
#[derive(Args)]
#[command(
    after_help = "The time of a rule is the time of its joins. The rest of the total is spent on reading transactions\n\
                  and on removing duplicate rows. With several workers, the figures of rules, tables and indexes are\n\
                  those of the first worker. The how-to `Find slow rules` explains an example.",
    mut_arg("objects", |objects| objects.num_args(1..))
)]
pub(crate) struct Profile {
    #[command(flatten)]
    given: Given,
    /// Start from a state of `weft eval --save-state`; loading it counts
    #[arg(long, value_name = "FILE", conflicts_with = "objects")]
    state: Option<PathBuf>,
    /// Rules, tables and indexes to show [default: 20; all with --json]
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// Show the pipelines of each rule: one for each table whose rows start it
    #[arg(long)]
    verbose: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Profile {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let program = compile(&self.given.programs)?;
        refuse_hooks(&program, "weft profile")?;
        let observe = Tables::These(chosen_tables(&self.given.tables, &program.schema)?);
        let begin = self.state.as_ref().map(|file| Begin::read(file, &program)).transpose()?;
        let transactions = self.given.source.open()?;
        let statistics = begin.as_ref().map(|begin| begin.statistics.clone());
        let options = Options {
            workers: usize::from(self.given.workers),
            observe,
            planning: Settings { statistics, ..Settings::default() },
            ..Options::default()
        };
        let outside = |error: &dyn std::fmt::Display| Failure::Outside(error.to_string());
        let dataflow = Dataflow::new(program.clone(), options.clone()).map_err(|error| outside(&error))?;
        let mut running = Running::Dataflow(Box::new(dataflow), options);
        let mut run = Run::new(&self.given.source, program.clone());
        let start = Instant::now();
        if let Some(begin) = begin {
            run.progress = begin.progress;
            begin.load(running.evaluator())?;
        }
        let nowhere: Option<&mut Vec<u8>> = None;
        run.transactions(transactions, &mut running, nowhere, &mut |_, _| {})?;
        let elapsed = start.elapsed();
        let figures = running.profile().map_err(|error| outside(&error))?;
        let figures = figures.ok_or_else(|| outside(&"the engine does not count"))?;
        let shown = self.top.unwrap_or(if self.json { usize::MAX } else { SHOWN });
        let account = Account::new(&program, figures, elapsed);
        let text = if self.json {
            json::object(&account, shown).to_string()
        } else {
            text::page(&account, shown, self.verbose).join("\n")
        };
        writeln!(std::io::stdout().lock(), "{text}").map_err(Failure::output)?;
        run.finish()
    }
}

/// The engine's figures, the most important first.
struct Account<'a> {
    program: &'a Program,
    figures: Figures,
    /// The time from before the first transaction until after the last.
    elapsed: Duration,
}

impl<'a> Account<'a> {
    fn new(program: &'a Program, mut figures: Figures, elapsed: Duration) -> Self {
        for rule in &mut figures.rules {
            rule.pipelines.sort_by_key(|pipeline| Reverse(pipeline.nanos));
        }
        // Equal rules stay in the plan's order.
        figures.rules.sort_by_key(|rule| Reverse(sum(&rule.pipelines).nanos));
        figures.relations.sort_by_key(|relation| Reverse((relation.bytes, relation.changes)));
        figures.indexes.sort_by_key(|index| Reverse(index.bytes));
        Account { program, figures, elapsed }
    }

    /// The time of all rules, in nanoseconds.
    fn rules_nanos(&self) -> u64 {
        self.figures.rules.iter().map(|rule| sum(&rule.pipelines).nanos).sum()
    }

    /// The time of all workers, in nanoseconds.
    fn workers_nanos(&self) -> u64 {
        self.figures.workers.iter().map(|worker| worker.nanos).sum()
    }

    /// The file and line of a rule.
    fn place(&self, rule: &RuleProfile) -> (&'a str, u32) {
        let place = &self.program.rule(rule.rule).place;
        (&place.file, place.line)
    }
}

/// The total work of pipelines.
#[derive(Default)]
struct Work {
    runs: u64,
    rows: u64,
    bindings: u64,
    derived: u64,
    nanos: u64,
}

fn sum<'a>(pipelines: impl IntoIterator<Item = &'a PipelineProfile>) -> Work {
    let mut work = Work::default();
    for pipeline in pipelines {
        work.runs += pipeline.runs;
        work.rows += pipeline.rows;
        work.bindings += pipeline.bindings;
        work.derived += pipeline.derived;
        work.nanos += pipeline.nanos;
    }
    work
}

/// A part in thousandths of the whole; 0 if the whole is 0.
fn thousandths(part: u64, whole: u64) -> u64 {
    let share = u128::from(part) * 1000 / u128::from(whole.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}
