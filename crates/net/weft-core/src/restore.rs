//! Restores the state of a controller from the records of its journal, and finds rows that differ from the present rules.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nlog::Program;
use nlog_data::json::to_json;
use nlog_data::quotation::{cut, grouped, names};
use nlog_data::{ForbiddenRows, Memories, Row, TableDelta, TableId, TransactionError};
use nlog_hooks::Recorded;
use objects::{Batch, ChangeSet, Kinds, ObjectKey, ObjectStore, Revision, Rows};
use serde::Deserialize;
use serde_json::Value as Json;
use tracing::{info, warn};

use crate::answered::Answered;
use crate::input_rows::all_rows;
use crate::record::{
    AnnouncementChanges, BASE, Base, JsonRows, ObjectChanges, ObjectText, Record, RowChanges, RulesText,
    outcomes,
};
use crate::refusal::Refusal;
use crate::reports::{CONNECTION, Reports};
use crate::rules::Rules;
use crate::rules_versions::{RulesVersion, RulesVersions};
use crate::times::time_of;

/// Why a controller cannot start from a journal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// A record contradicts earlier records.
    #[error("transaction {txn}: {why}")]
    Record {
        /// The record's transaction.
        txn: u64,
        /// The fault.
        why: String,
    },
    /// The rules lack the kinds of objects in force at the end of the journal.
    #[error("{}", objects_without_kinds(.0))]
    Kinds(Vec<(String, usize)>),
    /// This version refuses the objects in force at the end of the journal.
    #[error("the objects in the journal are invalid for this version: {0}")]
    Objects(Refusal),
    /// The rules refuse the state. The message has each row that forbids it, one a line.
    #[error("the rules refuse the journal's state: {}", refusal_of_state(.0, "start with the rules that wrote it, or repair them"))]
    Rules(TransactionError),
    /// The engine failed.
    #[error("the engine failed: {0}")]
    Failed(String),
}

/// The rows of each table, as JSON text.
type RowTexts = BTreeMap<String, BTreeSet<String>>;

fn text(row: &[Json]) -> String {
    Json::Array(row.to_vec()).to_string()
}

/// What tells an object from others.
#[derive(Deserialize)]
struct Name {
    kind: String,
    id: String,
}

impl Name {
    fn of(object: &ObjectText) -> Result<Name, String> {
        serde_json::from_str(object.text()).map_err(|_| format!("no object: {}", object.text()))
    }
}

/// An object as the records so far leave it.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) text: ObjectText,
    pub(crate) revision: Revision,
}

/// Objects by kind and id.
pub(crate) type KeptObjects = BTreeMap<(String, String), Kept>;

/// The state after the records of a journal, which are added one after the other. It does not keep the records.
#[derive(Debug)]
pub struct History {
    objects: KeptObjects,
    reports: Reports,
    rows: RowTexts,
    hooks: Recorded,
    /// The announcements that have begun and not ended.
    announcing: BTreeSet<String>,
    answered: Answered,
    versions: RulesVersions,
    /// The rules that it was given: their version and program.
    given: (Option<String>, Arc<Program>),
    /// The last version of the rules, if it is another one than that and can be run.
    loaded: Option<Result<Arc<Rules>, String>>,
    /// Whether the configuration now names the rules that were loaded in place of those that it named then.
    confirmed: bool,
    last_txn: u64,
}

/// The parts of a [`History`].
pub(crate) struct Restored {
    pub(crate) objects: ObjectStore,
    pub(crate) reports: Reports,
    pub(crate) rows: JournalRows,
    /// The memories of the hooks of the present rules.
    pub(crate) memories: Memories,
    /// The announcements under way.
    pub(crate) announcing: BTreeSet<String>,
    /// The requests that clients can repeat.
    pub(crate) answered: Answered,
    pub(crate) versions: RulesVersions,
    pub(crate) last_txn: u64,
}

/// The rows that a journal adds up to.
#[derive(Debug)]
pub(crate) struct JournalRows(RowTexts);

impl History {
    /// The state before the first record, for a controller with these rules.
    pub fn new(rules: &Rules) -> Self {
        History {
            objects: BTreeMap::new(),
            reports: Reports::default(),
            rows: RowTexts::new(),
            hooks: Recorded::new(rules.program()),
            announcing: BTreeSet::new(),
            answered: Answered::default(),
            versions: RulesVersions::default(),
            given: (rules.version(), rules.program().clone()),
            loaded: None,
            confirmed: false,
            last_txn: 0,
        }
    }

