//! Lines of transactions through an evaluator, and what becomes of each.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::path::Path;
use std::sync::Arc;

use nlog::Program;
use nlog_data::json::{ColumnLine, LineError, parse_line_columns, write_delta_columns, write_error_line};
use nlog_data::{
    ColumnDelta, ColumnTransaction, CommitError, CommittedColumns, ErrorCode, Evaluator, TransactionError,
};

use super::hooks;
use super::state::Progress;
use crate::exit::{Failure, say};

/// How much is read at once, in bytes.
const READ: usize = 1 << 20;

/// Where lines come from. That it buffers is what tells whether somebody waits for the answers to those so far.
pub(crate) type Lines = BufReader<Box<dyn Read>>;

/// What people know the input as.
fn input_name(input: &Path) -> String {
    if input.as_os_str() == "-" { "standard input".to_owned() } else { input.display().to_string() }
}

/// The file, or standard input for `-`.
pub(crate) fn open_input(input: &Path) -> Result<Lines, Failure> {
    let from: Box<dyn Read> = if input.as_os_str() == "-" {
        Box::new(io::stdin().lock())
    } else {
        let file = File::open(input);
        Box::new(file.map_err(|error| Failure::outside(format!("cannot read {}", input_name(input)), error))?)
    };
    Ok(BufReader::with_capacity(READ, from))
}

/// What a run has come to.
pub(crate) struct Run {
    input: String,
    program: Arc<Program>,
    /// With what came before, if the run goes on where another one stopped.
    pub(super) progress: Progress,
    refused: u64,
    redundant_inserts: u64,
    redundant_deletes: u64,
}

impl Run {
    pub(crate) fn new(input: &Path, program: Arc<Program>) -> Self {
        Run {
            input: input_name(input),
            program,
            progress: Progress::default(),
            refused: 0,
            redundant_inserts: 0,
            redundant_deletes: 0,
        }
    }

    /// Takes each line through the evaluator, and prints a line for it. Accepted ones are given to `each`, with their
    /// number and delta.
    ///
    /// Holds one line and one delta at a time. Output is handed on before input is waited for: whoever feeds us line
    /// by line waits for the answer.
    pub(crate) fn lines(
        &mut self,
        mut input: Lines,
        evaluator: &mut dyn Evaluator,
        mut out: Option<&mut impl Write>,
        each: &mut dyn FnMut(u64, &ColumnDelta),
    ) -> Result<(), Failure> {
        let schema = self.program.schema.clone();
        let (mut line, mut number) = (Vec::new(), 0);
        loop {
            if let Some(out) = out.as_mut().filter(|_| !input.buffer().contains(&b'\n')) {
                out.flush().map_err(Failure::output)?;
            }
            line.clear();
            let read = input.read_until(b'\n', &mut line);
            if read.map_err(|error| Failure::outside(format!("cannot read {}", self.input), error))? == 0 {
                return Ok(());
            }
            number += 1;
            let text = line.trim_ascii_end();
            if text.is_empty() {
                continue;
            }
            let parsed = parse_line_columns(text, number, &schema);
            if line.capacity() > READ {
                line = Vec::new();
            }
            let txn = match &parsed {
                Ok(ColumnLine { txn, .. }) | Err(LineError { txn, .. }) => *txn,
            };
            let txn = txn.unwrap_or(self.progress.last_number.saturating_add(1));
            self.progress.last_number = txn;
            match self.take(number, parsed, evaluator)? {
                Ok(delta) => {
                    each(txn, &delta);
                    if let Some(out) = out.as_mut() {
                        write_delta_columns(*out, txn, &delta, &schema).map_err(Failure::output)?;
                    }
                }
                Err(error) => {
                    // A terminal shows both outputs, in the order in which things happened.
                    if let Some(out) = out.as_mut() {
                        out.flush().map_err(Failure::output)?;
                    }
                    say(self.complaint(number, txn, &error));
                    let mut text = Vec::new();
                    write_error_line(&mut text, txn, &error);
                    if let Some(out) = out.as_mut() {
                        out.write_all(&text).map_err(Failure::output)?;
                    }
                }
            }
        }
    }

    /// The delta of a line's transaction, or why it is refused.
    fn take(
        &mut self,
        number: u64,
        parsed: Result<ColumnLine, LineError>,
        evaluator: &mut dyn Evaluator,
    ) -> Result<Result<ColumnDelta, TransactionError>, Failure> {
        let result = match parsed {
            Ok(parsed) => match hooks::tick(&parsed, number) {
                Ok(None) => self.commit(&parsed.transaction, evaluator),
                Ok(Some(now)) => self.tick(now, number, evaluator),
                Err(error) => Err(error.into()),
            },
            Err(LineError { error, before, .. }) => {
                Err(evaluator.check(&before).err().unwrap_or(error).into())
            }
        };
        match result {
            Ok(delta) => Ok(Ok(delta)),
            Err(CommitError::Refused(error)) => {
                self.refused += 1;
                Ok(Err(error))
            }
            Err(error @ CommitError::Engine(_)) => Err(Failure::Outside(error.to_string())),
        }
    }

    fn commit(
        &mut self,
        transaction: &ColumnTransaction,
        evaluator: &mut dyn Evaluator,
    ) -> Result<ColumnDelta, CommitError> {
        let committed = evaluator.commit_columns(transaction)?;
        self.progress.accepted += 1;
        self.redundant_inserts += committed.redundant_inserts;
        self.redundant_deletes += committed.redundant_deletes;
        Ok(committed.delta)
    }

    fn tick(
        &mut self,
        now: u64,
        number: u64,
        evaluator: &mut dyn Evaluator,
    ) -> Result<ColumnDelta, CommitError> {
        let committed = evaluator.tick(now).map_err(|error| match error {
            // Nobody waits for it: the line is at fault.
            CommitError::Refused(error) if error.code == ErrorCode::BadJson => {
                let message = format!("line {number}, column 1: {}", error.message);
                CommitError::Refused(TransactionError { message, ..error })
            }
            error => error,
        })?;
        self.progress.accepted += 1;
        let committed = CommittedColumns::from_rows(committed);
        committed.map(|committed| committed.delta).map_err(|error| CommitError::Engine(error.to_string()))
    }

    /// What the program's facts give holds even if no transaction was accepted.
    pub(crate) fn state_facts(&mut self, evaluator: &mut dyn Evaluator) -> Result<(), Failure> {
        if self.progress.accepted > 0 {
            return Ok(());
        }
        self.commit(&ColumnTransaction::default(), evaluator).map(drop).map_err(|error| match error {
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
