//! `weft explain` and `weft why-not`: why a row is present or missing after some transactions, or in a running controller.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use controller::JournalView;
use nlog::diagnostic::Severity;
use nlog::program::Pattern;
use nlog::{ATOM, Program, Sources};
use nlog_data::{ColumnDelta, CommitError, Evaluator, Row};
use nlog_explain::tree::Explainer;
use nlog_explain::{OnDemand, explanation, printed};
use packet_trace::{Origins, Question, UNKNOWN, follow, hook_engine, input_engine};
use weft_client::pb;
use weft_client::pb::row_question::About;

mod object;

pub(crate) use object::of_object;

use crate::client::{Address, failed};
use crate::eval::{Begin, Run, Running, Source};
use crate::exit::{Failure, print_as};
use crate::program::{compile, compile_sources, load, show};

/// The arguments of both commands.
#[derive(Args)]
struct Asked {
    /// Rules (without any, the running controller is asked), then a row
    // One list, since options may stand between programs and row.
    #[arg(required = true, value_name = "PROGRAM")]
    programs: Vec<PathBuf>,
    #[command(flatten)]
    source: Source,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    address: Address,
}

/// Arguments of `weft explain`.
#[derive(Args)]
#[command(
    override_usage = "weft explain [OPTIONS] [PROGRAM]... <ATOM|KIND/ID>",
    after_help = "Examples:\n  \
        weft explain switch_port/web-1                           an object, in sentences\n  \
        weft explain 'location(\"web-1\", ..)'                    a row of the running controller\n  \
        weft explain --host hv1 'cookie=0x1f'                    the flows of a host with this cookie\n  \
        weft explain builtin -i STATE/journal.jsonl 'route(..)'  rows from a controller's journal\n\n\
        Rules are `.nlog` files or folders, as one program; `builtin` is the built-in rules. In a row, `_`\n\
        and `..` match any value. An input row is shown with the transaction that inserted it; from a\n\
        journal, also with who requested that, and when. A running controller searches the last 16 MiB of\n\
        its journal. If several rules derive a row, one is shown: the rule with the lowest fingerprint, and\n\
        its first binding. At most 1,000 bindings of each rule are counted. The exit status is 1 if no row\n\
        matches: `weft why-not` tells why.",
    mut_arg("input", |input| input.required_unless_present_any(["objects", "programs"])),
)]
pub(crate) struct Explain {
    #[command(flatten)]
    asked: Asked,
    /// Maximum number of matching rows to explain
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rows: u32,
    /// Explain a flow of HOST, as `ovs-ofctl` prints it, or a cookie
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
}

/// Arguments of `weft why-not`.
#[derive(Args)]
#[command(
    override_usage = "weft why-not [OPTIONS] [PROGRAM]... <ATOM>",
    after_help = "Examples:\n  \
        weft why-not 'location(\"web-1\", ..)'                   in the running controller\n  \
        weft why-not rules -i net.jsonl 'route(\"a\", \"b\", _)'  after some transactions\n\n\
        Rules are `.nlog` files or folders, as one program; `builtin` is the built-in rules. In a row, `_`\n\
        and `..` match any value. Atoms with more known columns are tried first. The exit status is 1 if a\n\
        row matches: `weft explain` tells why it exists.",
    mut_arg("input", |input| input.required_unless_present_any(["objects", "programs"])),
)]
pub(crate) struct WhyNotCommand {
    #[command(flatten)]
    asked: Asked,
    /// Explain why HOST lacks a flow, written as `ovs-ofctl` prints it
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
}

impl Explain {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        if let Some((programs, asked)) = self.asked.object().filter(|_| self.host.is_none()) {
            return self.object(programs, &asked);
        }
        let Some((programs, atom)) = self.asked.parts()? else {
            let question = Some(self.asked.message(self.host.as_deref()));
            let is_json = self.asked.json;
            let request = pb::ExplainRequest { question, rows: self.rows, json: self.asked.json };
            return self.asked.address.with(|mut client| async move {
                print(is_json, &client.explain(request).await.map_err(failed)?)
            });
        };
        let Case { state, origins, question, refused } =
            self.asked.case(programs, &atom, self.host.as_deref())?;
        let origin = |table, row: &Row| {
            origins.get(&(table, row.clone())).copied().filter(|transaction| *transaction != UNKNOWN)
        };
        let explainer = Explainer { state: &state, origin: &origin, is_part: false };
        let answer = question.explain(&explainer, &question.rows(&state), self.rows as usize);
        let mut answer = answer.map_err(Failure::Rejected)?;
        self.asked.source.add_calls(&mut answer)?;
        let program = state.program();
        print(
            self.asked.json,
            &if self.asked.json { answer.json(program).to_string() } else { answer.text(program) },
        )?;
        refused
    }
}

