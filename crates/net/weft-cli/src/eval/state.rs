//! Saved states of `weft eval`: loading at the start of a run, saving at its end.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nlog::Program;
use nlog_data::state::{self, SavedState, Trailer};
use nlog_data::{ColumnTransaction, Columns, CommitError, Evaluator, Memories, Role, Row, TableId};
use nlog_plan::{Counter, Statistics};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::exit::{Failure, say};
use crate::program::open_file;
use crate::replacement::{self, Replacement};

/// The section with the statistics of all available tables, as JSON.
const STATISTICS: &str = "statistics";
/// The section with the progress of the run, as JSON.
const PROGRESS: &str = "progress";
/// The section with the memories of hooks, as JSON.
const MEMORIES: &str = "memories";

/// The section with the [identity](Program::identity) of the program, as JSON.
const PROGRAM: &str = "program";

/// The progress of a run.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Progress {
    /// The number of the last transaction.
    pub(crate) last_number: u64,
    /// The number of accepted transactions. Before the first one, not even facts hold.
    pub(crate) accepted: u64,
}

/// Derived rows in the file of a state.
struct Derived {
    file: File,
    begin: u64,
    /// Their length in bytes.
    length: u64,
}

/// The initial state of a run.
pub(crate) struct Begin {
    file: PathBuf,
    derived: Option<Derived>,
    inputs: ColumnTransaction,
    /// The rows that hooks have put into input tables.
    filled: BTreeMap<TableId, Columns>,
    /// The program that has accepted the rows.
    accepted_by: Option<u64>,
    memories: Memories,
    /// The statistics of the tables.
    pub(crate) statistics: Arc<Statistics>,
    /// The progress of the earlier run.
    pub(crate) progress: Progress,
}

impl Begin {
    /// Reads a saved state.
    pub(crate) fn read(file: &Path, program: &Program) -> Result<Self, Failure> {
        let (bytes, derived) = read_parts(file)
            .map_err(|error| Failure::outside(format!("cannot read the state {}", file.display()), error))?;
        let rejected = |why: &dyn std::fmt::Display| {
            Failure::Rejected(format!("the state {} cannot be used: {why}", file.display()))
        };
        let SavedState { tables, sections } =
            state::read(&bytes, &program.schema).map_err(|error| rejected(&error))?;
        let (filled, tables) = tables.into_iter().partition(|(table, _)| program.hook_of(*table).is_some());
        let accepted_by = section(&sections, PROGRAM).map_err(|error| rejected(&error))?;
        let statistics: Arc<Statistics> = section(&sections, STATISTICS).map_err(|error| rejected(&error))?;
        let progress: Progress = section(&sections, PROGRESS).map_err(|error| rejected(&error))?;
        let memories: Memories = section(&sections, MEMORIES).map_err(|error| rejected(&error))?;
        let remembering = program.hooks.iter().filter(|wiring| wiring.hook.has_memory());
        let mut names = remembering.map(|wiring| &program.schema.table(wiring.to).name);
        let forgotten = names.find(|table| !memories.contains_key(*table));
        if let Some(table) = forgotten.filter(|_| progress.accepted > 0) {
            return Err(rejected(&format_args!(
                "it has no memory for the hook that fills table {table}; replay the transactions"
            )));
        }
        Ok(Begin {
            file: file.to_owned(),
            derived,
            inputs: ColumnTransaction { insert: tables, ..ColumnTransaction::default() },
            filled,
            accepted_by,
            memories,
            statistics,
            progress,
        })
    }

    /// The rows of all input tables, if this program has accepted them, and its hooks have added to them: nothing need be run.
    pub(crate) fn rows_of(&self, program: &Program) -> Option<impl Iterator<Item = (TableId, Row)>> {
        let tables = self.inputs.insert.iter().chain(&self.filled);
        let rows = tables.flat_map(|(table, rows)| rows.to_rows().into_iter().map(|row| (*table, row)));
        (self.progress.accepted > 0 && self.accepted_by == Some(program.identity())).then_some(rows)
    }

