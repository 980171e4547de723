//! What a controller has recorded: a snapshot, a journal, or a state folder with the journal and its segments.

use std::cell::OnceCell;
use std::fmt::Display;
use std::io::{BufRead as _, Write as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::SystemTime;

use controller::journal::{self, JournalError, Records, Segment, segments};
use nlog::Sources;
use nlog_data::{Role, Schema};
use serde::Deserialize;
use serde::de::IgnoredAny;
use tempfile::TempPath;
use weft_core::builtin;
use weft_core::core::History;
use weft_core::record::{RulesChange, RulesText};
use weft_core::rules::Rules;

use crate::exit::{Failure, say};
use crate::program::compile_sources;

/// The journal in a state folder.
const JOURNAL: &str = "journal.jsonl";

/// A moment: after a transaction, or at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Moment {
    Txn(u64),
    Time(SystemTime),
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(txn) = text.parse() {
            return Ok(Moment::Txn(txn));
        }
        let time = humantime::parse_rfc3339_weak(text);
        time.map(Moment::Time).map_err(|_| {
            "use the number of a transaction, or a time in UTC such as 2026-11-20T09:00:00Z".to_owned()
        })
    }
}

/// A file with records.
pub(crate) struct Recorded {
    file: PathBuf,
    /// The state folder that was named, of which this is one file.
    folder: Option<PathBuf>,
    /// The first record.
    first: Head,
    rules: Option<RulesText>,
    /// The changes of rules in it, each with its transaction, once somebody has looked for them.
    changes: OnceCell<Vec<(u64, RulesChange)>>,
}

/// Who made a transaction, and when.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Head {
    pub(crate) txn: u64,
    pub(crate) at: String,
    pub(crate) by: String,
}

/// The first line, as far as it says which rules ran.
#[derive(Deserialize)]
struct First {
    #[serde(flatten)]
    head: Head,
    #[serde(default)]
    base: Option<Base>,
}

#[derive(Deserialize)]
struct Base {
    #[serde(default)]
    rules: Option<RulesText>,
    #[serde(flatten)]
    _others: IgnoredAny,
}

/// A record of other rules, as far as it says which.
#[derive(Deserialize)]
struct Changed {
    txn: u64,
    program: RulesChange,
}

/// Something is wrong with a file of records.
pub(crate) fn failure(error: &JournalError) -> Failure {
    match error {
        JournalError::Damaged { .. } | JournalError::Lost { .. } | JournalError::Newer { .. } => {
            Failure::Rejected(error.to_string())
        }
        error => Failure::Outside(error.to_string()),
    }
}

impl Recorded {
    /// Opens a file; of a state folder the one that has this moment.
    pub(crate) fn open(path: &Path, at: Option<Moment>) -> Result<Recorded, Failure> {
        if !path.is_dir() {
            return Recorded::of_file(path.to_owned());
        }
        let mut found = Recorded::in_folder(path, path.join(JOURNAL))?;
        while at.is_some_and(|at| found.begins_after(at)) {
            let Some(earlier) = found.earlier()? else { break };
            found = earlier;
        }
        Ok(found)
    }

    fn in_folder(folder: &Path, file: PathBuf) -> Result<Recorded, Failure> {
        Ok(Recorded { folder: Some(folder.to_owned()), ..Recorded::of_file(file)? })
    }

    /// The file of the same folder that has what was recorded before this one begins.
    pub(crate) fn earlier(&self) -> Result<Option<Recorded>, Failure> {
        self.neighbour(|all| all.iter().rev().find(|segment| segment.first < self.first.txn))
    }

    /// The file of the same folder that goes on where this one ends.
    pub(crate) fn later(&self) -> Result<Option<Recorded>, Failure> {
        let Some(folder) = self.folder.as_deref().filter(|folder| folder.join(JOURNAL) != self.file) else {
            return Ok(None);
        };
        let segment = self.neighbour(|all| all.iter().find(|segment| segment.first > self.first.txn))?;
        segment.map_or_else(|| Recorded::in_folder(folder, folder.join(JOURNAL)), Ok).map(Some)
    }

    fn neighbour(
        &self,
        which: impl FnOnce(&[Segment]) -> Option<&Segment>,
    ) -> Result<Option<Recorded>, Failure> {
        let Some(folder) = &self.folder else { return Ok(None) };
        let all = segments(folder).map_err(|error| Failure::outside(folder.display(), error))?;
        which(&all).map(|segment| Recorded::in_folder(folder, segment.path.clone())).transpose()
    }