impl WhyNotCommand {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        if let Some((_, asked)) = self.asked.object().filter(|_| self.host.is_none()) {
            let why = format!(
                "{} {} is an object; `weft explain {0}/{1}` says what it lacks to work",
                asked.kind, asked.id
            );
            return Err(Failure::Usage(why));
        }
        let Some((programs, atom)) = self.asked.parts()? else {
            let question = Some(self.asked.message(self.host.as_deref()));
            let is_json = self.asked.json;
            let request = pb::WhyNotRequest { question, json: self.asked.json };
            return self.asked.address.with(|mut client| async move {
                print(is_json, &client.why_not(request).await.map_err(failed)?)
            });
        };
        let Case { state, question, refused, .. } = self.asked.case(programs, &atom, self.host.as_deref())?;
        let answer = question.why_not(&state, || question.rows(&state)).map_err(Failure::Rejected)?;
        let program = state.program();
        let lines = || explanation::why_not(program, &answer).join("\n");
        print(self.asked.json, &if self.asked.json { answer.json(program).to_string() } else { lines() })?;
        refused
    }
}

fn print(is_json: bool, text: &str) -> Result<(), Failure> {
    print_as(is_json, &format!("{text}\n"))
}

/// A state, and a question about it.
struct Case {
    state: OnDemand,
    /// For each row of an input table, the transaction that inserted it, itself or through a hook.
    origins: Origins,
    question: Question,
    /// An error if some transactions were refused. The refusals have been reported already.
    refused: Result<(), Failure>,
}

impl Asked {
    /// The programs and the row; none if there are no programs, so that the controller is to be asked.
    fn parts(&self) -> Result<Option<(&[PathBuf], String)>, Failure> {
        let (atom, programs) =
            self.programs.split_last().ok_or_else(|| Failure::Usage("give a row".to_owned()))?;
        match (programs.is_empty(), self.source.is_empty()) {
            (true, true) => Ok(None),
            (false, false) => Ok(Some((programs, atom.to_string_lossy().into_owned()))),
            (true, false) => Err(Failure::Usage(
                "-i and --objects need a program, such as: builtin 'location(\"p1\", ..)'; without one, the running controller is asked"
                    .to_owned(),
            )),
            (false, true) => Err(Failure::Usage(
                "say what the network is: -i TXNS or --objects FILE; without a program, the running controller is asked"
                    .to_owned(),
            )),
        }
    }

    /// The question for a controller.
    fn message(&self, host: Option<&str>) -> pb::RowQuestion {
        let atom = self.programs.last().map(|atom| atom.to_string_lossy().into_owned()).unwrap_or_default();
        let about = match host {
            None => About::Row(atom),
            Some(host) => About::Flow(pb::HostFlow { node: host.to_owned(), flow: atom }),
        };
        pb::RowQuestion { about: Some(about) }
    }

    /// Reads the program, the input rows and the question.
    fn case(&self, programs: &[PathBuf], atom: &str, host: Option<&str>) -> Result<Case, Failure> {
        let (program, question) = match host {
            None => {
                let (program, pattern) = compile_with_atom(programs, atom)?;
                (program, Question::Rows(pattern))
            }
            Some(host) => {
                let program = compile(programs)?;
                let question = Question::of_flow(&program, host, atom).map_err(Failure::Usage)?;
                (program, question)
            }
        };
        let (origins, refused) = input_rows(&program, &self.source, None)?;
        let state = OnDemand::new(program, origins.keys().cloned());
        Ok(Case { state, origins, question, refused })
    }
}

/// Runs transactions, up to this one, and returns the resulting rows of the input tables, with an error if some transactions
/// were refused; the refusals have been reported already.
pub(crate) fn input_rows(
    program: &Arc<Program>,
    source: &Source,
    until: Option<u64>,
) -> Result<(Origins, Result<(), Failure>), Failure> {
    input_rows_after(None, program, source, until)
}

/// The same after a saved state, whose rows are from transactions that are not known.
pub(crate) fn input_rows_after(
    begin: Option<Begin>,
    program: &Arc<Program>,
    source: &Source,
    until: Option<u64>,
) -> Result<(Origins, Result<(), Failure>), Failure> {
    if let Some(rows) = begin
        .as_ref()
        .filter(|_| source.is_empty() && until.is_none())
        .and_then(|begin| begin.rows_of(program))
    {
        return Ok((rows.map(|row| (row, UNKNOWN)).collect(), Ok(())));
    }
    if let Some(file) = only_file(begin.as_ref(), source)
        && let Some(origins) = recorded_rows(program, file, until)?
    {
        return Ok((origins, Ok(())));
    }
    let Inputs { run, origins, .. } = Inputs::read(begin, program, source, until)?;
    Ok((origins, run.finish()))
}