    /// Takes over the derived rows, if the file has rows that this evaluator can use. Otherwise [loads](Begin::load) the inputs.
    pub(crate) fn resume(mut self, evaluator: &mut dyn Evaluator) -> Result<(), Failure> {
        let Some(mut derived) = self.derived.take().filter(|_| self.progress.accepted > 0) else {
            return self.load(evaluator);
        };
        // If the memories do not fit, loading says so.
        let restored = match evaluator.restore(&self.memories) {
            Ok(()) => derived.restore(evaluator),
            Err(error) => Err(error.to_string()),
        };
        let Err(why) = restored else { return Ok(()) };
        say(format_args!(
            "the derived rows in {} are not used, all rows are derived again: {why}",
            self.file.display()
        ));
        self.load(evaluator)
    }

    /// Inserts the rows in one transaction. Hooks fill their tables again.
    pub(crate) fn load(self, evaluator: &mut dyn Evaluator) -> Result<(), Failure> {
        if self.progress.accepted == 0 {
            return Ok(());
        }
        let rejected = |why: &dyn std::fmt::Display| {
            Failure::Rejected(format!("the state {} cannot be used: {why}", self.file.display()))
        };
        evaluator.restore(&self.memories).map_err(|error| rejected(&error))?;
        match evaluator.commit_columns(&self.inputs) {
            Ok(_) => Ok(()),
            Err(CommitError::Refused(error)) => {
                Err(rejected(&format_args!("the program refuses its rows: {error}")))
            }
            Err(error @ (CommitError::Stopped(_) | CommitError::Engine(_))) => {
                Err(Failure::Outside(error.to_string()))
            }
        }
    }
}

impl Derived {
    fn restore(&mut self, evaluator: &mut dyn Evaluator) -> Result<(), String> {
        self.file.seek(SeekFrom::Start(self.begin)).map_err(|error| error.to_string())?;
        // Large vectors pass by the buffer, and the many small ones need no call of the system each.
        let mut file = BufReader::new(&self.file);
        evaluator.restore_derived(&mut (&mut file as &mut dyn Read).take(self.length))
    }
}

/// Reads a state, and finds the derived rows after it.
fn read_parts(path: &Path) -> io::Result<(Vec<u8>, Option<Derived>)> {
    let mut file = open_file(path)?;
    let all = file.metadata()?.len();
    let mut last = [0; Trailer::LENGTH];
    let rest = all.saturating_sub(last.len() as u64);
    file.seek(SeekFrom::Start(rest))?;
    file.read_exact(&mut last[..(all - rest) as usize])?;
    file.rewind()?;
    let trailer = Trailer::of(&last).filter(|trailer| trailer.state <= rest);
    let mut bytes = Vec::new();
    let Some(Trailer { state }) = trailer else {
        file.read_to_end(&mut bytes)?;
        return Ok((bytes, None));
    };
    (&mut file).take(state).read_to_end(&mut bytes)?;
    Ok((bytes, Some(Derived { file, begin: state, length: rest - state })))
}

/// The contents of a section, or the default if it is missing.
fn section<T: Default + DeserializeOwned>(
    sections: &BTreeMap<String, Vec<u8>>,
    name: &str,
) -> Result<T, String> {
    let json = sections.get(name).map(|json| serde_json::from_slice(json)).transpose();
    json.map(Option::unwrap_or_default).map_err(|error| format!("its section {name}: {error}"))
}

/// Checks, before a run begins, that its state can be saved there.
pub(crate) fn check_target(file: &Path) -> Result<(), Failure> {
    replacement::check(file).map(drop).map_err(|error| cannot_write(file, error))
}

