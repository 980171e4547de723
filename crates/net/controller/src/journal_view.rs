//! The rows of input tables as of a transaction of a journal, without running it through the rules.
//!
//! The line decides. A line that a controller wrote is sealed and follows the one before it (`journal::Chain`): the rules of that
//! controller accepted it, so its rows are added up, as a controller adds up its journal when it starts. Hooks get the memory that the records
//! tell, and fill their tables from the rows of the last record. A line that is anything else is a transaction that rules may
//! refuse: one that somebody wrote or changed, one that contradicts the records before it. Then there is no [`JournalView`], and
//! each transaction has to run through all rules.

use std::io::BufRead;
use std::sync::Arc;

use nlog::Program;
use nlog_data::json::{ColumnLine, parse_line_columns};
use nlog_data::{ColumnTransaction, CommitError, Evaluator, Memories, Transaction};
use nlog_hooks::Recorded;
use packet_trace::{Origins, UNKNOWN};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};
use weft_core::record::{Base, RowChanges};
use weft_core::restore::follow_hooks;

use crate::journal::Chain;

/// What a controller writes beside the rows of a record, with the members of its seal.
const MEMBERS: [&str; 15] = [
    "at",
    "by",
    "peer",
    "key",
    "objects",
    "reports",
    "filled",
    "memory",
    "announcements",
    "observation",
    "program",
    "base",
    "len",
    "group",
    "sum",
];

/// What the records of a journal add up to.
#[derive(Debug)]
pub struct JournalView {
    program: Arc<Program>,
    chain: Chain,
    last_txn: u64,
    /// The rows of the records.
    rows: Origins,
    /// The rows that hooks with a memory put into their tables.
    filled: Origins,
    hooks: Recorded,
}

impl JournalView {
    /// Reads a journal up to this transaction. None if a line up to there is no record of a controller, if the records contradict each other or do not
    /// fit the program, or if there are none.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn read(
        program: &Arc<Program>,
        mut journal: impl BufRead,
        until: Option<u64>,
    ) -> std::io::Result<Option<JournalView>> {
        let mut past = JournalView {
            program: Arc::clone(program),
            chain: Chain::default(),
            last_txn: 0,
            rows: Origins::new(),
            filled: Origins::new(),
            hooks: Recorded::new(program),
        };
        let mut line = Vec::new();
        while until.is_none_or(|until| past.last_txn < until) {
            line.clear();
            if journal.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            let is_whole = line.pop_if(|byte| *byte == b'\n').is_some();
            if !is_whole || past.take(&line).is_none() {
                return Ok(None);
            }
        }
        Ok(Some(past).filter(|past| past.last_txn > 0))
    }

    /// The number of the last record.
    pub fn last_txn(&self) -> u64 {
        self.last_txn
    }

    /// Loads an engine of the program, which has run nothing yet, and returns the rows of the input tables. The origin of a row is
    /// not known if a hook without a memory filled it: such hooks are not recorded.
    ///
    /// # Errors
    /// The engine refuses the rows, or fails.
    pub fn load(self, engine: &mut dyn Evaluator) -> Result<Origins, CommitError> {
        engine.restore(&self.hooks.memories())?;
        let mut all = Transaction::default();
        for (table, row) in self.rows.keys() {
            all.insert.entry(*table).or_default().push(row.clone());
        }
        let columns =
            ColumnTransaction::from_rows(&all).map_err(|error| CommitError::Engine(error.to_string()))?;
        drop(all);
        engine.commit_columns(&columns)?;
        let mut origins = self.rows;
        for wiring in &self.program.hooks {
            for row in engine.contents(wiring.to)? {
                let key = (wiring.to, row);
                let origin = self.filled.get(&key).copied().unwrap_or(UNKNOWN);
                origins.insert(key, origin);
            }
        }
        Ok(origins)
    }

    /// Adds a line, if it is the next record.
    fn take(&mut self, line: &[u8]) -> Option<()> {
        if !self.chain.follows(line) {
            return None;
        }
        let number = self.last_txn + 1;
        let parsed = parse_line_columns(line, number, &self.program.schema).ok()?;
        let ColumnLine { txn, transaction, mut origin } = parsed;
        if !origin.keys().all(|member| MEMBERS.contains(&&**member)) {
            return None;
        }
        let base: Option<Base> = read(origin.remove("base")).ok()?;
        self.last_txn = match base {
            Some(base) if self.last_txn == 0 && base.format <= Base::FORMAT => {
                self.chain.stands_for(base.sum);
                txn?
            }
            None if txn == Some(number) => number,
            _ => return None,
        };
        self.add(&transaction.to_rows())?;
        self.follow(origin)
    }

    /// Adds the rows of a record. None if they contradict those before, or are a hook's affair.
    fn add(&mut self, rows: &Transaction) -> Option<()> {
        let Transaction { insert, delete } = rows;
        if insert.keys().chain(delete.keys()).any(|table| self.program.hook_of(*table).is_some()) {
            return None;
        }
        for (table, rows) in delete {
            for row in rows {
                self.rows.remove(&(*table, row.clone()))?;
            }
        }
        for (table, rows) in insert {
            for row in rows {
                let before = self.rows.insert((*table, row.clone()), self.last_txn);
                before.is_none().then_some(())?;
            }
        }
        Some(())
    }

    /// Follows what hooks did. None if no hook of the program can have done it.
    fn follow(&mut self, mut origin: Map<String, Json>) -> Option<()> {
        let memory: Option<Memories> = read(origin.remove("memory")).ok()?;
        let filled: Option<RowChanges> = read(origin.remove("filled")).ok()?;
        let memory = memory.unwrap_or_default();
        let changes = follow_hooks(&mut self.hooks, &memory, filled.as_ref()).ok()?;
        for (table, changed) in changes {
            for row in changed.delete {
                self.filled.remove(&(table, row));
            }
            self.filled.extend(changed.insert.into_iter().map(|row| ((table, row), self.last_txn)));
        }
        Some(())
    }
}

/// Reads a member, if there is one.
fn read<T: DeserializeOwned>(member: Option<Json>) -> serde_json::Result<Option<T>> {
    member.map(serde_json::from_value).transpose()
}

#[cfg(test)]
mod tests;
