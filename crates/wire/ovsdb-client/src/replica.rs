//! A copy of the monitored columns, and the changes that lead from one state to the next.
//!
//! Invariant: applying all batches of changes in order yields exactly the replica. A malformed update changes nothing.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use peer_connection::{Charge, OverBudget};
use serde_json::Value;
use uuid::Uuid;

use crate::known::Known;
use crate::row::{COLUMNS_MAX, ColumnError, ROW_BYTES_MAX, Row};
use crate::schema::{AtomType, ColumnType, Schema};
use crate::text::{PartsError, elements, member, members};
use crate::transact::{Operation, RESULT_MEMBERS_MAX};
use crate::value::{Datum, FromDatum, ValueError, shorten};

/// The most rows of one update. A bridge has at most 65,279 ports, with two rows each.
pub(crate) const ROWS_MAX: usize = 200_000;
/// The longest row that refers to others, in bytes: 65,279 references of 48 bytes, and some more.
pub(crate) const REFERRING_ROW_BYTES_MAX: usize = 4 << 20;

/// The column that every row has.
const UUID: &str = "_uuid";

/// The tables and columns to monitor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MonitorSpec {
    tables: BTreeMap<String, BTreeSet<String>>,
    /// Columns to monitor where the schema has them.
    optional: BTreeMap<String, BTreeSet<String>>,
}

impl MonitorSpec {
    /// Monitors nothing, for a client that only runs transactions.
    pub fn nothing() -> Self {
        MonitorSpec::default()
    }

    /// Adds these columns of a table. An empty list means every column of the schema.
    pub fn table(mut self, table: impl Into<String>, columns: &[&str]) -> Self {
        self.tables.insert(table.into(), columns.iter().map(|column| (*column).to_owned()).collect());
        self
    }

    /// Adds those of these columns of a table that the schema has: other versions of the database may have none of them, or no
    /// such table. [`Client::monitors`](crate::Client::monitors) tells. Later calls for the same table add to it.
    pub fn where_present(mut self, table: impl Into<String>, columns: &[&str]) -> Self {
        let wanted = self.optional.entry(table.into()).or_default();
        wanted.extend(columns.iter().map(|column| (*column).to_owned()));
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tables.is_empty() && self.optional.is_empty()
    }
}

/// A row that was inserted, deleted or modified. `old` and `new` have all monitored columns, defaults included, and
/// differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The table.
    pub table: Arc<str>,
    /// The UUID of the row.
    pub uuid: Uuid,
    /// The row before; `None` if it was inserted.
    pub old: Option<Row>,
    /// The row after; `None` if it was deleted.
    pub new: Option<Row>,
}

/// The reason why an update from the server does not fit the schema or the replica.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplicaError {
    /// The schema lacks a monitored table or column.
    #[error("the database's schema {version} has no {what}, which the client monitors")]
    NotInSchema {
        /// The schema's version.
        version: String,
        /// `table T` or `column C in table T`.
        what: String,
    },
    /// A column's value does not have its type, or the column is not monitored.
    #[error(transparent)]
    Column(#[from] ColumnError),
    /// An update refers to a row that the replica does not have.
    #[error("{table}: row {uuid} is reported as {how}, but it is unknown")]
    UnknownRow {
        /// The table.
        table: String,
        /// The row.
        uuid: Uuid,
        /// `modified` or `deleted`.
        how: &'static str,
    },
    /// An update is larger than any that an Open vSwitch makes.
    #[error(
        "{place}: {what}, and at most {max} are read: something fills the database, or another program answers in its place"
    )]
    TooLarge {
        /// The table or row.
        place: String,
        /// What is too large.
        what: &'static str,
        /// The limit.
        max: usize,
    },
    /// The peer makes its owner hold too much memory.
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
    /// The update does not have the form of RFC 7047 or `ovsdb-server(7)`.
    #[error("an update has the wrong form: wanted {wanted}, got {got}")]
    Form {
        /// The expected form.
        wanted: &'static str,
        /// The value received, shortened.
        got: String,
    },
}

/// The notation of updates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// RFC 7047: whole `old` and `new` rows.
    Update1,
    /// `ovsdb-server(7)`: `initial`, `insert`, `modify`, `delete`; also that of `update3`.
    Update2,
}