/// Saves the inputs of the evaluator's program, the statistics of these tables, and the progress of the run, also
/// `with_derived` rows. An existing file is replaced atomically.
pub(crate) fn save(
    file: &Path,
    evaluator: &mut dyn Evaluator,
    program: &Program,
    known: &BTreeSet<TableId>,
    progress: Progress,
    with_derived: bool,
) -> Result<(), Failure> {
    let failed = |error: io::Error| cannot_write(file, error);
    let schema = &program.schema;
    let new = Replacement::of(file).map_err(failed)?;
    let out = BufWriter::with_capacity(1 << 20, new.file());
    let mut writer = state::Writer::new(out, schema).map_err(failed)?;
    let mut statistics = Statistics::default();
    let counter = Counter::new(program);
    for (id, table) in schema.iter() {
        let input = table.role == Role::Input;
        if !input && !known.contains(&id) {
            continue;
        }
        let rows = evaluator.contents_columns(id).map_err(|error| Failure::Outside(error.to_string()))?;
        statistics.tables.insert(table.name.clone(), counter.count(id, &rows));
        if input {
            writer.table(id, &rows).map_err(failed)?;
        }
    }
    let json = |name: &str, json: serde_json::Result<Vec<u8>>| {
        json.map(|json| (name.to_owned(), json)).map_err(|error| failed(error.into()))
    };
    let sections = BTreeMap::from([
        json(STATISTICS, serde_json::to_vec(&statistics))?,
        json(PROGRESS, serde_json::to_vec(&progress))?,
        json(MEMORIES, serde_json::to_vec(&evaluator.memories()))?,
        json(PROGRAM, serde_json::to_vec(&program.identity()))?,
    ]);
    let mut out = writer.finish(&sections).map_err(failed)?;
    out.flush().map_err(failed)?;
    if with_derived {
        let state = new.file().stream_position().map_err(failed)?;
        evaluator.save_derived(&mut out).map_err(|why| failed(io::Error::other(why)))?;
        out.write_all(&Trailer { state }.bytes()).map_err(failed)?;
        out.flush().map_err(failed)?;
    }
    drop(out);
    new.finish().map_err(failed)
}

fn cannot_write(file: &Path, error: io::Error) -> Failure {
    Failure::outside(format!("cannot write the state {}", file.display()), error)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use nlog::Sources;
    use nlog_data::{Tables, Transaction};
    use nlog_reference::Hooked;

    use super::*;

    /// Numbers the ports.
    const PROGRAM: &str = "input table port(id: string);
        table numbered(id: string) key(id);
        numbered(id) :- port(id);
        input table number(id: string, number: int) key(id) from allocate(numbered, first: FIRST, last: LAST);
        const FIRST = 1;
        const LAST = 9;
        function twice(n: int) -> int = n * 2;
        output table named(id: string, number: int) key(id);
        named(id, twice(number)) :- number(id, number);";

    fn program(text: &str) -> Arc<Program> {
        nlog::compile(&Sources::from_texts([("ports.nlog", text)])).program.unwrap()
    }

    #[test]
    fn rows_of_hooks_are_taken_as_they_are_by_the_program_that_has_saved_them_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("state");
        let saved = program(PROGRAM);
        let mut evaluator = Hooked::reference(&saved, Tables::All, false);
        let port = saved.schema.find("port").unwrap();
        let insert = BTreeMap::from([(port, vec![vec!["p1".into()], vec!["p2".into()]])]);
        evaluator.commit(&Transaction { insert, ..Transaction::default() }).unwrap();
        let progress = Progress { last_number: 1, accepted: 1 };
        save(&file, &mut evaluator, &saved, &BTreeSet::new(), progress, false).unwrap();
        let rows = |program: &Program| -> Option<BTreeSet<(TableId, Row)>> {
            Some(Begin::read(&file, program).unwrap().rows_of(program)?.collect())
        };
        let number = saved.schema.find("number").unwrap();
        let all: Vec<(TableId, Row)> = vec![
            (port, vec!["p1".into()]),
            (port, vec!["p2".into()]),
            (number, vec!["p1".into(), 1.into()]),
            (number, vec!["p2".into(), 2.into()]),
        ];
        assert_eq!(rows(&saved), Some(all.into_iter().collect()));
        // Layout and comments make no other program.
        assert!(rows(&program(&PROGRAM.replace("        ", "# The same.\n"))).is_some());
        for (part, other) in [
            ("n * 2", "n * 3"),
            ("FIRST = 1", "FIRST = 5"),
            ("last: LAST", "last: 8"),
            ("numbered(id) :- port(id)", "numbered(id) :- port(id), id != \"p1\""),
        ] {
            let edited = PROGRAM.replace(part, other);
            assert_ne!(edited, PROGRAM);
            assert_eq!(rows(&program(&edited)), None, "{other}");
        }
    }
}
