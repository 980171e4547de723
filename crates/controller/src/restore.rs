//! Restores the state of a controller from the records of its journal, and finds rows that differ from the present rules.

use std::collections::{BTreeMap, BTreeSet};

use network::{Batch, Kind, ObjectKey, ObjectStore, Rows};
use serde_json::Value as Json;

use crate::core::{Refusal, RestoreError};
use crate::labels::Labels;
use crate::record::{JsonRows, Record, rows_to_json};
use crate::reports::Reports;

/// The rows of each table, by their text.
pub(crate) type RowTexts = BTreeMap<String, BTreeMap<String, Vec<Json>>>;

/// The rows to insert and to delete so that the journal has the wanted rows; `None` if it has them.
pub(crate) fn correction(journal: &RowTexts, wanted: &Rows) -> Option<(JsonRows, JsonRows)> {
    let (wanted, _) = rows_to_json(wanted);
    let mut insert = JsonRows::new();
    let mut stays: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    let empty = BTreeMap::new();
    for (table, rows) in &wanted {
        let there = journal.get(table).unwrap_or(&empty);
        for row in rows {
            let text = text(row);
            if there.contains_key(&text) {
                stays.entry(table).or_default().insert(text);
            } else {
                insert.entry(table.clone()).or_default().push(row.clone());
            }
        }
    }
    let mut delete = JsonRows::new();
    for (table, rows) in journal {
        let stays = stays.get(table.as_str());
        for (_, row) in rows.iter().filter(|(text, _)| !stays.is_some_and(|stays| stays.contains(*text))) {
            delete.entry(table.clone()).or_default().push(row.clone());
        }
    }
    (!insert.is_empty() || !delete.is_empty()).then_some((insert, delete))
}

fn text(row: &[Json]) -> String {
    Json::Array(row.to_vec()).to_string()
}

/// The state after all records.
pub(crate) struct Restored {
    pub(crate) objects: ObjectStore,
    pub(crate) labels: Labels,
    pub(crate) reports: Reports,
    pub(crate) rows: RowTexts,
}

impl Restored {
    pub(crate) fn new(records: &[Record]) -> Result<Restored, RestoreError> {
        let mut objects: BTreeMap<(String, String), Json> = BTreeMap::new();
        let mut labels = Labels::default();
        let mut reports = Reports::default();
        let mut rows = RowTexts::new();
        for (record, line) in records.iter().zip(1..) {
            let fault = |why| RestoreError::Record { line, why };
            replay_rows(&mut rows, record).map_err(fault)?;
            reports.restore(record).map_err(fault)?;
            for key in &record.objects.delete {
                objects
                    .remove(key)
                    .ok_or_else(|| fault(format!("{} {} is deleted, but does not exist", key.0, key.1)))?;
                labels.release(kind(&key.0).map_err(fault)?, &key.1);
            }
            for object in &record.objects.put {
                let member = |name| object.get(name).and_then(Json::as_str).map(str::to_owned);
                let key = member("kind").zip(member("id"));
                let key = key.ok_or_else(|| fault(format!("no object: {object}")))?;
                objects.insert(key, object.clone());
            }
            for label in &record.labels {
                labels.restore(&label.0, &label.1, label.2).map_err(fault)?;
            }
        }
        let objects = store(&objects)?;
        let end = |why| RestoreError::Record { line: records.len() as u64, why };
        // Older versions did not allocate labels for other kinds of objects; objects without one get one now.
        let labelled =
            |key: &ObjectKey| matches!(key.kind, Kind::Switch | Kind::SwitchPort | Kind::LocalnetPort);
        for (key, _) in objects.iter().filter(|(key, _)| labelled(key)) {
            if labels.get(key.kind, &key.id).is_none() {
                return Err(end(format!("{key} has no label")));
            }
        }
        Ok(Restored { objects, labels, reports, rows })
    }
}

fn kind(name: &str) -> Result<Kind, String> {
    name.parse().map_err(|error| format!("kind {name}: {error}"))
}

fn replay_rows(rows: &mut RowTexts, record: &Record) -> Result<(), String> {
    for (table, list) in &record.delete {
        let there = rows.entry(table.clone()).or_default();
        for row in list {
            let text = text(row);
            there
                .remove(&text)
                .ok_or_else(|| format!("row {text} of {table} is deleted, but does not exist"))?;
        }
    }
    for (table, list) in &record.insert {
        let there = rows.entry(table.clone()).or_default();
        for row in list {
            let text = text(row);
            if there.insert(text.clone(), row.clone()).is_some() {
                return Err(format!("row {text} of {table} is inserted, but already exists"));
            }
        }
    }
    Ok(())
}

/// The store of these objects, validated again.
fn store(objects: &BTreeMap<(String, String), Json>) -> Result<ObjectStore, RestoreError> {
    let mut batch = Batch::default();
    for object in objects.values() {
        batch.add_json("journal", &object.to_string());
    }
    let mut store = ObjectStore::default();
    let changes = store.plan(batch).map_err(|faults| RestoreError::Objects(Refusal::Objects { faults }))?;
    store.commit(&changes);
    Ok(store)
}