/// The columns to monitor with their types: the specification resolved against a schema.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Layout(BTreeMap<Arc<str>, BTreeMap<Arc<str>, ColumnType>>);

/// The layouts in use.
static LAYOUTS: Known<Layout> = Known::new();

impl Layout {
    /// The equal layout that another connection uses, or else this one.
    pub(crate) fn shared(self) -> Arc<Layout> {
        LAYOUTS.share(self)
    }

    pub(crate) fn resolve(spec: &MonitorSpec, schema: &Schema) -> Result<Self, ReplicaError> {
        let missing = |what| ReplicaError::NotInSchema { version: schema.version.clone(), what };
        let mut layout: BTreeMap<Arc<str>, BTreeMap<Arc<str>, ColumnType>> = BTreeMap::new();
        for (table, wanted) in &spec.tables {
            let (name, all) = schema
                .tables
                .get_key_value(table.as_str())
                .ok_or_else(|| missing(format!("table {table}")))?;
            if let Some(column) = wanted.iter().find(|column| !all.contains_key(column.as_str())) {
                return Err(missing(format!("column {column} in table {table}")));
            }
            let columns = all
                .iter()
                .filter(|(column, _)| wanted.is_empty() || wanted.contains(&***column))
                .map(|(column, column_type)| (column.clone(), *column_type));
            layout.insert(name.clone(), columns.collect());
        }
        for (table, wanted) in &spec.optional {
            let Some((name, all)) = schema.tables.get_key_value(table.as_str()) else { continue };
            let columns = all.iter().filter(|(column, _)| wanted.contains(&***column));
            let columns: Vec<_> = columns.map(|(name, of_type)| (name.clone(), *of_type)).collect();
            if !columns.is_empty() {
                layout.entry(name.clone()).or_default().extend(columns);
            }
        }
        Ok(Layout(layout))
    }

    /// Whether a column is monitored.
    pub(crate) fn has(&self, table: &str, column: &str) -> bool {
        self.0.get(table).is_some_and(|columns| columns.contains_key(column))
    }

    /// The longest row of a table, in bytes. Rows that refer to others, as a bridge to its ports, may refer to many.
    fn row_bytes_max(columns: &BTreeMap<Arc<str>, ColumnType>) -> usize {
        let refers = |kind: &ColumnType| [Some(kind.key), kind.value].contains(&Some(AtomType::Uuid));
        let long = columns.values().any(|kind| kind.is_composite() && refers(kind));
        if long { REFERRING_ROW_BYTES_MAX } else { ROW_BYTES_MAX }
    }

    /// The number of monitored tables.
    fn len(&self) -> usize {
        self.0.len()
    }

    /// The operations that read what is monitored, for [`Replica::selected`].
    pub(crate) fn selects(&self) -> Vec<Operation> {
        let select = |(table, columns): (&Arc<str>, &BTreeMap<Arc<str>, ColumnType>)| {
            let columns: Vec<&str> = columns.keys().map(|column| &**column).chain([UUID]).collect();
            Operation::select(&**table, Vec::new(), &columns)
        };
        self.0.iter().map(select).collect()
    }

    /// The `<monitor-requests>` object.
    pub(crate) fn to_json(&self) -> Value {
        let tables = self.0.iter().map(|(table, columns)| {
            let columns: Vec<&str> = columns.keys().map(|column| &**column).collect();
            (table.to_string(), serde_json::json!([{ "columns": columns }]))
        });
        Value::Object(tables.collect())
    }
}

/// The monitored rows, by table and UUID.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Replica {
    tables: BTreeMap<Arc<str>, BTreeMap<Uuid, Row>>,
}

impl Replica {
    /// The rows of a table; none if the table is empty or not monitored.
    pub fn rows(&self, table: &str) -> impl Iterator<Item = (Uuid, &Row)> {
        self.tables.get(table).into_iter().flatten().map(|(uuid, row)| (*uuid, row))
    }

    /// One row.
    pub fn row(&self, table: &str, uuid: Uuid) -> Option<&Row> {
        self.tables.get(table)?.get(&uuid)
    }