    /// Adds the next record. After an error the history must not be used any more.
    pub fn add(&mut self, record: &Record) -> Result<(), RestoreError> {
        let fault = |why| RestoreError::Record { txn: record.txn, why };
        replay_rows(&mut self.rows, record).map_err(fault)?;
        self.reports.restore(record).map_err(fault)?;
        for key in &record.objects.delete {
            self.objects
                .remove(key)
                .ok_or_else(|| fault(format!("{} {} is deleted, but does not exist", key.0, key.1)))?;
        }
        let (mut put, mut is_new) = (Vec::new(), Vec::new());
        let mut revisions = record.base.iter().flat_map(|base| base.revisions.iter().copied());
        for object in &record.objects.put {
            let Name { kind, id } = Name::of(object).map_err(fault)?;
            put.extend(record.key.as_ref().map(|_| ObjectKey::new(kind.as_str(), id.as_str())));
            let revision = self.put((kind, id), object, record.txn, revisions.next());
            is_new.extend(record.key.as_ref().map(|_| revision.created == record.txn));
        }
        if let Some(key) = &record.key {
            let at = time_of(&record.at).map_err(fault)?;
            let put = put.into_iter().zip(is_new);
            self.answered.add(key.clone(), record.txn, at, outcomes(put, &record.objects.delete));
        }
        if let Some(base) = &record.base {
            self.answered = Answered::restored(&base.answered).map_err(fault)?;
        }
        self.follow_rules(record);
        follow_hooks(&mut self.hooks, &record.memory, record.filled.as_ref()).map_err(fault)?;
        self.announcing.retain(|name| !record.announcements.ended.contains(name));
        self.announcing.extend(record.announcements.begun.iter().cloned());
        self.last_txn = record.txn;
        Ok(())
    }

    /// Follows a change of the rules. Its record has all that hooks remember, so the hooks of the new rules need none before it.
    fn follow_rules(&mut self, record: &Record) {
        if let Some(base) = &record.base {
            self.versions.clone_from(&base.versions);
        }
        self.versions.follow(record.rules.as_deref(), record.txn, &record.at, &record.by);
        if record.rules.is_none() && record.base.is_none() {
            return;
        }
        let Some(last) = self.versions.last() else { return };
        let (version, program) = &self.given;
        if version.as_ref() == Some(&last.text.fingerprint()) {
            (self.hooks, self.loaded) = (Recorded::new(program), None);
            return;
        }
        let rules = Rules::of_text(&last.text).map(Arc::new).map_err(|error| error.to_string());
        if let Ok(rules) = &rules {
            self.hooks = Recorded::new(rules.program());
        }
        self.loaded = Some(rules);
    }

    /// The rules that a controller with this configuration runs after these records: those that were loaded, until the configuration names
    /// others than it did then. If it names those that were loaded, it counts again: the next record says so. Says in the log which it is.
    pub fn rules_to_run(&mut self, configured: &Arc<Rules>) -> Arc<Rules> {
        let Some((last, instead_of)) =
            self.versions.last().and_then(|last| Some((last, last.instead_of.as_ref()?)))
        else {
            return configured.clone();
        };
        let RulesVersion { txn, at, by, .. } = last;
        let version = last.text.fingerprint();
        if configured.version().as_ref() == Some(&version) {
            info!(txn, at, by, version, "the configuration names the rules that were loaded");
            self.confirmed = true;
            return configured.clone();
        }
        if configured.version().as_ref() != Some(instead_of) {
            warn!(
                txn,
                at,
                by,
                version,
                "the configuration names other rules than when these were loaded; the configured ones run"
            );
            return configured.clone();
        }
        match &self.loaded {
            Some(Ok(rules)) => {
                info!(txn, at, by, version, "the rules that were loaded run, not those of the configuration");
                rules.clone()
            }
            other => {
                let why =
                    other.as_ref().and_then(|loaded| loaded.as_ref().err()).cloned().unwrap_or_default();
                warn!(
                    txn,
                    at,
                    by,
                    version,
                    why,
                    "this version of Weft cannot run the rules that were loaded; the configured ones run"
                );
                configured.clone()
            }
        }
    }

    /// Whether the configuration was found to name the rules that were loaded in place of those that it named then.
    pub(crate) fn confirmed(&self) -> bool {
        self.confirmed
    }

    /// Follows the revision of an object as the running controller does: what does not change an object does not count. A base says
    /// which it is.
    fn put(
        &mut self,
        key: (String, String),
        text: &ObjectText,
        txn: u64,
        recorded: Option<Revision>,
    ) -> Revision {
        let revision = match self.objects.get(&key) {
            None if let Some(recorded) = recorded => recorded,
            Some(before) if before.text == *text => return before.revision,
            Some(before) => Revision { changed: txn, ..before.revision },
            None => Revision { created: txn, changed: txn },
        };
        self.objects.insert(key, Kept { text: text.clone(), revision });
        revision
    }

    /// The last transaction; 0 if there is none.
    pub fn last_txn(&self) -> u64 {
        self.last_txn
    }

