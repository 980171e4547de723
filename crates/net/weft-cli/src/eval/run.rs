//! Runs lines of transactions through an evaluator and prints the answers.

use std::collections::BTreeSet;
use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::path::Path;
use std::sync::Arc;

use controller::journal;
use nlog::Program;
use nlog::program::Place;
use nlog_data::encoding::{other_than_utf8, without_mark};
use nlog_data::json::{ColumnLine, LineError, parse_line_columns, write_delta_columns, write_error_line};
use nlog_data::quotation::shortened;
use nlog_data::{
    ColumnDelta, ColumnTransaction, CommitError, CommittedColumns, ErrorCode, Evaluator, Role, Row, Schema,
    TableId, Tables, TransactionError,
};
use nlog_explain::{conflict, explanation};
use objects::{ListedFault, ObjectError, fault_lines, locate};
use serde_json::Value as Json;

use super::edit::{self, BAD_RULES, Edit, Rules};
use super::memory::memory;
use super::objects::{BAD_OBJECT, Source};
use super::running::{Running, Unchanged};
use super::state::Progress;
use super::tick::tick;
use crate::exit::{Failure, say};
use crate::faults::fault_json;
use crate::recorded;

/// The longest line, in bytes.
const MAX_LINE: u64 = 1 << 30;

/// The size of a read, in bytes.
const READ: usize = 1 << 20;

/// The source of lines. If its buffer is empty, the sender may be waiting for the answers so far.
pub(crate) type Lines = BufReader<Box<dyn Read>>;

/// The name of the input in messages.
fn input_name(input: &Path) -> String {
    if input.as_os_str() == "-" { "standard input".to_owned() } else { input.display().to_string() }
}

/// Opens the file, or standard input for `-`.
pub(super) fn open_input(input: &Path) -> Result<Lines, Failure> {
    let from: Box<dyn Read> = if input.as_os_str() == "-" {
        Box::new(io::stdin().lock())
    } else {
        let file = journal::open(input);
        Box::new(file.map_err(|error| Failure::outside(format!("cannot read {}", input_name(input)), error))?)
    };
    Ok(BufReader::with_capacity(READ, from))
}

/// The result of an accepted transaction.
pub(super) struct Answer {
    delta: ColumnDelta,
    /// The tables of the delta.
    schema: Arc<Schema>,
    /// Whether the line was a dry run.
    dry_run: bool,
}

/// Why a transaction changes nothing.
pub(super) enum Refusal {
    /// An error of a transaction, with the rule involved.
    Transaction(TransactionError, Option<Place>),
    /// Two rows with one key, and a line for each that says where it comes from.
    Conflict(TransactionError, Vec<String>),
    /// An edit of rules that is refused.
    Rules(String),
    /// Objects with faults, at least one. If rules refuse them, the error of the transaction.
    Objects(Vec<ObjectError>, Option<TransactionError>),
}

/// Where a transaction comes from.
#[derive(Clone, Copy)]
pub(super) enum Origin<'a> {
    /// A line of the input.
    Line(u64),
    /// A file of objects.
    File(&'a str),
}

impl From<TransactionError> for Refusal {
    fn from(error: TransactionError) -> Self {
        Refusal::Transaction(error, None)
    }
}

/// Takes the number and the delta of an accepted transaction.
pub(crate) type Each<'a> = dyn FnMut(u64, &ColumnDelta) + 'a;

/// An answer, a refusal, or the end of the run.
pub(super) type Taken<T> = Result<Result<T, Refusal>, Failure>;

/// The state of a run.
pub(crate) struct Run {
    input: String,
    /// The current program.
    pub(super) program: Arc<Program>,
    /// The state for edits of rules; without it, rules cannot be edited.
    pub(super) rules: Option<Rules>,
    /// The progress, including that of an earlier run that this one continues.
    pub(crate) progress: Progress,
    /// The number of the last transaction to run; all of them without it.
    pub(crate) until: Option<u64>,
    /// The number of the last transaction that ran before, and that the input may have too.
    after: u64,
    refused: u64,
    redundant_inserts: u64,
    redundant_deletes: u64,
    /// The number of conflicts whose rows have been derived again.
    explained: u32,
}