    /// Applies changes. A receiver of batches can keep its own replica this way.
    pub fn apply(&mut self, changes: &[Change]) {
        for change in changes {
            let rows = self.tables.entry(change.table.clone()).or_default();
            match &change.new {
                Some(row) => rows.insert(change.uuid, row.clone()),
                None => rows.remove(&change.uuid),
            };
        }
        self.tables.retain(|_, rows| !rows.is_empty());
    }

    /// The changes that lead from this replica to `later`.
    pub fn difference(&self, later: &Replica) -> Vec<Change> {
        let tables: BTreeSet<&Arc<str>> = self.tables.keys().chain(later.tables.keys()).collect();
        let mut changes = Vec::new();
        for table in tables {
            let (old, new) = (self.tables.get(table), later.tables.get(table));
            let uuids: BTreeSet<&Uuid> = old.into_iter().chain(new).flat_map(BTreeMap::keys).collect();
            for uuid in uuids {
                let old = old.and_then(|rows| rows.get(uuid)).cloned();
                let new = new.and_then(|rows| rows.get(uuid)).cloned();
                if old != new {
                    changes.push(Change { table: table.clone(), uuid: *uuid, old, new });
                }
            }
        }
        changes
    }

    /// About the memory that it takes, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.tables.values().flat_map(BTreeMap::values).map(Row::memory).sum()
    }

    /// The replica that the results of [`Layout::selects`] describe. Its rows are charged to `memory`.
    pub(crate) fn selected(
        layout: &Layout,
        results: &str,
        memory: &mut Charge,
    ) -> Result<Replica, ReplicaError> {
        let mut replica = Replica::default();
        let parts = elements(results, layout.len()).unwrap_or_default();
        if parts.len() != layout.len() {
            return Err(form("a result for each monitored table", results));
        }
        let mut left = ROWS_MAX;
        for ((table, columns), result) in layout.0.iter().zip(parts) {
            let result = object(table, result, RESULT_MEMBERS_MAX)?;
            let rows = elements(member(&result, "rows"), left).map_err(|problem| match problem {
                PartsError::Form => form("the rows of a table", member(&result, "error")),
                PartsError::TooMany(max) => {
                    ReplicaError::TooLarge { place: table.to_string(), what: "it has more rows", max }
                }
            })?;
            left -= rows.len();
            let read = |text: &&str| {
                let members = object(table, text, COLUMNS_MAX)?;
                let uuid = Datum::from_text(member(&members, UUID)).ok();
                let uuid = uuid.and_then(|uuid| FromDatum::from_datum(&uuid));
                let reader = RowReader { table, columns, uuid: uuid.ok_or_else(|| form("a uuid", text))? };
                reader.check_size(text)?;
                let row = reader.whole(members.into_iter().filter(|(name, _)| name != UUID))?;
                memory.add(row.memory())?;
                Ok((reader.uuid, row))
            };
            let rows: BTreeMap<Uuid, Row> = rows.iter().map(read).collect::<Result<_, ReplicaError>>()?;
            if !rows.is_empty() {
                replica.tables.insert(table.clone(), rows);
            }
        }
        Ok(replica)
    }

    /// The changes that an update makes. Does not apply them. The new rows are charged to `memory`.
    pub(crate) fn decode(
        &self,
        layout: &Layout,
        updates: &str,
        format: Format,
        memory: &mut Charge,
    ) -> Result<Vec<Change>, ReplicaError> {
        let mut changes = Vec::new();
        let mut left = ROWS_MAX;
        let mut tables = BTreeSet::new();
        for (table, rows) in object("an update", updates, COLUMNS_MAX)? {
            let (table, columns) = layout.0.get_key_value(table.as_str()).ok_or_else(|| {
                let problem = ValueError::of_text("a monitored table", rows);
                ColumnError::new(&table, "(row)", problem)
            })?;
            if !tables.insert(table) {
                return Err(form("no table twice", rows));
            }
            let rows = object(table, rows, left)?;
            left -= rows.len();
            // A change of a row copies it, which may be 4 MiB for a change of few bytes: once.
            let mut seen = HashSet::new();
            for (uuid, update) in rows {
                let uuid: Uuid = uuid.parse().map_err(|_| form("a uuid", &uuid))?;
                if !seen.insert(uuid) {
                    return Err(form("no row twice", update));
                }
                let old = self.row(table, uuid).cloned();
                let reader = RowReader { table, columns, uuid };
                reader.check_size(update)?;
                let new = match format {
                    Format::Update1 => reader.update1(update)?,
                    Format::Update2 => reader.update2(old.as_ref(), update)?,
                };
                memory.add(new.as_ref().map_or(0, Row::memory))?;
                if old != new {
                    changes.push(Change { table: table.clone(), uuid, old, new });
                }
            }
        }
        Ok(changes)
    }
}