    /// The one record that can stand for all records so far. `journal` and `sum` are the identity of the journal and the checksum of its
    /// last record, `at` the time of that.
    pub fn into_base(self, journal: Arc<str>, sum: u32, at: String, rules: Option<RulesText>) -> Record {
        let History { objects, reports, rows, hooks, announcing, answered, versions, last_txn, .. } = self;
        let insert: JsonRows = rows
            .into_iter()
            .filter(|(_, rows)| !rows.is_empty())
            .map(|(table, rows)| (table.into(), rows.into_iter().map(row_of).collect()))
            .collect();
        let reported = json_rows(&reports.rows());
        // The rules may lack a table of what is reported.
        let is_there =
            reported.iter().all(|(table, rows)| insert.get(table).is_some_and(|all| all.len() == rows.len()));
        let reports = (!is_there).then(|| RowChanges { insert: reported, delete: JsonRows::new() });
        let (put, revisions) = objects.into_values().map(|kept| (kept.text, kept.revision)).unzip();
        let rules = versions.last().map(|last| (*last.text).clone()).or(rules);
        let answered = answered.all();
        let base = Base { format: Base::FORMAT, journal, sum, revisions, answered, rules, versions };
        Record {
            txn: last_txn,
            at,
            by: BASE.to_owned(),
            peer: None,
            key: None,
            insert,
            delete: JsonRows::new(),
            objects: ObjectChanges { put, delete: Vec::new() },
            reports,
            filled: None,
            memory: hooks.memories(),
            announcements: AnnouncementChanges { ended: BTreeSet::new(), begun: announcing },
            observation: false,
            rules: None,
            base: Some(Box::new(base)),
        }
    }

    /// The rows of the input tables after all records, as these rules declare them, and what their hooks remember.
    ///
    /// # Errors
    /// Objects do not fit the rules.
    pub fn inputs(self, rules: &Rules) -> Result<(Rows, Memories), RestoreError> {
        let Restored { objects, reports, memories, .. } = self.finish(rules)?;
        Ok((rules.named(rules.transaction(all_rows(&objects, &reports, rules))), memories))
    }

    /// The state after all records, for these rules.
    pub(crate) fn finish(self, rules: &Rules) -> Result<Restored, RestoreError> {
        let History { objects, reports, rows, hooks, announcing, answered, versions, last_txn, .. } = self;
        let (mut memories, rows) = (hooks.memories(), JournalRows(rows));
        memories.retain(|table, _| rules.remembers(table));
        let objects = store(&objects, rules.kinds())?;
        Ok(Restored { objects, reports, rows, memories, announcing, answered, versions, last_txn })
    }
}

impl JournalRows {
    /// The rows to insert and to delete so that the journal yields the wanted rows; `None` if it does already.
    pub(crate) fn correction(mut self, wanted: &Rows) -> Option<(JsonRows, JsonRows)> {
        let mut insert = JsonRows::new();
        for (table, rows) in &wanted.insert {
            let there = self.0.entry(table.to_string()).or_default();
            let rows = rows.iter().map(|row| row.iter().map(to_json).collect::<Vec<_>>());
            let missing: Vec<_> = rows.filter(|row| !there.remove(&text(row))).collect();
            if !missing.is_empty() {
                insert.insert(table.clone(), missing);
            }
        }
        let left = self.0.into_iter().filter(|(_, rows)| !rows.is_empty());
        let delete: JsonRows =
            left.map(|(table, rows)| (table.into(), rows.into_iter().map(row_of).collect())).collect();
        (!insert.is_empty() || !delete.is_empty()).then_some((insert, delete))
    }
}

/// The row of a text.
fn row_of(text: String) -> Vec<Json> {
    serde_json::from_str(&text).unwrap_or_else(|error| unreachable!("{text} was made from a row: {error}"))
}

/// Inserted rows as a journal has them.
fn json_rows(rows: &Rows) -> JsonRows {
    let row = |row: &Row| row.iter().map(to_json).collect();
    let tables = rows.insert.iter().filter(|(_, rows)| !rows.is_empty());
    tables.map(|(table, rows)| (table.clone(), rows.iter().map(row).collect())).collect()
}

/// Follows the memories of hooks by what a record says, and returns the changes of their tables. The present rules may lack tables that
/// hooks of earlier rules filled.
pub fn follow_hooks(
    hooks: &mut Recorded,
    memory: &Memories,
    filled: Option<&RowChanges>,
) -> Result<Vec<(TableId, TableDelta)>, String> {
    for (table, memory) in memory {
        if hooks.has(table) {
            hooks.restore(table, memory)?;
        }
    }
    let Some(RowChanges { insert, delete }) = filled else { return Ok(Vec::new()) };
    let tables: BTreeSet<&Arc<str>> = insert.keys().chain(delete.keys()).collect();
    let mut changes = Vec::new();
    for table in tables {
        if hooks.has(table) {
            let [delete, insert] =
                [delete, insert].map(|side| side.get(table).map_or(&[][..], Vec::as_slice));
            changes.push(hooks.follow(table, delete, insert)?);
        }
    }
    Ok(changes)
}

