//! A store in memory, for tests of what uses stores.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nlog_data::Cancel;
use serde::Serialize;
use weft_core::core::History;
use weft_core::record::Record;
use weft_core::rules::Rules;

use super::Store;
use crate::journal::{FoldError, JournalError, Keep};

/// Records in memory.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    kept: Arc<Mutex<Kept>>,
    /// Every snapshot fails.
    pub(crate) is_broken: bool,
}

#[derive(Debug, Default)]
struct Kept {
    /// What stands for the records before the first one that is kept.
    base: Option<Record>,
    records: Vec<Record>,
    /// The last snapshot.
    snapshot: Option<Record>,
}

impl Kept {
    fn last_txn(&self) -> u64 {
        self.records.last().or(self.base.as_ref()).map_or(0, |record| record.txn)
    }

    /// Its records, and that which stands for those before them.
    fn all(&self) -> impl Iterator<Item = &Record> {
        self.base.iter().chain(&self.records)
    }
}

impl Memory {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// As a store on disk gives it back.
fn read<R: Serialize, O: Serialize>(record: &Record<R, O>) -> serde_json::Result<Record> {
    serde_json::from_slice(&serde_json::to_vec(record)?)
}

impl Store for Memory {
    type Snapshot = Record;

    fn append<'a, R, O>(
        &mut self,
        records: impl IntoIterator<Item = &'a Record<R, O>>,
    ) -> Result<(), JournalError>
    where
        R: Serialize + 'a,
        O: Serialize + 'a,
    {
        let records: serde_json::Result<Vec<Record>> = records.into_iter().map(read).collect();
        let unwritten = |error| JournalError::Unwritten { path: "memory".into(), source: error };
        self.kept().records.extend(records.map_err(|error| unwritten(error.into()))?);
        Ok(())
    }

    fn last_txn(&self) -> u64 {
        self.kept().last_txn()
    }

    fn read_from(
        &self,
        after: u64,
    ) -> Result<impl Iterator<Item = Result<Record, JournalError>>, JournalError> {
        let records: Vec<Record> = self.kept().all().filter(|record| record.txn > after).cloned().collect();
        Ok(records.into_iter().map(Ok))
    }

    /// Counts records, not bytes.
    fn is_long(&self, keep: &Keep) -> bool {
        let kept = self.kept();
        kept.last_txn() - kept.snapshot.as_ref().map_or(0, |snapshot| snapshot.txn) > keep.segment
    }

    fn snapshot(
        &self,
        rules: Arc<Rules>,
        cancel: Cancel,
    ) -> impl FnOnce() -> Result<Record, FoldError> + Send + 'static {
        let (records, is_broken) = (self.kept().all().cloned().collect::<Vec<_>>(), self.is_broken);
        move || {
            if is_broken || cancel.is_cancelled() {
                return Err(FoldError::Cancelled);
            }
            let mut history = History::new(&rules);
            let mut at = String::new();
            for record in records {
                let added = history.add(&record);
                added.map_err(|source| FoldError::Restore { path: "memory".into(), source })?;
                at = record.at;
            }
            Ok(history.into_base("memory".into(), 0, at, rules.text()))
        }
    }

    fn begin_with(&mut self, snapshot: Record) -> Result<bool, JournalError> {
        self.kept().snapshot = Some(snapshot);
        Ok(true)
    }

    /// Keeps all or nothing of what the snapshot stands for.
    fn trim(&self, keep: Keep) -> impl FnOnce() + Send + 'static {
        let kept = self.kept.clone();
        move || {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            if keep.bytes == 0
                && let Some(snapshot) = kept.snapshot.clone()
            {
                kept.records.retain(|record| record.txn > snapshot.txn);
                kept.base = Some(snapshot);
            }
        }
    }
}
