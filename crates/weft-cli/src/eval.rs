//! `weft eval`: transactions in, deltas out, one line each.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use nlog::Program;
use nlog_data::json::{LineError, parse_line, write_contents_line, write_delta_line, write_error_line};
use nlog_data::{
    CommitError, Delta, Evaluator, Role, Schema, TableId, Tables, Transaction, TransactionError,
};
use nlog_dataflow::Dataflow;
use nlog_reference::Reference;

use crate::exit::{Failure, say};
use crate::program::compile;

/// How many tables a message names.
const SHOWN_TABLES: usize = 20;

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
    /// How rules become operators
    #[arg(long, default_value = "composed")]
    engine: Engine,
    /// Print the final contents as one object instead of the deltas
    #[arg(long = "final")]
    final_contents: bool,
    /// Use the reference evaluator instead of the dataflow: slow, and obviously right
    #[arg(long)]
    reference: bool,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
enum Engine {
    /// One dataflow of standard differential operators
    Composed,
    /// All rules in one operator; not built yet, so that it says so and takes `composed`, whose results are the same
    Fused,
}

impl Eval {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let program = compile(&self.programs)?;
        let tables = self.chosen_tables(&program.schema)?;
        let input = open_input(&self.input)?;
        if self.engine == Engine::Fused {
            say("note: --engine fused is not built yet; composed gives the same results");
        }
        let observe = Tables::These(tables.clone());
        let mut evaluator: Box<dyn Evaluator> = if self.reference {
            Box::new(Reference::new(program.clone(), observe))
        } else {
            let options = nlog_dataflow::Options {
                workers: usize::from(self.workers),
                observe,
                ..nlog_dataflow::Options::default()
            };
            let dataflow = Dataflow::new(program.clone(), options);
            Box::new(dataflow.map_err(|error| Failure::Outside(error.to_string()))?)
        };
        let mut out = BufWriter::with_capacity(1 << 20, io::stdout().lock());
        let mut run = Run::new(&self.input, program);
        run.lines(input, evaluator.as_mut(), (!self.final_contents).then_some(&mut out), &mut |_, _| {})?;
        if self.final_contents {
            run.state_facts(evaluator.as_mut())?;
            write_contents(evaluator.as_mut(), &tables, &mut out)?;
        }
        out.flush().map_err(Failure::output)?;
        run.finish()
    }

    fn chosen_tables(&self, schema: &Schema) -> Result<BTreeSet<TableId>, Failure> {
        if self.tables.is_empty() {
            return Ok(schema
                .iter()
                .filter(|(_, table)| table.role == Role::Output)
                .map(|(id, _)| id)
                .collect());
        }
        if self.tables.iter().any(|name| name == "all") {
            let shown = schema.iter().filter(|(id, _)| Tables::All.include(schema, *id));
            return Ok(shown.map(|(id, _)| id).collect());
        }
        let find = |name: &String| {
            let unknown = || {
                let known: Vec<&str> = schema
                    .iter()
                    .filter(|(id, _)| Tables::All.include(schema, *id))
                    .map(|(_, table)| table.name.as_str())
                    .collect();
                let more = if known.len() > SHOWN_TABLES { ", …" } else { "" };
                let known = known[..known.len().min(SHOWN_TABLES)].join(", ");
                Failure::Usage(format!("--tables: the program has no table `{name}`; it has {known}{more}"))
            };
            schema.find(name).ok_or_else(unknown)
        };
        self.tables.iter().map(find).collect()
    }
}

/// What people know the input as.
fn input_name(input: &Path) -> String {
    if input.as_os_str() == "-" { "standard input".to_owned() } else { input.display().to_string() }
}

/// The file, or standard input for `-`.
pub(crate) fn open_input(input: &Path) -> Result<Box<dyn BufRead>, Failure> {
    if input.as_os_str() == "-" {
        return Ok(Box::new(io::stdin().lock()));
    }
    let file = File::open(input)
        .map_err(|error| Failure::outside(format!("cannot read {}", input_name(input)), error))?;
    Ok(Box::new(BufReader::with_capacity(1 << 20, file)))
}

/// What a run has come to.
pub(crate) struct Run {
    input: String,
    program: Arc<Program>,
    last_number: u64,
    accepted: u64,
    refused: u64,
    redundant_inserts: u64,
    redundant_deletes: u64,
}

impl Run {
    pub(crate) fn new(input: &Path, program: Arc<Program>) -> Self {
        Run {
            input: input_name(input),
            program,
            last_number: 0,
            accepted: 0,
            refused: 0,
            redundant_inserts: 0,
            redundant_deletes: 0,
        }
    }