/// Merges consecutive batches: for each row the first `old` and the last `new`.
pub(crate) fn merge(changes: impl IntoIterator<Item = Change>) -> Vec<Change> {
    let mut merged: BTreeMap<(Arc<str>, Uuid), Change> = BTreeMap::new();
    for change in changes {
        merged
            .entry((change.table.clone(), change.uuid))
            .and_modify(|first| first.new.clone_from(&change.new))
            .or_insert(change);
    }
    merged.into_values().filter(|change| change.old != change.new).collect()
}

struct RowReader<'a> {
    table: &'a Arc<str>,
    columns: &'a BTreeMap<Arc<str>, ColumnType>,
    uuid: Uuid,
}

impl RowReader<'_> {
    fn check_size(&self, text: &str) -> Result<(), ReplicaError> {
        let max = Layout::row_bytes_max(self.columns);
        if text.len() <= max {
            return Ok(());
        }
        let place = format!("{}: row {}", self.table, self.uuid);
        Err(ReplicaError::TooLarge { place, what: "it has more bytes", max })
    }

    fn update1(&self, update: &str) -> Result<Option<Row>, ReplicaError> {
        match member(&object(self.table, update, COLUMNS_MAX)?, "new") {
            "null" => Ok(None),
            new => self.whole(object(self.table, new, COLUMNS_MAX)?).map(Some),
        }
    }

    fn update2(&self, old: Option<&Row>, update: &str) -> Result<Option<Row>, ReplicaError> {
        let unknown = |how| ReplicaError::UnknownRow { table: self.table.to_string(), uuid: self.uuid, how };
        let parts = object(self.table, update, COLUMNS_MAX)?;
        let [(kind, columns)] = parts.as_slice() else {
            return Err(form("one of initial, insert, modify, delete", update));
        };
        match kind.as_str() {
            "initial" | "insert" => self.whole(object(self.table, columns, COLUMNS_MAX)?).map(Some),
            "modify" => self.modified(old.ok_or_else(|| unknown("modified"))?, columns).map(Some),
            "delete" => old.map(|_| None).ok_or_else(|| unknown("deleted")),
            _ => Err(form("one of initial, insert, modify, delete", update)),
        }
    }

    /// A whole row. Columns that are left out have their defaults.
    fn whole<'a>(&self, columns: impl IntoIterator<Item = (String, &'a str)>) -> Result<Row, ReplicaError> {
        let defaults = self.columns.iter().map(|(column, kind)| (column.clone(), kind.default_datum()));
        let mut row = Row::sorted(self.table.clone(), defaults.collect());
        for (column, notation) in columns {
            let (name, column_type) = self.column(&column, notation)?;
            row.set(name, self.decode(&column, column_type, notation)?);
        }
        Ok(row)
    }

    fn modified(&self, old: &Row, columns: &str) -> Result<Row, ReplicaError> {
        let mut row = old.clone();
        for (column, notation) in object(self.table, columns, COLUMNS_MAX)? {
            let (name, column_type) = self.column(&column, notation)?;
            if column_type.is_composite() {
                // A difference may have up to twice the elements that the column may have.
                let difference = ColumnType { max: usize::MAX, ..column_type };
                let difference = self.decode(&column, difference, notation)?;
                let mut datum = old.datum(&column).cloned().unwrap_or_else(|| column_type.default_datum());
                datum.apply_difference(difference);
                row.set(name, datum);
            } else {
                row.set(name, self.decode(&column, column_type, notation)?);
            }
        }
        Ok(row)
    }

    fn column(&self, column: &str, notation: &str) -> Result<(Arc<str>, ColumnType), ColumnError> {
        let found = self.columns.get_key_value(column);
        found.map(|(name, column_type)| (name.clone(), *column_type)).ok_or_else(|| {
            ColumnError::new(self.table, column, ValueError::of_text("a monitored column", notation))
        })
    }

    fn decode(&self, column: &str, column_type: ColumnType, notation: &str) -> Result<Datum, ColumnError> {
        column_type.decode_text(notation).map_err(|problem| ColumnError::new(self.table, column, problem))
    }
}