/// So many conflicts of a run are explained. Each derives rows again from all inputs.
const EXPLAINED_MAX: u32 = 10;

/// The most bytes that are shown of a row of an input table behind such a conflict.
const INPUT_MAX: usize = 80;

impl Run {
    pub(crate) fn new(source: &Source, program: Arc<Program>) -> Self {
        Run {
            input: source.input.as_deref().map(input_name).unwrap_or_default(),
            program,
            rules: None,
            progress: Progress::default(),
            until: None,
            after: 0,
            refused: 0,
            redundant_inserts: 0,
            redundant_deletes: 0,
            explained: 0,
        }
    }

    /// A run of the records of a journal after a transaction, up to another.
    pub(crate) fn of_journal(file: &Path, program: Arc<Program>, after: u64, until: u64) -> Self {
        let progress = Progress { last_number: after, accepted: after };
        let (input, until) = (input_name(file), Some(until));
        Run {
            input,
            program,
            rules: None,
            progress,
            until,
            after,
            refused: 0,
            redundant_inserts: 0,
            redundant_deletes: 0,
            explained: 0,
        }
    }

    /// Runs those of a file that have not run yet.
    pub(crate) fn journal(
        &mut self,
        file: &Path,
        running: &mut Running,
        out: Option<&mut impl Write>,
        each: &mut Each<'_>,
    ) -> Result<(), Failure> {
        (self.input, self.after) = (input_name(file), self.progress.last_number);
        self.lines(open_input(file)?, running, out, each)
    }

    /// Runs each line through the evaluator and prints the answer. Passes the number and the delta of each accepted
    /// line to `each`.
    ///
    /// Keeps one line and one delta in memory at a time. Flushes the output before waiting for input, because a
    /// sender that writes line by line waits for each answer.
    pub(super) fn lines(
        &mut self,
        mut input: Lines,
        running: &mut Running,
        mut out: Option<&mut impl Write>,
        each: &mut Each<'_>,
    ) -> Result<(), Failure> {
        let (mut line, mut number) = (Vec::new(), 0);
        loop {
            if let Some(out) = out.as_mut().filter(|_| !input.buffer().contains(&b'\n')) {
                out.flush().map_err(Failure::output)?;
            }
            line.clear();
            // One byte more shows that the line is too long.
            let read = input.by_ref().take(MAX_LINE + 1).read_until(b'\n', &mut line);
            if read.map_err(|error| Failure::outside(format!("cannot read {}", self.input), error))? == 0 {
                return Ok(());
            }
            number += 1;
            if line.len() as u64 > MAX_LINE {
                return Err(Failure::Rejected(format!(
                    "{}:{number}:1: the line is longer than {} GiB; a transaction is one line: split it into several",
                    self.input,
                    MAX_LINE >> 30
                )));
            }
            let mut text = line.trim_ascii_end();
            if number == 1 {
                if let Some(encoding) = other_than_utf8(text) {
                    return Err(Failure::Rejected(format!(
                        "{}:1:1: the text is encoded in {encoding}, not in UTF-8; save it with UTF-8 encoding",
                        self.input
                    )));
                }
                text = without_mark(text);
            }
            if text.is_empty() {
                continue;
            }
            if self.after > 0 && recorded::head(text).is_some_and(|head| head.txn <= self.after) {
                continue;
            }
            let parsed = parse_line_columns(text, number, &self.program.schema);
            if line.capacity() > READ {
                line = Vec::new();
            }
            let txn = match &parsed {
                Ok(ColumnLine { txn, .. }) | Err(LineError { txn, .. }) => *txn,
            };
            let txn = txn.unwrap_or(self.progress.last_number.saturating_add(1));
            if self.is_after_the_end(txn) {
                return Ok(());
            }
            self.progress.last_number = txn;
            let taken = self.take(number, parsed, running)?;
            self.answer(Origin::Line(number), txn, taken, &mut out, each)?;
        }
    }