    fn of_file(file: PathBuf) -> Result<Recorded, Failure> {
        let failed = |error| Failure::outside(format!("cannot read {}", file.display()), error);
        let mut line = String::new();
        journal::open(&file).map_err(failed)?.read_line(&mut line).map_err(failed)?;
        let first: First = serde_json::from_str(&line).map_err(|_| {
            Failure::Rejected(format!(
                "{}: it begins with no record of a controller; give a snapshot, a journal or a state folder (`weft eval` takes other transactions)",
                file.display()
            ))
        })?;
        let rules = first.base.and_then(|base| base.rules);
        Ok(Recorded { file, folder: None, first: first.head, rules, changes: OnceCell::new() })
    }

    fn begins_after(&self, at: Moment) -> bool {
        match at {
            Moment::Txn(txn) => txn < self.first.txn,
            Moment::Time(time) => time_of(&self.first).is_some_and(|first| time < first),
        }
    }

    /// The file.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// The first record.
    pub(crate) fn first(&self) -> &Head {
        &self.first
    }

    /// The state after a transaction, for a controller with these rules.
    pub(crate) fn history(&self, txn: u64, rules: &Rules) -> Result<History, Failure> {
        let mut history = History::new(rules);
        for record in self.records()? {
            let record = record.map_err(|error| failure(&error))?;
            if record.txn > txn {
                break;
            }
            history.add(&record).map_err(|error| self.rejected(error))?;
        }
        Ok(history)
    }

    /// The failure of a command because of what is in the file.
    pub(crate) fn rejected(&self, error: impl Display) -> Failure {
        Failure::Rejected(format!("{}: {error}", self.file.display()))
    }

    /// The rules that ran after a transaction; the built-in ones of this version if the file does not say which.
    pub(crate) fn sources(&self, at: &Head) -> Result<Sources, Failure> {
        self.sources_after(at.txn)
    }

    fn sources_after(&self, txn: u64) -> Result<Sources, Failure> {
        match &self.text(txn)? {
            Some(text) => Ok(builtin::of_text(text)),
            None => builtin::load(&[builtin::NAME]).map_err(crate::program::load_failure),
        }
    }

    /// The same, to be run as a controller does.
    pub(crate) fn rules(&self, at: &Head) -> Result<Rules, Failure> {
        let rules = self.text(at.txn)?.as_ref().map_or_else(Rules::built_in, Rules::of_text);
        rules.map_err(|error| Failure::Rejected(error.to_string()))
    }

    fn text(&self, after: u64) -> Result<Option<RulesText>, Failure> {
        let mut text = self.rules.clone();
        for (txn, change) in self.changes_of_rules()? {
            if *txn > after {
                return Ok(text.or_else(|| change.before.clone()));
            }
            text = Some(change.text.clone());
        }
        Ok(text)
    }

    /// Says that the rules changed between two transactions of this file, of which a command computes everything with the same.
    ///
    /// # Errors
    /// No rules can read the records of both, because an input table has other columns.
    pub(crate) fn check_other_rules(&self, from: &Head, to: &Head) -> Result<(), Failure> {
        for (txn, _) in self.changes_of_rules()?.iter().filter(|(txn, _)| *txn > from.txn && *txn <= to.txn) {
            let [was, is] = [txn - 1, *txn].map(|txn| compile_sources(&self.sources_after(txn)?));
            if let Some(table) = other_columns(&was?.schema, &is?.schema) {
                return Err(self.rejected(format!(
                    "transaction {txn} loaded rules in which {table} has other fields, so no rules read the records on both sides of \
                     it; look at each side by itself: `--at {}` at the most, or `--from {txn}`",
                    txn - 1
                )));
            }
            say(format_args!(
                "warning: other rules ran from transaction {txn} on; all is computed with the same ones"
            ));
        }
        Ok(())
    }

    /// Whether the same rules ran all the time.
    pub(crate) fn has_one_program(&self) -> Result<bool, Failure> {
        Ok(self.changes_of_rules()?.is_empty())
    }

    /// The changes of rules, each with its transaction.
    fn changes_of_rules(&self) -> Result<&[(u64, RulesChange)], Failure> {
        /// How the member of a record begins. A text within a record would have its quotes escaped.
        const MEMBER: &str = ",\"program\":{\"text\":";
        if let Some(known) = self.changes.get() {
            return Ok(known);
        }
        let failed = |error| Failure::outside(format!("cannot read {}", self.file.display()), error);
        let mut lines = journal::open(&self.file).map_err(failed)?;
        let (mut line, mut found) = (Vec::new(), Vec::new());
        while lines.read_until(b'\n', &mut line).map_err(failed)? > 0 {
            let text = std::str::from_utf8(&line).ok().filter(|text| text.contains(MEMBER));
            if let Some(changed) = text.and_then(|text| serde_json::from_str::<Changed>(text).ok()) {
                // The configuration may have come to name the rules that ran.
                let before = found.last().map(|(_, change): &(u64, RulesChange)| &change.text);
                let is_other = before
                    .or(self.rules.as_ref())
                    .is_none_or(|text| text.files != changed.program.text.files);
                found.extend(is_other.then_some((changed.txn, changed.program)));
            }
            line.clear();
        }
        Ok(self.changes.get_or_init(|| found))
    }