/// The members of an object. `place` names it where there are too many.
fn object<'a>(place: &str, text: &'a str, max: usize) -> Result<Vec<(String, &'a str)>, ReplicaError> {
    members(text, max).map_err(|problem| match problem {
        PartsError::Form => form("an object", text),
        PartsError::TooMany(max) => {
            ReplicaError::TooLarge { place: place.to_owned(), what: "it has more members", max }
        }
    })
}

fn form(wanted: &'static str, got: &str) -> ReplicaError {
    ReplicaError::Form { wanted, got: shorten(got) }
}

#[cfg(test)]
mod memory;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Datum;
    use peer_connection::PeerMemory;
    use serde_json::json;

    const ID: &str = "550e8400-e29b-41d4-a716-446655440000";

    fn layout() -> Layout {
        let columns = json!({
            "name": {"type": "string"},
            "tag": {"type": {"key": "string", "min": 0}},
            "few": {"type": {"key": "string", "min": 0, "max": 2}},
            "ids": {"type": {"key": "string", "value": "string", "min": 0, "max": "unlimited"}},
            "other": {"type": "integer"},
        });
        let schema = json!({"name": "D", "version": "1.0.0", "tables": {"T": {"columns": columns}}});
        let schema = Schema::from_json(&schema).expect("a schema");
        let spec = MonitorSpec::nothing().table("T", &["name", "tag", "few", "ids"]);
        Layout::resolve(&spec, &schema).expect("in the schema")
    }

    fn decode(replica: &Replica, updates: &Value, format: Format) -> Result<Vec<Change>, ReplicaError> {
        let mut memory = PeerMemory::default().account().charge();
        replica.decode(&layout(), &updates.to_string(), format, &mut memory)
    }

    fn update(replica: &mut Replica, kind: &str, row: &Value) -> Result<Vec<Change>, ReplicaError> {
        let changes = decode(replica, &json!({"T": {ID: {kind: row}}}), Format::Update2)?;
        replica.apply(&changes);
        Ok(changes)
    }

    fn row(replica: &Replica) -> &Row {
        replica.rows("T").next().expect("a row").1
    }

    #[test]
    fn modify_of_an_optional_column_replaces_and_of_a_set_toggles() {
        let mut replica = Replica::default();
        update(
            &mut replica,
            "initial",
            &json!({"tag": "a", "few": "a", "ids": ["map", [["k", "1"], ["l", "2"]]]}),
        )
        .expect("fits");
        assert_eq!(row(&replica).get::<String>("name"), Ok(String::new()), "a default that was left out");
        let changes = update(&mut replica, "modify", &json!({"tag": "b", "few": "b"})).expect("fits");
        assert_eq!(row(&replica).datum("tag"), Some(&Datum::from("b")));
        assert_eq!(row(&replica).datum("few"), Some(&Datum::set(["a", "b"])));
        assert_eq!(changes[0].old.as_ref().and_then(|old| old.datum("few")), Some(&Datum::from("a")));
        // All elements are replaced: the difference has four, although the column takes at most two.
        update(&mut replica, "modify", &json!({"few": ["set", ["a", "b", "c", "d"]]})).expect("fits");
        assert_eq!(row(&replica).datum("few"), Some(&Datum::set(["c", "d"])));
        update(&mut replica, "modify", &json!({"ids": ["map", [["k", "1"], ["l", "3"], ["m", "4"]]]}))
            .expect("fits");
        assert_eq!(row(&replica).datum("ids"), Some(&Datum::map([("l", "3"), ("m", "4")])));
        let changes = update(&mut replica, "delete", &json!(null)).expect("fits");
        assert_eq!((changes.len(), &changes[0].new), (1, &None));
        assert_eq!(replica, Replica::default());
    }

    #[test]
    fn a_bad_update_is_told_and_changes_nothing() {
        let mut replica = Replica::default();
        update(&mut replica, "insert", &json!({"name": "x"})).expect("fits");
        let before = replica.clone();
        for (updates, says) in [
            (json!({"U": {ID: {"delete": null}}}), "U.(row): wanted a monitored table"),
            (json!({"T": {ID: {"modify": {"other": 1}}}}), "T.other: wanted a monitored column"),
            (json!({"T": {ID: {"modify": {"name": 1}}}}), "T.name: wanted string, got 1"),
            (json!({"T": {ID: {"modify": {"tag": ["set", ["a", "b"]]}}}}), "T.tag: wanted at most 1"),
            (json!({"T": {ID: {"modify": {"ids": "a"}}}}), "T.ids: wanted a map"),
            (json!({"T": {Uuid::nil().to_string(): {"modify": {}}}}), "modified, but it is unknown"),
            (json!({"T": {Uuid::nil().to_string(): {"delete": null}}}), "deleted, but it is unknown"),
            (json!({"T": {"x": {"delete": null}}}), "wanted a uuid"),
            (json!({"T": {ID: {"replace": {}}}}), "wanted one of initial"),
            (json!({"T": {ID: {}}}), "wanted one of initial"),
            (json!({"T": []}), "wanted an object"),
        ] {
            let error = decode(&replica, &updates, Format::Update2).expect_err(says).to_string();
            assert!(error.contains(says), "{error} / {says}");
        }
        assert_eq!(replica, before);
    }

    #[test]
    fn updates_of_rfc_7047_carry_whole_rows() {
        let mut replica = Replica::default();
        for (update, rows) in [
            (json!({"T": {ID: {"new": {"name": "x", "few": ["set", ["a", "b"]]}}}}), 1),
            (json!({"T": {ID: {"old": {"few": ["set", ["a", "b"]]}, "new": {"name": "x", "few": "c"}}}}), 1),
            (json!({"T": {ID: {"old": {"name": "x", "few": "c"}}}}), 0),
        ] {
            let changes = decode(&replica, &update, Format::Update1).expect("fits");
            replica.apply(&changes);
            assert_eq!(replica.rows("T").count(), rows);
            if update["T"][ID]["old"].is_object() && rows == 1 {
                assert_eq!(row(&replica).datum("few"), Some(&Datum::from("c")));
            }
        }
    }

    #[test]
    fn merged_batches_lead_to_the_same_state() {
        let uuid = |n| Uuid::from_u128(n);
        let row = |name: &str| Some(Row::new("T").with("name", name));
        let change = |n, old, new| Change { table: "T".into(), uuid: uuid(n), old, new };
        let batch = merge([
            change(1, None, row("a")),
            change(2, row("b"), row("c")),
            change(3, None, row("d")),
            change(1, row("a"), row("e")),
            change(2, row("c"), row("b")),
            change(3, row("d"), None),
        ]);
        assert_eq!(batch, [change(1, None, row("e"))]);
    }

    #[test]
    fn what_is_not_in_the_schema_cannot_be_monitored() {
        let schema =
            Schema::from_json(&json!({"name": "D", "version": "2.0.0", "tables": {"T": {"columns": {}}}}));
        let schema = schema.expect("a schema");
        for (spec, what) in [
            (MonitorSpec::nothing().table("U", &[]), "table U"),
            (MonitorSpec::nothing().table("T", &["c"]), "column c in table T"),
        ] {
            let error = Layout::resolve(&spec, &schema).expect_err(what).to_string();
            assert_eq!(
                error,
                format!("the database's schema 2.0.0 has no {what}, which the client monitors")
            );
        }
    }

    #[test]
    fn optional_columns_are_monitored_where_the_schema_has_them() {
        let columns = json!({"columns": {"a": {"type": "string"}, "b": {"type": "string"}}});
        let schema = Schema::from_json(&json!({"name": "D", "version": "2.0.0", "tables": {"T": columns}}));
        let spec =
            MonitorSpec::nothing().table("T", &["a"]).where_present("T", &["b"]).where_present("T", &["c"]);
        let spec = spec.where_present("U", &["a"]);
        let layout =
            Layout::resolve(&spec, &schema.expect("a schema")).expect("no column is needed that it lacks");
        let has = |table: &str, column: &str| layout.has(table, column);
        assert_eq!([has("T", "a"), has("T", "b"), has("T", "c"), has("U", "a")], [true, true, false, false]);
    }
}
