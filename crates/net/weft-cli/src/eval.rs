//! `weft eval`: transactions in, deltas out, one line each.

use std::collections::BTreeSet;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use composed_engine::Composed;
use nlog::Program;
use nlog_data::json::ContentsWriter;
use nlog_data::{Evaluator, TableId, Tables};
use nlog_dataflow::{Dataflow, Options, Processes, serve};
use nlog_plan::Settings;
use nlog_plan::query::Plan;
use nlog_reference::{Hooked, Reference};

use crate::exit::{Failure, say};
use crate::help::MORE;
use crate::plan::read_pinned;
use crate::program::{chosen_tables, compile_sources, load};

mod edit;
mod memory;
mod objects;
mod processes;
mod run;
mod running;
mod state;
mod tick;

use edit::Rules;
pub(crate) use objects::Source;
use processes::Cluster;
pub(crate) use run::Run;
pub(crate) use running::Running;
pub(crate) use state::Begin;

/// The end of `--help`.
const EXAMPLE: &str = r#"Examples:
  weft eval rules -i transactions.jsonl                    the changes, a line for each transaction
  weft eval builtin --objects network.yaml --final         all output rows for a network
  weft eval builtin -i STATE/journal.jsonl --tables route  what a controller has recorded

A transaction is one line of JSON, and so is its result. It takes effect as a whole or not at all:
  {"insert": {"vm": [["web", "hv1"]]}, "delete": {"vm": [["web", "hv2"]]}}
  {"txn":1,"insert":{"route":[["web","10.0.0.1"]]},"delete":{}}
The result of a refused transaction is its error; it changes nothing, and the exit status is 1.
--objects cannot be combined with --state, because a saved state does not record objects."#;

/// The program and its transactions: arguments shared with `weft profile`.
#[derive(Args)]
pub(crate) struct Given {
    /// `.nlog` files or folders, as one program; `builtin` is the built-in rules
    #[arg(required = true, value_name = "PROGRAM")]
    pub(crate) programs: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) source: Source,
    /// Tables to show: `all`, or names with commas [default: output tables]
    #[arg(long, value_delimiter = ',', value_name = "TABLES")]
    pub(crate) tables: Vec<String>,
    /// Number of worker threads; it does not change the result
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) workers: u16,
}

/// Arguments of `weft eval`.
#[derive(Args)]
#[command(after_help = EXAMPLE, mut_arg("objects", |objects| objects.num_args(1..)))]
pub(crate) struct Eval {
    #[command(flatten)]
    given: Given,
    /// How rules run: fused, or composed (slow, to compare)
    #[arg(long, default_value = "fused", hide_possible_values = true, help_heading = MORE)]
    engine: Engine,
    #[command(flatten)]
    cluster: Cluster,
    /// Print the final contents as one object instead of the changes
    #[arg(long = "final")]
    final_contents: bool,
    /// Use the reference evaluator: slow, but simple enough to be trusted
    #[arg(long, help_heading = MORE)]
    reference: bool,
    /// Continue from a state that --save-state has saved
    #[arg(long, help_heading = MORE, value_name = "FILE", conflicts_with = "objects")]
    state: Option<PathBuf>,
    /// Save the state after the last transaction: inputs, hooks and statistics
    #[arg(long, help_heading = MORE, value_name = "FILE")]
    save_state: Option<PathBuf>,
    /// Save derived rows too: the file is larger, but a start from it is faster
    #[arg(long, help_heading = MORE, requires = "save_state", conflicts_with = "reference")]
    save_derived: bool,
    /// Use the join orders that `weft plan --save` has written
    #[arg(long, help_heading = MORE, value_name = "FILE")]
    plan: Option<PathBuf>,
}

/// Both ways give the same results, byte for byte.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
enum Engine {
    // One dataflow of standard differential operators over plain values.
    Composed,
    // Rules in a static order; a transaction costs only the rules that it touches.
    Fused,
}

impl Eval {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        if let Some(file) = &self.save_state {
            state::check_target(file)?;
        }
        let processes = self.cluster.processes()?;
        let several = self.given.workers > 1 || processes.is_some();
        if self.save_derived && (several || self.engine == Engine::Composed) {
            let why = "--save-derived needs one worker of the fused engine: leave out --workers, --processes and --engine";
            return Err(Failure::Usage(why.to_owned()));
        }
        if self.cluster.timely && self.engine == Engine::Composed {
            let why = "--timely is about the fused engine; the composed one is a dataflow in any case";
            return Err(Failure::Usage(why.to_owned()));
        }
        let sources = load(&self.given.programs)?;
        let program = compile_sources(&sources)?;
        let tables = chosen_tables(&self.given.tables, &program.schema)?;
        let processes = match processes {
            Some((processes, process)) if process > 0 => {
                let options = self.options(Tables::These(tables), Settings::default());
                let served = serve(&program, &options, processes);
                return served.map_err(|error| Failure::Outside(error.to_string()));
            }
            other => other.map(|(processes, _)| processes),
        };
        let begin = self.state.as_ref().map(|file| Begin::read(file, &program)).transpose()?;
        let transactions = self.given.source.open()?;
        let statistics = begin.as_ref().map(|begin| begin.statistics.clone());
        let pinned = self.plan.as_deref().map(read_pinned).transpose()?;
        let planning = Settings { statistics, pinned, ..Settings::default() };
        let mut running = self.start(&program, self.options(Tables::These(tables), planning), processes)?;
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

    /// The options of the engine.
    fn options(&self, observe: Tables, planning: Settings) -> Options {
        let (workers, timely) = (usize::from(self.given.workers), self.cluster.timely);
        Options { workers, timely, observe, planning, ..Options::default() }
    }

    /// Starts what was asked for.
    fn start(
        &self,
        program: &Arc<Program>,
        options: Options,
        processes: Option<Processes>,
    ) -> Result<Running, Failure> {
        let has_hooks = !program.hooks.is_empty();
        if self.reference {
            return Ok(if has_hooks {
                Running::Fixed(Box::new(Hooked::reference(program, options.observe, false)))
            } else {
                Running::Reference(Box::new(Reference::new(Arc::clone(program), options.observe)))
            });
        }
        if self.engine == Engine::Fused {
            let dataflow = match processes {
                Some(processes) => Dataflow::across(Arc::clone(program), options.clone(), processes),
                None => Dataflow::new(Arc::clone(program), options.clone()),
            };
            let dataflow = dataflow.map_err(|error| Failure::Outside(error.to_string()))?;
            warn(dataflow.plan());
            return Ok(Running::Dataflow(Box::new(dataflow), options));
        }
        let Options { workers, observe, planning, .. } = options;
        let composed = move |program: Arc<Program>, observe| {
            let planning = planning.clone();
            let options = composed_engine::Options { workers, observe, attribute: false, planning };
            Composed::new(program, options).inspect(|engine| warn(engine.plan()))
        };
        let whole = composed(Arc::clone(program), observe).map_err(Failure::Outside)?;
        if !has_hooks {
            return Ok(Running::Fixed(Box::new(whole)));
        }
        let hooked = Hooked::new(program, whole, composed).map_err(Failure::Outside)?;
        Ok(Running::Fixed(Box::new(hooked)))
    }
}

/// Warns about requests that the plan could not satisfy.
fn warn(plan: &Plan) {
    for warning in &plan.warnings {
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