    /// Takes each line through the evaluator, and prints a line for it. Accepted ones are given to `each`, with their
    /// number and delta.
    pub(crate) fn lines(
        &mut self,
        mut input: Box<dyn BufRead>,
        evaluator: &mut dyn Evaluator,
        mut out: Option<&mut impl Write>,
        each: &mut dyn FnMut(u64, &Delta),
    ) -> Result<(), Failure> {
        let schema = self.program.schema.clone();
        let (mut line, mut number, mut text) = (Vec::new(), 0, Vec::new());
        loop {
            line.clear();
            let read = input.read_until(b'\n', &mut line);
            if read.map_err(|error| Failure::outside(format!("cannot read {}", self.input), error))? == 0 {
                return Ok(());
            }
            number += 1;
            let line = line.trim_ascii_end();
            if line.is_empty() {
                continue;
            }
            text.clear();
            self.line(line, number, &schema, evaluator, &mut text, each)?;
            if let Some(out) = out.as_mut() {
                out.write_all(&text).map_err(Failure::output)?;
                // Whoever feeds us line by line waits for the answer.
                out.flush().map_err(Failure::output)?;
            }
        }
    }

    fn line(
        &mut self,
        line: &[u8],
        number: u64,
        schema: &Schema,
        evaluator: &mut dyn Evaluator,
        text: &mut Vec<u8>,
        each: &mut dyn FnMut(u64, &Delta),
    ) -> Result<(), Failure> {
        let parsed = parse_line(line, number, schema);
        let txn = match &parsed {
            Ok(parsed) => parsed.txn,
            Err(LineError { txn, .. }) => *txn,
        };
        let txn = txn.unwrap_or(self.last_number.saturating_add(1));
        self.last_number = txn;
        let result = match parsed {
            Ok(parsed) => self.commit(&parsed.transaction, evaluator),
            Err(LineError { error, before, .. }) => {
                Err(evaluator.check(&before).err().unwrap_or(error).into())
            }
        };
        match result {
            Ok(delta) => {
                each(txn, &delta);
                write_delta_line(text, txn, &delta, schema);
            }
            Err(CommitError::Refused(error)) => {
                self.refused += 1;
                say(format_args!("{}", self.complaint(number, txn, &error)));
                write_error_line(text, txn, &error);
            }
            Err(error @ CommitError::Engine(_)) => return Err(Failure::Outside(error.to_string())),
        }
        Ok(())
    }

    fn commit(
        &mut self,
        transaction: &Transaction,
        evaluator: &mut dyn Evaluator,
    ) -> Result<Delta, CommitError> {
        let committed = evaluator.commit(transaction)?;
        self.accepted += 1;
        self.redundant_inserts += committed.redundant_inserts;
        self.redundant_deletes += committed.redundant_deletes;
        Ok(committed.delta)
    }

    /// What the program's facts give holds even if no transaction was accepted.
    fn state_facts(&mut self, evaluator: &mut dyn Evaluator) -> Result<(), Failure> {
        if self.accepted > 0 {
            return Ok(());
        }
        self.commit(&Transaction::default(), evaluator).map(drop).map_err(|error| match error {
            CommitError::Refused(error) => Failure::Rejected(format!("the program's facts: {error}")),
            CommitError::Engine(_) => Failure::Outside(error.to_string()),
        })
    }

    /// What people are told of a refused transaction: where, why, and which rule has to do with it.
    fn complaint(&self, line: u64, txn: u64, error: &TransactionError) -> String {
        let code = error.code.name();
        let message = &error.message;
        // The message of a line that is no JSON begins with its place.
        let place = format!("line {line}, column ");
        let (column, message) = message
            .strip_prefix(&place)
            .and_then(|rest| rest.split_once(": "))
            .unwrap_or(("1", message.as_str()));
        let rule = error.rule.map(|rule| format!(" (the rule at {})", self.program.rule(rule).place));
        let rule = rule.unwrap_or_default();
        format!(
            "{}:{line}:{column}: error[{code}]: {message}{rule}; transaction {txn} changes nothing",
            self.input
        )
    }

    /// Says what people should know, and whether all went well.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        let mut redundant = Vec::new();
        if self.redundant_inserts > 0 {
            let were = if self.redundant_inserts == 1 { "row was" } else { "rows were" };
            redundant.push(format!("{} inserted {were} there already", self.redundant_inserts));
        }
        if self.redundant_deletes > 0 {
            let were = if self.redundant_deletes == 1 { "row was" } else { "rows were" };
            redundant.push(format!("{} deleted {were} not there", self.redundant_deletes));
        }
        if !redundant.is_empty() {
            say(format_args!("warning: {}; nothing changed by that", redundant.join(", ")));
        }
        if self.refused == 0 {
            return Ok(());
        }
        let were = if self.refused == 1 { "transaction was" } else { "transactions were" };
        say(format_args!("{} {were} refused and changed nothing", self.refused));
        Err(Failure::Reported)
    }
}

fn write_contents(
    evaluator: &mut dyn Evaluator,
    tables: &BTreeSet<TableId>,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let mut contents = Vec::with_capacity(tables.len());
    for &table in tables {
        let rows = evaluator.contents(table).map_err(|error| Failure::Outside(error.to_string()))?;
        contents.push((evaluator.schema().table(table).name.clone(), rows));
    }
    let mut text = Vec::new();
    write_contents_line(&mut text, contents.iter().map(|(name, rows)| (name.as_str(), rows.as_slice())));
    out.write_all(&text).map_err(Failure::output)
}
