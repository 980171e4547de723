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
use crate::program::{chosen_tables, compile};

mod hooks;
mod run;
mod state;

use hooks::Hooks;
pub(crate) use run::{Run, open_input};
pub(crate) use state::Begin;

/// What `--help` ends with.
const EXAMPLE: &str = r#"A transaction is a line of JSON, and so is the answer; each takes effect whole or not at all:
  {"insert": {"vm": [["web", "hv1"]]}, "delete": {"vm": [["web", "hv2"]]}}
  {"txn":1,"insert":{"route":[["web","10.0.0.1"]]},"delete":{}}
One that is refused changes nothing and is answered by its error; the exit status is then 1."#;

/// Arguments of `weft eval`.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Eval {
    /// `.nlog` files, or folders of them; together they are one program
    #[arg(required = true, value_name = "PROGRAM")]
    programs: Vec<PathBuf>,
    /// Transactions as JSON Lines; `-` reads standard input
    #[arg(short, long, value_name = "TXNS")]
    input: PathBuf,
    /// The tables to print: `all`, or names with commas between (default: output tables)
    #[arg(long, value_delimiter = ',', value_name = "TABLES")]
    tables: Vec<String>,
    /// Threads that share the work; the result is the same for any number
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: u16,
    /// How rules become operators (default: `fused`; with several workers `composed`)
    #[arg(long)]
    engine: Option<Engine>,
    /// Print the final contents as one object instead of the deltas
    #[arg(long = "final")]
    final_contents: bool,
    /// Use the reference evaluator instead of the dataflow: slow, and obviously right
    #[arg(long)]
    reference: bool,
    /// Begin with the state that an earlier run saved, and go on as that run would have
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Save the state after the last transaction: the input tables' rows, and how many rows and values tables have
    #[arg(long, value_name = "FILE")]
    save_state: Option<PathBuf>,
    /// Join in the orders that `weft plan --save` wrote, for the rules that it names
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    #[command(flatten)]
    hooks: Hooks,
}

/// Both ways give the same results, byte for byte.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
enum Engine {
    /// One dataflow of standard differential operators
    Composed,
    /// All rules in their static order, of which a transaction pays for those that it touches; has one worker
    Fused,
}

impl Eval {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let program = compile(&self.programs)?;
        let tables = chosen_tables(&self.tables, &program.schema)?;
        let begin = self.state.as_ref().map(|file| Begin::read(file, &program.schema)).transpose()?;
        let input = open_input(&self.input)?;
        let statistics = begin.as_ref().map(|begin| begin.statistics.clone());
        let pinned = self.plan.as_deref().map(read_pinned).transpose()?;
        let planning = Settings { statistics, pinned, ..Settings::default() };
        let start = self.evaluators(planning);
        let mut evaluator = self.hooks.around(&program, Tables::These(tables.clone()), start)?;
        let mut run = Run::new(&self.input, program);
        if let Some(begin) = begin {
            run.progress = begin.progress;
            begin.load(evaluator.as_mut())?;
        }
        let mut out = BufWriter::with_capacity(1 << 20, io::stdout().lock());
        run.lines(input, evaluator.as_mut(), (!self.final_contents).then_some(&mut out), &mut |_, _| {})?;
        if self.final_contents {
            run.state_facts(evaluator.as_mut())?;
            write_contents(evaluator.as_mut(), &tables, &mut out)?;
        }
        out.flush().map_err(Failure::output)?;
        if let Some(file) = &self.save_state {
            state::save(file, evaluator.as_mut(), &tables, run.progress)?;
        }
        run.finish()
    }

    /// What starts evaluators, by what was asked for.
    fn evaluators(
        &self,
        planning: Settings,
    ) -> impl Fn(Arc<Program>, Tables) -> Result<Box<dyn Evaluator>, String> + Send + use<> {
        let (reference, workers) = (self.reference, usize::from(self.workers));
        let engine = match self.engine {
            Some(Engine::Composed) => Kind::Composed,
            Some(Engine::Fused) => Kind::Fused,
            None if self.workers > 1 => Kind::Composed,
            None => Kind::Fused,
        };
        move |program, observe| {
            if reference {
                return Ok(Box::new(Reference::new(program, observe)));
            }
            let planning = planning.clone();
            let options = Options { engine, workers, observe, planning, ..Options::default() };
            let dataflow = Dataflow::new(program, options).map_err(|error| error.to_string())?;
            for warning in &dataflow.plan().warnings {
                say(format_args!("warning: {warning}"));
            }
            Ok(Box::new(dataflow))
        }
    }
}

/// Prints the tables' contents, a table at a time.
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