fn replay_rows(rows: &mut RowTexts, record: &Record) -> Result<(), String> {
    // The records of the earlier rows may be missing.
    let is_observed = |table: &str| table == CONNECTION;
    for (table, list) in &record.delete {
        let there = rows.entry(table.to_string()).or_default();
        for row in list {
            let text = text(row);
            if !there.remove(&text) && !is_observed(table) {
                return Err(format!("row {text} of {table} is deleted, but does not exist"));
            }
        }
    }
    for (table, list) in &record.insert {
        let there = rows.entry(table.to_string()).or_default();
        for row in list {
            if !there.insert(text(row)) && !is_observed(table) {
                return Err(format!("row {} of {table} is inserted, but already exists", text(row)));
            }
        }
    }
    Ok(())
}

/// The objects of a record with a base, validated again.
pub(crate) fn objects_of(record: &Record, kinds: &Kinds) -> Result<ObjectStore, RestoreError> {
    let mut revisions = record.base.iter().flat_map(|base| base.revisions.iter().copied());
    let mut objects = KeptObjects::new();
    for object in &record.objects.put {
        let fault = |why| RestoreError::Record { txn: record.txn, why };
        let Name { kind, id } = Name::of(object).map_err(fault)?;
        let revision = revisions.next().unwrap_or_default();
        objects.insert((kind, id), Kept { text: object.clone(), revision });
    }
    store(&objects, kinds)
}

/// The store of these objects, validated again.
pub(crate) fn store(objects: &KeptObjects, kinds: &Kinds) -> Result<ObjectStore, RestoreError> {
    let mut unknown: BTreeMap<&str, usize> = BTreeMap::new();
    for (kind, _) in objects.keys().filter(|(kind, _)| kinds.get(kind).is_none()) {
        *unknown.entry(kind).or_default() += 1;
    }
    if !unknown.is_empty() {
        let unknown = unknown.into_iter().map(|(kind, count)| (kind.to_owned(), count));
        return Err(RestoreError::Kinds(unknown.collect()));
    }
    let mut batch = Batch::stored(kinds);
    for object in objects.values() {
        batch.add_json("journal", object.text.text());
    }
    let mut store = ObjectStore::new(kinds);
    let mut changes =
        store.plan(batch).map_err(|faults| RestoreError::Objects(Refusal::Objects { faults }))?;
    changes.restore_revisions(|ObjectKey { kind, id }| {
        objects.get(&(kind.to_string(), id.to_string())).map(|kept| kept.revision).unwrap_or_default()
    });
    store.commit(&changes);
    Ok(store)
}

/// The kinds that the rules lack, each with the number of its objects, and the remedies.
fn objects_without_kinds(kinds: &[(String, usize)]) -> String {
    let each = kinds.iter().map(|(kind, count)| format!("{} ({})", cut(kind), grouped(*count)));
    format!(
        "the state has objects of kinds that the rules do not declare: {}; add the package that declares them to `rules` again, \
         or delete these objects first, with the package still loaded (`weft get KIND > objects.yaml`, `weft delete -f objects.yaml`)",
        names(each.collect::<Vec<_>>().iter())
    )
}

/// What the rules refuse about a state, and the remedy. A row that forbids the state has a line, in the words of a refused
/// request.
pub(crate) fn refusal_of_state(error: &TransactionError, remedy: &str) -> String {
    let error = error.clone().forbidden_first();
    let Some(forbidden) = error.forbidden.first() else { return format!("{error}; {remedy}") };
    match ChangeSet::default().refused_by(&error) {
        Some(faults) => {
            let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
            format!("they refuse objects; {remedy}:\n{}", faults.join("\n"))
        }
        None => format!("{error}; {remedy}:\n{}", forbidden_rows(forbidden).join("\n")),
    }
}

/// The rows of a table that forbids its rows, as atoms, and how many more there are.
fn forbidden_rows(forbidden: &ForbiddenRows) -> Vec<String> {
    let atom = |row: &Row| {
        let values: Vec<String> = row.iter().map(ToString::to_string).collect();
        format!("{}({})", forbidden.table, values.join(", "))
    };
    let mut lines: Vec<String> = forbidden.rows.iter().map(atom).collect();
    let more = forbidden.count.saturating_sub(lines.len());
    if more > 0 {
        lines.push(format!("{more} more rows are not listed"));
    }
    lines
}
