//! The transactions of a run: files of network objects, then lines.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use nlog_data::{Cancel, ColumnTransaction, CommitError, MOST_FORBIDDEN};
use nlog_explain::{ShowsInputs, conflict};
use objects::{ChangeSet, ObjectError, ObjectStore, REFUSE};
use weft_core::rules::kinds;

use super::run::{Answer, Each, Lines, Origin, Refusal, Run, Taken, open_input};
use super::running::Running;
use crate::client::read_document;
use crate::exit::Failure;

/// The code of a file of objects with faults.
pub(super) const BAD_OBJECT: &str = "bad-object";

/// The transactions: arguments shared by the commands that run some.
#[derive(Args)]
pub(crate) struct Source {
    /// Transactions (JSON lines) or a snapshot; `-` is standard input
    #[arg(short, long, value_name = "TXNS", required_unless_present = "objects")]
    pub(super) input: Option<PathBuf>,
    /// Network objects (YAML or JSON), one transaction a file, before --input
    #[arg(long, value_name = "FILE")]
    objects: Vec<PathBuf>,
}

/// The transactions, ready to be read.
pub(crate) struct Opened {
    /// Name and text of each file of objects.
    documents: Vec<(String, String)>,
    lines: Option<Lines>,
}

impl Source {
    /// Whether no file is named.
    pub(crate) fn is_empty(&self) -> bool {
        self.input.is_none() && self.objects.is_empty()
    }

    /// The file of transactions, if it can be read more than once, which a pipe cannot.
    fn file(&self) -> Option<&Path> {
        self.input.as_deref().filter(|path| path.is_file())
    }

    /// That file, if there are no other transactions.
    pub(crate) fn only_file(&self) -> Option<&Path> {
        self.file().filter(|_| self.objects.is_empty())
    }

    /// Adds the requests behind the transactions that an answer names, if the transactions are a controller's journal. What can be
    /// read once, as a pipe, has been read already.
    pub(crate) fn add_calls(&self, answer: &mut impl ShowsInputs) -> Result<(), Failure> {
        let Some(path) = self.file() else { return Ok(()) };
        let failed = |error| Failure::outside(format!("cannot read {}", path.display()), error);
        controller::journal::add_calls(answer, controller::journal::open(path).map_err(failed)?)
            .map_err(failed)
    }

    /// Reads the files of objects, and opens the file of transactions.
    pub(crate) fn open(&self) -> Result<Opened, Failure> {
        let readers = self.input.iter().chain(&self.objects);
        if readers.filter(|path| path.as_os_str() == "-").count() > 1 {
            let why = "`-` is given twice, and standard input can be read once; write one of them to a file";
            return Err(Failure::Usage(why.to_owned()));
        }
        let documents = self.objects.iter().map(read_document).collect::<Result<_, Failure>>()?;
        Ok(Opened { documents, lines: self.input.as_deref().map(open_input).transpose()? })
    }
}

impl Run {
    /// Runs each transaction through the evaluator and prints the answer. Passes the number and the delta of each
    /// accepted one to `each`.
    pub(crate) fn transactions(
        &mut self,
        opened: Opened,
        running: &mut Running,
        mut out: Option<&mut impl Write>,
        each: &mut Each<'_>,
    ) -> Result<(), Failure> {
        let kinds = kinds(&self.program);
        let mut store = ObjectStore::new(&kinds);
        for (name, text) in opened.documents {
            let txn = self.progress.last_number.saturating_add(1);
            if self.is_after_the_end(txn) {
                return Ok(());
            }
            self.progress.last_number = txn;
            let taken = self.apply(&mut store, &name, &text, running)?;
            self.answer(Origin::File(&name), txn, taken, &mut out, each)?;
        }
        match opened.lines {
            Some(lines) => self.lines(lines, running, out, each),
            None => Ok(()),
        }
    }

    /// Applies the objects of a file. Refused objects leave the store as it was.
    fn apply(
        &mut self,
        store: &mut ObjectStore,
        name: &str,
        text: &str,
        running: &mut Running,
    ) -> Taken<Answer> {
        let changes = match store.plan_document_or_rest(name, text) {
            Ok(changes) => changes,
            Err(mut faulty) => {
                let refusals = faulty.rest().and_then(|rest| self.refused_of_rest(rest, running));
                faulty.refuse(refusals.unwrap_or_default());
                return Ok(Err(Refusal::of_objects(name, text, faulty.into_faults(), None)));
            }
        };
        let rows = changes.rows().transaction(&self.program.schema);
        let transaction = ColumnTransaction::from_rows(&rows);
        let transaction = transaction.map_err(|error| Failure::Outside(error.to_string()))?;
        let result = self.commit(&transaction, running.evaluator());
        let error = match result {
            Ok(delta) => {
                store.commit(&changes);
                return self.committed(Ok(delta));
            }
            Err(CommitError::Refused(error)) => error,
            Err(failure) => return self.committed(Err(failure)),
        };
        let faults = changes.refused_by(&error);
        let error = error.forbidden_first();
        if let Some(faults) = faults {
            return Ok(Err(Refusal::of_objects(name, text, faults, Some(error))));
        }
        let taken = self.committed(Err(error.into()))?;
        Ok(taken.map_err(|refusal| self.explained(refusal, &transaction, running.evaluator())))
    }

    /// What rules refuse of the part of a file that has no faults, or nothing if that takes long to say. The rest would never be
    /// a transaction, so the evaluator does not run it.
    fn refused_of_rest(&self, rest: &ChangeSet, running: &mut Running) -> Option<Vec<ObjectError>> {
        let refuse = self.program.schema.find(REFUSE)?;
        let transaction = rest.rows().transaction(&self.program.schema);
        let before = self.inputs(running.evaluator());
        let state = conflict::state_after(&self.program, before, [&transaction]);
        state.bound(COMBINATIONS, &Cancel::default());
        let rows = state.rows(refuse);
        let listed = rows.get(..MOST_FORBIDDEN).unwrap_or(rows);
        rest.refused_rows(listed, rows.len()).filter(|_| !state.is_exhausted())
    }
}

/// The combinations of values that may be tried to find what rules refuse of a faulty file.
const COMBINATIONS: u64 = 20_000_000;