    /// Whether a transaction comes after the last one to run.
    pub(super) fn is_after_the_end(&self, txn: u64) -> bool {
        self.until.is_some_and(|until| txn > until)
    }

    /// Prints the answer to a transaction, and passes on the delta of an accepted one.
    pub(super) fn answer(
        &mut self,
        from: Origin<'_>,
        txn: u64,
        taken: Result<Answer, Refusal>,
        out: &mut Option<&mut impl Write>,
        each: &mut Each<'_>,
    ) -> Result<(), Failure> {
        match taken {
            Ok(answer) => {
                if !answer.dry_run {
                    each(txn, &answer.delta);
                }
                if let Some(out) = out.as_mut() {
                    answer.write(*out, txn).map_err(Failure::output)?;
                }
            }
            Err(refusal) => {
                self.refused += 1;
                // A terminal shows both outputs in chronological order.
                if let Some(out) = out.as_mut() {
                    out.flush().map_err(Failure::output)?;
                }
                say(self.complaint(from, txn, &refusal));
                if let Some(out) = out.as_mut() {
                    out.write_all(&refusal.line(txn)).map_err(Failure::output)?;
                }
            }
        }
        Ok(())
    }

    /// Executes a line. Returns its result, or the refusal.
    fn take(
        &mut self,
        number: u64,
        parsed: Result<ColumnLine, LineError>,
        running: &mut Running,
    ) -> Taken<Answer> {
        let evaluator = running.evaluator();
        let parsed = match parsed {
            Ok(parsed) => parsed,
            Err(LineError { error, before, .. }) => {
                return Ok(Err(evaluator.check(&before).err().unwrap_or(error).into()));
            }
        };
        let result = match (tick(&parsed, number), edit::edit(&parsed, number), memory(&parsed, number)) {
            (Err(error), ..) | (_, Err(error), _) | (.., Err(error)) => Err(error.into()),
            (_, Ok(Some(edit)), _) => return self.edit(&edit, running),
            _ if edit::is_dry_run(&parsed) => self.commit(&ColumnTransaction::default(), evaluator),
            (tick, _, Ok(memories)) => match (evaluator.restore(&memories), tick) {
                (Err(error), _) => Err(error.into()),
                (Ok(()), Ok(Some(now))) => self.tick(now, number, evaluator),
                (Ok(()), _) => self.commit(&parsed.transaction, evaluator),
            },
        };
        let taken = self.committed(result)?;
        Ok(taken.map_err(|refusal| self.explained(refusal, &parsed.transaction, evaluator)))
    }

    /// The rows of all input tables, those of hooks included. If the evaluator fails, the next transaction says so.
    pub(super) fn inputs(&self, evaluator: &mut dyn Evaluator) -> Vec<(TableId, Row)> {
        let mut rows = Vec::new();
        for (id, _) in self.program.schema.iter().filter(|(_, table)| table.role == Role::Input) {
            let of_table = evaluator.contents(id).unwrap_or_default();
            rows.extend(of_table.into_iter().map(|row| (id, row)));
        }
        rows
    }

    /// The refusal, which for two rows with one key says where they come from.
    pub(super) fn explained(
        &mut self,
        refusal: Refusal,
        transaction: &ColumnTransaction,
        evaluator: &mut dyn Evaluator,
    ) -> Refusal {
        let Refusal::Transaction(error, place) = refusal else { return refusal };
        let Some(conflict) = error.conflict.as_deref().filter(|_| self.explained < EXPLAINED_MAX) else {
            return Refusal::Transaction(error, place);
        };
        self.explained += 1;
        let before = self.inputs(evaluator);
        let sources = conflict::sources(&self.program, before, &transaction.to_rows(), conflict);
        let named = |table, row: &Row| {
            Some(shortened(&explanation::atom(&self.program, table, row), INPUT_MAX).into_owned())
        };
        let lines = conflict::lines(&self.program, &sources, named);
        Refusal::Conflict(error, lines)
    }

