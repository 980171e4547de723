//! Journals for benches: what a controller records, without a daemon.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context as _, Result};
use controller::Rules;
use controller::core::{Core, History};
use controller::journal::Replay;
use controller::record::NewRecord;
use network::{Batch, Cancel};
use ovs_driver::Report;
use serde_json::Value as Json;

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

    /// Writes the journal into the folder `state` below this one, where a controller starts from it.
    pub(crate) fn write(self, folder: &Path) -> Result<()> {
        Replay::open(&folder.join("state"))?.finish()?.append(&self.records)?;
        Ok(())
    }
}
