//! `weft eval`: transactions in, deltas out, one line each.

use std::collections::BTreeSet;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use nlog::Program;
use nlog_data::json::ContentsWriter;
use nlog_data::{Evaluator, TableId, Tables};
use nlog_dataflow::{Dataflow, Kind, Options};
use nlog_plan::Settings;
use nlog_reference::Reference;

use crate::exit::{Failure, say};
use crate::plan::read_pinned;
use crate::program::{chosen_tables, compile_sources, load};

mod edit;
mod memory;
mod objects;
mod run;
mod running;
mod state;
mod tick;

use edit::Rules;
pub(crate) use objects::Source;
pub(crate) use run::Run;
pub(crate) use running::Running;
pub(crate) use state::Begin;

/// The end of `--help`.
const EXAMPLE: &str = r#"Each transaction is one line of JSON, and so is its result. A transaction takes effect as a whole or not at all:
  {"insert": {"vm": [["web", "hv1"]]}, "delete": {"vm": [["web", "hv2"]]}}
  {"txn":1,"insert":{"route":[["web","10.0.0.1"]]},"delete":{}}
The result of a rejected transaction is its error. It changes nothing, and the exit status is 1.
A state does not say which objects it has, so `--objects` cannot follow `--state`."#;

/// The program and its transactions: arguments shared with `weft profile`.
#[derive(Args)]
pub(crate) struct Given {
    /// `.nlog` files or folders; together they form one program. `builtin` is the built-in rules
    #[arg(required = true, value_name = "PROGRAM")]
    pub(crate) programs: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) source: Source,
    /// Tables to show: `all`, or names separated by commas (default: the output tables)
    #[arg(long, value_delimiter = ',', value_name = "TABLES")]
    pub(crate) tables: Vec<String>,
    /// Number of worker threads; the result does not depend on it
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) workers: u16,
}

/// Arguments of `weft eval`.
#[derive(Args)]
#[command(after_help = EXAMPLE, mut_arg("objects", |objects| objects.num_args(1..)))]
pub(crate) struct Eval {
    #[command(flatten)]
    given: Given,
    /// How rules are executed; the results are the same
    #[arg(long, default_value = "fused")]
    engine: Engine,
    /// Print the final contents as one object instead of deltas
    #[arg(long = "final")]
    final_contents: bool,
    /// Use the reference evaluator instead of the dataflow engine: slow, but simple enough to be trusted
    #[arg(long)]
    reference: bool,
    /// Start from a state saved by `--save-state`, as if the earlier run had continued
    #[arg(long, value_name = "FILE", conflicts_with = "objects")]
    state: Option<PathBuf>,
    /// Save the state after the last transaction: the rows of the input tables, the memories of hooks, and statistics of all tables
    #[arg(long, value_name = "FILE")]
    save_state: Option<PathBuf>,
    /// Also save the derived rows: the file is larger, and a run of the same program with the same `--tables` starts from it without deriving
    /// anything
    #[arg(long, requires = "save_state", conflicts_with = "reference")]
    save_derived: bool,
    /// Use the join orders in FILE, written by `weft plan --save`, for the rules that it lists
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
}

/// Both ways give the same results, byte for byte.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
enum Engine {
    /// One dataflow built of standard differential operators
    Composed,
    /// Rules in a static order; a transaction costs only the rules that it touches
    Fused,
}

impl Eval {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        if let Some(file) = &self.save_state {
            state::check_target(file)?;
        }
        if self.save_derived && (self.given.workers > 1 || self.engine == Engine::Composed) {
            let why = "--save-derived needs one worker of the fused engine: leave out --workers and --engine";
            return Err(Failure::Usage(why.to_owned()));
        }
        let sources = load(&self.given.programs)?;
        let program = compile_sources(&sources)?;
        let tables = chosen_tables(&self.given.tables, &program.schema)?;
        let begin = self.state.as_ref().map(|file| Begin::read(file, &program)).transpose()?;
        let transactions = self.given.source.open()?;
        let statistics = begin.as_ref().map(|begin| begin.statistics.clone());
        let pinned = self.plan.as_deref().map(read_pinned).transpose()?;
        let planning = Settings { statistics, pinned, ..Settings::default() };
        let mut running = self.start(&program, Tables::These(tables), planning)?;
        let mut run = Run::new(&self.given.source, program);
        run.rules = Some(Rules::new(sources, self.given.tables.clone()));
        if let Some(begin) = begin {
            run.progress = begin.progress;
            begin.resume(running.evaluator())?;
        }
        let mut out = BufWriter::with_capacity(1 << 20, io::stdout().lock());
        let shown = (!self.final_contents).then_some(&mut out);
        run.transactions(transactions, &mut running, shown, &mut |_, _| {})?;
        // Edits may have changed the set of tables.
        let tables = run.observed();
        if self.final_contents {
            run.state_facts(running.evaluator())?;
            write_contents(running.evaluator(), &tables, &mut out)?;
        }
        out.flush().map_err(Failure::output)?;
        if let Some(file) = &self.save_state {
            state::save(file, running.evaluator(), run.program(), &tables, run.progress, self.save_derived)?;
        }
        run.finish()
    }

    /// Starts what was asked for.
    fn start(&self, program: &Arc<Program>, observe: Tables, planning: Settings) -> Result<Running, Failure> {
        let workers = usize::from(self.given.workers);
        let engine = match self.engine {
            Engine::Composed => Kind::Composed,
            Engine::Fused => Kind::Fused,
        };
        let options = Options { engine, workers, observe, planning, ..Options::default() };
        let dataflow = |program: Arc<Program>, options: &Options| -> Result<Dataflow, String> {
            let dataflow = Dataflow::new(program, options.clone()).map_err(|error| error.to_string())?;
            warn(&dataflow);
            Ok(dataflow)
        };
        if program.hooks.is_empty() {
            let program = Arc::clone(program);
            return Ok(if self.reference {
                Running::Reference(Box::new(Reference::new(program, options.observe)))
            } else {
                let dataflow = dataflow(program, &options).map_err(Failure::Outside)?;
                Running::Dataflow(Box::new(dataflow), options)
            });
        }
        let (reference, observe) = (self.reference, options.observe.clone());
        let make = move |program, observe| -> Result<Box<dyn Evaluator>, String> {
            if reference {
                return Ok(Box::new(Reference::new(program, observe)));
            }
            Ok(Box::new(dataflow(program, &Options { observe, ..options.clone() })?))
        };
        nlog_hooks::start(program, observe, make).map(Running::Fixed).map_err(Failure::Outside)
    }
}

/// Warns about requests that the plan could not satisfy.
fn warn(dataflow: &Dataflow) {
    for warning in &dataflow.plan().warnings {
        say(format_args!("warning: {warning}"));
    }
}

/// Prints the contents of tables, one table at a time.
fn write_contents(
    evaluator: &mut dyn Evaluator,
    tables: &BTreeSet<TableId>,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let mut writer = ContentsWriter::new(out);
    for &table in tables {
        let rows = evaluator.contents_columns(table).map_err(|error| Failure::Outside(error.to_string()))?;
        writer.table(&evaluator.schema().table(table).name, &rows).map_err(Failure::output)?;
    }
    writer.finish().map_err(Failure::output)
}