    /// The records.
    pub(crate) fn records(&self) -> Result<Records, Failure> {
        Records::open(&self.file).map_err(|error| failure(&error))
    }

    /// The last transaction up to a moment; the last one of all without.
    ///
    /// # Errors
    /// The file has none, or begins later.
    pub(crate) fn last_until(&self, at: Option<Moment>) -> Result<Head, Failure> {
        let Head { txn, at: begin, .. } = &self.first;
        if at.is_some_and(|at| self.begins_after(at)) {
            return Err(Failure::Rejected(format!(
                "{} begins with the state after transaction {txn}, of {begin}, so it does not have that moment",
                self.file.display()
            )));
        }
        let mut last = self.first.clone();
        let failed = |error| Failure::outside(format!("cannot read {}", self.file.display()), error);
        let mut lines = journal::open(&self.file).map_err(failed)?;
        let mut line = Vec::new();
        loop {
            line.clear();
            if lines.read_until(b'\n', &mut line).map_err(failed)? == 0 {
                break;
            }
            let Some(head) = head(&line) else { break };
            let is_later = match at {
                None => false,
                Some(Moment::Txn(txn)) => head.txn > txn,
                Some(Moment::Time(time)) => time_of(&head).is_some_and(|at| at > time),
            };
            if is_later {
                break;
            }
            last = head;
        }
        match at {
            Some(Moment::Txn(txn)) if last.txn < txn => Err(Failure::Rejected(format!(
                "{} ends with transaction {}, of {}",
                self.file.display(),
                last.txn,
                last.at
            ))),
            _ => Ok(last),
        }
    }
}

/// A file with these bytes, which is removed when this is dropped.
pub(crate) fn temporary(bytes: &[u8]) -> Result<TempPath, Failure> {
    let cannot = |error| Failure::outside("cannot write a temporary file", error);
    let mut file = tempfile::Builder::new().prefix("weft-").suffix(".weft").tempfile().map_err(cannot)?;
    file.write_all(bytes).map_err(cannot)?;
    Ok(file.into_temp_path())
}

/// An input table that both schemas have, with other columns.
fn other_columns<'s>(before: &'s Schema, after: &Schema) -> Option<&'s str> {
    let inputs = before.iter().map(|(_, table)| table).filter(|table| table.role == Role::Input);
    let mut both = inputs.filter_map(|table| Some((table, after.table(after.find(&table.name)?))));
    both.find(|(was, is)| was.columns != is.columns).map(|(table, _)| table.name.as_str())
}

fn time_of(head: &Head) -> Option<SystemTime> {
    humantime::parse_rfc3339(&head.at).ok()
}

/// Who made the transaction of a line, and when. It begins with that.
pub(crate) fn head(line: &[u8]) -> Option<Head> {
    let begin = line.get(..line.len().min(HEAD_MAX))?;
    let text = String::from_utf8_lossy(begin);
    // The members that follow are long. Those before them are `txn`, `at` and `by`, in this order.
    let by = text.find(",\"by\":\"")?;
    let mut parsed = serde_json::Deserializer::from_str(&text[by + ",\"by\":".len()..]).into_iter::<String>();
    let by_text = parsed.next()?.ok()?;
    let mut head: Head = serde_json::from_str(&format!("{},\"by\":\"\"}}", &text[..by])).ok()?;
    head.by = by_text;
    Some(head)
}

/// The bytes that the head of a line takes at most.
const HEAD_MAX: usize = 8 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_a_line_is_read_without_the_rest() {
        let read = |line: &str| head(line.as_bytes()).map(|head| (head.txn, head.at, head.by));
        let found = Some((7, "2026-11-20T09:00:00.000001Z".to_owned(), "a \"b\" c".to_owned()));
        let line = r#"{"txn":7,"at":"2026-11-20T09:00:00.000001Z","by":"a \"b\" c","insert":{"t":[["x"#;
        assert_eq!(read(line), found);
        assert_eq!(read(r#"{"insert":{}}"#), None);
    }
}
