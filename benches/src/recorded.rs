//! Journals for benches: what a controller records, without a daemon.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context as _, Result};
use controller::journal::Replay;
use nlog_data::{Row, Value};
use objects::{Batch, Cancel};
use ovs_driver::Report;
use serde_json::Value as Json;
use weft_core::Rules;
use weft_core::core::{Core, History};
use weft_core::record::NewRecord;

/// The core of a controller with the built-in rules, and the records of its transactions.
pub(crate) struct Recorded {
    core: Core,
    now: SystemTime,
    records: Vec<NewRecord>,
}

impl Recorded {
    /// Before the first transaction.
    pub(crate) fn new() -> Result<Recorded> {
        let rules = Arc::new(Rules::built_in()?);
        let engine = controller::evaluator(&rules, 1).map_err(anyhow::Error::msg)?;
        let now = SystemTime::now();
        let (core, _) = Core::restore(engine, rules.clone(), History::new(&rules), now)?;
        Ok(Recorded { core, now, records: Vec::new() })
    }

    /// Applies objects in one transaction.
    pub(crate) fn apply(&mut self, objects: impl IntoIterator<Item = Json>) -> Result<()> {
        let mut batch = Batch::new(self.core.rules().kinds(), Cancel::default());
        objects.into_iter().for_each(|object| batch.add_json("bench", &object.to_string()));
        let accepted = self.core.apply(batch, "bench", self.now)?;
        self.records.push(accepted.transaction.context("objects change something")?.record);
        Ok(())
    }

    /// Takes what the switch of a host reports.
    pub(crate) fn report(&mut self, host: &str, report: &Report) -> Result<()> {
        self.records.extend(self.core.report(host, report, self.now)?.map(|done| done.record));
        Ok(())
    }

    /// The number of records.
    pub(crate) fn count(&self) -> usize {
        self.records.len()
    }

    /// The records.
    pub(crate) fn records(&self) -> &[NewRecord] {
        &self.records
    }

    /// Repeats the last `of` records, which lead back to where they began, until there are so many in all. Two numbers grow meanwhile: that of
    /// the transaction since which an interface is there, and that of a zone, of which a host gives one in each round.
    pub(crate) fn repeat(&mut self, of: usize, until: usize) {
        let is_recent = |since: i64| since >= self.records.len() as i64 - 2 * of as i64;
        let mut rounds = self.records.clone();
        while rounds.len() < until {
            let mut next = rounds[rounds.len() - of].clone();
            next.txn += of as u64;
            grow([&mut next.insert, &mut next.delete], "vif", of as i64, &is_recent);
            if let Some(filled) = &mut next.filled {
                grow([&mut filled.insert, &mut filled.delete], "allocated_zone", 1, &|_| true);
            }
            rounds.push(next);
        }
        self.records = rounds;
    }

    /// Writes the journal into the folder `state` below this one, where a controller starts from it.
    pub(crate) fn write(self, folder: &Path) -> Result<()> {
        Replay::open(&folder.join("state"))?.finish()?.append(&self.records)?;
        Ok(())
    }
}

/// Adds to the last column of the rows of a table where it is wanted.
fn grow(
    sides: [&mut BTreeMap<Arc<str>, Vec<Row>>; 2],
    table: &str,
    by: i64,
    is_wanted: &dyn Fn(i64) -> bool,
) {
    for row in sides.into_iter().filter_map(|side| side.get_mut(table)).flatten() {
        match row.last_mut() {
            Some(Value::Int(number)) if is_wanted(*number) => *number += by,
            _ => {}
        }
    }
}
