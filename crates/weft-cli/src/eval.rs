//! `weft eval`: transactions in, deltas out, one line each.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use nlog_data::json::{LineError, parse_line, write_contents_line, write_delta_line, write_error_line};
use nlog_data::{CommitError, Delta, Evaluator, Role, Schema, TableId, Tables, Transaction};
use nlog_dataflow::Dataflow;
use nlog_reference::Reference;

use crate::exit::Failure;
use crate::program::compile;

/// Arguments of `weft eval`.
#[derive(Args)]
pub(crate) struct Eval {
    /// An `.nlog` file, or a folder of them
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

#[derive(ValueEnum, Clone, Copy)]
enum Engine {
    /// One dataflow of standard differential operators
    Composed,
}

impl Eval {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let program = compile(&self.programs)?;
        let tables = self.chosen_tables(&program.schema)?;
        let input = self.open_input()?;
        let Engine::Composed = self.engine;
        let observe = Tables::These(tables.clone());
        let mut evaluator: Box<dyn Evaluator> = if self.reference {
            Box::new(Reference::new(program, observe))
        } else {
            let options =
                nlog_dataflow::Options { workers: usize::from(self.workers), observe, attribute: false };
            Box::new(Dataflow::new(program, options).map_err(|error| Failure::Outside(error.to_string()))?)
        };
        let mut out = BufWriter::with_capacity(1 << 20, io::stdout().lock());
        let mut run = Run::default();
        run.lines(input, evaluator.as_mut(), (!self.final_contents).then_some(&mut out))?;
        if self.final_contents {
            write_contents(evaluator.as_mut(), &tables, &mut out)?;
        }
        out.flush().map_err(Failure::output)?;
        run.finish()
    }

    fn open_input(&self) -> Result<Box<dyn BufRead>, Failure> {
        if self.input.as_os_str() == "-" {
            return Ok(Box::new(io::stdin().lock()));
        }
        let file = File::open(&self.input)
            .map_err(|error| Failure::outside(format!("cannot read {}", self.input.display()), error))?;
        Ok(Box::new(BufReader::with_capacity(1 << 20, file)))
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
            return Ok(schema.iter().map(|(id, _)| id).collect());
        }
        let find = |name: &String| {
            let known = || schema.iter().map(|(_, table)| table.name.as_str()).collect::<Vec<_>>().join(", ");
            let unknown =
                || Failure::Usage(format!("--tables: the program has no table {name}; it has {}", known()));
            schema.find(name).ok_or_else(unknown)
        };
        self.tables.iter().map(find).collect()
    }
}

/// What a run has come to.
#[derive(Default)]
struct Run {
    last_number: u64,
    refused: u64,
    redundant_inserts: u64,
    redundant_deletes: u64,
}

impl Run {
    /// Takes each line through the evaluator, and prints a line for it.
    fn lines(
        &mut self,
        mut input: Box<dyn BufRead>,
        evaluator: &mut dyn Evaluator,
        mut out: Option<&mut impl Write>,
    ) -> Result<(), Failure> {
        let schema = Arc::new(evaluator.schema().clone());
        let (mut line, mut number, mut text) = (Vec::new(), 0, Vec::new());
        loop {
            line.clear();
            if input.read_until(b'\n', &mut line).map_err(|error| Failure::outside("cannot read", error))?
                == 0
            {
                return Ok(());
            }
            number += 1;
            let line = line.trim_ascii_end();
            if line.is_empty() {
                continue;
            }
            text.clear();
            self.line(line, number, &schema, evaluator, &mut text)?;
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
    ) -> Result<(), Failure> {
        let parsed = parse_line(line, number, schema);
        let txn = match &parsed {
            Ok(parsed) => parsed.txn,
            Err(LineError { txn, .. }) => *txn,
        };
        let txn = txn.unwrap_or(self.last_number + 1);
        self.last_number = txn;
        let result = match parsed {
            Ok(parsed) => self.commit(&parsed.transaction, evaluator),
            Err(LineError { error, .. }) => Err(error.into()),
        };
        match result {
            Ok(delta) => write_delta_line(text, txn, &delta, schema),
            Err(CommitError::Refused(error)) => {
                self.refused += 1;
                eprintln!("line {number}, transaction {txn}: refused: {error}");
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
        self.redundant_inserts += committed.redundant_inserts;
        self.redundant_deletes += committed.redundant_deletes;
        Ok(committed.delta)
    }

    /// Says what people should know, and whether all went well.
    fn finish(self) -> Result<(), Failure> {
        if self.redundant_inserts + self.redundant_deletes > 0 {
            eprintln!(
                "warning: {} inserted rows were there already, {} deleted rows were not there; they changed nothing",
                self.redundant_inserts, self.redundant_deletes
            );
        }
        if self.refused == 0 {
            return Ok(());
        }
        let were = if self.refused == 1 { "transaction was" } else { "transactions were" };
        eprintln!("{} {were} refused and changed nothing", self.refused);
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
