//! Rows that other rules make of a core's state, derived beside the core: transactions go on until it changes over to them.
//!
//! An engine stays on its thread, so its rows go over, in the form in which a start reads them. The input rows that have changed meanwhile
//! are found as at a start from saved rows. Numbers that hooks give could differ: the former rules may have given some meanwhile, and the
//! other rules some of their own. If both did in one table, the rows are of no use, and the core derives its own.

use std::fmt;
use std::io::{Read, Write};
use std::sync::Arc;

use nlog_data::{Bound, Cancel, Memories, Most, Progress};
use objects::Object;

use super::change_rules::{MakeEvaluator, memories_under, objects_under};
use super::saved_rows::{Present, SavedRows, from_nothing, save};
use super::{Core, CoreError};
use crate::derived::Derived;
use crate::input_rows::all_rows;
use crate::reports::Reports;
use crate::rules::Rules;

/// The state of a core at one moment.
pub struct StateForRules {
    objects: Vec<Arc<Object>>,
    reports: Reports,
    memories: Memories,
    txn: u64,
}

/// What [`StateForRules::derive`] knows of the rows that it has written.
pub struct Written {
    version: Option<String>,
    txn: u64,
    /// What hooks of these rules remembered before the rules ran, and afterwards.
    before: Memories,
    after: Memories,
}

/// The rows that other rules make of a state, for [`Core::change_rules`].
pub struct PreparedRows {
    written: Written,
    rows: Box<dyn Read + Send>,
    bytes: u64,
}

impl Core {
    /// The state, for rules that may come. Takes milliseconds.
    pub fn state_for_rules(&self) -> StateForRules {
        StateForRules {
            objects: self.objects.iter().map(|(_, object)| object.clone()).collect(),
            reports: self.reports.clone(),
            memories: self.evaluator.memories(),
            txn: self.last_txn,
        }
    }
}

impl StateForRules {
    /// Writes the rows that rules make of the state. Takes as long as a start that derives them.
    ///
    /// # Errors
    /// The rules cannot run on this state: the core says why when it gets them; or nobody waits any more.
    pub fn derive(
        self,
        rules: &Rules,
        make: &MakeEvaluator,
        cancel: Cancel,
        to: &mut dyn Write,
    ) -> Result<Written, CoreError> {
        let StateForRules { objects, reports, memories, txn } = self;
        let failed = |why: &dyn fmt::Display| CoreError::Failed(why.to_string());
        let objects = objects_under(objects.iter(), rules)?;
        let rows = rules.transaction(all_rows(&objects, &reports, rules));
        drop((objects, reports));
        let before = memories_under(memories, rules);
        let mut evaluator = make(rules).map_err(|why| failed(&why))?;
        evaluator.restore(&before).map_err(|error| failed(&error))?;
        evaluator.bound(Bound { most: Most::ANY, cancel, progress: Progress::default() });
        let Present { desired, .. } = from_nothing(&mut *evaluator, rules, &mut Derived::default(), &rows)?;
        evaluator.checkpoint();
        save(&mut *evaluator, &desired, to).map_err(|why| failed(&why))?;
        Ok(Written { version: rules.version(), txn, before, after: evaluator.memories() })
    }
}

impl Written {
    /// The rows, as they were written: so many bytes.
    pub fn with(self, rows: Box<dyn Read + Send>, bytes: u64) -> PreparedRows {
        PreparedRows { written: self, rows, bytes }
    }

    /// What hooks remember when these rules take over from hooks that now remember this; `None` if the rows cannot be used then.
    fn memories(&self, rules: &Rules, now: &Memories) -> Option<Memories> {
        if self.version != rules.version() {
            return None;
        }
        let mut memories = self.after.clone();
        let tables = now.keys().chain(self.before.keys());
        for table in tables.filter(|table| now.get(*table) != self.before.get(*table)) {
            let gave_none = self.after.get(table) == self.before.get(table);
            memories.insert(table.clone(), now.get(table).filter(|_| gave_none)?.clone());
        }
        Some(memories)
    }
}

impl PreparedRows {
    /// The rows and what hooks remember with them, if they can be used for these rules where hooks remember this.
    pub(super) fn saved(&mut self, rules: &Rules, now: &Memories) -> Option<(SavedRows<'_>, Memories)> {
        let PreparedRows { written, rows, bytes } = self;
        let memories = written.memories(rules, now)?;
        let rows = (&mut **rows as &mut dyn Read).take(*bytes);
        Some((SavedRows { txn: written.txn, memories: written.after.clone(), rows }, memories))
    }

    /// Whether a core would use them.
    pub fn fit(&self, rules: &Rules, core: &Core) -> bool {
        let now = memories_under(core.evaluator.memories(), rules);
        self.written.memories(rules, &now).is_some()
    }
}

impl fmt::Debug for PreparedRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedRows").field("txn", &self.written.txn).finish_non_exhaustive()
    }
}
