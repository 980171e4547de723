//! Runs one program in the reference and in engines of every kind, side by side.
#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod generate;
pub(crate) mod setup;
pub(crate) mod statistics;

use std::sync::Arc;

use nlog::Program;
use nlog_data::{
    CommitError, Committed, Evaluator, Row, Schema, Scrubbed, TableId, Tables, Transaction, json,
};
use nlog_dataflow::Options;
use nlog_plan::Statistics;
use nlog_reference::Reference;
pub(crate) use test_random::Random;

use setup::{Kind, Setup};

/// The memory of the process, in KiB.
pub(crate) fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find(|line| line.starts_with("VmRSS")).expect("a process is somewhere");
    line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).expect("a number")
}

/// Compiles a program without errors.
pub(crate) fn compile(text: &str) -> Arc<Program> {
    let compilation = nlog::compile(&nlog::Sources::from_texts([("test.nlog", text)]));
    match compilation.program {
        Some(program) => program,
        None => panic!("{text}\ndoes not compile: {:?}", compilation.diagnostics),
    }
}

/// Reads a transaction.
pub(crate) fn transaction(program: &Program, text: &str) -> Transaction {
    let text: String = text.split('\n').collect();
    let line = json::parse_line(text.as_bytes(), 1, &program.schema).expect("the test's line is right");
    line.transaction
}

/// Every engine, with every number of workers to test.
pub(crate) const ENGINES: [(Kind, usize); 6] = [
    (Kind::Fused, 1),
    (Kind::Fused, 2),
    (Kind::Fused, 4),
    (Kind::Composed, 1),
    (Kind::Composed, 2),
    (Kind::Composed, 4),
];

/// The evaluators, and the last answer of each.
pub(crate) struct Runs {
    program: Arc<Program>,
    names: Vec<String>,
    evaluators: Vec<Box<dyn Evaluator>>,
    lines: Vec<String>,
    txn: u64,
    tables: Tables,
    attribute: bool,
}

impl Runs {
    /// The reference and every engine.
    pub(crate) fn new(program: &Arc<Program>, tables: &Tables, attribute: bool) -> Self {
        let mut runs = Runs::alone(program, tables, attribute);
        for (engine, workers) in ENGINES {
            runs.add(Setup::new(engine, workers));
        }
        runs
    }

    /// The reference alone.
    pub(crate) fn alone(program: &Arc<Program>, tables: &Tables, attribute: bool) -> Self {
        let reference = Reference::new(Arc::clone(program), tables.clone());
        let reference = if attribute { reference.with_attribution() } else { reference };
        Runs {
            program: Arc::clone(program),
            names: vec!["reference".to_owned()],
            evaluators: vec![Box::new(reference)],
            lines: Vec::new(),
            txn: 0,
            tables: tables.clone(),
            attribute,
        }
    }

    /// Adds another engine.
    pub(crate) fn add(&mut self, setup: Setup) {
        let (observe, attribute) = (self.tables.clone(), self.attribute);
        let options = Options { observe, attribute, ..Options::default() };
        self.names.push(setup.name());
        self.evaluators.push(setup.start(&self.program, options));
    }

    /// Runs a transaction in all evaluators. Returns the reference's line.
    pub(crate) fn commit(&mut self, transaction: &Transaction) -> String {
        self.txn += 1;
        let txn = self.txn;
        let schema = &self.program.schema;
        self.lines = (self.evaluators.iter_mut())
            .map(|evaluator| said(evaluator.commit(transaction), txn, schema))
            .collect();
        self.lines[0].split('\0').next().unwrap_or_default().to_owned()
    }

    /// Whether all last answers are equal.
    pub(crate) fn agreed(&self) -> bool {
        self.lines.iter().all(|line| *line == self.lines[0])
    }

    /// The statistics of all tables that users see.
    pub(crate) fn statistics(&mut self) -> Statistics {
        statistics::of_state(self.evaluators[0].as_mut(), &self.program)
    }

    /// Whether the last transaction was refused.
    pub(crate) fn refused(&self) -> bool {
        self.lines[0].contains(r#""error""#)
    }

    /// The last answer of each evaluator.
    pub(crate) fn difference(&self) -> String {
        let lines = self.names.iter().zip(&self.lines).map(|(name, line)| format!("{name}: {line}\n"));
        lines.collect()
    }

    /// What an engine has stored and does not follow from its inputs, if there is any.
    pub(crate) fn scrubbed(&mut self) -> Option<String> {
        let mut engines = self.names.iter().zip(&mut self.evaluators);
        engines.find_map(|(name, evaluator)| {
            loop {
                match evaluator.scrub().expect("it compares") {
                    Scrubbed::Whole => return None,
                    Scrubbed::More => {}
                    Scrubbed::Differs(what) => return Some(format!("{name}: {what}")),
                }
            }
        })
    }

    /// Whether all evaluators have the same rows in all observed tables.
    pub(crate) fn contents_are_equal(&mut self) -> bool {
        let program = Arc::clone(&self.program);
        let asked = program.schema.iter().filter(|(id, _)| self.tables.include(&program.schema, *id));
        asked.map(|(id, _)| id).all(|id| {
            let mut contents =
                self.evaluators.iter_mut().map(|evaluator| evaluator.contents(id).expect("asked for"));
            let first = contents.next().expect("there is a reference");
            contents.all(|other| other == first)
        })
    }

    /// The rows of an input table.
    pub(crate) fn inputs(&mut self, table: TableId) -> Vec<Row> {
        self.evaluators[0].contents(table).expect("inputs are always there")
    }
}

/// A transaction's line, followed by results that lines do not contain.
fn said(result: Result<Committed, CommitError>, txn: u64, schema: &Schema) -> String {
    let mut line = Vec::new();
    let more = match result {
        Ok(committed) => {
            json::write_delta_line(&mut line, txn, &committed.delta, schema);
            let mut more = format!(" {} {}", committed.redundant_inserts, committed.redundant_deletes);
            for (table, delta) in &committed.delta.tables {
                if !(delta.rules.is_empty() && delta.reattributed.is_empty()) {
                    more += &format!(" {table:?}: {:?} {:?}", delta.rules, delta.reattributed);
                }
            }
            more
        }
        Err(CommitError::Refused(error)) => {
            json::write_error_line(&mut line, txn, &error);
            format!(" {:?}", error.rule)
        }
        Err(CommitError::Engine(why)) => format!("engine: {why}"),
        Err(CommitError::Stopped(why)) => format!("stopped: {why}"),
    };
    let line = String::from_utf8(line).expect("JSON is text");
    format!("{}\0{more}", line.trim_end())
}