/// The rows of the inputs as the records of a controller add up to them. None if a file has other transactions, or the program refuses the
/// rows.
pub(crate) fn recorded_rows(
    program: &Arc<Program>,
    file: &Path,
    until: Option<u64>,
) -> Result<Option<Origins>, Failure> {
    let Some(past) = view(program, file, until) else { return Ok(None) };
    let mut engine = hook_engine(program).map_err(Failure::Outside)?;
    rows_of(past, &mut *engine)
}

/// The file with all transactions, if nothing comes before it or beside it.
fn only_file<'a>(begin: Option<&Begin>, source: &'a Source) -> Option<&'a Path> {
    source.only_file().filter(|_| begin.is_none())
}

/// What the records of a controller add up to, if the file has no other transactions.
fn view(program: &Arc<Program>, file: &Path, until: Option<u64>) -> Option<JournalView> {
    // Whoever runs each transaction finds out what is wrong with the file.
    JournalView::read(program, controller::journal::open(file).ok()?, until).ok()?
}

/// The rows of the inputs. None if the program refuses them; then each transaction has to run to find out which one it is.
fn rows_of(past: JournalView, engine: &mut dyn Evaluator) -> Result<Option<Origins>, Failure> {
    match past.load(engine) {
        Ok(origins) => Ok(Some(origins)),
        Err(CommitError::Refused(_)) => Ok(None),
        Err(error @ (CommitError::Stopped(_) | CommitError::Engine(_))) => {
            Err(Failure::Outside(error.to_string()))
        }
    }
}

/// Transactions that have run, and the evaluator that ran them, which can run more.
pub(crate) struct Inputs {
    pub(crate) run: Run,
    pub(crate) running: Running,
    pub(crate) origins: Origins,
}

impl Inputs {
    /// Runs transactions, up to this one, after a saved state if there is one. The dataflow engine runs them: there may be many, and only it is fast.
    /// The records of a controller are one transaction.
    pub(crate) fn read(
        begin: Option<Begin>,
        program: &Arc<Program>,
        source: &Source,
        until: Option<u64>,
    ) -> Result<Inputs, Failure> {
        let mut run = Run::new(source, Arc::clone(program));
        run.until = until;
        if let Some(past) = only_file(begin.as_ref(), source).and_then(|file| view(program, file, until)) {
            let mut engine = input_engine(program).map_err(Failure::Outside)?;
            if let Some(origins) = rows_of(past, &mut *engine)? {
                return Ok(Inputs { run, running: Running::Fixed(engine), origins });
            }
        }
        let mut running = Running::Fixed(input_engine(program).map_err(Failure::Outside)?);
        let mut origins = Origins::new();
        if let Some(begin) = begin {
            run.progress = begin.progress;
            let evaluator = running.evaluator();
            begin.load(evaluator)?;
            let rows = packet_trace::input_rows(program, evaluator);
            origins = rows.map_err(|error| Failure::Outside(error.to_string()))?;
        }
        let nowhere: Option<&mut Vec<u8>> = None;
        run.transactions(source.open()?, &mut running, nowhere, &mut |txn, delta: &ColumnDelta| {
            follow(&mut origins, txn, delta);
        })?;
        Ok(Inputs { run, running, origins })
    }
}

/// Compiles the program and the pattern of the row.
fn compile_with_atom(programs: &[PathBuf], atom: &str) -> Result<(Arc<Program>, Pattern), Failure> {
    with_atom(&load(programs)?, atom)
}

/// The same, of a program that is read.
pub(crate) fn with_atom(given: &Sources, atom: &str) -> Result<(Arc<Program>, Pattern), Failure> {
    let (sources, compilation, pattern) = nlog::compile_with_atom(given, atom);
    let errors = compilation.diagnostics.iter().filter(|diagnostic| diagnostic.severity == Severity::Error);
    let (of_row, of_program): (Vec<_>, Vec<_>) = errors.partition(|error| *error.file == *ATOM);
    if of_program.is_empty() && (pattern.is_none() || !of_row.is_empty()) {
        // It may be a row that an answer has printed.
        let program = compile_sources(given)?;
        if let Some(pattern) = printed::pattern(&program, atom) {
            return Ok((program, pattern));
        }
    }
    show(of_program.into_iter().chain(of_row), &sources);
    let program = compilation.program.ok_or(Failure::Reported)?;
    let pattern = pattern.ok_or_else(|| {
        Failure::Usage(format!("{atom:?} is not a row; write one such as location(\"p1\", ..)"))
    })?;
    Ok((program, pattern))
}