    /// The answer to a commit, or its refusal.
    pub(super) fn committed(&self, result: Result<ColumnDelta, CommitError>) -> Taken<Answer> {
        match result {
            Ok(delta) => Ok(Ok(Answer { delta, schema: Arc::clone(&self.program.schema), dry_run: false })),
            Err(CommitError::Refused(error)) => {
                let place = error.rule.map(|rule| self.program.rule(rule).place.clone());
                Ok(Err(Refusal::Transaction(error, place)))
            }
            Err(error @ (CommitError::Stopped(_) | CommitError::Engine(_))) => {
                Err(Failure::Outside(error.to_string()))
            }
        }
    }

    /// Changes to the edited program, unless this is a dry run.
    fn edit(&mut self, edit: &Edit, running: &mut Running) -> Taken<Answer> {
        let Some(rules) = &self.rules else {
            return Ok(Err(Refusal::Rules("rules cannot change here; `weft eval` takes edits".to_owned())));
        };
        let edited = match rules.edited(edit, &self.program) {
            Ok(edited) => edited,
            Err(why) => return Ok(Err(Refusal::Rules(why))),
        };
        let schema = Arc::clone(&edited.program.schema);
        let observe = Tables::These(edited.rules.observed(&schema));
        let begun = self.progress.accepted > 0;
        match running.change(Arc::clone(&edited.program), observe, edit.dry_run, begun) {
            Ok(delta) => {
                if !edit.dry_run {
                    self.program = edited.program;
                    self.rules = Some(edited.rules);
                }
                Ok(Ok(Answer { delta, schema, dry_run: edit.dry_run }))
            }
            Err(Unchanged::Rules(why)) => Ok(Err(Refusal::Rules(why))),
            Err(Unchanged::Derived(error)) => {
                let place = error.rule.map(|rule| edited.program.rule(rule).place.clone());
                Ok(Err(Refusal::Transaction(error, place)))
            }
            Err(Unchanged::Engine(why)) => Err(Failure::Outside(why)),
        }
    }

    pub(super) fn commit(
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
            // The result is not needed, because the line is invalid.
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

    /// The current program.
    pub(super) fn program(&self) -> &Program {
        &self.program
    }

    /// The observed tables of the current program.
    pub(super) fn observed(&self) -> BTreeSet<TableId> {
        self.rules.as_ref().map(|rules| rules.observed(&self.program.schema)).unwrap_or_default()
    }

    /// Applies the program's facts even if no transaction was accepted.
    pub(crate) fn state_facts(&mut self, evaluator: &mut dyn Evaluator) -> Result<(), Failure> {
        if self.progress.accepted > 0 {
            return Ok(());
        }
        self.commit(&ColumnTransaction::default(), evaluator).map(drop).map_err(|error| match error {
            CommitError::Refused(error) => Failure::Rejected(format!("the program's facts: {error}")),
            CommitError::Stopped(_) | CommitError::Engine(_) => Failure::Outside(error.to_string()),
        })
    }

    /// The message about a refused transaction: place, reason and the rule involved.
    fn complaint(&self, from: Origin<'_>, txn: u64, refusal: &Refusal) -> String {
        let (code, message, rule) = match refusal {
            Refusal::Objects(faults, _) => {
                let texts: Vec<String> = faults.iter().map(ToString::to_string).collect();
                let listed = faults.iter().zip(&texts).map(|(fault, text)| {
                    let ObjectError { kind, path, message, .. } = fault;
                    ListedFault { kind: kind.as_deref().unwrap_or_default(), path, message, text }
                });
                return format!("error: {}", fault_lines(&listed.collect::<Vec<_>>()).join("\n"));
            }
            Refusal::Transaction(error, rule) => (error.code.name(), &error.message, rule.as_ref()),
            Refusal::Conflict(error, _) => (error.code.name(), &error.message, None),
            Refusal::Rules(why) => (BAD_RULES, why, None),
        };
        let (place, message) = match from {
            Origin::File(name) => (name.to_owned(), message.as_str()),
            Origin::Line(line) => {
                // The message about a line that is not JSON begins with its place.
                let own = message.strip_prefix(&format!("line {line}, column "));
                let own = own.and_then(|rest| rest.split_once(": "));
                let (column, message) = own.unwrap_or(("1", message.as_str()));
                (format!("{}:{line}:{column}", self.input), message)
            }
        };
        let rule = rule.map(|place| format!(" (the rule at {place})")).unwrap_or_default();
        let lines = if let Refusal::Conflict(_, lines) = refusal { lines.as_slice() } else { &[] };
        let lines: String = lines.iter().flat_map(|line| ["\n", line]).collect();
        format!("{place}: error[{code}]: {message}{rule}; transaction {txn} changes nothing{lines}")
    }

    /// Prints the summary, and returns whether all lines were accepted.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        let mut redundant = Vec::new();
        if self.redundant_inserts > 0 {
            let rows = if self.redundant_inserts == 1 { "row" } else { "rows" };
            redundant.push(format!("{} inserted {rows} already existed", self.redundant_inserts));
        }
        if self.redundant_deletes > 0 {
            let rows = if self.redundant_deletes == 1 { "row" } else { "rows" };
            redundant.push(format!("{} deleted {rows} did not exist", self.redundant_deletes));
        }
        if !redundant.is_empty() {
            say(format_args!("warning: {}; this changed nothing", redundant.join(", ")));
        }
        if self.refused == 0 {
            return Ok(());
        }
        let were = if self.refused == 1 { "transaction was" } else { "transactions were" };
        say(format_args!("{} {were} refused and changed nothing", self.refused));
        Err(Failure::Reported)
    }
}

