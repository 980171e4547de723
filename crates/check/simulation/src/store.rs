//! The journal on a disk that fails.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use weft_core::core::History;
use weft_core::record::Record;
use weft_core::rules::Rules;

/// The records that outlive the controller.
#[derive(Debug, Clone, Default)]
pub(crate) struct Store {
    records: Vec<Record>,
    /// The records that others stand for.
    folded: usize,
    /// When a crash comes.
    pub(crate) crash: Option<Crash>,
    /// The number of writes that fail from now on.
    pub(crate) failing: usize,
    /// Until when the disk is full.
    pub(crate) full_until: Option<Instant>,
    /// How long the next write takes.
    pub(crate) slow: Duration,
}

/// When the process dies that writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Crash {
    /// Before the first byte.
    Before,
    /// Once this share of the records, in percent, is on disk.
    Within(usize),
    /// When all are on disk.
    After,
}

/// The outcome of a write.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// All records are on disk.
    All,
    /// None is, for this reason.
    None(&'static str),
    /// The process is dead.
    Dead,
}

impl Store {
    /// All records on disk.
    pub(crate) fn records(&self) -> &[Record] {
        &self.records
    }

    /// The number of records that were ever on disk.
    pub(crate) fn written(&self) -> usize {
        self.folded + self.records.len()
    }

    /// Puts one record in the place of the first ones.
    pub(crate) fn fold(&mut self, count: usize, rules: &Rules) -> Result<(), String> {
        let mut history = History::new(rules);
        let first: Vec<Record> = self.records.drain(..count).collect();
        for record in &first {
            history.add(record).map_err(|error| format!("the journal cannot be folded: {error}"))?;
        }
        if let Some(Record { at, .. }) = first.into_iter().next_back() {
            let base = history.into_base("simulated".into(), 0, at, rules.text());
            self.records.insert(0, base);
            self.folded += count - 1;
        }
        Ok(())
    }

    /// Writes records and waits until they are on disk.
    pub(crate) async fn append(&mut self, mut records: Vec<Record>) -> Written {
        if records.is_empty() {
            return Written::All;
        }
        sleep(std::mem::take(&mut self.slow)).await;
        let crash = self.crash.take();
        match crash {
            Some(Crash::Before) => records.clear(),
            Some(Crash::Within(percent)) => records.truncate(records.len() * percent / 100),
            Some(Crash::After) => {}
            None if self.failing > 0 => {
                self.failing -= 1;
                return Written::None("the disk has failed");
            }
            None if self.full_until.is_some_and(|until| Instant::now() < until) => {
                return Written::None("the disk is full");
            }
            None => {}
        }
        self.records.append(&mut records);
        if crash.is_some() { Written::Dead } else { Written::All }
    }

    /// A record that a start adds.
    pub(crate) fn correct(&mut self, record: Record) {
        self.records.push(record);
    }

    /// The disk works again.
    pub(crate) fn heal(&mut self) {
        let (records, folded) = (std::mem::take(&mut self.records), self.folded);
        *self = Store { records, folded, ..Store::default() };
    }
}