impl Answer {
    /// Writes the line of this answer.
    fn write(&self, out: &mut impl Write, txn: u64) -> io::Result<()> {
        if !self.dry_run {
            return write_delta_columns(out, txn, &self.delta, &self.schema);
        }
        let mut line = Vec::new();
        write_delta_columns(&mut line, txn, &self.delta, &self.schema)?;
        let end = line.strip_suffix(b"}\n").unwrap_or(&line);
        out.write_all(end)?;
        out.write_all(b",\"dry_run\":true}\n")
    }
}

impl Refusal {
    /// The refusal of the objects of a file, each fault with the line of its field.
    pub(super) fn of_objects(
        name: &str,
        text: &str,
        mut faults: Vec<ObjectError>,
        error: Option<TransactionError>,
    ) -> Self {
        locate(name, text, &mut faults);
        Refusal::Objects(faults, error)
    }

    /// The line of this refusal.
    fn line(&self, txn: u64) -> Vec<u8> {
        match self {
            Refusal::Transaction(error, _) | Refusal::Conflict(error, _) => {
                let mut line = Vec::new();
                write_error_line(&mut line, txn, error);
                line
            }
            Refusal::Objects(faults, Some(error)) => {
                error_line(txn, error.code.name(), &error.message, faults)
            }
            Refusal::Objects(faults, None) => error_line(txn, BAD_OBJECT, &summary(faults), faults),
            Refusal::Rules(why) => error_line(txn, BAD_RULES, why, &[]),
        }
    }
}

/// The line of a refusal with faults of objects, or that is no error of a transaction.
fn error_line(txn: u64, code: &str, message: &str, faults: &[ObjectError]) -> Vec<u8> {
    let message = Json::from(message);
    let faults: Vec<String> = faults.iter().map(|fault| fault_json(fault).to_string()).collect();
    let faults =
        if faults.is_empty() { String::new() } else { format!(",\"faults\":[{}]", faults.join(",")) };
    format!("{{\"txn\":{txn},\"error\":{{\"code\":\"{code}\",\"message\":{message}{faults}}}}}\n")
        .into_bytes()
}

/// The first fault, and the number of others.
fn summary(faults: &[ObjectError]) -> String {
    let first = faults.first().map(ToString::to_string).unwrap_or_default();
    match faults.len() {
        0 | 1 => first,
        2 => format!("{first} and 1 more fault"),
        count => format!("{first} and {} more faults", count - 1),
    }
}
